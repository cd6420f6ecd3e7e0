/* SPDX-License-Identifier: MIT */
/*
 * cuInit(): which device this process has, and whose functions the calls are.
 */
#include "base/guard.h"
#include "driver/common/driver.h"
#include "driver/gpu/gpu.h"

#include <pthread.h>

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

static void after_fork(void)
{
	atomic_store(&cn_ready, CN_READY_FORKED);
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
	cn_devices_count = count;
	if (cn_device_ops != &cn_host_device_ops) {
		result = cn_gpu_take_over();
		if (result)
			return result;
	}
	atomic_store(&cn_ready, CN_READY_NOW);
	return CUDA_SUCCESS;
}

CUresult own_cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags: they must be 0, and are 0x%x", flags);
	if (atomic_load(&cn_ready) == CN_READY_FORKED)
		return cn_enter_slow();
	pthread_mutex_lock(&init_mutex);
	if (atomic_load(&cn_ready) == CN_READY_NOT_YET)
		result = start();
	pthread_mutex_unlock(&init_mutex);
	return result;
}
