/* SPDX-License-Identifier: MIT */
/*
 * Errors: CUDA's code for the program, a sentence for the person.
 *
 * Every failure names its cause once, where it is found: `return cn_error(CUDA_ERROR_INVALID_VALUE, "…")`. The sentence
 * stays with the calling thread until its next failure; a success does not touch it. CENOTE_LOG=debug also prints it to
 * standard error, with the process and the call that the program made:
 *
 *	cenote[1234] cuMemAlloc: INVALID_VALUE: an allocation of 0 bytes
 */
#ifndef CN_BASE_ERROR_H
#define CN_BASE_ERROR_H

#include "base/private.h"
#include "cenote/cuda.h"

#include <stdbool.h>

CN_PRIVATE void cn_error_keep(CUresult code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Keeps the sentence, and evaluates to the code: visible, so that compilers and analysers see that it is no success. */
#define cn_error(code, ...)                         \
	__extension__({                             \
		cn_error_keep((code), __VA_ARGS__); \
		(CUresult)(code);                   \
	})

/* The sentence of this thread's last failure; "" when there was none. Valid until the thread's next failure. */
const char *cn_last_error(void);

enum { CN_SENTENCE_BYTES = 512 };
/* The failure was part of an attempt: restore the sentence to `kept`, a copy of what it was before. */
void cn_error_forget(const char kept[CN_SENTENCE_BYTES]);
/* From now on failures in this thread are part of an attempt, and are not printed; until as many calls with false. */
void cn_error_hush(bool hushed);
/* The attempt was the last: print its sentence after all. */
void cn_error_repeat(CUresult code);
/* Report on standard error if CENOTE_LOG has an unknown value. For the start of the library. */
void cn_log_check(void);
/* With CENOTE_LOG=debug: print information that is not an error. */
void cn_log(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* CUDA's name and text of a code; NULL for a code that CUDA does not have. */
const char *cn_result_name(CUresult code);
const char *cn_result_text(CUresult code);

#endif
