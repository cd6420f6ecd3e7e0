/* SPDX-License-Identifier: MIT */
/*
 * Chapter "edge_batch": memory operations in batches; and the calls of the chapters "edge", "edge_copy" and this one
 * where the state is wrong.
 */
#include "calls.h"

#include <limits.h>

CHAPTER(edge_batch);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct objects f;
static struct outputs o;

/* ---- Memory operations in batches -------------------------------------------------------------------------------- */

enum { BATCH_ROOM = 1024 };

static CUstreamBatchMemOpParams batch[BATCH_ROOM];
static CUdeviceptr words, freed;
static struct gate gate;
static CUstream stream;

static void batch_setup(void)
{
	ask_context();
	gate = gate_make();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuMemAlloc(&words, 4096));
	NEED(cuMemsetD8(words, 0, 4096));
	NEED(cuMemAlloc(&freed, 64 << 20));
	NEED(cuMemFree(freed));
	NEED(cuCtxSynchronize());
	memset(batch, 0, sizeof batch);
}

static CUstreamBatchMemOpParams write_word(int bytes, CUdeviceptr at, uint64_t value)
{
	CUstreamBatchMemOpParams made;

	memset(&made, 0, sizeof made);
	made.writeValue.operation = bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64;
	made.writeValue.address = at;
	made.writeValue.value64 = value;
	return made;
}

static CUstreamBatchMemOpParams wait_word(int bytes, CUdeviceptr at, uint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams made;

	memset(&made, 0, sizeof made);
	made.waitValue.operation = bytes == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
	made.waitValue.address = at;
	made.waitValue.value64 = value;
	made.waitValue.flags = flags;
	return made;
}

static CUstreamBatchMemOpParams barrier(unsigned int flags)
{
	CUstreamBatchMemOpParams made;

	memset(&made, 0, sizeof made);
	made.memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
	made.memoryBarrier.flags = flags;
	return made;
}

static CUstreamBatchMemOpParams flush(unsigned int flags)
{
	CUstreamBatchMemOpParams made;

	memset(&made, 0, sizeof made);
	made.flushRemoteWrites.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
	made.flushRemoteWrites.flags = flags;
	return made;
}

/* What the first words hold once the stream is idle; then zeros again. */
static const char *settled(void)
{
	static char said[300];
	CUresult result = cuCtxSynchronize();

	if (!result)
		result = cuStreamSynchronize(stream); /* may be another context's */
	snprintf(said, sizeof said, "%s %s", ask_driver_code(result), ask_device_bytes(words, 32));
	cuMemsetD8(words, 0, 64);
	cuCtxSynchronize();
	return said;
}

