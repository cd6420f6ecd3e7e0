/* SPDX-License-Identifier: MIT */
/*
 * Reports over the wire: what a port answers, and what a process writes about itself. Wrong askers are written by hand;
 * survey_test.c has wrong answers.
 */
#include "../ask.h"
#include "named_socket.h"
#include "share_fake.h"

#include "pool/pool.h"
#include "share/pool/export_internal.h"
#include "share/port/port_internal.h"
#include "share/report/survey.h"

#include <sys/wait.h>

enum { POOL = SHARE_CHUNK, BLOCK = SHARE_MIB };

SETUP
{
	share_start();
}

/* ---- Asking by hand ---- */

struct own_port {
	char name[CN_SOCKET_NAME_CHARS + 1];
	unsigned pools, importers;
	struct cn_survey_process process;
	struct cn_report_pool pool;
	struct cn_report_importer importer;
	struct cn_report_handles handles[CN_HANDLE_KINDS]; /* the kind is 0: there are none */
	struct cn_report_importer opener[CN_HANDLE_KINDS];
	unsigned openers[CN_HANDLE_KINDS];
};

static void note_own(const struct cn_survey_found *found, void *data)
{
	struct own_port *own = data;

	ASSERT_EQ(getpid(), found->process->pid);
	ASSERT(found->process->answers);
	ASSERT(!found->pool || !found->handles);
	if (found->handles) {
		uint64_t kind = found->handles->kind;
		ASSERT(kind == CN_HANDLE_EVENT || kind == CN_HANDLE_MEMORY);
		if (found->importer) {
			own->opener[kind] = *found->importer;
			own->openers[kind]++;
		} else {
			own->handles[kind] = *found->handles;
		}
	} else if (!found->pool) {
		own->process = *found->process;
		snprintf(own->name, sizeof own->name, "%s", found->process->name);
		ASSERT_STREQ(program_invocation_short_name, found->process->program);
	} else if (!found->importer) {
		own->pool = *found->pool;
		own->pools++;
	} else {
		ASSERT_EQ((int)found->importer->pid, found->holder_pid);
		own->importer = *found->importer;
		own->importers++;
	}
}

/* What a survey says of this process, which is the only one. */
static struct own_port survey_own(void)
{
	struct own_port own = {.pools = 0};

	ASSERT_OK(cn_survey(note_own, &own));
	ASSERT_EQ(CN_SOCKET_NAME_CHARS, (int)strlen(own.name));
	return own;
}

static int call_own(void)
{
	struct own_port own = survey_own();
	int sock = -1;

	ASSERT_OK(connect_name(own.name, &sock));
	return sock;
}

static struct cn_parcel question(uint64_t what, uint64_t pool, uint64_t third, uint64_t fourth, uint64_t fifth)
{
	return (struct cn_parcel){
		.message = {.kind = CN_MESSAGE_REPORT, .request = 7, .words = {what, pool, third, fourth, fifth}}};
}

static struct cn_message answer_to(int sock, struct cn_parcel request)
{
	struct cn_parcel reply;

	ASSERT_OK(ask_peer(sock, &request, &reply));
	ASSERT_EQ(CN_MESSAGE_REPORT, reply.message.kind);
	ASSERT_EQ(0, reply.descriptor_count);
	return reply.message;
}

static void expect_closed(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel parcel;
	int error;

	do { /* an answer may come first */
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		error = cn_wire_receive(sock, &parcel);
	} while (!error);
	ASSERT_EQ(EPIPE, error);
	ASSERT_SYS(close(sock));
}

