/* SPDX-License-Identifier: MIT */
/*
 * Operations on memory of another machine: see host_remote.h.
 *
 * An operation is cut into pieces, and as many are under way as the lane has slots. This machine's bytes are in a file
 * that the daemon was lent, or are copied from or to the slot, as in any other operation: under the guard, or by the
 * kernel where they are the program's own. The record of remote memory is counted, and an operation finds it by its
 * number when it runs: memory that was unmapped and released meanwhile fails the stream, as it does on this machine.
 */
#include "device/host/host_remote.h"

#include "base/table.h"
#include "device/host/host_internal.h"

#include <stdlib.h>

struct cn_host_remote {
	struct cn_object object; /* first */
	CN_LOCK(HOST_REMOTE) lock;
	unsigned references;
	const struct cn_host_remote_ops *ops;
	void *memory;
};

static struct cn_table remotes = CN_TABLE(CN_KIND_REMOTE, struct cn_host_remote);

/* ---- Records ---- */

CUresult cn_host_remote_make(const struct cn_host_remote_ops *ops, void *memory, uint64_t *ret_number)
{
	struct cn_host_remote *remote = cn_table_take(&remotes);

	if (!remote)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of another machine's memory");
	remote->references = 1;
	remote->ops = ops;
	remote->memory = memory;
	*ret_number = cn_table_publish(&remotes, remote);
	return CUDA_SUCCESS;
}

static void drop(struct cn_host_remote *remote)
{
	cn_lock(&remote->lock);
	bool last = --remote->references == 0;
	cn_unlock(&remote->lock);
	if (!last)
		return;
	remote->ops->free(remote->memory);
	cn_table_give(&remotes, remote);
}

void cn_host_remote_end(uint64_t number)
{
	struct cn_host_remote *remote = cn_table_find(&remotes, (void *)(uintptr_t)number);

	if (!remote)
		return;
	cn_lock(&remote->lock);
	cn_table_retire(remote, number);
	cn_unlock(&remote->lock);
	drop(remote);
}

/* The memory of a number, with a reference; NULL: it is gone. */
static struct cn_host_remote *take(uint64_t number)
{
	struct cn_host_remote *remote = cn_table_find(&remotes, (void *)(uintptr_t)number);

	if (!remote)
		return NULL;
	cn_lock(&remote->lock);
	bool lives = cn_object_handle(remote) == number;
	if (lives)
		remote->references++;
	cn_unlock(&remote->lock);
	return lives ? remote : NULL;
}

bool cn_host_remote_exists(void)
{
	return atomic_load_explicit(&remotes.count, memory_order_relaxed);
}

/* ---- Pieces ---- */

/* A copy under way: one side is another machine's. */
struct transfer {
	struct cn_host_remote *remote;
	struct cn_host_remote_lane *lane;
	const struct cn_operation *copy;
	enum cn_host_remote_kind kind;
	unsigned next, under_way; /* the slot for the next piece; the oldest are under_way slots before */
	struct {
		char *local; /* NULL: the daemon touches it */
		size_t bytes;
	} pieces[CN_HOST_REMOTE_SLOTS];
	uint64_t file; /* the last that was to be lent, */
	unsigned lent; /* and its name for the daemon; 0: it was not */
};

/* Where the bytes of this machine are, of one run or piece. */
struct local {
	char *address;
	unsigned lent; /* 0: they go through a slot */
	uint64_t lent_offset;
};

static char *slot_of(const struct transfer *transfer, unsigned slot)
{
	return transfer->lane->slots + (size_t)slot * CN_HOST_REMOTE_SLOT_BYTES;
}

/* Copy between a slot and memory of this machine. */
static CUresult touch(const struct transfer *transfer, unsigned slot)
{
	bool puts = transfer->kind == CN_HOST_REMOTE_PUT;
	char *local = transfer->pieces[slot].local;
	const struct cn_operation part = {
		.kind = CN_OPERATION_COPY,
		.copy =
			{
				.to = puts ? slot_of(transfer, slot) : local,
				.from = puts ? local : slot_of(transfer, slot),
				.row_bytes = transfer->pieces[slot].bytes,
				.row_count = 1,
				.to_foreign = !puts && transfer->copy->copy.to_foreign,
				.from_foreign = puts && transfer->copy->copy.from_foreign,
			},
	};

	return cn_host_touch(&part);
}

static CUresult end_oldest(struct transfer *transfer)
{
	unsigned slot = (transfer->next + CN_HOST_REMOTE_SLOTS - transfer->under_way) % CN_HOST_REMOTE_SLOTS;
	bool again;
	CUresult result = transfer->remote->ops->finish(transfer->lane, slot, &again);

	if (result)
		return result;
	transfer->under_way--;
	bool copies = transfer->kind == CN_HOST_REMOTE_GET && transfer->pieces[slot].local;
	return copies ? touch(transfer, slot) : CUDA_SUCCESS;
}

