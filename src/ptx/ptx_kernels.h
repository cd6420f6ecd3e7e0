/* SPDX-License-Identifier: MIT */
/*
 * Fast arithmetic: one operation over arrays.
 *
 * A kernel computes d[i] from a[i], b[i] and c[i] for all i < count. d may be one of the others. Where some lanes take
 * no part, the interpreter lets it write to scratch memory: so a kernel may be given any bits, and must not trap.
 *
 * ptx_kernels.c is compiled once for each set of instructions that it pays for (builds), which all give the same bits:
 * nothing is contracted, reassociated or approximated. They are chosen by name, so that a test can compare them.
 */
#ifndef CN_PTX_PTX_KERNELS_H
#define CN_PTX_PTX_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Their names. */
/* clang-format off */
#define CN_PTX_KERNELS(X) \
	X(mov_p) X(mov_b16) X(mov_b32) X(mov_b64) X(not_p) X(and_p) X(or_p) X(xor_p) X(add_b16) X(add_b32) \
	X(add_b64) X(sub_b16) X(sub_b32) X(sub_b64) X(mul_b16) X(mul_b32) X(mul_b64) X(mad_b16) X(mad_b32) \
	X(mad_b64) X(and_b16) X(and_b32) X(and_b64) X(or_b16) X(or_b32) X(or_b64) X(xor_b16) X(xor_b32) \
	X(xor_b64) X(not_b16) X(not_b32) X(not_b64) X(neg_s16) X(neg_s32) X(neg_s64) X(abs_s16) X(abs_s32) \
	X(abs_s64) X(min_s16) X(min_s32) X(min_s64) X(min_u16) X(min_u32) X(min_u64) X(max_s16) X(max_s32) \
	X(max_s64) X(max_u16) X(max_u32) X(max_u64) X(mulwide_s16) X(mulwide_u16) X(mulwide_s32) X(mulwide_u32) \
	X(madwide_s16) X(madwide_u16) X(madwide_s32) X(madwide_u32) X(mulhi_s16) X(mulhi_u16) X(mulhi_s32) \
	X(mulhi_u32) X(mulhi_s64) X(mulhi_u64) X(div_s16) X(div_u16) X(div_s32) X(div_u32) X(div_s64) \
	X(div_u64) X(rem_s16) X(rem_u16) X(rem_s32) X(rem_u32) X(rem_s64) X(rem_u64) X(shl_b16) X(shl_b32) \
	X(shl_b64) X(shr_s16) X(shr_s32) X(shr_s64) X(shr_u16) X(shr_u32) X(shr_u64) X(selp_b16) X(selp_b32) \
	X(selp_b64) X(setp_s16) X(setp_u16) X(setp_s32) X(setp_u32) X(setp_s64) X(setp_u64) X(setp_f32) \
	X(setp_f32_ftz) X(setp_f64) X(popc_b32) X(clz_b32) X(brev_b32) X(lop3_b32) X(shf_l) X(shf_r) \
	X(bfe_u32) X(bfe_s32) X(prmt_b32) X(add_f32) X(sub_f32) X(mul_f32) X(fma_f32) X(div_f32) X(sqrt_f32) \
	X(rcp_f32) X(min_f32) X(max_f32) X(neg_f32) X(abs_f32) X(sat_f32) X(add_f32_ftz) X(sub_f32_ftz) \
	X(mul_f32_ftz) X(fma_f32_ftz) X(div_f32_ftz) X(sqrt_f32_ftz) X(rcp_f32_ftz) X(min_f32_ftz) \
	X(max_f32_ftz) X(neg_f32_ftz) X(abs_f32_ftz) X(add_f64) X(sub_f64) X(mul_f64) X(fma_f64) X(div_f64) \
	X(sqrt_f64) X(rcp_f64) X(min_f64) X(max_f64) X(neg_f64) X(abs_f64) X(cvt_b16_b32) X(cvt_b16_b64) \
	X(cvt_b32_b64) X(cvt_u32_u16) X(cvt_s32_s16) X(cvt_u64_u16) X(cvt_s64_s16) X(cvt_u64_u32) X(cvt_s64_s32) \
	X(cvt_f32_s32) X(cvt_f32_u32) X(cvt_f64_s32) X(cvt_f64_u32) X(cvt_f64_s64) X(cvt_f64_f32) X(cvt_f32_f64) \
	X(cvt_s32_f32) X(cvt_u32_f32) X(cvt_s32_f64) X(cvt_u8) X(cvt_s8)
