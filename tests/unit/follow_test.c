/* SPDX-License-Identifier: MIT */
/*
 * What a stream is ordered after: does the device know exactly that, no less and no more?
 *
 * First by scenes, with a pool that allows reuse only where there is an order: a block that comes back shows that the
 * order was seen, one that does not come back that none was made up. Then by random programs, held against a model that
 * gives every operation a vector clock. Marks are set in streams, and each stream is asked about each mark, whether or
 * not it has been reached.
 */
#include <pthread.h>

#include "driver/host/objects.h"
#include "gate.h"

enum {
	BYTES = 4096,
	CHAIN = 300, /* streams, one after the other */
	FAN = 1000,  /* streams that one waits for */
	POOLS_MAX = 4,
	BLOCKS_MAX = FAN,
	LINES = 7,
	PLACES_MAX = 16,
	EVENTS = 5,
	MARKS = 24,
	GATES_MAX = 3,
	REMEMBERED = 40, /* entries of a queue up to which none is left out, whatever the next operation adds */
	LONG_STEPS = 3000,
	THREADS = 3,
	SHARED_STREAMS = 5,
	THREAD_STEPS = 2000,
};

static CUdeviceptr word; /* written by all streams */

/* What the scenes have made and not given back. */
static struct {
	CUmemoryPool pools[POOLS_MAX];
	CUdeviceptr blocks[BLOCKS_MAX];
	unsigned pool_count, block_count;
} left;

SETUP
{
	context_current();
	ASSERT_OK(cuMemAlloc(&word, sizeof(uint32_t)));
}

/* ---- Scenes ----------------------------------------------------------------------------------------------------- */

/* A pool that follows events and does nothing else. */
static CUmemoryPool strict_pool(int follow)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemoryPool pool;
	int off = 0;

	ASSERT_LT(left.pool_count, POOLS_MAX);
	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	left.pools[left.pool_count++] = pool;
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
	return pool;
}

static CUstream stream_make(unsigned flags)
{
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, flags));
	return stream;
}

static CUevent event_make(void)
{
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static CUdeviceptr allocate(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr pointer;

	ASSERT_OK(cuMemAllocFromPoolAsync(&pointer, BYTES, pool, stream));
	return pointer;
}

/* The same for a block that stays to the end of the scene. */
static CUdeviceptr get(CUmemoryPool pool, CUstream stream)
{
	ASSERT_LT(left.block_count, BLOCKS_MAX);
	return left.blocks[left.block_count++] = allocate(pool, stream);
}

static void end_scene(void)
{
	ASSERT_OK(cuCtxSynchronize());
	while (left.block_count)
		ASSERT_OK(cuMemFree(left.blocks[--left.block_count]));
	while (left.pool_count)
		ASSERT_OK(cuMemPoolDestroy(left.pools[--left.pool_count]));
}

/* A block that the stream has used and freed. */
static CUdeviceptr freed_in(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr block = allocate(pool, stream);

	ASSERT_OK(cuMemsetD8Async(block, 1, BYTES, stream));
	ASSERT_OK(cuMemFreeAsync(block, stream));
	return block;
}

static void work_in(CUstream stream)
{
	ASSERT_OK(cuStreamWriteValue32(stream, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

/* `after` comes after all that `before` has been given. */
static void order(CUstream before, CUstream after)
{
	CUevent event = event_make();

	ASSERT_OK(cuEventRecord(event, before));
	ASSERT_OK(cuStreamWaitEvent(after, event, 0));
	ASSERT_OK(cuEventDestroy(event));
}

/* Goal: a wait that has nothing to wait for is an order all the same, and no wait is none. */
TEST(a_satisfied_wait_is_followed)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), second = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1), other_pool = strict_pool(0);
	CUdeviceptr block = freed_in(pool, first), other = freed_in(other_pool, first);

	ASSERT_OK(cuStreamQuery(first));
	ASSERT_NE(block, get(pool, second));
	order(first, second);
	ASSERT_EQ(block, get(pool, second));
	ASSERT_NE(other, get(other_pool, second)); /* which does not follow events */
	end_scene();
}

/* Goal: a stream that looks for memory does not make what it freed anybody's. */
TEST(looking_for_memory_orders_nobody)
{
	enum { LARGER_BYTES = 64 << 20 };
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), second = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	CUdeviceptr larger;

	CUdeviceptr block = freed_in(pool, first);
	ASSERT_OK(cuMemAllocFromPoolAsync(&larger, LARGER_BYTES, pool, first));
	ASSERT_OK(cuMemFreeAsync(larger, first));
	for (unsigned i = 0; i < 100; i++)
		ASSERT_NE(block, get(pool, second));
	end_scene();
}

