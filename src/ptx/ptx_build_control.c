/* SPDX-License-Identifier: MIT */
/*
 * Builders of branches, ends, barriers, and what the threads of a warp do together.
 */
#include "ptx/ptx_build.h"

static cn_ptx_operand source(struct cn_ptx_parser *parser, unsigned index, enum cn_ptx_type type)
{
	return cn_ptx_source(parser, &parser->args[index].value, type);
}

static unsigned mode(const struct cn_ptx_parser *parser, unsigned index)
{
	return index < parser->mods.mode_count ? parser->mods.modes[index] : (unsigned)CN_PTX_MODE_NONE;
}

void cn_ptx_build_branch(struct cn_ptx_parser *parser)
{
	bool is_indexed = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_BRX;
	const struct cn_ptx_value *target = &parser->args[is_indexed].value;
	const struct cn_ptx_symbol *symbol = target->symbol;
	struct cn_ptx_inst *inst;
	cn_ptx_operand index;

	cn_ptx_want(parser, is_indexed ? 2 : 1, is_indexed ? 2 : 1);
	if (!is_indexed) {
		if (!target->name || (symbol && symbol->kind != CN_PTX_SYM_LABEL))
			cn_ptx_fail(parser, CN_PTX_INVALID, "a branch to something that is no label");
		cn_ptx_emit(parser, CN_PTX_I_BRANCH);
		cn_ptx_label_use(parser, target->name, target->length, false, cn_ptx_current(parser)->code_count - 1);
		return;
	}
	if (!symbol || symbol->kind != CN_PTX_SYM_TARGETS) {
		cn_ptx_fail(parser, CN_PTX_INVALID, "brx.idx without .branchtargets before it");
		return;
	}
	index = source(parser, 0, CN_PTX_U32);
	inst = cn_ptx_emit(parser, CN_PTX_I_BRANCH_INDEX);
	inst->operand[1] = index;
	inst->more = (uint32_t)symbol->value;
	inst->detail = symbol->bytes;
}

void cn_ptx_build_end(struct cn_ptx_parser *parser)
{
	bool is_return = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_RET && !cn_ptx_current(parser)->is_kernel;

	cn_ptx_want(parser, 0, 0);
	cn_ptx_emit(parser, is_return ? CN_PTX_I_RETURN : CN_PTX_I_EXIT);
}

