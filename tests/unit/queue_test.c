/* SPDX-License-Identifier: MIT */
/*
 * Queues of the host device, below streams and events: numbers, points, owners, failures.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/host/host_internal.h"
#include "harness.h"

/* Owners stand for handles of streams: any number but 0. */
enum { OWNER = 7, NEXT_OWNER = 8 };

static struct cn_host_queue queue, other, legacy_queue;
static struct cn_host_group group = {.legacy = &legacy_queue};

static void nothing(void *data)
{
	(void)data;
}

static void count_call(void *counter)
{
	atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

static struct cn_operation host_call(void (*function)(void *), void *data)
{
	return (struct cn_operation){.kind = CN_OPERATION_HOST_CALL, .host_call = {function, data}};
}

static struct cn_point submit(struct cn_host_queue *to, const struct cn_operation *operation)
{
	struct cn_point point;

	ASSERT_OK(cn_host_queue_submit(to, OWNER, operation, &point));
	return point;
}

/* A word that a queue waits for. */
static _Atomic uint32_t gate;

static void close_gate(struct cn_host_queue *to)
{
	struct cn_operation wait = {.kind = CN_OPERATION_WAIT_VALUE,
				    .wait_value = {.address = &gate, .value = 1, .bytes = 4}};

	submit(to, &wait);
}

static void wait_for_all(struct cn_host_queue *which)
{
	cn_host_point_wait((struct cn_point){&which->base, which->base.submitted});
}

static void close_and_drain(struct cn_host_queue *which)
{
	cn_host_queue_close(which);
	wait_for_all(which);
	while (!cn_host_queue_drained(which)) /* the last operation may be on its way out */
		sched_yield();
}

TEST(short_operations_on_an_idle_queue_have_happened_on_return)
{
	char from[64] = "water", to[64] = "";
	uint32_t word = 0;
	struct cn_operation copy = {.kind = CN_OPERATION_COPY,
				    .copy = {.to = to, .from = from, .row_bytes = 64, .row_count = 1}};
	struct cn_operation fill = {
		.kind = CN_OPERATION_FILL,
		.fill = {.to = from, .row_elements = 8, .row_count = 1, .value = 'x', .element_bytes = 1}};
	struct cn_operation write = {.kind = CN_OPERATION_WRITE_VALUE,
				     .write_value = {.address = &word, .value = 9, .bytes = 4}};

	cn_host_queue_open(&queue, NULL, OWNER);
	ASSERT_EQ(1, submit(&queue, &copy).number);
	ASSERT_STREQ("water", to);
	ASSERT_EQ(2, submit(&queue, &fill).number);
	ASSERT_MEMEQ("xxxxxxxx", from, 8);
	ASSERT_EQ(3, submit(&queue, &write).number);
	ASSERT_EQ(9, word);
	ASSERT_EQ(3, queue.base.completed);
	ASSERT(cn_queue_idle(&queue.base));
	close_and_drain(&queue);
}

/* Goal: numbers go on when a queue serves another owner, so that an old point stays reached. */
TEST(points_outlive_owners)
{
	struct cn_operation call = host_call(nothing, NULL);
	struct cn_point old, fresh;

	cn_host_queue_open(&queue, NULL, OWNER);
	old = submit(&queue, &call);
	close_and_drain(&queue);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_queue_submit(&queue, OWNER, &call, NULL));
	cn_host_queue_open(&queue, NULL, NEXT_OWNER);
	atomic_store(&gate, 0);
	struct cn_operation wait = {.kind = CN_OPERATION_WAIT_VALUE,
				    .wait_value = {.address = &gate, .value = 1, .bytes = 4}};
	ASSERT_OK(cn_host_queue_submit(&queue, NEXT_OWNER, &wait, &fresh));
	ASSERT_GT(fresh.number, old.number);
	ASSERT(cn_point_reached(old));
	ASSERT(!cn_point_reached(fresh));
	cn_host_point_wait(old);
	atomic_store(&gate, 1);
	cn_host_point_wait(fresh);
	close_and_drain(&queue);
}

