/* SPDX-License-Identifier: MIT */
/*
 * Forged events: a process that has opened an event writes what it likes into the ring, and dies. The remaining
 * processes record, wait for, query and free the event as before.
 *
 * The test is the event's maker; `honest` is another process that has opened it, and `forger` a third, a new one for
 * each lie. A lie is a list of places in the ring and what is written there. Each field is forged alone, with each
 * value that might do harm, then several at random. docs/protocol.md has the offsets.
 */
#include "device/host/host_internal.h"

#include "shared_event.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_CELLS_COUNT = 12,
	AT_LATEST = 64,
	AT_CPU = 72,
	AT_WAKE = 128,
	AT_SLEEPERS = 192,
	AT_CELLS = 256,
	CELLS = CN_SIGNAL_CELLS,
	RING_BYTES = AT_CELLS + 8 * CELLS,
	RECORDER_SHIFT = 2,
	ROUND_SHIFT = 34,
	WRITES_MAX = 6,
	RANDOM_LIES = 60 / HARNESS_SLOWDOWN,
	STRANGER = 77777, /* a recorder's number that no process has */
};

enum state { DONE, PENDING, DEAD, NO_STATE };

struct lie {
	struct {
		uint32_t offset, bytes;
		uint64_t value;
	} writes[WRITES_MAX];
	unsigned write_count;
	bool fill; /* all cells, before the rest */
	uint64_t fill_value;
	bool freed; /* it frees the event first, and keeps the memory */
};

static struct cn_host_queue other;

SETUP
{
	bring_up();
	cn_host_queue_open(&other, NULL, OWNER);
}

static unsigned char *ring_of(struct cn_shared_event *event)
{
	return (unsigned char *)cn_shared_event_signal(event)->ring;
}

/* ---- The others -------------------------------------------------------------------------------------------------- */

static void record_at_last(struct cn_shared_event *event)
{
	CUresult result;

	do /* until all have heard of the forger's death, the ring may be full */
		result = cn_host_signal_record(cn_shared_event_signal(event), &queue, OWNER);
	while (result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES && !sched_yield());
	ASSERT_OK(result);
}

static void record_pending_at_last(struct cn_shared_event *event)
{
	struct cn_operation wait = {
		.kind = CN_OPERATION_WAIT_VALUE,
		.wait_value = {.address = &gate, .value = 1, .bytes = 4, .flags = CU_STREAM_WAIT_VALUE_GEQ}};

	atomic_store(&gate, 0);
	ASSERT_OK(cn_host_queue_submit(&queue, OWNER, &wait, NULL));
	record_at_last(event);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
}

/* A queue waits, and no thread sleeps for it: the poller resumes it. */
static void enqueue_wait(struct cn_shared_event *event)
{
	ASSERT_OK(cn_host_signal_wait(cn_shared_event_signal(event), &other, OWNER));
}

static void await_other(void)
{
	while (!cn_queue_idle(&other.base))
		sched_yield();
	ASSERT_OK(other.failure);
}

ROLE(honest)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = NULL;
	char word[16];

	peers_may_hold();
	for (;;) {
		peer_send(parent, "ok");
		peer_receive_bytes(parent, word, sizeof word);
		if (!strcmp(word, "open")) {
			peer_receive_bytes(parent, handle, sizeof handle);
			event = open_handle(handle);
		} else if (!strcmp(word, "record")) {
			record_at_last(event);
		} else if (!strcmp(word, "pend")) {
			record_pending_at_last(event);
		} else if (!strcmp(word, "gate")) {
			open_gate();
		} else if (!strcmp(word, "pending?")) {
			ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
		} else if (!strcmp(word, "done?")) {
			ASSERT_OK(query(event));
		} else if (!strcmp(word, "enqueue")) {
			enqueue_wait(event);
		} else if (!strcmp(word, "sync")) {
			ASSERT_OK(sync_with(event));
			await_other();
		} else if (!strcmp(word, "free")) {
			cn_shared_event_drop(event);
		} else {
			break;
		}
	}
	ASSERT_STREQ("end", word);
}

