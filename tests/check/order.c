/* SPDX-License-Identifier: MIT */
/*
 * Work of two processes or streams on the same bytes, without an order between them.
 */
#include "programs.h"

#include <cenote/cuda_runtime_api.h>

#include <sys/socket.h>
#include <unistd.h>

/* ---- A reader that does not wait for the writer's event ---- */

static void fill_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	send_event(0, ready);
	send_block(0, block);
	fill(block, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

static void fill_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent ready = receive_event();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, ready, 0));
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A writer that does not wait until its reader is done with the frame before ---- */

static void overwrite_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent read = make_event();
	CUdeviceptr block = allocate(pool);

	send_event(0, read);
	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	be_told(0); /* the read is submitted and recorded */
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, read, 0));
	fill(block, me.stream);
	finish(me.stream);
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void overwrite_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent read = receive_event();
	CUdeviceptr block = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuEventRecord(read, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- The same with memory of cuMemAlloc ---- */

static void legacy_first(void)
{
	CUdeviceptr memory;

	begin();
	CUevent ready = make_event();
	MUST(cuMemAlloc(&memory, BYTES));
	send_legacy(0, memory);
	send_event(0, ready);
	fill(memory, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFree(memory));
}

static void legacy_second(void)
{
	begin();
	CUdeviceptr memory = receive_legacy();
	CUevent ready = receive_event();

	be_told(0);
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, ready, 0));
	read_back(memory, me.stream);
	finish(me.stream);
	MUST(cuIpcCloseMemHandle(memory));
	tell(0);
}

/* ---- The same with physical memory ---- */

static size_t map_memory(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr *ret_memory)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	MUST(cuMemAddressReserve(ret_memory, bytes, 0, 0, 0));
	MUST(cuMemMap(*ret_memory, bytes, 0, handle, 0));
	MUST(cuMemSetAccess(*ret_memory, bytes, &access, 1));
	return bytes;
}

static void unmap_memory(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr memory)
{
	MUST(cuMemUnmap(memory, bytes));
	MUST(cuMemAddressFree(memory, bytes));
	MUST(cuMemRelease(handle));
}

static void physical_first(void)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;
	size_t bytes = 2 << 20;
	int descriptor;

	begin();
	CUevent ready = make_event();
	MUST(cuMemCreate(&handle, bytes, &properties, 0));
	map_memory(handle, bytes, &memory);
	MUST(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cenote_send_descriptor(me.socks[0], descriptor));
	send_event(0, ready);
	fill(memory, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	finish(me.stream);
	unmap_memory(handle, bytes, memory);
}

static void physical_second(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;
	size_t bytes = 2 << 20;
	int descriptor;

	begin();
	MUST(cenote_recv_descriptor(me.socks[0], &descriptor));
	CUevent ready = receive_event();
	MUST(cuMemImportFromShareableHandle(&handle, (void *)(size_t)descriptor,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	map_memory(handle, bytes, &memory);
	be_told(0);
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, ready, 0));
	read_back(memory, me.stream);
	finish(me.stream);
	unmap_memory(handle, bytes, memory);
	tell(0);
}

/* ---- Two streams of the writer, of which the second does not wait for the first ---- */

static void streams_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event(), filled;
	CUdeviceptr block = allocate(pool), from = allocate(pool);

	MUST(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
	fill(from, me.another);
	finish(me.another);
	send_event(0, ready);
	send_block(0, block);
	fill(block, me.stream);
	MUST(cuEventRecord(filled, me.stream));
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.another, filled, 0));
	MUST(cuMemcpyDtoDAsync(block, from, BYTES, me.another));
	MUST(cuEventRecord(ready, me.another));
	tell(0);
	be_told(0);
	finish(me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuMemFreeAsync(from, me.stream));
}

