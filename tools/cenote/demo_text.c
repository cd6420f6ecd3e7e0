/* SPDX-License-Identifier: MIT */
/*
 * The demo as text: the exporter on the left, the importer on the right, time downwards.
 *
 *     ms                  exporter │            │ importer
 *   0.61   sends it: a descriptor  ●──╮         │
 *   0.99                           │  ╰────────▶● imports the pool
 *
 * Each moment has a line, and more of them if its text is long. Between the lines of the two processes is a gutter,
 * where an arrow leaves one, goes down in a lane of its own until the other moment comes, and goes on to the other.
 */
#include "command.h"
#include "demo.h"

#include <stdio.h>
#include <string.h>

enum {
	GUTTER = 13,
	LANE_COUNT = 3,
	LANE_FIRST = 2, /* place of the first lane in the gutter */
	LANE_STEP = 4,
	TIME_COLUMNS = 8,
	TEXT_COLUMNS_MAX = 44,
	TEXT_COLUMNS_MIN = 16,
	FIXED_COLUMNS = TIME_COLUMNS + GUTTER + 6,
};

/* Glyphs; an arrow's come twice: of a message, and of an event. */
struct glyphs {
	const char *flat[2], *down[2], *cross;
	const char *leave_right, *arrive_right, *leave_left, *arrive_left; /* corners, by where the arrow goes */
	const char *head_right, *head_left;
	const char *moment, *in_stream, *killed;
	const char *line[4]; /* by enum hold */
	const char *rule;
};

static const struct glyphs fine = {
	.flat = {"─", "╌"},
	.down = {"│", "┆"},
	.cross = "┼",
	.leave_right = "╮",
	.arrive_right = "╰",
	.leave_left = "╭",
	.arrive_left = "╯",
	.head_right = "▶",
	.head_left = "◀",
	.moment = "●",
	.in_stream = "○",
	.killed = "✖",
	.line = {"", "│", "┃", "╏"},
	.rule = "─",
};

static const struct glyphs plain = {
	.flat = {"-", "."},
	.down = {"|", ":"},
	.cross = "+",
	.leave_right = ".",
	.arrive_right = "'",
	.leave_left = ".",
	.arrive_left = "'",
	.head_right = ">",
	.head_left = "<",
	.moment = "*",
	.in_stream = "o",
	.killed = "X",
	.line = {"", "|", "#", ":"},
	.rule = "-",
};

struct page {
	const struct demo *demo;
	const struct glyphs *glyphs;
	int text_columns;
	enum arrow lanes[LANE_COUNT]; /* ARROW_NONE: free */
	enum hold holds[WHO_COUNT];
	bool ended[WHO_COUNT];
	const char *gutter[GUTTER];
	const char *marks[WHO_COUNT]; /* where the processes' lines are */
};

static const enum style colours[WHO_COUNT] = {[EXPORTER] = STYLE_EXPORTER, [IMPORTER] = STYLE_IMPORTER};

/* ---- The gutter ---- */

static int lane_place(int lane)
{
	return LANE_FIRST + lane * LANE_STEP;
}

static int lane_of(const struct page *page, enum arrow arrow)
{
	for (int i = 0; i < LANE_COUNT; i++)
		if (page->lanes[i] == arrow)
			return i;
	return -1;
}

/* What stands between the processes on any line: the arrows that are under way. */
static void clear_line(struct page *page)
{
	const struct glyphs *glyphs = page->glyphs;

	for (int i = 0; i < GUTTER; i++)
		page->gutter[i] = " ";
	for (int i = 0; i < LANE_COUNT; i++)
		if (page->lanes[i])
			page->gutter[lane_place(i)] = glyphs->down[arrow_is_event(page->lanes[i])];
	for (int i = 0; i < WHO_COUNT; i++)
		page->marks[i] = page->ended[i] ? " " : glyphs->line[page->holds[i]];
}

