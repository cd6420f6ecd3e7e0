/* SPDX-License-Identifier: MIT */
/*
 * Keywords of CUDA's headers.
 *
 * CUDA marks functions and variables by where they run and live. clang knows these marks when it compiles CUDA
 * (`cenote cc`, which defines __CUDA__): here they become its attributes. To a host compiler they mean nothing and
 * vanish; those of layout keep their meaning. nvcc has headers of its own, which know more than these.
 */
#if !defined(__HOST_DEFINES_H__)
#define __HOST_DEFINES_H__

#if defined(__CUDACC__) && !(defined(__clang__) && defined(__CUDA__))
#error "Cenote's headers are for host compilers and cenote cc; compile with the CUDA toolkit's own headers under nvcc"
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

/* Where a function runs, where a variable lives: attributes to clang, nothing to a host compiler. */
#if defined(__clang__) && defined(__CUDA__)
#define __host__               __attribute__((host))
#define __device__             __attribute__((device))
#define __global__             __attribute__((global))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
/* clang has managed variables for HIP alone, and would make a host variable of one. */
#define __managed__            _Pragma("GCC error \"clang has no __managed__: use cudaMallocManaged()\"") __device__
#endif
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
