/* SPDX-License-Identifier: MIT */
/*
 * Which device and context a call of the runtime runs in.
 *
 * The driver decides: if the thread has a current context, that is the one, whichever API made it. A thread without one
 * gets the primary context of its device: the device it chose with cudaSetDevice, or the first that works. The runtime
 * retains each primary context once for the whole process.
 *
 * A reset, or a release too many, can take a primary context away from all threads at once. It keeps its handle, so a
 * thread finds out only by asking the driver for something of its context; then it retains it again.
 *
 * The properties of the devices are read once, at the start: so a forked child, in which the driver does not work, can
 * still be told of them.
 */
#include "runtime/runtime.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/lock.h"
#include "driver/common/private_calls.h"

struct device_entry {
	struct cudaDeviceProp properties;
	CUcontext primary;      /* NULL: not retained */
	unsigned retain_number; /* counts how often the runtime has retained it */
	int to_try;             /* not about this device: an element of the list of devices to try */
};

static struct {
	CN_LOCK(RUNTIME) lock; /* guards what follows, except what is constant after the start */
	int device_count;
	struct device_entry *devices;
	int to_try_count;
} process;

static _Atomic bool started;

static _Thread_local struct {
	bool chosen;       /* by cudaSetDevice, or at the first use of a device */
	int device;        /* if chosen */
	CUcontext context; /* what the runtime made current */
	bool entered;      /* it has had a context that worked */
} thread __attribute__((tls_model("initial-exec")));

/* ---- The start -------------------------------------------------------------------------------------------------- */

static CUresult make_table(int device_count, struct device_entry **ret_devices)
{
	CUresult result = CUDA_SUCCESS;
	struct device_entry *devices = calloc((size_t)device_count, sizeof(*devices));

	if (!devices)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the runtime's table of %d devices",
				device_count);
	for (int i = 0; !result && i < device_count; i++) {
		devices[i].to_try = i;
		result = cn_runtime_read_properties(i, &devices[i].properties);
	}
	if (result)
		free(devices);
	else
		*ret_devices = devices;
	return result;
}

static CUresult start(void)
{
	struct device_entry *devices = NULL;
	int device_count;
	CUresult result = cuInit(0);

	if (!result)
		result = cuDeviceGetCount(&device_count);
	if (!result && device_count <= 0)
		result = cn_error(CUDA_ERROR_NO_DEVICE, "there is no device");
	if (!result)
		result = make_table(device_count, &devices);
	if (result)
		return result;

	/* If several threads come here, one of them leaves its table. */
	cn_lock(&process.lock);
	if (!process.devices) {
		process.devices = devices;
		process.to_try_count = process.device_count = device_count;
		devices = NULL;
	}
	cn_unlock(&process.lock);
	free(devices);
	atomic_store(&started, true);
	return CUDA_SUCCESS;
}

CUresult cn_runtime_start(void)
{
	return atomic_load(&started) ? CUDA_SUCCESS : start();
}

CUresult cn_runtime_device_count(int *ret_count)
{
	CUresult result = cn_runtime_start();

	if (!result)
		*ret_count = process.device_count;
	return result;
}

/* The entry of a device that a program has named; NULL and why not. */
static struct device_entry *find_device(int device, CUresult *ret_result)
{
	*ret_result = cn_runtime_start();
	if (*ret_result)
		return NULL;
	if (device >= 0 && device < process.device_count)
		return &process.devices[device];
	*ret_result = cn_error(CUDA_ERROR_INVALID_DEVICE, "there is no device %d: the last is %d", device,
			       process.device_count - 1);
	return NULL;
}

CUresult cn_runtime_properties(int device, const struct cudaDeviceProp **ret_properties)
{
	CUresult result;
	struct device_entry *entry = find_device(device, &result);

	if (entry)
		*ret_properties = &entry->properties;
	return result;
}

/* ---- Primary contexts ------------------------------------------------------------------------------------------- */

CUresult cn_runtime_primary(int device, CUcontext *ret_context)
{
	CUcontext known;
	CUcontext retained = NULL;
	unsigned retain_number;
	unsigned flags;
	int active = 0;
	bool first;
	CUresult result;
	struct device_entry *entry = find_device(device, &result);

	if (!entry)
		return result;
	cn_lock(&process.lock);
	known = entry->primary;
	retain_number = entry->retain_number;
	cn_unlock(&process.lock);
	if (known)
		result = cuDevicePrimaryCtxGetState(device, &flags, &active);
	if (!result && !active)
		result = cuDevicePrimaryCtxRetain(&retained, device);
	if (result)
		return result;
	if (active) {
		*ret_context = known;
		return CUDA_SUCCESS;
	}

	/* If several threads come here, one of them keeps its reference. */
	cn_lock(&process.lock);
	first = !entry->primary || entry->retain_number == retain_number;
	if (first) {
		entry->primary = retained;
		entry->retain_number++;
	}
	cn_unlock(&process.lock);
	*ret_context = retained;
	return first ? CUDA_SUCCESS : cuDevicePrimaryCtxRelease(device);
}

