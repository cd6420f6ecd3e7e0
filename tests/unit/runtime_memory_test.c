/* SPDX-License-Identifier: MIT */
/*
 * The runtime API, second half: memory, copies, streams, launches, and the calls for per-thread default streams.
 */
#include "cenote/cenote.h"
#include "cenote/cuda.h"
#include "cenote/cuda_runtime_api.h"
#include "harness.h"
#include "runtime.h"

/* The symbols of programs whose default stream is the thread's own. */
extern __typeof__(cudaMemcpy) cudaMemcpy_ptds;
extern __typeof__(cudaMemset) cudaMemset_ptds;
extern __typeof__(cudaMemcpy2D) cudaMemcpy2D_ptds;
extern __typeof__(cudaMemset2D) cudaMemset2D_ptds;
extern __typeof__(cudaMemcpyAsync) cudaMemcpyAsync_ptsz;
extern __typeof__(cudaStreamGetId) cudaStreamGetId_ptsz;
extern __typeof__(cudaStreamQuery) cudaStreamQuery_ptsz;
extern __typeof__(cudaEventRecord) cudaEventRecord_ptsz;
extern __typeof__(cudaLaunchKernel) cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchHostFunc) cudaLaunchHostFunc_ptsz;

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* Goal: nothing can be allocated and freed. */
TEST(nothing_is_allocated_and_freed)
{
	void *pointer = &pointer;
	size_t pitch = 1;

	ASSERT_OK(cudaMalloc(&pointer, 0));
	ASSERT(pointer == NULL);
	ASSERT_OK(cudaFree(NULL));
	pointer = &pitch;
	ASSERT_OK(cudaMallocHost(&pointer, 0));
	ASSERT(pointer == NULL);
	ASSERT_OK(cudaFreeHost(NULL));
	pointer = &pitch;
	ASSERT_OK(cudaMallocPitch(&pointer, &pitch, 0, 10));
	ASSERT(pointer == NULL);
	pointer = &pitch;
	ASSERT_OK(cudaMallocManaged(&pointer, 0, cudaMemAttachGlobal));
	ASSERT(pointer == NULL);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMalloc(NULL, 64));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMallocHost(NULL, 64));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMallocPitch(NULL, &pitch, 64, 64));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFree(&pitch));
	pointer = &pitch;
	ASSERT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&pointer, SIZE_MAX / 4));
	ASSERT(pointer == NULL);
}

/* Goal: a copy goes in each direction and by the pointers alone; a wrong direction has a code of its own. */
TEST(copies_go_every_way)
{
	char source[64], target[64];
	void *first, *second;
	cudaStream_t stream;

	memset(source, 'x', sizeof source);
	ASSERT_OK(cudaMalloc(&first, sizeof source));
	ASSERT_OK(cudaMalloc(&second, sizeof source));
	ASSERT_OK(cudaStreamCreate(&stream));
	for (int async = 0; async < 2; async++) {
		memset(target, 0, sizeof target);
		if (async) {
			ASSERT_OK(cudaMemcpyAsync(first, source, 64, cudaMemcpyHostToDevice, stream));
			ASSERT_OK(cudaMemcpyAsync(second, first, 64, cudaMemcpyDeviceToDevice, stream));
			ASSERT_OK(cudaMemcpyAsync(target, second, 32, cudaMemcpyDeviceToHost, stream));
			ASSERT_OK(cudaMemcpyAsync(target + 32, second, 32, cudaMemcpyDefault, stream));
			ASSERT_OK(cudaStreamSynchronize(stream));
		} else {
			ASSERT_OK(cudaMemcpy(first, source, 64, cudaMemcpyHostToDevice));
			ASSERT_OK(cudaMemcpy(second, first, 64, cudaMemcpyDeviceToDevice));
			ASSERT_OK(cudaMemcpy(target, second, 32, cudaMemcpyDeviceToHost));
			ASSERT_OK(cudaMemcpy(target + 32, second, 32, cudaMemcpyDefault));
		}
		ASSERT_MEMEQ(source, target, sizeof source);
	}
	memset(target, 0, sizeof target);
	ASSERT_OK(cudaMemcpy(target, source, 64, cudaMemcpyHostToHost));
	ASSERT_MEMEQ(source, target, sizeof source);
	ASSERT_ERROR(cudaErrorInvalidMemcpyDirection, cudaMemcpy(first, source, 64, (enum cudaMemcpyKind)5));
	ASSERT_ERROR(cudaErrorInvalidMemcpyDirection,
		     cudaMemcpyAsync(first, source, 64, (enum cudaMemcpyKind) - 1, stream));
	ASSERT_OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
	ASSERT_OK(cudaMemcpyAsync(NULL, NULL, 0, (enum cudaMemcpyKind)9, stream));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemcpy(NULL, source, 64, cudaMemcpyHostToDevice));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaFree(first));
	ASSERT_OK(cudaFree(second));
}

