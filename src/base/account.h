/* SPDX-License-Identifier: MIT */
/*
 * An account: what the processes of one user have taken of something of which there is only so much, in one file of the
 * runtime directory. On GPUs, whose driver knows how much there is, nothing is refused: there it only says which
 * process has what.
 *
 * The file is named by the capacity, which each of up to 64 devices has. It has slots, and a process has one for each
 * device of which it has taken something. Only its owner writes a slot, in memory that it has mapped, so that this is
 * no system call; the others read it with pread(). A slot is live while a process has the lock that its header names.
 * The kernel ends the lock with the process, in whatever PID namespace that is, so neither PIDs nor what a slot says of
 * itself have to be believed.
 *
 * A slot says how many bytes its process has made, and has up to CN_ACCOUNT_ENTRIES entries for memory files that
 * several processes may have: those that this process made and others may have, and those of others that it holds.
 * What is used is
 *
 *	the bytes that live processes have made, and
 *	of each file that a live process holds and no live process has made: its bytes, once
 *
 * so a file counts until its last holder is gone, and once, however many they are. How large it was at last, the slot
 * of its dead maker says, which is not used again while a live process holds something of it. A file that only a
 * message or a program's descriptor has does not count; it does again once a process enters it, if the maker's slot is
 * still there: another process may have it by then, and if no process was left, the whole account is a new one.
 *
 * To take bytes: cn_account_bid(), cn_account_sum(). If it all fits, cn_account_settle(); else cn_account_retract().
 * Of two that bid at the same time at least one sees the other, so the capacity is never exceeded; but both may
 * retract where one would have fitted. They then try again one after the other: see cn_account_begin_turn().
 *
 * What another process wrote is not believed: lengths have bounds, numbers are added without overflow, and a header has
 * a check. A process that lies makes the sum larger or smaller, and no more. One that shortens the file, under the feet
 * of those that have it mapped, hurts no process either: see cn_account_prepare().
 *
 * One thread at a time may use an account. Where a call fails for want of the file (it returns false), the account is
 * of no use any more.
 */
#ifndef CN_BASE_ACCOUNT_H
#define CN_BASE_ACCOUNT_H

#include "base/error.h"

#include <stdint.h>

enum {
	CN_ACCOUNT_SLOTS = 1024,
	CN_ACCOUNT_ENTRIES = 4096, /* of a slot */
	CN_ACCOUNT_LEFT = 64,
	CN_ACCOUNT_DEVICES = 64,
};

struct cn_account;

struct cn_account_sum {
	uint64_t made;     /* by live processes, bids left out */
	uint64_t orphaned; /* held by live processes, of dead makers or such as have given it up */
	uint64_t bid;      /* by live processes, this one among them */
};

/* What is used of a device. */
static inline uint64_t cn_account_used(const struct cn_account_sum *sum)
{
	uint64_t used;

	return __builtin_add_overflow(sum->made, sum->orphaned, &used) ? UINT64_MAX : used;
}

/*
 * Open or make the account of a capacity. CUDA_ERROR_OPERATING_SYSTEM and a sentence: there is none to be had. No fork
 * at the same time: a child that had the mapping would keep the slots alive.
 */
enum { CN_ACCOUNT_OF_GPUS = 0 }; /* as a capacity */
CUresult cn_account_open(uint64_t capacity_bytes, struct cn_account **ret_account);
/*
 * End all of this process's slots. What others hold of its memory counts from now on as theirs. If no other process
 * has the account open, the file is removed.
 */
void cn_account_close(struct cn_account *account);
/* For a forked child: close the descriptor, so that the slots end with the parent. The child has no mapping. */
void cn_account_drop(struct cn_account *account);
/*
 * This thread is about to write, until cn_account_finish(). Stores to a file that was shortened fault; where a guard
 * (base/guard.h) catches that in this thread, slots are written by plain stores. Without this call, and where the
 * program has taken the guard away, the kernel is asked to write them, which takes longer.
 */
void cn_account_prepare(struct cn_account *account);
void cn_account_finish(struct cn_account *account);

