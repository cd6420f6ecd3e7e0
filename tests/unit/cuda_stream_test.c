/* SPDX-License-Identifier: MIT */
/*
 * Streams of a driver's as the cuda device sees them: how they are found, their numbers and marks, who follows whom.
 */
#include "cuda_stream.h"
#include "driver/gpu/gpu.h"

SETUP
{
	driver_start();
}

static bool follows(struct cn_queue *queue, struct cn_point point)
{
	struct cn_point relied_on;

	return cn_cuda_queue_follows(queue, point, &relied_on);
}

/* ---- Finding ---- */

TEST(a_stream_has_one_record)
{
	CUstream one = new_stream(), other = new_stream();
	struct cn_cuda_place place = find(one);

	ASSERT_EQ(place.queue, find(one).queue);
	ASSERT_EQ(place.owner, find(one).owner);
	ASSERT_NE(place.queue, find(other).queue);
	ASSERT_EQ(0, place.device->ordinal);
	ASSERT_EQ(place.queue, cn_cuda_known(one));
	end_stream(one);
	end_stream(other);
}

TEST(a_stream_that_no_pool_has_seen_is_not_known)
{
	CUstream stream = new_stream();

	ASSERT_EQ(NULL, cn_cuda_known(stream));
	ASSERT_EQ(NULL, cn_cuda_known(NULL));
	ASSERT_EQ(NULL, cn_cuda_known(CU_STREAM_PER_THREAD));
	end_stream(stream);
}

TEST(default_streams_are_the_current_contexts)
{
	struct cn_cuda_place legacy = find(NULL), place;
	CUcontext other;

	ASSERT_EQ(legacy.queue, find(CU_STREAM_LEGACY).queue);
	ASSERT_NE(legacy.queue, find(CU_STREAM_PER_THREAD).queue);
	ASSERT_EQ(legacy.queue, cn_cuda_known(NULL));
	ASSERT_OK(DRIVER(cuCtxCreate)(&other, NULL, 0, 0));
	ASSERT_NE(legacy.queue, find(NULL).queue);
	ASSERT_OK(DRIVER(cuCtxPopCurrent)(&other));
	ASSERT_EQ(legacy.queue, find(NULL).queue);
	ASSERT_OK(DRIVER(cuCtxSetCurrent)(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cn_cuda_find(NULL, &place));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cn_cuda_find(CU_STREAM_PER_THREAD, &place));
	ASSERT_EQ(NULL, cn_cuda_known(NULL));
	ASSERT_OK(DRIVER(cuCtxDestroy)(other));
}

TEST(a_stream_is_found_without_a_current_context)
{
	CUstream stream = new_stream();

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(NULL));
	struct cn_point point = point_of(find(stream));
	look_until(point);
	end_stream(stream);
}

/* ---- Numbers and marks ---- */

TEST(a_point_is_reached_when_the_stream_has_come_there)
{
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct driver_gate gate = driver_gate_close(stream);
	struct cn_point point = point_of(place);

	ASSERT_EQ(point.number, point_of(place).number); /* no mark, no new number */
	ASSERT(!seen_reached(point));
	driver_gate_open(gate);
	look_until(point);
	end_stream(stream);
	driver_gate_free(gate);
}

TEST(a_mark_says_nothing_of_what_came_after_it)
{
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct driver_gate first = driver_gate_close(stream);
	struct cn_point before = point_of(place);

	ASSERT(!seen_reached(before));
	struct driver_gate second = driver_gate_close(stream);
	struct cn_point after = point_of(place);
	ASSERT_GT(after.number, before.number);
	driver_gate_open(first);
	look_until(before);
	ASSERT(!seen_reached(after));
	driver_gate_open(second);
	look_until(after);
	end_stream(stream);
	driver_gate_free(first);
	driver_gate_free(second);
}

