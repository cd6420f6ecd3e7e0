/* SPDX-License-Identifier: MIT */
/*
 * Running kernels in PTX: what they may wait for, and what becomes of those that fail.
 */
#include "kernels.h"

#include "../share.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SETUP
{
	CUcontext context = kernels_start();
	CUdeviceptr memory = kernels_memory(1 << 20);

	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuCtxDestroy(context));
	share_start();
}

/* The machine's memory, which kernels and the program share: three words, each on a page of its own. */
static unsigned *make_words(void)
{
	void *words = NULL;

	ASSERT_OK(cuMemAllocHost(&words, 3 * 4096));
	memset(words, 0, 3 * 4096);
	return words;
}

static unsigned look(unsigned *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(unsigned *word, unsigned value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void wait_for(CUfunction function, CUstream stream, unsigned blocks, unsigned *flag, unsigned wanted,
		     unsigned *answer)
{
	void *params[] = {&flag, &wanted, &answer};

	ASSERT_OK(cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* Goal: a kernel may wait for the host, and keeps neither the program nor other streams from going on. */
TEST(a_kernel_waits_for_the_host)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(kernels_text), "wait_for");
	unsigned *flag = make_words(), *answer = flag + 1024, *other = flag + 2048;
	CUstream waiting, streams[4];

	ASSERT_OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
	wait_for(function, waiting, 1, flag, 1, answer);
	for (unsigned i = 0; i < 4; i++) {
		ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		wait_for(function, streams[i], 8, flag, 0, other);
	}
	for (unsigned i = 0; i < 4; i++)
		ASSERT_OK(cuStreamSynchronize(streams[i]));
	ASSERT_EQ(32, look(other));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting));
	ASSERT_EQ(0, look(answer));
	set(flag, 1);
	ASSERT_OK(cuStreamSynchronize(waiting));
	ASSERT_EQ(1, look(answer));
	ASSERT_OK(cuMemFreeHost(flag));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a kernel may wait for a kernel of another stream, whichever was launched first. */
TEST(kernels_of_two_streams_wait_for_each_other)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(kernels_text), "wait_for");
	unsigned *first = make_words(), *second = first + 1024;
	CUstream streams[2];

	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (unsigned round = 1; round <= 20; round++) {
		wait_for(function, streams[0], 1, first, round, second);
		wait_for(function, streams[1], 1, second, round - 1, first);
	}
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuStreamSynchronize(streams[i]));
	ASSERT(look(first) == 20 && look(second) == 20);
	ASSERT_OK(cuMemFreeHost(first));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: as many blocks as the occupancy says are there at once, so they may wait for each other. */
