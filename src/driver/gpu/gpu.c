/* SPDX-License-Identifier: MIT */
/*
 * The slots on a GPU, and the functions that programs ask for by name (see gpu.h).
 *
 * The driver answers cuGetProcAddress, with its versions and its statuses. Then, if its answer is a function that has a
 * slot or passes through us, ours takes its place: a table maps the driver's functions to ours. So this code needs to
 * know nothing of a function that is the driver's alone.
 *
 * A function with a slot is always answered with the jump, the same that a program is linked with. For a program may
 * ask before cuInit(), when it is not known yet whether there is a GPU; the jump leads to wherever cuInit() sets it.
 */
#include "driver/gpu/gpu.h"

#include "base/jump.h"
#include "device/cuda/cuda_library.h"
#include "driver/common/mempool.h"

#include <stdlib.h>
#include <string.h>

enum { SAYS_MAX = 2048 };

bool cn_gpu_is_used;

/* A function of the driver, and what a program gets in its place. */
struct say {
	void *driver, *ours;
};

static CN_SLOW_LOCK(GPU_CALLS) mutex;
static enum { UNKNOWN, ABSENT, PREPARED } _Atomic state;
static struct say says[SAYS_MAX]; /* by `driver`; does not change once it is PREPARED */
static size_t say_count;
static bool pools_are_drivers; /* then everything is, except the entry calls */

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* CENOTE_POOLS: are the pools Cenote's or the driver's? */
static CUresult read_pools(bool *ret_drivers)
{
	const char *pools = secure_getenv("CENOTE_POOLS");

	if (pools && *pools && strcmp(pools, "cenote") != 0 && strcmp(pools, "driver") != 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "CENOTE_POOLS is '%s'; it takes cenote or driver", pools);
	*ret_drivers = pools && strcmp(pools, "driver") == 0;
	return CUDA_SUCCESS;
}

/* The calls through which a program gets in: ours, even if the pools are the driver's. */
static bool is_way_in(const char *symbol)
{
	return strcmp(symbol, "cuInit") == 0 || strncmp(symbol, "cuGetProcAddress", strlen("cuGetProcAddress")) == 0;
}

/* NULL: the driver's function alone. */
static const struct cn_gpu_call *find_call(const char *symbol)
{
	if (pools_are_drivers && !is_way_in(symbol))
		return NULL;
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++)
		if (strcmp(call->symbol, symbol) == 0)
			return call;
	return NULL;
}

static const struct cn_slot_name *find_slot(const char *symbol)
{
	for (size_t i = 0; i < cn_slot_count; i++)
		if (strcmp(cn_slot_names[i].symbol, symbol) == 0)
			return &cn_slot_names[i];
	return NULL;
}

/* Takes the place of functions that this driver is too old for. */
static CUresult absent(void)
{
	return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the driver %s has no such function", cn_cuda_path());
}

/* The driver's function of a slot; NULL: it has none. */
static void *driver_of_slot(const struct cn_slot_name *slot)
{
	void *function = cn_cuda_function(slot->name, slot->since, slot->per_thread);

	return function ? function : cn_cuda_symbol(slot->symbol);
}

/* ---- The driver's functions and ours ----------------------------------------------------------------------------- */

static int by_driver(const void *left, const void *right)
{
	const struct say *a = left, *b = right;

	return a->driver < b->driver ? -1 : a->driver > b->driver;
}

static void say(void *driver, void *ours)
{
	if (driver && say_count < SAYS_MAX)
		says[say_count++] = (struct say){driver, ours};
}

/* Most likely the same function; but a driver could have two entries. */
static void say_both(void *by_name, void *by_symbol, void *ours)
{
	say(by_name, ours);
	if (by_symbol != by_name)
		say(by_symbol, ours);
}

static void prepare_slot(size_t i)
{
	const struct cn_slot_name *slot = &cn_slot_names[i];

	say_both(cn_cuda_function(slot->name, slot->since, slot->per_thread), cn_cuda_symbol(slot->symbol),
		 cn_slots_entries[i]);
}

