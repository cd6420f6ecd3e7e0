/* SPDX-License-Identifier: MIT */
/* Document 2's code, in C: no overloads, no default arguments. */
#include "documents.h"

void *prepare_allocation(cudaMemPool_t exportMemPool, size_t size, cudaStream_t stream, struct shared *shmem,
			 cudaEvent_t *ret_ready)
{
	void *ptr = NULL;

	struct cudaMemPoolPtrExportData exportData; /* C: struct */
	cudaEvent_t readyIpcEvent;
	cudaIpcEventHandle_t readyIpcEventHandle;

	/* C: ...WithFlags. printed: without the ; */
	cudaEventCreateWithFlags(&readyIpcEvent, cudaEventDisableTiming | cudaEventInterprocess);

	cudaMallocFromPoolAsync(&ptr, size, exportMemPool, stream); /* C: ...FromPool... */

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
	void *ptr = NULL;
	void *args[] = {&ptr, &seen};
	dim3 grid = {NUMBERS / THREADS, 1, 1}, block = {THREADS, 1, 1};

	struct cudaMemPoolPtrExportData *importData = &shmem->ptrData; /* C: struct. printed: prtData */
	cudaEvent_t readyIpcEvent;
	cudaIpcEventHandle_t *readyIpcEventHandle = &shmem->readyIpcEventHandle;

	cudaIpcOpenEventHandle(&readyIpcEvent, *readyIpcEventHandle); /* printed: without the * */

	cudaMemPoolImportPointer(&ptr, importedMemPool, importData);

	cudaStreamWaitEvent(stream, readyIpcEvent, 0);                        /* C: 0 */
	cudaLaunchKernel((const void *)kernel, grid, block, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	*ret_ready = readyIpcEvent;
	return ptr;
}

void free_in_importer(void *ptr, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen)
{
	void *args[] = {&ptr, &seen};
	dim3 grid = {NUMBERS / THREADS, 1, 1}, block = {THREADS, 1, 1};

	cudaLaunchKernel((const void *)kernel, grid, block, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	cudaFreeAsync(ptr, stream);

	cudaEventRecord(finishedIpcEvent, stream); /* printed: cudaIpcEventRecord */
}

void free_in_exporter(void *ptrInExportingProcess, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen)
{
	void *args[] = {&ptrInExportingProcess, &seen};
	dim3 grid = {NUMBERS / THREADS, 1, 1}, block = {THREADS, 1, 1};

	cudaStreamWaitEvent(stream, finishedIpcEvent, 0);                     /* C: 0 */
	cudaLaunchKernel((const void *)kernel, grid, block, args, 0, stream); /* printed: kernel<<<..., stream>>> */

	cudaFreeAsync(ptrInExportingProcess, stream); /* printed: cudFreeAsync */
}
