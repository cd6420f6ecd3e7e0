/* SPDX-License-Identifier: MIT */
/*
 * nvml.h: NVIDIA's management interface over the host devices, as far as Cenote has it.
 *
 * The library is libnvidia-ml.so.1, beside the drop-in libcuda.so.1: `cenote run` puts it in front of a program, and a
 * program that opens it by its name finds it there. It exports every function of NVML 13. Those below are here; all
 * others answer NVML_ERROR_NOT_SUPPORTED. On a GPU NVIDIA's own library is the one to use, and `cenote run` leaves it.
 *
 *   Start     nvmlInit(), nvmlInitWithFlags(), nvmlShutdown(), nvmlErrorString()
 *   System    nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlSystemGetCudaDriverVersion(),
 *             nvmlSystemGetProcessName(), nvmlSystemGetTopologyGpuSet()
 *   Devices   nvmlDeviceGetCount(), nvmlDeviceGetHandleBy…(): which there are
 *   Identity  name, UUID, index, minor number, brand, architecture, compute capability, PCI info
 *   State     memory, processes, utilization; persistence, compute, display and MIG mode
 *   Topology  P2P status, common ancestor, nearest devices, CPU affinity, NVLink, fabric
 *   Fields    nvmlDeviceGetFieldValues(): how many links there are
 *
 * The devices are those of CENOTE_HOST_DEVICES and CENOTE_HOST_MEMORY. CUDA_VISIBLE_DEVICES hides none, as with
 * NVIDIA's library. No call here starts CUDA: no thread, descriptor or lock remains after a call, a forked child may
 * go on calling, and a program may fork after nvmlInit() and call cuInit() in the child. All calls are thread-safe.
 *
 * The calls return
 *
 *   NVML_ERROR_UNINITIALIZED          nvmlInit() has not been called, or nvmlShutdown() as often
 *   NVML_ERROR_INVALID_ARGUMENT       a handle is none, or a pointer is NULL
 *   NVML_ERROR_INSUFFICIENT_SIZE      there is no room for the answer; a count that is passed says how much is needed
 *   NVML_ERROR_ARGUMENT_VERSION_MISMATCH  the `version` of a structure is none that is known here
 *   NVML_ERROR_OPERATING_SYSTEM       the runtime directory, from which memory and processes come, cannot be used
 *
 * and leave what they would have written as it was. cenote_last_error() says why a call failed.
 */
#ifndef CENOTE_NVML_H
#define CENOTE_NVML_H

#ifdef __cplusplus
extern "C" {
#endif

#define NVML_API_VERSION     13
#define NVML_API_VERSION_STR "13"

/* A program means the latest form of a call, unless it asks for the forms by their own names. */
#ifndef NVML_NO_UNVERSIONED_FUNC_DEFS
#define nvmlInit                                nvmlInit_v2
#define nvmlDeviceGetPciInfo                    nvmlDeviceGetPciInfo_v3
#define nvmlDeviceGetCount                      nvmlDeviceGetCount_v2
#define nvmlDeviceGetHandleByIndex              nvmlDeviceGetHandleByIndex_v2
#define nvmlDeviceGetHandleByPciBusId           nvmlDeviceGetHandleByPciBusId_v2
#define nvmlDeviceGetComputeRunningProcesses    nvmlDeviceGetComputeRunningProcesses_v3
#define nvmlDeviceGetGraphicsRunningProcesses   nvmlDeviceGetGraphicsRunningProcesses_v3
#define nvmlDeviceGetMPSComputeRunningProcesses nvmlDeviceGetMPSComputeRunningProcesses_v3
#define nvmlDeviceGetNvLinkRemotePciInfo        nvmlDeviceGetNvLinkRemotePciInfo_v2
#endif

/* What the first member of a structure with versions must be. */
#define NVML_STRUCT_VERSION(data, ver)    (unsigned int)(sizeof(nvml##data##_v##ver##_t) | ((ver) << 24U))
#define NVML_VALUE_NOT_AVAILABLE          (-1)
#define NVML_CUDA_DRIVER_VERSION_MAJOR(v) ((v) / 1000)
#define NVML_CUDA_DRIVER_VERSION_MINOR(v) (((v) % 1000) / 10)

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
	NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef enum nvmlEnableState_enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;

/* ---- Start ---- */

#define NVML_INIT_FLAG_NO_GPUS   (1 << 0)
#define NVML_INIT_FLAG_NO_ATTACH (1 << 1)

/*
 * Begin to use the library; each call needs an nvmlShutdown() of its own. The environment is read by the first one of
 * a process. The flags make no difference here: no device is attached to, and that there is none is no error.
 *
 *   NVML_ERROR_DRIVER_NOT_LOADED  CENOTE_DEVICE is cuda: this library knows host devices alone
 *   NVML_ERROR_INVALID_ARGUMENT   flags has unknown bits
 *   NVML_ERROR_UNKNOWN            a variable of the environment has an invalid value: cenote_last_error() says which
 *   NVML_ERROR_MEMORY             no host memory
 */
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
nvmlReturn_t nvmlShutdown(void);
/* A code in words, never NULL. Needs no nvmlInit(). */
const char *nvmlErrorString(nvmlReturn_t result);

/* ---- The system ---- */

#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE   80

/* "580.00" and "13.580.00": the branch of NVIDIA's driver whose interface this is. */
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length);
/* As cuDriverGetVersion() says: 13000. */
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion);
/* The name by which a process was started, cut to fit. NVML_ERROR_NOT_FOUND: there is no such process. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length);

/* ---- Devices ---- */

