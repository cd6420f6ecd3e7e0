/* SPDX-License-Identifier: MIT */
/*
 * Element types and shapes; View: a block's memory as an array.
 *
 * A View is contiguous, in C's order. It keeps its block alive, and as long as it lives the block cannot be freed.
 */
#include "py.h"

#include <string.h>

PyTypeObject *py_view_type;

enum { CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_COMPLEX = 5, CODE_BOOL = 6 };

const struct py_kind py_kinds[] = {
	{"uint8", "|u1", "B", CODE_UINT, 8},
	{"int8", "|i1", "b", CODE_INT, 8},
	{"bool", "|b1", "?", CODE_BOOL, 8},
	{"uint16", "<u2", "H", CODE_UINT, 16},
	{"int16", "<i2", "h", CODE_INT, 16},
	{"float16", "<f2", "e", CODE_FLOAT, 16},
	{"bfloat16", NULL, NULL, CODE_BFLOAT, 16},
	{"uint32", "<u4", "I", CODE_UINT, 32},
	{"int32", "<i4", "i", CODE_INT, 32},
	{"float32", "<f4", "f", CODE_FLOAT, 32},
	{"uint64", "<u8", "Q", CODE_UINT, 64},
	{"int64", "<i8", "q", CODE_INT, 64},
	{"float64", "<f8", "d", CODE_FLOAT, 64},
	{"complex64", "<c8", "Zf", CODE_COMPLEX, 64},
	{"complex128", "<c16", "Zd", CODE_COMPLEX, 128},
};
enum { KIND_COUNT = sizeof py_kinds / sizeof *py_kinds };
const struct py_kind *const py_bytes_kind = &py_kinds[0];

const struct py_kind *py_kind_of_dlpack(uint8_t code, uint8_t bits)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (py_kinds[i].code == code && py_kinds[i].bits == bits)
			return &py_kinds[i];
	return NULL;
}

static const struct py_kind *find_kind(const char *word)
{
	if (strncmp(word, "torch.", 6) == 0)
		word += 6;
	if (strcmp(word, "bool_") == 0) /* NumPy's class */
		word = "bool";
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (strcmp(py_kinds[i].name, word) == 0 ||
		    (py_kinds[i].typestr && strcmp(py_kinds[i].typestr, word) == 0))
			return &py_kinds[i];
	return NULL;
}

/* NumPy's types have the same name in either order of bytes. */
static bool is_big_endian(PyObject *type)
{
	PyObject *order = PyObject_GetAttrString(type, "byteorder");
	bool is_big = order && PyUnicode_Check(order) && PyUnicode_CompareWithASCIIString(order, ">") == 0;

	PyErr_Clear();
	Py_XDECREF(order);
	return is_big;
}

/* A string, or an object of NumPy's, PyTorch's or JAX's that has the type's name. */
static const struct py_kind *read_kind(PyObject *object)
{
	static const char *const places[] = {"name", "__name__"};
	PyObject *word = PyUnicode_Check(object) ? (Py_INCREF(object), object) : NULL;
	const struct py_kind *kind = NULL;

	if (!word && is_big_endian(object)) {
		PyErr_Format(PyExc_TypeError, "elements of %R are big-endian, and views are little-endian", object);
		return NULL;
	}
	for (int i = 0; !word && i < 2; i++) {
		word = PyObject_GetAttrString(object, places[i]);
		if (word && !PyUnicode_Check(word))
			Py_CLEAR(word);
		PyErr_Clear();
	}
	if (!word)
		word = PyObject_Str(object);
	if (!word)
		return NULL;
	const char *text = PyUnicode_AsUTF8AndSize(word, NULL);
	kind = text ? find_kind(text) : NULL;
	if (!kind && !PyErr_Occurred())
		PyErr_Format(PyExc_TypeError, "no element type is called '%U'", word);
	Py_DECREF(word);
	return kind;
}

/* ---- Layouts ---- */

