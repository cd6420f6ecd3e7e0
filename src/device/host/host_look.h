/* SPDX-License-Identifier: MIT */
/*
 * Looking at the host devices without using them: for a process that has not called cuInit(), and may never.
 *
 * Nothing remains after a call: no thread, no descriptor, no lock. So a program may look, fork, and call cuInit() in
 * the child; and a forked child may look, in which CUDA's calls fail.
 */
#ifndef CN_DEVICE_HOST_HOST_LOOK_H
#define CN_DEVICE_HOST_HOST_LOOK_H

#include "device/device.h"

/* All devices that the environment says, also those that CUDA_VISIBLE_DEVICES hides; there may be none. */
CN_PRIVATE CUresult cn_host_list(struct cn_device ret_devices[CN_DEVICE_MAX], int *ret_count);

/* "GPU-" and the UUID. */
enum { CN_HOST_UUID_CHARS = 48 };
CN_PRIVATE void cn_host_uuid_text(const struct cn_device *device, char ret_text[CN_HOST_UUID_CHARS]);

CN_PRIVATE CUresult cn_host_attribute(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value);
CN_PRIVATE bool cn_host_peers(const struct cn_device *device, const struct cn_device *peer);

/* What all processes have of a device, as cuMemGetInfo() counts. CUDA_ERROR_OPERATING_SYSTEM: there is no account. */
CN_PRIVATE CUresult cn_host_used_by_all(const struct cn_device *device, size_t *ret_bytes);

/* The processes that have or had memory of a device; see cn_account_users() for which of them are seen. */
typedef void cn_host_user(int pid, uint64_t bytes, void *data);
CN_PRIVATE CUresult cn_host_users(const struct cn_device *device, cn_host_user *found, void *data);

#endif
