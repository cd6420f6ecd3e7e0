/* SPDX-License-Identifier: MIT */
/*
 * Block: memory of a pool, in the order of a stream.
 *
 * A Block has one stream: what was given to others is ready when that stream has come to it, and the free is an
 * operation of that stream. A Block that goes away is freed there, without waiting. While something counts on the
 * memory (a View, a buffer, a DLPack capsule) free() raises BufferError; each of those keeps the Block alive.
 *
 * What is on its way to another process stays until it has arrived: then free() only says that the program has given it
 * up (py_hold.c).
 *
 * A part of a block that another library owns (Block.from_dlpack) is not freed here: its capsule goes back instead. So
 * it is with a part of a kept object, which has no pool.
 */
#include "py.h"

PyTypeObject *py_block_type;

bool py_block_check(const struct py_block *block)
{
	if (block->freed)
		PyErr_SetString(PyExc_ValueError, "the block has been freed");
	else if (block->committing)
		PyErr_SetString(PyExc_ValueError, "the object is being committed");
	return !block->freed && !block->committing;
}

static struct py_block *make(struct py_stream *stream, CUdeviceptr base, CUdeviceptr ptr, size_t nbytes)
{
	struct py_block *self = PyObject_New(struct py_block, py_block_type);

	if (!self)
		return NULL;
	py_stream_hold(stream);
	self->pool = NULL;
	self->stream = stream;
	self->base = base;
	self->ptr = ptr;
	self->nbytes = nbytes;
	self->lender = NULL;
	self->export_count = self->hold_count = 0;
	self->freed = self->read_only = self->committing = false;
	self->weak_references = NULL;
	return self;
}

PyObject *py_block_new(struct py_pool *pool, struct py_stream *stream, CUdeviceptr base, CUdeviceptr ptr, size_t nbytes)
{
	struct py_block *self = make(stream, base, ptr, nbytes);

	if (!self)
		return NULL;
	Py_INCREF((PyObject *)pool);
	self->pool = pool;
	self->device = pool->device;
	self->on_host = pool->on_host;
	pool->live_count++;
	return (PyObject *)self;
}

struct py_block *py_block_of_kept(PyObject *kept, int device, CUdeviceptr ptr, size_t nbytes, bool read_only)
{
	struct py_stream *stream = py_stream_from(Py_None, device);
	struct py_block *self = stream ? make(stream, ptr, ptr, nbytes) : NULL;

	Py_XDECREF((PyObject *)stream);
	if (!self)
		return NULL;
	Py_INCREF(kept);
	self->lender = kept;
	self->device = device;
	self->on_host = py_driver_is_host();
	self->read_only = read_only;
	return self;
}

static CUresult free_memory(const struct py_block *self)
{
	struct py_context context;
	CUresult result = py_context_enter(self->device, &context);

	if (result)
		return result;
	result = py_cu.cuMemFreeAsync(self->base, self->stream->handle);
	py_context_leave(&context);
	return result;
}

static CUresult give_back_memory(struct py_block *self)
{
	/* A block of 0 bytes is nowhere. */
	CUresult result = self->lender || !self->base ? CUDA_SUCCESS : free_memory(self);

	if (result == CUDA_ERROR_NOT_PERMITTED)
		return result;
	self->freed = true;
	if (self->lender && !self->pool)
		py_kept_block_gone(self->lender, self);
	Py_CLEAR(self->lender);
	if (self->pool)
		py_pool_block_gone(self->pool);
	py_stream_unuse(self->stream);
	return result;
}

CUresult py_block_give_back(struct py_block *self)
{
	if (!self->hold_count)
		return give_back_memory(self);
	self->freed = true;
	return CUDA_SUCCESS;
}

CUresult py_block_let_go(struct py_block *self)
{
	CUresult result = self->freed && self->hold_count == 1 ? give_back_memory(self) : CUDA_SUCCESS;

	if (result != CUDA_ERROR_NOT_PERMITTED)
		self->hold_count--;
	return result;
}

