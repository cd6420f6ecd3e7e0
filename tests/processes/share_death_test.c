/* SPDX-License-Identifier: MIT */
/*
 * Processes that end, stop or fork in the middle of sharing a pool: what the others have afterwards.
 *
 * After each death the survivor works, its pool has its blocks back, and its descriptors, mappings and threads are
 * those that it had.
 */
#include "../share.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>

SETUP
{
	share_start();
}

enum { BLOCK = SHARE_MIB, POOL = SHARE_CHUNK, BLOCKS = POOL / BLOCK, RANDOM_ROUNDS = 30, SPARE_THREADS = 3 };

/*
 * Memory files that are mapped or open here, and threads: what an importer costs its exporter, and the other way
 * round.
 */
struct things {
	unsigned descriptors, mappings, threads;
};

static struct things things_now(void)
{
	if (test_on_gpu()) /* whose driver opens and maps things meanwhile: they are counted at the test's end */
		return (struct things){0};
	return (struct things){
		.descriptors = test_descriptor_count(),
		.mappings = test_mapping_count("/memfd:cenote"),
		.threads = test_file_count("/proc/self/task"),
	};
}

/* Until the service thread has cleared away. Threads that run streams stay a while, however often that happens. */
static void await_things(struct things before)
{
	struct things now;

	do {
		sched_yield();
		now = things_now();
	} while (now.descriptors != before.descriptors || now.mappings != before.mappings ||
		 now.threads > before.threads + SPARE_THREADS);
}

/* Whatever the pool had exported is free, and no importer holds it: all of it can be allocated, and shared again. */
static void check_exporter(CUmemoryPool pool)
{
	share_await_used(pool, 0);
	share_fill_whole(pool, POOL, BLOCK, 0);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);
	CUdeviceptr taken = share_take(imported, share_name(block));
	close(descriptor);
	share_fill(block, 0x7e, BLOCK);
	ASSERT_EQ(0x7e, share_byte(taken + BLOCK - 1));
	ASSERT_OK(cuMemFreeAsync(taken, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(imported));
	share_await_used(pool, 0);
}

/* ---- Importers --------------------------------------------------------------------------------------------------- */

enum importer_step {
	CONNECTED,
	IMPORTED,
	TAKEN,
	TAKEN_TWICE,
	COPYING,
	FREED_BY_US,
	FREEING_BEHIND_A_GATE,
	BOTH_FREEING,
	FREED,
	DESTROYED,
	IMPORTER_STEPS,
};

