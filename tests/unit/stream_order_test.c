/* SPDX-License-Identifier: MIT */
/*
 * Stream order under load: random programs over streams, events and host functions, held against a model.
 *
 * Everything that is given to a stream is a node. A global clock ticks before and after each call and at the beginning
 * and end of each function that a stream runs. The model knows which nodes come before which (precedes()), and so what
 * must have ended before a node begins.
 *
 * The first test lets several threads issue at once. Whether a call came before another is certain only when it had
 * returned before the other began, so it asks that no certain order is broken, that everything ran once, and that
 * streams carry data in order. A cycle of waits in the library would be a hang, and so a failure.
 *
 * The second test issues from one thread, so the order is exact, and closes gates. Then it also fails the other way:
 * what depends on no closed gate must come to its end, and what depends on one must not begin. Gates are opened one
 * by one.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"
#include "gate.h"

enum {
	THREADS = 4,
	LINES_OWN = 4, /* of a thread, alive at the same time */
	LINES_SHARED = 2,
	EVENTS_OWN = 3,
	EVENTS_SHARED = 3,
	STEPS = 150, /* of a thread in a round */
	NODES_MAX = 2 * STEPS,
	LINES_MAX = LINES_OWN + STEPS + 1,
	WORDS = 20000, /* in a line's buffers: fills and copies of them all are long, shorter ones run in the caller */
	BLOCKS = 5,    /* of a kernel */
	GATE_STEPS = 120,
	HELD_UP_SECONDS = 20,
};

enum rule { LEGACY, BLOCKING, FREE };

/* One life of a stream. */
struct line {
	CUstream handle;
	enum rule rule;
	uint32_t *from, *to; /* buffers for fills and copies; NULL: unknown, for several threads use the stream */
	uint32_t fill_value, copy_value;
	size_t fill_words, copy_words;
};

enum kind { HOST, CALLBACK, LAUNCH, FILL, COPY, RECORD, WAIT, WRITE_VALUE, WAIT_VALUE, GATE, SYNC_STREAM, SYNC_EVENT };
static const char *const kind_names[] = {"host function", "callback", "kernel",      "fill",
					 "copy",          "record",   "event wait",  "value write",
					 "value wait",    "gate",     "stream sync", "event sync"};

struct node {
	enum kind kind;
	struct line *line;
	CUevent event;            /* RECORD, WAIT, SYNC_EVENT */
	const struct node *write; /* WAIT_VALUE: the node that writes the value */
	struct gate gate;
	bool gate_closed;
	uint64_t call_begin, call_end;
	_Atomic uint64_t begin, end; /* when it ran, of those that are called or return */
	_Atomic unsigned runs;
	struct line seen; /* what the line's buffers hold when this runs */
	uint64_t reach;   /* model: the latest end of this and everything before it */
	bool held;        /* model: depends on a closed gate */
};

static _Atomic uint64_t clock_ticks = 1;
static pthread_mutex_t done_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_condition = PTHREAD_COND_INITIALIZER;

static uint64_t tick(void)
{
	return atomic_fetch_add(&clock_ticks, 1);
}

SETUP
{
	context_current();
}

/* ---- The model -------------------------------------------------------------------------------------------------- */

static bool is_sync(const struct node *node)
{
	return node->kind == SYNC_STREAM || node->kind == SYNC_EVENT;
}

/* Given that `first` was issued before `second`: does its place in a stream put it before the other? */
static bool precedes(const struct node *first, const struct node *second)
{
	if (is_sync(first) || second->kind == SYNC_EVENT)
		return false;
	if (first->line == second->line)
		return true;
	/* The legacy stream waits for all blocking ones; synchronising with it covers them too. */
	if (second->line->rule == LEGACY)
		return first->line->rule == BLOCKING;
	/* They wait for it with their next work. Synchronising, or waiting for a past event, is no work. */
	if (first->line->rule == LEGACY)
		return second->line->rule == BLOCKING && second->kind != SYNC_STREAM && second->kind != WAIT;
	return false;
}

static bool certainly_before(const struct node *first, const struct node *second)
{
	return first->call_end < second->call_begin;
}

static int by_call(const void *left, const void *right)
{
	const struct node *const *a = left, *const *b = right;

	return (*a)->call_begin < (*b)->call_begin ? -1 : (*a)->call_begin > (*b)->call_begin;
}

/*
 * What must certainly have ended for the record that node `at` waits for. Where several records may be the latest one,
 * that of the one with the earliest end; where one was made during the call, nothing.
 */
