/* SPDX-License-Identifier: MIT */
/*
 * The virtual memory API: physical memory, addresses, and mapping one at the other.
 *
 * There are three kinds of objects, which may end in any order. Handles count their references and their mappings, and
 * the physical memory ends with the last of both. Mappings are in the registry of memory, with the rights of each
 * device. Reserved ranges are in a map of their own. One mutex orders the calls that change any of it. It is held
 * across the system's mapping calls, which these calls are about, and never across a wait.
 *
 * Unmapping memory does not wait for work under way: such work fails its stream. The addresses of a freed range are
 * given back to the system only when all work that was submitted before is done, so that it cannot touch what is mapped
 * there next.
 */
#include "driver/host/vmm.h"
#include "base/container.h"

#include "base/map.h"
#include "device/host/host_remote.h"
#include "driver/host/registry.h"
#include "share/port/fabric.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct cn_table allocations = CN_TABLE(CN_KIND_ALLOCATION, struct cn_allocation);

struct reservation {
	struct cn_map_node node;
};

/* A freed range, until the work that may know its addresses is done. */
struct farewell {
	struct farewell *next;
	void *address;
	size_t bytes, point_count;
	struct cn_point points[];
};

static struct {
	CN_SLOW_LOCK(VMM) mutex;
	struct cn_map reservations;
	struct farewell *farewells;
} space;

enum { FABRIC_OR_POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC };

/* ---- Handles ---- */

CUresult cn_allocation_make(struct cn_physical *physical, const CUmemAllocationProp *properties,
			    struct cn_device *device, CUmemGenericAllocationHandle *ret_handle)
{
	struct cn_allocation *allocation = cn_table_take(&allocations);

	if (!allocation)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an allocation's record");
	allocation->physical = physical;
	allocation->properties = *properties;
	allocation->bytes = cn_host_physical_facts(physical)->bytes;
	allocation->reference_count = 1;
	allocation->mapping_count = 0;
	allocation->device = device;
	atomic_store(&allocation->fabric, NULL);
	*ret_handle = cn_table_publish(&allocations, allocation);
	return CUDA_SUCCESS;
}

static CUresult find_locked(CUmemGenericAllocationHandle handle, struct cn_allocation **ret_allocation)
{
	struct cn_allocation *allocation = cn_table_find(&allocations, (void *)(uintptr_t)handle);

	if (!allocation)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not a live allocation handle", handle);
	*ret_allocation = allocation;
	return CUDA_SUCCESS;
}

/* The memory, if nothing holds it any more: to be freed when the mutex is released. */
static struct cn_physical *let_go_locked(struct cn_allocation *allocation)
{
	if (allocation->reference_count || allocation->mapping_count)
		return NULL;
	struct cn_physical *physical = allocation->physical;
	cn_fabric_free(atomic_load(&allocation->fabric));
	cn_table_retire(allocation, cn_object_handle(allocation));
	cn_table_give(&allocations, allocation);
	return physical;
}

static void free_physical(struct cn_physical *physical)
{
	if (physical)
		cn_host_physical_free(physical);
}

CUresult cn_allocation_get(CUmemGenericAllocationHandle handle, struct cn_allocation **ret_allocation)
{
	cn_slow_lock(&space.mutex);
	CUresult result = find_locked(handle, ret_allocation);
	if (!result)
		(*ret_allocation)->mapping_count++; /* like a mapping, it keeps the memory and is no reference */
	cn_slow_unlock(&space.mutex);
	return result;
}

void cn_allocation_put(struct cn_allocation *allocation)
{
	cn_slow_lock(&space.mutex);
	allocation->mapping_count--;
	struct cn_physical *physical = let_go_locked(allocation);
	cn_slow_unlock(&space.mutex);
	free_physical(physical);
}

/* ---- Physical memory ---- */

static CUresult check_location(const CUmemAllocationProp *properties, struct cn_device **ret_device,
			       CUmemLocation *ret_location)
{
	CUmemLocation location = properties->location;

	*ret_device = NULL;
	switch ((int)location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE: *ret_location = location; return cn_devices_find(location.id, ret_device);
	case CU_MEM_LOCATION_TYPE_HOST:
		if (properties->requestedHandleTypes)
			return cn_error(
				CUDA_ERROR_INVALID_VALUE,
				"host memory without a NUMA node cannot be shared: use CU_MEM_LOCATION_TYPE_HOST_NUMA");
		*ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		if (!cn_device_has_node(location.id))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "this machine has no NUMA node %d", location.id);
		*ret_location = location;
		return CUDA_SUCCESS;
	default:
		return cn_error(CUDA_ERROR_INVALID_VALUE, "memory cannot be created at location type %d",
				(int)location.type);
	}
}

