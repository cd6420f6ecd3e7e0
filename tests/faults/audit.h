/* SPDX-License-Identifier: MIT */
/*
 * What a process has, counted by kinds: descriptors, shared mappings, threads.
 *
 * The harness compares what there is one by one; here a process may have lost a connection and made another, and must
 * only have no more of each kind than before. What it may have stands on its board, also for who comes after it.
 */
#ifndef CENOTE_TESTS_AUDIT_H
#define CENOTE_TESTS_AUDIT_H

#include "seam.h"

enum { AUDIT_SETTLE_MS = 5000 }; /* what is still there then, stays */

uint64_t audit_now_ms(void);
/* What there is now, there may be. */
void audit_remember(struct fault_board *board);
/* There is no more, or the process fails. */
void audit(const struct fault_board *board);

#endif
