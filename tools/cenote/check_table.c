/* SPDX-License-Identifier: MIT */
/*
 * cenote check: memory, and tables from two numbers to a pointer.
 */
#include "check.h"

#include <stdlib.h>

static void *or_end(void *memory)
{
	if (!memory) {
		fputs("cenote check: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	return memory;
}

void *check_allocate(size_t bytes)
{
	return or_end(calloc(1, bytes ? bytes : 1));
}

void *check_grow(void *list, int count, size_t bytes)
{
	/* At each power of two. */
	if (count & (count - 1))
		return list;
	return or_end(realloc(list, (count ? 2 * (size_t)count : 1) * bytes));
}

static struct check_row **find(const struct check_table *table, uint64_t first, uint64_t second)
{
	uint64_t place = (first * 0x9e3779b97f4a7c15u) ^ (second * 0xc2b2ae3d27d4eb4fu);
	struct check_row **row = &table->rows[(place ^ place >> 29) & (table->room - 1)];

	while (*row && ((*row)->first != first || (*row)->second != second))
		row = &(*row)->next;
	return row;
}

void *check_table_get(const struct check_table *table, uint64_t first, uint64_t second)
{
	const struct check_row *row = table->room ? *find(table, first, second) : NULL;

	return row ? row->value : NULL;
}

static void make_larger(struct check_table *table)
{
	struct check_table larger = {.room = table->room ? 2 * table->room : 16, .count = table->count};

	larger.rows = check_allocate(larger.room * sizeof *larger.rows);
	for (size_t i = 0; i < table->room; i++) {
		for (struct check_row *row = table->rows[i], *next; row; row = next) {
			next = row->next;
			row->next = NULL;
			*find(&larger, row->first, row->second) = row;
		}
	}
	free(table->rows);
	*table = larger;
}

void check_table_put(struct check_table *table, uint64_t first, uint64_t second, void *value)
{
	if (table->count >= table->room)
		make_larger(table);
	struct check_row **row = find(table, first, second);
	if (!*row) {
		*row = check_allocate(sizeof **row);
		(*row)->first = first;
		(*row)->second = second;
		table->count++;
	}
	(*row)->value = value;
}

void *check_table_remove(struct check_table *table, uint64_t first, uint64_t second)
{
	struct check_row **place = table->room ? find(table, first, second) : NULL;
	struct check_row *row = place ? *place : NULL;

	if (!row)
		return NULL;
	void *value = row->value;
	*place = row->next;
	free(row);
	table->count--;
	return value;
}

void check_table_clear(struct check_table *table, void (*end)(void *value))
{
	for (size_t i = 0; i < table->room; i++) {
		for (struct check_row *row = table->rows[i], *next; row; row = next) {
			next = row->next;
			if (end && row->value)
				end(row->value);
			free(row);
		}
	}
	free(table->rows);
	*table = (struct check_table){0};
}