TEST(resident_blocks_meet)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(kernels_text), "meet");
	CUdeviceptr arrived = kernels_memory(8), left = arrived + 4;
	void *params[] = {&arrived, &left};
	int blocks = 0, processors = 0;

	ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 16 * 1024));
	ASSERT_OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	ASSERT_GT(blocks, 0);
	unsigned grid = (unsigned)(blocks * processors);
	ASSERT_OK(cuLaunchKernel(function, grid, 1, 1, 64, 1, 1, 16 * 1024, NULL, params, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(grid, kernels_read(left));
	ASSERT_OK(cuMemFree(arrived));
	ASSERT_OK(cuCtxDestroy(context));
}

/* The barrier of a grid as compilers' code uses it: the first block adds what turns the top bit with the last. */
static const char grid_text[] = PTX_HEAD
	".visible .entry rounds(.param .u64 sum, .param .u32 count, .param .u64 wrong)\n"
	"{ .reg .u64 %d<8>; .reg .u32 %r<16>; .reg .pred %p<6>;\n"
	"ld.param.u64 %d1, [sum]; ld.param.u32 %r1, [count]; ld.param.u64 %d2, [wrong];\n"
	"mov.u32 %r2, %envreg1; mov.u32 %r3, %envreg2; mov.b64 %d3, {%r3, %r2};\n"
	"mov.u32 %r4, %nctaid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %tid.x; setp.ne.u32 %p1, %r6, 0;\n"
	"mov.u32 %r7, 1; sub.u32 %r8, 0x80000001, %r4; setp.eq.u32 %p2, %r5, 0; selp.u32 %r7, %r8, %r7, %p2;\n"
	"mov.u32 %r9, 0;\n"
	"ROUND: bar.sync 0; @%p1 bra PASS;\n"
	"atom.global.add.u32 %r10, [%d1], 1;\n"
	"atom.add.release.gpu.u32 %r11, [%d3+4], %r7;\n"
	"AGAIN: ld.acquire.gpu.u32 %r12, [%d3+4]; xor.b32 %r12, %r12, %r11; setp.ge.s32 %p3, %r12, 0; @%p3 bra AGAIN;\n"
	"PASS: bar.sync 0; add.u32 %r9, %r9, 1;\n"
	/* All blocks have counted this round: fewer would be wrong. */
	"ld.volatile.global.u32 %r13, [%d1]; mul.lo.u32 %r14, %r9, %r4; setp.ge.u32 %p4, %r13, %r14;\n"
	"@!%p4 st.global.u32 [%d2], 1;\n"
	"setp.lt.u32 %p5, %r9, %r1; @%p5 bra ROUND; ret; }\n";

/* Goal: the blocks of a cooperative launch meet at the grid's barrier; a grid that is not resident is refused. */
TEST(cooperative_grids_have_a_barrier)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(grid_text), "rounds");
	CUdeviceptr sum = kernels_memory(8), wrong = sum + 4;
	unsigned rounds = 5;
	void *params[] = {&sum, &rounds, &wrong};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
	int blocks = 0, processors = 0, supported = 0;

	ASSERT_OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
	ASSERT(supported);
	ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
	ASSERT_OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	unsigned grid = (unsigned)(blocks * processors);
	CUlaunchConfig config = {grid, 1, 1, 256, 1, 1, 0, NULL, &attribute, 1};
	ASSERT_OK(cuLaunchCooperativeKernel(function, grid, 1, 1, 256, 1, 1, 0, NULL, params));
	ASSERT_OK(cuLaunchKernelEx(&config, function, params, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(2 * rounds * grid, kernels_read(sum));
	ASSERT_EQ(0, kernels_read(wrong));
	config.gridDimX++;
	ASSERT_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchKernelEx(&config, function, params, NULL));
	ASSERT_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		     cuLaunchCooperativeKernel(function, grid + 1, 1, 1, 256, 1, 1, 0, NULL, params));
	ASSERT_OK(cuMemFree(sum));
	ASSERT_OK(cuCtxDestroy(context));
}

/* A variable that cuMemGetInfo() shows. */
static const char large_text[] = PTX_HEAD ".visible .global .align 4 .b8 large[4194304];\n"
					  ".visible .entry nothing() { ret; }\n";

static CUlibrary load_library(const char *text)
{
	CUlibrary library = NULL;

	ASSERT_OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	return library;
}

static CUfunction find_in_library(CUlibrary library, const char *name)
{
	CUkernel kernel = NULL;

	ASSERT_OK(cuLibraryGetKernel(&kernel, library, name));
	return (CUfunction)(void *)kernel;
}

