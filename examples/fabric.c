/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles: memory of the virtual memory API, a pool and a block of it, in another process, each by 64 bytes.
 *
 *     exporter   cuMemCreate - write           cuMemPoolCreate - allocate        read both
 *                export ------- 64 bytes -.    export --- 64 + 64 bytes -.       release, free, destroy
 *     importer                  import, map - read, write       import - write, free
 *
 * No descriptor travels, and the processes may belong to different users: both need an IMEX channel, a file that both
 * can read. The channel is the permission, and the bytes need no protection. Here the bytes travel over a socket, and a
 * byte says when the other process may look; an event would not work between users, since its handle is for one user's
 * processes.
 *
 * Only CUDA's API and plain sockets are used, so the program can also be built with NVIDIA's headers and libcuda, and
 * runs on a GPU unchanged.
 *
 *     gcc fabric.c -lcuda && ./a.out        with a channel; the program says how to make one
 */
#define DRIVER_API
#include "two_processes.h"

enum { NUMBERS = 100000, FACTOR = 10 };

static const size_t numbers_bytes = NUMBERS * sizeof(int);

/* What the exporter tells the importer. */
struct letter {
	CUmemFabricHandle memory, pool;
	CUmemPoolPtrExportData block;
};

/* ---- What both do ---- */

static void start(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

static CUmemAllocationProp fabric_memory(void)
{
	CUmemAllocationProp properties;

	memset(&properties, 0, sizeof properties);
	properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	properties.location.id = 0;
	properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	return properties;
}

/* The size is a multiple of the granularity; both processes come to the same. */
static size_t bytes_needed(void)
{
	CUmemAllocationProp properties = fabric_memory();
	size_t granularity;

	CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return (numbers_bytes + granularity - 1) / granularity * granularity;
}

/* Give memory an address in this process, and the device access to it. */
static CUdeviceptr map(CUmemGenericAllocationHandle memory)
{
	CUmemAccessDesc access;
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, bytes_needed(), 0, 0, 0));
	CHECK(cuMemMap(address, bytes_needed(), 0, memory, 0));
	memset(&access, 0, sizeof access);
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = 0;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cuMemSetAccess(address, bytes_needed(), &access, 1));
	return address;
}

static void unmap_and_release(CUdeviceptr address, CUmemGenericAllocationHandle memory)
{
	CHECK(cuMemUnmap(address, bytes_needed()));
	CHECK(cuMemAddressFree(address, bytes_needed()));
	CHECK(cuMemRelease(memory));
}

static void write_numbers(CUdeviceptr address, int factor)
{
	static int numbers[NUMBERS];

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i * factor;
	CHECK(cuMemcpyHtoD(address, numbers, numbers_bytes));
	CHECK(cuCtxSynchronize()); /* before another process reads it */
}

static void read_numbers(CUdeviceptr address, int factor, const char *where)
{
	static int numbers[NUMBERS];

	CHECK(cuMemcpyDtoH(numbers, address, numbers_bytes));
	for (int i = 0; i < NUMBERS; i++)
		if (numbers[i] != i * factor)
			fail("reading", "these are not the numbers that should be there");
	say("reads %d, %d, %d ... %d in the %s", numbers[0], numbers[1], numbers[2], numbers[NUMBERS - 1], where);
}

/* ---- The exporter ---- */

/* Two conditions: the device has fabric handles, and this user can read a channel, which is known at the first use. */
static CUmemGenericAllocationHandle create_memory(void)
{
	CUmemAllocationProp properties = fabric_memory();
	CUmemGenericAllocationHandle memory;
	int supported = 0;

	CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
	if (!supported)
		fail("device 0", "it has no fabric handles (CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)");
	CUresult result = cuMemCreate(&memory, bytes_needed(), &properties, 0);
	if (result == CUDA_ERROR_NOT_PERMITTED)
		fprintf(stderr,
			"This needs an IMEX channel: a file that exporter and importer can read. To make one\n"
			"  on the host device:  export CENOTE_IMEX_DIR=$HOME/channels; cenote imex create 0\n"
			"  on a GPU, as root:   mknod /dev/nvidia-caps-imex-channels/channel0 c NUMBER 0\n"
			"                       with the NUMBER of nvidia-caps-imex-channels in /proc/devices\n");
	check(result, "cuMemCreate");
	return memory;
}

static CUmemoryPool create_pool(void)
{
	CUmemPoolProps properties;
	CUmemoryPool pool;

	memset(&properties, 0, sizeof properties);
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	properties.location.id = 0;
	properties.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	CHECK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static int run_exporter(void)
{
	struct letter letter;
	CUdeviceptr block;
	CUstream stream;
	int sock;

	start();
	CUmemGenericAllocationHandle memory = create_memory(); /* or ends here, before there is an importer */
	pid_t importer = start_importer(&sock);
	CUdeviceptr address = map(memory);
	write_numbers(address, 1);
	say("created memory, wrote 0, 1, 2 ... %d", NUMBERS - 1);
	CHECK(cuMemExportToShareableHandle(&letter.memory, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CUmemoryPool pool = create_pool();
	CHECK(cuMemPoolExportToShareableHandle(&letter.pool, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	CHECK(cuMemAllocFromPoolAsync(&block, numbers_bytes, pool, stream));
	CHECK(cuMemsetD8Async(block, 0, numbers_bytes, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolExportPointer(&letter.block, block));
	say("created a pool, allocated a block, wrote zeros");
	say("sends three names of 64 bytes  ---------------------->");
	send_bytes(sock, &letter, sizeof letter);

	be_told(sock);
	read_numbers(block, 1, "block");
	read_numbers(address, FACTOR, "memory");
	CHECK(cuMemFreeAsync(block, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuStreamDestroy(stream));
	unmap_and_release(address, memory);
	say("freed the block, destroyed the pool, released the memory");
	tell(sock);
	await_importer(importer);
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf("done: two processes, three names of 64 bytes\n");
	return 0;
}

/* ---- The importer ---- */

static int run_importer(int sock)
{
	CUmemGenericAllocationHandle memory;
	struct letter letter;
	CUmemoryPool pool;
	CUdeviceptr block;

	start();
	receive_bytes(sock, &letter, sizeof letter);
	/* A pointer to the 64 bytes is passed, where a descriptor would be passed itself. */
	CHECK(cuMemImportFromShareableHandle(&memory, &letter.memory, CU_MEM_HANDLE_TYPE_FABRIC));
	CUdeviceptr address = map(memory);
	say("imported the memory, mapped it");
	read_numbers(address, 1, "memory");
	CHECK(cuMemPoolImportFromShareableHandle(&pool, &letter.pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	CHECK(cuMemPoolImportPointer(&block, pool, &letter.block));
	say("imported the pool and the block");

	CHECK(cuMemcpyDtoD(block, address, numbers_bytes));
	write_numbers(address, FACTOR);
	say("copied the memory to the block, wrote 0, %d, %d ...", FACTOR, 2 * FACTOR);
	CHECK(cuMemFree(block)); /* here first, then in the exporter */
	CHECK(cuMemPoolDestroy(pool));
	say("<----------- freed the block, tells the exporter");
	tell(sock);

	be_told(sock);
	read_numbers(address, FACTOR, "memory still");
	unmap_and_release(address, memory);
	CHECK(cuDevicePrimaryCtxRelease(0));
	return 0;
}

int main(int argc, char **argv)
{
	int sock;

	return started_as_importer(argc, argv, &sock) ? run_importer(sock) : run_exporter();
}
