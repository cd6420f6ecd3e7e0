/* SPDX-License-Identifier: MIT */
/*
 * Which record a stream has, and how streams and contexts come and go (see cuda_stream.h).
 *
 * A table leads from handles to records; a thread remembers its last lookups, as long as nothing has gone since
 * (`cn_cuda_serial`). The table also has the handles of streams that were destroyed, so that a program which uses one
 * gets an error: the driver would crash.
 *
 * A record whose stream is gone serves another stream of the same context once all that was asked about it has
 * happened. Numbers go on, so the older stream's points stay reached; and since it is the same context, a wait for the
 * whole context never takes a stream for another context's.
 */
#include "device/cuda/cuda_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUCKET_BITS = 12,
	DYING_LOOKED_AT = 4,
};

struct entry {
	struct entry *next;
	CUstream handle;
	struct cn_cuda_stream *stream; /* NULL: destroyed */
};

CN_LOCK(CUDA_TABLE) cn_cuda_table_lock;
static struct entry *buckets[1 << BUCKET_BITS];

_Atomic uint64_t cn_cuda_serial = 1;
static _Atomic uint64_t last_owner, last_thread;

_Alignas(64) _Thread_local struct cn_cuda_remembered cn_cuda_remembered __attribute__((tls_model("initial-exec")));