TEST(more_spans_than_marks_are_all_reached)
{
	enum { SPANS = 40 };
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct driver_gate gate = driver_gate_close(stream);
	struct cn_point points[SPANS];

	for (unsigned i = 0; i < SPANS; i++) {
		points[i] = point_of(place);
		ASSERT(!seen_reached(points[i]));
	}
	driver_gate_open(gate);
	for (unsigned i = SPANS; i-- > 0;)
		look_until(points[i]);
	ASSERT(cn_queue_idle(place.queue));
	end_stream(stream);
	driver_gate_free(gate);
}

TEST(what_the_program_has_seen_needs_no_mark)
{
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct cn_point freed = point_of(place), seen = cn_cuda_end_span(place.queue), later = point_of(place);

	ASSERT_EQ(freed.number, seen.number);
	ASSERT_GT(later.number, seen.number);
	cn_cuda_reached(seen);
	ASSERT(cn_point_reached(freed));
	ASSERT(!cn_point_reached(later));
	end_stream(stream);
}

TEST(default_streams_are_marked_in_their_own_context)
{
	CUcontext other;
	struct cn_point legacy = point_of(find(NULL)), own = point_of(find(CU_STREAM_PER_THREAD));

	ASSERT_OK(DRIVER(cuCtxCreate)(&other, NULL, 0, 0));
	look_until(legacy);
	look_until(own);
	look_until(point_of(find(NULL)));
	CUcontext current;
	ASSERT_OK(DRIVER(cuCtxGetCurrent)(&current));
	ASSERT_EQ(other, current);
	uint64_t life = cn_cuda_context_ending(other);
	ASSERT_OK(DRIVER(cuCtxDestroy)(other));
	cn_cuda_context_over(other, life);
}

/* ---- The order of numbers and work ---- */

enum { ORDER_ROUNDS = 20000 / HARNESS_SLOWDOWN, RING = 256 };

struct order {
	CUstream stream;
	struct cn_cuda_place place;
	_Atomic uint64_t done; /* what the stream has come to */
	struct {
		struct cn_point point;
		uint64_t work;
	} ring[RING];
	_Atomic uint64_t written, read;
	_Atomic bool over;
};

static void *give_marks(void *data)
{
	struct order *order = data;

	while (!atomic_load(&order->over))
		cn_cuda_queue_look(order->place.queue);
	return NULL;
}

static void *check_order(void *data)
{
	struct order *order = data;

	for (uint64_t at = 0; at < ORDER_ROUNDS;) {
		cn_cuda_queue_look(order->place.queue);
		for (; at < atomic_load(&order->written) && cn_point_reached(order->ring[at % RING].point); at++)
			ASSERT_GE(atomic_load(&order->done), order->ring[at % RING].work);
		atomic_store(&order->read, at);
	}
	return NULL;
}

/* What another thread does between our record of an event and whatever comes after it. */
static struct {
	CUresult (*record)(CUevent event, CUstream stream);
	CUstream stream;
	struct driver_gate gate;
	struct cn_point point;
	unsigned count;
} meanwhile;

static CUresult record_and_go_on(CUevent event, CUstream stream)
{
	CUresult result = meanwhile.record(event, stream);

	if (!meanwhile.count++) {
		meanwhile.gate = driver_gate_close(meanwhile.stream);
		meanwhile.point = point_of(find(meanwhile.stream));
	}
	return result;
}

/* Goal: the number goes up before the event is recorded, not after it. */
TEST(work_that_comes_just_behind_a_mark_is_not_covered_by_it)
{
	CUstream stream = new_stream();
	struct cn_point before = point_of(find(stream));

	meanwhile.record = cn_cuda.cuEventRecord;
	meanwhile.stream = stream;
	cn_cuda.cuEventRecord = record_and_go_on;
	look_until(before);
	ASSERT_GE(meanwhile.count, 1);
	ASSERT(!seen_reached(meanwhile.point));
	driver_gate_open(meanwhile.gate);
	look_until(meanwhile.point);
	end_stream(stream);
	driver_gate_free(meanwhile.gate);
}

