/* SPDX-License-Identifier: MIT */
/*
 * Calls: the stack is read outwards, from the innermost function to the program's.
 *
 * cudaMalloc() calls cuMemAlloc() inside, and the program has called the former. So the function that counts is the
 * last of ours before the stack leaves our libraries. Further out there may be others: the program's host function,
 * called by a cuStreamSynchronize(), which says nothing of the call that it made itself.
 */
#include "base/call.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind.h>

enum { FRAMES_MAX = 256 };

struct walk {
	const char *name;
	int frames;
};

static struct cn_call_list *lists;

void cn_call_list_add(struct cn_call_list *list)
{
	list->next = lists;
	lists = list;
}

static const char *find(const void *function)
{
	const char *name = NULL;

	for (const struct cn_call_list *list = lists; list && !name; list = list->next)
		name = list->find(function);
	return name;
}

/* In one of the libraries that have added a list? */
static bool is_ours(const void *address)
{
	Dl_info here, there;

	if (!dladdr(address, &there))
		return false;
	for (const struct cn_call_list *list = lists; list; list = list->next) {
		if (dladdr(list, &here) && here.dli_fbase == there.dli_fbase)
			return true;
	}
	return false;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *frame, void *argument)
{
	struct walk *walk = argument;
	const void *function = (const void *)(uintptr_t)_Unwind_GetRegionStart(frame);
	const char *name = find(function);

	if (name)
		walk->name = name;
	bool left = walk->name && !name && !is_ours(function);
	return left || ++walk->frames == FRAMES_MAX ? _URC_END_OF_STACK : _URC_NO_REASON;
}

const char *cn_call_name(void)
{
	struct walk walk = {0};

	_Unwind_Backtrace(look, &walk);
	return walk.name;
}
