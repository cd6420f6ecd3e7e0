/* SPDX-License-Identifier: MIT */
/*
 * Telling senders that what they keep has arrived.
 *
 * A sender keeps a block until the receiver has it (cenote/_keeper.py). The receiver says so before its program gets
 * the block: what is said is in the system's hands, and stays said if the receiver is killed. The sender looks at it a
 * moment later, at several together; in that moment a word wakes no thread, and costs little.
 *
 * Senders are strangers, and nothing here waits for one: the sockets do not block. What a sender does not take is sent
 * later, by a thread that runs no Python. A sender that has ended needs no word. For each sender at most TOKENS_MAX are
 * noted; of more than SENDERS_MAX senders the oldest are forgotten. A block whose token is dropped stays until its
 * channel has no reader.
 *
 * `lock` protects the list, and is held for some instructions only. `delivery` is held by the thread that sends, and by
 * it alone senders are removed; it is taken first. In a forked child all begins anew.
 */
#include "py.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TOKENS_FIRST = 16, TOKENS_MAX = 1 << 16, MESSAGE_TOKENS_MAX = 256, SENDERS_MAX = 256, PATH_BYTES = 4096 };
static const long RETRY_NS = 300 * 1000, RETRY_MAX_NS = 100 * 1000 * 1000;

struct sender {
	struct sender *next;
	unsigned char port[PY_ID_BYTES];
	int sock; /* -1: not connected. Used by the thread that delivers */
	bool gone;
	size_t token_count, token_room;
	uint64_t *tokens;
};

enum outcome { SENT, LATER, GONE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, delivery = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t noted = PTHREAD_COND_INITIALIZER;
static struct sender *senders;  /* new ones first */
static size_t pending_count;    /* tokens of all of them */
static bool started, is_left;   /* the thread; it waits for `noted`, until something is left for it */
static char folder[PATH_BYTES]; /* the library's runtime directory, where ports are; empty: not known */

/* ---- Sending ---- */

/* A connection to the sender's port. */
static enum outcome connect_to(struct sender *sender)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int directory = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), length;
	enum outcome outcome;
	struct stat found;

	if (directory < 0)
		return errno == ENOENT ? GONE : LATER;
	length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/python-", directory);
	for (int i = 0; i < PY_ID_BYTES; i++)
		length += snprintf(address.sun_path + length, 3, "%02x", sender->port[i]);
	sender->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	outcome = sender->sock < 0                                           ? LATER
		  : fstat(directory, &found) || found.st_uid != getuid()     ? GONE
		  : !connect(sender->sock, (void *)&address, sizeof address) ? SENT
		  : errno == EAGAIN || errno == EINTR                        ? LATER
									     : GONE;
	close(directory);
	if (outcome != SENT && sender->sock >= 0) {
		close(sender->sock);
		sender->sock = -1;
	}
	return outcome;
}

/* A message, over the connection that there is, or over a new one: a sender with many of them closes the oldest. */
static enum outcome send_to(struct sender *sender, const void *message, size_t bytes)
{
	for (int i = 0; i < 2; i++) {
		bool fresh = sender->sock < 0;
		enum outcome outcome = fresh ? connect_to(sender) : SENT;
		if (outcome != SENT)
			return outcome;
		if (send(sender->sock, message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return SENT;
		if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM)
			return LATER;
		close(sender->sock);
		sender->sock = -1;
		if (fresh)
			break;
	}
	return GONE;
}

/* How many tokens are now in the message. They stay noted until they are sent. */
static size_t read_tokens(const struct sender *sender, unsigned char *message)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = sender->token_count < MESSAGE_TOKENS_MAX ? sender->token_count : MESSAGE_TOKENS_MAX;
	memcpy(message, sender->tokens, count * sizeof *sender->tokens);
	pthread_mutex_unlock(&lock);
	return count;
}

/* The first `count` tokens are done; all of them, if the sender has ended. */
static void drop_tokens(struct sender *sender, size_t count, bool gone)
{
	pthread_mutex_lock(&lock);
	count = gone ? sender->token_count : count;
	sender->gone = gone;
	sender->token_count -= count;
	pending_count -= count;
	memmove(sender->tokens, sender->tokens + count, sender->token_count * sizeof *sender->tokens);
	pthread_mutex_unlock(&lock);
}

/* All that is noted for a sender. Returns whether something is left for later. */
static bool deliver_to(struct sender *sender)
{
	unsigned char message[1 + MESSAGE_TOKENS_MAX * sizeof(uint64_t)];
	enum outcome outcome = SENT;
	size_t count;

	message[0] = 'H'; /* _keeper.HAVE */
	while (outcome == SENT && (count = read_tokens(sender, message + 1)) > 0) {
		outcome = send_to(sender, message, 1 + count * sizeof(uint64_t));
		if (outcome != LATER)
			drop_tokens(sender, count, outcome == GONE);
	}
	return outcome == LATER;
}

/* ---- The list ---- */

static void sender_free(struct sender *sender)
{
	if (sender->sock >= 0)
		close(sender->sock);
	free(sender->tokens);
	free(sender);
}

static bool has_hung_up(const struct sender *sender)
{
	struct pollfd look = {.fd = sender->sock};

	return sender->sock >= 0 && poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR));
}

/* Forget the senders that have ended, and the oldest if there are too many. */
static void sweep(void)
{
	struct sender *removed = NULL, **place = &senders;
	size_t count = 0;

	pthread_mutex_lock(&lock);
	while (*place) {
		struct sender *sender = *place;
		bool idle = sender->token_count == 0;
		if ((idle && (sender->gone || has_hung_up(sender))) || count == SENDERS_MAX) {
			pending_count -= sender->token_count;
			*place = sender->next;
			sender->next = removed;
			removed = sender;
		} else {
			place = &sender->next;
			count++;
		}
	}
	pthread_mutex_unlock(&lock);
	while (removed) {
		struct sender *next = removed->next;
		sender_free(removed);
		removed = next;
	}
}

