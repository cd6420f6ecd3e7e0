/* SPDX-License-Identifier: MIT */
/*
 * Loading costs what is used: bodies are read when a kernel that can reach them is prepared or launched, by any thread.
 */
#include "run.h"

#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

static struct cn_ptx_module *load(const char *text)
{
	struct cn_ptx_module *module = NULL;
	struct cn_ptx_error error = {0};

	if (cn_ptx_calls.load(text, strlen(text), 90, &error, &module)) {
		printf("line %u: %s\n", error.line, error.sentence);
		ASSERT(!"the text loads");
	}
	return module;
}

/* Goal: an instruction that we do not run is an error of the kernels that can reach it, and of no other. */
TEST(a_refused_body_concerns_its_kernels)
{
	struct cn_ptx_module *module = load(
		HEAD ".func f()\n{ tex.2d.v4.f32.f32 {a, b, c, d}, [t, {e, f}]; }\n"
		     ".entry good(.param .u64 out)\n{ .reg .b64 %d; ld.param.u64 %d, [out]; st.u32 [%d], 7; ret; }\n"
		     ".entry bad() {\n/* } */ .pragma \"}\"; call f; ret; }\n.entry wrong() { add.u32 %r1; }\n");
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module);
	struct cn_ptx_error error = {0};
	struct cn_ptx_fault fault;
	struct cn_ptx_block *block;
	uint32_t out = 0;
	uint64_t parameter = (uintptr_t)&out;
	struct cn_ptx_launch launch = {
		.module = module, .grid = {1, 1, 1}, .block = {1, 1, 1}, .parameters = &parameter};

	ASSERT_EQ(3, contents->kernel_count);
	for (int i = 0; i < 2; i++) { /* the second time as the first */
		launch.kernel = contents->kernels[1].index;
		ASSERT_EQ(CN_PTX_UNSUPPORTED, cn_ptx_calls.block_create(&launch, &error, &block));
		ASSERT_STREQ("instruction tex is not supported", error.sentence);
		ASSERT_EQ(5, error.line);
		ASSERT_EQ(CN_PTX_INVALID, cn_ptx_calls.prepare(module, contents->kernels[2].index, &error));
		ASSERT_EQ(10, error.line);
		launch.kernel = contents->kernels[0].index;
		ASSERT_EQ(CN_PTX_OK, cn_ptx_calls.block_create(&launch, &error, &block));
		cn_ptx_calls.block_begin(block, (const unsigned[3]){0, 0, 0});
		out = 0;
		ASSERT_EQ(CN_PTX_DONE, cn_ptx_calls.block_run(block, CN_PTX_BUDGET, &fault));
		ASSERT_EQ(7, out);
		cn_ptx_calls.block_destroy(block);
	}
	ASSERT_EQ(CN_PTX_BAD_ARGUMENT, cn_ptx_calls.prepare(module, 99, &error));
	cn_ptx_calls.unload(module);
}

/* Goal: what the code tells of a kernel is there when it is prepared. */
TEST(sizes_come_with_the_code)
{
	struct cn_ptx_module *module =
		load(HEAD ".entry k()\n{ .shared .b32 s[8]; .local .b32 l[4]; .reg .b32 %r; mov.u32 %r, s; ret; }\n");
	const struct cn_ptx_kernel *kernel = cn_ptx_calls.contents(module)->kernels;

	ASSERT_EQ(0, kernel->shared_bytes + kernel->register_count);
	ASSERT_EQ(CN_PTX_OK, cn_ptx_calls.prepare(module, kernel->index, NULL));
	ASSERT_EQ(32, kernel->shared_bytes);
	ASSERT_EQ(16, kernel->local_bytes);
	ASSERT(kernel->register_count > 0);
	cn_ptx_calls.unload(module);
}

/* Goal: a variable that is declared in a body has its place and first value before anything runs. */
TEST(variables_in_bodies)
{
	struct run_module module =
		run_load(HEAD ".entry k(.param .u64 p)\n{ .global .u32 g = 5; .reg .b32 %r; .reg .b64 %d; ld.param.u64 "
			      "%d, [p];\nld.global.u32 %r, [g]; st.global.u32 [%d], %r; ret; }\n");
	uint32_t out = 0;

	ASSERT_EQ(5, *(uint32_t *)run_variable(&module, "g"));
	run_simply(&module, 1, 1, (uintptr_t)&out, 0, 0, 0);
	ASSERT_EQ(5, out);
	run_unload(&module);
}

