/* SPDX-License-Identifier: MIT */
/*
 * Stream: an order of work on a device.
 *
 * A Stream is made here, or is another library's: an integer, or an object with __cuda_stream__. Such an object is kept
 * alive as long as the process: the library remembers a stream in which something was freed, and may record an event in
 * it later, when NVIDIA's driver would crash on the handle of a stream that is gone. There are as many of these as a
 * program has streams.
 *
 * The per-thread default stream is another stream in each thread, under one handle; objects go from thread to thread.
 * So the legacy default stream is taken for it: by CUDA's rules that comes behind all that the threads' default streams
 * have, and before what they get later.
 *
 * What a stream sends to another process is ready when the stream's own interprocess event is: one event for each
 * stream, recorded again for each block, so that a receiver opens it once.
 */
#include "py.h"

PyTypeObject *py_stream_type;
static struct py_stream *defaults[PY_DEVICES_MAX]; /* the legacy default streams; kept */
static PyObject *others;                           /* {handle: Stream} of other libraries; kept */
static bool ending;                                /* the interpreter ends: no Python is called from now on */

static struct py_stream *stream_new(CUstream handle, int device, bool owned, PyObject *owner)
{
	struct py_stream *self = (struct py_stream *)PyType_GenericAlloc(py_stream_type, 0);

	if (!self)
		return NULL;
	self->handle = handle;
	self->device = device;
	self->owned = owned;
	Py_XINCREF(owner);
	self->owner = owner;
	return self;
}

static void stream_destroy(struct py_stream *self)
{
	if (self->owned && !self->destroyed)
		py_cu.cuStreamDestroy(self->handle);
	self->destroyed = true;
	if (self->ready)
		py_cu.cuEventDestroy(self->ready);
	self->ready = NULL;
}

void py_stream_use(struct py_stream *stream)
{
	stream->user_count++;
}

void py_stream_unuse(struct py_stream *stream)
{
	if (--stream->user_count == 0 && stream->closed)
		stream_destroy(stream);
}

static void stream_free(PyObject *object)
{
	struct py_stream *self = (struct py_stream *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	stream_destroy(self);
	Py_XDECREF(self->owner);
	PyObject_Free(object);
	Py_DECREF(type);
}

static bool stream_check(const struct py_stream *self)
{
	if (self->closed)
		PyErr_SetString(PyExc_ValueError, "the stream is closed");
	return !self->closed;
}

/* ---- From an argument ---- */

static struct py_stream *default_stream(int device)
{
	if (!defaults[device])
		defaults[device] = stream_new(NULL, device, false, NULL);
	Py_XINCREF((PyObject *)defaults[device]);
	return defaults[device];
}

/* The one Stream of another library's handle. */
static struct py_stream *known_stream(PyObject *handle, int device, PyObject *owner)
{
	PyObject *known;
	struct py_stream *made;
	void *value = PyLong_AsVoidPtr(handle);

	if (!value && PyErr_Occurred())
		return NULL;
	if (!value || value == CU_STREAM_LEGACY || value == CU_STREAM_PER_THREAD)
		return default_stream(device);
	if (!others) {
		others = PyDict_New();
		if (!others)
			return NULL;
	}
	known = PyDict_GetItemWithError(others, handle);
	if (known && ((struct py_stream *)known)->device == device) {
		struct py_stream *stream = (struct py_stream *)known;
		if (!stream->owner) { /* only its integer came before */
			Py_XINCREF(owner);
			stream->owner = owner;
		}
		Py_INCREF(known);
		return stream;
	}
	if (PyErr_Occurred())
		return NULL;
	made = stream_new(value, device, false, owner);
	if (made && PyDict_SetItem(others, handle, (PyObject *)made)) {
		Py_DECREF((PyObject *)made);
		return NULL;
	}
	return made;
}

/* The integer that says which of another library's streams it is. */
static PyObject *other_handle(PyObject *object)
{
	PyObject *pair, *handle, *number;

	if (PyIndex_Check(object))
		return PyNumber_Index(object);
	pair = PyObject_CallMethod(object, "__cuda_stream__", NULL);
	if (!pair) {
		if (PyErr_ExceptionMatches(PyExc_AttributeError))
			PyErr_SetString(PyExc_TypeError, "a stream is a cenote.Stream, None, an integer that is a "
							 "handle, or an object with __cuda_stream__");
		return NULL;
	}
	handle = PySequence_Size(pair) == 2 ? PySequence_GetItem(pair, 1) : NULL;
	Py_DECREF(pair);
	if (!handle) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError, "__cuda_stream__ must return a version and a handle");
		return NULL;
	}
	number = PyNumber_Index(handle);
	Py_DECREF(handle);
	return number;
}

