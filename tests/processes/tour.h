/* SPDX-License-Identifier: MIT */
/*
 * A tour: every way to share, from both sides, as a list of steps.
 *
 * The process that makes the tour shares what it has with a *partner*, a peer that nothing is kept from, and uses what
 * the partner shares. A step says how its call ended; those that need it are left out when it failed. At the end all
 * that was made is undone, which must work whatever was missing. So the same tour shows what can be had with few
 * descriptors, without /proc, under a rain of signals, and that everything can be had again afterwards.
 */
#ifndef CENOTE_TESTS_TOUR_H
#define CENOTE_TESTS_TOUR_H

#include "../share.h"

#include <sys/stat.h>

enum {
	TOUR_GRAIN = 2 << 20,
	TOUR_BLOCK = 100000,
	TOUR_BYTE = 0x6b,
	TOUR_SENTENCE_BYTES = 256,
};

/* ---- The partner ------------------------------------------------------------------------------------------------- */

/* What the partner shares; descriptors of the pool and of the memory follow. */
struct tour_gifts {
	CUmemPoolPtrExportData block;
	CUipcMemHandle legacy;
	CUipcEventHandle event;
	CUmemFabricHandle fabric;
};

/* What the partner is to import from us; a descriptor of a pool or of memory follows if it is of one. */
enum tour_asked { TOUR_ASKED_POOL, TOUR_ASKED_MEMORY, TOUR_ASKED_LEGACY, TOUR_ASKED_EVENT, TOUR_ASKED_END };

struct tour_question {
	enum tour_asked asked;
	union {
		CUmemPoolPtrExportData block;
		CUipcMemHandle legacy;
		CUipcEventHandle event;
	};
};

struct tour_answer {
	CUresult result;
	char sentence[TOUR_SENTENCE_BYTES];
};

static inline CUresult tour_first_error(CUresult first, CUresult second)
{
	return first ? first : second;
}

/* Import a pool and one block of it, look at the block, and let go of both. */
static inline CUresult tour_use_pool(int descriptor, CUmemPoolPtrExportData name)
{
	CUmemoryPool pool;
	CUdeviceptr block;
	unsigned char byte = 0;
	CUresult result = share_try_import(descriptor, &pool);

	if (result)
		return result;
	result = cuMemPoolImportPointer(&block, pool, &name);
	if (!result) {
		result = cuMemcpyDtoH(&byte, block, 1);
		ASSERT(result || byte == TOUR_BYTE);
		ASSERT_OK(cuMemFree(block));
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
	return result;
}

static inline CUresult tour_use_memory(int descriptor)
{
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptor, SHARE_POSIX);

	return result ? result : cuMemRelease(memory);
}

static inline CUresult tour_use_legacy(CUipcMemHandle handle)
{
	CUdeviceptr there;
	unsigned char byte = 0;
	CUresult result = cuIpcOpenMemHandle(&there, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

	if (result)
		return result;
	result = cuMemcpyDtoH(&byte, there, 1);
	ASSERT(result || byte == TOUR_BYTE);
	ASSERT_OK(cuIpcCloseMemHandle(there));
	return result;
}

static inline CUresult tour_use_event(CUipcEventHandle handle, CUstream stream)
{
	CUevent event;
	CUresult result = cuIpcOpenEventHandle(&event, handle);

	if (result)
		return result;
	result = cuStreamWaitEvent(stream, event, 0);
	result = tour_first_error(result, cuEventRecord(event, stream));
	result = tour_first_error(result, cuEventSynchronize(event));
	ASSERT_OK(cuEventDestroy(event));
	return result;
}

static inline CUresult tour_obey(struct peer *parent, struct tour_question *question, CUstream stream)
{
	CUresult result;
	int descriptor;

	if (question->asked == TOUR_ASKED_LEGACY)
		return tour_use_legacy(question->legacy);
	if (question->asked == TOUR_ASKED_EVENT)
		return tour_use_event(question->event, stream);
	descriptor = peer_receive_descriptor(parent);
	result = question->asked == TOUR_ASKED_POOL ? tour_use_pool(descriptor, question->block)
						    : tour_use_memory(descriptor);
	close(descriptor);
	return result;
}

static inline CUmemGenericAllocationHandle tour_memory(CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
		.requestedHandleTypes = type,
	};
	CUmemGenericAllocationHandle memory = 0;

	if (cuMemCreate(&memory, TOUR_GRAIN, &properties, 0))
		return 0;
	return memory;
}

