/* SPDX-License-Identifier: MIT */
/*
 * An account's file, and what the three files of account.h know of each other.
 *
 * The file, sparse:
 *
 *	0                     the headers of all slots, two of 64 bytes each
 *	128 KiB + n · 64 KiB  the entries of slot n, 16 bytes each
 *	1 TiB - 1             no bytes from here on, only locks (F_OFD_SETLK): the turn
 *	1 TiB + n · 64 KiB    of slot n, one for each life, modulo 65536
 *
 * Each process that has the file open has a shared flock() on it; one that removes the file, because it is the last or
 * because all others were killed, has an exclusive one. (The
 * kernel looks for a lock of a byte in one list of all: presence would make it twice as long.)
 *
 * A header is written in two halves by turns, chosen by its sequence, and the check last. So a process that is stopped
 * or killed while it writes leaves the header before it whole, and a change has one instant: that of the check.
 *
 * The file ends where the entries of the last slot end that was ever used. A *life* is the time for which a slot has
 * one owner. The next owner locks the byte of the next life first and writes its header then; so what the last one left
 * is not taken for live meanwhile, and of two that want the slot one gets it. A life that has ended is known for good.
 */
#ifndef CN_BASE_ACCOUNT_INTERNAL_H
#define CN_BASE_ACCOUNT_INTERNAL_H

#include "base/account.h"

#include <sys/types.h>

enum {
	CN_ACCOUNT_MAGIC = 0x61636e63,
	CN_ACCOUNT_VERSION = 2,
	CN_ACCOUNT_HALVES = 2,
	CN_ACCOUNT_HEADERS_BYTES = 131072,
	CN_ACCOUNT_REGION_BYTES = 65536, /* of a slot's entries */
	CN_ACCOUNT_LIVES = 65536,        /* locks of a slot */
};

#define CN_ACCOUNT_LOCK_BASE  ((off_t)1 << 40)
#define CN_ACCOUNT_LOCK_TURN  (CN_ACCOUNT_LOCK_BASE - 1)
#define CN_ACCOUNT_LOCK_PROBE (CN_ACCOUNT_LOCK_BASE - 2) /* shared, to see how the kernel shows a lock */
#define CN_ACCOUNT_MADE       (UINT64_C(1) << 63)        /* in an entry: by the slot's owner, */
#define CN_ACCOUNT_GONE       (UINT64_C(1) << 62)        /* which has it no longer */

struct cn_account_header {
	uint32_t magic, version;
	uint64_t life, sequence; /* bit 1 of the sequence: in which half it is */
	uint64_t made_bytes, bid_bytes;
	uint32_t device, entry_count; /* how many entries to read; some may be empty */
	uint32_t held_count, unused;
	uint64_t check;
};
/* As it is in the file. */
struct cn_account_halves {
	struct cn_account_header halves[CN_ACCOUNT_HALVES];
};
_Static_assert(sizeof(struct cn_account_halves) * CN_ACCOUNT_SLOTS == CN_ACCOUNT_HEADERS_BYTES,
	       "the headers fill this");

struct cn_account_entry {
	uint64_t file;  /* 0: none */
	uint64_t bytes; /* with the two flags above */
};
_Static_assert(sizeof(struct cn_account_entry) * CN_ACCOUNT_ENTRIES == CN_ACCOUNT_REGION_BYTES,
	       "a slot's entries fill a region");

/* A slot of this process. */
struct cn_account_slot {
	bool joined;
	unsigned index;
	struct cn_account_header header;
	struct cn_account_entry *entries;           /* as they are in the file; NULL: there were none yet */
	unsigned left[CN_ACCOUNT_LEFT], left_count; /* numbers of entries, in a ring */
};

/* What an entry says, for the sum. */
struct cn_account_gathered {
	uint64_t file, bytes;
	enum {
		CN_ACCOUNT_HELD_FILE,
		CN_ACCOUNT_MADE_FILE,
		CN_ACCOUNT_LEFT_FILE
	} kind; /* left: by a maker that has it no longer */
};

