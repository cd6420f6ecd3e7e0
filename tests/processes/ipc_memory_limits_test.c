/* SPDX-License-Identifier: MIT */
/*
 * Handles of memory that lead nowhere, devices that do not share, other users, exporters that do not answer, and a
 * thousand processes that die.
 */
#include "ipc_memory.h"

#include "cenote/cuda_runtime_api.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { FIRST_USER = 64125, SECOND_USER = 64126 };

static CUipcMemHandle agent_export(struct peer *agent, size_t bytes)
{
	struct agent_order order = {.call = AGENT_ALLOCATE, .bytes = bytes, .value = 0x11};

	return agent_must(agent, order).handle;
}

/* The one at the other end ends, and the service thread has heard of it. */
static void end_and_await(struct peer *agent, unsigned descriptors)
{
	agent_end(agent);
	while (test_descriptor_count() != descriptors)
		sched_yield();
}

/* ---- What is no handle ------------------------------------------------------------------------------------------- */

static void refuse(CUresult code, CUipcMemHandle handle, const char *words)
{
	CUdeviceptr there = 77;

	ASSERT_ERROR(code, cuIpcOpenMemHandle(&there, handle, LAZY));
	ASSERT_EQ(77, there);
	ASSERT_CONTAINS(words, cenote_last_error());
}

/* Goal: every bit of a handle counts. */
TEST(a_changed_handle_is_refused)
{
	CUipcMemHandle zeros = {{0}}, ones;

	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	CUipcMemHandle handle = agent_export(agent, LARGE);
	for (size_t bit = 0; bit < 8 * sizeof handle; bit++) {
		CUipcMemHandle wrong = handle;
		wrong.reserved[bit / 8] = (char)(wrong.reserved[bit / 8] ^ 1 << bit % 8);
		refuse(CUDA_ERROR_INVALID_VALUE, wrong, "the handle ");
	}
	memset(&ones, 0xff, sizeof ones);
	refuse(CUDA_ERROR_INVALID_VALUE, zeros, "not made by Cenote");
	refuse(CUDA_ERROR_INVALID_VALUE, ones, "not made by Cenote");
	ASSERT_OK(cuIpcCloseMemHandle(open_handle(handle)));
	end_and_await(agent, descriptors);
}

/* Goal: a handle of an event is none of memory, and the other way round; one's own is refused as the driver does. */
TEST(handles_of_something_else)
{
	CUipcEventHandle of_event;
	CUipcMemHandle handle;
	CUevent event, opened;

	begin();
	CUdeviceptr home = allocate(SMALL, 0x11);
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&of_event, event));
	memcpy(&handle, &of_event, sizeof handle);
	refuse(CUDA_ERROR_INVALID_VALUE, handle, "another kind of object");
	handle = handle_of(home);
	refuse(CUDA_ERROR_INVALID_CONTEXT, handle, "belongs to this process: use its address");
	memcpy(&of_event, &handle, sizeof of_event);
	ASSERT_ERROR(CUDA_ERROR_MAP_FAILED, cuIpcOpenEventHandle(&opened, of_event));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuMemFree(home));
}

/* Goal: only memory of cuMemAlloc() has a handle, and the attribute says which has. */
TEST(what_has_a_handle)
{
	CUipcMemHandle handle;
	CUdeviceptr addresses[4];
	void *host;

	begin();
	ASSERT_OK(cuMemAlloc(&addresses[0], SMALL));
	ASSERT_OK(cuMemAllocAsync(&addresses[1], SMALL, NULL));
	ASSERT_OK(cuMemAllocManaged(&addresses[2], SMALL, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemHostAlloc(&host, SMALL, 0));
	addresses[3] = (CUdeviceptr)(uintptr_t)host;
	for (int i = 0; i < 4; i++) {
		int capable = 0;
		ASSERT_OK(
			cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, addresses[i]));
		ASSERT_EQ(i == 0, capable);
		ASSERT_ERROR(i ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, cuIpcGetMemHandle(&handle, addresses[i]));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(addresses[i]));
	}
	ASSERT_OK(cuMemFree(addresses[0]));
	ASSERT_OK(cuMemFreeAsync(addresses[1], NULL));
	ASSERT_OK(cuMemFree(addresses[2]));
	ASSERT_OK(cuMemFreeHost(host));
	ASSERT_OK(cuCtxSynchronize());
	leaks_start_here(); /* the pool keeps its own */
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

