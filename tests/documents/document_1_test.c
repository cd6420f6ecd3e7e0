/* SPDX-License-Identifier: MIT */
/*
 * Document 1: a pool is created, exported, sent and imported by the document's code, and then is what the text says.
 */
#include "processes.h"

SETUP
{
	start();
}

ROLE(importer)
{
	struct cudaMemPoolPtrExportData name;
	cudaMemPool_t pool = receive_a_pool(parent);
	void *block;

	peer_receive_bytes(parent, &name, sizeof name);
	ASSERT_OK(cudaMemPoolImportPointer(&block, pool, &name));
	assert_block(FIRST, block);
	ASSERT_OK(cudaMemset(block, FIRST_BYTE + 1, SIZE));
	ASSERT_OK(cudaFree(block));
	ASSERT_OK(cudaMemPoolDestroy(pool));
}

/* Goal: the imported pool is a way to the exported pool's memory, which is device 0's. */
TEST(a_pool_is_shared)
{
	struct cudaMemPoolPtrExportData name;
	struct cudaPointerAttributes attributes;
	struct peer *importer = peer_start("importer");
	cudaMemPool_t pool = share_a_pool(importer);
	void *block;

	ASSERT_OK(cudaMallocFromPoolAsync(&block, SIZE, pool, NULL));
	ASSERT_OK(cudaMemset(block, FIRST_BYTE, SIZE));
	ASSERT_OK(cudaStreamSynchronize(NULL));
	ASSERT_OK(cudaPointerGetAttributes(&attributes, block));
	ASSERT_EQ(cudaMemoryTypeDevice, attributes.type);
	ASSERT_EQ(0, attributes.device);
	ASSERT_OK(cudaMemPoolExportPointer(&name, block));
	peer_send_bytes(importer, &name, sizeof name);
	peer_wait(importer);
	assert_block(FIRST * 2, block);
	ASSERT_OK(cudaFree(block));
	ASSERT_OK(cudaMemPoolDestroy(pool));
}

/* Goal: one descriptor, sent to several processes, makes a pool in each. */
TEST(a_pool_is_shared_with_several)
{
	struct cudaMemPoolPtrExportData name;
	struct peer *importers[3];
	cudaMemPool_t pool;
	int descriptor = export_pool(&pool);

	ASSERT_ALL_OK();
	for (int i = 0; i < 3; i++) {
		void *block;
		importers[i] = peer_start("importer");
		peer_send_descriptor(importers[i], descriptor);
		ASSERT_OK(cudaMallocFromPoolAsync(&block, SIZE, pool, NULL));
		ASSERT_OK(cudaMemset(block, FIRST_BYTE, SIZE));
		ASSERT_OK(cudaStreamSynchronize(NULL));
		ASSERT_OK(cudaMemPoolExportPointer(&name, block));
		peer_send_bytes(importers[i], &name, sizeof name);
		peer_wait(importers[i]);
		ASSERT_OK(cudaFree(block));
	}
	close(descriptor);
	ASSERT_OK(cudaMemPoolDestroy(pool));
}

/* Goal: a pool is exported only as the type of handle that was asked for when it was created. */
TEST(only_what_was_asked_for_is_exported)
{
	static const enum cudaMemAllocationHandleType types[] = {
		cudaMemHandleTypeNone, cudaMemHandleTypePosixFileDescriptor, cudaMemHandleTypeWin32,
		cudaMemHandleTypeWin32Kmt, cudaMemHandleTypeFabric};
	struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
					      .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
	cudaMemPool_t private, pool;
	int descriptor = export_pool(&pool);

	ASSERT_ALL_OK();
	close(descriptor);
	ASSERT_OK(cudaMemPoolCreate(&private, &properties));
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		char handle[64] = "untouched";
		ASSERT_ERROR(cudaErrorInvalidValue, cudaMemPoolExportToShareableHandle(handle, private, types[i], 0));
		if (types[i] != cudaMemHandleTypePosixFileDescriptor)
			ASSERT_ERROR(cudaErrorInvalidValue,
				     cudaMemPoolExportToShareableHandle(handle, pool, types[i], 0));
		ASSERT_STREQ("untouched", handle);
	}
	ASSERT_OK(cudaMemPoolDestroy(private));
	ASSERT_OK(cudaMemPoolDestroy(pool));
}
