/* SPDX-License-Identifier: MIT */
/*
 * Loads, stores and addresses.
 *
 * The lanes' addresses are computed first, and checked for what can be known: the bounds of shared memory, alignment.
 * Whether other memory is there shows when it is touched (base/guard.h); addresses[] then tells which lane it was.
 */
#include "ptx/ptx_block.h"

#include <string.h>

static bool check_lanes(struct cn_ptx_block *block, unsigned bytes, bool is_shared, uint64_t base)
{
	CN_PTX_EACH(&block->active, i)
	{
		uint64_t address = block->addresses[i] - base;

		if (is_shared && (address > block->shared_bytes || bytes > block->shared_bytes - address))
			return cn_ptx_fault_at(block, CN_PTX_ILLEGAL_ADDRESS, i, address);
		if (address & (bytes - 1))
			return cn_ptx_fault_at(block, CN_PTX_MISALIGNED_ADDRESS, i, address);
	}
	return true;
}

/* Fill addresses[] with host addresses of the active lanes: those in an operand, and an offset. */
static bool find_addresses_of(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, unsigned operand,
			      int64_t offset, bool is_shared, unsigned bytes)
{
	const struct cn_ptx_lanes *active = &block->active;
	size_t width = inst->width[operand];
	uint64_t bits, most, base = is_shared ? (uint64_t)(uintptr_t)block->shared : 0;

	block->build->addresses(block->addresses + active->low,
				cn_ptx_at(block, inst->operand[operand]) + active->low * width, width, offset, base,
				active->high - active->low, &bits, &most);
	/* Lanes that take no part may hold anything: look at those that do before there is a fault. */
	if (((bits & (bytes - 1)) ||
	     (is_shared && (most > block->shared_bytes || bytes > block->shared_bytes - most))) &&
	    !check_lanes(block, bytes, is_shared, base))
		return false;
	block->accesses = true;
	return true;
}

bool cn_ptx_find_addresses(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, unsigned bytes)
{
	return find_addresses_of(block, inst, 1, inst->offset, inst->space == CN_PTX_SHARED, bytes);
}

/* Tell of what the lanes are about to use; their addresses are found. What lies in one row is one run. */
static void touch_lanes(const struct cn_ptx_block *block, uint64_t bytes, enum cn_ptx_touch how)
{
	uint64_t begin = 0, end = 0, own = (uint64_t)(uintptr_t)block->memory;

	CN_PTX_EACH(&block->active, i)
	{
		uint64_t address = block->addresses[i];

		if (address - own < block->memory_bytes)
			continue;
		if (address < begin || address > end) {
			if (end > begin)
				block->launch.touch(block->launch.data, begin, end - begin, how);
			begin = address;
			end = address;
		}
		end = address + bytes > end ? address + bytes : end;
	}
	if (end > begin)
		block->launch.touch(block->launch.data, begin, end - begin, how);
}

static void touch(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint64_t bytes,
		  enum cn_ptx_touch how)
{
	if (block->launch.touch && inst->space != CN_PTX_SHARED)
		touch_lanes(block, bytes, how);
}

/*
 * Volatile, relaxed, acquire and release: each lane's access is one access of the processor's. What orders more than
 * that is a fence. Of shared memory none has to be ordered: the block's lanes alone use it, in one thread.
 */
static bool is_ordered(const struct cn_ptx_inst *inst)
{
	return inst->flag && inst->space != CN_PTX_SHARED;
}

CN_PTX_FOLLOWS static uint64_t load_ordered(uint64_t address, unsigned bytes)
{
	const void *at = (const void *)(uintptr_t)address;

	switch (bytes) {
	case 1: return __atomic_load_n((const uint8_t *)at, __ATOMIC_ACQUIRE);
	case 2: return __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
	case 4: return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
	default: return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	}
}

/*
 * How a type in memory and the width of a register make a case of a switch. The names of types in the macros below are
 * no expressions, and a signed char is widened with its sign. NOLINTBEGIN(bugprone-*)
 */
