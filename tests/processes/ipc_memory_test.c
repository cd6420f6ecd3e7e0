/* SPDX-License-Identifier: MIT */
/*
 * Memory that other processes open by a handle of 64 bytes: what they see, how long they have it, and what happens to
 * it when a process frees it, closes it or dies.
 */
#include "ipc_memory.h"

#include "cenote/cuda_runtime_api.h"

#include <pthread.h>

SETUP
{
	unsetenv("CENOTE_HOST_WITHOUT");
}

/* ---- Contents ---------------------------------------------------------------------------------------------------- */

/* Goal: one memory, whichever process writes it, of any size, first byte and last. */
TEST(both_see_one_memory)
{
	static const size_t sizes[] = {1, 512, SMALL, MIB, MIB + 1, LARGE, 3 * MIB + 5};

	begin();
	size_t used = used_bytes();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		CUdeviceptr home = allocate(sizes[i], 0x11), there = agent_open(agent, handle_of(home));
		ASSERT_EQ(home % (2 * MIB), there % (2 * MIB));
		ASSERT_EQ(0x11, agent_byte(agent, there));
		ASSERT_EQ(0x11, agent_byte(agent, there + sizes[i] - 1));
		agent_fill(agent, there, 0x22, sizes[i]);
		ASSERT_EQ(0x22, byte_at(home));
		ASSERT_EQ(0x22, byte_at(home + sizes[i] - 1));
		fill(home + sizes[i] - 1, 0x33, 1);
		ASSERT_EQ(0x33, agent_byte(agent, there + sizes[i] - 1));
		/* No byte more than was asked for. */
		ASSERT_ERROR(
			CUDA_ERROR_INVALID_VALUE,
			agent_tell(agent, (struct agent_order){.call = AGENT_FILL, .at = there, .bytes = sizes[i] + 1})
				.result);
		agent_close(agent, there);
		ASSERT_OK(cuMemFree(home));
	}
	agent_end(agent);
	await_quiet(used, descriptors);
}

/* Goal: whatever address inside is given, the handle is that of the whole, and the same each time. */
TEST(memory_has_one_handle)
{
	begin();
	CUdeviceptr one = allocate(SMALL, 1), other = allocate(SMALL, 2);
	CUipcMemHandle handle = handle_of(one), again = handle_of(one + SMALL - 1), of_other = handle_of(other);

	ASSERT_MEMEQ(&handle, &again, sizeof handle);
	ASSERT_NE(0, memcmp(&handle, &of_other, sizeof handle));
	ASSERT_OK(cuMemFree(one));
	ASSERT_OK(cuMemFree(other));
}

/* Goal: neighbours are as far apart as at home, and each is closed by itself. */
TEST(neighbours_stay_neighbours)
{
	enum { COUNT = 20 };
	CUdeviceptr home[COUNT], there[COUNT];

	begin();
	size_t used = used_bytes();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	for (int i = 0; i < COUNT; i++)
		home[i] = allocate(SMALL, 0x40 + (unsigned)i);
	for (int i = COUNT - 1; i >= 0; i--)
		there[i] = agent_open(agent, handle_of(home[i]));
	for (int i = 0; i < COUNT; i++) {
		ASSERT_EQ(home[i] - home[0], there[i] - there[0]);
		ASSERT_EQ(0x40 + i, agent_byte(agent, there[i]));
	}
	for (int i = 0; i < COUNT; i += 2)
		agent_close(agent, there[i]);
	for (int i = 0; i < COUNT; i++) {
		if (i % 2)
			ASSERT_EQ(0x40 + i, agent_byte(agent, there[i]));
		else
			ASSERT_ERROR(
				CUDA_ERROR_INVALID_VALUE,
				agent_tell(agent, (struct agent_order){.call = AGENT_CLOSE, .at = there[i]}).result);
	}
	for (int i = 1; i < COUNT; i += 2)
		agent_close(agent, there[i]);
	for (int i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFree(home[i]));
	agent_end(agent);
	await_quiet(used, descriptors);
}

