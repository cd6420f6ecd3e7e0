/* SPDX-License-Identifier: MIT */
/*
 * What cenoted keeps, and what happens to it: KeptInfo, KeptHolder and KeptEvent, which are tuples whose fields have
 * names.
 */
#include "py.h"

static PyTypeObject *info_type, *holder_type, *event_type;

static PyStructSequence_Field info_fields[] = {
	{"name", "its name"},
	{"generation", "which object of this name it is: a newer one's is larger"},
	{"newest_generation", "of its name that can be opened now; 0: none, or it is of a list"},
	{"nbytes", "of all parts"},
	{"state", "'writing', 'committed', 'retired' or 'gone'"},
	{"changeable", "whether one process at a time may open it for writing"},
	{"cache", "whether it gives way to a new object when its owner's limits are reached"},
	{"mode", "who may read and write it, as of a file"},
	{"user", "its owner"},
	{"group", "its group"},
	{"part_count", "how many parts it has"},
	{"holder_count", "how often processes have it open"},
	{"on_gpu", "whether it is a GPU's memory"},
	{"created_ns", "when, as time.time_ns()"},
	{"committed_ns", "when; 0: it is not"},
	{"holders", "the processes that have it open, as KeptHolders; None: not asked for"},
	{NULL, NULL},
};

static PyStructSequence_Field holder_fields[] = {
	{"pid", "the process, as cenoted sees it"},
	{"user", "its user"},
	{"writes", "whether it writes the object"},
	{NULL, NULL},
};

static PyStructSequence_Field event_fields[] = {
	{"name", "of the object"},
	{"generation", "of the object"},
	{"state", "what it is now: 'committed', 'retired' or 'gone'"},
	{NULL, NULL},
};

static PyStructSequence_Desc info_description = {
	.name = "cenote.kept.KeptInfo",
	.doc = "What is known of a kept object.",
	.fields = info_fields,
	.n_in_sequence = sizeof info_fields / sizeof *info_fields - 1,
};
static PyStructSequence_Desc holder_description = {
	.name = "cenote.kept.KeptHolder",
	.doc = "A process that has an object open.",
	.fields = holder_fields,
	.n_in_sequence = sizeof holder_fields / sizeof *holder_fields - 1,
};
static PyStructSequence_Desc event_description = {
	.name = "cenote.kept.KeptEvent",
	.doc = "Something that happened to an object.",
	.fields = event_fields,
	.n_in_sequence = sizeof event_fields / sizeof *event_fields - 1,
};

/* Takes the values over. NULL among them: an exception is set. */
static PyObject *record(PyTypeObject *type, PyObject *const *values, size_t count)
{
	PyObject *self = PyStructSequence_New(type);
	bool whole = self;

	for (size_t i = 0; i < count; i++) {
		whole = whole && values[i];
		if (self && values[i])
			PyStructSequence_SetItem(self, (Py_ssize_t)i, values[i]);
		else
			Py_XDECREF(values[i]);
	}
	if (!whole)
		Py_CLEAR(self);
	return self;
}

static PyObject *state_name(unsigned state)
{
	static const char *const names[] = {
		[CENOTE_KEPT_GONE] = "gone",
		[CENOTE_KEPT_WRITING] = "writing",
		[CENOTE_KEPT_COMMITTED] = "committed",
		[CENOTE_KEPT_RETIRED] = "retired",
	};

	return PyUnicode_FromString(state < sizeof names / sizeof *names ? names[state] : "unknown");
}

static PyObject *number(unsigned long long value)
{
	return PyLong_FromUnsignedLongLong(value);
}

PyObject *py_kept_info(const cenote_kept_object *object, PyObject *holders)
{
	if (!holders) {
		holders = Py_None;
		Py_INCREF(holders);
	}
	PyObject *const values[] = {
		PyUnicode_FromString(object->name),
		number(object->generation),
		number(object->newest_generation),
		number(object->bytes),
		state_name(object->state),
		PyBool_FromLong(object->flags & CENOTE_KEPT_CHANGEABLE),
		PyBool_FromLong(object->flags & CENOTE_KEPT_CACHE),
		number(object->mode),
		number(object->user),
		number(object->group),
		number(object->part_count),
		number(object->holder_count),
		PyBool_FromLong(object->on_gpu),
		number(object->created_ns),
		number(object->committed_ns),
		holders,
	};

	return record(info_type, values, sizeof values / sizeof *values);
}

