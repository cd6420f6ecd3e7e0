/* SPDX-License-Identifier: MIT */
/*
 * What the parser makes and the interpreter runs.
 *
 * Loading a module finds its functions and variables; a function's body becomes instructions when a kernel that can
 * reach it is first launched (ptx_plan.c). Each function has a range of program counters from the start, as long as its
 * text, which is more than it can need: so a program counter tells its function, and their order is that of the text.
 *
 * Registers lie as arrays over the threads ("lanes") of a block: one that is `width` bytes wide takes `width` bytes a
 * lane, and a function's frame is the sum of its registers' widths. Where a register lies is said in bytes a lane, so a
 * frame is the same for blocks of any size. Constants (numbers, addresses of variables, special registers) are arrays
 * too, in an area of their own a function, so that arithmetic has one form of operand.
 *
 * Arithmetic is a kernel: a function over plain arrays, which knows neither masks nor blocks. What is common has a
 * fast one (ptx_kernels.h); what is rare is a function of one lane's values (struct cn_ptx_inst's lane).
 */
#ifndef CN_PTX_PTX_IR_H
#define CN_PTX_PTX_IR_H

#include "ptx/ptx.h"

#include <pthread.h>

/* ---- Types ------------------------------------------------------------------------------------------------------- */

enum cn_ptx_type {
	CN_PTX_NO_TYPE,
	CN_PTX_PRED,
	CN_PTX_B8,
	CN_PTX_B16,
	CN_PTX_B32,
	CN_PTX_B64,
	CN_PTX_B128,
	CN_PTX_U8,
	CN_PTX_U16,
	CN_PTX_U32,
	CN_PTX_U64,
	CN_PTX_S8,
	CN_PTX_S16,
	CN_PTX_S32,
	CN_PTX_S64,
	CN_PTX_F16,
	CN_PTX_F16X2,
	CN_PTX_BF16,
	CN_PTX_BF16X2,
	CN_PTX_F32,
	CN_PTX_F64,
	CN_PTX_U16X2,
	CN_PTX_S16X2,
	CN_PTX_TF32,
	CN_PTX_E4M3X2,
	CN_PTX_E5M2X2,
	CN_PTX_TYPE_COUNT,
};

enum cn_ptx_space {
	CN_PTX_GENERIC,
	CN_PTX_GLOBAL,
	CN_PTX_CONST,
	CN_PTX_SHARED,
	CN_PTX_LOCAL,
	CN_PTX_PARAM,
	CN_PTX_REG,
};

enum cn_ptx_rounding {
	CN_PTX_NO_ROUNDING,
	CN_PTX_RN, /* nearest even; the other three, and the same to integers */
	CN_PTX_RZ,
	CN_PTX_RM,
	CN_PTX_RP,
	CN_PTX_RNA,
	CN_PTX_RNI,
	CN_PTX_RZI,
	CN_PTX_RMI,
	CN_PTX_RPI,
};

enum cn_ptx_compare {
	CN_PTX_EQ,
	CN_PTX_NE,
	CN_PTX_LT,
	CN_PTX_LE,
	CN_PTX_GT,
	CN_PTX_GE,
	CN_PTX_LO,
	CN_PTX_LS,
	CN_PTX_HI,
	CN_PTX_HS,
	CN_PTX_EQU,
	CN_PTX_NEU,
	CN_PTX_LTU,
	CN_PTX_LEU,
	CN_PTX_GTU,
	CN_PTX_GEU,
	CN_PTX_NUM,
	CN_PTX_NAN,
};

/* ---- Instructions ------------------------------------------------------------------------------------------------ */

