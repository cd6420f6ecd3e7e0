/* SPDX-License-Identifier: MIT */
/*
 * The words of PTX: opcodes, modifiers, types and special registers, each found by a hash of its own.
 *
 * The opcodes' table says which classes of modifiers an opcode has. A modifier of another class is refused, so that
 * nothing that changes a result is passed over.
 */
#include "ptx/ptx_parse.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct word {
	const char *text;
	uint32_t class;
	unsigned value;
};

#define TYPE(text, value)                  \
	{                                  \
		text, CN_PTX_M_TYPE, value \
	}
#define COMPARE(text, value)                  \
	{                                     \
		text, CN_PTX_M_COMPARE, value \
	}
#define OP(text, value)                  \
	{                                \
		text, CN_PTX_M_OP, value \
	}
#define MODE(text, value)                  \
	{                                  \
		text, CN_PTX_M_MODE, value \
	}
#define CACHE(text)                     \
	{                               \
		text, CN_PTX_M_CACHE, 0 \
	}
#define OTHER(text)                     \
	{                               \
		text, CN_PTX_M_OTHER, 0 \
	}

static const struct word modifiers[] = {
	TYPE("pred", CN_PTX_PRED),
	TYPE("b8", CN_PTX_B8),
	TYPE("b16", CN_PTX_B16),
	TYPE("b32", CN_PTX_B32),
	TYPE("b64", CN_PTX_B64),
	TYPE("b128", CN_PTX_B128),
	TYPE("u8", CN_PTX_U8),
	TYPE("u16", CN_PTX_U16),
	TYPE("u32", CN_PTX_U32),
	TYPE("u64", CN_PTX_U64),
	TYPE("s8", CN_PTX_S8),
	TYPE("s16", CN_PTX_S16),
	TYPE("s32", CN_PTX_S32),
	TYPE("s64", CN_PTX_S64),
	TYPE("f16", CN_PTX_F16),
	TYPE("f16x2", CN_PTX_F16X2),
	TYPE("bf16", CN_PTX_BF16),
	TYPE("bf16x2", CN_PTX_BF16X2),
	TYPE("f32", CN_PTX_F32),
	TYPE("f64", CN_PTX_F64),
	TYPE("u16x2", CN_PTX_U16X2),
	TYPE("s16x2", CN_PTX_S16X2),
	TYPE("tf32", CN_PTX_TF32),
	TYPE("e4m3x2", CN_PTX_E4M3X2),
	TYPE("e5m2x2", CN_PTX_E5M2X2),
	{"rn", CN_PTX_M_ROUND, CN_PTX_RN},
	{"rz", CN_PTX_M_ROUND, CN_PTX_RZ},
	{"rm", CN_PTX_M_ROUND, CN_PTX_RM},
	{"rp", CN_PTX_M_ROUND, CN_PTX_RP},
	{"rna", CN_PTX_M_ROUND, CN_PTX_RNA},
	{"rni", CN_PTX_M_ROUND, CN_PTX_RNI},
	{"rzi", CN_PTX_M_ROUND, CN_PTX_RZI},
	{"rmi", CN_PTX_M_ROUND, CN_PTX_RMI},
	{"rpi", CN_PTX_M_ROUND, CN_PTX_RPI},
	{"ftz", CN_PTX_M_FTZ, 1},
	{"sat", CN_PTX_M_SAT, 1},
	{"lo", CN_PTX_M_HALF, CN_PTX_HALF_LO},
	{"hi", CN_PTX_M_HALF, CN_PTX_HALF_HI},
	{"wide", CN_PTX_M_HALF, CN_PTX_HALF_WIDE},
	{"approx", CN_PTX_M_APPROX, 1},
	{"full", CN_PTX_M_APPROX, 1},
	{"cc", CN_PTX_M_CC, 1},
	{"NaN", CN_PTX_M_NAN, 1},
	{"relu", CN_PTX_M_RELU, 1},
	{"noftz", CN_PTX_M_NOFTZ, 1},
	COMPARE("eq", CN_PTX_EQ),
	COMPARE("ne", CN_PTX_NE),
	COMPARE("lt", CN_PTX_LT),
	COMPARE("le", CN_PTX_LE),
	COMPARE("gt", CN_PTX_GT),
	COMPARE("ge", CN_PTX_GE),
	COMPARE("ls", CN_PTX_LS),
	COMPARE("hs", CN_PTX_HS),
	COMPARE("equ", CN_PTX_EQU),
	COMPARE("neu", CN_PTX_NEU),
	COMPARE("ltu", CN_PTX_LTU),
	COMPARE("leu", CN_PTX_LEU),
	COMPARE("gtu", CN_PTX_GTU),
	COMPARE("geu", CN_PTX_GEU),
	COMPARE("num", CN_PTX_NUM),
	COMPARE("nan", CN_PTX_NAN),
	OP("and", CN_PTX_OP_AND),
	OP("or", CN_PTX_OP_OR),
	OP("xor", CN_PTX_OP_XOR),
	OP("exch", CN_PTX_OP_EXCH),
	OP("cas", CN_PTX_OP_CAS),
	OP("add", CN_PTX_OP_ADD),
	OP("inc", CN_PTX_OP_INC),
	OP("dec", CN_PTX_OP_DEC),
	OP("min", CN_PTX_OP_MIN),
	OP("max", CN_PTX_OP_MAX),
	{"global", CN_PTX_M_SPACE, CN_PTX_GLOBAL},
	{"const", CN_PTX_M_SPACE, CN_PTX_CONST},
	{"shared", CN_PTX_M_SPACE, CN_PTX_SHARED},
	{"shared::cta", CN_PTX_M_SPACE, CN_PTX_SHARED},
	{"local", CN_PTX_M_SPACE, CN_PTX_LOCAL},
	{"param", CN_PTX_M_SPACE, CN_PTX_PARAM},
	{"param::entry", CN_PTX_M_SPACE, CN_PTX_PARAM},
	{"param::func", CN_PTX_M_SPACE, CN_PTX_PARAM},
	CACHE("ca"),
	CACHE("cg"),
	CACHE("cs"),
	CACHE("lu"),
	CACHE("cv"),
	CACHE("wb"),
	CACHE("wt"),
	CACHE("nc"),
	CACHE("unified"),
	CACHE("L1"),
	CACHE("L2"),
	CACHE("evict_first"),
	CACHE("evict_last"),
	CACHE("evict_normal"),
	{"cta", CN_PTX_M_SCOPE, 1},
	{"cluster", CN_PTX_M_SCOPE, 2},
	{"gpu", CN_PTX_M_SCOPE, 3},
	{"gl", CN_PTX_M_SCOPE, 3},
	{"sys", CN_PTX_M_SCOPE, 4},
	{"weak", CN_PTX_M_ORDER, CN_PTX_ORDER_WEAK},
	{"volatile", CN_PTX_M_ORDER, CN_PTX_ORDER_VOLATILE},
	{"relaxed", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"acquire", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"release", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"acq_rel", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"sc", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"mmio", CN_PTX_M_ORDER, CN_PTX_ORDER_STRONG},
	{"v2", CN_PTX_M_VECTOR, 2},
	{"v4", CN_PTX_M_VECTOR, 4},
	{"v8", CN_PTX_M_VECTOR, 8},
	{"sync", CN_PTX_M_SYNC, 1},
	{"aligned", CN_PTX_M_SYNC, 0},
	{"all", CN_PTX_M_VOTE, CN_PTX_VOTE_ALL},
	{"any", CN_PTX_M_VOTE, CN_PTX_VOTE_ANY},
	{"ballot", CN_PTX_M_VOTE, CN_PTX_VOTE_BALLOT},
	{"uni", CN_PTX_M_VOTE, CN_PTX_VOTE_UNI},
	MODE("to", CN_PTX_MODE_TO),
	MODE("up", CN_PTX_MODE_UP),
	MODE("down", CN_PTX_MODE_DOWN),
	MODE("bfly", CN_PTX_MODE_BFLY),
	MODE("idx", CN_PTX_MODE_IDX),
	MODE("l", CN_PTX_MODE_L),
	MODE("r", CN_PTX_MODE_R),
	MODE("clamp", CN_PTX_MODE_CLAMP),
	MODE("wrap", CN_PTX_MODE_WRAP),
	MODE("f4e", CN_PTX_MODE_F4E),
	MODE("b4e", CN_PTX_MODE_B4E),
	MODE("rc8", CN_PTX_MODE_RC8),
	MODE("ecl", CN_PTX_MODE_ECL),
	MODE("ecr", CN_PTX_MODE_ECR),
	MODE("rc16", CN_PTX_MODE_RC16),
	MODE("finite", CN_PTX_MODE_FINITE),
	MODE("infinite", CN_PTX_MODE_INFINITE),
	MODE("number", CN_PTX_MODE_NUMBER),
	MODE("notanumber", CN_PTX_MODE_NOTANUMBER),
	MODE("normal", CN_PTX_MODE_NORMAL),
	MODE("subnormal", CN_PTX_MODE_SUBNORMAL),
	MODE("shiftamt", CN_PTX_MODE_SHIFTAMT),
	MODE("arrive", CN_PTX_MODE_ARRIVE),
	MODE("red", CN_PTX_MODE_RED),
	MODE("popc", CN_PTX_MODE_POPC),
	MODE("warp", CN_PTX_MODE_WARP),
	OTHER("shared::cluster"),
	OTHER("satfinite"),
	OTHER("xorsign"),
	OTHER("abs"),
	OTHER("const_bank"),
	MODE("async", CN_PTX_MODE_ASYNC),
	MODE("commit_group", CN_PTX_MODE_GROUP),
	MODE("wait_group", CN_PTX_MODE_GROUP),
	MODE("wait_all", CN_PTX_MODE_GROUP),
	MODE("mbarrier", CN_PTX_MODE_MBARRIER),
	MODE("init", CN_PTX_MODE_INIT),
	MODE("inval", CN_PTX_MODE_INVAL),
	MODE("arrive_drop", CN_PTX_MODE_DROP),
	MODE("expect_tx", CN_PTX_MODE_EXPECT),
	MODE("complete_tx", CN_PTX_MODE_COMPLETE),
	MODE("test_wait", CN_PTX_MODE_TEST),
	MODE("try_wait", CN_PTX_MODE_TEST),
	MODE("parity", CN_PTX_MODE_PARITY),
	MODE("noinc", CN_PTX_MODE_NOINC),
	MODE("noComplete", CN_PTX_MODE_IGNORED),
	MODE("launch_dependents", CN_PTX_MODE_IGNORED),
	MODE("wait", CN_PTX_MODE_IGNORED),
	MODE("fractional", CN_PTX_MODE_IGNORED),
	MODE("range", CN_PTX_MODE_IGNORED),
	OTHER("bulk"),
	OTHER("tensor"),
	OTHER("proxy"),
	OTHER("multimem"),
};

