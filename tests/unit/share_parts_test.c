/* SPDX-License-Identifier: MIT */
/*
 * Shared pools whose memory comes in parts: blocks over several parts, parts that lose their memory and get other
 * memory, and importers that map and unmap what they need of it.
 *
 * The device is the host's with arenas cut into parts. An importer reports over a pipe, in order, what it maps and
 * unmaps; at its end it must have reported nothing but what the test has read.
 */
#include "parts_device.h"
#include "share_fake.h"

#include "driver/common/mempool.h"
#include "share/pool/export_internal.h"

#include <sys/wait.h>

enum { MIB = SHARE_MIB, PART = PART_BYTES, RANGE_PARTS = 8, RANGE = RANGE_PARTS * PART };
_Static_assert((int)PART == (int)CN_PART_BYTES, "as the protocol has it");

SETUP
{
	ASSERT_OK(cuInit(0));
	parts_start();
	share_start();
}

/* ---- Processes --------------------------------------------------------------------------------------------------- */

/* An agent that reports what it maps. */
ROLE(telling_agent)
{
	int fd = peer_receive_descriptor(parent);

	parts_tell_to(fd);
	role_agent(parent, argc, argv);
	parts_tell_to(-1);
	close(fd);
}

struct importer {
	struct peer *agent;
	int told;
};

static struct importer start_importer(CUmemoryPool pool)
{
	struct importer importer = {.agent = peer_start("telling_agent")};
	int ends[2], descriptor = share_export(pool);

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	importer.told = ends[0];
	peer_send_descriptor(importer.agent, ends[1]);
	close(ends[1]);
	agent_import(importer.agent, 0, descriptor);
	close(descriptor);
	return importer;
}

static void end_importer(struct importer *importer)
{
	char byte;

	agent_destroy(importer->agent, 0);
	agent_end(importer->agent);
	ASSERT_EQ(0, read(importer->told, &byte, 1)); /* all was read */
	close(importer->told);
}

/* A pool that gives memory back only when it is trimmed. */
static CUmemoryPool make_pool(void)
{
	CUmemoryPool pool = share_pool(RANGE);
	cuuint64_t threshold = UINT64_MAX;

	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	return pool;
}

static void set_byte(CUdeviceptr address, unsigned value)
{
	unsigned char byte = (unsigned char)value;

	ASSERT_OK(cuMemcpyHtoD(address, &byte, 1));
}

static void trim(CUmemoryPool pool)
{
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
}

/* A block that is a whole part, with its first byte set. */
static CUdeviceptr whole_part(CUmemoryPool pool, unsigned value)
{
	CUdeviceptr block = share_allocate(pool, PART, NULL);

	ASSERT_EQ(0, block % PART);
	set_byte(block, value);
	return block;
}

/* Free a block in an importer; its stream has passed the free. */
static void free_there(const struct importer *importer, unsigned block)
{
	agent_free(importer->agent, block);
	agent_synchronize(importer->agent);
}

static void end_pool(CUmemoryPool pool)
{
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
	while (share_is_mapped()) /* the service thread takes it apart */
		sched_yield();
}

/* ---- Parts come and go ------------------------------------------------------------------------------------------- */

