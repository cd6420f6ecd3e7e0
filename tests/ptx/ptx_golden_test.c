/* SPDX-License-Identifier: MIT */
/*
 * Each instruction on edge values, beside what a GPU gave (scripts/ptx_golden.py; its text describes the file).
 */
#include "run.h"

#include "harness.h"

#include <math.h>

enum { THREADS = 96, VALUES_MAX = 64, TABLES_MAX = 32, LINE_MAX_BYTES = 1 << 14, SHOWN_MAX = 12 };

struct table {
	char name[16];
	uint64_t values[VALUES_MAX];
	unsigned count;
};

struct golden_case {
	char result[8], how[16];
	char operands[3][24]; /* names of tables */
	char registers[3][8];
	unsigned operand_count;
	char text[512];
	uint64_t expected[THREADS];
};

static struct table tables[TABLES_MAX];
static unsigned table_count;

static const struct table *find_table(const char *name)
{
	for (unsigned i = 0; i < table_count; i++)
		if (!strcmp(tables[i].name, name))
			return &tables[i];
	ASSERT(!"there is such a table");
	return NULL;
}

/* As the script's pick() does. */
static uint64_t pick(const char *name, unsigned thread, unsigned which)
{
	static const unsigned step[4] = {1, 7, 5}, turn[4] = {0, 1, 3};
	const struct table *table = find_table(name);

	return table->values[(thread * step[which % 4] + thread / table->count * turn[which % 4]) % table->count];
}

static void read_table(char *line)
{
	struct table *table = &tables[table_count++];
	char *at = strchr(line, '=');

	ASSERT(table_count <= TABLES_MAX && at);
	ASSERT_EQ(1, sscanf(line, "values %15s", table->name));
	for (char *word = strtok(at + 1, " \n"); word; word = strtok(NULL, " \n")) {
		ASSERT(table->count < VALUES_MAX);
		table->values[table->count++] = strtoull(word, NULL, 16);
	}
}

static void read_case(char *line, struct golden_case *ret)
{
	char operands[128], *text;
	int used = 0;

	memset(ret, 0, sizeof *ret);
	ASSERT_EQ(3, sscanf(line, "case %7s : %127[^:] : %15[^:] : %n", ret->result, operands, ret->how, &used));
	text = line + used;
	text[strcspn(text, "\n")] = 0;
	snprintf(ret->text, sizeof ret->text, "%s", text);
	while (ret->how[0] && ret->how[strlen(ret->how) - 1] == ' ')
		ret->how[strlen(ret->how) - 1] = 0;
	for (char *word = strtok(operands, " "); word; word = strtok(NULL, " ")) {
		char *slash = strchr(word, '/');

		ASSERT(slash && ret->operand_count < 3);
		*slash = 0;
		snprintf(ret->operands[ret->operand_count], sizeof ret->operands[0], "%s", word);
		snprintf(ret->registers[ret->operand_count++], sizeof ret->registers[0], "%s", slash + 1);
	}
}

static void read_results(char *line, struct golden_case *ret)
{
	unsigned count = 0;

	for (char *word = strtok(line + 1, " \n"); word; word = strtok(NULL, " \n")) {
		ASSERT(count < THREADS);
		ret->expected[count++] = strtoull(word, NULL, 16);
	}
	ASSERT_EQ(THREADS, count);
}

/* The script's kernel(). */
static const char *kernel(const struct golden_case *golden)
{
	static char text[4096];
	static const char names[] = "abc";
	size_t at = (size_t)snprintf(text, sizeof text,
				     ".version 8.0\n.target sm_90\n.address_size 64\n"
				     ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
				     ".reg .b64 %%x<3>; .reg .b32 %%t<4>; .reg .%s %%d;\n",
				     golden->result[0] == 'p' ? "pred" : golden->result);

	for (unsigned i = 0; i < golden->operand_count; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ".reg .%s %%%c;\n",
				       golden->registers[i][0] == 'p' ? "pred" : golden->registers[i], names[i]);
	at += (size_t)snprintf(text + at, sizeof text - at,
			       "mov.u32 %%t0, %%tid.x; mul.wide.u32 %%x0, %%t0, 32; ld.param.u64 %%x1, [in]; "
			       "add.u64 %%x1, %%x1, %%x0; ld.param.u64 %%x2, [out]; mul.wide.u32 %%x0, %%t0, 8; "
			       "add.u64 %%x2, %%x2, %%x0;\n");
	for (unsigned i = 0; i < golden->operand_count; i++)
		if (golden->registers[i][0] == 'p')
			at += (size_t)snprintf(text + at, sizeof text - at,
					       "ld.global.u32 %%t1, [%%x1+%u]; setp.ne.u32 %%%c, %%t1, 0;\n", 8 * i,
					       names[i]);
		else
			at += (size_t)snprintf(text + at, sizeof text - at, "ld.global.%s %%%c, [%%x1+%u];\n",
					       golden->registers[i], names[i], 8 * i);
	at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", golden->text);
	if (golden->result[0] == 'p')
		snprintf(text + at, sizeof text - at,
			 "selp.u32 %%t2, 1, 0, %%d; st.global.u32 [%%x2], %%t2;\nret;\n}\n");
	else
		snprintf(text + at, sizeof text - at, "st.global.%s [%%x2], %%d;\nret;\n}\n", golden->result);
	return text;
}

static double number(const char *result, uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	double wide;
	float narrow;

	memcpy(&wide, &bits, sizeof wide);
	memcpy(&narrow, &low, sizeof narrow);
	return strcmp(result, "b64") ? (double)narrow : wide;
}