void cn_ptx_build_other(struct cn_ptx_parser *parser)
{
	struct cn_ptx_inst *inst;

	switch (cn_ptx_opcode_now(parser)->detail) {
	case CN_PTX_O_FENCE: cn_ptx_emit(parser, CN_PTX_I_FENCE); break;
	case CN_PTX_O_TRAP: cn_ptx_emit(parser, CN_PTX_I_TRAP); break;
	case CN_PTX_O_BREAK: cn_ptx_emit(parser, CN_PTX_I_BREAK); break;
	case CN_PTX_O_SLEEP: {
		cn_ptx_operand time;

		cn_ptx_want(parser, 1, 1);
		time = source(parser, 0, CN_PTX_U32);
		inst = cn_ptx_emit(parser, CN_PTX_I_SLEEP);
		inst->operand[1] = time;
		break;
	}
	default: cn_ptx_emit(parser, CN_PTX_I_NOTHING); break;
	}
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */

static void build_warp_barrier(struct cn_ptx_parser *parser)
{
	struct cn_ptx_inst *inst;
	cn_ptx_operand members;

	cn_ptx_want(parser, 1, 1);
	members = source(parser, 0, CN_PTX_B32);
	inst = cn_ptx_emit(parser, CN_PTX_I_WARP_BARRIER);
	inst->operand[CN_PTX_MEMBERS] = members;
}

/* bar.red.popc.u32 d, a {, b}, c; bar.red.and.pred p, a {, b}, c; */
static void build_reduction(struct cn_ptx_parser *parser)
{
	bool counts = mode(parser, 1) == CN_PTX_MODE_POPC;
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	cn_ptx_operand number, threads = CN_PTX_NONE, predicate, d;
	struct cn_ptx_inst *inst;

	cn_ptx_want(parser, 3, 4);
	if ((counts ? type != CN_PTX_U32 : type != CN_PTX_PRED) || (!counts && parser->mods.op > CN_PTX_OP_OR))
		cn_ptx_unsupported(parser);
	number = source(parser, 1, CN_PTX_U32);
	if (parser->arg_count == 4)
		threads = source(parser, 2, CN_PTX_U32);
	predicate = source(parser, parser->arg_count - 1, CN_PTX_PRED);
	d = cn_ptx_result(parser, &parser->args[0].value, type);
	inst = cn_ptx_emit(parser, CN_PTX_I_BARRIER);
	inst->operand[0] = d;
	inst->width[0] = counts ? 4 : 1;
	inst->operand[1] = number;
	inst->operand[2] = threads;
	inst->operand[3] = predicate;
	inst->detail = counts ? CN_PTX_BAR_POPC : parser->mods.op == CN_PTX_OP_AND ? CN_PTX_BAR_AND : CN_PTX_BAR_OR;
}

void cn_ptx_build_barrier(struct cn_ptx_parser *parser)
{
	bool arrives = mode(parser, 0) == CN_PTX_MODE_ARRIVE;
	cn_ptx_operand number, threads = CN_PTX_NONE;
	struct cn_ptx_inst *inst;

	if (parser->mods.scope > 1)
		cn_ptx_unsupported(parser);
	if (mode(parser, 0) == CN_PTX_MODE_WARP) {
		build_warp_barrier(parser);
		return;
	}
	if (mode(parser, 0) == CN_PTX_MODE_RED) {
		build_reduction(parser);
		return;
	}
	if (!arrives && !parser->mods.sync)
		cn_ptx_unsupported(parser);
	cn_ptx_want(parser, arrives ? 2 : 1, 2);
	number = source(parser, 0, CN_PTX_U32);
	if (parser->arg_count == 2)
		threads = source(parser, 1, CN_PTX_U32);
	inst = cn_ptx_emit(parser, CN_PTX_I_BARRIER);
	inst->operand[1] = number;
	inst->operand[2] = threads;
	inst->detail = arrives ? CN_PTX_BAR_ARRIVE : CN_PTX_BAR_SYNC;
}

/* ---- Warps ------------------------------------------------------------------------------------------------------- */

/* Without .sync, which old PTX does not have, they are those that happen to be there. */
static cn_ptx_operand members_of(struct cn_ptx_parser *parser, unsigned index)
{
	return parser->mods.sync ? source(parser, index, CN_PTX_B32)
				 : cn_ptx_constant(parser, CN_PTX_C_BITS, UINT32_MAX, 4, false);
}

static void build_shuffle(struct cn_ptx_parser *parser)
{
	unsigned how = mode(parser, 0);
	cn_ptx_operand operands[CN_PTX_OPERANDS];
	struct cn_ptx_inst *inst;

	cn_ptx_want(parser, parser->mods.sync ? 5 : 4, parser->mods.sync ? 5 : 4);
	if (how < CN_PTX_MODE_UP || how > CN_PTX_MODE_IDX || cn_ptx_type_bytes(cn_ptx_only_type(parser)) != 4)
		cn_ptx_unsupported(parser);
	for (unsigned i = 1; i < 4; i++)
		operands[i] = source(parser, i, CN_PTX_B32);
	operands[CN_PTX_MEMBERS] = members_of(parser, 4);
	operands[0] = cn_ptx_result(parser, &parser->args[0].value, CN_PTX_B32);
	operands[4] =
		parser->args[0].has_second ? cn_ptx_result(parser, &parser->args[0].second, CN_PTX_PRED) : CN_PTX_NONE;
	inst = cn_ptx_emit(parser, CN_PTX_I_SHUFFLE);
	for (unsigned i = 0; i < CN_PTX_OPERANDS; i++)
		inst->operand[i] = operands[i];
	inst->detail = how - CN_PTX_MODE_UP;
	inst->flag = !parser->mods.sync;
}

/* d, a, members: votes, matches and reductions. */
static void build_collective(struct cn_ptx_parser *parser, enum cn_ptx_kind kind, enum cn_ptx_type result,
			     enum cn_ptx_type type, uint32_t detail)
{
	bool is_pair = parser->args[0].has_second;
	cn_ptx_operand a, members, d, second = CN_PTX_NONE;
	struct cn_ptx_inst *inst;

	cn_ptx_want(parser, parser->mods.sync ? 3 : 2, parser->mods.sync ? 3 : 2);
	a = source(parser, 1, type);
	members = members_of(parser, 2);
	d = cn_ptx_result(parser, &parser->args[0].value, result);
	if (is_pair)
		second = cn_ptx_result(parser, &parser->args[0].second, CN_PTX_PRED);
	inst = cn_ptx_emit(parser, kind);
	inst->operand[0] = d;
	inst->width[0] = (uint8_t)cn_ptx_type_bytes(result);
	inst->operand[1] = a;
	inst->width[1] = (uint8_t)cn_ptx_type_bytes(type);
	inst->operand[4] = second;
	inst->operand[CN_PTX_MEMBERS] = members;
	inst->type = (uint8_t)type;
	inst->detail = detail;
	inst->flag = !parser->mods.sync;
}

static void build_redux(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned op = parser->mods.op;
	bool known = op == CN_PTX_OP_ADD || op == CN_PTX_OP_MIN || op == CN_PTX_OP_MAX || op <= CN_PTX_OP_XOR;

	if (!known || cn_ptx_type_is_float(type) || cn_ptx_type_bytes(type) != 4)
		cn_ptx_unsupported(parser);
	build_collective(parser, CN_PTX_I_REDUX, type, type, op);
}

void cn_ptx_build_warp(struct cn_ptx_parser *parser)
{
	unsigned op = cn_ptx_opcode_now(parser)->detail;
	enum cn_ptx_type type = parser->mods.type_count ? parser->mods.types[0] : CN_PTX_B32;
	struct cn_ptx_inst *inst;
	cn_ptx_operand d, members;

	if (op != CN_PTX_O_ACTIVEMASK && op != CN_PTX_O_SHFL && op != CN_PTX_O_VOTE && !parser->mods.sync)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "instruction %s without .sync is not supported",
			    parser->opcode);
	switch (op) {
	case CN_PTX_O_SHFL: build_shuffle(parser); break;
	case CN_PTX_O_VOTE:
		build_collective(parser, CN_PTX_I_VOTE,
				 parser->mods.vote == CN_PTX_VOTE_BALLOT ? CN_PTX_B32 : CN_PTX_PRED, CN_PTX_PRED,
				 parser->mods.vote);
		break;
	case CN_PTX_O_MATCH:
		if (cn_ptx_type_bytes(type) < 4 ||
		    (parser->mods.vote != CN_PTX_VOTE_ALL && parser->mods.vote != CN_PTX_VOTE_ANY))
			cn_ptx_unsupported(parser);
		build_collective(parser, CN_PTX_I_MATCH, CN_PTX_B32, type, parser->mods.vote);
		break;
	case CN_PTX_O_REDUX: build_redux(parser); break;
	case CN_PTX_O_ACTIVEMASK:
		cn_ptx_want(parser, 1, 1);
		d = cn_ptx_result(parser, &parser->args[0].value, CN_PTX_B32);
		inst = cn_ptx_emit(parser, CN_PTX_I_ACTIVE_MASK);
		inst->operand[0] = d;
		break;
	default:
		cn_ptx_want(parser, 2, 2);
		members = source(parser, 1, CN_PTX_B32);
		d = cn_ptx_result(parser, &parser->args[0].value, CN_PTX_B32);
		inst = cn_ptx_emit(parser, CN_PTX_I_ELECT);
		inst->operand[0] = d;
		inst->operand[4] = parser->args[0].has_second
					   ? cn_ptx_result(parser, &parser->args[0].second, CN_PTX_PRED)
					   : CN_PTX_NONE;
		inst->operand[CN_PTX_MEMBERS] = members;
		break;
	}
}

