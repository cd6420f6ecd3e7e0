/* SPDX-License-Identifier: MIT */
/*
 * What the files of the host device know of each other. No file outside this folder includes it.
 */
#ifndef CN_DEVICE_HOST_HOST_INTERNAL_H
#define CN_DEVICE_HOST_HOST_INTERNAL_H

#include "base/clock.h"
#include "base/container.h"
#include "device/host/host_account.h"
#include "device/host/host_look.h"
#include "device/host/host_mapped.h"
#include "device/host/host_memory.h"
#include "device/host/host_queue.h"
#include "device/host/host_remote.h"
#include "device/host/host_signal.h"

/* A callback for when a queue has reached a number. Called once, without any lock. */
struct cn_waiter {
	struct cn_waiter *next;
	uint64_t number;
	void (*reached)(struct cn_waiter *waiter);
};

/* host_queue.c: one operation that a queue has accepted and not yet finished. */
enum { CN_HOST_ITEM_ROOM_BYTES = 128 };
struct cn_host_item {
	struct cn_waiter
		waiter; /* first: while the item waits for a point of another queue, it stands in that one's list */
	struct cn_host_queue *queue;
	struct cn_host_item *next;
	struct cn_operation operation;
	void *payload; /* a kernel's arguments: `room`, or memory that is freed with the operation; NULL: none */
	void *room;    /* for small arguments; NULL until a launch needs it, and then kept with the item */
	bool runs;     /* it has nothing to wait for any more */
};

/* host_item.c: an empty one; NULL: no memory. */
struct cn_host_item *cn_host_item_make(void);
/* Make an item, if there is none, and its room, if it has none and needs it. NULL: no memory, and no item is left. */
struct cn_host_item *cn_host_item_complete(struct cn_host_item *item, bool room);
/* `payload` NULL: there is none, or it is small, and goes into the item's room. */
void cn_host_item_set(struct cn_host_item *item, const struct cn_operation *operation, void *payload);
/* A list of items that are in no queue. */
void cn_host_items_free(struct cn_host_item *item);
static inline void cn_host_item_free(struct cn_host_item *item)
{
	if (__builtin_expect(item != NULL, 0)) {
		item->next = NULL;
		cn_host_items_free(item);
	}
}

CUresult cn_host_point_now(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point);
CUresult cn_host_queue_wait(struct cn_queue *queue, uint64_t owner, struct cn_point point);
CUresult cn_host_queue_note(struct cn_queue *queue, uint64_t owner, void (*function)(void *object, uint64_t number),
			    void *object, uint64_t number);
void cn_host_queue_follow(struct cn_queue *queue, uint64_t owner, struct cn_point point);
void cn_host_queue_look(struct cn_queue *queue);
static inline struct cn_host_queue *cn_host_queue_of(struct cn_queue *queue)
{
	return cn_container_of(queue, struct cn_host_queue, base);
}

/* False when the number has already been reached; otherwise the waiter will be called. */
bool cn_host_queue_add_waiter(struct cn_host_queue *queue, struct cn_waiter *waiter);
/*
 * Look what holds up the way to a point: a queue that no thread has taken from the run list yet, or one that waits for
 * a signal. If there is one, drive it in this thread as far as the point needs it, and wait for the signal here: true.
 * Handing over to another thread takes longer than all the rest. *ret_last is the queue that another thread drives, or
 * NULL.
 */
bool cn_host_queue_help(struct cn_point point, struct cn_host_queue **ret_last);
/* Continue a queue: called by an executor that has taken it from the run list. */
void cn_host_queue_drive(struct cn_host_queue *queue);
/* What a blocked queue waited for has come: put it on the run list. */
void cn_host_queue_resume(struct cn_host_queue *queue);
/* The same, but short operations run at once, in this thread. */
void cn_host_queue_go_on(struct cn_host_queue *queue);

/* host_operation.c: does it neither block, nor call back, nor take long? */
bool cn_host_is_short(const struct cn_operation *operation);
/* Do an operation that does not have to wait. `failure` is that of the operations before it. */
CUresult cn_host_run(struct cn_host_queue *queue, const struct cn_operation *operation, void *payload,
		     CUresult failure);

