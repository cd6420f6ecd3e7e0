/* SPDX-License-Identifier: MIT */
/*
 * Who shares what, as cenote ps, top and map have it: what cenote_survey() tells, kept.
 */
#ifndef CENOTE_TOOLS_SURVEY_H
#define CENOTE_TOOLS_SURVEY_H

#include "command.h"

#include <cenote/cenote.h>

#include <stddef.h>
#include <stdio.h>

enum { PROGRAM_CHARS = 32, USER_CHARS = 33, AMOUNT_CHARS = 16, ERROR_CHARS = 512 };

/* One who has imported a pool. */
struct holder {
	cenote_importer importer;
	bool at_least; /* more blocks may wait for it than its numbers say */
	char program[PROGRAM_CHARS];
};

struct sharer_pool {
	cenote_shared_pool pool;
	struct holder *holders;
	size_t holder_count;
};

/* A process that shares something. */
struct sharer {
	cenote_process process; /* its texts are not to be used: these are */
	char program[PROGRAM_CHARS], name[33];
	char *directory;
	struct sharer_pool *pools;
	size_t pool_count;
};

struct survey {
	struct sharer *sharers; /* in the order of their PIDs */
	size_t sharer_count;
	CUresult result;         /* of cenote_survey() */
	bool no_memory;          /* it is not all */
	char error[ERROR_CHARS]; /* why it is not all; "": it is */
};

/*
 * Ask everybody. False: it is not all, and a sentence has been printed (command NULL: it has not). What could be had is
 * there all the same.
 */
bool survey_take(const char *command, struct survey *ret_survey);
void survey_free(struct survey *survey);

/* "1.5G", "96M", "0": at most six characters. */
const char *amount_text(unsigned long long bytes, char ret_text[AMOUNT_CHARS]);
/* "3s", "12m", "5h", "2d". */
const char *age_text(unsigned long long age_ns, char ret_text[AMOUNT_CHARS]);
/* The same of a time on this process's clock. */
unsigned long long age_of(unsigned long long time_ns);
/* The first eight digits of a pool's id: what people call it. */
const char *pool_text(unsigned long long id, char ret_text[AMOUNT_CHARS]);
const char *user_text(unsigned int uid, char ret_text[USER_CHARS]);
/* "device 0", "NUMA node 1". */
void place_text(const cenote_shared_pool *pool, char *ret_text, size_t room);

/* The table of all of them, with a sentence below if these are all (survey_print.c). */
void survey_print_table(FILE *to, const struct survey *survey);
void survey_print_json(const struct survey *survey);

#endif