/* Opens an event, writes a lie into its ring, and waits to be killed. */
ROLE(forger)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct lie lie;

	peer_receive_bytes(parent, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	peer_send_bytes(parent, &cn_shared_event_signal(event)->recorder, sizeof(uint32_t));
	peer_receive_bytes(parent, &lie, sizeof lie);
	unsigned char *ring = mremap(ring_of(event), 0, RING_BYTES, MREMAP_MAYMOVE); /* the same once more */
	ASSERT_NE(MAP_FAILED, (void *)ring);
	if (lie.freed)
		cn_shared_event_drop(event);
	for (unsigned i = 0; lie.fill && i < CELLS; i++)
		memcpy(ring + AT_CELLS + (size_t)8 * i, &lie.fill_value, 8);
	for (unsigned i = 0; i < lie.write_count; i++)
		memcpy(ring + lie.writes[i].offset, &lie.writes[i].value, lie.writes[i].bytes);
	peer_send(parent, "forged");
	pause();
}

/* Give an order without waiting until it is done. */
static void order(struct peer *peer, const char *word)
{
	char bytes[16] = "";

	strncpy(bytes, word, sizeof bytes - 1);
	peer_send_bytes(peer, bytes, sizeof bytes);
}

static void tell(struct peer *peer, const char *word)
{
	order(peer, word);
	peer_expect(peer, "ok");
}

/* ---- One lie ----------------------------------------------------------------------------------------------------- */

struct stage {
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event;
	struct peer *honest, *forger;
	uint32_t honest_number, forger_number;
	uint64_t latest;
};

static uint64_t word_of(uint64_t round, uint32_t recorder, enum state state)
{
	return round << ROUND_SHIFT | (uint64_t)recorder << RECORDER_SHIFT | state;
}

static void add(struct lie *lie, size_t offset, uint32_t bytes, uint64_t value)
{
	lie->writes[lie->write_count].offset = (uint32_t)offset;
	lie->writes[lie->write_count].bytes = bytes;
	lie->writes[lie->write_count].value = value;
	lie->write_count++;
}

/* A forged record: its cell, and the latest number. */
static void add_record(struct lie *lie, uint64_t number, uint32_t recorder, enum state state)
{
	add(lie, AT_CELLS + number % CELLS * 8, 8, word_of(number / CELLS, recorder, state));
	add(lie, AT_LATEST, 8, number);
}

/* An event that has been recorded in both processes, and a third process that has opened it. */
static void begin(struct stage *stage)
{
	stage->event = create(stage->handle);
	order(stage->honest, "open");
	peer_send_bytes(stage->honest, stage->handle, sizeof stage->handle);
	peer_expect(stage->honest, "ok");
	record_pending_at_last(stage->event);
	open_gate();
	tell(stage->honest, "pend");
	tell(stage->honest, "gate");
	memcpy(&stage->latest, ring_of(stage->event) + AT_LATEST, sizeof stage->latest);
	stage->forger = peer_start("forger");
	peer_send_bytes(stage->forger, stage->handle, sizeof stage->handle);
	peer_receive_bytes(stage->forger, &stage->forger_number, sizeof stage->forger_number);
}

static void *sync_in_thread(void *event)
{
	return (void *)(uintptr_t)sync_with(event);
}