static CUresult begin_piece(struct transfer *transfer, struct local local, uint64_t offset, size_t bytes)
{
	unsigned slot = transfer->next;
	CUresult result = transfer->under_way == CN_HOST_REMOTE_SLOTS ? end_oldest(transfer) : CUDA_SUCCESS;

	transfer->pieces[slot].local = local.lent ? NULL : local.address;
	transfer->pieces[slot].bytes = bytes;
	if (!result && transfer->kind == CN_HOST_REMOTE_PUT && !local.lent)
		result = touch(transfer, slot);
	if (result)
		return result;
	transfer->next = (slot + 1) % CN_HOST_REMOTE_SLOTS;
	transfer->under_way++;
	return transfer->remote->ops->post(transfer->lane, transfer->remote->memory,
					   &(struct cn_host_remote_request){.kind = transfer->kind,
									    .slot = slot,
									    .offset = offset,
									    .bytes = bytes,
									    .lent = local.lent,
									    .lent_offset = local.lent_offset});
}

/* Lend the file in which a run of bytes lies, if it lies in one. */
static struct local find_local(struct transfer *transfer, char *address, size_t bytes)
{
	bool is_foreign = transfer->copy->copy.to_foreign || transfer->copy->copy.from_foreign;
	struct local local = {.address = address};
	size_t offset;
	uint64_t file;

	if (bytes < CN_HOST_REMOTE_LEND_BYTES || is_foreign || !cn_host_mapped_find(address, bytes, &file, &offset))
		return local;
	if (file != transfer->file) {
		transfer->file = file;
		transfer->lent = transfer->remote->ops->lend(
			transfer->lane, &(struct cn_host_remote_file){.number = file, .address = (uintptr_t)address});
	}
	local.lent = transfer->lent;
	local.lent_offset = offset;
	return local;
}

/* One run of bytes. */
static CUresult move_run(struct transfer *transfer, char *address, uint64_t offset, size_t bytes)
{
	const struct local local = find_local(transfer, address, bytes);
	size_t most = local.lent ? CN_HOST_REMOTE_PIECE_BYTES : CN_HOST_REMOTE_SLOT_BYTES;
	CUresult result = CUDA_SUCCESS;

	for (size_t at = 0; at < bytes && !result; at += most) {
		struct local part = {local.address + at, local.lent, local.lent_offset + at};
		result = begin_piece(transfer, part, offset + at, bytes - at < most ? bytes - at : most);
	}
	return result;
}

static CUresult move_rows(struct transfer *transfer, const struct cn_host_remote_work *work)
{
	const struct cn_operation *copy = transfer->copy;
	const struct cn_layers one = {.count = 1}, *layers = copy->copy.layers ? copy->copy.layers : &one;
	bool puts = transfer->kind == CN_HOST_REMOTE_PUT;
	size_t rows = copy->copy.row_count, bytes = copy->copy.row_bytes;
	CUresult result = CUDA_SUCCESS;

	if (copy->copy.to_pitch == bytes && copy->copy.from_pitch == bytes) {
		bytes *= rows;
		rows = 1;
	}
	for (size_t layer = 0; layer < layers->count && !result; layer++) {
		uintptr_t to = (uintptr_t)copy->copy.to + layer * layers->to_pitch;
		uintptr_t from = (uintptr_t)copy->copy.from + layer * layers->from_pitch;
		for (size_t row = 0; row < rows && !result; row++) {
			uintptr_t to_row = to + row * copy->copy.to_pitch,
				  from_row = from + row * copy->copy.from_pitch;
			result = puts ? move_run(transfer, (char *)from_row, to_row - work->to_start, bytes)
				      : move_run(transfer, (char *)to_row, from_row - work->from_start, bytes);
		}
	}
	return result;
}

static CUresult copy_one_side(const struct cn_host_remote_work *work, struct cn_host_remote *remote,
			      struct cn_host_remote_lane *lane)
{
	struct transfer transfer = {
		.remote = remote,
		.lane = lane,
		.copy = &work->operation,
		.kind = work->to ? CN_HOST_REMOTE_PUT : CN_HOST_REMOTE_GET,
	};
	CUresult result = move_rows(&transfer, work);

	while (!result && transfer.under_way)
		result = end_oldest(&transfer);
	return result;
}

/* ---- Requests one by one ---- */

static CUresult request(struct cn_host_remote *remote, struct cn_host_remote_lane *lane,
			const struct cn_host_remote_request *request)
{
	bool again = true;
	CUresult result = CUDA_SUCCESS;

	while (!result && again) {
		result = remote->ops->post(lane, remote->memory, request);
		if (!result)
			result = remote->ops->finish(lane, request->slot, &again);
	}
	return result;
}

