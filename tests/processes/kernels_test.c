/* SPDX-License-Identifier: MIT */
/*
 * Kernels in PTX, through the public interface: modules, libraries, variables, attributes.
 */
#include "kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What the library keeps for the life of a process: its file for device memory. */
SETUP
{
	CUcontext context = kernels_start();
	CUdeviceptr memory = kernels_memory(1 << 20);

	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuCtxDestroy(context));
}

static void scale(CUfunction function, CUstream stream, CUdeviceptr memory, unsigned count, unsigned factor)
{
	void *params[] = {&memory, &count, &factor};

	ASSERT_OK(cuLaunchKernel(function, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

static void expect_scaled(CUdeviceptr memory, unsigned count, unsigned factor)
{
	unsigned *values = malloc(count * sizeof *values);

	ASSERT(values);
	ASSERT_OK(cuMemcpyDtoH(values, memory, count * sizeof *values));
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(i * factor, values[i]);
	free(values);
}

static unsigned variable(CUmodule module, const char *name, size_t expected_bytes)
{
	CUdeviceptr pointer = 0;
	size_t bytes = 0;

	ASSERT_OK(cuModuleGetGlobal(&pointer, &bytes, module, name));
	ASSERT_EQ(expected_bytes, bytes);
	return kernels_read(pointer);
}

/* Goal: PTX is a module like any other, from memory and from a file. */
TEST(a_module_of_ptx_is_launched)
{
	enum { COUNT = 10000 };
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(kernels_text), from_file;
	CUdeviceptr memory = kernels_memory(COUNT * 4);
	const char *path = test_path("kernels.ptx");
	FILE *file = fopen(path, "w");

	scale(kernels_find(module, "scale"), NULL, memory, COUNT, 3);
	expect_scaled(memory, COUNT, 3);
	ASSERT(file && fputs(kernels_text, file) >= 0 && !fclose(file));
	ASSERT_OK(cuModuleLoad(&from_file, path));
	scale(kernels_find(from_file, "scale"), NULL, memory, COUNT, 7);
	expect_scaled(memory, COUNT, 7);
	ASSERT_OK(cuModuleUnload(from_file));
	ASSERT_OK(cuModuleUnload(module));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: each load has variables of its own, which are device memory as long as the module is loaded. */
TEST(variables_are_device_memory_of_the_module)
{
	CUcontext context = kernels_start();
	CUmodule first = kernels_load(kernels_text), second = kernels_load(kernels_text);
	CUdeviceptr word = 0, base = 0;
	size_t bytes = 0;
	int type = 0;

	ASSERT_OK(cuLaunchKernel(kernels_find(first, "count"), 4, 1, 1, 8, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_EQ(33, variable(first, "word", 16));
	ASSERT_EQ(1, variable(second, "word", 16));
	ASSERT_EQ(77, variable(first, "constant", 8));
	ASSERT_OK(cuModuleGetGlobal(&word, &bytes, first, "word"));
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, word + 4));
	ASSERT(base == word && bytes == 16);
	ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word));
	ASSERT_EQ(CU_MEMORYTYPE_DEVICE, type);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(word));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&word, &bytes, first, "absent"));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(&word, &bytes, first, "scale"));
	ASSERT_OK(cuModuleUnload(first));
	ASSERT_EQ(1, variable(second, "word", 16));
	ASSERT_OK(cuCtxDestroy(context)); /* takes the other with it */
}

