/* SPDX-License-Identifier: MIT */
/*
 * How blocks run: divergence, barriers, warps, calls, memory, faults, output.
 */
#include "run.h"

#include "harness.h"

#include <sys/mman.h>

/* %r0 is the thread, %d1 its word of 32 bits in what p0 points to, %d2 what p0 points to. */
#define MY_WORD "mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4; ld.param.u64 %d2, [p0]; add.u64 %d1, %d2, %d0;\n"

static enum cn_ptx_state run_body(const char *body, unsigned threads, void *p0, uint64_t p1, struct cn_ptx_fault *fault)
{
	struct run_module module = run_load_body(body);
	uint64_t parameters[4] = {(uintptr_t)p0, p1, 0, 0};
	enum cn_ptx_state state = run_launch(
		&module, &(struct run_launch){.block = {threads}, .parameters = parameters, .budget = 1000}, fault);

	if (state)
		ASSERT_STREQ("k", fault->kernel);
	run_unload(&module);
	return state;
}

static void run_well(const char *body, unsigned threads, void *p0, uint64_t p1)
{
	struct cn_ptx_fault fault;
	enum cn_ptx_state state = run_body(body, threads, p0, p1, &fault);

	if (state)
		printf("state %d, line %u, thread %u\n", state, fault.line, fault.thread[0]);
	ASSERT_EQ(CN_PTX_DONE, state);
}

/* Goal: threads take branches of their own, and loops of their own lengths, and join again. */
TEST(threads_diverge_and_join)
{
	static uint32_t out[1024];

	run_well(
		MY_WORD
		"and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; setp.eq.u32 %p1, %r1, 1; @%p1 bra B;\n"
		"mov.u32 %r2, 30; bra.uni J;\nA: mov.u32 %r2, 10; bra J;\nB: mov.u32 %r2, 20;\n"
		"J: mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
		"L: setp.ge.u32 %p2, %r4, %r0; @%p2 bra E; add.u32 %r3, %r3, %r4; add.u32 %r4, %r4, 1; bra L;\n"
		"E: add.u32 %r3, %r3, %r2; activemask.b32 %r5; setp.ne.u32 %p3, %r5, 0xffffffff; @%p3 mov.u32 %r3, 1;\n"
		"st.global.u32 [%d1], %r3; ret;",
		1024, out, 0);
	for (uint32_t i = 0; i < 1024; i++)
		ASSERT_EQ(i * (i - 1) / 2 * (i > 0) + (i % 4 == 0 ? 10u : i % 4 == 1 ? 20u : 30u), out[i]);
}

/* Goal: instructions under a guard change only the lanes whose guard holds. */
TEST(guards)
{
	static uint32_t out[100];

	run_well(MY_WORD
		 "and.b32 %r1, %r0, 1; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 5; @%p1 add.u32 %r2, %r2, %r0; "
		 "@!%p1 mul.lo.u32 %r2, %r2, 2; @%p1 setp.ne.u32 %p1|%p2, %r0, 7; @%p1 st.global.u32 [%d1], %r2; "
		 "@!%p1 st.global.u32 [%d1], 1000;",
		 100, out, 0);
	for (uint32_t i = 0; i < 100; i++)
		ASSERT_EQ(i % 2 && i != 7 ? i + 5 : 1000u, out[i]);
}

/* Goal: a lock that one thread of the block holds is released though others spin in front of it. */
TEST(a_lock_inside_a_block)
{
	static uint32_t words[2];

	memset(words, 0, sizeof words);
	run_well("ld.param.u64 %d2, [p0];\n"
		 "T: atom.global.cas.b32 %r1, [%d2], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra T;\n"
		 "ld.volatile.global.u32 %r2, [%d2+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%d2+4], %r2;\n"
		 "membar.gl; atom.global.exch.b32 %r3, [%d2], 0; ret;",
		 64, words, 0);
	ASSERT_EQ(0, words[0]);
	ASSERT_EQ(64, words[1]);
}

/* Goal: blocks that wait for each other both get on. */
TEST(blocks_wait_for_each_other)
{
	struct run_module module = run_load_body(
		"ld.param.u64 %d2, [p0]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d0, %r1, 4; add.u64 %d1, %d2, %d0; "
		"xor.b32 %r2, %r1, 1; mul.wide.u32 %d3, %r2, 4; add.u64 %d4, %d2, %d3;\n"
		"st.release.gpu.global.u32 [%d1], 1;\n"
		"L: ld.acquire.gpu.global.u32 %r3, [%d4]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L; ret;");
	uint32_t words[2] = {0, 0};

	run_simply(&module, 2, 32, (uintptr_t)words, 0, 0, 0);
	ASSERT_EQ(1, words[0]);
	ASSERT_EQ(1, words[1]);
	run_unload(&module);
}

