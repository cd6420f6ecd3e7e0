/* SPDX-License-Identifier: MIT */
/*
 * cenote.h: what CUDA leaves to its users.
 *
 * The CUDA API itself is in cuda.h and cuda_runtime_api.h, ours or NVIDIA's: this header works with either (include
 * NVIDIA's first to use it; otherwise ours, beside this file, is taken).
 *
 *   Errors    cenote_last_error()
 *   Kernels   CENOTE_KERNEL, cenote_thread: kernels of the host device, written in C
 */
#ifndef CENOTE_H
#define CENOTE_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#define CENOTE_ALIGNOF alignof
#else
#define CENOTE_ALIGNOF _Alignof
#endif

#define CENOTE_API __attribute__((visibility("default")))

#define CENOTE_VERSION_MAJOR 0
#define CENOTE_VERSION_MINOR 1
#define CENOTE_VERSION_PATCH 0

/*
 * Why the last call failed, as a sentence.
 *
 * Every call of Cenote that fails in this thread leaves one beside CUDA's code; a call that succeeds leaves it alone,
 * as errno. Returns "" before the first failure, never NULL. The text is the thread's own and valid until its next
 * failure. With CENOTE_LOG=debug in the environment, each sentence is also printed to standard error.
 */
CENOTE_API const char *cenote_last_error(void);

/*
 * Kernels.
 *
 * On the host device a kernel is a C function that is called once for each thread of the launch:
 *
 *     static void scale(const cenote_thread *at, void **args)
 *     {
 *             float *x = *(float **)args[0];
 *             float by = *(float *)args[1];
 *             size_t i = (size_t)at->blockIdx.x * at->blockDim.x + at->threadIdx.x;
 *             x[i] *= by;
 *     }
 *     CENOTE_KERNEL(scale, float *, float);
 *
 * args[i] points to the launch's own copy of the i-th parameter. CENOTE_KERNEL makes the function known, together
 * with the types of its parameters (up to 16), so that a launch can copy them and so that launching anything else is
 * an error and not a jump. A kernel is launched by its address, cudaLaunchKernel((void *)scale, …), or by its name,
 * from a shared object that cuModuleLoad() opens.
 *
 * Blocks run in any order, on all cores; the threads of a block run one after the other on one core, so a kernel cannot
 * wait for another thread of its block. at->shared is the block's dynamic shared memory, not zeroed, NULL when the
 * launch asked for none.
 */
typedef struct cenote_dim {
	unsigned int x, y, z;
} cenote_dim;

typedef struct cenote_thread {
	cenote_dim gridDim, blockDim, blockIdx, threadIdx;
	void *shared;
} cenote_thread;

typedef void (*cenote_kernel_function)(const cenote_thread *at, void **args);

/* What CENOTE_KERNEL leaves in a program; not for use by hand. */
typedef struct cenote_kernel {
	unsigned int version; /* CENOTE_KERNEL_VERSION */
	unsigned int parameter_count;
	const char *name;
	cenote_kernel_function function;
	const unsigned int *parameter_bytes;
	const unsigned int *parameter_alignment;
} cenote_kernel;

#define CENOTE_KERNEL_VERSION 0x43454B01u

/*
 * Called by CENOTE_KERNEL when a program or a shared object is loaded and unloaded. Weak: a shared object with kernels
 * need not be linked with Cenote.
 */
CENOTE_API void cenote_kernel_register(const cenote_kernel *kernel) __attribute__((weak));
CENOTE_API void cenote_kernel_unregister(const cenote_kernel *kernel) __attribute__((weak));

#define CENOTE_KERNEL(name_, ...)                                                                                 \
	static const unsigned int cenote_bytes_of_##name_[] = {CENOTE_MAP_(sizeof, ##__VA_ARGS__) 0};             \
	static const unsigned int cenote_alignment_of_##name_[] = {CENOTE_MAP_(CENOTE_ALIGNOF, ##__VA_ARGS__) 0}; \
	extern CENOTE_API const cenote_kernel cenote_kernel_##name_;                                              \
	const cenote_kernel cenote_kernel_##name_ = {                                                             \
		CENOTE_KERNEL_VERSION,                                                                            \
		(unsigned int)(sizeof cenote_bytes_of_##name_ / sizeof(unsigned int)) - 1,                        \
		#name_,                                                                                           \
		name_,                                                                                            \
		cenote_bytes_of_##name_,                                                                          \
		cenote_alignment_of_##name_,                                                                      \
	};                                                                                                        \
	__attribute__((constructor)) static void cenote_register_##name_(void)                                    \
	{                                                                                                         \
		if (cenote_kernel_register)                                                                       \
			cenote_kernel_register(&cenote_kernel_##name_);                                           \
	}                                                                                                         \
	__attribute__((destructor)) static void cenote_unregister_##name_(void)                                   \
	{                                                                                                         \
		if (cenote_kernel_unregister)                                                                     \
			cenote_kernel_unregister(&cenote_kernel_##name_);                                         \
	}                                                                                                         \
	struct cenote_semicolon_after_##name_

/* f(a), f(b), … for up to 16 types; each followed by a comma. */
#define CENOTE_MAP_(f, ...)                                                                                           \
	CENOTE_PICK_(, ##__VA_ARGS__, CENOTE_M16_, CENOTE_M15_, CENOTE_M14_, CENOTE_M13_, CENOTE_M12_, CENOTE_M11_,   \
		     CENOTE_M10_, CENOTE_M9_, CENOTE_M8_, CENOTE_M7_, CENOTE_M6_, CENOTE_M5_, CENOTE_M4_, CENOTE_M3_, \
		     CENOTE_M2_, CENOTE_M1_, CENOTE_M0_)                                                              \
	(f, ##__VA_ARGS__)
#define CENOTE_PICK_(z, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, picked, ...) picked
#define CENOTE_M0_(f)
#define CENOTE_M1_(f, t)       (unsigned int)f(t),
#define CENOTE_M2_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M1_(f, __VA_ARGS__)
#define CENOTE_M3_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M2_(f, __VA_ARGS__)
#define CENOTE_M4_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M3_(f, __VA_ARGS__)
#define CENOTE_M5_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M4_(f, __VA_ARGS__)
#define CENOTE_M6_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M5_(f, __VA_ARGS__)
#define CENOTE_M7_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M6_(f, __VA_ARGS__)
#define CENOTE_M8_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M7_(f, __VA_ARGS__)
#define CENOTE_M9_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M8_(f, __VA_ARGS__)
#define CENOTE_M10_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M9_(f, __VA_ARGS__)
#define CENOTE_M11_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M10_(f, __VA_ARGS__)
#define CENOTE_M12_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M11_(f, __VA_ARGS__)
#define CENOTE_M13_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M12_(f, __VA_ARGS__)
#define CENOTE_M14_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M13_(f, __VA_ARGS__)
#define CENOTE_M15_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M14_(f, __VA_ARGS__)
#define CENOTE_M16_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M15_(f, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