/* Goal: unloading a library waits for nothing; kernels that were launched keep code and variables until they end. */
TEST(an_unloaded_library_stays_until_its_kernels_end)
{
	CUcontext context = kernels_start();
	CUlibrary library = load_library(kernels_text);
	CUfunction function = find_in_library(library, "wait_for");
	CUkernel gone = NULL;
	unsigned *flag = make_words(), *answer = flag + 1024,
		 *words = flag + 2048; /* pinned: copies are asynchronous */
	size_t before = 0, during = 0, after = 0, total;
	CUdeviceptr variable;

	ASSERT_OK(cuMemGetInfo(&before, &total));
	CUlibrary large = load_library(large_text);
	ASSERT_OK(cuLaunchKernel(find_in_library(large, "nothing"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_OK(cuLibraryGetGlobal(&variable, NULL, library, "word"));
	wait_for(function, NULL, 4, flag, 1, answer);
	ASSERT_OK(cuLaunchKernel(find_in_library(library, "count"), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_OK(cuMemcpyDtoHAsync(words, variable, 16, NULL));
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_OK(cuLibraryUnload(large));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&gone, library, "wait_for"));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(NULL, &total, variable));
	ASSERT_EQ(0, look(answer));
	ASSERT_OK(cuMemGetInfo(&during, &total));
	ASSERT_LT(during, before);
	set(flag, 1);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(4, look(answer));
	ASSERT_EQ(1 + 32, words[0]);
	ASSERT_EQ(4, words[3]);
	ASSERT_OK(cuMemGetInfo(&after, &total));
	ASSERT_LE(before, after);
	ASSERT_OK(cuMemFreeHost(flag));
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Two processes ----------------------------------------------------------------------------------------------- */

enum { ROUNDS = 50 };

/* Words of a pool: ours is written by our kernels, theirs by the other process's. */
static void take_turns(CUdeviceptr ours, CUdeviceptr theirs, unsigned ahead)
{
	CUfunction function = kernels_find(kernels_load(kernels_text), "wait_for");
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	for (unsigned round = 1; round <= ROUNDS; round++)
		wait_for(function, stream, 1, (unsigned *)theirs, round - ahead, (unsigned *)ours);
	ASSERT_OK(cuStreamSynchronize(stream));
}

ROLE(importer)
{
	CUcontext context = kernels_start();
	CUmemPoolPtrExportData data;
	CUmemoryPool pool = NULL;
	CUdeviceptr words = 0;

	int descriptor = peer_receive_descriptor(parent);
	ASSERT_OK(share_try_import(descriptor, &pool));
	close(descriptor);
	peer_receive_bytes(parent, &data, sizeof data);
	ASSERT_OK(cuMemPoolImportPointer(&words, pool, &data));
	take_turns(words + 4096, words, 0);
	ASSERT_EQ(ROUNDS, kernels_read(words));
	ASSERT_OK(cuMemFree(words));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: kernels of two processes wait for each other through a flag in a shared pool. */
TEST(kernels_of_two_processes_wait_for_each_other)
{
	CUcontext context = kernels_start();
	CUmemoryPool pool = share_pool(0);
	CUdeviceptr words = 0;
	CUmemPoolPtrExportData data;
	struct peer *peer = peer_start("importer");
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuMemAllocFromPoolAsync(&words, 8192, pool, stream));
	ASSERT_OK(cuMemsetD8Async(words, 0, 8192, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	int descriptor = share_export(pool);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	ASSERT_OK(cuMemPoolExportPointer(&data, words));
	peer_send_bytes(peer, &data, sizeof data);
	take_turns(words, words + 4096, 1);
	peer_wait(peer);
	ASSERT_EQ(ROUNDS, kernels_read(words + 4096));
	ASSERT_OK(cuMemFreeAsync(words, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Failing ----------------------------------------------------------------------------------------------------- */

static const char faults_text[] =
	PTX_HEAD ".file 1 \"dir/source.cu\"\n"
		 /* Thread 3 of block 2 stores at an address, which it alone gets. */
		 ".visible .entry store_at(.param .u64 address)\n"
		 "{ .reg .u64 %d<3>; .reg .u32 %r<4>; .reg .pred %p<3>;\n"
		 "ld.param.u64 %d1, [address]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"
		 "setp.ne.u32 %p1, %r1, 2; setp.ne.u32 %p2, %r2, 3; @%p1 bra DONE; @%p2 bra DONE;\n"
		 ".loc 1 42 0\n"
		 "st.global.u32 [%d1], %r1;\n"
		 "DONE: ret; }\n"
		 ".visible .entry trap_it() { trap; ret; }\n";

enum { STORE_LINE = 10 };

/* Launch it on a stream of its own; the answer of waiting for it. */
static CUresult fail(CUmodule module, const char *name, void *address)
{
	void *params[] = {&address};
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuLaunchKernel(kernels_find(module, name), 5, 1, 1, 16, 1, 1, 0, stream, params, NULL));
	CUresult result = cuStreamSynchronize(stream);
	if (result) { /* and so it stays */
		ASSERT_ERROR(result, cuStreamQuery(stream));
		ASSERT_ERROR(result, cuStreamSynchronize(stream));
		ASSERT_ERROR(result, cuCtxSynchronize());
	}
	ASSERT_OK(cuStreamDestroy(stream));
	return result;
}

/* Goal: a wrong access is an error that says where it was, and not a crash. */
TEST(a_wrong_access_is_an_error)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(faults_text);
	char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), expected[64];

	ASSERT(pages != MAP_FAILED);
	ASSERT_SYS(mprotect(pages + 4096, 4096, PROT_NONE)); /* as if unmapped; nothing else comes to lie there */
	for (unsigned i = 0; i < 2; i++) {                   /* not readable; not writable */
		char *wrong = pages + 4096 * (1 - i) + 16;
		ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", wrong));
		ASSERT_OK(cuCtxSynchronize()); /* the stream is gone, and its failure with it */
		ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", wrong));
		ASSERT_CONTAINS("store_at", cenote_last_error());
		snprintf(expected, sizeof expected, "PTX line %d (dir/source.cu:42)", STORE_LINE);
		ASSERT_CONTAINS(expected, cenote_last_error());
		ASSERT_CONTAINS("block (2, 0, 0), thread (3, 0, 0)", cenote_last_error());
		snprintf(expected, sizeof expected, "0x%llx", (unsigned long long)(uintptr_t)wrong);
		ASSERT_CONTAINS(expected, cenote_last_error());
	}
	ASSERT_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, fail(module, "store_at", pages + 2));
	ASSERT_ERROR(CUDA_ERROR_LAUNCH_FAILED, fail(module, "trap_it", NULL));
	ASSERT_CONTAINS("trap_it", cenote_last_error());
	ASSERT_SYS(munmap(pages, 8192));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: so it is in a program whose threads block all signals, as servers do; and they stay blocked. */
TEST(a_wrong_access_is_an_error_where_signals_are_blocked)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(faults_text);
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all, before, after;

	ASSERT(page != MAP_FAILED);
	sigfillset(&all);
	ASSERT_EQ(0, pthread_sigmask(SIG_SETMASK, &all, &before));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page + 16));
	ASSERT_EQ(0, pthread_sigmask(SIG_SETMASK, &before, &after));
	ASSERT(sigismember(&after, SIGSEGV) && sigismember(&after, SIGBUS));
	ASSERT_SYS(munmap(page, 4096));
	ASSERT_OK(cuCtxDestroy(context));
}

static sigjmp_buf back;
static _Atomic(void *) caught;

static void on_fault(int number, siginfo_t *info, void *unused)
{
	(void)number, (void)unused;
	caught = info->si_addr;
	siglongjmp(back, 1);
}

static void touch(char *address)
{
	caught = NULL;
	if (!sigsetjmp(back, 1))
		*(volatile char *)address = 1;
	ASSERT(caught == address);
}

/* Goal: the program's own handler of SIGSEGV gets the program's faults, and no kernel's. */
TEST(the_programs_own_faults_are_its_own)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(page != MAP_FAILED);
	ASSERT_SYS(sigaction(SIGSEGV, &action, &before)); /* between cuInit() and the first kernel */
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(faults_text);
	touch(page);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT(!caught || caught == page);
	touch(page + 100);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT(caught == page + 100);
	ASSERT_SYS(munmap(page, 4096));
	ASSERT_OK(cuCtxDestroy(context));
}

static struct sigaction found;
static _Atomic unsigned own_count;

/* As crash reporters do: what is not its own goes to the handler that it found. */
static void on_some_faults(int number, siginfo_t *info, void *machine)
{
	if (++own_count == 1)
		siglongjmp(back, 1);
	found.sa_sigaction(number, info, machine);
}

/* Goal: the same for handlers that are installed after kernels have run, one that keeps all and one that passes on. */
TEST(handlers_may_come_after_the_first_kernel)
{
	struct sigaction all = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct sigaction some = {.sa_sigaction = on_some_faults, .sa_flags = SA_SIGINFO};
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(faults_text);

	ASSERT(page != MAP_FAILED);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT_SYS(sigaction(SIGSEGV, &all, NULL));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT(!caught);
	for (int i = 0; i < 3; i++)
		touch(page + i);

	ASSERT_SYS(sigaction(SIGSEGV, &some, &found));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT_EQ(0, own_count);
	if (!sigsetjmp(back, 1))
		*(volatile char *)page = 1;
	ASSERT_EQ(1, own_count);
	for (unsigned i = 2; i < 5; i++) { /* it declines: the fault is that of the handler before */
		touch(page + i);
		ASSERT_EQ(i, own_count);
	}
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT_EQ(4, own_count);
	ASSERT_SYS(munmap(page, 4096));
	ASSERT_OK(cuCtxDestroy(context));
}

static void do_nothing(int number)
{
	(void)number;
}

ROLE(faults)
{
	struct rlimit no_core = {0, 0};
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(faults_text);

	(void)parent, (void)argv;
	ASSERT_SYS(setrlimit(RLIMIT_CORE, &no_core));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	signal(SIGSEGV, do_nothing);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	signal(SIGSEGV, SIG_DFL);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, fail(module, "store_at", page));
	ASSERT_OK(cuCtxDestroy(context));
	*(volatile char *)page = 1;
	_exit(0);
}