enum cn_ptx_kind {
	CN_PTX_I_KERNEL, /* d = kernel(a, b, c) */
	CN_PTX_I_LANE,   /* the same, one lane at a time */
	CN_PTX_I_CARRY,  /* d = a + b + carry and related: detail is enum cn_ptx_carry */
	CN_PTX_I_LOAD,
	CN_PTX_I_STORE,
	CN_PTX_I_ATOMIC,
	CN_PTX_I_COPY, /* `count` bytes from a + offset to shared b + detail; c: how many are read, the rest is zero */
	CN_PTX_I_LOCAL_ADDRESS,  /* d = address of offset in the thread's local memory */
	CN_PTX_I_PARAM_ADDRESS,  /* d = address of a parameter that the frame holds at a */
	CN_PTX_I_GENERIC_SHARED, /* d = a + the block's shared memory; detail 1: minus */
	CN_PTX_I_IS_SHARED,      /* isspacep: detail is the space */
	CN_PTX_I_CLOCK,          /* detail: enum cn_ptx_special */
	CN_PTX_I_BRANCH,         /* to target */
	CN_PTX_I_BRANCH_INDEX,   /* to the a-th target in `more` */
	CN_PTX_I_CALL,
	CN_PTX_I_RETURN,
	CN_PTX_I_EXIT,
	CN_PTX_I_TRAP,
	CN_PTX_I_BREAK,
	CN_PTX_I_BARRIER,      /* a: number, b: count; detail: enum cn_ptx_barrier */
	CN_PTX_I_MBARRIER,     /* a: its address, b: a number or a state; detail: enum cn_ptx_mbarrier */
	CN_PTX_I_WARP_BARRIER, /* a: members */
	CN_PTX_I_SHUFFLE,
	CN_PTX_I_VOTE,
	CN_PTX_I_MATCH,
	CN_PTX_I_REDUX,
	CN_PTX_I_ACTIVE_MASK,
	CN_PTX_I_ELECT,
	CN_PTX_I_FENCE,
	CN_PTX_I_SLEEP,
	CN_PTX_I_NOTHING,
};

enum cn_ptx_barrier { CN_PTX_BAR_SYNC, CN_PTX_BAR_ARRIVE, CN_PTX_BAR_POPC, CN_PTX_BAR_AND, CN_PTX_BAR_OR };
enum cn_ptx_mbarrier {
	CN_PTX_MBAR_INIT,
	CN_PTX_MBAR_INVAL,
	CN_PTX_MBAR_ARRIVE,
	CN_PTX_MBAR_ARRIVE_TX, /* and expect bytes */
	CN_PTX_MBAR_DROP,
	CN_PTX_MBAR_EXPECT_TX,
	CN_PTX_MBAR_COMPLETE_TX,
	CN_PTX_MBAR_TEST,
	CN_PTX_MBAR_TEST_PARITY,
};
enum cn_ptx_vote { CN_PTX_VOTE_ALL, CN_PTX_VOTE_ANY, CN_PTX_VOTE_UNI, CN_PTX_VOTE_BALLOT };
enum cn_ptx_shuffle { CN_PTX_SHFL_UP, CN_PTX_SHFL_DOWN, CN_PTX_SHFL_BFLY, CN_PTX_SHFL_IDX };
enum cn_ptx_carry { CN_PTX_CARRY_ADD, CN_PTX_CARRY_SUB, CN_PTX_CARRY_MAD_LO, CN_PTX_CARRY_MAD_HI };
enum cn_ptx_operation {
	CN_PTX_OP_AND,
	CN_PTX_OP_OR,
	CN_PTX_OP_XOR,
	CN_PTX_OP_EXCH,
	CN_PTX_OP_CAS,
	CN_PTX_OP_ADD,
	CN_PTX_OP_INC,
	CN_PTX_OP_DEC,
	CN_PTX_OP_MIN,
	CN_PTX_OP_MAX,
};

/* Where an operand lies: bytes a lane in the frame; ~bytes in the function's constants. */
typedef int32_t cn_ptx_operand;
#define CN_PTX_NONE INT32_MIN

typedef uint64_t cn_ptx_lane(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);

enum { CN_PTX_OPERANDS = 6, CN_PTX_MEMBERS = 5 };

