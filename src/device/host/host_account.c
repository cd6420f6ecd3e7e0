/* SPDX-License-Identifier: MIT */
/*
 * The bytes of the host devices: see host_account.h, and base/account.h for how processes agree.
 *
 * Two processes that bid at the same time for what only one can have may both see that it is too much. A process that
 * was refused only for what others bid tries again in turn, while the others' bids are retracted or settled. It
 * waits without the account's lock, which threads take that must not wait for another process.
 */
#include "device/host/host_account.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/fork.h"
#include "device/host/host_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	TURN_MS_MAX = 1000,   /* a process that has the turn may be stopped */
	BIDS_MS_MAX = 100,    /* so may one that has bid */
	PAUSE_NS = 50 * 1000, /* between two looks */
};

static struct {
	CN_SLOW_LOCK(HOST_TURN) turn; /* one thread at a time waits for the process's turn */
	CN_SLOW_LOCK(HOST_ACCOUNT) lock;
	bool is_copy;               /* in a forked child, which counts nothing */
	struct cn_account *account; /* NULL: this process counts alone */
	size_t used[CN_DEVICE_MAX]; /* by this process */
} counting;

_Static_assert((int)CN_DEVICE_MAX <= (int)CN_ACCOUNT_DEVICES, "the account has room for each device");

/* ---- The account, or none ---- */

/* Another thread may have had the lock, which then stays locked here. */
static void drop_in_child(void)
{
	if (counting.account)
		cn_account_drop(counting.account);
	counting.is_copy = true;
}

static struct cn_fork_hook fork_hook = {.order = CN_FORK_HOST_ACCOUNT, .child = drop_in_child};

/* From now on this process counts alone. Locked. */
static void lose(const char *why)
{
	cn_log("this process counts the memory of its devices alone: %s", why);
	cn_account_close(counting.account);
	counting.account = NULL;
}

/* Nothing is counted any more. */
static void close_account(void)
{
	if (counting.is_copy)
		return;
	cn_slow_lock(&counting.lock);
	struct cn_account *account = counting.account;
	counting.account = NULL;
	if (account)
		cn_account_close(account);
	cn_slow_unlock(&counting.lock);
}

void cn_host_account_open(size_t capacity_bytes)
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
	cn_slow_lock(&counting.lock);
	counting.account = account;
	cn_slow_unlock(&counting.lock);
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

/* The account with a slot for the device, or NULL. Locked. */
static struct cn_account *join(unsigned physical)
{
	if (counting.account && !cn_account_join(counting.account, physical))
		lose("no slot of the account in the runtime directory can be had");
	return counting.account;
}

/* Call it with what a call of the account returned. Locked. */
static void expect(bool done)
{
	if (!done && counting.account)
		lose("the account in the runtime directory cannot be read and written");
}

/* ---- Taking ---- */

enum outcome { TAKEN, REFUSED, CONTENDED };

/* A request, and what was used when it was refused. */
struct request {
	struct cn_device *device;
	unsigned physical;
	uint64_t bytes, used;
};

static bool fits(const struct request *request, uint64_t used, uint64_t more)
{
	uint64_t total = request->device->total_bytes;

	return used <= total && more <= total - used;
}

static CUresult refuse(const struct request *request, size_t own)
{
	const struct cn_device *device = request->device;
	uint64_t others = request->used > own ? request->used - own : 0;

	if (!others)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				"device %d has %zu of %zu bytes in use: no room for %zu more "
				"(CENOTE_HOST_MEMORY sets the size)",
				device->ordinal, own, device->total_bytes, (size_t)request->bytes);
	return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
			"device %d has %zu of %zu bytes in use, %zu of them from other processes: no room for %zu more "
			"(CENOTE_HOST_MEMORY sets the size)",
			device->ordinal, (size_t)request->used, device->total_bytes, (size_t)others,
			(size_t)request->bytes);
}

/* Locked. */
static enum outcome take_alone(struct request *request)
{
	request->used = counting.used[request->physical];
	return fits(request, request->used, request->bytes) ? TAKEN : REFUSED;
}

/* What was bid for is ours, or not. Locked. */
static enum outcome conclude(const struct request *request, enum outcome outcome)
{
	expect(outcome == TAKEN ? cn_account_settle(counting.account, request->physical, request->bytes)
				: cn_account_retract(counting.account, request->physical, request->bytes));
	return outcome;
}

/* Bid, and look. CONTENDED: others have bid at the same time. Locked. */
static enum outcome take_now(struct request *request)
{
	struct cn_account *account = join(request->physical);
	struct cn_account_sum sum;

	if (!account)
		return take_alone(request);
	if (!cn_account_bid(account, request->physical, request->bytes) ||
	    !cn_account_sum(account, request->physical, false, &sum))
		goto lost;
	if (fits(request, cn_account_used(&sum), sum.bid))
		return conclude(request, TAKEN);
	/* Dead processes were counted, and what moved meanwhile twice. */
	if (!cn_account_sum(account, request->physical, true, &sum))
		goto lost;
	request->used = cn_account_used(&sum);
	return conclude(request, fits(request, request->used, request->bytes) ? CONTENDED : REFUSED);

lost:
	expect(false);
	return take_alone(request);
}

static void pause_between_looks(void)
{
	struct timespec pause = {.tv_nsec = PAUSE_NS};

	nanosleep(&pause, NULL);
}

/* Wait until it is this process's turn. Not locked. */
static bool begin_turn(void)
{
	uint64_t deadline_ns = cn_clock_ns() + TURN_MS_MAX * CN_MILLISECOND_NS;

	for (;;) {
		cn_slow_lock(&counting.lock);
		bool began = !counting.account || cn_account_begin_turn(counting.account);
		cn_slow_unlock(&counting.lock);
		if (began || cn_clock_ns() >= deadline_ns)
			return began;
		pause_between_looks();
	}
}