/* Goal: once a point is seen as reached, all that the stream was given before the point was taken is done. */
TEST(a_number_covers_the_work_before_it, .timeout_ms = 120000)
{
	static struct order order;
	pthread_t marker, checker;

	order.stream = new_stream();
	order.place = find(order.stream);
	ASSERT_EQ(0, pthread_create(&marker, NULL, give_marks, &order));
	ASSERT_EQ(0, pthread_create(&checker, NULL, check_order, &order));
	for (uint64_t i = 0; i < ORDER_ROUNDS; i++) {
		while (i - atomic_load(&order.read) >= RING)
			sched_yield();
		ASSERT_OK(DRIVER(cuLaunchHostFunc)(order.stream, do_work, &order.done));
		order.ring[i % RING].point = point_of(order.place);
		order.ring[i % RING].work = i + 1;
		atomic_store(&order.written, i + 1);
	}
	ASSERT_EQ(0, pthread_join(checker, NULL));
	atomic_store(&order.over, true);
	ASSERT_EQ(0, pthread_join(marker, NULL));
	end_stream(order.stream);
}

/* ---- Waiting ---- */

TEST(a_stream_waits_for_a_point_of_another)
{
	CUstream one = new_stream(), other = new_stream();
	struct driver_gate gate = driver_gate_close(other);
	struct cn_point point = point_of(find(other));

	ASSERT(!follows(find(one).queue, point));
	ASSERT_OK(wait_for(one, point));
	ASSERT(follows(find(one).queue, point));
	struct cn_point after = point_of(find(one));
	ASSERT(!seen_reached(after));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, DRIVER(cuStreamQuery)(one));
	driver_gate_open(gate);
	look_until(after);
	look_until(point);
	ASSERT_OK(wait_for(one, point)); /* nothing to wait for */
	end_stream(one);
	end_stream(other);
	driver_gate_free(gate);
}

TEST(a_stream_waits_for_one_that_was_destroyed)
{
	CUstream one = new_stream(), other = new_stream();
	struct driver_gate gate = driver_gate_close(other);
	struct cn_point point = point_of(find(other));

	end_stream(other);
	ASSERT_OK(wait_for(one, point));
	struct cn_point after = point_of(find(one));
	ASSERT(!seen_reached(after));
	driver_gate_open(gate);
	look_until(after);
	end_stream(one);
	driver_gate_free(gate);
}

TEST(a_destroyed_stream_does_not_wait)
{
	CUstream one = new_stream(), other = new_stream();
	struct cn_cuda_place place = find(one);
	struct driver_gate gate = driver_gate_close(other);
	struct cn_point point = point_of(find(other));

	end_stream(one);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_queue_wait(place.queue, place.owner, point));
	driver_gate_open(gate);
	end_stream(other);
	driver_gate_free(gate);
}

struct owner {
	CUcontext context;
	pthread_barrier_t barrier;
	struct driver_gate gate;
	struct cn_point points[2];
};

static void *free_in_own_stream(void *data)
{
	struct owner *owner = data;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(owner->context));
	owner->gate = driver_gate_close(CU_STREAM_PER_THREAD);
	for (unsigned i = 0; i < 2; i++) {
		owner->points[i] = point_of(find(CU_STREAM_PER_THREAD));
		pthread_barrier_wait(&owner->barrier);
		pthread_barrier_wait(&owner->barrier);
	}
	return NULL;
}

