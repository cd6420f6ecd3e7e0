/* SPDX-License-Identifier: MIT */
/*
 * The objects that calls.h speaks of, made in a context that is good.
 */
#include "calls.h"

const char *objects_module_path(void)
{
	const char *path = getenv("CONFORMANCE_MODULE");

	return path ? path : "kernels.ptx";
}

void CUDA_CB objects_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
}

void CUDA_CB objects_function(void *data)
{
	(void)data;
}

void objects_make(struct objects *made)
{
	NEED(cuCtxGetCurrent(&made->context));
	NEED(cuCtxCreate(&made->victim_context, NULL, 0, 0));
	NEED(cuCtxPopCurrent(NULL));
	NEED(cuStreamCreate(&made->stream, 0));
	NEED(cuStreamCreate(&made->victim_stream, 0));
	NEED(cuEventCreate(&made->event, 0));
	NEED(cuEventCreate(&made->later_event, 0));
	NEED(cuEventCreate(&made->victim_event, 0));
	NEED(cuEventRecord(made->event, made->stream));
	NEED(cuEventRecord(made->later_event, made->stream));
	NEED(cuModuleLoad(&made->module, objects_module_path()));
	NEED(cuModuleLoad(&made->victim_module, objects_module_path()));
	NEED(cuModuleGetFunction(&made->function, made->module, "nothing"));
	NEED(cuMemAlloc(&made->memory, 4096));
	NEED(cuMemAlloc(&made->victim_memory, 4096));
	NEED(cuMemAllocManaged(&made->managed, 65536, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAllocHost(&made->host, 4096));
	NEED(cuMemAllocHost(&made->victim_host, 4096));
	made->registered = aligned_alloc(4096, 4096);
	made->unregistered = aligned_alloc(4096, 4096);
	made->pageable = malloc(4096);
	NEED(cuMemHostRegister(made->registered, 4096, 0));
	NEED(cuMemsetD8(made->memory, 0, 4096));
	NEED(cuCtxSynchronize());
}

void objects_outputs(const struct objects *of, struct outputs *ret_outputs)
{
	CUDA_MEMCPY2D *copy = &ret_outputs->rectangle;

	memset(ret_outputs, 0, sizeof *ret_outputs);
	ret_outputs->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ret_outputs->mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	ret_outputs->runtime_mode = cudaStreamCaptureModeGlobal;
	copy->srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy->srcDevice = of->memory;
	copy->srcPitch = 64;
	copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy->dstDevice = of->memory + 1024;
	copy->dstPitch = 64;
	copy->WidthInBytes = 16;
	copy->Height = 2;
}
