/* SPDX-License-Identifier: MIT */
/*
 * Hostile importers that are real processes, and die: what they cost the exporter while they live is bounded, and what
 * they leave behind is given back.
 *
 * An attacker is a role that speaks the protocol by hand. It is given the pool's descriptor, joins, does its harm, says
 * so, and waits to be killed.
 */
#include "share_fake.h"

#include "share/internal.h"

enum {
	BLOCK = 4096,
	HELD = 2000,       /* blocks that an attacker says it holds */
	HELD_SLOTS = 2048, /* … by slots */
	FLOOD = 100,       /* messages before a flood is said to have begun */
	CYCLES = 5000 / HARNESS_SLOWDOWN,
};

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
	struct attacker attacker;
	struct cn_segment ledger;

	ASSERT_OK(cn_wire_connect_path(descriptor, &attacker.sock));
	close(descriptor);
	ASSERT_OK(cn_segment_make("hostile-ledger", sizeof(struct cn_ledger), &ledger));
	send_parcel(attacker.sock, parcel_of(CN_MESSAGE_JOIN, ledger.fd));
	attacker.control = receive_parcel(attacker.sock).descriptors[0];
	attacker.ledger = ledger.address;
	return attacker;
}

/* Says "released" for as long as it lives, and claims to hold the first exports. */
ROLE(flooder)
{
	struct attacker attacker = attack(parent);

	for (unsigned word = 0; word < HELD_SLOTS / CN_WORD_SLOTS; word++)
		atomic_store(&attacker.ledger->held[word], UINT64_MAX);
	peer_send(parent, "joined");
	peer_expect(parent, "flood");
	for (unsigned long i = 0;; i++) {
		send_parcel(attacker.sock, parcel_of(CN_MESSAGE_RELEASED, -1));
		if (i == FLOOD)
			peer_send(parent, "floods");
	}
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

/* Goal: while one says "released" without end, the program, and those who are honest, get on with what they do. */
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
	for (unsigned i = HELD; i < HELD_SLOTS; i++) { /* no slot that it claims is left for those who are honest */
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
			agent_free(agent, 0); /* after the exporter: who is honest says "released" as well */
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
