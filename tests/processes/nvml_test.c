/* SPDX-License-Identifier: MIT */
/*
 * NVML over the host devices: what it says is what CUDA says, and what other processes really have.
 *
 * A user is a peer that takes memory of a device and gives it back when the test says so.
 */
#include "../share.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cenote/nvml.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, DEVICES = 3, ROOM = 16 };

static void environment(void)
{
	setenv("CENOTE_HOST_DEVICES", "3", 1);
	setenv("CENOTE_HOST_MEMORY", "256M", 1);
}

static void start(void)
{
	environment();
	ASSERT_EQ(NVML_SUCCESS, nvmlInit_v2());
}

static nvmlDevice_t device_at(unsigned index)
{
	nvmlDevice_t device = NULL;

	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(index, &device));
	return device;
}

static unsigned long long used_mib(nvmlDevice_t device)
{
	nvmlMemory_t memory;
	nvmlMemory_v2_t same = {.version = nvmlMemory_v2};
	nvmlBAR1Memory_t reached;

	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(device, &memory));
	ASSERT_EQ(256ull * MIB, memory.total);
	ASSERT_EQ(memory.total, memory.free + memory.used);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetMemoryInfo_v2(device, &same));
	ASSERT_EQ(memory.total, same.total);
	ASSERT_EQ(memory.used, same.used);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetBAR1MemoryInfo(device, &reached));
	ASSERT_EQ(memory.total, reached.bar1Total);
	ASSERT_EQ(memory.used, reached.bar1Used);
	ASSERT_EQ(memory.free, reached.bar1Free);
	return memory.used / MIB;
}

/* What a process has of a device; -1: it is not listed. */
static long listed_mib(nvmlDevice_t device, pid_t pid)
{
	nvmlProcessInfo_t infos[ROOM];
	unsigned count = ROOM;

	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos));
	for (unsigned i = 0; i < count; i++)
		if (infos[i].pid == (unsigned)pid)
			return (long)(infos[i].usedGpuMemory / MIB);
	return -1;
}

/* Takes so many MiB of a device; then gives them back, and then ends. */
ROLE(user)
{
	CUcontext context;
	CUdeviceptr address;

	leaks_watch(0);
	environment();
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, atoi(argv[0])));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuMemAlloc(&address, (size_t)atoi(argv[1]) * MIB));
	peer_send(parent, "has it");
	peer_expect(parent, "give it back");
	ASSERT_OK(cuMemFree(address));
	peer_send(parent, "has nothing");
	peer_expect(parent, "end");
}

static struct peer *user_start(const char *device, const char *mib)
{
	struct peer *user = peer_start("user", device, mib);

	peer_expect(user, "has it");
	return user;
}

static void user_give_back(struct peer *user)
{
	peer_send(user, "give it back");
	peer_expect(user, "has nothing");
}

/* ---- Start ---- */

/* Goal: no call answers before nvmlInit(), or after as many nvmlShutdown(); those that need none do. */
TEST(a_start_and_an_end_are_needed)
{
	unsigned count;
	char text[80];

	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlSystemGetDriverVersion(text, sizeof text));
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
	ASSERT_CONTAINS("nvmlInit()", cenote_last_error());
	start();
	ASSERT_EQ(NVML_SUCCESS, nvmlInit());
	nvmlDevice_t device = device_at(0);
	ASSERT_EQ(NVML_SUCCESS, nvmlShutdown());
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetIndex(device, &count));
	ASSERT_EQ(NVML_SUCCESS, nvmlShutdown());
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetIndex(device, &count));
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
	ASSERT_STREQ("Success", nvmlErrorString(NVML_SUCCESS));
	ASSERT_STREQ("Unknown Error", nvmlErrorString((nvmlReturn_t)12345));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlInitWithFlags(64));
	ASSERT_EQ(NVML_SUCCESS, nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH));
	ASSERT_EQ(NVML_SUCCESS, nvmlShutdown());
}

/* Goal: where CUDA would use GPUs, or could not start, this library says so and shows no host device. */
TEST(what_the_environment_forbids_is_refused)
{
	setenv("CENOTE_DEVICE", "cuda", 1);
	ASSERT_EQ(NVML_ERROR_DRIVER_NOT_LOADED, nvmlInit_v2());
	ASSERT_CONTAINS("CENOTE_DEVICE=cuda", cenote_last_error());
	setenv("CENOTE_DEVICE", "host", 1);
	setenv("CENOTE_HOST_DEVICES", "many", 1);
	ASSERT_EQ(NVML_ERROR_UNKNOWN, nvmlInit_v2());
	ASSERT_CONTAINS("CENOTE_HOST_DEVICES", cenote_last_error());
	unsigned count = 7;
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
	ASSERT_EQ(7, count);
	setenv("CENOTE_HOST_DEVICES", "0", 1);
	ASSERT_EQ(NVML_SUCCESS, nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetCount_v2(&count));
	ASSERT_EQ(0, count);
}

