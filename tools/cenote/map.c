/* SPDX-License-Identifier: MIT */
/*
 * cenote map: the memory of a pool as a picture: what is live, what is free, and which process holds what.
 */
#include "map.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct map_kind map_kinds[] = {
	{'#', "live", "lives, and is its owner's alone"},
	{'=', "exported", "is exported, and no importer holds it"},
	{'+', "several", "is exported, and several hold it"},
	{'!', "deferred", "was freed, and several still hold it, or its stream has not come to that"},
	{'o', "freed", "was freed, and waits for its stream's next use"},
	{'.', "free", "is free for anybody"},
	{'_', "hole", "has no memory: given back to the system"},
	{'?', "unknown", "cannot be told"},
};
_Static_assert(sizeof map_kinds / sizeof map_kinds[0] == MAP_KIND_COUNT, "all");

/* ---- Cells ---- */

int map_holder(const struct map *map, const cenote_cell *cell)
{
	if (!cell->importer || cell->importer == CENOTE_HELD_BY_SEVERAL)
		return -1;
	for (size_t i = 0; i < map->shared->holder_count && i < LETTERS; i++)
		if (map->shared->holders[i].importer.id == cell->importer)
			return (int)i;
	return -1;
}

char map_letter(int holder, bool freed)
{
	static const char letters[] = "abcdefghijklmnpqrstuvwxyz";
	_Static_assert(sizeof letters == LETTERS + 1, "as many");

	return freed ? (char)toupper((unsigned char)letters[holder]) : letters[holder];
}

char map_sign(const struct map *map, const cenote_cell *cell)
{
	int holder = map_holder(map, cell);

	switch (cell->kind) {
	case CENOTE_CELL_EXPORTED:
		if (holder >= 0)
			return map_letter(holder, false);
		return cell->importer ? '+' : '=';
	case CENOTE_CELL_DEFERRED: return holder >= 0 ? map_letter(holder, true) : '!';
	case CENOTE_CELL_LIVE: return '#';
	case CENOTE_CELL_FREED: return 'o';
	case CENOTE_CELL_FREE: return '.';
	case CENOTE_CELL_WITHOUT_MEMORY: return '_';
	default: return '?';
	}
}

void map_holder_name(const struct holder *holder, char *ret_text, size_t room)
{
	char user[USER_CHARS];

	if (holder->importer.node)
		snprintf(ret_text, room, "a process of node %d", holder->importer.node);
	else if (holder->importer.pid)
		snprintf(ret_text, room, "%d %s", holder->importer.pid, holder->identity.program);
	else
		snprintf(ret_text, room, "a process of %s that cannot be seen from here",
			 user_text(holder->importer.uid, user));
}

/* ---- On the terminal ---- */

static enum style style_of(char sign)
{
	if (isupper((unsigned char)sign) || sign == '!')
		return STYLE_CAUTION;
	if ((islower((unsigned char)sign) && sign != CENOTE_CELL_FREED) || sign == '+')
		return STYLE_IMPORTER;
	if (sign == '#' || sign == '=')
		return STYLE_EXPORTER;
	return STYLE_DIM;
}

static void print_cells(const struct map *map)
{
	int columns = output_columns() < MAP_COLUMNS + 8 ? MAP_COLUMNS / 2 : MAP_COLUMNS, rows = MAP_CELLS / columns;

	for (int row = 0; row < rows; row++) {
		char offset[AMOUNT_CHARS];
		printf("%6s  ", amount_text(map->bytes / (unsigned)rows * (unsigned)row, offset));
		for (int column = 0; column < columns; column++) {
			char sign = map_sign(map, &map->cells[row * columns + column]);
			printf("%s%c%s", style(style_of(sign)), sign, style(STYLE_END));
		}
		putchar('\n');
	}
}

static bool has_sign(const struct map *map, char sign)
{
	for (int i = 0; i < MAP_CELLS; i++)
		if (map_sign(map, &map->cells[i]) == sign)
			return true;
	return false;
}

