/* SPDX-License-Identifier: MIT */
/*
 * What cenoted keeps, as a list.
 */
#include "kept.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add_holder(struct kept_list *list, const cenote_kept_holder *holder)
{
	struct kept_object *last = &list->objects[list->count - 1];
	struct kept_holder *holders = one_more(last->holders, last->holder_count, sizeof *holders);

	if (!holders) {
		list->no_memory = true;
		return;
	}
	last->holders = holders;
	holders[last->holder_count].holder = *holder;
	find_identity(holder->pid, &holders[last->holder_count++].identity);
}

static void found(const cenote_kept_object *object, const cenote_kept_holder *holder, void *data)
{
	struct kept_list *list = data;

	if (holder) {
		if (list->count)
			add_holder(list, holder);
		return;
	}
	struct kept_object *objects = one_more(list->objects, list->count, sizeof *objects);
	if (!objects) {
		list->no_memory = true;
		return;
	}
	list->objects = objects;
	struct kept_object *added = &objects[list->count++];
	*added = (struct kept_object){.object = *object};
	snprintf(added->name, sizeof added->name, "%s", object->name);
	added->object.name = NULL; /* the array may move */
}

static int compare(const void *left, const void *right)
{
	const struct kept_object *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order
		     : (a->object.generation < b->object.generation) - (a->object.generation > b->object.generation);
}

CUresult kept_take(const char *prefix, struct kept_list *ret_list)
{
	*ret_list = (struct kept_list){.count = 0};
	CUresult result = cenote_kept_list(prefix, CENOTE_KEPT_HOLDERS, found, ret_list);
	if (ret_list->count)
		qsort(ret_list->objects, ret_list->count, sizeof *ret_list->objects, compare);
	return result;
}

static bool wants(const struct selection *selection, const struct kept_object *object)
{
	bool any = !selection->pid && !selection->container;

	if (any && (!selection->has_user || selection->uid == object->object.user))
		return true;
	for (size_t i = 0; i < object->holder_count; i++) {
		const struct kept_holder *holder = &object->holders[i];
		if (selection_wants(selection, holder->holder.pid, holder->holder.user, &holder->identity))
			return true;
	}
	return false;
}

void kept_select(struct kept_list *list, const struct selection *selection)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!selection->deferred && wants(selection, &list->objects[i]))
			list->objects[kept++] = list->objects[i];
		else
			free(list->objects[i].holders);
	}
	list->count = kept;
}

void kept_free(struct kept_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->objects[i].holders);
	free(list->objects);
	*list = (struct kept_list){.count = 0};
}

const char *kept_state_text(unsigned int state)
{
	static const char *const texts[] = {"gone", "writing", "committed", "retired"};

	return state < sizeof texts / sizeof texts[0] ? texts[state] : "?";
}

unsigned long long kept_age(const cenote_kept_object *object)
{
	unsigned long long since = object->committed_ns ? object->committed_ns : object->created_ns;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	unsigned long long now_ns = (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
	return now_ns > since ? now_ns - since : 0; /* the clock may have been set */
}
