/* SPDX-License-Identifier: MIT */
/*
 * The order of locks, checked: each thread knows which locks it has and where it took them.
 *
 * A lock that is taken out of order is found each time it is taken, whether or not another thread is there to make it a
 * deadlock, and before the thread waits for it. The process then prints which locks they are, and ends.
 */
#include "base/rank.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELD_MAX = 12 };

enum kind { LOCK_lock, LOCK_quick_lock, LOCK_owned_lock, LOCK_driver_lock, LOCK_slow_lock };
enum two { TWO_NEVER, TWO_BY_ADDRESS, TWO_SHARED };

static const struct {
	const char *name;
	enum kind kind;
	enum two two;
} ranks[CN_RANK_COUNT] = {[CN_RANK_NONE] = {.name = "no lock"},
#define INFORMATION(name, kind, two, guards) [CN_RANK_##name] = {#name, LOCK_##kind, TWO_##two},
			  CN_RANKS(INFORMATION)
#undef INFORMATION
};

struct held {
	const void *lock;
	const struct cn_rank_site *site;
};

static _Thread_local struct held held[HELD_MAX];
static _Thread_local unsigned held_count;

static void print(const struct cn_rank_site *site, const char *what)
{
	dprintf(STDERR_FILENO, "  %s (%s, rank %d) %s %s:%d\n", site->name, ranks[site->rank].name, site->rank, what,
		site->file, site->line);
}

static _Noreturn void stop(const char *text, const struct cn_rank_site *now, const struct cn_rank_site *before)
{
	dprintf(STDERR_FILENO, "cenote[%d]: %s\n", (int)getpid(), text);
	print(now, "at");
	if (before)
		print(before, "taken at");
	abort();
}

/* Both have one rank, and the first is held: may the second be taken? */
static bool may_be_two(const struct held *first, const void *second)
{
	switch (ranks[first->site->rank].two) {
	case TWO_NEVER: return false;
	case TWO_BY_ADDRESS: return (uintptr_t)first->lock < (uintptr_t)second;
	case TWO_SHARED: return true;
	}
	return false;
}

void cn_rank_took(const void *lock, const struct cn_rank_site *site)
{
	if (held_count == HELD_MAX)
		stop("a thread has too many locks", site, held[HELD_MAX - 1].site);
	held[held_count++] = (struct held){lock, site};
}

void cn_rank_take(const void *lock, const struct cn_rank_site *site)
{
	for (unsigned i = 0; i < held_count; i++) {
		enum cn_rank rank = held[i].site->rank;
		if (site->rank < rank || (site->rank == rank && !may_be_two(&held[i], lock)))
			stop("a lock is taken too late: one in hand comes after it", site, held[i].site);
	}
	cn_rank_took(lock, site);
}

void cn_rank_drop(const void *lock, const struct cn_rank_site *site)
{
	unsigned i = held_count;

	while (i && held[i - 1].lock != lock)
		i--;
	if (!i)
		stop("a lock is unlocked by a thread that has not got it", site, NULL);
	memmove(&held[i - 1], &held[i], (held_count - i) * sizeof held[0]);
	held_count--;
}

void cn_rank_wait(const struct cn_rank_site *site)
{
	for (unsigned i = 0; i < held_count; i++)
		if (ranks[held[i].site->rank].kind != LOCK_slow_lock)
			stop("a thread waits with a lock in hand that is held for a moment only", site, held[i].site);
}
