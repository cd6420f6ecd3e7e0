/* SPDX-License-Identifier: MIT */
/*
 * Chapter "ipc_memory_use": memory that was opened from a 64-byte handle: what is said of its address, what can be done
 * with it, whose contexts and processes may end first, and the runtime's calls.
 */
#define _GNU_SOURCE
#include "attribute.h"
#include "ipc_memory.h"

#include <poll.h>

CHAPTER(ipc_memory_use);

static CUcontext context;

static const char *describe(int attribute, const unsigned char *value, CUdeviceptr pointer)
{
	const char *words = attribute_words(attribute, value, pointer, context);

	return words ? words : ask_name("byte %u", *value);
}

static void ask_attributes(const char *kind, CUdeviceptr pointer)
{
	for (int attribute = 0; attribute <= LAST_ATTRIBUTE; attribute++) {
		unsigned char value[32];
		memset(value, 0x77, sizeof value);
		ASK_VALUE(ask_name("%s_attribute_%d", kind, attribute),
			  cuPointerGetAttribute(value, (CUpointer_attribute)attribute, pointer), "%s",
			  describe(attribute, value, pointer));
	}
}

static void ask_range(const char *question, CUdeviceptr at)
{
	CUdeviceptr start = UNTOUCHED(CUdeviceptr);
	size_t bytes = UNTOUCHED_INT;

	ASK_VALUE(question, cuMemGetAddressRange(&start, &bytes, at), "%s bytes %zu", attribute_distance(start, at),
		  bytes);
}

