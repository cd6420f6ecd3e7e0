/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets have in common.
 *
 * A target is a file with fuzz_prepare() and fuzz_one(): libFuzzer calls them through main.c, and replay.c calls them
 * for the kept inputs in `make test`. An input is a script: bytes that a target reads as what to do, so that most
 * inputs come past the checks of magics, secrets and numbers, which random bytes never would. A target starts from what
 * a well-behaved peer would say, and the script changes it. An input that ends is followed by zeros, which mean "do as
 * one should".
 *
 * What must hold is said with FUZZ_CHECK, which ends the process. After each input as many descriptors are open as
 * before; a peer that behaves is served. Nothing here waits for a time: the other side answers or closes.
 */
#ifndef CENOTE_TESTS_FUZZ_H
#define CENOTE_TESTS_FUZZ_H

#include "cenote/cenote.h"
#include "share/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- A target ---- */

/* Once, before any thread is there; fuzz_start() is the first that it calls. */
void fuzz_prepare(void);
void fuzz_one(const uint8_t *bytes, size_t size);
/* What main.c and replay.c call: the same, and what must be true after each input. */
void fuzz_run(const uint8_t *bytes, size_t size);

_Noreturn void fuzz_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define FUZZ_CHECK(condition)                                                     \
	do {                                                                      \
		if (!(condition))                                                 \
			fuzz_fail(__FILE__, __LINE__, "%s is false", #condition); \
	} while (0)
/* A call that must succeed. */
#define FUZZ_OK(call) fuzz_ok(__FILE__, __LINE__, #call, (call))
void fuzz_ok(const char *file, int line, const char *text, CUresult result);
/* A call that may fail, if it says why. */
#define FUZZ_TRY(call) fuzz_try(__FILE__, __LINE__, #call, (call))
CUresult fuzz_try(const char *file, int line, const char *text, CUresult result);

/* ---- The script ---- */

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

unsigned fuzz_byte(struct fuzz_input *input);                            /* 0 at the end */
unsigned fuzz_below(struct fuzz_input *input, unsigned bound);           /* from one byte */
uint64_t fuzz_number(struct fuzz_input *input);                          /* often one at which something changes */
void fuzz_bytes(struct fuzz_input *input, void *ret_bytes, size_t size); /* what is missing is 0 */
/* A part of it for somebody else, who reads it at another time. */
struct fuzz_input fuzz_part(struct fuzz_input *input);
/* A text of at most room - 1 characters, which ends with a zero byte or the input. */
void fuzz_text(struct fuzz_input *input, char *ret_text, size_t room);

/* ---- The world ---- */

/*
 * The library in its own directories, device and context. CENOTE_RUNTIME_DIR says where; the directories of the fabric
 * are made beside it.
 */
void fuzz_start(void);
/* The directory that all of it is in. */
const char *fuzz_directory(void);
/* What was handed to the service thread before has been done. */
void fuzz_barrier(void);

CUmemoryPool fuzz_pool(size_t max_bytes);
int fuzz_pool_descriptor(CUmemoryPool pool);
/* A new importer of the pool is served, and its block comes back. */
void fuzz_use_pool(CUmemoryPool pool);
void fuzz_await_used(CUmemoryPool pool, uint64_t bytes);
/* Read what a pointer is said to lead to: its first byte and its last. */
void fuzz_touch(CUdeviceptr pointer);

/* ---- Descriptors and messages ---- */

/* Descriptors of a target's own that scripts may use. Not closed. */
void fuzz_offer(int descriptor);
/* Any descriptor: a file of any size, seals and contents, a pipe, a socket, something offered. The caller closes it. */
int fuzz_descriptor(struct fuzz_input *input);
int fuzz_memory_file(const char *name, size_t bytes, unsigned flags, int seals);

/*
 * Change a parcel as the script says, and send it: any bytes of any length, any descriptors. True: it is as long, of
 * the same kind and to the same question as it was; if not, who waits for it may go on waiting.
 */
bool fuzz_send(struct fuzz_input *input, int sock, const struct cn_parcel *parcel);
/* The same; *ret_sent is the message that was sent, if true is returned. */
bool fuzz_send_known(struct fuzz_input *input, int sock, const struct cn_parcel *parcel, struct cn_message *ret_sent);
/* Throw away what has come. */
void fuzz_drain(int sock);

/* ---- A peer that listens, on a thread of its own ---- */

enum { FUZZ_CONNECTIONS_MAX = 8 };

struct fuzz_server {
	/* Somebody has sent a parcel, whose descriptors are closed afterwards. False: hang up. */
	bool (*answer)(struct fuzz_server *server, int sock, const struct cn_parcel *request);
	int listener;
	struct fuzz_input input;         /* the server's part of the script */
	int socks[FUZZ_CONNECTIONS_MAX]; /* its own from here on; -1: none */
	int order_fd;
	struct fuzz_orders *orders;
};

/* `listener` is listening. For as long as the process lives. */
void fuzz_server_start(struct fuzz_server *server);
/* Hang up on all; from now on answer by another script. */
void fuzz_server_begin(struct fuzz_server *server, struct fuzz_input input);
/* The same without a script: everybody is answered as one should. */
void fuzz_server_end(struct fuzz_server *server);
/* On the server's thread, for each connection there is: run a function, and wait until it has. */
void fuzz_server_do(struct fuzz_server *server, void (*function)(struct fuzz_server *server, int sock, void *data),
		    void *data);

#endif
