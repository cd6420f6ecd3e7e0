/* SPDX-License-Identifier: MIT */
/*
 * Chapter "older": other forms of functions than those that CUDA 13.0's headers mean by their names, as
 * cuGetProcAddress() finds them by version. Most are older; a few are newer.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>

CHAPTER(older);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* X(name, the version that brought the form, its symbol) */
#define FORMS(X)                                                          \
	X(cuDeviceGetUuid, 9020, "cuDeviceGetUuid")                       \
	X(cuDeviceTotalMem, 2000, "cuDeviceTotalMem")                     \
	X(cuDevicePrimaryCtxRelease, 7000, "cuDevicePrimaryCtxRelease")   \
	X(cuDevicePrimaryCtxSetFlags, 7000, "cuDevicePrimaryCtxSetFlags") \
	X(cuDevicePrimaryCtxReset, 7000, "cuDevicePrimaryCtxReset")       \
	X(cuCtxCreate, 2000, "cuCtxCreate")                               \
	X(cuCtxCreate, 3020, "cuCtxCreate_v2")                            \
	X(cuCtxCreate, 11040, "cuCtxCreate_v3")                           \
	X(cuCtxDestroy, 2000, "cuCtxDestroy")                             \
	X(cuCtxPushCurrent, 2000, "cuCtxPushCurrent")                     \
	X(cuCtxPopCurrent, 2000, "cuCtxPopCurrent")                       \
	X(cuCtxGetDevice, 13000, "cuCtxGetDevice_v2")                     \
	X(cuCtxSynchronize, 13000, "cuCtxSynchronize_v2")                 \
	X(cuModuleGetGlobal, 2000, "cuModuleGetGlobal")                   \
	X(cuMemGetInfo, 2000, "cuMemGetInfo")                             \
	X(cuMemAlloc, 2000, "cuMemAlloc")                                 \
	X(cuMemAllocPitch, 2000, "cuMemAllocPitch")                       \
	X(cuMemFree, 2000, "cuMemFree")                                   \
	X(cuMemGetAddressRange, 2000, "cuMemGetAddressRange")             \
	X(cuMemAllocHost, 2000, "cuMemAllocHost")                         \
	X(cuMemHostGetDevicePointer, 2020, "cuMemHostGetDevicePointer")   \
	X(cuIpcOpenMemHandle, 4010, "cuIpcOpenMemHandle")                 \
	X(cuMemHostRegister, 4000, "cuMemHostRegister")                   \
	X(cuMemcpyHtoD, 2000, "cuMemcpyHtoD")                             \
	X(cuMemcpyDtoH, 2000, "cuMemcpyDtoH")                             \
	X(cuMemcpyDtoD, 2000, "cuMemcpyDtoD")                             \
	X(cuMemcpy2D, 2000, "cuMemcpy2D")                                 \
	X(cuMemcpy2DUnaligned, 2000, "cuMemcpy2DUnaligned")               \
	X(cuMemcpy3D, 2000, "cuMemcpy3D")                                 \
	X(cuMemcpyHtoDAsync, 2000, "cuMemcpyHtoDAsync")                   \
	X(cuMemcpyDtoHAsync, 2000, "cuMemcpyDtoHAsync")                   \
	X(cuMemcpyDtoDAsync, 3000, "cuMemcpyDtoDAsync")                   \
	X(cuMemcpy2DAsync, 2000, "cuMemcpy2DAsync")                       \
	X(cuMemcpy3DAsync, 2000, "cuMemcpy3DAsync")                       \
	X(cuMemsetD8, 2000, "cuMemsetD8")                                 \
	X(cuMemsetD16, 2000, "cuMemsetD16")                               \
	X(cuMemsetD32, 2000, "cuMemsetD32")                               \
	X(cuMemsetD2D8, 2000, "cuMemsetD2D8")                             \
	X(cuMemsetD2D16, 2000, "cuMemsetD2D16")                           \
	X(cuMemsetD2D32, 2000, "cuMemsetD2D32")                           \
	X(cuMemPrefetchAsync, 8000, "cuMemPrefetchAsync")                 \
	X(cuMemAdvise, 8000, "cuMemAdvise")                               \
	X(cuStreamGetCtx, 9020, "cuStreamGetCtx")                         \
	X(cuStreamGetCtx, 12050, "cuStreamGetCtx_v2")                     \
	X(cuStreamGetCaptureInfo, 10010, "cuStreamGetCaptureInfo")        \
	X(cuStreamGetCaptureInfo, 11030, "cuStreamGetCaptureInfo_v2")     \
	X(cuStreamDestroy, 2000, "cuStreamDestroy")                       \
	X(cuEventDestroy, 2000, "cuEventDestroy")                         \
	X(cuEventElapsedTime, 2000, "cuEventElapsedTime")                 \
	X(cuStreamWaitValue32, 8000, "cuStreamWaitValue32")               \
	X(cuStreamWaitValue64, 9000, "cuStreamWaitValue64")               \
	X(cuStreamWriteValue32, 8000, "cuStreamWriteValue32")             \
	X(cuStreamWriteValue64, 9000, "cuStreamWriteValue64")             \
	X(cuStreamBatchMemOp, 8000, "cuStreamBatchMemOp")                 \
	X(cuGetProcAddress, 11030, "cuGetProcAddress")