/* Goal: a function that only a table in memory names has its shared memory, and one that we cannot run is left out. */
TEST(functions_behind_pointers)
{
	struct run_module module = run_load(
		HEAD
		".shared .u32 s[32];\n.func f(.param .b32 x)\n{ .reg .b32 %a<3>; ld.param.b32 %a0, [x]; mov.u32 %a1, "
		"s; shl.b32 %a2, %a0, 2; add.u32 %a1, %a1, %a2; st.shared.u32 [%a1], %a0; ret; }\n"
		".func g(.param .b32 x)\n{ wmma.load.a.sync; }\n.global .u64 table[2] = {f, g};\n"
		".entry k(.param .u64 out)\n{ .reg .b32 %r<4>; .reg .b64 %d<4>; mov.u32 %r0, %tid.x; ld.global.u64 "
		"%d0, [table];\n{ .param .b32 q; st.param.b32 [q], %r0; P: .callprototype _ (.param .b32 _); call "
		"%d0, (q), P; }\nmul.wide.u32 %d1, %r0, 4; ld.param.u64 %d2, [out]; add.u64 %d2, %d2, %d1; shl.b32 "
		"%r1, %r0, 2;\nmov.u32 %r2, s; add.u32 %r2, %r2, %r1; ld.shared.u32 %r3, [%r2]; st.global.u32 "
		"[%d2], %r3; ret; }\n");
	static uint32_t out[32];

	ASSERT_EQ(128, cn_ptx_calls.contents(module.module)->kernels[0].shared_bytes);
	run_simply(&module, 1, 32, (uintptr_t)out, 0, 0, 0);
	for (uint32_t i = 0; i < 32; i++)
		ASSERT_EQ(i, out[i]);
	run_unload(&module);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { KERNELS = 24, THREADS = 6, LANES = 64 };

static struct cn_ptx_module *shared_module;
static uint32_t results[THREADS][KERNELS][LANES];

/* Each kernel calls its own function and one that all call; each brings a shared variable. */
static const char *many_kernels(void)
{
	static char text[1 << 16];
	size_t at = (size_t)snprintf(text, sizeof text,
				     HEAD ".func (.param .b32 r) twice(.param .b32 x)\n{ .reg .b32 %%a; ld.param.b32 "
					  "%%a, [x]; shl.b32 %%a, %%a, 1; st.param.b32 [r], %%a; ret; }\n");

	for (unsigned i = 0; i < KERNELS; i++)
		at += (size_t)snprintf(
			text + at, sizeof text - at,
			".func (.param .b32 r) f%u(.param .b32 x)\n{ .reg .b32 %%a<2>; ld.param.b32 %%a0, [x];\n"
			"add.u32 %%a0, %%a0, %u;\n{ .param .b32 q; .param .b32 v; st.param.b32 [q], %%a0;\n"
			"call (v), twice, (q); ld.param.b32 %%a1, [v]; }\nst.param.b32 [r], %%a1; ret; }\n"
			".entry k%u(.param .u64 out)\n{ .shared .b32 s[64]; .reg .b32 %%r<5>; .reg .b64 %%d<3>;\n"
			"mov.u32 %%r0, %%tid.x; shl.b32 %%r1, %%r0, 2; mov.u32 %%r2, s; add.u32 %%r2, %%r2, %%r1;\n"
			"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %%r0; call (v), f%u, (q);\n"
			"ld.param.b32 %%r3, [v]; }\nst.shared.u32 [%%r2], %%r3; bar.sync 0; ld.shared.u32 %%r4, "
			"[%%r2];\n"
			"mul.wide.u32 %%d0, %%r0, 4; ld.param.u64 %%d1, [out]; add.u64 %%d2, %%d1, %%d0;\n"
			"st.global.u32 [%%d2], %%r4; ret; }\n",
			i, i, i, i);
	ASSERT(at < sizeof text - 1);
	return text;
}

/* Returns NULL, or what failed: 1, a block could not be made; 2, it did not end well. */
static void *launch_all(void *data)
{
	unsigned thread = (unsigned)(uintptr_t)data;
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(shared_module);

	for (unsigned n = 0; n < KERNELS; n++) {
		unsigned which = (n * 7 + thread * 5) % KERNELS;
		uint64_t parameter = (uintptr_t)results[thread][which];
		struct cn_ptx_launch launch = {.module = shared_module,
					       .kernel = contents->kernels[which].index,
					       .grid = {1, 1, 1},
					       .block = {LANES, 1, 1},
					       .parameters = &parameter};
		struct cn_ptx_block *block;
		struct cn_ptx_fault fault;

		if (cn_ptx_calls.block_create(&launch, NULL, &block))
			return (void *)1;
		cn_ptx_calls.block_begin(block, (const unsigned[3]){0, 0, 0});
		if (cn_ptx_calls.block_run(block, CN_PTX_BUDGET, &fault) != CN_PTX_DONE)
			return (void *)2;
		cn_ptx_calls.block_destroy(block);
	}
	return NULL;
}

/* Goal: threads that launch kernels of one module for the first time, while others run, disturb nobody. */
TEST(threads_launch_at_once)
{
	pthread_t threads[THREADS];
	void *failure = NULL;

	shared_module = load(many_kernels());
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, launch_all, (void *)(uintptr_t)i));
	for (unsigned i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &failure));
		ASSERT_EQ(0, (uintptr_t)failure);
	}
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned k = 0; k < KERNELS; k++)
			for (unsigned lane = 0; lane < LANES; lane++)
				ASSERT_EQ(2 * (lane + k), results[i][k][lane]);
	cn_ptx_calls.unload(shared_module);
}

