/* SPDX-License-Identifier: MIT */
/*
 * Chapter "ipc_memory": memory that leaves the process as 64 bytes: getting a handle, opening it, closing it.
 */
#define _GNU_SOURCE
#include "ipc_memory.h"

CHAPTER(ipc_memory);

GROUP(get_arguments)
{
	static const size_t offsets[] = {1, 255, 256, 512, 4096, 65536, MIB, 2 * MIB, BYTES / 2 + 1, BYTES - 1};
	CUipcMemHandle base, handle;

	ask_context();
	CUdeviceptr at = memory_of(BYTES, 1);
	ASK("get", cuIpcGetMemHandle(&base, at));
	ASK("get_null", cuIpcGetMemHandle(NULL, at));
	ASK("get_null_of_null", cuIpcGetMemHandle(NULL, 0));
	handle = untouched_handle();
	ASK_VALUE("get_again", cuIpcGetMemHandle(&handle, at), "same bytes %s", ask_yes(same(&base, &handle)));
	for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
		handle = untouched_handle();
		ASK_VALUE(ask_name("get_at_%zu", offsets[i]), cuIpcGetMemHandle(&handle, at + offsets[i]),
			  "%s same as base %s", handle_is(&handle), ask_yes(same(&base, &handle)));
	}
	const struct {
		const char *name;
		CUdeviceptr at;
	} wrong[] = {
		{"null", 0},
		{"small", SMALL(CUdeviceptr)},
		{"garbage", GARBAGE(CUdeviceptr)},
		{"host_static", ZEROS(CUdeviceptr)},
		{"host_stack", (CUdeviceptr)(uintptr_t)&handle},
		{"past_end", at + BYTES},
		{"far_past_end", at + 1024 * GIB},
		{"ones", ~(CUdeviceptr)0},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		handle = untouched_handle();
		ASK_VALUE(ask_name("get_of_%s", wrong[i].name), cuIpcGetMemHandle(&handle, wrong[i].at), "%s, after %s",
			  handle_is(&handle), code_of((int)cuCtxSynchronize()));
	}
	handle = untouched_handle();
	ASK_VALUE("get_after_failures", cuIpcGetMemHandle(&handle, at), "same bytes %s", ask_yes(same(&base, &handle)));
	SAY("get_left_contents", "%s", vmm_bytes(at, 8));
	ASK("get_then_free", cuMemFree(at));
	handle = untouched_handle();
	ASK_VALUE("get_of_freed", cuIpcGetMemHandle(&handle, at), "%s", handle_is(&handle));
}

static CUresult make_virtual(int handle_types, CUdeviceptr *ret_at)
{
	CUdeviceptr at = vmm_reserve(1);

	vmm_map(at, 1, vmm_create_as(1, vmm_properties(DEVICE, 0, handle_types)), WRITE);
	*ret_at = at;
	return CUDA_SUCCESS;
}

static CUresult make_of_pool(int location, int handle_types, CUdeviceptr *ret_at)
{
	CUmemPoolProps properties = pool_properties(PINNED, location, 0);
	CUmemoryPool pool = NULL;

	properties.handleTypes = (CUmemAllocationHandleType)handle_types;
	CUresult result = cuMemPoolCreate(&pool, &properties);
	if (!result)
		result = cuMemAllocFromPoolAsync(ret_at, 4096, pool, NULL);
	return result ? result : cuCtxSynchronize();
}

static CUresult make_host(unsigned int flags, CUdeviceptr *ret_at)
{
	void *memory = NULL;
	CUresult result = cuMemHostAlloc(&memory, 4096, flags);

	*ret_at = (CUdeviceptr)(uintptr_t)memory;
	return result;
}

enum kind {
	ONE_BYTE,
	LARGE,
	PITCH,
	RUNTIME,
	DEFAULT_POOL,
	POOL,
	POSIX_POOL,
	NUMA_POOL,
	VIRTUAL,
	POSIX_VIRTUAL,
	RESERVED_ONLY,
	MANAGED_GLOBAL,
	MANAGED_HOST,
	PINNED_HOST,
	MAPPED_HOST,
	COMBINED_HOST,
	REGISTERED_HOST,
	PLAIN_HOST,
	KIND_COUNT,
};
static const char *const kind_names[] = {
	"one_byte",     "large",       "pitch",       "runtime",       "default_pool",    "pool",
	"posix_pool",   "numa_pool",   "virtual",     "posix_virtual", "reserved",        "managed_global",
	"managed_host", "pinned_host", "mapped_host", "combined_host", "registered_host", "plain_host",
};

