/* SPDX-License-Identifier: MIT */
/*
 * Imported pointers: holding, counting, finding and releasing. See import.h for the idea, control.h for the order of
 * loads and stores.
 */
#include "base/guard.h"
#include "share/pool/import_internal.h"

/* How long an import may take while the exporter hands over parts one by one; how many of them may be useless. */
#define MAP_TIMEOUT_NS 60000000000ull
enum { VAIN_MAX = 8 };

#define NOT_JOINED UINT64_MAX /* all of it is missing */

/*
 * The outcome of an attempt to import a block: why it was refused, or which of its memory is not mapped; or it is on
 * another machine.
 */
enum outcome { IMPORTED, REFUSED, INCOMPLETE, ELSEWHERE };
struct attempt {
	CUresult refusal;
	uint64_t missing; /* an offset, or NOT_JOINED */
};

static _Atomic uint64_t last_id;

static uint64_t next_id(void)
{
	return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
}

/* The offset of an address in an import; false: the record is another import by now. Import locked. */
static bool offset_of(const struct cn_import *import, const void *address, uint64_t *ret_offset)
{
	*ret_offset = (uint64_t)((uintptr_t)address - (uintptr_t)import->base);
	return import->base && *ret_offset < import->bytes;
}

/* Is it a valid name of an export? */
static inline __attribute__((always_inline)) CUresult check_data(const struct cn_export_data *data)
{
	if (data->magic != CN_EXPORT_DATA_MAGIC || data->version != CN_EXPORT_DATA_VERSION ||
	    data->check != cn_export_data_check(data) || !data->slot || data->slot >= CN_EXPORT_SLOTS ||
	    !(data->generation & 1) || data->zeros[0] || data->zeros[1])
		return cn_error(CUDA_ERROR_INVALID_VALUE, "these 64 bytes are not an exported pointer");
	return CUDA_SUCCESS;
}

static enum outcome refuse(struct attempt *attempt, CUresult refusal)
{
	attempt->refusal = refusal;
	return REFUSED;
}

static enum outcome refuse_stale(struct attempt *attempt)
{
	return refuse(attempt, cn_error(CUDA_ERROR_INVALID_VALUE, "the exporter has freed the block"));
}

/* Clear our bit in the ledger. The exporter may have seen it, and wait: then tell it. Import locked. */
static void take_bit_out(struct cn_import *import, uint32_t slot, uint64_t generation)
{
	atomic_fetch_and(&cn_import_ledger(import)->held[slot / CN_LEDGER_WORD_SLOTS], ~cn_ledger_bit(slot));
	if (atomic_load(&cn_import_control(import)->slots[slot].generation) != generation)
		cn_import_tell_locked(import);
}

/* What we hold has changed by one block. Import locked. */
static void count_held(struct cn_import *import, int64_t blocks, uint64_t bytes)
{
	import->held_count += (uint64_t)blocks;
	import->held_bytes += blocks < 0 ? -bytes : bytes;
	atomic_store_explicit(&cn_import_ledger(import)->held_count, import->held_count, memory_order_relaxed);
	atomic_store_explicit(&cn_import_ledger(import)->held_bytes, import->held_bytes, memory_order_relaxed);
}

/* ---- The parts that a block lies in: one, or several for a large one. Import locked. ---- */

/* Are they mapped, with the memory that the exporter shows? If not, *ret_missing is in one that is not. */
static bool has_parts(const struct cn_import *import, uint64_t offset, uint64_t bytes, uint64_t *ret_missing)
{
	uint64_t index = offset / CN_PART_BYTES, last = (offset + bytes - 1) / CN_PART_BYTES;

	while (index <= last) {
		uint64_t shown = atomic_load_explicit(&cn_import_control(import)->serials[index], memory_order_relaxed);
		uint32_t at = import->tables.mapped[index].at;
		if (!at || import->tables.mapped[at - 1].serial != shown) {
			*ret_missing = index * CN_PART_BYTES;
			return false;
		}
		index = import->tables.mapped[at - 1].end;
	}
	return true;
}

