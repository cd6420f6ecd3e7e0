/* SPDX-License-Identifier: MIT */
/*
 * Looking into a directory of ports that may belong to another user, and may contain anything.
 *
 * The viewer may be root. So no link is followed, nothing is opened before it is known to be what it should be, and
 * nothing is used that lies in another mount than the directory, or in a file system that a process serves: the user
 * could have the viewer wait for ever. A FIFO or a device is never opened. The number of names is bounded. A file with
 * several names is not used either: one lock and one socket would make very many processes.
 */
#ifndef CN_SHARE_WIRE_LOOK_H
#define CN_SHARE_WIRE_LOOK_H

#include "base/error.h"

#include <stdbool.h>

/* A directory of ports. */
struct cn_look {
	int fd; /* -1: there is no such directory */
	unsigned owner;
};

/*
 * Open a directory to look through it. Its owner must be this process's user; for root it may be any. NULL, or why it
 * was not opened: it is a link, another user's, or on a file system that a process or another machine serves.
 */
const char *cn_look_open(const char *path, struct cn_look *ret_look);
void cn_look_close(struct cn_look *look);

/* Is called for each name whose process lives. False: enough. */
typedef bool cn_look_found(const char *name, void *data);
/* 0, or errno; E2BIG: there are more entries than it looks at. */
int cn_look_names(const struct cn_look *look, cn_look_found *found, void *data);

/*
 * For root: call `found` for each directory in which processes of other users may be, /run/user/UID/cenote and
 * /tmp/cenote-UID, that is there and belongs to that user. The number of users is bounded.
 */
void cn_look_users(void (*found)(const char *path, void *data), void *data);

/* Is called for each account of devices' memory (base/account.h), with a descriptor for reading, to be closed. */
int cn_look_accounts(const struct cn_look *look, void (*found)(const char *file, int fd, void *data), void *data);

/* Open the lock file of a name for reading; -1: it is not a file of the owner's. */
int cn_look_lock(const struct cn_look *look, const char *name);
/* Open the socket of a name (O_PATH); -1: it is not a socket of the owner's. */
int cn_look_socket(const struct cn_look *look, const char *name);

#endif
