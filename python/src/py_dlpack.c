/* SPDX-License-Identifier: MIT */
/*
 * DLPack, both ways: https://dmlc.github.io/dlpack/latest
 *
 * Out: a capsule keeps the block and counts as one of its exports until the consumer calls its deleter. On a GPU the
 * consumer's stream waits for the block's. When the capsule comes back, the block's stream waits for the consumer's, if
 * that is a default stream; another one may have been destroyed by then, and its user calls Block.join() before.
 *
 * Read-only memory is marked in capsules of version 1. Older ones cannot say it, and are given out all the same: for
 * PyTorch, which has no read-only tensors. A write through them fails as any write to that memory does.
 *
 * In: Block.from_dlpack() takes memory that lies in a pool of this process, so that it can be sent to others. An array
 * that can only be read makes a block that can only be read, in this process.
 */
#include "py.h"

#include <stdlib.h>
#include <string.h>

const char py_dlpack_doc[] =
	"__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
	"A DLPack capsule of the memory. On a GPU `stream` waits for the block's stream; elsewhere "
	"the call waits.";
const char py_dlpack_device_doc[] = "The kind and the number of the memory's device, as DLPack counts them.";

enum { DEVICE_CPU = 1, DEVICE_CUDA = 2, DEVICE_CUDA_HOST = 3 };
enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };
enum { VERSION_MAJOR = 1, VERSION_MINOR = 0, FLAG_READ_ONLY = 1 };

/* The structures of dlpack.h. */
struct dl_device {
	int32_t type, id;
};
struct dl_type {
	uint8_t code, bits;
	uint16_t lanes;
};
struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t dimension_count;
	struct dl_type type;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};
struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_managed *self);
};
struct dl_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dl_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};

static const char plain_name[] = "dltensor", plain_used[] = "used_dltensor";
static const char versioned_name[] = "dltensor_versioned", versioned_used[] = "used_dltensor_versioned";

/* ---- Out ---- */

/* What a capsule of ours leads to. */
struct loan {
	union {
		struct dl_managed plain;
		struct dl_versioned versioned;
	} managed;
	PyObject *holder; /* the Block or the View */
	struct py_block *block;
	bool is_in_default; /* the consumer's stream is a default stream of a GPU */
	int64_t shape[PY_DIMENSIONS_MAX], strides[PY_DIMENSIONS_MAX];
};

static void end_loan(struct loan *loan);

static const char late_name[] = "cenote.late_loan";

static void free_late(PyObject *capsule)
{
	end_loan(PyCapsule_GetPointer(capsule, late_name));
}

/* In a function of a stream: what can be postponed is an object. Without memory for it, the block stays. */
static void end_later(struct loan *loan)
{
	PyObject *late = PyCapsule_New(loan, late_name, free_late);

	if (!late || !py_postpone(late))
		PyErr_Clear();
}

/* Called by the consumer, in any thread. */
static void end_loan(struct loan *loan)
{
	CUresult result = CUDA_SUCCESS;
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return; /* the process ends, and the memory with it */
	state = PyGILState_Ensure();
	if (loan->is_in_default && !loan->block->freed) /* the legacy one comes behind those of all threads */
		result = py_stream_follow(loan->block->stream->handle, NULL, loan->block->device);
	if (result == CUDA_ERROR_NOT_PERMITTED)
		end_later(loan);
	else {
		loan->block->export_count--;
		Py_DECREF(loan->holder);
		free(loan);
	}
	PyGILState_Release(state);
}

static void delete_plain(struct dl_managed *managed)
{
	end_loan(managed->context);
}

static void delete_versioned(struct dl_versioned *managed)
{
	end_loan(managed->context);
}

/* A capsule that nobody has used. */
static void free_capsule(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, versioned_name)) {
		struct dl_versioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
		managed->deleter(managed);
	} else if (PyCapsule_IsValid(capsule, plain_name)) {
		struct dl_managed *managed = PyCapsule_GetPointer(capsule, plain_name);
		managed->deleter(managed);
	}
}

