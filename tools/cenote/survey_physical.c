/* SPDX-License-Identifier: MIT */
/*
 * Physical memory that several processes have: which memory, and which processes.
 *
 * What cuMemCreate() made is shared by a descriptor, or by a fabric handle that fetches one, and the exporter does not
 * learn of it. On the host device it is a memory file whose name says so, and the system knows which processes have it
 * open or mapped: this code searches /proc, as far as this process may look. /proc does not say which of them made the
 * memory, or when the others got it; nor does it show descriptors in transit, and processes that are not visible here.
 *
 * There may be very many allocations: those that the same processes have in the same way are reported together.
 */
#include "survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SIGHTINGS_MAX = 1 << 20 };

static const char file_name[] = "/memfd:cenote-memory-";

/* A process has a file. */
struct sighting {
	dev_t device;
	ino_t inode;
	int pid;
	unsigned int process_uid, file_uid;
	bool mapped;
	unsigned long long bytes;
};

struct sightings {
	struct sighting *list;
	size_t count;
	bool failed; /* no memory, or too many */
};

/* A file, and the sightings of it: one for each process, in the order of their PIDs. */
struct file {
	const struct sighting *sightings;
	size_t count;
	unsigned long long bytes;
};

/* ---- What /proc says ---- */

static void add_sighting(struct sightings *all, const struct sighting *seen)
{
	struct sighting *list = all->count < SIGHTINGS_MAX ? one_more(all->list, all->count, sizeof *list) : NULL;

	if (!list) {
		all->failed = true;
		return;
	}
	all->list = list;
	list[all->count++] = *seen;
}

static void look_at_descriptors(struct sightings *all, int process_fd, int pid, unsigned int uid)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(folder));) {
		char target[sizeof file_name];
		struct stat status;
		ssize_t length = readlinkat(fd, entry->d_name, target, sizeof target);
		if (length < (ssize_t)sizeof file_name - 1 || memcmp(target, file_name, sizeof file_name - 1) != 0 ||
		    fstatat(fd, entry->d_name, &status, 0))
			continue;
		add_sighting(all, &(struct sighting){.device = status.st_dev,
						     .inode = status.st_ino,
						     .pid = pid,
						     .process_uid = uid,
						     .file_uid = status.st_uid,
						     .bytes = (unsigned long long)status.st_size});
	}
	closedir(folder);
}

static void look_at_mappings(struct sightings *all, int process_fd, int pid, unsigned int uid)
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
	while (getline(&line, &room, maps) > 0) {
		unsigned long long start, end, offset, inode;
		unsigned int major_number, minor_number;
		if (!strstr(line, file_name) || sscanf(line, "%llx-%llx %*4s %llx %x:%x %llu", &start, &end, &offset,
						       &major_number, &minor_number, &inode) != 6)
			continue;
		add_sighting(all, &(struct sighting){.device = makedev(major_number, minor_number),
						     .inode = (ino_t)inode,
						     .pid = pid,
						     .process_uid = uid,
						     .file_uid = uid,
						     .mapped = true,
						     .bytes = offset + (end - start)});
	}
	free(line);
	fclose(maps);
}

static void look_at_process(struct sightings *all, int proc_fd, const char *name)
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
		look_at_descriptors(all, fd, (int)pid, status.st_uid);
		look_at_mappings(all, fd, (int)pid, status.st_uid);
	}
	close(fd);
}

/* ---- Files, and which processes have them ---- */

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

static bool is_same_file(const struct sighting *one, const struct sighting *other)
{
	return one->device == other->device && one->inode == other->inode;
}

/* One sighting for each file and process; they are in order. */
static void merge_sightings(struct sightings *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct sighting *last = kept ? &all->list[kept - 1] : NULL;
		const struct sighting *next = &all->list[i];
		if (!last || !is_same_file(last, next) || last->pid != next->pid) {
			all->list[kept++] = *next;
			continue;
		}
		last->mapped |= next->mapped;
		if (next->bytes > last->bytes)
			last->bytes = next->bytes;
	}
	all->count = kept;
}

static int compare_files(const void *left, const void *right)
{
	const struct file *one = left, *other = right;
	int order = compare(one->count, other->count);

	for (size_t i = 0; !order && i < one->count; i++) {
		order = compare((unsigned)one->sightings[i].pid, (unsigned)other->sightings[i].pid);
		if (!order)
			order = compare(one->sightings[i].mapped, other->sightings[i].mapped);
	}
	return order;
}

/* Those that more than one process has. False: there is no memory for them. */
static bool find_files(const struct sightings *all, struct file **ret_files, size_t *ret_count)
{
	struct file *files = NULL;
	size_t count = 0;

	for (size_t i = 0, next; i < all->count; i = next) {
		struct file file = {.sightings = &all->list[i]};
		for (next = i; next < all->count && is_same_file(&all->list[i], &all->list[next]); next++)
			if (all->list[next].bytes > file.bytes)
				file.bytes = all->list[next].bytes;
		file.count = next - i;
		if (file.count < 2)
			continue;
		struct file *more = one_more(files, count, sizeof *files);
		if (!more) {
			free(files);
			return false;
		}
		files = more;
		files[count++] = file;
	}
	*ret_files = files;
	*ret_count = count;
	return true;
}

static bool add_physical(struct survey *survey, const struct file *file)
{
	struct physical *physicals = one_more(survey->physicals, survey->physical_count, sizeof *physicals);
	struct physical_holder *holders = physicals ? calloc(file->count, sizeof *holders) : NULL;

	if (physicals)
		survey->physicals = physicals;
	if (!holders)
		return false;
	for (size_t i = 0; i < file->count; i++) {
		const struct sighting *seen = &file->sightings[i];
		holders[i] =
			(struct physical_holder){.pid = seen->pid, .uid = seen->process_uid, .mapped = seen->mapped};
		find_program(seen->pid, holders[i].program);
	}
	physicals[survey->physical_count++] =
		(struct physical){.uid = file->sightings[0].file_uid, .holders = holders, .holder_count = file->count};
	return true;
}

void survey_find_physical(struct survey *survey)
{
	struct sightings all = {0};
	struct file *files = NULL;
	size_t count = 0;
	DIR *proc = access("/proc/self/fd", R_OK) ? NULL : opendir("/proc"); /* which may be an empty folder */

	if (!proc)
		return;
	for (const struct dirent *entry; (entry = readdir(proc)) && !all.failed;)
		look_at_process(&all, dirfd(proc), entry->d_name);
	closedir(proc);
	survey->physical_known = !all.failed;
	if (all.count) {
		qsort(all.list, all.count, sizeof *all.list, compare_sightings);
		merge_sightings(&all);
		survey->physical_known &= find_files(&all, &files, &count);
	}
	if (count)
		qsort(files, count, sizeof *files, compare_files);
	for (size_t i = 0; i < count && survey->physical_known; i++) {
		if (!i || compare_files(&files[i - 1], &files[i]) != 0)
			survey->physical_known = add_physical(survey, &files[i]);
		if (survey->physical_known) {
			struct physical *physical = &survey->physicals[survey->physical_count - 1];
			physical->count++;
			physical->bytes += files[i].bytes;
		}
	}
	free(files);
	free(all.list);
}