enum { ROWS = 5, COLUMNS = 7 };

static void fill_and_read_rows(bool async, cudaStream_t stream)
{
	unsigned char rows[ROWS][COLUMNS];
	size_t pitch;
	void *plane;

	ASSERT_OK(cudaMallocPitch(&plane, &pitch, COLUMNS, ROWS));
	ASSERT_GE(pitch, COLUMNS);
	ASSERT_OK(cudaMemset(plane, 0, pitch * ROWS));
	memset(rows, 0x55, sizeof rows);
	if (async) {
		ASSERT_OK(cudaMemset2DAsync(plane, pitch, 0x1aa, COLUMNS, ROWS, stream));
		ASSERT_OK(
			cudaMemcpy2DAsync(rows, COLUMNS, plane, pitch, COLUMNS, ROWS, cudaMemcpyDeviceToHost, stream));
		ASSERT_OK(cudaStreamSynchronize(stream));
	} else {
		ASSERT_OK(cudaMemset2D(plane, pitch, 0x1aa, COLUMNS, ROWS));
		ASSERT_OK(cudaMemcpy2D(rows, COLUMNS, plane, pitch, COLUMNS, ROWS, cudaMemcpyDefault));
	}
	for (int i = 0; i < ROWS * COLUMNS; i++)
		ASSERT_EQ(0xaa, rows[i / COLUMNS][i % COLUMNS]);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		rows[i / COLUMNS][i % COLUMNS] = (unsigned char)i;
	ASSERT_OK(cudaMemcpy2D(plane, pitch, rows, COLUMNS, COLUMNS, ROWS, cudaMemcpyHostToDevice));
	memset(rows, 0, sizeof rows);
	ASSERT_OK(cudaMemcpy2D(rows, COLUMNS, plane, pitch, COLUMNS, ROWS, cudaMemcpyDeviceToHost));
	for (int i = 0; i < ROWS * COLUMNS; i++)
		ASSERT_EQ(i, rows[i / COLUMNS][i % COLUMNS]);
	ASSERT_OK(cudaFree(plane));
}

TEST(rows_are_copied_and_filled)
{
	cudaStream_t stream;
	void *plane;
	size_t pitch;
	char row[16] = {0};

	ASSERT_OK(cudaStreamCreate(&stream));
	fill_and_read_rows(false, stream);
	fill_and_read_rows(true, stream);
	ASSERT_OK(cudaStreamDestroy(stream));

	ASSERT_OK(cudaMallocPitch(&plane, &pitch, 16, 2));
	ASSERT_ERROR(cudaErrorInvalidPitchValue, cudaMemcpy2D(plane, 8, row, 16, 16, 1, cudaMemcpyHostToDevice));
	ASSERT_ERROR(cudaErrorInvalidPitchValue, cudaMemcpy2D(plane, 16, row, 8, 16, 1, cudaMemcpyHostToDevice));
	ASSERT_ERROR(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(plane, 16, row, 16, 16, 1, (enum cudaMemcpyKind)7));
	ASSERT_OK(cudaMemcpy2D(plane, 16, NULL, 16, 0, 1, cudaMemcpyHostToDevice));
	ASSERT_OK(cudaMemset2D(plane, 16, 0, 16, 0));
	ASSERT_OK(cudaFree(plane));
}