CUresult cn_cuda_check_current(void)
{
	int least, greatest;

	/* A destroyed context stays current in other threads. It still answers which device it was of, but not this. */
	if (cn_cuda.cuCtxGetStreamPriorityRange(&least, &greatest) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context of this thread has been destroyed");
}

static CUresult is_gone(CUstream handle)
{
	/* As the driver has it: first the context, then the stream. */
	if (cn_cuda_check_current())
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream %p has been destroyed", (void *)handle);
}

/* ---- The table ---- */

static inline uint64_t hash(CUstream handle, unsigned bits)
{
	return (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u >> (64 - bits);
}

static struct entry **bucket_of(CUstream handle)
{
	return &buckets[hash(handle, BUCKET_BITS)];
}

/* Table locked. */
static struct entry **find_entry(CUstream handle)
{
	struct entry **link = bucket_of(handle);

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

/* Table locked. */
static void drop_entry(CUstream handle)
{
	struct entry **link = find_entry(handle), *entry = *link;

	if (entry)
		*link = entry->next;
	free(entry);
}

static void set_entry(CUstream handle, struct cn_cuda_stream *stream)
{
	cn_lock(&cn_cuda_table_lock);
	struct entry *entry = *find_entry(handle);
	if (entry)
		entry->stream = stream;
	cn_unlock(&cn_cuda_table_lock);
}

void cn_cuda_forget(CUstream handle, const struct cn_cuda_stream *stream)
{
	cn_lock(&cn_cuda_table_lock);
	struct entry *entry = *find_entry(handle);
	if (entry && entry->stream == stream)
		entry->stream = NULL;
	cn_unlock(&cn_cuda_table_lock);
}

/*
 * Table locked since the stream was found: no record is given to another stream meanwhile. So the owner is the
 * stream's, or 0: it is being destroyed.
 */
static struct cn_cuda_place place_of(struct cn_cuda_stream *stream)
{
	return (struct cn_cuda_place){
		.queue = &stream->queue,
		.owner = atomic_load_explicit(&stream->queue.owner, memory_order_acquire),
		.device = stream->context->device,
	};
}

/* ---- Threads ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* leads to a thread's list of its own streams */
static bool has_key;

struct own_stream {
	struct own_stream *next;
	struct cn_cuda_stream *stream; /* is this thread's as long as the record says so */
};

/* Stream locked; its handle is no longer valid. */
static void retire(struct cn_cuda_stream *stream, bool covered)
{
	struct cn_cuda_context *context = stream->context;

	stream->handle = NULL;
	stream->thread = 0;
	atomic_store(&stream->state, covered ? CN_CUDA_DYING : CN_CUDA_LOST);
	cn_lock(&cn_cuda_table_lock);
	stream->next_in_list = NULL;
	*context->dying_end = stream;
	context->dying_end = &stream->next_in_list;
	cn_unlock(&cn_cuda_table_lock);
}

/*
 * A thread ends. It is not known whether the driver has ended the thread's streams by now, or will later; nor whether
 * an event recorded now would still come after their work. So nothing is recorded: the next wait for the context tells.
 */
static void end_thread(void *first)
{
	uint64_t thread = cn_cuda_thread();

	for (struct own_stream *own = first, *next; own; own = next) {
		struct cn_cuda_stream *stream = own->stream;
		next = own->next;
		cn_driver_lock(&stream->lock);
		if (stream->thread == thread) {
			atomic_store(&stream->queue.owner, 0);
			stream->final = cn_cuda_needed(stream);
			retire(stream, cn_cuda_is_covered(stream, stream->final));
		}
		cn_driver_unlock(&stream->lock);
		free(own);
	}
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, end_thread) == 0;
}

uint64_t cn_cuda_thread(void)
{
	if (!cn_cuda_remembered.thread)
		cn_cuda_remembered.thread = atomic_fetch_add(&last_thread, 1) + 1;
	return cn_cuda_remembered.thread;
}

/* ---- Records ---- */

/* One whose stream is gone, and which nothing waits for. Table locked. */
static struct cn_cuda_stream *take_spare(struct cn_cuda_context *context)
{
	struct cn_cuda_stream *stream = context->spare;

	if (stream) {
		context->spare = stream->next_in_list;
		stream->in_hand = true;
	}
	return stream;
}

/* Make spares of those that have ended: a few of the oldest are looked at. */
static void reap(struct cn_cuda_context *context)
{
	for (unsigned i = 0; i < DYING_LOOKED_AT; i++) {
		cn_lock(&cn_cuda_table_lock);
		struct cn_cuda_stream *stream = context->dying;
		if (stream) {
			context->dying = stream->next_in_list;
			if (!context->dying)
				context->dying_end = &context->dying;
			stream->in_hand = true;
		}
		cn_unlock(&cn_cuda_table_lock);
		if (!stream)
			return;
		cn_driver_lock(&stream->lock);
		cn_cuda_update(stream);
		if (!cn_cuda_is_covered(stream, stream->final) && cn_cuda_watch(stream, stream->final))
			cn_cuda_update(stream);
		bool over = cn_point_reached((struct cn_point){&stream->queue, stream->final}) &&
			    !cn_cuda_has_notes(stream);
		if (over)
			atomic_store(&stream->state, CN_CUDA_SPARE);
		cn_lock(&cn_cuda_table_lock);
		stream->in_hand = false;
		stream->next_in_list = over ? context->spare : NULL;
		if (over) {
			context->spare = stream;
		} else {
			*context->dying_end = stream;
			context->dying_end = &stream->next_in_list;
		}
		cn_unlock(&cn_cuda_table_lock);
		cn_driver_unlock(&stream->lock);
	}
}

static struct cn_cuda_stream *take_record(struct cn_cuda_context *context)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_stream *stream = take_spare(context);
	cn_unlock(&cn_cuda_table_lock);
	if (!stream) {
		reap(context);
		cn_lock(&cn_cuda_table_lock);
		stream = take_spare(context);
		cn_unlock(&cn_cuda_table_lock);
	}
	if (stream)
		return stream;
	stream = aligned_alloc(64, (sizeof *stream + 63) / 64 * 64);
	if (!stream)
		return NULL;
	memset(stream, 0, sizeof *stream);
	atomic_store(&stream->first_due, UINT64_MAX);
	stream->context = context;
	stream->in_hand = true;
	stream->next = atomic_load(&context->streams);
	while (!atomic_compare_exchange_weak(&context->streams, &stream->next, stream))
		;
	return stream;
}

static void give_record(struct cn_cuda_stream *stream)
{
	cn_lock(&cn_cuda_table_lock);
	stream->in_hand = false;
	stream->next_in_list = stream->context->spare;
	stream->context->spare = stream;
	cn_unlock(&cn_cuda_table_lock);
}

/* A record for a stream that has none. It stays in hand until it is entered somewhere, or given back. */
static struct cn_cuda_stream *open_record(struct cn_cuda_context *context, enum cn_cuda_kind kind, CUstream handle,
					  bool blocking)
{
	struct cn_cuda_stream *stream = take_record(context);

	if (!stream)
		return NULL;
	cn_cuda_follow_open(stream);
	cn_driver_lock(&stream->lock);
	stream->kind = kind;
	stream->handle = handle;
	stream->blocking = blocking;
	stream->spoilt = false;
	stream->thread = kind == CN_CUDA_PER_THREAD ? cn_cuda_thread() : 0;
	atomic_store(&stream->pending_ns, 0);
	atomic_store(&stream->wanted_ns, 0);
	atomic_store(&stream->state, CN_CUDA_LIVE);
	atomic_store(&stream->queue.owner, atomic_fetch_add(&last_owner, 1) + 1);
	cn_driver_unlock(&stream->lock);
	return stream;
}

/* It was not needed after all. */
static void unopen_record(struct cn_cuda_stream *stream)
{
	cn_driver_lock(&stream->lock);
	atomic_store(&stream->queue.owner, 0);
	atomic_store(&stream->state, CN_CUDA_SPARE);
	stream->handle = NULL;
	stream->thread = 0;
	cn_driver_unlock(&stream->lock);
	give_record(stream);
}

/* ---- Finding ---- */

static bool is_blocking(CUstream handle)
{
	static _Atomic(void *) get_flags; /* with a version that every driver has */
	CUresult (*function)(CUstream, unsigned *);
	unsigned flags = CU_STREAM_NON_BLOCKING;
	void *found = atomic_load(&get_flags);

	if (!found) {
		found = cn_cuda_function("cuStreamGetFlags", 5050, false);
		atomic_store(&get_flags, found);
	}
	memcpy(&function, &found, sizeof function);
	return function && !function(handle, &flags) && !(flags & CU_STREAM_NON_BLOCKING);
}

/* Its owner is 0 if it has been destroyed meanwhile. */
static CUresult open_ordinary(CUstream handle, struct cn_cuda_place *ret_place)
{
	struct cn_cuda_context *context;
	CUcontext context_handle;
	uint64_t life = 0;
	CUresult result = cn_cuda.cuStreamGetCtx(handle, &context_handle);

	if (result)
		return cn_error(result, "the driver did not say which context stream %p belongs to", (void *)handle);
	result = cn_cuda_context_get(context_handle, &context, &life);
	if (result)
		return result;
	struct entry *entry = malloc(sizeof *entry);
	struct cn_cuda_stream *stream =
		entry ? open_record(context, CN_CUDA_ORDINARY, handle, is_blocking(handle)) : NULL;
	if (!stream) {
		free(entry);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a stream");
	}
	cn_lock(&cn_cuda_table_lock);
	struct entry *other = *find_entry(handle);
	bool alive = atomic_load(&context->life) == life, entered = alive && !other;
	if (entered) {
		struct entry **bucket = bucket_of(handle);
		*entry = (struct entry){.next = *bucket, .handle = handle, .stream = stream};
		*bucket = entry;
		stream->in_hand = false;
	}
	struct cn_cuda_stream *found = other ? other->stream : alive ? stream : NULL;
	*ret_place = found ? place_of(found) : (struct cn_cuda_place){.owner = 0};
	atomic_fetch_add(&cn_cuda_serial, 1); /* a thread may remember that it had none */
	cn_unlock(&cn_cuda_table_lock);
	if (!entered) { /* another thread was faster, or has ended the context */
		free(entry);
		unopen_record(stream);
	}
	return CUDA_SUCCESS;
}

static CUresult find_ordinary(CUstream handle, struct cn_cuda_place *ret_place)
{
	uint64_t before = atomic_load(&cn_cuda_serial);

	cn_lock(&cn_cuda_table_lock);
	struct entry *entry = *find_entry(handle);
	struct cn_cuda_stream *stream = entry ? entry->stream : NULL;
	struct cn_cuda_place place = stream ? place_of(stream) : (struct cn_cuda_place){.owner = 0};
	cn_unlock(&cn_cuda_table_lock);
	CUresult result = entry ? CUDA_SUCCESS : open_ordinary(handle, &place);
	if (result)
		return result;
	if (!place.owner)
		return is_gone(handle);
	struct cn_cuda_known_stream *known = &cn_cuda_remembered.streams[hash(handle, CN_CUDA_KNOWN_BITS)];
	known->handle = handle;
	known->serial = before;
	known->place = place;
	*ret_place = place;
	return CUDA_SUCCESS;
}

/* The record of a default stream of the context; NULL: none yet. Table locked. */
static struct cn_cuda_stream *find_default_locked(struct cn_cuda_context *context, enum cn_cuda_kind kind)
{
	const struct own_stream *own = kind == CN_CUDA_PER_THREAD ? pthread_getspecific(key) : NULL;

	if (kind == CN_CUDA_LEGACY)
		return context->legacy;
	/* One that ended with its context, whose record is in use again now, is unused or another thread's. */
	while (own && (own->stream->context != context || atomic_load(&own->stream->thread) != cn_cuda_thread()))
		own = own->next;
	return own ? own->stream : NULL;
}

/* Its queue is NULL if there is none. */
static struct cn_cuda_place find_default(CUcontext handle, enum cn_cuda_kind kind)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_context *context = cn_cuda_context_find_locked(handle);
	struct cn_cuda_stream *stream =
		context && !atomic_load(&context->ending) ? find_default_locked(context, kind) : NULL;
	struct cn_cuda_place place = stream ? place_of(stream) : (struct cn_cuda_place){.owner = 0};
	cn_unlock(&cn_cuda_table_lock);
	return place;
}

