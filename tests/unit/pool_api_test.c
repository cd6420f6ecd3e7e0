/* SPDX-License-Identifier: MIT */
/*
 * Pools as a program sees them: what creation refuses and why, rights, default and current pools, and the ways in which
 * a block can be freed wrongly. (How memory is reused is the allocator's own test.)
 */
#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"
#include "gate.h"
#include "harness.h"

enum { MIB = 1 << 20, PINNED = CU_MEM_ALLOCATION_TYPE_PINNED, MANAGED = CU_MEM_ALLOCATION_TYPE_MANAGED };

static CUmemPoolProps properties_of(int type, int location_type, int id)
{
	CUmemPoolProps properties = {.allocType = (CUmemAllocationType)type};

	properties.location.type = (CUmemLocationType)location_type;
	properties.location.id = id;
	return properties;
}

static CUmemoryPool make_pool(CUmemPoolProps properties)
{
	CUmemoryPool pool = NULL;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT_NE(NULL, pool);
	return pool;
}

static CUmemoryPool device_pool(void)
{
	return make_pool(properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0));
}

/* The code, a sentence that has this word in it, and nothing written. Managed pools are a GPU driver's own. */
static void assert_refused(CUresult code, CUmemPoolProps properties, const char *word)
{
	CUmemoryPool pool = (CUmemoryPool)0x77;

	ASSERT_ERROR(code, cuMemPoolCreate(&pool, &properties));
	if (!test_on_gpu() || (int)properties.allocType != (int)MANAGED)
		ASSERT_CONTAINS(word, cenote_last_error());
	ASSERT_EQ((CUmemoryPool)0x77, pool);
}

static CUdeviceptr allocate(CUmemoryPool pool, size_t bytes, CUstream stream)
{
	CUdeviceptr at = 0;

	ASSERT_OK(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
	return at;
}

static cuuint64_t number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = 0;

	ASSERT_OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static CUmemAccess_flags rights(CUmemoryPool pool, int location_type, int id)
{
	CUmemLocation location = {.type = (CUmemLocationType)location_type, .id = id};
	CUmemAccess_flags flags;

	ASSERT_OK(cuMemPoolGetAccess(&flags, pool, &location));
	return flags;
}

static CUresult allow(CUmemoryPool pool, int location_type, int id, CUmemAccess_flags flags)
{
	CUmemAccessDesc description = {{(CUmemLocationType)location_type, id}, flags};

	return cuMemPoolSetAccess(pool, &description, 1);
}

/* Goal: before cuInit() there are no pools. */
TEST(needs_cuInit)
{
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemoryPool pool;

	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuMemPoolCreate(&pool, &properties));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuMemPoolDestroy(NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_pool_stats(NULL, NULL, 0));
}

/* Goal: properties that are not well formed are refused, each with a sentence of its own. */
TEST(malformed_properties_are_refused)
{
	CUmemPoolProps good = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0), bad;
	CUmemoryPool pool;

	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(NULL, &good));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, NULL));
	bad = good;
	bad.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "allocType is 0");
	bad = good;
	bad.reserved[53] = 1;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "reserved");
	bad = good;
	bad.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "Windows");
	bad.handleTypes = CU_MEM_HANDLE_TYPE_WIN32_KMT;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "Windows");
	bad.handleTypes = (CUmemAllocationHandleType)16;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "0x10");
	assert_refused(CUDA_ERROR_INVALID_VALUE, properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 64), "device 64");
	assert_refused(CUDA_ERROR_INVALID_VALUE, properties_of(PINNED, CU_MEM_LOCATION_TYPE_NONE, 0), "location.type");
	assert_refused(CUDA_ERROR_INVALID_VALUE, properties_of(PINNED, 99, 0), "99");
}

