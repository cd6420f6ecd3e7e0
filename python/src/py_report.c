/* SPDX-License-Identifier: MIT */
/*
 * What a pool can be asked: PoolStats and Importer, which are tuples whose fields have names.
 */
#include "py.h"

#include <stdlib.h>

static PyTypeObject *stats_type, *importer_type;

enum { IMPORTERS_TRIES = 8 };

static PyStructSequence_Field stats_fields[] = {
	{"used_bytes", "in live blocks"},
	{"used_high_bytes", "the most of it so far"},
	{"reserved_bytes", "what the pool has from the system"},
	{"reserved_high_bytes", "the most of it so far"},
	{"largest_free_bytes", "the largest free block"},
	{"live_blocks", "blocks that are not freed"},
	{"free_blocks", "free blocks, including those whose free has not happened yet"},
	{"exported_blocks", "blocks that were exported and have not returned"},
	{"importers", "processes that have imported blocks"},
	{"deferred_blocks", "blocks that were freed here and that an importer still holds"},
	{"deferred_bytes", "their bytes"},
	{NULL, NULL},
};

static PyStructSequence_Field importer_fields[] = {
	{"id", "for Pool.evict()"},
	{"pid", "its process; 0: in another PID namespace"},
	{"uid", "its user"},
	{"leaving", "it has gone, or is being shut out"},
	{"held_blocks", "blocks that it has imported and not freed"},
	{"held_bytes", "their bytes"},
	{"deferred_blocks", "of those, the ones that were freed here"},
	{"deferred_bytes", "their bytes"},
	{"joined_ns", "when it imported the pool, as time.monotonic_ns()"},
	{"waiting_since_ns", "when the oldest deferred block was freed; 0: none is"},
	{NULL, NULL},
};

static PyStructSequence_Desc stats_description = {
	.name = "cenote.PoolStats",
	.doc = "A pool's statistics.",
	.fields = stats_fields,
	.n_in_sequence = sizeof stats_fields / sizeof *stats_fields - 1,
};
static PyStructSequence_Desc importer_description = {
	.name = "cenote.Importer",
	.doc = "A process that has imported blocks of a pool.",
	.fields = importer_fields,
	.n_in_sequence = sizeof importer_fields / sizeof *importer_fields - 1,
};

static PyObject *record(PyTypeObject *type, const unsigned long long *values, int count)
{
	PyObject *self = PyStructSequence_New(type);

	for (int i = 0; self && i < count; i++) {
		PyObject *value = PyLong_FromUnsignedLongLong(values[i]);
		if (!value)
			Py_CLEAR(self);
		else
			PyStructSequence_SetItem(self, i, value);
	}
	return self;
}

PyObject *py_pool_stats(PyObject *object, void *Py_UNUSED(closure))
{
	struct py_pool *self = (struct py_pool *)object;
	cenote_pool_statistics s;
	CUresult result;

	if (!py_pool_check(self))
		return NULL;
	py_free_postponed();
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cenote_pool_stats(self->handle, &s, sizeof s);
	Py_END_ALLOW_THREADS
	if (result)
		return py_raise(result);
	return record(stats_type,
		      (unsigned long long[]){s.used_bytes, s.used_high_bytes, s.reserved_bytes, s.reserved_high_bytes,
					     s.largest_free_bytes, s.live_block_count, s.free_block_count,
					     s.exported_block_count, s.importer_count, s.deferred_block_count,
					     s.deferred_bytes},
		      stats_description.n_in_sequence);
}

/* All importers. They come and go, so the room may be too small again. */
static CUresult read_importers(CUmemoryPool pool, cenote_importer **ret_list, size_t *ret_count)
{
	size_t room = 16, count = 0;

	for (int i = 0; i < IMPORTERS_TRIES; i++) {
		cenote_importer *list = calloc(room, sizeof *list);
		CUresult result = list ? py_cu.cenote_pool_importers(pool, list, sizeof *list, room, &count)
				       : CUDA_ERROR_OUT_OF_MEMORY;
		if (result || count <= room || i == IMPORTERS_TRIES - 1) {
			*ret_list = list;
			*ret_count = count < room ? count : room;
			if (result)
				free(list);
			return result;
		}
		free(list);
		room = count + 16;
	}
	return CUDA_ERROR_UNKNOWN;
}

PyObject *py_pool_importers(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct py_pool *self = (struct py_pool *)object;
	cenote_importer *importers = NULL;
	size_t count = 0;
	PyObject *list;
	CUresult result;

	if (!py_pool_check(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	result = read_importers(self->handle, &importers, &count);
	Py_END_ALLOW_THREADS
	if (result)
		return py_raise(result);
	list = PyList_New(0);
	for (size_t i = 0; list && i < count; i++) {
		const cenote_importer *at = &importers[i];
		PyObject *one = record(importer_type,
				       (unsigned long long[]){at->id, (unsigned long long)at->pid, at->uid,
							      (unsigned long long)at->leaving, at->held_block_count,
							      at->held_bytes, at->deferred_block_count,
							      at->deferred_bytes, at->joined_ns, at->waiting_since_ns},
				       importer_description.n_in_sequence);
		if (!one || PyList_Append(list, one))
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	free(importers);
	return list;
}

int py_report_setup(PyObject *module)
{
	stats_type = PyStructSequence_NewType(&stats_description);
	importer_type = PyStructSequence_NewType(&importer_description);
	if (!stats_type || !importer_type)
		return -1;
	return PyModule_AddType(module, stats_type) || PyModule_AddType(module, importer_type) ? -1 : 0;
}