/* Both processes record, and each waits for the other's: in a call, and in a queue that no thread sleeps for. */
static void use(struct stage *stage)
{
	pthread_t thread;
	void *result;

	record_at_last(stage->event);
	ASSERT_OK(query(stage->event));
	ASSERT_OK(sync_with(stage->event));
	tell(stage->honest, "done?");
	tell(stage->honest, "record");
	tell(stage->honest, "done?");
	ASSERT_OK(sync_with(stage->event));

	record_pending_at_last(stage->event);
	tell(stage->honest, "pending?");
	tell(stage->honest, "enqueue");
	order(stage->honest, "sync");
	open_gate();
	peer_expect(stage->honest, "ok");
	ASSERT_OK(sync_with(stage->event));

	tell(stage->honest, "pend");
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(stage->event));
	enqueue_wait(stage->event);
	ASSERT_EQ(0, pthread_create(&thread, NULL, sync_in_thread, stage->event));
	tell(stage->honest, "gate");
	ASSERT_EQ(0, pthread_join(thread, &result));
	ASSERT_OK((CUresult)(uintptr_t)result);
	await_other();
}

static void end(struct stage *stage)
{
	tell(stage->honest, "free");
	cn_shared_event_drop(stage->event);
}

static void try_lie(struct stage *stage, const struct lie *lie)
{
	peer_send_bytes(stage->forger, lie, sizeof *lie);
	peer_expect(stage->forger, "forged");
	peer_kill(stage->forger);
	use(stage);
	end(stage);
}

static struct stage start(void)
{
	struct stage stage = {.honest = peer_start("honest")};

	peer_expect(stage.honest, "ok");
	stage.honest_number = 1; /* it is the first to open an event of ours */
	return stage;
}

static void finish(struct stage *stage)
{
	order(stage->honest, "end");
	peer_wait(stage->honest);
	sweep_names("bystander");
}

ROLE(bystander)
{
}

/* ---- Each field -------------------------------------------------------------------------------------------------- */

static const struct {
	uint32_t offset, bytes;
} plain_fields[] = {
	{AT_MAGIC, 8}, {AT_VERSION, 4},  {AT_CELLS_COUNT, 4}, {AT_CPU, 4},
	{AT_WAKE, 4},  {AT_WAKE + 4, 4}, {AT_SLEEPERS, 4},    {AT_SLEEPERS + 4, 4},
};
enum { PLAIN_FIELDS = sizeof plain_fields / sizeof plain_fields[0] };

/* Goal: forging any other field does no harm, the counts of sleepers included. */
TEST(each_field_is_forged, .timeout_ms = 60000)
{
	const uint64_t values[] = {0, 1, UINT64_MAX, UINT64_MAX - 1};
	struct stage stage = start();

	for (unsigned i = 0; i < PLAIN_FIELDS; i++)
		for (unsigned j = 0; j < sizeof values / sizeof values[0]; j += i < 4 ? 2 : 1) {
			struct lie lie = {.freed = j % 2};
			begin(&stage);
			add(&lie, plain_fields[i].offset, plain_fields[i].bytes, values[j]);
			try_lie(&stage, &lie);
		}
	finish(&stage);
}

/* Goal: no latest number keeps a process from recording. */
TEST(the_latest_number_is_forged, .timeout_ms = 60000)
{
	const uint64_t values[] = {0,
				   1,
				   CELLS - 1,
				   CELLS,
				   UINT64_MAX,
				   UINT64_MAX - 1,
				   UINT64_MAX - CELLS,
				   1ull << 63,
				   1ull << 40,
				   (1ull << 40) - 1,
				   1ull << 39,
				   (1ull << 39) + 5 * CELLS};
	struct stage stage = start();

	for (unsigned i = 0; i < sizeof values / sizeof values[0]; i++) {
		struct lie lie = {.write_count = 0};
		begin(&stage);
		add(&lie, AT_LATEST, 8, values[i]);
		try_lie(&stage, &lie);
	}
	finish(&stage);
}

/* Goal: a record that another process has forged in our name holds up no process, whatever its state. */
TEST(records_are_forged, .timeout_ms = 120000)
{
	struct stage stage = start();

	for (unsigned name = 0; name < 4; name++)
		for (unsigned state = DONE; state <= NO_STATE; state++) {
			struct lie lie = {.freed = state % 2};
			begin(&stage);
			const uint32_t names[] = {0, stage.honest_number, stage.forger_number, STRANGER};
			add_record(&lie, stage.latest + 1 + name, names[name], (enum state)state);
			try_lie(&stage, &lie);
		}
	finish(&stage);
}