ROLE(partner)
{
	struct tour_gifts gifts;
	struct tour_question question;
	int descriptor;
	CUdeviceptr legacy;
	CUevent event;
	CUstream stream = share_stream();
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUmemGenericAllocationHandle memory = tour_memory(SHARE_POSIX), fabric = tour_memory(CU_MEM_HANDLE_TYPE_FABRIC);

	leaks_watch(0); /* it ends with all it has; ports are for the life of a process */
	int pool_descriptor = share_export(pool);
	CUdeviceptr block = share_allocate(pool, TOUR_BLOCK, NULL);
	share_fill(block, TOUR_BYTE, TOUR_BLOCK);
	gifts.block = share_name(block);
	ASSERT_OK(cuMemAlloc(&legacy, TOUR_BLOCK));
	share_fill(legacy, TOUR_BYTE, TOUR_BLOCK);
	ASSERT_OK(cuIpcGetMemHandle(&gifts.legacy, legacy));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&gifts.event, event));
	ASSERT_OK(cuEventRecord(event, stream));
	if (!test_has_gpu())
		ASSERT_OK(cuMemExportToShareableHandle(&gifts.fabric, fabric, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	ASSERT_OK(cuMemExportToShareableHandle(&descriptor, memory, SHARE_POSIX, 0));
	peer_send_bytes(parent, &gifts, sizeof gifts);
	peer_send_descriptor(parent, pool_descriptor);
	peer_send_descriptor(parent, descriptor);
	for (;;) {
		struct tour_answer answer = {0};
		peer_receive_bytes(parent, &question, sizeof question);
		if (question.asked == TOUR_ASKED_END)
			return;
		answer.result = tour_obey(parent, &question, stream);
		if (answer.result)
			snprintf(answer.sentence, sizeof answer.sentence, "%s", cenote_last_error());
		peer_send_bytes(parent, &answer, sizeof answer);
	}
}

/* ---- The process that makes the tour ----------------------------------------------------------------------------- */

enum tour_step {
	TOUR_STREAM,
	TOUR_POOL,
	TOUR_EXPORT,
	TOUR_ALLOCATE,
	TOUR_NAME,
	TOUR_WATCH,
	TOUR_PARTNER_TAKES,
	TOUR_OWN_IMPORT,
	TOUR_MEMORY,
	TOUR_EXPORT_MEMORY,
	TOUR_MAP,
	TOUR_PARTNER_MEMORY,
	TOUR_LEGACY,
	TOUR_EXPORT_LEGACY,
	TOUR_PARTNER_LEGACY,
	TOUR_EVENT,
	TOUR_EXPORT_EVENT,
	TOUR_PARTNER_EVENT,
	TOUR_FABRIC,
	TOUR_EXPORT_FABRIC,
	TOUR_IMPORT_POOL,
	TOUR_IMPORT_MEMORY,
	TOUR_IMPORT_LEGACY,
	TOUR_IMPORT_EVENT,
	TOUR_IMPORT_FABRIC,
	TOUR_SEND_POOL,
	TOUR_RECEIVE_POOL,
	TOUR_SURVEY,
	TOUR_STEPS,
};

enum { TOUR_LEFT_OUT = -1 };

struct tour {
	struct peer *partner;
	struct tour_gifts gifts;
	int gift_pool, gift_memory, letters[2];

	CUstream stream;
	CUmemoryPool pool, received;
	CUdeviceptr block, range, legacy;
	CUmemPoolPtrExportData name;
	CUmemGenericAllocationHandle memory, fabric;
	CUipcMemHandle legacy_handle;
	CUipcEventHandle event_handle;
	CUmemFabricHandle fabric_handle;
	CUevent event;
	int pool_descriptor, memory_descriptor, watch;

	int results[TOUR_STEPS];
	char sentences[TOUR_STEPS][TOUR_SENTENCE_BYTES];
};

static inline CUresult tour_ask(struct tour *tour, struct tour_question question, int descriptor)
{
	struct tour_answer answer;

	peer_send_bytes(tour->partner, &question, sizeof question);
	if (descriptor >= 0)
		peer_send_descriptor(tour->partner, descriptor);
	peer_receive_bytes(tour->partner, &answer, sizeof answer);
	/* In the place of our own sentence: it is copied there after each step. */
	memcpy(tour->sentences[TOUR_STEPS - 1], answer.sentence, sizeof answer.sentence);
	return answer.result;
}

static inline CUresult tour_make_pool(struct tour *tour)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = SHARE_POSIX,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = SHARE_CHUNK,
	};

	return cuMemPoolCreate(&tour->pool, &properties);
}

