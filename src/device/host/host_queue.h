/* SPDX-License-Identifier: MIT */
/*
 * Queues of the host device: which operations they run, and how they are opened, closed and waited for.
 *
 * On a GPU, streams' work goes to the driver without us. So this is everything about a queue that the device contract
 * leaves out, and driver/host alone calls it.
 */
#ifndef CN_DEVICE_HOST_HOST_QUEUE_H
#define CN_DEVICE_HOST_HOST_QUEUE_H

#include "device/device.h"
#include "device/grace.h"

enum { CN_KERNEL_PARAMETERS_MAX = 64 };

/* The largest launch. Attributes of the device say the same. */
enum {
	CN_HOST_GRID_X_MAX = 0x7fffffff,
	CN_HOST_GRID_Y_MAX = 65535,
	CN_HOST_GRID_Z_MAX = 65535,
	CN_HOST_BLOCK_X_MAX = 1024,
	CN_HOST_BLOCK_Y_MAX = 1024,
	CN_HOST_BLOCK_Z_MAX = 64,
	CN_HOST_BLOCK_THREADS_MAX = 1024,
};

struct cn_ptx_module;
struct cn_ptx_kernel;

/* A kernel: a C function (see cenote.h), called once for each thread; or PTX (host_ptx.h). */
struct cn_kernel {
	const char *name;
	const void *code; /* NULL: it is PTX */
	unsigned parameter_count;
	const unsigned *parameter_bytes;
	const unsigned *parameter_alignment;
	const struct cn_ptx_kernel *ptx; /* NULL: it is C */
	struct cn_ptx_module *module;
};

struct cn_launch {
	const struct cn_kernel *kernel;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	bool cooperative; /* all blocks run at once, and may wait for each other at a barrier of the grid */
	/* Of PTX alone. */
	unsigned resident_max;    /* blocks that run at once */
	unsigned processor_count; /* multiprocessors, as the device reports them */
	void *variables;          /* the module's, in the launch's context */
	void *managed;            /* those that all contexts share */
};

enum cn_operation_kind {
	CN_OPERATION_COPY,        /* rows of bytes from one place to another */
	CN_OPERATION_FILL,        /* rows of a repeated element */
	CN_OPERATION_HOST_CALL,   /* a function of the program; skipped after a failure */
	CN_OPERATION_CALLBACK,    /* a function of the program that is told the stream's status; always called */
	CN_OPERATION_LAUNCH,      /* a kernel */
	CN_OPERATION_WAIT_POINT,  /* nothing, once another queue has come to a point */
	CN_OPERATION_WAIT_VALUE,  /* nothing, once a word of memory compares true */
	CN_OPERATION_WRITE_VALUE, /* store a word of memory */
	CN_OPERATION_TIMESTAMP,   /* store the time at which this is reached */
	CN_OPERATION_NOTE, /* a short function of the library, which neither waits nor calls the program; always */
	CN_OPERATION_WAIT_SIGNAL, /* nothing, once a record of a signal is done; a failure, once it never can be */
	CN_OPERATION_MARK_SIGNAL, /* a record of a signal is done; after a failure it never can be */
	CN_OPERATION_REMOTE,      /* a copy, a fill or a value, with memory of another machine */
};

struct cn_signal;           /* host_signal.h */
struct cn_host_remote_work; /* host_remote.h */

/* Where a timestamp goes: taken at `serial`, so that a later record of the same event is not overwritten by it. */
struct cn_stamp {
	CN_LOCK(STAMP) lock;
	uint64_t serial;
	uint64_t time_ns;
};

/* Layers of rows, one after the other: how far apart. */
struct cn_layers {
	size_t count, to_pitch, from_pitch;
};

struct cn_operation {
	enum cn_operation_kind kind;
	union {
		struct {
			void *to;
			const void *from;
			size_t to_pitch, from_pitch, row_bytes, row_count;
			bool to_foreign, from_foreign; /* plain memory of the program: may be unmapped under us */
			struct cn_layers *layers;      /* freed afterwards; NULL: one */
			void *staging;                 /* freed afterwards; NULL: none */
			CUresult *result;              /* takes the copy's result, if not NULL, instead of the queue */
		} copy;
		struct {
			void *to;
			size_t pitch, row_elements, row_count;
			uint32_t value;
			unsigned element_bytes; /* 1, 2 or 4 */
		} fill;
		struct {
			void (*function)(void *data);
			void *data;
		} host_call;
		struct {
			void (*function)(CUstream stream, CUresult status, void *data);
			CUstream stream;
			void *data;
		} callback;
		struct {
			struct cn_launch launch;
			void **arguments; /* the device copies what they point to before submit returns */
		} launch;
		struct cn_point wait_point;
		struct {
			void *address;
			uint64_t value;
			unsigned bytes; /* 4 or 8 */
			unsigned flags; /* CU_STREAM_WAIT_VALUE_… */
		} wait_value;
		struct {
			void *address;
			uint64_t value;
			unsigned bytes;
		} write_value;
		struct {
			struct cn_stamp *stamp;
			uint64_t serial;
		} timestamp;
		struct {
			void (*function)(void *object, uint64_t number);
			void *object;
			uint64_t number;
		} note;
		struct {
			struct cn_signal *signal;
			uint64_t record;
		} wait_signal;                      /* CN_OPERATION_MARK_SIGNAL's, too */
		struct cn_host_remote_work *remote; /* freed afterwards */
	};
};

struct cn_host_group;
struct cn_host_item;
struct cn_waiter;