/* Goal: a program that has put the usual action back ends by its own fault. */
TEST(a_fault_ends_a_program_that_wants_that)
{
	int status = peer_wait_status(peer_start("faults"));

	ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

static const char prints_text[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);\n"
	".global .align 1 .b8 format[10] = {107, 101, 114, 110, 101, 108, 32, 37, 100, 10};\n" /* "kernel %d\n" */
	".global .align 1 .b8 zero[1] = {0};\n"
	".global .align 1 .b8 word[5] = {98, 97, 100, 33, 0};\n" /* "bad!" */
	".visible .entry print(.param .u32 value)\n"
	"{ .local .align 8 .b8 arguments[8]; .reg .u64 %d<4>; .reg .u32 %r<3>;\n"
	"ld.param.u32 %r1, [value]; mov.u64 %d1, arguments; st.local.u32 [%d1], %r1; cvta.local.u64 %d1, %d1;\n"
	"mov.u64 %d2, format; cvta.global.u64 %d2, %d2;\n"
	"{ .param .b64 p0; st.param.b64 [p0], %d2; .param .b64 p1; st.param.b64 [p1], %d1; .param .b32 p2;\n"
	"call.uni (p2), vprintf, (p0, p1); ld.param.b32 %r2, [p2]; }\n"
	"ret; }\n"
	".visible .entry assert_it()\n"
	"{ .reg .u64 %d<4>; .reg .u32 %r<3>; mov.u64 %d2, word; cvta.global.u64 %d2, %d2; mov.u64 %d3, 0;\n"
	"{ .param .b64 p0; st.param.b64 [p0], %d2; .param .b64 p1; st.param.b64 [p1], %d2; .param .b32 p2;\n"
	"st.param.b32 [p2], 7; .param .b64 p3; st.param.b64 [p3], %d2; .param .b64 p4; st.param.b64 [p4], %d3;\n"
	"call.uni __assertfail, (p0, p1, p2, p3, p4); }\n"
	"ret; }\n";

/* What the program writes to its standard output, or error, until end() is called. */
static int saved_output = -1;

static void begin(const char *path, int output)
{
	fflush(stdout);
	saved_output = dup(output);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ASSERT_SYS(file);
	ASSERT_SYS(dup2(file, output));
	close(file);
}

static const char *end(const char *path, int output)
{
	static char text[4096];
	FILE *file = fopen(path, "r");

	fflush(stdout);
	ASSERT_SYS(dup2(saved_output, output));
	close(saved_output);
	ASSERT(file);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return text;
}

static void print(CUfunction function, unsigned threads, unsigned value)
{
	unsigned block = threads < 1000 ? threads : 1000;

	ASSERT_OK(cuLaunchKernel(function, threads / block, 1, 1, block, 1, 1, 0, NULL, (void *[]){&value}, NULL));
}

static void poll_stream(void)
{
	while (cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY)
		;
}

/* Goal: what kernels print comes in their order, when the program waits for them, among what the program prints. */
TEST(kernels_print_when_the_program_waits)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(prints_text);
	CUfunction function = kernels_find(module, "print");
	const char *path = test_path("output");
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, 0));
	begin(path, 1);
	print(function, 1, 1);
	poll_stream();
	printf("polled\n");
	print(function, 1, 2);
	printf("launched\n");
	ASSERT_OK(cuStreamSynchronize(NULL));
	printf("waited\n");
	for (unsigned i = 3; i <= 5; i++)
		print(function, 1, i);
	ASSERT_OK(cuEventRecord(event, NULL));
	ASSERT_OK(cuEventSynchronize(event));
	printf("end\n");
	ASSERT_STREQ("polled\nkernel 1\nlaunched\nkernel 2\nwaited\nkernel 3\nkernel 4\nkernel 5\nend\n", end(path, 1));
	ASSERT_OK(cuCtxDestroy(context));
}

