/* SPDX-License-Identifier: MIT */
/*
 * A shared pool's limits, each reached exactly and exceeded by one: importers, exported blocks, the range.
 *
 * What a hostile process can do beyond them is in share_hostile_test.
 */
#include "named_socket.h"
#include "share_fake.h"

#include "share/pool/export.h"

#include <dirent.h>
#include <sys/resource.h>

enum { BLOCK = 4096, UNIT = 512 };

SETUP
{
	ASSERT_SYS(setenv("CENOTE_HOST_MEMORY", "4T", 1)); /* address space: hardly any of it is touched */
	share_start();
}

/* ---- Importers --------------------------------------------------------------------------------------------------- */

static size_t count_importers(CUmemoryPool pool)
{
	cenote_importer one;
	size_t count;

	ASSERT_OK(cenote_pool_importers(pool, &one, sizeof one, 1, &count));
	return count;
}

/* Is the importer let in? If so, the connection stays. */
static bool try_to_join(CUmemoryPool pool, int *ret_sock)
{
	struct cn_parcel welcome;
	struct pollfd wanted = {.fd = connect_to(pool), .events = POLLIN};

	struct cn_parcel join = parcel_of(CN_MESSAGE_JOIN, -1);
	int error = cn_wire_send(wanted.fd, &join);
	if (!error) {
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		error = cn_wire_receive(wanted.fd, &welcome);
	}
	if (error) {
		ASSERT_EQ(EPIPE, error);
		close(wanted.fd);
		return false;
	}
	ASSERT_EQ(CN_MESSAGE_WELCOME, welcome.message.kind);
	cn_wire_close(&welcome);
	*ret_sock = wanted.fd;
	return true;
}

/* Goal: as many importers as allowed are served; the next is not, until one has gone. */
TEST(importers_up_to_the_bound, .timeout_ms = 60000)
{
	enum { DESCRIPTORS = 4 * CN_IMPORTERS_MAX + 200 };
	static int socks[CN_IMPORTERS_MAX];
	struct rlimit limit;
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	int sock;

	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_cur < DESCRIPTORS ? DESCRIPTORS : limit.rlim_cur;
	if (limit.rlim_max < limit.rlim_cur || setrlimit(RLIMIT_NOFILE, &limit))
		SKIP("the system allows no %d descriptors", DESCRIPTORS);
	ASSERT_EQ(CENOTE_POOL_IMPORTERS_MAX, CN_IMPORTERS_MAX);
	for (unsigned i = 0; i < CN_IMPORTERS_MAX; i++)
		ASSERT(try_to_join(pool, &socks[i]));
	ASSERT_EQ(CN_IMPORTERS_MAX, count_importers(pool));
	for (unsigned i = 0; i < 3; i++)
		ASSERT(!try_to_join(pool, &sock));
	ASSERT_EQ(CN_IMPORTERS_MAX, count_importers(pool));
	send_parcel(socks[CN_IMPORTERS_MAX - 1], parcel_of(CN_MESSAGE_PART, -1)); /* the last is served */
	struct cn_parcel part = receive_parcel(socks[CN_IMPORTERS_MAX - 1]);
	ASSERT_EQ(CN_MESSAGE_PART, part.message.kind);
	cn_wire_close(&part);
	for (unsigned i = 0; i < CN_IMPORTERS_MAX; i++)
		close(socks[i]);
	while (count_importers(pool))
		sched_yield();
	ASSERT(try_to_join(pool, &sock));
	close(sock);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* Goal: as many blocks as allowed are exported; the next is not, until one has been freed. */
TEST(exported_blocks_up_to_the_bound, .timeout_ms = 120000)
{
	CUmemPoolPtrExportData name = {{0}}, first;
	cenote_pool_statistics statistics;

	if (HARNESS_SLOWDOWN > 1)
		SKIP("too many for a sanitizer");
	CUmemoryPool pool = share_pool((size_t)CENOTE_POOL_EXPORTED_BLOCKS_MAX * UNIT + SHARE_CHUNK);
	CUdeviceptr *blocks = calloc(CENOTE_POOL_EXPORTED_BLOCKS_MAX + 1, sizeof *blocks);
	ASSERT(blocks);
	int descriptor = share_export(pool);
	for (unsigned i = 0; i < CENOTE_POOL_EXPORTED_BLOCKS_MAX + 1; i++)
		blocks[i] = share_allocate(pool, UNIT, NULL);
	first = share_name(blocks[0]);
	for (unsigned i = 1; i < CENOTE_POOL_EXPORTED_BLOCKS_MAX; i++)
		ASSERT_OK(cuMemPoolExportPointer(&name, blocks[i]));
	CUmemPoolPtrExportData last = name;
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemPoolExportPointer(&name, blocks[CENOTE_POOL_EXPORTED_BLOCKS_MAX]));
	ASSERT_CONTAINS("4194303 exported blocks", cenote_last_error());
	ASSERT_MEMEQ(&last, &name, sizeof name);
	ASSERT_OK(cuMemPoolExportPointer(&name, blocks[0])); /* an exported block keeps its name */
	ASSERT_MEMEQ(&first, &name, sizeof name);
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(CENOTE_POOL_EXPORTED_BLOCKS_MAX, statistics.exported_block_count);

	CUmemoryPool imported = share_import(descriptor);
	CUdeviceptr taken = share_take(imported, last);
	ASSERT_OK(cuMemFreeAsync(blocks[0], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolExportPointer(&name, blocks[CENOTE_POOL_EXPORTED_BLOCKS_MAX]));
	for (unsigned i = 1; i < CENOTE_POOL_EXPORTED_BLOCKS_MAX + 1; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuMemFreeAsync(taken, NULL));
	share_await_used(pool, 0);
	close(descriptor);
	ASSERT_OK(cuMemPoolDestroy(imported));
	ASSERT_OK(cuMemPoolDestroy(pool));
	free(blocks);
}

/* ---- The range --------------------------------------------------------------------------------------------------- */

/* Goal: the largest range can be imported; a pool that may have more is limited to that, and says so. */
TEST(ranges_up_to_the_bound)
{
	static const size_t wanted[] = {CENOTE_POOL_RANGE_BYTES_MAX, CENOTE_POOL_RANGE_BYTES_MAX + SHARE_CHUNK};

	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer leaves too few addresses");
	for (unsigned i = 0; i < 2; i++) {
		CUmemoryPool pool = share_pool(wanted[i]);
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL), more;
		int descriptor = share_export(pool);
		CUmemoryPool imported = share_import(descriptor);
		CUdeviceptr taken = share_take(imported, share_name(block));
		share_fill(block, 0x17 + i, BLOCK);
		ASSERT_EQ(0x17 + i, share_byte(taken + BLOCK - 1));
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY,
			     cuMemAllocFromPoolAsync(&more, CENOTE_POOL_RANGE_BYTES_MAX + 1, pool, NULL));
		ASSERT_CONTAINS("more than the pool's limit of 1099511627776", cenote_last_error());
		close(descriptor);
		ASSERT_OK(cuMemFree(taken));
		ASSERT_OK(cuMemFree(block));
		ASSERT_OK(cuMemPoolDestroy(imported));
		ASSERT_OK(cuMemPoolDestroy(pool));
		while (share_is_mapped()) /* before the next one needs so much address space */
			sched_yield();
	}
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