static const struct word specials[] = {
	{"%laneid", 0, CN_PTX_S_LANEID},
	{"%warpid", 0, CN_PTX_S_WARPID},
	{"%nwarpid", 0, CN_PTX_S_NWARPID},
	{"%smid", 0, CN_PTX_S_SMID},
	{"%nsmid", 0, CN_PTX_S_NSMID},
	{"%gridid", 0, CN_PTX_S_GRIDID},
	{"%lanemask_eq", 0, CN_PTX_S_LANEMASK_EQ},
	{"%lanemask_le", 0, CN_PTX_S_LANEMASK_LE},
	{"%lanemask_lt", 0, CN_PTX_S_LANEMASK_LT},
	{"%lanemask_ge", 0, CN_PTX_S_LANEMASK_GE},
	{"%lanemask_gt", 0, CN_PTX_S_LANEMASK_GT},
	{"%dynamic_smem_size", 0, CN_PTX_S_DYNAMIC_SMEM},
	{"%total_smem_size", 0, CN_PTX_S_TOTAL_SMEM},
	{"%aggr_smem_size", 0, CN_PTX_S_TOTAL_SMEM},
	{"%clock", 0, CN_PTX_S_CLOCK},
	{"%clock_hi", 0, CN_PTX_S_CLOCK_HI},
	{"%clock64", 0, CN_PTX_S_CLOCK64},
	{"%globaltimer", 0, CN_PTX_S_GLOBALTIMER},
	{"%globaltimer_lo", 0, CN_PTX_S_GLOBALTIMER_LO},
	{"%globaltimer_hi", 0, CN_PTX_S_GLOBALTIMER_HI},
	{"WARP_SZ", 0, CN_PTX_S_WARP_SZ},
	{"%is_explicit_cluster", 0, CN_PTX_S_ZERO},
	{"%cluster_ctarank", 0, CN_PTX_S_ZERO},
	{"%cluster_nctarank", 0, CN_PTX_S_ONE},
	{"%reserved_smem_offset_1", 0, CN_PTX_S_RESERVED_SMEM},
	{"%tid", 3, CN_PTX_S_TID},
	{"%ntid", 3, CN_PTX_S_NTID},
	{"%ctaid", 3, CN_PTX_S_CTAID},
	{"%nctaid", 3, CN_PTX_S_NCTAID},
	/* Each block is a cluster of its own. */
	{"%clusterid", 3, CN_PTX_S_CTAID},
	{"%nclusterid", 3, CN_PTX_S_NCTAID},
	{"%cluster_ctaid", 3, CN_PTX_S_ZEROS},
	{"%cluster_nctaid", 3, CN_PTX_S_ONES},
};

