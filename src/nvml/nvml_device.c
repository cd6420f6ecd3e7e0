/* SPDX-License-Identifier: MIT */
/*
 * NVML: which devices there are, and what each of them is.
 */
#include "nvml/nvml_state.h"

#include "device/host/host_look.h"

#include <stdio.h>
#include <string.h>

/* ---- Handles ---- */

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	const struct cn_nvml_devices *all = cn_nvml_enter();

	if (!all)
		return NVML_ERROR_UNINITIALIZED;
	if (!deviceCount)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer for the answer is NULL"));
	*deviceCount = (unsigned)all->count;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	struct cn_nvml_devices *all = cn_nvml_enter();

	if (!all)
		return NVML_ERROR_UNINITIALIZED;
	if (!device || index >= (unsigned)all->count)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE,
					       device ? "there is no device %u" : "device is NULL, and index %u",
					       index));
	*device = &all->list[index];
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The device for which a function is true. */
static nvmlReturn_t find(bool (*is_it)(const struct cn_device *device, const void *what), const void *what,
			 nvmlDevice_t *ret_device)
{
	struct cn_nvml_devices *all = cn_nvml_enter();

	if (!all)
		return NVML_ERROR_UNINITIALIZED;
	if (!what || !ret_device)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer is NULL"));
	for (int i = 0; i < all->count; i++)
		if (is_it(&all->list[i].device, what)) {
			*ret_device = &all->list[i];
			return NVML_SUCCESS;
		}
	return cn_nvml_result(cn_error(CUDA_ERROR_NOT_FOUND, "no device is known by this id"));
}

static bool has_uuid_text(const struct cn_device *device, const void *what)
{
	char text[CN_HOST_UUID_CHARS];

	cn_host_uuid_text(device, text);
	return strcmp(text, what) == 0;
}

static bool has_uuid_bytes(const struct cn_device *device, const void *what)
{
	return memcmp(device->uuid.bytes, what, sizeof device->uuid.bytes) == 0;
}

static bool has_place(const struct cn_device *device, const void *what)
{
	const unsigned *place = what;

	return (unsigned)device->pci_domain == place[0] && (unsigned)device->pci_bus == place[1] &&
	       (unsigned)device->pci_device == place[2];
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	return find(has_uuid_text, uuid, device);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	char text[NVML_DEVICE_UUID_ASCII_LEN + 1];

	if (!uuid)
		return find(has_uuid_text, NULL, device);
	if (uuid->version != nvmlUUID_v1)
		return cn_nvml_refuse_version(uuid->version);
	if (uuid->type == NVML_UUID_TYPE_BINARY)
		return find(has_uuid_bytes, uuid->value.bytes, device);
	if (uuid->type != NVML_UUID_TYPE_ASCII)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "%u is not a UUID type", uuid->type));
	snprintf(text, sizeof text, "%.*s", NVML_DEVICE_UUID_ASCII_LEN, uuid->value.str);
	return find(has_uuid_text, text, device);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	unsigned place[3];

	if (!cn_nvml_enter())
		return NVML_ERROR_UNINITIALIZED;
	if (!pciBusId || !cn_device_parse_pci_id(pciBusId, place))
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE,
					       "'%.32s' is not a PCI bus id such as 00000000:3B:00.0",
					       pciBusId ? pciBusId : "NULL"));
	return find(has_place, place, device);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

/* ---- Identity ---- */

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	CN_NVML_ENTER(device, name);
	return cn_nvml_text(device->device.name, name, length);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[CN_HOST_UUID_CHARS];

	CN_NVML_ENTER(device, uuid);
	cn_host_uuid_text(&device->device, text);
	return cn_nvml_text(text, uuid, length);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	CN_NVML_ENTER(device, index);
	*index = (unsigned)device->device.physical;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
	return nvmlDeviceGetIndex(device, minorNumber);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type)
{
	CN_NVML_ENTER(device, type);
	*type = NVML_BRAND_UNKNOWN;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	int numbers[2];

	CN_NVML_ENTER(device, major, minor);
	CUresult result = cn_host_attribute(&device->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &numbers[0])
				  ?: cn_host_attribute(&device->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
						       &numbers[1]);
	if (result)
		return cn_nvml_result(result);
	*major = numbers[0];
	*minor = numbers[1];
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
	int major = 0, minor = 0;

	CN_NVML_ENTER(device, arch);
	nvmlReturn_t result = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
	if (result == NVML_SUCCESS)
		*arch = major == 9 ? NVML_DEVICE_ARCH_HOPPER : NVML_DEVICE_ARCH_UNKNOWN;
	return result;
}

/* ---- PCI ---- */

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	CN_NVML_ENTER(device, pci);
	const struct cn_device *on = &device->device;
	pci->domain = (unsigned)on->pci_domain;
	pci->bus = (unsigned)on->pci_bus;
	pci->device = (unsigned)on->pci_device;
	pci->pciDeviceId = pci->pciSubSystemId = 0;
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, pci->domain & 0xffff,
		 pci->bus & 0xff, pci->device & 0xff);
	return NVML_SUCCESS;
}

/* The first form had no busId at its end, and the one before this writes none either. */
CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v2(device, pci);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v2(device, pci);

	if (result == NVML_SUCCESS)
		snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT,
			 NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pci));
	return result;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	CN_NVML_ENTER(device, pci);
	if (pci->version != nvmlPciInfoExt_v1)
		return cn_nvml_refuse_version(pci->version);
	const struct cn_device *on = &device->device;
	*pci = (nvmlPciInfoExt_t){.version = pci->version,
				  .domain = (unsigned)on->pci_domain,
				  .bus = (unsigned)on->pci_bus,
				  .device = (unsigned)on->pci_device};
	snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pci));
	return NVML_SUCCESS;
}

/* ---- Modes ---- */

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
	CN_NVML_ENTER(device, mode);
	*mode = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	CN_NVML_ENTER(device, mode);
	*mode = NVML_COMPUTEMODE_DEFAULT;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display)
{
	CN_NVML_ENTER(device, display);
	*display = NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *isActive)
{
	return nvmlDeviceGetDisplayMode(device, isActive);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
						 unsigned int *pendingMode)
{
	CN_NVML_ENTER(device, currentMode, pendingMode);
	*currentMode = *pendingMode = NVML_DEVICE_MIG_DISABLE;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	CN_NVML_ENTER(device, count);
	*count = 0;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
	return nvmlDeviceGetMaxMigDeviceCount(device, isMigDevice);
}
