/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls for shared pools: sending and receiving them, and what an exporter may ask and do.
 *
 * Sending is CUDA's own export and one message over the program's socket (letter.h), so a program can also do each half
 * by hand on either side: a pool travels as a descriptor like any other, a block as CUDA's 64 bytes and an event's.
 *
 * This code calls CUDA's functions as a program does: on a GPU, events are the driver's.
 *
 * Questions about a pool go to its export (export.h), which is made if a program sets or watches something before the
 * pool is first sent.
 */
#include "driver/common/cenote_share.h"

#include "base/guard.h"
#include "share/peer/peer.h"
#include "share/wire/letter.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- A pool over a socket ---- */

CENOTE_API CUresult cenote_send_pool(int sock, CUmemoryPool pool)
{
	struct cn_mempool *known;
	int descriptor;
	CUresult result = cn_enter();

	if (!result)
		result = cn_mempool_get(pool, &known); /* a GPU's driver does not check its argument */
	if (!result)
		result = cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
							  0);
	if (result)
		return result;
	result = cn_letter_send_descriptor(sock, descriptor);
	close(descriptor); /* the receiver has its own */
	return result;
}

CENOTE_API CUresult cenote_recv_pool(int sock, CUmemoryPool *ret_pool)
{
	CUmemoryPool pool;
	int descriptor;
	CUresult result = cn_given(cn_enter(), ret_pool, "ret_pool");

	if (result)
		return result;
	if (!cn_guard_check_write(ret_pool, sizeof *ret_pool, "ret_pool"))
		return CUDA_ERROR_INVALID_VALUE;
	result = cn_letter_receive_descriptor(sock, &descriptor);
	if (result)
		return result;
	result = cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cn_wire_discard(descriptor); /* the import has one of its own */
	if (!result)
		*ret_pool = pool;
	return result;
}

/* ---- A block over a socket ---- */

enum { HAS_EVENT = 1 };

/* The same in every process. */
struct block_body {
	uint64_t flags;
	CUmemPoolPtrExportData data;
	CUipcEventHandle ready; /* zeros without HAS_EVENT */
};
_Static_assert(sizeof(struct block_body) == 136, "no gaps");

static const struct cn_letter_kind block_letter = {
	.magic = {0xce, 'n', 'o', 't', 'e', 'b', 'k', '1'},
	.body_bytes = sizeof(struct block_body),
	.sender = "cenote_send_block()",
};

CENOTE_API CUresult cenote_send_block(int sock, CUdeviceptr block, CUevent ready)
{
	struct block_body body = {.flags = ready ? HAS_EVENT : 0};
	CUresult result = cuMemPoolExportPointer(&body.data, block);

	if (!result && ready)
		result = cuIpcGetEventHandle(&body.ready, ready);
	return result ? result : cn_letter_send(sock, &block_letter, &body, -1);
}

/* Is it a letter that cenote_send_block() wrote? The callers check what it names. */
static CUresult check_body(const struct block_body *body)
{
	static const CUipcEventHandle zeros;

	if (body->flags & ~(uint64_t)HAS_EVENT || (!body->flags && memcmp(&body->ready, &zeros, sizeof zeros) != 0))
		return cn_error(CUDA_ERROR_INVALID_HANDLE,
				"the message was sent by cenote_send_block() of another version");
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_recv_block(int sock, CUmemoryPool imported_pool, CUdeviceptr *ret_block, CUevent *ret_ready)
{
	struct cn_mempool *pool;
	struct block_body body;
	CUdeviceptr block;
	CUevent ready = NULL;
	CUdevice device;
	/* Check everything that can be checked first: what has been received cannot be received again. */
	CUresult result = cuCtxGetDevice(&device);

	if (!result)
		result = cn_mempool_get(imported_pool, &pool);
	if (result)
		return result;
	if (!pool->import)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool belongs to this process: use the block's address");
	if (!ret_block || !ret_ready)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_block ? "ret_ready" : "ret_block");
	if (!cn_guard_check_write(ret_block, sizeof *ret_block, "ret_block") ||
	    !cn_guard_check_write(ret_ready, sizeof *ret_ready, "ret_ready"))
		return CUDA_ERROR_INVALID_VALUE;
	result = cn_letter_receive(sock, &block_letter, &body, NULL);
	if (!result)
		result = check_body(&body);
	if (!result && body.flags & HAS_EVENT)
		result = cuIpcOpenEventHandle(&ready, body.ready);
	if (result)
		return result;
	result = cuMemPoolImportPointer(&block, imported_pool, &body.data);
	if (result) {
		if (ready)
			cuEventDestroy(ready);
		return result;
	}
	*ret_block = block;
	*ret_ready = ready;
	return CUDA_SUCCESS;
}

