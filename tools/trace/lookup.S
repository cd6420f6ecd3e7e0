/* SPDX-License-Identifier: MIT */
/*
 * dlsym(), in front of the real one (see lookup.c).
 *
 * Where ours has no answer, it jumps to the real one and does not call it: that finds RTLD_NEXT from its caller's
 * address.
 */
#include "base/jump.h"

/* clang-format off */
#if CN_HAS_JUMPS
	.hidden	cn_trace_answer_dlsym
	.hidden	cn_trace_real_dlsym
	.text
	.balign 16
	.globl	dlsym
	.type	dlsym, %function
dlsym:
	.cfi_startproc
	LANDING
#ifdef __x86_64__
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	cn_trace_answer_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	.Lreal
	ret
.Lreal:
	jmp	*cn_trace_real_dlsym(%rip)
#else
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	cn_trace_answer_dlsym
	mov	x9, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	cbz	x9, .Lreal
	mov	x0, x9
	ret
.Lreal:
	adrp	x16, cn_trace_real_dlsym
	ldr	x16, [x16, #:lo12:cn_trace_real_dlsym]
	br	x16
#endif
	.cfi_endproc
	.size	dlsym, . - dlsym
	.section .note.GNU-stack, "", %progbits
#endif
