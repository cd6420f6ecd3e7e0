/* SPDX-License-Identifier: MIT */
/*
 * The device contract: what the layers above may ask of a device, whatever it is made of.
 *
 * A device has memory, queues and attributes. A queue runs operations one after the other; its operations are numbered
 * from 1, and a *point* is a queue and a number: "everything up to this operation". Numbers never go back, not even
 * when a destroyed stream's queue serves another stream later, and a queue's memory is never freed. So a point can be
 * kept, compared and queried for ever, without reference counts. A point that was reached stays reached.
 *
 * Queues of one context form a group around its legacy default queue, with CUDA's rule: an operation of the legacy
 * queue comes after everything submitted before to the group's blocking queues, and before everything submitted to them
 * afterwards.
 *
 * A function that fails returns CUDA's code, sets a sentence (base/error.h) and has changed nothing. driver/ has
 * checked the arguments; a device checks only what it alone can know.
 *
 * A process uses one kind of device. The host device in host/ and the cuda device in cuda/ both implement the whole
 * table; what only one of them has is in its folder, and is called by name.
 */
#ifndef CN_DEVICE_DEVICE_H
#define CN_DEVICE_DEVICE_H

#include "base/error.h"
#include "base/lock.h"

#include <stddef.h>

enum {
	CN_DEVICE_MAX = 64,                     /* devices of a process */
	CN_GRANULARITY_BYTES = 2 * 1024 * 1024, /* of physical memory and of addresses */
};

struct cn_device {
	int ordinal;  /* as the program counts: CUDA_VISIBLE_DEVICES applied */
	int physical; /* as the machine counts */
	char name[64];
	CUuuid uuid;
	int pci_domain, pci_bus, pci_device;
	size_t total_bytes;
};

struct cn_queue;

struct cn_point {
	struct cn_queue *queue; /* NULL: always reached */
	uint64_t number;
};

/* From its operation `from` on, the queue that keeps this comes after a point of another one. */
struct cn_followed {
	struct cn_point point; /* queue NULL: here this queue went to another stream, which follows nothing of this */
	uint64_t from;
};

/*
 * A queue, as the layers above and walks see it; each device has a larger record that begins with it, embedded in that
 * of its stream. The counters are public: completed ≥ number means that the point has been reached, and a thread that
 * reads `completed` with acquire order sees what was written before.
 */
struct cn_queue {
	_Atomic uint64_t completed;
	_Atomic uint64_t submitted;
	_Atomic uint64_t owner;      /* handle of the stream; 0 once closed: nothing more is accepted */
	_Atomic uint32_t pool_index; /* for the layer above, which alone reads and writes this and the next two; 0 */
	void *_Atomic pool_woken;
	void *pool_caches;
	struct { /* walk.c's */
		uint64_t serial, up_to, looked_up_to;
		struct cn_queue *next;
		bool listed;
	} walk;
};

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

/* Which devices may use memory: a bit for each device, by ordinal, and one for the host. */
struct cn_users {
	uint64_t devices;
	bool host;
};

struct cn_device_ops {
	const char *name; /* "host", "cuda" */
	/*
	 * Is it known that a process without a mapping of our memory has no work left that uses the memory? If not,
	 * that is known only when the process has ended.
	 */
	bool use_ends_with_mapping;
	/* Does arena_part() take long the first time it is asked about some memory? Then it is asked in advance. */
	bool parts_take_long;

	/* Can this process use such devices? Called before anything else, any number of times. */
	CUresult (*probe)(void);
	/* Find the devices; called once. Zero devices is CUDA_ERROR_NO_DEVICE. */
	CUresult (*init)(struct cn_device devices[CN_DEVICE_MAX], int *ret_count);
	CUresult (*attribute)(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value);
	bool (*peers)(const struct cn_device *device, const struct cn_device *peer);
	/* Does the descriptor lead to physical memory, as cuMemExportToShareableHandle() gives it? It is not closed. */
	bool (*descriptor_is_memory)(int fd);

	/*
	 * An arena: one range of addresses whose memory comes and goes piece by piece, in multiples of
	 * CN_GRANULARITY_BYTES (the pool asks for multiples of 32 MiB, at multiples of it). `bytes` is its size for
	 * ever; the device is asked for memory when a part is committed. `shareable`: other processes may get parts.
	 */
	CUresult (*arena_create)(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
				 struct cn_arena **ret_arena, void **ret_base);
	void (*arena_free)(struct cn_arena *arena); /* nothing is committed */
	/* Which users may access its memory, present and future; none before the first call. */
	CUresult (*arena_allow)(struct cn_arena *arena, struct cn_users users);
	CUresult (*arena_commit)(struct cn_arena *arena, size_t offset, size_t bytes);
	void (*arena_decommit)(struct cn_arena *arena, size_t offset, size_t bytes);
	/*
	 * Give back some of the memory that other processes have put where nothing is committed, from an offset on. A
	 * process that has a part can do so, and the memory outlives it. Returns where to go on; 0: no more.
	 */
	size_t (*arena_reclaim)(struct cn_arena *arena, size_t offset);
	/* The part around an offset, for another process; the descriptor is the caller's to close. */
	CUresult (*arena_part)(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part);
	/*
	 * The serial of the part around an offset, and where it ends; 0: no memory is there. Neither waits nor locks.
	 */
	uint64_t (*arena_serial)(const struct cn_arena *arena, size_t offset, size_t *ret_end);
	/*
	 * From then on, `function` is called when a part that arena_part() gave away has lost its memory here: the
	 * processes that have it should release it. It neither waits nor calls the device. NULL: no call.
	 */
	void (*arena_watch)(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object);

