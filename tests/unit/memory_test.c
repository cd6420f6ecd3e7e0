/* SPDX-License-Identifier: MIT */
/*
 * Memory: what is allocated, registered and freed, what an address is known as, and what is kept about managed pages.
 */
#include "harness.h"

#include "cenote/cenote.h"
#include "driver/host/registry.h"

#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096, MIB = 1 << 20 };

#define GARBAGE       0x5a5a5a5a5a5a5a50ull
#define HOST(pointer) ((void *)(uintptr_t)(pointer))
#define AT(pointer)   ((CUdeviceptr)(uintptr_t)(pointer))

static CUcontext start(void)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	return context;
}

static size_t free_bytes(void)
{
	size_t free_now, total;

	ASSERT_OK(cuMemGetInfo(&free_now, &total));
	ASSERT_LE(free_now, total);
	return free_now;
}

/* Goal: free memory shrinks with allocations and comes back in full. */
TEST(memory_is_counted)
{
	CUcontext context = start();
	CUdeviceptr memory;
	size_t before = free_bytes();

	ASSERT_OK(cuMemAlloc(&memory, 64 * MIB));
	ASSERT_EQ(before - 64 * MIB, free_bytes());
	ASSERT_OK(cuMemFree(memory));
	ASSERT_EQ(before, free_bytes());
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a refused allocation says why, and leaves 0 where the address would be, as the driver does. */
TEST(refused_allocations_leave_0)
{
	CUdeviceptr memory = 77, base = 77;
	size_t pitch = 78, bytes = 78;
	void *host = &pitch;

	start();
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 16));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
	ASSERT_CONTAINS("0 bytes", cenote_last_error());
	ASSERT_EQ(0, memory);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, (size_t)1 << 60));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, SIZE_MAX));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&memory, &pitch, SIZE_MAX - 5, 2, 4));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&memory, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&memory, &pitch, 64, 2, 3));
	ASSERT_EQ(0, pitch);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&memory, 64, 0));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&memory, SIZE_MAX, CU_MEM_ATTACH_GLOBAL));
	ASSERT_EQ(0, memory);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&host, SIZE_MAX, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 64, 64));
	ASSERT_EQ(NULL, host);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, GARBAGE));
	ASSERT_EQ(0, base);
	ASSERT_EQ(0, bytes);
}

/* Goal: no bytes of host memory are nothing, at NULL, and can be freed. */
TEST(empty_host_memory)
{
	void *host = &host;

	start();
	ASSERT_OK(cuMemAllocHost(&host, 0));
	ASSERT_EQ(NULL, host);
	ASSERT_OK(cuMemFreeHost(host));
}

/* Goal: only the start of an allocation of the right kind can be freed, once; the sentence names the way. */
TEST(wrong_frees_are_refused)
{
	CUdeviceptr memory;
	void *host;
	char *page = aligned_alloc(PAGE, PAGE);

	start();
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuMemAllocHost(&host, 1000));
	ASSERT_OK(cuMemHostRegister(page, PAGE, 0));
	ASSERT_OK(cuMemFree(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory + 1));
	ASSERT_CONTAINS("inside", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(GARBAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(AT(host)));
	ASSERT_CONTAINS("cuMemFreeHost", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(AT(page)));
	ASSERT_CONTAINS("cuMemHostUnregister", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(HOST(memory)));
	ASSERT_CONTAINS("cuMemFree", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(page));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
	ASSERT_CONTAINS("already freed", cenote_last_error());
	ASSERT_OK(cuMemFreeHost(host));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
	ASSERT_OK(cuMemHostUnregister(page));
	free(page);
}

/* Goal: a context takes all of its memory with it, of every kind, and no other's. */
TEST(memory_goes_with_its_context)
{
	CUcontext kept = start(), gone;
	CUdeviceptr memory, managed, other;
	size_t bytes, before;
	void *host;
	char *page = aligned_alloc(PAGE, PAGE);

	ASSERT_OK(cuMemAlloc(&other, 3 * MIB));
	before = free_bytes();
	ASSERT_OK(cuCtxCreate(&gone, NULL, 0, 0));
	ASSERT_OK(cuMemAlloc(&memory, 3 * MIB));
	ASSERT_OK(cuMemAllocManaged(&managed, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemAllocHost(&host, 3 * MIB));
	ASSERT_OK(cuMemHostRegister(page, PAGE, 0));
	ASSERT_OK(cuCtxDestroy(gone));
	ASSERT_OK(cuCtxSetCurrent(kept));
	ASSERT_EQ(before, free_bytes());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(managed));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
	ASSERT_OK(cuMemHostRegister(page, PAGE, 0));
	ASSERT_OK(cuMemHostUnregister(page));
	ASSERT_OK(cuMemGetAddressRange(NULL, &bytes, other));
	ASSERT_EQ(3 * MIB, bytes);
	ASSERT_OK(cuMemFree(other));
	free(page);
}