static void prepare_call(const struct cn_gpu_call *call)
{
	const struct cn_slot_name *slot = find_slot(call->symbol);
	bool per_thread = strstr(call->symbol, "_pts") || strstr(call->symbol, "_ptd");
	void *by_symbol = cn_cuda_symbol(call->symbol), *by_name;

	if (slot)
		by_name = cn_cuda_function(slot->name, slot->since, slot->per_thread);
	else /* a driver without this form would give an older one */
		by_name = by_symbol && call->name ? cn_cuda_function(call->name, call->since, per_thread) : NULL;
	if (!slot && find_call(call->symbol))
		say_both(by_name, by_symbol, call->function);
	if (call->driver)
		*call->driver = by_name ? by_name : by_symbol ? by_symbol : (void *)absent;
}

static bool prepare(void)
{
	if (read_pools(&pools_are_drivers))
		return false;
	say_count = 0;
	for (size_t i = 0; i < cn_slot_count; i++)
		prepare_slot(i);
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++)
		prepare_call(call);
	qsort(says, say_count, sizeof says[0], by_driver);
	return say_count < SAYS_MAX;
}

/* Open the driver and make the table. Not again after a failure: programs ask for hundreds of names. */
static bool is_prepared(void)
{
	char kept[CN_SENTENCE_BYTES];
	enum cn_device_choice choice;

	if (atomic_load(&state) == UNKNOWN) {
		memcpy(kept, cn_last_error(), sizeof kept);
		cn_error_hush(true); /* cuInit() will report it */
		cn_slow_lock(&mutex);
		if (atomic_load(&state) == UNKNOWN) {
			bool there = CN_HAS_JUMPS && !cn_device_choice(&choice) && choice != CN_DEVICE_HOST &&
				     !cn_cuda_open() && prepare();
			atomic_store(&state, there ? PREPARED : ABSENT);
		}
		cn_slow_unlock(&mutex);
		cn_error_hush(false);
		cn_error_forget(kept);
	}
	return atomic_load(&state) == PREPARED;
}

bool cn_gpu_expected(void)
{
	return cn_gpu_is_used || (!atomic_load(&cn_ready) && is_prepared());
}

CUresult cn_gpu_take_over(void)
{
	bool drivers;
	CUresult result = read_pools(&drivers);

	if (result)
		return result;
	if (atomic_load(&state) == ABSENT)
		atomic_store(&state, UNKNOWN);
	if (!is_prepared())
		return cn_error(CUDA_ERROR_NO_DEVICE, "Cenote does not support GPUs on this kind of machine");
	for (size_t i = 0; i < cn_slot_count; i++) {
		const struct cn_gpu_call *call = find_call(cn_slot_names[i].symbol);
		void *function = call ? call->function : driver_of_slot(&cn_slot_names[i]);
		void **leads = call && cn_behind[i] ? &cn_behind[i] : &cn_slots[i];
		__atomic_store_n(leads, function ? function : (void *)absent, __ATOMIC_RELEASE);
	}
	cn_mempools_go_on_gpu();
	cn_gpu_is_used = true;
	return CUDA_SUCCESS;
}

/* ---- By name ----------------------------------------------------------------------------------------------------- */

/* What a program gets for a function of the driver. */
static void *ours_for(void *driver)
{
	struct say key = {.driver = driver};
	const struct say *found = driver ? bsearch(&key, says, say_count, sizeof says[0], by_driver) : NULL;

	return found ? found->ours : driver;
}

CUresult cn_gpu_proc_address(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	void *driver = NULL;
	CUresult result = cn_cuda_proc_address(name, &driver, version, flags, status);

	if (!result)
		*function = ours_for(driver);
	return result;
}

void *cn_gpu_symbol(const char *symbol)
{
	if (!cn_gpu_expected())
		return NULL;
	const struct cn_gpu_call *call = find_call(symbol);
	void *driver = cn_cuda_symbol(symbol);
	return call && driver ? call->function : driver;
}

const char *cn_gpu_call_name(const void *function)
{
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++) {
		if (call->function == function) {
			const struct cn_slot_name *slot = find_slot(call->symbol);
			return slot ? slot->name : call->name;
		}
	}
	return NULL;
}
