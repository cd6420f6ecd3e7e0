/* SPDX-License-Identifier: MIT */
/*
 * The first call of a function that was redirected (see jumps.c).
 *
 * On the stack: the jumps, the function's number, then what its caller left there. All registers that can hold arguments
 * are kept; then it goes on in our function as if the caller had called that one.
 */
#ifdef __x86_64__
	.text
	.globl	cn_redirect_enter
	.hidden	cn_redirect_enter
	.type	cn_redirect_enter, %function
	.balign	16
cn_redirect_enter:
	.cfi_startproc
	.cfi_adjust_cfa_offset 16
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	push	%rax
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	push	%r10
	sub	$128, %rsp
	/* The stack is 8 below a multiple of 16 at a function's entry; 11 words have been pushed since. */
	movups	%xmm0, (%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	mov	8(%rbp), %rdi
	mov	16(%rbp), %rsi
	call	cn_redirect_resolve@PLT
	mov	%rax, %r11
	movups	(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	add	$128, %rsp
	test	%r11, %r11
	jz	.Lnone
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rax
	mov	%rbp, %rsp
	pop	%rbp
	.cfi_def_cfa %rsp, 24
	add	$16, %rsp
	.cfi_adjust_cfa_offset -16
	jmp	*%r11
.Lnone:
	/* There is no such function: the caller gets the result. */
	.cfi_def_cfa %rbp, 32
	mov	%rdx, %rax
	mov	%rbp, %rsp
	pop	%rbp
	.cfi_def_cfa %rsp, 24
	add	$16, %rsp
	.cfi_adjust_cfa_offset -16
	ret
	.cfi_endproc
	.size	cn_redirect_enter, . - cn_redirect_enter
#endif
	.section .note.GNU-stack, "", %progbits
