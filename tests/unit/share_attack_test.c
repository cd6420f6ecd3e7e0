/* SPDX-License-Identifier: MIT */
/*
 * Hostile importers that are real processes, and die: their cost to the exporter is bounded while they live, and what
 * they leave behind is given back.
 *
 * An attacker is a role that speaks the protocol by hand. It is given the pool's descriptor, joins, does its harm, says
 * so, and waits to be killed.
 */
#include "share_fake.h"

#include "share/pool/export_internal.h"

#include <sys/stat.h>

enum {
	BLOCK = 4096,
	HELD = 2000,       /* blocks that an attacker claims to hold */
	HELD_SLOTS = 2048, /* … by slots */
	FLOOD = 100,       /* messages before a flood counts as begun */
	CYCLES = 5000 / HARNESS_SLOWDOWN,
	FILL_MIB = 192,
	ROUNDS = 30,
};
#define FILL  ((off_t)FILL_MIB * SHARE_MIB)
#define RANGE ((size_t)FILL_MIB * SHARE_MIB + 4 * (size_t)SHARE_CHUNK)

SETUP
{
	share_start();
}

/* ---- Attackers --------------------------------------------------------------------------------------------------- */

struct attacker {
	int sock, control;
	struct cn_ledger *ledger;
};

/* Joins the pool whose descriptor the test sends. */
static struct attacker attack(struct peer *parent)
{
	int descriptor = peer_receive_descriptor(parent);
	struct attacker attacker = {.sock = -1};
	struct cn_segment ledger;

	ASSERT_OK(connect_path(descriptor, &attacker.sock));
	close(descriptor);
	send_parcel(attacker.sock, parcel_of(CN_MESSAGE_JOIN, -1));
	struct cn_parcel welcome = receive_parcel(attacker.sock);
	ASSERT_EQ(2, welcome.descriptor_count);
	ASSERT_OK(cn_segment_borrow(welcome.descriptors[CN_WELCOME_LEDGER], sizeof(struct cn_ledger), "the ledger",
				    &ledger));
	attacker.control = welcome.descriptors[0];
	attacker.ledger = ledger.address;
	return attacker;
}

/* Sends "released" as long as it lives, and claims to hold the first exports. */
ROLE(flooder)
{
	struct attacker attacker = attack(parent);

	for (unsigned word = 0; word < HELD_SLOTS / CN_LEDGER_WORD_SLOTS; word++)
		atomic_store(&attacker.ledger->held[word], UINT64_MAX);
	peer_send(parent, "joined");
	peer_expect(parent, "flood");
	for (unsigned long i = 0;; i++) {
		send_parcel(attacker.sock, parcel_of(CN_MESSAGE_RELEASED, -1));
		if (i == FLOOD)
			peer_send(parent, "floods");
	}
}

/* Makes memory in the pool's file where the exporter has none. */
ROLE(filler)
{
	struct attacker attacker = attack(parent);

	send_parcel(attacker.sock, parcel_of(CN_MESSAGE_PART, -1));
	int file = receive_parcel(attacker.sock).descriptors[0];
	ASSERT_SYS(fallocate(file, 0, 2 * (off_t)SHARE_CHUNK, FILL));
	ASSERT_EQ(1, pwrite(file, "x", 1, (off_t)RANGE - 1));
	peer_send(parent, "filled");
	pause();
}

static struct peer *start_attacker(const char *role, CUmemoryPool pool, const char *says)
{
	struct peer *attacker = peer_start(role);
	int descriptor = share_export(pool);

	peer_send_descriptor(attacker, descriptor);
	close(descriptor);
	peer_expect(attacker, says);
	return attacker;
}

/* ---- Floods ------------------------------------------------------------------------------------------------------ */

