/* SPDX-License-Identifier: MIT */
/*
 * cenote ps: which processes share what, and which hold it.
 */
#include "kept.h"
#include "survey.h"

#include <stdlib.h>
#include <string.h>

static int ps(int argument_count, char **arguments)
{
	struct selection selection = {.pid = 0};
	struct kept_list kept;
	struct survey survey;
	bool json = false;

	for (int i = 1; i < argument_count; i++) {
		int taken = selection_read(&selection, "ps", argument_count, arguments, &i);
		if (taken < 0)
			return EXIT_USAGE;
		if (!taken && strcmp(arguments[i], "--json") != 0)
			return refuse_word("ps", arguments[i]);
		json |= !taken;
	}
	bool complete = survey_take_all("ps", &survey);
	selection_apply(&selection, &survey);
	kept_take("", &kept); /* where there is no daemon, nothing is kept */
	kept_select(&kept, &selection);
	if (json)
		survey_print_json(&survey, &kept);
	else
		survey_print_table(stdout, &survey, output_columns());
	if (!json && kept.count) {
		puts("\nkept by cenoted:");
		kept_print_table(&kept);
	}
	kept_free(&kept);
	bool holds = selection_holds(&selection, "ps", &survey);
	survey_free(&survey);
	if (!complete)
		return EXIT_FAILURE;
	return holds ? EXIT_CONDITION : EXIT_SUCCESS;
}

const struct command command_ps = {
	.name = "ps",
	.summary = "list processes that share memory, and the holders",
	.help = "Usage: cenote ps [OPTION...]\n"
		"\n"
		"Asks all processes of this user that share memory what they share; root asks all users'. Each row\n"
		"is something that a process shares; the rows below it are its holders.\n"
		"\n"
		"  WHAT       a pool, by the name that cenote map takes, and the holders of its blocks\n"
		"             node N: cenote-imexd holds it for a process of node N, or the process has it from there\n"
		"             memory: all memory with a handle of cuIpcGetMemHandle, and the processes that opened it\n"
		"             events: all events with a handle of cuIpcGetEventHandle, and the processes "
		"that opened them\n"
		"             physical: memory of cuMemCreate, and the processes that map it or hold its descriptor;\n"
		"             node N: cenote-imexd says that it maps it for programs of node N\n"
		"             private: memory of a device that no other process has; on a GPU that of pools\n"
		"  CONTAINER  by the control group: Docker, containerd, CRI-O, Podman, LXC, a Kubernetes pod, a\n"
		"             systemd unit; only if a process is in one\n"
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
		"A process that does not answer is shown as it last wrote. A second table has what cenoted keeps, if\n"
		"there is one: see cenote help kept. --pid and --container select what such a process has open.\n"
		"\n"
		"Physical and private memory is looked for in /proc, in all processes that the command may look into,\n"
		"on the host device. It cannot tell which process made physical memory, or since when others have it,\n"
		"and does not see holders in PID namespaces above or beside this one, holders of other users (unless\n"
		"you are root), or a descriptor that is still in a socket.\n"
		"On a GPU, physical memory, events and legacy memory belong to NVIDIA's driver: only pools are shown.\n"
		"\n"
		"Processes are found in the runtime directory, CENOTE_RUNTIME_DIR (if unset: /run/user/UID/cenote and\n"
		"/tmp/cenote-UID), in containers too if they share it. A process is there once it has exported a pool\n"
		"or a handle. What a process imports is reported by its exporter, from the first block on.\n"
		"A PID that this command cannot see is shown as ?.\n"
		"\n"
		"Options:\n"
		"  --pid PID         what this process shares or holds\n"
		"  --user USER       the same of a user's processes, by name or number\n"
		"  --container WORD  the same of a container: its kind, or the beginning of its id, pod or unit\n"
		"  --deferred        only what was freed and is held\n"
		"  --sort NUMBER     the largest first: deferred, waited, shared, used, reserved, pools; or by pid\n"
		"  --fail-if TEXT    exit with status 3 if this is true of what is shown: 'deferred>1G', 'silent>0',\n"
		"                    'waited>=90s'. The numbers of --sort, also silent (processes that do not answer)\n"
		"                    and processes; > >= < <= == !=; K M G T, s m h d\n"
		"  --json            print it for a program\n"
		"\n"
		"Exit status: 1 if the runtime directory cannot be read, and a sentence says why; 3 for --fail-if.\n",
	.run = ps,
};