/* Goal: a queue accepts work only from its owner, none when it is closed, and is then left as it is. */
TEST(a_queue_knows_its_owner)
{
	struct cn_operation call = host_call(nothing, NULL);
	struct cn_point point = {&other.base, 77};

	atomic_store(&gate, 0);
	cn_host_queue_open(&legacy_queue, &group, OWNER);
	cn_host_queue_open(&queue, &group, OWNER);
	close_gate(&legacy_queue); /* so that a submission to the other would need a wait in it */
	uint64_t submitted = queue.base.submitted;
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_queue_submit(&queue, NEXT_OWNER, &call, &point));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_point_now(&queue.base, NEXT_OWNER, &point));
	cn_host_queue_close(&queue);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_queue_submit(&queue, OWNER, &call, &point));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_point_now(&queue.base, OWNER, &point));
	/* A handle that has just become 0 is no owner of a closed queue. */
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_queue_submit(&queue, 0, &call, &point));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_point_now(&queue.base, 0, &point));
	ASSERT_EQ(submitted, queue.base.submitted);
	ASSERT(!queue.first);
	ASSERT(cn_host_queue_drained(&queue));
	ASSERT_EQ(&other.base, point.queue);
	ASSERT_EQ(77, point.number);

	cn_host_queue_open(&other, &group, OWNER); /* busy, so that the closed legacy queue would have to wait for it */
	atomic_store(&gate, 1);
	wait_for_all(&legacy_queue);
	atomic_store(&gate, 0);
	close_gate(&other);
	cn_host_queue_close(&legacy_queue);
	submitted = legacy_queue.base.submitted;
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_queue_submit(&legacy_queue, OWNER, &call, &point));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_point_now(&legacy_queue.base, OWNER, &point));
	ASSERT_EQ(submitted, legacy_queue.base.submitted);
	ASSERT(!legacy_queue.first);
	atomic_store(&gate, 1);
	close_and_drain(&other);
	ASSERT(cn_host_queue_drained(&legacy_queue));
}

static CUresult told = CUDA_ERROR_UNKNOWN;

static void be_told(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)data;
	told = status;
}

/*
 * Goal: after a failure only callbacks run, which get the status; waits do not hold up, and the queue comes to rest.
 */
TEST(what_follows_a_failure_is_skipped)
{
	void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	_Atomic unsigned calls = 0;
	char to[64] = "dry";
	struct cn_operation bad = {
		.kind = CN_OPERATION_COPY,
		.copy = {.to = to, .from = hole, .row_bytes = 64, .row_count = 1, .from_foreign = true}};
	struct cn_operation good = {
		.kind = CN_OPERATION_FILL,
		.fill = {.to = to, .row_elements = 4, .row_count = 1, .value = 'x', .element_bytes = 1}};
	struct cn_operation call = host_call(count_call, &calls);
	struct cn_operation callback = {.kind = CN_OPERATION_CALLBACK, .callback = {be_told, NULL, NULL}};
	CUresult of_copy = CUDA_SUCCESS;

	ASSERT(hole != MAP_FAILED);
	cn_host_queue_open(&queue, NULL, OWNER);
	bad.copy.result = &of_copy; /* a copy whose caller waits for it: the failure is the caller's, not the queue's */
	submit(&queue, &bad);
	ASSERT(of_copy);
	ASSERT_OK(queue.failure);
	submit(&queue, &call);
	wait_for_all(&queue);
	ASSERT_EQ(1, calls);

	bad.copy.result = NULL;
	submit(&queue, &bad);
	wait_for_all(&queue);
	ASSERT(queue.failure);
	submit(&queue, &good);
	submit(&queue, &call);
	atomic_store(&gate, 0);
	close_gate(&queue); /* never opened */
	submit(&queue, &callback);
	wait_for_all(&queue);
	ASSERT_STREQ("dry", to);
	ASSERT_EQ(1, calls);
	ASSERT_EQ(queue.failure, told);
	close_and_drain(&queue);

	cn_host_queue_open(&queue, NULL, OWNER); /* the next owner starts without the failure */
	ASSERT_OK(queue.failure);
	submit(&queue, &call);
	wait_for_all(&queue);
	ASSERT_EQ(2, calls);
	close_and_drain(&queue);
	munmap(hole, 4096);
}

