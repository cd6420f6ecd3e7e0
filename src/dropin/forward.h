/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcuda.so.1: the table of the functions that go to the real driver, made by scripts/generate_api.py.
 */
#ifndef CN_DROPIN_FORWARD_H
#define CN_DROPIN_FORWARD_H

struct cn_forward {
	const char *name;
	int (*missing)(void); /* called if there is no driver */
};

/* In the order of the slots. */
extern const struct cn_forward cn_forwards[];
extern void *cn_forward_slots[];

/* Called by forward.S at a function's first call: returns the address to jump to. */
void *cn_forward_find(void **slot);

#endif
