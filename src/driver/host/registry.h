/* SPDX-License-Identifier: MIT */
/*
 * The registry of all memory that was allocated, registered or mapped on the host device.
 *
 * It answers "which memory is at this address?" with a copy of the facts, so no caller holds a pointer into it that
 * another thread's free could invalidate. An address that it does not know is *foreign*: plain memory of the program,
 * or nothing at all.
 */
#ifndef CN_DRIVER_HOST_REGISTRY_H
#define CN_DRIVER_HOST_REGISTRY_H

#include "device/host/host_memory.h"
#include "driver/common/memory.h"
#include "driver/host/objects.h"

struct cn_advice; /* managed.c */

/*
 * Enter memory at its address, as the context's. CUDA_ERROR_CONTEXT_IS_DESTROYED: the context ended meanwhile; for
 * memory to be registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: part of it is, and CUDA_ERROR_INVALID_VALUE: part
 * of it was allocated here. The registry takes over `advice`, which is for managed memory alone.
 */
CUresult cn_registry_add(const struct cn_home *home, enum cn_memory_kind kind, void *address, size_t bytes,
			 unsigned int flags, struct cn_advice *advice);

/* Forget what was registered at addresses that the system has given to us since: the program has unmapped it. */
void cn_registry_forget_stale(uint64_t start, size_t bytes);

/* Enter what cuMemMap() mapped: its facts, except the id. */
CUresult cn_registry_add_mapping(const struct cn_memory *facts);
/* Remove the mapping that starts here; the caller takes care of the memory itself. */
void cn_registry_remove_mapping(uint64_t start);
void cn_registry_set_rights(uint64_t start, uint64_t readers, uint64_t writers, unsigned int host_rights);
/* The first memory that ends after the address. False: there is none. */
bool cn_registry_find_from(uint64_t address, struct cn_memory *ret_memory);

/* Wait for the work of the memory's context, if it has one that is not the current one. */
void cn_registry_wait(const struct cn_memory *memory, const struct cn_home *current);

/* The memory around an address; kind CN_MEMORY_FOREIGN, and false, when there is none. */
bool cn_registry_find(uint64_t address, struct cn_memory *ret_memory);

/*
 * The entry of a call that frees: it needs no current context (then it is NULL in *ret_home), but refuses one that was
 * destroyed.
 */
CUresult cn_registry_enter_free(struct cn_home *ret_home);

/*
 * Remove the memory of one of these kinds that begins at the address, wait for the work that may use it, and give it
 * back. False, and nothing happened: there is none.
 */
bool cn_registry_free(const struct cn_home *current, uint64_t address, unsigned int kinds);

/* Remove memory that its owner gives back later, and not the registry. Waits for nothing. */
void cn_registry_forget(uint64_t address, unsigned int kinds);

/*
 * Free memory of one of these kinds when the stream has come to the free; its address is dead at once. False, and
 * nothing happened: there is none.
 */
bool cn_registry_free_in_stream(const struct cn_place *place, uint64_t address, unsigned int kinds,
				CUresult *ret_result);

/*
 * The memory that holds a whole range. CUDA_ERROR_INVALID_VALUE: the range begins in memory that ends too early, or
 * wraps around; foreign memory is no error. Mappings that touch count as one, with the rights that they have in common.
 */
CUresult cn_registry_range(uint64_t address, size_t bytes, struct cn_memory *ret_memory);

/* Set what cuPointerSetAttribute() can set. False: no memory of one of these kinds is at the address. */
bool cn_registry_set_sync(uint64_t address, unsigned int kinds, bool sync_memops);

/*
 * Call `visit` with the advice of the managed memory that holds a whole range, locked: it must neither block nor
 * allocate. CUDA_ERROR_INVALID_VALUE: no such memory.
 */
CUresult cn_registry_visit_advice(uint64_t address, size_t bytes, void (*visit)(struct cn_advice *advice, void *data),
				  void *data);
/* The block of a pool that begins at the address is being freed: forget what was noted of it. */
void cn_registry_forget_note(uint64_t address);

/* ---- Between processes (ipc_memory.c) ---- */

struct cn_opened_memory;
enum { CN_REGISTRY_HANDLE_BYTES = 64 };

/* The handle of the device memory around an address, which has one from then on. */
CUresult cn_registry_share(uint64_t address, unsigned char ret_handle[CN_REGISTRY_HANDLE_BYTES]);
/* If the context has this handle open, open it once more. */
bool cn_registry_open_again(const struct cn_home *home, const unsigned char handle[CN_REGISTRY_HANDLE_BYTES],
			    uint64_t *ret_address);
/* Enter memory of a device that was opened by a handle; on success it is the registry's. */
CUresult cn_registry_add_opened(const struct cn_home *home, struct cn_device *device,
				const unsigned char handle[CN_REGISTRY_HANDLE_BYTES], struct cn_opened_memory *borrowed,
				uint64_t *ret_address);
/* Close opened memory once; the last close removes it. False: no such memory begins at the address. */
bool cn_registry_close(uint64_t address);

/*
 * managed.c: what is kept for memory without advice so far; for a pool's, with what the pool prefers. NULL: no memory.
 */
struct cn_advice *cn_advice_make(uint64_t start, size_t bytes, const CUmemLocation *preferred);
/* Free an advice list; NULL is fine. */
void cn_advice_free(struct cn_advice *advice);

/* pinned.c: populate the pages of a range. CUDA_ERROR_INVALID_VALUE: some cannot be read, or written if asked for. */
CUresult cn_pages_populate(uint64_t address, size_t bytes, bool writable);

#endif
