/* SPDX-License-Identifier: MIT */
/*
 * Kernels in PTX for tests, written by hand, and what launches them.
 */
#ifndef CENOTE_TESTS_KERNELS_H
#define CENOTE_TESTS_KERNELS_H

#include "cenote/cenote.h"
#include "harness.h"

#define PTX_HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

/* All take pointers of 64 bits. */
static const char kernels_text[] = PTX_HEAD
	".visible .global .align 4 .u32 word[4] = {1, 2, 3, 4};\n"
	".visible .const .align 8 .u64 constant = 77;\n"
	/* out[i] = i * factor, below count. */
	".visible .entry scale(.param .u64 out, .param .u32 count, .param .u32 factor)\n"
	"{ .reg .u64 %d<5>; .reg .u32 %r<8>; .reg .pred %p<2>;\n"
	"ld.param.u64 %d1, [out]; ld.param.u32 %r1, [count]; ld.param.u32 %r2, [factor];\n"
	"mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
	"mad.lo.u32 %r6, %r3, %r4, %r5; setp.ge.u32 %p1, %r6, %r1; @%p1 bra DONE;\n"
	"mul.lo.u32 %r7, %r6, %r2; mul.wide.u32 %d2, %r6, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r7;\n"
	"DONE: ret; }\n"
	/* word[0] += 1 */
	".visible .entry count()\n"
	"{ .reg .u32 %r<2>; atom.global.add.u32 %r1, [word], 1; ret; }\n"
	/* Wait until *flag is at least `wanted`, then add 1 to *answer. Of each block thread 0. */
	".visible .entry wait_for(.param .u64 flag, .param .u32 wanted, .param .u64 answer)\n"
	"{ .reg .u64 %d<3>; .reg .u32 %r<5>; .reg .pred %p<3>;\n"
	"ld.param.u64 %d1, [flag]; ld.param.u32 %r1, [wanted]; ld.param.u64 %d2, [answer];\n"
	"mov.u32 %r4, %tid.x; setp.ne.u32 %p2, %r4, 0; @%p2 bra DONE;\n"
	"AGAIN: ld.acquire.sys.global.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra AGAIN;\n"
	"atom.sys.global.add.u32 %r3, [%d2], 1;\n"
	"DONE: ret; }\n"
	/* Every block says that it is there, and waits until all of the grid are; then it counts itself. */
	".visible .entry meet(.param .u64 arrived, .param .u64 left)\n"
	"{ .reg .u64 %d<3>; .reg .u32 %r<5>; .reg .pred %p<3>;\n"
	"ld.param.u64 %d1, [arrived]; ld.param.u64 %d2, [left]; mov.u32 %r1, %nctaid.x;\n"
	"mov.u32 %r4, %tid.x; setp.ne.u32 %p2, %r4, 0; @%p2 bra DONE;\n"
	"atom.global.add.u32 %r2, [%d1], 1;\n"
	"AGAIN: ld.volatile.global.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra AGAIN;\n"
	"atom.global.add.u32 %r3, [%d2], 1;\n"
	"DONE: ret; }\n";

static inline CUcontext kernels_start(void)
{
	CUcontext context = NULL;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	return context;
}

static inline CUmodule kernels_load(const char *text)
{
	CUmodule module = NULL;

	ASSERT_OK(cuModuleLoadData(&module, text));
	return module;
}

static inline CUfunction kernels_find(CUmodule module, const char *name)
{
	CUfunction function = NULL;

	ASSERT_OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline CUdeviceptr kernels_memory(size_t bytes)
{
	CUdeviceptr memory = 0;

	ASSERT_OK(cuMemAlloc(&memory, bytes));
	ASSERT_OK(cuMemsetD8(memory, 0, bytes));
	return memory;
}

static inline unsigned kernels_read(CUdeviceptr at)
{
	unsigned value = 0;

	ASSERT_OK(cuMemcpyDtoH(&value, at, sizeof value));
	return value;
}

#endif
