/* SPDX-License-Identifier: MIT */
/*
 * --supervise: a parent that does for a daemon what systemd does.
 *
 * It listens, keeps descriptors by name, and starts the daemon: at first, and whenever it ends by itself. The daemon
 * tells it over a socket of datagrams beside its own (PATH.notify, for this user alone); only what the daemon itself
 * sends is heard. What the daemon had sent before it ended is read before it is started again, so a descriptor that
 * was on its way is not lost.
 *
 * When the parent is asked to end, or is killed, the daemon ends, too, and with both all that they kept.
 */
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/daemon.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
	FIRST_FD = 3,
	TEXT_BYTES = 512,
	STORED_MAX = 40000,
	ENDING_MS_MAX = 5000, /* for a daemon that was asked to end */
	PAUSE_MS_MAX = 1000,  /* before a daemon that did not get ready is started again */
	PAUSE_MS_MIN = 10,
};

struct stored {
	char name[CN_DAEMON_NAME_BYTES];
	int fd;
};

static struct {
	int listen_fd, notify_fd, signal_fd;
	pid_t child;
	bool is_ready, was_ready, is_ending;
	int pause_ms;
	struct stored *stored;
	unsigned stored_count;
} parent;

/* ---- What is kept ---- */

static bool is_short_name(const char *name)
{
	return *name && strlen(name) < CN_DAEMON_NAME_BYTES && !strpbrk(name, ": \n");
}

static void store(const char *name, int fd)
{
	if (!is_short_name(name) || parent.stored_count == STORED_MAX) {
		cn_wire_discard(fd);
		return;
	}
	struct stored *slot = &parent.stored[parent.stored_count++];
	snprintf(slot->name, sizeof slot->name, "%s", name);
	slot->fd = fd;
}

static void forget(const char *name)
{
	for (unsigned i = 0; i < parent.stored_count;) {
		if (strcmp(parent.stored[i].name, name)) {
			i++;
			continue;
		}
		cn_wire_discard(parent.stored[i].fd);
		parent.stored[i] = parent.stored[--parent.stored_count];
	}
}

/* ---- What the daemon says ---- */

static void hear(char *text, int fd)
{
	const char *name = "stored";
	bool stores = false, forgets = false, ready = false;

	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		if (!strncmp(line, "FDNAME=", 7))
			name = line + 7;
		else if (!strcmp(line, "FDSTORE=1"))
			stores = true;
		else if (!strcmp(line, "FDSTOREREMOVE=1"))
			forgets = true;
		else if (!strcmp(line, "READY=1"))
			ready = true;
	}
	if (ready) {
		parent.is_ready = parent.was_ready = true;
		cn_daemon_notify("READY=1"); /* the parent's own manager, if it has one */
	}
	if (forgets)
		forget(name);
	if (stores && fd >= 0)
		store(name, fd);
	else
		cn_wire_discard(fd);
}

static pid_t sender_of(struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header))
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;
			memcpy(&who, CMSG_DATA(header), sizeof who);
			return who.pid;
		}
	return 0;
}

static bool hear_one(void)
{
	char text[TEXT_BYTES];
	union cn_rights rights;
	struct iovec part = {text, sizeof text - 1};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = rights.bytes,
		.msg_controllen = sizeof rights.bytes,
	};
	int fd = -1;

	ssize_t got = recvmsg(parent.notify_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EINTR;
	text[got] = 0;
	pid_t sender = sender_of(&message);
	cn_rights_take(&message, CN_WIRE_NOBODY, &fd, 1);
	if (sender == parent.child)
		hear(text, cn_wire_raise(fd));
	else
		cn_wire_discard(fd);
	return true;
}

static void hear_all(void)
{
	while (hear_one())
		;
}

/* ---- Starting ---- */

static bool set_number(const char *name, unsigned number)
{
	char text[16];

	snprintf(text, sizeof text, "%u", number);
	return !setenv(name, text, 1);
}

/* In the new process: what it will know of its manager. */
static bool set_environment(const char *notify_path)
{
	static char names[sizeof "socket" + (size_t)STORED_MAX * CN_DAEMON_NAME_BYTES];
	char *at = stpcpy(names, "socket");

	for (unsigned i = 0; i < parent.stored_count; i++) {
		*at++ = ':';
		at = stpcpy(at, parent.stored[i].name);
	}
	return set_number("LISTEN_PID", (unsigned)getpid()) && set_number("LISTEN_FDS", parent.stored_count + 1) &&
	       !setenv("LISTEN_FDNAMES", names, 1) && !setenv("NOTIFY_SOCKET", notify_path, 1);
}

/*
 * In the new process: give the i-th descriptor the number 3 + i. One that has the number of another gets that one's,
 * so this needs one number more than there are.
 */
static bool line_up_in(int *fds, unsigned count, int *owner, int numbers)
{
	for (unsigned i = 0; i < count; i++)
		owner[fds[i]] = (int)i + 1;
	for (unsigned i = 0; i < count; i++) {
		int target = FIRST_FD + (int)i, from = fds[i];
		int other = target < numbers ? owner[target] : 0;
		int moved = from != target && other ? fcntl(target, F_DUPFD_CLOEXEC, FIRST_FD) : -1;
		if (from != target && ((other && moved < 0) || dup2(from, target) < 0))
			return false;
		if (moved >= 0) {
			dup3(moved, from, O_CLOEXEC);
			close(moved);
			fds[other - 1] = from;
			owner[from] = other;
		} else if (from != target) {
			close(from);
			owner[from] = 0;
		}
		if (fcntl(target, F_SETFD, 0))
			return false;
	}
	return true;
}

