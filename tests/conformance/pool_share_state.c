/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool_share_state": the calls that share pools before cuInit, without a context, in a destroyed one, inside a
 * callback, in a forked child and on other threads; order between two processes, by events and without; what is left
 * when one of them ends; whose memory is counted; the runtime's related calls.
 */
#define _GNU_SOURCE
#include "pool_share.h"

CHAPTER(pool_share_state);

static struct {
	CUmemoryPool pool, imported, victim, out;
	CUstream stream;
	CUdeviceptr own, at, freed, freed_sync, made;
	CUevent event, opened;
	CUipcEventHandle event_handle;
	CUmemPoolPtrExportData data, seen;
	CUmemLocation location;
	CUmemAccess_flags flags;
	unsigned long long wide;
	unsigned int type;
	size_t bytes;
	int descriptor, sent;
	char byte;
} s;

/* X(name, call), with arguments that would be right. */
#define SHARE_CALLS(X)                                                                                       \
	X(export_pool, cuMemPoolExportToShareableHandle(&s.sent, s.pool, POSIX_TYPE, 0))                     \
	X(import_pool, share_import(&s.out, s.descriptor))                                                   \
	X(export_pointer, cuMemPoolExportPointer(&s.data, s.own))                                            \
	X(import_pointer, cuMemPoolImportPointer(&s.made, s.imported, &s.seen))                              \
	X(export_imported_pool, cuMemPoolExportToShareableHandle(&s.sent, s.imported, POSIX_TYPE, 0))        \
	X(export_imported_pointer, cuMemPoolExportPointer(&s.data, s.at))                                    \
	X(imported_attribute, cuMemPoolGetAttribute(s.imported, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &s.wide)) \
	X(imported_rights, cuMemPoolGetAccess(&s.flags, s.imported, &s.location))                            \
	X(imported_allow, pool_allow(s.imported, DEVICE, 0, WRITE))                                          \
	X(imported_alloc, cuMemAllocFromPoolAsync(&s.made, 4096, s.imported, s.stream))                      \
	X(imported_trim, cuMemPoolTrimTo(s.imported, 0))                                                     \
	X(imported_type, cuPointerGetAttribute(&s.type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.at))             \
	X(imported_range, cuMemGetAddressRange(&s.made, &s.bytes, s.at))                                     \
	X(imported_fill, cuMemsetD8(s.at, 0x71, 16))                                                         \
	X(imported_read, cuMemcpyDtoH(&s.byte, s.at, 1))                                                     \
	X(event_handle, cuIpcGetEventHandle(&s.event_handle, s.event))                                       \
	X(event_open, cuIpcOpenEventHandle(&s.opened, board->event[0]))                                      \
	X(free_async, cuMemFreeAsync(s.freed, s.stream))                                                     \
	X(free_sync, cuMemFree(s.freed_sync))                                                                \
	X(destroy_imported, cuMemPoolDestroy(s.victim))

/* Arguments that are right but for the objects, which cannot be before cuInit. */
static void fake(void)
{
	s.location = vmm_place(DEVICE, 0);
	s.pool = s.imported = s.victim = ZEROS(CUmemoryPool);
	s.own = s.at = s.freed = s.freed_sync = (CUdeviceptr)1 << 40;
	s.event = ZEROS(CUevent);
	s.descriptor = open("/dev/null", O_RDWR);
}

static struct shared make(void)
{
	struct shared my = share_all();

	s.location = vmm_place(DEVICE, 0);
	s.pool = share_make(POSIX);
	s.own = share_fill(s.pool, 4096, 0x72);
	s.stream = my.stream;
	s.descriptor = my.descriptor;
	s.imported = my.pool;
	s.at = my.at;
	s.freed = share_block(&my, 1);
	s.freed_sync = share_block(&my, 2);
	s.seen = board->data[0];
	share_do(&my.peer, 'e', 0); /* its answer is asked elsewhere */
	NEED(cuEventCreate(&s.event, IPC_EVENT));
	if (share_import(&s.victim, my.descriptor)) /* asked elsewhere, too */
		s.victim = s.imported;
	return my;
}