/* Goal: a pool of the host needs no node and cannot be shared; a pool of a node needs one that exists. */
TEST(host_pools)
{
	CUmemPoolProps host = properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST, 12345);
	CUmemPoolProps node = properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);

	context_current();
	ASSERT_OK(cuMemPoolDestroy(make_pool(host)));
	host.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	assert_refused(CUDA_ERROR_INVALID_VALUE, host, "HOST_NUMA");
	host.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	assert_refused(CUDA_ERROR_INVALID_VALUE, host, "HOST_NUMA");
	ASSERT_OK(cuMemPoolDestroy(make_pool(node)));
	node.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	ASSERT_OK(cuMemPoolDestroy(make_pool(node)));
	node.location.id = 999;
	assert_refused(CUDA_ERROR_INVALID_VALUE, node, "NUMA node 999");
	node.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	assert_refused(CUDA_ERROR_INVALID_VALUE, node, "a certain NUMA node");
}

/* Goal: the host can use its pool at once, a device when it was allowed to, earlier blocks included. */
TEST(host_pool_rights)
{
	CUmemoryPool pool;
	CUstream stream;

	context_current();
	pool = make_pool(properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST, 0));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CUdeviceptr at = allocate(pool, 4096, stream);
	ASSERT_OK(cuStreamSynchronize(stream));
	memset((void *)(uintptr_t)at, 7, 4096);
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(pool, CU_MEM_LOCATION_TYPE_HOST, 0));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(at, 1, 4096, stream));
	if (!test_on_gpu())
		ASSERT_CONTAINS("cuMemPoolSetAccess", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED,
		     allow(pool, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ASSERT_OK(allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_OK(cuMemsetD8Async(at, 1, 4096, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(1, *(char *)(uintptr_t)at);
	ASSERT_OK(allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(at, 2, 4096, stream));
	ASSERT_OK(cuMemFreeAsync(at, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a managed pool cannot be shared, limited or decompressed into. */
TEST(managed_pool_refusals)
{
	CUmemPoolProps good = properties_of(MANAGED, CU_MEM_LOCATION_TYPE_DEVICE, 0), bad = good;

	ASSERT_OK(cuInit(0));
	bad.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "shared");
	bad = good;
	bad.maxSize = 1;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "maxSize");
	bad = good;
	bad.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS;
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "usage");
	bad = properties_of(MANAGED, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
	assert_refused(CUDA_ERROR_INVALID_VALUE, bad, "a certain NUMA node");
}

/* Goal: what a managed pool prefers is read back from its blocks, and a block is managed memory in every way. */
TEST(managed_pools_keep_their_location)
{
	static const struct {
		int type, id, number, read_id;
	} places[] = {
		{CU_MEM_LOCATION_TYPE_NONE, 7, CU_DEVICE_INVALID, CU_DEVICE_INVALID},
		{CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, 0},
		{CU_MEM_LOCATION_TYPE_HOST, 7, CU_DEVICE_CPU, 0},
		{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CU_DEVICE_CPU, 0},
	};

	context_current();
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		CUmemoryPool pool = make_pool(properties_of(MANAGED, places[i].type, places[i].id));
		CUdeviceptr at = allocate(pool, 10000, NULL);
		int value = 77;
		unsigned managed = 0;

		ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at,
						 10000));
		ASSERT_EQ(places[i].number, value);
		ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
						 at, 10000));
		ASSERT_EQ(places[i].type, value);
		ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, at,
						 10000));
		ASSERT_EQ(places[i].read_id, value);
		ASSERT_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
		ASSERT_EQ(1, managed);
		ASSERT_OK(cuMemsetD8(at, 3, 10000));
		ASSERT_EQ(3, ((char *)(uintptr_t)at)[9999]);
		ASSERT_OK(cuMemFree(at));
		ASSERT_OK(cuMemPoolDestroy(pool));
	}
}

