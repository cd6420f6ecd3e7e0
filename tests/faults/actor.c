/* SPDX-License-Identifier: MIT */
/*
 * Actors: see actor.h. Each public call goes through CALL, which requires a sentence for each failure.
 */
#include "actor.h"

#include "audit.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

enum {
	POOL_BYTES = 32 << 20,
	BLOCK_BYTES = 100000,
	MEMORY_BYTES = 2 << 20,
	FIRST_VALUE = 0x41, /* in block 0, one more in block 1 */
};

const char *const action_names[] = {
	[ACTION_START] = "start",
	[ACTION_STREAM] = "stream",
	[ACTION_SYNC] = "sync",
	[ACTION_POOL_CREATE] = "pool create",
	[ACTION_POOL_EXPORT] = "pool export",
	[ACTION_POOL_EXPORT_FABRIC] = "pool export fabric",
	[ACTION_POOL_IMPORT] = "pool import",
	[ACTION_POOL_IMPORT_FABRIC] = "pool import fabric",
	[ACTION_POOL_WATCH] = "pool watch",
	[ACTION_POOL_EVICT] = "pool evict",
	[ACTION_POOL_IDLE] = "pool idle",
	[ACTION_POOL_DESTROY] = "pool destroy",
	[ACTION_BLOCK_ALLOCATE] = "block allocate",
	[ACTION_BLOCK_NAME] = "block name",
	[ACTION_BLOCK_TAKE] = "block take",
	[ACTION_BLOCK_READ] = "block read",
	[ACTION_BLOCK_FREE] = "block free",
	[ACTION_EVENT_CREATE] = "event create",
	[ACTION_EVENT_HANDLE] = "event handle",
	[ACTION_EVENT_OPEN] = "event open",
	[ACTION_EVENT_RECORD] = "event record",
	[ACTION_EVENT_ENQUEUE] = "event enqueue",
	[ACTION_EVENT_WAIT] = "event wait",
	[ACTION_EVENT_DESTROY] = "event destroy",
	[ACTION_MEMORY_CREATE] = "memory create",
	[ACTION_MEMORY_EXPORT] = "memory export",
	[ACTION_MEMORY_EXPORT_FABRIC] = "memory export fabric",
	[ACTION_MEMORY_IMPORT] = "memory import",
	[ACTION_MEMORY_IMPORT_FABRIC] = "memory import fabric",
	[ACTION_MEMORY_MAP] = "memory map",
	[ACTION_MEMORY_WRITE] = "memory write",
	[ACTION_MEMORY_READ] = "memory read",
	[ACTION_MEMORY_UNMAP] = "memory unmap",
	[ACTION_LEGACY_ALLOCATE] = "legacy allocate",
	[ACTION_LEGACY_HANDLE] = "legacy handle",
	[ACTION_LEGACY_OPEN] = "legacy open",
	[ACTION_LEGACY_READ] = "legacy read",
	[ACTION_LEGACY_CLOSE] = "legacy close",
	[ACTION_LIMIT] = "limit",
	[ACTION_GATE] = "gate",
	[ACTION_SOCKET] = "socket",
	[ACTION_SEND_POOL] = "send pool",
	[ACTION_RECV_POOL] = "recv pool",
	[ACTION_SEND_BLOCK] = "send block",
	[ACTION_RECV_BLOCK] = "recv block",
	[ACTION_CLEAN] = "clean",
	[ACTION_SURVEY] = "survey",
	[ACTION_SWEEP] = "sweep",
	[ACTION_REMEMBER] = "remember",
	[ACTION_AUDIT] = "audit",
	[ACTION_END] = "end",
};

static struct actor {
	CUcontext context;
	CUstream stream;
	CUmemoryPool pool;
	bool pool_is_own, pool_is_idle;
	CUdeviceptr blocks[ACTOR_BLOCKS];
	CUevent events[ACTOR_EVENTS];
	int gate;
	CUmemGenericAllocationHandle memory;
	CUdeviceptr range;
	bool mapped;
	CUdeviceptr legacy;
	bool legacy_is_own;
	int sock;
	struct fault_board *board;
	struct answer *answer;
	int gift; /* a descriptor that goes with the answer */
} self = {.gate = -1, .sock = -1, .gift = -1};

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

