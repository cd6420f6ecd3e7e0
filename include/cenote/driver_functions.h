/* SPDX-License-Identifier: MIT */
/*
 * Small structs of the copy calls from their members.
 */
#if !defined(__DRIVER_FUNCTIONS_H__)
#define __DRIVER_FUNCTIONS_H__

#include "driver_types.h"

/* Pitched memory: rows of `xsz` elements that start `p` bytes apart, `ysz` rows a layer. */
static __inline__ struct cudaPitchedPtr make_cudaPitchedPtr(void *d, size_t p, size_t xsz, size_t ysz)
{
	struct cudaPitchedPtr pitched;
	pitched.ptr = d;
	pitched.pitch = p;
	pitched.xsize = xsz;
	pitched.ysize = ysz;
	return pitched;
}

/* A place in memory, counted from its start. */
static __inline__ struct cudaPos make_cudaPos(size_t x, size_t y, size_t z)
{
	struct cudaPos pos;
	pos.x = x;
	pos.y = y;
	pos.z = z;
	return pos;
}

/* The size of a copy. `w` counts bytes between plain pointers, elements when an array takes part. */
static __inline__ struct cudaExtent make_cudaExtent(size_t w, size_t h, size_t d)
{
	struct cudaExtent extent;
	extent.width = w;
	extent.height = h;
	extent.depth = d;
	return extent;
}

#endif /* __DRIVER_FUNCTIONS_H__ */
