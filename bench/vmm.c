/* SPDX-License-Identifier: MIT */
/*
 * What memory costs that comes from another process: to import, map and allow it, beside the same done by hand with
 * shm_open() or with a memory file and mmap(). None of it may grow with the size; pages are touched by nobody here.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda.h>

#include "bench.h"

enum { MAPPED_NS_MAX = 100000 };

struct memory {
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	int descriptor; /* as it came from the exporter */
};

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
		int fd = shm_open("/cenote-bench", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		BENCH_MUST(fd < 0 || ftruncate(fd, (off_t)memory->bytes));
		void *address = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		BENCH_MUST(address == MAP_FAILED || munmap(address, memory->bytes));
		close(fd);
		BENCH_MUST(shm_unlink("/cenote-bench"));
	}
}

/* The descriptor is there: map it, as an importer would, and let it go. */
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
		BENCH_MUST(cuMemUnmap(address, memory->bytes));
		BENCH_MUST(cuMemAddressFree(address, memory->bytes));
		BENCH_MUST(cuMemRelease(handle));
	}
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

static void bench_size(const char *title, size_t bytes)
{
	CUmemAllocationProp of_device = properties();
	struct memory memory = {.bytes = bytes};
	struct mapping mapping = {.memory = &memory};

	CUresult result = cuMemCreate(&memory.handle, bytes, &of_device, 0);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		printf("\n%s: more than the device has\n", title);
		return;
	}
	BENCH_MUST(result);
	BENCH_MUST(cuMemExportToShareableHandle(&memory.descriptor, memory.handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	BENCH_MUST(cuMemAddressReserve(&mapping.address, bytes, 0, 0, 0));

	bench_title(title, "to shm_open");
	struct bench_result reference = bench_row("shm_open, ftruncate, mmap and undo", NULL, 0, by_shm_open, &memory);
	bench_row("mmap of a received descriptor and undo", &reference, 0, by_mmap, &memory);
	bench_row("import, reserve, map, allow and undo", &reference, MAPPED_NS_MAX, whole_import, &memory);
	bench_row("import and release", &reference, 0, import_and_release, &memory);
	bench_row("reserve and free addresses", &reference, 0, reserve_and_free, &memory);
	bench_row("map, allow and unmap", &reference, 0, map_allow_unmap, &mapping);
	bench_row("export and close", &reference, 0, export_and_close, &memory);
	bench_row("create and release", &reference, 0, create_and_release, &memory);

	BENCH_MUST(cuMemAddressFree(mapping.address, bytes));
	close(memory.descriptor);
	BENCH_MUST(cuMemRelease(memory.handle));
}

int main(void)
{
	const size_t mib = (size_t)1 << 20;

	BENCH_MUST(cuInit(0));
	cpu_set_t before = bench_pin();
	bench_size("Shared memory, 2 MiB", 2 * mib);
	bench_size("Shared memory, 64 MiB", 64 * mib);
	bench_size("Shared memory, 1 GiB", 1024 * mib);
	bench_size("Shared memory, 4 GiB", 4096 * mib);
	bench_unpin(before);
	return 0;
}
