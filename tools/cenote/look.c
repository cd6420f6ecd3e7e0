/* SPDX-License-Identifier: MIT */
/*
 * Before a program is executed: what would keep Cenote out of it (see look.h).
 *
 * It checks the program's own file only, not the libraries that it needs, and not what a script starts: what it says
 * must be true, but need not be complete.
 */
#include "look.h"

#include "program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct look {
	const char *command, *path, *folder;
};

#define SAY(look, format, ...) \
	fprintf(stderr, "cenote %s: %s " format "\n", (look)->command, (look)->path, ##__VA_ARGS__)

/* Where execvp() finds a program. */
static bool find_program(const char *name, char path[PATH_MAX])
{
	const char *list = getenv("PATH");
	struct stat status;

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
	for (list = list ? list : "/bin:/usr/bin";; list++) {
		size_t length = strcspn(list, ":");
		int written = snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, list, length ? "/" : "", name);
		bool fits = written >= 0 && written < PATH_MAX;
		if (fits && !access(path, X_OK) && !stat(path, &status) && S_ISREG(status.st_mode))
			return true;
		list += length;
		if (!*list)
			return false;
	}
}

/* Will it run with another user's rights? The dynamic linker then ignores what the environment says of libraries. */
static bool changes_user(int file, const struct stat *status)
{
	struct statvfs place;

	if (fstatvfs(file, &place) == 0 && place.f_flag & ST_NOSUID)
		return false;
	return (status->st_mode & S_ISUID && status->st_uid != getuid()) ||
	       (status->st_mode & S_ISGID && status->st_mode & S_IXGRP && status->st_gid != getgid());
}

/* ---- DT_RPATH ---------------------------------------------------------------------------------------------------- */

/* One of its folders, with $ORIGIN replaced by the program's own; false: too long. */
static bool expand_folder(const struct look *look, const char *folder, size_t length, char expanded[PATH_MAX])
{
	static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
	char origin[PATH_MAX];

	for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
		size_t skipped = strlen(origins[i]);
		if (length < skipped || strncmp(folder, origins[i], skipped) != 0)
			continue;
		if (!realpath(look->path, origin))
			return false;
		*strrchr(origin, '/') = 0;
		return snprintf(expanded, PATH_MAX, "%s%.*s", origin, (int)(length - skipped), folder + skipped) <
		       PATH_MAX;
	}
	return snprintf(expanded, PATH_MAX, "%.*s", (int)length, folder) < PATH_MAX;
}

/* Is there a library with this name, and is it not ours? */
static bool holds_other(const struct look *look, const char *folder, const char *library)
{
	char path[PATH_MAX + 32];
	struct stat there, ours;

	snprintf(path, sizeof path, "%s/%s", folder, library);
	if (stat(path, &there))
		return false;
	snprintf(path, sizeof path, "%s/%s", look->folder, library);
	return stat(path, &ours) || there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
}

/* Does its DT_RPATH lead to libraries with NVIDIA's names? Then says so. */
static bool rpath_leads_away(const struct look *look, const char *list)
{
	static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12", "libcuda.so.1"};
	char folder[PATH_MAX];

	for (; *list; list += *list == ':') {
		size_t length = strcspn(list, ":");
		bool known = length && expand_folder(look, list, length, folder);
		list += length;
		for (size_t i = 0; known && i < sizeof libraries / sizeof libraries[0]; i++) {
			if (!holds_other(look, folder, libraries[i]))
				continue;
			SAY(look,
			    "will load %s from %s, which its DT_RPATH puts before Cenote's; link it with "
			    "-Wl,--enable-new-dtags, or run patchelf --remove-rpath on it",
			    libraries[i], folder);
			return true;
		}
	}
	return false;
}

/* ---- What is wrong ----------------------------------------------------------------------------------------------- */

/* What matters where Cenote replaces the runtime as well: on the host device. */
static void look_at_runtime(const struct look *look, const struct program *program)
{
	char ours[PATH_MAX + 64];

	snprintf(ours, sizeof ours, "%s/%.48s", look->folder, program->cudart);
	if (*program->cudart && access(ours, R_OK) != 0) {
		SAY(look,
		    "needs %s, and without a GPU Cenote stands for libcudart.so.13 and libcudart.so.12 alone; build it "
		    "with CUDA 13",
		    program->cudart);
		return;
	}
	(void)rpath_leads_away(look, program->rpath);
}

/* False: do not execute it. */
static bool look_at_file(const struct look *look, int file, bool on_gpu)
{
	struct program program;
	struct stat status;

	if (fstat(file, &status) || !S_ISREG(status.st_mode))
		return true;
	program_read(file, &program);
	if (program.kind == PROGRAM_OTHER)
		return true;
	if (program.kind == PROGRAM_32_BIT) {
		SAY(look, "is a 32-bit program, and cannot load Cenote, which is of 64; build it for 64 bits");
	} else if (program.kind == PROGRAM_OTHER_MACHINE) {
		SAY(look, "is a program for another machine, and cannot load Cenote; build it for this one");
	} else if (changes_user(file, &status)) {
		SAY(look, "is set-user-ID or set-group-ID, so the system will not let Cenote in; run a copy without "
			  "that permission");
		/* It would run with NVIDIA's runtime over our driver. */
		return on_gpu || !program_has_runtime_inside(file);
	} else if (program.kind == PROGRAM_STATIC) {
		SAY(look, "is linked statically, and will load no library; link it with shared libraries");
	} else if (!on_gpu) {
		look_at_runtime(look, &program);
	}
	return true;
}

bool look_at_program(const char *command, const char *name, const char *folder, bool on_gpu)
{
	char path[PATH_MAX];

	if (!find_program(name, path))
		return true;
	/* A file that cannot be read is not checked. Opening must not wait if it is no regular file. */
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file < 0)
		return true;
	struct look look = {.command = command, .path = path, .folder = folder};
	bool may_run = look_at_file(&look, file, on_gpu);
	close(file);
	return may_run;
}
