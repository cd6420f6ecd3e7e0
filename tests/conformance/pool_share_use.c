/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool_share_use": pointers of a shared pool that go to another process, what an imported block is there, its
 * frees on both sides, and the pool's numbers meanwhile.
 */
#define _GNU_SOURCE
#include "pool_block.h"
#include "pool_share.h"

#include "calls.h"

CHAPTER(pool_share_use);

#define per_thread CU_STREAM_PER_THREAD
#define legacy     CU_STREAM_LEGACY

static CUmemPoolPtrExportData filled(int byte)
{
	CUmemPoolPtrExportData data;

	memset(&data, byte, sizeof data);
	return data;
}

static bool equal(const CUmemPoolPtrExportData *left, const CUmemPoolPtrExportData *right)
{
	return memcmp(left, right, sizeof *left) == 0;
}

static void ask_export(const char *kind, CUdeviceptr at)
{
	CUmemPoolPtrExportData data = filled(0x77), untouched = filled(0x77);

	ASK_VALUE(ask_name("export_%s", kind), cuMemPoolExportPointer(&data, at), "%s",
		  equal(&data, &untouched) ? "untouched" : "set");
}

GROUP(export_arguments)
{
	CUmemPoolPtrExportData data = filled(0x77);

	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	CUdeviceptr at = share_fill(pool, 64 * KIB, 0x51);
	ask_export("before_pools_export", at);
	int descriptor = share_export(pool);
	(void)descriptor;
	ASK("export_to_null", cuMemPoolExportPointer(NULL, at));
	ASK("export_0_to_null", cuMemPoolExportPointer(NULL, 0));
	ask_export("0", 0);
	ask_export("1", 1);
	ask_export("unreserved", (CUdeviceptr)1 << 46);
	ask_export("garbage", GARBAGE(CUdeviceptr));
	ask_export("max", ~(CUdeviceptr)0);
	ask_export("interior_1", at + 1);
	ask_export("interior_256", at + 256);
	ask_export("interior_512", at + 512);
	ask_export("last", at + 64 * KIB - 1);
	ask_export("behind", at + 64 * KIB);
	ask_export("behind_1_mib", at + MIB);
	ask_export("before", at - 1);
	ASK("export_block", cuMemPoolExportPointer(&data, at));
	ASK("export_synchronize", cuCtxSynchronize());
}

GROUP(export_other_memory)
{
	CUdeviceptr memory = 0, managed = 0, async = 0;
	void *host = NULL;
	int stack = 0;

	vmm_setup();
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemHostAlloc(&host, 4096, 0));
	NEED(cuMemAllocAsync(&async, 4096, NULL));
	CUdeviceptr mapped = vmm_reserve(2), reserved = vmm_reserve(1);
	vmm_map(mapped, 1, vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX)), WRITE);
	ask_export("memory", memory);
	ask_export("managed", managed);
	ask_export("host", (CUdeviceptr)(uintptr_t)host);
	ask_export("pageable", (CUdeviceptr)(uintptr_t)&stack);
	ask_export("async", async);
	ask_export("mapped", mapped);
	ask_export("reserved", reserved);
	ask_export("plain_pools", pool_alloc(pool_make(0), 4096, NULL));
	ask_export("host_pools", pool_alloc(pool_make_as(pool_properties(PINNED, HOST, 0)), 4096, NULL));
	ask_export("managed_pools", pool_alloc(pool_make_as(pool_properties(MANAGED, DEVICE, 0)), 4096, NULL));
	ASK("export_other_synchronize", cuCtxSynchronize());
}

GROUP(export_other_pools)
{
	ask_context();
	CUmemPoolProps numa = pool_properties(PINNED, NUMA, 0);
	numa.handleTypes = POSIX_TYPE;
	CUmemoryPool pool = pool_make_as(numa);
	share_export(pool);
	ask_export("numa_pools", pool_alloc(pool, 4096, NULL));
	ask_export("fabric_pools", pool_alloc(share_make(FABRIC), 4096, NULL));
	ask_export("pools_of_both", pool_alloc(share_make(POSIX | FABRIC), 4096, NULL));
	ASK("export_other_pools_synchronize", cuCtxSynchronize());
}