/* Goal: a wait that is over long since, and behind which much has happened, is still an order. */
TEST(a_wait_that_is_over_is_followed)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), second = stream_make(CU_STREAM_NON_BLOCKING);
	CUstream third = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	struct gate gate = gate_make();

	gate_close(gate, first);
	CUdeviceptr block = freed_in(pool, first);
	order(first, second);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(second));
	for (unsigned i = 0; i < 1000; i++) {
		work_in(third);
		order(third, second);
		work_in(second);
	}
	ASSERT_EQ(block, get(pool, second));
	gate_free(gate);
	end_scene();
}

/* Goal: a wait is for the record that was the latest when it was called. */
TEST(a_later_record_does_not_count)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), early = stream_make(CU_STREAM_NON_BLOCKING);
	CUstream late = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	CUevent event = event_make();

	work_in(first);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(early, event, 0));
	CUdeviceptr block = freed_in(pool, first);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(late, event, 0));
	ASSERT_NE(block, get(pool, early));
	ASSERT_EQ(block, get(pool, late));
	ASSERT_OK(cuEventDestroy(event));
	end_scene();
}

/* What a stream does between two records of events: nothing but the wait. */
static void between(bool busy, unsigned flags)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), middle = stream_make(flags);
	CUstream before = stream_make(CU_STREAM_NON_BLOCKING), after = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	struct gate gate = gate_make();
	CUevent early = event_make(), late = event_make();

	work_in(middle);
	if (busy)
		gate_close(gate, middle);
	ASSERT_OK(cuEventRecord(early, middle));
	CUdeviceptr block = freed_in(pool, first);
	order(first, middle);
	ASSERT_OK(cuEventRecord(late, middle));
	ASSERT_OK(cuStreamWaitEvent(before, early, 0));
	ASSERT_OK(cuStreamWaitEvent(after, late, 0));
	ASSERT_NE(block, get(pool, before));
	ASSERT_EQ(block, get(pool, after));
	gate_open(gate);
	ASSERT_OK(cuEventDestroy(early));
	ASSERT_OK(cuEventDestroy(late));
	end_scene();
	gate_free(gate);
}

/* Goal: who waits for an event follows what its stream followed when it was recorded, and not what came later. */
TEST(an_event_knows_what_its_stream_followed_by_then)
{
	between(false, CU_STREAM_NON_BLOCKING);
	between(true, CU_STREAM_NON_BLOCKING);
	between(false, CU_STREAM_DEFAULT);
	between(true, CU_STREAM_DEFAULT);
}

/* Goal: what a stream follows later gives nothing to those who waited for it earlier, and takes nothing from them. */
TEST(a_later_wait_covers_no_earlier_event)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), middle = stream_make(CU_STREAM_NON_BLOCKING);
	CUstream last = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1), later_pool = strict_pool(1);

	CUdeviceptr early = freed_in(pool, first);
	order(first, middle);
	order(middle, last);
	CUdeviceptr late = freed_in(later_pool, first);
	order(first, middle);
	ASSERT_NE(late, get(later_pool, last));
	ASSERT_EQ(early, get(pool, last));
	end_scene();
}

static void chain(bool held)
{
	CUstream streams[CHAIN], outside = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	struct gate gate = gate_make();

	for (unsigned i = 0; i < CHAIN; i++)
		streams[i] = stream_make(CU_STREAM_NON_BLOCKING);
	if (held)
		gate_close(gate, streams[0]);
	CUdeviceptr block = freed_in(pool, streams[0]);
	for (unsigned i = 1; i < CHAIN; i++)
		order(streams[i - 1], streams[i]);
	ASSERT_ERROR(held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS, cuStreamQuery(streams[CHAIN - 1]));
	ASSERT_NE(block, get(pool, outside));
	ASSERT_EQ(block, get(pool, streams[CHAIN - 1]));
	ASSERT_ERROR(held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS, cuStreamQuery(streams[CHAIN - 1]));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	for (unsigned i = 0; i < CHAIN; i++)
		ASSERT_OK(cuStreamDestroy(streams[i]));
	gate_free(gate);
	end_scene();
}

