/* SPDX-License-Identifier: MIT */
/*
 * What the dynamic linker calls (see redirect.h and rtld-audit(7)).
 *
 * la_objopen() comes for each object when it is mapped; la_activity() when all that belong together are, and before any
 * of their constructors runs. At the start of a program, one that cannot be served ends it with a sentence: its runtime
 * would only look for a driver, and fail. Later it is told, and the library stays as it is: the program may do without.
 *
 * All this happens under a lock of the dynamic linker.
 */
#include "redirect.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

struct loaded {
	struct loaded *next; /* of those that are to be looked at */
	struct link_map *map;
	struct cn_jumps *jumps;
};

static struct loaded *fresh;
static bool has_started;

/* The program's own file has no name among the objects. */
static const char *path_of(const struct link_map *map)
{
	return *map->l_name ? map->l_name : "/proc/self/exe";
}

/* For sentences. */
static const char *name_of(const struct link_map *map)
{
	static char name[4096];

	if (*map->l_name)
		return map->l_name;
	ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
	name[length < 0 ? 0 : length] = 0;
	return *name ? name : "the program";
}

static void look_at(struct loaded *loaded)
{
	struct cn_object object;
	struct cn_runtime runtime = {.count = 0};
	char why[CN_WHY_BYTES] = "";

	/* The kernel's own object has a name without a path: a file of that name may lie in the current directory. */
	if ((*loaded->map->l_name && !strchr(loaded->map->l_name, '/')) ||
	    !cn_object_open(path_of(loaded->map), &object))
		return;
	enum cn_runtime_kind kind = cn_object_is_mapped_at(&object, loaded->map)
					    ? cn_runtime_find(&object, &runtime, why)
					    : CN_RUNTIME_NONE;
	if (kind == CN_RUNTIME_FOUND) {
		loaded->jumps = cn_jumps_write(&object, loaded->map, &runtime, why);
		free(runtime.functions);
	}
	cn_object_close(&object);
	if (kind == CN_RUNTIME_NONE || loaded->jumps)
		return;
	cn_redirect_say("%s %s", name_of(loaded->map), why);
	if (!has_started)
		_exit(CN_REDIRECT_EXIT);
}

SHOWN unsigned int la_version(unsigned int version)
{
	if (cn_redirect_find_libraries())
		return version < LAV_CURRENT ? version : LAV_CURRENT;
	cn_redirect_say("no libcudart.so.13 beside libcenote-redirect.so");
	return 0;
}

SHOWN unsigned int la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	struct loaded *loaded = calloc(1, sizeof *loaded);

	(void)namespace;
	*cookie = (uintptr_t)loaded;
	if (loaded) {
		loaded->map = map;
		loaded->next = fresh;
		fresh = loaded;
	}
	return 0; /* no call of the object's is of interest */
}

SHOWN void la_activity(uintptr_t *cookie, unsigned int flag)
{
	(void)cookie;
	if (flag != LA_ACT_CONSISTENT)
		return;
	while (fresh) {
		struct loaded *loaded = fresh;
		fresh = loaded->next;
		look_at(loaded);
	}
	has_started = true;
}

SHOWN unsigned int la_objclose(uintptr_t *cookie)
{
	struct loaded *loaded =
		(struct loaded *)*cookie; // NOLINT(performance-no-int-to-ptr): what la_objopen() put there

	for (struct loaded **link = &fresh; *link; link = &(*link)->next)
		if (*link == loaded) {
			*link = loaded->next;
			break;
		}
	/* The jumps stay: when the process ends, this is called while other threads may still go through them. */
	free(loaded);
	return 0;
}
