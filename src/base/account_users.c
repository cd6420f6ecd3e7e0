/* SPDX-License-Identifier: MIT */
/*
 * Which processes take part in an account, by their PIDs.
 *
 * No slot says whose it is: its writer could lie, and a PID means nothing in another namespace. But the owner of a slot
 * has a lock, through the one descriptor that it has of the file, and /proc/PID/fdinfo shows which locks belong to a
 * descriptor. So the kernel says whose slot it is, with a PID as this process sees it.
 *
 * A descriptor of the file is recognized by the last part of its name. What other descriptors lead to is not touched:
 * a file system that some process serves may not answer. The file itself is recognized by the numbers that the kernel
 * prints with each lock, which are compared with those of our own, which we have for that moment.
 */
#include "base/account_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	INFO_BYTES = 16384, /* what fdinfo says: a line for each lock, one for each device */
	FILE_CHARS = 64,
};

/* A file as others' descriptors of it look. */
struct subject {
	char name[NAME_MAX + 1];
	char numbers[FILE_CHARS]; /* "fe:00:1234" */
};

struct lock_line {
	char numbers[FILE_CHARS];
	unsigned long long first, last;
};

/* A file of /proc. False: there is none, or this process may not read it. */
static bool read_text(int directory_fd, const char *path, char ret_text[INFO_BYTES])
{
	size_t length = 0;
	ssize_t got = 1;
	int fd = openat(directory_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (got > 0 && length < INFO_BYTES - 1) {
		got = read(fd, ret_text + length, INFO_BYTES - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	ret_text[length] = '\0';
	return length > 0;
}

/* The next lock of the kind that belongs to an open file; NULL: there is none. */
static const char *next_lock(const char *text, struct lock_line *ret_lock)
{
	for (; (text = strstr(text, "lock:")); text += strlen("lock:"))
		if (sscanf(text, "lock: %*d: OFDLCK %*s %*s %*s %63s %llu %llu", ret_lock->numbers, &ret_lock->first,
			   &ret_lock->last) == 3)
			return text + strlen("lock:");
	return NULL;
}

static bool name_of(int directory_fd, const char *link, char ret_name[NAME_MAX + 1])
{
	char path[PATH_MAX];
	ssize_t length = readlinkat(directory_fd, link, path, sizeof path - 1);

	if (length <= 0)
		return false;
	path[length] = '\0';
	const char *slash = strrchr(path, '/');
	if (!slash || strlen(slash + 1) > NAME_MAX)
		return false;
	memcpy(ret_name, slash + 1, strlen(slash + 1) + 1);
	return true;
}

static bool describe(const struct cn_account *account, struct subject *ret_subject)
{
	char path[64], text[INFO_BYTES];
	struct lock_line lock;

	snprintf(path, sizeof path, "/proc/self/fd/%d", account->fd);
	if (!name_of(AT_FDCWD, path, ret_subject->name))
		return false;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", account->fd);
	if (cn_account_lock(account->fd, F_RDLCK, CN_ACCOUNT_LOCK_PROBE, 1))
		return false;
	bool known = read_text(AT_FDCWD, path, text) && next_lock(text, &lock);
	cn_account_lock(account->fd, F_UNLCK, CN_ACCOUNT_LOCK_PROBE, 1);
	if (!known)
		return false;
	memcpy(ret_subject->numbers, lock.numbers, sizeof lock.numbers);
	return true;
}

/* What a process has made of each device. */
struct made {
	bool takes_part[CN_ACCOUNT_DEVICES];
	uint64_t bytes[CN_ACCOUNT_DEVICES];
};

/* Locks that touch are printed as one: those of slots of several devices. */
static void add_slots(const struct cn_account *account, const struct lock_line *lock, struct made *made)
{
	unsigned long long base = CN_ACCOUNT_LOCK_BASE, first = lock->first > base ? lock->first : base;

	for (unsigned step = 0; step < CN_ACCOUNT_DEVICES && first + step <= lock->last; step++) {
		uint64_t index = (first + step - base) / CN_ACCOUNT_LIVES,
			 life = (first + step - base) % CN_ACCOUNT_LIVES;
		if (index >= account->header_count)
			break;
		const struct cn_account_header *header = &account->headers[index];
		if (header->magic != CN_ACCOUNT_MAGIC || header->life % CN_ACCOUNT_LIVES != life)
			continue;
		made->bytes[header->device] = cn_account_add(made->bytes[header->device], header->made_bytes);
		made->takes_part[header->device] = true;
	}
}

static DIR *list(int directory_fd, const char *path)
{
	int fd = openat(directory_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !entries)
		close(fd);
	return entries;
}

/* A process's slots, through all its descriptors of the file. */
static void look_at_process(const struct cn_account *account, const struct subject *subject, int process_fd,
			    struct made *ret_made)
{
	char name[NAME_MAX + 1], path[NAME_MAX + 16], text[INFO_BYTES];
	struct lock_line lock;
	const struct dirent *entry;
	DIR *entries = list(process_fd, "fd");

	*ret_made = (struct made){0};
	if (!entries)
		return;
	while ((entry = readdir(entries))) {
		if (!name_of(dirfd(entries), entry->d_name, name) || strcmp(name, subject->name) != 0)
			continue;
		snprintf(path, sizeof path, "fdinfo/%s", entry->d_name);
		if (!read_text(process_fd, path, text))
			continue;
		for (const char *at = text; (at = next_lock(at, &lock));)
			if (strcmp(lock.numbers, subject->numbers) == 0)
				add_slots(account, &lock, ret_made);
	}
	closedir(entries);
}

bool cn_account_users_of_all(struct cn_account *account, cn_account_user_of *found, void *data)
{
	struct subject subject;
	const struct dirent *entry;
	struct made made;

	if ((!account->is_viewer && !cn_account_read_headers(account, false)) || !describe(account, &subject))
		return false;
	DIR *processes = list(AT_FDCWD, "/proc");
	if (!processes)
		return false;
	while ((entry = readdir(processes))) {
		if (entry->d_name[strspn(entry->d_name, "0123456789")])
			continue;
		int process_fd = openat(dirfd(processes), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (process_fd < 0)
			continue;
		look_at_process(account, &subject, process_fd, &made);
		for (unsigned device = 0; device < CN_ACCOUNT_DEVICES; device++)
			if (made.takes_part[device])
				found(atoi(entry->d_name), device, made.bytes[device], data);
		close(process_fd);
	}
	closedir(processes);
	return true;
}

struct users_of_one {
	unsigned device;
	cn_account_user *found;
	void *data;
};

static void pass_on(int pid, unsigned device, uint64_t made_bytes, void *data)
{
	const struct users_of_one *users = data;

	if (device == users->device)
		users->found(pid, made_bytes, users->data);
}

bool cn_account_users(struct cn_account *account, unsigned device, cn_account_user *found, void *data)
{
	struct users_of_one users = {device, found, data};

	return cn_account_users_of_all(account, pass_on, &users);
}
