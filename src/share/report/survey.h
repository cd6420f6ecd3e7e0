/* SPDX-License-Identifier: MIT */
/*
 * The survey: it calls at the port of each of this user's processes and asks what the process shares (report.h).
 *
 * It needs no service thread and no device: a process that shares nothing can look at those that do. The answers are
 * not trusted: ids must grow, counts are bounded, and texts are made printable. A process that does not answer in time,
 * or answers nonsense, is reported as one that does not answer.
 */
#ifndef CN_SHARE_REPORT_SURVEY_H
#define CN_SHARE_REPORT_SURVEY_H

#include "share/report/report.h"

struct cn_survey_process {
	int pid;       /* as this process sees it; 0: it cannot see it */
	int pid_there; /* as it sees itself; 0: it has not said */
	unsigned uid;
	bool answers;
	bool same_namespace; /* its PIDs are in our namespace */
	bool on_gpu;
	uint64_t pool_count, opener_count;
	char program[CN_REPORT_PROGRAM_BYTES];
	const char *directory, *name;
};

/*
 * What was found: a process itself, before what it has; a pool of it, or what it gave out by handles of one kind; or a
 * process that has that imported or open.
 */
struct cn_survey_found {
	const struct cn_survey_process *process;
	const struct cn_report_pool *pool;
	const struct cn_report_handles *handles; /* this, or a pool, or neither */
	const struct cn_report_importer *importer;
};
typedef void cn_survey_tell(const struct cn_survey_found *found, void *data);

/* CUDA_ERROR_OPERATING_SYSTEM: a directory cannot be used; the others have been looked through. */
CUresult cn_survey(cn_survey_tell *tell, void *data);

/* The picture of a pool of any process. CUDA_ERROR_NOT_FOUND: no process has the pool, or none says so. */
struct cn_survey_cell {
	char kind; /* enum cn_pool_cell_kind */
	uint64_t holder;
};
CUresult cn_survey_picture(uint64_t pool_id, struct cn_survey_cell *ret_cells, size_t count, uint64_t *ret_bytes);

#endif
