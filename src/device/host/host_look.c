/* SPDX-License-Identifier: MIT */
/*
 * Looking at the host devices: see host_look.h.
 *
 * The account is opened for each look. If no process uses the devices, its file is made and removed again.
 */
#include "device/host/host_look.h"
#include "base/account.h"

static CUresult cannot_be_read(void)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the account of the devices' memory cannot be read");
}

CUresult cn_host_used_by_all(const struct cn_device *device, size_t *ret_bytes)
{
	struct cn_account *account;
	struct cn_account_sum sum = {0};
	CUresult result = cn_account_open(device->total_bytes, &account);

	if (result)
		return result;
	if (!cn_account_sum(account, (unsigned)device->physical, true, &sum))
		result = cannot_be_read();
	cn_account_close(account);
	uint64_t used = cn_account_used(&sum);
	if (!result)
		*ret_bytes = used < device->total_bytes ? (size_t)used : device->total_bytes;
	return result;
}

CUresult cn_host_users(const struct cn_device *device, cn_host_user *found, void *data)
{
	struct cn_account *account;
	CUresult result = cn_account_open(device->total_bytes, &account);

	if (result)
		return result;
	if (!cn_account_users(account, (unsigned)device->physical, found, data))
		result = cannot_be_read();
	cn_account_close(account);
	return result;
}