/* The pool is the device's current one, and blocks come from it without being asked of it. */
GROUP(export_from_current_pool)
{
	CUdeviceptr at = 0;

	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	share_export(pool);
	ASK("set_current_shareable", cuDeviceSetMemPool(0, pool));
	NEED(cuMemAllocAsync(&at, 4096, NULL));
	ask_export("from_current_pool", at);
	ask_export("from_current_pool_interior", at + 512);
	ASK("free_from_current_pool", cuMemFreeAsync(at, NULL));
	ASK("current_pool_synchronize", cuCtxSynchronize());
}

/* Blocks that were freed, or not yet allocated, when their stream is held. */
GROUP(export_in_stream_order)
{
	ask_context();
	struct gate gate = gate_make();
	CUmemoryPool pool = share_make(POSIX);
	share_export(pool);
	CUstream stream = pool_stream();
	CUdeviceptr kept = pool_alloc(pool, 4096, stream), freed = pool_alloc(pool, 4096, stream);
	CUdeviceptr sync = pool_alloc(pool, 4096, stream);
	(void)kept;
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemFree(sync));
	ask_export("freed_sync", sync);
	gate_close(&gate, stream);
	NEED(cuMemFreeAsync(freed, stream));
	ask_export("freed_unreached", freed);
	CUdeviceptr later = pool_alloc(pool, 64 * KIB, stream);
	ask_export("unreached", later);
	ASK("free_unreached_exported", cuMemFreeAsync(later, stream));
	ask_export("unreached_and_freed", later);
	gate_open(&gate);
	NEED(cuStreamSynchronize(stream));
	ask_export("freed", freed);
	ask_export("kept", kept);
	NEED(cuMemPoolDestroy(pool));
	ask_export("of_destroyed_pool", kept);
}

/* What is the same in two exports. */
GROUP(export_bytes)
{
	CUmemPoolPtrExportData first = filled(1), second = filled(2), third = filled(3), other = filled(4);

	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	share_export(pool);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	CUdeviceptr at = share_fill(pool, 64 * KIB, 0x52), neighbour = share_fill(pool, 64 * KIB, 0x53);
	ASK("export_first", cuMemPoolExportPointer(&first, at));
	ASK("export_again", cuMemPoolExportPointer(&second, at));
	SAY("same_bytes_again", "%s", ask_yes(equal(&first, &second)));
	int descriptor = share_export(pool);
	(void)descriptor;
	ASK("export_after_pools_export", cuMemPoolExportPointer(&third, at));
	SAY("same_bytes_after_pools_export", "%s", ask_yes(equal(&first, &third)));
	ASK("export_neighbour", cuMemPoolExportPointer(&other, neighbour));
	SAY("same_bytes_of_neighbour", "%s", ask_yes(equal(&first, &other)));
	NEED(cuMemFreeAsync(at, NULL));
	CUdeviceptr again = pool_alloc(pool, 64 * KIB, NULL);
	ASK("export_of_reallocated", cuMemPoolExportPointer(&second, again));
	if (again == at)
		SAY("same_bytes_of_reallocated", "%s", ask_yes(equal(&first, &second)));
	ASK("export_bytes_synchronize", cuCtxSynchronize());
	SAY("numbers_after_exports", "%s", pool_numbers(pool));
}

static void ask_import(const char *kind, CUmemoryPool pool, const CUmemPoolPtrExportData *data)
{
	CUmemPoolPtrExportData copy = data ? *data : filled(0);
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(ask_name("import_%s", kind), cuMemPoolImportPointer(&at, pool, data ? &copy : NULL), "%s", OUT(at));
}

GROUP(import_arguments)
{
	struct shared my = share_pool();
	CUmemPoolPtrExportData own;

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	ASK("import_to_null", cuMemPoolImportPointer(NULL, my.pool, &board->data[0]));
	ask_import("null_data", my.pool, NULL);
	ask_import("null_pool", NULL, &board->data[0]);
	ask_import("null_pool_and_data", NULL, NULL);
	ASK("import_all_null", cuMemPoolImportPointer(NULL, NULL, NULL));
	CUmemoryPool plain = pool_make(0), posix = share_make(POSIX);
	ask_import("plain_pool", plain, &board->data[0]);
	ask_import("own_pool", posix, &board->data[0]);
	CUdeviceptr at = share_fill(posix, 4096, 0x54);
	share_export(posix);
	NEED(cuMemPoolExportPointer(&own, at));
	ask_import("own_data", my.pool, &own);
	ask_import("own_data_own_pool", posix, &own);
	share_ask_usable("after_wrong_arguments", my.pool, 0);
	peer_kill(&my.peer);
}

