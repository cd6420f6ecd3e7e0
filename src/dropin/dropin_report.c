/* SPDX-License-Identifier: MIT */
/*
 * In libcenote-driver.so: what the drop-in libcuda.so.1 asks of functions that Cenote does not have.
 */
#include "dropin/missing.h"

#include "base/error.h"
#include "driver/gpu/gpu.h"

int cenote_report_missing(const char *name)
{
	return (int)cn_error(CUDA_ERROR_NOT_SUPPORTED, "Cenote has no %s", name);
}

void *cenote_driver_symbol(const char *name)
{
	return cn_gpu_symbol(name);
}
