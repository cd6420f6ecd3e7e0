/* SPDX-License-Identifier: MIT */
/*
 * The device contract: what the layers above may ask of a device, whatever it is made of.
 *
 * A device has memory, queues and attributes. A queue runs operations one after the other; its operations are
 * numbered from 1, and a *point* is a queue and a number: "everything up to this operation". Numbers never go back,
 * not even when a destroyed stream's queue serves another stream later, and a queue's memory is never freed; so a
 * point can be kept, compared and asked about for ever, without counting references. What happened up to a point
 * stays happened.
 *
 * Queues of one context form a group around its legacy default queue, with CUDA's rule: an operation of the legacy
 * queue comes after everything submitted before to the group's blocking queues, and before everything submitted to them
 * afterwards.
 *
 * A function fails with CUDA's code and a sentence (base/error.h), and then has changed nothing. Arguments have been
 * checked by driver/; a device checks only what only it can know.
 *
 * One kind of device a process. The host device is in host/; the cuda device implements the same table.
 */
#ifndef CN_DEVICE_DEVICE_H
#define CN_DEVICE_DEVICE_H

#include "base/error.h"
#include "base/lock.h"

#include <stddef.h>

enum {
	CN_DEVICE_MAX = 64, /* devices of a process */
	CN_KERNEL_PARAMETERS_MAX = 64,
	CN_GRANULARITY_BYTES = 2 * 1024 * 1024, /* of physical memory and of addresses */
};

struct cn_device {
	int ordinal;  /* as the program counts: CUDA_VISIBLE_DEVICES applied */
	int physical; /* as the machine counts */
	char name[64];
	CUuuid uuid;
	int pci_domain, pci_bus, pci_device;
	size_t total_bytes;
	_Atomic size_t used_bytes;
};

/* A kernel as a device runs it. On the host device: a C function (see cenote.h), called once for each thread. */
struct cn_kernel {
	const char *name;
	const void *code;
	unsigned parameter_count;
	const unsigned *parameter_bytes;
	const unsigned *parameter_alignment;
};

struct cn_launch {
	const struct cn_kernel *kernel;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
};

enum cn_operation_kind {
	CN_COPY,        /* rows of bytes from one place to another */
	CN_FILL,        /* rows of a repeated element */
	CN_HOST_CALL,   /* a function of the program; skipped after a failure */
	CN_CALLBACK,    /* a function of the program that is told the stream's status; always called */
	CN_LAUNCH,      /* a kernel */
	CN_WAIT_POINT,  /* nothing, once another queue has come to a point */
	CN_WAIT_VALUE,  /* nothing, once a word of memory compares well */
	CN_WRITE_VALUE, /* store a word of memory */
	CN_TIMESTAMP,   /* store the time at which this is reached */
	CN_NOTE,        /* a short function of the library's own, which neither waits nor calls the program; always */
	CN_WAIT_SIGNAL, /* nothing, once a record of a signal is done; a failure, once it never can be */
	CN_MARK_SIGNAL, /* a record of a signal is done; after a failure it never can be */
};

struct cn_queue;
struct cn_signal;

struct cn_point {
	struct cn_queue *queue; /* NULL: always reached */
	uint64_t number;
};

/* Where a timestamp goes: taken at `serial`, so that a later record of the same event is not overwritten by it. */
struct cn_stamp {
	struct cn_lock lock;
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
		} wait_signal; /* CN_MARK_SIGNAL's, too */
	};
};

/*
 * A queue, embedded in the record of its stream. The counters are public: completed ≥ number means that the point has
 * been reached, and what was written before is visible to whoever reads `completed` with acquire order.
 */
struct cn_queue_group;
struct cn_queue_item;
struct cn_waiter;

/* From its operation `from` on, the queue that keeps this comes after a point of another one. */
struct cn_followed {
	struct cn_point point; /* queue NULL: here this queue went to another stream, which follows nothing of this */
	uint64_t from;
};

struct cn_queue {
	_Atomic uint64_t completed;
	_Atomic uint64_t submitted;
	_Atomic uint64_t learned;      /* the highest `from` in `followed`: may be that of an operation to come */
	_Atomic uint64_t legacy_noted; /* the legacy queue's number that is in `followed` */
	struct cn_lock lock;
	int state;                              /* the device's own */
	_Atomic uint32_t place;                 /* the pools': where each has its cache of this queue; 0: nowhere */
	_Atomic CUresult failure;               /* the first failure: what follows is skipped */
	_Atomic uint64_t owner;                 /* handle of the stream; 0 once closed: nothing more is accepted */
	_Atomic(struct cn_queue_group *) group; /* NULL: a non-blocking stream's; read before the queue is locked */
	struct cn_queue *group_next, *group_previous;
	uint64_t legacy_seen;     /* the legacy queue's number that this one waits for already */
	uint64_t seen_by_legacy;  /* this queue's number that the legacy queue waits for already */
	uint64_t noted_by_legacy; /* this queue's number that is in the legacy queue's `followed` */
	struct cn_queue_item *first, *last, *spare;
	unsigned spare_count;
	struct cn_waiter *waiters; /* by number */
	struct cn_queue *run_next; /* in the list of queues that can go on */

