/* SPDX-License-Identifier: MIT */
/*
 * cenote info: for people, and for programs.
 */
#include "command.h"
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_COLUMNS = 14, WAY_COLUMNS = 30, VARIABLE_COLUMNS = 24, LINE_COLUMNS_MAX = 110 };

static const struct {
	unsigned type;
	const char *name;
} handle_types[] = {
	{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, "descriptor"},
	{CU_MEM_HANDLE_TYPE_FABRIC, "fabric"},
};

enum { HANDLE_TYPE_COUNT = sizeof handle_types / sizeof handle_types[0] };

/* ---- For people -------------------------------------------------------------------------------------------------- */

/* A sentence that begins in some column, and goes on there in the next line. */
static void print_wrapped(const char *text, int column)
{
	int width = output_columns() < LINE_COLUMNS_MAX ? output_columns() : LINE_COLUMNS_MAX, at = column;

	while (*text) {
		int length = (int)strcspn(text, " ");
		if (at > column && at + 1 + length > width) {
			printf("\n%*s", column, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		printf("%.*s", length, text);
		at += length;
		text += length + (text[length] != '\0');
	}
	putchar('\n');
}

static void print_heading(const char *text)
{
	printf("\n%s%s%s\n", style(STYLE_BOLD), text, style(STYLE_END));
}

static void print_capabilities(const struct device *device, const char *label, bool has)
{
	bool any = false;

	printf("  %-*s", LABEL_COLUMNS - 2, label);
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		if (!device->has[i] == !has) {
			printf("%s%s", any ? " " : "", info_capabilities[i].name);
			any = true;
		}
	puts(any ? "" : "nothing of note");
}

static void print_handle_types(const char *label, unsigned types)
{
	bool any = false;

	printf("  %-*s", LABEL_COLUMNS - 2, label);
	for (int i = 0; i < HANDLE_TYPE_COUNT; i++)
		if (types & handle_types[i].type) {
			printf("%s%s", any ? ", " : "handles: ", handle_types[i].name);
			any = true;
		}
	puts(any ? "" : "no handles");
}

static void print_trial(int way, const struct trial *trial)
{
	printf("    %-*s", WAY_COLUMNS - 4, info_ways[way].name);
	if (!trial->result) {
		printf("%sworks%s\n", style(STYLE_GOOD), style(STYLE_END));
		return;
	}
	printf("%sno:%s ", style(STYLE_BAD), style(STYLE_END));
	print_wrapped(trial->why, WAY_COLUMNS + 4);
}

static void print_device(int ordinal, const struct device *device)
{
	char heading[300];

	snprintf(heading, sizeof heading, "Device %-*d%s", LABEL_COLUMNS - 7, ordinal, device->name);
	print_heading(heading);
	printf("  uuid        %s\n", device->uuid);
	printf("  pci         %s\n", device->pci_id);
	printf("  memory      %.1f GiB (%zu bytes)\n", (double)device->total_bytes / (1 << 30), device->total_bytes);
	printf("  processors  %d\n", device->processor_count);
	printf("  capability  %d.%d\n", device->major, device->minor);
	print_capabilities(device, "has", true);
	print_capabilities(device, "has not", false);
	print_handle_types("pools", device->pool_handle_types);
	print_handle_types("allocations", device->memory_handle_types);
	puts("  sharing, tried just now");
	for (int i = 0; i < WAY_COUNT; i++)
		print_trial(i, &device->trials[i]);
}

static void print_driver(const struct facts *facts)
{
	const char *named = getenv("CENOTE_LIBCUDA");

	printf("%-*s", LABEL_COLUMNS, "Driver");
	if (facts->driver && facts->driver_why[0])
		printf("%s, not used: %s\n", facts->driver, facts->driver_why);
	else if (facts->driver)
		puts(facts->driver);
	else
		print_wrapped(facts->driver_why, LABEL_COLUMNS);
	if (!facts->driver && !(named && *named)) {
		printf("%*s", LABEL_COLUMNS, "");
		print_wrapped("It was looked for in LD_LIBRARY_PATH, in the linker's cache and in the usual folders; "
			      "CENOTE_LIBCUDA=FILE names one elsewhere. Host devices need none.",
			      LABEL_COLUMNS);
	}
}

static void print_limit(const char *what, long long limit, const char *whose)
{
	if (limit < 0)
		printf("  %-*s%s\n", WAY_COLUMNS + 6, what, "none is known");
	else
		printf("  %-*s%lld%s\n", WAY_COLUMNS + 6, what, limit, whose);
}

static void print_places(const struct facts *facts)
{
	print_heading("Directories in which processes find each other");
	if (!facts->place_count && !facts->places_error[0])
		puts("  none is there yet: they are made when they are needed");
	for (int i = 0; i < facts->place_count; i++) {
		const struct meeting_place *place = &facts->places[i];
		printf("  %s: %d live, %d dead%s\n", place->path, place->live_count, place->dead_count,
		       place->dead_count ? " (cenote gc removes them)" : "");
	}
	if (facts->places_error[0]) {
		printf("  %sno:%s ", style(STYLE_BAD), style(STYLE_END));
		print_wrapped(facts->places_error, 6);
	}
}

static void print_environment(void)
{
	print_heading("Environment");
	for (int i = 0; i < VARIABLE_COUNT; i++) {
		const char *value = getenv(info_variables[i].name);
		char meaning[128];
		printf("  %-*s%s", VARIABLE_COLUMNS - 2, info_variables[i].name, style(value ? STYLE_BOLD : STYLE_DIM));
		snprintf(meaning, sizeof meaning, "not set (%s)", info_variables[i].meaning);
		print_wrapped(value ? value : meaning, VARIABLE_COLUMNS);
		fputs(style(STYLE_END), stdout);
	}
}

void info_print_text(const struct facts *facts)
{
	printf("Cenote        %d.%d.%d\n", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH);
	printf("CUDA          %d.%d\n", facts->cuda_version / 1000, facts->cuda_version % 1000 / 10);
	printf("Library       %s\n", facts->library);
	printf("System        %s\n", facts->kernel);
	print_driver(facts);
	printf("Devices       %d%s%s\n", facts->device_count, facts->device_count ? ", kind " : "",
	       facts->device_count ? cenote_device_kind() : "");
	for (int i = 0; i < facts->device_count; i++)
		print_device(i, &facts->devices[i]);
	print_heading("Limits");
	print_limit("importers of a pool", CENOTE_POOL_IMPORTERS_MAX, "");
	print_limit("blocks of a pool exported at once", CENOTE_POOL_EXPORTED_BLOCKS_MAX, "");
	print_limit("range of a pool to import", CENOTE_POOL_RANGE_BYTES_MAX >> 30, " GiB");
	print_limit("open descriptors of a process", facts->descriptor_limit, " (ulimit -n)");
	print_limit("mappings of a process", facts->mapping_limit, " (sysctl vm.max_map_count)");
	print_places(facts);
	print_environment();
}

/* ---- For programs ------------------------------------------------------------------------------------------------ */

/* A text, or null where there is none. */
static void print_json_or_null(const char *text)
{
	if (text && *text)
		print_json_string(text);
	else
		fputs("null", stdout);
}

static void print_handle_types_json(const char *name, unsigned types)
{
	bool any = false;

	printf("\"%s\": [", name);
	for (int i = 0; i < HANDLE_TYPE_COUNT; i++)
		if (types & handle_types[i].type) {
			printf("%s\"%s\"", any ? ", " : "", handle_types[i].name);
			any = true;
		}
	putchar(']');
}

static void print_device_json(const struct device *device, bool last)
{
	printf("    {\"name\": ");
	print_json_string(device->name);
	printf(", \"uuid\": \"%s\", \"pci\": \"%s\", \"memory_bytes\": %zu, \"processors\": %d, "
	       "\"capability\": \"%d.%d\",\n     \"has\": {",
	       device->uuid, device->pci_id, device->total_bytes, device->processor_count, device->major,
	       device->minor);
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		printf("%s\"%s\": %s", i ? ", " : "", info_capabilities[i].name, device->has[i] ? "true" : "false");
	fputs("},\n     \"handle_types\": {", stdout);
	print_handle_types_json("pools", device->pool_handle_types);
	fputs(", ", stdout);
	print_handle_types_json("allocations", device->memory_handle_types);
	fputs("},\n     \"sharing\": {", stdout);
	for (int i = 0; i < WAY_COUNT; i++) {
		printf("%s\n       \"%s\": {\"works\": %s, \"why_not\": ", i ? "," : "", info_ways[i].key,
		       device->trials[i].result ? "false" : "true");
		print_json_or_null(device->trials[i].why);
		putchar('}');
	}
	printf("}}%s\n", last ? "" : ",");
}

static void print_places_json(const struct facts *facts)
{
	fputs("  \"directories\": [", stdout);
	for (int i = 0; i < facts->place_count; i++) {
		printf("%s\n    {\"path\": ", i ? "," : "");
		print_json_string(facts->places[i].path);
		printf(", \"live\": %d, \"dead\": %d}", facts->places[i].live_count, facts->places[i].dead_count);
	}
	printf("%s],\n  \"directories_error\": ", facts->place_count ? "\n  " : "");
	print_json_or_null(facts->places_error);
	puts(",");
}

static void print_environment_json(void)
{
	printf("  \"environment\": {");
	for (int i = 0; i < VARIABLE_COUNT; i++) {
		const char *value = getenv(info_variables[i].name);
		printf("%s\n    \"%s\": ", i ? "," : "", info_variables[i].name);
		if (value)
			print_json_string(value);
		else
			fputs("null", stdout);
	}
	puts("\n  }");
}

void info_print_json(const struct facts *facts)
{
	printf("{\n  \"cenote\": \"%d.%d.%d\",\n  \"cuda\": \"%d.%d\",\n  \"library\": ", CENOTE_VERSION_MAJOR,
	       CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH, facts->cuda_version / 1000, facts->cuda_version % 1000 / 10);
	print_json_string(facts->library);
	fputs(",\n  \"system\": ", stdout);
	print_json_string(facts->kernel);
	fputs(",\n  \"driver\": {\"path\": ", stdout);
	print_json_or_null(facts->driver);
	fputs(", \"why_not\": ", stdout);
	print_json_or_null(facts->driver_why);
	fputs("},\n  \"kind\": ", stdout);
	print_json_or_null(cenote_device_kind());
	fputs(",\n  \"error\": ", stdout);
	print_json_or_null(facts->error);
	puts(",\n  \"devices\": [");
	for (int i = 0; i < facts->device_count; i++)
		print_device_json(&facts->devices[i], i == facts->device_count - 1);
	printf("  ],\n  \"limits\": {\"pool_importers\": %lld, \"pool_exported_blocks\": %lld, "
	       "\"pool_range_bytes\": %lld, "
	       "\"descriptors\": %lld, \"mappings\": %lld},\n",
	       (long long)CENOTE_POOL_IMPORTERS_MAX, (long long)CENOTE_POOL_EXPORTED_BLOCKS_MAX,
	       (long long)CENOTE_POOL_RANGE_BYTES_MAX, facts->descriptor_limit, facts->mapping_limit);
	print_places_json(facts);
	print_environment_json();
	puts("}");
}
