/* SPDX-License-Identifier: MIT */
/*
 * Exports: slots, their blocks, and blocks whose return is deferred. See export.h for the idea, control.h for the order
 * of loads and stores.
 *
 * A slot is taken when a block is first exported and given up when the block goes back to the pool; so while a ledger
 * can name a life of a slot, the block of that life is not handed out. Records of exports are never freed: a thread
 * that has just found one may look at it.
 */
#include "base/container.h"
#include "share/peer/peer.h"
#include "share/pool/export_internal.h"
#include "share/pool/pool_location.h"
#include "share/port/port.h"
#include "share/wire/rights.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { LOWEST = 3 };

static struct {
	CN_LOCK(EXPORTS) lock;
	struct cn_export *first;
} exports;

static struct cn_records records = CN_RECORDS(struct cn_export, record);

CUresult cn_export_refuse_closing(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool is being destroyed");
}

static void look_at_ended(struct cn_export *export);

/* ---- Slots ---- */

/* Export locked. 0: all are taken. */
static uint32_t take_slot(struct cn_export *export)
{
	if (!export->slot_spare && export->slot_top + 1 == CN_EXPORT_SLOTS && export->ended_count)
		look_at_ended(export);
	uint32_t slot = export->slot_spare;

	if (slot)
		export->slot_spare = export->slots[slot].next;
	else if (export->slot_top + 1 < CN_EXPORT_SLOTS)
		slot = ++export->slot_top; /* 0 is none */
	if (slot)
		export->slot_count++;
	return slot;
}

/*
 * Nothing of it is exported any more, and nothing ever will be. Its socket is seen to be gone at once; the service
 * thread does the rest. Export locked.
 */
static void end_locked(struct cn_export *export)
{
	cn_service_divert(&export->listener, export->path_fd);
	cn_service_post(&export->close_job);
}

/* The life that began with begin_life() is over. Export locked. */
static void forget_life(struct cn_export *export, uint32_t slot)
{
	export->slot_bytes -= export->slots[slot].bytes;
}

/* Export locked. */
static void give_slot(struct cn_export *export, uint32_t slot)
{
	export->slots[slot].next = export->slot_spare;
	export->slot_spare = slot;
	export->slot_count--;
	if (export->closing && !export->slot_count)
		end_locked(export);
}

/* A part is shown for the first time: importers will ask for it. Export locked. */
static void want_prepared(struct cn_export *export, uint64_t index)
{
	if (!cn_device_ops->parts_take_long || export->shown_count == CN_EXPORT_PREPARED_MAX)
		return;
	export->shown[export->shown_count++] = (uint32_t)index;
	if (!atomic_exchange(&export->prepare_posted, true))
		cn_service_post(&export->prepare_job);
}

static __attribute__((noinline)) void show_part(struct cn_export *export, _Atomic uint64_t *shown, uint64_t serial)
{
	atomic_store(shown, serial);
	want_prepared(export, (uint64_t)(shown - cn_export_control(export)->serials));
}

/* Show in which memory a block lies. The block is live, so that memory stays. Export locked. */
static void show_parts(struct cn_export *export, uint64_t offset, uint64_t bytes)
{
	_Atomic uint64_t *serials = cn_export_control(export)->serials;
	uint64_t index = offset / CN_PART_BYTES, last = (offset + bytes - 1) / CN_PART_BYTES;

	while (index <= last) {
		size_t end;
		uint64_t serial = cn_pool_serial(export->pool, index * CN_PART_BYTES, &end);
		do /* written only if changed: all importers read these */
			if (atomic_load_explicit(&serials[index], memory_order_relaxed) != serial)
				show_part(export, &serials[index], serial);
		while (++index <= last && index * CN_PART_BYTES < end);
	}
}

