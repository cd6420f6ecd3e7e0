/* SPDX-License-Identifier: MIT */
/*
 * The map of address ranges, held against a plain array of them.
 */
#include "base/map.h"
#include "harness.h"

TEST(edges_of_a_range)
{
	struct cn_map map = {0};
	struct cn_map_node node, other;

	ASSERT(!cn_map_find(&map, 0));
	ASSERT(!cn_map_find_from(&map, 0));
	ASSERT(cn_map_insert(&map, &node, 100, 50));
	ASSERT(!cn_map_find(&map, 99));
	ASSERT_EQ(&node, cn_map_find(&map, 100));
	ASSERT_EQ(&node, cn_map_find(&map, 149));
	ASSERT(!cn_map_find(&map, 150));
	ASSERT_EQ(&node, cn_map_find_from(&map, 0));
	ASSERT_EQ(&node, cn_map_find_from(&map, 149));
	ASSERT(!cn_map_find_from(&map, 150));

	static const uint64_t overlapping[][2] = {{100, 50}, {99, 2},   {149, 1},
						  {120, 5},  {0, 1000}, {149, UINT64_MAX - 149}};
	for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++)
		ASSERT(!cn_map_insert(&map, &other, overlapping[i][0], overlapping[i][1]));
	ASSERT(!cn_map_insert(&map, &other, 500, 0));
	ASSERT(!cn_map_insert(&map, &other, UINT64_MAX - 3, 8)); /* wraps around */
	ASSERT_EQ(1, map.count);

	ASSERT(cn_map_insert(&map, &other, 150, UINT64_MAX - 150)); /* touching is not overlapping */
	ASSERT_EQ(&other, cn_map_find(&map, UINT64_MAX - 1));
	cn_map_remove(&map, &node);
	ASSERT(!cn_map_find(&map, 120));
	ASSERT_EQ(&other, cn_map_find_from(&map, 120));
	cn_map_remove(&map, &other);
	ASSERT_EQ(0, map.count);
	ASSERT(!map.root);
}

enum { RANGES = 400, SPACE = 100000, STEPS = 50000 };

struct record {
	struct cn_map_node node;
	bool present;
};

/* Order by address, heap by priority, and how deep it goes. */
static unsigned check_tree(const struct cn_map_node *node, uint64_t low, uint64_t high, uint32_t priority,
			   size_t *count)
{
	if (!node)
		return 0;
	ASSERT_LE(low, node->start);
	ASSERT_LE(node->start + node->bytes, high);
	ASSERT_LE(node->priority, priority);
	++*count;
	unsigned left = check_tree(node->left, low, node->start, node->priority, count);
	unsigned right = check_tree(node->right, node->start + node->bytes, high, node->priority, count);
	return 1 + (left > right ? left : right);
}

static struct record *find_slowly(struct record *records, uint64_t address, bool from)
{
	struct record *best = NULL;

	for (unsigned i = 0; i < RANGES; i++) {
		const struct cn_map_node *node = &records[i].node;
		if (!records[i].present || address >= node->start + node->bytes || (!from && address < node->start))
			continue;
		if (!best || node->start < best->node.start)
			best = &records[i];
	}
	return best;
}

static bool overlaps_slowly(struct record *records, uint64_t start, uint64_t bytes)
{
	struct record *next = find_slowly(records, start, true);

	return next && next->node.start < start + bytes;
}

TEST(agrees_with_a_plain_array)
{
	static struct record records[RANGES];
	struct test_random random = test_random_start(0);
	struct cn_map map = {0};
	size_t present = 0;

	for (unsigned step = 0; step < STEPS / HARNESS_SLOWDOWN; step++) {
		struct record *record = &records[test_random_below(&random, RANGES)];
		uint64_t address = test_random_below(&random, SPACE);
		uint64_t bytes = 1 + test_random_below(&random, 200);

		if (record->present) {
			cn_map_remove(&map, &record->node);
			record->present = false;
			present--;
		} else {
			bool wanted = !overlaps_slowly(records, address, bytes);
			ASSERT_EQ(wanted, cn_map_insert(&map, &record->node, address, bytes));
			record->present = wanted;
			present += wanted;
		}
		address = test_random_below(&random, SPACE);
		ASSERT_EQ((void *)find_slowly(records, address, false), (void *)cn_map_find(&map, address));
		ASSERT_EQ((void *)find_slowly(records, address, true), (void *)cn_map_find_from(&map, address));
		ASSERT_EQ(present, map.count);
		if (step % 100 == 0) {
			size_t count = 0;
			check_tree(map.root, 0, UINT64_MAX, UINT32_MAX, &count);
			ASSERT_EQ(present, count);
		}
	}
}

TEST(stays_flat_when_addresses_come_in_order)
{
	enum { COUNT = 100000 };
	struct record *records = calloc(COUNT, sizeof *records);
	struct cn_map map = {0};
	size_t count = 0;

	ASSERT(records);
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT(cn_map_insert(&map, &records[i].node, (uint64_t)i * 4096, 4096));
	/* Perfect would be 17; a random tree of this size stays far below 80. */
	ASSERT_LT(check_tree(map.root, 0, UINT64_MAX, UINT32_MAX, &count), 80);
	ASSERT_EQ(COUNT, count);
	for (unsigned i = 0; i < COUNT; i++)
		cn_map_remove(&map, &records[i].node);
	ASSERT(!map.root);
	free(records);
}
