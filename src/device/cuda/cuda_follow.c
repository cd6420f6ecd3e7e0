/* SPDX-License-Identifier: MIT */
/*
 * Which stream waits for which.
 *
 * When a stream is made to wait for a point of another one, driver/ does it and then says so here: from the open span
 * on, this queue comes after that point. In this order, an entry never claims too much: a point of the queue with a
 * number from `from` on has the wait before it.
 *
 * Each queue keeps the last CN_CUDA_FOLLOWED_MAX entries. One that is left out loses a chance to reuse memory without
 * waiting, and never more than that. A walk (device/walk.h) goes from queue to queue. Locks: that of walks, then one
 * stream's `followed_lock`.
 *
 * The legacy stream and the blocking streams of its context come after each other by CUDA's rule, and need no entries
 * for that. Chains that lead over the legacy stream are not seen.
 */
#include "device/cuda/cuda_internal.h"
#include "device/walk.h"

enum { LOOKED_BACK_MAX = 8 };

struct walk {
	struct cn_walk base;
	struct cn_point target;
	bool outside; /* wanted is not the target, but a queue that waits for another process */
};

void cn_cuda_follow_open(struct cn_cuda_stream *stream)
{
	cn_quick_lock(&stream->followed_lock);
	atomic_store(&stream->followed_last, 0);
	atomic_store(&stream->outside_until, 0);
	cn_quick_unlock(&stream->followed_lock);
}

/*
 * The newest entry for a queue, if it is among the last few: older ones usually say less, and an extra entry does no
 * harm. Followed locked.
 */
static struct cn_followed *newest_of(struct cn_cuda_stream *stream, const struct cn_queue *queue)
{
	uint64_t last = atomic_load_explicit(&stream->followed_last, memory_order_relaxed);
	uint64_t count = last < LOOKED_BACK_MAX ? last : LOOKED_BACK_MAX;

	for (uint64_t i = 1; i <= count; i++) {
		struct cn_followed *entry = &stream->followed[(last - i) % CN_CUDA_FOLLOWED_MAX];
		if (entry->point.queue == queue)
			return entry;
	}
	return NULL;
}

void cn_cuda_queue_follow(struct cn_queue *queue, uint64_t owner, struct cn_point point)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);

	if (!point.queue || point.queue == queue)
		return;
	cn_quick_lock(&stream->followed_lock);
	const struct cn_followed *newest = newest_of(stream, point.queue);
	if (atomic_load(&queue->owner) == owner && (!newest || newest->point.number < point.number)) {
		uint64_t last = atomic_load_explicit(&stream->followed_last, memory_order_relaxed);
		stream->followed[last % CN_CUDA_FOLLOWED_MAX] =
			(struct cn_followed){point, atomic_load(&queue->submitted) + 1};
		atomic_store_explicit(&stream->followed_last, last + 1, memory_order_release);
	}
	cn_quick_unlock(&stream->followed_lock);
}

/* ---- Walks ---- */

static bool waits_outside_itself(struct cn_point point)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(point.queue);
	uint64_t until = atomic_load(&stream->outside_until);

	return until && point.number >= atomic_load(&stream->outside_first) &&
	       !cn_point_reached((struct cn_point){point.queue, until});
}

/* What is followed goes up to this point. Is that what is wanted? */
static bool reach(struct walk *walk, struct cn_point point)
{
	struct cn_queue *queue = point.queue;

	if (walk->outside ? waits_outside_itself(point)
			  : queue == walk->target.queue && point.number >= walk->target.number)
		return true;
	cn_walk_add(&walk->base, point);
	return false;
}

/* Entries from a number on, up to another. */
static bool look_at(struct walk *walk, struct cn_cuda_stream *stream, uint64_t from, uint64_t up_to)
{
	bool reached = false;

	cn_quick_lock(&stream->followed_lock);
	uint64_t last = atomic_load_explicit(&stream->followed_last, memory_order_relaxed);
	uint64_t count = last < CN_CUDA_FOLLOWED_MAX ? last : CN_CUDA_FOLLOWED_MAX;
	for (uint64_t i = 0; i < count && !reached; i++) {
		const struct cn_followed *entry = &stream->followed[(last - 1 - i) % CN_CUDA_FOLLOWED_MAX];
		if (entry->from <= from)
			break; /* older ones were looked at before */
		if (entry->from <= up_to)
			reached = reach(walk, entry->point);
	}
	cn_quick_unlock(&stream->followed_lock);
	return reached;
}

static bool walk_from(struct cn_queue *queue, uint64_t number, struct cn_point target, bool outside)
{
	struct walk walk = {.target = target, .outside = outside};
	struct cn_queue *at;
	uint64_t from, up_to;

	cn_walk_begin(&walk.base);
	bool reached = look_at(&walk, cn_cuda_stream_of(queue), 0, number);
	while (!reached && (at = cn_walk_next(&walk.base, &from, &up_to)))
		reached = look_at(&walk, cn_cuda_stream_of(at), from, up_to);
	cn_walk_end();
	return reached;
}

static bool follows_nothing(struct cn_queue *queue)
{
	return !atomic_load_explicit(&cn_cuda_stream_of(queue)->followed_last, memory_order_relaxed);
}

/* The legacy stream and a blocking one, both alive: what is submitted next waits for what was submitted before. */
static bool follow_each_other(struct cn_cuda_stream *one, struct cn_cuda_stream *other)
{
	bool legacy = one->kind == CN_CUDA_LEGACY || other->kind == CN_CUDA_LEGACY;

	return legacy && one->context == other->context && one->blocking && other->blocking &&
	       atomic_load(&one->state) == CN_CUDA_LIVE && atomic_load(&other->state) == CN_CUDA_LIVE;
}

bool cn_cuda_queue_follows(struct cn_queue *queue, struct cn_point point, struct cn_point *ret_relied_on)
{
	*ret_relied_on = (struct cn_point){NULL, 0};
	if (!point.queue || point.queue == queue)
		return true;
	struct cn_cuda_stream *other = cn_cuda_stream_of(point.queue);
	if (!follow_each_other(cn_cuda_stream_of(queue), other))
		return !follows_nothing(queue) && walk_from(queue, UINT64_MAX, point, false);
	if (other->kind == CN_CUDA_LEGACY)
		*ret_relied_on = point;
	return true;
}

/* ---- Other processes ---- */

/*
 * Called before the driver is told to wait. If a mark ends the span in between, the wait is in the next span: the queue
 * then counts as waiting until that one is over, too.
 */
void cn_cuda_waits_outside(struct cn_queue *queue)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);

	cn_quick_lock(&stream->followed_lock);
	uint64_t open = atomic_load(&queue->submitted) + 1, until = atomic_load(&stream->outside_until);
	if (!until || cn_point_reached((struct cn_point){queue, until}))
		atomic_store(&stream->outside_first, open);
	atomic_store(&stream->outside_until, open + 1);
	cn_quick_unlock(&stream->followed_lock);
}

bool cn_cuda_point_waits_outside(struct cn_point point)
{
	if (!point.queue || cn_point_reached(point))
		return false;
	return waits_outside_itself(point) || (!follows_nothing(point.queue) &&
					       walk_from(point.queue, point.number, (struct cn_point){NULL, 0}, true));
}