/* Goal: what a kernel says of itself comes from its code. */
TEST(attributes_come_from_the_code)
{
	static const char text[] =
		PTX_HEAD ".visible .entry bounded(.param .u8 a, .param .u64 b, .param .u16 c)\n"
			 ".maxntid 64, 1, 1\n"
			 "{ .shared .align 4 .b8 room[1000]; .local .align 8 .b8 own[48];\n"
			 ".reg .u32 %r<3>; .reg .u64 %d<3>;\n"
			 "mov.u32 %r1, 5; st.shared.u32 [room], %r1; st.local.u32 [own], %r1; ret; }\n";
	const struct {
		CUfunction_attribute attribute;
		int least, most;
	} expected[] = {
		{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 64, 64},
		{CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1000, 1024},
		{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 48, 64},
		{CU_FUNC_ATTRIBUTE_NUM_REGS, 1, 255},
		{CU_FUNC_ATTRIBUTE_PTX_VERSION, 75, 75},
		{CU_FUNC_ATTRIBUTE_BINARY_VERSION, 90, 90},
		{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48 * 1024 - 1024, 48 * 1024 - 1000},
	};
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(text), found = NULL;
	CUfunction function = kernels_find(module, "bounded");
	CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_MAX;
	size_t offset = 99, bytes = 99;
	unsigned char a = 0;
	unsigned short c = 0;
	unsigned long long b = 0;
	void *params[] = {&a, &b, &c};

	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
		int value = -1;
		ASSERT_OK(cuFuncGetAttribute(&value, expected[i].attribute, function));
		ASSERT(value >= expected[i].least && value <= expected[i].most);
	}
	ASSERT_OK(cuFuncGetParamInfo(function, 2, &offset, &bytes));
	ASSERT(offset == 16 && bytes == 2);
	ASSERT_OK(cuFuncGetParamInfo(function, 1, &offset, NULL));
	ASSERT_EQ(8, offset);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 3, &offset, &bytes));
	ASSERT_OK(cuFuncGetModule(&found, function));
	ASSERT(found == module);
	ASSERT_OK(cuFuncIsLoaded(&state, function));
	ASSERT_EQ(CU_FUNCTION_LOADING_STATE_LOADED, state);
	ASSERT_OK(cuFuncLoad(function));
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, NULL, params, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a kernel that says how large its blocks are is launched with those, and with no others. */
TEST(a_kernel_says_how_large_its_blocks_are)
{
	static const char text[] = PTX_HEAD ".visible .entry count(.param .u64 out)\n.reqntid 8, 4, 1\n"
					    "{ .reg .u64 %d<2>; .reg .u32 %r<2>; ld.param.u64 %d1, [out];\n"
					    "atom.global.add.u32 %r1, [%d1], 1; ret; }\n";
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(text), "count");
	CUdeviceptr memory = kernels_memory(4);
	void *params[] = {&memory};

	ASSERT_OK(cuLaunchKernel(function, 2, 1, 1, 8, 4, 1, 0, NULL, params, NULL));
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)); /* "as it says itself" */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	ASSERT_EQ(96, kernels_read(memory));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: the kernels of a module and of a library can be listed. */
TEST(kernels_are_listed)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(kernels_text);
	CUlibrary library = NULL;
	CUfunction functions[8] = {NULL};
	CUkernel kernels[8] = {NULL};
	unsigned count = 0;
	const char *name = NULL;

	ASSERT_OK(cuModuleGetFunctionCount(&count, module));
	ASSERT_EQ(4, count);
	ASSERT_OK(cuModuleEnumerateFunctions(functions, 8, module));
	ASSERT(functions[3] && !functions[4] && functions[0] == kernels_find(module, "scale"));
	ASSERT_OK(cuFuncGetName(&name, functions[1]));
	ASSERT_STREQ("count", name);
	ASSERT_OK(cuLibraryLoadData(&library, kernels_text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuLibraryGetKernelCount(&count, library));
	ASSERT_EQ(4, count);
	ASSERT_OK(cuLibraryEnumerateKernels(kernels, 3, library));
	ASSERT(kernels[2] && !kernels[3]);
	ASSERT_OK(cuKernelGetName(&name, kernels[2]));
	ASSERT_STREQ("wait_for", name);
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a library needs no context, and its kernels work in every one, each with variables of its own. */
TEST(a_librarys_kernel_works_in_every_context)
{
	enum { COUNT = 300 };
	CUcontext contexts[2];
	CUlibrary library = NULL, found = NULL;
	CUkernel count_kernel = NULL, scale_kernel = NULL, again = NULL;
	CUfunction functions[2];
	CUdeviceptr word = 0;
	size_t bytes = 0;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuLibraryLoadData(&library, kernels_text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuLibraryGetKernel(&count_kernel, library, "count"));
	ASSERT_OK(cuLibraryGetKernel(&scale_kernel, library, "scale"));
	ASSERT_OK(cuLibraryGetKernel(&again, library, "scale"));
	ASSERT(again == scale_kernel);
	ASSERT_OK(cuKernelGetLibrary(&found, scale_kernel));
	ASSERT(found == library);
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuKernelGetFunction(&functions[0], scale_kernel));
	for (unsigned i = 0; i < 2; i++) {
		contexts[i] = kernels_start();
		CUdeviceptr memory = kernels_memory(COUNT * 4);
		ASSERT_OK(cuLaunchKernel((CUfunction)count_kernel, i + 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		ASSERT_OK(cuLibraryGetGlobal(&word, &bytes, library, "word"));
		ASSERT_EQ(16, bytes);
		ASSERT_EQ(2 + i, kernels_read(word));
		scale((CUfunction)scale_kernel, NULL, memory, COUNT, 5 + i);
		expect_scaled(memory, COUNT, 5 + i);
		ASSERT_OK(cuKernelGetFunction(&functions[i], scale_kernel));
	}
	ASSERT(functions[0] != functions[1]);
	ASSERT_OK(cuCtxSetCurrent(contexts[0]));
	ASSERT_OK(cuLibraryGetGlobal(&word, &bytes, library, "word"));
	ASSERT_EQ(2, kernels_read(word));
	ASSERT_OK(cuCtxDestroy(contexts[1]));
	ASSERT_OK(cuLaunchKernel((CUfunction)count_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_EQ(3, kernels_read(word));
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuLaunchKernel((CUfunction)count_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuLaunchKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, NULL, (void *[3]){NULL}, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
	ASSERT_OK(cuCtxDestroy(contexts[0]));
}

/* Goal: a library's module is its own in the context, and goes with the library alone. */
TEST(a_library_is_a_module_of_the_context)
{
	CUcontext context = kernels_start();
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUmodule module = NULL, again = NULL;
	CUfunction function = NULL;

	ASSERT_OK(cuLibraryLoadData(&library, kernels_text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuLibraryGetModule(&module, library));
	ASSERT_OK(cuLibraryGetModule(&again, library));
	ASSERT(module && module == again);
	ASSERT_OK(cuLibraryGetKernel(&kernel, library, "count"));
	ASSERT_OK(cuKernelGetFunction(&function, kernel));
	ASSERT(function == kernels_find(module, "count"));
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cuModuleUnload(module));
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "count"));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: occupancy counts blocks that .maxntid forbids, as the driver does; a block that it proposes can be launched. */
TEST(occupancy_proposes_a_block_that_can_be_launched)
{
	static const char text[] = PTX_HEAD ".visible .entry bounded() .maxntid 64, 1, 1 { ret; }\n";
	CUcontext context = kernels_start();
	CUfunction function = kernels_find(kernels_load(text), "bounded");
	int blocks = 0, threads = 0;

	ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0));
	ASSERT_EQ(16, blocks);
	ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, NULL, 0, 0));
	ASSERT_EQ(64, threads);
	ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, NULL, 0, 32));
	ASSERT_EQ(32, threads);
	ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, (unsigned)threads, 1, 1, 0, NULL, NULL, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: what is set for a kernel on a device counts in its contexts there, those to come among them. */