/* ---- Lists ---- */

struct listing {
	PyThreadState *thread; /* the GIL is released, but for found() */
	PyObject *list;        /* NULL: an exception is set */
	PyObject *holders;     /* of the last one; NULL: not asked for */
	bool with_holders;
};

static PyObject *holder_of(const cenote_kept_holder *holder)
{
	PyObject *const values[] = {
		PyLong_FromLong(holder->pid),
		number(holder->user),
		PyBool_FromLong(holder->writes),
	};

	return record(holder_type, values, sizeof values / sizeof *values);
}

static void found(const cenote_kept_object *object, const cenote_kept_holder *holder, void *data)
{
	struct listing *listing = data;
	PyObject *one = NULL;

	PyEval_RestoreThread(listing->thread);
	if (listing->list) {
		PyObject *to = holder ? listing->holders : listing->list;
		if (!holder && listing->with_holders)
			listing->holders = PyList_New(0); /* the object has the only reference */
		one = holder ? holder_of(holder) : py_kept_info(object, listing->holders);
		if (!one || PyList_Append(to, one))
			Py_CLEAR(listing->list);
		Py_XDECREF(one);
	}
	listing->thread = PyEval_SaveThread();
}

PyObject *py_kept_list(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	struct listing listing = {.list = NULL};
	const char *prefix;
	CUresult result;
	int with_holders;

	if (!PyArg_ParseTuple(arguments, "sp:kept_list", &prefix, &with_holders))
		return NULL;
	listing.with_holders = with_holders;
	listing.list = PyList_New(0);
	if (!listing.list)
		return NULL;
	listing.thread = PyEval_SaveThread();
	result = py_cu.cenote_kept_list(prefix, with_holders ? CENOTE_KEPT_HOLDERS : 0, found, &listing);
	PyEval_RestoreThread(listing.thread);
	if (!result || !listing.list)
		return listing.list;
	Py_DECREF(listing.list);
	return py_raise(result);
}

PyObject *py_kept_retire(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	unsigned long long generation;
	const char *name;
	CUresult result;

	if (!PyArg_ParseTuple(arguments, "sO&:kept_retire", &name, py_read_number, &generation) || py_driver_init())
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_kept_retire(name, generation);
	Py_END_ALLOW_THREADS
	return py_none_or_raise(result);
}

/* ---- Events ---- */

PyObject *py_kept_watch(PyObject *Py_UNUSED(module), PyObject *prefix)
{
	const char *text = PyUnicode_AsUTF8AndSize(prefix, NULL);
	int descriptor;
	CUresult result;

	if (!text)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_kept_watch(text, &descriptor);
	Py_END_ALLOW_THREADS
	return result ? py_raise(result) : PyLong_FromLong(descriptor);
}

PyObject *py_kept_next(PyObject *Py_UNUSED(module), PyObject *descriptor)
{
	long fd = PyLong_AsLong(descriptor);
	cenote_kept_event event;

	if (fd == -1 && PyErr_Occurred())
		return NULL;
	CUresult result = py_cu.cenote_kept_next((int)fd, &event);
	if (result == CUDA_ERROR_NOT_READY)
		Py_RETURN_NONE;
	if (result)
		return py_raise(result);
	PyObject *const values[] = {
		PyUnicode_FromString(event.name),
		number(event.generation),
		state_name(event.state),
	};
	return record(event_type, values, sizeof values / sizeof *values);
}

int py_kept_list_setup(PyObject *module)
{
	PyTypeObject **const types[] = {&info_type, &holder_type, &event_type};
	PyStructSequence_Desc *const descriptions[] = {&info_description, &holder_description, &event_description};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		*types[i] = PyStructSequence_NewType(descriptions[i]);
		if (!*types[i] || PyModule_AddType(module, *types[i]))
			return -1;
	}
	return 0;
}
