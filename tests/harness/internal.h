/* SPDX-License-Identifier: MIT */
/* What the harness's own files share; tests do not see it. */
#ifndef CENOTE_TESTS_HARNESS_INTERNAL_H
#define CENOTE_TESTS_HARNESS_INTERNAL_H

#include "harness.h"

/* What a test reports to the process that started it, in a page they share. Roles have none. */
struct outcome {
	enum { OUTCOME_UNFINISHED, OUTCOME_PASSED, OUTCOME_SKIPPED } state;
	unsigned watched;                /* the LEAK_ bits */
	_Atomic unsigned forgiven_names; /* so many dead processes may have left their names */
	char skip_reason[512];
};
extern struct outcome *harness_outcome;

/* leaks.c: count what the process has; compare with the last count, print what is new; true if there was any. */
void leaks_begin(void);
bool leaks_found(void);
/* Print the names below a directory, except for so many of dead processes; true if there are any. */
bool leaks_files_found(const char *directory, unsigned forgiven_names);
void remove_tree(const char *path);
uint64_t monotonic_ms(void);

/* peer.c: the role's end of the channel, and a check that every peer has been waited for. */
struct peer *peer_from_channel(void);
bool peers_forgotten(void);

#endif
