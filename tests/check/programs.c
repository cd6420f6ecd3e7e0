/* SPDX-License-Identifier: MIT */
/*
 * Programs with one mistake each (programs.h): what they have in common.
 */
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct process me;

void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "role %d: %s: %s\n", me.role, what, cenote_last_error());
	exit(99);
}

void begin(void)
{
	CUcontext context;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&me.stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&me.another, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocHost(&me.host, BYTES));
}

/* ---- Messages ---- */

void send_bytes(int other, const void *bytes, size_t count)
{
	must(send(me.socks[other], bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send");
}

void receive_bytes(int other, void *bytes, size_t count)
{
	must(recv(me.socks[other], bytes, count, MSG_WAITALL) == (ssize_t)count, "receive");
}

void tell(int other)
{
	send_bytes(other, "!", 1);
}

void be_told(int other)
{
	char byte;

	receive_bytes(other, &byte, 1);
}

/* ---- Sharing ---- */

CUmemoryPool make_pool(void)
{
	const CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &properties));
	return pool;
}

CUmemoryPool send_pool(int other)
{
	CUmemoryPool pool = make_pool();

	MUST(cenote_send_pool(me.socks[other], pool));
	return pool;
}

CUmemoryPool receive_pool(void)
{
	CUmemoryPool pool;

	MUST(cenote_recv_pool(me.socks[0], &pool));
	return pool;
}

CUdeviceptr allocate(CUmemoryPool pool)
{
	CUdeviceptr block;

	MUST(cuMemAllocFromPoolAsync(&block, BYTES, pool, me.stream));
	finish(me.stream);
	return block;
}

void send_block(int other, CUdeviceptr block)
{
	CUmemPoolPtrExportData name;

	MUST(cuMemPoolExportPointer(&name, block));
	send_bytes(other, &name, sizeof name);
}

CUdeviceptr receive_block(CUmemoryPool pool)
{
	CUmemPoolPtrExportData name;
	CUdeviceptr block;

	receive_bytes(0, &name, sizeof name);
	MUST(cuMemPoolImportPointer(&block, pool, &name));
	return block;
}

CUevent make_event(void)
{
	CUevent event;

	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	return event;
}

void send_event(int other, CUevent event)
{
	CUipcEventHandle handle;

	MUST(cuIpcGetEventHandle(&handle, event));
	send_bytes(other, &handle, sizeof handle);
}

CUevent receive_event(void)
{
	CUipcEventHandle handle;
	CUevent event;

	receive_bytes(0, &handle, sizeof handle);
	MUST(cuIpcOpenEventHandle(&event, handle));
	return event;
}

void send_legacy(int other, CUdeviceptr memory)
{
	CUipcMemHandle handle;

	MUST(cuIpcGetMemHandle(&handle, memory));
	send_bytes(other, &handle, sizeof handle);
}

CUdeviceptr receive_legacy(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;

	receive_bytes(0, &handle, sizeof handle);
	MUST(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	return memory;
}

static CUdeviceptr map_physical(CUmemGenericAllocationHandle handle)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	MUST(cuMemAddressReserve(&address, PHYSICAL_BYTES, 0, 0, 0));
	MUST(cuMemMap(address, PHYSICAL_BYTES, 0, handle, 0));
	MUST(cuMemSetAccess(address, PHYSICAL_BYTES, &access, 1));
	return address;
}

struct physical make_physical(void)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemGenericAllocationHandle handle;

	MUST(cuMemCreate(&handle, PHYSICAL_BYTES, &properties, 0));
	return (struct physical){handle, map_physical(handle)};
}

