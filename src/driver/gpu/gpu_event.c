/* SPDX-License-Identifier: MIT */
/*
 * Events on a GPU: which point of a stream the driver's event stands for.
 *
 * A pool gives a stream what another stream freed if the former is ordered after that free, and events order streams.
 * So each recorded event has an entry with the point that its stream had come to: the span ends, then the driver
 * records. A stream that waits for the event follows that point from then on; when the program has waited for the
 * event, the point has been reached.
 *
 * An entry must never claim more than the driver does. It has a version, which every record changes before and after
 * the driver's call: a thread that reads the same version before and after a call of its own knows which record the
 * driver took. Concurrent records of one event leave its point unknown. An event that a graph records, that another
 * process can record, or that is recorded by a launch or a context, has no point.
 *
 * The table's locks are never held during a call of the driver, and readers take none: an entry only changes between
 * two versions. A stream that no pool has seen needs no point, and its thread needs no lock: the entry says that this
 * thread may be recording the event at any time, and the event's point is unknown until the thread takes that back.
 */
#include "driver/gpu/gpu_calls.h"

#include <stdlib.h>
#include <string.h>

enum {
	BUCKET_BITS = 12,
	NODE_RECORDS_EVENT = 7, /* CU_GRAPH_NODE_TYPE_EVENT_RECORD */
	LAUNCH_EVENTS_MAX = 2,  /* there are two attributes of a launch that record one */
};

/* One cache line. The bucket's lock guards all but the atomic members. */
struct entry {
	_Alignas(64) _Atomic(CUevent) event; /* NULL: unused */
	_Atomic uint64_t version;            /* 0: it is being changed */
	_Atomic(struct cn_queue *) queue;    /* with `number` the point of the latest record; NULL: unknown */
	_Atomic uint64_t number;
	struct entry *next;           /* constant */
	_Atomic(const void *) loose;  /* the thread that may be recording it, in a stream that no pool has seen */
	unsigned recording;           /* records under way, except that thread's */
	bool crossed;                 /* there was more than one at a time */
	bool known;                   /* it has a point, even if readers do not see it during a record */
	_Atomic bool wild;            /* it may be recorded at any time, by a graph for example */
	_Atomic bool outside;         /* another process may record it */
	struct cn_queue *known_queue; /* with `number` */
};

static struct bucket {
	CN_QUICK_LOCK(GPU_EVENTS) lock;
	_Atomic(struct entry *) first;
	uint64_t version; /* of its entries: never used twice */
} buckets[1 << BUCKET_BITS];

static _Atomic bool lost_one; /* no memory for an entry: no event's point is known any more */

/* Its address identifies the thread. A thread that has ended records nothing, so another may get the same address. */
static _Thread_local char this_thread __attribute__((tls_model("initial-exec")));

/* ---- The table ---- */

static inline struct bucket *bucket_of(CUevent event)
{
	return &buckets[(uintptr_t)event * 0x9e3779b97f4a7c15u >> (64 - BUCKET_BITS)];
}

/* Entries stay in their list for ever, so this needs no lock. */
static inline struct entry *find(struct bucket *bucket, CUevent event)
{
	struct entry *entry = atomic_load_explicit(&bucket->first, memory_order_acquire);

	while (entry && atomic_load_explicit(&entry->event, memory_order_relaxed) != event)
		entry = entry->next;
	return entry;
}

/* The code from here to end_change() changes what an entry says. Bucket locked. */
static inline void begin_change(struct entry *entry)
{
	atomic_store_explicit(&entry->version, 0, memory_order_relaxed);
}

/* Each store orders the one above before it: a reader that sees something new also sees that the version changed. */
static inline void end_change(struct bucket *bucket, struct entry *entry)
{
	bool shown = entry->known && !entry->recording && !atomic_load_explicit(&entry->wild, memory_order_relaxed);

	atomic_store_explicit(&entry->queue, shown ? entry->known_queue : NULL, memory_order_release);
	atomic_store_explicit(&entry->version, ++bucket->version, memory_order_release);
}

/* The event's entry, made if there is none, with its bucket locked. NULL, and not locked: no memory. */
static struct entry *open_entry(struct bucket *bucket, CUevent event)
{
	struct entry *entry, *fresh = NULL;