	/*
	 * A view: another process's arena, seen from here. Addresses for all of it, and memory where parts of it were
	 * mapped. The parts come from an untrusted process: one that is not sealed, too short or not memory is refused
	 * with CUDA_ERROR_INVALID_VALUE. `fd` stays the caller's.
	 */
	CUresult (*view_create)(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base);
	CUresult (*view_map)(struct cn_view *view, const struct cn_arena_part *part);
	void (*view_unmap)(struct cn_view *view, size_t offset, size_t bytes); /* one part, as it was mapped */
	CUresult (*view_allow)(struct cn_view *view, struct cn_users users);   /* as arena_allow */
	void (*view_free)(struct cn_view *view);

	/*
	 * The point that covers all that was submitted so far, for a legacy queue its group's work as well. It counts
	 * as an operation there: what the group is given afterwards comes after it. It neither runs an operation nor
	 * calls back.
	 */
	CUresult (*point_now)(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point);
	/*
	 * What the queue is given from now on comes after the point. CUDA_ERROR_INVALID_HANDLE, here and below: the
	 * queue is not `owner`'s any more.
	 */
	CUresult (*queue_wait)(struct cn_queue *queue, uint64_t owner, struct cn_point point);
	/*
	 * Call a short function of the library, which neither waits nor calls the program, when the queue has reached
	 * this point, also after a failure.
	 */
	CUresult (*queue_note)(struct cn_queue *queue, uint64_t owner, void (*function)(void *object, uint64_t number),
			       void *object, uint64_t number);
	/*
	 * Is what the queue is given from now on ordered after the point, by waits, by those of other queues that these
	 * wait for, by the legacy queue? False: not known. For a point that has not been reached, true means that the
	 * queue's next operation will not run before it is. What waits for the queue may run earlier: a caller that
	 * relies on the order there, and gives the queue no operation, calls queue_rely() with what the answer has left
	 * in *ret_relied_on.
	 */
	bool (*queue_follows)(struct cn_queue *queue, struct cn_point point, struct cn_point *ret_relied_on);
	/* From now on a point of the queue stands for what it follows, too. Like point_now(), it runs nothing. */
	CUresult (*queue_rely)(struct cn_queue *queue, uint64_t owner, struct cn_point relied_on);
	/* The queue was to wait for a point that has been reached: nothing is queued, but queue_follows() will know. */
	void (*queue_follow)(struct cn_queue *queue, uint64_t owner, struct cn_point point);

	/*
	 * Bring `completed` up to date, where that does not happen by itself: another queue could use what this one has
	 * finished with. May ask the system, but only now and then. It needs no lock that a caller may hold.
	 */
	void (*queue_look)(struct cn_queue *queue);

	/*
	 * Grace periods, for grace.c alone: one call at a time. grace_begin() remembers what is under way in all queues
	 * of this process, as period `slot`, below CN_GRACE_PERIODS_MAX; false: it cannot right now, and will be called
	 * again. grace_is_over(): is all of that done? Neither waits for a queue.
	 */
	bool (*grace_begin)(unsigned slot);
	bool (*grace_is_over)(unsigned slot);

	/* Does reaching the point depend on a signal that another process has yet to give? */
	bool (*point_waits_outside)(struct cn_point point);
};

/*
 * The queue for which a function of the program (a host function or a stream's callback) runs in this thread; NULL:
 * none. The device sets it; driver/ refuses most calls there, as CUDA does.
 */
extern _Thread_local struct cn_queue *cn_callback_queue __attribute__((tls_model("initial-exec")));

/* The device of this process: set once by cn_device_open(). */
extern const struct cn_device_ops *cn_device_ops;
extern const struct cn_device_ops cn_host_device_ops, cn_cuda_device_ops;

/* What CENOTE_DEVICE says; auto: a GPU if there is one. */
enum cn_device_choice { CN_DEVICE_AUTO, CN_DEVICE_HOST, CN_DEVICE_CUDA };
CN_PRIVATE CUresult cn_device_choice(enum cn_device_choice *ret_choice);
/* Overrides it, where a library is always of one kind: the tests' driver. NULL: ask the environment. */
extern const char *cn_device_wanted;

/* Does the machine have this memory node? */
bool cn_device_has_node(int node);

/* Domain, bus and device of "domain:bus:device.function", "domain:bus:device" or "bus:device.function"; else false. */
CN_PRIVATE bool cn_device_parse_pci_id(const char *id, unsigned ret_place[3]);

/* Choose a device and call its init. */
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
