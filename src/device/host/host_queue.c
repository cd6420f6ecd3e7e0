/* SPDX-License-Identifier: MIT */
/*
 * Queues: operations one after the other.
 *
 * A queue is IDLE (nothing to do), DRIVEN (exactly one thread goes through its items: a caller, or an executor) or
 * BLOCKED (its first item waits; what it waits for resumes it). Short operations on an idle queue run in the caller,
 * without any allocation. A caller also drives short items that follow, and hands the queue to an executor at the first
 * one that is long, can block or calls back into the program. A thread that waits for a queue drives it itself if no
 * executor has come to that yet, as far as it waits. No thread ever sleeps for a blocked queue, so a thousand waiting
 * streams cost no thread.
 *
 * A waiter is put on the list of the queue it waits for, ordered by number, and called once when `completed` gets
 * there.
 *
 * The legacy queue and the blocking queues of its group look at each other while they submit, in this order of locks:
 * group, then one queue. A legacy submission sets `joining`, then looks at every blocking queue under its lock; a
 * blocking submission looks at `joining`, then at the legacy queue, under its own lock. So either the legacy side sees
 * the operation, or the blocking side sees `joining` and waits for the group's lock. Never both, which would make each
 * wait for the other.
 */
#include "base/container.h"
#include "device/host/host_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE, DRIVEN, BLOCKED };

enum {
	SPARE_ITEMS_MAX = 64,
	HELP_HOPS_MAX = 16, /* queues that wait for one another, on the way to the one that can go on */
};

/* What a thread that drives a queue does itself; it hands the queue to an executor at the first item beyond that. */
enum effort {
	WAITS,  /* nothing but waits: safe under a lock of the caller's that an operation may want */
	SHORTS, /* what cn_host_is_short() */
	NEEDED, /* everything up to the number that it waits for */
	EVERYTHING,
};

/* Takes a number. */
static const struct cn_operation nothing = {.kind = CN_OPERATION_WAIT_POINT};

static bool is_wait(const struct cn_operation *operation)
{
	return operation->kind == CN_OPERATION_WAIT_POINT || operation->kind == CN_OPERATION_WAIT_VALUE ||
	       operation->kind == CN_OPERATION_WAIT_SIGNAL;
}

/* Does a thread run this item, so many being completed and `until` wanted? */
static bool within(enum effort effort, const struct cn_operation *operation, uint64_t completed, uint64_t until)
{
	if (effort == WAITS)
		return is_wait(operation);
	if (effort == NEEDED)
		return completed < until;
	return effort == EVERYTHING || cn_host_is_short(operation);
}

/* Count more operations as done; returns the waiters that this releases. Queue locked. */
static struct cn_waiter *complete_locked(struct cn_host_queue *queue, unsigned count, CUresult result)
{
	uint64_t number = atomic_load_explicit(&queue->base.completed, memory_order_relaxed) + count;
	struct cn_waiter *released = queue->waiters, **end = &queue->waiters;

	if (result && !atomic_load_explicit(&queue->failure, memory_order_relaxed)) {
		atomic_store_explicit(&queue->failure, result, memory_order_relaxed);
		queue->sentence = strdup(cn_last_error()); /* this thread ran it; without memory the code says enough */
	}
	atomic_store_explicit(&queue->base.completed, number, memory_order_release);

	while (*end && (*end)->number <= number)
		end = &(*end)->next;
	if (end == &queue->waiters)
		return NULL;
	queue->waiters = *end;
	*end = NULL;
	return released;
}

static void release_waiters(struct cn_waiter *waiter)
{
	while (waiter) {
		struct cn_waiter *next = waiter->next; /* the waiter may be gone once it was called */
		waiter->reached(waiter);
		waiter = next;
	}
}