static const struct {
	const char *name;
	int since;
	const char *symbol;
} forms[] = {
#define X(name, since, symbol) {#name, since, symbol},
	FORMS(X)
#undef X
};

static struct objects f;
static struct outputs o;

static void *find(const char *name, int version, cuuint64_t flags)
{
	void *function = NULL;

	cuGetProcAddress(name, &function, version, flags, NULL);
	return function;
}

/* Which of a form's symbols an address is. */
static const char *symbol_of(const void *address, const char *symbol)
{
	static const char *const endings[] = {"", "_ptsz", "_ptds"};
	static char said[80];

	if (!address)
		return "NULL";
	for (size_t i = 0; i < COUNT(endings); i++) {
		snprintf(said, sizeof said, "%s%s", symbol, endings[i]);
		if (dlsym(RTLD_DEFAULT, said) == address)
			return said;
	}
	return "another";
}

/* A form is found from its version on, and it is the symbol of that name. */
GROUP(found)
{
	NEED(cuInit(0));
	for (size_t i = 0; i < COUNT(forms); i++) {
		const char *name = forms[i].name, *symbol = forms[i].symbol;
		int since = forms[i].since;
		SAY(ask_name("found_%s_%d", name, since), "%s", symbol_of(find(name, since, 0), symbol));
		SAY(ask_name("found_%s_%d_own", name, since), "%s",
		    symbol_of(find(name, since, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), symbol));
		SAY(ask_name("found_%s_before_%d", name, since), "%s", symbol_of(find(name, since - 10, 0), symbol));
	}
}

/* FORM(name, version, parameter types): a form by its version; where there is none, the answer is "absent". */
#define FORM(name, version, parameters) ((__typeof__(CUresult parameters) *)find(name, version, 0))
#define ASK_FORM(question, name, version, parameters, arguments)                                       \
	do {                                                                                           \
		if (ask_begin(question)) {                                                             \
			__typeof__(CUresult parameters) *form_found = FORM(name, version, parameters); \
			ask_end("%s", form_found ? CODE(form_found arguments) : "absent");             \
		}                                                                                      \
	} while (0)
#define ASK_FORM_VALUE(question, name, version, parameters, arguments, ...)                            \
	do {                                                                                           \
		if (ask_begin(question)) {                                                             \
			__typeof__(CUresult parameters) *form_found = FORM(name, version, parameters); \
			const char *code = form_found ? CODE(form_found arguments) : "absent";         \
			ask_end2(code, __VA_ARGS__);                                                   \
		}                                                                                      \
	} while (0)

typedef unsigned int address32;

#define ONE       (CUdevice)
#define CREATE    (CUcontext *, unsigned int, CUdevice)
#define CREATE_V3 (CUcontext *, void *, int, unsigned int, CUdevice)

/* The forms with three parameters. */
static void ask_create(int version)
{
	CUcontext made = UNTOUCHED(CUcontext);
	unsigned int api = UNTOUCHED_INT, flags = UNTOUCHED_INT;

#define N(text) ask_name("create_%d" text, version)
	ASK_FORM(N("_null"), "cuCtxCreate", version, CREATE, (NULL, 0, 0));
	ASK_FORM(N("_device_99"), "cuCtxCreate", version, CREATE, (&made, 0, 99));
	ASK_FORM(N("_device_negative"), "cuCtxCreate", version, CREATE, (&made, 0, -1));
	ASK_FORM(N("_flags_all"), "cuCtxCreate", version, CREATE, (&made, ~0u, 0));
	ASK_FORM(N("_flags_5"), "cuCtxCreate", version, CREATE, (&made, 5, 0));
	ASK_FORM_VALUE(N(""), "cuCtxCreate", version, CREATE, (&made, CU_CTX_MAP_HOST, 0), "%s", OUT(made));
	if (made == UNTOUCHED(CUcontext))
		return;
	ASK_VALUE(N("_api"), cuCtxGetApiVersion(made, &api), "%u", api);
	ASK_VALUE(N("_made_flags"), cuCtxGetFlags(&flags), "%u", flags);
	ASK(N("_synchronize"), cuCtxSynchronize());
	ASK(N("_destroy"), cuCtxDestroy(made));
#undef N
}

