/* SPDX-License-Identifier: MIT */
/*
 * Chapter "fabric": memory and pools that are shared by fabric handles, with an IMEX channel and without.
 *
 * Nodes are seen by every process, so the groups that have a channel run alone, after the others. A driver may look for
 * channels once in a process's life: each question's process is told of its channels before it calls CUDA.
 */
#define _GNU_SOURCE
#include "imex.h"
#include "pool.h"

#include <sys/mman.h>

CHAPTER(fabric);

enum { FABRIC = CU_MEM_HANDLE_TYPE_FABRIC };

/* A group for each of the two cases; a function body follows. */
#define BOTH(name)                          \
	static void name(const char *kind); \
	GROUP(name##_without)               \
	{                                   \
		without();                  \
		name("without_channel");    \
	}                                   \
	ALONE(name##_with)                  \
	{                                   \
		with();                     \
		name("with_channel");       \
	}                                   \
	static void name(const char *kind)

static CUmemFabricHandle fabric_of(int byte)
{
	CUmemFabricHandle handle;

	memset(&handle, byte, sizeof handle);
	return handle;
}

static bool same(const CUmemFabricHandle *left, const CUmemFabricHandle *right)
{
	return memcmp(left, right, sizeof *left) == 0;
}

static const char *fabric_is(const CUmemFabricHandle *handle)
{
	CUmemFabricHandle untouched = fabric_of(0x77), zero = fabric_of(0);

	return same(handle, &untouched) ? "untouched" : same(handle, &zero) ? "zero" : "set";
}

static CUresult memory_import(vmm_handle *ret_handle, CUmemFabricHandle *handle)
{
	return cuMemImportFromShareableHandle(ret_handle, handle, CU_MEM_HANDLE_TYPE_FABRIC);
}

static CUresult pool_import(CUmemoryPool *ret_pool, CUmemFabricHandle *handle)
{
	return cuMemPoolImportFromShareableHandle(ret_pool, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

static CUmemoryPool fabric_pool(int handle_types)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);

	properties.handleTypes = (CUmemAllocationHandleType)handle_types;
	return pool_make_as(properties);
}

static CUresult memory_export(CUmemFabricHandle *ret_handle, vmm_handle handle)
{
	return cuMemExportToShareableHandle(ret_handle, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

static CUresult pool_export(CUmemFabricHandle *ret_handle, CUmemoryPool pool)
{
	return cuMemPoolExportToShareableHandle(ret_handle, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

/* ---- One process ---- */

GROUP(start)
{
	SAY("channels_at_start", "%s", place.channels_were ? "some" : "none");
}

ALONE(channel)
{
	with();
	const char *path = place.major ? node_of("channel0") : path_of("with", "channel0");
	SAY("channel_opens", "%s", open(path, O_RDWR | O_CLOEXEC) >= 0 ? "yes" : strerrorname_np(errno));
}

BOTH(attributes)
{
	static const struct {
		const char *name;
		CUdevice_attribute attribute;
	} wanted[] = {
		{"fabric_supported", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
		{"posix_supported", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
		{"pool_handle_types", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES},
		{"numa_multinode", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED},
		{"ipc_events", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
	};
	int value = UNTOUCHED_INT;

	ask_context();
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		ASK_VALUE(ask_name("%s_%s", kind, wanted[i].name), cuDeviceGetAttribute(&value, wanted[i].attribute, 0),
			  "%d", value);
	}
	ASK_VALUE(ask_name("%s_runtime_pool_handle_types", kind),
		  cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolSupportedHandleTypes, 0), "%d", value);
}

BOTH(create)
{
	static const struct {
		const char *name;
		int types, location, id;
		int rdma, extra_bytes;
	} cases[] = {
		{"fabric", FABRIC, DEVICE, 0, 0, 0},
		{"posix_fabric", FABRIC | POSIX, DEVICE, 0, 0, 0},
		{"win32_fabric", FABRIC | 2, DEVICE, 0, 0, 0},
		{"all_types", FABRIC | 7, DEVICE, 0, 0, 0},
		{"unknown_type_fabric", FABRIC | 16, DEVICE, 0, 0, 0},
		{"rdma", FABRIC, DEVICE, 0, 1, 0},
		{"numa", FABRIC, NUMA, 0, 0, 0},
		{"host", FABRIC, HOST, 0, 0, 0},
		{"device_99", FABRIC, DEVICE, 99, 0, 0},
		{"odd_size", FABRIC, DEVICE, 0, 0, 1},
	};

	vmm_setup();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		CUmemAllocationProp properties = vmm_properties(cases[i].location, cases[i].id, cases[i].types);
		vmm_handle handle = UNTOUCHED(vmm_handle);
		size_t least = UNTOUCHED_INT;
		properties.allocFlags.gpuDirectRDMACapable = (unsigned char)cases[i].rdma;
		if (cases[i].location == NUMA || i < 2) {
			ASK_VALUE(ask_name("%s_granularity_%s", kind, cases[i].name),
				  cuMemGetAllocationGranularity(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
				  "%zu", least);
		}
		ASK_VALUE(ask_name("%s_create_%s", kind, cases[i].name),
			  cuMemCreate(&handle, grain + (size_t)cases[i].extra_bytes, &properties, 0), "%s",
			  OUT(handle));
		if (handle == UNTOUCHED(vmm_handle))
			continue;
		vmm_ask_properties(ask_name("%s_properties_%s", kind, cases[i].name), handle);
		ASK(ask_name("%s_release_%s", kind, cases[i].name), cuMemRelease(handle));
	}
	CUmemAllocationProp plain = vmm_properties(DEVICE, 0, POSIX);
	vmm_handle handle = 0;
	ASK(ask_name("%s_create_posix_after", kind), cuMemCreate(&handle, grain, &plain, 0));
	ASK(ask_name("%s_synchronize_after", kind), cuCtxSynchronize());
}

/* Forged handles, and exports of memory that was not made for it. */
BOTH(refusals)
{
	static const int bytes[] = {0x00, 0x5a, 0xff};

	vmm_setup();
	for (size_t i = 0; i < 3; i++) {
		CUmemFabricHandle wrong = fabric_of(bytes[i]);
		vmm_handle handle = UNTOUCHED(vmm_handle);
		CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
		ASK_VALUE(ask_name("%s_import_of_%02x", kind, (unsigned)bytes[i]), memory_import(&handle, &wrong), "%s",
			  OUT(handle));
		ASK_VALUE(ask_name("%s_pool_import_of_%02x", kind, (unsigned)bytes[i]), pool_import(&pool, &wrong),
			  "%s", OUT(pool));
	}
	CUmemFabricHandle zero = fabric_of(0), out = fabric_of(0x77);
	vmm_handle got = UNTOUCHED(vmm_handle);
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
	ASK(ask_name("%s_import_null", kind), memory_import(NULL, &zero));
	ASK_VALUE(ask_name("%s_import_of_null", kind), memory_import(&got, NULL), "%s", OUT(got));
	ASK(ask_name("%s_pool_import_null", kind), pool_import(NULL, &zero));
	ASK_VALUE(ask_name("%s_pool_import_of_null", kind), pool_import(&pool, NULL), "%s", OUT(pool));
	ASK(ask_name("%s_pool_import_flags_1", kind),
	    cuMemPoolImportFromShareableHandle(&pool, &zero, CU_MEM_HANDLE_TYPE_FABRIC, 1));
	ASK_VALUE(ask_name("%s_export_of_plain", kind), memory_export(&out, vmm_create(1)), "%s", fabric_is(&out));
	ASK_VALUE(ask_name("%s_export_of_posix", kind),
		  memory_export(&out, vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX))), "%s", fabric_is(&out));
	ASK_VALUE(ask_name("%s_export_of_plain_pool", kind), pool_export(&out, pool_make(0)), "%s", fabric_is(&out));
	ASK_VALUE(ask_name("%s_export_of_posix_pool", kind), pool_export(&out, fabric_pool(POSIX)), "%s",
		  fabric_is(&out));
	ASK(ask_name("%s_synchronize_after_refusals", kind), cuCtxSynchronize());
}

static void ask_pool(const char *with_or_without, const char *sort, int types)
{
	char kind[64];
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool), own = UNTOUCHED(CUmemoryPool);
	CUmemFabricHandle first = fabric_of(0x77), second = first;
	CUmemPoolPtrExportData data;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	CUstream stream = pool_stream();
	int descriptor = UNTOUCHED_INT;

	snprintf(kind, sizeof kind, "%s_%s", with_or_without, sort);
	memset(&data, 0, sizeof data);
	properties.handleTypes = (CUmemAllocationHandleType)types;
	ASK_VALUE(ask_name("%s_create", kind), cuMemPoolCreate(&pool, &properties), "%s", OUT(pool));
	if (pool == UNTOUCHED(CUmemoryPool))
		return;
	SAY(ask_name("%s_rights", kind), "device %s host %s", pool_rights(pool, DEVICE, 0), pool_rights(pool, HOST, 0));
	ASK_VALUE(ask_name("%s_export_empty", kind), pool_export(&first, pool), "%s", fabric_is(&first));
	ASK_VALUE(ask_name("%s_alloc", kind), cuMemAllocFromPoolAsync(&at, 4096, pool, stream), "%s", OUT(at));
	ASK(ask_name("%s_fill", kind), cuMemsetD8Async(at, 0x31, 4096, stream));
	ASK(ask_name("%s_synchronize", kind), cuStreamSynchronize(stream));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 4));
	ASK_VALUE(ask_name("%s_export", kind), pool_export(&second, pool), "%s same %s", fabric_is(&second),
		  ask_yes(same(&first, &second)));
	ASK(ask_name("%s_export_null", kind), pool_export(NULL, pool));
	ASK(ask_name("%s_export_flags_1", kind),
	    cuMemPoolExportToShareableHandle(&second, pool, CU_MEM_HANDLE_TYPE_FABRIC, 1));
	ASK_VALUE(ask_name("%s_export_as_posix", kind),
		  cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  "%s", descriptor == UNTOUCHED_INT ? "untouched" : "set");
	second = fabric_of(0x77);
	ASK_VALUE(ask_name("%s_export_by_runtime", kind),
		  cudaMemPoolExportToShareableHandle(&second, pool, cudaMemHandleTypeFabric, 0), "%s same %s",
		  fabric_is(&second), ask_yes(same(&first, &second)));
	ASK(ask_name("%s_export_pointer", kind), cuMemPoolExportPointer(&data, at));
	if (strcmp(fabric_is(&first), "set") == 0)
		ASK_VALUE(ask_name("%s_import_own", kind), pool_import(&own, &first), "%s",
			  pool_which(own, pool, NULL));
	ASK(ask_name("%s_free", kind), cuMemFreeAsync(at, stream));
	ASK(ask_name("%s_destroy", kind), cuMemPoolDestroy(pool));
}

BOTH(pools)
{
	ask_context();
	ask_pool(kind, "pool", FABRIC);
	ask_pool(kind, "posix_pool", FABRIC | POSIX);
}

ALONE(exports)
{
	static const int types[] = {0, 1, 2, 4, 9, 16};
	CUmemFabricHandle first = fabric_of(0x77), second = first;
	vmm_handle got = 0, again = 0;

	with();
	vmm_setup();
	vmm_handle handle = vmm_create_as(2, vmm_properties(DEVICE, 0, FABRIC));
	ASK_VALUE("export", memory_export(&first, handle), "%s", fabric_is(&first));
	ASK_VALUE("export_again", memory_export(&second, handle), "same %s", ask_yes(same(&first, &second)));
	ASK("export_null", memory_export(NULL, handle));
	ASK("export_flags_1", cuMemExportToShareableHandle(&second, handle, CU_MEM_HANDLE_TYPE_FABRIC, 1));
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		CUmemFabricHandle out = fabric_of(0x77);
		ASK_VALUE(ask_name("export_as_%d", types[i]),
			  cuMemExportToShareableHandle(&out, handle, (CUmemAllocationHandleType)types[i], 0), "%s",
			  fabric_is(&out));
		if (types[i] != POSIX) {
			ASK(ask_name("import_as_%d", types[i]),
			    cuMemImportFromShareableHandle(&got, &first, (CUmemAllocationHandleType)types[i]));
		}
	}
	ASK_VALUE("import_own", memory_import(&got, &first), "same %s", ask_yes(got == handle));
	ASK_VALUE("import_own_again", memory_import(&again, &first), "same %s", ask_yes(got == again));
	ASK("import_as_pool", pool_import(&(CUmemoryPool){NULL}, &first));
	vmm_ask_properties("import_own_properties", got);
	second = fabric_of(0x77);
	ASK_VALUE("export_of_import", memory_export(&second, got), "%s same %s", fabric_is(&second),
		  ask_yes(same(&first, &second)));
	ASK("release_imports", cuMemRelease(got));
	ASK("release_origin", cuMemRelease(handle));
	ASK("import_while_other_import_lives", memory_import(&got, &first));
}

/* Nothing holds the memory but the handle's bytes. */
ALONE(bytes_alone)
{
	CUmemFabricHandle handle;
	vmm_handle got = UNTOUCHED(vmm_handle);

	with();
	vmm_setup();
	vmm_handle memory = vmm_create_as(1, vmm_properties(DEVICE, 0, FABRIC | POSIX));
	NEED(memory_export(&handle, memory));
	NEED(cuMemRelease(memory));
	ASK_VALUE("import_of_released", memory_import(&got, &handle), "%s", OUT(got));
}

/* Memory made and exported, and a pool exported: is there a channel? */
static void ask_moment(const char *question)
{
	CUmemAllocationProp properties = vmm_properties(DEVICE, 0, FABRIC);
	CUmemFabricHandle out;
	vmm_handle handle = 0;

	if (!ask_begin(question))
		return;
	const char *created = CODE(cuMemCreate(&handle, grain, &properties, 0));
	const char *exported = handle ? CODE(memory_export(&out, handle)) : "not asked";
	ask_end("create %s export %s pool %s", created, exported, CODE(pool_export(&out, fabric_pool(FABRIC))));
}

/* Is the channel looked for once, or at every call? */
ALONE(channel_comes)
{
	channels_clear();
	look_in("with");
	vmm_setup();
	ask_moment("before_channel_comes");
	channel_make("channel0", 0, 0666, 0);
	ask_moment("after_channel_came");
}

ALONE(channel_comes_unasked)
{
	channels_clear();
	look_in("with");
	vmm_setup();
	channel_make("channel0", 0, 0666, 0);
	ask_moment("channel_came_after_context");
}

ALONE(channel_goes)
{
	with();
	vmm_setup();
	ask_moment("before_channel_goes");
	channels_clear();
	ask_moment("after_channel_went");
}

ALONE(channel_goes_unasked)
{
	with();
	vmm_setup();
	channels_clear();
	ask_moment("channel_went_after_context");
}

/* ---- Processes of their own for each question ---- */

static char case_name[64];

static void fresh(struct peer *parent)
{
	peer_hear(parent, NULL);
	vmm_setup();
	ask_moment(case_name);
}

static void fresh_user(struct peer *parent)
{
	become(EXPORTER);
	fresh(parent);
}

static void run_fresh(void (*body)(struct peer *parent))
{
	struct peer peer = peer_start(body);

	peer_tell(&peer, 'g', -1);
	peer_wait(&peer);
}

/* Which names are channels? */
ALONE(names)
{
	static const struct {
		const char *name;
		unsigned int number;
	} cases[] = {
		{"channel0", 0},     {"channel1", 1},  {"channel7", 7},  {"channel2047", 2047}, {"channel2048", 2048},
		{"channel99999", 3}, {"channel00", 0}, {"channel01", 1}, {"channel", 0},        {"channelx", 0},
		{"channel-1", 0},    {"channel0x", 0}, {"xchannel0", 0}, {"CHANNEL0", 0},
	};

	look_in("with");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		channels_clear();
		channel_make(cases[i].name, cases[i].number, 0666, 0);
		snprintf(case_name, sizeof case_name, "named_%s", cases[i].name);
		run_fresh(fresh);
	}
}