static void CUDA_CB say_called(CUstream stream, CUresult status, void *unused)
{
	(void)stream, (void)status, (void)unused;
	(void)!write(1, "called\n", 7); /* not by the FILE, which the program may hold */
}

/* Goal: what kernels printed is written before a stream calls the program back, and before a module is loaded. */
TEST(kernels_print_before_callbacks_and_loading)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(prints_text), "print");
	const char *path = test_path("output");

	begin(path, 1);
	print(function, 1, 1);
	ASSERT_OK(cuStreamAddCallback(NULL, say_called, NULL, 0));
	poll_stream();
	print(function, 1, 2);
	poll_stream();
	kernels_load(prints_text);
	(void)!write(1, "loaded\n", 7);
	ASSERT_STREQ("kernel 1\ncalled\nkernel 2\nloaded\n", end(path, 1));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a callback does not wait for a FILE that the program holds until the callback has run. */
TEST(callbacks_do_not_wait_for_the_programs_file)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(prints_text), "print");
	const char *path = test_path("output");

	begin(path, 1);
	flockfile(stdout);
	print(function, 1, 1);
	ASSERT_OK(cuStreamAddCallback(NULL, say_called, NULL, 0));
	poll_stream();
	funlockfile(stdout);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_STREQ("called\nkernel 1\n", end(path, 1));
	ASSERT_OK(cuCtxDestroy(context));
}

