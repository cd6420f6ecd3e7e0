/* SPDX-License-Identifier: MIT */
/*
 * Programs that a CUDA compiler made: what they register, and what the runtime makes of it.
 */
#include "registered.h"

#include <pthread.h>
#include <unistd.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

static const char text[] =
	HEAD ".visible .global .align 4 .u32 table[4] = {1, 2, 3, 4};\n"
	     ".visible .const .align 4 .u32 factor = 3;\n"
	     /* out[i] = i * factor + table[0] */
	     ".visible .entry work(.param .u64 out)\n"
	     "{ .reg .u64 %d<4>; .reg .u32 %r<8>; .shared .align 4 .b8 room[64];\n"
	     "ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; ld.const.u32 %r2, [factor]; ld.global.u32 %r3, [table];\n"
	     "mad.lo.u32 %r5, %r1, %r2, %r3; st.shared.u32 [room], %r5;\n"
	     "mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r5; ret; }\n";

static const char managed_text[] = HEAD ".visible .global .attribute(.managed) .align 4 .u32 shared_word = 5;\n"
					".visible .global .align 4 .u32 beside = 8;\n"
					/* shared_word counts threads */
					".visible .entry count()\n"
					"{ .reg .u32 %r<2>; atom.global.add.u32 %r1, [shared_word], 1; ret; }\n";

/* What stands for them on the host. */
static void work(void)
{
}
static void count(void)
{
}
static char table[16], factor[4];
static char beside[4];
static void *shared_word;

static void **register_work(void)
{
	static struct fat_binary binary;
	static struct fat_wrapper wrapper;

	fat_fill(&binary, FAT_PTX, text);
	wrapper = fat_wrap(&binary);
	void **handle = __cudaRegisterFatBinary(&wrapper);
	fat_kernel(handle, (const void *)work, "work");
	fat_variable(handle, table, "table", sizeof table);
	fat_variable(handle, factor, "factor", sizeof factor);
	__cudaRegisterFatBinaryEnd(handle);
	return handle;
}

static void **register_count(void)
{
	static struct fat_binary binary;
	static struct fat_wrapper wrapper;

	fat_fill(&binary, FAT_PTX, managed_text);
	wrapper = fat_wrap(&binary);
	void **handle = __cudaRegisterFatBinary(&wrapper);
	fat_kernel(handle, (const void *)count, "count");
	fat_variable(handle, beside, "beside", sizeof beside);
	__cudaRegisterManagedVar(handle, &shared_word, (char *)(uintptr_t) "shared_word", "shared_word", 0, 4, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
	return handle;
}

/* What thread `index` of `work` writes. */
static unsigned run_work(unsigned index)
{
	unsigned out[32];
	void *memory = NULL, *arguments[] = {&memory};

	ASSERT_OK(cudaMalloc(&memory, sizeof out));
	ASSERT_OK(fat_launch((const void *)work, 1, 32, arguments));
	ASSERT_OK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDeviceToHost));
	ASSERT_OK(cudaFree(memory));
	return out[index];
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* Goal: a kernel runs on each device, and its variables have their first values there. */
TEST(kernels_run_on_each_device)
{
	setenv("CENOTE_HOST_DEVICES", "2", 1);
	void **handle = register_work();
	for (int device = 0; device < 2; device++) {
		ASSERT_OK(cudaSetDevice(device));
		ASSERT_EQ(31 * 3 + 1, run_work(31));
	}
	__cudaUnregisterFatBinary(handle);
}

