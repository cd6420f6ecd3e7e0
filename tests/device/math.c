/* SPDX-License-Identifier: MIT */
/*
 * The mathematics of the device headers, on whichever device: its errors, and a sum of its bits.
 *
 *     math PTX [COUNT [any]]
 *
 * PTX has the kernels of math.cu. Each function gets COUNT random arguments of its own and the special ones. A line
 * says its largest error in double and in float, where that is, and a hash of all results: two devices that give the
 * same bits print the same hash; fast forms, a device's own instructions, have none. TAP follows: a function is ok if
 * its errors are within the bounds of functions.h.
 * With a third word nothing is required, for code that is not ours.
 */
#include "functions.h"
#include "reference.h"
#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256

/* Arguments where functions turn, end or change their method. */
static const double specials[] = {
	0.0,
	-0.0,
	1,
	-1,
	0.5,
	-0.5,
	2,
	-2,
	3,
	-3,
	10,
	-10,
	0.25,
	0.75,
	1.5,
	-1.5,
	2.5,
	-2.5,
	100,
	-100,
	1e10,
	-1e10,
	1e22,
	-1e22,
	1e300,
	-1e300,
	1e-300,
	-1e-300,
	1e-310,
	-1e-310,
	5e-324,
	-5e-324,
	1e-40,
	-1e-40,
	1e38,
	-1e38,
	28,
	27,
	26.5,
	-26.5,
	709.78,
	-745.1,
	710.4,
	-710.4,
	88.7,
	-103.9,
	128,
	-149,
	171.6,
	35.04,
	0.1,
	0.9,
	0.99,
	1.01,
	1.25,
	1.125,
	0.875,
	2.125,
	1.875,
	9.99,
	10.01,
	3.14159265358979312,
	1.57079632679489656,
	6381956970095103.0 * 0x1p797,
	0x1p28,
	0x1p28 + 0.5,
	0x1p-27,
	0x1.6a09e667f3bcdp-1,
	0x1.6a09e667f3bcep-1,
	1 - 0x1p-53,
	1 + 0x1p-52,
	0x1p-1022,
	INFINITY,
	-INFINITY,
	NAN,
};
#define SPECIALS (sizeof specials / sizeof *specials)

static const struct function {
	const char *name;
	int two; /* or more */
	double low, high, bounds[2];
} functions[] = {
#define ONE(name, low, high, double_bound, float_bound) {#name, 0, low, high, {double_bound, float_bound}},
#define TWO(name, double_bound, float_bound)            {#name, 1, -20, 20, {double_bound, float_bound}},
	FUNCTIONS(ONE, TWO, TWO, TWO)};
#define FUNCTION_COUNT (sizeof functions / sizeof *functions)

static const struct fast {
	const char *name;
	double low, high, y_low, y_high, bound, slope, absolute;
} fasts[] = {
#define FAST1(name, low, high, bound, slope, absolute)         {#name, low, high, 0, 0, bound, slope, absolute},
#define FAST2(name, low, high, y_low, y_high, bound, absolute) {#name, low, high, y_low, y_high, bound, 0, absolute},
	FAST_FUNCTIONS(FAST1, FAST2)};
#define FAST_COUNT (sizeof fasts / sizeof *fasts)

struct evaluation {
	double *x, *y, *result;
	int count;
	CUdeviceptr room[3];
	CUmodule module;
};

static void require(CUresult result, const char *what)
{
	if (result) {
		printf("Bail out! %s: error %d\n", what, (int)result);
		exit(2);
	}
}

/* Random bits (splitmix64), the same on every machine. */
static uint64_t state;

