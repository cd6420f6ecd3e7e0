/* SPDX-License-Identifier: MIT */
/*
 * What tests of fabric handles have in common: channels, users, and agents.
 *
 * An agent is a peer that does what the test tells it, call by call, as the user and with the channels that the test
 * gave it, and reports how each call ended. The test itself calls no CUDA: it stays root, where it is, and decides
 * which agent can read what.
 */
#ifndef CENOTE_TESTS_FABRIC_H
#define CENOTE_TESTS_FABRIC_H

#include "cenote/cenote.h"
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC
#define POSIX  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

enum {
	FIRST_USER = 64125, /* no real user */
	SECOND_USER = 64126,
	SAME_USER = 0, /* the user that runs the test */
	GRAIN = 2 << 20,
	BLOCK = 100000,
	SENTENCE_BYTES = 300,
};

/* ---- Channels and users ------------------------------------------------------------------------------------------ */

static inline void make_directory(const char *name, unsigned user, mode_t mode)
{
	ASSERT_SYS(mkdir(test_path(name), 0700));
	if (user)
		ASSERT_SYS(chown(test_path(name), user, user));
	ASSERT_SYS(chmod(test_path(name), mode));
}

/* A channel "directory/channelN" of a user. */
static inline void make_channel(const char *name, unsigned user, mode_t mode)
{
	int file = open(test_path(name), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ASSERT_SYS(file);
	if (user)
		ASSERT_SYS(fchown(file, user, user));
	ASSERT_SYS(fchmod(file, mode));
	close(file);
}

/* Directories for all: of channels (none yet), of ports, and of each user's own port. */
static inline void set_stage(void)
{
	const char *device = getenv("CENOTE_DEVICE");

	if (!device || strcmp(device, "host") != 0)
		SKIP("a GPU's channels are device nodes, of the whole machine");
	ASSERT_SYS(chmod(test_directory(), 0711));
	make_directory("imex", SAME_USER, 0755);
	make_directory("fabric", SAME_USER, 01777);
	make_directory("run", SAME_USER, 0700);
	if (geteuid() == 0) {
		make_directory("run64125", FIRST_USER, 0700);
		make_directory("run64126", SECOND_USER, 0700);
	}
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", test_path("imex"), 1));
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("fabric"), 1));
}

static inline void become(unsigned user)
{
	char run[16] = "run";

	if (user)
		snprintf(run, sizeof run, "run%u", user);
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", test_path(run), 1));
	if (!user)
		return;
	ASSERT_SYS(setgroups(0, NULL));
	ASSERT_SYS(setresgid(user, user, user));
	ASSERT_SYS(setresuid(user, user, user));
	/* A process that changes its user may not look into its own /proc any more, unless it says so. */
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1));
}

/* How many names the processes have where all users meet: in a folder each, which stays. */
static inline unsigned count_names(void)
{
	DIR *folders = opendir(test_path("fabric"));
	unsigned count = 0;

	ASSERT(folders);
	for (struct dirent *entry; (entry = readdir(folders));) {
		char name[300];
		snprintf(name, sizeof name, "fabric/%s", entry->d_name);
		if (entry->d_name[0] != '.')
			count += test_file_count(test_path(name));
	}
	closedir(folders);
	return count;
}

/* ---- Agents ------------------------------------------------------------------------------------------------------ */

enum agent_call {
	CREATE_MEMORY, /* GRAIN bytes of `types`: object */
	EXPORT_MEMORY, /* object: handle */
	IMPORT_MEMORY, /* handle: object */
	MAP,           /* object: at */
	UNMAP,         /* at */
	RELEASE,       /* object */
	CREATE_POOL,   /* `types`: object */
	EXPORT_POOL,   /* object: handle */
	IMPORT_POOL,   /* handle: object */
	EXPORT_POSIX,  /* object; the descriptor follows an answer that is good */
	IMPORT_POSIX,  /* object; the descriptor follows the order */
	DESTROY,       /* object */
	ALLOCATE,      /* BLOCK bytes of a pool, object: at, name */
	TAKE,          /* object, name: at */
	FREE,          /* at */
	FILL,          /* at, `value` bytes' number, of `types`' value */
	READ,          /* at: value */
	OPEN_LEGACY,   /* handle, as of memory: at */
	OPEN_EVENT,    /* handle, as of an event */
	POOL_USED,     /* object: value */
	MEMORY_USED,   /* value */
	DESCRIPTORS,   /* value */
	END,
};

