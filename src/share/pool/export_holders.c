/* SPDX-License-Identifier: MIT */
/*
 * Who holds what of a shared pool: for display, and to evict an importer.
 */
#include "share/pool/export_internal.h"

#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOWEST = 3 };

/* Export locked. False: some deferred blocks were not checked. */
static bool describe(const struct cn_export *export, const struct cn_importer *importer, uint64_t looks_max,
		     struct cn_importer_facts *ret_facts)
{
	uint32_t slot = export->deferred;
	struct cn_importer_facts facts = {
		.id = importer->id,
		.pid = importer->pid,
		.uid = importer->uid,
		.node = importer->node,
		.leaving = importer->leaving,
		.joined_ns = importer->joined_ns,
	};

	if (importer->ledger.bytes) {
		facts.held_count =
			atomic_load_explicit(&cn_importer_ledger(importer)->held_count, memory_order_relaxed);
		facts.held_bytes =
			atomic_load_explicit(&cn_importer_ledger(importer)->held_bytes, memory_order_relaxed);
	}
	for (uint64_t looks = 0; slot && looks < looks_max; slot = export->slots[slot].next, looks++) {
		const struct cn_export_slot *mine = &export->slots[slot];
		if (!cn_importer_holds(importer, slot))
			continue;
		facts.deferred_count++;
		facts.deferred_bytes += mine->bytes;
		if (!facts.waiting_since_ns || mine->deferred_ns < facts.waiting_since_ns)
			facts.waiting_since_ns = mine->deferred_ns;
	}
	*ret_facts = facts;
	return !slot;
}

bool cn_export_describe(struct cn_export *export, const struct cn_importer *importer, uint64_t looks_max,
			struct cn_importer_facts *ret_facts)
{
	cn_lock(&export->lock);
	bool all = describe(export, importer, looks_max, ret_facts);
	cn_unlock(&export->lock);
	return all;
}

size_t cn_export_importers(struct cn_export *export, struct cn_importer_facts *importers, size_t room)
{
	size_t count = 0;

	cn_export_scan_ended(export);
	cn_lock(&export->lock);
	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next) {
		if (!importer->joined)
			continue;
		if (count < room)
			describe(export, importer, UINT64_MAX, &importers[count]);
		count++;
	}
	cn_unlock(&export->lock);
	return count;
}

void cn_export_numbers(struct cn_export *export, struct cn_export_numbers *ret_numbers)
{
	struct cn_export_numbers numbers = {.importer_count = cn_export_importers(export, NULL, 0)};

	cn_lock(&export->lock);
	numbers.export_count = export->slot_count;
	numbers.deferred_count = export->deferred_count;
	numbers.deferred_bytes = export->deferred_bytes;
	cn_unlock(&export->lock);
	*ret_numbers = numbers;
}

CUresult cn_export_evict(struct cn_export *export, uint64_t id)
{
	bool found = false;

	cn_lock(&export->lock);
	for (struct cn_importer *importer = export->importers; importer && !found; importer = importer->next)
		if (importer->joined && importer->id == id) {
			atomic_store(&importer->evicted, true);
			found = true;
		}
	/* Under the lock, and not once the export is about to end: this job must run before that one, or not at all. */
	bool ends = export->closing && !export->slot_count;
	if (found && !ends && !atomic_exchange(&export->evict_posted, true))
		cn_service_post(&export->evict_job);
	cn_unlock(&export->lock);
	if (!found)
		return cn_error(CUDA_ERROR_NOT_FOUND, "the pool has no importer %llu now", (unsigned long long)id);
	return CUDA_SUCCESS;
}

CUresult cn_export_watch(struct cn_export *export, int *ret_fd)
{
	int spare = -1, fd = -1;

	cn_fork_hold();
	int made = cn_descriptor_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	/* One for all watchers: made once, so that no event is lost between two of them. */
	cn_lock(&export->lock);
	bool closing = export->closing;
	if (export->event_fd < 0 && !closing)
		export->event_fd = made;
	else
		spare = made;
	if (export->event_fd >= 0)
		fd = fcntl(export->event_fd, F_DUPFD_CLOEXEC, LOWEST);
	cn_unlock(&export->lock);
	if (spare >= 0)
		close(spare);
	cn_fork_allow();
	if (closing && fd < 0)
		return cn_export_refuse_closing();
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made to watch the pool: %s",
				strerror(errno));
	*ret_fd = fd;
	return CUDA_SUCCESS;
}