/* ---- Counting ---------------------------------------------------------------------------------------------------- */

/* Goal: opened again it is the same address and one reference more; the last close ends it. */
TEST(openings_are_counted)
{
	begin();
	CUdeviceptr home = allocate(LARGE, 0x11);
	CUipcMemHandle handle = handle_of(home);
	struct peer *agent = peer_start("agent");
	CUdeviceptr there = agent_open(agent, handle);

	for (int i = 0; i < 10; i++)
		ASSERT_EQ(there, agent_open(agent, handle));
	for (int i = 0; i < 10; i++) {
		agent_close(agent, there);
		ASSERT_EQ(0x11, agent_byte(agent, there));
	}
	struct agent_answer freed = agent_tell(agent, (struct agent_order){.call = AGENT_FREE, .at = there});
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, freed.result);
	ASSERT_CONTAINS("cuIpcCloseMemHandle", freed.sentence);
	agent_close(agent, there);
	struct agent_answer closed = agent_tell(agent, (struct agent_order){.call = AGENT_CLOSE, .at = there});
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, closed.result);
	ASSERT_NE(CUDA_SUCCESS, agent_tell(agent, (struct agent_order){.call = AGENT_BYTE, .at = there}).result);
	there = agent_open(agent, handle);
	ASSERT_EQ(0x11, agent_byte(agent, there));
	agent_close(agent, there);
	unsigned descriptors = test_descriptor_count();
	agent_end(agent);
	ASSERT_OK(cuMemFree(home));
	while (test_descriptor_count() >= descriptors)
		sched_yield();
}

/* ---- Who frees first --------------------------------------------------------------------------------------------- */

/* Goal: freed while others have it open, memory is theirs until the last of them closes it, and goes back then. */
TEST(freed_memory_stays_with_those_who_have_it)
{
	begin();
	size_t used = used_bytes();
	unsigned descriptors = test_descriptor_count();
	struct peer *one = peer_start("agent"), *other = peer_start("agent");
	CUdeviceptr home = allocate(LARGE, 0x11);
	CUipcMemHandle handle = handle_of(home);
	CUdeviceptr there = agent_open(one, handle), elsewhere = agent_open(other, handle);

	ASSERT_OK(cuMemFree(home));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(home));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(home, 0, 1));
	ASSERT_EQ(used + LARGE, used_bytes());
	agent_fill(one, there, 0x22, LARGE);
	ASSERT_EQ(0x22, agent_byte(other, elsewhere + LARGE - 1));
	ASSERT_EQ(there, agent_open(one, handle)); /* a process that has it open can open it once more */
	agent_close(one, there);
	agent_close(one, there);
	agent_cannot_open(one, handle, CUDA_ERROR_INVALID_VALUE, "freed the memory");
	ASSERT_EQ(used + LARGE, used_bytes());
	CUdeviceptr more = allocate(LARGE, 0x33); /* and does not disturb */
	ASSERT_NE(home, more);
	ASSERT_EQ(0x22, agent_byte(other, elsewhere));
	agent_close(other, elsewhere);
	while (used_bytes() != used + LARGE)
		sched_yield();
	ASSERT_OK(cuMemFree(more));
	agent_end(one);
	agent_end(other);
	await_quiet(used, descriptors);
}

/* Goal: the same for a part of a chunk: it is not reused before. */
TEST(a_freed_part_of_a_chunk_is_not_given_away)
{
	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	CUdeviceptr keeper = allocate(SMALL, 0x99), home = allocate(SMALL, 0x11), others[100];
	CUdeviceptr there = agent_open(agent, handle_of(home));

	ASSERT_OK(cuMemFree(home));
	for (int i = 0; i < 100; i++) {
		others[i] = allocate(SMALL, 0x55);
		ASSERT_NE(home, others[i]);
	}
	ASSERT_EQ(0x11, agent_byte(agent, there));
	agent_close(agent, there);
	CUdeviceptr again;
	do { /* the first place that is free is taken */
		again = allocate(SMALL, 0x66);
		ASSERT_OK(cuMemFree(again));
	} while (again != home);
	for (int i = 0; i < 100; i++)
		ASSERT_OK(cuMemFree(others[i]));
	ASSERT_OK(cuMemFree(keeper));
	agent_end(agent);
	await_quiet(0, descriptors);
}

