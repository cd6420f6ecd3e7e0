/* SPDX-License-Identifier: MIT */
/*
 * Kernels, modules, launches and host functions.
 */
#include "harness.h"

#include "device/host/host_internal.h"
#include "driver/host/kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static CUcontext context;
static CUstream stream;

static void make_context(void)
{
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, 0));
}

static CUdeviceptr make_memory(size_t bytes)
{
	CUdeviceptr memory = 0;

	ASSERT_OK(cuMemAlloc(&memory, bytes));
	ASSERT_OK(cuMemsetD8(memory, 0, bytes));
	return memory;
}

/* ---- The program's own kernels ----------------------------------------------------------------------------------- */

/* One more at the place of this thread, which its six coordinates give. */
static void mark(const cenote_thread *at, void **args)
{
	unsigned *marks = *(unsigned **)args[0];
	unsigned block = (at->blockIdx.z * at->gridDim.y + at->blockIdx.y) * at->gridDim.x + at->blockIdx.x;
	unsigned thread = (at->threadIdx.z * at->blockDim.y + at->threadIdx.y) * at->blockDim.x + at->threadIdx.x;

	__atomic_fetch_add(&marks[block * at->blockDim.x * at->blockDim.y * at->blockDim.z + thread], 1,
			   __ATOMIC_RELAXED);
}
CENOTE_KERNEL(mark, unsigned *);

struct mixed {
	char a;
	double b;
	short c;
	void *out;
};

static void store_mixed(const cenote_thread *at, void **args)
{
	(void)at;
	**(struct mixed **)args[3] = (struct mixed){*(char *)args[0], *(double *)args[1], *(short *)args[2], NULL};
}
CENOTE_KERNEL(store_mixed, char, double, short, struct mixed *);

/* Each thread of a block adds one to the block's shared memory; the last one looks. */
static void use_shared(const cenote_thread *at, void **args)
{
	unsigned *shared = at->shared;
	unsigned count = at->blockDim.x;

	if (at->threadIdx.x == 0)
		memset(shared, 0, *(unsigned *)args[1]);
	shared[0]++;
	if (at->threadIdx.x == count - 1)
		(*(unsigned **)args[0])[at->blockIdx.x] = shared[0] + (((uintptr_t)shared % 16) ? 1000 : 0);
}
CENOTE_KERNEL(use_shared, unsigned *, unsigned);

static void has_no_shared(const cenote_thread *at, void **args)
{
	**(int **)args[0] = at->shared == NULL;
}
CENOTE_KERNEL(has_no_shared, int *);

static void never_declared(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}

static CUfunction function_of(cenote_kernel_function kernel)
{
	CUfunction function = NULL;

	ASSERT_OK(cn_function_of_address((const void *)(uintptr_t)kernel, &function));
	return function;
}

