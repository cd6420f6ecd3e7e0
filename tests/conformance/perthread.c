/* SPDX-License-Identifier: MIT */
/*
 * Chapter "perthread": a program built so that the NULL stream is each thread's own.
 *
 * The macro below turns the calls into their _ptsz and _ptds forms; ask.c, built without it, is not concerned.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "ask.h"

CHAPTER(perthread);

GROUP(queries)
{
	CUcontext context = ask_context(), of = NULL;
	unsigned long long id = 0, own = 0, legacy = 0;
	unsigned int flags = UNTOUCHED_INT;
	int priority = UNTOUCHED_INT;
	CUstreamCaptureStatus capture = (CUstreamCaptureStatus)UNTOUCHED_INT;

	ASK_VALUE("flags_of_null", cuStreamGetFlags(NULL, &flags), "%u", flags);
	ASK_VALUE("flags_of_legacy", cuStreamGetFlags(CU_STREAM_LEGACY, &flags), "%u", flags);
	ASK_VALUE("priority_of_null", cuStreamGetPriority(NULL, &priority), "%d", priority);
	ASK_VALUE("ctx_of_null", cuStreamGetCtx(NULL, &of), "%s", ask_yes(of == context));
	ASK_VALUE("capturing_of_null", cuStreamIsCapturing(NULL, &capture), "%d", (int)capture);
	ASK("id_of_null", cuStreamGetId(NULL, &id));
	NEED(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	NEED(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	SAY("id_of_null_is_id_of_per_thread", "%s", ask_yes(id == own));
	SAY("id_of_null_is_id_of_legacy", "%s", ask_yes(id == legacy));
	ASK("query_null", cuStreamQuery(NULL));
	ASK("synchronize_null", cuStreamSynchronize(NULL));
}

GROUP(order)
{
	CUdeviceptr memory = 0;
	CUstream blocking = NULL;
	CUevent event = NULL;
	char bytes[16];

	ask_context();
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuStreamCreate(&blocking, 0));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	struct gate gate = gate_make();
	gate_close(&gate, blocking);
	ASK("copy_passes_blocking", cuMemcpyHtoD(memory, bytes, 16));
	ASK("fill_passes_blocking", cuMemsetD8(memory, 0x21, 16));
	ASK("read_passes_blocking", cuMemcpyDtoH(bytes, memory, 16));
	SAY("read_after_fill", "%s", ask_bytes(bytes, 16));
	NEED(cuEventRecord(event, NULL));
	ASK("null_passes_blocking", cuEventSynchronize(event));
	ASK("blocking_still_blocked", cuStreamQuery(blocking));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
	gate_close(&gate, NULL);
	ASK("gate_on_plain_null_query", cuStreamQuery(CU_STREAM_LEGACY));
	ASK("gate_on_plain_null_own_query", cuStreamQuery(NULL));
	NEED(cuEventRecord(event, NULL));
	ASK("null_waits_for_legacy", cuEventQuery(event));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
	gate_close(&gate, CU_STREAM_PER_THREAD);
	ASK("null_is_per_thread_query", cuStreamQuery(NULL));
	NEED(cuEventRecord(event, blocking));
	ASK("blocking_passes_null", cuEventSynchronize(event));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
}

static CUstream called_with;

static void CUDA_CB on_callback(CUstream stream, CUresult status, void *data)
{
	(void)status, (void)data;
	called_with = stream;
}

GROUP(callback)
{
	ask_context();
	called_with = UNTOUCHED(CUstream);
	ASK("callback_on_null", cuStreamAddCallback(NULL, on_callback, NULL, 0));
	NEED(cuCtxSynchronize());
	SAY("callback_stream", "%s",
	    called_with == CU_STREAM_PER_THREAD ? "CU_STREAM_PER_THREAD"
	    : called_with == CU_STREAM_LEGACY   ? "CU_STREAM_LEGACY"
						: OUT(called_with));
}

GROUP(proc)
{
	void *plain = NULL, *legacy = NULL, *own = NULL;

	NEED(cuInit(0));
	NEED(cuGetProcAddress("cuMemcpyAsync", &plain, 13000, 0, NULL));
	NEED(cuGetProcAddress("cuMemcpyAsync", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
	NEED(cuGetProcAddress("cuMemcpyAsync", &own, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	SAY("proc_default_is_per_thread", "%s", ask_yes(plain == own));
	SAY("proc_default_is_legacy", "%s", ask_yes(plain == legacy));
	SAY("proc_is_linked_symbol", "%s", ask_yes(plain == (void *)cuMemcpyAsync));
}

GROUP(runtime)
{
	cudaStream_t blocking = NULL;
	unsigned int flags = UNTOUCHED_INT;
	void *memory = NULL;

	NEED(cudaMalloc(&memory, 4096));
	NEED(cudaStreamCreate(&blocking));
	struct gate gate = gate_make();
	ASK_VALUE("runtime_flags_of_null", cudaStreamGetFlags(NULL, &flags), "%u", flags);
	gate_close(&gate, blocking);
	ASK("runtime_copy_passes_blocking", cudaMemcpy(memory, &flags, 4, cudaMemcpyHostToDevice));
	ASK("runtime_fill_passes_blocking", cudaMemset(memory, 0, 16));
	ASK("runtime_synchronize_passes_blocking", cudaStreamSynchronize(NULL));
	ASK("runtime_blocking_still_blocked", cudaStreamQuery(blocking));
	gate_open(&gate);
	ASK("runtime_device_synchronize", cudaDeviceSynchronize());
}