void py_layout_of(PyObject *self, struct py_layout *ret_layout)
{
	if (PyObject_TypeCheck(self, py_view_type)) {
		*ret_layout = ((struct py_view *)self)->layout;
		return;
	}
	ret_layout->block = (struct py_block *)self;
	ret_layout->ptr = ret_layout->block->ptr;
	ret_layout->kind = py_bytes_kind;
	ret_layout->dimension_count = 1;
	ret_layout->shape[0] = (Py_ssize_t)ret_layout->block->nbytes;
}

Py_ssize_t py_layout_item_bytes(const struct py_layout *layout)
{
	return layout->kind->bits / 8;
}

Py_ssize_t py_layout_bytes(const struct py_layout *layout)
{
	Py_ssize_t bytes = py_layout_item_bytes(layout);

	for (int i = 0; i < layout->dimension_count; i++)
		bytes *= layout->shape[i];
	return bytes;
}

PyObject *py_layout_shape(const struct py_layout *layout)
{
	PyObject *shape = PyTuple_New(layout->dimension_count);

	for (int i = 0; shape && i < layout->dimension_count; i++) {
		PyObject *length = PyLong_FromSsize_t(layout->shape[i]);
		if (!length || PyTuple_SetItem(shape, i, length))
			Py_CLEAR(shape);
	}
	return shape;
}

static int read_sequence(PyObject *object, struct py_layout *layout)
{
	Py_ssize_t count = PySequence_Size(object);

	if (count < 0)
		return -1;
	if (count > PY_DIMENSIONS_MAX) {
		PyErr_Format(PyExc_ValueError, "a shape has at most %d dimensions", PY_DIMENSIONS_MAX);
		return -1;
	}
	layout->dimension_count = (int)count;
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *length = PySequence_GetItem(object, i);
		layout->shape[i] = length ? PyNumber_AsSsize_t(length, PyExc_OverflowError) : -1;
		Py_XDECREF(length);
		if (PyErr_Occurred())
			return -1;
	}
	return 0;
}

/* Reads the shape, and checks that `room` bytes are enough for it. */
static int read_shape(PyObject *object, struct py_layout *layout, Py_ssize_t room)
{
	Py_ssize_t items = room / py_layout_item_bytes(layout);
	bool fits;

	layout->dimension_count = 1;
	if (object == Py_None)
		layout->shape[0] = items;
	else if (!PySequence_Check(object)) /* NumPy's arrays are sequences, and have __index__ */
		layout->shape[0] = PyNumber_AsSsize_t(object, PyExc_OverflowError);
	else if (read_sequence(object, layout))
		return -1;
	if (PyErr_Occurred())
		return -1;
	for (int i = 0; i < layout->dimension_count; i++)
		if (layout->shape[i] == 0)
			items = PY_SSIZE_T_MAX / py_layout_item_bytes(layout); /* nothing fits; strides are numbers */

	fits = items > 0 || layout->dimension_count > 0; /* without dimensions there is one item */
	for (int i = 0; fits && i < layout->dimension_count; i++) {
		Py_ssize_t length = layout->shape[i];
		fits = length >= 0 && items >= length;
		items = length ? items / length : items;
	}
	if (!fits)
		PyErr_Format(PyExc_ValueError, "this shape does not fit into %zd bytes of %s", room,
			     layout->kind->name);
	return fits ? 0 : -1;
}

/* ---- View ---- */

static PyObject *view_make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"block", (char *)"shape", (char *)"dtype", (char *)"offset", NULL};
	PyObject *shape = Py_None, *kind = NULL;
	Py_ssize_t offset = 0;
	struct py_block *block;
	struct py_layout layout = {0};
	struct py_view *self;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|OOn:View", names, py_block_type, &block, &shape,
					 &kind, &offset))
		return NULL;
	layout.kind = kind ? read_kind(kind) : py_bytes_kind;
	if (!layout.kind)
		return NULL;
	if (offset < 0 || (size_t)offset > block->nbytes) {
		PyErr_Format(PyExc_ValueError, "offset %zd is not in a block of %zu bytes", offset, block->nbytes);
		return NULL;
	}
	if (read_shape(shape, &layout, (Py_ssize_t)block->nbytes - offset) || !py_block_check(block))
		return NULL;
	layout.ptr = block->ptr + (size_t)offset;
	layout.block = block;
	self = (struct py_view *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	self->layout = layout;
	Py_INCREF((PyObject *)block);
	block->export_count++;
	return (PyObject *)self;
}