struct order {
	enum agent_call call;
	unsigned types;
	uint64_t object, value;
	CUdeviceptr at;
	CUmemFabricHandle handle;
	CUmemPoolPtrExportData name;
};

struct answer {
	CUresult result;
	uint64_t object, value;
	CUdeviceptr at;
	CUmemFabricHandle handle;
	CUmemPoolPtrExportData name;
	char sentence[SENTENCE_BYTES];
};

static inline CUresult create_memory(unsigned types, uint64_t *ret_object)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = (CUmemAllocationHandleType)types,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemCreate(&memory, GRAIN, &properties, 0);

	if (!result)
		*ret_object = memory;
	return result;
}

static inline CUresult create_pool(unsigned types, uint64_t *ret_object)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = (CUmemAllocationHandleType)types,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	CUresult result = cuMemPoolCreate(&pool, &properties);

	if (!result)
		*ret_object = (uintptr_t)pool;
	return result;
}

static inline CUdeviceptr map_memory(CUmemGenericAllocationHandle memory)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at;

	ASSERT_OK(cuMemAddressReserve(&at, GRAIN, 0, 0, 0));
	ASSERT_OK(cuMemMap(at, GRAIN, 0, memory, 0));
	ASSERT_OK(cuMemSetAccess(at, GRAIN, &access, 1));
	return at;
}

static inline CUresult obey_memory(const struct order *order, struct answer *answer)
{
	CUmemGenericAllocationHandle memory = 0;
	CUmemFabricHandle handle = order->handle;
	CUresult result;

	switch (order->call) {
	case CREATE_MEMORY: return create_memory(order->types, &answer->object);
	case EXPORT_MEMORY: return cuMemExportToShareableHandle(&answer->handle, order->object, FABRIC, 0);
	case IMPORT_MEMORY:
		result = cuMemImportFromShareableHandle(&memory, &handle, FABRIC);
		ASSERT_EQ(result != CUDA_SUCCESS, memory == 0); /* untouched, if refused */
		answer->object = memory;
		return result;
	case MAP: answer->at = map_memory(order->object); return CUDA_SUCCESS;
	case UNMAP: result = cuMemUnmap(order->at, GRAIN); return result ? result : cuMemAddressFree(order->at, GRAIN);
	default: return cuMemRelease(order->object);
	}
}

static inline CUresult obey_pool(const struct order *order, struct answer *answer, int *descriptor)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)order->object, got = NULL;
	CUmemFabricHandle handle = order->handle;
	CUmemPoolPtrExportData name = order->name;
	cenote_pool_statistics statistics;
	CUresult result;

	switch (order->call) {
	case CREATE_POOL: return create_pool(order->types, &answer->object);
	case EXPORT_POOL: return cuMemPoolExportToShareableHandle(&answer->handle, pool, FABRIC, 0);
	case EXPORT_POSIX: return cuMemPoolExportToShareableHandle(descriptor, pool, POSIX, 0);
	case IMPORT_POOL:
		result = cuMemPoolImportFromShareableHandle(&got, &handle, FABRIC, 0);
		answer->object = (uintptr_t)got;
		return result;
	case IMPORT_POSIX:
		result = cuMemPoolImportFromShareableHandle(&got, (void *)(intptr_t)*descriptor, POSIX, 0);
		answer->object = (uintptr_t)got;
		return result;
	case ALLOCATE:
		result = cuMemAllocFromPoolAsync(&answer->at, BLOCK, pool, NULL);
		return result ? result : cuMemPoolExportPointer(&answer->name, answer->at);
	case TAKE: return cuMemPoolImportPointer(&answer->at, pool, &name);
	case POOL_USED:
		result = cenote_pool_stats(pool, &statistics, sizeof statistics);
		answer->value = statistics.used_bytes;
		return result;
	default: return cuMemPoolDestroy(pool);
	}
}

