/* SPDX-License-Identifier: MIT */
/*
 * The survey: which processes share what, from their status files (status.h).
 *
 * All processes of a directory are asked at the same time to write their files (report.h), with one deadline for all:
 * a user whose processes are silent, however many they are, delays root's survey by that much. Then each file is
 * read, whether its process has answered or not: one that is stopped is shown as it last wrote. A process that is
 * known to be stopped is not waited for.
 *
 * A holder's PID in an exporter's file is as the exporter sees it. Where that is another PID namespace than ours, the
 * exporter is asked for a descriptor of the holder, and the system says which PID that has here and there.
 *
 * It needs no service thread and no device: a process that shares nothing can look at those that do. Nothing that is
 * read or answered is trusted: counts are bounded, and texts are made printable.
 */
#ifndef CN_SHARE_REPORT_SURVEY_H
#define CN_SHARE_REPORT_SURVEY_H

#include "share/report/report.h"

struct cn_survey_process {
	int pid;       /* as this process sees it; 0: it cannot see it */
	int pid_there; /* as it sees itself; 0: it has not said */
	unsigned uid;
	bool answers;
	bool truncated; /* it shares more than is reported */
	bool on_gpu;
	uint64_t pool_count, opener_count;
	uint64_t written_ns;     /* when it wrote what is reported, on our clock; 0: nothing was read */
	int64_t clock_offset_ns; /* what to add to times in its records to have them on our clock */
	const char *program, *label;
	const char *directory, *name;
};

/*
 * What was found: a process itself, before what it has; a pool of it, or what it gave out by handles of one kind; or a
 * process that has that imported or open; or what the process itself has from another.
 */
struct cn_survey_found {
	const struct cn_survey_process *process;
	const struct cn_report_pool *pool;
	const struct cn_report_handles *handles; /* this, or a pool, or neither */
	const struct cn_report_importer *importer;
	const struct cn_report_import *import; /* this alone: what the process has from another */
	int holder_pid, holder_pid_there;      /* the importer's, as we see it and as it sees itself; 0: unknown */
};
typedef void cn_survey_tell(const struct cn_survey_found *found, void *data);

/* CUDA_ERROR_OPERATING_SYSTEM: a directory cannot be used; the others have been looked through. */
CUresult cn_survey(cn_survey_tell *tell, void *data);

/*
 * Look through all runtime directories that concern this process's user; for root, of all users. What is wrong with
 * another user's directory is not told. The first failure is returned, with its sentence.
 */
CUresult cn_survey_directories(CUresult (*look)(const char *path, void *data), void *data);

/* ---- Memory: survey_memory.c ---- */

/* A device, as the processes of one directory share it. */
struct cn_survey_device {
	const char *directory;
	unsigned uid;            /* whose directory it is */
	bool on_gpu;             /* all GPUs together, and only memory of pools that no other process has */
	unsigned number;         /* as the machine counts */
	uint64_t total_bytes;    /* 0 on a GPU */
	uint64_t used_bytes;     /* by all processes, */
	uint64_t orphaned_bytes; /* and of these by no live maker */
	unsigned process_count;
};

/* Called with a device and no bytes, and then with each process that has some of it. PID 0: not visible here. */
typedef void cn_survey_tell_memory(const struct cn_survey_device *device, int pid, uint64_t bytes, void *data);
CUresult cn_survey_memory(cn_survey_tell_memory *tell, void *data);

/* The picture of a pool of any process. CUDA_ERROR_NOT_FOUND: no process has the pool, or none says so. */
struct cn_survey_cell {
	char kind; /* enum cn_pool_cell_kind */
	uint64_t holder;
};
CUresult cn_survey_picture(uint64_t pool_id, struct cn_survey_cell *ret_cells, size_t count, uint64_t *ret_bytes);

#endif
