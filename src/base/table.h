/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: what a program holds is a number that is checked, not a pointer that is followed.
 *
 * A handle is 0xCE | kind (4 bits) | generation (28 bits) | index (24 bits). A table holds objects of one kind and one
 * size; an object begins with struct cn_object, which keeps its current handle (0 while the slot is free). Memory of an
 * object is never returned and never changes its kind, so a stale handle, even one that is being destroyed by another
 * thread, finds at worst an object whose handle differs: whoever needs to be sure compares again under the object's own
 * lock. Slots are reused oldest first, so a stale handle stays wrong for as long as possible.
 */
#ifndef CN_BASE_TABLE_H
#define CN_BASE_TABLE_H

#include "base/lock.h"

#include <stddef.h>

enum cn_kind {
	CN_KIND_CONTEXT = 1,
	CN_KIND_STREAM,
	CN_KIND_EVENT,
	CN_KIND_MODULE,
	CN_KIND_FUNCTION,
	CN_KIND_ALLOCATION,
	CN_KIND_POOL,
};

enum {
	CN_TABLE_BLOCK_BITS = 8,
	CN_TABLE_INDEX_BITS = 24,
	CN_TABLE_GENERATION_BITS = 28,
	CN_TABLE_BLOCK_COUNT = 1 << (CN_TABLE_INDEX_BITS - CN_TABLE_BLOCK_BITS),
};

struct cn_object {
	_Atomic uint64_t handle;
	_Atomic uint64_t orphan; /* the last handle of this slot that went down with its context */
	uint32_t index;
	uint32_t generation;
	struct cn_object *next_free;
};

struct cn_table {
	enum cn_kind kind;
	size_t object_bytes;
	struct cn_lock lock;
	_Atomic uint32_t count;                       /* slots that exist */
	struct cn_object *free_first, *free_last;     /* oldest first */
	_Atomic(char *) blocks[CN_TABLE_BLOCK_COUNT]; /* each 256 objects; NULL until needed */
};

#define CN_TABLE(kind_, type)                                 \
	{                                                     \
		.kind = (kind_), .object_bytes = sizeof(type) \
	}

/*
 * Take a slot. Its object has no handle yet: fill it in, then publish it. Bytes after struct cn_object are as the
 * previous owner of the slot left them (zero the first time). NULL: no memory, or 2^24 objects exist.
 */
void *cn_table_take(struct cn_table *table);

/* Give the object its handle, which cn_table_find() finds from now on. */
uint64_t cn_table_publish(struct cn_table *table, void *object);

/* The handle is dead from now on; the object stays the caller's. False when another thread was quicker. */
bool cn_table_retire(void *object, uint64_t handle);

/* The same, because the context that owned the object is going: cn_table_is_orphan() will say so. */
bool cn_table_retire_orphan(void *object, uint64_t handle);

/* Give the slot of a retired (or never published) object back. */
void cn_table_give(struct cn_table *table, void *object);

static inline void *cn_table_slot(struct cn_table *table, uint32_t index)
{
	if (index >= atomic_load_explicit(&table->count, memory_order_acquire))
		return NULL;
	char *block = atomic_load_explicit(&table->blocks[index >> CN_TABLE_BLOCK_BITS], memory_order_relaxed);
	return block + (size_t)(index & ((1u << CN_TABLE_BLOCK_BITS) - 1)) * table->object_bytes;
}

/* The object of a handle; NULL for anything that is not a living handle of this table. */
static inline void *cn_table_find(struct cn_table *table, const void *opaque)
{
	uint64_t handle = (uint64_t)(uintptr_t)opaque;

	if (handle >> 52 != (0xCE0u | table->kind))
		return NULL;
	struct cn_object *object = cn_table_slot(table, handle & ((1u << CN_TABLE_INDEX_BITS) - 1));
	if (!object || atomic_load_explicit(&object->handle, memory_order_acquire) != handle)
		return NULL;
	return object;
}

/* Was this the handle of an object that went down with its context? (Known until the slot has another such one.) */
static inline bool cn_table_is_orphan(struct cn_table *table, const void *opaque)
{
	uint64_t handle = (uint64_t)(uintptr_t)opaque;
	struct cn_object *object = cn_table_slot(table, handle & ((1u << CN_TABLE_INDEX_BITS) - 1));

	return object && atomic_load_explicit(&object->orphan, memory_order_relaxed) == handle;
}

#endif