struct cn_ptx_inst {
	uint8_t kind;  /* enum cn_ptx_kind */
	uint8_t type;  /* enum cn_ptx_type of memory and atomics */
	uint8_t space; /* enum cn_ptx_space */
	uint8_t count; /* of a vector */
	uint8_t flag;  /* memory: 1 ordered, so lanes access it one by one; carry: 1 in, 2 out; warps: 1 no waiting */
	bool guard_negated;
	uint16_t kernel;                /* enum cn_ptx_kernel_index */
	uint8_t width[CN_PTX_OPERANDS]; /* of the operands' registers */
	uint32_t detail;
	cn_ptx_operand guard;                    /* predicate, or CN_PTX_NONE */
	cn_ptx_operand operand[CN_PTX_OPERANDS]; /* d, a, b, c, a second result, members of the warp */
	uint32_t target, more;                   /* program counter; index into the function's `more` */
	int64_t offset;                          /* of an address */
	cn_ptx_lane *lane;
	uint32_t line, location; /* of the PTX text; 1 + index into the function's places */
};

/* One constant of a function, as it is spread over the lanes. */
enum cn_ptx_constant_kind {
	CN_PTX_C_BITS,
	CN_PTX_C_DATA,      /* address in the module's data */
	CN_PTX_C_PARAMETER, /* address in the launch's parameters */
	CN_PTX_C_ARGUMENT,  /* what stands there */
	CN_PTX_C_FUNCTION,  /* a function pointer */
	CN_PTX_C_SHARED,    /* shared variable (low half of value), plus the high half; `dynamic`: the dynamic part */
	CN_PTX_C_SPECIAL,   /* a special register: enum cn_ptx_special in value */
};

enum cn_ptx_special {
	CN_PTX_S_TID, /* x, y, z follow */
	CN_PTX_S_NTID = 3,
	CN_PTX_S_CTAID = 6,
	CN_PTX_S_NCTAID = 9,
	CN_PTX_S_LANEID = 12,
	CN_PTX_S_WARPID,
	CN_PTX_S_NWARPID,
	CN_PTX_S_SMID,
	CN_PTX_S_NSMID,
	CN_PTX_S_GRIDID,
	CN_PTX_S_LANEMASK_EQ,
	CN_PTX_S_LANEMASK_LE,
	CN_PTX_S_LANEMASK_LT,
	CN_PTX_S_LANEMASK_GE,
	CN_PTX_S_LANEMASK_GT,
	CN_PTX_S_WARP_SZ,
	CN_PTX_S_DYNAMIC_SMEM,
	CN_PTX_S_TOTAL_SMEM,
	CN_PTX_S_RESERVED_SMEM, /* where what the block keeps for cooperative groups begins */
	CN_PTX_S_ZERO,
	CN_PTX_S_ONE,
	CN_PTX_S_ZEROS, /* x, y, z */
	CN_PTX_S_ONES = CN_PTX_S_ZEROS + 3,
	CN_PTX_S_ENVIRONMENT = CN_PTX_S_ONES + 3, /* and the 31 that follow */
	CN_PTX_S_CLOCK = CN_PTX_S_ENVIRONMENT + 32,
	CN_PTX_S_CLOCK_HI,
	CN_PTX_S_CLOCK64,
	CN_PTX_S_GLOBALTIMER,
	CN_PTX_S_GLOBALTIMER_LO,
	CN_PTX_S_GLOBALTIMER_HI,
};

struct cn_ptx_constant {
	uint8_t kind, width;
	bool dynamic;
	uint32_t offset; /* bytes a lane */
	uint64_t value;
};

/* A formal parameter or result of a function. A .reg one is an array over lanes, a .param one bytes of each lane. */
struct cn_ptx_formal {
	bool is_register;
	uint32_t bytes, alignment;
	uint32_t at; /* bytes a lane in the frame; of a kernel: offset in the launch's parameters */
};

/* What a call passes: operands and widths of its arguments, then of its results. */
struct cn_ptx_argument {
	cn_ptx_operand at;
	uint32_t bytes;
	bool is_register;
};

struct cn_ptx_place {
	uint32_t file, line;
};

