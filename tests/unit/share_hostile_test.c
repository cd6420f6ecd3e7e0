/* SPDX-License-Identifier: MIT */
/*
 * Importers and exporters that break the rules: whatever they send, hold back or change while we look, they get an
 * error or are shut out, and no other process notices.
 *
 * The hostile side is written here with the pieces of the protocol, in the same process: a descriptor is all that the
 * two sides share anyway.
 */
#include "share_fake.h"

#include <sys/resource.h>

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

enum {
	BLOCK = SHARE_MIB,
	POOL = SHARE_CHUNK,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
	HUGE_BYTES = 2 << 20,
};
_Static_assert((int)POOL == (int)CN_PART_BYTES, "a fake pool has one part");

SETUP
{
	share_start();
}

/* ---- Files that are not what they should be ---------------------------------------------------------------------- */

enum { BAD_FILES = 9 };

/* A descriptor that must not be accepted as a segment of so many bytes; -1: it cannot be made here. */
static int bad_file(unsigned which, size_t bytes)
{
	int ends[2], fd;

	switch (which) {
	case 0:
		ASSERT_SYS(pipe2(ends, O_CLOEXEC));
		close(ends[1]);
		return ends[0];
	case 1: ASSERT_SYS(fd = open("/dev/null", O_RDWR | O_CLOEXEC)); return fd;
	case 2: ASSERT_SYS(fd = open("/", O_PATH | O_CLOEXEC)); return fd;
	case 3: return memory_file(bytes, 0, F_SEAL_GROW);   /* it could be cut */
	case 4: return memory_file(bytes, 0, F_SEAL_SHRINK); /* it could grow */
	case 5: return memory_file(bytes - 4096, 0, SEALS);
	case 6: return memory_file(0, 0, SEALS);
	case 7: ASSERT_SYS(fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); return fd;
	default: /* sealed and long enough, but of pages that the system may not have: touching them would kill us */
		fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
		if (fd < 0)
			return -1;
		ASSERT_SYS(ftruncate(fd, (off_t)((bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES)));
		ASSERT_SYS(fcntl(fd, F_ADD_SEALS, bytes % HUGE_BYTES ? SEALS : F_SEAL_SHRINK | F_SEAL_GROW));
		return fd;
	}
}

/* ---- Hostile importers ------------------------------------------------------------------------------------------- */

/* The other side has closed the connection; replies may have come before that. */
static void expect_end(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	char reply[256];
	ssize_t got;

	do {
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		got = recv(sock, reply, sizeof reply, 0);
	} while (got > 0 || (got < 0 && errno == EAGAIN));
	if (got < 0)
		ASSERT_EQ(ECONNRESET, errno);
	close(sock);
}

/* Another importer is served, and the exporter has all its memory. */
static void check_exporter(CUmemoryPool pool)
{
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);
	CUdeviceptr taken = share_take(imported, share_name(block));

	close(descriptor);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemFreeAsync(taken, NULL));
	ASSERT_OK(cuMemPoolDestroy(imported));
	share_await_used(pool, 0);
	share_fill_whole(pool, POOL, BLOCK, 0);
}

