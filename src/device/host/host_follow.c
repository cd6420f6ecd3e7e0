/* SPDX-License-Identifier: MIT */
/*
 * What a queue comes after.
 *
 * "Does this queue follow that point?" is two questions. While the point has not been reached, the answer decides about
 * memory that may still be in use. It is read from the waits that stand in the queues: no link of a chain to such a
 * point is over, for then all that lies behind the link would have happened.
 *
 * Once the point has been reached no harm is possible, but a program that allows no opportunistic reuse wants to know
 * whether there was an order. For that each queue keeps a table of what it was made to follow, including waits that had
 * nothing to wait for: from its operation `from` on, it comes after a point of another queue. An event stands for its
 * queue's number when it was recorded, so only entries up to that number count for queues that waited for it; what the
 * queue was made to follow later does not.
 *
 * The table has a bound. An entry that is left out loses a chance to reuse memory, and never more than that: the table
 * is asked only about what has happened. First to go are entries of the older half that a later one covers, which
 * concern only events recorded between the two; then, in a queue that was made to follow FOLLOWED_MAX others, the
 * oldest.
 *
 * A walk (device/walk.h) visits each queue that is followed. (A queue that two streams had, one after the other, and
 * that is met as both, is followed as the later one's.) Locks: that of walks, then a group's or one queue's.
 */
#include "device/host/host_internal.h"
#include "device/walk.h"

#include <stdlib.h>
#include <string.h>

enum {
	FOLLOWED_MIN = 64, /* entries; all numbers of them are powers of two */
	FOLLOWED_MAX = 2048,
	KNOWN_DEEP_MAX = 8, /* entries that are looked at before one is added */
};

/* ---- The table -------------------------------------------------------------------------------------------------- */

/* Where a queue stands, or would stand, in a table of entries' positions, 0 being none. */
static unsigned find_place(const uint16_t *places, unsigned mask, const struct cn_followed *entries,
			   const struct cn_queue *queue)
{
	unsigned place = (unsigned)(((uintptr_t)queue >> 6) * 0x9e3779b97f4a7c15u >> 40) & mask;

	while (places[place] && entries[places[place] - 1].point.queue != queue)
		place = (place + 1) & mask;
	return place;
}

/* Leave out what later entries cover, but nothing of the newer half. Queue locked. */
static void leave_out_covered(struct cn_host_queue *queue)
{
	struct cn_followed *entries = queue->followed;
	unsigned count = queue->followed_count, kept = count, mask = 2 * queue->followed_room - 1;
	uint16_t places[2 * FOLLOWED_MAX];

	memset(places, 0, (mask + 1) * sizeof *places);
	for (unsigned i = count; i-- > 0;) { /* the newest first, moved to the end */
		struct cn_followed entry = entries[i];
		if (!entry.point.queue) {
			memset(places, 0, (mask + 1) * sizeof *places);
			entries[--kept] = entry;
			continue;
		}
		unsigned place = find_place(places, mask, entries, entry.point.queue);
		const struct cn_followed *later = places[place] ? &entries[places[place] - 1] : NULL;
		if (later && later->point.number >= entry.point.number && i < count / 2)
			continue;
		entries[--kept] = entry;
		if (!later || later->point.number < entry.point.number)
			places[place] = (uint16_t)(kept + 1);
	}
	queue->followed_count = count - kept;
	memmove(entries, entries + kept, queue->followed_count * sizeof *entries);
}

/* Before an entry is added. False: there is no room. Queue locked. */
static bool has_room(struct cn_host_queue *queue)
{
	unsigned room = queue->followed_room;

	if (queue->followed_count != room / 4 * 3 && queue->followed_count != room)
		return true;
	if (!room)
		return false;
	leave_out_covered(queue);
	if (queue->followed_count > room / 8 * 5 && room < FOLLOWED_MAX)
		atomic_store_explicit(&queue->followed_crowded, true, memory_order_relaxed);
	if (queue->followed_count == room) {
		queue->followed_count -= room / 4;
		memmove(queue->followed, queue->followed + room / 4, queue->followed_count * sizeof *queue->followed);
	}
	return true;
}

static bool is_known(const struct cn_host_queue *queue, struct cn_point point)
{
	unsigned first = queue->followed_count > KNOWN_DEEP_MAX ? queue->followed_count - KNOWN_DEEP_MAX : 0;

	for (unsigned i = queue->followed_count; i-- > first && queue->followed[i].point.queue;)
		if (queue->followed[i].point.queue == point.queue)
			return queue->followed[i].point.number >= point.number;
	return false;
}

bool cn_host_follow_locked(struct cn_host_queue *queue, struct cn_point point)
{
	uint64_t from = atomic_load_explicit(&queue->base.submitted, memory_order_relaxed) + 1;
	bool own = point.queue == &queue->base && point.number > queue->opened; /* not of an earlier owner */

	if (point.queue && !own && !is_known(queue, point) && has_room(queue)) {
		queue->followed[queue->followed_count++] = (struct cn_followed){point, from};
		atomic_store_explicit(&queue->learned, from, memory_order_relaxed);
	}
	return cn_host_follow_is_ahead(queue);
}

static void make_room(struct cn_host_queue *queue)
{
	cn_quick_lock(&queue->lock);
	unsigned room = queue->followed_room;
	cn_quick_unlock(&queue->lock);

	unsigned wanted = room ? 2 * room : FOLLOWED_MIN;
	struct cn_followed *entries = wanted <= FOLLOWED_MAX ? malloc(wanted * sizeof *entries) : NULL;
	if (!entries)
		return; /* it continues with what it has */
	cn_quick_lock(&queue->lock);
	struct cn_followed *unused = entries;
	if (queue->followed_room == room) { /* no other thread was faster */
		if (room)
			memcpy(entries, queue->followed, queue->followed_count * sizeof *entries);
		unused = queue->followed;
		queue->followed = entries;
		queue->followed_room = wanted;
		atomic_store_explicit(&queue->followed_crowded, false, memory_order_relaxed);
	}
	cn_quick_unlock(&queue->lock);
	free(unused);
}