CUresult cn_runtime_forget_primary(int device)
{
	CUcontext context;
	CUcontext current;
	unsigned flags;
	int active = 0;
	CUresult result;
	struct device_entry *entry = find_device(device, &result);

	if (!entry)
		return result;
	result = cuDevicePrimaryCtxGetState(device, &flags, &active);
	if (result)
		return result;
	cn_lock(&process.lock);
	context = entry->primary;
	entry->primary = NULL;
	cn_unlock(&process.lock);
	if (!context)
		return CUDA_SUCCESS;
	if (active)
		result = cuDevicePrimaryCtxRelease(device);
	if (!cuCtxGetCurrent(&current) && current == context)
		(void)cuCtxSetCurrent(NULL);
	return result;
}

/* ---- The thread's device and context ---------------------------------------------------------------------------- */

CUresult cn_runtime_set_device(int device)
{
	CUcontext context = NULL;
	CUresult result = cn_runtime_primary(device, &context);

	if (!result)
		result = cuCtxSetCurrent(context);
	if (result)
		return result;
	thread.chosen = true;
	thread.device = device;
	thread.context = context;
	return CUDA_SUCCESS;
}

/* One of the devices to try; false: there are no more. */
static bool device_to_try(int index, int *ret_device)
{
	bool found;

	cn_lock(&process.lock);
	found = index < process.to_try_count;
	if (found)
		*ret_device = process.devices[index].to_try;
	cn_unlock(&process.lock);
	return found;
}

/* The thread has no context, or has lost it. */
static CUresult make_context(void)
{
	CUresult first_failure = CUDA_SUCCESS;
	CUresult result;
	int device;

	if (thread.chosen)
		return cn_runtime_set_device(thread.device);
	for (int i = 0; device_to_try(i, &device); i++) {
		result = cn_runtime_set_device(device);
		if (!result)
			return CUDA_SUCCESS;
		if (!first_failure)
			first_failure = result;
	}
	return first_failure;
}

/* On a GPU, a context that is gone still says which device it was of, but does not answer this call. */
static bool context_works(void)
{
	return !cuCtxGetStreamPriorityRange(NULL, NULL);
}

static CUresult find_context(void)
{
	CUcontext current;
	CUdevice device;
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuCtxGetCurrent(&current);
	if (result)
		return result;
	if (!current)
		return make_context();
	if (current != thread.context)
		return cuCtxGetDevice(&device);
	return context_works() ? CUDA_SUCCESS : make_context();
}

static __attribute__((noinline)) CUresult ask_for_context(void)
{
	if (thread.entered && context_works())
		return CUDA_SUCCESS;
	CUresult result = find_context();
	thread.entered = !result;
	return result;
}

/* Every call of the runtime begins with this: nearly always, it is one call, of few instructions on the host device. */
CUresult cn_runtime_context(void)
{
	return thread.entered && cn_context_lives() ? CUDA_SUCCESS : ask_for_context();
}

CUresult cn_runtime_device(int *ret_device)
{
	CUcontext current;
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuCtxGetCurrent(&current);
	if (result)
		return result;
	if (current && current != thread.context)
		return cuCtxGetDevice(ret_device);
	if (thread.chosen)
		*ret_device = thread.device;
	else if (!device_to_try(0, ret_device))
		*ret_device = 0;
	return CUDA_SUCCESS;
}

bool cn_runtime_context_is_foreign(void)
{
	CUcontext current;
	CUcontext primary;
	CUdevice device;
	unsigned flags;
	int active;

	if (cuCtxGetCurrent(&current) || !current || current == thread.context)
		return false;
	if (cuCtxGetDevice(&device) || cuDevicePrimaryCtxGetState(device, &flags, &active) || !active)
		return true;
	if (cuDevicePrimaryCtxRetain(&primary, device))
		return true;
	(void)cuDevicePrimaryCtxRelease(device);
	return current != primary;
}

CUresult cn_runtime_set_valid_devices(const int *devices, int count)
{
	CUresult result = cn_runtime_start();

	if (result)
		return result;
	if (count < 0 || count > process.device_count || (count > 0 && !devices))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a list of %d devices: the process has %d", count,
				process.device_count);
	for (int i = 0; i < count; i++)
		if (!find_device(devices[i], &result))
			return result;
	cn_lock(&process.lock);
	process.to_try_count = count ? count : process.device_count;
	for (int i = 0; i < process.to_try_count; i++)
		process.devices[i].to_try = count ? devices[i] : i;
	cn_unlock(&process.lock);
	return CUDA_SUCCESS;
}
