/* SPDX-License-Identifier: MIT */
/*
 * Which bytes a kernel reads and writes, for `cenote check --exact`.
 *
 * The host device tells while kernels in PTX run (cenote_kernel_watch()). What lies side by side becomes one range.
 * When the kernel ends, its ranges are written, and then that it has ended: before anything that waits for it goes on.
 * A kernel with too many ranges is written as one that was not watched.
 */
#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES_MAX = 4096, USES = CENOTE_WRITES + 1 };

struct range {
	uint64_t begin, end;
};

/* In order, and no two of them touch. */
struct set {
	int count, room, last; /* last: which was changed last */
	struct range *list;
};

struct watched {
	pthread_mutex_t lock;
	uint64_t number;
	bool is_cut; /* there were more than are kept */
	struct set sets[USES];
};

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

static bool make_room(struct set *set)
{
	if (set->count < set->room)
		return true;
	int room = set->room ? 2 * set->room : 16;
	struct range *larger = room <= RANGES_MAX ? realloc(set->list, (size_t)room * sizeof *larger) : NULL;
	if (!larger)
		return false;
	set->list = larger;
	set->room = room;
	return true;
}

/* The first that ends at or behind an address. */
static int find(const struct set *set, uint64_t address)
{
	int low = 0, high = set->count;

	while (low < high) {
		int middle = low + (high - low) / 2;
		if (set->list[middle].end < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* False: there is no room. */
static bool add(struct set *set, uint64_t begin, uint64_t end)
{
	if (set->count && set->list[set->last].begin <= begin && end <= set->list[set->last].end)
		return true;
	int first = find(set, begin), past = first;
	for (; past < set->count && set->list[past].begin <= end; past++) {
		begin = set->list[past].begin < begin ? set->list[past].begin : begin;
		end = set->list[past].end > end ? set->list[past].end : end;
	}
	if (past == first && !make_room(set))
		return false;
	memmove(set->list + first + 1, set->list + past, (size_t)(set->count - past) * sizeof *set->list);
	set->count += 1 - (past - first);
	set->list[first] = (struct range){begin, end};
	set->last = first;
	return true;
}

/* ---- What the device tells --------------------------------------------------------------------------------------- */

/* The number of a record, and 1. */
static unsigned long long launched(void)
{
	return cn_trace_launches();
}

static void *begins(unsigned long long launch)
{
	struct watched *watched = calloc(1, sizeof *watched);

	if (!watched)
		return NULL;
	watched->number = launch - 1;
	pthread_mutex_init(&watched->lock, NULL);
	return watched;
}

static void touched(void *data, unsigned long long address, size_t bytes, cenote_use use)
{
	struct watched *watched = data;

	pthread_mutex_lock(&watched->lock);
	if (!watched->is_cut && (int)use < USES && bytes)
		watched->is_cut = !add(&watched->sets[use], address, address + bytes);
	pthread_mutex_unlock(&watched->lock);
}

/* A record has the time, and then pairs: a beginning with a use, and a length. */
static void write_set(const struct watched *watched, int use, uint64_t now)
{
	const struct set *set = &watched->sets[use];
	uint64_t words[CN_TRACE_WORDS_MAX] = {now};
	size_t count = 1;

	for (int i = 0; i < set->count; i++) {
		words[count++] = set->list[i].begin | (uint64_t)use << CN_TRACE_USE_SHIFT;
		words[count++] = set->list[i].end - set->list[i].begin;
		if (count + 2 <= CN_TRACE_WORDS_MAX && i + 1 < set->count)
			continue;
		cn_trace_put_words(CN_TRACE_RANGES, watched->number, words, count);
		count = 1;
	}
}

static void ends(void *data)
{
	struct watched *watched = data;
	const uint64_t words[] = {cn_trace_now_ns(), !watched->is_cut};

	for (int use = 0; use < USES; use++) {
		if (!watched->is_cut)
			write_set(watched, use, words[0]);
		free(watched->sets[use].list);
	}
	cn_trace_put_words(CN_TRACE_KERNEL_ENDED, watched->number, words, sizeof words / sizeof words[0]);
	pthread_mutex_destroy(&watched->lock);
	free(watched);
}

static void install(void)
{
	static const cenote_kernel_watcher watcher = {CENOTE_KERNEL_WATCHER_VERSION, launched, begins, touched, ends};
	const char *wanted = getenv(CN_TRACE_EXACT_VARIABLE);
	__typeof__(cenote_kernel_watch) *watch = NULL;

	if (cn_trace_checks && wanted && strcmp(wanted, "1") == 0)
		watch = (__typeof__(watch))cn_trace_find("cenote_kernel_watch");
	if (watch)
		watch(&watcher);
}

void cn_trace_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}