GROUP(attributes)
{
	struct peer peer = exporter_start();

	context = ask_context();
	CUdeviceptr at = opened_from(&peer);
	ask_attributes("opened", at);
	SAY("opened_interior_memory_type", "%d", pool_pointer_word(at + 10, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
	ask_range("opened_range", at);
	ask_range("opened_range_interior", at + BYTES - 1);
	ask_range("opened_range_past_end", at + BYTES);
	NEED(cuIpcCloseMemHandle(at));
	ask_range("closed_range", at);
	SAY("closed_memory_type", "%d", pool_pointer_word(at, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
	SAY("closed_capable", "%d", pool_pointer_word(at, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
	peer_kill(&peer);
}

/* Calls about an address. */
GROUP(addresses)
{
	struct peer peer = exporter_start();
	unsigned long long id = 0, other_id = 0;
	struct cudaPointerAttributes attributes;
	unsigned int flags = UNTOUCHED_INT, sync = 1;
	int descriptor = UNTOUCHED_INT;
	vmm_handle handle = UNTOUCHED(vmm_handle);

	vmm_setup();
	CUdeviceptr at = opened_from(&peer), own = memory_of(BYTES, 1);
	ASK_VALUE("opened_id_is_its_own", cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at), "%s",
		  ask_yes(!cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, own) && id != other_id));
	ASK_VALUE("opened_retain", cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at), "%s", OUT(handle));
	SAY("opened_rights", "%s", vmm_rights(at, DEVICE, 0));
	ASK("opened_allow", vmm_allow(at, 1, READ));
	ASK("opened_unmap", cuMemUnmap(at, BYTES));
	ASK("opened_address_free", cuMemAddressFree(at, BYTES));
	ASK("opened_register", cuMemHostRegister((void *)(uintptr_t)at, 4096, 0));
	ASK("opened_host_flags", cuMemHostGetFlags(&flags, (void *)(uintptr_t)at));
	ASK_VALUE("opened_range_handle_0_bytes",
		  cuMemGetHandleForAddressRange(&descriptor, at, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0), "%d",
		  descriptor);
	memset(&attributes, 0x77, sizeof attributes);
	ASK_VALUE("opened_runtime_attributes", cudaPointerGetAttributes(&attributes, (void *)(uintptr_t)at),
		  "type %d device %d pointer %s host %s", (int)attributes.type, attributes.device,
		  attribute_distance((uintptr_t)attributes.devicePointer, at),
		  attribute_distance((uintptr_t)attributes.hostPointer, at));
	ASK("opened_set_sync", cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	sync = UNTOUCHED_INT;
	ASK_VALUE("opened_get_sync", cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at), "%u",
		  sync & 0xff);
	SAY("opened_bytes_after_calls", "%s", vmm_bytes(at, 4));
	ASK("opened_close_after_calls", cuIpcCloseMemHandle(at));
	peer_kill(&peer);
}

/* Synchronous operations, asked for before memory leaves. */
GROUP(sync_memops)
{
	CUipcMemHandle handle, again;
	unsigned int sync = 1;

	ask_context();
	CUdeviceptr at = memory_of(BYTES, 1);
	NEED(cuIpcGetMemHandle(&handle, at));
	ASK("sync_set", cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	ASK_VALUE("sync_get_handle", cuIpcGetMemHandle(&again, at), "same %s", ask_yes(same(&handle, &again)));
	sync = 0;
	ASK("sync_unset", cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	ASK("sync_free", cuMemFree(at));
}

/* Small memory lies beside other memory: how much of it does the opener see? */
GROUP(sizes)
{
	static const size_t sizes[] = {1, 512, 1000, 65536, MIB, 2 * MIB - 1, 2 * MIB, 3 * MIB + 5, 32 * MIB};
	struct peer peer = exporter_start();

	ask_context();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		CUdeviceptr at = UNTOUCHED(CUdeviceptr);
		note->bytes = sizes[i];
		order(&peer, 's');
		CUipcMemHandle handle = handle_of(&peer);
		ASK(ask_name("open_of_%zu", sizes[i]), cuIpcOpenMemHandle(&at, handle, LAZY));
		if (at == UNTOUCHED(CUdeviceptr))
			continue;
		ask_range(ask_name("range_of_%zu", sizes[i]), at);
		SAY(ask_name("place_of_%zu", sizes[i]), "mod 512 %d, in 2 MiB as at exporter %s", (int)(at % 512),
		    ask_yes(at % (2 * MIB) == note->at % (2 * MIB)));
		SAY(ask_name("bytes_of_%zu", sizes[i]), "%s last %s", vmm_bytes(at, 1),
		    vmm_bytes(at + sizes[i] - 1, 1));
		ASK(ask_name("fill_of_%zu", sizes[i]), fill(at, 0xb1, sizes[i]));
		SAY(ask_name("bytes_at_peer_of_%zu", sizes[i]), "%02x last %02x", (unsigned)order(&peer, 'b'),
		    (unsigned)order(&peer, 'l'));
		ASK(ask_name("close_of_%zu", sizes[i]), cuIpcCloseMemHandle(at));
	}
	peer_kill(&peer);
}

/* Two small allocations, neighbours at home. */
GROUP(neighbours)
{
	struct peer peer = exporter_start();
	CUdeviceptr first = 0, second = 0, theirs[2];
	CUipcMemHandle handles[2];

	ask_context();
	note->bytes = 1000;
	for (int i = 0; i < 2; i++) {
		order(&peer, 's');
		theirs[i] = note->at;
		handles[i] = handle_of(&peer);
	}
	SAY("neighbours_near", "%s", ask_yes(theirs[1] / (2 * MIB) == theirs[0] / (2 * MIB)));
	SAY("neighbours_same_handle", "%s", ask_yes(same(&handles[0], &handles[1])));
	ASK("neighbours_open_first", cuIpcOpenMemHandle(&first, handles[0], LAZY));
	ASK_VALUE("neighbours_open_second", cuIpcOpenMemHandle(&second, handles[1], LAZY),
		  "same %s as far apart as at home %s", ask_yes(first == second),
		  ask_yes(second - first == theirs[1] - theirs[0]));
	ASK_VALUE("neighbours_close_first", cuIpcCloseMemHandle(first), "bytes %s", vmm_bytes(second, 4));
	ask_range("neighbours_closed_range", first);
	ASK("neighbours_close_first_again", cuIpcCloseMemHandle(first));
	ASK("neighbours_close_second", cuIpcCloseMemHandle(second));
	peer_kill(&peer);
}

/* A handle of the middle: what does its opener get? */
GROUP(interior)
{
	static const size_t offsets[] = {0, 1, 512, 65536, 2 * MIB, BYTES - 1};
	struct peer peer = exporter_start();
	CUdeviceptr base = 0;

	ask_context();
	for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
		CUdeviceptr at = UNTOUCHED(CUdeviceptr);
		memset(&note->handle, 0, sizeof note->handle);
		note->offset = offsets[i];
		SAY(ask_name("interior_get_%zu", offsets[i]), "%s", code_of(order(&peer, 'i')));
		ASK_VALUE(ask_name("interior_open_%zu", offsets[i]), cuIpcOpenMemHandle(&at, note->handle, LAZY), "%s",
			  base ? attribute_distance(at, base) : OUT(at));
		if (at == UNTOUCHED(CUdeviceptr))
			continue;
		ask_range(ask_name("interior_range_%zu", offsets[i]), at);
		base = base ? base : at;
	}
	if (base)
		SAY("interior_bytes", "%s", vmm_bytes(base, 4));
	peer_kill(&peer);
}

/* Opened memory is memory: both directions, and its end. */
GROUP(contents)
{
	struct peer peer = exporter_start();
	unsigned char host[64] = {0};

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer), own = memory_of(2 * BYTES, 0x11);
	SAY("contents_first", "%s last %s", vmm_bytes(at, 16), vmm_bytes(at + BYTES - 16, 16));
	ASK("contents_fill", fill(at, 0xb1, BYTES));
	SAY("contents_at_peer", "%02x %02x", (unsigned)order(&peer, 'b'), (unsigned)order(&peer, 'l'));
	order(&peer, 'f');
	SAY("contents_after_peers_fill", "%s", vmm_bytes(at + BYTES - 16, 16));
	ASK("contents_dtod", cuMemcpyDtoD(at, own, BYTES));
	NEED(cuCtxSynchronize());
	SAY("contents_at_peer_after_dtod", "%02x", (unsigned)order(&peer, 'l'));
	ASK("contents_htod", cuMemcpyHtoD(at + BYTES - 16, host, 16));
	SAY("contents_at_peer_after_htod", "%02x", (unsigned)order(&peer, 'l'));
	ASK_VALUE("contents_dtoh", cuMemcpyDtoH(host, at, 64), "%s", ask_bytes(host, 64));
	ASK("contents_plain_copy", cuMemcpy(own, at, BYTES));
	ASK("contents_async", cuMemcpyDtoDAsync(at, own, BYTES, NULL));
	ASK("contents_fill_32", cuMemsetD32(at, 1, BYTES / 4));
	ASK("contents_fill_2d", cuMemsetD2D8(at, 512, 1, 100, 100));
	ASK("contents_fill_to_end", fill(at + BYTES - 1, 0xb2, 1));
	ASK("contents_dtoh_over_end", cuMemcpyDtoH(host, at + BYTES - 32, 64));
	ASK("contents_dtoh_past_end", cuMemcpyDtoH(host, at + BYTES, 64));
	ASK("contents_htod_over_end", cuMemcpyHtoD(at + BYTES - 32, host, 64));
	ASK("contents_dtod_over_end", cuMemcpyDtoD(own, at + 1, BYTES));
	ASK("contents_fill_over_end", cuMemsetD8(at + 1, 0xb3, BYTES));
	ASK("contents_fill_past_end", cuMemsetD8(at + BYTES, 0xb3, 1));
	SAY("contents_at_peer_in_the_end", "%02x", (unsigned)order(&peer, 'l'));
	peer_kill(&peer);
}

/*
 * A stream that is busy until it is told, or for half a second if it is not told: does a call wait for streams?
 */
struct hold {
	int ends[2];
	bool told;
};

static void hold_stream(void *data)
{
	struct hold *hold = data;
	struct pollfd wait = {.fd = hold->ends[0], .events = POLLIN};

	hold->told = poll(&wait, 1, 500) == 1;
}

enum step { GET_STEP, OPEN_STEP, OPEN_AGAIN_STEP, CLOSE_ONE_STEP, CLOSE_LAST_STEP, STEP_COUNT };

static CUresult busy_step(enum step step, CUdeviceptr own, CUdeviceptr *at)
{
	CUipcMemHandle handle;

	switch (step) {
	case GET_STEP: return cuIpcGetMemHandle(&handle, own);
	case OPEN_STEP:
	case OPEN_AGAIN_STEP: return cuIpcOpenMemHandle(at, note->handle, LAZY);
	default: return cuIpcCloseMemHandle(*at);
	}
}

GROUP(busy)
{
	static const char *const names[] = {"get", "open", "open_again", "close_one", "close_last"};
	struct peer peer = exporter_start();
	CUdeviceptr at = 0;

	ask_context();
	CUstream stream = pool_stream();
	CUdeviceptr own = memory_of(4096, 1);
	handle_of(&peer);
	for (int step = 0; step < STEP_COUNT; step++) {
		struct hold hold = {.told = false};
		if (!ask_begin(ask_name("busy_%s", names[step])) || pipe(hold.ends))
			continue;
		NEED(cuLaunchHostFunc(stream, hold_stream, &hold));
		NEED(cuMemsetD8Async(at ? at : own, 0xb1, 16, stream));
		const char *code = CODE(busy_step((enum step)step, own, &at));
		bool told = write(hold.ends[1], "", 1) == 1;
		const char *after = CODE(cuStreamSynchronize(stream));
		ask_end("%s, waited for the stream %s, stream %s", code, ask_yes(told && !hold.told), after);
	}
	peer_kill(&peer);
}

/* ---- Other processes ---- */

static const char *third_name;

static void third(struct peer *parent)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ask_context();
	peer_hear(parent, NULL);
	ASK_VALUE(ask_name("%s_open", third_name), cuIpcOpenMemHandle(&at, note->handle, LAZY), "%s", OUT(at));
	if (at == UNTOUCHED(CUdeviceptr))
		return;
	SAY(ask_name("%s_bytes", third_name), "%s", vmm_bytes(at, 4));
	ASK(ask_name("%s_fill", third_name), fill(at, 0xc1, 16));
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
	ASK(ask_name("%s_close", third_name), cuIpcCloseMemHandle(at));
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
}

/* Two that open, and one of them exports what it opened. */
GROUP(three_processes)
{
	third_name = "third";
	struct peer peer = exporter_start(), last = peer_start(third);
	CUipcMemHandle handle = untouched_handle();

	ask_context();
	CUdeviceptr at = opened_from(&peer);
	CUipcMemHandle original = note->handle;
	ASK_VALUE("get_of_opened", cuIpcGetMemHandle(&handle, at), "%s same %s", handle_is(&handle),
		  ask_yes(same(&handle, &original)));
	if (strcmp(handle_is(&handle), "set") == 0) {
		note->handle = handle;
		SAY("opened_at_exporter", "%s", code_of(order(&peer, 'r')));
	}
	ASK("get_of_opened_interior", cuIpcGetMemHandle(&handle, at + 512));
	note->handle = original;
	order(&last, 'o');
	SAY("bytes_after_third", "%s", vmm_bytes(at, 4));
	SAY("byte_at_exporter_after_third", "%02x", (unsigned)order(&peer, 'b'));
	order(&last, 'c');
	SAY("bytes_after_third_closed", "%s", vmm_bytes(at, 4));
	peer_kill(&last);
	ASK("close_after_third", cuIpcCloseMemHandle(at));
	SAY("free_at_exporter_after_all", "%s", code_of(order(&peer, 'd')));
	peer_kill(&peer);
}

/* A process that has it open dies. */
GROUP(opener_killed)
{
	third_name = "dying";
	struct peer peer = exporter_start(), last = peer_start(third);

	ask_context();
	CUdeviceptr at = opened_from(&peer);
	order(&last, 'o');
	peer_kill(&last);
	SAY("bytes_after_opener_died", "%s", vmm_bytes(at, 4));
	SAY("byte_at_exporter_after_opener_died", "%02x", (unsigned)order(&peer, 'b'));
	try_open("open_again_after_opener_died", note->handle, LAZY);
	peer_kill(&peer);
}

static void ask_survivor(const char *kind, CUdeviceptr at, CUipcMemHandle handle)
{
	CUdeviceptr again = UNTOUCHED(CUdeviceptr);

	SAY(ask_name("%s_bytes", kind), "%s last %s", vmm_bytes(at, 4), vmm_bytes(at + BYTES - 4, 4));
	ASK(ask_name("%s_fill", kind), fill(at, 0xb1, BYTES));
	ask_range(ask_name("%s_range", kind), at);
	ASK_VALUE(ask_name("%s_open_again", kind), cuIpcOpenMemHandle(&again, handle, LAZY), "%s same %s", OUT(again),
		  ask_yes(again == at));
	if (again == at)
		NEED(cuIpcCloseMemHandle(again));
	ASK(ask_name("%s_close", kind), cuIpcCloseMemHandle(at));
	try_open(ask_name("%s_open_after_close", kind), handle, LAZY);
}

GROUP(freed_while_open)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer);
	SAY("freed_while_open", "%s", code_of(order(&peer, 'd')));
	ask_survivor("freed", at, note->handle);
	peer_kill(&peer);
}