static inline CUresult obey_rest(const struct order *order, struct answer *answer)
{
	CUipcMemHandle memory;
	CUipcEventHandle of_event;
	CUevent event;
	size_t free_bytes, total_bytes;
	unsigned char byte = 0;
	CUresult result;

	switch (order->call) {
	case FREE: return cuMemFree(order->at);
	case FILL:
		result = cuMemsetD8(order->at, (unsigned char)order->types, order->value);
		return result ? result : cuCtxSynchronize();
	case READ:
		result = cuMemcpyDtoH(&byte, order->at, 1);
		answer->value = byte;
		return result;
	case OPEN_LEGACY:
		memcpy(&memory, &order->handle, sizeof memory);
		return cuIpcOpenMemHandle(&answer->at, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	case OPEN_EVENT:
		memcpy(&of_event, &order->handle, sizeof of_event);
		return cuIpcOpenEventHandle(&event, of_event);
	case MEMORY_USED:
		result = cuMemGetInfo(&free_bytes, &total_bytes);
		answer->value = total_bytes - free_bytes;
		return result;
	case DESCRIPTORS: answer->value = test_descriptor_count(); return CUDA_SUCCESS;
	case END: return CUDA_SUCCESS;
	default: FAIL("an agent does not know call %d", (int)order->call);
	}
}

static inline void obey(struct peer *parent, const struct order *order)
{
	struct answer answer = {.at = order->at};
	int descriptor = order->call == IMPORT_POSIX ? peer_receive_descriptor(parent) : -1;

	if (order->call <= RELEASE) {
		answer.result = obey_memory(order, &answer);
	} else if (order->call <= TAKE || order->call == POOL_USED) {
		answer.result = obey_pool(order, &answer, &descriptor);
	} else {
		answer.result = obey_rest(order, &answer);
	}
	if (answer.result)
		snprintf(answer.sentence, sizeof answer.sentence, "%s", cenote_last_error());
	peer_send_bytes(parent, &answer, sizeof answer);
	if (order->call == EXPORT_POSIX && !answer.result)
		peer_send_descriptor(parent, descriptor);
	if (descriptor >= 0)
		close(descriptor);
}

static inline void use_device(void)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
}

/* ---- What a test tells them -------------------------------------------------------------------------------------- */

static inline struct peer *agent_of(unsigned user)
{
	char number[16];

	snprintf(number, sizeof number, "%u", user);
	return peer_start("agent", number);
}

static inline struct answer tell(struct peer *agent, struct order order)
{
	struct answer answer;

	peer_send_bytes(agent, &order, sizeof order);
	peer_receive_bytes(agent, &answer, sizeof answer);
	return answer;
}

/* The same for what must go well. */
static inline struct answer must(struct peer *agent, struct order order)
{
	struct answer answer = tell(agent, order);

	if (answer.result)
		FAIL("call %d: %d: %s", (int)order.call, (int)answer.result, answer.sentence);
	return answer;
}

/* The same for what must be refused, with this code and these words. */
static inline void must_not(struct peer *agent, struct order order, CUresult code, const char *words)
{
	struct answer answer = tell(agent, order);

	if (answer.result != code)
		FAIL("call %d: %d, not %d: %s", (int)order.call, (int)answer.result, (int)code, answer.sentence);
	ASSERT_CONTAINS(words, answer.sentence);
}

static inline void fill(struct peer *agent, CUdeviceptr at, unsigned value, size_t bytes)
{
	must(agent, (struct order){.call = FILL, .at = at, .types = value, .value = bytes});
}

