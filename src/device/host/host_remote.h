/* SPDX-License-Identifier: MIT */
/*
 * Memory of another machine, as an operand of a queue's operations.
 *
 * It has an address range without pages: neither the program nor a kernel can touch it. An operation with such an
 * operand is done by a client of another layer (share/node), piece by piece: bytes go through *slots*, memory that this
 * process shares with its daemon. The thread that runs the queue waits for the acknowledgement, so the next operation
 * of the stream begins when the bytes are in place on the other machine.
 */
#ifndef CN_DEVICE_HOST_HOST_REMOTE_H
#define CN_DEVICE_HOST_HOST_REMOTE_H

#include "device/host/host_memory.h"
#include "device/host/host_queue.h"

enum {
	CN_HOST_REMOTE_SLOTS = 8,
	CN_HOST_REMOTE_SLOT_BYTES = 256 * 1024,
	CN_HOST_REMOTE_FILL_BYTES = 4 * 1024 * 1024, /* of one request */
};

enum cn_host_remote_kind {
	CN_HOST_REMOTE_PUT = 1, /* from the slot to the memory */
	CN_HOST_REMOTE_GET,     /* from the memory to the slot */
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
};

struct cn_host_remote_lane {
	char *slots;
};

/* The client. All but `free` may wait, with deadlines of their own. */
struct cn_host_remote_ops {
	CUresult (*begin)(void *memory, struct cn_host_remote_lane **ret_lane);
	/* `broken`: a request may still be under way; the lane is not used again. */
	void (*end)(struct cn_host_remote_lane *lane, bool broken);
	CUresult (*post)(struct cn_host_remote_lane *lane, void *memory, const struct cn_host_remote_request *request);
	/* Wait until what was posted for a slot is acknowledged. *ret_again: a wait has to be posted again. */
	CUresult (*finish)(struct cn_host_remote_lane *lane, unsigned slot, bool *ret_again);
	void (*free)(void *memory);
};

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
