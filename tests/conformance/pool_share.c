/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool_share": pools that leave the process through a handle and come into another one, and what an imported
 * pool may do there.
 */
#define _GNU_SOURCE
#include "pool_share.h"
#include "descriptors.h"

CHAPTER(pool_share);

/* Room for either kind of handle. */
union handle {
	int descriptor;
	CUmemFabricHandle fabric;
};

static union handle untouched_handle(void)
{
	union handle out;

	memset(&out, 0, sizeof out);
	out.descriptor = UNTOUCHED_INT;
	return out;
}

static void ask_export(const char *question, CUmemoryPool pool, int type, unsigned long long flags)
{
	union handle out = untouched_handle();

	ASK_VALUE(question, cuMemPoolExportToShareableHandle(&out, pool, (CUmemAllocationHandleType)type, flags), "%s",
		  out.descriptor == UNTOUCHED_INT ? "untouched" : "set");
}

/* A pool of its own that still gives memory. */
static void ask_alive(const char *kind, CUmemoryPool pool)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(ask_name("%s_still_allocates", kind), cuMemAllocFromPoolAsync(&at, 4096, pool, NULL), "%s", OUT(at));
	if (at == UNTOUCHED(CUdeviceptr))
		return;
	ASK(ask_name("%s_still_frees", kind), cuMemFreeAsync(at, NULL));
	ASK(ask_name("%s_still_synchronizes", kind), cuCtxSynchronize());
}

/* Every type asked of a pool that was made with these. */
static void ask_types(int made_with)
{
	static const int types[] = {0, 1, 2, 3, 4, 5, 8, 9, 16, 0x7fffffff, -1};
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);
	CUmemoryPool pool = NULL;

	ask_context();
	properties.handleTypes = (CUmemAllocationHandleType)made_with;
	ASK(ask_name("create_with_%d", made_with), cuMemPoolCreate(&pool, &properties));
	if (!pool)
		return;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		ask_export(ask_name("export_%d_of_%d", types[i], made_with), pool, types[i], 0);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		ask_export(ask_name("export_%d_of_%d_flags_1", types[i], made_with), pool, types[i], 1);
	ask_alive(ask_name("pool_with_%d", made_with), pool);
	ASK(ask_name("destroy_with_%d", made_with), cuMemPoolDestroy(pool));
}

GROUP(types_of_0)
{
	ask_types(0);
}

GROUP(types_of_posix)
{
	ask_types(1);
}

GROUP(types_of_fabric)
{
	ask_types(8);
}

GROUP(types_of_both)
{
	ask_types(9);
}

GROUP(export_arguments)
{
	static const unsigned long long flags[] = {1, 2, 4, 0x80000000ull, 1ull << 32, 1ull << 63, ~0ull};
	CUmemAllocationHandleType none = (CUmemAllocationHandleType)0;

	ask_context();
	CUmemoryPool pool = share_make(POSIX), plain = pool_make(0);
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		ask_export(ask_name("export_flags_%llx", flags[i]), pool, POSIX, flags[i]);
	ask_export("export_null_pool", NULL, POSIX, 0);
	ask_export("export_null_pool_flags", NULL, POSIX, 1);
	ask_export("export_null_pool_type_0", NULL, 0, 0);
	ASK("export_null", cuMemPoolExportToShareableHandle(NULL, pool, POSIX_TYPE, 0));
	ASK("export_null_null_pool", cuMemPoolExportToShareableHandle(NULL, NULL, POSIX_TYPE, 0));
	ASK("export_null_type_0", cuMemPoolExportToShareableHandle(NULL, pool, none, 0));
	ASK("export_null_of_plain", cuMemPoolExportToShareableHandle(NULL, plain, POSIX_TYPE, 0));
	ask_export("export_after_failures", pool, POSIX, 0);
	ask_alive("after_exports", pool);
}

/* Pools that cannot be shared, each in a process of its own since some are no pools at all. */
static void ask_wrong_export(const char *kind, CUmemoryPool pool)
{
	ask_export(ask_name("export_posix_of_%s", kind), pool, POSIX, 0);
	ask_export(ask_name("export_fabric_of_%s", kind), pool, FABRIC, 0);
	ask_export(ask_name("export_flags_of_%s", kind), pool, POSIX, 1);
	ASK(ask_name("synchronize_after_%s", kind), cuCtxSynchronize());
}

