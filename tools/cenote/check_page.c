/* SPDX-License-Identifier: MIT */
/*
 * cenote check: findings as a page, which any browser shows without a network.
 *
 * Each finding is drawn: two streams as columns, time downwards, what each did, and the arrow that is missing.
 */
#include "check.h"

#include <inttypes.h>
#include <string.h>

enum { COLUMN_LEFT = 190, COLUMN_RIGHT = 610, ROW_FIRST = 70, ROW_SECOND = 170, BOX_WIDTH = 340, BOX_HEIGHT = 44 };

static void put_text(const char *text, FILE *to)
{
	for (; *text; text++) {
		switch (*text) {
		case '<': fputs("&lt;", to); break;
		case '>': fputs("&gt;", to); break;
		case '&': fputs("&amp;", to); break;
		case '"': fputs("&quot;", to); break;
		default: putc(*text, to); break;
		}
	}
}

void check_page_begins(FILE *to)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>cenote check</title>\n<style>\n"
	      "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#222;"
	      "background:#fff}\n"
	      "section{border-top:1px solid #ccc;padding:1rem 0}h2{font-size:1.1rem;margin:0}\n"
	      "pre{background:#f4f4f4;padding:.6rem;overflow-x:auto;font-size:13px;white-space:pre-wrap}"
	      "svg{width:100%;height:auto}\n"
	      ".mend{border-left:3px solid #2a7;padding-left:.6rem}text{font:13px system-ui,sans-serif}\n"
	      "@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}pre{background:#222}"
	      "text{fill:#ddd}}\n"
	      "</style></head><body>\n<h1>cenote check</h1>\n",
	      to);
}

static void draw_column(const struct check *check, const struct check_site *site, int x, FILE *to)
{
	char process[CHECK_NAME_BYTES], stream[CHECK_NAME_BYTES];

	check_name_process(check, site->process, process);
	check_name_stream(check, site, stream);
	fprintf(to,
		"<line x1=\"%d\" y1=\"42\" x2=\"%d\" y2=\"230\" stroke=\"#888\" stroke-width=\"2\"/>"
		"<text x=\"%d\" y=\"18\" text-anchor=\"middle\" font-weight=\"bold\">",
		x, x, x);
	put_text(process, to);
	fprintf(to, "</text><text x=\"%d\" y=\"36\" text-anchor=\"middle\">", x);
	put_text(stream, to);
	fputs("</text>", to);
}

static void draw_box(const struct check *check, const struct check_site *site, int x, int y, FILE *to)
{
	char place[CHECK_NAME_BYTES];

	check_place(check, site, place);
	fprintf(to,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#fbe9e7\" stroke=\"#c0392b\"/>"
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" style=\"fill:#222\">",
		x - BOX_WIDTH / 2, y, BOX_WIDTH, BOX_HEIGHT, x, y + 18);
	put_text(check_call_name(site->call), to);
	fprintf(to, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\" style=\"fill:#222\">", x, y + 36);
	put_text(place, to);
	fputs("</text>", to);
}

static void draw(const struct check *check, const struct check_finding *finding, FILE *to)
{
	fputs("<svg viewBox=\"0 0 800 240\" role=\"img\" aria-label=\"the two, and the order that is missing\">", to);
	draw_column(check, &finding->first, COLUMN_LEFT, to);
	draw_column(check, &finding->second, COLUMN_RIGHT, to);
	fprintf(to,
		"<path d=\"M%d %d C %d %d, %d %d, %d %d\" fill=\"none\" stroke=\"#c0392b\" stroke-width=\"2\" "
		"stroke-dasharray=\"7 5\"/><text x=\"400\" y=\"142\" text-anchor=\"middle\" style=\"fill:#c0392b\">"
		"no order</text>",
		COLUMN_LEFT, ROW_FIRST + BOX_HEIGHT, COLUMN_LEFT, ROW_SECOND, COLUMN_RIGHT, ROW_FIRST + BOX_HEIGHT,
		COLUMN_RIGHT, ROW_SECOND);
	draw_box(check, &finding->first, COLUMN_LEFT, ROW_FIRST, to);
	draw_box(check, &finding->second, COLUMN_RIGHT, ROW_SECOND, to);
	fputs("</svg>\n", to);
}

static void list_stack(const struct check *check, const struct check_site *site, FILE *to)
{
	struct check_frame frames[CN_TRACE_FRAMES];
	int count = site->call == CN_CALL_COUNT ? 0 : check_frames(check, site, frames);

	if (!count)
		return;
	fputs("<pre>", to);
	put_text(check_call_name(site->call), to);
	for (int i = 0; i < count; i++) {
		fputs("\n  ", to);
		put_text(frames[i].function, to);
		fputs(*frames[i].function ? "  " : "", to);
		put_text(frames[i].place, to);
	}
	fputs("</pre>\n", to);
}

void check_page_adds(const struct check *check, const struct check_finding *finding, uint64_t number, FILE *to)
{
	char text[8192];

	fprintf(to, "<section><h2>%" PRIu64 ": %s</h2>\n<p>", number, check_kind_names[finding->kind]);
	check_sentence(check, finding, text, sizeof text);
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		put_text(line, to);
		fputs(next ? "<br>" : "</p>\n", to);
	}
	check_remedy(check, finding, text, sizeof text);
	if (*text) {
		fputs("<p class=\"mend\">", to);
		put_text(text, to);
		fputs("</p>\n", to);
	}
	if (finding->first.call != CN_CALL_COUNT && finding->second.call != CN_CALL_COUNT)
		draw(check, finding, to);
	list_stack(check, &finding->first, to);
	list_stack(check, &finding->second, to);
	fputs("</section>\n", to);
}

void check_page_ends(FILE *to, uint64_t count)
{
	if (count)
		fprintf(to, "<p>%" PRIu64 " finding%s.</p></body></html>\n", count, count == 1 ? "" : "s");
	else
		fputs("<p>No finding.</p></body></html>\n", to);
}