static CUresult check_handle_types(const CUmemAllocationProp *properties)
{
	unsigned types = (unsigned)properties->requestedHandleTypes;

	if (types & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"Win32 handles are for Windows; on Linux, use a file descriptor");
	if (properties->win32HandleMetaData)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "win32HandleMetaData is for Windows");
	return CUDA_SUCCESS;
}

/* Can the device, and may the process? Checked when everything else is valid. */
static CUresult check_sharing(const CUmemAllocationProp *properties)
{
	unsigned types = (unsigned)properties->requestedHandleTypes;
	CUresult result = CUDA_SUCCESS;

	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		result = cn_devices_check(&cn_devices[0],
					  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
					  "memory that is shared by descriptor");
	if (!result && types & CU_MEM_HANDLE_TYPE_FABRIC)
		result = cn_devices_check(&cn_devices[0], CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
					  "memory that is shared by fabric handle");
	if (!result && types & CU_MEM_HANDLE_TYPE_FABRIC)
		result = cn_fabric_permitted();
	return result;
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
	static const unsigned char zeros[sizeof properties->allocFlags.reserved];

	if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "allocation type %d is not CU_MEM_ALLOCATION_TYPE_PINNED",
				(int)properties->type);
	if (memcmp(properties->allocFlags.reserved, zeros, sizeof zeros) != 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "reserved bytes of the properties are not 0");
	if (properties->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "compression type %u is unknown",
				properties->allocFlags.compressionType);
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
	    (properties->allocFlags.compressionType || properties->allocFlags.gpuDirectRDMACapable))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "host memory cannot be compressed or used for RDMA");
	return CUDA_SUCCESS;
}

CUresult host_cuMemGetAllocationGranularity(size_t *ret_bytes, const CUmemAllocationProp *properties,
					    CUmemAllocationGranularity_flags option)
{
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_bytes || !properties)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_bytes ? "prop" : "granularity");
	if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not a granularity", (int)option);
	*ret_bytes = CN_GRANULARITY_BYTES;
	return CUDA_SUCCESS;
}

CUresult host_cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t bytes, const CUmemAllocationProp *properties,
			  unsigned long long flags)
{
	struct cn_device *device = NULL;
	struct cn_physical *physical;
	CUmemAllocationProp kept = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_handle || !properties)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_handle ? "prop" : "handle");
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuMemCreate takes no flags: they must be 0, not 0x%llx",
				flags);
	if (!bytes || bytes % CN_GRANULARITY_BYTES)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes are not a multiple of the granularity, %d", bytes,
				CN_GRANULARITY_BYTES);
	result = check_properties(properties);
	if (!result)
		result = check_handle_types(properties);
	if (!result)
		result = check_location(properties, &device, &kept.location);
	if (!result)
		result = check_sharing(properties);
	if (result)
		return result;

	kept.requestedHandleTypes =
		(CUmemAllocationHandleType)((unsigned)properties->requestedHandleTypes & FABRIC_OR_POSIX);
	kept.allocFlags.compressionType = properties->allocFlags.compressionType;
	kept.allocFlags.gpuDirectRDMACapable = properties->allocFlags.gpuDirectRDMACapable != 0;
	struct cn_physical_facts facts = {
		.bytes = bytes,
		.location_type = kept.location.type,
		.location_id = device ? device->physical : kept.location.id,
		.handle_types = kept.requestedHandleTypes,
		.flags = kept.allocFlags.compressionType | (unsigned)kept.allocFlags.gpuDirectRDMACapable << 8,
	};
	result = cn_host_physical_create(device, &facts, &physical);
	if (result)
		return result;
	result = cn_allocation_make(physical, &kept, device, ret_handle);
	if (result)
		cn_host_physical_free(physical);
	return result;
}

CUresult host_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct cn_allocation *allocation;
	struct cn_physical *physical = NULL;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	result = find_locked(handle, &allocation);
	if (!result && !allocation->reference_count)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the handle 0x%llx was already released", handle);
	if (!result) {
		allocation->reference_count--;
		physical = let_go_locked(allocation);
	}
	cn_slow_unlock(&space.mutex);
	free_physical(physical);
	return result;
}