/* While they are held, they stay mapped. */
static void hold_parts(struct cn_import *import, uint64_t offset, uint64_t bytes)
{
	uint64_t last = (offset + bytes - 1) / CN_PART_BYTES;
	struct cn_mapped *part;

	for (uint64_t index = offset / CN_PART_BYTES; index <= last; index = part->end) {
		part = &import->tables.mapped[import->tables.mapped[index].at - 1];
		part->hold_count++;
	}
}

static void leave_parts(struct cn_import *import, uint64_t offset, uint64_t bytes)
{
	uint64_t last = (offset + bytes - 1) / CN_PART_BYTES;
	struct cn_mapped *part;

	for (uint64_t index = offset / CN_PART_BYTES; index <= last; index = part->end) {
		part = &import->tables.mapped[import->tables.mapped[index].at - 1];
		if (!--part->hold_count && import->state != CN_IMPORT_ALIVE)
			cn_import_want_drop_locked(import);
	}
}

/* ---- Holding ---- */

/* We do not need the slot any more. Import locked. */
static void let_go(struct cn_import *import, uint32_t slot)
{
	const struct cn_held *held = &import->tables.held[slot];

	leave_parts(import, held->offset, held->bytes);
	count_held(import, -1, held->bytes);
	take_bit_out(import, slot, held->generation);
}

/* Read where a slot's block is. False: nowhere in the pool. */
static bool read_extent(const struct cn_import *import, uint32_t slot, uint64_t *ret_offset, uint64_t *ret_bytes)
{
	struct cn_control_slot *shown = &cn_import_control(import)->slots[slot];
	uint64_t offset = atomic_load_explicit(&shown->offset, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&shown->bytes, memory_order_relaxed);

	*ret_offset = offset;
	*ret_bytes = bytes;
	return bytes && offset % CN_IMPORT_UNIT_BYTES == 0 && offset < import->bytes && bytes <= import->bytes - offset;
}

/* The block can be found by its addresses from now on. False: another block begins there. Import locked. */
static inline __attribute__((always_inline)) bool enter_start(struct cn_import *import, uint32_t slot)
{
	uint64_t unit = import->tables.held[slot].offset / CN_IMPORT_UNIT_BYTES;

	if (import->tables.slot_at[unit])
		return false;
	import->tables.slot_at[unit] = slot;
	cn_bits_set(&import->tables.starts, unit);
	import->live_count++;
	return true;
}

static void leave_start(struct cn_import *import, uint32_t slot)
{
	uint64_t unit = import->tables.held[slot].offset / CN_IMPORT_UNIT_BYTES;

	import->tables.slot_at[unit] = 0;
	cn_bits_clear(&import->tables.starts, unit);
	import->live_count--;
}

/* Hold an export that we do not hold yet. Import locked. */
static enum outcome hold(struct cn_import *import, uint32_t slot, uint64_t generation, struct attempt *attempt)
{
	struct cn_control *control = cn_import_control(import);
	uint64_t limit = atomic_load_explicit(&control->limit_bytes, memory_order_relaxed), offset, bytes;
	enum outcome outcome = IMPORTED;

	atomic_fetch_or(&cn_import_ledger(import)->held[slot / CN_LEDGER_WORD_SLOTS], cn_ledger_bit(slot));
	if (atomic_load(&control->slots[slot].generation) != generation)
		outcome = refuse_stale(attempt);
	else if (!read_extent(import, slot, &offset, &bytes))
		outcome =
			refuse(attempt, cn_error(CUDA_ERROR_INVALID_VALUE, "the exported block lies outside its pool"));
	else if (limit && import->held_bytes + bytes > limit)
		outcome = refuse(
			attempt,
			cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				 "the pool's exporter limits an importer to %llu bytes, and %llu are already held",
				 (unsigned long long)limit, (unsigned long long)import->held_bytes));
	else if (!has_parts(import, offset, bytes, &attempt->missing))
		outcome = INCOMPLETE;
	if (outcome) {
		take_bit_out(import, slot, generation);
		return outcome;
	}
	hold_parts(import, offset, bytes);
	import->tables.held[slot] = (struct cn_held){
		.generation = generation,
		.offset = offset,
		.bytes = bytes,
		.id = next_id(),
	};
	count_held(import, 1, bytes);
	return IMPORTED;
}

