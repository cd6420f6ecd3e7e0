/* SPDX-License-Identifier: MIT */
/*
 * What tests of the cuda device share: a driver without a GPU, and the way to its functions.
 *
 * The driver is the tests' own (tests/driver), beside the test program. Calls go straight to it, not through Cenote's
 * own functions of the same names: what the device is told of them, the test says itself.
 */
#ifndef CENOTE_TESTS_UNIT_CUDA_H
#define CENOTE_TESTS_UNIT_CUDA_H

#include <stdatomic.h>
#include <unistd.h>

#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_stream.h"
#include "harness.h"

/* DRIVER(cuStreamCreate)(&stream, 0): the driver's own, as the headers have it; CUDA 13.0 has some other forms, too. */
#define DRIVER(name) ((__typeof__(&(name)))driver_function(#name, 12080))

static inline void *driver_function(const char *name, int version)
{
	void *function = cn_cuda_function(name, version, false);

	if (!function)
		FAIL("the tests' driver has no %s", name);
	return function;
}

/* For SETUP: a driver for the process, a GPU's own if the tests are to run on one. Call before anything else. */
static inline void driver_choose(void)
{
	static const char file[] = "libcuda-host.so";
	const char *wanted = getenv("CENOTE_TEST_DEVICE");
	char path[4096];

	if (wanted && strcmp(wanted, "cuda") == 0)
		return; /* as the harness has set it */
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof file);

	ASSERT_GT(length, 0);
	path[length] = 0;
	memcpy(strrchr(path, '/') + 1, file, sizeof file);
	setenv("CENOTE_DEVICE", "cuda", 1);
	setenv("CENOTE_LIBCUDA", path, 1);
}

static inline CUcontext driver_start(void)
{
	CUcontext context;

	driver_choose();
	ASSERT_OK(cuInit(0));
	ASSERT_STREQ("cuda", cn_device_ops->name);
	ASSERT_OK(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
	ASSERT_OK(DRIVER(cuCtxSetCurrent)(context));
	return context;
}

/*
 * The function that stands for cuCtxRecordEvent(), or NULL. Threads of the library may read the pointer at the same
 * time: either function will do for them. So NULL is for the start of a test, when there are none.
 */
static __attribute__((noinline, no_sanitize_thread, unused)) void driver_record_all_by(CUresult (*function)(void *,
													    CUevent))
{
	cn_cuda_record_all = function;
}

/* A word of memory that a stream waits for until the test opens it. */
struct driver_gate {
	_Atomic uint32_t *word;
};

static inline struct driver_gate driver_gate_close(CUstream stream)
{
	struct driver_gate gate;
	void *memory;

	ASSERT_OK(DRIVER(cuMemHostAlloc)(&memory, sizeof(uint32_t), 0));
	gate.word = memory;
	atomic_store(gate.word, 0);
	ASSERT_OK(DRIVER(cuStreamWaitValue32)(stream, (CUdeviceptr)(uintptr_t)memory, 1, CU_STREAM_WAIT_VALUE_GEQ));
	return gate;
}

static inline void driver_gate_open(struct driver_gate gate)
{
	atomic_store(gate.word, 1);
}

static inline void driver_gate_free(struct driver_gate gate)
{
	ASSERT_OK(DRIVER(cuMemFreeHost)(gate.word));
}

#endif
