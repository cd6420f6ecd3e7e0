/* SPDX-License-Identifier: MIT */
/*
 * Using pools: the facts of a block, the rare paths of allocating and freeing, and statistics.
 */
#include "driver/common/mempool_use.h"

#include "driver/common/cenote_share.h"

#include "cenote/cenote.h"

#include <inttypes.h>
#include <string.h>

/* Ids of blocks and of the registry's memory are counted apart, and answer the same attribute. */
#define BLOCK_ID  (1ull << 63)
#define IMPORT_ID (1ull << 62)

/* ---- What a block is ---- */

/* The facts of a block are those of its pool. */
static struct cn_memory describe(const struct cn_mempool *pool, const void *start, size_t bytes, uint64_t id)
{
	bool managed = pool->type == CU_MEM_ALLOCATION_TYPE_MANAGED, on_host = !pool->device && !managed;
	/* Every device can use managed memory, whatever rights were given. */
	uint64_t users = managed ? UINT64_MAX : atomic_load_explicit(&pool->users, memory_order_relaxed);

	return (struct cn_memory){
		.kind = CN_MEMORY_POOL,
		.start = (uintptr_t)start,
		.bytes = bytes,
		.device = pool->device,
		.id = id,
		.pool = pool->handle,
		.managed = managed,
		.imported = pool->import != NULL,
		.preferred = pool->location,
		.on_host = on_host,
		.host_rights = on_host && atomic_load_explicit(&pool->host_uses, memory_order_relaxed)
				       ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				       : CU_MEM_ACCESS_FLAGS_PROT_NONE,
		.handle_types = pool->handle_types,
		.readers = users,
		.writers = users,
	};
}

bool cn_mempool_find_memory(uint64_t address, struct cn_memory *ret_memory)
{
	struct cn_import_block imported;
	struct cn_pool_block block;

	if (!atomic_load_explicit(&cn_mempools_exist, memory_order_relaxed))
		return false;
	if (cn_pool_find((const void *)(uintptr_t)address, &block)) {
		*ret_memory = describe(cn_pool_owner(block.pool), block.start, block.bytes, block.id | BLOCK_ID);
		return true;
	}
	if (!cn_import_find((const void *)(uintptr_t)address, &imported))
		return false;
	*ret_memory = describe(imported.owner, imported.start, imported.bytes, imported.id | IMPORT_ID);
	ret_memory->remote = imported.remote;
	return true;
}

/* ---- Allocating and freeing ---- */

CUresult cn_mempool_undo_allocation(CUdeviceptr *ret_pointer, cn_mempool_free_last *free_last)
{
	free_last(*ret_pointer);
	*ret_pointer = 0;
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream was destroyed during the call");
}

void cn_mempool_give_up(uint64_t address, struct cn_queue *queue, uint64_t owner, cn_mempool_free_last *free_last)
{
	struct cn_point point;

	if (address &&
	    (cn_device_ops->point_now(queue, owner, &point) || cn_pool_free((void *)(uintptr_t)address, point)))
		free_last(address);
}

static CUresult needs_a_stream(void)
{
	return cn_error(CUDA_ERROR_INVALID_CONTEXT,
			"a shared block is freed in stream order, which needs a current context");
}

CUresult cn_mempool_free_imported(uint64_t address, struct cn_queue *queue, uint64_t handle)
{
	return queue ? cn_import_free((void *)(uintptr_t)address, queue, handle) : needs_a_stream();
}

CUresult cn_mempool_free_otherwise(uint64_t address, struct cn_queue *queue, uint64_t handle, int freed)
{
	if (freed != CN_POOL_FREE_SHARED)
		return (CUresult)freed;
	return queue ? cn_mempool_free_shared(address, queue, handle) : needs_a_stream();
}

CUresult cn_mempool_refuse_free(uint64_t address, const struct cn_memory *memory)
{
	if (memory->kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"no allocation is at 0x%" PRIx64 ": it was already freed, or never allocated", address);
	if (memory->start != address)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"0x%" PRIx64 " is inside the allocation that begins at 0x%" PRIx64, address,
				memory->start);
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the memory at 0x%" PRIx64 " cannot be freed in stream order",
			address);
}

/* ---- Statistics ---- */

CENOTE_API CUresult cenote_pool_stats(CUmemoryPool handle, cenote_pool_statistics *ret_statistics, size_t room_bytes)
{
	struct cn_mempool *pool;
	struct cn_pool_statistics numbers;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	if (!ret_statistics || room_bytes > sizeof *ret_statistics)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "statistics need %zu bytes, and there is room for %zu at %p",
				sizeof *ret_statistics, room_bytes, (void *)ret_statistics);
	if (!cn_guard_check_write(ret_statistics, room_bytes, "ret_statistics"))
		return CUDA_ERROR_INVALID_VALUE;
	cn_mempool_look_again(pool);
	cn_pool_statistics(pool->pool, &numbers);
	cenote_pool_statistics statistics = {
		.used_bytes = numbers.used_bytes,
		.used_high_bytes = numbers.used_high_bytes,
		.reserved_bytes = numbers.reserved_bytes,
		.reserved_high_bytes = numbers.reserved_high_bytes,
		.largest_free_bytes = numbers.largest_free_bytes,
		.free_block_count = numbers.free_block_count,
		.live_block_count = numbers.live_block_count,
		.metadata_bytes = numbers.metadata_bytes,
		.reused_own = numbers.reused_own,
		.reused_settled = numbers.reused_settled,
		.reused_followed = numbers.reused_followed,
		.reused_opportunistic = numbers.reused_opportunistic,
		.reused_waiting = numbers.reused_waiting,
		.grown = numbers.grown,
	};
	_Static_assert(sizeof statistics.free_blocks_by_size == sizeof numbers.free_blocks_by_size,
		       "one for each power");
	memcpy(statistics.free_blocks_by_size, numbers.free_blocks_by_size, sizeof numbers.free_blocks_by_size);
	cn_mempool_count_shared(pool, &statistics);
	memcpy(ret_statistics, &statistics, room_bytes);
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_pool_picture(CUmemoryPool handle, char *ret_text, size_t room_bytes)
{
	enum { COLUMNS = 64, LINES_MAX = 64 };
	char cells[COLUMNS * LINES_MAX];
	struct cn_mempool *pool;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	size_t lines = room_bytes ? (room_bytes - 1) / (COLUMNS + 1) : 0;
	if (!ret_text || !lines)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a line of the picture needs %d bytes", COLUMNS + 2);
	lines = lines < LINES_MAX ? lines : LINES_MAX;
	if (!cn_guard_check_write(ret_text, lines * (COLUMNS + 1) + 1, "ret_text"))
		return CUDA_ERROR_INVALID_VALUE;
	cn_pool_draw(pool->pool, cells, lines * COLUMNS);
	for (size_t line = 0; line < lines; line++) {
		memcpy(ret_text, cells + line * COLUMNS, COLUMNS);
		ret_text += COLUMNS;
		*ret_text++ = '\n';
	}
	*ret_text = 0;
	return CUDA_SUCCESS;
}
