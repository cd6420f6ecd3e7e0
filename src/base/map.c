/* SPDX-License-Identifier: MIT */
/*
 * The treap behind struct cn_map: a search tree by address, a heap by random priority, so it is balanced on average
 * whatever order addresses come in. The two loops that restructure it (split on insert, merge on remove) walk down
 * with a pointer to the link to be set next, without recursion.
 */
#include "base/map.h"

struct cn_map_node *cn_map_find_from(const struct cn_map *map, uint64_t address)
{
	struct cn_map_node *best = NULL;

	for (struct cn_map_node *node = map->root; node;) {
		if (address < node->start + node->bytes) {
			best = node;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best;
}

struct cn_map_node *cn_map_find(const struct cn_map *map, uint64_t address)
{
	struct cn_map_node *node = map->root;

	while (node) {
		if (address < node->start)
			node = node->left;
		else if (address - node->start < node->bytes)
			return node;
		else
			node = node->right;
	}
	return NULL;
}

static uint32_t next_priority(struct cn_map *map)
{
	uint32_t x = map->seed ? map->seed : 0x9E3779B9u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	map->seed = x;
	return x;
}

bool cn_map_insert(struct cn_map *map, struct cn_map_node *node, uint64_t start, uint64_t bytes)
{
	if (bytes == 0 || start + bytes < start)
		return false;
	struct cn_map_node *after = cn_map_find_from(map, start);
	if (after && after->start < start + bytes)
		return false;

	node->start = start;
	node->bytes = bytes;
	node->priority = next_priority(map);

	struct cn_map_node **link = &map->root;
	while (*link && (*link)->priority >= node->priority)
		link = start < (*link)->start ? &(*link)->left : &(*link)->right;

	/* Split what hung here: smaller addresses to the left of the new node, larger ones to its right. */
	struct cn_map_node *rest = *link, **smaller = &node->left, **larger = &node->right;
	*link = node;
	while (rest) {
		if (rest->start < start) {
			*smaller = rest;
			smaller = &rest->right;
			rest = rest->right;
		} else {
			*larger = rest;
			larger = &rest->left;
			rest = rest->left;
		}
	}
	*smaller = *larger = NULL;
	map->count++;
	return true;
}

void cn_map_remove(struct cn_map *map, struct cn_map_node *node)
{
	struct cn_map_node **link = &map->root;

	while (*link != node)
		link = node->start < (*link)->start ? &(*link)->left : &(*link)->right;

	/* Merge the two subtrees into the place of the node. */
	struct cn_map_node *left = node->left, *right = node->right;
	while (left && right) {
		if (left->priority >= right->priority) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
	map->count--;
}
