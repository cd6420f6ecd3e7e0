/* SPDX-License-Identifier: MIT */
/*
 * Chapter "vmm_share": memory that leaves the process through a descriptor, and comes into another one.
 *
 * In the questions with two processes the peer has memory of two granules and does as it is told, one letter a time;
 * the group's own process imports and asks.
 */
#define _GNU_SOURCE
#include "descriptors.h"
#include "vmm.h"

CHAPTER(vmm_share);

#define POSIX_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static vmm_handle create_shareable(void)
{
	return vmm_create_as(2, vmm_properties(DEVICE, 0, POSIX));
}

static int export_of(vmm_handle handle)
{
	int descriptor = -1;

	NEED(cuMemExportToShareableHandle(&descriptor, handle, POSIX_TYPE, 0));
	return descriptor;
}

static CUresult import_from(vmm_handle *ret_handle, int descriptor)
{
	return cuMemImportFromShareableHandle(ret_handle, (void *)(uintptr_t)descriptor, POSIX_TYPE);
}

static const char *descriptor_is(int descriptor)
{
	return descriptor == UNTOUCHED_INT ? "untouched" : descriptor > 2 ? "set" : "wrong";
}

GROUP(export_arguments)
{
	static const int types[] = {0, 2, 3, 4, 5, 8, 9, 16, 0x7fffffff, -1};
	union {
		int descriptor;
		CUmemFabricHandle fabric;
	} out;

	vmm_setup();
	vmm_handle handle = create_shareable();
	memset(&out, 0, sizeof out);
	out.descriptor = UNTOUCHED_INT;
	ASK("export_null", cuMemExportToShareableHandle(NULL, handle, POSIX_TYPE, 0));
	ASK_VALUE("export_flags_1", cuMemExportToShareableHandle(&out, handle, POSIX_TYPE, 1), "%s",
		  descriptor_is(out.descriptor));
	out.descriptor = UNTOUCHED_INT;
	ASK_VALUE("export_flags_high", cuMemExportToShareableHandle(&out, handle, POSIX_TYPE, 1ull << 63), "%s",
		  descriptor_is(out.descriptor));
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		out.descriptor = UNTOUCHED_INT;
		ASK_VALUE(ask_name("export_type_%d", types[i]),
			  cuMemExportToShareableHandle(&out, handle, (CUmemAllocationHandleType)types[i], 0), "%s",
			  descriptor_is(out.descriptor));
	}
	out.descriptor = UNTOUCHED_INT;
	ASK_VALUE("export", cuMemExportToShareableHandle(&out, handle, POSIX_TYPE, 0), "%s",
		  descriptor_is(out.descriptor));
}

GROUP(export_not_asked_for)
{
	static const int types[] = {0, 1, 2, 4, 8};

	vmm_setup();
	vmm_handle plain = vmm_create(1);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		union {
			int descriptor;
			CUmemFabricHandle fabric;
		} out;
		memset(&out, 0, sizeof out);
		out.descriptor = UNTOUCHED_INT;
		ASK_VALUE(ask_name("export_plain_type_%d", types[i]),
			  cuMemExportToShareableHandle(&out, plain, (CUmemAllocationHandleType)types[i], 0), "%s",
			  descriptor_is(out.descriptor));
	}
}

GROUP(descriptors)
{
	int first = UNTOUCHED_INT, second = UNTOUCHED_INT;

	vmm_setup();
	vmm_handle handle = create_shareable(), got = 0, again = 0;
	ASK("export_first", cuMemExportToShareableHandle(&first, handle, POSIX_TYPE, 0));
	ASK("export_second", cuMemExportToShareableHandle(&second, handle, POSIX_TYPE, 0));
	SAY("two_descriptors_differ", "%s", ask_yes(first != second));
	SAY("descriptor_closes_on_exec", "%s", ask_yes(fcntl(first, F_GETFD) & FD_CLOEXEC));
	SAY("descriptor_mode", "%d", fcntl(first, F_GETFL) & O_ACCMODE);
	SAY("close_first", "%d", close(first));
	ASK("import_second_after_close_of_first", import_from(&got, second));
	SAY("import_leaves_descriptor_open", "%s", ask_yes(is_open(second)));
	first = dup(second);
	SAY("close_second", "%d", close(second));
	ASK("import_duplicate", import_from(&again, first));
	SAY("close_duplicate", "%d", close(first));
	vmm_ask_properties("properties_after_all_closed", again);
	ASK("export_after_all_closed", cuMemExportToShareableHandle(&first, handle, POSIX_TYPE, 0));
	ASK("release_first_import", cuMemRelease(got));
	ASK("release_second_import", cuMemRelease(again));
	ASK("release_origin", cuMemRelease(handle));
}