/* The thread will find it again. */
static bool enter_own(struct cn_cuda_stream *stream)
{
	struct own_stream *own = malloc(sizeof *own);

	if (!own)
		return false;
	*own = (struct own_stream){.next = pthread_getspecific(key), .stream = stream};
	if (!pthread_setspecific(key, own))
		return true;
	free(own);
	return false;
}

static CUresult open_default(CUcontext handle, enum cn_cuda_kind kind, struct cn_cuda_place *ret_place)
{
	struct cn_cuda_context *context;
	struct cn_cuda_stream *other;
	uint64_t life = 0;
	CUresult result = cn_cuda_context_get(handle, &context, &life);

	if (result)
		return result;
	/* It was not used while its context was about to end, but may exist. */
	cn_lock(&cn_cuda_table_lock);
	other = atomic_load(&context->life) == life ? find_default_locked(context, kind) : NULL;
	if (other)
		*ret_place = place_of(other);
	cn_unlock(&cn_cuda_table_lock);
	if (other)
		return CUDA_SUCCESS;
	struct cn_cuda_stream *stream =
		open_record(context, kind, kind == CN_CUDA_LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD, true);
	if (!stream)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a stream");
	if (kind == CN_CUDA_PER_THREAD && !enter_own(stream)) {
		unopen_record(stream);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a thread's record of its stream");
	}
	cn_lock(&cn_cuda_table_lock);
	bool alive = atomic_load(&context->life) == life;
	if (alive && kind == CN_CUDA_LEGACY)
		other = context->legacy; /* another thread may have been faster */
	if (alive && kind == CN_CUDA_LEGACY && !other)
		context->legacy = stream;
	*ret_place = alive ? place_of(other ? other : stream) : (struct cn_cuda_place){.owner = 0};
	bool entered = alive && !other;
	if (entered)
		stream->in_hand = false;
	cn_unlock(&cn_cuda_table_lock);
	if (!entered)
		unopen_record(stream);
	return CUDA_SUCCESS;
}