/* What must a user be able to do with the channel? */
ALONE(modes)
{
	static const unsigned int modes[] = {0000, 0111, 0222, 0444, 0666};

	look_in("with");
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		channels_clear();
		channel_make("channel0", 0, modes[i], 0);
		snprintf(case_name, sizeof case_name, "mode_%03o", modes[i]);
		run_fresh(fresh_user);
	}
}

/* The first one cannot be opened, the second can. */
ALONE(one_of_two)
{
	look_in("with");
	channels_clear();
	channel_make("channel0", 0, 0000, 0);
	channel_make("channel1", 1, 0666, 0);
	snprintf(case_name, sizeof case_name, "second_of_two");
	run_fresh(fresh_user);
}

/* ---- Two processes ---- */

struct note {
	CUmemFabricHandle memory, pool;
	CUmemPoolPtrExportData pointer;
};
static struct note *note;

/*
 * The exporter: a granule of memory, filled with 0xa1, and a pool with a block of 4096 bytes of 0xa3. It is told
 *   e  note the memory's handle; answers with the code     p  the same of the pool and the block
 *   f  fill memory and block with 0xa2     b  send memory's first byte     k  send the block's first byte
 *   u  unmap and release the memory     d  free the block and destroy the pool     q  end
 */
static void exporter(struct peer *parent)
{
	CUmemAllocationProp properties = vmm_properties(DEVICE, 0, FABRIC);
	unsigned char byte = 0;
	vmm_handle handle = 0;

	vmm_setup();
	CUmemoryPool pool = fabric_pool(FABRIC);
	CUdeviceptr at = vmm_reserve(1), block = pool_alloc(pool, 4096, NULL);
	NEED(cuMemsetD8(block, 0xa3, 4096));
	CUresult made = cuMemCreate(&handle, grain, &properties, 0);
	if (!made) {
		vmm_map(at, 1, handle, WRITE);
		NEED(cuMemsetD8(at, 0xa1, grain));
	}
	NEED(cuCtxSynchronize());
	for (;;) {
		int word = peer_hear(parent, NULL), answer = 0;
		switch (word) {
		case 'e': answer = (int)(made ? made : memory_export(&note->memory, handle)); break;
		case 'p':
			answer = (int)pool_export(&note->pool, pool);
			answer = answer ? answer : (int)cuMemPoolExportPointer(&note->pointer, block);
			break;
		case 'f':
			NEED(cuMemsetD8(at, 0xa2, grain));
			NEED(cuMemsetD8(block, 0xa2, 4096));
			NEED(cuCtxSynchronize());
			break;
		case 'b':
		case 'k': answer = cuMemcpyDtoH(&byte, word == 'b' ? at : block, 1) ? -1 : byte; break;
		case 'u':
			NEED(cuMemUnmap(at, grain));
			NEED(cuMemRelease(handle));
			break;
		case 'd':
			NEED(cuMemFreeAsync(block, NULL));
			NEED(cuCtxSynchronize());
			NEED(cuMemPoolDestroy(pool));
			break;
		default: return;
		}
		peer_tell(parent, answer, -1);
	}
}