static uint64_t reach_of_event(struct node *const *nodes, size_t count, size_t at)
{
	const struct node *node = nodes[at];
	uint64_t reach = UINT64_MAX;

	for (size_t i = 0; i < count && nodes[i]->call_begin < node->call_end; i++) {
		const struct node *record = nodes[i];
		bool replaced = false;
		if (record->kind != RECORD || record->event != node->event)
			continue;
		if (i > at)
			return 0;
		for (size_t j = i + 1; j < at && !replaced; j++)
			replaced = nodes[j]->kind == RECORD && nodes[j]->event == node->event &&
				   certainly_before(record, nodes[j]) && certainly_before(nodes[j], node);
		if (!replaced && record->reach < reach)
			reach = record->reach;
	}
	ASSERT_NE(UINT64_MAX, reach); /* each event is recorded before it is waited for */
	return reach;
}

/* Nodes in the order of their calls: nothing began too early. */
static void check_order(struct node **nodes, size_t count)
{
	qsort(nodes, count, sizeof(struct node *), by_call);
	for (size_t i = 0; i < count; i++) {
		struct node *node = nodes[i];
		const struct node *latest = NULL;
		uint64_t before = 0;

		for (size_t j = 0; j < i; j++) {
			if (nodes[j]->reach > before && certainly_before(nodes[j], node) && precedes(nodes[j], node)) {
				before = nodes[j]->reach;
				latest = nodes[j];
			}
		}
		if (node->kind == WAIT || node->kind == SYNC_EVENT) {
			uint64_t event = reach_of_event(nodes, count, i);
			before = event > before ? event : before;
		}
		if (node->write && node->write->reach > before)
			before = node->write->reach;

		if (node->begin && node->begin <= before)
			FAIL("a %s issued at %ju..%ju began at %ju, "
			     "but what it follows (last a %s, issued at %ju) ended at %ju",
			     kind_names[node->kind], (uintmax_t)node->call_begin, (uintmax_t)node->call_end,
			     (uintmax_t)node->begin, latest ? kind_names[latest->kind] : "record",
			     (uintmax_t)(latest ? latest->call_begin : 0), (uintmax_t)before);
		node->reach = node->end > before ? node->end : before;
	}
}

/* In either order: what runs in the legacy stream and what runs in a blocking one never run at the same time. */
static void check_apart(struct node *const *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct node *legacy = nodes[i];
		if (legacy->line->rule != LEGACY || !legacy->end)
			continue;
		for (size_t j = 0; j < count; j++) {
			const struct node *other = nodes[j];
			if (other->line->rule == BLOCKING && other->end && other->begin < legacy->end &&
			    legacy->begin < other->end)
				FAIL("a %s ran at %ju..%ju in a blocking stream, a %s at %ju..%ju in the legacy stream",
				     kind_names[other->kind], (uintmax_t)other->begin, (uintmax_t)other->end,
				     kind_names[legacy->kind], (uintmax_t)legacy->begin, (uintmax_t)legacy->end);
		}
	}
}

/* ---- What streams run ------------------------------------------------------------------------------------------- */

static void check_buffer(const uint32_t *buffer, uint32_t value, size_t words)
{
	if (words && (buffer[0] != value || buffer[words - 1] != value))
		FAIL("a buffer holds 0x%x and 0x%x where 0x%x was to be seen", buffer[0], buffer[words - 1], value);
}

/* The order shows best when operations take a while; how long differs from node to node. */
static void dawdle(const struct node *node)
{
	for (uint64_t i = 0; i < node->call_begin % 4; i++)
		sched_yield();
}

static void CUDA_CB run_host(void *data)
{
	struct node *node = data;

	atomic_store(&node->begin, tick());
	dawdle(node);
	check_buffer(node->seen.from, node->seen.fill_value, node->seen.fill_words);
	check_buffer(node->seen.to, node->seen.copy_value, node->seen.copy_words);
	atomic_fetch_add(&node->runs, 1);
	atomic_store(&node->end, tick());
	pthread_mutex_lock(&done_mutex);
	pthread_cond_broadcast(&done_condition);
	pthread_mutex_unlock(&done_mutex);
}

static void CUDA_CB run_callback(CUstream stream, CUresult status, void *data)
{
	struct node *node = data;

	ASSERT_EQ(node->line->handle, stream);
	ASSERT_OK(status);
	run_host(node);
}

