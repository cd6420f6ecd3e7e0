/* SPDX-License-Identifier: MIT */
/*
 * Occupancy: how many blocks of a kernel a multiprocessor runs at once.
 *
 * Programs choose the shape of their launches by it. It is computed from the device's attributes as on a GPU: blocks,
 * warps, and shared memory, of which each block takes a little more than it asks for. Kernels of the host device have
 * no registers, and their shared memory has no place of its own. Of PTX so many blocks do run at once (host_grid.c); of
 * kernels in C the numbers say what such a GPU would run.
 */
#include "driver/host/kernel.h"

#include <limits.h>

enum {
	SHARED_STEP = 128,     /* a block's shared memory is rounded up to a multiple */
	SHARED_RESERVED = 1024 /* and this much more is taken for each */
};

/*
 * How the memory that L1 and shared memory share can be divided: shared memory in KiB. The last is all of it.
 */
static const int carveouts[] = {8, 16, 32, 64, 100, 132, 164, 196, 228};

struct processor {
	int threads_per_block, threads, blocks, warp_threads, shared_bytes;
};

static CUresult read_processor(const struct cn_device *device, struct processor *ret_processor)
{
	const struct {
		CUdevice_attribute attribute;
		int *value;
	} asked[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &ret_processor->threads_per_block},
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &ret_processor->threads},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &ret_processor->blocks},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, &ret_processor->warp_threads},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &ret_processor->shared_bytes},
	};
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < sizeof asked / sizeof asked[0] && !result; i++)
		result = cn_device_ops->attribute(device, asked[i].attribute, asked[i].value);
	return result;
}

/* How much shared memory a multiprocessor has for a function whose blocks take so much each. */
static int shared_for(const struct processor *processor, int carveout_percent, int block_bytes)
{
	int wanted = carveout_percent < 0 ? processor->shared_bytes : processor->shared_bytes / 100 * carveout_percent;

	if (wanted < block_bytes)
		wanted = block_bytes; /* one block fits at least */
	for (size_t i = 0; i < sizeof carveouts / sizeof carveouts[0]; i++)
		if (carveouts[i] * 1024 >= wanted)
			return carveouts[i] * 1024;
	return processor->shared_bytes;
}

static int active_blocks(const struct processor *processor, struct cn_function *function, int block_threads,
			 size_t shared_bytes)
{
	int allowed = atomic_load(&function->max_dynamic_shared_bytes);

	int always = cn_function_default_shared_bytes(&function->traits);

	/* As the driver counts, a block may have more threads than PTX allows this kernel (.maxntid). */
	if (block_threads > processor->threads_per_block)
		return 0;
	if (shared_bytes > (size_t)(allowed > always ? allowed : always))
		return 0;
	shared_bytes += (size_t)function->traits.shared_bytes;
	int warps = (block_threads + processor->warp_threads - 1) / processor->warp_threads;
	int blocks = processor->threads / processor->warp_threads / warps;
	int block_bytes = (int)(shared_bytes + SHARED_STEP - 1) / SHARED_STEP * SHARED_STEP + SHARED_RESERVED;
	int by_shared = shared_for(processor, atomic_load(&function->carveout), block_bytes) / block_bytes;

	blocks = blocks > processor->blocks ? processor->blocks : blocks;
	return blocks > by_shared ? by_shared : blocks;
}

CUresult cn_function_occupy(struct cn_function *function, const struct cn_device *device, struct cn_launch *launch)
{
	int threads = (int)(launch->block[0] * launch->block[1] * launch->block[2]), processors = 1;
	struct processor processor;
	CUresult result = read_processor(device, &processor);

	if (!result)
		result = cn_device_ops->attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors);
	if (result)
		return result;
	int blocks = active_blocks(&processor, function, threads, launch->shared_bytes);
	launch->processor_count = (unsigned)processors;
	launch->resident_max = blocks > 0 ? (unsigned)(blocks * processors) : 1;
	struct cn_module *module = function->module;
	launch->variables = module->data;
	launch->managed = module->code->managed;
	return CUDA_SUCCESS;
}

/* The current context's multiprocessors, and a function. */
static CUresult enter(CUfunction handle, struct processor *ret_processor, struct cn_device **ret_device,
		      struct cn_function **ret_function)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = cn_function_find(handle, ret_function);
	if (result)
		return result;
	*ret_device = home.device;
	return read_processor(home.device, ret_processor);
}

