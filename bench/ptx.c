/* SPDX-License-Identifier: MIT */
/*
 * Kernels in PTX on one core: beside the same in plain C, and beside kernels in C of which a function is called for
 * each thread.
 *
 * The engine is called directly (ptx/ptx.h): what a launch through a stream costs, bench-events measures. Texts are as
 * compilers write them: addresses by mul.wide and add, loops over shared memory unrolled.
 */
#include "harness.h"

#include "ptx/ptx.h"

#include <cenote/cenote.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 20, SIDE = 256, TILE = 16, LANES = 256, LIBRARY_KERNELS = 1000 };

#define HEAD ".version 7.5\n.target sm_75\n.address_size 64\n"

static float *first, *second, *third;

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

#define REGISTERS ".reg .pred %p<9>; .reg .f32 %f<60>; .reg .b32 %r<30>; .reg .b64 %d<30>;\n"

static const char add_text[] =
	HEAD ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n" REGISTERS
	     "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u32 %r2, [n];\n"
	     "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;\n"
	     "setp.ge.s32 %p1, %r1, %r2; @%p1 bra END;\n"
	     "cvta.to.global.u64 %d4, %d1; mul.wide.s32 %d5, %r1, 4; add.s64 %d6, %d4, %d5;\n"
	     "cvta.to.global.u64 %d7, %d2; add.s64 %d8, %d7, %d5; ld.global.f32 %f1, [%d8]; ld.global.f32 %f2, [%d6];\n"
	     "add.f32 %f3, %f2, %f1; cvta.to.global.u64 %d9, %d3; add.s64 %d10, %d9, %d5; st.global.f32 [%d10], %f3;\n"
	     "END: ret;\n}\n";

/* Each block sums 2048 numbers: eight a thread, then a tree. */
static const char sum_text[] =
	HEAD ".visible .entry sum(.param .u64 a, .param .u64 b)\n{\n" REGISTERS ".shared .align 4 .b32 s[256];\n"
	     "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\n"
	     "shl.b32 %r3, %r2, 11; add.s32 %r3, %r3, %r1; mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %d1, %d3;\n"
	     "mov.f32 %f1, 0f00000000; mov.u32 %r4, 0;\n"
	     "LOOP: ld.global.f32 %f2, [%d4]; add.f32 %f1, %f1, %f2; add.s64 %d4, %d4, 1024; add.s32 %r4, %r4, 1;\n"
	     "setp.ne.s32 %p1, %r4, 8; @%p1 bra LOOP;\n"
	     "mov.u32 %r5, s; shl.b32 %r6, %r1, 2; add.s32 %r7, %r5, %r6; st.shared.f32 [%r7], %f1; mov.u32 %r8, 128;\n"
	     "TREE: bar.sync 0; setp.ge.u32 %p2, %r1, %r8; @%p2 bra NEXT;\n"
	     "shl.b32 %r9, %r8, 2; add.s32 %r10, %r7, %r9; ld.shared.f32 %f3, [%r10]; ld.shared.f32 %f4, [%r7];\n"
	     "add.f32 %f5, %f4, %f3; st.shared.f32 [%r7], %f5;\n"
	     "NEXT: shr.u32 %r8, %r8, 1; setp.ne.u32 %p3, %r8, 0; @%p3 bra TREE;\n"
	     "setp.ne.s32 %p4, %r1, 0; @%p4 bra END; mul.wide.u32 %d5, %r2, 4; add.s64 %d6, %d2, %d5;\n"
	     "ld.shared.f32 %f6, [s]; st.global.f32 [%d6], %f6;\nEND: ret;\n}\n";

