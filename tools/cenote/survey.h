/* SPDX-License-Identifier: MIT */
/*
 * Which processes share what, for cenote ps, top and map: the results of cenote_survey(), and physical memory, which no
 * process reports, and which is found in /proc.
 */
#ifndef CENOTE_TOOLS_SURVEY_H
#define CENOTE_TOOLS_SURVEY_H

#include "command.h"
#include "container.h"

#include <cenote/cenote.h>

#include <stddef.h>
#include <stdio.h>

enum { PROGRAM_CHARS = 32, USER_CHARS = 33, AMOUNT_CHARS = 16, ERROR_CHARS = 512 };

/* What the system says of a process. */
struct identity {
	char program[PROGRAM_CHARS]; /* "": unknown */
	int pid_there;               /* its PID as it sees itself; 0: unknown */
	bool uid_known;
	unsigned int uid;
	struct container container;
};

/* A process that has imported a pool, or has opened what was given out by handles. */
struct holder {
	cenote_importer importer;
	bool at_least; /* more blocks may wait for it than its numbers say */
	unsigned long long ledger_inode;
	struct identity identity;
};

struct sharer_pool {
	cenote_shared_pool pool;
	struct holder *holders;
	size_t holder_count;
};

struct sharer_handles {
	cenote_shared_handles handles;
	struct holder *holders;
	size_t holder_count;
};
enum { HANDLE_KINDS = 2 };

/* A process that shares something, or has something from another. */
struct sharer {
	cenote_process process;   /* use these texts and not those in it */
	struct identity identity; /* its program as it says itself */
	char name[33], label[PROGRAM_CHARS];
	char *directory;
	struct sharer_pool *pools;
	size_t pool_count;
	struct sharer_handles by_handle[HANDLE_KINDS];
	size_t by_handle_count;
	cenote_import *imports; /* one for each pool, and for each kind of handles and machine */
	size_t import_count;
};

/*
 * Physical memory, of cuMemCreate(): the allocations that the same processes have, in the same way. On the host device
 * they are memory files.
 */
struct physical_holder {
	int pid;
	unsigned int uid;
	bool mapped; /* else it has only a descriptor */
	struct identity identity;
};
/* Another machine of the domain for which cenote-imexd here holds them all, by the daemon's word. */
struct physical_node {
	unsigned int node;
	size_t import_count; /* each allocation may be imported several times */
};
struct physical {
	size_t count;
	unsigned long long bytes;
	unsigned int uid;                /* owner of the files */
	struct physical_holder *holders; /* at least two, or one and a node */
	size_t holder_count;
	struct physical_node *nodes; /* in the order of their numbers */
	size_t node_count;
};

/*
 * The memory of a device that a process has and no other. On the host device: of pools, of cuMemAlloc() and of
 * cuMemCreate(); on a GPU of pools alone.
 */
struct private_memory {
	int pid;
	unsigned int uid;
	bool on_gpu;
	size_t count; /* of files; 0 on a GPU */
	unsigned long long bytes;
	struct identity identity;
};

/* A host device, and what processes have of it, shared or not. */
struct device_user {
	int pid; /* 0: all that are not visible here, together */
	unsigned int uid;
	unsigned long long bytes;
	struct identity identity;
};
struct device_memory {
	cenote_memory_device device; /* use this text and not that in it */
	char *directory;
	struct device_user *users;
	size_t user_count;
};

struct survey {
	struct sharer *sharers; /* in the order of their PIDs */
	size_t sharer_count;
	struct sharer *importers; /* those that share nothing; in the same order */
	size_t importer_count;
	struct physical *physicals;
	size_t physical_count;
	struct private_memory *privates; /* in the order of their PIDs */
	size_t private_count;
	struct device_memory *devices;
	size_t device_count;
	bool physical_known;      /* both could be searched for */
	bool nodes_known;         /* and the nodes were told by cenote-imexd, or it does not run here */
	unsigned int other_users; /* how many have a runtime directory into which this process may not look */
	CUresult result;          /* of cenote_survey() */
	bool no_memory;           /* the result is incomplete */
	char error[ERROR_CHARS];  /* why the result is incomplete; "": it is complete */
};