TEST(a_value_compares_as_the_flags_say)
{
	static const struct {
		unsigned bytes, flags;
		uint64_t found, wanted;
		bool reached;
	} cases[] = {
		{4, CU_STREAM_WAIT_VALUE_GEQ, 5, 5, true},
		{4, CU_STREAM_WAIT_VALUE_GEQ, 4, 5, false},
		{4, CU_STREAM_WAIT_VALUE_GEQ, 0x80000000, 0x7fffffff, true}, /* modulo 2^32 */
		{4, CU_STREAM_WAIT_VALUE_GEQ, 1, 0xffffffff, true},
		{4, CU_STREAM_WAIT_VALUE_GEQ, 0x90000000, 1, false},
		{4, CU_STREAM_WAIT_VALUE_EQ, 5, 0x100000005, true}, /* the lower half counts */
		{4, CU_STREAM_WAIT_VALUE_EQ, 6, 5, false},
		{4, CU_STREAM_WAIT_VALUE_AND, 6, 2, true},
		{4, CU_STREAM_WAIT_VALUE_AND, 4, 3, false},
		{4, CU_STREAM_WAIT_VALUE_NOR, 0, 1, true},
		{4, CU_STREAM_WAIT_VALUE_NOR, 0xfffffffe, 1, false},
		{8, CU_STREAM_WAIT_VALUE_GEQ, 1, UINT64_MAX, true},
		{8, CU_STREAM_WAIT_VALUE_GEQ, 1ull << 63, 0, false},
		{8, CU_STREAM_WAIT_VALUE_EQ, 1ull << 40, 1ull << 40, true},
		{8, CU_STREAM_WAIT_VALUE_EQ, 1ull << 40, 0, false},
		{8, CU_STREAM_WAIT_VALUE_AND, 1ull << 40, 3ull << 40, true},
		{8, CU_STREAM_WAIT_VALUE_NOR, UINT64_MAX - 1, 1, false},
		{8, CU_STREAM_WAIT_VALUE_NOR, UINT64_MAX - 2, 1, true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t wide = cases[i].found;
		uint32_t narrow = (uint32_t)cases[i].found;
		struct cn_operation wait = {.kind = CN_OPERATION_WAIT_VALUE,
					    .wait_value = {.address = cases[i].bytes == 8 ? (void *)&wide : &narrow,
							   .value = cases[i].wanted,
							   .bytes = cases[i].bytes,
							   .flags = cases[i].flags}};
		if (cn_host_value_reached(&wait) != cases[i].reached)
			FAIL("case %zu: not %s", i, cases[i].reached ? "reached" : "unreached");
	}
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

static _Atomic unsigned arrived;

static void *wait_for_number(void *number)
{
	cn_host_point_wait((struct cn_point){&queue.base, (uintptr_t)number});
	ASSERT_GE(queue.base.completed, (uintptr_t)number);
	atomic_fetch_add(&arrived, 1);
	return NULL;
}

/* Goal: many wait for different numbers of one queue, in no order; each is called, and none too early. */
TEST(every_waiter_is_told)
{
	enum { WAITERS = 16, OPERATIONS = 64 };
	struct cn_operation call = host_call(nothing, NULL);
	pthread_t threads[WAITERS];

	cn_host_queue_open(&queue, NULL, OWNER);
	for (unsigned round = 0; round < 20; round++) {
		uint64_t first = queue.base.submitted + 1;
		atomic_store(&gate, 0);
		atomic_store(&arrived, 0);
		close_gate(&queue);
		for (unsigned i = 1; i < OPERATIONS; i++)
			submit(&queue, &call);
		for (uintptr_t i = 0; i < WAITERS; i++)
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, wait_for_number,
						    (void *)(first + i * 37 % OPERATIONS)));
		ASSERT_EQ(0, arrived);
		atomic_store(&gate, 1);
		for (unsigned i = 0; i < WAITERS; i++)
			pthread_join(threads[i], NULL);
		ASSERT_EQ(WAITERS, arrived);
		wait_for_all(&queue);
	}
	close_and_drain(&queue);
}

