/* SPDX-License-Identifier: MIT */
/*
 * libcenote-trace.so: what its files share.
 *
 * LD_PRELOAD puts the library in front of a program (`cenote trace`). It has a function with the name of each call in
 * calls.list, which records the call in this process's file and goes on to the real one:
 *
 *	struct cn_trace_call call;
 *	…*next = cn_trace_next(SYMBOL_…);
 *	if (!cn_trace_begin(&call, …))          nothing to note: go on
 *		return next(…);
 *	call.record->stream = …;                what is known before
 *	cn_trace_call_begins(&call);
 *	result = next(…);
 *	if (cn_trace_call_ends(&call, result) && !result)
 *		call.record->address = …;       what is known after
 *	cn_trace_end(&call, …);
 *
 * Calls that CUDA itself makes within a call are not recorded; those that Cenote's own calls make are.
 *
 * It needs only libc, and does nothing in a process that makes no such call: programs have children of all kinds.
 */
#ifndef CENOTE_TRACE_TRACE_H
#define CENOTE_TRACE_TRACE_H

#include "record.h"

#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CN_SHOWN __attribute__((visibility("default")))

/* The answer of a call when no library behind this one has it: CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND. */
#define CN_TRACE_NOTHING_BEHIND 302

/* Any argument as a number. */
#define CN_NUMBER(value) ((uint64_t)(uintptr_t)(value))

/* ---- What stands behind (lookup.c) ---- */

struct cn_trace_symbol {
	const char *name;
	void *front; /* our function */
	_Atomic(void *) next;
};

/* Made by scripts/generate_trace.py. */
extern struct cn_trace_symbol cn_trace_symbols[];
extern const size_t cn_trace_symbol_count;

/* The function behind one of ours. NULL: there is none. */
void *cn_trace_next(size_t symbol);
/* The same for any name. */
void *cn_trace_find(const char *name);

/* ---- Records (recorder.c) ---- */

struct cn_trace_call {
	struct cn_trace_record *record;
	uint64_t number;
	unsigned int generation; /* of the process: a fork makes a new one */
	bool closes;             /* calls within this one are not noted */
	void *host;              /* a host function that stands for the caller's */
};

/* False: nothing is to be recorded. */
bool cn_trace_begin(struct cn_trace_call *call, enum cn_trace_call_id id, unsigned int flags);
void cn_trace_call_begins(struct cn_trace_call *call);
/* False: this is another process now. */
bool cn_trace_call_ends(struct cn_trace_call *call, int result);
void cn_trace_end(struct cn_trace_call *call, enum cn_trace_act act);

/* A text of any length, in as many records as it takes. */
void cn_trace_text(enum cn_trace_state state, uint64_t of, const char *text);
/* The same of words. */
void cn_trace_put_words(enum cn_trace_state state, uint64_t of, const uint64_t *words, size_t count);
/* CN_TRACE_HOST_BEGUN and CN_TRACE_HOST_ENDED, unless this is another process by now. */
void cn_trace_put_host(enum cn_trace_state state, uint64_t of, unsigned int generation);
uint64_t cn_trace_now_ns(void);

/* ---- What a check needs besides (operands.c, host.c, stack.c) ---- */

/* Is it wanted? */
extern bool cn_trace_checks;

/* More of a call than its record has room for. */
void cn_trace_words(const struct cn_trace_call *call, const uint64_t *words, size_t count);
void cn_trace_label(const struct cn_trace_call *call, const char *label);
void cn_trace_shape(const struct cn_trace_call *call, uint64_t to, uint64_t to_pitch, uint64_t from,
		    uint64_t from_pitch, uint64_t row_bytes, uint64_t rows);
