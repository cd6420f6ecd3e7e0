/* SPDX-License-Identifier: MIT */
/*
 * Hold: what is on its way to another process stays, whatever the program does with its object.
 *
 * The program may free a Block that it has sent, close its Pool, or close an Event. For the program they are gone then.
 * CUDA's block, pool or event goes with the last Hold: only then can no receiver miss it. A Block's Hold is one of its
 * Pool as well, for which the receiver may ask, and of the Stream whose event says when the memory is ready: use() may
 * give the Block another one. (A View is sent as a part of its Block.)
 */
#include "py.h"

PyTypeObject *py_hold_type;

/* Whether CUDA knows the pool, as it does not in a forked child. If not, an exception is set. */
static bool is_known(const struct py_pool *pool)
{
	cuuint64_t value;
	CUresult result = CUDA_SUCCESS;

	if (!pool->imported) /* which cannot be sent anyway, and says so */
		result = py_cu.cuMemPoolGetAttribute(pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	if (result)
		py_raise(result);
	return !result;
}

/* Whether it can be sent at all. If not, an exception is set. */
static bool is_there(PyObject *thing)
{
	if (PyObject_TypeCheck(thing, py_block_type)) {
		struct py_block *block = (struct py_block *)thing;
		if (block->pool && block->pool->destroyed)
			PyErr_SetString(PyExc_ValueError, "the block's pool is closed");
		return !PyErr_Occurred() && py_block_check(block);
	}
	if (PyObject_TypeCheck(thing, py_pool_type))
		return py_pool_check((struct py_pool *)thing) && is_known((struct py_pool *)thing);
	if (PyObject_TypeCheck(thing, py_event_type))
		return py_event_check((struct py_event *)thing);
	PyErr_SetString(PyExc_TypeError, "only a Pool, Block, View or Event can be sent");
	return false;
}

PyObject *py_hold(PyObject *Py_UNUSED(module), PyObject *thing)
{
	struct py_hold *self;

	if (PyObject_TypeCheck(thing, py_view_type))
		thing = (PyObject *)((struct py_view *)thing)->layout.block;
	self = is_there(thing) ? (struct py_hold *)PyType_GenericAlloc(py_hold_type, 0) : NULL;
	if (!self)
		return NULL;
	Py_INCREF(thing);
	self->thing = thing;
	if (PyObject_TypeCheck(thing, py_block_type)) {
		self->block = (struct py_block *)thing;
		self->block->hold_count++;
		self->pool = self->block->pool;
		self->stream = self->block->stream;
		py_stream_hold(self->stream);
	} else if (PyObject_TypeCheck(thing, py_pool_type))
		self->pool = (struct py_pool *)thing;
	else {
		self->event = (struct py_event *)thing;
		self->event->hold_count++;
	}
	if (self->pool)
		self->pool->hold_count++;
	return (PyObject *)self;
}

/* CUDA_ERROR_NOT_PERMITTED: in a function of a stream. The rest is to be done later. */
static CUresult let_go(struct py_hold *self)
{
	if (self->block && py_block_let_go(self->block) == CUDA_ERROR_NOT_PERMITTED)
		return CUDA_ERROR_NOT_PERMITTED;
	self->block = NULL;
	if (self->pool && py_pool_let_go(self->pool) == CUDA_ERROR_NOT_PERMITTED)
		return CUDA_ERROR_NOT_PERMITTED;
	self->pool = NULL;
	if (self->event)
		py_event_let_go(self->event);
	self->event = NULL;
	if (self->stream)
		py_stream_let_go(self->stream);
	self->stream = NULL;
	return CUDA_SUCCESS;
}

static void hold_free(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	if (let_go((struct py_hold *)object) == CUDA_ERROR_NOT_PERMITTED && py_postpone(object))
		return;
	Py_DECREF(((struct py_hold *)object)->thing);
	Py_XDECREF(((struct py_hold *)object)->carrier);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyMemberDef hold_members[] = {
	{"thing", T_OBJECT, offsetof(struct py_hold, thing), READONLY, "The Block, Pool or Event."},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot hold_slots[] = {
	{Py_tp_doc, (void *)"What CUDA has for a Block, Pool or Event stays as long as this object lives."},
	{Py_tp_dealloc, hold_free},
	{Py_tp_members, hold_members},
	{0, NULL},
};

static PyType_Spec hold_spec = {
	.name = "cenote.Hold",
	.basicsize = sizeof(struct py_hold),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = hold_slots,
};

int py_hold_setup(PyObject *module)
{
	py_hold_type = (PyTypeObject *)PyType_FromSpec(&hold_spec);
	return py_hold_type ? PyModule_AddType(module, py_hold_type) : -1;
}
