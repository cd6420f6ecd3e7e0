/* SPDX-License-Identifier: MIT */
/*
 * The virtual memory API in one process: rights of devices, the order of ends, and work that is under way meanwhile.
 */
#include "../vmm.h"
#include "gate.h"

#include "cenote/cuda_runtime_api.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST(address) ((void *)(uintptr_t)(address))

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER true
#endif
#endif
#ifndef THREAD_SANITIZER
#define THREAD_SANITIZER false
#endif

/* ---- Rights ------------------------------------------------------------------------------------------------------ */

static unsigned long long rights_of(CUdeviceptr address, CUmemLocationType type, int id)
{
	CUmemLocation location = {.type = type, .id = id};
	unsigned long long rights = 77;

	ASSERT_OK(cuMemGetAccess(&rights, &location, address));
	return rights;
}

/* What a context may do with memory: copies and fills are allowed or refused as its rights say. */
static void assert_may(CUcontext context, CUdeviceptr address, int rights)
{
	CUresult reads = rights & VMM_READ ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	CUresult writes = rights == VMM_WRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	unsigned char byte = 1;
	CUstream stream;

	ASSERT_OK(cuCtxPushCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_ERROR(reads, cuMemcpyDtoH(&byte, address, 1));
	ASSERT_ERROR(reads, cuMemcpyDtoHAsync(&byte, address, 1, stream));
	ASSERT_ERROR(writes, cuMemcpyHtoD(address, &byte, 1));
	ASSERT_ERROR(writes, cuMemcpyHtoDAsync(address, &byte, 1, stream));
	ASSERT_ERROR(writes, cuMemcpyDtoD(address + 64, address, 64));
	ASSERT_ERROR(writes, cuMemsetD8(address, 7, 64));
	ASSERT_ERROR(writes, cuMemsetD32Async(address, 7, 64, stream));
	ASSERT_ERROR(writes, cuStreamWriteValue32(stream, address, 7, 0));
	ASSERT_ERROR(reads, cuStreamWaitValue32(stream, address, 0, CU_STREAM_WAIT_VALUE_GEQ));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuCtxPopCurrent(NULL));
}

/* Goal: memory of one device is mapped for both, each has its own rights, and they can be taken from one alone. */
TEST(two_devices_have_rights_of_their_own)
{
	CUcontext contexts[2];

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	for (int i = 0; i < 2; i++)
		contexts[i] = vmm_start(i);
	for (int owner = 0; owner < 2; owner++) {
		CUmemGenericAllocationHandle handle = vmm_create_on(owner, VMM_GRAIN);
		CUdeviceptr address = vmm_reserve(VMM_GRAIN);

		ASSERT_OK(cuMemMap(address, VMM_GRAIN, 0, handle, 0));
		for (int first = VMM_NONE; first <= VMM_WRITE; first++) {
			for (int second = VMM_NONE; second <= VMM_WRITE; second++) {
				if (first == 2 || second == 2)
					continue;
				vmm_allow(address, VMM_GRAIN, 0, first);
				vmm_allow(address, VMM_GRAIN, 1, second);
				ASSERT_EQ(first, rights_of(address, CU_MEM_LOCATION_TYPE_DEVICE, 0));
				ASSERT_EQ(second, rights_of(address, CU_MEM_LOCATION_TYPE_DEVICE, 1));
				assert_may(contexts[0], address, first);
				assert_may(contexts[1], address, second);
			}
		}
		vmm_unmap(address, VMM_GRAIN);
		ASSERT_OK(cuMemRelease(handle));
	}
}