/* ---- Barriers in shared memory ----------------------------------------------------------------------------------- */

void cn_ptx_emit_mbarrier(struct cn_ptx_parser *parser, enum cn_ptx_mbarrier op, const struct cn_ptx_value *address,
			  const struct cn_ptx_value *result, const struct cn_ptx_value *number)
{
	bool is_wait = op == CN_PTX_MBAR_TEST || op == CN_PTX_MBAR_TEST_PARITY;
	enum cn_ptx_type type = op == CN_PTX_MBAR_TEST ? CN_PTX_B64 : CN_PTX_B32;
	cn_ptx_operand at, second = CN_PTX_NONE, d = CN_PTX_NONE;
	unsigned width;
	int64_t offset;
	struct cn_ptx_inst *inst;

	at = cn_ptx_address(parser, address, parser->mods.space, &width, &offset);
	if (number)
		second = cn_ptx_source(parser, number, type);
	if (result)
		d = cn_ptx_result(parser, result, is_wait ? CN_PTX_PRED : CN_PTX_B64);
	inst = cn_ptx_emit(parser, CN_PTX_I_MBARRIER);
	inst->operand[0] = d;
	inst->width[0] = is_wait ? 1 : 8;
	inst->operand[1] = at;
	inst->width[1] = (uint8_t)width;
	inst->offset = offset;
	inst->operand[2] = second;
	inst->width[2] = (uint8_t)cn_ptx_type_bytes(type);
	inst->space = (uint8_t)(parser->mods.space == CN_PTX_SHARED ? CN_PTX_SHARED : CN_PTX_GENERIC);
	inst->detail = op;
}