/* Goal: every thread of a launch runs exactly once, and knows where it is. */
TEST(every_thread_runs_once)
{
	enum { COUNT = 3 * 5 * 7 * 4 * 2 * 3 };
	unsigned marks[COUNT];

	make_context();
	CUdeviceptr memory = make_memory(sizeof marks);
	void *params[] = {&memory};
	ASSERT_OK(cuLaunchKernel(function_of(mark), 3, 5, 7, 4, 2, 3, 0, stream, params, NULL));
	ASSERT_OK(cuMemcpyDtoHAsync(marks, memory, sizeof marks, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	for (int i = 0; i < COUNT; i++)
		ASSERT_EQ(1, marks[i]);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a kernel has one handle, and what is no kernel has none. */
TEST(only_kernels_can_be_launched)
{
	CUfunction function = (CUfunction)&context;

	make_context();
	ASSERT_EQ((void *)function_of(mark), (void *)function_of(mark));
	ASSERT_NE((void *)function_of(mark), (void *)function_of(use_shared));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_function_of_address((const void *)(uintptr_t)never_declared, &function));
	ASSERT_CONTAINS("CENOTE_KERNEL", cn_last_error());
	ASSERT_EQ((void *)&context, (void *)function);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_function_of_address(&context, &function));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuLaunchKernel((CUfunction)(uintptr_t)never_declared, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a kernel that was unregistered is gone, registered twice it must go twice, and its old handle stays dead. */
TEST(kernels_are_counted)
{
	static const cenote_kernel record = {CENOTE_KERNEL_VERSION, 0, "never_declared", never_declared, NULL, NULL};
	const void *address = (const void *)(uintptr_t)never_declared;
	CUfunction function, again;

	make_context();
	cenote_kernel_register(&record);
	cenote_kernel_register(&record);
	ASSERT_OK(cn_function_of_address(address, &function));
	cenote_kernel_unregister(&record);
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASSERT_OK(cuStreamSynchronize(stream));
	cenote_kernel_unregister(&record);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_function_of_address(address, &again));
	cenote_kernel_unregister(&record);

	cenote_kernel_register(&record);
	ASSERT_OK(cn_function_of_address(address, &again));
	ASSERT_NE((void *)function, (void *)again);
	cenote_kernel_unregister(&record);
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static void wait_for_byte(void *data)
{
	char byte;

	if (read(*(int *)data, &byte, 1) != 1)
		abort();
}

/* Goal: arguments are those of the moment of the launch, whenever the kernel runs. */
TEST(arguments_are_copied)
{
	struct mixed result = {0}, *out;
	char a = 'x';
	double b = 2.5;
	short c = -7;
	int gate[2];

	make_context();
	ASSERT_SYS(pipe(gate));
	out = (struct mixed *)(uintptr_t)make_memory(sizeof *out);
	void *params[] = {&a, &b, &c, &out};
	ASSERT_OK(cuLaunchHostFunc(stream, wait_for_byte, &gate[0]));
	ASSERT_OK(cuLaunchKernel(function_of(store_mixed), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	CUdeviceptr memory = (CUdeviceptr)(uintptr_t)out;
	a = 0, b = 0, c = 0, out = NULL;
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	ASSERT_EQ(1, write(gate[1], "", 1));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemcpyDtoH(&result, memory, sizeof result));
	ASSERT_EQ('x', result.a);
	ASSERT_EQ(2.5, result.b);
	ASSERT_EQ(-7, result.c);
	close(gate[0]);
	close(gate[1]);
	ASSERT_OK(cuCtxDestroy(context));
}

/* With the pointers to them: arguments that just fit in the room for small ones, that just do not, and large ones. */
struct fitting {
	unsigned char bytes[CN_HOST_ITEM_ROOM_BYTES - 32];
};
struct beyond {
	unsigned char bytes[CN_HOST_ITEM_ROOM_BYTES - 31];
};
struct large {
	_Alignas(64) unsigned char bytes[4096];
};

#define STORES(name, type)                                         \
	static void name(const cenote_thread *at, void **args)     \
	{                                                          \
		(void)at;                                          \
		ASSERT_EQ(0, (uintptr_t)args[1] % _Alignof(type)); \
		memcpy(*(void **)args[0], args[1], sizeof(type));  \
	}                                                          \
	CENOTE_KERNEL(name, unsigned char *, type)
STORES(store_fitting, struct fitting);
STORES(store_beyond, struct beyond);
STORES(store_large, struct large);

static void launch_store(cenote_kernel_function kernel, unsigned char *to, void *argument)
{
	void *params[] = {&to, argument};

	ASSERT_OK(cuLaunchKernel(function_of(kernel), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Goal: arguments of any size wait in the queue, side by side, as they were given. */
TEST(arguments_of_all_sizes_are_copied)
{
	enum { ROUNDS = 100, BYTES = 2 * CN_HOST_ITEM_ROOM_BYTES + 4096 };
	unsigned char expected[BYTES];
	int gate[2];

	make_context();
	ASSERT_SYS(pipe(gate));
	unsigned char *out = (unsigned char *)(uintptr_t)make_memory((size_t)ROUNDS * BYTES);
	ASSERT_OK(cuLaunchHostFunc(stream, wait_for_byte, &gate[0]));
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned char *to = out + (size_t)round * BYTES;
		struct fitting fitting;
		struct beyond beyond;
		struct large large;

		memset(&fitting, (int)round, sizeof fitting);
		memset(&beyond, (int)round + 1, sizeof beyond);
		memset(&large, (int)round + 2, sizeof large);
		launch_store(store_fitting, to, &fitting);
		launch_store(store_beyond, to + CN_HOST_ITEM_ROOM_BYTES, &beyond);
		launch_store(store_large, to + 2 * CN_HOST_ITEM_ROOM_BYTES, &large);
	}
	ASSERT_EQ(1, write(gate[1], "", 1));
	ASSERT_OK(cuStreamSynchronize(stream));
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(expected, 0, sizeof expected);
		memset(expected, (int)round, sizeof(struct fitting));
		memset(expected + CN_HOST_ITEM_ROOM_BYTES, (int)round + 1, sizeof(struct beyond));
		memset(expected + 2 * CN_HOST_ITEM_ROOM_BYTES, (int)round + 2, sizeof(struct large));
		ASSERT_MEMEQ(expected, out + (size_t)round * BYTES, sizeof expected);
	}
	close(gate[0]);
	close(gate[1]);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: arguments in one buffer lie as a C structure's members do. */
TEST(arguments_come_in_a_buffer)
{
	struct mixed packed = {.a = 'y', .b = -1.25, .c = 12}, result = {0};
	size_t bytes = sizeof packed;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
			 CU_LAUNCH_PARAM_END};
	void *unfinished[64] = {0};

	make_context();
	CUdeviceptr memory = make_memory(sizeof packed);
	packed.out = (void *)(uintptr_t)memory;
	CUfunction function = function_of(store_mixed);
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemcpyDtoH(&result, memory, sizeof result));
	ASSERT_EQ('y', result.a);
	ASSERT_EQ(-1.25, result.b);
	ASSERT_EQ(12, result.c);

	/* One byte less is too little: a kernel never reads arguments that nobody gave. */
	bytes--;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	for (int i = 0; i < 64; i++)
		unfinished[i] = i % 2 ? (void *)&packed : CU_LAUNCH_PARAM_BUFFER_POINTER;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, unfinished));
	ASSERT_CONTAINS("CU_LAUNCH_PARAM_END", cn_last_error());
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: words of extra, what they point to, and the buffer itself may not be there. */
TEST(extra_may_lead_nowhere)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), bytes = 64;
	CUfunction function;

	make_context();
	char *page = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE((void *)MAP_FAILED, (void *)page);
	char *gone = page + page_bytes;
	ASSERT_SYS(mprotect(gone, page_bytes, PROT_NONE));
	ASSERT_OK(cn_function_of_address((void *)store_mixed, &function));
	void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, page, CU_LAUNCH_PARAM_BUFFER_SIZE, gone,
			   CU_LAUNCH_PARAM_END};
	void *no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, gone - 8, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			     CU_LAUNCH_PARAM_END};
	void **half = (void **)(void *)(gone - sizeof(void *)), **pair = half - 1;
	*half = CU_LAUNCH_PARAM_BUFFER_POINTER;
	void **wrong[] = {no_size, no_buffer, half, (void **)(void *)gone};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
			     cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, wrong[i]));
	pair[0] = CU_LAUNCH_PARAM_BUFFER_POINTER; /* a pair that is whole, and nothing behind it */
	pair[1] = page;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, pair));
	munmap(page, 2 * page_bytes);
}