/* Goal: barriers of all threads, of some, with results; also where threads have ended. */
TEST(barriers)
{
	static uint32_t out[256];

	run_well(".shared .u32 s[256];\n" MY_WORD
		 "setp.ge.u32 %p1, %r0, 200; @%p1 exit; mov.u32 %r4, s; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5; "
		 "st.shared.u32 [%r4], %r0; bar.sync 0; xor.b32 %r6, %r5, 4; mov.u32 %r7, s; add.u32 %r7, %r7, %r6; "
		 "ld.shared.u32 %r8, [%r7]; setp.lt.u32 %p2, %r0, 50; bar.red.popc.u32 %r9, 1, %p2; mad.lo.u32 "
		 "%r8, %r9, 1000, %r8; "
		 "bar.red.or.pred %p3, 2, !%p2; selp.u32 %r10, 100000, 0, %p3; add.u32 %r8, %r8, %r10; "
		 "st.global.u32 [%d1], %r8; ret;",
		 256, out, 0);
	for (uint32_t i = 0; i < 200; i++)
		ASSERT_EQ(150000 + (i ^ 1), out[i]);
	/* Warps 0 and 1 arrive and go on; 2 and 3 wait for them. */
	memset(out, 0, sizeof out);
	run_well(MY_WORD
		 "setp.ge.u32 %p1, %r0, 64; @%p1 bra W; st.volatile.global.u32 [%d1], 1; bar.arrive 3, 128; ret;\n"
		 "W: bar.sync 3, 128; ld.volatile.global.u32 %r1, [%d1-256]; st.global.u32 [%d1], %r1; ret;",
		 128, out, 0);
	for (uint32_t i = 0; i < 128; i++)
		ASSERT_EQ(1, out[i]);
}

/* Goal: threads that wait for what cannot come are an error, not a hang. */
TEST(a_deadlock_is_told)
{
	struct cn_ptx_fault fault;

	ASSERT_EQ(CN_PTX_DEADLOCK, run_body("bar.sync 1, 64; ret;", 32, NULL, 0, &fault));
	ASSERT_EQ(CN_PTX_BARRIER, run_body("mov.u32 %r1, 16; bar.sync %r1; ret;", 32, NULL, 0, &fault));
}

/* Goal: a conversion reads the part of a wider register that its type says. */
TEST(registers_are_wider_than_what_is_converted)
{
	static uint32_t out[32];

	run_well(MY_WORD
		 "mov.u64 %d3, 0x123456789abcdef0; mov.b32 %r1, 0x5678fedc; cvt.s64.s32 %d4, %d3; shr.u64 %d4, %d4, "
		 "28; cvt.u32.u64 %r2, %d4; cvt.s32.s16 %r3, %r1; cvt.u64.u16 %d5, %d3; cvt.u32.u64 %r4, %d5; "
		 "cvt.rn.f32.s16 %f1, %d3; cvt.rzi.s32.f32 %r5, %f1; setp.eq.u32 %p1, %r0, 1; mov.u32 %r6, 7; "
		 "@%p1 cvt.s32.s16 %r6, %r1;\n"
		 "setp.eq.u32 %p2, %r0, 2; selp.b32 %r7, %r2, %r3, %p2; setp.eq.u32 %p3, %r0, 3; selp.b32 %r7, %r4, "
		 "%r7, %p3; setp.eq.u32 %p4, %r0, 4; selp.b32 %r7, %r5, %r7, %p4; selp.b32 %r7, %r6, %r7, %p1;\n"
		 "setp.eq.u32 %p5, %r0, 5; selp.b32 %r7, %r6, %r7, %p5; st.global.u32 [%d1], %r7; ret;",
		 32, out, 0);
	ASSERT_EQ(0xfffffedcu, out[0]);
	ASSERT_EQ(0xfffffedcu, out[1]);
	ASSERT_EQ(0xfffffff9u, out[2]);
	ASSERT_EQ(0xdef0u, out[3]);
	ASSERT_EQ((uint32_t)-0x2110, out[4]);
	ASSERT_EQ(7, out[5]);
}

/* Goal: lanes that come to a shuffle by different ways meet there. */
TEST(warps_meet)
{
	static uint32_t out[64];

	run_well(MY_WORD
		 "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra E; mul.lo.u32 %r2, %r0, 3; bra J;\n"
		 "E: mul.lo.u32 %r2, %r0, 5;\nJ: bar.warp.sync 0xffffffff; shfl.sync.bfly.b32 %r3|%p2, %r2, 1, "
		 "31, 0xffffffff; "
		 "vote.sync.ballot.b32 %r4, %p1, 0xffffffff; xor.b32 %r3, %r3, %r4; st.global.u32 [%d1], %r3; ret;",
		 64, out, 0);
	for (uint32_t i = 0; i < 64; i++)
		ASSERT_EQ((i % 2 ? (i - 1) * 5 : (i + 1) * 3) ^ 0x55555555, out[i]);
	/* Each half of a warp in a branch of its own. */
	run_well(MY_WORD "and.b32 %r1, %r0, 31; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; "
			 "redux.sync.add.u32 %r2, %r0, 0xffff0000; bra J;\nA: redux.sync.max.u32 %r2, %r0, 0xffff;\n"
			 "J: st.global.u32 [%d1], %r2; ret;",
		 32, out, 0);
	ASSERT_EQ(15, out[3]);
	ASSERT_EQ(16 * 47 / 2, out[20]);
}

/* Goal: lanes that have waited for each other once wait again. */
TEST(warps_meet_again)
{
	static uint32_t out[32];

	run_well(MY_WORD "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra A;\n"
			 "S: shfl.sync.bfly.b32 %r2, %r0, 1, 31, 0xffffffff; @%p1 bra B;\n"
			 "T: shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xffffffff; st.global.u32 [%d1], %r3; ret;\n"
			 "A: bra S;\nB: bra T;",
		 32, out, 0);
	for (uint32_t i = 0; i < 32; i++)
		ASSERT_EQ(i ^ 1, out[i]);
}