/* Bring an agent to a step and kill it there. *ret_block: what is still to be freed here; 0: nothing. */
static void importer_dies(CUmemoryPool pool, enum importer_step step, CUdeviceptr *ret_block)
{
	struct peer *agent = peer_start("agent");
	struct share_gate gate = share_gate_make();
	int descriptor = share_export(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(block);

	if (step == CONNECTED)
		agent_must(agent, (struct agent_order){.call = AGENT_CONNECT}, descriptor);
	else
		agent_import(agent, 0, descriptor);
	close(descriptor);
	if (step >= TAKEN)
		agent_take(agent, 0, name);
	if (step == TAKEN_TWICE)
		agent_take(agent, 1, name);
	if (step == COPYING)
		agent_must(agent, (struct agent_order){.call = AGENT_COPY, .bytes = BLOCK}, -1);
	if (step == FREEING_BEHIND_A_GATE || step == BOTH_FREEING)
		agent_close_gate(agent, &gate);
	if (step >= FREEING_BEHIND_A_GATE)
		agent_free(agent, 0);
	if (step == FREED_BY_US || step == BOTH_FREEING) {
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		block = 0;
	}
	if (step >= FREED)
		agent_synchronize(agent);
	if (step == DESTROYED)
		agent_destroy(agent, 0);
	peer_kill(agent);
	share_gate_free(&gate);
	*ret_block = block;
}

/* Goal: an importer that is killed at any step leaves its exporter with all that it had. */
TEST(importer_killed_at_each_step, .timeout_ms = 60000)
{
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr block;

	close(share_export(pool));
	struct things before = things_now();
	for (int step = CONNECTED; step < IMPORTER_STEPS; step++) {
		importer_dies(pool, (enum importer_step)step, &block);
		if (block)
			ASSERT_OK(cuMemFreeAsync(block, NULL));
		check_exporter(pool);
		await_things(before);
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: one importer's end takes nothing from another. */
TEST(an_importer_dies_and_another_goes_on)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *first = agent_importer(pool), *second = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(block);

	share_fill(block, 0x15, BLOCK);
	agent_take(first, 0, name);
	agent_take(second, 0, name);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	peer_kill(first);
	ASSERT_EQ(0x15, agent_byte(second, 0, BLOCK - 1));
	CUdeviceptr other = share_allocate(pool, BLOCK, NULL);
	ASSERT_NE(block, other);
	agent_take(second, 1, share_name(other)); /* the service thread has seen the death or sees it now */
	ASSERT_EQ(2 * BLOCK, share_used(pool));
	agent_free(second, 0);
	agent_free(second, 1);
	ASSERT_OK(cuMemFreeAsync(other, NULL));
	agent_destroy(second, 0);
	agent_end(second);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Take, look and free without end; import the pool anew now and then. */
ROLE(busy_importer)
{
	enum { NAMES = 16 };
	struct test_random random = test_random_start(strtoull(argv[0], NULL, 10));
	CUmemPoolPtrExportData names[NAMES];
	CUdeviceptr blocks[NAMES] = {0};
	CUstream stream = share_stream();
	int descriptor = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);

	peer_receive_bytes(parent, names, sizeof names);
	peer_send(parent, "begun");
	for (;;) {
		unsigned i = (unsigned)test_random_below(&random, NAMES);
		if (!blocks[i]) {
			if (cuMemPoolImportPointer(&blocks[i], pool, &names[i])) /* the exporter frees some */
				blocks[i] = 0;
			continue;
		}
		share_fill(blocks[i], i, BLOCK);
		ASSERT_OK(cuMemFreeAsync(blocks[i], test_random_below(&random, 2) ? stream : NULL));
		blocks[i] = 0;
		if (test_random_below(&random, 16) == 0) {
			CUmemoryPool another = share_import(descriptor);
			for (i = 0; i < NAMES; i++) { /* as long as it has a block of it, a pool is not destroyed */
				if (blocks[i])
					ASSERT_OK(cuMemFreeAsync(blocks[i], stream));
				blocks[i] = 0;
			}
			ASSERT_OK(cuMemPoolDestroy(pool));
			pool = another;
		}
	}
}

/* On a GPU it takes a moment until what was freed is there again. */
static CUdeviceptr allocate_again(CUmemoryPool pool, size_t bytes)
{
	CUdeviceptr block;
	CUresult result;

	do
		result = cuMemAllocFromPoolAsync(&block, bytes, pool, NULL);
	while (test_on_gpu() && result == CUDA_ERROR_OUT_OF_MEMORY);
	ASSERT_OK(result);
	return block;
}

/* Goal: the same at whatever instant an importer is killed. */
TEST(importer_killed_at_random, .timeout_ms = 120000, .soak = true)
{
	enum { NAMES = 16 };
	struct test_random random = test_random_start(1);
	CUmemoryPool pool = share_pool(POOL);
	CUmemPoolPtrExportData names[NAMES];
	CUdeviceptr blocks[NAMES];
	char stream[32];

	close(share_export(pool));
	struct things before = things_now();
	for (unsigned long round = 0; soak_goes_on(round, RANDOM_ROUNDS); round++) {
		int descriptor = share_export(pool);
		for (unsigned i = 0; i < NAMES; i++) {
			blocks[i] = share_allocate(pool, BLOCK, NULL);
			names[i] = share_name(blocks[i]);
		}
		snprintf(stream, sizeof stream, "%lu", round + 2);
		struct peer *importer = peer_start("busy_importer", stream);
		peer_send_descriptor(importer, descriptor);
		close(descriptor);
		peer_send_bytes(importer, names, sizeof names);
		if (test_random_below(&random, 8))
			peer_expect(importer, "begun");
		uint64_t freed = test_random_below(&random, NAMES + 1), work = test_random_below(&random, 3000);
		for (uint64_t i = 0; i < work; i++) {
			CUdeviceptr other = allocate_again(pool, BLOCK / 4);
			share_name(other);
			ASSERT_OK(cuMemFreeAsync(other, NULL));
			if (i == work / 2)
				for (uint64_t k = 0; k < freed; k++)
					ASSERT_OK(cuMemFreeAsync(blocks[k], NULL));
		}
		peer_kill(importer);
		for (uint64_t i = work ? freed : 0; i < NAMES; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		check_exporter(pool);
		await_things(before);
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Exporters --------------------------------------------------------------------------------------------------- */

/* New imports fail and say why, as soon as the death is known here. */
static void await_refusal(CUmemoryPool pool, CUmemPoolPtrExportData name)
{
	CUdeviceptr address;
	CUresult result;

	while (!(result = cuMemPoolImportPointer(&address, pool, &name)))
		ASSERT_OK(cuMemFreeAsync(address, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, result);
	ASSERT_CONTAINS("gone", cenote_last_error());
}

/* Goal: imported blocks stay as they are until they are freed when their exporter is killed. */
TEST(exporter_killed_while_blocks_are_held)
{
	struct things before = things_now();
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x23);
	CUmemPoolPtrExportData other = agent_allocate(agent, 1, BLOCK, 0x24);
	CUmemPoolPtrExportData freed = agent_allocate(agent, 2, BLOCK, 0x25);
	CUmemoryPool pool = share_import(descriptor), again;
	CUdeviceptr block = share_take(pool, name), early = share_take(pool, freed);

	agent_free(agent, 2);
	agent_synchronize(agent);
	peer_kill(agent);
	await_refusal(pool, other);
	ASSERT_EQ(0x23, share_byte(block + BLOCK - 1));
	ASSERT_EQ(0x25, share_byte(early));
	share_fill(block, 0x26, BLOCK);
	ASSERT_EQ(0x26, share_byte(block));
	ASSERT_NE(CUDA_SUCCESS, share_try_import(descriptor, &again));
	ASSERT_NE(0, strlen(cenote_last_error()));
	close(descriptor);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemFree(early));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	await_things(before);
}

/* Goal: a pool whose exporter is gone cannot be imported, and the sentence says so. */
TEST(exporter_killed_before_the_import)
{
	struct things before = things_now();
	CUmemoryPool pool;
	int descriptor;

	peer_kill(agent_exporter(POOL, &descriptor));
	ASSERT_NE(CUDA_SUCCESS, share_try_import(descriptor, &pool));
	ASSERT_CONTAINS("gone", cenote_last_error());
	close(descriptor);
	await_things(before);
}

/* Goal: an exporter that is killed after the import of the pool and before that of a pointer is an error. */
TEST(exporter_killed_before_a_pointer_is_imported)
{
	struct things before = things_now();
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x23);
	CUmemoryPool pool = share_import(descriptor);
	CUdeviceptr address;

	close(descriptor);
	peer_kill(agent);
	/*
	 * No memory is mapped yet, so the exporter would have to be asked: it fails also where its end is not yet
	 * known.
	 */
	ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportPointer(&address, pool, &name));
	ASSERT_NE(0, strlen(cenote_last_error()));
	await_refusal(pool, name);
	ASSERT_OK(cuMemPoolDestroy(pool));
	await_things(before);
}

/* Goal: a free that an importer has enqueued is reached, and its pool goes, after its exporter was killed. */
TEST(exporter_killed_while_an_importers_free_waits)
{
	struct things before = things_now();
	struct share_gate gate = share_gate_make();
	CUstream stream = share_stream();
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x23);
	CUmemoryPool pool = share_import(descriptor);
	CUdeviceptr block = share_take(pool, name);
	void *byte;

	close(descriptor);
	ASSERT_OK(cuMemHostAlloc(&byte, 1, 0)); /* a copy to memory of the program's would wait for the gate */
	share_gate_close(gate.reader, stream);
	ASSERT_OK(cuMemcpyDtoHAsync(byte, block, 1, stream));
	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	peer_kill(agent);
	share_gate_open(&gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(0x23, *(unsigned char *)byte);
	ASSERT_OK(cuMemFreeHost(byte));
	ASSERT_OK(cuStreamDestroy(stream));
	share_gate_free(&gate);
	await_things(before);
}

/* Allocate, name and free without end, and tell the names; make new pools, too. */
ROLE(busy_exporter)
{
	enum { NAMES = 16 };
	struct test_random random = test_random_start(strtoull(argv[0], NULL, 10));
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr blocks[NAMES] = {0};
	int descriptor = share_export(pool), writer;

	peer_send_descriptor(parent, descriptor);
	close(descriptor);
	writer = peer_receive_descriptor(parent);
	for (;;) {
		unsigned i = (unsigned)test_random_below(&random, NAMES);
		if (blocks[i])
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		blocks[i] = 0;
		if (cuMemAllocFromPoolAsync(&blocks[i], BLOCK, pool, NULL)) /* the importer holds the others */
			continue;
		share_fill(blocks[i], i + 1, BLOCK);
		CUmemPoolPtrExportData name = share_name(blocks[i]);
		if (write(writer, &name, sizeof name) != sizeof name) /* whole, or the pipe is full */
			continue;
		if (test_random_below(&random, 8) == 0) {
			CUmemoryPool another = share_pool(POOL);
			close(share_export(another));
			ASSERT_OK(cuMemPoolDestroy(another));
		}
	}
}

/* Files in a folder that are not accounts, of which a driver may have one, too. */
static unsigned name_count(const char *folder)
{
	DIR *entries = opendir(folder);
	unsigned count = 0;

	ASSERT(entries);
	for (const struct dirent *entry; (entry = readdir(entries));)
		count += entry->d_name[0] != '.' && strncmp(entry->d_name, "account-", strlen("account-")) != 0;
	closedir(entries);
	return count;
}

/* Goal: whatever instant an exporter is killed at, its importer keeps what it holds and loses nothing else. */
TEST(exporter_killed_at_random, .timeout_ms = 120000, .soak = true)
{
	enum { HELD = 8 };
	struct test_random random = test_random_start(1);
	struct things before = things_now();
	char stream[32];

	for (unsigned long round = 0; soak_goes_on(round, RANDOM_ROUNDS); round++) {
		int ends[2], held = 0;
		CUdeviceptr blocks[HELD], address;
		CUmemPoolPtrExportData name;

		snprintf(stream, sizeof stream, "%lu", round + 2);
		struct peer *exporter = peer_start("busy_exporter", stream);
		int descriptor = peer_receive_descriptor(exporter);
		ASSERT_SYS(pipe2(ends, O_CLOEXEC));
		peer_send_descriptor(exporter, ends[1]);
		close(ends[1]);
		CUmemoryPool pool = share_import(descriptor);
		close(descriptor);
		for (uint64_t i = test_random_below(&random, 300); i > 0; i--) {
			ASSERT_EQ(sizeof name, (size_t)read(ends[0], &name, sizeof name));
			if (cuMemPoolImportPointer(&address, pool, &name))
				continue; /* freed again by now */
			if (held < HELD && test_random_below(&random, 4) == 0)
				blocks[held++] = address;
			else
				ASSERT_OK(cuMemFreeAsync(address, NULL));
		}
		peer_kill(exporter);
		for (int i = 0; i < held; i++) {
			unsigned value = share_byte(blocks[i]);
			ASSERT_NE(0, value);
			ASSERT_EQ(value, share_byte(blocks[i] + BLOCK - 1));
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		}
		ASSERT_OK(cuMemPoolDestroy(pool));
		close(ends[0]);
		await_things(before);
	}
	/* What was killed while it had a name in the runtime directory is swept by the next process that needs one. */
	CUmemoryPool pool = share_pool(POOL);
	close(share_export(pool));
	ASSERT_OK(cuMemPoolDestroy(pool));
	/* This process's own port and its lock, and accounts of devices' memory. */
	ASSERT_EQ(2, name_count(getenv("CENOTE_RUNTIME_DIR")));
}

/* ---- Those that neither go nor move ------------------------------------------------------------------------------ */

/* Goal: an importer that is stopped delays its own blocks and no others. */
TEST(a_stopped_importer_delays_its_own_blocks_alone)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *stopped = agent_importer(pool), *other = agent_importer(pool);
	CUdeviceptr first = share_allocate(pool, BLOCK, NULL), second = share_allocate(pool, BLOCK, NULL);

	agent_take(stopped, 0, share_name(first));
	agent_take(other, 0, share_name(second));
	peer_stop(stopped);
	ASSERT_OK(cuMemFreeAsync(first, NULL));
	ASSERT_OK(cuMemFreeAsync(second, NULL));
	agent_free(other, 0);
	share_await_used(pool, BLOCK);
	struct peer *third = agent_importer(pool);
	for (unsigned i = 0; i < 100; i++) {
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		ASSERT_NE(first, block);
		agent_take(third, 0, share_name(block));
		agent_free(third, 0);
		agent_synchronize(third);
		ASSERT_OK(cuMemFreeAsync(block, NULL));
	}
	ASSERT_OK(cuStreamSynchronize(NULL));
	share_await_used(pool, BLOCK);
	peer_continue(stopped);
	agent_free(stopped, 0);
	share_await_used(pool, 0);
	struct peer *agents[] = {stopped, other, third};
	for (unsigned i = 0; i < 3; i++) {
		agent_destroy(agents[i], 0);
		agent_end(agents[i]);
	}
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* A child of an agent that lives until its gate is freed; it becomes our child when the agent is gone. */
static pid_t agent_child(struct peer *agent, const struct share_gate *gate)
{
	ASSERT_SYS(prctl(PR_SET_CHILD_SUBREAPER, 1));
	return (pid_t)agent_must(agent, (struct agent_order){.call = AGENT_FORK}, gate->reader).value;
}

static void child_ends(pid_t child, const struct share_gate *gate)
{
	int status;

	ASSERT_EQ(0, waitpid(child, &status, WNOHANG)); /* it was there all the time */
	share_gate_free(gate);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
}

/* Goal: an importer's forked child holds nothing: when the importer is killed, its blocks come back. */
TEST(a_forked_child_of_an_importer_holds_nothing)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	struct share_gate alive = share_gate_make();

	agent_take(agent, 0, share_name(block));
	pid_t child = agent_child(agent, &alive);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(BLOCK, share_used(pool));
	peer_kill(agent);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
	child_ends(child, &alive);
}

/* In a forked child: open more files than there were descriptors of ours; is each open in a child of this one? */
static int grandchild_keeps_files(void)
{
	enum { FILES = 100 };
	int files[FILES], status = -1;

	for (unsigned i = 0; i < FILES; i++)
		files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t child = fork();
	if (!child) {
		for (unsigned i = 0; i < FILES; i++)
			if (files[i] < 0 || fcntl(files[i], F_GETFD) < 0)
				_exit(1);
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* Goal: what a forked child of an exporter has opened is still open in its own child. */
TEST(a_grandchild_of_an_exporter_keeps_its_files)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	int status = -1;

	agent_take(agent, 0, share_name(block));
	pid_t child = fork();
	if (!child)
		_exit(grandchild_keeps_files() ? 1 : 0);
	ASSERT_SYS(child);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	peer_kill(agent);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an exporter's forked child does not stand for it: when the exporter is killed, its importers see that. */
TEST(a_forked_child_of_an_exporter_answers_nobody)
{
	struct share_gate alive = share_gate_make();
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x62);
	CUmemPoolPtrExportData other = agent_allocate(agent, 1, BLOCK, 0x63);
	CUmemoryPool pool = share_import(descriptor), late;
	CUdeviceptr block = share_take(pool, name);

	pid_t child = agent_child(agent, &alive);
	peer_kill(agent);
	await_refusal(pool, other);
	ASSERT_EQ(0x62, share_byte(block));
	ASSERT_NE(CUDA_SUCCESS, share_try_import(descriptor, &late));
	close(descriptor);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	child_ends(child, &alive);
}