/* Goal: what one device wrote is there for the other; both in one call; the one that lost its rights has none. */
TEST(a_device_loses_its_rights_alone)
{
	CUmemAccessDesc both[2] = {{.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
				   {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUcontext contexts[2];

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	for (int i = 0; i < 2; i++) {
		contexts[i] = vmm_start(i);
		both[i].location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i};
	}
	CUmemGenericAllocationHandle handle = vmm_create_on(0, VMM_GRAIN);
	CUdeviceptr address = vmm_reserve(VMM_GRAIN);
	ASSERT_OK(cuMemMap(address, VMM_GRAIN, 0, handle, 0));
	ASSERT_OK(cuMemSetAccess(address, VMM_GRAIN, both, 2));

	vmm_fill(address, 0x31, VMM_GRAIN);
	ASSERT_OK(cuCtxSetCurrent(contexts[0]));
	ASSERT_EQ(0x31, vmm_byte(address + VMM_GRAIN - 1));
	vmm_allow(address, VMM_GRAIN, 1, VMM_NONE);
	vmm_fill(address, 0x32, VMM_GRAIN);
	ASSERT_OK(cuCtxSetCurrent(contexts[1]));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(address, 0, 1));
	ASSERT_CONTAINS("device 1 may not write", cenote_last_error());
	vmm_allow(address, VMM_GRAIN, 1, VMM_READ);
	ASSERT_EQ(0x32, vmm_byte(address));
	vmm_unmap(address, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
}

/* Goal: memory of the machine takes nothing from a device, has a node, and the host has rights to it when given. */
TEST(memory_of_the_host)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_HOST, 0, 0), found;
	CUmemGenericAllocationHandle handle;

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	for (int numa = 0; numa < 2; numa++) {
		properties.location.type = numa ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_HOST;
		ASSERT_OK(cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
		ASSERT_EQ(free_before, vmm_free_bytes());
		ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
		ASSERT_EQ(CU_MEM_LOCATION_TYPE_HOST_NUMA, found.location.type);
		ASSERT_EQ(0, found.location.id);
		CUdeviceptr address = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
		ASSERT_OK(vmm_set(address, VMM_GRAIN, properties.location.type, 0, VMM_WRITE));
		ASSERT_EQ(VMM_WRITE, rights_of(address, properties.location.type, 0));
		memset(HOST(address), 0x29, VMM_GRAIN);
		ASSERT_EQ(0x29, vmm_byte(address + VMM_GRAIN - 1));
		vmm_unmap(address, VMM_GRAIN);
		ASSERT_OK(cuMemRelease(handle));
	}

	/* "The node of this thread" is for memory that comes and goes with it; here a node has a number. */
	handle = 77;
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
	properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 1023};
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
	ASSERT_CONTAINS("node 1023", cenote_last_error());
	ASSERT_EQ(77, handle);
}

