/* SPDX-License-Identifier: MIT */
/*
 * Chapter "runtime": cuda* calls, the last error of each thread, lazy initialisation, and the primary context below.
 */
#include "ask.h"

CHAPTER(runtime);

#define DEVICE(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

static void state(const char *when)
{
	unsigned int flags = UNTOUCHED_INT;
	int active = UNTOUCHED_INT;

	ASK_VALUE(ask_name("primary_%s", when), cuDevicePrimaryCtxGetState(0, &flags, &active), "flags %u active %d",
		  flags, active);
}

GROUP(lazy)
{
	CUcontext current = UNTOUCHED(CUcontext), primary = NULL;
	int number = UNTOUCHED_INT;
	void *memory = NULL;

	ASK("version", cudaRuntimeGetVersion(&number));
	SAY("version_is_13", "%s", ask_yes(number >= 13000 && number < 14000));
	ASK("version_null", cudaRuntimeGetVersion(NULL));
	ASK("driver_version_null", cudaDriverGetVersion(NULL));
	ASK("peek_at_first", cudaPeekAtLastError());
	state("before_any_call");
	ASK("count", cudaGetDeviceCount(&number));
	ASK("count_null", cudaGetDeviceCount(NULL));
	state("after_count");
	number = UNTOUCHED_INT;
	ASK_VALUE("device", cudaGetDevice(&number), "%d", number);
	ASK("device_null", cudaGetDevice(NULL));
	state("after_get_device");
	ASK_VALUE("current_before", cuCtxGetCurrent(&current), "%s", OUT(current));
	ASK("set_device", cudaSetDevice(0));
	state("after_set_device");
	ASK_VALUE("current_after_set_device", cuCtxGetCurrent(&current), "%s", OUT(current));
	ASK("free_null", cudaFree(NULL));
	state("after_free_null");
	ASK_VALUE("current_after_free_null", cuCtxGetCurrent(&current), "%s", OUT(current));
	NEED(cuDevicePrimaryCtxRetain(&primary, 0));
	SAY("current_is_primary", "%s", ask_yes(primary == current));
	NEED(cuDevicePrimaryCtxRelease(0));
	NEED(cuCtxSetCurrent(NULL));
	ASK("malloc_without_current", cudaMalloc(&memory, 64));
	ASK_VALUE("current_after_malloc", cuCtxGetCurrent(&current), "%s", ask_yes(current == primary));
	ASK("synchronize", cudaDeviceSynchronize());
	ASK("driver_release", cuDevicePrimaryCtxRelease(0));
	state("after_driver_release");
	ASK("malloc_after_driver_release", cudaMalloc(&memory, 64));
}

GROUP(lazy_malloc)
{
	void *memory = UNTOUCHED(void *);

	ASK_VALUE("first_call_malloc", cudaMalloc(&memory, 64), "%s", OUT(memory));
	state("after_malloc");
}

GROUP(lazy_stream)
{
	cudaStream_t stream = UNTOUCHED(cudaStream_t);

	ASK_VALUE("first_call_stream", cudaStreamCreate(&stream), "%s", OUT(stream));
	state("after_stream_create");
}

GROUP(lazy_event)
{
	cudaEvent_t event = UNTOUCHED(cudaEvent_t);

	ASK_VALUE("first_call_event", cudaEventCreate(&event), "%s", OUT(event));
	state("after_event_create");
}

GROUP(lazy_queries)
{
	struct cudaPointerAttributes attributes;
	struct cudaDeviceProp properties;
	int value = 0;

	ASK("first_call_attribute", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
	state("after_attribute");
	ASK("first_call_properties", cudaGetDeviceProperties(&properties, 0));
	state("after_properties");
	ASK("first_call_pointer", cudaPointerGetAttributes(&attributes, &value));
	state("after_pointer");
	ASK("first_call_synchronize", cudaDeviceSynchronize());
	state("after_synchronize");
}

GROUP(with_context)
{
	CUcontext context = ask_context(), current = NULL;
	CUdeviceptr memory = 0;
	void *pointer = NULL;
	int device = UNTOUCHED_INT;

	NEED(cuMemAlloc(&memory, 64));
	ASK("in_created_context_malloc", cudaMalloc(&pointer, 64));
	ASK_VALUE("in_created_context_current", cuCtxGetCurrent(&current), "%s", ask_yes(current == context));
	state("in_created_context");
	ASK_VALUE("in_created_context_device", cudaGetDevice(&device), "%d", device);
	ASK("in_created_context_free", cudaFree((void *)(uintptr_t)memory));
	NEED(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_CONTEXT, DEVICE(pointer)));
	SAY("in_created_context_owner", "%s", ask_yes(current == context));
	ASK("in_created_context_set_device", cudaSetDevice(0));
	ASK_VALUE("after_set_device_current", cuCtxGetCurrent(&current), "%s", ask_yes(current == context));
}

