/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls that look at other processes: which of them share what (share/report/survey.h).
 */
#include "cenote/cenote.h"

#include "base/guard.h"
#include "pool/pool.h"
#include "share/port/port_internal.h"
#include "share/report/survey.h"

#include <limits.h>
#include <stdlib.h>

_Static_assert(CENOTE_CELLS_MAX == CN_REPORT_CELLS_MAX, "as the header says");
_Static_assert(CENOTE_HELD_BY_SEVERAL == CN_REPORT_SEVERAL, "the same");
_Static_assert(CENOTE_HANDLES_EVENTS == CN_HANDLE_EVENT && CENOTE_HANDLES_MEMORY == CN_HANDLE_MEMORY &&
		       CENOTE_HANDLES_PHYSICAL == CN_HANDLE_FABRIC_MEMORY,
	       "the same");
_Static_assert(CENOTE_CELL_LIVE == CN_POOL_CELL_LIVE && CENOTE_CELL_EXPORTED == CN_POOL_CELL_SHARED &&
		       CENOTE_CELL_DEFERRED == CN_POOL_CELL_DEFERRED && CENOTE_CELL_FREED == CN_POOL_CELL_CACHED &&
		       CENOTE_CELL_FREE == CN_POOL_CELL_FREE && CENOTE_CELL_WITHOUT_MEMORY == CN_POOL_CELL_HOLE &&
		       CENOTE_CELL_UNKNOWN == CN_POOL_CELL_UNKNOWN,
	       "the same");

struct survey {
	void (*found)(const cenote_shared *found, void *data);
	void *data;
};

static cenote_process describe_process(const struct cn_survey_process *process)
{
	return (cenote_process){
		.pid = process->pid,
		.pid_there = process->pid_there,
		.uid = process->uid,
		.answers = process->answers,
		.program = process->program,
		.directory = process->directory,
		.name = process->name,
		.pool_count = process->pool_count,
		.opener_count = process->opener_count,
		.on_gpu = process->on_gpu,
		.truncated = process->truncated,
		.label = process->label,
		.written_ns = process->written_ns,
	};
}

/* A time of another process on our clock; the clock's beginning if it has not run so long. */
static uint64_t time_here(const struct cn_survey_process *process, uint64_t time_ns)
{
	uint64_t now_ns = cn_clock_ns(), here_ns = time_ns + (uint64_t)process->clock_offset_ns;

	return here_ns > now_ns || !here_ns ? 1 : here_ns;
}

static uint64_t age_of(const struct cn_survey_process *process, uint64_t since_ns)
{
	return cn_clock_ns() - time_here(process, since_ns);
}

static cenote_shared_pool describe_pool(const struct cn_survey_process *process, const struct cn_report_pool *pool)
{
	return (cenote_shared_pool){
		.id = pool->id,
		.location_type = pool->location_type,
		.location_id = pool->location_id,
		.used_bytes = pool->used_bytes,
		.reserved_bytes = pool->reserved_bytes,
		.exported_block_count = pool->exported_count,
		.exported_bytes = pool->exported_bytes,
		.deferred_block_count = pool->deferred_count,
		.deferred_bytes = pool->deferred_bytes,
		.importer_count = pool->importer_count,
		.limit_bytes = pool->limit_bytes,
		.age_ns = age_of(process, pool->since_ns),
	};
}

static cenote_shared_handles describe_handles(const struct cn_survey_process *process,
					      const struct cn_report_handles *handles)
{
	return (cenote_shared_handles){
		.kind = (int)handles->kind,
		.shared_count = handles->shared_count,
		.shared_bytes = handles->shared_bytes,
		.deferred_count = handles->deferred_count,
		.deferred_bytes = handles->deferred_bytes,
		.opener_count = handles->opener_count,
		.age_ns = age_of(process, handles->since_ns),
	};
}

static cenote_importer describe_importer(const struct cn_survey_found *found)
{
	const struct cn_report_importer *importer = found->importer;

	return (cenote_importer){
		.id = importer->id,
		.pid = found->holder_pid,
		.uid = importer->uid,
		.leaving = !!(importer->flags & CN_REPORT_LEAVING),
		.node = (int)(importer->node & INT_MAX),
		.held_block_count = importer->held_count,
		.held_bytes = importer->held_bytes,
		.deferred_block_count = importer->deferred_count,
		.deferred_bytes = importer->deferred_bytes,
		.joined_ns = time_here(found->process, importer->since_ns),
		.waiting_since_ns =
			importer->deferred_count ? time_here(found->process, importer->waiting_since_ns) : 0,
	};
}

