/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: taking slots and giving them back. Finding is inline, in table.h.
 */
#include "base/table.h"

#include <stdlib.h>

enum { GENERATION_LAST = (1 << CN_TABLE_GENERATION_BITS) - 1 };

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
		/* Readers acquire it: a thread that sees the block sees its zeros. */
		atomic_store_explicit(&table->blocks[block], memory, memory_order_release);
	}
	atomic_store_explicit(&table->count, index + 1, memory_order_release);

	struct cn_object *object = cn_table_slot(table, index);
	object->index = index;
	return object;
}

static struct cn_object *take_first(struct cn_slot_list *list)
{
	struct cn_object *object = list->first;

	if (!object)
		return NULL;
	list->first = object->next_free;
	if (!list->first)
		list->last = NULL;
	list->count--;
	return object;
}

static void append(struct cn_slot_list *list, struct cn_object *object)
{
	object->next_free = NULL;
	if (list->last)
		list->last->next_free = object;
	else
		list->first = object;
	list->last = object;
	list->count++;
}

void *cn_table_take(struct cn_table *table)
{
	cn_lock(&table->lock);
	struct cn_object *object = take_first(&table->free);
	if (!object && table->worn.count > CN_TABLE_WORN_MIN)
		object = take_first(&table->worn);
	if (!object)
		object = add_slot(table);
	if (!object)
		object = take_first(&table->worn);
	cn_unlock(&table->lock);
	return object;
}

uint64_t cn_table_publish(struct cn_table *table, void *opaque)
{
	struct cn_object *object = opaque;

	object->generation = (object->generation + 1) & GENERATION_LAST;
	uint64_t handle = (uint64_t)(CN_TABLE_TOP | table->kind) << CN_TABLE_KIND_SHIFT |
			  (uint64_t)object->generation << (CN_TABLE_INDEX_BITS + CN_TABLE_ALIGNMENT_BITS) |
			  (uint64_t)object->index << CN_TABLE_ALIGNMENT_BITS;
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
	append(object->generation == GENERATION_LAST ? &table->worn : &table->free, object);
	cn_unlock(&table->lock);
}