/* Goal: where memory cannot be shared, a device says so, and memory that shall be is refused. */
TEST(devices_without_sharing)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, VMM_POSIX);
	CUmemGenericAllocationHandle handle = 77;
	int supported = 1;

	setenv("CENOTE_HOST_WITHOUT", "ipc", 1);
	vmm_start(0);
	ASSERT_OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
	ASSERT_EQ(0, supported);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
	ASSERT_CONTAINS("descriptor", cenote_last_error());
	ASSERT_EQ(77, handle);
	properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	ASSERT_OK(cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
	ASSERT_OK(cuMemRelease(handle));
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

/* Goal: release, unmap and address free in every order; memory goes with the last that holds it, and not before. */
TEST(ends_come_in_any_order)
{
	static const char *const orders[] = {"ruf", "rfu", "urf", "ufr", "fru", "fur"};

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	unsigned descriptors = test_descriptor_count();
	for (unsigned i = 0; i < 6; i++) {
		CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
		CUdeviceptr address = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
		bool released = false, unmapped = false, freed = false;

		vmm_fill(address, i, VMM_GRAIN);
		for (unsigned step = 0; step < 3; step++) {
			if (orders[i][step] == 'r') {
				ASSERT_OK(cuMemRelease(handle));
				ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
				released = true;
			} else if (orders[i][step] == 'u') {
				ASSERT_OK(cuMemUnmap(address, VMM_GRAIN));
				unmapped = true;
			} else {
				ASSERT_ERROR(unmapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
					     cuMemAddressFree(address, VMM_GRAIN));
				freed = unmapped;
			}
			if (!unmapped)
				ASSERT_EQ(i, vmm_byte(address));
			ASSERT_EQ(free_before - (released && unmapped ? 0 : VMM_GRAIN), vmm_free_bytes());
		}
		if (!freed)
			ASSERT_OK(cuMemAddressFree(address, VMM_GRAIN));
		ASSERT_EQ(free_before, vmm_free_bytes());
		ASSERT_EQ(descriptors, test_descriptor_count());
	}
}

/* Goal: a mapped address gives its handle again, after it was released too; each retain is one release. */
TEST(retained_handles_are_counted)
{
	CUmemGenericAllocationHandle again = 77;
	CUmemAllocationProp properties;

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	CUdeviceptr address = vmm_map(handle, VMM_GRAIN, VMM_WRITE), other = vmm_reserve(VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(other, VMM_GRAIN, 0, handle, 0));
	ASSERT_OK(cuMemAddressFree(other, VMM_GRAIN));
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(cuMemRetainAllocationHandle(&again, HOST(address + (size_t)i * 4096)));
		ASSERT_EQ(handle, again);
	}
	ASSERT_OK(cuMemUnmap(address, VMM_GRAIN));
	ASSERT_EQ(free_before - VMM_GRAIN, vmm_free_bytes());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&again, HOST(address)));
	ASSERT_OK(cuMemMap(address, VMM_GRAIN, 0, handle, 0));
	ASSERT_EQ(VMM_NONE, rights_of(address, CU_MEM_LOCATION_TYPE_DEVICE, 0));
	ASSERT_OK(cuMemUnmap(address, VMM_GRAIN));
	for (int i = 0; i < 3; i++)
		ASSERT_OK(cuMemRelease(handle));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&properties, handle));
	ASSERT_OK(cuMemAddressFree(address, VMM_GRAIN));
	ASSERT_EQ(free_before, vmm_free_bytes());
}

/* Goal: the ends of a context take no mapping along: it is nobody's. */
TEST(mappings_outlive_contexts)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	CUdeviceptr address = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	vmm_fill(address, 0x13, 1);
	ASSERT_OK(cuCtxDestroy(context));
	vmm_start(0);
	ASSERT_EQ(0x13, vmm_byte(address));
	vmm_unmap(address, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

/* Goal: a thousand ranges and mappings at once; ranges touch, each above the one before; copies go across mappings. */
TEST(a_thousand_mappings_touch)
{
	enum { COUNT = 1000 };
	static CUmemGenericAllocationHandle handles[COUNT];
	static CUdeviceptr addresses[COUNT];
	unsigned char bytes[64];

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	for (unsigned i = 0; i < COUNT; i++) {
		handles[i] = i % 10 ? handles[i - 1] : vmm_create(VMM_GRAIN);
		addresses[i] = vmm_map(handles[i], VMM_GRAIN, VMM_WRITE);
		if (i && !THREAD_SANITIZER) /* which leaves a program too few addresses */
			ASSERT_EQ(addresses[i - 1] + VMM_GRAIN, addresses[i]);
		if (i % 10 == 0)
			vmm_fill(addresses[i], i / 10, VMM_GRAIN);
	}
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_EQ(i / 10, vmm_byte(addresses[i] + VMM_GRAIN / 2));
	if (!THREAD_SANITIZER) {
		ASSERT_OK(cuMemcpyDtoH(bytes, addresses[10] - 32, 64));
		for (unsigned i = 0; i < 64; i++)
			ASSERT_EQ(i / 32, bytes[i]);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, addresses[COUNT - 1] + VMM_GRAIN - 32, 64));
		/* One call undoes them, though each has a range of its own. */
		ASSERT_OK(cuMemUnmap(addresses[0], (size_t)COUNT / 2 * VMM_GRAIN));
	}
	for (unsigned i = THREAD_SANITIZER ? 0 : COUNT / 2; i < COUNT; i++)
		ASSERT_OK(cuMemUnmap(addresses[i], VMM_GRAIN));
	for (unsigned i = 0; i < COUNT; i++) {
		if (i % 10 == 0)
			ASSERT_OK(cuMemRelease(handles[i]));
		ASSERT_OK(cuMemAddressFree(addresses[i], VMM_GRAIN));
	}
	ASSERT_EQ(free_before, vmm_free_bytes());
}

