/* SPDX-License-Identifier: MIT */
/*
 * The runtime API, first half: last errors, devices, and the context that a call makes for itself.
 *
 * Both halves are about what the runtime adds to the driver's calls; what it passes on is tested with the driver.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cenote/cenote.h"
#include "cenote/cuda.h"
#include "cenote/cuda_runtime_api.h"
#include "harness.h"
#include "runtime.h"

/* Symbols of programs whose default stream is the thread's own. */
extern __typeof__(cudaGetDriverEntryPointByVersion) cudaGetDriverEntryPointByVersion_ptsz;
extern __typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;

static void use_devices(const char *count)
{
	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", count, 1));
}

static void in_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, body, argument));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

static void *see_no_error(void *unused)
{
	ASSERT_OK(cudaPeekAtLastError());
	return unused;
}

/* Goal: a failure stays until it is asked for, and only in its thread; a success does not touch it. */
TEST(last_error_belongs_to_the_thread)
{
	void *pointer;

	ASSERT_OK(cudaGetLastError());
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(99));
	ASSERT_OK(cudaMalloc(&pointer, 100));
	ASSERT_OK(cudaFree(pointer));
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaPeekAtLastError());
	in_thread(see_no_error, NULL);
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaGetLastError());
	ASSERT_OK(cudaGetLastError());
}

/* Goal: "not ready" is an answer, not a failure. */
TEST(not_ready_is_no_last_error)
{
	struct gate gate;
	cudaStream_t stream;
	cudaEvent_t event;

	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaEventCreate(&event));
	gate_close(&gate, stream);
	ASSERT_OK(cudaEventRecord(event, stream));
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(stream));
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(event));
	ASSERT_OK(cudaGetLastError());
	gate_open(&gate);
	ASSERT_OK(cudaStreamSynchronize(stream));
	ASSERT_OK(cudaEventQuery(event));
	ASSERT_OK(cudaEventDestroy(event));
	ASSERT_OK(cudaStreamDestroy(stream));
}

/* Goal: every code of the driver's that the runtime shares has the runtime's name and the driver's text. */
TEST(codes_have_names_and_texts)
{
	const char *driver_text;

	ASSERT_STREQ("cudaSuccess", cudaGetErrorName(cudaSuccess));
	ASSERT_STREQ("cudaErrorInvalidResourceHandle", cudaGetErrorName((cudaError_t)CUDA_ERROR_INVALID_HANDLE));
	ASSERT_STREQ("cudaErrorInitializationError", cudaGetErrorName((cudaError_t)CUDA_ERROR_NOT_INITIALIZED));
	ASSERT_STREQ("cudaErrorApiFailureBase", cudaGetErrorName(cudaErrorApiFailureBase));
	ASSERT_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &driver_text));
	ASSERT_STREQ("out of memory", driver_text);
	ASSERT_STREQ("out of memory", cudaGetErrorString(cudaErrorMemoryAllocation));
	ASSERT_STREQ("no error", cudaGetErrorString(cudaSuccess));
	ASSERT_STREQ("invalid device function", cudaGetErrorString(cudaErrorInvalidDeviceFunction));
	for (int code = 0; code <= 10000; code++) {
		const char *name = cudaGetErrorName((cudaError_t)code);
		bool known = strncmp(name, "cuda", 4) == 0;

		ASSERT_EQ(known, strcmp(name, "unrecognized error code") != 0);
		ASSERT_EQ(known, strcmp(cudaGetErrorString((cudaError_t)code), "unrecognized error code") != 0);
		ASSERT_NE('\0', cudaGetErrorString((cudaError_t)code)[0]);
	}
}

TEST(versions_are_told)
{
	int runtime = 0, driver = 0, same_driver = 0;

	ASSERT_OK(cudaRuntimeGetVersion(&runtime));
	ASSERT_EQ(CUDART_VERSION, runtime);
	ASSERT_OK(cudaDriverGetVersion(&driver));
	ASSERT_OK(cuDriverGetVersion(&same_driver));
	ASSERT_EQ(same_driver, driver);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaRuntimeGetVersion(NULL));
}

/* ---- Entry points ----------------------------------------------------------------------------------------------- */

