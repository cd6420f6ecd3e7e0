/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool": making and destroying pools, their attributes, which devices may use them, default and current pools.
 */
#include "pool.h"

CHAPTER(pool);

static const struct variant {
	const char *name;
	int allocation_type, type, id, handles;
	size_t most;
	int usage, reserved; /* reserved: which byte, from 1 on, is not zero */
	bool security;
} variants[] = {
	{"device", PINNED, DEVICE, 0, 0, 0, 0, 0, false},
	{"device_99", PINNED, DEVICE, 99, 0, 0, 0, 0, false},
	{"device_negative", PINNED, DEVICE, -1, 0, 0, 0, 0, false},
	{"device_negative_2", PINNED, DEVICE, -2, 0, 0, 0, 0, false},
	{"location_none", PINNED, 0, 0, 0, 0, 0, 0, false},
	{"host", PINNED, HOST, 0, 0, 0, 0, 0, false},
	{"host_7", PINNED, HOST, 7, 0, 0, 0, 0, false},
	{"host_negative", PINNED, HOST, -1, 0, 0, 0, 0, false},
	{"host_posix", PINNED, HOST, 0, POSIX, 0, 0, 0, false},
	{"host_fabric", PINNED, HOST, 0, 8, 0, 0, 0, false},
	{"host_handles_16", PINNED, HOST, 0, 16, 0, 0, 0, false},
	{"host_max_32_mib", PINNED, HOST, 0, 0, 32 * MIB, 0, 0, false},
	{"host_usage_2", PINNED, HOST, 0, 0, 0, 2, 0, false},
	{"numa_0", PINNED, NUMA, 0, 0, 0, 0, 0, false},
	{"numa_0_posix", PINNED, NUMA, 0, POSIX, 0, 0, 0, false},
	{"numa_0_fabric", PINNED, NUMA, 0, 8, 0, 0, 0, false},
	{"numa_0_max_32_mib", PINNED, NUMA, 0, 0, 32 * MIB, 0, 0, false},
	{"numa_0_usage_2", PINNED, NUMA, 0, 0, 0, 2, 0, false},
	{"numa_999", PINNED, NUMA, 999, 0, 0, 0, 0, false},
	{"numa_negative", PINNED, NUMA, -1, 0, 0, 0, 0, false},
	{"numa_current", PINNED, NUMA_CURRENT, 0, 0, 0, 0, 0, false},
	{"location_5", PINNED, 5, 0, 0, 0, 0, 0, false},
	{"location_99", PINNED, 99, 0, 0, 0, 0, 0, false},
	{"location_max", PINNED, 0x7fffffff, 0, 0, 0, 0, 0, false},
	{"location_negative", PINNED, -1, 0, 0, 0, 0, 0, false},
	/* 25: managed */
	{"managed", MANAGED, DEVICE, 0, 0, 0, 0, 0, false},
	{"managed_none", MANAGED, 0, 0, 0, 0, 0, 0, false},
	{"managed_none_7", MANAGED, 0, 7, 0, 0, 0, 0, false},
	{"managed_host", MANAGED, HOST, 0, 0, 0, 0, 0, false},
	{"managed_host_7", MANAGED, HOST, 7, 0, 0, 0, 0, false},
	{"managed_numa_0", MANAGED, NUMA, 0, 0, 0, 0, 0, false},
	{"managed_numa_999", MANAGED, NUMA, 999, 0, 0, 0, 0, false},
	{"managed_numa_current", MANAGED, NUMA_CURRENT, 0, 0, 0, 0, 0, false},
	{"managed_device_99", MANAGED, DEVICE, 99, 0, 0, 0, 0, false},
	{"managed_device_negative", MANAGED, DEVICE, -1, 0, 0, 0, 0, false},
	{"managed_location_5", MANAGED, 5, 0, 0, 0, 0, 0, false},
	{"managed_posix", MANAGED, DEVICE, 0, POSIX, 0, 0, 0, false},
	{"managed_fabric", MANAGED, DEVICE, 0, 8, 0, 0, 0, false},
	{"managed_max_1", MANAGED, DEVICE, 0, 0, 1, 0, 0, false},
	{"managed_max_32_mib", MANAGED, DEVICE, 0, 0, 32 * MIB, 0, 0, false},
	{"managed_usage_1", MANAGED, DEVICE, 0, 0, 0, 1, 0, false},
	{"managed_usage_2", MANAGED, DEVICE, 0, 0, 0, 2, 0, false},
	{"managed_reserved", MANAGED, DEVICE, 0, 0, 0, 0, 1, false},
	{"managed_security", MANAGED, DEVICE, 0, 0, 0, 0, 0, true},
	/* 44: handle types and the rest */
	{"posix", PINNED, DEVICE, 0, POSIX, 0, 0, 0, false},
	{"win32", PINNED, DEVICE, 0, 2, 0, 0, 0, false},
	{"win32_security", PINNED, DEVICE, 0, 2, 0, 0, 0, true},
	{"win32_kmt", PINNED, DEVICE, 0, 4, 0, 0, 0, false},
	{"fabric", PINNED, DEVICE, 0, 8, 0, 0, 0, false},
	{"posix_win32", PINNED, DEVICE, 0, 3, 0, 0, 0, false},
	{"posix_kmt", PINNED, DEVICE, 0, 5, 0, 0, 0, false},
	{"posix_fabric", PINNED, DEVICE, 0, 9, 0, 0, 0, false},
	{"handles_15", PINNED, DEVICE, 0, 15, 0, 0, 0, false},
	{"handles_16", PINNED, DEVICE, 0, 16, 0, 0, 0, false},
	{"handles_posix_16", PINNED, DEVICE, 0, 17, 0, 0, 0, false},
	{"handles_max", PINNED, DEVICE, 0, 0x7fffffff, 0, 0, 0, false},
	{"handles_negative", PINNED, DEVICE, 0, -1, 0, 0, 0, false},
	{"type_0", 0, DEVICE, 0, 0, 0, 0, 0, false},
	{"type_3", 3, DEVICE, 0, 0, 0, 0, 0, false},
	{"type_max", 0x7fffffff, DEVICE, 0, 0, 0, 0, 0, false},
	{"type_negative", -1, DEVICE, 0, 0, 0, 0, 0, false},
	{"security", PINNED, DEVICE, 0, 0, 0, 0, 0, true},
	{"posix_security", PINNED, DEVICE, 0, POSIX, 0, 0, 0, true},
	{"usage_1", PINNED, DEVICE, 0, 0, 0, 1, 0, false},
	{"usage_2", PINNED, DEVICE, 0, 0, 0, 2, 0, false},
	{"usage_3", PINNED, DEVICE, 0, 0, 0, 3, 0, false},
	{"usage_4", PINNED, DEVICE, 0, 0, 0, 4, 0, false},
	{"usage_8000", PINNED, DEVICE, 0, 0, 0, 0x8000, 0, false},
	{"reserved_first", PINNED, DEVICE, 0, 0, 0, 0, 1, false},
	{"reserved_last", PINNED, DEVICE, 0, 0, 0, 0, 54, false},
	/* 70: sizes */
	{"max_1", PINNED, DEVICE, 0, 0, 1, 0, 0, false},
	{"max_4096", PINNED, DEVICE, 0, 0, 4096, 0, 0, false},
	{"max_2_mib_less_1", PINNED, DEVICE, 0, 0, 2 * MIB - 1, 0, 0, false},
	{"max_2_mib", PINNED, DEVICE, 0, 0, 2 * MIB, 0, 0, false},
	{"max_3_mib", PINNED, DEVICE, 0, 0, 3 * MIB, 0, 0, false},
	{"max_32_mib", PINNED, DEVICE, 0, 0, 32 * MIB, 0, 0, false},
	{"max_33_mib", PINNED, DEVICE, 0, 0, 33 * MIB, 0, 0, false},
	{"max_1_gib", PINNED, DEVICE, 0, 0, GIB, 0, 0, false},
	{"max_posix_2_mib", PINNED, DEVICE, 0, POSIX, 2 * MIB, 0, 0, false},
	{"max_1_tib", PINNED, DEVICE, 0, 0, 1024 * GIB, 0, 0, false},
	{"max_64_tib", PINNED, DEVICE, 0, 0, 65536 * GIB, 0, 0, false},
	{"max_2_to_63", PINNED, DEVICE, 0, 0, (size_t)1 << 63, 0, 0, false},
	{"max_max", PINNED, DEVICE, 0, 0, SIZE_MAX, 0, 0, false},
	{"host_max_1", PINNED, HOST, 0, 0, 1, 0, 0, false},
	{"host_max_3_mib", PINNED, HOST, 0, 0, 3 * MIB, 0, 0, false},
	{"host_max_64_tib", PINNED, HOST, 0, 0, 65536 * GIB, 0, 0, false},
	{"host_max_max", PINNED, HOST, 0, 0, SIZE_MAX, 0, 0, false},
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

static CUmemPoolProps properties_of(const struct variant *variant)
{
	CUmemPoolProps properties = pool_properties(variant->allocation_type, variant->type, variant->id);

	properties.handleTypes = (CUmemAllocationHandleType)variant->handles;
	properties.maxSize = variant->most;
	properties.usage = (unsigned short)variant->usage;
	properties.win32SecurityAttributes = variant->security ? ask_zeros : NULL;
	if (variant->reserved)
		properties.reserved[variant->reserved - 1] = 1;
	return properties;
}

/* What a pool of each kind is when it was made: who may use it, what its blocks are, its numbers. */
static void ask_variant(const char *name, CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	SAY(ask_name("rights_%s", name), "device %s host %s numa %s", pool_rights(pool, DEVICE, 0),
	    pool_rights(pool, HOST, 0), pool_rights(pool, NUMA, 0));
	SAY(ask_name("reuse_%s", name), "%s %s %s threshold %s", pool_get(pool, FOLLOW), pool_get(pool, OPPORTUNISTIC),
	    pool_get(pool, INTERNAL), pool_get(pool, THRESHOLD));
	SAY(ask_name("numbers_%s", name), "%s", pool_numbers(pool));
	ASK_VALUE(ask_name("alloc_%s", name), cuMemAllocFromPoolAsync(&at, 4096, pool, stream), "%s", OUT(at));
	NEED(cuStreamSynchronize(stream));
	if (at && at != UNTOUCHED(CUdeviceptr)) {
		SAY(ask_name("block_%s", name), "type %d managed %d handles %d ordinal %d legacy %d access %d",
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_IS_MANAGED),
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES),
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
		    pool_pointer_word(at, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS));
		SAY(ask_name("numbers_with_block_%s", name), "%s", pool_numbers(pool));
		ASK(ask_name("free_%s", name), cuMemFreeAsync(at, stream));
		NEED(cuStreamSynchronize(stream));
		SAY(ask_name("numbers_after_free_%s", name), "%s", pool_numbers(pool));
	}
	ASK(ask_name("destroy_%s", name), cuMemPoolDestroy(pool));
}

