/* SPDX-License-Identifier: MIT */
/*
 * The start of the driver, and the way into every call.
 *
 * A process is not ready, ready, or the forked child of one that was: locks may have been held and threads have
 * stayed behind, so nothing of the parent's state may be used there. CUDA says the same; so the child gets an error,
 * which names the way out.
 */
#include "base/guard.h"
#include "driver/common/driver.h"
#include "driver/gpu/gpu.h"

#include <pthread.h>

enum { NOT_READY = 0, READY = 1, FORKED = 2 };

struct cn_device cn_devices[CN_DEVICE_MAX];
int cn_device_count;
_Atomic int cn_ready;
_Thread_local struct cn_thread cn_thread;

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

static void after_fork(void)
{
	atomic_store(&cn_ready, FORKED);
}

static CUresult start(void)
{
	int count = 0;

	cn_log_check();
	CUresult result = cn_device_open(cn_devices, &count);
	if (result)
		return result;
	int error = pthread_atfork(NULL, NULL, after_fork);
	if (error)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory to watch for fork()");
	cn_guard_install();
	cn_device_count = count;
	if (cn_device_ops != &cn_host_device_ops) {
		result = cn_gpu_take_over();
		if (result)
			return result;
	}
	atomic_store(&cn_ready, READY);
	return CUDA_SUCCESS;
}

CUresult own_cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags: they must be 0, and are 0x%x", flags);
	if (atomic_load(&cn_ready) == FORKED)
		return cn_enter_slow();
	pthread_mutex_lock(&init_mutex);
	if (atomic_load(&cn_ready) == NOT_READY)
		result = start();
	pthread_mutex_unlock(&init_mutex);
	return result;
}

CUresult cn_enter_slow(void)
{
	int ready = atomic_load(&cn_ready);

	if (ready == FORKED)
		return cn_error(CUDA_ERROR_NOT_INITIALIZED,
				"this process was forked from one that had called cuInit(): "
				"fork before cuInit(), or exec in the child");
	if (ready != READY)
		return cn_error(CUDA_ERROR_NOT_INITIALIZED, "cuInit(0) has not been called");
	if (cn_callback_queue)
		return cn_error(CUDA_ERROR_NOT_PERMITTED, "a host function or callback of a stream may not call CUDA");
	return CUDA_SUCCESS;
}