GROUP(import_wrong_pools)
{
	struct shared my = share_pool();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	ask_import("small_pool", SMALL(CUmemoryPool), &board->data[0]);
	ask_import("garbage_pool", GARBAGE(CUmemoryPool), &board->data[0]);
	ask_import("zeros_pool", ZEROS(CUmemoryPool), &board->data[0]);
	CUmemoryPool stale = pool_make(0), first = NULL;
	NEED(cuMemPoolDestroy(stale));
	ask_import("stale_pool", stale, &board->data[0]);
	NEED(cuDeviceGetDefaultMemPool(&first, 0));
	ask_import("default_pool", first, &board->data[0]);
	share_ask_usable("after_wrong_pools", my.pool, 0);
	peer_kill(&my.peer);
}

/* Bytes that no export gave. */
GROUP(import_wrong_data)
{
	static const int fills[] = {0, 0xff, 0x5a, 0x01, 0x80};
	struct shared my = share_pool();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
		CUmemPoolPtrExportData data = filled(fills[i]);
		ask_import(ask_name("bytes_%02x", (unsigned)fills[i]), my.pool, &data);
	}
	share_ask_usable("after_wrong_data", my.pool, 0);
	peer_kill(&my.peer);
}

GROUP(import_wrong_words)
{
	struct shared my = share_pool();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	for (int part = 0; part < 8; part++) {
		CUmemPoolPtrExportData zeros = board->data[0], ones = board->data[0];
		memset(zeros.reserved + part * 8, 0, 8);
		memset(ones.reserved + part * 8, 0xff, 8);
		ask_import(ask_name("word_%d_zeros", part), my.pool, &zeros);
		ask_import(ask_name("word_%d_ones", part), my.pool, &ones);
	}
	share_ask_usable("after_wrong_words", my.pool, 0);
	peer_kill(&my.peer);
}

/* Sixteen bytes of the data, each with its lowest and its highest bit turned. */
static void ask_turned(int from)
{
	struct shared my = share_all();

	for (int i = from; i < from + 16; i++) {
		for (int bit = 0; bit < 8; bit += 7) {
			CUmemPoolPtrExportData data = board->data[0];
			CUdeviceptr at = UNTOUCHED(CUdeviceptr);
			data.reserved[i] ^= (unsigned char)(1 << bit);
			ASK_VALUE(ask_name("import_bit_%d_of_byte_%02d", bit, i),
				  cuMemPoolImportPointer(&at, my.pool, &data), "%s same %s", OUT(at),
				  ask_yes(at == my.at));
		}
	}
	SAY(ask_name("bytes_after_turned_from_%02d", from), "%s", vmm_bytes(my.at, 16));
	peer_kill(&my.peer);
}

GROUP(import_turned_0)
{
	ask_turned(0);
}

GROUP(import_turned_16)
{
	ask_turned(16);
}

GROUP(import_turned_32)
{
	ask_turned(32);
}

GROUP(import_turned_48)
{
	ask_turned(48);
}

/* The data of one exporter's block with the pool of another. */
GROUP(import_crossed)
{
	CUmemoryPool pools[2] = {NULL, NULL};
	struct peer peers[2];
	CUdeviceptr at = 0;

	share_board();
	peers[0] = peer_start(exporter);
	peers[1] = peer_start(exporter);
	ask_context();
	for (int i = 0; i < 2; i++) {
		int descriptor = -1;
		share_tell(&peers[i], 'x', 0, &descriptor);
		NEED(board->result);
		NEED(share_import(&pools[i], descriptor));
		NEED(share_do(&peers[i], 'a', i));
		NEED(share_do(&peers[i], 's', i));
	}
	ASK("uncrossed_import", cuMemPoolImportPointer(&at, pools[0], &board->data[0]));
	SAY("uncrossed_bytes", "%s", vmm_bytes(at, 16));
	ask_import("crossed", pools[0], &board->data[1]);
	ask_import("crossed_back", pools[1], &board->data[0]);
	share_ask_usable("after_crossed", pools[1], 1);
	peer_kill(&peers[0]);
	peer_kill(&peers[1]);
}