bool cn_host_queue_add_waiter(struct cn_host_queue *queue, struct cn_waiter *waiter)
{
	cn_quick_lock(&queue->lock);
	if (atomic_load_explicit(&queue->base.completed, memory_order_acquire) >= waiter->number) {
		cn_quick_unlock(&queue->lock);
		return false;
	}
	struct cn_waiter **link = &queue->waiters;
	while (*link && (*link)->number <= waiter->number)
		link = &(*link)->next;
	waiter->next = *link;
	*link = waiter;
	cn_quick_unlock(&queue->lock);
	return true;
}

static void item_waiter_reached(struct cn_waiter *waiter)
{
	cn_host_queue_resume(cn_container_of(waiter, struct cn_host_item, waiter)->queue);
}

void cn_host_queue_resume(struct cn_host_queue *queue)
{
	cn_quick_lock(&queue->lock);
	queue->state = DRIVEN;
	if (queue->waiters)
		queue->run.patient = false; /* they sleep, and do not take it */
	cn_quick_unlock(&queue->lock);
	cn_host_executor_push(queue);
}

/*
 * If the queue's first item must wait, arrange for the queue to be resumed: true, the queue is unlocked and no longer
 * ours. False: there is nothing to wait for. Queue locked on entry.
 */
static bool block_locked(struct cn_host_queue *queue, struct cn_host_item *item)
{
	const struct cn_operation *operation = &item->operation;

	if (atomic_load_explicit(&queue->failure, memory_order_relaxed))
		return false;
	if (operation->kind == CN_OPERATION_WAIT_VALUE) {
		if (cn_host_value_reached(operation))
			return false;
		item->queue = queue;
		queue->state = BLOCKED;
		cn_quick_unlock(&queue->lock);
		cn_host_poll(item);
		return true;
	}
	if (operation->kind == CN_OPERATION_WAIT_SIGNAL) {
		if (!cn_host_signal_pending(operation->wait_signal.signal, operation->wait_signal.record))
			return false;
		item->queue = queue;
		queue->state = BLOCKED;
		/* Under the lock: a thread that finds the queue blocked finds the item watched. */
		bool tell = cn_host_watch(item);
		cn_quick_unlock(&queue->lock);
		if (tell)
			cn_host_poller_tell();
		return true;
	}
	if (operation->kind != CN_OPERATION_WAIT_POINT || cn_point_reached(operation->wait_point))
		return false;

	item->waiter.number = operation->wait_point.number;
	item->waiter.reached = item_waiter_reached;
	item->queue = queue;
	queue->state = BLOCKED;
	cn_quick_unlock(&queue->lock);
	if (cn_host_queue_add_waiter(cn_host_queue_of(operation->wait_point.queue), &item->waiter))
		return true;
	cn_quick_lock(&queue->lock);
	queue->state = DRIVEN;
	return false;
}

static void free_item_locked(struct cn_host_queue *queue, struct cn_host_item *item)
{
	if (item->payload != item->room)
		free(item->payload);
	item->next = queue->spare;
	queue->spare = item;
	queue->spare_count++;
}

/* Items beyond those that an idle queue keeps, for cn_host_items_free() once it is unlocked; a busy one keeps all. */
static struct cn_host_item *take_excess_locked(struct cn_host_queue *queue)
{
	struct cn_host_item *excess = NULL;

	while (queue->spare_count > SPARE_ITEMS_MAX) {
		struct cn_host_item *item = queue->spare;
		queue->spare = item->next;
		queue->spare_count--;
		item->next = excess;
		excess = item;
	}
	return excess;
}

/* Count operations that have just run as done and call their waiters. Queue locked, unlocked in between. */
static void finish_locked(struct cn_host_queue *queue, unsigned count, CUresult result)
{
	struct cn_waiter *released = complete_locked(queue, count, result);

	if (!released)
		return;
	cn_quick_unlock(&queue->lock);
	release_waiters(released);
	cn_quick_lock(&queue->lock);
}

/*
 * Wait in this thread for the signal that holds the queue up, and take all turns with another process's stream that
 * follow from it; see host_signal.c. True: some were taken. At most `numbers` are wanted. Queue locked, unlocked in
 * between.
 */
