/* SPDX-License-Identifier: MIT */
/*
 * The builds of the arithmetic, and the table that is this library's one name.
 */
#include "ptx/ptx_block.h"
#include "ptx/ptx_module.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic(const struct cn_ptx_build *) chosen;

static bool is_supported(const struct cn_ptx_build *build)
{
#ifdef CN_PTX_X86_BUILDS
	if (build == &cn_ptx_build_avx512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
		       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (build == &cn_ptx_build_avx2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return build == &cn_ptx_build_plain;
}

/* The best first. */
static const struct cn_ptx_build *const builds[] = {
#ifdef CN_PTX_X86_BUILDS
	&cn_ptx_build_avx512,
	&cn_ptx_build_avx2,
#endif
	&cn_ptx_build_plain,
};

static bool choose(const char *name)
{
	for (size_t i = 0; i < sizeof builds / sizeof *builds; i++)
		if ((!name || !strcmp(builds[i]->name, name)) && is_supported(builds[i])) {
			atomic_store(&chosen, builds[i]);
			return true;
		}
	return false;
}

const struct cn_ptx_build *cn_ptx_build(void)
{
	const struct cn_ptx_build *build = atomic_load(&chosen);

	if (!build)
		choose(NULL);
	return build ? build : atomic_load(&chosen);
}

const struct cn_ptx_calls cn_ptx_calls = {
	.version = CN_PTX_CALLS_VERSION,
	.load = cn_ptx_module_load,
	.unload = cn_ptx_module_unload,
	.contents = cn_ptx_module_contents,
	.place = cn_ptx_module_place,
	.block_create = cn_ptx_block_create,
	.block_destroy = cn_ptx_block_destroy,
	.block_begin = cn_ptx_block_begin,
	.block_run = cn_ptx_block_run,
	.choose = choose,
	.prepare = cn_ptx_module_prepare,
};