static CUresult count_again(struct cn_held *held)
{
	if (held->import_count == UINT32_MAX)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "the pointer was imported too often to be counted");
	held->import_count++;
	return CUDA_SUCCESS;
}

static CUresult overlaps(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the exported block overlaps another that is imported");
}

static enum outcome import_locked(struct cn_import *import, const struct cn_export_data *data, struct attempt *attempt)
{
	uint32_t slot = (uint32_t)data->slot;

	if (import->closed || import->state != CN_IMPORT_ALIVE)
		return import->closed || !import->elsewhere ? refuse(attempt, cn_import_explain_locked(import))
							    : ELSEWHERE;
	if (__builtin_expect(!import->base, 0)) {
		attempt->missing = NOT_JOINED;
		return INCOMPLETE;
	}
	if (memcmp(data->pool, import->name, sizeof data->pool) != 0)
		return refuse(attempt,
			      cn_error(CUDA_ERROR_INVALID_VALUE, "the pointer was exported from another pool"));
	struct cn_held *held = &import->tables.held[slot];
	if (held->import_count && held->generation == data->generation) {
		CUresult counted = count_again(held);
		return counted ? refuse(attempt, counted) : IMPORTED;
	}
	if (held->import_count) /* an older life, whose slot the exporter cannot have reused while we hold it */
		return refuse_stale(attempt);
	if (!held->pending_count) {
		enum outcome outcome = hold(import, slot, data->generation, attempt);
		if (outcome)
			return outcome;
	} else if (held->generation != data->generation ||
		   atomic_load(&cn_import_control(import)->slots[slot].generation) != data->generation) {
		return refuse_stale(attempt);
	} else {
		held->id = next_id();
	}
	if (!enter_start(import, slot)) {
		if (!held->pending_count)
			let_go(import, slot);
		return refuse(attempt, overlaps());
	}
	held->import_count = 1;
	return IMPORTED;
}

/* import_locked() for those that can wait: so it is a part of cn_import_pointer(), and of nothing else. */
static __attribute__((noinline, cold)) enum outcome try_locked(struct cn_import *import,
							       const struct cn_export_data *data,
							       struct attempt *attempt)
{
	return import_locked(import, data, attempt);
}

/*
 * Join if needed, have missing parts mapped, one after the other, and import. Each is asked for once, unless the
 * exporter does not hand over what it shows. Import locked, but not all the time.
 */
static CUresult import_mapping(struct cn_import *import, const struct cn_export_data *data, struct attempt *attempt)
{
	uint64_t deadline_ns = cn_clock_ns() + MAP_TIMEOUT_NS, wanted;
	unsigned vain_count = 0;

	for (;;) {
		import->busy_count++;
		cn_unlock(&import->lock);
		wanted = attempt->missing;
		CUresult mapped = wanted == NOT_JOINED ? cn_import_join(import, data) : cn_import_map(import, wanted);
		cn_lock(&import->lock);
		enum outcome outcome = try_locked(import, data, attempt);
		cn_import_unbusy_locked(import);
		if (outcome != INCOMPLETE)
			return outcome == IMPORTED ? CUDA_SUCCESS : attempt->refusal;
		if (mapped)
			return mapped;
		vain_count += attempt->missing <= wanted;
		if (vain_count == VAIN_MAX || cn_clock_ns() > deadline_ns)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"the pool's exporter did not hand over the memory of the block");
	}
}

/* ---- Blocks of another machine's pool ---- */