/* Goal: a chain of waits is followed to its end, however many streams it goes through. */
TEST(a_long_chain_is_followed)
{
	chain(true);
	chain(false);
}

static void fan(bool held)
{
	static CUstream streams[FAN];
	static CUdeviceptr blocks[FAN];
	CUstream last = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	struct gate gate = gate_make();

	for (unsigned i = 0; i < FAN; i++) {
		streams[i] = stream_make(CU_STREAM_NON_BLOCKING);
		if (held)
			gate_close(gate, streams[i]);
		blocks[i] = freed_in(pool, streams[i]);
		order(streams[i], last);
	}
	for (unsigned i = 0; i < FAN; i++) {
		CUdeviceptr got = get(pool, last);
		unsigned whose = 0;
		while (blocks[whose] != got)
			ASSERT_LT(++whose, FAN);
		blocks[whose] = 0;
	}
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	for (unsigned i = 0; i < FAN; i++)
		ASSERT_OK(cuStreamDestroy(streams[i]));
	gate_free(gate);
	end_scene();
}

/* Goal: a stream that waits for many knows them all. */
TEST(many_streams_are_followed)
{
	fan(true);
	fan(false);
}

/* Goal: a chain leads through a stream that is gone, and who got its record has nothing of it. */
TEST(a_destroyed_stream_is_followed)
{
	CUstream first = stream_make(CU_STREAM_NON_BLOCKING), middle = stream_make(CU_STREAM_NON_BLOCKING);
	CUstream last = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	const struct cn_stream *record = cn_table_find(&cn_streams, middle);

	CUdeviceptr block = freed_in(pool, first);
	order(first, middle);
	order(middle, last);
	ASSERT_OK(cuStreamDestroy(middle));
	CUstream next = stream_make(CU_STREAM_NON_BLOCKING);
	ASSERT_EQ(record, cn_table_find(&cn_streams, next));
	ASSERT_NE(block, get(pool, next));
	order(stream_make(CU_STREAM_NON_BLOCKING), next);
	ASSERT_EQ(block, get(pool, last));
	end_scene();
}

/* Goal: the legacy stream stands between the blocking streams, also when it has nothing left to do. */
TEST(the_legacy_stream_is_followed)
{
	CUstream first = stream_make(CU_STREAM_DEFAULT), second = stream_make(CU_STREAM_DEFAULT);
	CUstream apart = stream_make(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool = strict_pool(1);
	CUevent early = event_make(), late = event_make();

	CUdeviceptr block = freed_in(pool, first);
	ASSERT_OK(cuEventRecord(early, second));
	ASSERT_NE(block, get(pool, second));
	work_in(NULL);
	ASSERT_OK(cuEventRecord(late, second));
	ASSERT_OK(cuStreamWaitEvent(apart, early, 0));
	ASSERT_NE(block, get(pool, apart));
	ASSERT_OK(cuStreamWaitEvent(apart, late, 0));
	ASSERT_EQ(block, get(pool, apart));
	block = freed_in(pool, first);
	ASSERT_OK(cuEventRecord(late, NULL)); /* an event of the legacy stream is as good as work */
	ASSERT_EQ(block, get(pool, second));
	block = freed_in(pool, first);
	ASSERT_EQ(block, get(pool, NULL));
	ASSERT_OK(cuEventDestroy(early));
	ASSERT_OK(cuEventDestroy(late));
	end_scene();
}

/* Goal: also through pending work of the legacy stream; and who waits for the stream waits for the block's free. */
TEST(a_block_had_by_the_legacy_order_is_waited_for)
{
	CUstream first = stream_make(CU_STREAM_DEFAULT), second = stream_make(CU_STREAM_DEFAULT);
	CUstream third = stream_make(CU_STREAM_DEFAULT);
	CUmemoryPool pool = strict_pool(1);
	struct gate gate = gate_make();

	CUdeviceptr legacys = allocate(pool, NULL);
	gate_close(gate, first);
	CUdeviceptr block = freed_in(pool, first);
	work_in(NULL);
	ASSERT_OK(cuStreamQuery(second));
	ASSERT_EQ(block, get(pool, second));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
	ASSERT_OK(cuMemFreeAsync(legacys, NULL));
	ASSERT_OK(cuStreamQuery(third));
	ASSERT_EQ(legacys, get(pool, third));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(third));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	gate_free(gate);
	end_scene();
}