static struct dl_device device_of(const struct py_block *block)
{
	if (!block->on_host)
		return (struct dl_device){DEVICE_CUDA, block->device};
	return (struct dl_device){py_driver_is_host() ? DEVICE_CPU : DEVICE_CUDA_HOST, 0};
}

PyObject *py_dlpack_device(PyObject *self, PyObject *Py_UNUSED(unused))
{
	struct py_layout layout;

	py_layout_of(self, &layout);
	struct dl_device device = device_of(layout.block);
	return Py_BuildValue("(ii)", device.type, device.id);
}

static PyObject *make_capsule(PyObject *self, const struct py_layout *layout, bool versioned, struct loan *loan)
{
	struct dl_tensor *tensor = versioned ? &loan->managed.versioned.tensor : &loan->managed.plain.tensor;
	int64_t stride = 1;
	PyObject *capsule;

	for (int i = layout->dimension_count - 1; i >= 0; i--) {
		loan->shape[i] = layout->shape[i];
		loan->strides[i] = stride;
		stride *= layout->shape[i];
	}
	*tensor = (struct dl_tensor){
		.data = (void *)(uintptr_t)layout->ptr,
		.device = device_of(layout->block),
		.dimension_count = layout->dimension_count,
		.type = {layout->kind->code, layout->kind->bits, 1},
		.shape = loan->shape,
		.strides = loan->strides,
	};
	if (versioned) {
		loan->managed.versioned.major = VERSION_MAJOR;
		loan->managed.versioned.minor = VERSION_MINOR;
		loan->managed.versioned.context = loan;
		loan->managed.versioned.deleter = delete_versioned;
		loan->managed.versioned.flags = layout->block->read_only ? FLAG_READ_ONLY : 0;
	} else {
		loan->managed.plain.context = loan;
		loan->managed.plain.deleter = delete_plain;
	}
	capsule = PyCapsule_New(&loan->managed, versioned ? versioned_name : plain_name, free_capsule);
	if (!capsule)
		return NULL;
	loan->holder = self;
	loan->block = layout->block;
	Py_INCREF(self);
	layout->block->export_count++;
	return capsule;
}

/* The consumer's stream waits for the block's. -1 means that it does not want to wait. */
static int order_consumer(const struct py_layout *layout, PyObject *stream, struct loan *loan)
{
	long long number = stream == Py_None ? STREAM_LEGACY : PyLong_AsLongLong(stream);
	CUstream consumer = number == STREAM_LEGACY ? NULL : (CUstream)(uintptr_t)number;
	struct py_block *block = layout->block;
	CUresult result;

	if (PyErr_Occurred())
		return -1;
	if (number == -1)
		return 0;
	loan->is_in_default = number == STREAM_LEGACY || number == STREAM_PER_THREAD;
	result = py_stream_follow(consumer, block->stream->handle, block->device);
	if (result)
		py_raise(result);
	return result ? -1 : 0;
}

/* Two integers in a tuple, as DLPack has them. `what` is what it should be, for the exception. */
static bool read_pair(PyObject *object, const char *what, int *ret_first, int *ret_second)
{
	if (PyTuple_Check(object) && PyTuple_Size(object) == 2)
		return PyArg_ParseTuple(object, "ii", ret_first, ret_second);
	PyErr_Format(PyExc_TypeError, "%s is a tuple of two integers, not %R", what, object);
	return false;
}

/* Does the consumer ask for what this memory is? */
static bool check_wishes(const struct py_layout *layout, PyObject *device, PyObject *copy)
{
	struct dl_device ours = device_of(layout->block);
	int type, id;

	if (copy == Py_True) {
		PyErr_SetString(PyExc_BufferError, "__dlpack__ makes no copies");
		return false;
	}
	if (device == Py_None)
		return true;
	if (!read_pair(device, "dl_device", &type, &id))
		return false;
	if (type == ours.type && id == ours.id)
		return true;
	PyErr_SetString(PyExc_BufferError, "the memory is on another device, and __dlpack__ makes no copies");
	return false;
}

