/* SPDX-License-Identifier: MIT */
/*
 * Two processes and one piece of device memory: the parent fills it, the child reads it through a handle.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}
#define CHECK(call) check(call, #call)

static int child(int from_parent)
{
	cudaIpcMemHandle_t handle;
	void *memory;
	int value = 0;

	if (read(from_parent, &handle, sizeof handle) != sizeof handle)
		return 1;
	CHECK(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
	CHECK(cudaIpcCloseMemHandle(memory));
	printf("the child reads %d\n", value);
	return value != 42;
}

int main(void)
{
	int ends[2], status = 0, value = 42;
	cudaIpcMemHandle_t handle;
	void *memory;

	if (pipe(ends))
		return 1;
	pid_t pid = fork(); /* before the first CUDA call */
	if (pid == 0)
		return child(ends[0]);
	CHECK(cudaMalloc(&memory, sizeof value));
	CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
	CHECK(cudaIpcGetMemHandle(&handle, memory));
	if (write(ends[1], &handle, sizeof handle) != sizeof handle || waitpid(pid, &status, 0) != pid)
		return 1;
	CHECK(cudaFree(memory));
	return status != 0;
}