static inline CUresult tour_allocate(struct tour *tour)
{
	CUresult result = cuMemAllocFromPoolAsync(&tour->block, TOUR_BLOCK, tour->pool, tour->stream);

	if (result)
		return result;
	result = cuMemsetD8Async(tour->block, TOUR_BYTE, TOUR_BLOCK, tour->stream);
	ASSERT_OK(tour_first_error(result, cuStreamSynchronize(tour->stream)));
	return CUDA_SUCCESS;
}

static inline CUresult tour_map(struct tour *tour)
{
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result = cuMemAddressReserve(&tour->range, TOUR_GRAIN, 0, 0, 0);

	if (result)
		return result;
	result = cuMemMap(tour->range, TOUR_GRAIN, 0, tour->memory, 0);
	if (!result) {
		result = cuMemSetAccess(tour->range, TOUR_GRAIN, &access, 1);
		result = tour_first_error(result, cuMemsetD8(tour->range, TOUR_BYTE, TOUR_GRAIN));
		ASSERT_OK(cuStreamSynchronize(NULL)); /* before it is unmapped */
		ASSERT_OK(cuMemUnmap(tour->range, TOUR_GRAIN));
	}
	ASSERT_OK(cuMemAddressFree(tour->range, TOUR_GRAIN));
	return result;
}

static inline CUresult tour_make_legacy(struct tour *tour)
{
	CUresult result = cuMemAlloc(&tour->legacy, TOUR_GRAIN); /* with a file of its own */

	if (!result)
		share_fill(tour->legacy, TOUR_BYTE, TOUR_BLOCK);
	return result;
}

static inline CUresult tour_make_event(struct tour *tour)
{
	CUresult result = cuEventCreate(&tour->event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);

	if (!result)
		ASSERT_OK(cuEventRecord(tour->event, tour->stream));
	return result;
}

static inline CUresult tour_make_memory(CUmemAllocationHandleType type, CUmemGenericAllocationHandle *ret_memory)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
		.requestedHandleTypes = type,
	};

	return cuMemCreate(ret_memory, TOUR_GRAIN, &properties, 0);
}

static inline CUresult tour_import_fabric(struct tour *tour)
{
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemImportFromShareableHandle(&memory, &tour->gifts.fabric, CU_MEM_HANDLE_TYPE_FABRIC);

	return result ? result : cuMemRelease(memory);
}

static inline void tour_found(const cenote_shared *found, void *data)
{
	(void)found, (void)data;
}

