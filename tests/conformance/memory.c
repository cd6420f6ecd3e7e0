/* SPDX-License-Identifier: MIT */
/*
 * Chapter "memory": device, host, registered and managed memory; address ranges; advice and prefetching.
 */
#include "ask.h"

#include <sys/mman.h>

CHAPTER(memory);

enum { MIB = 1 << 20 };

GROUP(alloc)
{
	CUdeviceptr memory = UNTOUCHED(CUdeviceptr), other = 0;
	size_t sizes[] = {1, 2, 255, 256, 257, 511, 512, 513, 4096, 65537, 3 * MIB};

	ask_context();
	ASK_VALUE("alloc_0", cuMemAlloc(&memory, 0), "%s", OUT(memory));
	ASK("alloc_null", cuMemAlloc(NULL, 16));
	ASK("alloc_null_0", cuMemAlloc(NULL, 0));
	ASK_VALUE("alloc_huge", cuMemAlloc(&memory, (size_t)1 << 50), "%s", OUT(memory));
	ASK_VALUE("alloc_max", cuMemAlloc(&memory, SIZE_MAX), "%s", OUT(memory));
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		ASK_VALUE(ask_name("alloc_%zu", sizes[i]), cuMemAlloc(&memory, sizes[i]), "mod 256 %d mod 512 %d",
			  (int)(memory % 256), (int)(memory % 512));
	}
	NEED(cuMemAlloc(&memory, 1));
	NEED(cuMemAlloc(&other, 1));
	SAY("alloc_1_twice_distance_mod_512", "%d", (int)((other > memory ? other - memory : memory - other) % 512));
	ASK("free_null", cuMemFree(0));
	ASK("free_interior", cuMemFree(memory + 1));
	ASK("free_garbage", cuMemFree(GARBAGE(CUdeviceptr)));
	ASK("free_small", cuMemFree(SMALL(CUdeviceptr)));
	ASK("free_stack", cuMemFree((CUdeviceptr)(uintptr_t)&memory));
	ASK("free", cuMemFree(memory));
	ASK("free_again", cuMemFree(memory));
	ASK("free_other", cuMemFree(other));
}

ALONE(info)
{
	size_t before = 0, after = 0, total = 0, device_total = 0;
	CUdeviceptr memory[4] = {0};

	ask_context();
	NEED(cuMemAlloc(&memory[3], 1));
	NEED(cuMemFree(memory[3]));
	ASK_VALUE("info", cuMemGetInfo(&before, &total), "%s", ask_yes(before > 0 && before <= total));
	ASK_VALUE("info_total_is_device_total", cuDeviceTotalMem(&device_total, 0), "%s",
		  ask_yes(total == device_total));
	ASK("info_null_free", cuMemGetInfo(NULL, &total));
	ASK("info_null_total", cuMemGetInfo(&before, NULL));
	ASK("info_null_both", cuMemGetInfo(NULL, NULL));
	NEED(cuMemGetInfo(&before, &total));
	NEED(cuMemAlloc(&memory[0], 64 * MIB));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_shrinks_by_for_64_mib", "%zd", (ssize_t)(before - after));
	NEED(cuMemFree(memory[0]));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_comes_back_after_64_mib", "%zd", (ssize_t)(before - after));
	NEED(cuMemAlloc(&memory[0], 1));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_shrinks_by_for_1_byte", "%zd", (ssize_t)(before - after));
	NEED(cuMemAlloc(&memory[1], 1));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_shrinks_by_for_1_byte_twice", "%zd", (ssize_t)(before - after));
	NEED(cuMemFree(memory[0]));
	NEED(cuMemFree(memory[1]));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_comes_back_after_1_byte", "%zd", (ssize_t)(before - after));
	NEED(cuMemAlloc(&memory[0], 2 * MIB + 1));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_shrinks_by_for_2_mib_and_1", "%zd", (ssize_t)(before - after));
	NEED(cuMemFree(memory[0]));
}

