/* SPDX-License-Identifier: MIT */
/*
 * Managed memory, and what the program says about its use.
 *
 * On a machine whose devices share the host's memory nothing ever moves. Advice and prefetching are still kept, page by
 * page, because programs read them back: an allocation's pages are a list of *stretches* with equal advice, in order
 * and without gaps, which begins as one. A change splits at most two of them. It brings the two records for that along,
 * so nothing is allocated under the registry's lock, and it removes those that became equal.
 */
#include "base/guard.h"
#include "driver/common/mempool.h"
#include "driver/host/copy.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct cn_advice {
	struct cn_advice *next;
	uint64_t start, end;
	bool read_mostly;
	bool of_pool;             /* the preference is the pool's */
	CUmemLocation preferred;  /* type CU_MEM_LOCATION_TYPE_NONE: none */
	CUmemLocation prefetched; /* the same */
	uint64_t accessed_by;     /* a bit for each device */
	bool accessed_by_host;
};

enum change_kind { CHANGE_READ_MOSTLY, CHANGE_PREFERRED, CHANGE_ACCESSED_BY, CHANGE_PREFETCHED };

struct change {
	enum change_kind kind;
	bool set;
	CUmemLocation location;
	uint64_t start, end;
	struct cn_advice *spare; /* list */
};

static const CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_NONE, .id = CU_DEVICE_INVALID};

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t page_start(uint64_t address)
{
	return address / page_bytes() * page_bytes();
}

static uint64_t page_end(uint64_t address)
{
	return page_start(address + page_bytes() - 1);
}

struct cn_advice *cn_advice_make(uint64_t start, size_t bytes, const CUmemLocation *preferred)
{
	struct cn_advice *advice = calloc(1, sizeof *advice);

	if (!advice)
		return NULL;
	advice->start = page_start(start);
	advice->end = page_end(start + bytes);
	advice->of_pool = preferred != NULL;
	advice->preferred = preferred ? *preferred : nowhere;
	advice->prefetched = nowhere;
	return advice;
}

void cn_advice_free(struct cn_advice *advice)
{
	while (advice) {
		struct cn_advice *next = advice->next;
		free(advice);
		advice = next;
	}
}

static bool same_place(CUmemLocation a, CUmemLocation b)
{
	return a.type == b.type && a.id == b.id;
}

static bool same_advice(const struct cn_advice *a, const struct cn_advice *b)
{
	return a->read_mostly == b->read_mostly && same_place(a->preferred, b->preferred) &&
	       same_place(a->prefetched, b->prefetched) && a->accessed_by == b->accessed_by &&
	       a->accessed_by_host == b->accessed_by_host;
}

/* ---- Changing ---- */

static void split(struct cn_advice *stretch, uint64_t at, struct change *change)
{
	struct cn_advice *rest = change->spare;

	change->spare = rest->next;
	*rest = *stretch;
	rest->start = at;
	stretch->end = at;
	stretch->next = rest;
}

static void set(struct cn_advice *stretch, const struct change *change)
{
	CUmemLocation place = change->set ? change->location : nowhere;
	uint64_t bit;

	switch (change->kind) {
	case CHANGE_READ_MOSTLY: stretch->read_mostly = change->set; break;
	case CHANGE_PREFERRED: stretch->preferred = place; break;
	case CHANGE_PREFETCHED: stretch->prefetched = place; break;
	case CHANGE_ACCESSED_BY:
		if (change->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
			stretch->accessed_by_host = change->set;
			break;
		}
		bit = 1ull << change->location.id;
		stretch->accessed_by = change->set ? stretch->accessed_by | bit : stretch->accessed_by & ~bit;
		break;
	}
}

static void apply(struct cn_advice *first, void *data)
{
	struct change *change = data;

	if (!first)
		return;
	for (struct cn_advice *stretch = first; stretch && stretch->start < change->end; stretch = stretch->next) {
		if (stretch->end <= change->start)
			continue;
		if (stretch->start < change->start) {
			split(stretch, change->start, change);
			continue;
		}
		if (stretch->end > change->end)
			split(stretch, change->end, change);
		set(stretch, change);
	}
	for (struct cn_advice *stretch = first; stretch->next;) {
		struct cn_advice *next = stretch->next;
		if (!same_advice(stretch, next)) {
			stretch = next;
			continue;
		}
		stretch->end = next->end;
		stretch->next = next->next;
		next->next = change->spare;
		change->spare = next;
	}
}