/* What lane i of a warp whose lower and upper half execute this, each in a branch of its own, has in %r4. */
static uint32_t apart(const char *instruction, uint32_t i)
{
	static uint32_t out[64];
	char body[1024];

	snprintf(body, sizeof body,
		 "%sand.b32 %%r1, %%r0, 31; setp.lt.u32 %%p1, %%r1, 16; setp.lt.u32 %%p2, %%r1, 3;\n"
		 "@%%p1 bra A; mov.u32 %%r2, %%r0; %s bra J;\nA: mul.lo.u32 %%r2, %%r0, 10; %s\n"
		 "J: st.global.u32 [%%d1], %%r4; ret;",
		 MY_WORD, instruction, instruction);
	run_well(body, 64, out, 0);
	return out[i];
}

/* Goal: lanes of a warp meet at instructions of one kind, wherever these are, as on a GPU; which hangs at the last. */
TEST(warps_meet_apart)
{
	struct cn_ptx_fault fault;

	ASSERT_EQ(50, apart("shfl.sync.idx.b32 %r4, %r2, 5, 0x1f, 0xffffffff;", 20));
	ASSERT_EQ(370, apart("shfl.sync.idx.b32 %r4, %r2, 5, 0x1f, 0xffffffff;", 35));
	ASSERT_EQ(19, apart("shfl.sync.bfly.b32 %r4, %r2, 16, 0x1f, 0xffffffff;", 3));
	ASSERT_EQ(7, apart("vote.sync.ballot.b32 %r4, %p2, 0xffffffff;", 31));
	ASSERT_EQ(1, apart("vote.sync.any.pred %p3, %p2, 0xffffffff; selp.u32 %r4, 1, 0, %p3;", 31));
	ASSERT_EQ(15 * 16 / 2 * 10 + 47 * 16 / 2, apart("redux.sync.add.u32 %r4, %r2, 0xffffffff;", 0));
	ASSERT_EQ(0x00400801, apart("rem.u32 %r3, %r2, 22; match.any.sync.b32 %r4, %r3, 0xffffffff;", 22));
	/* Only members wait: two lanes of each half. */
	ASSERT_EQ(10, apart("mov.u32 %r4, 4; setp.lt.u32 %p3, %r1, 2; setp.ge.u32 %p4, %r1, 30; or.pred %p3, %p3, %p4; "
			    "@%p3 shfl.sync.idx.b32 %r4, %r2, 1, 0x1f, 0xc0000003;",
			    31));
	/* Different kinds never meet. */
	ASSERT_EQ(CN_PTX_DEADLOCK, run_body("mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @%p1 bra A;\n"
					    "vote.sync.ballot.b32 %r4, %p1, 0xffffffff; ret;\n"
					    "A: shfl.sync.idx.b32 %r4, %r0, 5, 0x1f, 0xffffffff; ret;",
					    32, NULL, 0, &fault));
}

static const char calls[] =
	".version 7.0\n.target sm_75\n.address_size 64\n.extern .func (.param .b32 r) vprintf(.param .b64 a, "
	".param .b64 b);\n"
	".global .align 1 .b8 format[20] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 10, 0};\n"
	".global .align 1 .b8 word[4] = {104, 105, 0, 0};\n"
	".func (.param .b32 r) twice(.param .b32 x)\n{ .reg .b32 %a; ld.param.b32 %a, [x]; shl.b32 %a, %a, 1; "
	"st.param.b32 [r], %a; ret; }\n"
	".func (.param .b32 r) thrice(.param .b32 x)\n{ .reg .b32 %a; ld.param.b32 %a, [x]; mul.lo.u32 %a, %a, 3; "
	"st.param.b32 [r], %a; ret; }\n"
	".global .u64 table[2] = {twice, thrice};\n"
	".func (.param .b32 r) factorial(.param .b32 x)\n{ .reg .b32 %a<4>; .reg .pred %p;\nld.param.b32 %a0, [x]; "
	"setp.le.u32 %p, %a0, 1; @%p bra ONE; sub.u32 %a1, %a0, 1;\n"
	"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %a1; call (v), factorial, (q); ld.param.b32 %a2, [v]; }\n"
	"mul.lo.u32 %a3, %a2, %a0; st.param.b32 [r], %a3; ret;\nONE: st.param.b32 [r], 1; ret; }\n"
	".visible .entry k(.param .u64 out)\n{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p; .local .align 8 "
	".b8 l[32];\n"
	"mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 7; mul.wide.u32 %d0, %r0, 8; ld.param.u64 %d1, [out]; add.u64 "
	"%d1, %d1, %d0;\n"
	"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %r1; call.uni (v), factorial, (q); ld.param.b32 %r2, "
	"[v]; }\n"
	"st.global.u32 [%d1], %r2; and.b32 %r3, %r0, 1; mul.wide.u32 %d2, %r3, 8; mov.u64 %d3, table; add.u64 "
	"%d3, %d3, %d2;\n"
	"ld.global.u64 %d4, [%d3];\n"
	"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %r0; P: .callprototype (.param .b32 _) _ (.param .b32 _); "
	"call (v), %d4, (q), P; ld.param.b32 %r4, [v]; }\nst.global.u32 [%d1+4], %r4;\n"
	"setp.ne.u32 %p, %r0, 3; @%p ret; mov.u64 %d5, l; cvta.local.u64 %d6, %d5; st.local.u32 [%d5], %r0; "
	"st.local.f64 [%d5+8], 0d3FF8000000000000; mov.u64 %d7, word; st.local.u64 [l+16], %d7; mov.u64 %d8, format;\n"
	"{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %d8; st.param.b64 [b], %d6; "
	"call (c), vprintf, (a, b); }\nret; }\n";