/* Between two processes, both ways. */
GROUP(contents)
{
	struct shared my = share_all();
	CUmodule module = NULL;
	CUfunction function = NULL;
	CUdeviceptr memory = 0, other = share_block(&my, 1), base = 0;
	uint32_t count = 4, factor = 3;
	size_t bytes = 0;

	NEED(cuMemAlloc(&memory, 64 * KIB));
	SAY("bytes_at_start", "%s", vmm_bytes(my.at, 16));
	SAY("bytes_at_end", "%s", vmm_bytes(my.at + 64 * KIB - 16, 16));
	SAY("bytes_of_other", "%s", vmm_bytes(other, 16));
	ASK("fill", cuMemsetD8(my.at, 0xd1, 16));
	SAY("bytes_after_fill", "%s", vmm_bytes(my.at, 32));
	SAY("byte_at_peer_after_fill", "%s", share_byte(&my.peer, 0));
	ASK("peer_fills", share_do(&my.peer, 'w', 0));
	ASK("peer_filled", share_do(&my.peer, 's', 0));
	SAY("bytes_after_peers_fill", "%s", vmm_bytes(my.at, 16));
	ASK("fill_async", cuMemsetD8Async(my.at, 0xd2, 16, my.stream));
	ASK("fill_async_done", cuStreamSynchronize(my.stream));
	SAY("byte_at_peer_after_fill_async", "%s", share_byte(&my.peer, 0));
	ASK("htod", cuMemcpyHtoD(my.at, "0123456789abcdef", 16));
	SAY("bytes_after_htod", "%s", vmm_bytes(my.at, 16));
	ASK("dtod_from_import", cuMemcpyDtoD(memory, my.at, 64 * KIB));
	SAY("bytes_after_dtod", "%s", vmm_bytes(memory, 20));
	ASK("dtod_to_import", cuMemcpyDtoD(other, memory, 16));
	NEED(cuCtxSynchronize());
	SAY("byte_at_peer_after_dtod", "%s", share_byte(&my.peer, 1));
	ASK("dtod_between_imports", cuMemcpy(my.at, other, 16));
	NEED(cuModuleLoad(&module, objects_module_path()));
	NEED(cuModuleGetFunction(&function, module, "write_indices"));
	ASK("kernel",
	    cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, my.stream, (void *[]){&my.at, &count, &factor}, NULL));
	SAY("bytes_of_kernel", "%s", vmm_bytes(my.at, 16));
	ASK_VALUE("range_in_the_middle", cuMemGetAddressRange(&base, &bytes, my.at + 1000), "%lld below %zu",
		  (long long)(my.at + 1000 - base), bytes);
	ASK("free", cuMemFreeAsync(my.at, my.stream));
	ASK("free_other", cuMemFree(other));
	ASK("synchronize", cuCtxSynchronize());
	SAY("byte_at_peer_after_frees", "%s", share_byte(&my.peer, 1));
	ASK("peer_frees", share_do(&my.peer, 'f', 0));
	ASK("peer_frees_other", share_do(&my.peer, 'F', 1));
	ASK("peer_freed", share_do(&my.peer, 's', 0));
	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
}

/* Blocks of many sizes: how much of them is seen. */
GROUP(sizes)
{
	static const size_t sizes[] = {1, 255, 512, 513, 65536, 2097152, 2097153, 33554432, 33554433};
	struct shared my = share_pool();

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		CUdeviceptr at = 0, base = 0;
		size_t bytes = 0;
		int number = (int)i % BLOCKS;
		board->bytes = sizes[i];
		ASK(ask_name("size_%zu_at_peer", sizes[i]), share_do(&my.peer, 'a', number));
		NEED(share_do(&my.peer, 's', number));
		ASK(ask_name("size_%zu_import", sizes[i]), cuMemPoolImportPointer(&at, my.pool, &board->data[number]));
		ASK_VALUE(ask_name("size_%zu_range", sizes[i]), cuMemGetAddressRange(&base, &bytes, at), "%s %zu",
			  ask_yes(base == at), bytes);
		SAY(ask_name("size_%zu_aligned", sizes[i]), "%s", ask_yes(at && at % 512 == 0));
		SAY(ask_name("size_%zu_last_byte", sizes[i]), "%s", vmm_bytes(at + sizes[i] - 1, 1));
		ASK(ask_name("size_%zu_free", sizes[i]), cuMemFree(at));
	}
	SAY("numbers_at_peer_after_sizes", "%s", share_numbers(&my.peer));
	peer_kill(&my.peer);
}