/* Floats of 16 bits, whose type the instruction's text tells. */
static bool is_half_nan(const struct golden_case *golden, uint64_t bits)
{
	return strstr(golden->text, "bf16") ? (bits & 0x7fff) > 0x7f80 : (bits & 0x7fff) > 0x7c00;
}

static bool agrees(const struct golden_case *golden, uint64_t expected, uint64_t found)
{
	double a = number(golden->result, expected), b = number(golden->result, found);
	bool is_half = strstr(golden->text, "f16") && !strstr(golden->text, "f32") && !strstr(golden->text, "f64");
	long count = strtol(golden->how + strcspn(golden->how, " "), NULL, 10);

	if (expected == found)
		return true;
	if (!strcmp(golden->how, "exact"))
		return false;
	if (is_half)
		return is_half_nan(golden, expected) && is_half_nan(golden, found) &&
		       (golden->result[1] == '1' ||
			(is_half_nan(golden, expected >> 16) == is_half_nan(golden, found >> 16)));
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (!strncmp(golden->how, "ulp", 3))
		return llabs((long long)(int32_t)expected - (long long)(int32_t)found) <= count;
	if (!strncmp(golden->how, "near", 4)) {
		double allowed = ldexp(fmax(1, fabs(a)), -(int)count);

		return fabs(a - b) <= allowed;
	}
	if (!strncmp(golden->how, "high", 4))
		return fabs(a - b) <= ldexp(fabs(a), -(int)count);
	return false;
}

static unsigned run_case(const struct golden_case *golden)
{
	static uint64_t in[THREADS][4], out[THREADS];
	struct run_module module;
	unsigned wrong = 0;

	memset(in, 0, sizeof in);
	memset(out, 0, sizeof out);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < golden->operand_count; j++)
			in[i][j] = pick(golden->operands[j], i, j);
	module = run_load(kernel(golden));
	run_simply(&module, 1, THREADS, (uintptr_t)in, (uintptr_t)out, 0, 0);
	run_unload(&module);
	for (unsigned i = 0; i < THREADS; i++)
		if (!agrees(golden, golden->expected[i], out[i]) && !wrong++)
			printf("%s [%s] %llx %llx %llx: expected %llx, found %llx\n", golden->text, golden->how,
			       (unsigned long long)pick(golden->operands[0], i, 0), (unsigned long long)in[i][1],
			       (unsigned long long)in[i][2], (unsigned long long)golden->expected[i],
			       (unsigned long long)out[i]);
	return wrong;
}

/* All cases, with one build of the arithmetic. */
static void run_all(const char *build)
{
	static char line[LINE_MAX_BYTES];
	static struct golden_case golden;
	unsigned cases = 0, wrong = 0;
	FILE *file = fopen(PTX_GOLDEN, "r");

	if (!file)
		SKIP("no golden results: scripts/ptx_golden.py writes them on a machine with a GPU");
	if (!cn_ptx_calls.choose(build))
		SKIP("this processor has no %s", build);
	while (fgets(line, sizeof line, file)) {
		if (!strncmp(line, "values ", 7))
			read_table(line);
		else if (!strncmp(line, "case ", 5))
			read_case(line, &golden);
		else if (line[0] == '=') {
			read_results(line, &golden);
			cases++;
			wrong += run_case(&golden) > 0;
		}
	}
	fclose(file);
	printf("%u cases, %u differ\n", cases, wrong);
	ASSERT(cases > 500);
	ASSERT_EQ(0, wrong);
}

/* Goal: every instruction gives what the GPU gives. */
TEST(as_the_gpu, .timeout_ms = 120000)
{
	run_all("plain");
}

TEST(as_the_gpu_with_avx2, .timeout_ms = 120000)
{
	run_all("avx2");
}

TEST(as_the_gpu_with_avx512, .timeout_ms = 120000)
{
	run_all("avx512");
}

/* ---- Builds beside each other ------------------------------------------------------------------------------------ */

static void run_random(const struct golden_case *golden, const char *build, uint64_t in[THREADS][4],
		       uint64_t out[THREADS])
{
	static uint64_t copy[THREADS][4];
	struct run_module module;

	ASSERT(cn_ptx_calls.choose(build));
	memcpy(copy, in, sizeof copy); /* some instructions use it as memory */
	memset(out, 0, THREADS * sizeof *out);
	module = run_load(kernel(golden));
	run_simply(&module, 1, THREADS, (uintptr_t)copy, (uintptr_t)out, 0, 0);
	run_unload(&module);
}

/* Goal: all builds of the arithmetic give the same bits, for any values. */
TEST(builds_agree, .timeout_ms = 120000)
{
	static char line[LINE_MAX_BYTES];
	static struct golden_case golden;
	static uint64_t in[THREADS][4], plain[THREADS], other[THREADS];
	static const char *const builds[] = {"avx2", "avx512"};
	struct test_random random = test_random_start(0);
	FILE *file = fopen(PTX_GOLDEN, "r");

	if (!file)
		SKIP("no golden results");
	if (!cn_ptx_calls.choose("avx2"))
		SKIP("this processor has one build only");
	while (fgets(line, sizeof line, file)) {
		if (strncmp(line, "case ", 5))
			continue;
		read_case(line, &golden);
		for (unsigned i = 0; i < THREADS; i++)
			for (unsigned j = 0; j < 4; j++)
				in[i][j] = test_random_next(&random) >> test_random_below(&random, 64);
		run_random(&golden, "plain", in, plain);
		for (unsigned i = 0; i < 2; i++) {
			if (!cn_ptx_calls.choose(builds[i]))
				continue;
			run_random(&golden, builds[i], in, other);
			if (memcmp(plain, other, sizeof plain))
				printf("%s differs with %s\n", golden.text, builds[i]);
			ASSERT(!memcmp(plain, other, sizeof plain));
		}
	}
	fclose(file);
}
