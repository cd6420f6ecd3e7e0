/* SPDX-License-Identifier: MIT */
/*
 * What the command calls instead of what could do harm (guard.h), and what it prints.
 */
#include "guard.h"
#include "call_command.h"

#include "../../tools/cenote/imex.h"
#include "../../tools/cenote/survey.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#undef fopen

enum { PRINTED_BYTES_MAX = 1 << 20 };

pid_t fuzz_no_fork(void)
{
	errno = EAGAIN;
	return -1;
}

int fuzz_no_exec(const char *file, char *const *arguments)
{
	(void)file, (void)arguments;
	errno = ENOENT;
	return -1;
}

int fuzz_no_file(char *name, int flags)
{
	(void)name, (void)flags;
	errno = EACCES;
	return -1;
}

FILE *fuzz_open_to_read(const char *path, const char *mode)
{
	return fopen(*mode == 'r' ? path : "/dev/null", mode);
}

/* ---- Instead of survey_physical.c ---- */

/* No stranger says this: the system does. To go through /proc would take most of the time. */
void survey_find_physical(struct survey *survey)
{
	static const struct physical_holder holders[] = {
		{.pid = 1, .identity = {.program = "one"}},
		{.pid = 2, .mapped = true, .identity = {.program = "a \"\\\" b"}},
	};
	struct physical physical = {.count = 3, .bytes = 6 << 20, .holders = malloc(sizeof holders), .holder_count = 2};

	survey->physicals = malloc(sizeof physical);
	FUZZ_CHECK(physical.holders && survey->physicals);
	memcpy(physical.holders, holders, sizeof holders);
	*survey->physicals = physical;
	survey->physical_count = 1;
	survey->physical_known = true;
}

/* ---- Instead of imex_daemon.c ---- */

/* They start and end daemons. */
int imex_start(const struct imex_request *request)
{
	return imex_fail("%s", request->nodes && request->key ? "not here" : "start takes --nodes FILE and --key FILE");
}

int imex_stop(const struct imex_request *request)
{
	(void)request;
	return imex_fail("not here");
}

/* ---- Instead of main.c ---- */

static const struct command *const commands[] = {&command_demo, &command_gc,  &command_imex,    &command_info,
						 &command_kept, &command_map, &command_metrics, &command_ps,
						 &command_run,  &command_top};

int usage_error(const char *command, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "cenote %s: ", command);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	return EXIT_USAGE;
}

const char *command_help(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i]->help;
	return "";
}

static int run_command(int argument_count, char **arguments)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (argument_count > 1 && !strcmp(commands[i]->name, arguments[1]))
			return commands[i]->run(argument_count - 1, arguments + 1);
	return usage_error("", "which command?");
}

/* ---- Calling it ---- */

/* What `run` puts into the environment. */
static void put_environment_back(void)
{
	setenv("CENOTE_DEVICE", "host", 1);
	setenv("CENOTE_HOST_MEMORY", "1G", 1);
	unsetenv("CENOTE_HOST_DEVICES");
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("LD_PRELOAD");
}

int fuzz_command(int argument_count, char **arguments, char **ret_printed)
{
	FILE *before[2] = {stdout, stderr};
	char *printed = NULL, *said = NULL;
	size_t printed_bytes = 0, said_bytes = 0;

	stdout = open_memstream(&printed, &printed_bytes);
	stderr = open_memstream(&said, &said_bytes);
	FUZZ_CHECK(stdout && stderr);
	int status = run_command(argument_count, arguments);
	FUZZ_CHECK(!fclose(stdout) && !fclose(stderr));
	stdout = before[0];
	stderr = before[1];
	put_environment_back();
	FUZZ_CHECK(printed_bytes < PRINTED_BYTES_MAX);
	/* A function that fails says why, and nothing else is a failure. */
	FUZZ_CHECK(status >= 0 && status <= 127 && (!status || said_bytes));
	free(said);
	*ret_printed = printed;
	return status;
}

/* ---- What is printed ---- */

void fuzz_check_printable(const char *text)
{
	for (; *text; text++)
		if (*text != '\n' && (*text < ' ' || *text > '~'))
			fuzz_fail(__FILE__, __LINE__, "a byte %d is printed", (unsigned char)*text);
}

static const char *skip_spaces(const char *at)
{
	return at + strspn(at, " \n\r\t");
}

static const char *skip_string(const char *at)
{
	FUZZ_CHECK(*at == '"');
	for (at++; *at != '"'; at++) {
		FUZZ_CHECK(*at >= ' ' || *at < 0);
		if (*at == '\\')
			FUZZ_CHECK(strchr("\"\\/bfnrtu", *++at) && *at);
	}
	return at + 1;
}

static const char *skip_value(const char *at, int depth)
{
	static const char *const words[] = {"true", "false", "null"};

	FUZZ_CHECK(depth < 16);
	if (*at == '"')
		return skip_string(at);
	if (*at == '{' || *at == '[') {
		char end = *at == '{' ? '}' : ']';
		at = skip_spaces(at + 1);
		while (*at != end) {
			if (end == '}') {
				at = skip_spaces(skip_string(at));
				FUZZ_CHECK(*at == ':');
				at = skip_spaces(at + 1);
			}
			at = skip_spaces(skip_value(at, depth + 1));
			FUZZ_CHECK(*at == ',' || *at == end);
			if (*at == ',') {
				at = skip_spaces(at + 1);
				FUZZ_CHECK(*at != end);
			}
		}
		return at + 1;
	}
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strncmp(at, words[i], strlen(words[i])))
			return at + strlen(words[i]);
	size_t length = strspn(at, "-+.eE0123456789");
	FUZZ_CHECK(length);
	return at + length;
}

void fuzz_check_json(const char *text)
{
	const char *end = skip_spaces(skip_value(skip_spaces(text), 0));

	FUZZ_CHECK(!*end);
}
