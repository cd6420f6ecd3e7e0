/* SPDX-License-Identifier: MIT */
/*
 * What the recorder of `cenote check` concludes from PTX: what a kernel does with the memory of each parameter.
 */
#include "harness.h"

#include "trace.h"

#define ORDERS(use) ((use) | CN_TRACE_ORDERS_ITSELF)

/* Two pointers, a and b, are in %a and %b, and the thread's place of each in %x and %y. */
#define TWO(body)                                                                                           \
	" two(.param .u64 a, .param .u64 .ptr .align 4 b)\n{\n.reg .u64 %a, %b, %x, %y; .reg .u32 %r<9>;\n" \
	"ld.param.u64 %a, [a]; ld.param.u64 %b, [b];\n"                                                     \
	"cvta.to.global.u64 %x, %a; add.s64 %y, %b, 16;\n" body "ret;\n}\n.visible .entry next() { ret; }\n"

static void expect(const char *text, int a, int b)
{
	struct cn_trace_kernel kernel;

	ASSERT(cn_trace_read_kernel(text, &kernel));
	ASSERT_EQ(2, kernel.parameter_count);
	ASSERT_EQ(a, kernel.uses[0]);
	ASSERT_EQ(b, kernel.uses[1]);
}

/* Goal: loads read, stores write, whatever stands before them; a pointer that leads nowhere does nothing. */
TEST(loads_and_stores)
{
	expect(TWO("ld.global.u32 %r1, [%x+4]; st.global.u32 [%y], %r1;\n"), CN_TRACE_READS, CN_TRACE_WRITES);
	expect(TWO("ld.global.v2.u32 {%r1, %r2}, [%x];\n"), CN_TRACE_READS, CN_TRACE_DOES_NOTHING);
	expect(TWO("ld.u32 %r1, [%x]; st.u32 [%x], %r1;\n"), CN_TRACE_WRITES, CN_TRACE_DOES_NOTHING);
	expect(TWO("@!%p1 st.u32 [%x], 1; @%p1 bra again;\nagain: ld.u32 %r1, [%y];\n"), CN_TRACE_WRITES,
	       CN_TRACE_READS);
	expect(TWO(".loc 1 12 7\n\tst.u32 [%x], 1; // st.u32 [%y], 2;\n"), CN_TRACE_WRITES, CN_TRACE_DOES_NOTHING);
	expect(TWO("{ .reg .u64 %z; mad.wide.u32 %z, %r1, 4, %x; { st.u32 [%z], 1; } }\n"), CN_TRACE_WRITES,
	       CN_TRACE_DOES_NOTHING);
	expect(TWO("st.shared::cta.u32 [%r1], 1; ld.global.nc.u32 %r2, [%y];\n"), CN_TRACE_DOES_NOTHING,
	       CN_TRACE_READS);
}

/* Goal: what is computed from two pointers may be either; a loop's registers are followed until nothing is new. */
TEST(registers_are_followed)
{
	expect(TWO("selp.b64 %q1, %x, %y, %p1; st.u32 [%q1], 1;\n"), CN_TRACE_WRITES, CN_TRACE_WRITES);
	expect(TWO("again: ld.u32 %r1, [%q3]; mov.u64 %q3, %q2; mov.u64 %q2, %q1; mov.u64 %q1, %y; bra again;\n"),
	       CN_TRACE_DOES_NOTHING, CN_TRACE_READS);
	expect(TWO("sub.s64 %q1, %x, %y; st.u32 [%a], 1;\n"), CN_TRACE_WRITES, CN_TRACE_DOES_NOTHING);
}

/* Goal: of a pointer that gets out of sight nothing is said. */
TEST(pointers_that_get_out_of_sight)
{
	expect(TWO("st.global.u64 [%y], %x;\n"), CN_TRACE_MAY_USE, CN_TRACE_WRITES);
	expect(TWO("{ .param .b64 p; st.param.b64 [p], %x; call.uni f, (p); }\n"), CN_TRACE_MAY_USE,
	       CN_TRACE_DOES_NOTHING);
	expect(TWO("cp.async.ca.shared.global [%r1], [%x], 4; ld.u32 %r2, [%y];\n"), CN_TRACE_MAY_USE, CN_TRACE_READS);
}

