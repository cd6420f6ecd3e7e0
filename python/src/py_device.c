/* SPDX-License-Identifier: MIT */
/*
 * Device: a GPU, or the host's memory where there is none.
 */
#include "py.h"

PyTypeObject *py_device_type;

static int device_count(void)
{
	int count;
	CUresult result;

	if (py_driver_init())
		return -1;
	result = py_cu.cuDeviceGetCount(&count);
	if (result) {
		py_raise(result);
		return -1;
	}
	return count < PY_DEVICES_MAX ? count : PY_DEVICES_MAX;
}

int py_device_from(PyObject *object)
{
	int count = device_count();
	long ordinal;

	if (count < 0)
		return -1;
	if (object && PyObject_TypeCheck(object, py_device_type))
		return ((struct py_device *)object)->ordinal;
	ordinal = object ? PyLong_AsLong(object) : 0;
	if (ordinal == -1 && PyErr_Occurred())
		return -1;
	if (ordinal < 0 || ordinal >= count) {
		PyErr_Format(PyExc_ValueError, "device %ld: there are %d, from 0", ordinal, count);
		return -1;
	}
	return (int)ordinal;
}

PyObject *py_device_new(int ordinal)
{
	struct py_device *self = PyObject_New(struct py_device, py_device_type);

	if (self)
		self->ordinal = ordinal;
	return (PyObject *)self;
}

PyObject *py_devices(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	int count = device_count();
	PyObject *list = count < 0 ? NULL : PyList_New(0);

	for (int i = 0; list && i < count; i++) {
		PyObject *device = py_device_new(i);
		if (!device || PyList_Append(list, device))
			Py_CLEAR(list);
		Py_XDECREF(device);
	}
	return list;
}

static PyObject *device_make(PyTypeObject *Py_UNUSED(type), PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {(char *)"ordinal", NULL};
	PyObject *object = NULL;
	int ordinal;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:Device", names, &object))
		return NULL;
	ordinal = py_device_from(object);
	return ordinal < 0 ? NULL : py_device_new(ordinal);
}

static void device_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_Free(self);
	Py_DECREF(type);
}

static int ordinal_of(PyObject *self)
{
	return ((struct py_device *)self)->ordinal;
}

static PyObject *device_repr(PyObject *self)
{
	char name[128] = "?";

	py_cu.cuDeviceGetName(name, sizeof name, ordinal_of(self));
	return PyUnicode_FromFormat("<cenote.Device %d: %s>", ordinal_of(self), name);
}

static PyObject *device_compare(PyObject *self, PyObject *other, int operation)
{
	bool same;

	if (!PyObject_TypeCheck(other, py_device_type) || (operation != Py_EQ && operation != Py_NE))
		Py_RETURN_NOTIMPLEMENTED;
	same = ordinal_of(self) == ordinal_of(other);
	return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self)
{
	return ordinal_of(self) + 1;
}

static PyObject *get_ordinal(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromLong(ordinal_of(self));
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
	char name[128];
	CUresult result = py_cu.cuDeviceGetName(name, sizeof name, ordinal_of(self));

	return result ? py_raise(result) : PyUnicode_FromString(name);
}

static PyObject *get_kind(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
	return PyUnicode_FromString(py_cu.cenote_device_kind());
}

static PyObject *get_uuid(PyObject *self, void *Py_UNUSED(closure))
{
	CUuuid uuid;
	CUresult result = py_cu.cuDeviceGetUuid(&uuid, ordinal_of(self));

	return result ? py_raise(result) : PyBytes_FromStringAndSize((const char *)&uuid, sizeof uuid);
}

static PyObject *get_total_bytes(PyObject *self, void *Py_UNUSED(closure))
{
	size_t bytes;
	CUresult result = py_cu.cuDeviceTotalMem(&bytes, ordinal_of(self));

	return result ? py_raise(result) : PyLong_FromSize_t(bytes);
}

static PyObject *get_free_bytes(PyObject *self, void *Py_UNUSED(closure))
{
	struct py_context context;
	size_t free_bytes, total;
	CUresult result = py_context_enter(ordinal_of(self), &context);

	if (!result) {
		result = py_cu.cuMemGetInfo(&free_bytes, &total);
		py_context_leave(&context);
	}
	return result ? py_raise(result) : PyLong_FromSize_t(free_bytes);
}

static PyObject *device_synchronize(PyObject *self, PyObject *Py_UNUSED(unused))
{
	struct py_context context;
	CUresult result;

	Py_BEGIN_ALLOW_THREADS
	result = py_context_enter(ordinal_of(self), &context);
	if (!result) {
		result = py_cu.cuCtxSynchronize();
		py_context_leave(&context);
	}
	Py_END_ALLOW_THREADS
	return py_none_or_raise(result);
}

static PyGetSetDef device_fields[] = {
	{"ordinal", get_ordinal, NULL, "The device's number in this process.", NULL},
	{"name", get_name, NULL, "The device's name.", NULL},
	{"kind", get_kind, NULL, "'host': this machine's memory; 'cuda': a GPU.", NULL},
	{"uuid", get_uuid, NULL, "16 bytes that are the same in every process.", NULL},
	{"total_bytes", get_total_bytes, NULL, "The size of its memory.", NULL},
	{"free_bytes", get_free_bytes, NULL, "How much of its memory is free now.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef device_methods[] = {
	{"synchronize", device_synchronize, METH_NOARGS,
	 "synchronize($self, /)\n--\n\nWait for all work on the device."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot device_slots[] = {
	{Py_tp_doc, (void *)"Device(ordinal=0)\n--\n\nA GPU, or the host's memory where there is none."},
	{Py_tp_new, device_make},
	{Py_tp_dealloc, device_free},
	{Py_tp_repr, device_repr},
	{Py_tp_richcompare, device_compare},
	{Py_tp_hash, device_hash},
	{Py_tp_getset, device_fields},
	{Py_tp_methods, device_methods},
	{0, NULL},
};

static PyType_Spec device_spec = {
	.name = "cenote.Device",
	.basicsize = sizeof(struct py_device),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = device_slots,
};

int py_device_setup(PyObject *module)
{
	py_device_type = (PyTypeObject *)PyType_FromSpec(&device_spec);
	return py_device_type ? PyModule_AddType(module, py_device_type) : -1;
}