/* Goal: functions, recursion, function pointers and printf. */
TEST(calls)
{
	struct run_module module = run_load(calls);
	static uint32_t out[64][2];
	static const uint32_t factorials[] = {1, 1, 2, 6, 24, 120, 720, 5040};

	run_simply(&module, 1, 64, (uintptr_t)out, 0, 0, 0);
	for (uint32_t i = 0; i < 64; i++) {
		ASSERT_EQ(factorials[i % 8], out[i][0]);
		ASSERT_EQ(i * (i % 2 ? 3 : 2), out[i][1]);
	}
	ASSERT_STREQ("3 1.50 hi\n", run_printed());
	ASSERT_EQ(32, cn_ptx_calls.contents(module.module)->kernels[0].local_bytes);
	run_unload(&module);
}

/* Goal: threads of a large block that call two functions by turns need no more room than two frames. */
TEST(calls_of_neighbours)
{
	struct run_module module = run_load(calls);
	static uint32_t out[1024][2];

	run_simply(&module, 1, 1024, (uintptr_t)out, 0, 0, 0);
	for (uint32_t i = 0; i < 1024; i++)
		ASSERT_EQ(i * (i % 2 ? 3 : 2), out[i][1]);
	ASSERT_STREQ("3 1.50 hi\n", run_printed());
	run_unload(&module);
}

/* Half of the threads stay in wide(), whose registers have 64 bits, while the others call narrow(), whose have 32. */
static const char narrow_text[] =
	".func (.param .b32 r) narrow(.param .b32 x)\n{ .reg .b32 %a<9>; ld.param.b32 %a0, [x]; add.u32 %a1, %a0, 1;\n"
	"add.u32 %a2, %a1, 1; add.u32 %a3, %a2, 1; add.u32 %a4, %a3, %a1; add.u32 %a5, %a4, %a2;\n"
	"add.u32 %a6, %a5, %a3; st.param.b32 [r], %a6; ret; }\n";
static const char wide_text[] =
	".func (.param .b64 r) wide(.param .b64 x)\n{ .reg .b64 %a<9>; .reg .pred %p; ld.param.b64 %a0, [x];\n"
	"and.b64 %a1, %a0, 1; mul.lo.u64 %a2, %a0, 4294967297; mul.lo.u64 %a3, %a0, 12884901889;\n"
	"setp.eq.u64 %p, %a1, 0; @%p bra EVEN; st.param.b64 [r], %a0; ret;\n"
	"EVEN: add.u64 %a4, %a2, %a3; add.u64 %a5, %a4, %a0; st.param.b64 [r], %a5; ret; }\n";
static const char kernel_text[] =
	".visible .entry k(.param .u64 p0, .param .u64 p1)\n{ .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"mov.u32 %r0, %tid.x; cvt.u64.u32 %d0, %r0; ld.param.u64 %d1, [p0]; shl.b64 %d2, %d0, 3;\n"
	"add.u64 %d1, %d1, %d2; ld.param.u64 %d3, [p1]; shl.b64 %d4, %d0, 2; add.u64 %d3, %d3, %d4;\n"
	"{ .param .b64 q; .param .b64 v; st.param.b64 [q], %d0; call (v), wide, (q); ld.param.b64 %d5, [v]; }\n"
	"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %r0; call (v), narrow, (q); ld.param.b32 %r1, [v]; }\n"
	"st.global.u64 [%d1], %d5; st.global.u32 [%d3], %r1; ret; }\n";

static void run_apart(const char *first, const char *second, const char *third)
{
	static uint64_t wide[256];
	static uint32_t narrow[256];
	struct run_module module;
	char text[4096];

	snprintf(text, sizeof text,
		 ".version 7.0\n.target sm_75\n.address_size 64\n.func (.param .b64 r) wide(.param .b64 x);\n"
		 ".func (.param .b32 r) narrow(.param .b32 x);\n%s%s%s",
		 first, second, third);
	module = run_load(text);
	run_simply(&module, 1, 256, (uintptr_t)wide, (uintptr_t)narrow, 0, 0);
	for (uint64_t i = 0; i < 256; i++) {
		ASSERT_EQ(i % 2 ? i : i * 4294967297 + i * 12884901889 + i, wide[i]);
		ASSERT_EQ(4 * i + 9, narrow[i]);
	}
	run_unload(&module);
}

/* Goal: threads that are in different functions at one depth keep their registers, whichever of them runs first. */
TEST(calls_of_threads_apart)
{
	run_apart(narrow_text, kernel_text, wide_text);
	run_apart(wide_text, kernel_text, narrow_text);
	run_apart(narrow_text, wide_text, kernel_text);
	run_apart(kernel_text, wide_text, narrow_text);
}