/* Touch this machine's memory for a copy, a fill or a value. It may have gone since the operation was accepted. */
CUresult cn_host_touch(const struct cn_operation *operation);

/* host_remote.c */
CUresult cn_host_remote_run(const struct cn_host_remote_work *work);

/* host_follow.c */
bool cn_host_queue_follows(struct cn_queue *queue, struct cn_point point, struct cn_point *ret_relied_on);
CUresult cn_host_queue_rely(struct cn_queue *queue, uint64_t owner, struct cn_point relied_on);
/*
 * Note that what the queue is given from now on comes after a point. True: something was noted, now or before, that no
 * operation's number shows yet. Queue locked.
 */
bool cn_host_follow_locked(struct cn_host_queue *queue, struct cn_point point);
/* A queue that is being opened follows nothing, whatever its last owner did. */
void cn_host_follow_open(struct cn_host_queue *queue);
/* More room for what a queue follows, if it is crowded. Called without its lock, before it may be noted in. */
void cn_host_follow_make_room(struct cn_host_queue *queue);

/* host_grace.c: from now on grace periods count the queue, for good. Queues are never freed. */
void cn_host_grace_join(struct cn_host_queue *queue);
bool cn_host_grace_begin(unsigned slot);
bool cn_host_grace_is_over(unsigned slot);

/* host_executor.c: run cn_host_queue_drive(queue) soon, in a thread that may block. */
void cn_host_executor_push(struct cn_host_queue *queue);
/* Take a queue off the run list, for the caller to drive. False: it is not listed. */
bool cn_host_executor_take(struct cn_host_queue *queue);
/* Where no thread could be started: try again, or else do some of the waiting work. False: nothing done. */
bool cn_host_executor_stand_in(void);
/* An operation begins that takes as long as a message does; it has ended. */
void cn_host_executor_begin_slow(void);
void cn_host_executor_end_slow(void);

/* host_poller.c: resume the item's queue, whose first item it is, when the value it waits for compares true. */
bool cn_host_value_reached(const struct cn_operation *operation); /* also true when the word is not mapped */
uint64_t cn_host_read_value(const struct cn_operation *operation);
void cn_host_poll(struct cn_host_item *item);
/*
 * The same for an item that waits for a signal; its queue is locked. True: call cn_host_poller_tell() once the queue is
 * unlocked. Until the queue is resumed, cn_host_unwatch() makes the item the caller's again. False: too late.
 */
bool cn_host_watch(struct cn_host_item *item);
bool cn_host_unwatch(struct cn_host_item *item);
void cn_host_poller_tell(void);
void cn_host_watch_forget(struct cn_signal *signal); /* it is being freed, and nothing waits for it */

/* host_signal.c: a signal as this process has it. */
enum { CN_SIGNAL_CELLS = 1024 }; /* a power of two */
struct cn_signal {
	struct cn_signal_ring *ring;                 /* what is shared */
	_Atomic uint32_t *poll_wake, *poll_sleepers; /* in the ring: those of pollers */
	int fd;                                      /* -1: another process's */
	uint32_t recorder;                           /* whose records ours are */
	_Atomic unsigned references;                 /* one of the owner, one of each operation */
	_Atomic bool alone;                          /* to us, what others have not done is dead */
	_Atomic uint32_t spin_ns;                    /* how long it has paid to spin before sleeping */
	CN_LOCK(HOST_SIGNAL) lock;                   /* of our latest record */
	uint64_t own_number;
	struct cn_point own_point;
	_Atomic uint64_t
		own[CN_SIGNAL_CELLS]; /* of each cell: our last record there, as it stands in the ring, or should */
	struct {                      /* the poller's, under its lock */
		struct cn_signal *next, *previous;
		struct cn_waiter *items;
		bool known, covered; /* in its list; among what it sleeps on */
	} watch;
};

bool cn_host_point_waits_outside(struct cn_point point);
/* Is a record not done yet? Do what there is to do, and release the signal. */
bool cn_host_signal_pending(const struct cn_signal *signal, uint64_t number);
CUresult cn_host_signal_run(const struct cn_operation *operation, CUresult failure);
/*
 * Sleep until the record that a queue's first item waits for is done, or never can be. If it is done and a record comes
 * right behind the wait, that is a turn, and it is taken: the record is done, too. So are the turns that follow, of the
 * same two signals, as long as no answer takes long and the caller wants more numbers reached. Returns how many were
 * taken, and the last item of them. The caller, which has not locked the queue, takes them off the queue, releases
 * their signals and counts them. `last` is the queue's last item.
 */
