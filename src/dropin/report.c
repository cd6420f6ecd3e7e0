/* SPDX-License-Identifier: MIT */
/*
 * In libcenote.so: what the drop-ins ask of functions that Cenote does not have.
 */
#include "dropin/missing.h"

#include "base/error.h"
#include "driver/gpu.h"
#include "runtime/runtime.h"

#include <string.h>

int cenote_report_missing(const char *name)
{
	CUresult result = cn_error(CUDA_ERROR_NOT_SUPPORTED, "Cenote has no %s", name);

	if (strncmp(name, "cuda", strlen("cuda")) == 0)
		(void)cn_runtime_error(cudaErrorNotSupported);
	return (int)result;
}

void *cenote_driver_symbol(const char *name)
{
	return cn_gpu_symbol(name);
}
