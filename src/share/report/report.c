/* SPDX-License-Identifier: MIT */
/*
 * Answers to questions about what this process shares; see report.h.
 *
 * All of it runs on the service thread, the only one that ends exports and changes their importers: what is found in
 * these lists stays until the answer is written.
 */
#include "base/descriptor.h"
#include "share/pool/export_internal.h"
#include "share/port/port_internal.h"
#include "share/report/status.h"

#include <string.h>

enum { HOLDER_LOOKS_MAX = 2048 /* per cell, but at least one block */ };

_Static_assert(CN_REPORT_CELLS_MAX <= 1 << 24, "as many as a pool draws");

/* Which importer holds the block of a slot? Importers come and go only on this thread. */
static uint64_t holder_of(struct cn_export *export, uint32_t slot)
{
	uint64_t holder = 0;

	cn_lock(&export->lock);
	uint64_t generation = slot && slot <= export->slot_top ? export->slots[slot].generation : 0;
	cn_unlock(&export->lock);
	if (!generation)
		return 0;
	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next) {
		if (!cn_importer_holds(importer, slot))
			continue;
		if (holder)
			return CN_REPORT_SEVERAL;
		holder = importer->id;
	}
	return holder;
}

/*
 * The holder of the largest block of a cell that an importer holds: blocks without a holder are of no interest. Where
 * there are many blocks and importers, only some of the blocks are checked.
 */
static uint64_t holder_in(struct cn_export *export, const struct cn_pool_cell *cell)
{
	unsigned each = export->importer_count ? export->importer_count : 1;
	uint32_t largest = 0;
	uint64_t found = 0;

	for (unsigned i = 0; i < cell->block_count && (!i || (i + 1) * each <= HOLDER_LOOKS_MAX); i++) {
		if (cell->blocks[i].units <= largest)
			continue;
		uint64_t holder = holder_of(export, cell->blocks[i].tag);
		if (holder) {
			found = holder;
			largest = cell->blocks[i].units;
		}
	}
	return found;
}

static bool report_cells(struct cn_export *export, const struct cn_message *request, struct cn_message *reply)
{
	uint64_t first = request->words[CN_REPORT_FIRST_CELL], of = request->words[CN_REPORT_CELL_COUNT];
	struct cn_report_cells body = {0};
	struct cn_pool_cell cell;

	if (!of || of > CN_REPORT_CELLS_MAX || first >= of)
		return false;
	uint64_t count = of - first < CN_REPORT_CELLS_EACH ? of - first : CN_REPORT_CELLS_EACH;
	body.cursor = request->words[CN_REPORT_CURSOR];
	cn_export_scan_ended(export);
	for (uint64_t i = 0; i < count; i++) {
		body.picture_bytes = cn_pool_draw_cell(export->pool, first + i, of, &body.cursor, &cell);
		body.kinds[i] = (unsigned char)cell.kind;
		body.holders[i] = holder_in(export, &cell);
	}
	memcpy(cn_report_body(reply), &body, sizeof body);
	return true;
}

/* ---- Which process holds something ---- */

static const struct cn_importer *find_importer(const struct cn_export *export, uint64_t id)
{
	const struct cn_importer *importer = export->importers;

	while (importer && !(importer->joined && importer->id == id))
		importer = importer->next;
	return importer;
}

/* A descriptor of a process, for the reply; CUDA_ERROR_NOT_FOUND: there is no such holder, or no descriptor of it. */
static void report_holder(const struct cn_export *export, uint64_t id, struct cn_parcel *reply)
{
	const struct cn_importer *importer = export ? find_importer(export, id) : NULL;
	int fd = -1;

	if (importer && importer->pidfd >= 0)
		fd = fcntl(importer->pidfd, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
	else if (!export)
		fd = cn_port_opener_process(id);
	if (fd < 0) {
		reply->message.result = CUDA_ERROR_NOT_FOUND;
		return;
	}
	reply->descriptors[0] = fd;
	reply->descriptor_count = 1;
}

/* ---- Questions ---- */

static struct cn_export *find_export(uint64_t id)
{
	struct cn_export *export = id ? cn_export_after(id - 1) : NULL;

	return export && export->id == id ? export : NULL;
}

bool cn_report_serve(const struct cn_message *request, struct cn_parcel *reply)
{
	uint64_t id = request->words[CN_REPORT_POOL_ID], sequence;
	struct cn_export *export = find_export(id);

	switch (request->words[CN_REPORT_WHAT]) {
	case CN_REPORT_REFRESH: /* it may be written now: cn_report_may_refresh() */
		sequence = cn_status_write();
		reply->message.words[0] = sequence;
		reply->message.result = sequence ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
		return true;
	case CN_REPORT_CELLS:
		if (export)
			return report_cells(export, request, &reply->message);
		break;
	case CN_REPORT_HOLDER:
		if (export || !id) {
			report_holder(export, request->words[CN_REPORT_IMPORTER_ID], reply);
			return true;
		}
		break;
	default: return false;
	}
	reply->message.result = CUDA_ERROR_NOT_FOUND;
	return true;
}
