/* SPDX-License-Identifier: MIT */
/*
 * Handle tables: a handle finds its object while it lives, and nothing else finds anything, ever.
 */
#include <pthread.h>

#include "base/table.h"
#include "harness.h"

struct thing {
	struct cn_object object;
	_Atomic uint64_t owner; /* the handle under which the thing is in use */
};

static struct cn_table things = CN_TABLE(CN_KIND_STREAM, struct thing);

static void *as_pointer(uint64_t handle)
{
	return (void *)(uintptr_t)handle;
}

static uint64_t make(struct thing **ret_thing)
{
	*ret_thing = cn_table_take(&things);
	ASSERT(*ret_thing);
	return cn_table_publish(&things, *ret_thing);
}

static void destroy(struct thing *thing, uint64_t handle)
{
	ASSERT(cn_table_retire(thing, handle));
	cn_table_give(&things, thing);
}

TEST(a_handle_finds_its_object)
{
	enum { COUNT = 3 * 256 + 1 }; /* more than one block of slots */
	static struct thing *made[COUNT];
	static uint64_t handles[COUNT];

	for (unsigned i = 0; i < COUNT; i++)
		handles[i] = make(&made[i]);
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_EQ(made[i], cn_table_find(&things, as_pointer(handles[i])));
		ASSERT(made[i] != made[(i + 1) % COUNT]);
		ASSERT_NE(handles[i], handles[(i + 1) % COUNT]);
	}
	ASSERT_EQ(COUNT, things.count);
}

TEST(an_object_without_a_handle_is_not_found)
{
	struct thing *thing = cn_table_take(&things);

	ASSERT_EQ(0, thing->object.handle);
	ASSERT(!cn_table_find(&things, NULL));
	uint64_t handle = cn_table_publish(&things, thing);
	ASSERT_EQ(thing, cn_table_find(&things, as_pointer(handle)));
	ASSERT(cn_table_retire(thing, handle));
	ASSERT(!cn_table_find(&things, as_pointer(handle)));
	ASSERT(!cn_table_retire(thing, handle));
}

TEST(garbage_is_not_found)
{
	static struct cn_table others = CN_TABLE(CN_KIND_EVENT, struct thing);
	struct test_random random = test_random_start(0);
	struct thing *thing;
	uint64_t handle = make(&thing);

	cn_table_publish(&others, cn_table_take(&others));
	ASSERT(!cn_table_find(&others, as_pointer(handle))); /* a handle of another kind */
	for (unsigned bit = 0; bit < 64; bit++)
		ASSERT(!cn_table_find(&things, as_pointer(handle ^ 1ull << bit)));
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t garbage = test_random_next(&random);
		if (garbage != handle)
			ASSERT(!cn_table_find(&things, as_pointer(garbage)));
		/* The same with the right top bits, which is nearer to being believed. */
		garbage = (garbage >> (64 - CN_TABLE_KIND_SHIFT)) |
			  (handle >> CN_TABLE_KIND_SHIFT << CN_TABLE_KIND_SHIFT);
		if (garbage != handle)
			ASSERT(!cn_table_find(&things, as_pointer(garbage)));
	}
	ASSERT(!cn_table_find(&things, thing)); /* the object's own address is no handle */
}

TEST(old_handles_stay_dead)
{
	enum { COUNT = 10000 };
	static uint64_t dead[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		struct thing *thing;
		dead[i] = make(&thing);
		destroy(thing, dead[i]);
	}
	ASSERT_EQ(1, things.count); /* one slot, used again and again */
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT(!cn_table_find(&things, as_pointer(dead[i])));
	for (unsigned i = 1; i < COUNT; i++)
		ASSERT_NE(dead[0], dead[i]);
}

TEST(slots_are_used_again_oldest_first)
{
	enum { COUNT = 5 };
	struct thing *made[COUNT], *again;
	uint64_t handles[COUNT];

	for (unsigned i = 0; i < COUNT; i++)
		handles[i] = make(&made[i]);
	for (unsigned i = 0; i < COUNT; i++)
		destroy(made[i], handles[i]);
	for (unsigned i = 0; i < COUNT; i++) {
		make(&again);
		ASSERT_EQ(made[i], again);
	}
	ASSERT_EQ(COUNT, things.count);
}