/* Goal: an allocation is known by every address in it and by none outside. */
TEST(address_ranges)
{
	CUdeviceptr memory, base = 77;
	size_t bytes = 78, pitch;

	start();
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, memory + 999));
	ASSERT_EQ(memory, base);
	ASSERT_EQ(1000, bytes);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, memory + 1000));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, memory - 1));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuMemAllocPitch(&memory, &pitch, 513, 3, 4));
	ASSERT_EQ(1024, pitch);
	ASSERT_EQ(0, memory % 512);
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, memory));
	ASSERT_EQ(3 * 1024, bytes);
	ASSERT_OK(cuMemFree(memory));
}

/* Goal: what is registered is really there, and only once. */
TEST(registering_looks_first)
{
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr at;

	start();
	ASSERT_SYS(munmap(pages + PAGE, PAGE));
	ASSERT_SYS(mprotect(pages + 3 * PAGE, PAGE, PROT_NONE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages, 3 * PAGE, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages + PAGE, PAGE, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages + 3 * PAGE, PAGE, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemHostRegister(HOST(GARBAGE), PAGE, 0));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostRegister(pages, SIZE_MAX, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages, PAGE, 0x100));
	ASSERT_OK(cuMemHostRegister(pages + 100, 1000, 0));
	ASSERT_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pages + 1000, 1000, 0));
	ASSERT_OK(cuMemHostGetDevicePointer(&at, pages + 150, 0));
	ASSERT_EQ(AT(pages + 150), at);
	ASSERT_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages + 2 * PAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(pages + 101));
	ASSERT_OK(cuMemHostUnregister(pages + 100));
	ASSERT_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages + 100));
	munmap(pages, 4 * PAGE);
}

