/* SPDX-License-Identifier: MIT */
/*
 * NVML: its start and end, its codes in words, and the system.
 *
 * nvmlInit() lists the devices into memory of its own and publishes it, unless another thread was first: no lock is
 * held, so there is none that a fork could find locked.
 */
#include "nvml/nvml_missing.h"
#include "nvml/nvml_state.h"

#include "device/host/host_look.h"
#include "dropin/missing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The branch of NVIDIA's driver that brought CUDA 13.0. */
static const char driver_version[] = "580.00", nvml_version[] = "13.580.00";

static struct cn_nvml_devices *_Atomic devices;
static _Atomic unsigned user_count; /* how often it was initialized and not shut down */

/* ---- Start and end ---- */

static CUresult refuse_gpu(void)
{
	enum cn_device_choice choice;
	CUresult result = cn_device_choice(&choice);

	if (!result && choice == CN_DEVICE_CUDA)
		return cn_error(CUDA_ERROR_NO_DEVICE,
				"CENOTE_DEVICE=cuda, and Cenote's libnvidia-ml.so.1 knows host devices only");
	return result;
}

/* Find the devices, once in a process. */
static CUresult find_devices(void)
{
	struct cn_device list[CN_DEVICE_MAX];
	struct cn_nvml_devices *none = NULL, *found;
	int count = 0;

	if (atomic_load(&devices))
		return CUDA_SUCCESS;
	CUresult result = refuse_gpu();
	if (!result)
		result = cn_host_list(list, &count);
	if (result)
		return result;
	found = calloc(1, sizeof *found);
	if (!found)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the list of devices");
	found->count = count;
	for (int i = 0; i < count; i++)
		found->list[i].device = list[i];
	if (!atomic_compare_exchange_strong(&devices, &none, found))
		free(found);
	return CUDA_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	if (flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return cn_nvml_result(
			cn_error(CUDA_ERROR_INVALID_VALUE, "nvmlInitWithFlags() flags 0x%x are unknown", flags));
	CUresult result = find_devices();
	if (result == CUDA_ERROR_INVALID_VALUE)
		return NVML_ERROR_UNKNOWN; /* the environment's fault, and not an argument's */
	if (result)
		return cn_nvml_result(result);
	cn_nvml_usage_start();
	atomic_fetch_add(&user_count, 1);
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

CN_NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

static CUresult refuse_early(void)
{
	return cn_error(CUDA_ERROR_NOT_INITIALIZED, "nvmlInit() has not been called, or nvmlShutdown() as often");
}

CN_NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	unsigned users = atomic_load(&user_count);

	do {
		if (!users)
			return cn_nvml_result(refuse_early());
	} while (!atomic_compare_exchange_weak(&user_count, &users, users - 1));
	return NVML_SUCCESS;
}

/* ---- What the calls share ---- */

nvmlReturn_t cn_nvml_result(CUresult result)
{
	switch ((int)result) {
	case CUDA_SUCCESS: return NVML_SUCCESS;
	case CUDA_ERROR_NOT_INITIALIZED: return NVML_ERROR_UNINITIALIZED;
	case CUDA_ERROR_INVALID_VALUE: return NVML_ERROR_INVALID_ARGUMENT;
	case CUDA_ERROR_NOT_SUPPORTED: return NVML_ERROR_NOT_SUPPORTED;
	case CUDA_ERROR_NOT_FOUND: return NVML_ERROR_NOT_FOUND;
	case CUDA_ERROR_NO_DEVICE: return NVML_ERROR_DRIVER_NOT_LOADED;
	case CUDA_ERROR_OPERATING_SYSTEM: return NVML_ERROR_OPERATING_SYSTEM;
	case CUDA_ERROR_OUT_OF_MEMORY: return NVML_ERROR_MEMORY;
	default: return NVML_ERROR_UNKNOWN;
	}
}

struct cn_nvml_devices *cn_nvml_enter(void)
{
	if (atomic_load(&user_count))
		return atomic_load(&devices);
	(void)refuse_early();
	return NULL;
}

nvmlReturn_t cn_nvml_check(nvmlDevice_t device, const void *const places[], unsigned count)
{
	struct cn_nvml_devices *all = cn_nvml_enter();
	bool known = false;

	if (!all)
		return NVML_ERROR_UNINITIALIZED;
	for (int i = 0; i < all->count; i++)
		known |= device == &all->list[i];
	if (!known)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "%p is not a device handle", (void *)device));
	for (unsigned i = 0; i < count; i++)
		if (!places[i])
			return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer for the answer is NULL"));
	return NVML_SUCCESS;
}

