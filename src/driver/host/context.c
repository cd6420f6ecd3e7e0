/* SPDX-License-Identifier: MIT */
/*
 * Contexts: created ones and each device's primary one, and every thread's stack of them.
 *
 * A context owns its streams, events, modules and memory. When it ends, its work is waited for, they end with it, and
 * their handles answer with an error from then on. A primary context has one record and one handle for the life of the
 * process: it is active while it is retained.
 *
 * A thread keeps handles, not pointers, on its stack: so it notices when another thread has destroyed a context.
 */
#include "driver/common/mempool.h"
#include "driver/common/private_calls.h"
#include "driver/host/objects.h"

#include <pthread.h>
#include <stdlib.h>

struct cn_table cn_contexts = CN_TABLE(CN_KIND_CONTEXT, struct cn_context);

enum {
	STACK_FIRST = 8,
	API_VERSION = 3020,
	/* What a context's flags can be changed to later; others are accepted and dropped, as by the driver. */
	FLAGS_LASTING = CU_CTX_SCHED_MASK | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS,
};

static struct {
	CN_SLOW_LOCK(PRIMARY) mutex; /* held while a primary context is made or taken down */
	struct cn_context *context;
	unsigned int reference_count;
	unsigned int flags;
} primaries[CN_DEVICE_MAX];

_Thread_local struct cn_context_thread cn_context_thread;

static _Atomic unsigned long long next_id = 1;
static pthread_key_t thread_key;
static bool has_thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

/* Called when a thread ends. */
static void end_thread(void *unused)
{
	(void)unused;
	if (atomic_load(&cn_ready) == 1) /* a forked child leaves the parent's streams, and their locks, alone */
		cn_streams_thread_end();
	free(cn_context_thread.stack);
	cn_context_thread.stack = NULL;
	cn_context_thread.depth = cn_context_thread.room = 0;
}

static void make_thread_key(void)
{
	has_thread_key = pthread_key_create(&thread_key, end_thread) == 0;
}

CUresult cn_context_thread_keep(void)
{
	pthread_once(&thread_key_once, make_thread_key);
	if (!has_thread_key || pthread_setspecific(thread_key, &cn_context_thread))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a thread's record");
	return CUDA_SUCCESS;
}

/* False: it is not the handle of a context. */
static inline bool find(uint64_t handle, struct cn_home *ret_home)
{
	struct cn_context *context = cn_table_find(&cn_contexts, (void *)(uintptr_t)handle);

	if (!context)
		return false;
	ret_home->context = context;
	ret_home->life = atomic_load_explicit(&context->life, memory_order_acquire);
	ret_home->device = atomic_load_explicit(&context->device, memory_order_acquire);
	return cn_object_handle(context) == handle; /* so they belong to the handle */
}

/* The context of a handle; `gone`: the code if there is none. Its life is 0 if it cannot be used. */
static CUresult find_or(CUcontext handle, CUresult gone, struct cn_home *ret_home)
{
	if (!handle)
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "the context is NULL");
	if (!find((uintptr_t)handle, ret_home))
		return cn_error(gone, "%p is not a live context", (void *)handle);
	return CUDA_SUCCESS;
}

static CUresult find_context(CUcontext handle, struct cn_home *ret_home)
{
	return find_or(handle, CUDA_ERROR_INVALID_CONTEXT, ret_home);
}

CUresult cn_context_enter(struct cn_home *ret_home)
{
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!cn_context_thread.depth || !cn_context_thread.stack[cn_context_thread.depth - 1])
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
	if (!find(cn_context_thread.stack[cn_context_thread.depth - 1], ret_home) || !ret_home->life)
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED,
				"the context that was current in this thread was destroyed");
	return CUDA_SUCCESS;
}

bool cn_context_lives(void)
{
	if (!cn_enter_allowed() || !cn_context_thread.depth)
		return false;
	uint64_t handle = cn_context_thread.stack[cn_context_thread.depth - 1];
	const struct cn_context *context = cn_table_find(&cn_contexts, (void *)(uintptr_t)handle);
	return context && atomic_load_explicit(&context->life, memory_order_relaxed);
}

CUresult cn_home_check(const struct cn_home *home)
{
	if (cn_home_stands(home))
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
}

CUresult cn_home_lock(const struct cn_home *home)
{
	cn_lock(&home->context->lock);
	CUresult result = cn_home_check(home);
	if (result)
		cn_unlock(&home->context->lock);
	return result;
}