/*
 * Ask all processes. False: the result is incomplete, and a sentence was printed (command NULL: it was not). What was
 * found is there nevertheless.
 */
bool survey_take(const char *command, struct survey *ret_survey);
void survey_free(struct survey *survey);
/* The same, with the memory that processes do not report (survey_physical.c, survey_memory.c). */
bool survey_take_all(const char *command, struct survey *ret_survey);
void survey_find_physical(struct survey *survey);
/* Which processes have how much memory of a host device; and of GPUs, as private memory. */
void survey_find_memory(struct survey *survey);
/* The record of a process's private memory, a new one if there is none; NULL: no memory. `uid` if /proc tells none. */
struct private_memory *survey_private(struct survey *survey, int pid, unsigned int uid, bool on_gpu);

void sharer_free(struct sharer *sharer);
/* What an import is of, for programs: "pool", "memory", "events", "physical". */
const char *import_text(const cenote_import *import);
/* Is this process shown as a holder of something? */
bool survey_has_holder(const struct survey *survey, int pid);
/* Calls `visit` for each process in a survey, as often as it is in it. */
void survey_visit(const struct survey *survey, void (*visit)(const struct identity *identity, void *data), void *data);

/* Room for one more at the end of an array; NULL: no memory, and the array stays as it is. */
void *one_more(void *array, size_t count, size_t bytes);
/* What the system says of a process; PID 0: nothing. */
void find_identity(int pid, struct identity *ret_identity);

/* "1.5G", "96M", "0": at most six characters. */
const char *amount_text(unsigned long long bytes, char ret_text[AMOUNT_CHARS]);
/* "3s", "12m", "5h", "2d". */
const char *age_text(unsigned long long age_ns, char ret_text[AMOUNT_CHARS]);
/* The same of a time on this process's clock. */
unsigned long long age_of(unsigned long long time_ns);
/* The first eight digits of a pool's id: its name for people. */
const char *pool_text(unsigned long long id, char ret_text[AMOUNT_CHARS]);
const char *user_text(unsigned int uid, char ret_text[USER_CHARS]);
/* "device 0", "NUMA node 1". */
void place_text(const cenote_shared_pool *pool, char *ret_text, size_t room);

/*
 * The table of all of them, with a sentence below if these are all, for so many columns of a terminal (survey_print.c).
 * What does not fit is left out, the least important first.
 */
void survey_print_table(FILE *to, const struct survey *survey, int columns);
/* survey_json.c */
struct kept_list;
void survey_print_json(const struct survey *survey, const struct kept_list *kept);

/* ---- Parts of a survey (survey_select.c) ---- */

/* Which part is wanted. */
struct selection {
	int pid; /* 0: any; else as seen from here */
	bool has_user;
	unsigned int uid;
	const char *container; /* NULL: any */
	bool deferred;         /* only what was freed and is held */
	const char *sort;      /* NULL: by PID */
	bool has_condition;
	struct condition {
		int what;     /* index of a number in survey_select.c */
		int relation; /* of a relation there */
		unsigned long long limit;
	} condition;
};
enum { EXIT_CONDITION = 3 }; /* exit status of a condition that holds */

/*
 * Read an option of cenote ps at arguments[*index], with its value, and move *index to its last word. 1: it is one of
 * these; 0: it is none; -1: it is, and was refused with a sentence.
 */
int selection_read(struct selection *selection, const char *command, int argument_count, char **arguments, int *index);
/* Is this process wanted? */
bool selection_wants(const struct selection *selection, int pid, unsigned int uid, const struct identity *identity);
/* Remove from a survey what is not wanted, and put the rest in order. */
void selection_apply(const struct selection *selection, struct survey *survey);
/* Does the condition hold for what is left? Then says so on standard error. */
bool selection_holds(const struct selection *selection, const char *command, const struct survey *survey);

#endif