static CUresult make_kind(enum kind kind, CUdeviceptr *ret_at)
{
	size_t pitch = 0;
	void *memory = NULL;

	switch (kind) {
	case ONE_BYTE: return cuMemAlloc(ret_at, 1);
	case LARGE: return cuMemAlloc(ret_at, BYTES);
	case PITCH: return cuMemAllocPitch(ret_at, &pitch, 100, 100, 4);
	case RUNTIME:
		if (cudaMalloc(&memory, 4096))
			return CUDA_ERROR_OUT_OF_MEMORY;
		break;
	case DEFAULT_POOL: return cuMemAllocAsync(ret_at, 4096, NULL);
	case POOL: return make_of_pool(DEVICE, 0, ret_at);
	case POSIX_POOL: return make_of_pool(DEVICE, POSIX, ret_at);
	case NUMA_POOL: return make_of_pool(NUMA, 0, ret_at);
	case VIRTUAL: return make_virtual(0, ret_at);
	case POSIX_VIRTUAL: return make_virtual(POSIX, ret_at);
	case RESERVED_ONLY: return cuMemAddressReserve(ret_at, grain, 0, 0, 0);
	case MANAGED_GLOBAL: return cuMemAllocManaged(ret_at, 4096, CU_MEM_ATTACH_GLOBAL);
	case MANAGED_HOST: return cuMemAllocManaged(ret_at, 4096, CU_MEM_ATTACH_HOST);
	case PINNED_HOST: return make_host(0, ret_at);
	case MAPPED_HOST: return make_host(CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE, ret_at);
	case COMBINED_HOST: return make_host(CU_MEMHOSTALLOC_WRITECOMBINED, ret_at);
	case REGISTERED_HOST:
		memory = aligned_alloc(4096, 4096);
		if (cuMemHostRegister(memory, 4096, CU_MEMHOSTREGISTER_DEVICEMAP))
			return CUDA_ERROR_OUT_OF_MEMORY;
		break;
	default: memory = aligned_alloc(4096, 4096); break;
	}
	*ret_at = (CUdeviceptr)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

/* Which memory can leave so, and does its attribute say the same? */
GROUP(kinds)
{
	vmm_setup();
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		CUdeviceptr at = 0;
		unsigned int capable = UNTOUCHED_INT;
		CUipcMemHandle handle = untouched_handle();
		const char *name = kind_names[kind];
		ASK(ask_name("kind_%s", name), make_kind((enum kind)kind, &at));
		ASK_VALUE(ask_name("kind_%s_capable", name),
			  cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at), "%u",
			  capable & 0xff);
		ASK_VALUE(ask_name("kind_%s_get", name), cuIpcGetMemHandle(&handle, at), "%s", handle_is(&handle));
		ASK(ask_name("kind_%s_close", name), cuIpcCloseMemHandle(at));
	}
	ASK("kinds_then", cuCtxSynchronize());
}

/* The handle of what lies at an address is not the handle of what lay there. */
GROUP(old_address)
{
	struct peer peer = exporter_start();
	CUdeviceptr at = 0;

	ask_context();
	CUipcMemHandle old = handle_of(&peer);
	int again = order(&peer, 'n');
	CUipcMemHandle new = handle_of(&peer);
	SAY("new_memory_at_old_address", "%s", ask_yes(again));
	SAY("new_handle_at_old_address_differs", "%s", ask_yes(!same(&old, &new)));
	try_open("open_old_handle", old, LAZY);
	ASK("open_new_handle", cuIpcOpenMemHandle(&at, new, LAZY));
	SAY("bytes_of_new_handle", "%s", vmm_bytes(at, 4));
	try_open("open_old_handle_beside_new", old, LAZY);
	SAY("bytes_of_new_handle_still", "%s", vmm_bytes(at, 4));
	peer_kill(&peer);
}