static void exporter_as_user(struct peer *parent)
{
	become(EXPORTER);
	exporter(parent);
}

static int order(struct peer *peer, int word)
{
	peer_tell(peer, word, -1);
	return peer_hear(peer, NULL);
}

static struct peer exporter_start(void (*body)(struct peer *parent))
{
	note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (note == MAP_FAILED)
		_exit(2);
	return peer_start(body);
}

static void exports_need(struct peer *peer)
{
	NEED((CUresult)order(peer, 'e'));
	NEED((CUresult)order(peer, 'p'));
}

/* What an importer gets, from import to contents. */
static void ask_imports(const char *kind)
{
	vmm_handle handle = UNTOUCHED(vmm_handle);
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
	CUdeviceptr at = vmm_reserve(1), block = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(ask_name("%s_import", kind), memory_import(&handle, &note->memory), "%s", OUT(handle));
	if (handle != UNTOUCHED(vmm_handle) && !cuMemMap(at, grain, 0, handle, 0) && !vmm_allow(at, 1, WRITE))
		SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 4));
	ASK_VALUE(ask_name("%s_pool_import", kind), pool_import(&pool, &note->pool), "%s", OUT(pool));
	if (pool == UNTOUCHED(CUmemoryPool))
		return;
	ASK_VALUE(ask_name("%s_pointer_import", kind), cuMemPoolImportPointer(&block, pool, &note->pointer), "%s",
		  OUT(block));
	if (block != UNTOUCHED(CUdeviceptr))
		SAY(ask_name("%s_block_bytes", kind), "%s", vmm_bytes(block, 4));
}