static void kernel(const cenote_thread *at, void **args)
{
	struct node *node = *(struct node **)args[0];
	uint64_t zero = 0;

	(void)at;
	atomic_compare_exchange_strong(&node->begin, &zero, tick());
	if (atomic_fetch_add(&node->runs, 1) == BLOCKS - 1) {
		atomic_store(&node->runs, 1);
		atomic_store(&node->end, tick());
	}
}
CENOTE_KERNEL(kernel, struct node *);

/* ---- Issuing ---------------------------------------------------------------------------------------------------- */

struct issuer {
	struct test_random random;
	struct node nodes[NODES_MAX];
	size_t node_count;
	struct line lines[LINES_MAX]; /* those that were: nodes point to them */
	size_t line_count;
	struct line *own[LINES_OWN];
	struct line per_thread;
	CUevent events[EVENTS_OWN];
	bool recorded[EVENTS_OWN];
	uint32_t *memory;        /* for the buffers of the own lines */
	_Atomic uint32_t *words; /* for values that are written and waited for: one for each node */
	struct shared *shared;
	uint32_t values;
};

struct shared {
	struct line legacy;
	struct line lines[LINES_SHARED];
	CUevent events[EVENTS_SHARED];
	struct node first_records[EVENTS_SHARED];
};

static uint64_t below(struct issuer *issuer, uint64_t bound)
{
	return test_random_below(&issuer->random, bound);
}

static struct node *new_node(struct issuer *issuer, enum kind kind, struct line *line)
{
	ASSERT_LT(issuer->node_count, NODES_MAX);
	struct node *node = &issuer->nodes[issuer->node_count++];

	node->kind = kind;
	node->line = line;
	node->call_begin = tick();
	return node;
}

static void called(struct node *node)
{
	node->call_end = tick();
}

/* A new stream in place `i`; the buffers stay with the place, whose last stream may still be using them. */
static void open_line(struct issuer *issuer, unsigned i, enum rule rule)
{
	ASSERT_LT(issuer->line_count, LINES_MAX);
	struct line *line = &issuer->lines[issuer->line_count++];

	line->rule = rule;
	ASSERT_OK(cuStreamCreate(&line->handle, rule == FREE ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	issuer->own[i] = line;
}

static void give_buffers(struct issuer *issuer, struct line *line, size_t place)
{
	line->from = issuer->memory + 2 * place * WORDS;
	line->to = line->from + WORDS;
}

static struct line *pick_line(struct issuer *issuer)
{
	uint64_t choice = below(issuer, 16);

	if (choice == 0)
		return &issuer->shared->legacy;
	if (choice < 3)
		return &issuer->shared->lines[below(issuer, LINES_SHARED)];
	if (choice < 5)
		return &issuer->per_thread;
	return issuer->own[below(issuer, LINES_OWN)];
}

static void issue_function(struct issuer *issuer, struct line *line)
{
	uint64_t choice = below(issuer, 5);
	struct node *node = new_node(issuer, choice < 3 ? HOST : choice == 3 ? CALLBACK : LAUNCH, line);
	void *arguments[] = {&node};

	node->seen = *line;
	if (node->kind == HOST)
		ASSERT_OK(cuLaunchHostFunc(line->handle, run_host, node));
	else if (node->kind == CALLBACK)
		ASSERT_OK(cuStreamAddCallback(line->handle, run_callback, node, 0));
	else
		ASSERT_OK(cudaLaunchKernel((const void *)kernel, (dim3){BLOCKS, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
					   line->handle));
	called(node);
}

static void issue_fill(struct issuer *issuer, struct line *line)
{
	if (!line->from)
		return;
	struct node *node = new_node(issuer, FILL, line);

	line->fill_value = ++issuer->values;
	line->fill_words = below(issuer, 2) ? WORDS : 1 + below(issuer, 64);
	ASSERT_OK(
		cuMemsetD32Async((CUdeviceptr)(uintptr_t)line->from, line->fill_value, line->fill_words, line->handle));
	called(node);
}

static void issue_copy(struct issuer *issuer, struct line *line)
{
	if (!line->from || !line->fill_words)
		return;
	struct node *node = new_node(issuer, COPY, line);

	line->copy_value = line->fill_value;
	line->copy_words = line->fill_words;
	ASSERT_OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)line->to, (CUdeviceptr)(uintptr_t)line->from,
				line->copy_words * sizeof(uint32_t), line->handle));
	called(node);
}