/* What an old handle gives while nothing lies at its address, and something else. */
GROUP(old_handle)
{
	struct peer peer = exporter_start();

	ask_context();
	CUipcMemHandle old = handle_of(&peer);
	try_open("open_before_exporter_freed", old, LAZY);
	SAY("free_at_exporter", "%s", code_of(order(&peer, 'd')));
	try_open("open_after_exporter_freed", old, LAZY);
	note->bytes = BYTES;
	order(&peer, 's');
	try_open("open_after_exporter_freed_and_made_new", old, LAZY);
	try_open("open_new_after_refusals", handle_of(&peer), LAZY);
	peer_kill(&peer);
}

GROUP(open_flags)
{
	static const unsigned int flags[] = {0, 1, 2, 3, 4, 8, 0x100, 0x80000000u, 0x80000001u, ~0u};
	struct peer peer = exporter_start();

	ask_context();
	CUipcMemHandle handle = handle_of(&peer), zero, ones;
	memset(&zero, 0, sizeof zero);
	memset(&ones, 0xff, sizeof ones);
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		try_open(ask_name("open_flags_%x", flags[i]), handle, flags[i]);
	ASK("open_null", cuIpcOpenMemHandle(NULL, handle, LAZY));
	ASK("open_null_flags_0", cuIpcOpenMemHandle(NULL, handle, 0));
	try_open("open_zeros", zero, LAZY);
	try_open("open_zeros_flags_0", zero, 0);
	try_open("open_zeros_flags_2", zero, 2);
	try_open("open_ones", ones, LAZY);
	try_open("open_after_refusals", handle, LAZY);
	peer_kill(&peer);
}

GROUP(open_at_home)
{
	CUipcMemHandle handle;
	CUdeviceptr opened = UNTOUCHED(CUdeviceptr);

	ask_context();
	CUdeviceptr at = memory_of(BYTES, 2);
	NEED(cuIpcGetMemHandle(&handle, at));
	ASK_VALUE("home_open", cuIpcOpenMemHandle(&opened, handle, LAZY), "%s same %s", OUT(opened),
		  ask_yes(opened == at));
	ASK("home_open_flags_0", cuIpcOpenMemHandle(&opened, handle, 0));
	ASK("home_open_null", cuIpcOpenMemHandle(NULL, handle, LAZY));
	ASK_VALUE("home_close", cuIpcCloseMemHandle(at), "bytes %s", vmm_bytes(at, 4));
	CUcontext other = ask_context();
	ASK("home_open_other_context", cuIpcOpenMemHandle(&opened, handle, LAZY));
	NEED(cuCtxDestroy(other));
	SAY("home_bytes", "%s", vmm_bytes(at, 4));
	ASK("home_free", cuMemFree(at));
	ASK("home_open_freed", cuIpcOpenMemHandle(&opened, handle, LAZY));
}

/* One bit of each byte is wrong: which bytes does the driver look at? */
static void flips(size_t first)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUipcMemHandle handle = handle_of(&peer);
	for (size_t i = first; i < first + 16; i++) {
		CUipcMemHandle wrong = handle;
		wrong.reserved[i] = (char)(wrong.reserved[i] ^ (1 << i % 8));
		try_open(ask_name("open_flipped_byte_%zu", i), wrong, LAZY);
	}
	try_open(ask_name("open_after_flips_from_%zu", first), handle, LAZY);
	peer_kill(&peer);
}

GROUP(flips_0)
{
	flips(0);
}

GROUP(flips_16)
{
	flips(16);
}

GROUP(flips_32)
{
	flips(32);
}

GROUP(flips_48)
{
	flips(48);
}

