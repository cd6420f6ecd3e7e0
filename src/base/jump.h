/* SPDX-License-Identifier: MIT */
/*
 * Functions that are one jump through a pointer: for assembler files.
 *
 *	JUMPS table			the table of pointers starts here
 *	JUMP table, name, target	function `name` jumps to where its pointer leads, at first to `target`
 *	JUMPS_END table			ends it; TABLE_entries holds the functions themselves, in the same order
 *
 * A call through such a function has all its arguments and its stack as the caller left them, whatever its type is, and
 * costs about a nanosecond. Machines that are not here have no jumps: CN_HAS_JUMPS.
 */
#ifndef CN_BASE_JUMP_H
#define CN_BASE_JUMP_H

#if defined(__x86_64__) || defined(__aarch64__)
#define CN_HAS_JUMPS 1
#else
#define CN_HAS_JUMPS 0
#endif

/* clang-format off */
#if defined(__ASSEMBLER__) && CN_HAS_JUMPS

#ifdef __x86_64__
#ifdef __CET__
#include <cet.h>
#endif
	/*
	 * Libraries that watch a program's memory, UCX's for one, write a jump of five bytes over a function's
	 * beginning and move what was there elsewhere. They know a few instructions that can be moved; a constant
	 * to a register that no callee reads is one, and has five bytes. The jump behind it they could not move.
	 */
	.macro LANDING
#if defined(__CET__) && (__CET__ & 1)
	endbr64
#else
	movl	$0, %eax
#endif
	.endm
	.macro JUMP_THROUGH pointer
	jmp	*\pointer(%rip)
	.endm
#else
	/* The hint is `bti c`, which older assemblers do not know. x16 is the register for such jumps. */
	.macro LANDING
	hint	#34
	.endm
	.macro JUMP_THROUGH pointer
	adrp	x16, \pointer
	ldr	x16, [x16, #:lo12:\pointer]
	br	x16
	.endm
#if defined(__ARM_FEATURE_BTI_DEFAULT)
	.pushsection .note.gnu.property, "a", %note
	.balign 8
	.long	4, 16, 5
	.asciz	"GNU"
	.long	0xc0000000, 4, 1, 0
	.popsection
#endif
#endif

	.macro JUMPS table
	.section .data.\table, "aw", %progbits
	.balign 8
	.hidden	\table
	.globl	\table
	.type	\table, %object
\table:
	.section .data.rel.ro.\table, "aw", %progbits
	.balign 8
	.hidden	\table\()_entries
	.globl	\table\()_entries
	.type	\table\()_entries, %object
\table\()_entries:
	.endm

	.macro JUMP table, name, target
	.text
	.balign 16
	.globl	\name
	.type	\name, %function
\name:
	.cfi_startproc
	LANDING
	JUMP_THROUGH .Lpointer_\name
	.cfi_endproc
	.size	\name, . - \name
	.section .data.\table, "aw", %progbits
.Lpointer_\name:
	.quad	\target
	.section .data.rel.ro.\table, "aw", %progbits
	.quad	\name
	.endm

	.macro JUMPS_END table
	.section .data.\table, "aw", %progbits
	.size	\table, . - \table
	.section .data.rel.ro.\table, "aw", %progbits
	.size	\table\()_entries, . - \table\()_entries
	.section .note.GNU-stack, "", %progbits
	.endm

#endif
/* clang-format on */

#endif