/* Tiles of 16 x 16 in shared memory; the innermost loop is unrolled. */
static const char *product_text(void)
{
	static char text[1 << 14];
	size_t at = (size_t)snprintf(
		text, sizeof text,
		HEAD
		".visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n%s"
		".shared .align 4 .b32 s[256]; .shared .align 4 .b32 t[256];\n"
		"ld.param.u64 %%d1, [a]; ld.param.u64 %%d2, [b]; ld.param.u64 %%d3, [c]; ld.param.u32 %%r1, [n];\n"
		"mov.u32 %%r2, %%tid.x; mov.u32 %%r3, %%tid.y; mov.u32 %%r4, %%ctaid.x; mov.u32 %%r5, %%ctaid.y;\n"
		"shl.b32 %%r6, %%r5, 4; add.s32 %%r6, %%r6, %%r3; shl.b32 %%r7, %%r4, 4; add.s32 %%r7, %%r7, %%r2;\n"
		"mad.lo.s32 %%r8, %%r6, %%r1, %%r2; mul.wide.s32 %%d4, %%r8, 4; add.s64 %%d5, %%d1, %%d4;\n"
		"mad.lo.s32 %%r9, %%r3, %%r1, %%r7; mul.wide.s32 %%d6, %%r9, 4; add.s64 %%d7, %%d2, %%d6;\n"
		"mul.wide.s32 %%d8, %%r1, 64; shl.b32 %%r10, %%r3, 6; shl.b32 %%r11, %%r2, 2; mov.u32 %%r12, s;\n"
		"add.s32 %%r13, %%r12, %%r10; add.s32 %%r14, %%r13, %%r11; mov.u32 %%r15, t; add.s32 %%r16, %%r15, "
		"%%r11; add.s32 %%r17, %%r16, %%r10; mov.f32 %%f1, 0f00000000; mov.u32 %%r18, 0;\n"
		"LOOP: ld.global.f32 %%f2, [%%d5]; st.shared.f32 [%%r14], %%f2; ld.global.f32 %%f3, [%%d7]; "
		"st.shared.f32 [%%r17], %%f3; bar.sync 0;\n",
		REGISTERS);

	for (unsigned k = 0; k < TILE; k++)
		at += (size_t)snprintf(
			text + at, sizeof text - at,
			"ld.shared.f32 %%f%u, [%%r13+%u]; ld.shared.f32 %%f%u, [%%r16+%u]; fma.rn.f32 %%f1, "
			"%%f%u, %%f%u, %%f1;\n",
			10 + 2 * k, 4 * k, 11 + 2 * k, 64 * k, 11 + 2 * k, 10 + 2 * k);
	snprintf(text + at, sizeof text - at,
		 "bar.sync 0; add.s64 %%d5, %%d5, 64; add.s64 %%d7, %%d7, %%d8; add.s32 %%r18, %%r18, 16; setp.lt.s32 "
		 "%%p1, "
		 "%%r18, %%r1; @%%p1 bra LOOP;\nmad.lo.s32 %%r19, %%r6, %%r1, %%r7; mul.wide.s32 %%d9, %%r19, 4; "
		 "add.s64 "
		 "%%d10, %%d3, %%d9; st.global.f32 [%%d10], %%f1; ret;\n}\n");
	return text;
}

/* ---- The engine -------------------------------------------------------------------------------------------------- */

struct ready {
	struct cn_ptx_module *module;
	struct cn_ptx_block *block;
	unsigned grid[2];
};

static struct ready make_ready(const char *text, const void *parameters, unsigned x, unsigned y, unsigned width,
			       unsigned height)
{
	struct ready ready = {.grid = {x, y}};
	struct cn_ptx_launch launch = {
		.grid = {x, y, 1}, .block = {width, height, 1}, .parameters = parameters, .device_blocks = 1};

	BENCH_MUST(cn_ptx_calls.load(text, strlen(text), 90, NULL, &ready.module));
	launch.module = ready.module;
	launch.kernel = cn_ptx_calls.contents(ready.module)->kernels[0].index;
	BENCH_MUST(cn_ptx_calls.block_create(&launch, NULL, &ready.block));
	return ready;
}

static void run_grid(void *data, unsigned long count)
{
	const struct ready *ready = data;
	struct cn_ptx_fault fault;

	while (count--)
		for (unsigned y = 0; y < ready->grid[1]; y++)
			for (unsigned x = 0; x < ready->grid[0]; x++) {
				cn_ptx_calls.block_begin(ready->block, (const unsigned[3]){x, y, 0});
				while (cn_ptx_calls.block_run(ready->block, CN_PTX_BUDGET, &fault) == CN_PTX_AGAIN)
					;
			}
}

static void end(struct ready *ready)
{
	cn_ptx_calls.block_destroy(ready->block);
	cn_ptx_calls.unload(ready->module);
}

/* ---- Vector add -------------------------------------------------------------------------------------------------- */

static void plain_add(void *unused, unsigned long count)
{
	(void)unused;
	while (count--) {
		for (int i = 0; i < COUNT; i++)
			third[i] = first[i] + second[i];
		__asm__ volatile("" ::: "memory");
	}
}

