/* SPDX-License-Identifier: MIT */
/*
 * Options of cuModuleLoadDataEx(): what a program prints after it must be there whether it failed or not.
 */
#include "harness.h"

#include "cenote/cenote.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 256, COUNT = 5 };

static const char ptx[] = ".version 8.0\n.target sm_90\n.visible .entry cut(\n";
static CUjit_option options[COUNT] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
				      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
static char information[ROOM], error[ROOM];
static void *values[COUNT];

SETUP
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
}

static void prepare(size_t room)
{
	memset(information, 'x', ROOM);
	memset(error, 'x', ROOM);
	values[0] = information;
	values[1] = (void *)room;
	values[2] = error;
	values[3] = (void *)room;
	values[4] = (void *)~(uintptr_t)0;
}

/* The module that stands beside this program, in memory. */
static const char *map_module(void)
{
	static char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);

	ASSERT_SYS(length);
	path[length] = 0;
	snprintf(strrchr(path, '/') + 1, 64, "launch_module.so");
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(file);
	off_t bytes = lseek(file, 0, SEEK_END);
	char *image = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file, 0);
	ASSERT(image != MAP_FAILED);
	close(file);
	return image;
}

TEST(the_reason_of_a_failure_is_in_the_log_of_errors)
{
	CUmodule module;
	float milliseconds;

	prepare(ROOM);
	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, ptx, COUNT, options, values));
	ASSERT_STREQ(cenote_last_error(), error);
	ASSERT_CONTAINS("PTX", error);
	ASSERT_EQ(strlen(error), (size_t)values[3]);
	ASSERT_STREQ("", information);
	ASSERT_EQ(0, (size_t)values[1]);
	memcpy(&milliseconds, &values[4], sizeof milliseconds);
	ASSERT(milliseconds == 0);
}

TEST(logs_are_empty_after_a_success)
{
	CUmodule module;

	prepare(ROOM);
	ASSERT_OK(cuModuleLoadDataEx(&module, map_module(), COUNT, options, values));
	ASSERT_STREQ("", error);
	ASSERT_STREQ("", information);
	ASSERT_EQ(0, (size_t)values[1]);
	ASSERT_EQ(0, (size_t)values[3]);
	ASSERT_OK(cuModuleUnload(module));
}

TEST(a_log_is_cut_where_its_room_ends)
{
	CUmodule module;

	for (size_t room = 0; room < 8; room++) {
		prepare(room);
		ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, ptx, COUNT, options, values));
		ASSERT_EQ(room ? room - 1 : 0, (size_t)values[3]);
		if (room) {
			ASSERT_EQ(room - 1, strlen(error));
			ASSERT_MEMEQ(cenote_last_error(), error, room - 1);
		}
		ASSERT_EQ('x', error[room]);
		ASSERT_EQ('x', information[room > 0]);
	}
}

TEST(a_size_alone_or_a_buffer_alone)
{
	CUmodule module;

	prepare(ROOM);
	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, ptx, 1, &options[3], &values[3]));
	ASSERT_EQ(0, (size_t)values[3]);
	ASSERT_ERROR(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, ptx, 1, &options[2], &values[2]));
	ASSERT_EQ('x', error[0]); /* how long it is, nobody has said */
}

TEST(wrong_options_are_refused)
{
	CUjit_option wrong[] = {(CUjit_option)-1, CU_JIT_NUM_OPTIONS, (CUjit_option)99};
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUmodule module;

	ASSERT(nowhere != MAP_FAILED);
	prepare(ROOM);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, 1, NULL, values));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, 1, options, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, ~0u, options, values));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, 1, nowhere, values));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, 1, options, nowhere));
	for (int i = 0; i < 3; i++)
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, 1, &wrong[i], values));
	values[2] = nowhere;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, ptx, COUNT, options, values));
	ASSERT_CONTAINS("cannot be written", cenote_last_error());
	ASSERT_SYS(munmap(nowhere, 4096));
}
