/* SPDX-License-Identifier: MIT */
/*
 * Names of control groups; see container.h.
 *
 * A path is read from its end, so that a container in a container counts as the inner one. Users can give their control
 * groups any name: names are shown, and nothing depends on them.
 */
#include "container.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { FILE_CHARS = 8192, ID_CHARS = 64, POD_CHARS_MIN = 32, ID_CHARS_SHOWN = 12, POD_CHARS_SHOWN = 8 };

/* What managers write before and after the id. Some also name a group by the id alone, below a folder. */
static const struct {
	const char *before, *after, *kind;
} scopes[] = {
	{"docker-", ".scope", "docker"},
	{"libpod-", ".scope", "podman"},
	{"cri-containerd-", ".scope", "containerd"},
	{"crio-", ".scope", "cri-o"},
	{"nerdctl-", ".scope", "containerd"},
	{"machine-", ".scope", "nspawn"},
	{"systemd-nspawn@", ".service", "nspawn"},
	{"lxc.payload.", "", "lxc"},
	{"libpod-", "", "podman"},
	{"crio-", "", "cri-o"},
};
static const struct {
	const char *folder, *kind;
	bool any; /* any name, not only an id */
} folders[] = {
	{"docker", "docker", false},
	{"lxc", "lxc", true},
	{"libpod_parent", "podman", false},
};

/* A part of a path. */
struct part {
	const char *at;
	size_t length;
};

static bool part_is(struct part part, const char *text)
{
	return strlen(text) == part.length && !strncmp(part.at, text, part.length);
}

/* What stands between these; length 0: it does not have both. */
static struct part between(struct part part, const char *before, const char *after)
{
	size_t first = strlen(before), last = strlen(after);

	if (part.length <= first + last || strncmp(part.at, before, first) != 0 ||
	    strncmp(part.at + part.length - last, after, last) != 0)
		return (struct part){part.at, 0};
	return (struct part){part.at + first, part.length - first - last};
}

static bool is_id(struct part part)
{
	size_t digits = 0;

	while (digits < part.length && isxdigit((unsigned char)part.at[digits]))
		digits++;
	return digits == ID_CHARS && digits == part.length;
}

/* Only what a terminal can show; pods have "_" where their UIDs have "-". */
static void copy(struct part part, bool pod, char ret_text[CONTAINER_NAME_CHARS])
{
	size_t i = 0;

	for (; i < part.length && i + 1 < CONTAINER_NAME_CHARS; i++) {
		char byte = part.at[i];
		if (pod && byte == '_')
			byte = '-';
		ret_text[i] = byte > ' ' && byte <= '~' ? byte : '?';
	}
	ret_text[i] = '\0';
}

/* "pod0123…", "kubepods-burstable-pod0123_….slice". */
static bool read_pod(struct part part, char ret_pod[CONTAINER_NAME_CHARS])
{
	static const char word[] = "pod";
	struct part slice = between(part, "kubepods-", ".slice");
	struct part uid = between(part, word, "");

	for (size_t i = 0; i + sizeof word - 1 < slice.length && !uid.length; i++)
		if (!strncmp(slice.at + i, word, sizeof word - 1))
			uid = (struct part){slice.at + i + sizeof word - 1, slice.length - i - (sizeof word - 1)};
	if (uid.length < POD_CHARS_MIN)
		return false;
	copy(uid, true, ret_pod);
	return true;
}

static void take(struct container *container, const char *kind, struct part name)
{
	snprintf(container->kind, sizeof container->kind, "%s", kind);
	copy(name, false, container->name);
}

/* One part of the path, and the one before it. */
static void read_part(struct container *container, struct part part, struct part parent)
{
	struct part unit = between(part, "", ".service");

	for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
		struct part name = between(part, scopes[i].before, scopes[i].after);
		if (name.length && strncmp(name.at, "conmon-", strlen("conmon-")) != 0) {
			take(container, scopes[i].kind, name);
			return;
		}
	}
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
		if (part_is(parent, folders[i].folder) && part.length && (folders[i].any || is_id(part))) {
			take(container, folders[i].kind, part);
			return;
		}
	if (is_id(part))
		take(container, "containerd", part);
	else if (unit.length && strncmp(part.at, "user@", strlen("user@")) != 0)
		take(container, "unit", part);
}

static struct container parse_path(const char *path, size_t length)
{
	struct container container = {.kind = ""};

	while (length) {
		size_t begin = length;
		while (begin && path[begin - 1] != '/')
			begin--;
		struct part part = {path + begin, length - begin};
		size_t before = begin ? begin - 1 : 0, start = before;
		while (start && path[start - 1] != '/')
			start--;
		if (!*container.pod && read_pod(part, container.pod))
			;
		else if (!*container.kind)
			read_part(&container, part, (struct part){path + start, before - start});
		length = before;
	}
	return container;
}

/* A line for each hierarchy: one that says more than a unit is better than one that does not. */
struct container container_parse(const char *text)
{
	struct container best = {.kind = ""};

	while (*text) {
		size_t length = strcspn(text, "\n");
		const char *path = memchr(text, ':', length);
		path = path ? memchr(path + 1, ':', length - (size_t)(path + 1 - text)) : NULL;
		if (path) {
			path++;
			struct container found = parse_path(path, length - (size_t)(path - text));
			bool better = *found.kind && (!*best.kind || !strcmp(best.kind, "unit"));
			if (better)
				best = found;
		}
		text += length + (text[length] == '\n');
	}
	return best;
}

struct container container_of(int pid)
{
	char path[32], text[FILE_CHARS];

	if (pid <= 0)
		return (struct container){.kind = ""};
	snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return (struct container){.kind = ""};
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return container_parse(text);
}

const char *container_text(const struct container *container, char ret_text[CONTAINER_TEXT_CHARS])
{
	bool whole = !strcmp(container->kind, "unit") || !strcmp(container->kind, "nspawn") ||
		     !strcmp(container->kind, "lxc");

	*ret_text = '\0';
	if (*container->pod)
		snprintf(ret_text, CONTAINER_TEXT_CHARS, "pod:%.*s:%.*s", POD_CHARS_SHOWN, container->pod,
			 ID_CHARS_SHOWN, container->name);
	else if (*container->kind)
		snprintf(ret_text, CONTAINER_TEXT_CHARS, "%s:%.*s", container->kind,
			 whole ? CONTAINER_NAME_CHARS : ID_CHARS_SHOWN, container->name);
	return ret_text;
}

bool container_is(const struct container *container, const char *word)
{
	char text[CONTAINER_TEXT_CHARS];
	size_t length = strlen(word);

	if (!*container->kind || !length)
		return false;
	return !strcmp(container->kind, word) || !strncmp(container->name, word, length) ||
	       (*container->pod && !strncmp(container->pod, word, length)) ||
	       !strcmp(container_text(container, text), word);
}