GROUP(contexts)
{
	CUcontext made = UNTOUCHED(CUcontext);
	unsigned int api = UNTOUCHED_INT;

	NEED(cuInit(0));
	ask_create(3020);
	ASK_FORM_VALUE("create_v3", "cuCtxCreate", 11040, CREATE_V3, (&made, NULL, 0, 0, 0), "%s", OUT(made));
	ASK_VALUE("create_v3_api", cuCtxGetApiVersion(made, &api), "%u", api);
	ASK_FORM("create_v3_null", "cuCtxCreate", 11040, CREATE_V3, (NULL, NULL, 0, 0, 0));
	ASK_FORM("create_v3_null_params", "cuCtxCreate", 11040, CREATE_V3, (&made, NULL, 1, 0, 0));
	ASK_FORM("create_v3_params", "cuCtxCreate", 11040, CREATE_V3, (&made, ask_zeros, 1, 0, 0));
	ASK_FORM("create_v3_params_without_count", "cuCtxCreate", 11040, CREATE_V3, (&made, ask_zeros, 0, 0, 0));
	ASK_FORM("create_v3_negative_count", "cuCtxCreate", 11040, CREATE_V3, (&made, NULL, -1, 0, 0));
	ASK_FORM("create_v3_flags_all", "cuCtxCreate", 11040, CREATE_V3, (&made, NULL, 0, ~0u, 0));
	ASK_FORM("create_v3_device_99", "cuCtxCreate", 11040, CREATE_V3, (&made, NULL, 0, 0, 99));
}

/* A context whose addresses have 32 bits: a process has such contexts or others, not both. */
GROUP(contexts_narrow)
{
	NEED(cuInit(0));
	ask_create(2000);
}

GROUP(context_stack)
{
	CUcontext first = ask_context(), second = ask_context(), popped = UNTOUCHED(CUcontext), spare = NULL;
	CUcontext old = NULL;

	ASK_FORM_VALUE("pop", "cuCtxPopCurrent", 2000, (CUcontext *), (&popped), "%s",
		       popped == second ? "second" : OUT(popped));
	ASK_FORM("pop_null", "cuCtxPopCurrent", 2000, (CUcontext *), (NULL));
	popped = UNTOUCHED(CUcontext);
	ASK_FORM_VALUE("pop_more", "cuCtxPopCurrent", 2000, (CUcontext *), (&popped), "%s", OUT(popped));
	ASK_FORM("push", "cuCtxPushCurrent", 2000, (CUcontext), (first));
	ASK_FORM("push_again", "cuCtxPushCurrent", 2000, (CUcontext), (first));
	ASK_FORM("push_null", "cuCtxPushCurrent", 2000, (CUcontext), (NULL));
	ASK("push_synchronize", cuCtxSynchronize());
	ASK_FORM("destroy_not_current", "cuCtxDestroy", 2000, (CUcontext), (second));
	ASK_FORM("destroy_null", "cuCtxDestroy", 2000, (CUcontext), (NULL));
	ASK_FORM("destroy_current", "cuCtxDestroy", 2000, (CUcontext), (first));
	ASK("destroyed_synchronize", cuCtxSynchronize());
	NEED(cuCtxCreate(&spare, NULL, 0, 0));
	ASK_FORM("create_old", "cuCtxCreate", 2000, CREATE, (&old, 0, 0));
	ASK_FORM("destroy_old", "cuCtxDestroy", 2000, (CUcontext), (old));
	ASK("destroy_spare", cuCtxDestroy(spare));
}

GROUP(primary)
{
	CUcontext primary = NULL;
	unsigned int flags = UNTOUCHED_INT;
	int active = UNTOUCHED_INT;

	NEED(cuInit(0));
#define STATE(question) ASK_VALUE(question, cuDevicePrimaryCtxGetState(0, &flags, &active), "%u %d", flags, active)
	ASK_FORM("primary_release_unretained", "cuDevicePrimaryCtxRelease", 7000, ONE, (0));
	ASK_FORM("primary_flags", "cuDevicePrimaryCtxSetFlags", 7000, (CUdevice, unsigned int), (0, 4));
	STATE("primary_flags_state");
	NEED(cuDevicePrimaryCtxRetain(&primary, 0));
	ASK_FORM("primary_flags_active", "cuDevicePrimaryCtxSetFlags", 7000, (CUdevice, unsigned int), (0, 2));
	STATE("primary_flags_active_state");
	ASK_FORM("primary_flags_same", "cuDevicePrimaryCtxSetFlags", 7000, (CUdevice, unsigned int), (0, 4));
	ASK_FORM("primary_flags_all", "cuDevicePrimaryCtxSetFlags", 7000, (CUdevice, unsigned int), (0, ~0u));
	ASK_FORM("primary_flags_device_99", "cuDevicePrimaryCtxSetFlags", 7000, (CUdevice, unsigned int), (99, 0));
	ASK_FORM("primary_release", "cuDevicePrimaryCtxRelease", 7000, ONE, (0));
	STATE("primary_released_state");
	ASK_FORM("primary_release_more", "cuDevicePrimaryCtxRelease", 7000, ONE, (0));
	ASK_FORM("primary_release_device_99", "cuDevicePrimaryCtxRelease", 7000, ONE, (99));
	ASK_FORM("primary_reset_inactive", "cuDevicePrimaryCtxReset", 7000, ONE, (0));
	NEED(cuDevicePrimaryCtxRetain(&primary, 0));
	ASK_FORM("primary_reset", "cuDevicePrimaryCtxReset", 7000, ONE, (0));
	STATE("primary_reset_state");
	ASK_FORM("primary_reset_device_99", "cuDevicePrimaryCtxReset", 7000, ONE, (99));
}