static inline CUresult tour_call(struct tour *tour, enum tour_step step)
{
	struct tour_question question = {.asked = TOUR_ASKED_POOL};

	switch (step) {
	case TOUR_STREAM: return cuStreamCreate(&tour->stream, CU_STREAM_NON_BLOCKING);
	case TOUR_POOL: return tour_make_pool(tour);
	case TOUR_EXPORT: return cuMemPoolExportToShareableHandle(&tour->pool_descriptor, tour->pool, SHARE_POSIX, 0);
	case TOUR_ALLOCATE: return tour_allocate(tour);
	case TOUR_NAME: return cuMemPoolExportPointer(&tour->name, tour->block);
	case TOUR_WATCH: return cenote_pool_watch(tour->pool, &tour->watch);
	case TOUR_PARTNER_TAKES: question.block = tour->name; return tour_ask(tour, question, tour->pool_descriptor);
	case TOUR_OWN_IMPORT: return tour_use_pool(tour->pool_descriptor, tour->name);
	case TOUR_MEMORY: return tour_make_memory(SHARE_POSIX, &tour->memory);
	case TOUR_EXPORT_MEMORY:
		return cuMemExportToShareableHandle(&tour->memory_descriptor, tour->memory, SHARE_POSIX, 0);
	case TOUR_MAP: return tour_map(tour);
	case TOUR_PARTNER_MEMORY:
		question.asked = TOUR_ASKED_MEMORY;
		return tour_ask(tour, question, tour->memory_descriptor);
	case TOUR_LEGACY: return tour_make_legacy(tour);
	case TOUR_EXPORT_LEGACY: return cuIpcGetMemHandle(&tour->legacy_handle, tour->legacy);
	case TOUR_PARTNER_LEGACY:
		question.asked = TOUR_ASKED_LEGACY;
		question.legacy = tour->legacy_handle;
		return tour_ask(tour, question, -1);
	case TOUR_EVENT: return tour_make_event(tour);
	case TOUR_EXPORT_EVENT: return cuIpcGetEventHandle(&tour->event_handle, tour->event);
	case TOUR_PARTNER_EVENT:
		question.asked = TOUR_ASKED_EVENT;
		question.event = tour->event_handle;
		return tour_ask(tour, question, -1);
	case TOUR_FABRIC: return tour_make_memory(CU_MEM_HANDLE_TYPE_FABRIC, &tour->fabric);
	case TOUR_EXPORT_FABRIC:
		return cuMemExportToShareableHandle(&tour->fabric_handle, tour->fabric, CU_MEM_HANDLE_TYPE_FABRIC, 0);
	case TOUR_IMPORT_POOL: return tour_use_pool(tour->gift_pool, tour->gifts.block);
	case TOUR_IMPORT_MEMORY: return tour_use_memory(tour->gift_memory);
	case TOUR_IMPORT_LEGACY: return tour_use_legacy(tour->gifts.legacy);
	case TOUR_IMPORT_EVENT: return tour_use_event(tour->gifts.event, tour->stream);
	case TOUR_IMPORT_FABRIC: return tour_import_fabric(tour);
	case TOUR_SEND_POOL: return cenote_send_pool(tour->letters[0], tour->pool);
	case TOUR_RECEIVE_POOL: return cenote_recv_pool(tour->letters[1], &tour->received);
	default: return cenote_survey(0, tour_found, NULL);
	}
}

#define TOUR_BIT(step) (1u << (step))

/* Which steps must have succeeded before. */
static const unsigned tour_needs[TOUR_STEPS] = {
	[TOUR_EXPORT] = TOUR_BIT(TOUR_POOL),
	[TOUR_ALLOCATE] = TOUR_BIT(TOUR_POOL) | TOUR_BIT(TOUR_STREAM),
	[TOUR_NAME] = TOUR_BIT(TOUR_EXPORT) | TOUR_BIT(TOUR_ALLOCATE),
	[TOUR_WATCH] = TOUR_BIT(TOUR_EXPORT),
	[TOUR_PARTNER_TAKES] = TOUR_BIT(TOUR_NAME),
	[TOUR_OWN_IMPORT] = TOUR_BIT(TOUR_NAME),
	[TOUR_EXPORT_MEMORY] = TOUR_BIT(TOUR_MEMORY),
	[TOUR_MAP] = TOUR_BIT(TOUR_MEMORY),
	[TOUR_PARTNER_MEMORY] = TOUR_BIT(TOUR_EXPORT_MEMORY),
	[TOUR_EXPORT_LEGACY] = TOUR_BIT(TOUR_LEGACY),
	[TOUR_PARTNER_LEGACY] = TOUR_BIT(TOUR_EXPORT_LEGACY),
	[TOUR_EVENT] = TOUR_BIT(TOUR_STREAM),
	[TOUR_EXPORT_EVENT] = TOUR_BIT(TOUR_EVENT),
	[TOUR_PARTNER_EVENT] = TOUR_BIT(TOUR_EXPORT_EVENT),
	[TOUR_EXPORT_FABRIC] = TOUR_BIT(TOUR_FABRIC),
	[TOUR_IMPORT_EVENT] = TOUR_BIT(TOUR_STREAM),
	[TOUR_SEND_POOL] = TOUR_BIT(TOUR_POOL),
	[TOUR_RECEIVE_POOL] = TOUR_BIT(TOUR_SEND_POOL),
};

