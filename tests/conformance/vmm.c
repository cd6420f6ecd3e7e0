/* SPDX-License-Identifier: MIT */
/*
 * Chapter "vmm": physical memory, address reservations, and mappings of the one in the other.
 */
#include "vmm.h"

CHAPTER(vmm);

static const struct variant {
	const char *name;
	int type, id, handles;
	int allocation_type, compression, rdma, usage, reserved;
	bool meta;
} variants[] = {
	{"device", DEVICE, 0, 0, 1, 0, 0, 0, 0, false},
	{"device_99", DEVICE, 99, 0, 1, 0, 0, 0, 0, false},
	{"device_negative", DEVICE, -1, 0, 1, 0, 0, 0, 0, false},
	{"device_negative_2", DEVICE, -2, 0, 1, 0, 0, 0, 0, false},
	{"location_none", 0, 0, 0, 1, 0, 0, 0, 0, false},
	{"host", HOST, 0, 0, 1, 0, 0, 0, 0, false},
	{"host_7", HOST, 7, 0, 1, 0, 0, 0, 0, false},
	{"host_posix", HOST, 0, POSIX, 1, 0, 0, 0, 0, false},
	{"numa_0", NUMA, 0, 0, 1, 0, 0, 0, 0, false},
	{"numa_0_posix", NUMA, 0, POSIX, 1, 0, 0, 0, 0, false},
	{"numa_999", NUMA, 999, 0, 1, 0, 0, 0, 0, false},
	{"numa_negative", NUMA, -1, 0, 1, 0, 0, 0, 0, false},
	{"numa_current", NUMA_CURRENT, 0, 0, 1, 0, 0, 0, 0, false},
	{"location_5", 5, 0, 0, 1, 0, 0, 0, 0, false},
	{"location_99", 99, 0, 0, 1, 0, 0, 0, 0, false},
	{"location_negative", -1, 0, 0, 1, 0, 0, 0, 0, false},
	{"posix", DEVICE, 0, POSIX, 1, 0, 0, 0, 0, false},
	{"win32", DEVICE, 0, 2, 1, 0, 0, 0, 0, false},
	{"win32_meta", DEVICE, 0, 2, 1, 0, 0, 0, 0, true},
	{"win32_kmt", DEVICE, 0, 4, 1, 0, 0, 0, 0, false},
	{"fabric", DEVICE, 0, 8, 1, 0, 0, 0, 0, false},
	{"posix_win32", DEVICE, 0, 3, 1, 0, 0, 0, 0, false},
	{"posix_kmt", DEVICE, 0, 5, 1, 0, 0, 0, 0, false},
	{"posix_fabric", DEVICE, 0, 9, 1, 0, 0, 0, 0, false},
	{"handles_15", DEVICE, 0, 15, 1, 0, 0, 0, 0, false},
	{"handles_16", DEVICE, 0, 16, 1, 0, 0, 0, 0, false},
	{"handles_posix_16", DEVICE, 0, 17, 1, 0, 0, 0, 0, false},
	{"handles_max", DEVICE, 0, 0x7fffffff, 1, 0, 0, 0, 0, false},
	{"handles_negative", DEVICE, 0, -1, 1, 0, 0, 0, 0, false},
	{"type_0", DEVICE, 0, 0, 0, 0, 0, 0, 0, false},
	{"type_managed", DEVICE, 0, 0, 2, 0, 0, 0, 0, false},
	{"type_3", DEVICE, 0, 0, 3, 0, 0, 0, 0, false},
	{"type_max", DEVICE, 0, 0, 0x7fffffff, 0, 0, 0, 0, false},
	{"type_negative", DEVICE, 0, 0, -1, 0, 0, 0, 0, false},
	{"meta", DEVICE, 0, 0, 1, 0, 0, 0, 0, true},
	{"posix_meta", DEVICE, 0, POSIX, 1, 0, 0, 0, 0, true},
	{"compression_1", DEVICE, 0, 0, 1, 1, 0, 0, 0, false},
	{"compression_1_posix", DEVICE, 0, POSIX, 1, 1, 0, 0, 0, false},
	{"compression_1_host", HOST, 0, 0, 1, 1, 0, 0, 0, false},
	{"compression_2", DEVICE, 0, 0, 1, 2, 0, 0, 0, false},
	{"compression_255", DEVICE, 0, 0, 1, 255, 0, 0, 0, false},
	{"rdma_1", DEVICE, 0, 0, 1, 0, 1, 0, 0, false},
	{"rdma_1_posix", DEVICE, 0, POSIX, 1, 0, 1, 0, 0, false},
	{"rdma_1_host", HOST, 0, 0, 1, 0, 1, 0, 0, false},
	{"rdma_2", DEVICE, 0, 0, 1, 0, 2, 0, 0, false},
	{"rdma_255", DEVICE, 0, 0, 1, 0, 255, 0, 0, false},
	{"usage_tiles", DEVICE, 0, 0, 1, 0, 0, 1, 0, false},
	{"usage_decompress", DEVICE, 0, 0, 1, 0, 0, 2, 0, false},
	{"usage_3", DEVICE, 0, 0, 1, 0, 0, 3, 0, false},
	{"usage_4", DEVICE, 0, 0, 1, 0, 0, 4, 0, false},
	{"usage_8000", DEVICE, 0, 0, 1, 0, 0, 0x8000, 0, false},
	{"reserved", DEVICE, 0, 0, 1, 0, 0, 0, 1, false},
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

static CUmemAllocationProp properties_of(const struct variant *variant)
{
	CUmemAllocationProp properties = vmm_properties(variant->type, variant->id, variant->handles);

	properties.type = (CUmemAllocationType)variant->allocation_type;
	properties.win32HandleMetaData = variant->meta ? ask_zeros : NULL;
	properties.allocFlags.compressionType = (unsigned char)variant->compression;
	properties.allocFlags.gpuDirectRDMACapable = (unsigned char)variant->rdma;
	properties.allocFlags.usage = (unsigned short)variant->usage;
	properties.allocFlags.reserved[0] = (unsigned char)variant->reserved;
	return properties;
}

GROUP(granularity)
{
	CUmemAllocationProp device = vmm_properties(DEVICE, 0, 0);
	size_t size = UNTOUCHED(size_t);

	ask_context();
	for (int i = 0; i < VARIANTS; i++) {
		CUmemAllocationProp properties = properties_of(&variants[i]);
		size = UNTOUCHED_INT;
		ASK_VALUE(ask_name("granularity_%s", variants[i].name),
			  cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "%zu",
			  size);
		size = UNTOUCHED_INT;
		ASK_VALUE(ask_name("granularity_recommended_%s", variants[i].name),
			  cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
			  "%zu", size);
	}
	ASK("granularity_null", cuMemGetAllocationGranularity(NULL, &device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ASK("granularity_null_properties",
	    cuMemGetAllocationGranularity(&size, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ASK("granularity_option_2", cuMemGetAllocationGranularity(&size, &device, (CUmemAllocationGranularity_flags)2));
	ASK("granularity_option_negative",
	    cuMemGetAllocationGranularity(&size, &device, (CUmemAllocationGranularity_flags)-1));
}

/* What each kind of memory is when it was made: its properties, and whether a descriptor of it can be had. */
static void ask_variants(int first, int end)
{
	vmm_setup();
	for (int i = first; i < end; i++) {
		CUmemAllocationProp properties = properties_of(&variants[i]);
		vmm_handle handle = UNTOUCHED(vmm_handle);
		int descriptor = -1;
		ASK_VALUE(ask_name("create_%s", variants[i].name), cuMemCreate(&handle, 4 * grain, &properties, 0),
			  "%s", OUT(handle));
		if (handle == UNTOUCHED(vmm_handle) || !handle)
			continue;
		vmm_ask_properties(ask_name("properties_%s", variants[i].name), handle);
		ASK_VALUE(
			ask_name("export_%s", variants[i].name),
			cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			"%s", descriptor == -1 ? "untouched" : ask_yes(descriptor > 2));
		ASK(ask_name("release_%s", variants[i].name), cuMemRelease(handle));
	}
}

GROUP(create_kinds)
{
	ask_variants(0, 16);
}

GROUP(create_handle_types)
{
	ask_variants(16, 36);
}

GROUP(create_flags)
{
	ask_variants(36, VARIANTS);
}

GROUP(create_sizes)
{
	CUmemAllocationProp device = vmm_properties(DEVICE, 0, 0), host = vmm_properties(HOST, 0, 0);
	vmm_handle handle = UNTOUCHED(vmm_handle), other = 0;
	const struct {
		const char *name;
		size_t bytes;
	} sizes[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"65536", 65536},
		{"1_tib", (size_t)1 << 40},
		{"128_tib", (size_t)128 << 40},
		{"2_to_63", (size_t)1 << 63},
		{"max", SIZE_MAX},
		{"max_of_pages", SIZE_MAX - 4095},
		{"max_of_gibs", SIZE_MAX - ((1 << 30) - 1)},
	};

	vmm_setup();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		handle = UNTOUCHED(vmm_handle);
		ASK_VALUE(ask_name("create_bytes_%s", sizes[i].name), cuMemCreate(&handle, sizes[i].bytes, &device, 0),
			  "%s", OUT(handle));
	}
	for (size_t i = 0; i < 4; i++) {
		handle = UNTOUCHED(vmm_handle);
		ASK_VALUE(ask_name("create_host_bytes_%s", sizes[i].name),
			  cuMemCreate(&handle, sizes[i].bytes, &host, 0), "%s", OUT(handle));
	}
	ASK("create_grain_less_1", cuMemCreate(&handle, grain - 1, &device, 0));
	ASK("create_grain_and_1", cuMemCreate(&handle, grain + 1, &device, 0));
	ASK("create_grain_and_half", cuMemCreate(&handle, grain / 2 * 3, &device, 0));
	ASK("create_1_grain", cuMemCreate(&handle, grain, &device, 0));
	ASK_VALUE("create_3_grains", cuMemCreate(&other, 3 * grain, &device, 0), "differs %s",
		  ask_yes(other != handle));
	ASK("create_null", cuMemCreate(NULL, grain, &device, 0));
	ASK("create_null_properties", cuMemCreate(&handle, grain, NULL, 0));
	ASK("create_null_both", cuMemCreate(NULL, grain, NULL, 0));
	ASK("create_flags_1", cuMemCreate(&handle, grain, &device, 1));
	ASK("create_flags_high", cuMemCreate(&handle, grain, &device, 1ull << 63));
	ASK("properties_null", cuMemGetAllocationPropertiesFromHandle(NULL, other));
	vmm_ask_properties("properties_of_other", other);
	ASK("release", cuMemRelease(other));
}

/* Numbers that were never handles, each in a process of its own in case the driver looks behind them. */
static void ask_wrong_handle(const char *kind, vmm_handle handle)
{
	CUmemAllocationProp properties;
	int descriptor = UNTOUCHED_INT;
	CUdeviceptr at;

	vmm_setup();
	at = vmm_reserve(1);
	ASK(ask_name("properties_of_%s_handle", kind), cuMemGetAllocationPropertiesFromHandle(&properties, handle));
	ASK_VALUE(ask_name("export_%s_handle", kind),
		  cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "%s",
		  descriptor == UNTOUCHED_INT ? "untouched" : "set");
	ASK(ask_name("map_%s_handle", kind), cuMemMap(at, grain, 0, handle, 0));
	ASK(ask_name("release_%s_handle", kind), cuMemRelease(handle));
	ASK(ask_name("synchronize_after_%s_handle", kind), cuCtxSynchronize());
}

GROUP(handle_0)
{
	ask_wrong_handle("zero", 0);
}

GROUP(handle_1)
{
	ask_wrong_handle("one", 1);
}

GROUP(handle_small)
{
	ask_wrong_handle("small", SMALL(vmm_handle));
}

GROUP(handle_garbage)
{
	ask_wrong_handle("garbage", GARBAGE(vmm_handle));
}

GROUP(handle_zeros)
{
	ask_wrong_handle("zeros", ZEROS(vmm_handle));
}

GROUP(handle_max)
{
	ask_wrong_handle("max", ~0ull);
}

GROUP(handle_pointer)
{
	CUdeviceptr memory = 0;

	ask_context();
	NEED(cuMemAlloc(&memory, 4096));
	ask_wrong_handle("device_pointer", memory);
}

static vmm_handle stale(void)
{
	vmm_setup();
	vmm_handle handle = vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX));
	NEED(cuMemRelease(handle));
	return handle;
}

GROUP(stale_release)
{
	vmm_handle handle = stale();

	ASK("release_twice", cuMemRelease(handle));
	ASK("synchronize_after_release_twice", cuCtxSynchronize());
}

GROUP(stale_map)
{
	vmm_handle handle = stale();
	CUdeviceptr at = vmm_reserve(1);

	ASK("map_released", cuMemMap(at, grain, 0, handle, 0));
}

GROUP(stale_properties)
{
	CUmemAllocationProp properties;
	vmm_handle handle = stale();

	ASK("properties_of_released", cuMemGetAllocationPropertiesFromHandle(&properties, handle));
}

GROUP(stale_export)
{
	int descriptor = -1;
	vmm_handle handle = stale();

	ASK("export_released",
	    cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

/* A handle that was released while its memory is mapped. */
GROUP(released_while_mapped)
{
	CUmemAllocationProp properties;
	int descriptor = -1;

	vmm_setup();
	vmm_handle handle = vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX)), again = 0;
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, handle, WRITE);
	ASK("release_while_mapped", cuMemRelease(handle));
	ASK("fill_after_release", cuMemsetD8(at, 0x41, grain));
	SAY("bytes_after_release", "%s", vmm_bytes(at + grain - 16, 16));
	ASK_VALUE("retain_after_release", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at), "same %s",
		  ask_yes(handle == again));
	vmm_ask_properties("properties_after_retain", again);
	ASK("export_after_retain",
	    cuMemExportToShareableHandle(&descriptor, again, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASK("map_after_retain", cuMemMap(at + grain, grain, 0, again, 0));
	ASK("allow_after_retain", vmm_allow(at + grain, 1, READ));
	SAY("bytes_after_retain", "%s", vmm_bytes(at + grain, 16));
	ASK("release_after_retain", cuMemRelease(again));
	ASK("release_mapped_twice", cuMemRelease(again));
	ASK("properties_of_released_mapped", cuMemGetAllocationPropertiesFromHandle(&properties, handle));
	ASK("unmap_last", cuMemUnmap(at, grain));
	SAY("bytes_of_the_other_mapping", "%s", vmm_bytes(at + grain, 16));
	ASK("unmap_very_last", cuMemUnmap(at + grain, grain));
}

static const char *reserved(CUdeviceptr at, size_t alignment)
{
	if (at == UNTOUCHED(CUdeviceptr) || !at)
		return OUT(at);
	return alignment && at % alignment ? "misaligned" : "aligned";
}

GROUP(reserve_sizes)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	vmm_setup();
	const struct {
		const char *name;
		size_t bytes;
	} sizes[] = {
		{"0", 0},
		{"1", 1},
		{"4095", 4095},
		{"4096", 4096},
		{"65536", 65536},
		{"half_grain", grain / 2},
		{"grain_less_1", grain - 1},
		{"grain", grain},
		{"grain_and_1", grain + 1},
		{"grain_and_4096", grain + 4096},
		{"3_grains", 3 * grain},
		{"1_gib", (size_t)1 << 30},
		{"1_tib", (size_t)1 << 40},
		{"16_tib", (size_t)16 << 40},
		{"128_tib", (size_t)128 << 40},
		{"2_to_62", (size_t)1 << 62},
		{"2_to_63", (size_t)1 << 63},
		{"max", SIZE_MAX},
		{"max_of_pages", SIZE_MAX - 4095},
		{"max_of_grains", SIZE_MAX - (grain - 1)},
	};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		at = UNTOUCHED(CUdeviceptr);
		ASK_VALUE(ask_name("reserve_%s", sizes[i].name), cuMemAddressReserve(&at, sizes[i].bytes, 0, 0, 0),
			  "%s", reserved(at, grain));
		if (at != UNTOUCHED(CUdeviceptr))
			ASK(ask_name("free_%s", sizes[i].name), cuMemAddressFree(at, sizes[i].bytes));
	}
	ASK("reserve_null", cuMemAddressReserve(NULL, grain, 0, 0, 0));
	ASK("reserve_flags_1", cuMemAddressReserve(&at, grain, 0, 0, 1));
	ASK("reserve_flags_2", cuMemAddressReserve(&at, grain, 0, 0, 2));
	ASK("reserve_flags_high", cuMemAddressReserve(&at, grain, 0, 0, 1ull << 63));
}