/* Forms that CUDA 13.0 has and its headers do not mean by these names. */
GROUP(newer)
{
	CUcontext first = ask_context(), second = ask_context(), of = UNTOUCHED(CUcontext);
	CUdevice device = UNTOUCHED_INT;
	void *green = UNTOUCHED(void *);

	objects_make(&f);
#define DEVICE_V2   (CUdevice *, CUcontext)
#define STREAM_CTX2 (CUstream, CUcontext *, void **)
	ASK_FORM_VALUE("device_of_null", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, NULL), "%d", device);
	ASK_FORM_VALUE("device_of_other", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, first), "%d", device);
	ASK_FORM("device_null_output", "cuCtxGetDevice", 13000, DEVICE_V2, (NULL, first));
	ASK_FORM("device_of_garbage", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, GARBAGE(CUcontext)));
	ASK_FORM("synchronize_null", "cuCtxSynchronize", 13000, (CUcontext), (NULL));
	ASK_FORM("synchronize_other", "cuCtxSynchronize", 13000, (CUcontext), (first));
	ASK_FORM("synchronize_garbage", "cuCtxSynchronize", 13000, (CUcontext), (GARBAGE(CUcontext)));
	ASK_FORM_VALUE("stream_ctx", "cuStreamGetCtx", 12050, STREAM_CTX2, (f.stream, &of, &green), "%s %s",
		       of == second ? "second" : OUT(of), OUT(green));
	of = UNTOUCHED(CUcontext), green = UNTOUCHED(void *);
	ASK_FORM_VALUE("stream_ctx_of_null", "cuStreamGetCtx", 12050, STREAM_CTX2, (NULL, &of, &green), "%s %s",
		       of == second ? "second" : OUT(of), OUT(green));
	ASK_FORM("stream_ctx_null_green", "cuStreamGetCtx", 12050, STREAM_CTX2, (f.stream, &of, NULL));
	ASK_FORM("stream_ctx_null_outputs", "cuStreamGetCtx", 12050, STREAM_CTX2, (f.stream, NULL, NULL));
	of = UNTOUCHED(CUcontext), green = UNTOUCHED(void *);
	ASK_FORM_VALUE("stream_ctx_null_context", "cuStreamGetCtx", 12050, STREAM_CTX2, (f.stream, NULL, &green), "%s",
		       OUT(green));
	ASK_FORM("stream_ctx_garbage", "cuStreamGetCtx", 12050, STREAM_CTX2, (GARBAGE(CUstream), &of, &green));
	NEED(cuCtxDestroy(second));
	ASK_FORM("device_of_destroyed", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, second));
	ASK_FORM("synchronize_destroyed", "cuCtxSynchronize", 13000, (CUcontext), (second));
	NEED(cuCtxSetCurrent(NULL));
	device = UNTOUCHED_INT;
	ASK_FORM_VALUE("device_of_null_contextless", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, NULL), "%d", device);
	ASK_FORM_VALUE("device_of_other_contextless", "cuCtxGetDevice", 13000, DEVICE_V2, (&device, first), "%d",
		       device);
	ASK_FORM("synchronize_null_contextless", "cuCtxSynchronize", 13000, (CUcontext), (NULL));
	ASK_FORM("synchronize_other_contextless", "cuCtxSynchronize", 13000, (CUcontext), (first));
}