/* Goal: a process that shares is told of with all it has, by itself as well. */
TEST(a_process_is_told_of_with_what_it_shares)
{
	ASSERT_EQ(0, survey_own().pools); /* the first one of SETUP is gone */
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	close(share_export(pool));
	share_name(block);
	ASSERT_OK(cenote_pool_limit(pool, 77));

	struct own_port own = survey_own();
	ASSERT_EQ(getpid(), own.process.pid_there);
	ASSERT_EQ(1, own.process.pool_count);
	ASSERT(own.process.written_ns <= cn_clock_ns() && own.process.clock_offset_ns == 0);
	ASSERT_EQ(1, own.pools);
	ASSERT_EQ(0, own.importers);
	ASSERT_EQ(BLOCK, own.pool.used_bytes);
	ASSERT_EQ(POOL, own.pool.reserved_bytes);
	ASSERT_EQ(1, own.pool.exported_count);
	ASSERT_EQ(BLOCK, own.pool.exported_bytes);
	ASSERT_EQ(77, own.pool.limit_bytes);

	struct cn_segment ledger;
	struct cn_parcel welcome;
	int sock = join_pool(pool, &ledger, &welcome);
	own = survey_own();
	ASSERT_EQ(1, own.importers);
	ASSERT_EQ(1, own.pool.importer_count);
	ASSERT_EQ(getpid(), (int)own.importer.pid);
	ASSERT_EQ(geteuid(), own.importer.uid);
	ASSERT_EQ(0, own.importer.held_count);
	cn_wire_close(&welcome);
	close(sock);
	cn_segment_close(&ledger);

	ASSERT_OK(cuMemFree(block));
	while (survey_own().pool.exported_bytes) /* on a GPU it takes a moment */
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(pool));
	while (survey_own().pools) /* the service thread takes it apart */
		sched_yield();
}

/* Open what a handle is of, by hand, over a connection. */
static void open_by_hand(int sock, const void *bytes, uint32_t message_kind)
{
	struct cn_parcel request = {.message = {.kind = message_kind, .request = 9}}, reply;
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	request.message.words[0] = handle.number;
	request.message.words[1] = handle.node;
	memcpy(request.message.bytes, handle.secret, sizeof handle.secret);
	ASSERT_OK(ask_peer(sock, &request, &reply));
	ASSERT_EQ(0, reply.message.result);
	cn_wire_close(&reply);
}

static void close_by_hand(int sock, const void *bytes, uint32_t message_kind)
{
	struct cn_parcel parcel = {.message = {.kind = message_kind}};
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	parcel.message.words[0] = handle.number;
	ASSERT_EQ(0, cn_wire_send(sock, &parcel));
}