static void ask_variants(int first, int end)
{
	ask_context();
	CUstream stream = pool_stream();
	for (int i = first; i < end; i++) {
		CUmemPoolProps properties = properties_of(&variants[i]);
		CUmemoryPool pool = UNTOUCHED(CUmemoryPool);
		ASK_VALUE(ask_name("create_%s", variants[i].name), cuMemPoolCreate(&pool, &properties), "%s",
			  OUT(pool));
		if (pool && pool != UNTOUCHED(CUmemoryPool))
			ask_variant(variants[i].name, pool, stream);
	}
}

GROUP(create_kinds)
{
	ask_variants(0, 25);
}

GROUP(create_managed)
{
	ask_variants(25, 44);
}

GROUP(create_handle_types)
{
	ask_variants(44, 70);
}

GROUP(create_sizes)
{
	ask_variants(70, VARIANTS);
}

GROUP(create_arguments)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);
	CUmemoryPool pool = UNTOUCHED(CUmemoryPool), other = NULL;

	ask_context();
	ASK("create_null", cuMemPoolCreate(NULL, &properties));
	ASK_VALUE("create_null_properties", cuMemPoolCreate(&pool, NULL), "%s", OUT(pool));
	ASK("create_null_both", cuMemPoolCreate(NULL, NULL));
	ASK("create", cuMemPoolCreate(&pool, &properties));
	ASK_VALUE("create_another", cuMemPoolCreate(&other, &properties), "differs %s", ask_yes(pool != other));
	ASK("destroy_one", cuMemPoolDestroy(pool));
	ASK("destroy_another", cuMemPoolDestroy(other));
	ASK("destroy_null", cuMemPoolDestroy(NULL));
}

