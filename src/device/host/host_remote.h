/* SPDX-License-Identifier: MIT */
/*
 * Memory of another machine, as an operand of a queue's operations.
 *
 * It has an address range without pages: neither the program nor a kernel can touch it. An operation with such an
 * operand is done by a client of another layer (share/node), piece by piece. The thread that runs the queue waits for
 * the acknowledgement, so the next operation of the stream begins when the bytes are in place on the other machine.
 *
 * This machine's bytes go one of two ways:
 *
 * - Through *slots*, memory that this process shares with its daemon: each byte is copied once more. Heap, stack and
 *   pinned memory, blocks that another process of this machine exported, and what is too short to be worth more.
 * - By their file. Memory that this process got of cuMemAlloc, its own pools or cuMemCreate, mapped for reading and
 *   writing, lies in a memory file that nobody can shrink. The daemon is *lent* the file, maps it once, and reads or
 *   writes the operand where it lies.
 *
 * Who holds what: the program its memory, as always; the daemon a mapping of each file that it was lent, until it is
 * given back (the program frees or unmaps the memory, or lends another file in its place) or the session ends. So pages
 * of a program that was killed stay until the daemon's last piece has ended. A file is never used for other memory once
 * its owner has freed it, so what a daemon writes late meets nobody. But a block of a pool, or a buffer that the
 * program still has, could be in use for something else. Therefore:
 *
 *	An operation whose operand the daemon may touch ends, well or not, when the daemon has answered for each of
 *	its pieces or is gone. Until then the stream waits, and with it all that comes after in stream order: the free
 *	of the block, an event, the program that synchronizes.
 *
 * The daemon answers within seconds, whatever becomes of the network. If it is stopped (a debugger, a frozen cgroup),
 * the stream waits until it goes on or is killed, as it would wait for a kernel that hangs. It ends a connection only
 * when it no longer touches what it was lent over it, and the system ends a dead process's connections after its
 * mappings: so the end of the connection says that nothing is written any more. An operation through slots has a
 * deadline.
 */
#ifndef CN_DEVICE_HOST_HOST_REMOTE_H
#define CN_DEVICE_HOST_HOST_REMOTE_H

#include "device/host/host_memory.h"
#include "device/host/host_queue.h"

enum {
	CN_HOST_REMOTE_SLOTS = 8,
	CN_HOST_REMOTE_SLOT_BYTES = 256 * 1024,
	CN_HOST_REMOTE_FILL_BYTES = 4 * 1024 * 1024, /* of one request */
	CN_HOST_REMOTE_PIECE_BYTES = 512 * 1024,     /* of one request in a file: others on the link wait so long */
	CN_HOST_REMOTE_LEND_BYTES = 16 * 1024,       /* less is copied faster than it is lent */
};

enum cn_host_remote_kind {
	CN_HOST_REMOTE_PUT = 1, /* from the slot or file to the memory */
	CN_HOST_REMOTE_GET,     /* from the memory to the slot or file */
	CN_HOST_REMOTE_FILL,    /* `flags` is the bytes of an element, `value` the element */
	CN_HOST_REMOTE_WRITE,   /* a word of `bytes` bytes */
	CN_HOST_REMOTE_WAIT,    /* until a word compares true; `flags` is CU_STREAM_WAIT_VALUE_… */
	CN_HOST_REMOTE_KIND_COUNT,
};

struct cn_host_remote_request {
	enum cn_host_remote_kind kind;
	unsigned slot;
	uint64_t offset, bytes, value;
	unsigned flags;
	unsigned lent; /* of a PUT or GET: the file, as lend() says. 0: the slot */
	uint64_t lent_offset;
};

/* A memory file of this process, mapped whole: its number, which never repeats, and an address in it. */
struct cn_host_remote_file {
	uint64_t number;
	uintptr_t address;
};

struct cn_host_remote_lane {
	char *slots;
};

/* The client. All but `free` may wait, with deadlines of their own. */
struct cn_host_remote_ops {
	/* `waits`: for a value, so it may take for ever. Some lanes are kept for operations that do not. */
	CUresult (*begin)(void *memory, bool waits, struct cn_host_remote_lane **ret_lane);
	/*
	 * `broken`: a request may still be under way; the lane is not used again. Waits, without a deadline, until no
	 * request that names a file is.
	 */
	void (*end)(struct cn_host_remote_lane *lane, bool broken);
	CUresult (*post)(struct cn_host_remote_lane *lane, void *memory, const struct cn_host_remote_request *request);
	/* Let the daemon have a file: its name in requests of this lane, until end(). 0: not now; use the slots. */
	unsigned (*lend)(struct cn_host_remote_lane *lane, const struct cn_host_remote_file *file);
	/*
	 * Wait until what was posted for a slot is acknowledged; if it names a file, without a deadline. *ret_again: a
	 * wait has to be posted again.
	 */
	CUresult (*finish)(struct cn_host_remote_lane *lane, unsigned slot, bool *ret_again);
	void (*free)(void *memory);
};

/*
 * For the client: a descriptor of a file, to close; -1: its memory is gone, or no descriptor is left. From then on
 * `forget` is called when it is freed or unmapped, by any thread, without locks that rank after NODE.
 */
int cn_host_remote_lend(const struct cn_host_remote_file *file, void (*forget)(uint64_t number), size_t *ret_bytes);

/* Memory on another machine: a number for operations, never used again. On success `memory` is freed with it. */
CUresult cn_host_remote_make(const struct cn_host_remote_ops *ops, void *memory, uint64_t *ret_number);
/* Operations that are under way go on; `memory` is freed after them. 0 does nothing. */
void cn_host_remote_end(uint64_t number);

/* Physical memory that is on another machine. On success `memory` is freed with it. */
CUresult cn_host_physical_remote(const struct cn_physical_facts *facts, const struct cn_host_remote_ops *ops,
				 void *memory, struct cn_physical **ret_physical);
/* Its number, for operations; 0: it is on this machine. A number is never used for other memory. */
uint64_t cn_host_physical_number(const struct cn_physical *physical);

/* One side of an operation that is another machine's: which memory, and where it is mapped. Number 0: it is not. */
struct cn_host_remote_side {
	uint64_t number, start;
};

/* An operation as it would be on this machine, and the sides that are not. Freed by the queue. */
struct cn_host_remote_work {
	struct cn_operation operation;
	uint64_t to, to_start, from, from_start;
};

/*
 * Make an operation one on other machines' memory; a side may be NULL. Before: a copy, a fill, a wait for a value (its
 * side is `from`) or a write of one. On failure it is as before. Afterwards, if it is not accepted by a queue, free
 * `remote`.
 */
CUresult cn_host_remote_wrap(struct cn_operation *operation, const struct cn_host_remote_side *to,
			     const struct cn_host_remote_side *from);

/* Has this process ever had another machine's memory? */
bool cn_host_remote_exists(void);

/* Does a word compare true, as CU_STREAM_WAIT_VALUE_… says? */
static inline bool cn_host_value_compare(uint64_t found, uint64_t wanted, unsigned bytes, unsigned flags)
{
	bool wide = bytes == sizeof(uint64_t);
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;

	switch (flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* modulo 2^n: the difference is not negative */
		return wide ? (int64_t)(found - wanted) >= 0 : (int32_t)(uint32_t)(found - wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ: return found == (wanted & mask);
	case CU_STREAM_WAIT_VALUE_AND: return (found & wanted) != 0;
	default: /* CU_STREAM_WAIT_VALUE_NOR */ return (~(found | wanted) & mask) != 0;
	}
}

#endif
