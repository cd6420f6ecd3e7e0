/* SPDX-License-Identifier: MIT */
/*
 * Every call on a shared pool while another thread destroys it: each succeeds or says that the pool is gone. None
 * crashes, and none acts on what has taken the pool's place.
 */
#include "../share.h"

#include <pthread.h>
#include <sys/stat.h>

SETUP
{
	share_start();
}

enum { THREADS = 3, POOLS = 200, BLOCK = 4096 };

static struct {
	_Atomic(CUmemoryPool) pool;
	_Atomic(CUdeviceptr) block;
	CUcontext context;
	_Atomic bool stop;
	_Atomic unsigned exported, wrong;
} race;

static void export_once(bool import)
{
	CUmemoryPool imported;
	struct stat status;
	int fd;

	if (cuMemPoolExportToShareableHandle(&fd, race.pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		return;
	race.exported++;
	race.wrong += fstat(fd, &status) || !S_ISSOCK(status.st_mode);
	if (import && !cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		cuMemPoolDestroy(imported); /* which fails when another thread has imported the same and uses it */
	close(fd);
}

static void *call(void *argument)
{
	unsigned kind = (unsigned)(uintptr_t)argument;

	cuCtxSetCurrent(race.context);
	while (!race.stop) {
		CUmemPoolPtrExportData name;
		cenote_importer importers[4];
		size_t count;
		int fd;

		switch (kind++ % 6) {
		case 0: export_once(false); break;
		case 1: export_once(true); break;
		case 2:
			if (!cenote_pool_watch(race.pool, &fd))
				close(fd);
			break;
		case 3: cenote_pool_limit(race.pool, 1 << 20); break;
		case 4:
			if (!cenote_pool_importers(race.pool, importers, sizeof *importers, 4, &count) && count)
				cenote_pool_evict(race.pool, importers[0].id);
			break;
		default: cuMemPoolExportPointer(&name, race.block);
		}
	}
	return NULL;
}

/* Goal: the end of a pool crashes no process. */
TEST(calls_race_the_end_of_their_pool, .timeout_ms = 120000)
{
	pthread_t threads[THREADS];
	CUdeviceptr block;

	ASSERT_OK(cuCtxGetCurrent(&race.context));
	for (uintptr_t i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, call, (void *)(2 * i)));
	for (unsigned i = 0; i < POOLS; i++) {
		CUmemoryPool pool = share_pool(SHARE_CHUNK);
		race.pool = pool;
		ASSERT_OK(cuMemAllocFromPoolAsync(&block, BLOCK, pool, NULL));
		race.block = block;
		for (unsigned before = race.exported; race.exported == before;)
			sched_yield();
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuMemPoolDestroy(pool));
	}
	race.stop = true;
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(0u, race.wrong);
}