GROUP(reserve_alignments)
{
	const size_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
	const struct {
		const char *name;
		size_t alignment;
	} alignments[] = {
		{"1", 1},
		{"2", 2},
		{"3", 3},
		{"4096", 4096},
		{"4097", 4097},
		{"12288", 12288},
		{"64_kib", 64 * kib},
		{"2_mib", 2 * mib},
		{"2_mib_and_1", 2 * mib + 1},
		{"6_mib", 6 * mib},
		{"32_mib", 32 * mib},
		{"1_gib", gib},
		{"64_gib", 64 * gib},
		{"1_tib", 1024 * gib},
		{"2_to_47", (size_t)1 << 47},
		{"2_to_63", (size_t)1 << 63},
		{"max", SIZE_MAX},
	};

	vmm_setup();
	for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
		CUdeviceptr at = UNTOUCHED(CUdeviceptr);
		ASK_VALUE(ask_name("reserve_alignment_%s", alignments[i].name),
			  cuMemAddressReserve(&at, 2 * grain, alignments[i].alignment, 0, 0), "%s",
			  reserved(at, alignments[i].alignment));
	}
}

/* Reserve with a wish: was it granted? */
static CUdeviceptr wish(const char *name, CUdeviceptr where, size_t grains, size_t alignment)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	ASK_VALUE(ask_name("wish_%s", name), cuMemAddressReserve(&at, grains * grain, alignment, where, 0), "%s",
		  at == UNTOUCHED(CUdeviceptr) ? "untouched"
		  : at == where                ? "granted"
		  : at % grain == 0            ? "elsewhere"
					       : "elsewhere misaligned");
	return at;
}