	struct cn_followed *followed; /* oldest first; never given back */
	unsigned followed_count, followed_room;
	uint64_t opened;               /* the last number of earlier owners */
	_Atomic bool followed_crowded; /* it should have more room */
	struct {                       /* the device's, for grace_begin() */
		struct cn_queue *next; /* of all queues */
		uint64_t number;       /* what was under way then */
		bool listed;
	} grace;
	struct { /* walk.c's */
		uint64_t serial, up_to, looked_up_to;
		struct cn_queue *next;
		bool listed;
	} walk;
};

struct cn_queue_group {
	struct cn_lock lock;  /* taken before any queue's */
	_Atomic bool joining; /* the legacy queue is looking at the others */
	struct cn_queue *legacy;
	struct cn_queue *blocking; /* list */
};

/* What physical memory is, as it travels with it from process to process. */
struct cn_physical_facts {
	size_t bytes;      /* a multiple of CN_GRANULARITY_BYTES */
	int location_type; /* CU_MEM_LOCATION_TYPE_DEVICE, with the machine's number of it, or …_HOST_NUMA */
	int location_id;
	unsigned handle_types; /* CUmemAllocationHandleType: how it may be exported */
	unsigned flags;        /* the driver layer's own */
};

/*
 * The piece of a device's memory in which an allocation lies, with others beside it. `fd` is the device's, and good as
 * long as the allocation is there; another process maps it as a view of one part.
 */
struct cn_memory_part {
	uint64_t chunk; /* never used twice in a process */
	size_t chunk_bytes, offset;
	int fd;
};

struct cn_physical;
struct cn_arena;
struct cn_view;

/*
 * A stretch of an arena that has a descriptor of its own: on the host device the whole arena, elsewhere a chunk. Its
 * memory may go and other memory come in its place: `serial` tells them apart.
 */
struct cn_arena_part {
	size_t offset, bytes;
	uint64_t serial; /* never 0, never used twice at a place */
	int fd;
};

/* Who may use memory: a bit for each device, by ordinal, and the host. */
struct cn_users {
	uint64_t devices;
	bool host;
};

#define CN_RECORDER_ALL_OTHERS UINT32_MAX

struct cn_device_ops {
	const char *name; /* "host", "cuda" */
	/*
	 * Of a process that has no mapping of our memory left, is it known that nothing of it uses the memory any more?
	 * Else that is known only when the process is gone.
	 */
	bool use_ends_with_mapping;

	/* Find the devices; called once, before anything else. Zero devices is CUDA_ERROR_NO_DEVICE. */
	CUresult (*init)(struct cn_device devices[CN_DEVICE_MAX], int *ret_count);
	CUresult (*attribute)(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value);
	bool (*peers)(const struct cn_device *device, const struct cn_device *peer);

	/* Memory of the device: `bytes` rounded up as the device likes, aligned to at least 512 bytes. */
	CUresult (*memory_allocate)(struct cn_device *device, size_t bytes, void **ret_address);
	void (*memory_free)(struct cn_device *device, void *address);
	/*
	 * Where memory of memory_allocate() lies, for another process; it is not freed meanwhile.
	 * CUDA_ERROR_NOT_SUPPORTED: this memory cannot leave the process.
	 */
	CUresult (*memory_part)(struct cn_device *device, const void *address, struct cn_memory_part *ret_part);
	/* Memory of the machine: pinned (`device` NULL) and managed. Page-aligned. */
	CUresult (*host_allocate)(size_t bytes, void **ret_address);
	void (*host_free)(void *address, size_t bytes);

	/*
	 * Physical memory: bytes without an address. `device` is whose bytes it takes, NULL for memory of the
	 * machine. It lives as long as anybody has it mapped or holds a descriptor of it, in any process. What is not
	 * physical memory, or not whole, is refused with CUDA_ERROR_UNKNOWN on import.
	 */
	CUresult (*physical_create)(struct cn_device *device, const struct cn_physical_facts *facts,
				    struct cn_physical **ret_physical);
	void (*physical_free)(struct cn_physical *physical);
	CUresult (*physical_export)(const struct cn_physical *physical, int *ret_fd);
	CUresult (*physical_import)(int fd, struct cn_physical **ret_physical);
	const struct cn_physical_facts *(*physical_facts)(const struct cn_physical *physical);
	bool (*has_node)(int node); /* of the machine's memory */