/* Goal: where a block was prefetched to is kept per block, and forgotten when it is freed. */
TEST(prefetching_ends_with_the_block)
{
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	int value = 77;

	context_current();
	CUmemoryPool pool = make_pool(properties_of(MANAGED, CU_MEM_LOCATION_TYPE_NONE, 0));
	CUdeviceptr at = allocate(pool, 4096, NULL);
	ASSERT_OK(cuMemPrefetchAsync(at, 4096, device, 0, NULL));
	ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 64));
	ASSERT_EQ(0, value);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_EQ(at, allocate(pool, 4096, NULL));
	ASSERT_OK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 64));
	ASSERT_EQ(CU_DEVICE_INVALID, value);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: without concurrent managed access there are no managed pools; without pools there are none at all. */
TEST(capabilities_can_be_missing)
{
	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "managed", 1));
	ASSERT_OK(cuInit(0));
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(MANAGED, CU_MEM_LOCATION_TYPE_DEVICE, 0), "managed");
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(MANAGED, CU_MEM_LOCATION_TYPE_NONE, 0), "managed");
	ASSERT_OK(cuMemPoolDestroy(device_pool()));
}

/* Goal: where nothing is shared, neither is a pool. */
TEST(devices_can_share_no_pools)
{
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	int value = 77;

	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "ipc", 1));
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	ASSERT_EQ(0, value);
	properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties, "shared");
	ASSERT_OK(cuMemPoolDestroy(device_pool()));
}

TEST(devices_can_have_no_pools)
{
	CUmemoryPool pool;
	CUdeviceptr at;
	int value = 77;

	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "pools", 1));
	context_current();
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0), "pools");
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST, 0), "pools");
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), "pools");
	assert_refused(CUDA_ERROR_NOT_SUPPORTED, properties_of(MANAGED, CU_MEM_LOCATION_TYPE_NONE, 0), "pools");
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocAsync(&at, 64, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetDefaultMemPool(&pool, 0));
	ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	ASSERT_EQ(0, value);
}

/* Goal: a limit holds, and out of memory changes nothing; a limit beyond all addresses is out of memory at once. */
TEST(max_size)
{
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUdeviceptr other = 77;

	context_current();
	properties.maxSize = (size_t)1 << 46;
	assert_refused(CUDA_ERROR_OUT_OF_MEMORY, properties, "address space");
	properties.maxSize = 32 * MIB;
	CUmemoryPool pool = make_pool(properties);
	CUdeviceptr at = allocate(pool, 32 * MIB, NULL);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&other, 1, pool, NULL));
	ASSERT_EQ(0, other);
	ASSERT_EQ(32 * MIB, number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_EQ(at, allocate(pool, 32 * MIB, NULL));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: handle types are kept and returned, also where nothing can be exported by them; a usage is a hint. */
TEST(handle_types_are_kept)
{
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	unsigned long long types = 77;

	context_current();
	properties.handleTypes =
		(CUmemAllocationHandleType)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC);
	properties.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS;
	CUmemoryPool pool = make_pool(properties);
	CUdeviceptr at = allocate(pool, 64, NULL);
	ASSERT_OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
	ASSERT_EQ(9, types);
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: copies to and from a host pool need no rights of a device, as in the driver; fills do. */
TEST(host_pools_are_copied_without_rights)
{
	const CUmemLocationType types[] = {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA};
	CUdeviceptr managed, device;

	context_current();
	ASSERT_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemAlloc(&device, 4096));
	memset((void *)(uintptr_t)managed, 5, 4096);
	for (int i = 0; i < 2; i++) {
		CUmemoryPool pool = make_pool(properties_of(PINNED, (int)types[i], 0));
		CUdeviceptr first = allocate(pool, 4096, NULL), second = allocate(pool, 4096, NULL);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_OK(cuMemcpyAsync(first, managed, 4096, NULL));
		ASSERT_OK(cuMemcpy(second, first, 4096));
		ASSERT_OK(cuMemcpyAsync(device, second, 4096, NULL));
		ASSERT_OK(cuMemcpy(first + 2048, device, 2048));
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_MEMEQ((void *)(uintptr_t)managed, (void *)(uintptr_t)first, 4096);
		if (!test_has_gpu()) /* a GPU's driver does not check */
			ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(first, 1, 4096));
		ASSERT_OK(cuMemFree(first));
		ASSERT_OK(cuMemFree(second));
		ASSERT_OK(cuMemPoolDestroy(pool));
	}
	ASSERT_OK(cuMemFree(managed));
	ASSERT_OK(cuMemFree(device));
}

