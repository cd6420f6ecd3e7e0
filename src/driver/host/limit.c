/* SPDX-License-Identifier: MIT */
/*
 * Limits and cache settings of a context.
 *
 * On a GPU they divide its memory between its uses by kernels. The host device divides nothing: a kernel's stack is its
 * thread's, its printf() and malloc() are the program's. So a limit is a number that is kept, rounded and clamped as on
 * a GPU, and read back. Setting a limit that is read-only or that the device does not have fails as on a GPU.
 */
#include "driver/host/objects.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

enum beyond {
	CUT,    /* clamped to the largest */
	REFUSED /* CUDA_ERROR_INVALID_VALUE */
};

/* The limits that a program may set; the others are read-only, or missing. The first values are those of an H200. */
static const struct limit {
	size_t first, least, most;
	size_t step; /* values are rounded up to a multiple */
	enum beyond beyond;
} limits[CN_LIMIT_COUNT] = {
	[CU_LIMIT_STACK_SIZE] = {1 * KIB, 0, 512 * KIB, 16, REFUSED},
	[CU_LIMIT_PRINTF_FIFO_SIZE] = {8448 * KIB, 512 * KIB, 2048 * MIB, 256, CUT},
	[CU_LIMIT_MALLOC_HEAP_SIZE] = {8 * MIB, 4 * MIB, 16 * 1024 * MIB, 64 * KIB, CUT},
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = {2048, 32, 1 << 19, 1, CUT},
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = {64, 0, 128, 1, REFUSED},
	[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = {0, 0, 0, 1, CUT}, /* a hint, and there is no L2 to set aside */
};

void cn_limits_reset(struct cn_context *context)
{
	for (size_t i = 0; i < CN_LIMIT_COUNT; i++)
		atomic_store(&context->limits[i], limits[i].first);
	atomic_store(&context->cache_config, CU_FUNC_CACHE_PREFER_NONE);
}

/* Can the limit be set? CUDA_ERROR_NOT_PERMITTED: it is read-only. */
static CUresult check_limit(CUlimit limit)
{
	switch ((int)limit) {
	case CU_LIMIT_STACK_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: return CUDA_SUCCESS;
	case CU_LIMIT_SHMEM_SIZE:
	case CU_LIMIT_CIG_ENABLED: return CUDA_ERROR_NOT_PERMITTED;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
	case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
		return cn_error(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device has no limit %d", (int)limit);
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "there is no limit %d", (int)limit);
	}
}

CUresult host_cuCtxGetLimit(size_t *ret_value, CUlimit limit)
{
	struct cn_home home;
	int shared_bytes = 0;
	CUresult result = cn_given(cn_context_enter(&home), ret_value, "pvalue");

	if (result)
		return result;
	result = check_limit(limit);
	if (!result) {
		size_t value = atomic_load(&home.context->limits[limit]);
		result = cn_home_check(&home);
		if (!result)
			*ret_value = value;
		return result;
	}
	if (result != CUDA_ERROR_NOT_PERMITTED)
		return result;
	if (limit == CU_LIMIT_SHMEM_SIZE)
		result = cn_device_ops->attribute(home.device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
						  &shared_bytes);
	else
		result = CUDA_SUCCESS; /* the context is no graphics queue's: 0 */
	if (!result)
		*ret_value = (size_t)shared_bytes;
	return result;
}

CUresult host_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = check_limit(limit);
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(result, "limit %d can only be read", (int)limit);
	if (result)
		return result;
	const struct limit *row = &limits[limit];
	if (value > row->most && row->beyond == REFUSED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "limit %d can be %zu to %zu; %zu was asked for", (int)limit,
				row->least, row->most, value);
	value = value > row->most ? row->most : value < row->least ? row->least : value;
	value = (value + row->step - 1) / row->step * row->step;
	result = cn_home_lock(&home);
	if (result)
		return result;
	atomic_store(&home.context->limits[limit], value);
	cn_unlock(&home.context->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuCtxGetCacheConfig(CUfunc_cache *ret_config)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_config, "pconfig");

	if (result)
		return result;
	int config = atomic_load(&home.context->cache_config);
	result = cn_home_check(&home);
	if (!result)
		*ret_config = (CUfunc_cache)config;
	return result;
}

CUresult host_cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cache setting %d is unknown", (int)config);
	result = cn_home_lock(&home);
	if (result)
		return result;
	atomic_store(&home.context->cache_config, (int)config);
	cn_unlock(&home.context->lock);
	return CUDA_SUCCESS;
}

/* ---- Banks of shared memory, which have one width ---- */

CUresult cn_limits_check_bank_width(CUsharedconfig config)
{
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "shared memory setting %d is unknown", (int)config);
	return CUDA_SUCCESS;
}

CUresult host_cuCtxGetSharedMemConfig(CUsharedconfig *ret_config)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_config, "pConfig");

	if (!result)
		*ret_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return result;
}

CUresult host_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct cn_home home;
	return cn_context_enter(&home) ?: cn_limits_check_bank_width(config);
}