struct cn_account {
	int fd;
	dev_t file_system;
	ino_t inode;
	char *mapped; /* the whole file, and where it may grow; NULL: not here, in a forked child */
	bool is_viewer;
	bool guarded; /* for the thread that uses it now: see cn_account_prepare() */
	struct cn_account_slot slots[CN_ACCOUNT_DEVICES];
	unsigned header_count, read_count; /* as last read, our own among them; in the file. So is what follows */
	struct cn_account_halves read[CN_ACCOUNT_SLOTS];
	struct cn_account_header headers[CN_ACCOUNT_SLOTS]; /* magic 0: of no use */
	bool live[CN_ACCOUNT_SLOTS];
	bool own[CN_ACCOUNT_SLOTS];
	bool changing;                         /* some slot's entries are */
	bool somebody_died;                    /* a process that was not known to be dead before */
	uint64_t ended_life[CN_ACCOUNT_SLOTS]; /* of each slot the last that is known to have ended; 0: none */
	struct cn_account_halves again[CN_ACCOUNT_SLOTS];
	struct cn_account_gathered *gathered;
	size_t gathered_count, gathered_room;
	uint64_t entering;   /* a file that is about to be held; 0: none */
	unsigned last_maker; /* the slot of the last file that was entered as held */
	bool noted[CN_ACCOUNT_SLOTS];
	uint64_t noted_sequences[CN_ACCOUNT_SLOTS];
};

/* ---- account_file.c ---- */

static inline uint64_t cn_account_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static inline uint64_t cn_account_add(uint64_t left, uint64_t right)
{
	uint64_t sum;

	return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

static inline off_t cn_account_region(unsigned index)
{
	return CN_ACCOUNT_HEADERS_BYTES + (off_t)index * CN_ACCOUNT_REGION_BYTES;
}

static inline off_t cn_account_halves_at(unsigned index)
{
	return (off_t)index * (off_t)sizeof(struct cn_account_halves);
}

static inline unsigned cn_account_half(uint64_t sequence)
{
	return sequence >> 1 & 1;
}

static inline off_t cn_account_slot_lock(unsigned index)
{
	return CN_ACCOUNT_LOCK_BASE + (off_t)index * CN_ACCOUNT_LIVES;
}

static inline off_t cn_account_life_lock(unsigned index, uint64_t life)
{
	return cn_account_slot_lock(index) + (off_t)(life % CN_ACCOUNT_LIVES);
}

uint64_t cn_account_check(const struct cn_account_header *header, unsigned index);
/* Is the descriptor still ours, and the file's size? A program may close descriptors that it did not open. */
bool cn_account_look(const struct cn_account *account, off_t *ret_bytes);
/* Make the file long enough for a slot's entries. To write beyond a limit would end the process with SIGXFSZ. */
bool cn_account_grow(const struct cn_account *account, unsigned index);
/* Write a header, or one word of an entry, where the file is mapped. False: it is not there any more. */
bool cn_account_store_header(const struct cn_account *account, unsigned index, const struct cn_account_header *header);
bool cn_account_store(const struct cn_account *account, off_t offset, uint64_t value);
int cn_account_lock(int fd, short type, off_t start, off_t length);
/* Does another process have a lock there? */
bool cn_account_is_locked(const struct cn_account *account, off_t start, off_t length);

/* ---- account_sum.c ---- */

/* The newest whole header of a slot. False: there is none. */
bool cn_account_pick(const struct cn_account_halves *halves, unsigned index, struct cn_account_header *ret_header);
/* Read all headers, and look which of them are live; or take all for live that are not known to have ended. */
bool cn_account_read_headers(struct cn_account *account, bool ask_who_lives);
/* For a viewer, once: in an account that a stranger keeps changing it does not try for long. */
bool cn_account_read_from_outside(struct cn_account *account);
/* Call a function with each entry of a slot, until it returns false. False: it did. */
typedef bool cn_account_visitor(struct cn_account *account, unsigned index, const struct cn_account_entry *entry,
				void *data);
bool cn_account_visit(struct cn_account *account, unsigned index, cn_account_visitor *visit, void *data);
/* A visitor that collects in account->gathered. */
bool cn_account_gather(struct cn_account *account, unsigned index, const struct cn_account_entry *entry, void *data);

#endif
