/* SPDX-License-Identifier: MIT */
/* A stranger's program: written as for CUDA, it copies some bytes through a device and says whether they came back. */
#include <stdio.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

int main(void)
{
	char sent[64] = "through the device and back", received[64] = "";
	void *memory = NULL;
	int version = 0;

	if (cuDriverGetVersion(&version) || version < 13000)
		return 1;
	if (cudaMalloc(&memory, sizeof sent) || cudaMemcpy(memory, sent, sizeof sent, cudaMemcpyHostToDevice) ||
	    cudaMemcpy(received, memory, sizeof received, cudaMemcpyDeviceToHost) || cudaFree(memory)) {
		fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
		return 1;
	}
	puts(received);
	return strcmp(sent, received) != 0;
}