static bool take_turns_locked(struct cn_host_queue *queue, uint64_t numbers)
{
	struct cn_host_item *item = queue->first, *last = queue->last, *end;

	cn_quick_unlock(&queue->lock);
	unsigned count = cn_host_signal_take_turns(item, last, numbers, &end);
	cn_quick_lock(&queue->lock);
	if (!count)
		return false;
	queue->first = end->next;
	if (!queue->first)
		queue->last = NULL;
	cn_quick_unlock(&queue->lock); /* off the queue: no thread looks at their signals any more */
	cn_host_signal_let_go(CN_OPERATION_WAIT_SIGNAL, item->operation.wait_signal.signal, count);
	cn_host_signal_let_go(CN_OPERATION_MARK_SIGNAL, end->operation.wait_signal.signal, count);
	cn_quick_lock(&queue->lock);
	end->next = queue->spare; /* none has a payload */
	queue->spare = item;
	queue->spare_count += 2 * count;
	finish_locked(queue, 2 * count, CUDA_SUCCESS);
	return true;
}

/*
 * Go through the items of a queue that this thread drives. Where a signal holds it up before the number `until`, which
 * the thread wants to see reached, it waits for the signal itself. Queue locked on entry, unlocked on return.
 */
static void drive_locked(struct cn_host_queue *queue, enum effort effort, uint64_t until)
{
	for (;;) {
		struct cn_host_item *item = queue->first;
		if (!item) {
			queue->state = IDLE;
			struct cn_host_item *excess = take_excess_locked(queue);
			cn_quick_unlock(&queue->lock);
			cn_host_items_free(excess);
			return;
		}
		uint64_t completed = atomic_load_explicit(&queue->base.completed, memory_order_relaxed);
		if (!within(effort, &item->operation, completed, until)) {
			if (effort == NEEDED)
				queue->run.patient = false; /* its waiter has what it wanted */
			cn_quick_unlock(&queue->lock);
			cn_host_executor_push(queue);
			return;
		}
		CUresult failure = atomic_load_explicit(&queue->failure, memory_order_relaxed);
		if (item->operation.kind == CN_OPERATION_WAIT_SIGNAL && !failure && completed < until &&
		    take_turns_locked(queue, until - completed))
			continue;
		if (block_locked(queue, item))
			return;

		item->runs = true;
		cn_quick_unlock(&queue->lock);
		CUresult result = cn_host_run(queue, &item->operation, item->payload, failure);
		cn_quick_lock(&queue->lock);

		queue->first = item->next;
		if (!queue->first)
			queue->last = NULL;
		free_item_locked(queue, item);
		finish_locked(queue, 1, result);
	}
}

void cn_host_queue_drive(struct cn_host_queue *queue)
{
	atomic_store_explicit(&queue->cpu, sched_getcpu(), memory_order_relaxed);
	cn_quick_lock(&queue->lock);
	drive_locked(queue, EVERYTHING, 0);
}

void cn_host_queue_go_on(struct cn_host_queue *queue)
{
	cn_quick_lock(&queue->lock);
	queue->state = DRIVEN;
	drive_locked(queue, SHORTS, 0);
}

static uint64_t count_locked(struct cn_host_queue *queue)
{
	uint64_t number = atomic_load_explicit(&queue->base.submitted, memory_order_relaxed) + 1;

	atomic_store_explicit(&queue->base.submitted, number, memory_order_release);
	return number;
}

/* Append an item; the number of its point. Queue locked. */
static uint64_t append_locked(struct cn_host_queue *queue, struct cn_host_item *item)
{
	if (item->operation.kind == CN_OPERATION_WAIT_POINT)
		cn_host_follow_locked(queue, item->operation.wait_point);
	item->next = NULL;
	if (queue->last)
		queue->last->next = item;
	else
		queue->first = item;
	queue->last = item;
	return count_locked(queue);
}

static struct cn_host_item *take_spare_locked(struct cn_host_queue *queue)
{
	struct cn_host_item *item = queue->spare;

	if (item) {
		queue->spare = item->next;
		queue->spare_count--;
	}
	return item;
}