/* A file descriptor that is not memory of the driver's. */
static void wrong_descriptor(const char *name, int descriptor)
{
	vmm_handle handle = UNTOUCHED(vmm_handle);

	ASK_VALUE(ask_name("import_%s", name), import_from(&handle, descriptor), "%s", OUT(handle));
}

GROUP(import_wrong_descriptors)
{
	vmm_setup();
	ask_wrong_descriptors(wrong_descriptor);
	SAY("wrong_descriptors_still_open", "%s %s %s", ask_yes(is_open(wrong.null)), ask_yes(is_open(wrong.memory)),
	    ask_yes(is_open(wrong.pipe[0])));
}

GROUP(import_arguments)
{
	static const int types[] = {0, 2, 3, 4, 16, 0x7fffffff, -1};
	CUmemFabricHandle fabric;

	vmm_setup();
	vmm_handle handle = create_shareable(), got = UNTOUCHED(vmm_handle);
	int descriptor = export_of(handle);
	memset(&fabric, 0, sizeof fabric);
	ASK("import_null", import_from(NULL, descriptor));
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		got = UNTOUCHED(vmm_handle);
		ASK_VALUE(ask_name("import_type_%d", types[i]),
			  cuMemImportFromShareableHandle(&got, (void *)(uintptr_t)descriptor,
							 (CUmemAllocationHandleType)types[i]),
			  "%s", OUT(got));
	}
	ASK("import_fabric_zeros", cuMemImportFromShareableHandle(&got, &fabric, CU_MEM_HANDLE_TYPE_FABRIC));
	ASK("import_fabric_null", cuMemImportFromShareableHandle(&got, NULL, CU_MEM_HANDLE_TYPE_FABRIC));
	ASK("import_high_bits",
	    cuMemImportFromShareableHandle(&got, (void *)((uintptr_t)descriptor | (uintptr_t)1 << 40), POSIX_TYPE));
	ASK("import", import_from(&got, descriptor));
}

/* Exporter and importer are one process. */
GROUP(import_at_home)
{
	vmm_handle first = 0, second = 0, kept = 0;
	int again = UNTOUCHED_INT;

	vmm_setup();
	vmm_handle handle = create_shareable();
	CUdeviceptr at = vmm_reserve(8);
	vmm_map(at, 2, handle, WRITE);
	NEED(cuMemsetD8(at, 0x21, 2 * grain));
	NEED(cuCtxSynchronize());
	int descriptor = export_of(handle);
	ASK_VALUE("home_import", import_from(&first, descriptor), "same %s", ask_yes(first == handle));
	ASK_VALUE("home_import_again", import_from(&second, descriptor), "same as first %s same as origin %s",
		  ask_yes(first == second), ask_yes(second == handle));
	vmm_ask_properties("home_properties", first);
	ASK_VALUE("home_export", cuMemExportToShareableHandle(&again, first, POSIX_TYPE, 0), "%s",
		  descriptor_is(again));
	if (again != UNTOUCHED_INT)
		ASK("home_import_of_export", import_from(&kept, again));
	ASK("home_map", cuMemMap(at + 2 * grain, 2 * grain, 0, first, 0));
	SAY("home_rights", "%s", vmm_rights(at + 2 * grain, DEVICE, 0));
	ASK("home_allow", vmm_allow(at + 2 * grain, 2, READ));
	SAY("home_bytes", "%s", vmm_bytes(at + 2 * grain, 16));
	ASK_VALUE("home_retain", cuMemRetainAllocationHandle(&kept, (void *)(uintptr_t)(at + 2 * grain)),
		  "import %s origin %s", ask_yes(kept == first), ask_yes(kept == handle));
	ASK("home_release_origin", cuMemRelease(handle));
	ASK("home_unmap_origin", cuMemUnmap(at, 2 * grain));
	ASK("home_release_first", cuMemRelease(first));
	ASK("home_map_second", cuMemMap(at + 4 * grain, 2 * grain, 0, second, 0));
	ASK("home_allow_second", vmm_allow(at + 4 * grain, 2, WRITE));
	ASK("home_fill_second", cuMemsetD8(at + 4 * grain, 0x22, grain));
	SAY("home_bytes_by_first", "%s", vmm_bytes(at + 3 * grain - 8, 16));
}