/* Goal: a NULL among the arguments is an error, not a crash. */
TEST(null_argument_is_refused)
{
	void *params[] = {NULL};

	make_context();
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuLaunchKernel(function_of(mark), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Shape, shared memory, attributes ---------------------------------------------------------------------------- */

/* Goal: each block has the shared memory that the launch asked for, as much as the function may have. */
TEST(shared_memory)
{
	enum { BLOCKS = 64, THREADS = 17 };
	unsigned results[BLOCKS], bytes = 64 << 10;
	int none = 0, limit = 0;

	make_context();
	CUdeviceptr memory = make_memory(sizeof results);
	void *params[] = {&memory, &bytes};
	CUfunction function = function_of(use_shared);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, bytes, stream, params, NULL));
	ASSERT_CONTAINS("cuFuncSetAttribute", cn_last_error());
	ASSERT_OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes));
	ASSERT_OK(cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	ASSERT_EQ(bytes, limit);
	ASSERT_OK(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, bytes, stream, params, NULL));
	ASSERT_OK(cuMemcpyDtoH(results, memory, sizeof results));
	for (int i = 0; i < BLOCKS; i++)
		ASSERT_EQ(THREADS, results[i]);

	ASSERT_OK(cuLaunchKernel(function_of(has_no_shared), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASSERT_OK(cuMemcpyDtoH(&none, memory, sizeof none));
	ASSERT_EQ(1, none);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: clusters, and cooperative grids of kernels in C, which the host device does not have, are refused. */
TEST(what_a_launch_cannot_have)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
	CUlaunchConfig config = {2, 1, 1, 1, 1, 1, 0, NULL, &attribute, 1};

	make_context();
	config.hStream = stream;
	CUdeviceptr memory = make_memory(64);
	void *params[] = {&memory};
	CUfunction function = function_of(mark);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, function, params, NULL));
	attribute.value.cooperative = 0;
	ASSERT_OK(cuLaunchKernelEx(&config, function, params, NULL));
	attribute =
		(CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {2, 1, 1}}};
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, function, params, NULL));
	attribute.value.clusterDim.x = 1;
	ASSERT_OK(cuLaunchKernelEx(&config, function, params, NULL));
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