/* What the device says about pools. */
GROUP(device_says)
{
	const struct {
		const char *name;
		CUdevice_attribute attribute;
	} attributes[] = {
		{"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
		{"handle_types", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES},
		{"host_pools", CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED},
		{"numa_pools", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED},
		{"managed", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
	};

	NEED(cuInit(0));
	for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
		int value = UNTOUCHED_INT;
		ASK_VALUE(ask_name("device_says_%s", attributes[i].name),
			  cuDeviceGetAttribute(&value, attributes[i].attribute, 0), "%d", value);
	}
}

/* Who may use a pool. */
static void ask_access(const char *kind, CUmemPoolProps properties)
{
	const struct {
		const char *name;
		int type, id;
	} places[] = {
		{"device", DEVICE, 0},
		{"device_99", DEVICE, 99},
		{"device_negative", DEVICE, -1},
		{"host", HOST, 0},
		{"host_7", HOST, 7},
		{"numa_0", NUMA, 0},
		{"numa_999", NUMA, 999},
		{"numa_current", NUMA_CURRENT, 0},
		{"none", 0, 0},
		{"5", 5, 0},
	};
	static const int rights[] = {NONE, READ, WRITE, 2, 4, -1};

	ask_context();
	CUmemoryPool pool = pool_make_as(properties);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		SAY(ask_name("%s_rights_of_%s", kind, places[i].name), "%s",
		    pool_rights(pool, places[i].type, places[i].id));
		for (size_t k = 0; k < sizeof rights / sizeof rights[0]; k++) {
			if (k > 2 && i > 0)
				break;
			ASK_VALUE(ask_name("%s_allow_%s_%d", kind, places[i].name, rights[k]),
				  pool_allow(pool, places[i].type, places[i].id, rights[k]), "now %s",
				  pool_rights(pool, places[i].type, places[i].id));
		}
	}
}

GROUP(access_device)
{
	ask_access("device", pool_properties(PINNED, DEVICE, 0));
}

GROUP(access_host)
{
	ask_access("host", pool_properties(PINNED, HOST, 0));
}

GROUP(access_numa)
{
	ask_access("numa", pool_properties(PINNED, NUMA, 0));
}

