/* SPDX-License-Identifier: MIT */
/*
 * Records: what travels for an object. cenote/_record.py says what is in one.
 *
 * They are written and read here, because this is most of the time that a hand-over takes. What needs more than a few
 * calls is done in Python: the first record of a pool, the first block of a pool or event that this process does not
 * know, records of pools and events themselves, and what comes back to its own process.
 */
#include "py.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

enum { VERSION = 1, KIND_POOL = 1, KIND_BLOCK, KIND_VIEW, KIND_EVENT, DTYPE_BYTES = 16 };
enum { ON_HOST = 1, HAS_READY = 2, READ_ONLY = 4, FLAGS_ALL = 7 };
static const char magic[4] = {'c', 'e', 'n', 'P'};

struct record {
	char magic[4];
	uint8_t version, kind, flags, dimension_count;
	unsigned char port[PY_ID_BYTES], pool[PY_ID_BYTES];
	CUuuid device;
	CUmemPoolPtrExportData pointer;
	uint64_t offset, nbytes; /* of the memory, in the block */
	CUipcEventHandle ready;
	uint64_t token;
	char dtype[DTYPE_BYTES];
	uint64_t view_offset; /* in the memory */
	uint64_t shape[PY_DIMENSIONS_MAX];
};
enum { HEAD_BYTES = offsetof(struct record, shape) };
_Static_assert(HEAD_BYTES == 232, "no padding");

/* ---- Writing ---- */

/* Devices do not change; so each is asked once. */
static CUresult write_device(int device, CUuuid *ret_uuid)
{
	static CUuuid known[PY_DEVICES_MAX];
	static bool asked[PY_DEVICES_MAX];
	CUresult result = asked[device] ? CUDA_SUCCESS : py_cu.cuDeviceGetUuid(&known[device], device);

	asked[device] = !result;
	*ret_uuid = known[device];
	return result;
}

static CUresult write_block(struct record *record, struct py_block *block, struct py_stream *stream, bool ready)
{
	CUresult result;

	record->kind = KIND_BLOCK;
	record->flags |= block->read_only ? READ_ONLY : 0;
	if (!block->nbytes)
		return CUDA_SUCCESS; /* it is nowhere */
	result = py_cu.cuMemPoolExportPointer(&record->pointer, block->base);
	if (result)
		return result;
	record->offset = block->ptr - block->base;
	record->nbytes = block->nbytes;
	if (ready && !py_stream_is_idle(stream)) {
		record->flags |= HAS_READY;
		result = py_stream_ready(stream, &record->ready);
	}
	return result;
}

static void write_view(struct record *record, const struct py_layout *layout)
{
	record->kind = KIND_VIEW;
	record->dimension_count = (uint8_t)layout->dimension_count;
	record->view_offset = layout->ptr - layout->block->ptr;
	strncpy(record->dtype, layout->kind->name, sizeof record->dtype - 1);
	for (int i = 0; i < layout->dimension_count; i++)
		record->shape[i] = (uint64_t)layout->shape[i];
}

/*
 * An Event's, a Pool's, a Block's or a View's, of which `hold` is a Hold: its stream, whatever the block's is now, says
 * when the memory is ready. -1 with an exception set; 1: the pool has no number yet.
 */
static int write_thing(struct record *record, PyObject *thing, const struct py_hold *hold, bool ready)
{
	bool is_view = PyObject_TypeCheck(thing, py_view_type), is_pool = PyObject_TypeCheck(thing, py_pool_type);
	struct py_event *event = PyObject_TypeCheck(thing, py_event_type) ? (struct py_event *)thing : NULL;
	struct py_block *block = is_view ? ((struct py_view *)thing)->layout.block : (struct py_block *)thing;
	struct py_pool *pool;
	CUresult result;

	if (hold->thing != (is_view ? (PyObject *)block : thing)) {
		PyErr_SetString(PyExc_TypeError, "this is a Hold of something else");
		return -1;
	}
	if (event) {
		record->kind = KIND_EVENT;
		if (py_event_name(event, &record->ready))
			return -1;
		result = write_device(event->device, &record->device);
		if (result)
			py_raise(result);
		return result ? -1 : 0;
	}
	pool = is_pool ? (struct py_pool *)thing : block->pool;
	if (!pool) {
		PyErr_SetString(PyExc_TypeError, "kept memory is not sent: send its object's name, and open it in the "
						 "other process");
		return -1;
	}
	if (pool->imported) {
		PyErr_SetString(PyExc_ValueError, "it is another process's, and only its owner can send it");
		return -1;
	}
	if (!pool->has_number)
		return 1;
	record->kind = KIND_POOL;
	record->flags = pool->on_host ? ON_HOST : 0;
	memcpy(record->pool, pool->number, sizeof record->pool);
	result = write_device(pool->device, &record->device);
	if (!result && !is_pool)
		result = write_block(record, block, hold->stream, ready);
	if (is_view)
		write_view(record, &((struct py_view *)thing)->layout);
	if (result && !PyErr_Occurred())
		py_raise(result);
	return result ? -1 : 0;
}

