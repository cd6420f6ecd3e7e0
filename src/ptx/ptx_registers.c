/* SPDX-License-Identifier: MIT */
/*
 * Places of registers.
 */
#include "ptx/ptx_module.h"

bool cn_ptx_registers_allocate(struct cn_ptx_module *module, uint32_t index)
{
	struct cn_ptx_function *function = &module->functions[index];

	function->live_registers = function->frame_bytes / 4 > 255 ? 255 : function->frame_bytes / 4;
	return true;
}