GROUP(reserve_wishes)
{
	CUdeviceptr taken, memory = 0;
	void *host = aligned_alloc(2 << 20, 8 << 20);

	vmm_setup();
	CUdeviceptr room = vmm_reserve(64);
	NEED(cuMemAddressFree(room, 64 * grain));
	NEED(cuMemAlloc(&memory, 4 * grain));
	taken = wish("free", room, 2, 0);
	wish("occupied", room, 2, 0);
	wish("occupied_inside", room + grain, 1, 0);
	wish("overlapping_from_below", room - grain, 2, 0);
	wish("next", room + 2 * grain, 1, 0);
	if (taken == room) {
		ASK("free_wished", cuMemAddressFree(room, 2 * grain));
		wish("freed", room, 2, 0);
	}
	wish("by_1", room + 8 * grain + 1, 1, 0);
	wish("by_4096", room + 8 * grain + 4096, 1, 0);
	wish("by_65536", room + 8 * grain + 65536, 1, 0);
	wish("against_alignment", ((room + 16 * grain) | grain), 1, 2 * grain);
	wish("with_alignment", ((room + 20 * grain) & ~(2 * grain - 1)), 1, 2 * grain);
	wish("device_memory", memory, 1, 0);
	wish("host_memory", (CUdeviceptr)(uintptr_t)host, 1, 0);
	wish("code", (CUdeviceptr)(uintptr_t)&vmm_reserve & ~(CUdeviceptr)(grain - 1), 1, 0);
	wish("4096", 4096, 1, 0);
	wish("grain", grain, 1, 0);
	wish("1", 1, 1, 0);
	wish("2_to_47", (CUdeviceptr)1 << 47, 1, 0);
	wish("2_to_56", (CUdeviceptr)1 << 56, 1, 0);
	wish("2_to_63", (CUdeviceptr)1 << 63, 1, 0);
	wish("last_page", ~(CUdeviceptr)4095, 1, 0);
}

