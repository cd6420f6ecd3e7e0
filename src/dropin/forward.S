/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcuda.so.1: every name of NVIDIA's that Cenote does not have is a jump to the real driver's function.
 *
 * Where it leads is found at its first call (forward.c), so that a process which was started with the drop-in in front
 * and never calls CUDA does not open the driver. On the way there all that may hold an argument is kept.
 */
#include "base/jump.h"

#if CN_HAS_JUMPS

#ifdef __x86_64__
	/* In: where the pointer is, in r11, which no call uses. */
	.macro FIND name
	leaq	.Lpointer_\name(%rip), %r11
	jmp	find
	.endm

	.text
	.balign 16
	.type	find, %function
find:
	.cfi_startproc
	pushq	%rax
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	subq	$128, %rsp
	.cfi_adjust_cfa_offset 7 * 8 + 128
	movups	%xmm0, (%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	movq	%r11, %rdi
	call	cn_forward_find
	movq	%rax, %r11
	movups	(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	addq	$128, %rsp
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rax
	.cfi_adjust_cfa_offset -(7 * 8 + 128)
	jmp	*%r11
	.cfi_endproc
	.size	find, . - find
#else
	/* In: where the pointer is, in x16. */
	.macro FIND name
	adrp	x16, .Lpointer_\name
	add	x16, x16, #:lo12:.Lpointer_\name
	b	find
	.endm

	.text
	.balign 16
	.type	find, %function
find:
	.cfi_startproc
	stp	x29, x30, [sp, #-224]!
	.cfi_def_cfa_offset 224
	.cfi_offset 29, -224
	.cfi_offset 30, -216
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	x0, x16
	bl	cn_forward_find
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x29, x30, [sp], #224
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	br	x16
	.cfi_endproc
	.size	find, . - find
#endif

	JUMPS	cn_forward_slots
	.macro FORWARD name
	JUMP	cn_forward_slots, \name, .Lfind_\name
	.text
.Lfind_\name:
	LANDING
	FIND	\name
	.endm
#include "forward.inc"
	JUMPS_END cn_forward_slots

#endif