/* Goal: a kernel has handles that the runtime and the driver launch, and attributes. */
TEST(kernels_have_handles_and_attributes)
{
	struct cudaFuncAttributes attributes;
	dim3 one = {1, 1, 1};
	cudaKernel_t kernel = NULL;
	cudaFunction_t function = NULL;
	const char *name = NULL;
	int blocks = 0, word = 0;

	void **binaries[] = {register_work(), register_count()};
	ASSERT_OK(cudaGetKernel(&kernel, (const void *)count));
	ASSERT_OK(cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
	ASSERT_OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_OK(cudaGetFuncBySymbol(&function, (const void *)count));
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_OK(cudaLaunchCooperativeKernel((const void *)count, one, one, NULL, 0, NULL));
	ASSERT_OK(cudaMemcpyFromSymbol(&word, &shared_word, sizeof word, 0, cudaMemcpyDeviceToHost));
	ASSERT_EQ(5 + 4, word);
	ASSERT_OK(cudaFuncGetName(&name, (const void *)work));
	ASSERT_STREQ("work", name);
	ASSERT_OK(cudaFuncGetAttributes(&attributes, (const void *)work));
	ASSERT_EQ(64, attributes.sharedSizeBytes);
	ASSERT_OK(cudaFuncSetAttribute((const void *)work, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
	ASSERT_OK(cudaFuncGetAttributes(&attributes, (const void *)work));
	ASSERT_EQ(64 << 10, attributes.maxDynamicSharedSizeBytes);
	ASSERT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)work, 128, 0));
	ASSERT_GT(blocks, 0);
	__cudaUnregisterFatBinary(binaries[0]);
	__cudaUnregisterFatBinary(binaries[1]);
}

static void *launch_once(void *barrier)
{
	pthread_barrier_wait(barrier);
	ASSERT_OK(fat_launch((const void *)count, 1, 4, NULL));
	ASSERT_OK(cudaDeviceSynchronize());
	return NULL;
}

/* Goal: threads that use a binary first and at once use one and the same. */
TEST(threads_load_a_binary_at_once)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;

	void **handle = register_count();
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, THREADS));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, launch_once, &barrier));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT(__cudaInitModule(handle));
	ASSERT_EQ(5 + THREADS * 4, *(unsigned *)shared_word);
	pthread_barrier_destroy(&barrier);
	__cudaUnregisterFatBinary(handle);
}

/* Goal: a device that is reset has the variables' first values again. */
TEST(a_reset_device_begins_anew)
{
	unsigned value = 100;

	void **handle = register_work();
	ASSERT_OK(cudaMemcpyToSymbol(table, &value, sizeof value, 0, cudaMemcpyHostToDevice));
	ASSERT_EQ(100, run_work(0));
	ASSERT_OK(cudaDeviceReset());
	ASSERT_EQ(1, run_work(0));
	__cudaUnregisterFatBinary(handle);
}

/* ---- Variables --------------------------------------------------------------------------------------------------- */

/* Goal: variables are copied to and from, whole and in part, and each device has its own. */
TEST(variables_are_copied)
{
	unsigned values[4] = {0}, two[2] = {70, 80}, value = 10;
	void *address = NULL;
	size_t bytes = 0;

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	void **handle = register_work();
	ASSERT_OK(cudaGetSymbolSize(&bytes, table));
	ASSERT_EQ(16, bytes);
	ASSERT_OK(cudaMemcpyToSymbol(table, two, sizeof two, 8, cudaMemcpyHostToDevice));
	ASSERT_OK(cudaMemcpyToSymbolAsync(factor, &value, sizeof value, 0, cudaMemcpyDefault, cudaStreamPerThread));
	ASSERT_OK(cudaStreamSynchronize(cudaStreamPerThread));
	ASSERT_OK(cudaMemcpyFromSymbol(values, table, sizeof values, 0, cudaMemcpyDeviceToHost));
	ASSERT_EQ(2, values[1]);
	ASSERT_EQ(80, values[3]);
	ASSERT_OK(cudaGetSymbolAddress(&address, table));
	ASSERT_OK(cudaMemcpy(values, address, sizeof values, cudaMemcpyDeviceToHost));
	ASSERT_EQ(70, values[2]);
	ASSERT_EQ(7 * 10 + 1, run_work(7));

	ASSERT_OK(cudaSetDevice(1));
	ASSERT_OK(cudaMemcpyFromSymbolAsync(values, table, 8, 8, cudaMemcpyDeviceToHost, NULL));
	ASSERT_OK(cudaDeviceSynchronize());
	ASSERT_EQ(3, values[0]);
	ASSERT_EQ(7 * 3 + 1, run_work(7));
	__cudaUnregisterFatBinary(handle);
}