#define PAIR(is_signed, bytes, width) ((unsigned)(is_signed) << 8 | (bytes) << 4 | (width))

#define LOAD_CASE(is_signed, memory, width, value)                                                   \
	case PAIR(is_signed, sizeof(memory), width):                                                 \
		CN_PTX_EACH(active, i)                                                               \
		{                                                                                    \
			const memory *at = (const memory *)(uintptr_t)(block->addresses[i] + shift); \
			((value *)d)[i] = *at;                                                       \
		}                                                                                    \
		break;

CN_PTX_FOLLOWS static void load_each(const struct cn_ptx_block *block, char *d, unsigned pair, unsigned shift)
{
	const struct cn_ptx_lanes *active = &block->active;

	switch (pair) {
		LOAD_CASE(0, uint8_t, 1, uint8_t)
		LOAD_CASE(0, uint8_t, 2, uint16_t)
		LOAD_CASE(0, uint8_t, 4, uint32_t)
		LOAD_CASE(0, uint8_t, 8, uint64_t)
		LOAD_CASE(1, int8_t, 1, int8_t)
		LOAD_CASE(1, int8_t, 2, int16_t)
		LOAD_CASE(1, int8_t, 4, int32_t)
		LOAD_CASE(1, int8_t, 8, int64_t)
		LOAD_CASE(0, uint16_t, 2, uint16_t)
		LOAD_CASE(0, uint16_t, 4, uint32_t)
		LOAD_CASE(0, uint16_t, 8, uint64_t)
		LOAD_CASE(1, int16_t, 2, int16_t)
		LOAD_CASE(1, int16_t, 4, int32_t)
		LOAD_CASE(1, int16_t, 8, int64_t)
		LOAD_CASE(0, uint32_t, 4, uint32_t)
		LOAD_CASE(0, uint32_t, 8, uint64_t)
		LOAD_CASE(1, int32_t, 4, int32_t)
		LOAD_CASE(1, int32_t, 8, int64_t)
		LOAD_CASE(0, uint64_t, 8, uint64_t)
		LOAD_CASE(1, int64_t, 8, int64_t)
	default: break; /* a register is as wide as its type, or wider, and has 8 bytes at most */
	}
}

static void load_part(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, cn_ptx_operand place, unsigned width,
		      unsigned shift)
{
	const struct cn_ptx_lanes *active = &block->active;
	unsigned bytes = cn_ptx_type_bytes(inst->type), sign = 64 - 8 * bytes;
	bool is_signed = cn_ptx_type_is_signed(inst->type);
	char *d = cn_ptx_at(block, place);

	if (!is_ordered(inst)) {
		if (active->dense && width == bytes && bytes >= 4)
			block->build->gather(d + (size_t)active->low * width, block->addresses + active->low, shift,
					     active->high - active->low, width);
		else
			load_each(block, d, PAIR(is_signed, bytes, width), shift);
		return;
	}
	CN_PTX_EACH(active, i)
	{
		uint64_t value = load_ordered(block->addresses[i] + shift, bytes);

		if (is_signed)
			value = (uint64_t)((int64_t)(value << sign) >> sign);
		cn_ptx_write(d, i, width, value);
	}
}

bool cn_ptx_run_load(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	unsigned bytes = cn_ptx_type_bytes(inst->type);
	const uint32_t *parts = block->here->more + inst->more;

	if (!cn_ptx_find_addresses(block, inst, bytes * inst->count))
		return false;
	touch(block, inst, (uint64_t)bytes * inst->count, is_ordered(inst) ? CN_PTX_COMMUNICATES : CN_PTX_READS);
	if (inst->operand[0] != CN_PTX_NONE)
		load_part(block, inst, inst->operand[0], inst->width[0], 0);
	else
		for (unsigned i = 0; i < inst->count; i++)
			load_part(block, inst, (cn_ptx_operand)parts[2 * i], parts[2 * i + 1], i * bytes);
	return true;
}