/* Export locked; the block is shared, and cannot be freed before the unlock. */
static void begin_life(struct cn_export *export, uint32_t slot, const struct cn_pool_block *block)
{
	struct cn_export_slot *mine = &export->slots[slot];
	struct cn_control_slot *shown = &cn_export_control(export)->slots[slot];
	uint64_t offset = (uint64_t)((char *)block->start - export->base);

	mine->address = block->start;
	mine->bytes = block->bytes;
	export->slot_bytes += block->bytes;
	mine->generation = (mine->generation | 1) + (mine->generation ? 2 : 0);
	mine->deferred_ns = 0;
	atomic_store_explicit(&shown->offset, offset, memory_order_relaxed);
	atomic_store_explicit(&shown->bytes, block->bytes, memory_order_relaxed);
	show_parts(export, offset, block->bytes);
	atomic_store(&shown->generation, mine->generation);
}

CUresult cn_export_pointer(struct cn_export *export, void *address, struct cn_export_data *ret_data)
{
	struct cn_export_data data = {.magic = CN_EXPORT_DATA_MAGIC, .version = CN_EXPORT_DATA_VERSION};
	struct cn_pool_block block;
	CUresult result = CUDA_SUCCESS;
	uint32_t slot = 0;

	cn_lock(&export->lock);
	if (export->closing) {
		result = cn_export_refuse_closing();
	} else if (!cn_pool_find_start(address, &block) || block.pool != export->pool) {
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "no block of the pool begins at %p", address);
	} else if (block.shared) {
		slot = block.tag;
	} else if (!(slot = take_slot(export))) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				  "the pool already has %d exported blocks, the most it can have", CN_EXPORT_SLOTS - 1);
	} else if (!cn_pool_share(address, slot)) { /* freed by another thread just now */
		give_slot(export, slot);
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the block at %p is being freed", address);
	} else {
		begin_life(export, slot, &block);
	}
	if (!result) {
		memcpy(data.pool, export->name, sizeof data.pool);
		data.slot = slot;
		data.generation = export->slots[slot].generation;
	}
	cn_unlock(&export->lock);
	if (result)
		return result;
	data.check = cn_export_data_check(&data);
	*ret_data = data;
	return CUDA_SUCCESS;
}

bool cn_export_find_block(struct cn_export *export, uint64_t slot, uint64_t generation, uint64_t *ret_offset)
{
	cn_lock(&export->lock);
	bool found = slot && slot <= export->slot_top && export->slots[slot].generation == generation;
	if (found)
		*ret_offset = (uint64_t)((char *)export->slots[slot].address - export->base);
	cn_unlock(&export->lock);
	return found;
}

/* ---- The end of an export ---- */

/*
 * The ledger of a dead process does not count, whether or not the service thread knows of the death yet. The system is
 * asked once for each scan. Export locked.
 */
static __attribute__((noinline)) bool is_gone(const struct cn_export *export, struct cn_importer *importer)
{
	if (importer->scan != export->scan) {
		importer->scan = export->scan;
		importer->gone = cn_importer_is_gone(importer);
	}
	return importer->gone;
}

/* Does any importer hold it? Export locked. */
static inline __attribute__((always_inline)) bool is_held(const struct cn_export *export, uint32_t slot)
{
	for (struct cn_importer *importer = export->importers; importer; importer = importer->next)
		if (cn_importer_holds(importer, slot) && !is_gone(export, importer))
			return true;
	return false;
}

static void defer(struct cn_export *export, uint32_t slot)
{
	struct cn_export_slot *mine = &export->slots[slot];

	mine->deferred_ns = cn_clock_ns();
	mine->previous = 0;
	mine->next = export->deferred;
	if (mine->next)
		export->slots[mine->next].previous = slot;
	export->deferred = slot;
	export->deferred_count++;
	export->deferred_bytes += mine->bytes;
	cn_port_changed();
}

static void undefer(struct cn_export *export, uint32_t slot)
{
	struct cn_export_slot *mine = &export->slots[slot];

	for (struct cn_export_scan *scan = export->scans; scan; scan = scan->next)
		if (scan->at == slot)
			scan->at = mine->next;
	if (mine->previous)
		export->slots[mine->previous].next = mine->next;
	else
		export->deferred = mine->next;
	if (mine->next)
		export->slots[mine->next].previous = mine->previous;
	export->deferred_count--;
	export->deferred_bytes -= mine->bytes;
}

