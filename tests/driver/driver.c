/* SPDX-License-Identifier: MIT */
/*
 * A driver for the cuda device, for machines without a GPU: all of Cenote once more, with its host device.
 *
 * The tests' libcuda-host.so shows the names of a driver's library and nothing else, not even that it is Cenote's.
 * With CENOTE_DEVICE=cuda and CENOTE_LIBCUDA leading here, a process has Cenote twice: the one that it calls, whose
 * device is a GPU as far as it knows, and this one below, whose device is the host whatever CENOTE_DEVICE says.
 */
#include "device/device.h"

__attribute__((constructor)) static void be_the_host(void)
{
	cn_device_wanted = "host";
}

/*
 * ---- A name of NVIDIA's that Cenote has not itself: what the drop-in does not know must reach it ----
 *
 * The arguments are not NVIDIA's: they are many.
 */

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUfunction function, unsigned int grid_x, unsigned int grid_y,
						     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
						     unsigned int block_z, unsigned int shared_bytes, CUstream stream,
						     void **parameters);

CUresult cuLaunchCooperativeKernelMultiDevice(CUfunction function, unsigned int grid_x, unsigned int grid_y,
					      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
					      unsigned int block_z, unsigned int shared_bytes, CUstream stream,
					      void **parameters)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
			      parameters, NULL);
}