static cenote_import describe_import(const struct cn_survey_process *process, const struct cn_report_import *import)
{
	return (cenote_import){
		.kind = (int)import->kind,
		.orphaned = !!(import->flags & CN_REPORT_ORPHANED),
		.pool = import->pool,
		.held_count = import->held_count,
		.held_bytes = import->held_bytes,
		.age_ns = age_of(process, import->since_ns),
		.node = (unsigned)import->node,
	};
}

static void tell_found(const struct cn_survey_found *found, void *data)
{
	const struct survey *survey = data;
	cenote_process process = describe_process(found->process);
	cenote_shared_pool pool;
	cenote_shared_handles handles;
	cenote_importer importer;
	cenote_import import;
	cenote_shared shared = {.process = &process};

	if (found->pool) {
		pool = describe_pool(found->process, found->pool);
		shared.pool = &pool;
	}
	if (found->handles) {
		handles = describe_handles(found->process, found->handles);
		shared.handles = &handles;
	}
	if (found->importer) {
		importer = describe_importer(found);
		shared.importer = &importer;
		shared.at_least = !!(found->importer->flags & CN_REPORT_AT_LEAST);
		shared.pid_there = found->holder_pid_there;
		shared.ledger_inode = found->importer->ledger_inode;
	}
	if (found->import) {
		import = describe_import(found->process, found->import);
		shared.import = &import;
	}
	survey->found(&shared, survey->data);
}

CENOTE_API CUresult cenote_survey(unsigned int flags, void (*found)(const cenote_shared *found, void *data), void *data)
{
	struct survey survey = {.found = found, .data = data};

	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_survey() flags 0x%x are unknown", flags);
	if (!found)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "found is NULL");
	return cn_survey(tell_found, &survey);
}

struct memory_survey {
	void (*found)(const cenote_memory_device *device, const cenote_memory_process *process, void *data);
	void *data;
};

static void tell_memory(const struct cn_survey_device *device, int pid, uint64_t bytes, void *data)
{
	const struct memory_survey *survey = data;
	cenote_memory_device told = {
		.directory = device->directory,
		.uid = device->uid,
		.on_gpu = device->on_gpu,
		.number = (int)device->number,
		.process_count = device->process_count,
		.total_bytes = device->total_bytes,
		.used_bytes = device->used_bytes,
		.orphaned_bytes = device->orphaned_bytes,
	};
	cenote_memory_process process = {.pid = pid, .used_bytes = bytes};

	survey->found(&told, bytes ? &process : NULL, survey->data); /* a process that is told of has some */
}

CENOTE_API CUresult cenote_survey_memory(unsigned int flags,
					 void (*found)(const cenote_memory_device *device,
						       const cenote_memory_process *process, void *data),
					 void *data)
{
	struct memory_survey survey = {.found = found, .data = data};

	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_survey_memory() flags 0x%x are unknown", flags);
	if (!found)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "found is NULL");
	return cn_survey_memory(tell_memory, &survey);
}

CENOTE_API CUresult cenote_survey_picture(unsigned long long pool, cenote_cell *ret_cells, size_t cell_count,
					  unsigned long long *ret_bytes)
{
	uint64_t bytes;

	if (!ret_cells || !cell_count || cell_count > CENOTE_CELLS_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a picture has 1 to %d cells, and %zu were asked for, at %p",
				CENOTE_CELLS_MAX, cell_count, (void *)ret_cells);
	if (!cn_guard_check_write(ret_cells, cell_count * sizeof *ret_cells, "ret_cells") ||
	    !cn_guard_check_write(ret_bytes, sizeof *ret_bytes, "ret_bytes"))
		return CUDA_ERROR_INVALID_VALUE;
	struct cn_survey_cell *cells = calloc(cell_count, sizeof *cells);
	if (!cells)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a picture of %zu cells", cell_count);
	CUresult result = cn_survey_picture(pool, cells, cell_count, &bytes);
	for (size_t i = 0; !result && i < cell_count; i++)
		ret_cells[i] = (cenote_cell){.importer = cells[i].holder, .kind = (unsigned char)cells[i].kind};
	free(cells);
	if (!result && ret_bytes)
		*ret_bytes = bytes;
	return result;
}
