/* SPDX-License-Identifier: MIT */
/*
 * What cenoted keeps, as a table for people and as JSON for programs: cenote kept and cenote ps.
 */
#include "kept.h"

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

void kept_print_table(const struct kept_list *list)
{
	int width = name_width(list);
	unsigned long long bytes = 0;
	char sum[AMOUNT_CHARS];

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

void kept_print_json_objects(const struct kept_list *list)
{
	putchar('[');
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
	fputs(list->count ? "\n  ]" : "]", stdout);
}
