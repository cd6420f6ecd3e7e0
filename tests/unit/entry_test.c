/* SPDX-License-Identifier: MIT */
/*
 * Entry points, the names of error codes, and devices by what identifies them.
 */
#include "harness.h"

#include "cenote/cuda.h"
#include "driver/entry/entry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void expect_entry(const char *name, int version, cuuint64_t flags, const void *expected)
{
	CUdriverProcAddressQueryResult status;
	void *function;

	ASSERT_OK(cuGetProcAddress(name, &function, version, flags, &status));
	ASSERT_EQ(expected ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
	ASSERT_EQ(expected, function);
}

/* Goal: every form of a function that the library has is found from its version on, until the next; none before. */
TEST(entry_points)
{
	const struct cn_entry *before = NULL;

	ASSERT_GT(cn_entry_count, 100);
	for (size_t i = 0; i < cn_entry_count; i++) {
		const struct cn_entry *entry = &cn_entries[i], *next = i + 1 < cn_entry_count ? entry + 1 : NULL;
		bool newest = !next || strcmp(next->name, entry->name) != 0;
		int last = newest ? CUDA_VERSION : next->version - 1;
		if (before && strcmp(before->name, entry->name) != 0)
			before = NULL;
		expect_entry(entry->name, entry->version, 0, entry->function);
		expect_entry(entry->name, last, 0, entry->function);
		expect_entry(entry->name, entry->version - 1, 0, before ? before->function : NULL);
		if (newest)
			expect_entry(entry->name, last, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
				     entry->per_thread);
		before = entry;
	}
}

/* Goal: every name is a name of CUDA's and every text says something; the table is sorted, or some would be missing. */
TEST(every_code_has_a_name)
{
	const char *name, *text;
	int count = 0;

	for (int code = 0; code < 1000; code++) {
		if (cuGetErrorName((CUresult)code, &name))
			continue;
		count++;
		ASSERT_EQ(0, strncmp(name, "CUDA_", 5));
		ASSERT_OK(cuGetErrorString((CUresult)code, &text));
		ASSERT_GT(strlen(text), 5);
	}
	ASSERT_EQ(101, count);
	ASSERT_OK(cuGetErrorName(CUDA_ERROR_UNKNOWN, &name));
	ASSERT_STREQ("CUDA_ERROR_UNKNOWN", name);
}

/* Goal: a device is found by where it sits, in each way of writing that. */
TEST(devices_by_place)
{
	char id[16], shorter[16];
	CUdevice device = 7;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
	ASSERT_OK(cuDeviceGetByPCIBusId(&device, id));
	ASSERT_EQ(0, device);
	ASSERT_OK(cuDeviceGetByPCIBusId(&device, id + 5));
	memcpy(shorter, id, sizeof shorter);
	*strrchr(shorter, '.') = 0;
	ASSERT_OK(cuDeviceGetByPCIBusId(&device, shorter));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&device, "0000:01:00.0 or so"));
	id[6] = 'f';
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&device, id));
}

ROLE(two_devices)
{
	CUuuid uuids[2];
	int count = 0, value = 7;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDeviceGetCount(&count));
	ASSERT_EQ(2, count);
	ASSERT_OK(cuDeviceGetUuid(&uuids[0], 0));
	ASSERT_OK(cuDeviceGetUuid(&uuids[1], 1));
	ASSERT_NE(0, memcmp(&uuids[0], &uuids[1], sizeof uuids[0]));
	ASSERT_OK(cuDeviceCanAccessPeer(&value, 0, 1));
	ASSERT_EQ(1, value);
	ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
	ASSERT_EQ(1, value);
	ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1, 0));
	ASSERT_EQ(0, value);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)9, 1, 0));
}

/* Goal: two devices can be told apart, and reach each other. */
TEST(two_devices)
{
	peer_wait(peer_start("two_devices"));
}

/* ---- Hooks ---- */

/* ThreadSanitizer cannot follow writes to code. */
#if defined(__x86_64__) && !(defined(__CET__) && (__CET__ & 1)) && !defined(__SANITIZE_THREAD__)
enum { HOOK_BYTES = 5, MOVE_TO_EAX = 0xb8 };

static CUresult (*version_behind)(int *ret_version);
static int hook_calls;

static CUresult version_hook(int *ret_version)
{
	hook_calls++;
	return version_behind(ret_version);
}

/* jmp *0(%rip), and where to. */
static void write_jump(unsigned char *at, uintptr_t target)
{
	memcpy(at, (unsigned char[]){0xff, 0x25, 0, 0, 0, 0}, 6);
	memcpy(at + 6, &target, sizeof target);
}

/*
 * Goal: a library can put itself before a function as UCX does: five bytes of a jump over its beginning, where there is
 * one instruction that works elsewhere too.
 */
TEST(a_function_can_be_hooked)
{
	unsigned char *function = (unsigned char *)(uintptr_t)cuDriverGetVersion;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *start = (unsigned char *)((uintptr_t)function / page * page);
	int version = 0, again = 0;

	ASSERT_OK(cuDriverGetVersion(&version));
	ASSERT_EQ(MOVE_TO_EAX, function[0]);
	/* Within a jump's reach of the function: what was there, a jump back, and a jump to the hook. */
	unsigned char *near = MAP_FAILED;
	for (size_t away = 1; near == MAP_FAILED && away < 1024; away++)
		near = mmap(start - away * page * 256, page, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT(near != MAP_FAILED);
	memcpy(near, function, HOOK_BYTES);
	write_jump(near + HOOK_BYTES, (uintptr_t)function + HOOK_BYTES);
	write_jump(near + 64, (uintptr_t)version_hook);
	version_behind = (CUresult(*)(int *))(uintptr_t)near;

	int32_t distance = (int32_t)(near + 64 - (function + HOOK_BYTES));
	ASSERT_EQ(0, mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC));
	function[0] = 0xe9;
	memcpy(function + 1, &distance, sizeof distance);
	ASSERT_OK(cuDriverGetVersion(&again));
	ASSERT_EQ(1, hook_calls);
	ASSERT_EQ(version, again);
	ASSERT_EQ(0, munmap(near, page));
}
#endif