GROUP(context_destroyed_while_open)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer);
	SAY("context_destroyed_while_open", "%s", code_of(order(&peer, 'x')));
	ask_survivor("context_gone", at, note->handle);
	peer_kill(&peer);
}

GROUP(ended_while_open)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer);
	peer_end(&peer);
	ask_survivor("ended", at, note->handle);
}

GROUP(killed_while_open)
{
	struct peer peer = exporter_start();

	ask_context();
	ask_guard();
	CUdeviceptr at = opened_from(&peer);
	peer_kill(&peer);
	ask_survivor("killed", at, note->handle);
}

GROUP(gone_before_open)
{
	struct peer peer = exporter_start(), other = peer_start(exporter);

	ask_context();
	CUipcMemHandle handle = handle_of(&peer);
	peer_end(&peer);
	try_open("open_after_exporter_ended", handle, LAZY);
	handle = handle_of(&other);
	peer_kill(&other);
	try_open("open_after_exporter_was_killed", handle, LAZY);
}

GROUP(gone_before_init)
{
	struct peer peer = exporter_start();
	CUipcMemHandle handle = handle_of(&peer);

	peer_kill(&peer);
	ask_context();
	try_open("open_after_exporter_died_before_init", handle, LAZY);
}

/* Whose memory is it that is missing, and when does it come back? */
ALONE(accounting)
{
	struct peer peer = exporter_start();
	CUdeviceptr at = 0;

	vmm_setup();
	try_open("account_warm", handle_of(&peer), LAZY);
	long start = vmm_free_grains();
	note->bytes = 32 * grain;
	order(&peer, 's');
	SAY("account_peer_allocates", "%d", vmm_steps(vmm_free_grains() - start));
	CUipcMemHandle handle = handle_of(&peer);
	ASK_VALUE("account_open", cuIpcOpenMemHandle(&at, handle, LAZY), "%d", vmm_steps(vmm_free_grains() - start));
	SAY("account_peer_frees", "%s", code_of(order(&peer, 'd')));
	SAY("account_freed_while_open", "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_close", cuIpcCloseMemHandle(at), "%d", vmm_steps(vmm_await_grains(start) - start));
	peer_kill(&peer);
}

