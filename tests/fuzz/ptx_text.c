/* SPDX-License-Identifier: MIT */
/*
 * PTX text: any module loads, and any of its kernels can be prepared, or there is a sentence that says why not.
 *
 * A byte below 128 stands for itself, one above for a piece of PTX, so that most inputs get past the first directive.
 * What loads is not run: a kernel may touch all memory of the process.
 */
#include "fuzz.h"

#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 << 10 };

static const char *const pieces[] = {
	".version 7.0 .target sm_75, debug .address_size 64\n",
	".visible .entry k(.param .u64 a, .param .align 8 .b8 b[16])\n{ ",
	".func (.param .b32 r) f(.param .b32 x)\n{ ",
	".reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>;\n",
	" }\n",
	"ld.param.u64 %d1, [a]; ",
	"ld.param.v2.u32 {%r1, %r2}, [b+8]; ",
	"st.global.f32 [%d1+4], %f1; ",
	"@%p1 bra L; ",
	"L: ",
	"setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3; ",
	"mad.lo.s32 %r1, %r2, 3, %r4; ",
	"cvt.rn.f32.s32 %f1, %r1; ",
	"fma.rn.ftz.sat.f32 %f1, %f2, 0f3F800000, -1.5; ",
	"{ .param .b32 q; .param .b32 v; st.param.b32 [q], %r1; call (v), f, (q); } ",
	"T: .branchtargets L, M; brx.idx %r1, T; ",
	"P: .callprototype (.param .b32 _) _ (.param .b32 _); call (v), %d1, (q), P; ",
	".global .align 8 .b8 g[16] = {1, 2, 0xff(k), -3}; ",
	".global .u64 h[2] = {generic(g)+4, f}; ",
	".const .f32 c = 0f3F800000; ",
	".extern .shared .align 16 .b8 s[]; ",
	".shared .v4 .f32 t[4][2]; ",
	".local .align 4 .b8 l[32]; mov.u64 %d2, l; ",
	"mov.b64 {%r1, %r2}, %d1; mov.b64 %d3, {%r1, %r2}; ",
	"atom.global.cas.b32 %r1, [%d1], 0, 1; ",
	"shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1; ",
	"bar.red.popc.u32 %r1, 0, 64, %p1; ",
	"lop3.b32 %r1, %r2, %r3, %r4, 0x96; ",
	"add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, 0; ",
	".loc 1 2 3\n.file 1 \"a.cu\"\n",
	".section .debug { .b8 1 }\n",
	".maxntid 128, 1, 1 .pragma \"nounroll\"; ",
	"(1<<3)+2*-4 ? 5 : ~6 ",
	"mov.u32 %r1, %tid.x; mov.u64 %d1, %clock64; ",
	"cvta.to.shared.u64 %d1, %d2; isspacep.global %p1, %d2; ",
	"// comment\n/* another */",
};

void fuzz_prepare(void)
{
	fuzz_start();
}

static void look_at(struct cn_ptx_module *module)
{
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module);

	for (unsigned i = 0; i < contents->kernel_count; i++) {
		const struct cn_ptx_kernel *kernel = &contents->kernels[i];
		struct cn_ptx_error error = {0};

		/* Bodies are read here. What was refused once is refused again. */
		if (cn_ptx_calls.prepare(module, kernel->index, &error)) {
			enum cn_ptx_error_code code = error.code;

			FUZZ_CHECK(code && error.sentence[0]);
			FUZZ_CHECK(cn_ptx_calls.prepare(module, kernel->index, &error) == code);
		}
		FUZZ_CHECK(kernel->name[0] && kernel->parameter_bytes <= CN_PTX_PARAMETER_BYTES_MAX);
		for (unsigned j = 0; j < kernel->parameter_count; j++)
			FUZZ_CHECK(kernel->parameters[j].offset_bytes + kernel->parameters[j].bytes <=
				   kernel->parameter_bytes);
	}
	for (unsigned i = 0; i < contents->variable_count; i++) {
		const struct cn_ptx_variable *variable = &contents->variables[i];

		FUZZ_CHECK(variable->offset_bytes + variable->bytes <= contents->data_bytes);
		FUZZ_CHECK(variable->offset_bytes % variable->alignment == 0);
	}
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct cn_ptx_module *module = NULL;
	struct cn_ptx_error error;
	static char text[ROOM];
	size_t length = 0;
	char *copy;

	for (size_t i = 0; i < size; i++) {
		const char *piece = pieces[bytes[i] % (sizeof pieces / sizeof *pieces)];
		size_t more = bytes[i] < 128 ? 1 : strlen(piece);

		if (more > sizeof text - length)
			break;
		memcpy(text + length, bytes[i] < 128 ? (const char *)&bytes[i] : piece, more);
		length += more;
	}
	copy = malloc(length ? length : 1); /* of its own size, where a sanitizer sees who reads beyond it */
	FUZZ_CHECK(copy);
	memcpy(copy, text, length);
	if (cn_ptx_calls.load(copy, length, 90, &error, &module)) {
		FUZZ_CHECK(error.code && error.sentence[0] && !module);
	} else {
		const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module);
		size_t room = (contents->data_bytes + 4096) & ~(size_t)4095;
		void *memory = room < 1 << 24 ? aligned_alloc(4096, room) : NULL;

		look_at(module);
		if (memory)
			cn_ptx_calls.place(module, memory, memory, memory);
		cn_ptx_calls.unload(module);
		free(memory);
	}
	free(copy);
}