ALONE(out_of_memory)
{
	size_t before = 0, after = 0, total = 0;
	CUdeviceptr memory = UNTOUCHED(CUdeviceptr);

	ask_context();
	NEED(cuMemGetInfo(&before, &total));
	ASK_VALUE("alloc_total_and_more", cuMemAlloc(&memory, total + MIB), "%s", OUT(memory));
	ASK_VALUE("alloc_free_and_more", cuMemAlloc(&memory, before + 4 * MIB), "%s", OUT(memory));
	NEED(cuMemGetInfo(&after, &total));
	SAY("alloc_failure_costs", "%zd", (ssize_t)(before - after));
	ASK("alloc_after_failure", cuMemAlloc(&memory, 64));
	ASK("alloc_failure_leaves_no_error", cuCtxSynchronize());
}

ALONE(info_host)
{
	size_t before = 0, after = 0, total = 0;
	void *host = NULL;

	ask_context();
	NEED(cuMemAllocHost(&host, 1));
	NEED(cuMemGetInfo(&before, &total));
	NEED(cuMemAllocHost(&host, 16 * MIB));
	NEED(cuMemGetInfo(&after, &total));
	SAY("info_shrinks_by_for_16_mib_host", "%zd", (ssize_t)(before - after));
}

GROUP(range)
{
	CUdeviceptr memory = 0, base = UNTOUCHED(CUdeviceptr);
	size_t size = UNTOUCHED_INT;
	void *host = NULL;
	char pageable[64];

	ask_context();
	NEED(cuMemAlloc(&memory, 1000));
	ASK_VALUE("range_start", cuMemGetAddressRange(&base, &size, memory), "offset %lld size %zu",
		  (long long)(memory - base), size);
	ASK_VALUE("range_interior", cuMemGetAddressRange(&base, &size, memory + 500), "offset %lld size %zu",
		  (long long)(memory + 500 - base), size);
	ASK_VALUE("range_last", cuMemGetAddressRange(&base, &size, memory + 999), "offset %lld size %zu",
		  (long long)(memory + 999 - base), size);
	base = UNTOUCHED(CUdeviceptr), size = UNTOUCHED_INT;
	ASK_VALUE("range_past_end", cuMemGetAddressRange(&base, &size, memory + 1000), "%s %zu", OUT(base), size);
	ASK_VALUE("range_past_end_rounded", cuMemGetAddressRange(&base, &size, memory + 1024), "%s %zu", OUT(base),
		  size);
	ASK_VALUE("range_null", cuMemGetAddressRange(&base, &size, 0), "%s %zu", OUT(base), size);
	ASK_VALUE("range_garbage", cuMemGetAddressRange(&base, &size, GARBAGE(CUdeviceptr)), "%s %zu", OUT(base), size);
	ASK_VALUE("range_stack", cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)pageable), "%s %zu",
		  OUT(base), size);
	ASK("range_null_base", cuMemGetAddressRange(NULL, &size, memory));
	ASK("range_null_size", cuMemGetAddressRange(&base, NULL, memory));
	ASK("range_null_both", cuMemGetAddressRange(NULL, NULL, memory));
	NEED(cuMemAllocHost(&host, 1000));
	base = UNTOUCHED(CUdeviceptr), size = UNTOUCHED_INT;
	ASK_VALUE("range_host", cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)host), "%s %zu",
		  ask_yes(base == (CUdeviceptr)(uintptr_t)host), size);
	NEED(cuMemFree(memory));
	base = UNTOUCHED(CUdeviceptr), size = UNTOUCHED_INT;
	ASK_VALUE("range_freed", cuMemGetAddressRange(&base, &size, memory), "%s %zu", OUT(base), size);
	NEED(cuMemAllocManaged(&memory, 1000, CU_MEM_ATTACH_GLOBAL));
	ASK_VALUE("range_managed", cuMemGetAddressRange(&base, &size, memory + 10), "offset %lld size %zu",
		  (long long)(memory + 10 - base), size);
}