/* ---- Blocks of one launch on several threads --------------------------------------------------------------------- */

enum { BLOCKS = 64 };

static struct run_module team_module;
static uint64_t team_parameters[4];
static _Atomic unsigned next_block;

/* Takes blocks until there are none. Returns NULL, or what failed. */
static void *take_blocks(void *unused)
{
	struct cn_ptx_launch launch = {.module = team_module.module,
				       .kernel = run_kernel_index(&team_module, NULL),
				       .grid = {BLOCKS, 1, 1},
				       .block = {LANES, 1, 1},
				       .parameters = team_parameters};
	struct cn_ptx_block *block;
	struct cn_ptx_fault fault;
	unsigned number;

	(void)unused;
	if (cn_ptx_calls.block_create(&launch, NULL, &block))
		return (void *)1;
	while ((number = atomic_fetch_add(&next_block, 1)) < BLOCKS) {
		enum cn_ptx_state state;

		cn_ptx_calls.block_begin(block, (const unsigned[3]){number, 0, 0});
		do
			state = cn_ptx_calls.block_run(block, 50, &fault);
		while (state == CN_PTX_AGAIN);
		if (state)
			return (void *)2;
	}
	cn_ptx_calls.block_destroy(block);
	return NULL;
}

/* Goal: threads run blocks of one launch, which meet in global memory by atomics and flags. */
TEST(a_team_runs_a_launch)
{
	static uint32_t sums[2], flags[BLOCKS], out[BLOCKS][LANES];
	pthread_t threads[THREADS];
	void *failure = NULL;

	team_module = run_load_body(
		".shared .b32 s[64]; .local .b32 l[4];\n"
		"ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; mov.u32 %r0, %tid.x; "
		"mov.u32 %r1, "
		"%ctaid.x; mov.u32 %r2, s; shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;\n"
		"st.local.u32 [l+4], %r0; bar.sync 0; xor.b32 %r5, %r3, 252; add.u32 %r6, %r2, %r5; ld.shared.u32 %r7, "
		"[%r6]; ld.local.u32 %r8, [l+4]; add.u32 %r7, %r7, %r8; red.global.add.u32 [%d1], %r7;\n"
		"atom.global.max.u32 %r9, [%d1+4], %r7; mad.lo.u32 %r10, %r1, 64, %r0; mul.wide.u32 %d4, %r10, 4; "
		"add.u64 "
		"%d5, %d3, %d4; st.global.u32 [%d5], %r7; setp.ne.u32 %p1, %r0, 0; @%p1 ret; mul.wide.u32 %d6, %r1, 4; "
		"add.u64 %d7, %d2, %d6; st.release.gpu.global.u32 [%d7], %r1; ret;");
	team_parameters[0] = (uintptr_t)sums;
	team_parameters[1] = (uintptr_t)flags;
	team_parameters[2] = (uintptr_t)out;
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, take_blocks, NULL));
	for (unsigned i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &failure));
		ASSERT_EQ(0, (uintptr_t)failure);
	}
	ASSERT_EQ(BLOCKS * LANES * (BLOCKS - 1) / 2 + BLOCKS * LANES * (LANES - 1) / 2, sums[0]);
	ASSERT_EQ(BLOCKS - 1 + LANES - 1, sums[1]);
	for (unsigned i = 0; i < BLOCKS; i++) {
		ASSERT_EQ(i, flags[i]);
		for (unsigned lane = 0; lane < LANES; lane++)
			ASSERT_EQ(i + lane, out[i][lane]);
	}
	run_unload(&team_module);
}
