/* SPDX-License-Identifier: MIT */
/*
 * The account of this process: its life, and what a fork does to it. See device_account.h.
 */
#include "device/device_account.h"
#include "base/fork.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
	CN_SLOW_LOCK(DEVICE_ACCOUNT) lock;
	bool is_copy; /* in a forked child, which counts nothing */
	struct cn_account *account;
} own;

/* Another thread may have had the lock, which then stays locked here. */
static void drop_in_child(void)
{
	if (own.account)
		cn_account_drop(own.account);
	own.is_copy = true;
}

static struct cn_fork_hook fork_hook = {.order = CN_FORK_DEVICE_ACCOUNT, .child = drop_in_child};

/* Nothing is counted any more. */
static void close_account(void)
{
	if (own.is_copy)
		return;
	cn_slow_lock(&own.lock);
	struct cn_account *account = own.account;
	own.account = NULL;
	if (account)
		cn_account_close(account);
	cn_slow_unlock(&own.lock);
}

void cn_device_account_open(uint64_t capacity_bytes)
{
	static bool closes_at_exit;
	char kept[CN_SENTENCE_BYTES], why[CN_SENTENCE_BYTES];
	struct cn_account *account = NULL;

	close_account();
	snprintf(kept, sizeof kept, "%s", cn_last_error());
	cn_error_hush(true);
	bool watched = cn_fork_watch(&fork_hook);
	cn_fork_hold();
	CUresult result = watched ? cn_account_open(capacity_bytes, &account)
				  : cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a fork's hook");
	cn_slow_lock(&own.lock);
	own.account = account;
	cn_slow_unlock(&own.lock);
	cn_fork_allow();
	cn_error_hush(false);
	if (!result) {
		/* If this fails, another process removes the file, as that of a killed one. */
		closes_at_exit = closes_at_exit || !atexit(close_account);
		return;
	}
	snprintf(why, sizeof why, "%s", cn_last_error());
	cn_error_forget(kept);
	cn_log("this process counts the memory of its devices alone: %s", why);
}

/* From now on this process counts alone. Locked. */
static void lose(const char *why)
{
	cn_log("this process counts the memory of its devices alone: %s", why);
	cn_account_close(own.account);
	own.account = NULL;
}

struct cn_account *cn_device_account_lock(bool writes)
{
	cn_slow_lock(&own.lock);
	if (own.account && writes)
		cn_account_prepare(own.account);
	return own.account;
}

void cn_device_account_unlock(void)
{
	if (own.account)
		cn_account_finish(own.account);
	cn_slow_unlock(&own.lock);
}

struct cn_account *cn_device_account_join(unsigned device)
{
	if (own.account && !cn_account_join(own.account, device))
		lose("no slot of the account in the runtime directory can be had");
	return own.account;
}

void cn_device_account_expect(bool done)
{
	if (!done && own.account)
		lose("the account in the runtime directory cannot be read and written");
}

struct cn_account *cn_device_account(void)
{
	return own.account;
}

void cn_device_account_count(unsigned device, int64_t bytes)
{
	cn_device_account_lock(true);
	struct cn_account *account = cn_device_account_join(device);
	if (account && bytes)
		cn_device_account_expect(bytes > 0 ? cn_account_count(account, device, (uint64_t)bytes)
						   : cn_account_give(account, device, (uint64_t)-bytes));
	cn_device_account_unlock();
}