/* Goal: a stale handle leads nowhere, also when other memory lies at the address. */
TEST(a_stale_handle_is_refused)
{
	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	CUdeviceptr keeper = allocate(SMALL, 0x99), home = allocate(SMALL, 0x11);
	CUipcMemHandle stale = handle_of(home);

	ASSERT_OK(cuMemFree(home));
	agent_cannot_open(agent, stale, CUDA_ERROR_INVALID_VALUE, "freed the memory");
	ASSERT_EQ(home, allocate(SMALL, 0x22));
	CUipcMemHandle fresh = handle_of(home);
	ASSERT_NE(0, memcmp(&stale, &fresh, sizeof fresh));
	agent_cannot_open(agent, stale, CUDA_ERROR_INVALID_VALUE, "freed the memory");
	CUdeviceptr there = agent_open(agent, fresh);
	ASSERT_EQ(0x22, agent_byte(agent, there));
	agent_close(agent, there);
	ASSERT_OK(cuMemFree(home));
	ASSERT_OK(cuMemFree(keeper));
	agent_end(agent);
	await_quiet(0, descriptors);
}

/* Goal: memory ends with its context, and stays in the processes that have it open. */
TEST(a_destroyed_context_is_a_free)
{
	CUcontext context;
	CUdeviceptr home;

	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	home = allocate(LARGE, 0x11);
	CUipcMemHandle handle = handle_of(home);
	CUdeviceptr there = agent_open(agent, handle);
	ASSERT_OK(cuCtxDestroy(context));
	use_device(0);
	ASSERT_EQ(LARGE, used_bytes());
	ASSERT_EQ(0x11, agent_byte(agent, there));
	agent_close(agent, there);
	agent_cannot_open(agent, handle, CUDA_ERROR_INVALID_VALUE, "freed the memory");
	agent_end(agent);
	await_quiet(0, descriptors);
}

/* ---- Deaths ------------------------------------------------------------------------------------------------------ */

/* Goal: the exporter dies, and a process that has its memory open notices nothing until it has closed it. */
TEST(exporter_dies)
{
	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	struct agent_answer exported =
		agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11});
	CUdeviceptr there = open_handle(exported.handle), more;

	peer_kill(agent);
	ASSERT_EQ(0x11, byte_at(there + LARGE - 1));
	fill(there, 0x22, LARGE);
	ASSERT_EQ(there, open_handle(exported.handle));
	ASSERT_OK(cuIpcCloseMemHandle(there));
	ASSERT_EQ(0x22, byte_at(there));
	ASSERT_OK(cuIpcCloseMemHandle(there));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&more, exported.handle, LAZY));
	ASSERT_CONTAINS("gone", cenote_last_error());
	while (test_descriptor_count() != descriptors)
		sched_yield();
	sweep_names();
}

/* Goal: an exporter that ends in order is as gone. */
TEST(exporter_ends)
{
	CUdeviceptr there;

	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent");
	struct agent_answer exported =
		agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11});
	there = open_handle(exported.handle);
	agent_must(agent, (struct agent_order){.call = AGENT_FREE, .at = exported.at});
	agent_end(agent);
	ASSERT_EQ(0x11, byte_at(there));
	ASSERT_OK(cuIpcCloseMemHandle(there));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&there, exported.handle, LAZY));
	while (test_descriptor_count() != descriptors)
		sched_yield();
}