#define WRONG_EXPORT(name, pool)               \
	GROUP(export_##name)                   \
	{                                      \
		ask_context();                 \
		ask_wrong_export(#name, pool); \
	}

WRONG_EXPORT(small, SMALL(CUmemoryPool))
WRONG_EXPORT(garbage, GARBAGE(CUmemoryPool))
WRONG_EXPORT(zeros, ZEROS(CUmemoryPool))
WRONG_EXPORT(host, pool_make_as(pool_properties(PINNED, HOST, 0)))
WRONG_EXPORT(numa, pool_make_as(pool_properties(PINNED, NUMA, 0)))
WRONG_EXPORT(managed, pool_make_as(pool_properties(MANAGED, DEVICE, 0)))

GROUP(export_default)
{
	CUmemoryPool pool = NULL;

	ask_context();
	NEED(cuDeviceGetDefaultMemPool(&pool, 0));
	ask_wrong_export("default", pool);
}

GROUP(export_destroyed)
{
	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	NEED(cuMemPoolDestroy(pool));
	ask_wrong_export("destroyed", pool);
}

/* Its blocks keep it. */
GROUP(export_dying)
{
	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	CUdeviceptr at = share_fill(pool, 4096, 0x41);
	NEED(cuMemPoolDestroy(pool));
	ask_wrong_export("dying", pool);
	SAY("dying_block_bytes", "%s", vmm_bytes(at, 16));
}

GROUP(export_contextless)
{
	union handle out = untouched_handle();
	CUmemoryPool got = NULL;
	CUcontext context = ask_context();

	CUmemoryPool pool = share_make(POSIX);
	NEED(cuCtxSetCurrent(NULL));
	ask_export("export_without_context", pool, POSIX, 0);
	ask_export("export_without_context_flags", pool, POSIX, 1);
	NEED(cuMemPoolExportToShareableHandle(&out, pool, POSIX_TYPE, 0));
	ASK_VALUE("import_without_context", share_import(&got, out.descriptor), "%s", OUT(got));
	NEED(cuCtxSetCurrent(context));
	ask_export("export_with_context_again", pool, POSIX, 0);
}

GROUP(descriptors)
{
	int first = UNTOUCHED_INT, second = UNTOUCHED_INT;
	CUmemoryPool got = NULL, again = NULL;

	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	ASK_VALUE("export_first", cuMemPoolExportToShareableHandle(&first, pool, POSIX_TYPE, 0), "%s open %s",
		  share_descriptor(first), ask_yes(is_open(first)));
	ASK_VALUE("export_second", cuMemPoolExportToShareableHandle(&second, pool, POSIX_TYPE, 0), "%s open %s",
		  share_descriptor(second), ask_yes(is_open(second)));
	if (first == UNTOUCHED_INT)
		return;
	SAY("two_descriptors_differ", "%s", ask_yes(first != second));
	SAY("descriptor_closes_on_exec", "%s", ask_yes(fcntl(first, F_GETFD) & FD_CLOEXEC));
	SAY("close_first", "%d", close(first));
	ASK("import_second_after_close_of_first", share_import(&got, second));
	SAY("import_leaves_descriptor_open", "%s", ask_yes(is_open(second)));
	first = dup(second);
	SAY("close_second", "%d", close(second));
	ASK("import_duplicate", share_import(&again, first));
	SAY("close_duplicate", "%d", close(first));
	SAY("rights_after_all_closed", "%s", pool_rights(again, DEVICE, 0));
	ASK_VALUE("export_after_all_closed", cuMemPoolExportToShareableHandle(&first, pool, POSIX_TYPE, 0), "%s",
		  share_descriptor(first));
	ASK("destroy_first_import", cuMemPoolDestroy(got));
	ASK("destroy_second_import", cuMemPoolDestroy(again));
	SAY("descriptor_open_after_imports_ended", "%s", ask_yes(is_open(first)));
	ASK("destroy_origin", cuMemPoolDestroy(pool));
	SAY("descriptor_open_after_origin_ended", "%s", ask_yes(is_open(first)));
	ASK("import_after_origin_ended", share_import(&got, first));
}

/* Imports of what is not a pool's descriptor. */
static void wrong_descriptor(const char *name, int descriptor)
{
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);

	ASK_VALUE(ask_name("import_%s", name), share_import(&pool, descriptor), "%s", OUT(pool));
}

GROUP(import_wrong_descriptors)
{
	int packets[2] = {-1, -1}, listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	ask_context();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets))
		return;
	ask_wrong_descriptors(wrong_descriptor);
	wrong_descriptor("packet_socket", packets[0]);
	wrong_descriptor("unbound_socket", listener);
	SAY("wrong_descriptors_still_open", "%s %s %s %s", ask_yes(is_open(wrong.null)), ask_yes(is_open(wrong.memory)),
	    ask_yes(is_open(wrong.pipe[0])), ask_yes(is_open(packets[0])));
}