bool message_send(int sock, const void *bytes, size_t size_bytes, int descriptor)
{
	struct iovec part = {(void *)(uintptr_t)bytes, size_bytes};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t sent;

	if (descriptor >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
	}
	do
		sent = sendmsg(sock, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size_bytes;
}

bool message_receive(int sock, void *ret_bytes, size_t size_bytes, int *ret_descriptor)
{
	struct iovec part = {ret_bytes, size_bytes};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof control.bytes};
	ssize_t got;

	do
		got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	*ret_descriptor = -1;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_descriptor, CMSG_DATA(header), sizeof(int));
	return got == (ssize_t)size_bytes;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static CUresult note(const char *call, CUresult result)
{
	struct answer *answer = self.answer;

	if (!result)
		return result;
	snprintf(answer->call, sizeof answer->call, "%s", call);
	snprintf(answer->sentence, sizeof answer->sentence, "%s", cenote_last_error());
	answer->silent = !*answer->sentence;
	return answer->result = result;
}

/* One public call: the action ends if it fails. */
#define CALL(call)                                        \
	do {                                              \
		fault_forget_sentence();                  \
		CUresult call_result = note(#call, call); \
		if (call_result)                          \
			return call_result;               \
	} while (0)

#define IDLE_UNLESS(condition)                    \
	do {                                      \
		if (!(condition)) {               \
			self.answer->idle = true; \
			return CUDA_SUCCESS;      \
		}                                 \
	} while (0)

static CUresult start(void)
{
	CALL(cuInit(0));
	CALL(cuDevicePrimaryCtxRetain(&self.context, 0));
	CALL(cuCtxSetCurrent(self.context));
	return CUDA_SUCCESS;
}

/*
 * Note what this process has, once it has a port, which stays: the service thread of an importer makes one only if the
 * import lasts long enough.
 */
static CUresult remember(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	int descriptor;

	CALL(cuMemPoolCreate(&pool, &properties));
	CALL(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(descriptor);
	CALL(cuMemPoolDestroy(pool));
	audit_remember(self.board);
	return CUDA_SUCCESS;
}

/* Other processes and the service thread give blocks back; nothing tells a program when, so it looks again. */
static CUresult await_idle_pool(void)
{
	cenote_pool_statistics statistics;
	uint64_t end_ms = audit_now_ms() + AUDIT_SETTLE_MS;

	IDLE_UNLESS(self.pool && self.pool_is_own);
	for (unsigned i = 0; i < ACTOR_BLOCKS; i++)
		IDLE_UNLESS(!self.blocks[i]);
	do {
		CALL(cenote_pool_stats(self.pool, &statistics, sizeof statistics));
		poll(NULL, 0, statistics.used_bytes ? 1 : 0);
	} while (statistics.used_bytes && audit_now_ms() < end_ms);
	if (statistics.used_bytes)
		FAIL("%llu bytes of the pool do not come back: %llu blocks are deferred", statistics.used_bytes,
		     statistics.deferred_block_count);
	return CUDA_SUCCESS;
}

static CUresult pool_create(const struct order *order)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = (CUmemAllocationHandleType)order->value,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = POOL_BYTES,
	};

	CALL(cuMemPoolCreate(&self.pool, &properties));
	self.pool_is_own = true;
	return CUDA_SUCCESS;
}

