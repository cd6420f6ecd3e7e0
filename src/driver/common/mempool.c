/* SPDX-License-Identifier: MIT */
/*
 * Pools: making them, their attributes, their access rights, and which pool a location allocates from.
 *
 * A pool's handle dies when the pool is destroyed. If it has blocks then, its record stays, because a block's facts are
 * its pool's. One mutex orders all changes of handles, rights and the pools of locations. It is never taken on the path
 * of an allocation or a free: those read one pointer, or one handle.
 *
 * Every location has a default pool for each type of memory, made when first asked for. The pinned ones of devices,
 * which cuMemAllocAsync() uses, are in an array; the others are in a short list.
 */
#include "driver/common/mempool.h"

#include <stdlib.h>
#include <string.h>

struct cn_table cn_mempools = CN_TABLE(CN_KIND_POOL, struct cn_mempool);

_Atomic bool cn_mempools_exist;
_Atomic unsigned cn_mempools_advised;
_Atomic(struct cn_mempool *) cn_mempools_current[CN_DEVICE_MAX];

/* A location that has pools of a type. */
struct place {
	struct place *next;
	CUmemAllocationType type;
	CUmemLocation location;
	struct cn_mempool *own; /* the default one; NULL: not asked for yet */
	_Atomic(struct cn_mempool *) *current;
	_Atomic(struct cn_mempool *) current_here; /* where `current` leads to, unless it is cuMemAllocAsync()'s */
};

static struct {
	CN_SLOW_LOCK(MEMPOOLS) mutex;
	struct place *places;
} pools;

/* Larger than any useful limit: half of the addresses that a process has. */
#define MAX_SIZE_LIMIT ((size_t)1 << 46)

#define ANY_TYPE CU_MEM_ALLOCATION_TYPE_MAX

enum { FABRIC_OR_POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC };

CUresult cn_mempool_get(CUmemoryPool handle, struct cn_mempool **ret_pool)
{
	struct cn_mempool *pool = cn_table_find(&cn_mempools, handle);

	if (!pool)
		return handle ? cn_error(CUDA_ERROR_INVALID_VALUE, "%p is not a live pool", (void *)handle)
			      : cn_error(CUDA_ERROR_INVALID_VALUE, "the pool is NULL");
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult cn_mempool_get_own(CUmemoryPool handle, struct cn_mempool **ret_pool)
{
	CUresult result = cn_mempool_get(handle, ret_pool);

	if (!result && (*ret_pool)->import)
		result = cn_error(CUDA_ERROR_INVALID_VALUE,
				  "the pool belongs to another process: only its exporter can do that");
	return result;
}

/* ---- Making ---- */

/* Normalize a location for memory of a type, and find the device whose memory is there. */
static CUresult check_location(CUmemAllocationType type, CUmemLocation location, CUmemLocation *ret_location,
			       struct cn_device **ret_device)
{
	bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;

	*ret_device = NULL;
	switch ((int)location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (location.id < 0 || location.id >= cn_devices_count)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "there is no device %d: the last is %d", location.id,
					cn_devices_count - 1);
		*ret_device = managed ? NULL : &cn_devices[location.id];
		break;
	case CU_MEM_LOCATION_TYPE_HOST: location.id = 0; break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		if (!cn_device_has_node(location.id))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "this machine has no NUMA node %d", location.id);
		break;
	case CU_MEM_LOCATION_TYPE_NONE:
		if (!managed)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"location.type is not set: CU_MEM_LOCATION_TYPE_DEVICE, for example");
		location.id = CU_DEVICE_INVALID;
		break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"a pool needs a certain NUMA node: CU_MEM_LOCATION_TYPE_HOST_NUMA and its number");
	default:
		return cn_error(managed ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
				"a pool cannot have location type %d", (int)location.type);
	}
	*ret_location = location;
	return CUDA_SUCCESS;
}

