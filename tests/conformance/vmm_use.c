/* SPDX-License-Identifier: MIT */
/*
 * Chapter "vmm_use": which devices may touch mapped memory, what copies, fills and kernels do where they may not, and
 * what is
 * said of its addresses.
 */
#include "attribute.h"
#include "calls.h"
#include "vmm.h"

#include <errno.h>
#include <unistd.h>

CHAPTER(vmm_use);

/* One descriptor at a range, and what it left behind. */
static void try_access(const char *name, CUdeviceptr at, size_t bytes, CUmemAccessDesc access)
{
	ASK_VALUE(ask_name("set_%s", name), cuMemSetAccess(at, bytes, &access, 1), "now %s", vmm_rights(at, DEVICE, 0));
}

GROUP(set_values)
{
	static const int rights[] = {1, 3, 0, 3, 2, 4, 5, 7, 0x7fffffff, -1, 0, 1};

	vmm_setup();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), NONE);
	SAY("rights_at_first", "%s", vmm_rights(at, DEVICE, 0));
	for (size_t i = 0; i < sizeof rights / sizeof rights[0]; i++)
		try_access(ask_name("step_%zu_rights_%d", i, rights[i]), at, grain, vmm_access(DEVICE, 0, rights[i]));
}

GROUP(set_locations)
{
	static const struct {
		const char *name;
		int type, id;
	} places[] = {
		{"device_1000", DEVICE, 1000},
		{"device_negative", DEVICE, -1},
		{"location_none", 0, 0},
		{"host", HOST, 0},
		{"numa_0", NUMA, 0},
		{"numa_999", NUMA, 999},
		{"numa_current", NUMA_CURRENT, 0},
		{"location_5", 5, 0},
		{"location_negative", -1, 0},
	};

	vmm_setup();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), READ);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		CUmemLocation location = vmm_place(places[i].type, places[i].id);
		unsigned long long flags = UNTOUCHED_INT;
		try_access(ask_name("%s_write", places[i].name), at, grain,
			   vmm_access(places[i].type, places[i].id, WRITE));
		try_access(ask_name("%s_none", places[i].name), at, grain,
			   vmm_access(places[i].type, places[i].id, NONE));
		ASK_VALUE(ask_name("get_%s", places[i].name), cuMemGetAccess(&flags, &location, at), "%llu", flags);
	}
}

GROUP(set_several)
{
	CUmemAccessDesc access[4] = {vmm_access(DEVICE, 0, READ), vmm_access(DEVICE, 0, READ),
				     vmm_access(DEVICE, 0, WRITE), vmm_access(DEVICE, 1000, WRITE)};
	CUmemAccessDesc host_last[2] = {vmm_access(DEVICE, 0, WRITE), vmm_access(HOST, 0, WRITE)};
	CUmemAccessDesc bad_last[2] = {vmm_access(DEVICE, 0, WRITE), vmm_access(DEVICE, 0, 2)};

	vmm_setup();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), NONE);
	ASK("set_count_0", cuMemSetAccess(at, grain, access, 0));
	ASK("set_null", cuMemSetAccess(at, grain, NULL, 1));
	ASK("set_null_count_0", cuMemSetAccess(at, grain, NULL, 0));
	SAY("rights_after_wrong_counts", "%s", vmm_rights(at, DEVICE, 0));
	ASK_VALUE("set_wrong_rights_last", cuMemSetAccess(at, grain, bad_last, 2), "now %s", vmm_rights(at, DEVICE, 0));
	ASK_VALUE("set_wrong_device_last", cuMemSetAccess(at, grain, access + 2, 2), "now %s",
		  vmm_rights(at, DEVICE, 0));
	ASK_VALUE("set_host_last", cuMemSetAccess(at, grain, host_last, 2), "now %s", vmm_rights(at, DEVICE, 0));
	ASK_VALUE("set_same_twice", cuMemSetAccess(at, grain, access, 2), "now %s", vmm_rights(at, DEVICE, 0));
	ASK_VALUE("set_two_ways", cuMemSetAccess(at, grain, access + 1, 2), "now %s", vmm_rights(at, DEVICE, 0));
}

