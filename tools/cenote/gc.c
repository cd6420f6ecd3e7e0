/* SPDX-License-Identifier: MIT */
/*
 * cenote gc: names that killed processes left behind.
 */
#include "command.h"

#include <cenote/cenote.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sweep {
	bool json, only_look, quiet;
	int directory_count;
	int removed_count, dead_count, live_count; /* in all; dead ones are those that are still there */
	int here_count;                            /* names of this directory, of those that are printed */
};

static void end_directory(const struct sweep *sweep)
{
	if (sweep->json && sweep->directory_count)
		printf("%s]}", sweep->here_count ? "\n    " : "");
}

static void begin_directory(struct sweep *sweep, const char *path)
{
	end_directory(sweep);
	if (sweep->json) {
		printf("%s\n    {\"path\": ", sweep->directory_count ? "," : "");
		print_json_string(path);
		fputs(", \"names\": [", stdout);
	} else {
		printf("%s\n", path);
	}
	sweep->directory_count++;
	sweep->here_count = 0;
}

static void found(const cenote_name *name, void *data)
{
	struct sweep *sweep = data;
	const char *state = name->live ? "live" : name->removed ? "removed" : "dead";

	if (!name->name) {
		begin_directory(sweep, name->directory);
		return;
	}
	sweep->live_count += name->live != 0;
	sweep->removed_count += name->removed != 0;
	sweep->dead_count += !name->live && !name->removed;
	if (sweep->json)
		printf("%s\n      {\"name\": \"%s\", \"state\": \"%s\"}", sweep->here_count ? "," : "", name->name,
		       state);
	else if (!name->live)
		printf("  %s  %s%s%s\n", name->name, style(name->removed ? STYLE_GOOD : STYLE_CAUTION), state,
		       style(STYLE_END));
	sweep->here_count++;
}

static const char *names(int count)
{
	return count == 1 ? "name" : "names";
}

static void print_sum(const struct sweep *sweep)
{
	if (!sweep->directory_count)
		puts("no process has left a name: none of the directories is there");
	else if (sweep->only_look)
		printf("%d dead %s, %d live\n", sweep->dead_count, names(sweep->dead_count), sweep->live_count);
	else
		printf("%d dead %s removed, %d live\n", sweep->removed_count, names(sweep->removed_count),
		       sweep->live_count);
	if (sweep->dead_count && !sweep->only_look)
		printf("%d dead %s could not be removed\n", sweep->dead_count, names(sweep->dead_count));
}

static int gc(int argument_count, char **arguments)
{
	struct sweep sweep = {0};

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") == 0)
			sweep.json = true;
		else if (strcmp(arguments[i], "--dry-run") == 0)
			sweep.only_look = true;
		else
			return refuse_word("gc", arguments[i]);
	}
	if (sweep.json)
		fputs("{\n  \"directories\": [", stdout);
	CUresult result = cenote_sweep(sweep.only_look ? CENOTE_SWEEP_LOOK : 0, found, &sweep);
	if (sweep.json) {
		end_directory(&sweep);
		printf("%s],\n  \"removed\": %d,\n  \"dead\": %d,\n  \"live\": %d,\n  \"error\": ",
		       sweep.directory_count ? "\n  " : "", sweep.removed_count, sweep.dead_count, sweep.live_count);
		if (result)
			print_json_string(cenote_last_error());
		else
			fputs("null", stdout);
		puts("\n}");
	} else if (!result || sweep.directory_count) {
		print_sum(&sweep);
	}
	if (result)
		fprintf(stderr, "cenote gc: %s\n", cenote_last_error());
	return result || (sweep.dead_count && !sweep.only_look) ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_gc = {
	.name = "gc",
	.summary = "remove names that killed processes left behind",
	.help = "Usage: cenote gc [--dry-run] [--json]\n"
		"\n"
		"A process that shares memory has a name by which others find it: a socket in a directory of its\n"
		"user. A killed process leaves its name behind. That does no harm, and the next process that makes a\n"
		"name there removes it; this command does it now, and says what it removed. It never removes the name\n"
		"of a live process, in any container.\n"
		"\n"
		"It looks in the runtime directory, CENOTE_RUNTIME_DIR (if unset: /run/user/UID/cenote and\n"
		"/tmp/cenote-UID), and in this user's folder of the fabric directory, CENOTE_FABRIC_DIR (if unset:\n"
		"/tmp/cenote-fabric).\n"
		"\n"
		"Options:\n"
		"  --dry-run   only list the dead names\n"
		"  --json      print all names for a program, with their state: live, dead or removed\n"
		"\n"
		"Exit status: 1 if a directory is unsafe or cannot be read, or a dead name could not be removed; a\n"
		"sentence says which.\n",
	.run = gc,
};
