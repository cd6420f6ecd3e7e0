/* SPDX-License-Identifier: MIT */
/*
 * What memory from another process costs: to import, map and allow it, compared with the same done by hand with
 * shm_open() or with a memory file and mmap(). None of it may grow with the size; no pages are touched here, except for
 * the mark at the end, which is checked through the import.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda.h>

#include "harness.h"

enum { MARK = 0x5a };

struct memory {
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	int descriptor; /* as it came from the exporter */
	bool look;      /* at the mark, which is not part of the time */
};

static char shm_name[64];

static CUmemAllocationProp properties(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

/* ---- By hand ----------------------------------------------------------------------------------------------------- */

static void by_shm_open(void *data, unsigned long count)
{
	struct memory *memory = data;

	while (count--) {
		int fd = shm_open(shm_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		BENCH_MUST(fd < 0 || ftruncate(fd, (off_t)memory->bytes));
		void *address = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		BENCH_MUST(address == MAP_FAILED || munmap(address, memory->bytes));
		close(fd);
		BENCH_MUST(shm_unlink(shm_name));
	}
}

/* The descriptor is there: map it, as an importer would, and unmap it. */
static void by_mmap(void *data, unsigned long count)
{
	struct memory *memory = data;

	while (count--) {
		void *address = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor, 0);
		BENCH_MUST(address == MAP_FAILED || munmap(address, memory->bytes));
	}
}

/* ---- By the API -------------------------------------------------------------------------------------------------- */

static void *descriptor_of(const struct memory *memory)
{
	return (void *)(intptr_t)memory->descriptor;
}

static void map_and_allow(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	BENCH_MUST(cuMemMap(address, bytes, 0, handle, 0));
	BENCH_MUST(cuMemSetAccess(address, bytes, &access, 1));
}

/* From a descriptor to usable memory, and back. */
static void whole_import(void *data, unsigned long count)
{
	struct memory *memory = data;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	while (count--) {
		BENCH_MUST(cuMemImportFromShareableHandle(&handle, descriptor_of(memory),
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		BENCH_MUST(cuMemAddressReserve(&address, memory->bytes, 0, 0, 0));
		map_and_allow(address, memory->bytes, handle);
		if (memory->look) {
			unsigned char byte;
			BENCH_MUST(cuMemcpyDtoH(&byte, address + memory->bytes - 1, 1));
			BENCH_MUST(byte != MARK);
		}
		BENCH_MUST(cuMemUnmap(address, memory->bytes));
		BENCH_MUST(cuMemAddressFree(address, memory->bytes));
		BENCH_MUST(cuMemRelease(handle));
	}
}

static void check_import(void *data)
{
	struct memory *memory = data;

	memory->look = true;
	whole_import(memory, 1);
	memory->look = false;
}

static void import_and_release(void *data, unsigned long count)
{
	CUmemGenericAllocationHandle handle;

	while (count--) {
		BENCH_MUST(cuMemImportFromShareableHandle(&handle, descriptor_of(data),
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		BENCH_MUST(cuMemRelease(handle));
	}
}

static void reserve_and_free(void *data, unsigned long count)
{
	struct memory *memory = data;
	CUdeviceptr address;

	while (count--) {
		BENCH_MUST(cuMemAddressReserve(&address, memory->bytes, 0, 0, 0));
		BENCH_MUST(cuMemAddressFree(address, memory->bytes));
	}
}

struct mapping {
	struct memory *memory;
	CUdeviceptr address;
};

static void map_allow_unmap(void *data, unsigned long count)
{
	struct mapping *mapping = data;

	while (count--) {
		map_and_allow(mapping->address, mapping->memory->bytes, mapping->memory->handle);
		BENCH_MUST(cuMemUnmap(mapping->address, mapping->memory->bytes));
	}
}

static void create_and_release(void *data, unsigned long count)
{
	CUmemAllocationProp of_device = properties();
	CUmemGenericAllocationHandle handle;

	while (count--) {
		BENCH_MUST(cuMemCreate(&handle, ((struct memory *)data)->bytes, &of_device, 0));
		BENCH_MUST(cuMemRelease(handle));
	}
}

static void export_and_close(void *data, unsigned long count)
{
	struct memory *memory = data;
	int descriptor;

	while (count--) {
		BENCH_MUST(cuMemExportToShareableHandle(&descriptor, memory->handle,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		close(descriptor);
	}
}

static void measure(const char *name, size_t bytes)
{
	static const char *const group = "Memory imported, mapped and released", *const hand = "by hand: mmap, munmap";
	CUmemAllocationProp of_device = properties();
	struct memory memory = {.bytes = bytes};
	struct mapping mapping = {.memory = &memory};

	CUresult result = cuMemCreate(&memory.handle, bytes, &of_device, 0);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		bench_absent(group, name, "cenote", "more than the device has");
		return;
	}
	BENCH_MUST(result);
	BENCH_MUST(cuMemExportToShareableHandle(&memory.descriptor, memory.handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	BENCH_MUST(cuMemAddressReserve(&mapping.address, bytes, 0, 0, 0));
	BENCH_MUST(pwrite(memory.descriptor, &(char){MARK}, 1, (off_t)bytes - 1) != 1);
	struct bench_contestant contestants[] = {
		{.name = "cenote, all of it", .body = whole_import, .check = check_import, .data = &memory, .goal = 5},
		{.name = "cenote, import and release", .body = import_and_release, .data = &memory},
		{.name = "cenote, reserve and free addresses", .body = reserve_and_free, .data = &memory},
		{.name = "cenote, map, allow and unmap", .body = map_allow_unmap, .data = &mapping},
		{.name = "cenote, export and close", .body = export_and_close, .data = &memory},
		{.name = "cenote, create and release", .body = create_and_release, .data = &memory},
		{.name = hand, .body = by_mmap, .data = &memory},
		{.name = "by hand: shm_open, ftruncate, mmap, undo", .body = by_shm_open, .data = &memory}};
	bench_contest(
		&(struct bench_contest){
			.group = group, .name = name, .baseline = hand, .x = (double)bytes, .x_name = "bytes"},
		contestants, sizeof contestants / sizeof *contestants);
	BENCH_MUST(cuMemAddressFree(mapping.address, bytes));
	close(memory.descriptor);
	BENCH_MUST(cuMemRelease(memory.handle));
}

int main(int argument_count, char **arguments)
{
	const size_t mib = (size_t)1 << 20;
	CUcontext context;

	snprintf(shm_name, sizeof shm_name, "/cenote-bench-vmm-%d", (int)getpid());
	bench_start("vmm", argument_count, arguments);
	bench_pin(0);
	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	measure("2 MiB", 2 * mib);
	measure("64 MiB", 64 * mib);
	measure("1 GiB", 1024 * mib);
	measure("4 GiB", 4096 * mib);
	return bench_finish();
}
