/* SPDX-License-Identifier: MIT */
/*
 * Pool: stream-ordered memory that can be shared.
 *
 * Blocks keep their Pool object alive. A pool of this process may be closed before its blocks are freed: CUDA keeps it
 * until the last of them is. An imported pool may not, so closing one waits for its last Block object, without waiting
 * in the call. While something of a pool is on its way to another process, the pool stays as well, because its receiver
 * may ask for it (py_hold.c).
 *
 * A pool keeps the memory that it has until trim(), unless release_threshold says otherwise: CUDA's own default gives
 * everything back with each synchronisation, and here NumPy's every look at a block is one.
 */
#include "py.h"

#include <string.h>
#include <unistd.h>

PyTypeObject *py_pool_type;
static PyObject *known; /* {handle: weak reference to a Pool} */

bool py_pool_check(const struct py_pool *pool)
{
	if (pool->closed)
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
	return !pool->closed;
}

static struct py_pool *pool_new(CUmemoryPool handle, int device)
{
	struct py_pool *self = (struct py_pool *)PyType_GenericAlloc(py_pool_type, 0);

	if (self) {
		self->handle = handle;
		self->device = device;
		self->on_host = py_driver_is_host();
	}
	return self;
}

/* What is left to do when an object cannot be made. */
static CUresult destroy(CUmemoryPool handle)
{
	CUresult result;

	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cuMemPoolDestroy(handle);
	Py_END_ALLOW_THREADS
	return result;
}

/* CUDA_ERROR_NOT_PERMITTED: in a function of a stream. Then it is still there. */
static CUresult destroy_once(struct py_pool *self)
{
	CUresult result;

	if (!self->owned || self->destroyed)
		return CUDA_SUCCESS;
	self->destroyed = true; /* another thread runs meanwhile */
	result = self->import ? py_import_end(&self->import) : destroy(self->handle);
	self->destroyed = result != CUDA_ERROR_NOT_PERMITTED;
	return result;
}

/* The same if the program has closed it, and nothing needs it. */
static CUresult destroy_closed(struct py_pool *self)
{
	if (!self->closed || self->hold_count || (self->imported && self->live_count))
		return CUDA_SUCCESS;
	return destroy_once(self);
}

/* ---- By handle ---- */

static int remember(struct py_pool *self)
{
	PyObject *key = PyLong_FromVoidPtr(self->handle), *reference = PyWeakref_NewRef((PyObject *)self, NULL);
	int result = -1;

	if (key && reference && (known || (known = PyDict_New())))
		result = PyDict_SetItem(known, key, reference);
	Py_XDECREF(key);
	Py_XDECREF(reference);
	return result;
}

/* Where an imported pool was closed and imported again, two objects have one handle: the other one stays known. */
static void forget(const struct py_pool *self)
{
	PyObject *type, *value, *trace, *key, *reference;

	if (!known)
		return;
	PyErr_Fetch(&type, &value, &trace); /* this is a finaliser */
	key = PyLong_FromVoidPtr(self->handle);
	reference = key ? PyDict_GetItemWithError(known, key) : NULL;
	if (reference && PyWeakref_GetObject(reference) == Py_None)
		PyDict_DelItem(known, key);
	PyErr_Clear();
	Py_XDECREF(key);
	PyErr_Restore(type, value, trace);
}

/* A new reference; NULL: there is none, or an exception is set. */
static struct py_pool *find_known(CUmemoryPool handle)
{
	PyObject *key = PyLong_FromVoidPtr(handle);
	PyObject *reference = key && known ? PyDict_GetItemWithError(known, key) : NULL;
	PyObject *found = reference ? PyWeakref_GetObject(reference) : NULL;

	Py_XDECREF(key);
	if (!found || found == Py_None)
		return NULL;
	Py_INCREF(found);
	return (struct py_pool *)found;
}

struct py_pool *py_pool_of_handle(CUmemoryPool handle, int device)
{
	struct py_pool *found = find_known(handle);