static void block_free(PyObject *object)
{
	struct py_block *self = (struct py_block *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->lender && !self->pool) /* first: the program's functions of weak references may ask for this part */
		py_kept_block_gone(self->lender, self);
	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	if (!self->freed && py_block_give_back(self) == CUDA_ERROR_NOT_PERMITTED && py_postpone(object))
		return;
	Py_XDECREF((PyObject *)self->pool);
	Py_DECREF((PyObject *)self->stream);
	PyObject_Free(object);
	Py_DECREF(type);
}

/*
 * The stream of an argument, a new reference, for a block that is live. The argument's __cuda_stream__ may do anything,
 * free the block as well: so the block is checked after that.
 */
static struct py_stream *stream_for(struct py_block *self, PyObject *stream_object)
{
	struct py_stream *stream = py_stream_from(stream_object, self->device);

	if (stream && !py_block_check(self)) {
		Py_DECREF((PyObject *)stream);
		return NULL;
	}
	return stream;
}

/* From now on the block's work is in `stream`, behind what it has now. Takes the reference over. */
static int move_to(struct py_block *self, struct py_stream *stream)
{
	CUresult result = py_stream_follow(stream->handle, self->stream->handle, self->device);

	if (result) {
		Py_DECREF((PyObject *)stream);
		py_raise(result);
		return -1;
	}
	py_stream_use(stream);
	py_stream_unuse(self->stream);
	Py_DECREF((PyObject *)self->stream);
	self->stream = stream;
	return 0;
}

static PyObject *method_free(PyObject *object, PyObject *const *values, Py_ssize_t count)
{
	struct py_block *self = (struct py_block *)object;
	struct py_stream *stream = NULL;
	CUresult result;

	if (count > 1) {
		PyErr_SetString(PyExc_TypeError, "free(stream=None)");
		return NULL;
	}
	py_free_postponed(); /* it may be what uses the block */
	if (!py_block_check(self))
		return NULL;
	if (count == 1 && values[0] != Py_None && values[0] != (PyObject *)self->stream) {
		stream = stream_for(self, values[0]);
		if (!stream)
			return NULL;
	}
	if (self->export_count) {
		PyErr_Format(PyExc_BufferError, "the block is in use by %zu views, buffers or DLPack capsules",
			     self->export_count);
		Py_XDECREF((PyObject *)stream);
		return NULL;
	}
	if (stream && move_to(self, stream))
		return NULL;
	result = py_block_give_back(self);
	return py_none_or_raise(result);
}