GROUP(address_free)
{
	CUdeviceptr memory = 0;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(4), mapped = vmm_reserve(4);
	vmm_handle handle = vmm_create(1);
	NEED(cuMemAlloc(&memory, 4 * grain));
	ASK("free_0_bytes", cuMemAddressFree(at, 0));
	ASK("free_part", cuMemAddressFree(at, grain));
	ASK("free_part_of_4096", cuMemAddressFree(at, 4096));
	ASK("free_too_much", cuMemAddressFree(at, 5 * grain));
	ASK("free_interior", cuMemAddressFree(at + grain, 3 * grain));
	ASK("free_unaligned", cuMemAddressFree(at + 1, 4 * grain));
	ASK("free_unaligned_bytes", cuMemAddressFree(at, 4 * grain - 1));
	ASK("free_null", cuMemAddressFree(0, 4 * grain));
	ASK("free_null_0_bytes", cuMemAddressFree(0, 0));
	ASK("free_garbage", cuMemAddressFree(GARBAGE(CUdeviceptr), grain));
	ASK("free_device_memory", cuMemAddressFree(memory, 4 * grain));
	ASK("free_host_memory", cuMemAddressFree(ZEROS(CUdeviceptr), 4096));
	ASK("free_reservation", cuMemAddressFree(at, 4 * grain));
	ASK("free_reservation_again", cuMemAddressFree(at, 4 * grain));
	ASK("map_in_freed", cuMemMap(at, grain, 0, handle, 0));
	vmm_map(mapped + grain, 1, handle, WRITE);
	NEED(cuMemsetD8(mapped + grain, 0x42, grain));
	NEED(cuCtxSynchronize());
	ASK("free_with_mapping", cuMemAddressFree(mapped, 4 * grain));
	SAY("bytes_after_free_with_mapping", "%s", vmm_bytes(mapped + grain, 16));
	ASK("unmap_after_free_with_mapping", cuMemUnmap(mapped + grain, grain));
	ASK("free_after_unmap", cuMemAddressFree(mapped, 4 * grain));
}

