/* SPDX-License-Identifier: MIT */
/*
 * The drop-in libraries: NVIDIA's library names over Cenote.
 *
 * libcuda.so.1 needs libcenote-driver.so, and libcudart.so.13 needs libcenote.so, where the dynamic linker finds all
 * that Cenote implements. The drop-ins themselves hold the rest of NVIDIA's names, made by scripts/generate_api.py. On
 * a GPU those of the driver lead to the real one (forward.S). Otherwise each answers "not supported" and says which
 * function it is; so a program that refers to one it never calls still starts.
 */
#ifndef CN_DROPIN_MISSING_H
#define CN_DROPIN_MISSING_H

/* No header of CUDA's is included: it would give other meanings to many of the names. */

/* In both drop-ins: the answer of a function that Cenote does not have. */
int cn_missing(const char *name);

/*
 * Called by cn_missing() (CN_REPORT_MISSING): keep the sentence for cenote_last_error(). Returns
 * CUDA_ERROR_NOT_SUPPORTED, which is also cudaErrorNotSupported. The first is in libcenote-driver.so, for libcuda.so.1;
 * the second is in libcenote.so, for libcudart.so.13, and also sets the runtime's last error.
 */
__attribute__((visibility("default"))) int cenote_report_missing(const char *name);
__attribute__((visibility("default"))) int cenote_report_missing_runtime(const char *name);

/*
 * In libcenote-driver.so, for the drop-in libcuda.so.1: where a name that Cenote does not have leads. NULL: there is no
 * GPU, or its driver has no such name.
 */
__attribute__((visibility("default"))) void *cenote_driver_symbol(const char *name);

/* In both drop-ins: by this, Cenote recognizes its own drop-in when it looks for a real driver. */
extern __attribute__((visibility("default"))) const char cenote_dropin_mark[];

#endif
