/* SPDX-License-Identifier: MIT */
/*
 * The headers in C++: they compile, in both modes of the default stream, and have the overloads, templates and default
 * arguments that programs use.
 *
 * works() runs; use() and its kin, with calls that would fail or wait for ever, are only compiled and linked.
 */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaTypedefs.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>

#include <type_traits>

static_assert(std::is_same<CUstream, cudaStream_t>::value, "one stream for both interfaces");
static_assert(std::is_same<CUevent, cudaEvent_t>::value, "one event for both interfaces");
static_assert(std::is_same<CUmemoryPool, cudaMemPool_t>::value, "one pool for both interfaces");
static_assert(std::is_same<CUuuid, cudaUUID_t>::value, "one UUID for both interfaces");
static_assert(std::is_same<PFN_cuMemAllocAsync_v11020, decltype(&cuMemAllocAsync)>::value, "a type for each function");
static_assert(std::is_same<PFN_cuMemcpy_v7000_ptds, decltype(&cuMemcpy)>::value, "also for the thread's own stream");
static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t), "one size of handles for both interfaces");

namespace
{

void kernel(float *values, int count)
{
	values[0] = static_cast<float>(count);
}

size_t shared_of(int threads)
{
	return static_cast<size_t>(threads);
}

/* Typed pointers where the C functions want void **. */
cudaError_t use_typed_memory(cudaMemPool_t pool, cudaStream_t stream)
{
	float *values = nullptr;
	float *alias = nullptr;
	size_t pitch = 0;
	int failed = 0;

	failed |= cudaMalloc(&values, 64);
	failed |= cudaMallocPitch(&values, &pitch, 64, 64);
	failed |= cudaMallocHost(&values, 64);
	failed |= cudaMallocHost(&values, 64, cudaHostAllocPortable);
	failed |= cudaHostAlloc(&values, 64, cudaHostAllocMapped);
	failed |= cudaHostGetDevicePointer(&alias, values, 0);
	failed |= cudaMallocManaged(&values, 64);
	failed |= cudaMallocManaged(&values, 64, cudaMemAttachHost);
	failed |= cudaMallocAsync(&values, 64, stream);
	failed |= cudaMallocAsync(&values, 64, pool, stream);
	failed |= cudaMallocFromPoolAsync(&values, 64, pool, stream);
	return failed ? cudaErrorUnknown : cudaSuccess;
}

/* The same with void *, which must still find the C functions. */
cudaError_t use_untyped_memory(cudaMemPool_t pool, cudaStream_t stream)
{
	void *memory = nullptr;
	int failed = 0;

	failed |= cudaMalloc(&memory, 64);
	failed |= cudaMallocHost(&memory, 64);
	failed |= cudaHostAlloc(&memory, 64, cudaHostAllocDefault);
	failed |= cudaMallocManaged(&memory, 64);
	failed |= cudaMallocAsync(&memory, 64, stream);
	failed |= cudaMallocAsync(&memory, 64, pool, stream);
	failed |= cudaMallocFromPoolAsync(&memory, 64, pool, stream);
	failed |= cudaFreeAsync(memory, stream);
	return failed ? cudaErrorUnknown : cudaSuccess;
}

/* Arguments that may be left out. */
cudaError_t use_defaults(void *to, const void *from, cudaStream_t stream, cudaStreamCallback_t callback)
{
	cudaEvent_t event = nullptr;
	int failed = 0;

	failed |= cudaEventCreate(&event);
	failed |= cudaEventCreate(&event, cudaEventDisableTiming | cudaEventInterprocess);
	failed |= cudaEventRecord(event);
	failed |= cudaEventRecordWithFlags(event);
	failed |= cudaStreamWaitEvent(stream, event);
	failed |= cudaMemcpyAsync(to, from, 64, cudaMemcpyDefault);
	failed |= cudaMemcpy2DAsync(to, 8, from, 8, 8, 8, cudaMemcpyDefault);
	failed |= cudaMemcpyPeerAsync(to, 0, from, 0, 64);
	failed |= cudaMemsetAsync(to, 0, 64);
	failed |= cudaMemset2DAsync(to, 8, 0, 8, 8);
	failed |= cudaStreamAddCallback(stream, callback, nullptr, 0);
	return failed ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t use_kernels(cudaStream_t stream)
{
	float *values = nullptr;
	int count = 1;
	int blocks = 0;
	int grid = 0;
	size_t shared = 0;
	const char *name = nullptr;
	void *arguments[] = {&values, &count};
	cudaFuncAttributes attributes = {};
	const void *address = reinterpret_cast<const void *>(kernel);
	int failed = 0;

	failed |= cudaLaunchKernel(kernel, dim3(1), dim3(32, 2), arguments);
	failed |= cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, stream);
	failed |= cudaFuncGetAttributes(&attributes, address);
	failed |= cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
	failed |= cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 64, 0);
	failed |= cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 64, 0, cudaOccupancyDefault);
	failed |= cudaOccupancyAvailableDynamicSMemPerBlock(&shared, address, 1, 64);
	failed |= cudaOccupancyMaxPotentialBlockSize(&grid, &blocks, address);
	failed |= cudaOccupancyMaxPotentialBlockSize(&grid, &blocks, address, 64, 512);
	failed |= cudaOccupancyMaxPotentialBlockSizeWithFlags(&grid, &blocks, address, 0, 0, cudaOccupancyDefault);
	failed |= cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &blocks, address, shared_of);
	failed |= cudaFuncGetName(&name, address);
	return failed ? cudaErrorUnknown : cudaSuccess;
}