/* A slot before its last generation, so that it is worn when it is given back. */
static struct thing *take_tired(void)
{
	struct thing *thing = cn_table_take(&things);

	ASSERT(thing);
	thing->object.generation = (1u << CN_TABLE_GENERATION_BITS) - 2;
	return thing;
}

TEST(a_generation_comes_round_without_reaching_its_neighbours)
{
	struct thing *thing = take_tired();

	uint64_t last = cn_table_publish(&things, thing);
	ASSERT(cn_table_retire(thing, last));
	uint64_t first = cn_table_publish(&things, thing);
	ASSERT_EQ(0, thing->object.generation);
	ASSERT_EQ(last >> CN_TABLE_KIND_SHIFT, first >> CN_TABLE_KIND_SHIFT);
	ASSERT_EQ(thing->object.index, cn_table_index(first));
	ASSERT(!cn_table_find(&things, as_pointer(last)));
	ASSERT_EQ(thing, cn_table_find(&things, as_pointer(first)));
}

/* A handle is not given out again before as many others as the header promises. */
TEST(a_worn_slot_rests)
{
	struct thing *worn = take_tired(), *thing;

	destroy(worn, cn_table_publish(&things, worn));
	for (unsigned i = 0; i < CN_TABLE_WORN_MIN; i++) {
		thing = take_tired();
		ASSERT(thing != worn);
		destroy(thing, cn_table_publish(&things, thing));
	}
	ASSERT_EQ(CN_TABLE_WORN_MIN + 1, things.count);
	make(&thing);
	ASSERT_EQ(worn, thing); /* the oldest one, from its first generation */
	ASSERT_EQ(0, thing->object.generation);
	ASSERT_EQ(CN_TABLE_WORN_MIN + 1, things.count);
}

TEST(a_handle_looks_like_a_pointer)
{
	const enum cn_kind kinds[] = {CN_KIND_CONTEXT, CN_KIND_POOL_ON_GPU};

	for (unsigned i = 0; i < 2; i++) {
		things.kind = kinds[i];
		struct thing *thing = cn_table_take(&things);
		thing->object.generation = i ? (1u << CN_TABLE_GENERATION_BITS) - 2 : 0; /* the greatest, the least */
		thing->object.index = i ? (1u << CN_TABLE_INDEX_BITS) - 1 : 0;
		uint64_t handle = cn_table_publish(&things, thing);
		ASSERT_EQ(0, handle % 8);
		ASSERT_GE(handle, 1ull << 45);
		ASSERT_LT(handle, 1ull << 46);
	}
}

/* Handles that all threads see; some are dead when they are read. */
enum { THREADS = 4, BOARD = 64 };
static _Atomic uint64_t board[BOARD];

static void *hammer(void *number)
{
	struct test_random random = test_random_start((uintptr_t)number);

	for (unsigned i = 0; i < 100000 / HARNESS_SLOWDOWN; i++) {
		_Atomic uint64_t *place = &board[test_random_below(&random, BOARD)];
		uint64_t handle = atomic_load(place);
		if (test_random_below(&random, 4)) {
			struct thing *found = cn_table_find(&things, as_pointer(handle));
			if (found && !cn_table_slot(&things, found->object.index))
				FAIL("an object was found that is in no slot");
			continue;
		}
		if (atomic_compare_exchange_strong(place, &handle, 0) && handle) {
			struct thing *thing = cn_table_find(&things, as_pointer(handle));
			ASSERT(thing); /* we alone could have destroyed it */
			ASSERT_EQ(handle, atomic_exchange(&thing->owner, 0));
			destroy(thing, handle);
		}
		struct thing *thing = cn_table_take(&things);
		ASSERT_EQ(0, atomic_load(&thing->owner)); /* nobody else has this slot */
		handle = cn_table_publish(&things, thing);
		ASSERT_EQ(0, atomic_exchange(&thing->owner, handle));
		uint64_t empty = 0;
		if (!atomic_compare_exchange_strong(place, &empty, handle)) {
			atomic_store(&thing->owner, 0);
			destroy(thing, handle);
		}
	}
	return NULL;
}

TEST(threads_make_find_and_destroy_at_once)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer, (void *)i));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ASSERT_LE(things.count, BOARD + 2 * THREADS);
}