/* Its life has ended, and no importer holds it. Export locked. */
static inline __attribute__((always_inline)) void give_block(struct cn_export *export, uint32_t slot)
{
	/* Before the slot: with the last slot the export may go, and the pool with it. */
	cn_pool_free_deferred(export->slots[slot].address);
	forget_life(export, slot);
	give_slot(export, slot);
}

/* Of the lives that ended, only those in `held` are held. Export locked. */
static void conclude(struct cn_export *export, const struct cn_ended *ended)
{
	for (uint64_t slots = ended->slots; slots; slots &= slots - 1) {
		uint32_t slot = ended->word * CN_LEDGER_WORD_SLOTS + (uint32_t)__builtin_ctzll(slots);
		if (ended->held & cn_ledger_bit(slot))
			defer(export, slot);
		else
			give_block(export, slot);
	}
}

/* Look up all ended lives in the ledgers. Export locked. */
static void look_at_ended(struct cn_export *export)
{
	uint64_t words = export->ended_words;

	export->scan++;
	for (struct cn_importer *importer = export->importers; importer; importer = importer->next) {
		if (!importer->ledger.bytes)
			continue;
		for (uint64_t left = words; left; left &= left - 1) {
			struct cn_ended *ended = &export->ended[__builtin_ctzll(left)];
			uint64_t held = atomic_load(&cn_importer_ledger(importer)->held[ended->word]) & ended->slots;
			if (held && !is_gone(export, importer))
				ended->held |= held;
		}
	}
	export->ended_words = export->ended_bytes = 0;
	export->ended_count = 0;
	for (; words; words &= words - 1)
		conclude(export, &export->ended[__builtin_ctzll(words)]);
}

/* A life has ended: look it up together with others, now or later. Export locked. */
static __attribute__((noinline)) void put_off(struct cn_export *export, uint32_t slot)
{
	uint32_t word = slot / CN_LEDGER_WORD_SLOTS;
	struct cn_ended *ended = &export->ended[word % CN_ENDED_WORDS];
	uint64_t place = 1ull << word % CN_ENDED_WORDS;

	if (export->ended_words & place && ended->word != word)
		look_at_ended(export);
	if (!(export->ended_words & place))
		*ended = (struct cn_ended){.word = word};
	export->ended_words |= place;
	ended->slots |= cn_ledger_bit(slot);
	export->ended_bytes += export->slots[slot].bytes;
	if (++export->ended_count >= export->importer_count / CN_IMPORTERS_EACH || export->ended_bytes > CN_ENDED_BYTES)
		look_at_ended(export);
}

/* The stream has reached the free of the block. */
static void end_life(void *object, uint64_t slot_number)
{
	struct cn_export *export = object;
	uint32_t slot = (uint32_t)slot_number;

	cn_lock(&export->lock);
	atomic_store(&cn_export_control(export)->slots[slot].generation, export->slots[slot].generation + 1);
	export->scan++;
	if (export->importer_count > CN_IMPORTERS_FEW && !export->closing)
		put_off(export, slot);
	else if (is_held(export, slot))
		defer(export, slot);
	else
		give_block(export, slot);
	cn_unlock(&export->lock);
}

void cn_export_scan_ended(struct cn_export *export)
{
	cn_lock(&export->lock);
	if (export->ended_count)
		look_at_ended(export);
	cn_unlock(&export->lock);
}

/* The pool needs memory. */
static void hurry(void *object)
{
	cn_export_scan_ended(object);
}

void cn_export_scan_begin(struct cn_export *export, struct cn_export_scan *scan)
{
	cn_lock(&export->lock);
	*scan = (struct cn_export_scan){.at = export->deferred, .next = export->scans};
	export->scans = scan;
	cn_unlock(&export->lock);
}

