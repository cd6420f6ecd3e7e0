/* SPDX-License-Identifier: MIT */
/*
 * What the chapters about memory of 64-byte handles start from: a peer that exports, and short words for the steps.
 *
 * The peer has memory of BYTES and does as it is told, one letter a time; what is longer than a letter lies in `note`,
 * which both processes see. The group's own process opens and asks.
 */
#ifndef CONFORMANCE_IPC_MEMORY_H
#define CONFORMANCE_IPC_MEMORY_H

#include "pool.h"

#include <sys/mman.h>
#include <unistd.h>

enum { LAZY = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS };
#define BYTES (4 * MIB)

struct note {
	CUipcMemHandle handle;
	CUdeviceptr at; /* the peer's address of the memory it was last told of */
	size_t bytes;   /* of the next memory */
	size_t offset;  /* where the next handle points */
};
static struct note *note;

static inline const char *code_of(int code)
{
	return ask_driver_code((CUresult)code);
}

static inline CUresult fill(CUdeviceptr at, unsigned char byte, size_t bytes)
{
	CUresult result = cuMemsetD8(at, byte, bytes);

	return result ? result : cuCtxSynchronize();
}

static inline CUdeviceptr memory_of(size_t bytes, unsigned char byte)
{
	CUdeviceptr at = 0;

	NEED(cuMemAlloc(&at, bytes));
	NEED(fill(at, byte, bytes));
	return at;
}

static inline unsigned char byte_at(CUdeviceptr at)
{
	unsigned char byte = 0;

	NEED(cuMemcpyDtoH(&byte, at, 1));
	return byte;
}

/*
 * The peer: BYTES of its own, filled with 0xa1. It is told
 *   h  note the handle     i  the same of an interior address; answers with the code     f  fill with 0xa2
 *   b  send the first byte     l  send the last one     d  free; answers with the code     x  destroy its context
 *   n  free, and as much again, filled with 0xa6; answers whether the address is the same
 *   s  other memory, of note->bytes, filled with 0xa3     r  open the noted handle; answers with the code     q  end
 */
static inline void exporter(struct peer *parent)
{
	CUcontext mine = ask_context();
	CUdeviceptr at = memory_of(BYTES, 0xa1), old = at, opened = 0;
	size_t bytes = BYTES;

	for (;;) {
		int answer = 0;
		switch (peer_hear(parent, NULL)) {
		case 'h': NEED(cuIpcGetMemHandle(&note->handle, at)); break;
		case 'i': answer = (int)cuIpcGetMemHandle(&note->handle, at + note->offset); break;
		case 'f': NEED(fill(at, 0xa2, bytes)); break;
		case 'b': answer = byte_at(at); break;
		case 'l': answer = byte_at(at + bytes - 1); break;
		case 'd': answer = (int)cuMemFree(at); break;
		case 'x': answer = (int)cuCtxDestroy(mine); break;
		case 'n':
			NEED(cuMemFree(old));
			at = memory_of(bytes, 0xa6);
			answer = at == old;
			break;
		case 's':
			bytes = note->bytes;
			at = memory_of(bytes, 0xa3);
			break;
		case 'r': answer = (int)cuIpcOpenMemHandle(&opened, note->handle, LAZY); break;
		default: return;
		}
		note->at = at;
		peer_tell(parent, answer, -1);
	}
}

static inline void note_make(void)
{
	note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (note == MAP_FAILED)
		_exit(2);
}

static inline struct peer exporter_start(void)
{
	note_make();
	return peer_start(exporter);
}

static inline int order(struct peer *peer, int word)
{
	peer_tell(peer, word, -1);
	return peer_hear(peer, NULL);
}

/* A handle of the peer's memory. */
static inline CUipcMemHandle handle_of(struct peer *peer)
{
	order(peer, 'h');
	return note->handle;
}

static inline CUdeviceptr opened_from(struct peer *peer)
{
	CUdeviceptr at = 0;
	CUipcMemHandle handle = handle_of(peer);

	NEED(cuIpcOpenMemHandle(&at, handle, LAZY));
	return at;
}

static inline void peer_end(struct peer *peer)
{
	peer_tell(peer, 'q', -1);
	peer_wait(peer);
}

static inline bool same(const CUipcMemHandle *left, const CUipcMemHandle *right)
{
	return memcmp(left, right, sizeof *left) == 0;
}

static inline CUipcMemHandle untouched_handle(void)
{
	CUipcMemHandle handle;

	memset(&handle, 0x77, sizeof handle);
	return handle;
}

static inline const char *handle_is(const CUipcMemHandle *handle)
{
	CUipcMemHandle none = untouched_handle(), zero;

	memset(&zero, 0, sizeof zero);
	return same(handle, &none) ? "untouched" : same(handle, &zero) ? "zero" : "set";
}

/* What came of an open: closed again where it was one. */
static inline const char *tried(CUdeviceptr at)
{
	static char text[160];

	if (!at || at == UNTOUCHED(CUdeviceptr))
		return OUT(at);
	const char *bytes = vmm_bytes(at, 4);
	snprintf(text, sizeof text, "set, bytes %s, closed %s", bytes, code_of((int)cuIpcCloseMemHandle(at)));
	return text;
}

static inline void try_open(const char *question, CUipcMemHandle handle, unsigned int flags)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(question, cuIpcOpenMemHandle(&at, handle, flags), "%s", tried(at));
}

#endif