static void add_one(const cenote_thread *at, void **arguments)
{
	const float *a = *(const float **)arguments[0], *b = *(const float **)arguments[1];
	float *c = *(float **)arguments[2];
	unsigned i = at->blockIdx.x * at->blockDim.x + at->threadIdx.x;

	if (i < *(unsigned *)arguments[3])
		c[i] = a[i] + b[i];
}
CENOTE_KERNEL(add_one, const float *, const float *, float *, unsigned);

static void launch_add(void *unused, unsigned long count)
{
	unsigned length = COUNT;
	void *arguments[] = {&first, &second, &third, &length};

	(void)unused;
	while (count--) {
		BENCH_MUST(cudaLaunchKernel((const void *)add_one, (dim3){COUNT / LANES, 1, 1}, (dim3){LANES, 1, 1},
					    arguments, 0, NULL));
		BENCH_MUST(cudaDeviceSynchronize());
	}
}

static void check_add(void *unused)
{
	(void)unused;
	for (int i = 0; i < COUNT; i += 997)
		BENCH_MUST(third[i] != first[i] + second[i]);
	memset(third, 0, COUNT * sizeof *third);
}

static void measure_add(void)
{
	struct {
		const void *a, *b, *c;
		unsigned n;
	} parameters = {first, second, third, COUNT};
	struct ready ready = make_ready(add_text, &parameters, COUNT / LANES, 1, LANES, 1);
	struct bench_contestant contestants[] = {
		{.name = "cenote, PTX",
		 .body = run_grid,
		 .data = &ready,
		 .check = check_add,
		 .goal = 2,
		 .goal_of = "cenote, a C function for each thread"},
		{.name = "cenote, a C function for each thread", .body = launch_add, .check = check_add},
		{.name = "plain C", .body = plain_add, .check = check_add}};

	bench_contest(&(struct bench_contest){.group = "Kernels in PTX, one core",
					      .name = "vector add, 1 Mi floats",
					      .baseline = "plain C"},
		      contestants, sizeof contestants / sizeof *contestants);
	end(&ready);
}

/* ---- Matrix product ---------------------------------------------------------------------------------------------- */

static void plain_product(void *unused, unsigned long count)
{
	(void)unused;
	while (count--) {
		memset(third, 0, sizeof(float) * SIDE * SIDE);
		for (int i = 0; i < SIDE; i++)
			for (int k = 0; k < SIDE; k++)
				for (int j = 0; j < SIDE; j++)
					third[i * SIDE + j] += first[i * SIDE + k] * second[k * SIDE + j];
		__asm__ volatile("" ::: "memory");
	}
}

static void check_product(void *unused)
{
	(void)unused;
	for (int i = 0; i < SIDE; i += 37) {
		float sum = 0;

		for (int k = 0; k < SIDE; k++)
			sum += first[i * SIDE + k] * second[k * SIDE + i];
		BENCH_MUST(sum - third[i * SIDE + i] > 1 || third[i * SIDE + i] - sum > 1);
	}
	memset(third, 0, sizeof(float) * SIDE * SIDE);
}

static void measure_product(void)
{
	struct {
		const void *a, *b, *c;
		unsigned n;
	} parameters = {first, second, third, SIDE};
	struct ready ready = make_ready(product_text(), &parameters, SIDE / TILE, SIDE / TILE, TILE, TILE);
	struct bench_contestant contestants[] = {
		{.name = "cenote, PTX", .body = run_grid, .data = &ready, .check = check_product, .goal = 4},
		{.name = "plain C", .body = plain_product, .check = check_product}};

	bench_contest(&(struct bench_contest){.group = "Kernels in PTX, one core",
					      .name = "tiled matrix product, 256 x 256",
					      .baseline = "plain C"},
		      contestants, sizeof contestants / sizeof *contestants);
	end(&ready);
}

/* ---- Reduction --------------------------------------------------------------------------------------------------- */

static void plain_sum(void *unused, unsigned long count)
{
	(void)unused;
	while (count--) {
		for (int block = 0; block < COUNT / 2048; block++) {
			float sum = 0;

			for (int i = 0; i < 2048; i++)
				sum += first[block * 2048 + i];
			third[block] = sum;
		}
		__asm__ volatile("" ::: "memory");
	}
}

static void check_sum(void *unused)
{
	double sum = 0, expected = 0;

	(void)unused;
	for (int i = 0; i < COUNT / 2048; i++)
		sum += third[i];
	for (int i = 0; i < COUNT; i++)
		expected += first[i];
	BENCH_MUST(sum > expected * 1.001 || sum < expected * 0.999);
	memset(third, 0, COUNT * sizeof *third);
}

