/* SPDX-License-Identifier: MIT */
/*
 * Fake processes with ports: see port.h.
 */
#include "port.h"

#include "device/host/host_memory.h"
#include "device/host/host_signal.h"
#include "driver/common/driver.h"
#include "share/port/imex.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fuzz_server fuzz_port, fuzz_fabric_port;

enum { MEMORY_BYTES = 4 << 20, RECORDER = 7 };

static unsigned char port_name[CN_PORT_NAME_BYTES], fabric_name[CN_PORT_NAME_BYTES];
static CUdeviceptr memory;
static CUmemoryPool pool;
static struct cn_signal *signal;
static int signal_fd, physical_fd, pool_fd;
static unsigned char *ring, *ring_before;
static size_t ring_bytes;

/* ---- Answers ---- */

static void lend_memory(struct cn_parcel *reply)
{
	uint64_t *words = reply->message.words;
	struct cn_memory_part part;

	FUZZ_OK(cn_host_memory_part(&cn_devices[0], (const void *)(uintptr_t)memory, &part));
	words[CN_SHARED_MEMORY_CHUNK] = part.chunk;
	words[CN_SHARED_MEMORY_CHUNK_BYTES] = part.chunk_bytes;
	words[CN_SHARED_MEMORY_OFFSET] = part.offset;
	words[CN_SHARED_MEMORY_BYTES] = MEMORY_BYTES;
	words[CN_SHARED_MEMORY_DEVICE] = 0;
	reply->descriptors[0] = part.fd;
	reply->descriptor_count = 1;
}

static bool answer(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	struct cn_parcel reply = {.message = {.kind = request->message.kind, .request = request->message.request}};

	switch (request->message.kind) {
	case CN_MESSAGE_MEMORY: lend_memory(&reply); break;
	case CN_MESSAGE_EVENT:
		reply.message.words[0] = RECORDER;
		reply.descriptors[0] = signal_fd;
		reply.descriptor_count = 1;
		break;
	case CN_MESSAGE_MEMORY_CLOSED:
	case CN_MESSAGE_EVENT_FREED: return true;
	default: return false;
	}
	return fuzz_send(&server->input, sock, &reply);
}

static bool answer_fabric(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	enum { WORD_KIND = 2 };
	struct cn_parcel reply = {
		.message = {.kind = request->message.kind, .request = request->message.request},
		.descriptors = {request->message.words[WORD_KIND] == CN_HANDLE_FABRIC_POOL ? pool_fd : physical_fd},
		.descriptor_count = 1,
	};

	fuzz_send(&server->input, sock, &reply);
	return false; /* one question a connection */
}

/* ---- Ports ---- */

static void open_port(bool fabric, struct fuzz_server *server, unsigned char ret_name[CN_PORT_NAME_BYTES])
{
	struct cn_socket socket;

	FUZZ_OK(cn_wire_listen_named(fabric, &socket));
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		unsigned byte;
		FUZZ_CHECK(sscanf(socket.name + 2 * i, "%2x", &byte) == 1);
		ret_name[i] = (unsigned char)byte;
	}
	server->listener = socket.listen_fd;
	fuzz_server_start(server);
}

/* As fabric.c has it: where a port of this name marks its channel. */
static void mark_channel(const unsigned char name[CN_PORT_NAME_BYTES])
{
	const struct cn_imex *channel;
	uint32_t parts[2];
	int mark;

	memcpy(parts, name, sizeof parts);
	FUZZ_OK(cn_imex_own(&channel));
	FUZZ_OK(cn_imex_mark(channel, (uint64_t)ntohl(parts[0]) << 30 | ntohl(parts[1]) >> 2, &mark));
}

static void take_away_names(void)
{
	char path[700];

	for (int fabric = 0; fabric < 2; fabric++) {
		const unsigned char *name = fabric ? fabric_name : port_name;
		int length =
			snprintf(path, sizeof path, "%s/", getenv(fabric ? "CENOTE_FABRIC_DIR" : "CENOTE_RUNTIME_DIR"));
		if (fabric)
			length += snprintf(path + length, sizeof path - (size_t)length, "%u/", (unsigned)geteuid());
		for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
			length += snprintf(path + length, sizeof path - (size_t)length, "%02x", name[i]);
		unlink(path);
		snprintf(path + length, sizeof path - (size_t)length, ".lock");
		unlink(path);
	}
}

