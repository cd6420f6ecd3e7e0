/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: which clang, what it knows, and where Cenote's headers and libraries are.
 */
#include "cc.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	VERSION_MIN = 14, /* older ones lack parts of the language that the headers use */
	VERSION_MAX = 22, /* of names to look for; any newer clang may be called clang */
	SAID_BYTES = 4096,
};

/* ---- Folders ----------------------------------------------------------------------------------------------------- */

/* From the folder of the libraries: where they were built, and where they are installed (tools/cenote/meson.build). */
static const char *const header_places[] = {"../include/cenote", CENOTE_HEADERS_FROM_LIBRARIES};

static bool find_folders(struct cc_clang *clang)
{
	char name[PATH_MAX + 64];

	if (!run_find_libraries("cc", clang->dropins))
		return false;
	memcpy(clang->libraries, clang->dropins, sizeof clang->libraries);
	*strrchr(clang->libraries, '/') = 0;
	for (size_t i = 0; i < sizeof header_places / sizeof header_places[0]; i++) {
		snprintf(name, sizeof name, "%s/%s", clang->libraries, header_places[i]);
		if (!realpath(name, clang->headers))
			continue;
		snprintf(name, sizeof name, "%s/cuda_runtime.h", clang->headers);
		if (access(name, R_OK) == 0)
			return true;
	}
	fprintf(stderr, "cenote cc: no cuda_runtime.h in %s/%s or %s/%s\n", clang->libraries, header_places[0],
		clang->libraries, header_places[1]);
	return false;
}

/* ---- clang ------------------------------------------------------------------------------------------------------- */

/* Ask a program for its version; 0: it is not there, or is not clang. */
static unsigned version_of(const char *path, char ret_name[128])
{
	static const char words_before[] = "clang version ";
	char said[SAID_BYTES];
	struct words command = {0};
	unsigned version = 0;

	words_add(&command, path);
	words_add(&command, "--version");
	if (cc_ask(&command, said, sizeof said)) {
		const char *found = strstr(said, words_before);
		version = found ? (unsigned)atoi(found + strlen(words_before)) : 0;
		snprintf(ret_name, 128, "%.*s", (int)strcspn(said, "\n"), said);
	}
	free(command.at);
	return version;
}

static bool take(struct cc_clang *clang, const char *path)
{
	unsigned version = version_of(path, clang->name);

	/* The first that is too old is remembered, for the sentence. */
	if (!clang->version || version >= VERSION_MIN) {
		clang->version = version;
		clang->path = path;
	}
	return version >= VERSION_MIN;
}

bool cc_find_clang(struct cc_clang *ret_clang)
{
	const char *wanted = getenv("CENOTE_CLANG");

	*ret_clang = (struct cc_clang){0};
	if (wanted && *wanted) {
		if (take(ret_clang, wanted))
			return find_folders(ret_clang);
		if (!ret_clang->version) {
			fprintf(stderr, "cenote cc: CENOTE_CLANG is '%s', which is not a clang that runs here\n",
				wanted);
			return false;
		}
	} else {
		bool found = take(ret_clang, "clang");
		for (unsigned version = VERSION_MAX; version >= VERSION_MIN && !found; version--)
			found = take(ret_clang, words_format("clang-%u", version));
		if (found)
			return find_folders(ret_clang);
	}
	if (ret_clang->version)
		fprintf(stderr,
			"cenote cc: %s is clang %u; it takes clang %d or newer: install the package clang-%d, or "
			"set CENOTE_CLANG\n",
			ret_clang->path, ret_clang->version, VERSION_MIN, VERSION_MIN);
	else
		fputs("cenote cc: there is no clang: install the package clang (apt-get install clang), or set "
		      "CENOTE_CLANG to one\n",
		      stderr);
	return false;
}

/* ---- Architectures ----------------------------------------------------------------------------------------------- */

/* Of GPUs, and since when clang knows them. Those between two have the lower one's instructions. */
static const struct {
	unsigned architecture, version;
} known[] = {{50, 0}, {52, 0}, {53, 0}, {60, 0},  {61, 0},  {62, 0},  {70, 0},   {72, 0},
	     {75, 0}, {80, 0}, {86, 0}, {87, 16}, {89, 16}, {90, 16}, {100, 20}, {120, 20}};

unsigned cc_choose_architecture(const struct cc_clang *clang, unsigned wanted)
{
	unsigned chosen = 0;

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].architecture <= wanted && known[i].version <= clang->version)
			chosen = known[i].architecture;
	if (!chosen)
		fprintf(stderr, "cenote cc: sm_%u is too old: the oldest architecture is sm_%u\n", wanted,
			known[0].architecture);
	else if (chosen != wanted)
		fprintf(stderr,
			"cenote cc: note: clang %u has no sm_%u: kernels are compiled for sm_%u, and run there too\n",
			clang->version, wanted, chosen);
	return chosen;
}
