/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcudart.so.12: every name that Cenote has is a jump.
 *
 *	SAME name, target	to CUDA 13's `target`, which libcenote.so has under its symbol version
 *	OWN name, target	to a function of cuda12.c
 *
 * The library exports the names under CUDA 12's version. One process may have programs and libraries of both: the state
 * behind them is one.
 */
#include "base/jump.h"

#if CN_HAS_JUMPS

	JUMPS	cn_cuda12_slots
	.macro SAME name, target
	.symver	thirteen_\name, \target\()@libcudart.so.13
	JUMP	cn_cuda12_slots, \name, thirteen_\name
	.endm
	.macro OWN name, target
	.hidden	\target
	JUMP	cn_cuda12_slots, \name, \target
	.endm

#include "cuda12.inc"

	OWN	cudaRuntimeGetVersion, cn_cuda12_runtime_version
	OWN	cudaGetDeviceProperties_v2, cn_cuda12_device_properties
	OWN	cudaPointerGetAttributes, cn_cuda12_pointer_attributes
	OWN	cudaMemAdvise, cn_cuda12_advise
	OWN	cudaMemPrefetchAsync, cn_cuda12_prefetch
	OWN	cudaMemPrefetchAsync_ptsz, cn_cuda12_prefetch_ptsz
	OWN	cudaStreamGetCaptureInfo, cn_cuda12_capture
	OWN	cudaStreamGetCaptureInfo_ptsz, cn_cuda12_capture_ptsz
	OWN	cudaStreamGetCaptureInfo_v2, cn_cuda12_capture_v2
	OWN	cudaStreamGetCaptureInfo_v2_ptsz, cn_cuda12_capture_v2_ptsz
	OWN	cudaSetDoubleForDevice, cn_cuda12_set_double
	OWN	cudaSetDoubleForHost, cn_cuda12_set_double
	JUMPS_END cn_cuda12_slots

#endif