static const char *visible;

static void opener_that_sees(struct peer *parent)
{
	CUcontext mine = NULL;
	int count = UNTOUCHED_INT;

	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	peer_hear(parent, NULL);
	const char *name = *visible ? visible : "nothing";
	ASK(ask_name("sees_%s_init", name), cuInit(0));
	ASK_VALUE(ask_name("sees_%s_count", name), cuDeviceGetCount(&count), "%d", count);
	ASK(ask_name("sees_%s_context", name), cuCtxCreate(&mine, NULL, 0, 0));
	try_open(ask_name("sees_%s_open", name), note->handle, LAZY);
	ASK(ask_name("sees_%s_close", name), cuIpcCloseMemHandle(note->at));
	peer_tell(parent, 0, -1);
}

GROUP(visible_devices)
{
	static const char *const lists[] = {"", "0", "-1", "99"};
	struct peer peer = exporter_start(), openers[4];

	for (size_t i = 0; i < 4; i++) {
		visible = lists[i];
		openers[i] = peer_start(opener_that_sees);
	}
	handle_of(&peer);
	for (size_t i = 0; i < 4; i++) {
		order(&openers[i], 'o');
		peer_wait(&openers[i]);
	}
	peer_kill(&peer);
}

static void child_calls(void *data)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr), *opened = data;
	CUipcMemHandle handle;

	ASK("child_get", cuIpcGetMemHandle(&handle, opened[1]));
	ASK_VALUE("child_open", cuIpcOpenMemHandle(&at, note->handle, LAZY), "%s", OUT(at));
	ASK("child_close", cuIpcCloseMemHandle(opened[0]));
	ASK("child_runtime_close", cudaIpcCloseMemHandle((void *)(uintptr_t)opened[0]));
	ASK("child_init", cuInit(0));
	ASK_VALUE("child_open_after_init", cuIpcOpenMemHandle(&at, note->handle, LAZY), "%s", OUT(at));
}

