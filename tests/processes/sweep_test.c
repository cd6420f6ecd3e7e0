/* SPDX-License-Identifier: MIT */
/*
 * Housekeeping calls of cenote.h: names that processes left behind, and which device and driver this one has.
 */
#include "cenote/cenote.h"
#include "harness.h"

#include <unistd.h>

struct found {
	int directories, live, dead, removed;
	char live_name[33];
};

static void count(const cenote_name *name, void *data)
{
	struct found *found = data;

	ASSERT_CONTAINS(test_directory(), name->directory);
	if (!name->name) {
		found->directories++;
		return;
	}
	ASSERT_EQ(32, (int)strlen(name->name));
	ASSERT(!(name->live && name->removed));
	found->live += name->live;
	found->removed += name->removed;
	found->dead += !name->live && !name->removed;
	if (name->live)
		memcpy(found->live_name, name->name, sizeof found->live_name);
}

static struct found sweep(unsigned flags)
{
	struct found found = {0};

	ASSERT_OK(cenote_sweep(flags, count, &found));
	return found;
}

static void use_own_fabric_directory(void)
{
	char path[512];

	snprintf(path, sizeof path, "%s/fabric", test_directory());
	setenv("CENOTE_FABRIC_DIR", path, 1);
}

/* Have a name: the first handle of a process makes one. */
ROLE(named)
{
	CUipcEventHandle handle;
	CUcontext context;
	CUevent event;

	leaks_watch(0); /* a port is for the life of a process */
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&handle, event));
	peer_send(parent, "named");
	peer_expect(parent, "end");
}

/* Goal: a killed process's name is removed, a live one's is not, whichever process looks and however often. */
TEST(dead_names_go_and_live_ones_stay)
{
	use_own_fabric_directory();
	struct peer *first = peer_start("named"), *second = peer_start("named");
	peer_expect(first, "named");
	peer_expect(second, "named");
	for (int i = 0; i < 3; i++) {
		struct found found = sweep(0);
		ASSERT_EQ(1, found.directories); /* no process has had a fabric port */
		ASSERT_EQ(2, found.live);
		ASSERT_EQ(0, found.dead + found.removed);
	}
	peer_kill(first);
	struct found found = sweep(CENOTE_SWEEP_LOOK);
	ASSERT_EQ(1, found.dead);
	ASSERT_EQ(1, found.live);
	ASSERT_EQ(0, found.removed);
	found = sweep(0);
	ASSERT_EQ(1, found.removed);
	ASSERT_EQ(1, found.live);
	ASSERT_EQ(0, sweep(CENOTE_SWEEP_LOOK).dead);
	peer_send(second, "end");
	peer_wait(second);
	ASSERT_EQ(0, sweep(CENOTE_SWEEP_LOOK).live); /* who ends takes the name along */
}

/* Goal: a callback is optional, and unknown flags are refused before anything is looked at. */
TEST(arguments_of_a_sweep)
{
	use_own_fabric_directory();
	ASSERT_OK(cenote_sweep(0, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_sweep(2, count, NULL));
	ASSERT_CONTAINS("0x2", cenote_last_error());
}

/* Goal: a directory that cannot be meant is an error that names its variable. */
TEST(a_relative_directory_is_refused)
{
	use_own_fabric_directory();
	setenv("CENOTE_RUNTIME_DIR", "nearby", 1);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_sweep(0, NULL, NULL));
	ASSERT_CONTAINS("CENOTE_RUNTIME_DIR", cenote_last_error());
}

/* Goal: the kind of device is known when it has been chosen, and not before. */
TEST(kind_of_device)
{
	ASSERT_STREQ("", cenote_device_kind());
	ASSERT_OK(cuInit(0));
	ASSERT_STREQ(getenv("CENOTE_DEVICE"), cenote_device_kind());
}

/* Goal: a driver that is not where the environment says is an error with its path, and changes nothing. */
TEST(a_driver_that_is_not_there)
{
	static const char untouched[] = "untouched";
	const char *path = untouched;

	setenv("CENOTE_LIBCUDA", "/absent/libcuda.so.1", 1);
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, cenote_driver_library(&path));
	ASSERT_CONTAINS("/absent/libcuda.so.1", cenote_last_error());
	ASSERT(path == untouched);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_driver_library(NULL));
}