/* The bytes of something else. */
GROUP(other_bytes)
{
	struct peer peer = exporter_start();
	CUipcEventHandle of_event;
	CUipcMemHandle wrong;
	CUevent event = NULL;

	ask_context();
	CUipcMemHandle handle = handle_of(&peer);
	NEED(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	memset(&of_event, 0, sizeof of_event);
	ASK("event_handle", cuIpcGetEventHandle(&of_event, event));
	memcpy(&wrong, &of_event, sizeof wrong);
	try_open("open_event_handle", wrong, LAZY);
	memcpy(wrong.reserved, handle.reserved + 1, sizeof wrong.reserved - 1);
	try_open("open_shifted", wrong, LAZY);
	memset(&wrong, 0, sizeof wrong);
	memcpy(&wrong, &handle, sizeof wrong / 2);
	try_open("open_first_half", wrong, LAZY);
	for (size_t i = 0; i < sizeof wrong; i++)
		wrong.reserved[i] = (char)~handle.reserved[i];
	try_open("open_inverted", wrong, LAZY);
	memcpy(&of_event, &handle, sizeof of_event);
	ASK("open_memory_as_event", cuIpcOpenEventHandle(&event, of_event));
	try_open("open_after_other_bytes", handle, LAZY);
	peer_kill(&peer);
}

GROUP(open_again)
{
	struct peer peer = exporter_start();
	CUdeviceptr first = 0, second = 0, third = 0;

	ask_context();
	CUipcMemHandle handle = handle_of(&peer);
	ASK("open_first", cuIpcOpenMemHandle(&first, handle, LAZY));
	ASK_VALUE("open_second", cuIpcOpenMemHandle(&second, handle, LAZY), "same %s", ask_yes(first == second));
	handle = handle_of(&peer);
	ASK_VALUE("open_handle_got_again", cuIpcOpenMemHandle(&third, handle, LAZY), "same %s",
		  ask_yes(first == third));
	ASK_VALUE("open_again_flags_0", cuIpcOpenMemHandle(&third, handle, 0), "same %s", ask_yes(first == third));
	ASK_VALUE("close_one_of_three", cuIpcCloseMemHandle(first), "bytes %s", vmm_bytes(first, 4));
	ASK_VALUE("close_two_of_three", cuIpcCloseMemHandle(first), "bytes %s", vmm_bytes(first, 4));
	ASK("fill_before_last_close", fill(first, 0xb1, 16));
	ASK("close_three_of_three", cuIpcCloseMemHandle(first));
	SAY("bytes_after_last_close", "%s", vmm_bytes(first, 4));
	ASK("close_four_of_three", cuIpcCloseMemHandle(first));
	ASK("fill_after_last_close", cuMemsetD8(first, 0xb2, 16));
	SAY("byte_at_peer_after_last_close", "%02x", (unsigned)order(&peer, 'b'));
	ASK("open_after_last_close", cuIpcOpenMemHandle(&first, handle, LAZY));
	SAY("bytes_after_open_again", "%s", vmm_bytes(first, 4));
	ASK("close_after_open_again", cuIpcCloseMemHandle(first));
	peer_kill(&peer);
}

/* A hundred references. */
GROUP(open_many)
{
	enum { MANY = 100 };
	struct peer peer = exporter_start();
	CUdeviceptr first = 0, at = 0;
	int good = 0, equal = 0;

	ask_context();
	CUipcMemHandle handle = handle_of(&peer);
	NEED(cuIpcOpenMemHandle(&first, handle, LAZY));
	for (int i = 0; i < MANY; i++) {
		good += !cuIpcOpenMemHandle(&at, handle, LAZY);
		equal += at == first;
	}
	SAY("many_opens", "%d of %d, same %d", good, (int)MANY, equal);
	good = 0;
	for (int i = 0; i < MANY; i++)
		good += !cuIpcCloseMemHandle(first);
	SAY("many_closes", "%d, bytes %s", good, vmm_bytes(first, 4));
	ASK("many_last_close", cuIpcCloseMemHandle(first));
	ASK("many_close_too_often", cuIpcCloseMemHandle(first));
	peer_kill(&peer);
}

GROUP(close_arguments)
{
	struct peer peer = exporter_start();

	ask_context();
	ASK("close_null_first", cuIpcCloseMemHandle(0));
	ASK("close_garbage_first", cuIpcCloseMemHandle(GARBAGE(CUdeviceptr)));
	CUdeviceptr at = opened_from(&peer), own = memory_of(BYTES, 3), exported = memory_of(4096, 4);
	CUipcMemHandle handle;
	NEED(cuIpcGetMemHandle(&handle, exported));
	const struct {
		const char *name;
		CUdeviceptr at;
	} wrong[] = {
		{"null", 0},
		{"small", SMALL(CUdeviceptr)},
		{"garbage", GARBAGE(CUdeviceptr)},
		{"host", ZEROS(CUdeviceptr)},
		{"own", own},
		{"exported", exported},
		{"interior_1", at + 1},
		{"interior_512", at + 512},
		{"interior_2_mib", at + 2 * MIB},
		{"last_byte", at + BYTES - 1},
		{"past_end", at + BYTES},
		{"ones", ~(CUdeviceptr)0},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		ASK_VALUE(ask_name("close_%s", wrong[i].name), cuIpcCloseMemHandle(wrong[i].at), "bytes %s %s",
			  vmm_bytes(at, 4), vmm_bytes(own, 4));
	}
	ASK("close_right", cuIpcCloseMemHandle(at));
	ASK("close_right_again", cuIpcCloseMemHandle(at));
	ASK("free_own_after_closes", cuMemFree(own));
	ASK("free_exported_after_closes", cuMemFree(exported));
	peer_kill(&peer);
}

/* Every way to free that is not the right one. */
static const char *const free_names[] = {"free",      "free_interior", "free_async",
					 "free_host", "runtime_free",  "unregister"};

static CUresult free_wrongly(int way, CUdeviceptr at)
{
	switch (way) {
	case 0: return cuMemFree(at);
	case 1: return cuMemFree(at + 512);
	case 2: return cuMemFreeAsync(at, NULL);
	case 3: return cuMemFreeHost((void *)(uintptr_t)at);
	case 4: return (CUresult)cudaFree((void *)(uintptr_t)at);
	default: return cuMemHostUnregister((void *)(uintptr_t)at);
	}
}

static void frees(int first, int last)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer);
	for (int way = first; way <= last; way++) {
		ASK_VALUE(ask_name("opened_%s", free_names[way]), free_wrongly(way, at), "bytes %s", vmm_bytes(at, 4));
		SAY(ask_name("byte_at_peer_after_%s", free_names[way]), "%02x", (unsigned)order(&peer, 'b'));
	}
	ASK(ask_name("close_after_%s", free_names[last]), cuIpcCloseMemHandle(at));
	try_open(ask_name("open_after_%s", free_names[last]), handle_of(&peer), LAZY);
	peer_kill(&peer);
}

