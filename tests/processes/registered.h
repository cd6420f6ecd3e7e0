/* SPDX-License-Identifier: MIT */
/*
 * What a CUDA compiler puts into a program, written by hand: a fat binary with PTX, its wrapper, and the functions of
 * the runtime that such a program calls by itself.
 */
#ifndef CENOTE_TESTS_REGISTERED_H
#define CENOTE_TESTS_REGISTERED_H

#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"
#include "harness.h"

/* Declared by a compiler's own headers alone. */
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
			       cudaStream_t stream);
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *function, char *name, const char *device_name, int thread_limit,
			    uint3 *thread, uint3 *block, dim3 *block_dim, dim3 *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *variable, char *name, const char *device_name, int external, size_t bytes,
		       int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **variable, char *name, const char *device_name, int external,
			      size_t bytes, int constant, int global);

enum { FAT_PTX = 1, FAT_ELF = 2, FAT_BYTES_MAX = 8192 };

/* A fat binary with one entry. */
struct fat_binary {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;
	struct {
		uint16_t kind, version;
		uint32_t header_bytes;
		uint64_t bytes;
		uint32_t compressed_bytes, options_at;
		uint16_t minor, major;
		uint32_t architecture, name_at, name_bytes;
		uint64_t flags, reserved, uncompressed_bytes;
	} entry;
	char contents[FAT_BYTES_MAX];
};

struct fat_wrapper {
	uint32_t magic, version;
	const void *binary;
	const void *list; /* version 2: of several, which were linked */
};

static inline void fat_fill(struct fat_binary *binary, uint16_t kind, const char *contents)
{
	size_t bytes = (strlen(contents) + 8) / 8 * 8;

	ASSERT_LE(bytes, sizeof binary->contents);
	memset(binary, 0, sizeof *binary);
	binary->magic = 0xBA55ED50;
	binary->version = 1;
	binary->header_bytes = 16;
	binary->bytes = sizeof binary->entry + bytes;
	binary->entry.kind = kind;
	binary->entry.version = 0x101;
	binary->entry.header_bytes = sizeof binary->entry;
	binary->entry.bytes = bytes;
	binary->entry.architecture = 75;
	memcpy(binary->contents, contents, strlen(contents));
}

static inline struct fat_wrapper fat_wrap(const struct fat_binary *binary)
{
	return (struct fat_wrapper){.magic = 0x466243B1, .version = 1, .binary = binary};
}

static inline void fat_kernel(void **handle, const void *function, const char *name)
{
	__cudaRegisterFunction(handle, function, (char *)(uintptr_t)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static inline void fat_variable(void **handle, void *shadow, const char *name, size_t bytes)
{
	__cudaRegisterVar(handle, shadow, (char *)(uintptr_t)name, name, 0, bytes, 0, 0);
}

/* kernel<<<grid, block>>>(arguments), as the compiler writes it. */
static inline cudaError_t fat_launch(const void *function, unsigned grid, unsigned block, void **arguments)
{
	void *kernel = NULL;
	dim3 grid_dim = {grid, 1, 1}, block_dim = {block, 1, 1};
	size_t shared_bytes = 0;
	cudaStream_t stream = NULL;
	cudaError_t error = __cudaGetKernel(&kernel, function);

	ASSERT_EQ(0, __cudaPushCallConfiguration(grid_dim, block_dim, 0, NULL));
	ASSERT_OK(__cudaPopCallConfiguration(&grid_dim, &block_dim, &shared_bytes, &stream));
	return error ? error : __cudaLaunchKernel(kernel, grid_dim, block_dim, arguments, shared_bytes, stream);
}

#endif