/* clang-format on */

#define CN_PTX_KERNEL_INDEX(name) CN_PTX_K_##name,
enum cn_ptx_kernel_index { CN_PTX_KERNELS(CN_PTX_KERNEL_INDEX) CN_PTX_KERNEL_COUNT };

typedef void cn_ptx_kernel_function(void *d, const void *a, const void *b, const void *c, size_t count,
				    uint32_t detail);

/* Where a kernel's addresses are followed: they may lead nowhere, and what races there is the kernel's own affair. */
#define CN_PTX_FOLLOWS __attribute__((no_sanitize("undefined,thread")))

/* What a chunk of lanes has in common, and moves between memory and registers. */
struct cn_ptx_build {
	const char *name;
	cn_ptx_kernel_function *kernels[CN_PTX_KERNEL_COUNT];
	uint8_t widths[CN_PTX_KERNEL_COUNT][4]; /* bytes of d, a, b and c; 0: there is no such operand */
	/* addresses[i] = from[i] + offset + base; before the base is added: all their bits, and the highest of them. */
	void (*addresses)(uint64_t *addresses, const void *from, size_t width, int64_t offset, uint64_t base,
			  size_t count, uint64_t *ret_bits, uint64_t *ret_most);
	/* out[i] = mask[i] & (predicate[i] ^ negated), and how many of them are 1 */
	size_t (*guard)(uint8_t *out, const uint8_t *mask, const uint8_t *predicate, uint8_t negated, size_t count);
	/* d[i] = what is at addresses[i] + shift, of 4 or 8 bytes, for all i < count. */
	void (*gather)(void *d, const uint64_t *addresses, uint64_t shift, size_t count, size_t width);
	void (*scatter)(const uint64_t *addresses, uint64_t shift, const void *from, size_t count, size_t width);
	/* Lanes in `group` go: those in `taken` too to `target`, the others to `next`; pcs of the rest stay. */
	void (*part)(uint32_t *pcs, const uint8_t *group, const uint8_t *taken, uint32_t target, uint32_t next,
		     size_t count);
	/* The lowest pc of lanes whose status is `runs`, and the lowest that is not below `floor`; or UINT32_MAX. */
	void (*lowest)(const uint32_t *pcs, const uint8_t *status, uint8_t runs, uint32_t floor, size_t count,
		       uint32_t *ret_lowest, uint32_t *ret_next);
	/* The lowest pc, from `floor` on, of lanes that run and are not in `group`; or UINT32_MAX. */
	uint32_t (*stop)(const uint32_t *pcs, const uint8_t *status, uint8_t runs, const uint8_t *group, uint32_t floor,
			 size_t count);
	/* mask[i] = 1 where lane i runs at this pc and frame, else 0. */
	void (*select)(uint8_t *mask, const uint32_t *pcs, const uint32_t *frames, const uint8_t *status, uint8_t runs,
		       uint32_t pc, uint32_t frame, size_t count);
	/* d[i] = mask[i] ? from[i] : d[i] */
	void (*blend)(void *d, const void *from, const uint8_t *mask, size_t count, size_t width);
};

extern const struct cn_ptx_build cn_ptx_build_plain;
extern const struct cn_ptx_build cn_ptx_build_avx2;
extern const struct cn_ptx_build cn_ptx_build_avx512;

/* The build that blocks use. */
const struct cn_ptx_build *cn_ptx_build(void);

#endif