/* Goal: a report tells what was given out by legacy handles, to which openers, and what was freed and waits. */
TEST(legacy_memory_and_who_has_it_open)
{
	CUipcMemHandle handles[2];
	CUdeviceptr memory[2];

	if (test_on_gpu())
		SKIP("legacy memory is the driver's");
	for (unsigned i = 0; i < 2; i++) {
		ASSERT_OK(cuMemAlloc(&memory[i], (i + 1) * SHARE_MIB));
		ASSERT_EQ(0, survey_own().openers[CN_HANDLE_MEMORY]);
		ASSERT_OK(cuIpcGetMemHandle(&handles[i], memory[i]));
	}
	struct own_port own = survey_own();
	ASSERT_EQ(CN_HANDLE_MEMORY, own.handles[CN_HANDLE_MEMORY].kind);
	ASSERT_EQ(0, own.handles[CN_HANDLE_EVENT].kind);
	ASSERT_EQ(2, own.handles[CN_HANDLE_MEMORY].shared_count);
	ASSERT_EQ(3 * SHARE_MIB, own.handles[CN_HANDLE_MEMORY].shared_bytes);
	ASSERT_EQ(0, own.handles[CN_HANDLE_MEMORY].opener_count);

	int socks[2] = {call_own(), call_own()};
	open_by_hand(socks[0], &handles[0], CN_MESSAGE_MEMORY);
	open_by_hand(socks[0], &handles[1], CN_MESSAGE_MEMORY);
	open_by_hand(socks[1], &handles[1], CN_MESSAGE_MEMORY);
	own = survey_own();
	ASSERT_EQ(2, own.openers[CN_HANDLE_MEMORY]);
	ASSERT_EQ(2, own.handles[CN_HANDLE_MEMORY].opener_count);
	ASSERT_EQ(1, own.process.opener_count);                /* both are this process */
	ASSERT_EQ(1, own.opener[CN_HANDLE_MEMORY].held_count); /* the last one */
	ASSERT_EQ(2 * SHARE_MIB, own.opener[CN_HANDLE_MEMORY].held_bytes);
	ASSERT_EQ(getpid(), (int)own.opener[CN_HANDLE_MEMORY].pid);
	ASSERT_EQ(geteuid(), own.opener[CN_HANDLE_MEMORY].uid);
	ASSERT_EQ(0, own.opener[CN_HANDLE_MEMORY].deferred_count);
	ASSERT_EQ(0, own.opener[CN_HANDLE_MEMORY].waiting_since_ns);

	ASSERT_OK(cuMemFree(memory[1]));
	own = survey_own();
	ASSERT_EQ(1, own.handles[CN_HANDLE_MEMORY].shared_count);
	ASSERT_EQ(SHARE_MIB, own.handles[CN_HANDLE_MEMORY].shared_bytes);
	ASSERT_EQ(1, own.handles[CN_HANDLE_MEMORY].deferred_count);
	ASSERT_EQ(2 * SHARE_MIB, own.handles[CN_HANDLE_MEMORY].deferred_bytes);
	ASSERT_EQ(1, own.opener[CN_HANDLE_MEMORY].deferred_count);
	ASSERT_EQ(2 * SHARE_MIB, own.opener[CN_HANDLE_MEMORY].deferred_bytes);
	ASSERT_EQ(0, own.opener[CN_HANDLE_MEMORY].flags);

	close_by_hand(socks[1], &handles[1], CN_MESSAGE_MEMORY_CLOSED);
	while (survey_own().openers[CN_HANDLE_MEMORY] != 1)
		sched_yield();
	ASSERT_EQ(1, survey_own().handles[CN_HANDLE_MEMORY].deferred_count); /* the first one has it */
	close_by_hand(socks[0], &handles[1], CN_MESSAGE_MEMORY_CLOSED);
	while (survey_own().handles[CN_HANDLE_MEMORY].deferred_count)
		sched_yield();
	own = survey_own();
	ASSERT_EQ(0, own.handles[CN_HANDLE_MEMORY].deferred_bytes);
	ASSERT_EQ(SHARE_MIB, own.opener[CN_HANDLE_MEMORY].held_bytes);
	close_by_hand(socks[0], &handles[0], CN_MESSAGE_MEMORY_CLOSED);
	ASSERT_OK(cuMemFree(memory[0]));
	while (survey_own().handles[CN_HANDLE_MEMORY].kind) /* nothing is left to tell */
		sched_yield();
	close(socks[0]);
	close(socks[1]);
}

static CUevent share_event(CUipcEventHandle *ret_handle)
{
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(ret_handle, event));
	return event;
}

/* Goal: the same of events; one whose connection ends has them no more. */
TEST(events_and_who_has_them_open)
{
	CUipcEventHandle handle;

	if (test_on_gpu())
		SKIP("events are the driver's");
	CUevent event = share_event(&handle);
	int sock = call_own();
	open_by_hand(sock, &handle, CN_MESSAGE_EVENT);
	open_by_hand(sock, &handle, CN_MESSAGE_EVENT);
	struct own_port own = survey_own();
	ASSERT_EQ(1, own.handles[CN_HANDLE_EVENT].shared_count);
	ASSERT_EQ(0, own.handles[CN_HANDLE_EVENT].shared_bytes);
	ASSERT_EQ(0, own.handles[CN_HANDLE_MEMORY].kind);
	ASSERT_EQ(1, own.openers[CN_HANDLE_EVENT]);
	ASSERT_EQ(2, own.opener[CN_HANDLE_EVENT].held_count); /* as often as it is open */
	ASSERT_OK(cuEventDestroy(event));
	own = survey_own();
	ASSERT_EQ(0, own.handles[CN_HANDLE_EVENT].shared_count);
	ASSERT_EQ(1, own.handles[CN_HANDLE_EVENT].deferred_count);
	ASSERT_EQ(2, own.opener[CN_HANDLE_EVENT].deferred_count);
	close(sock);
	while (survey_own().handles[CN_HANDLE_EVENT].kind)
		sched_yield();
}

