/* SPDX-License-Identifier: MIT */
/*
 * Streams and contexts on a GPU: what the pools must see of them on the way to the driver.
 *
 * A stream that is destroyed takes its mark with it, so what it freed is marked first (cuda_stream.h). When a program
 * has waited for a stream or a context, all work before has been done: the span ends before the driver's call, and the
 * pools are told after it. Captures end with their streams and contexts, too (gpu_capture.c).
 */
#include "driver/common/private_calls.h"
#include "driver/gpu/gpu_calls.h"

#include "device/cuda/cuda_library.h"

#include <sched.h>
#include <stdlib.h>

enum { MARK_PATIENCE_NS = 100000 };

/* ---- The streams of a context ---- */

static void add_point(struct cn_queue *queue, void *data)
{
	struct cn_gpu_points *points = data;

	if (points->count == points->room) {
		size_t room = points->room * 2;
		bool first = points->points == points->at_hand;
		struct cn_point *more = realloc(first ? NULL : points->points, room * sizeof *more);
		if (!more)
			return; /* knowing fewer points only delays the reuse of memory */
		for (size_t i = 0; first && i < points->count; i++)
			more[i] = points->at_hand[i];
		points->points = more;
		points->room = room;
	}
	points->points[points->count++] = cn_cuda_end_span(queue);
}

void cn_gpu_gather(CUcontext context, struct cn_gpu_points *ret_points)
{
	ret_points->points = ret_points->at_hand;
	ret_points->room = sizeof ret_points->at_hand / sizeof ret_points->at_hand[0];
	ret_points->count = 0;
	ret_points->life = cn_cuda_each_of_context(context, add_point, ret_points);
	if (!ret_points->life)
		ret_points->count = 0;
}

void cn_gpu_drop(struct cn_gpu_points *points)
{
	if (points->points != points->at_hand)
		free(points->points);
}

/* They have all been reached. */
static void settle(const struct cn_gpu_points *points)
{
	for (size_t i = 0; i < points->count; i++)
		cn_cuda_reached(points->points[i]);
	for (size_t i = 0; i < points->count; i++)
		cn_pools_settle(points->points[i]);
}

/* ---- Streams ---- */

/*
 * Handles of destroyed streams are known even without pools: the driver follows such a handle into memory that is not
 * its own.
 */
bool cn_gpu_stream_is_gone(CUstream stream)
{
	return cn_gpu_is_used && cn_gpu_is_watched() && (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD &&
	       cn_cuda_is_destroyed(stream);
}

static CUresult created(CUresult result, const CUstream *stream)
{
	if (!result && cn_gpu_is_watched()) {
		cn_cuda_created(*stream);
		cn_gpu_captures_over(cn_gpu_last_capture(), *stream, NULL);
	}
	return result;
}

CUresult gpu_cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
	return created(driver_cuStreamCreate(ret_stream, flags), ret_stream);
}

CUresult gpu_cuStreamCreateWithPriority(CUstream *ret_stream, unsigned int flags, int priority)
{
	return created(driver_cuStreamCreateWithPriority(ret_stream, flags, priority), ret_stream);
}

CUresult gpu_cuGreenCtxStreamCreate(CUstream *ret_stream, void *green, unsigned int flags, int priority)
{
	CUresult result = driver_cuGreenCtxStreamCreate(ret_stream, green, flags, priority);

	return created(result, ret_stream);
}