#define NVML_DEVICE_NAME_BUFFER_SIZE             64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE          96
#define NVML_DEVICE_UUID_BUFFER_SIZE             80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE          96
#define NVML_DEVICE_UUID_ASCII_LEN               41
#define NVML_DEVICE_UUID_BINARY_LEN              16
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE       32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE    16
#define NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT        "%04X:%02X:%02X.0"
#define NVML_DEVICE_PCI_BUS_ID_FMT               "%08X:%02X:%02X.0"
#define NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pciInfo) (pciInfo)->domain, (pciInfo)->bus, (pciInfo)->device

typedef enum {
	NVML_UUID_TYPE_NONE = 0,
	NVML_UUID_TYPE_ASCII = 1,
	NVML_UUID_TYPE_BINARY = 2,
} nvmlUUIDType_t;

typedef union {
	char str[NVML_DEVICE_UUID_ASCII_LEN];
	unsigned char bytes[NVML_DEVICE_UUID_BINARY_LEN];
} nvmlUUIDValue_t;

typedef struct {
	unsigned int version;
	unsigned int type; /* nvmlUUIDType_t */
	nvmlUUIDValue_t value;
} nvmlUUID_v1_t;
typedef nvmlUUID_v1_t nvmlUUID_t;
#define nvmlUUID_v1 NVML_STRUCT_VERSION(UUID, 1)

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
/* "GPU-" and the UUID, all of it. NVML_ERROR_NOT_FOUND: no device has it; the same of a PCI bus id. */
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device);

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
/* The index: a host device has no node in /dev. */
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber);

typedef enum nvmlBrandType_enum {
	NVML_BRAND_UNKNOWN = 0,
	NVML_BRAND_QUADRO = 1,
	NVML_BRAND_TESLA = 2,
	NVML_BRAND_NVS = 3,
	NVML_BRAND_GRID = 4,
	NVML_BRAND_GEFORCE = 5,
	NVML_BRAND_TITAN = 6,
	NVML_BRAND_NVIDIA = 14,
} nvmlBrandType_t;

typedef unsigned int nvmlDeviceArchitecture_t;
#define NVML_DEVICE_ARCH_HOPPER  9
#define NVML_DEVICE_ARCH_UNKNOWN 0xffffffff

/* NVML_BRAND_UNKNOWN; what the compute capability stands for; and that, as cuDeviceGetAttribute() says. */
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type);
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);

typedef struct nvmlPciInfo_st {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;    /* 0: a host device is on no bus. So is the next */
	unsigned int pciSubSystemId; /* _v2 and _v3 alone write this, and _v3 alone the next */
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfo_t;

typedef struct {
	unsigned int version;
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int baseClass;
	unsigned int subClass;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfoExt_v1_t;
typedef nvmlPciInfoExt_v1_t nvmlPciInfoExt_t;
#define nvmlPciInfoExt_v1 NVML_STRUCT_VERSION(PciInfoExt, 1)

/* As cuDeviceGetPCIBusId() has it. */
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci);

/* ---- What a device has and does ---- */

typedef struct nvmlMemory_st {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved; /* 0 */
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;
#define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)

/*
 * What all processes that share the device have of it, as cuMemGetInfo() counts it: the processes of this user with the
 * same runtime directory and the same CENOTE_HOST_MEMORY.
 */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);

typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total;
	unsigned long long bar1Free;
	unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* What the processor can reach of the memory: all, so the numbers are those of nvmlDeviceGetMemoryInfo(). */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory);

typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st {
	unsigned int pid;                 /* as this process sees it */
	unsigned long long usedGpuMemory; /* what it has allocated; not what it has from other processes */
	unsigned int gpuInstanceId;       /* 0xffffffff: there are none; the same of the next */
	unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t, nvmlProcessInfo_t;

/*
 * The processes that have memory of the device, or had some, or hold another's. *infoCount is the room in `infos`
 * before, and the number of processes afterwards, also where the room did not suffice. Processes that this one cannot
 * see in /proc are left out: those of PID namespaces above or beside its own. Their memory counts above. Graphics and
 * MPS have no processes.
 */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						     nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						      nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
							nvmlProcessInfo_t *infos);

