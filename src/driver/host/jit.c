/* SPDX-License-Identifier: MIT */
/*
 * Options of the compiler of PTX.
 *
 * Programs print both logs whatever happened, so both begin empty and zero-terminated, and each size is written: the
 * bytes of the text, without the zero. All of it is the program's memory, which may not be mapped.
 */
#include "driver/host/jit.h"

#include "base/foreign.h"

#include <stddef.h>
#include <string.h>

enum { OPTIONS_MAX = 256 }; /* some may be given twice */

static CUresult write_log(const struct cn_jit_log *log, const char *text)
{
	size_t bytes = strnlen(text, log->room_bytes ? log->room_bytes - 1 : 0);
	void *filled = (void *)(uintptr_t)(log->buffer ? bytes : 0);
	CUresult result = CUDA_SUCCESS;

	if (log->buffer && log->room_bytes) {
		result = cn_foreign_write(log->buffer, text, bytes);
		if (!result)
			result = cn_foreign_write(log->buffer + bytes, "", 1);
	}
	if (!result && log->filled)
		result = cn_foreign_write(log->filled, &filled, sizeof filled);
	return result;
}

static CUresult read_option(CUjit_option option, void **at, struct cn_jit *jit)
{
	struct cn_jit_log *log = option == CU_JIT_INFO_LOG_BUFFER || option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES
					 ? &jit->information
					 : &jit->error;
	void *value = NULL;
	CUresult result = cn_foreign_read(&value, at, sizeof value);

	if (result)
		return result;
	switch ((int)option) {
	case CU_JIT_WALL_TIME: {
		float milliseconds = 0; /* nothing is compiled */
		return cn_foreign_write(at, &milliseconds, sizeof milliseconds);
	}
	case CU_JIT_INFO_LOG_BUFFER:
	case CU_JIT_ERROR_LOG_BUFFER: log->buffer = value; return CUDA_SUCCESS;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		log->room_bytes = (unsigned int)(uintptr_t)value;
		log->filled = at;
		return CUDA_SUCCESS;
	default: return CUDA_SUCCESS; /* options for code generation have no effect here */
	}
}

CUresult cn_jit_begin(unsigned int count, const CUjit_option *options, void **values, struct cn_jit *ret_jit)
{
	CUjit_option read[OPTIONS_MAX];
	struct cn_jit jit = {0};
	CUresult result = CUDA_SUCCESS;

	if (count && (!options || !values))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", options ? "optionValues" : "options");
	if (count > OPTIONS_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%u options: CUDA has only %d", count,
				(int)CU_JIT_NUM_OPTIONS);
	if (count)
		result = cn_foreign_read(read, options, count * sizeof read[0]);
	for (unsigned int i = 0; i < count && !result; i++) {
		if ((int)read[i] < 0 || read[i] >= CU_JIT_NUM_OPTIONS)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "JIT option %d is unknown", (int)read[i]);
		result = read_option(read[i], &values[i], &jit);
	}
	if (!result)
		result = write_log(&jit.information, "");
	if (!result)
		result = write_log(&jit.error, "");
	if (!result)
		*ret_jit = jit;
	return result;
}

CUresult cn_jit_fail(const struct cn_jit *jit, const char *sentence)
{
	return write_log(&jit->error, sentence);
}