TEST(bytes_are_filled)
{
	unsigned char bytes[16];
	void *memory;

	ASSERT_OK(cudaMalloc(&memory, sizeof bytes));
	ASSERT_OK(cudaMemset(memory, 0x101, sizeof bytes)); /* only the low byte counts */
	ASSERT_OK(cudaMemsetAsync((char *)memory + 8, 2, 8, NULL));
	ASSERT_OK(cudaMemcpy(bytes, memory, sizeof bytes, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(i < 8 ? 1 : 2, bytes[i]);
	ASSERT_OK(cudaMemset(NULL, 0, 0));
	ASSERT_OK(cudaMemsetAsync(NULL, 0, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemset(NULL, 0, 1));
	ASSERT_OK(cudaFree(memory));
}

static struct cudaPointerAttributes attributes_of(const void *pointer)
{
	struct cudaPointerAttributes attributes;

	memset(&attributes, 0xff, sizeof attributes);
	ASSERT_OK(cudaPointerGetAttributes(&attributes, pointer));
	for (size_t i = 0; i < sizeof attributes.reserved / sizeof attributes.reserved[0]; i++)
		ASSERT_EQ(0, attributes.reserved[i]);
	return attributes;
}

/* Goal: a pointer's kind, device and two addresses are told; an unknown one is a host pointer nobody registered. */
TEST(pointers_are_known)
{
	static char registered[8192] __attribute__((aligned(4096)));
	struct cudaPointerAttributes found;
	void *device, *host, *managed, *alias;
	int local;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_OK(cudaSetDevice(1));
	ASSERT_OK(cudaMalloc(&device, 64));
	found = attributes_of((char *)device + 8);
	ASSERT_EQ(cudaMemoryTypeDevice, found.type);
	ASSERT_EQ(1, found.device);
	ASSERT((char *)device + 8 == found.devicePointer);

	ASSERT_OK(cudaHostAlloc(&host, 64, cudaHostAllocMapped));
	found = attributes_of(host);
	ASSERT_EQ(cudaMemoryTypeHost, found.type);
	ASSERT(host == found.hostPointer);
	ASSERT_OK(cudaHostGetDevicePointer(&alias, host, 0));
	ASSERT(alias == found.devicePointer);

	ASSERT_OK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
	ASSERT_EQ(cudaMemoryTypeHost, attributes_of(registered).type);
	ASSERT_OK(cudaHostUnregister(registered));
	ASSERT_EQ(cudaMemoryTypeUnregistered, attributes_of(registered).type);

	ASSERT_OK(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
	found = attributes_of(managed);
	ASSERT_EQ(cudaMemoryTypeManaged, found.type);
	ASSERT(managed == found.hostPointer);
	ASSERT(managed == found.devicePointer);

	found = attributes_of(&local);
	ASSERT_EQ(cudaMemoryTypeUnregistered, found.type);
	ASSERT_EQ(cudaInvalidDeviceId, found.device);
	ASSERT(&local == found.hostPointer);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, &local));
	ASSERT_OK(cudaFree(managed));
	ASSERT_OK(cudaFreeHost(host));
	ASSERT_OK(cudaFree(device));
}

/* Goal: advice and prefetches can be read back through the runtime's types. */
TEST(advice_is_read_back)
{
	struct cudaMemLocation device = {.type = cudaMemLocationTypeDevice, .id = 0};
	enum cudaMemRangeAttribute names[] = {cudaMemRangeAttributeReadMostly,
					      cudaMemRangeAttributeLastPrefetchLocation};
	int read_mostly = -1, prefetched = -1;
	void *values[] = {&read_mostly, &prefetched};
	size_t sizes[] = {sizeof read_mostly, sizeof prefetched};
	void *memory;
	int preferred = -1;

	ASSERT_OK(cudaMallocManaged(&memory, 4096, cudaMemAttachGlobal));
	ASSERT_OK(cudaMemAdvise(memory, 4096, cudaMemAdviseSetReadMostly, device));
	ASSERT_OK(cudaMemAdvise(memory, 4096, cudaMemAdviseSetPreferredLocation, device));
	ASSERT_OK(cudaMemPrefetchAsync(memory, 4096, device, 0, NULL));
	ASSERT_OK(cudaDeviceSynchronize());
	ASSERT_OK(cudaMemRangeGetAttribute(&preferred, sizeof preferred, cudaMemRangeAttributePreferredLocation, memory,
					   4096));
	ASSERT_EQ(0, preferred);
	ASSERT_OK(cudaMemRangeGetAttributes(values, sizes, names, 2, memory, 4096));
	ASSERT_EQ(1, read_mostly);
	ASSERT_EQ(0, prefetched);
	ASSERT_OK(cudaFree(memory));
}

/* ---- Streams and events ----------------------------------------------------------------------------------------- */

struct callback_seen {
	int count;
	cudaStream_t stream;
	cudaError_t status;
};

static void note_callback(cudaStream_t stream, cudaError_t status, void *data)
{
	struct callback_seen *seen = data;

	seen->count++;
	seen->stream = stream;
	seen->status = status;
}

TEST(callbacks_are_called_once)
{
	struct callback_seen seen = {.status = cudaErrorUnknown};
	cudaStream_t stream;

	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaStreamAddCallback(stream, note_callback, &seen, 0));
	ASSERT_OK(cudaStreamSynchronize(stream));
	ASSERT_EQ(1, seen.count);
	ASSERT(stream == seen.stream);
	ASSERT_OK(seen.status);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaStreamAddCallback(stream, NULL, &seen, 0));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaStreamAddCallback(stream, note_callback, &seen, 1));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_EQ(1, seen.count);
}

