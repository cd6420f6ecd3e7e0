/* SPDX-License-Identifier: MIT */
/*
 * Ports of fake processes, whose answers a script changes, and the handles that lead there.
 *
 * The fake processes are threads of this one, with ports of their own; the library takes them for others of its user.
 * They lend memory, an event, physical memory and a pool which are this process's own.
 */
#ifndef CENOTE_TESTS_FUZZ_PORT_H
#define CENOTE_TESTS_FUZZ_PORT_H

#include "fuzz.h"

#include "share/port/port_internal.h"

extern struct fuzz_server fuzz_port, fuzz_fabric_port;

/* Once, after fuzz_start(). */
void fuzz_port_start(void);
/* What a handle of that process, whole, would be. */
struct cn_handle fuzz_handle(enum cn_handle_kind kind, uint64_t number);
void fuzz_handle_seal(struct cn_handle *handle); /* put its check right */

/* Open what 64 bytes name, use it if there is something, and close it. */
CUresult fuzz_open_memory(const void *handle);
CUresult fuzz_open_event(const void *handle);
CUresult fuzz_open_fabric_memory(const void *handle);
CUresult fuzz_open_fabric_pool(const void *handle);

/* The ring behind the event that is lent, and its bytes. */
uint64_t *fuzz_ring(size_t *ret_bytes);
void fuzz_ring_reset(void);

/* Hang up on everybody, and see that what is asked as one should is answered. */
void fuzz_port_end(void);

#endif
