/* SPDX-License-Identifier: MIT */
/*
 * What the exporter and the importers of a pool share: three layouts, the same in every process.
 *
 * Only the exporter writes the control segment: which exports are live. Each ledger is written by one importer alone:
 * which of them it holds. Both have room for a fixed number of slots; pages that were never used do not exist. An
 * export is a slot and a generation, which is odd while the export is live. It grows by one when the export ends and by
 * one more when the slot is used again. A ledger has one bit for each slot, so that an exporter with many importers can
 * check 64 exports at once. A bit does not say which life of the slot it means, and need not: while one is held, there
 * is no next one. An importer that asks for a life that is over shows its bit for a moment, and may delay the present
 * life by that.
 *
 * A pool's memory comes in parts, which begin and end at multiples of CN_PART_BYTES. A part may lose its memory and get
 * other memory later. The control segment has a word for each CN_PART_BYTES of the range: the serial of the memory in
 * which the exported blocks there lie; 0: none lies there.
 *
 * Order that must not change, each a seq_cst store and then a seq_cst load:
 * importer: own bit, then the slot's generation. exporter: the slot's generation, then the ledgers' bits.
 *
 * The serials are written before the generation that shows a block, and read after it: so an importer reads serials
 * that are not older than the block. They are not younger either. Memory is taken from a part only while no block of it
 * is live or held, and other serials are written only when memory was taken. But once an importer has set its bit and
 * then found the generation it wants, the block is live or held, by the order above, until the bit is cleared. Nor does
 * the importer lose its own mapping: it forgets one only while it counts no hold in it, under the lock under which it
 * counts. Hence: if all serials are those of what it has mapped, it has the block's memory. If not, it clears its bit,
 * asks for what is missing, and begins again. Nothing need be held meanwhile: a block that is still live has kept its
 * memory, and one that is not is refused by its generation.
 */
#ifndef CN_SHARE_POOL_CONTROL_H
#define CN_SHARE_POOL_CONTROL_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CN_EXPORT_SLOTS = 1 << 22, /* exports of one pool that are live at the same time */
	CN_LEDGER_WORD_SLOTS = 64, /* in one word of a ledger */
	CN_EXPORT_NAME_BYTES = 16,
	CN_EXPORT_DATA_BYTES = 64,
	CN_EXPORT_DATA_MAGIC = 0x74705ece,
	CN_EXPORT_DATA_VERSION = 1,
	CN_PART_BYTES = 32 * 1024 * 1024, /* the unit by which a pool grows and shrinks */
	CN_PART_COUNT_MAX = 1 << 15,      /* in the largest range, 1 TiB */
};

struct cn_control_slot {
	_Atomic uint64_t generation;
	_Atomic uint64_t offset, bytes; /* of the block, in the pool's range; fixed while the generation is odd */
	uint64_t unused;
};

struct cn_control {
	_Atomic uint64_t limit_bytes; /* what an importer may hold; 0: no limit */
	unsigned char rest_of_page[4096 - sizeof(uint64_t)];
	struct cn_control_slot slots[CN_EXPORT_SLOTS];
	_Atomic uint64_t serials[CN_PART_COUNT_MAX];
};

struct cn_ledger {
	_Atomic uint64_t held_count, held_bytes; /* what the importer says of itself: to be shown, not relied on */
	_Atomic uint64_t parts_seen;             /* the number of the last CN_MESSAGE_PARTS that was handled */
	unsigned char rest_of_line[64 - 3 * sizeof(uint64_t)];
	_Atomic uint64_t held[CN_EXPORT_SLOTS / CN_LEDGER_WORD_SLOTS]; /* a bit for each slot */
};

/* A slot's bit in its word. */
static inline uint64_t cn_ledger_bit(uint32_t slot)
{
	return 1ull << slot % CN_LEDGER_WORD_SLOTS;
}

/* What cuMemPoolExportPointer() fills in: an export, by name. The block's address is in the control segment. */
struct cn_export_data {
	uint32_t magic, version;
	unsigned char pool[CN_EXPORT_NAME_BYTES];
	uint64_t slot, generation;
	uint64_t zeros[2];
	uint64_t check; /* over all fields above: so that a wrong bit does not name another export */
};
_Static_assert(sizeof(struct cn_export_data) == CN_EXPORT_DATA_BYTES, "as CUDA has it");

static inline uint64_t cn_export_data_check(const struct cn_export_data *data)
{
	return cn_check(data, offsetof(struct cn_export_data, check));
}

#endif