/* Goal: registered memory that the program unmaps gives errors, never a crash, and its address can be used again. */
TEST(registered_memory_may_vanish)
{
	/* The lowest pages of a wide hole, since others map memory too, and the system fills holes from the top. */
	size_t hole_bytes = 64 * MIB;
	char *pages = mmap(NULL, hole_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cn_home home;
	struct cn_memory memory;
	CUdeviceptr device;

	ASSERT(pages != MAP_FAILED);
	start();
	ASSERT_OK(cuMemAlloc(&device, PAGE));
	ASSERT_OK(cuMemHostRegister(pages, 2 * PAGE, 0));
	ASSERT_SYS(munmap(pages, hole_bytes));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(device, pages, PAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(pages, device, PAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(AT(pages), 1, PAGE));
	ASSERT_OK(cuMemcpyDtoD(device, device + 64, 32));
	ASSERT_OK(cuCtxSynchronize());

	/* As if the system had given the address to an allocation of ours. */
	ASSERT_EQ((void *)pages,
		  mmap(pages, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	ASSERT_OK(cn_context_enter(&home));
	ASSERT_OK(cn_registry_add(&home, CN_MEMORY_PINNED, pages, PAGE, 0, NULL));
	ASSERT(cn_registry_find(AT(pages), &memory));
	ASSERT_EQ(CN_MEMORY_PINNED, memory.kind);
	ASSERT(!cn_registry_find(AT(pages) + PAGE, &memory));
	ASSERT_OK(cuMemFreeHost(pages));
	ASSERT_OK(cuMemFree(device));
}

/* ---- Advice against a model that knows every page ---- */

enum { MODEL_PAGES = 24 };

struct model_page {
	int read_mostly, preferred, prefetched, device_reads, host_reads;
};

static int range_value(CUdeviceptr memory, size_t bytes, CUmem_range_attribute attribute)
{
	int value = 0;

	ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, memory, bytes));
	return value;
}

static void model_check(const struct model_page *pages, CUdeviceptr memory, int first, int count)
{
	struct model_page all = pages[first];
	int accessed[2], expected[2] = {CU_DEVICE_INVALID, CU_DEVICE_INVALID}, used = 0;
	CUdeviceptr at = memory + (CUdeviceptr)first * PAGE;
	size_t bytes = (size_t)count * PAGE;

	for (int i = first + 1; i < first + count; i++) {
		all.read_mostly &= pages[i].read_mostly;
		all.device_reads &= pages[i].device_reads;
		all.host_reads &= pages[i].host_reads;
		if (all.preferred != pages[i].preferred)
			all.preferred = CU_DEVICE_INVALID;
		if (all.prefetched != pages[i].prefetched)
			all.prefetched = CU_DEVICE_INVALID;
	}
	ASSERT_EQ(all.read_mostly, range_value(at, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY));
	ASSERT_EQ(all.preferred, range_value(at, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION));
	ASSERT_EQ(all.prefetched, range_value(at, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION));
	if (all.device_reads)
		expected[used++] = 0;
	if (all.host_reads)
		expected[used++] = CU_DEVICE_CPU;
	ASSERT_OK(cuMemRangeGetAttribute(accessed, sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, bytes));
	ASSERT_EQ(expected[0], accessed[0]);
	ASSERT_EQ(expected[1], accessed[1]);
}

static void model_change(struct model_page *page, int what, bool host)
{
	int place = host ? CU_DEVICE_CPU : 0;

	switch (what) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY: page->read_mostly = 1; break;
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY: page->read_mostly = 0; break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: page->preferred = place; break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: page->preferred = CU_DEVICE_INVALID; break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY: *(host ? &page->host_reads : &page->device_reads) = 1; break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY: *(host ? &page->host_reads : &page->device_reads) = 0; break;
	default: page->prefetched = place; break;
	}
}

/* Goal: advice is kept page by page, whatever ranges it is given for. */
TEST(advice_is_kept_by_page)
{
	struct test_random random = test_random_start(0);
	struct model_page pages[MODEL_PAGES];
	CUdeviceptr memory;

	start();
	ASSERT_OK(cuMemAllocManaged(&memory, MODEL_PAGES * PAGE, CU_MEM_ATTACH_GLOBAL));
	for (int i = 0; i < MODEL_PAGES; i++)
		pages[i] = (struct model_page){.preferred = CU_DEVICE_INVALID, .prefetched = CU_DEVICE_INVALID};
	for (int round = 0; round < 3000; round++) {
		int first = (int)test_random_below(&random, MODEL_PAGES);
		int count = 1 + (int)test_random_below(&random, (uint64_t)(MODEL_PAGES - first));
		int what = 1 + (int)test_random_below(&random, 7);
		bool host = test_random_below(&random, 2);
		CUmemLocation place = {host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, 0};
		/* A byte of a page stands for the page. */
		CUdeviceptr at = memory + (CUdeviceptr)first * PAGE + test_random_below(&random, PAGE);
		size_t bytes = (size_t)(count - 1) * PAGE + 1 - (count > 1 ? (at % PAGE) : 0);

		if (what == 7)
			ASSERT_OK(cuMemPrefetchAsync(at, bytes, place, 0, NULL));
		else
			ASSERT_OK(cuMemAdvise(at, bytes, (CUmem_advise)what, place));
		for (int i = first; i < first + count; i++)
			model_change(&pages[i], what, host);
		first = (int)test_random_below(&random, MODEL_PAGES);
		model_check(pages, memory, first, 1 + (int)test_random_below(&random, (uint64_t)(MODEL_PAGES - first)));
	}
	ASSERT_OK(cuMemFree(memory));
}

/* Goal: advice for anything but managed memory, or for places that are none, is refused. */
TEST(wrong_advice_is_refused)
{
	CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, none = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
	CUdeviceptr managed, plain;
	int value = 77;

	start();
	ASSERT_OK(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemAlloc(&plain, 1000));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(plain, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(managed, 100000, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(managed, SIZE_MAX, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(GARBAGE, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(managed, 1000, CU_MEM_ADVISE_SET_ACCESSED_BY, none));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(managed, 1000, none, 0, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemPrefetchAsync(managed, 1000, device, 0, (CUstream)GARBAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemRangeGetAttribute(&value, 2, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 1000));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, 1000));
	ASSERT_EQ(77, value);
	ASSERT_OK(cuMemFree(managed));
	ASSERT_OK(cuMemFree(plain));
}

/* ---- Pointers ---- */

/* Goal: the plural question tells CUDA's memory from malloc's, without an error. */
TEST(attributes_of_any_pointer)
{
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	CUcontext context = (CUcontext)77, current = start();
	unsigned type = 77;
	unsigned long long id = 77;
	int ordinal = 77;
	void *data[] = {&context, &type, &id, &ordinal};
	CUdeviceptr memory;
	char here;

	ASSERT_OK(cuPointerGetAttributes(4, names, data, AT(&here)));
	ASSERT(!context);
	ASSERT_EQ(0, type);
	ASSERT_EQ(0, id);
	ASSERT_EQ(CU_DEVICE_INVALID, ordinal);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, AT(&here)));
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuPointerGetAttributes(4, names, data, memory + 10));
	ASSERT(current == context);
	ASSERT_EQ(CU_MEMORYTYPE_DEVICE, type);
	ASSERT_NE(0, id);
	ASSERT_EQ(0, ordinal);
	ASSERT_OK(cuMemFree(memory));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
}