/* Goal: a managed variable is one for the host and all devices. */
TEST(managed_variables_are_one)
{
	void *address = NULL;
	unsigned value = 0;

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	void **handle = register_count();
	ASSERT(!shared_word);
	ASSERT(__cudaInitModule(handle));
	ASSERT_EQ(5, *(unsigned *)shared_word);
	*(unsigned *)shared_word = 50;
	for (int device = 0; device < 2; device++) {
		ASSERT_OK(cudaSetDevice(device));
		ASSERT_OK(fat_launch((const void *)count, 1, 2, NULL));
		ASSERT_OK(cudaDeviceSynchronize());
		/* The host's code names it by its own address. */
		ASSERT_OK(cudaGetSymbolAddress(&address, shared_word));
		ASSERT(address == shared_word);
		/* What is not managed is each device's own. */
		ASSERT_OK(cudaMemcpyFromSymbol(&value, beside, sizeof value, 0, cudaMemcpyDeviceToHost));
		ASSERT_EQ(8, value);
		value = 9;
		ASSERT_OK(cudaMemcpyToSymbol(beside, &value, sizeof value, 0, cudaMemcpyHostToDevice));
	}
	ASSERT_OK(cudaMemcpyFromSymbol(&value, shared_word, sizeof value, 0, cudaMemcpyDeviceToHost));
	ASSERT_EQ(50 + 4, value);
	__cudaUnregisterFatBinary(handle);
}

/* Goal: what is no variable, or beyond one, is refused. */
TEST(wrong_symbols_are_refused)
{
	static char other[4];
	void *address = other;
	size_t bytes = 7;

	void **handle = register_work();
	ASSERT_ERROR(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, other));
	ASSERT_ERROR(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, NULL));
	ASSERT_ERROR(cudaErrorInvalidSymbol, cudaGetSymbolSize(&bytes, (const void *)work));
	ASSERT_ERROR(cudaErrorInvalidSymbol, cudaGetLastError());
	ASSERT_ERROR(cudaErrorInvalidValue, cudaGetSymbolAddress(NULL, table));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, other, 4, 13, cudaMemcpyHostToDevice));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, other, 4, SIZE_MAX, cudaMemcpyHostToDevice));
	ASSERT_CONTAINS("of a variable that has 16", cenote_last_error());
	ASSERT_ERROR(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(table, other, 4, 0, cudaMemcpyDeviceToHost));
	ASSERT_ERROR(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbol(other, table, 4, 0, cudaMemcpyHostToDevice));
	ASSERT(address == other);
	ASSERT_EQ(7, bytes);
	__cudaUnregisterFatBinary(handle);
}

/* ---- Binaries ---------------------------------------------------------------------------------------------------- */

/* Goal: a binary that goes takes its kernels and variables with it. */
TEST(a_binary_goes)
{
	void *address = NULL;

	void **handle = register_work();
	ASSERT_EQ(1, run_work(0));
	__cudaUnregisterFatBinary(handle);
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, fat_launch((const void *)work, 1, 1, NULL));
	ASSERT_CONTAINS("is not a kernel", cenote_last_error());
	ASSERT_ERROR(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, table));
	handle = register_work();
	ASSERT_EQ(1, run_work(0));
	__cudaUnregisterFatBinary(handle);
}

static void wait_for_byte(void *gate)
{
	char byte;

	if (read(*(int *)gate, &byte, 1) != 1)
		abort();
}

/*
 * Goal: a binary may go, as in dlclose(), while the stream waits for a host function; a function that wants the dynamic
 * linker's lock could not end before dlclose() does.
 */
