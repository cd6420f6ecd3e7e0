/* SPDX-License-Identifier: MIT */
/*
 * Actors: processes that do what a test tells them, call by call, and can be made to fail or to die at any step.
 *
 * An actor is a role of the harness with a board (seam.h) and a socket over which it is given orders. An order is an
 * action, one or a few public calls; its answer says how they ended. An actor remembers what it has made or opened, and
 * ACTION_CLEAN gives all of it back.
 */
#ifndef CENOTE_TESTS_ACTOR_H
#define CENOTE_TESTS_ACTOR_H

#include "cenote/cenote.h"
#include "seam.h"

#include <stddef.h>

enum action {
	ACTION_START, /* cuInit, and a current context */
	ACTION_STREAM,
	ACTION_SYNC,
	ACTION_POOL_CREATE, /* value: handle types */
	ACTION_POOL_EXPORT,
	ACTION_POOL_EXPORT_FABRIC,
	ACTION_POOL_IMPORT,
	ACTION_POOL_IMPORT_FABRIC,
	ACTION_POOL_WATCH, /* and limit, and ask for its importers */
	ACTION_POOL_EVICT, /* all processes that have imported it */
	ACTION_POOL_IDLE,  /* waits until all blocks are back */
	ACTION_POOL_DESTROY,
	ACTION_BLOCK_ALLOCATE, /* index: which block, as for those that follow */
	ACTION_BLOCK_NAME,
	ACTION_BLOCK_TAKE,
	ACTION_BLOCK_READ,
	ACTION_BLOCK_FREE,
	ACTION_EVENT_CREATE, /* index: which event, as for those that follow */
	ACTION_EVENT_HANDLE,
	ACTION_EVENT_OPEN,
	ACTION_EVENT_RECORD,
	ACTION_EVENT_ENQUEUE, /* the stream must wait for it */
	ACTION_EVENT_WAIT,    /* … and then we wait for the stream */
	ACTION_EVENT_DESTROY,
	ACTION_MEMORY_CREATE, /* value: handle types */
	ACTION_MEMORY_EXPORT,
	ACTION_MEMORY_EXPORT_FABRIC,
	ACTION_MEMORY_IMPORT,
	ACTION_MEMORY_IMPORT_FABRIC,
	ACTION_MEMORY_MAP,
	ACTION_MEMORY_WRITE,
	ACTION_MEMORY_READ,
	ACTION_MEMORY_UNMAP,
	ACTION_LEGACY_ALLOCATE,
	ACTION_LEGACY_HANDLE,
	ACTION_LEGACY_OPEN,
	ACTION_LEGACY_READ,
	ACTION_LEGACY_CLOSE,
	ACTION_LIMIT,  /* value 1: no descriptor can be opened any more; 0: as it was */
	ACTION_GATE,   /* a descriptor of a pipe: the stream waits until the pipe ends */
	ACTION_SOCKET, /* a descriptor: the socket for those that follow */
	ACTION_SEND_POOL,
	ACTION_RECV_POOL,
	ACTION_SEND_BLOCK, /* with the event */
	ACTION_RECV_BLOCK,
	ACTION_CLEAN,
	ACTION_SURVEY,
	ACTION_SWEEP,
	ACTION_REMEMBER, /* what the process has now is what it may have */
	ACTION_AUDIT,    /* the process has no more than that */
	ACTION_END,
};

enum { ACTOR_BLOCKS = 2, ACTOR_EVENTS = 2, ACTOR_BYTES = 64, ACTOR_SENTENCE_BYTES = 300, ACTOR_CALL_BYTES = 80 };

struct order {
	enum action action;
	unsigned index;
	uint64_t value;
	unsigned char bytes[ACTOR_BYTES];
};

struct answer {
	enum action action;
	CUresult result;
	bool idle;   /* an earlier failure left nothing to do it with */
	bool silent; /* it failed without a sentence */
	char call[ACTOR_CALL_BYTES];
	char sentence[ACTOR_SENTENCE_BYTES];
	unsigned char bytes[ACTOR_BYTES];
};

extern const char *const action_names[];

/* Over a socket that keeps messages apart. A descriptor may come with one; -1: none does. False: the peer is gone. */
bool message_send(int sock, const void *bytes, size_t size_bytes, int descriptor);
bool message_receive(int sock, void *ret_bytes, size_t size_bytes, int *ret_descriptor);

#endif