GROUP(access_managed)
{
	ask_access("managed", pool_properties(MANAGED, DEVICE, 0));
}

GROUP(access_arguments)
{
	CUmemAccessDesc all[2] = {vmm_access(DEVICE, 0, WRITE), vmm_access(DEVICE, 0, NONE)};
	CUmemAccessDesc wrong[2] = {vmm_access(DEVICE, 0, WRITE), vmm_access(DEVICE, 99, WRITE)};
	CUmemLocation location = vmm_place(DEVICE, 0);
	CUmemAccess_flags flags = (CUmemAccess_flags)UNTOUCHED_INT;

	ask_context();
	CUmemoryPool pool = pool_make(0);
	ASK("allow_count_0", cuMemPoolSetAccess(pool, all, 0));
	ASK("allow_null_count_0", cuMemPoolSetAccess(pool, NULL, 0));
	ASK("allow_null_count_1", cuMemPoolSetAccess(pool, NULL, 1));
	ASK("allow_write_twice", cuMemPoolSetAccess(pool, (CUmemAccessDesc[]){all[0], all[0]}, 2));
	ASK_VALUE("allow_write_and_none", cuMemPoolSetAccess(pool, all, 2), "now %s", pool_rights(pool, DEVICE, 0));
	ASK_VALUE("allow_one_wrong", cuMemPoolSetAccess(pool, wrong, 2), "now %s", pool_rights(pool, DEVICE, 0));
	ASK("rights_null_flags", cuMemPoolGetAccess(NULL, pool, &location));
	ASK_VALUE("rights_null_location", cuMemPoolGetAccess(&flags, pool, NULL), "%d", (int)flags);
	location = vmm_place(DEVICE, 99);
	ASK_VALUE("rights_wrong_writes", cuMemPoolGetAccess(&flags, pool, &location), "%d", (int)flags);
}

/* Host memory and the device: rights given, used and taken away. */
static void ask_access_use(const char *kind, CUmemPoolProps properties)
{
	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make_as(properties);
	CUdeviceptr before = pool_alloc(pool, 4096, stream);
	NEED(cuStreamSynchronize(stream));
	ask_guard();
	SAY(ask_name("%s_device_access_flags", kind), "%d",
	    pool_pointer_word(before, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS));
	ASK(ask_name("%s_device_fill", kind), cuMemsetD8(before, 0x21, 64));
	ASK_VALUE(ask_name("%s_allow_device", kind), pool_allow(pool, DEVICE, 0, WRITE), "now %s",
		  pool_rights(pool, DEVICE, 0));
	ASK(ask_name("%s_device_fill_old_block", kind), cuMemsetD8(before, 0x22, 64));
	SAY(ask_name("%s_old_block_bytes", kind), "%s", vmm_bytes(before, 16));
	CUdeviceptr after = pool_alloc(pool, 4096, stream);
	NEED(cuStreamSynchronize(stream));
	ASK(ask_name("%s_device_fill_new_block", kind), cuMemsetD8(after, 0x23, 64));
	SAY(ask_name("%s_new_block_bytes", kind), "%s", vmm_bytes(after, 16));
	SAY(ask_name("%s_allowed_access_flags", kind), "%d",
	    pool_pointer_word(after, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS));
	ASK_VALUE(ask_name("%s_forbid_device", kind), pool_allow(pool, DEVICE, 0, NONE), "now %s",
		  pool_rights(pool, DEVICE, 0));
	ASK(ask_name("%s_device_fill_forbidden", kind), cuMemsetD8(after, 0x24, 64));
	ASK(ask_name("%s_free_forbidden", kind), cuMemFreeAsync(after, stream));
}

GROUP(access_use_host)
{
	ask_access_use("host_use", pool_properties(PINNED, HOST, 0));
}

GROUP(access_use_numa)
{
	ask_access_use("numa_use", pool_properties(PINNED, NUMA, 0));
}

static const char *const attribute_names[] = {"0",
					      "follow",
					      "opportunistic",
					      "internal",
					      "threshold",
					      "reserved",
					      "reserved_high",
					      "used",
					      "used_high",
					      "9",
					      "10",
					      "11",
					      "12",
					      "13",
					      "14"};

enum { ATTRIBUTES = sizeof attribute_names / sizeof attribute_names[0] };

GROUP(attributes)
{
	static const unsigned long long values[] = {0, 1, 2, 1ull << 32, ~0ull, 12345};

	ask_context();
	CUmemoryPool pool = pool_make(0);
	CUstream stream = pool_stream();
	CUdeviceptr at = pool_alloc(pool, 3 * MIB, stream);
	(void)at;
	NEED(cuStreamSynchronize(stream));
	for (int i = -1; i < ATTRIBUTES; i++) {
		const char *name = i < 0 ? "negative" : attribute_names[i];
		unsigned long long wide = UNTOUCHED(unsigned long long);
		ASK_VALUE(ask_name("get_%s", name), cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, &wide), "%llx",
			  wide);
		ASK(ask_name("get_%s_null", name), cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, NULL));
		ASK(ask_name("set_%s_null", name), cuMemPoolSetAttribute(pool, (CUmemPool_attribute)i, NULL));
		for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
			wide = values[k];
			ASK_VALUE(ask_name("set_%s_%llx", name, values[k]),
				  cuMemPoolSetAttribute(pool, (CUmemPool_attribute)i, &wide), "now %s",
				  pool_get(pool, i));
		}
	}
	SAY("numbers_after_all_that", "%s", pool_numbers(pool));
}