static PyObject *method_use(PyObject *object, PyObject *stream_object)
{
	struct py_block *self = (struct py_block *)object;
	struct py_stream *stream = stream_for(self, stream_object);

	if (!stream || move_to(self, stream))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *method_join(PyObject *object, PyObject *stream_object)
{
	struct py_block *self = (struct py_block *)object;
	struct py_stream *stream = stream_for(self, stream_object);
	CUresult result;

	if (!stream)
		return NULL;
	result = py_stream_follow(self->stream->handle, stream->handle, self->device);
	Py_DECREF((PyObject *)stream);
	return py_none_or_raise(result);
}

/* ---- Copies ---- */

static CUresult copy_in_stream(const struct py_stream *stream, CUdeviceptr to, CUdeviceptr from, size_t nbytes)
{
	struct py_context context;
	CUresult result = py_context_enter(stream->device, &context);

	if (result)
		return result;
	result = py_cu.cuMemcpyAsync(to, from, nbytes, stream->handle);
	if (!result)
		result = py_cu.cuStreamSynchronize(stream->handle);
	py_context_leave(&context);
	return result;
}

/* Copies in the block's stream, and waits: neither side's memory need live longer. */
static CUresult copy(struct py_block *self, CUdeviceptr to, CUdeviceptr from, size_t nbytes)
{
	struct py_stream *stream = self->stream; /* meanwhile another thread may give the block another one */
	CUresult result;

	py_stream_hold(stream);
	self->export_count++; /* nobody frees it meanwhile */
	Py_BEGIN_ALLOW_THREADS
	result = copy_in_stream(stream, to, from, nbytes);
	Py_END_ALLOW_THREADS
	self->export_count--;
	py_stream_let_go(stream);
	return result;
}

static int copy_in(struct py_block *self, const void *from, size_t nbytes)
{
	CUresult result;

	if (!py_block_check(self)) /* reading the source may have freed the block */
		return -1;
	if (self->read_only) { /* not all such memory is protected: an array's may only be meant so */
		PyErr_SetString(PyExc_BufferError, "the memory can only be read");
		return -1;
	}
	if (nbytes > self->nbytes) {
		PyErr_Format(PyExc_ValueError, "%zu bytes do not fit into a block of %zu", nbytes, self->nbytes);
		return -1;
	}
	result = copy(self, self->ptr, (CUdeviceptr)(uintptr_t)from, nbytes);
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

/* From memory of a GPU, as __cuda_array_interface__ describes it. */
static int copy_in_from_device(struct py_block *self, PyObject *source)
{
	PyObject *parts = py_delegate("device_source", source, NULL), *stream = NULL, *joined = NULL;
	unsigned long long address;
	Py_ssize_t nbytes;
	int result = -1;

	if (parts && PyArg_ParseTuple(parts, "KnO", &address, &nbytes, &stream)) {
		joined = stream == Py_None ? PyLong_FromLong(0) : method_join((PyObject *)self, stream);
		if (joined)
			result = copy_in(self, (const void *)(uintptr_t)address, (size_t)nbytes);
	}
	Py_XDECREF(joined);
	Py_XDECREF(parts);
	return result;
}

/* A View's memory as bytes, because not every element type has a buffer; a new reference. */
static PyObject *bytes_of_view(PyObject *view)
{
	struct py_layout layout;

	py_layout_of(view, &layout);
	return PyObject_CallMethod((PyObject *)layout.block, "view", "nsK", py_layout_bytes(&layout),
				   py_bytes_kind->name, (unsigned long long)(layout.ptr - layout.block->ptr));
}

/* From memory that has a buffer or is on a GPU. */
static int copy_in_from(struct py_block *self, PyObject *source)
{
	Py_buffer buffer;
	int result;

	if (!PyObject_CheckBuffer(source) || PyObject_HasAttrString(source, "__cuda_array_interface__"))
		return copy_in_from_device(self, source);
	if (PyObject_GetBuffer(source, &buffer, PyBUF_C_CONTIGUOUS))
		return -1;
	result = copy_in(self, buffer.buf, (size_t)buffer.len);
	PyBuffer_Release(&buffer);
	return result;
}

static PyObject *method_copy_from(PyObject *object, PyObject *source)
{
	struct py_block *self = (struct py_block *)object;
	int result = -1;

	if (!py_block_check(self))
		return NULL;
	source = PyObject_TypeCheck(source, py_view_type) ? bytes_of_view(source) : (Py_INCREF(source), source);
	if (source)
		result = copy_in_from(self, source);
	Py_XDECREF(source);
	if (result)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *method_tobytes(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_block *self = (struct py_block *)object;
	PyObject *bytes;
	CUresult result;

	if (!py_block_check(self))
		return NULL;
	bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)self->nbytes);
	if (!bytes)
		return NULL;
	result = copy(self, (CUdeviceptr)(uintptr_t)PyBytes_AsString(bytes), self->ptr, self->nbytes);
	if (!result)
		return bytes;
	Py_DECREF(bytes);
	return py_raise(result);
}

/* ---- Between processes ---- */

static PyObject *block_name(PyObject *object, PyObject *Py_UNUSED(unused))
{
	return py_delegate("block_name", object, NULL);
}

/* ---- The rest ---- */

static PyObject *block_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	Py_INCREF(self);
	return self;
}