static void set_wait(struct cn_host_item *item, struct cn_host_queue *queue, uint64_t number)
{
	cn_host_item_set(item,
			 &(struct cn_operation){.kind = CN_OPERATION_WAIT_POINT, .wait_point = {&queue->base, number}},
			 NULL);
}

/*
 * A blocking queue comes after what the legacy queue was given so far. Queue locked, and so it stays until its
 * operation is counted: the legacy queue looks at it under this lock before it counts one of its own.
 */
static void follow_legacy_locked(struct cn_host_queue *queue, struct cn_host_queue *legacy)
{
	uint64_t number = atomic_load(&legacy->base.submitted);

	if (number > atomic_load_explicit(&queue->legacy_noted, memory_order_relaxed)) {
		atomic_store_explicit(&queue->legacy_noted, number, memory_order_relaxed);
		cn_host_follow_locked(queue, (struct cn_point){&legacy->base, number});
	}
}

/*
 * Lock a blocking queue for a submission, with a wait for the legacy queue in it if one is needed. Such a queue has a
 * group that is not its own.
 */
static CUresult admit_blocking(struct cn_host_queue *queue, struct cn_host_group *group, uint64_t owner)
{
	struct cn_host_queue *legacy = group->legacy;

	cn_quick_lock(&queue->lock);
	if (!atomic_load(&group->joining) &&
	    (cn_queue_idle(&legacy->base) || atomic_load(&legacy->base.submitted) <= queue->legacy_seen)) {
		follow_legacy_locked(queue, legacy);
		return CUDA_SUCCESS;
	}
	cn_quick_unlock(&queue->lock);

	struct cn_host_item *item = cn_host_item_make();
	if (!item)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cn_lock(&group->lock);
	cn_quick_lock(&queue->lock);
	uint64_t number = atomic_load(&legacy->base.submitted);
	if (cn_host_queue_owned(queue, owner) && number > queue->legacy_seen &&
	    !cn_point_reached((struct cn_point){&legacy->base, number})) {
		set_wait(item, legacy, number);
		append_locked(queue, item);
		queue->legacy_seen = number;
		item = NULL;
	}
	follow_legacy_locked(queue, legacy);
	cn_unlock(&group->lock);
	cn_host_item_free(item);
	return CUDA_SUCCESS;
}

/* Lock the legacy queue and its group for a submission, with a wait for each busy queue of the group in it. */
static CUresult admit_legacy(struct cn_host_queue *legacy, struct cn_host_group *group, uint64_t owner)
{
	struct cn_host_item *waits = NULL;
	CUresult result = CUDA_SUCCESS;

	cn_lock(&group->lock);
	atomic_store(&group->joining, true);
	for (struct cn_host_queue *queue = group->blocking; queue && !result; queue = queue->group_next) {
		cn_quick_lock(&queue->lock);
		uint64_t number = atomic_load(&queue->base.submitted);
		bool wait =
			number > queue->seen_by_legacy && !cn_point_reached((struct cn_point){&queue->base, number});
		cn_quick_unlock(&queue->lock);
		if (number > queue->noted_by_legacy) {
			queue->noted_by_legacy = number;
			cn_host_follow_make_room(legacy);
			cn_quick_lock(&legacy->lock);
			if (cn_host_queue_owned(legacy, owner))
				cn_host_follow_locked(legacy, (struct cn_point){&queue->base, number});
			cn_quick_unlock(&legacy->lock);
		}
		if (!wait)
			continue;
		struct cn_host_item *item = cn_host_item_make();
		if (!item) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		queue->seen_by_legacy = number;
		set_wait(item, queue, number);
		item->next = waits;
		waits = item;
	}

	cn_quick_lock(&legacy->lock);
	bool open = cn_host_queue_owned(legacy, owner);
	while (waits) {
		struct cn_host_item *next = waits->next;
		if (open)
			append_locked(legacy, waits);
		else
			free(waits);
		waits = next;
	}
	return result;
}