CUresult cn_context_has_handles(const struct cn_device *device)
{
	int supported = 0;
	CUresult result = cn_device_ops->attribute(device, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &supported);

	if (result || supported)
		return result;
	return cn_error(CUDA_ERROR_NOT_SUPPORTED,
			"device %d shares nothing by handles (CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)",
			device->ordinal);
}

/* The device's primary context if it is active, else NULL. */
static struct cn_context *active_primary(const struct cn_device *device)
{
	struct cn_context *context = primaries[device->ordinal].context;

	return context && atomic_load(&context->life) ? context : NULL;
}

/* Make a context usable. Its record is new, or one that was taken down. */
static void activate(struct cn_context *context, struct cn_device *device, unsigned int flags)
{
	uint64_t life = atomic_fetch_add(&next_id, 1);

	atomic_store(&context->flags, flags);
	atomic_store(&context->peers, 0);
	cn_limits_reset(context);
	if (!context->group.legacy)
		context->group.legacy = &context->legacy.queue;
	context->legacy.context = context;
	context->legacy.device = device->ordinal;
	context->legacy.flags = CU_STREAM_DEFAULT;
	context->legacy.priority = 0;
	context->legacy.id = cn_stream_next_id();
	cn_host_queue_open(&context->legacy.queue, &context->group, life);
	context->device = device;
	atomic_store(&context->life, life);
}

/* Wait for a context's work and take everything in it down. */
static void deactivate(struct cn_context *context)
{
	struct cn_home home = {.context = context};

	/* Close first, then wait: no thread can submit work that would use memory that is gone. */
	cn_lock(&context->lock);
	atomic_store(&context->life, 0);
	cn_unlock(&context->lock);
	cn_streams_destroy(context);
	cn_host_queue_close(&context->legacy.queue);
	cn_context_drain(&home); /* its stream has already reported a failure */
	cn_events_destroy(context);
	cn_modules_unload(context);
	cn_registry_release(context);
	/* The last operation may still be leaving the queue. */
	while (!cn_host_queue_drained(&context->legacy.queue))
		cn_cpu_relax();
}

static CUresult push(uint64_t handle)
{
	if (cn_context_thread.depth == cn_context_thread.room) {
		unsigned room = cn_context_thread.room ? 2 * cn_context_thread.room : STACK_FIRST;
		uint64_t *stack = realloc(cn_context_thread.stack, room * sizeof *stack);
		if (!stack)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the thread's stack of contexts");
		cn_context_thread.stack = stack;
		cn_context_thread.room = room;
		CUresult result = cn_context_thread_keep();
		if (result)
			return result;
	}
	cn_context_thread.stack[cn_context_thread.depth++] = handle;
	return CUDA_SUCCESS;
}

CUresult cn_context_check_flags(unsigned int flags)
{
	unsigned int schedule = flags & CU_CTX_SCHED_MASK;

	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "context flags 0x%x are unknown",
				flags & ~(unsigned)CU_CTX_FLAGS_MASK);
	if (schedule & (schedule - 1))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "context flags 0x%x have two scheduling policies", flags);
	return CUDA_SUCCESS;
}

CUresult cn_context_check(const CUcontext *ret_context, unsigned int flags, CUdevice ordinal,
			  struct cn_device **ret_device)
{
	CUresult result = cn_given(cn_enter(), ret_context, "pctx");

	if (result)
		return result;
	result = cn_devices_find(ordinal, ret_device);
	return result ? result : cn_context_check_flags(flags);
}

CUresult host_cuCtxCreate_v4(CUcontext *ret_context, CUctxCreateParams *params, unsigned int flags, CUdevice ordinal)
{
	struct cn_device *device = NULL;
	CUresult result = cn_context_check(ret_context, flags, ordinal, &device);

	if (result)
		return result;
	if (params && (params->numExecAffinityParams || params->cigParams))
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the host device has no execution affinity and no graphics contexts");

	struct cn_context *context = cn_table_take(&cn_contexts);
	if (!context)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a context");
	activate(context, device, flags);
	uint64_t handle = cn_table_publish(&cn_contexts, context);
	result = push(handle);
	if (result) {
		cn_table_retire(context, handle);
		deactivate(context);
		cn_table_give(&cn_contexts, context);
		return result;
	}
	*ret_context = (CUcontext)(uintptr_t)handle;
	return CUDA_SUCCESS;
}