/* Everything that is noted. Returns whether something is left for later. */
static bool deliver(void)
{
	struct sender *first;
	bool left = false, is_new = false;

	pthread_mutex_lock(&delivery);
	pthread_mutex_lock(&lock);
	first = senders;
	pthread_mutex_unlock(&lock);
	for (struct sender *sender = first; sender; sender = sender->next) {
		is_new |= sender->sock < 0;
		left |= deliver_to(sender);
	}
	if (is_new)
		sweep();
	pthread_mutex_unlock(&delivery);
	return left;
}

/* Under the lock. */
static struct sender *find(const unsigned char *port)
{
	struct sender *sender = senders;

	while (sender && memcmp(sender->port, port, PY_ID_BYTES) != 0)
		sender = sender->next;
	if (!sender) {
		sender = calloc(1, sizeof *sender);
		if (!sender)
			return NULL;
		memcpy(sender->port, port, PY_ID_BYTES);
		sender->sock = -1;
		sender->next = senders;
		senders = sender;
	}
	return sender;
}

/* Under the lock. Returns the sender; NULL: the token is dropped. */
static struct sender *note(const unsigned char *port, uint64_t token)
{
	struct sender *sender = find(port);

	if (!sender || sender->token_count == TOKENS_MAX)
		return NULL;
	if (sender->token_count == sender->token_room) {
		size_t room = sender->token_room ? 2 * sender->token_room : TOKENS_FIRST;
		uint64_t *tokens = realloc(sender->tokens, room * sizeof *tokens);
		if (!tokens)
			return NULL;
		sender->tokens = tokens;
		sender->token_room = room;
	}
	sender->tokens[sender->token_count++] = token;
	sender->gone = false;
	pending_count++;
	return sender;
}

/* ---- The thread ---- */

/* Until something is left for later; or, if something is left, until it is to be tried again. */
static void wait_for_notes(bool left, long retry_ns)
{
	const struct timespec rest = {.tv_nsec = retry_ns};

	if (left) {
		nanosleep(&rest, NULL);
		return;
	}
	pthread_mutex_lock(&lock);
	while (!is_left)
		pthread_cond_wait(&noted, &lock);
	is_left = false;
	pthread_mutex_unlock(&lock);
}

static void *run(void *Py_UNUSED(unused))
{
	long retry_ns = RETRY_NS;
	bool left = false;

	for (;;) {
		wait_for_notes(left, retry_ns);
		left = deliver();
		retry_ns = !left ? RETRY_NS : retry_ns < RETRY_MAX_NS / 2 ? 2 * retry_ns : RETRY_MAX_NS;
	}
	return NULL;
}

/* Have the thread send what is left. If there can be none, the next token that is told sends it. */
static void leave_to_thread(void)
{
	sigset_t all, before;
	pthread_t thread;

	pthread_mutex_lock(&lock);
	is_left = true;
	if (!started) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		started = pthread_create(&thread, NULL, run, NULL) == 0;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (started) {
			pthread_detach(thread);
			pthread_setname_np(thread, "cenote-teller");
		}
	}
	pthread_cond_signal(&noted);
	pthread_mutex_unlock(&lock);
}

bool py_tell(const unsigned char *port, uint64_t token)
{
	struct sender *sender;
	bool is_new, left;

	if (!*folder)
		return false;
	pthread_mutex_lock(&delivery);
	pthread_mutex_lock(&lock);
	sender = note(port, token);
	is_new = sender && sender->sock < 0;
	pthread_mutex_unlock(&lock);
	left = sender && deliver_to(sender);
	if (is_new)
		sweep();
	pthread_mutex_unlock(&delivery);
	if (left)
		leave_to_thread();
	return true;
}

/* ---- For Python ---- */

PyObject *py_tell_method(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	unsigned long long token;
	const char *port;
	Py_ssize_t bytes;

	if (!PyArg_ParseTuple(arguments, "y#K:tell", &port, &bytes, &token))
		return NULL;
	if (bytes != PY_ID_BYTES) {
		PyErr_SetString(PyExc_ValueError, "a port's number has 16 bytes");
		return NULL;
	}
	return PyBool_FromLong(py_tell((const unsigned char *)port, token));
}

PyObject *py_tell_open(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	PyObject *path;
	size_t bytes;

	if (!PyArg_ParseTuple(arguments, "O&:tell_open", PyUnicode_FSConverter, &path))
		return NULL;
	bytes = (size_t)PyBytes_Size(path) + 1;
	if (bytes <= sizeof folder) { /* the system knows no longer ones either */
		Py_BEGIN_ALLOW_THREADS
		pthread_mutex_lock(&delivery);
		memcpy(folder, PyBytes_AsString(path), bytes);
		pthread_mutex_unlock(&delivery);
		Py_END_ALLOW_THREADS
	}
	Py_DECREF(path);
	Py_RETURN_NONE;
}

PyObject *py_tell_flush(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	Py_BEGIN_ALLOW_THREADS
	deliver();
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

PyObject *py_tell_reset(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&delivery, NULL);
	pthread_cond_init(&noted, NULL);
	while (senders) {
		struct sender *next = senders->next;
		sender_free(senders);
		senders = next;
	}
	pending_count = 0;
	started = is_left = false;
	Py_RETURN_NONE;
}
