/* SPDX-License-Identifier: MIT */
/*
 * The parser: tokens, symbols, operands, and what the builders of instructions use.
 *
 * It works twice: cn_ptx_parse() reads what is outside of bodies, and cn_ptx_parse_body() one body, with the names that
 * the first has found. An error leaves it by a jump to either; what belongs to the module is freed with it. So no
 * function here returns an error, and each may rely on what the one before it checked.
 */
#ifndef CN_PTX_PTX_PARSE_H
#define CN_PTX_PTX_PARSE_H

#include "ptx/ptx_ir.h"
#include "ptx/ptx_kernels.h"

#include <setjmp.h>

enum {
	CN_PTX_NAME_CHARS_MAX = 8192,
	CN_PTX_DEPTH_MAX = 64,            /* of scopes, and of parentheses */
	CN_PTX_FRAME_BYTES_MAX = 1 << 18, /* of registers, a lane */
	CN_PTX_OPERAND_COUNT_MAX = 8,
	CN_PTX_VECTOR_MAX = 8,
	CN_PTX_FUNCTIONS_MAX = 1 << 16,
};

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

enum cn_ptx_token_kind {
	CN_PTX_T_END,
	CN_PTX_T_WORD,   /* a name or an opcode */
	CN_PTX_T_DOT,    /* .name: a directive, a modifier, a component; the text is without the dot */
	CN_PTX_T_NUMBER, /* value */
	CN_PTX_T_FLOAT,  /* value has the bits of a double, or of a float */
	CN_PTX_T_STRING, /* the text is without its quotation marks */
	CN_PTX_T_SIGN,   /* one character; << >> && || == != <= >= have a code of their own */
};

struct cn_ptx_token {
	enum cn_ptx_token_kind kind;
	const char *text;
	uint32_t length;
	int sign;
	bool is_double, is_unsigned;
	uint64_t value;
};

#define CN_PTX_SIGN(a, b) ((a) | (b) << 8)

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

enum cn_ptx_symbol_kind {
	CN_PTX_SYM_REGISTER,
	CN_PTX_SYM_RANGE,    /* %r<100>: value is the count */
	CN_PTX_SYM_VARIABLE, /* space says where, value its offset */
	CN_PTX_SYM_FUNCTION, /* value is its index */
	CN_PTX_SYM_LABEL,
	CN_PTX_SYM_TARGETS, /* .branchtargets: value is the index of the first in `more`, bytes the count */
	CN_PTX_SYM_PROTOTYPE,
};

struct cn_ptx_symbol {
	struct cn_ptx_symbol *next, *next_in_scope;
	const char *name;
	uint32_t length, scope; /* scope: its number; 1 is the module's */
	uint8_t kind, type, space, vector;
	bool dynamic, is_entry_parameter;
	bool has_place;
	cn_ptx_operand place; /* of a register */
	uint64_t value;
	uint32_t bytes;
};

struct cn_ptx_scope {
	struct cn_ptx_symbol *symbols;
	uint32_t number;
};

/* A use of a label that is not known yet. */
struct cn_ptx_fixup {
	const char *name;
	uint32_t length, scope, line;
	uint32_t at;
	bool in_more; /* the function's more[at], not its code[at].target */
};

struct cn_ptx_label {
	const char *name;
	uint32_t length, scope, pc;
};

/* ---- Modifiers --------------------------------------------------------------------------------------------------- */

enum {
	CN_PTX_M_TYPE = 1 << 0,
	CN_PTX_M_ROUND = 1 << 1,
	CN_PTX_M_FTZ = 1 << 2,
	CN_PTX_M_SAT = 1 << 3,
	CN_PTX_M_HALF = 1 << 4,   /* lo hi wide */
	CN_PTX_M_APPROX = 1 << 5, /* approx full */
	CN_PTX_M_CC = 1 << 6,
	CN_PTX_M_COMPARE = 1 << 7,
	CN_PTX_M_OP = 1 << 8, /* and or xor, of predicates, atomics and reductions */
	CN_PTX_M_SPACE = 1 << 9,
	CN_PTX_M_CACHE = 1 << 10,
	CN_PTX_M_SCOPE = 1 << 11,
	CN_PTX_M_ORDER = 1 << 12,
	CN_PTX_M_VECTOR = 1 << 13,
	CN_PTX_M_SYNC = 1 << 14,
	CN_PTX_M_VOTE = 1 << 15,
	CN_PTX_M_MODE = 1 << 16, /* shuffles, prmt, shf, testp, cvta.to and other words of one instruction */
	CN_PTX_M_NAN = 1 << 17,
	CN_PTX_M_RELU = 1 << 18,
	CN_PTX_M_NOFTZ = 1 << 19,
	CN_PTX_M_OTHER = 1 << 20, /* known to PTX, and to none of the instructions that we run */
};