/* The attributes that are set and kept. */
GROUP(attributes_default)
{
	CUmemoryPool pool = NULL;

	ask_context();
	NEED(cuDeviceGetDefaultMemPool(&pool, 0));
	for (int i = FOLLOW; i <= USED_HIGH; i++)
		SAY(ask_name("default_pool_%s", attribute_names[i]), "%s", pool_get(pool, i));
	SAY("default_pool_rights", "device %s host %s numa %s", pool_rights(pool, DEVICE, 0),
	    pool_rights(pool, HOST, 0), pool_rights(pool, NUMA, 0));
	ASK_VALUE("default_pool_threshold_up", pool_set(pool, THRESHOLD, 64 * MIB), "now %s",
		  pool_get(pool, THRESHOLD));
	ASK_VALUE("default_pool_follow_off", pool_set(pool, FOLLOW, 0), "now %s", pool_get(pool, FOLLOW));
	ASK("default_pool_forbid", pool_allow(pool, DEVICE, 0, NONE));
	ASK("default_pool_allow_host", pool_allow(pool, HOST, 0, WRITE));
	ASK("default_pool_trim", cuMemPoolTrimTo(pool, 0));
	ASK("default_pool_destroy", cuMemPoolDestroy(pool));
	SAY("default_pool_after_destroy", "%s", pool_get(pool, THRESHOLD));
	CUdeviceptr at = 0;
	ASK("default_pool_alloc", cuMemAllocAsync(&at, 4096, NULL));
	ASK("default_pool_free", cuMemFreeAsync(at, NULL));
}

/* Default and current pools. */
GROUP(current)
{
	CUmemoryPool first = UNTOUCHED(CUmemoryPool), got = UNTOUCHED(CUmemoryPool);
	CUdeviceptr at = 0;
	CUmemoryPool from = NULL;

	ask_context();
	ASK_VALUE("default", cuDeviceGetDefaultMemPool(&first, 0), "%s", OUT(first));
	ASK_VALUE("default_again", cuDeviceGetDefaultMemPool(&got, 0), "%s", pool_which(got, first, NULL));
	ASK("default_null", cuDeviceGetDefaultMemPool(NULL, 0));
	got = UNTOUCHED(CUmemoryPool);
	ASK_VALUE("default_of_99", cuDeviceGetDefaultMemPool(&got, 99), "%s", OUT(got));
	ASK_VALUE("default_of_negative", cuDeviceGetDefaultMemPool(&got, -1), "%s", OUT(got));
	ASK_VALUE("current_of_99", cuDeviceGetMemPool(&got, 99), "%s", OUT(got));
	ASK_VALUE("current_of_negative", cuDeviceGetMemPool(&got, -1), "%s", OUT(got));
	ASK("current_null", cuDeviceGetMemPool(NULL, 0));
	ASK_VALUE("current_at_first", cuDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, NULL));
	CUmemoryPool mine = pool_make(0);
	ASK("set_current", cuDeviceSetMemPool(0, mine));
	ASK_VALUE("current_after_set", cuDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, mine));
	ASK_VALUE("default_after_set", cuDeviceGetDefaultMemPool(&got, 0), "%s", pool_which(got, first, mine));
	ASK("alloc_from_current", cuMemAllocAsync(&at, 4096, NULL));
	ASK_VALUE("pool_of_block", cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), "%s",
		  pool_which(from, first, mine));
	ASK("set_current_null", cuDeviceSetMemPool(0, NULL));
	ASK_VALUE("current_after_null", cuDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, mine));
	ASK("set_current_of_99", cuDeviceSetMemPool(99, mine));
	ASK("set_current_of_negative", cuDeviceSetMemPool(-1, mine));
	const struct {
		const char *name;
		int allocation_type, type;
	} kinds[] = {
		{"host", PINNED, HOST},       {"numa", PINNED, NUMA},          {"managed", MANAGED, DEVICE},
		{"managed_none", MANAGED, 0}, {"managed_host", MANAGED, HOST},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		CUmemPoolProps properties = pool_properties(kinds[i].allocation_type, kinds[i].type, 0);
		CUmemoryPool other = NULL;
		if (cuMemPoolCreate(&other, &properties))
			continue;
		ASK_VALUE(ask_name("set_current_%s", kinds[i].name), cuDeviceSetMemPool(0, other), "%s",
			  cuDeviceGetMemPool(&got, 0) ? "?" : pool_which(got, first, mine));
		NEED(cuDeviceSetMemPool(0, mine));
	}
	ASK("set_current_default", cuDeviceSetMemPool(0, first));
	ASK_VALUE("current_is_default", cuDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, mine));
	ASK("free_into_former", cuMemFreeAsync(at, NULL));
}

