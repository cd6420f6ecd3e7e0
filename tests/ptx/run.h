/* SPDX-License-Identifier: MIT */
/*
 * What the tests of PTX share: load a text, launch a kernel over it.
 */
#ifndef CENOTE_TESTS_PTX_RUN_H
#define CENOTE_TESTS_PTX_RUN_H

#include "ptx/ptx.h"

#include <stdbool.h>

struct run_module {
	struct cn_ptx_module *module;
	void *data;
};

/* Load and place a text, and prepare its kernels; what fails, fails the test. */
struct run_module run_load(const char *text);
/* The same of a body: a kernel `k` with parameters p0 to p3 of 64 bits; run.c declares its registers. */
struct run_module run_load_body(const char *body);
void run_unload(struct run_module *module);
/* The sentence that loading a text or preparing its kernels ends with; "" when all is well. *ret_line may be NULL. */
const char *run_refusal(const char *text, unsigned *ret_line);
const char *run_refusal_of_body(const char *body, unsigned *ret_line);

struct run_launch {
	const char *kernel; /* NULL: the first */
	unsigned grid[3], block[3], dynamic_shared_bytes;
	const void *parameters;
	uint64_t budget; /* of each turn; 0: the usual one */
};

/* Run a launch, all blocks taking turns, until all are done or one has a fault. */
enum cn_ptx_state run_launch(struct run_module *module, const struct run_launch *launch,
			     struct cn_ptx_fault *ret_fault);
/* A kernel with up to four 64-bit parameters, which must end well. */
void run_simply(struct run_module *module, unsigned grid, unsigned block, uint64_t p0, uint64_t p1, uint64_t p2,
		uint64_t p3);
/* What kernels have printed since the last call. */
const char *run_printed(void);
unsigned run_kernel_index(const struct run_module *module, const char *name);
void *run_variable(const struct run_module *module, const char *name);

/* PTX that Debian's clang makes of CUDA code; the test is skipped where there is no clang for it. */
const char *run_compile(const char *source);

#endif
