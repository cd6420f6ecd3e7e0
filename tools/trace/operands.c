/* SPDX-License-Identifier: MIT */
/*
 * What a call works on, where that is more than its record has room for: words behind it, for `cenote check`.
 *
 * All is read when the call has succeeded: the library has read it before, and found memory there.
 *
 *	shapes      to, its pitch, its slice; from, its pitch, its slice; bytes of a row, rows, slices
 *	batches     of each operation its kind, address, value, flags
 *	kernels     the words of the parameters that are large enough for a pointer, with what the code can do there
 */
#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 256, BATCH_WORDS = 4, ARGUMENT_WORDS_MAX = 96, FUNCTIONS_MAX = 1024 };

void cn_trace_words(const struct cn_trace_call *call, const uint64_t *words, size_t count)
{
	if (call->record && cn_trace_checks)
		cn_trace_put_words(CN_TRACE_WORDS, call->number, words, count);
}

void cn_trace_label(const struct cn_trace_call *call, const char *label)
{
	enum { LABEL_BYTES = 64 };
	char text[LABEL_BYTES] = "";

	if (!call->record || !cn_trace_checks || !label)
		return;
	memcpy(text, label, strnlen(label, LABEL_BYTES - 1));
	cn_trace_text(CN_TRACE_LABEL, call->number, text);
}

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */

void cn_trace_shape(const struct cn_trace_call *call, uint64_t to, uint64_t to_pitch, uint64_t from,
		    uint64_t from_pitch, uint64_t row_bytes, uint64_t rows)
{
	const uint64_t words[] = {to, to_pitch, 0, from, from_pitch, 0, row_bytes, rows, 1};

	cn_trace_words(call, words, sizeof words / sizeof words[0]);
}

static uint64_t corner(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch)
{
	uint64_t base = type == CU_MEMORYTYPE_HOST ? CN_NUMBER(host) : type == CU_MEMORYTYPE_ARRAY ? 0 : device;

	return base ? base + y * pitch + x : 0;
}

void cn_trace_copy_2d(const struct cn_trace_call *call, const CUDA_MEMCPY2D *copy)
{
	if (!cn_trace_checks)
		return;
	cn_trace_shape(call,
		       corner(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY,
			      copy->dstPitch),
		       copy->dstPitch,
		       corner(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY,
			      copy->srcPitch),
		       copy->srcPitch, copy->WidthInBytes, copy->Height);
}

void cn_trace_copy_3d(const struct cn_trace_call *call, const CUDA_MEMCPY3D *copy)
{
	if (!cn_trace_checks)
		return;
	size_t to_slice = copy->dstPitch * copy->dstHeight, from_slice = copy->srcPitch * copy->srcHeight;
	uint64_t to = corner(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY,
			     copy->dstPitch);
	uint64_t from = corner(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY,
			       copy->srcPitch);
	const uint64_t words[] = {
		to ? to + copy->dstZ * to_slice : 0,
		copy->dstPitch,
		to_slice,
		from ? from + copy->srcZ * from_slice : 0,
		copy->srcPitch,
		from_slice,
		copy->WidthInBytes,
		copy->Height,
		copy->Depth,
	};

	cn_trace_words(call, words, sizeof words / sizeof words[0]);
}

static uint64_t runtime_corner(struct cudaPitchedPtr memory, struct cudaPos at)
{
	return memory.ptr ? CN_NUMBER(memory.ptr) + (at.z * memory.ysize + at.y) * memory.pitch + at.x : 0;
}