TEST(entry_points_are_found)
{
	enum cudaDriverEntryPointQueryResult status;
	void *function;

	ASSERT_OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &status));
	ASSERT_EQ(cudaDriverEntryPointSuccess, status);
	ASSERT((void *)cuMemAlloc == function);
	ASSERT_OK(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &function, 13000, cudaEnableDefault, NULL));
	ASSERT((void *)cuMemcpyAsync == function);
	ASSERT_OK(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &function, 13000, cudaEnablePerThreadDefaultStream,
						   NULL));
	ASSERT((void *)cuMemcpyAsync_ptsz == function);
	ASSERT_OK(cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyAsync", &function, 13000, cudaEnableDefault, NULL));
	ASSERT((void *)cuMemcpyAsync_ptsz == function);
	ASSERT_OK(
		cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyAsync", &function, 13000, cudaEnableLegacyStream, NULL));
	ASSERT((void *)cuMemcpyAsync == function);
}

/* Goal: to look for what is not there is no failure; the status and the NULL say it. */
TEST(missing_entry_points_are_no_failure)
{
	enum cudaDriverEntryPointQueryResult status;
	void *function = &status;

	ASSERT_OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault, &status));
	ASSERT_EQ(cudaDriverEntryPointSymbolNotFound, status);
	ASSERT(function == NULL);
	function = &status;
	ASSERT_OK(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &function, 5000, cudaEnableDefault, &status));
	ASSERT_EQ(cudaDriverEntryPointVersionNotSufficent, status);
	ASSERT(function == NULL);
	ASSERT_OK(cudaGetLastError());
	ASSERT_ERROR(cudaErrorInvalidValue,
		     cudaGetDriverEntryPointByVersion(NULL, &function, 13000, cudaEnableDefault, &status));
	ASSERT_ERROR(cudaErrorInvalidValue,
		     cudaGetDriverEntryPointByVersion("cuInit", NULL, 13000, cudaEnableDefault, &status));
}

/* ---- Contexts --------------------------------------------------------------------------------------------------- */

/* Goal: questions about devices start the driver and make no context; the first call that needs one makes it. */
TEST(a_context_is_made_when_needed)
{
	CUcontext context = NULL;
	unsigned flags;
	int count, device, active, value;

	ASSERT_OK(cudaGetDeviceCount(&count));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT(context == NULL);
	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ASSERT_EQ(0, active);

	ASSERT_OK(cudaFree(NULL));
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT(context != NULL);
	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ASSERT_EQ(1, active);
}

static void *expect_first_device(void *unused)
{
	CUcontext context;
	int device;

	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT(context == NULL);
	return unused;
}

/* Goal: cudaSetDevice makes the device's primary context current, in this thread alone. */
TEST(set_device_is_for_one_thread)
{
	CUcontext primary, current;
	int device, active, active_before;
	unsigned flags;

	use_devices("3");
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_OK(cuDevicePrimaryCtxGetState(2, &flags, &active_before));
	ASSERT_EQ(0, active_before);
	ASSERT_OK(cudaSetDevice(2));
	ASSERT_OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
	ASSERT_EQ(1, active);
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(2, device);
	ASSERT_OK(cuCtxGetCurrent(&current));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 2));
	ASSERT(primary == current);
	ASSERT_OK(cuDevicePrimaryCtxRelease(2));
	in_thread(expect_first_device, NULL);

	ASSERT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(3));
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(-1));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(2, device);
}

/* Goal: a context that the driver API made current is the one the runtime works in. */
TEST(a_driver_context_is_used)
{
	CUcontext made, owner, current;
	void *pointer;
	int device;

	use_devices("2");
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&made, NULL, 0, 1));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(1, device);
	ASSERT_OK(cudaMalloc(&pointer, 64));
	ASSERT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)(uintptr_t)pointer));
	ASSERT(owner == made);
	ASSERT_OK(cudaDeviceReset()); /* leaves what is not the runtime's */
	ASSERT_OK(cudaFree(pointer));
	ASSERT_OK(cudaSetDevice(1));
	ASSERT_OK(cuCtxGetCurrent(&current));
	ASSERT(current != made);
	ASSERT_OK(cuCtxDestroy(made));
}

/* Goal: a thread whose context was taken away gets the primary one at its next call. */
TEST(a_popped_context_is_replaced)
{
	CUcontext first, again;
	void *pointer;

	ASSERT_OK(cudaFree(NULL));
	ASSERT_OK(cuCtxGetCurrent(&first));
	ASSERT_OK(cuCtxSetCurrent(NULL));
	ASSERT_OK(cudaMalloc(&pointer, 64));
	ASSERT_OK(cuCtxGetCurrent(&again));
	ASSERT(first == again);
	ASSERT_OK(cudaFree(pointer));
}

/* Goal: a primary context that somebody released once too often is retained again. */
TEST(a_released_context_is_replaced)
{
	void *pointer;
	unsigned flags;
	int active;

	ASSERT_OK(cudaFree(NULL));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ASSERT_EQ(0, active);
	ASSERT_OK(cudaMalloc(&pointer, 64));
	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ASSERT_EQ(1, active);
	ASSERT_OK(cudaFree(pointer));
}