/* An own event or a shared one; of the own ones, for others than records, one that has been recorded. */
static CUevent pick_event(struct issuer *issuer, enum kind kind)
{
	uint64_t i = below(issuer, EVENTS_OWN + EVENTS_SHARED);

	if (i >= EVENTS_OWN)
		return issuer->shared->events[i - EVENTS_OWN];
	if (kind == RECORD)
		issuer->recorded[i] = true;
	return issuer->recorded[i] ? issuer->events[i] : issuer->shared->events[0];
}

static void issue_event(struct issuer *issuer, struct line *line, enum kind kind)
{
	CUevent event = pick_event(issuer, kind);
	struct node *node = new_node(issuer, kind, line);

	node->event = event;
	if (kind == RECORD)
		ASSERT_OK(cuEventRecord(event, line->handle));
	else if (kind == WAIT)
		ASSERT_OK(cuStreamWaitEvent(line->handle, event, 0));
	else
		ASSERT_OK(cuEventSynchronize(event));
	called(node);
	if (kind == SYNC_EVENT)
		node->begin = node->call_end;
}

static void issue_sync(struct issuer *issuer, struct line *line)
{
	struct node *node = new_node(issuer, SYNC_STREAM, line);

	ASSERT_OK(cuStreamSynchronize(line->handle));
	called(node);
	node->begin = node->call_end;
}

