/* SPDX-License-Identifier: MIT */
/*
 * Pointers that lead nowhere: every call answers with an error, and nothing dies.
 *
 * The calls are made by scripts/generate_pointers.py from the headers, so a new one is here as soon as it is declared.
 * What the calls look at themselves is asked again below, with all else as it should be.
 */
#include "../share.h"
#include "forbid.h"
#include "pointers.h"

#include <linux/audit.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

unsigned char good_memory[1 << 16];
CUcontext good_context;
CUdeviceptr good_block;
CUevent good_event;
CUfunction good_function;
CUmemoryPool good_pool;
CUstream good_stream;

enum { BLOCK_BYTES = 4096 };

/* One page that can be written, one that can be read, one that can be neither. */
static struct {
	unsigned char *writable, *readable, *gone;
	size_t page_bytes;
} pages;

static void store(const cenote_thread *at, void **args)
{
	(void)at;
	**(int **)args[0] = *(int *)args[1];
}
CENOTE_KERNEL(store, int *, int);

static void make_pages(void)
{
	pages.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *at =
		mmap(NULL, 4 * pages.page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE((void *)MAP_FAILED, (void *)at);
	memset(at, 'a', 4 * pages.page_bytes); /* no string ends here */
	ASSERT_SYS(mprotect(at + pages.page_bytes, pages.page_bytes, PROT_READ));
	ASSERT_SYS(mprotect(at + 2 * pages.page_bytes, 2 * pages.page_bytes, PROT_NONE));
	pages.readable = at + pages.page_bytes;
	pages.gone = at + 2 * pages.page_bytes;
	pages.writable = at;
}

static void make_objects(void)
{
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&good_context, 0));
	ASSERT_OK(cuCtxSetCurrent(good_context));
	ASSERT_OK(cuStreamCreate(&good_stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&good_event, CU_EVENT_DISABLE_TIMING));
	good_pool = share_pool(0);
	close(share_export(good_pool));
	good_block = share_allocate(good_pool, BLOCK_BYTES, good_stream);
	ASSERT_OK(cuStreamSynchronize(good_stream));
	leaks_start_here();
}

static void begin(void)
{
	make_pages();
	make_objects();
}

/* ---- All calls --------------------------------------------------------------------------------------------------- */

static void try_wrong(const struct wrong_call *call, void *wrong, const char *how)
{
	memset(good_memory, 0, sizeof good_memory);
	printf("%s: %s %s\n", call->symbol, call->parameter, how); /* the last line is where it ended */
	fflush(stdout);
	int code = call->call(wrong);
	if (call->refused && code == 0)
		FAIL("%s succeeds with %s %s", call->symbol, call->parameter, how);
	if (call->refused && !call->inside && code > 0 && code != CUDA_ERROR_INVALID_VALUE)
		FAIL("%s answers %d with %s %s", call->symbol, code, call->parameter, how);
}

/* Goal: no call follows an address that leads nowhere, wherever it is passed. */
TEST(no_call_follows_a_wrong_pointer, .timeout_ms = 120000)
{
	if (test_has_gpu())
		SKIP("most of these calls are the driver's own here, and it does follow them");
	begin();
	ASSERT_GT(wrong_call_count, 300);
	for (int i = 0; i < wrong_call_count; i++) {
		try_wrong(&wrong_calls[i], pages.gone, "at a page that is not there");
		try_wrong(&wrong_calls[i], pages.gone - 1, "that ends in one");
		try_wrong(&wrong_calls[i], (void *)(uintptr_t)27, "that is a small number");
		try_wrong(&wrong_calls[i], (void *)(uintptr_t)0xdeadbeefdeadbeef, "that is no address at all");
	}
}

/* Goal: the same before anything else was called, when the library has had no chance to prepare for it. */
TEST(no_first_call_follows_a_wrong_pointer)
{
	if (test_has_gpu())
		SKIP("most of these calls are the driver's own here, and it does follow them");
	make_pages();
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion((void *)pages.gone));
	ASSERT_CONTAINS("cannot be written", cenote_last_error());
	ASSERT_ERROR(cudaErrorInvalidValue, cudaGetDeviceCount((void *)pages.gone));
	ASSERT_EQ(cudaErrorInvalidValue, cudaGetLastError());
}

/* ---- Up to the border -------------------------------------------------------------------------------------------- */

/* Goal: what is there to its last byte is good, and what cannot be written can still be read. */
TEST(memory_up_to_its_border_is_good)
{
	CUmemoryPool pool;
	int version = 0;

	begin();
	unsigned char *end = pages.readable; /* of what can be written */
	ASSERT_OK(cuDriverGetVersion((int *)(void *)(end - sizeof(int))));
	memcpy(&version, end - sizeof version, sizeof version);
	ASSERT_GT(version, 13000 - 1);
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	unsigned char *at = pages.gone - sizeof properties;
	ASSERT_SYS(mprotect(pages.readable, pages.page_bytes, PROT_READ | PROT_WRITE));
	memcpy(at, &properties, sizeof properties);
	ASSERT_SYS(mprotect(pages.readable, pages.page_bytes, PROT_READ));
	ASSERT_OK(cuMemPoolCreate(&pool, (CUmemPoolProps *)(void *)at));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate((CUmemoryPool *)(void *)at, &properties));
	ASSERT_CONTAINS("cannot be written", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, (CUmemPoolProps *)(void *)(at + 8)));
	ASSERT_CONTAINS("cannot be read", cenote_last_error());
}

