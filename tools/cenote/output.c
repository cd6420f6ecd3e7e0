/* SPDX-License-Identifier: MIT */
/*
 * Output, for a person at a terminal, a file, or a program.
 */
#include "command.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_OF_A_FILE = 100 };

int refuse_word(const char *command, const char *word)
{
	struct guess guess = {.typed = word};

	if (*word != '-')
		return usage_error(command, "unexpected argument '%s'", word);
	guess_option(&guess, command_help(command));
	if (guess.found && (strlen(word) != guess.bytes || strncmp(word, guess.found, guess.bytes) != 0))
		return usage_error(command, "unknown option '%s'; did you mean '%.*s'?", word, (int)guess.bytes,
				   guess.found);
	return usage_error(command, "unknown option '%s'", word);
}

void print_json_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;
		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < ' ')
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static bool wants_colours(void)
{
	const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(refused && *refused) && terminal && *terminal &&
	       strcmp(terminal, "dumb") != 0;
}

const char *style(enum style style)
{
	static const char *const sequences[] = {
		[STYLE_END] = "\033[0m",       [STYLE_BOLD] = "\033[1m",      [STYLE_DIM] = "\033[2m",
		[STYLE_GOOD] = "\033[32m",     [STYLE_BAD] = "\033[1;31m",    [STYLE_CAUTION] = "\033[33m",
		[STYLE_EXPORTER] = "\033[34m", [STYLE_IMPORTER] = "\033[36m",
	};
	static int wanted = -1;

	if (wanted < 0)
		wanted = wants_colours();
	return wanted ? sequences[style] : "";
}

int output_columns(void)
{
	struct winsize size;

	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : COLUMNS_OF_A_FILE;
}

bool output_is_utf8(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