/* Goal: calls that nest too deep end the block, not the process. */
TEST(endless_recursion)
{
	struct run_module module =
		run_load(".version 7.0\n.target sm_75\n.address_size 64\n.func f()\n{ call f; ret; }\n"
			 ".entry k(.param .u64 a)\n{ call f; ret; }\n");
	uint64_t parameter = 0;
	struct cn_ptx_fault fault;

	ASSERT_EQ(CN_PTX_STACK_OVERFLOW,
		  run_launch(&module, &(struct run_launch){.block = {64}, .parameters = &parameter}, &fault));
	run_unload(&module);
}

/* Goal: memory that is not there is told with thread, line and address. */
TEST(an_illegal_address)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cn_ptx_fault fault;

	ASSERT(pages != MAP_FAILED && !munmap(pages + 4096, 4096));
	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS,
		  run_body(MY_WORD "\nst.global.u32 [%d1+3996], 1; ret;", 64, pages, 0, &fault));
	ASSERT_EQ(25, fault.thread[0]);
	ASSERT_EQ((uintptr_t)pages + 4096, fault.address);
	ASSERT_EQ(8, fault.line);
	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS,
		  run_body(MY_WORD "ld.global.u32 %r1, [%d1+3996]; ret;", 64, pages, 0, &fault));
	ASSERT_EQ(25, fault.thread[0]);
	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS, run_body("ld.global.u32 %r1, [0]; ret;", 1, NULL, 0, &fault));
	ASSERT_EQ(CN_PTX_MISALIGNED_ADDRESS, run_body(MY_WORD "ld.global.u32 %r1, [%d1+2]; ret;", 8, pages, 0, &fault));
	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS,
		  run_body(".shared .u32 s[8]; mov.u32 %r1, s; ld.shared.u32 %r2, [%r1+32]; ret;", 8, NULL, 0, &fault));
	ASSERT_EQ(CN_PTX_ILLEGAL_CALL,
		  run_body("mov.u64 %d1, 77; P: .callprototype _ (); call %d1, P; ret;", 8, NULL, 0, &fault));
	munmap(pages, 4096);
}

/* Goal: a trap and a failed assertion end the block. */
TEST(traps_and_assertions)
{
	struct cn_ptx_fault fault;
	struct run_module module = run_load(run_compile(
		"extern \"C\" __device__ void __assertfail(const char *, const char *, unsigned, const char *, "
		"unsigned long);\n"
		"extern \"C\" __global__ void k(int *p) { if (TX == 9)\n"
		"__assertfail(\"x > 0\", \"a.cu\", 12, \"k\", 1); p[TX] = 1; }\n"));
	uint64_t parameter;
	static int out[32];

	ASSERT_EQ(CN_PTX_TRAP,
		  run_body("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 5; @%p1 trap; ret;", 32, NULL, 0, &fault));
	ASSERT_EQ(5, fault.thread[0]);
	parameter = (uintptr_t)out;
	ASSERT_EQ(CN_PTX_ASSERT,
		  run_launch(&module, &(struct run_launch){.block = {32}, .parameters = &parameter}, &fault));
	ASSERT_EQ(9, fault.thread[0]);
	ASSERT_STREQ("a.cu:12: k: block: [0,0,0], thread: [9,0,0] Assertion `x > 0` failed.\n", run_printed());
	run_unload(&module);
}

/* Goal: malloc() and free() in kernels, and what is left is freed with the module. */
TEST(a_heap)
{
	struct run_module module = run_load(run_compile(
		"extern \"C\" __device__ void *malloc(unsigned long); extern \"C\" __device__ void free(void *);\n"
		"extern \"C\" __global__ void k(int *out) { int *p = (int *)malloc(64); p[3] = TX; out[TX] = p[3];\n"
		"if (TX % 2) free(p); if (TX == 31) free(out); }\n"));
	static int out[32];
	uint64_t parameter = (uintptr_t)out;
	struct cn_ptx_fault fault;

	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS,
		  run_launch(&module, &(struct run_launch){.block = {32}, .parameters = &parameter}, &fault));
	ASSERT_EQ(31, fault.thread[0]);
	ASSERT_EQ((uintptr_t)out, fault.address);
	for (int i = 0; i < 32; i++)
		ASSERT_EQ(i, out[i]);
	run_unload(&module);
}