static void print_legend(const struct map *map)
{
	for (int i = 0; i < MAP_KIND_COUNT; i++)
		if (has_sign(map, map_kinds[i].sign))
			printf("  %c    %s\n", map_kinds[i].sign, map_kinds[i].text);
	for (size_t i = 0; i < map->shared->holder_count && i < LETTERS; i++) {
		const struct holder *holder = &map->shared->holders[i];
		char name[96], held[AMOUNT_CHARS], deferred[AMOUNT_CHARS];
		map_holder_name(holder, name, sizeof name);
		printf("  %c %c  is held by %s: %llu %s, %s", map_letter((int)i, false), map_letter((int)i, true), name,
		       holder->importer.held_block_count, holder->importer.held_block_count == 1 ? "block" : "blocks",
		       amount_text(holder->importer.held_bytes, held));
		if (holder->importer.deferred_block_count)
			printf(", %s of it freed (%c)", amount_text(holder->importer.deferred_bytes, deferred),
			       map_letter((int)i, true));
		putchar('\n');
	}
}

static void print_map(const struct map *map)
{
	const cenote_shared_pool *pool = &map->shared->pool;
	char id[AMOUNT_CHARS], place[32], used[AMOUNT_CHARS], reserved[AMOUNT_CHARS], cell[AMOUNT_CHARS];

	place_text(pool, place, sizeof place);
	printf("%spool %s%s of %d %s, %s: %s used, %s reserved; a character is %s\n", style(STYLE_BOLD),
	       pool_text(pool->id, id), style(STYLE_END), map->sharer->process.pid, map->sharer->identity.program,
	       place, amount_text(pool->used_bytes, used), amount_text(pool->reserved_bytes, reserved),
	       amount_text(map->bytes / MAP_CELLS, cell));
	print_cells(map);
	print_legend(map);
}

static void print_json(const struct map *map)
{
	printf("{\n  \"pool\": \"%016llx\",\n  \"pid\": %d,\n  \"bytes\": %llu,\n  \"cells\": \"", map->shared->pool.id,
	       map->sharer->process.pid, map->bytes);
	for (int i = 0; i < MAP_CELLS; i++)
		putchar(map_sign(map, &map->cells[i]));
	fputs("\",\n  \"holders\": {", stdout);
	for (size_t i = 0; i < map->shared->holder_count && i < LETTERS; i++)
		printf("%s\"%c\": {\"id\": %llu, \"pid\": %d}", i ? ", " : "", map_letter((int)i, false),
		       map->shared->holders[i].importer.id, map->shared->holders[i].importer.pid);
	puts("}\n}");
}

static int write_svg(const struct map *map, const char *path)
{
	bool to_reader = strcmp(path, "-") == 0;
	FILE *to = to_reader ? stdout : fopen(path, "we");
	bool drawn = to && map_draw_svg(map, to);
	int error = errno;

	if (to_reader)
		return EXIT_SUCCESS; /* main() checks standard output */
	if (to && fclose(to) && drawn) {
		error = errno;
		drawn = false;
	}
	if (!drawn) {
		fprintf(stderr, "cenote map: %s: %s\n", path, strerror(error));
		return EXIT_FAILURE;
	}
	printf("drawn: %s\n", path);
	return EXIT_SUCCESS;
}

/* ---- Which pool ---- */

static bool is_meant(const cenote_shared_pool *pool, const char *wanted)
{
	char id[20];

	snprintf(id, sizeof id, "%016llx", pool->id);
	return !wanted || strncasecmp(id, wanted, strlen(wanted)) == 0;
}

/* How many pools match; one of them. */
static int find_pool(const struct survey *survey, const char *wanted, struct map *map)
{
	int count = 0;

	for (size_t i = 0; i < survey->sharer_count; i++) {
		for (size_t j = 0; j < survey->sharers[i].pool_count; j++) {
			if (!is_meant(&survey->sharers[i].pools[j].pool, wanted))
				continue;
			map->sharer = &survey->sharers[i];
			map->shared = &survey->sharers[i].pools[j];
			count++;
		}
	}
	return count;
}