GROUP(current_destroyed)
{
	CUmemoryPool first = NULL, got = UNTOUCHED(CUmemoryPool), from = NULL;
	CUdeviceptr before = 0, after = 0;

	ask_context();
	NEED(cuDeviceGetDefaultMemPool(&first, 0));
	CUmemoryPool mine = pool_make(0);
	NEED(cuDeviceSetMemPool(0, mine));
	NEED(cuMemAllocAsync(&before, 4096, NULL));
	ASK("destroy_current", cuMemPoolDestroy(mine));
	ASK_VALUE("current_after_destroy", cuDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, mine));
	ASK("alloc_after_destroy", cuMemAllocAsync(&after, 4096, NULL));
	ASK_VALUE("pool_of_block_after_destroy",
		  cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, after), "%s",
		  pool_which(from, first, mine));
	ASK("free_of_destroyed", cuMemFreeAsync(before, NULL));
	ASK("free_after_destroy", cuMemFreeAsync(after, NULL));
	ASK("synchronize_after_destroy", cuCtxSynchronize());
}

/* Pools of locations. */
GROUP(locations)
{
	const struct {
		const char *name;
		int type, id;
	} places[] = {
		{"none", 0, 0},
		{"device", DEVICE, 0},
		{"device_99", DEVICE, 99},
		{"device_negative", DEVICE, -1},
		{"host", HOST, 0},
		{"host_7", HOST, 7},
		{"numa_0", NUMA, 0},
		{"numa_999", NUMA, 999},
		{"numa_negative", NUMA, -1},
		{"numa_current", NUMA_CURRENT, 0},
		{"5", 5, 0},
		{"negative", -1, 0},
	};
	CUmemoryPool of_device = NULL, first, got;
	CUmemLocation device = vmm_place(DEVICE, 0);

	ask_context();
	NEED(cuDeviceGetDefaultMemPool(&of_device, 0));
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		for (int type = 0; type <= 3; type++) {
			CUmemLocation place = vmm_place(places[i].type, places[i].id);
			first = got = UNTOUCHED(CUmemoryPool);
			ASK_VALUE(ask_name("default_at_%s_type_%d", places[i].name, type),
				  cuMemGetDefaultMemPool(&first, &place, (CUmemAllocationType)type), "%s",
				  pool_which(first, of_device, NULL));
			ASK_VALUE(ask_name("current_at_%s_type_%d", places[i].name, type),
				  cuMemGetMemPool(&got, &place, (CUmemAllocationType)type), "%s",
				  pool_which(got, of_device, first));
			if (!first || first == UNTOUCHED(CUmemoryPool))
				continue;
			SAY(ask_name("default_rights_at_%s_type_%d", places[i].name, type), "device %s host %s",
			    pool_rights(first, DEVICE, 0), pool_rights(first, HOST, 0));
			SAY(ask_name("default_reuse_at_%s_type_%d", places[i].name, type), "%s %s %s threshold %s",
			    pool_get(first, FOLLOW), pool_get(first, OPPORTUNISTIC), pool_get(first, INTERNAL),
			    pool_get(first, THRESHOLD));
			ASK(ask_name("destroy_default_at_%s_type_%d", places[i].name, type), cuMemPoolDestroy(first));
		}
	}
	ASK("default_at_null", cuMemGetDefaultMemPool(&got, NULL, (CUmemAllocationType)PINNED));
	ASK("default_at_null_pool", cuMemGetDefaultMemPool(NULL, &device, (CUmemAllocationType)PINNED));
	ASK("current_at_null", cuMemGetMemPool(&got, NULL, (CUmemAllocationType)PINNED));
	ASK("current_at_null_pool", cuMemGetMemPool(NULL, &device, (CUmemAllocationType)PINNED));
	ASK("set_at_null", cuMemSetMemPool(NULL, (CUmemAllocationType)PINNED, of_device));
	ASK("set_at_null_pool", cuMemSetMemPool(&device, (CUmemAllocationType)PINNED, NULL));
}