/* Ask the other machine to hold a block for us. Import locked, but not all the time. */
static CUresult hold_elsewhere(struct cn_import *import, const struct cn_export_data *data)
{
	struct cn_held *held = &import->tables.held[data->slot];
	struct cn_node_memory *memory;
	struct cn_node_facts facts;

	import->busy_count++;
	cn_unlock(&import->lock);
	CUresult result = cn_node_open_block(import->elsewhere, data, &memory, &facts);
	uint64_t number = 0;
	if (!result) {
		result = cn_host_remote_make(cn_node_ops(), memory, &number);
		if (result)
			cn_node_ops()->free(memory);
	}
	cn_lock(&import->lock);
	cn_import_unbusy_locked(import);
	if (result)
		return result;
	if (held->import_count || held->pending_count || import->closed) { /* another thread has it, or has closed */
		cn_host_remote_end(number);
		return import->closed ? cn_import_explain_locked(import) : CUDA_SUCCESS;
	}
	if (!facts.bytes || facts.offset % CN_IMPORT_UNIT_BYTES || facts.offset >= import->bytes ||
	    facts.bytes > import->bytes - facts.offset) {
		cn_host_remote_end(number);
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the exported block lies outside its pool");
	}
	*held = (struct cn_held){.generation = data->generation, .offset = facts.offset, .bytes = facts.bytes};
	import->remotes[data->slot] = number;
	import->held_count++;
	import->held_bytes += facts.bytes;
	return CUDA_SUCCESS;
}

static void let_go_elsewhere(struct cn_import *import, uint32_t slot)
{
	cn_host_remote_end(import->remotes[slot]);
	import->remotes[slot] = 0;
	import->held_count--;
	import->held_bytes -= import->tables.held[slot].bytes;
}

static __attribute__((noinline, cold)) CUresult import_elsewhere(struct cn_import *import,
								 const struct cn_export_data *data)
{
	uint32_t slot = (uint32_t)data->slot;
	struct cn_held *held = &import->tables.held[slot];
	CUresult result = CUDA_SUCCESS;

	if (!held->import_count && !held->pending_count)
		result = hold_elsewhere(import, data);
	if (result)
		return result;
	if (held->generation != data->generation) /* a slot has no other life while one of it is held */
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the exporter has freed the block");
	if (held->import_count)
		return count_again(held);
	if (!enter_start(import, slot)) {
		if (!held->pending_count)
			let_go_elsewhere(import, slot);
		return overlaps();
	}
	held->id = next_id();
	held->import_count = 1;
	return CUDA_SUCCESS;
}

void cn_import_reached_elsewhere(void *object, uint64_t slot)
{
	struct cn_import *import = object;

	cn_lock(&import->lock);
	struct cn_held *held = &import->tables.held[slot];
	if (!--held->pending_count && !held->import_count)
		let_go_elsewhere(import, (uint32_t)slot);
	cn_import_end_locked(import);
	cn_unlock(&import->lock);
}

/* ---- Importing and freeing ---- */

/* It was not imported at once. Import locked, but not all the time. */
static CUresult import_otherwise(struct cn_import *import, const struct cn_export_data *data, enum outcome outcome,
				 struct attempt *attempt)
{
	if (outcome == ELSEWHERE)
		return import_elsewhere(import, data);
	return outcome == REFUSED ? attempt->refusal : import_mapping(import, data, attempt);
}

CUresult cn_import_pointer(struct cn_import *import, const void *data, void **ret_address)
{
	struct cn_export_data copy;
	struct attempt attempt;
	enum outcome outcome;

	_Static_assert(sizeof copy == CN_GUARD_HANDLE_BYTES, "what a guarded copy copies");
	if (!cn_guard_copy_64(&copy, data)) /* the caller's copy may be in shared memory, and change */
		return cn_error(CUDA_ERROR_INVALID_VALUE, "shareData: the memory at %p cannot be read", data);
	cn_lock(&import->lock);
	CUresult result = check_data(&copy);
	if (!result && (outcome = import_locked(import, &copy, &attempt)))
		result = import_otherwise(import, &copy, outcome, &attempt);
	if (!result)
		*ret_address = import->base + import->tables.held[copy.slot].offset;
	cn_unlock(&import->lock);
	return result;
}

/* The stream has reached the free of the block. */
void cn_import_reached(void *object, uint64_t slot)
{
	struct cn_import *import = object;

	cn_lock(&import->lock);
	struct cn_held *held = &import->tables.held[slot];
	if (!--held->pending_count && !held->import_count)
		let_go(import, (uint32_t)slot);
	cn_import_end_locked(import);
	cn_unlock(&import->lock);
}

