/* SPDX-License-Identifier: MIT */
/*
 * cenote smi: the table of devices and of the processes on them that everybody knows.
 *
 * It is a client of NVML as any other, and opens libnvidia-ml.so.1 at run time: Cenote's for host devices, NVIDIA's on
 * a GPU. So it also shows what other clients get from Cenote's.
 */
#include "command.h"
#include "run.h"

#include <cenote/cenote.h>
#include <cenote/nvml.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MIB = 1024 * 1024,
	SAMPLE_NS =
		150 * 1000 * 1000, /* for which the cores are watched: NVML answers anew after a tenth of a second */
	PROCESSES_MAX = 4096,
	INNER_COLUMNS = 89, /* between the left and the right border */
};

/* ---- The library ---- */

#define SMI_CALLS(call)                                                                                            \
	call(nvmlInit_v2) call(nvmlErrorString) call(nvmlSystemGetDriverVersion)                                   \
		call(nvmlSystemGetCudaDriverVersion_v2) call(nvmlSystemGetProcessName) call(nvmlDeviceGetCount_v2) \
			call(nvmlDeviceGetHandleByIndex_v2) call(nvmlDeviceGetName) call(nvmlDeviceGetUUID)        \
				call(nvmlDeviceGetPciInfo_v3) call(nvmlDeviceGetMemoryInfo)                        \
					call(nvmlDeviceGetUtilizationRates) call(nvmlDeviceGetPersistenceMode)     \
						call(nvmlDeviceGetDisplayActive) call(nvmlDeviceGetComputeMode)    \
							call(nvmlDeviceGetMigMode)                                 \
								call(nvmlDeviceGetComputeRunningProcesses_v3)

static struct {
#define MEMBER(name) __typeof__(name) *(name);
	SMI_CALLS(MEMBER)
#undef MEMBER
} nvml;

static void *open_library(void)
{
	char folder[PATH_MAX], path[PATH_MAX + 32];
	int gpu = run_wants_gpu("smi");

	if (gpu < 0 || (!gpu && !run_find_libraries("smi", folder)))
		return NULL;
	snprintf(path, sizeof path, "%s%slibnvidia-ml.so.1", gpu ? "" : folder, gpu ? "" : "/");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fprintf(stderr, "cenote smi: %s\n", dlerror());
	return library;
}

