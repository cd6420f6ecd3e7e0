/* SPDX-License-Identifier: MIT */
/*
 * What a kernel sees without including anything: built-in variables, functions, mathematics.
 *
 * cuda_runtime.h includes this at its end when clang compiles CUDA. All functions are bodies in headers, so that an
 * object needs no device library and runs wherever its PTX runs.
 */
#if !defined(__CENOTE_DEVICE_DEVICE_H__)
#define __CENOTE_DEVICE_DEVICE_H__

#include "../vector_functions.h"
#include "compiler.h"
#include <__clang_cuda_builtin_vars.h>

#include "atomic.h"
#include "convert.h"
#include "floating.h"
#include "integer.h"
#include "math_names.h"
#include "memory.h"
#include "system.h"
#include "warp.h"

#endif /* __CENOTE_DEVICE_DEVICE_H__ */
