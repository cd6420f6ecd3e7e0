/* SPDX-License-Identifier: MIT */
/*
 * Memory of the cuda device: arenas, their parts in another process, rights, and what a stranger may send.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cuda.h"
#include "device/cuda/cuda_internal.h"
#include "pool/pool.h"

#define CHUNK  ((size_t)32 << 20)
#define ARENA  (8 * CHUNK)
#define MEMORY ((size_t)128 << 20) /* of a device: four chunks */

static const struct cn_users device_0 = {.devices = 1};

SETUP
{
	setenv("CENOTE_HOST_DEVICES", "2", 1);
	setenv("CENOTE_HOST_MEMORY", "128M", 1);
	driver_start();
}

static struct cn_device *first_device(void)
{
	return cn_cuda_devices;
}

struct place {
	struct cn_arena *arena;
	char *base;
};

static struct place make_arena(bool shareable)
{
	struct place place;
	void *base;

	ASSERT_OK(cn_device_ops->arena_create(first_device(), -1, ARENA, CHUNK, shareable, &place.arena, &base));
	ASSERT_OK(cn_device_ops->arena_allow(place.arena, device_0));
	ASSERT_EQ(0, (uintptr_t)base % CHUNK);
	place.base = base;
	return place;
}

static CUresult commit(struct place place, size_t first, size_t count)
{
	return cn_device_ops->arena_commit(place.arena, first * CHUNK, count * CHUNK);
}

static void decommit(struct place place, size_t first, size_t count)
{
	cn_device_ops->arena_decommit(place.arena, first * CHUNK, count * CHUNK);
}

static uint64_t serial_of(struct place place, size_t chunk)
{
	size_t end = 0;
	uint64_t serial = cn_device_ops->arena_serial(place.arena, chunk * CHUNK + 4096, &end);

	ASSERT_EQ((chunk + 1) * CHUNK, end);
	return serial;
}

static void fill(char *at, unsigned char byte, size_t bytes)
{
	ASSERT_OK(DRIVER(cuMemsetD8)((CUdeviceptr)(uintptr_t)at, byte, bytes));
	ASSERT_OK(DRIVER(cuCtxSynchronize)()); /* on a GPU it would return before */
}

static unsigned char byte_at(const char *at)
{
	unsigned char byte = 0;

	ASSERT_OK(DRIVER(cuMemcpyDtoH)(&byte, (CUdeviceptr)(uintptr_t)at, 1));
	return byte;
}

static unsigned long long rights(const char *at, int device)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	unsigned long long flags = 99;

	ASSERT_OK(DRIVER(cuMemGetAccess)(&flags, &location, (CUdeviceptr)(uintptr_t)at));
	return flags;
}

/* The devices that SETUP asked for are ours alone; a GPU is not, nor has it so little. */
static bool is_alone(void)
{
	return first_device()->total_bytes == MEMORY;
}

static size_t free_bytes(void)
{
	size_t bytes, total;

	ASSERT_OK(DRIVER(cuMemGetInfo)(&bytes, &total));
	return bytes;
}

static void assert_free(size_t bytes)
{
	if (is_alone())
		ASSERT_EQ(bytes, free_bytes());
}

/* ---- Arenas ---- */

TEST(an_arena_has_memory_where_it_is_committed)
{
	struct place place = make_arena(false);
	size_t before = free_bytes();

	ASSERT_EQ(0, serial_of(place, 0));
	ASSERT_OK(commit(place, 0, 1));
	ASSERT_OK(commit(place, 2, 2));
	assert_free(before - 3 * CHUNK);
	ASSERT_NE(0, serial_of(place, 0));
	ASSERT_EQ(0, serial_of(place, 1));
	ASSERT_NE(0, serial_of(place, 3));
	fill(place.base, 1, CHUNK);
	fill(place.base + 2 * CHUNK, 2, 2 * CHUNK);
	ASSERT_EQ(1, byte_at(place.base + CHUNK - 1));
	ASSERT_EQ(2, byte_at(place.base + 4 * CHUNK - 1));
	decommit(place, 0, 1);
	decommit(place, 2, 1);
	ASSERT_EQ(0, serial_of(place, 2));
	ASSERT_EQ(2, byte_at(place.base + 3 * CHUNK));
	decommit(place, 3, 1);
	assert_free(before);
	cn_device_ops->arena_free(place.arena);
}