static CUresult current_context(CUcontext *ret_context)
{
	CUcontext context = NULL;
	CUresult result = cn_cuda.cuCtxGetCurrent(&context);

	if (result)
		return cn_error(result, "the driver did not say which context is current");
	if (!context)
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
	*ret_context = context;
	return CUDA_SUCCESS;
}

static CUresult find_of_current(enum cn_cuda_kind kind, struct cn_cuda_place *ret_place)
{
	unsigned slot = kind == CN_CUDA_PER_THREAD;
	CUcontext context;
	CUresult result = current_context(&context);

	if (result)
		return result;
	uint64_t before = atomic_load(&cn_cuda_serial);
	if (cn_cuda_remembered.defaults[slot].context == context &&
	    cn_cuda_remembered.defaults[slot].serial == before) {
		*ret_place = cn_cuda_remembered.defaults[slot].place;
		return CUDA_SUCCESS;
	}
	pthread_once(&key_once, make_key);
	if (!has_key)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the process has no thread-specific key left");
	struct cn_cuda_place place = find_default(context, kind);
	if (!place.queue)
		result = open_default(context, kind, &place);
	if (result)
		return result;
	if (!place.owner)
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
	cn_cuda_remembered.defaults[slot].context = context;
	cn_cuda_remembered.defaults[slot].serial = before;
	cn_cuda_remembered.defaults[slot].place = *ret_place = place;
	return CUDA_SUCCESS;
}

