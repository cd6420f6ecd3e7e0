/* SPDX-License-Identifier: MIT */
/*
 * What Python's code opens by itself, each as a Descriptor (py_descriptor.c): what os.open() and os.eventfd() return
 * would be lost, and stay open, if a signal's handler raised an exception right after them.
 */
#include "py.h"

#include <fcntl.h>
#include <sys/eventfd.h>

PyObject *py_open_folder(PyObject *Py_UNUSED(module), PyObject *argument)
{
	PyObject *path;
	int number;

	if (!PyUnicode_FSConverter(argument, &path))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	number = open(PyBytes_AsString(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	Py_END_ALLOW_THREADS
	Py_DECREF(path);
	return number < 0 ? PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, argument) : py_descriptor_new(number);
}

PyObject *py_open_eventfd(PyObject *Py_UNUSED(module), PyObject *count)
{
	unsigned long first = PyLong_AsUnsignedLong(count);
	int number;

	if (PyErr_Occurred())
		return NULL;
	number = eventfd((unsigned)first, EFD_NONBLOCK | EFD_CLOEXEC);
	return number < 0 ? PyErr_SetFromErrno(PyExc_OSError) : py_descriptor_new(number);
}
