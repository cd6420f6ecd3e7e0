/* SPDX-License-Identifier: MIT */
/*
 * A 16-bit type and a pair of it: conversions, arithmetic, comparisons, on the device and on the host; narrow.h has the
 * parameters.
 */

#define __CENOTE_MEMBER__ __host__ __device__ __inline__

#define __CENOTE_NARROW_FROM(type, wide)                                            \
	__CENOTE_MEMBER__ __CENOTE_NUMBER(type a) : __x(__CENOTE_BITS(rn)((wide)a)) \
	{                                                                           \
	}

struct __align__(2) __CENOTE_NUMBER
{
	unsigned short __x;

#if __cplusplus >= 201103L
	__CENOTE_NUMBER() = default;
#else
	__CENOTE_MEMBER__ __CENOTE_NUMBER()
	{
	}
#endif
	__CENOTE_MEMBER__ __CENOTE_NUMBER(const __CENOTE_NUMBER_RAW &raw) : __x(raw.x)
	{
	}
	__CENOTE_NARROW_FROM(float, float)
	__CENOTE_NARROW_FROM(double, double)
	__CENOTE_NARROW_FROM(int, int)
	__CENOTE_NARROW_FROM(unsigned int, unsigned int)
	__CENOTE_NARROW_FROM(short, int)
	__CENOTE_NARROW_FROM(unsigned short, unsigned int)
	__CENOTE_NARROW_FROM(long, long long)
	__CENOTE_NARROW_FROM(unsigned long, unsigned long long)
	__CENOTE_NARROW_FROM(long long, long long)
	__CENOTE_NARROW_FROM(unsigned long long, unsigned long long)
	__CENOTE_MEMBER__ operator float() const
	{
		return __CENOTE_BITS(float)(__x);
	}
	__CENOTE_MEMBER__ operator __CENOTE_NUMBER_RAW() const
	{
		__CENOTE_NUMBER_RAW raw;
		raw.x = __x;
		return raw;
	}
	static __CENOTE_MEMBER__ __CENOTE_NUMBER __cenote_bits(unsigned short bits)
	{
		__CENOTE_NUMBER_RAW raw;
		raw.x = bits;
		return __CENOTE_NUMBER(raw);
	}
};

struct __align__(4) __CENOTE_PAIR
{
	__CENOTE_NUMBER x, y;

#if __cplusplus >= 201103L
	__CENOTE_PAIR() = default;
#else
	__CENOTE_MEMBER__ __CENOTE_PAIR()
	{
	}
#endif
	__CENOTE_MEMBER__ __CENOTE_PAIR(const __CENOTE_NUMBER &a, const __CENOTE_NUMBER &b) : x(a), y(b)
	{
	}
	__CENOTE_MEMBER__ __CENOTE_PAIR(const __CENOTE_PAIR_RAW &raw)
	    : x(__CENOTE_NUMBER::__cenote_bits(raw.x)), y(__CENOTE_NUMBER::__cenote_bits(raw.y))
	{
	}
};

/*
 * ---- Operators ------------------------------------------------------------------------------------------------------
 */

__CENOTE_BOTH__ __CENOTE_NUMBER operator+(const __CENOTE_NUMBER &a)
{
	return a;
}

__CENOTE_BOTH__ __CENOTE_NUMBER operator-(const __CENOTE_NUMBER &a)
{
	return __CENOTE_NUMBER::__cenote_bits((unsigned short)(a.__x ^ 0x8000));
}

__CENOTE_BOTH__ __CENOTE_PAIR operator-(const __CENOTE_PAIR &a)
{
	return __CENOTE_PAIR(-a.x, -a.y);
}

#define __CENOTE_NARROW_ARITHMETIC(sign, function)                                                        \
	__CENOTE_BOTH__ __CENOTE_NUMBER operator sign(const __CENOTE_NUMBER &a, const __CENOTE_NUMBER &b) \
	{                                                                                                 \
		return __CENOTE_NUMBER::__cenote_bits(function(a.__x, b.__x));                            \
	}                                                                                                 \
	__CENOTE_BOTH__ __CENOTE_NUMBER &operator sign##=(__CENOTE_NUMBER &a, const __CENOTE_NUMBER &b)   \
	{                                                                                                 \
		return a = a sign b;                                                                      \
	}                                                                                                 \
	__CENOTE_BOTH__ __CENOTE_PAIR operator sign(const __CENOTE_PAIR &a, const __CENOTE_PAIR &b)       \
	{                                                                                                 \
		return __CENOTE_PAIR(a.x sign b.x, a.y sign b.y);                                         \
	}                                                                                                 \
	__CENOTE_BOTH__ __CENOTE_PAIR &operator sign##=(__CENOTE_PAIR &a, const __CENOTE_PAIR &b)         \
	{                                                                                                 \
		return a = a sign b;                                                                      \
	}
__CENOTE_NARROW_ARITHMETIC(+, __CENOTE_BITS(add))
__CENOTE_NARROW_ARITHMETIC(-, __CENOTE_BITS(sub))
__CENOTE_NARROW_ARITHMETIC(*, __CENOTE_BITS(mul))
__CENOTE_NARROW_ARITHMETIC(/, __CENOTE_BITS(div))
#undef __CENOTE_NARROW_ARITHMETIC

#define __CENOTE_NARROW_COMPARE(sign)                                                          \
	__CENOTE_BOTH__ bool operator sign(const __CENOTE_NUMBER &a, const __CENOTE_NUMBER &b) \
	{                                                                                      \
		return __CENOTE_BITS(float)(a.__x) sign __CENOTE_BITS(float)(b.__x);           \
	}                                                                                      \
	__CENOTE_BOTH__ bool operator sign(const __CENOTE_PAIR &a, const __CENOTE_PAIR &b)     \
	{                                                                                      \
		return a.x sign b.x && a.y sign b.y;                                           \
	}
__CENOTE_NARROW_COMPARE(==)
__CENOTE_NARROW_COMPARE(!=)
__CENOTE_NARROW_COMPARE(<)
__CENOTE_NARROW_COMPARE(<=)
__CENOTE_NARROW_COMPARE(>)
__CENOTE_NARROW_COMPARE(>=)
#undef __CENOTE_NARROW_COMPARE

__CENOTE_BOTH__ __CENOTE_NUMBER &operator++(__CENOTE_NUMBER &a)
{
	return a = a + __CENOTE_NUMBER(1);
}

__CENOTE_BOTH__ __CENOTE_NUMBER &operator--(__CENOTE_NUMBER &a)
{
	return a = a - __CENOTE_NUMBER(1);
}

#undef __CENOTE_NARROW_FROM
#undef __CENOTE_MEMBER__