/* Goal: the same with all cells: a ring that is full of lies is emptied when the liar has died. */
TEST(all_cells_are_forged, .timeout_ms = 120000)
{
	struct stage stage = start();

	for (unsigned name = 0; name < 4; name++)
		for (unsigned i = 0; i < 8; i++) {
			struct lie lie = {.fill = true, .freed = i % 2};
			begin(&stage);
			const uint32_t names[] = {0, stage.honest_number, stage.forger_number, STRANGER};
			const uint64_t rounds[] = {1, 2, 1ull << 29, (1ull << 30) - 1};
			lie.fill_value = word_of(rounds[i % 4], names[name], i < 4 ? PENDING : i % 2 ? DEAD : DONE);
			try_lie(&stage, &lie);
		}
	finish(&stage);
}

static uint64_t draw(struct test_random *random, const struct stage *stage)
{
	const uint32_t names[] = {0, stage->honest_number, stage->forger_number, STRANGER};
	uint64_t value = test_random_next(random);

	switch (test_random_below(random, 4)) {
	case 0: return value;
	case 1: return value % 4 ? stage->latest + value % (2 * CELLS) : UINT64_MAX - value % CELLS;
	case 2: return value % 3 - 1;
	default: return word_of(1 + value % 3, names[value / 3 % 4], (enum state)(value / 12 % 4));
	}
}

/* Goal: several fields at once, as the seed has it. */
TEST(random_lies, .timeout_ms = 120000)
{
	struct test_random random = test_random_start(1);
	struct stage stage = start();

	for (unsigned i = 0; i < RANDOM_LIES; i++) {
		struct lie lie = {.freed = test_random_below(&random, 2), .fill = test_random_below(&random, 3) == 0};
		begin(&stage);
		lie.fill_value = draw(&random, &stage);
		unsigned count = 1 + (unsigned)test_random_below(&random, WRITES_MAX);
		while (lie.write_count < count) {
			uint64_t which = test_random_below(&random, PLAIN_FIELDS + 4);
			if (which < PLAIN_FIELDS)
				add(&lie, plain_fields[which].offset, plain_fields[which].bytes, draw(&random, &stage));
			else if (which == PLAIN_FIELDS)
				add(&lie, AT_LATEST, 8, draw(&random, &stage));
			else
				add(&lie, AT_CELLS + test_random_below(&random, CELLS) * 8, 8, draw(&random, &stage));
		}
		try_lie(&stage, &lie);
	}
	finish(&stage);
}

/* ---- What a process knows of itself ------------------------------------------------------------------------------ */

/* Goal: what others write of a record of ours does not end it for us, nor make it fail. */
TEST(one_is_not_lied_to_about_oneself, .timeout_ms = 60000)
{
	struct stage stage = start();

	for (unsigned state = DONE; state <= NO_STATE; state++)
		for (unsigned round = 0; round < 2; round++) {
			struct lie lie = {.freed = round};
			begin(&stage);
			record_pending_at_last(stage.event);
			memcpy(&stage.latest, ring_of(stage.event) + AT_LATEST, sizeof stage.latest);
			add(&lie, AT_CELLS + stage.latest % CELLS * 8, 8,
			    word_of(stage.latest / CELLS + round, round ? STRANGER : 0, (enum state)state));
			peer_send_bytes(stage.forger, &lie, sizeof lie);
			peer_expect(stage.forger, "forged");
			peer_kill(stage.forger);
			ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(stage.event));
			enqueue_wait(stage.event);
			ASSERT(!cn_queue_idle(&other.base));
			open_gate();
			ASSERT_OK(sync_with(stage.event));
			await_other();
			use(&stage);
			end(&stage);
		}
	finish(&stage);
}