/* What is copied and filled there; `at` is what is left of an address. */
static void ask_narrow_copies(address32 at)
{
	char bytes[64] = {0};
	static unsigned char description[256];

	ASK_FORM("narrow_htod_cut", "cuMemcpyHtoD", 2000, (address32, const void *, unsigned int), (at, bytes, 16));
	ASK_FORM("narrow_htod_0", "cuMemcpyHtoD", 2000, (address32, const void *, unsigned int), (0, NULL, 0));
	ASK_FORM("narrow_dtoh_cut", "cuMemcpyDtoH", 2000, (void *, address32, unsigned int), (bytes, at, 16));
	ASK_FORM("narrow_dtod_cut", "cuMemcpyDtoD", 2000, (address32, address32, unsigned int), (at, at, 16));
	ASK_FORM("narrow_htod_async_cut", "cuMemcpyHtoDAsync", 2000, (address32, const void *, unsigned int, CUstream),
		 (at, bytes, 16, f.stream));
	ASK_FORM("narrow_dtoh_async_cut", "cuMemcpyDtoHAsync", 2000, (void *, address32, unsigned int, CUstream),
		 (bytes, at, 16, f.stream));
	ASK_FORM("narrow_dtod_async_cut", "cuMemcpyDtoDAsync", 3000, (address32, address32, unsigned int, CUstream),
		 (at, at, 16, f.stream));
	ASK_FORM("narrow_fill8_cut", "cuMemsetD8", 2000, (address32, unsigned char, unsigned int), (at, 1, 16));
	ASK_FORM("narrow_fill8_0", "cuMemsetD8", 2000, (address32, unsigned char, unsigned int), (0, 1, 0));
	ASK_FORM("narrow_fill32_cut", "cuMemsetD32", 2000, (address32, unsigned int, unsigned int), (at, 1, 16));
	ASK_FORM("narrow_fill2d8_cut", "cuMemsetD2D8", 2000,
		 (address32, unsigned int, unsigned char, unsigned int, unsigned int), (at, 64, 1, 16, 2));
	ASK_FORM("narrow_copy2d_null", "cuMemcpy2D", 2000, (const void *), (NULL));
	ASK_FORM("narrow_copy2d_zeros", "cuMemcpy2D", 2000, (const void *), (description));
	ASK_FORM("narrow_copy2d_unaligned_zeros", "cuMemcpy2DUnaligned", 2000, (const void *), (description));
	ASK_FORM("narrow_copy2d_async_zeros", "cuMemcpy2DAsync", 2000, (const void *, CUstream),
		 (description, f.stream));
	ASK_FORM("narrow_copy3d_null", "cuMemcpy3D", 2000, (const void *), (NULL));
	ASK_FORM("narrow_copy3d_zeros", "cuMemcpy3D", 2000, (const void *), (description));
	ASK_FORM("narrow_copy3d_async_zeros", "cuMemcpy3DAsync", 2000, (const void *, CUstream),
		 (description, f.stream));
}

/* The forms of a time when addresses and sizes had 32 bits. */
GROUP(narrow)
{
	address32 at = UNTOUCHED_INT, base = UNTOUCHED_INT;
	unsigned int size = UNTOUCHED_INT, total = UNTOUCHED_INT, pitch = UNTOUCHED_INT;
	CUdeviceptr memory = 0;
	void *host = UNTOUCHED(void *);
	static unsigned char description[256];

	ask_context();
	objects_make(&f);

	ASK_FORM_VALUE("narrow_total", "cuDeviceTotalMem", 2000, (unsigned int *, CUdevice), (&total, 0), "%x", total);
	ASK_FORM("narrow_total_null", "cuDeviceTotalMem", 2000, (unsigned int *, CUdevice), (NULL, 0));
	ASK_FORM("narrow_total_device_99", "cuDeviceTotalMem", 2000, (unsigned int *, CUdevice), (&total, 99));
	ASK_FORM_VALUE("narrow_info", "cuMemGetInfo", 2000, (unsigned int *, unsigned int *), (&size, &total), "%s %x",
		       size == UNTOUCHED_INT ? "untouched"
		       : size == ~0u         ? "full"
					     : "set",
		       total);
	ASK_FORM("narrow_info_null", "cuMemGetInfo", 2000, (unsigned int *, unsigned int *), (NULL, NULL));
	ASK_FORM_VALUE("narrow_alloc", "cuMemAlloc", 2000, (address32 *, unsigned int), (&at, 4096), "%s",
		       at == UNTOUCHED_INT ? "untouched"
		       : at                ? "set"
					   : "0");
	ASK_FORM("narrow_alloc_null", "cuMemAlloc", 2000, (address32 *, unsigned int), (NULL, 4096));
	ASK_FORM("narrow_alloc_0", "cuMemAlloc", 2000, (address32 *, unsigned int), (&base, 0));
	ASK_FORM_VALUE("narrow_alloc_pitch", "cuMemAllocPitch", 2000,
		       (address32 *, unsigned int *, unsigned int, unsigned int, unsigned int),
		       (&base, &pitch, 100, 2, 4), "%u", pitch);
	ASK_FORM_VALUE("narrow_alloc_host", "cuMemAllocHost", 2000, (void **, unsigned int), (&host, 4096), "%s",
		       OUT(host));
	ASK_FORM("narrow_alloc_host_null", "cuMemAllocHost", 2000, (void **, unsigned int), (NULL, 4096));
	ASK_FORM("narrow_alloc_host_0", "cuMemAllocHost", 2000, (void **, unsigned int), (&host, 0));
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemAllocHost(&host, 4096));
	at = (address32)memory;
	ASK_FORM("narrow_free_cut", "cuMemFree", 2000, (address32), (at));
	ASK_FORM("narrow_free_0", "cuMemFree", 2000, (address32), (0));
	ASK_FORM("narrow_range_of_cut", "cuMemGetAddressRange", 2000, (address32 *, unsigned int *, address32),
		 (&base, &size, at));
	ASK_FORM_VALUE("narrow_pointer_of_host", "cuMemHostGetDevicePointer", 2020, (address32 *, void *, unsigned int),
		       (&base, host, 0), "%s", base == (address32)(uintptr_t)host ? "cut" : "otherwise");
	ASK_FORM("narrow_pointer_of_null", "cuMemHostGetDevicePointer", 2020, (address32 *, void *, unsigned int),
		 (&base, NULL, 0));
	base = size = UNTOUCHED_INT;
	ASK_FORM_VALUE("narrow_global", "cuModuleGetGlobal", 2000,
		       (address32 *, unsigned int *, CUmodule, const char *),
		       (&base, &size, f.module, "conformance_word"), "%s %u",
		       base == UNTOUCHED_INT ? "untouched" : "set", size);
	ask_narrow_copies(at);
	ASK("narrow_synchronize", cuCtxSynchronize());
	NEED(cuCtxSetCurrent(NULL));
	at = size = UNTOUCHED_INT;
	ASK_FORM_VALUE("narrow_alloc_contextless", "cuMemAlloc", 2000, (address32 *, unsigned int), (&at, 4096), "%u",
		       at);
	ASK_FORM("narrow_free_contextless", "cuMemFree", 2000, (address32), (0));
	ASK_FORM("narrow_fill_contextless", "cuMemsetD8", 2000, (address32, unsigned char, unsigned int), (0, 1, 0));
	ASK_FORM("narrow_copy2d_contextless", "cuMemcpy2D", 2000, (const void *), (description));
	ASK_FORM_VALUE("narrow_total_contextless", "cuDeviceTotalMem", 2000, (unsigned int *, CUdevice), (&size, 0),
		       "%x", size);
}