static void *start_and_end(void *unused)
{
	unsigned count;

	for (int i = 0; i < 1000 / HARNESS_SLOWDOWN; i++) {
		ASSERT_EQ(NVML_SUCCESS, nvmlInit_v2());
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetCount_v2(&count));
		ASSERT_EQ(DEVICES, count);
		nvmlUtilization_t utilization;
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetUtilizationRates(device_at((unsigned)i % DEVICES), &utilization));
		ASSERT_LE(utilization.gpu, 100);
		ASSERT_EQ(NVML_SUCCESS, nvmlShutdown());
	}
	return unused;
}

/* Goal: threads that start and end at the same time see the same devices. */
TEST(threads_may_start_together)
{
	pthread_t threads[4];

	environment();
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, start_and_end, NULL));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
}

/* ---- Devices ---- */

/* Goal: NVML's devices are CUDA's, by every name; CUDA_VISIBLE_DEVICES hides them from CUDA alone. */
TEST(devices_are_those_of_cuda)
{
	char text[96], id[32];
	CUuuid uuid;
	int major, minor, cuda_major;
	unsigned index, count;
	nvmlDevice_t found;
	nvmlPciInfo_t pci;
	nvmlUUID_t key = {.version = nvmlUUID_v1, .type = NVML_UUID_TYPE_BINARY};

	start();
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	ASSERT_OK(cuInit(0));
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetCount_v2(&count));
	ASSERT_EQ(DEVICES, count);
	for (int ordinal = 0; ordinal < 2; ordinal++) {
		ASSERT_OK(cuDeviceGetUuid(&uuid, ordinal));
		memcpy(key.value.bytes, uuid.bytes, sizeof uuid.bytes);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetHandleByUUIDV(&key, &found));
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetIndex(found, &index));
		ASSERT_EQ(ordinal ? 0 : 2, index);
		ASSERT_OK(cuDeviceGetPCIBusId(id, sizeof id, ordinal));
		nvmlDevice_t again;
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId_v2(id, &again));
		ASSERT_EQ(found, again);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetPciInfo_v3(found, &pci));
		ASSERT_CONTAINS(pci.busIdLegacy, pci.busId);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId(pci.busId, &again));
		ASSERT_EQ(found, again);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetUUID(found, text, sizeof text));
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetHandleByUUID(text, &again));
		ASSERT_EQ(found, again);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetName(found, text, sizeof text));
		ASSERT_OK(cuDeviceGetName(id, sizeof id, ordinal));
		ASSERT_STREQ(id, text);
		ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetCudaComputeCapability(found, &major, &minor));
		ASSERT_OK(cuDeviceGetAttribute(&cuda_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal));
		ASSERT_EQ(cuda_major, major);
	}
	ASSERT_EQ(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &found));
	ASSERT_EQ(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByPciBusId_v2("0000:ff:00.0", &found));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByPciBusId_v2("here", &found));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex_v2(DEVICES, &found));
}

/* Goal: a wrong argument has an error and a sentence, and changes nothing. */
TEST(wrong_arguments_are_refused)
{
	unsigned index = 7;
	char text[8] = "before";
	nvmlMemory_v2_t memory = {.version = 1, .total = 7};
	nvmlGpuFabricInfoV_t fabric = {.version = 99};

	start();
	nvmlDevice_t device = device_at(0);
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetIndex((nvmlDevice_t)&index, &index));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetIndex(NULL, &index));
	ASSERT_EQ(7, index);
	ASSERT_CONTAINS("not a device handle", cenote_last_error());
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetIndex(device, NULL));
	ASSERT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetName(device, text, sizeof text));
	ASSERT_STREQ("before", text);
	ASSERT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetMemoryInfo_v2(device, &memory));
	ASSERT_EQ(7, memory.total);
	ASSERT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetGpuFabricInfoV(device, &fabric));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetNvLinkState(device, NVML_NVLINK_MAX_LINKS, NULL));
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *ret_degrees);

/* Goal: what Cenote does not have says that it is not supported, and which call it was. */
TEST(other_calls_are_not_supported)
{
	unsigned degrees = 7;

	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetTemperature(NULL, 0, &degrees));
	start();
	ASSERT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetTemperature(device_at(0), 0, &degrees));
	ASSERT_CONTAINS("nvmlDeviceGetTemperature", cenote_last_error());
	ASSERT_EQ(7, degrees);
}