enum { DEAD_NAMES = 300, LOOKS_MAX = 256, LOOKS_UNNAMED_MAX = 8 };

static const char *runtime_directory(void)
{
	const char *path = getenv("CENOTE_RUNTIME_DIR");

	ASSERT(path);
	return path;
}

static unsigned count_names(void)
{
	DIR *entries = opendir(runtime_directory());
	unsigned count = 0;

	ASSERT(entries);
	for (struct dirent *entry; (entry = readdir(entries));)
		count += strstr(entry->d_name, ".lock") != NULL;
	closedir(entries);
	return count;
}

/* Goal: however many dead names there are, a process that makes one sweeps only so many; the next goes on. */
TEST(names_that_are_swept_at_a_time)
{
	struct cn_socket named;
	int listener, path;
	char file[600];

	unsigned own = count_names();
	for (unsigned i = 0; i < DEAD_NAMES; i++) {
		snprintf(file, sizeof file, "%s/%032x.lock", runtime_directory(), i);
		ASSERT_SYS(close(open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
	}
	/* A live name may be among those that are looked at. */
	ASSERT_OK(cn_wire_listen_unnamed(&listener, &path));
	close(listener);
	close(path);
	unsigned left = count_names() - own;
	ASSERT_GE(left, DEAD_NAMES - LOOKS_UNNAMED_MAX);
	ASSERT_LE(left, DEAD_NAMES - LOOKS_UNNAMED_MAX + own);
	ASSERT_OK(cn_wire_listen_named(false, &named));
	unsigned swept = left - (count_names() - own - 1);
	ASSERT_LE(swept, LOOKS_MAX);
	ASSERT_GE(swept, LOOKS_MAX - own);
	end_named(&named);
	ASSERT_OK(cenote_sweep(0, NULL, NULL));
	ASSERT_EQ(own, count_names());
}
