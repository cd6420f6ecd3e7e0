/* SPDX-License-Identifier: MIT */
/*
 * Environment variables, copied where a thread of the program reads them.
 *
 * A copy stays: another thread may be using it. So there is one for each value that a variable ever had, and a value
 * that comes again has its copy already.
 */
#include "base/environment.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct copy {
	struct copy *next;
	char text[];
};

static const char *const names[CN_ENVIRONMENT_COUNT] = {
	[CN_ENVIRONMENT_LOG] = "CENOTE_LOG",
	[CN_ENVIRONMENT_LABEL] = "CENOTE_LABEL",
	[CN_ENVIRONMENT_RUNTIME_DIR] = "CENOTE_RUNTIME_DIR",
	[CN_ENVIRONMENT_FABRIC_DIR] = "CENOTE_FABRIC_DIR",
	[CN_ENVIRONMENT_IMEX_DIR] = "CENOTE_IMEX_DIR",
	[CN_ENVIRONMENT_IMEX_SOCKET] = "CENOTE_IMEX_SOCKET",
	[CN_ENVIRONMENT_KEPT_SOCKET] = "CENOTE_KEPT_SOCKET",
};

static struct {
	struct copy *_Atomic copies;
	const char *_Atomic now; /* NULL: unset or empty, or not read yet */
} variables[CN_ENVIRONMENT_COUNT];

/* NULL: no memory for a new one. */
static const char *copy_of(enum cn_environment_variable variable, const char *text)
{
	struct copy *first = atomic_load(&variables[variable].copies);
	size_t bytes = strlen(text) + 1;

	for (const struct copy *copy = first; copy; copy = copy->next)
		if (strcmp(copy->text, text) == 0)
			return copy->text;
	struct copy *copy = malloc(sizeof *copy + bytes);
	if (!copy)
		return NULL;
	memcpy(copy->text, text, bytes);
	do
		copy->next = first;
	while (!atomic_compare_exchange_weak(&variables[variable].copies, &first, copy));
	return copy->text;
}

const char *cn_environment(enum cn_environment_variable variable)
{
	if (cn_thread_is_own())
		return atomic_load(&variables[variable].now);
	const char *text = secure_getenv(names[variable]), *copy = NULL;
	if (text && !*text)
		text = NULL;
	if (text && !(copy = copy_of(variable, text)))
		return text;
	atomic_store(&variables[variable].now, copy);
	return copy;
}

void cn_environment_read(void)
{
	for (unsigned variable = 0; variable < CN_ENVIRONMENT_COUNT; variable++)
		cn_environment((enum cn_environment_variable)variable);
}
