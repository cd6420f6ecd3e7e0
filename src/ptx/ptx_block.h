/* SPDX-License-Identifier: MIT */
/*
 * A block that runs.
 *
 * Its threads are lanes. Lanes that are at the same instruction of the same frame form the group that runs; the others
 * wait, each with its own program counter. Of several groups the one with the lowest program counter goes first, since
 * that is the one the others wait for where branches join again. A group that may be waiting for another lane, since it
 * has used atomics or volatile memory a number of times, gives way, so that a lock which a lane of the block holds is
 * released. Others do so late: lanes that left a loop early wait for those that did not, and go on together.
 *
 * Invariants: pc[i] and frame[i] are true for lanes outside of the group; for those inside, the group's are. A lane is
 * in the group only while its status is CN_PTX_RUNS.
 */
#ifndef CN_PTX_PTX_BLOCK_H
#define CN_PTX_PTX_BLOCK_H

#include "ptx/ptx_ir.h"
#include "ptx/ptx_kernels.h"

enum {
	CN_PTX_BARRIERS = 16,
	CN_PTX_QUANTUM = 1 << 20,           /* instructions after which a group gives way */
	CN_PTX_POLL = CN_PTX_QUANTUM / 64,  /* what an instruction that may wait for another lane counts as */
	CN_PTX_CALL_BYTES = 32 << 10,       /* of registers, a lane, for calls below a kernel */
	CN_PTX_CALL_LOCAL_BYTES = 16 << 10, /* of local memory, a lane, for the same */
	CN_PTX_SCRATCH_BYTES = 16,          /* a lane */
	CN_PTX_RESERVED_BYTES = 1024,       /* of shared memory, for cooperative groups; as on a GPU */
};

enum cn_ptx_status {
	CN_PTX_RUNS,
	CN_PTX_AT_BARRIER,
	CN_PTX_AT_WARP, /* waits for other lanes of its warp */
	CN_PTX_ENDED,
};

/* Lanes that take part: those from `low` to before `high` whose byte in mask is 1. dense: all of them. */
struct cn_ptx_lanes {
	uint8_t *mask;
	uint32_t low, high, count;
	bool dense;
};

struct cn_ptx_barrier_state {
	uint32_t arrived, expected; /* 0 expected: all lanes that have not ended */
	uint32_t true_count, red_count;
};

struct cn_ptx_block {
	struct cn_ptx_module *module;
	const struct cn_ptx_function *kernel;
	const struct cn_ptx_plan *plan;
	const struct cn_ptx_build *build;
	struct cn_ptx_launch launch;
	unsigned coordinates[3];
	uint32_t lanes, stride; /* stride: rounded up, the length of a register's array */

	char *memory; /* one mapping: everything below */
	size_t memory_bytes;
	char *registers, *shared, *local, *scratch, *parameters;
	uint64_t *addresses;
	size_t frame_limit; /* bytes of registers a lane */
	uint32_t shared_bytes, static_shared_bytes, local_stride;
	uint32_t reserved_at; /* in shared memory, behind what the kernel has; 0: there is none */
	uint32_t *pc, *frame, *local_at;
	uint8_t *status, *barrier_of, *ready; /* ready: has met the lanes of its warp that it waited for */
	char **constants;                     /* of each function of the plan; NULL: not made yet */

	uint32_t live, running; /* lanes that have not ended; that are not waiting either */
	struct cn_ptx_barrier_state barriers[CN_PTX_BARRIERS];

	/* The group that runs. */
	bool has_group, is_fresh; /* fresh: nothing has run yet */
	struct cn_ptx_lanes group;
	uint8_t *guarded, *met; /* masks: of those whose guard holds; of those that met their warp */
	uint32_t group_pc, group_frame, stop_pc, floor_pc;
	const struct cn_ptx_function *here; /* the function that it is in */
	int64_t quantum;
	char *frame_base, *constant_base;
	int64_t budget;

	/* What is being executed, for a fault's report. */
	struct cn_ptx_lanes active;
	bool accesses; /* addresses[] are being used */
	struct cn_ptx_fault fault;
	enum cn_ptx_state state;
};

/* The array of an operand in the group's frame, or of the function's constants. */
static inline char *cn_ptx_at(const struct cn_ptx_block *block, cn_ptx_operand operand)
{
	return operand >= 0 ? block->frame_base + (size_t)operand * block->stride
			    : block->constant_base + (size_t)~operand * block->stride;
}