/* Count a free at `address`; *ret_last: it was the last, and takes effect in stream order. Import locked. */
static inline __attribute__((always_inline)) CUresult begin_free(struct cn_import *import, const void *address,
								 uint32_t *ret_slot, bool *ret_last)
{
	uint64_t offset;
	uint32_t slot = offset_of(import, address, &offset) && offset % CN_IMPORT_UNIT_BYTES == 0
				? import->tables.slot_at[offset / CN_IMPORT_UNIT_BYTES]
				: 0;

	if (!slot)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"no imported block begins at %p: it was already freed, or never imported", address);
	struct cn_held *held = &import->tables.held[slot];
	*ret_slot = slot;
	*ret_last = held->import_count == 1;
	if (*ret_last) {
		leave_start(import, slot);
		held->pending_count++;
	}
	held->import_count--;
	return CUDA_SUCCESS;
}

CUresult cn_import_free(void *address, struct cn_queue *queue, uint64_t handle)
{
	struct cn_import *import = cn_import_at(address);
	uint32_t slot;
	bool last;

	if (!import)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no imported block begins at %p", address);
	cn_lock(&import->lock);
	CUresult result = begin_free(import, address, &slot, &last);
	cn_unlock(&import->lock);
	if (result || !last)
		return result;
	result = cn_device_ops->queue_note(queue, handle, import->reached, import, slot);
	if (!result)
		return CUDA_SUCCESS;
	cn_lock(&import->lock); /* as it was, unless it has been imported again meanwhile */
	import->tables.held[slot].pending_count--;
	if (!import->tables.held[slot].import_count++)
		enter_start(import, slot);
	cn_unlock(&import->lock);
	return result;
}

/* ---- For a process without queues ---- */

static struct cn_import_extent extent_locked(const struct cn_import *import, uint64_t slot)
{
	const struct cn_held *held = &import->tables.held[slot];

	return (struct cn_import_extent){
		.address = import->base + held->offset, .offset = held->offset, .bytes = held->bytes};
}

CUresult cn_import_hold(struct cn_import *import, const struct cn_export_data *data,
			struct cn_import_extent *ret_extent)
{
	void *address;
	CUresult result = cn_import_pointer(import, data, &address);

	if (result)
		return result;
	cn_lock(&import->lock);
	*ret_extent = extent_locked(import, data->slot);
	cn_unlock(&import->lock);
	return CUDA_SUCCESS;
}

bool cn_import_hold_now(struct cn_import *import, const struct cn_export_data *data, CUresult *ret_result,
			struct cn_import_extent *ret_extent)
{
	struct attempt attempt = {0};
	enum outcome outcome = IMPORTED;

	cn_lock(&import->lock);
	CUresult result = check_data(data);
	if (!result && (outcome = try_locked(import, data, &attempt)) == REFUSED)
		result = attempt.refusal;
	if (!result && outcome == IMPORTED)
		*ret_extent = extent_locked(import, data->slot);
	cn_unlock(&import->lock);
	*ret_result = result;
	return outcome != INCOMPLETE;
}

void cn_import_release(struct cn_import *import, const void *address)
{
	uint32_t slot;
	bool last;

	cn_lock(&import->lock);
	CUresult result = begin_free(import, address, &slot, &last);
	cn_unlock(&import->lock);
	if (!result && last)
		cn_import_reached(import, slot);
}

/* ---- Looking ---- */

bool cn_import_has(const void *address)
{
	return cn_import_at(address) != NULL;
}

bool cn_import_find(const void *address, struct cn_import_block *ret_block)
{
	struct cn_import *import = cn_import_at(address);
	uint64_t offset, unit = CN_BITS_NONE;

	if (!import)
		return false;
	cn_lock(&import->lock);
	if (offset_of(import, address, &offset))
		unit = cn_bits_last(&import->tables.starts, offset / CN_IMPORT_UNIT_BYTES);
	const struct cn_held *held = unit == CN_BITS_NONE ? NULL : &import->tables.held[import->tables.slot_at[unit]];
	bool found = held && offset - held->offset < held->bytes;
	if (found)
		*ret_block = (struct cn_import_block){
			.import = import,
			.owner = import->owner,
			.start = import->base + held->offset,
			.bytes = held->bytes,
			.id = held->id,
			.remote = import->remotes ? import->remotes[import->tables.slot_at[unit]] : 0,
		};
	cn_unlock(&import->lock);
	return found;
}
