/* SPDX-License-Identifier: MIT */
/*
 * The command as a function, for those targets that call it.
 */
#ifndef CENOTE_TESTS_FUZZ_CALL_COMMAND_H
#define CENOTE_TESTS_FUZZ_CALL_COMMAND_H

#include "fuzz.h"

/* Its status, and what it printed on standard output, to be freed. arguments[0] is its name; it ends with NULL. */
int fuzz_command(int argument_count, char **arguments, char **ret_printed);
/* Nothing that a terminal would obey. */
void fuzz_check_printable(const char *text);
void fuzz_check_json(const char *text);

#endif