static CUresult destroy(CUstream stream, CUresult (*driver)(CUstream stream))
{
	if (!cn_gpu_is_watched() || (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return driver(stream);
	struct cn_queue *queue = cn_cuda_known(stream);
	uint64_t last = cn_gpu_last_capture();
	CUresult result = cn_cuda_destroy(stream, driver);
	if (!result)
		cn_gpu_captures_over(last, stream, NULL);
	if (result || !queue)
		return result;
	cn_device_ops->queue_look(queue);
	cn_pools_settle((struct cn_point){queue, atomic_load(&queue->completed)});
	return CUDA_SUCCESS;
}

CUresult gpu_cuStreamDestroy_v2(CUstream stream)
{
	return destroy(stream, driver_cuStreamDestroy_v2);
}

CUresult gpu_cuStreamDestroy(CUstream stream)
{
	return destroy(stream, driver_cuStreamDestroy);
}

CUresult gpu_cuStreamQuery(CUstream stream)
{
	struct cn_cuda_place place = {.queue = NULL};

	if (cn_gpu_has_pools())
		place = cn_cuda_known_place(stream);
	if (!place.queue)
		return driver_cuStreamQuery(stream);
	struct cn_point point = cn_cuda_end_span_to_wait(place.queue);
	CUresult result = driver_cuStreamQuery(stream);
	if (!result && cn_cuda_place_stands(&place))
		cn_cuda_seen(point, 0);
	return result;
}

CUresult gpu_cuStreamSynchronize(CUstream stream)
{
	struct cn_cuda_place place = {.queue = NULL};

	if (cn_gpu_has_pools())
		place = cn_cuda_known_place(stream);
	if (!place.queue)
		return driver_cuStreamSynchronize(stream);
	struct cn_point point = cn_cuda_end_span_to_wait(place.queue);
	CUresult result = driver_cuStreamSynchronize(stream);
	if (result || !cn_cuda_place_stands(&place))
		return result;
	cn_cuda_seen(point, MARK_PATIENCE_NS);
	if (point.queue && cn_point_reached(point))
		cn_pools_settle(point);
	return CUDA_SUCCESS;
}

/* Another process may signal it. */
CUresult gpu_cuWaitExternalSemaphoresAsync(void *const *semaphores, const void *params, unsigned int count,
					   CUstream stream)
{
	struct cn_cuda_place place;

	if (cn_gpu_has_pools() && !cn_cuda_is_capturing(stream) && !cn_cuda_find(stream, &place))
		cn_cuda_waits_outside(place.queue);
	return driver_cuWaitExternalSemaphoresAsync(semaphores, params, count, stream);
}

CUresult gpu_cuWaitExternalSemaphoresAsync_ptsz(void *const *semaphores, const void *params, unsigned int count,
						CUstream stream)
{
	return gpu_cuWaitExternalSemaphoresAsync(semaphores, params, count, cn_gpu_own_stream(stream));
}

/* ---- Contexts ---- */

static CUcontext current_context(void)
{
	CUcontext context = NULL;

	return cn_cuda.cuCtxGetCurrent(&context) ? NULL : context;
}

CUresult gpu_cuCtxSynchronize(void)
{
	struct cn_gpu_points points;

	if (!cn_gpu_has_pools())
		return driver_cuCtxSynchronize();
	CUcontext context = current_context();
	cn_gpu_gather(context, &points);
	CUresult result = driver_cuCtxSynchronize();
	if (!result && cn_cuda_context_is(context, points.life))
		settle(&points);
	cn_gpu_drop(&points);
	return result;
}

CUresult gpu_cuCtxSynchronize_v2(CUcontext context)
{
	struct cn_gpu_points points;

	if (!cn_gpu_has_pools())
		return driver_cuCtxSynchronize_v2(context);
	CUcontext waited_for = context ? context : current_context();
	cn_gpu_gather(waited_for, &points);
	CUresult result = driver_cuCtxSynchronize_v2(context);
	if (!result && cn_cuda_context_is(waited_for, points.life))
		settle(&points);
	cn_gpu_drop(&points);
	return result;
}

static bool is_alive(CUcontext context)
{
	void *ask = cn_cuda_function("cuCtxGetApiVersion", 3020, false);
	unsigned int version;

	return ask && !((__typeof__(&cuCtxGetApiVersion))ask)(context, &version);
}

/* Must the end of a context be noted? */
static bool is_seen(void)
{
	return cn_gpu_has_pools() || (cn_gpu_is_watched() && cn_gpu_last_capture());
}

/* A context that the call under way may end. */
struct ending {
	CUcontext context;     /* NULL: none */
	uint64_t life;         /* see cn_cuda_context_ending() */
	uint64_t last_capture; /* of those that may end with it */
	unsigned long long id; /* the driver's; 0: it does not say */
	struct cn_gpu_points points;
};

/* A primary context that was ended and made again has the same handle, but another id. */
static unsigned long long id_of(CUcontext context)
{
	void *ask = cn_cuda_function("cuCtxGetId", 12000, false);
	unsigned long long id = 0;

	return ask && !((__typeof__(&cuCtxGetId))ask)(context, &id) ? id : 0;
}

static void begin_end(struct ending *ending, CUcontext context)
{
	ending->context = context;
	if (!context)
		return;
	cn_gpu_gather(context, &ending->points);
	ending->last_capture = cn_gpu_last_capture();
	ending->life = cn_cuda_context_ending(context);
	/* After that: an id of an earlier context would say that this one has ended. */
	ending->id = id_of(context);
}

static void end_end(struct ending *ending, bool over)
{
	if (!ending->context)
		return;
	if (over) {
		cn_gpu_captures_over(ending->last_capture, NULL, ending->context);
		cn_cuda_context_over(ending->context, ending->life);
		settle(&ending->points);
	} else {
		cn_cuda_context_stays(ending->context, ending->life);
	}
	cn_gpu_drop(&ending->points);
}

/* A context whose work has failed ends with an error, and a call may also be refused. */
static CUresult end_context(CUcontext context, __typeof__(gpu_cuCtxDestroy) *driver)
{
	struct ending ending;

	if (!is_seen())
		return driver(context);
	begin_end(&ending, context);
	CUresult result = driver(context);
	end_end(&ending, !result || (ending.context && !is_alive(context)));
	return result;
}

CUresult gpu_cuCtxDestroy_v2(CUcontext context)
{
	return end_context(context, driver_cuCtxDestroy_v2);
}

CUresult gpu_cuCtxDestroy(CUcontext context)
{
	return end_context(context, driver_cuCtxDestroy);
}

/* It ends with the last detach. */
CUresult gpu_cuCtxDetach(CUcontext context)
{
	struct ending ending;

	if (!is_seen())
		return driver_cuCtxDetach(context);
	begin_end(&ending, context);
	CUresult result = driver_cuCtxDetach(context);
	end_end(&ending, ending.context && !is_alive(context));
	return result;
}

static bool is_primary_active(CUdevice device)
{
	void *ask = cn_cuda_function("cuDevicePrimaryCtxGetState", 7000, false);
	unsigned int flags;
	int active = 0;

	return ask && !((__typeof__(&cuDevicePrimaryCtxGetState))ask)(device, &flags, &active) && active;
}

static bool has_primary_ended(CUdevice device, const struct ending *ending)
{
	return !is_primary_active(device) || (ending->context && id_of(ending->context) != ending->id);
}

/*
 * The handle never changes, even when the context is made anew, so we ask for it once. Meanwhile we retain the context
 * beside the program, and ours may be the last reference.
 */
CUcontext cn_gpu_primary(CUdevice device)
{
	static _Atomic(CUcontext) primaries[CN_DEVICE_MAX];
	void *retain = cn_cuda_function("cuDevicePrimaryCtxRetain", 7000, false);
	struct ending ending;

	if (!retain || device < 0 || device >= CN_DEVICE_MAX || !is_primary_active(device))
		return NULL;
	CUcontext context = atomic_load(&primaries[device]);
	if (context || ((__typeof__(&cuDevicePrimaryCtxRetain))retain)(&context, device))
		return context;
	begin_end(&ending, context);
	driver_cuDevicePrimaryCtxRelease_v2(device);
	end_end(&ending, has_primary_ended(device, &ending));
	atomic_store(&primaries[device], context);
	return context;
}

/*
 * The primary context ends with the last release, and with each reset. The driver does not say how often it is
 * retained, so we count the retains that pass through us since the last reset; those that do not can only make it more.
 * While two are left, a release is not the last, and no thread has to wait for it.
 */
static struct {
	_Atomic uint64_t retained;  /* how often, and above that how many resets have begun or ended */
	_Atomic uint32_t releasing; /* threads in a release that is not the last */
} primary_counts[CN_DEVICE_MAX];

#define ONE_RESET  ((uint64_t)1 << 32)
#define COUNT_MASK (ONE_RESET - 1)

static bool is_counted(CUdevice device)
{
	return device >= 0 && device < CN_DEVICE_MAX;
}

CUresult gpu_cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
	if (!is_counted(device))
		return driver_cuDevicePrimaryCtxRetain(ret_context, device);
	_Atomic uint64_t *retained = &primary_counts[device].retained;
	uint64_t before = atomic_load(retained), now = before;
	CUresult result = driver_cuDevicePrimaryCtxRetain(ret_context, device);
	/* Not if a reset came in between: the retain may have been of the context before. */
	while (!result && now / ONE_RESET == before / ONE_RESET &&
	       !atomic_compare_exchange_weak(retained, &now, now + 1))
		continue;
	return result;
}

static void forget_count(CUdevice device)
{
	uint64_t now = atomic_load(&primary_counts[device].retained);

	while (!atomic_compare_exchange_weak(&primary_counts[device].retained, &now, (now & ~COUNT_MASK) + ONE_RESET))
		continue;
}

/* Is this release not the last? Then `releasing` counts it, until it is done. */
static bool take_count(CUdevice device)
{
	_Atomic uint64_t *retained = &primary_counts[device].retained;
	uint64_t now = atomic_load(retained);

	atomic_fetch_add(&primary_counts[device].releasing, 1);
	while (now & COUNT_MASK && !atomic_compare_exchange_weak(retained, &now, now - 1))
		continue;
	if ((now & COUNT_MASK) >= 2)
		return true;
	atomic_fetch_sub(&primary_counts[device].releasing, 1);
	/* Releases that are not the last must not become the last. */
	while (atomic_load(&primary_counts[device].releasing))
		sched_yield();
	return false;
}

static CUresult end_primary(CUdevice device, __typeof__(gpu_cuDevicePrimaryCtxReset) *driver, bool is_reset)
{
	struct ending ending;
	CUresult result;

	if (is_counted(device) && !is_reset && take_count(device)) {
		result = driver(device);
		atomic_fetch_sub(&primary_counts[device].releasing, 1);
		return result;
	}
	if (is_counted(device) && is_reset)
		forget_count(device);
	if (is_seen()) {
		begin_end(&ending, cn_gpu_primary(device));
		result = driver(device);
		end_end(&ending, (is_reset && !result) || has_primary_ended(device, &ending));
	} else {
		result = driver(device);
	}
	if (is_counted(device) && is_reset)
		forget_count(device);
	return result;
}

CUresult gpu_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return end_primary(device, driver_cuDevicePrimaryCtxRelease_v2, false);
}