TEST(other_memory_at_a_place_has_another_serial)
{
	struct place place = make_arena(true);
	uint64_t serials[20];

	for (unsigned i = 0; i < 20; i++) {
		ASSERT_OK(commit(place, 1, 2));
		serials[i] = serial_of(place, 1);
		ASSERT_NE(serials[i], serial_of(place, 2));
		for (unsigned j = 0; j < i; j++)
			ASSERT_NE(serials[j], serials[i]);
		decommit(place, 1, 2);
	}
	cn_device_ops->arena_free(place.arena);
}

TEST(a_device_without_memory_says_so_and_nothing_has_changed)
{
	if (!is_alone())
		SKIP("the device has more memory than a test should take");
	struct place place = make_arena(false);
	size_t before = free_bytes();

	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, commit(place, 0, 5));
	ASSERT_CONTAINS("no memory left for 33554432 bytes", cn_last_error());
	assert_free(before);
	for (size_t i = 0; i < 5; i++)
		ASSERT_EQ(0, serial_of(place, i));
	ASSERT_OK(commit(place, 0, 4));
	decommit(place, 0, 4);
	cn_device_ops->arena_free(place.arena);
}

TEST(only_whole_chunks_are_committed)
{
	struct place place = make_arena(false);

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->arena_commit(place.arena, 0, CHUNK / 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->arena_commit(place.arena, CHUNK / 2, CHUNK));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->arena_commit(place.arena, 0, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->arena_commit(place.arena, ARENA, CHUNK));
	cn_device_ops->arena_free(place.arena);
}

TEST(rights_are_for_what_is_there_and_what_comes)
{
	if (cn_cuda_device_count < 2)
		SKIP("there is one device, which always has them");
	struct place place = make_arena(false);

	ASSERT_OK(commit(place, 0, 1));
	ASSERT_OK(commit(place, 2, 1));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(place.base, 0));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(place.base, 1));
	ASSERT_OK(cn_device_ops->arena_allow(place.arena, (struct cn_users){.devices = 3}));
	ASSERT_OK(commit(place, 3, 1));
	for (size_t i = 0; i < 4; i++)
		if (i != 1)
			ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(place.base + i * CHUNK, 1));
	ASSERT_OK(cn_device_ops->arena_allow(place.arena, device_0));
	for (size_t i = 0; i < 4; i++)
		if (i != 1) {
			ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(place.base + i * CHUNK, 1));
			ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(place.base + i * CHUNK, 0));
		}
	decommit(place, 0, 1);
	decommit(place, 2, 2);
	cn_device_ops->arena_free(place.arena);
}

/* The host's own memory, by node or by none. */
TEST(the_host_has_arenas_too)
{
	struct cn_users users = {.devices = 1, .host = true};

	for (int node = -1; node <= 0; node++) {
		struct cn_arena *arena;
		void *base;
		ASSERT_OK(cn_device_ops->arena_create(NULL, node, ARENA, CHUNK, node >= 0, &arena, &base));
		ASSERT_OK(cn_device_ops->arena_allow(arena, users));
		ASSERT_OK(cn_device_ops->arena_commit(arena, CHUNK, CHUNK));
		char *at = (char *)base + CHUNK;
		memset(at, 7, CHUNK);
		ASSERT_EQ(7, byte_at(at + CHUNK - 1));
		cn_device_ops->arena_decommit(arena, CHUNK, CHUNK);
		cn_device_ops->arena_free(arena);
	}
}