/* Goal: what a dead process had open is open no more: freed before its death or after it, the memory goes back. */
TEST(opener_dies)
{
	begin();
	unsigned descriptors = test_descriptor_count();
	for (int freed_before = 0; freed_before < 2; freed_before++) {
		struct peer *dying = peer_start("agent"), *other = peer_start("agent");
		CUdeviceptr home = allocate(LARGE, 0x11);
		CUipcMemHandle handle = handle_of(home);
		agent_open(dying, handle);
		agent_open(dying, handle);
		CUdeviceptr there = agent_open(other, handle);
		if (freed_before)
			ASSERT_OK(cuMemFree(home));
		peer_kill(dying);
		ASSERT_EQ(0x11, agent_byte(other, there));
		if (!freed_before) {
			ASSERT_EQ(0x11, byte_at(home));
			ASSERT_OK(cuMemFree(home));
		}
		ASSERT_EQ(LARGE, used_bytes());
		agent_close(other, there);
		agent_end(other);
		await_quiet(0, descriptors);
	}
}

/* Goal: a child of a process that has memory open has none of it, and does not keep it. */
TEST(a_forked_child_lets_go)
{
	begin();
	unsigned descriptors = test_descriptor_count();
	struct peer *agent = peer_start("agent"), *dying = peer_start("agent");
	CUdeviceptr home = allocate(LARGE, 0x11);
	CUipcMemHandle handle = handle_of(home);

	CUdeviceptr there = agent_open(agent, handle);
	agent_open(dying, handle);
	agent_must(agent, (struct agent_order){.call = AGENT_FORK});
	ASSERT_OK(cuMemFree(home));
	agent_close(agent, there);
	ASSERT_EQ(LARGE, used_bytes());
	peer_kill(dying);
	while (used_bytes())
		sched_yield();
	agent_end(agent);
	await_quiet(0, descriptors);
}

/* ---- Contexts and devices ---------------------------------------------------------------------------------------- */

/* Goal: one context of a device at a time has another process's memory open; what it has ends with it. */
TEST(one_context_of_a_device)
{
	CUcontext first, second;
	CUdeviceptr there, more;

	begin();
	struct peer *agent = peer_start("agent"), *stranger = peer_start("agent");
	struct agent_order order = {.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11};
	CUipcMemHandle handle = agent_must(agent, order).handle, fresh = agent_must(agent, order).handle,
		       of_stranger = agent_must(stranger, order).handle;

	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	there = open_handle(handle);
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&more, handle, LAZY));
	ASSERT_CONTAINS("another context", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&more, fresh, LAZY));
	more = open_handle(of_stranger); /* each process is another matter */
	ASSERT_OK(cuIpcCloseMemHandle(more));
	ASSERT_OK(cuCtxDestroy(first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(there));
	there = open_handle(handle);
	ASSERT_EQ(0x11, byte_at(there));
	ASSERT_OK(cuCtxDestroy(second));
	agent_end(agent);
	agent_end(stranger);
	use_device(0);
	leaks_start_here(); /* two connections end when the service thread hears of it */
}

/* Goal: a context on each device may, each with a mapping of its own, and with access to the memory's device. */
TEST(a_context_on_each_device)
{
	CUdeviceptr there[2];
	int device;

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	begin();
	struct peer *agent = peer_start("agent", "1");
	CUipcMemHandle handle =
		agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11}).handle;
	CUcontext contexts[2];
	for (int i = 0; i < 2; i++) {
		contexts[i] = use_device(i);
		there[i] = open_handle(handle);
		ASSERT_EQ(0x11, byte_at(there[i]));
		ASSERT_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there[i]));
		ASSERT_EQ(1, device);
		fill(there[i], 0x11, LARGE);
	}
	ASSERT_NE(there[0], there[1]);
	ASSERT_OK(cuCtxSetCurrent(contexts[0]));
	ASSERT_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(contexts[1], 0));
	ASSERT_EQ(there[0], open_handle(handle));
	ASSERT_OK(cuIpcCloseMemHandle(there[0]));
	ASSERT_OK(cuIpcCloseMemHandle(there[0]));
	ASSERT_OK(cuCtxSetCurrent(contexts[1]));
	ASSERT_EQ(0x11, byte_at(there[1]));
	ASSERT_OK(cuIpcCloseMemHandle(there[1]));
	agent_end(agent);
	leaks_start_here();
}