nvmlReturn_t cn_nvml_text(const char *text, char *buffer, unsigned length)
{
	if (!buffer)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer for the answer is NULL"));
	if (strlen(text) >= length) {
		(void)cn_error(CUDA_ERROR_INVALID_VALUE, "%u bytes are too few for '%s'", length, text);
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	memcpy(buffer, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t cn_nvml_refuse_version(unsigned version)
{
	(void)cn_error(CUDA_ERROR_INVALID_VALUE, "0x%x is not a known version of this structure", version);
	return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

nvmlReturn_t cn_nvml_refuse_room(unsigned needed, unsigned *count)
{
	(void)cn_error(CUDA_ERROR_INVALID_VALUE, "there is room for %u of %u", *count, needed);
	*count = needed;
	return NVML_ERROR_INSUFFICIENT_SIZE;
}

int cn_nvml_missing(const char *name)
{
	if (!cn_nvml_enter())
		return NVML_ERROR_UNINITIALIZED;
	(void)cenote_report_missing(name);
	return NVML_ERROR_NOT_SUPPORTED;
}

/* ---- Codes in words ---- */

CN_NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
	case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
	case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT: return "Timeout";
	case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
	case NVML_ERROR_LIBRARY_NOT_FOUND: return "Library Not Found";
	case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
	case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_RESET_REQUIRED: return "GPU requires restart";
	case NVML_ERROR_OPERATING_SYSTEM: return "Call of the operating system failed";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	case NVML_ERROR_IN_USE: return "In use by another client";
	case NVML_ERROR_MEMORY: return "Insufficient Memory";
	case NVML_ERROR_NO_DATA: return "No data";
	case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: return "Not available on vGPU with ECC";
	case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient resources";
	case NVML_ERROR_FREQ_NOT_SUPPORTED: return "Frequency not supported";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
	case NVML_ERROR_DEPRECATED: return "Deprecated";
	case NVML_ERROR_NOT_READY: return "Not ready";
	case NVML_ERROR_GPU_NOT_FOUND: return "No GPUs found";
	case NVML_ERROR_INVALID_STATE: return "Invalid state";
	case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: return "Reset type not supported";
	case NVML_ERROR_UNKNOWN: break;
	}
	return "Unknown Error";
}

/* ---- The system ---- */

static nvmlReturn_t tell_version(const char *text, char *version, unsigned length)
{
	return cn_nvml_enter() ? cn_nvml_text(text, version, length) : NVML_ERROR_UNINITIALIZED;
}

CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return tell_version(driver_version, version, length);
}

CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return tell_version(nvml_version, version, length);
}

/* The only calls that answer before nvmlInit(), as in NVIDIA's library. */
CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
	if (!cudaDriverVersion)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "a pointer for the answer is NULL"));
	*cudaDriverVersion = CUDA_VERSION;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

CN_NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[32];
	ssize_t got = -1;

	if (!cn_nvml_enter())
		return NVML_ERROR_UNINITIALIZED;
	if (!name || !length)
		return cn_nvml_result(cn_error(CUDA_ERROR_INVALID_VALUE, "there is no room for a name"));
	snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, name, length - 1);
		close(fd);
	}
	if (got <= 0)
		return cn_nvml_result(cn_error(CUDA_ERROR_NOT_FOUND, "there is no process %u", pid));
	name[got] = '\0'; /* the first word ends with a zero of its own */
	return NVML_SUCCESS;
}