CN_PTX_FOLLOWS static void store_ordered(uint64_t address, unsigned bytes, uint64_t value)
{
	void *at = (void *)(uintptr_t)address;

	switch (bytes) {
	case 1: __atomic_store_n((uint8_t *)at, (uint8_t)value, __ATOMIC_RELEASE); break;
	case 2: __atomic_store_n((uint16_t *)at, (uint16_t)value, __ATOMIC_RELEASE); break;
	case 4: __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE); break;
	default: __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE); break;
	}
}

#define STORE_CASE(memory, width, value)                                                 \
	case PAIR(0, sizeof(memory), width):                                             \
		CN_PTX_EACH(active, i)                                                   \
		{                                                                        \
			memory *at = (memory *)(uintptr_t)(block->addresses[i] + shift); \
			*at = (memory)((const value *)from)[i];                          \
		}                                                                        \
		break;

CN_PTX_FOLLOWS static void store_each(const struct cn_ptx_block *block, const char *from, unsigned pair, unsigned shift)
{
	const struct cn_ptx_lanes *active = &block->active;

	switch (pair) {
		STORE_CASE(uint8_t, 1, uint8_t)
		STORE_CASE(uint8_t, 2, uint16_t)
		STORE_CASE(uint8_t, 4, uint32_t)
		STORE_CASE(uint8_t, 8, uint64_t)
		STORE_CASE(uint16_t, 2, uint16_t)
		STORE_CASE(uint16_t, 4, uint32_t)
		STORE_CASE(uint16_t, 8, uint64_t)
		STORE_CASE(uint32_t, 4, uint32_t)
		STORE_CASE(uint32_t, 8, uint64_t)
		STORE_CASE(uint64_t, 8, uint64_t)
	default: break; /* a register is as wide as its type, or wider, and has 8 bytes at most */
	}
}

/* NOLINTEND(bugprone-*) */

static void store_part(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, cn_ptx_operand place, unsigned width,
		       unsigned shift)
{
	const struct cn_ptx_lanes *active = &block->active;
	unsigned bytes = cn_ptx_type_bytes(inst->type);
	const char *from = cn_ptx_at(block, place);

	if (!is_ordered(inst)) {
		if (active->dense && width == bytes && bytes >= 4)
			block->build->scatter(block->addresses + active->low, shift, from + (size_t)active->low * width,
					      active->high - active->low, width);
		else
			store_each(block, from, PAIR(0, bytes, width), shift);
		return;
	}
	CN_PTX_EACH(active, i)
	{
		store_ordered(block->addresses[i] + shift, bytes, cn_ptx_read(from, i, width));
	}
}

bool cn_ptx_run_store(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	unsigned bytes = cn_ptx_type_bytes(inst->type);
	const uint32_t *parts = block->here->more + inst->more;

	if (!cn_ptx_find_addresses(block, inst, bytes * inst->count))
		return false;
	touch(block, inst, (uint64_t)bytes * inst->count, is_ordered(inst) ? CN_PTX_COMMUNICATES : CN_PTX_WRITES);
	if (inst->operand[0] != CN_PTX_NONE)
		store_part(block, inst, inst->operand[0], inst->width[0], 0);
	else
		for (unsigned i = 0; i < inst->count; i++)
			store_part(block, inst, (cn_ptx_operand)parts[2 * i], parts[2 * i + 1], i * bytes);
	return true;
}

/* cp.async: done at once, so that there is nothing to wait for. */
bool cn_ptx_run_copy(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	unsigned bytes = inst->count;

	if (!cn_ptx_find_addresses(block, inst, bytes))
		return false;
	CN_PTX_EACH(&block->active, i)
	{
		char *kept = block->scratch + (size_t)i * CN_PTX_SCRATCH_BYTES;
		uint64_t count =
			inst->operand[3] == CN_PTX_NONE ? bytes : cn_ptx_lane_value(block, inst->operand[3], 4, i);

		memset(kept, 0, CN_PTX_SCRATCH_BYTES);
		if (count && block->launch.touch)
			block->launch.touch(block->launch.data, block->addresses[i], count < bytes ? count : bytes,
					    CN_PTX_READS);
		if (count)
			memcpy(kept, (const void *)(uintptr_t)block->addresses[i], count < bytes ? count : bytes);
	}
	if (!find_addresses_of(block, inst, 2, (int32_t)inst->detail, true, bytes))
		return false;
	CN_PTX_EACH(&block->active, i)
	{
		memcpy((void *)(uintptr_t)block->addresses[i], block->scratch + (size_t)i * CN_PTX_SCRATCH_BYTES,
		       bytes);
	}
	return true;
}

