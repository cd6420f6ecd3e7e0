/* SPDX-License-Identifier: MIT */
/*
 * Keywords of CUDA's headers, as a host compiler sees them.
 *
 * CUDA marks functions and types for its own compiler. Cenote's headers are for gcc and clang, where the marks of
 * functions and variables mean nothing and vanish; those of layout keep their meaning. Kernels for the host device are
 * C functions, see cenote.h.
 */
#if !defined(__HOST_DEFINES_H__)
#define __HOST_DEFINES_H__

#if defined(__CUDACC__)
#error "Cenote's headers are for host compilers; compile device code with the CUDA toolkit's own headers"
#endif

/* Calling conventions: there is one. */
#define CUDARTAPI
#define CUDARTAPI_CDECL
#if !defined(__cdecl)
#define __cdecl
#endif

/* Layout */
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)

/* Code generation */
#define __no_return__ __attribute__((noreturn))
#undef __forceinline__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __thread__      __thread
#define __import__
#define __export__
#define __annotate__(a)
#define __location__(a)
#define __specialization_static

/* Where a function runs, where a variable lives: nothing to a host compiler. */
#if !defined(__host__)
#define __host__
#endif
#if !defined(__device__)
#define __device__
#endif
#if !defined(__global__)
#define __global__
#endif
#if !defined(__shared__)
#define __shared__
#endif
#if !defined(__constant__)
#define __constant__
#endif
#if !defined(__managed__)
#define __managed__
#endif
#if !defined(__grid_constant__)
#define __grid_constant__
#endif
#if !defined(__launch_bounds__)
#define __launch_bounds__(...)
#endif
#if !defined(__cluster_dims__)
#define __cluster_dims__(...)
#endif
#if !defined(__maxnreg__)
#define __maxnreg__(n)
#endif
#if !defined(__nv_pure__)
#define __nv_pure__
#endif
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__

#endif /* __HOST_DEFINES_H__ */
