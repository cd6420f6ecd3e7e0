/* SPDX-License-Identifier: MIT */
/*
 * In libcenote.so: what the drop-in libcudart.so.13 says of functions that Cenote does not have.
 */
#include "dropin/missing.h"

#include "runtime/runtime.h"

int cenote_report_missing_runtime(const char *name)
{
	return (int)CN_RUNTIME_REFUSE(cudaErrorNotSupported, "Cenote has no %s", name);
}
