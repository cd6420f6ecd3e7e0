/* SPDX-License-Identifier: MIT */
/*
 * Searching /proc for memory files; see sightings.h.
 */
#include "sightings.h"

#include "survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SIGHTINGS_MAX = 1 << 20, NAME_CHARS = 64, BLOCK_BYTES = 512 };

static const char *const names[FILE_KINDS] = {
	[FILE_PHYSICAL] = "/memfd:cenote-memory-",
	[FILE_HEAP] = "/memfd:cenote-heap",
	[FILE_POOL] = "/memfd:cenote-pool",
	[FILE_LEDGER] = "/memfd:cenote-ledger",
};

struct search {
	struct sightings found;
	bool failed; /* no memory, or too many */
};

static void add(struct search *search, const struct sighting *seen)
{
	struct sightings *found = &search->found;
	struct sighting *list = found->count < SIGHTINGS_MAX ? one_more(found->list, found->count, sizeof *list) : NULL;

	if (!list) {
		search->failed = true;
		return;
	}
	found->list = list;
	list[found->count++] = *seen;
}

/* Returns FILE_KINDS if the name is of no kind that we look for. */
static enum file_kind kind_of(const char *name)
{
	int kind = 0;

	while (kind < FILE_KINDS && strncmp(name, names[kind], strlen(names[kind])) != 0)
		kind++;
	return (enum file_kind)kind;
}

static void look_at_descriptors(struct search *search, int process_fd, int pid, unsigned int uid)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(folder));) {
		char target[NAME_CHARS];
		struct statx status;
		ssize_t length = readlinkat(fd, entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = '\0';
		enum file_kind kind = kind_of(target);
		/* A process may have such a name in a file system that it serves, which must not be asked. */
		if (kind == FILE_KINDS ||
		    statx(fd, entry->d_name, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status) == -1)
			continue;
		add(search, &(struct sighting){.kind = kind,
					       .device = makedev(status.stx_dev_major, status.stx_dev_minor),
					       .inode = (ino_t)status.stx_ino,
					       .pid = pid,
					       .process_uid = uid,
					       .file_uid = status.stx_uid,
					       .bytes = status.stx_size,
					       .used_bytes = status.stx_blocks * BLOCK_BYTES});
	}
	closedir(folder);
}

static void look_at_mapping(struct search *search, const char *line, int pid, unsigned int uid)
{
	unsigned long long start, end, offset, inode;
	unsigned int major_number, minor_number;
	char rights[5];
	const char *name = strstr(line, "/memfd:cenote-");
	enum file_kind kind = name ? kind_of(name) : FILE_KINDS;

	if (kind == FILE_KINDS || sscanf(line, "%llx-%llx %4s %llx %x:%x %llu", &start, &end, rights, &offset,
					 &major_number, &minor_number, &inode) != 7)
		return;
	add(search, &(struct sighting){.kind = kind,
				       .device = makedev(major_number, minor_number),
				       .inode = (ino_t)inode,
				       .pid = pid,
				       .process_uid = uid,
				       .file_uid = uid,
				       .mapped = true,
				       .writable = rights[1] == 'w',
				       .bytes = offset + (end - start),
				       .used_bytes = offset + (end - start)});
}

static void look_at_mappings(struct search *search, int process_fd, int pid, unsigned int uid)
{
	int fd = openat(process_fd, "maps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "re");
	char *line = NULL;
	size_t room = 0;

	if (!maps) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (getline(&line, &room, maps) > 0)
		look_at_mapping(search, line, pid, uid);
	free(line);
	fclose(maps);
}

static void look_at_process(struct search *search, int proc_fd, const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);
	struct stat status;

	if (*end || pid <= 0 || pid == getpid())
		return;
	int fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &status)) {
		look_at_descriptors(search, fd, (int)pid, status.st_uid);
		look_at_mappings(search, fd, (int)pid, status.st_uid);
	}
	close(fd);
}

/* ---- One sighting for each file and process ---- */

static int compare(unsigned long long one, unsigned long long other)
{
	return one < other ? -1 : one > other;
}

static int compare_sightings(const void *left, const void *right)
{
	const struct sighting *one = left, *other = right;
	int order = compare(one->device, other->device);

	if (!order)
		order = compare(one->inode, other->inode);
	if (!order)
		order = compare((unsigned)one->pid, (unsigned)other->pid);
	return order ? order : compare(one->mapped, other->mapped); /* what a descriptor says comes first */
}

bool sightings_are_of_one_file(const struct sighting *one, const struct sighting *other)
{
	return one->device == other->device && one->inode == other->inode;
}

static void merge(struct sightings *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct sighting *last = kept ? &all->list[kept - 1] : NULL;
		const struct sighting *next = &all->list[i];
		if (!last || !sightings_are_of_one_file(last, next) || last->pid != next->pid) {
			all->list[kept++] = *next;
			continue;
		}
		if (next->bytes > last->bytes)
			last->bytes = next->bytes;
		if (last->mapped && next->used_bytes > last->used_bytes) /* else a descriptor has told */
			last->used_bytes = next->used_bytes;
		last->mapped |= next->mapped;
		last->writable |= next->writable;
	}
	all->count = kept;
}

bool sightings_take(struct sightings *ret_sightings)
{
	struct search search = {.failed = false};
	DIR *proc = access("/proc/self/fd", R_OK) ? NULL : opendir("/proc"); /* which may be an empty folder */

	if (!proc)
		return false;
	for (const struct dirent *entry; (entry = readdir(proc)) && !search.failed;)
		look_at_process(&search, dirfd(proc), entry->d_name);
	closedir(proc);
	if (search.failed) {
		sightings_free(&search.found);
		return false;
	}
	if (search.found.count)
		qsort(search.found.list, search.found.count, sizeof *search.found.list, compare_sightings);
	merge(&search.found);
	*ret_sightings = search.found;
	return true;
}

void sightings_free(struct sightings *sightings)
{
	free(sightings->list);
	*sightings = (struct sightings){.list = NULL};
}