/* Goal: a context that was made with the driver API and destroyed is not replaced behind the program's back. */
TEST(a_destroyed_driver_context_is_an_error)
{
	CUcontext made;
	void *pointer;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&made, NULL, 0, 0));
	ASSERT_OK(cuCtxPushCurrent(made));
	ASSERT_OK(cuCtxDestroy(made));
	ASSERT_ERROR(cudaErrorContextIsDestroyed, cudaMalloc(&pointer, 64));
}

struct reset_watch {
	sem_t ready, reset;
};

static void *live_through_reset(void *data)
{
	struct reset_watch *watch = data;
	void *pointer;

	ASSERT_OK(cudaMalloc(&pointer, 64));
	sem_post(&watch->ready);
	while (sem_wait(&watch->reset))
		;
	/* Its memory is gone, its device is there. */
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFree(pointer));
	ASSERT_OK(cudaMalloc(&pointer, 64));
	ASSERT_OK(cudaMemset(pointer, 1, 64));
	ASSERT_OK(cudaFree(pointer));
	return NULL;
}

/* Goal: a reset takes everything away and the next call of every thread starts anew. */
TEST(a_reset_starts_anew_in_every_thread)
{
	struct reset_watch watch;
	pthread_t thread;
	cudaStream_t stream;
	unsigned flags;
	int active;

	ASSERT_SYS(sem_init(&watch.ready, 0, 0));
	ASSERT_SYS(sem_init(&watch.reset, 0, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, live_through_reset, &watch));
	while (sem_wait(&watch.ready))
		;
	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaDeviceReset());
	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ASSERT_EQ(0, active);
	sem_post(&watch.reset);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_ERROR(cudaErrorContextIsDestroyed, cudaStreamSynchronize(stream));
	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaDeviceReset());
	ASSERT_OK(cudaDeviceReset());
}

/* Goal: initialising a device makes its context, with flags, and leaves the thread where it is. */
TEST(init_device_is_not_set_device)
{
	unsigned flags = 0;
	int device, active;

	use_devices("2");
	ASSERT_ERROR(cudaErrorInvalidValue, cudaInitDevice(1, 0x3, cudaInitDeviceFlagsAreValid));
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaInitDevice(2, 0, 0));
	ASSERT_OK(cudaInitDevice(1, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
	ASSERT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	ASSERT_EQ(1, active);
	ASSERT_EQ(CU_CTX_SCHED_YIELD, flags & CU_CTX_SCHED_MASK);
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(0, device);
}

TEST(device_flags_are_kept)
{
	CUcontext made;
	unsigned flags = 0;

	ASSERT_OK(cudaGetDeviceFlags(&flags));
	ASSERT_EQ(cudaDeviceMapHost | cudaDeviceScheduleAuto, flags);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaSetDeviceFlags(0x100));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceScheduleYield));
	ASSERT_OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
	ASSERT_OK(cudaGetDeviceFlags(&flags));
	ASSERT_EQ(cudaDeviceMapHost | cudaDeviceScheduleBlockingSync, flags);
	ASSERT_OK(cudaSetDeviceFlags(cudaDeviceScheduleSpin)); /* an initialised device, too */
	ASSERT_OK(cudaGetDeviceFlags(&flags));
	ASSERT_EQ(cudaDeviceMapHost | cudaDeviceScheduleSpin, flags);
	ASSERT_OK(cuCtxCreate(&made, NULL, CU_CTX_SCHED_YIELD, 0));
	ASSERT_OK(cudaGetDeviceFlags(&flags));
	ASSERT_EQ(cudaDeviceScheduleYield, flags & cudaDeviceScheduleMask);
	ASSERT_OK(cuCtxDestroy(made));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaGetDeviceFlags(NULL));
}

/* Goal: who chooses no device gets the first of the list. */
TEST(valid_devices_are_tried_in_order)
{
	int wanted[] = {2, 1}, wrong[] = {0, 3}, many[] = {0, 1, 2, 0};
	void *pointer;
	int device;

	use_devices("3");
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaSetValidDevices(wrong, 2));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaSetValidDevices(many, 4));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaSetValidDevices(NULL, 1));
	ASSERT_OK(cudaSetValidDevices(wanted, 2));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(2, device);
	ASSERT_OK(cudaSetValidDevices(NULL, 0));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cudaSetValidDevices(wanted, 2));
	ASSERT_OK(cudaMalloc(&pointer, 64));
	ASSERT_OK(cudaGetDevice(&device));
	ASSERT_EQ(2, device);
	ASSERT_OK(cudaFree(pointer));
}

