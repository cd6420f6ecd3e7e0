/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pointer": every attribute of every kind of pointer.
 */
#include "attribute.h"

CHAPTER(pointer);

enum { BYTES = 1000 };

static CUcontext context;

static const char *describe(int attribute, const unsigned char *value, CUdeviceptr pointer)
{
	const char *words = attribute_words(attribute, value, pointer, context);
	uint32_t narrow;

	memcpy(&narrow, value, sizeof narrow);
	return words ? words : ask_name(narrow == *value ? "int %d" : "byte %d", (int)*value);
}

static void ask_all(const char *kind, CUdeviceptr pointer)
{
	for (int attribute = 0; attribute <= LAST_ATTRIBUTE; attribute++) {
		unsigned char value[32];
		memset(value, 0x77, sizeof value);
		ASK_VALUE(ask_name("%s_attribute_%d", kind, attribute),
			  cuPointerGetAttribute(value, (CUpointer_attribute)attribute, pointer), "%s",
			  describe(attribute, value, pointer));
	}
}

/* The same through the plural call, which answers for every pointer. */
static void ask_plural(const char *kind, CUdeviceptr pointer)
{
	static const CUpointer_attribute wanted[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER,   CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,      CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MAPPED,           CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
	};
	enum { COUNT = sizeof wanted / sizeof wanted[0] };
	CUpointer_attribute attributes[COUNT];
	unsigned char values[COUNT][32];
	void *data[COUNT];

	memcpy(attributes, wanted, sizeof wanted);
	memset(values, 0x77, sizeof values);
	for (int i = 0; i < COUNT; i++)
		data[i] = values[i];
	ASK(ask_name("%s_plural", kind), cuPointerGetAttributes(COUNT, attributes, data, pointer));
	for (int i = 0; i < COUNT; i++) {
		SAY(ask_name("%s_plural_%d", kind, (int)wanted[i]), "%s", describe((int)wanted[i], values[i], pointer));
	}
}

static void ask_both(const char *kind, CUdeviceptr pointer)
{
	ask_all(kind, pointer);
	ask_plural(kind, pointer);
}

GROUP(device_memory)
{
	CUdeviceptr memory = 0;

	context = ask_context();
	NEED(cuMemAlloc(&memory, BYTES));
	ask_both("device", memory);
	ask_all("device_interior", memory + 10);
	ask_both("device_past_end", memory + 1024);
	NEED(cuMemFree(memory));
	ask_both("device_freed", memory);
}

GROUP(device_large)
{
	CUdeviceptr memory = 0;

	context = ask_context();
	NEED(cuMemAlloc(&memory, 5 << 20));
	ask_all("device_5_mib", memory + (1 << 20));
}

GROUP(host_memory)
{
	void *host = NULL;

	context = ask_context();
	NEED(cuMemAllocHost(&host, BYTES));
	ask_both("host", (CUdeviceptr)(uintptr_t)host);
	ask_all("host_interior", (CUdeviceptr)(uintptr_t)host + 10);
	NEED(cuMemFreeHost(host));
	ask_all("host_freed", (CUdeviceptr)(uintptr_t)host);
	NEED(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	ask_all("host_mapped", (CUdeviceptr)(uintptr_t)host);
	NEED(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_WRITECOMBINED));
	ask_all("host_combined", (CUdeviceptr)(uintptr_t)host);
}

GROUP(registered_memory)
{
	char *page = aligned_alloc(4096, 8192);

	context = ask_context();
	NEED(cuMemHostRegister(page, 4096, 0));
	ask_both("registered", (CUdeviceptr)(uintptr_t)page);
	ask_all("registered_interior", (CUdeviceptr)(uintptr_t)page + 10);
	NEED(cuMemHostUnregister(page));
	ask_all("unregistered", (CUdeviceptr)(uintptr_t)page);
	NEED(cuMemHostRegister(page + 100, BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	ask_all("registered_misaligned", (CUdeviceptr)(uintptr_t)page + 100);
}

GROUP(managed_memory)
{
	CUdeviceptr memory = 0;

	context = ask_context();
	NEED(cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_GLOBAL));
	ask_both("managed", memory);
	ask_all("managed_interior", memory + 10);
	NEED(cuMemFree(memory));
	ask_all("managed_freed", memory);
	NEED(cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_HOST));
	ask_all("managed_host", memory);
}