/* The module stands beside this program. */
static const char *module_path(void)
{
	static char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);

	ASSERT_SYS(length);
	path[length] = 0;
	snprintf(strrchr(path, '/') + 1, 64, "launch_module.so");
	return path;
}

static int run_read_counter(CUmodule module)
{
	CUfunction function;
	int result = 0;

	ASSERT_OK(cuModuleGetFunction(&function, module, "read_counter"));
	CUdeviceptr memory = make_memory(sizeof result);
	void *params[] = {&memory};
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemcpyDtoH(&result, memory, sizeof result));
	ASSERT_OK(cuMemFree(memory));
	return result;
}

/* Goal: kernels and variables of a module; two loads of one file are two modules, with variables of their own. */
TEST(modules_have_their_own_variables)
{
	CUmodule first, second;
	CUdeviceptr first_counter, second_counter;
	size_t bytes = 0;

	make_context();
	ASSERT_OK(cuModuleLoad(&first, module_path()));
	ASSERT_OK(cuModuleLoad(&second, module_path()));
	ASSERT_NE((void *)first, (void *)second);
	ASSERT_OK(cuModuleGetGlobal(&first_counter, &bytes, first, "counter"));
	ASSERT_EQ(sizeof(int), bytes);
	ASSERT_OK(cuModuleGetGlobal(&second_counter, NULL, second, "counter"));
	ASSERT_NE(first_counter, second_counter);
	ASSERT_OK(cuMemsetD32(first_counter, 41, 1));
	ASSERT_EQ(42, run_read_counter(first));
	ASSERT_EQ(6, run_read_counter(second));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&first_counter, NULL, second, "counter_function"));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&first_counter, NULL, second, "stdout"));

	ASSERT_OK(cuModuleUnload(first));
	ASSERT_EQ(6, run_read_counter(second));
	ASSERT_OK(cuModuleUnload(second));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Load the module, look at its variable and change it, unload it; many times. */
static void *load_and_unload(void *path)
{
	CUmodule module;
	CUdeviceptr counter;
	int value;

	ASSERT_OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 200 / HARNESS_SLOWDOWN; i++) {
		ASSERT_OK(cuModuleLoad(&module, path));
		ASSERT_OK(cuModuleGetGlobal(&counter, NULL, module, "counter"));
		ASSERT_OK(cuMemcpyDtoH(&value, counter, sizeof value));
		ASSERT_EQ(5, value);
		ASSERT_OK(cuMemsetD32(counter, 77, 1));
		ASSERT_OK(cuModuleUnload(module));
	}
	return NULL;
}