/* 1 1 2 - 1 -: mappings, a gap, a mapping, a gap, in a reservation of six granules, without rights. */
static CUdeviceptr make_row(void)
{
	CUdeviceptr at = vmm_reserve(6);

	vmm_map(at, 1, vmm_create(1), NONE);
	vmm_map(at + grain, 2, vmm_create(2), NONE);
	vmm_map(at + 4 * grain, 1, vmm_create(1), NONE);
	return at;
}

/* Rights of each granule of the row, and none afterwards. */
static const char *row_rights(CUdeviceptr at)
{
	static char text[64];
	CUmemLocation location = vmm_place(DEVICE, 0);

	for (int i = 0; i < 6; i++) {
		unsigned long long flags = 9;
		text[i] = cuMemGetAccess(&flags, &location, at + i * grain) ? '-' : (char)('0' + flags);
	}
	text[6] = '\0';
	vmm_allow(at, 1, NONE);
	vmm_allow(at + grain, 2, NONE);
	vmm_allow(at + 4 * grain, 1, NONE);
	return text;
}

GROUP(set_ranges)
{
	CUmemAccessDesc access = vmm_access(DEVICE, 0, WRITE);
	CUdeviceptr memory = 0;

	vmm_setup();
	CUdeviceptr at = make_row();
	NEED(cuMemAlloc(&memory, 4 * grain));
	const struct {
		const char *name;
		CUdeviceptr at;
		size_t bytes;
	} ranges[] = {
		{"one", at, grain},
		{"two_at_once", at, 3 * grain},
		{"front_part", at + grain, grain},
		{"back_part", at + 2 * grain, grain},
		{"one_and_a_part", at, 2 * grain},
		{"into_gap", at, 4 * grain},
		{"over_gap", at, 5 * grain},
		{"from_gap", at + 3 * grain, 2 * grain},
		{"gap", at + 3 * grain, grain},
		{"reservation", at, 6 * grain},
		{"beyond_reservation", at + 4 * grain, 3 * grain},
		{"0_bytes", at, 0},
		{"1_byte", at, 1},
		{"4096_bytes", at, 4096},
		{"65536_bytes", at, 65536},
		{"grain_less_1", at, grain - 1},
		{"grain_and_1", at, grain + 1},
		{"at_1", at + 1, grain},
		{"at_4096", at + 4096, grain},
		{"at_4096_rest", at + 4096, grain - 4096},
		{"null", 0, grain},
		{"garbage", GARBAGE(CUdeviceptr), grain},
		{"unreserved", (CUdeviceptr)1 << 40, grain},
		{"device_memory", memory, 4 * grain},
		{"host_memory", ZEROS(CUdeviceptr), 4096},
		{"max_bytes", at, SIZE_MAX},
	};
	for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
		ASK_VALUE(ask_name("range_%s", ranges[i].name),
			  cuMemSetAccess(ranges[i].at, ranges[i].bytes, &access, 1), "row %s", row_rights(at));
	}
}

GROUP(get)
{
	CUmemLocation device = vmm_place(DEVICE, 0);
	unsigned long long flags = UNTOUCHED_INT;
	CUdeviceptr memory = 0, managed = 0;
	void *host = NULL;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(3);
	vmm_map(at + grain, 1, vmm_create(1), WRITE);
	NEED(cuMemAlloc(&memory, grain));
	NEED(cuMemAllocHost(&host, 4096));
	NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	const struct {
		const char *name;
		CUdeviceptr at;
	} addresses[] = {
		{"start", at + grain},
		{"interior", at + grain + 1},
		{"last_byte", at + 2 * grain - 1},
		{"behind", at + 2 * grain},
		{"before", at + grain - 1},
		{"reserved", at},
		{"null", 0},
		{"garbage", GARBAGE(CUdeviceptr)},
		{"device_memory", memory},
		{"device_memory_interior", memory + 10},
		{"host_memory", (CUdeviceptr)(uintptr_t)host},
		{"managed_memory", managed},
		{"static_memory", ZEROS(CUdeviceptr)},
	};
	for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
		flags = UNTOUCHED_INT;
		ASK_VALUE(ask_name("get_at_%s", addresses[i].name), cuMemGetAccess(&flags, &device, addresses[i].at),
			  "%llu", flags);
	}
	SAY("get_host_of_device_memory", "%s", vmm_rights(memory, HOST, 0));
	SAY("get_host_of_host_memory", "%s", vmm_rights((CUdeviceptr)(uintptr_t)host, HOST, 0));
	ASK("get_null", cuMemGetAccess(NULL, &device, at + grain));
	ASK("get_null_location", cuMemGetAccess(&flags, NULL, at + grain));
	NEED(cuMemUnmap(at + grain, grain));
	ASK("get_after_unmap", cuMemGetAccess(&flags, &device, at + grain));
}