/*
 * Goal: a copy needs one device with rights to both sides, the stream's or the current context's; two that have one
 * side each are not enough.
 */
TEST(copies_by_the_current_contexts_device)
{
	CUcontext contexts[3];
	CUdeviceptr at[2];
	CUmemoryPool pools[2];
	CUstream third;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "3", 1));
	ASSERT_OK(cuInit(0));
	for (int i = 0; i < 3; i++)
		ASSERT_OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
	ASSERT_OK(cuCtxSetCurrent(contexts[2]));
	ASSERT_OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuCtxSetCurrent(contexts[0]));
	for (int i = 0; i < 2; i++) {
		pools[i] = make_pool(properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, i));
		at[i] = allocate(pools[i], 4096, NULL);
	}
	ASSERT_OK(cuCtxSynchronize());

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(at[0], at[1], 4096, third));
	ASSERT_OK(allow(pools[1], CU_MEM_LOCATION_TYPE_DEVICE, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(at[0], at[1], 4096, third));
	ASSERT_OK(allow(pools[1], CU_MEM_LOCATION_TYPE_DEVICE, 2, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ASSERT_OK(allow(pools[1], CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_OK(cuMemcpyAsync(at[0], at[1], 4096, third));
	ASSERT_OK(cuCtxSetCurrent(contexts[1])); /* which may use its own pool alone */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(at[0], at[1], 4096, third));
	ASSERT_OK(cuCtxSetCurrent(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(at[0], at[1], 4096, third));

	ASSERT_OK(cuCtxSetCurrent(contexts[0]));
	ASSERT_OK(cuStreamSynchronize(third));
	ASSERT_OK(cuStreamDestroy(third));
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(cuMemFree(at[i]));
		ASSERT_OK(cuMemPoolDestroy(pools[i]));
	}
	for (int i = 0; i < 3; i++)
		ASSERT_OK(cuDevicePrimaryCtxRelease(i));
}

/* Goal: rights of devices: a pool's own device keeps them, a peer gets them, half a right is none. */
TEST(rights_of_devices)
{
	CUcontext second;
	CUdeviceptr at;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	context_current();
	CUmemoryPool pool = device_pool();
	at = allocate(pool, 4096, NULL);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(pool, CU_MEM_LOCATION_TYPE_DEVICE, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE,
		     allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED,
		     allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 1, CU_MEM_ACCESS_FLAGS_PROT_READ));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED,
		     allow(pool, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE,
		     allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&second, 1));
	ASSERT_OK(cuCtxPushCurrent(second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at, 1, 4096));
	ASSERT_OK(allow(pool, CU_MEM_LOCATION_TYPE_DEVICE, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ASSERT_OK(cuMemsetD8(at, 1, 4096));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxPopCurrent(NULL));
	ASSERT_OK(cuDevicePrimaryCtxRelease(1));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: with one wrong description, no right changes. */
TEST(rights_are_given_together_or_not_at_all)
{
	CUmemAccessDesc two[2] = {
		{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{{CU_MEM_LOCATION_TYPE_DEVICE, 99}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	};

	context_current();
	CUmemoryPool pool = make_pool(properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, two, 2));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, NULL, 0));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: the default pool cannot be destroyed, and becomes current again when the current one is. */
TEST(default_and_current_pools)
{
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	CUmemoryPool own, current;
	CUdeviceptr at;

	context_current();
	ASSERT_OK(cuDeviceGetDefaultMemPool(&own, 0));
	leaks_start_here();
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(own));
	ASSERT_OK(cuDeviceGetMemPool(&current, 0));
	ASSERT_EQ(own, current);
	CUmemoryPool mine = device_pool();
	ASSERT_OK(cuDeviceSetMemPool(0, mine));
	ASSERT_OK(cuMemGetMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
	ASSERT_EQ(mine, current);
	ASSERT_OK(cuMemGetDefaultMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
	ASSERT_EQ(own, current);
	ASSERT_OK(cuMemAllocAsync(&at, 64, NULL));
	ASSERT_OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(mine, current);
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(mine));
	ASSERT_OK(cuDeviceGetMemPool(&current, 0));
	ASSERT_EQ(own, current);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, mine));
}

/* Goal: a pool becomes current only where its memory is, and for the type that it has. */
TEST(current_pools_match_their_location)
{
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 5};
	CUmemoryPool got;

	context_current();
	CUmemoryPool pool = make_pool(properties_of(PINNED, CU_MEM_LOCATION_TYPE_HOST, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_MANAGED, pool));
	ASSERT_OK(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	host.id = 0;
	ASSERT_OK(cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	ASSERT_EQ(pool, got);
	leaks_start_here(); /* the host has its default pool by now */
	host.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
}

/* Goal: reading and setting attributes, and the numbers that can only be reset. */
TEST(attributes)
{
	cuuint64_t wide = 0;
	int on = 0;

	context_current();
	CUmemoryPool pool = device_pool();
	for (int attribute = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; attribute++) {
		ASSERT_OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, &on));
		ASSERT_EQ(1, on);
		on = 0;
		ASSERT_OK(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, &on));
		on = 77;
		ASSERT_OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, &on));
		ASSERT_EQ(0, on);
	}
	wide = 123456789;
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wide));
	ASSERT_EQ(123456789, number(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
	ASSERT_OK(cuMemFree(allocate(pool, 1000, NULL)));
	ASSERT_EQ(1000, number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &wide));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &wide));
	wide = 0;
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &wide));
	ASSERT_EQ(0, number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, (CUmemPool_attribute)9, &wide));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/*
 * Goal: a wait for a stream gives back what the stream has freed in any of many pools, also in those that had nothing
 * of its when it was waited for before; and nothing of another stream's.
 */
