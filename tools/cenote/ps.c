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
	bool complete = survey_take_all("ps", &survey);
	if (json)
		survey_print_json(&survey);
	else
		survey_print_table(stdout, &survey, output_columns());
	survey_free(&survey);
	return complete ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_ps = {
	.name = "ps",
	.summary = "say which processes share memory, and who holds it",
	.help = "Usage: cenote ps [--json]\n"
		"\n"
		"Asks every process of this user that shares something what it shares. A row is something that a\n"
		"process shares; below it stand those who have it.\n"
		"\n"
		"  WHAT       a pool: what cenote map takes, and below it who holds blocks of it\n"
		"             memory: all memory with a handle of cuIpcGetMemHandle, and who has opened some\n"
		"             events: all events with a handle of cuIpcGetEventHandle, and who has opened some\n"
		"             physical: memory of cuMemCreate, and who maps it, or has it, as a descriptor alone\n"
		"  USED       bytes in blocks that live, or that somebody still holds\n"
		"  RESERVED   bytes that the pool has from the system\n"
		"  SHARED     how many and bytes: of a pool the blocks that are exported, of memory and events those\n"
		"             that have handles; below, how many of them this process has\n"
		"  DEFERRED   how many and bytes of those that their owner has freed and cannot have back yet, since\n"
		"             somebody still has them: there is the one who keeps your memory\n"
		"  SINCE      how long ago it was first shared, or imported or opened\n"
		"  WAITED     how long ago the oldest was freed of what waits for this process\n"
		"\n"
		"A terminal of fewer than 98 columns gets fewer: RESERVED goes first, then USER, USED, SINCE.\n"
		"\n"
		"Physical memory is shared by a descriptor, which may have come by a fabric handle, and nobody is\n"
		"told of it. It is looked for in /proc, and found on the host device in all processes that this one\n"
		"may look into. It is not known who made it, since when the others have it, nor who has it in another\n"
		"PID namespace or, unless you are root, as another user; a descriptor on its way is in no process.\n"
		"On a GPU all this is NVIDIA's driver's, events and legacy memory too: only pools are told of there.\n"
		"\n"
		"Processes are found in the runtime directory, CENOTE_RUNTIME_DIR (where that is not set:\n"
		"/run/user/UID/cenote and /tmp/cenote-UID), also those in containers that have the same one. A\n"
		"process is there once it has exported a pool or given out a handle; what it imports or opens is told\n"
		"by who has exported it, from the first block on.\n"
		"A PID that cannot be seen from here is shown as ?.\n"
		"\n"
		"Options:\n"
		"  --json   print all of it for a program\n"
		"\n"
		"Exit status: 1 when the runtime directory cannot be looked into; a sentence says why.\n",
	.run = ps,
};