void cn_host_follow_open(struct cn_host_queue *queue)
{
	if (!queue->followed)
		make_room(queue);
	cn_quick_lock(&queue->lock);
	uint64_t submitted = atomic_load_explicit(&queue->base.submitted, memory_order_relaxed);
	atomic_store_explicit(&queue->learned, submitted, memory_order_relaxed);
	queue->opened = submitted;
	if (queue->followed_count && queue->followed[queue->followed_count - 1].point.queue && has_room(queue))
		queue->followed[queue->followed_count++] = (struct cn_followed){.from = submitted};
	cn_quick_unlock(&queue->lock);
}

void cn_host_follow_make_room(struct cn_host_queue *queue)
{
	if (__builtin_expect(atomic_load_explicit(&queue->followed_crowded, memory_order_relaxed), 0))
		make_room(queue);
}

/* ---- Walks ------------------------------------------------------------------------------------------------------ */

struct walk {
	struct cn_walk base;
	struct cn_point target;
	bool past; /* by the tables; else by the waits that stand */
};

/* What is followed goes up to this point. Is that the target? */
static bool reach(struct walk *walk, struct cn_point point)
{
	struct cn_queue *queue = point.queue;

	if (!queue || (!walk->past && cn_point_reached(point)))
		return false;
	if (queue == walk->target.queue && point.number >= walk->target.number)
		return true;
	cn_walk_add(&walk->base, point);
	return false;
}

/* The waits that stand in a queue, from a number on, up to another. Queue locked. */
static bool reach_waits(struct walk *walk, struct cn_host_queue *queue, uint64_t from, uint64_t up_to)
{
	/* Counted from the end: an operation that runs in its caller has a number, but stands nowhere. */
	uint64_t number = atomic_load_explicit(&queue->base.submitted, memory_order_relaxed);

	for (struct cn_host_item *item = queue->first; item; item = item->next)
		number--;
	for (struct cn_host_item *item = queue->first; item && ++number <= up_to; item = item->next)
		if (number > from && item->operation.kind == CN_OPERATION_WAIT_POINT &&
		    reach(walk, item->operation.wait_point))
			return true;
	return false;
}

/* The same in the table, as far back as the stream goes which had the queue at `up_to`. Queue locked. */
static bool reach_followed(struct walk *walk, struct cn_host_queue *queue, uint64_t from, uint64_t up_to)
{
	for (unsigned i = queue->followed_count; i-- > 0;) {
		const struct cn_followed *entry = &queue->followed[i];
		if (entry->from <= from || (!entry->point.queue && entry->from < up_to))
			return false;
		if (entry->from <= up_to && reach(walk, entry->point))
			return true;
	}
	return false;
}

static bool look_at(struct walk *walk, struct cn_host_queue *queue, uint64_t from, uint64_t up_to)
{
	cn_quick_lock(&queue->lock);
	bool reached = walk->past ? reach_followed(walk, queue, from, up_to) : reach_waits(walk, queue, from, up_to);
	cn_quick_unlock(&queue->lock);
	return reached;
}

/* What the next operation of a queue comes after by the rule of its group, whether or not an entry says so yet. */
static bool reach_group(struct walk *walk, struct cn_host_queue *queue)
{
	struct cn_host_group *group = queue->group;
	bool reached = false;

	if (!group)
		return false;
	if (group->legacy != queue)
		return reach(walk,
			     (struct cn_point){&group->legacy->base, atomic_load(&group->legacy->base.submitted)});
	cn_lock(&group->lock);
	for (struct cn_host_queue *other = group->blocking; other && !reached; other = other->group_next)
		reached = reach(walk, (struct cn_point){&other->base, atomic_load(&other->base.submitted)});
	cn_unlock(&group->lock);
	return reached;
}

static bool walk_to(struct cn_host_queue *queue, struct cn_point target, bool past)
{
	struct walk walk = {.target = target, .past = past};
	struct cn_queue *at;
	uint64_t from, up_to;

	cn_walk_begin(&walk.base);
	bool reached = look_at(&walk, queue, 0, UINT64_MAX) || reach_group(&walk, queue);
	while (!reached && (at = cn_walk_next(&walk.base, &from, &up_to)))
		reached = look_at(&walk, cn_host_queue_of(at), from, up_to);
	cn_walk_end();
	return reached;
}

/* The answer holds after the locks are released: a wait once submitted stays, and what has happened stays so. */
bool cn_host_queue_follows(struct cn_queue *base, struct cn_point point, struct cn_point *ret_relied_on)
{
	struct cn_host_queue *queue = cn_host_queue_of(base);
	struct cn_host_queue *other = cn_host_queue_of(point.queue);
	struct cn_host_group *group = queue->group;

	*ret_relied_on = (struct cn_point){NULL, 0};
	if (point.queue == base)
		return true;
	/* The legacy queue and a blocking one follow each other: what is submitted next will wait. */
	if (group && other->group == group && (group->legacy == queue || group->legacy == other))
		return true;
	if (!cn_point_reached(point) && walk_to(queue, point, false))
		return true;
	return cn_point_reached(point) && walk_to(queue, point, true);
}

/* A queue notes the order of its group only when it is given an operation, or a point of it is taken. */
CUresult cn_host_queue_rely(struct cn_queue *queue, uint64_t owner, struct cn_point relied_on)
{
	(void)relied_on;
	return cn_host_point_now(queue, owner, NULL);
}
