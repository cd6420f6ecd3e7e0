/* SPDX-License-Identifier: MIT */
/*
 * cenote info: which devices a program would see here, and why.
 */
#include "command.h"

#include <cenote/cenote.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	CUdevice_attribute attribute;
} capabilities[] = {
	{"unified-addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
	{"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
	{"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
	{"ipc", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
	{"virtual-memory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
	{"fabric", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
};

static const struct {
	const char *name, *meaning;
} variables[] = {
	{"CENOTE_DEVICE", "host, cuda or auto: which kind of device"},
	{"CENOTE_HOST_DEVICES", "how many host devices there are"},
	{"CENOTE_HOST_MEMORY", "memory of each, with K, M, G or T"},
	{"CENOTE_HOST_WITHOUT", "capabilities to take away, with commas between"},
	{"CENOTE_LOG", "debug: print each error's sentence"},
	{"CENOTE_RUNTIME_DIR", "where the sockets of this user's processes stand"},
	{"CUDA_VISIBLE_DEVICES", "which devices a program sees, and in which order"},
};

enum {
	CAPABILITY_COUNT = sizeof capabilities / sizeof capabilities[0],
	VARIABLE_COUNT = sizeof variables / sizeof variables[0],
	PCI_ID_BYTES = 16,
	UUID_BYTES = 48,
};

struct device {
	char name[256], pci_id[PCI_ID_BYTES], uuid[UUID_BYTES];
	size_t total_bytes;
	int processor_count, major, minor;
	int has[CAPABILITY_COUNT];
};

static int fail(const char *what)
{
	fprintf(stderr, "cenote info: %s: %s\n", what, cenote_last_error());
	return EXIT_FAILURE;
}

static void format_uuid(const CUuuid *uuid, char text[UUID_BYTES])
{
	int length = snprintf(text, UUID_BYTES, "GPU-");

	for (int i = 0; i < 16; i++)
		length += snprintf(text + length, (size_t)(UUID_BYTES - length), "%s%02x",
				   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid->bytes[i]);
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
		result = cuDeviceGetAttribute(&device->processor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					      handle);
	if (!result)
		result = cuDeviceGetAttribute(&device->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
	if (!result)
		result = cuDeviceGetAttribute(&device->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
	for (int i = 0; i < CAPABILITY_COUNT && !result; i++)
		result = cuDeviceGetAttribute(&device->has[i], capabilities[i].attribute, handle);
	if (!result)
		format_uuid(&uuid, device->uuid);
	return result;
}

/* ---- For people -------------------------------------------------------------------------------------------------- */

static void print_device(int ordinal, const struct device *device)
{
	bool any = false;

	printf("Device %d      %s\n", ordinal, device->name);
	printf("  uuid        %s\n", device->uuid);
	printf("  pci         %s\n", device->pci_id);
	printf("  memory      %.1f GiB (%zu bytes)\n", (double)device->total_bytes / (1 << 30), device->total_bytes);
	printf("  processors  %d\n", device->processor_count);
	printf("  capability  %d.%d\n", device->major, device->minor);
	printf("  has        ");
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		if (device->has[i]) {
			printf(" %s", capabilities[i].name);
			any = true;
		}
	puts(any ? "" : " nothing of note");
	printf("  has not    ");
	any = false;
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		if (!device->has[i]) {
			printf(" %s", capabilities[i].name);
			any = true;
		}
	puts(any ? "" : " nothing of note");
}

static void print_environment(void)
{
	puts("Environment");
	for (int i = 0; i < VARIABLE_COUNT; i++) {
		const char *value = getenv(variables[i].name);
		printf("  %-20s  %s (%s)\n", variables[i].name, value ? value : "not set", variables[i].meaning);
	}
}

/* ---- For programs ------------------------------------------------------------------------------------------------ */

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;
		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < ' ')
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static void print_device_json(const struct device *device, bool last)
{
	printf("    {\"name\": ");
	print_string(device->name);
	printf(", \"uuid\": \"%s\", \"pci\": \"%s\", \"memory_bytes\": %zu, \"processors\": %d, "
	       "\"capability\": \"%d.%d\", \"has\": {",
	       device->uuid, device->pci_id, device->total_bytes, device->processor_count, device->major,
	       device->minor);
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		printf("%s\"%s\": %s", i ? ", " : "", capabilities[i].name, device->has[i] ? "true" : "false");
	printf("}}%s\n", last ? "" : ",");
}

static void print_environment_json(void)
{
	printf("  \"environment\": {");
	for (int i = 0; i < VARIABLE_COUNT; i++) {
		const char *value = getenv(variables[i].name);
		printf("%s\n    \"%s\": ", i ? "," : "", variables[i].name);
		if (value)
			print_string(value);
		else
			fputs("null", stdout);
	}
	puts("\n  }");
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int info(int argument_count, char **arguments)
{
	bool json = argument_count == 2 && strcmp(arguments[1], "--json") == 0;
	int count = 0, cuda_version = 0;

	if (argument_count > 1 && !json)
		return usage_error("info", "'%s' is more than this command takes", arguments[argument_count - 1]);
	if (cuDriverGetVersion(&cuda_version) || cuInit(0) || cuDeviceGetCount(&count))
		return fail("no device can be used");
	struct device *devices = calloc((size_t)count, sizeof *devices);
	if (!devices) {
		perror("cenote info");
		return EXIT_FAILURE;
	}
	for (int i = 0; i < count; i++)
		if (read_device(i, &devices[i])) {
			free(devices);
			return fail("a device does not answer");
		}

	if (json)
		printf("{\n  \"cenote\": \"%d.%d.%d\",\n  \"cuda\": \"%d.%d\",\n  \"devices\": [\n",
		       CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH, cuda_version / 1000,
		       cuda_version % 1000 / 10);
	else
		printf("Cenote        %d.%d.%d\nCUDA          %d.%d\nDevices       %d\n", CENOTE_VERSION_MAJOR,
		       CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH, cuda_version / 1000, cuda_version % 1000 / 10,
		       count);
	for (int i = 0; i < count; i++) {
		if (json)
			print_device_json(&devices[i], i == count - 1);
		else
			print_device(i, &devices[i]);
	}
	free(devices);
	if (json) {
		puts("  ],");
		print_environment_json();
		puts("}");
	} else {
		print_environment();
	}
	return EXIT_SUCCESS;
}

const struct command command_info = {
	.name = "info",
	.summary = "say which devices there are, what they can do, and what the environment sets",
	.help = "Usage: cenote info [--json]\n"
		"\n"
		"Says which devices a program would see if it were started here: memory, capabilities, versions,\n"
		"variables of the environment that have a say in it. With --json, for programs.\n"
		"\n"
		"Exit status: 1 when there is no device, or the environment is not understood;\n"
		"a sentence says which.\n",
	.run = info,
};
