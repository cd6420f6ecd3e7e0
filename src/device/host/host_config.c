/* SPDX-License-Identifier: MIT */
/*
 * The host devices' environment variables.
 *
 * CENOTE_HOST_DEVICES (1), CENOTE_HOST_MEMORY (three quarters of what the machine or the cgroup allows),
 * CENOTE_HOST_WITHOUT (nothing taken away), CUDA_VISIBLE_DEVICES (all). A value that cannot be parsed is an error that
 * says so; only CUDA_VISIBLE_DEVICES has NVIDIA's rule: the list ends at the first entry that names no device.
 */
#include "device/device_account.h"
#include "device/host/host_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const capabilities[] = {"unified-addressing", "ipc", "pools", "fabric", "managed", "peers"};

static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (list && *list) {
		size_t entry = strcspn(list, ",");
		if (entry == length && strncmp(list, word, length) == 0)
			return true;
		list += entry;
		list += *list == ',';
	}
	return false;
}

bool cn_host_without(const char *capability)
{
	return list_has(secure_getenv("CENOTE_HOST_WITHOUT"), capability);
}

static CUresult check_without(void)
{
	const char *list = secure_getenv("CENOTE_HOST_WITHOUT");

	while (list && *list) {
		size_t length = strcspn(list, ",");
		bool known = false;
		for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
			known |= length == strlen(capabilities[i]) && strncmp(list, capabilities[i], length) == 0;
		if (!known)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"CENOTE_HOST_WITHOUT has '%.*s'; "
					"it takes unified-addressing, ipc, pools, fabric, managed, peers",
					(int)length, list);
		list += length;
		list += *list == ',';
	}
	return CUDA_SUCCESS;
}

/* A number with an optional K, M, G or T (powers of 1024). */
static bool parse_bytes(const char *text, size_t *ret_bytes)
{
	static const char units[] = "KMGT";
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	unsigned long long bytes = strtoull(text, &end, 10);
	if (errno)
		return false;
	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (unit) {
		end++;
		if (*end == 'i')
			end++;
		if (*end == 'B')
			end++;
	}
	if (*end || bytes > SIZE_MAX >> shift)
		return false;
	*ret_bytes = (size_t)bytes << shift;
	return true;
}

/* The number in a file; SIZE_MAX when it has none ("max") or does not exist. */
static size_t read_limit(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long value;

	if (!file)
		return SIZE_MAX;
	int found = fscanf(file, "%llu", &value);
	fclose(file);
	return found == 1 && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
}

/* The smallest limit of a cgroup and those above it: `file` in each, from `group` up to the root of a hierarchy. */
static size_t smallest_limit(const char *root, char *group, const char *file)
{
	char path[640];
	size_t limit = SIZE_MAX;

	group[strcspn(group, "\n")] = 0;
	for (;;) {
		snprintf(path, sizeof path, "%s%s/%s", root, strcmp(group, "/") ? group : "", file);
		size_t own = read_limit(path);
		limit = own < limit ? own : limit;
		char *slash = strrchr(group, '/');
		if (!slash)
			return limit;
		*slash = 0;
	}
}

/* The memory limit of this process, in the unified hierarchy of cgroup v2 or the memory hierarchy of v1. */
static size_t cgroup_limit(void)
{
	char line[512];
	size_t limit = read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes");
	FILE *file = fopen("/proc/self/cgroup", "re");

	if (!file)
		return limit;
	while (fgets(line, sizeof line, file)) {
		char *older = strstr(line, ":memory:");
		size_t own = SIZE_MAX;
		if (!strncmp(line, "0::", 3))
			own = smallest_limit("/sys/fs/cgroup", line + 3, "memory.max");
		else if (older)
			own = smallest_limit("/sys/fs/cgroup/memory", older + 8, "memory.limit_in_bytes");
		limit = own < limit ? own : limit;
	}
	fclose(file);
	return limit;
}

static CUresult memory_bytes(size_t *ret_bytes)
{
	const char *text = secure_getenv("CENOTE_HOST_MEMORY");
	size_t granularity = 2 * 1024 * 1024, bytes;

	if (!text || !*text) {
		size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE),
		       group = cgroup_limit();
		bytes = (machine < group ? machine : group) / 4 * 3;
	} else if (!parse_bytes(text, &bytes)) {
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"CENOTE_HOST_MEMORY is '%s'; it takes a number of bytes, optionally with K, M, G or T",
				text);
	}
	bytes = bytes / granularity * granularity;
	if (!bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"CENOTE_HOST_MEMORY leaves less than the 2 MiB that a device needs");
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult device_count(int *ret_count)
{
	const char *text = secure_getenv("CENOTE_HOST_DEVICES");
	char *end;

	if (!text || !*text) {
		*ret_count = 1;
		return CUDA_SUCCESS;
	}
	long count = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || count > CN_DEVICE_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "CENOTE_HOST_DEVICES is '%s'; it takes a number from 0 to %d",
				text, CN_DEVICE_MAX);
	*ret_count = (int)count;
	return CUDA_SUCCESS;
}

