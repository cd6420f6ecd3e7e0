/* SPDX-License-Identifier: MIT */
/*
 * All types of the runtime API. The headers below guard themselves; like NVIDIA's, this one needs no guard of its own.
 */
#include "driver_types.h"
#include "vector_types.h"