/* What stands ready for the work that touches memory. */
static struct {
	CUstream stream;
	CUfunction kernel;
	CUdeviceptr good;
	char *host;
} tools;

static void make_tools(void)
{
	CUmodule module = NULL;
	void *host = NULL;

	vmm_setup();
	NEED(cuStreamCreate(&tools.stream, CU_STREAM_NON_BLOCKING));
	NEED(cuModuleLoad(&module, objects_module_path()));
	NEED(cuModuleGetFunction(&tools.kernel, module, "write_indices"));
	NEED(cuMemAlloc(&tools.good, 4096));
	NEED(cuMemAllocHost(&host, 4096));
	NEED(cuMemsetD8(tools.good, 0x51, 4096));
	NEED(cuCtxSynchronize());
	memset(host, 0x52, 4096);
	tools.host = host;
}

static CUresult launch_at(CUdeviceptr at)
{
	uint32_t count = 4, factor = 1;
	void *params[] = {&at, &count, &factor};

	return cuLaunchKernel(tools.kernel, 1, 1, 1, 4, 1, 1, 0, tools.stream, params, NULL);
}

static CUDA_MEMCPY2D rectangle(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY2D copy;

	memset(&copy, 0, sizeof copy);
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = from;
	copy.dstDevice = to;
	copy.srcPitch = copy.dstPitch = 64;
	copy.WidthInBytes = 16;
	copy.Height = 2;
	return copy;
}

/* Everything that touches `count` bytes at `at`; count is a multiple of 16. */
static void touch_all(const char *kind, CUdeviceptr at, size_t count)
{
	CUDA_MEMCPY2D to = rectangle(at, tools.good), from = rectangle(tools.good, at);
	char pageable[256] = {0};

	ASK(ask_name("%s_htod", kind), cuMemcpyHtoD(at, pageable, count));
	ASK(ask_name("%s_htod_pinned", kind), cuMemcpyHtoD(at, tools.host, count));
	ASK(ask_name("%s_dtoh", kind), cuMemcpyDtoH(pageable, at, count));
	ASK(ask_name("%s_dtoh_pinned", kind), cuMemcpyDtoH(tools.host, at, count));
	ASK(ask_name("%s_dtod_to", kind), cuMemcpyDtoD(at, tools.good, count));
	ASK(ask_name("%s_dtod_from", kind), cuMemcpyDtoD(tools.good, at, count));
	ASK(ask_name("%s_copy_to", kind), cuMemcpy(at, tools.good, count));
	ASK(ask_name("%s_copy_from", kind), cuMemcpy(tools.good, at, count));
	ASK(ask_name("%s_copy_async_to", kind), cuMemcpyAsync(at, tools.good, count, tools.stream));
	ASK(ask_name("%s_copy_async_from", kind), cuMemcpyAsync(tools.good, at, count, tools.stream));
	ASK(ask_name("%s_htod_async", kind), cuMemcpyHtoDAsync(at, tools.host, count, tools.stream));
	ASK(ask_name("%s_dtoh_async", kind), cuMemcpyDtoHAsync(tools.host, at, count, tools.stream));
	ASK(ask_name("%s_2d_to", kind), cuMemcpy2D(&to));
	ASK(ask_name("%s_2d_from", kind), cuMemcpy2D(&from));
	ASK(ask_name("%s_fill8", kind), cuMemsetD8(at, 0x53, count));
	ASK(ask_name("%s_fill16", kind), cuMemsetD16(at, 0x5354, count / 2));
	ASK(ask_name("%s_fill32", kind), cuMemsetD32(at, 0x53545556, count / 4));
	ASK(ask_name("%s_fill_async", kind), cuMemsetD8Async(at, 0x57, count, tools.stream));
	ASK(ask_name("%s_fill_2d", kind), cuMemsetD2D8(at, 64, 0x58, 16, 2));
	ASK(ask_name("%s_write_value", kind), cuStreamWriteValue32(tools.stream, at, 1, 0));
	ASK(ask_name("%s_kernel_writes", kind), launch_at(at));
	ASK(ask_name("%s_copy_0", kind), cuMemcpyDtoD(at, tools.good, 0));
	ASK(ask_name("%s_fill_0", kind), cuMemsetD8(at, 0, 0));
	ASK(ask_name("%s_synchronize", kind), cuCtxSynchronize());
}