/* A descriptor of memory where a pool's is wanted, and a pool's where memory's is. */
GROUP(descriptors_exchanged)
{
	vmm_handle got = UNTOUCHED(vmm_handle);
	CUmemoryPool imported = NULL;
	int memory = -1;

	vmm_setup();
	vmm_handle handle = vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX));
	NEED(cuMemExportToShareableHandle(&memory, handle, POSIX_TYPE, 0));
	wrong_descriptor("descriptor_of_memory", memory);
	CUmemoryPool pool = share_make(POSIX);
	int descriptor = share_export(pool);
	ASK_VALUE("import_as_memory", cuMemImportFromShareableHandle(&got, (void *)(uintptr_t)descriptor, POSIX_TYPE),
		  "%s", OUT(got));
	ASK("import_after_exchange", share_import(&imported, descriptor));
}

GROUP(import_arguments)
{
	static const int types[] = {0, 2, 3, 4, 5, 9, 16, 0x7fffffff, -1};
	static const unsigned long long flags[] = {1, 2, 0x80000000ull, 1ull << 63};

	ask_context();
	CUmemoryPool pool = share_make(POSIX), got = UNTOUCHED(CUmemoryPool);
	int descriptor = share_export(pool);
	void *handle = (void *)(uintptr_t)descriptor;
	ASK("import_null", share_import(NULL, descriptor));
	ASK("import_null_of_wrong", share_import(NULL, -1));
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		got = UNTOUCHED(CUmemoryPool);
		ASK_VALUE(ask_name("import_type_%d", types[i]),
			  cuMemPoolImportFromShareableHandle(&got, handle, (CUmemAllocationHandleType)types[i], 0),
			  "%s", OUT(got));
	}
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		got = UNTOUCHED(CUmemoryPool);
		ASK_VALUE(ask_name("import_flags_%llx", flags[i]),
			  cuMemPoolImportFromShareableHandle(&got, handle, POSIX_TYPE, flags[i]), "%s", OUT(got));
	}
	ASK("import_high_bits", cuMemPoolImportFromShareableHandle(
					&got, (void *)((uintptr_t)descriptor | (uintptr_t)1 << 40), POSIX_TYPE, 0));
	SAY("descriptor_open_after_failures", "%s", ask_yes(is_open(descriptor)));
	got = UNTOUCHED(CUmemoryPool);
	ASK_VALUE("import", share_import(&got, descriptor), "%s", OUT(got));
	ask_alive("origin_after_imports", pool);
}

/* Fabric handles that no exporter made. */
GROUP(import_wrong_fabric)
{
	static const int fills[] = {0, 0xff, 0x5a};

	ask_context();
	for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
		CUmemFabricHandle fabric;
		CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
		memset(&fabric, fills[i], sizeof fabric);
		ASK_VALUE(ask_name("import_fabric_%02x", (unsigned)fills[i]),
			  cuMemPoolImportFromShareableHandle(&pool, &fabric, FABRIC_TYPE, 0), "%s", OUT(pool));
	}
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
	ASK_VALUE("import_fabric_null", cuMemPoolImportFromShareableHandle(&pool, NULL, FABRIC_TYPE, 0), "%s",
		  OUT(pool));
	ASK("import_fabric_flags", cuMemPoolImportFromShareableHandle(&pool, ask_zeros, FABRIC_TYPE, 1));
	ASK("import_fabric_no_output", cuMemPoolImportFromShareableHandle(NULL, ask_zeros, FABRIC_TYPE, 0));
}