/* A device that lacks what IPC needs, as an exporter and as an opener. */
ROLE(without)
{
	CUipcMemHandle handle;
	cudaIpcMemHandle_t runtime_handle;
	CUipcEventHandle event_handle = {0};
	CUdeviceptr home, there;
	CUevent event;
	void *opened;
	int supported = 1;

	peer_receive_bytes(parent, &handle, sizeof handle);
	memcpy(&runtime_handle, &handle, sizeof handle);
	setenv("CENOTE_HOST_WITHOUT", argv[0], 1);
	use_device(0);
	ASSERT_OK(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, 0));
	ASSERT_EQ(0, supported);
	ASSERT_OK(cuMemAlloc(&home, SMALL));
	ASSERT_OK(cuPointerGetAttribute(&supported, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, home));
	ASSERT_EQ(0, supported);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&handle, home));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuIpcOpenMemHandle(&there, handle, LAZY));
	ASSERT_CONTAINS("CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED", cenote_last_error());
	ASSERT_ERROR(cudaErrorNotSupported,
		     cudaIpcOpenMemHandle(&opened, runtime_handle, cudaIpcMemLazyEnablePeerAccess));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetEventHandle(&event_handle, event));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuIpcOpenEventHandle(&event, event_handle));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuMemFree(home));
}

/* Goal: a device without IPC, or without unified addressing, says so and shares nothing. */
TEST(devices_that_do_not_share)
{
	static const char *const lacks[] = {"ipc", "unified-addressing"};

	begin();
	CUdeviceptr home = allocate(SMALL, 0x11);
	CUipcMemHandle handle = handle_of(home);
	for (int i = 0; i < 2; i++) {
		struct peer *peer = peer_start("without", lacks[i]);
		peer_send_bytes(peer, &handle, sizeof handle);
		peer_wait(peer);
	}
	ASSERT_OK(cuMemFree(home));
}

/* Goal: cudaDeviceCanAccessPeer() says whether another device's memory can be opened. */
TEST(devices_that_are_no_peers)
{
	int can = 1;

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	setenv("CENOTE_HOST_WITHOUT", "peers", 1);
	begin();
	size_t used = used_bytes();
	unsigned descriptors = test_descriptor_count();
	CUdeviceptr home = allocate(LARGE, 0x11);
	CUipcMemHandle handle = handle_of(home);
	struct peer *agent = peer_start("agent", "1"), *same = peer_start("agent");
	ASSERT_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
	ASSERT_EQ(0, can);
	agent_cannot_open(agent, handle, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "cannot access");
	agent_close(same, agent_open(same, handle));
	ASSERT_OK(cuMemFree(home)); /* what was refused is not held */
	while (used_bytes() != used)
		sched_yield();
	agent_end(same);
	end_and_await(agent, descriptors);
}

/* Goal: memory that cannot be mapped is a failed mapping, and is not held. */
TEST(no_room_to_map)
{
	enum { GIB = 1 << 30 };
	struct rlimit limit, before;
	CUdeviceptr there;
	FILE *status;
	unsigned long pages;

	setenv("CENOTE_HOST_MEMORY", "64G", 1);
	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	struct agent_order order = {.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11};
	CUipcMemHandle small = agent_must(agent, order).handle;
	order = (struct agent_order){.call = AGENT_RESERVE, .bytes = 16ul * GIB};
	struct agent_answer large = agent_must(agent, order);
	ASSERT_OK(cuIpcCloseMemHandle(open_handle(small)));

	status = fopen("/proc/self/statm", "re");
	ASSERT(status && fscanf(status, "%lu", &pages) == 1);
	fclose(status);
	ASSERT_SYS(getrlimit(RLIMIT_AS, &before));
	limit = before;
	limit.rlim_cur = pages * (size_t)getpagesize() + GIB;
	ASSERT_SYS(setrlimit(RLIMIT_AS, &limit));
	CUresult result = cuIpcOpenMemHandle(&there, large.handle, LAZY);
	ASSERT_SYS(setrlimit(RLIMIT_AS, &before));
	ASSERT_ERROR(CUDA_ERROR_MAP_FAILED, result);
	ASSERT_OK(cuIpcCloseMemHandle(open_handle(large.handle)));
	agent_must(agent, (struct agent_order){.call = AGENT_FREE, .at = large.at});
	while (agent_must(agent, (struct agent_order){.call = AGENT_USED}).value != LARGE)
		sched_yield();
	end_and_await(agent, descriptors);
}

