/* SPDX-License-Identifier: MIT */
/*
 * Notes of streams of a driver's, and how streams, threads and contexts end.
 */
#include <dirent.h>

#include "asleep.h"
#include "cuda_stream.h"
#include "device/cuda/cuda_internal.h"

static CUcontext primary;

SETUP
{
	primary = driver_start();
}

/* ---- Notes ---- */

enum { NOTES = 500 };

struct notebook {
	int pipe[2];
	_Atomic unsigned runs[NOTES];
	_Atomic unsigned total;
};

static void write_down(void *object, uint64_t number)
{
	struct notebook *notebook = object;
	char byte = 0;

	atomic_fetch_add(&notebook->runs[number], 1);
	atomic_fetch_add(&notebook->total, 1);
	ASSERT_EQ(1, write(notebook->pipe[1], &byte, 1));
}

static void open_notebook(struct notebook *ret_notebook)
{
	*ret_notebook = (struct notebook){.pipe = {-1, -1}};
	ASSERT_SYS(pipe(ret_notebook->pipe));
}

static void close_notebook(struct notebook *notebook)
{
	close(notebook->pipe[0]);
	close(notebook->pipe[1]);
}

static CUresult note(struct cn_cuda_place place, struct notebook *notebook, unsigned number)
{
	return cn_cuda_queue_note(place.queue, place.owner, write_down, notebook, number);
}

/* The notes tell: nobody has to look. */
static void await_notes(struct notebook *notebook, unsigned count)
{
	char byte;

	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(1, read(notebook->pipe[0], &byte, 1));
}

/* How often threads of this process have gone to sleep so far. */
static uint64_t count_sleeps(void)
{
	DIR *folder = opendir("/proc/self/task");
	uint64_t sum = 0;

	ASSERT(folder);
	for (const struct dirent *entry; (entry = readdir(folder));) {
		char path[300], text[4096];
		snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
		FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
		text[length] = 0;
		const char *line = strstr(text, "\nvoluntary_ctxt_switches:");
		sum += line ? strtoull(strchr(line, ':') + 1, NULL, 10) : 0;
		if (file)
			fclose(file);
	}
	closedir(folder);
	return sum;
}

/* Until other threads sleep for good, as far as can be seen from outside. (ThreadSanitizer has one that never does.) */
static void wait_for_quiet(void)
{
	uint64_t sleeps = count_sleeps();

	for (unsigned round = 0, same = 0; round < 5000 && same < 200; round++) {
		uint64_t now = count_sleeps();
		same = now == sleeps ? same + 1 : 0;
		sleeps = now;
	}
}

TEST(notes_come_by_themselves_and_once)
{
	static struct notebook notebook;
	CUstream stream = new_stream();
	struct driver_gate gate = driver_gate_close(stream);

	open_notebook(&notebook);
	for (unsigned i = 0; i < NOTES; i++)
		ASSERT_OK(note(find(stream), &notebook, i));
	ASSERT(!seen_reached(point_of(find(stream))));
	ASSERT_EQ(0, notebook.total);
	driver_gate_open(gate);
	await_notes(&notebook, NOTES);
	/* Whether the thread that looks is asleep by then or not: it hears of further ones. */
	wait_for_quiet();
	for (unsigned i = 0; i < NOTES; i++) {
		ASSERT_OK(note(find(stream), &notebook, i));
		await_notes(&notebook, 1);
	}
	for (unsigned i = 0; i < NOTES; i++)
		ASSERT_EQ(2, notebook.runs[i]);
	end_stream(stream);
	driver_gate_free(gate);
	close_notebook(&notebook);
}

/* Has the driver been given an event behind the point? */
static bool is_marked(struct cn_point point)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(point.queue);

	cn_driver_lock(&stream->lock);
	bool marked = cn_cuda_is_covered(stream, point.number);
	cn_driver_unlock(&stream->lock);
	return marked;
}