PyObject *py_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"stream", (char *)"max_version", (char *)"dl_device", (char *)"copy", NULL};
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None, *capsule = NULL;
	int major = 0, minor = 0, failed;
	struct py_layout layout;
	struct loan *loan;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device,
					 &copy))
		return NULL;
	if (version != Py_None && !read_pair(version, "max_version", &major, &minor))
		return NULL;
	py_layout_of(self, &layout);
	if (!check_wishes(&layout, device, copy) || !py_block_check(layout.block))
		return NULL;
	loan = calloc(1, sizeof *loan);
	if (!loan)
		return PyErr_NoMemory();
	layout.block->export_count++; /* nobody frees it meanwhile */
	failed = layout.block->on_host ? py_stream_wait(layout.block->stream) : order_consumer(&layout, stream, loan);
	if (!failed)
		capsule = make_capsule(self, &layout, major >= VERSION_MAJOR, loan);
	layout.block->export_count--;
	if (!capsule)
		free(loan);
	return capsule;
}

/* ---- In ---- */

static const char lender_plain[] = "cenote.lender", lender_versioned[] = "cenote.lender_versioned";

/* Our own capsule around another library's tensor: when it goes, the tensor goes back. */
static void free_lender(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, lender_versioned)) {
		struct dl_versioned *managed = PyCapsule_GetPointer(capsule, lender_versioned);
		if (managed->deleter)
			managed->deleter(managed);
	} else {
		struct dl_managed *managed = PyCapsule_GetPointer(capsule, lender_plain);
		if (managed->deleter)
			managed->deleter(managed);
	}
}

/* Take the tensor out of its capsule. Returns our capsule, the tensor in it, and whether it can only be read. */
static PyObject *take(PyObject *capsule, const struct dl_tensor **ret_tensor, bool *ret_read_only)
{
	bool versioned = PyCapsule_IsValid(capsule, versioned_name);
	const char *name = versioned ? versioned_name : plain_name;
	void *managed = PyCapsule_GetPointer(capsule, name);
	PyObject *lender;

	if (!managed)
		return NULL;
	if (versioned && ((struct dl_versioned *)managed)->major != VERSION_MAJOR) {
		PyErr_Format(PyExc_BufferError, "the array has DLPack version %u, and this library knows %d",
			     ((struct dl_versioned *)managed)->major, VERSION_MAJOR);
		return NULL;
	}
	lender = PyCapsule_New(managed, versioned ? lender_versioned : lender_plain, free_lender);
	if (!lender)
		return NULL;
	PyCapsule_SetName(capsule, versioned ? versioned_used : plain_used);
	*ret_read_only = versioned && (((struct dl_versioned *)managed)->flags & FLAG_READ_ONLY);
	*ret_tensor = versioned ? &((struct dl_versioned *)managed)->tensor : &((struct dl_managed *)managed)->tensor;
	return lender;
}

/* Ask an array for its capsule, in the order of our stream if it is a GPU's. */
static PyObject *ask(PyObject *array, const struct py_stream *stream)
{
	PyObject *device = PyObject_CallMethod(array, "__dlpack_device__", NULL);
	PyObject *method = device ? PyObject_GetAttrString(array, "__dlpack__") : NULL;
	PyObject *none = method ? PyTuple_New(0) : NULL, *capsule = NULL;
	int type = 0, id;

	if (none && read_pair(device, "the answer of __dlpack_device__()", &type, &id)) {
		PyObject *words = Py_BuildValue("{s:(ii)}", "max_version", VERSION_MAJOR, VERSION_MINOR);
		PyObject *number = words && type == DEVICE_CUDA
					   ? PyLong_FromVoidPtr(stream->handle ? stream->handle : CU_STREAM_LEGACY)
					   : NULL;
		if (number)
			PyDict_SetItemString(words, "stream", number);
		capsule = words ? PyObject_Call(method, none, words) : NULL;
		if (!capsule && words && PyErr_ExceptionMatches(PyExc_TypeError)) { /* an older one: no max_version */
			PyErr_Clear();
			PyDict_DelItemString(words, "max_version");
			capsule = PyObject_Call(method, none, words);
		}
		Py_XDECREF(number);
		Py_XDECREF(words);
	}
	Py_XDECREF(device);
	Py_XDECREF(method);
	Py_XDECREF(none);
	return capsule;
}