TEST(streams_and_events_pass_through)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
	cudaStream_t stream;
	cudaEvent_t start, end;
	unsigned flags;
	float ms = -1;
	int device = -1, least = 1, greatest = 1, priority = 1;

	ASSERT_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	ASSERT_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
	ASSERT_OK(cudaStreamGetFlags(stream, &flags));
	ASSERT_EQ(cudaStreamNonBlocking, flags);
	ASSERT_OK(cudaStreamGetPriority(stream, &priority));
	ASSERT_EQ(greatest, priority);
	ASSERT_OK(cudaStreamGetDevice(stream, &device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cudaStreamIsCapturing(stream, &status));
	ASSERT_EQ(cudaStreamCaptureStatusNone, status);
	ASSERT_OK(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
	ASSERT_EQ(cudaStreamCaptureStatusNone, status);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaStreamIsCapturing(stream, NULL));
	ASSERT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
	ASSERT_EQ(cudaStreamCaptureModeGlobal, mode);
	ASSERT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
	ASSERT_EQ(cudaStreamCaptureModeRelaxed, mode);

	ASSERT_OK(cudaEventCreate(&start));
	ASSERT_OK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
	ASSERT_OK(cudaEventRecord(start, stream));
	ASSERT_OK(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
	ASSERT_OK(cudaStreamWaitEvent(NULL, end, cudaEventWaitDefault));
	ASSERT_OK(cudaEventSynchronize(end));
	ASSERT_OK(cudaEventElapsedTime(&ms, start, end));
	ASSERT_GE(ms, 0.0F);
	ASSERT_OK(cudaEventDestroy(end));
	ASSERT_OK(cudaEventDestroy(start));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaEventDestroy(NULL));
}

/* ---- Launches --------------------------------------------------------------------------------------------------- */

static void add(const cenote_thread *at, void **args)
{
	int *numbers = *(int **)args[0];
	int what = *(int *)args[1];

	numbers[at->blockIdx.x * at->blockDim.x + at->threadIdx.x] += what;
}
CENOTE_KERNEL(add, int *, int);

