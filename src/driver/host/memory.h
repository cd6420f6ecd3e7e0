/* SPDX-License-Identifier: MIT */
/*
 * What the driver knows of memory: one registry of everything that was allocated, registered or mapped.
 *
 * The registry answers "which memory is at this address?" with a copy of the facts, so nobody follows a pointer into it
 * that another thread's free could pull away. An address that it does not know is *foreign*: plain memory of the
 * program, or nothing at all.
 */
#ifndef CN_DRIVER_HOST_MEMORY_H
#define CN_DRIVER_HOST_MEMORY_H

#include "device/host/host_memory.h"
#include "driver/host/objects.h"

enum cn_memory_kind {
	CN_MEMORY_FOREIGN = 0,
	CN_MEMORY_DEVICE = 1 << 0,
	CN_MEMORY_PINNED = 1 << 1,     /* cuMemHostAlloc() */
	CN_MEMORY_REGISTERED = 1 << 2, /* the program's own: cuMemHostRegister() */
	CN_MEMORY_MANAGED = 1 << 3,
	CN_MEMORY_VARIABLE = 1 << 4, /* of a module: device memory that goes with it (module.c) */
	CN_MEMORY_MAPPED = 1 << 5,   /* by cuMemMap(): nobody's context's, with rights of its own */
	CN_MEMORY_POOL = 1 << 6,     /* a block of a pool: nobody's context's, with the pool's rights (mempool_use.c) */
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

