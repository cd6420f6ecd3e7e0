/* SPDX-License-Identifier: MIT */
/*
 * The world of a fuzz target: see fuzz.h. What strangers send is in peers.c.
 */
#include "fuzz.h"

#include "share/peer/service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 20 }; /* until what must come has not */

/* ---- What must hold ---- */

void fuzz_fail(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	dprintf(STDERR_FILENO, "%s:%d: ", file, line);
	va_start(arguments, format);
	vdprintf(STDERR_FILENO, format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "\n");
	abort();
}

void fuzz_ok(const char *file, int line, const char *text, CUresult result)
{
	if (result)
		fuzz_fail(file, line, "%s: %d, %s", text, (int)result, cn_last_error());
}

CUresult fuzz_try(const char *file, int line, const char *text, CUresult result)
{
	static const char nothing[CN_SENTENCE_BYTES];

	if (result && result != CUDA_ERROR_NOT_READY && !*cn_last_error())
		fuzz_fail(file, line, "%s: %d, and nothing said", text, (int)result);
	cn_error_forget(nothing);
	return result;
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static int count_descriptors(void)
{
	DIR *entries = opendir("/proc/self/fd");
	int count = -3; /* . and .. and this directory */

	FUZZ_CHECK(entries);
	while (readdir(entries))
		count++;
	closedir(entries);
	return count;
}

static void print_descriptors(void)
{
	DIR *entries = opendir("/proc/self/fd");
	struct dirent *entry;
	char target[256];

	while (entries && (entry = readdir(entries))) {
		ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof target);
		if (length > 0)
			dprintf(STDERR_FILENO, "  %s %.*s\n", entry->d_name, (int)length, target);
	}
	if (entries)
		closedir(entries);
}

/*
 * After an input no more are open than after any before; but what was opened between two inputs is the fuzzer's own.
 * The service thread may close some a moment later.
 */
static void await_descriptors(int count_before)
{
	static int least = INT_MAX, last;
	time_t end = now_s() + PATIENCE_S;
	int found;

	if (least < INT_MAX && count_before > last)
		least += count_before - last;
	while ((found = count_descriptors()) > least && now_s() < end)
		sched_yield();
	if (found > least) {
		print_descriptors();
		fuzz_fail(__FILE__, __LINE__, "%d descriptors were open before, %d are now", least, found);
	}
	least = last = found;
}

void fuzz_run(const uint8_t *bytes, size_t size)
{
	int count = count_descriptors();

	fuzz_one(bytes, size);
	await_descriptors(count);
}

/* ---- The script ---- */

unsigned fuzz_byte(struct fuzz_input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

unsigned fuzz_below(struct fuzz_input *input, unsigned bound)
{
	return fuzz_byte(input) % bound;
}

void fuzz_bytes(struct fuzz_input *input, void *ret_bytes, size_t size)
{
	size_t there = size < input->left ? size : input->left;

	memset(ret_bytes, 0, size);
	if (there)
		memcpy(ret_bytes, input->at, there);
	input->at += there;
	input->left -= there;
}

uint64_t fuzz_number(struct fuzz_input *input)
{
	enum { RAW = 8, SHIFTED, ALL_BUT, SMALL = 16 };
	unsigned what = fuzz_byte(input);
	uint64_t number = 0;

	if (what >= SMALL)
		return what - SMALL;
	if (what < RAW) {
		fuzz_bytes(input, &number, what + 1);
		return number;
	}
	number = UINT64_C(1) << (fuzz_byte(input) & 63);
	switch (what) {
	case SHIFTED: return number;
	case ALL_BUT: return number - 1;
	case ALL_BUT + 1: return -number;
	case ALL_BUT + 2: return ~number;
	case ALL_BUT + 3: return number + fuzz_byte(input) * UINT64_C(4096);
	default: return number + fuzz_byte(input) - 128;
	}
}

struct fuzz_input fuzz_part(struct fuzz_input *input)
{
	struct fuzz_input part = {input->at, fuzz_byte(input)};

	part.at = input->at;
	if (part.left > input->left)
		part.left = input->left;
	input->at += part.left;
	input->left -= part.left;
	return part;
}

void fuzz_text(struct fuzz_input *input, char *ret_text, size_t room)
{
	size_t length = 0;

	while (length + 1 < room && input->left) {
		char next = (char)fuzz_byte(input);
		if (!next)
			break;
		ret_text[length++] = next;
	}
	ret_text[length] = 0;
}

/* ---- The world ---- */

static char directory[512];

const char *fuzz_directory(void)
{
	return directory;
}

static void make_directory(const char *variable, const char *name)
{
	char path[600];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FUZZ_CHECK(!mkdir(path, 0700) || errno == EEXIST);
	FUZZ_CHECK(!setenv(variable, path, 1));
}

void fuzz_start(void)
{
	const char *runtime = getenv("CENOTE_RUNTIME_DIR");
	char path[600];
	CUcontext context;

	if (!runtime || strlen(runtime) >= sizeof directory || !strrchr(runtime, '/'))
		fuzz_fail(__FILE__, __LINE__, "CENOTE_RUNTIME_DIR must name a directory of this program's own");
	snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(runtime, '/') - runtime), runtime);
	make_directory("CENOTE_FABRIC_DIR", "fabric");
	snprintf(path, sizeof path, "%s/fabric", directory);
	FUZZ_CHECK(!chmod(path, 01777));
	make_directory("CENOTE_IMEX_DIR", "imex");
	snprintf(path, sizeof path, "%s/imex/channel0", directory);
	int file = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0444);
	FUZZ_CHECK(file >= 0);
	close(file);
	setenv("CENOTE_DEVICE", "host", 1);
	setenv("CENOTE_HOST_MEMORY", "1G", 1);
	signal(SIGPIPE, SIG_IGN);
	FUZZ_OK(cuInit(0));
	FUZZ_OK(cuDevicePrimaryCtxRetain(&context, 0));
	FUZZ_OK(cuCtxSetCurrent(context));
}