/* A pool that goes by fabric handle, where the device can. */
static void ask_fabric(const char *kind, int types)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);
	CUmemoryPool got = UNTOUCHED(CUmemoryPool);

	share_board();
	board->properties = properties;
	board->properties.handleTypes = (CUmemAllocationHandleType)types;
	struct peer peer = peer_start(exporter);
	ask_context();
	ASK(ask_name("%s_export_at_peer", kind), share_do(&peer, 'm', 0));
	if (!board->result) {
		ASK_VALUE(ask_name("%s_import", kind),
			  cuMemPoolImportFromShareableHandle(&got, &board->fabric, FABRIC_TYPE, 0), "%s", OUT(got));
		ASK(ask_name("%s_block_at_peer", kind), share_do(&peer, 'a', 0));
		ASK(ask_name("%s_block_is_there", kind), share_do(&peer, 's', 0));
		if (got != UNTOUCHED(CUmemoryPool))
			share_ask_usable(kind, got, 0);
	}
	peer_kill(&peer);
}

GROUP(fabric_alone)
{
	ask_fabric("fabric", FABRIC);
}

GROUP(fabric_and_posix)
{
	ask_fabric("both_by_fabric", FABRIC | POSIX);
}

/* A pool of other kinds goes by descriptor. */
static void ask_kind(const char *kind, CUmemPoolProps properties)
{
	CUmemoryPool got = UNTOUCHED(CUmemoryPool);
	struct shared my = share_begin_as(properties);

	ASK_VALUE(ask_name("%s_import", kind), share_import(&got, my.descriptor), "%s", OUT(got));
	if (got == UNTOUCHED(CUmemoryPool))
		return;
	SAY(ask_name("%s_rights", kind), "device %s host %s numa %s", pool_rights(got, DEVICE, 0),
	    pool_rights(got, HOST, 0), pool_rights(got, NUMA, 0));
	ASK(ask_name("%s_allow_device", kind), pool_allow(got, DEVICE, 0, WRITE));
	ASK(ask_name("%s_block_at_peer", kind), share_do(&my.peer, 'a', 0));
	ASK(ask_name("%s_block_is_there", kind), share_do(&my.peer, 's', 0));
	share_ask_usable(kind, got, 0);
	peer_kill(&my.peer);
}

GROUP(numa_kind)
{
	CUmemPoolProps properties = pool_properties(PINNED, NUMA, 0);

	properties.handleTypes = POSIX_TYPE;
	ask_kind("numa", properties);
}

GROUP(limited_kind)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);

	properties.handleTypes = POSIX_TYPE;
	properties.maxSize = 64 * MIB;
	ask_kind("limited", properties);
}

/* Exporter and importer are one process. */
GROUP(import_at_home)
{
	CUmemoryPool first = NULL, second = NULL;
	CUdeviceptr got = UNTOUCHED(CUdeviceptr), from_second = 0, own = UNTOUCHED(CUdeviceptr);
	CUmemPoolPtrExportData data;

	ask_context();
	CUmemoryPool pool = share_make(POSIX);
	CUdeviceptr at = share_fill(pool, 64 * KIB, 0x42);
	int descriptor = share_export(pool);
	ASK_VALUE("home_import", share_import(&first, descriptor), "same as origin %s", ask_yes(first == pool));
	ASK_VALUE("home_import_again", share_import(&second, descriptor), "same as first %s same as origin %s",
		  ask_yes(first == second), ask_yes(second == pool));
	if (!first)
		return;
	SAY("home_rights", "%s host %s", pool_rights(first, DEVICE, 0), pool_rights(first, HOST, 0));
	SAY("home_numbers", "%s", pool_numbers(first));
	NEED(cuMemPoolExportPointer(&data, at));
	ASK_VALUE("home_import_pointer", cuMemPoolImportPointer(&got, first, &data), "%s same %s", OUT(got),
		  ask_yes(got == at));
	ASK_VALUE("home_import_pointer_to_second", cuMemPoolImportPointer(&from_second, second, &data),
		  "same as first's %s", ask_yes(from_second == got));
	ASK_VALUE("home_import_pointer_to_origin", cuMemPoolImportPointer(&own, pool, &data), "%s same %s", OUT(own),
		  ask_yes(own == at));
	SAY("home_bytes", "%s", vmm_bytes(got, 16));
	ASK("home_fill", cuMemsetD8(got, 0x43, 16));
	SAY("home_bytes_at_origin", "%s", vmm_bytes(at, 16));
	ASK("home_free_import", cuMemFreeAsync(got, NULL));
	ASK("home_synchronize", cuCtxSynchronize());
	SAY("home_bytes_after_free", "%s", vmm_bytes(at, 16));
	ASK("home_destroy_first", cuMemPoolDestroy(first));
	ASK("home_destroy_origin", cuMemPoolDestroy(pool));
	ASK("home_free_origin", cuMemFreeAsync(at, NULL));
	ASK("home_synchronize_at_end", cuCtxSynchronize());
}

