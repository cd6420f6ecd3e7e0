# SPDX-License-Identifier: MIT
"""
The programs that command_test.py compiles and runs.
"""

DRIVER_PROGRAM = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
CUresult cuArrayCreate_v2(void *array, const void *description);
int main(void)
{
	CUcontext context;
	CUdeviceptr memory;
	unsigned char byte = 0;
	int count = 0;
	void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int results = cuInit(0) | cuDeviceGetCount(&count) | cuCtxCreate(&context, NULL, 0, 0) |
		      cuMemAlloc(&memory, 4096) | cuMemsetD8(memory, 0xa5, 4096) | cuMemcpyDtoH(&byte, memory, 1);
	printf("results %d, devices %d, byte %x, array %d\n", results, count, byte, cuArrayCreate_v2(NULL, NULL));
	printf("found %d, mark %d\n", dlsym(self, "cuMemAlloc_v2") != NULL, dlsym(self, "cenote_dropin_mark") != NULL);
	return 0;
}
"""

RUNTIME_PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, void *);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
cudaError_t cudaMallocArray(void *, const void *, size_t, size_t, unsigned);
void __cudaUnregisterFatBinary(void **);
cudaError_t __cudaGetKernel(void **, const void *);
cudaError_t __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, cudaStream_t);
static void kernel(void)
{
}
static int launch_by_handle(const void *function, dim3 grid, dim3 block, void **args)
{
	void *handle = NULL;
	int result = __cudaGetKernel(&handle, function);
	return result ? result : __cudaLaunchKernel(handle, grid, block, args, 0, NULL);
}
int main(void)
{
	void *memory = NULL, *args[] = {&memory};
	unsigned char byte = 0;
	dim3 grid = {1, 1, 1}, block = {3, 1, 1};
	size_t shared = 7;
	cudaStream_t stream = cudaStreamLegacy;
	void **binary = __cudaRegisterFatBinary(&grid);
	__cudaRegisterFunction(binary, (char *)kernel, "kernel", "kernel", -1, 0, 0, 0, 0, 0);
	int results = cudaMalloc(&memory, 64) | cudaMemset(memory, 0x5a, 64) |
		      cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost);
	printf("results %d, byte %x\n", results, byte);
	results = __cudaPushCallConfiguration(grid, block, 5, NULL);
	results |= __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
	printf("results %d, block %u, shared %zu, stream %d\n", results, block.x, shared, stream != NULL);
	printf("empty %d\n", __cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess);
	printf("launch %d\n", cudaLaunchKernel((void *)kernel, grid, block, args, 0, NULL));
	printf("by handle %d\n", launch_by_handle((void *)kernel, grid, block, args));
	__cudaUnregisterFatBinary(binary);
	printf("unloaded %d\n", cudaLaunchKernel((void *)kernel, grid, block, args, 0, NULL));
	cudaGetLastError();
	results = cudaMallocArray(NULL, NULL, 0, 0, 0);
	printf("array %d, last error %d\n", results, cudaGetLastError());
	return 0;
}
"""


OPENING_PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
typedef int function(void *, void *, void *, void *);
static function *find(void *library, const char *name)
{
	return (function *)dlsym(library, name);
}
int main(void)
{
	void *context;
	int results = 0;
	for (int i = 0; i < 2; i++) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!library)
			return puts(dlerror());
		results |= find(library, "cuInit")(0, 0, 0, 0);
		results |= find(library, "cuCtxCreate_v4")(&context, 0, 0, 0);
		results |= find(library, "cuLaunchHostFunc")(0, puts, "called", 0);
		results |= find(library, "cuCtxSynchronize")(0, 0, 0, 0);
		dlclose(library);
	}
	printf("results %d, stays %d\n", results, dlopen("libcenote-driver.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
	return 0;
}
"""


# A process that others can find: it has a handle of an event, and waits.
NAMED_PROCESS = r"""
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, event, handle = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(64)
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuEventCreate(ctypes.byref(event), 2 | 4)
assert not cuda.cuIpcGetEventHandle(handle, event)
print(flush=True)
sys.stdin.read()
"""

# Words as they stand on a line, the last one to be completed.
COMPLETE = r"""
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_cenote
printf '%s\n' "${COMPREPLY[@]}"
"""
