/* SPDX-License-Identifier: MIT */
/*
 * The bytes of the host devices: taken and given back by memory file, in one account of all processes.
 *
 * A device is the same for the processes that have the runtime directory and CENOTE_HOST_MEMORY in common: what one of
 * them takes, the others do not have (base/account.h). Where there is no account to be had, a process counts alone.
 * Memory counts from when its file has it until the last process that has the file mapped or open is gone. None of this
 * is on a hot path: it is for whole chunks.
 */
#ifndef CN_DEVICE_HOST_HOST_ACCOUNT_H
#define CN_DEVICE_HOST_HOST_ACCOUNT_H

#include "device/device.h"

/* What a memory file that this process made has of its device. All zero: nothing. */
struct cn_host_bytes {
	struct cn_device *device; /* set with the first bytes */
	size_t bytes;
	unsigned entry; /* by which others' holds of the file are known; 0: it has not been shared */
};

/* A memory file of another process. All zero: none, or one that is not of this account. */
struct cn_host_hold {
	unsigned physical, entry;
};

/* CUDA_ERROR_OUT_OF_MEMORY: the device does not have so many more. */
CUresult cn_host_account_take(struct cn_host_bytes *file, struct cn_device *device, size_t bytes);
void cn_host_account_give(struct cn_host_bytes *file, size_t bytes);
/* Other processes may have the file from now on; again is nothing. It is known by its inode. */
void cn_host_account_share(struct cn_host_bytes *file, int fd);
/* This process has the file no longer: give back all. */
void cn_host_account_end(struct cn_host_bytes *file);

/* This process is about to hold a file that another one made, known by its inode; before it maps it. */
void cn_host_account_hold(uint64_t file, struct cn_host_hold *ret_hold);
void cn_host_account_release(struct cn_host_hold *hold);

#endif