/* Goal: a stream waits for another thread's own one and nobody else does: that thread marks it, or in the end we do. */
TEST(a_stream_waits_for_another_threads_own)
{
	static _Atomic uint64_t done;
	struct owner owner;
	CUstream stream = new_stream(), blocking;
	pthread_t thread;

	ASSERT_OK(DRIVER(cuCtxGetCurrent)(&owner.context));
	ASSERT_OK(DRIVER(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
	pthread_barrier_init(&owner.barrier, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, free_in_own_stream, &owner));
	pthread_barrier_wait(&owner.barrier);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, wait_for(stream, owner.points[0]));
	pthread_barrier_wait(&owner.barrier); /* it frees something more */
	pthread_barrier_wait(&owner.barrier);
	ASSERT_OK(wait_for(stream, owner.points[0]));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, DRIVER(cuStreamQuery)(stream));
	ASSERT_OK(DRIVER(cuLaunchHostFunc)(blocking, do_work, &done));
	ASSERT_OK(DRIVER(cuStreamSynchronize)(blocking)); /* it has nothing to do with them */
	ASSERT_GE(owner.points[1].number, owner.points[0].number);

	struct cn_point later = cn_cuda_end_span(owner.points[1].queue);
	CUresult result;
	while ((result = wait_for(stream, later)) == CUDA_ERROR_NOT_READY)
		sched_yield();
	ASSERT_OK(result);
	driver_gate_open(owner.gate);
	look_until(point_of(find(stream)));
	pthread_barrier_wait(&owner.barrier);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_OK(DRIVER(cuStreamDestroy)(blocking));
	end_stream(stream);
	driver_gate_free(owner.gate);
	pthread_barrier_destroy(&owner.barrier);
}

/* ---- Who follows whom ---- */

static void follow(CUstream stream, struct cn_point point)
{
	cn_cuda_queue_follow(find(stream).queue, find(stream).owner, point);
}

TEST(what_is_followed_is_followed_through_others)
{
	CUstream streams[4];

	for (unsigned i = 0; i < 4; i++)
		streams[i] = new_stream();
	struct cn_point start = cn_cuda_end_span(find(streams[0]).queue);
	follow(streams[1], start);
	struct cn_point middle = cn_cuda_end_span(find(streams[1]).queue);
	follow(streams[2], middle);
	struct cn_point late = cn_cuda_end_span(find(streams[0]).queue);

	ASSERT(follows(find(streams[2]).queue, middle));
	ASSERT(follows(find(streams[2]).queue, start));
	ASSERT(!follows(find(streams[2]).queue, late));
	ASSERT(!follows(find(streams[3]).queue, start));
	ASSERT(!follows(find(streams[0]).queue, middle));
	ASSERT(follows(find(streams[0]).queue, late)); /* its own */
	/* What the one in the middle learns later is not known to who waited for it before. */
	follow(streams[1], late);
	ASSERT(!follows(find(streams[2]).queue, late));
	follow(streams[2], cn_cuda_end_span(find(streams[1]).queue));
	ASSERT(follows(find(streams[2]).queue, late));
	for (unsigned i = 0; i < 4; i++)
		end_stream(streams[i]);
}

TEST(streams_may_follow_each_other_in_a_circle)
{
	CUstream one = new_stream(), other = new_stream(), third = new_stream();

	for (unsigned i = 0; i < 1000; i++) { /* more than is kept */
		follow(one, cn_cuda_end_span(find(other).queue));
		follow(other, cn_cuda_end_span(find(one).queue));
	}
	ASSERT(follows(find(one).queue, (struct cn_point){find(other).queue, 1}));
	ASSERT(!follows(find(one).queue, cn_cuda_end_span(find(third).queue)));
	end_stream(one);
	end_stream(other);
	end_stream(third);
}

