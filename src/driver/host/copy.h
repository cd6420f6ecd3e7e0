/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills: what a call and its per-thread twin have in common.
 */
#ifndef CN_DRIVER_HOST_COPY_H
#define CN_DRIVER_HOST_COPY_H

#include "driver/host/registry.h"

enum cn_side {
	CN_SIDE_ANY,    /* the address tells */
	CN_SIDE_HOST,   /* foreign memory too */
	CN_SIDE_DEVICE, /* memory that the registry knows */
};

struct cn_rows {
	enum cn_side side;
	uint64_t address;
	size_t pitch;       /* bytes from one row to the next */
	size_t layer_pitch; /* and from one layer of rows to the next */
};

struct cn_copy {
	struct cn_rows to, from;
	size_t row_bytes, row_count;
	size_t layer_count; /* 0: one */
};

struct cn_fill {
	uint64_t address;
	size_t pitch;
	uint32_t value;
	unsigned int element_bytes;
	size_t row_elements, row_count;
};

/* How a call is ordered with its stream. */
enum cn_manner {
	CN_MANNER_NOW,      /* done on return, as far as CUDA promises */
	CN_MANNER_IN_STREAM /* enqueued */
};

CUresult cn_copy(const struct cn_copy *copy, CUstream stream, enum cn_manner manner);
/* The stream of a copy. Host functions may name a stream, but may not copy in it: a copy can wait. */
CUresult cn_copy_find_stream(CUstream handle, struct cn_place *ret_place);
/* Look the sides up and copy, in a stream that was found in this way. Rows are not empty. */
CUresult cn_copy_run(const struct cn_place *place, const struct cn_copy *copy, enum cn_manner manner,
		     struct cn_point *ret_point);

/*
 * A call that takes no stream, and its form whose default stream is the thread's own: `function` and function_ptds.
 * The body of both is `call`, where `stream` is the default stream.
 */
#define CN_COPY_TWINS(function, parameters, call)       \
	CUresult function parameters                    \
	{                                               \
		CUstream stream = NULL;                 \
		return call;                            \
	}                                               \
	CUresult function##_ptds parameters             \
	{                                               \
		CUstream stream = CU_STREAM_PER_THREAD; \
		return call;                            \
	}

#endif