/* The descriptor alone keeps the memory. */
GROUP(descriptor_alone)
{
	vmm_handle got = 0;

	vmm_setup();
	vmm_handle handle = create_shareable();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 2, handle, WRITE);
	NEED(cuMemsetD8(at, 0x23, 2 * grain));
	NEED(cuCtxSynchronize());
	int descriptor = export_of(handle);
	NEED(cuMemUnmap(at, 2 * grain));
	NEED(cuMemRelease(handle));
	ASK("alone_import", import_from(&got, descriptor));
	close(descriptor);
	ASK("alone_map", cuMemMap(at, 2 * grain, 0, got, 0));
	ASK("alone_allow", vmm_allow(at, 2, WRITE));
	SAY("alone_bytes", "%s", vmm_bytes(at + 2 * grain - 16, 16));
}

/* An import that is released too often. */
GROUP(import_released_twice)
{
	vmm_handle got = 0;

	vmm_setup();
	vmm_handle handle = create_shareable();
	int descriptor = export_of(handle);
	NEED(import_from(&got, descriptor));
	NEED(cuMemRelease(got));
	ASK("import_release_again", cuMemRelease(got));
	vmm_ask_properties("origin_after_release_again", handle);
}

/*
 * The peer: two granules of its own, filled with 0xa1. It is told
 *   e  send a descriptor     r  release     u  unmap     c  close the descriptors     n  take its rights away
 *   f  fill with 0xa2        b  send the first byte      m  make 32 more granules     q  end
 */
static void exporter(struct peer *parent)
{
	int descriptor = -1, last = -1;
	unsigned char byte = 0;

	vmm_setup();
	vmm_handle handle = create_shareable();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 2, handle, WRITE);
	NEED(cuMemsetD8(at, 0xa1, 2 * grain));
	NEED(cuCtxSynchronize());
	for (;;) {
		int word = peer_hear(parent, NULL), answer = 0;
		switch (word) {
		case 'e':
			NEED(cuMemExportToShareableHandle(&descriptor, handle, POSIX_TYPE, 0));
			last = descriptor;
			break;
		case 'r': NEED(cuMemRelease(handle)); break;
		case 'u': NEED(cuMemUnmap(at, 2 * grain)); break;
		case 'n': NEED(vmm_allow(at, 2, NONE)); break;
		case 'c': close(last); break;
		case 'f':
			NEED(cuMemsetD8(at, 0xa2, 2 * grain));
			NEED(cuCtxSynchronize());
			break;
		case 'b':
			NEED(cuMemcpyDtoH(&byte, at, 1));
			answer = byte;
			break;
		case 'm': vmm_create(32); break;
		default: return;
		}
		peer_tell(parent, answer, descriptor);
		descriptor = -1;
	}
}

static int order(struct peer *peer, int word, int *ret_descriptor)
{
	peer_tell(peer, word, -1);
	return peer_hear(peer, ret_descriptor);
}

/* Import, map and allow: the address, and in `ret_handle` the import. */
static CUdeviceptr take(int descriptor, vmm_handle *ret_handle, int rights)
{
	CUdeviceptr at = vmm_reserve(4);

	NEED(import_from(ret_handle, descriptor));
	vmm_map(at, 2, *ret_handle, rights);
	return at;
}