/* All of them, where the state is this. */
static void ask_calls(const char *state)
{
#define X(name, call) ASK(ask_name("%s_" #name, state), call);
	SHARE_CALLS(X)
#undef X
}

GROUP(uninitialised)
{
	share_board();
	fake();
	ask_calls("uninitialised");
}

/* The descriptor is a good one. */
GROUP(uninitialised_import)
{
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
	int descriptor = -1;

	share_board();
	struct peer peer = peer_start(exporter);
	share_tell(&peer, 'x', 0, &descriptor);
	NEED(board->result);
	ASK_VALUE("uninitialised_good_import", share_import(&pool, descriptor), "%s", OUT(pool));
	ask_context();
	ASK_VALUE("good_import_after_init", share_import(&pool, descriptor), "%s", OUT(pool));
	peer_kill(&peer);
}

GROUP(contextless)
{
	struct shared my = make();

	NEED(cuCtxSetCurrent(NULL));
	ask_calls("contextless");
	peer_kill(&my.peer);
}

/* A process that never had one. */
GROUP(never_a_context)
{
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool), own = NULL;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	CUcontext context = NULL;
	int descriptor = -1, sent = UNTOUCHED_INT;

	share_board();
	struct peer peer = peer_start(exporter);
	NEED(cuInit(0));
	share_tell(&peer, 'x', 0, &descriptor);
	NEED(board->result);
	NEED(share_do(&peer, 'a', 0));
	NEED(share_do(&peer, 's', 0));
	ASK_VALUE("never_import_pool", share_import(&pool, descriptor), "%s", OUT(pool));
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);
	properties.handleTypes = POSIX_TYPE;
	ASK("never_create", cuMemPoolCreate(&own, &properties));
	if (own) {
		ASK_VALUE("never_export_pool", cuMemPoolExportToShareableHandle(&sent, own, POSIX_TYPE, 0), "%s",
			  share_descriptor(sent));
	}
	if (pool != UNTOUCHED(CUmemoryPool)) {
		SAY("never_rights", "%s", pool_rights(pool, DEVICE, 0));
		ASK_VALUE("never_import_pointer", cuMemPoolImportPointer(&at, pool, &board->data[0]), "%s", OUT(at));
	}
	NEED(cuCtxCreate(&context, NULL, 0, 0));
	if (pool != UNTOUCHED(CUmemoryPool))
		share_ask_usable("never_then_context", pool, 0);
	peer_kill(&peer);
}

GROUP(destroyed)
{
	struct shared my = make();
	CUcontext context = NULL;

	NEED(cuCtxGetCurrent(&context));
	ask_destroyed(context);
	ask_calls("destroyed");
	peer_kill(&my.peer);
}

