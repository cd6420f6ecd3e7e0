/* SPDX-License-Identifier: MIT */
/*
 * The cuda device: a GPU behind the device contract, as far as pools need it. Programs reach the rest of the driver
 * without us, so running operations, memory outside of pools and signals are not here.
 */
#include "device/cuda/cuda_internal.h"

#include "base/check.h"
#include "device/device_account.h"
#include "device/grace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cn_device *cn_cuda_devices;
int cn_cuda_device_count;

/*
 * The same number in every process: what the machine calls a device does not depend on what a process may see. It has
 * as many bits as a pool's descriptor can hold (share/pool/pool_location.h).
 */
static int number_of(const CUuuid *uuid)
{
	return (int)(cn_check(uuid, sizeof *uuid) & 0xffffff);
}

static CUresult attribute(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value)
{
	int value = 0;
	CUresult result = cn_cuda.cuDeviceGetAttribute(&value, attribute, device->ordinal);

	if (result)
		return cn_error(result, "the driver has no attribute %d of device %d", (int)attribute, device->ordinal);
	*ret_value = value;
	return CUDA_SUCCESS;
}

static CUresult describe(int ordinal, struct cn_device *ret_device)
{
	CUdevice handle;
	CUuuid uuid;
	size_t bytes = 0;
	CUresult result = cn_cuda.cuDeviceGet(&handle, ordinal);

	*ret_device = (struct cn_device){.ordinal = ordinal};
	if (!result)
		result = cn_cuda.cuDeviceGetName(ret_device->name, (int)sizeof ret_device->name, handle);
	if (!result)
		result = cn_cuda.cuDeviceGetUuid(&uuid, handle);
	if (!result)
		result = cn_cuda.cuDeviceTotalMem(&bytes, handle);
	if (!result)
		result = attribute(ret_device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &ret_device->pci_domain);
	if (!result)
		result = attribute(ret_device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &ret_device->pci_bus);
	if (!result)
		result = attribute(ret_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &ret_device->pci_device);
	if (result)
		return cn_error(result, "the driver did not say what device %d is", ordinal);
	ret_device->uuid = uuid;
	ret_device->physical = number_of(&uuid);
	ret_device->total_bytes = bytes;
	return CUDA_SUCCESS;
}

static void stop(void)
{
	cn_grace_stop();
	cn_cuda_stop_notes();
}

static CUresult probe(void)
{
	int count;

	return cn_cuda_start(&count);
}

static CUresult init(struct cn_device devices[CN_DEVICE_MAX], int *ret_count)
{
	static bool registered;
	int count = 0;
	CUresult result = cn_cuda_start(&count);

	if (result)
		return result;
	count = count < CN_DEVICE_MAX ? count : CN_DEVICE_MAX;
	for (int i = 0; i < count && !result; i++)
		result = describe(i, &devices[i]);
	if (result)
		return result;
	/* Registered after the driver's handlers, so it runs before them: then no thread of ours is in the driver. */
	if (!registered)
		registered = atexit(stop) == 0;
	cn_cuda_keep_open();
	cn_device_account_open(CN_ACCOUNT_OF_GPUS);
	cn_cuda_devices = devices;
	cn_cuda_device_count = count;
	*ret_count = count;
	return CUDA_SUCCESS;
}

static bool peers(const struct cn_device *device, const struct cn_device *peer)
{
	int can = 0;

	return device == peer || (!cn_cuda.cuDeviceCanAccessPeer(&can, device->ordinal, peer->ordinal) && can);
}

const struct cn_device_ops cn_cuda_device_ops = {
	.name = "cuda",
	.parts_take_long = true,        /* most of a millisecond, for a descriptor */
	.use_ends_with_mapping = false, /* a kernel runs on for a while after its process has ended */
	.probe = probe,
	.init = init,
	.attribute = attribute,
	.peers = peers,
	.descriptor_is_memory = cn_cuda_descriptor_is_memory,
	.arena_create = cn_cuda_arena_create,
	.arena_free = cn_cuda_arena_free,
	.arena_allow = cn_cuda_arena_allow,
	.arena_commit = cn_cuda_arena_commit,
	.arena_decommit = cn_cuda_arena_decommit,
	.arena_reclaim = cn_cuda_arena_reclaim,
	.arena_part = cn_cuda_arena_part,
	.arena_serial = cn_cuda_arena_serial,
	.arena_watch = cn_cuda_arena_watch,
	.view_create = cn_cuda_view_create,
	.view_map = cn_cuda_view_map,
	.view_unmap = cn_cuda_view_unmap,
	.view_allow = cn_cuda_view_allow,
	.view_free = cn_cuda_view_free,
	.point_now = cn_cuda_point_now,
	.queue_wait = cn_cuda_queue_wait,
	.queue_note = cn_cuda_queue_note,
	.queue_follows = cn_cuda_queue_follows,
	.queue_rely = cn_cuda_queue_rely,
	.queue_follow = cn_cuda_queue_follow,
	.queue_look = cn_cuda_queue_look,
	.grace_begin = cn_cuda_grace_begin,
	.grace_is_over = cn_cuda_grace_is_over,
	.point_waits_outside = cn_cuda_point_waits_outside,
};