static inline unsigned byte_at(struct peer *agent, CUdeviceptr at)
{
	return (unsigned)must(agent, (struct order){.call = READ, .at = at}).value;
}

static inline uint64_t number_of(struct peer *agent, enum agent_call call, uint64_t object)
{
	return must(agent, (struct order){.call = call, .object = object}).value;
}

static inline void agent_end(struct peer *agent)
{
	must(agent, (struct order){.call = END});
	peer_wait(agent);
}

/* ---- Memory, a pool and a block, in the exporter and in an importer ---------------------------------------------- */

struct things {
	uint64_t memory, pool;
	CUdeviceptr at, block; /* of the memory and in the pool */
	CUmemFabricHandle memory_handle, pool_handle;
	CUmemPoolPtrExportData name;
};

static inline struct things share(struct peer *exporter, unsigned types)
{
	struct things things;

	things.memory = must(exporter, (struct order){.call = CREATE_MEMORY, .types = types}).object;
	things.at = must(exporter, (struct order){.call = MAP, .object = things.memory}).at;
	things.memory_handle = must(exporter, (struct order){.call = EXPORT_MEMORY, .object = things.memory}).handle;
	things.pool = must(exporter, (struct order){.call = CREATE_POOL, .types = types}).object;
	things.pool_handle = must(exporter, (struct order){.call = EXPORT_POOL, .object = things.pool}).handle;
	struct answer block = must(exporter, (struct order){.call = ALLOCATE, .object = things.pool});
	things.block = block.at;
	things.name = block.name;
	fill(exporter, things.at, 0x11, GRAIN);
	fill(exporter, things.block, 0x22, BLOCK);
	return things;
}

/* Import all of it. */
static inline struct things take(struct peer *importer, const struct things *shared)
{
	struct things here = *shared;

	here.memory = must(importer, (struct order){.call = IMPORT_MEMORY, .handle = shared->memory_handle}).object;
	here.at = must(importer, (struct order){.call = MAP, .object = here.memory}).at;
	here.pool = must(importer, (struct order){.call = IMPORT_POOL, .handle = shared->pool_handle}).object;
	here.block = must(importer, (struct order){.call = TAKE, .object = here.pool, .name = shared->name}).at;
	return here;
}

static inline void refuse(struct peer *importer, const struct things *shared, CUresult code, const char *words)
{
	must_not(importer, (struct order){.call = IMPORT_MEMORY, .handle = shared->memory_handle}, code, words);
	must_not(importer, (struct order){.call = IMPORT_POOL, .handle = shared->pool_handle}, code, words);
}

/* One memory: what either writes the other reads, first byte and last. */
static inline void see_one_memory(struct peer *one, const struct things *here, struct peer *other,
				  const struct things *there, unsigned value)
{
	fill(one, here->at + GRAIN - 1, value, 1);
	fill(one, here->block, value + 1, BLOCK);
	ASSERT_EQ(value, byte_at(other, there->at + GRAIN - 1));
	ASSERT_EQ(value + 1, byte_at(other, there->block));
	ASSERT_EQ(value + 1, byte_at(other, there->block + BLOCK - 1));
	fill(other, there->at, value + 2, GRAIN);
	fill(other, there->block + BLOCK - 1, value + 3, 1);
	ASSERT_EQ(value + 2, byte_at(one, here->at));
	ASSERT_EQ(value + 3, byte_at(one, here->block + BLOCK - 1));
}

/* Both the exporter's things and an importer's end like this; the pool when all its blocks have. */
static inline void let_go_but_pool(struct peer *agent, const struct things *things)
{
	must(agent, (struct order){.call = UNMAP, .at = things->at});
	must(agent, (struct order){.call = RELEASE, .object = things->memory});
	must(agent, (struct order){.call = FREE, .at = things->block});
}

static inline void let_go(struct peer *agent, const struct things *things)
{
	let_go_but_pool(agent, things);
	must(agent, (struct order){.call = DESTROY, .object = things->pool});
}

#endif