/* Goal: a kernel that others may watch, or that may wait for others, may order itself; one that only counts may not. */
TEST(kernels_that_order_themselves)
{
	expect(TWO("ld.acquire.sys.u32 %r1, [%x]; st.u32 [%y], 1;\n"), ORDERS(CN_TRACE_MAY_USE),
	       ORDERS(CN_TRACE_WRITES));
	expect(TWO("st.u32 [%y], 1; membar.gl; st.u32 [%x], 1;\n"), ORDERS(CN_TRACE_WRITES), ORDERS(CN_TRACE_WRITES));
	expect(TWO("st.u32 [%y], 1; membar.cta; fence.acq_rel.cta;\n"), CN_TRACE_DOES_NOTHING, CN_TRACE_WRITES);
	expect(TWO("fence.acq_rel.gpu; st.u32 [%y], 1;\n"), ORDERS(CN_TRACE_DOES_NOTHING), ORDERS(CN_TRACE_WRITES));
	expect(TWO("ld.volatile.shared.u32 %r1, [%r2]; st.u32 [%y], 1;\n"), CN_TRACE_DOES_NOTHING, CN_TRACE_WRITES);
	expect(TWO("atom.global.add.u32 %r1, [%x], 1; ld.u32 %r2, [%y];\n"), CN_TRACE_MAY_USE, CN_TRACE_READS);
	expect(TWO("atom.global.add.u32 %r1, [%x], 1; setp.eq.u32 %p1, %r1, 0; ld.u32 %r2, [%y];\n"),
	       ORDERS(CN_TRACE_MAY_USE), ORDERS(CN_TRACE_READS));
	expect(TWO("red.global.add.u32 [%x], 1; ld.u32 %r2, [%y];\n"), CN_TRACE_MAY_USE, CN_TRACE_READS);
}

/* Goal: names as long as C++ has them are told apart by their ends. */
TEST(long_names)
{
	enum { LENGTH = 900 };
	char name[LENGTH + 1], text[8 * LENGTH];

	memset(name, 'N', LENGTH);
	name[LENGTH] = 0;
	snprintf(text, sizeof text,
		 " %s(.param .u64 %s_param_0, .param .u64 %s_param_1)\n{\n"
		 "ld.param.u64 %%a, [%s_param_0]; ld.param.u64 %%b, [%s_param_1];\n"
		 "ld.u32 %%r1, [%%a]; st.u32 [%%b], 1;\n}\n",
		 name, name, name, name, name);
	expect(text, CN_TRACE_READS, CN_TRACE_WRITES);
}

/* Goal: what is more than is kept, or cut off, leads to nothing that is said. */
TEST(more_than_is_kept)
{
	enum { REGISTERS = 10000, LINE_BYTES = 40 };
	struct cn_trace_kernel kernel;
	char *text = malloc(REGISTERS * LINE_BYTES);
	size_t length;

	ASSERT(text);
	length = (size_t)sprintf(text, " two(.param .u64 a, .param .u64 b)\n{\nld.param.u64 %%a, [a];\n");
	for (int i = 0; i < REGISTERS; i++)
		length += (size_t)sprintf(text + length, "mov.u64 %%q%d, 1;\n", i);
	sprintf(text + length, "}\n");
	expect(text, CN_TRACE_MAY_USE, CN_TRACE_MAY_USE);
	free(text);
	ASSERT(!cn_trace_read_kernel(" declared(.param .u64 a);\n", &kernel));
	ASSERT(!cn_trace_read_kernel("", &kernel));
	expect(" two(.param .u64 a, .param .u64 b)\n{\nld.param.u64 %a, [a]; st.u32 [%a], 1", CN_TRACE_DOES_NOTHING,
	       CN_TRACE_DOES_NOTHING);
}