static bool start_library(void)
{
	void *library = open_library();

	if (!library)
		return false;
#define FIND(name)                                                                            \
	*(void **)&nvml.name = dlsym(library, #name);                                         \
	if (!nvml.name) {                                                                     \
		fprintf(stderr, "cenote smi: the libnvidia-ml.so.1 here has no %s\n", #name); \
		return false;                                                                 \
	}
	SMI_CALLS(FIND)
#undef FIND
	nvmlReturn_t result = nvml.nvmlInit_v2();
	if (result != NVML_SUCCESS) {
		const char *why = cenote_last_error();
		fprintf(stderr, "cenote smi: %s\n", *why ? why : nvml.nvmlErrorString(result));
	}
	return result == NVML_SUCCESS;
}

/* ---- What there is to see ---- */

struct device {
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlPciInfo_t pci;
	nvmlMemory_t memory;
	nvmlUtilization_t utilization;
	nvmlEnableState_t persistence, display;
	nvmlComputeMode_t compute;
	unsigned mig, pending;
	bool has_memory, has_utilization, has_persistence, has_display, has_mig; /* else it is not supported */
	nvmlProcessInfo_t *processes;
	unsigned process_count;
};

/* The list may grow between two calls. */
static bool list_processes(nvmlDevice_t handle, struct device *device)
{
	unsigned room = 0;
	nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;

	while (result == NVML_ERROR_INSUFFICIENT_SIZE && room <= PROCESSES_MAX) {
		unsigned count = room;
		result = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, device->processes);
		device->process_count = result == NVML_SUCCESS ? count : 0;
		if (result != NVML_ERROR_INSUFFICIENT_SIZE)
			break;
		room = count + 8;
		nvmlProcessInfo_t *larger = realloc(device->processes, room * sizeof *larger);
		if (!larger)
			return false;
		device->processes = larger;
	}
	return true;
}

static bool look(unsigned index, struct device *device)
{
	nvmlDevice_t handle;
	nvmlReturn_t result = nvml.nvmlDeviceGetHandleByIndex_v2(index, &handle);

	if (result == NVML_SUCCESS)
		result = nvml.nvmlDeviceGetName(handle, device->name, sizeof device->name);
	if (result == NVML_SUCCESS)
		result = nvml.nvmlDeviceGetUUID(handle, device->uuid, sizeof device->uuid);
	if (result == NVML_SUCCESS)
		result = nvml.nvmlDeviceGetPciInfo_v3(handle, &device->pci);
	if (result != NVML_SUCCESS || !list_processes(handle, device)) {
		fprintf(stderr, "cenote smi: device %u: %s\n", index,
			result == NVML_SUCCESS ? "no memory" : nvml.nvmlErrorString(result));
		return false;
	}
	device->has_memory = nvml.nvmlDeviceGetMemoryInfo(handle, &device->memory) == NVML_SUCCESS;
	device->has_utilization = nvml.nvmlDeviceGetUtilizationRates(handle, &device->utilization) == NVML_SUCCESS;
	device->has_persistence = nvml.nvmlDeviceGetPersistenceMode(handle, &device->persistence) == NVML_SUCCESS;
	device->has_display = nvml.nvmlDeviceGetDisplayActive(handle, &device->display) == NVML_SUCCESS;
	device->has_mig = nvml.nvmlDeviceGetMigMode(handle, &device->mig, &device->pending) == NVML_SUCCESS;
	if (nvml.nvmlDeviceGetComputeMode(handle, &device->compute) != NVML_SUCCESS)
		device->compute = NVML_COMPUTEMODE_COUNT;
	return true;
}

static void name_process(unsigned pid, char name[64])
{
	if (nvml.nvmlSystemGetProcessName(pid, name, 64) != NVML_SUCCESS)
		snprintf(name, 64, "-");
}

/* ---- For people ---- */

static void print_rule(const char *ends, char line, const int *columns)
{
	putchar(ends[0]);
	for (int at = 1, i = 0; at <= INNER_COLUMNS; at++) {
		bool corner = columns && columns[i] == at;
		putchar(corner ? '+' : line);
		i += corner;
	}
	printf("%c\n", ends[1]);
}

static const char *on_or_off(bool known, bool on)
{
	return !known ? "N/A" : on ? "On" : "Off";
}

static void print_device(unsigned index, const struct device *device)
{
	static const char *const modes[] = {"Default", "E. Thread", "Prohibited", "E. Process", "N/A"};
	char memory[64] = "N/A", utilization[16] = "N/A";

	if (device->has_memory)
		snprintf(memory, sizeof memory, "%lluMiB / %lluMiB", device->memory.used / MIB,
			 device->memory.total / MIB);
	if (device->has_utilization)
		snprintf(utilization, sizeof utilization, "%u%%", device->utilization.gpu);
	printf("| %3u  %-28.28s %5s | %-16s %5s | %20s |\n", index, device->name,
	       on_or_off(device->has_persistence, device->persistence), device->pci.busId,
	       on_or_off(device->has_display, device->display), modes[device->compute]);
	printf("| %39s | %22s | %8s %11s |\n", "", memory, utilization, on_or_off(device->has_mig, device->mig));
}

static void print_processes(const struct device *devices, unsigned count)
{
	bool any = false;

	putchar('\n');
	print_rule("++", '-', NULL);
	printf("| %-*s |\n", INNER_COLUMNS - 2, "Processes:");
	printf("| %4s %10s %6s   %-47.47s %14s |\n", "GPU", "PID", "Type", "Process name", "GPU Memory");
	print_rule("||", '=', NULL);
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < devices[i].process_count; j++) {
			const nvmlProcessInfo_t *process = &devices[i].processes[j];
			char name[64];
			name_process(process->pid, name);
			printf("| %4u %10u %6s   %-47.47s %11lluMiB |\n", i, process->pid, "C", name,
			       process->usedGpuMemory / MIB);
			any = true;
		}
	if (!any)
		printf("| %-*s |\n", INNER_COLUMNS - 2, " No running processes found");
	print_rule("++", '-', NULL);
}