/* Goal: mappings do not overlap, are whole, and lie in reserved ranges; what is refused changes nothing. */
TEST(mappings_do_not_overlap)
{
	enum { SMALL = 2 * VMM_GRAIN, RANGE = 8 * VMM_GRAIN };

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(SMALL);
	CUdeviceptr range = vmm_reserve(RANGE), middle = range + SMALL;
	ASSERT_OK(cuMemMap(middle, SMALL, 0, handle, 0));
	vmm_allow(middle, SMALL, 0, VMM_WRITE);
	vmm_fill(middle, 0x37, SMALL);
	for (int i = -1; i <= 1; i++) {
		CUdeviceptr address = middle + (CUdeviceptr)((long)i * VMM_GRAIN);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, SMALL, 0, handle, 0));
		ASSERT_CONTAINS("is already mapped", cenote_last_error());
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + RANGE - VMM_GRAIN, SMALL, 0, handle, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(range - SMALL, SMALL, 0, handle, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(range + 4096, SMALL, 0, handle, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(middle, VMM_GRAIN));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(middle + VMM_GRAIN, SMALL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, RANGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, SMALL));
	ASSERT_EQ(0x37, vmm_byte(middle));
	ASSERT_EQ(0x37, vmm_byte(middle + SMALL - 1));
	ASSERT_OK(cuMemMap(range, SMALL, 0, handle, 0));
	ASSERT_OK(cuMemMap(middle + SMALL, SMALL, 0, handle, 0));
	ASSERT_OK(cuMemUnmap(range, RANGE));
	ASSERT_OK(cuMemAddressFree(range, RANGE));
	ASSERT_OK(cuMemRelease(handle));
}

/* Goal: memory that the program registered, and unmapped without a word, is not in the way of a range put there. */
TEST(stale_registrations_are_forgotten)
{
	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	CUdeviceptr first = vmm_reserve(VMM_GRAIN);
	void *wanted = HOST(first + VMM_GRAIN);
	void *own = mmap(wanted, VMM_GRAIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			 -1, 0);
	if (own == MAP_FAILED)
		SKIP("the addresses above a range are taken");
	ASSERT_OK(cuMemHostRegister((char *)own + 4096, 8192, 0));
	ASSERT_SYS(munmap(own, VMM_GRAIN));

	CUdeviceptr address = vmm_reserve(VMM_GRAIN);
	ASSERT_EQ((uintptr_t)wanted, address);
	ASSERT_OK(cuMemUnmap(address, VMM_GRAIN));
	ASSERT_OK(cuMemMap(address, VMM_GRAIN, 0, handle, 0));
	vmm_allow(address, VMM_GRAIN, 0, VMM_WRITE);
	vmm_fill(address, 1, VMM_GRAIN);
	vmm_unmap(address, VMM_GRAIN);
	ASSERT_OK(cuMemAddressFree(first, VMM_GRAIN));
	ASSERT_OK(cuMemRelease(handle));
}