ALONE(two_processes)
{
	with();
	struct peer peer = exporter_start(exporter);
	vmm_handle handle = 0, again = 0;
	CUmemFabricHandle out = fabric_of(0x77);

	vmm_setup();
	exports_need(&peer);
	CUdeviceptr at = vmm_reserve(1);
	ASK("imported", memory_import(&handle, &note->memory));
	ASK_VALUE("imported_again", memory_import(&again, &note->memory), "same %s", ask_yes(handle == again));
	vmm_ask_properties("imported_properties", handle);
	ASK_VALUE("imported_export", memory_export(&out, handle), "%s same %s", fabric_is(&out),
		  ask_yes(same(&out, &note->memory)));
	ASK("imported_map", cuMemMap(at, grain, 0, handle, 0));
	SAY("imported_rights", "%s", vmm_rights(at, DEVICE, 0));
	ASK("imported_allow", vmm_allow(at, 1, WRITE));
	SAY("imported_bytes", "%s", vmm_bytes(at, 4));
	ASK("imported_fill", cuMemsetD8(at, 0xb1, grain));
	NEED(cuCtxSynchronize());
	SAY("imported_byte_at_peer", "%02x", (unsigned)order(&peer, 'b'));
	order(&peer, 'f');
	SAY("imported_bytes_after_peers_fill", "%s", vmm_bytes(at + grain - 4, 4));
	SAY("imported_allowed_types", "%d", pool_pointer_word(at, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));
	ASK("imported_release", cuMemRelease(handle));
	ASK("imported_release_again", cuMemRelease(again));
	SAY("imported_bytes_after_release", "%s", vmm_bytes(at, 4));
	ASK("imported_unmap", cuMemUnmap(at, grain));
	ASK("imported_after_unmap", memory_import(&handle, &note->memory));
	peer_kill(&peer);
}