GROUP(pitch)
{
	CUdeviceptr memory = UNTOUCHED(CUdeviceptr), base = 0;
	size_t pitch = UNTOUCHED_INT, size = 0;
	static const size_t widths[] = {1, 16, 100, 256, 511, 512, 513, 1000, 4096, 5000};
	static const unsigned int elements[] = {0, 1, 2, 3, 4, 8, 12, 16, 32, ~0u};

	ask_context();
	for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
		ASK_VALUE(ask_name("pitch_width_%zu", widths[i]), cuMemAllocPitch(&memory, &pitch, widths[i], 10, 4),
			  "%zu aligned %s", pitch, ask_yes(memory % 512 == 0));
	}
	NEED(cuMemAllocPitch(&memory, &pitch, 100, 3, 4));
	ASK_VALUE("pitch_range", cuMemGetAddressRange(&base, &size, memory), "%zu", size);
	for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
		pitch = UNTOUCHED_INT;
		ASK_VALUE(ask_name("pitch_element_%u", elements[i]),
			  cuMemAllocPitch(&memory, &pitch, 64, 2, elements[i]), "%zu", pitch);
	}
	memory = UNTOUCHED(CUdeviceptr), pitch = UNTOUCHED_INT;
	ASK_VALUE("pitch_width_0", cuMemAllocPitch(&memory, &pitch, 0, 10, 4), "%s %zu", OUT(memory), pitch);
	ASK_VALUE("pitch_height_0", cuMemAllocPitch(&memory, &pitch, 64, 0, 4), "%s %zu", OUT(memory), pitch);
	ASK_VALUE("pitch_huge", cuMemAllocPitch(&memory, &pitch, (size_t)1 << 40, (size_t)1 << 20, 4), "%s %zu",
		  OUT(memory), pitch);
	ASK("pitch_null_memory", cuMemAllocPitch(NULL, &pitch, 64, 2, 4));
	ASK("pitch_null_pitch", cuMemAllocPitch(&memory, NULL, 64, 2, 4));
}

GROUP(host)
{
	void *host = UNTOUCHED(void *), *other = NULL;
	CUdeviceptr at = 0;
	unsigned int flags = UNTOUCHED_INT;

	ask_context();
	ASK("host_alloc_null", cuMemAllocHost(NULL, 16));
	ASK_VALUE("host_alloc_0", cuMemAllocHost(&host, 0), "%s", OUT(host));
	ASK_VALUE("host_alloc_max", cuMemAllocHost(&host, SIZE_MAX), "%s", OUT(host));
	ASK_VALUE("host_alloc", cuMemAllocHost(&host, 100), "mod 512 %d", (int)((uintptr_t)host % 512));
	ASK_VALUE("host_alloc_flags", cuMemHostGetFlags(&flags, host), "%u", flags);
	ASK_VALUE("host_alloc_pointer", cuMemHostGetDevicePointer(&at, host, 0), "%s",
		  at == (CUdeviceptr)(uintptr_t)host ? "same address" : "another address");
	for (flags = 0; flags <= 9; flags++) {
		unsigned int read = UNTOUCHED_INT;
		other = UNTOUCHED(void *);
		ASK_VALUE(ask_name("host_alloc_flags_%u", flags), cuMemHostAlloc(&other, 64, flags), "%s", OUT(other));
		if (other == UNTOUCHED(void *))
			continue;
		ASK_VALUE(ask_name("host_flags_%u_read", flags), cuMemHostGetFlags(&read, other), "%u", read);
		ASK_VALUE(ask_name("host_flags_%u_pointer", flags), cuMemHostGetDevicePointer(&at, other, 0), "%s",
			  at == (CUdeviceptr)(uintptr_t)other ? "same address" : "another address");
	}
	other = UNTOUCHED(void *);
	ASK_VALUE("host_alloc_flags_all", cuMemHostAlloc(&other, 64, ~0u), "%s", OUT(other));
	ASK_VALUE("host_alloc_size_0", cuMemHostAlloc(&other, 0, 0), "%s", OUT(other));
	ASK("host_alloc_null_output", cuMemHostAlloc(NULL, 64, 0));
	flags = UNTOUCHED_INT;
	ASK_VALUE("host_flags_interior", cuMemHostGetFlags(&flags, (char *)host + 10), "%u", flags);
	ASK("host_flags_null_output", cuMemHostGetFlags(NULL, host));
	flags = UNTOUCHED_INT;
	ASK_VALUE("host_flags_null", cuMemHostGetFlags(&flags, NULL), "%u", flags);
	ASK_VALUE("host_flags_stack", cuMemHostGetFlags(&flags, &flags), "%u", flags);
	ASK_VALUE("host_flags_garbage", cuMemHostGetFlags(&flags, GARBAGE(void *)), "%u", flags);
	at = 0;
	ASK_VALUE("host_pointer_interior", cuMemHostGetDevicePointer(&at, (char *)host + 10, 0), "%lld",
		  (long long)(at - (CUdeviceptr)(uintptr_t)host));
	at = UNTOUCHED(CUdeviceptr);
	ASK_VALUE("host_pointer_flags_1", cuMemHostGetDevicePointer(&at, host, 1), "%s", OUT(at));
	ASK("host_pointer_null_output", cuMemHostGetDevicePointer(NULL, host, 0));
	at = UNTOUCHED(CUdeviceptr);
	ASK_VALUE("host_pointer_null", cuMemHostGetDevicePointer(&at, NULL, 0), "%s", OUT(at));
	ASK_VALUE("host_pointer_stack", cuMemHostGetDevicePointer(&at, &flags, 0), "%s", OUT(at));
	ASK("host_unregister_allocated", cuMemHostUnregister(host));
	ASK("host_register_allocated", cuMemHostRegister(host, 64, 0));
	ASK("host_free_by_mem_free", cuMemFree((CUdeviceptr)(uintptr_t)host));
	ASK("host_free_interior", cuMemFreeHost((char *)host + 1));
	ASK("host_free", cuMemFreeHost(host));
	ASK("host_free_again", cuMemFreeHost(host));
	ASK("host_free_null", cuMemFreeHost(NULL));
	ASK("host_free_stack", cuMemFreeHost(&flags));
	ASK("host_free_garbage", cuMemFreeHost(GARBAGE(void *)));
	NEED(cuMemAlloc(&at, 64));
	ASK("host_free_device", cuMemFreeHost((void *)(uintptr_t)at));
	ASK("host_flags_device", cuMemHostGetFlags(&flags, (void *)(uintptr_t)at));
}