/* ---- What is used ---- */

/* Goal: a device's memory is what all processes have of it; each is listed with what it took, on its device only. */
TEST(memory_and_processes_are_true)
{
	start();
	nvmlDevice_t first = device_at(0), last = device_at(2);
	ASSERT_EQ(0, used_mib(first));
	struct peer *one = user_start("0", "64"), *other = user_start("0", "32"), *third = user_start("2", "16");

	ASSERT_EQ(96, used_mib(first));
	ASSERT_EQ(16, used_mib(last));
	ASSERT_EQ(0, used_mib(device_at(1)));
	ASSERT_EQ(64, listed_mib(first, peer_pid(one)));
	ASSERT_EQ(32, listed_mib(first, peer_pid(other)));
	ASSERT_EQ(-1, listed_mib(first, peer_pid(third)));
	ASSERT_EQ(16, listed_mib(last, peer_pid(third)));
	ASSERT_EQ(-1, listed_mib(first, getpid()));

	user_give_back(one);
	ASSERT_EQ(0, listed_mib(first, peer_pid(one)));
	ASSERT_EQ(32, used_mib(first));
	pid_t killed = peer_pid(other), ended = peer_pid(one);
	peer_kill(other);
	ASSERT_EQ(-1, listed_mib(first, killed));
	ASSERT_EQ(0, used_mib(first));
	peer_end(one);
	ASSERT_EQ(-1, listed_mib(first, ended));
	user_give_back(third);
	peer_end(third);
}

/* Goal: this process's own use is seen like any other's. */
TEST(own_memory_is_seen)
{
	CUcontext context;
	CUdeviceptr address;

	start();
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 1));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuMemAlloc(&address, 48 * MIB));
	ASSERT_EQ(48, used_mib(device_at(1)));
	ASSERT_EQ(48, listed_mib(device_at(1), getpid()));
	ASSERT_OK(cuMemFree(address));
	ASSERT_EQ(0, used_mib(device_at(1)));
}

/* Goal: a list without enough room says how long it is; all forms of the call see the same. */
TEST(a_short_list_says_its_length)
{
	nvmlProcessInfo_v1_t first[ROOM];
	nvmlProcessInfo_v2_t second[ROOM];
	unsigned count = 0;

	start();
	nvmlDevice_t device = device_at(0);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	ASSERT_EQ(0, count);
	struct peer *one = user_start("0", "8"), *other = user_start("0", "4");

	ASSERT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	ASSERT_EQ(2, count);
	count = 1;
	ASSERT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetComputeRunningProcesses_v2(device, &count, second));
	ASSERT_EQ(2, count);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v2(device, &count, second));
	ASSERT_EQ(0xffffffffu, second[0].gpuInstanceId);
	count = ROOM;
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses(device, &count, first));
	ASSERT_EQ(2, count);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(second[i].pid, first[i].pid);
		ASSERT_EQ(second[i].usedGpuMemory, first[i].usedGpuMemory);
	}
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, second));
	ASSERT_EQ(0, count);
	user_give_back(one);
	user_give_back(other);
	peer_end(one);
	peer_end(other);
}

/* Goal: a process's name is its own. */
TEST(a_process_has_a_name)
{
	char name[256], cut[5];

	start();
	ASSERT_EQ(NVML_SUCCESS, nvmlSystemGetProcessName((unsigned)getpid(), name, sizeof name));
	ASSERT_CONTAINS("nvml_test", name);
	ASSERT_EQ(NVML_SUCCESS, nvmlSystemGetProcessName((unsigned)getpid(), cut, sizeof cut));
	ASSERT_EQ(4, strlen(cut));
	ASSERT_EQ(NVML_ERROR_NOT_FOUND, nvmlSystemGetProcessName(1u << 30, name, sizeof name));
}

/* ---- Forks ---- */