/* Two reservations side by side, where the driver grants the wish. */
GROUP(neighbours)
{
	CUdeviceptr first, second = 0;

	vmm_setup();
	vmm_handle handle = vmm_create(2);
	first = vmm_reserve(4);
	NEED(cuMemAddressFree(first, 4 * grain));
	NEED(cuMemAddressReserve(&first, 2 * grain, 0, first, 0));
	NEED(cuMemAddressReserve(&second, 2 * grain, 0, first + 2 * grain, 0));
	SAY("neighbours_touch", "%s", ask_yes(second == first + 2 * grain));
	if (second != first + 2 * grain)
		return;
	ASK("map_across_neighbours", cuMemMap(first + grain, 2 * grain, 0, handle, 0));
	ASK("unmap_across_neighbours", cuMemUnmap(first + grain, 2 * grain));
	vmm_map(first, 2, handle, NONE);
	vmm_map(second, 2, handle, NONE);
	ASK("allow_neighbours", vmm_allow(first, 4, WRITE));
	SAY("rights_of_neighbours", "%s %s", vmm_rights(first, DEVICE, 0), vmm_rights(second, DEVICE, 0));
	ASK("unmap_neighbours", cuMemUnmap(first, 4 * grain));
	cuMemUnmap(first, 2 * grain);
	cuMemUnmap(second, 2 * grain);
	ASK("free_neighbours", cuMemAddressFree(first, 4 * grain));
}