/* Goal: shared memory by generic addresses, dynamic shared memory, vectors, three dimensions. */
TEST(spaces)
{
	struct run_module module = run_load(
		".version 7.0\n.target sm_75\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
		".const .u32 c[2] = {7, 9};\n"
		".global .u64 pointer = generic(c)+4;\n"
		".entry k(.param .u64 out)\n{ .reg .b32 %r<12>; .reg .b64 %d<9>; .reg .pred %p; .shared .u32 s[4];\n"
		"mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.x; mov.u32 "
		"%r4, %ntid.y;\n"
		"mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %r0; mul.wide.u32 %d0, %r5, 16;\n"
		"mov.u64 %d1, dynamic; cvta.shared.u64 %d2, %d1; add.u64 %d2, %d2, %d0; isspacep.shared %p, "
		"%d2; @!%p trap;\n"
		"st.v4.u32 [%d2], {%r0, %r1, %r2, %r5}; bar.sync 0; cvta.to.shared.u64 %d3, %d2;\n"
		"ld.shared.v2.u32 {%r6, %r7}, [%d3]; ld.shared.u32 %r8, [%d3+8]; mov.u64 %d6, pointer; "
		"ld.global.u64 %d7, [%d6]; "
		"isspacep.const %p, %d7; @!%p trap; isspacep.global %p, %d7; @%p trap;\n"
		"isspacep.const %p, %d6; @%p trap;\n"
		"ld.u32 %r9, [%d7]; ld.const.u32 %r10, [c]; mad.lo.u32 %r9, %r9, 100, %r10;\n"
		"ld.param.u64 %d4, [out]; add.u64 %d4, %d4, %d0; st.global.v4.u32 [%d4], {%r6, %r7, %r8, %r9}; "
		"ret; }\n");
	static uint32_t out[24][4];
	uint64_t parameter = (uintptr_t)out;
	struct cn_ptx_fault fault;

	ASSERT_EQ(CN_PTX_DONE,
		  run_launch(&module,
			     &(struct run_launch){
				     .block = {2, 3, 4}, .parameters = &parameter, .dynamic_shared_bytes = 24 * 16},
			     &fault));
	for (uint32_t i = 0; i < 24; i++) {
		ASSERT_EQ(i % 2, out[i][0]);
		ASSERT_EQ(i / 2 % 3, out[i][1]);
		ASSERT_EQ(i / 6, out[i][2]);
		ASSERT_EQ(907, out[i][3]);
	}
	ASSERT_EQ(9, ((uint32_t *)run_variable(&module, "c"))[1]);
	run_unload(&module);
}

/* Goal: indexed branches, and scopes with names of their own. */
TEST(branch_tables)
{
	static uint32_t out[8];

	run_well(MY_WORD "T: .branchtargets A, B, C;\nsetp.gt.u32 %p1, %r0, 2; @%p1 bra D; brx.idx %r0, T;\n"
			 "A: mov.u32 %r1, 10; bra E;\nB: mov.u32 %r1, 20; bra E;\nC: { .reg .b32 %r1; mov.u32 %r1, 5; "
			 "bra X; X: }\n"
			 "mov.u32 %r1, 30; bra E;\nD: mov.u32 %r1, 40;\nE: st.global.u32 [%d1], %r1;",
		 8, out, 0);
	ASSERT_EQ(10, out[0]);
	ASSERT_EQ(20, out[1]);
	ASSERT_EQ(30, out[2]);
	ASSERT_EQ(40, out[7]);
}

/* Goal: the flag that a difference leaves is 1 where nothing was borrowed, as nvcc's 128-bit division relies on. */
TEST(a_carry_of_a_difference)
{
	static uint32_t out[8];

	run_well(MY_WORD "sub.cc.u32 %r1, %r0, 4; addc.u32 %r2, 0, 0; st.global.u32 [%d1], %r2; ret;", 8, out, 0);
	for (uint32_t i = 0; i < 8; i++)
		ASSERT_EQ(i >= 4, out[i]);
}

/* Goal: the address of a shared variable and a number, before and behind it, in 32 and 64 bits. */
TEST(addresses_in_shared_memory)
{
	static uint32_t out[4];

	run_well(".shared .u32 t[4]; .shared .u32 s[4]; .shared .u32 u[4];\n" MY_WORD
		 "mov.u32 %r1, t; mov.u32 %r1, u; mov.u32 %r1, s+8; mov.u32 %r2, s; sub.u32 %r3, %r1, %r2;\n"
		 "st.shared.u32 [s+12], 77; ld.shared.u32 %r4, [%r1+4]; mov.u32 %r5, u-4; ld.shared.u32 %r6, [u-4];\n"
		 "mov.u64 %d5, u-4; cvt.u32.u64 %r7, %d5; sub.u32 %r7, %r7, %r5;\n"
		 "st.global.v4.u32 [%d1], {%r3, %r4, %r7, %r6}; ret;",
		 1, out, 0);
	ASSERT_EQ(8, out[0]);
	ASSERT_EQ(77, out[1]);
	ASSERT_EQ(0, out[2]);
}

/* Goal: a barrier of some threads is complete with the last of them, and those that come with it begin anew. */
TEST(barriers_of_some_threads)
{
	static uint32_t out[128];

	/* Four warps, two at a time: each pair counts its own 64 threads. */
	run_well(MY_WORD "setp.ne.u32 %p1, %r0, 9999; bar.red.popc.u32 %r1, 1, 64, %p1; st.global.u32 [%d1], %r1; ret;",
		 128, out, 0);
	for (uint32_t i = 0; i < 128; i++)
		ASSERT_EQ(64, out[i]);
	/* Three warps come together, and the fourth later: it completes the second pair. */
	run_well(MY_WORD "setp.lt.u32 %p1, %r0, 96; @%p1 bra A; mov.u32 %r2, 0;\n"
			 "L: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50; @%p2 bra L;\n"
			 "A: bar.sync 2, 64; st.global.u32 [%d1], 5; ret;",
		 128, out, 0);
	for (uint32_t i = 0; i < 128; i++)
		ASSERT_EQ(5, out[i]);
}