/* Bid, and wait until nothing is left of what others had bid before. Not locked. */
static void bid_in_turn(const struct request *request)
{
	uint64_t deadline_ns = cn_clock_ns() + BIDS_MS_MAX * CN_MILLISECOND_NS, others = 1;

	cn_slow_lock(&counting.lock);
	if (counting.account)
		expect(cn_account_bid(counting.account, request->physical, request->bytes));
	if (counting.account)
		cn_account_note_bids(counting.account, request->physical);
	cn_slow_unlock(&counting.lock);
	while (others && cn_clock_ns() < deadline_ns) {
		cn_slow_lock(&counting.lock);
		others = counting.account ? cn_account_noted_bids(counting.account, request->physical) : 0;
		cn_slow_unlock(&counting.lock);
		if (others)
			pause_between_looks();
	}
}

/* Locked. */
static enum outcome decide_in_turn(struct request *request)
{
	struct cn_account_sum sum;

	if (counting.account && !cn_account_sum(counting.account, request->physical, true, &sum))
		expect(false);
	if (!counting.account)
		return take_alone(request);
	/* A bid that came after ours was made with ours in sight. */
	uint64_t noted = cn_account_noted_bids(counting.account, request->physical);
	request->used = cn_account_used(&sum);
	bool fitting = fits(request, request->used, noted) && fits(request, request->used + noted, request->bytes);
	enum outcome outcome = conclude(request, fitting ? TAKEN : REFUSED);
	if (counting.account)
		cn_account_end_turn(counting.account);
	return outcome;
}

CUresult cn_host_account_take(struct cn_host_bytes *file, struct cn_device *device, size_t count)
{
	struct request request = {.device = device, .physical = (unsigned)device->physical, .bytes = count};
	CUresult result = CUDA_SUCCESS;

	cn_slow_lock(&counting.lock);
	enum outcome outcome = take_now(&request);
	if (outcome == CONTENDED) {
		cn_slow_unlock(&counting.lock);
		cn_slow_lock(&counting.turn);
		bool turn = begin_turn();
		if (turn)
			bid_in_turn(&request);
		cn_slow_lock(&counting.lock);
		outcome = turn ? decide_in_turn(&request) : REFUSED;
		cn_slow_unlock(&counting.turn);
	}
	if (outcome == TAKEN) {
		counting.used[request.physical] += count;
		file->device = device;
		file->bytes += count;
		if (counting.account && file->entry)
			expect(cn_account_change(counting.account, request.physical, file->entry, file->bytes));
	} else {
		result = refuse(&request, counting.used[request.physical]);
	}
	cn_slow_unlock(&counting.lock);
	return result;
}

/* ---- Giving, sharing, holding ---- */

void cn_host_account_give(struct cn_host_bytes *file, size_t count)
{
	cn_slow_lock(&counting.lock);
	unsigned physical = (unsigned)file->device->physical;
	counting.used[physical] -= count;
	file->bytes -= count;
	if (counting.account && file->entry)
		expect(cn_account_change(counting.account, physical, file->entry, file->bytes));
	if (counting.account)
		expect(cn_account_give(counting.account, physical, count));
	cn_slow_unlock(&counting.lock);
}

/* Locked. */
static void end_locked(const struct cn_host_bytes *file)
{
	unsigned physical = (unsigned)file->device->physical;

	counting.used[physical] -= file->bytes;
	if (counting.account && file->entry)
		expect(cn_account_give_up(counting.account, physical, file->entry));
	else if (counting.account && file->bytes)
		expect(cn_account_give(counting.account, physical, file->bytes));
}

void cn_host_account_end(struct cn_host_bytes *file)
{
	cn_slow_lock(&counting.lock);
	if (file->device)
		end_locked(file);
	*file = (struct cn_host_bytes){0};
	cn_slow_unlock(&counting.lock);
}

void cn_host_account_share(struct cn_host_bytes *file, int fd)
{
	struct stat status;

	cn_slow_lock(&counting.lock);
	if (counting.account && file->device && !file->entry && !fstat(fd, &status))
		file->entry = cn_account_enter_made(counting.account, (unsigned)file->device->physical, status.st_ino,
						    file->bytes);
	cn_slow_unlock(&counting.lock);
}

void cn_host_account_hold(int fd, struct cn_host_hold *ret_hold)
{
	struct cn_host_hold hold = {0};
	struct stat status;

	cn_slow_lock(&counting.lock);
	if (counting.account && !fstat(fd, &status))
		hold.entry = cn_account_enter_held(counting.account, status.st_ino, &hold.physical);
	cn_slow_unlock(&counting.lock);
	*ret_hold = hold;
}

void cn_host_account_release(struct cn_host_hold *hold)
{
	if (!hold->entry)
		return;
	cn_slow_lock(&counting.lock);
	if (counting.account)
		expect(cn_account_leave(counting.account, hold->physical, hold->entry));
	cn_slow_unlock(&counting.lock);
	*hold = (struct cn_host_hold){0};
}

size_t cn_host_used_bytes(const struct cn_device *device)
{
	unsigned physical = (unsigned)device->physical;
	struct cn_account_sum sum;

	cn_slow_lock(&counting.lock);
	uint64_t used = counting.used[physical];
	if (counting.account && !cn_account_sum(counting.account, physical, true, &sum))
		expect(false);
	if (counting.account)
		used = cn_account_used(&sum);
	cn_slow_unlock(&counting.lock);
	return used < device->total_bytes ? (size_t)used : device->total_bytes;
}
