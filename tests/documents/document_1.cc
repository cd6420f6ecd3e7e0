/* SPDX-License-Identifier: MIT */
/* Document 1's code, in C++. */
#include "documents.h"

int export_pool(cudaMemPool_t *ret_pool)
{
	cudaMemPool_t memPool = nullptr;

	cudaMemPoolProps poolProps = {};
	poolProps.allocType = cudaMemAllocationTypePinned;
	poolProps.location.id = 0;
	poolProps.location.type = cudaMemLocationTypeDevice;

	/* printed: without the cast */
	poolProps.handleTypes = (cudaMemAllocationHandleType)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	cudaMemPoolCreate(&memPool, &poolProps); /* printed: )); */

	int fdHandle = 0;

	/* printed: without the cast */
	cudaMemPoolExportToShareableHandle(&fdHandle, memPool,
					   (cudaMemAllocationHandleType)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	*ret_pool = memPool;
	return fdHandle;
}

cudaMemPool_t import_pool(int received)
{
	cudaMemPool_t importedMemPool = nullptr;

	int fdHandle;
	fdHandle = received; /* ours: from the socket */
	/* printed: without the second cast */
	cudaMemPoolImportFromShareableHandle(&importedMemPool, (void *)fdHandle,
					     (cudaMemAllocationHandleType)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	return importedMemPool;
}