/* The context ends with imports alive, and another one follows. */
GROUP(context_ended)
{
	struct shared my = share_all();
	CUcontext first = NULL, second = NULL;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	NEED(cuCtxGetCurrent(&first));
	ASK("context_destroy", cuCtxDestroy(first));
	NEED(cuCtxCreate(&second, NULL, 0, 0));
	SAY("rights_in_next_context", "%s", pool_rights(my.pool, DEVICE, 0));
	SAY("type_in_next_context", "%d", pool_pointer_word(my.at, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
	SAY("bytes_in_next_context", "%s", vmm_bytes(my.at, 16));
	ASK_VALUE("import_in_next_context", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	ASK("free_in_next_context", cuMemFreeAsync(my.at, NULL));
	ASK("synchronize_in_next_context", cuCtxSynchronize());
	ASK("destroy_in_next_context", cuMemPoolDestroy(my.pool));
	peer_kill(&my.peer);
}

static void CUDA_CB ask_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_calls("callback");
}

GROUP(callback)
{
	struct shared my = make();

	ask_in_stream(ask_in_callback, NULL);
	peer_kill(&my.peer);
}

/* A child forked from a process that exports and imports. */
static void child(void *data)
{
	(void)data;
	ask_calls("child");
}

static void child_after_init(void *data)
{
	(void)data;
	ASK("child_init", cuInit(0));
	ask_calls("child_after_init");
}

GROUP(forked)
{
	struct shared my = make();

	ask_forked(child, NULL);
	SAY("parent_bytes_after_child", "%s", vmm_bytes(s.at, 16));
	SAY("parent_rights_after_child", "%s", pool_rights(s.imported, DEVICE, 0));
	share_ask_usable("parent_after_child", s.imported, 0);
	SAY("peer_after_child", "%s", ask_driver_code(share_do(&my.peer, 'a', 3)));
	peer_kill(&my.peer);
}

GROUP(forked_and_initialised)
{
	struct shared my = make();

	ask_forked(child_after_init, NULL);
	share_ask_usable("parent_after_initialised_child", s.imported, 0);
	peer_kill(&my.peer);
}

/* Another thread, without and with the context. */
static void *ask_in_thread(void *context)
{
	NEED(cuCtxSetCurrent(context));
	ask_calls("thread");
	return NULL;
}

GROUP(thread)
{
	struct shared my = make();
	CUcontext context = NULL;

	NEED(cuCtxGetCurrent(&context));
	ask_threaded(ask_in_thread, context);
	peer_kill(&my.peer);
}

/* Another context of the same device. */
GROUP(second_context)
{
	struct shared my = make();
	CUcontext second = NULL;

	NEED(cuCtxCreate(&second, NULL, 0, 0));
	ask_calls("second_context");
	ASK("second_context_synchronize", cuCtxSynchronize());
	peer_kill(&my.peer);
}

/*
 * The order of document 2: the exporter's stream is held before the allocation, everything is handed over, the importer
 * waits in its stream for the ready event, and the exporter for the finished event.
 */
GROUP(order_by_events)
{
	struct shared my = share_pool();
	CUevent ready = NULL, finished = NULL;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	void *bytes = NULL; /* pinned: a copy to other memory waits for its stream */

	NEED(cuMemHostAlloc(&bytes, 16, 0));
	memset(bytes, 0, 16);
	ASK("ready_made_at_peer", share_do(&my.peer, 'e', 0));
	NEED(board->result);
	ASK("finished_made_at_peer", share_do(&my.peer, 'e', 1));
	NEED(share_do(&my.peer, 'g', 0));
	ASK("unreached_alloc_at_peer", share_do(&my.peer, 'a', 0));
	ASK("ready_recorded_at_peer", share_do(&my.peer, 'r', 0));
	ASK("ready_opened", cuIpcOpenEventHandle(&ready, board->event[0]));
	ASK("finished_opened", cuIpcOpenEventHandle(&finished, board->event[1]));
	ASK_VALUE("unreached_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	ASK("ready_query_while_held", cuEventQuery(ready));
	ASK("wait_for_ready", cuStreamWaitEvent(my.stream, ready, 0));
	ASK("read_after_ready", cuMemcpyDtoHAsync(bytes, at, 16, my.stream));
	ASK("fill_after_ready", cuMemsetD8Async(at, 0xe1, 16, my.stream));
	ASK("free_after_ready", cuMemFreeAsync(at, my.stream));
	ASK("finished_recorded", cuEventRecord(finished, my.stream));
	ASK("stream_query_while_held", cuStreamQuery(my.stream));
	ASK("finished_waited_at_peer", share_do(&my.peer, 'v', 1));
	ASK("finished_query_at_peer_while_held", share_do(&my.peer, 'y', 1));
	NEED(share_do(&my.peer, 'G', 0));
	ASK("stream_done", cuStreamSynchronize(my.stream));
	SAY("bytes_read_after_ready", "%s", ask_bytes(bytes, 16));
	ASK("ready_query", cuEventQuery(ready));
	ASK("ready_synchronize", cuEventSynchronize(ready));
	ASK("peer_stream_done", share_do(&my.peer, 's', 0));
	ASK("finished_query_at_peer", share_do(&my.peer, 'y', 1));
	SAY("byte_at_peer_after_finished", "%s", share_byte(&my.peer, 0));
	ASK("free_at_peer", share_do(&my.peer, 'f', 0));
	ASK_VALUE("free_at_peer_done", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	ASK("ready_destroyed", cuEventDestroy(ready));
	ASK("ready_recorded_at_peer_after_destroy", share_do(&my.peer, 'r', 0));
	ASK("finished_destroyed_at_peer", share_do(&my.peer, 'k', 1));
	ASK("finished_recorded_after_destroy", cuEventRecord(finished, my.stream));
	ASK("finished_done_after_destroy", cuEventSynchronize(finished));
	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
}

/* The finished event is the importer's, and the exporter opens it; the exporter's free waits behind it. */
GROUP(order_by_importers_event)
{
	struct shared my = share_all();
	struct gate gate = gate_make();
	CUevent finished = NULL;

	NEED(cuEventCreate(&finished, IPC_EVENT));
	ASK("finished_handle", cuIpcGetEventHandle(&board->event[2], finished));
	ASK("finished_opened_at_peer", share_do(&my.peer, 'o', 2));
	NEED(board->result);
	ASK("finished_query_before_record", share_do(&my.peer, 'y', 2));
	gate_close(&gate, my.stream);
	ASK("held_fill", cuMemsetD8Async(my.at, 0xe2, 16, my.stream));
	ASK("held_free", cuMemFreeAsync(my.at, my.stream));
	ASK("held_finished_recorded", cuEventRecord(finished, my.stream));
	ASK("held_finished_waited_at_peer", share_do(&my.peer, 'v', 2));
	ASK("held_free_at_peer", share_do(&my.peer, 'f', 0));
	SAY("held_numbers_at_peer", "%s", share_numbers(&my.peer));
	ASK("held_finished_query_at_peer", share_do(&my.peer, 'y', 2));
	gate_open(&gate);
	ASK("held_stream_done", cuStreamSynchronize(my.stream));
	ASK_VALUE("held_peer_stream_done", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	peer_kill(&my.peer);
}

/* A free that is ordered before the allocation has happened, on both sides. */
GROUP(order_of_early_frees)
{
	struct shared my = share_pool();
	CUdeviceptr at = UNTOUCHED(CUdeviceptr), later = UNTOUCHED(CUdeviceptr);

	NEED(share_do(&my.peer, 'g', 0));
	ASK("early_alloc_at_peer", share_do(&my.peer, 'a', 0));
	ASK_VALUE("early_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	ASK("early_free", cuMemFreeAsync(at, my.stream));
	ASK("early_free_done", cuStreamSynchronize(my.stream));
	ASK("early_free_at_peer", share_do(&my.peer, 'f', 0));
	ASK_VALUE("early_import_after_frees", cuMemPoolImportPointer(&later, my.pool, &board->data[0]), "%s",
		  OUT(later));
	NEED(share_do(&my.peer, 'G', 0));
	ASK_VALUE("early_peer_done", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 's', 1));
	share_ask_usable("after_early_frees", my.pool, 1);
	peer_kill(&my.peer);
}

/* The same order kept by synchronisation and a socket. */
GROUP(order_by_socket)
{
	struct shared my = share_all();

	ASK("socket_fill", cuMemsetD8Async(my.at, 0xe3, 16, my.stream));
	ASK("socket_free", cuMemFreeAsync(my.at, my.stream));
	ASK("socket_done", cuStreamSynchronize(my.stream));
	SAY("socket_byte_at_peer", "%s", share_byte(&my.peer, 0));
	ASK("socket_fill_at_peer", share_do(&my.peer, 'w', 0));
	ASK("socket_free_at_peer", share_do(&my.peer, 'F', 0));
	SAY("socket_numbers_at_peer", "%s", share_numbers(&my.peer));
	ASK("socket_destroy_at_peer", share_do(&my.peer, 'd', 0));
	ASK("socket_destroy", cuMemPoolDestroy(my.pool));
	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
}

/* The exporter is gone, or its pool is, and imports live on. */
static void ask_survivor(const char *kind, struct shared *my)
{
	CUmemoryPool again = UNTOUCHED(CUmemoryPool);

	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(my->at, 16));
	ASK(ask_name("%s_fill", kind), cuMemsetD8(my->at, 0xe4, 16));
	SAY(ask_name("%s_bytes_after_fill", kind), "%s", vmm_bytes(my->at, 16));
	SAY(ask_name("%s_rights", kind), "%s", pool_rights(my->pool, DEVICE, 0));
	ASK(ask_name("%s_allow", kind), pool_allow(my->pool, DEVICE, 0, WRITE));
	share_ask_usable(ask_name("%s_known_block", kind), my->pool, 0);
	share_ask_usable(ask_name("%s_unknown_block", kind), my->pool, 1);
	ASK_VALUE(ask_name("%s_import_pool", kind), share_import(&again, my->descriptor), "%s", OUT(again));
	ASK(ask_name("%s_free", kind), cuMemFreeAsync(my->at, my->stream));
	ASK(ask_name("%s_synchronize", kind), cuCtxSynchronize());
	ASK(ask_name("%s_destroy", kind), cuMemPoolDestroy(my->pool));
}

/* With a block that is imported and one that is only exported. */
static struct shared prepare(void)
{
	struct shared my = share_all();

	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 's', 1));
	return my;
}

GROUP(exporter_ended)
{
	struct shared my = prepare();

	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
	ask_survivor("ended", &my);
}

GROUP(exporter_killed)
{
	struct shared my = prepare();

	peer_kill(&my.peer);
	ask_survivor("killed", &my);
}

GROUP(exporters_pool_destroyed)
{
	struct shared my = prepare();

	NEED(share_do(&my.peer, 'd', 0));
	ask_survivor("pool_destroyed", &my);
	SAY("pool_destroyed_byte_at_peer", "%s", share_byte(&my.peer, 0));
	ASK("pool_destroyed_free_at_peer", share_do(&my.peer, 'f', 0));
	ASK("pool_destroyed_freed_at_peer", share_do(&my.peer, 's', 0));
	peer_kill(&my.peer);
}

/* An importer that holds a block; then it is told to go, or killed. */
static void importer(struct peer *parent)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr at = 0;
	int descriptor = -1;

	ask_context();
	peer_hear(parent, &descriptor);
	NEED(share_import(&pool, descriptor));
	NEED(cuMemPoolImportPointer(&at, pool, &board->data[0]));
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
}

static void ask_left_alone(const char *kind, bool killed)
{
	CUdeviceptr again = 0;

	share_board();
	struct peer peer = peer_start(importer);
	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = share_make(POSIX);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	int descriptor = share_export(pool);
	CUdeviceptr at = share_fill(pool, 64 * KIB, 0x73);
	NEED(cuMemPoolExportPointer(&board->data[0], at));
	peer_tell(&peer, 0, descriptor);
	peer_hear(&peer, NULL);
	SAY(ask_name("%s_numbers_with_importer", kind), "%s", pool_numbers(pool));
	if (killed) {
		peer_kill(&peer);
	} else {
		peer_tell(&peer, 0, -1);
		peer_wait(&peer);
	}
	SAY(ask_name("%s_numbers", kind), "%s", pool_numbers(pool));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 16));
	ASK(ask_name("%s_free", kind), cuMemFreeAsync(at, stream));
	ASK_VALUE(ask_name("%s_synchronize", kind), cuStreamSynchronize(stream), "%s", pool_numbers(pool));
	ASK_VALUE(ask_name("%s_alloc", kind), cuMemAllocFromPoolAsync(&again, 64 * KIB, pool, stream), "same %s",
		  ask_yes(again == at));
	ASK(ask_name("%s_free_again", kind), cuMemFreeAsync(again, stream));
	NEED(cuStreamSynchronize(stream));
	ASK_VALUE(ask_name("%s_trim", kind), cuMemPoolTrimTo(pool, 0), "%s", pool_numbers(pool));
	ASK(ask_name("%s_destroy", kind), cuMemPoolDestroy(pool));
}

