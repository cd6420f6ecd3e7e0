/* SPDX-License-Identifier: MIT */
/*
 * Kernels: a launch is a number of blocks, and all cores take blocks from it until none is left.
 *
 * The executor that drives the stream works on its own launch, and a team of one thread for each further core helps
 * with whatever launches there are, oldest first. A launch of one block needs no help.
 */
#include "base/guard.h"
#include "base/thread.h"
#include "device/host/host_internal.h"

#include "cenote/cenote.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct job {
	struct job *next;
	const struct cn_launch *launch;
	void **arguments;
	uint64_t block_count;
	_Atomic uint64_t next_block;
	_Atomic CUresult result;
	unsigned helper_count; /* of the team, at work on it now; team locked */
	_Atomic uint32_t finished;
};

static struct {
	CN_LOCK(HOST_TEAM) lock;
	struct job *jobs;
	_Atomic uint32_t arrivals;
	bool started;
	unsigned helper_count;
} team;

static size_t round_up(size_t value, size_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* Copy the parameters: [pointers][values, each aligned]. */
CUresult cn_host_launch_prepare(const struct cn_operation *operation, void **ret_payload)
{
	const struct cn_kernel *kernel = operation->launch.launch.kernel;
	size_t bytes = round_up(kernel->parameter_count * sizeof(void *), 16);
	size_t offset = bytes;

	for (unsigned i = 0; i < kernel->parameter_count; i++)
		bytes = round_up(bytes, kernel->parameter_alignment[i]) + kernel->parameter_bytes[i];
	char *payload = aligned_alloc(64, round_up(bytes + 1, 64));
	if (!payload)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the arguments of a kernel");
	void **pointers = (void **)(void *)payload;
	for (unsigned i = 0; i < kernel->parameter_count; i++) {
		offset = round_up(offset, kernel->parameter_alignment[i]);
		pointers[i] = payload + offset;
		memcpy(pointers[i], operation->launch.arguments[i], kernel->parameter_bytes[i]);
		offset += kernel->parameter_bytes[i];
	}
	*ret_payload = payload;
	return CUDA_SUCCESS;
}

static void run_block(const struct job *job, uint64_t index, void *shared)
{
	const struct cn_launch *launch = job->launch;
	cenote_kernel_function function;
	cenote_thread at = {
		.gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]},
		.blockDim = {launch->block[0], launch->block[1], launch->block[2]},
		.blockIdx = {(unsigned)(index % launch->grid[0]), (unsigned)(index / launch->grid[0] % launch->grid[1]),
			     (unsigned)(index / launch->grid[0] / launch->grid[1])},
		.shared = shared,
	};

	memcpy(&function, &launch->kernel->code, sizeof function);
	for (unsigned z = 0; z < at.blockDim.z; z++)
		for (unsigned y = 0; y < at.blockDim.y; y++)
			for (unsigned x = 0; x < at.blockDim.x; x++) {
				at.threadIdx = (cenote_dim){x, y, z};
				function(&at, job->arguments);
			}
}

struct share {
	struct job *job;
	void *shared;
};

static void take_blocks(void *data)
{
	struct share *share = data;

	for (;;) {
		uint64_t index = atomic_fetch_add_explicit(&share->job->next_block, 1, memory_order_relaxed);
		if (index >= share->job->block_count)
			break;
		run_block(share->job, index, share->shared);
	}
}

/* Take blocks until there are none, or one has touched memory that is not mapped. */
static void work(struct job *job)
{
	size_t shared_bytes = job->launch->shared_bytes;
	struct share share = {job, shared_bytes ? aligned_alloc(64, round_up(shared_bytes, 64)) : NULL};
	CUresult result = CUDA_SUCCESS;

	if (shared_bytes && !share.shared)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!cn_guard_run(take_blocks, &share))
		result = CUDA_ERROR_ILLEGAL_ADDRESS;
	if (result) {
		atomic_store(&job->result, result);
		atomic_store(&job->next_block, job->block_count);
	}
	free(share.shared);
}

static bool has_blocks(struct job *job)
{
	return atomic_load_explicit(&job->next_block, memory_order_relaxed) < job->block_count;
}

static void *help(void *unused)
{
	(void)unused;
	for (;;) {
		uint32_t arrivals = atomic_load(&team.arrivals);

		cn_lock(&team.lock);
		struct job *job = team.jobs;
		while (job && !has_blocks(job))
			job = job->next;
		if (job)
			job->helper_count++;
		cn_unlock(&team.lock);
		if (!job) {
			cn_futex_wait(&team.arrivals, arrivals, -1);
			continue;
		}

		work(job);
		cn_lock(&team.lock);
		bool last = --job->helper_count == 0;
		if (last)
			atomic_store(&job->finished, 1);
		cn_unlock(&team.lock);
		if (last)
			cn_futex_wake(&job->finished, 1); /* the address alone: the job may be gone */
	}
	return NULL;
}

static unsigned helpers_wanted(void)
{
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);

	return count > 1 ? (unsigned)count - 1 : 0;
}

static void add_job(struct job *job)
{
	bool start;

	cn_lock(&team.lock);
	struct job **link = &team.jobs;
	while (*link)
		link = &(*link)->next;
	*link = job;
	start = !team.started;
	if (start) {
		team.started = true;
		team.helper_count = helpers_wanted();
	}
	unsigned helper_count = team.helper_count;
	cn_unlock(&team.lock);

	atomic_fetch_add(&team.arrivals, 1);
	cn_futex_wake(&team.arrivals, (int)helper_count);
	for (unsigned i = 0; start && i < helper_count; i++)
		cn_thread_start(help, NULL); /* fewer helpers are slower, not wrong */
}

/* Take the job off the list and wait until no helper is at work on it. */
static void remove_job(struct job *job)
{
	cn_lock(&team.lock);
	struct job **link = &team.jobs;
	while (*link != job)
		link = &(*link)->next;
	*link = job->next;
	bool helped = job->helper_count > 0;
	if (helped)
		atomic_store(&job->finished, 0);
	cn_unlock(&team.lock);
	while (helped && !atomic_load(&job->finished))
		cn_futex_wait(&job->finished, 0, -1);
	/* The last helper sets `finished` under the lock: wait until it has released it. */
	cn_lock(&team.lock);
	cn_unlock(&team.lock);
}

CUresult cn_host_launch(const struct cn_launch *launch, void **arguments)
{
	struct job job = {
		.launch = launch,
		.arguments = arguments,
		.block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
	};

	if (job.block_count > 1)
		add_job(&job);
	work(&job);
	if (job.block_count > 1)
		remove_job(&job);
	return atomic_load(&job.result);
}