static void print_table(const char *driver, int cuda, const struct device *devices, unsigned count)
{
	static const int corners[] = {42, 67, 0};
	char versions[3][40];

	snprintf(versions[0], sizeof versions[0], "Cenote %d.%d.%d", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR,
		 CENOTE_VERSION_PATCH);
	snprintf(versions[1], sizeof versions[1], "Driver Version: %.20s", driver);
	snprintf(versions[2], sizeof versions[2], "CUDA Version: %d.%d", NVML_CUDA_DRIVER_VERSION_MAJOR(cuda),
		 NVML_CUDA_DRIVER_VERSION_MINOR(cuda));
	print_rule("++", '-', NULL);
	printf("| %-30s %-35s %20s |\n", versions[0], versions[1], versions[2]);
	print_rule("|+", '-', corners);
	printf("| %3s  %-20s %13s | %-15s %6s | %20s |\n", "GPU", "Name", "Persistence-M", "Bus-Id", "Disp.A",
	       "Compute M.");
	printf("| %39s | %22s | %-8s %11s |\n", "", "Memory-Usage", "GPU-Util", "MIG M.");
	print_rule("||", '=', corners);
	for (unsigned i = 0; i < count; i++) {
		print_device(i, &devices[i]);
		print_rule("++", '-', corners);
	}
	if (!count) {
		printf("| %-*s |\n", INNER_COLUMNS - 2, "No devices were found");
		print_rule("++", '-', NULL);
	}
	print_processes(devices, count);
}

/* ---- For programs ---- */

static void print_json_device(unsigned index, const struct device *device)
{
	printf("%s\n    {\"index\": %u, \"name\": ", index ? "," : "", index);
	print_json_string(device->name);
	printf(", \"uuid\": \"%s\", \"bus_id\": \"%s\"", device->uuid, device->pci.busId);
	if (device->has_memory)
		printf(", \"total_bytes\": %llu, \"used_bytes\": %llu, \"free_bytes\": %llu", device->memory.total,
		       device->memory.used, device->memory.free);
	if (device->has_utilization)
		printf(", \"utilization_percent\": %u", device->utilization.gpu);
	fputs(", \"processes\": [", stdout);
	for (unsigned i = 0; i < device->process_count; i++) {
		char name[64];
		name_process(device->processes[i].pid, name);
		printf("%s\n      {\"pid\": %u, \"used_bytes\": %llu, \"name\": ", i ? "," : "",
		       device->processes[i].pid, device->processes[i].usedGpuMemory);
		print_json_string(name);
		putchar('}');
	}
	printf("%s]}", device->process_count ? "\n    " : "");
}

static void print_json(const char *driver, int cuda, const struct device *devices, unsigned count)
{
	printf("{\n  \"driver\": \"%s\",\n  \"cuda\": %d,\n  \"devices\": [", driver, cuda);
	for (unsigned i = 0; i < count; i++)
		print_json_device(i, &devices[i]);
	printf("%s]\n}\n", count ? "\n  " : "");
}

/* ---- The command ---- */

static int smi(int argument_count, char **arguments)
{
	char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "?";
	bool json = false, seen = true;
	int cuda = 0;
	unsigned count = 0, looked = 0;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") != 0)
			return refuse_word("smi", arguments[i]);
		json = true;
	}
	if (!start_library())
		return EXIT_FAILURE;
	nanosleep(&(struct timespec){.tv_nsec = SAMPLE_NS}, NULL);
	nvml.nvmlSystemGetDriverVersion(driver, sizeof driver);
	nvml.nvmlSystemGetCudaDriverVersion_v2(&cuda);
	nvml.nvmlDeviceGetCount_v2(&count);
	struct device *devices = calloc(count ? count : 1, sizeof *devices);
	for (; seen && devices && looked < count; looked++)
		seen = look(looked, &devices[looked]);
	if (devices && seen && json)
		print_json(driver, cuda, devices, count);
	else if (devices && seen)
		print_table(driver, cuda, devices, count);
	for (unsigned i = 0; devices && i < looked; i++)
		free(devices[i].processes);
	free(devices);
	return devices && seen ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_smi = {
	.name = "smi",
	.summary = "show devices, their memory, and the processes on them",
	.help = "Usage: cenote smi [--json]\n"
		"\n"
		"Prints the table that nvidia-smi prints, for host devices: their memory, as all processes together\n"
		"use it, how busy the machine's cores are, and which processes have how much memory. It asks\n"
		"libnvidia-ml.so.1: Cenote's, or NVIDIA's on a GPU.\n"
		"\n"
		"A device's memory is one for all processes of a user that have the same runtime directory and the\n"
		"same CENOTE_HOST_MEMORY. Processes in PID namespaces above or beside this one are not listed; what\n"
		"they have counts. cenote ps says which processes share what.\n"
		"\n"
		"Options:\n"
		"  --json   print it for a program\n"
		"\n"
		"Exit status: 1 if there is no library, or the environment is wrong; a sentence says why.\n",
	.run = smi,
};