/* One wrong mapping; what should it be right, it is taken away again. */
static void try_map(const char *name, CUdeviceptr at, size_t bytes, size_t offset, vmm_handle handle)
{
	CUresult result = CUDA_ERROR_UNKNOWN;

	ASK(ask_name("map_%s", name), result = cuMemMap(at, bytes, offset, handle, 0));
	if (result == CUDA_SUCCESS)
		ASK(ask_name("undo_map_%s", name), cuMemUnmap(at, bytes));
}

GROUP(map_arguments)
{
	CUdeviceptr memory = 0;

	vmm_setup();
	vmm_handle handle = vmm_create(2);
	CUdeviceptr at = vmm_reserve(4);
	NEED(cuMemAlloc(&memory, 4 * grain));
	try_map("whole", at, 2 * grain, 0, handle);
	try_map("inside_reservation", at + grain, 2 * grain, 0, handle);
	try_map("at_end_of_reservation", at + 2 * grain, 2 * grain, 0, handle);
	try_map("part", at, grain, 0, handle);
	try_map("beyond_memory", at, 3 * grain, 0, handle);
	try_map("beyond_reservation", at + 3 * grain, 2 * grain, 0, handle);
	try_map("before_reservation", at - grain, 2 * grain, 0, handle);
	try_map("behind_reservation", at + 4 * grain, 2 * grain, 0, handle);
	try_map("0_bytes", at, 0, 0, handle);
	try_map("1_byte", at, 1, 0, handle);
	try_map("4096_bytes", at, 4096, 0, handle);
	try_map("65536_bytes", at, 65536, 0, handle);
	try_map("grain_less_1", at, grain - 1, 0, handle);
	try_map("grain_and_half", at, grain / 2 * 3, 0, handle);
	try_map("max_bytes", at, SIZE_MAX, 0, handle);
	try_map("max_grains", at, SIZE_MAX - (grain - 1), 0, handle);
	try_map("at_1", at + 1, grain, 0, handle);
	try_map("at_4096", at + 4096, grain, 0, handle);
	try_map("at_65536", at + 65536, grain, 0, handle);
	try_map("offset_1", at, grain, 1, handle);
	try_map("offset_4096", at, grain, 4096, handle);
	try_map("offset_grain", at, grain, grain, handle);
	try_map("offset_grain_beyond", at, 2 * grain, grain, handle);
	try_map("offset_end", at, grain, 2 * grain, handle);
	try_map("offset_max", at, grain, SIZE_MAX - (grain - 1), handle);
	try_map("null", 0, grain, 0, handle);
	try_map("garbage", GARBAGE(CUdeviceptr), grain, 0, handle);
	try_map("unreserved", (CUdeviceptr)1 << 40, grain, 0, handle);
	try_map("device_memory", memory, grain, 0, handle);
	try_map("host_memory", ZEROS(CUdeviceptr), grain, 0, handle);
	ASK("map_flags_1", cuMemMap(at, 2 * grain, 0, handle, 1));
	ASK("map_flags_high", cuMemMap(at, 2 * grain, 0, handle, 1ull << 63));
	try_map("after_all", at, 2 * grain, 0, handle);
}

/* Reservations that are no whole number of granules, or begin between two. */
GROUP(small_reservation)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);

	vmm_setup();
	vmm_handle handle = vmm_create(1);
	ASK("reserve_half", cuMemAddressReserve(&at, grain / 2, 0, 0, 0));
	if (at != UNTOUCHED(CUdeviceptr)) {
		try_map("grain_in_half", at, grain, 0, handle);
		try_map("half_in_half", at, grain / 2, 0, handle);
	}
}