GROUP(registered)
{
	char *page = aligned_alloc(4096, 16384);
	unsigned int flags = UNTOUCHED_INT;
	CUdeviceptr at = 0, base = UNTOUCHED(CUdeviceptr);
	size_t size = UNTOUCHED_INT;

	ask_context();
	memset(page, 1, 16384);
	ASK("register_null", cuMemHostRegister(NULL, 4096, 0));
	ASK("register_0", cuMemHostRegister(page, 0, 0));
	for (flags = 0; flags < 16; flags++) {
		unsigned int read = UNTOUCHED_INT;
		if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
			continue;
		ASK(ask_name("register_flags_%u", flags), cuMemHostRegister(page, 8192, flags));
		ASK_VALUE(ask_name("register_flags_%u_read", flags), cuMemHostGetFlags(&read, page), "%u", read);
		ASK_VALUE(ask_name("register_flags_%u_pointer", flags), cuMemHostGetDevicePointer(&at, page, 0), "%s",
			  at == (CUdeviceptr)(uintptr_t)page ? "same address" : "another address");
		ASK(ask_name("unregister_flags_%u", flags), cuMemHostUnregister(page));
	}
	ASK("register_flags_16", cuMemHostRegister(page, 8192, 16));
	ASK("register_flags_all", cuMemHostRegister(page, 8192, ~0u));
	ASK("register", cuMemHostRegister(page, 8192, 0));
	ASK("register_again", cuMemHostRegister(page, 8192, 0));
	ASK("register_overlap", cuMemHostRegister(page + 4096, 8192, 0));
	ASK("register_inside", cuMemHostRegister(page + 4096, 16, 0));
	ASK_VALUE("register_range", cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)page + 5), "%s %zu",
		  ask_yes(base == (CUdeviceptr)(uintptr_t)page), size);
	ASK("register_free_host", cuMemFreeHost(page));
	ASK("unregister_interior", cuMemHostUnregister(page + 1));
	ASK("unregister", cuMemHostUnregister(page));
	ASK("unregister_again", cuMemHostUnregister(page));
	ASK("unregister_null", cuMemHostUnregister(NULL));
	ASK("unregister_garbage", cuMemHostUnregister(GARBAGE(void *)));
	ASK("unregister_stack", cuMemHostUnregister(&flags));
	ASK("register_misaligned", cuMemHostRegister(page + 100, 1000, 0));
	base = UNTOUCHED(CUdeviceptr), size = UNTOUCHED_INT;
	ASK_VALUE("register_misaligned_range", cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)page + 100),
		  "offset %lld size %zu", (long long)((CUdeviceptr)(uintptr_t)page + 100 - base), size);
	ASK("register_neighbour_same_page", cuMemHostRegister(page + 2000, 1000, 0));
	ASK("unregister_misaligned", cuMemHostUnregister(page + 100));
	ASK("flags_unregistered", cuMemHostGetFlags(&flags, page));
	ASK("pointer_unregistered", cuMemHostGetDevicePointer(&at, page, 0));
}

