/* SPDX-License-Identifier: MIT */
/*
 * The buffer protocol and NumPy's __array_interface__ for memory that the processor can read, and
 * __cuda_array_interface__ (version 3) for a GPU's.
 *
 * The first two know no streams. So the block's stream is synchronised before memory is handed out. A buffer counts as
 * an export of its block until it is released; the interfaces, which nobody releases, only keep the object alive.
 */
#include "py.h"

#include <stdlib.h>

const char py_array_interface_doc[] = "NumPy's description of the memory, where the processor can read it. Getting it "
				      "waits for the block's stream.";
const char py_cuda_array_interface_doc[] = "CUDA's description of the memory on a GPU, version 3, with the stream that "
					   "a consumer must wait for.";

/* Wait for the block's stream; nobody frees the block meanwhile. */
static int wait_for(struct py_block *block)
{
	int result;

	block->export_count++;
	result = py_stream_wait(block->stream);
	block->export_count--;
	return result;
}

static int check_buffer(const struct py_layout *layout, int flags)
{
	if (!py_block_check(layout->block))
		return -1;
	if (!layout->block->on_host)
		PyErr_SetString(PyExc_BufferError, "the memory is a GPU's: use DLPack, __cuda_array_interface__ or "
						   "tobytes()");
	else if (layout->block->read_only && flags & PyBUF_WRITABLE)
		PyErr_SetString(PyExc_BufferError, "the memory can only be read");
	else if (!layout->kind->format)
		PyErr_Format(PyExc_BufferError, "the buffer protocol has no %s", layout->kind->name);
	else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && layout->dimension_count > 1)
		PyErr_SetString(PyExc_BufferError, "the memory is contiguous in C's order, not in Fortran's");
	else
		return 0;
	return -1;
}

int py_buffer_get(PyObject *self, Py_buffer *buffer, int flags)
{
	struct py_layout layout;
	Py_ssize_t *numbers, stride;

	buffer->obj = NULL;
	py_layout_of(self, &layout);
	if (check_buffer(&layout, flags) || wait_for(layout.block))
		return -1;
	numbers = malloc(2 * PY_DIMENSIONS_MAX * sizeof *numbers); /* shape, strides */
	if (!numbers) {
		PyErr_NoMemory();
		return -1;
	}
	stride = py_layout_item_bytes(&layout);
	for (int i = layout.dimension_count - 1; i >= 0; i--) {
		numbers[i] = layout.shape[i];
		numbers[PY_DIMENSIONS_MAX + i] = stride;
		stride *= layout.shape[i];
	}
	buffer->buf = (void *)(uintptr_t)layout.ptr;
	buffer->len = py_layout_bytes(&layout);
	buffer->itemsize = py_layout_item_bytes(&layout);
	buffer->readonly = layout.block->read_only;
	buffer->format = (flags & PyBUF_FORMAT) ? (char *)layout.kind->format : NULL;
	buffer->ndim = layout.dimension_count;
	buffer->shape = (flags & PyBUF_ND) ? numbers : NULL;
	buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + PY_DIMENSIONS_MAX : NULL;
	buffer->suboffsets = NULL;
	buffer->internal = numbers;
	layout.block->export_count++;
	Py_INCREF(self);
	buffer->obj = self;
	return 0;
}

void py_buffer_release(PyObject *self, Py_buffer *buffer)
{
	struct py_layout layout;

	py_layout_of(self, &layout);
	layout.block->export_count--;
	free(buffer->internal);
}

static PyObject *interface(const struct py_layout *layout, PyObject *stream)
{
	PyObject *shape = py_layout_shape(layout), *interface;

	if (!shape || !stream) {
		Py_XDECREF(shape);
		Py_XDECREF(stream);
		return NULL;
	}
	interface = Py_BuildValue("{s:N,s:s,s:(KO),s:i,s:O}", "shape", shape, "typestr", layout->kind->typestr, "data",
				  (unsigned long long)layout->ptr, layout->block->read_only ? Py_True : Py_False,
				  "version", 3, "strides", Py_None);
	if (interface && stream != Py_None && PyDict_SetItemString(interface, "stream", stream))
		Py_CLEAR(interface);
	Py_DECREF(stream);
	return interface;
}

static bool check_interface(const struct py_layout *layout, bool wants_host)
{
	if (!py_block_check(layout->block))
		return false;
	if (layout->block->on_host != wants_host)
		PyErr_SetString(PyExc_AttributeError, wants_host
							      ? "__array_interface__: the memory is a GPU's"
							      : "__cuda_array_interface__: the memory is not a GPU's");
	else if (!layout->kind->typestr)
		PyErr_Format(PyExc_AttributeError, "array interfaces have no %s; DLPack has", layout->kind->name);
	else
		return true;
	return false;
}

PyObject *py_array_interface(PyObject *self, void *Py_UNUSED(closure))
{
	struct py_layout layout;

	py_layout_of(self, &layout);
	if (!check_interface(&layout, true) || wait_for(layout.block))
		return NULL;
	Py_INCREF(Py_None);
	return interface(&layout, Py_None);
}

PyObject *py_cuda_array_interface(PyObject *self, void *Py_UNUSED(closure))
{
	struct py_layout layout;

	py_layout_of(self, &layout);
	if (!check_interface(&layout, false))
		return NULL;
	return interface(&layout, PyObject_GetAttrString((PyObject *)layout.block->stream, "handle"));
}