GROUP(uninitialised)
{
	address32 at = UNTOUCHED_INT;
	CUcontext made = UNTOUCHED(CUcontext);

	ASK_FORM_VALUE("uninitialised_alloc", "cuMemAlloc", 2000, (address32 *, unsigned int), (&at, 4096), "%u", at);
	ASK_FORM_VALUE("uninitialised_total", "cuDeviceTotalMem", 2000, (unsigned int *, CUdevice), (&at, 0), "%u", at);
	ASK_FORM_VALUE("uninitialised_create_2000", "cuCtxCreate", 2000, CREATE, (&made, 0, 0), "%s", OUT(made));
	ASK_FORM_VALUE("uninitialised_create_3020", "cuCtxCreate", 3020, CREATE, (&made, 0, 0), "%s", OUT(made));
	ASK_FORM("uninitialised_pop", "cuCtxPopCurrent", 2000, (CUcontext *), (&made));
	ASK_FORM("uninitialised_stream_destroy", "cuStreamDestroy", 2000, (CUstream), (NULL));
	ASK_FORM("uninitialised_event_destroy", "cuEventDestroy", 2000, (CUevent), (NULL));
	ASK_FORM("uninitialised_release", "cuDevicePrimaryCtxRelease", 7000, ONE, (0));
	ASK_FORM("uninitialised_synchronize", "cuCtxSynchronize", 13000, (CUcontext), (NULL));
	ASK_FORM("uninitialised_register", "cuMemHostRegister", 4000, (void *, size_t, unsigned int),
		 (ask_zeros, 4096, 0));
	ASK_FORM("uninitialised_wait32", "cuStreamWaitValue32", 8000, (CUstream, CUdeviceptr, cuuint32_t, unsigned int),
		 (NULL, 0, 0, 0));
}

GROUP(streams_and_events)
{
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)UNTOUCHED_INT;
	cuuint64_t id = UNTOUCHED_INT;
	float ms = -1;

	ask_context();
	objects_make(&f);
	o.number = 0;
#define INFO    (CUstream, CUstreamCaptureStatus *, cuuint64_t *)
#define INFO_V2 (CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *)
	ASK_FORM_VALUE("capture_info", "cuStreamGetCaptureInfo", 10010, INFO, (f.stream, &status, &id), "%d %d",
		       (int)status, (int)id);
	ASK_FORM("capture_info_null_status", "cuStreamGetCaptureInfo", 10010, INFO, (f.stream, NULL, &id));
	ASK_FORM("capture_info_null_id", "cuStreamGetCaptureInfo", 10010, INFO, (f.stream, &status, NULL));
	ASK_FORM("capture_info_null_stream", "cuStreamGetCaptureInfo", 10010, INFO, (NULL, &status, &id));
	ASK_FORM("capture_info_garbage", "cuStreamGetCaptureInfo", 10010, INFO, (GARBAGE(CUstream), &status, &id));
	ASK_FORM("capture_info_v2", "cuStreamGetCaptureInfo", 11030, INFO_V2,
		 (f.stream, &status, &id, NULL, NULL, NULL));
	ASK_FORM("capture_info_v2_null", "cuStreamGetCaptureInfo", 11030, INFO_V2,
		 (f.stream, NULL, NULL, NULL, NULL, NULL));
