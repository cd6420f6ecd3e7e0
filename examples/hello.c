/* SPDX-License-Identifier: MIT */
/*
 * Hello: a kernel on a stream, an event behind it, and its result copied back. No GPU is needed.
 */
#include <cenote.h>
#include <cuda_runtime_api.h>

#include <stdio.h>

static void square(const cenote_thread *at, void **args)
{
	int *numbers = *(int **)args[0];
	unsigned int i = at->blockIdx.x * at->blockDim.x + at->threadIdx.x;

	numbers[i] *= numbers[i];
}
CENOTE_KERNEL(square, int *);

/* Every call says whether it worked; every failure says why. */
#define CHECK(call)                                                              \
	do {                                                                     \
		if (call) {                                                      \
			fprintf(stderr, "%s: %s\n", #call, cenote_last_error()); \
			return 1;                                                \
		}                                                                \
	} while (0)

int main(void)
{
	int host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *device;
	void *args[] = {&device};
	dim3 grid = {4, 1, 1}, block = {2, 1, 1};
	cudaStream_t stream;
	cudaEvent_t done;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&done));
	CHECK(cudaMalloc((void **)&device, sizeof host));
	CHECK(cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream));
	CHECK(cudaLaunchKernel((void *)square, grid, block, args, 0, stream));
	CHECK(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaEventRecord(done, stream));
	CHECK(cudaEventSynchronize(done));

	printf("squares:");
	for (int i = 0; i < 8; i++)
		printf(" %d", host[i]);
	printf("\n");

	CHECK(cudaFree(device));
	CHECK(cudaEventDestroy(done));
	CHECK(cudaStreamDestroy(stream));
	return 0;
}