/* It may be missing: the export has ended meanwhile, and its record was reused. Export locked. */
static void end_look(struct cn_export *export, const struct cn_export_scan *scan)
{
	for (struct cn_export_scan **link = &export->scans; *link; link = &(*link)->next)
		if (*link == scan) {
			*link = scan->next;
			return;
		}
}

bool cn_export_scan_on(struct cn_export *export, struct cn_export_scan *scan)
{
	cn_lock(&export->lock);
	unsigned left = CN_EXPORT_SCAN_LOADS / (export->importer_count + 1) + 1;
	export->scan++;
	for (; scan->at && left; left--) {
		uint32_t slot = scan->at;
		scan->at = export->slots[slot].next;
		if (is_held(export, slot))
			continue;
		undefer(export, slot);
		give_block(export, slot);
	}
	bool more = scan->at != 0;
	if (!more)
		end_look(export, scan);
	if (!more && export->ended_count)
		look_at_ended(export);
	bool closing = export->closing;
	cn_unlock(&export->lock);
	if (!more && closing)
		cn_pools_reap();
	return more;
}

void cn_export_rescan(struct cn_export *export)
{
	struct cn_export_scan scan;

	cn_export_scan_begin(export, &scan);
	while (cn_export_scan_on(export, &scan))
		continue;
}

CUresult cn_export_free(struct cn_export *export, void *address, struct cn_queue *queue, uint64_t handle)
{
	uint32_t slot;

	if (!cn_pool_defer_free(address, &slot))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the block at %p was already freed", address);
	CUresult result = cn_device_ops->queue_note(queue, handle, end_life, export, slot);
	if (result)
		cn_pool_cancel_deferred(address);
	return result;
}

/* ---- Parts that lose their memory ---- */

/*
 * On the service thread. All words are compared with what is there, and not only at the reported offset: so it does not
 * matter how late the report comes.
 */
static void hide_parts(struct cn_job *job)
{
	struct cn_export *export = cn_container_of(job, struct cn_export, parts_job);
	_Atomic uint64_t *serials = cn_export_control(export)->serials;
	size_t end;

	/* First: what is lost from here on needs another pass. */
	atomic_store(&export->parts_posted, false);
	for (uint64_t index = 0; index < export->facts.range_bytes / CN_PART_BYTES; index++) {
		if (!atomic_load_explicit(&serials[index], memory_order_relaxed))
			continue;
		cn_lock(&export->lock); /* a block may be shown there at this moment */
		if (atomic_load_explicit(&serials[index], memory_order_relaxed) !=
		    cn_pool_serial(export->pool, index * CN_PART_BYTES, &end))
			atomic_store(&serials[index], 0);
		cn_unlock(&export->lock);
	}
	cn_importers_tell_parts(export);
}

/* The device calls this: a part that importers may have has lost its memory. */
static void lose_part(void *object, size_t offset)
{
	struct cn_export *export = object;

	(void)offset;
	cn_lock(&export->lock);
	/* Not once the export is about to end: this job must run before that one, or not at all. */
	bool ends = export->closing && !export->slot_count;
	if (!ends && !atomic_exchange(&export->parts_posted, true))
		cn_service_post(&export->parts_job);
	cn_unlock(&export->lock);
}

/* ---- Life ---- */

/* A forked child holds nothing: its parent's peers wait for the parent alone. */
static void before_fork(void)
{
	cn_lock(&exports.lock);
}

static void after_fork_in_parent(void)
{
	cn_unlock(&exports.lock);
}

static void after_fork_in_child(void)
{
	for (struct cn_export *export = exports.first; export; export = export->next) {
		close(export->path_fd);
		close(export->control.fd);
		if (export->event_fd >= 0)
			close(export->event_fd);
		for (struct cn_importer *importer = export->importers; importer; importer = importer->next) {
			if (importer->ledger.bytes)
				close(importer->ledger.fd);
			if (importer->pidfd >= 0)
				close(importer->pidfd);
		}
	}
	exports.first = NULL;
	cn_importers_close_in_child();
	cn_unlock(&exports.lock);
}

