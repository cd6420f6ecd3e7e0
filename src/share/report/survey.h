/* SPDX-License-Identifier: MIT */
/*
 * The survey: going from port to port of this user's processes, and asking each what it shares (report.h).
 *
 * It needs no service thread and no device: a process that shares nothing can look at those that do. Whom it asks is
 * not trusted: numbers must grow, counts are bounded, texts are made printable, and who does not answer in time, or
 * answers what nobody would, is told as one that does not answer.
 */
#ifndef CN_SHARE_REPORT_SURVEY_H
#define CN_SHARE_REPORT_SURVEY_H

#include "share/report/report.h"

struct cn_survey_process {
	int pid;       /* as this process sees it; 0: it cannot */
	int pid_there; /* as it sees itself; 0: it has not said */
	unsigned uid;
	bool answers;
	bool same_namespace; /* its PIDs are ours */
	bool on_gpu;
	uint64_t pool_count, opener_count;
	char program[CN_REPORT_PROGRAM_BYTES];
	const char *directory, *name;
};

/*
 * What was found: a process itself, before what it has; a pool of it, or what it gave out by handles of one kind; or
 * one who has that imported or open.
 */
struct cn_survey_found {
	const struct cn_survey_process *process;
	const struct cn_report_pool *pool;
	const struct cn_report_handles *handles; /* this, or a pool, or neither */
	const struct cn_report_importer *importer;
};
typedef void cn_survey_tell(const struct cn_survey_found *found, void *data);

/* CUDA_ERROR_OPERATING_SYSTEM: a directory is not as it should be; the others have been looked through. */
CUresult cn_survey(cn_survey_tell *tell, void *data);

/* The picture of a pool, wherever it is. CUDA_ERROR_NOT_FOUND: no process has it, or says so. */
struct cn_survey_cell {
	char kind; /* enum cn_pool_cell_kind */
	uint64_t holder;
};
CUresult cn_survey_picture(uint64_t pool_id, struct cn_survey_cell *ret_cells, size_t count, uint64_t *ret_bytes);

#endif