static bool is_default(CUstream handle)
{
	return (uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD;
}

CUresult cn_cuda_find_slowly(CUstream handle, struct cn_cuda_place *ret_place)
{
	if (is_default(handle))
		return find_of_current(handle == CU_STREAM_PER_THREAD ? CN_CUDA_PER_THREAD : CN_CUDA_LEGACY, ret_place);
	return find_ordinary(handle, ret_place);
}

struct cn_cuda_place cn_cuda_known_place(CUstream handle)
{
	static const struct cn_cuda_place nowhere;
	CUcontext context = NULL;

	if (is_default(handle)) {
		/* Before the first one the key does not exist. */
		if (!cn_cuda_contexts() || cn_cuda.cuCtxGetCurrent(&context) || !context)
			return nowhere;
		unsigned slot = handle == CU_STREAM_PER_THREAD;
		if (cn_cuda_remembered.defaults[slot].context == context &&
		    cn_cuda_remembered.defaults[slot].serial ==
			    atomic_load_explicit(&cn_cuda_serial, memory_order_acquire))
			return cn_cuda_remembered.defaults[slot].place;
		pthread_once(&key_once, make_key);
		return has_key ? find_default(context, slot ? CN_CUDA_PER_THREAD : CN_CUDA_LEGACY) : nowhere;
	}
	const struct cn_cuda_known_stream *recalled = cn_cuda_recall(handle);
	if (recalled)
		return recalled->place;
	uint64_t before = atomic_load_explicit(&cn_cuda_serial, memory_order_acquire);
	struct cn_cuda_known_stream *known = &cn_cuda_remembered.streams[hash(handle, CN_CUDA_KNOWN_BITS)];
	if (known->unknown == handle && known->unknown_serial == before)
		return nowhere;
	cn_lock(&cn_cuda_table_lock);
	const struct entry *entry = *find_entry(handle);
	struct cn_cuda_place place = entry && entry->stream ? place_of(entry->stream) : nowhere;
	cn_unlock(&cn_cuda_table_lock);
	if (place.queue)
		return place;
	known->unknown = handle;
	known->unknown_serial = before;
	return nowhere;
}

bool cn_cuda_is_destroyed(CUstream handle)
{
	cn_lock(&cn_cuda_table_lock);
	const struct entry *entry = *find_entry(handle);
	bool destroyed = entry && !entry->stream;
	cn_unlock(&cn_cuda_table_lock);
	return destroyed;
}

/* ---- Streams that come and go ---- */

void cn_cuda_created(CUstream handle)
{
	cn_lock(&cn_cuda_table_lock);
	struct entry *entry = *find_entry(handle);
	struct cn_cuda_stream *stream = entry ? entry->stream : NULL;
	if (entry)
		drop_entry(handle);
	cn_unlock(&cn_cuda_table_lock);
	if (!stream)
		return;
	/* It was destroyed without our knowledge. */
	atomic_fetch_add(&cn_cuda_serial, 1);
	cn_driver_lock(&stream->lock);
	if (atomic_load(&stream->state) == CN_CUDA_LIVE && stream->handle == handle) {
		atomic_store(&stream->queue.owner, 0);
		stream->final = cn_cuda_needed(stream);
		retire(stream, cn_cuda_is_covered(stream, stream->final));
	}
	cn_driver_unlock(&stream->lock);
}

/*
 * The stream has no record: no pool has seen it. Its handle is remembered, unless there is no memory for that. False:
 * another thread has just opened a record for it.
 */
static bool destroy_unknown(CUstream handle, CUresult (*destroy)(CUstream handle), CUresult *ret_result)
{
	struct entry *entry = malloc(sizeof *entry);

	/* Before the driver has done it: afterwards the handle may be another stream's already. */
	cn_lock(&cn_cuda_table_lock);
	bool known = *find_entry(handle) != NULL;
	if (entry && !known) {
		struct entry **bucket = bucket_of(handle);
		*entry = (struct entry){.next = *bucket, .handle = handle};
		*bucket = entry;
	}
	cn_unlock(&cn_cuda_table_lock);
	if (known) {
		free(entry);
		return false;
	}
	*ret_result = destroy(handle);
	if (*ret_result) {
		cn_lock(&cn_cuda_table_lock);
		drop_entry(handle);
		cn_unlock(&cn_cuda_table_lock);
	}
	return true;
}

static CUresult destroy_locked(struct cn_cuda_stream *stream, CUresult (*destroy)(CUstream handle))
{
	CUstream handle = stream->handle;
	uint64_t owner = atomic_exchange(&stream->queue.owner, 0);

	/* From here on no number is given out; those given out before are covered. */
	atomic_fetch_add(&cn_cuda_serial, 1);
	set_entry(handle, NULL);
	uint64_t needed = cn_cuda_needed(stream);
	bool covered = cn_cuda_is_covered(stream, needed) || cn_cuda_cover(stream, needed);
	CUresult result = destroy(handle);
	if (result) {
		set_entry(handle, stream);
		atomic_store(&stream->queue.owner, owner);
		return result;
	}
	stream->final = needed;
	retire(stream, covered);
	return CUDA_SUCCESS;
}

CUresult cn_cuda_destroy(CUstream handle, CUresult (*destroy)(CUstream handle))
{
	if (is_default(handle))
		return destroy(handle);
	for (;;) {
		cn_lock(&cn_cuda_table_lock);
		struct entry *entry = *find_entry(handle);
		struct cn_cuda_stream *stream = entry ? entry->stream : NULL;
		cn_unlock(&cn_cuda_table_lock);
		CUresult result = CUDA_SUCCESS;
		if (!entry && destroy_unknown(handle, destroy, &result))
			return result;
		if (!entry)
			continue;
		if (!stream)
			return is_gone(handle);
		cn_driver_lock(&stream->lock);
		bool same = stream->handle == handle && atomic_load(&stream->state) == CN_CUDA_LIVE;
		result = same ? destroy_locked(stream, destroy) : CUDA_SUCCESS;
		cn_driver_unlock(&stream->lock);
		if (same)
			return result;
	}
}