static struct cn_fork_hook hook = {
	.order = CN_FORK_EXPORTS,
	.before = before_fork,
	.parent = after_fork_in_parent,
	.child = after_fork_in_child,
};

/* True: it was the last. */
static bool unlist(struct cn_export *export)
{
	cn_lock(&exports.lock);
	*(export->previous ? &export->previous->next : &exports.first) = export->next;
	if (export->next)
		export->next->previous = export->previous;
	bool last = !exports.first;
	cn_unlock(&exports.lock);
	return last;
}

/* On the service thread, before an importer asks: the descriptors of what is shown. */
static void prepare(struct cn_job *job)
{
	struct cn_export *export = cn_container_of(job, struct cn_export, prepare_job);
	struct cn_arena_part part;

	atomic_store(&export->prepare_posted, false);
	for (;;) {
		cn_lock(&export->lock);
		bool found = export->prepared_count < export->shown_count;
		uint64_t index = found ? export->shown[export->prepared_count++] : 0;
		cn_unlock(&export->lock);
		if (!found)
			return;
		/* A part that has gone meanwhile is no mistake. */
		if (!cn_pool_part(export->pool, index * CN_PART_BYTES, &part))
			close(part.fd);
	}
}

/* On the service thread: see end_locked(). */
static void end_export(struct cn_job *job)
{
	struct cn_export *export = cn_container_of(job, struct cn_export, close_job);
	struct cn_pool *pool = export->pool;

	cn_pool_on_part_lost(pool, NULL, NULL);
	cn_pool_set_recall(pool, NULL, NULL);
	cn_importers_drop(export);
	cn_service_unwatch(&export->listener);
	if (unlist(export))
		cn_importers_rest();
	/* A thread that comes too late must find nothing, under the lock. */
	cn_lock(&export->lock);
	int path_fd = export->path_fd, event_fd = export->event_fd;
	struct cn_segment control = export->control;
	export->path_fd = export->event_fd = -1;
	export->control = (struct cn_segment){.fd = -1};
	cn_unlock(&export->lock);
	close(path_fd);
	if (event_fd >= 0)
		close(event_fd);
	cn_segment_close(&control);
	munmap(export->slots, CN_EXPORT_SLOTS * sizeof *export->slots);
	cn_records_give(&records, export);
	cn_pool_unreference(pool);
	cn_port_changed();
}

static struct cn_export *new_record(void)
{
	struct cn_export *export = cn_records_take(&records);

	if (!export)
		return NULL;
	/* All but the lock: a thread that comes too late may be looking at what the record was, */
	cn_lock(&export->lock);
	memset((char *)export + sizeof export->lock, 0, sizeof *export - sizeof export->lock);
	export->path_fd = export->event_fd = -1;
	export->closing = true; /* and must not take it for another export before it is complete */
	cn_unlock(&export->lock);
	return export;
}

static void set_closing(struct cn_export *export, bool closing)
{
	cn_lock(&export->lock);
	export->closing = closing;
	cn_unlock(&export->lock);
}

