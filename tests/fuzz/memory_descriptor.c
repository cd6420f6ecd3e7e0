/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of physical memory: whatever a program may be sent, to cuMemImportFromShareableHandle().
 *
 * Memory files with names like ours and sizes, seals and ways of opening of the script's choice, other descriptors of
 * all kinds, and the true one. What could be imported is mapped and touched at both ends, and given back.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 2 << 20, TRIES_MAX = 4, MAPPED_MAX = 64 << 20, FIXED = F_SEAL_SHRINK | F_SEAL_GROW };

static CUmemAllocationProp properties = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};

void fuzz_prepare(void)
{
	CUmemGenericAllocationHandle handle;
	int descriptor;

	fuzz_start();
	FUZZ_OK(cuMemCreate(&handle, BYTES, &properties, 0));
	FUZZ_OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	fuzz_offer(descriptor);
	CUmemoryPool pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	fuzz_offer(fuzz_pool_descriptor(pool));
}

/* A memory file whose name says what it is, more or less. */
static int named_file(struct fuzz_input *input)
{
	enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
	unsigned how = fuzz_byte(input);
	size_t bytes = how & 1 ? fuzz_number(input) % ((size_t)1 << 42) : BYTES * (1 + (size_t)(how / 2 % 4));
	int seals = how & 8 ? (int)fuzz_byte(input) & 31 : SEALS;
	char name[300];

	if (how & 16)
		fuzz_text(input, name, sizeof name);
	else
		snprintf(name, sizeof name, "cenote-memory-1 location %d %d handles %x flags %x%s",
			 how & 32 ? (int)fuzz_number(input) : 1, how & 64 ? (int)fuzz_number(input) : 0,
			 how & 128 ? (unsigned)fuzz_number(input) : 1, how & 128 ? (unsigned)fuzz_number(input) : 0,
			 fuzz_below(input, 8) == 7 ? "x" : "");
	return fuzz_memory_file(name, bytes, 0, seals);
}

static void use(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAllocationProp found;
	CUdeviceptr range;

	FUZZ_OK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
	FUZZ_CHECK(bytes && bytes % BYTES == 0);
	FUZZ_OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
	if (!FUZZ_TRY(cuMemMap(range, bytes, 0, handle, 0))) {
		if (!FUZZ_TRY(cuMemSetAccess(range, bytes, &access, 1))) {
			(void)*(volatile const char *)(uintptr_t)range;
			(void)*(volatile const char *)(uintptr_t)(range + bytes - 1);
		}
		FUZZ_OK(cuMemUnmap(range, bytes));
	}
	FUZZ_OK(cuMemAddressFree(range, bytes));
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	CUmemGenericAllocationHandle handle;

	for (int i = 0; i < TRIES_MAX && input.left; i++) {
		unsigned how = fuzz_byte(&input);
		int type = how & 64 ? (int)fuzz_byte(&input) : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		int descriptor = how & 8 ? -1 : how & 1 ? fuzz_descriptor(&input) : named_file(&input);
		intptr_t given = descriptor >= 0 ? descriptor : (intptr_t)fuzz_number(&input);
		if (type == CU_MEM_HANDLE_TYPE_FABRIC)
			given = 0; /* it would be read as an address */
		CUresult result = FUZZ_TRY(
			cuMemImportFromShareableHandle(&handle, (void *)given, (CUmemAllocationHandleType)type));
		if (!result) {
			off_t length = lseek((int)given, 0, SEEK_END);
			/* Nobody can take it away under us. */
			FUZZ_CHECK(length > 0 && (fcntl((int)given, F_GET_SEALS) & FIXED) == FIXED);
			if (length <= MAPPED_MAX || how & 2)
				use(handle, (size_t)length);
			FUZZ_OK(cuMemRelease(handle));
		}
		if (descriptor >= 0)
			close(descriptor);
	}
}