/* Goal: a kernel is launched by its address, and nothing else is. */
TEST(kernels_are_launched_by_address)
{
	dim3 grid = {4, 1, 1}, block = {8, 1, 1}, none = {0, 1, 1}, huge = {4096, 4096, 1};
	cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeIgnore};
	cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .attrs = &attribute, .numAttrs = 1};
	int numbers[32], what = 3;
	void *memory;
	void *arguments[] = {&memory, &what};

	ASSERT_OK(cudaMalloc(&memory, sizeof numbers));
	ASSERT_OK(cudaMemset(memory, 0, sizeof numbers));
	ASSERT_OK(cudaLaunchKernel((const void *)add, grid, block, arguments, 0, NULL));
	ASSERT_OK(cudaLaunchKernelExC(&config, (const void *)add, arguments));
	ASSERT_OK(cudaMemcpy(numbers, memory, sizeof numbers, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		ASSERT_EQ(6, numbers[i]);

	ASSERT_ERROR(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(NULL, grid, block, arguments, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle,
		     cudaLaunchKernel((const void *)wait_at_gate, grid, block, arguments, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidConfiguration,
		     cudaLaunchKernel((const void *)add, none, block, arguments, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidConfiguration,
		     cudaLaunchKernel((const void *)add, grid, huge, arguments, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidConfiguration, cudaGetLastError());
	ASSERT_ERROR(cudaErrorInvalidValue, cudaLaunchKernelExC(NULL, (const void *)add, arguments));
	ASSERT_OK(cudaFree(memory));
}

TEST(kernels_have_attributes)
{
	struct cudaFuncAttributes attributes;

	memset(&attributes, 0xff, sizeof attributes);
	ASSERT_OK(cudaFuncGetAttributes(&attributes, (const void *)add));
	ASSERT_GT(attributes.maxThreadsPerBlock, 0);
	ASSERT_EQ(0, attributes.reserved[0]);
	ASSERT_OK(cudaFuncSetAttribute((const void *)add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
	ASSERT_OK(cudaFuncGetAttributes(&attributes, (const void *)add));
	ASSERT_EQ(1024, attributes.maxDynamicSharedSizeBytes);
	ASSERT_ERROR(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, NULL));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFuncGetAttributes(NULL, (const void *)add));
}

/* ---- The thread's own default stream ---------------------------------------------------------------------------- */

/* Goal: the forms for per-thread default streams take no stream for the thread's own. */
TEST(no_stream_is_the_threads_own)
{
	unsigned long long own, legacy, given;
	dim3 one = {1, 1, 1};
	int number = 0, what = 5;
	void *memory;
	void *arguments[] = {&memory, &what};
	struct gate gate;
	cudaEvent_t event;

	ASSERT_OK(cudaMalloc(&memory, sizeof number));
	ASSERT_OK(cudaStreamGetId(cudaStreamPerThread, &own));
	ASSERT_OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
	ASSERT_OK(cudaStreamGetId_ptsz(NULL, &given));
	ASSERT_EQ(own, given);
	ASSERT_NE(own, legacy);
	ASSERT_OK(cudaStreamGetId_ptsz(cudaStreamLegacy, &given));
	ASSERT_EQ(legacy, given);

	ASSERT_OK(cudaEventCreate(&event));
	ASSERT_SYS(sem_init(&gate.open, 0, 0));
	ASSERT_OK(cudaLaunchHostFunc_ptsz(NULL, wait_at_gate, &gate));
	ASSERT_OK(cudaMemcpyAsync_ptsz(memory, &number, sizeof number, cudaMemcpyHostToDevice, NULL));
	ASSERT_OK(cudaLaunchKernel_ptsz((const void *)add, one, one, arguments, 0, NULL));
	ASSERT_OK(cudaEventRecord_ptsz(event, NULL));
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery_ptsz(NULL));
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(event));
	gate_open(&gate);
	ASSERT_OK(cudaEventSynchronize(event));
	ASSERT_OK(cudaMemcpy_ptds(&number, memory, sizeof number, cudaMemcpyDeviceToHost));
	ASSERT_EQ(5, number);
	ASSERT_OK(cudaEventDestroy(event));
	ASSERT_OK(cudaFree(memory));
}

/* Goal: a synchronous call of the per-thread forms does not wait for other streams, as the legacy stream would. */
TEST(synchronous_calls_use_the_threads_own_stream)
{
	char bytes[32], expected[32];
	struct gate gate;
	cudaStream_t stream;
	void *memory;

	ASSERT_OK(cudaMalloc(&memory, sizeof bytes));
	ASSERT_OK(cudaStreamCreate(&stream)); /* one that the legacy stream waits for */
	gate_close(&gate, stream);
	ASSERT_OK(cudaMemset_ptds(memory, 'a', 16));
	ASSERT_OK(cudaMemset2D_ptds((char *)memory + 16, 8, 'b', 8, 2));
	ASSERT_OK(cudaMemcpy_ptds(bytes, memory, 16, cudaMemcpyDeviceToHost));
	ASSERT_OK(cudaMemcpy2D_ptds(bytes + 16, 8, (char *)memory + 16, 8, 8, 2, cudaMemcpyDefault));
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(stream));
	memset(expected, 'a', 16);
	memset(expected + 16, 'b', 16);
	ASSERT_MEMEQ(expected, bytes, sizeof bytes);
	gate_open(&gate);
	ASSERT_OK(cudaStreamSynchronize(stream));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaFree(memory));
}