/* ---- Watching ---- */

struct seen {
	unsigned count;
	size_t offset;
};

static void see(void *object, size_t offset)
{
	struct seen *seen = object;

	seen->count++;
	seen->offset = offset;
}

TEST(who_watches_hears_of_lent_parts_alone)
{
	struct place place = make_arena(true);
	struct cn_arena_part part;
	struct seen seen = {0, 0};

	cn_device_ops->arena_watch(place.arena, see, &seen);
	ASSERT_OK(commit(place, 0, 3));
	decommit(place, 0, 1);
	ASSERT_EQ(0, seen.count);
	ASSERT_OK(cn_device_ops->arena_part(place.arena, CHUNK + 5, &part));
	close(part.fd);
	ASSERT_EQ(0, seen.count);
	decommit(place, 1, 2);
	ASSERT_EQ(1, seen.count);
	ASSERT_EQ(CHUNK, seen.offset);
	ASSERT_OK(commit(place, 1, 1)); /* other memory, that nobody was given */
	decommit(place, 1, 1);
	ASSERT_EQ(1, seen.count);
	ASSERT_OK(commit(place, 1, 1));
	ASSERT_OK(cn_device_ops->arena_part(place.arena, CHUNK, &part));
	close(part.fd);
	cn_device_ops->arena_watch(place.arena, NULL, NULL);
	decommit(place, 1, 1);
	ASSERT_EQ(1, seen.count);
	cn_device_ops->arena_free(place.arena);
}

TEST(a_part_that_is_not_there_is_not_given)
{
	struct place place = make_arena(true), closed = make_arena(false);
	struct cn_arena_part part = {.fd = -5};

	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_device_ops->arena_part(place.arena, 0, &part));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_device_ops->arena_part(place.arena, ARENA, &part));
	ASSERT_OK(commit(closed, 0, 1));
	ASSERT_NE(CUDA_SUCCESS, cn_device_ops->arena_part(closed.arena, 0, &part)); /* it is not for others */
	ASSERT_EQ(-5, part.fd);
	decommit(closed, 0, 1);
	cn_device_ops->arena_free(place.arena);
	cn_device_ops->arena_free(closed.arena);
}

/* ---- Descriptors that are kept ---- */

static unsigned descriptors_of_a_child(void)
{
	int status;
	pid_t child = fork();

	ASSERT_SYS(child);
	if (child == 0)
		_exit((int)test_descriptor_count());
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT(WIFEXITED(status));
	return (unsigned)WEXITSTATUS(status);
}

static ino_t file_of(int fd)
{
	struct stat status;

	ASSERT_SYS(fstat(fd, &status));
	return status.st_ino;
}

/* Goal: who asks for a part again has the same file; it goes with its memory, and a forked child has none of it. */
TEST(a_parts_descriptor_is_kept_for_the_next)
{
	struct place place = make_arena(true);
	struct cn_arena_part first, second;
	unsigned at_first = test_descriptor_count();

	ASSERT_OK(commit(place, 0, 1));
	unsigned before = test_descriptor_count(), in_child = descriptors_of_a_child();
	ASSERT_OK(cn_device_ops->arena_part(place.arena, 0, &first));
	ASSERT_OK(cn_device_ops->arena_part(place.arena, CHUNK - 1, &second));
	ASSERT_EQ(first.serial, second.serial);
	ASSERT_EQ(file_of(first.fd), file_of(second.fd));
	close(first.fd);
	close(second.fd);
	if (!test_has_gpu()) { /* whose driver may have opened something of its own */
		ASSERT_EQ(before + 1, test_descriptor_count());
		ASSERT_EQ(in_child, descriptors_of_a_child());
	}
	decommit(place, 0, 1);
	if (!test_has_gpu())
		ASSERT_EQ(at_first, test_descriptor_count());
	cn_device_ops->arena_free(place.arena);
}

