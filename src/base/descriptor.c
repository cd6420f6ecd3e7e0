/* SPDX-License-Identifier: MIT */
/*
 * Checking descriptors from untrusted processes, without asking anything but the kernel.
 */
#include "base/descriptor.h"

#include <stdio.h>

bool cn_descriptor_look(int descriptor, struct statx *ret_status)
{
	return !statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, ret_status);
}

/*
 * Local file systems are on a block device, or in memory; memory has no device to write back to, which /sys would list.
 */
bool cn_descriptor_is_served(const struct statx *status)
{
	char path[64];

	if (status->stx_dev_major)
		return false;
	snprintf(path, sizeof path, "/sys/class/bdi/0:%u", status->stx_dev_minor);
	return !access(path, F_OK);
}

bool cn_descriptor_is_socket(int descriptor)
{
	struct statx status;

	return cn_descriptor_look(descriptor, &status) && S_ISSOCK(status.stx_mode);
}

bool cn_descriptor_leads_to_socket(int descriptor)
{
	return cn_descriptor_is_socket(descriptor) && fcntl(descriptor, F_GETFL) & O_PATH;
}
