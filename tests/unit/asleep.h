/* SPDX-License-Identifier: MIT */
/*
 * Whether a thread sleeps: a test that wants to see a thread wait looks until it does.
 */
#ifndef CENOTE_TESTS_UNIT_ASLEEP_H
#define CENOTE_TESTS_UNIT_ASLEEP_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "harness.h"

static inline bool is_asleep(pid_t thread)
{
	char path[64], text[512];

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	FILE *file = fopen(path, "r");
	ASSERT(file);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return strrchr(text, ')')[2] == 'S';
}

#endif