GROUP(map_twice)
{
	vmm_setup();
	vmm_handle handle = vmm_create(2), other = vmm_create(2);
	CUdeviceptr at = vmm_reserve(6);
	vmm_map(at + 2 * grain, 2, handle, WRITE);
	NEED(cuMemsetD8(at + 2 * grain, 0x43, 2 * grain));
	NEED(cuCtxSynchronize());
	ASK("map_same_again", cuMemMap(at + 2 * grain, 2 * grain, 0, handle, 0));
	ASK("map_other_over", cuMemMap(at + 2 * grain, 2 * grain, 0, other, 0));
	ASK("map_over_first_half", cuMemMap(at + 2 * grain, grain, 0, other, 0));
	ASK("map_over_second_half", cuMemMap(at + 3 * grain, grain, 0, other, 0));
	ASK("map_overlapping_from_below", cuMemMap(at + grain, 2 * grain, 0, other, 0));
	ASK("map_overlapping_from_above", cuMemMap(at + 3 * grain, 2 * grain, 0, other, 0));
	SAY("bytes_after_overlaps", "%s", vmm_bytes(at + 4 * grain - 16, 16));
	SAY("rights_after_overlaps", "%s", vmm_rights(at + 2 * grain, DEVICE, 0));
	ASK("map_below", cuMemMap(at, 2 * grain, 0, other, 0));
	ASK("map_alias_above", cuMemMap(at + 4 * grain, 2 * grain, 0, handle, 0));
	SAY("rights_of_alias", "%s", vmm_rights(at + 4 * grain, DEVICE, 0));
	ASK("allow_alias", vmm_allow(at + 4 * grain, 2, READ));
	SAY("bytes_of_alias", "%s", vmm_bytes(at + 6 * grain - 16, 16));
	ASK("fill_original", cuMemsetD8(at + 2 * grain, 0x44, grain));
	SAY("bytes_of_alias_after_fill", "%s", vmm_bytes(at + 4 * grain, 16));
	SAY("rights_of_original", "%s", vmm_rights(at + 2 * grain, DEVICE, 0));
}

/* New memory: is it clean? */
GROUP(first_bytes)
{
	vmm_setup();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), READ);
	SAY("bytes_of_new_memory", "%s", vmm_bytes(at, 64));
}

/* Three mappings in a reservation of six granules, with a gap: 1 1 2 - 1 -, the first ones made of `first`. */
static CUdeviceptr make_row(vmm_handle first)
{
	CUdeviceptr at = vmm_reserve(6);

	vmm_map(at, 1, first, WRITE);
	vmm_map(at + grain, 2, vmm_create(2), WRITE);
	vmm_map(at + 4 * grain, 1, vmm_create(1), WRITE);
	NEED(cuMemsetD8(at, 0x45, 3 * grain));
	NEED(cuCtxSynchronize());
	return at;
}

GROUP(unmap_arguments)
{
	CUdeviceptr memory = 0;

	vmm_setup();
	CUdeviceptr at = make_row(vmm_create(1));
	NEED(cuMemAlloc(&memory, 4 * grain));
	ASK("unmap_0_bytes", cuMemUnmap(at, 0));
	ASK("unmap_1_byte", cuMemUnmap(at, 1));
	ASK("unmap_4096_bytes", cuMemUnmap(at, 4096));
	ASK("unmap_at_1", cuMemUnmap(at + 1, grain));
	ASK("unmap_at_4096", cuMemUnmap(at + 4096, grain));
	ASK("unmap_grain_less_1", cuMemUnmap(at, grain - 1));
	ASK("unmap_front_part", cuMemUnmap(at + grain, grain));
	ASK("unmap_back_part", cuMemUnmap(at + 2 * grain, grain));
	ASK("unmap_one_and_a_part", cuMemUnmap(at, 2 * grain));
	ASK("unmap_into_gap", cuMemUnmap(at, 4 * grain));
	ASK("unmap_over_gap", cuMemUnmap(at, 5 * grain));
	ASK("unmap_from_gap", cuMemUnmap(at + 3 * grain, 2 * grain));
	ASK("unmap_gap", cuMemUnmap(at + 3 * grain, grain));
	ASK("unmap_reservation", cuMemUnmap(at, 6 * grain));
	ASK("unmap_beyond_reservation", cuMemUnmap(at + 4 * grain, 3 * grain));
	ASK("unmap_null", cuMemUnmap(0, grain));
	ASK("unmap_garbage", cuMemUnmap(GARBAGE(CUdeviceptr), grain));
	ASK("unmap_unreserved", cuMemUnmap((CUdeviceptr)1 << 40, grain));
	ASK("unmap_device_memory", cuMemUnmap(memory, 4 * grain));
	ASK("unmap_host_memory", cuMemUnmap(ZEROS(CUdeviceptr), 4096));
	SAY("bytes_after_wrong_unmaps", "%s", vmm_bytes(at + grain - 8, 16));
	SAY("rights_after_wrong_unmaps", "%s %s %s %s %s", vmm_rights(at, DEVICE, 0), vmm_rights(at + grain, DEVICE, 0),
	    vmm_rights(at + 2 * grain, DEVICE, 0), "gap", vmm_rights(at + 4 * grain, DEVICE, 0));
	ASK("unmap_max_bytes", cuMemUnmap(at, SIZE_MAX));
}