CUresult host_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret_properties,
						     CUmemGenericAllocationHandle handle)
{
	struct cn_allocation *allocation;
	CUresult result = cn_given(cn_enter(), ret_properties, "prop");

	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	result = find_locked(handle, &allocation);
	if (!result)
		*ret_properties = allocation->properties;
	cn_slow_unlock(&space.mutex);
	return result;
}

CUresult host_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
	struct cn_allocation *allocation;
	struct cn_memory memory;
	CUresult result = cn_given(cn_enter(), ret_handle, "handle");

	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	if (!cn_registry_find((uintptr_t)address, &memory) || memory.kind != CN_MEMORY_MAPPED)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %p by cuMemMap()", address);
	else
		result = find_locked(memory.allocation, &allocation);
	if (!result) {
		allocation->reference_count++;
		*ret_handle = memory.allocation;
	}
	cn_slow_unlock(&space.mutex);
	return result;
}

/* ---- Addresses ---- */

/* Give back freed ranges whose last work is done. Mutex held. */
static void bid_farewell_locked(void)
{
	for (struct farewell **link = &space.farewells; *link;) {
		struct farewell *farewell = *link;
		size_t reached = 0;
		while (reached < farewell->point_count && cn_point_reached(farewell->points[reached]))
			reached++;
		if (reached < farewell->point_count) {
			link = &farewell->next;
			continue;
		}
		cn_host_range_free(farewell->address, farewell->bytes);
		*link = farewell->next;
		free(farewell);
	}
}

/* The program may reuse the addresses now; the system, when no work under way can know them any more. */
static CUresult free_addresses_locked(void *address, size_t bytes)
{
	size_t room = 0, count = cn_streams_pending(NULL, 0);
	struct farewell *farewell = NULL;

	while (count > room) { /* again if there is more work now: what did not fit may be older */
		room = count;
		free(farewell);
		farewell = malloc(sizeof *farewell + room * sizeof *farewell->points);
		if (!farewell)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to free %zu bytes of addresses",
					bytes);
		count = cn_streams_pending(farewell->points, room);
	}
	if (!count) {
		free(farewell);
		cn_host_range_free(address, bytes);
		return CUDA_SUCCESS;
	}
	farewell->point_count = count;
	farewell->address = address;
	farewell->bytes = bytes;
	farewell->next = space.farewells;
	space.farewells = farewell;
	return CUDA_SUCCESS;
}

CUresult host_cuMemAddressReserve(CUdeviceptr *ret_address, size_t bytes, size_t alignment, CUdeviceptr wish,
				  unsigned long long flags)
{
	const size_t grain = CN_GRANULARITY_BYTES, highest = (size_t)1 << 62;
	void *address;
	CUresult result = cn_given(cn_enter(), ret_address, "ptr");

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemAddressReserve takes no flags: they must be 0, not 0x%llx", flags);
	if (!bytes || bytes % grain)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes are not a multiple of the granularity, %zu", bytes,
				grain);
	if (alignment & (alignment - 1) || alignment > highest)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "an alignment of %zu is not a power of two", alignment);
	alignment = alignment > grain ? alignment : grain;
	if (wish % alignment)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the requested address 0x%llx is not aligned to %zu", wish,
				alignment);
	if ((uint64_t)wish >= (uint64_t)1 << 47)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "0x%llx is not an address that a process can have", wish);

	struct reservation *reservation = calloc(1, sizeof *reservation);
	if (!reservation)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a reservation's record");
	result = cn_host_range_reserve(bytes, alignment, &address);
	if (result) {
		free(reservation);
		return result;
	}
	cn_registry_forget_stale((uintptr_t)address, bytes);
	cn_slow_lock(&space.mutex);
	bid_farewell_locked();
	cn_map_insert(&space.reservations, &reservation->node, (uintptr_t)address, bytes);
	cn_slow_unlock(&space.mutex);
	*ret_address = (uintptr_t)address;
	return CUDA_SUCCESS;
}