/* ---- Hashes ------------------------------------------------------------------------------------------------------ */

enum { SLOTS = 1024 };

static uint16_t modifier_slots[SLOTS], opcode_slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned hash(const char *text, uint32_t length)
{
	uint32_t value = 5381;

	for (uint32_t i = 0; i < length; i++)
		value = value * 33 + (unsigned char)text[i];
	return (value ^ value >> 11) % SLOTS;
}

static void insert(uint16_t *slots, const char *text, unsigned number)
{
	unsigned at = hash(text, (uint32_t)strlen(text));

	while (slots[at])
		at = (at + 1) % SLOTS;
	slots[at] = (uint16_t)number;
}

static void fill(void)
{
	for (unsigned i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
		insert(modifier_slots, modifiers[i].text, i + 1);
	for (unsigned i = 0; cn_ptx_opcodes[i].name; i++)
		insert(opcode_slots, cn_ptx_opcodes[i].name, i + 1);
}

const struct cn_ptx_opcode *cn_ptx_opcode_find(const char *name)
{
	pthread_once(&once, fill);
	for (unsigned at = hash(name, (uint32_t)strlen(name)); opcode_slots[at]; at = (at + 1) % SLOTS)
		if (!strcmp(cn_ptx_opcodes[opcode_slots[at] - 1].name, name))
			return &cn_ptx_opcodes[opcode_slots[at] - 1];
	return NULL;
}

static bool find_modifier(const char *text, uint32_t length, uint32_t *ret_class, unsigned *ret_value)
{
	pthread_once(&once, fill);
	/* .L1::evict_last, .level::eviction_priority: what is before the colons counts. */
	for (uint32_t i = 0; i + 1 < length; i++)
		if (text[i] == ':' && text[0] == 'L') {
			length = i;
			break;
		}
	for (unsigned at = hash(text, length); modifier_slots[at]; at = (at + 1) % SLOTS) {
		const struct word *word = &modifiers[modifier_slots[at] - 1];

		if (strlen(word->text) == length && !memcmp(word->text, text, length)) {
			*ret_class = word->class;
			*ret_value = word->value;
			return true;
		}
	}
	return false;
}

enum cn_ptx_type cn_ptx_type_find(const char *text, uint32_t length)
{
	uint32_t class;
	unsigned value;

	return find_modifier(text, length, &class, &value) && class == CN_PTX_M_TYPE ? (enum cn_ptx_type)value
										     : CN_PTX_NO_TYPE;
}

bool cn_ptx_special_find(const char *text, uint32_t length, unsigned *ret_special)
{
	for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
		if (strlen(specials[i].text) == length && !memcmp(specials[i].text, text, length)) {
			*ret_special = specials[i].value | specials[i].class << 16;
			return true;
		}
	if (length > 7 && length < 10 && !memcmp(text, "%envreg", 7)) {
		unsigned number = 0;

		for (uint32_t i = 7; i < length; i++) {
			if (text[i] < '0' || text[i] > '9')
				return false;
			number = number * 10 + (unsigned)(text[i] - '0');
		}
		*ret_special = CN_PTX_S_ENVIRONMENT + number;
		return number < 32;
	}
	return false;
}

unsigned cn_ptx_type_bytes(enum cn_ptx_type type)
{
	static const uint8_t bytes[CN_PTX_TYPE_COUNT] = {
		[CN_PTX_PRED] = 1,  [CN_PTX_B8] = 1,    [CN_PTX_B16] = 2,    [CN_PTX_B32] = 4,    [CN_PTX_B64] = 8,
		[CN_PTX_B128] = 16, [CN_PTX_U8] = 1,    [CN_PTX_U16] = 2,    [CN_PTX_U32] = 4,    [CN_PTX_U64] = 8,
		[CN_PTX_S8] = 1,    [CN_PTX_S16] = 2,   [CN_PTX_S32] = 4,    [CN_PTX_S64] = 8,    [CN_PTX_F16] = 2,
		[CN_PTX_F16X2] = 4, [CN_PTX_BF16] = 2,  [CN_PTX_BF16X2] = 4, [CN_PTX_F32] = 4,    [CN_PTX_F64] = 8,
		[CN_PTX_U16X2] = 4, [CN_PTX_S16X2] = 4, [CN_PTX_TF32] = 4,   [CN_PTX_E4M3X2] = 2, [CN_PTX_E5M2X2] = 2,
	};

	return bytes[type];
}

/* ---- The modifiers of an instruction ----------------------------------------------------------------------------- */

static void note(struct cn_ptx_parser *parser, uint32_t class, unsigned value)
{
	struct cn_ptx_modifiers *mods = &parser->mods;

	switch (class) {
	case CN_PTX_M_TYPE:
		if (mods->type_count == 4)
			cn_ptx_fail(parser, CN_PTX_INVALID, "%s with more than 4 types", parser->opcode);
		mods->types[mods->type_count++] = (uint8_t)value;
		break;
	case CN_PTX_M_ROUND: mods->rounding = (uint8_t)value; break;
	case CN_PTX_M_FTZ: mods->ftz = true; break;
	case CN_PTX_M_SAT: mods->sat = true; break;
	case CN_PTX_M_HALF: mods->half = (uint8_t)value; break;
	case CN_PTX_M_APPROX: mods->approx = true; break;
	case CN_PTX_M_CC: mods->cc = true; break;
	case CN_PTX_M_COMPARE: mods->compare = (uint8_t)value; break;
	case CN_PTX_M_OP:
		mods->op = (uint8_t)value;
		mods->has_op = true;
		break;
	case CN_PTX_M_SPACE:
		mods->space = (uint8_t)value;
		mods->space_count++;
		break;
	case CN_PTX_M_SCOPE: mods->scope = (uint8_t)value; break;
	case CN_PTX_M_ORDER:
		if (value > mods->order)
			mods->order = (uint8_t)value;
		break;
	case CN_PTX_M_VECTOR: mods->vector = (uint8_t)value; break;
	case CN_PTX_M_SYNC: mods->sync |= value; break;
	case CN_PTX_M_VOTE: mods->vote = (uint8_t)value; break;
	case CN_PTX_M_MODE:
		if (mods->mode_count == 4)
			cn_ptx_fail(parser, CN_PTX_INVALID, "%s with too many modifiers", parser->opcode);
		mods->modes[mods->mode_count++] = (uint8_t)value;
		break;
	case CN_PTX_M_NAN: mods->nan = true; break;
	case CN_PTX_M_RELU: mods->relu = true; break;
	case CN_PTX_M_NOFTZ: mods->noftz = true; break;
	default: break;
	}
	mods->classes |= class;
}

/* The token is a modifier of the opcode that was read. */
void cn_ptx_modifier_take(struct cn_ptx_parser *parser)
{
	const struct cn_ptx_token *token = &parser->token;
	const struct cn_ptx_opcode *opcode = cn_ptx_opcode_find(parser->opcode);
	uint32_t class = 0;
	unsigned value = 0;
	/* setp.lo compares: the same words mean halves of a product elsewhere. */
	bool is_set = !strcmp(parser->opcode, "set") || !strcmp(parser->opcode, "setp");
	bool is_known = find_modifier(token->text, token->length, &class, &value);

	if (is_set && class == CN_PTX_M_HALF) {
		class = CN_PTX_M_COMPARE;
		value = value == CN_PTX_HALF_LO ? CN_PTX_LO : CN_PTX_HI;
	}
	if (!is_known || !opcode || !(opcode->allowed & class))
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "instruction %s with .%.*s is not supported", parser->opcode,
			    cn_ptx_shown(token), token->text);
	note(parser, class, value);
}