/* The same number at both addresses? */
static const char *same_number(CUpointer_attribute attribute, CUdeviceptr left, CUdeviceptr right)
{
	unsigned long long first = 0, second = 0;
	CUresult result = cuPointerGetAttribute(&first, attribute, left);

	if (!result)
		result = cuPointerGetAttribute(&second, attribute, right);
	return result ? ask_driver_code(result) : ask_yes(first == second);
}

GROUP(block_attributes)
{
	struct shared my = share_all();
	unsigned long long before = 0, after = 0;
	CUdeviceptr again = 0;

	board->bytes = 10000;
	CUdeviceptr at = share_block(&my, 1);
	ask_attributes("imported", at, my.pool);
	ask_attributes("interior", at + 5000, my.pool);
	ask_attributes("behind", at + 10001, my.pool);
	SAY("same_buffer_id_in_interior", "%s", same_number(CU_POINTER_ATTRIBUTE_BUFFER_ID, at, at + 5000));
	SAY("same_buffer_id_of_other_block", "%s", same_number(CU_POINTER_ATTRIBUTE_BUFFER_ID, at, my.at));
	SAY("same_block_id_of_other_block", "%s", same_number(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, at, my.at));
	cuPointerGetAttribute(&before, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	NEED(cuMemFreeAsync(at, my.stream));
	NEED(cuStreamSynchronize(my.stream));
	ask_attributes("freed", at, my.pool);
	ASK_VALUE("import_after_free", cuMemPoolImportPointer(&again, my.pool, &board->data[1]), "same %s",
		  ask_yes(again == at));
	cuPointerGetAttribute(&after, CU_POINTER_ATTRIBUTE_BUFFER_ID, again);
	SAY("same_buffer_id_after_free_and_import", "%s", ask_yes(before == after));
	peer_kill(&my.peer);
}

/* Calls that an address of its own would bear. */
GROUP(other_calls)
{
	struct shared my = share_all();
	CUmemLocation place = vmm_place(DEVICE, 0);
	vmm_handle kept = UNTOUCHED(vmm_handle);
	CUmemAccessDesc access = vmm_access(DEVICE, 0, WRITE);
	CUipcMemHandle ipc;
	unsigned int word = 1;
	int descriptor = UNTOUCHED_INT;

	ASK("ipc_handle", cuIpcGetMemHandle(&ipc, my.at));
	ASK("ipc_close", cuIpcCloseMemHandle(my.at));
	ASK_VALUE("retain", cuMemRetainAllocationHandle(&kept, (void *)(uintptr_t)my.at), "%s", OUT(kept));
	ASK("set_sync_memops", cuPointerSetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, my.at));
	ASK("set_access", cuMemSetAccess(my.at, 2 * MIB, &access, 1));
	ASK("prefetch", cuMemPrefetchAsync(my.at, 4096, place, 0, my.stream));
	ASK("advise", cuMemAdvise(my.at, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, place));
	ASK_VALUE("handle_for_range",
		  cuMemGetHandleForAddressRange(&descriptor, my.at, 64 * KIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		  "%s", share_descriptor(descriptor));
	ASK("unmap", cuMemUnmap(my.at, 2 * MIB));
	ASK("address_free", cuMemAddressFree(my.at, 2 * MIB));
	ASK("free_host", cuMemFreeHost((void *)(uintptr_t)my.at));
	ASK("write_value", cuStreamWriteValue32(my.stream, my.at, 0x61616161, 0));
	ASK("write_value_done", cuStreamSynchronize(my.stream));
	SAY("byte_at_peer_after_write_value", "%s", share_byte(&my.peer, 0));
	ASK("wait_value", cuStreamWaitValue32(my.stream, my.at, 0x61616161, CU_STREAM_WAIT_VALUE_EQ));
	ASK("wait_value_done", cuStreamSynchronize(my.stream));
	ASK("other_calls_free", cuMemFreeAsync(my.at, my.stream));
	ASK("other_calls_synchronize", cuCtxSynchronize());
	peer_kill(&my.peer);
}

/* A byte past the block, past its chunk, before it. */
GROUP(out_of_bounds)
{
	static char room[16384];
	struct shared my = share_pool();

	board->bytes = 10000;
	CUdeviceptr at = share_block(&my, 0);
	ask_guard();
	ASK("fill_to_the_end", cuMemsetD8(at, 0xd3, 10000));
	ASK("fill_1_past_the_end", cuMemsetD8(at, 0xd4, 10001));
	ASK("fill_behind", cuMemsetD8(at + 10000, 0xd5, 16));
	ASK("fill_behind_the_unit", cuMemsetD8(at + 10240, 0xd6, 512));
	ASK("fill_past_the_chunk", cuMemsetD8(at, 0xd7, 64 * MIB));
	ASK("copy_1_past_the_end", cuMemcpyDtoH(room, at, 10001));
	ASK("copy_before", cuMemcpyDtoH(room, at - 1, 2));
	SAY("bytes_after_out_of_bounds", "%s", vmm_bytes(at + 9992, 8));
	peer_kill(&my.peer);
}

/* One pointer imported more than once. */
GROUP(imported_twice)
{
	struct shared my = share_all();
	CUdeviceptr second = 0, third = 0;

	ask_guard();
	ASK_VALUE("second_import", cuMemPoolImportPointer(&second, my.pool, &board->data[0]), "same %s",
		  ask_yes(second == my.at));
	ASK("fill_by_second", cuMemsetD8(second, 0xd8, 16));
	SAY("bytes_by_first", "%s", vmm_bytes(my.at, 16));
	ASK("free_first_of_two", cuMemFreeAsync(my.at, my.stream));
	ASK("freed_first_of_two", cuStreamSynchronize(my.stream));
	SAY("bytes_by_second_after_free", "%s", vmm_bytes(second, 16));
	ASK("free_second_of_two", cuMemFreeAsync(second, my.stream));
	ASK("freed_second_of_two", cuStreamSynchronize(my.stream));
	ASK("free_third_of_two", cuMemFreeAsync(second, my.stream));
	SAY("bytes_after_all_frees", "%s", vmm_bytes(second, 16));
	ASK_VALUE("import_after_all_frees", cuMemPoolImportPointer(&third, my.pool, &board->data[0]), "same %s",
		  ask_yes(third == my.at));
	SAY("bytes_after_import_again", "%s", vmm_bytes(third, 16));
	ASK("free_after_import_again", cuMemFree(third));
	peer_kill(&my.peer);
}

/* Each way to free an import, and then again. */
static void ask_free(const char *kind, CUresult (*let_go)(CUdeviceptr at, CUstream stream))
{
	struct shared my = share_all();
	CUdeviceptr again = 0;

	ASK(ask_name("free_%s", kind), let_go(my.at, my.stream));
	ASK(ask_name("free_%s_synchronize", kind), cuCtxSynchronize());
	SAY(ask_name("free_%s_memory_type", kind), "%d", pool_pointer_word(my.at, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
	ASK(ask_name("free_%s_again", kind), let_go(my.at, my.stream));
	ASK(ask_name("free_%s_import_again", kind), cuMemPoolImportPointer(&again, my.pool, &board->data[0]));
	if (again)
		SAY(ask_name("free_%s_bytes_again", kind), "%s", vmm_bytes(again, 16));
	SAY(ask_name("free_%s_byte_at_peer", kind), "%s", share_byte(&my.peer, 0));
	SAY(ask_name("free_%s_numbers_at_peer", kind), "%s", share_numbers(&my.peer));
	peer_kill(&my.peer);
}

static CUresult free_sync(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFree(at);
}

static CUresult free_on_null(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFreeAsync(at, NULL);
}

static CUresult free_on_legacy(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFreeAsync(at, legacy);
}

static CUresult free_on_per_thread(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFreeAsync(at, per_thread);
}

static CUresult free_interior(CUdeviceptr at, CUstream stream)
{
	return cuMemFreeAsync(at + 512, stream);
}

static CUresult free_interior_sync(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFree(at + 512);
}

static CUresult free_behind(CUdeviceptr at, CUstream stream)
{
	return cuMemFreeAsync(at + 64 * KIB, stream);
}

#define FREE(name, let_go)               \
	GROUP(free_##name)               \
	{                                \
		ask_free(#name, let_go); \
	}

FREE(in_stream, cuMemFreeAsync)
FREE(sync, free_sync)
FREE(on_null, free_on_null)
FREE(on_legacy, free_on_legacy)
FREE(on_per_thread, free_on_per_thread)
FREE(interior, free_interior)
FREE(interior_sync, free_interior_sync)
FREE(behind, free_behind)

/* On a stream that is no more: the block must still be there. */
GROUP(free_on_wrong_streams)
{
	struct shared my = share_all();

	ASK("free_on_small_stream", cuMemFreeAsync(my.at, SMALL(CUstream)));
	SAY("bytes_after_small_stream", "%s", vmm_bytes(my.at, 16));
	CUstream stale = pool_stream();
	NEED(cuStreamDestroy(stale));
	ASK("free_on_stale_stream", cuMemFreeAsync(my.at, stale));
	SAY("bytes_after_stale_stream", "%s", vmm_bytes(my.at, 16));
	ASK("free_on_good_stream", cuMemFreeAsync(my.at, my.stream));
	ASK("free_on_good_stream_done", cuStreamSynchronize(my.stream));
	peer_kill(&my.peer);
}

/* The importer's free waits in its stream. */
GROUP(free_held)
{
	struct shared my = share_all();
	struct gate gate = gate_make();
	CUdeviceptr again = 0;

	gate_close(&gate, my.stream);
	ASK("held_free", cuMemFreeAsync(my.at, my.stream));
	ASK("held_free_again", cuMemFreeAsync(my.at, my.stream));
	ASK_VALUE("held_import_again", cuMemPoolImportPointer(&again, my.pool, &board->data[0]), "same %s",
		  ask_yes(again == my.at));
	ASK("held_fill_in_another_stream", cuMemsetD8Async(my.at, 0xd9, 16, per_thread));
	ASK("held_fill_done", cuStreamSynchronize(per_thread));
	ASK("held_peer_frees", share_do(&my.peer, 'f', 0));
	ASK("held_peer_freed", share_do(&my.peer, 's', 0));
	SAY("held_numbers_at_peer", "%s", share_numbers(&my.peer));
	gate_open(&gate);
	ASK("held_let_go", cuStreamSynchronize(my.stream));
	SAY("held_numbers_at_peer_at_end", "%s", share_numbers(&my.peer));
	peer_kill(&my.peer);
}

/* The exporter's numbers through a block's life. */
GROUP(numbers)
{
	struct shared my = share_pool();
	CUdeviceptr at = 0;

	SAY("numbers_empty", "%s", share_numbers(&my.peer));
	ASK("numbers_alloc", share_do(&my.peer, 'a', 0));
	ASK("numbers_alloc_done", share_do(&my.peer, 's', 0));
	SAY("numbers_exported", "%s", share_numbers(&my.peer));
	ASK_VALUE("numbers_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s",
		  share_numbers(&my.peer));
	SAY("numbers_here", "%s", pool_numbers(my.pool));
	ASK_VALUE("numbers_free_here", cuMemFree(at), "%s", share_numbers(&my.peer));
	SAY("numbers_here_after_free", "%s", pool_numbers(my.pool));
	ASK_VALUE("numbers_free", share_do(&my.peer, 'f', 0), "%s", share_numbers(&my.peer));
	ASK_VALUE("numbers_free_done", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	ASK_VALUE("numbers_trim", share_do(&my.peer, 't', 0), "%s", share_numbers(&my.peer));
	peer_kill(&my.peer);
}

/* The exporter frees first, against the rules: what the importer sees, and whether the block is used again. */
GROUP(freed_early)
{
	struct shared my = share_all();
	CUdeviceptr again = UNTOUCHED(CUdeviceptr);

	ask_guard();
	ASK("early_free", share_do(&my.peer, 'f', 0));
	ASK_VALUE("early_free_done", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	SAY("early_bytes", "%s", vmm_bytes(my.at, 16));
	ASK("early_export_again", share_do(&my.peer, 'p', 0));
	ASK_VALUE("early_import_again", cuMemPoolImportPointer(&again, my.pool, &board->data[0]), "%s", OUT(again));
	ASK("early_alloc", share_do(&my.peer, 'a', 1));
	ASK("early_alloc_done", share_do(&my.peer, 's', 1));
	SAY("early_bytes_after_alloc", "%s", vmm_bytes(my.at, 16));
	ASK("early_trim", share_do(&my.peer, 't', 0));
	SAY("early_bytes_after_trim", "%s", vmm_bytes(my.at, 16));
	ASK("early_free_here", cuMemFreeAsync(my.at, my.stream));
	ASK("early_free_here_done", cuStreamSynchronize(my.stream));
	SAY("early_numbers_at_end", "%s", share_numbers(&my.peer));
	ASK("early_pool_destroyed", share_do(&my.peer, 'd', 0));
	peer_kill(&my.peer);
}

/* The data of a block that its exporter has freed, and of one that took its place. */
GROUP(freed_before_import)
{
	struct shared my = share_pool();
	CUdeviceptr at = UNTOUCHED(CUdeviceptr), second = UNTOUCHED(CUdeviceptr);

	ask_guard();
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 'f', 0));
	NEED(share_do(&my.peer, 's', 0));
	ASK_VALUE("stale_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	if (at != UNTOUCHED(CUdeviceptr))
		SAY("stale_bytes", "%s", vmm_bytes(at, 16));
	NEED(share_do(&my.peer, 'a', 2));
	NEED(share_do(&my.peer, 's', 2));
	ASK_VALUE("replaced_import", cuMemPoolImportPointer(&second, my.pool, &board->data[0]), "%s", OUT(second));
	if (second != UNTOUCHED(CUdeviceptr))
		SAY("replaced_bytes", "%s", vmm_bytes(second, 16));
	share_ask_usable("after_stale", my.pool, 1);
	peer_kill(&my.peer);
}

/* The exporter trims away the memory of what it freed, and then the data is used. */
GROUP(trimmed_before_import)
{
	struct shared my = share_pool();
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ask_guard();
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 'f', 0));
	NEED(share_do(&my.peer, 's', 0));
	NEED(share_do(&my.peer, 't', 0));
	ASK_VALUE("trimmed_import", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	if (at != UNTOUCHED(CUdeviceptr))
		SAY("trimmed_bytes", "%s", vmm_bytes(at, 16));
	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 's', 1));
	share_ask_usable("after_trimmed", my.pool, 1);
	peer_kill(&my.peer);
}

/* The pool grows and shrinks while it is shared. */
GROUP(grown)
{
	struct shared my = share_pool();
	CUdeviceptr at[4] = {0};

	board->bytes = 40 * MIB;
	for (int i = 0; i < 4; i++) {
		ASK_VALUE(ask_name("grown_%d_at_peer", i), share_do(&my.peer, 'a', i), "%s", share_numbers(&my.peer));
		NEED(share_do(&my.peer, 's', i));
		ASK(ask_name("grown_%d_import", i), cuMemPoolImportPointer(&at[i], my.pool, &board->data[i]));
		SAY(ask_name("grown_%d_bytes", i), "%s", vmm_bytes(at[i] + 40 * MIB - 16, 16));
	}
	for (int i = 0; i < 4; i++)
		ASK(ask_name("grown_%d_free", i), cuMemFreeAsync(at[i], my.stream));
	ASK("grown_freed", cuStreamSynchronize(my.stream));
	for (int i = 0; i < 3; i++)
		ASK(ask_name("grown_%d_free_at_peer", i), share_do(&my.peer, 'f', i));
	ASK_VALUE("shrunk_at_peer", share_do(&my.peer, 's', 0), "%s", share_numbers(&my.peer));
	ASK_VALUE("shrunk_and_trimmed", share_do(&my.peer, 't', 0), "%s", share_numbers(&my.peer));
	share_ask_usable("shrunk", my.pool, 3);
	board->bytes = 4096;
	ASK("grown_again_at_peer", share_do(&my.peer, 'a', 5));
	ASK("grown_again_done", share_do(&my.peer, 's', 5));
	share_ask_usable("grown_again", my.pool, 5);
	peer_kill(&my.peer);
}