/* Do the devices have pools of such memory there? */
static CUresult check_support(CUmemAllocationType type, CUmemLocation location, const struct cn_device *device)
{
	CUresult result = CUDA_SUCCESS;

	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
		for (int i = 0; i < cn_devices_count && !result; i++)
			result = cn_devices_check(&cn_devices[i], CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
						  "managed memory that the host can use at the same time");
		return result ? result
			      : cn_devices_check(&cn_devices[0], CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
						 "memory pools");
	}
	if (device)
		return cn_devices_check(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
	return cn_devices_check(&cn_devices[0],
				location.type == CU_MEM_LOCATION_TYPE_HOST
					? CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
					: CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
				"memory pools of the host's memory");
}

static CUresult check_handle_types(const CUmemPoolProps *properties)
{
	unsigned types = (unsigned)properties->handleTypes;

	if (types & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"Win32 handles are for Windows; on Linux, use a file descriptor");
	if (types & ~(unsigned)FABRIC_OR_POSIX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "handle types 0x%x are unknown", types);
	if (types && properties->location.type == CU_MEM_LOCATION_TYPE_HOST)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"a pool in host memory without a NUMA node cannot be shared: use "
				"CU_MEM_LOCATION_TYPE_HOST_NUMA");
	return CUDA_SUCCESS;
}

/* Can pools be shared in this way? Whether this process may is checked when one is exported. */
static CUresult check_sharing(unsigned types)
{
	int supported = 0;
	CUresult result =
		types ? cn_device_ops->attribute(&cn_devices[0], CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
						 &supported)
		      : CUDA_SUCCESS;

	if (!result && types & ~(unsigned)supported)
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED,
				  "device 0 has no memory pools that can be shared by handle types 0x%x", types);
	return result;
}

static CUresult check_managed(const CUmemPoolProps *properties)
{
	if (properties->handleTypes)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"a managed pool cannot be shared: its handle types must be 0");
	if (properties->maxSize)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a managed pool has no maximum size: maxSize must be 0");
	if (properties->usage)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"hardware does not decompress into managed memory: usage must be 0");
	return CUDA_SUCCESS;
}

/* On the host, the driver rounds the largest number up to 0, which sets no limit. */
static bool is_unlimited_host(const CUmemPoolProps *properties)
{
	return properties->maxSize == SIZE_MAX && cn_memory_location_is_host(properties->location);
}

static CUresult check_properties(const CUmemPoolProps *properties)
{
	static const unsigned char zeros[sizeof properties->reserved];

	if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED &&
	    properties->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "allocType is %d; a pool takes CU_MEM_ALLOCATION_TYPE_PINNED",
				(int)properties->allocType);
	if (memcmp(properties->reserved, zeros, sizeof zeros) != 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "reserved bytes of the properties are not 0");
	if (properties->maxSize >= MAX_SIZE_LIMIT && !is_unlimited_host(properties))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "not enough address space for a pool of %zu bytes",
				properties->maxSize);
	/*
	 * The driver takes any usage, also where nothing can decompress: it is a hint. Security is for Win32 handles.
	 */
	CUresult result = check_handle_types(properties);
	if (!result && properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		result = check_managed(properties);
	return result;
}

/* Records of destroyed pools stay while their blocks live: they hold the blocks' facts. */
static void give_ended(void)
{
	for (void *ended; (ended = cn_pool_take_ended());)
		cn_table_give(&cn_mempools, ended);
	for (void *ended; (ended = cn_import_take_ended());)
		cn_table_give(&cn_mempools, ended);
}

struct cn_mempool *cn_mempool_take_record(void)
{
	give_ended();
	struct cn_mempool *pool = cn_table_take(&cn_mempools);
	if (pool) {
		atomic_store(&pool->export, NULL);
		atomic_store(&pool->import, NULL);
		pool->fabric = NULL;
	}
	return pool;
}

void cn_mempool_give_record(struct cn_mempool *pool)
{
	cn_table_give(&cn_mempools, pool);
}

