/* SPDX-License-Identifier: MIT */
/*
 * What a process has: see audit.h.
 */
#include "audit.h"

#include "harness.h"

#include <dirent.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

enum { CLASSES_MAX = 128 };

/* How many things of a kind there are: descriptors, shared mappings, threads. */
struct class
{
	char name[120];
	unsigned long count;
};

struct things {
	struct class classes[CLASSES_MAX];
	unsigned class_count;
};

_Static_assert(sizeof(struct things) <= FAULT_NOTES_BYTES, "room on the board");

uint64_t audit_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void count_thing(struct things *things, const char *kind, const char *name, unsigned long count)
{
	char text[sizeof things->classes[0].name];

	if (test_has_gpu() && !strstr(name, "cenote")) /* NVIDIA's driver makes and keeps things at any time */
		return;
	snprintf(text, sizeof text, "%s %.100s", kind, name);
	/* Numbers of sockets, processes and so on are not part of a kind. */
	char *number = strpbrk(text, "0123456789");
	if (number && strncmp(text, "mapping", 7) != 0)
		*number = '\0';
	for (unsigned i = 0; i < things->class_count; i++) {
		if (!strcmp(things->classes[i].name, text)) {
			things->classes[i].count += count;
			return;
		}
	}
	ASSERT_LT(things->class_count, CLASSES_MAX);
	struct class *class = &things->classes[things->class_count++];
	memcpy(class->name, text, sizeof text);
	class->count = count;
}

static void count_entries(struct things *things, const char *folder, const char *kind)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	char target[256];

	ASSERT(entries);
	while ((entry = readdir(entries))) {
		if (entry->d_name[0] == '.')
			continue;
		ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = '\0';
		if (target[0] == '/' && strncmp(target, "/memfd:", 7) != 0)
			*(strrchr(target, '/') + 1) = '\0'; /* names are random */
		count_thing(things, kind, target, 1);
	}
	closedir(entries);
}

/* Counts their bytes: neighbouring mappings join and split. */
static void count_mappings(struct things *things)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;

	ASSERT(maps);
	while (getline(&line, &room, maps) != -1) {
		unsigned long from, to;
		char flags[8], name[256] = "";
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255[^\n]", &from, &to, flags, name) < 3)
			continue;
		if (strstr(name, "/account-")) /* every process that has initialised the library has it */
			continue;
		if (flags[3] == 's' || !strncmp(name, "/memfd:", 7))
			count_thing(things, "mapping of", name, to - from);
	}
	free(line);
	fclose(maps);
}

static void count_all(struct things *ret_things)
{
	*ret_things = (struct things){.class_count = 0};
	count_entries(ret_things, "/proc/self/fd", "descriptor of");
	count_entries(ret_things, "/proc/self/task", "thread");
	count_mappings(ret_things);
}

/* The first kind with more things than allowed; NULL: none. */
static const struct class *find_surplus(const struct things *now, const struct things *may, unsigned long *ret_may)
{
	for (unsigned i = 0; i < now->class_count; i++) {
		unsigned long count = 0;
		for (unsigned j = 0; j < may->class_count; j++)
			if (!strcmp(now->classes[i].name, may->classes[j].name))
				count = may->classes[j].count;
		if (now->classes[i].count > count) {
			*ret_may = count;
			return &now->classes[i];
		}
	}
	return NULL;
}

/* Threads of the library may be closing their things at this moment: a leak is what stays. */
void audit(const struct fault_board *board)
{
	const struct things *may_have = (const struct things *)board->notes;
	static struct things now;
	const struct class *surplus;
	uint64_t end_ms = audit_now_ms() + AUDIT_SETTLE_MS;
	unsigned long may = 0;

	do {
		count_all(&now);
		surplus = find_surplus(&now, may_have, &may);
		if (surplus)
			poll(NULL, 0, 1);
	} while (surplus && audit_now_ms() < end_ms);
	if (surplus)
		FAIL("left behind: %s: %lu, and not %lu", surplus->name, surplus->count, may);
}

void audit_remember(struct fault_board *board)
{
	count_all((struct things *)board->notes);
}
