/* SPDX-License-Identifier: MIT */
/*
 * Programs with one mistake each, and the same programs without it: what `cenote check` is measured by.
 *
 *	check_programs NAME good|bad
 *
 * A program is two processes or more: the first starts the others, each the same binary in a role, with a socket to the
 * first. The mistake is where `bad` is asked. All programs end by themselves, except those that wait for each other.
 */
#ifndef CENOTE_TESTS_CHECK_PROGRAMS_H
#define CENOTE_TESTS_CHECK_PROGRAMS_H

#include <cenote/cenote.h>

#include <stdbool.h>
#include <stddef.h>

enum { BYTES = 1 << 16, OTHERS_MAX = 2 };

/* This process. */
extern struct process {
	bool bad;                 /* with the mistake */
	int role;                 /* 0: the first */
	int socks[OTHERS_MAX];    /* to the others; in another one, the first of them to the first process */
	CUstream stream, another; /* neither waits for the default stream */
	void *host;               /* BYTES, pinned */
} me;

struct program {
	const char *name, *kind; /* what is found in the bad one */
	void (*roles[OTHERS_MAX + 1])(void);
};

extern const struct program order_programs[], life_programs[], balance_programs[], wait_programs[];

void must(bool holds, const char *what);
#define MUST(call) must((call) == CUDA_SUCCESS, #call)

/* What CUDA needs, and the streams. */
void begin(void);
/* Let the others go on, or wait until they do. */
void tell(int other);
void be_told(int other);
void send_bytes(int other, const void *bytes, size_t count);
void receive_bytes(int other, void *bytes, size_t count);

CUmemoryPool make_pool(void);
CUmemoryPool send_pool(int other);
CUmemoryPool receive_pool(void);
CUdeviceptr allocate(CUmemoryPool pool); /* done when it returns */
void send_block(int other, CUdeviceptr block);
CUdeviceptr receive_block(CUmemoryPool pool);
CUevent make_event(void);
void send_event(int other, CUevent event);
CUevent receive_event(void);
/* Memory of cuMemAlloc() by its handle. */
void send_legacy(int other, CUdeviceptr memory);
CUdeviceptr receive_legacy(void);

/* Words of shared memory of the host, all 0, that streams of both processes can write and wait for. */
CUdeviceptr send_words(int other);
CUdeviceptr receive_words(void);

void fill(CUdeviceptr block, CUstream stream);
void read_back(CUdeviceptr block, CUstream stream);
void finish(CUstream stream); /* wait for it */

#endif
