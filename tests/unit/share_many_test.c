/* SPDX-License-Identifier: MIT */
/*
 * A pool with many importers: its exporter looks up freed blocks in their ledgers in batches. No process may notice,
 * neither a holder of a block nor a thread that needs the memory.
 *
 * The importers are made by hand, and are all in this process: a ledger and a connection each.
 */
#include "share_fake.h"

#include "share/pool/export_internal.h"

enum {
	IMPORTERS = 40,
	AT_A_TIME = IMPORTERS / CN_IMPORTERS_EACH,
	BLOCK = 512,
};
_Static_assert((int)IMPORTERS > (int)CN_IMPORTERS_FEW && AT_A_TIME > 3, "many");

static struct {
	CUmemoryPool pool;
	int socks[IMPORTERS];
	struct cn_segment ledgers[IMPORTERS], control;
} crowd;

SETUP
{
	share_start();
}

static struct cn_ledger *ledger_at(unsigned importer)
{
	return crowd.ledgers[importer].address;
}

static void set_threshold(cuuint64_t bytes)
{
	ASSERT_OK(cuMemPoolSetAttribute(crowd.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static void gather(size_t pool_bytes)
{
	struct cn_parcel welcome;

	crowd.pool = share_pool(pool_bytes);
	set_threshold(UINT64_MAX); /* waiting for a stream then gives nothing back */
	for (unsigned i = 0; i < IMPORTERS; i++) {
		crowd.socks[i] = join_pool(crowd.pool, &crowd.ledgers[i], &welcome);
		if (i)
			cn_wire_close(&welcome);
		else
			ASSERT_OK(cn_segment_map(welcome.descriptors[0], sizeof(struct cn_control), "control",
						 &crowd.control));
	}
}

static void disperse(void)
{
	for (unsigned i = 0; i < IMPORTERS; i++) {
		close(crowd.socks[i]);
		cn_segment_close(&crowd.ledgers[i]);
	}
	cn_segment_close(&crowd.control);
}

static struct cn_export_data name_block(CUdeviceptr block)
{
	CUmemPoolPtrExportData name = share_name(block);
	struct cn_export_data data;

	memcpy(&data, &name, sizeof data);
	return data;
}

static void hold(unsigned importer, uint64_t slot)
{
	atomic_fetch_or(&ledger_at(importer)->held[slot / CN_LEDGER_WORD_SLOTS], cn_ledger_bit((uint32_t)slot));
}

static void let_go(unsigned importer, uint64_t slot)
{
	atomic_fetch_and(&ledger_at(importer)->held[slot / CN_LEDGER_WORD_SLOTS], ~cn_ledger_bit((uint32_t)slot));
}

static bool is_among(CUdeviceptr block, const CUdeviceptr *blocks, unsigned count, unsigned step)
{
	for (unsigned i = 0; i < count; i += step)
		if (blocks[i] == block)
			return true;
	return false;
}

/*
 * Free blocks of which every third is held: those stay until they are released, the others come back. Each is exported
 * `apart` slots behind the last.
 */
static void check_holds(unsigned count, unsigned apart)
{
	CUdeviceptr *blocks = calloc((size_t)count * apart, sizeof *blocks), *more = calloc(count, sizeof *more);
	struct cn_export_data *names = calloc(count, sizeof *names);
	uint64_t held = (count + 2) / 3;

	ASSERT(blocks && more && names);
	for (unsigned i = 0; i < count * apart; i++) {
		blocks[i] = share_allocate(crowd.pool, BLOCK, NULL);
		struct cn_export_data name = name_block(blocks[i]);
		if (i % apart == 0)
			names[i / apart] = name;
	}
	for (unsigned i = 0; i < count; i += 3)
		hold(i % IMPORTERS, names[i].slot);
	for (unsigned i = 0; i < count; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i * apart], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	for (unsigned i = 0; i < count; i++) {
		more[i] = share_allocate(crowd.pool, BLOCK, NULL);
		ASSERT(!is_among(more[i], blocks, count * apart, 3 * apart));
	}
	ASSERT_EQ(((uint64_t)count * apart + held) * BLOCK, share_used(crowd.pool));
	for (unsigned i = 0; i < count; i++)
		ASSERT_OK(cuMemFreeAsync(more[i], NULL));
	for (unsigned i = 0; i < count * apart; i++)
		if (i % apart)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(held * BLOCK, share_used(crowd.pool));
	for (unsigned i = 0; i < count; i += 3)
		let_go(i % IMPORTERS, names[i].slot);
	send_parcel(crowd.socks[0], parcel_of(CN_MESSAGE_RELEASED, -1));
	share_await_used(crowd.pool, 0);
	free(names);
	free(more);
	free(blocks);
}

/* Goal: of blocks that are looked up together, those that any importer holds are kept, and no others. */
TEST(what_is_held_is_kept)
{
	gather(SHARE_CHUNK);
	check_holds(1, 1);
	check_holds(AT_A_TIME - 1, 1);
	check_holds(AT_A_TIME, 1);
	check_holds(10 * AT_A_TIME + 3, 1);
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: the same if no ledger word has two of them; and where two words wait in the same place. */
TEST(exports_that_lie_far_apart)
{
	gather(SHARE_CHUNK);
	check_holds(2 * CN_ENDED_WORDS + 1, CN_LEDGER_WORD_SLOTS);
	check_holds(4, CN_LEDGER_WORD_SLOTS * CN_ENDED_WORDS);
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* How often the export has been scanned. */
static uint64_t count_looks(struct cn_export *export)
{
	cn_lock(&export->lock);
	uint64_t looks = export->scan;
	cn_unlock(&export->lock);
	return looks;
}

/* All messages of the importers have been read. */
static void await_answers(void)
{
	for (unsigned i = 0; i < IMPORTERS; i++) {
		send_parcel(crowd.socks[i], parcel_of(CN_MESSAGE_PART, -1));
		struct cn_parcel part = receive_parcel(crowd.socks[i]);
		ASSERT_EQ(CN_MESSAGE_PART, part.message.kind);
		cn_wire_close(&part);
	}
}

/* Goal: all importers that send "released" during a scan are answered by one more scan, not by one each. */
TEST(one_look_answers_all_who_have_let_go)
{
	gather(SHARE_CHUNK);
	struct cn_export *export = cn_export_after(0);
	CUdeviceptr block = share_allocate(crowd.pool, BLOCK, NULL);
	struct cn_export_data name = name_block(block);
	for (unsigned i = 0; i < IMPORTERS; i++)
		hold(i, name.slot);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_EQ(BLOCK, share_used(crowd.pool));
	await_answers();
	uint64_t before = count_looks(export);

	cn_lock(&export->lock); /* the first scan cannot go on, and takes long */
	for (unsigned i = 0; i < IMPORTERS; i++)
		send_parcel(crowd.socks[i], parcel_of(CN_MESSAGE_RELEASED, -1));
	while (!atomic_load(&export->scan_active)) /* the service thread is there, */
		sched_yield();
	for (uint64_t start_ns = cn_clock_ns(); cn_clock_ns() - start_ns < CN_EXPORT_SCAN_BURST_NS;) /* for long */
		sched_yield();
	cn_unlock(&export->lock);
	await_answers();
	ASSERT_LT(count_looks(export) - before, IMPORTERS / 2);
	for (unsigned i = 0; i < IMPORTERS; i++)
		let_go(i, name.slot);
	share_await_used(crowd.pool, 0);
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

static void *ask_for_numbers(void *stop)
{
	while (!atomic_load((_Atomic bool *)stop))
		share_used(crowd.pool);
	return NULL;
}

/* Goal: several threads scan for free blocks, in slices, while blocks come and go: each block goes back once. */
TEST(looks_that_meet, .timeout_ms = 60000)
{
	enum { THREADS = 3, SLICES = 4, COUNT = SLICES * CN_EXPORT_SCAN_LOADS / IMPORTERS };
	static CUdeviceptr blocks[COUNT];
	static struct cn_export_data names[COUNT];
	struct test_random random = test_random_start(3);
	pthread_t threads[THREADS];
	_Atomic bool stop = false;

	gather(SHARE_CHUNK);
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, ask_for_numbers, &stop));
	for (unsigned round = 0; round < 20 / HARNESS_SLOWDOWN; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			blocks[i] = share_allocate(crowd.pool, BLOCK, NULL);
			names[i] = name_block(blocks[i]);
			hold(i % IMPORTERS, names[i].slot);
		}
		for (unsigned i = 0; i < COUNT; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		ASSERT_EQ((uint64_t)COUNT * BLOCK, share_used(crowd.pool));
		for (unsigned i = 0; i < COUNT; i++) {
			let_go(i % IMPORTERS, names[i].slot);
			if (test_random_below(&random, 16) == 0)
				send_parcel(crowd.socks[i % IMPORTERS], parcel_of(CN_MESSAGE_RELEASED, -1));
		}
		share_await_used(crowd.pool, 0);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: only a few blocks wait for each other, and none that is large; with few importers none at all. */
TEST(little_waits)
{
	struct test_random random = test_random_start(2);
	unsigned most = 0;

	gather(2 * SHARE_CHUNK);
	struct cn_export *export = cn_export_after(0);
	ASSERT(export && export->importer_count == IMPORTERS);
	for (unsigned i = 0; i < 1000; i++) {
		CUdeviceptr block = share_allocate(crowd.pool, (size_t)BLOCK << test_random_below(&random, 13), NULL);
		name_block(block);
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		cn_lock(&export->lock);
		unsigned count = export->ended_count;
		uint64_t bytes = export->ended_bytes;
		cn_unlock(&export->lock);
		ASSERT_LT(count, AT_A_TIME);
		ASSERT_LE(bytes, CN_ENDED_BYTES);
		most = count > most ? count : most;
	}
	ASSERT_EQ(AT_A_TIME - 1, most);
	disperse();
	while (cn_export_importers(export, NULL, 0))
		sched_yield();
	CUdeviceptr block = share_allocate(crowd.pool, BLOCK, NULL);
	name_block(block);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(0, export->ended_count);
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: no allocation is refused for blocks that are free and only have not been looked up yet. */
TEST(a_full_pool_asks_for_what_is_free)
{
	enum { COUNT = SHARE_CHUNK / SHARE_MIB * 16, EACH = SHARE_MIB / 16 };
	static CUdeviceptr blocks[COUNT];
	CUdeviceptr more[3], none;

	gather(SHARE_CHUNK);
	for (unsigned i = 0; i < COUNT; i++)
		blocks[i] = share_allocate(crowd.pool, EACH, NULL);
	for (unsigned i = 0; i < 3; i++)
		name_block(blocks[100 * i]);
	hold(IMPORTERS - 1, name_block(blocks[200]).slot);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[100 * i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	for (unsigned i = 0; i < 2; i++) {
		more[i] = share_allocate(crowd.pool, EACH, NULL);
		ASSERT(more[i] == blocks[0] || more[i] == blocks[100]);
	}
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&none, EACH, crowd.pool, NULL));
	disperse();
	share_await_used(crowd.pool, (uint64_t)(COUNT - 1) * EACH);
	more[2] = share_allocate(crowd.pool, EACH, NULL);
	ASSERT_EQ(blocks[200], more[2]);
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: memory above the threshold goes back to the system when a stream is waited for. */
TEST(a_wait_gives_memory_back)
{
	cenote_pool_statistics statistics;

	gather(SHARE_CHUNK);
	set_threshold(0);
	CUdeviceptr block = share_allocate(crowd.pool, BLOCK, NULL);
	name_block(block);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cenote_pool_stats(crowd.pool, &statistics, sizeof statistics));
	ASSERT_EQ(0, statistics.reserved_bytes);
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Free two exported blocks, of which the fourth importer holds one: returns its slot. */
static uint64_t free_two_one_held(size_t bytes)
{
	CUdeviceptr blocks[2];

	for (unsigned i = 0; i < 2; i++)
		blocks[i] = share_allocate(crowd.pool, bytes, NULL);
	uint64_t slot = name_block(blocks[0]).slot;
	name_block(blocks[1]);
	hold(3, slot);
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	return slot;
}

/* Goal: a query shows exactly the blocks that are exported, or wait for an importer. */
TEST(who_asks_sees_what_is)
{
	cenote_importer importers[IMPORTERS];
	uint64_t deferred = 0;
	size_t count;

	gather(SHARE_CHUNK);
	uint64_t slot = free_two_one_held(BLOCK);
	ASSERT_OK(cenote_pool_importers(crowd.pool, importers, sizeof *importers, IMPORTERS, &count));
	ASSERT_EQ(IMPORTERS, count);
	for (unsigned i = 0; i < IMPORTERS; i++)
		deferred += importers[i].deferred_block_count;
	ASSERT_EQ(1, deferred);
	let_go(3, slot);
	disperse();
	share_await_used(crowd.pool, 0);
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: a picture shows no block as held that is not. */
TEST(a_picture_shows_what_is_held)
{
	enum { CELLS = 128, EACH = SHARE_CHUNK / CELLS };
	static cenote_cell cells[CELLS];
	unsigned held = 0;

	gather(SHARE_CHUNK);
	uint64_t slot = free_two_one_held(EACH);
	ASSERT_OK(cenote_survey_picture(cn_export_after(0)->id, cells, CELLS, NULL));
	for (unsigned i = 0; i < CELLS; i++)
		if (cells[i].kind == CENOTE_CELL_DEFERRED) {
			ASSERT_NE(0u, cells[i].importer);
			held++;
		}
	ASSERT_EQ(1u, held);
	let_go(3, slot);
	disperse();
	share_await_used(crowd.pool, 0);
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}

/* Goal: a pool that is destroyed ends with its last block, even if that has not been looked up. */
TEST(a_pool_ends_with_what_was_put_off)
{
	struct pollfd end = {.events = POLLIN};
	CUdeviceptr block;
	char byte;

	gather(SHARE_CHUNK);
	block = share_allocate(crowd.pool, BLOCK, NULL);
	name_block(block);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
	for (unsigned i = 0; i < IMPORTERS; i++) {
		end.fd = crowd.socks[i];
		ASSERT_EQ(1, poll(&end, 1, -1));
		ASSERT_EQ(0, recv(end.fd, &byte, 1, 0));
	}
	disperse();
}

/* ---- Import against free ----------------------------------------------------------------------------------------- */

enum {
	RACERS = 2,
	LIVES = 20000,
	LIVES_HELD = 8,
	IMPORTS_MIN = 50,
	SPINS_MAX = 256,
	SMALL = 4096,
	LARGE = CN_ENDED_BYTES + SMALL,
	PLACES = SHARE_CHUNK / SMALL,
};

static struct {
	_Atomic uint64_t offered;       /* an export: slot and generation */
	_Atomic unsigned taken[PLACES]; /* by racers, by the block's index */
	_Atomic unsigned imported_count, life;
	_Atomic bool stop;
} race;

/* An importer: first its bit, then the generation. It keeps what it has for some lives. */
static void *race_to_import(void *argument)
{
	unsigned importer = (unsigned)(uintptr_t)argument;
	struct cn_control *control = crowd.control.address;

	while (!race.stop) {
		uint64_t offered = race.offered, slot = offered >> 32, generation = offered & UINT32_MAX;
		hold(importer, slot);
		if (atomic_load(&control->slots[slot].generation) == generation) {
			_Atomic unsigned *taken = &race.taken[control->slots[slot].offset / SMALL];
			unsigned life = race.life;
			(*taken)++;
			race.imported_count++;
			while (race.life - life < LIVES_HELD && !race.stop)
				sched_yield();
			(*taken)--;
		}
		let_go(importer, slot);
	}
	return NULL;
}

static uint64_t place_of(struct cn_export_data name)
{
	struct cn_control *control = crowd.control.address;

	return control->slots[name.slot].offset / SMALL;
}

/* Goal: a block is not handed out while an importer holds it, whenever it was imported. */
TEST(imports_race_frees, .timeout_ms = 120000)
{
	struct test_random random = test_random_start(1);
	pthread_t threads[RACERS];

	gather(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(crowd.pool, SMALL, NULL);
	struct cn_export_data name = name_block(block);
	CUdeviceptr base = block - place_of(name) * SMALL;
	race.offered = name.slot << 32 | name.generation;
	for (uintptr_t i = 0; i < RACERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, race_to_import, (void *)(i * (IMPORTERS - 1))));
	for (; race.life < LIVES || race.imported_count < IMPORTS_MIN; race.life++) {
		for (volatile unsigned spins = (unsigned)test_random_below(&random, SPINS_MAX); spins; spins--)
			continue;
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		if (race.life % 16 == 0) /* what is not held any more comes back */
			share_used(crowd.pool);
		/* Large blocks are looked up at once, small ones in batches. */
		block = share_allocate(crowd.pool, race.life % 2 ? SMALL : LARGE, NULL);
		ASSERT_EQ(0u, race.taken[(block - base) / SMALL]);
		name = name_block(block);
		ASSERT_EQ(block, base + place_of(name) * SMALL);
		race.offered = name.slot << 32 | name.generation;
	}
	race.stop = true;
	for (unsigned i = 0; i < RACERS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	share_await_used(crowd.pool, 0);
	disperse();
	ASSERT_OK(cuMemPoolDestroy(crowd.pool));
}
