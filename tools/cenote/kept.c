/* SPDX-License-Identifier: MIT */
/*
 * cenote kept: what cenoted keeps by name, and which processes have it open.
 */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMNS_MIN = 20, NAME_COLUMNS_MAX = 60, NOTES_CHARS = 40 };

static const char *notes_text(const cenote_kept_object *object, char ret_text[NOTES_CHARS])
{
	snprintf(ret_text, NOTES_CHARS, "%s%s%s", object->flags & CENOTE_KEPT_CHANGEABLE ? "  changeable" : "",
		 object->flags & CENOTE_KEPT_CACHE ? "  cache" : "", object->on_gpu ? "  GPU" : "");
	return ret_text;
}

static enum style style_of(unsigned int state)
{
	return state == CENOTE_KEPT_COMMITTED ? STYLE_GOOD : STYLE_CAUTION;
}

/* ---- For people ---- */

static int name_width(const struct kept_list *list)
{
	size_t width = NAME_COLUMNS_MIN;

	for (size_t i = 0; i < list->count; i++)
		width = strlen(list->objects[i].name) > width ? strlen(list->objects[i].name) : width;
	return width < NAME_COLUMNS_MAX ? (int)width : NAME_COLUMNS_MAX;
}

static void print_object(const struct kept_object *kept, int width)
{
	char bytes[AMOUNT_CHARS], age[AMOUNT_CHARS], user[USER_CHARS], notes[NOTES_CHARS];
	const cenote_kept_object *object = &kept->object;

	printf("%-*s %6llu %s%-9s%s %6s %5u %4zu %-8s %04o %4s%s\n", width, kept->name, object->generation,
	       style(style_of(object->state)), kept_state_text(object->state), style(STYLE_END),
	       amount_text(object->bytes, bytes), object->part_count, kept->holder_count, user_text(object->user, user),
	       object->mode, age_text(kept_age(object), age), notes_text(object, notes));
	for (size_t i = 0; i < kept->holder_count; i++) {
		const struct kept_holder *holder = &kept->holders[i];
		printf("  %s%-7d %s %s%s%s\n", style(STYLE_DIM), holder->holder.pid,
		       *holder->identity.program ? holder->identity.program : "?", user_text(holder->holder.user, user),
		       holder->holder.writes ? " writes" : "", style(STYLE_END));
	}
}

static void print_table(const struct kept_list *list)
{
	int width = name_width(list);
	unsigned long long bytes = 0;
	char sum[AMOUNT_CHARS];

	if (!list->count) {
		puts("nothing is kept");
		return;
	}
	printf("%s%-*s %6s %-9s %6s %5s %4s %-8s %-4s %4s  %s%s\n", style(STYLE_DIM), width, "NAME", "GEN", "STATE",
	       "SIZE", "PARTS", "OPEN", "USER", "MODE", "AGE", "NOTES", style(STYLE_END));
	for (size_t i = 0; i < list->count; i++) {
		print_object(&list->objects[i], width);
		bytes += list->objects[i].object.bytes;
	}
	printf("%zu %s, %s\n", list->count, list->count == 1 ? "object" : "objects", amount_text(bytes, sum));
}

/* ---- For programs ---- */

static void print_json_holders(const struct kept_object *kept)
{
	fputs("\"holders\": [", stdout);
	for (size_t i = 0; i < kept->holder_count; i++) {
		const struct kept_holder *holder = &kept->holders[i];
		printf("%s{\"pid\": %d, \"uid\": %u, \"writes\": %s, \"program\": ", i ? ", " : "", holder->holder.pid,
		       holder->holder.user, holder->holder.writes ? "true" : "false");
		print_json_string(holder->identity.program);
		fputc('}', stdout);
	}
	fputs("]}", stdout);
}

static void print_json(const struct kept_list *list, const char *error)
{
	fputs("{\n  \"objects\": [", stdout);
	for (size_t i = 0; i < list->count; i++) {
		const cenote_kept_object *object = &list->objects[i].object;
		printf("%s\n    {\"name\": ", i ? "," : "");
		print_json_string(list->objects[i].name);
		printf(", \"generation\": %llu, \"state\": \"%s\", \"bytes\": %llu, \"parts\": %u, \"uid\": %u, "
		       "\"gid\": %u, \"mode\": \"%04o\", \"changeable\": %s, \"cache\": %s, \"on_gpu\": %s, "
		       "\"age_seconds\": %.3f, ",
		       object->generation, kept_state_text(object->state), object->bytes, object->part_count,
		       object->user, object->group, object->mode,
		       object->flags & CENOTE_KEPT_CHANGEABLE ? "true" : "false",
		       object->flags & CENOTE_KEPT_CACHE ? "true" : "false", object->on_gpu ? "true" : "false",
		       (double)kept_age(object) / 1e9);
		print_json_holders(&list->objects[i]);
	}
	printf("%s],\n  \"error\": ", list->count ? "\n  " : "");
	if (error)
		print_json_string(error);
	else
		fputs("null", stdout);
	puts("\n}");
}

/* ---- The command ---- */

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
	else if (!result)
		print_table(&list);
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
