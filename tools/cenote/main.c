/* SPDX-License-Identifier: MIT */
/*
 * The cenote command.
 */
#include "command.h"

#include <cenote/cenote.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
	&command_demo,  &command_run,   &command_cc,   &command_info, &command_smi,
	&command_ps,    &command_top,   &command_map,  &command_kept, &command_metrics,
	&command_trace, &command_check, &command_imex, &command_gc,   &command_bench,
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

int usage_error(const char *command, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "cenote%s%s: ", command ? " " : "", command ? command : "");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\nTry: cenote help%s%s\n", command ? " " : "", command ? command : "");
	return EXIT_USAGE;
}

const char *command_help(const char *name)
{
	const struct command *command = find_command(name);

	return command ? command->help : "";
}

static int refuse_command(const char *name)
{
	struct guess guess = {.typed = name};

	for (int i = 0; i < COMMAND_COUNT; i++)
		guess_try(&guess, commands[i]->name, strlen(commands[i]->name));
	guess_try(&guess, "help", strlen("help"));
	guess_try(&guess, "--version", strlen("--version"));
	if (guess.found)
		return usage_error(NULL, "unknown command '%s'; did you mean '%s'?", name, guess.found);
	return usage_error(NULL, "unknown command '%s'", name);
}

static void print_help(FILE *to)
{
	fputs("Cenote: CUDA's memory sharing between processes, on any Linux machine.\n"
	      "\n"
	      "Usage: cenote COMMAND [ARGUMENT...]\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (int i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
	fputs("  help     explain a command\n"
	      "\n"
	      "  cenote --version   print the version of Cenote and of CUDA's interface\n"
	      "\n"
	      "Exit status: 0; 1 if something failed; 2 for wrong usage.\n",
	      to);
}

static int help(int argument_count, char **arguments)
{
	const struct command *command;

	if (argument_count == 1) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	command = find_command(arguments[1]);
	if (!command)
		return refuse_command(arguments[1]);
	fputs(command->help, stdout);
	return EXIT_SUCCESS;
}

static int version(void)
{
	int cuda_version = 0;

	if (cuDriverGetVersion(&cuda_version)) {
		fprintf(stderr, "cenote: %s\n", cenote_last_error());
		return EXIT_FAILURE;
	}
	printf("cenote %d.%d.%d (CUDA %d.%d)\n", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH,
	       cuda_version / 1000, cuda_version % 1000 / 10);
	return EXIT_SUCCESS;
}

static int dispatch(int argument_count, char **arguments)
{
	const struct command *command;

	if (argument_count < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (strcmp(arguments[1], "--version") == 0)
		return version();
	if (strcmp(arguments[1], "help") == 0)
		return help(argument_count - 1, arguments + 1);
	command = find_command(arguments[1]);
	if (!command)
		return refuse_command(arguments[1]);
	if (argument_count > 2 && (strcmp(arguments[2], "--help") == 0 || strcmp(arguments[2], "-h") == 0)) {
		fputs(command->help, stdout);
		return EXIT_SUCCESS;
	}
	return command->run(argument_count - 1, arguments + 1);
}

int main(int argument_count, char **arguments)
{
	int status = dispatch(argument_count, arguments);

	/* Output that did not reach the reader is a failure. */
	if (fflush(stdout) && !status) {
		perror("cenote: standard output");
		return EXIT_FAILURE;
	}
	if (ferror(stdout) && !status) { /* an earlier write failed: its errno is lost */
		fputs("cenote: standard output: not all could be written\n", stderr);
		return EXIT_FAILURE;
	}
	return status;
}