GROUP(touch_writable)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), WRITE);
	touch_all("writable", at + 4096, 64);
}

GROUP(touch_reserved)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	touch_all("reserved", at + 4096, 64);
}

GROUP(touch_forbidden)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), NONE);
	touch_all("forbidden", at + 4096, 64);
}

/* Written, then read-only; at the end what is in it. */
GROUP(touch_readable)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), WRITE);
	NEED(cuMemsetD8(at, 0x61, grain));
	NEED(cuCtxSynchronize());
	NEED(vmm_allow(at, 1, READ));
	touch_all("readable", at + 4096, 64);
	SAY("readable_bytes", "%s", vmm_bytes(at + 4096, 64));
}

GROUP(touch_revoked)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), WRITE);
	NEED(cuMemsetD8(at, 0x62, grain));
	NEED(cuCtxSynchronize());
	NEED(vmm_allow(at, 1, NONE));
	touch_all("revoked", at + 4096, 64);
	ASK("revoked_allow_again", vmm_allow(at, 1, WRITE));
	SAY("revoked_bytes", "%s", vmm_bytes(at + 4096, 64));
}

GROUP(touch_unmapped)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_handle handle = vmm_create(1);
	vmm_map(at, 1, handle, WRITE);
	NEED(cuMemsetD8(at, 0x63, grain));
	NEED(cuCtxSynchronize());
	NEED(cuMemUnmap(at, grain));
	touch_all("unmapped", at + 4096, 64);
}

GROUP(touch_freed)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(1);
	vmm_map(at, 1, vmm_create(1), WRITE);
	NEED(cuMemUnmap(at, grain));
	NEED(cuMemAddressFree(at, grain));
	touch_all("freed", at + 4096, 64);
}

/* From one mapping into the next, both writable. */
GROUP(touch_across)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, vmm_create(1), WRITE);
	vmm_map(at + grain, 1, vmm_create(1), WRITE);
	touch_all("across", at + grain - 32, 64);
	NEED(cuMemsetD8(at, 0x64, 2 * grain));
	NEED(cuCtxSynchronize());
	SAY("across_bytes", "%s", vmm_bytes(at + grain - 32, 64));
}

/* From a writable mapping into one without rights, and into nothing. */
GROUP(touch_across_forbidden)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, vmm_create(1), WRITE);
	vmm_map(at + grain, 1, vmm_create(1), NONE);
	touch_all("across_forbidden", at + grain - 32, 64);
}

GROUP(touch_across_gap)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, vmm_create(1), WRITE);
	touch_all("across_gap", at + grain - 32, 64);
}

/* Two mappings of one memory, one of them read-only: rights belong to addresses. */
GROUP(touch_alias)
{
	make_tools();
	ask_guard();
	CUdeviceptr at = vmm_reserve(2);
	vmm_handle handle = vmm_create(1);
	vmm_map(at, 1, handle, WRITE);
	vmm_map(at + grain, 1, handle, READ);
	ASK("alias_fill", cuMemsetD8(at, 0x65, grain));
	SAY("alias_bytes", "%s", vmm_bytes(at + grain, 16));
	ASK("alias_copy_to_itself", cuMemcpyDtoD(at + 64, at + grain, 16));
	ASK("alias_fill_read_only", cuMemsetD8(at + grain, 0x66, 16));
	SAY("alias_bytes_after", "%s", vmm_bytes(at, 16));
}

