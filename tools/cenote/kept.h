/* SPDX-License-Identifier: MIT */
/*
 * What cenoted keeps, for cenote kept, ps and metrics.
 */
#ifndef CENOTE_TOOLS_KEPT_H
#define CENOTE_TOOLS_KEPT_H

#include "survey.h"

struct kept_holder {
	cenote_kept_holder holder;
	struct identity identity;
};

struct kept_object {
	cenote_kept_object object; /* its name is the one below */
	char name[CENOTE_KEPT_NAME_BYTES];
	struct kept_holder *holders;
	size_t holder_count;
};

struct kept_list {
	struct kept_object *objects; /* in the order of their names, newer generations first */
	size_t count;
	bool no_memory; /* some are missing */
};

/* All objects whose names begin so, with their holders. Not CUDA_SUCCESS: what was found until then is there. */
CUresult kept_take(const char *prefix, struct kept_list *ret_list);
void kept_free(struct kept_list *list);
/* Remove what is not wanted: an object stays if its owner's user is meant, or a process that has it open. */
void kept_select(struct kept_list *list, const struct selection *selection);
/* "committed", "writing", "retired". */
const char *kept_state_text(unsigned int state);
/* Rows with a heading and a sum, of at least one object; and a list of JSON, indented for an outermost field. */
void kept_print_table(const struct kept_list *list);
void kept_print_json_objects(const struct kept_list *list);
/* Time since it was committed; if it was not, since it was created. In nanoseconds. */
unsigned long long kept_age(const cenote_kept_object *object);

#endif
