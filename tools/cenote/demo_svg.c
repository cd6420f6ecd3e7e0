/* SPDX-License-Identifier: MIT */
/*
 * The demo as a drawing: the same moments as in demo_text.c, with slanted arrows, and bars where a process has a block.
 *
 * Every moment has a row of its own, as high as its text needs, so no two texts meet. How wide a text is depends on the
 * reader's fonts: lines are broken where even a wide one has room. Colours are given twice, for light and dark pages.
 */
#include "demo.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	WIDTH = 940,
	TIME_X = 70, /* where times end */
	LINE_X = 374,
	GUTTER_WIDTH = 208,
	TEXT_GAP = 18, /* from a process's line to its texts */
	TEXT_COLUMNS = 37,
	TEXT_HEIGHT = 17,
	ROW_GAP = 8,
	HEAD_HEIGHT = 96,
	CHAPTER_HEIGHT = 48, /* of which the band */
	BAND_Y = 6,
	BAND_HEIGHT = 28,
	LEGEND_HEIGHT = 62,
	BAR_WIDTH = 7,
	DOT_RADIUS = 5,
};

static const char colours[] =
	"    .page { fill: #ffffff; stroke: #d0d7de }\n"
	"    .band { fill: #f3f5f8 }\n"
	"    text { font: 13px 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }\n"
	"    .title { font-size: 18px; font-weight: 600 }\n"
	"    .chapter { font-size: 14px; font-weight: 600 }\n"
	"    .small { font-size: 12px; fill: #59636e }\n"
	"    .time { font-size: 12px; fill: #59636e }\n"
	"    .good { fill: #1a7f37 } .caution { fill: #9a6700 } .killed { fill: #cf222e }\n"
	"    .name0 { fill: #0969da; font-weight: 600 } .name1 { fill: #8250df; font-weight: 600 }\n"
	"    .line { stroke: #b6bec8; stroke-width: 2 }\n"
	"    .dot0 { fill: #0969da; stroke: #0969da } .dot1 { fill: #8250df; stroke: #8250df }\n"
	"    .bar0 { fill: #0969da; opacity: .38 } .bar1 { fill: #8250df; opacity: .38 }\n"
	"    .deferred { fill: #d4a72c; opacity: .75 }\n"
	"    .stream { fill: #ffffff; stroke-width: 2 }\n"
	"    .cross { stroke: #cf222e; stroke-width: 3 }\n"
	"    .arrow { stroke: #59636e; stroke-width: 1.5; fill: none }\n"
	"    .event { stroke-dasharray: 5 4 }\n"
	"    .head { fill: #59636e }\n"
	"    @media (prefers-color-scheme: dark) {\n"
	"      .page { fill: #0d1117; stroke: #3d444d }\n"
	"      .band { fill: #161d27 }\n"
	"      text { fill: #e6edf3 }\n"
	"      .small, .time { fill: #9198a1 }\n"
	"      .good { fill: #3fb950 } .caution { fill: #d29922 } .killed { fill: #f85149 }\n"
	"      .name0 { fill: #58a6ff } .name1 { fill: #bc8cff }\n"
	"      .line { stroke: #4a525c }\n"
	"      .dot0 { fill: #58a6ff; stroke: #58a6ff } .dot1 { fill: #bc8cff; stroke: #bc8cff }\n"
	"      .bar0 { fill: #58a6ff } .bar1 { fill: #bc8cff }\n"
	"      .stream { fill: #0d1117 }\n"
	"      .cross { stroke: #f85149 }\n"
	"      .arrow { stroke: #9198a1 }\n"
	"      .head { fill: #9198a1 }\n"
	"    }\n";

/* Where each moment and chapter stands, from the top. */
struct layout {
	int moments[MOMENTS_MAX];
	int chapters[CHAPTER_COUNT]; /* 0: there is none */
	int end, height;
};

static int line_x(enum who who)
{
	return LINE_X + (who == IMPORTER ? GUTTER_WIDTH : 0);
}

/* A moment's text as it is drawn. */
static void full_text(const struct moment *moment, char ret_text[TEXT_BYTES + 16])
{
	snprintf(ret_text, TEXT_BYTES + 16, "%s%s", moment->in_stream ? "stream: " : "", moment->text);
}

static int count_lines(const struct moment *moment)
{
	char text[TEXT_BYTES + 16];
	int count = 0;

	full_text(moment, text);
	for (const char *rest = text; *rest; count++) {
		rest += demo_wrap(rest, TEXT_COLUMNS);
		rest += strspn(rest, " ");
	}
	return count;
}

