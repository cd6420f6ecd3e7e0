/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's loop: choose a group, run its instructions, part and join groups (see ptx_block.h).
 */
#include "ptx/ptx_block.h"

#include "ptx/ptx_builtin.h"

#include <fenv.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* ---- Places, for a person ---------------------------------------------------------------------------------------- */

/* Where a lane of the group is. */
static void describe(const struct cn_ptx_block *block, uint32_t lane, struct cn_ptx_fault *fault)
{
	const struct cn_ptx_module *module = block->module;
	const struct cn_ptx_function *function = cn_ptx_function_at(module, block->group_pc);
	const struct cn_ptx_inst *inst = &function->code[block->group_pc - function->start];
	const struct cn_ptx_place *place = inst->location ? &function->places[inst->location - 1] : NULL;
	const unsigned *shape = block->launch.block;

	fault->kernel = block->kernel->name;
	fault->line = inst->line;
	if (place && place->file < module->file_count) {
		fault->source = module->files[place->file];
		fault->source_line = place->line;
	}
	memcpy(fault->block, block->coordinates, sizeof fault->block);
	fault->thread[0] = lane % shape[0];
	fault->thread[1] = lane / shape[0] % shape[1];
	fault->thread[2] = lane / shape[0] / shape[1];
}

bool cn_ptx_fault_at(struct cn_ptx_block *block, enum cn_ptx_state state, uint32_t lane, uint64_t address)
{
	block->fault = (struct cn_ptx_fault){.state = state, .address = address};
	describe(block, lane, &block->fault);
	block->state = state;
	return false;
}

/* A debugger stops here, by this name (docs/kernels.md): it must stay a function, and have its argument. */
__attribute__((noinline, used)) static void cn_ptx_breakpoint(const struct cn_ptx_fault *at)
{
	__asm__ volatile("" : : "r"(at) : "memory");
}

/* brkpt: each active lane by itself. */
static void run_breakpoint(const struct cn_ptx_block *block)
{
	CN_PTX_EACH(&block->active, i)
	{
		struct cn_ptx_fault at = {.state = CN_PTX_AGAIN};

		describe(block, i, &at);
		cn_ptx_breakpoint(&at);
	}
}

uint64_t cn_ptx_lane_value(const struct cn_ptx_block *block, cn_ptx_operand operand, unsigned width, uint32_t lane)
{
	return cn_ptx_read(cn_ptx_at(block, operand), lane, width);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

const struct cn_ptx_function *cn_ptx_function_at(const struct cn_ptx_module *module, uint32_t pc)
{
	uint32_t low = 0, high = module->body_count;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (module->functions[module->bodies[middle]].start <= pc)
			low = middle;
		else
			high = middle;
	}
	return &module->functions[module->bodies[low]];
}

const struct cn_ptx_inst *cn_ptx_inst_at(const struct cn_ptx_module *module, uint32_t pc)
{
	const struct cn_ptx_function *function = cn_ptx_function_at(module, pc);

	return &function->code[pc - function->start];
}

char *cn_ptx_at_lane(struct cn_ptx_block *block, uint32_t lane, cn_ptx_operand operand)
{
	if (operand >= 0)
		return block->registers + ((size_t)block->frame[lane] + (size_t)operand) * block->stride;
	/* The lane has run this function: its constants are there. */
	return cn_ptx_constants(block, cn_ptx_function_at(block->module, block->pc[lane])) +
	       (size_t)~operand * block->stride;
}

/* Where the group must look at the others: the lowest program counter from `from` on that another lane waits at. */
static void find_stop(struct cn_ptx_block *block, uint32_t from)
{
	block->stop_pc = UINT32_MAX;
	if (block->running > block->group.count)
		block->stop_pc = block->build->stop(block->pc, block->status, CN_PTX_RUNS, block->group.mask, from,
						    block->lanes);
}

static void fit(struct cn_ptx_lanes *lanes, uint32_t low, uint32_t high)
{
	const uint8_t *first = memchr(lanes->mask + low, 1, high - low);
	const uint8_t *last = first ? memrchr(first, 1, (size_t)(lanes->mask + high - first)) : NULL;
	uint32_t count = 0;

	lanes->low = first ? (uint32_t)(first - lanes->mask) : low;
	lanes->high = first ? (uint32_t)(last - lanes->mask) + 1 : low;
	for (uint32_t i = lanes->low; i < lanes->high; i++)
		count += lanes->mask[i];
	lanes->count = count;
	lanes->dense = count == lanes->high - lanes->low;
}