GROUP(two_processes)
{
	struct shared my = share_begin();
	CUmemoryPool first = UNTOUCHED(CUmemoryPool), second = NULL, third = NULL;
	CUdeviceptr at = 0, other = 0;

	ASK_VALUE("import_from_peer", share_import(&first, my.descriptor), "%s", OUT(first));
	SAY("import_from_peer_leaves_descriptor_open", "%s", ask_yes(is_open(my.descriptor)));
	ASK_VALUE("import_from_peer_again", share_import(&second, my.descriptor), "same %s", ask_yes(first == second));
	close(my.descriptor);
	SAY("rights_after_close", "%s", pool_rights(first, DEVICE, 0));
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	ASK("import_pointer_after_close", cuMemPoolImportPointer(&at, first, &board->data[0]));
	SAY("bytes_of_peer", "%s", vmm_bytes(at, 16));
	ASK_VALUE("import_pointer_to_second", cuMemPoolImportPointer(&other, second, &board->data[0]), "same %s",
		  ask_yes(at == other));
	ASK("free_first", cuMemFree(at));
	SAY("bytes_by_second", "%s", vmm_bytes(other, 16));
	ASK("destroy_first_of_two", cuMemPoolDestroy(first));
	SAY("rights_of_second_of_two", "%s", pool_rights(second, DEVICE, 0));
	share_ask_usable("second_of_two", second, 0);
	share_tell(&my.peer, 'x', 0, &my.descriptor);
	share_do(&my.peer, 'c', 0);
	ASK("import_of_second_export", share_import(&third, my.descriptor));
	share_ask_usable("second_export", third, 0);
	ASK("destroy_second_of_two", cuMemPoolDestroy(second));
	ASK("destroy_third", cuMemPoolDestroy(third));
	SAY("peer_allocates_at_end", "%s", ask_driver_code(share_do(&my.peer, 'a', 1)));
	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
}

