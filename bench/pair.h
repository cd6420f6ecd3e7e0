/* SPDX-License-Identifier: MIT */
/*
 * Measuring between two processes: an exporter and an importer, both forked before either has touched the library, so
 * that all threads of each stay on the CPU it was given. The exporter runs the contests; the importer does what it is
 * asked for and reports how long its part took.
 */
#ifndef CENOTE_BENCH_PAIR_H
#define CENOTE_BENCH_PAIR_H

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "cenote.h"
#include "harness.h"

enum { PAIR_LINE_BYTES = 64 };

/* A number for which the other process waits by hand, and whether it sleeps. */
struct pair_word {
	_Alignas(PAIR_LINE_BYTES) _Atomic uint32_t value;
	_Alignas(PAIR_LINE_BYTES) _Atomic uint32_t sleeps;
};

/* Memory that both have, zero at first. */
struct pair_page {
	struct pair_word words[2];
	_Alignas(PAIR_LINE_BYTES) _Atomic uint32_t waiting;
};

struct peer {
	int in, out;        /* pipes: a byte, a number */
	int sock, bytes_fd; /* sockets: for descriptors and names; for many bytes */
	struct pair_page *page;
	bool together; /* both are on one CPU */
	pid_t pid;     /* the other process: the importer of the exporter, and the other way round */
};

extern CUstream pair_stream;   /* of each process */
extern CUmemoryPool pair_pool; /* the exporter's, or as imported */

typedef void pair_role(const struct peer *peer);

/* Run both; CPUs are numbered as in bench_cpu(). Returns when both have succeeded. */
void pair_run(pair_role *exporter, pair_role *importer, unsigned exporter_cpu, unsigned importer_cpu);

void put(int fd, const void *data, size_t bytes);
void get(int fd, void *ret_data, size_t bytes);
void say(const struct peer *peer, char word);
char hear(const struct peer *peer);
/* Send a word, and wait until the other process sends the same. */
void ask(const struct peer *peer, char word);

/* Spin-then-futex as written by hand. Spinning is for two cores: on one, the other process could not go on. */
void pair_post(struct pair_word *word, uint32_t value);
void pair_await(struct pair_word *word, uint32_t value, bool spin);

/* The primary context of device 0 is current, and pair_stream is there. pair_run() does it in both processes. */
void pair_start_library(void);
/* A pool that can be shared, in pair_pool. */
void pair_create_pool(void);

/* One call a body, for the contestant that everyone knows: `data` is a pthread_mutex_t. */
void lock_and_unlock(void *mutex, unsigned long count);

#endif