void cn_mempools_go_on_gpu(void)
{
	cn_mempools.kind = CN_KIND_POOL_ON_GPU;
}

static uint64_t publish(struct cn_mempool *pool)
{
	pool->handle = cn_table_publish(&cn_mempools, pool);
	atomic_store(&cn_mempools_exist, true);
	return pool->handle;
}

/* The properties have been checked; the location is normalized. */
static CUresult make_pool(CUmemAllocationType type, CUmemLocation location, struct cn_device *device,
			  unsigned int handle_types, size_t max_bytes, bool is_default, struct cn_mempool **ret_pool)
{
	struct cn_mempool *pool = cn_mempool_take_record();

	if (!pool)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's record");
	pool->device = device;
	pool->type = type;
	pool->location = location;
	pool->handle_types = handle_types;
	pool->is_default = is_default;
	pool->users = device ? 1ull << device->ordinal : 0;
	pool->host_uses = !device && type != CU_MEM_ALLOCATION_TYPE_MANAGED;
	struct cn_pool_options options = {
		.device = device,
		.node = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? location.id : -1,
		.max_bytes = max_bytes,
		.shareable = handle_types != 0,
		.users = {.devices = pool->users, .host = pool->host_uses},
		.owner = pool,
	};
	struct cn_pool *made;
	CUresult result = cn_pool_create(&options, &made);
	if (result) {
		cn_table_give(&cn_mempools, pool);
		return result;
	}
	pool->pool = made;
	publish(pool);
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

uint64_t cn_mempool_publish_import(struct cn_mempool *pool)
{
	uint64_t handle = 0;

	cn_slow_lock(&pools.mutex);
	for (uint32_t i = 0, count = atomic_load(&cn_mempools.count); i < count && !handle; i++) {
		struct cn_mempool *other = cn_table_slot(&cn_mempools, i);
		if (cn_object_handle(other) && other->import && cn_import_is_same(other->import, pool->import)) {
			other->import_count++;
			handle = cn_object_handle(other);
		}
	}
	if (!handle) {
		pool->import_count = 1;
		handle = publish(pool);
		pool = NULL;
	}
	cn_slow_unlock(&pools.mutex);
	if (pool)
		cn_import_close(pool->import); /* when it ends, the record is given back */
	return handle;
}

CUresult own_cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *properties)
{
	struct cn_device *device = NULL;
	struct cn_mempool *pool;
	CUmemLocation location = {0};
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_pool || !properties)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_pool ? "poolProps" : "pool");
	result = check_properties(properties);
	if (!result)
		result = check_location(properties->allocType, properties->location, &location, &device);
	if (!result)
		result = check_support(properties->allocType, location, device);
	if (!result)
		result = check_sharing((unsigned)properties->handleTypes);
	if (!result)
		result = make_pool(properties->allocType, location, device, (unsigned)properties->handleTypes,
				   is_unlimited_host(properties) ? 0 : properties->maxSize, false, &pool);
	if (!result)
		*ret_pool = (CUmemoryPool)(uintptr_t)cn_object_handle(pool);
	return result;
}

/* ---- The end of a pool ---- */

CUresult own_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct cn_mempool *pool;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_slow_lock(&pools.mutex);
	result = cn_mempool_get(handle, &pool);
	if (!result && pool->is_default)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "a default pool cannot be destroyed");
	else if (!result && pool->import && cn_import_is_used(pool->import))
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "blocks imported from the pool are not freed yet");
	if (result) {
		cn_slow_unlock(&pools.mutex);
		return result;
	}
	if (pool->import && --pool->import_count) {
		cn_slow_unlock(&pools.mutex);
		return CUDA_SUCCESS;
	}
	cn_table_retire(pool, (uintptr_t)handle);
	for (struct place *place = pools.places; place; place = place->next)
		if (atomic_load(place->current) == pool)
			atomic_store(place->current, place->own);
	cn_slow_unlock(&pools.mutex);
	cn_mempool_close_shared(pool);
	if (pool->import)
		cn_import_close(pool->import);
	else
		cn_pool_destroy(pool->pool);
	give_ended();
	return CUDA_SUCCESS;
}