/* Goal: though others load and unload the file meanwhile, the program itself too, each load finds it as it was. */
TEST(every_load_is_a_new_module, .timeout_ms = 60000)
{
	char path[PATH_MAX];
	pthread_t threads[3];
	void *library;

	make_context();
	snprintf(path, sizeof path, "%s", module_path());
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, load_and_unload, path));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));

	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ASSERT(library);
	*(int *)dlsym(library, "counter") = 88;
	load_and_unload(path);
	ASSERT_EQ(88, *(int *)dlsym(library, "counter"));
	ASSERT_EQ(0, dlclose(library));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a variable is device memory while its module is there, and no longer. */
TEST(variables_are_device_memory)
{
	CUmemorytype type = 0;
	CUmodule module;
	CUdeviceptr counter, again;

	make_context();
	ASSERT_OK(cuModuleLoad(&module, module_path()));
	ASSERT_OK(cuModuleGetGlobal(&counter, NULL, module, "counter"));
	ASSERT_OK(cuModuleGetGlobal(&again, NULL, module, "counter"));
	ASSERT_EQ(counter, again);
	ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, counter));
	ASSERT_EQ(CU_MEMORYTYPE_DEVICE, type);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(counter));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(counter, 0, 2));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(counter, 0, 1));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: what belongs to an unloaded module is refused, also when the context took it along. */
TEST(unloaded_modules_are_refused)
{
	CUmodule module, other;
	CUfunction function, other_function;
	CUcontext second;
	int value = 0;

	make_context();
	ASSERT_OK(cuModuleLoad(&module, module_path()));
	ASSERT_OK(cuModuleGetFunction(&function, module, "read_counter"));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "read_counter"));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));

	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_OK(cuModuleLoad(&other, module_path()));
	ASSERT_OK(cuModuleLoad(&other, module_path()));
	ASSERT_OK(cuModuleGetFunction(&other_function, other, "read_counter"));
	ASSERT_OK(cuCtxDestroy(second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(other));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, other_function));
	ASSERT_OK(cuCtxDestroy(context));
}

static void *open_gate(void *gate)
{
	if (write(*(int *)gate, "", 1) != 1)
		abort();
	return NULL;
}

/* Goal: a module stays until the launches of its kernels are done. */
TEST(unload_waits_for_kernels)
{
	CUmodule module;
	CUfunction function;
	pthread_t opener;
	int gate[2], result = 0;

	make_context();
	ASSERT_SYS(pipe(gate));
	ASSERT_OK(cuModuleLoad(&module, module_path()));
	ASSERT_OK(cuModuleGetFunction(&function, module, "read_counter"));
	CUdeviceptr memory = make_memory(sizeof result);
	void *params[] = {&memory};
	ASSERT_OK(cuLaunchHostFunc(stream, wait_for_byte, &gate[0]));
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASSERT_EQ(0, pthread_create(&opener, NULL, open_gate, &gate[1]));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_OK(cuStreamQuery(stream));
	ASSERT(!dlopen(module_path(), RTLD_NOW | RTLD_NOLOAD));
	ASSERT_OK(cuMemcpyDtoH(&result, memory, sizeof result));
	ASSERT_EQ(6, result);
	ASSERT_EQ(0, pthread_join(opener, NULL));
	close(gate[0]);
	close(gate[1]);
	ASSERT_OK(cuCtxDestroy(context));
}