GROUP(no_memory)
{
	void *pageable = malloc(4096);

	context = ask_context();
	ask_both("malloced", (CUdeviceptr)(uintptr_t)pageable);
	ask_both("null", 0);
	ask_both("garbage", GARBAGE(CUdeviceptr));
	ask_all("small", SMALL(CUdeviceptr));
	free(pageable);
}

GROUP(no_context)
{
	CUdeviceptr memory = 0;
	void *pageable = malloc(4096);

	context = ask_context();
	NEED(cuMemAlloc(&memory, BYTES));
	NEED(cuCtxSetCurrent(NULL));
	ask_both("contextless_device", memory);
	ask_both("contextless_malloced", (CUdeviceptr)(uintptr_t)pageable);
	free(pageable);
}

GROUP(other_context)
{
	CUdeviceptr memory = 0;
	void *host = NULL;

	context = ask_context();
	NEED(cuMemAlloc(&memory, BYTES));
	NEED(cuMemAllocHost(&host, BYTES));
	ask_context();
	ask_all("foreign_device", memory);
	ask_all("foreign_host", (CUdeviceptr)(uintptr_t)host);
}

GROUP(primary_context)
{
	CUdeviceptr memory = 0;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc(&memory, BYTES));
	ask_all("primary_device", memory);
}

GROUP(ids)
{
	CUdeviceptr first = 0, second = 0;
	unsigned long long a = 0, b = 0, c = 0;

	ask_context();
	NEED(cuMemAlloc(&first, BYTES));
	NEED(cuMemAlloc(&second, BYTES));
	NEED(cuPointerGetAttribute(&a, CU_POINTER_ATTRIBUTE_BUFFER_ID, first));
	NEED(cuPointerGetAttribute(&b, CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
	SAY("buffer_ids_differ", "%s", ask_yes(a != b));
	NEED(cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_BUFFER_ID, first + 10));
	SAY("buffer_id_of_interior_is_the_same", "%s", ask_yes(a == c));
	NEED(cuMemFree(first));
	NEED(cuMemAlloc(&first, BYTES));
	NEED(cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_BUFFER_ID, first));
	SAY("buffer_id_is_used_again", "%s", ask_yes(a == c));
}

GROUP(wrong)
{
	CUdeviceptr memory = 0;
	unsigned int value = UNTOUCHED_INT, on = 1, off = 0;
	CUpointer_attribute one = CU_POINTER_ATTRIBUTE_MEMORY_TYPE, bad = (CUpointer_attribute)99;
	void *data = &value, *null_data = NULL;

	ask_context();
	NEED(cuMemAlloc(&memory, BYTES));
	ASK("get_null_data", cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	ASK_VALUE("get_attribute_99", cuPointerGetAttribute(&value, bad, memory), "%u", value);
	ASK_VALUE("get_attribute_negative", cuPointerGetAttribute(&value, (CUpointer_attribute)-1, memory), "%u",
		  value);
	ASK("plural_0", cuPointerGetAttributes(0, &one, &data, memory));
	ASK("plural_null_attributes", cuPointerGetAttributes(1, NULL, &data, memory));
	ASK("plural_null_data", cuPointerGetAttributes(1, &one, NULL, memory));
	ASK("plural_null_data_entry", cuPointerGetAttributes(1, &one, &null_data, memory));
	ASK_VALUE("plural_attribute_99", cuPointerGetAttributes(1, &bad, &data, memory), "%u", value);
	ASK("set_sync_memops", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	ASK_VALUE("get_sync_memops_set", cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), "%d",
		  (int)*(unsigned char *)&value);
	ASK("set_sync_memops_off", cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	ASK_VALUE("get_sync_memops_off", cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), "%d",
		  (int)*(unsigned char *)&value);
	ASK("set_sync_memops_interior", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory + 1));
	ASK("set_sync_memops_null_value", cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	ASK("set_sync_memops_null", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0));
	ASK("set_sync_memops_stack",
	    cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)(uintptr_t)&on));
	ASK("set_memory_type", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	ASK("set_attribute_99", cuPointerSetAttribute(&on, bad, memory));
}