/* Lanes of the group are at `next` now, those in `taken` at `target`; there is no group any more. */
static void part_group(struct cn_ptx_block *block, const uint8_t *taken, uint32_t target, uint32_t next)
{
	const struct cn_ptx_lanes *group = &block->group;
	uint32_t low = group->low, count = group->high - low;

	block->build->part(block->pc + low, group->mask + low, taken + low, target, next, count);
	if (block->plan->calls)
		block->build->part(block->frame + low, group->mask + low, group->mask + low, block->group_frame,
				   block->group_frame, count);
	block->has_group = false;
}

static void leave_group(struct cn_ptx_block *block)
{
	part_group(block, block->group.mask, block->group_pc, block->group_pc);
}

/* The group's mask is set: find what belongs to its place. */
static bool enter_group(struct cn_ptx_block *block, uint32_t pc, uint32_t frame)
{
	block->group_pc = pc;
	block->group_frame = frame;
	block->frame_base = block->registers + (size_t)frame * block->stride;
	block->here = cn_ptx_function_at(block->module, pc);
	block->constant_base = cn_ptx_constants(block, block->here);
	block->quantum = CN_PTX_QUANTUM;
	block->has_group = true;
	find_stop(block, pc + 1);
	if (block->constant_base)
		return true;
	return cn_ptx_fault_at(block, CN_PTX_STACK_OVERFLOW, block->group.low, 0);
}

/* False: no lane can run. */
static bool choose_group(struct cn_ptx_block *block)
{
	uint32_t lowest = UINT32_MAX, next = UINT32_MAX, frame = 0;
	uint8_t *mask = block->group.mask;

	if (!block->running)
		return false;
	if (block->is_fresh) { /* all lanes, at the kernel's start */
		block->is_fresh = false;
		memset(mask, 1, block->lanes);
		block->group.low = 0;
		block->group.high = block->group.count = block->lanes;
		block->group.dense = true;
		return enter_group(block, block->kernel->start, 0);
	}
	block->build->lowest(block->pc, block->status, CN_PTX_RUNS, block->floor_pc, block->lanes, &lowest, &next);
	if (next != UINT32_MAX)
		lowest = next;
	block->floor_pc = 0;
	for (uint32_t i = block->plan->calls ? block->lanes : 0; i-- > 0;)
		if (block->status[i] == CN_PTX_RUNS && block->pc[i] == lowest)
			frame = block->frame[i];
	block->build->select(mask, block->pc, block->frame, block->status, CN_PTX_RUNS, lowest, frame, block->lanes);
	fit(&block->group, 0, block->lanes);
	return enter_group(block, lowest, frame);
}

/* Of the group: those whose guard holds. */
static void apply_guard(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	uint32_t low = block->group.low, high = block->group.high;
	size_t count = block->build->guard(block->guarded + low, block->group.mask + low,
					   (const uint8_t *)cn_ptx_at(block, inst->guard) + low, inst->guard_negated,
					   high - low);

	block->active.mask = block->guarded;
	if (count == block->group.count) {
		block->active = block->group;
		return;
	}
	if (count) {
		fit(&block->active, low, high);
		return;
	}
	block->active.low = block->active.high = low;
	block->active.count = 0;
}

/* ---- Instructions ------------------------------------------------------------------------------------------------ */

static void run_kernel(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	const struct cn_ptx_lanes *active = &block->active;
	size_t low = active->low, count = active->high - low;
	const char *sources[4] = {NULL};
	char *d = cn_ptx_at(block, inst->operand[0]) + low * inst->width[0];

	for (unsigned i = 1; i < 4; i++)
		if (inst->operand[i] != CN_PTX_NONE)
			sources[i] = cn_ptx_at(block, inst->operand[i]) + low * inst->width[i];
	if (active->dense) {
		block->build->kernels[inst->kernel](d, sources[1], sources[2], sources[3], count, inst->detail);
		return;
	}
	block->build->kernels[inst->kernel](block->scratch, sources[1], sources[2], sources[3], count, inst->detail);
	block->build->blend(d, block->scratch, active->mask + low, count, inst->width[0]);
}

