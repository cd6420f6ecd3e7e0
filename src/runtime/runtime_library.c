/* SPDX-License-Identifier: MIT */
/*
 * Libraries and kernels of the runtime API: the driver's own, under other names. Handles are the driver's.
 */
#include "runtime/runtime.h"

#include "base/guard.h"

_Static_assert(sizeof(enum cudaJitOption) == sizeof(CUjit_option), "options of one size");
_Static_assert(sizeof(enum cudaLibraryOption) == sizeof(CUlibraryOption), "options of one size");

cudaError_t runtime_cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
					void **jitOptionsValues, unsigned int numJitOptions,
					enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
					unsigned int numLibraryOptions)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result
					: cuLibraryLoadData(library, code, (CUjit_option *)(void *)jitOptions,
							    jitOptionsValues, numJitOptions,
							    (CUlibraryOption *)(void *)libraryOptions,
							    libraryOptionValues, numLibraryOptions));
}

cudaError_t runtime_cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName,
					    enum cudaJitOption *jitOptions, void **jitOptionsValues,
					    unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
					    void **libraryOptionValues, unsigned int numLibraryOptions)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result
					: cuLibraryLoadFromFile(library, fileName, (CUjit_option *)(void *)jitOptions,
								jitOptionsValues, numJitOptions,
								(CUlibraryOption *)(void *)libraryOptions,
								libraryOptionValues, numLibraryOptions));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result : cuLibraryUnload(library));
}

cudaError_t runtime_cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result : cuLibraryGetKernel(pKernel, library, name));
}

/* A variable in the thread's context, by either of the driver's calls. */
static cudaError_t get_variable(__typeof__(cuLibraryGetGlobal) *get, void **dptr, size_t *bytes, cudaLibrary_t library,
				const char *name)
{
	CUdeviceptr address = 0;
	CUresult result = cn_runtime_context();

	if (!result)
		result = get(dptr ? &address : NULL, bytes, library, name);
	if (!result && dptr)
		*dptr = (void *)(uintptr_t)address;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
	return get_variable(cuLibraryGetGlobal, dptr, bytes, library, name);
}

cudaError_t runtime_cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
	return get_variable(cuLibraryGetManaged, dptr, bytes, library, name);
}

cudaError_t runtime_cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result : cuLibraryGetKernelCount(count, lib));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result : cuLibraryEnumerateKernels(kernels, numKernels, lib));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(result ? result
					: cuKernelSetAttribute((CUfunction_attribute)attr, value, kernel, device));
}