/* ---- The exporter's view ---- */

/* A pool that can be shared, with its export. */
static CUresult enter_shared(CUmemoryPool handle, struct cn_export **ret_export)
{
	struct cn_mempool *pool;
	int descriptor;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	if (!atomic_load(&pool->export)) {
		result = cuMemPoolExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
							  0);
		if (result)
			return result;
		close(descriptor); /* not to be sent: the export exists now, and stays */
	}
	struct cn_export *export = atomic_load(&pool->export);
	if (!export) /* the record belongs to another pool now */
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
	*ret_export = export;
	return CUDA_SUCCESS;
}

static cenote_importer describe(const struct cn_importer_facts *facts)
{
	return (cenote_importer){
		.id = facts->id,
		.pid = facts->pid,
		.uid = facts->uid,
		.leaving = facts->leaving,
		.node = (int)(facts->node & INT_MAX),
		.held_block_count = facts->held_count,
		.held_bytes = facts->held_bytes,
		.deferred_block_count = facts->deferred_count,
		.deferred_bytes = facts->deferred_bytes,
		.joined_ns = facts->joined_ns,
		.waiting_since_ns = facts->waiting_since_ns,
	};
}

/* Importers of an export, at most `room`, which is not 0. */
static CUresult list_importers(struct cn_export *export, cenote_importer *ret_importers, size_t importer_bytes,
			       size_t room, size_t *ret_count)
{
	room = room < CN_IMPORTERS_MAX ? room : CN_IMPORTERS_MAX;
	struct cn_importer_facts *facts = calloc(room, sizeof *facts);
	if (!facts)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for what is known of %zu importers", room);
	size_t count = cn_export_importers(export, facts, room);
	room = count < room ? count : room;
	bool there = cn_guard_check_write(ret_importers, room * importer_bytes, "ret_importers");
	for (size_t i = 0; there && i < room; i++) {
		cenote_importer importer = describe(&facts[i]);
		memcpy((char *)ret_importers + i * importer_bytes, &importer, importer_bytes);
	}
	free(facts);
	if (!there)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_count = count;
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_pool_importers(CUmemoryPool handle, cenote_importer *ret_importers, size_t importer_bytes,
					  size_t room, size_t *ret_count)
{
	struct cn_mempool *pool;
	CUresult result = cn_given(cn_mempool_enter_own(handle, &pool), ret_count, "ret_count");

	if (result)
		return result;
	if (room && (!ret_importers || !importer_bytes || importer_bytes > sizeof *ret_importers))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"an importer's description needs %zu bytes, and there is room for %zu each at %p",
				sizeof *ret_importers, importer_bytes, (void *)ret_importers);
	if (!cn_guard_check_write(ret_count, sizeof *ret_count, "ret_count"))
		return CUDA_ERROR_INVALID_VALUE;
	struct cn_export *export = atomic_load(&pool->export);
	if (export && room)
		return list_importers(export, ret_importers, importer_bytes, room, ret_count);
	*ret_count = export ? cn_export_importers(export, NULL, 0) : 0;
	return CUDA_SUCCESS;
}

void cn_mempool_count_shared(struct cn_mempool *pool, cenote_pool_statistics *statistics)
{
	struct cn_export *export = atomic_load(&pool->export);
	struct cn_export_numbers numbers = {0};

	if (export)
		cn_export_numbers(export, &numbers);
	statistics->exported_block_count = numbers.export_count;
	statistics->importer_count = numbers.importer_count;
	statistics->deferred_block_count = numbers.deferred_count;
	statistics->deferred_bytes = numbers.deferred_bytes;
}

CENOTE_API CUresult cenote_pool_watch(CUmemoryPool handle, int *ret_descriptor)
{
	struct cn_export *export;
	CUresult result = cn_given(enter_shared(handle, &export), ret_descriptor, "ret_descriptor");

	if (result)
		return result;
	if (!cn_guard_check_write(ret_descriptor, sizeof *ret_descriptor, "ret_descriptor"))
		return CUDA_ERROR_INVALID_VALUE;
	return cn_export_watch(export, ret_descriptor);
}

CENOTE_API CUresult cenote_pool_evict(CUmemoryPool handle, unsigned long long importer)
{
	struct cn_mempool *pool;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	struct cn_export *export = atomic_load(&pool->export);
	if (!export)
		return cn_error(CUDA_ERROR_NOT_FOUND, "the pool was never shared: it has no importer %llu", importer);
	return cn_export_evict(export, importer);
}

CENOTE_API CUresult cenote_pool_limit(CUmemoryPool handle, size_t bytes_per_importer)
{
	struct cn_export *export;
	CUresult result = enter_shared(handle, &export);

	if (!result)
		cn_export_set_limit(export, bytes_per_importer);
	return result;
}
