/* SPDX-License-Identifier: MIT */
/*
 * CUDA's short vectors, and dim3.
 *
 * One to four numbers of one type in a struct. Vectors of two and four are aligned so that a device loads them whole;
 * those of three are packed like their elements. Four 8-byte elements exist twice: aligned to 16 bytes (_16a, which is
 * what the plain name meant) and to 32 (_32a); the plain name is deprecated, as in CUDA 13. Define
 * __NV_NO_VECTOR_DEPRECATION_DIAG to use it without a warning.
 */
#if !defined(__VECTOR_TYPES_H__)
#define __VECTOR_TYPES_H__

#include "host_defines.h"

#define __NV_SILENCE_DEPRECATION_BEGIN \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
#define __NV_SILENCE_DEPRECATION_END _Pragma("GCC diagnostic pop")

#if defined(__NV_NO_VECTOR_DEPRECATION_DIAG)
#define __VECTOR_TYPE_DEPRECATED__(message)
#else
#define __VECTOR_TYPE_DEPRECATED__(message) __attribute__((deprecated(message)))
#endif

/* 8-bit integers */

struct char1 {
	signed char x;
};
typedef struct char1 char1;

struct char2 {
	signed char x, y;
} __align__(2);
typedef struct char2 char2;

struct char3 {
	signed char x, y, z;
};
typedef struct char3 char3;

struct char4 {
	signed char x, y, z, w;
} __align__(4);
typedef struct char4 char4;

struct uchar1 {
	unsigned char x;
};
typedef struct uchar1 uchar1;

struct uchar2 {
	unsigned char x, y;
} __align__(2);
typedef struct uchar2 uchar2;

struct uchar3 {
	unsigned char x, y, z;
};
typedef struct uchar3 uchar3;

struct uchar4 {
	unsigned char x, y, z, w;
} __align__(4);
typedef struct uchar4 uchar4;

/* 16-bit integers */

struct short1 {
	short x;
};
typedef struct short1 short1;

struct short2 {
	short x, y;
} __align__(4);
typedef struct short2 short2;

struct short3 {
	short x, y, z;
};
typedef struct short3 short3;

struct short4 {
	short x, y, z, w;
} __align__(8);
typedef struct short4 short4;

struct ushort1 {
	unsigned short x;
};
typedef struct ushort1 ushort1;

struct ushort2 {
	unsigned short x, y;
} __align__(4);
typedef struct ushort2 ushort2;

struct ushort3 {
	unsigned short x, y, z;
};
typedef struct ushort3 ushort3;

struct ushort4 {
	unsigned short x, y, z, w;
} __align__(8);
typedef struct ushort4 ushort4;

/* 32-bit integers */

struct int1 {
	int x;
};
typedef struct int1 int1;

struct int2 {
	int x, y;
} __align__(8);
typedef struct int2 int2;

struct int3 {
	int x, y, z;
};
typedef struct int3 int3;

struct int4 {
	int x, y, z, w;
} __align__(16);
typedef struct int4 int4;

struct uint1 {
	unsigned int x;
};
typedef struct uint1 uint1;

struct uint2 {
	unsigned int x, y;
} __align__(8);
typedef struct uint2 uint2;

struct uint3 {
	unsigned int x, y, z;
};
typedef struct uint3 uint3;

struct uint4 {
	unsigned int x, y, z, w;
} __align__(16);
typedef struct uint4 uint4;

/* Integers of the size of long */

struct long1 {
	long x;
};
typedef struct long1 long1;

struct long2 {
	long x, y;
} __align__(2 * sizeof(long));
typedef struct long2 long2;

struct long3 {
	long x, y, z;
};
typedef struct long3 long3;

struct long4 {
	long x, y, z, w;
} __align__(16) __VECTOR_TYPE_DEPRECATED__("use long4_16a or long4_32a");
__NV_SILENCE_DEPRECATION_BEGIN
typedef struct long4 __VECTOR_TYPE_DEPRECATED__("use long4_16a or long4_32a") long4;
__NV_SILENCE_DEPRECATION_END

struct long4_16a {
	long x, y, z, w;
} __align__(16);
typedef struct long4_16a long4_16a;

struct long4_32a {
	long x, y, z, w;
} __align__(32);
typedef struct long4_32a long4_32a;

struct ulong1 {
	unsigned long x;
};
typedef struct ulong1 ulong1;

struct ulong2 {
	unsigned long x, y;
} __align__(2 * sizeof(long));
typedef struct ulong2 ulong2;

struct ulong3 {
	unsigned long x, y, z;
};
typedef struct ulong3 ulong3;

