/* SPDX-License-Identifier: MIT */
/*
 * The first call of a function that was redirected: load our runtime, and find the function in it.
 *
 * Several threads may come here at once, and may be in a constructor, with the dynamic linker's lock held: no lock of
 * our own is taken. Loading twice is loading once, and all find the same function.
 */
#include "redirect.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int report_function(const char *name);

static char folder[PATH_MAX];
static _Atomic(void *) runtimes[CN_REDIRECT_LISTS];

void cn_redirect_say(const char *format, ...)
{
	char line[PATH_MAX + 512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	(void)!dprintf(STDERR_FILENO, "cenote run: %s\n", line); /* in one write: others print, too */
}

bool cn_redirect_find_libraries(void)
{
	char path[PATH_MAX + 32];
	Dl_info info;

	if (!dladdr(cn_redirect_lists, &info) || !realpath(info.dli_fname, folder))
		return false;
	*strrchr(folder, '/') = 0;
	snprintf(path, sizeof path, "%s/%s", folder, cn_redirect_lists[0].library);
	return access(path, R_OK) == 0;
}

/* Our runtime, loaded beside the program. A program that has it already has the same one. */
static void *load_runtime(const struct cn_redirect_list *list)
{
	_Atomic(void *) *runtime = &runtimes[list - cn_redirect_lists];
	void *loaded = atomic_load(runtime);
	char path[PATH_MAX + 32];

	if (loaded)
		return loaded;
	snprintf(path, sizeof path, "%s/%s", folder, list->library);
	loaded = dlmopen(LM_ID_BASE, path, RTLD_NOW);
	if (!loaded) {
		cn_redirect_say("%s", dlerror());
		_exit(CN_REDIRECT_EXIT);
	}
	atomic_store(runtime, loaded);
	return loaded;
}

struct cn_redirect_target cn_redirect_resolve(struct cn_jumps *jumps, size_t index)
{
	void *library = load_runtime(jumps->list);
	void *function = dlsym(library, jumps->names[index]);

	if (function) {
		__atomic_store_n(&jumps->slots[index], function, __ATOMIC_RELEASE);
		return (struct cn_redirect_target){.function = function};
	}
	/* Of a later release: say its name. */
	report_function *report = (report_function *)dlsym(library, "cenote_report_missing_runtime");
	return (struct cn_redirect_target){.result = report ? report(jumps->names[index]) : -1};
}