struct cn_ptx_function {
	char *name;
	bool is_kernel, has_body, has_indirect_calls, is_address_taken;
	bool has_variables; /* its body declares variables of the module */
	bool is_built;      /* what follows `start` is there */
	const char *text;   /* behind .entry or .func */
	uint32_t text_line;
	uint32_t start, pc_room, end; /* program counters; `end`: those in use */
	struct cn_ptx_inst *code;
	uint32_t code_count, code_room;
	uint32_t *more; /* targets of brx.idx, parts of vectors */
	uint32_t more_count, more_room;
	struct cn_ptx_argument *arguments;
	uint32_t argument_count, argument_room;
	struct cn_ptx_place *places;
	uint32_t place_count, place_room;
	uint32_t frame_bytes, local_bytes, constant_bytes;
	uint32_t formal_count, result_count; /* formals: results first */
	struct cn_ptx_formal *formals;
	uint32_t constant_count, constant_room;
	struct cn_ptx_constant *constants;
	uint32_t builtin; /* 1 + index of a function that we bring; 0: none */
	uint32_t parameter_bytes, max_threads, required[3];
	cn_ptx_operand return_at; /* where the frame keeps where the call came from */
	uint32_t live_registers;
	uint32_t position;        /* of a kernel, in the module's contents */
	struct cn_ptx_plan *plan; /* of a kernel that has been prepared */
};

/* What a kernel and the functions that it can reach need. Made once, and not changed afterwards. */
struct cn_ptx_plan {
	uint32_t shared_bytes; /* static */
	uint32_t local_bytes;  /* of the deepest chain of calls; of a circle, one round */
	bool calls;            /* it calls functions of the module */
	bool has_reserved;     /* shared memory for cooperative groups */
	uint32_t dynamic_alignment;
	uint32_t count;
	uint32_t *functions;      /* that it can reach, itself first */
	uint32_t *slots;          /* by function: 1 + its index in `functions`; 0: it cannot be reached */
	uint32_t *shared_offsets; /* of each shared variable of the module that they use */
};

/* A word of the data that holds an address. */
struct cn_ptx_relocation {
	size_t offset_bytes;
	uint8_t width, shift;
	bool is_function;
	uint64_t value; /* offset in the data, or function */
};

struct cn_ptx_shared {
	uint32_t bytes, alignment;
};

struct cn_ptx_module {
	struct cn_ptx_contents contents;
	char *text;
	struct cn_ptx_parser *parser; /* with the names of the module, for bodies that are still text */
	pthread_mutex_t building; /* held while bodies are read: the parser, functions that are not built, `shared` */
	struct cn_ptx_function *functions;
	uint32_t function_count, function_room;
	uint32_t *bodies; /* functions that have one, in the order of their program counters */
	uint32_t body_count, body_room;
	char **files; /* .file */
	uint32_t file_count, file_room;
	struct cn_ptx_relocation *relocations;
	uint32_t relocation_count, relocation_room;
	unsigned char *data; /* first values */
	size_t data_room;
	struct cn_ptx_shared *shared; /* variables in shared memory: each kernel has its own layout of those it uses */
	uint32_t shared_count, shared_room, dynamic_alignment;
	struct cn_ptx_kernel *kernels;
	uint32_t kernel_room;
	struct cn_ptx_variable *variables;
	uint32_t variable_room;
	struct cn_ptx_heap *heap; /* of malloc() in kernels */
};

/* What a function pointer looks like, so that a wrong one is known. */
#define CN_PTX_FUNCTION_BASE 0x7f00a00000000000u

/* Bytes of a type's value, and of the register that holds it. */
unsigned cn_ptx_type_bytes(enum cn_ptx_type type);

static inline bool cn_ptx_type_is_signed(enum cn_ptx_type type)
{
	return type >= CN_PTX_S8 && type <= CN_PTX_S64;
}

static inline bool cn_ptx_type_is_float(enum cn_ptx_type type)
{
	return type >= CN_PTX_F16 && type <= CN_PTX_F64;
}

#endif
