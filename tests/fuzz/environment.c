/* SPDX-License-Identifier: MIT */
/*
 * Variables of the environment: what cuInit() and the directories read from it.
 *
 * The readers are called again and again with other values: a program reads most of them once. What would load a
 * library or make directories anywhere is left alone: paths are only put together, or lie in our own directory.
 */
#include "fuzz.h"

#include "device/device.h"
#include "share/port/imex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUE_CHARS = 128, VALUES_MAX = 8 };

static const char *const variables[] = {"CENOTE_HOST_DEVICES",  "CENOTE_HOST_MEMORY", "CENOTE_HOST_WITHOUT",
					"CUDA_VISIBLE_DEVICES", "CENOTE_RUNTIME_DIR", "CENOTE_FABRIC_DIR",
					"CENOTE_DEVICE",        "CENOTE_IMEX_DIR"};
enum { RUNTIME = 4, FABRIC, DEVICE, IMEX, VARIABLES = sizeof variables / sizeof *variables };

static char runtime[600], fabric[600], imex[600], elsewhere[600];

void fuzz_prepare(void)
{
	fuzz_start();
	snprintf(runtime, sizeof runtime, "%s", getenv("CENOTE_RUNTIME_DIR"));
	snprintf(fabric, sizeof fabric, "%s", getenv("CENOTE_FABRIC_DIR"));
	snprintf(imex, sizeof imex, "%s/no-imex", fuzz_directory());
	snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", fuzz_directory());
	FUZZ_CHECK(!mkdir(elsewhere, 0700) || errno == EEXIST);
}

/* Not setenv(), which keeps every value that ever was. */
static void set(unsigned which, const char *value)
{
	static char texts[VARIABLES][1100];

	snprintf(texts[which], sizeof texts[which], "%s=%s", variables[which], value);
	FUZZ_CHECK(!putenv(texts[which]));
}

static void usual(void)
{
	for (unsigned i = 0; i < VARIABLES; i++)
		unsetenv(variables[i]);
	set(DEVICE, "host");
	set(RUNTIME, runtime);
	set(FABRIC, fabric);
	set(IMEX, imex);
}

static void look_at_devices(void)
{
	static struct cn_device devices[CN_DEVICE_MAX];
	int count = -1;

	if (FUZZ_TRY(cn_device_open(devices, &count))) {
		FUZZ_CHECK(count == -1);
		return;
	}
	FUZZ_CHECK(count > 0 && count <= CN_DEVICE_MAX);
	for (int i = 0; i < count; i++) {
		FUZZ_CHECK(devices[i].ordinal == i && devices[i].total_bytes >= 2 << 20);
		for (int j = 0; j < i; j++)
			FUZZ_CHECK(devices[i].physical != devices[j].physical);
	}
}

/* Where nothing is made: any text; where something is: below our own directory, and not above it again. */
static void look_at_directories(unsigned which, const char *value)
{
	char paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX], path[1024];
	unsigned count = 0;
	int fd;

	if (!FUZZ_TRY(cn_directory_paths(paths, &count))) {
		FUZZ_CHECK(count >= 2 && count <= CN_DIRECTORIES_MAX);
		for (unsigned i = 0; i < count; i++)
			FUZZ_CHECK(paths[i][0] == '/');
	}
	if (strstr(value, ".."))
		return;
	snprintf(path, sizeof path, "%s%s", elsewhere, value);
	set(which, *value == '/' ? path : value);
	if (which == RUNTIME && (*value && !FUZZ_TRY(cn_directory_runtime(&fd))))
		close(fd);
	if (which == FABRIC && (*value && !FUZZ_TRY(cn_directory_fabric_of((unsigned)strlen(value), &fd))))
		close(fd);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	const struct cn_imex *channel;
	char value[VALUE_CHARS];

	usual();
	for (int i = 0; i < VALUES_MAX && input.left; i++) {
		unsigned which = fuzz_below(&input, VARIABLES);
		fuzz_text(&input, value, sizeof value);
		if (which == DEVICE && (!*value || !strcmp(value, "auto") || !strcmp(value, "cuda")))
			continue; /* they would look for a driver */
		set(which, value);
		if (which == RUNTIME || which == FABRIC)
			look_at_directories(which, value);
		else if (which == IMEX)
			FUZZ_CHECK(FUZZ_TRY(cn_imex_find(1 + (int)strlen(value), &channel)));
		else
			look_at_devices();
	}
	usual();
	look_at_devices();
}