CUresult gpu_cuDevicePrimaryCtxRelease(CUdevice device)
{
	return end_primary(device, driver_cuDevicePrimaryCtxRelease, false);
}

CUresult gpu_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return end_primary(device, driver_cuDevicePrimaryCtxReset_v2, true);
}

CUresult gpu_cuDevicePrimaryCtxReset(CUdevice device)
{
	return end_primary(device, driver_cuDevicePrimaryCtxReset, true);
}

/* The context of a green context, for calls that know no green ones, and its device. */
static CUcontext context_of_green(void *green, CUdevice *ret_device)
{
	void *convert = cn_cuda_function("cuCtxFromGreenCtx", 12040, false);
	CUcontext context = NULL, pushed;

	if (!convert || ((CUresult(*)(CUcontext *, void *))convert)(&context, green) ||
	    cn_cuda.cuCtxPushCurrent(context))
		return NULL;
	CUresult result = cn_cuda.cuCtxGetDevice(ret_device);
	cn_cuda.cuCtxPopCurrent(&pushed);
	return result ? NULL : context;
}

/* Its streams end with it, and so does the primary context if it is not retained elsewhere. */
CUresult gpu_cuGreenCtxDestroy(void *green)
{
	struct ending ending, primary;
	CUdevice device = CU_DEVICE_INVALID;

	if (!is_seen())
		return driver_cuGreenCtxDestroy(green);
	begin_end(&ending, context_of_green(green, &device));
	begin_end(&primary, ending.context ? cn_gpu_primary(device) : NULL);
	CUresult result = driver_cuGreenCtxDestroy(green);
	end_end(&primary, has_primary_ended(device, &primary));
	end_end(&ending, !result);
	return result;
}
