/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: what a program holds is a number that is checked, not a pointer that is followed.
 *
 * A handle is 01 (2 bits) | kind (4 bits) | generation (16 bits) | index (22 bits) | 000. It looks like a pointer,
 * because programs treat it as one: they store it in signed integers, so it is positive and below 2^47, and they use
 * its low bits for marks, so it is a multiple of 8. The two top bits place it between 32 and 64 TiB, where Linux maps
 * nothing unless it is asked to.
 *
 * A table holds objects of one kind and one size; an object begins with struct cn_object, which keeps its current
 * handle (0 while the slot is free). Memory of an object is never returned and never changes its kind, so a stale
 * handle, even one that another thread is destroying, finds at worst an object whose handle differs: a caller that
 * needs to be sure compares again under the object's own lock.
 *
 * Slots are reused oldest first, so a stale handle stays wrong for as long as possible. A slot that has used up its
 * generations is worn, and rests until 4096 others are worn too: a handle comes again after 2^28 others of its kind at
 * the earliest. (When all 2^22 slots exist, worn ones are used earlier.)
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
	CN_KIND_LIBRARY,
	CN_KIND_KERNEL,
	CN_KIND_POOL_ON_GPU, /* so that these differ from the driver's pools, where the driver is a Cenote (in tests) */
	CN_KIND_KEPT,
	CN_KIND_REMOTE, /* memory of another machine; not seen by programs */
};

enum {
	CN_TABLE_BLOCK_BITS = 8,
	CN_TABLE_ALIGNMENT_BITS = 3,
	CN_TABLE_INDEX_BITS = 22,
	CN_TABLE_GENERATION_BITS = 16,
	CN_TABLE_KIND_SHIFT = CN_TABLE_ALIGNMENT_BITS + CN_TABLE_INDEX_BITS + CN_TABLE_GENERATION_BITS,
	CN_TABLE_TOP = 0x10, /* above the kind */
	CN_TABLE_BLOCK_COUNT = 1 << (CN_TABLE_INDEX_BITS - CN_TABLE_BLOCK_BITS),
	CN_TABLE_WORN_MIN = 4096, /* so many worn slots rest */
};

_Static_assert(CN_TABLE_KIND_SHIFT + 6 == 47, "handles are below 2^47");

struct cn_object {
	_Atomic uint64_t handle;
	_Atomic uint64_t orphan; /* the last handle of this slot that ended with its context */
	uint32_t index;
	uint32_t generation;
	struct cn_object *next_free;
};

/* Slots without an object, oldest first. */
struct cn_slot_list {
	struct cn_object *first, *last;
	uint32_t count;
};

struct cn_table {
	enum cn_kind kind;
	size_t object_bytes;
	CN_LOCK(TABLE) lock;
	_Atomic uint32_t count; /* slots that exist */
	struct cn_slot_list free, worn;
	_Atomic(char *) blocks[CN_TABLE_BLOCK_COUNT]; /* each 256 objects; NULL until needed */
};

#define CN_TABLE(kind_, type)                                 \
	{                                                     \
		.kind = (kind_), .object_bytes = sizeof(type) \
	}

/*
 * Take a slot. Its object has no handle yet: fill it in, then publish it. Bytes after struct cn_object are as the
 * previous owner of the slot left them (zero the first time). NULL: no memory, or 2^22 objects exist.
 */
void *cn_table_take(struct cn_table *table);

/* Give the object its handle, which cn_table_find() finds from now on. */
uint64_t cn_table_publish(struct cn_table *table, void *object);

/* The handle is dead from now on; the object stays the caller's. False when another thread was faster. */
bool cn_table_retire(void *object, uint64_t handle);

/* The same, because the context that owned the object is going: cn_table_is_orphan() will say so. */
bool cn_table_retire_orphan(void *object, uint64_t handle);

/* Give the slot of a retired (or never published) object back. */
void cn_table_give(struct cn_table *table, void *object);

/* NULL: there are not so many slots. */
static inline void *cn_table_slot(struct cn_table *table, uint32_t index)
{
	char *block = atomic_load_explicit(&table->blocks[index >> CN_TABLE_BLOCK_BITS], memory_order_acquire);

	return block ? block + (size_t)(index & ((1u << CN_TABLE_BLOCK_BITS) - 1)) * table->object_bytes : NULL;
}

static inline uint32_t cn_table_index(uint64_t handle)
{
	return (uint32_t)(handle >> CN_TABLE_ALIGNMENT_BITS) & ((1u << CN_TABLE_INDEX_BITS) - 1);
}

/* Does the number have the form of a handle of this kind, alive or not? */
static inline bool cn_table_is_kind(enum cn_kind kind, uint64_t handle)
{
	return handle >> CN_TABLE_KIND_SHIFT == ((uint64_t)CN_TABLE_TOP | kind);
}

/* The object of a handle; NULL for anything that is not a live handle of this table. */
static inline void *cn_table_find(struct cn_table *table, const void *opaque)
{
	uint64_t handle = (uint64_t)(uintptr_t)opaque;
	struct cn_object *object = cn_table_slot(table, cn_table_index(handle));

	/* The comparison shows that it is of this kind, and a handle at all; only 0 is also in a free slot. */
	if (!object || !handle || atomic_load_explicit(&object->handle, memory_order_acquire) != handle)
		return NULL;
	return object;
}

static inline uint64_t cn_object_handle(const void *object)
{
	return atomic_load_explicit(&((struct cn_object *)(uintptr_t)object)->handle, memory_order_acquire);
}

/* Was this the handle of an object that ended with its context? (Known until the slot has another such one.) */
static inline bool cn_table_is_orphan(struct cn_table *table, const void *opaque)
{
	uint64_t handle = (uint64_t)(uintptr_t)opaque;
	struct cn_object *object = cn_table_slot(table, cn_table_index(handle));

	return object && handle && atomic_load_explicit(&object->orphan, memory_order_relaxed) == handle;
}

#endif
