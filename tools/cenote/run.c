/* SPDX-License-Identifier: MIT */
/*
 * cenote run: a program that was linked against NVIDIA's libraries, with Cenote's in front of them.
 */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Where the drop-in libraries are, seen from the folder of this command: where it was built, and installed. */
#ifndef CENOTE_DROPIN_INSTALLED
#define CENOTE_DROPIN_INSTALLED "../lib/cenote"
#endif
static const char *const places[] = {"../lib/dropin", CENOTE_DROPIN_INSTALLED};

/* The folder with our libcuda.so.1. */
static int find_libraries(char folder[PATH_MAX])
{
	char self[PATH_MAX], candidate[PATH_MAX + 64], library[PATH_MAX + 16];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0) {
		perror("cenote run: /proc/self/exe");
		return 0;
	}
	self[length] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(candidate, sizeof candidate, "%s/%s", self, places[i]);
		if (!realpath(candidate, folder))
			continue;
		snprintf(library, sizeof library, "%s/libcuda.so.1", folder);
		if (access(library, R_OK) == 0)
			return 1;
	}
	fprintf(stderr, "cenote run: no libcuda.so.1 in %s or %s, seen from %s\n", places[0], places[1], self);
	return 0;
}

static int put_in_front(const char *variable, const char *folder)
{
	const char *old = getenv(variable);
	char *value;

	if (asprintf(&value, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "") < 0)
		return -1;
	int failed = setenv(variable, value, 1);
	free(value);
	return failed;
}

/* --name VALUE or --name=VALUE: the value, NULL if this is another option, "" if it lacks one. */
static const char *option_value(const char *name, int argument_count, char **arguments, int *index)
{
	size_t length = strlen(name);
	const char *argument = arguments[*index];

	if (strncmp(argument, name, length))
		return NULL;
	if (argument[length] == '=')
		return argument + length + 1;
	if (argument[length])
		return NULL;
	if (*index + 1 >= argument_count)
		return "";
	return arguments[++*index];
}

/* The options that stand for variables of the environment. */
static const struct {
	const char *option, *variable;
} options[] = {
	{"--devices", "CENOTE_HOST_DEVICES"},
	{"--memory", "CENOTE_HOST_MEMORY"},
};

/* Read options; *ret_program is the index of what follows them. 0, or EXIT_USAGE. */
static int read_options(int argument_count, char **arguments, int *ret_program)
{
	int i;

	for (i = 1; i < argument_count && arguments[i][0] == '-'; i++) {
		const char *value = NULL;
		if (strcmp(arguments[i], "--") == 0) {
			i++;
			break;
		}
		for (size_t j = 0; j < sizeof options / sizeof options[0] && !value; j++) {
			value = option_value(options[j].option, argument_count, arguments, &i);
			if (!value)
				continue;
			if (!isdigit((unsigned char)*value))
				return usage_error("run", "%s takes a number", options[j].option);
			setenv(options[j].variable, value, 1);
		}
		if (!value)
			return usage_error("run", "there is no option '%s'", arguments[i]);
	}
	if (i >= argument_count)
		return usage_error("run", "which program?");
	*ret_program = i;
	return 0;
}

static int run(int argument_count, char **arguments)
{
	char folder[PATH_MAX];
	int program = 0;
	int status = read_options(argument_count, arguments, &program);

	if (status)
		return status;
	if (!find_libraries(folder))
		return EXIT_FAILURE;
	if (put_in_front("LD_LIBRARY_PATH", folder)) {
		perror("cenote run");
		return EXIT_FAILURE;
	}
	execvp(arguments[program], arguments + program);
	fprintf(stderr, "cenote run: %s: %s\n", arguments[program], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

const struct command command_run = {
	.name = "run",
	.summary = "run a program with Cenote in place of NVIDIA's libraries",
	.help = "Usage: cenote run [OPTION...] PROGRAM [ARGUMENT...]\n"
		"\n"
		"Runs a program that was linked against NVIDIA's libcuda.so.1 or libcudart.so.13, and puts Cenote's\n"
		"libraries of these names in front of them (in LD_LIBRARY_PATH, so that its children have them too).\n"
		"\n"
		"Options:\n"
		"  --devices N     let it see N host devices (CENOTE_HOST_DEVICES)\n"
		"  --memory SIZE   give each so much memory: bytes, or with K, M, G, T (CENOTE_HOST_MEMORY)\n"
		"  --              what follows is the program\n"
		"\n"
		"Exit status: the program's; 126 when it cannot be executed, 127 when it is not found.\n"
		"\n"
		"Example: cenote run --devices 2 ./simpleIPC\n",
	.run = run,
};