static const char *const tour_names[TOUR_STEPS] = {
	[TOUR_STREAM] = "cuStreamCreate",
	[TOUR_POOL] = "cuMemPoolCreate",
	[TOUR_EXPORT] = "cuMemPoolExportToShareableHandle",
	[TOUR_ALLOCATE] = "cuMemAllocFromPoolAsync",
	[TOUR_NAME] = "cuMemPoolExportPointer",
	[TOUR_WATCH] = "cenote_pool_watch",
	[TOUR_PARTNER_TAKES] = "the partner's cuMemPoolImportPointer",
	[TOUR_OWN_IMPORT] = "cuMemPoolImportPointer of one's own",
	[TOUR_MEMORY] = "cuMemCreate",
	[TOUR_EXPORT_MEMORY] = "cuMemExportToShareableHandle",
	[TOUR_MAP] = "cuMemMap",
	[TOUR_PARTNER_MEMORY] = "the partner's cuMemImportFromShareableHandle",
	[TOUR_LEGACY] = "cuMemAlloc",
	[TOUR_EXPORT_LEGACY] = "cuIpcGetMemHandle",
	[TOUR_PARTNER_LEGACY] = "the partner's cuIpcOpenMemHandle",
	[TOUR_EVENT] = "cuEventCreate",
	[TOUR_EXPORT_EVENT] = "cuIpcGetEventHandle",
	[TOUR_PARTNER_EVENT] = "the partner's cuIpcOpenEventHandle",
	[TOUR_FABRIC] = "cuMemCreate for the fabric",
	[TOUR_EXPORT_FABRIC] = "cuMemExportToShareableHandle to the fabric",
	[TOUR_IMPORT_POOL] = "cuMemPoolImportPointer",
	[TOUR_IMPORT_MEMORY] = "cuMemImportFromShareableHandle",
	[TOUR_IMPORT_LEGACY] = "cuIpcOpenMemHandle",
	[TOUR_IMPORT_EVENT] = "cuIpcOpenEventHandle",
	[TOUR_IMPORT_FABRIC] = "cuMemImportFromShareableHandle from the fabric",
	[TOUR_SEND_POOL] = "cenote_send_pool",
	[TOUR_RECEIVE_POOL] = "cenote_recv_pool",
	[TOUR_SURVEY] = "cenote_survey",
};

static inline bool tour_is_partners(unsigned step)
{
	return step == TOUR_PARTNER_TAKES || step == TOUR_PARTNER_MEMORY || step == TOUR_PARTNER_LEGACY ||
	       step == TOUR_PARTNER_EVENT;
}

/* A GPU's channels are the machine's: there, the tour keeps off the fabric. */
static inline bool tour_is_off(unsigned step)
{
	return test_has_gpu() && (step == TOUR_FABRIC || step == TOUR_EXPORT_FABRIC || step == TOUR_IMPORT_FABRIC);
}

/* On a GPU only pools, and what is Cenote's own, are Cenote's: the others need nothing of what it needs. */
static inline bool tour_is_ours(unsigned step)
{
	return !test_has_gpu() || (step >= TOUR_POOL && step <= TOUR_OWN_IMPORT) || step == TOUR_IMPORT_POOL ||
	       step >= TOUR_SEND_POOL;
}

static inline bool tour_did(const struct tour *tour, enum tour_step step)
{
	return tour->results[step] == CUDA_SUCCESS;
}

