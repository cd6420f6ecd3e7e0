/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target as libFuzzer wants it.
 */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argument_count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
	(void)argument_count, (void)arguments;
	fuzz_prepare();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	fuzz_run(bytes, size);
	return 0;
}
