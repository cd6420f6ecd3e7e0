/* SPDX-License-Identifier: MIT */
/*
 * UCX between the two processes of a pair, over its shared-memory transports: messages, and memory by its keys.
 *
 * Where it was not found when this was built, ucx_absent() says so and nothing else may be called. UCX polls: it
 * takes part only where each process has a CPU.
 */
#ifndef CENOTE_BENCH_UCX_H
#define CENOTE_BENCH_UCX_H

#include "pair.h"

enum { UCX_NAME_BYTES_MAX = 512 };

/* A key as it is sent to the other process. */
struct ucx_name {
	uint64_t address;
	size_t bytes;
	char key[UCX_NAME_BYTES_MAX];
};

/* Why it does not take part; NULL: it does. */
const char *ucx_absent(const struct peer *peer);

/* The first call in main(): settings that are read when a program starts; it executes the program again for them. */
void ucx_settle(char **arguments);

/* Both sides, at the same time. */
void ucx_open(const struct peer *peer);
void ucx_close(const struct peer *peer);

void ucx_send(const void *data, size_t bytes);
void ucx_receive(void *ret_data, size_t bytes);

/* Memory that the other process can use: allocate it, name it, make it usable there, release it. */
void *ucx_allocate(size_t bytes);
void ucx_export(const void *memory, struct ucx_name *ret_name);
void *ucx_import(const struct ucx_name *name, void **ret_key);
void ucx_forget(void *key);
void ucx_free(void);

#endif