/* ---- Random programs -------------------------------------------------------------------------------------------- */

enum rule { LEGACY, BLOCKING, APART };

/* What comes before: of each place, all up to a number. */
struct clock {
	uint32_t up_to[PLACES_MAX];
};

struct line {
	CUstream handle;
	struct cn_host_queue *queue;
	enum rule rule;
	unsigned place; /* in the clocks */
	struct clock clock;
};

struct mark {
	struct cn_point point;
	unsigned place;
	uint32_t number;
};

struct program {
	struct test_random random;
	struct line lines[LINES];
	unsigned places;
	CUevent events[EVENTS];
	struct clock event_clocks[EVENTS];
	struct mark marks[MARKS];
	unsigned mark_count;
	struct gate gates[GATES_MAX];
	unsigned gate_count;
	bool forgets; /* a queue may soon have to leave something out */
	bool twice;   /* a queue has served two streams, and is followed as the later one's when it is met as both */
	unsigned long followed, not_followed, forgotten;
};

static uint64_t below(struct program *program, uint64_t bound)
{
	return test_random_below(&program->random, bound);
}

static void join(struct clock *clock, const struct clock *other)
{
	for (unsigned i = 0; i < PLACES_MAX; i++)
		if (other->up_to[i] > clock->up_to[i])
			clock->up_to[i] = other->up_to[i];
}

/* What an operation given to this line now comes after. */
static struct clock now_on(const struct program *program, const struct line *line)
{
	struct clock clock = line->clock;

	for (unsigned i = 0; i < LINES; i++) {
		const struct line *other = &program->lines[i];
		if ((line->rule == LEGACY && other->rule == BLOCKING) ||
		    (line->rule == BLOCKING && other->rule == LEGACY))
			join(&clock, &other->clock);
	}
	return clock;
}

/* Count an operation of a line. */
static void issue(struct program *program, struct line *line)
{
	line->clock = now_on(program, line);
	line->clock.up_to[line->place]++;
	program->forgets |= line->queue->followed_count > REMEMBERED;
}

static void step_work(struct program *program, struct line *line)
{
	work_in(line->handle);
	issue(program, line);
}

static void step_mark(struct program *program, struct line *line)
{
	struct mark *mark = &program->marks[below(program, MARKS)];

	if (program->mark_count < MARKS)
		mark = &program->marks[program->mark_count++];
	step_work(program, line);
	*mark = (struct mark){
		{&line->queue->base, line->queue->base.submitted}, line->place, line->clock.up_to[line->place]};
}

static void step_record(struct program *program, unsigned event, struct line *line)
{
	ASSERT_OK(cuEventRecord(program->events[event], line->handle));
	issue(program, line);
	program->event_clocks[event] = line->clock;
}

static void step_wait(struct program *program, unsigned event, struct line *line)
{
	ASSERT_OK(cuStreamWaitEvent(line->handle, program->events[event], 0));
	issue(program, line);
	join(&line->clock, &program->event_clocks[event]);
}

static void step_gate(struct program *program, struct line *line)
{
	if (program->gate_count && (program->gate_count == GATES_MAX || below(program, 2))) {
		unsigned i = (unsigned)below(program, program->gate_count);
		struct gate gate = program->gates[i];
		gate_open(gate);
		program->gates[i] = program->gates[--program->gate_count];
	} else {
		struct gate *gate = &program->gates[program->gate_count++];
		*gate = gate_make(); /* freed with the process: a stream may be about to look at it */
		gate_close(*gate, line->handle);
		issue(program, line);
	}
}

static struct cn_host_queue *queue_of(CUstream handle)
{
	struct cn_place place;

	ASSERT_OK(cn_stream_find(handle, &place));
	return &place.stream->queue;
}