GROUP(register_strange)
{
	char *page = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr memory = 0;

	ask_context();
	munmap(page + 4096, 4096); /* right before it is asked about: other code of the process maps memory, too */
	ASK("register_hole", cuMemHostRegister(page, 12288, 0));
	munmap(gone, 4096);
	ASK("register_unmapped", cuMemHostRegister(gone, 4096, 0));
	ASK("register_garbage", cuMemHostRegister(GARBAGE(void *), 4096, 0));
	ASK("register_read_only_page", cuMemHostRegister(read_only, 4096, 0));
	ASK("register_huge", cuMemHostRegister(page, (size_t)1 << 46, 0));
	NEED(cuMemAlloc(&memory, 8192));
	ASK("register_device_memory", cuMemHostRegister((void *)(uintptr_t)memory, 4096, 0));
	NEED(cuMemAllocManaged(&memory, 8192, CU_MEM_ATTACH_GLOBAL));
	ASK("register_managed", cuMemHostRegister((void *)(uintptr_t)memory, 4096, 0));
}

GROUP(managed)
{
	CUdeviceptr memory = UNTOUCHED(CUdeviceptr);

	ask_context();
	for (unsigned int flags = 0; flags <= 8; flags++) {
		memory = UNTOUCHED(CUdeviceptr);
		ASK_VALUE(ask_name("managed_flags_%u", flags), cuMemAllocManaged(&memory, 64, flags), "%s",
			  OUT(memory));
	}
	memory = UNTOUCHED(CUdeviceptr);
	ASK_VALUE("managed_0", cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL), "%s", OUT(memory));
	ASK_VALUE("managed_max", cuMemAllocManaged(&memory, SIZE_MAX, CU_MEM_ATTACH_GLOBAL), "%s", OUT(memory));
	ASK("managed_null", cuMemAllocManaged(NULL, 64, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
	SAY("managed_aligned", "mod 512 %d", (int)(memory % 512));
	SAY("managed_contents", "%s", ask_bytes((void *)(uintptr_t)memory, 64));
	((char *)(uintptr_t)memory)[3] = 9;
	SAY("managed_written_by_host", "%s", ask_device_bytes(memory, 8));
	ASK("managed_fill", cuMemsetD8(memory, 7, 16));
	NEED(cuCtxSynchronize());
	SAY("managed_read_by_host", "%s", ask_bytes((void *)(uintptr_t)memory, 20));
	ASK("managed_free_host", cuMemFreeHost((void *)(uintptr_t)memory));
	ASK("managed_free", cuMemFree(memory));
	ASK("managed_free_again", cuMemFree(memory));
}

static const char *range_int(CUdeviceptr memory, size_t count, CUmem_range_attribute attribute)
{
	static char text[64];
	int value = UNTOUCHED_INT;
	CUresult result = cuMemRangeGetAttribute(&value, sizeof value, attribute, memory, count);

	snprintf(text, sizeof text, "%s %d", ask_driver_code(result), value);
	return text;
}

static CUmemLocation location(CUmemLocationType type, int id)
{
	CUmemLocation place;

	memset(&place, 0, sizeof place);
	place.type = type;
	place.id = id;
	return place;
}

GROUP(advice)
{
	CUmemLocation device = location(CU_MEM_LOCATION_TYPE_DEVICE, 0), host = location(CU_MEM_LOCATION_TYPE_HOST, 0);
	CUdeviceptr memory = 0;
	size_t bytes = 4 * MIB;
	int accessed[3] = {UNTOUCHED_INT, UNTOUCHED_INT, UNTOUCHED_INT};

	ask_context();
	NEED(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
	for (int attribute = 0; attribute <= 9; attribute++) {
		SAY(ask_name("range_attribute_%d_fresh", attribute), "%s",
		    range_int(memory, bytes, (CUmem_range_attribute)attribute));
	}
	ASK("advise_read_mostly", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	SAY("read_mostly", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY));
	ASK("advise_half_not_read_mostly", cuMemAdvise(memory, bytes / 2, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
	SAY("read_mostly_whole", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY));
	SAY("read_mostly_second_half", "%s",
	    range_int(memory + bytes / 2, bytes / 2, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY));
	ASK("advise_preferred_device", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
	SAY("preferred_device", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION));
	SAY("preferred_device_type", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE));
	SAY("preferred_device_id", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID));
	ASK("advise_preferred_host", cuMemAdvise(memory, bytes / 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	SAY("preferred_mixed", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION));
	SAY("preferred_host", "%s", range_int(memory, bytes / 2, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION));
	SAY("preferred_host_type", "%s", range_int(memory, bytes / 2, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE));
	ASK("advise_no_preferred", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device));
	SAY("preferred_none", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION));
	ASK("advise_accessed_by_device", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
	ASK("advise_accessed_by_host", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
	ASK_VALUE("accessed_by",
		  cuMemRangeGetAttribute(accessed, sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, bytes),
		  "%d %d %d", accessed[0], accessed[1], accessed[2]);
	ASK("advise_not_accessed_by_device", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
	ASK_VALUE("accessed_by_after",
		  cuMemRangeGetAttribute(accessed, sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, bytes),
		  "%d %d %d", accessed[0], accessed[1], accessed[2]);
	ASK("prefetch_device", cuMemPrefetchAsync(memory, bytes, device, 0, NULL));
	NEED(cuCtxSynchronize());
	SAY("prefetched_device", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION));
	SAY("prefetched_device_type", "%s",
	    range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE));
	ASK("prefetch_host", cuMemPrefetchAsync(memory, bytes, host, 0, NULL));
	NEED(cuCtxSynchronize());
	SAY("prefetched_host", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION));
	SAY("prefetched_host_type", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE));
	SAY("prefetched_host_id", "%s", range_int(memory, bytes, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID));
}