TEST(a_wait_gives_back_what_its_stream_freed)
{
	enum { POOLS = 40 };
	CUmemoryPool pools[POOLS];
	CUstream streams[2];

	context_current();
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < POOLS; i++)
		pools[i] = device_pool();
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < POOLS; i++)
			ASSERT_OK(cuMemFreeAsync(allocate(pools[i], MIB, streams[i % 2]), streams[i % 2]));
		ASSERT_OK(cuStreamSynchronize(streams[0]));
		for (unsigned i = 0; i < POOLS; i++)
			ASSERT_EQ(i % 2 ? 32 * MIB : 0, number(pools[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
		ASSERT_OK(cuStreamSynchronize(streams[1]));
		for (unsigned i = 0; i < POOLS; i++)
			ASSERT_EQ(0, number(pools[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
		ASSERT_OK(cuStreamSynchronize(streams[0])); /* nothing is left to give back */
		ASSERT_OK(cuStreamSynchronize(streams[1]));
	}
	for (unsigned i = 0; i < POOLS; i++)
		ASSERT_OK(cuMemPoolDestroy(pools[i]));
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuStreamDestroy(streams[i]));
}

/* Goal: a block has the size asked for; only its start can be freed, once. */
TEST(wrong_frees_are_refused)
{
	CUdeviceptr base;
	size_t bytes;

	context_current();
	CUmemoryPool pool = device_pool();
	CUdeviceptr at = allocate(pool, 1000, NULL);
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, at + 999));
	ASSERT_EQ(at, base);
	ASSERT_EQ(1000, bytes);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, NULL, at + 1000));
	if (!test_on_gpu()) /* a GPU's driver sees the whole chunk */
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at + 999, 0, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at + 512, NULL));
	ASSERT_CONTAINS("inside", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(at + 1));
	ASSERT_CONTAINS("inside", cenote_last_error());
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at, NULL));
	ASSERT_CONTAINS("already freed", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(at));
	ASSERT_OK(cuMemFreeAsync(0, NULL));
	ASSERT_OK(cuMemAllocFromPoolAsync(&at, 0, pool, NULL));
	ASSERT_EQ(0, at);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&at, 64, pool, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
}