static void measure_sum(void)
{
	struct {
		const void *a, *b;
	} parameters = {first, third};
	struct ready ready = make_ready(sum_text, &parameters, COUNT / 2048, 1, LANES, 1);
	struct bench_contestant contestants[] = {
		{.name = "cenote, PTX", .body = run_grid, .data = &ready, .check = check_sum},
		{.name = "plain C", .body = plain_sum, .check = check_sum}};

	bench_contest(&(struct bench_contest){.group = "Kernels in PTX, one core",
					      .name = "reduction, 1 Mi floats",
					      .baseline = "plain C"},
		      contestants, sizeof contestants / sizeof *contestants);
	end(&ready);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static void first_launch(void *unused, unsigned long count)
{
	struct {
		const void *a, *b, *c;
		unsigned n;
	} parameters = {first, second, third, LANES};

	(void)unused;
	while (count--) {
		struct ready ready = make_ready(add_text, &parameters, 1, 1, LANES, 1);

		run_grid(&ready, 1);
		end(&ready);
	}
}

static void fork_and_wait(void *unused, unsigned long count)
{
	(void)unused;
	while (count--) {
		pid_t child = fork();
		int status;

		if (!child)
			_exit(0);
		BENCH_MUST(child < 0 || waitpid(child, &status, 0) != child || status);
	}
}

/* A library of templates: each kernel a matrix product. */
static char *library_text(void)
{
	const char *one = product_text(), *body = strstr(one, "(.param");
	size_t length = strlen(one) + 64, at;
	char *text = malloc(length * LIBRARY_KERNELS);

	BENCH_MUST(!text || !body);
	at = (size_t)snprintf(text, length, HEAD);
	for (unsigned i = 0; i < LIBRARY_KERNELS; i++)
		at += (size_t)snprintf(text + at, length * LIBRARY_KERNELS - at, ".visible .entry product%u%s", i,
				       body);
	return text;
}

static void load_library(void *text, unsigned long count)
{
	while (count--) {
		struct cn_ptx_module *module;

		BENCH_MUST(cn_ptx_calls.load(text, strlen(text), 90, NULL, &module));
		cn_ptx_calls.unload(module);
	}
}

static void prepare_library(void *text, unsigned long count)
{
	while (count--) {
		struct cn_ptx_module *module;

		BENCH_MUST(cn_ptx_calls.load(text, strlen(text), 90, NULL, &module));
		for (unsigned i = 0; i < LIBRARY_KERNELS; i++)
			BENCH_MUST(cn_ptx_calls.prepare(module, cn_ptx_calls.contents(module)->kernels[i].index, NULL));
		cn_ptx_calls.unload(module);
	}
}

static void measure_loading(void)
{
	static const char all[] = "cenote, load and make the code of all kernels";
	char *text = library_text();
	struct bench_contestant launches[] = {{.name = "cenote, load and launch", .body = first_launch, .goal = 2},
					      {.name = "fork a process and wait for it", .body = fork_and_wait}};
	struct bench_contestant loads[] = {
		{.name = "cenote, load", .body = load_library, .data = text, .goal = 0.25, .goal_of = all},
		{.name = all, .body = prepare_library, .data = text}};

	bench_contest(&(struct bench_contest){.group = "Loading PTX",
					      .name = "a small kernel",
					      .baseline = "fork a process and wait for it"},
		      launches, 2);
	bench_contest(&(struct bench_contest){.group = "Loading PTX", .name = "1000 kernels", .baseline = all}, loads,
		      2);
	free(text);
}

int main(int argument_count, char **arguments)
{
	bench_start("ptx", argument_count, arguments);
	bench_pin(0);
	BENCH_MUST(cudaMalloc((void **)&first, COUNT * sizeof *first));
	BENCH_MUST(cudaMalloc((void **)&second, COUNT * sizeof *second));
	BENCH_MUST(cudaMalloc((void **)&third, COUNT * sizeof *third));
	for (int i = 0; i < COUNT; i++) {
		first[i] = (float)(i % 97) / 97;
		second[i] = (float)(i % 89) / 89;
		third[i] = 0;
	}
	measure_add();
	measure_product();
	measure_sum();
	measure_loading();
	BENCH_MUST(cudaFree(first));
	BENCH_MUST(cudaFree(second));
	BENCH_MUST(cudaFree(third));
	return bench_finish();
}