TEST(a_note_comes_in_the_order_of_its_stream)
{
	static struct notebook notebook;
	CUstream stream = new_stream();

	open_notebook(&notebook);
	struct driver_gate first = driver_gate_close(stream);
	struct cn_point point = point_of(find(stream));
	ASSERT_OK(note(find(stream), &notebook, 0));
	while (!is_marked(point)) /* until there is a mark between the notes */
		sched_yield();
	struct driver_gate second = driver_gate_close(stream);
	ASSERT_OK(note(find(stream), &notebook, 1));
	driver_gate_open(first);
	await_notes(&notebook, 1);
	ASSERT_EQ(1, notebook.runs[0]);
	ASSERT_EQ(0, notebook.runs[1]);
	driver_gate_open(second);
	await_notes(&notebook, 1);
	ASSERT_EQ(1, notebook.runs[1]);
	end_stream(stream);
	driver_gate_free(first);
	driver_gate_free(second);
	close_notebook(&notebook);
}

TEST(notes_have_been_run_when_a_wait_is_over)
{
	static struct notebook notebook;
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);

	open_notebook(&notebook);
	for (unsigned round = 0; round < NOTES; round++) {
		ASSERT_OK(note(place, &notebook, round));
		struct cn_point point = cn_cuda_end_span(place.queue);
		ASSERT_OK(DRIVER(cuStreamSynchronize)(stream));
		cn_cuda_reached(point);
		ASSERT_EQ(round + 1, notebook.total);
		ASSERT_EQ(1, notebook.runs[round]);
	}
	end_stream(stream);
	close_notebook(&notebook);
}

struct slow_note {
	pid_t waiter;
	_Atomic bool begun, done;
};

/* It takes until the thread that waits for it is asleep. */
static void be_slow(void *object, uint64_t number)
{
	struct slow_note *slow = object;

	(void)number;
	atomic_store(&slow->begun, true);
	while (!is_asleep(slow->waiter))
		sched_yield();
	atomic_store(&slow->done, true);
}

TEST(a_wait_is_not_over_while_a_note_runs)
{
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct slow_note slow = {.waiter = gettid()};

	ASSERT_OK(cn_cuda_queue_note(place.queue, place.owner, be_slow, &slow, 0));
	while (!atomic_load(&slow.begun))
		sched_yield();
	cn_cuda_reached(cn_cuda_end_span(place.queue));
	ASSERT(atomic_load(&slow.done));
	end_stream(stream);
}

TEST(a_destroyed_streams_notes_still_come)
{
	static struct notebook notebook;
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct driver_gate gate = driver_gate_close(stream);

	open_notebook(&notebook);
	ASSERT_OK(note(place, &notebook, 0));
	end_stream(stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, note(place, &notebook, 1));
	ASSERT_EQ(0, notebook.total);
	driver_gate_open(gate);
	await_notes(&notebook, 1);
	driver_gate_free(gate);
	close_notebook(&notebook);
}

/* ---- Streams that end ---- */

TEST(a_destroyed_stream_is_not_found)
{
	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream), other;
	struct cn_point point = point_of(place);

	end_stream(stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_find(stream, &other));
	ASSERT_EQ(NULL, cn_cuda_known(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_point_now(place.queue, place.owner, &point));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_destroy(stream, destroy_by_driver));
	look_until(point);
	/* One that no pool had seen, too. */
	stream = new_stream();
	end_stream(stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_find(stream, &other));
}

/* The tests' driver does not give a handle out again, as others do; so the device is told that it has. */
TEST(a_handle_that_is_given_out_again_is_another_stream)
{
	driver_record_all_by(NULL);

	CUstream stream = new_stream();
	struct cn_cuda_place place = find(stream);
	struct driver_gate gate = driver_gate_close(stream);
	struct cn_point point = point_of(place);

	cn_cuda_created(stream); /* nobody has seen the older one go */
	struct cn_cuda_place again = find(stream);
	ASSERT_NE(place.queue, again.queue);
	ASSERT_NE(place.owner, again.owner);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_point_now(place.queue, place.owner, NULL));
	struct cn_point later = point_of(again);
	ASSERT(!seen_reached(later));
	driver_gate_open(gate);
	look_until(later);
	/* Nothing can be asked about the older one, but all of its context. */
	ASSERT(!seen_reached(point));
	end_stream(stream);
	driver_gate_free(gate);
}

static CUresult refuse(CUstream stream)
{
	(void)stream;
	return CUDA_ERROR_NOT_PERMITTED;
}

TEST(a_stream_that_the_driver_does_not_destroy_lives_on)
{
	CUstream stream = new_stream(), unseen = new_stream();
	struct cn_cuda_place place = find(stream);

	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cn_cuda_destroy(stream, refuse));
	ASSERT_EQ(place.owner, find(stream).owner);
	look_until(point_of(place));
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cn_cuda_destroy(unseen, refuse));
	look_until(point_of(find(unseen)));
	end_stream(stream);
	end_stream(unseen);
}