/* The context that a call must name. */
static CUresult enter_named(CUcontext handle, struct cn_home *ret_home)
{
	return cn_given(cn_enter(), handle, "ctx") ?: find_context(handle, ret_home);
}

CUresult host_cuCtxDestroy_v2(CUcontext handle)
{
	struct cn_home home;
	CUresult result = enter_named(handle, &home);

	if (result)
		return result;
	if (home.context->primary)
		return cn_error(CUDA_ERROR_INVALID_CONTEXT,
				"a primary context cannot be destroyed: release it with cuDevicePrimaryCtxRelease()");
	if (!cn_table_retire(home.context, (uintptr_t)handle))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "another thread has destroyed the context");
	if (cn_context_thread.depth && cn_context_thread.stack[cn_context_thread.depth - 1] == (uintptr_t)handle)
		cn_context_thread.depth--;
	deactivate(home.context);
	cn_table_give(&cn_contexts, home.context);
	return CUDA_SUCCESS;
}

CUresult host_cuCtxPushCurrent_v2(CUcontext handle)
{
	struct cn_home home;
	return enter_named(handle, &home) ?: push((uintptr_t)handle);
}

CUresult host_cuCtxPopCurrent_v2(CUcontext *ret_context)
{
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!cn_context_thread.depth)
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "this thread's stack of contexts is empty");
	cn_context_thread.depth--;
	if (ret_context)
		*ret_context = (CUcontext)(uintptr_t)cn_context_thread.stack[cn_context_thread.depth];
	return CUDA_SUCCESS;
}

CUresult host_cuCtxSetCurrent(CUcontext handle)
{
	struct cn_home home;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!handle) {
		if (cn_context_thread.depth)
			cn_context_thread.depth--;
		return CUDA_SUCCESS;
	}
	result = find_context(handle, &home);
	if (result)
		return result;
	if (!cn_context_thread.depth)
		return push((uintptr_t)handle);
	cn_context_thread.stack[cn_context_thread.depth - 1] = (uintptr_t)handle;
	return CUDA_SUCCESS;
}

CUresult host_cuCtxGetCurrent(CUcontext *ret_context)
{
	CUresult result = cn_given(cn_enter(), ret_context, "pctx");

	if (!result)
		*ret_context = cn_context_thread.depth
				       ? (CUcontext)(uintptr_t)cn_context_thread.stack[cn_context_thread.depth - 1]
				       : NULL;
	return result;
}

CUresult host_cuCtxGetDevice(CUdevice *ret_device)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_device, "device");

	if (!result)
		*ret_device = home.device->ordinal;
	return result;
}

CUresult host_cuCtxGetFlags(unsigned int *ret_flags)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_flags, "flags");

	if (result)
		return result;
	unsigned int flags = atomic_load(&home.context->flags);
	result = cn_home_check(&home);
	if (!result)
		*ret_flags = flags | (home.context->primary ? CU_CTX_MAP_HOST : 0);
	return result;
}

CUresult host_cuCtxSetFlags(unsigned int flags)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = cn_context_check_flags(flags);
	if (!result)
		result = cn_home_lock(&home);
	if (result)
		return result;
	atomic_store(&home.context->flags, flags & FLAGS_LASTING);
	cn_unlock(&home.context->lock);
	return CUDA_SUCCESS;
}

CUresult cn_context_given(CUcontext handle, CUresult gone, struct cn_home *ret_home)
{
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!handle)
		return cn_context_enter(ret_home);
	result = find_or(handle, gone, ret_home);
	if (!result && !ret_home->life)
		result = cn_error(gone, "the primary context is not retained");
	return result;
}

CUresult host_cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_given(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &home), ret_id, "ctxId");

	if (!result)
		*ret_id = home.life;
	return result;
}

CUresult host_cuCtxGetApiVersion(CUcontext handle, unsigned int *ret_version)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_given(handle, CUDA_ERROR_INVALID_CONTEXT, &home), ret_version, "version");

	if (!result)
		*ret_version = API_VERSION;
	return result;
}

CUresult host_cuCtxSynchronize(void)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = cn_context_wait(&home);
	if (!result)
		cn_streams_settle(home.context, true);
	return result;
}