/* The same on every start on this machine, different on another: FNV-1a over the machine's id and the device. */
static void make_uuid(struct cn_device *device)
{
	char identity[96] = "cenote";
	FILE *file = fopen("/etc/machine-id", "re");
	uint64_t hash[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};

	if (file) {
		if (!fgets(identity, 64, file))
			strcpy(identity, "cenote");
		fclose(file);
	}
	size_t length = strlen(identity);
	snprintf(identity + length, sizeof identity - length, "/%d", device->physical);
	for (int half = 0; half < 2; half++) {
		for (const char *c = identity; *c; c++)
			hash[half] = (hash[half] ^ (unsigned char)*c) * 0x100000001b3u;
		memcpy(device->uuid.bytes + 8 * (size_t)half, &hash[half], 8);
	}
}

void cn_host_uuid_text(const struct cn_device *device, char ret_text[CN_HOST_UUID_CHARS])
{
	int at = sprintf(ret_text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(ret_text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)device->uuid.bytes[i]);
}

/* Which device does an entry of CUDA_VISIBLE_DEVICES name: a number, or the beginning of a UUID? -1: none. */
static int named_device(const struct cn_device *all, int count, const char *entry, size_t length)
{
	char text[CN_HOST_UUID_CHARS], number[12] = "", *end;
	int found = -1;

	if (length > 0 && length < sizeof number && isdigit((unsigned char)*entry)) {
		memcpy(number, entry, length);
		long index = strtol(number, &end, 10);
		return *end == 0 && index < count ? (int)index : -1;
	}
	for (int i = 0; i < count && length > 4; i++) {
		cn_host_uuid_text(&all[i], text);
		if (length <= strlen(text) && strncmp(text, entry, length) == 0) {
			if (found >= 0)
				return -1; /* matches two */
			found = i;
		}
	}
	return found;
}

static int choose_visible(const struct cn_device *all, int count, struct cn_device *chosen)
{
	const char *list = secure_getenv("CUDA_VISIBLE_DEVICES");
	bool taken[CN_DEVICE_MAX] = {false};
	int chosen_count = 0;

	if (!list) {
		memcpy(chosen, all, (size_t)count * sizeof *all);
		return count;
	}
	while (*list) {
		while (*list == ' ')
			list++;
		size_t length = strcspn(list, ", ");
		int index = named_device(all, count, list, length);
		if (index < 0)
			break;
		if (taken[index])
			return 0; /* a device named twice hides all of them, as NVIDIA's driver does */
		taken[index] = true;
		chosen[chosen_count] = all[index];
		chosen[chosen_count].ordinal = chosen_count;
		chosen_count++;
		list += length;
		while (*list == ' ')
			list++;
		list += *list == ',';
	}
	return chosen_count;
}

CUresult cn_host_list(struct cn_device ret_devices[CN_DEVICE_MAX], int *ret_count)
{
	size_t bytes = 0;
	int count = 0;

	CUresult result = check_without();
	if (!result)
		result = device_count(&count);
	if (!result)
		result = memory_bytes(&bytes);
	if (result)
		return result;

	for (int i = 0; i < count; i++) {
		ret_devices[i] = (struct cn_device){
			.ordinal = i,
			.physical = i,
			.name = "Cenote host device",
			.pci_bus = i + 1,
			.total_bytes = bytes,
		};
		make_uuid(&ret_devices[i]);
	}
	*ret_count = count;
	return CUDA_SUCCESS;
}

CUresult cn_host_init(struct cn_device devices[CN_DEVICE_MAX], int *ret_count)
{
	static struct cn_device all[CN_DEVICE_MAX];
	int count = 0;

	CUresult result = cn_host_list(all, &count);
	if (result)
		return result;
	count = choose_visible(all, count, devices);
	if (!count)
		return cn_error(CUDA_ERROR_NO_DEVICE, "CENOTE_HOST_DEVICES and CUDA_VISIBLE_DEVICES leave no device");
	cn_device_account_open(devices[0].total_bytes);
	*ret_count = count;
	return CUDA_SUCCESS;
}
