/* SPDX-License-Identifier: MIT */
/*
 * Answers to the question what this process shares; see report.h.
 *
 * All of it runs on the service thread, the only one that ends exports and changes their importers: what is found in
 * these lists stays until the answer is written.
 */
#include "share/report/report.h"
#include "share/pool/export_internal.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFERRED_LOOKS_MAX = 1024, HOLDER_LOOKS_MAX = 2048 /* per cell, but at least one block */ };

_Static_assert(CN_REPORT_CELLS_MAX <= 1 << 24, "as many as a pool draws");

uint64_t cn_report_pid_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) ? 0 : status.st_ino;
}

static void report_process(unsigned opener_count, struct cn_message *reply)
{
	struct cn_report_process body = {
		.pid = (uint64_t)getpid(),
		.pid_namespace = cn_report_pid_namespace(),
		.pool_count = cn_exports_count(),
		.opener_count = opener_count,
		.flags = cn_device_ops && strcmp(cn_device_ops->name, "cuda") == 0 ? CN_REPORT_ON_GPU : 0,
	};

	strncpy(body.program, program_invocation_short_name, sizeof body.program - 1);
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static void report_pool(struct cn_export *export, struct cn_message *reply)
{
	struct cn_report_pool body = {
		.id = export->id,
		.location_type = export->facts.location_type,
		.location_id = export->facts.location_id,
		.age_ns = cn_clock_ns() - export->created_ns,
		.limit_bytes = atomic_load(&cn_export_control(export)->limit_bytes),
	};

	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next)
		body.importer_count += importer->joined;
	cn_export_scan_ended(export);
	cn_pool_peek_usage(export->pool, &body.used_bytes, &body.reserved_bytes);
	cn_lock(&export->lock);
	body.exported_count = export->slot_count;
	body.exported_bytes = export->slot_bytes;
	body.deferred_count = export->deferred_count;
	body.deferred_bytes = export->deferred_bytes;
	cn_unlock(&export->lock);
	memcpy(cn_report_body(reply), &body, sizeof body);
}

/* The importer with the next higher id; NULL: there is none. */
static const struct cn_importer *importer_after(const struct cn_export *export, uint64_t id)
{
	const struct cn_importer *next = NULL;

	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next)
		if (importer->joined && importer->id > id && (!next || importer->id < next->id))
			next = importer;
	return next;
}

static void report_importer(struct cn_export *export, const struct cn_importer *importer, struct cn_message *reply)
{
	uint64_t now_ns = cn_clock_ns();
	struct cn_importer_facts facts;

	bool all = cn_export_describe(export, importer, DEFERRED_LOOKS_MAX, &facts);
	struct cn_report_importer body = {
		.id = facts.id,
		.pid = (uint32_t)facts.pid,
		.uid = facts.uid,
		.flags = (facts.leaving ? CN_REPORT_LEAVING : 0) | (all ? 0 : CN_REPORT_AT_LEAST),
		.held_count = facts.held_count,
		.held_bytes = facts.held_bytes,
		.deferred_count = facts.deferred_count,
		.deferred_bytes = facts.deferred_bytes,
		.age_ns = now_ns - facts.joined_ns,
		.waiting_ns = facts.waiting_since_ns ? now_ns - facts.waiting_since_ns : 0,
	};
	memcpy(cn_report_body(reply), &body, sizeof body);
}

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

/* ---- What was given out by handles ---- */

static void report_handles(enum cn_handle_kind kind, struct cn_message *reply)
{
	struct cn_port_object_sums sums;

	cn_port_object_sum(kind, &sums);
	if (!sums.count && !sums.deferred_count) {
		reply->result = CUDA_ERROR_NOT_FOUND;
		return;
	}
	struct cn_report_handles body = {
		.kind = kind,
		.shared_count = sums.count,
		.shared_bytes = sums.bytes,
		.deferred_count = sums.deferred_count,
		.deferred_bytes = sums.deferred_bytes,
		.opener_count = cn_port_opener_count(kind),
		.age_ns = cn_clock_ns() - sums.first_ns,
	};
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static void report_opener(enum cn_handle_kind kind, uint64_t id, struct cn_message *reply)
{
	const struct cn_port_client *client = cn_port_opener_after(kind, id);
	struct cn_port_opening_sum deferred;

	if (!client) {
		reply->result = CUDA_ERROR_NOT_FOUND;
		return;
	}
	bool all = cn_port_opening_deferred(client, kind, DEFERRED_LOOKS_MAX, &deferred);
	uint64_t now_ns = cn_clock_ns();
	struct cn_report_importer body = {
		.id = client->id,
		.pid = (uint32_t)client->pid,
		.uid = client->uid,
		.flags = (client->channel.watched ? 0 : CN_REPORT_LEAVING) | (all ? 0 : CN_REPORT_AT_LEAST),
		.held_count = client->open[kind].count,
		.held_bytes = client->open[kind].bytes,
		.deferred_count = deferred.count,
		.deferred_bytes = deferred.bytes,
		.age_ns = now_ns - client->open[kind].since_ns,
		.waiting_ns = deferred.count ? now_ns - deferred.since_ns : 0,
	};
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static bool report_by_handle(const struct cn_message *request, struct cn_message *reply)
{
	uint64_t kind = request->words[CN_REPORT_KIND];

	if (kind != CN_HANDLE_EVENT && kind != CN_HANDLE_MEMORY)
		return false;
	if (request->words[CN_REPORT_WHAT] == CN_REPORT_HANDLES)
		report_handles((enum cn_handle_kind)kind, reply);
	else
		report_opener((enum cn_handle_kind)kind, request->words[CN_REPORT_IMPORTER_ID], reply);
	return true;
}

bool cn_report_serve(const struct cn_message *request, unsigned opener_count, struct cn_message *reply)
{
	uint64_t what = request->words[CN_REPORT_WHAT], id = request->words[CN_REPORT_POOL_ID];
	const struct cn_importer *importer = NULL;
	struct cn_export *export = NULL;
	bool known = true;

	switch (what) {
	case CN_REPORT_PROCESS: report_process(opener_count, reply); return true;
	case CN_REPORT_HANDLES:
	case CN_REPORT_OPENER: return report_by_handle(request, reply);
	case CN_REPORT_POOL: export = cn_export_after(id); break;
	case CN_REPORT_IMPORTER:
	case CN_REPORT_CELLS:
		export = id ? cn_export_after(id - 1) : NULL;
		if (export && export->id != id)
			export = NULL;
		break;
	default: return false;
	}
	if (export && what == CN_REPORT_IMPORTER)
		importer = importer_after(export, request->words[CN_REPORT_IMPORTER_ID]);
	if (!export || (what == CN_REPORT_IMPORTER && !importer))
		reply->result = CUDA_ERROR_NOT_FOUND;
	else if (importer)
		report_importer(export, importer, reply);
	else if (what == CN_REPORT_POOL)
		report_pool(export, reply);
	else
		known = report_cells(export, request, reply);
	return known;
}