TEST(a_binary_goes_before_its_kernels_run)
{
	unsigned out[32] = {0};
	void *memory = NULL, *arguments[] = {&memory};
	int gate[2];

	void **handle = register_work();
	ASSERT_SYS(pipe(gate));
	ASSERT_OK(cudaMalloc(&memory, sizeof out));
	ASSERT_OK(cudaLaunchHostFunc(NULL, wait_for_byte, &gate[0]));
	ASSERT_OK(fat_launch((const void *)work, 1, 32, arguments));
	__cudaUnregisterFatBinary(handle);
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(NULL));
	ASSERT_EQ(1, write(gate[1], "", 1));
	ASSERT_OK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDeviceToHost));
	ASSERT_EQ(31 * 3 + 1, out[31]);
	ASSERT_OK(cudaFree(memory));
	ASSERT_OK(cudaDeviceSynchronize());
	close(gate[0]);
	close(gate[1]);
}

/* Goal: two binaries may have one kernel, as templates have; the one that stays serves. */
TEST(two_binaries_have_one_kernel)
{
	void **first = register_work(), **second = register_work();

	ASSERT_EQ(1, run_work(0));
	__cudaUnregisterFatBinary(first);
	ASSERT_EQ(1, run_work(0));
	__cudaUnregisterFatBinary(second);
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, fat_launch((const void *)work, 1, 1, NULL));
}

/* Goal: a binary is loaded when it is used: what is wrong with one disturbs no other. */
TEST(binaries_are_loaded_when_used)
{
	static struct fat_binary machine_code, broken;
	static struct fat_wrapper machine_code_wrapper, broken_wrapper;

	fat_fill(&machine_code, FAT_ELF, "\177ELF");
	machine_code_wrapper = fat_wrap(&machine_code);
	fat_fill(&broken, FAT_PTX, HEAD ".visible .entry count( { ret; }\n");
	broken_wrapper = fat_wrap(&broken);
	fat_kernel(__cudaRegisterFatBinary(&machine_code_wrapper), (const void *)fat_fill, "fat_fill");
	fat_kernel(__cudaRegisterFatBinary(&broken_wrapper), (const void *)count, "count");
	void **handle = register_work();
	fat_kernel(handle, (const void *)fat_launch, "absent");

	ASSERT_EQ(1, run_work(0));
	ASSERT_ERROR(cudaErrorNoKernelImageForDevice, fat_launch((const void *)fat_fill, 1, 1, NULL));
	ASSERT_CONTAINS("nvcc -gencode", cenote_last_error());
	ASSERT_ERROR(cudaErrorNoKernelImageForDevice, cudaGetLastError());
	ASSERT_ERROR(cudaErrorInvalidPtx, fat_launch((const void *)count, 1, 1, NULL));
	ASSERT_ERROR(cudaErrorInvalidDeviceFunction, fat_launch((const void *)fat_launch, 1, 1, NULL));
	__cudaUnregisterFatBinary(handle);
}

/* Goal: a binary of files that were compiled apart is one. */
TEST(files_are_linked)
{
	static struct fat_binary files[2], machine_code;
	static const void *list[] = {&files[0], &files[1], NULL};
	static struct fat_wrapper linked;
	unsigned out = 0;
	void *memory = NULL, *arguments[] = {&memory};

	fat_fill(&files[0], FAT_PTX,
		 HEAD ".extern .global .align 4 .u32 table[4];\n"
		      ".visible .entry work(.param .u64 out)\n"
		      "{ .reg .u64 %d<2>; .reg .u32 %r<2>; ld.param.u64 %d1, [out]; ld.global.u32 %r1, [table+8];\n"
		      "st.global.u32 [%d1], %r1; ret; }\n");
	fat_fill(&files[1], FAT_PTX, HEAD ".visible .global .align 4 .u32 table[4] = {1, 2, 33, 4};\n");
	fat_fill(&machine_code, FAT_ELF, "\177ELF");
	linked = fat_wrap(&machine_code);
	linked.version = 2;
	linked.list = list;
	void **handle = __cudaRegisterFatBinary(&linked);
	fat_kernel(handle, (const void *)work, "work");
	fat_variable(handle, table, "table", sizeof table);
	__cudaRegisterFatBinaryEnd(handle);
	ASSERT_OK(cudaMalloc(&memory, sizeof out));
	ASSERT_OK(fat_launch((const void *)work, 1, 1, arguments));
	ASSERT_OK(cudaMemcpy(&out, memory, sizeof out, cudaMemcpyDeviceToHost));
	ASSERT_EQ(33, out);
	ASSERT_OK(cudaMemcpyFromSymbol(&out, table, sizeof out, 4, cudaMemcpyDeviceToHost));
	ASSERT_EQ(2, out);
	ASSERT_OK(cudaFree(memory));
	__cudaUnregisterFatBinary(handle);
}