static uint64_t random_bits(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double random_between(double low, double high)
{
	return low + (high - low) * ((double)(random_bits() >> 11) * 0x1p-53);
}

/* Any number, of whichever size: in single precision, of the sizes of float. */
static double random_number(int single)
{
	uint64_t bits = random_bits();
	double number;

	if (single) {
		float small;
		uint32_t half = (uint32_t)bits;
		memcpy(&small, &half, sizeof small);
		return (double)small;
	}
	memcpy(&number, &bits, sizeof number);
	return number;
}

/* The special ones, or all pairs of them, then random ones. */
static void fill(struct evaluation *e, int two, int single, double low, double high)
{
	int used = 0;

	for (size_t i = 0; i < SPECIALS && two; i++) {
		for (size_t j = 0; j < SPECIALS; j++, used++)
			e->x[used] = specials[i], e->y[used] = specials[j];
	}
	for (size_t i = 0; i < SPECIALS && !two; i++, used++)
		e->x[used] = specials[i], e->y[used] = 0;
	for (int kind = 0; used < e->count; used++, kind = (kind + 1) % 4) {
		int any = kind == 0 || (kind == 1 && !two);
		e->x[used] = any ? random_number(single) : random_between(low, high);
		e->y[used] = any ? random_number(single) : random_between(-20, 20);
		if (two && kind == 3) /* so that powers neither overflow nor vanish */
			e->x[used] = fabs(e->x[used]), e->y[used] *= 4;
	}
	for (int i = 0; i < e->count && single; i++)
		e->x[i] = (double)(float)e->x[i], e->y[i] = (double)(float)e->y[i];
}

/* Numbers of all sizes, and of ordinary ones, within a range. */
static double random_within(double low, double high, int any)
{
	for (int i = 0; i < 16 && any; i++) {
		double number = random_number(1);
		if (number >= low && number <= high)
			return number;
	}
	return random_between(low < -100 ? -100 : low, high > 100 ? 100 : high);
}

static void fill_fast(struct evaluation *e, const struct fast *f)
{
	for (int i = 0; i < e->count; i++) {
		double special = specials[(size_t)i % SPECIALS];
		int is_special = i < (int)SPECIALS && special >= f->low && special <= f->high;
		e->x[i] = (double)(float)(is_special ? special : random_within(f->low, f->high, i % 2));
		e->y[i] = (double)(float)random_within(f->y_low, f->y_high, i / 2 % 2);
	}
}

/* Arguments and results as the kernel has them: double, or float. */
static void pack(const double *from, void *to, int count, int single)
{
	for (int i = 0; i < count; i++) {
		if (single)
			((float *)to)[i] = (float)from[i];
		else
			((double *)to)[i] = from[i];
	}
}

static void evaluate(struct evaluation *e, const char *name, int single)
{
	char kernel_name[64];
	size_t bytes = (size_t)e->count * (single ? sizeof(float) : sizeof(double));
	void *buffer = malloc((size_t)e->count * sizeof(double)),
	     *params[] = {&e->room[0], &e->room[1], &e->room[2], &e->count};
	CUfunction kernel;

	snprintf(kernel_name, sizeof kernel_name, "%s_%s", name, single ? "float" : "double");
	require(cuModuleGetFunction(&kernel, e->module, kernel_name), kernel_name);
	pack(e->x, buffer, e->count, single);
	require(cuMemcpyHtoD(e->room[0], buffer, bytes), "copy");
	pack(e->y, buffer, e->count, single);
	require(cuMemcpyHtoD(e->room[1], buffer, bytes), "copy");
	require(cuLaunchKernel(kernel, (unsigned)(e->count + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, params,
			       NULL),
		"launch");
	require(cuCtxSynchronize(), kernel_name);
	require(cuMemcpyDtoH(buffer, e->room[2], bytes), "copy");
	for (int i = 0; i < e->count; i++)
		e->result[i] = single ? (double)((float *)buffer)[i] : ((double *)buffer)[i];
	free(buffer);
}

/* FNV-1a over the results; NaNs are one. */
static uint64_t hash(const struct evaluation *e)
{
	uint64_t sum = 0xcbf29ce484222325u;

	for (int i = 0; i < e->count; i++) {
		uint64_t bits = 0x7ff8000000000000u;
		if (e->result[i] == e->result[i])
			memcpy(&bits, &e->result[i], sizeof bits);
		for (int byte = 0; byte < 8; byte++)
			sum = (sum ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3u;
	}
	return sum;
}

/* Those of one thread, and of the next. */
static const double *arguments_at(const struct evaluation *e, int i)
{
	static double arguments[4];
	int next = (i + 1) % e->count;

	arguments[0] = e->x[i], arguments[1] = e->y[i], arguments[2] = e->x[next], arguments[3] = e->y[next];
	return arguments;
}

/* The largest error, printed with its place; lgamma near its zeros below 0 is left out, as in CUDA's manual. */
static double measure(struct evaluation *e, const char *name, int single)
{
	double worst = 0;
	int at = 0;

	evaluate(e, name, single);
	for (int i = 0; i < e->count; i++) {
		if (!strcmp(name, "lgamma") && e->x[i] < -2 && e->x[i] > -12)
			continue;
		double error = reference_error(name, single, arguments_at(e, i), e->result[i], 0);
		if (error > worst)
			worst = error, at = i;
	}
	printf("# %-12s %-6s %7.4f ulp at %a, %a: %a; hash %016llx\n", name, single ? "float" : "double", worst,
	       e->x[at], e->y[at], e->result[at], (unsigned long long)hash(e));
	return worst;
}

/* How far the largest error of a fast form is above its bound; 0 or less if it is within. */
static double measure_fast(struct evaluation *e, const struct fast *f)
{
	char kernel[64];
	double most = -1e9, error_there = 0;
	int at = 0;

	snprintf(kernel, sizeof kernel, "fast_%s", f->name);
	evaluate(e, kernel, 1);
	for (int i = 0; i < e->count; i++) {
		double error = reference_error(f->name, 1, arguments_at(e, i), e->result[i], f->absolute);
		double above = error - f->bound - floor(f->slope * fabs(e->x[i]));
		if (above > most)
			most = above, at = i, error_there = error;
	}
	printf("# __%sf %.4f ulp at %a, %a: %a\n", f->name, error_there, e->x[at], e->y[at], e->result[at]);
	return most;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 100000, compare = argc <= 3, failed = 0;
	struct evaluation e = {.count =
				       count < (int)(2 * SPECIALS * SPECIALS) ? (int)(2 * SPECIALS * SPECIALS) : count};
	size_t bytes = (size_t)e.count * sizeof(double);
	CUdevice device;
	CUcontext context;

	if (argc < 2)
		return 2;
	e.x = malloc(bytes), e.y = malloc(bytes), e.result = malloc(bytes);
	require(cuInit(0), "cuInit");
	require(cuDeviceGet(&device, 0), "cuDeviceGet");
	require(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	require(cuModuleLoad(&e.module, argv[1]), "cuModuleLoad");
	for (int i = 0; i < 3; i++)
		require(cuMemAlloc(&e.room[i], bytes), "cuMemAlloc");
	printf("1..%d\n", (int)(FUNCTION_COUNT + FAST_COUNT));
	for (size_t i = 0; i < FUNCTION_COUNT; i++) {
		const struct function *f = &functions[i];
		int ok = 1;
		for (int single = 0; single < 2; single++) {
			state = 1000 * i + (uint64_t)single;
			fill(&e, f->two, single, f->low, f->high);
			ok &= measure(&e, f->name, single) <= f->bounds[single] || !compare;
		}
		failed += !ok;
		printf("%sok %d - %s\n", ok ? "" : "not ", (int)i + 1, f->name);
	}
	for (size_t i = 0; i < FAST_COUNT; i++) {
		state = 1000 * i + 7;
		fill_fast(&e, &fasts[i]);
		int ok = measure_fast(&e, &fasts[i]) <= 0 || !compare;
		failed += !ok;
		printf("%sok %d - __%sf\n", ok ? "" : "not ", (int)(FUNCTION_COUNT + i) + 1, fasts[i].name);
	}
	for (int i = 0; i < 3; i++)
		require(cuMemFree(e.room[i]), "cuMemFree");
	require(cuModuleUnload(e.module), "cuModuleUnload");
	require(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
	free(e.x), free(e.y), free(e.result);
	return failed != 0;
}
