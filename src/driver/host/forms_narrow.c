/* SPDX-License-Identifier: MIT */
/*
 * The forms of functions from before CUDA 3.2, whose addresses and sizes have 32 bits.
 *
 * They are for contexts that the first cuCtxCreate() made, and there are none (see forms.c). In another context the
 * driver answers CUDA_ERROR_INVALID_CONTEXT to all of them, and so does this. Outputs are set to 0.
 */
#include "driver/host/objects.h"

/* No header declares these. */
#define FORM(function, parameters)    \
	CUresult function parameters; \
	CUresult function parameters

static CUresult refuse(void)
{
	struct cn_home home;
	return cn_context_enter(&home)
		       ?: cn_error(CUDA_ERROR_INVALID_CONTEXT,
				   "a function with 32-bit addresses (CUDA before 3.2) was called in a "
				   "context of a later version");
}

/* Refused, with two outputs cleared; either may be NULL. */
static CUresult refuse_pair(unsigned int *one, unsigned int *other)
{
	if (one)
		*one = 0;
	if (other)
		*other = 0;
	return refuse();
}

FORM(host_cuDeviceTotalMem, (unsigned int *ret_bytes, CUdevice ordinal))
{
	size_t bytes = 0;
	CUresult result = host_cuDeviceTotalMem_v2(ret_bytes ? &bytes : NULL, ordinal);

	if (!result && ret_bytes)
		*ret_bytes = bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
	return result;
}

FORM(host_cuMemGetInfo, (unsigned int *free_bytes, unsigned int *total_bytes))
{
	return refuse_pair(free_bytes, total_bytes);
}

FORM(host_cuMemAlloc, (unsigned int *pointer, unsigned int bytes))
{
	(void)bytes;
	return refuse_pair(pointer, NULL);
}

FORM(host_cuMemAllocPitch,
     (unsigned int *pointer, unsigned int *pitch, unsigned int width, unsigned int rows, unsigned int element_bytes))
{
	(void)width, (void)rows, (void)element_bytes;
	return refuse_pair(pointer, pitch);
}

FORM(host_cuMemFree, (unsigned int pointer))
{
	CUresult result = refuse();

	/* Without any context, freeing nothing succeeds. */
	if (result == CUDA_ERROR_INVALID_CONTEXT && !pointer && !cn_context_thread.depth)
		return CUDA_SUCCESS;
	return result;
}

FORM(host_cuMemGetAddressRange, (unsigned int *base, unsigned int *bytes, unsigned int pointer))
{
	(void)pointer;
	return refuse_pair(base, bytes);
}

FORM(host_cuMemAllocHost, (void **pointer, unsigned int bytes))
{
	(void)bytes;
	if (pointer)
		*pointer = NULL;
	return refuse();
}

FORM(host_cuMemHostGetDevicePointer, (unsigned int *ret_pointer, void *pointer, unsigned int flags))
{
	(void)pointer, (void)flags;
	return refuse_pair(ret_pointer, NULL);
}

FORM(host_cuModuleGetGlobal, (unsigned int *pointer, unsigned int *bytes, CUmodule module, const char *name))
{
	(void)module, (void)name;
	return refuse_pair(pointer, bytes);
}

/* The arguments are not checked, whatever they are. */
#define NARROW(symbol)           \
	FORM(symbol, (void))     \
	{                        \
		return refuse(); \
	}

NARROW(host_cuMemcpyHtoD)
NARROW(host_cuMemcpyDtoH)
NARROW(host_cuMemcpyDtoD)
NARROW(host_cuMemcpyHtoDAsync)
NARROW(host_cuMemcpyDtoHAsync)
NARROW(host_cuMemcpyDtoDAsync)
NARROW(host_cuMemcpy2D)
NARROW(host_cuMemcpy2DUnaligned)
NARROW(host_cuMemcpy2DAsync)
NARROW(host_cuMemcpy3D)
NARROW(host_cuMemcpy3DAsync)
NARROW(host_cuMemsetD8)
NARROW(host_cuMemsetD16)
NARROW(host_cuMemsetD32)
NARROW(host_cuMemsetD2D8)
NARROW(host_cuMemsetD2D16)
NARROW(host_cuMemsetD2D32)
