/* SPDX-License-Identifier: MIT */
/*
 * Memory of other machines: what a program and cenote-imexd, the daemon of its node, say to each other.
 *
 * The daemon alone talks to the network. A program opens memory by its fabric handle through the daemon, or a pool and
 * then blocks of it by what cuMemPoolExportPointer() wrote. It asks for operations on memory and blocks over *lanes*. A
 * lane is a connection of its own with a piece of memory that program and daemon both write: slots, one for each
 * operation under way. The thread that runs a stream takes a lane for the time of one operation, so no thread reads for
 * another.
 *
 * A program lends the daemon memory files in which operands lie (host_remote.h has the rules). The session has a table
 * of CN_NODE_LENT_MAX of them. A request names a file by its place there, and the daemon touches the operand in the
 * file; what lies in no such file goes through the slot. The program gives a file back when its memory is freed or
 * unmapped and when the table is full, never while a request names it. The daemon accepts a memory file that is sealed
 * against shrinking and growing, and nothing else: it can neither fault nor wait there.
 *
 * A program's first connection is its session. It carries no operations: its end tells the daemon that the program is
 * gone, and the daemon closes all that the session had open. When the daemon ends, all that was open is lost, and
 * operations on it fail; what is opened later uses a new session.
 *
 * Messages are those of wire.h. The daemon checks each field; a program that breaks the protocol is hung up on. The
 * daemon answers each request within seconds when the other node is gone, and a program waits for an answer with a
 * deadline, which it extends while the daemon answers and the node is connected.
 */
#ifndef CN_SHARE_NODE_NODE_H
#define CN_SHARE_NODE_NODE_H

#include "base/error.h"
#include "device/host/host_remote.h"

#include <stdint.h>

enum {
	CN_NODE_HANDLE_BYTES = 64,
	CN_NODE_SESSION_BYTES = 16,
	CN_NODE_LANE_BYTES = CN_HOST_REMOTE_SLOTS * CN_HOST_REMOTE_SLOT_BYTES,
	CN_NODE_WAIT_MS = 2000, /* a wait for a value that takes longer is answered with "not yet" */
	/*
	 * For an answer: longer than the daemon needs to find that a node is gone. When it is over, the program asks
	 * the daemon whether the node is connected, and waits as long again if it is: the link may be slow, and others'
	 * bytes go before.
	 */
	CN_NODE_ANSWER_MS = 20000,
	CN_NODE_CONNECTIONS = 32, /* of one program: the session, and lanes */
	CN_NODE_LENT_MAX = 32,    /* files of one program */
};

/* A HELLO. Its bytes: nothing, for a session; else the session to which the lane belongs. */
enum cn_node_hello_word { CN_NODE_HELLO_NODE, CN_NODE_HELLO_COUNT };
/*
 * The answer to an OPEN, whose words are the handle, with the channel beside it; and to a BLOCK, whose words are the
 * 64 bytes of an exported pointer, and the pool. LIFE counts connections to the node. A pool's bytes are its range.
 */
enum { CN_NODE_BLOCK_POOL = CN_NODE_HANDLE_BYTES / 8 };
enum cn_node_open_word {
	CN_NODE_OPEN_MEMORY,
	CN_NODE_OPEN_BYTES,
	CN_NODE_OPEN_LIFE,
	CN_NODE_OPEN_OFFSET,   /* of a block, in the pool's range */
	CN_NODE_OPEN_ID,       /* of a pool, as its exporter reports it, */
	CN_NODE_OPEN_LOCATION, /* and where it is: cn_node_location() */
};
enum cn_node_request_word {
	CN_NODE_REQUEST_MEMORY,
	CN_NODE_REQUEST_OPERATION, /* enum cn_host_remote_kind */
	CN_NODE_REQUEST_SLOT,
	CN_NODE_REQUEST_OFFSET,
	CN_NODE_REQUEST_BYTES, /* of a value: 4 or 8 */
	CN_NODE_REQUEST_VALUE,
	CN_NODE_REQUEST_FLAGS, /* of a fill: bytes of an element. Of a wait: CU_STREAM_WAIT_VALUE_… */
	CN_NODE_REQUEST_LENT,  /* of a PUT or GET: 1 + the place of the file in which the bytes are; 0: the slot */
	CN_NODE_REQUEST_LENT_OFFSET,
};
/* A LEND, whose answer is an outcome; and a RETURN, which has the first word alone. */
enum cn_node_lend_word { CN_NODE_LEND_PLACE, CN_NODE_LEND_BYTES };

/* A STATUS, and its answer. Node 0 is the one that is asked. */
enum cn_node_status_word { CN_NODE_STATUS_NODE, CN_NODE_STATUS_UP, CN_NODE_STATUS_IMPORTS, CN_NODE_STATUS_SERVED };

/*
 * A HELD has a cursor in its first word: 0, then that of the last answer. The answer, from its words on: some of the
 * files of exporters here that the daemon has mapped for other nodes, one for each import. Only those of the asking
 * program's user are told; root is told of all.
 */