static CUresult pool_export_fabric(void)
{
	IDLE_UNLESS(self.pool);
	CALL(cuMemPoolExportToShareableHandle(self.answer->bytes, self.pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	return CUDA_SUCCESS;
}

static CUresult pool_import_fabric(struct order *order)
{
	CALL(cuMemPoolImportFromShareableHandle(&self.pool, order->bytes, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	self.pool_is_own = false;
	return CUDA_SUCCESS;
}

static CUresult pool_import(int descriptor)
{
	CALL(cuMemPoolImportFromShareableHandle(&self.pool, (void *)(intptr_t)descriptor, POSIX, 0));
	self.pool_is_own = false;
	return CUDA_SUCCESS;
}

static CUresult pool_destroy(void)
{
	IDLE_UNLESS(self.pool);
	CALL(cuMemPoolDestroy(self.pool));
	self.pool = NULL;
	return CUDA_SUCCESS;
}

static CUresult pool_watch(void)
{
	cenote_importer list[4];
	size_t count;
	int watch;

	IDLE_UNLESS(self.pool && self.pool_is_own);
	CALL(cenote_pool_watch(self.pool, &watch));
	close(watch);
	CALL(cenote_pool_limit(self.pool, POOL_BYTES));
	CALL(cenote_pool_importers(self.pool, list, sizeof *list, 4, &count));
	return CUDA_SUCCESS;
}

static CUresult pool_evict(void)
{
	cenote_importer list[4];
	size_t count;

	IDLE_UNLESS(self.pool && self.pool_is_own);
	CALL(cenote_pool_importers(self.pool, list, sizeof *list, 4, &count));
	for (size_t i = 0; i < count; i++)
		CALL(cenote_pool_evict(self.pool, list[i].id));
	return CUDA_SUCCESS;
}

/* Live processes report what they share; the actor ignores all of it. */
static void found(const cenote_shared *thing, void *data)
{
	*(unsigned *)data += thing->process != NULL;
}

static CUresult survey(void)
{
	unsigned count = 0;

	CALL(cenote_survey(0, found, &count));
	return CUDA_SUCCESS;
}

static CUresult obey_pool(struct order *order, int descriptor)
{
	switch (order->action) {
	case ACTION_POOL_CREATE: return pool_create(order);
	case ACTION_POOL_EXPORT:
		IDLE_UNLESS(self.pool);
		CALL(cuMemPoolExportToShareableHandle(&self.gift, self.pool, POSIX, 0));
		return CUDA_SUCCESS;
	case ACTION_POOL_EXPORT_FABRIC: return pool_export_fabric();
	case ACTION_POOL_IMPORT: return pool_import(descriptor);
	case ACTION_POOL_IMPORT_FABRIC: return pool_import_fabric(order);
	case ACTION_POOL_WATCH: return pool_watch();
	case ACTION_POOL_EVICT: return pool_evict();
	case ACTION_POOL_IDLE: return await_idle_pool();
	default: return pool_destroy();
	}
}

/* Allocate and fill, in the stream; and wait for it. */
static CUresult block_allocate(unsigned index)
{
	CUdeviceptr block;

	IDLE_UNLESS(self.pool && self.pool_is_own && self.stream);
	CALL(cuMemAllocFromPoolAsync(&block, BLOCK_BYTES, self.pool, self.stream));
	self.blocks[index] = block;
	CALL(cuMemsetD8Async(block, (unsigned char)(FIRST_VALUE + index), BLOCK_BYTES, self.stream));
	CALL(cuStreamSynchronize(self.stream));
	return CUDA_SUCCESS;
}

static CUresult check_byte(CUdeviceptr address, unsigned value)
{
	unsigned char byte = 0;

	CALL(cuMemcpyDtoH(&byte, address, 1));
	ASSERT_EQ(value, byte);
	return CUDA_SUCCESS;
}

static CUresult block_free(unsigned index)
{
	IDLE_UNLESS(self.blocks[index]);
	CALL(cuMemFreeAsync(self.blocks[index], self.stream));
	self.blocks[index] = 0;
	return CUDA_SUCCESS;
}

static CUresult obey_block(struct order *order)
{
	CUdeviceptr *block = &self.blocks[order->index], taken;

	switch (order->action) {
	case ACTION_BLOCK_ALLOCATE: return block_allocate(order->index);
	case ACTION_BLOCK_NAME:
		IDLE_UNLESS(*block);
		CALL(cuMemPoolExportPointer((CUmemPoolPtrExportData *)self.answer->bytes, *block));
		return CUDA_SUCCESS;
	case ACTION_BLOCK_TAKE:
		IDLE_UNLESS(self.pool);
		CALL(cuMemPoolImportPointer(&taken, self.pool, (CUmemPoolPtrExportData *)order->bytes));
		*block = taken;
		return CUDA_SUCCESS;
	case ACTION_BLOCK_READ: IDLE_UNLESS(*block); return check_byte(*block, FIRST_VALUE + order->index);
	default: return block_free(order->index);
	}
}

static void CUDA_CB wait_at_gate(void *unused)
{
	char byte;

	(void)unused;
	while (read(self.gate, &byte, 1) == -1 && errno == EINTR)
		continue;
}

static CUresult gate(int descriptor)
{
	IDLE_UNLESS(self.stream && self.gate < 0);
	ASSERT_SYS(self.gate = fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
	CALL(cuLaunchHostFunc(self.stream, wait_at_gate, NULL));
	return CUDA_SUCCESS;
}

static void limit_descriptors(bool none)
{
	static struct rlimit before;
	struct rlimit limit;

	if (none) {
		int lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		ASSERT_SYS(lowest);
		close(lowest);
		ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &before));
		limit = (struct rlimit){(rlim_t)lowest, before.rlim_max};
	} else {
		limit = before;
	}
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
}

static CUresult event_wait(CUevent event, bool synchronize)
{
	IDLE_UNLESS(event && self.stream);
	CALL(cuStreamWaitEvent(self.stream, event, 0));
	if (synchronize)
		CALL(cuStreamSynchronize(self.stream));
	return CUDA_SUCCESS;
}

static CUresult event_open(const struct order *order, CUevent *ret_event)
{
	CUipcEventHandle handle;

	memcpy(&handle, order->bytes, sizeof handle);
	CALL(cuIpcOpenEventHandle(ret_event, handle));
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent *event)
{
	IDLE_UNLESS(*event);
	CALL(cuEventDestroy(*event));
	*event = NULL;
	return CUDA_SUCCESS;
}

static CUresult obey_event(const struct order *order)
{
	CUevent *event = &self.events[order->index];

	switch (order->action) {
	case ACTION_EVENT_CREATE:
		CALL(cuEventCreate(event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
		return CUDA_SUCCESS;
	case ACTION_EVENT_HANDLE:
		IDLE_UNLESS(*event);
		CALL(cuIpcGetEventHandle((CUipcEventHandle *)self.answer->bytes, *event));
		return CUDA_SUCCESS;
	case ACTION_EVENT_OPEN: return event_open(order, event);
	case ACTION_EVENT_RECORD:
		IDLE_UNLESS(*event && self.stream);
		CALL(cuEventRecord(*event, self.stream));
		return CUDA_SUCCESS;
	case ACTION_EVENT_ENQUEUE: return event_wait(*event, false);
	case ACTION_EVENT_WAIT: return event_wait(*event, true);
	default: return event_destroy(event);
	}
}

static CUresult memory_create(const struct order *order)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)order->value,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};

	CALL(cuMemCreate(&self.memory, MEMORY_BYTES, &properties, 0));
	return CUDA_SUCCESS;
}

static CUresult memory_map(void)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	IDLE_UNLESS(self.memory);
	CALL(cuMemAddressReserve(&self.range, MEMORY_BYTES, 0, 0, 0));
	CALL(cuMemMap(self.range, MEMORY_BYTES, 0, self.memory, 0));
	self.mapped = true;
	CALL(cuMemSetAccess(self.range, MEMORY_BYTES, &access, 1));
	return CUDA_SUCCESS;
}

static CUresult memory_unmap(void)
{
	IDLE_UNLESS(self.range || self.memory);
	if (self.mapped)
		CALL(cuMemUnmap(self.range, MEMORY_BYTES));
	self.mapped = false;
	if (self.range)
		CALL(cuMemAddressFree(self.range, MEMORY_BYTES));
	self.range = 0;
	if (self.memory)
		CALL(cuMemRelease(self.memory));
	self.memory = 0;
	return CUDA_SUCCESS;
}

static CUresult obey_memory(struct order *order, int descriptor)
{
	switch (order->action) {
	case ACTION_MEMORY_CREATE: return memory_create(order);
	case ACTION_MEMORY_EXPORT:
		IDLE_UNLESS(self.memory);
		CALL(cuMemExportToShareableHandle(&self.gift, self.memory, POSIX, 0));
		return CUDA_SUCCESS;
	case ACTION_MEMORY_EXPORT_FABRIC:
		IDLE_UNLESS(self.memory);
		CALL(cuMemExportToShareableHandle(self.answer->bytes, self.memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
		return CUDA_SUCCESS;
	case ACTION_MEMORY_IMPORT:
		CALL(cuMemImportFromShareableHandle(&self.memory, (void *)(intptr_t)descriptor, POSIX));
		return CUDA_SUCCESS;
	case ACTION_MEMORY_IMPORT_FABRIC:
		CALL(cuMemImportFromShareableHandle(&self.memory, order->bytes, CU_MEM_HANDLE_TYPE_FABRIC));
		return CUDA_SUCCESS;
	case ACTION_MEMORY_MAP: return memory_map();
	case ACTION_MEMORY_WRITE:
		IDLE_UNLESS(self.mapped);
		CALL(cuMemsetD8(self.range, FIRST_VALUE, MEMORY_BYTES));
		CALL(cuStreamSynchronize(NULL));
		return CUDA_SUCCESS;
	case ACTION_MEMORY_READ: IDLE_UNLESS(self.mapped); return check_byte(self.range, FIRST_VALUE);
	default: return memory_unmap();
	}
}

static CUresult legacy_close(void)
{
	IDLE_UNLESS(self.legacy);
	if (self.legacy_is_own)
		CALL(cuMemFree(self.legacy));
	else
		CALL(cuIpcCloseMemHandle(self.legacy));
	self.legacy = 0;
	return CUDA_SUCCESS;
}

static CUresult legacy_open(const struct order *order)
{
	CUipcMemHandle handle;

	memcpy(&handle, order->bytes, sizeof handle);
	CALL(cuIpcOpenMemHandle(&self.legacy, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	self.legacy_is_own = false;
	return CUDA_SUCCESS;
}

static CUresult obey_legacy(const struct order *order)
{
	switch (order->action) {
	case ACTION_LEGACY_ALLOCATE:
		CALL(cuMemAlloc(&self.legacy, BLOCK_BYTES));
		self.legacy_is_own = true;
		CALL(cuMemsetD8(self.legacy, FIRST_VALUE, BLOCK_BYTES));
		CALL(cuStreamSynchronize(NULL));
		return CUDA_SUCCESS;
	case ACTION_LEGACY_HANDLE:
		IDLE_UNLESS(self.legacy);
		CALL(cuIpcGetMemHandle((CUipcMemHandle *)self.answer->bytes, self.legacy));
		return CUDA_SUCCESS;
	case ACTION_LEGACY_OPEN: return legacy_open(order);
	case ACTION_LEGACY_READ: IDLE_UNLESS(self.legacy); return check_byte(self.legacy, FIRST_VALUE);
	default: return legacy_close();
	}
}

static CUresult obey_letter(const struct order *order, int descriptor)
{
	switch (order->action) {
	case ACTION_SOCKET: ASSERT_SYS(self.sock = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)); return CUDA_SUCCESS;
	case ACTION_SEND_POOL:
		IDLE_UNLESS(self.pool);
		CALL(cenote_send_pool(self.sock, self.pool));
		return CUDA_SUCCESS;
	case ACTION_RECV_POOL:
		CALL(cenote_recv_pool(self.sock, &self.pool));
		self.pool_is_own = false;
		return CUDA_SUCCESS;
	case ACTION_SEND_BLOCK:
		IDLE_UNLESS(self.blocks[order->index] && self.events[0]);
		CALL(cenote_send_block(self.sock, self.blocks[order->index], self.events[0]));
		return CUDA_SUCCESS;
	default:
		IDLE_UNLESS(self.pool);
		CALL(cenote_recv_block(self.sock, self.pool, &self.blocks[order->index], &self.events[0]));
		return CUDA_SUCCESS;
	}
}

/* Give back everything that is left; each of these calls must succeed. */
static CUresult clean(void)
{
	if (self.sock >= 0)
		close(self.sock);
	self.sock = -1;
	if (self.stream)
		cuStreamSynchronize(self.stream); /* it may fail: what it waited for has died */
	for (unsigned i = 0; i < ACTOR_BLOCKS; i++) {
		if (self.blocks[i])
			CALL(cuMemFree(self.blocks[i]));
		self.blocks[i] = 0;
	}
	for (unsigned i = 0; i < ACTOR_EVENTS; i++) {
		if (self.events[i])
			CALL(cuEventDestroy(self.events[i]));
		self.events[i] = NULL;
	}
	CUresult result = memory_unmap();
	result = result ? result : legacy_close();
	result = result ? result : await_idle_pool();
	result = result ? result : pool_destroy();
	if (result)
		return result;
	if (self.stream)
		CALL(cuStreamDestroy(self.stream));
	self.stream = NULL;
	if (self.gate >= 0)
		close(self.gate);
	self.gate = -1;
	self.answer->idle = false;
	return CUDA_SUCCESS;
}

/* ---- Orders ------------------------------------------------------------------------------------------------------ */

static CUresult obey(struct order *order, int descriptor)
{
	enum action action = order->action;

	if (action >= ACTION_POOL_CREATE && action <= ACTION_POOL_DESTROY)
		return obey_pool(order, descriptor);
	if (action >= ACTION_BLOCK_ALLOCATE && action <= ACTION_BLOCK_FREE)
		return obey_block(order);
	if (action >= ACTION_EVENT_CREATE && action <= ACTION_EVENT_DESTROY)
		return obey_event(order);
	if (action >= ACTION_MEMORY_CREATE && action <= ACTION_MEMORY_UNMAP)
		return obey_memory(order, descriptor);
	if (action >= ACTION_LEGACY_ALLOCATE && action <= ACTION_LEGACY_CLOSE)
		return obey_legacy(order);
	if (action >= ACTION_SOCKET && action <= ACTION_RECV_BLOCK)
		return obey_letter(order, descriptor);
	switch (action) {
	case ACTION_START: return start();
	case ACTION_STREAM: CALL(cuStreamCreate(&self.stream, CU_STREAM_NON_BLOCKING)); return CUDA_SUCCESS;
	case ACTION_SYNC:
		IDLE_UNLESS(self.stream);
		CALL(cuStreamSynchronize(self.stream));
		return CUDA_SUCCESS;
	case ACTION_LIMIT: limit_descriptors(order->value); return CUDA_SUCCESS;
	case ACTION_GATE: return gate(descriptor);
	case ACTION_CLEAN: return clean();
	case ACTION_SURVEY: return survey();
	case ACTION_SWEEP: CALL(cenote_sweep(0, NULL, NULL)); return CUDA_SUCCESS;
	case ACTION_REMEMBER: return remember();
	case ACTION_AUDIT: audit(self.board); return CUDA_SUCCESS;
	default: return CUDA_SUCCESS;
	}
}

/* The board, the sites, the alarm and the socket come first; then orders. */
ROLE(actor)
{
	int board = peer_receive_descriptor(parent), sites = peer_receive_descriptor(parent);
	int alarm = peer_receive_descriptor(parent), sock = peer_receive_descriptor(parent), descriptor;
	struct order order;

	signal(SIGPIPE, SIG_IGN);
	leaks_watch(0); /* ACTION_AUDIT counts */
	self.board = fault_attach(board, sites, alarm);
	while (message_receive(sock, &order, sizeof order, &descriptor)) {
		struct answer answer = {.action = order.action};
		self.answer = &answer;
		self.gift = -1;
		obey(&order, descriptor);
		if (descriptor >= 0)
			close(descriptor);
		if (!message_send(sock, &answer, sizeof answer, self.gift))
			break;
		if (self.gift >= 0)
			close(self.gift);
		if (order.action == ACTION_END)
			break;
	}
	self.answer = NULL;
	close(sock);
	close(board);
	close(sites);
	close(alarm);
}
