/* SPDX-License-Identifier: MIT */
/*
 * Kept: an object that cenoted keeps by name, which this process has open.
 *
 * Its parts are Blocks, made when they are asked for. A Block keeps its object open; the object knows its Blocks, each
 * by a pointer that is no reference. It cannot be released, nor committed, while something counts on a part's memory (a
 * View, a buffer, a DLPack capsule): a commit takes the memory away for a moment, and from then on it can only be read.
 *
 * An object that goes away is released: what was not committed is gone.
 */
#include "py.h"

#include <limits.h>
#include <string.h>

static PyTypeObject *kept_type;

struct py_kept {
	PyObject_HEAD
	cenote_kept handle;
	int device;
	bool writing;
	bool released;
	bool busy; /* a thread commits it */
	unsigned part_count;
	unsigned long long generation;
	cenote_kept_part parts[CENOTE_KEPT_PARTS_MAX];
	struct py_block *blocks[CENOTE_KEPT_PARTS_MAX]; /* those that live; no references */
	PyObject *name, *blob;
	PyObject *weak_references;
};

static bool check_open(const struct py_kept *self)
{
	if (self->released)
		PyErr_SetString(PyExc_ValueError, "the object has been released");
	return !self->released;
}

static bool check(const struct py_kept *self)
{
	if (!check_open(self))
		return false;
	if (self->busy)
		PyErr_SetString(PyExc_ValueError, "the object is being committed");
	return !self->busy;
}

/* ---- Making one ---- */

/* What the library knows of the object that was created or opened. The caller's thread has the device's context. */
static CUresult read_facts(struct py_kept *self)
{
	cenote_kept_object object;
	CUresult result = py_cu.cenote_kept_parts(self->handle, self->parts, CENOTE_KEPT_PARTS_MAX, &self->part_count);

	if (!result)
		result = py_cu.cuPointerGetAttribute(&self->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						     self->parts[0].address);
	if (!result)
		result = py_cu.cenote_kept_look(self->handle, &object, sizeof object);
	if (result)
		return result;
	self->generation = object.generation;
	PyGILState_STATE state = PyGILState_Ensure();
	self->name = PyUnicode_FromString(object.name);
	self->blob = PyBytes_FromStringAndSize(object.blob, (Py_ssize_t)object.blob_bytes);
	PyGILState_Release(state);
	return CUDA_SUCCESS;
}

/* An object that is open, as a Python object; it is released if there is none. */
static PyObject *wrap(struct py_kept *self, CUresult result)
{
	if (!result && self->name && self->blob)
		return (PyObject *)self;
	if (result)
		py_raise(result); /* before the sentence is another one */
	Py_DECREF((PyObject *)self);
	return NULL;
}

static struct py_kept *make(void)
{
	struct py_kept *self = (struct py_kept *)PyType_GenericAlloc(kept_type, 0); /* all zero */

	if (self)
		self->released = true; /* there is nothing to release yet */
	return self;
}

/* Labels and sizes, [(label, nbytes), ...]. Returns how many; -1 with an exception set. */
static int read_parts(PyObject *list, cenote_kept_part *parts)
{
	Py_ssize_t count = PyList_Size(list);

	if (count < 0 || count > CENOTE_KEPT_PARTS_MAX) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_ValueError, "an object has at most %d parts", CENOTE_KEPT_PARTS_MAX);
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		const char *label;
		Py_ssize_t nbytes;
		if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sn;a part is a label and a size", &label, &nbytes))
			return -1;
		if (strlen(label) >= sizeof parts[i].label || nbytes < 0) {
			PyErr_Format(PyExc_ValueError, "part %zd: a label has at most %d bytes, and a size is positive",
				     i, CENOTE_KEPT_LABEL_BYTES - 1);
			return -1;
		}
		parts[i].bytes = (size_t)nbytes;
		strcpy(parts[i].label, label); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy): it fits */
	}
	return (int)count;
}

