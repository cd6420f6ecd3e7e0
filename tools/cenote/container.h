/* SPDX-License-Identifier: MIT */
/*
 * In which container a process is, by the names that container managers give to control groups.
 */
#ifndef CENOTE_TOOLS_CONTAINER_H
#define CENOTE_TOOLS_CONTAINER_H

#include <stdbool.h>

enum { CONTAINER_KIND_CHARS = 12, CONTAINER_NAME_CHARS = 72, CONTAINER_TEXT_CHARS = 160 };

struct container {
	char kind[CONTAINER_KIND_CHARS]; /* docker, containerd, cri-o, podman, lxc, nspawn, unit; "": none */
	char name[CONTAINER_NAME_CHARS]; /* its id in full, or the unit's name */
	char pod[CONTAINER_NAME_CHARS];  /* the UID of its Kubernetes pod; "": none */
};

/* What the text of /proc/PID/cgroup says. */
struct container container_parse(const char *text);
/* The same of a process; none if it cannot be read. */
struct container container_of(int pid);
/* "docker:0123456789ab", "pod:01234567:0123456789ab", "unit:name.service"; "": none. */
const char *container_text(const struct container *container, char ret_text[CONTAINER_TEXT_CHARS]);
/* Is it meant by this word? By its kind, its name or the beginning of that, its pod likewise, or its text. */
bool container_is(const struct container *container, const char *word);

#endif