/* write_record(thing, hold, port, token, ready) */
PyObject *py_record_write(PyObject *Py_UNUSED(module), PyObject *const *values, Py_ssize_t count)
{
	struct record record = {.version = VERSION};
	bool is_hold = count == 5 && PyObject_TypeCheck(values[1], py_hold_type);
	const char *port = is_hold ? PyBytes_AsString(values[2]) : NULL;
	int status;

	if (!port || PyBytes_Size(values[2]) != PY_ID_BYTES) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError, "write_record(thing, hold, port, token, ready)");
		return NULL;
	}
	memcpy(record.magic, magic, sizeof magic);
	memcpy(record.port, port, sizeof record.port);
	record.token = PyLong_AsUnsignedLongLong(values[3]);
	if (PyErr_Occurred())
		return NULL;
	status = write_thing(&record, values[0], (struct py_hold *)values[1], PyObject_IsTrue(values[4]) == 1);
	if (status < 0)
		return NULL;
	if (status > 0)
		Py_RETURN_NONE;
	return PyBytes_FromStringAndSize((const char *)&record,
					 HEAD_BYTES + record.dimension_count * (Py_ssize_t)sizeof *record.shape);
}

/* ---- Reading ---- */

/* Records come from other processes: all is checked. Returns 0, or -1 with an exception set. */
static int read_record(PyObject *data, struct record *record)
{
	Py_ssize_t length;
	char *bytes;

	if (PyBytes_AsStringAndSize(data, &bytes, &length))
		return -1;
	memset(record, 0, sizeof *record);
	memcpy(record, bytes, (size_t)length < sizeof *record ? (size_t)length : sizeof *record);
	if (length < HEAD_BYTES || memcmp(record->magic, magic, sizeof magic) != 0)
		PyErr_SetString(PyExc_ValueError, "these bytes are not Cenote's");
	else if (record->version != VERSION)
		PyErr_Format(PyExc_ValueError, "these bytes are of version %d of the format; this module reads %d",
			     record->version, VERSION);
	else if (record->kind < KIND_POOL || record->kind > KIND_EVENT || record->dimension_count > PY_DIMENSIONS_MAX ||
		 record->flags & ~FLAGS_ALL || record->dtype[DTYPE_BYTES - 1])
		PyErr_SetString(PyExc_ValueError, "these bytes are damaged");
	else if ((size_t)length != HEAD_BYTES + record->dimension_count * sizeof *record->shape)
		PyErr_SetString(PyExc_ValueError, "these bytes are not whole");
	else
		return 0;
	return -1;
}

static PyObject *shape_of(const struct record *record)
{
	PyObject *shape = PyTuple_New(record->dimension_count);

	for (int i = 0; shape && i < record->dimension_count; i++) {
		PyObject *length = PyLong_FromUnsignedLongLong(record->shape[i]);
		if (!length || PyTuple_SetItem(shape, i, length))
			Py_CLEAR(shape);
	}
	return shape;
}

static PyObject *dtype_of(const struct record *record)
{
	return PyUnicode_DecodeASCII(record->dtype, (Py_ssize_t)strlen(record->dtype), "replace");
}

PyObject *py_record_read(PyObject *Py_UNUSED(module), PyObject *data)
{
	struct record record;

	if (read_record(data, &record))
		return NULL;
	return Py_BuildValue(
		"(iiy#y#y#y#KKy#KNKN)", record.kind, record.flags, (const char *)record.port,
		(Py_ssize_t)sizeof record.port, (const char *)record.pool, (Py_ssize_t)sizeof record.pool,
		(const char *)&record.device, (Py_ssize_t)sizeof record.device, (const char *)&record.pointer,
		(Py_ssize_t)sizeof record.pointer, (unsigned long long)record.offset, (unsigned long long)record.nbytes,
		(const char *)&record.ready, (Py_ssize_t)sizeof record.ready, (unsigned long long)record.token,
		dtype_of(&record), (unsigned long long)record.view_offset, shape_of(&record));
}

/* ---- Objects of records ---- */

