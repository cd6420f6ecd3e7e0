/* SPDX-License-Identifier: MIT */
/*
 * cenote info: which devices a program would see here, what it could share, and what is missing for the rest.
 */
#include "info.h"
#include "command.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

const struct capability info_capabilities[CAPABILITY_COUNT] = {
	{"unified-addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
	{"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
	{"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
	{"ipc", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
	{"virtual-memory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
	{"fabric", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
};

const struct variable info_variables[VARIABLE_COUNT] = {
	{"CENOTE_DEVICE", "host, cuda or auto: which kind of device"},
	{"CENOTE_FABRIC_DIR", "where the sockets behind fabric handles stand, for all users"},
	{"CENOTE_HOST_DEVICES", "how many host devices there are"},
	{"CENOTE_HOST_MEMORY", "memory of each, with K, M, G or T"},
	{"CENOTE_HOST_WITHOUT", "capabilities to take away, with commas between"},
	{"CENOTE_IMEX_DIR", "where the host device's IMEX channels are"},
	{"CENOTE_IMEX_SOCKET", "where cenote-imexd listens, which leads to other machines"},
	{"CENOTE_KEPT_SOCKET", "where cenoted listens, which keeps memory by name"},
	{"CENOTE_LABEL", "what cenote ps calls this process"},
	{"CENOTE_LIBCUDA", "NVIDIA's libcuda.so.1, if it is not where it usually is"},
	{"CENOTE_LOG", "debug: print each error's sentence"},
	{"CENOTE_POOLS", "driver: leave memory pools to NVIDIA's driver"},
	{"CENOTE_RUNTIME_DIR", "where the sockets of this user's processes stand"},
	{"CUDA_VISIBLE_DEVICES", "which devices a program sees, and in which order"},
};

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

static void format_uuid(const CUuuid *uuid, char text[UUID_BYTES])
{
	int length = snprintf(text, UUID_BYTES, "GPU-");

	for (int i = 0; i < 16; i++)
		length += snprintf(text + length, (size_t)(UUID_BYTES - length), "%s%02x",
				   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid->bytes[i]);
}

static CUresult read_attributes(CUdevice handle, struct device *device)
{
	int pool_types = 0, descriptor = 0, fabric = 0;
	const struct {
		CUdevice_attribute attribute;
		int *value;
	} wanted[] = {
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->processor_count},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device->major},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device->minor},
		{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, &pool_types},
		{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &descriptor},
		{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &fabric},
	};
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && !result; i++)
		result = cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, handle);
	for (int i = 0; i < CAPABILITY_COUNT && !result; i++)
		result = cuDeviceGetAttribute(&device->has[i], info_capabilities[i].attribute, handle);
	device->pool_handle_types = (unsigned)pool_types;
	device->memory_handle_types = (descriptor ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0u) |
				      (fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0u);
	return result;
}

static CUresult read_device(int ordinal, struct device *device)
{
	CUuuid uuid;
	CUdevice handle;
	CUresult result = cuDeviceGet(&handle, ordinal);

	if (!result)
		result = cuDeviceGetName(device->name, sizeof device->name, handle);
	if (!result)
		result = cuDeviceGetPCIBusId(device->pci_id, sizeof device->pci_id, handle);
	if (!result)
		result = cuDeviceGetUuid(&uuid, handle);
	if (!result)
		result = cuDeviceTotalMem(&device->total_bytes, handle);
	if (!result)
		result = read_attributes(handle, device);
	if (result)
		return result;
	format_uuid(&uuid, device->uuid);
	info_try(handle, device->trials);
	return CUDA_SUCCESS;
}

static void fail(struct facts *facts, const char *what)
{
	snprintf(facts->error, sizeof facts->error, "%s: %s", what, cenote_last_error());
}

static void read_devices(struct facts *facts)
{
	int count = 0;

	if (cuInit(0) || cuDeviceGetCount(&count)) {
		fail(facts, "no device can be used");
		return;
	}
	facts->devices = calloc((size_t)count, sizeof *facts->devices);
	if (!facts->devices) {
		snprintf(facts->error, sizeof facts->error, "no memory for what is known of %d devices", count);
		return;
	}
	for (; facts->device_count < count; facts->device_count++)
		if (read_device(facts->device_count, &facts->devices[facts->device_count])) {
			fail(facts, "a device does not answer");
			return;
		}
}

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

static void read_versions(struct facts *facts)
{
	struct utsname system;
	Dl_info where;
	const char *(*function)(void) = cenote_last_error;
	void *address;

	if (cuDriverGetVersion(&facts->cuda_version))
		facts->cuda_version = CUDA_VERSION;
	if (!uname(&system))
		snprintf(facts->kernel, sizeof facts->kernel, "%s %s, %s", system.sysname, system.release,
			 system.machine);
	memcpy(&address, &function, sizeof address);
	if (dladdr(address, &where) && where.dli_fname && !realpath(where.dli_fname, facts->library))
		snprintf(facts->library, sizeof facts->library, "%s", where.dli_fname);
}

static void read_driver(struct facts *facts)
{
	const char *path;

	if (cenote_driver_library(&path)) {
		snprintf(facts->driver_why, sizeof facts->driver_why, "%s", cenote_last_error());
		return;
	}
	facts->driver = path;
	if (strcmp(cenote_device_kind(), "cuda") == 0)
		return;
	const char *wanted = getenv("CENOTE_DEVICE");
	snprintf(facts->driver_why, sizeof facts->driver_why, "%s",
		 wanted && strcmp(wanted, "host") == 0 ? "CENOTE_DEVICE=host" : "it finds no GPU that can be used");
}

static void found(const cenote_name *name, void *data)
{
	struct facts *facts = data;

	if (!name->name) {
		if (facts->place_count < DIRECTORIES_MAX)
			snprintf(facts->places[facts->place_count++].path, PATH_BYTES, "%s", name->directory);
		return;
	}
	struct meeting_place *place = &facts->places[facts->place_count - 1];
	*(name->live ? &place->live_count : &place->dead_count) += 1;
}

static void read_limits(struct facts *facts)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
	struct rlimit limit;

	facts->descriptor_limit = facts->mapping_limit = -1;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur != RLIM_INFINITY)
		facts->descriptor_limit = (long long)limit.rlim_cur;
	if (!file)
		return;
	if (fscanf(file, "%lld", &facts->mapping_limit) != 1)
		facts->mapping_limit = -1;
	fclose(file);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int info(int argument_count, char **arguments)
{
	static struct facts facts; /* it is large */
	bool json = false;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") != 0)
			return refuse_word("info", arguments[i]);
		json = true;
	}
	/* Before anything is tried: for that, this process gets a name of its own. */
	if (cenote_sweep(CENOTE_SWEEP_LOOK, found, &facts))
		snprintf(facts.places_error, sizeof facts.places_error, "%s", cenote_last_error());
	read_devices(&facts);
	read_versions(&facts);
	read_driver(&facts);
	read_limits(&facts);
	if (json)
		info_print_json(&facts);
	else
		info_print_text(&facts);
	free(facts.devices);
	if (!facts.error[0])
		return EXIT_SUCCESS;
	fflush(stdout);
	fprintf(stderr, "cenote info: %s\n", facts.error);
	return EXIT_FAILURE;
}

const struct command command_info = {
	.name = "info",
	.summary = "show devices, ways to share, and what is missing",
	.help = "Usage: cenote info [--json]\n"
		"\n"
		"Shows what a program would find here:\n"
		"\n"
		"  - versions, the library, and NVIDIA's driver if there is one;\n"
		"  - devices, and what each can do;\n"
		"  - whether each way to share memory works. The command tries each one; where one fails, a sentence\n"
		"    says why, and what to do;\n"
		"  - limits, the directories in which processes find each other, and the environment variables that\n"
		"    matter.\n"
		"\n"
		"Options:\n"
		"  --json   print it for a program\n"
		"\n"
		"Exit status: 1 if there is no device, or a variable is wrong; a sentence says which. A way to share\n"
		"that does not work is not a failure.\n",
	.run = info,
};
