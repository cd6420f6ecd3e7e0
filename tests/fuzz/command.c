/* SPDX-License-Identifier: MIT */
/*
 * The command's arguments: words of the script's choice, known ones and any other, to `cenote`.
 *
 * It runs in this process, kept from harm (guard.h). `demo` is never let through to its two processes.
 */
#include "call_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 12, WORD_CHARS = 64 };

static const char *const words[] = {
	"demo",        "run",       "info",   "ps",    "top",        "map",    "imex",      "gc",      "--help",
	"-h",          "--version", "--json", "--svg", "--dry-run",  "--once", "--delay",   "0.5",     "create",
	"remove",      "list",      "--mode", "0640",  "0",          "1",      "--devices", "2",       "--device",
	"host",        "--memory",  "64M",    "--",    "true",       "abcd",   "--ascii",   "--svg=x", "--mode=7",
	"--memory=1G", "--output",  "",       "-",     "2147483648", "-1",     "1e9",       "nan",
};

void fuzz_prepare(void)
{
	CUdeviceptr block;
	CUmemPoolPtrExportData name;

	setenv("NO_COLOR", "1", 1);
	setenv("LC_ALL", "C", 1);
	fuzz_start();
	/* Something to see. */
	CUmemoryPool pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	FUZZ_OK(cuMemAllocFromPoolAsync(&block, 1 << 20, pool, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&name, block));
	/* What `info` tries once, the library keeps. */
	char *arguments[] = {(char *)"cenote", (char *)"info", NULL}, *printed;
	FUZZ_CHECK(!fuzz_command(2, arguments, &printed));
	free(printed);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	static char texts[ARGUMENTS_MAX][WORD_CHARS];
	char *arguments[ARGUMENTS_MAX + 4] = {(char *)"cenote"}, *printed;
	int count = 1, json = 0;

	while (input.left && count < ARGUMENTS_MAX) {
		unsigned which = fuzz_byte(&input);
		if (which < sizeof words / sizeof *words)
			snprintf(texts[count], WORD_CHARS, "%s", words[which]);
		else
			fuzz_text(&input, texts[count], WORD_CHARS);
		arguments[count] = texts[count];
		json |= !strcmp(texts[count], "--json");
		count++;
	}
	if (count > 1 && !strcmp(arguments[1], "demo"))
		for (int i = 0; i < 2; i++)
			arguments[count++] = (char *)"no demo";
	if (count > 1 && !strcmp(arguments[1], "run"))
		json = 0; /* the program's own */
	arguments[count] = NULL;
	int status = fuzz_command(count, arguments, &printed);
	if (!status && json && *printed == '{')
		fuzz_check_json(printed);
	free(printed);
}