	/* Of CN_MEMORY_POOL alone. */
	uint64_t pool; /* CUmemoryPool; 0: destroyed */
	bool managed;
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
	return memory->kind & (CN_MEMORY_DEVICE | CN_MEMORY_VARIABLE | CN_MEMORY_OPENED) ||
	       (memory->kind & (CN_MEMORY_MAPPED | CN_MEMORY_POOL) && !memory->on_host && !memory->managed);
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

/* The call that gives rights to it. */
static inline const char *cn_memory_access_call(const struct cn_memory *memory)
{
	return memory->kind == CN_MEMORY_POOL ? "cuMemPoolSetAccess()" : "cuMemSetAccess()";
}

struct cn_advice; /* managed.c */

/*
 * Enter memory at its address, as the context's. CUDA_ERROR_CONTEXT_IS_DESTROYED when the context went meanwhile; for
 * memory to be registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when part of it is, and CUDA_ERROR_INVALID_VALUE
 * when part of it was allocated here. `advice`, for managed memory alone, becomes the registry's.
 */
CUresult cn_memory_add(const struct cn_home *home, enum cn_memory_kind kind, void *address, size_t bytes,
		       unsigned int flags, struct cn_advice *advice);

/* Forget what was registered at addresses that the system has given to us since: the program unmapped it under us. */
void cn_memory_forget_stale(uint64_t start, size_t bytes);

/* Enter what cuMemMap() mapped: its facts, but for the id. */
CUresult cn_memory_add_mapping(const struct cn_memory *facts);
/* Remove a mapping, of which this is the start; the memory itself is the caller's affair. */
void cn_memory_remove_mapping(uint64_t start);
void cn_memory_set_rights(uint64_t start, uint64_t readers, uint64_t writers, unsigned int host_rights);
/* The first memory that ends after the address. False: there is none. */
bool cn_memory_find_from(uint64_t address, struct cn_memory *ret_memory);

/* Sleep for the work of the memory's context, if it has one that is not the current one. */
void cn_memory_wait(const struct cn_memory *memory, const struct cn_home *current);

/* The memory around an address; kind CN_MEMORY_FOREIGN, and false, when there is none. */
bool cn_memory_find(uint64_t address, struct cn_memory *ret_memory);

/*
 * The way into a call that frees: it needs no current context (it is NULL in *ret_home then), but refuses one that was
 * destroyed.
 */
CUresult cn_memory_enter_free(struct cn_home *ret_home);

/*
 * Remove the memory of one of these kinds that begins at the address, wait for the work that may use it, and give it
 * back. False, and nothing happened, when there is none.
 */
bool cn_memory_free(const struct cn_home *current, uint64_t address, unsigned int kinds);

/*
 * Free memory of one of these kinds when the stream has come to it; its address is dead at once. CUDA_ERROR_NOT_FOUND,
 * and nothing happened, when there is none.
 */
CUresult cn_memory_free_in_stream(const struct cn_place *place, uint64_t address, unsigned int kinds);

/*
 * The memory that holds a whole range. CUDA_ERROR_INVALID_VALUE when it begins in memory that ends too early, or wraps
 * around; foreign is no error. Mappings that touch count as one, with the rights that they have in common.
 */
CUresult cn_memory_range(uint64_t address, size_t bytes, struct cn_memory *ret_memory);

/* Set what cuPointerSetAttribute() can set. False: no memory of one of these kinds is at the address. */
bool cn_memory_set_sync(uint64_t address, unsigned int kinds, bool sync_memops);

/*
 * Call `visit` with the advice of the managed memory that holds a whole range, locked: it neither blocks nor allocates.
 * CUDA_ERROR_INVALID_VALUE: no such memory.
 */
CUresult cn_memory_visit_advice(uint64_t address, size_t bytes, void (*visit)(struct cn_advice *advice, void *data),
				void *data);
/* The block of a pool that begins at the address is being freed: forget what was noted of it. */
void cn_memory_forget_note(uint64_t address);

/* ---- Between processes (ipc_memory.c) ---- */

struct cn_borrowed_memory;
enum { CN_MEMORY_HANDLE_BYTES = 64 };

/* The handle of the device memory around an address, which has one from then on. */
CUresult cn_memory_share(uint64_t address, unsigned char ret_handle[CN_MEMORY_HANDLE_BYTES]);
/* If the context has this handle open, open it once more. */
bool cn_memory_open_again(const struct cn_home *home, const unsigned char handle[CN_MEMORY_HANDLE_BYTES],
			  uint64_t *ret_address);
/* Enter memory of a device that was opened by a handle; on success it is the registry's. */
CUresult cn_memory_add_opened(const struct cn_home *home, struct cn_device *device,
			      const unsigned char handle[CN_MEMORY_HANDLE_BYTES], struct cn_borrowed_memory *borrowed,
			      uint64_t *ret_address);
/* Close opened memory once; the last time it goes. False: no such memory begins at the address. */
bool cn_memory_close(uint64_t address);

/*
 * managed.c: what is kept of memory that was given no advice yet; of a pool's, with what the pool prefers. NULL: no
 * memory.
 */
struct cn_advice *cn_advice_make(uint64_t start, size_t bytes, const CUmemLocation *preferred);
/* Free an advice list; NULL is fine. */
void cn_advice_free(struct cn_advice *advice);

/* Bring the pages of a range in. CUDA_ERROR_INVALID_VALUE: some cannot be read, or written if they have to be. */
CUresult cn_memory_populate(uint64_t address, size_t bytes, bool writable);

/* ---- Copies and fills: what a call and its per-thread twin have in common ---- */

enum cn_side {
	CN_SIDE_ANY,    /* the address tells */
	CN_SIDE_HOST,   /* foreign memory too */
	CN_SIDE_DEVICE, /* memory that the registry knows */
};

struct cn_rows {
	enum cn_side side;
	uint64_t address;
	size_t pitch;       /* bytes from one row to the next */
	size_t layer_pitch; /* and from one layer of rows to the next */
};

struct cn_copy {
	struct cn_rows to, from;
	size_t row_bytes, row_count;
	size_t layer_count; /* 0: one */
};

struct cn_fill {
	uint64_t address;
	size_t pitch;
	uint32_t value;
	unsigned int element_bytes;
	size_t row_elements, row_count;
};

/* How a call relates to its stream. */
enum cn_manner {
	CN_NOW,      /* done on return, as far as CUDA promises it */
	CN_IN_STREAM /* enqueued */
};

CUresult cn_copy(const struct cn_copy *copy, CUstream stream, enum cn_manner manner);
/* The stream of a copy. Host functions may name a stream, but not copy in it: a copy can wait. */
CUresult cn_copy_find_stream(CUstream handle, struct cn_place *ret_place);
/* Look the sides up and copy, in a stream that was found so. Rows are not empty. */
CUresult cn_copy_run(const struct cn_place *place, const struct cn_copy *copy, enum cn_manner manner,
		     struct cn_point *ret_point);

/*
 * A call that takes no stream, and its form whose default stream is the thread's own: `function` and function_ptds.
 * The body of both is `call`, where `stream` is the default stream.
 */
#define CN_COPY_TWINS(function, parameters, call)       \
	CUresult function parameters                    \
	{                                               \
		CUstream stream = NULL;                 \
		return call;                            \
	}                                               \
	CUresult function##_ptds parameters             \
	{                                               \
		CUstream stream = CU_STREAM_PER_THREAD; \
		return call;                            \
	}

#endif
