/* SPDX-License-Identifier: MIT */
/*
 * What is on its way: each Hold under its token, and the channels that carry the messages.
 *
 * A Hold stays here until it is let go: by its token, which the receiver tells; by the end of its channel, when the
 * system says that nobody else has it open; or when its message was read so long ago that nobody will tell of it. The
 * last is rare, and takes long: a reader died with it, and others have the channel open. That a message was read is
 * known when no more of its channel is unread than what this process wrote behind it.
 * cenote/_keeper.py has the thread that hears of all this, and says what is to be done.
 *
 * A channel is the pipe or socket of a Connection, or the sentinel of a process that begins with the message (a Popen
 * of multiprocessing's), or a pipe for one message, whose other end travels with it. The descriptor is our own: the
 * program may close its one at any time. As long as a message is on its way, a reader sees no end of the channel; and
 * it reads the message before the end. A channel goes with its last Hold.
 *
 * The GIL is the lock of all this: what calls Python, or a finaliser, is done when the tables are whole, so no other
 * thread, signal handler or finaliser finds them otherwise.
 */
#include "py.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct py_channel {
	struct py_channel *next;
	PyObject *carrier;      /* the Connection or Popen; NULL: a pipe for one message */
	bool is_connection;     /* bytes that are unread can be asked for */
	uint32_t end;           /* the events that say that nobody else has it open */
	int descriptor, writer; /* the other end of that pipe, until the message is sent; else -1 */
	struct py_hold *first;  /* NULL only while it is made */
	uint64_t written_bytes; /* by this process since then, as far as it was counted */
};

static struct py_channel *channels;
static PyObject *kept;                          /* {token: Hold} */
static int waiting = -1, wake = -1, empty = -1; /* the keeper's epoll and two eventfds; all its own */
static bool is_resting;                         /* the keeper waits for no time: `wake` wakes it */

/* ---- Channels ---- */

static struct py_channel *channel_of(int descriptor)
{
	struct py_channel *channel = channels;

	while (channel && channel->descriptor != descriptor)
		channel = channel->next;
	return channel;
}

static struct py_channel *channel_for(const PyObject *carrier)
{
	struct py_channel *channel = channels;

	while (channel && channel->carrier != carrier)
		channel = channel->next;
	return channel;
}

static int domain_of(int descriptor)
{
	int domain;
	socklen_t size = sizeof domain;

	return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) ? -1 : domain;
}

/* Takes over the descriptors. NULL: errno says why not. */
static struct py_channel *make_channel(PyObject *carrier, int descriptor, int writer)
{
	int domain = domain_of(descriptor), error;
	bool is_tcp = domain == AF_INET || domain == AF_INET6;
	struct epoll_event event = {.data.fd = descriptor,
				    .events = is_tcp ? EPOLLRDHUP : 0}; /* no HUP is heard of it */
	struct py_channel *channel = malloc(sizeof *channel);

	if (channel && !epoll_ctl(waiting, EPOLL_CTL_ADD, descriptor, &event)) {
		Py_XINCREF(carrier);
		*channel = (struct py_channel){.next = channels,
					       .carrier = carrier,
					       .descriptor = descriptor,
					       .writer = writer,
					       .end = event.events | EPOLLHUP | EPOLLERR};
		channels = channel;
		return channel;
	}
	error = errno;
	free(channel);
	close(descriptor);
	if (writer >= 0)
		close(writer);
	errno = error;
	return NULL;
}

/* The channel of a Connection or Popen with this descriptor. NULL: errno says why not. */
static struct py_channel *channel_by(PyObject *carrier, int descriptor, bool is_connection)
{
	struct py_channel *channel = channel_for(carrier);

	if (channel)
		return channel;
	descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	channel = descriptor < 0 ? NULL : make_channel(carrier, descriptor, -1);
	if (channel)
		channel->is_connection = is_connection;
	return channel;
}

/* The carrier's reference is the caller's then. */
static void close_channel(struct py_channel *channel)
{
	struct py_channel **place = &channels;

	while (*place != channel)
		place = &(*place)->next;
	*place = channel->next;
	epoll_ctl(waiting, EPOLL_CTL_DEL, channel->descriptor, NULL); /* the file is open elsewhere, too */
	close(channel->descriptor);
	if (channel->writer >= 0)
		close(channel->writer);
	free(channel);
}

