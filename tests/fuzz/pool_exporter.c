/* SPDX-License-Identifier: MIT */
/*
 * A pool's channel, the stranger as exporter: what an importer is told, shown and handed over.
 *
 * A fake pool whose control segment is the script's to write, and whose answers it changes: welcomes, parts, words that
 * nobody asked for, other files than were asked for. Whatever it says, an imported pointer leads to memory that is
 * there, in the pool's range, until it is freed.
 */
#include "fuzz.h"

#include "base/segment.h"
#include "share/pool/control.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PARTS = 2, POOLS = 2, POINTERS = 16, SLOTS = 16, STEPS_MAX = 48, SERIAL = 77 };

#define POOL_BYTES ((uint64_t)PARTS * CN_PART_BYTES)

static struct fuzz_server exporter;
static int path_fd, memory_fd, ledger_fd;
static struct cn_segment segment;
static CUmemoryPool pools[POOLS];
static CUdeviceptr pointers[POINTERS];

static struct cn_control *control(void)
{
	return segment.address;
}

/* ---- The exporter ---- */

static void make_welcome(const struct cn_message *request, struct cn_parcel *ret_parcel)
{
	*ret_parcel = (struct cn_parcel){
		.message = {.kind = CN_MESSAGE_WELCOME,
			    .request = request->request,
			    .words = {[CN_WELCOME_BYTES] = POOL_BYTES,
				      [CN_WELCOME_LOCATION_TYPE] = CU_MEM_LOCATION_TYPE_DEVICE,
				      [CN_WELCOME_HANDLE_TYPES] = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      [CN_WELCOME_MEMORY_TYPE] = CU_MEM_ALLOCATION_TYPE_PINNED,
				      [CN_WELCOME_PART] = 0,
				      [CN_WELCOME_PART + 1] = POOL_BYTES,
				      [CN_WELCOME_PART + 2] = SERIAL}},
		.descriptors = {[CN_WELCOME_CONTROL] = segment.fd,
				[CN_WELCOME_LEDGER] = ledger_fd,
				[CN_WELCOME_MEMORY] = memory_fd},
		.descriptor_count = request->words[CN_JOIN_SLOT] ? 3 : 2,
	};
	memcpy(ret_parcel->message.bytes, "a fuzzed pool...", CN_EXPORT_NAME_BYTES);
}

static void make_part(const struct cn_message *request, bool all, struct cn_parcel *ret_parcel)
{
	uint64_t index = request->words[0] / CN_PART_BYTES % CN_PART_COUNT_MAX;

	*ret_parcel = (struct cn_parcel){
		.message = {.kind = CN_MESSAGE_PART,
			    .request = request->request,
			    .words = {all ? 0 : index * CN_PART_BYTES, all ? POOL_BYTES : CN_PART_BYTES,
				      atomic_load(&control()->serials[index])}},
		.descriptors = {memory_fd},
		.descriptor_count = 1,
	};
}

static bool answer(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	unsigned how = fuzz_byte(&server->input);
	struct cn_parcel parcel = {.message = {.kind = how & 4 ? CN_MESSAGE_PARTS : CN_MESSAGE_EVICTED}};

	if ((how & 3) == 3) /* something else first */
		fuzz_send(&server->input, sock, &parcel);
	if (request->message.kind == CN_MESSAGE_JOIN) {
		make_welcome(&request->message, &parcel);
		if (how & 64) /* the control segment as a ledger, or as memory */
			parcel.descriptors[parcel.descriptor_count - 1] = segment.fd;
	} else if (request->message.kind == CN_MESSAGE_PART) {
		make_part(&request->message, how & 16, &parcel);
	} else {
		return true;
	}
	/* Who does not know it for the answer would wait for another. */
	return fuzz_send(&server->input, sock, &parcel) && !(how & 32);
}

static void say_unasked(struct fuzz_server *server, int sock, void *data)
{
	unsigned how = *(const unsigned *)data;
	struct cn_parcel parcel = {
		.message = {.kind = how & 1 ? CN_MESSAGE_PARTS : CN_MESSAGE_EVICTED, .words = {how >> 1}}};

	fuzz_send(&server->input, sock, &parcel);
}

/* ---- The importer ---- */

static CUmemPoolPtrExportData name_of(uint64_t slot, uint64_t generation)
{
	struct cn_export_data data = {.magic = CN_EXPORT_DATA_MAGIC,
				      .version = CN_EXPORT_DATA_VERSION,
				      .slot = slot,
				      .generation = generation};
	CUmemPoolPtrExportData name;

	memcpy(data.pool, "a fuzzed pool...", CN_EXPORT_NAME_BYTES);
	data.check = cn_export_data_check(&data);
	memcpy(&name, &data, sizeof name);
	return name;
}