static void run_lane(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	char *arrays[4] = {NULL};

	for (unsigned i = 0; i < 4; i++)
		if (inst->operand[i] != CN_PTX_NONE)
			arrays[i] = cn_ptx_at(block, inst->operand[i]);
	CN_PTX_EACH(&block->active, i)
	{
		uint64_t a = arrays[1] ? cn_ptx_read(arrays[1], i, inst->width[1]) : 0;
		uint64_t b = arrays[2] ? cn_ptx_read(arrays[2], i, inst->width[2]) : 0;
		uint64_t c = arrays[3] ? cn_ptx_read(arrays[3], i, inst->width[3]) : 0;

		cn_ptx_write(arrays[0], i, inst->width[0], inst->lane(a, b, c, inst->detail));
	}
}

typedef unsigned __int128 wide;
typedef __int128 signed_wide;

/* A sum with its carry, of 32 or 64 bits. */
static void run_carry(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	unsigned width = inst->width[0];
	uint8_t *carry = (uint8_t *)cn_ptx_at(block, inst->operand[4]);
	bool is_signed = cn_ptx_type_is_signed(inst->type);

	CN_PTX_EACH(&block->active, i)
	{
		uint64_t a = cn_ptx_lane_value(block, inst->operand[1], width, i);
		uint64_t b = cn_ptx_lane_value(block, inst->operand[2], width, i);
		uint64_t mask = width == 8 ? UINT64_MAX : UINT32_MAX;
		unsigned in = inst->flag & 1 ? carry[i] : 0;
		wide sum;

		if (inst->detail == CN_PTX_CARRY_MAD_LO || inst->detail == CN_PTX_CARRY_MAD_HI) {
			wide product = is_signed && width == 4 ? (wide)(signed_wide)((int64_t)(int32_t)a * (int32_t)b)
				       : is_signed             ? (wide)((signed_wide)(int64_t)a * (int64_t)b)
							       : (wide)a * b;

			a = (uint64_t)(inst->detail == CN_PTX_CARRY_MAD_LO ? product : product >> 8 * width) & mask;
			b = cn_ptx_lane_value(block, inst->operand[3], width, i);
		}
		/* Of a difference the flag says that nothing was borrowed: compilers read it with addc. */
		if (inst->detail == CN_PTX_CARRY_SUB)
			sum = (wide)a + (~b & mask) + (inst->flag & 1 ? in : 1);
		else
			sum = (wide)a + b + in;
		cn_ptx_write(cn_ptx_at(block, inst->operand[0]), i, width, (uint64_t)sum);
		if (inst->flag & 2)
			carry[i] = (uint8_t)(sum >> 8 * width & 1);
	}
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_clock(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	bool is_global = inst->detail >= CN_PTX_S_GLOBALTIMER;
	bool is_high = inst->detail == CN_PTX_S_CLOCK_HI || inst->detail == CN_PTX_S_GLOBALTIMER_HI;
	uint64_t now = nanoseconds(is_global ? CLOCK_REALTIME : CLOCK_MONOTONIC) >> (is_high ? 32 : 0);
	char *d = cn_ptx_at(block, inst->operand[0]);

	CN_PTX_EACH(&block->active, i)
	{
		cn_ptx_write(d, i, inst->width[0], now);
	}
}

static void run_active_mask(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	uint32_t *d = (uint32_t *)cn_ptx_at(block, inst->operand[0]);

	for (uint32_t warp = block->active.low & ~31u; warp < block->active.high; warp += 32) {
		uint32_t mask = 0;

		for (uint32_t i = warp; i < warp + 32 && i < block->active.high; i++)
			mask |= (uint32_t)(i >= block->active.low && block->active.mask[i]) << (i - warp);
		for (uint32_t i = 0; i < 32; i++)
			if (mask >> i & 1)
				d[warp + i] = mask;
	}
}

static void run_end(struct cn_ptx_block *block)
{
	if (block->active.count == block->live) { /* the block is done */
		block->live = block->running = 0;
		return;
	}
	CN_PTX_EACH(&block->active, i)
	{
		block->status[i] = CN_PTX_ENDED;
	}
	block->live -= block->active.count;
	block->running -= block->active.count;
	/* Those whose guard did not hold go on. */
	block->group_pc++;
	leave_group(block);
	if (block->running < block->live) {
		cn_ptx_barrier_wake(block);
		cn_ptx_warp_wake(block);
	}
}

/* Some or all of the group go to `target`. */
static void run_branch(struct cn_ptx_block *block, uint32_t target)
{
	if (block->active.count == block->group.count) {
		block->group_pc = target;
		if (block->running > block->group.count)
			find_stop(block, target);
		return;
	}
	part_group(block, block->active.mask, target, block->group_pc + 1);
}

static void run_branch_index(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	const uint32_t *index = (const uint32_t *)cn_ptx_at(block, inst->operand[1]);

	block->group_pc++;
	leave_group(block);
	CN_PTX_EACH(&block->active, i)
	{
		/* Beyond the list is undefined: it falls through. */
		if (index[i] < inst->detail)
			block->pc[i] = block->here->more[inst->more + index[i]];
	}
}

/* Shuffles and the like: lanes that meet go on, and the others wait where they are. */
static void run_together(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	struct cn_ptx_lanes lanes = block->active;

	if (inst->flag || cn_ptx_warp_meet(block, inst, &lanes)) {
		if (inst->kind != CN_PTX_I_WARP_BARRIER)
			cn_ptx_run_warp(block, inst, &lanes);
		block->group_pc++;
		return;
	}
	/* Those that wait have said so in status; those that go on are in `lanes`. */
	if (inst->kind != CN_PTX_I_WARP_BARRIER)
		cn_ptx_run_warp(block, inst, &lanes);
	leave_group(block);
	for (uint32_t i = block->group.low; i < block->group.high; i++)
		if (block->group.mask[i] && block->status[i] == CN_PTX_RUNS)
			block->pc[i]++;
	cn_ptx_warp_wake(block);
}

static bool run_control(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	bool ok = true;

	switch (inst->kind) {
	case CN_PTX_I_BRANCH: run_branch(block, inst->target); break;
	case CN_PTX_I_BRANCH_INDEX: run_branch_index(block, inst); break;
	case CN_PTX_I_CALL: return cn_ptx_run_call(block, inst);
	case CN_PTX_I_RETURN: cn_ptx_run_return(block); break;
	case CN_PTX_I_EXIT: run_end(block); break;
	case CN_PTX_I_TRAP: return cn_ptx_fault_at(block, CN_PTX_TRAP, block->active.low, 0);
	case CN_PTX_I_BARRIER:
		if (cn_ptx_run_barrier(block, inst, &ok))
			block->group_pc++;
		break;
	case CN_PTX_I_WARP_BARRIER:
	case CN_PTX_I_SHUFFLE:
	case CN_PTX_I_VOTE:
	case CN_PTX_I_MATCH:
	case CN_PTX_I_REDUX:
	case CN_PTX_I_ELECT: run_together(block, inst); break;
	case CN_PTX_I_SLEEP: /* give way, to lanes and to blocks */
		block->group_pc++;
		block->quantum = block->budget = 0;
		break;
	case CN_PTX_I_BREAK:
		run_breakpoint(block);
		block->group_pc++;
		break;
	default: block->group_pc++; break;
	}
	return ok;
}

/* False: there is a fault. */
static bool run_instruction(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	switch (inst->kind) {
	case CN_PTX_I_KERNEL: run_kernel(block, inst); break;
	case CN_PTX_I_LANE: run_lane(block, inst); break;
	case CN_PTX_I_CARRY: run_carry(block, inst); break;
	case CN_PTX_I_LOAD:
		block->quantum -= inst->flag ? CN_PTX_POLL : 0;
		if (!cn_ptx_run_load(block, inst))
			return false;
		break;
	case CN_PTX_I_STORE:
		if (!cn_ptx_run_store(block, inst))
			return false;
		break;
	case CN_PTX_I_ATOMIC:
		block->quantum -= CN_PTX_POLL;
		if (!cn_ptx_run_atomic(block, inst))
			return false;
		break;
	case CN_PTX_I_COPY:
		if (!cn_ptx_run_copy(block, inst))
			return false;
		break;
	case CN_PTX_I_MBARRIER:
		if (!cn_ptx_run_mbarrier(block, inst))
			return false;
		break;
	case CN_PTX_I_LOCAL_ADDRESS:
	case CN_PTX_I_PARAM_ADDRESS:
	case CN_PTX_I_GENERIC_SHARED:
	case CN_PTX_I_IS_SHARED: cn_ptx_run_address(block, inst); break;
	case CN_PTX_I_CLOCK: run_clock(block, inst); break;
	case CN_PTX_I_ACTIVE_MASK: run_active_mask(block, inst); break;
	case CN_PTX_I_FENCE: atomic_thread_fence(memory_order_seq_cst); break;
	default: return run_control(block, inst);
	}
	block->group_pc++;
	return true;
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

/* Is there a reason to look at the other groups? */
static bool must_choose(struct cn_ptx_block *block)
{
	if (!block->has_group)
		return true;
	if (block->running == block->group.count)
		return false;
	if (block->group_pc >= block->stop_pc) {
		leave_group(block);
		return true;
	}
	if (--block->quantum < 0) {
		leave_group(block);
		block->floor_pc = block->group_pc + 1;
		return true;
	}
	return false;
}

/* Runs under a guard: a fault of memory leaves it from anywhere. */
static void run(void *data)
{
	struct cn_ptx_block *block = data;

	while (block->live) {
		const struct cn_ptx_inst *inst;

		if (must_choose(block) && !choose_group(block)) {
			if (block->state == CN_PTX_AGAIN)
				cn_ptx_fault_at(block, CN_PTX_DEADLOCK, 0, 0);
			return;
		}
		if (block->budget-- <= 0)
			return;
		inst = &block->here->code[block->group_pc - block->here->start];
		block->active = block->group;
		if (inst->guard != CN_PTX_NONE) {
			apply_guard(block, inst);
			if (!block->active.count) {
				block->group_pc++;
				continue;
			}
		}
		if (!run_instruction(block, inst))
			return;
	}
	block->state = CN_PTX_DONE;
}

static CN_PTX_FOLLOWS void read_byte(void *at)
{
	(void)*(volatile char *)at;
}

/* Atomic: others may write to the byte at the same time. */
static CN_PTX_FOLLOWS void write_byte(void *at)
{
	__atomic_fetch_or((volatile char *)at, 0, __ATOMIC_RELAXED);
}

/* Which lane touched memory that is not there? */
static void find_culprit(struct cn_ptx_block *block)
{
	const struct cn_ptx_inst *inst = cn_ptx_inst_at(block->module, block->group_pc);
	bool writes = inst->kind != CN_PTX_I_LOAD && inst->kind != CN_PTX_I_COPY;

	if (!block->accesses) {
		cn_ptx_fault_at(block, CN_PTX_ILLEGAL_ADDRESS, block->active.low, 0);
		return;
	}
	CN_PTX_EACH(&block->active, i)
	{
		if (!block->launch.guard(writes ? write_byte : read_byte, (void *)(uintptr_t)block->addresses[i])) {
			cn_ptx_fault_at(block, CN_PTX_ILLEGAL_ADDRESS, i, block->addresses[i]);
			return;
		}
	}
	cn_ptx_fault_at(block, CN_PTX_ILLEGAL_ADDRESS, block->active.low, block->addresses[block->active.low]);
}

/*
 * Arithmetic as PTX has it: to the nearest, with subnormal numbers, without signals. The thread may be the program's
 * own, and have other settings: programs compiled with -ffast-math flush subnormal numbers, and their threads inherit
 * that.
 */
#ifdef __SSE2__

enum { USUAL = 0x1f80, SETTINGS = 0xffc0 }; /* of MXCSR */

static unsigned enter_arithmetic(void)
{
	unsigned before = __builtin_ia32_stmxcsr();

	if ((before & SETTINGS) != USUAL)
		__builtin_ia32_ldmxcsr(USUAL);
	return before;
}

static void leave_arithmetic(unsigned before)
{
	if ((before & SETTINGS) != USUAL)
		__builtin_ia32_ldmxcsr(before);
}

#else

static fenv_t enter_arithmetic(void)
{
	fenv_t before;

	fegetenv(&before);
	fesetenv(FE_DFL_ENV);
	return before;
}

static void leave_arithmetic(fenv_t before)
{
	fesetenv(&before);
}

#endif

enum cn_ptx_state cn_ptx_block_run(struct cn_ptx_block *block, uint64_t budget, struct cn_ptx_fault *ret_fault)
{
	__typeof__(enter_arithmetic()) before;

	if (block->state != CN_PTX_AGAIN)
		return block->state;
	block->budget = budget < INT64_MAX ? (int64_t)budget : INT64_MAX;
	block->accesses = false;
	before = enter_arithmetic();
	if (!block->launch.guard)
		run(block);
	else if (!block->launch.guard(run, block))
		find_culprit(block);
	leave_arithmetic(before);
	if (block->state != CN_PTX_AGAIN && block->state != CN_PTX_DONE)
		*ret_fault = block->fault;
	return block->state;
}