GROUP(free_of_opened)
{
	frees(0, 0);
}

GROUP(other_frees_of_opened)
{
	frees(1, 3);
}

GROUP(runtime_free_of_opened)
{
	frees(4, 5);
}

/* A call of the runtime, and what it leaves as the last error. */
#define ASK_LAST(question, call) ASK_VALUE(question, call, "last %s", CODE(cudaGetLastError()))

static cudaIpcMemHandle_t runtime_form(CUipcMemHandle handle)
{
	cudaIpcMemHandle_t form;

	memcpy(&form, &handle, sizeof form);
	return form;
}

GROUP(runtime_get)
{
	CUipcMemHandle handle;
	cudaIpcMemHandle_t form, again;
	void *memory = NULL, *managed = NULL, *host = NULL, *of_pool = NULL;

	ASK_LAST("runtime_get_null_first", cudaIpcGetMemHandle(NULL, NULL));
	NEED(cudaMalloc(&memory, BYTES));
	NEED(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
	NEED(cudaMallocHost(&host, 4096));
	NEED(cudaMallocAsync(&of_pool, 4096, NULL));
	memset(&form, 0x77, sizeof form);
	ASK_LAST("runtime_get", cudaIpcGetMemHandle(&form, memory));
	ASK_VALUE("runtime_get_as_driver", cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)memory), "same %s",
		  ask_yes(memcmp(&form, &handle, sizeof form) == 0));
	ASK_LAST("runtime_get_null", cudaIpcGetMemHandle(NULL, memory));
	ASK_LAST("runtime_get_of_null", cudaIpcGetMemHandle(&form, NULL));
	memset(&again, 0x77, sizeof again);
	ASK_VALUE("runtime_get_interior", cudaIpcGetMemHandle(&again, (char *)memory + 512), "same %s",
		  ask_yes(memcmp(&form, &again, sizeof form) == 0));
	ASK_LAST("runtime_get_of_managed", cudaIpcGetMemHandle(&again, managed));
	ASK_LAST("runtime_get_of_host", cudaIpcGetMemHandle(&again, host));
	ASK_LAST("runtime_get_of_pool", cudaIpcGetMemHandle(&again, of_pool));
	ASK_LAST("runtime_get_of_static", cudaIpcGetMemHandle(&again, ask_zeros));
	ASK_LAST("runtime_get_of_garbage", cudaIpcGetMemHandle(&again, GARBAGE(void *)));
	NEED(cudaFree(memory));
	ASK_LAST("runtime_get_of_freed", cudaIpcGetMemHandle(&again, memory));
}

