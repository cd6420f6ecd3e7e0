/* SPDX-License-Identifier: MIT */
/*
 * Guards: touch memory that may not be mapped, and go on.
 *
 * A program names memory in nearly every call: structures, handles, arrays, strings, and places for answers. A bad
 * address must become an error code. Asking the system first would cost a system call each time, so the memory is
 * simply touched, by instructions that are listed in a table. The handler of SIGSEGV and SIGBUS looks up the
 * instruction that has faulted, and continues where its row of the table says. As long as nothing faults, a guard costs
 * nothing. cn_guard_run() does the same for code that is not ours.
 *
 * Any other fault is passed to the handler that was there before ours; without one, the program ends as it would have.
 * It also ends where a guard cannot work: in a thread that blocks SIGSEGV, and once the program has replaced our
 * handler by one that does not call ours, until cn_guard_arm() puts ours in front of it. Data that is copied does not
 * depend on it: see base/foreign.h.
 */
#ifndef CN_BASE_GUARD_H
#define CN_BASE_GUARD_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Have the handlers installed. Called by cuInit(), and by all below that are not inline. */
void cn_guard_install(void);

/*
 * If the program has installed a handler of SIGSEGV since, put ours in front of it again. Its handler gets the faults
 * that are not ours. It may call ours, which it found when it was installed: that then goes to the one before it. A
 * handler that the program has taken back while ours was in front is still called. One system call.
 */
void cn_guard_arm(void);

/* Would a fault with this signal in this thread come to our handler, now? Two system calls. */
bool cn_guard_works(int signal);

/* Call body(data). False: it touched memory that is not mapped, or that does not allow the access. */
bool cn_guard_run(void (*body)(void *data), void *data);

/* False: the same of one of the two. Some bytes may have been copied then. */
bool cn_guard_copy(void *to, const void *from, size_t bytes);

/*
 * Can all of this be read, or written? If not, the sentence says so, and `name` is the argument's. NULL passes: its
 * meaning is up to the call. Nothing changes: a write stores the value that is there.
 */
CN_PRIVATE bool cn_guard_check_read(const void *at, size_t bytes, const char *name);
CN_PRIVATE bool cn_guard_check_write(void *at, size_t bytes, const char *name);
/* The same for `count` items; more than the address space has cannot be read. */
CN_PRIVATE bool cn_guard_check_array(const void *at, size_t count, size_t item_bytes, const char *name);
/* Does a string end before its memory does? */
CN_PRIVATE bool cn_guard_check_string(const char *at, const char *name);

#ifndef CN_IN_RUNTIME /* the table of another library is not known here */

/* For calls that must be fast: an answer of 64 bits, and a handle of 64 bytes. False: the memory is not mapped. */
static inline bool cn_guard_put(unsigned long long *at, unsigned long long value);
static inline bool cn_guard_copy_64(void *to, const void *from);

/* ---- How -------------------------------------------------------------------------------------------------------- */

enum { CN_GUARD_HANDLE_BYTES = 64 };

#if defined(__x86_64__) || defined(__aarch64__)
#define CN_GUARD_INSTRUCTIONS 1

/* A row of the table: a fault from `start` to before `end` continues at `go_on`. Each is relative to its own place. */
struct cn_guard_row {
	int32_t start, end, go_on;
};

/* The instructions between labels 1 and 2 of the assembler text before it. */
#define CN_GUARD_ROW                                \
	"\n2:\n"                                    \
	".pushsection cn_guard_rows, \"a\"\n"       \
	".balign 4\n"                               \
	".long 1b - ., 2b - ., %l[not_there] - .\n" \
	".popsection\n"

static inline bool cn_guard_put(unsigned long long *at, unsigned long long value)
{
#ifdef __x86_64__
	__asm__ goto("1:\tmovq %1, (%0)" CN_GUARD_ROW : : "r"(at), "er"(value) : "memory" : not_there);
#else
	__asm__ goto("1:\tstr %1, [%0]" CN_GUARD_ROW : : "r"(at), "r"(value) : "memory" : not_there);
#endif
	return true;
not_there:
	return false;
}

/* A quarter of a handle, at any address. */
struct cn_guard_quarter {
	unsigned char bytes[CN_GUARD_HANDLE_BYTES / 4];
};

static inline bool cn_guard_copy_64(void *to, const void *from)
{
#ifdef __x86_64__
	struct cn_guard_quarter *into = to;
	const struct cn_guard_quarter *out_of = from;

	__asm__ goto("1:\tmovups %4, %%xmm0\n\t"
		     "movups %5, %%xmm1\n\t"
		     "movups %6, %%xmm2\n\t"
		     "movups %7, %%xmm3\n\t"
		     "movups %%xmm0, %0\n\t"
		     "movups %%xmm1, %1\n\t"
		     "movups %%xmm2, %2\n\t"
		     "movups %%xmm3, %3" CN_GUARD_ROW
		     :
		     : "m"(into[0]), "m"(into[1]), "m"(into[2]), "m"(into[3]), "m"(out_of[0]), "m"(out_of[1]),
		       "m"(out_of[2]), "m"(out_of[3])
		     : "memory", "xmm0", "xmm1", "xmm2", "xmm3"
		     : not_there);
#else
	__asm__ goto("1:\tldp q0, q1, [%1]\n\t"
		     "ldp q2, q3, [%1, #32]\n\t"
		     "stp q0, q1, [%0]\n\t"
		     "stp q2, q3, [%0, #32]" CN_GUARD_ROW
		     :
		     : "r"(to), "r"(from)
		     : "memory", "v0", "v1", "v2", "v3"
		     : not_there);
#endif
	return true;
not_there:
	return false;
}

#else
#define CN_GUARD_INSTRUCTIONS 0

static inline bool cn_guard_put(unsigned long long *at, unsigned long long value)
{
	return cn_guard_copy(at, &value, sizeof value);
}

static inline bool cn_guard_copy_64(void *to, const void *from)
{
	return cn_guard_copy(to, from, CN_GUARD_HANDLE_BYTES);
}
#endif

#endif /* CN_IN_RUNTIME */

#endif