GROUP(two_processes)
{
	struct peer peer = peer_start(exporter);
	vmm_handle got = UNTOUCHED(vmm_handle), again = 0;
	int descriptor = -1, exported = UNTOUCHED_INT;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(8);
	order(&peer, 'e', &descriptor);
	ASK_VALUE("import_from_peer", import_from(&got, descriptor), "%s", OUT(got));
	ASK_VALUE("import_from_peer_again", import_from(&again, descriptor), "same %s", ask_yes(got == again));
	vmm_ask_properties("imported_properties", got);
	ASK_VALUE("imported_export", cuMemExportToShareableHandle(&exported, got, POSIX_TYPE, 0), "%s",
		  descriptor_is(exported));
	ASK("imported_export_flags_1", cuMemExportToShareableHandle(&exported, got, POSIX_TYPE, 1));
	ASK("imported_map_too_much", cuMemMap(at, 3 * grain, 0, got, 0));
	ASK("imported_map_offset", cuMemMap(at, grain, grain, got, 0));
	ASK("imported_map_part", cuMemMap(at, grain, 0, got, 0));
	ASK("imported_unmap_part", cuMemUnmap(at, grain));
	ASK("imported_map", cuMemMap(at, 2 * grain, 0, got, 0));
	SAY("imported_rights", "%s", vmm_rights(at, DEVICE, 0));
	ASK("imported_allow_read", vmm_allow(at, 2, READ));
	SAY("imported_bytes", "%s", vmm_bytes(at + 2 * grain - 16, 16));
	ASK("imported_allow_write", vmm_allow(at, 2, WRITE));
	ASK("imported_fill", cuMemsetD8(at, 0xb1, grain));
	NEED(cuCtxSynchronize());
	SAY("byte_at_peer_after_fill", "%02x", (unsigned)order(&peer, 'b', NULL));
	order(&peer, 'f', NULL);
	SAY("imported_bytes_after_peers_fill", "%s", vmm_bytes(at, 16));
	order(&peer, 'n', NULL);
	SAY("imported_rights_after_peer_lost_its", "%s", vmm_rights(at, DEVICE, 0));
	SAY("imported_bytes_after_peer_lost_its", "%s", vmm_bytes(at, 16));
	ASK("imported_map_twice", cuMemMap(at + 2 * grain, 2 * grain, 0, again, 0));
	ASK("imported_allow_twice", vmm_allow(at + 2 * grain, 2, READ));
	SAY("imported_bytes_twice", "%s", vmm_bytes(at + 2 * grain, 16));
	ASK("imported_release", cuMemRelease(got));
	SAY("imported_bytes_after_release", "%s", vmm_bytes(at, 16));
	ASK("imported_unmap", cuMemUnmap(at, 4 * grain));
	ASK("imported_release_again", cuMemRelease(again));
	peer_tell(&peer, 'q', -1);
	peer_wait(&peer);
}

/* What is said of an imported address. */
GROUP(imported_addresses)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1, ordinal = -1, type = -1;
	unsigned long long types = 77, id = 0;
	unsigned int flag = 77;
	CUdeviceptr start = 0;
	size_t bytes = 0;
	vmm_handle got = 0;
	CUipcMemHandle ipc;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	ASK_VALUE("imported_memory_type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), "%d",
		  type);
	ASK_VALUE("imported_ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at), "%d",
		  ordinal);
	ASK_VALUE("imported_allowed_types",
		  cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at), "%llu", types);
	ASK_VALUE("imported_buffer_id", cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at), "%s",
		  ask_yes(id));
	ASK_VALUE("imported_access_flags", cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at), "%u",
		  flag);
	ASK_VALUE("imported_range", cuMemGetAddressRange(&start, &bytes, at + grain), "start %d bytes %d",
		  vmm_place_in(start, at), (int)(bytes / grain));
	ASK("imported_ipc_handle", cuIpcGetMemHandle(&ipc, at));
	ASK_VALUE("imported_retain", cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(at + grain)), "%s",
		  OUT(got));
	ASK("imported_free", cuMemFree(at));
	SAY("imported_bytes_after_free", "%s", vmm_bytes(at, 16));
	peer_kill(&peer);
}

/* Rights of the importer: read, then a write that may not be. */
GROUP(imported_read_only)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	ask_guard();
	order(&peer, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, READ);
	SAY("read_only_bytes", "%s", vmm_bytes(at, 16));
	ASK("read_only_fill", cuMemsetD8(at, 0xb2, 16));
	ASK("read_only_htod", cuMemcpyHtoD(at, ask_zeros, 16));
	SAY("read_only_byte_at_peer", "%02x", (unsigned)order(&peer, 'b', NULL));
	ASK("read_only_allow_none", vmm_allow(at, 2, NONE));
	ASK("forbidden_dtoh", cuMemcpyDtoH(ask_zeros, at, 16));
	ASK("forbidden_fill", cuMemsetD8(at, 0xb3, 16));
	peer_kill(&peer);
}

/* The exporter lets go of everything but the descriptor on its way. */
GROUP(released_before_import)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	order(&peer, 'c', NULL);
	order(&peer, 'u', NULL);
	order(&peer, 'r', NULL);
	ASK("import_of_released", import_from(&got, descriptor));
	vmm_ask_properties("properties_of_released_at_peer", got);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	SAY("bytes_of_released_at_peer", "%s", vmm_bytes(at, 16));
	peer_kill(&peer);
}

