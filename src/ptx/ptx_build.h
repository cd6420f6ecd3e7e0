/* SPDX-License-Identifier: MIT */
/*
 * What the opcodes' table tells the builders: which of their instructions it is.
 */
#ifndef CN_PTX_PTX_BUILD_H
#define CN_PTX_PTX_BUILD_H

#include "ptx/ptx_lane.h"
#include "ptx/ptx_parse.h"

enum cn_ptx_which {
	/* Arithmetic: the operations of floats (enum cn_ptx_float_op), and these */
	CN_PTX_O_MAD = 64,
	CN_PTX_O_REM,
	/* Bits */
	CN_PTX_O_AND,
	CN_PTX_O_OR,
	CN_PTX_O_XOR,
	CN_PTX_O_NOT,
	CN_PTX_O_CNOT,
	CN_PTX_O_SHL,
	CN_PTX_O_SHR,
	CN_PTX_O_SHF,
	CN_PTX_O_LOP3,
	CN_PTX_O_POPC,
	CN_PTX_O_CLZ,
	CN_PTX_O_BREV,
	CN_PTX_O_BFE,
	CN_PTX_O_BFI,
	CN_PTX_O_BFIND,
	CN_PTX_O_FNS,
	CN_PTX_O_PRMT,
	CN_PTX_O_BMSK,
	CN_PTX_O_SZEXT,
	/* Integers */
	CN_PTX_O_SAD,
	CN_PTX_O_MUL24,
	CN_PTX_O_MAD24,
	CN_PTX_O_DP4A,
	CN_PTX_O_DP2A,
	CN_PTX_O_TESTP,
	/* Comparisons and selections */
	CN_PTX_O_SET,
	CN_PTX_O_SETP,
	CN_PTX_O_SELP,
	CN_PTX_O_SLCT,
	/* Addresses */
	CN_PTX_O_CVTA,
	CN_PTX_O_ISSPACEP,
	CN_PTX_O_ATOM,
	CN_PTX_O_RED,
	/* Control */
	CN_PTX_O_BRA,
	CN_PTX_O_BRX,
	CN_PTX_O_RET,
	CN_PTX_O_EXIT,
	CN_PTX_O_TRAP,
	CN_PTX_O_BREAK,
	CN_PTX_O_FENCE,
	CN_PTX_O_SLEEP,
	CN_PTX_O_NOTHING,
	CN_PTX_O_BAR,
	/* Warps */
	CN_PTX_O_SHFL,
	CN_PTX_O_VOTE,
	CN_PTX_O_MATCH,
	CN_PTX_O_REDUX,
	CN_PTX_O_ACTIVEMASK,
	CN_PTX_O_ELECT,
	/* With carry */
	CN_PTX_O_ADDC,
	CN_PTX_O_SUBC,
	CN_PTX_O_MADC,
};

/* The first of three kernels, for 16, 32 and 64 bits. */
enum cn_ptx_kernel_index cn_ptx_kernel_by_width(struct cn_ptx_parser *parser, enum cn_ptx_kernel_index first,
						enum cn_ptx_type type);

#endif