ALONE(two_processes_pool)
{
	with();
	struct peer peer = exporter_start(exporter);
	CUmemoryPool pool = NULL, again = NULL;
	CUdeviceptr at = 0, other = 0;
	CUmemFabricHandle out = fabric_of(0x77);

	vmm_setup();
	NEED((CUresult)order(&peer, 'p'));
	ASK("pool_imported", pool_import(&pool, &note->pool));
	ASK_VALUE("pool_imported_again", pool_import(&again, &note->pool), "same %s", ask_yes(pool == again));
	SAY("pool_imported_rights", "%s", pool_rights(pool, DEVICE, 0));
	ASK("pool_imported_alloc", cuMemAllocFromPoolAsync(&at, 4096, pool, NULL));
	ASK_VALUE("pool_imported_export", pool_export(&out, pool), "%s", fabric_is(&out));
	ASK("pool_imported_pointer", cuMemPoolImportPointer(&at, pool, &note->pointer));
	ASK_VALUE("pool_imported_pointer_again", cuMemPoolImportPointer(&other, pool, &note->pointer), "same %s",
		  ask_yes(at == other));
	SAY("pool_imported_bytes", "%s", vmm_bytes(at, 4));
	ASK("pool_imported_fill", cuMemsetD8(at, 0xb3, 4096));
	NEED(cuCtxSynchronize());
	SAY("pool_imported_byte_at_peer", "%02x", (unsigned)order(&peer, 'k'));
	SAY("pool_imported_allowed_types", "%d", pool_pointer_word(at, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));
	ASK("pool_imported_free", cuMemFreeAsync(at, NULL));
	ASK("pool_imported_destroy", cuMemPoolDestroy(pool));
	peer_kill(&peer);
}