GROUP(importer_ended)
{
	ask_left_alone("importer_ended", false);
}

GROUP(importer_killed)
{
	ask_left_alone("importer_killed", true);
}

/* Whose memory is missing: in steps of 64 MiB, about. */
static int steps(long grains)
{
	return (int)((grains + (grains < 0 ? -16 : 16)) / 32 * 32);
}

ALONE(accounting)
{
	struct shared my = share_pool();
	CUdeviceptr at = 0;

	vmm_measure();
	board->bytes = 64 * MIB;
	long start = vmm_free_grains();
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	SAY("account_alloc_at_peer", "%d", steps(vmm_free_grains() - start));
	ASK_VALUE("account_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%d",
		  steps(vmm_free_grains() - start));
	ASK_VALUE("account_free", cuMemFree(at), "%d", steps(vmm_free_grains() - start));
	NEED(share_do(&my.peer, 'f', 0));
	NEED(share_do(&my.peer, 's', 0));
	ASK_VALUE("account_free_at_peer", share_do(&my.peer, 't', 0), "%d", steps(vmm_await_grains(start) - start));
	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 's', 1));
	NEED(cuMemPoolImportPointer(&at, my.pool, &board->data[1]));
	peer_kill(&my.peer);
	SAY("account_peer_killed", "%d", steps(vmm_free_grains() - start));
	ASK_VALUE("account_free_of_orphan", cuMemFree(at), "%d", steps(vmm_await_grains(start) - start));
	ASK_VALUE("account_destroy", cuMemPoolDestroy(my.pool), "%d", steps(vmm_await_grains(start) - start));
}

