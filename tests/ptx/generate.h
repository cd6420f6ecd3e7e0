/* SPDX-License-Identifier: MIT */
/*
 * Random programs in PTX whose results a GPU and we must agree on, bit by bit.
 *
 * A seed makes a program and its input: integers, IEEE floats in all rounding modes, conversions, predicates, branches
 * that part the threads of a warp, loops of different lengths, calls, tables of branches, local, constant and shared
 * memory, barriers, shuffles, votes, and atomics whose result does not depend on their order. Nothing in it is left
 * open by PTX: approximations and sums that a compiler may fuse are not used, and a NaN is made the same NaN after each
 * operation of f32 and f64 that can give one.
 *
 * Of the programs that were run on a GPU, golden/programs.txt leaves out two kinds, on which the GPU's answer is not
 * what PTX says, because of what ptxas 13.0 makes of them. It leaves out min.f16 %h, %x, %x, so that a NaN stays as it
 * was. And it takes the threads of a warp to be together behind a recursive call, where they are not: a call inside of
 * a branch clears the register that the branch joins by. A shuffle or vote there does not wait, and a vote differs
 * within a warp. Of 139 programs 16 hung for this and 8 differed; a bar.warp.sync before each did not help, but without
 * the recursion none hangs, and all of these give our results.
 *
 * A program must not change for a seed that is kept: the draws and their order stay.
 *
 * The kernel `k` gets four parameters: the input, the output, a structure of GENERATE_STRUCT_BYTES bytes (byte i is
 * 7 * i + 1), and a number. It is launched with GENERATE_BLOCKS blocks of GENERATE_THREADS threads.
 */
#ifndef CENOTE_TESTS_PTX_GENERATE_H
#define CENOTE_TESTS_PTX_GENERATE_H

#include <stddef.h>
#include <stdint.h>

enum {
	GENERATE_BLOCKS = 2,
	GENERATE_THREADS = 96,
	GENERATE_STRUCT_BYTES = 24,
	GENERATE_NUMBER = 12345,
	GENERATE_IN_BYTES = 64,   /* a thread */
	GENERATE_OUT_BYTES = 256, /* a thread */
	GENERATE_ALL_IN_BYTES = GENERATE_IN_BYTES * GENERATE_THREADS * GENERATE_BLOCKS,
	GENERATE_ALL_OUT_BYTES = GENERATE_OUT_BYTES * GENERATE_THREADS * GENERATE_BLOCKS,
};

/* The text of a seed's program: to be freed. */
char *generate_text(uint64_t seed);
/* Its input, GENERATE_ALL_IN_BYTES. */
void generate_input(uint64_t seed, unsigned char *ret_input);
/* What is kept of an output. */
uint64_t generate_digest(const unsigned char *output, size_t bytes);

#endif