/* Whether nobody else has it open. Asked again, because the number may have been another's when epoll said so. */
static bool is_hung_up(const struct py_channel *channel)
{
	struct pollfd file = {.fd = channel->descriptor, .events = POLLRDHUP};

	return poll(&file, 1, 0) == 1 && (uint32_t)file.revents & channel->end; /* the same bits as epoll's */
}

/* How many bytes are unread, or less than so many; UINT64_MAX: it is not known. */
static uint64_t unread_bytes(const struct py_channel *channel)
{
	bool known = false;
	struct stat facts;
	int unread = 0;

	if (!channel->is_connection || fstat(channel->descriptor, &facts))
		return UINT64_MAX;
	if (S_ISFIFO(facts.st_mode))
		known = !ioctl(channel->descriptor, FIONREAD, &unread);
	else if (S_ISSOCK(facts.st_mode) && domain_of(channel->descriptor) == AF_UNIX) /* not in another machine */
		known = !ioctl(channel->descriptor, TIOCOUTQ, &unread); /* with what the system needs for them */
	return known && unread >= 0 ? (uint64_t)unread : UINT64_MAX;
}

/* ---- In and out ---- */

static struct py_hold *find(uint64_t token)
{
	PyObject *key = PyLong_FromUnsignedLongLong(token), *found = NULL;

	if (key)
		found = PyDict_GetItemWithError(kept, key);
	Py_XDECREF(key);
	PyErr_Clear();
	return (struct py_hold *)found;
}

static void link_to(struct py_channel *channel, struct py_hold *hold)
{
	hold->channel = channel;
	hold->next = channel->first;
	if (hold->next)
		hold->next->previous = hold;
	channel->first = hold;
}

/* Out of its channel, which may end with that; then it has the channel's carrier until it goes itself. */
static void unlink_from_channel(struct py_hold *hold)
{
	struct py_channel *channel = hold->channel;

	if (!channel)
		return;
	if (hold->next)
		hold->next->previous = hold->previous;
	if (hold->previous)
		hold->previous->next = hold->next;
	else
		channel->first = hold->next;
	hold->channel = NULL;
	hold->next = hold->previous = NULL;
	if (!channel->first) {
		hold->carrier = channel->carrier;
		close_channel(channel);
	}
}

/* Under its token, and in the channel if that is not NULL. Returns 0, or -1 with an exception set. */
static int put_in(struct py_hold *hold, uint64_t token, struct py_channel *channel)
{
	PyObject *key = PyLong_FromUnsignedLongLong(token), *carrier = NULL;
	bool is_new = !hold->token && token && !find(token);
	int failed = is_new && key ? PyDict_SetItem(kept, key, (PyObject *)hold) : -1;
	eventfd_t count;

	Py_XDECREF(key);
	if (failed) {
		if (!key)
			PyErr_NoMemory(); /* find() has cleared it */
		else if (!is_new)
			PyErr_SetString(PyExc_ValueError, "a Hold is kept once, and one under each token but 0");
		if (channel && !channel->first) {
			carrier = channel->carrier;
			close_channel(channel);
		}
		Py_XDECREF(carrier);
		return -1;
	}
	hold->token = token;
	if (channel)
		link_to(channel, hold);
	if (PyDict_Size(kept) == 1)
		eventfd_read(empty, &count);
	if (is_resting) {
		is_resting = false;
		eventfd_write(wake, 1);
	}
	return 0;
}

/* Returns the reference; the tables are whole then. NULL: nothing is kept under this token. */
static struct py_hold *take_out(uint64_t token)
{
	struct py_hold *hold = find(token);
	PyObject *key = hold ? PyLong_FromUnsignedLongLong(token) : NULL;

	if (!key) {
		PyErr_Clear();
		return NULL;
	}
	Py_INCREF((PyObject *)hold);
	PyDict_DelItem(kept, key);
	Py_DECREF(key);
	unlink_from_channel(hold);
	if (!PyDict_Size(kept))
		eventfd_write(empty, 1);
	return hold;
}