/* Goal: a program may look, fork, and use CUDA in the child; and the child may look. */
TEST(a_child_may_look_and_start_cuda)
{
	int status;
	CUcontext context;
	CUdeviceptr address;

	start();
	ASSERT_EQ(0, used_mib(device_at(0)));
	pid_t child = fork();
	ASSERT_NE(-1, child);
	if (child == 0) {
		ASSERT_EQ(0, used_mib(device_at(0)));
		ASSERT_OK(cuInit(0));
		ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
		ASSERT_OK(cuCtxSetCurrent(context));
		ASSERT_OK(cuMemAlloc(&address, 8 * MIB));
		ASSERT_EQ(8, used_mib(device_at(0)));
		ASSERT_EQ(8, listed_mib(device_at(0), getpid()));
		ASSERT_OK(cuMemFree(address));
		exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
}

/* ---- Topology ---- */

/* Goal: what NVML says of two devices is what CUDA says; a device without peers or fabric says so. */
TEST(topology_is_that_of_cuda)
{
	nvmlGpuP2PStatus_t status;
	nvmlGpuTopologyLevel_t level;
	nvmlEnableState_t active = NVML_FEATURE_ENABLED;
	nvmlDevice_t near[DEVICES];
	nvmlGpuFabricInfo_t fabric;
	nvmlGpuFabricInfoV_t second = {.version = nvmlGpuFabricInfo_v2, .healthSummary = 77},
			     third = {.version = nvmlGpuFabricInfo_v3};
	unsigned count = DEVICES;
	unsigned long cpus[16];

	start();
	nvmlDevice_t one = device_at(0), other = device_at(1);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetP2PStatus(one, other, NVML_P2P_CAPS_INDEX_READ, &status));
	ASSERT_EQ(NVML_P2P_STATUS_OK, status);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetP2PStatus(one, other, NVML_P2P_CAPS_INDEX_NVLINK, &status));
	ASSERT_EQ(NVML_P2P_STATUS_NOT_SUPPORTED, status);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetTopologyCommonAncestor(one, other, &level));
	ASSERT_EQ(NVML_TOPOLOGY_INTERNAL, level);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetTopologyNearestGpus(one, level, &count, near));
	ASSERT_EQ(DEVICES - 1, count);
	ASSERT_EQ(other, near[0]);
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlSystemGetTopologyGpuSet(1u << 20, &count, near));
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetCpuAffinity(one, 16, cpus));
	ASSERT_EQ(1, cpus[0] & 1);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetNvLinkState(one, 0, &active));
	ASSERT_EQ(NVML_FEATURE_DISABLED, active);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetGpuFabricInfo(one, &fabric));
	ASSERT_EQ(NVML_GPU_FABRIC_STATE_COMPLETED, fabric.state);
	ASSERT_EQ(NVML_SUCCESS, fabric.status);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetGpuFabricInfoV(other, &second));
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetGpuFabricInfoV(other, &third));
	ASSERT_MEMEQ(fabric.clusterUuid, second.clusterUuid, sizeof fabric.clusterUuid);
	ASSERT_MEMEQ(fabric.clusterUuid, third.clusterUuid, sizeof fabric.clusterUuid);
	setenv("CENOTE_HOST_WITHOUT", "peers,fabric", 1);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetP2PStatus(one, other, NVML_P2P_CAPS_INDEX_READ, &status));
	ASSERT_EQ(NVML_P2P_STATUS_NOT_SUPPORTED, status);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetGpuFabricInfo(one, &fabric));
	ASSERT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, fabric.state);
}

/* Goal: of several fields, those that are known have a value, the others a result of their own; links lead nowhere. */
TEST(fields_answer_each_for_itself)
{
	enum { LINKS, TEMPERATURE, CHIP_LINKS, COUNT };
	nvmlFieldValue_t values[COUNT] = {
		[LINKS] = {.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT, .value.uiVal = 7},
		[TEMPERATURE] = {.fieldId = 82, .value.uiVal = 7},
		[CHIP_LINKS] = {.fieldId = NVML_FI_DEV_C2C_LINK_COUNT, .value.uiVal = 7},
	};
	nvmlPciInfo_t pci = {.bus = 7};

	ASSERT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetFieldValues(NULL, COUNT, values));
	start();
	nvmlDevice_t device = device_at(0);
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetFieldValues(device, 0, values));
	ASSERT_EQ(7, values[LINKS].value.uiVal);
	ASSERT_EQ(NVML_SUCCESS, nvmlDeviceGetFieldValues(device, COUNT, values));
	for (int i = 0; i < COUNT; i += CHIP_LINKS) {
		ASSERT_EQ(NVML_SUCCESS, values[i].nvmlReturn);
		ASSERT_EQ(NVML_VALUE_TYPE_UNSIGNED_INT, values[i].valueType);
		ASSERT_EQ(0, values[i].value.uiVal);
		ASSERT(values[i].timestamp > 1000000LL * 86400 * 365);
	}
	ASSERT_EQ(NVML_ERROR_NOT_SUPPORTED, values[TEMPERATURE].nvmlReturn);
	ASSERT_EQ(7, values[TEMPERATURE].value.uiVal);
	ASSERT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, &pci));
	ASSERT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemotePciInfo(device, 0, &pci));
	ASSERT_EQ(NVML_ERROR_INVALID_ARGUMENT,
		  nvmlDeviceGetNvLinkRemotePciInfo_v2(device, NVML_NVLINK_MAX_LINKS, &pci));
	ASSERT_EQ(7, pci.bus);
}