static cudaError_t runtime_import(cudaMemPool_t *ret_pool, int descriptor, int type, unsigned int flags)
{
	return cudaMemPoolImportFromShareableHandle(ret_pool, (void *)(uintptr_t)descriptor,
						    (enum cudaMemAllocationHandleType)type, flags);
}

static cudaError_t runtime_export(void *ret_handle, cudaMemPool_t pool, int type, unsigned int flags)
{
	return cudaMemPoolExportToShareableHandle(ret_handle, pool, (enum cudaMemAllocationHandleType)type, flags);
}

static void runtime_exporter(struct peer *parent)
{
	cudaMemPool_t pool = NULL;
	struct cudaMemPoolProps properties;
	struct cudaMemPoolPtrExportData data;
	CUmemFabricHandle fabric;
	int descriptor = UNTOUCHED_INT;
	void *at = NULL;

	memset(&properties, 0, sizeof properties);
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
	ASK("runtime_create", cudaMemPoolCreate(&pool, &properties));
	ASK("runtime_export_null", runtime_export(NULL, pool, POSIX, 0));
	ASK("runtime_export_null_pool", runtime_export(&descriptor, NULL, POSIX, 0));
	ASK("runtime_export_type_0", runtime_export(&descriptor, pool, 0, 0));
	ASK("runtime_export_type_8", runtime_export(&fabric, pool, FABRIC, 0));
	ASK("runtime_export_flags", runtime_export(&descriptor, pool, POSIX, 1));
	ASK_VALUE("runtime_export_last_error", cudaGetLastError(), "%s", share_descriptor(descriptor));
	ASK_VALUE("runtime_export", runtime_export(&descriptor, pool, POSIX, 0), "%s", share_descriptor(descriptor));
	NEED(cudaMallocFromPoolAsync(&at, 4096, pool, NULL));
	NEED(cudaMemsetAsync(at, 0x81, 4096, NULL));
	ASK("runtime_export_pointer_to_null", cudaMemPoolExportPointer(NULL, at));
	ASK("runtime_export_pointer_null", cudaMemPoolExportPointer(&data, NULL));
	ASK("runtime_export_pointer_interior", cudaMemPoolExportPointer(&data, (char *)at + 512));
	ASK("runtime_export_pointer_last_error", cudaGetLastError());
	ASK("runtime_export_pointer", cudaMemPoolExportPointer(&data, at));
	NEED(cudaDeviceSynchronize());
	memcpy(&board->data[0], &data, sizeof data);
	peer_tell(parent, 0, descriptor > 2 && descriptor != UNTOUCHED_INT ? descriptor : -1);
	peer_hear(parent, NULL);
	ASK("runtime_free_at_peer", cudaFree(at));
	ASK("runtime_destroy_at_peer", cudaMemPoolDestroy(pool));
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
}