GROUP(runtime_open)
{
	static const unsigned int flags[] = {0, 1, 2, 3, 0x80000000u, ~0u};
	struct peer peer = exporter_start();
	cudaIpcMemHandle_t zero;
	void *at = NULL, *own = NULL;

	memset(&zero, 0, sizeof zero);
	cudaIpcMemHandle_t form = runtime_form(handle_of(&peer));
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		at = UNTOUCHED(void *);
		ASK_VALUE(ask_name("runtime_open_flags_%x", flags[i]), cudaIpcOpenMemHandle(&at, form, flags[i]),
			  "%s last %s", OUT(at), CODE(cudaGetLastError()));
		if (at && at != UNTOUCHED(void *))
			ASK_LAST(ask_name("runtime_close_flags_%x", flags[i]), cudaIpcCloseMemHandle(at));
	}
	ASK_LAST("runtime_open_null", cudaIpcOpenMemHandle(NULL, form, cudaIpcMemLazyEnablePeerAccess));
	ASK_LAST("runtime_open_zeros", cudaIpcOpenMemHandle(&at, zero, cudaIpcMemLazyEnablePeerAccess));
	memset(&zero, 0xff, sizeof zero);
	ASK_LAST("runtime_open_ones", cudaIpcOpenMemHandle(&at, zero, cudaIpcMemLazyEnablePeerAccess));
	NEED(cudaMalloc(&own, 4096));
	NEED(cudaIpcGetMemHandle(&zero, own));
	ASK_LAST("runtime_open_own", cudaIpcOpenMemHandle(&at, zero, cudaIpcMemLazyEnablePeerAccess));
	ASK_LAST("runtime_close_null", cudaIpcCloseMemHandle(NULL));
	ASK_LAST("runtime_close_own", cudaIpcCloseMemHandle(own));
	ASK_LAST("runtime_close_host", cudaIpcCloseMemHandle(ask_zeros));
	ASK_LAST("runtime_close_garbage", cudaIpcCloseMemHandle(GARBAGE(void *)));
	peer_kill(&peer);
}

/* One library opens, the other closes; and a device that is reset. */
GROUP(runtime_and_driver)
{
	struct peer peer = exporter_start();
	void *at = NULL;
	CUdeviceptr by_driver = 0;

	NEED(cudaFree(NULL));
	CUipcMemHandle handle = handle_of(&peer);
	NEED(cudaIpcOpenMemHandle(&at, runtime_form(handle), cudaIpcMemLazyEnablePeerAccess));
	ASK_VALUE("driver_opens_what_runtime_has", cuIpcOpenMemHandle(&by_driver, handle, LAZY), "same %s",
		  ask_yes(by_driver == (CUdeviceptr)(uintptr_t)at));
	ASK_LAST("runtime_close_interior", cudaIpcCloseMemHandle((char *)at + 512));
	ASK_LAST("runtime_closes_first", cudaIpcCloseMemHandle(at));
	ASK_VALUE("driver_closes_second", cuIpcCloseMemHandle(by_driver), "range %s",
		  CODE(cuMemGetAddressRange(NULL, NULL, by_driver)));
	ASK_LAST("runtime_close_too_often", cudaIpcCloseMemHandle(at));
	NEED(cudaIpcOpenMemHandle(&at, runtime_form(handle), cudaIpcMemLazyEnablePeerAccess));
	ASK_LAST("reset_with_opened", cudaDeviceReset());
	ASK_LAST("close_after_reset", cudaIpcCloseMemHandle(at));
	ASK_LAST("open_after_reset", cudaIpcOpenMemHandle(&at, runtime_form(handle), cudaIpcMemLazyEnablePeerAccess));
	SAY("bytes_after_reset", "%s", vmm_bytes((CUdeviceptr)(uintptr_t)at, 4));
	SAY("byte_at_peer_after_reset", "%02x", (unsigned)order(&peer, 'b'));
	peer_kill(&peer);
}
