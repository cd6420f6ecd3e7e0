/* SPDX-License-Identifier: MIT */
/*
 * Counting what a process has: descriptors, shared mappings, threads, as lines of text that can be compared.
 *
 * A thing is a leak when it exists at the end of a test and did not at its beginning. Threads of the library may be
 * closing things just then, so a leak is reported only when it stays for SETTLE_MS in which no other thread was at
 * work. (ThreadSanitizer takes a second or more to unmap a pool's addresses, and a busy machine makes that ten.)
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define SETTLE_MS     500
#define SETTLE_MAX_MS 20000
#define QUIET_MS      50

struct count {
	char **lines;
	size_t line_count, capacity;
};

static struct count before;
static unsigned watched = LEAK_DEFAULT;

uint64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void count_free(struct count *count)
{
	for (size_t i = 0; i < count->line_count; i++)
		free(count->lines[i]);
	free(count->lines);
	*count = (struct count){0};
}

__attribute__((format(printf, 2, 3))) static void count_add(struct count *count, const char *format, ...)
{
	va_list arguments;

	if (count->line_count == count->capacity) {
		count->capacity = count->capacity ? 2 * count->capacity : 64;
		count->lines = realloc(count->lines, count->capacity * sizeof *count->lines);
		ASSERT(count->lines);
	}
	va_start(arguments, format);
	ASSERT_SYS(vasprintf(&count->lines[count->line_count], format, arguments));
	va_end(arguments);
	count->line_count++;
}

static bool count_has(const struct count *count, const char *line)
{
	for (size_t i = 0; i < count->line_count; i++) {
		if (!strcmp(count->lines[i], line))
			return true;
	}
	return false;
}

/* An exporter has a ledger ready for its next importer: another one each time, so only their number is compared. */
static bool is_ledger(const char *name)
{
	return strncmp(name, "/memfd:cenote-ledger", strlen("/memfd:cenote-ledger")) == 0;
}

/* The account of the devices' memory: every process that has initialised the library keeps it open and mapped. */
static bool is_account(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return strncmp(name, "account-", strlen("account-")) == 0;
}

/* One of "/" has no number: the library's reserve is closed and opened again where descriptors are short. */
static void count_descriptors(struct count *count)
{
	DIR *entries = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned root_count = 0, ledger_count = 0;

	ASSERT(entries);
	while ((entry = readdir(entries))) {
		char target[4096];
		ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof target - 1);

		if (length < 0 || atoi(entry->d_name) == dirfd(entries))
			continue;
		target[length] = '\0';
		if (!strcmp(target, "/"))
			count_add(count, "descriptor of /, %u of them", ++root_count);
		else if (is_account(target))
			continue;
		else if (is_ledger(target))
			count_add(count, "descriptor of a ledger, %u of them", ++ledger_count);
		else
			count_add(count, "descriptor %s, %s", entry->d_name, target);
	}
	closedir(entries);
}

/* Addresses are left out, for neighbouring mappings join and split: a name and its bytes are counted. */
static void count_mappings(struct count *count)
{
	struct mapping {
		unsigned long inode, bytes;
		char name[256];
	} *mappings = NULL;
	size_t mapping_count = 0;
	char *line = NULL;
	size_t line_bytes = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	ASSERT(maps);
	while (getline(&line, &line_bytes, maps) != -1) {
		unsigned long from, to, inode;
		char flags[8], name[256] = "";
		size_t i = 0;

		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %255[^\n]", &from, &to, flags, &inode, name) < 4)
			continue;
		if ((flags[3] != 's' && strncmp(name, "/memfd:", 7) != 0) || is_account(name))
			continue;
		if (is_ledger(name))
			inode = 0;
		while (i < mapping_count && (mappings[i].inode != inode || strcmp(mappings[i].name, name) != 0))
			i++;
		if (i == mapping_count) {
			mappings = realloc(mappings, ++mapping_count * sizeof *mappings);
			ASSERT(mappings);
			mappings[i] = (struct mapping){.inode = inode};
			memcpy(mappings[i].name, name, sizeof name);
		}
		mappings[i].bytes += to - from;
	}
	fclose(maps);
	free(line);
	for (size_t i = 0; i < mapping_count; i++)
		count_add(count, "shared mapping of %s (inode %lu), %lu bytes", mappings[i].name, mappings[i].inode,
			  mappings[i].bytes);
	free(mappings);
}

static void count_threads(struct count *count)
{
	DIR *entries = opendir("/proc/self/task");
	struct dirent *entry;

	ASSERT(entries);
	while ((entry = readdir(entries))) {
		char path[300], name[32] = "";

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
		FILE *file = fopen(path, "re");
		if (!file)
			continue;
		if (fgets(name, sizeof name, file))
			name[strcspn(name, "\n")] = '\0';
		fclose(file);
		count_add(count, "thread %s, %s", entry->d_name, name);
	}
	closedir(entries);
}

/* Not beside a GPU's driver, whose own descriptors and mappings cannot be told from the library's. */
static bool leaks_are_counted(void)
{
	const char *setting = getenv("CENOTE_TEST_UNCOUNTED");

	return !setting || !*setting;
}

