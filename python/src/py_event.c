/* SPDX-License-Identifier: MIT */
/*
 * Event: a point in a stream, which other streams and other processes can wait for.
 */
#include "py.h"

#include <string.h>

PyTypeObject *py_event_type;

static PyObject *event_new(CUevent handle, int device, bool interprocess, bool timing, bool opened)
{
	struct py_event *self = (struct py_event *)PyType_GenericAlloc(py_event_type, 0);

	if (!self) {
		py_cu.cuEventDestroy(handle);
		return NULL;
	}
	self->handle = handle;
	self->device = device;
	self->interprocess = interprocess;
	self->timing = timing;
	self->opened = opened;
	return (PyObject *)self;
}

static PyObject *event_make(PyTypeObject *Py_UNUSED(type), PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"interprocess", (char *)"timing", (char *)"device", NULL};
	PyObject *device_object = NULL;
	int interprocess = 1, timing = 0, device;
	unsigned int flags;
	struct py_context context;
	CUevent handle;
	CUresult result;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|ppO:Event", names, &interprocess, &timing,
					 &device_object))
		return NULL;
	if (interprocess && timing) {
		PyErr_SetString(PyExc_ValueError, "an event between processes has no timing: Event(interprocess=False, "
						  "timing=True)");
		return NULL;
	}
	device = py_device_from(device_object);
	if (device < 0)
		return NULL;
	flags = (interprocess ? CU_EVENT_INTERPROCESS : 0) | (timing ? 0 : CU_EVENT_DISABLE_TIMING);
	result = py_context_enter(device, &context);
	if (!result) {
		result = py_cu.cuEventCreate(&handle, flags);
		py_context_leave(&context);
	}
	return result ? py_raise(result) : event_new(handle, device, interprocess, timing, false);
}

/* Unless it is on its way to another process (py_hold.c). */
static void destroy_closed(struct py_event *self)
{
	if (!self->closed || !self->handle || self->hold_count)
		return;
	py_cu.cuEventDestroy(self->handle);
	self->handle = NULL;
}

void py_event_let_go(struct py_event *event)
{
	event->hold_count--;
	destroy_closed(event);
}

static void event_free(PyObject *object)
{
	struct py_event *self = (struct py_event *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	self->closed = true;
	destroy_closed(self);
	PyObject_Free(object);
	Py_DECREF(type);
}

bool py_event_check(const struct py_event *event)
{
	if (event->closed)
		PyErr_SetString(PyExc_ValueError, "the event is closed");
	return !event->closed;
}

static struct py_event *live_event(PyObject *object)
{
	return py_event_check((struct py_event *)object) ? (struct py_event *)object : NULL;
}

static PyObject *event_record(PyObject *object, PyObject *arguments)
{
	struct py_event *self = (struct py_event *)object;
	PyObject *stream_object = NULL;
	struct py_context context;
	struct py_stream *stream;
	CUresult result;

	if (!PyArg_ParseTuple(arguments, "|O:record", &stream_object))
		return NULL;
	stream = py_stream_from(stream_object, self->device);
	if (!stream || !live_event(object)) { /* the stream's own code may have closed it */
		Py_XDECREF((PyObject *)stream);
		return NULL;
	}
	result = py_context_enter(self->device, &context);
	if (!result) {
		result = py_cu.cuEventRecord(self->handle, stream->handle);
		py_context_leave(&context);
	}
	Py_DECREF((PyObject *)stream);
	return py_none_or_raise(result);
}

static PyObject *event_synchronize(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_event *self = live_event(object);
	CUevent event = self ? self->handle : NULL; /* meanwhile another thread may close it */
	struct py_context context;
	CUresult result;

	if (!self)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(self->device, &context);
	if (!result) {
		result = py_cu.cuEventSynchronize(event);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	return py_none_or_raise(result);
}

static PyObject *event_since(PyObject *object, PyObject *earlier)
{
	struct py_event *self = live_event(object), *begin;
	float milliseconds;
	CUresult result;

	if (!self)
		return NULL;
	if (!PyObject_TypeCheck(earlier, py_event_type)) {
		PyErr_SetString(PyExc_TypeError, "since() needs an Event");
		return NULL;
	}
	begin = live_event(earlier);
	if (!begin)
		return NULL;
	result = py_cu.cuEventElapsedTime(&milliseconds, begin->handle, self->handle);
	return result ? py_raise(result) : PyFloat_FromDouble((double)milliseconds / 1000);
}

static PyObject *get_done(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_event *self = live_event(object);
	CUresult result;

	if (!self)
		return NULL;
	result = py_cu.cuEventQuery(self->handle);
	if (result && result != CUDA_ERROR_NOT_READY)
		return py_raise(result);
	return PyBool_FromLong(!result);
}

int py_event_name(const struct py_event *event, CUipcEventHandle *ret_name)
{
	struct py_context context;
	CUresult result;

	if (!py_event_check(event))
		return -1;
	result = py_context_enter(event->device, &context);
	if (!result) {
		result = py_cu.cuIpcGetEventHandle(ret_name, event->handle);
		py_context_leave(&context);
	}
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

static PyObject *get_name(PyObject *object, void *Py_UNUSED(closure))
{
	CUipcEventHandle name;

	if (py_event_name((const struct py_event *)object, &name))
		return NULL;
	return PyBytes_FromStringAndSize((const char *)&name, sizeof name);
}

static PyObject *event_open(PyObject *Py_UNUSED(type), PyObject *arguments)
{
	PyObject *device_object = NULL;
	struct py_context context;
	CUipcEventHandle name;
	Py_ssize_t bytes_count;
	const char *bytes;
	CUresult result;
	CUevent handle;
	int device;

	if (!PyArg_ParseTuple(arguments, "y#|O:open", &bytes, &bytes_count, &device_object))
		return NULL;
	if (bytes_count != sizeof name) {
		PyErr_Format(PyExc_ValueError, "an event's name has 64 bytes, not %zd", bytes_count);
		return NULL;
	}
	device = py_device_from(device_object);
	if (device < 0)
		return NULL;
	memcpy(&name, bytes, sizeof name);
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(device, &context);
	if (!result) {
		result = py_cu.cuIpcOpenEventHandle(&handle, name);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	return result ? py_raise(result) : event_new(handle, device, true, false, true);
}

static PyObject *get_handle(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromVoidPtr(((struct py_event *)self)->handle);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
	return py_device_new(((struct py_event *)self)->device);
}

static PyObject *get_interprocess(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_event *)self)->interprocess);
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_event *)self)->closed);
}

