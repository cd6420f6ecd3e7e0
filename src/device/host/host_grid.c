/* SPDX-License-Identifier: MIT */
/*
 * Grids: launches of kernels in PTX.
 *
 * Blocks that have begun and are not done are resident. As many may be as the device reports for the kernel
 * (cuOccupancyMaxActiveBlocksPerMultiprocessor(), and a multiprocessor is a core), and all of them advance: a thread
 * runs a block for a number of instructions, and then goes on with the one that has waited longest. So blocks may wait
 * for each other, for the host, or for a kernel of another process. A block becomes resident when a thread has nothing
 * better to run: where blocks end within one turn there are no more of them than threads.
 *
 * The executor of the stream runs the grid, and the team (host_team.c) helps. The executor leaves when all blocks are
 * done. A thread whose block has used up its turn offers its core to other threads and processes: what the block waits
 * for may need it.
 *
 * A block that fails ends the grid: its other blocks are given up where they are.
 *
 * A program may have installed a watcher (cenote.h), which is told what kernels read and write. Which launch it is, is
 * asked on the thread that launches, and kept behind the parameters.
 */
#include "base/guard.h"
#include "device/host/host_internal.h"
#include "device/host/host_ptx.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TURN_ALONE = CN_PTX_BUDGET, /* instructions of a turn when no other block waits for the thread */
	TURN = 4096,                /* when one does */
};

struct resident {
	struct cn_ptx_block *block;
	struct resident *next;     /* of those that wait for a turn */
	struct resident *next_all; /* of all of the grid */
};

struct grid {
	struct cn_host_job base;              /* first */
	const cenote_kernel_watcher *watcher; /* NULL: none for this launch */
	void *watched;
	const struct cn_ptx_calls *calls;
	const struct cn_launch *launch;
	struct cn_ptx_launch ptx;
	struct {
		unsigned bytes, barrier;
	} workspace;
	uint64_t block_count;
	_Atomic uint64_t next_block; /* the first that has not begun */
	_Atomic uint64_t done_count;
	_Atomic bool ends;        /* a block has failed */
	_Atomic uint32_t changes; /* the executor may have something to do */
	_Atomic bool executor_sleeps;

	CN_LOCK(HOST_GRID) lock; /* guards what follows */
	struct resident *first, *last;
	_Atomic unsigned waiting_count; /* of that list; read without the lock, too */
	struct resident *all;
	_Atomic unsigned resident_count; /* of records, busy or not; read without the lock, too */
	_Atomic unsigned resident_max;
	CUresult result;
	struct cn_ptx_fault fault; /* when the result is a block's */
	struct cn_ptx_error error; /* when no block could be made */
};

static const char *const no_block = "no host memory for a block";

/* ---- Watchers ---------------------------------------------------------------------------------------------------- */

static _Atomic(const cenote_kernel_watcher *) installed;

void cn_host_watch_kernels(const cenote_kernel_watcher *watcher)
{
	atomic_store(&installed, watcher);
}

static void touch(void *data, uint64_t address, size_t bytes, enum cn_ptx_touch how)
{
	static const cenote_use uses[] = {
		[CN_PTX_READS] = CENOTE_READS,
		[CN_PTX_WRITES] = CENOTE_WRITES,
		[CN_PTX_COMMUNICATES] = CENOTE_MAY_USE,
	};
	const struct grid *grid = data;

	grid->watcher->touched(grid->watched, address, bytes, uses[how]);
}

/* Where a payload has the number of its launch. */
static size_t number_offset(const struct cn_ptx_kernel *ptx)
{
	return ((size_t)ptx->parameter_bytes + sizeof(uint64_t)) / sizeof(uint64_t) * sizeof(uint64_t);
}

static void begin_watch(struct grid *grid, const char *payload)
{
	unsigned long long number;

	memcpy(&number, payload + number_offset(grid->launch->kernel->ptx), sizeof number);
	grid->watcher = number ? atomic_load(&installed) : NULL;
	if (!grid->watcher)
		return;
	grid->watched = grid->watcher->begins(number);
	if (!grid->watched)
		grid->watcher = NULL;
	else
		grid->ptx.touch = touch;
	grid->ptx.data = grid;
}

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