/* The runtime's related calls, on both sides. */
GROUP(runtime)
{
	struct cudaMemPoolPtrExportData data;
	cudaMemPool_t pool = UNTOUCHED(cudaMemPool_t);
	void *at = UNTOUCHED(void *);
	char byte = 0;
	int descriptor = -1;

	share_board();
	struct peer peer = peer_start(runtime_exporter);
	peer_hear(&peer, &descriptor);
	memcpy(&data, &board->data[0], sizeof data);
	ASK("runtime_import_null", runtime_import(NULL, descriptor, POSIX, 0));
	ASK_VALUE("runtime_import_wrong", runtime_import(&pool, 100000, POSIX, 0), "%s", OUT(pool));
	ASK_VALUE("runtime_import_type_0", runtime_import(&pool, descriptor, 0, 0), "%s", OUT(pool));
	ASK_VALUE("runtime_import_flags", runtime_import(&pool, descriptor, POSIX, 1), "%s", OUT(pool));
	ASK("runtime_import_last_error", cudaGetLastError());
	pool = UNTOUCHED(cudaMemPool_t);
	ASK_VALUE("runtime_import", runtime_import(&pool, descriptor, POSIX, 0), "%s", OUT(pool));
	if (pool == UNTOUCHED(cudaMemPool_t))
		return;
	ASK("runtime_import_pointer_to_null", cudaMemPoolImportPointer(NULL, pool, &data));
	ASK("runtime_import_pointer_null_pool", cudaMemPoolImportPointer(&at, NULL, &data));
	ASK_VALUE("runtime_import_pointer_null_data", cudaMemPoolImportPointer(&at, pool, NULL), "%s", OUT(at));
	ASK("runtime_import_pointer_last_error", cudaGetLastError());
	ASK_VALUE("runtime_import_pointer", cudaMemPoolImportPointer(&at, pool, &data), "%s", OUT(at));
	if (at == UNTOUCHED(void *))
		return;
	ASK_VALUE("runtime_read", cudaMemcpy(&byte, at, 1, cudaMemcpyDeviceToHost), "%02x", (unsigned char)byte);
	ASK("runtime_alloc_from_import", cudaMallocFromPoolAsync(&(void *){NULL}, 4096, pool, NULL));
	ASK("runtime_set_current_import", cudaDeviceSetMemPool(0, pool));
	ASK("runtime_trim_import", cudaMemPoolTrimTo(pool, 0));
	ASK("runtime_last_error", cudaGetLastError());
	ASK("runtime_free", cudaFreeAsync(at, NULL));
	ASK("runtime_synchronize", cudaDeviceSynchronize());
	ASK("runtime_destroy", cudaMemPoolDestroy(pool));
	peer_tell(&peer, 0, -1);
	peer_hear(&peer, NULL);
	peer_kill(&peer);
}