/* A flat piece of an arrow, over what is there. */
static void draw_flat(struct page *page, int from, int to, bool event)
{
	for (int i = from; i <= to; i++)
		page->gutter[i] = page->gutter[i][0] == ' ' ? page->glyphs->flat[event] : page->glyphs->cross;
}

static void arrive(struct page *page, const struct moment *moment)
{
	int lane = lane_of(page, moment->receives), place = lane_place(lane);
	bool event = arrow_is_event(moment->receives);

	if (!moment->receives || lane < 0)
		return;
	page->lanes[lane] = ARROW_NONE;
	if (moment->who == IMPORTER) {
		draw_flat(page, place + 1, GUTTER - 2, event);
		page->gutter[place] = page->glyphs->arrive_right;
		page->gutter[GUTTER - 1] = page->glyphs->head_right;
	} else {
		draw_flat(page, 1, place - 1, event);
		page->gutter[place] = page->glyphs->arrive_left;
		page->gutter[0] = page->glyphs->head_left;
	}
}

/* An arrow that never arrived is not drawn. Each takes the free lane that is nearest to where it goes. */
static void leave(struct page *page, const struct moment *moment)
{
	bool event = arrow_is_event(moment->sends);
	int lane = -1;

	if (!moment->sends || demo_arrow_end(page->demo, moment->sends) < 0)
		return;
	for (int i = 0; i < LANE_COUNT; i++)
		if (!page->lanes[i] && (lane < 0 || moment->who == EXPORTER))
			lane = i;
	if (lane < 0)
		return;
	page->lanes[lane] = moment->sends;
	int place = lane_place(lane);
	if (moment->who == EXPORTER) {
		draw_flat(page, 0, place - 1, event);
		page->gutter[place] = page->glyphs->leave_right;
	} else {
		draw_flat(page, place + 1, GUTTER - 1, event);
		page->gutter[place] = page->glyphs->leave_left;
	}
}

/* ---- Lines ---- */

static void print_mark(const struct page *page, enum who who, enum style colour)
{
	printf("%s%s%s", style(page->holds[who] == HOLD_DEFERRED && colour == colours[who] ? STYLE_CAUTION : colour),
	       page->marks[who], style(STYLE_END));
}

static void print_part(const char *text, int length, enum style colour)
{
	if (length)
		printf("%s%.*s%s", colour ? style(colour) : "", length, text, colour ? style(STYLE_END) : "");
}

/* One line: a text of the process, if it is one of the moment's lines, and the gutter. */
static void print_line(const struct page *page, enum who who, const char *text, int length, enum style text_style,
		       enum style mark_style)
{
	int columns = page->text_columns;

	printf("%*s", 1 + columns - (who == EXPORTER ? length : 0), "");
	if (who == EXPORTER)
		print_part(text, length, text_style);
	putchar(' ');
	print_mark(page, EXPORTER, who == EXPORTER ? mark_style : colours[EXPORTER]);
	if (who == EXPORTER && page->ended[IMPORTER]) { /* nothing more, not even the space to it */
		putchar('\n');
		return;
	}
	for (int i = 0; i < GUTTER; i++)
		fputs(page->gutter[i], stdout);
	print_mark(page, IMPORTER, who == IMPORTER ? mark_style : colours[IMPORTER]);
	if (who == IMPORTER && length) {
		putchar(' ');
		print_part(text, length, text_style);
	}
	putchar('\n');
}

static void print_empty_line(struct page *page)
{
	clear_line(page);
	printf("%*s", TIME_COLUMNS, "");
	print_line(page, EXPORTER, "", 0, STYLE_END, colours[EXPORTER]);
}

static void print_chapter(struct page *page, enum chapter chapter)
{
	print_empty_line(page);
	printf("%*d.  %s%s%s\n", TIME_COLUMNS - 1, (int)chapter + 1, style(STYLE_BOLD), demo_chapters[chapter],
	       style(STYLE_END));
	print_empty_line(page);
}