/* Goal: there is a bound to them. */
TEST(not_all_descriptors_are_kept)
{
	enum { SOME = 100 };
	int fds[SOME];
	unsigned kept = 0;

	for (unsigned i = 0; i < SOME; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ASSERT_SYS(fds[i]);
		if (kept == i && cn_cuda_keep(fds[i]))
			kept++;
	}
	ASSERT(kept > 0 && kept < SOME);
	ASSERT(!cn_cuda_keep(fds[kept]));
	cn_cuda_let_go(fds[0]);
	ASSERT(cn_cuda_keep(fds[kept])); /* there is room again */
	for (unsigned i = 1; i < SOME; i++)
		if (i <= kept)
			cn_cuda_let_go(fds[i]);
		else
			close(fds[i]);
}

/* ---- Views ---- */

struct seen_from_here {
	struct cn_view *view;
	char *base;
};

static struct seen_from_here make_view(void)
{
	struct seen_from_here here;
	void *base;

	ASSERT_OK(cn_device_ops->view_create(ARENA, CHUNK, &here.view, &base));
	ASSERT_OK(cn_device_ops->view_allow(here.view, device_0));
	here.base = base;
	return here;
}

static void receive_part(struct peer *peer, struct cn_arena_part *ret_part)
{
	peer_receive_bytes(peer, ret_part, sizeof *ret_part);
	ret_part->fd = peer_receive_descriptor(peer);
}

static void send_part(struct peer *peer, struct place place, size_t offset)
{
	struct cn_arena_part part;

	ASSERT_OK(cn_device_ops->arena_part(place.arena, offset, &part));
	ASSERT_EQ(offset / CHUNK * CHUNK, part.offset);
	ASSERT_EQ(CHUNK, part.bytes);
	ASSERT_EQ(serial_of(place, offset / CHUNK), part.serial);
	peer_send_bytes(peer, &part, sizeof part);
	peer_send_descriptor(peer, part.fd);
	close(part.fd);
}

ROLE(importer)
{
	struct seen_from_here here = make_view();
	struct cn_arena_part part;

	for (unsigned i = 0; i < 2; i++) {
		receive_part(parent, &part);
		ASSERT_OK(cn_device_ops->view_map(here.view, &part));
		close(part.fd);
		ASSERT_EQ(10 + i, byte_at(here.base + part.offset + 100));
		fill(here.base + part.offset + 100, (unsigned char)(20 + i), 1);
		peer_send(parent, "changed");
	}
	/* The exporter has lost the second one; here it is still there, until we let go of it. */
	peer_expect(parent, "lost");
	ASSERT_EQ(21, byte_at(here.base + part.offset + 100));
	cn_device_ops->view_unmap(here.view, part.offset, part.bytes);
	receive_part(parent, &part); /* other memory in its place */
	ASSERT_OK(cn_device_ops->view_map(here.view, &part));
	close(part.fd);
	ASSERT_EQ(30, byte_at(here.base + part.offset + 100));
	if (cn_cuda_device_count > 1) {
		ASSERT_OK(cn_device_ops->view_allow(here.view, (struct cn_users){.devices = 3}));
		ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(here.base + part.offset, 1));
		ASSERT_OK(cn_device_ops->view_allow(here.view, device_0));
		ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(here.base + part.offset, 1));
	}
	cn_device_ops->view_free(here.view);
	peer_send(parent, "done");
}

TEST(another_process_sees_the_parts_that_it_was_given)
{
	struct place place = make_arena(true);
	struct peer *peer = peer_start("importer");
	size_t chunks[] = {1, 3};

	ASSERT_OK(commit(place, 1, 3));
	for (unsigned i = 0; i < 2; i++) {
		char *at = place.base + chunks[i] * CHUNK + 100;
		fill(at, (unsigned char)(10 + i), 1);
		send_part(peer, place, chunks[i] * CHUNK + 12345);
		peer_expect(peer, "changed");
		ASSERT_EQ(20 + i, byte_at(at));
	}
	decommit(place, 3, 1);
	peer_send(peer, "lost");
	ASSERT_OK(commit(place, 3, 1));
	fill(place.base + 3 * CHUNK + 100, 30, 1);
	send_part(peer, place, 3 * CHUNK);
	peer_expect(peer, "done");
	peer_wait(peer);
	decommit(place, 1, 3);
	cn_device_ops->arena_free(place.arena);
}