	/*
	 * Address ranges: addresses without memory. What is mapped can be neither read nor written until it is
	 * allowed.
	 */
	CUresult (*range_reserve)(size_t bytes, size_t alignment, void **ret_address);
	void (*range_free)(void *address, size_t bytes);
	CUresult (*range_map)(void *address, const struct cn_physical *physical);
	CUresult (*range_unmap)(void *address, size_t bytes);
	CUresult (*range_protect)(void *address, size_t bytes, bool readable, bool writable);

	/*
	 * An arena: one range of addresses whose memory comes and goes piece by piece, in multiples of
	 * CN_GRANULARITY_BYTES (the pool asks for multiples of 32 MiB, at multiples of it). `bytes` is its size for
	 * ever; the device is asked for memory when a part is committed. `shareable`: other processes may get parts.
	 */
	CUresult (*arena_create)(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
				 struct cn_arena **ret_arena, void **ret_base);
	void (*arena_free)(struct cn_arena *arena); /* nothing is committed */
	/* Who may use its memory, what is there and what will come; nobody before the first call. */
	CUresult (*arena_allow)(struct cn_arena *arena, struct cn_users users);
	CUresult (*arena_commit)(struct cn_arena *arena, size_t offset, size_t bytes);
	void (*arena_decommit)(struct cn_arena *arena, size_t offset, size_t bytes);
	/*
	 * Give back some of the memory that others have put where nothing is committed, from an offset on: whoever has
	 * a part can put it there, and it stays when that process has ended. Where to go on; 0: there is no more.
	 */
	size_t (*arena_reclaim)(struct cn_arena *arena, size_t offset);
	/* The part around an offset, for another process; the descriptor is the caller's to close. */
	CUresult (*arena_part)(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part);
	/*
	 * The serial of the part around an offset, and where it ends; 0: no memory is there. Neither waits nor locks.
	 */
	uint64_t (*arena_serial)(const struct cn_arena *arena, size_t offset, size_t *ret_end);
	/*
	 * `function` is called, from then on, when a part that arena_part() gave away has lost its memory here: those
	 * who have it should let go of it. It neither waits nor calls the device. NULL: nobody is to be told.
	 */
	void (*arena_watch)(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object);

	/*
	 * A view: another process's arena, seen from here. Addresses for all of it, and memory where parts of it were
	 * mapped. What comes is a stranger's: a part that is not sealed, too short or no memory at all is refused with
	 * CUDA_ERROR_INVALID_VALUE. `fd` stays the caller's.
	 */
	CUresult (*view_create)(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base);
	CUresult (*view_map)(struct cn_view *view, const struct cn_arena_part *part);
	void (*view_unmap)(struct cn_view *view, size_t offset, size_t bytes); /* one part, as it was mapped */
	CUresult (*view_allow)(struct cn_view *view, struct cn_users users);   /* as arena_allow */
	void (*view_free)(struct cn_view *view);

	/* `queue` is zeroed or was closed and drained. `group` NULL: ordered with nobody. */
	void (*queue_open)(struct cn_queue *queue, struct cn_queue_group *group, uint64_t owner);
	/* Accept nothing more; what was accepted still runs. */
	void (*queue_close)(struct cn_queue *queue);
	/* True when a closed queue has nothing left to do and its record may be reused. */
	bool (*queue_drained)(struct cn_queue *queue);
	/*
	 * Accept an operation for `owner`. Returns its point in *ret_point (may be NULL). Short operations on an idle
	 * queue have happened on return. CUDA_ERROR_INVALID_HANDLE: the queue is not the owner's any more.
	 */
	CUresult (*submit)(struct cn_queue *queue, uint64_t owner, const struct cn_operation *operation,
			   struct cn_point *ret_point);
	/*
	 * The point that covers all that was submitted so far, for a legacy queue its group's work as well. It counts
	 * as an operation there: what the group is given afterwards comes after it. Neither runs an operation nor
	 * calls back.
	 */
	CUresult (*point_now)(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point);
	/* Sleep until the point is reached. */
	void (*point_wait)(struct cn_point point);
	/*
	 * Is what the queue is given from now on ordered after the point, by waits, by those of other queues that these
	 * wait for, by the legacy queue? False: not known. Of a point that has not been reached true means that the
	 * next operation will not run before it is; whoever tells others without giving the queue one calls
	 * point_now().
	 */
	bool (*queue_follows)(struct cn_queue *queue, struct cn_point point);
	/* The queue was to wait for a point that has been reached: nothing is queued, but queue_follows() will know. */
	void (*queue_follow)(struct cn_queue *queue, uint64_t owner, struct cn_point point);