/* Each kind of pool made the current one of each place. */
GROUP(locations_set)
{
	const struct {
		const char *name;
		int allocation_type, type, id;
	} kinds[] = {
		{"device", PINNED, DEVICE, 0},      {"host", PINNED, HOST, 0},       {"numa", PINNED, NUMA, 0},
		{"managed", MANAGED, DEVICE, 0},    {"managed_none", MANAGED, 0, 0}, {"managed_host", MANAGED, HOST, 0},
		{"managed_numa", MANAGED, NUMA, 0},
	};
	enum { KINDS = sizeof kinds / sizeof kinds[0] };
	CUmemoryPool got = NULL, device = NULL;

	ask_context();
	for (size_t i = 0; i < KINDS; i++) {
		CUmemPoolProps properties = pool_properties(kinds[i].allocation_type, kinds[i].type, kinds[i].id);
		CUmemoryPool pool = NULL;
		if (cuMemPoolCreate(&pool, &properties))
			continue;
		for (size_t k = 0; k < KINDS; k++) {
			CUmemLocation place = vmm_place(kinds[k].type, kinds[k].id);
			CUmemAllocationType type = (CUmemAllocationType)kinds[k].allocation_type;
			CUmemoryPool before = NULL;
			got = NULL;
			if (cuMemGetMemPool(&before, &place, type))
				before = NULL;
			ASK_VALUE(ask_name("set_%s_pool_at_%s", kinds[i].name, kinds[k].name),
				  cuMemSetMemPool(&place, type, pool), "%s",
				  cuMemGetMemPool(&got, &place, type) ? "?" : pool_which(got, before, pool));
			if (before && got == pool)
				NEED(cuMemSetMemPool(&place, type, before));
		}
	}
	CUmemLocation place = vmm_place(DEVICE, 0), wrong = vmm_place(DEVICE, 99);
	CUmemoryPool mine = pool_make(0);
	ASK("set_at_device", cuMemSetMemPool(&place, (CUmemAllocationType)PINNED, mine));
	ASK_VALUE("device_after_set_at_device", cuDeviceGetMemPool(&device, 0), "%s", pool_which(device, mine, NULL));
	ASK("set_at_wrong_device", cuMemSetMemPool(&wrong, (CUmemAllocationType)PINNED, mine));
	ASK("set_at_type_0", cuMemSetMemPool(&place, (CUmemAllocationType)0, mine));
	ASK("set_at_type_3", cuMemSetMemPool(&place, (CUmemAllocationType)3, mine));
	ASK("destroy_after_set_at_device", cuMemPoolDestroy(mine));
	NEED(cuDeviceGetDefaultMemPool(&device, 0));
	ASK_VALUE("at_device_after_destroy", cuMemGetMemPool(&got, &place, (CUmemAllocationType)PINNED), "%s",
		  pool_which(got, device, mine));
}