static bool line_up(void)
{
	unsigned count = parent.stored_count + 1;
	int *fds = calloc(count, sizeof *fds), highest = parent.listen_fd;

	if (!fds)
		return false;
	fds[0] = parent.listen_fd;
	for (unsigned i = 1; i < count; i++) {
		fds[i] = parent.stored[i - 1].fd;
		highest = fds[i] > highest ? fds[i] : highest;
	}
	int *owner = calloc((size_t)highest + 1, sizeof *owner); /* which of them has a number, plus 1 */
	bool done = owner && line_up_in(fds, count, owner, highest + 1);
	free(owner);
	free(fds);
	return done;
}

static void start(const char *notify_path, char **arguments)
{
	pid_t parent_pid = getpid();

	parent.is_ready = false;
	parent.child = fork();
	if (parent.child)
		return;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent_pid && set_environment(notify_path) && line_up())
		execv("/proc/self/exe", arguments);
	_exit(EXIT_FAILURE);
}

/* ---- The loop ---- */

/* Has the daemon ended? Its last words are heard first. */
static bool reap(int *ret_status)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)parent.child, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
		return false;
	hear_all();
	waitpid(parent.child, ret_status, 0);
	return true;
}

static void read_signals(void)
{
	struct signalfd_siginfo info;

	while (read(parent.signal_fd, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGCHLD && !parent.is_ending) {
			parent.is_ending = true;
			kill(parent.child, SIGTERM);
		}
}

static void await(int timeout_ms)
{
	struct pollfd polled[] = {
		{.fd = parent.notify_fd, .events = POLLIN},
		{.fd = parent.signal_fd, .events = POLLIN},
	};

	poll(polled, 2, timeout_ms);
	hear_all();
	read_signals();
}

/* The exit status of a daemon that is not to be started again; -1: it is. */
static int run_once(const char *notify_path, char **arguments)
{
	uint64_t deadline_ns = 0;
	int status = 0;

	start(notify_path, arguments);
	if (parent.child < 0) {
		cn_daemon_log("no process can be started: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	while (!reap(&status)) {
		await(parent.is_ending ? PAUSE_MS_MAX : -1);
		if (!parent.is_ending)
			continue;
		if (!deadline_ns)
			deadline_ns = cn_clock_ns() + ENDING_MS_MAX * CN_MILLISECOND_NS;
		else if (cn_clock_ns() > deadline_ns)
			kill(parent.child, SIGKILL);
	}
	if (parent.is_ending)
		return EXIT_SUCCESS;
	if (WIFEXITED(status) && !parent.was_ready)
		return WEXITSTATUS(status); /* its options are wrong, say */
	cn_daemon_log("the daemon has ended (%s %d) and is started again", WIFSIGNALED(status) ? "signal" : "status",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return -1;
}

static const char *prepare(const char *notify_path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	sigset_t heard;

	parent.stored = calloc(STORED_MAX, sizeof *parent.stored);
	if (!parent.stored)
		return "no memory";
	sigemptyset(&heard);
	sigaddset(&heard, SIGCHLD);
	sigaddset(&heard, SIGTERM);
	sigaddset(&heard, SIGINT);
	if (sigprocmask(SIG_BLOCK, &heard, NULL))
		return "signals cannot be blocked";
	parent.signal_fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
	parent.notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (parent.signal_fd < 0 || parent.notify_fd < 0)
		return "no descriptor is left";
	if (strlen(notify_path) >= sizeof address.sun_path)
		return "the path of the socket is too long";
	snprintf(address.sun_path, sizeof address.sun_path, "%s", notify_path);
	unlink(notify_path);
	mode_t mask = umask(0177); /* this user alone */
	bool bound = !bind(parent.notify_fd, (const struct sockaddr *)&address, sizeof address) &&
		     !setsockopt(parent.notify_fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
	umask(mask);
	return bound ? NULL : "the socket for notifications cannot be made";
}

int cn_daemon_supervise(const char *path, char **arguments)
{
	char notify_path[sizeof((struct sockaddr_un *)0)->sun_path + 8];
	int lock_fd, status;

	cn_daemon_raise_limit();
	const char *why = cn_daemon_listen(path, &parent.listen_fd, &lock_fd);
	if (why) {
		cn_daemon_log("%s: %s", path, why);
		return EXIT_FAILURE;
	}
	snprintf(notify_path, sizeof notify_path, "%s.notify", path);
	why = prepare(notify_path);
	if (why) {
		cn_daemon_log("%s: %s", path, why);
		cn_daemon_unlisten(path, parent.listen_fd, lock_fd);
		return EXIT_FAILURE;
	}
	while ((status = run_once(notify_path, arguments)) < 0) {
		int pause_ms = parent.pause_ms * 2 < PAUSE_MS_MIN ? PAUSE_MS_MIN : parent.pause_ms * 2;
		parent.pause_ms = parent.is_ready ? 0 : pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
		if (parent.pause_ms)
			poll(NULL, 0, parent.pause_ms);
	}
	unlink(notify_path);
	cn_daemon_unlisten(path, parent.listen_fd, lock_fd);
	return status;
}

void cn_daemon_drop_option(char **arguments, const char *option)
{
	char **to = arguments;

	for (char **from = arguments; *from; from++)
		if (strcmp(*from, option) != 0)
			*to++ = *from;
	*to = NULL;
}