TEST(a_kernels_attributes_are_set_for_a_device)
{
	CUcontext context = kernels_start();
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUfunction function = NULL;
	int value = 0;

	ASSERT_OK(cuLibraryLoadData(&library, kernels_text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuLibraryGetKernel(&kernel, library, "count"));
	ASSERT_OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
	ASSERT_EQ(48 * 1024, value);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 100 * 1024, NULL, NULL, NULL));
	ASSERT_OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * 1024, kernel, 0));
	ASSERT_OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 100 * 1024, NULL, NULL, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxDestroy(context));
	context = kernels_start();
	ASSERT_OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 100 * 1024, NULL, NULL, NULL));
	ASSERT_OK(cuKernelGetFunction(&function, kernel));
	ASSERT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	ASSERT_EQ(100 * 1024, value);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE,
		     cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)kernel));
	ASSERT(strstr(cenote_last_error(), "cuKernelGetAttribute()"));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 63));
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a managed variable is managed memory, and one for all contexts. */
TEST(a_managed_variable_is_the_same_everywhere)
{
	static const char text[] =
		PTX_HEAD ".visible .global .align 4 .u32 before = 1;\n"
			 ".visible .global .attribute(.managed) .align 4 .u32 shared_word = 5;\n"
			 ".visible .global .align 4 .u32 behind = 1;\n"
			 ".visible .entry bump()\n"
			 "{ .reg .u32 %r<4>; atom.global.add.u32 %r1, [shared_word], 1;\n"
			 "atom.global.add.u32 %r2, [before], 1; atom.global.add.u32 %r3, [behind], 1;\n"
			 "ret; }\n";
	CUcontext contexts[2];
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUdeviceptr managed = 0, global = 0;
	size_t bytes = 0;
	int is_managed = 0;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuLibraryGetManaged(&managed, &bytes, library, "shared_word"));
	ASSERT(bytes == 4 && *(unsigned *)managed == 5);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&global, &bytes, library, "before"));
	ASSERT_OK(cuLibraryGetKernel(&kernel, library, "bump"));
	for (unsigned i = 0; i < 2; i++) {
		contexts[i] = kernels_start();
		ASSERT_OK(cuLibraryGetManaged(&managed, NULL, library, "shared_word"));
		ASSERT_EQ(5 + i, kernels_read(managed));
		ASSERT_OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_EQ(6 + i, *(unsigned *)managed);
		ASSERT_OK(cuLibraryGetGlobal(&global, &bytes, library, "shared_word"));
		ASSERT(global == managed && bytes == 4);
		/* Its neighbours are the context's own. */
		ASSERT_OK(cuLibraryGetGlobal(&global, &bytes, library, "before"));
		ASSERT_EQ(2, kernels_read(global));
		ASSERT_OK(cuLibraryGetGlobal(&global, &bytes, library, "behind"));
		ASSERT_EQ(2, kernels_read(global));
	}
	ASSERT_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
	ASSERT(is_managed);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(managed));
	ASSERT_OK(cuLibraryUnload(library));
	ASSERT_OK(cuCtxDestroy(contexts[1]));
	ASSERT_OK(cuCtxDestroy(contexts[0]));
}