	if (found || PyErr_Occurred())
		return found;
	found = pool_new(handle, device); /* another library's */
	if (found)
		found->imported = py_import_knows(handle); /* or closed here */
	if (found && remember(found))
		Py_CLEAR(found);
	return found;
}

/* ---- Making one ---- */

/* "host", ("numa", node) or None. */
static int read_location(PyObject *object, CUmemLocation *ret_location)
{
	const char *word = NULL;
	int node = 0;

	if (object == Py_None)
		return 0;
	if (PyUnicode_Check(object))
		word = PyUnicode_AsUTF8AndSize(object, NULL);
	else if (PyTuple_Check(object) && !PyArg_ParseTuple(object, "si", &word, &node))
		return -1;
	if (word && strcmp(word, "host") == 0 && PyUnicode_Check(object)) {
		*ret_location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
		return 0;
	}
	if (word && strcmp(word, "numa") == 0 && PyTuple_Check(object)) {
		*ret_location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
		return 0;
	}
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_ValueError, "location is None (the device), 'host', or ('numa', node)");
	return -1;
}

static CUresult create(const CUmemPoolProps *properties, uint64_t keep_bytes, int device, CUmemoryPool *ret_pool)
{
	struct py_context context;
	CUresult result = py_context_enter(device, &context);

	if (result)
		return result;
	result = py_cu.cuMemPoolCreate(ret_pool, properties);
	if (!result) {
		result = py_cu.cuMemPoolSetAttribute(*ret_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes);
		if (result)
			py_cu.cuMemPoolDestroy(*ret_pool);
	}
	py_context_leave(&context);
	return result;
}