/* Every attribute there is, and some there are not. */
GROUP(imported_attributes)
{
	struct shared my = share_all();

	SAY("numbers_at_peer_with_block", "%s", share_numbers(&my.peer));
	for (int i = -1; i <= 16; i++) {
		unsigned long long wide[2] = {UNTOUCHED_INT, 0}, zero[2] = {0, 0}, one[2] = {1, 0};
		CUmemPool_attribute attribute = (CUmemPool_attribute)i;
		ASK_VALUE(ask_name("imported_get_%d", i), cuMemPoolGetAttribute(my.pool, attribute, wide), "%llx",
			  wide[0]);
		ASK_VALUE(ask_name("imported_set_%d_0", i), cuMemPoolSetAttribute(my.pool, attribute, zero), "now %s",
			  pool_get(my.pool, i));
		ASK_VALUE(ask_name("imported_set_%d_1", i), cuMemPoolSetAttribute(my.pool, attribute, one), "now %s",
			  pool_get(my.pool, i));
	}
	ASK("imported_get_null", cuMemPoolGetAttribute(my.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
	ASK("imported_set_null", cuMemPoolSetAttribute(my.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
	SAY("numbers_at_peer_after_sets", "%s", share_numbers(&my.peer));
	SAY("bytes_after_sets", "%s", vmm_bytes(my.at, 16));
	peer_kill(&my.peer);
}

/* What a pool of one's own may do. */
GROUP(imported_may_not)
{
	struct shared my = share_all();
	CUmemLocation place = vmm_place(DEVICE, 0);
	CUmemoryPool current = NULL, got = NULL;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	NEED(cuDeviceGetMemPool(&current, 0));
	ASK_VALUE("imported_alloc", cuMemAllocFromPoolAsync(&at, 4096, my.pool, my.stream), "%s", OUT(at));
	ASK_VALUE("imported_alloc_0", cuMemAllocFromPoolAsync(&at, 0, my.pool, my.stream), "%s", OUT(at));
	ASK_VALUE("imported_alloc_on_null", cuMemAllocFromPoolAsync(&at, 4096, my.pool, NULL), "%s", OUT(at));
	ASK("imported_alloc_null", cuMemAllocFromPoolAsync(NULL, 4096, my.pool, my.stream));
	ASK("imported_trim_0", cuMemPoolTrimTo(my.pool, 0));
	ASK("imported_trim_max", cuMemPoolTrimTo(my.pool, SIZE_MAX));
	ASK_VALUE("imported_set_current", cuDeviceSetMemPool(0, my.pool), "now %s",
		  cuDeviceGetMemPool(&got, 0) ? "unknown" : pool_which(got, current, my.pool));
	ASK_VALUE("alloc_after_imported_set_current", cuMemAllocAsync(&at, 4096, my.stream), "%s", OUT(at));
	ASK("set_current_back", cuDeviceSetMemPool(0, current));
	ASK_VALUE("imported_set_at_device", cuMemSetMemPool(&place, (CUmemAllocationType)PINNED, my.pool), "now %s",
		  cuDeviceGetMemPool(&got, 0) ? "unknown" : pool_which(got, current, my.pool));
	ASK("set_current_back_again", cuDeviceSetMemPool(0, current));
	SAY("bytes_after_all", "%s", vmm_bytes(my.at, 16));
	share_ask_usable("after_all", my.pool, 0);
	peer_kill(&my.peer);
}

GROUP(imported_export)
{
	static const int types[] = {0, 1, 2, 4, 8, 9, -1};
	struct shared my = share_all();
	CUmemPoolPtrExportData data;
	union handle out = untouched_handle();
	CUmemoryPool again = NULL;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		ask_export(ask_name("imported_export_%d", types[i]), my.pool, types[i], 0);
	ask_export("imported_export_flags", my.pool, POSIX, 1);
	ASK("imported_export_null", cuMemPoolExportToShareableHandle(NULL, my.pool, POSIX_TYPE, 0));
	if (cuMemPoolExportToShareableHandle(&out, my.pool, POSIX_TYPE, 0) == CUDA_SUCCESS) {
		ASK_VALUE("import_of_imported_export", share_import(&again, out.descriptor), "same %s",
			  ask_yes(again == my.pool));
	}
	memset(&data, 0x77, sizeof data);
	ASK_VALUE("imported_export_pointer", cuMemPoolExportPointer(&data, my.at), "untouched %s",
		  ask_yes(data.reserved[0] == 0x77 && data.reserved[63] == 0x77));
	ASK("imported_export_interior_pointer", cuMemPoolExportPointer(&data, my.at + 512));
	ASK("synchronize_after_imported_exports", cuCtxSynchronize());
	peer_kill(&my.peer);
}

/* The rights an import starts with, and which can be set. */
GROUP(imported_rights)
{
	static const struct {
		const char *name;
		int type, id;
	} places[] = {{"device", DEVICE, 0}, {"device_99", DEVICE, 99}, {"host", HOST, 0}, {"numa", NUMA, 0}};
	static const int rights[] = {READ, WRITE, 2, 7, NONE};
	struct shared my = share_all();

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		SAY(ask_name("imported_rights_of_%s", places[i].name), "%s",
		    pool_rights(my.pool, places[i].type, places[i].id));
		for (size_t k = 0; k < sizeof rights / sizeof rights[0]; k++) {
			ASK_VALUE(ask_name("imported_allow_%s_%d", places[i].name, rights[k]),
				  pool_allow(my.pool, places[i].type, places[i].id, rights[k]), "now %s block %s",
				  pool_rights(my.pool, places[i].type, places[i].id),
				  vmm_rights(my.at, places[i].type, places[i].id));
		}
	}
	ASK("imported_allow_null_0", cuMemPoolSetAccess(my.pool, NULL, 0));
	ASK("imported_allow_null_1", cuMemPoolSetAccess(my.pool, NULL, 1));
	SAY("rights_at_end", "%s", pool_rights(my.pool, DEVICE, 0));
	peer_kill(&my.peer);
}

/* What the rights do: a block that was there, one that comes later, a write that may not be. */
static void ask_rights(const char *kind, int rights)
{
	struct shared my = share_all();
	CUdeviceptr later = 0;

	NEED(share_do(&my.peer, 'a', 1));
	NEED(share_do(&my.peer, 's', 1));
	ask_guard();
	ASK_VALUE(ask_name("%s_allow", kind), pool_allow(my.pool, DEVICE, 0, rights), "pool %s block %s",
		  pool_rights(my.pool, DEVICE, 0), vmm_rights(my.at, DEVICE, 0));
	ASK_VALUE(ask_name("%s_later_block", kind), cuMemPoolImportPointer(&later, my.pool, &board->data[1]),
		  "rights %s", vmm_rights(later, DEVICE, 0));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(my.at, 16));
	SAY(ask_name("%s_bytes_of_later_block", kind), "%s", vmm_bytes(later, 16));
	ASK(ask_name("%s_fill", kind), cuMemsetD8(my.at, 0xc1, 16));
	ASK(ask_name("%s_htod", kind), cuMemcpyHtoD(my.at + 16, ask_zeros, 16));
	ASK(ask_name("%s_fill_of_later_block", kind), cuMemsetD8(later, 0xc2, 16));
	NEED(cuCtxSynchronize());
	SAY(ask_name("%s_bytes_at_peer", kind), "%s %s", share_byte(&my.peer, 0), share_byte(&my.peer, 1));
	ASK_VALUE(ask_name("%s_allow_write_again", kind), pool_allow(my.pool, DEVICE, 0, WRITE), "pool %s block %s",
		  pool_rights(my.pool, DEVICE, 0), vmm_rights(my.at, DEVICE, 0));
	ASK(ask_name("%s_fill_after_all", kind), cuMemsetD8(my.at, 0xc3, 16));
	SAY(ask_name("%s_bytes_after_all", kind), "%s", vmm_bytes(my.at, 16));
	peer_kill(&my.peer);
}

GROUP(rights_read)
{
	ask_rights("read_only", READ);
}

GROUP(rights_none)
{
	ask_rights("forbidden", NONE);
}

GROUP(rights_write)
{
	ask_rights("allowed", WRITE);
}

/* The import's rights are not the exporter's, and a second import's are not the first's. */
GROUP(rights_apart)
{
	struct shared my = share_pool();
	CUmemoryPool second = NULL;

	NEED(share_import(&second, my.descriptor));
	ASK("apart_allow_read", pool_allow(my.pool, DEVICE, 0, READ));
	SAY("apart_rights", "first %s second %s", pool_rights(my.pool, DEVICE, 0), pool_rights(second, DEVICE, 0));
	ASK("apart_peer_allocates", share_do(&my.peer, 'a', 0));
	ASK("apart_peer_fills", share_do(&my.peer, 'w', 0));
	ASK("apart_peer_synchronizes", share_do(&my.peer, 's', 0));
	peer_kill(&my.peer);
}

GROUP(imported_destroy)
{
	struct shared my = share_pool();
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	CUmemoryPool again = NULL;

	ASK("destroy_imported", cuMemPoolDestroy(my.pool));
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	ASK("import_again_after_destroy", share_import(&again, my.descriptor));
	share_ask_usable("again_after_destroy", again, 0);
	SAY("peer_allocates_after_destroy", "%s", ask_driver_code(share_do(&my.peer, 'a', 1)));
	NEED(cuMemPoolDestroy(again));
	ASK_VALUE("import_pointer_after_destroy", cuMemPoolImportPointer(&at, again, &board->data[0]), "%s", OUT(at));
	SAY("rights_after_destroy", "%s", pool_rights(again, DEVICE, 0));
	ASK("destroy_imported_twice", cuMemPoolDestroy(again));
	ASK("synchronize_after_destroys", cuCtxSynchronize());
	peer_kill(&my.peer);
}

/* The imported pool goes while its block is in use. */
GROUP(imported_destroy_with_block)
{
	struct shared my = share_all();
	CUmemoryPool from = UNTOUCHED(CUmemoryPool);
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	CUdeviceptr second = share_block(&my, 1);

	ASK("destroy_imported_with_block", cuMemPoolDestroy(my.pool));
	SAY("bytes_after_imported_destroyed", "%s", vmm_bytes(my.at, 16));
	ASK("fill_after_imported_destroyed", cuMemsetD8(my.at, 0xc4, 16));
	NEED(cuCtxSynchronize());
	SAY("byte_at_peer_after_imported_destroyed", "%s", share_byte(&my.peer, 0));
	ASK_VALUE("pool_of_block_after_destroyed",
		  cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, my.at), "%s",
		  pool_which(from, my.pool, NULL));
	ASK("free_async_after_imported_destroyed", cuMemFreeAsync(my.at, my.stream));
	ASK("free_sync_after_imported_destroyed", cuMemFree(second));
	ASK("synchronize_after_imported_destroyed", cuCtxSynchronize());
	ASK_VALUE("import_pointer_to_dying", cuMemPoolImportPointer(&at, my.pool, &board->data[0]), "%s", OUT(at));
	peer_kill(&my.peer);
}

/* A descriptor that is passed on to a third process. */
static void third(struct peer *parent)
{
	CUmemoryPool pool = NULL;
	int descriptor = -1;

	ask_context();
	peer_hear(parent, &descriptor);
	ASK_VALUE("third_import", share_import(&pool, descriptor), "%s", OUT(pool));
	close(descriptor);
	if (pool) {
		SAY("third_rights", "%s", pool_rights(pool, DEVICE, 0));
		share_ask_usable("third", pool, 0);
	}
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
}

GROUP(three_processes)
{
	share_board();
	struct peer last = peer_start(third);
	struct shared my = share_all();

	peer_tell(&last, 0, my.descriptor);
	peer_hear(&last, NULL);
	SAY("bytes_after_third", "%s", vmm_bytes(my.at, 16));
	SAY("numbers_at_peer_after_third", "%s", share_numbers(&my.peer));
	peer_kill(&last);
	peer_kill(&my.peer);
}

/* The exporter lets go of the pool before it is imported. */
static void ask_late(const char *kind, struct shared *my)
{
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);

	ASK_VALUE(ask_name("%s_import", kind), share_import(&pool, my->descriptor), "%s", OUT(pool));
	if (pool == UNTOUCHED(CUmemoryPool))
		return;
	SAY(ask_name("%s_rights", kind), "%s", pool_rights(pool, DEVICE, 0));
	share_ask_usable(kind, pool, 0);
	ASK(ask_name("%s_destroy", kind), cuMemPoolDestroy(pool));
}

