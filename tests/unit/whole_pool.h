/* SPDX-License-Identifier: MIT */
/*
 * The pool of a test: its numbers, and its end, at which all of its memory is one piece again.
 */
#ifndef CENOTE_TESTS_UNIT_WHOLE_POOL_H
#define CENOTE_TESTS_UNIT_WHOLE_POOL_H

#include "cenote/cuda.h"
#include "harness.h"

static CUmemoryPool pool;

static inline cuuint64_t attribute(CUmemPool_attribute which)
{
	cuuint64_t value;

	ASSERT_OK(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static inline void end_pool(void)
{
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(0u, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(0u, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

#endif
