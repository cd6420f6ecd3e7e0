/* SPDX-License-Identifier: MIT */
/*
 * The dynamic linker's cache: which file a library's name stands for.
 */
#ifndef CN_DEVICE_CUDA_CUDA_CACHE_H
#define CN_DEVICE_CUDA_CUDA_CACHE_H

#include <limits.h>
#include <stdbool.h>

/* The absolute path that a cache file has for a library of this machine's kind; false: none, or no such cache. */
bool cn_loader_cache_find(const char *cache, const char *name, char ret_file[PATH_MAX]);

#endif
