/* SPDX-License-Identifier: MIT */
/*
 * Copies between any two places, now and in stream order. (What CUDA describes as a box is in copy_box.c.)
 *
 * All become rows, and layers of rows, from one address to another. Each side is looked up. The direction in a call's
 * name ("HtoD") only decides whether foreign memory is allowed there, since with unified addressing the address tells
 * the rest.
 *
 * CUDA defines what has happened when a call returns. A call without a stream waits, except between two places in
 * device memory. A call with one does not wait, except from host to host, and except for foreign memory, which the
 * program may change or unmap right after: a short source is read before the call returns, everything else is waited
 * for.
 */
#include "driver/host/copy.h"

#include "device/host/host_ptx.h"
#include "device/host/host_remote.h"

#include "base/foreign.h"

#include <inttypes.h>
#include <stdlib.h>

enum { STAGE_BYTES_MAX = 1024 * 1024 };

CUresult cn_copy_find_stream(CUstream handle, struct cn_place *ret_place)
{
	return cn_enter() ?: cn_stream_find(handle, ret_place);
}

/* A copy whose sides are known. */
struct sides {
	struct cn_memory to, from;
};

static size_t layers_of(const struct cn_copy *copy)
{
	return copy->layer_count ? copy->layer_count : 1;
}

/* From the first byte of the first row to the last byte of the last; rows are not empty. */
static CUresult extent(const struct cn_rows *rows, const struct cn_copy *copy, size_t *ret_bytes)
{
	size_t bytes, layers;

	if (__builtin_mul_overflow(rows->pitch, copy->row_count - 1, &bytes) ||
	    __builtin_add_overflow(bytes, copy->row_bytes, &bytes) ||
	    __builtin_mul_overflow(rows->layer_pitch, layers_of(copy) - 1, &layers) ||
	    __builtin_add_overflow(bytes, layers, &bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"%zu layers of %zu rows with a pitch of %zu bytes go beyond the last address",
				layers_of(copy), copy->row_count, rows->pitch);
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult find_side(const struct cn_rows *rows, const struct cn_copy *copy, const char *what,
			  struct cn_memory *ret_memory)
{
	size_t bytes = 0;
	CUresult result = extent(rows, copy, &bytes);

	if (!result)
		result = cn_registry_range(rows->address, bytes, ret_memory);
	if (result || ret_memory->kind != CN_MEMORY_FOREIGN)
		return result;
	if (!rows->address)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", what);
	if (rows->side == CN_SIDE_DEVICE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s, 0x%" PRIx64 ", is not memory of a device", what,
				rows->address);
	return CUDA_SUCCESS;
}

/*
 * May a copy made by the device touch this side? As in the driver, the host's memory needs no rights of the device
 * where the host has them. Blocks of the host's pools do, if the name of the call says that they are the device's.
 */
static bool may_touch(const struct cn_memory *memory, const struct cn_device *device, enum cn_side side, bool write)
{
	unsigned int needed = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;

	if (cn_memory_allows(memory, device, write))
		return true;
	return memory->on_host && (memory->host_rights & needed) == needed &&
	       (memory->kind != CN_MEMORY_POOL || side != CN_SIDE_DEVICE);
}

static bool may_write(const struct cn_copy *copy, const struct sides *sides, const struct cn_device *device)
{
	return may_touch(&sides->to, device, copy->to.side, true);
}

static bool may_read(const struct cn_copy *copy, const struct sides *sides, const struct cn_device *device)
{
	return may_touch(&sides->from, device, copy->from.side, false);
}

/* A copy needs one device with rights to both sides: the stream's, or that of the current context. */
static CUresult check_rights(const struct cn_copy *copy, const struct sides *sides, const struct cn_device *device)
{
	bool write = may_write(copy, sides, device), read = may_read(copy, sides, device);
	struct cn_home current;

	if (write && read)
		return CUDA_SUCCESS;
	if (cn_context_thread.depth && !cn_context_enter(&current) && may_write(copy, sides, current.device) &&
	    may_read(copy, sides, current.device))
		return CUDA_SUCCESS;
	const struct cn_memory *memory = write ? &sides->from : &sides->to;
	return cn_error(CUDA_ERROR_INVALID_VALUE, "device %d may not %s the memory at 0x%" PRIx64 ": see %s",
			device->ordinal, write ? "read" : "write", memory->start, cn_memory_access_call(memory));
}

/* Memory that the program may unmap without telling us. */
static bool is_fragile(const struct cn_memory *memory)
{
	return memory->kind == CN_MEMORY_FOREIGN || memory->kind == CN_MEMORY_REGISTERED;
}

/* How many bytes are copied; the overflow check is done. */
static size_t bytes_of(const struct cn_copy *copy)
{
	return copy->row_bytes * copy->row_count * layers_of(copy);
}

static bool must_wait(const struct cn_place *place, const struct cn_copy *copy, const struct sides *sides,
		      enum cn_manner manner)
{
	if (manner == CN_MANNER_NOW)
		return !cn_memory_is_device(&sides->to) || !cn_memory_is_device(&sides->from) ||
		       sides->to.sync_memops || sides->from.sync_memops ||
		       atomic_load(&place->context->flags) & CU_CTX_SYNC_MEMOPS;
	if (sides->to.kind == CN_MEMORY_FOREIGN || (cn_memory_is_host(&sides->to) && cn_memory_is_host(&sides->from)))
		return true;
	return sides->from.kind == CN_MEMORY_FOREIGN && bytes_of(copy) > STAGE_BYTES_MAX;
}

/* Read a foreign source into memory of our own, which the operation takes along. */
static CUresult stage(const struct cn_copy *copy, struct cn_operation *operation)
{
	char *staging = malloc(bytes_of(copy)), *to = staging;
	CUresult result = CUDA_SUCCESS;

	if (!staging)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a copy of %zu bytes", bytes_of(copy));
	for (size_t layer = 0; layer < layers_of(copy); layer++) {
		uint64_t from = copy->from.address + layer * copy->from.layer_pitch;
		for (size_t row = 0; row < copy->row_count && !result; row++, to += copy->row_bytes)
			result = cn_foreign_read(to, (const void *)(uintptr_t)(from + row * copy->from.pitch),
						 copy->row_bytes);
	}
	if (result) {
		free(staging);
		return result;
	}
	operation->copy.from = operation->copy.staging = staging;
	operation->copy.from_pitch = copy->row_bytes;
	operation->copy.from_foreign = false;
	if (operation->copy.layers)
		operation->copy.layers->from_pitch = copy->row_bytes * copy->row_count;
	return CUDA_SUCCESS;
}

/* What an operation needs to know of layers, if there are several. */
static CUresult make_layers(const struct cn_copy *copy, struct cn_layers **ret_layers)
{
	struct cn_layers *layers;

	*ret_layers = NULL;
	if (layers_of(copy) == 1)
		return CUDA_SUCCESS;
	layers = malloc(sizeof *layers);
	if (!layers)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a copy of several layers");
	*layers = (struct cn_layers){
		.count = copy->layer_count,
		.to_pitch = copy->to.layer_pitch,
		.from_pitch = copy->from.layer_pitch,
	};
	*ret_layers = layers;
	return CUDA_SUCCESS;
}

/* Submit a copy, which is another operation where a side is another machine's. On failure it stays as it was. */
static CUresult hand_over(const struct cn_place *place, const struct sides *sides, const struct cn_operation *copy,
			  struct cn_point *ret_point)
{
	const struct cn_host_remote_side to = {sides->to.remote, sides->to.start},
					 from = {sides->from.remote, sides->from.start};
	struct cn_operation operation = *copy;

	if (__builtin_expect(!to.number && !from.number, 1))
		return cn_stream_submit(place, copy, ret_point);
	CUresult result = cn_host_remote_wrap(&operation, &to, &from);
	if (result)
		return result;
	result = cn_stream_submit(place, &operation, ret_point);
	if (result)
		free(operation.remote);
	return result;
}

static CUresult submit(const struct cn_place *place, const struct cn_copy *copy, const struct sides *sides,
		       enum cn_manner manner, struct cn_point *ret_point)
{
	struct cn_operation operation = {
		.kind = CN_OPERATION_COPY,
		.copy =
			{
				.to = (void *)(uintptr_t)copy->to.address,
				.from = (const void *)(uintptr_t)copy->from.address,
				.to_pitch = copy->to.pitch,
				.from_pitch = copy->from.pitch,
				.row_bytes = copy->row_bytes,
				.row_count = copy->row_count,
				.to_foreign = is_fragile(&sides->to),
				.from_foreign = is_fragile(&sides->from),
			},
	};
	CUresult outcome = CUDA_SUCCESS, result = make_layers(copy, &operation.copy.layers);

	if (result)
		return result;
	if (must_wait(place, copy, sides, manner)) {
		struct cn_point point;
		operation.copy.result = &outcome;
		result = hand_over(place, sides, &operation, &point);
		if (result) {
			free(operation.copy.layers);
			return result;
		}
		cn_host_point_wait(point);
		cn_host_print_flush();
		*ret_point = point;
		if (outcome == CUDA_ERROR_INVALID_VALUE) /* the sentence is in the thread that copied */
			return cn_error(outcome,
					"a copy of %zu bytes from %p to %p touches host memory that is not mapped",
					bytes_of(copy), operation.copy.from, operation.copy.to);
		return outcome;
	}
	if (sides->from.kind == CN_MEMORY_FOREIGN)
		result = stage(copy, &operation);
	if (!result)
		result = hand_over(place, sides, &operation, ret_point);
	if (result) {
		free(operation.copy.staging);
		free(operation.copy.layers);
	}
	return result;
}

CUresult cn_copy_run(const struct cn_place *place, const struct cn_copy *copy, enum cn_manner manner,
		     struct cn_point *ret_point)
{
	struct sides sides;
	size_t bytes;
	CUresult result;

	if (__builtin_mul_overflow(copy->row_bytes, copy->row_count, &bytes) ||
	    __builtin_mul_overflow(bytes, layers_of(copy), &bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"%zu layers of %zu rows of %zu bytes exceed the address space", layers_of(copy),
				copy->row_count, copy->row_bytes);
	result = find_side(&copy->to, copy, "destination", &sides.to);
	if (!result)
		result = find_side(&copy->from, copy, "source", &sides.from);
	if (!result)
		result = check_rights(copy, &sides, place->context->device);
	return result ? result : submit(place, copy, &sides, manner, ret_point);
}

CUresult cn_copy(const struct cn_copy *copy, CUstream handle, enum cn_manner manner)
{
	struct cn_place place;
	struct cn_point point;
	CUresult result = cn_copy_find_stream(handle, &place);

	if (result || !copy->row_bytes || !copy->row_count)
		return result;
	return cn_copy_run(&place, copy, manner, &point);
}

/* ---- Between contexts ---- */

/* Make a stream wait for all that a context's default stream would wait for. */
static CUresult follow(const struct cn_place *place, const struct cn_home *home)
{
	struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT};

	if (place->stream == &home->context->legacy)
		return CUDA_SUCCESS;
	CUresult result = cn_device_ops->point_now(&home->context->legacy.queue.base, home->life, &wait.wait_point);
	if (result)
		return result == CUDA_ERROR_INVALID_HANDLE ? cn_home_check(home) : result;
	return cn_stream_submit(place, &wait, NULL);
}

/* Make a context's default stream wait for a point. */
static CUresult precede(struct cn_point point, const struct cn_place *place, const struct cn_home *home)
{
	struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = point};
	struct cn_place legacy = {.stream = &home->context->legacy, .context = home->context, .owner = home->life};

	return place->stream == legacy.stream ? CUDA_SUCCESS : cn_stream_submit(&legacy, &wait, NULL);
}

/* The context of an argument; NULL is the stream's own. */
static CUresult find_context(CUcontext handle, const struct cn_place *place, struct cn_home *ret_home)
{
	if (handle)
		return cn_context_given(handle, CUDA_ERROR_INVALID_CONTEXT, ret_home);
	ret_home->context = place->context;
	ret_home->device = atomic_load(&place->context->device);
	ret_home->life = atomic_load(&place->context->life);
	if (!cn_place_stands(place))
		return cn_place_is_gone(place);
	return ret_home->life ? CUDA_SUCCESS
			      : cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_handle, CUdeviceptr from, CUcontext from_handle, size_t bytes,
			  CUstream handle, enum cn_manner manner)
{
	struct cn_copy copy = {
		.to = {.side = CN_SIDE_ANY, .address = to, .pitch = bytes},
		.from = {.side = CN_SIDE_ANY, .address = from, .pitch = bytes},
		.row_bytes = bytes,
		.row_count = 1,
	};
	struct cn_home to_home, from_home;
	struct cn_place place;
	struct cn_point point;
	CUresult result = cn_copy_find_stream(handle, &place);

	if (!result)
		result = find_context(to_handle, &place, &to_home);
	if (!result)
		result = find_context(from_handle, &place, &from_home);
	if (result || !bytes)
		return result;
	if (manner == CN_MANNER_IN_STREAM)
		return cn_copy_run(&place, &copy, manner, &point);

	/* Ordered with all work of both contexts, before and after. */
	result = follow(&place, &to_home);
	if (!result)
		result = follow(&place, &from_home);
	if (!result)
		result = cn_copy_run(&place, &copy, manner, &point);
	if (!result)
		result = precede(point, &place, &to_home);
	if (!result && from_home.context != to_home.context)
		result = precede(point, &place, &from_home);
	return result;
}

/* ---- The calls ---- */

/* One row from one address to another. */
static CUresult copy_bytes(enum cn_side to_side, uint64_t to, enum cn_side from_side, uint64_t from, size_t bytes,
			   CUstream stream, enum cn_manner manner)
{
	struct cn_copy copy = {
		.to = {.side = to_side, .address = to, .pitch = bytes},
		.from = {.side = from_side, .address = from, .pitch = bytes},
		.row_bytes = bytes,
		.row_count = 1,
	};

	return cn_copy(&copy, stream, manner);
}

CN_COPY_TWINS(host_cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
	      copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, stream, CN_MANNER_NOW))

CUresult host_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, stream, CN_MANNER_IN_STREAM);
}

CN_COPY_TWINS(host_cuMemcpyPeer,
	      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
	      copy_peer(to, to_context, from, from_context, bytes, stream, CN_MANNER_NOW))

CUresult host_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				size_t bytes, CUstream stream)
{
	return copy_peer(to, to_context, from, from_context, bytes, stream, CN_MANNER_IN_STREAM);
}

CN_COPY_TWINS(host_cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes),
	      copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes),
	      copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
	      copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, stream, CN_MANNER_NOW))

CUresult host_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, stream, CN_MANNER_IN_STREAM);
}