GROUP(last_error)
{
	void *memory = UNTOUCHED(void *);

	NEED(cudaFree(NULL));
	ASK("last_at_first", cudaGetLastError());
	ASK("last_failing_call", cudaMalloc(NULL, 64));
	ASK("last_peek", cudaPeekAtLastError());
	ASK("last_peek_again", cudaPeekAtLastError());
	ASK("last_get", cudaGetLastError());
	ASK("last_get_again", cudaGetLastError());
	ASK("last_fail_then_succeed_1", cudaSetDevice(1000));
	ASK("last_fail_then_succeed_2", cudaMalloc(&memory, 64));
	ASK("last_after_success", cudaGetLastError());
	ASK("last_two_failures_1", cudaSetDevice(1000));
	ASK("last_two_failures_2", cudaMalloc(NULL, 64));
	ASK("last_of_two_failures", cudaGetLastError());
	ASK("last_driver_failure", cuMemAlloc(NULL, 64));
	ASK("last_after_driver_failure", cudaGetLastError());
	ASK("last_out_of_memory", cudaMalloc(&memory, (size_t)1 << 50));
	ASK("last_after_out_of_memory", cudaGetLastError());
}

static void *other_thread(void *data)
{
	cudaError_t *seen = data;

	seen[0] = cudaPeekAtLastError();
	seen[1] = cudaSetDevice(1000);
	seen[2] = cudaPeekAtLastError();
	return NULL;
}

GROUP(last_error_threads)
{
	cudaError_t seen[3];

	NEED(cudaFree(NULL));
	ASK("thread_failing_call", cudaMalloc(NULL, 64));
	ask_threaded(other_thread, seen);
	SAY("thread_other_sees", "%s", ask_runtime_code(seen[0]));
	SAY("thread_other_fails", "%s", ask_runtime_code(seen[1]));
	SAY("thread_other_last", "%s", ask_runtime_code(seen[2]));
	ASK("thread_own_last", cudaGetLastError());
}

GROUP(not_ready)
{
	cudaStream_t stream = NULL;
	cudaEvent_t event = NULL, other = NULL;
	float ms = UNTOUCHED_INT;

	NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	NEED(cudaEventCreate(&event));
	NEED(cudaEventCreate(&other));
	struct gate gate = gate_make();
	NEED(cudaEventRecord(other, stream));
	gate_close(&gate, stream);
	NEED(cudaEventRecord(event, stream));
	ASK("busy_stream_query", cudaStreamQuery(stream));
	ASK("busy_stream_query_last", cudaGetLastError());
	ASK("busy_event_query", cudaEventQuery(event));
	ASK("busy_event_query_last", cudaGetLastError());
	ASK_VALUE("busy_elapsed", cudaEventElapsedTime(&ms, other, event), "%g", ms);
	ASK("busy_elapsed_last", cudaGetLastError());
	gate_open(&gate);
	ASK("busy_synchronize", cudaStreamSynchronize(stream));
	ASK("busy_event_done", cudaEventQuery(event));
}

GROUP(devices)
{
	char text[64];
	int value = UNTOUCHED_INT, list[2] = {0, 0};
	unsigned int flags = UNTOUCHED_INT;
	static struct cudaDeviceProp properties;

	ASK("set_device_negative", cudaSetDevice(-1));
	ASK("set_device_many", cudaSetDevice(1000));
	ASK_VALUE("device_after_failure", cudaGetDevice(&value), "%d", value);
	ASK("init_device", cudaInitDevice(0, 0, 0));
	state("after_init_device");
	ASK("init_device_many", cudaInitDevice(1000, 0, 0));
	ASK("init_device_flags_1", cudaInitDevice(0, 0, 1));
	ASK("init_device_flags_2", cudaInitDevice(0, 0, 2));
	ASK("init_device_flags_valid", cudaInitDevice(0, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
	ASK("init_device_bad_device_flags", cudaInitDevice(0, 0x1000, cudaInitDeviceFlagsAreValid));
	ASK_VALUE("flags", cudaGetDeviceFlags(&flags), "%u", flags);
	ASK("flags_null", cudaGetDeviceFlags(NULL));
	ASK("set_flags_blocking", cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	ASK_VALUE("flags_blocking", cudaGetDeviceFlags(&flags), "%u", flags);
	ASK("set_flags_3", cudaSetDeviceFlags(3));
	ASK("set_flags_0x100", cudaSetDeviceFlags(0x100));
	ASK("set_flags_all", cudaSetDeviceFlags(~0u));
	ASK("attribute_null", cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0));
	value = UNTOUCHED_INT;
	ASK_VALUE("attribute_0", cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)0, 0), "%d", value);
	ASK_VALUE("attribute_100000", cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)100000, 0), "%d", value);
	ASK_VALUE("attribute_device_many", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1000), "%d", value);
	ASK("properties_null", cudaGetDeviceProperties(NULL, 0));
	ASK("properties_device_many", cudaGetDeviceProperties(&properties, 1000));
	ASK("properties_device_negative", cudaGetDeviceProperties(&properties, -1));
	ASK("properties", cudaGetDeviceProperties(&properties, 0));
	SAY("properties_name", "%s", ask_yes(properties.name[0]));
	ASK_VALUE("choose", cudaChooseDevice(&value, &properties), "%d", value);
	ASK("choose_null", cudaChooseDevice(NULL, &properties));
	ASK("choose_null_properties", cudaChooseDevice(&value, NULL));
	ASK("valid_devices", cudaSetValidDevices(list, 1));
	ASK("valid_devices_0", cudaSetValidDevices(list, 0));
	ASK("valid_devices_twice_the_same", cudaSetValidDevices(list, 2));
	ASK("valid_devices_negative_count", cudaSetValidDevices(list, -1));
	ASK("valid_devices_null", cudaSetValidDevices(NULL, 1));
	list[0] = 1000;
	ASK("valid_devices_many", cudaSetValidDevices(list, 1));
	ASK_VALUE("pci_id", cudaDeviceGetPCIBusId(text, sizeof text, 0), "length %zu", strnlen(text, sizeof text));
	ASK("pci_id_null", cudaDeviceGetPCIBusId(NULL, 13, 0));
	ASK("pci_id_len_5", cudaDeviceGetPCIBusId((char[64]){0}, 5, 0));
	ASK("pci_id_device_many", cudaDeviceGetPCIBusId((char[64]){0}, 13, 1000));
	ASK_VALUE("by_pci_id", cudaDeviceGetByPCIBusId(&value, text), "%d", value);
	ASK("by_pci_id_words", cudaDeviceGetByPCIBusId(&value, "not a bus id"));
	ASK("by_pci_id_null", cudaDeviceGetByPCIBusId(&value, NULL));
	ASK("by_pci_id_null_output", cudaDeviceGetByPCIBusId(NULL, text));
	ASK_VALUE("peer_of_itself", cudaDeviceCanAccessPeer(&value, 0, 0), "%d", value);
	ASK("peer_device_many", cudaDeviceCanAccessPeer(&value, 0, 1000));
	ASK("enable_peer_itself", cudaDeviceEnablePeerAccess(0, 0));
	ASK("enable_peer_many", cudaDeviceEnablePeerAccess(1000, 0));
	ASK("enable_peer_flags_1", cudaDeviceEnablePeerAccess(0, 1));
	ASK("disable_peer_itself", cudaDeviceDisablePeerAccess(0));
	ASK("disable_peer_many", cudaDeviceDisablePeerAccess(1000));
	ASK("p2p_attribute_itself", cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
	ASK("p2p_attribute_many", cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1000));
	int least = UNTOUCHED_INT, greatest = UNTOUCHED_INT;
	ASK_VALUE("priority_range", cudaDeviceGetStreamPriorityRange(&least, &greatest), "%d %d", least, greatest);
	ASK("priority_range_null", cudaDeviceGetStreamPriorityRange(NULL, NULL));
}