	/*
	 * Bring `completed` up to date, where it does not come of itself: somebody else could use what this queue is
	 * done with. May ask the system, and does so at most now and then. No lock of a caller's is needed by it.
	 */
	void (*queue_look)(struct cn_queue *queue);

	/*
	 * Grace periods, for grace.c alone: one call at a time. grace_begin() remembers what is under way in all queues
	 * of this process; false: it cannot just now, and will be called again. grace_is_over(): is all of that done?
	 * Neither waits for a queue.
	 */
	bool (*grace_begin)(void);
	bool (*grace_is_over)(void);

	/* Does reaching the point depend on a signal that another process has yet to give? */
	bool (*point_waits_outside)(struct cn_point point);

	/*
	 * Signals: what an event between processes stands on. A signal is recorded and waited for in any number of
	 * processes; a record is a number, done when its queue comes to it. A wait is for the latest record at the time
	 * of the call, and no later record releases it. `recorder` names this process among those that share the
	 * signal: 0 in the one that created it. It lives until it is freed here and nothing of ours is pending on it.
	 *
	 * signal_import refuses what is not a signal with CUDA_ERROR_INVALID_VALUE; `fd` stays the caller's.
	 * signal_query: CUDA_ERROR_NOT_READY while the latest record is pending. signal_sync sleeps for it. Both, and a
	 * queue that waits: CUDA_ERROR_EXTERNAL_DEVICE when its recorder has died before it was done. signal_bury: this
	 * recorder has died; what it has not done never will be. CN_RECORDER_ALL_OTHERS: from now on nobody would tell
	 * this process of a death; to it, all that other recorders have not done is dead, now and later. signal_disown:
	 * records that are pending in this process's name and that it has not made, which is somebody's lie, never will
	 * be done; `others`, unless NULL: nor those of anybody who is not in this list, which is in order. signal_busy:
	 * is a record or a wait of this process not over yet?
	 */
	CUresult (*signal_create)(struct cn_signal **ret_signal);
	CUresult (*signal_export)(struct cn_signal *signal, int *ret_fd);
	CUresult (*signal_import)(int fd, uint32_t recorder, struct cn_signal **ret_signal);
	void (*signal_free)(struct cn_signal *signal);
	CUresult (*signal_record)(struct cn_signal *signal, struct cn_queue *queue, uint64_t owner);
	CUresult (*signal_wait)(struct cn_signal *signal, struct cn_queue *queue, uint64_t owner);
	CUresult (*signal_query)(struct cn_signal *signal);
	CUresult (*signal_sync)(struct cn_signal *signal);
	void (*signal_bury)(struct cn_signal *signal, uint32_t recorder);
	void (*signal_disown)(struct cn_signal *signal, const uint32_t *others, size_t other_count);
	bool (*signal_busy)(struct cn_signal *signal);

	uint64_t (*time_ns)(void);
};

/*
 * The queue for which a function of the program (CN_HOST_CALL, CN_CALLBACK) runs in this thread; NULL: none. The device
 * sets it; driver/ refuses most calls there, as CUDA does.
 */
extern _Thread_local struct cn_queue *cn_callback_queue __attribute__((tls_model("initial-exec")));

/* The device of this process: set once by cn_device_open(). */
extern const struct cn_device_ops *cn_device_ops;
extern const struct cn_device_ops cn_host_device_ops, cn_cuda_device_ops;

/* What CENOTE_DEVICE says; auto: a GPU if there is one. */
enum cn_device_choice { CN_DEVICE_AUTO, CN_DEVICE_HOST, CN_DEVICE_CUDA };
CUresult cn_device_choice(enum cn_device_choice *ret_choice);
/* In its place, where a library is always of one kind: the tests' driver. NULL: ask the environment. */
extern const char *cn_device_wanted;

/* Choose, and call the chosen one's init. */
CUresult cn_device_open(struct cn_device devices[CN_DEVICE_MAX], int *ret_count);

static inline bool cn_point_reached(struct cn_point point)
{
	return !point.queue || atomic_load_explicit(&point.queue->completed, memory_order_acquire) >= point.number;
}

static inline bool cn_queue_idle(struct cn_queue *queue)
{
	/* submitted first: the other way round, work submitted and done in between would look pending, or worse. */
	uint64_t submitted = atomic_load_explicit(&queue->submitted, memory_order_acquire);

	return atomic_load_explicit(&queue->completed, memory_order_acquire) >= submitted;
}

#endif
