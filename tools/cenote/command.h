/* SPDX-License-Identifier: MIT */
/*
 * The cenote command: what its files share.
 *
 * Each command is a function in a file of its own, and a row in main.c. Exit statuses: 0, 1 when something failed, 2
 * when the command line was not understood. It uses Cenote as any program does, through the public headers.
 */
#ifndef CENOTE_TOOLS_COMMAND_H
#define CENOTE_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_USAGE = 2 };

struct command {
	const char *name;
	const char *summary;                              /* one line */
	const char *help;                                 /* what `cenote help NAME` prints */
	int (*run)(int argument_count, char **arguments); /* arguments[0] is the command's name */
};

extern const struct command command_bench;
extern const struct command command_cc;
extern const struct command command_check;
extern const struct command command_demo;
extern const struct command command_gc;
extern const struct command command_imex;
extern const struct command command_info;
extern const struct command command_kept;
extern const struct command command_map;
extern const struct command command_metrics;
extern const struct command command_ps;
extern const struct command command_run;
extern const struct command command_smi;
extern const struct command command_top;
extern const struct command command_trace;

/* Print a complaint and where to find help; returns EXIT_USAGE. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print the help of a command, as `cenote help NAME` does. */
const char *command_help(const char *name);

/* ---- What a mistyped word may have meant (guess.c) ---- */

struct guess {
	const char *typed; /* set this alone before the first try */
	const char *found; /* NULL: nothing is near */
	size_t bytes;      /* of what was found, which may be a part of a text */
	int distance;
};

/* Take a word if it is near, and nearer than those before. */
void guess_try(struct guess *guess, const char *candidate, size_t bytes);
/* The same with all options that a text names. */
void guess_option(struct guess *guess, const char *help);

/* ---- What is printed (output.c) ---- */

/* Complain about a word that a command does not accept; returns EXIT_USAGE. */
int refuse_word(const char *command, const char *word);

/* Print a text as a JSON string, with its quotes. */
void print_json_string(const char *text);

enum style {
	STYLE_END,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_GOOD,
	STYLE_BAD,
	STYLE_CAUTION,
	STYLE_EXPORTER,
	STYLE_IMPORTER,
};
/*
 * The sequence that begins a style on standard output: "" if that is no terminal, or colours are not wanted.
 */
const char *style(enum style style);
/* How wide standard output is: the terminal's columns, else 100. */
int output_columns(void);
/* May output be more than ASCII? The user's locale says so. */
bool output_is_utf8(void);

#endif
