/* SPDX-License-Identifier: MIT */
/*
 * The bytes of the host devices: see host_account.h, and base/account.h for how processes agree.
 *
 * Two processes that bid at the same time for what only one can have may both see that it is too much. A process that
 * was refused only for what others bid tries again in turn, while the others' bids are retracted or settled. It
 * waits without the account's lock, which threads take that must not wait for another process.
 */
#include "device/host/host_account.h"
#include "base/clock.h"
#include "device/device_account.h"
#include "device/host/host_internal.h"

#include <sys/stat.h>

enum {
	TURN_MS_MAX = 1000,   /* a process that has the turn may be stopped */
	BIDS_MS_MAX = 100,    /* so may one that has bid */
	PAUSE_NS = 50 * 1000, /* between two looks */
};

static struct {
	CN_SLOW_LOCK(HOST_TURN) turn; /* one thread at a time waits for the process's turn */
	size_t used[CN_DEVICE_MAX];   /* by this process; under the account's lock */
} counting;

_Static_assert((int)CN_DEVICE_MAX <= (int)CN_ACCOUNT_DEVICES, "the account has room for each device");

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
	cn_device_account_expect(outcome == TAKEN
					 ? cn_account_settle(cn_device_account(), request->physical, request->bytes)
					 : cn_account_retract(cn_device_account(), request->physical, request->bytes));
	return outcome;
}

/* Bid, and look. CONTENDED: others have bid at the same time. Locked. */
static enum outcome take_now(struct request *request)
{
	struct cn_account *account = cn_device_account_join(request->physical);
	struct cn_account_sum sum = {0};

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
	cn_device_account_expect(false);
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
		cn_device_account_lock(true);
		bool began = !cn_device_account() || cn_account_begin_turn(cn_device_account());
		cn_device_account_unlock();
		if (began || cn_clock_ns() >= deadline_ns)
			return began;
		pause_between_looks();
	}
}

/* Bid, and wait until nothing is left of what others had bid before. Not locked. */
static void bid_in_turn(const struct request *request)
{
	uint64_t deadline_ns = cn_clock_ns() + BIDS_MS_MAX * CN_MILLISECOND_NS, others = 1;

	cn_device_account_lock(true);
	if (cn_device_account())
		cn_device_account_expect(cn_account_bid(cn_device_account(), request->physical, request->bytes));
	if (cn_device_account())
		cn_account_note_bids(cn_device_account(), request->physical);
	cn_device_account_unlock();
	while (others && cn_clock_ns() < deadline_ns) {
		cn_device_account_lock(true);
		others = cn_device_account() ? cn_account_noted_bids(cn_device_account(), request->physical) : 0;
		cn_device_account_unlock();
		if (others)
			pause_between_looks();
	}
}

/* Locked. */
static enum outcome decide_in_turn(struct request *request)
{
	struct cn_account_sum sum = {0};

	if (cn_device_account() && !cn_account_sum(cn_device_account(), request->physical, true, &sum))
		cn_device_account_expect(false);
	if (!cn_device_account())
		return take_alone(request);
	/* A bid that came after ours was made with ours in sight. */
	uint64_t noted = cn_account_noted_bids(cn_device_account(), request->physical);
	request->used = cn_account_used(&sum);
	bool fitting = fits(request, request->used, noted) && fits(request, request->used + noted, request->bytes);
	enum outcome outcome = conclude(request, fitting ? TAKEN : REFUSED);
	if (cn_device_account())
		cn_account_end_turn(cn_device_account());
	return outcome;
}

CUresult cn_host_account_take(struct cn_host_bytes *file, struct cn_device *device, size_t count)
{
	struct request request = {.device = device, .physical = (unsigned)device->physical, .bytes = count};
	CUresult result = CUDA_SUCCESS;

	cn_device_account_lock(true);
	enum outcome outcome = take_now(&request);
	if (outcome == CONTENDED) {
		cn_device_account_unlock();
		cn_slow_lock(&counting.turn);
		bool turn = begin_turn();
		if (turn)
			bid_in_turn(&request);
		cn_device_account_lock(true);
		outcome = turn ? decide_in_turn(&request) : REFUSED;
		cn_slow_unlock(&counting.turn);
	}
	if (outcome == TAKEN) {
		counting.used[request.physical] += count;
		file->device = device;
		file->bytes += count;
		if (cn_device_account() && file->entry)
			cn_device_account_expect(
				cn_account_change(cn_device_account(), request.physical, file->entry, file->bytes));
	} else {
		result = refuse(&request, counting.used[request.physical]);
	}
	cn_device_account_unlock();
	return result;
}

/* ---- Giving, sharing, holding ---- */

void cn_host_account_give(struct cn_host_bytes *file, size_t count)
{
	cn_device_account_lock(true);
	unsigned physical = (unsigned)file->device->physical;
	counting.used[physical] -= count;
	file->bytes -= count;
	if (cn_device_account() && file->entry)
		cn_device_account_expect(cn_account_change(cn_device_account(), physical, file->entry, file->bytes));
	if (cn_device_account())
		cn_device_account_expect(cn_account_give(cn_device_account(), physical, count));
	cn_device_account_unlock();
}

/* Locked. */
static void end_locked(const struct cn_host_bytes *file)
{
	unsigned physical = (unsigned)file->device->physical;

	counting.used[physical] -= file->bytes;
	if (cn_device_account() && file->entry)
		cn_device_account_expect(cn_account_give_up(cn_device_account(), physical, file->entry));
	else if (cn_device_account() && file->bytes)
		cn_device_account_expect(cn_account_give(cn_device_account(), physical, file->bytes));
}

void cn_host_account_end(struct cn_host_bytes *file)
{
	if (!file->device) /* an importer's: no system call for it */
		return;
	cn_device_account_lock(true);
	end_locked(file);
	*file = (struct cn_host_bytes){0};
	cn_device_account_unlock();
}

void cn_host_account_share(struct cn_host_bytes *file, int fd)
{
	struct stat status;

	cn_device_account_lock(true);
	if (cn_device_account() && file->device && !file->entry && !fstat(fd, &status))
		file->entry = cn_account_enter_made(cn_device_account(), (unsigned)file->device->physical,
						    status.st_ino, file->bytes);
	cn_device_account_unlock();
}

void cn_host_account_hold(uint64_t file, struct cn_host_hold *ret_hold)
{
	struct cn_host_hold hold = {0};

	cn_device_account_lock(true);
	if (cn_device_account())
		hold.entry = cn_account_enter_held(cn_device_account(), file, &hold.physical);
	cn_device_account_unlock();
	*ret_hold = hold;
}

void cn_host_account_release(struct cn_host_hold *hold)
{
	if (!hold->entry)
		return;
	cn_device_account_lock(true);
	if (cn_device_account())
		cn_device_account_expect(cn_account_leave(cn_device_account(), hold->physical, hold->entry));
	cn_device_account_unlock();
	*hold = (struct cn_host_hold){0};
}

size_t cn_host_used_bytes(const struct cn_device *device)
{
	unsigned physical = (unsigned)device->physical;
	struct cn_account_sum sum = {0};

	cn_device_account_lock(false);
	uint64_t used = counting.used[physical];
	if (cn_device_account() && !cn_account_sum(cn_device_account(), physical, true, &sum))
		cn_device_account_expect(false);
	if (cn_device_account())
		used = cn_account_used(&sum);
	cn_device_account_unlock();
	return used < device->total_bytes ? (size_t)used : device->total_bytes;
}