/* The module's bytes, right before memory that is not there. */
static char *map_module(size_t *ret_bytes, size_t *ret_mapped_bytes)
{
	struct stat status;
	int file = open(module_path(), O_RDONLY | O_CLOEXEC);

	ASSERT_SYS(file);
	ASSERT_SYS(fstat(file, &status));
	size_t bytes = (size_t)status.st_size, pages_bytes = (bytes + 4095) / 4096 * 4096;
	char *memory = mmap(NULL, pages_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE((void *)MAP_FAILED, (void *)memory);
	ASSERT_SYS(mprotect(memory + pages_bytes, 4096, PROT_NONE));
	char *image = memory + pages_bytes - bytes;
	ASSERT_EQ(status.st_size, read(file, image, bytes));
	close(file);
	*ret_bytes = bytes;
	*ret_mapped_bytes = pages_bytes + 4096;
	return image;
}

/* Goal: a module can come from memory, and its bytes may go afterwards. */
TEST(module_from_memory)
{
	CUmodule first, second;
	size_t bytes, mapped_bytes;

	make_context();
	char *image = map_module(&bytes, &mapped_bytes);
	ASSERT_OK(cuModuleLoadData(&first, image));
	ASSERT_OK(cuModuleLoadDataEx(&second, image, 0, NULL, NULL));
	ASSERT_SYS(munmap((void *)((uintptr_t)image / 4096 * 4096), mapped_bytes));
	ASSERT_EQ(6, run_read_counter(first));
	ASSERT_EQ(6, run_read_counter(second));
	ASSERT_OK(cuModuleUnload(first));
	ASSERT_OK(cuModuleUnload(second));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a module that is larger than files may be is an error; the program is not ended by SIGXFSZ. */
TEST(module_larger_than_files_may_be)
{
	struct rlimit before, limit;
	CUmodule module;
	size_t bytes, mapped_bytes;

	make_context();
	char *image = map_module(&bytes, &mapped_bytes);
	ASSERT_SYS(getrlimit(RLIMIT_FSIZE, &before));
	limit = before;
	limit.rlim_cur = bytes / 2;
	ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &limit));
	CUresult result = cuModuleLoadData(&module, image);
	ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &before));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, result);
	ASSERT_CONTAINS("ulimit -f", cn_last_error());
	ASSERT_OK(cuModuleLoadData(&module, image));
	ASSERT_EQ(6, run_read_counter(module));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_OK(cuCtxDestroy(context));
	ASSERT_SYS(munmap((void *)((uintptr_t)image / 4096 * 4096), mapped_bytes));
}

static void write_file(const char *path, const void *bytes, size_t count)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_SYS(file);
	ASSERT_EQ((ssize_t)count, write(file, bytes, count));
	close(file);
}

/* Goal: a module that is cut short is refused, wherever the cut is: from a file, and from memory that ends there. */
TEST(short_modules_are_refused)
{
	char path[4096];
	CUmodule module;
	size_t bytes, mapped_bytes, load_end = 0;

	make_context();
	char *image = map_module(&bytes, &mapped_bytes);
	Elf64_Ehdr header;
	memcpy(&header, image, sizeof header);
	for (int i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr part;
		memcpy(&part, image + header.e_phoff + (size_t)i * sizeof part, sizeof part);
		if (part.p_offset + part.p_filesz > load_end)
			load_end = part.p_offset + part.p_filesz;
	}
	snprintf(path, sizeof path, "%s/short.so", test_directory());
	const size_t cuts[] = {0, 1, 4, 63, 64, 100, 4096, load_end - 1};
	for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
		write_file(path, image, cuts[i]);
		ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&module, path));
		/* The same in memory: the last bytes before the end of what is mapped. */
		char *end = image + bytes;
		memmove(end - cuts[i], image, cuts[i]);
		if (cuts[i])
			ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, end - cuts[i]));
		ASSERT_SYS(munmap((void *)((uintptr_t)image / 4096 * 4096), mapped_bytes));
		image = map_module(&bytes, &mapped_bytes);
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, (void *)8));
	ASSERT_SYS(munmap((void *)((uintptr_t)image / 4096 * 4096), mapped_bytes));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: what is meant for a GPU, or for another machine, is told apart from garbage. */
