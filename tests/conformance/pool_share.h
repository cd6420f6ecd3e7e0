/* SPDX-License-Identifier: MIT */
/*
 * What the chapters about shared pools start from: an exporter in a process of its own, which does as it is told, and a
 * board that both processes see, for what is sent "by any mechanism".
 *
 * The group's own process imports and asks. A step of the exporter that may fail is told inside a question, and what it
 * answered stands on the board.
 */
#ifndef CONFORMANCE_POOL_SHARE_H
#define CONFORMANCE_POOL_SHARE_H

#include "pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define POSIX_TYPE  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC_TYPE CU_MEM_HANDLE_TYPE_FABRIC

enum {
	BLOCKS = 8,
	FABRIC = CU_MEM_HANDLE_TYPE_FABRIC,
	IPC_EVENT = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING,
};

/* Memory of both processes. */
struct board {
	CUmemPoolProps properties; /* of the exporter's pool, when handleTypes is not 0 */
	size_t bytes;              /* of the next block */
	CUresult result;           /* of the exporter's last step */
	CUmemPoolPtrExportData data[BLOCKS];
	CUipcEventHandle event[BLOCKS];
	CUmemFabricHandle fabric;
	char text[192];
};
static struct board *board;

static inline void share_board(void)
{
	if (board)
		return;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		_exit(2);
	board->bytes = 64 * KIB;
}

/* Of device 0, with these handle types. */
static inline CUmemoryPool share_make(int handle_types)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);

	properties.handleTypes = (CUmemAllocationHandleType)handle_types;
	return pool_make_as(properties);
}

static inline int share_export(CUmemoryPool pool)
{
	int descriptor = -1;

	NEED(cuMemPoolExportToShareableHandle(&descriptor, pool, POSIX_TYPE, 0));
	return descriptor;
}

static inline CUresult share_import(CUmemoryPool *ret_pool, int descriptor)
{
	return cuMemPoolImportFromShareableHandle(ret_pool, (void *)(uintptr_t)descriptor, POSIX_TYPE, 0);
}

static inline const char *share_descriptor(int descriptor)
{
	return descriptor == UNTOUCHED_INT ? "untouched" : descriptor > 2 ? "set" : "wrong";
}

/* A block of the pool filled with one byte, its stream synchronised. */
static inline CUdeviceptr share_fill(CUmemoryPool pool, size_t bytes, int byte)
{
	CUdeviceptr at = pool_alloc(pool, bytes, NULL);

	NEED(cuMemsetD8(at, (unsigned char)byte, bytes));
	NEED(cuCtxSynchronize());
	return at;
}

/*
 * The exporter, with a pool that can be shared, a stream and numbered blocks and events. It is told, i being a number:
 *   x  send the pool's descriptor        m  its fabric handle to the board    n  its numbers to the board's text
 *   a  allocate block i of board->bytes, fill it with 0xa0 + i, export its pointer to the board; nothing is waited for
 *   p  export block i's pointer again    f  free it in the stream's order     F  free it with cuMemFree
 *   w  fill it with 0xb0 + i             b  send its first byte               s  synchronise the stream
 *   g  hold the stream                   G  let it go on                      c  close the descriptors that were sent
 *   e  make event i and send its handle  r  record it in the stream           o  open event i from the board
 *   v  the stream waits for event i      y  query it                          k  destroy it
 *   d  destroy the pool                  t  trim it to 0                      q  end
 */
struct exporter {
	CUmemoryPool pool;
	CUstream stream;
	struct gate gate;
	CUdeviceptr at[BLOCKS];
	size_t bytes[BLOCKS];
	CUevent event[BLOCKS];
	int sent[BLOCKS], sent_count;
};

static inline CUresult exporter_allocate(struct exporter *me, int i)
{
	me->bytes[i] = board->bytes;
	CUresult result = cuMemAllocFromPoolAsync(&me->at[i], me->bytes[i], me->pool, me->stream);
	if (!result)
		result = cuMemsetD8Async(me->at[i], (unsigned char)(0xa0 + i), me->bytes[i], me->stream);
	return result ? result : cuMemPoolExportPointer(&board->data[i], me->at[i]);
}

static inline CUresult exporter_make_event(struct exporter *me, int i)
{
	CUresult result = cuEventCreate(&me->event[i], IPC_EVENT);

	return result ? result : cuIpcGetEventHandle(&board->event[i], me->event[i]);
}

