/* SPDX-License-Identifier: MIT */
/*
 * Which device this process uses.
 */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

const struct cn_device_ops *cn_device_ops;
_Thread_local struct cn_queue *cn_callback_queue;

CUresult cn_device_open(struct cn_device devices[CN_DEVICE_MAX], int *ret_count)
{
	const char *wanted = getenv("CENOTE_DEVICE");

	if (wanted && strcmp(wanted, "cuda") == 0)
		return cn_error(CUDA_ERROR_NO_DEVICE,
				"CENOTE_DEVICE=cuda: this build of Cenote has no cuda device yet");
	if (wanted && *wanted && strcmp(wanted, "host") && strcmp(wanted, "auto"))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "CENOTE_DEVICE is '%s'; it takes host, cuda or auto", wanted);
	cn_device_ops = &cn_host_device_ops;
	return cn_device_ops->init(devices, ret_count);
}
