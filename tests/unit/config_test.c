/* SPDX-License-Identifier: MIT */
/*
 * What the environment says of the devices: how many, how large, which of them, and what they cannot do.
 */
#include "device/device.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct cn_device devices[CN_DEVICE_MAX];
static int count;

/* Look at the environment anew. */
static CUresult look(const char *variable, const char *value)
{
	ASSERT_SYS(setenv(variable, value, 1));
	memset(devices, 0, sizeof devices);
	count = -1;
	return cn_device_open(devices, &count);
}

/* Goal: neither device's table has a hole: a caller may use all that the contract has. */
TEST(both_devices_implement_the_whole_contract)
{
	const struct cn_device_ops *const tables[] = {&cn_host_device_ops, &cn_cuda_device_ops};
	const size_t first = offsetof(struct cn_device_ops, probe);
	void *operations[(sizeof *tables[0] - offsetof(struct cn_device_ops, probe)) / sizeof(void *)];

	for (unsigned i = 0; i < 2; i++) {
		memcpy(operations, (const char *)tables[i] + first, sizeof operations);
		for (size_t k = 0; k < sizeof operations / sizeof operations[0]; k++)
			ASSERT(operations[k]);
	}
}

/* Goal: there are as many devices as wished, all different; what is no number is refused by name. */
TEST(devices_are_counted)
{
	static const char *const wrong[] = {"65", "-1", "two", "2x", " 2", "99999999999999999999"};

	ASSERT_OK(look("CENOTE_HOST_DEVICES", ""));
	ASSERT_EQ(1, count);
	ASSERT_OK(look("CENOTE_HOST_DEVICES", "64"));
	ASSERT_EQ(64, count);
	for (int i = 0; i < 64; i++) {
		ASSERT_EQ(i, devices[i].ordinal);
		for (int j = 0; j < i; j++) {
			ASSERT_NE(0, memcmp(&devices[i].uuid, &devices[j].uuid, sizeof devices[i].uuid));
			ASSERT_NE(devices[i].pci_bus, devices[j].pci_bus);
		}
	}
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, look("CENOTE_HOST_DEVICES", "0"));
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, look("CENOTE_HOST_DEVICES", wrong[i]));
		ASSERT_CONTAINS(wrong[i], cn_last_error());
		ASSERT_EQ(-1, count);
	}
}

/* Goal: a size may have a unit, is whole granules, and is refused when it is none. */
TEST(memory_is_sized)
{
	static const struct {
		const char *text;
		size_t bytes;
	} sizes[] = {
		{"67108864", 64u << 20}, {"65536K", 64u << 20}, {"64m", 64u << 20}, {"64MiB", 64u << 20},
		{"64MB", 64u << 20},     {"3M", 2u << 20},      {"1G", 1u << 30},   {"2T", (size_t)2 << 40},
	};
	static const char *const wrong[] = {"lots", "-64M", "64X", "64M!", "99999999999T", "2097151", "0"};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		ASSERT_OK(look("CENOTE_HOST_MEMORY", sizes[i].text));
		ASSERT_EQ(sizes[i].bytes, devices[0].total_bytes);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, look("CENOTE_HOST_MEMORY", wrong[i]));
		ASSERT_CONTAINS("CENOTE_HOST_MEMORY", cn_last_error());
	}
	ASSERT_OK(look("CENOTE_HOST_MEMORY", ""));
	ASSERT_GT(devices[0].total_bytes, 2u << 20);
}

/* The devices that a list lets through, as digits. */
static const char *visible(const char *list)
{
	static char digits[CN_DEVICE_MAX + 1];
	CUresult result = look("CUDA_VISIBLE_DEVICES", list);

	if (result) {
		ASSERT_EQ(CUDA_ERROR_NO_DEVICE, result);
		return "none";
	}
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(i, devices[i].ordinal);
		digits[i] = (char)('0' + devices[i].physical);
	}
	digits[count] = 0;
	return digits;
}

/* Goal: CUDA_VISIBLE_DEVICES chooses and orders, by number or UUID, up to the first entry that names no device. */
TEST(devices_are_chosen)
{
	char uuid[64] = "GPU-", list[80];

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "4", 1));
	ASSERT_STREQ("1", visible("1"));
	ASSERT_STREQ("320", visible("3,2,0"));
	ASSERT_STREQ("31", visible(" 3 , 1 "));
	ASSERT_STREQ("0", visible("0,7,1"));
	ASSERT_STREQ("0", visible("0,-1,1"));
	ASSERT_STREQ("2", visible("2,,1"));
	ASSERT_STREQ("none", visible(""));
	ASSERT_STREQ("none", visible("-1"));
	ASSERT_STREQ("none", visible("NoDevFiles"));
	ASSERT_STREQ("none", visible("0x1"));
	ASSERT_STREQ("none", visible("1,1"));

	ASSERT_STREQ("2", visible("2"));
	for (int i = 0; i < 16; i++)
		snprintf(uuid + strlen(uuid), sizeof uuid - strlen(uuid), "%s%02x",
			 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)devices[0].uuid.bytes[i]);
	snprintf(list, sizeof list, "%s,1", uuid);
	ASSERT_STREQ("21", visible(list));
	uuid[16] = 0;
	ASSERT_STREQ("2", visible(uuid));
	uuid[15] = 'x';
	ASSERT_STREQ("none", visible(uuid));
	ASSERT_STREQ("none", visible("GPU-"));
}