static void open_line(struct program *program, struct line *line, enum rule rule)
{
	*line = (struct line){.rule = rule, .place = program->places++};
	line->handle = stream_make(rule == APART ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
	line->queue = queue_of(line->handle);
}

/* A stream goes, whatever it has to do; another comes, perhaps with its queue, and has nothing of it. */
static void step_renew(struct program *program)
{
	struct line *line = &program->lines[2 + below(program, LINES - 2)];

	if (program->places == PLACES_MAX)
		return;
	/* The legacy stream comes after a blocking one while that is there; here it is made to. */
	if (line->rule == BLOCKING) {
		step_record(program, 0, line);
		step_wait(program, 0, &program->lines[0]);
	}
	ASSERT_OK(cuStreamDestroy(line->handle));
	for (unsigned i = 0; i < program->mark_count;)
		if (program->marks[i].place == line->place)
			program->marks[i] = program->marks[--program->mark_count];
		else
			i++;
	open_line(program, line, below(program, 2) ? APART : BLOCKING);
	program->twice |= line->queue->opened > 0;
}

static void step(struct program *program)
{
	struct line *line = &program->lines[below(program, LINES)];
	unsigned event = (unsigned)below(program, EVENTS);
	uint64_t choice = below(program, 100);

	if (choice < 15)
		step_work(program, line);
	else if (choice < 40)
		step_mark(program, line);
	else if (choice < 63)
		step_record(program, event, line);
	else if (choice < 88)
		step_wait(program, event, line);
	else if (choice < 97)
		step_gate(program, line);
	else
		step_renew(program);
}

/* Ask each stream about each mark. */
static void check(struct program *program)
{
	for (unsigned i = 0; i < LINES; i++) {
		const struct line *line = &program->lines[i];
		struct clock now = now_on(program, line);
		for (unsigned k = 0; k < program->mark_count; k++) {
			const struct mark *mark = &program->marks[k];
			if (mark->place == line->place)
				continue;
			bool ordered = now.up_to[mark->place] >= mark->number;
			struct cn_point relied_on;
			bool follows = cn_device_ops->queue_follows(&line->queue->base, mark->point, &relied_on);
			bool reached = cn_point_reached(mark->point); /* by now, perhaps not when it was asked */
			program->followed += follows;
			program->not_followed += !follows;
			program->forgotten += ordered && !follows;
			if (follows == ordered || (ordered && reached && (program->forgets || program->twice)))
				continue;
			FAIL("line %u %s mark %u of place %u (number %llu, %s), and the model says otherwise", i,
			     follows ? "follows" : "does not follow", k, mark->place,
			     (unsigned long long)mark->point.number, reached ? "reached" : "not reached");
		}
	}
}

static void program_begin(struct program *program, uint64_t number)
{
	memset(program, 0, sizeof *program);
	program->random = test_random_start(number);
	program->lines[0] = (struct line){.handle = CU_STREAM_LEGACY, .rule = LEGACY, .place = 0};
	program->lines[1] = (struct line){.handle = CU_STREAM_PER_THREAD, .rule = BLOCKING, .place = 1};
	program->lines[0].queue = queue_of(CU_STREAM_LEGACY);
	program->lines[1].queue = queue_of(CU_STREAM_PER_THREAD);
	program->places = 2;
	for (unsigned i = 2; i < LINES; i++)
		open_line(program, &program->lines[i], i & 1 ? APART : BLOCKING);
	/* Nothing is left of earlier programs; what their queues remember would be in the way. */
	for (unsigned i = 0; i < LINES; i++)
		program->lines[i].queue->followed_count = 0;
	for (unsigned i = 0; i < EVENTS; i++) {
		program->events[i] = event_make();
		step_record(program, i, &program->lines[2 + i % (LINES - 2)]);
	}
}

static void program_end(struct program *program)
{
	while (program->gate_count)
		gate_open(program->gates[--program->gate_count]);
	ASSERT_OK(cuCtxSynchronize());
	check(program);
	for (unsigned i = 2; i < LINES; i++)
		ASSERT_OK(cuStreamDestroy(program->lines[i].handle));
	for (unsigned i = 0; i < EVENTS; i++)
		ASSERT_OK(cuEventDestroy(program->events[i]));
}

/* Goal: as long as a queue has not had to remember too much, the answers are exactly the model's. */
TEST(what_is_followed_is_exact, .soak = true, .timeout_ms = 120000)
{
	struct program program;
	unsigned long followed = 0, not_followed = 0, forgotten = 0, rounds = 0, steps = 0;

	for (; soak_goes_on(rounds, 1000 / HARNESS_SLOWDOWN); rounds++) {
		program_begin(&program, rounds);
		for (; !program.forgets; steps++) {
			step(&program);
			check(&program);
		}
		program_end(&program);
		followed += program.followed;
		not_followed += program.not_followed;
		forgotten += program.forgotten;
	}
	printf("%lu rounds, %lu steps: %lu followed, %lu not, %lu of them forgotten\n", rounds, steps, followed,
	       not_followed, forgotten);
	ASSERT_GT(followed, 0);
	ASSERT_GT(not_followed, 0);
}

/* Goal: a queue with much to remember may forget an order that has done its work, and never makes one up. */
TEST(what_is_forgotten_is_never_made_up, .soak = true, .timeout_ms = 120000)
{
	struct program program;
	unsigned long followed = 0, forgotten = 0, rounds = 0;

	for (; soak_goes_on(rounds, 8 / HARNESS_SLOWDOWN); rounds++) {
		program_begin(&program, 1000000 + rounds);
		for (unsigned i = 0; i < LONG_STEPS / HARNESS_SLOWDOWN; i++) {
			step(&program);
			if (i % 8 == 0)
				check(&program);
		}
		program_end(&program);
		followed += program.followed;
		forgotten += program.forgotten;
	}
	printf("%lu rounds: %lu followed, %lu forgotten\n", rounds, followed, forgotten);
	ASSERT_GT(followed, forgotten);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

struct user {
	unsigned number;
	CUmemoryPool pool;
	CUstream *streams;
	CUevent *events;
	struct look {
		const unsigned char *at;
		unsigned char value;
	} looks[THREAD_STEPS];
};

static _Atomic unsigned looked;

static void CUDA_CB look_at(void *data)
{
	const struct look *look = data;

	for (unsigned i = 0; i < BYTES; i++)
		if (look->at[i] != look->value)
			FAIL("byte %u of a block is %u instead of its owner's %u", i, look->at[i], look->value);
	atomic_fetch_add(&looked, 1);
}

static void *use_streams(void *data)
{
	struct user *user = data;
	struct test_random random = test_random_start(user->number);
	CUcontext context;
	unsigned asked = 0;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < THREAD_STEPS / HARNESS_SLOWDOWN; i++) {
		CUstream stream = user->streams[test_random_below(&random, SHARED_STREAMS)];
		CUevent event = user->events[test_random_below(&random, EVENTS)];
		uint64_t choice = test_random_below(&random, 3);
		if (choice == 0) {
			ASSERT_OK(cuEventRecord(event, stream));
		} else if (choice == 1) {
			ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
		} else {
			CUdeviceptr block = allocate(user->pool, stream);
			struct look *look = &user->looks[asked++];
			*look = (struct look){(const unsigned char *)(uintptr_t)block,
					      (unsigned char)(i + user->number)};
			ASSERT_OK(cuMemsetD8Async(block, look->value, BYTES, stream));
			ASSERT_OK(cuLaunchHostFunc(stream, look_at, look));
			ASSERT_OK(cuMemFreeAsync(block, stream));
		}
	}
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return (void *)(uintptr_t)asked;
}

/* Goal: threads that record, wait, allocate and free in the same streams do not get each other's blocks. */
TEST(threads_share_streams)
{
	static struct user users[THREADS];
	CUstream streams[SHARED_STREAMS] = {NULL};
	CUevent events[EVENTS];
	pthread_t threads[THREADS];
	uintptr_t asked = 0;
	void *count;

	for (unsigned i = 1; i < SHARED_STREAMS; i++) /* the first is the legacy stream */
		streams[i] = stream_make(i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
	for (unsigned i = 0; i < EVENTS; i++)
		events[i] = event_make();
	CUmemoryPool pool = strict_pool(1);
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){.number = i, .pool = pool, .streams = streams, .events = events};
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, use_streams, &users[i]));
	}
	for (unsigned i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &count));
		asked += (uintptr_t)count;
	}
	end_scene();
	ASSERT_EQ(asked, looked);
}