static void ask_after_end(const char *kind, int descriptor)
{
	vmm_handle got = 0;
	CUdeviceptr at = vmm_reserve(2);

	ASK(ask_name("%s_import", kind), import_from(&got, descriptor));
	ASK(ask_name("%s_map", kind), cuMemMap(at, 2 * grain, 0, got, 0));
	ASK(ask_name("%s_allow", kind), vmm_allow(at, 2, WRITE));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at + 2 * grain - 16, 16));
	ASK(ask_name("%s_fill", kind), cuMemsetD8(at, 0xb4, grain));
	SAY(ask_name("%s_bytes_after_fill", kind), "%s", vmm_bytes(at + grain - 8, 16));
}

GROUP(ended_before_import)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	peer_tell(&peer, 'q', -1);
	peer_wait(&peer);
	ask_after_end("ended", descriptor);
}

GROUP(killed_before_import)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	peer_kill(&peer);
	ask_after_end("killed", descriptor);
}

/* The importer starts to use CUDA when the exporter is gone. */
GROUP(ended_before_init)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;

	order(&peer, 'e', &descriptor);
	peer_tell(&peer, 'q', -1);
	peer_wait(&peer);
	vmm_setup();
	ask_after_end("ended_early", descriptor);
}

GROUP(killed_after_map)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1, exported = -1;
	vmm_handle got = 0, again = 0;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	close(descriptor);
	peer_kill(&peer);
	SAY("survivor_bytes", "%s", vmm_bytes(at + 2 * grain - 16, 16));
	ASK("survivor_fill", cuMemsetD8(at, 0xb5, grain));
	ASK("survivor_synchronize", cuCtxSynchronize());
	ASK("survivor_export", cuMemExportToShareableHandle(&exported, got, POSIX_TYPE, 0));
	if (exported >= 0)
		ASK("survivor_import", import_from(&again, exported));
	vmm_ask_properties("survivor_properties", got);
	ASK("survivor_unmap", cuMemUnmap(at, 2 * grain));
	ASK("survivor_map", cuMemMap(at, 2 * grain, 0, got, 0));
	ASK("survivor_allow", vmm_allow(at, 2, WRITE));
	SAY("survivor_bytes_again", "%s", vmm_bytes(at + grain - 8, 16));
}

/* Between import and map. */
GROUP(killed_before_map)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	NEED(import_from(&got, descriptor));
	close(descriptor);
	peer_kill(&peer);
	CUdeviceptr at = vmm_reserve(2);
	ASK("orphan_map", cuMemMap(at, 2 * grain, 0, got, 0));
	ASK("orphan_allow", vmm_allow(at, 2, WRITE));
	SAY("orphan_bytes", "%s", vmm_bytes(at, 16));
}

/* C of the chain A, B, C: gets a descriptor and asks. */
static void last_of_chain(struct peer *parent)
{
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(2);
	int told = peer_hear(parent, &descriptor);
	const char *kind = told == 'd' ? "passed_on" : "exported_again";
	ASK(ask_name("%s_import", kind), import_from(&got, descriptor));
	vmm_ask_properties(ask_name("%s_properties", kind), got);
	ASK(ask_name("%s_map", kind), cuMemMap(at, 2 * grain, 0, got, 0));
	ASK(ask_name("%s_allow", kind), vmm_allow(at, 2, WRITE));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 16));
	NEED(cuMemsetD8(at, 0xc1, grain));
	NEED(cuCtxSynchronize());
	peer_tell(parent, 0, -1);
	peer_hear(parent, NULL);
}