GROUP(advice_wrong)
{
	CUmemLocation device = location(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUdeviceptr memory = 0, plain = 0;
	size_t bytes = 4 * MIB;
	int value[2] = {UNTOUCHED_INT, UNTOUCHED_INT};
	void *data[2] = {&value[0], &value[1]};
	size_t sizes[2] = {sizeof(int), sizeof(int)};
	CUmem_range_attribute both[2] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};

	ask_context();
	NEED(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAlloc(&plain, bytes));
	ASK("advise_0_bytes", cuMemAdvise(memory, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASK("advise_past_end", cuMemAdvise(memory, bytes * 64, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASK("advise_null", cuMemAdvise(0, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASK("advise_device_memory", cuMemAdvise(plain, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASK("advise_0", cuMemAdvise(memory, bytes, (CUmem_advise)0, device));
	ASK("advise_100", cuMemAdvise(memory, bytes, (CUmem_advise)100, device));
	ASK("advise_device_many", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
					      location(CU_MEM_LOCATION_TYPE_DEVICE, 99)));
	ASK("advise_device_negative", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
						  location(CU_MEM_LOCATION_TYPE_DEVICE, -1)));
	ASK("advise_location_invalid", cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
						   location(CU_MEM_LOCATION_TYPE_INVALID, 0)));
	ASK("advise_location_99",
	    cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location((CUmemLocationType)99, 0)));
	ASK("prefetch_0_bytes", cuMemPrefetchAsync(memory, 0, device, 0, NULL));
	ASK("prefetch_past_end", cuMemPrefetchAsync(memory, bytes * 64, device, 0, NULL));
	ASK("prefetch_null", cuMemPrefetchAsync(0, 4096, device, 0, NULL));
	ASK("prefetch_flags_1", cuMemPrefetchAsync(memory, bytes, device, 1, NULL));
	ASK("prefetch_device_memory", cuMemPrefetchAsync(plain, bytes, device, 0, NULL));
	ASK("prefetch_device_many",
	    cuMemPrefetchAsync(memory, bytes, location(CU_MEM_LOCATION_TYPE_DEVICE, 99), 0, NULL));
	ASK("prefetch_location_invalid",
	    cuMemPrefetchAsync(memory, bytes, location(CU_MEM_LOCATION_TYPE_INVALID, 0), 0, NULL));
	ASK("range_attribute_null", cuMemRangeGetAttribute(NULL, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, bytes));
	ASK("range_attribute_size_0",
	    cuMemRangeGetAttribute(value, 0, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, bytes));
	ASK("range_attribute_size_2",
	    cuMemRangeGetAttribute(value, 2, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, bytes));
	ASK("range_attribute_size_8",
	    cuMemRangeGetAttribute(value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, bytes));
	ASK("range_attribute_accessed_size_6",
	    cuMemRangeGetAttribute(value, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, bytes));
	ASK("range_attribute_0_bytes", cuMemRangeGetAttribute(value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 0));
	ASK("range_attribute_device_memory",
	    cuMemRangeGetAttribute(value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, bytes));
	value[0] = value[1] = UNTOUCHED_INT;
	ASK_VALUE("range_attributes", cuMemRangeGetAttributes(data, sizes, both, 2, memory, bytes), "%d %d", value[0],
		  value[1]);
	ASK("range_attributes_0", cuMemRangeGetAttributes(data, sizes, both, 0, memory, bytes));
	ASK("range_attributes_null_data", cuMemRangeGetAttributes(NULL, sizes, both, 2, memory, bytes));
	ASK("range_attributes_null_sizes", cuMemRangeGetAttributes(data, NULL, both, 2, memory, bytes));
	ASK("range_attributes_null_attributes", cuMemRangeGetAttributes(data, sizes, NULL, 2, memory, bytes));
}

GROUP(handle_for_range)
{
	CUdeviceptr memory = 0;
	int descriptor = UNTOUCHED_INT;

	ask_context();
	NEED(cuMemAlloc(&memory, 4 * MIB));
	ASK("handle_null",
	    cuMemGetHandleForAddressRange(NULL, memory, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASK_VALUE("handle_type_99",
		  cuMemGetHandleForAddressRange(&descriptor, memory, 2 * MIB, (CUmemRangeHandleType)99, 0), "%d",
		  descriptor);
	ASK_VALUE("handle_0_bytes",
		  cuMemGetHandleForAddressRange(&descriptor, memory, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0), "%d",
		  descriptor);
	ASK_VALUE("handle_garbage",
		  cuMemGetHandleForAddressRange(&descriptor, GARBAGE(CUdeviceptr), 4096,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		  "%d", descriptor);
}

GROUP(other_context)
{
	CUcontext first = ask_context(), second;
	CUdeviceptr memory = 0, base = 0;
	CUdeviceptr managed = 0;
	void *host = NULL, *portable = NULL, *registered = aligned_alloc(4096, 4096);
	unsigned int flags = 0;
	size_t size = 0;

	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemHostAlloc(&host, 4096, 0));
	NEED(cuMemHostAlloc(&portable, 4096, CU_MEMHOSTALLOC_PORTABLE));
	NEED(cuMemHostRegister(registered, 4096, 0));
	second = ask_context();
	ASK("foreign_range", cuMemGetAddressRange(&base, &size, memory));
	ASK("foreign_fill", cuMemsetD8(memory, 1, 16));
	ASK("foreign_host_flags", cuMemHostGetFlags(&flags, host));
	ASK("foreign_host_pointer", cuMemHostGetDevicePointer(&base, host, 0));
	ASK("foreign_portable_pointer", cuMemHostGetDevicePointer(&base, portable, 0));
	ASK("foreign_register_again", cuMemHostRegister(registered, 4096, 0));
	ASK("foreign_unregister", cuMemHostUnregister(registered));
	ASK("foreign_host_free", cuMemFreeHost(host));
	ASK("foreign_managed_free", cuMemFree(managed));
	ASK("foreign_free", cuMemFree(memory));
	NEED(cuCtxSetCurrent(first));
	ASK("foreign_free_again_at_home", cuMemFree(memory));
	SAY("foreign_contexts_differ", "%s", ask_yes(first != second));
}

GROUP(free_while_busy)
{
	CUstream stream = NULL;
	CUdeviceptr memory = 0;

	ask_context();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc(&memory, MIB));
	NEED(cuMemsetD8Async(memory, 1, MIB, stream));
	ASK("free_while_busy", cuMemFree(memory));
	ASK("free_while_busy_stream_after", cuStreamQuery(stream));
}
