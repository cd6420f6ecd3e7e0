/* SPDX-License-Identifier: MIT */
/*
 * Chapter "vmm_state": the virtual memory calls before cuInit, without a context, in a destroyed one, inside a callback
 * and in a forked child; what contexts have to do with mapped memory; how much is left of the device's.
 */
#include "vmm.h"

#include <unistd.h>

CHAPTER(vmm_state);

/* The right arguments. at: a mapping, a granule to map in, a mapping to end, and a granule more. */
static struct {
	CUdeviceptr at, empty, out;
	vmm_handle handle, victim, made;
	CUmemAllocationProp properties, properties_out;
	CUmemLocation location;
	CUmemAccessDesc access;
	size_t bytes, length;
	unsigned long long flags;
	int descriptor, descriptor_out;
	unsigned int type;
} s;

/* X(name, call), with arguments that would be right. */
#define CALLS(X)                                                                                                       \
	X(cuMemGetAllocationGranularity,                                                                               \
	  cuMemGetAllocationGranularity(&s.length, &s.properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM))                   \
	X(cuMemCreate, cuMemCreate(&s.made, s.bytes, &s.properties, 0))                                                \
	X(cuMemAddressReserve, cuMemAddressReserve(&s.out, s.bytes, 0, 0, 0))                                          \
	X(cuMemMap, cuMemMap(s.at + s.bytes, s.bytes, 0, s.handle, 0))                                                 \
	X(cuMemSetAccess, cuMemSetAccess(s.at, s.bytes, &s.access, 1))                                                 \
	X(cuMemGetAccess, cuMemGetAccess(&s.flags, &s.location, s.at))                                                 \
	X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle(&s.properties_out, s.handle)) \
	X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle(&s.made, (void *)(uintptr_t)s.at))                  \
	X(cuMemExportToShareableHandle,                                                                                \
	  cuMemExportToShareableHandle(&s.descriptor_out, s.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))      \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle(&s.made, (void *)(uintptr_t)s.descriptor,     \
									 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))    \
	X(cuMemGetAddressRange, cuMemGetAddressRange(&s.out, &s.length, s.at))                                         \
	X(cuPointerGetAttribute, cuPointerGetAttribute(&s.type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.at))               \
	X(cuMemGetHandleForAddressRange,                                                                               \
	  cuMemGetHandleForAddressRange(NULL, s.at, s.bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))                  \
	X(cuMemUnmap, cuMemUnmap(s.at + 2 * s.bytes, s.bytes))                                                         \
	X(cuMemRelease, cuMemRelease(s.victim))                                                                        \
	X(cuMemAddressFree, cuMemAddressFree(s.empty, s.bytes))

static void fake(void)
{
	s.bytes = 2 << 20;
	s.at = s.empty = (CUdeviceptr)1 << 40;
	s.handle = s.victim = 1;
	s.descriptor = -1;
	s.properties = vmm_properties(DEVICE, 0, POSIX);
	s.location = vmm_place(DEVICE, 0);
	s.access = vmm_access(DEVICE, 0, WRITE);
}

