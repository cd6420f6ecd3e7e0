/* SPDX-License-Identifier: MIT */
/*
 * An ordered map of address ranges that do not overlap: which allocation does this address lie in?
 *
 * A treap over nodes that live inside the caller's records, so inserting never allocates and never fails for lack of
 * memory. Not locked: the owner of the map locks it.
 */
#ifndef CN_BASE_MAP_H
#define CN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/private.h"

struct cn_map_node {
	struct cn_map_node *left, *right;
	uint64_t start;
	uint64_t bytes; /* never 0 */
	uint32_t priority;
};

struct cn_map {
	struct cn_map_node *root;
	uint32_t seed;
	size_t count;
};

/* False, and nothing changed, when the range overlaps one that is there, is empty or wraps around. */
CN_PRIVATE bool cn_map_insert(struct cn_map *map, struct cn_map_node *node, uint64_t start, uint64_t bytes);
CN_PRIVATE void cn_map_remove(struct cn_map *map, struct cn_map_node *node);

/* The node whose range holds the address; NULL when there is none. */
CN_PRIVATE struct cn_map_node *cn_map_find(const struct cn_map *map, uint64_t address);

/* The first node that ends after the address: the one that holds it, or the next one above. NULL: nothing there. */
struct cn_map_node *cn_map_find_from(const struct cn_map *map, uint64_t address);

#endif