	for (;;) {
		cn_quick_lock(&bucket->lock);
		entry = find(bucket, event);
		if (__builtin_expect(entry != NULL, 1) || fresh)
			break;
		entry = find(bucket, NULL);
		if (entry)
			break;
		cn_quick_unlock(&bucket->lock);
		fresh = aligned_alloc(_Alignof(struct entry), sizeof *fresh);
		if (!fresh) {
			atomic_store(&lost_one, true);
			return NULL;
		}
		memset(fresh, 0, sizeof *fresh);
	}
	if (__builtin_expect(fresh != NULL, 0)) { /* a spare one, if another thread was faster, is used later */
		fresh->next = atomic_load_explicit(&bucket->first, memory_order_relaxed);
		atomic_store_explicit(&bucket->first, fresh, memory_order_release);
		entry = entry ? entry : fresh;
	}
	if (__builtin_expect(atomic_load_explicit(&entry->event, memory_order_relaxed) != event, 0)) {
		begin_change(entry);
		atomic_store_explicit(&entry->event, event, memory_order_release);
		end_change(bucket, entry);
	}
	return entry;
}

/* The event is destroyed, or its handle is another's. A forked child, too, may destroy what it has inherited. */
static void forget(CUevent event)
{
	struct bucket *bucket = bucket_of(event);

	if (!event || !cn_gpu_is_watched() || !find(bucket, event))
		return;
	cn_quick_lock(&bucket->lock);
	struct entry *entry = find(bucket, event);
	if (entry) {
		begin_change(entry);
		atomic_store_explicit(&entry->event, NULL, memory_order_release);
		atomic_store_explicit(&entry->loose, NULL, memory_order_release);
		atomic_store_explicit(&entry->wild, false, memory_order_release);
		atomic_store_explicit(&entry->outside, false, memory_order_release);
		entry->recording = 0;
		entry->crossed = entry->known = false;
		end_change(bucket, entry);
	}
	cn_quick_unlock(&bucket->lock);
}

/* From now on the event's point is unknown. */
static void lose(CUevent event, bool outside)
{
	struct bucket *bucket = bucket_of(event);
	struct entry *entry = event && cn_gpu_is_watched() ? open_entry(bucket, event) : NULL;

	if (!entry)
		return;
	begin_change(entry);
	atomic_store_explicit(&entry->wild, true, memory_order_release);
	if (outside)
		atomic_store_explicit(&entry->outside, true, memory_order_release);
	end_change(bucket, entry);
	cn_quick_unlock(&bucket->lock);
}

/* This thread records the event in a stream that no pool has seen: from now on it may do so at any time. */
static __attribute__((noinline)) void loosen(struct bucket *bucket, CUevent event)
{
	struct entry *entry = open_entry(bucket, event);

	if (!entry)
		return;
	begin_change(entry);
	entry->known = false;
	if (!atomic_load_explicit(&entry->loose, memory_order_relaxed))
		atomic_store_explicit(&entry->loose, &this_thread, memory_order_release);
	else /* two threads do: neither can take it back */
		atomic_store_explicit(&entry->wild, true, memory_order_release);
	end_change(bucket, entry);
	cn_quick_unlock(&bucket->lock);
}

static inline void record_loosely(CUevent event)
{
	struct bucket *bucket = bucket_of(event);
	struct entry *entry = event ? find(bucket, event) : NULL;

	if (__builtin_expect(entry != NULL, 1) &&
	    (atomic_load_explicit(&entry->loose, memory_order_relaxed) == &this_thread ||
	     atomic_load_explicit(&entry->wild, memory_order_relaxed)))
		return;
	if (event)
		loosen(bucket, event);
}

/* The driver is about to record the event. Returns its entry; NULL: it has none. */
static struct entry *begin_record(CUevent event)
{
	struct bucket *bucket = bucket_of(event);
	struct entry *entry = event ? open_entry(bucket, event) : NULL;

	if (!entry)
		return NULL;
	begin_change(entry);
	if (entry->recording++)
		entry->crossed = true;
	if (atomic_load_explicit(&entry->loose, memory_order_relaxed) == &this_thread)
		atomic_store_explicit(&entry->loose, NULL, memory_order_release);
	end_change(bucket, entry);
	cn_quick_unlock(&bucket->lock);
	return entry;
}

/* The driver has recorded it at this point (without a queue: unknown), or has refused. */
static void end_record(struct entry *entry, CUevent event, struct cn_point point, CUresult result)
{
	struct bucket *bucket = bucket_of(event);

	if (!entry)
		return;
	cn_quick_lock(&bucket->lock);
	/* Else it has been destroyed meanwhile. */
	if (atomic_load_explicit(&entry->event, memory_order_relaxed) == event && entry->recording) {
		begin_change(entry);
		if (entry->crossed || atomic_load_explicit(&entry->loose, memory_order_relaxed)) {
			entry->known = false;
		} else if (!result) {
			entry->known = point.queue != NULL;
			entry->known_queue = point.queue;
			atomic_store_explicit(&entry->number, point.number, memory_order_release);
		}
		if (!--entry->recording)
			entry->crossed = false;
		end_change(bucket, entry);
	}
	cn_quick_unlock(&bucket->lock);
}