#define ELAPSED (float *, CUevent, CUevent)
	ASK_FORM_VALUE("elapsed", "cuEventElapsedTime", 2000, ELAPSED, (&ms, f.event, f.later_event), "%s",
		       ask_yes(ms >= 0));
	ASK_FORM("elapsed_null", "cuEventElapsedTime", 2000, ELAPSED, (NULL, f.event, f.later_event));
	ASK_FORM("elapsed_unrecorded", "cuEventElapsedTime", 2000, ELAPSED, (&ms, f.event, f.victim_event));
	ASK_FORM("elapsed_null_event", "cuEventElapsedTime", 2000, ELAPSED, (&ms, f.event, NULL));
	ASK_FORM("event_destroy", "cuEventDestroy", 2000, (CUevent), (f.victim_event));
	ASK_FORM("event_destroy_again", "cuEventDestroy", 2000, (CUevent), (f.victim_event));
	ASK_FORM("event_destroy_null", "cuEventDestroy", 2000, (CUevent), (NULL));
	ASK_FORM("stream_destroy", "cuStreamDestroy", 2000, (CUstream), (f.victim_stream));
	ASK_FORM("stream_destroy_again", "cuStreamDestroy", 2000, (CUstream), (f.victim_stream));
	ASK_FORM("stream_destroy_null", "cuStreamDestroy", 2000, (CUstream), (NULL));
	ASK_FORM("stream_destroy_legacy", "cuStreamDestroy", 2000, (CUstream), (CU_STREAM_LEGACY));
}

/* What is destroyed has work left: whether the old forms wait for it. */
GROUP(destroy_pending)
{
	ask_context();
	objects_make(&f);
	struct gate gate = gate_make();
	gate_close(&gate, f.stream);
	NEED(cuEventRecord(f.event, f.stream));
	ASK_FORM("elapsed_pending", "cuEventElapsedTime", 2000, ELAPSED, (&o.ms, f.later_event, f.event));
	ASK_FORM("stream_destroy_pending", "cuStreamDestroy", 2000, (CUstream), (f.stream));
	gate_open(&gate);
	ASK("destroy_pending_synchronize", cuCtxSynchronize());
}

#define VALUE32 (CUstream, CUdeviceptr, cuuint32_t, unsigned int)
#define VALUE64 (CUstream, CUdeviceptr, cuuint64_t, unsigned int)

GROUP(values)
{
	CUstreamBatchMemOpParams batch;

	ask_context();
	objects_make(&f);
	memset(&batch, 0, sizeof batch);
	batch.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	batch.writeValue.address = f.memory;
	ASK_FORM("wait32", "cuStreamWaitValue32", 8000, VALUE32, (f.stream, f.memory, 0, 0));
	ASK_FORM("wait32_null", "cuStreamWaitValue32", 8000, VALUE32, (f.stream, 0, 0, 0));
	ASK_FORM("wait32_garbage_stream", "cuStreamWaitValue32", 8000, VALUE32, (GARBAGE(CUstream), f.memory, 0, 0));
	ASK_FORM("wait64", "cuStreamWaitValue64", 9000, VALUE64, (f.stream, f.memory, 0, 0));
	ASK_FORM("write32", "cuStreamWriteValue32", 8000, VALUE32, (f.stream, f.memory, 0x21, 0));
	ASK_FORM("write32_flags_9", "cuStreamWriteValue32", 8000, VALUE32, (f.stream, f.memory, 0x22, 9));
	ASK_FORM("write64", "cuStreamWriteValue64", 9000, VALUE64, (f.stream, f.memory + 8, 0x23, 0));
	ASK_FORM("batch", "cuStreamBatchMemOp", 8000, (CUstream, unsigned int, void *, unsigned int),
		 (f.stream, 1, &batch, 0));
	ASK_FORM("batch_null", "cuStreamBatchMemOp", 8000, (CUstream, unsigned int, void *, unsigned int),
		 (f.stream, 1, NULL, 0));
	ASK_FORM("batch_count_0", "cuStreamBatchMemOp", 8000, (CUstream, unsigned int, void *, unsigned int),
		 (f.stream, 0, NULL, 0));
	ASK("values_synchronize", cuCtxSynchronize());
	SAY("values_contents", "%s", ask_device_bytes(f.memory, 16));
}