CUresult own_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
	struct cn_mempool *pool;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (!result)
		cn_mempool_look_again(pool);
	if (!result)
		cn_pool_trim(pool->pool, keep_bytes);
	return result;
}

/* ---- Attributes ---- */

static unsigned policy_of(CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return CN_POOL_FOLLOW_EVENTS;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return CN_POOL_OPPORTUNISTIC;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return CN_POOL_INTERNAL_DEPENDENCIES;
	default: return 0;
	}
}

static CUresult enter_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value,
				struct cn_mempool **ret_pool)
{
	CUresult result = cn_given(cn_mempool_enter_own(handle, ret_pool), value, "value");

	if (result)
		return result;
	if ((int)attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
	    (int)attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of a pool", (int)attribute);
	return CUDA_SUCCESS;
}

CUresult own_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *ret_value)
{
	struct cn_mempool *pool;
	struct cn_pool_statistics numbers;
	cuuint64_t value = 0;
	CUresult result = enter_attribute(handle, attribute, ret_value, &pool);

	if (result)
		return result;
	if (policy_of(attribute)) {
		int on = (cn_pool_policies(pool->pool) & policy_of(attribute)) != 0;
		memcpy(ret_value, &on, sizeof on);
		return CUDA_SUCCESS;
	}
	cn_mempool_look_again(pool);
	cn_pool_usage(pool->pool, &numbers);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: value = cn_pool_threshold(pool->pool); break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: value = numbers.reserved_bytes; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: value = numbers.reserved_high_bytes; break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: value = numbers.used_bytes; break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH: value = numbers.used_high_bytes; break;
	}
	memcpy(ret_value, &value, sizeof value);
	return CUDA_SUCCESS;
}

static void set_policy(struct cn_mempool *pool, unsigned policy, bool on)
{
	cn_slow_lock(&pools.mutex);
	unsigned policies = cn_pool_policies(pool->pool);
	cn_pool_set_policies(pool->pool, on ? policies | policy : policies & ~policy);
	cn_slow_unlock(&pools.mutex);
}

CUresult own_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct cn_mempool *pool;
	cuuint64_t bytes;
	int on;
	CUresult result = enter_attribute(handle, attribute, value, &pool);

	if (result)
		return result;
	if (policy_of(attribute)) {
		memcpy(&on, value, sizeof on);
		set_policy(pool, policy_of(attribute), on);
		return CUDA_SUCCESS;
	}
	if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "attribute %d is read only", (int)attribute);
	memcpy(&bytes, value, sizeof bytes);
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		cn_pool_set_threshold(pool->pool, bytes);
		return CUDA_SUCCESS;
	}
	if (bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a high-water mark can only be set to 0");
	cn_pool_reset_high_water(pool->pool, attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
				 attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
	return CUDA_SUCCESS;
}

/* ---- Rights ----
 *
 * All or none: the driver has no pools that can only be read.
 */

struct rights {
	uint64_t users;
	bool host;
};

static CUresult change_host_rights(const struct cn_mempool *pool, bool allow, struct rights *rights)
{
	if (pool->device)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host cannot be given access to memory of a device");
	if (!allow && pool->type != CU_MEM_ALLOCATION_TYPE_MANAGED)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host always has access to its own memory");
	rights->host = allow;
	return CUDA_SUCCESS;
}

/*
 * Not in the log: programs that take away the rights of all devices before they destroy a pool, as cuda.core does, get
 * this answer each time and rightly ignore it.
 */
static CUresult refuse_own_device(int id)
{
	cn_error_hush(true);
	CUresult result =
		cn_error(CUDA_ERROR_INVALID_DEVICE, "the pool is of device %d, which always has access to it", id);
	cn_error_hush(false);
	return result;
}

static CUresult change_device_rights(const struct cn_mempool *pool, int id, bool allow, struct rights *rights)
{
	if (id < 0 || id >= cn_devices_count)
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "there is no device %d: the last is %d", id,
				cn_devices_count - 1);
	const struct cn_device *device = &cn_devices[id];
	if (device == pool->device && !allow)
		return refuse_own_device(id);
	if (allow && pool->device && device != pool->device && !cn_device_ops->peers(device, pool->device))
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "device %d cannot reach the memory of device %d", id,
				pool->device->ordinal);
	rights->users = allow ? rights->users | 1ull << id : rights->users & ~(1ull << id);
	return CUDA_SUCCESS;
}

