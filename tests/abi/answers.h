/* SPDX-License-Identifier: MIT */
/*
 * The table between answers_test.c and the file that the build makes from src/api.list: one row a symbol.
 */
#ifndef ANSWERS_H
#define ANSWERS_H

struct answer {
	const char *name;   /* as a programmer writes it */
	const char *symbol; /* what is called */
	int is_done;        /* 0: must say that it is not implemented yet */
	int is_runtime;     /* its failures are the runtime's last error, too */
	int (*call)(void);  /* calls it with zeros; its error code, 0 for a function that returns something else */
};

extern const struct answer answers[];
extern const int answer_count;

#endif