static Py_ssize_t contiguous_bytes(const struct dl_tensor *tensor)
{
	int64_t stride = 1;

	for (int i = tensor->dimension_count - 1; i >= 0; i--) {
		if (tensor->strides && tensor->shape[i] > 1 && tensor->strides[i] != stride) {
			PyErr_SetString(PyExc_ValueError, "the array is not contiguous in C's order");
			return -1;
		}
		stride *= tensor->shape[i];
	}
	return (Py_ssize_t)(stride * tensor->type.bits / 8 * tensor->type.lanes);
}

/* NULL without an exception: the memory lies in no pool. */
static PyObject *find_block(CUdeviceptr ptr, Py_ssize_t nbytes, struct py_stream *stream)
{
	CUdeviceptr base = 0;
	CUmemoryPool handle = NULL;
	struct py_pool *pool;
	PyObject *block;
	int device = 0;

	if (py_cu.cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr) || !handle ||
	    py_cu.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr) ||
	    py_cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr))
		return NULL;
	pool = py_pool_of_handle(handle, device < 0 ? 0 : device);
	block = pool ? py_block_new(pool, stream, base, ptr, (size_t)nbytes) : NULL;
	Py_XDECREF((PyObject *)pool);
	return block;
}

static PyObject *block_of(const struct dl_tensor *tensor, struct py_stream *stream)
{
	CUdeviceptr ptr = (CUdeviceptr)(uintptr_t)tensor->data + tensor->byte_offset;
	Py_ssize_t nbytes = contiguous_bytes(tensor);
	PyObject *block = nbytes < 0 ? NULL : find_block(ptr, nbytes, stream);

	if (!block && !PyErr_Occurred())
		PyErr_SetString(PyExc_ValueError,
				"the array's memory lies in no pool of Cenote's: cenote.share() copies it into one");
	return block;
}

PyObject *py_block_lent(PyObject *Py_UNUSED(type), PyObject *arguments)
{
	PyObject *lender, *stream_object, *block;
	struct py_stream *stream;
	unsigned long long address;
	Py_ssize_t nbytes;

	if (!PyArg_ParseTuple(arguments, "KnOO:_lent", &address, &nbytes, &lender, &stream_object) || py_driver_init())
		return NULL;
	stream = py_stream_from(stream_object, 0);
	if (!stream)
		return NULL;
	block = find_block((CUdeviceptr)address, nbytes, stream);
	if (block) {
		Py_INCREF(lender);
		((struct py_block *)block)->lender = lender;
	}
	Py_DECREF((PyObject *)stream);
	if (!block && !PyErr_Occurred())
		Py_RETURN_NONE;
	return block;
}

PyObject *py_block_from_dlpack(PyObject *Py_UNUSED(type), PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"array", (char *)"stream", NULL};
	PyObject *array, *stream_object = NULL, *capsule, *lender = NULL, *block = NULL;
	const struct dl_tensor *tensor = NULL;
	struct py_stream *stream;
	bool read_only = false;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:from_dlpack", names, &array, &stream_object) ||
	    py_driver_init())
		return NULL;
	stream = py_stream_from(stream_object, 0);
	capsule = stream ? ask(array, stream) : NULL;
	lender = capsule ? take(capsule, &tensor, &read_only) : NULL;
	block = lender ? block_of(tensor, stream) : NULL;
	if (block) {
		((struct py_block *)block)->lender = lender;
		((struct py_block *)block)->read_only = read_only;
	} else
		Py_XDECREF(lender);
	Py_XDECREF(capsule);
	Py_XDECREF((PyObject *)stream);
	return block;
}