void cn_trace_runtime_copy_3d(const struct cn_trace_call *call, const struct cudaMemcpy3DParms *copy)
{
	/* With an array a row has elements, whose size is the array's. */
	if (!cn_trace_checks || copy->srcArray || copy->dstArray)
		return;
	const uint64_t words[] = {
		runtime_corner(copy->dstPtr, copy->dstPos),
		copy->dstPtr.pitch,
		copy->dstPtr.pitch * copy->dstPtr.ysize,
		runtime_corner(copy->srcPtr, copy->srcPos),
		copy->srcPtr.pitch,
		copy->srcPtr.pitch * copy->srcPtr.ysize,
		copy->extent.width,
		copy->extent.height,
		copy->extent.depth,
	};
	cn_trace_words(call, words, sizeof words / sizeof words[0]);
}

void cn_trace_fill_3d(const struct cn_trace_call *call, struct cudaPitchedPtr memory, struct cudaExtent extent)
{
	const uint64_t words[] = {
		CN_NUMBER(memory.ptr), memory.pitch, memory.pitch * memory.ysize, 0, 0, 0, extent.width,
		extent.height,         extent.depth};

	cn_trace_words(call, words, sizeof words / sizeof words[0]);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

void cn_trace_batch(const struct cn_trace_call *call, unsigned int count, const CUstreamBatchMemOpParams *list)
{
	uint64_t words[BATCH_MAX * BATCH_WORDS];

	if (!cn_trace_checks)
		return;
	count = count < BATCH_MAX ? count : BATCH_MAX;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t *at = words + (size_t)i * BATCH_WORDS;
		/* A write has the same fields as a wait, in the same places. */
		bool is_wide = list[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
			       list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
		at[0] = list[i].operation;
		at[1] = list[i].waitValue.address;
		at[2] = is_wide ? list[i].waitValue.value64 : list[i].waitValue.value;
		at[3] = list[i].waitValue.flags;
	}
	cn_trace_words(call, words, (size_t)count * BATCH_WORDS);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* The sizes and places of a function's parameters, as its driver says. */
struct layout {
	uint64_t function;
	int count;
	struct {
		size_t offset, bytes;
		int use; /* enum cn_trace_use */
	} parameters[CN_TRACE_PARAMETERS_MAX];
};

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	__typeof__(cuFuncGetParamInfo) *ask;
	__typeof__(cuFuncGetName) *name;
	__typeof__(cuKernelGetParamInfo) *ask_kernel;
	__typeof__(cuKernelGetName) *kernel_name;
	__typeof__(cudaGetFuncBySymbol) *resolve;
	struct layout *list[FUNCTIONS_MAX];
} layouts = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void find_calls(void)
{
	layouts.ask = (__typeof__(layouts.ask))cn_trace_find("cuFuncGetParamInfo");
	layouts.name = (__typeof__(layouts.name))cn_trace_find("cuFuncGetName");
	layouts.ask_kernel = (__typeof__(layouts.ask_kernel))cn_trace_find("cuKernelGetParamInfo");
	layouts.kernel_name = (__typeof__(layouts.kernel_name))cn_trace_find("cuKernelGetName");
	layouts.resolve = (__typeof__(layouts.resolve))cn_trace_find("cudaGetFuncBySymbol");
}

/* A launch takes a kernel of a library for a function, as NVIDIA's runtime does. */
static const char *name_of(CUfunction function)
{
	const char *name = NULL;

	if (layouts.name && layouts.name(&name, function) == CUDA_SUCCESS && name)
		return name;
	if (layouts.kernel_name && layouts.kernel_name(&name, (CUkernel)function) == CUDA_SUCCESS && name)
		return name;
	return "";
}

static bool ask_parameter(CUfunction function, int index, size_t *ret_offset, size_t *ret_bytes)
{
	return (layouts.ask && layouts.ask(function, (size_t)index, ret_offset, ret_bytes) == CUDA_SUCCESS) ||
	       (layouts.ask_kernel &&
		layouts.ask_kernel((CUkernel)function, (size_t)index, ret_offset, ret_bytes) == CUDA_SUCCESS);
}

static void read_layout(struct layout *layout, CUfunction function)
{
	const char *name = name_of(function);

	if (*name)
		cn_trace_name_number(layout->function, name);
	while (layout->count < CN_TRACE_PARAMETERS_MAX &&
	       ask_parameter(function, layout->count, &layout->parameters[layout->count].offset,
			     &layout->parameters[layout->count].bytes)) {
		layout->parameters[layout->count].use = cn_trace_kernel_does(name, layout->count);
		layout->count++;
	}
}

/* NULL: not known. Functions are found by the number by which they are launched. */
static const struct layout *find_layout(uint64_t key, const void *symbol)
{
	struct layout **place = &layouts.list[(key >> 3) % FUNCTIONS_MAX];
	CUfunction function = (CUfunction)(uintptr_t)key;

	pthread_once(&layouts.once, find_calls);
	pthread_mutex_lock(&layouts.lock);
	struct layout *layout = *place;
	if (!layout || layout->function != key) {
		layout = calloc(1, sizeof *layout); /* what stood there before may be in use by another thread */
		bool known = layout && (!symbol ||
					(layouts.resolve && layouts.resolve((cudaFunction_t *)&function, symbol) == 0));
		if (layout)
			layout->function = key;
		if (known)
			read_layout(layout, function);
		*place = layout;
	}
	pthread_mutex_unlock(&layouts.lock);
	return layout;
}

static void add_words(uint64_t words[ARGUMENT_WORDS_MAX], size_t *count, int use, const void *from, size_t bytes)
{
	for (size_t at = 0; at + sizeof(uint64_t) <= bytes && *count < ARGUMENT_WORDS_MAX; at += sizeof(uint64_t)) {
		uint64_t value;
		memcpy(&value, (const char *)from + at, sizeof value);
		if (value && !(value >> CN_TRACE_USE_SHIFT))
			words[(*count)++] = value | (uint64_t)use << CN_TRACE_USE_SHIFT;
	}
}

static void write_arguments(const struct cn_trace_call *call, const struct layout *layout, void **parameters,
			    const char *buffer, size_t buffer_bytes)
{
	uint64_t words[ARGUMENT_WORDS_MAX];
	size_t count = 0;

	for (int i = 0; layout && i < layout->count; i++) {
		size_t offset = layout->parameters[i].offset, bytes = layout->parameters[i].bytes;
		int use = layout->parameters[i].use;
		if (parameters)
			add_words(words, &count, use, parameters[i], bytes);
		else if (buffer && offset <= buffer_bytes && bytes <= buffer_bytes - offset)
			add_words(words, &count, use, buffer + offset, bytes);
	}
	if (count)
		cn_trace_words(call, words, count);
}

void cn_trace_arguments(const struct cn_trace_call *call, CUfunction function, void **parameters, void **extra)
{
	const char *buffer = NULL;
	size_t bytes = 0;

	if (!cn_trace_checks)
		return;
	for (int i = 0; !parameters && extra && i < 6 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(size_t *)extra[i + 1];
	}
	write_arguments(call, find_layout(CN_NUMBER(function), NULL), parameters, buffer, bytes);
}

void cn_trace_runtime_arguments(const struct cn_trace_call *call, const void *symbol, void **parameters)
{
	if (cn_trace_checks)
		write_arguments(call, find_layout(CN_NUMBER(symbol), symbol), parameters, NULL, 0);
}

/* ---- The context ------------------------------------------------------------------------------------------------- */

uint32_t cn_trace_context(void)
{
	static _Atomic(void *) found;
	__typeof__(cuCtxGetCurrent) *get = (__typeof__(get))atomic_load_explicit(&found, memory_order_relaxed);
	CUcontext context = NULL;

	if (!get) {
		get = (__typeof__(get))cn_trace_find("cuCtxGetCurrent");
		atomic_store(&found, (void *)get);
	}
	if (!get || get(&context))
		return 0;
	/* Live ones differ in these bits. */
	return (uint32_t)(CN_NUMBER(context) >> 3);
}
