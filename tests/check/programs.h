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

enum { BYTES = 1 << 16, PHYSICAL_BYTES = 2 << 20, OTHERS_MAX = 2 };

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

extern const struct program order_programs[], kernel_programs[], life_programs[], balance_programs[], wait_programs[];

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

/* Physical memory, as a descriptor shares it. */
struct physical {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address; /* where PHYSICAL_BYTES of it are mapped */
};
struct physical make_physical(void);
void send_physical(int other, const struct physical *memory);
struct physical receive_physical(void);
void free_physical(const struct physical *memory); /* it is not mapped any more */

/* Words of shared memory of the host, all 0, that streams of both processes can write and wait for. */
CUdeviceptr send_words(int other);
CUdeviceptr receive_words(void);

void fill(CUdeviceptr block, CUstream stream);
void read_back(CUdeviceptr block, CUstream stream);
void finish(CUstream stream); /* wait for it */

/* ---- What most programs begin and end with ---- */

/* One block of a pool, and with it an event. */
struct shared {
	CUmemoryPool pool;
	CUevent event;
	CUdeviceptr block;
};
enum shared_event { NO_EVENT, AN_EVENT };

/* The first process: the pool and the event are sent, the block is not. */
struct shared begin_owner(enum shared_event event);
/* The same with a block that is full, and sent so many times. */
struct shared begin_filled(int times);
/* Another process: it has all of them. */
struct shared begin_opener(enum shared_event event);

void be_told_and_free(CUdeviceptr block);      /* the first process */
void record_and_free(const struct shared *it); /* the same, and before that its work is recorded and told of */
void be_told_of(CUevent event, bool waits);    /* the stream waits for the event, or it does not */
void let_go(CUdeviceptr block);                /* another process: free it, and tell when that is done */
void read_and_let_go(CUdeviceptr block);

/* ---- Roles without a mistake of their own ---- */

void plain_owner(void);
void plain_reader(void);
void filling_owner(void);
void waiting_reader(void); /* is told of an event, and waits for it */
void legacy_owner(void);   /* frees when it is told, and tells */

/* ---- Roles of several programs ---- */

/* Does not wait for the writer's event. */
void hasty_reader(void);

/* Two blocks, filled in two streams, each with an event of its own, or both with the same. */
void own_two(bool one_event);
/* Their reader waits for the event of each, or for that of the first alone. */
void read_two(bool by_first_event);
/* Memory of cuMemAlloc(): the bad one closes it after its owner has freed it. */
void close_legacy(bool finishes_first);

#endif