/* In the reverse order; nothing of it may fail, whatever is missing. */
static inline void tour_undo(struct tour *tour)
{
	char letter[8];

	if (tour_did(tour, TOUR_RECEIVE_POOL))
		ASSERT_OK(cuMemPoolDestroy(tour->received));
	/* One that was not received lies in the socket, or has been thrown away. */
	while (recv(tour->letters[1], letter, sizeof letter, MSG_DONTWAIT) > 0)
		continue;
	if (tour_did(tour, TOUR_FABRIC))
		ASSERT_OK(cuMemRelease(tour->fabric));
	if (tour_did(tour, TOUR_EVENT))
		ASSERT_OK(cuEventDestroy(tour->event));
	if (tour_did(tour, TOUR_LEGACY))
		ASSERT_OK(cuMemFree(tour->legacy));
	if (tour_did(tour, TOUR_EXPORT_MEMORY))
		close(tour->memory_descriptor);
	if (tour_did(tour, TOUR_MEMORY))
		ASSERT_OK(cuMemRelease(tour->memory));
	if (tour_did(tour, TOUR_WATCH))
		close(tour->watch);
	if (tour_did(tour, TOUR_ALLOCATE))
		ASSERT_OK(cuMemFreeAsync(tour->block, tour->stream));
	if (tour_did(tour, TOUR_EXPORT))
		close(tour->pool_descriptor);
	if (tour_did(tour, TOUR_POOL))
		ASSERT_OK(cuMemPoolDestroy(tour->pool));
	if (tour_did(tour, TOUR_STREAM))
		ASSERT_OK(cuStreamDestroy(tour->stream));
}

/* All steps, and back. How each ended is in `results`, and why in `sentences`. */
static inline void tour_make(struct tour *tour)
{
	for (unsigned step = 0; step < TOUR_STEPS; step++) {
		bool ready = !tour_is_off(step);
		for (unsigned other = 0; other < step; other++)
			ready &= !(tour_needs[step] & TOUR_BIT(other)) || !tour->results[other];
		tour->sentences[step][0] = '\0';
		tour->results[step] = ready ? (int)tour_call(tour, step) : TOUR_LEFT_OUT;
		if (tour->results[step] <= 0)
			continue;
		const char *why = tour_is_partners(step) ? tour->sentences[TOUR_STEPS - 1] : cenote_last_error();
		snprintf(tour->sentences[step], TOUR_SENTENCE_BYTES, "%s", why);
	}
	tour_undo(tour);
}

/* The same where nothing is missing. */
static inline void tour_must(struct tour *tour)
{
	tour_make(tour);
	for (unsigned step = 0; step < TOUR_STEPS; step++)
		if (tour->results[step] && !tour_is_off(step))
			FAIL("%s failed: %d, %s", tour_names[step], tour->results[step], tour->sentences[step]);
}

/* A channel of the fabric and a directory for it, before the first process of the test starts. */
static inline void tour_prepare(void)
{
	char path[512];

	snprintf(path, sizeof path, "%s/imex", test_directory());
	ASSERT_SYS(mkdir(path, 0755));
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", path, 1));
	snprintf(path, sizeof path, "%s/imex/channel0", test_directory());
	ASSERT_SYS(close(open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
	snprintf(path, sizeof path, "%s/fabric", test_directory());
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", path, 1));
}

static inline void tour_begin(struct tour *tour)
{
	*tour = (struct tour){.partner = peer_start("partner")};
	peer_receive_bytes(tour->partner, &tour->gifts, sizeof tour->gifts);
	tour->gift_pool = peer_receive_descriptor(tour->partner);
	tour->gift_memory = peer_receive_descriptor(tour->partner);
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tour->letters));
}

static inline void tour_end(struct tour *tour)
{
	struct tour_question end = {.asked = TOUR_ASKED_END};

	peer_send_bytes(tour->partner, &end, sizeof end);
	peer_wait(tour->partner);
	close(tour->gift_pool);
	close(tour->gift_memory);
	close(tour->letters[0]);
	close(tour->letters[1]);
}

#endif