/* Goal: a process that sends a wrong message is shut out. */
TEST(messages_that_are_none)
{
	struct test_random random = test_random_start(1);
	CUmemoryPool pool = share_pool(POOL);
	unsigned char bytes[4096];

	for (unsigned i = 0; i < 200; i++) {
		int sock = connect_to(pool);
		size_t size = i < 140 ? i : test_random_below(&random, sizeof bytes);
		for (size_t at = 0; at < sizeof bytes; at++)
			bytes[at] = (unsigned char)test_random_next(&random);
		if (i % 3 == 0) { /* looks valid at first */
			struct cn_message message = {.magic = CN_WIRE_MAGIC, .version = CN_WIRE_VERSION + i % 2};
			message.kind = (uint32_t)test_random_below(&random, 12);
			memcpy(bytes, &message, sizeof message);
		}
		ASSERT_EQ((ssize_t)size, send(sock, bytes, size, MSG_NOSIGNAL));
		expect_end(sock);
	}
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an exporter accepts no descriptor, whatever it is: a process that sends one is shut out. */
TEST(joins_with_a_descriptor)
{
	CUmemoryPool pool = share_pool(POOL);

	for (unsigned i = 0; i < BAD_FILES + 2; i++) {
		int sock = connect_to(pool), fd;
		struct cn_parcel parcel;
		if (i < BAD_FILES)
			fd = bad_file(i, sizeof(struct cn_ledger));
		else
			fd = memory_file(sizeof(struct cn_ledger), 0, i == BAD_FILES ? SEALS : F_SEAL_SHRINK);
		if (fd < 0) /* it cannot be made here */
			fd = memory_file(4096, 0, SEALS);
		parcel = parcel_of(CN_MESSAGE_JOIN, fd);
		if (i == BAD_FILES + 1) {
			parcel.descriptors[1] = parcel.descriptors[2] = fd;
			parcel.descriptor_count = 3;
		}
		unsigned before = test_descriptor_count();
		send_parcel(sock, parcel);
		expect_end(sock);
		ASSERT_LE(test_descriptor_count(), before);
		close(fd);
	}
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an importer that has joined may ask for the pool's memory and for nothing else, and cannot join again. */
TEST(requests_out_of_bounds)
{
	CUmemoryPool pool = share_pool(POOL);
	struct cn_segment ledger;
	struct cn_parcel welcome, answer;
	int sock = join_pool(pool, &ledger, &welcome);
	uint64_t bytes = welcome.message.words[0];
	const uint64_t offsets[] = {bytes, bytes + 1, UINT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 4095};

	for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		struct cn_parcel request = parcel_of(CN_MESSAGE_PART, -1);
		request.message.words[0] = offsets[i];
		send_parcel(sock, request);
		answer = receive_parcel(sock);
		ASSERT_NE(0, answer.message.result);
		ASSERT_EQ(0, answer.descriptor_count);
	}
	struct cn_parcel request = parcel_of(CN_MESSAGE_PART, -1);
	request.message.words[0] = bytes - 1;
	send_parcel(sock, request);
	answer = receive_parcel(sock);
	ASSERT_EQ(0, answer.message.result);
	ASSERT_EQ(1, answer.descriptor_count);
	cn_wire_close(&answer);
	for (unsigned i = 0; i < 1000; i++)
		send_parcel(sock, parcel_of(CN_MESSAGE_RELEASED, -1));
	send_parcel(sock, parcel_of(CN_MESSAGE_JOIN, -1));
	expect_end(sock);
	cn_wire_close(&welcome);
	cn_segment_close(&ledger);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an importer cannot spoil for others what it gets from its exporter. */
TEST(an_importer_cannot_seal_or_write_what_is_shared)
{
	CUmemoryPool pool = share_pool(POOL);
	struct cn_segment ledger;
	struct cn_parcel welcome, part;
	int sock = join_pool(pool, &ledger, &welcome), control = welcome.descriptors[0];

	ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0));
	ASSERT_EQ(-1, pwrite(control, "x", 1, 0));
	ASSERT_EQ(-1, ftruncate(control, 0));
	fcntl(control, F_ADD_SEALS, F_SEAL_WRITE); /* whether it is allowed or not: see below */
	fcntl(control, F_ADD_SEALS, F_SEAL_SEAL);
	send_parcel(sock, parcel_of(CN_MESSAGE_PART, -1));
	part = receive_parcel(sock);
	ASSERT_EQ(-1, ftruncate(part.descriptors[0], 0));
	ASSERT_EQ(-1, fcntl(part.descriptors[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	cn_wire_close(&part);
	check_exporter(pool);
	cn_wire_close(&welcome);
	cn_segment_close(&ledger);
	close(sock);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an importer that claims to hold everything delays exported blocks while it is there, and no longer. */
TEST(a_ledger_full_of_lies)
{
	enum { COUNT = 100 };
	CUmemoryPool pool = share_pool(POOL);
	struct cn_segment segment;
	struct cn_parcel welcome;
	int sock = join_pool(pool, &segment, &welcome);
	struct cn_ledger *ledger = segment.address;
	CUdeviceptr blocks[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		struct cn_export_data data;
		blocks[i] = share_allocate(pool, BLOCK / 8, NULL);
		CUmemPoolPtrExportData name = share_name(blocks[i]);
		memcpy(&data, &name, sizeof data);
		if (i % 2)
			atomic_fetch_or(&ledger->held[data.slot / CN_LEDGER_WORD_SLOTS],
					cn_ledger_bit((uint32_t)data.slot));
	}
	atomic_store(&ledger->held_count, UINT64_MAX);
	atomic_store(&ledger->held_bytes, UINT64_MAX);
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ((uint64_t)COUNT / 2 * (BLOCK / 8), share_used(pool));
	close(sock);
	ASSERT_EQ((uint64_t)COUNT / 2 * (BLOCK / 8),
		  share_used(pool)); /* the end of a channel is not the end of a hold */
	atomic_store(&ledger->held[0], 0);
	cn_segment_close(&segment);
	cn_wire_close(&welcome);
	share_await_used(pool, 0);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an importer that asks and does not read is shut out when its socket is full, and delays no other. */
TEST(one_that_asks_and_does_not_listen)
{
	CUmemoryPool pool = share_pool(POOL);
	struct cn_segment ledger;
	struct cn_parcel welcome, request = parcel_of(CN_MESSAGE_PART, -1);
	int sock = join_pool(pool, &ledger, &welcome), error;

	do
		error = cn_wire_send(sock, &request);
	while (!error || error == EAGAIN);
	ASSERT(error == EPIPE || error == ECONNRESET);
	cn_wire_close(&welcome);
	cn_segment_close(&ledger);
	check_exporter(pool);
	close(sock);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a process that connects and is silent is shut out after a while; others are served meanwhile. */
TEST(one_that_says_nothing)
{
	CUmemoryPool pool = share_pool(POOL);
	int sock = connect_to(pool);

	check_exporter(pool);
	expect_end(sock);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/*
 * Goal: silent connections take no more than a share of the exporter's descriptors, and keep no process out: neither
 * importers that have joined nor new ones.
 */
TEST(a_flood_of_silent_connections, .timeout_ms = 60000)
{
	enum { MANY = CN_IMPORTERS_MAX + 50 };
	static int socks[MANY];
	struct rlimit limit;
	CUmemoryPool pool = share_pool(POOL);

	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 2 * MANY + 200;
	if (limit.rlim_max < limit.rlim_cur || setrlimit(RLIMIT_NOFILE, &limit))
		SKIP("the system allows no %d descriptors", 2 * MANY + 200);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	share_fill(block, 0x2b, BLOCK);
	agent_take(agent, 0, share_name(block)); /* it is connected */
	unsigned before = test_descriptor_count();
	for (unsigned i = 0; i < MANY; i++)
		socks[i] = connect_to(pool);
	agent_take(agent, 1, share_name(block));
	ASSERT_EQ(0x2b, agent_byte(agent, 1, BLOCK - 1));
	struct peer *late = agent_importer(pool); /* a new importer */
	agent_take(late, 0, share_name(block));
	ASSERT_EQ(0x2b, agent_byte(late, 0, BLOCK - 1));
	/* This process has the clients' ends as well as the exporter's, and late's three descriptors. */
	ASSERT_LE(test_descriptor_count(), before + MANY + limit.rlim_cur / 8 + 4);
	for (unsigned i = 0; i < MANY; i++)
		close(socks[i]);
	agent_free(late, 0);
	agent_destroy(late, 0);
	agent_end(late);
	agent_free(agent, 0);
	agent_free(agent, 1);
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	share_await_used(pool, 0);
	check_exporter(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Hostile exporters ------------------------------------------------------------------------------------------- */

static void expect_refusal(struct fake *fake)
{
	CUmemoryPool pool;

	fake_start(fake);
	ASSERT_NE(CUDA_SUCCESS, share_try_import(fake->path, &pool));
	ASSERT_NE(0, strlen(cenote_last_error()));
	fake_stop(fake);
}

/* Goal: a pool whose exporter sends an impossible welcome is not imported. */
TEST(welcomes_that_are_none)
{
	struct cn_segment control;
	const uint64_t sizes[] = {0, 1, POOL + 1, POOL + 4096, (uint64_t)1 << 41, (uint64_t)1 << 63, UINT64_MAX};
	const uint64_t places[][2] = {{0, 0}, {99, 0}, {1, 77}, {1, UINT64_MAX}, {UINT64_MAX, 0}, {2, 0}};

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &control));
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct fake fake = good_fake(control.fd, -1, POOL);
		fake.welcome.message.words[0] = sizes[i];
		expect_refusal(&fake);
	}
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		struct fake fake = good_fake(control.fd, -1, POOL);
		fake.welcome.message.words[1] = places[i][0];
		fake.welcome.message.words[2] = places[i][1];
		expect_refusal(&fake);
	}
	for (unsigned i = 0; i < BAD_FILES + 2; i++) {
		int fd = i < BAD_FILES    ? bad_file(i, sizeof(struct cn_control))
			 : i == BAD_FILES ? memory_file(sizeof(struct cn_control), 0, F_SEAL_SHRINK | F_SEAL_GROW)
					  : -1;
		struct fake fake = good_fake(fd, -1, POOL);
		expect_refusal(&fake);
		if (fd >= 0)
			close(fd);
	}
	for (unsigned i = 0; i < BAD_FILES + 2; i++) { /* a ledger that is invalid, or cannot be written */
		int fd = i < BAD_FILES ? bad_file(i, sizeof(struct cn_ledger))
				       : memory_file(sizeof(struct cn_ledger), 0, i == BAD_FILES ? SEALS : F_SEAL_GROW);
		struct fake fake = good_fake(control.fd, -1, POOL);
		if (fd < 0)
			fake.welcome.descriptor_count = 1; /* it cannot be made here: none */
		else
			fake.welcome.descriptors[CN_WELCOME_LEDGER] = fd;
		expect_refusal(&fake);
		if (fd >= 0)
			close(fd);
	}
	struct fake fakes[4];
	for (unsigned i = 0; i < 4; i++)
		fakes[i] = good_fake(control.fd, -1, POOL);
	fakes[0].silent = true;
	fakes[1].other_question = true;
	fakes[2].welcome.message.kind = CN_MESSAGE_PART;
	fakes[3].welcome.descriptors[CN_WELCOME_MEMORY] = control.fd;
	fakes[3].welcome.descriptor_count = 3;
	for (unsigned i = 0; i < 4; i++)
		expect_refusal(&fakes[i]);
	cn_segment_close(&control);
}

/* Make a descriptor say where the pool is. */
static void mark(const struct fake *fake, int location_type, int location_id, uint64_t range_bytes)
{
	struct cn_export_facts facts = {
		.location_type = location_type, .location_id = location_id, .range_bytes = range_bytes};

	cn_location_write(fake->path, &facts);
}

/* Goal: what a descriptor says of its pool is compared with what the exporter says, and not trusted. */
TEST(marks_that_lie)
{
	struct cn_segment control;
	CUmemPoolPtrExportData name = fake_name(1, 1);
	CUdeviceptr address;
	CUmemoryPool pool;

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &control));
	show(control.address, 1, 0, BLOCK);
	for (unsigned i = 0; i < 8; i++) {
		int memory = memory_file(POOL, 0, F_SEAL_SHRINK | F_SEAL_GROW);
		struct fake fake = good_fake(control.fd, memory, POOL);
		if (i == 1) /* on a node, but says a device */
			fake.welcome.message.words[CN_WELCOME_LOCATION_TYPE] = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		if (i == 2) /* on another device */
			fake.welcome.message.words[CN_WELCOME_LOCATION_ID] = 1;
		if (i == 3)
			fake.welcome.message.words[CN_WELCOME_BYTES] = 1;
		fake_start(&fake);
		mark(&fake, i == 6 ? 31 : CU_MEM_LOCATION_TYPE_DEVICE, i == 7 ? 77 : 0,
		     i == 4   ? 2ull * POOL
		     : i == 5 ? POOL * (uint64_t)CN_PART_COUNT_MAX
			      : POOL); /* a wrong range is made, and given back */
		if (i >= 6) {          /* an unknown location: refused at once */
			ASSERT_ERROR(i == 7 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE,
				     share_try_import(fake.path, &pool));
		} else {
			pool = share_import(fake.path);
			for (unsigned again = 0; again < 2; again++)
				ASSERT_EQ(i ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS,
					  cuMemPoolImportPointer(&address, pool, &name));
			for (unsigned again = 0; again < 2 && !i; again++)
				ASSERT_OK(cuMemFreeAsync(address, NULL));
			ASSERT_OK(cuStreamSynchronize(NULL));
			ASSERT_OK(cuMemPoolDestroy(pool));
		}
		fake_stop(&fake);
		close(memory);
	}
	cn_segment_close(&control);
}

/* Goal: wrong memory with a welcome does no harm: the importer asks for it again. */
TEST(first_parts_that_are_none)
{
	const uint64_t parts[][3] = {{0, POOL, FAKE_SERIAL},
				     {0, POOL, FAKE_SERIAL + 1},
				     {0, 0, FAKE_SERIAL},
				     {4096, POOL, FAKE_SERIAL},
				     {POOL, POOL, FAKE_SERIAL},
				     {0, 2ull * POOL, FAKE_SERIAL},
				     {UINT64_MAX, POOL, FAKE_SERIAL},
				     {0, POOL, 0}};
	enum { PARTS = sizeof parts / sizeof *parts };
	struct cn_segment control;

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &control));
	show(control.address, 1, 0, BLOCK);
	for (unsigned i = 0; i < PARTS + BAD_FILES; i++) {
		int memory = memory_file(POOL, 0, F_SEAL_SHRINK | F_SEAL_GROW);
		int first = i < PARTS ? memory : bad_file(i - PARTS, POOL);
		struct fake fake = good_fake(control.fd, memory, POOL);
		if (first < 0)
			first = memory; /* it cannot be made here */
		memcpy(&fake.welcome.message.words[CN_WELCOME_PART], parts[i < PARTS ? i : 0], sizeof parts[0]);
		fake.welcome.descriptors[CN_WELCOME_MEMORY] = first;
		fake.welcome.descriptor_count = 3;
		fake_start(&fake);
		mark(&fake, CU_MEM_LOCATION_TYPE_DEVICE, 0, POOL);
		CUmemoryPool pool = share_import(fake.path);
		CUdeviceptr block = share_take(pool, fake_name(1, 1));
		ASSERT_EQ(first == memory && (i == 0 || i >= PARTS) ? 0u : 1u, fake.asked_count);
		share_fill(block, 5, BLOCK);
		ASSERT_EQ(5, share_byte(block));
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		ASSERT_OK(cuMemPoolDestroy(pool));
		fake_stop(&fake);
		if (first != memory)
			close(first);
		close(memory);
	}
	cn_segment_close(&control);
}

/* Goal: an exporter that hands over something else than the requested memory gives none. */
TEST(parts_that_are_none)
{
	struct cn_segment control;
	const uint64_t places[][2] = {{0, 0},
				      {0, 4096},
				      {4096, POOL},
				      {POOL, POOL},
				      {0, 2 * (uint64_t)POOL},
				      {UINT64_MAX, POOL},
				      {POOL - HUGE_BYTES, 2 * HUGE_BYTES},
				      {1, 1},
				      {POOL - HUGE_BYTES, HUGE_BYTES}};
	enum { PLACES = sizeof places / sizeof *places };

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &control));
	show(control.address, 1, 0, BLOCK);
	for (unsigned i = 0; i < BAD_FILES + PLACES + 3; i++) {
		int fd = i < BAD_FILES ? bad_file(i, POOL) : memory_file(POOL, 0, F_SEAL_SHRINK | F_SEAL_GROW);
		struct fake fake = good_fake(control.fd, fd, POOL);
		CUmemPoolPtrExportData name = fake_name(1, 1);
		CUdeviceptr address;
		if (i >= BAD_FILES && i < BAD_FILES + PLACES)
			memcpy(fake.part.message.words, places[i - BAD_FILES], sizeof places[0]);
		if (i == BAD_FILES + PLACES)
			fake.part.message.result = CUDA_ERROR_OUT_OF_MEMORY;
		if (i == BAD_FILES + PLACES + 1)
			fake.part.message.kind = CN_MESSAGE_EVICTED;
		fake_start(&fake);
		CUmemoryPool pool = share_import(fake.path);
		if (i == BAD_FILES + PLACES + 2)
			fake.silent = true;
		ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportPointer(&address, pool, &name));
		ASSERT_NE(0, strlen(cenote_last_error()));
		ASSERT_OK(cuMemPoolDestroy(pool));
		fake_stop(&fake);
		if (fd >= 0)
			close(fd);
	}
	cn_segment_close(&control);
}