GROUP(destroyed_before_import)
{
	struct shared my = share_begin();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 'f', 0));
	NEED(share_do(&my.peer, 's', 0));
	NEED(share_do(&my.peer, 'd', 0));
	ask_late("destroyed", &my);
	peer_kill(&my.peer);
}

GROUP(dying_before_import)
{
	struct shared my = share_begin();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	NEED(share_do(&my.peer, 'd', 0));
	ask_late("dying", &my);
	peer_kill(&my.peer);
}

GROUP(ended_before_import)
{
	struct shared my = share_begin();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	peer_tell(&my.peer, 'q', -1);
	peer_wait(&my.peer);
	ask_late("ended", &my);
}

GROUP(killed_before_import)
{
	struct shared my = share_begin();

	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	peer_kill(&my.peer);
	ask_late("killed", &my);
}

/* The exporter's pool was exported, used and trimmed; the descriptor is old. */
GROUP(used_before_import)
{
	struct shared my = share_begin();

	for (int i = 0; i < 4; i++) {
		NEED(share_do(&my.peer, 'a', i));
		NEED(share_do(&my.peer, 'f', i));
	}
	NEED(share_do(&my.peer, 's', 0));
	NEED(share_do(&my.peer, 't', 0));
	NEED(share_do(&my.peer, 'c', 0));
	NEED(share_do(&my.peer, 'a', 0));
	NEED(share_do(&my.peer, 's', 0));
	ask_late("old_descriptor", &my);
	peer_kill(&my.peer);
}