static void streams_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent ready = receive_event();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	MUST(cuStreamWaitEvent(me.stream, ready, 0));
	finish(me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- Columns of a picture: two processes that fill halves of it, or more than that ---- */

enum { PITCH = 1024, ROWS = 32 };

static void columns_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	send_block(0, block);
	MUST(cuMemsetD2D8Async(block, PITCH, 1, PITCH / 2, ROWS, me.stream));
	tell(0);
	be_told(0);
	finish(me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void columns_second(void)
{
	size_t first = me.bad ? PITCH / 2 - 1 : PITCH / 2;

	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);
	be_told(0);
	MUST(cuMemsetD2D8Async(block + first, PITCH, 2, PITCH / 2, ROWS, me.stream));
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- An event that is recorded before the work it is to stand for ---- */

static void record_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	send_event(0, ready);
	send_block(0, block);
	if (me.bad)
		MUST(cuEventRecord(ready, me.stream));
	fill(block, me.stream);
	if (!me.bad)
		MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void record_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent ready = receive_event();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	MUST(cuStreamWaitEvent(me.stream, ready, 0));
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A value that says too early that the block is full ---- */

static void value_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr flag = send_words(0), block = allocate(pool);

	send_block(0, block);
	be_told(0); /* it waits for the value by now */
	if (me.bad)
		MUST(cuStreamWriteValue32(me.stream, flag, 1, 0));
	fill(block, me.stream);
	if (!me.bad)
		MUST(cuStreamWriteValue32(me.stream, flag, 1, 0));
	be_told(0);
	finish(me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void value_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr flag = receive_words(), block = receive_block(pool);

	MUST(cuStreamWaitValue32(me.stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	read_back(block, me.stream);
	tell(0);
	finish(me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A host function that tells too early ---- */

static void CUDA_CB tell_second(void *unused)
{
	(void)unused;
	tell(0);
}

static void host_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	send_block(0, block);
	if (me.bad)
		MUST(cuLaunchHostFunc(me.stream, tell_second, NULL));
	fill(block, me.stream);
	if (!me.bad)
		MUST(cuLaunchHostFunc(me.stream, tell_second, NULL));
	be_told(0); /* the read is submitted */
	finish(me.stream);
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

/* It is not done with its read before the host function has returned, however long that takes. */
static void host_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	read_back(block, me.stream);
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A kernel, and a copy that does not wait for it ---- */

static void increment(const cenote_thread *at, void **arguments)
{
	unsigned char *bytes = *(unsigned char **)arguments[0];

	bytes[at->blockIdx.x * at->blockDim.x + at->threadIdx.x]++;
}
CENOTE_KERNEL(increment, unsigned char *);

static void kernel_second(void)
{
	const dim3 one = {1, 1, 1}, threads = {64, 1, 1};

	begin();
	CUmemoryPool pool = receive_pool();
	CUevent ready = receive_event();
	CUdeviceptr block = receive_block(pool);
	void *arguments[] = {&block};

	be_told(0);
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, ready, 0));
	must(cudaLaunchKernel((const void *)increment, one, threads, arguments, 0, me.stream) == cudaSuccess, "launch");
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A kernel in PTX, whose code says that it writes, and a copy that does not wait for it ---- */

static const char writer[] = ".version 7.0\n"
			     ".target sm_70\n"
			     ".address_size 64\n"
			     ".visible .entry writer(.param .u64 bytes)\n"
			     "{\n"
			     "	.reg .u64 %rd<4>;\n"
			     "	.reg .u32 %r<2>;\n"
			     "	ld.param.u64 %rd1, [bytes];\n"
			     "	cvta.to.global.u64 %rd2, %rd1;\n"
			     "	mov.u32 %r1, %tid.x;\n"
			     "	cvt.u64.u32 %rd3, %r1;\n"
			     "	add.u64 %rd2, %rd2, %rd3;\n"
			     "	st.global.u8 [%rd2], %r1;\n"
			     "	ret;\n"
			     "}\n";

static void ptx_first(void)
{
	CUfunction function;
	CUmodule module;

	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);
	void *arguments[] = {&block};

	MUST(cuModuleLoadData(&module, writer));
	MUST(cuModuleGetFunction(&function, module, "writer"));
	send_event(0, ready);
	send_block(0, block);
	MUST(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, me.stream, arguments, NULL));
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

/* ---- A stream that waits for the default stream, or one that does not ---- */

static void default_first(void)
{
	CUstream stream;

	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	MUST(cuStreamCreate(&stream, me.bad ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	send_event(0, ready);
	send_block(0, block);
	fill(block, NULL);
	MUST(cuMemsetD8Async(block, 2, BYTES / 2, stream));
	MUST(cuEventRecord(ready, stream));
	tell(0);
	be_told(0);
	MUST(cuCtxSynchronize());
	MUST(cuMemFreeAsync(block, me.stream));
}

/* ---- A writer that asks whether the work is done, or only believes it ---- */

static void query_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	send_block(0, block);
	fill(block, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	while (!me.bad && cuEventQuery(ready) == CUDA_ERROR_NOT_READY)
		usleep(100);
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void query_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- A ring of two blocks, whose reader waits for the other one's event ---- */

static void ring_first(void)
{
	CUevent ready[2];
	CUdeviceptr blocks[2];

	begin();
	CUmemoryPool pool = send_pool(0);
	for (int i = 0; i < 2; i++) {
		ready[i] = make_event();
		blocks[i] = allocate(pool);
		send_event(0, ready[i]);
		send_block(0, blocks[i]);
	}
	fill(blocks[0], me.stream);
	MUST(cuEventRecord(ready[0], me.stream));
	fill(blocks[1], me.another);
	MUST(cuEventRecord(ready[1], me.another));
	tell(0);
	be_told(0);
	finish(me.another);
	for (int i = 0; i < 2; i++)
		MUST(cuMemFreeAsync(blocks[i], me.stream));
}

static void ring_second(void)
{
	CUevent ready[2];
	CUdeviceptr blocks[2];

	begin();
	CUmemoryPool pool = receive_pool();
	for (int i = 0; i < 2; i++) {
		ready[i] = receive_event();
		blocks[i] = receive_block(pool);
	}
	be_told(0);
	for (int i = 0; i < 2; i++) {
		MUST(cuStreamWaitEvent(me.stream, ready[me.bad ? 0 : i], 0));
		read_back(blocks[i], me.stream);
		MUST(cuMemFreeAsync(blocks[i], me.stream));
	}
	finish(me.stream);
	tell(0);
}

/* ---- Three processes: the last one waits for the first, and not for the second, which writes after it ---- */

static void chain_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	MUST(cenote_send_pool(me.socks[1], pool));
	CUevent filled = make_event(), changed = make_event();
	CUdeviceptr block = allocate(pool);

	for (int i = 0; i < 2; i++) {
		send_event(i, filled);
		send_event(i, changed);
		send_block(i, block);
	}
	fill(block, me.stream);
	MUST(cuEventRecord(filled, me.stream));
	tell(0);
	be_told(0); /* the second has recorded */
	tell(1);
	be_told(1);
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void chain_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent filled = receive_event(), changed = receive_event();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	MUST(cuStreamWaitEvent(me.stream, filled, 0));
	fill(block, me.stream);
	MUST(cuEventRecord(changed, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

static void chain_third(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent filled = receive_event(), changed = receive_event();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	MUST(cuStreamWaitEvent(me.stream, me.bad ? filled : changed, 0));
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- An order by a message alone, which --strict does not assume: the bad one does not tell of it ---- */

enum { READY = 1, DONE = 2 };

static void channel_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	send_block(0, block);
	fill(block, me.stream);
	finish(me.stream);
	if (!me.bad)
		MUST(cenote_order_sent(READY));
	tell(0);
	be_told(0);
	MUST(cenote_order_received(DONE));
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

static void channel_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	be_told(0);
	MUST(cenote_order_received(READY));
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	MUST(cenote_order_sent(DONE));
	tell(0);
}

const struct program order_programs[] = {
	{"fill_and_read", "race", {fill_first, fill_second}},
	{"read_and_overwrite", "race", {overwrite_first, overwrite_second}},
	{"legacy_memory", "race", {legacy_first, legacy_second}},
	{"physical_memory", "race", {physical_first, physical_second}},
	{"two_streams", "race", {streams_first, streams_second}},
	{"columns", "race", {columns_first, columns_second}},
	{"record_too_early", "race", {record_first, record_second}},
	{"value_too_early", "race", {value_first, value_second}},
	{"host_function_too_early", "race", {host_first, host_second}},
	{"kernel", "race", {fill_first, kernel_second}},
	{"kernel_in_ptx", "race", {ptx_first, fill_second}},
	{"default_stream", "race", {default_first, record_second}},
	{"query", "race", {query_first, query_second}},
	{"ring", "race", {ring_first, ring_second}},
	{"three_processes", "race", {chain_first, chain_second, chain_third}},
	{"own_channel", "strict", {channel_first, channel_second}},
	{NULL, NULL, {NULL}},
};