/* A pipe: so a test hears that a host function has run, though it does not wait for its queue. */
static int heard[2];

static void tell(void *data)
{
	(void)data;
	ASSERT_EQ(1, write(heard[1], "", 1));
}

/* As long as a message to another machine takes. */
static void work_for_long(void *data)
{
	enum { WORK_NS = 100000 };
	uint64_t end_ns = cn_clock_ns() + WORK_NS;

	(void)data;
	while (cn_clock_ns() < end_ns)
		cn_cpu_relax();
}

/*
 * Goal: work that nobody waits for runs, though the rounds before it were all run by a thread that waited and the
 * executors stand by; beside operations that take long, too, for which they stand by longer.
 */
TEST(work_without_a_waiter_runs_after_rounds_that_had_one)
{
	enum { ROUNDS = 20, TIMES = 50 };
	struct cn_operation quick = host_call(nothing, NULL), long_ = host_call(work_for_long, NULL),
			    telling = host_call(tell, NULL);
	char byte;

	ASSERT_SYS(pipe(heard));
	cn_host_queue_open(&queue, NULL, OWNER);
	for (int slow = 0; slow < 2; slow++) {
		if (slow)
			cn_host_executor_begin_slow();
		for (int i = 0; i < TIMES; i++) {
			for (int round = 0; round < ROUNDS; round++)
				cn_host_point_wait(submit(&queue, slow ? &long_ : &quick));
			submit(&queue, &telling);
			ASSERT_EQ(1, read(heard[0], &byte, 1));
		}
		if (slow)
			cn_host_executor_end_slow();
	}
	close_and_drain(&queue);
	close(heard[0]);
	close(heard[1]);
}

enum { RING = 8, LAPS = 200 };
static struct cn_host_queue ring[RING];

/* Goal: queues that wait for each other in a long chain reach the end of it. */
TEST(a_chain_of_waits_runs_through)
{
	_Atomic unsigned calls = 0;
	struct cn_operation call = host_call(count_call, &calls);
	struct cn_point point = {0};

	for (unsigned i = 0; i < RING; i++)
		cn_host_queue_open(&ring[i], NULL, OWNER);
	atomic_store(&gate, 0);
	close_gate(&ring[0]);
	for (unsigned i = 0; i < RING * LAPS; i++) {
		struct cn_host_queue *at = &ring[i % RING];
		struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = point};
		if (i)
			submit(at, &wait);
		point = submit(at, &call);
	}
	ASSERT_EQ(0, calls);
	atomic_store(&gate, 1);
	cn_host_point_wait(point);
	ASSERT_EQ(RING * LAPS, calls);
	for (unsigned i = 0; i < RING; i++)
		close_and_drain(&ring[i]);
}

/* A timestamp goes to the record it was taken for, or nowhere. */
TEST(a_timestamp_of_an_older_record_is_not_kept)
{
	struct cn_stamp stamp = {.serial = 5};
	struct cn_operation operation = {.kind = CN_OPERATION_TIMESTAMP, .timestamp = {&stamp, 5}};
	uint64_t before = cn_clock_ns();

	cn_host_queue_open(&queue, NULL, OWNER);
	submit(&queue, &operation);
	ASSERT_GE(stamp.time_ns, before);
	ASSERT_LE(stamp.time_ns, cn_clock_ns());
	stamp.time_ns = 77;
	operation.timestamp.serial = 4;
	submit(&queue, &operation);
	ASSERT_EQ(77, stamp.time_ns);
	close_and_drain(&queue);
}