/* Goal: of an opener of very much a bounded part is looked at, and the report says so. */
TEST(openers_of_very_much)
{
	enum { COUNT = 1500 };
	CUipcEventHandle handle;

	if (test_on_gpu())
		SKIP("events are the driver's");
	CUevent event = share_event(&handle);
	int sock = call_own();
	for (unsigned i = 0; i < COUNT; i++)
		open_by_hand(sock, &handle, CN_MESSAGE_EVENT);
	ASSERT_OK(cuEventDestroy(event));
	struct own_port own = survey_own();
	ASSERT_EQ(COUNT, own.opener[CN_HANDLE_EVENT].held_count);
	ASSERT_EQ(1024, own.opener[CN_HANDLE_EVENT].deferred_count);
	ASSERT_EQ(CN_REPORT_AT_LEAST, own.opener[CN_HANDLE_EVENT].flags);
	close(sock);
	while (survey_own().handles[CN_HANDLE_EVENT].kind)
		sched_yield();
}

/* Goal: what nobody asks ends the connection, and what is not there does not. */
TEST(questions_that_nobody_asks)
{
	CUmemoryPool pool = share_pool(POOL);
	close(share_export(pool));
	uint64_t id = survey_own().pool.id;
	const struct cn_parcel wrong[] = {
		question(0, 0, 0, 0, 0),
		question(CN_REPORT_HOLDER + 1, id, 0, 0, 0),
		question(UINT64_MAX, id, 0, 0, 0),
		question(CN_REPORT_CELLS, id, 0, 0, 0),
		question(CN_REPORT_CELLS, id, 0, CN_REPORT_CELLS_MAX + 1, 0),
		question(CN_REPORT_CELLS, id, 8, 8, 0),
		question(CN_REPORT_CELLS, id, UINT64_MAX, 8, 0),
		question(CN_REPORT_CELLS, id, 0, UINT64_MAX, 0),
	};
	const struct cn_parcel vain[] = {
		question(CN_REPORT_CELLS, id - 1, 0, 8, 0),      question(CN_REPORT_CELLS, 0, 0, 8, 0),
		question(CN_REPORT_HOLDER, id, 0, 0, 0),         question(CN_REPORT_HOLDER, id, UINT64_MAX, 0, 0),
		question(CN_REPORT_HOLDER, id + 1, 1, 0, 0),     question(CN_REPORT_HOLDER, 0, 0, 0, 0),
		question(CN_REPORT_HOLDER, 0, UINT64_MAX, 0, 0),
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		int sock = call_own();
		ASSERT_EQ(0, cn_wire_send(sock, &wrong[i]));
		expect_closed(sock);
	}
	int sock = call_own();
	for (size_t i = 0; i < sizeof vain / sizeof vain[0]; i++)
		ASSERT_EQ(CUDA_ERROR_NOT_FOUND, answer_to(sock, vain[i]).result);
	struct cn_parcel with_descriptor = question(CN_REPORT_REFRESH, 0, 0, 0, 0);
	ASSERT_EQ(0, answer_to(sock, with_descriptor).result);
	with_descriptor.descriptors[0] = STDERR_FILENO;
	with_descriptor.descriptor_count = 1;
	ASSERT_EQ(0, cn_wire_send(sock, &with_descriptor));
	expect_closed(sock);
	/* Nor does a look make the caller one that may give things back. */
	sock = call_own();
	ASSERT_EQ(0, answer_to(sock, question(CN_REPORT_REFRESH, 0, 0, 0, 0)).result);
	ASSERT_EQ(0, cn_wire_send(sock, &(struct cn_parcel){.message = {.kind = CN_MESSAGE_MEMORY_CLOSED}}));
	expect_closed(sock);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a caller that asks and does not read is sent away, and nothing waits for it. */
TEST(one_who_does_not_read_is_sent_away)
{
	struct cn_parcel request = question(CN_REPORT_REFRESH, 0, 0, 0, 0);
	int sock = call_own(), error;

	while (!(error = cn_wire_send(sock, &request)) || error == EAGAIN)
		sched_yield();
	ASSERT_EQ(EPIPE, error);
	close(sock);
	survey_own();
}

static void send_refresh(int sock)
{
	struct cn_parcel request = question(CN_REPORT_REFRESH, 0, 0, 0, 0);

	ASSERT_EQ(0, cn_wire_send(sock, &request));
}

/* The sequence number of the writing. */
static uint64_t receive_refresh(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel reply;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(sock, &reply));
	ASSERT_EQ(7, reply.message.request);
	ASSERT_OK(reply.message.result);
	return reply.message.words[0];
}