/* Take out those of a channel that were seen read so many looks ago; 0: all. Returns the list for release(). */
static struct py_hold *take_out_of(struct py_channel *channel, unsigned long look_count, struct py_hold *list)
{
	struct py_hold *hold = channel->first, *next;

	for (; hold; hold = next) { /* with the last one, the channel is gone */
		next = hold->next;
		if ((look_count && (!hold->is_read || hold->look_count < look_count)) || !take_out(hold->token))
			continue;
		hold->next = list;
		list = hold;
	}
	return list;
}

/* Once in a look: which messages of a channel were read? */
static void look_at(const struct py_channel *channel)
{
	uint64_t unread = unread_bytes(channel);

	for (struct py_hold *hold = channel->first; hold; hold = hold->next)
		if (hold->is_read)
			hold->look_count++;
		else
			hold->is_read = hold->is_written && channel->written_bytes - hold->written_bytes >= unread;
}

static void release(struct py_hold *list)
{
	while (list) {
		struct py_hold *hold = list;
		list = hold->next;
		hold->next = NULL;
		Py_DECREF((PyObject *)hold);
	}
}

/* ---- What the keeper asks for ---- */

PyObject *py_keep_begin(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	if (!PyArg_ParseTuple(arguments, "iii", &waiting, &wake, &empty))
		return NULL;
	Py_RETURN_NONE;
}

PyObject *py_keep(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	struct py_channel *channel = NULL;
	PyObject *hold, *connection;
	unsigned long long token;
	int descriptor;

	if (!PyArg_ParseTuple(arguments, "O!O&Oi", py_hold_type, &hold, py_read_number, &token, &connection,
			      &descriptor))
		return NULL;
	if (connection != Py_None) {
		channel = channel_by(connection, descriptor, true);
		if (!channel && errno != EPERM) /* a plain file has no end */
			return PyErr_SetFromErrno(PyExc_OSError);
	}
	return put_in((struct py_hold *)hold, token, channel) ? NULL : (Py_INCREF(Py_None), Py_None);
}

PyObject *py_keep_travelling(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	struct py_channel *channel;
	unsigned long long token;
	PyObject *hold;
	int ends[2];

	if (!PyArg_ParseTuple(arguments, "O!O&", py_hold_type, &hold, py_read_number, &token))
		return NULL;
	channel = pipe2(ends, O_CLOEXEC) ? NULL : make_channel(NULL, ends[0], ends[1]);
	if (!channel)
		return PyErr_SetFromErrno(PyExc_OSError);
	return put_in((struct py_hold *)hold, token, channel) ? NULL : PyLong_FromLong(ends[1]);
}

PyObject *py_keep_sent(PyObject *Py_UNUSED(module), PyObject *token)
{
	unsigned long long number = PyLong_AsUnsignedLongLong(token);
	struct py_hold *hold;

	if (PyErr_Occurred())
		return NULL;
	hold = find(number);
	if (hold && hold->channel && hold->channel->writer >= 0) {
		close(hold->channel->writer);
		hold->channel->writer = -1;
	}
	Py_RETURN_NONE;
}

PyObject *py_keep_attach(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	struct py_channel *channel;
	unsigned long long token;
	struct py_hold *hold;
	PyObject *popen;
	int sentinel;

	if (!PyArg_ParseTuple(arguments, "O&Oi", py_read_number, &token, &popen, &sentinel))
		return NULL;
	hold = find(token);
	if (!hold || hold->channel)
		return PyBool_FromLong(hold != NULL);
	channel = channel_by(popen, sentinel, false);
	if (!channel)
		return PyErr_SetFromErrno(PyExc_OSError);
	link_to(channel, hold);
	Py_RETURN_TRUE;
}

