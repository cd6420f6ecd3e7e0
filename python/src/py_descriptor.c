/* SPDX-License-Identifier: MIT */
/*
 * Descriptor: the number of an open file, which is closed with the object.
 *
 * A signal's handler may raise an exception right after any call, before what the call returned has a name. A bare
 * number would be lost then, and its file stay open. So what opens files for Python's code returns these objects.
 */
#include "py.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * As many descriptors as a message can have (the kernel's SCM_MAX_FD). Those that find no room are closed inside
 * recvmsg(), and a socket that lingers holds that up for as long as its sender likes.
 *
 * What the program has asked its socket for comes before them, and would take their room: who sends (SO_PASSCRED,
 * SO_PASSPIDFD), and a label (SO_PASSSEC).
 */
enum { RECEIVED_MAX = 253, LABEL_MAX = 4096, LENGTH_MAX = 1 << 20, SENDER_PIDFD = 4 /* SCM_PIDFD, since Linux 6.5 */ };

#define CONTROL_BYTES                                                                    \
	(CMSG_SPACE(3 * sizeof(int)) + CMSG_SPACE(sizeof(int)) + CMSG_SPACE(LABEL_MAX) + \
	 CMSG_SPACE(RECEIVED_MAX * sizeof(int)))

struct py_descriptor {
	PyObject_HEAD
	int number; /* -1: closed */
};

static PyTypeObject *descriptor_type;

PyObject *py_descriptor_new(int number)
{
	struct py_descriptor *self = (struct py_descriptor *)PyType_GenericAlloc(descriptor_type, 0);

	if (self)
		self->number = number;
	else
		close(number);
	return (PyObject *)self;
}

/* Without the GIL: it may be a file of another process's, and take long. */
static void close_file(struct py_descriptor *self)
{
	int number = self->number;

	self->number = -1;
	if (number < 0)
		return;
	Py_BEGIN_ALLOW_THREADS
	close(number);
	Py_END_ALLOW_THREADS
}

static PyObject *descriptor_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
	close_file((struct py_descriptor *)self);
	Py_RETURN_NONE;
}

static PyObject *descriptor_fileno(PyObject *self, PyObject *Py_UNUSED(unused))
{
	return PyLong_FromLong(((struct py_descriptor *)self)->number);
}

static void descriptor_free(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	close_file((struct py_descriptor *)object);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* ---- From other processes ---- */

/* The descriptor that the system made for the program, of the process that sends. It is negative if none was left. */
static void drop_pidfd(const struct cmsghdr *part)
{
	int number;

	if (part->cmsg_len < CMSG_LEN(sizeof number))
		return;
	memcpy(&number, CMSG_DATA(part), sizeof number);
	if (number >= 0)
		close(number);
}

/* All descriptors of a message, the ones that nobody asked for, too. NULL with an exception set: they are closed. */
static PyObject *take_descriptors(struct msghdr *message)
{
	PyObject *list = PyList_New(0);

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SENDER_PIDFD)
			drop_pidfd(part);
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
			PyObject *descriptor;
			int number;
			memcpy(&number, CMSG_DATA(part) + at, sizeof number);
			descriptor = py_descriptor_new(number);
			if (!descriptor || !list || PyList_Append(list, descriptor))
				Py_CLEAR(list);
			Py_XDECREF(descriptor);
		}
	}
	return list;
}

/* As recvmsg(). -1: errno says why not, or 0, and an exception is set. */
static ssize_t receive(int number, struct msghdr *message, int flags)
{
	for (;;) {
		ssize_t length;
		int error;
		Py_BEGIN_ALLOW_THREADS
		length = recvmsg(number, message, flags | MSG_CMSG_CLOEXEC);
		error = errno;
		Py_END_ALLOW_THREADS
		errno = error;
		if (length >= 0 || errno != EINTR)
			return length;
		if (PyErr_CheckSignals()) {
			errno = 0;
			return -1;
		}
	}
}

PyObject *py_receive(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	char control[CONTROL_BYTES] __attribute__((aligned(sizeof(size_t))));
	PyObject *list = NULL, *result = NULL;
	unsigned length_max;
	struct msghdr message = {0};
	struct iovec content;
	ssize_t length;
	int number, flags;

	if (!PyArg_ParseTuple(arguments, "iIi", &number, &length_max, &flags))
		return NULL;
	if (length_max > LENGTH_MAX) {
		PyErr_SetString(PyExc_ValueError, "receive(): a message is shorter");
		return NULL;
	}
	content = (struct iovec){malloc(length_max + 1), length_max};
	if (!content.iov_base)
		return PyErr_NoMemory();
	message.msg_iov = &content;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof control;
	length = receive(number, &message, flags);
	if (length >= 0)
		list = take_descriptors(&message);
	else if (errno)
		PyErr_SetFromErrno(PyExc_OSError);
	if (list)
		result = Py_BuildValue("y#Ni", content.iov_base, (Py_ssize_t)length, list, message.msg_flags);
	free(content.iov_base);
	return result;
}

PyObject *py_socket_of(PyObject *Py_UNUSED(module), PyObject *number)
{
	int descriptor = PyLong_AsLong(number), copy;
	PyObject *module, *made;

	if (PyErr_Occurred())
		return NULL;
	module = PyImport_ImportModule("_socket"); /* what Python calls a socket would run code of Python's */
	copy = module ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
	/* Its own type is asked for later. This one keeps Python from making the program's socket one that does not
	   wait, as it does if socket.setdefaulttimeout() was called. */
	made = copy < 0 ? NULL
			: PyObject_CallMethod(module, "socket", "iiii", -1, SOCK_STREAM | SOCK_NONBLOCK, -1, copy);
	if (module && copy < 0)
		PyErr_SetFromErrno(PyExc_OSError);
	if (!made && copy >= 0)
		close(copy);
	Py_XDECREF(module);
	return made;
}

/* ---- The type ---- */

static PyMethodDef descriptor_methods[] = {
	{"fileno", descriptor_fileno, METH_NOARGS, "fileno($self, /)\n--\n\nThe number; -1: it is closed."},
	{"close", descriptor_close, METH_NOARGS, "close($self, /)\n--\n\nClose the file, without the GIL."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot descriptor_slots[] = {
	{Py_tp_doc, (void *)"The number of an open file, which is closed with this object."},
	{Py_tp_dealloc, descriptor_free},
	{Py_tp_methods, descriptor_methods},
	{0, NULL},
};

static PyType_Spec descriptor_spec = {
	.name = "cenote.Descriptor",
	.basicsize = sizeof(struct py_descriptor),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = descriptor_slots,
};

int py_descriptor_setup(PyObject *module)
{
	descriptor_type = (PyTypeObject *)PyType_FromSpec(&descriptor_spec);
	return descriptor_type ? PyModule_AddType(module, descriptor_type) : -1;
}