static void view_free(PyObject *object)
{
	struct py_view *self = (struct py_view *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	self->layout.block->export_count--;
	Py_DECREF((PyObject *)self->layout.block);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *get_block(PyObject *self, void *Py_UNUSED(closure))
{
	PyObject *block = (PyObject *)((struct py_view *)self)->layout.block;

	Py_INCREF(block);
	return block;
}

static PyObject *get_shape(PyObject *self, void *Py_UNUSED(closure))
{
	return py_layout_shape(&((struct py_view *)self)->layout);
}

static PyObject *get_dtype(PyObject *self, void *Py_UNUSED(closure))
{
	return PyUnicode_FromString(((struct py_view *)self)->layout.kind->name);
}

static PyObject *get_nbytes(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromSsize_t(py_layout_bytes(&((struct py_view *)self)->layout));
}

static PyObject *get_ptr(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLongLong(((struct py_view *)self)->layout.ptr);
}

static PyObject *get_offset(PyObject *self, void *Py_UNUSED(closure))
{
	const struct py_layout *layout = &((struct py_view *)self)->layout;

	return PyLong_FromUnsignedLongLong(layout->ptr - layout->block->ptr);
}

static PyObject *view_repr(PyObject *self)
{
	const struct py_layout *layout = &((struct py_view *)self)->layout;
	PyObject *shape = py_layout_shape(layout), *text;

	text = shape ? PyUnicode_FromFormat("<cenote.View %R of %s in %R>", shape, layout->kind->name, layout->block)
		     : NULL;
	Py_XDECREF(shape);
	return text;
}

static PyGetSetDef view_fields[] = {
	{"block", get_block, NULL, "The Block whose memory it is.", NULL},
	{"shape", get_shape, NULL, "The lengths of its dimensions.", NULL},
	{"dtype", get_dtype, NULL, "The name of its element type.", NULL},
	{"nbytes", get_nbytes, NULL, "Its size.", NULL},
	{"ptr", get_ptr, NULL, "The address of its first byte.", NULL},
	{"offset", get_offset, NULL, "Where in the block it begins, in bytes.", NULL},
	{"__array_interface__", py_array_interface, NULL, py_array_interface_doc, NULL},
	{"__cuda_array_interface__", py_cuda_array_interface, NULL, py_cuda_array_interface_doc, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef view_methods[] = {
	{"__dlpack__", (PyCFunction)(void (*)(void))py_dlpack, METH_VARARGS | METH_KEYWORDS, py_dlpack_doc},
	{"__dlpack_device__", py_dlpack_device, METH_NOARGS, py_dlpack_device_doc},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef view_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_view, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot view_slots[] = {
	{Py_tp_doc,
	 (void *)"View(block, shape=None, dtype='uint8', offset=0)\n--\n\nA block's memory as an array: NumPy, "
		 "PyTorch, CuPy and JAX take it without a copy. While it lives, the block cannot be freed."},
	{Py_tp_new, view_make},
	{Py_tp_dealloc, view_free},
	{Py_tp_repr, view_repr},
	{Py_tp_getset, view_fields},
	{Py_tp_methods, view_methods},
	{Py_tp_members, view_members},
	{Py_bf_getbuffer, py_buffer_get},
	{Py_bf_releasebuffer, py_buffer_release},
	{0, NULL},
};

static PyType_Spec view_spec = {
	.name = "cenote.View",
	.basicsize = sizeof(struct py_view),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = view_slots,
};

int py_layout_setup(PyObject *module)
{
	py_view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
	return py_view_type ? PyModule_AddType(module, py_view_type) : -1;
}
