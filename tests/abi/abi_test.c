/* SPDX-License-Identifier: MIT */
/*
 * The binary interface: does the compiler see in the headers what the table says?
 *
 * table.inc holds one row a fact. The same source is compiled against our headers and, where there is a toolkit,
 * against NVIDIA's, each time in both modes of the default stream. A name that the headers do not have stops the
 * compiler; a wrong value, size, place or type is a failed test point. With CENOTE_ABI_NVML, the same of nvml.h.
 */
#ifdef CENOTE_ABI_NVML
#include <nvml.h>
#else
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#endif

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum category { VALUES, SIZES, ALIGNMENTS, SIGNS, OFFSETS, MEMBER_SIZES, MEMBER_TYPES, TYPEDEFS, FUNCTIONS, SYMBOLS };

static const char *const titles[] = {
	[VALUES] = "values of enumerants and macros",
	[SIZES] = "sizes of types",
	[ALIGNMENTS] = "alignments of types",
	[SIGNS] = "signs of integer types",
	[OFFSETS] = "offsets of members",
	[MEMBER_SIZES] = "sizes of members",
	[MEMBER_TYPES] = "types of members",
	[TYPEDEFS] = "typedefs",
	[FUNCTIONS] = "types of functions",
	[SYMBOLS] = "symbols of functions",
};

#define CATEGORY_COUNT ((int)(sizeof titles / sizeof titles[0]))

struct row {
	enum category category;
	const char *what;
	long long have, want;
	const char *have_text, *want_text;
};

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CHOOSE(symbol, thread_symbol) thread_symbol
#else
#define CHOOSE(symbol, thread_symbol) symbol
#endif

#define TEXT_OF(...)          #__VA_ARGS__
#define TEXT_OF_EXPANDED(...) TEXT_OF(__VA_ARGS__)
#define SAME_TYPE(...)        __builtin_types_compatible_p(__VA_ARGS__)

#define CN_VALUE(name, value)          {VALUES, #name, (long long)(name), value, NULL, NULL},
#define CN_SIZE(type, bytes)           {SIZES, #type, sizeof(type), bytes, NULL, NULL},
#define CN_ALIGN(type, bytes)          {ALIGNMENTS, #type, _Alignof(type), bytes, NULL, NULL},
#define CN_SIGNED(type, is_signed)     {SIGNS, #type, (type)-1 < (type)1, is_signed, NULL, NULL},
#define CN_OFFSET(type, member, bytes) {OFFSETS, #type "." #member, offsetof(type, member), bytes, NULL, NULL},
#define CN_MEMBER_SIZE(type, member, bytes) \
	{MEMBER_SIZES, #type "." #member, sizeof(((type *)NULL)->member), bytes, NULL, NULL},
#define CN_MEMBER_TYPE(type, member, ...)                            \
	{MEMBER_TYPES,                                               \
	 #type "." #member " is " #__VA_ARGS__,                      \
	 SAME_TYPE(__typeof__(((type *)NULL)->member), __VA_ARGS__), \
	 1,                                                          \
	 NULL,                                                       \
	 NULL},
#define CN_SAME(name, ...) {TYPEDEFS, #name " is " #__VA_ARGS__, SAME_TYPE(name, __VA_ARGS__), 1, NULL, NULL},
#define CN_FUNCTION(name, result, parameters) \
	{FUNCTIONS, #result " " #name #parameters, SAME_TYPE(__typeof__(name), result parameters), 1, NULL, NULL},
#define CN_SYMBOL(name, symbol, thread_symbol) \
	{SYMBOLS, #name, 0, 0, TEXT_OF_EXPANDED(name), CHOOSE(symbol, thread_symbol)},

/* The headers mark some names as deprecated; the table has them all the same. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const struct row rows[] = {
#ifdef CENOTE_ABI_NVML
#include "nvml_table.inc"
#else
#include "table.inc"
#endif
};

static int row_holds(const struct row *row)
{
	if (row->want_text)
		return strcmp(row->have_text, row->want_text) == 0;
	return row->have == row->want;
}

static void row_complain(const struct row *row)
{
	if (row->want_text)
		printf("# %s: %s in the headers, %s in the table\n", row->what, row->have_text, row->want_text);
	else
		printf("# %s: %lld in the headers, %lld in the table\n", row->what, row->have, row->want);
}

/* One test point for all rows of a category, with a line for each row that does not hold. */
static int check_category(int category)
{
	int count = 0;
	int wrong = 0;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if ((int)rows[i].category != category)
			continue;
		count++;
		if (!row_holds(&rows[i])) {
			row_complain(&rows[i]);
			wrong++;
		}
	}
	/* A table that has lost a category must not pass. */
	int failed = wrong || count == 0;
	printf("%sok %d - %s: %d rows, %d wrong\n", failed ? "not " : "", category + 1, titles[category], count, wrong);
	return failed;
}

int main(void)
{
	int failed = 0;

	printf("1..%d\n", CATEGORY_COUNT);
	for (int category = 0; category < CATEGORY_COUNT; category++)
		failed |= check_category(category);
	return failed;
}
