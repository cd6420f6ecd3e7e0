/* SPDX-License-Identifier: MIT */
/*
 * The driver that the cuda device has in tests (tests/driver).
 */
#ifndef CENOTE_TESTS_GPU_DRIVER_H
#define CENOTE_TESTS_GPU_DRIVER_H

#include "harness.h"

static inline const char *test_driver_path(void)
{
	static char path[4096];
	const char *build = getenv("CENOTE_TEST_BUILD");

	ASSERT(build);
	snprintf(path, sizeof path, "%s/tests/libcuda-host.so", build);
	return path;
}

#endif