/* After admit(): unlock the group, once what was submitted is counted. */
static void leave_group(struct cn_host_queue *queue)
{
	struct cn_host_group *group = queue->group;

	if (group && group->legacy == queue) {
		atomic_store(&group->joining, false);
		cn_unlock(&group->lock);
	}
}

/* After admit(): unlock everything; drive the queue if it has items and no thread drives it. */
static void leave(struct cn_host_queue *queue, enum effort effort)
{
	leave_group(queue);
	if (queue->state == IDLE && queue->first) {
		queue->state = DRIVEN;
		drive_locked(queue, effort, 0);
	} else {
		cn_quick_unlock(&queue->lock);
	}
}

/*
 * Lock the queue so that an operation may be appended: what it must follow is in the queue. Undone by leave(). A closed
 * queue, which may be given to another stream any time, is left as it is.
 */
static CUresult admit(struct cn_host_queue *queue, uint64_t owner)
{
	struct cn_host_group *group = queue->group;
	CUresult result = CUDA_SUCCESS;

	if (!group)
		cn_quick_lock(&queue->lock);
	else if (group->legacy == queue)
		result = admit_legacy(queue, group, owner);
	else
		result = admit_blocking(queue, group, owner);
	if (result && group->legacy != queue)
		return result; /* nothing was locked */

	if (!result && !cn_host_queue_owned(queue, owner))
		result = cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream was destroyed during the call");
	if (result)
		leave(queue, WAITS);
	return result;
}

/* Has it nothing to do, and no thread that drives it? Queue locked. */
static bool is_idle_locked(const struct cn_host_queue *queue)
{
	return queue->state == IDLE && !queue->first;
}

/* Count an operation that does nothing. Admitted, queue idle; no thread sees it otherwise. */
static uint64_t pass_locked(struct cn_host_queue *queue)
{
	uint64_t number = atomic_load_explicit(&queue->base.submitted, memory_order_relaxed) + 1;

	atomic_store_explicit(&queue->base.completed, number, memory_order_release);
	atomic_store_explicit(&queue->base.submitted, number, memory_order_release);
	return number;
}

/* Run a short operation in the caller. Admitted, queue idle. */
static uint64_t run_here(struct cn_host_queue *queue, const struct cn_operation *operation)
{
	uint64_t number = count_locked(queue);
	CUresult failure = atomic_load_explicit(&queue->failure, memory_order_relaxed);

	queue->state = DRIVEN;
	leave_group(queue);
	cn_quick_unlock(&queue->lock);
	CUresult result = cn_host_run(queue, operation, NULL, failure);
	cn_quick_lock(&queue->lock);
	finish_locked(queue, 1, result);
	drive_locked(queue, SHORTS, 0);
	return number;
}

/* Are its arguments to lie in the item? */
static bool needs_room(const struct cn_operation *operation, const void *payload)
{
	return operation->kind == CN_OPERATION_LAUNCH && !payload;
}

/*
 * Accept an operation that cannot be left out. The thread that runs it may go on with what follows it, as far as
 * `effort` allows. After a failure the payload is still the caller's.
 */