struct py_stream *py_stream_from(PyObject *object, int device)
{
	PyObject *handle;
	struct py_stream *stream;

	if (!object || object == Py_None)
		return default_stream(device);
	if (PyObject_TypeCheck(object, py_stream_type)) {
		if (!stream_check((struct py_stream *)object))
			return NULL;
		Py_INCREF(object);
		return (struct py_stream *)object;
	}
	handle = other_handle(object);
	if (!handle)
		return NULL;
	stream = known_stream(handle, device, PyIndex_Check(object) ? NULL : object);
	Py_DECREF(handle);
	return stream;
}

PyObject *py_stream_check(PyObject *Py_UNUSED(module), PyObject *object)
{
	PyObject *handle;

	if (object == Py_None)
		Py_RETURN_NONE;
	if (PyObject_TypeCheck(object, py_stream_type)) {
		if (!stream_check((struct py_stream *)object))
			return NULL;
		Py_RETURN_NONE;
	}
	handle = other_handle(object);
	if (!handle)
		return NULL;
	PyLong_AsVoidPtr(handle);
	Py_DECREF(handle);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *stream_make(PyTypeObject *Py_UNUSED(type), PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"stream", (char *)"device", (char *)"nonblocking", (char *)"priority", NULL};
	PyObject *object = Py_None, *device_object = NULL;
	int nonblocking = 1, priority = 0, device;
	struct py_context context;
	CUstream handle;
	CUresult result;
	struct py_stream *self;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$pi:Stream", names, &object, &device_object,
					 &nonblocking, &priority))
		return NULL;
	device = py_device_from(device_object);
	if (device < 0)
		return NULL;
	if (object != Py_None)
		return (PyObject *)py_stream_from(object, device);
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(device, &context);
	if (!result) {
		result = py_cu.cuStreamCreateWithPriority(
			&handle, nonblocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, priority);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	if (result)
		return py_raise(result);
	self = stream_new(handle, device, true, NULL);
	if (!self)
		py_cu.cuStreamDestroy(handle);
	return (PyObject *)self;
}

/* ---- Order ---- */

CUresult py_stream_follow(CUstream stream, CUstream earlier, int device)
{
	struct py_context context;
	CUevent event;
	CUresult result;

	if (stream == earlier)
		return CUDA_SUCCESS;
	result = py_context_enter(device, &context);
	if (result)
		return result;
	result = py_cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (!result) {
		result = py_cu.cuEventRecord(event, earlier);
		if (!result)
			result = py_cu.cuStreamWaitEvent(stream, event, 0);
		py_cu.cuEventDestroy(event); /* goes when it has been reached */
	}
	py_context_leave(&context);
	return result;
}

