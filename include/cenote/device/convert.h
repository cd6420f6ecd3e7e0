/* SPDX-License-Identifier: MIT */
/*
 * Conversions with the rounding in the name: _rn to nearest, _rz towards zero, _rd down, _ru up.
 *
 * What does not fit an integer becomes its least or greatest value; NaN becomes 0 from float to 32 bits, and else the
 * value with only the top bit set, as the instruction has it.
 */
#if !defined(__CENOTE_DEVICE_CONVERT_H__)
#define __CENOTE_DEVICE_CONVERT_H__

#include "compiler.h"

/* One conversion: the C types, their names and registers in PTX, the instruction's rounding. */
#define __CENOTE_CONVERT(name, to, to_ptx, to_register, from, from_ptx, from_register, rounding)             \
	__CENOTE_DEVICE__ to name(from a)                                                                    \
	{                                                                                                    \
		to r;                                                                                        \
		asm("cvt." rounding to_ptx "." from_ptx " %0, %1;" : "=" to_register(r) : from_register(a)); \
		return r;                                                                                    \
	}

/* To an integer, and back, in all roundings. */
#define __CENOTE_CONVERT_TO(name, to, to_ptx, to_register, from, from_ptx, from_register)           \
	__CENOTE_CONVERT(name##_rn, to, to_ptx, to_register, from, from_ptx, from_register, "rni.") \
	__CENOTE_CONVERT(name##_rz, to, to_ptx, to_register, from, from_ptx, from_register, "rzi.") \
	__CENOTE_CONVERT(name##_rd, to, to_ptx, to_register, from, from_ptx, from_register, "rmi.") \
	__CENOTE_CONVERT(name##_ru, to, to_ptx, to_register, from, from_ptx, from_register, "rpi.")
#define __CENOTE_CONVERT_FROM(name, to, to_ptx, to_register, from, from_ptx, from_register)        \
	__CENOTE_CONVERT(name##_rn, to, to_ptx, to_register, from, from_ptx, from_register, "rn.") \
	__CENOTE_CONVERT(name##_rz, to, to_ptx, to_register, from, from_ptx, from_register, "rz.") \
	__CENOTE_CONVERT(name##_rd, to, to_ptx, to_register, from, from_ptx, from_register, "rm.") \
	__CENOTE_CONVERT(name##_ru, to, to_ptx, to_register, from, from_ptx, from_register, "rp.")

__CENOTE_CONVERT_TO(__float2int, int, "s32", "r", float, "f32", "f")
__CENOTE_CONVERT_TO(__float2uint, unsigned int, "u32", "r", float, "f32", "f")
__CENOTE_CONVERT_TO(__float2ll, long long, "s64", "l", float, "f32", "f")
__CENOTE_CONVERT_TO(__float2ull, unsigned long long, "u64", "l", float, "f32", "f")
__CENOTE_CONVERT_TO(__double2int, int, "s32", "r", double, "f64", "d")
__CENOTE_CONVERT_TO(__double2uint, unsigned int, "u32", "r", double, "f64", "d")
__CENOTE_CONVERT_TO(__double2ll, long long, "s64", "l", double, "f64", "d")
__CENOTE_CONVERT_TO(__double2ull, unsigned long long, "u64", "l", double, "f64", "d")
__CENOTE_CONVERT_FROM(__int2float, float, "f32", "f", int, "s32", "r")
__CENOTE_CONVERT_FROM(__uint2float, float, "f32", "f", unsigned int, "u32", "r")
__CENOTE_CONVERT_FROM(__ll2float, float, "f32", "f", long long, "s64", "l")
__CENOTE_CONVERT_FROM(__ull2float, float, "f32", "f", unsigned long long, "u64", "l")
__CENOTE_CONVERT_FROM(__ll2double, double, "f64", "d", long long, "s64", "l")
__CENOTE_CONVERT_FROM(__ull2double, double, "f64", "d", unsigned long long, "u64", "l")
__CENOTE_CONVERT(__int2double_rn, double, "f64", "d", int, "s32", "r", "rn.")
__CENOTE_CONVERT(__uint2double_rn, double, "f64", "d", unsigned int, "u32", "r", "rn.")
__CENOTE_CONVERT_FROM(__double2float, float, "f32", "f", double, "f64", "d")
#undef __CENOTE_CONVERT
#undef __CENOTE_CONVERT_TO
#undef __CENOTE_CONVERT_FROM

#endif /* __CENOTE_DEVICE_CONVERT_H__ */