/* Goal: a block of a destroyed pool can be used and freed, and the pool's memory goes with it. */
TEST(blocks_outlive_their_pool)
{
	CUmemoryPool got;
	size_t before, after, total;
	char byte = 0;

	context_current();
	ASSERT_OK(cuMemGetInfo(&before, &total));
	CUmemoryPool pool = device_pool();
	CUdeviceptr at = allocate(pool, 4096, NULL);
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemsetD8(at, 9, 4096));
	ASSERT_OK(cuMemcpyDtoH(&byte, at + 4095, 1));
	ASSERT_EQ(9, byte);
	ASSERT_OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(pool, got);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemGetInfo(&after, &total));
	if (!test_has_gpu()) /* on one, other programs have memory as well */
		ASSERT_EQ(before, after);
}

/* Goal: cuMemFree() of a block does not wait, and the block is not reused before the work that may use it is done. */
TEST(free_without_a_stream_neither_waits_nor_hurries)
{
	CUstream busy, other;
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	int off = 0;

	context_current();
	struct gate gate = gate_make();
	properties.maxSize = 32 * MIB;
	CUmemoryPool pool = make_pool(properties);
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
	ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CUdeviceptr at = allocate(pool, 32 * MIB, busy), next = 0;
	gate_close(gate, busy);
	ASSERT_OK(cuMemsetD8Async(at, 1, 32 * MIB, busy));
	ASSERT_OK(cuMemFree(at));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&next, 32 * MIB, pool, other));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(busy));
	ASSERT_OK(cuMemAllocFromPoolAsync(&next, 32 * MIB, pool, other));
	ASSERT_EQ(at, next);
	ASSERT_OK(cuMemFreeAsync(next, other));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemPoolDestroy(pool));
	gate_free(gate);
}

/* Goal: memory of cuMemAlloc() is freed in stream order, when its stream reaches the free; managed memory is not. */
TEST(other_memory_in_stream_order)
{
	CUdeviceptr memory, managed;
	CUstream stream;
	size_t before, held, after, total;

	context_current();
	ASSERT_OK(cuMemGetInfo(&before, &total));
	ASSERT_OK(cuMemAlloc(&memory, 4 * MIB));
	ASSERT_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	struct gate gate = gate_make();
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gate_close(gate, stream);
	ASSERT_OK(cuMemsetD8Async(memory, 1, 4 * MIB, stream));
	ASSERT_OK(cuMemFreeAsync(memory, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
	ASSERT_OK(cuMemGetInfo(&held, &total));
	ASSERT_EQ(before - 4 * MIB, held);
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemGetInfo(&after, &total));
	ASSERT_EQ(before, after);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemFreeAsync(managed, stream));
	ASSERT_OK(cuMemFree(managed));
	ASSERT_OK(cuStreamDestroy(stream));
	gate_free(gate);
}

/* Goal: a context that ends frees no block: they are the pool's. */
TEST(blocks_outlive_contexts)
{
	CUcontext first, second;
	char byte = 0;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	CUmemoryPool pool = device_pool();
	CUdeviceptr at = allocate(pool, 4096, NULL);
	ASSERT_OK(cuMemsetD8(at, 5, 4096));
	ASSERT_OK(cuCtxDestroy(first));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_OK(cuMemcpyDtoH(&byte, at, 1));
	ASSERT_EQ(5, byte);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuCtxDestroy(second));
}

