/* SPDX-License-Identifier: MIT */
/*
 * NVML: how devices lie to each other, to processors, and in the fabric; and fields, of which links are all it knows.
 *
 * All host devices are the same memory and the same cores, so each is as near to the others as can be.
 */
#include "nvml/nvml_state.h"

#include "device/host/host_look.h"

#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Two devices ---- */

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
						   nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
	CN_NVML_ENTER(device1, p2pStatus);
	CN_NVML_ENTER(device2, p2pStatus);
	switch (p2pIndex) {
	case NVML_P2P_CAPS_INDEX_READ:
	case NVML_P2P_CAPS_INDEX_WRITE:
	case NVML_P2P_CAPS_INDEX_ATOMICS:
		*p2pStatus = cn_host_peers(&device1->device, &device2->device) ? NVML_P2P_STATUS_OK
									       : NVML_P2P_STATUS_NOT_SUPPORTED;
		return NVML_SUCCESS;
	case NVML_P2P_CAPS_INDEX_NVLINK:
	case NVML_P2P_CAPS_INDEX_PCI: *p2pStatus = NVML_P2P_STATUS_NOT_SUPPORTED; return NVML_SUCCESS;
	case NVML_P2P_CAPS_INDEX_UNKNOWN: break;
	}
	return cn_nvml_result(
		cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of two devices", (int)p2pIndex));
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
								nvmlGpuTopologyLevel_t *pathInfo)
{
	CN_NVML_ENTER(device1, pathInfo);
	CN_NVML_ENTER(device2, pathInfo);
	*pathInfo = NVML_TOPOLOGY_INTERNAL;
	return NVML_SUCCESS;
}

/* All devices but one. */
static nvmlReturn_t list_devices(nvmlDevice_t but, unsigned *count, nvmlDevice_t *ret_list)
{
	struct cn_nvml_devices *all = cn_nvml_enter();
	unsigned at = 0, needed;

	if (!all)
		return NVML_ERROR_UNINITIALIZED;
	if (!count)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer for the answer is NULL"));
	needed = (unsigned)all->count - !!but;
	/* As in NVIDIA's library: a count of 0 asks for the number of devices, and is not an error. */
	if (!*count || !ret_list) {
		*count = needed;
		return NVML_SUCCESS;
	}
	if (*count < needed)
		return cn_nvml_refuse_room(needed, count);
	for (int i = 0; i < all->count; i++)
		if (&all->list[i] != but)
			ret_list[at++] = &all->list[i];
	*count = needed;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
							     unsigned int *count, nvmlDevice_t *deviceArray)
{
	CN_NVML_ENTER(device, count);
	if (level == NVML_TOPOLOGY_INTERNAL)
		return list_devices(device, count, deviceArray);
	*count = 0;
	return NVML_SUCCESS;
}

/* ---- Processors ---- */

static unsigned cpu_count(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count > 0 ? (unsigned)count : 1;
}

CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count,
							nvmlDevice_t *deviceArray)
{
	if (cn_nvml_enter() && cpuNumber >= cpu_count())
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "the machine has no CPU %u", cpuNumber));
	return list_devices(NULL, count, deviceArray);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int cpuSetSize,
						     unsigned long *cpuSet)
{
	enum { BITS = sizeof *cpuSet * CHAR_BIT };

	CN_NVML_ENTER(device, cpuSet);
	if (!cpuSetSize)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "cpuSetSize is 0"));
	memset(cpuSet, 0, cpuSetSize * sizeof *cpuSet);
	for (unsigned cpu = 0; cpu < cpu_count() && cpu / BITS < cpuSetSize; cpu++)
		cpuSet[cpu / BITS] |= 1ul << cpu % BITS;
	return NVML_SUCCESS;
}

/* ---- NVLink and the fabric ---- */

static nvmlReturn_t check_link(unsigned link)
{
	if (link < NVML_NVLINK_MAX_LINKS)
		return NVML_SUCCESS;
	return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a device has no link %u", link));
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
						     nvmlEnableState_t *isActive)
{
	CN_NVML_ENTER(device, isActive);
	nvmlReturn_t result = check_link(link);
	if (result == NVML_SUCCESS)
		*isActive = NVML_FEATURE_DISABLED;
	return result;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
								nvmlPciInfo_t *pci)
{
	CN_NVML_ENTER(device, pci);
	nvmlReturn_t result = check_link(link);
	if (result == NVML_SUCCESS)
		result = cn_nvml_result(
			cn_error(CUDA_ERROR_NOT_SUPPORTED, "link %u of a host device leads nowhere", link));
	return result;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	struct timespec now = {0};

	CN_NVML_ENTER(device, values);
	if (valuesCount < 1)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "valuesCount is %d", valuesCount));
	clock_gettime(CLOCK_REALTIME, &now);
	for (int i = 0; i < valuesCount; i++) {
		nvmlFieldValue_t *value = &values[i];

		value->timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
		value->latencyUsec = 0;
		switch (value->fieldId) {
		case NVML_FI_DEV_NVLINK_LINK_COUNT:
		case NVML_FI_DEV_C2C_LINK_COUNT:
			value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
			value->value = (nvmlValue_t){.uiVal = 0};
			value->nvmlReturn = NVML_SUCCESS;
			break;
		default: value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		}
	}
	return NVML_SUCCESS;
}

/* The cluster is the machine, which has the first device's UUID for a name. */
static nvmlReturn_t look_at_fabric(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *ret_info)
{
	int supported = 0;
	CUresult result =
		cn_host_attribute(&device->device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &supported);

	if (result)
		return cn_nvml_result(result);
	*ret_info = (nvmlGpuFabricInfo_v3_t){.state = supported ? NVML_GPU_FABRIC_STATE_COMPLETED
								: NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
	if (supported)
		memcpy(ret_info->clusterUuid, cn_nvml_enter()->list[0].device.uuid.bytes, NVML_GPU_FABRIC_UUID_LEN);
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo)
{
	nvmlGpuFabricInfo_v3_t info = {0};

	CN_NVML_ENTER(device, gpuFabricInfo);
	nvmlReturn_t result = look_at_fabric(device, &info);
	if (result != NVML_SUCCESS)
		return result;
	*gpuFabricInfo = (nvmlGpuFabricInfo_t){.status = info.status, .cliqueId = info.cliqueId, .state = info.state};
	memcpy(gpuFabricInfo->clusterUuid, info.clusterUuid, sizeof info.clusterUuid);
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo)
{
	nvmlGpuFabricInfo_v3_t info = {0};

	CN_NVML_ENTER(device, gpuFabricInfo);
	unsigned version = gpuFabricInfo->version;
	if (version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3)
		return cn_nvml_refuse_version(version);
	nvmlReturn_t result = look_at_fabric(device, &info);
	if (result != NVML_SUCCESS)
		return result;
	info.version = version;
	/* Version 2 is the beginning of version 3. */
	memcpy(gpuFabricInfo, &info,
	       version == nvmlGpuFabricInfo_v2 ? sizeof(nvmlGpuFabricInfo_v2_t) : sizeof(nvmlGpuFabricInfo_v3_t));
	return NVML_SUCCESS;
}