/* Goal: a count that no memory has room for is refused, and not wrapped to a small one. */
TEST(a_count_beyond_all_memory_is_refused)
{
	CUmemAccessDesc rights = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	begin();
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(good_pool, &rights, SIZE_MAX / sizeof rights + 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(good_pool, &rights, SIZE_MAX / sizeof rights));
	ASSERT_OK(cuMemPoolSetAccess(good_pool, &rights, 1));
}

/* ---- Calls that look themselves ---------------------------------------------------------------------------------- */

/* Goal: an allocation that cannot be handed over is none. */
TEST(an_allocation_without_a_place_is_none)
{
	begin();
	uint64_t used = share_used(good_pool);
	void *wrong[] = {pages.gone, pages.gone - 1, pages.readable};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(wrong[i], 4096, good_stream));
		ASSERT_CONTAINS("cannot be written", cenote_last_error());
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(wrong[i], 4096, good_pool, good_stream));
		if (test_on_gpu())
			continue; /* the runtime is NVIDIA's */
		ASSERT_ERROR(cudaErrorInvalidValue, cudaMallocAsync(wrong[i], 4096, good_stream));
		ASSERT_ERROR(cudaErrorInvalidValue, cudaMallocFromPoolAsync(wrong[i], 4096, good_pool, good_stream));
	}
	ASSERT_EQ(used, share_used(good_pool));
}

ROLE(importer)
{
	CUmemPoolPtrExportData *data = (void *)good_memory;
	CUdeviceptr address;

	begin();
	int descriptor = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);
	peer_receive_bytes(parent, data, sizeof *data);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer((void *)pages.gone, pool, data));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer((void *)pages.readable, pool, data));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, pool, (void *)pages.gone));
	ASSERT_CONTAINS("cannot be read", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemPoolImportPointer(&address, pool, (void *)(pages.gone - sizeof *data + 1)));
	ASSERT_OK(cuMemPoolImportPointer(&address, pool, data));
	ASSERT_EQ(0x5a, share_byte(address));
	ASSERT_OK(cuMemFreeAsync(address, good_stream));
	ASSERT_OK(cuStreamSynchronize(good_stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	/* A descriptor that is taken for a fabric handle, which is memory. */
	ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
								   CU_MEM_HANDLE_TYPE_FABRIC, 0));
	close(descriptor);
}

/* Goal: the 64 bytes of a block are read and written only where there is memory, and all is as it was afterwards. */
TEST(data_of_a_block_is_read_and_written_where_there_is_memory)
{
	begin();
	struct peer *importer = peer_start("importer");
	int descriptor = share_export(good_pool);

	share_fill(good_block, 0x5a, BLOCK_BYTES);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer((void *)pages.gone, good_block));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer((void *)(pages.readable - 8), good_block));
	CUmemPoolPtrExportData data = share_name(good_block);
	peer_send_descriptor(importer, descriptor);
	peer_send_bytes(importer, &data, sizeof data);
	close(descriptor);
	peer_wait(importer);
}

/* Goal: arguments of a kernel, and all that leads to them, may not be there. */
TEST(arguments_of_a_kernel_may_not_be_there)
{
	int value = 7, *to = NULL;
	void *good[] = {&to, &value}, *missing[] = {&to, NULL};
	dim3 one = {1, 1, 1};

	if (test_on_gpu())
		SKIP("kernels of this program run on the host device");
	begin();
	missing[1] = pages.gone;
	ASSERT_OK(cudaMallocHost((void **)&to, sizeof *to));
	ASSERT_ERROR(cudaErrorInvalidValue,
		     cudaLaunchKernel((void *)store, one, one, (void *)pages.gone, 0, good_stream));
	ASSERT_ERROR(cudaErrorInvalidValue,
		     cudaLaunchKernel((void *)store, one, one, (void *)(pages.gone - sizeof(void *)), 0, good_stream));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaLaunchKernel((void *)store, one, one, missing, 0, good_stream));
	ASSERT_CONTAINS("an argument of the kernel", cenote_last_error());
	cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one, .stream = good_stream, .numAttrs = 1};
	config.attrs = (void *)pages.gone;
	ASSERT_ERROR(cudaErrorInvalidValue, cudaLaunchKernelExC(&config, (void *)store, good));
	ASSERT_CONTAINS("attrs", cenote_last_error());
	ASSERT_OK(cudaLaunchKernel((void *)store, one, one, good, 0, good_stream));
	ASSERT_OK(cudaStreamSynchronize(good_stream));
	ASSERT_EQ(7, *to);
	ASSERT_OK(cudaFreeHost(to));
}