/* Goal: what is no PTX, or PTX that does not run here, is refused with a sentence that says where. */
TEST(wrong_ptx_is_refused)
{
	static const char broken[] = PTX_HEAD ".visible .entry k()\n{\n frobnicate.u32 %r1;\n ret;\n}\n";
	static const char absent[] = PTX_HEAD ".visible .entry k(\n";
	CUcontext context = kernels_start();
	CUmodule module = NULL;
	CUlibrary library = NULL;
	CUfunction function = NULL;
	char log[256] = "x";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};

	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, absent, 2, options, values));
	ASSERT(strstr(log, "PTX, line "));
	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuLibraryLoadData(&library, absent, NULL, NULL, 0, NULL, NULL, 0));
	ASSERT_OK(cuModuleLoadData(&module, broken));
	CUresult result = cuModuleGetFunction(&function, module, "k");
	ASSERT(result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_PTX);
	ASSERT(strstr(cenote_last_error(), "line 6") && strstr(cenote_last_error(), "frobnicate"));
	ASSERT(!function);
	ASSERT_OK(cuCtxDestroy(context));
}

ROLE(without_the_library)
{
	CUcontext context = kernels_start();
	CUdeviceptr memory = kernels_memory(64);
	CUmodule module = NULL;

	ASSERT_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, cuModuleLoadData(&module, kernels_text));
	ASSERT_CONTAINS("libcenote-ptx.so.1", cenote_last_error());
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuCtxDestroy(context));
}

/* Copy a library of the build into the test's folder. */
static void copy_library(const char *name)
{
	char from[4096], command[9000];

	snprintf(from, sizeof from, "%s/src/%s", getenv("CENOTE_TEST_BUILD"), name);
	snprintf(command, sizeof command, "cp '%s' '%s'", from, test_path(name));
	ASSERT_EQ(0, system(command));
}

/* Goal: without the library that runs PTX everything else works, and the sentence names what is missing. */
TEST(the_library_that_runs_ptx_may_be_absent)
{
	if (!getenv("CENOTE_TEST_BUILD"))
		SKIP("CENOTE_TEST_BUILD does not say where the libraries are");
	copy_library("libcenote-driver.so.1");
	copy_library("libcenote.so.1");
	ASSERT_SYS(setenv("LD_LIBRARY_PATH", test_directory(), 1));
	peer_wait(peer_start("without_the_library"));
}
