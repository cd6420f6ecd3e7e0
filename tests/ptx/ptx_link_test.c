/* SPDX-License-Identifier: MIT */
/*
 * Linking: texts of files that were compiled apart become one module.
 */
#include "run.h"

#include "harness.h"
#include "ptx/ptx_module.h"

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"
#define OUT  "ld.param.u64 %d1, [out]; "

enum { TEXTS_MAX = 4 };

/* One text of several, which end with NULL; NULL: the sentence that says why not is in *ret_error. */
static char *linked(const char *const *texts, struct cn_ptx_error *ret_error)
{
	size_t bytes[TEXTS_MAX], text_bytes = 0;
	unsigned count = 0;
	char *text = NULL;

	for (; texts[count]; count++)
		bytes[count] = strlen(texts[count]);
	memset(ret_error, 0, sizeof *ret_error);
	if (cn_ptx_link(texts, bytes, count, ret_error, &text, &text_bytes))
		return NULL;
	ASSERT_EQ(strlen(text), text_bytes);
	return text;
}

/* What kernel `k` of the linked texts writes. */
static uint32_t run_linked(const char *first, const char *second, const char *third)
{
	const char *const texts[] = {first, second, third, NULL};
	static uint32_t out;
	struct cn_ptx_error error;
	char *text = linked(texts, &error);

	ASSERT_STREQ("", error.sentence);
	struct run_module module = run_load(text);
	out = 0;
	run_simply(&module, 1, 1, (uint64_t)(uintptr_t)&out, 0, 0, 0);
	run_unload(&module);
	free(text);
	return out;
}

#define KERNEL(declarations, body)                                                                              \
	HEAD declarations "\n.visible .entry k(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d)\n" \
			  "{ .reg .u64 %d<4>; .reg .u32 %r<4>;\n" OUT body " st.global.u32 [%d1], %r1; ret; }\n"
#define CALL_TWICE \
	"{ .param .b32 x; .param .b32 y; st.param.b32 [x], 21; call (y), twice, (x); ld.param.b32 %r1, [y]; }"
#define TWICE(linkage)                                                                                     \
	linkage " .func (.param .b32 result) twice(.param .b32 x)\n"                                       \
		"{ .reg .u32 %r<2>; ld.param.u32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.u32 [result], " \
		"%r1; ret; }\n"
#define TWICE_ELSEWHERE ".extern .func (.param .b32 result) twice(.param .b32 x)\n;"

/* Goal: functions and variables of another file are found, whichever comes first. */
TEST(names_of_another_file)
{
	static const char uses[] = KERNEL(TWICE_ELSEWHERE ".extern .global .align 4 .u32 number;",
					  CALL_TWICE " ld.global.u32 %r2, [number]; add.u32 %r1, %r1, %r2;");
	static const char has[] = HEAD ".visible .global .align 4 .u32 number = 100;\n" TWICE(".visible");

	ASSERT_EQ(142, run_linked(uses, has, NULL));
	ASSERT_EQ(142, run_linked(has, uses, NULL));
}

/* Goal: names of a file's own are the file's, also if another has the same. */
TEST(names_of_a_files_own)
{
	static const char first[] =
		HEAD ".global .align 4 .u32 $str = 1000; .func (.param .b32 result) own()\n"
		     "{ .reg .u32 %r<2>; ld.global.u32 %r1, [$str]; st.param.u32 [result], %r1; ret; }\n"
		     ".visible .func (.param .b32 result) twice(.param .b32 x)\n"
		     "{ .reg .u32 %r<2>; .param .b32 y; call (y), own; ld.param.b32 %r1, [y];\n"
		     "st.param.u32 [result], %r1; ret; }\n";
	static const char second[] = KERNEL(
		TWICE_ELSEWHERE ".global .align 4 .u32 $str = 7; .func (.param .b32 result) own();\n"
				".func (.param .b32 result) own()\n"
				"{ .reg .u32 %r<2>; ld.global.u32 %r1, [$str]; st.param.u32 [result], %r1; ret; }",
		CALL_TWICE " { .param .b32 z; call (z), own; ld.param.b32 %r2, [z]; } add.u32 %r1, %r1, %r2;");

	ASSERT_EQ(1007, run_linked(first, second, NULL));
	ASSERT_EQ(1007, run_linked(second, first, NULL));
}

/* Goal: of weak definitions one stays, and a strong one is stronger. */
TEST(weak_definitions)
{
	static const char uses[] = KERNEL(TWICE(".weak") ".weak .global .align 4 .u32 number = 1;",
					  CALL_TWICE " ld.global.u32 %r2, [number]; add.u32 %r1, %r1, %r2;");
	static const char weak[] = HEAD TWICE(".weak") ".weak .global .align 4 .u32 number = 1;\n";
	static const char strong[] = HEAD ".visible .global .align 4 .u32 number = 100;\n";

	ASSERT_EQ(43, run_linked(uses, weak, NULL));
	ASSERT_EQ(142, run_linked(weak, uses, strong));
	ASSERT_EQ(142, run_linked(strong, uses, weak));
}

/* Goal: what each file says again is said once: directives, sections, dynamic shared memory, comments and strings. */
TEST(repeated_directives)
{
	static const char uses[] = "// .version 9.9 { \" \n" KERNEL(
		TWICE_ELSEWHERE ".file 1 \"a.cu\"\n.extern .shared .align 16 .b8 room[];", "\n.loc 1 2 3\n" CALL_TWICE);
	static const char has[] = HEAD
		"/* } */ .file 1 \"b { .cu\"\n.extern .shared .align 16 .b8 room[];\n.section .debug_str { .b8 1 }\n"
		".visible .func (.param .b32 result) twice(.param .b32 x)\n{ .reg .u32 %r<2>;\n.loc 7 2 3\n"
		"mov.u32 %r1, 5; st.param.u32 [result], %r1; ret; }\n";

	ASSERT_EQ(5, run_linked(uses, has, NULL));
	ASSERT_EQ(5, run_linked(has, uses, NULL));
}

/* Goal: two definitions of one name are an error that names it. */
TEST(two_definitions)
{
	const char *const texts[] = {HEAD TWICE(".visible"), HEAD TWICE(".visible"), NULL};
	struct cn_ptx_error error;

	ASSERT(!linked(texts, &error));
	ASSERT_EQ(CN_PTX_INVALID, error.code);
	ASSERT_STREQ("'twice' is defined in two files that are linked", error.sentence);
}

/* Goal: what is missing is told when it is used. */
TEST(missing_definitions)
{
	const char *const texts[] = {KERNEL(".extern .global .u32 number;", "ld.global.u32 %r1, [number];"), HEAD,
				     NULL};
	struct cn_ptx_error error;
	char *text = linked(texts, &error);

	ASSERT_CONTAINS("'number' is of another module", run_refusal(text, NULL));
	free(text);
}