/* Goal: a block that lies in several parts is imported whole, and each part is mapped once. */
TEST(a_block_over_several_parts)
{
	enum { BYTES = 80 * MIB };
	CUmemoryPool pool = make_pool();
	struct importer importer = start_importer(pool);
	CUdeviceptr small = share_allocate(pool, MIB, NULL), large = share_allocate(pool, BYTES, NULL);
	CUdeviceptr base = small / PART * PART;
	unsigned first = (unsigned)((large - base) / PART), last = (unsigned)((large + BYTES - 1 - base) / PART);

	ASSERT_LE(2, last - first);
	set_byte(large, 1);
	set_byte(large + BYTES - 1, 2);
	for (unsigned part = first + 1; part <= last; part++) {
		set_byte(base + (CUdeviceptr)part * PART - 1, 10 + part);
		set_byte(base + (CUdeviceptr)part * PART, 20 + part);
	}
	agent_take(importer.agent, 0, share_name(large));
	for (unsigned part = first; part <= last; part++)
		parts_expect(importer.told, 'M', part);
	ASSERT_EQ(1, agent_byte(importer.agent, 0, 0));
	ASSERT_EQ(2, agent_byte(importer.agent, 0, BYTES - 1));
	for (unsigned part = first + 1; part <= last; part++) {
		uint64_t border = base + (CUdeviceptr)part * PART - large;
		ASSERT_EQ(10 + part, agent_byte(importer.agent, 0, border - 1));
		ASSERT_EQ(20 + part, agent_byte(importer.agent, 0, border));
	}
	agent_fill(importer.agent, 0, 0x5a, BYTES);
	for (uint64_t at = 0; at < BYTES; at += MIB)
		ASSERT_EQ(0x5a, share_byte(large + at));
	agent_take(importer.agent, 1, share_name(small)); /* maps nothing new, if the two share a part */
	if (first)
		parts_expect(importer.told, 'M', 0);
	agent_free(importer.agent, 0);
	free_there(&importer, 1);
	end_importer(&importer);
	ASSERT_OK(cuMemFreeAsync(small, NULL));
	ASSERT_OK(cuMemFreeAsync(large, NULL));
	end_pool(pool);
}

/* Goal: importers unmap a part that has lost its memory, and no other; its offset can have other memory. */
TEST(parts_that_lose_their_memory)
{
	CUmemoryPool pool = make_pool();
	struct importer importer = start_importer(pool);
	CUdeviceptr blocks[3];
	CUmemPoolPtrExportData names[3];

	for (unsigned i = 0; i < 3; i++) {
		blocks[i] = whole_part(pool, 1 + i);
		names[i] = share_name(blocks[i]);
		agent_take(importer.agent, i, names[i]);
		parts_expect(importer.told, 'M', i);
	}
	CUdeviceptr base = blocks[0];
	free_there(&importer, 1);
	ASSERT_OK(cuMemFreeAsync(blocks[1], NULL));
	trim(pool);
	parts_expect(importer.told, 'U', 1);
	ASSERT_EQ(1, agent_byte(importer.agent, 0, 0));
	ASSERT_EQ(3, agent_byte(importer.agent, 2, 0));
	free_there(&importer, 0);
	trim(pool); /* does nothing: the block is still live here */
	ASSERT_OK(cuMemFreeAsync(blocks[0], NULL));
	trim(pool);
	parts_expect(importer.told, 'U', 0);
	for (unsigned round = 0; round < 5; round++) { /* the same offsets, other memory */
		CUdeviceptr block = whole_part(pool, 50 + round);
		struct agent_order order = {.call = AGENT_TAKE, .block = 1, .name = names[round % 2]};
		struct agent_answer answer;
		agent_take(importer.agent, 0, share_name(block));
		parts_expect(importer.told, 'M', (unsigned)((block - base) / PART));
		ASSERT_EQ(50 + round, agent_byte(importer.agent, 0, 0));
		answer = agent_do(importer.agent, &order, -1); /* an old name is refused */
		ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, answer.result);
		free_there(&importer, 0);
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		trim(pool);
		parts_expect(importer.told, 'U', (unsigned)((block - base) / PART));
	}
	free_there(&importer, 2);
	ASSERT_OK(cuMemFreeAsync(blocks[2], NULL));
	end_importer(&importer);
	end_pool(pool);
}

struct stop {
	struct cn_job job;
	struct cn_export *export;
};

/* On the service thread, which does nothing else until the only importer asks for something. */
static void wait_for_question(struct cn_job *job)
{
	const struct stop *stop = (struct stop *)job;
	struct pollfd wanted = {.fd = stop->export->importers->channel.fd, .events = POLLIN};

	ASSERT_EQ(1, poll(&wanted, 1, -1));
}