/* Numbers that were never pools, or no longer are. */
static void ask_wrong_pool(const char *kind, CUmemoryPool pool)
{
	CUmemLocation place = vmm_place(DEVICE, 0);
	CUmemAccess_flags flags;
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	unsigned long long wide = UNTOUCHED_INT;
	int descriptor = -1;

	ASK_VALUE(ask_name("get_attribute_of_%s", kind),
		  cuMemPoolGetAttribute(pool, (CUmemPool_attribute)THRESHOLD, &wide), "%llu", wide);
	ASK(ask_name("set_attribute_of_%s", kind), pool_set(pool, THRESHOLD, 0));
	ASK(ask_name("rights_of_%s", kind), cuMemPoolGetAccess(&flags, pool, &place));
	ASK(ask_name("allow_%s", kind), pool_allow(pool, DEVICE, 0, WRITE));
	ASK(ask_name("trim_%s", kind), cuMemPoolTrimTo(pool, 0));
	ASK_VALUE(ask_name("alloc_from_%s", kind), cuMemAllocFromPoolAsync(&at, 4096, pool, NULL), "%s", OUT(at));
	ASK(ask_name("set_current_%s", kind), cuDeviceSetMemPool(0, pool));
	ASK(ask_name("set_at_device_%s", kind), cuMemSetMemPool(&place, (CUmemAllocationType)PINNED, pool));
	ASK(ask_name("export_%s", kind),
	    cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASK(ask_name("destroy_%s", kind), cuMemPoolDestroy(pool));
	ASK(ask_name("synchronize_after_%s", kind), cuCtxSynchronize());
}

#define WRONG_POOL(name, pool)               \
	GROUP(wrong_##name)                  \
	{                                    \
		ask_context();               \
		ask_wrong_pool(#name, pool); \
	}

WRONG_POOL(null_pool, NULL)
WRONG_POOL(small_pool, SMALL(CUmemoryPool))
WRONG_POOL(garbage_pool, GARBAGE(CUmemoryPool))
WRONG_POOL(zeros_pool, ZEROS(CUmemoryPool))

GROUP(wrong_stale)
{
	ask_context();
	CUmemoryPool pool = pool_make(0);
	NEED(cuMemPoolDestroy(pool));
	ask_wrong_pool("stale_pool", pool);
}

/* A pool destroyed while a block of it lives: is its handle still one? */
GROUP(wrong_dying)
{
	ask_context();
	CUmemoryPool pool = pool_make(0);
	CUdeviceptr at = pool_alloc(pool, 4096, NULL);
	(void)at;
	NEED(cuCtxSynchronize());
	NEED(cuMemPoolDestroy(pool));
	ask_wrong_pool("dying_pool", pool);
}

GROUP(destroy_with_blocks)
{
	CUmemoryPool from = NULL;

	ask_context();
	CUmemoryPool pool = pool_make(0);
	CUdeviceptr at = pool_alloc(pool, 4096, NULL), other = pool_alloc(pool, 4096, NULL);
	NEED(cuCtxSynchronize());
	ASK("destroy_with_blocks", cuMemPoolDestroy(pool));
	ASK("fill_of_destroyed", cuMemsetD8(at, 0x31, 4096));
	SAY("bytes_of_destroyed", "%s", vmm_bytes(at + 4080, 16));
	ASK_VALUE("pool_of_destroyed", cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at), "%s",
		  pool_which(from, pool, NULL));
	ASK("free_async_of_destroyed", cuMemFreeAsync(at, NULL));
	ASK("free_sync_of_destroyed", cuMemFree(other));
	ASK("synchronize_when_all_is_free", cuCtxSynchronize());
	ASK("fill_after_last_free", cuMemsetD8(at, 0x32, 16));
	ASK("free_again_of_destroyed", cuMemFreeAsync(at, NULL));
}

/* The runtime's related calls. */
GROUP(runtime)
{
	struct cudaMemPoolProps properties;
	cudaMemPool_t pool = UNTOUCHED(cudaMemPool_t), got = NULL, first = NULL;
	struct cudaMemLocation place = {.type = cudaMemLocationTypeDevice, .id = 0};
	struct cudaMemAccessDesc access = {.location = place, .flags = cudaMemAccessFlagsProtReadWrite};
	enum cudaMemAccessFlags flags = (enum cudaMemAccessFlags)UNTOUCHED_INT;
	unsigned long long wide = 0;
	void *at = UNTOUCHED(void *);

	memset(&properties, 0, sizeof properties);
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location = place;
	ASK("runtime_create_null", cudaMemPoolCreate(NULL, &properties));
	ASK("runtime_create_null_properties", cudaMemPoolCreate(&pool, NULL));
	ASK_VALUE("runtime_create", cudaMemPoolCreate(&pool, &properties), "%s", OUT(pool));
	properties.location.id = 99;
	ASK("runtime_create_device_99", cudaMemPoolCreate(&got, &properties));
	ASK("runtime_last_error", cudaGetLastError());
	ASK_VALUE("runtime_default", cudaDeviceGetDefaultMemPool(&first, 0), "%s", OUT(first));
	ASK("runtime_default_of_99", cudaDeviceGetDefaultMemPool(&got, 99));
	ASK_VALUE("runtime_current", cudaDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, pool));
	ASK("runtime_set_current", cudaDeviceSetMemPool(0, pool));
	ASK_VALUE("runtime_current_after_set", cudaDeviceGetMemPool(&got, 0), "%s", pool_which(got, first, pool));
	ASK_VALUE("runtime_at_device", cudaMemGetMemPool(&got, &place, cudaMemAllocationTypePinned), "%s",
		  pool_which(got, first, pool));
	ASK_VALUE("runtime_default_at_device", cudaMemGetDefaultMemPool(&got, &place, cudaMemAllocationTypePinned),
		  "%s", pool_which(got, first, pool));
	ASK("runtime_set_at_device", cudaMemSetMemPool(&place, cudaMemAllocationTypePinned, first));
	ASK("runtime_get_threshold", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &wide));
	wide = 1 << 20;
	ASK("runtime_set_threshold", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &wide));
	ASK("runtime_set_used", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &wide));
	ASK("runtime_get_99", cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)99, &wide));
	ASK_VALUE("runtime_rights", cudaMemPoolGetAccess(&flags, pool, &place), "%d", (int)flags);
	ASK("runtime_allow", cudaMemPoolSetAccess(pool, &access, 1));
	access.flags = cudaMemAccessFlagsProtNone;
	ASK("runtime_forbid", cudaMemPoolSetAccess(pool, &access, 1));
	ASK_VALUE("runtime_alloc_0", cudaMallocAsync(&at, 0, NULL), "%s", OUT(at));
	ASK_VALUE("runtime_alloc", cudaMallocAsync(&at, 4096, NULL), "%s", OUT(at));
	ASK("runtime_free", cudaFreeAsync(at, NULL));
	ASK_VALUE("runtime_alloc_from_pool", cudaMallocFromPoolAsync(&at, 4096, pool, NULL), "%s", OUT(at));
	ASK("runtime_free_sync", cudaFree(at));
	ASK("runtime_free_again", cudaFreeAsync(at, NULL));
	ASK("runtime_free_null", cudaFreeAsync(NULL, NULL));
	ASK("runtime_alloc_null", cudaMallocAsync(NULL, 16, NULL));
	ASK("runtime_alloc_from_null", cudaMallocFromPoolAsync(&at, 16, NULL, NULL));
	ASK("runtime_trim", cudaMemPoolTrimTo(pool, 0));
	ASK("runtime_destroy", cudaMemPoolDestroy(pool));
	ASK("runtime_destroy_default", cudaMemPoolDestroy(first));
	ASK("runtime_destroy_null", cudaMemPoolDestroy(NULL));
	ASK("runtime_last_error_at_end", cudaGetLastError());
}
