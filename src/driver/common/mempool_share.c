/* SPDX-License-Identifier: MIT */
/*
 * Pools between processes: exported and imported as a descriptor or a fabric handle, their blocks by 64 bytes each.
 *
 * An exported pool gets an export (export.h) when it first needs one; an imported pool has an import (import.h) and no
 * memory of its own. Both are found through the pool's record, so a block leads to the code that frees it: see
 * mempool_use.c.
 */
#include "driver/common/mempool.h"

#include "base/descriptor.h"
#include "base/guard.h"
#include "share/peer/peer.h"
#include "share/pool/export.h"
#include "share/pool/import.h"
#include "share/port/fabric.h"

#include <string.h>
#include <unistd.h>

static CN_SLOW_LOCK(MEMPOOL_SHARE) making;

static CUresult check_export(const struct cn_mempool *pool, CUmemAllocationHandleType type)
{
	if (pool->import)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"an imported pool cannot be exported again: pass its descriptor on instead");
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && type != CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"handle type %d cannot be exported: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and _FABRIC can",
			(int)type);
	if (!(pool->handle_types & (unsigned)type))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the pool was not created with this handle type in handleTypes");
	/* The driver requires a channel for every export of a pool that has this handle type. */
	return pool->handle_types & CU_MEM_HANDLE_TYPE_FABRIC ? cn_fabric_permitted() : CUDA_SUCCESS;
}

/* A descriptor of a pool's export, which is made if it has none yet. `making` is held. */
static CUresult export_locked(struct cn_mempool *pool, CUmemAllocationHandleType type, int *ret_fd)
{
	struct cn_export *export = atomic_load(&pool->export);
	CUresult result = check_export(pool, type);

	if (!result && !export) {
		struct cn_export_facts facts = {
			.location_type = (int)pool->location.type,
			.location_id = pool->device ? pool->device->physical : pool->location.id,
			.handle_types = pool->handle_types,
			.memory_type = (int)pool->type,
		};
		result = cn_export_create(pool->pool, &facts, &export);
		if (!result)
			atomic_store_explicit(&pool->export, export, memory_order_release);
	}
	return result ? result : cn_export_descriptor(export, ret_fd);
}

/* The same by 64 bytes. `making` is held. */
static CUresult export_fabric_locked(struct cn_mempool *pool, void *ret_shareable)
{
	int fd;
	CUresult result = export_locked(pool, CU_MEM_HANDLE_TYPE_FABRIC, &fd);

	if (result)
		return result;
	if (!pool->fabric)
		result = cn_fabric_create(CN_FABRIC_POOL, fd, &pool->fabric);
	close(fd);
	if (!result)
		memcpy(ret_shareable, cn_fabric_handle(pool->fabric), CN_HANDLE_BYTES);
	return result;
}

static CUresult export_as_locked(struct cn_mempool *pool, CUmemAllocationHandleType type, void *ret_shareable)
{
	int fd;

	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return export_fabric_locked(pool, ret_shareable);
	CUresult result = export_locked(pool, type, &fd);
	if (!result)
		memcpy(ret_shareable, &fd, sizeof fd);
	return result;
}

void cn_mempool_close_shared(struct cn_mempool *pool)
{
	cn_slow_lock(&making);
	struct cn_export *export = atomic_load(&pool->export);
	cn_fabric_free(pool->fabric);
	pool->fabric = NULL;
	cn_slow_unlock(&making);
	if (export)
		cn_export_close(export);
}

CUresult own_cuMemPoolExportToShareableHandle(void *ret_shareable, CUmemoryPool handle, CUmemAllocationHandleType type,
					      unsigned long long flags)
{
	struct cn_mempool *pool;
	CUresult result = cn_enter();

	if (!result)
		result = cn_mempool_get(handle, &pool);
	if (result)
		return result;
	if (!ret_shareable)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "handle_out is NULL");
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemPoolExportToShareableHandle takes no flags: they must be 0, not 0x%llx", flags);
	/* A thread that destroys the pool also takes this lock before the record can be reused. */
	cn_slow_lock(&making);
	result = cn_object_handle(pool) == (uintptr_t)handle
			 ? export_as_locked(pool, type, ret_shareable)
			 : cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
	cn_slow_unlock(&making);
	return result;
}