/* ---- Libraries --------------------------------------------------------------------------------------------------- */

/* Goal: code that the program loads itself: its kernels and variables. */
TEST(libraries_are_loaded)
{
	cudaKernel_t kernel = NULL, kernels[4] = {NULL};
	cudaLibrary_t library = NULL, other = NULL;
	dim3 one = {1, 1, 1};
	void *address = NULL;
	unsigned number = 0;
	size_t bytes = 0;

	ASSERT_OK(cudaLibraryLoadData(&library, managed_text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cudaLibraryLoadData(&other, text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cudaLibraryGetKernelCount(&number, library));
	ASSERT_EQ(1, number);
	ASSERT_OK(cudaLibraryEnumerateKernels(kernels, 4, library));
	ASSERT(kernels[0] && !kernels[1]);
	ASSERT_OK(cudaLibraryGetKernel(&kernel, library, "count"));
	ASSERT_ERROR(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, library, "absent"));
	ASSERT_OK(cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
	ASSERT_OK(cudaDeviceSynchronize());
	ASSERT_OK(cudaLibraryGetManaged(&address, &bytes, library, "shared_word"));
	ASSERT_EQ(4, bytes);
	ASSERT_EQ(6, *(unsigned *)address);
	ASSERT_OK(cudaLibraryGetGlobal(&address, NULL, other, "table"));
	ASSERT_OK(cudaMemcpy(&number, address, sizeof number, cudaMemcpyDeviceToHost));
	ASSERT_EQ(1, number);
	ASSERT_OK(cudaLibraryUnload(other));
	ASSERT_OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10, 0));
	ASSERT_OK(cudaLibraryUnload(library));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaLibraryUnload(library));
	ASSERT_ERROR(cudaErrorFileNotFound,
		     cudaLibraryLoadFromFile(&library, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static void **exiting;

static void unregister(void)
{
	__cudaUnregisterFatBinary(exiting);
}

/* A process that ends while a kernel waits for something that never comes. */
ROLE(leaves)
{
	static const char waits[] =
		HEAD ".visible .entry work(.param .u64 flag)\n"
		     "{ .reg .u64 %d<2>; .reg .u32 %r<2>; .reg .pred %p<2>; ld.param.u64 %d1, [flag];\n"
		     "L: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; ret; }\n";
	static struct fat_binary binary;
	static struct fat_wrapper wrapper;
	void *flag = NULL, *arguments[] = {&flag};

	(void)parent;
	fat_fill(&binary, FAT_PTX, waits);
	wrapper = fat_wrap(&binary);
	exiting = __cudaRegisterFatBinary(&wrapper);
	fat_kernel(exiting, (const void *)work, "work");
	ASSERT_EQ(0, atexit(unregister));
	ASSERT_OK(cudaMalloc(&flag, 4));
	ASSERT_OK(cudaMemset(flag, 0, 4));
	ASSERT_OK(fat_launch((const void *)work, 1, 1, arguments));
	exit(0);
}

/* Goal: a kernel that never ends does not keep its process from ending. */
TEST(a_process_ends_before_its_kernels)
{
	peer_wait(peer_start("leaves"));
}
