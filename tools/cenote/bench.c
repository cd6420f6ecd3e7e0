/* SPDX-License-Identifier: MIT */
/*
 * cenote bench: how fast is Cenote on this machine, compared with well-known calls?
 *
 * The two take turns, a sample each, as long as there is time; it shows the medians and the median of the ratios. A
 * short form of `make bench` that needs no source tree.
 */
#include "bench.h"
#include "command.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SECONDS = 5,
	SECONDS_MAX = 3600,
	SAMPLES_MIN = 5,
	SAMPLES_MAX = 2000,
	NANOSECONDS = 1000000000,
	TEXT_COLUMNS = 30,
	BESIDE_COLUMNS = 25,
};

struct summary {
	double median, q1, q3;
};

struct row {
	struct summary ours, theirs, ratio;
	unsigned samples;
};

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static struct summary summarise(double *samples, unsigned count)
{
	qsort(samples, count, sizeof *samples, compare);
	return (struct summary){samples[count / 2], samples[count / 4], samples[count - 1 - count / 4]};
}

static struct row measure(const struct bench_measure *what, double seconds)
{
	static double ours[SAMPLES_MAX], theirs[SAMPLES_MAX], ratios[SAMPLES_MAX];
	uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * NANOSECONDS);
	struct row row = {.samples = 0};

	what->ours(), what->theirs(); /* warm up */
	do {
		ours[row.samples] = what->ours();
		theirs[row.samples] = what->theirs();
		ratios[row.samples] = ours[row.samples] / theirs[row.samples];
		row.samples++;
	} while (row.samples < SAMPLES_MIN || (row.samples < SAMPLES_MAX && bench_now_ns() < end_ns));
	row.ours = summarise(ours, row.samples);
	row.theirs = summarise(theirs, row.samples);
	row.ratio = summarise(ratios, row.samples);
	return row;
}

/* ---- What is printed ---- */

/* While measuring, at a terminal: what is measured, and how far it is. */
static void show_progress(unsigned at)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (at < BENCH_MEASURES)
		fprintf(stderr, "\r%u of %d: %-*s\r", at + 1, BENCH_MEASURES, TEXT_COLUMNS, bench_measures[at].text);
	else
		fprintf(stderr, "\r%*s\r", TEXT_COLUMNS + 10, "");
	fflush(stderr);
}

static void print_time(double ns)
{
	static const char *const utf8[] = {"ns", "µs", "ms", "s "}, *const ascii[] = {"ns", "us", "ms", "s "};
	unsigned i = 0;

	for (; ns >= 9999.5 && i < 3; i++)
		ns /= 1000;
	printf("%7.*f %s", ns < 99.95 ? 1 : 0, ns, output_is_utf8() ? utf8[i] : ascii[i]);
}

static void print_row(const struct bench_measure *what, const struct row *row)
{
	printf("%-*s%s", TEXT_COLUMNS, what->text, style(STYLE_BOLD));
	print_time(row->ours.median);
	printf("%s   %-*s", style(STYLE_END), BESIDE_COLUMNS, what->beside);
	print_time(row->theirs.median);
	printf("   x %.3g\n", row->ratio.median);
	fflush(stdout);
}

static void print_json_summary(const struct summary *summary)
{
	printf("\"median\": %.6g, \"q1\": %.6g, \"q3\": %.6g", summary->median, summary->q1, summary->q3);
}

static void print_json_row(const struct bench_measure *what, const struct row *row, bool last)
{
	printf("  {\"name\": ");
	print_json_string(what->name);
	printf(", \"text\": ");
	print_json_string(what->text);
	printf(", \"unit\": \"ns\", \"samples\": %u, ", row->samples);
	print_json_summary(&row->ours);
	printf(",\n   \"beside\": {\"text\": ");
	print_json_string(what->beside);
	printf(", ");
	print_json_summary(&row->theirs);
	printf("}, \"ratio\": %.6g}%s\n", row->ratio.median, last ? "" : ",");
}

static int bench(bool json, double seconds)
{
	char device[256];

	bench_begin();
	if (cuDeviceGetName(device, sizeof device, 0))
		snprintf(device, sizeof device, "unknown");
	if (json) {
		printf("{\"version\": \"%d.%d.%d\", \"device\": ", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR,
		       CENOTE_VERSION_PATCH);
		print_json_string(device);
		printf(", \"rows\": [\n");
	} else {
		printf("%s\n%-*s%10s   beside it\n", device, TEXT_COLUMNS, "", "cenote");
	}
	for (unsigned i = 0; i < BENCH_MEASURES; i++) {
		show_progress(i);
		struct row row = measure(&bench_measures[i], seconds / BENCH_MEASURES);
		show_progress(BENCH_MEASURES);
		if (json)
			print_json_row(&bench_measures[i], &row, i + 1 == BENCH_MEASURES);
		else
			print_row(&bench_measures[i], &row);
	}
	if (json)
		printf("]}\n");
	bench_end();
	return EXIT_SUCCESS;
}

static int run(int argument_count, char **arguments)
{
	double seconds = SECONDS;
	bool json = false;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") == 0) {
			json = true;
		} else if (strcmp(arguments[i], "--seconds") == 0) {
			char *end;
			if (++i == argument_count)
				return usage_error("bench", "--seconds takes a number");
			seconds = strtod(arguments[i], &end);
			if (end == arguments[i] || *end || !isfinite(seconds) || seconds <= 0 || seconds > SECONDS_MAX)
				return usage_error("bench",
						   "'%s' is not a number of seconds: more than 0, and at most %d",
						   arguments[i], SECONDS_MAX);
		} else {
			return refuse_word("bench", arguments[i]);
		}
	}
	return bench(json, seconds);
}

const struct command command_bench = {
	.name = "bench",
	.summary = "measure how fast Cenote is on this machine",
	.help = "Usage: cenote bench [--json] [--seconds N]\n"
		"\n"
		"Measures Cenote on this machine. Each line has a well-known operation beside it, measured in turns\n"
		"with it: machines differ and are busy, ratios less so.\n"
		"\n"
		"  allocate and free    in stream order, beside malloc: a block of 4 KiB; then 256 B to "
		"512 KiB, 4,096\n"
		"                       slots filled and emptied at random\n"
		"  export, import       pointers of a pool that two processes share\n"
		"  import a pool        of another process\n"
		"  an event             recorded in one process, waited for in the other, and back\n"
		"  16 MiB               named to another process, which reads from it and answers, beside the same\n"
		"                       bytes copied through a Unix socket\n"
		"\n"
		"Two processes run, each on its own CPU if there are two. All data is checked. A line shows medians,\n"
		"and the median of the ratios.\n"
		"\n"
		"Options:\n"
		"  --json        print for a program: also the quartiles, and the number of samples\n"
		"  --seconds N   how long to measure: more than 0, at most 3600 (5)\n"
		"\n"
		"Exit status: 1 if a call failed, or data arrived wrong; a sentence says which.\n",
	.run = run,
};
