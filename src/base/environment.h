/* SPDX-License-Identifier: MIT */
/*
 * Environment variables that the library reads at any time, and not only in cuInit().
 *
 * A search of the environment in one thread and setenv() in another are a race: setenv() may free the table. A program
 * knows when it makes its calls; it does not know when the library's own threads run. So these never search the table:
 * they get what a thread of the program read last.
 */
#ifndef CN_BASE_ENVIRONMENT_H
#define CN_BASE_ENVIRONMENT_H

enum cn_environment_variable {
	CN_ENVIRONMENT_LOG,
	CN_ENVIRONMENT_LABEL,
	CN_ENVIRONMENT_RUNTIME_DIR,
	CN_ENVIRONMENT_FABRIC_DIR,
	CN_ENVIRONMENT_IMEX_DIR,
	CN_ENVIRONMENT_IMEX_SOCKET,
	CN_ENVIRONMENT_KEPT_SOCKET,
	CN_ENVIRONMENT_COUNT
};

/*
 * The value; NULL: the variable is unset or empty, or the process has more rights than the user that started it. It
 * does not change, but in a thread of the program where there is no memory for a copy.
 */
const char *cn_environment(enum cn_environment_variable variable);
/* Read all of them for the library's own threads. Called by a thread of the program. */
void cn_environment_read(void);

#endif