GROUP(forked)
{
	struct peer peer = exporter_start();
	CUdeviceptr both[2];

	ask_context();
	both[0] = opened_from(&peer);
	both[1] = memory_of(4096, 1);
	ask_forked(child_calls, both);
	SAY("bytes_after_child", "%s", vmm_bytes(both[0], 4));
	ASK("close_after_child", cuIpcCloseMemHandle(both[0]));
	peer_kill(&peer);
}

/* ---- Contexts ---- */

GROUP(without_init)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	CUipcMemHandle handle = untouched_handle();

	ASK_VALUE("uninitialised_get", cuIpcGetMemHandle(&handle, SMALL(CUdeviceptr)), "%s", handle_is(&handle));
	ASK_VALUE("uninitialised_open", cuIpcOpenMemHandle(&at, handle, LAZY), "%s", OUT(at));
	ASK("uninitialised_open_null", cuIpcOpenMemHandle(NULL, handle, 7));
	ASK("uninitialised_close", cuIpcCloseMemHandle(SMALL(CUdeviceptr)));
}

GROUP(without_context)
{
	struct peer peer = exporter_start();
	CUcontext mine = ask_context(), popped = NULL;
	CUdeviceptr at = opened_from(&peer), own = memory_of(4096, 1), again = UNTOUCHED(CUdeviceptr);
	CUipcMemHandle handle = untouched_handle();

	NEED(cuCtxPopCurrent(&popped));
	ASK_VALUE("contextless_get", cuIpcGetMemHandle(&handle, own), "%s", handle_is(&handle));
	ASK("contextless_get_null", cuIpcGetMemHandle(NULL, own));
	ASK("contextless_get_of_null", cuIpcGetMemHandle(&handle, 0));
	ASK_VALUE("contextless_open", cuIpcOpenMemHandle(&again, note->handle, LAZY), "%s", OUT(again));
	ASK("contextless_open_null", cuIpcOpenMemHandle(NULL, note->handle, LAZY));
	ASK("contextless_open_flags_0", cuIpcOpenMemHandle(&again, note->handle, 0));
	ASK("contextless_close_null", cuIpcCloseMemHandle(0));
	ASK("contextless_close", cuIpcCloseMemHandle(at));
	NEED(cuCtxPushCurrent(mine));
	SAY("contextless_bytes_after", "%s", vmm_bytes(at, 4));
	ASK("contextless_close_with_context", cuIpcCloseMemHandle(at));
	peer_kill(&peer);
}