/* Goal: memory that was allocated without a descriptor works, and cannot be shared, which is said. */
TEST(no_descriptor_for_the_memory)
{
	struct rlimit limit, before;
	CUipcMemHandle handle;
	CUdeviceptr home;

	begin();
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &before));
	limit = before;
	limit.rlim_cur = 1;
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	CUresult result = cuMemAlloc(&home, LARGE);
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &before));
	ASSERT_OK(result);
	fill(home, 0x11, LARGE);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&handle, home));
	ASSERT_CONTAINS("ulimit", cenote_last_error());
	ASSERT_OK(cuMemFree(home));
}

/* ---- Exporters that do not answer -------------------------------------------------------------------------------- */

/* Goal: an exporter that stands still is not waited for for ever; nothing of the question is left when it goes on. */
TEST(an_exporter_that_stands_still, .timeout_ms = 60000)
{
	CUdeviceptr there;

	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	struct agent_order order = {.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11};
	struct agent_answer open = agent_must(agent, order), asked = agent_must(agent, order);
	there = open_handle(open.handle);

	peer_stop(agent);
	refuse(CUDA_ERROR_OPERATING_SYSTEM, asked.handle, "does not answer");
	ASSERT_EQ(0x11, byte_at(there));
	ASSERT_OK(cuIpcCloseMemHandle(there));
	peer_continue(agent);
	agent_must(agent, (struct agent_order){.call = AGENT_FREE, .at = open.at});
	agent_must(agent, (struct agent_order){.call = AGENT_FREE, .at = asked.at});
	while (agent_must(agent, (struct agent_order){.call = AGENT_USED}).value)
		sched_yield();
	end_and_await(agent, descriptors);
}

/* ---- Other users ------------------------------------------------------------------------------------------------- */

static void become(unsigned user)
{
	ASSERT_SYS(setresgid(user, user, user));
	ASSERT_SYS(setresuid(user, user, user));
	/* A process that changes its user may not look into its own /proc any more, unless it says so. */
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1));
}

/* Shares memory and an event, as a user with a runtime directory. */
ROLE(sharing_user)
{
	struct both {
		CUipcMemHandle memory;
		CUipcEventHandle event;
	} both;
	CUevent event;

	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", argv[1], 1));
	become((unsigned)atoi(argv[0]));
	use_device(0);
	both.memory = handle_of(allocate(LARGE, 0x11));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&both.event, event));
	peer_send_bytes(parent, &both, sizeof both);
	peer_expect(parent, "end");
	leaks_watch(0);
}

/* Tries to open both, as a user with a runtime directory; should it work, or not? */
ROLE(trying_user)
{
	CUipcMemHandle memory;
	CUipcEventHandle of_event;
	CUdeviceptr there;
	CUevent event;
	bool works = strcmp(argv[2], "works") == 0;

	peer_receive_bytes(parent, &memory, sizeof memory);
	peer_receive_bytes(parent, &of_event, sizeof of_event);
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", argv[1], 1));
	become((unsigned)atoi(argv[0]));
	use_device(0);
	leaks_watch(0);
	if (works) {
		ASSERT_EQ(0x11, byte_at(open_handle(memory)));
		ASSERT_OK(cuIpcOpenEventHandle(&event, of_event));
		return;
	}
	ASSERT_NE(CUDA_SUCCESS, cuIpcOpenMemHandle(&there, memory, LAZY));
	fprintf(stderr, "memory: %s\n", cenote_last_error());
	ASSERT_NE(CUDA_SUCCESS, cuIpcOpenEventHandle(&event, of_event));
	fprintf(stderr, "event: %s\n", cenote_last_error());
}

static void make_directory(char *path, size_t bytes, const char *name, unsigned user, mode_t mode)
{
	snprintf(path, bytes, "%s/%s", test_directory(), name);
	ASSERT_SYS(mkdir(path, 0700));
	ASSERT_SYS(chown(path, user, user));
	ASSERT_SYS(chmod(path, mode));
}

static void try_as(unsigned user, const char *directory, const char *outcome, const CUipcMemHandle *memory,
		   const CUipcEventHandle *event)
{
	char number[16];

	snprintf(number, sizeof number, "%u", user);
	struct peer *peer = peer_start("trying_user", number, directory, outcome);
	peer_send_bytes(peer, memory, sizeof *memory);
	peer_send_bytes(peer, event, sizeof *event);
	peer_wait(peer);
}