enum { CN_NODE_HELD_EACH = 4 };
struct cn_node_held {
	uint64_t node;  /* for which it is held; 0: no more in this answer */
	uint64_t file;  /* the inode of the memory file */
	uint64_t bytes; /* of the file */
};
struct cn_node_held_answer {
	uint64_t cursor; /* 0: these were the last */
	struct cn_node_held held[CN_NODE_HELD_EACH];
};
_Static_assert(sizeof(struct cn_node_held_answer) == 104, "the words and bytes of a message");

/* What the daemon answers: node.c has the sentences. */
enum cn_node_outcome {
	CN_NODE_DONE,
	CN_NODE_NOT_YET,    /* of a wait */
	CN_NODE_MALFORMED,  /* no such memory, or not so many bytes */
	CN_NODE_UNKNOWN,    /* no node has this number */
	CN_NODE_DOWN,       /* the node is not connected */
	CN_NODE_LOST,       /* the connection to the node ended meanwhile, or the memory was opened before it did */
	CN_NODE_NO_CHANNEL, /* the caller has not shown the handle's IMEX channel */
	CN_NODE_GONE,       /* the exporter, or what it exported, is not there */
	CN_NODE_FORBIDDEN,  /* the exporter's node refuses: it does not have the channel */
	CN_NODE_FULL,       /* a table of the daemon's is full */
	CN_NODE_FREED,      /* the block's exporter has freed it, or never had it */
	CN_NODE_OUTCOME_COUNT,
};

/* ---- A program's side ---- */

/* Memory, a pool, or a block of one. */
struct cn_node_memory;

/* What the daemons say of it. It is not trusted. */
struct cn_node_facts {
	uint64_t bytes;
	uint64_t offset, id;
	int location_type, location_id;
};

enum { CN_NODE_LOCATION_ID_BITS = 24 };

/* The number of this machine in its domain; 0: no daemon can be asked. */
uint32_t cn_node_number(void);
/* The same: 0 and the number, or errno, and the words that explain it. */
int cn_node_ask_number(uint32_t *ret_number);
const char *cn_node_explain(int error);

/*
 * Open memory or a pool of another node. `channel_fd` is the IMEX channel of the handle, opened.
 *
 *   CUDA_ERROR_NOT_SUPPORTED     the node, the exporter or the memory is not there
 *   CUDA_ERROR_NOT_PERMITTED     the channel is not the exporter's
 *   CUDA_ERROR_OPERATING_SYSTEM  the daemon does not answer
 */
CUresult cn_node_open(const unsigned char handle[CN_NODE_HANDLE_BYTES], uint32_t node, int channel_fd,
		      struct cn_node_memory **ret_memory, struct cn_node_facts *ret_facts);
/* Open a block of a pool: `data` is the 64 bytes of an exported pointer. CUDA_ERROR_INVALID_VALUE: it was freed. */
CUresult cn_node_open_block(const struct cn_node_memory *pool, const void *data, struct cn_node_memory **ret_memory,
			    struct cn_node_facts *ret_facts);
/*
 * Count it among what this process reports that it has open, until it is freed. Of a pool and its blocks the import
 * reports that (import.h).
 */
void cn_node_count(struct cn_node_memory *memory, uint64_t bytes);
struct cn_node_opened {
	uint32_t node;
	uint64_t count, bytes;
	uint64_t since_ns; /* since when something has been open without a break */
};
/* What is counted of the node with the next higher number. False: of no more. */
bool cn_node_opened_after(uint32_t node, struct cn_node_opened *ret_opened);
/* The number of the node that has it. */
uint32_t cn_node_of(const struct cn_node_memory *memory);
/* Were both opened over the same connections: is one lost if the other is? */
bool cn_node_is_same_life(const struct cn_node_memory *one, const struct cn_node_memory *other);
/* What the host device's queues need of it; its memory is a struct cn_node_memory, which they free. */
const struct cn_host_remote_ops *cn_node_ops(void);

struct cn_node_status {
	uint32_t number, count; /* of all nodes */
	bool is_self, is_up;
	uint64_t import_count, served_count;
};
/* About a node; 0 is this one. CUDA_ERROR_INVALID_VALUE: no such node; CUDA_ERROR_OPERATING_SYSTEM: no daemon. */
CUresult cn_node_look(uint32_t number, struct cn_node_status *ret_status);
/*
 * Tell of each file that the daemon holds for another node, once for each import. CUDA_ERROR_OPERATING_SYSTEM: no
 * daemon, or it does not answer or takes too long; what was told before counts.
 */
CUresult cn_node_look_held(void (*tell)(const struct cn_node_held *held, void *data), void *data);
/* The process that listens for programs, which is not asked; 0: not visible. CUDA_ERROR_OPERATING_SYSTEM: none does. */
CUresult cn_node_find_daemon(int *ret_pid);

#endif
