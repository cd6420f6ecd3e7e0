/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcuda.so.1: where a function that Cenote does not have leads (see forward.S).
 */
#include "dropin/forward.h"

#include "dropin/missing.h"

#include <stdint.h>

void *cn_forward_find(void **slot)
{
	const struct cn_forward *forward = &cn_forwards[slot - cn_forward_slots];
	void *function = cenote_driver_symbol(forward->name);

	/* Without a driver this may change when a cuInit() finds one: nothing is kept. */
	if (!function)
		return (void *)(uintptr_t)forward->missing;
	__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	return function;
}
