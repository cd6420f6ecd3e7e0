/* SPDX-License-Identifier: MIT */
/*
 * Memory, as a call finds it at an address: its facts, and the answers to questions about it.
 *
 * On the host device the registry (driver/host/registry.h) knows all memory. On a GPU only blocks of pools are ours;
 * the driver is asked about everything else.
 */
#ifndef CN_DRIVER_COMMON_MEMORY_H
#define CN_DRIVER_COMMON_MEMORY_H

#include "driver/common/driver.h"

struct cn_context; /* driver/host's */

enum cn_memory_kind {
	CN_MEMORY_FOREIGN = 0,
	CN_MEMORY_DEVICE = 1 << 0,
	CN_MEMORY_PINNED = 1 << 1,     /* cuMemHostAlloc() */
	CN_MEMORY_REGISTERED = 1 << 2, /* the program's own: cuMemHostRegister() */
	CN_MEMORY_MANAGED = 1 << 3,
	CN_MEMORY_VARIABLE = 1 << 4, /* of a module: device or managed memory that goes with it (module.c) */
	CN_MEMORY_MAPPED = 1 << 5,   /* by cuMemMap(): of no context, with rights of its own */
	CN_MEMORY_POOL = 1 << 6,     /* a block of a pool: of no context, with the pool's rights (mempool_use.c) */
	CN_MEMORY_OPENED = 1 << 7,   /* another process's, opened by a handle (ipc_memory.c) */
};

struct cn_memory {
	enum cn_memory_kind kind;
	uint64_t start;
	size_t bytes; /* as asked for */
	struct cn_device *device;
	struct cn_context *context;
	uint64_t context_life;
	uint64_t context_handle;
	unsigned int flags; /* as given when it was allocated or registered */
	uint64_t id;        /* never used twice in a process */
	bool sync_memops;   /* calls without a stream wait to the end */

	/* Of CN_MEMORY_MAPPED alone. */
	uint64_t allocation;        /* CUmemGenericAllocationHandle */
	uint64_t reservation_start; /* the range it is mapped into */
	size_t reservation_bytes;
	uint64_t remote; /* the number of memory on another machine (host_remote.h), which has no pages here; or 0 */

	bool managed; /* of a pool, or a variable */

	/* Of CN_MEMORY_POOL alone. */
	uint64_t pool;           /* CUmemoryPool; 0: destroyed */
	CUmemLocation preferred; /* of managed memory */
	bool imported;           /* another process's */

	/* Of both. */
	bool on_host; /* memory of the machine's, neither of a device nor managed */
	unsigned int handle_types;
	uint64_t readers, writers; /* a bit for each device that may */
	unsigned int host_rights;  /* CU_MEM_ACCESS_FLAGS_PROT_… of the host, for memory on the host */
};

/* May a device read it, or write it? */
static inline bool cn_memory_allows(const struct cn_memory *memory, const struct cn_device *device, bool write)
{
	return !(memory->kind & (CN_MEMORY_MAPPED | CN_MEMORY_POOL)) ||
	       (write ? memory->writers : memory->readers) >> device->ordinal & 1;
}

/* Is it a device's alone? Then calls without a stream need not wait for it. */
static inline bool cn_memory_is_device(const struct cn_memory *memory)
{
	return memory->kind & (CN_MEMORY_DEVICE | CN_MEMORY_OPENED) ||
	       (memory->kind & (CN_MEMORY_VARIABLE | CN_MEMORY_MAPPED | CN_MEMORY_POOL) && !memory->on_host &&
		!memory->managed);
}

/* Is it the host's alone? */
static inline bool cn_memory_is_host(const struct cn_memory *memory)
{
	return memory->kind == CN_MEMORY_FOREIGN || (memory->kind & (CN_MEMORY_PINNED | CN_MEMORY_REGISTERED)) ||
	       (memory->kind & (CN_MEMORY_MAPPED | CN_MEMORY_POOL) && memory->on_host);
}

static inline bool cn_memory_is_managed(const struct cn_memory *memory)
{
	return memory->kind == CN_MEMORY_MANAGED || memory->managed;
}

/* The name of the call that gives rights to it. */
static inline const char *cn_memory_access_call(const struct cn_memory *memory)
{
	return memory->kind == CN_MEMORY_POOL ? "cuMemPoolSetAccess()" : "cuMemSetAccess()";
}

static inline bool cn_memory_location_is_host(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* The asker of a question about memory. */
struct cn_memory_asker {
	const struct cn_device *device; /* of the current context; NULL: none is current */
	uint64_t peers;                 /* a bit for each device whose memory that context may use */
};

/* CUDA_ERROR_INVALID_VALUE: there is no such attribute, or no room for the answer. */
CUresult cn_memory_check_attribute(CUpointer_attribute attribute, const void *ret_data);
CUresult cn_memory_check_attributes(unsigned int count, const CUpointer_attribute *attributes, void *const *ret_data);
/* Would CU_POINTER_ATTRIBUTE_P2P_TOKENS be answered? */
bool cn_memory_has_tokens(const struct cn_memory *memory);
/* cuPointerGetAttribute(), after the attribute was checked. Memory that was not found is CN_MEMORY_FOREIGN. */
CUresult cn_memory_get_attribute(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				 CUpointer_attribute attribute, CUdeviceptr pointer, void *ret_data);
CUresult cn_memory_get_attributes(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				  unsigned int count, const CUpointer_attribute *attributes, CUdeviceptr pointer,
				  void **ret_data);
/* cuPointerSetAttribute(): `set` does it, to memory of one of these kinds, if there is any. */
CUresult cn_memory_set_attribute(const struct cn_memory *memory, CUpointer_attribute attribute, CUdeviceptr pointer,
				 const void *value, bool (*set)(uint64_t address, unsigned int kinds, bool on));
/* What a range can be asked to have: see cn_memory_set_attribute(). */
enum {
	CN_MEMORY_TOKEN_KINDS = CN_MEMORY_DEVICE | CN_MEMORY_MANAGED | CN_MEMORY_VARIABLE | CN_MEMORY_MAPPED |
				CN_MEMORY_POOL | CN_MEMORY_OPENED,
};
/* cuMemGetAccess(). */
CUresult cn_memory_get_access(const struct cn_memory *memory, const CUmemLocation *location, CUdeviceptr address,
			      unsigned long long *ret_flags);

/* Set the sentence: nothing can be imported from a handle of 0, in argument `name`; the call refuses it. */
CUresult cn_memory_refuse_no_handle(CUmemAllocationHandleType type, const char *name);
/* The same of a descriptor that is not open: CUDA_ERROR_UNKNOWN. */
CUresult cn_memory_refuse_descriptor(const void *shareable);

#endif
