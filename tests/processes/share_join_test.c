/* SPDX-License-Identifier: MIT */
/*
 * A pool is imported without a word to its exporter, and joins it with the first pointer: what may happen between the
 * two, and that processes notice no more of it than the documents say.
 */
#include "../share.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

enum { BLOCK = SHARE_MIB, POOL = SHARE_CHUNK };

SETUP
{
	share_start();
}

static size_t importer_count(CUmemoryPool pool)
{
	size_t count = 77;

	ASSERT_OK(cenote_pool_importers(pool, NULL, 0, 0, &count));
	return count;
}

static CUmemoryPool import_own(CUmemoryPool pool)
{
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);

	close(descriptor);
	return imported;
}

/* Open descriptors that lead to a socket of the runtime directory, which has no name any more. */
static unsigned path_count(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;
	struct dirent *entry;

	if (!directory)
		return 77;
	while ((entry = readdir(directory))) {
		char target[512] = ""; /* where it leads: a call by its number would be a race with who closes it */
		if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0)
			count += strstr(target, "/runtime/") && strstr(target, " (deleted)");
	}
	closedir(directory);
	return count;
}

/* On a GPU the driver's descriptors, and those of pools that wait for it, come and go meanwhile. */
static bool is_open(unsigned expected)
{
	return test_on_gpu() || test_descriptor_count() == expected;
}