/* Goal: an importer that meets other memory before it was told does not take it for the old. */
TEST(other_memory_before_the_news)
{
	CUmemoryPool pool = make_pool();
	struct importer importer = start_importer(pool);
	CUdeviceptr block = whole_part(pool, 1), other;
	struct stop stop = {.job = {.run = wait_for_question}};
	struct cn_mempool *record;

	agent_take(importer.agent, 0, share_name(block));
	parts_expect(importer.told, 'M', 0);
	free_there(&importer, 0);
	ASSERT_OK(cn_mempool_get(pool, &record));
	stop.export = record->export;
	cn_service_post(&stop.job); /* from now on no importer is told anything */
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	trim(pool);
	other = whole_part(pool, 2);
	ASSERT_EQ(block, other);
	agent_take(importer.agent, 0, share_name(other));
	parts_expect(importer.told, 'U', 0);
	parts_expect(importer.told, 'M', 0);
	ASSERT_EQ(2, agent_byte(importer.agent, 0, 0));
	free_there(&importer, 0);
	end_importer(&importer);
	ASSERT_OK(cuMemFreeAsync(other, NULL));
	end_pool(pool);
}

/* Goal: memory in which an importer holds a block stays, also for those that hold nothing in it. */
TEST(a_holder_keeps_the_memory)
{
	CUmemoryPool pool = make_pool();
	struct importer holder = start_importer(pool), other = start_importer(pool);
	CUdeviceptr block = whole_part(pool, 7), next;

	agent_take(holder.agent, 0, share_name(block));
	agent_take(other.agent, 0, share_name(block));
	parts_expect(holder.told, 'M', 0);
	parts_expect(other.told, 'M', 0);
	free_there(&other, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	trim(pool);
	ASSERT_EQ(PART, share_used(pool));
	next = whole_part(pool, 8);
	ASSERT_NE(block, next);
	ASSERT_EQ(7, agent_byte(holder.agent, 0, 0));
	free_there(&holder, 0);
	share_await_used(pool, PART);
	trim(pool);
	parts_expect(holder.told, 'U', 0);
	parts_expect(other.told, 'U', 0);
	end_importer(&holder);
	end_importer(&other);
	ASSERT_OK(cuMemFreeAsync(next, NULL));
	end_pool(pool);
}

/* Take a block and give it back, here too; its part loses its memory, and the importer was told. */
static void lose_a_part(CUmemoryPool pool, const struct importer *importer)
{
	CUdeviceptr block = whole_part(pool, 1);

	agent_take(importer->agent, 0, share_name(block));
	parts_expect(importer->told, 'M', 0);
	free_there(importer, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	trim(pool);
	parts_expect(importer->told, 'U', 0);
}

/* Goal: an importer that does not look gets one message, however many parts go: its channel does not fill. */
TEST(one_message_until_it_was_seen)
{
	CUmemoryPool pool = make_pool();
	struct importer importer = start_importer(pool);
	struct cn_segment ledger;
	struct cn_parcel welcome, parcel;
	int sock = join_pool(pool, &ledger, &welcome); /* newer than the importer, and so told before it */
	struct pollfd wanted = {.fd = sock, .events = POLLIN};

	for (unsigned i = 0; i < 10; i++)
		lose_a_part(pool, &importer);
	parcel = receive_parcel(sock);
	ASSERT_EQ(CN_MESSAGE_PARTS, parcel.message.kind);
	ASSERT_EQ(1, parcel.message.words[0]);
	ASSERT_EQ(0, poll(&wanted, 1, 0));
	atomic_store(&((struct cn_ledger *)ledger.address)->parts_seen, 1);
	lose_a_part(pool, &importer);
	parcel = receive_parcel(sock);
	ASSERT_EQ(CN_MESSAGE_PARTS, parcel.message.kind);
	ASSERT_EQ(2, parcel.message.words[0]);
	close(sock);
	cn_wire_close(&welcome);
	cn_segment_close(&ledger);
	end_importer(&importer);
	end_pool(pool);
}

/* Goal: when the exporter has died, an importer keeps the memory that it holds, and only that. */
TEST(an_orphan_keeps_what_it_holds)
{
	int descriptor, ends[2];
	struct peer *exporter = agent_exporter(RANGE, &descriptor);
	CUmemoryPool pool = share_import(descriptor);
	CUdeviceptr blocks[3];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	parts_tell_to(ends[1]);
	for (unsigned i = 0; i < 3; i++) {
		blocks[i] = share_take(pool, agent_allocate(exporter, i, PART, 1 + i));
		parts_expect(ends[0], 'M', i);
	}
	ASSERT_OK(cuMemFreeAsync(blocks[1], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	peer_kill(exporter);
	parts_expect(ends[0], 'U', 1);
	ASSERT_EQ(1, share_byte(blocks[0] + PART - 1));
	ASSERT_EQ(3, share_byte(blocks[2]));
	ASSERT_OK(cuMemFreeAsync(blocks[0], NULL));
	parts_expect(ends[0], 'U', 0);
	ASSERT_EQ(3, share_byte(blocks[2] + PART - 1));
	ASSERT_OK(cuMemFreeAsync(blocks[2], NULL));
	parts_expect(ends[0], 'U', 2);
	ASSERT_OK(cuMemPoolDestroy(pool));
	parts_tell_to(-1);
	close(ends[0]);
	close(ends[1]);
	close(descriptor);
}

/* ---- Where use does not end with the mapping --------------------------------------------------------------------- */

/* Hold a block, then exec a program that has nothing of ours mapped and ends with its input. */
ROLE(becomes_another)
{
	CUmemPoolPtrExportData name;
	int descriptor = peer_receive_descriptor(parent), input = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);

	peer_receive_bytes(parent, &name, sizeof name);
	share_take(pool, name);
	peer_send(parent, "held");
	ASSERT_SYS(dup2(input, STDIN_FILENO));
	ASSERT_SYS(execlp("cat", "cat", (char *)NULL));
}

static size_t importer_count(CUmemoryPool pool, cenote_importer *ret_first)
{
	size_t count;

	ASSERT_OK(cenote_pool_importers(pool, ret_first, sizeof *ret_first, 1, &count));
	return count;
}

/* Start one and free what it holds; once the service thread has seen it leave, how much is still held? */
static void leave_by_exec(bool use_ends_with_mapping, uint64_t expected_bytes)
{
	parts_ops.use_ends_with_mapping = use_ends_with_mapping;
	CUmemoryPool pool = make_pool();
	CUdeviceptr block = whole_part(pool, 1);
	struct peer *peer = peer_start("becomes_another");
	int ends[2], descriptor = share_export(pool);
	CUmemPoolPtrExportData name = share_name(block);
	cenote_importer importer = {.leaving = 0};

	leaks_forgive_names(1); /* the new program does not know of its name */
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_send_descriptor(peer, ends[0]);
	close(ends[0]);
	peer_send_bytes(peer, &name, sizeof name);
	peer_expect(peer, "held");
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	while (importer_count(pool, &importer) && !(expected_bytes && importer.leaving))
		sched_yield();
	ASSERT_EQ(expected_bytes, share_used(pool)); /* and the process still lives */
	close(ends[1]);
	peer_wait(peer);
	end_pool(pool);
}

/* Goal: what an importer held is kept until its process is gone, even if nothing is mapped there any more. */
TEST(use_that_ends_with_the_process)
{
	leave_by_exec(false, PART);
}

/* Goal: where memory cannot be used without a mapping, it is not kept. */
TEST(use_that_ends_with_the_mapping)
{
	leave_by_exec(true, 0);
}

/* Goal: a process that has ended its import is forgotten while it lives, also on such a device. */
TEST(an_import_that_has_ended)
{
	parts_ops.use_ends_with_mapping = false;
	CUmemoryPool pool = make_pool();
	struct importer importer = start_importer(pool);
	CUdeviceptr block = whole_part(pool, 1);
	cenote_importer facts;

	agent_take(importer.agent, 0, share_name(block));
	parts_expect(importer.told, 'M', 0);
	free_there(&importer, 0);
	agent_destroy(importer.agent, 0);
	while (importer_count(pool, &facts))
		sched_yield();
	agent_end(importer.agent);
	close(importer.told);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	end_pool(pool);
}

/* ---- Hostile exporters ------------------------------------------------------------------------------------------- */

struct stage {
	struct cn_segment segment;
	struct cn_control *control;
	int memory[2], ends[2];
	struct fake fake;
	CUmemoryPool pool;
};

/* A fake pool of some parts, with two files to be their memory; each begins with its number plus one. */
static void stage_start(struct stage *stage,
			void (*change)(struct fake *fake, const struct cn_message *request, struct cn_parcel *answer))
{
	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &stage->segment));
	stage->control = stage->segment.address;
	for (unsigned i = 0; i < 2; i++) {
		unsigned char byte = (unsigned char)(1 + i);
		stage->memory[i] = memory_file(RANGE, 0, F_SEAL_SHRINK | F_SEAL_GROW);
		for (unsigned part = 0; part < RANGE_PARTS; part++)
			ASSERT_EQ(1, pwrite(stage->memory[i], &byte, 1, (off_t)part * PART));
	}
	ASSERT_SYS(pipe2(stage->ends, O_CLOEXEC));
	parts_tell_to(stage->ends[1]);
	stage->fake = good_fake(stage->segment.fd, stage->memory[0], RANGE);
	stage->fake.change = change;
	fake_start(&stage->fake);
	stage->pool = share_import(stage->fake.path);
}

static void stage_end(struct stage *stage)
{
	char byte;

	ASSERT_OK(cuMemPoolDestroy(stage->pool));
	fake_stop(&stage->fake);
	parts_tell_to(-1);
	close(stage->ends[1]);
	ASSERT_EQ(0, read(stage->ends[0], &byte, 1)); /* all was read */
	close(stage->ends[0]);
	close(stage->memory[0]);
	close(stage->memory[1]);
	cn_segment_close(&stage->segment);
}

static void free_block(CUdeviceptr address)
{
	ASSERT_OK(cuMemFreeAsync(address, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

static void expect_refused(const struct stage *stage, uint64_t slot)
{
	CUmemPoolPtrExportData name = fake_name(slot, 1);
	CUdeviceptr address;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, stage->pool, &name));
	ASSERT_NE(0, strlen(cenote_last_error()));
}

static struct cn_control *lies_control;
static _Atomic unsigned lie;

enum { LIES = 12 };

/* Answers to a request for the part at PART. */
static void tell_lies(struct fake *fake, const struct cn_message *request, struct cn_parcel *answer)
{
	static const uint64_t lies[][3] = {
		{PART, PART, 0},                     /* no serial */
		{PART, PART, FAKE_SERIAL + 1},       /* not the one that is shown */
		{PART, PART, UINT64_MAX},            /* nor is this */
		{PART - 2 * MIB, PART, FAKE_SERIAL}, /* does not begin where a part begins */
		{PART, PART + 2 * MIB, FAKE_SERIAL}, /* does not end where one ends */
		{PART, 0, FAKE_SERIAL},              /* empty */
		{0, PART, FAKE_SERIAL},              /* another part */
		{2 * PART, PART, FAKE_SERIAL},       /* another part */
		{PART, RANGE, FAKE_SERIAL},          /* beyond the range */
		{PART, UINT64_MAX - PART + 1, FAKE_SERIAL},
		{UINT64_MAX - PART + 1, 3 * PART, FAKE_SERIAL},
	};
	unsigned which = atomic_load(&lie);

	(void)fake, (void)request;
	if (which < LIES - 1) {
		memcpy(answer->message.words, lies[which], sizeof lies[which]);
	} else { /* always what was shown before */
		answer->message.words[0] = answer->message.words[1] = PART;
		answer->message.words[2] = atomic_fetch_add(&lies_control->serials[1], 1);
	}
}

/* Goal: memory that is not as shown, or lies at a wrong offset, is refused; nor is it asked for without end. */
TEST(parts_that_are_not_as_shown)
{
	struct stage stage;

	stage_start(&stage, tell_lies);
	lies_control = stage.control;
	for (unsigned which = 0; which < LIES; which++) {
		atomic_store(&lie, which);
		atomic_store(&stage.fake.asked_count, 0);
		show(stage.control, 1, PART, MIB);
		expect_refused(&stage, 1);
		ASSERT_LE(1, stage.fake.asked_count);
		ASSERT_LE(stage.fake.asked_count, 8);
	}
	atomic_store(&stage.control->serials[1], 0); /* no memory is there, by the exporter's own words */
	expect_refused(&stage, 1);
	stage_end(&stage);
}

/* Answers by the serial that is shown: FAKE_SERIAL is the whole range, another is the part alone, with other memory. */
static struct stage *shapes_stage;

static void by_serial(struct fake *fake, const struct cn_message *request, struct cn_parcel *answer)
{
	uint64_t index = request->words[0] / PART, serial = atomic_load(&shapes_stage->control->serials[index]);

	(void)fake;
	if (serial == FAKE_SERIAL)
		return;
	answer->message.words[0] = index * PART;
	answer->message.words[1] = PART;
	answer->message.words[2] = serial;
	answer->descriptors[0] = shapes_stage->memory[1];
}

/* Goal: what is held is never unmapped, whatever the exporter shows; what is not held is replaced. */
TEST(parts_that_lie_on_each_other)
{
	struct stage stage;
	CUdeviceptr first, second;

	shapes_stage = &stage;
	stage_start(&stage, by_serial);
	show(stage.control, 1, 0, MIB);
	show(stage.control, 2, PART, MIB);
	first = share_take(stage.pool, fake_name(1, 1));
	parts_expect(stage.ends[0], 'M', 0);
	atomic_store(&stage.control->serials[1], FAKE_SERIAL + 1);
	expect_refused(&stage, 2);
	ASSERT_EQ(1, share_byte(first));
	atomic_store(&stage.control->serials[1], FAKE_SERIAL);
	second = share_take(stage.pool, fake_name(2, 1)); /* in what is mapped already */
	free_block(first);
	atomic_store(&stage.control->serials[0], FAKE_SERIAL + 1);
	expect_refused(&stage, 1);
	ASSERT_EQ(1, share_byte(second));
	free_block(second);

	atomic_store(&stage.control->serials[1], FAKE_SERIAL + 1);
	second = share_take(stage.pool, fake_name(2, 1));
	parts_expect(stage.ends[0], 'U', 0);
	parts_expect(stage.ends[0], 'M', 1);
	ASSERT_EQ(2, share_byte(second));
	atomic_store(&stage.control->serials[0], FAKE_SERIAL);
	expect_refused(&stage, 1); /* the whole range, while a part of it is held */
	free_block(second);
	first = share_take(stage.pool, fake_name(1, 1));
	parts_expect(stage.ends[0], 'U', 1);
	parts_expect(stage.ends[0], 'M', 0);
	free_block(first);
	stage_end(&stage);
}

/* Goal: messages about parts that are held, or about impossible parts, change nothing for what is held. */
TEST(news_of_what_is_held)
{
	struct stage stage;
	struct cn_parcel news = parcel_of(CN_MESSAGE_PARTS, -1);
	CUdeviceptr held, other;

	shapes_stage = &stage;
	stage_start(&stage, by_serial);
	show(stage.control, 1, 0, MIB);
	show(stage.control, 2, PART, MIB);
	atomic_store(&stage.control->serials[0], FAKE_SERIAL + 1);
	atomic_store(&stage.control->serials[1], FAKE_SERIAL + 1);
	held = share_take(stage.pool, fake_name(1, 1));
	parts_expect(stage.ends[0], 'M', 0);
	atomic_store(&stage.control->serials[0], 0);
	news.descriptors[0] = stage.memory[0];
	for (unsigned i = 0; i < 1000; i++) {
		news.message.words[0] = i * 0x123456789abcdef1ull;
		news.descriptor_count = i % 2;
		fake_say(&stage.fake, news);
	}
	other = share_take(stage.pool, fake_name(2, 1)); /* the answer came after the message */
	parts_expect(stage.ends[0], 'M', 1);
	ASSERT_EQ(2, share_byte(held));
	free_block(held);
	fake_say(&stage.fake, news);
	parts_expect(stage.ends[0], 'U', 0);
	ASSERT_EQ(2, share_byte(other));
	free_block(other);
	stage_end(&stage);
}

/* ---- All at once ------------------------------------------------------------------------------------------------- */

enum { CELLS = 6, READERS = 2 };

struct cell {
	pthread_mutex_t lock;
	CUdeviceptr block; /* the exporter's own */
	CUmemPoolPtrExportData name;
	size_t bytes;
	uint32_t value; /* its first and its last word; 0: the cell is empty */
};

struct scene {
	struct cell cells[CELLS];
	CUmemoryPool pool, imported;
	CUcontext context;
	_Atomic bool over;
	_Atomic unsigned long taken, stale;
};

struct reader {
	struct scene *scene;
	unsigned number;
	pthread_t thread;
};

static uint32_t word_at(CUdeviceptr address)
{
	uint32_t word;

	ASSERT_OK(cuMemcpyDtoH(&word, address, sizeof word));
	return word;
}

/* Import what a cell names, if it is still live, and check it; it must not change until it is freed here. */
static void *read_cells(void *data)
{
	struct reader *reader = data;
	struct scene *scene = reader->scene;
	struct test_random random = test_random_start(100 + reader->number);

	ASSERT_OK(cuCtxSetCurrent(scene->context));
	CUstream stream = share_stream();
	while (!atomic_load(&scene->over)) {
		struct cell *cell = &scene->cells[test_random_below(&random, CELLS)];
		CUdeviceptr taken;
		pthread_mutex_lock(&cell->lock);
		CUmemPoolPtrExportData name = cell->name;
		uint32_t value = cell->value;
		size_t bytes = cell->bytes;
		pthread_mutex_unlock(&cell->lock);
		if (!value)
			continue;
		CUresult result = cuMemPoolImportPointer(&taken, scene->imported, &name);
		if (result) {
			ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, result);
			ASSERT_CONTAINS("the exporter has freed", cenote_last_error());
			scene->stale++;
			continue;
		}
		scene->taken++;
		ASSERT_EQ(value, word_at(taken));
		ASSERT_EQ(value, word_at(taken + bytes - sizeof value));
		ASSERT_OK(cuMemFreeAsync(taken, stream));
	}
	ASSERT_OK(cuStreamDestroy(stream));
	return NULL;
}

/* Fill a cell, or empty it; sometimes give memory back. */
static void change_cell(struct scene *scene, struct cell *cell, uint32_t value, struct test_random *random)
{
	static const size_t sizes[] = {MIB, PART, 40 * MIB, 70 * MIB};
	size_t bytes = sizes[test_random_below(random, 4)];
	CUdeviceptr block = cell->block;

	if (block) {
		bool first = test_random_below(random, 2);
		pthread_mutex_lock(&cell->lock);
		cell->value = first ? 0 : cell->value; /* or its name is still offered when it is stale */
		cell->block = 0;
		pthread_mutex_unlock(&cell->lock);
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		if (test_random_below(random, 2))
			trim(scene->pool);
		return;
	}
	if (cuMemAllocFromPoolAsync(&block, bytes, scene->pool, NULL))
		return; /* deferred blocks fill the pool */
	ASSERT_OK(cuMemcpyHtoD(block, &value, sizeof value));
	ASSERT_OK(cuMemcpyHtoD(block + bytes - sizeof value, &value, sizeof value));
	CUmemPoolPtrExportData name = share_name(block);
	pthread_mutex_lock(&cell->lock);
	cell->block = block;
	cell->name = name;
	cell->bytes = bytes;
	cell->value = value;
	pthread_mutex_unlock(&cell->lock);
}

/* Goal: an imported block is the one that was named, while blocks, parts and mappings come and go. */
TEST(blocks_come_and_go_with_their_memory, .timeout_ms = 60000, .soak = true)
{
	static struct scene scene;
	struct reader readers[READERS];
	struct test_random random = test_random_start(1);
	int descriptor;

	scene.pool = make_pool();
	descriptor = share_export(scene.pool);
	scene.imported = share_import(descriptor);
	close(descriptor);
	ASSERT_OK(cuCtxGetCurrent(&scene.context));
	for (unsigned i = 0; i < CELLS; i++)
		pthread_mutex_init(&scene.cells[i].lock, NULL);
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct reader){.scene = &scene, .number = i};
		ASSERT_EQ(0, pthread_create(&readers[i].thread, NULL, read_cells, &readers[i]));
	}
	for (unsigned long i = 0; soak_goes_on(i, 4000 / HARNESS_SLOWDOWN) || !scene.taken || !scene.stale; i++)
		change_cell(&scene, &scene.cells[test_random_below(&random, CELLS)], (uint32_t)i + 1, &random);
	atomic_store(&scene.over, true);
	for (unsigned i = 0; i < READERS; i++)
		ASSERT_EQ(0, pthread_join(readers[i].thread, NULL));
	for (unsigned i = 0; i < CELLS; i++)
		if (scene.cells[i].block)
			ASSERT_OK(cuMemFreeAsync(scene.cells[i].block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	share_await_used(scene.pool, 0);
	ASSERT_OK(cuMemPoolDestroy(scene.imported));
	end_pool(scene.pool);
}