struct cn_host_queue {
	struct cn_queue base;
	_Atomic uint64_t learned;      /* the highest `from` in `followed`: may be that of an operation to come */
	_Atomic uint64_t legacy_noted; /* the legacy queue's number that is in `followed` */
	CN_QUICK_LOCK(QUEUE) lock;
	int state;                             /* host_queue.c's */
	_Atomic CUresult failure;              /* the first failure: what follows is skipped */
	char *sentence;                        /* and why; NULL: no memory for it, or none */
	_Atomic(struct cn_host_group *) group; /* NULL: a non-blocking stream's; read before the queue is locked */
	struct cn_host_queue *group_next, *group_previous;
	uint64_t legacy_seen;     /* the legacy queue's number that this one waits for already */
	uint64_t seen_by_legacy;  /* this queue's number that the legacy queue waits for already */
	uint64_t noted_by_legacy; /* this queue's number that is in the legacy queue's `followed` */
	struct cn_host_item *first, *last, *spare;
	unsigned spare_count;
	struct cn_waiter *waiters; /* by number */
	struct {                   /* host_executor.c's: the list of queues that can go on */
		struct cn_host_queue *next, *previous;
		_Atomic bool listed;
		bool patient; /* a waiter took it last time; of the thread that drives it, or under the list's lock */
	} run;
	_Atomic bool gathers;     /* it has nothing but waits: see cn_host_queue_gather() */
	_Atomic int cpu;          /* where an executor drives it, or did last */
	_Atomic uint32_t spin_ns; /* host_wait.c's: how long it has paid to spin before sleeping; 0: not known yet */

	struct cn_followed *followed; /* oldest first; never given back */
	unsigned followed_count, followed_room;
	uint64_t opened;                                /* the last number of earlier owners */
	_Atomic bool followed_crowded;                  /* it should have more room */
	struct {                                        /* host_grace.c's */
		struct cn_host_queue *next;             /* of all queues */
		uint64_t numbers[CN_GRACE_PERIODS_MAX]; /* what was under way when each period began */
		bool listed;
	} grace;
};

/* The queues of a context. */
struct cn_host_group {
	CN_LOCK(QUEUE_GROUP) lock; /* taken before any queue's */
	_Atomic bool joining;      /* the legacy queue is looking at the others */
	struct cn_host_queue *legacy;
	struct cn_host_queue *blocking; /* list */
};

/* Does the queue belong to this handle? A closed queue belongs to none; a handle that has just died reads as 0. */
static inline bool cn_host_queue_owned(struct cn_host_queue *queue, uint64_t owner)
{
	return owner && atomic_load_explicit(&queue->base.owner, memory_order_acquire) == owner;
}

/* Does it follow something that no operation's number shows yet? */
static inline bool cn_host_follow_is_ahead(struct cn_host_queue *queue)
{
	return atomic_load_explicit(&queue->learned, memory_order_relaxed) >
	       atomic_load_explicit(&queue->base.submitted, memory_order_acquire);
}

/*
 * The queue's point now, if no lock is needed for it and it covers all that the queue has come to follow. False: ask
 * the device for it.
 */
static inline bool cn_host_point_quickly(struct cn_host_queue *queue, uint64_t owner, struct cn_point *ret_point)
{
	struct cn_host_group *group = queue->group;

	/* Where the group does not matter: a blocking queue that knows all of an idle legacy queue, or no group. */
	if (group && (group->legacy == queue || atomic_load(&group->joining) || !cn_queue_idle(&group->legacy->base) ||
		      atomic_load(&group->legacy->base.submitted) >
			      atomic_load_explicit(&queue->legacy_noted, memory_order_relaxed)))
		return false;
	if (cn_host_follow_is_ahead(queue) || !cn_host_queue_owned(queue, owner))
		return false;
	*ret_point = (struct cn_point){&queue->base, atomic_load(&queue->base.submitted)};
	return true;
}

/* `queue` is zeroed or was closed and drained. `group` NULL: ordered with no other queue. */
void cn_host_queue_open(struct cn_host_queue *queue, struct cn_host_group *group, uint64_t owner);
/* Why the queue has failed; "" when it has not. */
void cn_host_queue_explain(struct cn_host_queue *queue, char ret_sentence[CN_SENTENCE_BYTES]);
/* Accept nothing more; what was accepted still runs. */
void cn_host_queue_close(struct cn_host_queue *queue);
/* True when a closed queue has nothing left to do and its record may be reused. */
bool cn_host_queue_drained(struct cn_host_queue *queue);
/*
 * Accept an operation for `owner`. Returns its point in *ret_point (may be NULL). Short operations on an idle queue
 * have run on return. CUDA_ERROR_INVALID_HANDLE: the queue is not the owner's any more.
 */
CUresult cn_host_queue_submit(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
			      struct cn_point *ret_point);
/*
 * Return when the point is reached. What has to be done before it and no other thread does yet runs in this thread, the
 * program's own functions, too. The caller holds no lock, except slow ones.
 */
void cn_host_point_wait(struct cn_point point);
/*
 * The queue, which has just been opened, will be given waits for points and nothing else: a point of it stands for all
 * of them together.
 */
void cn_host_queue_gather(struct cn_host_queue *queue);
bool cn_host_queue_gathers(struct cn_queue *queue);
/*
 * Has everything happened that the point stands for? As cn_point_reached(), but where a queue only gathers, what it
 * waits for counts, and not whether a thread has come to say so.
 */
bool cn_host_point_happened(struct cn_point point);

#endif