CUresult host_cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned int flags)
{
	struct cn_home home, peer;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuCtxEnablePeerAccess takes no flags: they must be 0, not 0x%x", flags);
	result = find_or(peer_handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &peer);
	if (result)
		return result;
	if (peer.device == home.device)
		return cn_error(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "both contexts are on device %d",
				peer.device->ordinal);
	if (!cn_device_ops->peers(home.device, peer.device))
		return cn_error(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
				"devices %d and %d cannot access each other's memory", home.device->ordinal,
				peer.device->ordinal);
	result = cn_home_lock(&home);
	if (result)
		return result;
	uint64_t mask = 1ull << peer.device->ordinal, before = atomic_fetch_or(&home.context->peers, mask);
	cn_unlock(&home.context->lock);
	if (before & mask)
		return cn_error(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "access to device %d is already enabled",
				peer.device->ordinal);
	return CUDA_SUCCESS;
}

CUresult host_cuCtxDisablePeerAccess(CUcontext peer_handle)
{
	struct cn_home home, peer;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = find_or(peer_handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &peer);
	if (!result)
		result = cn_home_lock(&home);
	if (result)
		return result;
	uint64_t mask = 1ull << peer.device->ordinal, before = atomic_fetch_and(&home.context->peers, ~mask);
	cn_unlock(&home.context->lock);
	if (!(before & mask))
		return cn_error(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "access to device %d was not enabled",
				peer.device->ordinal);
	return CUDA_SUCCESS;
}

/* The record of a device's primary context, made when first needed. Its mutex is held. */
static CUresult primary_record(struct cn_device *device, struct cn_context **ret_context)
{
	struct cn_context *context = primaries[device->ordinal].context;

	if (!context) {
		context = cn_table_take(&cn_contexts);
		if (!context)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a context");
		context->primary = true;
		context->device = device;
		cn_table_publish(&cn_contexts, context);
		primaries[device->ordinal].context = context;
	}
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult host_cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice ordinal)
{
	struct cn_context *context;
	struct cn_device *device = NULL;
	CUresult result = cn_given(cn_enter(), ret_context, "pctx");

	if (result)
		return result;
	result = cn_devices_find(ordinal, &device);
	if (result)
		return result;

	cn_slow_lock(&primaries[ordinal].mutex);
	result = primary_record(device, &context);
	if (!result) {
		primaries[ordinal].reference_count++;
		if (!atomic_load(&context->life))
			activate(context, device, primaries[ordinal].flags);
		*ret_context = (CUcontext)(uintptr_t)cn_object_handle(context);
	}
	cn_slow_unlock(&primaries[ordinal].mutex);
	return result;
}

/* End a device's primary context, if it is active. Its mutex is held. */
static void take_down(const struct cn_device *device)
{
	if (active_primary(device))
		deactivate(primaries[device->ordinal].context);
	primaries[device->ordinal].flags = 0;
}

CUresult host_cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
	struct cn_device *device = NULL;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (result)
		return result;

	cn_slow_lock(&primaries[ordinal].mutex);
	if (!primaries[ordinal].reference_count)
		result = cn_error(CUDA_ERROR_INVALID_CONTEXT, "the primary context of device %d is not retained",
				  ordinal);
	else if (--primaries[ordinal].reference_count == 0)
		take_down(&cn_devices[ordinal]);
	cn_slow_unlock(&primaries[ordinal].mutex);
	return result;
}

CUresult host_cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
	struct cn_device *device = NULL;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (result)
		return result;

	cn_slow_lock(&primaries[ordinal].mutex);
	take_down(device); /* it stays retained */
	cn_slow_unlock(&primaries[ordinal].mutex);
	return CUDA_SUCCESS;
}

CUresult host_cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *ret_flags, int *ret_active)
{
	struct cn_device *device = NULL;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (result)
		return result;
	if (!ret_flags || !ret_active)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_flags ? "active" : "flags");

	cn_slow_lock(&primaries[ordinal].mutex);
	*ret_flags = primaries[ordinal].flags;
	*ret_active = active_primary(device) != NULL;
	cn_slow_unlock(&primaries[ordinal].mutex);
	return CUDA_SUCCESS;
}

CUresult host_cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags)
{
	struct cn_device *device = NULL;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (!result)
		result = cn_context_check_flags(flags);
	if (result)
		return result;
	if (flags & CU_CTX_MAP_HOST)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"CU_CTX_MAP_HOST cannot be set for a primary context, which always maps host memory");

	cn_slow_lock(&primaries[ordinal].mutex);
	struct cn_context *context = active_primary(device);
	if (context)
		atomic_store(&context->flags, flags);
	primaries[ordinal].flags = flags;
	cn_slow_unlock(&primaries[ordinal].mutex);
	return CUDA_SUCCESS;
}