static CUresult change_rights(const struct cn_mempool *pool, const CUmemAccessDesc *description, struct rights *rights)
{
	CUmemLocation location = description->location;
	unsigned flags = (unsigned)description->flags;
	bool allow = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

	if (pool->import && pool->device && cn_memory_location_is_host(location))
		return change_host_rights(pool, allow, rights);
	if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"a pool cannot be read-only: CU_MEM_ACCESS_FLAGS_PROT_READ is not supported");
	bool on_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	bool known = !on_device || (location.id >= 0 && location.id < cn_devices_count);
	if (!allow && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && (known || !pool->import))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "access flags %u are unknown", flags);
	if (on_device)
		return change_device_rights(pool, location.id, allow, rights);
	if (cn_memory_location_is_host(location))
		return change_host_rights(pool, allow, rights);
	return cn_error(pool->device ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
			"access cannot be given to location type %d: set location.type to CU_MEM_LOCATION_TYPE_DEVICE",
			(int)location.type);
}

CUresult own_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *descriptions, size_t count)
{
	struct cn_mempool *pool;
	CUresult result = cn_given(cn_enter(), descriptions, "map");

	if (result)
		return result;
	cn_slow_lock(&pools.mutex);
	result = cn_mempool_get(handle, &pool);
	struct rights rights = {0};
	if (!result)
		rights = (struct rights){pool->users, pool->host_uses};
	for (size_t i = 0; i < count && !result; i++)
		result = change_rights(pool, &descriptions[i], &rights);
	if (!result) {
		struct cn_users wanted = {.devices = rights.users, .host = rights.host};
		result = pool->import ? cn_import_allow(pool->import, wanted) : cn_pool_allow(pool->pool, wanted);
	}
	if (!result) {
		atomic_store(&pool->users, rights.users);
		atomic_store(&pool->host_uses, rights.host);
	}
	cn_slow_unlock(&pools.mutex);
	return result;
}

CUresult own_cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool handle, CUmemLocation *location)
{
	struct cn_mempool *pool;
	bool allowed;
	CUresult result = cn_enter();

	if (!result)
		result = cn_mempool_get(handle, &pool);
	if (result)
		return result;
	if (!ret_flags || !location)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_flags ? "location" : "flags");
	if (cn_memory_location_is_host(*location))
		allowed = atomic_load(&pool->host_uses);
	else if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < cn_devices_count)
		allowed = atomic_load(&pool->users) >> location->id & 1;
	else
		return cn_error(CUDA_ERROR_INVALID_VALUE, "there is no location of type %d with id %d",
				(int)location->type, location->id);
	*ret_flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

/* ---- The pools of locations ---- */

static CUresult find_place_locked(CUmemAllocationType type, CUmemLocation location, const struct cn_device *device,
				  struct place **ret_place)
{
	struct place *place;

	for (place = pools.places; place; place = place->next)
		if (place->type == type && place->location.type == location.type && place->location.id == location.id)
			break;
	if (!place) {
		place = calloc(1, sizeof *place);
		if (!place)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the pools of a location");
		place->type = type;
		place->location = location;
		place->current = device ? &cn_mempools_current[device->ordinal] : &place->current_here;
		place->next = pools.places;
		pools.places = place;
	}
	*ret_place = place;
	return CUDA_SUCCESS;
}

