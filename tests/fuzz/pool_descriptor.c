/* SPDX-License-Identifier: MIT */
/*
 * Pool descriptors: whatever a program may be sent for a pool, to cuMemPoolImportFromShareableHandle().
 *
 * Files, memory, pipes and sockets of all kinds, those with a mark and those without; one that leads to a listener who
 * hangs up; the true one; and numbers that are no descriptor. What could be imported is used.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POOL = 32 << 20, TRIES_MAX = 4 };

static CUmemoryPool pool;
static CUdeviceptr block;
static CUmemPoolPtrExportData name;
static struct fuzz_server hermit; /* lets nobody in */
static int hermit_path;
static struct timespec right_mark; /* that the library has left */

static bool refuse(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	(void)server, (void)sock, (void)request;
	return false;
}

void fuzz_prepare(void)
{
	struct stat status;
	int descriptor;

	fuzz_start();
	pool = fuzz_pool(POOL);
	fuzz_use_pool(pool);
	descriptor = fuzz_pool_descriptor(pool);
	FUZZ_CHECK(!fstat(descriptor, &status));
	right_mark = status.st_mtim;
	fuzz_offer(descriptor);
	FUZZ_OK(cuMemAllocFromPoolAsync(&block, 1 << 20, pool, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&name, block));
	hermit.answer = refuse;
	FUZZ_OK(cn_wire_listen_unnamed(&hermit.listener, &hermit_path));
	fuzz_server_start(&hermit);
	fuzz_offer(hermit_path);
}

/* The listener's socket, with a mark or what looks like one. */
static int marked_hermit(struct fuzz_input *input)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0x0ce20001}};
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", hermit_path);
	times[1].tv_sec += fuzz_below(input, 4) == 3 ? (time_t)fuzz_number(input) % 100000 : 0; /* how many parts */
	times[1].tv_nsec = (long)(fuzz_number(input) % 1000000000);
	FUZZ_CHECK(!utimensat(AT_FDCWD, path, times, 0));
	return fcntl(hermit_path, F_DUPFD_CLOEXEC, 3);
}

/* Ours, and what may be said of it by who passes it on. */
static int marked_pool(struct fuzz_input *input)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0x0ce20001}};
	int descriptor = fuzz_pool_descriptor(pool);
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	times[1].tv_sec += fuzz_below(input, 4) == 3 ? (time_t)fuzz_number(input) % 100000 : 0; /* how many parts */
	times[1].tv_nsec = (long)(fuzz_number(input) % 1000000000);
	FUZZ_CHECK(!utimensat(AT_FDCWD, path, times, 0));
	return descriptor;
}

static void put_mark_right(void)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, right_mark};
	int descriptor = fuzz_pool_descriptor(pool);
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	FUZZ_CHECK(!utimensat(AT_FDCWD, path, times, 0));
	close(descriptor);
}

static void use(CUmemoryPool imported, struct fuzz_input *input)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = fuzz_below(input, 4)};
	CUmemPoolPtrExportData other = name;
	CUdeviceptr pointer = 0;

	FUZZ_TRY(cuMemPoolSetAccess(imported, &access, 1));
	FUZZ_TRY(cuMemAllocFromPoolAsync(&pointer, 4096, imported, NULL));
	if (!FUZZ_TRY(cuMemPoolImportPointer(&pointer, imported, &other))) {
		fuzz_touch(pointer);
		FUZZ_OK(cuMemFreeAsync(pointer, NULL));
		FUZZ_OK(cuStreamSynchronize(NULL));
	}
	FUZZ_OK(cuMemPoolDestroy(imported));
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	CUmemAllocationHandleType type;
	CUmemoryPool imported;

	for (int i = 0; i < TRIES_MAX && input.left; i++) {
		unsigned how = fuzz_byte(&input);
		int descriptor = -1;
		intptr_t given;
		switch (how % 8) {
		case 0:
		case 1:
		case 2:
		case 3: descriptor = fuzz_descriptor(&input); break;
		case 4: descriptor = marked_hermit(&input); break;
		case 5: descriptor = marked_pool(&input); break;
		default: break;
		}
		given = descriptor >= 0 ? descriptor : (intptr_t)fuzz_number(&input);
		type = how & 64 ? (CUmemAllocationHandleType)fuzz_byte(&input)
				: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		if (type == CU_MEM_HANDLE_TYPE_FABRIC)
			given = 0; /* it would be read as an address */
		if (!FUZZ_TRY(cuMemPoolImportFromShareableHandle(&imported, (void *)given, type,
								 how & 128 ? fuzz_number(&input) : 0)))
			use(imported, &input);
		if (descriptor >= 0)
			close(descriptor);
	}
	put_mark_right();
	fuzz_server_end(&hermit);
}