enum { LINES = 200000, LINE_BYTES = 9 };

/* Goal: a kernel may print more than a pipe takes while the program has its standard output locked. */
TEST(kernels_print_without_the_programs_file)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(prints_text);
	const char *path = test_path("output");
	struct stat status;

	begin(path, 1);
	flockfile(stdout);
	print(kernels_find(module, "print"), LINES, 1);
	poll_stream();
	funlockfile(stdout);
	ASSERT_OK(cuCtxSynchronize());
	end(path, 1);
	ASSERT_SYS(stat(path, &status));
	ASSERT_EQ(LINES * LINE_BYTES, status.st_size);
	ASSERT_OK(cuCtxDestroy(context));
}

/* How many lines come from a pipe; SIZE_MAX: one was not as printed. */
static void *count_lines(void *pipe_end)
{
	FILE *file = fdopen(*(int *)pipe_end, "r");
	char line[32];
	size_t count = 0;

	while (fgets(line, sizeof line, file))
		count = strcmp(line, "kernel 1\n") == 0 && count != SIZE_MAX ? count + 1 : SIZE_MAX;
	fclose(file);
	return (void *)count;
}

/* Goal: nothing is lost where standard output is a pipe that does not block. */
TEST(kernels_print_to_a_pipe_that_does_not_block)
{
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(prints_text), "print");
	int pipe_ends[2], saved = dup(1);
	pthread_t reader;
	void *count;

	ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
	ASSERT_SYS(fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK));
	fflush(stdout);
	ASSERT_SYS(dup2(pipe_ends[1], 1));
	close(pipe_ends[1]);
	print(function, LINES, 1);
	poll_stream();
	ASSERT_SYS(-pthread_create(&reader, NULL, count_lines, &pipe_ends[0]));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_SYS(dup2(saved, 1));
	close(saved);
	ASSERT_SYS(-pthread_join(reader, &count));
	ASSERT_EQ(LINES, (size_t)count);
	ASSERT_OK(cuCtxDestroy(context));
}

/* argv[0]: where its standard output goes. It never waits for its kernel, and its child has nothing to say. */
ROLE(prints)
{
	kernels_start();
	CUfunction function = kernels_find(kernels_load(prints_text), "print");

	(void)parent;
	begin(argv[0], 1);
	print(function, 2, 1);
	poll_stream();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		exit(0);
	ASSERT_SYS(waitpid(child, NULL, 0));
	printf("end\n");
	exit(0);
}

/* Goal: what a kernel has printed comes out when the program ends, once. */
TEST(kernels_print_when_the_program_ends)
{
	const char *path = test_path("output");
	char text[64];

	peer_wait(peer_start("prints", path));
	FILE *file = fopen(path, "r");
	ASSERT(file);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	ASSERT_STREQ("end\nkernel 1\nkernel 1\n", text);
}

/* Goal: a failed assertion is printed to standard error, and an error. */
TEST(a_failed_assertion_is_an_error)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(prints_text);
	const char *path = test_path("output");

	begin(path, 2);
	CUresult result = cuLaunchKernel(kernels_find(module, "assert_it"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	CUresult waited = cuCtxSynchronize();
	const char *text = end(path, 2);
	ASSERT_OK(result);
	ASSERT_ERROR(CUDA_ERROR_ASSERT, waited);
	ASSERT_CONTAINS("bad!:7: bad!: block: [0,0,0], thread: [0,0,0] Assertion `bad!` failed.", text);
	ASSERT_OK(cuCtxDestroy(context));
}