static CUresult enqueue(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
			void *payload, enum effort effort, struct cn_point *ret_point)
{
	bool waits = is_wait(operation);
	struct cn_host_item *item = NULL;
	uint64_t number;

	for (;;) {
		CUresult result = admit(queue, owner);
		if (result) {
			cn_host_item_free(item);
			return result;
		}
		if (!waits && is_idle_locked(queue) && cn_host_is_short(operation)) {
			number = run_here(queue, operation);
			cn_host_item_free(item);
			break;
		}
		if (!item)
			item = take_spare_locked(queue);
		if (item && (item->room || !needs_room(operation, payload))) {
			cn_host_item_set(item, operation, payload);
			number = append_locked(queue, item);
			leave(queue, effort);
			break;
		}
		leave(queue, effort); /* no lock is held during allocation */
		item = cn_host_item_complete(item, needs_room(operation, payload));
		if (!item)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (ret_point)
		*ret_point = (struct cn_point){&queue->base, number};
	return CUDA_SUCCESS;
}

/* `completed` is always up to date. */
void cn_host_queue_look(struct cn_queue *queue)
{
	(void)queue;
}

/*
 * What the queue follows from now on counts for callers that take its number from now on, and not for those that took
 * it before: the wait must have a number, although there is nothing to wait for.
 */
void cn_host_queue_follow(struct cn_queue *base, uint64_t owner, struct cn_point point)
{
	struct cn_host_queue *queue = cn_host_queue_of(base);
	struct cn_host_item *item = NULL;
	bool behind;

	if (!point.queue)
		return;
	cn_host_follow_make_room(queue);
	do {
		cn_quick_lock(&queue->lock);
		behind = cn_host_queue_owned(queue, owner) && cn_host_follow_locked(queue, point);
		if (behind && is_idle_locked(queue)) {
			pass_locked(queue);
			behind = false;
		} else if (behind && (item || (item = take_spare_locked(queue)))) {
			cn_host_item_set(item, &nothing, NULL);
			append_locked(queue, item);
			item = NULL;
			behind = false;
		}
		cn_quick_unlock(&queue->lock);
	} while (behind && (item = cn_host_item_make()));
	cn_host_item_free(item);
}

CUresult cn_host_queue_submit(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
			      struct cn_point *ret_point)
{
	void *payload = NULL;
	CUresult result;

	if (operation->kind == CN_OPERATION_WAIT_POINT) {
		cn_host_follow_make_room(queue);
		if (operation->wait_point.queue == &queue->base || cn_point_reached(operation->wait_point)) {
			cn_host_queue_follow(&queue->base, owner, operation->wait_point);
			return cn_host_point_now(&queue->base, owner, ret_point);
		}
	}
	if (operation->kind == CN_OPERATION_LAUNCH && !cn_host_launch_is_small(operation)) {
		result = cn_host_launch_prepare(operation, &payload);
		if (result)
			return result;
	}
	result = enqueue(queue, owner, operation, payload, SHORTS, ret_point);
	if (result)
		free(payload);
	return result;
}

CUresult cn_host_queue_wait(struct cn_queue *queue, uint64_t owner, struct cn_point point)
{
	return cn_host_queue_submit(cn_host_queue_of(queue), owner,
				    &(struct cn_operation){.kind = CN_OPERATION_WAIT_POINT, .wait_point = point}, NULL);
}

CUresult cn_host_queue_note(struct cn_queue *queue, uint64_t owner, void (*function)(void *object, uint64_t number),
			    void *object, uint64_t number)
{
	const struct cn_operation note = {.kind = CN_OPERATION_NOTE, .note = {function, object, number}};

	return enqueue(cn_host_queue_of(queue), owner, &note, NULL, SHORTS, NULL);
}

/* The legacy queue and the blocking ones come to follow each other without a wait; a point shows that by its number. */
static __attribute__((noinline)) CUresult point_now_in_group(struct cn_host_queue *queue, uint64_t owner,
							     struct cn_point *ret_point)
{
	CUresult result = admit(queue, owner);

	if (result)
		return result;
	uint64_t number = atomic_load(&queue->base.submitted);
	bool behind = cn_host_follow_is_ahead(queue);
	if (behind && is_idle_locked(queue)) {
		number = pass_locked(queue);
		behind = false;
	}
	leave(queue, WAITS); /* the caller may hold an event's lock, which a queued timestamp needs */
	if (behind)
		return enqueue(queue, owner, &nothing, NULL, WAITS, ret_point);
	if (ret_point)
		*ret_point = (struct cn_point){&queue->base, number};
	return CUDA_SUCCESS;
}

CUresult cn_host_point_now(struct cn_queue *base, uint64_t owner, struct cn_point *ret_point)
{
	struct cn_host_queue *queue = cn_host_queue_of(base);
	struct cn_point point;

	if (__builtin_expect(!cn_host_point_quickly(queue, owner, &point), 0))
		return point_now_in_group(queue, owner, ret_point);
	if (ret_point)
		*ret_point = point;
	return CUDA_SUCCESS;
}

bool cn_host_queue_help(struct cn_point point, struct cn_host_queue **ret_last)
{
	for (int hops = 0; hops < HELP_HOPS_MAX; hops++) {
		struct cn_host_queue *queue = cn_host_queue_of(point.queue);
		cn_quick_lock(&queue->lock);
		struct cn_host_item *item = queue->state == BLOCKED ? queue->first : NULL;
		if (item && item->operation.kind == CN_OPERATION_WAIT_POINT) {
			point = item->operation.wait_point;
			cn_quick_unlock(&queue->lock);
			continue;
		}
		bool here = false;
		if (item && item->operation.kind == CN_OPERATION_WAIT_SIGNAL)
			here = !cn_point_reached(point) && cn_host_unwatch(item);
		else if (!item)
			here = cn_host_executor_take(queue);
		*ret_last = item && !here ? NULL : queue;
		if (here) {
			queue->state = DRIVEN;
			drive_locked(queue, NEEDED, point.number);
		} else {
			cn_quick_unlock(&queue->lock);
		}
		return here;
	}
	*ret_last = NULL;
	return false;
}

void cn_host_queue_open(struct cn_host_queue *queue, struct cn_host_group *group, uint64_t owner)
{
	cn_host_follow_open(queue);
	cn_host_grace_join(queue);
	cn_quick_lock(&queue->lock);
	if (atomic_load_explicit(&queue->base.submitted, memory_order_relaxed))
		pass_locked(queue); /* no point of this owner is one of the last owner's */
	queue->state = IDLE;
	atomic_store(&queue->gathers, false);
	atomic_store(&queue->failure, CUDA_SUCCESS);
	free(queue->sentence);
	queue->sentence = NULL;
	queue->legacy_seen = queue->seen_by_legacy = 0;
	atomic_store(&queue->legacy_noted, 0);
	queue->noted_by_legacy = atomic_load(&queue->base.submitted);
	queue->group = group;
	queue->group_next = queue->group_previous = NULL;
	cn_quick_unlock(&queue->lock);
	if (group && group->legacy != queue) {
		cn_lock(&group->lock);
		queue->group_next = group->blocking;
		if (group->blocking)
			group->blocking->group_previous = queue;
		group->blocking = queue;
		cn_unlock(&group->lock);
	}
	atomic_store_explicit(&queue->base.owner, owner, memory_order_release);
}

void cn_host_queue_explain(struct cn_host_queue *queue, char ret_sentence[CN_SENTENCE_BYTES])
{
	cn_quick_lock(&queue->lock);
	snprintf(ret_sentence, CN_SENTENCE_BYTES, "%s", queue->sentence ? queue->sentence : "");
	cn_quick_unlock(&queue->lock);
}

void cn_host_queue_close(struct cn_host_queue *queue)
{
	cn_quick_lock(&queue->lock);
	atomic_store(&queue->base.owner, 0);
	cn_quick_unlock(&queue->lock);
}

static void leave_list(struct cn_host_group *group, struct cn_host_queue *queue)
{
	cn_lock(&group->lock);
	if (queue->group_previous)
		queue->group_previous->group_next = queue->group_next;
	else
		group->blocking = queue->group_next;
	if (queue->group_next)
		queue->group_next->group_previous = queue->group_previous;
	cn_unlock(&group->lock);
}

bool cn_host_queue_drained(struct cn_host_queue *queue)
{
	cn_quick_lock(&queue->lock);
	bool drained = !atomic_load(&queue->base.owner) && queue->state == IDLE && !queue->first;
	struct cn_host_item *spare = drained ? queue->spare : NULL;
	if (drained) {
		queue->spare = NULL;
		queue->spare_count = 0;
	}
	cn_quick_unlock(&queue->lock);
	if (!drained)
		return false;

	if (queue->group && queue->group->legacy != queue)
		leave_list(queue->group, queue);
	cn_host_items_free(spare);
	return true;
}
