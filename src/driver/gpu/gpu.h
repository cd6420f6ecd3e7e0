/* SPDX-License-Identifier: MIT */
/*
 * On a GPU: which calls are the driver's, which are ours, and which pass through us.
 *
 * Every cuX that Cenote exports is a jump through its slot (made by scripts/generate_pointers.py; cn_slots). At first
 * all slots lead to host_cuX or own_cuX. When cuInit() finds a GPU, each slot is set: to the driver's cuX, so that such
 * a call costs one jump; or to gpu_cuX, in one of the gpu_… files, which sees the call on its way to the driver; or it
 * stays at own_cuX, which is Cenote's on both devices. src/api.list says for each call which of these there are. Where
 * our code runs, it checks the caller's pointers first; the driver treats the pointers of its own calls as it does.
 *
 * gpu.c sets the slots; gpu_stream.c sees streams and contexts, gpu_capture.c captures, gpu_event.c events, and
 * gpu_callback.c the program's functions that streams call; gpu_memory.c frees, answers and guards addresses that may
 * be a pool's; gpu_pool.c has the calls of pools, and passes those of the driver's pools to the driver: managed pools,
 * and what a capturing stream allocates.
 */
#ifndef CN_DRIVER_GPU_GPU_H
#define CN_DRIVER_GPU_GPU_H

#include "device/cuda/cuda_stream.h"
#include "driver/common/driver.h"

#include <stddef.h>

/* Does this process use a GPU? Set by cuInit(), and constant afterwards. */
extern bool cn_gpu_is_used;

/* Made by the build: one for each symbol of the driver's library that Cenote exports. */
struct cn_slot_name {
	const char *name;   /* as written in a program: the name for cuGetProcAddress */
	const char *symbol; /* the symbol that the headers map it to */
	int since;          /* the version that brought this form */
	bool per_thread;    /* the form whose default stream is the thread's own */
};
extern const struct cn_slot_name cn_slot_names[];
extern void *cn_slots[];
extern void *const cn_slots_entries[]; /* what programs call: the jumps */
extern const size_t cn_slot_count;

/*
 * What a check of pointers calls when all are good, in the order of the slots; NULL: the slot has no check. At first a
 * slot leads to its check, if it has one (src/pointers.list).
 */
extern void *cn_behind[];

/* A call that does not go straight to the driver. */
struct cn_gpu_call {
	const char *symbol; /* one that ends in _ptsz is the form whose default stream is the thread's own */
	void *function;
	void **driver; /* takes the driver's own function of this symbol; NULL: not needed */
	/*
	 * For a symbol that is not in cn_slot_names, because Cenote itself has no such function: how cuGetProcAddress
	 * knows it. It is served there and by the drop-in libcuda alone, and only if the driver has it.
	 */
	const char *name;
	int since;
};
/* Made by the build from src/api.list and src/seen.list; ended by a row without a symbol. */
extern const struct cn_gpu_call cn_gpu_calls[];

/* gpu_pool.c: cuMemAllocFromPoolAsync() for a pool of ours, and a stream that is not captured. */
CUresult cn_gpu_alloc_from_pool_async(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream stream);

/* Set the slots: the cuda device is open. CENOTE_POOLS=driver: all are the driver's. */
CUresult cn_gpu_take_over(void);
/* Does this process use a GPU, or will it, as far as is known before cuInit()? Opens the driver for that. */
bool cn_gpu_expected(void);
/*
 * cuGetProcAddress where a GPU is expected: the driver's answer, with ours in place of its functions where we have one.
 */
CUresult cn_gpu_proc_address(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status);
/* The name of the call that a function of a gpu_… file serves; NULL: it serves none. */
const char *cn_gpu_call_name(const void *function);
/*
 * A symbol of the driver's library that has no slot: our function if the call passes through us, else the driver's own;
 * NULL: the driver has none, or no GPU is expected.
 */
void *cn_gpu_symbol(const char *symbol);

#endif
