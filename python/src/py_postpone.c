/* SPDX-License-Identifier: MIT */
/*
 * What goes away where CUDA may not be called.
 *
 * In a function of a stream (Stream.call(), or another library's) CUDA answers CUDA_ERROR_NOT_PERMITTED. The last
 * reference to an object may end there all the same, or a garbage collection find it. So a finaliser that gets this
 * answer postpones the object: without a reference, and not seen by anyone, it waits until its finaliser is called
 * again. That is done by the next allocation, before statistics are read, and by the main thread when a function of
 * Stream.call() has returned.
 */
#include "py.h"

#include <stdlib.h>

struct py_postponed {
	struct py_postponed *next;
	PyObject *object;
};
struct py_postponed *py_postponed;

bool py_postpone(PyObject *object)
{
	struct py_postponed *one = malloc(sizeof *one);

	if (!one)
		return false;
	*one = (struct py_postponed){.next = py_postponed, .object = object};
	py_postponed = one;
	return true;
}

void py_free_postponed_now(void)
{
	struct py_postponed *list = py_postponed;

	py_postponed = NULL; /* where CUDA still may not be called, the finalisers make a new list */
	while (list) {
		struct py_postponed *one = list;
		destructor finalise = (destructor)PyType_GetSlot(Py_TYPE(one->object), Py_tp_dealloc);
		list = one->next;
		finalise(one->object);
		free(one);
	}
}

static int free_postponed(void *Py_UNUSED(unused))
{
	py_free_postponed();
	return 0;
}

void py_free_postponed_soon(void)
{
	if (py_postponed)
		Py_AddPendingCall(free_postponed, NULL); /* if the queue is full, the next allocation does it */
}