static inline uint64_t cn_ptx_read(const void *array, size_t index, unsigned width)
{
	switch (width) {
	case 1: return ((const uint8_t *)array)[index];
	case 2: return ((const uint16_t *)array)[index];
	case 4: return ((const uint32_t *)array)[index];
	default: return ((const uint64_t *)array)[index];
	}
}

static inline void cn_ptx_write(void *array, size_t index, unsigned width, uint64_t value)
{
	switch (width) {
	case 1: ((uint8_t *)array)[index] = (uint8_t)value; break;
	case 2: ((uint16_t *)array)[index] = (uint16_t)value; break;
	case 4: ((uint32_t *)array)[index] = (uint32_t)value; break;
	default: ((uint64_t *)array)[index] = value; break;
	}
}

/* Lanes of a set, in order. NOLINTBEGIN(bugprone-macro-parentheses): i is a name */
#define CN_PTX_EACH(lanes, i)                                   \
	for (uint32_t i = (lanes)->low; i < (lanes)->high; i++) \
		if ((lanes)->mask[i])
/* NOLINTEND(bugprone-macro-parentheses) */

/* The function that a program counter belongs to, and the instruction there. */
const struct cn_ptx_function *cn_ptx_function_at(const struct cn_ptx_module *module, uint32_t pc);
const struct cn_ptx_inst *cn_ptx_inst_at(const struct cn_ptx_module *module, uint32_t pc);

/* ptx_block.c */
bool cn_ptx_fault_at(struct cn_ptx_block *block, enum cn_ptx_state state, uint32_t lane, uint64_t address);
/* The value of one lane's operand. */
uint64_t cn_ptx_lane_value(const struct cn_ptx_block *block, cn_ptx_operand operand, unsigned width, uint32_t lane);

/* The array of an operand in the frame that a waiting lane is in. */
char *cn_ptx_at_lane(struct cn_ptx_block *block, uint32_t lane, cn_ptx_operand operand);

/* ptx_launch.c */
enum cn_ptx_error_code cn_ptx_block_create(const struct cn_ptx_launch *launch, struct cn_ptx_error *ret_error,
					   struct cn_ptx_block **ret_block);
void cn_ptx_block_destroy(struct cn_ptx_block *block);
void cn_ptx_block_begin(struct cn_ptx_block *block, const unsigned coordinates[3]);
enum cn_ptx_state cn_ptx_block_run(struct cn_ptx_block *block, uint64_t budget, struct cn_ptx_fault *ret_fault);
/* Have a function's constants; NULL: no memory. */
char *cn_ptx_constants(struct cn_ptx_block *block, const struct cn_ptx_function *function);

/* ptx_memory.c: false: there is a fault. */
bool cn_ptx_run_load(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
bool cn_ptx_run_store(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
bool cn_ptx_run_atomic(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
bool cn_ptx_run_copy(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
void cn_ptx_run_address(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
/* Fill addresses[] with host addresses of the active lanes. */
bool cn_ptx_find_addresses(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, unsigned bytes);

/* ptx_mbarrier.c */
bool cn_ptx_run_mbarrier(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);

/* ptx_atomic.c */
uint64_t cn_ptx_atomic(void *at, enum cn_ptx_operation op, enum cn_ptx_type type, uint64_t b, uint64_t c,
		       bool is_shared);
uint32_t cn_ptx_reduce(enum cn_ptx_operation op, enum cn_ptx_type type, uint32_t a, uint32_t b);

/* ptx_warp.c: all lanes that take part are there. */
void cn_ptx_run_warp(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, const struct cn_ptx_lanes *lanes);
/* Which of the active lanes find their warp complete: those stay in `ready`; the others wait. True: all of them. */
bool cn_ptx_warp_meet(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, struct cn_ptx_lanes *lanes);
/* Lanes have ended or begun to wait: wake those that have no other lane to wait for. */
void cn_ptx_warp_wake(struct cn_ptx_block *block);

/* ptx_barrier.c: true: the group may go on; *ret_ok is false where there is a fault. */
bool cn_ptx_run_barrier(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, bool *ret_ok);
void cn_ptx_barrier_wake(struct cn_ptx_block *block);

/* ptx_frame.c: calls and returns, which change lanes' pc and frame; the group is gone afterwards. */
bool cn_ptx_run_call(struct cn_ptx_block *block, const struct cn_ptx_inst *inst);
void cn_ptx_run_return(struct cn_ptx_block *block);

#endif
