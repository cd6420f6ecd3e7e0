/* SPDX-License-Identifier: MIT */
/*
 * cenote.h: what CUDA leaves to its users.
 *
 * The CUDA API itself is in cuda.h and cuda_runtime_api.h, ours or NVIDIA's: this header works with either (include
 * NVIDIA's first to use it; otherwise ours, beside this file, is taken).
 *
 *   Errors       cenote_last_error()
 *   Descriptors  cenote_send_descriptor(), cenote_recv_descriptor(): exported memory on its way to another process
 *   Pools        cenote_pool_stats(): how a memory pool is doing
 *   Kernels      CENOTE_KERNEL, cenote_thread: kernels of the host device, written in C
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
 * Send a descriptor, such as cuMemExportToShareableHandle() makes, to another process over a Unix socket.
 *
 * The socket may be of any type, stream, sequenced packets or datagrams, and must be connected. The receiver calls
 * cenote_recv_descriptor(): the descriptor travels with a message of ours, eight bytes, by which the receiver knows it.
 * Other messages may be sent before and after. The receiver gets a descriptor of its own; the one given here stays open
 * and the caller's, and may be closed at once. Waits while the socket is full, and goes on after a signal; raises no
 * SIGPIPE. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or descriptor is not open
 *   CUDA_ERROR_NOT_READY         the socket is full and does not wait (O_NONBLOCK), or not longer (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, or the socket failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_descriptor(int sock, int descriptor);

/*
 * Receive a descriptor that cenote_send_descriptor() sent.
 *
 * *ret_descriptor is the caller's to close. It is closed on exec, and is never 0, 1 or 2. Waits until a message comes,
 * and goes on after a signal. Needs no cuInit(). Thread-safe; of two threads that receive from one stream at the same
 * time each may get a part of a message, so one at a time there.
 *
 * The sender is not trusted: descriptors that come with any other message, or more than one, are closed. What they lead
 * to is not looked at; cuMemImportFromShareableHandle() does that.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or ret_descriptor is NULL
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message, or came without a descriptor or with several
 *   CUDA_ERROR_NOT_READY         nothing came and the socket does not wait (O_NONBLOCK), or not longer (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone (a datagram socket does not tell), the process may not open any
 *                                more descriptors, or the socket failed: cenote_last_error() says how
 *
 * After INVALID_HANDLE or OPERATING_SYSTEM what had come is gone. A stream may then stand in the middle of a message:
 * close it.
 */
CENOTE_API CUresult cenote_recv_descriptor(int sock, int *ret_descriptor);

/*
 * How a pool is doing.
 *
 * Sizes are in bytes. `used` is what was asked for; `reserved` what the pool has from the system. The reuse counts
 * say which rule found the memory of each allocation so far, in the order in which the rules are tried; each
 * allocation counts once.
 */
typedef struct cenote_pool_statistics {
	unsigned long long used_bytes, used_high_bytes;         /* now, and the most since the mark was reset */
	unsigned long long reserved_bytes, reserved_high_bytes; /* the same */
	unsigned long long largest_free_bytes;                  /* of the free blocks */
	unsigned long long free_block_count;                    /* with those whose free has not happened yet */
	unsigned long long live_block_count;
	unsigned long long metadata_bytes;          /* that Cenote keeps about the pool, outside its memory */
	unsigned long long reused_own;              /* freed in the same stream */
	unsigned long long reused_settled;          /* free, and known to be */
	unsigned long long reused_followed;         /* freed in a stream that this one waits for anyway */
	unsigned long long reused_opportunistic;    /* freed in another stream, and that happened to be done */
	unsigned long long reused_waiting;          /* waits inserted: the stream waits for another stream's free */
	unsigned long long grown;                   /* new memory from the system */
	unsigned long long free_blocks_by_size[40]; /* [i]: free blocks of 2^i to 2^(i+1) - 1 bytes */
} cenote_pool_statistics;

/*
 * Read a pool's statistics: cenote_pool_stats(pool, &statistics, sizeof statistics).
 *
 * The structure may grow at its end in later versions: room_bytes says how much of it the caller knows, and only that
 * is written. Looks at every block of the pool, so not for an inner loop; other threads may allocate and free
 * meanwhile. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, ret_statistics is NULL, or room_bytes is more than this library
 *                               knows
 */
CENOTE_API CUresult cenote_pool_stats(CUmemoryPool pool, cenote_pool_statistics *ret_statistics, size_t room_bytes);

/*
 * Draw a pool's memory as text: lines of 64 characters, each character an equal part of the range that was used so far.
 *
 *     #  most of it is in blocks that live       o  … in blocks that were freed, and wait for their stream's next use
 *     .  … free for anybody                      _  … without memory: given back to the system
 *
 * Writes as many whole lines as fit into room_bytes with the zero at the end, at most 64 of them. As costly as
 * cenote_pool_stats(). Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, ret_text is NULL, or there is no room for a line: 66 bytes
 */
CENOTE_API CUresult cenote_pool_picture(CUmemoryPool pool, char *ret_text, size_t room_bytes);

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