static bool is_taken(CUdeviceptr address)
{
	void *there =
		mmap(HOST(address), VMM_GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (there == MAP_FAILED) {
		ASSERT_EQ(EEXIST, errno);
		return true;
	}
	ASSERT_SYS(munmap(there, VMM_GRAIN));
	return false;
}

/* Goal: addresses of a freed range are nobody else's while work that was queued before may know them. */
TEST(freed_addresses_rest_while_work_is_queued)
{
	vmm_start(0);
	struct gate gate = gate_make();
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	CUdeviceptr address = vmm_map(handle, VMM_GRAIN, VMM_WRITE), other;
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	gate_close(gate, stream);
	ASSERT_OK(cuMemsetD8Async(address, 1, VMM_GRAIN, stream));
	vmm_unmap(address, VMM_GRAIN);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, VMM_GRAIN, 0, handle, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, VMM_GRAIN));
	other = vmm_reserve(VMM_GRAIN);
	ASSERT_OK(cuMemAddressFree(other, VMM_GRAIN));
	ASSERT(is_taken(address));
	gate_open(gate);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	other = vmm_reserve(VMM_GRAIN);
	ASSERT(!is_taken(address));
	ASSERT_OK(cuMemAddressFree(other, VMM_GRAIN));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuMemRelease(handle));
	gate_free(gate);
}

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

#if defined(__clang__)
#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define UNCHECKED __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

/* Store a byte; each block at a place of its own. */
UNCHECKED static void poke(const cenote_thread *at, void **args)
{
	(*(volatile unsigned char **)args[0])[at->blockIdx.x] = 1;
}
CENOTE_KERNEL(poke, unsigned char *);

/* Fill, which is an operation of its own and runs in this thread, then store at an address which is not there. */
UNCHECKED static void poke_after_fill(const cenote_thread *at, void **args)
{
	(void)at;
	(void)cuMemsetD8Async(*(CUdeviceptr *)args[1], 5, 1, *(CUstream *)args[2]);
	**(volatile unsigned char **)args[0] = 1;
}
CENOTE_KERNEL(poke_after_fill, unsigned char *, CUdeviceptr, CUstream);

static void launch_poke(CUdeviceptr address, unsigned blocks, CUstream stream)
{
	void *arguments[] = {&address};

	ASSERT_OK(cudaLaunchKernel((const void *)(uintptr_t)poke, (dim3){blocks, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
				   stream));
}

/* Goal: a kernel that touches what is not there fails its stream for good, and no other stream or context. */
TEST(a_fault_fails_its_stream_alone)
{
	CUcontext other;
	CUdeviceptr memory, places[3] = {0, 0};
	CUstream stream, neighbour;

	vmm_start(0);
	ASSERT_OK(cuMemAlloc(&memory, 4096));
	ASSERT_OK(cuStreamCreate(&neighbour, 0));
	places[1] = vmm_reserve(VMM_GRAIN);
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	places[2] = vmm_map(handle, VMM_GRAIN, VMM_READ);
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned blocks = 1; blocks <= 64; blocks *= 64) {
			ASSERT_OK(cuStreamCreate(&stream, 0));
			vmm_fill(memory, 0, 4096);
			launch_poke(places[i], blocks, stream);
			launch_poke(memory, 1, stream);
			ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
			ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(stream));
			ASSERT_EQ(0, vmm_byte(memory)); /* what follows a failure does not run */
			ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
			launch_poke(memory, 1, neighbour);
			ASSERT_OK(cuStreamSynchronize(neighbour));
			ASSERT_EQ(1, vmm_byte(memory));
			ASSERT_OK(cuStreamDestroy(stream));
		}
	}
	ASSERT_OK(cuStreamCreate(&stream, 0));
	launch_poke(memory, 64, stream);
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuCtxCreate(&other, NULL, 0, 0));
	launch_poke(memory, 1, NULL);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxDestroy(other));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuStreamDestroy(neighbour));
	vmm_unmap(places[2], VMM_GRAIN);
	ASSERT_OK(cuMemAddressFree(places[1], VMM_GRAIN));
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_OK(cuMemFree(memory));
}

/* Goal: an operation inside a kernel does not take the kernel's own guard away. */
TEST(guards_nest)
{
	CUdeviceptr memory, nothing = 64;
	CUstream stream, other;

	vmm_start(0);
	ASSERT_OK(cuMemAlloc(&memory, 64));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	void *arguments[] = {&nothing, &memory, &other};
	ASSERT_OK(cudaLaunchKernel((const void *)(uintptr_t)poke_after_fill, (dim3){1, 1, 1}, (dim3){1, 1, 1},
				   arguments, 0, stream));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamSynchronize(other));
	ASSERT_EQ(5, vmm_byte(memory));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemFree(memory));
}

