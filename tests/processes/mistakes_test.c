/* SPDX-License-Identifier: MIT */
/*
 * What newcomers do wrong with shared pools and memory, and the sentence that each gets: it names what is wrong in the
 * words of the program, not something that went wrong later because of it.
 */
#include "share.h"

#include "cenote/cuda_runtime_api.h"

#include <fcntl.h>
#include <sys/mman.h>

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

enum { CLOSED = 27 };

SETUP
{
	share_start();
}

#define ASSERT_SAYS(code, sentence, call)                    \
	do {                                                 \
		ASSERT_ERROR((code), (call));                \
		ASSERT_STREQ(sentence, cenote_last_error()); \
	} while (0)

/* Goal: a descriptor that is none is said to be none: closed, 0, -1, or a pointer to one. */
TEST(a_descriptor_that_is_none)
{
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	int fd = CLOSED;

	if (test_on_gpu())
		SKIP("on a GPU, what does not lead to a pool of ours is the driver's to refuse");
	ASSERT_EQ(-1, fcntl(CLOSED, F_GETFD));
	ASSERT_SAYS(CUDA_ERROR_UNKNOWN, "descriptor 27 is not open",
		    cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)CLOSED, DESCRIPTOR, 0));
	ASSERT_SAYS(CUDA_ERROR_UNKNOWN, "descriptor 27 is not open",
		    cuMemImportFromShareableHandle(&memory, (void *)(uintptr_t)CLOSED, DESCRIPTOR));
	ASSERT_SAYS(CUDA_ERROR_UNKNOWN, "descriptor -1 is not open",
		    cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)-1, DESCRIPTOR, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&pool, NULL, DESCRIPTOR, 0));
	ASSERT_CONTAINS("handle is 0, which CUDA does not accept as a descriptor: duplicate it", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&memory, NULL, DESCRIPTOR));
	ASSERT_CONTAINS("osHandle is 0, which CUDA does not accept as a descriptor: duplicate it", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, cuMemPoolImportFromShareableHandle(&pool, &fd, DESCRIPTOR, 0));
	ASSERT_CONTAINS("pass the number, (void *)(uintptr_t)fd, not its address", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&memory, &fd, DESCRIPTOR));
	ASSERT_CONTAINS("pass the number, (void *)(uintptr_t)fd, not its address", cenote_last_error());
}

/* Goal: what is no block of an exported pool is said to be what it is. */
TEST(a_pointer_that_cannot_be_exported)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUstream stream = share_stream();
	CUdeviceptr block = share_allocate(pool, 4096, stream), neighbour = share_allocate(pool, 4096, stream), other;
	CUmemPoolPtrExportData data;
	char expected[128];
	int fd = share_export(pool);

	ASSERT_OK(cuMemFreeAsync(block, stream));
	snprintf(expected, sizeof expected, "the block at 0x%llx was freed", block);
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, expected, cuMemPoolExportPointer(&data, block));
	ASSERT_OK(cuMemAlloc(&other, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, other));
	if (!test_on_gpu()) /* there it is the driver's memory, of which nothing is known */
		ASSERT_CONTAINS(" was not allocated from a pool: cuMemAllocAsync()", cenote_last_error());
	ASSERT_OK(cuMemFree(other));
	ASSERT_OK(cuMemFreeAsync(neighbour, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_SYS(close(fd));
	while (share_is_mapped())
		sched_yield();
}

/* Goal: of a call with several pointers, the one that is NULL is named as the manual calls it. */
TEST(an_argument_that_is_null)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemPoolPtrExportData data = {0};
	CUmemoryPool pool;
	CUdeviceptr pointer;
	void *block;

	pool = share_pool(SHARE_CHUNK);
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "pool is NULL", cuMemPoolCreate(NULL, &properties));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "poolProps is NULL", cuMemPoolCreate(&pool, NULL));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "the pool is NULL", cuMemPoolTrimTo(NULL, 0));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "ptr_out is NULL", cuMemPoolImportPointer(NULL, pool, &data));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "pool is NULL", cuMemPoolImportPointer(&pointer, NULL, &data));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "shareData is NULL", cuMemPoolImportPointer(&pointer, pool, NULL));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "handle_out is NULL",
		    cuMemPoolExportToShareableHandle(NULL, pool, DESCRIPTOR, 0));
	ASSERT_SAYS(CUDA_ERROR_INVALID_VALUE, "map is NULL", cuMemPoolSetAccess(pool, NULL, 1));
	ASSERT_EQ(cudaErrorInvalidValue, cudaMallocPitch(&block, NULL, 64, 64));
	ASSERT_STREQ("pitch is NULL", cenote_last_error());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a location or a type that was left at 0 is named by its member. */
TEST(a_member_that_was_not_set)
{
	CUmemPoolProps properties = {0};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
	ASSERT_CONTAINS("allocType is 0", cenote_last_error());
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
	ASSERT_CONTAINS("location.type is not set", cenote_last_error());
	pool = share_pool(SHARE_CHUNK);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolSetAccess(pool, &access, 1));
	ASSERT_CONTAINS("location type 0: set location.type to CU_MEM_LOCATION_TYPE_DEVICE", cenote_last_error());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/*
 * Goal: a program that takes all devices' rights away before it destroys a pool, as NVIDIA's cuda.core does, gets the
 * driver's answer, and nothing in the log.
 */
TEST(the_pools_own_device_is_not_logged)
{
	CUmemAccessDesc none = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	char text[256] = "";

	pool = share_pool(SHARE_CHUNK);
	int file = memfd_create("standard error", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
	ASSERT_SYS(file);
	ASSERT_SYS(kept);
	ASSERT_SYS(setenv("CENOTE_LOG", "debug", 1));
	ASSERT_SYS(dup2(file, STDERR_FILENO));
	CUresult result = cuMemPoolSetAccess(pool, &none, 1);
	ASSERT_SYS(dup2(kept, STDERR_FILENO));
	ASSERT_SYS(unsetenv("CENOTE_LOG"));
	ASSERT_SYS(pread(file, text, sizeof text - 1, 0));
	ASSERT_SYS(close(file));
	ASSERT_SYS(close(kept));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, result);
	ASSERT_STREQ("the pool is of device 0, which always has access to it", cenote_last_error());
	ASSERT_STREQ("", text);
	ASSERT_OK(cuMemPoolDestroy(pool));
}
