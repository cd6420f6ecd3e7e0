/* SPDX-License-Identifier: MIT */
/*
 * cuInit(): which device this process has, and which functions the calls lead to.
 */
#include "base/fork.h"
#include "base/guard.h"
#include "driver/common/driver.h"
#include "driver/gpu/gpu.h"

static CN_SLOW_LOCK(INIT) init_lock;

static void after_fork(void)
{
	atomic_store(&cn_ready, CN_READY_FORKED);
}

static struct cn_fork_hook fork_hook = {.order = CN_FORK_DRIVER, .child = after_fork};

static CUresult start(void)
{
	int count = 0;

	cn_log_check();
	CUresult result = cn_device_open(cn_devices, &count);
	if (result)
		return result;
	if (!cn_fork_watch(&fork_hook))
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
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags: they must be 0, not 0x%x", flags);
	if (atomic_load(&cn_ready) == CN_READY_FORKED)
		return cn_enter_slow();
	cn_slow_lock(&init_lock);
	if (atomic_load(&cn_ready) == CN_READY_NOT_YET)
		result = start();
	cn_slow_unlock(&init_lock);
	return result;
}