/* What the step answers; `ret_answer` and `ret_descriptor` are sent. */
static inline CUresult exporter_does(struct exporter *me, int word, int i, int *ret_answer, int *ret_descriptor)
{
	unsigned char byte = 0;
	CUresult result;

	switch (word) {
	case 'x':
		result = cuMemPoolExportToShareableHandle(ret_descriptor, me->pool, POSIX_TYPE, 0);
		if (!result && me->sent_count < BLOCKS)
			me->sent[me->sent_count++] = *ret_descriptor;
		return result;
	case 'c':
		while (me->sent_count)
			close(me->sent[--me->sent_count]);
		return CUDA_SUCCESS;
	case 'm': return cuMemPoolExportToShareableHandle(&board->fabric, me->pool, FABRIC_TYPE, 0);
	case 'n': snprintf(board->text, sizeof board->text, "%s", pool_numbers(me->pool)); return CUDA_SUCCESS;
	case 'a': return exporter_allocate(me, i);
	case 'p': return cuMemPoolExportPointer(&board->data[i], me->at[i]);
	case 'f': return cuMemFreeAsync(me->at[i], me->stream);
	case 'F': return cuMemFree(me->at[i]);
	case 'w': return cuMemsetD8Async(me->at[i], (unsigned char)(0xb0 + i), me->bytes[i], me->stream);
	case 'b':
		result = cuMemcpyDtoH(&byte, me->at[i], 1);
		*ret_answer = byte;
		return result;
	case 's': return cuStreamSynchronize(me->stream);
	case 'g': gate_close(&me->gate, me->stream); return CUDA_SUCCESS;
	case 'G': gate_open(&me->gate); return CUDA_SUCCESS;
	case 'e': return exporter_make_event(me, i);
	case 'r': return cuEventRecord(me->event[i], me->stream);
	case 'o': return cuIpcOpenEventHandle(&me->event[i], board->event[i]);
	case 'v': return cuStreamWaitEvent(me->stream, me->event[i], 0);
	case 'y': return cuEventQuery(me->event[i]);
	case 'k': return cuEventDestroy(me->event[i]);
	case 'd': return cuMemPoolDestroy(me->pool);
	case 't': return cuMemPoolTrimTo(me->pool, 0);
	default: return CUDA_ERROR_UNKNOWN;
	}
}

static inline void exporter(struct peer *parent)
{
	struct exporter me = {0};

	ask_context();
	me.pool = board->properties.handleTypes ? pool_make_as(board->properties) : share_make(POSIX);
	if ((int)board->properties.location.type == NUMA) /* its blocks are filled by the device */
		NEED(pool_allow(me.pool, DEVICE, 0, WRITE));
	me.stream = pool_stream();
	me.gate = gate_make();
	for (;;) {
		int word = peer_hear(parent, NULL), answer = 0, descriptor = -1;
		if ((word & 0xff) == 'q')
			return;
		board->result = exporter_does(&me, word & 0xff, word >> 8, &answer, &descriptor);
		peer_tell(parent, answer, descriptor);
	}
}

/* Tell the exporter a step with number i; what it sent back, or in the second form what the step answered. */
static inline int share_tell(struct peer *peer, int word, int i, int *ret_descriptor)
{
	peer_tell(peer, word | i << 8, -1);
	return peer_hear(peer, ret_descriptor);
}

static inline CUresult share_do(struct peer *peer, int word, int i)
{
	share_tell(peer, word, i, NULL);
	return board->result;
}

/* The first byte of the exporter's block i as text. */
static inline const char *share_byte(struct peer *peer, int i)
{
	char *text = pool_text();
	int byte = share_tell(peer, 'b', i, NULL);

	if (board->result)
		return ask_driver_code(board->result);
	snprintf(text, 160, "%02x", (unsigned)byte);
	return text;
}

static inline const char *share_numbers(struct peer *peer)
{
	share_do(peer, 'n', 0);
	return board->text;
}

/* An importer of the exporter's pool, or of more of it. */
struct shared {
	struct peer peer;
	int descriptor;
	CUmemoryPool pool;
	CUstream stream;
	CUdeviceptr at;
};

static inline struct shared share_begin_as(CUmemPoolProps properties)
{
	struct shared my = {.descriptor = -1};

	share_board();
	board->properties = properties;
	my.peer = peer_start(exporter);
	ask_context();
	my.stream = pool_stream();
	share_tell(&my.peer, 'x', 0, &my.descriptor);
	NEED(board->result);
	return my;
}

/* With the descriptor alone. */
static inline struct shared share_begin(void)
{
	return share_begin_as((CUmemPoolProps){0});
}

/* With the pool imported. */
static inline struct shared share_pool(void)
{
	struct shared my = share_begin();

	NEED(share_import(&my.pool, my.descriptor));
	return my;
}

/* The exporter's block i, filled and waited for, imported. */
static inline CUdeviceptr share_block(struct shared *my, int i)
{
	CUdeviceptr at = 0;

	NEED(share_do(&my->peer, 'a', i));
	NEED(share_do(&my->peer, 's', i));
	NEED(cuMemPoolImportPointer(&at, my->pool, &board->data[i]));
	return at;
}

/* With the pool and its block 0. */
static inline struct shared share_all(void)
{
	struct shared my = share_pool();

	my.at = share_block(&my, 0);
	return my;
}

/* The importer's pool asked to do what a pool does. */
static inline void share_ask_usable(const char *kind, CUmemoryPool pool, int block)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(ask_name("%s_import_pointer", kind), cuMemPoolImportPointer(&at, pool, &board->data[block]), "%s",
		  OUT(at));
	if (at == UNTOUCHED(CUdeviceptr) || !at)
		return;
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 16));
	ASK(ask_name("%s_free", kind), cuMemFreeAsync(at, NULL));
	ASK(ask_name("%s_synchronize", kind), cuCtxSynchronize());
}

#endif