static int complain(int count, const char *wanted)
{
	if (count && wanted)
		fprintf(stderr, "cenote map: %d pools begin with %s: give more of the name\n", count, wanted);
	else if (count)
		fprintf(stderr, "cenote map: %d pools are shared: name one (cenote ps lists them)\n", count);
	else if (wanted)
		fprintf(stderr, "cenote map: no process of this user shares a pool %s (cenote ps lists them)\n",
			wanted);
	else
		fputs("cenote map: no process of this user shares a pool\n", stderr);
	return EXIT_FAILURE;
}

struct wishes {
	const char *pool, *svg;
	bool json;
};

static int draw(const struct wishes *wishes)
{
	struct map map;
	struct survey survey;
	int status = EXIT_FAILURE;

	bool complete = survey_take("map", &survey);
	int count = find_pool(&survey, wishes->pool, &map);
	if (!count && !complete) /* it may be in a directory that could not be read; that was said */
		status = EXIT_FAILURE;
	else if (count != 1)
		status = complain(count, wishes->pool);
	else if (cenote_survey_picture(map.shared->pool.id, map.cells, MAP_CELLS, &map.bytes))
		fprintf(stderr, "cenote map: %s\n", cenote_last_error());
	else if (wishes->svg)
		status = write_svg(&map, wishes->svg);
	else
		status = EXIT_SUCCESS;
	if (!status && wishes->json)
		print_json(&map);
	else if (!status && !wishes->svg)
		print_map(&map);
	survey_free(&survey);
	return complete ? status : EXIT_FAILURE; /* another pool of this name may be where we could not look */
}

static int map(int argument_count, char **arguments)
{
	struct wishes wishes = {0};

	for (int i = 1; i < argument_count; i++) {
		const char *word = arguments[i];
		if (strcmp(word, "--json") == 0) {
			wishes.json = true;
		} else if (strcmp(word, "--svg") == 0) {
			wishes.svg = i + 1 < argument_count ? arguments[++i] : "";
			if (!*wishes.svg)
				return usage_error("map", "--svg takes the name of a file, or - for standard output");
		} else if (*word == '-' || wishes.pool) {
			return refuse_word("map", word);
		} else if (!*word || strspn(word, "0123456789abcdefABCDEF") != strlen(word)) {
			return usage_error("map", "invalid pool name '%s': cenote ps lists them", word);
		} else {
			wishes.pool = word;
		}
	}
	if (wishes.json && wishes.svg)
		return usage_error("map", "--json and --svg exclude each other");
	return draw(&wishes);
}

const struct command command_map = {
	.name = "map",
	.summary = "draw a shared pool's memory: what is live, free and held",
	.help = "Usage: cenote map [POOL] [--json | --svg FILE]\n"
		"\n"
		"Draws the part of its range that a pool has used so far, as 1024 equal cells. A cell with several\n"
		"things in it shows the most important one: freed and held, else exported and held, else exported,\n"
		"else live, else freed. The holder shown is that of the largest held block. A cell is free "
		"when nothing\n"
		"is in it.\n"
		"\n"
		"POOL is a name that cenote ps shows, or the beginning of one; it can be left out if only one pool is\n"
		"shared.\n"
		"\n"
		"  #  live, used by its owner alone\n"
		"  =  exported, not held by any process now\n"
		"  a  exported, held by importer a\n"
		"  +  exported, held by several importers\n"
		"  A  freed, still held by importer a\n"
		"  !  freed, still held by several, or its stream has not reached the free\n"
		"  o  freed, for the next use by its stream\n"
		"  .  free\n"
		"  _  no memory: given back to the system\n"
		"\n"
		"The legend below the picture says which processes a, b, c are; the first 25 importers have a letter.\n"
		"\n"
		"Options:\n"
		"  --svg FILE   write a picture; - is standard output\n"
		"  --json       print it for a program\n"
		"\n"
		"Exit status: 1 if there is no such pool, or more than one, or if a runtime directory, "
		"where there may\n"
		"be another, cannot be read. A sentence says which.\n",
	.run = map,
};