/* Goal: another device's memory is out of reach until its context is a peer. */
TEST(peers_memory_is_out_of_reach_at_first)
{
	CUcontext first, second;
	CUdeviceptr memory, at;
	unsigned int access = 77;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 1));
	ASSERT_OK(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory));
	ASSERT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE, access);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
	ASSERT_OK(cuCtxEnablePeerAccess(first, 0));
	ASSERT_OK(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory));
	ASSERT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, access);
	ASSERT_OK(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
	ASSERT_EQ(memory, at);
	ASSERT_OK(cuMemFree(memory));
}

/* Goal: asking for tokens makes synchronous calls wait from then on, as the manual says. */
TEST(tokens_turn_sync_memops_on)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	CUdeviceptr memory;
	int on = 77;

	start();
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	ASSERT_EQ(0, on);
	ASSERT_OK(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, memory));
	ASSERT_OK(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	ASSERT_EQ(1, on);
	ASSERT_OK(cuMemFree(memory));
}

/* Goal: an id is never given twice, not even to the same address. */
TEST(buffer_ids_are_unique)
{
	unsigned long long first, second;
	CUdeviceptr memory;

	start();
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuMemAlloc(&memory, 1000));
	ASSERT_OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
	ASSERT_NE(first, second);
	ASSERT_OK(cuMemFree(memory));
}

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 400 };

static void *allocate_and_free(void *context)
{
	CUdeviceptr memory[8], base;
	size_t bytes;

	ASSERT_OK(cuCtxSetCurrent(context));
	for (int round = 0; round < ROUNDS / HARNESS_SLOWDOWN; round++) {
		for (int i = 0; i < 8; i++) {
			ASSERT_OK(cuMemAlloc(&memory[i], 100 + (size_t)i * 1000));
			ASSERT_OK(cuMemsetD8(memory[i], (unsigned char)i, 100));
		}
		for (int i = 0; i < 8; i++) {
			ASSERT_OK(cuMemGetAddressRange(&base, &bytes, memory[i] + 50));
			ASSERT_EQ(memory[i], base);
			ASSERT_EQ(100 + (size_t)i * 1000, bytes);
			ASSERT_OK(cuMemFree(memory[i]));
		}
	}
	return NULL;
}

/* Goal: threads that allocate, ask and free at once do not disturb each other. */
TEST(threads_allocate_and_free)
{
	CUcontext context = start();
	size_t before = free_bytes();
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, allocate_and_free, context));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(before, free_bytes());
}

struct freeing {
	CUcontext context;
	CUdeviceptr memory;
	pthread_barrier_t *barrier;
	CUresult result;
};

static void *free_one(void *data)
{
	struct freeing *freeing = data;

	ASSERT_OK(cuCtxSetCurrent(freeing->context));
	pthread_barrier_wait(freeing->barrier);
	freeing->result = cuMemFree(freeing->memory);
	return NULL;
}

/* Goal: of two threads that free the same memory, one is told that it is gone. */
TEST(only_one_free_succeeds)
{
	CUcontext context = start();

	for (int round = 0; round < 50; round++) {
		pthread_barrier_t barrier;
		struct freeing freeing[2];
		pthread_t threads[2];
		CUdeviceptr memory;
		ASSERT_OK(cuMemAlloc(&memory, 1000));
		ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, 2));
		for (int i = 0; i < 2; i++) {
			freeing[i] = (struct freeing){context, memory, &barrier, CUDA_SUCCESS};
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, free_one, &freeing[i]));
		}
		for (int i = 0; i < 2; i++)
			ASSERT_EQ(0, pthread_join(threads[i], NULL));
		ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, freeing[0].result + freeing[1].result);
		pthread_barrier_destroy(&barrier);
	}
}