/* Goal: where an array holds the addresses of answers, each of them may be wrong. */
TEST(addresses_in_an_array_may_be_wrong)
{
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	CUmem_range_attribute of_range[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
	size_t sizes[] = {sizeof(int), sizeof(int)};
	int type = 0;
	CUdeviceptr managed;

	if (test_has_gpu())
		SKIP("these calls are the driver's own here");
	begin();
	void *data[] = {&type, pages.gone};
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(2, asked, data, good_block));
	data[1] = pages.readable;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(2, asked, data, good_block));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuPointerGetAttribute(pages.gone, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, good_block));
	ASSERT_OK(cuMemAllocManaged(&managed, pages.page_bytes, CU_MEM_ATTACH_GLOBAL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemRangeGetAttributes(data, sizes, of_range, 2, managed, pages.page_bytes));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemRangeGetAttribute(pages.gone, sizeof(int), of_range[0], managed, pages.page_bytes));
	data[1] = &type;
	ASSERT_OK(cuMemRangeGetAttributes(data, sizes, of_range, 2, managed, pages.page_bytes));
	ASSERT_OK(cuMemFree(managed));
}

/* Goal: of Cenote's own calls, what is received is not received if there is no place for it. */
TEST(nothing_is_received_without_a_place_for_it)
{
	int ends[2];
	CUmemoryPool pool;

	begin();
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	ASSERT_OK(cenote_send_pool(ends[0], good_pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_recv_pool(ends[1], (void *)pages.gone));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_recv_descriptor(ends[1], (void *)pages.readable));
	ASSERT_OK(cenote_recv_pool(ends[1], &pool));
	ASSERT_OK(cenote_send_block(ends[0], good_block, NULL));
	CUdeviceptr block;
	CUevent ready;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_recv_block(ends[1], pool, (void *)pages.gone, &ready));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_recv_block(ends[1], pool, &block, (void *)pages.gone));
	ASSERT_OK(cenote_recv_block(ends[1], pool, &block, &ready));
	ASSERT_OK(cuMemFreeAsync(block, good_stream));
	ASSERT_OK(cuStreamSynchronize(good_stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	close(ends[0]);
	close(ends[1]);
}

/* Goal: room that is larger than what is written need not be there in whole. */
TEST(room_that_is_not_needed_need_not_be_there)
{
	size_t count = 0;

	begin();
	ASSERT_OK(cenote_pool_importers(good_pool, (void *)pages.gone, sizeof(cenote_importer), 100, &count));
	ASSERT_EQ(0, count);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_stats(good_pool, (void *)pages.gone, 8));
	ASSERT_OK(cenote_pool_stats(good_pool, (void *)(pages.readable - 8), 8));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_picture(good_pool, (void *)pages.readable, 4096));
}

/* ---- Copies where the system does not help ----------------------------------------------------------------------- */

/* From now on these two calls of this process fail so. */
static void forbid_copies(unsigned error)
{
	forbid_call(SYS_process_vm_readv, error);
	forbid_call(SYS_process_vm_writev, error);
}

static void copy_where_forbidden(unsigned error)
{
	enum { MUCH = 3 << 20 };
	unsigned char *from, *to;

	if (test_has_gpu())
		SKIP("copies are the driver's own here");
	begin();
	forbid_copies(error);
	from = malloc(MUCH);
	to = calloc(1, MUCH);
	ASSERT(from && to);
	memset(from, 0x3c, MUCH);
	CUdeviceptr block = share_allocate(good_pool, MUCH, good_stream);
	ASSERT_OK(cuMemcpyHtoD(block, from, MUCH));
	ASSERT_OK(cuMemcpyDtoH(to, block, MUCH));
	ASSERT_MEMEQ(from, to, MUCH);
	memset(to, 0, MUCH);
	ASSERT_OK(cuMemcpyHtoDAsync(block, from, 64, good_stream));
	ASSERT_OK(cuMemcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, MUCH));
	ASSERT_MEMEQ(from, to, MUCH);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(block, pages.gone, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(block, pages.gone - 32, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(pages.gone, block, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(pages.readable, block, 64));
	ASSERT_OK(cuStreamSynchronize(good_stream));
	ASSERT_OK(cuMemFreeAsync(block, good_stream));
	ASSERT_OK(cuStreamSynchronize(good_stream));
	free(from);
	free(to);
}

/* Goal: a security module (EACCES), a container (EPERM) or an old system (ENOSYS) costs no copy. */
TEST(copies_work_where_a_security_module_forbids_the_calls)
{
	copy_where_forbidden(EACCES);
}

TEST(copies_work_where_a_container_forbids_the_calls)
{
	copy_where_forbidden(EPERM);
}

TEST(copies_work_where_the_system_does_not_have_the_calls)
{
	copy_where_forbidden(ENOSYS);
}