/* One stream writes a word, another waits for it. */
static void issue_values(struct issuer *issuer, struct line *writer, struct line *waiter)
{
	struct node *write = new_node(issuer, WRITE_VALUE, writer);
	CUdeviceptr word = (CUdeviceptr)(uintptr_t)&issuer->words[write - issuer->nodes];

	ASSERT_OK(cuStreamWriteValue32(writer->handle, word, 1, 0));
	called(write);
	struct node *wait = new_node(issuer, WAIT_VALUE, waiter);
	wait->write = write;
	ASSERT_OK(cuStreamWaitValue32(waiter->handle, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	called(wait);
}

/*
 * Destroy an own stream, whatever work it has left, and create another. Its buffers are not reused before it is done.
 */
static void renew_line(struct issuer *issuer)
{
	unsigned i = (unsigned)below(issuer, LINES_OWN);
	struct line *old = issuer->own[i];

	ASSERT_OK(cuStreamDestroy(old->handle));
	open_line(issuer, i, below(issuer, 2) ? FREE : BLOCKING);
}

static void issue_step(struct issuer *issuer)
{
	struct line *line = pick_line(issuer);
	uint64_t choice = below(issuer, 100);

	if (choice < 35)
		issue_function(issuer, line);
	else if (choice < 45)
		issue_fill(issuer, line);
	else if (choice < 55)
		issue_copy(issuer, line);
	else if (choice < 70)
		issue_event(issuer, line, RECORD);
	else if (choice < 85)
		issue_event(issuer, line, WAIT);
	else if (choice < 93)
		issue_values(issuer, line, pick_line(issuer));
	else if (choice < 95)
		issue_sync(issuer, line);
	else if (choice < 97)
		issue_event(issuer, line, SYNC_EVENT);
	else
		renew_line(issuer);
}

/* ---- The tests -------------------------------------------------------------------------------------------------- */

static void issuer_begin(struct issuer *issuer, struct shared *shared, uint64_t stream)
{
	memset(issuer, 0, sizeof *issuer);
	issuer->random = test_random_start(stream);
	issuer->shared = shared;
	issuer->per_thread = (struct line){.handle = CU_STREAM_PER_THREAD, .rule = BLOCKING};
	void *memory;
	ASSERT_OK(cuMemHostAlloc(&memory, (2 * (LINES_OWN + 1) * WORDS + NODES_MAX) * sizeof(uint32_t), 0));
	issuer->memory = memory;
	issuer->words = (_Atomic uint32_t *)(issuer->memory + 2 * (LINES_OWN + 1) * WORDS);
	memset(memory, 0, (2 * (LINES_OWN + 1) * WORDS + NODES_MAX) * sizeof(uint32_t));
	for (unsigned i = 0; i < LINES_OWN; i++) {
		open_line(issuer, i, i & 1 ? FREE : BLOCKING);
		give_buffers(issuer, issuer->own[i], i); /* the first streams alone: later ones could come too early */
	}
	give_buffers(issuer, &issuer->per_thread, LINES_OWN);
	for (unsigned i = 0; i < EVENTS_OWN; i++)
		ASSERT_OK(cuEventCreate(&issuer->events[i], i ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
}

/* All its work has been waited for. */
static void issuer_end(struct issuer *issuer)
{
	for (unsigned i = 0; i < LINES_OWN; i++)
		ASSERT_OK(cuStreamDestroy(issuer->own[i]->handle));
	for (unsigned i = 0; i < EVENTS_OWN; i++)
		ASSERT_OK(cuEventDestroy(issuer->events[i]));
	ASSERT_OK(cuMemFreeHost(issuer->memory));
}

static void shared_begin(struct shared *shared)
{
	memset(shared, 0, sizeof *shared);
	shared->legacy = (struct line){.handle = CU_STREAM_LEGACY, .rule = LEGACY};
	for (unsigned i = 0; i < LINES_SHARED; i++) {
		shared->lines[i].rule = i & 1 ? FREE : BLOCKING;
		ASSERT_OK(cuStreamCreate(&shared->lines[i].handle, i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	}
	for (unsigned i = 0; i < EVENTS_SHARED; i++) {
		struct node *node = &shared->first_records[i];
		ASSERT_OK(cuEventCreate(&shared->events[i], i & 1 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
		*node = (struct node){.kind = RECORD, .line = &shared->lines[0], .event = shared->events[i]};
		node->call_begin = tick();
		ASSERT_OK(cuEventRecord(shared->events[i], shared->lines[0].handle));
		called(node);
	}
}

static void shared_end(struct shared *shared)
{
	for (unsigned i = 0; i < LINES_SHARED; i++)
		ASSERT_OK(cuStreamDestroy(shared->lines[i].handle));
	for (unsigned i = 0; i < EVENTS_SHARED; i++)
		ASSERT_OK(cuEventDestroy(shared->events[i]));
}

static void check_runs(const struct node *node)
{
	bool runs = node->kind == HOST || node->kind == CALLBACK || node->kind == LAUNCH;

	if (node->runs != (runs ? 1 : 0))
		FAIL("a %s ran %u times", kind_names[node->kind], node->runs);
}

static void *issue_thread(void *data)
{
	struct issuer *issuer = data;
	CUcontext context;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < STEPS / HARNESS_SLOWDOWN; i++)
		issue_step(issuer);
	/* Its per-thread stream goes with the thread; what it was given still runs. */
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

static void threads_round(struct issuer *issuers, unsigned long round)
{
	static struct node *nodes[THREADS * NODES_MAX + EVENTS_SHARED];
	static struct shared shared;
	pthread_t threads[THREADS];
	size_t count = 0;

	shared_begin(&shared);
	for (unsigned i = 0; i < THREADS; i++)
		issuer_begin(&issuers[i], &shared, round * THREADS + i);
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, issue_thread, &issuers[i]));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuCtxSynchronize());

	for (unsigned i = 0; i < EVENTS_SHARED; i++)
		nodes[count++] = &shared.first_records[i];
	for (unsigned i = 0; i < THREADS; i++)
		for (size_t j = 0; j < issuers[i].node_count; j++) {
			check_runs(&issuers[i].nodes[j]);
			nodes[count++] = &issuers[i].nodes[j];
		}
	check_order(nodes, count);
	check_apart(nodes, count);
	for (unsigned i = 0; i < THREADS; i++)
		issuer_end(&issuers[i]);
	shared_end(&shared);
}

TEST(threads_issue_at_once, .soak = true, .timeout_ms = 60000)
{
	struct issuer *issuers = calloc(THREADS, sizeof *issuers);

	ASSERT(issuers);
	for (unsigned long round = 0; soak_goes_on(round, 240 / HARNESS_SLOWDOWN); round++)
		threads_round(issuers, round);
	free(issuers);
}

/* ---- Gates ------------------------------------------------------------------------------------------------------ */

/*
 * Which nodes depend on a closed gate? The order of issue is exact here, but whether a wait was for something that had
 * happened already, and so no work, is not known where nothing holds that up.
 */
static void mark_held(struct node *nodes, size_t count, bool waits_are_work)
{
	for (size_t i = 0; i < count; i++) {
		struct node *node = &nodes[i];
		const struct node *record = NULL;

		node->held = node->gate_closed || (node->write && node->write->held);
		for (size_t j = 0; j < i; j++) {
			bool late = waits_are_work && node->kind == WAIT && node->line->rule == BLOCKING &&
				    nodes[j].line->rule == LEGACY;
			if (nodes[j].held && (late || precedes(&nodes[j], node)))
				node->held = true;
			if (nodes[j].kind == RECORD && nodes[j].event == node->event)
				record = &nodes[j];
		}
		if ((node->kind == WAIT || node->kind == SYNC_EVENT) && record && record->held)
			node->held = true;
	}
}

/* What may run ends; what may not has not begun. */
static void check_held(struct node *nodes, size_t count)
{
	struct timespec deadline;

	mark_held(nodes, count, false);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += HELD_UP_SECONDS * HARNESS_SLOWDOWN;
	for (size_t i = 0; i < count; i++) {
		struct node *node = &nodes[i];
		if (node->kind != HOST)
			continue;
		if (node->held) {
			if (node->begin)
				FAIL("host function %zu began at %ju although it depends on a closed gate", i,
				     (uintmax_t)node->begin);
			continue;
		}
		pthread_mutex_lock(&done_mutex);
		while (!node->end)
			if (pthread_cond_timedwait(&done_condition, &done_mutex, &deadline))
				FAIL("host function %zu depends on no closed gate but is held up", i);
		pthread_mutex_unlock(&done_mutex);
	}
}

/* Synchronise with a stream or an event if the model says that this returns. */
static void sync_if_free(struct issuer *issuer, struct line *line, enum kind kind)
{
	CUevent event = pick_event(issuer, kind);
	struct node *node = new_node(issuer, kind, line);

	node->event = event;
	mark_held(issuer->nodes, issuer->node_count, true);
	bool may_be_held = node->held;
	mark_held(issuer->nodes, issuer->node_count, false);
	if (node->held) {
		ASSERT_ERROR(CUDA_ERROR_NOT_READY,
			     kind == SYNC_STREAM ? cuStreamQuery(line->handle) : cuEventQuery(event));
	} else if (!may_be_held) {
		ASSERT_OK(kind == SYNC_STREAM ? cuStreamSynchronize(line->handle) : cuEventSynchronize(event));
		ASSERT_OK(kind == SYNC_STREAM ? cuStreamQuery(line->handle) : cuEventQuery(event));
	}
	node->held = false;
	called(node);
}

static void issue_gated_step(struct issuer *issuer)
{
	struct line *line = pick_line(issuer);
	uint64_t choice = below(issuer, 100);

	if (choice < 45) {
		struct node *node = new_node(issuer, HOST, line);
		ASSERT_OK(cuLaunchHostFunc(line->handle, run_host, node));
		called(node);
	} else if (choice < 60) {
		issue_event(issuer, line, RECORD);
	} else if (choice < 75) {
		issue_event(issuer, line, WAIT);
	} else if (choice < 80) {
		issue_values(issuer, line, pick_line(issuer));
	} else if (choice < 85) {
		struct node *node = new_node(issuer, GATE, line);
		node->gate.word = &issuer->words[node - issuer->nodes];
		node->gate_closed = true;
		gate_close(node->gate, line->handle);
		called(node);
	} else if (choice < 90) {
		renew_line(issuer);
	} else {
		sync_if_free(issuer, line, below(issuer, 2) ? SYNC_STREAM : SYNC_EVENT);
	}
}

static void gates_round(struct issuer *issuer, unsigned long round)
{
	static struct shared shared;

	shared_begin(&shared);
	issuer_begin(issuer, &shared, round);
	for (unsigned i = 0; i < GATE_STEPS; i++)
		issue_gated_step(issuer);
	for (;;) {
		size_t closed[NODES_MAX], closed_count = 0;

		check_held(issuer->nodes, issuer->node_count);
		for (size_t i = 0; i < issuer->node_count; i++)
			if (issuer->nodes[i].gate_closed)
				closed[closed_count++] = i;
		if (!closed_count)
			break;
		struct node *node = &issuer->nodes[closed[below(issuer, closed_count)]];
		node->gate_closed = false;
		gate_open(node->gate);
	}
	ASSERT_OK(cuCtxSynchronize());
	for (size_t i = 0; i < issuer->node_count; i++)
		check_runs(&issuer->nodes[i]);
	issuer_end(issuer);
	shared_end(&shared);
}

TEST(only_what_depends_on_a_closed_gate_waits, .soak = true, .timeout_ms = 60000)
{
	struct issuer *issuer = calloc(1, sizeof *issuer);

	ASSERT(issuer);
	for (unsigned long round = 0; soak_goes_on(round, 600 / HARNESS_SLOWDOWN); round++)
		gates_round(issuer, round);
	free(issuer);
}