enum { CN_PTX_HALF_LO = 1, CN_PTX_HALF_HI, CN_PTX_HALF_WIDE };
enum { CN_PTX_ORDER_WEAK = 1, CN_PTX_ORDER_VOLATILE, CN_PTX_ORDER_STRONG };
enum cn_ptx_mode {
	CN_PTX_MODE_NONE,
	CN_PTX_MODE_TO,
	CN_PTX_MODE_UP,
	CN_PTX_MODE_DOWN,
	CN_PTX_MODE_BFLY,
	CN_PTX_MODE_IDX,
	CN_PTX_MODE_L,
	CN_PTX_MODE_R,
	CN_PTX_MODE_CLAMP,
	CN_PTX_MODE_WRAP,
	CN_PTX_MODE_F4E,
	CN_PTX_MODE_B4E,
	CN_PTX_MODE_RC8,
	CN_PTX_MODE_ECL,
	CN_PTX_MODE_ECR,
	CN_PTX_MODE_RC16,
	CN_PTX_MODE_FINITE,
	CN_PTX_MODE_INFINITE,
	CN_PTX_MODE_NUMBER,
	CN_PTX_MODE_NOTANUMBER,
	CN_PTX_MODE_NORMAL,
	CN_PTX_MODE_SUBNORMAL,
	CN_PTX_MODE_SHIFTAMT,
	CN_PTX_MODE_ARRIVE,
	CN_PTX_MODE_RED,
	CN_PTX_MODE_POPC,
	CN_PTX_MODE_WARP,
	CN_PTX_MODE_UNI,
	CN_PTX_MODE_ASYNC,
	CN_PTX_MODE_GROUP, /* commit_group and the like */
	CN_PTX_MODE_MBARRIER,
	CN_PTX_MODE_INIT,
	CN_PTX_MODE_INVAL,
	CN_PTX_MODE_DROP,
	CN_PTX_MODE_EXPECT,
	CN_PTX_MODE_COMPLETE,
	CN_PTX_MODE_TEST, /* try_wait, too: a kernel asks again */
	CN_PTX_MODE_PARITY,
	CN_PTX_MODE_NOINC,
	CN_PTX_MODE_IGNORED,
};

struct cn_ptx_modifiers {
	uint32_t classes;
	uint8_t types[4];
	unsigned type_count;
	uint8_t rounding, half, compare, op, space, space_count, scope, order, vector, vote, modes[4];
	unsigned mode_count;
	bool ftz, sat, approx, cc, sync, nan, relu, noftz, has_op;
};

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

enum cn_ptx_argument_kind {
	CN_PTX_A_SYMBOL,  /* register, variable, function: symbol, and an offset */
	CN_PTX_A_SPECIAL, /* special register: value */
	CN_PTX_A_NUMBER,
	CN_PTX_A_FLOAT,
	CN_PTX_A_SINK, /* _ */
	CN_PTX_A_VECTOR,
	CN_PTX_A_NAME, /* something that is not declared yet: a label or a function */
};

struct cn_ptx_value {
	uint8_t kind;
	bool in_brackets, negated, is_double;
	struct cn_ptx_symbol *symbol;
	unsigned component; /* of a vector register */
	int64_t offset;     /* of an address */
	uint64_t value;
	const char *name;
	uint32_t length;
};

struct cn_ptx_argument_text {
	struct cn_ptx_value value, second; /* p|q */
	bool has_second;
	struct cn_ptx_value parts[CN_PTX_VECTOR_MAX];
	unsigned part_count;
};

/* ---- The parser -------------------------------------------------------------------------------------------------- */

enum { CN_PTX_BUCKETS = 1 << 12 };

struct cn_ptx_parser {
	const char *at, *end;
	uint32_t line;
	struct cn_ptx_token token;
	uint32_t token_line;
	struct cn_ptx_module *module;
	struct cn_ptx_error *error;
	jmp_buf failed;

	struct cn_ptx_symbol *buckets[CN_PTX_BUCKETS];
	struct cn_ptx_scope scopes[CN_PTX_DEPTH_MAX];
	unsigned depth;
	uint32_t scope_count;
	uint32_t *scope_parents;
	uint32_t scope_room;
	struct cn_ptx_label *labels;
	uint32_t label_count, label_room;
	struct cn_ptx_fixup *fixups;
	uint32_t fixup_count, fixup_room;

