/* SPDX-License-Identifier: MIT */
/*
 * What a pointer is, on the host device: the registry knows (see driver/common/memory.h).
 */
#include "driver/host/registry.h"

/* The context that is current to this thread, even one that was destroyed. */
static struct cn_memory_asker find_asker(void)
{
	uint64_t handle = cn_context_thread.depth ? cn_context_thread.stack[cn_context_thread.depth - 1] : 0;
	struct cn_context *context = cn_table_find(&cn_contexts, (void *)(uintptr_t)handle);

	if (!context)
		return (struct cn_memory_asker){.device = NULL};
	return (struct cn_memory_asker){.device = context->device, .peers = atomic_load(&context->peers)};
}

/* Tokens let another device read the memory at any time. */
static void note_tokens(const struct cn_memory *memory, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS && memory->kind != CN_MEMORY_FOREIGN &&
	    cn_memory_has_tokens(memory))
		cn_registry_set_sync(pointer, CN_MEMORY_TOKEN_KINDS, true);
}

CUresult host_cuPointerGetAttribute(void *ret_data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (!result)
		result = cn_memory_check_attribute(attribute, ret_data);
	if (result)
		return result;
	asker = find_asker();
	cn_registry_find(pointer, &memory);
	note_tokens(&memory, attribute, pointer);
	return cn_memory_get_attribute(&memory, &asker, attribute, pointer, ret_data);
}

CUresult host_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **ret_data,
				     CUdeviceptr pointer)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (!result)
		result = cn_memory_check_attributes(count, attributes, ret_data);
	if (result)
		return result;
	asker = find_asker();
	cn_registry_find(pointer, &memory);
	for (unsigned int i = 0; i < count; i++)
		note_tokens(&memory, attributes[i], pointer);
	return cn_memory_get_attributes(&memory, &asker, count, attributes, pointer, ret_data);
}

CUresult host_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_registry_find(pointer, &memory);
	return cn_memory_set_attribute(&memory, attribute, pointer, value, cn_registry_set_sync);
}
