/* SPDX-License-Identifier: MIT */
/*
 * Devices: which there are, and their properties; and the names of errors.
 */
#include "driver/host/objects.h"

#include <stdio.h>
#include <string.h>

enum { PCI_ID_BYTES = 13 }; /* "0000:3b:00.0" and its end */

/* Has cuInit() been called, does the device exist, and is there room for the answer? */
static CUresult enter_device(const char *name, const void *output, CUdevice ordinal, struct cn_device **ret_device)
{
	return cn_given(cn_enter(), output, name) ?: cn_devices_find(ordinal, ret_device);
}

CUresult host_cuDeviceGetCount(int *count)
{
	CUresult result = cn_given(cn_enter(), count, "count");

	if (!result)
		*count = cn_devices_count;
	return result;
}

CUresult host_cuDeviceGet(CUdevice *device, int ordinal)
{
	struct cn_device *found;
	CUresult result = enter_device("device", device, ordinal, &found);

	if (!result)
		*device = found->ordinal;
	return result;
}

CUresult host_cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
	struct cn_device *device;
	CUresult result = enter_device("name", name, ordinal, &device);

	if (result)
		return result;
	if (length <= 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a device's name does not fit into %d bytes", length);
	/* Zero the rest, as NVIDIA's driver does: no byte of the caller's buffer leaks into a copy of it. */
	strncpy(name, device->name, (size_t)length - 1);
	name[length - 1] = 0;
	return CUDA_SUCCESS;
}

CUresult host_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
	struct cn_device *device;
	CUresult result = enter_device("uuid", uuid, ordinal, &device);

	if (!result)
		*uuid = device->uuid;
	return result;
}

CUresult host_cuDeviceGetLuid(char *luid, unsigned int *node_mask, CUdevice ordinal)
{
	struct cn_device *device;
	CUresult result =
		enter_device(luid ? "deviceNodeMask" : "luid", luid && node_mask ? luid : NULL, ordinal, &device);

	return result ? result : cn_error(CUDA_ERROR_NOT_SUPPORTED, "only Windows has LUIDs");
}

CUresult host_cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
	struct cn_device *device;
	CUresult result = enter_device("bytes", bytes, ordinal, &device);

	if (result == CUDA_SUCCESS)
		*bytes = device->total_bytes;
	else if (result == CUDA_ERROR_INVALID_DEVICE)
		*bytes = 0; /* as in NVIDIA's driver */
	return result;
}

CUresult host_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal)
{
	struct cn_device *device;
	CUresult result = enter_device("pi", value, ordinal, &device);

	if (result)
		return result;
	if ((int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a device has no attribute %d", (int)attribute);
	return cn_device_ops->attribute(device, attribute, value);
}

static void pci_id(const struct cn_device *device, char id[PCI_ID_BYTES])
{
	snprintf(id, PCI_ID_BYTES, "%04x:%02x:%02x.0", (unsigned)device->pci_domain & 0xffff,
		 (unsigned)device->pci_bus & 0xff, (unsigned)device->pci_device & 0xff);
}

CUresult host_cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal)
{
	struct cn_device *device;
	char whole[PCI_ID_BYTES];
	CUresult result = enter_device("pciBusId", id, ordinal, &device);

	if (result)
		return result;
	pci_id(device, whole);
	/* As much as fits, even in a failure: as in NVIDIA's driver. */
	if (length > 0)
		snprintf(id, (size_t)length, "%s", whole);
	if (length < PCI_ID_BYTES)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a PCI bus id takes %d bytes, not %d", PCI_ID_BYTES, length);
	return CUDA_SUCCESS;
}

CUresult host_cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	unsigned int place[3];
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!device || !id)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", device ? "pciBusId" : "dev");
	if (!cn_device_parse_pci_id(id, place))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "'%.32s' is not a PCI bus id such as 0000:3b:00.0", id);
	for (int i = 0; i < cn_devices_count; i++) {
		const struct cn_device *each = &cn_devices[i];
		if ((unsigned)each->pci_domain == place[0] && (unsigned)each->pci_bus == place[1] &&
		    (unsigned)each->pci_device == place[2]) {
			*device = each->ordinal;
			return CUDA_SUCCESS;
		}
	}
	return cn_error(CUDA_ERROR_INVALID_DEVICE, "no visible device has the PCI bus id %.32s", id);
}

CUresult host_cuDeviceCanAccessPeer(int *can_access, CUdevice ordinal, CUdevice peer_ordinal)
{
	struct cn_device *device, *peer;
	CUresult result = enter_device("canAccessPeer", can_access, ordinal, &device);

	if (!result)
		result = cn_devices_find(peer_ordinal, &peer);
	if (!result)
		*can_access = cn_device_ops->peers(device, peer);
	return result;
}

CUresult host_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
	struct cn_device *device, *peer;
	CUresult result = enter_device("value", value, from, &device);

	if (!result)
		result = cn_devices_find(to, &peer);
	if (result)
		return result;
	if (device == peer)
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "device %d is not its own peer", from);
	switch ((int)attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		*value = cn_device_ops->peers(device, peer);
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:                     /* all are equally near */
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:          /* there are no arrays */
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED: /* all or none */
		*value = 0;
		return CUDA_SUCCESS;
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of two devices", (int)attribute);
	}
}

/* ---- The names of errors ---- */

static CUresult describe(const char *text, CUresult code, const char **output)
{
	if (!output)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pStr is NULL");
	*output = text;
	return text ? CUDA_SUCCESS : cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an error code", (int)code);
}

CUresult host_cuGetErrorName(CUresult code, const char **name)
{
	return describe(cn_result_name(code), code, name);
}

CUresult host_cuGetErrorString(CUresult code, const char **text)
{
	return describe(cn_result_text(code), code, text);
}