/* Fields of the properties beside the attributes they repeat. */
GROUP(properties)
{
	static struct cudaDeviceProp p;
	size_t total = 0;
	CUuuid uuid;
	char name[256];

	NEED(cudaGetDeviceProperties(&p, 0));
	const struct {
		const char *name;
		CUdevice_attribute attribute;
		long long value;
	} same[] = {
		{"warpSize", CU_DEVICE_ATTRIBUTE_WARP_SIZE, p.warpSize},
		{"maxThreadsPerBlock", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, p.maxThreadsPerBlock},
		{"maxThreadsDim_0", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, p.maxThreadsDim[0]},
		{"maxThreadsDim_2", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, p.maxThreadsDim[2]},
		{"maxGridSize_0", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, p.maxGridSize[0]},
		{"maxGridSize_1", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, p.maxGridSize[1]},
		{"sharedMemPerBlock", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, (long long)p.sharedMemPerBlock},
		{"memPitch", CU_DEVICE_ATTRIBUTE_MAX_PITCH, (long long)p.memPitch},
		{"totalConstMem", CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, (long long)p.totalConstMem},
		{"major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, p.major},
		{"minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, p.minor},
		{"multiProcessorCount", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, p.multiProcessorCount},
		{"canMapHostMemory", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, p.canMapHostMemory},
		{"concurrentKernels", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, p.concurrentKernels},
		{"pciBusID", CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, p.pciBusID},
		{"pciDeviceID", CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, p.pciDeviceID},
		{"pciDomainID", CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, p.pciDomainID},
		{"asyncEngineCount", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, p.asyncEngineCount},
		{"unifiedAddressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, p.unifiedAddressing},
		{"managedMemory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, p.managedMemory},
		{"concurrentManagedAccess", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, p.concurrentManagedAccess},
		{"pageableMemoryAccess", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, p.pageableMemoryAccess},
		{"hostRegisterSupported", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, p.hostRegisterSupported},
		{"memoryPoolsSupported", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, p.memoryPoolsSupported},
		{"memoryPoolSupportedHandleTypes", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
		 p.memoryPoolSupportedHandleTypes},
		{"ipcEventSupported", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, p.ipcEventSupported},
		{"streamPrioritiesSupported", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
		 p.streamPrioritiesSupported},
		{"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED, p.integrated},
		{"l2CacheSize", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, p.l2CacheSize},
	};
	for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
		int value = UNTOUCHED_INT;
		ASK_VALUE(ask_name("property_%s_is_its_attribute", same[i].name),
			  cuDeviceGetAttribute(&value, same[i].attribute, 0), "%s", ask_yes(value == same[i].value));
	}
	ASK_VALUE("property_totalGlobalMem", cuDeviceTotalMem(&total, 0), "%s", ask_yes(total == p.totalGlobalMem));
	ASK_VALUE("property_uuid", cuDeviceGetUuid(&uuid, 0), "%s", ask_yes(!memcmp(&uuid, &p.uuid, sizeof uuid)));
	ASK_VALUE("property_name", cuDeviceGetName(name, sizeof name, 0), "%s", ask_yes(!strcmp(name, p.name)));
}

GROUP(reset)
{
	void *memory = NULL;
	cudaStream_t stream = NULL;
	CUcontext current = NULL;

	NEED(cudaMalloc(&memory, 64));
	NEED(cudaStreamCreate(&stream));
	ASK("reset", cudaDeviceReset());
	state("after_reset");
	ASK("reset_current", cuCtxGetCurrent(&current));
	ASK("reset_again", cudaDeviceReset());
	ASK("reset_free_old", cudaFree(memory));
	ASK("reset_last", cudaGetLastError());
	ASK("reset_malloc", cudaMalloc(&memory, 64));
	state("after_reset_and_malloc");
	ASK("reset_stream_old", cudaStreamQuery(stream));
}

GROUP(memory)
{
	void *memory = UNTOUCHED(void *), *host = UNTOUCHED(void *), *page = aligned_alloc(4096, 8192);
	size_t pitch = UNTOUCHED_INT, free_bytes = 0, total = 0;
	unsigned int flags = UNTOUCHED_INT;

	ASK_VALUE("malloc_0", cudaMalloc(&memory, 0), "%s", OUT(memory));
	memory = UNTOUCHED(void *);
	ASK("malloc_null", cudaMalloc(NULL, 64));
	ASK("malloc_null_0", cudaMalloc(NULL, 0));
	ASK_VALUE("malloc_huge", cudaMalloc(&memory, (size_t)1 << 50), "%s", OUT(memory));
	ASK_VALUE("malloc", cudaMalloc(&memory, 100), "mod 512 %d", (int)((uintptr_t)memory % 512));
	ASK("free_interior", cudaFree((char *)memory + 1));
	ASK("free_garbage", cudaFree(GARBAGE(void *)));
	ASK("free_stack", cudaFree(&flags));
	ASK("free_by_free_host", cudaFreeHost(memory));
	ASK("free", cudaFree(memory));
	ASK("free_again", cudaFree(memory));
	ASK("free_again_last", cudaGetLastError());
	memory = UNTOUCHED(void *);
	ASK_VALUE("pitch", cudaMallocPitch(&memory, &pitch, 100, 3), "%zu", pitch);
	memory = UNTOUCHED(void *), pitch = UNTOUCHED_INT;
	ASK_VALUE("pitch_width_0", cudaMallocPitch(&memory, &pitch, 0, 3), "%s %zu", OUT(memory), pitch);
	memory = UNTOUCHED(void *), pitch = UNTOUCHED_INT;
	ASK_VALUE("pitch_height_0", cudaMallocPitch(&memory, &pitch, 100, 0), "%s %zu", OUT(memory), pitch);
	ASK("pitch_null", cudaMallocPitch(NULL, &pitch, 100, 3));
	ASK("pitch_null_pitch", cudaMallocPitch(&memory, NULL, 100, 3));
	ASK_VALUE("host_0", cudaMallocHost(&host, 0), "%s", OUT(host));
	host = UNTOUCHED(void *);
	ASK("host_null", cudaMallocHost(NULL, 64));
	ASK_VALUE("host", cudaMallocHost(&host, 64), "%s", OUT(host));
	ASK_VALUE("host_flags", cudaHostGetFlags(&flags, host), "%u", flags);
	ASK("host_free_by_free", cudaFree(host));
	ASK("host_free", cudaFreeHost(host));
	ASK("host_free_again", cudaFreeHost(host));
	ASK("host_free_null", cudaFreeHost(NULL));
	ASK("host_free_stack", cudaFreeHost(&flags));
	host = UNTOUCHED(void *);
	ASK_VALUE("host_alloc_flags_8", cudaHostAlloc(&host, 64, 8), "%s", OUT(host));
	ASK_VALUE("host_alloc_0", cudaHostAlloc(&host, 0, 0), "%s", OUT(host));
	ASK_VALUE("host_alloc_mapped", cudaHostAlloc(&host, 64, cudaHostAllocMapped), "%s", OUT(host));
	ASK_VALUE("host_alloc_mapped_flags", cudaHostGetFlags(&flags, host), "%u", flags);
	ASK_VALUE("host_pointer", cudaHostGetDevicePointer(&memory, host, 0), "%s", ask_yes(memory == host));
	ASK("host_pointer_flags_1", cudaHostGetDevicePointer(&memory, host, 1));
	ASK("host_pointer_stack", cudaHostGetDevicePointer(&memory, &flags, 0));
	ASK("host_pointer_null", cudaHostGetDevicePointer(&memory, NULL, 0));
	ASK("host_flags_stack", cudaHostGetFlags(&flags, &flags));
	ASK("register", cudaHostRegister(page, 4096, 0));
	ASK("register_again", cudaHostRegister(page, 4096, 0));
	ASK_VALUE("register_flags", cudaHostGetFlags(&flags, page), "%u", flags);
	ASK("register_0", cudaHostRegister((char *)page + 4096, 0, 0));
	ASK("register_null", cudaHostRegister(NULL, 4096, 0));
	ASK("register_flags_16", cudaHostRegister((char *)page + 4096, 4096, 16));
	ASK("register_free_host", cudaFreeHost(page));
	ASK("unregister", cudaHostUnregister(page));
	ASK("unregister_again", cudaHostUnregister(page));
	ASK("unregister_null", cudaHostUnregister(NULL));
	for (flags = 0; flags < 6; flags++) {
		memory = UNTOUCHED(void *);
		ASK_VALUE(ask_name("managed_flags_%u", flags), cudaMallocManaged(&memory, 64, flags), "%s",
			  OUT(memory));
	}
	memory = UNTOUCHED(void *);
	ASK_VALUE("managed_0", cudaMallocManaged(&memory, 0, cudaMemAttachGlobal), "%s", OUT(memory));
	ASK("managed_null", cudaMallocManaged(NULL, 64, cudaMemAttachGlobal));
	ASK_VALUE("info", cudaMemGetInfo(&free_bytes, &total), "%s", ask_yes(free_bytes && free_bytes <= total));
	ASK("info_null", cudaMemGetInfo(NULL, NULL));
	ASK("info_null_free", cudaMemGetInfo(NULL, &total));
}

static void *places[5];
static const char *const place_names[5] = {"device", "host", "managed", "malloced", "null"};

GROUP(copies)
{
	NEED(cudaMalloc(&places[0], 4096));
	NEED(cudaMallocHost(&places[1], 4096));
	NEED(cudaMallocManaged(&places[2], 4096, cudaMemAttachGlobal));
	places[3] = calloc(1, 4096);
	ask_guard();
	for (int kind = 0; kind <= 5; kind++) {
		for (int from = 0; from < 5; from++) {
			for (int to = 0; to < 5; to++) {
				char *target = places[to] ? (char *)places[to] + 64 : NULL;
				ASK(ask_name("memcpy_kind_%d_%s_to_%s", kind, place_names[from], place_names[to]),
				    cudaMemcpy(target, places[from], 16, (enum cudaMemcpyKind)kind));
			}
		}
	}
	ASK("memcpy_kind_negative", cudaMemcpy(places[0], places[1], 16, (enum cudaMemcpyKind) - 1));
	ASK("memcpy_0_null", cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
	ASK("memcpy_0_kind_9", cudaMemcpy(NULL, NULL, 0, (enum cudaMemcpyKind)9));
	ASK("copies_synchronize", cudaDeviceSynchronize());
}

GROUP(copies_async)
{
	cudaStream_t stream = NULL;

	NEED(cudaMalloc(&places[0], 4096));
	NEED(cudaMallocHost(&places[1], 4096));
	NEED(cudaMallocManaged(&places[2], 4096, cudaMemAttachGlobal));
	places[3] = calloc(1, 4096);
	ask_guard();
	NEED(cudaStreamCreate(&stream));
	for (int from = 0; from < 5; from++) {
		for (int to = 0; to < 5; to++) {
			char *target = places[to] ? (char *)places[to] + 64 : NULL;
			ASK(ask_name("memcpy_async_%s_to_%s", place_names[from], place_names[to]),
			    cudaMemcpyAsync(target, places[from], 16, cudaMemcpyDefault, stream));
		}
	}
	ASK("memcpy_async_kind_9", cudaMemcpyAsync(places[0], places[1], 16, (enum cudaMemcpyKind)9, stream));
	ASK("memset", cudaMemset(places[0], 1, 16));
	ASK("memset_0_null", cudaMemset(NULL, 1, 0));
	ASK("memset_null", cudaMemset(NULL, 1, 16));
	ASK("memset_host", cudaMemset(places[1], 1, 16));
	ASK("memset_malloced", cudaMemset(places[3], 1, 16));
	ASK("memset_value_is_a_byte", cudaMemset(places[0], 0x1ff, 4));
	SAY("memset_value", "%s", ask_device_bytes(DEVICE(places[0]), 8));
	ASK("memset_async", cudaMemsetAsync(places[0], 2, 16, stream));
	ASK("memset_async_legacy", cudaMemsetAsync(places[0], 2, 16, cudaStreamLegacy));
	ASK("memset_async_per_thread", cudaMemsetAsync(places[0], 2, 16, cudaStreamPerThread));
	ASK("memset_2d", cudaMemset2D(places[0], 64, 3, 16, 4));
	ASK("memset_2d_small_pitch", cudaMemset2D(places[0], 8, 3, 16, 4));
	ASK("memset_2d_width_0", cudaMemset2D(places[0], 64, 3, 0, 4));
	ASK("memset_2d_null", cudaMemset2D(NULL, 64, 3, 16, 4));
	ASK("memset_2d_async", cudaMemset2DAsync(places[0], 64, 3, 16, 4, stream));
	ASK("memcpy_2d", cudaMemcpy2D(places[1], 32, places[0], 64, 16, 4, cudaMemcpyDefault));
	SAY("memcpied_2d", "%s", ask_bytes(places[1], 40));
	ASK("memcpy_2d_small_to_pitch", cudaMemcpy2D(places[1], 8, places[0], 64, 16, 4, cudaMemcpyDefault));
	ASK("memcpy_2d_small_from_pitch", cudaMemcpy2D(places[1], 32, places[0], 8, 16, 4, cudaMemcpyDefault));
	ASK("memcpy_2d_width_0", cudaMemcpy2D(places[1], 32, places[0], 64, 0, 4, cudaMemcpyDefault));
	ASK("memcpy_2d_kind_9", cudaMemcpy2D(places[1], 32, places[0], 64, 16, 4, (enum cudaMemcpyKind)9));
	ASK("memcpy_2d_null", cudaMemcpy2D(NULL, 32, places[0], 64, 16, 4, cudaMemcpyDefault));
	ASK("memcpy_2d_host_to_device_swapped",
	    cudaMemcpy2D(places[1], 32, places[0], 64, 16, 4, cudaMemcpyHostToDevice));
	ASK("memcpy_2d_async", cudaMemcpy2DAsync(places[1], 32, places[0], 64, 16, 4, cudaMemcpyDefault, stream));
	ASK("memcpy_peer_itself", cudaMemcpyPeer(places[0], 0, (char *)places[0] + 64, 0, 16));
	ASK("memcpy_peer_many", cudaMemcpyPeer(places[0], 1000, (char *)places[0] + 64, 0, 16));
	ASK("memcpy_peer_async", cudaMemcpyPeerAsync(places[0], 0, (char *)places[0] + 64, 0, 16, stream));
	ASK("copies_async_synchronize", cudaDeviceSynchronize());
}

static void ask_pointer(const char *kind, void *pointer)
{
	struct cudaPointerAttributes found;

	memset(&found, 0x77, sizeof found);
	ASK_VALUE(ask_name("pointer_%s", kind), cudaPointerGetAttributes(&found, pointer),
		  "type %d device %d devicePointer %s hostPointer %s", (int)found.type, found.device,
		  !found.devicePointer             ? "NULL"
		  : found.devicePointer == pointer ? "it"
						   : "another",
		  !found.hostPointer             ? "NULL"
		  : found.hostPointer == pointer ? "it"
						 : "another");
}

GROUP(pointers)
{
	void *memory = NULL, *host = NULL, *managed = NULL, *page = aligned_alloc(4096, 4096);
	char pageable[64] = "";

	NEED(cudaMalloc(&memory, 64));
	NEED(cudaMallocHost(&host, 64));
	NEED(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
	ask_pointer("device", memory);
	ask_pointer("device_interior", (char *)memory + 8);
	ask_pointer("host", host);
	ask_pointer("managed", managed);
	ask_pointer("malloced", pageable);
	ask_pointer("null", NULL);
	ask_pointer("garbage", GARBAGE(void *));
	NEED(cudaHostRegister(page, 4096, 0));
	ask_pointer("registered", page);
	NEED(cudaHostUnregister(page));
	ask_pointer("unregistered", page);
	NEED(cudaFree(memory));
	ask_pointer("freed", memory);
	ASK("pointer_null_output", cudaPointerGetAttributes(NULL, memory));
	ASK("pointers_last", cudaGetLastError());
}

static void CUDART_CB on_callback(cudaStream_t stream, cudaError_t status, void *data)
{
	(void)stream;
	*(cudaError_t *)data = status;
}

static void CUDART_CB on_host(void *data)
{
	*(int *)data = 5;
}

GROUP(streams)
{
	cudaStream_t stream = UNTOUCHED(cudaStream_t);
	cudaEvent_t event = NULL;
	cudaError_t status = cudaErrorUnknown;
	enum cudaStreamCaptureStatus capture = (enum cudaStreamCaptureStatus)UNTOUCHED_INT;
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	unsigned int flags = UNTOUCHED_INT;
	unsigned long long id = 0, other = 0;
	int value = UNTOUCHED_INT;

	NEED(cudaFree(NULL));
	ASK("stream_create_null", cudaStreamCreate(NULL));
	ASK_VALUE("stream_create_flags_2", cudaStreamCreateWithFlags(&stream, 2), "%s", OUT(stream));
	ASK_VALUE("stream_create", cudaStreamCreate(&stream), "%s", OUT(stream));
	ASK_VALUE("stream_flags", cudaStreamGetFlags(stream, &flags), "%u", flags);
	ASK("stream_flags_null_output", cudaStreamGetFlags(stream, NULL));
	ASK_VALUE("stream_flags_null", cudaStreamGetFlags(NULL, &flags), "%u", flags);
	ASK_VALUE("stream_flags_legacy", cudaStreamGetFlags(cudaStreamLegacy, &flags), "%u", flags);
	ASK_VALUE("stream_flags_per_thread", cudaStreamGetFlags(cudaStreamPerThread, &flags), "%u", flags);
	ASK_VALUE("stream_priority", cudaStreamGetPriority(stream, &value), "%d", value);
	ASK_VALUE("stream_device", cudaStreamGetDevice(stream, &value), "%d", value);
	ASK("stream_id", cudaStreamGetId(stream, &id));
	NEED(cuStreamGetId(stream, &other));
	SAY("stream_id_is_the_drivers", "%s", ask_yes(id == other));
	ASK_VALUE("stream_capturing", cudaStreamIsCapturing(stream, &capture), "%d", (int)capture);
	ASK("stream_capturing_null", cudaStreamIsCapturing(stream, NULL));
	ASK_VALUE("stream_capturing_legacy", cudaStreamIsCapturing(NULL, &capture), "%d", (int)capture);
	ASK("stream_capture_info", cudaStreamGetCaptureInfo(stream, &capture, &id, NULL, NULL, NULL, NULL));
	ASK_VALUE("exchange_mode", cudaThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	ASK("exchange_mode_null", cudaThreadExchangeStreamCaptureMode(NULL));
	ASK("stream_query_null", cudaStreamQuery(NULL));
	ASK("stream_synchronize_null", cudaStreamSynchronize(NULL));
	ASK("stream_synchronize_per_thread", cudaStreamSynchronize(cudaStreamPerThread));
	ASK("callback", cudaStreamAddCallback(stream, on_callback, &status, 0));
	NEED(cudaStreamSynchronize(stream));
	SAY("callback_status", "%s", ask_runtime_code(status));
	ASK("callback_null", cudaStreamAddCallback(stream, NULL, NULL, 0));
	ASK("callback_flags_1", cudaStreamAddCallback(stream, on_callback, &status, 1));
	ASK("host_func", cudaLaunchHostFunc(stream, on_host, &value));
	NEED(cudaStreamSynchronize(stream));
	SAY("host_func_ran", "%d", value);
	ASK("host_func_null", cudaLaunchHostFunc(stream, NULL, NULL));
	NEED(cudaEventCreate(&event));
	ASK("wait_event_fresh", cudaStreamWaitEvent(stream, event, 0));
	ASK("wait_event_null", cudaStreamWaitEvent(stream, NULL, 0));
	ASK("wait_event_flags_2", cudaStreamWaitEvent(stream, event, 2));
	ASK("stream_destroy", cudaStreamDestroy(stream));
	ASK("stream_destroy_null", cudaStreamDestroy(NULL));
	ASK("stream_destroy_legacy", cudaStreamDestroy(cudaStreamLegacy));
	ASK("stream_destroy_again", cudaStreamDestroy(stream));
	ASK("stream_query_destroyed", cudaStreamQuery(stream));
	ASK("stream_query_garbage", cudaStreamQuery(GARBAGE(cudaStream_t)));
}

GROUP(events)
{
	cudaEvent_t event = UNTOUCHED(cudaEvent_t), quiet = NULL, fresh = NULL;
	float ms = UNTOUCHED_INT;

	NEED(cudaFree(NULL));
	ASK("event_create_null", cudaEventCreate(NULL));
	for (unsigned int flags = 0; flags <= 8; flags++) {
		event = UNTOUCHED(cudaEvent_t);
		ASK_VALUE(ask_name("event_create_flags_%u", flags), cudaEventCreateWithFlags(&event, flags), "%s",
			  OUT(event));
	}
	NEED(cudaEventCreate(&event));
	NEED(cudaEventCreate(&fresh));
	NEED(cudaEventCreateWithFlags(&quiet, cudaEventDisableTiming));
	ASK("event_query_fresh", cudaEventQuery(event));
	ASK("event_synchronize_fresh", cudaEventSynchronize(event));
	ASK("event_record", cudaEventRecord(event, NULL));
	ASK("event_record_flags_2", cudaEventRecordWithFlags(event, NULL, 2));
	ASK("event_record_flags_1", cudaEventRecordWithFlags(event, NULL, cudaEventRecordExternal));
	ASK("event_record_null", cudaEventRecord(NULL, NULL));
	NEED(cudaEventRecord(quiet, NULL));
	NEED(cudaDeviceSynchronize());
	ASK_VALUE("event_elapsed", cudaEventElapsedTime(&ms, event, event), "%g", ms);
	ms = UNTOUCHED_INT;
	ASK_VALUE("event_elapsed_quiet", cudaEventElapsedTime(&ms, event, quiet), "%g", ms);
	ASK_VALUE("event_elapsed_fresh", cudaEventElapsedTime(&ms, event, fresh), "%g", ms);
	ASK("event_elapsed_null_output", cudaEventElapsedTime(NULL, event, event));
	ASK("event_elapsed_null", cudaEventElapsedTime(&ms, NULL, event));
	ASK("event_query_null", cudaEventQuery(NULL));
	ASK("event_synchronize_null", cudaEventSynchronize(NULL));
	ASK("event_destroy_null", cudaEventDestroy(NULL));
	ASK("event_destroy", cudaEventDestroy(event));
	ASK("event_destroy_again", cudaEventDestroy(event));
	ASK("event_query_destroyed", cudaEventQuery(event));
	ASK("event_query_garbage", cudaEventQuery(GARBAGE(cudaEvent_t)));
}

static void no_kernel(void)
{
}

GROUP(launch)
{
	struct cudaFuncAttributes attributes;
	dim3 one = {1, 1, 1}, zero = {0, 1, 1};
	cudaLaunchConfig_t config;
	void *params[1] = {NULL};

	memset(&config, 0, sizeof config);
	config.gridDim = config.blockDim = one;
	NEED(cudaFree(NULL));
	ASK("launch_null", cudaLaunchKernel(NULL, one, one, params, 0, NULL));
	ASK("launch_null_last", cudaGetLastError());
	ASK("launch_no_kernel", cudaLaunchKernel((const void *)no_kernel, one, one, params, 0, NULL));
	ASK("launch_no_kernel_last", cudaGetLastError());
	ASK("launch_no_kernel_grid_0", cudaLaunchKernel((const void *)no_kernel, zero, one, params, 0, NULL));
	ASK("launch_no_kernel_block_0", cudaLaunchKernel((const void *)no_kernel, one, zero, params, 0, NULL));
	ASK("launch_zeros", cudaLaunchKernel(ask_zeros, one, one, params, 0, NULL));
	ASK("launch_garbage", cudaLaunchKernel(GARBAGE(void *), one, one, params, 0, NULL));
	ASK("launch_ex_null_config", cudaLaunchKernelExC(NULL, (const void *)no_kernel, params));
	ASK("launch_ex_no_kernel", cudaLaunchKernelExC(&config, (const void *)no_kernel, params));
	ASK("func_attributes_no_kernel", cudaFuncGetAttributes(&attributes, (const void *)no_kernel));
	ASK("func_attributes_null", cudaFuncGetAttributes(NULL, (const void *)no_kernel));
	ASK("func_attributes_null_function", cudaFuncGetAttributes(&attributes, NULL));
	ASK("func_set_attribute_no_kernel",
	    cudaFuncSetAttribute((const void *)no_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 0));
	ASK("func_set_attribute_null", cudaFuncSetAttribute(NULL, cudaFuncAttributeMaxDynamicSharedMemorySize, 0));
}

static struct cudaMemLocation location(enum cudaMemLocationType type, int id)
{
	struct cudaMemLocation place;

	memset(&place, 0, sizeof place);
	place.type = type;
	place.id = id;
	return place;
}

GROUP(advice)
{
	struct cudaMemLocation device = location(cudaMemLocationTypeDevice, 0);
	void *managed = NULL, *plain = NULL;
	int value = UNTOUCHED_INT;

	NEED(cudaMallocManaged(&managed, 1 << 20, cudaMemAttachGlobal));
	NEED(cudaMalloc(&plain, 1 << 20));
	ASK("advise", cudaMemAdvise(managed, 1 << 20, cudaMemAdviseSetReadMostly, device));
	ASK_VALUE("range_attribute",
		  cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, managed, 1 << 20), "%d", value);
	ASK("advise_device_memory", cudaMemAdvise(plain, 1 << 20, cudaMemAdviseSetReadMostly, device));
	ASK("advise_0", cudaMemAdvise(managed, 0, cudaMemAdviseSetReadMostly, device));
	ASK("advise_99", cudaMemAdvise(managed, 1 << 20, (enum cudaMemoryAdvise)99, device));
	ASK("advise_device_many", cudaMemAdvise(managed, 1 << 20, cudaMemAdviseSetPreferredLocation,
						location(cudaMemLocationTypeDevice, 99)));
	ASK("prefetch", cudaMemPrefetchAsync(managed, 1 << 20, device, 0, NULL));
	ASK("prefetch_device_memory", cudaMemPrefetchAsync(plain, 1 << 20, device, 0, NULL));
	ASK("prefetch_flags_1", cudaMemPrefetchAsync(managed, 1 << 20, device, 1, NULL));
	ASK("range_attribute_size_2",
	    cudaMemRangeGetAttribute(&value, 2, cudaMemRangeAttributeReadMostly, managed, 1 << 20));
	ASK("range_attribute_null",
	    cudaMemRangeGetAttribute(NULL, 4, cudaMemRangeAttributeReadMostly, managed, 1 << 20));

	int values[2] = {UNTOUCHED_INT, UNTOUCHED_INT};
	void *data[] = {&values[0], &values[1]};
	size_t sizes[] = {sizeof values[0], sizeof values[1]};
	enum cudaMemRangeAttribute both[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributePreferredLocation};
	enum cudaMemRangeAttribute unknown[] = {cudaMemRangeAttributeReadMostly, (enum cudaMemRangeAttribute)99};
	ASK_VALUE("range_attributes", cudaMemRangeGetAttributes(data, sizes, both, 2, managed, 1 << 20), "%d %d",
		  values[0], values[1]);
	ASK("range_attributes_none", cudaMemRangeGetAttributes(data, sizes, both, 0, managed, 1 << 20));
	ASK("range_attributes_null_data", cudaMemRangeGetAttributes(NULL, sizes, both, 2, managed, 1 << 20));
	ASK("range_attributes_null_sizes", cudaMemRangeGetAttributes(data, NULL, both, 2, managed, 1 << 20));
	ASK("range_attributes_null_attributes", cudaMemRangeGetAttributes(data, sizes, NULL, 2, managed, 1 << 20));
	ASK("range_attributes_unknown", cudaMemRangeGetAttributes(data, sizes, unknown, 2, managed, 1 << 20));
	ASK("range_attributes_0_bytes", cudaMemRangeGetAttributes(data, sizes, both, 2, managed, 0));
	ASK("range_attributes_device_memory", cudaMemRangeGetAttributes(data, sizes, both, 2, plain, 1 << 20));
	ASK("range_attributes_null_memory", cudaMemRangeGetAttributes(data, sizes, both, 2, NULL, 1 << 20));
	ASK("range_attributes_last_error", cudaGetLastError());
}

GROUP(priorities)
{
	static const int tried[] = {0, -1, -5, -6, -100, 1, 100};
	cudaStream_t stream = UNTOUCHED(cudaStream_t);

	ASK("priority_null", cudaStreamCreateWithPriority(NULL, cudaStreamDefault, 0));
	ASK_VALUE("priority_flags_2", cudaStreamCreateWithPriority(&stream, 2, 0), "%s", OUT(stream));
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		int priority = UNTOUCHED_INT;
		unsigned int flags = 0;
		ASK(ask_name("priority_%d", tried[i]),
		    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, tried[i]));
		ASK_VALUE(ask_name("priority_%d_got", tried[i]), cudaStreamGetPriority(stream, &priority), "%d",
			  priority);
		ASK_VALUE(ask_name("priority_%d_flags", tried[i]), cudaStreamGetFlags(stream, &flags), "%u", flags);
		ASK(ask_name("priority_%d_destroy", tried[i]), cudaStreamDestroy(stream));
	}
	NEED(cudaDeviceSynchronize());
	ASK("priority_last_error", cudaGetLastError());
}
