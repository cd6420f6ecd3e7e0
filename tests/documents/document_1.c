/* SPDX-License-Identifier: MIT */
/* Document 1's code, in C. */
#include "documents.h"

int export_pool(cudaMemPool_t *ret_pool)
{
	cudaMemPool_t memPool = NULL;

	struct cudaMemPoolProps poolProps = {}; /* C: struct */
	poolProps.allocType = cudaMemAllocationTypePinned;
	poolProps.location.id = 0;
	poolProps.location.type = cudaMemLocationTypeDevice;

	poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	cudaMemPoolCreate(&memPool, &poolProps); /* printed: )); */

	int fdHandle = 0;

	cudaMemPoolExportToShareableHandle(&fdHandle, memPool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	*ret_pool = memPool;
	return fdHandle;
}

cudaMemPool_t import_pool(int received)
{
	cudaMemPool_t importedMemPool = NULL;

	int fdHandle;
	fdHandle = received; /* ours: from the socket */
	cudaMemPoolImportFromShareableHandle(&importedMemPool, (void *)fdHandle,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	return importedMemPool;
}
