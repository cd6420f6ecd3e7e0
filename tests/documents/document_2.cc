/* SPDX-License-Identifier: MIT */
/* Document 2's code, in C++. */
#include "documents.h"

void *prepare_allocation(cudaMemPool_t exportMemPool, size_t size, cudaStream_t stream, struct shared *shmem,
			 cudaEvent_t *ret_ready)
{
	void *ptr = nullptr;

	cudaMemPoolPtrExportData exportData;
	cudaEvent_t readyIpcEvent;
	cudaIpcEventHandle_t readyIpcEventHandle;

	cudaEventCreate(&readyIpcEvent, cudaEventDisableTiming | cudaEventInterprocess); /* printed: without the ; */

	cudaMallocAsync(&ptr, size, exportMemPool, stream);

	cudaMemsetAsync(ptr, FIRST_BYTE, size, stream); /* ours: something to see */

	cudaEventRecord(readyIpcEvent, stream);
	cudaMemPoolExportPointer(&exportData, ptr);
	cudaIpcGetEventHandle(&readyIpcEventHandle, readyIpcEvent);

	shmem->ptrData = exportData;
	shmem->readyIpcEventHandle = readyIpcEventHandle;

	*ret_ready = readyIpcEvent;
	return ptr;
}

void *import_allocation(cudaMemPool_t importedMemPool, cudaStream_t stream, struct shared *shmem, int *seen,
			cudaEvent_t *ret_ready)
{
	void *ptr = nullptr;
	void *args[] = {&ptr, &seen};

	cudaMemPoolPtrExportData *importData = &shmem->ptrData; /* printed: prtData */
	cudaEvent_t readyIpcEvent;
	cudaIpcEventHandle_t *readyIpcEventHandle = &shmem->readyIpcEventHandle;

	cudaIpcOpenEventHandle(&readyIpcEvent, *readyIpcEventHandle); /* printed: without the * */

	cudaMemPoolImportPointer(&ptr, importedMemPool, importData);

	cudaStreamWaitEvent(stream, readyIpcEvent);
	cudaLaunchKernel(kernel, NUMBERS / THREADS, THREADS, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	*ret_ready = readyIpcEvent;
	return ptr;
}

void free_in_importer(void *ptr, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen)
{
	void *args[] = {&ptr, &seen};

	cudaLaunchKernel(kernel, NUMBERS / THREADS, THREADS, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	cudaFreeAsync(ptr, stream);

	cudaEventRecord(finishedIpcEvent, stream); /* printed: cudaIpcEventRecord */
}

void free_in_exporter(void *ptrInExportingProcess, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen)
{
	void *args[] = {&ptrInExportingProcess, &seen};

	cudaStreamWaitEvent(stream, finishedIpcEvent);
	cudaLaunchKernel(kernel, NUMBERS / THREADS, THREADS, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	cudaFreeAsync(ptrInExportingProcess, stream); /* printed: cudFreeAsync */
}
