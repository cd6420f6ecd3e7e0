/* SPDX-License-Identifier: MIT */
/*
 * NVML: the answer of the functions that Cenote does not have, which the build makes from scripts/nvidia_names.txt.
 */
#ifndef CN_NVML_NVML_MISSING_H
#define CN_NVML_NVML_MISSING_H

/* nvml.h is not included: the functions that are made have other types than it says. */

/* NVML_ERROR_UNINITIALIZED before nvmlInit(), else NVML_ERROR_NOT_SUPPORTED; a sentence says which function it is. */
int cn_nvml_missing(const char *name);

#endif