/* Goal: viewers that ask shortly after a writing that took long have one together. */
TEST(many_viewers_have_one_writing, .timeout_ms = 60000)
{
	CUmemoryPool pool = share_pool(POOL);
	uint64_t first, second;
	int socks[3];

	close(share_export(pool));
	for (int i = 0; i < 3; i++)
		socks[i] = call_own();
	struct cn_export *export = cn_export_after(0);
	do {                            /* until both have come before the service thread has rested */
		cn_lock(&export->lock); /* the writing takes long */
		send_refresh(socks[0]);
		for (uint64_t start_ns = cn_clock_ns(); cn_clock_ns() - start_ns < 20 * CN_MILLISECOND_NS;)
			sched_yield();
		cn_unlock(&export->lock);
		uint64_t before = receive_refresh(socks[0]);
		send_refresh(socks[1]);
		send_refresh(socks[2]);
		first = receive_refresh(socks[1]);
		second = receive_refresh(socks[2]);
		ASSERT_LT(before, first);
	} while (first != second);
	for (int i = 0; i < 3; i++)
		close(socks[i]);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: when the program has closed the file's descriptor and opened another file, nothing is written there. */
TEST(a_foreign_file_is_not_written)
{
	CUmemoryPool pool = share_pool(POOL);
	int foreign = open(test_path("foreign"), O_RDWR | O_CREAT | O_CLOEXEC, 0600), replaced = 0;
	char file[CN_SOCKET_NAME_CHARS + 8];
	struct stat facts;

	close(share_export(pool));
	int sock = call_own();
	snprintf(file, sizeof file, "%s.lock", survey_own().name);
	ASSERT_SYS(foreign);
	for (int fd = 3; fd < 64; fd++) {
		char link[64], target[4096] = "";
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof target - 1) > 0 && !strcmp(basename(target), file)) {
			ASSERT_SYS(dup3(foreign, fd, O_CLOEXEC));
			replaced = fd;
		}
	}
	ASSERT_NE(0, replaced);
	ASSERT_EQ(CUDA_ERROR_OPERATING_SYSTEM, answer_to(sock, question(CN_REPORT_REFRESH, 0, 0, 0, 0)).result);
	ASSERT_SYS(fstat(foreign, &facts));
	ASSERT_EQ(0, facts.st_size);
	close(sock);
	close(replaced);
	close(foreign);
	ASSERT_SYS(unlink(test_path("foreign")));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: words of all kinds are answered or end the connection, and the process lives on. */