/* Goal: shuffles and votes of old PTX, without .sync, are of the threads that are there. */
TEST(warps_without_sync)
{
	static uint32_t out[32];

	run_well(MY_WORD
		 "setp.lt.u32 %p1, %r0, 8; setp.gt.u32 %p2, %r0, 3; @!%p1 bra E;\n"
		 "vote.ballot.b32 %r1, %p2; shfl.down.b32 %r2|%p3, %r0, 1, 0x1f; mad.lo.u32 %r1, %r2, 256, %r1;\n"
		 "vote.all.pred %p4, %p1; @%p4 add.u32 %r1, %r1, 0x100000;\n"
		 "E: st.global.u32 [%d1], %r1; ret;",
		 32, out, 0);
	for (uint32_t i = 0; i < 7; i++)
		ASSERT_EQ(0x100000 + (i + 1) * 256 + 0xf0, out[i]);
}

/* Goal: a shuffle gives 0 of threads that are elsewhere: sums over the first threads of a warp rely on it. */
TEST(shuffles_of_part_of_a_warp)
{
	static uint32_t out[32];

	run_well(MY_WORD "add.u32 %r1, %r0, 1; setp.lt.u32 %p1, %r0, 8; @!%p1 bra E;\n"
			 "shfl.sync.down.b32 %r2, %r1, 16, 0x1f, 0xff; add.u32 %r1, %r1, %r2;\n"
			 "shfl.sync.down.b32 %r2, %r1, 8, 0x1f, 0xff; add.u32 %r1, %r1, %r2;\n"
			 "shfl.sync.down.b32 %r2, %r1, 4, 0x1f, 0xff; add.u32 %r1, %r1, %r2;\n"
			 "shfl.sync.down.b32 %r2, %r1, 2, 0x1f, 0xff; add.u32 %r1, %r1, %r2;\n"
			 "shfl.sync.down.b32 %r2, %r1, 1, 0x1f, 0xff; add.u32 %r1, %r1, %r2;\n"
			 "E: st.global.u32 [%d1], %r1; ret;",
		 32, out, 0);
	ASSERT_EQ(1 + 2 + 3 + 4 + 5 + 6 + 7 + 8, out[0]);
}

/* Goal: registers that are vectors, whole and in parts. */
TEST(vector_registers)
{
	static uint32_t out[4] = {1, 2, 3, 4};

	run_well(".reg .v4 .u32 %v; .reg .v2 .b64 %w;\n" MY_WORD
		 "ld.global.v4.u32 %v, [%d1]; add.u32 %v.x, %v.y, %v.w; mov.v4.u32 %v, {%v.w, %v.x, %v.y, %v.z};\n"
		 "mov.u64 %w.y, %d1; st.global.v4.u32 [%w.y], %v; ret;",
		 1, out, 0);
	ASSERT_EQ(4, out[0]);
	ASSERT_EQ(6, out[1]);
	ASSERT_EQ(2, out[2]);
	ASSERT_EQ(3, out[3]);
}

/* Goal: copies into shared memory: all bytes, some and zeros, none; guarded; a wrong source is told. */
TEST(asynchronous_copies)
{
	static _Alignas(16) uint32_t data[64];
	struct cn_ptx_fault fault;

	for (uint32_t i = 0; i < 64; i++)
		data[i] = 1000 + i;
	run_well(".shared .align 16 .b8 s[64];\n" MY_WORD
		 "mov.u32 %r1, s; mul.lo.u32 %r2, %r0, 16; add.u32 %r1, %r1, %r2; mul.wide.u32 %d3, %r0, 16; add.u64 "
		 "%d4, "
		 "%d2, %d3; mul.lo.u32 %r3, %r0, 4;\n"
		 "cp.async.cg.shared.global [%r1], [%d4], 16, %r3; cp.async.commit_group; cp.async.wait_group 0; "
		 "bar.sync 0;\n"
		 "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%d4+64], {%r4, %r5, %r6, %r7};\n"
		 "setp.eq.u32 %p1, %r0, 3; @%p1 cp.async.ca.shared.global [%r1+4], [%d4+4], 4; cp.async.wait_all; "
		 "ld.shared.u32 %r8, [%r1+4]; st.global.u32 [%d1+128], %r8; ret;",
		 4, data, 0);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t j = 0; j < 4; j++)
			ASSERT_EQ(j < i ? 1000 + 4 * i + j : 0, data[16 + 4 * i + j]);
	ASSERT_EQ(1013, data[32 + 3]);
	ASSERT_EQ(CN_PTX_ILLEGAL_ADDRESS,
		  run_body(".shared .b32 s; mov.u64 %d1, 64; mov.u32 %r1, s; cp.async.ca.shared."
			   "global [%r1], [%d1], 4; ret;",
			   1, NULL, 0, &fault));
	ASSERT_EQ(64, fault.address);
}

