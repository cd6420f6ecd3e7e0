/* SPDX-License-Identifier: MIT */
/*
 * Control segments and ledgers that change while they are read.
 *
 * The process that may write such a segment need not do it in order, or only once: a thread writes what its part of the
 * script says, again and again, while our side imports and frees by what it reads there (the control segment of a fake
 * pool), or frees, asks and trims (the ledger of a fake importer of ours).
 */
#include "../ask.h"
#include "fuzz.h"

#include "base/segment.h"
#include "share/pool/control.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 8, POINTERS = 8, STEPS_MAX = 32, WRITES_MAX = 16, SERIAL = 77, FIELDS = 5, LEDGER_WORDS = 2 };

#define POOL_BYTES ((uint64_t)2 * CN_PART_BYTES)

static struct fuzz_server exporter;
static struct cn_segment control_segment, ledger_segment;
static int lent_fd; /* a ledger for those who import the fake pool: nobody looks into it */
static int path_fd, memory_fd, importer_sock;
static CUmemoryPool pool;

static struct cn_control *control(void)
{
	return control_segment.address;
}

static struct cn_ledger *ledger(void)
{
	return ledger_segment.address;
}

/* ---- The writer ---- */

struct writing {
	_Atomic uint64_t *word;
	uint64_t value;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct writing writings[WRITES_MAX];
	int count;
	bool running;
	_Atomic bool stop;
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *write_on(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&writer.mutex);
		while (!writer.running)
			pthread_cond_wait(&writer.changed, &writer.mutex);
		pthread_mutex_unlock(&writer.mutex);
		while (!atomic_load(&writer.stop))
			for (int i = 0; i < writer.count; i++)
				atomic_store(writer.writings[i].word, writer.writings[i].value);
		pthread_mutex_lock(&writer.mutex);
		writer.running = false;
		pthread_cond_signal(&writer.changed);
		pthread_mutex_unlock(&writer.mutex);
	}
	return NULL;
}

static void writer_start(void)
{
	pthread_mutex_lock(&writer.mutex);
	atomic_store(&writer.stop, false);
	writer.running = true;
	pthread_cond_signal(&writer.changed);
	pthread_mutex_unlock(&writer.mutex);
}

static void writer_stop(void)
{
	atomic_store(&writer.stop, true);
	pthread_mutex_lock(&writer.mutex);
	while (writer.running)
		pthread_cond_wait(&writer.changed, &writer.mutex);
	pthread_mutex_unlock(&writer.mutex);
}

/* ---- A fake pool ---- */

static bool answer(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_WELCOME, .request = request->message.request}};
	uint64_t *words = parcel.message.words;
	uint64_t index = request->message.words[0] / CN_PART_BYTES % CN_PART_COUNT_MAX;

	(void)server;
	if (request->message.kind == CN_MESSAGE_JOIN) {
		words[CN_WELCOME_BYTES] = POOL_BYTES;
		words[CN_WELCOME_LOCATION_TYPE] = CU_MEM_LOCATION_TYPE_DEVICE;
		memcpy(parcel.message.bytes, "a fuzzed pool...", CN_EXPORT_NAME_BYTES);
		parcel.descriptors[0] = control_segment.fd;
	} else if (request->message.kind == CN_MESSAGE_PART) {
		parcel.message.kind = CN_MESSAGE_PART;
		words[0] = index * CN_PART_BYTES;
		words[1] = CN_PART_BYTES;
		words[2] = atomic_load(&control()->serials[index]);
		parcel.descriptors[0] = memory_fd;
	} else {
		return true;
	}
	parcel.descriptor_count = 1;
	if (parcel.message.kind == CN_MESSAGE_WELCOME)
		parcel.descriptors[parcel.descriptor_count++] = lent_fd;
	return !cn_wire_send(sock, &parcel);
}

static void reset_control(void)
{
	atomic_store(&control()->limit_bytes, 0);
	for (unsigned i = 0; i < 4; i++)
		atomic_store(&control()->serials[i], i < 2 ? SERIAL : 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct cn_control_slot *slot = &control()->slots[1 + i];
		atomic_store(&slot->offset, i * UINT64_C(6291456));
		atomic_store(&slot->bytes, 1 << 20);
		atomic_store(&slot->generation, 1);
	}
}

static _Atomic uint64_t *control_word(struct fuzz_input *input)
{
	unsigned which = fuzz_byte(input);
	struct cn_control_slot *slot = &control()->slots[1 + which / 8 % SLOTS];

	switch (which % FIELDS) {
	case 0: return &slot->generation;
	case 1: return &slot->offset;
	case 2: return &slot->bytes;
	case 3: return &control()->serials[which / 8 % 4];
	default: return &control()->limit_bytes;
	}
}

static CUmemPoolPtrExportData name_of(uint64_t slot)
{
	struct cn_export_data data = {
		.magic = CN_EXPORT_DATA_MAGIC, .version = CN_EXPORT_DATA_VERSION, .slot = slot, .generation = 1};
	CUmemPoolPtrExportData name;

	memcpy(data.pool, "a fuzzed pool...", CN_EXPORT_NAME_BYTES);
	data.check = cn_export_data_check(&data);
	memcpy(&name, &data, sizeof name);
	return name;
}