static PyObject *pool_make(PyTypeObject *Py_UNUSED(type), PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"device",   (char *)"shareable",         (char *)"max_size",
				(char *)"location", (char *)"release_threshold", NULL};
	PyObject *device_object = NULL, *location = Py_None, *threshold = Py_None;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	unsigned long long max_size = 0, keep_bytes = UINT64_MAX;
	int shareable = 1, device;
	CUmemoryPool handle;
	struct py_pool *self;
	CUresult result;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OpO&$OO:Pool", names, &device_object, &shareable,
					 py_read_number, &max_size, &location, &threshold))
		return NULL;
	device = py_device_from(device_object);
	if (device < 0)
		return NULL;
	properties.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
	if (read_location(location, &properties.location))
		return NULL;
	if (threshold != Py_None && !py_read_number(threshold, &keep_bytes))
		return NULL;
	properties.maxSize = (size_t)max_size;
	properties.handleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
	Py_BEGIN_ALLOW_THREADS
	result = create(&properties, keep_bytes, device, &handle);
	Py_END_ALLOW_THREADS
	if (result)
		return py_raise(result);
	self = pool_new(handle, device);
	if (!self) {
		destroy(handle);
		return NULL;
	}
	self->owned = true;
	self->shareable = shareable;
	self->on_host |= location != Py_None;
	if (remember(self))
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void pool_free(PyObject *object)
{
	struct py_pool *self = (struct py_pool *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	forget(self);
	if (destroy_once(self) == CUDA_ERROR_NOT_PERMITTED && py_postpone(object))
		return;
	PyObject_Free(object);
	Py_DECREF(type);
}

/* ---- Blocks ---- */

void py_pool_block_gone(struct py_pool *pool)
{
	pool->live_count--;
	destroy_closed(pool);
}

CUresult py_pool_let_go(struct py_pool *pool)
{
	CUresult result;

	pool->hold_count--;
	result = destroy_closed(pool);
	if (result == CUDA_ERROR_NOT_PERMITTED)
		pool->hold_count++;
	return result;
}

/* allocate(nbytes, stream=None), parsed by hand: it is called often. */
static int read_allocate(PyObject *const *values, Py_ssize_t count, PyObject *names, PyObject **ret_bytes,
			 PyObject **ret_stream)
{
	Py_ssize_t named = names ? PyTuple_Size(names) : 0;

	*ret_bytes = count > 0 ? values[0] : NULL;
	*ret_stream = count > 1 ? values[1] : NULL;
	for (Py_ssize_t i = 0; i < named; i++) {
		PyObject *name = PyTuple_GetItem(names, i);
		PyObject **place = PyUnicode_CompareWithASCIIString(name, "nbytes") == 0   ? ret_bytes
				   : PyUnicode_CompareWithASCIIString(name, "stream") == 0 ? ret_stream
											   : NULL;
		if (!place || *place) {
			PyErr_Format(PyExc_TypeError, "allocate() got an unexpected argument '%U'", name);
			return -1;
		}
		*place = values[count + i];
	}
	if (*ret_bytes && count <= 2)
		return 0;
	PyErr_SetString(PyExc_TypeError, "allocate(nbytes, stream=None)");
	return -1;
}

static PyObject *pool_allocate(PyObject *object, PyObject *const *values, Py_ssize_t count, PyObject *names)
{
	struct py_pool *self = (struct py_pool *)object;
	PyObject *bytes_object, *stream_object, *block;
	struct py_context context;
	struct py_stream *stream;
	CUdeviceptr ptr;
	unsigned long long nbytes;
	CUresult result;

	if (read_allocate(values, count, names, &bytes_object, &stream_object))
		return NULL;
	py_free_postponed();
	if (!py_read_number(bytes_object, &nbytes))
		return NULL;
	stream = py_stream_from(stream_object, self->device);
	if (!stream || !py_pool_check(self)) { /* the arguments' own code may have closed it */
		Py_XDECREF((PyObject *)stream);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS /* the pool may have to grow */
	result = py_context_enter(self->device, &context);
	if (!result) {
		result = py_cu.cuMemAllocFromPoolAsync(&ptr, nbytes, self->handle, stream->handle);
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	if (result) {
		Py_DECREF((PyObject *)stream);
		return py_raise(result);
	}
	block = py_block_new(self, stream, ptr, ptr, nbytes);
	if (!block)
		py_cu.cuMemFreeAsync(ptr, stream->handle);
	Py_DECREF((PyObject *)stream);
	return block;
}

/* ---- Between processes: what cenote._share is made of ---- */

/* Returns 0, or -1 with an exception set. */
static int new_descriptor(PyObject *object, CUresult (*function)(CUmemoryPool, int *), int *ret_descriptor)
{
	struct py_pool *self = (struct py_pool *)object;
	CUresult result;

	if (self->destroyed) { /* a closed one may have to be shown to a receiver */
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS
	result = function(self->handle, ret_descriptor);
	Py_END_ALLOW_THREADS
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

static CUresult export_pool(CUmemoryPool handle, int *ret_descriptor)
{
	return py_cu.cuMemPoolExportToShareableHandle(ret_descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						      0);
}

static PyObject *pool_export(PyObject *self, PyObject *Py_UNUSED(unused))
{
	int descriptor;

	return new_descriptor(self, export_pool, &descriptor) ? NULL : py_descriptor_new(descriptor);
}

static PyObject *pool_import(PyObject *Py_UNUSED(type), PyObject *arguments)
{
	PyObject *device_object;
	struct py_import *import;
	int descriptor, device, on_host;
	CUmemoryPool handle;
	struct py_pool *self;

	if (!PyArg_ParseTuple(arguments, "iOp:_import", &descriptor, &device_object, &on_host))
		return NULL;
	device = py_device_from(device_object);
	if (device < 0)
		return NULL;
	import = py_import_new(descriptor, &handle);
	if (!import)
		return NULL;
	self = find_known(handle);
	if (self && self->import && !self->closed) { /* it has counted this import */
		py_import_end(&import);
		return (PyObject *)self;
	}
	Py_CLEAR(self);
	if (!PyErr_Occurred())
		self = pool_new(handle, device);
	if (!self) {
		py_import_end(&import);
		return NULL;
	}
	self->owned = self->imported = true;
	self->import = import;
	self->on_host |= on_host;
	if (remember(self))
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* What another process says of a block must fit: how long it is, and that the processor can read it. */
static CUresult compare(const struct py_pool *self, CUdeviceptr base, size_t end)
{
	CUmemorytype type = CU_MEMORYTYPE_HOST;
	size_t room = 0;
	CUresult result = py_cu.cuPointerGetAttribute(&room, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base);

	if (!result && self->on_host && !py_driver_is_host())
		result = py_cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base);
	return result ? result : room < end || type != CU_MEMORYTYPE_HOST ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult import_block(struct py_pool *self, const CUmemPoolPtrExportData *name, size_t end,
			     CUdeviceptr *ret_base)
{
	CUmemPoolPtrExportData copy = *name;
	struct py_context context;
	CUresult result;

	*ret_base = 0; /* where a block of 0 bytes is */
	if (!end)
		return CUDA_SUCCESS;
	result = py_context_enter(self->device, &context);
	if (result)
		return result;
	result = py_cu.cuMemPoolImportPointer(ret_base, self->handle, &copy);
	if (!result) {
		result = compare(self, *ret_base, end);
		if (result)
			py_cu.cuMemFreeAsync(*ret_base, NULL);
	}
	py_context_leave(&context);
	return result;
}

PyObject *py_pool_import_block(struct py_pool *pool, const CUmemPoolPtrExportData *name, uint64_t offset,
			       uint64_t nbytes, PyObject *stream_object)
{
	struct py_stream *stream;
	PyObject *block = NULL;
	CUdeviceptr base;
	CUresult result;

	if (offset > (uint64_t)PY_SSIZE_T_MAX || nbytes > (uint64_t)PY_SSIZE_T_MAX - offset) {
		PyErr_SetString(PyExc_ValueError, "this is not the name of a block");
		return NULL;
	}
	stream = py_stream_from(stream_object, pool->device);
	if (!stream)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = import_block(pool, name, offset + nbytes, &base);
	Py_END_ALLOW_THREADS
	if (result == CUDA_ERROR_INVALID_HANDLE)
		py_raise_sentence(result, "the name says that the block is longer than it is, or lies elsewhere");
	else if (result)
		py_raise(result);
	else {
		block = py_block_new(pool, stream, base, base + offset, nbytes);
		if (!block && base)
			py_cu.cuMemFreeAsync(base, stream->handle);
	}
	Py_DECREF((PyObject *)stream);
	return block;
}

static PyObject *pool_number(PyObject *object, PyObject *number)
{
	struct py_pool *self = (struct py_pool *)object;
	Py_ssize_t length;
	char *bytes;

	if (PyBytes_AsStringAndSize(number, &bytes, &length))
		return NULL;
	if (length != sizeof self->number) {
		PyErr_SetString(PyExc_ValueError, "a pool's number has 16 bytes");
		return NULL;
	}
	memcpy(self->number, bytes, sizeof self->number);
	self->has_number = true;
	Py_RETURN_NONE;
}

/* ---- What an exporter may do ---- */

static PyObject *pool_watch(PyObject *object, PyObject *Py_UNUSED(unused))
{
	return py_delegate("pool_watch", object, NULL);
}

static PyObject *pool_watch_descriptor(PyObject *self, PyObject *Py_UNUSED(unused))
{
	int descriptor;

	if (!py_pool_check((struct py_pool *)self) || new_descriptor(self, py_cu.cenote_pool_watch, &descriptor))
		return NULL;
	return PyLong_FromLong(descriptor);
}

static PyObject *call_with_bytes(PyObject *object, CUresult (*function)(CUmemoryPool, size_t), size_t bytes)
{
	struct py_pool *self = (struct py_pool *)object;
	CUresult result;

	if (!py_pool_check(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = function(self->handle, bytes);
	Py_END_ALLOW_THREADS
	return py_none_or_raise(result);
}

static PyObject *pool_limit(PyObject *self, PyObject *limit)
{
	unsigned long long bytes = 0; /* for the library, no limit */

	if (limit != Py_None && !py_read_number(limit, &bytes))
		return NULL;
	if (limit != Py_None && !bytes) {
		PyErr_SetString(PyExc_ValueError, "a limit is at least 1 byte; None: no limit");
		return NULL;
	}
	return call_with_bytes(self, py_cu.cenote_pool_limit, bytes);
}

static PyObject *pool_evict(PyObject *object, PyObject *importer)
{
	struct py_pool *self = (struct py_pool *)object;
	PyObject *id =
		PyIndex_Check(importer) ? (Py_INCREF(importer), importer) : PyObject_GetAttrString(importer, "id");
	unsigned long long number = 0;
	bool is_read = id && py_read_number(id, &number);
	CUresult result;

	Py_XDECREF(id);
	if (!is_read || !py_pool_check(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_pool_evict(self->handle, number);
	Py_END_ALLOW_THREADS
	return py_none_or_raise(result);
}

static PyObject *pool_trim(PyObject *self, PyObject *arguments)
{
	Py_ssize_t keep_bytes = 0;

	if (!PyArg_ParseTuple(arguments, "|n:trim", &keep_bytes))
		return NULL;
	return call_with_bytes(self, py_cu.cuMemPoolTrimTo, keep_bytes < 0 ? 0 : (size_t)keep_bytes);
}

static PyObject *pool_picture(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_pool *self = (struct py_pool *)object;
	char text[64 * 65 + 1];
	CUresult result;

	if (!py_pool_check(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_pool_picture(self->handle, text, sizeof text);
	Py_END_ALLOW_THREADS
	return result ? py_raise(result) : PyUnicode_FromString(text);
}

static PyObject *pool_close(PyObject *object, PyObject *Py_UNUSED(arguments))
{
	struct py_pool *self = (struct py_pool *)object;

	self->closed = true;
	destroy_closed(self);
	Py_RETURN_NONE;
}

/* ---- The rest ---- */

static PyObject *pool_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	Py_INCREF(self);
	return self;
}

static PyObject *get_handle(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromVoidPtr(((struct py_pool *)self)->handle);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
	return py_device_new(((struct py_pool *)self)->device);
}

static PyObject *get_flag(PyObject *object, void *closure)
{
	struct py_pool *self = (struct py_pool *)object;
	const char *name = closure;

	return PyBool_FromLong(strcmp(name, "imported") == 0    ? self->imported
			       : strcmp(name, "shareable") == 0 ? self->shareable
			       : strcmp(name, "on_host") == 0   ? self->on_host
								: self->closed);
}

static PyObject *get_threshold(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_pool *self = (struct py_pool *)object;
	uint64_t bytes;
	CUresult result;

	if (!py_pool_check(self))
		return NULL;
	result = py_cu.cuMemPoolGetAttribute(self->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
	return result ? py_raise(result) : PyLong_FromUnsignedLongLong(bytes);
}

static int set_threshold(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
	struct py_pool *self = (struct py_pool *)object;
	unsigned long long bytes;
	CUresult result;

	if (!value) {
		PyErr_SetString(PyExc_AttributeError, "release_threshold cannot be deleted");
		return -1;
	}
	if (!py_read_number(value, &bytes) || !py_pool_check(self))
		return -1;
	result = py_cu.cuMemPoolSetAttribute(self->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

static PyObject *pool_repr(PyObject *object)
{
	struct py_pool *self = (struct py_pool *)object;

	return PyUnicode_FromFormat("<cenote.Pool %p of device %d%s, %zu blocks%s>", self->handle, self->device,
				    self->imported ? ", another process's" : "", self->live_count,
				    self->closed ? ", closed" : "");
}

static PyObject *pool_compare(PyObject *self, PyObject *other, int operation)
{
	bool same;

	if (!PyObject_TypeCheck(other, py_pool_type) || (operation != Py_EQ && operation != Py_NE))
		Py_RETURN_NOTIMPLEMENTED;
	same = ((struct py_pool *)self)->handle == ((struct py_pool *)other)->handle;
	return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t pool_hash(PyObject *self)
{
	return (Py_hash_t)((uintptr_t)((struct py_pool *)self)->handle >> 3);
}

static PyGetSetDef pool_fields[] = {
	{"handle", get_handle, NULL, "CUDA's handle, an integer.", NULL},
	{"device", get_device, NULL, "The pool's device.", NULL},
	{"imported", get_flag, NULL, "Whether it is another process's.", (void *)"imported"},
	{"shareable", get_flag, NULL, "Whether it can be sent to other processes.", (void *)"shareable"},
	{"on_host", get_flag, NULL, "Whether the processor can read its memory.", (void *)"on_host"},
	{"closed", get_flag, NULL, "Whether it was closed.", (void *)"closed"},
	{"stats", py_pool_stats, NULL, "The pool's statistics, a cenote.PoolStats. Looks at every block.", NULL},
	{"release_threshold", get_threshold, set_threshold,
	 "How many bytes the pool keeps when a stream is synchronised. All of them at first; trim() gives back more.",
	 NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef pool_methods[] = {
	{"allocate", (PyCFunction)(void (*)(void))pool_allocate, METH_FASTCALL | METH_KEYWORDS,
	 "allocate($self, nbytes, stream=None)\n--\n\nA Block of memory, usable in the stream's order. Not zeroed."},
	{"importers", py_pool_importers, METH_NOARGS,
	 "importers($self, /)\n--\n\nThe processes that have imported blocks of this pool: a list of cenote.Importer."},
	{"watch", pool_watch, METH_NOARGS,
	 "watch($self, /)\n--\n\nA cenote.Watch: its fileno() is readable when a process imports the pool or leaves "
	 "it."},
	{"limit", pool_limit, METH_O,
	 "limit($self, bytes_per_importer, /)\n--\n\nHow many bytes each importer may hold, at least 1; None for no "
	 "limit."},
	{"evict", pool_evict, METH_O,
	 "evict($self, importer, /)\n--\n\nShut out an Importer: it can import nothing more."},
	{"trim", pool_trim, METH_VARARGS,
	 "trim($self, keep_bytes=0, /)\n--\n\nGive unused memory back to the system, down to keep_bytes."},
	{"picture", pool_picture, METH_NOARGS,
	 "picture($self, /)\n--\n\nThe pool's memory as text: # live, o freed, . free, _ given back."},
	{"close", pool_close, METH_NOARGS,
	 "close($self, /)\n--\n\nAllocate nothing more. The pool goes when its last block has been freed."},
	{"_export", pool_export, METH_NOARGS, "A new descriptor of the pool."},
	{"_import", pool_import, METH_VARARGS | METH_CLASS, "_import(descriptor, device, on_host)"},
	{"_set_number", pool_number, METH_O, "_set_number(number): 16 bytes, by which other processes know it"},
	{"_watch", pool_watch_descriptor, METH_NOARGS, "A new descriptor of an eventfd."},
	{"__enter__", pool_enter, METH_NOARGS, NULL},
	{"__exit__", pool_close, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef pool_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_pool, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot pool_slots[] = {
	{Py_tp_doc,
	 (void *)"Pool(device=0, shareable=True, max_size=0, *, location=None, release_threshold=None)\n--\n\n"
		 "Stream-ordered memory of a device. location: None (the device), 'host', or ('numa', node). CUDA "
		 "shares no pool of 'host': it wants shareable=False."},
	{Py_tp_new, pool_make},
	{Py_tp_dealloc, pool_free},
	{Py_tp_repr, pool_repr},
	{Py_tp_richcompare, pool_compare},
	{Py_tp_hash, pool_hash},
	{Py_tp_getset, pool_fields},
	{Py_tp_methods, pool_methods},
	{Py_tp_members, pool_members},
	{0, NULL},
};

static PyType_Spec pool_spec = {
	.name = "cenote.Pool",
	.basicsize = sizeof(struct py_pool),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = pool_slots,
};

int py_pool_setup(PyObject *module)
{
	py_pool_type = (PyTypeObject *)PyType_FromSpec(&pool_spec);
	return py_pool_type ? PyModule_AddType(module, py_pool_type) : -1;
}