TEST(a_record_waits_for_its_streams_end_before_it_serves_another)
{
	CUstream stream = new_stream();
	struct cn_queue *queue = find(stream).queue;
	struct driver_gate gate = driver_gate_close(stream);
	struct cn_point point = point_of(find(stream));
	bool again = false;

	end_stream(stream);
	for (unsigned i = 0; i < 100; i++) {
		stream = new_stream();
		ASSERT_NE(queue, find(stream).queue);
		end_stream(stream);
	}
	ASSERT(!cn_point_reached(point));
	driver_gate_open(gate);
	look_until(point);
	for (unsigned i = 0; i < 1000 && !again; i++) {
		stream = new_stream();
		again = find(stream).queue == queue;
		if (again)
			ASSERT_GT(point_of(find(stream)).number, point.number);
		end_stream(stream);
	}
	ASSERT(again);
	driver_gate_free(gate);
}

/* ---- Threads ---- */

struct worker {
	struct cn_cuda_place place;
	struct cn_point point;
	struct driver_gate gate;
	struct notebook *notebook;
};

static void *work_in_own_stream(void *data)
{
	struct worker *worker = data;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(primary));
	worker->place = find(CU_STREAM_PER_THREAD);
	worker->gate = driver_gate_close(CU_STREAM_PER_THREAD);
	worker->point = point_of(worker->place);
	if (worker->notebook)
		ASSERT_OK(note(worker->place, worker->notebook, 0));
	return NULL;
}

static void run_worker(struct worker *worker)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, work_in_own_stream, worker));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static void end_span(struct cn_queue *queue, void *data)
{
	struct cn_point **at = data;

	*(*at)++ = cn_cuda_end_span(queue);
}

static void synchronise(CUcontext context)
{
	struct cn_point points[64], *end = points;

	cn_cuda_each_of_context(context, end_span, &end);
	ASSERT_OK(cn_cuda.cuCtxSynchronize());
	while (end > points)
		cn_cuda_reached(*--end);
}

TEST(each_thread_has_its_own_stream)
{
	driver_record_all_by(NULL);

	struct worker worker = {.notebook = NULL};
	struct cn_cuda_place own = find(CU_STREAM_PER_THREAD);

	run_worker(&worker);
	ASSERT_NE(own.queue, worker.place.queue);
	ASSERT_EQ(own.queue, find(CU_STREAM_PER_THREAD).queue);
	/* The thread is gone: such a driver cannot be asked about its stream, but a wait for the context covers it. */
	ASSERT(!seen_reached(worker.point));
	driver_gate_open(worker.gate);
	ASSERT_OK(cn_cuda.cuCtxSynchronize());
	ASSERT(!seen_reached(worker.point));
	synchronise(primary);
	ASSERT(cn_point_reached(worker.point));
	driver_gate_free(worker.gate);
}

TEST(the_notes_of_a_thread_that_is_gone_come)
{
	static struct notebook notebook;
	struct worker worker = {.notebook = &notebook};

	open_notebook(&notebook);
	run_worker(&worker);
	ASSERT_EQ(0, notebook.total);
	driver_gate_open(worker.gate);
	await_notes(&notebook, 1);
	ASSERT(cn_point_reached(worker.point));
	driver_gate_free(worker.gate);
	close_notebook(&notebook);
}

struct pair_of_threads {
	pthread_barrier_t barrier;
	struct cn_point point;
	struct driver_gate gate;
};

static void *stay_with_own_stream(void *data)
{
	struct pair_of_threads *pair = data;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(primary));
	pair->gate = driver_gate_close(CU_STREAM_PER_THREAD);
	pair->point = point_of(find(CU_STREAM_PER_THREAD));
	pthread_barrier_wait(&pair->barrier);
	pthread_barrier_wait(&pair->barrier);
	return NULL;
}

TEST(another_threads_stream_can_be_looked_at)
{
	struct pair_of_threads pair;
	pthread_t thread;

	pthread_barrier_init(&pair.barrier, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, stay_with_own_stream, &pair));
	pthread_barrier_wait(&pair.barrier);
	ASSERT(!seen_reached(pair.point));
	driver_gate_open(pair.gate);
	look_until(pair.point);
	pthread_barrier_wait(&pair.barrier);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	driver_gate_free(pair.gate);
	pthread_barrier_destroy(&pair.barrier);
}

