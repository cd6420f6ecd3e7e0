/* SPDX-License-Identifier: MIT */
/*
 * A pool's channel, the stranger as importer: what our exporter's service thread hears, in any order.
 *
 * Connections that come and go, join as they should or with anything else, ask for memory, say what they like, write
 * what they like into their ledgers, while the exporter exports, frees, trims, looks and shuts out. When all have gone,
 * every block comes back, and another importer is served.
 */
#include "../ask.h"
#include "fuzz.h"

#include "base/segment.h"
#include "share/pool/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOL = 32 << 20, CALLERS = 4, BLOCKS = 8, STEPS_MAX = 48 };

struct caller {
	int sock; /* -1: not connected */
	struct cn_segment ledger;
	bool has_ledger;
};

static CUmemoryPool pool;
static int descriptor;
static struct caller callers[CALLERS];
static CUdeviceptr blocks[BLOCKS];
static struct cn_export_data names[BLOCKS];

void fuzz_prepare(void)
{
	fuzz_start();
	pool = fuzz_pool(POOL);
	fuzz_use_pool(pool);
	descriptor = fuzz_pool_descriptor(pool);
	fuzz_offer(descriptor);
	for (int i = 0; i < CALLERS; i++)
		callers[i].sock = -1;
}

/* ---- The stranger ---- */

static void leave(struct caller *caller)
{
	if (caller->sock >= 0)
		close(caller->sock);
	caller->sock = -1;
	if (caller->has_ledger)
		cn_segment_close(&caller->ledger);
	caller->has_ledger = false;
}

static void come(struct caller *caller)
{
	if (caller->sock >= 0)
		leave(caller);
	FUZZ_OK(connect_path(descriptor, &caller->sock));
}

/* What the exporter has sent; of a welcome the ledger is kept. */
static void hear_out(struct caller *caller)
{
	struct cn_parcel parcel;
	int error;

	while ((error = cn_wire_receive(caller->sock, &parcel)) == 0 || error == EPROTO) {
		if (error)
			continue;
		if (parcel.message.kind == CN_MESSAGE_WELCOME && !caller->has_ledger &&
		    !cn_segment_borrow(parcel.descriptors[CN_WELCOME_LEDGER], sizeof(struct cn_ledger), "the ledger",
				       &caller->ledger)) {
			parcel.descriptors[CN_WELCOME_LEDGER] = -1;
			caller->has_ledger = true;
		}
		cn_wire_close(&parcel);
	}
}

static void say(struct caller *caller, enum cn_message_kind kind, struct fuzz_input *input)
{
	struct cn_parcel parcel = {.message = {.kind = kind, .request = 1}};
	const struct cn_export_data *wanted = &names[fuzz_below(input, BLOCKS)];

	if (caller->sock < 0)
		come(caller);
	if (kind == CN_MESSAGE_JOIN) {
		parcel.message.words[CN_JOIN_SLOT] = wanted->slot;
		parcel.message.words[CN_JOIN_GENERATION] = wanted->generation;
	}
	fuzz_send(input, caller->sock, &parcel);
}

static void say_anything(struct caller *caller, struct fuzz_input *input)
{
	unsigned char bytes[256];
	size_t size = fuzz_byte(input);

	if (caller->sock < 0)
		come(caller);
	fuzz_bytes(input, bytes, size);
	send(caller->sock, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void write_ledger(struct caller *caller, struct fuzz_input *input)
{
	const struct cn_export_data *name = &names[fuzz_below(input, BLOCKS)];
	struct cn_ledger *ledger = caller->ledger.address;
	unsigned what = fuzz_byte(input);

	if (!caller->has_ledger)
		return;
	switch (what % 4) {
	case 0:
		atomic_fetch_or(&ledger->held[name->slot % CN_EXPORT_SLOTS / CN_LEDGER_WORD_SLOTS],
				cn_ledger_bit((uint32_t)name->slot));
		break;
	case 1:
		atomic_store(&ledger->held[fuzz_number(input) % (CN_EXPORT_SLOTS / CN_LEDGER_WORD_SLOTS)],
			     fuzz_number(input));
		break;
	case 2: atomic_store(what & 4 ? &ledger->held_count : &ledger->held_bytes, fuzz_number(input)); break;
	default: atomic_store(&ledger->parts_seen, fuzz_number(input)); break;
	}
}

static void act(struct caller *caller, struct fuzz_input *input)
{
	switch (fuzz_below(input, 12)) {
	case 0: say(caller, CN_MESSAGE_JOIN, input); break;
	case 1: say(caller, CN_MESSAGE_PART, input); break;
	case 2: say(caller, CN_MESSAGE_RELEASED, input); break;
	case 3: say(caller, (enum cn_message_kind)fuzz_below(input, 16), input); break;
	case 4: say_anything(caller, input); break;
	case 5:
	case 6: write_ledger(caller, input); break;
	case 7: come(caller); break;
	case 8: leave(caller); break;
	case 9:
		if (caller->sock >= 0)
			hear_out(caller);
		break;
	case 10:
		if (caller->sock >= 0)
			shutdown(caller->sock, fuzz_below(input, 3));
		break;
	default:
		if (caller->has_ledger) /* the connection stays, what is held is gone */
			cn_segment_close(&caller->ledger);
		caller->has_ledger = false;
	}
}

/* ---- The exporter ---- */

static void free_block(unsigned at)
{
	if (blocks[at])
		FUZZ_OK(cuMemFreeAsync(blocks[at], NULL));
	blocks[at] = 0;
}

static void export_block(unsigned at)
{
	CUmemPoolPtrExportData name;

	free_block(at);
	if (FUZZ_TRY(cuMemAllocFromPoolAsync(&blocks[at], (size_t)4096 << at, pool, NULL))) {
		blocks[at] = 0; /* those that are held take the room */
		return;
	}
	FUZZ_OK(cuMemPoolExportPointer(&name, blocks[at]));
	memcpy(&names[at], &name, sizeof name);
}

static void look(unsigned how)
{
	cenote_importer importers[CALLERS];
	size_t count = 0;
	char *picture;

	FUZZ_OK(cenote_pool_importers(pool, importers, sizeof *importers, CALLERS, &count));
	FUZZ_CHECK(count <= CALLERS + STEPS_MAX);
	if (how & 1)
		for (size_t i = 0; i < count && i < CALLERS; i++)
			FUZZ_TRY(cenote_pool_evict(pool, importers[i].id));
	if (how & 2)
		FUZZ_OK(cenote_pool_limit(pool, (size_t)how << 10));
	if (how & 4) {
		picture = malloc(8192);
		FUZZ_TRY(cenote_pool_picture(pool, picture, 8192));
		free(picture);
	}
}

static void export_act(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input);

	switch (how % 4) {
	case 0: export_block(how / 4 % BLOCKS); break;
	case 1: free_block(how / 4 % BLOCKS); break;
	case 2: look(how / 4); break;
	default: FUZZ_OK(cuMemPoolTrimTo(pool, 0)); break;
	}
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	memset(names, 0, sizeof names);
	for (int i = 0; i < STEPS_MAX && input.left; i++) {
		unsigned who = fuzz_byte(&input);
		if (who & 8)
			fuzz_barrier(); /* what was said has been heard */
		if (who & 4)
			export_act(&input);
		else
			act(&callers[who % CALLERS], &input);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		free_block(i);
	for (int i = 0; i < CALLERS; i++)
		leave(&callers[i]);
	FUZZ_OK(cuStreamSynchronize(NULL));
	FUZZ_OK(cenote_pool_limit(pool, 0));
	fuzz_await_used(pool, 0);
	fuzz_use_pool(pool);
}