/* The location's entry, with its default pool made. */
static CUresult open_place_locked(CUmemAllocationType type, CUmemLocation location, struct cn_device *device,
				  struct place **ret_place)
{
	struct place *place;
	CUresult result = find_place_locked(type, location, device, &place);

	if (!result && !place->own)
		result = check_support(type, location, device);
	if (!result && !place->own)
		result = make_pool(type, location, device, 0, 0, true, &place->own);
	if (result)
		return result;
	if (!atomic_load(place->current))
		atomic_store(place->current, place->own);
	*ret_place = place;
	return CUDA_SUCCESS;
}

static CUresult check_place(const CUmemLocation *given, CUmemAllocationType type, CUmemLocation *ret_location,
			    struct cn_device **ret_device)
{
	if (!given)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "location is NULL");
	if ((unsigned)given->type > CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "location type %d has no pools", (int)given->type);
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "there are no pools of allocation type %d", (int)type);
	return check_location(type, *given, ret_location, ret_device);
}

enum which { THE_DEFAULT, THE_CURRENT };

static CUresult get_pool(CUmemoryPool *ret_pool, const CUmemLocation *given, CUmemAllocationType type, enum which which)
{
	struct cn_device *device;
	CUmemLocation location;
	struct place *place;
	CUresult result = cn_given(cn_enter(), ret_pool, "pool");

	if (result)
		return result;
	result = check_place(given, type, &location, &device);
	if (result)
		return result;
	cn_slow_lock(&pools.mutex);
	result = open_place_locked(type, location, device, &place);
	if (!result) {
		struct cn_mempool *pool = which == THE_DEFAULT ? place->own : atomic_load(place->current);
		*ret_pool = (CUmemoryPool)(uintptr_t)cn_object_handle(pool);
	}
	cn_slow_unlock(&pools.mutex);
	return result;
}

/* `type` ANY_TYPE: the pool's own. */
static CUresult set_pool(const CUmemLocation *given, CUmemAllocationType type, CUmemoryPool handle)
{
	struct cn_device *device = NULL;
	struct cn_mempool *pool;
	CUmemLocation location = {0};
	struct place *place;
	CUresult result = cn_enter();

	if (result)
		return result;
	cn_slow_lock(&pools.mutex);
	result = cn_mempool_get_own(handle, &pool);
	if (!result && type == ANY_TYPE)
		type = pool->type;
	if (!result)
		result = check_place(given, type, &location, &device);
	if (!result && (pool->type != type || pool->location.type != location.type || pool->location.id != location.id))
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has another location or another type");
	if (!result)
		result = find_place_locked(type, location, device, &place);
	if (!result)
		atomic_store(place->current, pool);
	cn_slow_unlock(&pools.mutex);
	return result;
}

CUresult cn_mempool_find_current(struct cn_device *device, struct cn_mempool **ret_pool)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
	struct place *place;

	cn_slow_lock(&pools.mutex);
	CUresult result = open_place_locked(CU_MEM_ALLOCATION_TYPE_PINNED, location, device, &place);
	if (!result)
		*ret_pool = atomic_load(place->current);
	cn_slow_unlock(&pools.mutex);
	return result;
}

CUresult own_cuMemGetDefaultMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type)
{
	return get_pool(ret_pool, location, type, THE_DEFAULT);
}

CUresult own_cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type)
{
	return get_pool(ret_pool, location, type, THE_CURRENT);
}

CUresult own_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return set_pool(location, type, pool);
}

CUresult own_cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	struct cn_device *found;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(device, &found);
	return result ? result : get_pool(ret_pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED, THE_DEFAULT);
}

CUresult own_cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	return get_pool(ret_pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED, THE_CURRENT);
}

CUresult own_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	return set_pool(&location, ANY_TYPE, pool);
}
