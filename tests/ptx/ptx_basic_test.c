/* SPDX-License-Identifier: MIT */
/*
 * Modules and launches: what a text contains, and the first kernels that run.
 */
#include "run.h"

#include "harness.h"

/* Goal: a kernel adds vectors, and lanes beyond the end do nothing. */
TEST(a_vector_add)
{
	static const char text[] =
		".version 7.5\n.target sm_75\n.address_size 64\n"
		".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
		".reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;\n"
		"ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];\n"
		"mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
		"mad.lo.s32 %r1, %r3, %r4, %r5;\nsetp.ge.s32 %p1, %r1, %r2;\n@%p1 bra $L;\n"
		"cvta.to.global.u64 %rd4, %rd1; mul.wide.s32 %rd5, %r1, 4; add.s64 %rd6, %rd4, %rd5;\n"
		"cvta.to.global.u64 %rd7, %rd2; add.s64 %rd8, %rd7, %rd5;\n"
		"ld.global.f32 %f1, [%rd8]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f2, %f1;\n"
		"cvta.to.global.u64 %rd9, %rd3; add.s64 %rd10, %rd9, %rd5; st.global.f32 [%rd10], %f3;\n"
		"$L: ret;\n}\n";
	struct run_module module = run_load(text);
	static float a[1000], b[1000], c[1000];
	struct {
		uint64_t a, b, c;
		uint32_t n;
	} parameters = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, 997};
	struct cn_ptx_fault fault;

	for (int i = 0; i < 1000; i++) {
		a[i] = (float)i;
		b[i] = (float)(2 * i);
	}
	ASSERT_EQ(28, cn_ptx_calls.contents(module.module)->kernels[0].parameter_bytes);
	ASSERT_EQ(CN_PTX_DONE,
		  run_launch(&module, &(struct run_launch){.grid = {8}, .block = {128}, .parameters = &parameters},
			     &fault));
	for (int i = 0; i < 997; i++)
		ASSERT_EQ(3 * i, (int)c[i]);
	ASSERT_EQ(0, (int)c[997]);
	run_unload(&module);
}

/* Goal: clang's code, with shared memory, barriers and loops, runs. */
TEST(a_reduction_from_clang)
{
	struct run_module module =
		run_load(run_compile("extern \"C\" __global__ void sum(const int *in, int *out, int n) {\n"
				     "__shared__ int s[256]; int t = TX, x = 0;\n"
				     "for (int i = BX * NX + t; i < n; i += NX * GX) x += in[i];\n"
				     "s[t] = x; SYNC;\n"
				     "for (int k = NX / 2; k; k /= 2) { if (t < k) s[t] += s[t + k]; SYNC; }\n"
				     "if (!t) out[BX] = s[0]; }\n"));
	static int in[10000], out[4];
	struct {
		uint64_t in, out;
		int n;
	} parameters = {(uintptr_t)in, (uintptr_t)out, 10000};
	struct cn_ptx_fault fault;
	long expected = 0;

	for (int i = 0; i < 10000; i++) {
		in[i] = i * 7 % 1001;
		expected += in[i];
	}
	ASSERT_EQ(1024, cn_ptx_calls.contents(module.module)->kernels[0].shared_bytes);
	ASSERT_EQ(CN_PTX_DONE,
		  run_launch(&module, &(struct run_launch){.grid = {4}, .block = {256}, .parameters = &parameters},
			     &fault));
	ASSERT_EQ(expected, out[0] + out[1] + out[2] + out[3]);
	run_unload(&module);
}