GROUP(unmap)
{
	vmm_setup();
	vmm_handle handle = vmm_create(1);
	CUdeviceptr at = make_row(handle);
	ASK("unmap_two_at_once", cuMemUnmap(at, 3 * grain));
	ASK("unmap_two_again", cuMemUnmap(at, 3 * grain));
	SAY("rights_of_unmapped", "%s", vmm_rights(at, DEVICE, 0));
	ASK("unmap_one", cuMemUnmap(at + 4 * grain, grain));
	ASK("unmap_one_again", cuMemUnmap(at + 4 * grain, grain));
	ASK("map_after_unmap", cuMemMap(at + 5 * grain, grain, 0, handle, 0));
	SAY("rights_of_new_mapping", "%s", vmm_rights(at + 5 * grain, DEVICE, 0));
	ASK("allow_after_unmap", vmm_allow(at + 5 * grain, 1, WRITE));
	SAY("bytes_after_new_mapping", "%s", vmm_bytes(at + 5 * grain, 16));
	ASK("free_row_with_mapping", cuMemAddressFree(at, 6 * grain));
	ASK("unmap_last_of_row", cuMemUnmap(at + 5 * grain, grain));
	ASK("map_same_place", cuMemMap(at + 5 * grain, grain, 0, handle, 0));
	SAY("rights_of_same_place", "%s", vmm_rights(at + 5 * grain, DEVICE, 0));
	ASK("unmap_same_place", cuMemUnmap(at + 5 * grain, grain));
	ASK("free_row", cuMemAddressFree(at, 6 * grain));
	ASK("release_after_row", cuMemRelease(handle));
}

/* Unmapping memory that work in a stream still writes to. What becomes of the work is a matter of time. */
GROUP(unmap_while_busy)
{
	CUstream stream = NULL;

	vmm_setup();
	vmm_handle handle = vmm_create(8);
	CUdeviceptr at = vmm_reserve(8);
	vmm_map(at, 8, handle, WRITE);
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 64; i++)
		NEED(cuMemsetD8Async(at, (unsigned char)i, 8 * grain, stream));
	ASK("unmap_while_busy", cuMemUnmap(at, 8 * grain));
}

GROUP(retain)
{
	CUdeviceptr memory = 0;
	vmm_handle got = UNTOUCHED(vmm_handle);

	vmm_setup();
	vmm_handle handle = vmm_create(2);
	CUdeviceptr at = vmm_reserve(6);
	vmm_map(at + 2 * grain, 2, handle, NONE);
	NEED(cuMemAlloc(&memory, 4 * grain));
	const struct {
		const char *name;
		CUdeviceptr at;
	} addresses[] = {
		{"start", at + 2 * grain},
		{"interior", at + 2 * grain + 1},
		{"second_grain", at + 3 * grain},
		{"last_byte", at + 4 * grain - 1},
		{"behind", at + 4 * grain},
		{"before", at + 2 * grain - 1},
		{"reserved", at},
		{"null", 0},
		{"garbage", GARBAGE(CUdeviceptr)},
		{"device_memory", memory},
		{"host_memory", ZEROS(CUdeviceptr)},
	};
	for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
		got = UNTOUCHED(vmm_handle);
		ASK_VALUE(ask_name("retain_%s", addresses[i].name),
			  cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)addresses[i].at), "%s",
			  got == handle ? "same" : OUT(got));
	}
	ASK("retain_null_output", cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)(at + 2 * grain)));
	for (int i = 1; i <= 4; i++)
		ASK(ask_name("release_of_retained_%d", i), cuMemRelease(handle));
	vmm_ask_properties("properties_of_retained", handle);
	ASK("release_of_retained_5", cuMemRelease(handle));
	ASK("unmap_retained", cuMemUnmap(at + 2 * grain, 2 * grain));
	ASK("retain_after_unmap", cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(at + 2 * grain)));
}

/* A handle that two mappings and two calls hold. */
GROUP(retain_then_unmap)
{
	vmm_handle got = 0;

	vmm_setup();
	vmm_handle handle = vmm_create(1);
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, handle, WRITE);
	vmm_map(at + grain, 1, handle, WRITE);
	NEED(cuMemsetD8(at, 0x46, grain));
	NEED(cuCtxSynchronize());
	NEED(cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(at + grain)));
	ASK("retained_unmap_both", cuMemUnmap(at, 2 * grain));
	ASK("retained_release_first", cuMemRelease(handle));
	ASK("retained_map_with_second", cuMemMap(at, grain, 0, got, 0));
	ASK("retained_allow", vmm_allow(at, 1, WRITE));
	SAY("retained_bytes", "%s", vmm_bytes(at, 16));
	ASK("retained_release_second", cuMemRelease(got));
	SAY("retained_bytes_after_releases", "%s", vmm_bytes(at, 16));
}
