/* SPDX-License-Identifier: MIT */
/*
 * The seam: every call from Cenote to the system is counted. Any of them can be made to fail, to be the last, or to
 * take as long as the test likes.
 *
 * libcenote-fault.so is made of the same objects as Cenote's libraries, linked so that their calls to the C library
 * (seam.inc) go through seam.c, as do the calls to the driver on the cuda device. Calls of the test itself do not. Each
 * call is a step. A step has a number, counted from when the seam was armed, and a site: the function, and where in the
 * library it is called.
 *
 * A process is armed through its board, memory that it shares with the test: so the test sees what happened even when
 * the process is dead. Threads are scheduled at will, so a step's number may mean another site from one run to the
 * next; the board says which it was.
 */
#ifndef CENOTE_TESTS_SEAM_H
#define CENOTE_TESTS_SEAM_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum fault_mode {
	FAULT_NONE, /* nothing is counted */
	FAULT_COUNT,
	FAULT_FAIL,          /* the first step that can fail, of those from `at` on, fails */
	FAULT_FAIL_NEW,      /* … of those at a site where none has yet: the sites' FAULT_FAIL says so */
	FAULT_FAIL_THEN_NEW, /* the first, and after it one more at such a site */
	FAULT_KILL_BEFORE,   /* SIGKILL in place of step `at` */
	FAULT_KILL_AFTER,    /* … just after it */
	FAULT_STOP_BEFORE,   /* SIGSTOP; a byte to the alarm's descriptor comes first */
	FAULT_STOP_AFTER,
	FAULT_HOLD, /* the first step from `at` on of the library's threads waits to be released; a byte as above */
	FAULT_MODES,
};

enum { FAULT_SIGNAL_NONE, FAULT_SIGNAL_RAISED, FAULT_SIGNAL_NEVER };
enum { FAULT_SITES_MAX = 4096, FAULT_NAME_CHARS = 40, FAULT_NOTES_BYTES = 20000 };

struct fault_site {
	_Atomic uint64_t key;              /* call and place; 0: none yet */
	_Atomic uint32_t can_fail;         /* ever */
	_Atomic uint32_t hit[FAULT_MODES]; /* how often, by mode; by FAULT_COUNT: how often it was seen */
};

/* What is known of sites, for several processes together. */
struct fault_sites {
	struct fault_site all[FAULT_SITES_MAX];
};

struct fault_board {
	_Atomic uint32_t mode; /* written last */
	_Atomic uint32_t at;
	_Atomic uint32_t only;   /* only steps of this call fail; 0: of any */
	_Atomic uint32_t choice; /* which of a step's errors, modulo their number */
	_Atomic uint32_t step;   /* how many so far, since the mode was last changed */
	_Atomic uint32_t hit;    /* the step where it happened; 0: it has not */
	_Atomic uint32_t second; /* … and the second one */
	_Atomic uint32_t hit_site, hit_error;
	_Atomic uint32_t signal; /* 0, until either a thread is going to raise one, or the seam was disarmed first */
	_Atomic uint32_t gate;   /* what a step that is held waits for: 1 */
	_Atomic uint32_t hurry;  /* how many times faster than usual the clock goes; 0 is 1 */
	_Atomic int64_t allocations;                        /* not freed by the library */
	_Alignas(8) unsigned char notes[FAULT_NOTES_BYTES]; /* the test's own */
};

/* Arm it: steps count from 1. */
static inline void fault_arm(struct fault_board *board, enum fault_mode mode, unsigned at, unsigned choice)
{
	atomic_store(&board->mode, FAULT_NONE);
	atomic_store(&board->only, 0);
	atomic_store(&board->at, at);
	atomic_store(&board->choice, choice);
	atomic_store(&board->step, 0);
	atomic_store(&board->hit, 0);
	atomic_store(&board->second, 0);
	atomic_store(&board->signal, FAULT_SIGNAL_NONE);
	atomic_store(&board->gate, 0);
	atomic_store(&board->mode, mode);
}

/* Release what is held. */
static inline void fault_release(struct fault_board *board)
{
	atomic_store(&board->mode, FAULT_NONE);
	atomic_store(&board->gate, 1);
	syscall(SYS_futex, &board->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* True: the process has been killed or stopped, or will be in a moment. False: nothing will happen any more. */
static inline bool fault_disarm(struct fault_board *board)
{
	atomic_store(&board->mode, FAULT_NONE);
	return atomic_exchange(&board->signal, FAULT_SIGNAL_NEVER) == FAULT_SIGNAL_RAISED;
}

/*
 * In the process: its board and the sites, by descriptor, and where an alarm is reported. For good. The calling thread
 * is the program's; others are the library's.
 */
struct fault_board *fault_attach(int board_fd, int sites_fd, int alarm_fd);
/* Forget the calling thread's sentence: cenote_last_error() then tells only of later failures. */
void fault_forget_sentence(void);
/* The number of a call, for `only`; 0: there is none of this name. */
unsigned fault_call(const char *name);
/* What a site calls, and where, as "name+0xoffset". */
void fault_describe(const struct fault_site *site, char ret_text[FAULT_NAME_CHARS]);

#endif