/* What an entry said. */
struct sight {
	struct entry *entry; /* NULL: nothing */
	uint64_t version;
	struct cn_point point; /* no queue: not known */
	bool outside;
};

static inline struct sight look(CUevent event)
{
	struct sight sight = {.entry = event ? find(bucket_of(event), event) : NULL};
	struct entry *entry = sight.entry;

	if (!entry)
		return sight;
	sight.version = atomic_load_explicit(&entry->version, memory_order_acquire);
	sight.point.queue = atomic_load_explicit(&entry->queue, memory_order_acquire);
	sight.point.number = atomic_load_explicit(&entry->number, memory_order_acquire);
	sight.outside = atomic_load_explicit(&entry->outside, memory_order_acquire);
	bool same = atomic_load_explicit(&entry->event, memory_order_acquire) == event &&
		    atomic_load_explicit(&entry->version, memory_order_relaxed) == sight.version;
	if (!same || !sight.version || atomic_load_explicit(&lost_one, memory_order_relaxed))
		sight.point.queue = NULL;
	return sight;
}

/* Has the event not been recorded since that look? Versions are not used twice. */
static inline bool is_same(const struct sight *sight)
{
	return atomic_load_explicit(&sight->entry->version, memory_order_acquire) == sight->version;
}

/* ---- Life ---- */

CUresult gpu_cuEventCreate(CUevent *ret_event, unsigned int flags)
{
	CUresult result = driver_cuEventCreate(ret_event, flags);

	if (result)
		return result;
	forget(*ret_event); /* an event that ended with its context, and had this handle */
	if (flags & CU_EVENT_INTERPROCESS)
		lose(*ret_event, true);
	return CUDA_SUCCESS;
}

CUresult gpu_cuIpcOpenEventHandle(CUevent *ret_event, CUipcEventHandle handle)
{
	CUresult result = driver_cuIpcOpenEventHandle(ret_event, handle);

	if (!result)
		lose(*ret_event, true);
	return result;
}

/* Before the driver's: after it, the handle may be another event's. */
CUresult gpu_cuEventDestroy_v2(CUevent event)
{
	forget(event);
	return driver_cuEventDestroy_v2(event);
}

CUresult gpu_cuEventDestroy(CUevent event)
{
	forget(event);
	return driver_cuEventDestroy(event);
}

/* ---- Recording ---- */

static CUresult call_record(CUevent event, CUstream stream, unsigned int flags, bool with_flags)
{
	return with_flags ? driver_cuEventRecordWithFlags(event, stream, flags) : driver_cuEventRecord(event, stream);
}

static inline CUresult record(CUevent event, CUstream stream, unsigned int flags, bool with_flags)
{
	struct cn_cuda_place place = {.queue = NULL};

	if (!cn_cuda_is_capturing(stream))
		place = cn_cuda_known_place(stream);
	if (!place.queue) {
		record_loosely(event);
		return call_record(event, stream, flags, with_flags);
	}
	struct entry *entry = begin_record(event);
	struct cn_point point = cn_cuda_end_span(place.queue);
	CUresult result = call_record(event, stream, flags, with_flags);
	if (!cn_cuda_place_stands(&place))
		point.queue = NULL;
	end_record(entry, event, point, result);
	return result;
}

CUresult gpu_cuEventRecord(CUevent event, CUstream stream)
{
	return cn_gpu_has_pools() ? record(event, stream, 0, false) : driver_cuEventRecord(event, stream);
}

/* Written by hand, not made by the build, because the compiler merges both into one function. */
CUresult gpu_cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	return gpu_cuEventRecord(event, cn_gpu_own_stream(stream));
}

CUresult gpu_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	if (flags & CU_EVENT_RECORD_EXTERNAL) /* a graph will record it whenever it is launched */
		lose(event, false);
	return cn_gpu_has_pools() ? record(event, stream, flags, true)
				  : driver_cuEventRecordWithFlags(event, stream, flags);
}

/* A context of either kind: its event covers many streams, so it has no point. */
CUresult gpu_cuCtxRecordEvent(CUcontext context, CUevent event)
{
	if (cn_gpu_has_pools())
		record_loosely(event);
	return driver_cuCtxRecordEvent(context, event);
}

CUresult gpu_cuGreenCtxRecordEvent(void *green, CUevent event)
{
	if (cn_gpu_has_pools())
		record_loosely(event);
	return driver_cuGreenCtxRecordEvent(green, event);
}