static void import_from_fake(struct fuzz_input *input)
{
	CUdeviceptr pointers[POINTERS] = {0};
	CUmemoryPool imported;

	FUZZ_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)path_fd,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	writer_start();
	for (int i = 0; i < STEPS_MAX && input->left; i++) {
		unsigned how = fuzz_byte(input), at = how % POINTERS;
		CUmemPoolPtrExportData name = name_of(1 + how / POINTERS % SLOTS);
		if (pointers[at]) {
			fuzz_touch(pointers[at]);
			FUZZ_OK(cuMemFreeAsync(pointers[at], NULL));
			pointers[at] = 0;
		}
		if (!FUZZ_TRY(cuMemPoolImportPointer(&pointers[at], imported, &name)))
			fuzz_touch(pointers[at]);
	}
	writer_stop();
	for (int i = 0; i < POINTERS; i++)
		if (pointers[i])
			FUZZ_OK(cuMemFreeAsync(pointers[i], NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	FUZZ_OK(cuMemPoolDestroy(imported));
	fuzz_server_end(&exporter);
}

/* ---- A fake importer ---- */

static _Atomic uint64_t *ledger_word(struct fuzz_input *input)
{
	unsigned which = fuzz_byte(input);

	switch (which % 8) {
	case 0: return &ledger()->held_count;
	case 1: return &ledger()->held_bytes;
	case 2: return &ledger()->parts_seen;
	default: return &ledger()->held[which / 8 % LEDGER_WORDS];
	}
}

static void export_step(CUdeviceptr *block, unsigned how)
{
	struct cn_parcel released = {.message = {.kind = how & 64 ? CN_MESSAGE_RELEASED : CN_MESSAGE_PART}};
	CUmemPoolPtrExportData name;
	cenote_importer importers[4];
	size_t count;

	if (*block) {
		FUZZ_OK(cuMemFreeAsync(*block, NULL));
		*block = 0;
	} else if (!FUZZ_TRY(cuMemAllocFromPoolAsync(block, (size_t)4096 << how % 8, pool, NULL))) {
		FUZZ_OK(cuMemPoolExportPointer(&name, *block));
	}
	if (how & 32)
		FUZZ_OK(cenote_pool_importers(pool, importers, sizeof *importers, 4, &count));
	if (how & 16)
		cn_wire_send(importer_sock, &released);
	if (how & 128)
		FUZZ_OK(cuMemPoolTrimTo(pool, 0));
}

static void export_to_fake(struct fuzz_input *input)
{
	CUdeviceptr blocks[SLOTS] = {0};

	writer_start();
	for (int i = 0; i < STEPS_MAX && input->left; i++) {
		unsigned how = fuzz_byte(input);
		export_step(&blocks[how % SLOTS], how);
	}
	for (int i = 0; i < SLOTS; i++)
		if (blocks[i])
			FUZZ_OK(cuMemFreeAsync(blocks[i], NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	writer_stop();
	for (int i = 0; i < LEDGER_WORDS; i++)
		atomic_store(&ledger()->held[i], 0);
	struct cn_parcel released = {.message = {.kind = CN_MESSAGE_RELEASED}};
	FUZZ_CHECK(!tell_peer(importer_sock, &released));
	fuzz_await_used(pool, 0);
	fuzz_drain(importer_sock);
}

static void lend_ledger(void)
{
	struct cn_segment unread;

	FUZZ_OK(cn_segment_lend("fuzz-ledger", sizeof(struct cn_ledger), &unread, &lent_fd));
	cn_segment_close(&unread);
}

static void join_pool(void)
{
	int descriptor = fuzz_pool_descriptor(pool);
	struct cn_parcel join = {.message = {.kind = CN_MESSAGE_JOIN}}, welcome;

	FUZZ_OK(connect_path(descriptor, &importer_sock));
	close(descriptor);
	FUZZ_OK(ask_peer(importer_sock, &join, &welcome));
	FUZZ_CHECK(welcome.descriptor_count == 2);
	FUZZ_OK(cn_segment_borrow(welcome.descriptors[CN_WELCOME_LEDGER], sizeof(struct cn_ledger), "the ledger",
				  &ledger_segment));
	welcome.descriptor_count = 1;
	cn_wire_close(&welcome);
}

void fuzz_prepare(void)
{
	pthread_t thread;

	fuzz_start();
	pool = fuzz_pool(CN_PART_BYTES);
	fuzz_use_pool(pool);
	join_pool();
	lend_ledger();
	FUZZ_OK(cn_segment_make("fuzz-control", sizeof(struct cn_control), &control_segment));
	memory_fd = fuzz_memory_file("fuzz-memory", POOL_BYTES, 0, F_SEAL_SHRINK | F_SEAL_GROW);
	exporter.answer = answer;
	FUZZ_OK(cn_wire_listen_unnamed(&exporter.listener, &path_fd));
	fuzz_server_start(&exporter);
	FUZZ_CHECK(!pthread_create(&thread, NULL, write_on, NULL));
	pthread_detach(thread);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	bool fake_pool = fuzz_byte(&input) & 1;

	reset_control();
	writer.count = (int)fuzz_below(&input, WRITES_MAX);
	for (int i = 0; i < writer.count; i++) {
		writer.writings[i].word = fake_pool ? control_word(&input) : ledger_word(&input);
		writer.writings[i].value = fuzz_number(&input);
	}
	if (fake_pool)
		import_from_fake(&input);
	else
		export_to_fake(&input);
}