/* Goal: in a forked child the driver's answer comes through; what was read of the devices can still be told. */
TEST(a_forked_child_is_refused)
{
#if defined(__SANITIZE_THREAD__)
	SKIP("ThreadSanitizer cannot follow a fork without exec");
#endif
	struct cudaDeviceProp properties;
	int status, count;
	void *pointer;
	pid_t child;

	ASSERT_OK(cudaFree(NULL));
	child = fork();
	ASSERT_SYS(child);
	if (child == 0) {
		if (cudaMalloc(&pointer, 64) != cudaErrorInitializationError ||
		    cudaGetLastError() != cudaErrorInitializationError)
			_exit(1);
		if (cudaGetDeviceCount(&count) != cudaSuccess || count != 1)
			_exit(2);
		if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || !properties.name[0])
			_exit(3);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
}

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

TEST(properties_are_the_attributes)
{
	struct cudaDeviceProp prop;
	CUuuid uuid;
	char name[256];
	size_t total;
	int value;

	memset(&prop, 0xff, sizeof prop);
	ASSERT_OK(cudaGetDeviceProperties(&prop, 0));
	ASSERT_OK(cuDeviceGetName(name, sizeof name, 0));
	ASSERT_STREQ(name, prop.name);
	ASSERT_OK(cuDeviceGetUuid(&uuid, 0));
	ASSERT_MEMEQ(&uuid, &prop.uuid, sizeof uuid);
	ASSERT_OK(cuDeviceTotalMem(&total, 0));
	ASSERT_EQ(total, prop.totalGlobalMem);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	ASSERT_EQ(value, prop.multiProcessorCount);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
	ASSERT_EQ(value, prop.sharedMemPerBlock);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxGridDimZ, 0));
	ASSERT_EQ(value, prop.maxGridSize[2]);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
	ASSERT_EQ((unsigned)value, prop.memoryPoolSupportedHandleTypes);
	ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrHostNumaMultinodeIpcSupported, 0));
	ASSERT_EQ(value, prop.hostNumaMultinodeIpcSupported);
	ASSERT_EQ(1, prop.unifiedAddressing);
	for (size_t i = 0; i < sizeof prop.reserved / sizeof prop.reserved[0]; i++)
		ASSERT_EQ(0, prop.reserved[i]);
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, 1));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
}

TEST(a_device_is_chosen_by_its_properties)
{
	struct cudaDeviceProp wanted = {0};
	int device = -1;

	use_devices("2");
	ASSERT_OK(cudaChooseDevice(&device, &wanted));
	ASSERT_EQ(0, device);
	wanted.totalGlobalMem = 1;
	ASSERT_OK(cudaChooseDevice(&device, &wanted));
	ASSERT_EQ(0, device);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaChooseDevice(NULL, &wanted));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaChooseDevice(&device, NULL));
}

TEST(bus_ids_lead_back)
{
	char id[32];
	int device = -1;

	use_devices("2");
	ASSERT_OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
	ASSERT_OK(cudaDeviceGetByPCIBusId(&device, id));
	ASSERT_EQ(1, device);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(NULL, 32, 0));
}

/* Goal: peers are named by device, and each refusal has CUDA's code. */
TEST(peers_are_enabled_by_device)
{
	char text[32] = {0};
	void *near, *far;
	int can = -1;

	use_devices("2");
	ASSERT_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
	ASSERT_EQ(1, can);
	ASSERT_ERROR(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
	ASSERT_ERROR(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(2, 0));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(1, 1));
	ASSERT_OK(cudaDeviceEnablePeerAccess(1, 0));
	ASSERT_ERROR(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
	ASSERT_OK(cudaDeviceDisablePeerAccess(1));

	ASSERT_OK(cudaMalloc(&near, sizeof text));
	ASSERT_OK(cudaSetDevice(1));
	ASSERT_OK(cudaMalloc(&far, sizeof text));
	ASSERT_OK(cudaMemcpy(far, "from the other device", 22, cudaMemcpyHostToDevice));
	ASSERT_OK(cudaMemcpyPeer(near, 0, far, 1, 22));
	ASSERT_OK(cudaMemcpy(text, near, 22, cudaMemcpyDeviceToHost));
	ASSERT_STREQ("from the other device", text);
	ASSERT_OK(cudaMemset(near, 0, 22));
	ASSERT_OK(cudaMemcpyPeerAsync(near, 0, far, 1, 22, NULL));
	ASSERT_OK(cudaMemcpy(text, near, 22, cudaMemcpyDefault));
	ASSERT_STREQ("from the other device", text);
	ASSERT_ERROR(cudaErrorInvalidDevice, cudaMemcpyPeer(near, 0, far, 2, 22));
	ASSERT_OK(cudaFree(far));
	ASSERT_OK(cudaFree(near));
}