void send_physical(int other, const struct physical *memory)
{
	int descriptor;

	MUST(cuMemExportToShareableHandle(&descriptor, memory->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cenote_send_descriptor(me.socks[other], descriptor));
	close(descriptor);
}

struct physical receive_physical(void)
{
	CUmemGenericAllocationHandle handle;
	int descriptor;

	MUST(cenote_recv_descriptor(me.socks[0], &descriptor));
	MUST(cuMemImportFromShareableHandle(&handle, (void *)(size_t)descriptor,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(descriptor);
	return (struct physical){handle, map_physical(handle)};
}

void free_physical(const struct physical *memory)
{
	MUST(cuMemAddressFree(memory->address, PHYSICAL_BYTES));
	MUST(cuMemRelease(memory->handle));
}

static CUdeviceptr map_words(int descriptor)
{
	CUdeviceptr address;
	void *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	must(words != MAP_FAILED, "mmap");
	close(descriptor);
	MUST(cuMemHostRegister(words, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
	MUST(cuMemHostGetDevicePointer(&address, words, 0));
	return address;
}

CUdeviceptr send_words(int other)
{
	int descriptor = memfd_create("words", MFD_CLOEXEC);

	must(ftruncate(descriptor, BYTES) == 0, "memfd");
	MUST(cenote_send_descriptor(me.socks[other], descriptor));
	return map_words(descriptor);
}

CUdeviceptr receive_words(void)
{
	int descriptor;

	MUST(cenote_recv_descriptor(me.socks[0], &descriptor));
	return map_words(descriptor);
}

/* ---- Work ---- */

void fill(CUdeviceptr block, CUstream stream)
{
	MUST(cuMemsetD8Async(block, 1, BYTES, stream));
}

void read_back(CUdeviceptr block, CUstream stream)
{
	MUST(cuMemcpyDtoHAsync(me.host, block, BYTES, stream));
}

void finish(CUstream stream)
{
	MUST(cuStreamSynchronize(stream));
}

/* ---- What most programs begin and end with ---- */

struct shared begin_owner(enum shared_event event)
{
	struct shared it = {NULL};

	begin();
	it.pool = send_pool(0);
	if (event) {
		it.event = make_event();
		send_event(0, it.event);
	}
	it.block = allocate(it.pool);
	return it;
}

struct shared begin_filled(int times)
{
	struct shared it = begin_owner(NO_EVENT);

	fill(it.block, me.stream);
	finish(me.stream);
	for (int i = 0; i < times; i++)
		send_block(0, it.block);
	return it;
}

struct shared begin_opener(enum shared_event event)
{
	struct shared it = {NULL};

	begin();
	it.pool = receive_pool();
	if (event)
		it.event = receive_event();
	it.block = receive_block(it.pool);
	return it;
}

void be_told_and_free(CUdeviceptr block)
{
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

void record_and_free(const struct shared *it)
{
	MUST(cuEventRecord(it->event, me.stream));
	tell(0);
	be_told_and_free(it->block);
}

void be_told_of(CUevent event, bool waits)
{
	be_told(0);
	if (waits)
		MUST(cuStreamWaitEvent(me.stream, event, 0));
}

void let_go(CUdeviceptr block)
{
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

void read_and_let_go(CUdeviceptr block)
{
	read_back(block, me.stream);
	let_go(block);
}

/* ---- Roles ---- */

void plain_owner(void)
{
	be_told_and_free(begin_filled(1).block);
}

void plain_reader(void)
{
	read_and_let_go(begin_opener(NO_EVENT).block);
}

void filling_owner(void)
{
	struct shared it = begin_owner(AN_EVENT);

	send_block(0, it.block);
	fill(it.block, me.stream);
	record_and_free(&it);
}

void hasty_reader(void)
{
	struct shared it = begin_opener(AN_EVENT);

	be_told_of(it.event, !me.bad);
	read_and_let_go(it.block);
}

void waiting_reader(void)
{
	struct shared it = begin_opener(AN_EVENT);

	be_told_of(it.event, true);
	read_and_let_go(it.block);
}

void legacy_owner(void)
{
	CUdeviceptr memory;

	begin();
	MUST(cuMemAlloc(&memory, BYTES));
	MUST(cuMemsetD8(memory, 1, BYTES));
	send_legacy(0, memory);
	be_told(0);
	MUST(cuMemFree(memory));
	tell(0);
}

void own_two(bool one_event)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent events[2] = {make_event(), make_event()};
	CUdeviceptr blocks[2] = {allocate(pool), allocate(pool)};

	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? me.another : me.stream;
		CUevent event = events[one_event ? 0 : i];
		send_event(0, event);
		send_block(0, blocks[i]);
		fill(blocks[i], stream);
		MUST(cuEventRecord(event, stream));
	}
	tell(0);
	be_told(0);
	finish(me.another);
	for (int i = 0; i < 2; i++)
		MUST(cuMemFreeAsync(blocks[i], me.stream));
	finish(me.stream);
}

void read_two(bool by_first_event)
{
	CUevent events[2];
	CUdeviceptr blocks[2];

	begin();
	CUmemoryPool pool = receive_pool();
	for (int i = 0; i < 2; i++) {
		events[i] = receive_event();
		blocks[i] = receive_block(pool);
	}
	be_told(0);
	for (int i = 0; i < 2; i++) {
		MUST(cuStreamWaitEvent(me.stream, events[by_first_event ? 0 : i], 0));
		read_back(blocks[i], me.stream);
		MUST(cuMemFreeAsync(blocks[i], me.stream));
	}
	finish(me.stream);
	tell(0);
}

void close_legacy(bool finishes_first)
{
	begin();
	CUdeviceptr memory = receive_legacy();

	read_back(memory, me.stream);
	if (finishes_first)
		finish(me.stream);
	if (!me.bad)
		MUST(cuIpcCloseMemHandle(memory));
	tell(0);
	be_told(0);
	finish(me.stream);
	if (me.bad)
		MUST(cuIpcCloseMemHandle(memory));
}

/* ---- Processes ---- */

static const struct program *find(const char *name)
{
	const struct program *const lists[] = {order_programs, kernel_programs, life_programs, balance_programs,
					       wait_programs};

	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
		for (const struct program *program = lists[i]; program->name; program++)
			if (!name)
				printf("%s %s\n", program->name, program->kind);
			else if (strcmp(program->name, name) == 0)
				return program;
	return NULL;
}

static pid_t start(const char *name, int role, int sock)
{
	char number[16], descriptor[16];
	pid_t child = fork();

	if (child)
		return child;
	snprintf(number, sizeof number, "%d", role);
	snprintf(descriptor, sizeof descriptor, "%d", sock);
	execl("/proc/self/exe", "check_programs", name, me.bad ? "bad" : "good", number, descriptor, (char *)NULL);
	_exit(98);
}

static int run_first(const struct program *program)
{
	pid_t children[OTHERS_MAX];
	int count = 0, status, worst = 0;

	for (; count < OTHERS_MAX && program->roles[count + 1]; count++) {
		int ends[2];
		must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
		me.socks[count] = ends[0];
		children[count] = start(program->name, count + 1, ends[1]);
		close(ends[1]);
	}
	program->roles[0]();
	for (int i = 0; i < count; i++) {
		waitpid(children[i], &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			worst = WEXITSTATUS(status);
	}
	return worst;
}

int main(int argument_count, char **arguments)
{
	const struct program *program = argument_count > 2 ? find(arguments[1]) : NULL;

	if (argument_count == 1)
		return find(NULL) != NULL;
	must(program != NULL, "no such program");
	me.bad = strcmp(arguments[2], "bad") == 0;
	if (argument_count < 5)
		return run_first(program);
	me.role = atoi(arguments[3]);
	me.socks[0] = atoi(arguments[4]);
	program->roles[me.role]();
	return 0;
}
