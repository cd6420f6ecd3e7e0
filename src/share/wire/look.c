/* SPDX-License-Identifier: MIT */
/*
 * Looking into a directory of ports that may be another user's; see look.h.
 */
#include "share/wire/look.h"
#include "base/account.h"
#include "base/descriptor.h"
#include "share/wire/wire.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { ENTRIES_MAX = 65536, USERS_MAX = 4096, ACCOUNTS_MAX = 16 };

static const char lock_suffix[] = ".lock";

/* What it is and where it is mounted, without asking the file system. */
static bool examine(int fd, struct statx *ret_facts)
{
	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID, ret_facts);
}

/* Both in one mount? Where the system does not say (before Linux 5.8), a local file system must do. */
static bool is_beside(const struct statx *directory, const struct statx *file)
{
	if (directory->stx_mask & file->stx_mask & STATX_MNT_ID)
		return directory->stx_mnt_id == file->stx_mnt_id;
	return !cn_descriptor_is_served(file);
}

/* Why a directory must not be used; NULL: it may be. */
static const char *object_to(const struct statx *facts)
{
	if (facts->stx_uid != geteuid() && geteuid() != 0)
		return "it belongs to another user";
	if (cn_descriptor_is_served(facts))
		return "it is on a file system that a process or another machine serves";
	return NULL;
}

const char *cn_look_open(const char *path, struct cn_look *ret_look)
{
	struct cn_look look = {.fd = -1};
	struct statx facts;
	int place = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (place < 0 && errno == ENOENT) {
		*ret_look = look;
		return NULL;
	}
	if (place < 0)
		return errno == ENOTDIR || errno == ELOOP ? "it is a link, or no directory" : strerror(errno);
	bool known = examine(place, &facts);
	const char *why = known ? object_to(&facts) : strerror(errno);
	if (!why) {
		look = (struct cn_look){.fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
					.owner = facts.stx_uid};
		why = look.fd < 0 ? strerror(errno) : NULL;
	}
	close(place);
	if (!why)
		*ret_look = look;
	return why;
}

void cn_look_close(struct cn_look *look)
{
	if (look->fd >= 0)
		close(look->fd);
	look->fd = -1;
}

/* A path to a file of this type and the directory's owner, which has no other name. */
static int find(const struct cn_look *look, const char *file, mode_t type)
{
	struct statx directory, facts;
	int fd = openat(look->fd, file, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (examine(look->fd, &directory) && examine(fd, &facts) && (facts.stx_mode & S_IFMT) == type &&
	    facts.stx_uid == look->owner && facts.stx_nlink == 1 && is_beside(&directory, &facts))
		return cn_descriptor_raise(fd);
	close(fd);
	return -1;
}

/* Open a regular file of the owner's for reading; -1: it is none. */
static int open_file(const struct cn_look *look, const char *file)
{
	char path[32];
	int place = find(look, file, S_IFREG);

	if (place < 0)
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", place);
	int fd = cn_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	close(place);
	return fd;
}

int cn_look_lock(const struct cn_look *look, const char *name)
{
	char file[CN_SOCKET_NAME_CHARS + sizeof lock_suffix];

	snprintf(file, sizeof file, "%.*s%s", CN_SOCKET_NAME_CHARS, name, lock_suffix);
	return open_file(look, file);
}

int cn_look_socket(const struct cn_look *look, const char *name)
{
	return find(look, name, S_IFSOCK);
}

static bool is_lock_name(const char *file)
{
	return strspn(file, "0123456789abcdef") == CN_SOCKET_NAME_CHARS &&
	       !strcmp(file + CN_SOCKET_NAME_CHARS, lock_suffix);
}

/* Does its process live? Then we do not get the lock; else we have it for this moment, and shared: no harm is done. */
static bool is_live(const struct cn_look *look, const char *name)
{
	int fd = cn_look_lock(look, name);
	bool live = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB);

	if (fd >= 0)
		close(fd);
	return live;
}

/* Call `visit` with the name of each file in a directory until it returns false. 0, or errno; E2BIG: too many. */
static int visit_files(const struct cn_look *look, bool (*visit)(const char *file, void *data), void *data)
{
	int fd = openat(look->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry = NULL;
	unsigned looks = 0;

	if (!entries) {
		int error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	while (looks < ENTRIES_MAX && (entry = readdir(entries)) && visit(entry->d_name, data))
		looks++;
	closedir(entries);
	return looks == ENTRIES_MAX ? E2BIG : 0;
}

struct names {
	const struct cn_look *look;
	cn_look_found *found;
	void *data;
};

static bool visit_name(const char *file, void *data)
{
	const struct names *names = data;
	char name[CN_SOCKET_NAME_CHARS + 1];

	if (!is_lock_name(file))
		return true;
	memcpy(name, file, CN_SOCKET_NAME_CHARS);
	name[CN_SOCKET_NAME_CHARS] = '\0';
	return !is_live(names->look, name) || names->found(name, names->data);
}

int cn_look_names(const struct cn_look *look, cn_look_found *found, void *data)
{
	struct names names = {look, found, data};

	return visit_files(look, visit_name, &names);
}

struct accounts {
	const struct cn_look *look;
	void (*found)(const char *file, int fd, void *data);
	void *data;
	unsigned count;
};

static bool visit_account(const char *file, void *data)
{
	struct accounts *accounts = data;

	if (!cn_account_is_name(file))
		return true;
	int fd = open_file(accounts->look, file);
	if (fd >= 0)
		accounts->found(file, fd, accounts->data);
	return ++accounts->count < ACCOUNTS_MAX;
}

int cn_look_accounts(const struct cn_look *look, void (*found)(const char *file, int fd, void *data), void *data)
{
	struct accounts accounts = {.look = look, .found = found, .data = data};

	return visit_files(look, visit_account, &accounts);
}

/* ---- Other users ---- */

/* The number that a name ends with, of another user than ours; 0: it is no such name. */
static unsigned user_of(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);
	char *end;

	if (strncmp(name, prefix, length) != 0 || name[length] < '1' || name[length] > '9')
		return 0;
	unsigned long user = strtoul(name + length, &end, 10);
	return *end || user >= UINT32_MAX || user == geteuid() ? 0 : (unsigned)user;
}

/* Look for PREFIX UID in a folder; what is looked into is FOLDER/PREFIX UID SUFFIX. */
static void find_users(const char *folder, const char *prefix, const char *suffix,
		       void (*found)(const char *path, void *data), void *data)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!entries) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (unsigned looks = 0, users = 0; looks < ENTRIES_MAX && users < USERS_MAX && (entry = readdir(entries));
	     looks++) {
		unsigned user = user_of(entry->d_name, prefix);
		char path[64];
		struct cn_look look = {.fd = -1};
		if (!user)
			continue;
		snprintf(path, sizeof path, "%s/%s%u%s", folder, prefix, user, suffix);
		if (cn_look_open(path, &look) || look.fd < 0)
			continue;
		bool theirs = look.owner == user;
		cn_look_close(&look);
		if (theirs) {
			users++;
			found(path, data);
		}
	}
	closedir(entries);
}

void cn_look_users(void (*found)(const char *path, void *data), void *data)
{
	find_users("/run/user", "", "/cenote", found, data);
	find_users("/tmp", "cenote-", "", found, data);
}