/* The events that a launch records. */
static unsigned events_of(const CUlaunchConfig *config, CUevent ret_events[LAUNCH_EVENTS_MAX])
{
	unsigned count = 0;

	for (unsigned int i = 0; config->attrs && i < config->numAttrs && count < LAUNCH_EVENTS_MAX; i++) {
		const CUlaunchAttribute *attribute = &config->attrs[i];
		if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			ret_events[count++] = attribute->value.programmaticEvent.event;
		else if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			ret_events[count++] = attribute->value.launchCompletionEvent.event;
	}
	return count;
}

CUresult gpu_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	CUevent events[LAUNCH_EVENTS_MAX];
	unsigned count = 0;

	if (config && __builtin_expect(config->numAttrs, 0) && cn_gpu_has_pools())
		count = events_of(config, events);
	for (unsigned i = 0; i < count; i++)
		record_loosely(events[i]);
	return driver_cuLaunchKernelEx(config, function, params, extra);
}

CUresult gpu_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	if (!config)
		return gpu_cuLaunchKernelEx(NULL, function, params, extra);
	CUlaunchConfig copy = *config;
	copy.hStream = cn_gpu_own_stream(config->hStream);
	return gpu_cuLaunchKernelEx(&copy, function, params, extra);
}

/* ---- Graphs that record events, whenever they are launched ---- */

static void lose_node(const struct cn_gpu_node_params *params)
{
	if (params && params->type == NODE_RECORDS_EVENT)
		lose(params->event, false);
}

CUresult gpu_cuGraphAddEventRecordNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes, size_t count,
				       CUevent event)
{
	lose(event, false);
	return driver_cuGraphAddEventRecordNode(ret_node, graph, nodes, count, event);
}

CUresult gpu_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	lose(event, false);
	return driver_cuGraphEventRecordNodeSetEvent(node, event);
}

CUresult gpu_cuGraphExecEventRecordNodeSetEvent(void *exec, CUgraphNode node, CUevent event)
{
	lose(event, false);
	return driver_cuGraphExecEventRecordNodeSetEvent(exec, node, event);
}

CUresult gpu_cuGraphAddNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes, size_t count,
			    struct cn_gpu_node_params *params)
{
	lose_node(params);
	return driver_cuGraphAddNode(ret_node, graph, nodes, count, params);
}

CUresult gpu_cuGraphAddNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes,
			       const CUgraphEdgeData *edges, size_t count, struct cn_gpu_node_params *params)
{
	lose_node(params);
	return driver_cuGraphAddNode_v2(ret_node, graph, nodes, edges, count, params);
}

CUresult gpu_cuGraphNodeSetParams(CUgraphNode node, struct cn_gpu_node_params *params)
{
	lose_node(params);
	return driver_cuGraphNodeSetParams(node, params);
}

CUresult gpu_cuGraphExecNodeSetParams(void *exec, CUgraphNode node, struct cn_gpu_node_params *params)
{
	lose_node(params);
	return driver_cuGraphExecNodeSetParams(exec, node, params);
}

/* ---- Waiting ---- */

CUresult gpu_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct cn_cuda_place place = {.queue = NULL};

	if (!cn_gpu_has_pools())
		return driver_cuStreamWaitEvent(stream, event, flags);
	struct sight sight = look(event);
	/* Before the driver's call: afterwards the handle may be another stream's, which does not wait. */
	if ((sight.outside || sight.point.queue) && !cn_cuda_is_capturing(stream) && cn_cuda_find(stream, &place))
		place.queue = NULL;
	if (place.queue && sight.outside)
		cn_cuda_waits_outside(place.queue);
	CUresult result = driver_cuStreamWaitEvent(stream, event, flags);
	/* The stream waits for the record that was seen. */
	if (!result && place.queue && sight.point.queue && is_same(&sight) && !cn_cuda_is_capturing(stream))
		cn_device_ops->queue_follow(place.queue, place.owner, sight.point);
	return result;
}

CUresult gpu_cuEventQuery(CUevent event)
{
	if (!cn_gpu_has_pools())
		return driver_cuEventQuery(event);
	struct sight sight = look(event);
	CUresult result = driver_cuEventQuery(event);
	if (!result && sight.point.queue && is_same(&sight))
		cn_cuda_reached(sight.point);
	return result;
}

CUresult gpu_cuEventSynchronize(CUevent event)
{
	if (!cn_gpu_has_pools())
		return driver_cuEventSynchronize(event);
	struct sight sight = look(event);
	CUresult result = driver_cuEventSynchronize(event);
	if (!result && sight.point.queue && is_same(&sight))
		cn_gpu_synchronised(sight.point);
	return result;
}
