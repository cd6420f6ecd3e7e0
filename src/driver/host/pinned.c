/* SPDX-License-Identifier: MIT */
/*
 * Host memory: page-locked memory of our own, and memory of the program's that it registers.
 *
 * Where host memory and devices share one address space there is nothing to lock or to map: being registered is being
 * known, so that copies need not wait for it and an address can be asked about. Registered memory stays the program's,
 * which may unmap it without telling us; so copies touch it as carefully as any foreign memory.
 */
#include "driver/host/memory.h"

#include <unistd.h>

enum {
	ALLOCATE_FLAGS = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED,
	REGISTER_FLAGS = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
			 CU_MEMHOSTREGISTER_READ_ONLY,
	HOST_KINDS = CN_MEMORY_PINNED | CN_MEMORY_REGISTERED,
	ADDRESS_BITS = 56, /* of a program, on any machine */
};

/* As the driver does, the calls below leave 0 in an output when they fail. */

static CUresult allocate(void **ret_pointer, size_t bytes, unsigned int flags)
{
	struct cn_home home;
	void *address;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!ret_pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pp is NULL");
	*ret_pointer = NULL;
	if (flags & ~(unsigned)ALLOCATE_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "host memory flags 0x%x are unknown",
				flags & ~(unsigned)ALLOCATE_FLAGS);
	if (!bytes)
		return CUDA_SUCCESS; /* nothing, at NULL, which cuMemFreeHost() takes back */
	result = cn_host_pinned_allocate(bytes, &address);
	if (result)
		return result;
	result = cn_memory_add(&home, CN_MEMORY_PINNED, address, bytes, flags, NULL);
	if (result) {
		cn_host_pinned_free(address, bytes);
		return result;
	}
	*ret_pointer = address;
	return CUDA_SUCCESS;
}

CUresult host_cuMemAllocHost_v2(void **ret_pointer, size_t bytes)
{
	return allocate(ret_pointer, bytes, 0);
}

CUresult host_cuMemHostAlloc(void **ret_pointer, size_t bytes, unsigned int flags)
{
	return allocate(ret_pointer, bytes, flags);
}

CUresult host_cuMemFreeHost(void *pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_memory_enter_free(&home);

	if (result || !pointer || cn_memory_free(&home, (uintptr_t)pointer, CN_MEMORY_PINNED))
		return result;
	if (!cn_memory_find((uintptr_t)pointer, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no host memory was allocated at %p", pointer);
	if (memory.kind == CN_MEMORY_PINNED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is inside the allocation that begins at %p", pointer,
				(void *)(uintptr_t)memory.start);
	return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is not allocated host memory: %s", pointer,
			memory.kind == CN_MEMORY_REGISTERED ? "it is registered, which cuMemHostUnregister() undoes"
							    : "cuMemFree() frees it");
}

CUresult host_cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_pointer, void *host_pointer, unsigned int flags)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!ret_pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pdptr is NULL");
	*ret_pointer = 0;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemHostGetDevicePointer takes no flags: they must be 0, and are 0x%x", flags);
	if (!cn_memory_find((uintptr_t)host_pointer, &memory) || !(memory.kind & HOST_KINDS))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is neither allocated nor registered host memory",
				host_pointer);
	*ret_pointer = (uintptr_t)host_pointer;
	return CUDA_SUCCESS;
}

CUresult host_cuMemHostGetFlags(unsigned int *ret_flags, void *pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!ret_flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pFlags is NULL");
	if (!cn_memory_find((uintptr_t)pointer, &memory) || !(memory.kind & HOST_KINDS))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is neither allocated nor registered host memory",
				pointer);
	/*
	 * With one address space every device reaches it, whether that was asked for or not. The driver forgets that an
	 * allocation was to be portable, but not that a registration was.
	 */
	*ret_flags = CU_MEMHOSTALLOC_DEVICEMAP |
		     (memory.flags &
		      (memory.kind == CN_MEMORY_PINNED ? CU_MEMHOSTALLOC_WRITECOMBINED : CU_MEMHOSTREGISTER_PORTABLE));
	return CUDA_SUCCESS;
}

CUresult host_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!pointer || !bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %p are not a range of memory", bytes, pointer);
	if (flags & ~(unsigned)REGISTER_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "host memory flags 0x%x are unknown",
				flags & ~(unsigned)REGISTER_FLAGS);
	if ((uintptr_t)pointer >> ADDRESS_BITS)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "%p is not an address that a program can have", pointer);
	if (bytes / (size_t)sysconf(_SC_PAGESIZE) > (size_t)sysconf(_SC_PHYS_PAGES))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than the machine's memory", bytes);
	if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the memory of other devices cannot be registered");
	result = cn_memory_populate((uintptr_t)pointer, bytes, !(flags & CU_MEMHOSTREGISTER_READ_ONLY));
	if (result)
		return result;
	return cn_memory_add(&home, CN_MEMORY_REGISTERED, pointer, bytes, flags, NULL);
}

CUresult host_cuMemHostUnregister(void *pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_memory_enter_free(&home);

	if (result)
		return result;
	if (!pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "p is NULL");
	if (cn_memory_free(&home, (uintptr_t)pointer, CN_MEMORY_REGISTERED))
		return CUDA_SUCCESS;
	if (cn_memory_find((uintptr_t)pointer, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is inside what was %s at %p", pointer,
				memory.kind == CN_MEMORY_REGISTERED ? "registered" : "allocated",
				(void *)(uintptr_t)memory.start);
	return cn_error(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "nothing was registered at %p", pointer);
}