/* In the place of cuCtxRecordEvent(), which not every driver has: a stream stands for all that the context does. */
static struct {
	CUstream stream;
	_Atomic unsigned count;
} whole;

static CUresult record_whole(void *context, CUevent event)
{
	ASSERT_EQ(primary, context);
	whole.count++;
	return DRIVER(cuEventRecord)(event, whole.stream);
}

/* The context has not done all before the gate is open. */
static void have_wide_marks(struct driver_gate gate)
{
	CUdeviceptr word = (CUdeviceptr)(uintptr_t)gate.word;

	if (!whole.stream)
		whole.stream = new_stream();
	ASSERT_OK(DRIVER(cuStreamWaitValue32)(whole.stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	if (!cn_cuda_record_all)
		driver_record_all_by(record_whole);
}

/* Goal: a look at how far another thread's stream is puts nothing between the streams of the program. */
TEST(a_look_at_another_threads_stream_stops_nobody)
{
	static _Atomic uint64_t done;
	struct pair_of_threads pair;
	CUstream blocking;
	pthread_t thread;

	pthread_barrier_init(&pair.barrier, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, stay_with_own_stream, &pair));
	pthread_barrier_wait(&pair.barrier);
	have_wide_marks(pair.gate);
	ASSERT_OK(DRIVER(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
	ASSERT(!seen_reached(pair.point));
	ASSERT_OK(DRIVER(cuLaunchHostFunc)(blocking, do_work, &done));
	ASSERT_OK(DRIVER(cuStreamSynchronize)(blocking));
	ASSERT_EQ(1, done);
	driver_gate_open(pair.gate);
	look_until(pair.point);
	pthread_barrier_wait(&pair.barrier);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_OK(DRIVER(cuStreamDestroy)(blocking));
	end_stream(whole.stream);
	driver_gate_free(pair.gate);
	pthread_barrier_destroy(&pair.barrier);
}

/* Goal: what a thread freed in its own stream, and ended, comes to others, and not before it has happened. */
TEST(a_stream_that_went_with_its_thread_can_be_looked_at)
{
	struct worker worker = {.notebook = NULL};

	run_worker(&worker);
	have_wide_marks(worker.gate);
	cn_cuda_capture_began(); /* which an event of the whole context would end */
	ASSERT(!seen_reached(worker.point));
	ASSERT_EQ(0, whole.count);
	cn_cuda_capture_ended();
	ASSERT(!seen_reached(worker.point));
	driver_gate_open(worker.gate);
	look_until(worker.point);
	/* It serves the next thread. */
	struct worker next = {.notebook = NULL};
	run_worker(&next);
	have_wide_marks(next.gate);
	ASSERT(!seen_reached(next.point));
	driver_gate_open(next.gate);
	look_until(next.point);
	end_stream(whole.stream);
	driver_gate_free(worker.gate);
	driver_gate_free(next.gate);
}

/* ---- Contexts ---- */

TEST(a_context_that_ends_takes_its_streams_along)
{
	static struct notebook notebook;
	struct cn_cuda_place place;
	CUcontext context;
	CUstream stream;

	open_notebook(&notebook);
	ASSERT_OK(DRIVER(cuCtxCreate)(&context, NULL, 0, 0));
	ASSERT_OK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	struct driver_gate gate = driver_gate_close(stream);
	struct cn_cuda_place old = find(stream), legacy = find(NULL);
	struct cn_point points[] = {point_of(old), point_of(legacy), point_of(find(CU_STREAM_PER_THREAD))};
	ASSERT_OK(note(old, &notebook, 0));
	ASSERT(!seen_reached(points[0]));

	uint64_t life = cn_cuda_context_ending(context);
	driver_gate_open(gate); /* not before: the notes' thread may look between the two */
	ASSERT_OK(cn_cuda.cuCtxSynchronize());
	ASSERT(!seen_reached(points[0])); /* it is left alone */
	ASSERT_OK(DRIVER(cuCtxDestroy)(context));
	cn_cuda_context_over(context, life);
	for (unsigned i = 0; i < 3; i++)
		ASSERT(cn_point_reached(points[i]));
	await_notes(&notebook, 1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_find(stream, &place));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_cuda_point_now(legacy.queue, legacy.owner, NULL));

	/* Its records serve the next one, as new. */
	ASSERT_OK(DRIVER(cuCtxCreate)(&context, NULL, 0, 0));
	struct cn_point point = point_of(find(NULL));
	for (unsigned i = 0; i < 3; i++)
		ASSERT(point.queue != points[i].queue || point.number > points[i].number);
	look_until(point);
	life = cn_cuda_context_ending(context);
	ASSERT_OK(DRIVER(cuCtxDestroy)(context));
	cn_cuda_context_over(context, life);
	close_notebook(&notebook);
}

TEST(a_context_that_stays_is_looked_at_again)
{
	CUstream stream = new_stream();
	struct cn_point point = point_of(find(stream));

	uint64_t life = cn_cuda_context_ending(primary);
	ASSERT(!seen_reached(point));
	cn_cuda_context_stays(primary, life);
	look_until(point);
	end_stream(stream);
}

TEST(a_context_is_left_alone_until_the_last_call_that_may_end_it)
{
	CUstream stream = new_stream();
	struct cn_point point = point_of(find(stream));

	uint64_t first = cn_cuda_context_ending(primary), second = cn_cuda_context_ending(primary);
	cn_cuda_context_stays(primary, first);
	ASSERT(!seen_reached(point));
	cn_cuda_context_stays(primary, second);
	look_until(point);
	end_stream(stream);
}

struct finder {
	pid_t thread;
	_Atomic int state; /* 0: not there yet, 1: looking, 2: done */
	struct cn_cuda_place place;
};

static void *find_legacy(void *data)
{
	struct finder *finder = data;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(primary));
	finder->thread = gettid();
	atomic_store(&finder->state, 1);
	finder->place = find(NULL);
	atomic_store(&finder->state, 2);
	return NULL;
}

/* Goal: what is known of a context that has ended is not taken for that of a new one with its handle. */
TEST(a_context_that_has_the_handle_of_one_that_ends)
{
	struct cn_cuda_place old = find(NULL);
	struct finder finder = {.state = 0};
	CUcontext again;
	pthread_t thread;

	uint64_t life = cn_cuda_context_ending(primary);
	ASSERT_OK(DRIVER(cuDevicePrimaryCtxReset)(0));
	ASSERT_OK(DRIVER(cuDevicePrimaryCtxRetain)(&again, 0));
	ASSERT_OK(DRIVER(cuDevicePrimaryCtxRelease)(0));
	ASSERT_EQ(primary, again);
	ASSERT_EQ(0, pthread_create(&thread, NULL, find_legacy, &finder));
	while (atomic_load(&finder.state) == 0 || (atomic_load(&finder.state) == 1 && !is_asleep(finder.thread)))
		sched_yield();
	cn_cuda_context_over(primary, life);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT(!cn_cuda_place_stands(&old));
	ASSERT(cn_cuda_place_stands(&finder.place));
	cn_cuda_context_over(primary, life); /* another thread has seen the same end, and comes late */
	cn_cuda_context_stays(primary, life);
	ASSERT(cn_cuda_place_stands(&finder.place));
	look_until(point_of(finder.place));
}

struct latecomer {
	CUcontext context;
	CUstream stream;
	CUresult result;
};

static void *find_late(void *data)
{
	struct latecomer *latecomer = data;
	struct cn_cuda_place place;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(latecomer->context));
	latecomer->result = cn_cuda_find(latecomer->stream, &place);
	return NULL;
}