static void import_pool(unsigned at)
{
	if (pools[at])
		return;
	if (FUZZ_TRY(cuMemPoolImportFromShareableHandle(&pools[at], (void *)(intptr_t)path_fd,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		pools[at] = NULL;
}

static void free_pointer(unsigned at, bool now)
{
	if (!pointers[at])
		return;
	fuzz_touch(pointers[at]); /* it has been there all the time */
	FUZZ_OK(now ? cuMemFree(pointers[at]) : cuMemFreeAsync(pointers[at], NULL));
	pointers[at] = 0;
}

static void import_pointer(unsigned at, unsigned slot, uint64_t generation)
{
	CUmemPoolPtrExportData name = name_of(1 + slot, generation);

	import_pool(at % POOLS);
	free_pointer(at, slot & 1);
	if (!pools[at % POOLS])
		return;
	if (FUZZ_TRY(cuMemPoolImportPointer(&pointers[at], pools[at % POOLS], &name)))
		pointers[at] = 0;
	else
		fuzz_touch(pointers[at]);
}

static void show(unsigned slot, struct fuzz_input *input)
{
	struct cn_control_slot *shown = &control()->slots[1 + slot];
	unsigned what = fuzz_byte(input);

	if (what & 1)
		atomic_store(&shown->offset, what & 2 ? fuzz_number(input) : fuzz_byte(input) * UINT64_C(262144));
	if (what & 4)
		atomic_store(&shown->bytes, what & 8 ? fuzz_number(input) : 1 + fuzz_byte(input) * UINT64_C(65536));
	if (what & 16)
		atomic_store(&shown->generation, fuzz_number(input));
	if (what & 32)
		atomic_store(&control()->serials[fuzz_below(input, 4)], what & 64 ? fuzz_number(input) : SERIAL);
	if (what & 128)
		atomic_store(&control()->limit_bytes, fuzz_number(input));
}

static void step(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), at = fuzz_byte(input);

	switch (how % 8) {
	case 0:
	case 1: import_pointer(at % POINTERS, at / POINTERS % SLOTS, how & 64 ? fuzz_number(input) : 1); break;
	case 2: free_pointer(at % POINTERS, how & 64); break;
	case 3:
	case 4: show(at % SLOTS, input); break;
	case 5: fuzz_server_do(&exporter, say_unasked, &at); break;
	case 6:
		if (pools[at % POOLS] && !FUZZ_TRY(cuMemPoolDestroy(pools[at % POOLS])))
			pools[at % POOLS] = NULL;
		break;
	default:
		if (at & 1)
			FUZZ_OK(cuStreamSynchronize(NULL));
		else
			fuzz_barrier();
	}
}

/* As an honest pool has it: a block in each slot. */
static void reset_control(void)
{
	atomic_store(&control()->limit_bytes, 0);
	for (unsigned i = 0; i < 4; i++)
		atomic_store(&control()->serials[i], i < PARTS ? SERIAL : 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct cn_control_slot *slot = &control()->slots[1 + i];
		atomic_store(&slot->offset, i * UINT64_C(3145728));
		atomic_store(&slot->bytes, 1 << 20);
		atomic_store(&slot->generation, 1);
	}
}

static void end(void)
{
	for (unsigned i = 0; i < POINTERS; i++)
		free_pointer(i, false);
	FUZZ_OK(cuStreamSynchronize(NULL));
	for (unsigned i = 0; i < POOLS; i++)
		if (pools[i])
			FUZZ_OK(cuMemPoolDestroy(pools[i]));
	memset(pools, 0, sizeof pools);
	fuzz_server_end(&exporter);
}

void fuzz_prepare(void)
{
	fuzz_start();
	CUmemoryPool pool = fuzz_pool(CN_PART_BYTES);
	fuzz_use_pool(pool);
	fuzz_offer(fuzz_pool_descriptor(pool));
	FUZZ_OK(cn_segment_make("fuzz-control", sizeof(struct cn_control), &segment));
	memory_fd = fuzz_memory_file("fuzz-memory", POOL_BYTES, 0, F_SEAL_SHRINK | F_SEAL_GROW);
	fuzz_offer(segment.fd);
	ledger_fd = fuzz_memory_file("fuzz-ledger", sizeof(struct cn_ledger), 0, F_SEAL_SHRINK | F_SEAL_GROW);
	fuzz_offer(memory_fd);
	fuzz_offer(ledger_fd);
	exporter.answer = answer;
	FUZZ_OK(cn_wire_listen_unnamed(&exporter.listener, &path_fd));
	fuzz_server_start(&exporter);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	reset_control();
	fuzz_server_begin(&exporter, fuzz_part(&input));
	for (int i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	end();
	/* An honest one is believed after all that. */
	reset_control();
	import_pointer(0, 3, 1);
	FUZZ_CHECK(pointers[0]);
	end();
}