/* What the exporter says of its pool: not trusted, so only known values are accepted. */
static CUresult take_facts(struct cn_mempool *pool, const struct cn_export_facts *facts)
{
	bool on_device = facts->location_type == CU_MEM_LOCATION_TYPE_DEVICE;

	pool->device = on_device ? cn_devices_find_physical(facts->location_id) : NULL;
	if (on_device && !pool->device)
		return cn_error(CUDA_ERROR_INVALID_DEVICE,
				"the pool is on physical device %d, which this process cannot see "
				"(CUDA_VISIBLE_DEVICES)",
				facts->location_id);
	if (!on_device && facts->location_type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool's location cannot be shared");
	pool->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	pool->location.type = (CUmemLocationType)facts->location_type;
	pool->location.id = on_device ? pool->device->ordinal : facts->location_id;
	pool->handle_types = 0;
	pool->is_default = false;
	pool->users = on_device ? 1ull << pool->device->ordinal : 0;
	pool->host_uses = !on_device;
	return CUDA_SUCCESS;
}

static CUresult check_import(CUmemAllocationHandleType type)
{
	switch ((int)type) {
	case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: return CUDA_SUCCESS;
	case CU_MEM_HANDLE_TYPE_WIN32: return cn_error(CUDA_ERROR_NOT_SUPPORTED, "Win32 handles are for Windows");
	case CU_MEM_HANDLE_TYPE_FABRIC:
		return cn_devices_check(&cn_devices[0], CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
					"memory pools that can be shared by fabric handle");
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "a pool cannot be imported from handle type %d", (int)type);
	}
}

/* Like the driver, tell a descriptor of something else from a bad argument. */
static CUresult explain_import(CUresult result, const void *shareable)
{
	int fd = (int)(intptr_t)shareable;

	if (result != CUDA_ERROR_INVALID_VALUE)
		return result;
	if (cn_descriptor_leads_to_socket(fd)) /* the sentence says what is wrong with it */
		return CUDA_ERROR_UNKNOWN;
	if (!cn_descriptor_is_open(fd))
		return cn_memory_refuse_descriptor(shareable);
	if (!cn_device_ops->descriptor_is_memory(fd))
		return cn_error(CUDA_ERROR_UNKNOWN, "descriptor %d does not lead to a pool", fd);
	return cn_error(CUDA_ERROR_NOT_SUPPORTED,
			"descriptor %d leads to memory of cuMemCreate(): use cuMemImportFromShareableHandle()", fd);
}

/*
 * Of another machine: it is shown as memory of this process's first device, since copies need rights of a device here.
 */
static CUresult import_elsewhere(const void *shareable, struct cn_mempool *pool, struct cn_import **ret_import,
				 struct cn_export_facts *ret_facts)
{
	if (cn_device_ops != &cn_host_device_ops)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle is of another machine's pool, which a GPU cannot use");
	CUresult result = cn_import_create_elsewhere(shareable, pool, ret_import, ret_facts);
	if (result)
		return result;
	ret_facts->location_type = CU_MEM_LOCATION_TYPE_DEVICE;
	ret_facts->location_id = cn_devices[0].physical;
	return CUDA_SUCCESS;
}

static CUresult import_fabric(const void *shareable, struct cn_mempool *pool, struct cn_import **ret_import,
			      struct cn_export_facts *ret_facts)
{
	int fd;
	CUresult result = cn_fabric_find(shareable, CN_FABRIC_POOL, &fd);

	if (result)
		return result;
	if (fd < 0)
		return import_elsewhere(shareable, pool, ret_import, ret_facts);
	result = cn_import_create(fd, pool, ret_import, ret_facts);
	cn_wire_discard(fd);
	return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_NOT_SUPPORTED : result; /* the sentence says why */
}

static CUresult import_descriptor(const void *shareable, struct cn_mempool *pool, struct cn_import **ret_import,
				  struct cn_export_facts *ret_facts)
{
	CUresult result = cn_import_create((int)(intptr_t)shareable, pool, ret_import, ret_facts);

	return result ? explain_import(result, shareable) : CUDA_SUCCESS;
}

