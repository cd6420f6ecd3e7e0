/* SPDX-License-Identifier: MIT */
/*
 * Shareable allocations: one process creates memory with the virtual memory API, another uses it.
 *
 * The exporter starts the importer and sends it a descriptor. The importer maps the memory behind it and runs a kernel
 * on it; the exporter sees the result, lets go of the memory, and the importer still has it.
 *
 * Only CUDA's API and plain sockets are used here, so the program can also be built with NVIDIA's headers and libcuda,
 * and runs on a GPU unchanged. (cenote_send_descriptor() and cenote_recv_descriptor(), in cenote.h, do what
 * send_descriptor() and receive_descriptor() in two_processes.h do, and check what these leave out.)
 *
 *     gcc shareable_allocation.c -lcuda && ./a.out        with shareable_allocation_kernels.ptx beside it
 */
#define DRIVER_API
#include "two_processes.h"

#include <limits.h>

enum { NUMBERS = 1000, FACTOR = 10, BLOCK = 128 };

/* ---- What both do ---- */

static CUdevice start(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	return device;
}

static CUmemAllocationProp shareable_memory_of(CUdevice device)
{
	CUmemAllocationProp properties;

	memset(&properties, 0, sizeof properties);
	properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	properties.location.id = device;
	properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return properties;
}

/* The size is a multiple of the granularity; both processes come to the same. */
static size_t bytes_needed(CUdevice device)
{
	CUmemAllocationProp properties = shareable_memory_of(device);
	size_t granularity;

	CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return (NUMBERS * sizeof(int) + granularity - 1) / granularity * granularity;
}

/* Give memory an address in this process, and the device access to it. Without the last step no device may use it. */
static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t bytes, CUdevice device)
{
	CUmemAccessDesc access;
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	CHECK(cuMemMap(address, bytes, 0, memory, 0));
	say("mapped it at %#llx", (unsigned long long)address);
	memset(&access, 0, sizeof access);
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cuMemSetAccess(address, bytes, &access, 1));
	say("gave the device access to read and write");
	return address;
}

static void let_go(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle memory, CUdevice device)
{
	CHECK(cuMemUnmap(address, bytes));
	CHECK(cuMemAddressFree(address, bytes));
	CHECK(cuMemRelease(memory));
	CHECK(cuDevicePrimaryCtxRelease(device));
}

static void read_and_verify(CUdeviceptr address, int factor, const char *remark)
{
	int numbers[NUMBERS];

	CHECK(cuMemcpyDtoH(numbers, address, sizeof numbers));
	for (int i = 0; i < NUMBERS; i++)
		if (numbers[i] != i * factor)
			fail("reading", "these are not the numbers that were written");
	say("read %d, %d, %d, %d …%s", numbers[0], numbers[1], numbers[2], numbers[3], remark);
}

/* ---- The exporter ---- */

static int run_exporter(void)
{
	CUmemGenericAllocationHandle memory;
	int sock, descriptor, can_share = 0, numbers[NUMBERS];
	char name[40] = "";

	pid_t importer = start_importer(&sock);
	CUdevice device = start();
	CHECK(cuDeviceGetName(name, sizeof name, device));
	say("uses %s", name);
	CHECK(cuDeviceGetAttribute(&can_share, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
				   device));
	if (!can_share)
		fail(name, "this device does not share memory by descriptor");
	say("asked: memory can be shared by descriptor");

	CUmemAllocationProp properties = shareable_memory_of(device);
	size_t bytes = bytes_needed(device);
	CHECK(cuMemCreate(&memory, bytes, &properties, 0));
	say("created %zu bytes of shareable memory", bytes);
	CUdeviceptr address = map(memory, bytes, device);
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i;
	CHECK(cuMemcpyHtoD(address, numbers, sizeof numbers));
	say("wrote 0, 1, 2, 3 … %d", NUMBERS - 1);

	CHECK(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	say("exported it as descriptor %d, sends that  ------------->", descriptor);
	send_descriptor(sock, descriptor);
	close(descriptor); /* the importer has its own */

	be_told(sock);
	read_and_verify(address, FACTOR, ": the importer's result");
	let_go(address, bytes, memory, device);
	say("unmapped and released it  ----------------------------->");
	tell(sock);

	await_importer(importer);
	printf("done: two processes, one memory\n");
	return 0;
}

/* ---- The importer ---- */

/* The module beside this program: a GPU takes the .ptx; the host device refuses that, and takes the shared object. */
static CUmodule load_module(void)
{
	static const char *const endings[] = {"ptx", "so"};
	char program[PATH_MAX] = "", path[PATH_MAX + 40];
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
	CUmodule module = NULL;

	CHECK_SYSTEM(readlink("/proc/self/exe", program, sizeof program - 1));
	*strrchr(program, '/') = '\0';
	for (int i = 0; i < 2 && result; i++) {
		snprintf(path, sizeof path, "%s/shareable_allocation_kernels.%s", program, endings[i]);
		result = cuModuleLoad(&module, path);
		if (!result)
			say("loaded shareable_allocation_kernels.%s", endings[i]);
	}
	check(result, path);
	return module;
}

static void multiply(CUdeviceptr address)
{
	CUmodule module = load_module();
	CUfunction kernel;
	unsigned int count = NUMBERS;
	int factor = FACTOR;
	void *arguments[] = {&address, &count, &factor};

	CHECK(cuModuleGetFunction(&kernel, module, "multiply"));
	CHECK(cuLaunchKernel(kernel, (NUMBERS + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuModuleUnload(module));
}

static int run_importer(int sock)
{
	CUmemGenericAllocationHandle memory;
	CUdevice device = start();
	size_t bytes = bytes_needed(device);
	int descriptor = receive_descriptor(sock);

	say("received it as descriptor %d", descriptor);
	CHECK(cuMemImportFromShareableHandle(&memory, (void *)(uintptr_t)descriptor,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(descriptor); /* the handle holds the memory from now on */
	say("imported it, closed the descriptor");
	CUdeviceptr address = map(memory, bytes, device);
	read_and_verify(address, 1, "");
	multiply(address);
	say("ran a kernel on it: times %d", FACTOR);
	say("<------------- tells the exporter");
	tell(sock);

	be_told(sock);
	read_and_verify(address, FACTOR, ": the memory is still there");
	let_go(address, bytes, memory, device);
	say("unmapped and released it: now it is gone");
	return 0;
}

int main(int argc, char **argv)
{
	int sock;

	return started_as_importer(argc, argv, &sock) ? run_importer(sock) : run_exporter();
}