/* From one machine's memory to another's: through this one, piece by piece. */
static CUresult copy_both_sides(const struct cn_host_remote_work *work, struct cn_host_remote *to,
				struct cn_host_remote *from, struct cn_host_remote_lane *lane)
{
	const struct cn_operation *copy = &work->operation;
	const struct cn_layers one = {.count = 1}, *layers = copy->copy.layers ? copy->copy.layers : &one;
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < layers->count * copy->copy.row_count; i++) {
		size_t layer = i / copy->copy.row_count, row = i % copy->copy.row_count;
		uint64_t put = (uintptr_t)copy->copy.to + layer * layers->to_pitch + row * copy->copy.to_pitch;
		uint64_t get = (uintptr_t)copy->copy.from + layer * layers->from_pitch + row * copy->copy.from_pitch;
		for (size_t at = 0; at < copy->copy.row_bytes && !result; at += CN_HOST_REMOTE_SLOT_BYTES) {
			struct cn_host_remote_request part = {.kind = CN_HOST_REMOTE_GET,
							      .offset = get + at - work->from_start,
							      .bytes = copy->copy.row_bytes - at};
			if (part.bytes > CN_HOST_REMOTE_SLOT_BYTES)
				part.bytes = CN_HOST_REMOTE_SLOT_BYTES;
			result = request(from, lane, &part);
			part.kind = CN_HOST_REMOTE_PUT;
			part.offset = put + at - work->to_start;
			if (!result)
				result = request(to, lane, &part);
		}
	}
	return result;
}

static CUresult fill_rows(const struct cn_host_remote_work *work, struct cn_host_remote *remote,
			  struct cn_host_remote_lane *lane)
{
	const struct cn_operation *fill = &work->operation;
	size_t row_bytes = fill->fill.row_elements * fill->fill.element_bytes;
	CUresult result = CUDA_SUCCESS;

	for (size_t row = 0; row < fill->fill.row_count && !result; row++)
		for (size_t at = 0; at < row_bytes && !result; at += CN_HOST_REMOTE_FILL_BYTES) {
			struct cn_host_remote_request part = {
				.kind = CN_HOST_REMOTE_FILL,
				.offset = (uintptr_t)fill->fill.to + row * fill->fill.pitch + at - work->to_start,
				.bytes = row_bytes - at,
				.value = fill->fill.value,
				.flags = fill->fill.element_bytes,
			};
			if (part.bytes > CN_HOST_REMOTE_FILL_BYTES)
				part.bytes = CN_HOST_REMOTE_FILL_BYTES;
			result = request(remote, lane, &part);
		}
	return result;
}

static CUresult run_in(const struct cn_host_remote_work *work, struct cn_host_remote *to, struct cn_host_remote *from,
		       struct cn_host_remote_lane *lane)
{
	const struct cn_operation *operation = &work->operation;
	struct cn_host_remote *one = to ? to : from;

	switch (operation->kind) {
	case CN_OPERATION_COPY:
		return to && from ? copy_both_sides(work, to, from, lane) : copy_one_side(work, one, lane);
	case CN_OPERATION_FILL: return fill_rows(work, one, lane);
	case CN_OPERATION_WRITE_VALUE:
		return request(one, lane,
			       &(struct cn_host_remote_request){
				       .kind = CN_HOST_REMOTE_WRITE,
				       .offset = (uintptr_t)operation->write_value.address - work->to_start,
				       .bytes = operation->write_value.bytes,
				       .value = operation->write_value.value,
			       });
	default: /* CN_OPERATION_WAIT_VALUE */
		return request(one, lane,
			       &(struct cn_host_remote_request){
				       .kind = CN_HOST_REMOTE_WAIT,
				       .offset = (uintptr_t)operation->wait_value.address - work->from_start,
				       .bytes = operation->wait_value.bytes,
				       .value = operation->wait_value.value,
				       .flags = operation->wait_value.flags & 3,
			       });
	}
}

CUresult cn_host_remote_run(const struct cn_host_remote_work *work)
{
	struct cn_host_remote *to = work->to ? take(work->to) : NULL, *from = work->from ? take(work->from) : NULL;
	struct cn_host_remote *any = to ? to : from;
	struct cn_host_remote_lane *lane;
	CUresult result;

	if (!any || (work->to && !to) || (work->from && !from)) {
		result = cn_error(CUDA_ERROR_ILLEGAL_ADDRESS, "an operation used memory that is no longer mapped");
	} else {
		result = any->ops->begin(any->memory, work->operation.kind == CN_OPERATION_WAIT_VALUE, &lane);
		if (!result) {
			/* A wait for a value may take for ever. */
			bool slow = work->operation.kind != CN_OPERATION_WAIT_VALUE;
			if (slow)
				cn_host_executor_begin_slow();
			result = run_in(work, to, from, lane);
			if (slow)
				cn_host_executor_end_slow();
			any->ops->end(lane, result != CUDA_SUCCESS);
		}
	}
	if (to)
		drop(to);
	if (from)
		drop(from);
	return result;
}

CUresult cn_host_remote_wrap(struct cn_operation *operation, const struct cn_host_remote_side *to,
			     const struct cn_host_remote_side *from)
{
	struct cn_host_remote_work *work = calloc(1, sizeof *work);

	if (!work)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to queue an operation");
	work->operation = *operation;
	if (to) {
		work->to = to->number;
		work->to_start = to->start;
	}
	if (from) {
		work->from = from->number;
		work->from_start = from->start;
	}
	*operation = (struct cn_operation){.kind = CN_OPERATION_REMOTE, .remote = work};
	return CUDA_SUCCESS;
}