static void free_and_wait(CUdeviceptr block)
{
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

/* Goal: a pool that is imported and destroyed without use was never known to its exporter, and leaves nothing open. */
TEST(an_import_without_use_leaves_nothing)
{
	CUmemoryPool pool = share_pool(POOL), imported;
	int descriptor = share_export(pool);
	unsigned before = test_descriptor_count();

	for (unsigned i = 0; i < 100; i++) {
		imported = share_import(descriptor);
		ASSERT_EQ(0, importer_count(pool));
		ASSERT(is_open(before + 1));
		ASSERT_OK(cuMemPoolDestroy(imported));
		ASSERT(is_open(before)); /* at once, and not when a thread comes to it */
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(imported));
	}
	close(descriptor);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: what is known of an imported pool is known before it has joined, and what is said of it then stays said. */
TEST(facts_and_rights_before_the_first_pointer)
{
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		      host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	CUmemAccessDesc right = {.location = place, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool = share_pool(POOL), imported = import_own(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), unused;
	CUmemAccess_flags flags;
	cuuint64_t value;

	ASSERT_OK(cuMemPoolGetAccess(&flags, imported, &place));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	ASSERT_OK(cuMemPoolGetAccess(&flags, imported, &host));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
	ASSERT_OK(cuMemPoolSetAccess(imported, &right, 1));
	right.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(imported, &right, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&unused, BLOCK, imported, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemPoolGetAttribute(imported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	ASSERT_EQ(0, importer_count(pool));
	CUdeviceptr taken = share_take(imported, share_name(block));
	ASSERT_EQ(1, importer_count(pool));
	share_fill(taken, 3, BLOCK);
	ASSERT_EQ(3, share_byte(block));
	free_and_wait(taken);
	free_and_wait(block);
	ASSERT_OK(cuMemPoolDestroy(imported));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a pool imported twice is one, whether it has joined by then or not, and joins once. */
TEST(the_same_pool_has_one_handle)
{
	CUmemoryPool pool = share_pool(POOL), other = share_pool(POOL);
	CUmemoryPool first = import_own(pool), second = import_own(pool), another = import_own(other);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), taken = share_take(second, share_name(block));

	ASSERT_EQ((uintptr_t)first, (uintptr_t)second);
	ASSERT_NE((uintptr_t)first, (uintptr_t)another);
	CUmemoryPool third = import_own(pool);
	ASSERT_EQ((uintptr_t)first, (uintptr_t)third);
	ASSERT_EQ(1, importer_count(pool));
	ASSERT_EQ(0, importer_count(other));
	free_and_wait(taken);
	free_and_wait(block);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuMemPoolDestroy(first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(first));
	ASSERT_OK(cuMemPoolDestroy(another));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemPoolDestroy(other));
}

/* Nothing comes from a pool whose exporter is gone; and it is not imported any more. */
static void expect_gone(CUmemoryPool imported, int descriptor, CUmemPoolPtrExportData name)
{
	CUdeviceptr taken = 77;
	CUmemoryPool again;

	for (unsigned i = 0; i < 3; i++) {
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&taken, imported, &name));
		ASSERT_CONTAINS("the exporter is gone, or has destroyed the pool", cenote_last_error());
		ASSERT_ERROR(CUDA_ERROR_UNKNOWN, share_try_import(descriptor, &again));
		ASSERT_CONTAINS("its socket has no listener", cenote_last_error());
	}
	ASSERT_EQ(0, taken);
}

/* Goal: an exporter that dies between the import of its pool and that of a pointer. */
TEST(the_exporter_dies_before_the_first_pointer)
{
	for (unsigned i = 0; i < 10; i++) {
		int descriptor;
		struct peer *exporter = agent_exporter(POOL, &descriptor);
		CUmemPoolPtrExportData name = agent_allocate(exporter, 0, BLOCK, 1);
		CUmemoryPool imported = share_import(descriptor);

		peer_kill(exporter);
		expect_gone(imported, descriptor, name);
		ASSERT_OK(cuMemPoolDestroy(imported));
		close(descriptor);
	}
}

/* Goal: a pool that is destroyed before the first pointer can be imported while its last block lives, and no longer. */
TEST(the_pool_is_destroyed_before_the_first_pointer)
{
	for (unsigned i = 0; i < 20; i++) {
		CUmemoryPool pool = share_pool(POOL), imported, late;
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		int descriptor = share_export(pool);
		CUmemPoolPtrExportData name = share_name(block);

		imported = share_import(descriptor);
		if (i % 2) { /* as CUDA has it, it lives until its last block is freed */
			ASSERT_OK(cuMemPoolDestroy(pool));
			late = share_import(descriptor);
			ASSERT_EQ((uintptr_t)imported, (uintptr_t)late);
			CUdeviceptr taken = share_take(late, name);
			free_and_wait(taken);
			free_and_wait(block);
			ASSERT_OK(cuMemPoolDestroy(imported));
			ASSERT_ERROR(CUDA_ERROR_UNKNOWN, share_try_import(descriptor, &late));
		} else {
			free_and_wait(block);
			ASSERT_OK(cuMemPoolDestroy(pool));
			expect_gone(imported, descriptor, name); /* at once */
		}
		ASSERT_OK(cuMemPoolDestroy(imported));
		close(descriptor);
	}
}

/* Goal: an importer that is shut out may import the pool anew; that is another import, which joins by itself. */
TEST(after_an_eviction_the_next_import_joins_anew)
{
	CUmemoryPool pool = share_pool(POOL), imported = import_own(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), taken = share_take(imported, share_name(block)), more;
	CUmemPoolPtrExportData name = share_name(block);
	cenote_importer importer;
	size_t count;

	ASSERT_OK(cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
	ASSERT_OK(cenote_pool_evict(pool, importer.id));
	while (!cuMemPoolImportPointer(&more, imported, &name)) /* until it has heard of it */
		ASSERT_OK(cuMemFreeAsync(more, NULL));
	ASSERT_CONTAINS("evicted this process", cenote_last_error());
	CUmemoryPool again = import_own(pool);
	ASSERT_NE((uintptr_t)imported, (uintptr_t)again);
	ASSERT_OK(cuMemPoolImportPointer(&more, again, &name));
	ASSERT_NE(taken, more);
	share_fill(more, 9, BLOCK);
	ASSERT_EQ(9, share_byte(taken));
	free_and_wait(more);
	free_and_wait(taken);
	free_and_wait(block);
	ASSERT_OK(cuMemPoolDestroy(again));
	ASSERT_OK(cuMemPoolDestroy(imported));
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a forked child has nothing of an import that has not joined, cannot use it, and its parent can. */
TEST(a_child_forked_before_the_first_pointer)
{
	CUmemoryPool pool = share_pool(POOL), imported = import_own(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), taken;
	CUmemPoolPtrExportData name = share_name(block);
	int status;

	if (!test_on_gpu())
		ASSERT_EQ(2, path_count()); /* the export's, and the import's */
	pid_t child = fork();
	ASSERT_SYS(child);
	if (child == 0) /* it says by its status what is wrong */
		_exit(path_count() && !test_on_gpu()                                    ? 1
		      : cuMemPoolImportPointer(&taken, imported, &name) == CUDA_SUCCESS ? 2
											: 0);
	ASSERT_SYS(waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	taken = share_take(imported, name);
	free_and_wait(taken);
	free_and_wait(block);
	ASSERT_OK(cuMemPoolDestroy(imported));
	while (!test_on_gpu() && path_count() != 1) /* until the service thread has come to it */
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 100 };

static struct {
	pthread_barrier_t barrier;
	CUcontext context;
	int descriptor;
	CUmemoryPool imported;
	CUmemPoolPtrExportData names[THREADS];
	_Atomic unsigned failed;
} both;

static void *take_first(void *data)
{
	unsigned i = (unsigned)(uintptr_t)data;
	CUdeviceptr taken;
	unsigned char byte = 0;

	cuCtxSetCurrent(both.context);
	pthread_barrier_wait(&both.barrier);
	if (cuMemPoolImportPointer(&taken, both.imported, &both.names[i]) || cuMemcpyDtoH(&byte, taken, 1) ||
	    byte != i + 1 || cuMemFree(taken))
		both.failed++;
	return NULL;
}

static void run_threads(void *(*function)(void *))
{
	pthread_t threads[THREADS];

	ASSERT_EQ(0, pthread_barrier_init(&both.barrier, NULL, THREADS));
	for (uintptr_t i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, function, (void *)i));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	pthread_barrier_destroy(&both.barrier);
	ASSERT_EQ(0, both.failed);
}

/* A block for each thread, which holds the thread's number and one. */
static void share_blocks(CUmemoryPool pool, CUdeviceptr *ret_blocks)
{
	ASSERT_OK(cuCtxGetCurrent(&both.context));
	both.descriptor = share_export(pool);
	for (unsigned i = 0; i < THREADS; i++) {
		ret_blocks[i] = share_allocate(pool, BLOCK, NULL);
		share_fill(ret_blocks[i], i + 1, BLOCK);
		both.names[i] = share_name(ret_blocks[i]);
	}
}

static void free_blocks(CUmemoryPool pool, const CUdeviceptr *blocks)
{
	close(both.descriptor);
	for (unsigned i = 0; i < THREADS; i++)
		free_and_wait(blocks[i]);
	share_await_used(pool, 0);
}

/* Goal: several threads import their first pointers at the same time; the process joins once. */
TEST(threads_that_want_the_first_pointer)
{
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr blocks[THREADS];

	share_blocks(pool, blocks);
	for (unsigned round = 0; round < ROUNDS; round++) {
		both.imported = share_import(both.descriptor);
		run_threads(take_first);
		while (importer_count(pool) != 1) /* of the last round there may be one that has not quite gone */
			sched_yield();
		ASSERT_OK(cuMemPoolDestroy(both.imported));
	}
	free_blocks(pool, blocks);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Import, use and destroy, as often as the others: the last one takes it apart. */
static void *import_and_use(void *data)
{
	unsigned i = (unsigned)(uintptr_t)data;

	cuCtxSetCurrent(both.context);
	pthread_barrier_wait(&both.barrier);
	for (unsigned round = 0; round < ROUNDS; round++) {
		CUdeviceptr taken = 0;
		CUmemoryPool imported;
		unsigned char byte = 0;
		if (share_try_import(both.descriptor, &imported)) {
			both.failed++;
			continue;
		}
		if ((round + i) % 3 && (cuMemPoolImportPointer(&taken, imported, &both.names[i]) ||
					cuMemcpyDtoH(&byte, taken, 1) || byte != i + 1 || cuMemFree(taken)))
			both.failed++;
		/* Not while another thread has a block of it: then it says so. */
		CUresult result;
		do
			result = cuMemPoolDestroy(imported);
		while (result == CUDA_ERROR_INVALID_VALUE && strstr(cenote_last_error(), "not freed yet"));
		both.failed += result != CUDA_SUCCESS;
	}
	return NULL;
}

/* Goal: the same pool imported, joined and destroyed by several threads at the same time. */
TEST(threads_that_import_and_destroy_the_same_pool, .timeout_ms = 60000)
{
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr blocks[THREADS];

	share_blocks(pool, blocks);
	run_threads(import_and_use);
	free_blocks(pool, blocks);
	while (importer_count(pool)) /* the test's time limit ends a vain wait */
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(pool));
}