static CUresult make_slots(struct cn_export *export)
{
	void *slots = mmap(NULL, CN_EXPORT_SLOTS * sizeof *export->slots, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (slots == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for what a pool exports: %s",
				strerror(errno));
	export->slots = slots;
	return CUDA_SUCCESS;
}

/* Fill in a new record. */
static CUresult fill_record(struct cn_export *export, struct cn_pool *pool, const struct cn_export_facts *facts)
{
	size_t range_bytes;

	export->pool = pool;
	export->base = cn_pool_base(pool, &range_bytes);
	export->facts = *facts;
	export->facts.range_bytes = range_bytes;
	export->close_job.run = end_export;
	export->evict_job.run = cn_importers_evict;
	export->parts_job.run = hide_parts;
	export->prepare_job.run = prepare;
	if (getrandom(export->name, sizeof export->name, 0) != sizeof export->name)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cannot name a shared pool: %s", strerror(errno));
	memcpy(&export->id, export->name, sizeof export->id);
	export->id += !export->id;
	export->created_ns = cn_clock_ns();
	return CUDA_SUCCESS;
}

CUresult cn_export_create(struct cn_pool *pool, const struct cn_export_facts *facts, struct cn_export **ret_export)
{
	CUresult result = cn_service_start();

	if (result)
		return result;
	cn_fork_watch(&hook);
	struct cn_export *export = new_record();
	if (!export)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a shared pool's record");
	if ((result = fill_record(export, pool, facts)) || (result = make_slots(export)))
		goto err_spare;
	result = cn_segment_make("cenote-control", sizeof(struct cn_control), &export->control);
	if (result)
		goto err_unmap;
	cn_fork_hold();
	result = cn_wire_listen_unnamed(&export->listener.fd, &export->path_fd);
	if (!result) {
		cn_service_keep(&export->listener);
		cn_importers_prepare();
	}
	cn_fork_allow();
	if (result)
		goto err_control;
	cn_importers_open(export);
	cn_location_write(export->path_fd, &export->facts);
	export->listener.ready = cn_importers_accept;
	cn_pool_reference(pool);
	set_closing(export, false);
	cn_lock(&exports.lock);
	export->next = exports.first;
	if (export->next)
		export->next->previous = export;
	exports.first = export; /* `previous` is NULL */
	cn_unlock(&exports.lock);
	cn_pool_on_part_lost(pool, lose_part, export);
	cn_pool_set_recall(pool, hurry, export);
	result = cn_service_watch(&export->listener);
	if (result)
		goto err_unlist;
	atomic_store(&export->known, true);
	cn_port_try_open();
	cn_port_changed();
	*ret_export = export;
	return CUDA_SUCCESS;

err_unlist:
	cn_pool_on_part_lost(pool, NULL, NULL);
	cn_pool_set_recall(pool, NULL, NULL);
	set_closing(export, true);
	if (unlist(export))
		cn_importers_rest();
	cn_pool_unreference(pool);
	cn_importers_drop(export);
	cn_wire_turn_away(export->listener.fd);
	cn_service_unwatch(&export->listener);
	close(export->path_fd);
err_control:
	cn_segment_close(&export->control);
err_unmap:
	munmap(export->slots, CN_EXPORT_SLOTS * sizeof *export->slots);
err_spare:
	cn_records_give(&records, export);
	return result;
}

void cn_export_close(struct cn_export *export)
{
	cn_lock(&export->lock);
	if (export->ended_count) /* from now on each is looked up at once */
		look_at_ended(export);
	export->closing = true;
	if (!export->slot_count)
		end_locked(export);
	cn_unlock(&export->lock);
}

CUresult cn_export_descriptor(struct cn_export *export, int *ret_fd)
{
	int fd = -1;

	/* Locked: the export's end closes it, and its number is soon another file's. */
	cn_lock(&export->lock);
	bool closing = export->closing;
	if (!closing) /* kept across exec, as the driver does: a program that executes another keeps it */
		fd = fcntl(export->path_fd, F_DUPFD, LOWEST);
	cn_unlock(&export->lock);
	if (closing)
		return cn_export_refuse_closing();
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made for the pool: %s",
				strerror(errno));
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

void cn_export_set_limit(struct cn_export *export, uint64_t bytes)
{
	cn_lock(&export->lock);
	if (!export->closing)
		atomic_store(&cn_export_control(export)->limit_bytes, bytes);
	cn_unlock(&export->lock);
}

/* ---- All of them ---- */

struct cn_export *cn_export_after(uint64_t id)
{
	struct cn_export *next = NULL;

	cn_lock(&exports.lock);
	for (struct cn_export *export = exports.first; export; export = export->next)
		if (export->id > id && (!next || export->id < next->id) && atomic_load(&export->known))
			next = export;
	cn_unlock(&exports.lock);
	return next;
}

unsigned cn_exports_count(void)
{
	unsigned count = 0;

	cn_lock(&exports.lock);
	for (const struct cn_export *export = exports.first; export; export = export->next)
		count += atomic_load(&export->known);
	cn_unlock(&exports.lock);
	return count;
}