/* Goal: statistics add up, and a caller of an older header gets the part that it knows. */
TEST(statistics)
{
	cenote_pool_statistics statistics;
	unsigned long long part[3] = {0, 0, 77};

	context_current();
	CUmemoryPool pool = device_pool();
	CUdeviceptr at = allocate(pool, 4096, NULL);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	at = allocate(pool, 4096, NULL);
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(4096, statistics.used_bytes);
	ASSERT_EQ(1, statistics.live_block_count);
	ASSERT_EQ(1, statistics.reused_own);
	ASSERT_GE(statistics.reserved_bytes, statistics.used_bytes + statistics.largest_free_bytes);
	ASSERT_OK(cenote_pool_stats(pool, (cenote_pool_statistics *)(void *)part, 2 * sizeof part[0]));
	ASSERT_EQ(4096, part[0]);
	ASSERT_EQ(77, part[2]);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_stats(pool, &statistics, sizeof statistics + 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_stats(NULL, &statistics, sizeof statistics));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: the runtime's calls are the driver's, with the runtime's codes. */
TEST(runtime_pools)
{
	struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned};
	struct cudaMemLocation place = {.type = cudaMemLocationTypeDevice, .id = 0};
	cudaMemPool_t pool, got;
	cudaStream_t stream;
	void *at = &at;

	properties.location = place;
	ASSERT_OK(cudaSetDevice(0));
	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaDeviceGetDefaultMemPool(&got, 0));
	leaks_start_here();
	ASSERT_OK(cudaMemPoolCreate(&pool, &properties));
	ASSERT_OK(cudaDeviceSetMemPool(0, pool));
	ASSERT_OK(cudaMemGetMemPool(&got, &place, cudaMemAllocationTypePinned));
	ASSERT_EQ(pool, got);
	ASSERT_OK(cudaMallocAsync(&at, 0, stream));
	ASSERT_EQ(NULL, at);
	ASSERT_OK(cudaMallocAsync(&at, 100, stream));
	ASSERT_OK(cudaMemsetAsync(at, 1, 100, stream));
	ASSERT_OK(cudaFreeAsync(at, stream));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFreeAsync(at, stream));
	ASSERT_OK(cudaMallocFromPoolAsync(&at, 100, pool, stream));
	ASSERT_OK(cudaFree(at));
	ASSERT_OK(cudaFreeAsync(NULL, stream));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaMemPoolTrimTo(pool, 0));
	ASSERT_OK(cudaMemPoolDestroy(pool));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
}

/* Goal: the picture shows what is live, what was freed, what is free and what has no memory. */
TEST(picture_shows_the_pool)
{
	enum { QUARTER = 8 << 20 };
	CUmemPoolProps properties = properties_of(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
	cenote_pool_statistics statistics;
	CUmemoryPool pool;
	CUdeviceptr at[2];
	CUcontext context;
	CUstream stream;
	char text[66], more[200];

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT_OK(cenote_pool_picture(pool, text, sizeof text));
	ASSERT_STREQ("________________________________________________________________\n", text);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(cuMemAllocFromPoolAsync(&at[i], QUARTER, pool, stream));
	ASSERT_OK(cuMemFreeAsync(at[1], stream));
	ASSERT_OK(cenote_pool_picture(pool, text, sizeof text));
	ASSERT_STREQ("################oooooooooooooooo................................\n", text);
	ASSERT_OK(cenote_pool_picture(pool, more, sizeof more));
	ASSERT_EQ(3 * 65, strlen(more));
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(1, statistics.free_blocks_by_size[23]);
	ASSERT_EQ(1, statistics.free_blocks_by_size[24]);
	ASSERT_OK(cuMemFreeAsync(at[0], stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cenote_pool_picture(pool, text, sizeof text));
	ASSERT_STREQ("________________________________________________________________\n", text);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_picture(pool, text, sizeof text - 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_pool_picture(NULL, text, sizeof text));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuCtxDestroy(context));
}