/* What a dictionary has under these bytes, a new reference; NULL, perhaps with an exception set: nothing. */
static PyObject *look_up(PyObject *dictionary, const void *bytes, size_t count)
{
	PyObject *key = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count), *found = NULL;

	if (key)
		found = PyDict_GetItemWithError(dictionary, key);
	Py_XINCREF(found);
	Py_XDECREF(key);
	return found;
}

static PyObject *view_of(PyObject *block, const struct record *record)
{
	PyObject *shape = shape_of(record), *dtype = shape ? dtype_of(record) : NULL, *view = NULL;

	if (dtype)
		view = PyObject_CallFunction((PyObject *)py_view_type, "OOOK", block, shape, dtype,
					     (unsigned long long)record->view_offset);
	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	if (!view && (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError))) {
		PyErr_Clear(); /* it speaks of arguments */
		PyErr_SetString(PyExc_ValueError, "these bytes are damaged: there is no such view");
	}
	return view;
}

/* The block of a record, in the order of `stream`, behind `ready`, an Event or a Stream, if it is not NULL. */
static PyObject *block_of(const struct record *record, struct py_pool *pool, PyObject *ready, PyObject *stream)
{
	PyObject *block = py_pool_import_block(pool, &record->pointer, record->offset, record->nbytes, stream), *thing;

	if (block)
		((struct py_block *)block)->read_only = record->flags & READ_ONLY;
	if (block && ready && py_stream_come_after(((struct py_block *)block)->stream, ready))
		Py_CLEAR(block);
	if (!block || record->kind == KIND_BLOCK)
		return block;
	thing = view_of(block, record);
	Py_DECREF(block);
	return thing;
}

/* Tell the sender that its block has arrived. Where ports are Python says, once. An exception may be set, and stays. */
static void tell(const struct record *record)
{
	PyObject *type, *value, *trace, *port, *token, *done;

	if (!record->token || py_tell(record->port, record->token))
		return;
	PyErr_Fetch(&type, &value, &trace);
	port = PyBytes_FromStringAndSize((const char *)record->port, sizeof record->port);
	token = port ? PyLong_FromUnsignedLongLong(record->token) : NULL;
	done = token ? py_delegate("tell", port, token) : NULL;
	if (!done)
		PyErr_WriteUnraisable(NULL); /* the block is here all the same */
	Py_XDECREF(port);
	Py_XDECREF(token);
	Py_XDECREF(done);
	PyErr_Restore(type, value, trace);
}

/* What the dictionaries suffice for; None: they do not. */
static PyObject *restore(const struct record *record, PyObject *pools, PyObject *events, PyObject *stream)
{
	PyObject *pool = look_up(pools, record->pool, sizeof record->pool), *ready = NULL, *thing = NULL;
	bool is_known = pool && PyObject_TypeCheck(pool, py_pool_type) && !((struct py_pool *)pool)->closed;

	if (is_known && (record->flags & HAS_READY)) {
		ready = look_up(events, &record->ready, sizeof record->ready);
		is_known = ready != NULL;
	}
	if (is_known)
		thing = block_of(record, (struct py_pool *)pool, ready, stream);
	else if (!PyErr_Occurred()) {
		Py_INCREF(Py_None);
		thing = Py_None;
	}
	Py_XDECREF(pool);
	Py_XDECREF(ready);
	return thing;
}

/* restore(data, own_port, pools, events, stream) */
PyObject *py_record_restore(PyObject *Py_UNUSED(module), PyObject *const *values, Py_ssize_t count)
{
	struct record record;
	const char *own_port;
	PyObject *thing;

	if (count != 5 || !PyDict_Check(values[2]) || !PyDict_Check(values[3])) {
		PyErr_SetString(PyExc_TypeError, "restore(data, own_port, pools, events, stream)");
		return NULL;
	}
	if (read_record(values[0], &record))
		return NULL;
	own_port = values[1] == Py_None ? NULL : PyBytes_AsString(values[1]);
	if (PyErr_Occurred())
		return NULL;
	if (own_port && PyBytes_Size(values[1]) != PY_ID_BYTES)
		return PyErr_Format(PyExc_ValueError, "a port's number has 16 bytes");
	if ((record.kind != KIND_BLOCK && record.kind != KIND_VIEW) ||
	    (own_port && memcmp(own_port, record.port, sizeof record.port) == 0))
		Py_RETURN_NONE;
	thing = restore(&record, values[2], values[3], values[4]);
	if (own_port && thing != Py_None)
		tell(&record); /* also if it failed: it is not read again */
	return thing;
}