/* ---- The service thread ---- */

struct barrier {
	struct cn_job job; /* first */
	pthread_mutex_t mutex;
	pthread_cond_t reached;
	bool done;
};

static void reach(struct cn_job *job)
{
	struct barrier *barrier = (struct barrier *)job;

	pthread_mutex_lock(&barrier->mutex);
	barrier->done = true;
	pthread_cond_signal(&barrier->reached);
	pthread_mutex_unlock(&barrier->mutex);
}

void fuzz_barrier(void)
{
	struct barrier barrier = {
		.job = {.run = reach}, .mutex = PTHREAD_MUTEX_INITIALIZER, .reached = PTHREAD_COND_INITIALIZER};

	FUZZ_OK(cn_service_start());
	cn_service_post(&barrier.job);
	pthread_mutex_lock(&barrier.mutex);
	while (!barrier.done)
		pthread_cond_wait(&barrier.reached, &barrier.mutex);
	pthread_mutex_unlock(&barrier.mutex);
}

/* ---- Pools ---- */

CUmemoryPool fuzz_pool(size_t max_bytes)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = max_bytes,
	};
	CUmemoryPool pool;

	FUZZ_OK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

int fuzz_pool_descriptor(CUmemoryPool pool)
{
	int descriptor;

	FUZZ_OK(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return descriptor;
}

void fuzz_await_used(CUmemoryPool pool, uint64_t bytes)
{
	cenote_pool_statistics statistics;
	time_t end = now_s() + PATIENCE_S;

	do {
		FUZZ_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
		if (now_s() > end)
			fuzz_fail(__FILE__, __LINE__, "%llu bytes of the pool are used, and %llu should be",
				  (unsigned long long)statistics.used_bytes, (unsigned long long)bytes);
		sched_yield();
	} while (statistics.used_bytes != bytes);
}

void fuzz_use_pool(CUmemoryPool pool)
{
	int descriptor = fuzz_pool_descriptor(pool);
	CUmemPoolPtrExportData name;
	CUdeviceptr block, taken;
	CUmemoryPool imported;

	FUZZ_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, NULL));
	*(volatile char *)(uintptr_t)block = 42;
	FUZZ_OK(cuMemPoolExportPointer(&name, block));
	FUZZ_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(descriptor);
	FUZZ_OK(cuMemPoolImportPointer(&taken, imported, &name));
	FUZZ_CHECK(taken != block && *(volatile char *)(uintptr_t)taken == 42);
	FUZZ_OK(cuMemFreeAsync(taken, NULL));
	FUZZ_OK(cuMemFreeAsync(block, NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	FUZZ_OK(cuMemPoolDestroy(imported));
	fuzz_await_used(pool, 0);
	fuzz_barrier(); /* the import's memory is gone, too */
}

void fuzz_touch(CUdeviceptr pointer)
{
	CUdeviceptr start = 0;
	size_t bytes = 0;

	FUZZ_OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer));
	FUZZ_OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer));
	FUZZ_CHECK(start == pointer && bytes);
	(void)*(volatile const char *)(uintptr_t)start;
	(void)*(volatile const char *)(uintptr_t)(start + bytes - 1);
}