CUresult own_cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *shareable, CUmemAllocationHandleType type,
						unsigned long long flags)
{
	struct cn_export_facts facts;
	struct cn_import *import;
	CUresult result = cn_given(cn_enter(), ret_pool, "pool_out");

	if (result)
		return result;
	if (!shareable)
		return cn_memory_refuse_no_handle(type, "handle");
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemPoolImportFromShareableHandle takes no flags: they must be 0, not 0x%llx", flags);
	*ret_pool = NULL;
	result = check_import(type);
	if (result)
		return result;
	struct cn_mempool *pool = cn_mempool_take_record();
	if (!pool)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's record");
	result = type == CU_MEM_HANDLE_TYPE_FABRIC ? import_fabric(shareable, pool, &import, &facts)
						   : import_descriptor(shareable, pool, &import, &facts);
	if (result) {
		cn_mempool_give_record(pool);
		return result;
	}
	pool->import = import;
	result = take_facts(pool, &facts);
	if (!result)
		result = cn_import_allow(import, (struct cn_users){.devices = pool->users, .host = pool->host_uses});
	if (result) {
		cn_import_close(import); /* when it ends, the record is given back */
		return result;
	}
	*ret_pool = (CUmemoryPool)(uintptr_t)cn_mempool_publish_import(pool);
	return CUDA_SUCCESS;
}

/* No block of a pool of this process begins at the address: say what is there. */
static __attribute__((cold)) CUresult refuse_export(CUdeviceptr pointer)
{
	const void *address = (const void *)(uintptr_t)pointer;
	struct cn_pool_block around;

	if (cn_pool_find(address, &around))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no block of the pool begins at %p", address);
	if (cn_pool_has_freed(address))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the block at 0x%llx was freed", pointer);
	if (atomic_load(&cn_imports_exist) && cn_import_has(address))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the block at 0x%llx was imported: only the process that allocated it can export it",
				pointer);
	return cn_error(CUDA_ERROR_INVALID_VALUE,
			"0x%llx was not allocated from a pool: cuMemAllocAsync() and cuMemAllocFromPoolAsync() do that",
			pointer);
}

CUresult own_cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr pointer)
{
	struct cn_pool_block block;
	struct cn_export_data data;
	CUresult result = cn_given(cn_enter(), ret_data, "shareData_out");

	if (result)
		return result;
	if (__builtin_expect(!cn_pool_find_start((void *)(uintptr_t)pointer, &block), 0))
		return refuse_export(pointer);
	struct cn_mempool *pool = cn_pool_owner(block.pool);
	struct cn_export *export = atomic_load_explicit(&pool->export, memory_order_acquire);
	if (!export)
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"the block's pool has not been exported: call cuMemPoolExportToShareableHandle() first");
	result = cn_export_pointer(export, (void *)(uintptr_t)pointer, &data);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	if (!cn_guard_copy_64(ret_data, &data)) /* the export stays: it may be exported again */
		return cn_error(CUDA_ERROR_INVALID_VALUE, "shareData_out: the memory at %p cannot be written",
				(void *)ret_data);
	return CUDA_SUCCESS;
}

CUresult own_cuMemPoolImportPointer(CUdeviceptr *ret_pointer, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
	struct cn_mempool *pool;
	void *address;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_pointer || !data || !handle)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL",
				!ret_pointer ? "ptr_out"
				: !data      ? "shareData"
					     : "pool");
	if (!cn_guard_put(ret_pointer, 0))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "ptr_out: the memory at %p cannot be written",
				(void *)ret_pointer);
	result = cn_mempool_get(handle, &pool);
	if (result)
		return result;
	struct cn_import *import = pool->import;
	if (!import)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool belongs to this process: use the block's address");
	result = cn_import_pointer(import, data, &address);
	if (!result)
		*ret_pointer = (uintptr_t)address;
	return result;
}

/* ---- Freeing ---- */

void cn_mempool_look_again(struct cn_mempool *pool)
{
	struct cn_export *export = atomic_load(&pool->export);

	if (export)
		cn_export_rescan(export);
}

CUresult cn_mempool_free_shared(uint64_t address, struct cn_queue *queue, uint64_t handle)
{
	struct cn_pool_block block;

	if (!cn_pool_find((void *)(uintptr_t)address, &block))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the block at 0x%llx was already freed",
				(unsigned long long)address);
	struct cn_mempool *pool = cn_pool_owner(block.pool);
	return cn_export_free(atomic_load(&pool->export), block.start, queue, handle);
}