static bool is_in(uint64_t address, const char *start, size_t bytes)
{
	return address - (uint64_t)(uintptr_t)start < bytes;
}

bool cn_ptx_run_atomic(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	unsigned bytes = cn_ptx_type_bytes(inst->type);

	if (!cn_ptx_find_addresses(block, inst, bytes))
		return false;
	touch(block, inst, bytes, CN_PTX_COMMUNICATES);
	CN_PTX_EACH(&block->active, i)
	{
		uint64_t b = cn_ptx_lane_value(block, inst->operand[2], bytes, i);
		uint64_t c = inst->operand[3] == CN_PTX_NONE ? 0 : cn_ptx_lane_value(block, inst->operand[3], bytes, i);
		uint64_t old = cn_ptx_atomic((void *)(uintptr_t)block->addresses[i], inst->detail, inst->type, b, c,
					     is_in(block->addresses[i], block->shared, block->shared_bytes));

		if (inst->operand[0] != CN_PTX_NONE)
			cn_ptx_write(cn_ptx_at(block, inst->operand[0]), i, bytes, old);
	}
	return true;
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

static bool is_constant(const struct cn_ptx_block *block, uint64_t address)
{
	const struct cn_ptx_contents *contents = &block->module->contents;

	for (unsigned i = 0; i < contents->variable_count; i++) {
		const struct cn_ptx_variable *variable = &contents->variables[i];
		if (variable->constant &&
		    is_in(address, (const char *)block->launch.memory + variable->offset_bytes, variable->bytes))
			return true;
	}
	return false;
}

static bool is_in_space(const struct cn_ptx_block *block, uint64_t address, enum cn_ptx_space space)
{
	bool shared = is_in(address, block->shared, block->shared_bytes);
	bool local = is_in(address, block->local, (size_t)block->local_stride * block->lanes);
	bool parameter = is_in(address, block->parameters, block->kernel->parameter_bytes);

	switch (space) {
	case CN_PTX_SHARED: return shared;
	case CN_PTX_LOCAL: return local;
	case CN_PTX_PARAM: return parameter;
	case CN_PTX_CONST: return is_constant(block, address);
	case CN_PTX_GLOBAL: return !shared && !local && !is_constant(block, address);
	default: return false;
	}
}

void cn_ptx_run_address(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	char *d = cn_ptx_at(block, inst->operand[0]);
	const uint64_t *a =
		(const uint64_t *)(inst->operand[1] == CN_PTX_NONE ? d : cn_ptx_at(block, inst->operand[1]));
	uint64_t shared = (uint64_t)(uintptr_t)block->shared, local = (uint64_t)(uintptr_t)block->local, value;

	CN_PTX_EACH(&block->active, i)
	{
		switch (inst->kind) {
		case CN_PTX_I_LOCAL_ADDRESS:
			value = local + (uint64_t)i * block->local_stride + block->local_at[i] + (uint64_t)inst->offset;
			break;
		case CN_PTX_I_PARAM_ADDRESS:
			value = (uint64_t)(uintptr_t)a + (uint64_t)i * inst->detail + (uint64_t)inst->offset;
			break;
		case CN_PTX_I_GENERIC_SHARED: value = inst->detail ? a[i] - shared : a[i] + shared; break;
		default: cn_ptx_write(d, i, 1, is_in_space(block, a[i], inst->detail)); continue;
		}
		cn_ptx_write(d, i, 8, value);
	}
}