/* Whether this thread's own loads and stores work, found out by the kernel's. */
static const char *by_cpu(CUdeviceptr at)
{
	static char text[40];
	int ends[2];
	char byte = 0x71;

	if (pipe(ends))
		return "no pipe";
	bool reads = write(ends[1], (const void *)(uintptr_t)at, 1) == 1;
	if (reads && read(ends[0], &byte, 1) != 1)
		return "no pipe";
	if (write(ends[1], &byte, 1) != 1)
		return "no pipe";
	bool writes = read(ends[0], (void *)(uintptr_t)at, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	snprintf(text, sizeof text, "reads %s writes %s", ask_yes(reads), ask_yes(writes));
	return text;
}

/* Memory of the host, mapped: for the device and for the processor. */
static void ask_host_memory(const char *kind, int type, int id)
{
	CUmemAllocationProp properties = vmm_properties(type, id, 0);
	CUdeviceptr at;
	CUmemAccessDesc both[2] = {vmm_access(DEVICE, 0, WRITE), vmm_access(type, id, WRITE)};
	CUmemAccessDesc read = vmm_access(type, id, READ), none = vmm_access(type, id, NONE);
	CUmemAccessDesc other = vmm_access(type == HOST ? NUMA : HOST, 0, WRITE);
	CUmemAccessDesc elsewhere = vmm_access(type, 999, WRITE);
	vmm_handle handle;

	vmm_setup();
	handle = vmm_create_as(1, properties);
	at = vmm_reserve(1);
	ASK(ask_name("%s_map", kind), cuMemMap(at, grain, 0, handle, 0));
	SAY(ask_name("%s_rights_at_first", kind), "device %s host %s numa %s", vmm_rights(at, DEVICE, 0),
	    vmm_rights(at, HOST, 0), vmm_rights(at, NUMA, 0));
	SAY(ask_name("%s_cpu_at_first", kind), "%s", by_cpu(at));
	ASK(ask_name("%s_allow_device", kind), vmm_allow(at, 1, WRITE));
	SAY(ask_name("%s_cpu_after_device", kind), "%s", by_cpu(at));
	ASK(ask_name("%s_fill_by_device", kind), cuMemsetD8(at, 0x67, grain));
	NEED(cuCtxSynchronize());
	ASK(ask_name("%s_allow_both", kind), cuMemSetAccess(at, grain, both, 2));
	SAY(ask_name("%s_rights_of_both", kind), "device %s host %s numa %s", vmm_rights(at, DEVICE, 0),
	    vmm_rights(at, HOST, 0), vmm_rights(at, NUMA, 0));
	SAY(ask_name("%s_cpu_after_both", kind), "%s", by_cpu(at));
	SAY(ask_name("%s_bytes", kind), "%s", vmm_bytes(at, 16));
	ASK(ask_name("%s_allow_read", kind), cuMemSetAccess(at, grain, &read, 1));
	SAY(ask_name("%s_cpu_after_read", kind), "%s", by_cpu(at));
	ASK(ask_name("%s_allow_elsewhere", kind), cuMemSetAccess(at, grain, &elsewhere, 1));
	SAY(ask_name("%s_cpu_after_elsewhere", kind), "%s", by_cpu(at));
	ASK(ask_name("%s_allow_none", kind), cuMemSetAccess(at, grain, &none, 1));
	SAY(ask_name("%s_cpu_after_none", kind), "%s", by_cpu(at));
	ASK(ask_name("%s_allow_other_kind", kind), cuMemSetAccess(at, grain, &other, 1));
	SAY(ask_name("%s_cpu_after_other_kind", kind), "%s", by_cpu(at));
	SAY(ask_name("%s_rights_at_last", kind), "device %s host %s numa %s", vmm_rights(at, DEVICE, 0),
	    vmm_rights(at, HOST, 0), vmm_rights(at, NUMA, 0));
	ASK(ask_name("%s_unmap", kind), cuMemUnmap(at, grain));
	SAY(ask_name("%s_cpu_after_unmap", kind), "%s", by_cpu(at));
}

GROUP(host_memory)
{
	ask_host_memory("host", HOST, 0);
}

GROUP(numa_memory)
{
	ask_host_memory("numa", NUMA, 0);
}

/* An attribute's value in words, addresses relative to `base`, sizes in granules where they are whole. */
static const char *describe(int attribute, const unsigned char *value, CUdeviceptr base, CUcontext context)
{
	const char *words = attribute_words(attribute, value, base, context);
	uint64_t wide;
	uint32_t narrow;

	memcpy(&wide, value, sizeof wide);
	memcpy(&narrow, value, sizeof narrow);
	if (!words)
		return narrow == value[0] ? ask_name("int %d", (int)value[0]) : ask_name("byte %d", (int)value[0]);
	if (wide == 0x7777777777777777)
		return words;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		if (!wide)
			return "NULL";
		if (wide - base >= 16 * grain)
			return "far";
		return ask_name("granule %d and %d", (int)((wide - base) / grain), (int)((wide - base) % grain));
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return wide && wide % grain == 0 ? ask_name("%llu granules", (unsigned long long)(wide / grain))
						 : words;
	default: return words;
	}
}

