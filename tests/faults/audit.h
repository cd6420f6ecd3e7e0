/* SPDX-License-Identifier: MIT */
/*
 * What a process has, counted by kinds: descriptors, shared mappings, threads.
 *
 * The harness compares each thing; here a process may have lost a connection and made another, and must only have no
 * more of each kind than before. What it may have is on its board, also for the process that replaces it.
 */
#ifndef CENOTE_TESTS_AUDIT_H
#define CENOTE_TESTS_AUDIT_H

#include "seam.h"

enum { AUDIT_SETTLE_MS = 5000 }; /* what is still there by then is a leak */

uint64_t audit_now_ms(void);
/* What there is now is what there may be. */
void audit_remember(struct fault_board *board);
/* The process fails if there is more. */
void audit(const struct fault_board *board);

#endif
