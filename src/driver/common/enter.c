/* SPDX-License-Identifier: MIT */
/*
 * The entry of every call, and the devices.
 *
 * A process is not ready, ready, or the forked child of a ready one. In the child, locks may be held and threads are
 * missing, so nothing of the parent's state may be used. CUDA says the same; the child gets an error, which says what
 * to do instead.
 */
#include "driver/common/driver.h"

struct cn_device cn_devices[CN_DEVICE_MAX];
int cn_devices_count;
_Atomic int cn_ready;

CUresult cn_enter_slow(void)
{
	int ready = atomic_load(&cn_ready);

	if (ready == CN_READY_FORKED)
		return cn_error(CUDA_ERROR_NOT_INITIALIZED,
				"this process was forked from one that had called cuInit(): "
				"fork before cuInit(), or exec in the child");
	if (ready != CN_READY_NOW)
		return cn_error(CUDA_ERROR_NOT_INITIALIZED, "cuInit(0) has not been called");
	if (cn_callback_queue)
		return cn_error(CUDA_ERROR_NOT_PERMITTED, "a host function or callback of a stream may not call CUDA");
	return CUDA_SUCCESS;
}

struct cn_device *cn_devices_find_physical(int physical)
{
	for (int i = 0; i < cn_devices_count; i++)
		if (cn_devices[i].physical == physical)
			return &cn_devices[i];
	return NULL;
}

CUresult cn_devices_check(const struct cn_device *device, CUdevice_attribute attribute, const char *what)
{
	int value = 0;
	CUresult result = cn_device_ops->attribute(device, attribute, &value);

	if (result)
		return result;
	if (!value)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "device %d has no %s", device->ordinal, what);
	return CUDA_SUCCESS;
}

CUresult cn_devices_find(CUdevice ordinal, struct cn_device **ret_device)
{
	if (ordinal < 0 || ordinal >= cn_devices_count)
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "there is no device %d: the last is %d", ordinal,
				cn_devices_count - 1);
	*ret_device = &cn_devices[ordinal];
	return CUDA_SUCCESS;
}
