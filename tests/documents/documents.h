/* SPDX-License-Identifier: MIT */
/*
 * The code of two chapters of CUDA's guide, "Creating and Sharing IPC Memory Pools" (document 1) and "Creating and
 * Sharing Allocations from an Exported Pool" (document 2): one function for each piece.
 *
 * The pieces are the guide's, statement by statement, in C++ (.cc) and, with the names that C has for the same, in C
 * (.c). They compare no result, as there; the tests around them ask cudaGetLastError(). What a piece takes for granted
 * is a parameter. Where it is not as printed, "printed:" says how it was; "ours:" is not in the guide at all.
 */
#ifndef CENOTE_TESTS_DOCUMENTS_H
#define CENOTE_TESTS_DOCUMENTS_H

#include <cuda.h>
#include <cuda_runtime.h>

#include <cenote/cenote.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { NUMBERS = 1024, THREADS = 128, SIZE = NUMBERS * (int)sizeof(int) };

/* What the exporter writes into every byte of a new block, and the number that this makes. */
enum { FIRST_BYTE = 1, FIRST = 0x01010101 };

/* The kernel of the guide's launches: seen[i] = block[i]++. Its parameters: int *block, int *seen. */
void kernel(const cenote_thread *at, void **args);

/* ---- Document 1 ---- */

int export_pool(cudaMemPool_t *ret_pool);
cudaMemPool_t import_pool(int received);

/* ---- Document 2 ---- */

/* Memory of both processes. */
struct shared {
	struct cudaMemPoolPtrExportData ptrData;
	cudaIpcEventHandle_t readyIpcEventHandle;
	cudaIpcEventHandle_t finishedIpcEventHandle; /* the guide does not say how this one travels */
};

void *prepare_allocation(cudaMemPool_t exportMemPool, size_t size, cudaStream_t stream, struct shared *shmem,
			 cudaEvent_t *ret_ready);
void *import_allocation(cudaMemPool_t importedMemPool, cudaStream_t stream, struct shared *shmem, int *seen,
			cudaEvent_t *ret_ready);
void free_in_importer(void *ptr, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen);
void free_in_exporter(void *ptrInExportingProcess, cudaStream_t stream, cudaEvent_t finishedIpcEvent, int *seen);

#ifdef __cplusplus
}
#endif

#endif