static struct cn_cuda_stream *spare_of(struct cn_cuda_context *context)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_stream *spare = context->spare;
	cn_unlock(&cn_cuda_table_lock);
	return spare;
}

/* Goal: a record that a thread has taken for a stream while the context ended serves one stream after that, not two. */
TEST(a_record_in_hand_when_its_context_ends)
{
	enum { STREAMS = 4 };
	struct latecomer latecomer;
	struct cn_cuda_place places[STREAMS];
	CUstream streams[STREAMS];
	pthread_t thread;

	ASSERT_OK(DRIVER(cuCtxCreate)(&latecomer.context, NULL, 0, 0));
	for (unsigned i = 0; i < STREAMS; i++) {
		streams[i] = new_stream();
		look_until(point_of(find(streams[i])));
	}
	struct cn_cuda_context *context = cn_cuda_stream_of(find(streams[0]).queue)->context;
	for (unsigned i = 0; i < STREAMS; i++)
		end_stream(streams[i]);
	latecomer.stream = new_stream();
	find(latecomer.stream); /* looks at those that are gone, and takes one */
	struct cn_cuda_stream *spare = spare_of(context);
	ASSERT(spare && spare->next_in_list);
	latecomer.stream = new_stream();

	cn_quick_lock_take(&spare->followed_lock.bare); /* where the record is about to be opened */
	ASSERT_EQ(0, pthread_create(&thread, NULL, find_late, &latecomer));
	while (spare_of(context) == spare)
		sched_yield();
	uint64_t life = cn_cuda_context_ending(latecomer.context);
	ASSERT_OK(DRIVER(cuCtxDestroy)(latecomer.context));
	cn_cuda_context_over(latecomer.context, life);
	cn_quick_lock_drop(&spare->followed_lock.bare);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, latecomer.result);

	ASSERT_OK(DRIVER(cuCtxCreate)(&latecomer.context, NULL, 0, 0));
	for (unsigned i = 0; i < STREAMS; i++) {
		streams[i] = new_stream();
		places[i] = find(streams[i]);
		ASSERT_EQ(context, cn_cuda_stream_of(places[i].queue)->context);
		for (unsigned j = 0; j < i; j++)
			ASSERT(places[j].queue != places[i].queue);
	}
	life = cn_cuda_context_ending(latecomer.context);
	ASSERT_OK(DRIVER(cuCtxDestroy)(latecomer.context));
	cn_cuda_context_over(latecomer.context, life);
}