int py_stream_wait(struct py_stream *stream)
{
	struct py_context context;
	CUresult result;

	py_stream_hold(stream); /* another thread may close it */
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(stream->device, &context);
	if (!result) {
		result = py_cu.cuStreamSynchronize(stream->handle);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	py_stream_let_go(stream);
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

static PyObject *stream_synchronize(PyObject *self, PyObject *Py_UNUSED(unused))
{
	if (!stream_check((struct py_stream *)self) || py_stream_wait((struct py_stream *)self))
		return NULL;
	Py_RETURN_NONE;
}

/* What another object's work is in: a new reference to the Stream itself, or to a Block's. */
static PyObject *stream_of(PyObject *object, int device)
{
	if (PyObject_TypeCheck(object, py_block_type))
		object = (PyObject *)((struct py_block *)object)->stream;
	else if (!PyObject_TypeCheck(object, py_stream_type) || ((struct py_stream *)object)->destroyed)
		return (PyObject *)py_stream_from(object, device);
	/* A closed one, too, while it has work and blocks. */
	Py_INCREF(object);
	return object;
}

int py_stream_come_after(const struct py_stream *stream, PyObject *other)
{
	struct py_context context;
	CUresult result;

	if (PyObject_TypeCheck(other, py_event_type)) {
		CUevent event = ((struct py_event *)other)->handle;
		if (!py_event_check((struct py_event *)other))
			return -1;
		result = py_context_enter(stream->device, &context);
		if (!result) {
			result = py_cu.cuStreamWaitEvent(stream->handle, event, 0);
			py_context_leave(&context);
		}
	} else {
		PyObject *earlier = stream_of(other, stream->device);
		if (!earlier)
			return -1;
		result = py_stream_follow(stream->handle, ((struct py_stream *)earlier)->handle, stream->device);
		Py_DECREF(earlier);
	}
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

static PyObject *stream_wait(PyObject *self, PyObject *other)
{
	if (!stream_check((struct py_stream *)self) || py_stream_come_after((struct py_stream *)self, other))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *stream_record(PyObject *self, PyObject *arguments)
{
	PyObject *event = Py_None, *done;

	if (!PyArg_ParseTuple(arguments, "|O:record", &event))
		return NULL;
	if (event != Py_None && !PyObject_TypeCheck(event, py_event_type))
		return PyErr_Format(PyExc_TypeError, "record() takes an Event, or None, not %R", event);
	event = event != Py_None ? (Py_INCREF(event), event)
				 : PyObject_CallFunction((PyObject *)py_event_type, "OOi", Py_False, Py_False,
							 ((struct py_stream *)self)->device);
	done = event ? PyObject_CallMethod(event, "record", "O", self) : NULL;
	if (!done)
		Py_CLEAR(event);
	Py_XDECREF(done);
	return event;
}

/* ---- Functions of Python's in a stream ---- */

static void CUDA_CB call_python(void *data)
{
	PyGILState_STATE state;
	PyObject *function = data, *value;

	if (__atomic_load_n(&ending, __ATOMIC_ACQUIRE))
		return;
	state = PyGILState_Ensure();
	value = PyObject_CallObject(function, NULL);
	if (!value)
		PyErr_WriteUnraisable(function);
	Py_XDECREF(value);
	Py_DECREF(function);
	py_free_postponed_soon();
	PyGILState_Release(state);
}

static PyObject *stream_call(PyObject *object, PyObject *function)
{
	struct py_stream *self = (struct py_stream *)object;
	struct py_context context;
	CUresult result;

	if (!stream_check(self))
		return NULL;
	if (!PyCallable_Check(function)) {
		PyErr_SetString(PyExc_TypeError, "call() needs something that can be called without arguments");
		return NULL;
	}
	Py_INCREF(function);
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(self->device, &context);
	if (!result) {
		result = py_cu.cuLaunchHostFunc(self->handle, call_python, function);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	if (result) {
		Py_DECREF(function);
		return py_raise(result);
	}
	Py_RETURN_NONE;
}

static PyObject *set_ending(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
	__atomic_store_n(&ending, true, __ATOMIC_RELEASE);
	Py_RETURN_NONE;
}

/* ---- What is sent is ready ---- */

/* The stream's event, made with the first use. Python remembers whose it is, for what comes back to this process. */
static CUresult make_ready(struct py_stream *self)
{
	CUipcEventHandle name;
	CUevent event;
	CUresult result = py_cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);

	if (result)
		return result;
	result = py_cu.cuIpcGetEventHandle(&name, event);
	if (!result) {
		PyObject *bytes = PyBytes_FromStringAndSize((const char *)&name, sizeof name);
		PyObject *done = bytes ? py_delegate("remember_stream", (PyObject *)self, bytes) : NULL;
		result = done ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; /* Python's exception says more */
		Py_XDECREF(bytes);
		Py_XDECREF(done);
	}
	if (result || self->ready || self->destroyed) { /* another thread was faster */
		py_cu.cuEventDestroy(event);
		return result || self->ready ? result : CUDA_ERROR_INVALID_HANDLE;
	}
	self->ready = event;
	self->ready_name = name;
	return CUDA_SUCCESS;
}

CUresult py_stream_ready(struct py_stream *stream, CUipcEventHandle *ret_name)
{
	struct py_context context;
	CUresult result;

	if (stream->destroyed) {
		stream_check(stream);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	result = py_context_enter(stream->device, &context);
	if (result)
		return result;
	if (!stream->ready)
		result = make_ready(stream);
	if (!result)
		result = py_cu.cuEventRecord(stream->ready, stream->handle);
	py_context_leave(&context);
	*ret_name = stream->ready_name;
	return result;
}

static CUresult query(const struct py_stream *self)
{
	struct py_context context;
	CUresult result = py_context_enter(self->device, &context);

	if (!result) {
		result = py_cu.cuStreamQuery(self->handle);
		py_context_leave(&context);
	}
	return result;
}

bool py_stream_is_idle(const struct py_stream *stream)
{
	return !stream->destroyed && query(stream) == CUDA_SUCCESS;
}

/* ---- The rest ---- */

static PyObject *is_idle(PyObject *self, PyObject *Py_UNUSED(unused))
{
	return PyBool_FromLong(py_stream_is_idle((struct py_stream *)self));
}

static PyObject *wait_for(PyObject *self, PyObject *Py_UNUSED(unused))
{
	if (py_stream_wait((struct py_stream *)self))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *get_done(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_stream *self = (struct py_stream *)object;
	CUresult result;

	if (!stream_check(self))
		return NULL;
	result = query(self);
	if (result && result != CUDA_ERROR_NOT_READY)
		return py_raise(result);
	return PyBool_FromLong(!result);
}

/* As other libraries write it: the legacy default stream is 1, because 0 often means "none". */
static PyObject *get_handle(PyObject *self, void *Py_UNUSED(closure))
{
	CUstream handle = ((struct py_stream *)self)->handle;

	return PyLong_FromVoidPtr(handle ? handle : CU_STREAM_LEGACY);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
	return py_device_new(((struct py_stream *)self)->device);
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_stream *)self)->closed);
}

static PyObject *cuda_stream(PyObject *self, PyObject *Py_UNUSED(unused))
{
	return Py_BuildValue("(iN)", 0, get_handle(self, NULL));
}

static PyObject *method_close(PyObject *object, PyObject *Py_UNUSED(arguments))
{
	struct py_stream *self = (struct py_stream *)object;

	self->closed = self->owned;
	if (self->closed && self->user_count == 0)
		stream_destroy(self);
	Py_RETURN_NONE;
}

static PyObject *method_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	Py_INCREF(self);
	return self;
}

static PyObject *stream_repr(PyObject *object)
{
	struct py_stream *self = (struct py_stream *)object;

	if (self->closed)
		return PyUnicode_FromString("<cenote.Stream, closed>");
	if (!self->handle)
		return PyUnicode_FromFormat("<cenote.Stream: device %d's default stream>", self->device);
	return PyUnicode_FromFormat("<cenote.Stream %p of device %d%s>", self->handle, self->device,
				    self->owned ? "" : ", another library's");
}

static PyObject *stream_compare(PyObject *self, PyObject *other, int operation)
{
	bool same;

	if (!PyObject_TypeCheck(other, py_stream_type) || (operation != Py_EQ && operation != Py_NE))
		Py_RETURN_NOTIMPLEMENTED;
	same = ((struct py_stream *)self)->handle == ((struct py_stream *)other)->handle &&
	       ((struct py_stream *)self)->device == ((struct py_stream *)other)->device;
	return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *self)
{
	return (Py_hash_t)((uintptr_t)((struct py_stream *)self)->handle >> 3);
}

static PyGetSetDef stream_fields[] = {
	{"handle", get_handle, NULL, "CUDA's handle, an integer.", NULL},
	{"device", get_device, NULL, "The stream's device.", NULL},
	{"done", get_done, NULL, "Whether all work so far is done. Does not wait.", NULL},
	{"closed", get_closed, NULL, "Whether it was closed.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef stream_methods[] = {
	{"synchronize", stream_synchronize, METH_NOARGS, "synchronize($self, /)\n--\n\nWait for all work so far."},
	{"wait", stream_wait, METH_O,
	 "wait($self, other, /)\n--\n\nLet what comes here follow an Event's latest record, or all that a Stream or a "
	 "Block's stream has now. Returns at once."},
	{"record", stream_record, METH_VARARGS,
	 "record($self, event=None, /)\n--\n\nRecord an event here, a new one if none is given, and return it."},
	{"call", stream_call, METH_O,
	 "call($self, function, /)\n--\n\nCall a function when the work so far is done, in another thread. It must not "
	 "call CUDA. An exception goes to sys.unraisablehook."},
	{"close", method_close, METH_NOARGS,
	 "close($self, /)\n--\n\nBegin nothing more in the stream. It goes when its work is done and its blocks are "
	 "freed. Does nothing to another library's stream."},
	{"_is_idle", is_idle, METH_NOARGS, "Whether all work so far is done; of a closed stream, too."},
	{"_wait", wait_for, METH_NOARGS, "synchronize(); of a closed stream, too."},
	{"__cuda_stream__", cuda_stream, METH_NOARGS, "The version of the protocol, and the handle."},
	{"__enter__", method_enter, METH_NOARGS, NULL},
	{"__exit__", method_close, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef stream_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_stream, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot stream_slots[] = {
	{Py_tp_doc,
	 (void *)"Stream(stream=None, device=0, *, nonblocking=True, priority=0)\n--\n\nAn order of work. Without "
		 "`stream`, a new one. With it, another library's: an integer that is a handle, or an object with "
		 "__cuda_stream__."},
	{Py_tp_new, stream_make},
	{Py_tp_dealloc, stream_free},
	{Py_tp_repr, stream_repr},
	{Py_tp_richcompare, stream_compare},
	{Py_tp_hash, stream_hash},
	{Py_tp_getset, stream_fields},
	{Py_tp_methods, stream_methods},
	{Py_tp_members, stream_members},
	{0, NULL},
};

static PyType_Spec stream_spec = {
	.name = "cenote.Stream",
	.basicsize = sizeof(struct py_stream),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = stream_slots,
};

/* Before the interpreter ends, no function of Python's may be begun. */
static int watch_the_end(void)
{
	static PyMethodDef method = {"set_ending", set_ending, METH_NOARGS, NULL};
	PyObject *function = PyCFunction_New(&method, NULL);
	PyObject *atexit_module = function ? PyImport_ImportModule("atexit") : NULL;
	PyObject *done = atexit_module ? PyObject_CallMethod(atexit_module, "register", "O", function) : NULL;

	Py_XDECREF(function);
	Py_XDECREF(atexit_module);
	Py_XDECREF(done);
	return done ? 0 : -1;
}

int py_stream_setup(PyObject *module)
{
	py_stream_type = (PyTypeObject *)PyType_FromSpec(&stream_spec);
	return py_stream_type && !PyModule_AddType(module, py_stream_type) ? watch_the_end() : -1;
}