struct ulong4 {
	unsigned long x, y, z, w;
} __align__(16) __VECTOR_TYPE_DEPRECATED__("use ulong4_16a or ulong4_32a");
__NV_SILENCE_DEPRECATION_BEGIN
typedef struct ulong4 __VECTOR_TYPE_DEPRECATED__("use ulong4_16a or ulong4_32a") ulong4;
__NV_SILENCE_DEPRECATION_END

struct ulong4_16a {
	unsigned long x, y, z, w;
} __align__(16);
typedef struct ulong4_16a ulong4_16a;

struct ulong4_32a {
	unsigned long x, y, z, w;
} __align__(32);
typedef struct ulong4_32a ulong4_32a;

/* 64-bit integers */

struct longlong1 {
	long long x;
};
typedef struct longlong1 longlong1;

struct longlong2 {
	long long x, y;
} __align__(16);
typedef struct longlong2 longlong2;

struct longlong3 {
	long long x, y, z;
};
typedef struct longlong3 longlong3;

struct longlong4 {
	long long x, y, z, w;
} __align__(16) __VECTOR_TYPE_DEPRECATED__("use longlong4_16a or longlong4_32a");
__NV_SILENCE_DEPRECATION_BEGIN
typedef struct longlong4 __VECTOR_TYPE_DEPRECATED__("use longlong4_16a or longlong4_32a") longlong4;
__NV_SILENCE_DEPRECATION_END

struct longlong4_16a {
	long long x, y, z, w;
} __align__(16);
typedef struct longlong4_16a longlong4_16a;

struct longlong4_32a {
	long long x, y, z, w;
} __align__(32);
typedef struct longlong4_32a longlong4_32a;

struct ulonglong1 {
	unsigned long long x;
};
typedef struct ulonglong1 ulonglong1;

struct ulonglong2 {
	unsigned long long x, y;
} __align__(16);
typedef struct ulonglong2 ulonglong2;

struct ulonglong3 {
	unsigned long long x, y, z;
};
typedef struct ulonglong3 ulonglong3;

struct ulonglong4 {
	unsigned long long x, y, z, w;
} __align__(16) __VECTOR_TYPE_DEPRECATED__("use ulonglong4_16a or ulonglong4_32a");
__NV_SILENCE_DEPRECATION_BEGIN
typedef struct ulonglong4 __VECTOR_TYPE_DEPRECATED__("use ulonglong4_16a or ulonglong4_32a") ulonglong4;
__NV_SILENCE_DEPRECATION_END

struct ulonglong4_16a {
	unsigned long long x, y, z, w;
} __align__(16);
typedef struct ulonglong4_16a ulonglong4_16a;

struct ulonglong4_32a {
	unsigned long long x, y, z, w;
} __align__(32);
typedef struct ulonglong4_32a ulonglong4_32a;

/* Single precision */

struct float1 {
	float x;
};
typedef struct float1 float1;

struct float2 {
	float x, y;
} __align__(8);
typedef struct float2 float2;

struct float3 {
	float x, y, z;
};
typedef struct float3 float3;

struct float4 {
	float x, y, z, w;
} __align__(16);
typedef struct float4 float4;

/* Double precision */

struct double1 {
	double x;
};
typedef struct double1 double1;

struct double2 {
	double x, y;
} __align__(16);
typedef struct double2 double2;

struct double3 {
	double x, y, z;
};
typedef struct double3 double3;

struct double4 {
	double x, y, z, w;
} __align__(16) __VECTOR_TYPE_DEPRECATED__("use double4_16a or double4_32a");
__NV_SILENCE_DEPRECATION_BEGIN
typedef struct double4 __VECTOR_TYPE_DEPRECATED__("use double4_16a or double4_32a") double4;
__NV_SILENCE_DEPRECATION_END

struct double4_16a {
	double x, y, z, w;
} __align__(16);
typedef struct double4_16a double4_16a;

struct double4_32a {
	double x, y, z, w;
} __align__(32);
typedef struct double4_32a double4_32a;

/* The shape of a grid or of a block. In C++ what is left out is 1; in C all three are to be set. */
struct dim3 {
	unsigned int x, y, z;
#if defined(__cplusplus)
#if __cplusplus >= 201103L
	constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz)
	{
	}
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
	constexpr operator uint3(void) const
	{
		return uint3{x, y, z};
	}
#else
	dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz)
	{
	}
	dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
	operator uint3(void) const
	{
		uint3 v = {x, y, z};
		return v;
	}
#endif
#endif
};
typedef struct dim3 dim3;

#undef __VECTOR_TYPE_DEPRECATED__

#endif /* __VECTOR_TYPES_H__ */