static void make(void)
{
	vmm_setup();
	fake();
	s.bytes = grain;
	s.handle = vmm_create_as(1, s.properties);
	s.victim = vmm_create_as(1, s.properties);
	s.at = vmm_reserve(4);
	s.empty = vmm_reserve(1);
	vmm_map(s.at, 1, s.handle, WRITE);
	vmm_map(s.at + 2 * grain, 1, s.victim, WRITE);
	NEED(cuMemsetD8(s.at, 0x31, grain));
	NEED(cuCtxSynchronize());
	NEED(cuMemExportToShareableHandle(&s.descriptor, s.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

#include "states.h"

GROUP(forked)
{
	make();
	ask_forked(ask_in_child, NULL);
	SAY("parent_bytes_after_child", "%s", vmm_bytes(s.at, 16));
	SAY("parent_rights_after_child", "%s", vmm_rights(s.at + 2 * grain, DEVICE, 0));
	ASK("parent_release_after_child", cuMemRelease(s.victim));
}

/* cuInit and no context at all, until memory is there. */
GROUP(no_context_ever)
{
	CUcontext context = NULL;
	unsigned int flags = 0;
	int active = UNTOUCHED_INT;
	CUdeviceptr memory = 0;

	NEED(cuInit(0));
	fake();
	ASK("early_granularity",
	    cuMemGetAllocationGranularity(&grain, &s.properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	s.bytes = grain;
	ASK("early_create", cuMemCreate(&s.handle, grain, &s.properties, 0));
	ASK("early_reserve", cuMemAddressReserve(&s.at, 2 * grain, 0, 0, 0));
	ASK("early_map", cuMemMap(s.at, grain, 0, s.handle, 0));
	ASK("early_allow", vmm_allow(s.at, 1, WRITE));
	SAY("early_rights", "%s", vmm_rights(s.at, DEVICE, 0));
	vmm_ask_properties("early_properties", s.handle);
	ASK("early_export",
	    cuMemExportToShareableHandle(&s.descriptor, s.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASK("early_import", cuMemImportFromShareableHandle(&s.made, (void *)(uintptr_t)s.descriptor,
							   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	ASK("early_retain", cuMemRetainAllocationHandle(&s.made, (void *)(uintptr_t)s.at));
	ASK("early_fill", cuMemsetD8(s.at, 1, 16));
	ASK("early_alloc", cuMemAlloc(&memory, 16));
	ASK_VALUE("early_primary_state", cuDevicePrimaryCtxGetState(0, &flags, &active), "%d", active);
	ASK("late_context", cuCtxCreate(&context, NULL, 0, 0));
	SAY("late_rights", "%s", vmm_rights(s.at, DEVICE, 0));
	ASK("late_fill", cuMemsetD8(s.at, 0x32, 16));
	SAY("late_bytes", "%s", vmm_bytes(s.at, 16));
	ASK("late_unmap", cuMemUnmap(s.at, grain));
	ASK("late_release", cuMemRelease(s.handle));
	ASK("late_address_free", cuMemAddressFree(s.at, 2 * grain));
}

/* Every context of the process sees a mapping, and none of them owns it. */
GROUP(contexts)
{
	CUcontext first = NULL, second = NULL;

	make();
	NEED(cuCtxGetCurrent(&first));
	NEED(cuCtxCreate(&second, NULL, 0, 0));
	SAY("second_context_rights", "%s", vmm_rights(s.at, DEVICE, 0));
	SAY("second_context_bytes", "%s", vmm_bytes(s.at, 16));
	ASK("second_context_fill", cuMemsetD8(s.at, 0x33, 16));
	NEED(cuCtxSynchronize());
	ASK("destroy_first_context", cuCtxDestroy(first));
	SAY("bytes_after_destroy", "%s", vmm_bytes(s.at, 16));
	ASK("map_after_destroy", cuMemMap(s.at + grain, grain, 0, s.handle, 0));
	ASK("allow_after_destroy", vmm_allow(s.at + grain, 1, READ));
	SAY("alias_after_destroy", "%s", vmm_bytes(s.at + grain, 16));
	ASK("destroy_second_context", cuCtxDestroy(second));
	SAY("rights_without_contexts", "%s", vmm_rights(s.at, DEVICE, 0));
	vmm_ask_properties("properties_without_contexts", s.handle);
	NEED(cuCtxCreate(&first, NULL, 0, 0));
	SAY("bytes_in_new_context", "%s", vmm_bytes(s.at, 16));
	SAY("alias_in_new_context", "%s", vmm_bytes(s.at + grain, 16));
	ASK("unmap_in_new_context", cuMemUnmap(s.at + grain, grain));
	ASK("release_in_new_context", cuMemRelease(s.handle));
}

/* The primary context, reset under a mapping. */
GROUP(primary)
{
	CUcontext context = NULL;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	vmm_measure();
	CUdeviceptr at = vmm_reserve(1);
	vmm_handle handle = vmm_create(1);
	vmm_map(at, 1, handle, WRITE);
	NEED(cuMemsetD8(at, 0x34, grain));
	NEED(cuCtxSynchronize());
	SAY("primary_bytes", "%s", vmm_bytes(at, 16));
	ASK("primary_reset", cuDevicePrimaryCtxReset(0));
	ASK("primary_retain_again", cuDevicePrimaryCtxRetain(&context, 0));
	ASK("primary_current_again", cuCtxSetCurrent(context));
	SAY("primary_bytes_after_reset", "%s", vmm_bytes(at, 16));
	SAY("primary_rights_after_reset", "%s", vmm_rights(at, DEVICE, 0));
	ASK("primary_unmap_after_reset", cuMemUnmap(at, grain));
	ASK("primary_release_after_reset", cuMemRelease(handle));
}

/* The runtime's calls on mapped memory. */
GROUP(runtime)
{
	struct cudaPointerAttributes attributes;
	char bytes[16] = {0};

	NEED(cudaFree(NULL));
	vmm_measure();
	CUdeviceptr at = vmm_reserve(2);
	vmm_map(at, 1, vmm_create(1), WRITE);
	void *pointer = (void *)(uintptr_t)at;
	memset(&attributes, 0x77, sizeof attributes);
	ASK("runtime_fill", cudaMemset(pointer, 0x35, 64));
	ASK_VALUE("runtime_copy", cudaMemcpy(bytes, pointer, 16, cudaMemcpyDefault), "%s", ask_bytes(bytes, 16));
	ASK_VALUE("runtime_attributes", cudaPointerGetAttributes(&attributes, pointer), "type %d device %d %s %s",
		  (int)attributes.type, attributes.device, attributes.devicePointer == pointer ? "itself" : "other",
		  attributes.hostPointer ? "host" : "NULL");
	ASK_VALUE("runtime_attributes_of_reserved",
		  cudaPointerGetAttributes(&attributes, (void *)(uintptr_t)(at + grain)), "type %d device %d",
		  (int)attributes.type, attributes.device);
	ASK("runtime_free", cudaFree(pointer));
	SAY("runtime_last_error", "%s", ask_runtime_code(cudaGetLastError()));
	ASK("runtime_copy_after_free", cudaMemcpy(bytes, pointer, 16, cudaMemcpyDefault));
}

/* Calls from another thread than the one that made the memory, which has no context. */
static void *in_thread(void *data)
{
	(void)data;
	SAY("thread_rights", "%s", vmm_rights(s.at, DEVICE, 0));
	ASK("thread_map", cuMemMap(s.at + grain, grain, 0, s.handle, 0));
	ASK("thread_allow", vmm_allow(s.at + grain, 1, WRITE));
	ASK("thread_release", cuMemRelease(s.handle));
	return NULL;
}

GROUP(thread)
{
	make();
	ask_threaded(in_thread, NULL);
	SAY("bytes_of_threads_mapping", "%s", vmm_bytes(s.at + grain, 16));
	ASK("unmap_threads_mapping", cuMemUnmap(s.at, 3 * grain));
}

ALONE(accounting)
{
	vmm_handle handle = 0, got = 0;
	CUdeviceptr at;
	int descriptor = -1;

	vmm_setup();
	CUmemAllocationProp posix = vmm_properties(DEVICE, 0, POSIX), host = vmm_properties(HOST, 0, 0);
	at = vmm_reserve(32);
	vmm_map(at, 32, vmm_create(32), WRITE);
	NEED(cuMemsetD8(at, 1, 32 * grain));
	NEED(cuCtxSynchronize());
	long start = vmm_free_grains();
	ASK_VALUE("account_create", cuMemCreate(&handle, 32 * grain, &posix, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_reserve", cuMemAddressReserve(&at, 32 * grain, 0, 0, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_map", cuMemMap(at, 32 * grain, 0, handle, 0), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_allow", vmm_allow(at, 32, WRITE), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_mapped", cuMemRelease(handle), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_retain", cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)at), "%d",
		  vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_unmap_retained", cuMemUnmap(at, 32 * grain), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_last", cuMemRelease(got), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_create_again", cuMemCreate(&handle, 32 * grain, &posix, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	NEED(cuMemMap(at, 32 * grain, 0, handle, 0));
	ASK_VALUE("account_unmap_first", cuMemUnmap(at, 32 * grain), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_unmapped", cuMemRelease(handle), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_address_free", cuMemAddressFree(at, 32 * grain), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_host", cuMemCreate(&handle, 32 * grain, &host, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_failed", cuMemCreate(&handle, 32 * grain + 1, &posix, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	NEED(cuMemCreate(&handle, 32 * grain, &posix, 0));
	ASK_VALUE("account_export",
		  cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "%d",
		  vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_exported", cuMemRelease(handle), "%d", vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_import",
		  cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		  "%d", vmm_steps(vmm_free_grains() - start));
	SAY("account_close", "%d %d", close(descriptor), vmm_steps(vmm_free_grains() - start));
	ASK_VALUE("account_release_imported", cuMemRelease(handle), "%d", vmm_steps(vmm_free_grains() - start));
}

/* Memory that no process can have any more. */
ALONE(exhaustion)
{
	CUmemAllocationProp device = vmm_properties(DEVICE, 0, 0);
	vmm_handle handle = UNTOUCHED(vmm_handle);
	size_t left = 0, total = 0;

	vmm_setup();
	NEED(cuMemGetInfo(&left, &total));
	ASK_VALUE("create_all_of_it", cuMemCreate(&handle, (total / grain + 1) * grain, &device, 0), "%s", OUT(handle));
	ASK("create_after_exhaustion", cuMemCreate(&handle, grain, &device, 0));
}
