/* SPDX-License-Identifier: MIT */
/*
 * Kernels in C: a launch is a number of blocks, and all cores take blocks from it until none is left.
 *
 * The executor that drives the stream works on its own launch, and the team (host_team.c) helps. A launch of one block
 * needs no help.
 */
#include "base/guard.h"
#include "device/host/host_internal.h"

#include "cenote/cenote.h"

#include <stdlib.h>
#include <string.h>

struct job {
	struct cn_host_job base; /* first */
	const struct cn_launch *launch;
	void **arguments;
	uint64_t block_count;
	_Atomic uint64_t next_block;
	_Atomic CUresult result;
};

static size_t round_up(size_t value, size_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* How the arguments of a kernel in C lie: [pointers][values, each aligned]. */
static size_t values_offset(const struct cn_kernel *kernel)
{
	return round_up(kernel->parameter_count * sizeof(void *), 16);
}

static size_t arguments_bytes(const struct cn_kernel *kernel)
{
	size_t bytes = values_offset(kernel);

	for (unsigned i = 0; i < kernel->parameter_count; i++)
		bytes = round_up(bytes, kernel->parameter_alignment[i]) + kernel->parameter_bytes[i];
	return bytes;
}

bool cn_host_launch_is_small(const struct cn_operation *operation)
{
	const struct cn_kernel *kernel = operation->launch.launch.kernel;

	return !kernel->ptx && arguments_bytes(kernel) <= CN_HOST_ITEM_ROOM_BYTES;
}

void cn_host_launch_copy(const struct cn_operation *operation, void *payload)
{
	const struct cn_kernel *kernel = operation->launch.launch.kernel;
	size_t offset = values_offset(kernel);
	void **pointers = payload;

	for (unsigned i = 0; i < kernel->parameter_count; i++) {
		offset = round_up(offset, kernel->parameter_alignment[i]);
		pointers[i] = (char *)payload + offset;
		memcpy(pointers[i], operation->launch.arguments[i], kernel->parameter_bytes[i]);
		offset += kernel->parameter_bytes[i];
	}
}

CUresult cn_host_launch_prepare(const struct cn_operation *operation, void **ret_payload)
{
	const struct cn_kernel *kernel = operation->launch.launch.kernel;

	if (kernel->ptx)
		return cn_host_grid_prepare(kernel, operation->launch.arguments, ret_payload);
	void *payload = aligned_alloc(64, round_up(arguments_bytes(kernel), 64));
	if (!payload)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the arguments of a kernel");
	cn_host_launch_copy(operation, payload);
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
		.shared = shared,
	};

	if (index) /* most launches have one block: no division */
		at.blockIdx = (cenote_dim){(unsigned)(index % launch->grid[0]),
					   (unsigned)(index / launch->grid[0] % launch->grid[1]),
					   (unsigned)(index / launch->grid[0] / launch->grid[1])};
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

/* Of a launch that has no other: nobody else takes it. */
static void run_only_block(void *data)
{
	struct share *share = data;

	run_block(share->job, 0, share->shared);
}

/* Take blocks until there are none, or one has touched memory that is not mapped. */
static void work(struct job *job)
{
	size_t shared_bytes = job->launch->shared_bytes;
	struct share share = {job, shared_bytes ? aligned_alloc(64, round_up(shared_bytes, 64)) : NULL};
	CUresult result = CUDA_SUCCESS;

	if (shared_bytes && !share.shared)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!cn_guard_run(job->block_count == 1 ? run_only_block : take_blocks, &share))
		result = CUDA_ERROR_ILLEGAL_ADDRESS;
	if (result) {
		atomic_store(&job->result, result);
		atomic_store(&job->next_block, job->block_count);
	}
	free(share.shared);
}

static bool has_blocks(struct cn_host_job *base)
{
	struct job *job = (struct job *)base;

	return atomic_load_explicit(&job->next_block, memory_order_relaxed) < job->block_count;
}

static void help(struct cn_host_job *base)
{
	work((struct job *)base);
}

CUresult cn_host_launch(const struct cn_launch *launch, void *payload)
{
	struct job job = {
		.base = {.has_work = has_blocks, .help = help},
		.launch = launch,
		.arguments = payload,
		.block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
	};

	if (launch->kernel->ptx)
		return cn_host_grid_run(launch, payload);
	if (job.block_count > 1)
		cn_host_team_join(&job.base);
	work(&job);
	if (job.block_count > 1)
		cn_host_team_part(&job.base);
	CUresult result = atomic_load(&job.result);
	if (result == CUDA_ERROR_ILLEGAL_ADDRESS)
		return cn_error(result, "kernel %s used memory that is not mapped", launch->kernel->name);
	return result ? cn_error(result, "no host memory for the shared memory of kernel %s", launch->kernel->name)
		      : CUDA_SUCCESS;
}