/* What comes is a stranger's. */
TEST(what_is_not_a_part_is_refused)
{
	struct place place = make_arena(true);
	struct seen_from_here here = make_view();
	struct cn_arena_part good, bad;
	int ends[2], memory = memfd_create("cenote-test", MFD_ALLOW_SEALING), file = open("/dev/null", O_RDWR);

	ASSERT_SYS(memory);
	ASSERT_SYS(ftruncate(memory, (off_t)CHUNK));
	ASSERT_SYS(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	ASSERT_SYS(file);
	ASSERT_SYS(pipe(ends));
	ASSERT_OK(commit(place, 0, 1));
	ASSERT_OK(cn_device_ops->arena_part(place.arena, 0, &good));
	int descriptors[] = {memory, file, ends[0], ends[1], -1, 9999, 0};
	for (unsigned i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
		bad = good;
		bad.fd = descriptors[i];
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->view_map(here.view, &bad));
	}
	struct {
		size_t offset, bytes;
	} stretches[] = {
		{0, 2 * CHUNK}, /* more than there is */
		{0, 0},
		{4096, CHUNK},
		{0, CHUNK - 4096},
		{ARENA, CHUNK},
		{ARENA - CHUNK / 2, CHUNK},
		{SIZE_MAX - CHUNK + 1, CHUNK},
		{0, SIZE_MAX - CHUNK + 1},
	};
	for (unsigned i = 0; i < sizeof stretches / sizeof stretches[0]; i++) {
		bad = good;
		bad.offset = stretches[i].offset;
		bad.bytes = stretches[i].bytes;
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->view_map(here.view, &bad));
	}
	ASSERT_OK(cn_device_ops->view_map(here.view, &good));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->view_map(here.view, &good));
	ASSERT_CONTAINS("a second time", cn_last_error());
	fill(place.base, 5, 1);
	ASSERT_EQ(5, byte_at(here.base));
	cn_device_ops->view_unmap(here.view, CHUNK, CHUNK); /* nothing is there */
	ASSERT_EQ(5, byte_at(here.base));
	close(good.fd);
	close(memory);
	close(file);
	close(ends[0]);
	close(ends[1]);
	cn_device_ops->view_free(here.view);
	decommit(place, 0, 1);
	cn_device_ops->arena_free(place.arena);
}

TEST(physical_memory_is_told_from_other_descriptors)
{
	struct place place = make_arena(true);
	struct cn_arena_part part;
	int ends[2];

	ASSERT_SYS(pipe(ends));
	ASSERT_OK(commit(place, 0, 1));
	ASSERT_OK(cn_device_ops->arena_part(place.arena, 0, &part));
	ASSERT(cn_device_ops->descriptor_is_memory(part.fd));
	ASSERT(!cn_device_ops->descriptor_is_memory(ends[0]));
	close(part.fd);
	close(ends[0]);
	close(ends[1]);
	decommit(place, 0, 1);
	cn_device_ops->arena_free(place.arena);
}

/* ---- Devices ---- */

