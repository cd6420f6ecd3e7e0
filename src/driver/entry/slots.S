/* SPDX-License-Identifier: MIT */
/*
 * The functions of CUDA's driver that Cenote exports: each a jump through its slot (see gpu.h).
 */
#include "base/jump.h"

#if CN_HAS_JUMPS
	JUMPS	cn_slots
	.macro SLOT name, target
	JUMP	cn_slots, \name, \target
	.endm
#include "slots.inc"
	JUMPS_END cn_slots
#endif