CUresult use_driver(CUstream stream, CUcontext context)
{
	CUdeviceptr memory = 0;
	void *function = nullptr;
	int failed = 0;

	failed |= cuMemAlloc(&memory, 64);
	failed |= cuMemcpyDtoDAsync(memory, memory, 64, stream);
	failed |= cuStreamWaitValue32(stream, memory, 1, CU_STREAM_WAIT_VALUE_GEQ);
	failed |= cuGetProcAddress("cuMemAlloc", &function, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
	failed |= cuCtxPushCurrent(context);
	return failed ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

bool use(cudaStream_t stream)
{
	return use_typed_memory(nullptr, stream) || use_untyped_memory(nullptr, stream) ||
	       use_defaults(nullptr, nullptr, stream, nullptr) || use_kernels(stream) || use_driver(stream, nullptr);
}

/* What the overloads are given arrives at the C functions, and comes back. */
bool works()
{
	const int sent[4] = {1, 2, 3, 4};
	int received[4] = {};
	int *device = nullptr;
	int *pinned = nullptr;
	int *alias = nullptr;
	int *managed = nullptr;
	cudaEvent_t event = nullptr;
	int failed = 0;

	failed |= cudaMalloc(&device, sizeof sent);
	failed |= cudaMallocHost(&pinned, sizeof sent, cudaHostAllocMapped);
	failed |= cudaHostGetDevicePointer(&alias, pinned, 0);
	failed |= cudaMallocManaged(&managed, sizeof sent);
	failed |= cudaMemcpy(device, sent, sizeof sent, cudaMemcpyHostToDevice);
	failed |= cudaMemcpyAsync(pinned, device, sizeof sent, cudaMemcpyDefault);
	failed |= cudaMemcpyAsync(managed, alias, sizeof sent, cudaMemcpyDefault);
	failed |= cudaEventCreate(&event, cudaEventDisableTiming);
	failed |= cudaEventRecord(event);
	failed |= cudaEventSynchronize(event);
	failed |= cudaMemcpy(received, managed, sizeof received, cudaMemcpyDefault);
	failed |= cudaEventDestroy(event);
	failed |= cudaFree(managed);
	failed |= cudaFreeHost(pinned);
	failed |= cudaFree(device);
	return !failed && received[0] == sent[0] && received[3] == sent[3];
}

} // namespace

int main(int argc, char **)
{
	uint3 place = make_uint3(1, 2, 3);
	dim3 grid(place);
	dim3 line(4);

	if (argc > 1000)
		return use(cudaStreamPerThread);
	return grid.z == 3 && line.y == 1 && line.z == 1 && works() ? 0 : 1;
}