/* Goal: which kind of device can be said; what is no kind is refused by name. */
TEST(the_kind_of_device_is_chosen)
{
	ASSERT_OK(look("CENOTE_DEVICE", "host"));
	ASSERT_OK(look("CENOTE_DEVICE", "auto"));
	ASSERT_OK(look("CENOTE_DEVICE", ""));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, look("CENOTE_DEVICE", "gpu"));
	ASSERT_CONTAINS("'gpu'", cn_last_error());
}

/* Goal: not to find a GPU is no error where none was asked for: one line says what is used instead, and why. */
TEST(no_gpu_is_no_error)
{
	char text[1024] = "";
	int file = memfd_create("standard error", MFD_CLOEXEC), kept = dup(STDERR_FILENO);

	ASSERT_SYS(file);
	ASSERT_SYS(kept);
	ASSERT_SYS(setenv("CENOTE_LIBCUDA", "/nowhere/libcuda.so.1", 1));
	ASSERT_SYS(setenv("CENOTE_LOG", "debug", 1));
	ASSERT_SYS(dup2(file, STDERR_FILENO));
	CUresult result = look("CENOTE_DEVICE", "auto");
	ASSERT_SYS(dup2(kept, STDERR_FILENO));
	ASSERT_SYS(setenv("CENOTE_LOG", "", 1));
	ASSERT_SYS(pread(file, text, sizeof text - 1, 0));
	ASSERT_OK(result);
	ASSERT_STREQ("host", cn_device_ops->name);
	ASSERT_EQ(text, strstr(text, "cenote["));
	ASSERT_CONTAINS("]: the host device is used: ", text);
	ASSERT_CONTAINS("/nowhere/libcuda.so.1", text);
	ASSERT_EQ(text + strlen(text) - 1, strchr(text, '\n'));
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, look("CENOTE_DEVICE", "cuda"));
	ASSERT_SYS(close(file));
	ASSERT_SYS(close(kept));
}

/* Goal: a start that failed over the environment can be tried again. */
TEST(a_failed_start_can_be_repeated)
{
	int devices_found = -1;

	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "managed,wings", 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuInit(0));
	ASSERT_CONTAINS("'wings'", cn_last_error());
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&devices_found));
	ASSERT_EQ(-1, devices_found);
	ASSERT_SYS(unsetenv("CENOTE_HOST_WITHOUT"));
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDeviceGetCount(&devices_found));
	ASSERT_EQ(1, devices_found);
}

static int attribute(CUdevice_attribute attribute)
{
	int value = -1;

	ASSERT_OK(cuDeviceGetAttribute(&value, attribute, 0));
	return value;
}

/* Goal: what was taken away is said to be missing, and is refused. */
TEST(capabilities_are_taken_away)
{
	CUcontext first, second;
	CUdeviceptr memory = 7;
	int can = -1;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "managed,peers,unified-addressing,ipc,pools,fabric", 1));
	ASSERT_OK(cuInit(0));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));
	ASSERT_EQ(0, attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED));
	ASSERT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
	ASSERT_EQ(0, can);
	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 1));
	ASSERT_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(first, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocManaged(&memory, 64, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuCtxDestroy(second));
	ASSERT_OK(cuCtxDestroy(first));
}

/* Goal: the size that was given is what can be allocated, on each device for itself. */
TEST(memory_has_an_end)
{
	CUdeviceptr memory, more = 7;
	size_t available = 0, total = 0;
	CUcontext contexts[2];

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_SYS(setenv("CENOTE_HOST_MEMORY", "8M", 1));
	ASSERT_OK(cuInit(0));
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(cuCtxCreate(&contexts[i], NULL, 0, i));
		ASSERT_OK(cuDeviceTotalMem(&total, i));
		ASSERT_EQ(8u << 20, total);
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, (8u << 20) + 1));
		ASSERT_CONTAINS("CENOTE_HOST_MEMORY", cn_last_error());
		ASSERT_OK(cuMemAlloc(&memory, 8u << 20));
		ASSERT_OK(cuMemGetInfo(&available, &total));
		ASSERT_EQ(0, available);
		ASSERT_EQ(8u << 20, total);
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, 1));
	}
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuMemAlloc(&more, 1));
	ASSERT_OK(cuMemGetInfo(&available, &total));
	ASSERT_EQ(6u << 20, available);
	for (int i = 1; i >= 0; i--)
		ASSERT_OK(cuCtxDestroy(contexts[i]));
}