static void print_moment(struct page *page, const struct moment *moment)
{
	static const enum style styles[] = {[TONE_PLAIN] = STYLE_END,
					    [TONE_CAUTION] = STYLE_CAUTION,
					    [TONE_GOOD] = STYLE_GOOD,
					    [TONE_KILLED] = STYLE_BAD};
	enum style text_style = styles[moment->tone];
	char text[TEXT_BYTES + 16];

	snprintf(text, sizeof text, "%s%s", moment->in_stream ? "stream: " : "", moment->text);
	if (moment->hold)
		page->holds[moment->who] = moment->hold;
	clear_line(page);
	arrive(page, moment);
	leave(page, moment);
	page->ended[moment->who] = moment->tone == TONE_KILLED;
	page->marks[moment->who] = moment->tone == TONE_KILLED ? page->glyphs->killed
				   : moment->in_stream         ? page->glyphs->in_stream
							       : page->glyphs->moment;
	printf("%s%*.2f%s", style(STYLE_DIM), TIME_COLUMNS, (double)moment->time_ns / 1e6, style(STYLE_END));
	for (const char *rest = text; *rest;) {
		int length = demo_wrap(rest, page->text_columns);
		if (rest != text)
			printf("%*s", TIME_COLUMNS, "");
		print_line(page, moment->who, rest, length, text_style,
			   rest == text && text_style ? text_style : colours[moment->who]);
		rest += length;
		rest += strspn(rest, " ");
		clear_line(page);
	}
}

static void print_head(const struct page *page)
{
	const struct demo *demo = page->demo;
	char names[WHO_COUNT][32];

	for (int i = 0; i < WHO_COUNT; i++)
		snprintf(names[i], sizeof names[i], "%s, process %d", demo_names[i], demo->pid[i]);
	printf("%sTwo processes share memory.%s Device: %s.\n\n", style(STYLE_BOLD), style(STYLE_END), demo->device);
	printf("%s%*s%s%*s %s%s%s%*s%s%s%s\n", style(STYLE_DIM), TIME_COLUMNS, "ms", style(STYLE_END),
	       page->text_columns - (int)strlen(names[EXPORTER]), "", style(colours[EXPORTER]), names[EXPORTER],
	       style(STYLE_END), GUTTER + 4, "", style(colours[IMPORTER]), names[IMPORTER], style(STYLE_END));
}

static void print_legend(const struct page *page)
{
	const struct glyphs *glyphs = page->glyphs;
	const struct demo *demo = page->demo;

	printf("\n%s  %s program  %s its stream  %s has a block  ", style(STYLE_DIM), glyphs->moment, glyphs->in_stream,
	       glyphs->line[HOLD_BLOCK]);
	printf("%s freed, still held by others  %s%s event%s\n", glyphs->line[HOLD_DEFERRED], glyphs->flat[true],
	       glyphs->head_right, style(STYLE_END));
	printf("\n%d moments in %.0f ms, each reported by its process when it happened.\n", demo->moment_count,
	       (double)(demo->moments[demo->moment_count - 1].time_ns - demo->moments[0].time_ns) / 1e6);
}

void demo_print_text(const struct demo *demo, bool utf8)
{
	struct page page = {.demo = demo, .glyphs = utf8 ? &fine : &plain, .holds = {HOLD_NONE, HOLD_NONE}};
	int columns = (output_columns() - FIXED_COLUMNS) / 2, chapter = -1;

	columns = columns < TEXT_COLUMNS_MIN ? TEXT_COLUMNS_MIN : columns;
	page.text_columns = columns > TEXT_COLUMNS_MAX ? TEXT_COLUMNS_MAX : columns;
	print_head(&page);
	for (int i = 0; i < demo->moment_count; i++) {
		if ((int)demo->moments[i].chapter > chapter) {
			chapter = (int)demo->moments[i].chapter;
			print_chapter(&page, demo->moments[i].chapter);
		}
		print_moment(&page, &demo->moments[i]);
	}
	print_legend(&page);
}