GROUP(two_contexts)
{
	struct peer peer = exporter_start();
	CUcontext first = ask_context();
	CUdeviceptr at = opened_from(&peer), own = memory_of(4096, 1), other = UNTOUCHED(CUdeviceptr), more = other;
	CUipcMemHandle handle = note->handle, of_own, again;

	NEED(cuIpcGetMemHandle(&of_own, own));
	note->bytes = BYTES;
	order(&peer, 's');
	CUipcMemHandle fresh = handle_of(&peer);
	CUcontext second = context = ask_context();
	ASK_VALUE("second_context_get", cuIpcGetMemHandle(&again, own), "same %s", ask_yes(same(&of_own, &again)));
	ASK_VALUE("second_context_open", cuIpcOpenMemHandle(&other, handle, LAZY), "%s same %s", OUT(other),
		  ask_yes(at == other));
	ASK_VALUE("second_context_open_fresh", cuIpcOpenMemHandle(&more, fresh, LAZY), "%s", OUT(more));
	SAY("second_context_bytes", "%s", vmm_bytes(at, 4));
	ASK("second_context_fill", fill(at, 0xb1, 16));
	ASK("second_context_close", cuIpcCloseMemHandle(at));
	SAY("second_context_bytes_after_close", "%s", vmm_bytes(at, 4));
	ASK("second_context_close_again", cuIpcCloseMemHandle(at));
	NEED(cuCtxSetCurrent(first));
	SAY("first_context_bytes", "%s", vmm_bytes(at, 4));
	ASK("first_context_close", cuIpcCloseMemHandle(at));
	ASK("first_context_close_again", cuIpcCloseMemHandle(at));
	NEED(cuCtxSetCurrent(second));
	try_open("second_context_open_after_first_closed", handle, LAZY);
	peer_kill(&peer);
}