/* B passes the very descriptor on. */
GROUP(chain_of_descriptors)
{
	struct peer first = peer_start(exporter), last = peer_start(last_of_chain);
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	order(&first, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	peer_tell(&last, 'd', descriptor);
	peer_hear(&last, NULL);
	SAY("passed_on_bytes_in_the_middle", "%s", vmm_bytes(at, 16));
	SAY("passed_on_byte_at_first", "%02x", (unsigned)order(&first, 'b', NULL));
	peer_kill(&first);
	peer_kill(&last);
}

/* B exports what it imported, and the first is gone. */
GROUP(chain_of_exports)
{
	struct peer first = peer_start(exporter), last = peer_start(last_of_chain);
	int descriptor = -1, again = -1;
	vmm_handle got = 0;

	vmm_setup();
	order(&first, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	peer_kill(&first);
	ASK("chain_export", cuMemExportToShareableHandle(&again, got, POSIX_TYPE, 0));
	if (again >= 0) {
		peer_tell(&last, 'e', again);
		peer_hear(&last, NULL);
		SAY("exported_again_bytes_in_the_middle", "%s", vmm_bytes(at, 16));
	}
	peer_kill(&last);
}

/* A child that was forked from an importer has its descriptor and its addresses, and no CUDA. */
static void child_of_importer(void *data)
{
	const int *descriptor = data;
	vmm_handle got = UNTOUCHED(vmm_handle);

	ASK_VALUE("child_import", import_from(&got, *descriptor), "%s", OUT(got));
	ASK("child_init", cuInit(0));
	ASK_VALUE("child_import_after_init", import_from(&got, *descriptor), "%s", OUT(got));
}

GROUP(forked_importer)
{
	struct peer peer = peer_start(exporter);
	int descriptor = -1;
	vmm_handle got = 0;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	CUdeviceptr at = take(descriptor, &got, WRITE);
	ask_forked(child_of_importer, &descriptor);
	SAY("bytes_after_child", "%s", vmm_bytes(at, 16));
	peer_kill(&peer);
}

/* A driver that was only initialised can import already. */
GROUP(importer_without_context)
{
	struct peer peer = peer_start(exporter);
	CUcontext context = NULL;
	int descriptor = -1;
	vmm_handle got = 0;

	NEED(cuInit(0));
	vmm_measure();
	order(&peer, 'e', &descriptor);
	CUdeviceptr at = vmm_reserve(2);
	ASK("contextless_import", import_from(&got, descriptor));
	ASK("contextless_map", cuMemMap(at, 2 * grain, 0, got, 0));
	ASK("contextless_allow", vmm_allow(at, 2, READ));
	NEED(cuCtxCreate(&context, NULL, 0, 0));
	SAY("contextless_bytes", "%s", vmm_bytes(at, 16));
	peer_kill(&peer);
}

/* Memory of the host that is shared. */
GROUP(shared_host_memory)
{
	CUmemAllocationProp properties = vmm_properties(NUMA, 0, POSIX);
	vmm_handle handle = UNTOUCHED(vmm_handle), got = 0;
	int descriptor = -1;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(4);
	ASK("numa_create", cuMemCreate(&handle, 2 * grain, &properties, 0));
	if (handle == UNTOUCHED(vmm_handle))
		return;
	ASK("numa_export", cuMemExportToShareableHandle(&descriptor, handle, POSIX_TYPE, 0));
	ASK("numa_import", import_from(&got, descriptor));
	vmm_ask_properties("numa_properties", got);
	vmm_map(at, 2, handle, WRITE);
	NEED(cuMemsetD8(at, 0x24, grain));
	NEED(cuCtxSynchronize());
	ASK("numa_map", cuMemMap(at + 2 * grain, 2 * grain, 0, got, 0));
	ASK("numa_allow", vmm_allow(at + 2 * grain, 2, READ));
	SAY("numa_bytes", "%s", vmm_bytes(at + 2 * grain, 16));
}

/* Whose memory is it that is missing, and when does it come back? */
ALONE(accounting)
{
	struct peer peer = peer_start(exporter);
	vmm_handle got = 0;
	int descriptor = -1;
	CUdeviceptr at;

	vmm_setup();
	order(&peer, 'e', &descriptor);
	at = take(descriptor, &got, WRITE);
	long start = vmm_free_grains();
	order(&peer, 'm', NULL);
	SAY("account_create_at_peer", "%d", vmm_steps(vmm_free_grains() - start));
	vmm_handle handle = vmm_create_as(32, vmm_properties(DEVICE, 0, POSIX));
	SAY("account_create_here_too", "%d", vmm_steps(vmm_free_grains() - start));
	int own = export_of(handle);
	NEED(cuMemRelease(handle));
	SAY("account_descriptor_alone", "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_import", import_from(&handle, own), "%d", vmm_steps(vmm_free_grains() - start));
	close(own);
	SAY("account_import_alone", "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_import", cuMemRelease(handle), "%d", vmm_steps(vmm_free_grains() - start));
	SAY("account_peer_bytes", "%s", vmm_bytes(at, 16));
	peer_kill(&peer);
}
