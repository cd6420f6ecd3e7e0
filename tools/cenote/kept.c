/* SPDX-License-Identifier: MIT */
/*
 * cenote kept: what cenoted keeps by name, and which processes have it open.
 */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

static void print_json(const struct kept_list *list, const char *error)
{
	fputs("{\n  \"objects\": ", stdout);
	kept_print_json_objects(list);
	fputs(",\n  \"error\": ", stdout);
	if (error)
		print_json_string(error);
	else
		fputs("null", stdout);
	puts("\n}");
}

static int complain(void)
{
	fprintf(stderr, "cenote kept: %s\n", cenote_last_error());
	return EXIT_FAILURE;
}

static int list(const char *prefix, bool json)
{
	struct kept_list list;
	CUresult result = kept_take(prefix, &list);
	const char *error = result ? cenote_last_error() : list.no_memory ? "no memory for all objects" : NULL;

	if (json)
		print_json(&list, error);
	else if (!result && list.count)
		kept_print_table(&list);
	else if (!result)
		puts("nothing is kept");
	kept_free(&list);
	if (error)
		fprintf(stderr, "cenote kept: %s\n", error);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_kept(int argument_count, char **arguments)
{
	const char *prefix = NULL;
	bool json = false, retire = false;

	for (int i = 1; i < argument_count; i++) {
		if (!strcmp(arguments[i], "--json"))
			json = true;
		else if (!strcmp(arguments[i], "--retire"))
			retire = true;
		else if (arguments[i][0] == '-' || prefix)
			return refuse_word("kept", arguments[i]);
		else
			prefix = arguments[i];
	}
	if (!retire)
		return list(prefix ? prefix : "", json);
	if (!prefix || json)
		return usage_error("kept", "--retire takes the name of an object, and no other option");
	return cenote_kept_retire(prefix, 0) ? complain() : EXIT_SUCCESS;
}

const struct command command_kept = {
	.name = "kept",
	.summary = "list the memory that cenoted keeps by name, and its holders",
	.help = "Usage: cenote kept [--json] [PREFIX]\n"
		"       cenote kept --retire NAME\n"
		"\n"
		"Lists the objects that cenoted keeps and that this user may read: all, or those whose names begin\n"
		"with a prefix. The rows below an object are the processes that have it open.\n"
		"\n"
		"  GEN    its generation: a newer object has a larger number\n"
		"  STATE  writing: not committed yet; committed: can be opened; retired: gone with its last holder\n"
		"  OPEN   how often it is open\n"
		"  AGE    time since it was committed\n"
		"\n"
		"The daemon is looked for at CENOTE_KEPT_SOCKET, else at kept in the runtime directory\n"
		"(CENOTE_RUNTIME_DIR), else at /run/cenote/kept.\n"
		"\n"
		"Options:\n"
		"  --retire  retire the object of this name: it cannot be opened any more\n"
		"  --json    print it for a program\n"
		"\n"
		"Exit status: 1 if no daemon answers, or it refuses; a sentence says why.\n",
	.run = run_kept,
};