static void lay_out(const struct demo *demo, struct layout *layout)
{
	int y = HEAD_HEIGHT, chapter = -1;

	for (int i = 0; i < demo->moment_count; i++) {
		const struct moment *moment = &demo->moments[i];
		if ((int)moment->chapter > chapter) {
			chapter = (int)moment->chapter;
			layout->chapters[chapter] = y;
			y += CHAPTER_HEIGHT;
		}
		layout->moments[i] = y + TEXT_HEIGHT / 2;
		y += count_lines(moment) * TEXT_HEIGHT + ROW_GAP;
	}
	layout->end = y;
	layout->height = y + LEGEND_HEIGHT;
}

/* ---- Parts of the drawing ---- */

static void print_escaped(FILE *to, const char *text, int length)
{
	for (int i = 0; i < length; i++) {
		if (text[i] == '&')
			fputs("&amp;", to);
		else if (text[i] == '<')
			fputs("&lt;", to);
		else
			fputc(text[i], to);
	}
}

static void draw_text(FILE *to, const struct moment *moment, int y)
{
	static const char *const tones[] = {
		[TONE_PLAIN] = "plain", [TONE_CAUTION] = "caution", [TONE_GOOD] = "good", [TONE_KILLED] = "killed"};
	int x = line_x(moment->who) + (moment->who == EXPORTER ? -TEXT_GAP : TEXT_GAP);
	char text[TEXT_BYTES + 16];

	full_text(moment, text);
	for (const char *rest = text; *rest; y += TEXT_HEIGHT) {
		int length = demo_wrap(rest, TEXT_COLUMNS);
		fprintf(to, "  <text class=\"%s\" x=\"%d\" y=\"%d\" text-anchor=\"%s\">", tones[moment->tone], x, y + 5,
			moment->who == EXPORTER ? "end" : "start");
		print_escaped(to, rest, length);
		fputs("</text>\n", to);
		rest += length;
		rest += strspn(rest, " ");
	}
}

static void draw_mark(FILE *to, const struct moment *moment, int y)
{
	int x = line_x(moment->who), r = DOT_RADIUS + 1;

	if (moment->tone == TONE_KILLED)
		fprintf(to, "  <path class=\"cross\" d=\"M%d %dL%d %dM%d %dL%d %d\"/>\n", x - r, y - r, x + r, y + r,
			x - r, y + r, x + r, y - r);
	else
		fprintf(to, "  <circle class=\"dot%d%s\" cx=\"%d\" cy=\"%d\" r=\"%d\"/>\n", (int)moment->who,
			moment->in_stream ? " stream" : "", x, y, DOT_RADIUS);
}

static void draw_arrow(FILE *to, const struct demo *demo, const struct layout *layout, enum arrow arrow)
{
	int from = demo_arrow_start(demo, arrow), end = demo_arrow_end(demo, arrow);

	if (from < 0 || end < 0)
		return;
	int way = demo->moments[from].who == EXPORTER ? 1 : -1;
	fprintf(to, "  <path class=\"arrow%s\" d=\"M%d %dL%d %d\" marker-end=\"url(#head)\"/>\n",
		arrow_is_event(arrow) ? " event" : "", line_x(demo->moments[from].who) + way * (DOT_RADIUS + 2),
		layout->moments[from], line_x(demo->moments[end].who) - way * (DOT_RADIUS + 4), layout->moments[end]);
}

static void draw_bar(FILE *to, enum who who, enum hold hold, int from, int end)
{
	if (hold != HOLD_BLOCK && hold != HOLD_DEFERRED)
		return;
	fprintf(to, "  <rect class=\"");
	fprintf(to, hold == HOLD_DEFERRED ? "deferred" : "bar%d", (int)who);
	fprintf(to, "\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>\n",
		line_x(who) - (double)BAR_WIDTH / 2, from, BAR_WIDTH, end - from);
}

/* A process's line, to its end, and on it the times in which it has a block. */
static void draw_process(FILE *to, const struct demo *demo, const struct layout *layout, enum who who)
{
	int y = HEAD_HEIGHT - 20, end = layout->end, since = y;
	enum hold hold = HOLD_NONE;

	for (int i = 0; i < demo->moment_count; i++)
		if (demo->moments[i].who == who && demo->moments[i].tone == TONE_KILLED)
			end = layout->moments[i];
	fprintf(to, "  <path class=\"line\" d=\"M%d %dV%d\"/>\n", line_x(who), y, end);
	for (int i = 0; i < demo->moment_count; i++) {
		if (demo->moments[i].who != who || !demo->moments[i].hold)
			continue;
		draw_bar(to, who, hold, since, layout->moments[i]);
		hold = demo->moments[i].hold;
		since = layout->moments[i];
	}
	draw_bar(to, who, hold, since, end);
}

