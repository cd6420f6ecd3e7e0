/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: taking slots and giving them back. Finding is inline, in table.h.
 */
#include "base/table.h"

#include <stdlib.h>

static struct cn_object *add_slot(struct cn_table *table)
{
	uint32_t index = atomic_load_explicit(&table->count, memory_order_relaxed);
	uint32_t block = index >> CN_TABLE_BLOCK_BITS;

	if (block >= CN_TABLE_BLOCK_COUNT)
		return NULL;
	if (!atomic_load_explicit(&table->blocks[block], memory_order_relaxed)) {
		char *memory = calloc(1u << CN_TABLE_BLOCK_BITS, table->object_bytes);
		if (!memory)
			return NULL;
		atomic_store_explicit(&table->blocks[block], memory, memory_order_relaxed);
	}
	/* count is what readers acquire: the block is visible to whoever sees the new count. */
	atomic_store_explicit(&table->count, index + 1, memory_order_release);

	struct cn_object *object = cn_table_slot(table, index);
	object->index = index;
	return object;
}

void *cn_table_take(struct cn_table *table)
{
	cn_lock(&table->lock);
	struct cn_object *object = table->free_first;
	if (object) {
		table->free_first = object->next_free;
		if (!table->free_first)
			table->free_last = NULL;
	} else {
		object = add_slot(table);
	}
	cn_unlock(&table->lock);
	return object;
}

uint64_t cn_table_publish(struct cn_table *table, void *opaque)
{
	struct cn_object *object = opaque;

	object->generation = (object->generation + 1) & ((1u << CN_TABLE_GENERATION_BITS) - 1);
	uint64_t handle = (uint64_t)(0xCE0u | table->kind) << 52 | (uint64_t)object->generation << CN_TABLE_INDEX_BITS |
			  object->index;
	atomic_store_explicit(&object->handle, handle, memory_order_release);
	return handle;
}

bool cn_table_retire(void *opaque, uint64_t handle)
{
	struct cn_object *object = opaque;

	return atomic_compare_exchange_strong(&object->handle, &handle, 0);
}

bool cn_table_retire_orphan(void *opaque, uint64_t handle)
{
	if (!cn_table_retire(opaque, handle))
		return false;
	atomic_store_explicit(&((struct cn_object *)opaque)->orphan, handle, memory_order_relaxed);
	return true;
}

void cn_table_give(struct cn_table *table, void *opaque)
{
	struct cn_object *object = opaque;

	cn_lock(&table->lock);
	object->next_free = NULL;
	if (table->free_last)
		table->free_last->next_free = object;
	else
		table->free_first = object;
	table->free_last = object;
	cn_unlock(&table->lock);
}
