/* SPDX-License-Identifier: MIT */
/*
 * CUDA's codes as exceptions.
 *
 * The classes are made in Python (cenote/_errors.py): one for each name of CUDA's, below cenote.CudaError. Here is only
 * the table from code to class. The sentence belongs to the thread and is read before anything else is called.
 */
#include "py.h"

static PyObject *base, *classes;

PyObject *py_error_set(PyObject *Py_UNUSED(module), PyObject *arguments)
{
	PyObject *new_base, *new_classes;

	if (!PyArg_ParseTuple(arguments, "OO!:set_errors", &new_base, &PyDict_Type, &new_classes))
		return NULL;
	Py_INCREF(new_base);
	Py_INCREF(new_classes);
	Py_XDECREF(base);
	Py_XDECREF(classes);
	base = new_base;
	classes = new_classes;
	Py_RETURN_NONE;
}

PyObject *py_error_name(PyObject *Py_UNUSED(module), PyObject *code)
{
	long number = PyLong_AsLong(code);
	const char *name;

	if (number == -1 && PyErr_Occurred())
		return NULL;
	if (py_cu.cuGetErrorName((CUresult)number, &name))
		Py_RETURN_NONE;
	return PyUnicode_FromString(name);
}

PyObject *py_raise_sentence(CUresult result, const char *sentence)
{
	const char *name = "CUDA_ERROR_UNKNOWN";
	PyObject *code = PyLong_FromLong((long)result), *class, *values;

	if (!code)
		return NULL;
	class = classes ? PyDict_GetItemWithError(classes, code) : NULL;
	if (!class)
		class = base ? base : PyExc_RuntimeError;
	py_cu.cuGetErrorName(result, &name);
	/* The sentence may quote a file's name, which need not be UTF-8. */
	values = Py_BuildValue("(NsN)", code, name, PyUnicode_DecodeFSDefault(sentence));
	if (values && !PyErr_Occurred())
		PyErr_SetObject(class, values);
	Py_XDECREF(values);
	return NULL;
}

PyObject *py_raise(CUresult result)
{
	return py_raise_sentence(result, py_cu.cenote_last_error());
}

PyObject *py_none_or_raise(CUresult result)
{
	if (result)
		return py_raise(result);
	Py_RETURN_NONE;
}