static CUresult make_change(struct change *change, CUdeviceptr pointer, size_t bytes)
{
	CUresult result;

	for (int i = 0; i < 2; i++) {
		struct cn_advice *spare = calloc(1, sizeof *spare);
		if (!spare) {
			cn_advice_free(change->spare);
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to keep advice");
		}
		spare->next = change->spare;
		change->spare = spare;
	}
	change->start = page_start(pointer);
	change->end = page_end(pointer + bytes);
	result = cn_registry_visit_advice(pointer, bytes, apply, change);
	cn_advice_free(change->spare);
	return result;
}

/* ---- The calls ---- */

CUresult host_cuMemAllocManaged(CUdeviceptr *ret_pointer, size_t bytes, unsigned int flags)
{
	struct cn_home home;
	void *address;
	int managed = 0;
	CUresult result = cn_given(cn_context_enter(&home), ret_pointer, "dptr");

	if (result)
		return result;
	*ret_pointer = 0; /* also after a failure, as the driver does */
	if (!bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"managed memory is CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST; the flags are 0x%x",
				flags);
	result = cn_device_ops->attribute(home.device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &managed);
	if (result)
		return result;
	if (!managed)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "device %d has no managed memory", home.device->ordinal);

	result = cn_host_pinned_allocate(bytes, &address);
	if (result)
		return result;
	struct cn_advice *advice = cn_advice_make((uintptr_t)address, bytes, NULL);
	if (!advice) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an allocation's record");
		goto err_free_memory;
	}
	result = cn_registry_add(&home, CN_MEMORY_MANAGED, address, bytes, flags, advice);
	if (result)
		goto err_free_advice;
	*ret_pointer = (uintptr_t)address;
	return CUDA_SUCCESS;

err_free_advice:
	free(advice);
err_free_memory:
	cn_host_pinned_free(address, bytes);
	return result;
}

static bool is_node(int id)
{
	char path[64];

	snprintf(path, sizeof path, "/sys/devices/system/node/node%d", id);
	return id == 0 || (id > 0 && access(path, F_OK) == 0);
}

/* A normalized location: the host has no id, the thread's own node gets its number. */
static CUresult check_location(CUmemLocation given, CUmemLocation *ret_location)
{
	struct cn_device *device;
	unsigned int cpu, node = 0;
	int concurrent = 0;
	CUresult result;

	switch ((int)given.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		result = cn_devices_find(given.id, &device);
		if (!result)
			result = cn_device_ops->attribute(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
							  &concurrent);
		if (result)
			return result;
		if (!concurrent)
			return cn_error(CUDA_ERROR_INVALID_DEVICE, "device %d has no managed memory", given.id);
		break;
	case CU_MEM_LOCATION_TYPE_HOST: given.id = CU_DEVICE_CPU; break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		if (!is_node(given.id))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "this machine has no NUMA node %d", given.id);
		break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		if (getcpu(&cpu, &node))
			node = 0;
		given.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		given.id = (int)node;
		break;
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not a type of location", (int)given.type);
	}
	*ret_location = given;
	return CUDA_SUCCESS;
}

static CUresult check_range(CUdeviceptr pointer, size_t bytes)
{
	struct cn_memory memory;

	if (!bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a range of 0 bytes");
	return cn_registry_range(pointer, bytes, &memory);
}

CUresult host_cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
	struct change change = {.location = nowhere};
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = check_range(pointer, bytes);
	if (result)
		return result;
	if (cn_mempool_find_memory(pointer, &memory) && memory.managed)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "advice cannot be given for a pool's memory");
	change.set = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
		     advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
	switch ((int)advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY: change.kind = CHANGE_READ_MOSTLY; break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: change.kind = CHANGE_PREFERRED; break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY: change.kind = CHANGE_ACCESSED_BY; break;
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "advice %d is unknown", (int)advice);
	}
	if (change.kind == CHANGE_ACCESSED_BY || (change.kind == CHANGE_PREFERRED && change.set))
		result = check_location(location, &change.location);
	if (result == CUDA_ERROR_INVALID_DEVICE)
		result = CUDA_ERROR_INVALID_VALUE; /* the driver's code here, but not where it prefetches */
	return result ? result : make_change(&change, pointer, bytes);
}

/* Nothing moves, so nothing is put into the stream; but the stream must be a live one. */
CUresult host_cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
				    CUstream handle)
{
	struct change change = {.kind = CHANGE_PREFETCHED, .set = true};
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuMemPrefetchAsync takes no flags: they must be 0, not 0x%x",
				flags);
	result = check_range(pointer, bytes);
	if (!result)
		result = check_location(location, &change.location);
	return result ? result : make_change(&change, pointer, bytes);
}