static void make_things(void)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemGenericAllocationHandle physical;

	FUZZ_OK(cuMemAlloc(&memory, MEMORY_BYTES));
	FUZZ_OK(cuMemCreate(&physical, 2 << 20, &properties, 0));
	FUZZ_OK(cuMemExportToShareableHandle(&physical_fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	pool_fd = fuzz_pool_descriptor(pool);
	FUZZ_OK(cn_host_signal_create(&signal));
	FUZZ_OK(cn_host_signal_export(signal, &signal_fd));
	ring_bytes = (size_t)lseek(signal_fd, 0, SEEK_END) / sizeof(uint64_t) * sizeof(uint64_t);
	ring = mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, signal_fd, 0);
	ring_before = malloc(ring_bytes);
	FUZZ_CHECK(ring != MAP_FAILED && ring_before);
	memcpy(ring_before, ring, ring_bytes);
	fuzz_offer(signal_fd);
	fuzz_offer(physical_fd);
	fuzz_offer(pool_fd);
}

void fuzz_port_start(void)
{
	make_things();
	fuzz_port.answer = answer;
	fuzz_fabric_port.answer = answer_fabric;
	open_port(false, &fuzz_port, port_name);
	open_port(true, &fuzz_fabric_port, fabric_name);
	mark_channel(fabric_name);
	FUZZ_CHECK(!atexit(take_away_names));
	fuzz_port_end();
}

/* ---- Handles ---- */

void fuzz_handle_seal(struct cn_handle *handle)
{
	handle->check = cn_check(handle, offsetof(struct cn_handle, check));
}

struct cn_handle fuzz_handle(enum cn_handle_kind kind, uint64_t number)
{
	struct cn_handle handle = {
		.magic = CN_HANDLE_MAGIC, .version = CN_HANDLE_VERSION, .kind = (uint16_t)kind, .number = number};

	memcpy(handle.port, cn_handle_is_fabric(kind) ? fabric_name : port_name, sizeof handle.port);
	memcpy(handle.secret, "a fuzzed secret", sizeof handle.secret);
	fuzz_handle_seal(&handle);
	return handle;
}

CUresult fuzz_open_memory(const void *bytes)
{
	CUipcMemHandle handle;
	CUdeviceptr pointer;

	memcpy(&handle, bytes, sizeof handle);
	CUresult result = FUZZ_TRY(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	if (result)
		return result;
	fuzz_touch(pointer);
	FUZZ_OK(cuIpcCloseMemHandle(pointer));
	return CUDA_SUCCESS;
}

CUresult fuzz_open_event(const void *bytes)
{
	CUipcEventHandle handle;
	CUevent event;

	memcpy(&handle, bytes, sizeof handle);
	CUresult result = FUZZ_TRY(cuIpcOpenEventHandle(&event, handle));
	if (result)
		return result;
	FUZZ_TRY(cuEventQuery(event));
	FUZZ_OK(cuEventDestroy(event));
	return CUDA_SUCCESS;
}

CUresult fuzz_open_fabric_memory(const void *bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle fabric;

	memcpy(&fabric, bytes, sizeof fabric);
	CUresult result = FUZZ_TRY(cuMemImportFromShareableHandle(&handle, &fabric, CU_MEM_HANDLE_TYPE_FABRIC));
	if (!result)
		FUZZ_OK(cuMemRelease(handle));
	return result;
}

CUresult fuzz_open_fabric_pool(const void *bytes)
{
	CUmemFabricHandle fabric;
	CUmemoryPool imported;

	memcpy(&fabric, bytes, sizeof fabric);
	CUresult result =
		FUZZ_TRY(cuMemPoolImportFromShareableHandle(&imported, &fabric, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	if (!result)
		FUZZ_OK(cuMemPoolDestroy(imported));
	return result;
}

/* ---- The ring of an event ---- */

uint64_t *fuzz_ring(size_t *ret_bytes)
{
	*ret_bytes = ring_bytes;
	return (uint64_t *)ring;
}

/* Words, as waiters read them. */
void fuzz_ring_reset(void)
{
	for (size_t i = 0; i < ring_bytes / sizeof(uint64_t); i++) {
		uint64_t word;
		memcpy(&word, ring_before + i * sizeof word, sizeof word);
		atomic_store((_Atomic uint64_t *)ring + i, word);
	}
}

void fuzz_port_end(void)
{
	struct cn_handle handle = fuzz_handle(CN_HANDLE_MEMORY, 1);

	fuzz_ring_reset();
	fuzz_server_end(&fuzz_port);
	fuzz_server_end(&fuzz_fabric_port);
	FUZZ_CHECK(!fuzz_open_memory(&handle));
	handle = fuzz_handle(CN_HANDLE_EVENT, 1);
	FUZZ_CHECK(!fuzz_open_event(&handle));
	handle = fuzz_handle(CN_HANDLE_FABRIC_MEMORY, 1);
	FUZZ_CHECK(!fuzz_open_fabric_memory(&handle));
	handle = fuzz_handle(CN_HANDLE_FABRIC_POOL, 1);
	FUZZ_CHECK(!fuzz_open_fabric_pool(&handle));
}
