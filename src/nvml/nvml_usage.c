/* SPDX-License-Identifier: MIT */
/*
 * NVML: what is used of a device: its memory, by which processes, and its cores.
 */
#include "nvml/nvml_state.h"

#include "device/host/host_look.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_INSTANCE = -1 };

/* ---- Memory ---- */

static nvmlReturn_t look_at_memory(nvmlDevice_t device, nvmlMemory_t *ret_memory)
{
	size_t used = 0;
	CUresult result = cn_host_used_by_all(&device->device, &used);

	if (result)
		return cn_nvml_result(result);
	*ret_memory = (nvmlMemory_t){
		.total = device->device.total_bytes, .free = device->device.total_bytes - used, .used = used};
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	CN_NVML_ENTER(device, memory);
	return look_at_memory(device, memory);
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t found = {0};

	CN_NVML_ENTER(device, memory);
	if (memory->version != nvmlMemory_v2)
		return cn_nvml_refuse_version(memory->version);
	nvmlReturn_t result = look_at_memory(device, &found);
	if (result == NVML_SUCCESS)
		*memory = (nvmlMemory_v2_t){
			.version = memory->version, .total = found.total, .free = found.free, .used = found.used};
	return result;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
	nvmlMemory_t found = {0};

	CN_NVML_ENTER(device, bar1Memory);
	nvmlReturn_t result = look_at_memory(device, &found);
	if (result == NVML_SUCCESS)
		*bar1Memory =
			(nvmlBAR1Memory_t){.bar1Total = found.total, .bar1Free = found.free, .bar1Used = found.used};
	return result;
}

/* ---- Processes ---- */

/* What has been found, and where it goes: one of the two. */
struct processes {
	nvmlProcessInfo_v1_t *short_list;
	nvmlProcessInfo_v2_t *list;
	unsigned room, count;
};

static void add_process(int pid, uint64_t bytes, void *data)
{
	struct processes *processes = data;
	unsigned at = processes->count++;

	if (at >= processes->room)
		return;
	if (processes->list)
		processes->list[at] = (nvmlProcessInfo_v2_t){.pid = (unsigned)pid,
							     .usedGpuMemory = bytes,
							     .gpuInstanceId = (unsigned)NO_INSTANCE,
							     .computeInstanceId = (unsigned)NO_INSTANCE};
	else
		processes->short_list[at] = (nvmlProcessInfo_v1_t){.pid = (unsigned)pid, .usedGpuMemory = bytes};
}

static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned *count, struct processes processes)
{
	CN_NVML_ENTER(device, count);
	processes.room = processes.list || processes.short_list ? *count : 0;
	CUresult result = cn_host_users(&device->device, add_process, &processes);
	if (result)
		return cn_nvml_result(result);
	if (processes.count > processes.room)
		return cn_nvml_refuse_room(processes.count, count);
	*count = processes.count;
	return NVML_SUCCESS;
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
								    nvmlProcessInfo_t *infos)
{
	return list_processes(device, infoCount, (struct processes){.list = infos});
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
								    nvmlProcessInfo_v2_t *infos)
{
	return list_processes(device, infoCount, (struct processes){.list = infos});
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
								 nvmlProcessInfo_v1_t *infos)
{
	return list_processes(device, infoCount, (struct processes){.short_list = infos});
}

/* No process draws, and there is no MPS server. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
	CN_NVML_ENTER(device, count);
	*count = 0;
	return NVML_SUCCESS;
}

#define NO_PROCESSES(name, type)                                                                                \
	CN_NVML_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *infoCount, __typeof__(type) *infos) \
	{                                                                                                       \
		(void)infos;                                                                                    \
		return no_processes(device, infoCount);                                                         \
	}

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

/* ---- Cores ---- */

/*
 * The time that the machine's cores have worked, and all their time, in the kernel's ticks of 10 ms, 32 bits each: they
 * are only subtracted. In one word, so that two threads that ask at the same time see numbers that belong together.
 */
struct ticks {
	uint32_t busy, all;
};

enum { TICKS_MIN = 10 }; /* of one core, between two looks */

static _Atomic uint64_t last_look;
static _Atomic unsigned last_percent;

static bool read_ticks(struct ticks *ret_ticks)
{
	char line[256];
	unsigned long long times[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
	uint64_t all = 0;
	FILE *file = fopen("/proc/stat", "re");
	bool known = file && fgets(line, sizeof line, file) &&
		     sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &times[0], &times[1], &times[2],
			    &times[3], &times[4], &times[5], &times[6], &times[7]) >= 4;

	if (file)
		fclose(file);
	for (unsigned i = 0; i < 8; i++)
		all += times[i];
	*ret_ticks = (struct ticks){.busy = (uint32_t)(all - times[3] - times[4]), .all = (uint32_t)all};
	return known;
}

static uint64_t pack(struct ticks ticks)
{
	return (uint64_t)ticks.busy << 32 | ticks.all;
}

void cn_nvml_usage_start(void)
{
	struct ticks now;
	uint64_t never = 0;

	if (!atomic_load(&last_look) && read_ticks(&now))
		atomic_compare_exchange_strong(&last_look, &never, pack(now));
}

CN_NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	struct ticks now;

	CN_NVML_ENTER(device, utilization);
	if (!read_ticks(&now))
		return cn_nvml_result(cn_error(CUDA_ERROR_NOT_SUPPORTED, "/proc/stat cannot be read"));
	uint64_t before = atomic_load(&last_look);
	uint32_t busy = now.busy - (uint32_t)(before >> 32), all = now.all - (uint32_t)before;
	/* Time that a core waited for the disk may be taken back: then less was busy than before. */
	if (all >= TICKS_MIN && all < UINT32_MAX / 2 && atomic_compare_exchange_strong(&last_look, &before, pack(now)))
		atomic_store(&last_percent, busy <= all ? (unsigned)(100 * (uint64_t)busy / all) : 0);
	*utilization = (nvmlUtilization_t){.gpu = atomic_load(&last_percent)};
	return NVML_SUCCESS;
}