TEST(images_for_others_are_refused)
{
	static const uint32_t fat[16] = {0xBA55ED50u};
	Elf64_Ehdr cubin = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB}, .e_machine = 190};
	CUmodule module;

	make_context();
	ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, fat));
	ASSERT_CONTAINS("fat binary", cn_last_error());
	ASSERT_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &cubin));
	ASSERT_CONTAINS("cubin", cn_last_error());
	cubin.e_machine = EM_SPARCV9;
	ASSERT_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &cubin));
	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "// a comment\n.version 7.0\n.entry k(\n"));
	ASSERT_CONTAINS("PTX", cn_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "nothing of that kind"));
	/* A program is no shared object, though it may look like one; what the dynamic linker says is passed on. */
	ASSERT_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, cuModuleLoad(&module, "/proc/self/exe"));
	ASSERT_CONTAINS("/proc/self/exe", cn_last_error());
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a name without a slash is a file here, not a library that the system has. */
TEST(modules_are_not_searched_for)
{
	char path[4096];
	size_t bytes, mapped_bytes;
	CUmodule module;

	make_context();
	ASSERT_SYS(chdir(test_directory()));
	ASSERT_ERROR(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "libc.so.6"));
	char *image = map_module(&bytes, &mapped_bytes);
	snprintf(path, sizeof path, "%s/here.so", test_directory());
	write_file(path, image, bytes);
	ASSERT_SYS(munmap((void *)((uintptr_t)image / 4096 * 4096), mapped_bytes));
	ASSERT_OK(cuModuleLoad(&module, "here.so"));
	ASSERT_EQ(6, run_read_counter(module));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: the record of a kernel is checked before it is believed. */
TEST(kernels_of_other_versions_are_refused)
{
	CUmodule module;
	CUfunction function;

	make_context();
	ASSERT_OK(cuModuleLoad(&module, module_path()));
	ASSERT_ERROR(CUDA_ERROR_INVALID_IMAGE, cuModuleGetFunction(&function, module, "from_the_future"));
	ASSERT_CONTAINS("version", cn_last_error());
	ASSERT_OK(cuCtxDestroy(context));
}

enum { RACES = 200 };

struct race {
	CUmodule module;
	CUfunction function;
	CUdeviceptr memory;
};

static void *launch_until_refused(void *data)
{
	struct race *race = data;
	size_t bytes = sizeof race->memory;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &race->memory, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUresult result;

	ASSERT_OK(cuCtxSetCurrent(context));
	do /* to find the arguments in a buffer, the kernel's record is read, which is in the module */
		result = cuLaunchKernel(race->function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
	while (!result);
	ASSERT_EQ(CUDA_ERROR_INVALID_HANDLE, result);
	return NULL;
}

/* Goal: a launch and an unload in two threads: either the kernel runs or the launch is refused. */
TEST(unload_against_launch, .timeout_ms = 60000)
{
	struct race race;
	pthread_t thread;

	make_context();
	race.memory = make_memory(sizeof(int));
	for (int i = 0; i < RACES / HARNESS_SLOWDOWN; i++) {
		ASSERT_OK(cuModuleLoad(&race.module, module_path()));
		ASSERT_OK(cuModuleGetFunction(&race.function, race.module, "read_counter"));
		ASSERT_EQ(0, pthread_create(&thread, NULL, launch_until_refused, &race));
		ASSERT_OK(cuModuleUnload(race.module));
		ASSERT_EQ(0, pthread_join(thread, NULL));
	}
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Host functions ---------------------------------------------------------------------------------------------- */

static void call_cuda(void *data)
{
	CUdeviceptr memory;

	*(CUresult *)data = cuMemAlloc(&memory, 64);
}

/* Goal: a host function may not allocate, and the thread that called it may again afterwards. */
TEST(host_functions_may_not_call_cuda)
{
	CUresult first = CUDA_SUCCESS, second = CUDA_SUCCESS;

	make_context();
	ASSERT_OK(cuLaunchHostFunc(stream, call_cuda, &first));
	ASSERT_OK(cuLaunchHostFunc(NULL, call_cuda, &second));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, first);
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, second);
	ASSERT_OK(cuMemFree(make_memory(64)));
	ASSERT_OK(cuCtxDestroy(context));
}