/* Goal: what cooperative groups keep in shared memory lies behind the kernel's own, and is zero when a block begins. */
TEST(reserved_shared_memory)
{
	struct run_module module = run_load_body(
		".shared .u32 s[3];\n" MY_WORD
		"mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r2, [%r1+1020]; mov.u32 %r3, s;\n"
		"st.shared.u32 [%r1+1020], 9; sub.u32 %r4, %r1, %r3; mov.u32 %r5, %cluster_nctaid.y; mov.u32 "
		"%r6, %clusterid.x; mov.u32 %r7, %ctaid.x; mul.wide.u32 %d3, %r7, 16; add.u64 %d2, %d2, %d3;\n"
		"st.global.v4.u32 [%d2], {%r2, %r4, %r5, %r6}; ret;");
	static _Alignas(16) uint32_t out[2][4];

	ASSERT_EQ(12, cn_ptx_calls.contents(module.module)->kernels[0].shared_bytes);
	run_simply(&module, 2, 1, (uintptr_t)out, 0, 0, 0);
	for (uint32_t i = 0; i < 2; i++) {
		ASSERT_EQ(0, out[i][0]);
		ASSERT(out[i][1] >= 12);
		ASSERT_EQ(1, out[i][2]);
		ASSERT_EQ(i, out[i][3]);
	}
	run_unload(&module);
}

/* Goal: barriers in shared memory: phases by state and by parity, threads that drop out, bytes that are expected. */
TEST(barriers_in_shared_memory)
{
	static uint32_t out[96];
	struct cn_ptx_fault fault;

	/* Three rounds; in each the last to arrive sees all others' words. */
	run_well(".shared .align 8 .b64 b; .shared .b32 s[96];\n" MY_WORD
		 "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 96; bar.sync 0; mov.u32 %r5, 0; "
		 "mov.u32 %r6, 0; "
		 "mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;\n"
		 "L: st.shared.u32 [%r1], %r5; mbarrier.arrive.shared.b64 %d5, [b];\n"
		 "W: mbarrier.try_wait.shared.b64 %p2, [b], %d5; @!%p2 bra W;\n"
		 "add.u32 %r7, %r0, 5; rem.u32 %r7, %r7, 96; shl.b32 %r7, %r7, 2; mov.u32 %r8, s; add.u32 %r7, %r7, "
		 "%r8; "
		 "ld.shared.u32 %r9, [%r7]; add.u32 %r6, %r6, %r9; bar.sync 0;\n"
		 "add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 3; @%p3 bra L; st.global.u32 [%d1], %r6; ret;",
		 96, out, 0);
	for (uint32_t i = 0; i < 96; i++)
		ASSERT_EQ(0 + 1 + 2, out[i]);
	/* By parity, with half of the threads gone after the first phase; then 16 bytes that one thread expects. */
	run_well(".shared .align 8 .b64 b;\n" MY_WORD
		 "setp.eq.u32 %p1, %r0, 0; mov.u32 %r9, b; @%p1 mbarrier.init.shared::cta.b64 [%r9], 64; bar.sync 0; "
		 "setp.ge.u32 %p4, %r0, 32; @%p4 bra H; mbarrier.arrive.shared.b64 _, [%r9];\n"
		 "W: mbarrier.test_wait.parity.shared.b64 %p2, [%r9], 0; @!%p2 bra W;\n"
		 "@%p1 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r9], 16;\n"
		 "@!%p1 mbarrier.arrive.shared.b64 %d5, [%r9]; mbarrier.test_wait.parity.shared.b64 %p2, [%r9], 1; "
		 "selp.u32 %r1, "
		 "1, 0, %p2; bar.sync 1, 32; @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r9], 16;\n"
		 "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 1, 1000; @!%p2 bra V; st.global.u32 [%d1], %r1; "
		 "ret;\n"
		 "H: mbarrier.arrive_drop.shared.b64 %d5, [%r9]; ret;",
		 64, out, 0);
	for (uint32_t i = 0; i < 32; i++)
		ASSERT_EQ(0, out[i]);
	ASSERT_EQ(CN_PTX_BARRIER, run_body(".shared .align 8 .b64 b; mbarrier.init.shared.b64 [b], 1; "
					   "mbarrier.arrive.shared.b64 "
					   "%d1, [b], 2; ret;",
					   1, NULL, 0, &fault));
}

#ifdef __SSE2__

/* Goal: how the thread that runs a block rounds, and whether it flushes, is no matter, and stays as it was. */
TEST(settings_of_the_thread)
{
	static uint32_t out[4];
	unsigned before = __builtin_ia32_stmxcsr(), other = (before & ~0x8040u) | 0x8040 | 0x4000, after;

	__builtin_ia32_ldmxcsr(other); /* flush subnormal numbers, take them as zero, round up */
	run_well(MY_WORD "mov.f32 %f1, 0f00000003; mov.f32 %f2, 0f00000001; add.rn.f32 %f3, %f1, %f2; st.global.f32 "
			 "[%d1], %f3; "
			 "mov.f32 %f4, 0f3F800000; mov.f32 %f5, 0f33000000; add.rn.f32 %f6, %f4, %f5; st.global.f32 "
			 "[%d1+4], "
			 "%f6; mov.f32 %f7, 0f40400000; rcp.approx.f32 %f8, %f7; st.global.f32 [%d1+8], %f8; ret;",
		 1, out, 0);
	after = __builtin_ia32_stmxcsr();
	__builtin_ia32_ldmxcsr(before);
	ASSERT_EQ(4, out[0]);
	ASSERT_EQ(0x3f800000, out[1]);
	ASSERT_EQ(0x3eaaaaab, out[2]);
	ASSERT_EQ(other & 0xffc0, after & 0xffc0);
}

#endif
