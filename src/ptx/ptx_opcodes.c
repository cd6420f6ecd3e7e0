/* SPDX-License-Identifier: MIT */
/*
 * The instructions that we run, and the modifiers that each may have.
 */
#include "ptx/ptx_build.h"

#define T  CN_PTX_M_TYPE
#define R  CN_PTX_M_ROUND
#define F  CN_PTX_M_FTZ
#define S  CN_PTX_M_SAT
#define H  CN_PTX_M_HALF
#define A  CN_PTX_M_APPROX
#define CC CN_PTX_M_CC
#define CO CN_PTX_M_COMPARE
#define OP CN_PTX_M_OP
#define SP CN_PTX_M_SPACE
#define CA CN_PTX_M_CACHE
#define SC CN_PTX_M_SCOPE
#define OR CN_PTX_M_ORDER
#define V  CN_PTX_M_VECTOR
#define SY CN_PTX_M_SYNC
#define VO CN_PTX_M_VOTE
#define M  CN_PTX_M_MODE
#define N  CN_PTX_M_NAN
#define RE CN_PTX_M_RELU
#define NF CN_PTX_M_NOFTZ

const struct cn_ptx_opcode cn_ptx_opcodes[] = {
	{"add", cn_ptx_build_arithmetic, T | R | F | S | CC, CN_PTX_F_ADD},
	{"sub", cn_ptx_build_arithmetic, T | R | F | S | CC, CN_PTX_F_SUB},
	{"mul", cn_ptx_build_arithmetic, T | R | F | S | H, CN_PTX_F_MUL},
	{"fma", cn_ptx_build_arithmetic, T | R | F | S | RE, CN_PTX_F_FMA},
	{"mad", cn_ptx_build_arithmetic, T | R | F | S | H | CC, CN_PTX_O_MAD},
	{"div", cn_ptx_build_arithmetic, T | R | F | A, CN_PTX_F_DIV},
	{"rem", cn_ptx_build_arithmetic, T, CN_PTX_O_REM},
	{"min", cn_ptx_build_arithmetic, T | F | N | RE, CN_PTX_F_MIN},
	{"max", cn_ptx_build_arithmetic, T | F | N | RE, CN_PTX_F_MAX},
	{"abs", cn_ptx_build_arithmetic, T | F, CN_PTX_F_ABS},
	{"neg", cn_ptx_build_arithmetic, T | F, CN_PTX_F_NEG},
	{"sqrt", cn_ptx_build_arithmetic, T | R | F | A, CN_PTX_F_SQRT},
	{"rcp", cn_ptx_build_arithmetic, T | R | F | A, CN_PTX_F_RCP},
	{"addc", cn_ptx_build_carry, T | CC, CN_PTX_O_ADDC},
	{"subc", cn_ptx_build_carry, T | CC, CN_PTX_O_SUBC},
	{"madc", cn_ptx_build_carry, T | CC | H, CN_PTX_O_MADC},
	{"rsqrt", cn_ptx_build_approximation, T | F | A, CN_PTX_F_RSQRT},
	{"sin", cn_ptx_build_approximation, T | F | A, CN_PTX_F_SIN},
	{"cos", cn_ptx_build_approximation, T | F | A, CN_PTX_F_COS},
	{"lg2", cn_ptx_build_approximation, T | F | A, CN_PTX_F_LG2},
	{"ex2", cn_ptx_build_approximation, T | F | A, CN_PTX_F_EX2},
	{"tanh", cn_ptx_build_approximation, T | A, CN_PTX_F_TANH},
	{"copysign", cn_ptx_build_approximation, T, CN_PTX_F_COPYSIGN},
	{"testp", cn_ptx_build_integer, T | M, CN_PTX_O_TESTP},
	{"sad", cn_ptx_build_integer, T, CN_PTX_O_SAD},
	{"mul24", cn_ptx_build_integer, T | H, CN_PTX_O_MUL24},
	{"mad24", cn_ptx_build_integer, T | H | S, CN_PTX_O_MAD24},
	{"dp4a", cn_ptx_build_integer, T, CN_PTX_O_DP4A},
	{"dp2a", cn_ptx_build_integer, T | H, CN_PTX_O_DP2A},
	{"and", cn_ptx_build_bits, T, CN_PTX_O_AND},
	{"or", cn_ptx_build_bits, T, CN_PTX_O_OR},
	{"xor", cn_ptx_build_bits, T, CN_PTX_O_XOR},
	{"not", cn_ptx_build_bits, T, CN_PTX_O_NOT},
	{"cnot", cn_ptx_build_bits, T, CN_PTX_O_CNOT},
	{"shl", cn_ptx_build_bits, T, CN_PTX_O_SHL},
	{"shr", cn_ptx_build_bits, T, CN_PTX_O_SHR},
	{"shf", cn_ptx_build_bits, T | M, CN_PTX_O_SHF},
	{"lop3", cn_ptx_build_bits, T, CN_PTX_O_LOP3},
	{"popc", cn_ptx_build_bits, T, CN_PTX_O_POPC},
	{"clz", cn_ptx_build_bits, T, CN_PTX_O_CLZ},
	{"brev", cn_ptx_build_bits, T, CN_PTX_O_BREV},
	{"bfe", cn_ptx_build_bits, T, CN_PTX_O_BFE},
	{"bfi", cn_ptx_build_bits, T, CN_PTX_O_BFI},
	{"bfind", cn_ptx_build_bits, T | M, CN_PTX_O_BFIND},
	{"fns", cn_ptx_build_bits, T, CN_PTX_O_FNS},
	{"prmt", cn_ptx_build_bits, T | M, CN_PTX_O_PRMT},
	{"bmsk", cn_ptx_build_bits, T | M, CN_PTX_O_BMSK},
	{"szext", cn_ptx_build_bits, T | M, CN_PTX_O_SZEXT},
	{"set", cn_ptx_build_compare, T | F | CO | OP, CN_PTX_O_SET},
	{"setp", cn_ptx_build_compare, T | F | CO | OP, CN_PTX_O_SETP},
	{"selp", cn_ptx_build_select, T, CN_PTX_O_SELP},
	{"slct", cn_ptx_build_select, T | F, CN_PTX_O_SLCT},
	{"mov", cn_ptx_build_move, T | V, 0},
	{"cvt", cn_ptx_build_convert, T | R | F | S | RE, 0},
	{"cvta", cn_ptx_build_address, T | SP | M, CN_PTX_O_CVTA},
	{"isspacep", cn_ptx_build_address, SP, CN_PTX_O_ISSPACEP},
	{"ld", cn_ptx_build_load, T | SP | CA | SC | OR | V, 0},
	{"ldu", cn_ptx_build_load, T | SP | CA | V, 0},
	{"st", cn_ptx_build_store, T | SP | CA | SC | OR | V, 0},
	{"atom", cn_ptx_build_atomic, T | SP | CA | SC | OR | OP | NF, CN_PTX_O_ATOM},
	{"red", cn_ptx_build_atomic, T | SP | CA | SC | OR | OP | NF, CN_PTX_O_RED},
	{"cp", cn_ptx_build_copy, T | SP | CA | M, 0},
	{"mbarrier", cn_ptx_build_mbarrier, T | SP | SC | OR | M, 0},
	{"createpolicy", cn_ptx_build_policy, T | CA | M, 0},
	{"applypriority", cn_ptx_build_other, SP | CA, CN_PTX_O_NOTHING},
	{"discard", cn_ptx_build_other, SP | CA, CN_PTX_O_NOTHING},
	{"griddepcontrol", cn_ptx_build_other, M, CN_PTX_O_NOTHING},
	{"prefetch", cn_ptx_build_other, SP | CA, CN_PTX_O_NOTHING},
	{"prefetchu", cn_ptx_build_other, SP | CA, CN_PTX_O_NOTHING},
	{"pmevent", cn_ptx_build_other, 0, CN_PTX_O_NOTHING},
	{"membar", cn_ptx_build_other, SC, CN_PTX_O_FENCE},
	{"fence", cn_ptx_build_other, SC | OR, CN_PTX_O_FENCE},
	{"nanosleep", cn_ptx_build_other, T, CN_PTX_O_SLEEP},
	{"trap", cn_ptx_build_other, 0, CN_PTX_O_TRAP},
	{"brkpt", cn_ptx_build_other, 0, CN_PTX_O_BREAK},
	{"bra", cn_ptx_build_branch, VO, CN_PTX_O_BRA},
	{"brx", cn_ptx_build_branch, VO | M, CN_PTX_O_BRX},
	{"call", NULL, VO, 0},
	{"ret", cn_ptx_build_end, VO, CN_PTX_O_RET},
	{"exit", cn_ptx_build_end, 0, CN_PTX_O_EXIT},
	{"bar", cn_ptx_build_barrier, T | SY | M | SC | OP, CN_PTX_O_BAR},
	{"barrier", cn_ptx_build_barrier, T | SY | M | SC | OP, CN_PTX_O_BAR},
	{"shfl", cn_ptx_build_warp, T | SY | M, CN_PTX_O_SHFL},
	{"vote", cn_ptx_build_warp, T | SY | VO, CN_PTX_O_VOTE},
	{"match", cn_ptx_build_warp, T | SY | VO, CN_PTX_O_MATCH},
	{"redux", cn_ptx_build_warp, T | SY | OP, CN_PTX_O_REDUX},
	{"activemask", cn_ptx_build_warp, T, CN_PTX_O_ACTIVEMASK},
	{"elect", cn_ptx_build_warp, SY, CN_PTX_O_ELECT},
	{0},
};