static PyObject *event_close(PyObject *object, PyObject *Py_UNUSED(arguments))
{
	struct py_event *self = (struct py_event *)object;

	self->closed = true;
	destroy_closed(self);
	Py_RETURN_NONE;
}

static PyObject *event_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	Py_INCREF(self);
	return self;
}

static PyObject *event_repr(PyObject *object)
{
	struct py_event *self = (struct py_event *)object;

	if (self->closed)
		return PyUnicode_FromString("<cenote.Event, closed>");
	return PyUnicode_FromFormat("<cenote.Event %p of device %d%s%s>", self->handle, self->device,
				    self->opened         ? ", another process's"
				    : self->interprocess ? ", for processes"
							 : "",
				    self->timing ? ", with time" : "");
}

static PyObject *event_compare(PyObject *self, PyObject *other, int operation)
{
	bool same;

	if (!PyObject_TypeCheck(other, py_event_type) || (operation != Py_EQ && operation != Py_NE))
		Py_RETURN_NOTIMPLEMENTED;
	same = self == other || (!((struct py_event *)self)->closed && !((struct py_event *)other)->closed &&
				 ((struct py_event *)self)->handle == ((struct py_event *)other)->handle);
	return PyBool_FromLong(same == (operation == Py_EQ));
}

/* By the object, because a closed event has no handle and must keep its hash. */
static Py_hash_t event_hash(PyObject *self)
{
	return (Py_hash_t)((uintptr_t)self >> 4);
}

static PyGetSetDef event_fields[] = {
	{"handle", get_handle, NULL, "CUDA's handle, an integer.", NULL},
	{"device", get_device, NULL, "The event's device.", NULL},
	{"interprocess", get_interprocess, NULL, "Whether other processes can open it.", NULL},
	{"name", get_name, NULL, "64 bytes by which another process of the same user opens it: Event.open(name).",
	 NULL},
	{"done", get_done, NULL, "Whether the work before its latest record is done. Does not wait.", NULL},
	{"closed", get_closed, NULL, "Whether it was closed.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef event_methods[] = {
	{"record", event_record, METH_VARARGS,
	 "record($self, stream=None, /)\n--\n\nThe event now stands behind all that the stream has."},
	{"synchronize", event_synchronize, METH_NOARGS, "synchronize($self, /)\n--\n\nWait for its latest record."},
	{"since", event_since, METH_O,
	 "since($self, earlier, /)\n--\n\nSeconds between two events that were made with timing=True."},
	{"open", event_open, METH_VARARGS | METH_CLASS,
	 "open($type, name, device=0, /)\n--\n\nOpen another process's event by its name."},
	{"close", event_close, METH_NOARGS, "close($self, /)\n--\n\nDestroy the event. Waits for it go on."},
	{"__enter__", event_enter, METH_NOARGS, NULL},
	{"__exit__", event_close, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef event_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_event, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot event_slots[] = {
	{Py_tp_doc, (void *)"Event(interprocess=True, timing=False, device=0)\n--\n\nA point in a stream."},
	{Py_tp_new, event_make},
	{Py_tp_dealloc, event_free},
	{Py_tp_repr, event_repr},
	{Py_tp_richcompare, event_compare},
	{Py_tp_hash, event_hash},
	{Py_tp_getset, event_fields},
	{Py_tp_methods, event_methods},
	{Py_tp_members, event_members},
	{0, NULL},
};

static PyType_Spec event_spec = {
	.name = "cenote.Event",
	.basicsize = sizeof(struct py_event),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = event_slots,
};

int py_event_setup(PyObject *module)
{
	py_event_type = (PyTypeObject *)PyType_FromSpec(&event_spec);
	return py_event_type ? PyModule_AddType(module, py_event_type) : -1;
}
