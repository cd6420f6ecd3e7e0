/* SPDX-License-Identifier: MIT */
/*
 * Tables of records that strangers name by number: what nodes have open here, what programs have open elsewhere.
 *
 * A number is a serial, which never comes again, and the place in the table. To enter, to find and to leave take the
 * same time however full a table is: places that are free are a list, the last one that became free first.
 */
#include "imexd/imexd.h"

#include <stdlib.h>

enum { ROOM_FIRST = 64, INDEX_BITS = 20 };

struct cn_imexd_slot {
	void *record;    /* NULL: it is free */
	uint64_t number; /* of a free one: the next free one, plus 1; 0: none */
};

static uint32_t index_of(uint64_t number)
{
	return (uint32_t)number & ((1u << INDEX_BITS) - 1);
}

/* False: no memory, or it would have too many. */
static bool grow(struct cn_imexd_table *table, uint32_t max)
{
	uint32_t room = table->room ? 2 * table->room : ROOM_FIRST;

	room = room < max ? room : max;
	if (table->used < table->room)
		return true;
	struct cn_imexd_slot *slots = room > table->room ? realloc(table->slots, room * sizeof *slots) : NULL;
	if (!slots)
		return false;
	table->slots = slots;
	table->room = room;
	return true;
}

uint64_t cn_imexd_table_enter(struct cn_imexd_table *table, void *record, uint32_t max)
{
	static uint64_t serial;
	uint32_t index = table->first_free - 1;

	if (table->first_free)
		table->first_free = (uint32_t)table->slots[index].number;
	else if (grow(table, max))
		index = table->used++;
	else
		return 0;
	table->slots[index] = (struct cn_imexd_slot){.record = record, .number = ++serial << INDEX_BITS | index};
	table->count++;
	return table->slots[index].number;
}

void *cn_imexd_table_find(const struct cn_imexd_table *table, uint64_t number)
{
	uint32_t index = index_of(number);

	return index < table->used && table->slots[index].number == number ? table->slots[index].record : NULL;
}

void *cn_imexd_table_at(const struct cn_imexd_table *table, uint32_t place)
{
	return place < table->used ? table->slots[place].record : NULL;
}

void cn_imexd_table_leave(struct cn_imexd_table *table, uint64_t number)
{
	uint32_t index = index_of(number);

	table->slots[index] = (struct cn_imexd_slot){.record = NULL, .number = table->first_free};
	table->first_free = index + 1;
	table->count--;
}

void *cn_imexd_table_take(struct cn_imexd_table *table)
{
	while (table->used) {
		void *record = table->slots[--table->used].record;
		if (record)
			return record;
	}
	free(table->slots);
	*table = (struct cn_imexd_table){.slots = NULL};
	return NULL;
}