/* Goal: while one importer sends "released" without end, the program and honest importers go on. */
TEST(a_flood_of_released_holds_up_nobody, .timeout_ms = 60000)
{
	CUmemoryPool pool = share_pool(2 * SHARE_CHUNK);
	struct peer *flooder = start_attacker("flooder", pool, "joined"), *agent = agent_importer(pool);
	static CUdeviceptr blocks[HELD_SLOTS];

	for (unsigned i = 0; i < HELD; i++) {
		blocks[i] = share_allocate(pool, BLOCK, NULL);
		share_name(blocks[i]);
	}
	for (unsigned i = 0; i < HELD; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ((uint64_t)HELD * BLOCK, share_used(pool));
	for (unsigned i = HELD; i < HELD_SLOTS; i++) { /* honest importers get no slot that it claims */
		blocks[i] = share_allocate(pool, BLOCK, NULL);
		share_name(blocks[i]);
	}
	peer_send(flooder, "flood");
	peer_expect(flooder, "floods");
	for (unsigned i = 0; i < CYCLES; i++) {
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		CUmemPoolPtrExportData name = share_name(block);
		if (i % 50 == 0)
			agent_take(agent, 0, name);
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		if (i % 50 == 0)
			agent_free(agent, 0); /* after the exporter: an honest importer sends "released" as well */
	}
	agent_synchronize(agent);
	share_await_used(pool, (uint64_t)HELD_SLOTS * BLOCK);
	peer_kill(flooder);
	share_await_used(pool, (uint64_t)(HELD_SLOTS - HELD) * BLOCK);
	for (unsigned i = HELD; i < HELD_SLOTS; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	share_await_used(pool, 0);
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Uncounted memory -------------------------------------------------------------------------------------------- */

/* The bytes that memory files of a name take, of those that this process has open. */
static uint64_t file_bytes(const char *name)
{
	uint64_t bytes = 0;

	for (int fd = 3; fd < 1024; fd++) {
		char path[32], target[128];
		struct stat status;
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strstr(target, name) && !fstat(fd, &status))
			bytes += (uint64_t)status.st_blocks * 512;
	}
	return bytes;
}

/* Of all processes of the machine together. */
static uint64_t shared_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	ASSERT(file);
	while (fgets(line, sizeof line, file) && sscanf(line, "Shmem: %llu kB", &kib) != 1)
		continue;
	fclose(file);
	return kib * 1024;
}

/* Goal: when an importer has died, the memory that it made in the pool's file goes back by itself. */
TEST(what_a_dead_importer_has_filled_is_given_back)
{
	CUmemoryPool pool = share_pool(RANGE);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);

	share_fill(block, 0x5a, BLOCK);
	struct peer *filler = start_attacker("filler", pool, "filled");
	ASSERT_GE(file_bytes("cenote-pool"), (uint64_t)FILL);
	peer_kill(filler);
	while (file_bytes("cenote-pool") > SHARE_CHUNK) /* the pool's own reserve */
		sched_yield();
	ASSERT_EQ(0x5a, share_byte(block)); /* the program's memory stays */
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(0, file_bytes("cenote-pool"));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: … and while the importer lives, with a trim, as often as the program calls it. */
TEST(a_trim_gives_back_what_importers_have_filled)
{
	CUmemoryPool pool = share_pool(RANGE);

	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	struct peer *filler = start_attacker("filler", pool, "filled");
	ASSERT_GE(file_bytes("cenote-pool"), (uint64_t)FILL);
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(0, file_bytes("cenote-pool"));
	peer_kill(filler);
	share_fill_whole(pool, RANGE, SHARE_CHUNK, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Threads that commit memory and give it back all the time; what they write stays as long as it is theirs. */
static _Atomic bool filling_over;

static void *use_pool(void *data)
{
	CUmemoryPool pool = data;
	CUcontext context;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	CUstream stream = share_stream();

	for (unsigned i = 0; !atomic_load(&filling_over); i++) {
		CUdeviceptr block = share_allocate(pool, SHARE_CHUNK, stream);
		unsigned char byte;
		ASSERT_OK(cuMemsetD8Async(block + i % SHARE_CHUNK, (unsigned char)i, 1, stream));
		sched_yield();
		ASSERT_OK(cuMemcpyDtoHAsync(&byte, block + i % SHARE_CHUNK, 1, stream));
		ASSERT_OK(cuMemFreeAsync(block, stream));
		ASSERT_OK(cuStreamSynchronize(stream)); /* above the threshold: the memory goes back */
		ASSERT_EQ((unsigned char)i, byte);
	}
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

/* Goal: giving back what others have filled takes nothing from a thread that commits memory at the same time. */
TEST(what_is_committed_meanwhile_is_not_lost, .timeout_ms = 60000)
{
	enum { USERS = 2 };
	CUmemoryPool pool = share_pool(RANGE);
	pthread_t users[USERS];

	for (unsigned i = 0; i < USERS; i++)
		ASSERT_EQ(0, pthread_create(&users[i], NULL, use_pool, pool));
	for (unsigned i = 0; i < 200 / HARNESS_SLOWDOWN; i++)
		ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	struct peer *filler = start_attacker("filler", pool, "filled");
	for (unsigned i = 0; i < 200 / HARNESS_SLOWDOWN; i++)
		ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	peer_kill(filler);
	atomic_store(&filling_over, true);
	for (unsigned i = 0; i < USERS; i++)
		ASSERT_EQ(0, pthread_join(users[i], NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	while (file_bytes("cenote-pool")) /* the rest of the dead process */
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(pool));
}

static uint64_t share_and_kill(void)
{
	CUmemoryPool pool = share_pool(RANGE);
	CUdeviceptr block = share_allocate(pool, SHARE_CHUNK, NULL);
	struct peer *agent = agent_importer(pool);

	share_fill(block, 1, SHARE_CHUNK);
	agent_take(agent, 0, share_name(block));
	agent_fill(agent, 0, 2, SHARE_CHUNK);
	struct peer *filler = start_attacker("filler", pool, "filled");
	uint64_t most = shared_bytes();
	peer_kill(filler);
	peer_kill(agent);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	while (file_bytes("cenote-pool"))
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(pool));
	return most;
}

/*
 * Goal: the machine has as much memory after sharing, filling and killing as before. Other processes use memory too, so
 * the test tries again until they have left it alone for a round.
 */
TEST(the_machine_has_its_memory_back, .timeout_ms = 60000)
{
	uint64_t before = 0, most = 0, after = UINT64_MAX;

	for (unsigned round = 0; round < ROUNDS; round++) {
		before = shared_bytes();
		most = share_and_kill();
		after = shared_bytes();
		if (most >= before + (uint64_t)FILL / 2 && after <= before + (uint64_t)FILL / 8)
			return;
	}
	FAIL("%ju MiB of shared memory before, %ju at most, %ju after", (uintmax_t)before >> 20, (uintmax_t)most >> 20,
	     (uintmax_t)after >> 20);
}