/* Goal: blocks at impossible offsets are refused; two that overlap do no harm. */
TEST(blocks_out_of_bounds)
{
	struct cn_segment segment;
	int memory = memory_file(POOL, 0, F_SEAL_SHRINK | F_SEAL_GROW);
	const uint64_t bad[][2] = {
		{POOL, BLOCK},           {POOL - 512, 1024}, {0, 0},          {1, 511},
		{0, POOL + 1},           {256, 512},         {0, UINT64_MAX}, {UINT64_MAX - 511, 1024},
		{512, UINT64_MAX - 511}, {1u << 31, 512}};
	enum { BAD = sizeof bad / sizeof *bad };
	CUdeviceptr address, first, second;

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &segment));
	struct fake fake = good_fake(segment.fd, memory, POOL);
	fake_start(&fake);
	CUmemoryPool pool = share_import(fake.path);
	for (uint64_t i = 0; i < BAD; i++) {
		CUmemPoolPtrExportData name = fake_name(i + 1, 1);
		show(segment.address, i + 1, bad[i][0], bad[i][1]);
		ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportPointer(&address, pool, &name));
		ASSERT_NE(0, strlen(cenote_last_error()));
	}
	show(segment.address, 100, 0, BLOCK);
	show(segment.address, 101, 512, BLOCK);
	show(segment.address, 102, 0, 512);
	first = share_take(pool, fake_name(100, 1));
	second = share_take(pool, fake_name(101, 1));
	CUmemPoolPtrExportData third = fake_name(102, 1);
	ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportPointer(&address, pool, &third)); /* another begins there */
	share_fill(first, 1, BLOCK);
	share_fill(second, 2, BLOCK);
	ASSERT_OK(cuMemFreeAsync(first, NULL));
	ASSERT_EQ(2, share_byte(second));
	ASSERT_OK(cuMemFreeAsync(second, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	address = share_take(pool, third);
	ASSERT_OK(cuMemFreeAsync(address, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	fake_stop(&fake);
	cn_segment_close(&segment);
	close(memory);
}

struct mutation {
	struct cn_control *control;
	_Atomic bool over;
};

enum { MUTATED_SLOTS = 8 };

/* Change the words of a few slots, mostly to values that are possible. */
static void *mutate(void *data)
{
	struct mutation *mutation = data;
	struct test_random random = test_random_start(7);

	while (!atomic_load(&mutation->over)) {
		struct cn_control_slot *slot = &mutation->control->slots[1 + test_random_below(&random, MUTATED_SLOTS)];
		uint64_t value = test_random_next(&random);
		switch (test_random_below(&random, 5)) {
		case 0: atomic_store(&slot->generation, value % 8); break;
		case 1: atomic_store(&slot->offset, value % 16 ? value % POOL / 512 * 512 : value); break;
		case 2: atomic_store(&slot->bytes, value % 16 ? value % BLOCK : value); break;
		case 3: atomic_store(&mutation->control->serials[0], value % 8 ? FAKE_SERIAL : value); break;
		default: atomic_store(&mutation->control->limit_bytes, value % 4 ? 0 : value % POOL);
		}
	}
	return NULL;
}

/* Goal: an exporter that changes all it shows at any time makes imports fail, and nothing worse. */
TEST(an_exporter_that_changes_its_mind, .timeout_ms = 60000)
{
	enum { STEPS = 200000 / HARNESS_SLOWDOWN, HELD = 32 };
	struct test_random random = test_random_start(8);
	struct cn_segment segment;
	int memory = memory_file(POOL, 0, F_SEAL_SHRINK | F_SEAL_GROW);
	CUdeviceptr held[HELD] = {0};
	unsigned long taken = 0, refused = 0;
	pthread_t thread;

	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &segment));
	struct mutation mutation = {.control = segment.address};
	struct fake fake = good_fake(segment.fd, memory, POOL);
	fake_start(&fake);
	CUmemoryPool pool = share_import(fake.path);
	ASSERT_EQ(0, pthread_create(&thread, NULL, mutate, &mutation));
	for (unsigned i = 0; i < STEPS || !taken; i++) {
		CUdeviceptr *block = &held[test_random_below(&random, HELD)];
		CUmemPoolPtrExportData name =
			fake_name(1 + test_random_below(&random, MUTATED_SLOTS), test_random_below(&random, 4) * 2 + 1);
		if (*block) {
			share_byte(*block);
			ASSERT_OK(cuMemFreeAsync(*block, NULL));
			*block = 0;
		} else if (cuMemPoolImportPointer(block, pool, &name)) {
			*block = 0;
			refused++;
		} else {
			taken++;
		}
	}
	atomic_store(&mutation.over, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_GT(refused, 0);
	for (unsigned i = 0; i < HELD; i++)
		if (held[i])
			ASSERT_OK(cuMemFreeAsync(held[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	fake_stop(&fake);
	cn_segment_close(&segment);
	close(memory);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* Goal: a name with any single bit wrong is refused. */
TEST(names_with_a_wrong_bit)
{
	CUmemoryPool pool = share_pool(POOL);
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), taken;
	CUmemPoolPtrExportData name = share_name(block);

	close(descriptor);
	for (unsigned bit = 0; bit < 8 * sizeof name; bit++) {
		CUmemPoolPtrExportData wrong = name;
		((unsigned char *)&wrong)[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&taken, imported, &wrong));
		ASSERT_NE(0, strlen(cenote_last_error()));
	}
	taken = share_take(imported, name);
	ASSERT_OK(cuMemFreeAsync(taken, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(imported));
	ASSERT_OK(cuMemPoolDestroy(pool));
}