CUresult host_cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	struct reservation *reservation;
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	bid_farewell_locked();
	reservation = cn_container_or_null(cn_map_find(&space.reservations, address), struct reservation, node);
	if (!reservation || reservation->node.start != address || reservation->node.bytes != bytes)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "no range of %zu bytes was reserved at 0x%llx", bytes,
				  address);
	else if (cn_registry_find_from(address, &memory) && memory.start < address + bytes)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "memory is still mapped at 0x%" PRIx64 " in the range",
				  memory.start);
	else
		result = free_addresses_locked((void *)(uintptr_t)address, bytes);
	if (!result) {
		cn_map_remove(&space.reservations, &reservation->node);
		free(reservation);
	}
	cn_slow_unlock(&space.mutex);
	return result;
}

/* Is every address of a range reserved? Adjacent reservations count as one. */
static bool is_reserved_locked(uint64_t address, size_t bytes)
{
	uint64_t end;

	if (__builtin_add_overflow(address, bytes, &end))
		return false;
	while (address < end) {
		struct cn_map_node *node = cn_map_find(&space.reservations, address);
		if (!node)
			return false;
		address = node->start + node->bytes;
	}
	return true;
}

/* ---- Mapping ---- */

static CUresult map_locked(CUdeviceptr address, size_t bytes, struct cn_allocation *allocation,
			   CUmemGenericAllocationHandle handle)
{
	if (!is_reserved_locked(address, bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "not all of the %zu bytes at 0x%llx were reserved", bytes,
				address);
	struct cn_map_node *range = cn_map_find(&space.reservations, address);
	struct cn_memory facts = {
		.kind = CN_MEMORY_MAPPED,
		.start = address,
		.bytes = bytes,
		.device = allocation->device,
		.allocation = handle,
		.reservation_start = range->start,
		.reservation_bytes = range->bytes,
		.on_host = allocation->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE,
		.handle_types = allocation->properties.requestedHandleTypes,
		.remote = cn_host_physical_number(allocation->physical),
	};
	CUresult result = cn_registry_add_mapping(&facts);
	if (result)
		return result;
	result = cn_host_range_map((void *)(uintptr_t)address, allocation->physical);
	if (result)
		cn_registry_remove_mapping(address);
	else
		allocation->mapping_count++;
	return result;
}

CUresult host_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		       unsigned long long flags)
{
	struct cn_allocation *allocation;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuMemMap takes no flags: they must be 0, not 0x%llx", flags);
	if (!address || !bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%llx cannot be mapped", bytes, address);
	cn_slow_lock(&space.mutex);
	result = find_locked(handle, &allocation);
	if (!result && !allocation->reference_count)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the handle 0x%llx was released", handle);
	else if (!result && (offset || bytes != allocation->bytes))
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED,
				  "memory can only be mapped whole: all its %zu bytes, from offset 0",
				  allocation->bytes);
	else if (!result && address % CN_GRANULARITY_BYTES)
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED, "0x%llx is not a multiple of the granularity, %d", address,
				  CN_GRANULARITY_BYTES);
	if (!result)
		result = map_locked(address, bytes, allocation, handle);
	cn_slow_unlock(&space.mutex);
	return result;
}

/* Visit the mappings of a range: does it cut none in two? Gaps are fine. */
static CUresult check_whole_locked(CUdeviceptr address, size_t bytes)
{
	struct cn_memory memory;
	uint64_t at = address, end = address + bytes;

	if (!bytes || address % CN_GRANULARITY_BYTES || bytes % CN_GRANULARITY_BYTES ||
	    !is_reserved_locked(address, bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the %zu bytes at 0x%llx are not whole granules of reserved ranges", bytes, address);
	while (at < end && cn_registry_find_from(at, &memory) && memory.start < end) {
		if (memory.start < at || memory.start + memory.bytes > end)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"the %zu bytes at 0x%llx cut the mapping at 0x%" PRIx64 " in two", bytes,
					address, memory.start);
		at = memory.start + memory.bytes;
	}
	return CUDA_SUCCESS;
}

/* Undo one mapping; if its memory is to be freed, add it to the list. */
static CUresult unmap_locked(const struct cn_memory *memory, struct cn_physical **ret_physical)
{
	struct cn_allocation *allocation = cn_table_find(&allocations, (void *)(uintptr_t)memory->allocation);
	CUresult result = cn_host_range_unmap((void *)(uintptr_t)memory->start, memory->bytes);

	*ret_physical = NULL;
	if (result)
		return result;
	cn_registry_remove_mapping(memory->start);
	allocation->mapping_count--;
	*ret_physical = let_go_locked(allocation);
	return CUDA_SUCCESS;
}

CUresult host_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	struct cn_memory memory;
	uint64_t at = address;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	result = check_whole_locked(address, bytes);
	while (!result && at < address + bytes && cn_registry_find_from(at, &memory) &&
	       memory.start < address + bytes) {
		struct cn_physical *physical;
		result = unmap_locked(&memory, &physical);
		free_physical(physical);
		at = memory.start + memory.bytes;
	}
	cn_slow_unlock(&space.mutex);
	return result;
}