/* Frees it. If an exception has come, that is the one to see: a block in use is then freed with its last user. */
static PyObject *block_exit(PyObject *object, PyObject *arguments)
{
	PyObject *kind = Py_None, *error, *trace, *done;

	if (!PyArg_ParseTuple(arguments, "|OOO:__exit__", &kind, &error, &trace))
		return NULL;
	if (((struct py_block *)object)->freed)
		Py_RETURN_NONE;
	done = method_free(object, NULL, 0);
	if (done || kind == Py_None || !PyErr_ExceptionMatches(PyExc_BufferError))
		return done;
	PyErr_Clear();
	Py_RETURN_NONE;
}

static PyObject *get_ptr(PyObject *self, void *Py_UNUSED(closure))
{
	if (!py_block_check((struct py_block *)self))
		return NULL;
	return PyLong_FromUnsignedLongLong(((struct py_block *)self)->ptr);
}

static PyObject *get_nbytes(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromSize_t(((struct py_block *)self)->nbytes);
}

static PyObject *get_pool(PyObject *self, void *Py_UNUSED(closure))
{
	PyObject *pool = (PyObject *)((struct py_block *)self)->pool;

	pool = pool ? pool : Py_None;
	Py_INCREF(pool);
	return pool;
}

static PyObject *get_stream(PyObject *self, void *Py_UNUSED(closure))
{
	PyObject *stream = (PyObject *)((struct py_block *)self)->stream;

	Py_INCREF(stream);
	return stream;
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
	return py_device_new(((struct py_block *)self)->device);
}

static PyObject *get_freed(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_block *)self)->freed);
}

static PyObject *get_imported(PyObject *self, void *Py_UNUSED(closure))
{
	const struct py_pool *pool = ((struct py_block *)self)->pool;

	return PyBool_FromLong(!pool || pool->imported);
}

static PyObject *get_read_only(PyObject *self, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct py_block *)self)->read_only);
}

static PyObject *block_repr(PyObject *object)
{
	struct py_block *self = (struct py_block *)object;

	if (self->freed)
		return PyUnicode_FromFormat("<cenote.Block of %zu bytes, freed>", self->nbytes);
	return PyUnicode_FromFormat("<cenote.Block of %zu bytes at %p on device %d%s>", self->nbytes, (void *)self->ptr,
				    self->device,
				    !self->pool            ? ", kept"
				    : self->pool->imported ? ", another process's"
							   : "");
}