typedef struct nvmlUtilization_st {
	unsigned int gpu;    /* percent of the time in which the machine's cores, which are the device's, worked */
	unsigned int memory; /* 0: nothing counts reads and writes of memory */
} nvmlUtilization_t;

/* Since the call before, or nvmlInit(); two calls within a tenth of a second have the same answer. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization);

typedef enum nvmlComputeMode_enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
	NVML_COMPUTEMODE_COUNT
} nvmlComputeMode_t;

#define NVML_DEVICE_MIG_DISABLE 0x0
#define NVML_DEVICE_MIG_ENABLE  0x1

/* Enabled: no driver has to be loaded for the first process. Any number of processes may come; the others are off. */
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode);
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode);
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display);
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *isActive);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count);
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice);

/* ---- Topology ---- */

typedef enum nvmlGpuLevel_enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;

typedef enum nvmlGpuP2PStatus_enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
	NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
	NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
	NVML_P2P_STATUS_UNKNOWN = 6
} nvmlGpuP2PStatus_t;

typedef enum nvmlGpuP2PCapsIndex_enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PCI = 4,
	NVML_P2P_CAPS_INDEX_PROP = NVML_P2P_CAPS_INDEX_PCI,
	NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
} nvmlGpuP2PCapsIndex_t;

#define NVML_NVLINK_MAX_LINKS 18

/* Reads, writes and atomics are OK, as cuDeviceGetP2PAttribute() says; there is no NVLink and no PCI. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
				    nvmlGpuP2PStatus_t *p2pStatus);
/* NVML_TOPOLOGY_INTERNAL: all are the same memory and cores. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 nvmlGpuTopologyLevel_t *pathInfo);
/* The other devices at exactly this level, and those near a CPU: all of them. *count as with processes. */
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
					      nvmlDevice_t *deviceArray);
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count, nvmlDevice_t *deviceArray);
/* A bit for each CPU of the machine. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int cpuSetSize, unsigned long *cpuSet);
/* NVML_FEATURE_DISABLED, for each of the links that a device could have. */
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive);
/* NVML_ERROR_NOT_SUPPORTED, for the same links: none leads to another device. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci);

#define NVML_GPU_FABRIC_UUID_LEN                     16
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED          0
#define NVML_GPU_FABRIC_STATE_NOT_STARTED            1
#define NVML_GPU_FABRIC_STATE_IN_PROGRESS            2
#define NVML_GPU_FABRIC_STATE_COMPLETED              3
#define NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED 0

typedef unsigned char nvmlGpuFabricState_t;

typedef struct {
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
} nvmlGpuFabricInfo_t;

typedef struct {
	unsigned int version;
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
	unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;
#define nvmlGpuFabricInfo_v2 NVML_STRUCT_VERSION(GpuFabricInfo, 2)

typedef struct {
	unsigned int version;
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;
typedef nvmlGpuFabricInfo_v3_t nvmlGpuFabricInfoV_t;
#define nvmlGpuFabricInfo_v3 NVML_STRUCT_VERSION(GpuFabricInfo, 3)

/*
 * COMPLETED: fabric handles lead to every process of this machine, which is the cluster: its UUID is the same for all
 * devices here and no other's. NOT_SUPPORTED, and a UUID of zeros: CENOTE_HOST_WITHOUT takes fabric handles away.
 * The V form takes version 2 and 3 of the structure; nothing is known about health.
 */
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo);

/* ---- Fields: many values in one call ---- */

typedef enum nvmlValueType_enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
} nvmlValueType_t;

typedef union nvmlValue_st {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

#define NVML_FI_DEV_NVLINK_LINK_COUNT 91
#define NVML_FI_DEV_C2C_LINK_COUNT    170

typedef struct nvmlFieldValue_st {
	unsigned int fieldId; /* the program sets this and the next, which say what is asked */
	unsigned int scopeId;
	long long timestamp;   /* microseconds since 1970 */
	long long latencyUsec; /* 0 */
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn; /* whether there is a value; without one, the two beside it are as they were */
	nvmlValue_t value;
} nvmlFieldValue_t;

/*
 * Each value has a result of its own: the two above are 0, as unsigned int, and every other field answers
 * NVML_ERROR_NOT_SUPPORTED there. The call fails only for a handle that is none, no values, or a count below 1.
 */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values);

/* ---- The older forms, which programs compiled long ago still call ---- */

#ifdef NVML_NO_UNVERSIONED_FUNC_DEFS
nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						  nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
						     nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						   nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
						      nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						     nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
							nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci);
#endif

#ifdef __cplusplus
}
#endif

#endif