GROUP(batch_good)
{
	batch_setup();
	ask_guard();
	batch[0] = write_word(4, words, 0x1122334455667788);
	ASK_VALUE("batch_write32", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	batch[0] = write_word(8, words + 8, 0x1122334455667788);
	ASK_VALUE("batch_write64", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	batch[0] = wait_word(4, words, 0, CU_STREAM_WAIT_VALUE_EQ);
	ASK_VALUE("batch_wait32", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	batch[0] = wait_word(4, words, 0x100000000, CU_STREAM_WAIT_VALUE_EQ);
	ASK_VALUE("batch_wait32_upper_half_ignored", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	batch[0] = wait_word(8, words, 0, CU_STREAM_WAIT_VALUE_EQ);
	ASK_VALUE("batch_wait64", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	for (unsigned int flags = 0; flags < 4; flags++) {
		batch[0] = barrier(flags);
		ASK_VALUE(ask_name("batch_barrier_%u", flags), cuStreamBatchMemOp(stream, 1, batch, 0), "%s",
			  settled());
		batch[0] = flush(flags);
		ASK_VALUE(ask_name("batch_flush_%u", flags), cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	}
	batch[0] = barrier(~0u);
	ASK("batch_barrier_all_flags", cuStreamBatchMemOp(stream, 1, batch, 0));
	batch[0] = write_word(4, words, 1);
	batch[1] = wait_word(4, words, 1, CU_STREAM_WAIT_VALUE_EQ);
	batch[2] = barrier(0);
	batch[3] = write_word(8, words + 16, 0x0807060504030201);
	batch[4] = wait_word(8, words + 16, 0x0807060504030201, CU_STREAM_WAIT_VALUE_GEQ);
	batch[5] = write_word(4, words, 2);
	ASK_VALUE("batch_in_order", cuStreamBatchMemOp(stream, 6, batch, 0), "%s", settled());
	batch[0] = write_word(4, words, 5);
	batch[1] = write_word(4, words, 6);
	batch[2] = write_word(4, words, 7);
	ASK_VALUE("batch_last_write_stays", cuStreamBatchMemOp(stream, 3, batch, 0), "%s", settled());
	batch[0] = write_word(4, gate.at + 64, 0xa5a5);
	ASK_VALUE("batch_write_host", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	SAY("batch_host_word", "%x", gate.word[16]);
}

GROUP(batch_counts)
{
	static const unsigned int counts[] = {0, 1, 2, 254, 255, 256, 257, 512, 1000, 1024};

	batch_setup();
	ask_guard();
	for (int i = 0; i < BATCH_ROOM; i++)
		batch[i] = write_word(4, words + 4 * (unsigned)(i % 8), (unsigned)i + 1);
	for (size_t i = 0; i < COUNT(counts); i++) {
		ASK_VALUE(ask_name("batch_count_%u", counts[i]), cuStreamBatchMemOp(stream, counts[i], batch, 0), "%s",
			  settled());
		ASK(ask_name("batch_count_%u_null_array", counts[i]), cuStreamBatchMemOp(stream, counts[i], NULL, 0));
		ASK_VALUE(ask_name("batch_count_%u_flags_1", counts[i]),
			  cuStreamBatchMemOp(stream, counts[i], batch, 1), "%s", settled());
	}
	ASK("batch_flags_all", cuStreamBatchMemOp(stream, 1, batch, ~0u));
	ASK("batch_flags_2", cuStreamBatchMemOp(stream, 1, batch, 2));
	ASK("batch_null_array_flags_1", cuStreamBatchMemOp(stream, 1, NULL, 1));
	ASK("batch_count_max", cuStreamBatchMemOp(stream, ~0u, batch, 0));
}

/* Each question has the wrong operation alone, then behind a good one, which is seen to have happened or not. */
static void ask_wrong(const char *name, CUstreamBatchMemOpParams wrong)
{
	batch[0] = wrong;
	ASK_VALUE(ask_name("batch_%s", name), cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	batch[0] = write_word(4, words, 0x41);
	batch[1] = wrong;
	batch[2] = write_word(4, words + 4, 0x42);
	ASK_VALUE(ask_name("batch_%s_between", name), cuStreamBatchMemOp(stream, 3, batch, 0), "%s", settled());
}

GROUP(batch_wrong_addresses)
{
	static uint64_t pageable;

	batch_setup();
	ask_guard();
	const struct {
		const char *name;
		CUdeviceptr at;
	} addresses[] = {
		{"null", 0},
		{"small", 8},
		{"by_1", words + 1},
		{"by_2", words + 2},
		{"by_4", words + 12},
		{"garbage", GARBAGE(CUdeviceptr)},
		{"pageable", (CUdeviceptr)(uintptr_t)&pageable},
		{"freed", freed},
	};

	for (size_t i = 0; i < COUNT(addresses); i++) {
		const char *name = addresses[i].name;
		CUdeviceptr at = addresses[i].at;
		ask_wrong(ask_name("write32_at_%s", name), write_word(4, at, 0));
		ask_wrong(ask_name("write64_at_%s", name), write_word(8, at, 0));
		ask_wrong(ask_name("wait32_at_%s", name), wait_word(4, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
		ask_wrong(ask_name("wait64_at_%s", name), wait_word(8, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
	}
}

GROUP(batch_wrong_flags)
{
	static const unsigned int flags[] = {0, 1, 2, 3, 4, 7, 8, 1u << 30, ~0u};
	static const int operations[] = {0, 7, 8, 99, -1, INT_MAX};

	batch_setup();
	ask_guard();
	for (size_t i = 0; i < COUNT(flags); i++) {
		CUstreamBatchMemOpParams made = write_word(4, words + 8, 1);
		made.writeValue.flags = flags[i];
		ask_wrong(ask_name("write32_flags_%x", flags[i]), made);
		made = write_word(8, words + 8, 1);
		made.writeValue.flags = flags[i];
		ask_wrong(ask_name("write64_flags_%x", flags[i]), made);
		if ((flags[i] & 3) != CU_STREAM_WAIT_VALUE_AND) /* the others find zero in memory good */
			ask_wrong(ask_name("wait32_flags_%x", flags[i]), wait_word(4, words + 8, 0, flags[i]));
		ask_wrong(ask_name("wait64_flags_%x_or_4", flags[i]), wait_word(8, words + 8, 0, flags[i] | 4));
	}
	for (size_t i = 0; i < COUNT(operations); i++) {
		CUstreamBatchMemOpParams made = write_word(4, words + 8, 1);
		made.operation = (CUstreamBatchMemOpType)operations[i];
		ask_wrong(ask_name("operation_%d", operations[i]), made);
	}
	CUstreamBatchMemOpParams aliased = write_word(4, words + 8, 1);
	aliased.writeValue.alias = words + 64;
	ask_wrong("write32_alias", aliased);
	aliased.writeValue.alias = GARBAGE(CUdeviceptr);
	ask_wrong("write32_alias_garbage", aliased);
	aliased = wait_word(4, words + 8, 0, 0);
	aliased.waitValue.alias = GARBAGE(CUdeviceptr);
	ask_wrong("wait32_alias_garbage", aliased);
}

/* A batch waits in its stream like any other work. */
GROUP(batch_order)
{
	CUevent event = NULL;

	batch_setup();
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	batch[0] = write_word(4, gate.at + 64, 1);
	batch[1] = wait_word(4, gate.at, 1, CU_STREAM_WAIT_VALUE_GEQ);
	batch[2] = write_word(4, gate.at + 68, 2);
	ASK("batch_gated", cuStreamBatchMemOp(stream, 3, batch, 0));
	NEED(cuEventRecord(event, stream));
	ASK("batch_gated_query", cuStreamQuery(stream));
	ASK("batch_gated_event", cuEventQuery(event));
	SAY("batch_gated_later_word", "%x", gate.word[17]);
	memset(batch, 0, sizeof batch); /* it has been read */
	__atomic_store_n(gate.word, 1, __ATOMIC_SEQ_CST);
	ASK("batch_gated_synchronize", cuStreamSynchronize(stream));
	SAY("batch_gated_words", "%x %x", gate.word[16], gate.word[17]);
	ASK("batch_gated_event_done", cuEventQuery(event));
}

extern __typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_v2_ptsz;

GROUP(batch_streams)
{
	CUstream gone = NULL, apart = NULL;

	batch_setup();
	NEED(cuStreamCreate(&gone, 0));
	NEED(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamDestroy(gone));
	batch[0] = write_word(4, words, 0x51);
	ASK_VALUE("batch_null_stream", cuStreamBatchMemOp(NULL, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_legacy", cuStreamBatchMemOp(CU_STREAM_LEGACY, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_per_thread", cuStreamBatchMemOp(CU_STREAM_PER_THREAD, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_apart", cuStreamBatchMemOp(apart, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_own_null_stream", cuStreamBatchMemOp_v2_ptsz(NULL, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_own_stream", cuStreamBatchMemOp_v2_ptsz(stream, 1, batch, 0), "%s", settled());
	ASK("batch_own_null_array", cuStreamBatchMemOp_v2_ptsz(NULL, 1, NULL, 0));
	gate_close(&gate, stream);
	NEED(cuStreamBatchMemOp_v2_ptsz(NULL, 1, batch, 0));
	ASK("batch_own_passes_blocking", cuStreamSynchronize(CU_STREAM_PER_THREAD));
	NEED(cuStreamBatchMemOp(NULL, 1, batch, 0));
	ASK("batch_null_waits_for_blocking", cuStreamQuery(NULL));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
	CUcontext second = ask_context();
	ASK_VALUE("batch_foreign_stream", cuStreamBatchMemOp(stream, 1, batch, 0), "%s", settled());
	ASK_VALUE("batch_foreign_memory", cuStreamBatchMemOp(NULL, 1, batch, 0), "%s", settled());
	NEED(cuCtxDestroy(second));
	ASK("batch_garbage_stream", cuStreamBatchMemOp(GARBAGE(CUstream), 1, batch, 0));
	ASK("batch_small_stream", cuStreamBatchMemOp(SMALL(CUstream), 1, batch, 0));
	ASK("batch_destroyed_stream", cuStreamBatchMemOp(gone, 1, batch, 0));
}

/* ---- Where the state is wrong ------------------------------------------------------------------------------------ */

static CUDA_MEMCPY3D box;
static struct cudaMemcpy3DParms runtime_box;
static int answers[2];
static enum cudaFuncCache runtime_config;
static CUfunc_cache config;

static void state_arguments(void)
{
	objects_outputs(&f, &o);
	memset(&box, 0, sizeof box);
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = f.memory;
	box.dstDevice = f.memory + 1024;
	box.srcPitch = box.dstPitch = 64;
	box.srcHeight = box.dstHeight = 2;
	box.WidthInBytes = 16;
	box.Height = box.Depth = 2;
	memset(&runtime_box, 0, sizeof runtime_box);
	runtime_box.srcPtr.ptr = (void *)(uintptr_t)f.memory;
	runtime_box.dstPtr.ptr = (void *)(uintptr_t)(f.memory + 1024);
	runtime_box.srcPtr.pitch = runtime_box.dstPtr.pitch = 64;
	runtime_box.srcPtr.xsize = runtime_box.dstPtr.xsize = 64;
	runtime_box.srcPtr.ysize = runtime_box.dstPtr.ysize = 2;
	runtime_box.extent.width = 16;
	runtime_box.extent.height = runtime_box.extent.depth = 2;
	runtime_box.kind = cudaMemcpyDeviceToDevice;
	batch[0] = write_word(4, f.memory, 1);
}

#define EDGE_CALLS(X)                                                                     \
	X(cuCtxGetLimit, cuCtxGetLimit(&o.size, CU_LIMIT_STACK_SIZE))                     \
	X(cuCtxGetLimit_wrong, cuCtxGetLimit(NULL, (CUlimit)99))                          \
	X(cuCtxSetLimit, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20))              \
	X(cuCtxSetLimit_wrong, cuCtxSetLimit((CUlimit)99, 1))                             \
	X(cuCtxGetCacheConfig, cuCtxGetCacheConfig(&config))                              \
	X(cuCtxGetCacheConfig_null, cuCtxGetCacheConfig(NULL))                            \
	X(cuCtxSetCacheConfig, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE))            \
	X(cuCtxSetCacheConfig_wrong, cuCtxSetCacheConfig((CUfunc_cache)99))               \
	X(cuMemcpy3D, cuMemcpy3D(&box))                                                   \
	X(cuMemcpy3D_null, cuMemcpy3D(NULL))                                              \
	X(cuMemcpy3DAsync, cuMemcpy3DAsync(&box, f.stream))                               \
	X(cuMemcpy3DAsync_null_stream, cuMemcpy3DAsync(&box, NULL))                       \
	X(cuStreamBatchMemOp, cuStreamBatchMemOp(f.stream, 1, batch, 0))                  \
	X(cuStreamBatchMemOp_null_stream, cuStreamBatchMemOp(NULL, 1, batch, 0))          \
	X(cuStreamBatchMemOp_null, cuStreamBatchMemOp(f.stream, 1, NULL, 0))              \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                    \
	  cuOccupancyMaxActiveBlocksPerMultiprocessor(answers, f.function, 32, 0))        \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor_null,                               \
	  cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f.function, 32, 0))           \
	X(cuOccupancyMaxPotentialBlockSize,                                               \
	  cuOccupancyMaxPotentialBlockSize(answers, answers + 1, f.function, NULL, 0, 0)) \
	X(cuOccupancyMaxPotentialBlockSize_null, cuOccupancyMaxPotentialBlockSize(NULL, NULL, f.function, NULL, 0, 0))

#define EDGE_RUNTIME_CALLS(X)                                                          \
	X(cudaDeviceGetLimit, cudaDeviceGetLimit(&o.size, cudaLimitStackSize))         \
	X(cudaDeviceSetLimit, cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20))   \
	X(cudaDeviceGetCacheConfig, cudaDeviceGetCacheConfig(&runtime_config))         \
	X(cudaDeviceSetCacheConfig, cudaDeviceSetCacheConfig(cudaFuncCachePreferNone)) \
	X(cudaMemcpy3D, cudaMemcpy3D(&runtime_box))                                    \
	X(cudaMemcpy3DAsync, cudaMemcpy3DAsync(&runtime_box, f.stream))                \
	X(cudaOccupancyMaxActiveBlocksPerMultiprocessor,                               \
	  cudaOccupancyMaxActiveBlocksPerMultiprocessor(answers, NULL, 32, 0))

/* All of them, where the state is this. */
#define X(name, call) ASK(ask_name("%s_" #name, state), call);
static void ask_calls(const char *state)
{
	EDGE_CALLS(X)
}

static void ask_runtime_calls(const char *state){EDGE_RUNTIME_CALLS(X)}
#undef X

GROUP(uninitialised)
{
	f.stream = ZEROS(CUstream);
	f.function = ZEROS(CUfunction);
	f.memory = ZEROS(CUdeviceptr);
	state_arguments();
	ask_calls("uninitialised");
}

GROUP(contextless)
{
	ask_context();
	objects_make(&f);
	state_arguments();
	NEED(cuCtxSetCurrent(NULL));
	ask_calls("contextless");
}

GROUP(destroyed)
{
	ask_context();
	objects_make(&f);
	state_arguments();
	ask_destroyed(f.context);
	ask_calls("destroyed");
}

static void CUDA_CB ask_in_callback(CUstream of, CUresult status, void *data)
{
	(void)of, (void)status, (void)data;
	ask_calls("callback");
	ask_runtime_calls("callback");
}

GROUP(callback)
{
	NEED(cudaFree(NULL));
	objects_make(&f);
	state_arguments();
	ask_in_stream(ask_in_callback, NULL);
}

static void CUDA_CB ask_in_host_function(void *data)
{
	(void)data;
	ask_calls("host_function");
}

GROUP(host_function)
{
	ask_context();
	objects_make(&f);
	state_arguments();
	ask_in_stream(NULL, ask_in_host_function);
}

static void ask_in_child(void *data)
{
	(void)data;
	ask_calls("child");
	ask_runtime_calls("child");
}

GROUP(forked)
{
	NEED(cudaFree(NULL));
	objects_make(&f);
	state_arguments();
	ask_forked(ask_in_child, NULL);
	ASK("parent_after_child", cuMemcpy3D(&box));
}