GROUP(memory)
{
	static const int devices[] = {0, -1, -2, 1, 99};
	CUipcMemHandle handle;
	CUdeviceptr opened = UNTOUCHED(CUdeviceptr);
	CUuuid uuid, other;
	char *block = aligned_alloc(4096, 65536);

	ask_context();
	objects_make(&f);
	memset(&uuid, 0, sizeof uuid);
	NEED(cuDeviceGetUuid(&other, 0));
	ASK_FORM_VALUE("uuid", "cuDeviceGetUuid", 9020, (CUuuid *, CUdevice), (&uuid, 0), "%s",
		       memcmp(&uuid, &other, sizeof uuid) ? "another" : "same");
	ASK_FORM("uuid_null", "cuDeviceGetUuid", 9020, (CUuuid *, CUdevice), (NULL, 0));
	ASK_FORM("uuid_device_99", "cuDeviceGetUuid", 9020, (CUuuid *, CUdevice), (&uuid, 99));
#define PREFETCH (CUdeviceptr, size_t, CUdevice, CUstream)
#define ADVISE   (CUdeviceptr, size_t, CUmem_advise, CUdevice)
	for (size_t i = 0; i < COUNT(devices); i++) {
		ASK_FORM(ask_name("prefetch_to_%d", devices[i]), "cuMemPrefetchAsync", 8000, PREFETCH,
			 (f.managed, 4096, devices[i], f.stream));
		for (int advice = 0; advice <= 7; advice++)
			ASK_FORM(ask_name("advise_%d_device_%d", advice, devices[i]), "cuMemAdvise", 8000, ADVISE,
				 (f.managed, 4096, (CUmem_advise)advice, devices[i]));
	}
	ASK_FORM("prefetch_null", "cuMemPrefetchAsync", 8000, PREFETCH, (0, 4096, 0, f.stream));
	ASK_FORM("prefetch_0", "cuMemPrefetchAsync", 8000, PREFETCH, (f.managed, 0, 0, f.stream));
	ASK_FORM("prefetch_device_memory", "cuMemPrefetchAsync", 8000, PREFETCH, (f.memory, 4096, 0, f.stream));
	ASK_FORM("prefetch_garbage_stream", "cuMemPrefetchAsync", 8000, PREFETCH,
		 (f.managed, 4096, 0, GARBAGE(CUstream)));
	ASK_FORM("advise_0_bytes", "cuMemAdvise", 8000, ADVISE, (f.managed, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	ASK_FORM("advise_null", "cuMemAdvise", 8000, ADVISE, (0, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
#define REGISTER (void *, size_t, unsigned int)
	for (unsigned int flags = 0; flags <= 16; flags = flags ? flags * 2 : 1) {
		ASK_FORM(ask_name("register_flags_%u", flags), "cuMemHostRegister", 4000, REGISTER,
			 (block, 4096, flags));
		SAY(ask_name("register_flags_%u_undone", flags), "%s", CODE(cuMemHostUnregister(block)));
	}
	ASK_FORM("register_by_16", "cuMemHostRegister", 4000, REGISTER, (block + 16, 4096, 0));
	SAY("register_by_16_undone", "%s", CODE(cuMemHostUnregister(block + 16)));
	ASK_FORM("register_100_bytes", "cuMemHostRegister", 4000, REGISTER, (block, 100, 0));
	SAY("register_100_bytes_undone", "%s", CODE(cuMemHostUnregister(block)));
	ASK_FORM("register_null", "cuMemHostRegister", 4000, REGISTER, (NULL, 4096, 0));
	ASK_FORM("register_0_bytes", "cuMemHostRegister", 4000, REGISTER, (block, 0, 0));
	NEED(cuIpcGetMemHandle(&handle, f.memory));
#define OPEN (CUdeviceptr *, CUipcMemHandle, unsigned int)
	for (unsigned int flags = 0; flags < 3; flags++)
		ASK_FORM_VALUE(ask_name("open_own_flags_%u", flags), "cuIpcOpenMemHandle", 4010, OPEN,
			       (&opened, handle, flags), "%s", OUT(opened));
	ASK_FORM("open_null", "cuIpcOpenMemHandle", 4010, OPEN, (NULL, handle, 1));
	memset(&handle, 0, sizeof handle);
	ASK_FORM("open_zeros", "cuIpcOpenMemHandle", 4010, OPEN, (&opened, handle, 1));
}

GROUP(proc)
{
	void *function = UNTOUCHED(void *);

	NEED(cuInit(0));
#define PROC (const char *, void **, int, cuuint64_t)
	ASK_FORM_VALUE("proc", "cuGetProcAddress", 11030, PROC, ("cuMemAlloc", &function, 13000, 0), "%s",
		       symbol_of(function, "cuMemAlloc_v2"));
	ASK_FORM_VALUE("proc_old_version", "cuGetProcAddress", 11030, PROC, ("cuMemAlloc", &function, 2000, 0), "%s",
		       symbol_of(function, "cuMemAlloc"));
	function = UNTOUCHED(void *);
	ASK_FORM_VALUE("proc_absent", "cuGetProcAddress", 11030, PROC, ("cuNoSuch", &function, 13000, 0), "%s",
		       OUT(function));
	function = UNTOUCHED(void *);
	ASK_FORM_VALUE("proc_too_old", "cuGetProcAddress", 11030, PROC, ("cuMemPoolCreate", &function, 11010, 0), "%s",
		       OUT(function));
	ASK_FORM("proc_null_name", "cuGetProcAddress", 11030, PROC, (NULL, &function, 13000, 0));
	ASK_FORM("proc_null_output", "cuGetProcAddress", 11030, PROC, ("cuInit", NULL, 13000, 0));
	ASK_FORM("proc_flags_4", "cuGetProcAddress", 11030, PROC, ("cuInit", &function, 13000, 4));
	ASK_FORM("proc_version_20000", "cuGetProcAddress", 11030, PROC, ("cuInit", &function, 20000, 0));
	ASK_FORM_VALUE("proc_own", "cuGetProcAddress", 11030, PROC, ("cuMemcpyAsync", &function, 13000, 2), "%s",
		       symbol_of(function, "cuMemcpyAsync"));
}