void cn_trace_copy_2d(const struct cn_trace_call *call, const CUDA_MEMCPY2D *copy);
void cn_trace_copy_3d(const struct cn_trace_call *call, const CUDA_MEMCPY3D *copy);
void cn_trace_runtime_copy_3d(const struct cn_trace_call *call, const struct cudaMemcpy3DParms *copy);
void cn_trace_fill_3d(const struct cn_trace_call *call, struct cudaPitchedPtr memory, struct cudaExtent extent);
void cn_trace_batch(const struct cn_trace_call *call, unsigned int count, const CUstreamBatchMemOpParams *list);
/* What a kernel gets. A runtime's function is the symbol that stands for it. */
void cn_trace_arguments(const struct cn_trace_call *call, CUfunction function, void **parameters, void **extra);
void cn_trace_runtime_arguments(const struct cn_trace_call *call, const void *symbol, void **parameters);

/* Kernels and what their code does (images.c): an image that was loaded, or a file of it. */
void cn_trace_image(const void *image);
void cn_trace_file(const char *path);
/* enum cn_trace_use */
int cn_trace_kernel_does(const char *name, int parameter);
void cn_trace_forget_kernels(void);
enum { CN_TRACE_PARAMETERS_MAX = 64 };

struct cn_trace_kernel {
	int parameter_count;
	unsigned char uses[CN_TRACE_PARAMETERS_MAX]; /* enum cn_trace_use */
};

/* A number for a name; never 0 (ptx.c). */
uint64_t cn_trace_digest_text(const char *text, size_t length);
/* Read the text that follows an .entry; false: it is not understood (ptx.c). */
bool cn_trace_read_kernel(const char *text, struct cn_trace_kernel *ret_kernel);

/* What runs in place of a host function, and notes when; NULL: the caller's own must. */
void *cn_trace_host_wrap(struct cn_trace_call *call, void *function, void *data);
void CUDA_CB cn_trace_host_run(void *wrapped);
void CUDA_CB cn_trace_callback_run(CUstream stream, CUresult status, void *wrapped);
void CUDART_CB cn_trace_runtime_callback_run(cudaStream_t stream, cudaError_t status, void *wrapped);
/* CENOTE_TRACE_DELAY: let the stream pause for a time that chance says. */
void cn_trace_delay(uint64_t stream, bool per_thread);

/* The caller's stack, as a number that has been explained; 0: there is none. */
uint32_t cn_trace_stack(void);
void cn_trace_forget_stacks(void);
/* The current context, as a number. */
uint32_t cn_trace_context(void);
/* Is the stream being captured? */
bool cn_trace_is_captured(const struct cn_trace_record *record);

/* A kernel is to be launched: have it watched, if that is wanted (exact.c). */
void cn_trace_watch(void);
/* The calling thread launches a kernel that is watched: the number of its record, and 1; 0: none is written. */
uint64_t cn_trace_launches(void);

/* ---- When a stream gets there (reach.c) ---- */

/* A call has put something into a stream: find out when it is reached. */
void cn_trace_follow(struct cn_trace_record *record);

/* ---- Values (values.c) ---- */

uint64_t cn_trace_blob(const void *bytes);
uint64_t cn_trace_descriptor(int descriptor);
/* Of a handle's type: a descriptor, 64 bytes, or something else. */
uint64_t cn_trace_made(const void *handle, int type);
uint64_t cn_trace_given(const void *handle, int type);
uint64_t cn_trace_pool_of_number(uint64_t address);
#define cn_trace_pool_of(pointer) cn_trace_pool_of_number(CN_NUMBER(pointer))
/* The file that is mapped somewhere, if others can have it, too, and where in the file that is. Slow. */
uint64_t cn_trace_file_of(const void *address);
void cn_trace_file_at(const struct cn_trace_call *call, const void *address);

/* Functions and their names: kept until one is launched, and recorded then. */
void cn_trace_name_number(uint64_t function, const char *name);
#define cn_trace_name(function, name) cn_trace_name_number(CN_NUMBER(function), name)
void cn_trace_note_name(uint64_t function);
/* After a fork the names must be recorded anew. */
void cn_trace_forget_notes(void);

#endif
