/* SPDX-License-Identifier: MIT */
/*
 * The 64 bytes of an exported pointer, changed on the way, to cuMemPoolImportPointer().
 *
 * They start as a true name of a live block, of one that was freed, or of another pool's, and the script changes bits
 * and fields, with the check put right or not. Only the true name of a live block leads anywhere, and then to that
 * block.
 */
#include "fuzz.h"

#include "share/pool/control.h"

#include <string.h>
#include <unistd.h>

enum { LIVE = 4, NAMES = LIVE + 2, TRIES_MAX = 16, HELD_MAX = 8 };

static CUmemoryPool pool, imported;
static CUdeviceptr blocks[LIVE];
static CUmemPoolPtrExportData names[NAMES]; /* the last two: freed, and another pool's */

void fuzz_prepare(void)
{
	CUdeviceptr freed, others;
	CUmemoryPool other;

	fuzz_start();
	pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	int descriptor = fuzz_pool_descriptor(pool);
	FUZZ_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(descriptor);
	for (int i = 0; i < LIVE; i++) {
		FUZZ_OK(cuMemAllocFromPoolAsync(&blocks[i], (size_t)4096 << i, pool, NULL));
		*(volatile char *)(uintptr_t)blocks[i] = (char)(1 + i);
		FUZZ_OK(cuMemPoolExportPointer(&names[i], blocks[i]));
	}
	FUZZ_OK(cuMemAllocFromPoolAsync(&freed, 4096, pool, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&names[LIVE], freed));
	FUZZ_OK(cuMemFreeAsync(freed, NULL));
	other = fuzz_pool(32 << 20);
	close(fuzz_pool_descriptor(other));
	FUZZ_OK(cuMemAllocFromPoolAsync(&others, 4096, other, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&names[LIVE + 1], others));
	/* The first pointer brings what the import keeps. */
	FUZZ_OK(cuMemPoolImportPointer(&freed, imported, &names[0]));
	FUZZ_OK(cuMemFreeAsync(freed, NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
}

static void change(struct cn_export_data *data, struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input);
	uint64_t number;

	switch (how % 8) {
	case 0:
		number = fuzz_byte(input),
		((unsigned char *)data)[number % sizeof *data] ^= (unsigned char)(1 << how / 32);
		break;
	case 1: data->slot = fuzz_number(input); break;
	case 2: data->generation = fuzz_number(input); break;
	case 3: data->slot += fuzz_byte(input) - UINT64_C(128); break;
	case 4: data->generation += fuzz_byte(input) - UINT64_C(128); break;
	case 5: data->zeros[how / 8 % 2] = fuzz_number(input); break;
	case 6: fuzz_bytes(input, data->pool, sizeof data->pool); break;
	default:
		if (how & 8)
			data->magic = (uint32_t)fuzz_number(input);
		else
			data->version = (uint32_t)fuzz_number(input);
	}
}

static CUdeviceptr try_name(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), changes = how / 16 % 4;
	CUdeviceptr pointer = 0;
	struct cn_export_data data;
	CUmemPoolPtrExportData name;

	memcpy(&data, &names[how % 16 % NAMES], sizeof data);
	while (changes--)
		change(&data, input);
	if (how & 64)
		data.check = cn_export_data_check(&data);
	if (how & 128)
		fuzz_bytes(input, &data, sizeof data);
	memcpy(&name, &data, sizeof name);
	CUresult result = FUZZ_TRY(cuMemPoolImportPointer(&pointer, imported, &name));
	int live = -1;
	for (int i = 0; i < LIVE; i++)
		if (!memcmp(&names[i], &name, sizeof name))
			live = i;
	FUZZ_CHECK((result == CUDA_SUCCESS) == (live >= 0));
	if (!result) {
		fuzz_touch(pointer);
		FUZZ_CHECK(*(volatile char *)(uintptr_t)pointer == 1 + live);
	}
	return result ? 0 : pointer;
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	CUdeviceptr held[HELD_MAX];
	int count = 0;

	for (int i = 0; i < TRIES_MAX && input.left; i++) {
		CUdeviceptr pointer = try_name(&input);
		if (pointer)
			held[count++] = pointer;
		if (count && (count == HELD_MAX || fuzz_byte(&input) & 1))
			FUZZ_OK(cuMemFreeAsync(held[--count], NULL));
	}
	while (count)
		FUZZ_OK(cuMemFreeAsync(held[--count], NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
}