/* The kinds of work that can stand in a stream when its memory goes. */
enum work { FILL, COPY_FROM, COPY_TO, COPY_OUT, WRITE_VALUE, WAIT_VALUE, KERNEL, WORK_KINDS };

static void enqueue(enum work work, CUdeviceptr going, CUdeviceptr staying, void *pinned, CUstream stream)
{
	switch (work) {
	case FILL: ASSERT_OK(cuMemsetD8Async(going, 1, VMM_GRAIN, stream)); break;
	case COPY_FROM: ASSERT_OK(cuMemcpyDtoDAsync(staying, going, VMM_GRAIN, stream)); break;
	case COPY_TO: ASSERT_OK(cuMemcpyDtoDAsync(going, staying, 64, stream)); break;
	case COPY_OUT: ASSERT_OK(cuMemcpyDtoHAsync(pinned, going, 64, stream)); break;
	case WRITE_VALUE: ASSERT_OK(cuStreamWriteValue32(stream, going, 1, 0)); break;
	case WAIT_VALUE: ASSERT_OK(cuStreamWaitValue32(stream, going, 1, CU_STREAM_WAIT_VALUE_EQ)); break;
	case KERNEL: launch_poke(going, 3, stream); break;
	case WORK_KINDS: break;
	}
}

/* Goal: work that is queued when its memory is unmapped fails its stream, whatever it is; the next stream works. */
TEST(work_fails_when_its_memory_goes)
{
	CUstream stream;
	void *pinned;

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	CUdeviceptr staying = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	ASSERT_OK(cuMemHostAlloc(&pinned, 64, 0));
	for (int work = 0; work < WORK_KINDS; work++) {
		if (work == WRITE_VALUE && THREAD_SANITIZER)
			continue; /* an atomic store is done inside the sanitizer, which holds a lock of its own then */
		struct gate gate = gate_make();
		CUdeviceptr going = vmm_map(handle, VMM_GRAIN, VMM_WRITE);

		ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		gate_close(gate, stream);
		enqueue((enum work)work, going, staying, pinned, stream);
		ASSERT_OK(cuMemUnmap(going, VMM_GRAIN));
		gate_open(gate);
		ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
		ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		enqueue(FILL, staying, staying, pinned, stream);
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_OK(cuMemAddressFree(going, VMM_GRAIN));
		gate_free(gate);
	}

	/* A wait that nobody could end any more, already begun. */
	CUdeviceptr going = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	vmm_fill(going, 0, 4);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	enqueue(WAIT_VALUE, going, staying, pinned, stream);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	vmm_unmap(going, VMM_GRAIN);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	vmm_unmap(staying, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_OK(cuMemFreeHost(pinned));
}

static void fault_in_kernel(void)
{
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	launch_poke(64, 1, stream);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
}

UNCHECKED static void fault_here(void)
{
	volatile unsigned char *volatile nowhere = (volatile unsigned char *)64;

	*nowhere = 1;
}

static sigjmp_buf after_fault;
static volatile sig_atomic_t faults_seen;

static void on_own_fault(int number)
{
	ASSERT_EQ(SIGSEGV, number);
	faults_seen++;
	siglongjmp(after_fault, 1);
}

static void on_own_fault_told(int number, siginfo_t *info, void *machine)
{
	ASSERT(machine);
	ASSERT_EQ((void *)64, info->si_addr);
	on_own_fault(number);
}

/* A program with a handler of its own, of either kind. */
ROLE(has_a_handler)
{
	struct sigaction action = {.sa_handler = on_own_fault};

	if (!strcmp(argv[0], "told")) {
		action.sa_sigaction = on_own_fault_told;
		action.sa_flags = SA_SIGINFO;
	}
	ASSERT_SYS(sigaction(SIGSEGV, &action, NULL));
	vmm_start(0);
	for (int i = 0; i < 3; i++) {
		fault_in_kernel();
		ASSERT_EQ(i, faults_seen);
		if (!sigsetjmp(after_fault, 1))
			fault_here();
		ASSERT_EQ(i + 1, faults_seen);
	}
}

/* Goal: a program's own handler gets the program's own faults, and no others. */
TEST(a_programs_handler_gets_its_faults)
{
	peer_wait(peer_start("has_a_handler", "plain"));
	peer_wait(peer_start("has_a_handler", "told"));
}

ROLE(faults)
{
	leaks_watch(0);
	vmm_start(0);
	fault_in_kernel();
	peer_send(parent, "alive");
	if (!strcmp(argv[0], "itself"))
		fault_here();
	if (!strcmp(argv[0], "is told"))
		kill(getpid(), SIGSEGV);
}

/* Goal: a fault outside of the device's work, or the signal sent by somebody, ends the program as ever. */
TEST(other_faults_end_the_program)
{
	static const char *const ways[] = {"itself", "is told"};

	for (unsigned i = 0; i < 2; i++) {
		struct peer *peer = peer_start("faults", ways[i]);

		peer_expect(peer, "alive");
		int status = peer_wait_status(peer);
		/* A sanitizer has a handler of its own, which says what happened and exits. */
		if (HARNESS_SLOWDOWN == 1) {
			ASSERT(WIFSIGNALED(status));
			ASSERT_EQ(SIGSEGV, WTERMSIG(status));
		}
		ASSERT_NE(0, status);
	}
	struct peer *peer = peer_start("faults", "not at all");
	peer_expect(peer, "alive");
	peer_wait(peer);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static CUdeviceptr common;
static CUmemGenericAllocationHandle common_handle;

/* Map, use and unmap, over and over, beside a mapping that all threads use and look at. */
static void *map_and_copy(void *data)
{
	struct test_random random = test_random_start((uintptr_t)data);
	CUmemGenericAllocationHandle again;
	CUstream stream;

	vmm_start(0);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 200 / HARNESS_SLOWDOWN; i++) {
		size_t bytes = VMM_GRAIN * (1 + test_random_below(&random, 3));
		unsigned char value = (unsigned char)test_random_below(&random, 256), byte = 0;
		CUmemGenericAllocationHandle handle = vmm_create(bytes);
		CUdeviceptr address = vmm_map(handle, bytes, VMM_WRITE);

		ASSERT_OK(cuMemsetD8Async(address, value, 4096, stream));
		if (i % 2) {
			int descriptor = vmm_export(handle);
			ASSERT_OK(cuMemRelease(handle));
			handle = vmm_import(descriptor);
			close(descriptor);
		}
		ASSERT_OK(cuMemcpyDtoDAsync(common + (uintptr_t)data * 4096, address, 4096, stream));
		ASSERT_OK(cuMemRetainAllocationHandle(&again, HOST(common)));
		ASSERT_EQ(common_handle, again);
		ASSERT_OK(cuMemRelease(again));
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_OK(cuMemcpyDtoHAsync(&byte, common + (uintptr_t)data * 4096 + 4095, 1, stream));
		ASSERT_EQ(value, byte);
		if (i % 3) {
			vmm_unmap(address, bytes);
			ASSERT_OK(cuMemRelease(handle));
		} else {
			ASSERT_OK(cuMemRelease(handle));
			vmm_unmap(address, bytes);
		}
	}
	ASSERT_OK(cuStreamDestroy(stream));
	return NULL;
}

/* Goal: threads map, use, share and unmap at the same time. */
TEST(threads_map_at_the_same_time, .timeout_ms = 60000)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	common_handle = vmm_create(VMM_GRAIN);
	common = vmm_map(common_handle, VMM_GRAIN, VMM_WRITE);
	for (uintptr_t i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, map_and_copy, (void *)i));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	vmm_unmap(common, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(common_handle));
	ASSERT_EQ(free_before, vmm_free_bytes());
}
