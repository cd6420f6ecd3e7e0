/* SPDX-License-Identifier: MIT */
/*
 * Host memory: page-locked memory of our own, and memory that the program registers.
 *
 * Where host memory and devices share one address space there is nothing to lock or to map: registering only makes
 * memory known, so that copies need not wait for it and an address can be asked about. Registered memory stays the
 * program's, which may unmap it without telling us; so copies touch it as carefully as any foreign memory.
 */
#include "driver/host/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum { PRESENCE_PAGES = 1024 };

enum {
	ALLOCATE_FLAGS = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED,
	REGISTER_FLAGS = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
			 CU_MEMHOSTREGISTER_READ_ONLY,
	HOST_KINDS = CN_MEMORY_PINNED | CN_MEMORY_REGISTERED,
	ADDRESS_BITS = 56, /* of a program's addresses, on any machine */
};

/* As the driver does, the calls below set an output to 0 when they fail. */

static CUresult allocate(void **ret_pointer, size_t bytes, unsigned int flags)
{
	struct cn_home home;
	void *address;
	CUresult result = cn_given(cn_context_enter(&home), ret_pointer, "pp");

	if (result)
		return result;
	*ret_pointer = NULL;
	if (flags & ~(unsigned)ALLOCATE_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "host memory flags 0x%x are unknown",
				flags & ~(unsigned)ALLOCATE_FLAGS);
	if (!bytes)
		return CUDA_SUCCESS; /* NULL, which cuMemFreeHost() takes back */
	result = cn_host_pinned_allocate(bytes, &address);
	if (result)
		return result;
	result = cn_registry_add(&home, CN_MEMORY_PINNED, address, bytes, flags, NULL);
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
	CUresult result = cn_registry_enter_free(&home);

	if (result || !pointer || cn_registry_free(&home, (uintptr_t)pointer, CN_MEMORY_PINNED))
		return result;
	if (!cn_registry_find((uintptr_t)pointer, &memory))
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
	CUresult result = cn_given(cn_context_enter(&home), ret_pointer, "pdptr");

	if (result)
		return result;
	*ret_pointer = 0;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemHostGetDevicePointer takes no flags: they must be 0, not 0x%x", flags);
	if (!cn_registry_find((uintptr_t)host_pointer, &memory) || !(memory.kind & HOST_KINDS))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is neither allocated nor registered host memory",
				host_pointer);
	*ret_pointer = (uintptr_t)host_pointer;
	return CUDA_SUCCESS;
}

CUresult host_cuMemHostGetFlags(unsigned int *ret_flags, void *pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_given(cn_context_enter(&home), ret_flags, "pFlags");

	if (result)
		return result;
	if (!cn_registry_find((uintptr_t)pointer, &memory) || !(memory.kind & HOST_KINDS))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is neither allocated nor registered host memory",
				pointer);
	/*
	 * With one address space every device reaches it, even if that was not asked for. The driver forgets that an
	 * allocation was to be portable, but remembers that a registration was.
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
	result = cn_pages_populate((uintptr_t)pointer, bytes, !(flags & CU_MEMHOSTREGISTER_READ_ONLY));
	if (result)
		return result;
	return cn_registry_add(&home, CN_MEMORY_REGISTERED, pointer, bytes, flags, NULL);
}

CUresult host_cuMemHostUnregister(void *pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_given(cn_registry_enter_free(&home), pointer, "p");

	if (result)
		return result;
	if (cn_registry_free(&home, (uintptr_t)pointer, CN_MEMORY_REGISTERED))
		return CUDA_SUCCESS;
	if (cn_registry_find((uintptr_t)pointer, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%p is inside what was %s at %p", pointer,
				memory.kind == CN_MEMORY_REGISTERED ? "registered" : "allocated",
				(void *)(uintptr_t)memory.start);
	return cn_error(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "nothing was registered at %p", pointer);
}

/* ---- The program's own memory ---- */

/* Is every page of a range mapped? For systems that cannot populate pages on request. */
static bool is_mapped(uint64_t start, uint64_t end, uint64_t page)
{
	unsigned char presence[PRESENCE_PAGES];

	while (start < end) {
		uint64_t step = end - start < page * PRESENCE_PAGES ? end - start : page * PRESENCE_PAGES;
		if (mincore((void *)(uintptr_t)start, step, presence) && errno != EAGAIN)
			return false;
		start += step;
	}
	return true;
}

CUresult cn_pages_populate(uint64_t address, size_t bytes, bool writable)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = address / page * page, end;

	if (__builtin_add_overflow(address, bytes, &end) || __builtin_add_overflow(end, page - 1, &end))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%" PRIx64 " go beyond the last address",
				bytes, address);
	end = end / page * page;

	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, failed;
	do
		failed = madvise((void *)(uintptr_t)start, end - start, advice);
	while (failed && (errno == EINTR || errno == EAGAIN));
	if (!failed)
		return CUDA_SUCCESS;
	/* These pages cannot be populated, or the system does not know the request: then it refuses 0 bytes as well. */
	if (errno == EINVAL && madvise((void *)(uintptr_t)start, 0, advice) && is_mapped(start, end, page))
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the %zu bytes at 0x%" PRIx64 " are not all memory that can be %s",
			bytes, address, writable ? "written" : "read");
}