/* The flags make no difference on this device. */
static CUresult check_flags(unsigned int flags)
{
	if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "occupancy flags 0x%x are unknown", flags);
	return CUDA_SUCCESS;
}

CUresult host_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret_blocks, CUfunction handle,
								   int block_threads, size_t shared_bytes,
								   unsigned int flags)
{
	struct cn_function *function;
	struct processor processor;
	struct cn_device *device;
	CUresult result = cn_enter();

	if (!result)
		result = check_flags(flags);
	if (!result)
		result = enter(handle, &processor, &device, &function);
	if (result)
		return result;
	if (!ret_blocks)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "numBlocks is NULL");
	if (block_threads <= 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a block cannot have %d threads", block_threads);
	*ret_blocks = active_blocks(&processor, function, block_threads, shared_bytes);
	return CUDA_SUCCESS;
}

CUresult host_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret_blocks, CUfunction handle, int block_threads,
							  size_t shared_bytes)
{
	return host_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret_blocks, handle, block_threads,
									 shared_bytes, CU_OCCUPANCY_DEFAULT);
}

CUresult host_cuOccupancyMaxPotentialBlockSizeWithFlags(int *ret_min_blocks, int *ret_block_threads, CUfunction handle,
							CUoccupancyB2DSize shared_by_size, size_t shared_bytes,
							int limit, unsigned int flags)
{
	struct cn_function *function;
	struct processor processor;
	struct cn_device *device;
	int processor_count = 0, best_blocks = 0, best_threads = 0;
	CUresult result = enter(handle, &processor, &device, &function);

	if (!result)
		result = cn_device_ops->attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processor_count);
	if (!result)
		result = check_flags(flags);
	if (result)
		return result;
	if (!ret_min_blocks || !ret_block_threads)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_min_blocks ? "blockSize" : "minGridSize");
	if (limit < 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a block size limit of %d threads is not possible", limit);
	if (!limit || limit > processor.threads_per_block)
		limit = processor.threads_per_block;
	if (function->traits.max_threads && limit > function->traits.max_threads)
		limit = function->traits.max_threads; /* it is to be launched */

	/* The limit itself, then whole warps downwards: among equals the largest block wins. */
	int aligned = (limit + processor.warp_threads - 1) / processor.warp_threads * processor.warp_threads;
	for (; aligned > 0 && best_blocks * best_threads < processor.threads; aligned -= processor.warp_threads) {
		int threads = aligned > limit ? limit : aligned;
		size_t shared = shared_by_size ? shared_by_size(threads) : shared_bytes;
		int blocks = active_blocks(&processor, function, threads, shared);
		if (blocks * threads > best_blocks * best_threads) {
			best_blocks = blocks;
			best_threads = threads;
		}
	}
	*ret_min_blocks = best_blocks * processor_count;
	*ret_block_threads = best_threads;
	return CUDA_SUCCESS;
}

CUresult host_cuOccupancyMaxPotentialBlockSize(int *ret_min_blocks, int *ret_block_threads, CUfunction handle,
					       CUoccupancyB2DSize shared_by_size, size_t shared_bytes, int limit)
{
	return host_cuOccupancyMaxPotentialBlockSizeWithFlags(ret_min_blocks, ret_block_threads, handle, shared_by_size,
							      shared_bytes, limit, CU_OCCUPANCY_DEFAULT);
}

CUresult host_cuOccupancyAvailableDynamicSMemPerBlock(size_t *ret_bytes, CUfunction handle, int blocks,
						      int block_threads)
{
	struct cn_function *function;
	struct processor processor;
	struct cn_device *device;
	CUresult result = cn_given(enter(handle, &processor, &device, &function), ret_bytes, "dynamicSmemSize");

	if (result)
		return result;
	if (blocks <= 0 || block_threads <= 0 || active_blocks(&processor, function, block_threads, 0) < blocks)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a multiprocessor never runs %d blocks of %d threads at once",
				blocks, block_threads);
	int bytes = processor.shared_bytes / blocks / SHARED_STEP * SHARED_STEP; /* as the driver counts here */
	int allowed = atomic_load(&function->max_dynamic_shared_bytes);
	*ret_bytes = (size_t)(bytes < allowed ? bytes : allowed);
	return CUDA_SUCCESS;
}