PyObject *py_keep_written(PyObject *Py_UNUSED(module), PyObject *const *values, Py_ssize_t value_count)
{
	PyObject *tokens = value_count == 3 ? values[0] : NULL;
	struct py_channel *channel;
	unsigned long long bytes;
	Py_ssize_t count;

	if (!tokens || !(tokens == Py_None || PyList_Check(tokens))) {
		PyErr_SetString(PyExc_TypeError, "keep_written([token, ...] or None, connection, nbytes)");
		return NULL;
	}
	channel = channels ? channel_for(values[1]) : NULL;
	if (channel) {
		if (!py_read_number(values[2], &bytes))
			return NULL;
		channel->written_bytes += bytes;
	}
	if (tokens == Py_None)
		Py_RETURN_NONE;
	count = PyList_Size(tokens);
	for (Py_ssize_t i = 0; i < count; i++) {
		struct py_hold *hold = find(PyLong_AsUnsignedLongLong(PyList_GetItem(tokens, i)));
		if (!hold || hold->is_written)
			continue;
		hold->is_written = true;
		hold->written_bytes = hold->channel ? hold->channel->written_bytes : 0;
	}
	/* Here, and not in Python: a signal's handler comes before the call or after it. */
	return PyList_SetSlice(tokens, 0, count, NULL) ? NULL : (Py_INCREF(Py_None), Py_None);
}

PyObject *py_keep_let_go(PyObject *Py_UNUSED(module), PyObject *tokens)
{
	struct py_hold *gone = NULL;
	Py_ssize_t length;
	char *bytes;

	if (PyBytes_AsStringAndSize(tokens, &bytes, &length))
		return NULL;
	for (; length >= (Py_ssize_t)sizeof(uint64_t); length -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
		struct py_hold *hold;
		uint64_t token;
		memcpy(&token, bytes, sizeof token);
		hold = take_out(token);
		if (hold) {
			hold->next = gone;
			gone = hold;
		}
	}
	release(gone);
	Py_RETURN_NONE;
}

PyObject *py_keep_hung_up(PyObject *Py_UNUSED(module), PyObject *number)
{
	int descriptor = PyLong_AsLong(number);
	struct py_channel *channel;

	if (PyErr_Occurred())
		return NULL;
	channel = channel_of(descriptor);
	if (channel && is_hung_up(channel))
		release(take_out_of(channel, 0, NULL));
	Py_RETURN_NONE;
}

PyObject *py_keep_look(PyObject *Py_UNUSED(module), PyObject *often)
{
	unsigned long look_count = PyLong_AsUnsignedLong(often);
	struct py_hold *gone = NULL;
	struct py_channel *channel, *next;

	if (PyErr_Occurred())
		return NULL;
	for (channel = channels; channel; channel = next) {
		next = channel->next;
		look_at(channel);
		gone = take_out_of(channel, look_count, gone);
	}
	is_resting = PyDict_Size(kept) == 0;
	release(gone);
	return PyBool_FromLong(is_resting);
}

PyObject *py_keep_thing(PyObject *Py_UNUSED(module), PyObject *token)
{
	unsigned long long number = PyLong_AsUnsignedLongLong(token);
	struct py_hold *hold;
	PyObject *thing;

	if (PyErr_Occurred())
		return NULL;
	hold = find(number);
	thing = hold ? hold->thing : Py_None;
	Py_INCREF(thing);
	return thing;
}

PyObject *py_keep_list(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	PyObject *list = PyDict_Values(kept);

	for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
		PyObject *thing = ((struct py_hold *)PyList_GetItem(list, i))->thing;
		Py_INCREF(thing);
		PyList_SetItem(list, i, thing); /* which drops the Hold */
	}
	return list;
}

PyObject *py_keep_reset(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	struct py_channel *channel, *list = channels;
	PyObject *old = kept, *fresh = PyDict_New();

	if (!fresh)
		return NULL;
	kept = fresh;
	channels = NULL;
	waiting = wake = empty = -1;
	is_resting = false;
	while ((channel = list)) {
		list = channel->next;
		close(channel->descriptor);
		if (channel->writer >= 0)
			close(channel->writer);
		Py_XDECREF(channel->carrier);
		free(channel);
	}
	Py_DECREF(old);
	Py_RETURN_NONE;
}

int py_keep_setup(PyObject *Py_UNUSED(module))
{
	kept = PyDict_New();
	return kept ? 0 : -1;
}
