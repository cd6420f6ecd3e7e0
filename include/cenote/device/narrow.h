/* SPDX-License-Identifier: MIT */
/*
 * A 16-bit floating-point type with CUDA's names. cuda_fp16.h and cuda_bf16.h each include this once, so it has no
 * guard; it reads these macros and undefines them:
 *
 *   __CENOTE_NUMBER, __CENOTE_NUMBER_RAW  the type, as __half, and CUDA's structure of its bits
 *   __CENOTE_PAIR, __CENOTE_PAIR_RAW      two of them
 *   __CENOTE_INFINITY                     infinity's bits
 *   __CENOTE_BITS(name)                   a function of narrow_bits.h, as __cenote_half_add
 *   __CENOTE_NAME(before, after)          a function's name around the type's word: before, "half", after
 *   __CENOTE_TWICE                        the name that has it twice, as __half2half2
 */
#include "narrow_types.h"
#if defined(__clang__) && defined(__CUDA__)
#include "narrow_functions.h"
#endif

#undef __CENOTE_NUMBER
#undef __CENOTE_NUMBER_RAW
#undef __CENOTE_PAIR
#undef __CENOTE_PAIR_RAW
#undef __CENOTE_INFINITY
#undef __CENOTE_BITS
#undef __CENOTE_NAME
#undef __CENOTE_TWICE