/* Goal: a handle to a device that the opener cannot see opens. */
TEST(the_device_need_not_be_seen)
{
	setenv("CENOTE_HOST_DEVICES", "2", 1);
	begin();
	unsigned descriptors = test_descriptor_count();
	CUdeviceptr home = allocate(LARGE, 0x11);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	struct peer *agent = peer_start("agent");
	CUdeviceptr there = agent_open(agent, handle_of(home));
	ASSERT_EQ(0x11, agent_byte(agent, there));
	agent_fill(agent, there, 0x22, LARGE);
	ASSERT_EQ(0x22, byte_at(home + LARGE - 1));
	agent_close(agent, there);
	agent_end(agent);
	ASSERT_OK(cuMemFree(home));
	await_quiet(0, descriptors);
}

/* ---- The runtime ------------------------------------------------------------------------------------------------- */

/* Goal: the runtime's calls do the same, and tell the driver's of each other. */
TEST(runtime_forms)
{
	cudaIpcMemHandle_t handle;
	void *there, *home;

	begin();
	struct peer *agent = peer_start("agent");
	CUipcMemHandle given =
		agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = LARGE, .value = 0x11}).handle;
	memcpy(&handle, &given, sizeof handle);
	ASSERT_OK(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
	ASSERT_EQ((CUdeviceptr)(uintptr_t)there, open_handle(given));
	ASSERT_EQ(0x11, byte_at((CUdeviceptr)(uintptr_t)there));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFree(there));
	ASSERT_OK(cudaIpcCloseMemHandle(there));
	ASSERT_OK(cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)there));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaIpcCloseMemHandle(there));
	ASSERT_OK(cudaMalloc(&home, SMALL));
	ASSERT_OK(cudaIpcGetMemHandle(&handle, home));
	memcpy(&given, &handle, sizeof given);
	CUdeviceptr opened = agent_open(agent, given);
	agent_fill(agent, opened, 0x44, SMALL);
	ASSERT_EQ(0x44, byte_at((CUdeviceptr)(uintptr_t)home));
	agent_close(agent, opened);
	ASSERT_OK(cudaFree(home));
	agent_end(agent);
	leaks_start_here();
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, HANDLES = 6, ROUNDS = 400 / HARNESS_SLOWDOWN };

struct crowd {
	CUipcMemHandle handles[HANDLES];
	CUcontext context;
};

static void *open_and_close(void *data)
{
	static _Atomic uint64_t number;
	const struct crowd *crowd = data;
	struct test_random random = test_random_start(++number);

	ASSERT_OK(cuCtxSetCurrent(crowd->context));
	for (int i = 0; i < ROUNDS; i++) {
		size_t which = test_random_below(&random, HANDLES);
		CUdeviceptr there = open_handle(crowd->handles[which]);
		ASSERT_EQ(0x60 + which, byte_at(there));
		ASSERT_OK(cuIpcCloseMemHandle(there));
	}
	return NULL;
}

/* Goal: threads open and close the same memory at the same time, and nothing of it is left. */
TEST(threads_open_and_close)
{
	struct crowd crowd;
	pthread_t threads[THREADS];

	begin();
	unsigned descriptors = test_descriptor_count();
	crowd.context = use_device(0);
	struct peer *agent = peer_start("agent");
	CUdeviceptr theirs[HANDLES];
	for (unsigned i = 0; i < HANDLES; i++) {
		struct agent_answer answer =
			agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE,
							       .bytes = i < HANDLES / 2 ? SMALL : LARGE,
							       .value = 0x60 + i});
		crowd.handles[i] = answer.handle;
		theirs[i] = answer.at;
	}
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, open_and_close, &crowd));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < HANDLES; i++)
		agent_must(agent, (struct agent_order){.call = AGENT_FREE, .at = theirs[i]});
	while (agent_must(agent, (struct agent_order){.call = AGENT_USED}).value)
		sched_yield();
	agent_end(agent);
	while (test_descriptor_count() != descriptors)
		sched_yield();
}
