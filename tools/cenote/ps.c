/* SPDX-License-Identifier: MIT */
/*
 * cenote ps: which processes share what, and which hold it.
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
	.summary = "list processes that share memory, and the holders",
	.help = "Usage: cenote ps [--json]\n"
		"\n"
		"Asks every process of this user that shares memory what it shares. Each row is something that a\n"
		"process shares; the rows below it are its holders.\n"
		"\n"
		"  WHAT       a pool, by the name that cenote map takes, and the holders of its blocks\n"
		"             memory: all memory with a handle of cuIpcGetMemHandle, and the processes that opened it\n"
		"             events: all events with a handle of cuIpcGetEventHandle, and the processes "
		"that opened them\n"
		"             physical: memory of cuMemCreate, and the processes that map it or hold its descriptor\n"
		"  USED       bytes in blocks that are live, or still held\n"
		"  RESERVED   bytes that the pool has from the system\n"
		"  SHARED     number and bytes: a pool's exported blocks, or memory and events with handles; below,\n"
		"             how many of them this process holds\n"
		"  DEFERRED   number and bytes that the owner has freed and that cannot be reused yet: this row's\n"
		"             process keeps your memory\n"
		"  SINCE      time since it was first shared, imported or opened\n"
		"  WAITED     time since the oldest block that waits for this process was freed\n"
		"\n"
		"A terminal of fewer than 98 columns shows fewer: RESERVED goes first, then USER, USED, SINCE.\n"
		"\n"
		"Physical memory is shared by a descriptor, which no process is told of. The command looks for it in\n"
		"/proc, in all processes that it may look into, on the host device. It cannot tell which process made\n"
		"the memory, or since when others have it, and does not see holders in other PID namespaces, holders\n"
		"of other users (unless you are root), or a descriptor that is still in a socket.\n"
		"On a GPU, physical memory, events and legacy memory belong to NVIDIA's driver: only pools are shown.\n"
		"\n"
		"Processes are found in the runtime directory, CENOTE_RUNTIME_DIR (if unset: /run/user/UID/cenote and\n"
		"/tmp/cenote-UID), in containers too if they share it. A process is there once it has exported a pool\n"
		"or a handle. What a process imports is reported by its exporter, from the first block on.\n"
		"A PID that this command cannot see is shown as ?.\n"
		"\n"
		"Options:\n"
		"  --json   print it for a program\n"
		"\n"
		"Exit status: 1 if the runtime directory cannot be read; a sentence says why.\n",
	.run = ps,
};
