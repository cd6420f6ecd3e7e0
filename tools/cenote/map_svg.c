/* SPDX-License-Identifier: MIT */
/*
 * The picture of a pool as a drawing. Adjacent cells of one kind are one rectangle. Colours are given twice, for light
 * and dark pages; holders have colours of their own, and a freed block is striped.
 */
#include "map.h"

#include <string.h>

enum {
	CELL_WIDTH = 13,
	CELL_HEIGHT = 20,
	ROW_HEIGHT = 24,
	LEFT = 70,
	TOP = 76,
	WIDTH = LEFT + MAP_COLUMNS * CELL_WIDTH + 24,
	LINE_HEIGHT = 22,
	COLOUR_COUNT = 6,
};

static const char *const colours[COLOUR_COUNT] = {"#8250df", "#1a7f37", "#bf3989", "#0a7ea4", "#bc4c00", "#6e7781"};

static const char page_style[] =
	"    .page { fill: #ffffff; stroke: #d0d7de }\n"
	"    text { font: 13px 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }\n"
	"    .title { font-size: 18px; font-weight: 600 }\n"
	"    .small { font-size: 12px; fill: #59636e }\n"
	"    .live { fill: #0969da } .exported { fill: #80b8f0 } .several { fill: #cf222e }\n"
	"    .deferred { fill: #d4a72c } .freed { fill: #c9d1d9 } .free { fill: #eaeef2 }\n"
	"    .hole { fill: none; stroke: #d0d7de } .unknown { fill: none }\n"
	"    @media (prefers-color-scheme: dark) {\n"
	"      .page { fill: #0d1117; stroke: #3d444d }\n"
	"      text { fill: #e6edf3 } .small { fill: #9198a1 }\n"
	"      .live { fill: #388bfd } .exported { fill: #1f5ea8 }\n"
	"      .freed { fill: #4a525c } .free { fill: #21262d } .hole { stroke: #3d444d }\n"
	"    }\n";

static const char *class_of(char sign)
{
	for (int i = 0; i < MAP_KIND_COUNT; i++)
		if (map_kinds[i].sign == sign)
			return map_kinds[i].class;
	return "unknown";
}

static void draw_box(FILE *to, int x, int y, int width, char sign, int holder)
{
	if (holder < 0) {
		fprintf(to, "  <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", class_of(sign), x,
			y, width, CELL_HEIGHT);
		return;
	}
	fprintf(to, "  <rect fill=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
		colours[holder % COLOUR_COUNT], x, y, width, CELL_HEIGHT);
	if (sign >= 'A' && sign <= 'Z')
		fprintf(to, "  <rect fill=\"url(#stripes)\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", x, y,
			width, CELL_HEIGHT);
	if (width >= CELL_WIDTH)
		fprintf(to, "  <text style=\"fill: #ffffff\" x=\"%d\" y=\"%d\">%c</text>\n", x + 3, y + 15, sign);
}

static void draw_row(FILE *to, const struct map *map, int row)
{
	const cenote_cell *cells = &map->cells[row * MAP_COLUMNS];
	int y = TOP + row * ROW_HEIGHT;
	char offset[AMOUNT_CHARS];

	fprintf(to, "  <text class=\"small\" text-anchor=\"end\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT - 10, y + 15,
		amount_text(map->bytes / MAP_ROWS * (unsigned)row, offset));
	for (int column = 0, end; column < MAP_COLUMNS; column = end) {
		char sign = map_sign(map, &cells[column]);
		int holder = map_holder(map, &cells[column]);
		for (end = column + 1; end < MAP_COLUMNS; end++)
			if (map_sign(map, &cells[end]) != sign || map_holder(map, &cells[end]) != holder)
				break;
		draw_box(to, LEFT + column * CELL_WIDTH, y, (end - column) * CELL_WIDTH, sign, holder);
	}
}

/* Texts are ours, or names that were made printable: only these characters need escaping. */
static void print_escaped(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '<')
			fputs("&lt;", to);
		else
			fputc(*text, to);
	}
}

static void draw_line(FILE *to, int *y, char sign, int holder, const char *text)
{
	draw_box(to, LEFT, *y, CELL_WIDTH, sign, holder);
	fprintf(to, "  <text x=\"%d\" y=\"%d\">", LEFT + CELL_WIDTH + 10, *y + 15);
	print_escaped(to, text);
	fputs("</text>\n", to);
	*y += LINE_HEIGHT + 2;
}

static bool has_sign(const struct map *map, char sign, int holder)
{
	for (int i = 0; i < MAP_CELLS; i++)
		if (map_sign(map, &map->cells[i]) == sign && map_holder(map, &map->cells[i]) == holder)
			return true;
	return false;
}

/* Only what the picture contains; with `to` NULL it is only measured. */
static int draw_legend(FILE *to, const struct map *map)
{
	int y = TOP + MAP_ROWS * ROW_HEIGHT + 14;
	char name[96], text[160];

	for (int i = 0; i < MAP_KIND_COUNT; i++) {
		if (!has_sign(map, map_kinds[i].sign, -1))
			continue;
		if (to)
			draw_line(to, &y, map_kinds[i].sign, -1, map_kinds[i].text);
		else
			y += LINE_HEIGHT + 2;
	}
	for (int i = 0; i < 2 * LETTERS; i++) {
		int holder = i / 2;
		char sign = map_letter(holder, i % 2);
		if ((size_t)holder >= map->shared->holder_count || !has_sign(map, sign, holder))
			continue;
		map_holder_name(&map->shared->holders[holder], name, sizeof name);
		snprintf(text, sizeof text, i % 2 ? "was freed, and is still held by %s" : "is held by %s", name);
		if (to)
			draw_line(to, &y, sign, holder, text);
		else
			y += LINE_HEIGHT + 2;
	}
	return y;
}

bool map_draw_svg(const struct map *map, FILE *to)
{
	const cenote_shared_pool *pool = &map->shared->pool;
	char id[AMOUNT_CHARS], place[32], used[AMOUNT_CHARS], reserved[AMOUNT_CHARS], cell[AMOUNT_CHARS];
	int height = draw_legend(NULL, map) + 14;

	place_text(pool, place, sizeof place);
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
		"  <style>\n%s"
		"  </style>\n"
		"  <defs><pattern id=\"stripes\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
		"patternTransform=\"rotate(45)\"><rect width=\"3\" height=\"6\" fill=\"#d4a72c\" opacity=\".8\"/>"
		"</pattern></defs>\n"
		"  <rect class=\"page\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n"
		"  <text class=\"title\" x=\"24\" y=\"34\">Pool %s of %d ",
		WIDTH, height, WIDTH, height, page_style, WIDTH - 1, height - 1, pool_text(pool->id, id),
		map->sharer->process.pid);
	print_escaped(to, map->sharer->identity.program);
	fprintf(to,
		"</text>\n  <text class=\"small\" x=\"24\" y=\"56\">%s: %s used, %s reserved; a cell is %s, the "
		"picture from left to right and top to bottom</text>\n",
		place, amount_text(pool->used_bytes, used), amount_text(pool->reserved_bytes, reserved),
		amount_text(map->bytes / MAP_CELLS, cell));
	for (int row = 0; row < MAP_ROWS; row++)
		draw_row(to, map, row);
	draw_legend(to, map);
	fputs("</svg>\n", to);
	return !ferror(to);
}