static void draw_head(FILE *to, const struct demo *demo, const struct layout *layout)
{
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
		"role=\"img\">\n  <title>Two processes share memory: what they did, and when</title>\n  <style>\n%s"
		"  </style>\n  <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "
		"markerHeight=\"8\" orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
		WIDTH, layout->height, WIDTH, layout->height, colours);
	fprintf(to, "  <rect class=\"page\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", WIDTH - 1,
		layout->height - 1);
	fprintf(to, "  <text class=\"title\" x=\"24\" y=\"36\">Two processes share memory</text>\n");
	fprintf(to, "  <text class=\"small\" x=\"%d\" y=\"36\" text-anchor=\"end\">cenote %d.%d.%d, ", WIDTH - 24,
		CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH);
	print_escaped(to, demo->device, (int)strlen(demo->device));
	fprintf(to, "</text>\n  <text class=\"time\" x=\"%d\" y=\"68\" text-anchor=\"end\">ms</text>\n", TIME_X);
	for (int i = 0; i < WHO_COUNT; i++)
		fprintf(to, "  <text class=\"name%d\" x=\"%d\" y=\"68\" text-anchor=\"middle\">%s, process %d</text>\n",
			i, line_x((enum who)i), demo_names[i], demo->pid[i]);
}

static void draw_chapters(FILE *to, const struct layout *layout)
{
	for (int i = 0; i < CHAPTER_COUNT; i++) {
		int y = layout->chapters[i];
		if (!y)
			continue;
		fprintf(to, "  <rect class=\"band\" x=\"1\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", y + BAND_Y,
			WIDTH - 2, BAND_HEIGHT);
		fprintf(to, "  <text class=\"chapter\" x=\"24\" y=\"%d\">%d. %s</text>\n", y + BAND_Y + 19, i + 1,
			demo_chapters[i]);
	}
}

static void draw_small(FILE *to, int x, int y, const char *text)
{
	fprintf(to, "  <text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n", x, y, text);
}

static void draw_legend(FILE *to, const struct demo *demo, const struct layout *layout)
{
	int y = layout->end + 24, middle = y - 4, bar = y - 8;

	fprintf(to, "  <circle class=\"dot0\" cx=\"30\" cy=\"%d\" r=\"%d\"/>\n", middle, DOT_RADIUS);
	draw_small(to, 42, y, "a program");
	fprintf(to, "  <circle class=\"dot0 stream\" cx=\"126\" cy=\"%d\" r=\"%d\"/>\n", middle, DOT_RADIUS);
	draw_small(to, 138, y, "its stream");
	fprintf(to, "  <rect class=\"bar0\" x=\"218\" y=\"%d\" width=\"18\" height=\"%d\" rx=\"2\"/>\n", bar,
		BAR_WIDTH);
	draw_small(to, 242, y, "has a block");
	fprintf(to, "  <rect class=\"deferred\" x=\"330\" y=\"%d\" width=\"18\" height=\"%d\" rx=\"2\"/>\n", bar,
		BAR_WIDTH);
	draw_small(to, 354, y, "freed; kept until the other is done");
	fprintf(to, "  <path class=\"arrow\" d=\"M650 %dh28\" marker-end=\"url(#head)\"/>\n", middle);
	draw_small(to, 686, y, "message");
	fprintf(to, "  <path class=\"arrow event\" d=\"M766 %dh28\" marker-end=\"url(#head)\"/>\n", middle);
	draw_small(to, 802, y, "event");
	fprintf(to,
		"  <text class=\"small\" x=\"24\" y=\"%d\">Drawn by cenote demo --svg from a real run: %d moments in "
		"%.0f ms.</text>\n",
		y + 22, demo->moment_count,
		(double)(demo->moments[demo->moment_count - 1].time_ns - demo->moments[0].time_ns) / 1e6);
}

static void draw(FILE *to, const struct demo *demo)
{
	struct layout layout = {0};

	lay_out(demo, &layout);
	draw_head(to, demo, &layout);
	for (enum who who = EXPORTER; who < WHO_COUNT; who++)
		draw_process(to, demo, &layout, who);
	draw_chapters(to, &layout);
	for (enum arrow arrow = ARROW_NONE + 1; arrow < ARROW_COUNT; arrow++)
		draw_arrow(to, demo, &layout, arrow);
	for (int i = 0; i < demo->moment_count; i++) {
		const struct moment *moment = &demo->moments[i];
		fprintf(to, "  <text class=\"time\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%.2f</text>\n", TIME_X,
			layout.moments[i] + 5, (double)moment->time_ns / 1e6);
		draw_mark(to, moment, layout.moments[i]);
		draw_text(to, moment, layout.moments[i]);
	}
	draw_legend(to, demo, &layout);
	fputs("</svg>\n", to);
}

bool demo_write_svg(const struct demo *demo, const char *path)
{
	FILE *to = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

	if (!to) {
		fprintf(stderr, "cenote demo: %s: %s\n", path, strerror(errno));
		return false;
	}
	draw(to, demo);
	if (to == stdout)
		return true; /* main() checks standard output */
	if (ferror(to) | fclose(to)) {
		fprintf(stderr, "cenote demo: %s: %s\n", path, strerror(errno));
		return false;
	}
	printf("wrote %s: %d moments\n", path, demo->moment_count);
	return true;
}