/* The context that opened goes, and takes what with it? */
GROUP(opener_context_destroyed)
{
	struct peer peer = exporter_start();
	CUcontext first = ask_context();
	CUdeviceptr at = opened_from(&peer);
	CUcontext second = context = ask_context();

	ASK("destroy_context_with_opened", cuCtxDestroy(first));
	ask_range("range_after_context", at);
	SAY("bytes_after_context", "%s", vmm_bytes(at, 4));
	ASK("close_after_context", cuIpcCloseMemHandle(at));
	try_open("open_after_context", note->handle, LAZY);
	SAY("byte_at_peer_after_context", "%02x", (unsigned)order(&peer, 'b'));
	ASK("destroy_second_context", cuCtxDestroy(second));
	peer_kill(&peer);
}

struct thread_task {
	CUcontext context;
	CUdeviceptr at;
};

static void *on_thread(void *data)
{
	struct thread_task *task = data;
	CUdeviceptr again = 0;

	ASK("thread_close_without_context", cuIpcCloseMemHandle(task->at));
	NEED(cuCtxSetCurrent(task->context));
	ASK_VALUE("thread_open", cuIpcOpenMemHandle(&again, note->handle, LAZY), "same %s", ask_yes(again == task->at));
	ASK("thread_close", cuIpcCloseMemHandle(task->at));
	return NULL;
}

GROUP(threads)
{
	struct peer peer = exporter_start();
	struct thread_task task = {.context = ask_context()};

	task.at = opened_from(&peer);
	ask_threaded(on_thread, &task);
	SAY("bytes_after_thread", "%s", vmm_bytes(task.at, 4));
	ASK("close_after_thread", cuIpcCloseMemHandle(task.at));
	peer_kill(&peer);
}
