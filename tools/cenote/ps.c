/* SPDX-License-Identifier: MIT */
/*
 * cenote ps: who shares what, and who holds it.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

static int ps(int argument_count, char **arguments)
{
	struct survey survey;
	bool json = false;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") != 0)
			return refuse_word("ps", arguments[i]);
		json = true;
	}
	bool complete = survey_take("ps", &survey);
	if (json)
		survey_print_json(&survey);
	else
		survey_print_table(stdout, &survey);
	survey_free(&survey);
	return complete ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_ps = {
	.name = "ps",
	.summary = "say which processes share memory, and who holds it",
	.help = "Usage: cenote ps [--json]\n"
		"\n"
		"Asks every process of this user that shares something what it shares. A row is a pool of a process;\n"
		"below it stand those who have imported it, with what each of them holds.\n"
		"\n"
		"  POOL       what cenote map takes\n"
		"  USED       bytes in blocks that live, or that somebody still holds\n"
		"  RESERVED   bytes that the pool has from the system\n"
		"  SHARED     blocks and bytes: of a pool those that are exported, of an importer those that it holds\n"
		"  DEFERRED   blocks and bytes of those that their owner has freed and cannot have back yet, because\n"
		"             an importer still holds them: there is the one who keeps your memory\n"
		"  SINCE      how long ago the pool was first exported, or was imported\n"
		"  WAITED     how long ago the oldest of an importer's deferred blocks was freed\n"
		"\n"
		"Processes are found in the runtime directory, CENOTE_RUNTIME_DIR (where that is not set:\n"
		"/run/user/UID/cenote and /tmp/cenote-UID), also those in containers that have the same one. A\n"
		"process is there once it has exported a pool or given out a handle; what it imports is told by who\n"
		"has exported it, from the first block on.\n"
		"A PID that cannot be seen from here is shown as ?.\n"
		"\n"
		"Options:\n"
		"  --json   print all of it for a program\n"
		"\n"
		"Exit status: 1 when the runtime directory cannot be looked into; a sentence says why.\n",
	.run = ps,
};
