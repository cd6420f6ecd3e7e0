/* SPDX-License-Identifier: MIT */
/*
 * What both halves of the driver share: the devices, and whether a call may be made.
 *
 * Every cuX that a program calls is a jump to a function named host_cuX, own_cuX or gpu_cuX (src/api.list); their
 * prototypes, made from CUDA's, are in driver_prototypes.h. Code of this layer calls these, and never cuX itself.
 *
 * Each of them begins with cn_enter() or cn_context_enter(), checks each argument once, finds the objects behind the
 * handles, and calls down.
 */
#ifndef CN_DRIVER_COMMON_DRIVER_H
#define CN_DRIVER_COMMON_DRIVER_H

#include "base/error.h"
#include "base/table.h"
#include "device/device.h"

#include "driver_prototypes.h"

extern struct cn_device cn_devices[CN_DEVICE_MAX];
extern int cn_devices_count;

/* Has cuInit() been called, in this process and not in the one it was forked from? */
CUresult cn_enter_slow(void);
enum { CN_READY_NOT_YET = 0, CN_READY_NOW = 1, CN_READY_FORKED = 2 };
extern _Atomic int cn_ready;

static inline bool cn_enter_allowed(void)
{
	return __builtin_expect(
		atomic_load_explicit(&cn_ready, memory_order_acquire) == CN_READY_NOW && !cn_callback_queue, 1);
}

static inline CUresult cn_enter(void)
{
	return cn_enter_allowed() ? CUDA_SUCCESS : cn_enter_slow();
}

/* The same for calls that name a stream or an event by its handle: host functions may make those, as on a GPU. */
static inline CUresult cn_enter_by_handle(void)
{
	if (__builtin_expect(atomic_load_explicit(&cn_ready, memory_order_acquire) != CN_READY_NOW, 0))
		return cn_enter_slow();
	return CUDA_SUCCESS;
}

/* `result`, or else CUDA_ERROR_INVALID_VALUE: an argument, by its name in CUDA's manual, is NULL. */
static inline CUresult cn_given(CUresult result, bool given, const char *name)
{
	return result || given ? result : cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", name);
}

/* CUDA_ERROR_INVALID_DEVICE: no device has this ordinal. */
CUresult cn_devices_find(CUdevice ordinal, struct cn_device **ret_device);
/* The device with this number on the machine; NULL: this process may not see it. */
struct cn_device *cn_devices_find_physical(int physical);
/* CUDA_ERROR_NOT_SUPPORTED: the attribute is 0; the device has no `what`. */
CUresult cn_devices_check(const struct cn_device *device, CUdevice_attribute attribute, const char *what);

#endif