static enum cn_ptx_mbarrier mbarrier_op(struct cn_ptx_parser *parser)
{
	switch (mode(parser, 0)) {
	case CN_PTX_MODE_INIT: return CN_PTX_MBAR_INIT;
	case CN_PTX_MODE_INVAL: return CN_PTX_MBAR_INVAL;
	case CN_PTX_MODE_ARRIVE:
		return mode(parser, 1) == CN_PTX_MODE_EXPECT ? CN_PTX_MBAR_ARRIVE_TX : CN_PTX_MBAR_ARRIVE;
	case CN_PTX_MODE_DROP:
		if (mode(parser, 1) == CN_PTX_MODE_EXPECT)
			cn_ptx_unsupported(parser);
		return CN_PTX_MBAR_DROP;
	case CN_PTX_MODE_EXPECT: return CN_PTX_MBAR_EXPECT_TX;
	case CN_PTX_MODE_COMPLETE: return CN_PTX_MBAR_COMPLETE_TX;
	case CN_PTX_MODE_TEST:
		return mode(parser, 1) == CN_PTX_MODE_PARITY ? CN_PTX_MBAR_TEST_PARITY : CN_PTX_MBAR_TEST;
	default: cn_ptx_unsupported(parser);
	}
}

void cn_ptx_build_mbarrier(struct cn_ptx_parser *parser)
{
	enum cn_ptx_mbarrier op = mbarrier_op(parser);
	const struct cn_ptx_value *first = &parser->args[0].value, *second = &parser->args[1].value,
				  *third = &parser->args[2].value;

	switch (op) {
	case CN_PTX_MBAR_INVAL:
		cn_ptx_want(parser, 1, 1);
		cn_ptx_emit_mbarrier(parser, op, first, NULL, NULL);
		break;
	case CN_PTX_MBAR_INIT:
	case CN_PTX_MBAR_EXPECT_TX:
	case CN_PTX_MBAR_COMPLETE_TX:
		cn_ptx_want(parser, 2, 2);
		cn_ptx_emit_mbarrier(parser, op, first, NULL, second);
		break;
	case CN_PTX_MBAR_TEST:
	case CN_PTX_MBAR_TEST_PARITY: /* the time that a thread may sleep is a hint */
		cn_ptx_want(parser, 3, 4);
		cn_ptx_emit_mbarrier(parser, op, second, first, third);
		break;
	default:
		cn_ptx_want(parser, op == CN_PTX_MBAR_ARRIVE_TX ? 3 : 2, 3);
		cn_ptx_emit_mbarrier(parser, op, second, first->kind == CN_PTX_A_SINK ? NULL : first,
				     parser->arg_count == 3 ? third : NULL);
	}
}