TEST(the_legacy_stream_and_blocking_ones_follow_each_other)
{
	CUstream apart = new_stream(), blocking;

	ASSERT_OK(DRIVER(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
	struct cn_point legacy = point_of(find(NULL)), point = point_of(find(blocking));
	ASSERT(follows(find(blocking).queue, legacy));
	ASSERT(follows(find(NULL).queue, point));
	ASSERT(follows(find(CU_STREAM_PER_THREAD).queue, legacy));
	ASSERT(!follows(find(blocking).queue, point_of(find(CU_STREAM_PER_THREAD))));
	ASSERT(!follows(find(apart).queue, legacy));
	ASSERT(!follows(find(NULL).queue, point_of(find(apart))));
	struct cn_queue *gone = find(blocking).queue;
	end_stream(blocking);
	ASSERT(!follows(find(NULL).queue, (struct cn_point){gone, point.number + 1}));
	end_stream(apart);
}

TEST(a_new_stream_follows_nothing_of_an_older_one)
{
	CUstream other = new_stream(), stream = new_stream();
	struct cn_queue *queue = find(stream).queue;
	struct cn_point point = cn_cuda_end_span(find(other).queue);

	follow(stream, point);
	end_stream(stream);
	for (unsigned i = 0; i < 1000; i++) {
		stream = new_stream();
		if (find(stream).queue == queue)
			break;
		end_stream(stream);
	}
	ASSERT_EQ(queue, find(stream).queue); /* the record is used again */
	ASSERT(!follows(queue, point));
	end_stream(stream);
	end_stream(other);
}

TEST(a_wait_for_another_process_is_known)
{
	CUstream one = new_stream(), other = new_stream();
	struct cn_point before = cn_cuda_end_span(find(one).queue);

	cn_cuda_waits_outside(find(one).queue);
	struct cn_point after = point_of(find(one));
	ASSERT(!cn_cuda_point_waits_outside(before));
	ASSERT(cn_cuda_point_waits_outside(after));
	struct cn_point of_other = point_of(find(other));
	ASSERT(!cn_cuda_point_waits_outside(of_other));
	follow(other, cn_cuda_end_span(find(one).queue));
	ASSERT(cn_cuda_point_waits_outside(point_of(find(other)))); /* by way of the first */
	cn_cuda_reached(cn_cuda_end_span(find(one).queue));
	ASSERT(!cn_cuda_point_waits_outside(point_of(find(one))));
	ASSERT(!cn_cuda_point_waits_outside(point_of(find(other))));
	end_stream(one);
	end_stream(other);
}

/* ---- Captures ---- */

TEST(the_legacy_stream_is_not_marked_during_a_capture)
{
	CUstream stream = new_stream();

	ASSERT(!cn_cuda_is_capturing(stream));
	cn_cuda_capture_began();
	ASSERT(!cn_cuda_is_capturing(stream)); /* the driver was asked, and says so */
	struct cn_point legacy = point_of(find(NULL)), point = point_of(find(stream));
	look_until(point);
	ASSERT(!seen_reached(legacy));
	cn_cuda_capture_ended();
	look_until(legacy);
	end_stream(stream);
}

/* ---- Pools ---- */

static unsigned asked_count;

static CUresult say_captured(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	(void)stream;
	asked_count++;
	*ret_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

/* Goal: an allocation waits for a free of which nobody can say yet whether it has happened. */
TEST(a_free_that_cannot_be_marked_is_waited_for)
{
	enum { CHUNK = 32 << 20, FEW = 20 };
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = CHUNK,
	};
	CUstream one = new_stream(), other = new_stream();
	CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus *) = cn_cuda.cuStreamIsCapturing;
	CUmemoryPool pool;
	CUdeviceptr at, again;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT_OK(cuMemAllocFromPoolAsync(&at, CHUNK, pool, one));
	ASSERT_OK(cuMemFreeAsync(at, one));
	cn_cuda.cuStreamIsCapturing = say_captured;
	cn_cuda_capture_began();
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cn_gpu_alloc_from_pool_async(&again, CHUNK, pool, other));
	ASSERT_GT(asked_count, FEW);
	cn_cuda_capture_ended();
	cn_cuda.cuStreamIsCapturing = is_capturing;
	ASSERT_OK(cn_gpu_alloc_from_pool_async(&again, CHUNK, pool, other));
	ASSERT_EQ(at, again);
	ASSERT_OK(cuMemFreeAsync(at, other));
	ASSERT_OK(cuMemPoolDestroy(pool));
	end_stream(one);
	end_stream(other);
}