/* One bit of every fourth byte is wrong. */
static void flips(size_t first)
{
	with();
	struct peer peer = exporter_start(exporter);

	vmm_setup();
	exports_need(&peer);
	for (size_t i = first; i < 64; i += 8) {
		CUmemFabricHandle memory = note->memory, pool = note->pool;
		vmm_handle handle = UNTOUCHED(vmm_handle);
		CUmemoryPool got = UNTOUCHED(CUmemoryPool);
		memory.data[i] ^= (unsigned char)(1 << i / 8);
		pool.data[i] ^= (unsigned char)(1 << i / 8);
		ASK_VALUE(ask_name("import_flipped_byte_%zu", i), memory_import(&handle, &memory), "%s", OUT(handle));
		ASK_VALUE(ask_name("pool_import_flipped_byte_%zu", i), pool_import(&got, &pool), "%s", OUT(got));
	}
	ask_imports(first ? "after_odd_flips" : "after_even_flips");
	peer_kill(&peer);
}

ALONE(flips_even)
{
	flips(0);
}

ALONE(flips_odd)
{
	flips(4);
}

/* The importer has no channel; the exporter has one. */
ALONE(importer_without)
{
	with();
	struct peer peer = exporter_start(exporter);

	exports_need(&peer);
	channels_clear();
	without();
	vmm_setup();
	ask_imports("importer_without_channel");
	peer_kill(&peer);
}

