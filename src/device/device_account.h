/* SPDX-License-Identifier: MIT */
/*
 * The account in which this process counts the memory of its devices, as others do (base/account.h): one, whichever
 * kind of device the process uses.
 *
 * On the host device it decides what a process may have (device/host/host_account.h). On a GPU the driver does, and
 * the account only says which process has what: the memory of pools that no other process has, of all GPUs together,
 * in the slot of device 0. Where there is no account to be had, a process counts alone.
 */
#ifndef CN_DEVICE_DEVICE_ACCOUNT_H
#define CN_DEVICE_DEVICE_ACCOUNT_H

#include "base/account.h"
#include "base/lock.h"

/* At the start. If there is none, CENOTE_LOG=debug says why. CN_ACCOUNT_OF_GPUS: the one of GPUs. */
void cn_device_account_open(uint64_t capacity_bytes);

/*
 * The account, under its lock; NULL: there is none. `writes`: it is made ready for this thread (cn_account_prepare()).
 * It is a slow lock, and everything that is counted may be kept under it.
 */
struct cn_account *cn_device_account_lock(bool writes);
void cn_device_account_unlock(void);

/* Locked: the account, with a slot for the device; NULL: there is none. */
struct cn_account *cn_device_account_join(unsigned device);
/* Locked: call it with what a call of the account returned. False: from now on there is no account. */
void cn_device_account_expect(bool done);
/* Locked: as cn_device_account_lock() returned it; but it may have been lost since. */
struct cn_account *cn_device_account(void);

/* Not locked: count so many bytes more, or fewer, of a device whose memory is not refused here. */
void cn_device_account_count(unsigned device, int64_t bytes);

#endif
