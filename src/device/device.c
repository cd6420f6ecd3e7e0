/* SPDX-License-Identifier: MIT */
/*
 * Which device this process uses.
 */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cn_device_ops *cn_device_ops;
const char *cn_device_wanted;
_Thread_local struct cn_queue *cn_callback_queue;

CUresult cn_device_choice(enum cn_device_choice *ret_choice)
{
	static const char *const names[] = {
		[CN_DEVICE_AUTO] = "auto", [CN_DEVICE_HOST] = "host", [CN_DEVICE_CUDA] = "cuda"};
	const char *wanted = cn_device_wanted ? cn_device_wanted : secure_getenv("CENOTE_DEVICE");

	if (!wanted || !*wanted)
		wanted = names[CN_DEVICE_AUTO];
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(wanted, names[i]) == 0) {
			*ret_choice = (enum cn_device_choice)i;
			return CUDA_SUCCESS;
		}
	}
	return cn_error(CUDA_ERROR_INVALID_VALUE, "CENOTE_DEVICE is '%s'; it takes host, cuda or auto", wanted);
}

bool cn_device_has_node(int node)
{
	char path[64];

	if (node < 0)
		return false;
	snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
	/* A system that does not know of nodes has one. */
	return access(path, F_OK) == 0 || (node == 0 && access("/sys/devices/system/node", F_OK) != 0);
}

bool cn_device_parse_pci_id(const char *id, unsigned ret_place[3])
{
	unsigned int place[3] = {0}, function = 0;
	int end = 0;
	bool is_id = sscanf(id, "%x:%x:%x.%x%n", &place[0], &place[1], &place[2], &function, &end) == 4 && !id[end];

	if (!is_id) {
		end = function = 0;
		is_id = sscanf(id, "%x:%x:%x%n", &place[0], &place[1], &place[2], &end) == 3 && end && !id[end];
	}
	if (!is_id) {
		place[0] = 0;
		end = 0;
		is_id = sscanf(id, "%x:%x.%x%n", &place[1], &place[2], &function, &end) == 3 && !id[end];
	}
	if (!is_id || function)
		return false;
	memcpy(ret_place, place, sizeof place);
	return true;
}

CUresult cn_device_open(struct cn_device devices[CN_DEVICE_MAX], int *ret_count)
{
	enum cn_device_choice choice;
	char before[CN_SENTENCE_BYTES], why[CN_SENTENCE_BYTES];
	CUresult result = cn_device_choice(&choice);

	if (result)
		return result;
	memcpy(before, cn_last_error(), sizeof before);
	cn_error_hush(true); /* finding no GPU is no error unless one is asked for */
	bool none = choice != CN_DEVICE_HOST && cn_cuda_device_ops.probe();
	cn_error_hush(false);
	if (none) {
		memcpy(why, cn_last_error(), sizeof why);
		if (choice == CN_DEVICE_CUDA)
			return cn_error(CUDA_ERROR_NO_DEVICE, "CENOTE_DEVICE=cuda, but %s", why);
		cn_error_forget(before);
		cn_log("the host device is used: %s", why);
		choice = CN_DEVICE_HOST;
	}
	cn_device_ops = choice == CN_DEVICE_HOST ? &cn_host_device_ops : &cn_cuda_device_ops;
	return cn_device_ops->init(devices, ret_count);
}
