/* SPDX-License-Identifier: MIT */
/*
 * NVML over the host devices: what its files share. include/cenote/nvml.h is the manual.
 *
 * Calls work with CUDA's codes and sentences inside, as all of Cenote does, and answer with NVML's: what went wrong is
 * said once, by cn_error(), and cn_nvml_result() translates the code.
 */
#ifndef CN_NVML_NVML_STATE_H
#define CN_NVML_NVML_STATE_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "cenote/nvml.h"

#include "device/device.h"

#define CN_NVML_EXPORT __attribute__((visibility("default")))

/* What a handle points to. */
struct nvmlDevice_st {
	struct cn_device device;
};

/* The devices, as the first nvmlInit() of the process has found them. They are never freed, so no handle dangles. */
struct cn_nvml_devices {
	int count;
	struct nvmlDevice_st list[CN_DEVICE_MAX];
};

nvmlReturn_t cn_nvml_result(CUresult result);

/* The devices, if nvmlInit() has been called; NULL, with a sentence, if not. */
struct cn_nvml_devices *cn_nvml_enter(void);
/*
 * The same, and are the handle and the places for the answer valid? `places` are `count` pointers. Most calls begin
 * with CN_NVML_ENTER, which returns from them if not.
 */
nvmlReturn_t cn_nvml_check(nvmlDevice_t device, const void *const places[], unsigned count);

#define CN_NVML_ENTER(device, ...)                                                                          \
	do {                                                                                                \
		const void *const places_[] = {__VA_ARGS__};                                                \
		nvmlReturn_t entered_ = cn_nvml_check(device, places_, sizeof places_ / sizeof places_[0]); \
		if (entered_ != NVML_SUCCESS)                                                               \
			return entered_;                                                                    \
	} while (0)

/* Write a text to a program's buffer, if it fits. */
nvmlReturn_t cn_nvml_text(const char *text, char *buffer, unsigned length);
/* What the `version` of a structure may be; the answer for one that is not known. */
nvmlReturn_t cn_nvml_refuse_version(unsigned version);
/* A list of so many for which the program has too little room: *count says how long it is. */
nvmlReturn_t cn_nvml_refuse_room(unsigned needed, unsigned *count);

/* nvml_usage.c: begin to count the time that the cores work. */
void cn_nvml_usage_start(void);

#endif