PyObject *py_kept_create(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	cenote_kept_part parts[CENOTE_KEPT_PARTS_MAX] = {{.bytes = 0}};
	cenote_kept_options options = {.flags = 0};
	unsigned long long mode;
	struct py_context context;
	PyObject *list, *device;
	const char *name, *blob;
	Py_ssize_t blob_bytes;
	CUresult result;

	if (!PyArg_ParseTuple(arguments, "sO!IO&y#O:kept_create", &name, &PyList_Type, &list, &options.flags,
			      py_read_number, &mode, &blob, &blob_bytes, &device))
		return NULL;
	options.mode = mode < UINT_MAX ? (unsigned)mode : UINT_MAX; /* which the library refuses */
	int count = read_parts(list, parts), ordinal = count < 0 ? -1 : py_device_from(device);
	struct py_kept *self = ordinal < 0 ? NULL : make();
	if (!self)
		return NULL;
	options.device = ordinal;
	options.blob = blob;
	options.blob_bytes = (size_t)blob_bytes;
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(ordinal, &context);
	if (!result) {
		result = py_cu.cenote_kept_create(name, parts, (unsigned)count, &options, &self->handle);
		self->released = result != CUDA_SUCCESS;
		self->writing = true;
		result = result ? result : read_facts(self);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	return wrap(self, result);
}

PyObject *py_kept_open(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	unsigned long long generation;
	struct py_context context;
	const char *name;
	CUresult result;
	int write;

	if (!PyArg_ParseTuple(arguments, "sO&p:kept_open", &name, py_read_number, &generation, &write) ||
	    py_driver_init())
		return NULL;
	struct py_kept *self = make();
	if (!self)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(0, &context);
	if (!result) {
		result = py_cu.cenote_kept_open(name, generation, write ? CENOTE_KEPT_WRITE : 0, &self->handle);
		self->released = result != CUDA_SUCCESS;
		self->writing = write;
		result = result ? result : read_facts(self);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	return wrap(self, result);
}

/* ---- Parts ---- */

void py_kept_block_gone(PyObject *kept, const struct py_block *block)
{
	struct py_kept *self = (struct py_kept *)kept;

	for (unsigned i = 0; i < self->part_count; i++)
		if (self->blocks[i] == block)
			self->blocks[i] = NULL;
}

/* A new reference to a part's Block. */
static PyObject *part(struct py_kept *self, unsigned number)
{
	struct py_block *block = self->blocks[number];

	if (block) {
		Py_INCREF((PyObject *)block);
		return (PyObject *)block;
	}
	block = py_block_of_kept((PyObject *)self, self->device, self->parts[number].address, self->parts[number].bytes,
				 !self->writing);
	self->blocks[number] = block;
	return (PyObject *)block;
}

static Py_ssize_t kept_length(PyObject *object)
{
	return ((struct py_kept *)object)->part_count;
}

static PyObject *kept_item(PyObject *object, PyObject *key)
{
	struct py_kept *self = (struct py_kept *)object;
	const char *label = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;

	if (PyErr_Occurred())
		return NULL;
	if (!label) {
		Py_ssize_t number = PyNumber_AsSsize_t(key, PyExc_IndexError);
		if ((number == -1 && PyErr_Occurred()) || !check(self)) /* the key's own code may release it */
			return NULL;
		number += number < 0 ? self->part_count : 0;
		if (number >= 0 && number < self->part_count)
			return part(self, (unsigned)number);
		PyErr_Format(PyExc_IndexError, "there are %u parts", self->part_count);
		return NULL;
	}
	if (!check(self))
		return NULL;
	for (unsigned i = 0; i < self->part_count; i++)
		if (!strcmp(self->parts[i].label, label))
			return part(self, i);
	PyErr_SetObject(PyExc_KeyError, key);
	return NULL;
}

static PyObject *get_parts(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_kept *self = (struct py_kept *)object;
	PyObject *parts = check(self) ? PyTuple_New(self->part_count) : NULL;

	for (unsigned i = 0; parts && i < self->part_count; i++) {
		PyObject *block = part(self, i);
		if (!block || PyTuple_SetItem(parts, i, block))
			Py_CLEAR(parts);
	}
	return parts;
}

static PyObject *get_labels(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_kept *self = (struct py_kept *)object;
	PyObject *labels = PyTuple_New(self->part_count);

	for (unsigned i = 0; labels && i < self->part_count; i++) {
		PyObject *label =
			PyUnicode_DecodeUTF8(self->parts[i].label, (Py_ssize_t)strlen(self->parts[i].label), "replace");
		if (!label || PyTuple_SetItem(labels, i, label))
			Py_CLEAR(labels);
	}
	return labels;
}

/* Is any part's memory in use by others? Then an exception is set. */
static bool is_in_use(const struct py_kept *self)
{
	size_t count = 0;

	for (unsigned i = 0; i < self->part_count; i++)
		count += self->blocks[i] ? self->blocks[i]->export_count : 0;
	if (count)
		PyErr_Format(PyExc_BufferError, "the object is in use by %zu views, buffers or DLPack capsules", count);
	return count;
}

/* ---- Its end, and what comes before ---- */

static CUresult release(struct py_kept *self)
{
	struct py_context context;
	CUresult result = py_context_enter(self->device, &context);

	if (result)
		return result;
	self->released = true;
	for (unsigned i = 0; i < self->part_count; i++)
		if (self->blocks[i])
			py_block_give_back(self->blocks[i]);
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_kept_release(self->handle);
	Py_END_ALLOW_THREADS
	py_context_leave(&context);
	return result;
}

static void kept_free(PyObject *object)
{
	struct py_kept *self = (struct py_kept *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	if (!self->released && release(self) == CUDA_ERROR_NOT_PERMITTED && py_postpone(object))
		return;
	Py_XDECREF(self->name);
	Py_XDECREF(self->blob);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *method_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_kept *self = (struct py_kept *)object;

	if (!check(self) || is_in_use(self))
		return NULL;
	return py_none_or_raise(release(self));
}

static PyObject *method_commit(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_kept *self = (struct py_kept *)object;
	struct py_context context;
	CUresult result;

	if (!check(self) || is_in_use(self))
		return NULL;
	self->busy = true;
	for (unsigned i = 0; i < self->part_count; i++)
		if (self->blocks[i])
			self->blocks[i]->committing = true;
	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(self->device, &context);
	if (!result) {
		result = py_cu.cenote_kept_commit(self->handle);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	self->busy = false;
	self->writing = self->writing && result;
	for (unsigned i = 0; i < self->part_count; i++)
		if (self->blocks[i]) {
			self->blocks[i]->committing = false;
			self->blocks[i]->read_only = !self->writing;
		}
	return py_none_or_raise(result);
}

/* Another thread may commit or release it meanwhile: the library lets one of them wait. */
static PyObject *method_look(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_kept *self = (struct py_kept *)object;
	cenote_kept_object facts;
	CUresult result;

	if (!check_open(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_kept_look(self->handle, &facts, sizeof facts);
	Py_END_ALLOW_THREADS
	if (result)
		return check_open(self) ? py_raise(result) : NULL;
	facts.name = PyUnicode_AsUTF8AndSize(self->name, NULL); /* the library's goes with a release */
	return facts.name ? py_kept_info(&facts, NULL) : NULL;
}

static PyObject *kept_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	Py_INCREF(self);
	return self;
}

/* Commits what was written, unless an exception came, and releases it. */
static PyObject *kept_exit(PyObject *object, PyObject *arguments)
{
	struct py_kept *self = (struct py_kept *)object;
	PyObject *kind = NULL, *error, *trace, *done = NULL;

	if (!PyArg_ParseTuple(arguments, "OOO:__exit__", &kind, &error, &trace))
		return NULL;
	if (self->released)
		Py_RETURN_NONE;
	if (kind == Py_None && self->writing) {
		done = method_commit(object, NULL);
		if (!done && (PyErr_ExceptionMatches(PyExc_BufferError) || self->busy))
			return NULL; /* nothing was done: the program can, or another thread does */
		if (!done) {
			PyObject *type, *value, *traceback;
			PyErr_Fetch(&type, &value, &traceback);
			release(self);
			PyErr_Restore(type, value, traceback);
			return NULL;
		}
		Py_DECREF(done);
	}
	done = method_release(object, NULL);
	if (done || kind == Py_None || !(PyErr_ExceptionMatches(PyExc_BufferError) || self->busy))
		return done;
	PyErr_Clear(); /* the exception that came is the one to see; the object goes with the last that uses it */
	Py_RETURN_NONE;
}

/* ---- The rest ---- */

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
	PyObject *name = ((struct py_kept *)self)->name;

	Py_INCREF(name);
	return name;
}

static PyObject *get_blob(PyObject *self, void *Py_UNUSED(closure))
{
	PyObject *blob = ((struct py_kept *)self)->blob;

	Py_INCREF(blob);
	return blob;
}

static PyObject *get_generation(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLongLong(((struct py_kept *)self)->generation);
}

static PyObject *get_writing(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_kept *)self)->writing);
}

static PyObject *get_released(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_kept *)self)->released);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
	return py_device_new(((struct py_kept *)self)->device);
}