/* Goal: one user's handles open for that user alone, even if others know their bytes or find the port. */
TEST(users_are_kept_apart)
{
	char first[512], second[512], link_path[512];
	struct {
		CUipcMemHandle memory;
		CUipcEventHandle event;
	} both;

	if (geteuid())
		SKIP("only root can become two other users");
	ASSERT_SYS(chmod(test_directory(), 0711));
	make_directory(first, sizeof first, "first", FIRST_USER, 0700);
	make_directory(second, sizeof second, "second", SECOND_USER, 0700);
	snprintf(link_path, sizeof link_path, "%s/second/link", test_directory());
	ASSERT_SYS(symlink(first, link_path));
	struct peer *sharing = peer_start("sharing_user", "64125", first);
	peer_receive_bytes(sharing, &both, sizeof both);

	try_as(FIRST_USER, first, "works", &both.memory, &both.event);
	try_as(SECOND_USER, second, "fails", &both.memory, &both.event);
	try_as(SECOND_USER, first, "fails", &both.memory, &both.event); /* where the port is */
	try_as(SECOND_USER, link_path, "fails", &both.memory, &both.event);
	ASSERT_SYS(chmod(first, 0777)); /* and if it lay open to all */
	try_as(SECOND_USER, first, "fails", &both.memory, &both.event);
	try_as(SECOND_USER, link_path, "fails", &both.memory, &both.event);
	/* The port's own name in the other's directory: found, and the exporter looks who calls. */
	DIR *names = opendir(first);
	char from[1024], to[1024];
	ASSERT(names);
	for (struct dirent *entry; (entry = readdir(names));)
		if (entry->d_type == DT_SOCK) {
			snprintf(from, sizeof from, "%s/%s", first, entry->d_name);
			snprintf(to, sizeof to, "%s/%s", second, entry->d_name);
			ASSERT_SYS(link(from, to));
			ASSERT_SYS(chmod(from, 0777));
			try_as(SECOND_USER, second, "fails", &both.memory, &both.event);
			ASSERT_SYS(unlink(to));
		}
	closedir(names);
	ASSERT_SYS(chmod(first, 0700));
	try_as(FIRST_USER, first, "works", &both.memory, &both.event);
	peer_end(sharing);
}

/* ---- A thousand deaths ------------------------------------------------------------------------------------------- */

/* Opens, uses, shares something of its own, and is killed in the middle of it. */
ROLE(dying)
{
	CUipcMemHandle handles[2];

	peer_receive_bytes(parent, handles, sizeof handles);
	use_device(0);
	for (int i = 0; i < 2; i++) {
		CUdeviceptr there = open_handle(handles[i]);
		ASSERT_EQ(0x11, byte_at(there));
		fill(there, 0x11, SMALL);
	}
	handle_of(allocate(SMALL, 0x22));
	peer_send(parent, "ready");
	ASSERT_SYS(raise(SIGKILL));
}

static unsigned count_names(void)
{
	return test_file_count(getenv("CENOTE_RUNTIME_DIR"));
}

/* Goal: processes that open, use and die leave no memory, no descriptor, and no name that the next does not clear. */
TEST(a_thousand_deaths, .timeout_ms = 180000)
{
	enum { DEATHS = 1000 / (HARNESS_SLOWDOWN * HARNESS_SLOWDOWN), AT_ONCE = 4 };
	struct peer *peers[AT_ONCE];
	CUipcMemHandle handles[2];

	begin();
	size_t used = used_bytes();
	unsigned descriptors = test_descriptor_count(), names = count_names();
	for (int i = 0; i < DEATHS; i += AT_ONCE) {
		CUdeviceptr large = allocate(LARGE, 0x11), small = allocate(SMALL, 0x11);
		handles[0] = handle_of(large);
		handles[1] = handle_of(small);
		for (int k = 0; k < AT_ONCE; k++) {
			peers[k] = peer_start("dying");
			peer_send_bytes(peers[k], handles, sizeof handles);
		}
		for (int k = 0; k < AT_ONCE; k++)
			peer_expect(peers[k], "ready");
		ASSERT_OK(cuMemFree(large)); /* some are dead by now, and some are not */
		ASSERT_OK(cuMemFree(small));
		for (int k = 0; k < AT_ONCE; k++)
			ASSERT_EQ(SIGKILL, peer_wait_status(peers[k]) & 0x7f);
	}
	await_quiet(used, descriptors);
	sweep_names();
	ASSERT_EQ(names, count_names());
}