TEST(random_words)
{
	struct test_random random = test_random_start(3);
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr blocks[64];
	for (unsigned i = 0; i < 64; i++)
		blocks[i] = share_allocate(pool, 512 + 512 * test_random_below(&random, 200), NULL);
	close(share_export(pool));
	for (unsigned i = 0; i < 64; i += 2)
		share_name(blocks[i]);
	for (unsigned i = 0; i < 64; i += 3)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	uint64_t id = survey_own().pool.id;
	int sock = call_own();
	for (int round = 0; round < 20000 / HARNESS_SLOWDOWN; round++) {
		struct cn_parcel request = question(CN_REPORT_CELLS, id, test_random_below(&random, 1200), 1024, 0);
		struct cn_parcel reply;
		if (test_random_below(&random, 4) == 0)
			request.message.words[test_random_below(&random, 9)] =
				test_random_below(&random, UINT64_MAX) >> test_random_below(&random, 64);
		request.message.words[CN_REPORT_CURSOR] =
			test_random_below(&random, UINT64_MAX) >> test_random_below(&random, 64);
		int error = try_ask(sock, &request, &reply);
		if (!error) {
			ASSERT_EQ(0, reply.descriptor_count);
			continue;
		}
		ASSERT_EQ(EPIPE, error);
		close(sock);
		ASSERT_OK(connect_name(survey_own().name, &sock));
	}
	close(sock);
	for (unsigned i = 0; i < 64; i++)
		if (i % 3)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a picture of many small blocks is one of the whole pool, whichever free place its cells begin in. */
TEST(a_picture_of_many_blocks)
{
	enum { COUNT = 4096, CELLS = 256 };
	static CUdeviceptr blocks[COUNT];
	struct cn_survey_cell cells[CELLS];
	CUmemoryPool pool = share_pool(4 * (size_t)POOL);
	uint64_t bytes;

	for (unsigned i = 0; i < COUNT; i++)
		blocks[i] = share_allocate(pool, 16384, NULL);
	close(share_export(pool));
	uint64_t id = survey_own().pool.id;
	ASSERT_OK(cn_survey_picture(id, cells, CELLS, &bytes));
	ASSERT_EQ(2 * (uint64_t)POOL, bytes);
	for (unsigned i = 0; i < CELLS; i++)
		ASSERT_EQ(CN_POOL_CELL_LIVE, cells[i].kind);
	for (unsigned i = COUNT / 4; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL)); /* the threshold is 0: whole chunks are given back */
	ASSERT_OK(cn_survey_picture(id, cells, CELLS, &bytes));
	for (unsigned i = 0; i < CELLS; i++) {
		char wanted = i < CELLS / 4 ? CN_POOL_CELL_LIVE : i < CELLS / 2 ? CN_POOL_CELL_FREE : CN_POOL_CELL_HOLE;
		ASSERT_EQ(wanted, cells[i].kind);
	}
	for (unsigned i = 0; i < COUNT / 4; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: the calls of cenote.h refuse what they do not know before anybody is asked. */
TEST(arguments)
{
	cenote_cell cell;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_survey(1, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_survey(0, NULL, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_survey_picture(5, NULL, 1, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_survey_picture(5, &cell, 0, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_survey_picture(5, &cell, CENOTE_CELLS_MAX + 1, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_survey_picture(5, &cell, 1, NULL));
	ASSERT_CONTAINS("0000000000000005", cenote_last_error());
}

/* ---- Both at once ---- */

static void ignore(const struct cn_survey_found *found, void *data)
{
	struct cn_survey_cell cells[16];
	uint64_t bytes;

	(void)data;
	if (found->pool && !found->importer) /* it may be gone by now */
		(void)cn_survey_picture(found->pool->id, cells, 16, &bytes);
}

static void *survey_until_told(void *data)
{
	_Atomic bool *end = data;

	while (!atomic_load(end))
		ASSERT_OK(cn_survey(ignore, NULL));
	return NULL;
}

/* Goal: a look while pools, blocks and importers come and go sees something, and changes nothing. */
TEST(a_survey_while_things_come_and_go, .timeout_ms = 60000)
{
	_Atomic bool end = false;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, survey_until_told, &end));
	for (int round = 0; round < 200 / HARNESS_SLOWDOWN; round++) {
		CUmemoryPool pool = share_pool(POOL);
		CUdeviceptr blocks[8];
		struct cn_segment ledger;
		struct cn_parcel welcome;
		for (unsigned i = 0; i < 8; i++)
			blocks[i] = share_allocate(pool, BLOCK, NULL);
		close(share_export(pool));
		for (unsigned i = 0; i < 8; i += 2)
			share_name(blocks[i]);
		int sock = join_pool(pool, &ledger, &welcome);
		for (unsigned i = 0; i < 8; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		cn_wire_close(&welcome);
		close(sock);
		cn_segment_close(&ledger);
		ASSERT_OK(cuMemPoolDestroy(pool));
	}
	atomic_store(&end, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	while (survey_own().pools)
		sched_yield();
}