/* ---- All at once ---- */

enum { RACERS = 4, RACE_ROUNDS = 400 / HARNESS_SLOWDOWN };

struct race {
	_Atomic(struct cn_queue *)
		shown; /* a queue that another thread may look at, whatever has become of its stream */
	_Atomic unsigned noted, ran;
	_Atomic uint64_t done[RACERS];
};

static void count_run(void *object, uint64_t number)
{
	struct race *race = object;

	(void)number;
	atomic_fetch_add(&race->ran, 1);
}

struct racer {
	struct race *race;
	unsigned place;
};

/* Streams come, work, free and go, while others look at them and wait for them. */
static void *race_along(void *data)
{
	struct racer *racer = data;
	struct race *race = racer->race;
	_Atomic uint64_t *done = &race->done[racer->place];
	struct test_random generator = test_random_start(racer->place);

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(primary));
	for (uint64_t round = 0, work = 0; round < RACE_ROUNDS; round++) {
		CUstream stream = new_stream();
		struct cn_cuda_place place = find(stream);
		for (uint64_t i = test_random_below(&generator, 4); i > 0; i--, work++)
			ASSERT_OK(DRIVER(cuLaunchHostFunc)(stream, do_work, done));
		struct cn_point point = point_of(place);
		if (test_random_below(&generator, 2)) {
			ASSERT_OK(cn_cuda_queue_note(place.queue, place.owner, count_run, race, round));
			atomic_fetch_add(&race->noted, 1);
		}
		struct cn_queue *shown = atomic_exchange(&race->shown, place.queue);
		if (shown) {
			struct cn_point other = {shown, atomic_load(&shown->submitted)}, relied_on;
			cn_cuda_queue_look(shown);
			cn_cuda_queue_follows(place.queue, other, &relied_on);
			cn_cuda_point_waits_outside(other);
			/* May be refused: the other stream may be gone in any way. */
			wait_for(stream, other);
		}
		if (test_random_below(&generator, 2))
			cn_cuda_queue_look(place.queue);
		end_stream(stream);
		look_until(point);
		ASSERT_GE(atomic_load(done), work);
	}
	return NULL;
}

TEST(streams_come_and_go_in_all_threads, .timeout_ms = 120000)
{
	static struct race race;
	pthread_t threads[RACERS];
	struct racer racers[RACERS];

	for (unsigned i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){&race, i};
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, race_along, &racers[i]));
	}
	for (unsigned i = 0; i < RACERS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	while (atomic_load(&race.ran) < atomic_load(&race.noted))
		sched_yield();
	ASSERT_EQ(race.noted, race.ran);
}
