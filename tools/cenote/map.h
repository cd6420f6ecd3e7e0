/* SPDX-License-Identifier: MIT */
/*
 * The picture of a pool, for the terminal (map.c) and as a drawing (map_svg.c).
 */
#ifndef CENOTE_TOOLS_MAP_H
#define CENOTE_TOOLS_MAP_H

#include "survey.h"

enum { MAP_COLUMNS = 64, MAP_ROWS = 16, MAP_CELLS = MAP_COLUMNS * MAP_ROWS, LETTERS = 25 };

struct map {
	const struct sharer *sharer;
	const struct sharer_pool *shared;
	cenote_cell cells[MAP_CELLS];
	unsigned long long bytes; /* the range that they show */
};

/*
 * How a cell is drawn: by its kind, or by its holder. A letter is the holder of that number: lowercase for a live
 * block, uppercase for a freed one. Anything else is a sign of map_signs[].
 */
char map_sign(const struct map *map, const cenote_cell *cell);
/* The letter of a holder; `o` is not used, since it is a sign. */
char map_letter(int holder, bool freed);
/* The number of a holder, from 0; -1: several holders, none, or one for which the alphabet has no letter left. */
int map_holder(const struct map *map, const cenote_cell *cell);

struct map_kind {
	char sign;
	const char *class; /* in the drawing */
	const char *text;
};
extern const struct map_kind map_kinds[];
enum { MAP_KIND_COUNT = 8 };

/* "4242 program" */
void map_holder_name(const struct holder *holder, char *ret_text, size_t room);
/* False: errno says why it could not be written. */
bool map_draw_svg(const struct map *map, FILE *to);

#endif