/* Everything that is said of an address. */
static void ask_address(const char *kind, CUdeviceptr pointer, CUdeviceptr base)
{
	CUcontext context = NULL;
	CUdeviceptr start = UNTOUCHED(CUdeviceptr);
	size_t bytes = UNTOUCHED_INT;

	NEED(cuCtxGetCurrent(&context));
	for (int attribute = 1; attribute <= 21; attribute++) {
		unsigned char value[32];
		memset(value, 0x77, sizeof value);
		ASK_VALUE(ask_name("%s_attribute_%d", kind, attribute),
			  cuPointerGetAttribute(value, (CUpointer_attribute)attribute, pointer), "%s",
			  describe(attribute, value, base, context));
	}
	ASK_VALUE(ask_name("%s_range", kind), cuMemGetAddressRange(&start, &bytes, pointer), "start %d bytes %d",
		  vmm_place_in(start, base), bytes == UNTOUCHED_INT ? -1 : (int)(bytes / grain));
}

GROUP(addresses)
{
	vmm_setup();
	CUdeviceptr at = vmm_reserve(8);
	vmm_map(at + grain, 2, vmm_create(2), WRITE);
	vmm_map(at + 3 * grain, 1, vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX)), READ);
	vmm_map(at + 4 * grain, 1, vmm_create(1), NONE);
	ask_address("mapped", at + grain, at);
	ask_address("mapped_interior", at + 2 * grain + 10, at);
	ask_address("mapped_shareable", at + 3 * grain, at);
	ask_address("mapped_forbidden", at + 4 * grain, at);
	ask_address("gap", at + 6 * grain, at);
	ask_address("gap_before", at, at);
}

GROUP(addresses_without)
{
	vmm_setup();
	CUdeviceptr at = vmm_reserve(4), host = vmm_reserve(2);
	ask_address("nothing_mapped", at, at);
	vmm_map(at + grain, 2, vmm_create(2), WRITE);
	NEED(cuMemUnmap(at + grain, 2 * grain));
	ask_address("unmapped_again", at + grain, at);
	NEED(cuMemAddressFree(at, 4 * grain));
	ask_address("address_freed", at + grain, at);
	vmm_map(host, 1, vmm_create_as(1, vmm_properties(HOST, 0, 0)), WRITE);
	ask_address("mapped_host", host, host);
}