/* ---- Rights ---- */

struct rights {
	uint64_t readers, writers;
	unsigned int host;
};

static CUresult check_descriptions(const CUmemAccessDesc *descriptions, size_t count)
{
	if (!descriptions || !count)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s", descriptions ? "count is 0" : "desc is NULL");
	for (size_t i = 0; i < count; i++) {
		CUmemLocation location = descriptions[i].location;
		unsigned rights = (unsigned)descriptions[i].flags;
		if (rights != CU_MEM_ACCESS_FLAGS_PROT_NONE && rights != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    rights != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "access flags %u are unknown", rights);
		if (!cn_memory_location_is_host(location) && (location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
							      location.id < 0 || location.id >= cn_devices_count))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "there is no location of type %d with id %d",
					(int)location.type, location.id);
	}
	return CUDA_SUCCESS;
}

/* The rights that a mapping will have. */
static CUresult new_rights(const struct cn_memory *memory, const CUmemAccessDesc *descriptions, size_t count,
			   struct rights *ret_rights)
{
	struct rights rights = {memory->readers, memory->writers, memory->host_rights};

	for (size_t i = 0; i < count; i++) {
		unsigned flags = (unsigned)descriptions[i].flags;
		if (cn_memory_location_is_host(descriptions[i].location)) {
			if (!memory->on_host && flags)
				return cn_error(CUDA_ERROR_NOT_SUPPORTED,
						"the host cannot be given access to memory of a device");
			rights.host = memory->on_host ? flags : 0;
			continue;
		}
		uint64_t bit = 1ull << descriptions[i].location.id;
		rights.readers = flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? rights.readers | bit : rights.readers & ~bit;
		rights.writers =
			flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? rights.writers | bit : rights.writers & ~bit;
	}
	*ret_rights = rights;
	return CUDA_SUCCESS;
}

static CUresult protect(const struct cn_memory *memory, const struct rights *rights)
{
	/* Memory of another machine has no pages that could be touched, whatever its rights. */
	CUresult result =
		memory->remote
			? CUDA_SUCCESS
			: cn_host_range_protect((void *)(uintptr_t)memory->start, memory->bytes,
						rights->readers || rights->host,
						rights->writers || rights->host == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

	if (!result)
		cn_registry_set_rights(memory->start, rights->readers, rights->writers, rights->host);
	return result;
}

/* Is every granule of the range mapped, is no mapping cut, and can all of them be given what is asked? */
static CUresult check_access_locked(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descriptions,
				    size_t count)
{
	struct cn_memory memory;
	struct rights rights;
	CUresult result = check_whole_locked(address, bytes);

	for (uint64_t at = address; !result && at < address + bytes; at = memory.start + memory.bytes) {
		if (!cn_registry_find(at, &memory) || memory.kind != CN_MEMORY_MAPPED)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at 0x%" PRIx64, at);
		result = new_rights(&memory, descriptions, count, &rights);
	}
	return result;
}

CUresult host_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descriptions, size_t count)
{
	struct cn_memory memory;
	struct rights rights;
	CUresult result = cn_enter();

	if (!result)
		result = check_descriptions(descriptions, count);
	if (result)
		return result;
	cn_slow_lock(&space.mutex);
	result = check_access_locked(address, bytes, descriptions, count);
	for (uint64_t at = address; !result && at < address + bytes; at = memory.start + memory.bytes) {
		cn_registry_find(at, &memory);
		result = new_rights(&memory, descriptions, count, &rights);
		if (!result)
			result = protect(&memory, &rights);
	}
	cn_slow_unlock(&space.mutex);
	return result;
}

CUresult host_cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location, CUdeviceptr address)
{
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_registry_find(address, &memory);
	return cn_memory_get_access(&memory, location, address, ret_flags);
}