static PyObject *kept_repr(PyObject *object)
{
	struct py_kept *self = (struct py_kept *)object;
	const char *state = self->released ? "released" : self->writing ? "writing" : "open";

	return PyUnicode_FromFormat("<cenote.kept.Kept %U, generation %llu, %u parts, %s>", self->name,
				    self->generation, self->part_count, state);
}

static PyGetSetDef kept_fields[] = {
	{"name", get_name, NULL, "Its name.", NULL},
	{"generation", get_generation, NULL, "Which object of this name it is: a newer one's is larger.", NULL},
	{"parts", get_parts, NULL, "Its memory: a tuple of Blocks.", NULL},
	{"labels", get_labels, NULL, "The labels of the parts, in their order.", NULL},
	{"blob", get_blob, NULL, "The bytes that its creator gave to its readers.", NULL},
	{"device", get_device, NULL, "The Device whose memory it is.", NULL},
	{"writing", get_writing, NULL, "Whether this process writes it: until commit().", NULL},
	{"released", get_released, NULL, "Whether release() was called.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef kept_methods[] = {
	{"commit", method_commit, METH_NOARGS,
	 "commit($self, /)\n--\n\nThe memory is written: other processes can open it from now on, and this one can "
	 "only read it. Waits for the device. BufferError: a view, buffer or DLPack capsule is still alive."},
	{"release", method_release, METH_NOARGS,
	 "release($self, /)\n--\n\nThis process does not need it any more. What was not committed is gone. Waits for "
	 "the device. BufferError: a view, buffer or DLPack capsule is still alive."},
	{"look", method_look, METH_NOARGS,
	 "look($self, /)\n--\n\nWhat cenoted knows of it now, as a KeptInfo: its state, and the newest generation."},
	{"__enter__", kept_enter, METH_NOARGS, NULL},
	{"__exit__", kept_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef kept_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_kept, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot kept_slots[] = {
	{Py_tp_doc,
	 (void *)"An object that cenoted keeps by name, and that this process has open: cenote.kept.create() and "
		 "open() make one. At the end of `with` it is committed, if it was being written and no exception "
		 "came, and released."},
	{Py_tp_dealloc, kept_free},
	{Py_tp_repr, kept_repr},
	{Py_tp_getset, kept_fields},
	{Py_tp_methods, kept_methods},
	{Py_tp_members, kept_members},
	{Py_mp_length, kept_length},
	{Py_mp_subscript, kept_item},
	{0, NULL},
};

static PyType_Spec kept_spec = {
	.name = "cenote.kept.Kept",
	.basicsize = sizeof(struct py_kept),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = kept_slots,
};

int py_kept_setup(PyObject *module)
{
	kept_type = (PyTypeObject *)PyType_FromSpec(&kept_spec);
	return kept_type ? PyModule_AddType(module, kept_type) : -1;
}