unsigned cn_host_signal_take_turns(const struct cn_host_item *first, const struct cn_host_item *last, uint64_t numbers,
				   struct cn_host_item **ret_end);
/* So many operations of a kind are over. */
void cn_host_signal_let_go(enum cn_operation_kind kind, struct cn_signal *signal, unsigned count);
bool cn_host_signal_waits(void); /* does any queue wait for a signal? */

/* host_team.c: a launch that further threads may help with; a part of a larger record. */
struct cn_host_job {
	bool (*has_work)(struct cn_host_job *job); /* for one more thread; called under the team's lock */
	void (*help)(struct cn_host_job *job);
	struct cn_host_job *next;
	unsigned helper_count; /* at work on it now */
	_Atomic uint32_t finished;
};
void cn_host_team_join(struct cn_host_job *job);
/* Take it off the list, and wait until no helper is at work on it. */
void cn_host_team_part(struct cn_host_job *job);
/* Is there more than one launch to help with? */
bool cn_host_team_is_wanted(void);

/* host_grid.c: a launch of PTX. `arguments` are copied. */
CUresult cn_host_grid_prepare(const struct cn_kernel *kernel, void *const *arguments, void **ret_payload);
CUresult cn_host_grid_run(const struct cn_launch *launch, void *payload);

/* host_print.c: what a kernel prints, and which assertions of it fail. */
void cn_host_print(void *unused, const char *text, size_t bytes);
/* Write what was printed, unless another thread has the program's FILE. For the thread that is to call the program. */
void cn_host_print_flush_for_callback(void);
void cn_host_complain(void *unused, const char *text, size_t bytes);

/* host_copy.c, host_kernel.c: do it, now, in this thread. */
CUresult cn_host_copy(const struct cn_operation *operation);
void cn_host_fill(const struct cn_operation *operation);
/* A kernel's arguments: do they fit in the room of an item? Copy them there, or to memory of their own. */
bool cn_host_launch_is_small(const struct cn_operation *operation);
void cn_host_launch_copy(const struct cn_operation *operation, void *payload);
CUresult cn_host_launch_prepare(const struct cn_operation *operation, void **ret_payload);
CUresult cn_host_launch(const struct cn_launch *launch, void *payload);

/* host_memory.c */
/* A memory file, sealed against shrinking and growing; -1 when the program has no descriptor left for one. */
CUresult cn_host_make_file(const char *name, size_t bytes, int *ret_fd);

/* host_physical.c */
bool cn_host_descriptor_is_memory(int fd);

/* host_arena.c */
CUresult cn_host_arena_create(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
			      struct cn_arena **ret_arena, void **ret_base);
void cn_host_arena_free(struct cn_arena *arena);
CUresult cn_host_arena_commit(struct cn_arena *arena, size_t offset, size_t bytes);
void cn_host_arena_decommit(struct cn_arena *arena, size_t offset, size_t bytes);
size_t cn_host_arena_reclaim(struct cn_arena *arena, size_t offset);
CUresult cn_host_arena_part(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part);
CUresult cn_host_arena_allow(struct cn_arena *arena, struct cn_users users);
uint64_t cn_host_arena_serial(const struct cn_arena *arena, size_t offset, size_t *ret_end);
void cn_host_arena_watch(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object);
CUresult cn_host_view_create(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base);
CUresult cn_host_view_map(struct cn_view *view, const struct cn_arena_part *part);
void cn_host_view_unmap(struct cn_view *view, size_t offset, size_t bytes);
CUresult cn_host_view_allow(struct cn_view *view, struct cn_users users);
void cn_host_view_free(struct cn_view *view);
/* Ask the system for memory of a node, if the machine has more than one; the file remembers it. */
void cn_host_place(int node, void *address, size_t bytes);

/* host_config.c: what the environment says of the devices. */
CUresult cn_host_init(struct cn_device devices[CN_DEVICE_MAX], int *ret_count);
bool cn_host_without(const char *capability);

#endif