ALONE(released)
{
	with();
	struct peer peer = exporter_start(exporter);

	vmm_setup();
	exports_need(&peer);
	order(&peer, 'u');
	order(&peer, 'd');
	ask_imports("released_at_peer");
	peer_kill(&peer);
}

ALONE(ended)
{
	with();
	struct peer peer = exporter_start(exporter);

	vmm_setup();
	exports_need(&peer);
	peer_tell(&peer, 'q', -1);
	peer_wait(&peer);
	ask_imports("ended_exporter");
}

ALONE(killed)
{
	with();
	struct peer peer = exporter_start(exporter);

	vmm_setup();
	exports_need(&peer);
	peer_kill(&peer);
	ask_imports("killed_exporter");
}

/* The importer keeps what it has. */
ALONE(killed_after_import)
{
	with();
	struct peer peer = exporter_start(exporter);
	vmm_handle handle = 0;

	vmm_setup();
	exports_need(&peer);
	CUdeviceptr at = vmm_reserve(1);
	NEED(memory_import(&handle, &note->memory));
	vmm_map(at, 1, handle, WRITE);
	peer_kill(&peer);
	SAY("survivor_bytes", "%s", vmm_bytes(at, 4));
	ASK("survivor_fill", cuMemsetD8(at, 0xb4, grain));
	ASK("survivor_synchronize", cuCtxSynchronize());
	ASK("survivor_import", memory_import(&handle, &note->memory));
}

/* ---- Two users ---- */

static void importer_as_user(struct peer *parent)
{
	if (!place.can_become)
		look_in("role1");
	become(IMPORTER);
	peer_hear(parent, NULL);
	vmm_setup();
	ask_imports(case_name);
}

ALONE(users)
{
	static const struct {
		const char *name;
		unsigned int exporter, importer; /* a bit for each channel */
	} cases[] = {
		{"one_channel", 1, 1},       {"a_channel_each", 1, 2},        {"one_in_common", 3, 6},
		{"importer_has_none", 1, 0}, {"other_in_common_first", 6, 3},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		channels_clear();
		for (unsigned int k = 0; k < 3; k++)
			channel_for(k, cases[i].exporter >> k & 1, cases[i].importer >> k & 1);
		look_in(place.can_become ? "with" : "role0");
		struct peer from = exporter_start(exporter_as_user);
		snprintf(case_name, sizeof case_name, "users_%s", cases[i].name);
		struct peer to = peer_start(importer_as_user);
		SAY(ask_name("%s_export", case_name), "%s", ask_driver_code((CUresult)order(&from, 'e')));
		SAY(ask_name("%s_pool_export", case_name), "%s", ask_driver_code((CUresult)order(&from, 'p')));
		peer_tell(&to, 'g', -1);
		peer_wait(&to);
		peer_kill(&from);
	}
}