/*
 * What the processes have of a device. `exact`: at one instant; look until nothing changes meanwhile, within a bound.
 * Otherwise it is not more than this, and takes two system calls as long as no process holds another's files: dead
 * processes may be counted, and what moves from one process to another just then may count twice, but never not at all.
 */
bool cn_account_sum(struct cn_account *account, unsigned device, bool exact, struct cn_account_sum *ret_sum);

/* Take part in a device's account. False, too: all slots are taken. Once it has succeeded, the others may be called. */
bool cn_account_join(struct cn_account *account, unsigned device);
bool cn_account_bid(struct cn_account *account, unsigned device, uint64_t bytes);
bool cn_account_settle(struct cn_account *account, unsigned device, uint64_t bytes);  /* what was claimed is taken */
bool cn_account_retract(struct cn_account *account, unsigned device, uint64_t bytes); /* it is not */
bool cn_account_give(struct cn_account *account, unsigned device, uint64_t bytes);
bool cn_account_count(struct cn_account *account, unsigned device, uint64_t bytes); /* what nobody refuses is taken */

/*
 * A turn: one process of all at a time. After cn_account_begin_turn(), bid; then cn_account_note_bids(), and again
 * and again cn_account_noted_bids(), until it is 0 or has taken too long: bids of others that were there before may
 * still be settled. Those that came later were made with ours in sight, and will be retracted if both do not fit.
 */
bool cn_account_begin_turn(struct cn_account *account); /* false: another process has it */
void cn_account_end_turn(struct cn_account *account);
void cn_account_note_bids(struct cn_account *account, unsigned device);
uint64_t cn_account_noted_bids(struct cn_account *account, unsigned device); /* in bytes */

/*
 * Entries, by the inodes of memory files. Each returns the number of the entry, never 0; 0: there is no room for it, or
 * nothing to enter. A number is good until it is left.
 */
unsigned cn_account_enter_made(struct cn_account *account, unsigned device, uint64_t file, uint64_t bytes);
/* Another process's file. Nothing to enter: no process has made it in this account. */
unsigned cn_account_enter_held(struct cn_account *account, uint64_t file, unsigned *ret_device);
bool cn_account_change(struct cn_account *account, unsigned device, unsigned number, uint64_t bytes);
bool cn_account_leave(struct cn_account *account, unsigned device, unsigned number);
/*
 * The same for what this process made, whose bytes it gives back at the same instant. A process that gets the file
 * later, from a message on its way or from a third one, is still told what it is: of the last CN_ACCOUNT_LEFT files.
 */
bool cn_account_give_up(struct cn_account *account, unsigned device, unsigned number);

/* ---- Looking at an account from outside ---- */

/* The capacity that a name says; 0: it is the account of GPUs, or no name of an account. */
uint64_t cn_account_capacity(const char *file);
/*
 * Read an account of another user, which may contain anything, once; the descriptor may be for reading only, and is the
 * account's, or closed. For cn_account_sum() and what follows alone, which speak of that moment; to close it
 * changes nothing in the directory. False: it cannot be read, or there is no memory.
 */
bool cn_account_look_into(int fd, struct cn_account **ret_account);
/* After cn_account_sum(): how many live processes have made something of the device. */
unsigned cn_account_user_count(const struct cn_account *account, unsigned device);

/*
 * Which processes have a slot of a device, and how many bytes each has made. Only those that have a PID in this
 * process's namespace and into whose /proc directory this process may look. Takes a system call for each descriptor of
 * each such process. False: /proc cannot be read. The account need not have been joined.
 */
typedef void cn_account_user(int pid, uint64_t made_bytes, void *data);
bool cn_account_users(struct cn_account *account, unsigned device, cn_account_user *found, void *data);
/* The same of all devices, with one look at each process. */
typedef void cn_account_user_of(int pid, unsigned device, uint64_t made_bytes, void *data);
bool cn_account_users_of_all(struct cn_account *account, cn_account_user_of *found, void *data);

/* ---- Sweeping ---- */

bool cn_account_is_name(const char *file);
/* Look at the account under this name in a directory; if no process has it open, and not `only_look`, remove it. */
void cn_account_sweep(int directory_fd, const char *file, bool only_look, bool *ret_live, bool *ret_removed);

#endif