GROUP(buffer_ids)
{
	unsigned long long ids[5] = {0};

	vmm_setup();
	CUdeviceptr at = vmm_reserve(4);
	vmm_handle handle = vmm_create(1);
	vmm_map(at, 1, handle, WRITE);
	vmm_map(at + grain, 1, handle, WRITE);
	vmm_map(at + 2 * grain, 1, vmm_create(1), WRITE);
	for (int i = 0; i < 3; i++)
		NEED(cuPointerGetAttribute(&ids[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, at + i * grain));
	SAY("buffer_id_of_alias_is_the_same", "%s", ask_yes(ids[0] == ids[1]));
	SAY("buffer_id_of_other_is_the_same", "%s", ask_yes(ids[0] == ids[2]));
	NEED(cuMemUnmap(at, grain));
	vmm_map(at, 1, handle, WRITE);
	NEED(cuPointerGetAttribute(&ids[3], CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	SAY("buffer_id_after_mapping_again_is_the_same", "%s", ask_yes(ids[0] == ids[3]));
}

/* Calls that are meant for other memory. */
GROUP(other_calls)
{
	unsigned int on = 1, flags = 0;
	unsigned char value[32] = {0};
	CUdeviceptr device_pointer = 0;
	CUipcMemHandle ipc;
	void *pointer;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(2);
	CUmemLocation device = vmm_place(DEVICE, 0);
	vmm_map(at, 1, vmm_create_as(1, vmm_properties(DEVICE, 0, POSIX)), WRITE);
	NEED(cuMemsetD8(at, 0x68, grain));
	NEED(cuCtxSynchronize());
	pointer = (void *)(uintptr_t)at;
	ASK("ipc_handle_of_mapped", cuIpcGetMemHandle(&ipc, at));
	ASK("ipc_handle_of_reserved", cuIpcGetMemHandle(&ipc, at + grain));
	ASK("free_host_mapped", cuMemFreeHost(pointer));
	ASK("host_flags_of_mapped", cuMemHostGetFlags(&flags, pointer));
	ASK("host_pointer_of_mapped", cuMemHostGetDevicePointer(&device_pointer, pointer, 0));
	ASK("unregister_mapped", cuMemHostUnregister(pointer));
	ASK("advise_mapped", cuMemAdvise(at, grain, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	ASK("prefetch_mapped", cuMemPrefetchAsync(at, grain, device, 0, NULL));
	ASK("set_sync_memops", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	ASK_VALUE("get_sync_memops", cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at), "%d",
		  value[0]);
	ASK("set_sync_memops_reserved", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at + grain));
	ASK("free_async_mapped", cuMemFreeAsync(at, NULL));
	SAY("bytes_after_free_async", "%s", vmm_bytes(at, 16));
	ASK("free_mapped_interior", cuMemFree(at + 4096));
	ASK("free_reserved", cuMemFree(at + grain));
	ASK("free_mapped", cuMemFree(at));
	SAY("bytes_after_free", "%s", vmm_bytes(at, 16));
	SAY("rights_after_free", "%s", vmm_rights(at, DEVICE, 0));
	ASK("unmap_after_free", cuMemUnmap(at, grain));
	ASK("address_free_after_free", cuMemAddressFree(at, 2 * grain));
}

/* A dma-buf of a mapped range: arguments are judged alike everywhere; whether there is one is the machine's own. */
GROUP(handle_for_range)
{
	CUmemRangeHandleType dma = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
	int descriptor = UNTOUCHED_INT;

	vmm_setup();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, vmm_create(1), WRITE);
	ASK("dma_null", cuMemGetHandleForAddressRange(NULL, at, grain, dma, 0));
	ASK_VALUE("dma_type_0", cuMemGetHandleForAddressRange(&descriptor, at, grain, (CUmemRangeHandleType)0, 0), "%d",
		  descriptor);
	ASK_VALUE("dma_0_bytes", cuMemGetHandleForAddressRange(&descriptor, at, 0, dma, 0), "%d", descriptor);
	ASK_VALUE("dma_1_byte", cuMemGetHandleForAddressRange(&descriptor, at, 1, dma, 0), "%d", descriptor);
	ASK_VALUE("dma_at_1", cuMemGetHandleForAddressRange(&descriptor, at + 1, 4096, dma, 0), "%d", descriptor);
	ASK_VALUE("dma_flags_2", cuMemGetHandleForAddressRange(&descriptor, at, grain, dma, 2), "%d", descriptor);
	ASK_VALUE("dma_into_gap", cuMemGetHandleForAddressRange(&descriptor, at, 2 * grain, dma, 0), "%d", descriptor);
	ASK_VALUE("dma_of_gap", cuMemGetHandleForAddressRange(&descriptor, at + grain, grain, dma, 0), "%d",
		  descriptor);
	ASK("dma_of_mapped", cuMemGetHandleForAddressRange(&descriptor, at, grain, dma, 0));
}