CUresult cn_host_grid_prepare(const struct cn_kernel *kernel, void *const *arguments, void **ret_payload)
{
	const struct cn_ptx_kernel *ptx = kernel->ptx;
	const cenote_kernel_watcher *watcher = atomic_load_explicit(&installed, memory_order_acquire);
	char *payload = calloc(1, number_offset(ptx) + sizeof(unsigned long long));

	if (!payload)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the arguments of a kernel");
	for (unsigned i = 0; i < ptx->parameter_count; i++)
		memcpy(payload + ptx->parameters[i].offset_bytes, arguments[i], ptx->parameters[i].bytes);
	if (watcher) {
		unsigned long long number = watcher->launched();
		memcpy(payload + number_offset(ptx), &number, sizeof number);
	}
	*ret_payload = payload;
	return CUDA_SUCCESS;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static void wake_executor(struct grid *grid)
{
	atomic_fetch_add(&grid->changes, 1);
	if (atomic_load(&grid->executor_sleeps))
		cn_futex_wake(&grid->changes, 1);
}

static void fail(struct grid *grid, CUresult result, const struct cn_ptx_fault *fault, const struct cn_ptx_error *error)
{
	cn_lock(&grid->lock);
	if (!grid->result) {
		grid->result = result;
		if (fault)
			grid->fault = *fault;
		if (error)
			grid->error = *error;
	}
	cn_unlock(&grid->lock);
	atomic_store(&grid->ends, true);
	wake_executor(grid);
}

/* Put a record at the coordinates of a block that has not begun. False: there is none. */
static bool begin(struct grid *grid, struct resident *resident)
{
	const unsigned *shape = grid->launch->grid;
	uint64_t index = atomic_load_explicit(&grid->next_block, memory_order_relaxed);

	do {
		if (index >= grid->block_count)
			return false;
	} while (!atomic_compare_exchange_weak(&grid->next_block, &index, index + 1));
	grid->calls->block_begin(resident->block,
				 (unsigned[3]){(unsigned)(index % shape[0]), (unsigned)(index / shape[0] % shape[1]),
					       (unsigned)(index / shape[0] / shape[1])});
	return true;
}

static bool has_new_blocks(struct grid *grid)
{
	return atomic_load_explicit(&grid->next_block, memory_order_relaxed) < grid->block_count &&
	       atomic_load_explicit(&grid->resident_count, memory_order_relaxed) <
		       atomic_load_explicit(&grid->resident_max, memory_order_relaxed);
}

static void count_done(struct grid *grid)
{
	if (atomic_fetch_add(&grid->done_count, 1) + 1 == grid->block_count)
		wake_executor(grid);
}

/* One more record, begun. NULL: no block is left for it, or no memory. */
static struct resident *make_resident(struct grid *grid)
{
	struct resident *resident = calloc(1, sizeof *resident);
	struct cn_ptx_error error = {.code = CN_PTX_NO_MEMORY};
	enum cn_ptx_error_code code = CN_PTX_NO_MEMORY;

	snprintf(error.sentence, sizeof error.sentence, "%s", no_block);
	if (resident)
		code = grid->calls->block_create(&grid->ptx, &error, &resident->block);
	cn_lock(&grid->lock);
	if (code) { /* those that are there go on, unless they may wait for this one; without any the grid fails */
		unsigned left = --grid->resident_count;
		grid->resident_max = left;
		cn_unlock(&grid->lock);
		free(resident);
		if (!left || grid->launch->cooperative)
			fail(grid, code == CN_PTX_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE, NULL,
			     &error);
		return NULL;
	}
	resident->next_all = grid->all;
	grid->all = resident;
	cn_unlock(&grid->lock);
	return begin(grid, resident) ? resident : NULL;
}

/* A block to run: a new one if there may be one more, else the one that has waited longest. NULL: there is none now. */
static struct resident *take(struct grid *grid)
{
	struct resident *taken = NULL;

	if (atomic_load(&grid->ends))
		return NULL;
	cn_lock(&grid->lock);
	bool makes = has_new_blocks(grid);
	if (makes)
		grid->resident_count++;
	cn_unlock(&grid->lock);
	if (makes)
		taken = make_resident(grid);
	if (taken)
		return taken;
	cn_lock(&grid->lock);
	taken = grid->first;
	if (taken) {
		grid->first = taken->next;
		if (!grid->first)
			grid->last = NULL;
		grid->waiting_count--;
	}
	cn_unlock(&grid->lock);
	return taken;
}

static void put(struct grid *grid, struct resident *resident)
{
	cn_lock(&grid->lock);
	resident->next = NULL;
	if (grid->last)
		grid->last->next = resident;
	else
		grid->first = resident;
	grid->last = resident;
	grid->waiting_count++;
	cn_unlock(&grid->lock);
	if (atomic_load(&grid->executor_sleeps))
		wake_executor(grid);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

static CUresult result_of(enum cn_ptx_state state)
{
	switch (state) {
	case CN_PTX_ASSERT: return CUDA_ERROR_ASSERT;
	case CN_PTX_ILLEGAL_ADDRESS: return CUDA_ERROR_ILLEGAL_ADDRESS;
	case CN_PTX_MISALIGNED_ADDRESS: return CUDA_ERROR_MISALIGNED_ADDRESS;
	case CN_PTX_STACK_OVERFLOW: return CUDA_ERROR_HARDWARE_STACK_ERROR;
	case CN_PTX_ILLEGAL_CALL: return CUDA_ERROR_INVALID_PC;
	case CN_PTX_BARRIER: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case CN_PTX_TRAP:
	case CN_PTX_DEADLOCK:
	case CN_PTX_DONE:
	case CN_PTX_AGAIN: break;
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

/* Run a block for a turn. Returns the one to go on with; NULL: none is left for this thread. */
static struct resident *run_turn(struct grid *grid, struct resident *resident)
{
	bool others = atomic_load_explicit(&grid->waiting_count, memory_order_relaxed);
	struct cn_ptx_fault fault;
	enum cn_ptx_state state = grid->calls->block_run(resident->block, others ? TURN : TURN_ALONE, &fault);

	if (state == CN_PTX_AGAIN) {
		sched_yield();
		if (!atomic_load_explicit(&grid->waiting_count, memory_order_relaxed) && !has_new_blocks(grid))
			return resident;
		put(grid, resident);
		return take(grid);
	}
	if (state != CN_PTX_DONE) {
		fail(grid, result_of(state), &fault, NULL);
		return NULL;
	}
	count_done(grid);
	if (begin(grid, resident)) {
		if (!atomic_load_explicit(&grid->waiting_count, memory_order_relaxed))
			return resident;
		put(grid, resident);
	}
	return take(grid);
}

static bool is_over(struct grid *grid)
{
	return atomic_load(&grid->ends) || atomic_load(&grid->done_count) == grid->block_count;
}

static bool has_work(struct cn_host_job *base)
{
	struct grid *grid = (struct grid *)base;

	return !atomic_load(&grid->ends) && (atomic_load(&grid->waiting_count) || has_new_blocks(grid));
}

/* A helper's: until nothing is left for it, or another launch may want it. */
static void help(struct cn_host_job *base)
{
	struct grid *grid = (struct grid *)base;
	struct resident *resident = take(grid);

	while (resident && !atomic_load(&grid->ends)) {
		resident = run_turn(grid, resident);
		if (resident && cn_host_team_is_wanted())
			break;
	}
	if (resident)
		put(grid, resident);
}

static void run(struct grid *grid)
{
	struct resident *resident = NULL;

	while (!is_over(grid)) {
		uint32_t changes = atomic_load(&grid->changes);

		resident = resident ? run_turn(grid, resident) : take(grid);
		if (resident || is_over(grid))
			continue;
		atomic_store(&grid->executor_sleeps, true);
		if (!is_over(grid) && !has_work(&grid->base))
			cn_futex_wait(&grid->changes, changes, -1);
		atomic_store(&grid->executor_sleeps, false);
	}
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static const char *describe(enum cn_ptx_state state)
{
	switch (state) {
	case CN_PTX_TRAP: return "executed a trap";
	case CN_PTX_ASSERT: return "failed an assertion";
	case CN_PTX_ILLEGAL_ADDRESS: return "used memory that is not mapped, or not its own,";
	case CN_PTX_MISALIGNED_ADDRESS: return "used an address that is not aligned";
	case CN_PTX_STACK_OVERFLOW: return "nested its calls too deep";
	case CN_PTX_ILLEGAL_CALL: return "called an address where there is no function";
	case CN_PTX_DEADLOCK: return "waits at a barrier that no other thread can reach";
	case CN_PTX_BARRIER: return "used a barrier that a block does not have";
	case CN_PTX_DONE:
	case CN_PTX_AGAIN: break;
	}
	return "failed";
}

static CUresult explain(const struct grid *grid)
{
	const struct cn_ptx_fault *fault = &grid->fault;
	char address[32] = "", source[160] = "";

	if (grid->error.code)
		return cn_error(grid->result, "kernel %.80s cannot run: %s", grid->launch->kernel->name,
				grid->error.sentence);
	if (fault->state == CN_PTX_ILLEGAL_ADDRESS || fault->state == CN_PTX_MISALIGNED_ADDRESS ||
	    fault->state == CN_PTX_ILLEGAL_CALL)
		snprintf(address, sizeof address, " at 0x%llx", (unsigned long long)fault->address);
	if (fault->source)
		snprintf(source, sizeof source, " (%.120s:%u)", fault->source, fault->source_line);
	return cn_error(grid->result,
			"kernel %.80s, PTX line %u%s, block (%u, %u, %u), thread (%u, %u, %u): a thread %s%s",
			fault->kernel, fault->line, source, fault->block[0], fault->block[1], fault->block[2],
			fault->thread[0], fault->thread[1], fault->thread[2], describe(fault->state), address);
}

/*
 * Of a cooperative launch, the barrier of the grid: compilers' code finds it by %envreg1, the high half of its address,
 * and %envreg2, and does the rest.
 */
static void set_workspace(struct grid *grid)
{
	uint64_t address = (uint64_t)(uintptr_t)&grid->workspace;

	grid->workspace.bytes = sizeof grid->workspace;
	grid->ptx.environment[1] = (unsigned)(address >> 32);
	grid->ptx.environment[2] = (unsigned)address;
}

/*
 * A thread of the program that waits for the stream runs it too, and may have these signals blocked: a fault of the
 * kernel would then end the process.
 */
static void run_with_faults(struct grid *grid)
{
	sigset_t faults, before;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, &before);
	run(grid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

CUresult cn_host_grid_run(const struct cn_launch *launch, void *payload)
{
	const struct cn_kernel *kernel = launch->kernel;
	struct grid grid = {
		.base = {.has_work = has_work, .help = help},
		.calls = cn_host_ptx(),
		.launch = launch,
		.ptx = {.module = kernel->module,
			.memory = launch->variables,
			.managed = launch->managed,
			.kernel = kernel->ptx->index,
			.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
			.block = {launch->block[0], launch->block[1], launch->block[2]},
			.dynamic_shared_bytes = launch->shared_bytes,
			.parameters = payload,
			.device_blocks = launch->processor_count,
			.print = cn_host_print,
			.complain = cn_host_complain,
			.guard = cn_guard_run},
		.block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
		.resident_max = launch->resident_max,
	};

	begin_watch(&grid, payload);
	if (launch->cooperative)
		set_workspace(&grid);
	cn_guard_arm(); /* the program may have a handler of its own by now; before others help */
	if (grid.block_count > 1)
		cn_host_team_join(&grid.base);
	run_with_faults(&grid);
	if (grid.block_count > 1)
		cn_host_team_part(&grid.base);
	while (grid.all) {
		struct resident *next = grid.all->next_all;
		grid.calls->block_destroy(grid.all->block);
		free(grid.all);
		grid.all = next;
	}
	if (grid.watcher)
		grid.watcher->ends(grid.watched);
	return grid.result ? explain(&grid) : CUDA_SUCCESS;
}