	uint32_t function; /* the one whose body is read; UINT32_MAX: none */
	cn_ptx_operand carry;
	uint32_t location;

	/* Of the instruction that is read. */
	uint32_t inst_line;
	cn_ptx_operand guard;
	bool guard_negated;
	char opcode[64];
	struct cn_ptx_modifiers mods;
	struct cn_ptx_argument_text args[CN_PTX_OPERAND_COUNT_MAX];
	unsigned arg_count;
};

_Noreturn void cn_ptx_fail(struct cn_ptx_parser *parser, enum cn_ptx_error_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* An array that grows; its items are kept. The new item is zero. */
void *cn_ptx_grow(struct cn_ptx_parser *parser, void *array, uint32_t *count, uint32_t *room, size_t item_bytes);
#define CN_PTX_ADD(parser, array, count, room) \
	((array) = cn_ptx_grow((parser), (array), &(count), &(room), sizeof *(array)), &(array)[(count)-1])

/* ptx_lex.c */
bool cn_ptx_is_name_char(char c);
void cn_ptx_next(struct cn_ptx_parser *parser);
bool cn_ptx_is_sign(const struct cn_ptx_parser *parser, int sign);
bool cn_ptx_is_dot(const struct cn_ptx_parser *parser, const char *text);
bool cn_ptx_is_word(const struct cn_ptx_parser *parser, const char *text);
bool cn_ptx_take_sign(struct cn_ptx_parser *parser, int sign);
bool cn_ptx_take_dot(struct cn_ptx_parser *parser, const char *text);
void cn_ptx_expect(struct cn_ptx_parser *parser, int sign);
/* The token's text for a sentence: cut off where it is long. */
int cn_ptx_shown(const struct cn_ptx_token *token);

/* ptx_symbol.c */
void cn_ptx_scope_open(struct cn_ptx_parser *parser);
void cn_ptx_scope_close(struct cn_ptx_parser *parser);
struct cn_ptx_symbol *cn_ptx_symbol_add(struct cn_ptx_parser *parser, const char *name, uint32_t length,
					enum cn_ptx_symbol_kind kind);
struct cn_ptx_symbol *cn_ptx_symbol_find(struct cn_ptx_parser *parser, const char *name, uint32_t length);
void cn_ptx_label_add(struct cn_ptx_parser *parser, const char *name, uint32_t length);
void cn_ptx_label_use(struct cn_ptx_parser *parser, const char *name, uint32_t length, bool in_more, uint32_t at);
void cn_ptx_labels_resolve(struct cn_ptx_parser *parser);
/* Where a register lies: it gets its place when it is first used. */
cn_ptx_operand cn_ptx_register_place(struct cn_ptx_parser *parser, struct cn_ptx_symbol *symbol);
cn_ptx_operand cn_ptx_frame_take(struct cn_ptx_parser *parser, uint32_t bytes, uint32_t alignment);
struct cn_ptx_function *cn_ptx_current(struct cn_ptx_parser *parser);

/* ptx_names.c: the words of PTX. */
const struct cn_ptx_opcode *cn_ptx_opcode_find(const char *name);
bool cn_ptx_special_find(const char *text, uint32_t length, unsigned *ret_special);
enum cn_ptx_type cn_ptx_type_find(const char *text, uint32_t length);
void cn_ptx_modifier_take(struct cn_ptx_parser *parser);

/* ptx_variable.c */
/* Type, alignment, name and dimensions after a space: .b32 name[4]. */
struct cn_ptx_declaration {
	uint8_t type, vector;
	uint32_t alignment;
	const char *name;
	uint32_t length;
	uint64_t bytes;
	bool is_open, managed; /* name[] */
	uint64_t count;        /* of name<count>; 0: one */
};
void cn_ptx_declaration_read(struct cn_ptx_parser *parser, struct cn_ptx_declaration *ret);
void cn_ptx_variable_read(struct cn_ptx_parser *parser, enum cn_ptx_space space, bool external);
/* A constant expression. */
int64_t cn_ptx_expression_read(struct cn_ptx_parser *parser);

/* ptx_operand.c */
void cn_ptx_argument_read(struct cn_ptx_parser *parser, struct cn_ptx_argument_text *ret);
cn_ptx_operand cn_ptx_constant(struct cn_ptx_parser *parser, enum cn_ptx_constant_kind kind, uint64_t value,
			       unsigned width, bool dynamic);
cn_ptx_operand cn_ptx_temporary(struct cn_ptx_parser *parser, unsigned width);
/* A value of an instruction's type: a register of its width, or a constant. */
cn_ptx_operand cn_ptx_source(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type);
/* The same; a register may be wider than the type, and *ret_width is its width. */
cn_ptx_operand cn_ptx_source_wide(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
				  unsigned *ret_width);
cn_ptx_operand cn_ptx_result(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type);
cn_ptx_operand cn_ptx_result_wide(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
				  unsigned *ret_width);
/* An address: its base, as a register or constant, and what is added to it. */
cn_ptx_operand cn_ptx_address(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_space space,
			      unsigned *ret_width, int64_t *ret_offset);

/* ---- Builders: of an instruction whose text has been read -------------------------------------------------------- */

struct cn_ptx_inst *cn_ptx_emit(struct cn_ptx_parser *parser, enum cn_ptx_kind kind);
void cn_ptx_emit_kernel(struct cn_ptx_parser *parser, enum cn_ptx_kernel_index kernel, const cn_ptx_operand operands[4],
			uint32_t detail);
/* widths: of d, a, b, c; 0: it has no such operand. */
void cn_ptx_emit_lane(struct cn_ptx_parser *parser, cn_ptx_lane *lane, const cn_ptx_operand operands[4],
		      const uint8_t widths[4], uint32_t detail);
_Noreturn void cn_ptx_unsupported(struct cn_ptx_parser *parser);
enum cn_ptx_type cn_ptx_only_type(struct cn_ptx_parser *parser);
void cn_ptx_want(struct cn_ptx_parser *parser, unsigned least, unsigned most);

struct cn_ptx_opcode {
	const char *name;
	void (*build)(struct cn_ptx_parser *parser);
	uint32_t allowed;
	uint32_t detail; /* for builders of several opcodes */
};
extern const struct cn_ptx_opcode cn_ptx_opcodes[];

void cn_ptx_build_arithmetic(struct cn_ptx_parser *parser);
void cn_ptx_build_integer(struct cn_ptx_parser *parser);
void cn_ptx_build_bits(struct cn_ptx_parser *parser);
void cn_ptx_build_approximation(struct cn_ptx_parser *parser);
void cn_ptx_build_compare(struct cn_ptx_parser *parser);
void cn_ptx_build_select(struct cn_ptx_parser *parser);
void cn_ptx_build_move(struct cn_ptx_parser *parser);
void cn_ptx_build_convert(struct cn_ptx_parser *parser);
void cn_ptx_build_address(struct cn_ptx_parser *parser);
void cn_ptx_build_load(struct cn_ptx_parser *parser);
void cn_ptx_build_store(struct cn_ptx_parser *parser);
void cn_ptx_build_atomic(struct cn_ptx_parser *parser);
void cn_ptx_build_copy(struct cn_ptx_parser *parser);
void cn_ptx_build_policy(struct cn_ptx_parser *parser);
void cn_ptx_build_branch(struct cn_ptx_parser *parser);
void cn_ptx_build_end(struct cn_ptx_parser *parser);
void cn_ptx_build_barrier(struct cn_ptx_parser *parser);
void cn_ptx_build_warp(struct cn_ptx_parser *parser);
void cn_ptx_build_mbarrier(struct cn_ptx_parser *parser);
/* One of these instructions: the address is an operand, and so may be the result and the number. */
void cn_ptx_emit_mbarrier(struct cn_ptx_parser *parser, enum cn_ptx_mbarrier op, const struct cn_ptx_value *address,
			  const struct cn_ptx_value *result, const struct cn_ptx_value *number);
void cn_ptx_build_other(struct cn_ptx_parser *parser);
void cn_ptx_build_carry(struct cn_ptx_parser *parser);
const struct cn_ptx_opcode *cn_ptx_opcode_now(struct cn_ptx_parser *parser);

/* ptx_body.c */
void cn_ptx_body_read(struct cn_ptx_parser *parser);
/* ptx_call.c: a call has a syntax of its own. */
void cn_ptx_call_read(struct cn_ptx_parser *parser);

/*
 * ptx_parse.c: what load() calls with text: the names of the module, and where its functions' bodies are. The text must
 * stay as long as the module, which is the caller's, also when it fails.
 */
enum cn_ptx_error_code cn_ptx_parse(struct cn_ptx_module *module, const char *text, size_t bytes,
				    struct cn_ptx_error *error);
/* Read a function's body. The caller holds `building`. */
enum cn_ptx_error_code cn_ptx_parse_body(struct cn_ptx_module *module, uint32_t function, struct cn_ptx_error *error);
void cn_ptx_parser_free(struct cn_ptx_parser *parser);

/* A copy of a part of the text, which has no zero at its end; NULL: no memory. */
char *cn_ptx_copy_text(const char *text, size_t length);

#endif