static PyObject *block_compare(PyObject *object, PyObject *other_object, int operation)
{
	struct py_block *self = (struct py_block *)object, *other = (struct py_block *)other_object;
	bool same = object == other_object;

	if (!PyObject_TypeCheck(other_object, py_block_type) || (operation != Py_EQ && operation != Py_NE))
		Py_RETURN_NOTIMPLEMENTED;
	if (!same && !self->freed && !other->freed)
		same = self->ptr == other->ptr && self->nbytes == other->nbytes;
	return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t block_hash(PyObject *self)
{
	return (Py_hash_t)(((struct py_block *)self)->ptr >> 4);
}

static PyGetSetDef block_fields[] = {
	{"ptr", get_ptr, NULL, "The address of its first byte.", NULL},
	{"nbytes", get_nbytes, NULL, "Its size.", NULL},
	{"pool", get_pool, NULL, "The Pool that it is of; None: it is a part of a kept object.", NULL},
	{"stream", get_stream, NULL, "The Stream in which its work is, and in which it is freed.", NULL},
	{"device", get_device, NULL, "Its Device.", NULL},
	{"freed", get_freed, NULL, "Whether free() was called.", NULL},
	{"imported", get_imported, NULL, "Whether it is another process's, or kept: this process cannot send it.",
	 NULL},
	{"read_only", get_read_only, NULL, "Whether the memory can only be read.", NULL},
	{"__array_interface__", py_array_interface, NULL, py_array_interface_doc, NULL},
	{"__cuda_array_interface__", py_cuda_array_interface, NULL, py_cuda_array_interface_doc, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyObject *method_view(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	PyObject *all = PyTuple_New(1), *view = NULL;

	if (all) {
		Py_INCREF(self);
		PyTuple_SetItem(all, 0, self);
		PyObject *joined = PySequence_Concat(all, arguments);
		view = joined ? PyObject_Call((PyObject *)py_view_type, joined, keywords) : NULL;
		Py_XDECREF(joined);
	}
	Py_XDECREF(all);
	return view;
}

static PyMethodDef block_methods[] = {
	{"free", (PyCFunction)(void (*)(void))method_free, METH_FASTCALL,
	 "free($self, stream=None, /)\n--\n\nGive the memory back, in the order of the block's stream, or of another "
	 "one behind it. Waits for nothing. BufferError: a view, buffer or DLPack capsule is still alive."},
	{"view", (PyCFunction)(void (*)(void))method_view, METH_VARARGS | METH_KEYWORDS,
	 "view($self, shape=None, dtype='uint8', offset=0)\n--\n\nThe memory as an array: a View."},
	{"use", method_use, METH_O,
	 "use($self, stream, /)\n--\n\nFrom now on the block's work is in `stream`, behind what it has now."},
	{"join", method_join, METH_O,
	 "join($self, stream, /)\n--\n\nThe block's stream waits for what `stream` has now: call it when another "
	 "stream has used the block."},
	{"copy_from", method_copy_from, METH_O,
	 "copy_from($self, source, /)\n--\n\nCopy a buffer, or a GPU's array, to the block's beginning, and wait."},
	{"tobytes", method_tobytes, METH_NOARGS, "tobytes($self, /)\n--\n\nA copy of the contents."},
	{"name", block_name, METH_NOARGS,
	 "name($self, /)\n--\n\nBytes by which another process of the same user gets the block: cenote.attach(name)."},
	{"from_dlpack", (PyCFunction)(void (*)(void))py_block_from_dlpack, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
	 "from_dlpack($type, array, stream=None)\n--\n\nThe memory of another library's array, which lies in a pool of "
	 "this process. Keeps the array's memory until it is freed. Copies nothing."},
	{"__dlpack__", (PyCFunction)(void (*)(void))py_dlpack, METH_VARARGS | METH_KEYWORDS, py_dlpack_doc},
	{"__dlpack_device__", py_dlpack_device, METH_NOARGS, py_dlpack_device_doc},
	{"_lent", py_block_lent, METH_VARARGS | METH_CLASS,
	 "_lent(address, nbytes, lender, stream): memory of another object, which is kept; None: it lies in no pool."},
	{"__enter__", block_enter, METH_NOARGS, NULL},
	{"__exit__", block_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef block_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_block, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot block_slots[] = {
	{Py_tp_doc,
	 (void *)"Memory of a pool, which Pool.allocate() makes, or a part of a kept object. It is freed with the "
		 "object, or by free()."},
	{Py_tp_dealloc, block_free},
	{Py_tp_repr, block_repr},
	{Py_tp_richcompare, block_compare},
	{Py_tp_hash, block_hash},
	{Py_tp_getset, block_fields},
	{Py_tp_methods, block_methods},
	{Py_tp_members, block_members},
	{Py_bf_getbuffer, py_buffer_get},
	{Py_bf_releasebuffer, py_buffer_release},
	{0, NULL},
};

static PyType_Spec block_spec = {
	.name = "cenote.Block",
	.basicsize = sizeof(struct py_block),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = block_slots,
};

int py_block_setup(PyObject *module)
{
	py_block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
	return py_block_type ? PyModule_AddType(module, py_block_type) : -1;
}