/* ---- Reading back ---- */

struct query {
	uint64_t start, end;
	struct cn_advice answer; /* what all pages of the range have in common */
};

static void ask(struct cn_advice *first, void *data)
{
	struct query *query = data;
	struct cn_advice *answer = &query->answer;
	bool begun = false;

	for (struct cn_advice *stretch = first; stretch && stretch->start < query->end; stretch = stretch->next) {
		if (stretch->end <= query->start)
			continue;
		if (!begun) {
			*answer = *stretch;
			begun = true;
			continue;
		}
		answer->read_mostly &= stretch->read_mostly;
		answer->accessed_by &= stretch->accessed_by;
		answer->accessed_by_host &= stretch->accessed_by_host;
		if (!same_place(answer->preferred, stretch->preferred))
			answer->preferred = nowhere;
		if (!same_place(answer->prefetched, stretch->prefetched))
			answer->prefetched = nowhere;
	}
}

/* As the attributes say it that know only devices and one host. */
static int place_number(CUmemLocation location)
{
	switch ((int)location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE: return location.id;
	case CU_MEM_LOCATION_TYPE_HOST: return CU_DEVICE_CPU;
	default: return CU_DEVICE_INVALID;
	}
}

static void list_accessed_by(const struct cn_advice *answer, int *ret_devices, size_t count)
{
	size_t used = 0;

	for (int device = 0; device < cn_devices_count && used < count; device++) {
		if (answer->accessed_by >> device & 1)
			ret_devices[used++] = device;
	}
	if (answer->accessed_by_host && used < count)
		ret_devices[used++] = CU_DEVICE_CPU;
	while (used < count)
		ret_devices[used++] = CU_DEVICE_INVALID;
}

static CUresult check_attribute(void *ret_data, size_t data_bytes, CUmem_range_attribute attribute)
{
	if (!ret_data)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "data is NULL");
	if ((int)attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
	    (int)attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of a range", (int)attribute);
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? !data_bytes || data_bytes % sizeof(int)
							    : data_bytes != sizeof(int))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "attribute %d does not fit in %zu bytes", (int)attribute,
				data_bytes);
	if (!cn_guard_check_write(ret_data, data_bytes, "data"))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void answer_attribute(const struct cn_advice *answer, void *ret_data, size_t data_bytes,
			     CUmem_range_attribute attribute)
{
	int *ret_value = ret_data;

	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *ret_value = answer->read_mostly; break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		/* The driver knows a node as part of the host when a pool names it, but not when advice does. */
		*ret_value = answer->of_pool && answer->preferred.type == CU_MEM_LOCATION_TYPE_HOST_NUMA
				     ? CU_DEVICE_CPU
				     : place_number(answer->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: list_accessed_by(answer, ret_value, data_bytes / sizeof(int)); break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *ret_value = place_number(answer->prefetched); break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *ret_value = (int)answer->preferred.type; break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *ret_value = answer->preferred.id; break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *ret_value = (int)answer->prefetched.type; break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *ret_value = answer->prefetched.id; break;
	}
}

CUresult host_cuMemRangeGetAttributes(void **ret_data, size_t *data_bytes, CUmem_range_attribute *attributes,
				      size_t count, CUdeviceptr pointer, size_t bytes)
{
	struct cn_home home;
	struct query query;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!ret_data || !data_bytes || !attributes || !count)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s",
				!ret_data     ? "data is NULL"
				: !data_bytes ? "dataSizes is NULL"
				: !attributes ? "attributes is NULL"
					      : "numAttributes is 0");
	for (size_t i = 0; i < count && !result; i++)
		result = check_attribute(ret_data[i], data_bytes[i], attributes[i]);
	if (!result)
		result = check_range(pointer, bytes);
	if (result)
		return result;
	query.start = page_start(pointer);
	query.end = page_end(pointer + bytes);
	result = cn_registry_visit_advice(pointer, bytes, ask, &query);
	for (size_t i = 0; i < count && !result; i++)
		answer_attribute(&query.answer, ret_data[i], data_bytes[i], attributes[i]);
	return result;
}

CUresult host_cuMemRangeGetAttribute(void *ret_data, size_t data_bytes, CUmem_range_attribute attribute,
				     CUdeviceptr pointer, size_t bytes)
{
	return host_cuMemRangeGetAttributes(&ret_data, &data_bytes, &attribute, 1, pointer, bytes);
}
