/* SPDX-License-Identifier: MIT */
/*
 * Pools, as the files of the driver know them: a handle, the properties, and which devices may use the memory.
 *
 * The memory itself is the allocator's (pool/pool.h). A block has no record here: its facts are its pool's. So the
 * record of a pool that is destroyed with live blocks outlives its handle.
 */
#ifndef CN_DRIVER_COMMON_MEMPOOL_H
#define CN_DRIVER_COMMON_MEMPOOL_H

#include "driver/common/memory.h"
#include "pool/pool.h"
#include "share/pool/import.h"

struct cn_mempool {
	struct cn_object object;            /* first */
	struct cn_pool *_Atomic pool;       /* of the slot's next owner, for a thread that comes too late */
	struct cn_device *device;           /* whose memory it is; NULL: the machine's */
	_Atomic(struct cn_export *) export; /* NULL: nothing of it was ever shared */
	struct cn_fabric *fabric;           /* NULL: it was never exported by a fabric handle; mempool_share.c's */
	_Atomic(struct cn_import *) import; /* another process's pool, which has no `pool` here */
	unsigned import_count;              /* it takes as many destroys */
	CUmemAllocationType type;
	CUmemLocation location; /* for managed memory the preferred one */
	unsigned int handle_types;
	bool is_default;        /* of its location: never destroyed */
	uint64_t handle;        /* kept after its death: blocks still name their pool */
	_Atomic uint64_t users; /* a bit for each device with rights: to read and write, there are no lesser ones */
	_Atomic bool host_uses; /* the host has these rights */
};

extern struct cn_table cn_mempools;

/* Has there ever been a pool in this process? */
extern _Atomic bool cn_mempools_exist;

/* The program has waited for a point. */
static inline void cn_mempools_synchronised(struct cn_point point)
{
	if (point.queue && atomic_load_explicit(&cn_mempools_exist, memory_order_relaxed))
		cn_pools_settle(point);
}

/* How many blocks have advice of their own (registry.h of driver/host): while none has, a free need not check. */
extern _Atomic unsigned cn_mempools_advised;

/* On a GPU: is it a handle of Cenote's, live or not, or one of the driver's? */
static inline bool cn_mempool_is_ours(CUmemoryPool handle)
{
	return cn_table_is_kind(CN_KIND_POOL_ON_GPU, (uintptr_t)handle);
}
/* The pools of this process are on a GPU: called once, before there is a pool. */
void cn_mempools_go_on_gpu(void);

/* A handle's pool. CUDA_ERROR_INVALID_VALUE: there is none. */
CUresult cn_mempool_get(CUmemoryPool handle, struct cn_mempool **ret_pool);

/* The same for calls that an imported pool cannot serve. */
CUresult cn_mempool_get_own(CUmemoryPool handle, struct cn_mempool **ret_pool);
/* cn_enter() with it. */
static inline CUresult cn_mempool_enter_own(CUmemoryPool handle, struct cn_mempool **ret_pool)
{
	return cn_enter() ?: cn_mempool_get_own(handle, ret_pool);
}
/* A record for a pool, without a handle; NULL: no memory. Published when it is filled in, or given back. */
struct cn_mempool *cn_mempool_take_record(void);
void cn_mempool_give_record(struct cn_mempool *pool);
/*
 * Publish an imported pool. If the process has imported it before, that handle counts one more import, and this record
 * is given back.
 */
uint64_t cn_mempool_publish_import(struct cn_mempool *pool);

/* The pool from which cuMemAllocAsync() allocates on each device; NULL: the default one, which was never needed yet. */
extern _Atomic(struct cn_mempool *) cn_mempools_current[CN_DEVICE_MAX];
CUresult cn_mempool_find_current(struct cn_device *device, struct cn_mempool **ret_pool);

/* ---- mempool_share.c ---- */

/* The pool has lost its handle: nothing of it is exported from now on. */
void cn_mempool_close_shared(struct cn_mempool *pool);
/* Reclaim the blocks that importers held when they died. */
void cn_mempool_look_again(struct cn_mempool *pool);
/* Free a block that was exported. */
CUresult cn_mempool_free_shared(uint64_t address, struct cn_queue *queue, uint64_t handle);

/* ---- mempool_use.c ---- */

/* The block around an address, as memory of kind CN_MEMORY_POOL. False: no pool has a block there. */
bool cn_mempool_find_memory(uint64_t address, struct cn_memory *ret_memory);

#endif
