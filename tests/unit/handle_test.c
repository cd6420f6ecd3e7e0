/* SPDX-License-Identifier: MIT */
/*
 * Handles as a program sees them: numbers that it may store in a signed integer, and in which it may use the low bits.
 */
#include "driver/host/kernel.h"
#include "share.h"
#include "vmm.h"

#include "cenote/cuda_runtime_api.h"

static void nothing(const cenote_thread *at, void **args)
{
	(void)at;
	(void)args;
}
CENOTE_KERNEL(nothing);

SETUP
{
	CUmemoryPool standard;

	share_start();
	ASSERT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
}

static const char *module_path(void)
{
	static char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);

	ASSERT_SYS(length);
	path[length] = 0;
	snprintf(strrchr(path, '/') + 1, 64, "launch_module.so");
	return path;
}

static void check(const char *what, const void *handle)
{
	intptr_t number = (intptr_t)handle;

	if (number <= (intptr_t)CU_STREAM_PER_THREAD || number >= (intptr_t)1 << 47 || number % 8)
		FAIL("a %s is %p", what, handle);
}

TEST(every_handle_looks_like_a_pointer)
{
	CUcontext primary = vmm_start(0), context;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUfunction function, own;
	CUmemoryPool standard;
	cudaStream_t runtime_stream;
	cudaEvent_t runtime_event;

	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	ASSERT_OK(cuModuleLoad(&module, module_path()));
	ASSERT_OK(cuModuleGetFunction(&function, module, "read_counter"));
	ASSERT_OK(cn_function_of_address((const void *)(uintptr_t)nothing, &own));
	ASSERT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
	ASSERT_OK(cudaStreamCreate(&runtime_stream));
	ASSERT_OK(cudaEventCreate(&runtime_event));
	CUmemGenericAllocationHandle memory = vmm_create(VMM_GRAIN);
	CUmemoryPool pool = share_pool(0);
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);

	check("primary context", primary);
	check("context", context);
	check("stream", stream);
	check("event", event);
	check("module", module);
	check("function of a module", function);
	check("function of the program", own);
	check("physical allocation", (const void *)(uintptr_t)memory);
	check("pool", pool);
	check("default pool", standard);
	check("imported pool", imported);
	check("stream of the runtime", runtime_stream);
	check("event of the runtime", runtime_event);

	ASSERT_OK(cuMemPoolDestroy(imported));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemRelease(memory));
	ASSERT_OK(cuCtxDestroy(context));
	close(descriptor);
}