TEST(a_device_is_described_by_the_driver)
{
	const struct cn_device *device = first_device();
	int value = 0, expected = 1;
	size_t bytes = 0;

	ASSERT_OK(cn_device_ops->attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &value));
	ASSERT_OK(DRIVER(cuDeviceGetAttribute)(&expected, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	ASSERT_EQ(expected, value);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_device_ops->attribute(device, 100000, &value));
	ASSERT(cn_device_ops->peers(device, device));
	ASSERT_GE(device->physical, 0);
	if (is_alone()) {
		ASSERT(cn_device_ops->peers(device, device + 1));
		ASSERT_NE(device[0].physical, device[1].physical);
	}
	ASSERT_OK(DRIVER(cuDeviceTotalMem)(&bytes, 0));
	ASSERT_EQ(bytes, device->total_bytes);
	ASSERT(cn_device_has_node(0));
	ASSERT(!cn_device_has_node(-1));
	ASSERT(!cn_device_has_node(100000));
}

ROLE(numbered)
{
	peer_send_bytes(parent, &first_device()->physical, sizeof(int));
}

TEST(a_device_has_the_same_number_in_every_process)
{
	struct peer *peer = peer_start("numbered");
	int number = -1;

	peer_receive_bytes(peer, &number, sizeof number);
	ASSERT_EQ(first_device()->physical, number);
	peer_wait(peer);
}

/* ---- All at once ---- */

enum { THREADS = 2, ROUNDS = 60 / HARNESS_SLOWDOWN };

struct grower {
	struct place place;
	size_t chunk;
};

/* One chunk each comes and goes, while others change rights, lend parts and watch. */
static void *grow_and_shrink(void *data)
{
	struct grower *grower = data;
	struct cn_arena_part part;

	ASSERT_OK(DRIVER(cuCtxSetCurrent)(NULL));
	for (unsigned i = 0; i < ROUNDS; i++) {
		ASSERT_OK(commit(grower->place, grower->chunk, 1));
		ASSERT_OK(cn_device_ops->arena_part(grower->place.arena, grower->chunk * CHUNK, &part));
		close(part.fd);
		ASSERT_OK(
			cn_device_ops->arena_allow(grower->place.arena, (struct cn_users){.devices = 1 + 2 * (i & 1)}));
		ASSERT_EQ(part.serial, serial_of(grower->place, grower->chunk));
		decommit(grower->place, grower->chunk, 1);
	}
	return NULL;
}

TEST(an_arena_grows_and_shrinks_in_all_threads)
{
	struct place place = make_arena(true);
	struct grower growers[THREADS];
	pthread_t threads[THREADS];
	size_t before = free_bytes();

	for (size_t i = 0; i < THREADS; i++) {
		growers[i] = (struct grower){place, i + 1};
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, grow_and_shrink, &growers[i]));
	}
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	assert_free(before);
	cn_device_ops->arena_free(place.arena);
}

/* ---- Addresses ---- */

static struct {
	CUdeviceptr start;
	unsigned free_count;
} high;

static CUresult reserve_high(CUdeviceptr *ret_start, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	(void)bytes, (void)alignment, (void)wanted, (void)flags;
	*ret_start = high.start;
	return CUDA_SUCCESS;
}

static CUresult free_high(CUdeviceptr start, size_t bytes)
{
	ASSERT_EQ(high.start, start);
	ASSERT_EQ(CHUNK, bytes);
	high.free_count++;
	return CUDA_SUCCESS;
}

static bool has(CUdeviceptr address)
{
	return cn_pool_has((const void *)(uintptr_t)address);
}

/* Goal: pools are found wherever a machine has addresses; further up there are none. */
TEST(a_pools_range_may_be_high_up)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = CHUNK,
	};
	CUmemoryPool pool;

	cn_cuda.cuMemAddressReserve = reserve_high;
	cn_cuda.cuMemAddressFree = free_high;
	high.start = ((CUdeviceptr)1 << 48) - CHUNK; /* as 64-bit Arm has them */
	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT(has(high.start));
	ASSERT(has(high.start + CHUNK - 1));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT(!has(high.start));
	ASSERT_EQ(1, high.free_count);
	high.start = (CUdeviceptr)1 << 48;
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &properties));
	ASSERT_EQ(2, high.free_count);
}