static struct count count_all(void)
{
	struct count count = {0};

	if (!leaks_are_counted())
		return count;
	if (watched & LEAK_DESCRIPTORS)
		count_descriptors(&count);
	if (watched & LEAK_MAPPINGS)
		count_mappings(&count);
	if (watched & LEAK_THREADS)
		count_threads(&count);
	return count;
}

void leaks_begin(void)
{
	/* Counted in full, so that a test may start to watch more later. */
	unsigned chosen = watched;

	watched |= LEAK_DESCRIPTORS | LEAK_MAPPINGS | LEAK_THREADS;
	count_free(&before);
	before = count_all();
	watched = chosen;
}

void leaks_watch(unsigned what)
{
	watched = what;
	if (harness_outcome)
		harness_outcome->watched = what;
}

/* Is any thread but this one running, runnable, or in an uninterruptible sleep in the kernel? */
static bool others_at_work(void)
{
	DIR *entries = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	ASSERT(entries);
	while (!found && (entry = readdir(entries))) {
		char path[300], state = 'S';

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
		FILE *file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 'S';
		fclose(file);
		found = state == 'R' || state == 'D';
	}
	closedir(entries);
	return found;
}

/* What other threads still do for what was before must not count: so when they have been quiet for a while. */
void leaks_start_here(void)
{
	uint64_t start_ms = monotonic_ms(), quiet_ms = start_ms;

	while (monotonic_ms() - quiet_ms < QUIET_MS && monotonic_ms() - start_ms < SETTLE_MAX_MS) {
		poll(NULL, 0, 1);
		if (others_at_work())
			quiet_ms = monotonic_ms();
	}
	leaks_begin();
}

bool leaks_found(void)
{
	uint64_t start_ms = monotonic_ms(), deadline_ms = start_ms + SETTLE_MS;

	for (;;) {
		struct count now = count_all();
		if (monotonic_ms() - start_ms < SETTLE_MAX_MS && others_at_work())
			deadline_ms = monotonic_ms() + SETTLE_MS;
		bool last = monotonic_ms() >= deadline_ms, found = false;

		for (size_t i = 0; i < now.line_count; i++) {
			if (count_has(&before, now.lines[i]))
				continue;
			found = true;
			if (last)
				fprintf(stderr, "left behind: %s\n", now.lines[i]);
		}
		count_free(&now);
		if (!found)
			count_free(&before);
		if (!found || last)
			return found;
		poll(NULL, 0, 1);
	}
}

void leaks_forgive_names(unsigned count)
{
	bool two_libraries = test_on_gpu() && !test_has_gpu(); /* the tests' driver has a name of its own */

	ASSERT(harness_outcome);
	harness_outcome->forgiven_names += two_libraries ? 2 * count : count;
}

/* Is it the lock of a process's name, and held by no process? A name has a lock and, mostly, a socket. */
static bool is_dead_lock(int directory, const char *file)
{
	enum { NAME_CHARS = 32 };

	if (strspn(file, "0123456789abcdef") != NAME_CHARS || strcmp(file + NAME_CHARS, ".lock") != 0)
		return false;
	int fd = openat(directory, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	bool dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return dead;
}

/* Remove the names of dead processes as the next one to make a name would, but at most this many. */
static void remove_dead_names(int directory, unsigned most)
{
	DIR *entries = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;

	ASSERT(entries);
	while (most && (entry = readdir(entries))) {
		char *name = entry->d_name;

		if (!is_dead_lock(directory, name))
			continue;
		unlinkat(directory, name, 0);
		*strchr(name, '.') = '\0';
		unlinkat(directory, name, 0);
		most--;
	}
	closedir(entries);
}

/* Remove an account that no process has open: of those that had it, the last was killed. */
static void remove_dead_account(int directory, const char *file)
{
	int fd = openat(directory, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		unlinkat(directory, file, 0);
	close(fd);
}

bool leaks_files_found(const char *directory, unsigned forgiven_names)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	bool found = false;

	if (!entries)
		return false;
	remove_dead_names(dirfd(entries), forgiven_names);
	while ((entry = readdir(entries))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (forgiven_names && is_account(entry->d_name)) {
			remove_dead_account(dirfd(entries), entry->d_name);
			if (faccessat(dirfd(entries), entry->d_name, F_OK, 0))
				continue;
		}
		printf("# left behind: file %s in the runtime directory\n", entry->d_name);
		found = true;
	}
	closedir(entries);
	return found;
}

unsigned test_file_count(const char *path)
{
	DIR *entries = path ? opendir(path) : NULL;
	unsigned count = 0;

	ASSERT(entries);
	while (readdir(entries))
		count++;
	closedir(entries);
	return count - 2; /* . and .. */
}

unsigned test_descriptor_count(void)
{
	return test_file_count("/proc/self/fd") - 1; /* the one that counts */
}

unsigned test_mapping_count(const char *part)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;
	unsigned count = 0;

	ASSERT(maps);
	while (getline(&line, &room, maps) != -1)
		count += strstr(line, part) != NULL;
	free(line);
	fclose(maps);
	return count;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

void remove_tree(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
