/* SPDX-License-Identifier: MIT */
/*
 * What daemons share: where they listen, which process calls, what they say to the manager that started them, log
 * lines, and a parent that starts them again.
 *
 * The manager is systemd, or the parent that --supervise makes; both speak systemd's protocol, which is a few lines and
 * needs no library. The manager hands the listening socket over (LISTEN_FDS), is told when the daemon is ready
 * (NOTIFY_SOCKET), and keeps descriptors for it (FDSTORE), which come back when the daemon is started again. So what a
 * descriptor keeps alive outlives the daemon.
 *
 * The parent does nothing else: it starts the daemon, keeps descriptors by name and starts it again, so there is little
 * in it that can fail.
 */
#ifndef CN_DAEMON_DAEMON_H
#define CN_DAEMON_DAEMON_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
	CN_DAEMON_NAME_BYTES = 16, /* of a descriptor that the manager keeps: short, for all must fit in one variable */
	CN_DAEMON_BACKLOG = 1024,
};

/* ---- Log lines, on standard error ---- */

/* One line. Never waits: it is dropped, and counted, where no process reads. */
void cn_daemon_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- What the manager handed over ---- */

struct cn_daemon_given {
	int first_fd;
	unsigned count;
	char *names;       /* separated by colons; the daemon's own copy */
	const char **name; /* of each, "" where it has none */
};

/* 0, or errno. Takes the variables out of the environment. None given: a count of 0. */
int cn_daemon_take_given(struct cn_daemon_given *ret_given);
void cn_daemon_free_given(struct cn_daemon_given *given);
/* The listening socket among what a manager handed over; -1: there is none. */
int cn_daemon_find_socket(const struct cn_daemon_given *given);

/* ---- What the manager is told ---- */

/* Is there a manager that keeps descriptors? */
bool cn_daemon_has_manager(void);
/* Send a line of systemd's protocol, such as "READY=1". */
bool cn_daemon_notify(const char *line);
/* Have the manager keep a descriptor under a name until it is told to forget it. False: it could not be told. */
bool cn_daemon_store(const char *name, int fd);
bool cn_daemon_forget(const char *name);

/* ---- Sockets and callers ---- */

/*
 * Listen at a path, which is made; a lock beside it (PATH.lock) says that this process has it. What a killed daemon
 * left there is replaced. Returns NULL and the descriptors, or a sentence.
 */
const char *cn_daemon_listen(const char *path, int *ret_listen_fd, int *ret_lock_fd);
void cn_daemon_unlisten(const char *path, int listen_fd, int lock_fd);
/* The path of a socket in this user's runtime directory. False: there is no such directory, which is logged. */
bool cn_daemon_default_path(const char *name, char ret_path[PATH_MAX]);

/*
 * When a process started, in the kernel's ticks: with its PID it names the process for ever. 0: there is no such
 * process, or /proc does not show it.
 */
uint64_t cn_daemon_process_start(pid_t pid);

/*
 * A descriptor that can be read when the daemon is asked to end (SIGTERM, SIGINT); -1: errno. From now on a closed
 * connection or a limit on the size of files is an error of the call, not the end of the daemon.
 */
int cn_daemon_signals(void);

/* Let this process have as many descriptors as the system allows; returns how many. */
unsigned long cn_daemon_raise_limit(void);

/* ---- A parent that starts the daemon again ---- */

/*
 * Start this program with these arguments, and again whenever it ends without being asked to. Returns when the parent
 * gets SIGTERM or SIGINT and the daemon has ended: the exit status.
 */
int cn_daemon_supervise(const char *socket_path, char **arguments);
/* Take an option out of these arguments: a parent does not hand --supervise on. */
void cn_daemon_drop_option(char **arguments, const char *option);

#endif
