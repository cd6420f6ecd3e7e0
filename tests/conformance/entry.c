/* SPDX-License-Identifier: MIT */
/*
 * Chapter "entry": finding functions by name, and the names and texts of error codes.
 */
#include "ask.h"

#include "codes.h"

CHAPTER(entry);

static const struct {
	const char *name;
	int code;
} driver_codes[] =
	{
#define X(name) {#name, name},
		DRIVER_CODES(X)
#undef X
},
  runtime_codes[] = {
#define X(name) {#name, name},
	  RUNTIME_CODES(X)
#undef X
};

static const int unknown_codes[] = {-1, 7, 10, 44, 150, 299, 998, 1000, 10000, 1 << 30};

GROUP(driver_names)
{
	for (size_t i = 0; i < sizeof driver_codes / sizeof driver_codes[0]; i++) {
		const char *text = NULL, *sentence = NULL;
		ASK_VALUE(ask_name("name_of_%s", driver_codes[i].name),
			  cuGetErrorName((CUresult)driver_codes[i].code, &text), "%s", text ? text : "NULL");
		ASK_VALUE(ask_name("sentence_of_%s", driver_codes[i].name),
			  cuGetErrorString((CUresult)driver_codes[i].code, &sentence), "%s",
			  sentence ? sentence : "NULL");
	}
	for (size_t i = 0; i < sizeof unknown_codes / sizeof unknown_codes[0]; i++) {
		const char *text = UNTOUCHED(const char *), *sentence = UNTOUCHED(const char *);
		ASK_VALUE(ask_name("name_of_code_%d", unknown_codes[i]),
			  cuGetErrorName((CUresult)unknown_codes[i], &text), "%s", OUT(text));
		ASK_VALUE(ask_name("sentence_of_code_%d", unknown_codes[i]),
			  cuGetErrorString((CUresult)unknown_codes[i], &sentence), "%s", OUT(sentence));
	}
	ASK("name_null_output", cuGetErrorName(CUDA_SUCCESS, NULL));
	ASK("sentence_null_output", cuGetErrorString(CUDA_SUCCESS, NULL));
	ASK("name_null_output_unknown", cuGetErrorName((CUresult)-1, NULL));
}

GROUP(runtime_names)
{
	for (size_t i = 0; i < sizeof runtime_codes / sizeof runtime_codes[0]; i++) {
		SAY(ask_name("runtime_name_of_%s", runtime_codes[i].name), "%s",
		    cudaGetErrorName((cudaError_t)runtime_codes[i].code));
		SAY(ask_name("runtime_sentence_of_%s", runtime_codes[i].name), "%s",
		    cudaGetErrorString((cudaError_t)runtime_codes[i].code));
	}
	for (size_t i = 0; i < sizeof unknown_codes / sizeof unknown_codes[0]; i++) {
		SAY(ask_name("runtime_name_of_code_%d", unknown_codes[i]), "%s",
		    cudaGetErrorName((cudaError_t)unknown_codes[i]));
		SAY(ask_name("runtime_sentence_of_code_%d", unknown_codes[i]), "%s",
		    cudaGetErrorString((cudaError_t)unknown_codes[i]));
	}
}

/* What the address is, compared with the symbols this program was linked with. */
static const char *which(void *function)
{
	if (function == UNTOUCHED(void *) || !function)
		return OUT(function);
	return "set";
}

static void find(const char *question, const char *symbol, int version, unsigned long long flags)
{
	void *function = UNTOUCHED(void *);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)UNTOUCHED_INT;

	ASK_VALUE(question, cuGetProcAddress(symbol, &function, version, flags, &status), "%s %d", which(function),
		  (int)status);
}

/* Whether two requests find the same function. */
static const char *same(const char *one, int one_version, const char *other, int other_version)
{
	void *left = NULL, *right = NULL;

	cuGetProcAddress(one, &left, one_version, 0, NULL);
	cuGetProcAddress(other, &right, other_version, 0, NULL);
	return !left || !right ? "absent" : ask_yes(left == right);
}

GROUP(before_init)
{
	find("proc_before_init", "cuInit", 13000, 0);
	find("proc_before_init_alloc", "cuMemAlloc", 13000, 0);
}

GROUP(proc)
{
	void *function = NULL;
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)UNTOUCHED_INT;

	NEED(cuInit(0));
	find("proc_init", "cuInit", 13000, 0);
	find("proc_alloc", "cuMemAlloc", 13000, 0);
	find("proc_alloc_v2", "cuMemAlloc_v2", 13000, 0);
	find("proc_alloc_version_3020", "cuMemAlloc", 3020, 0);
	find("proc_alloc_version_2000", "cuMemAlloc", 2000, 0);
	find("proc_alloc_version_3010", "cuMemAlloc", 3010, 0);
	find("proc_absent", "cuNoSuchFunction", 13000, 0);
	find("proc_empty", "", 13000, 0);
	find("proc_runtime_name", "cudaMalloc", 13000, 0);
	find("proc_libc_name", "malloc", 13000, 0);
	find("proc_null_symbol", NULL, 13000, 0);
	find("proc_version_0", "cuInit", 0, 0);
	find("proc_version_1000", "cuInit", 1000, 0);
	find("proc_version_negative", "cuInit", -1, 0);
	find("proc_version_13010", "cuInit", 13010, 0);
	find("proc_version_20000", "cuInit", 20000, 0);
	find("proc_version_max", "cuInit", 0x7fffffff, 0);
	find("proc_flags_legacy", "cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
	find("proc_flags_per_thread", "cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	find("proc_flags_both", "cuMemcpyAsync", 13000, 3);
	find("proc_flags_4", "cuMemcpyAsync", 13000, 4);
	find("proc_flags_all", "cuMemcpyAsync", 13000, ~0ull);
	find("proc_per_thread_of_plain", "cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	find("proc_name_ptsz", "cuMemcpyAsync_ptsz", 13000, 0);
	find("proc_name_ptds", "cuMemcpy_ptds", 13000, 0);
	find("proc_memcpy_version_4000", "cuMemcpy", 4000, 0);
	find("proc_memcpy_version_3020", "cuMemcpy", 3020, 0);
	find("proc_per_thread_version_4000", "cuMemcpy", 4000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	find("proc_per_thread_version_7000", "cuMemcpy", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	find("proc_pools_version_11010", "cuMemPoolCreate", 11010, 0);
	find("proc_pools_version_11020", "cuMemPoolCreate", 11020, 0);
	find("proc_itself", "cuGetProcAddress", 13000, 0);
	find("proc_itself_v2", "cuGetProcAddress_v2", 13000, 0);
	ASK_VALUE("proc_null_status", cuGetProcAddress("cuInit", &function, 13000, 0, NULL), "%s", OUT(function));
	function = UNTOUCHED(void *);
	ASK_VALUE("proc_null_status_absent", cuGetProcAddress("cuNoSuch", &function, 13000, 0, NULL), "%s",
		  OUT(function));
	ASK_VALUE("proc_null_function", cuGetProcAddress("cuInit", NULL, 13000, 0, &status), "%d", (int)status);
	SAY("proc_alloc_is_its_symbol", "%s",
	    (cuGetProcAddress("cuMemAlloc", &function, 13000, 0, NULL), ask_yes(function == (void *)cuMemAlloc)));
	SAY("proc_works", "%s", ask_driver_code(((CUresult(*)(CUdeviceptr *, size_t))function)(NULL, 0)));
}

GROUP(proc_versions)
{
	static const struct {
		const char *name;
		int from, to;
	} pairs[] = {
		{"cuCtxCreate", 12000, 13000},
		{"cuCtxCreate", 12050, 13000},
		{"cuCtxDestroy", 4000, 13000},
		{"cuMemFree", 3020, 13000},
		{"cuMemAlloc", 3020, 13000},
		{"cuEventElapsedTime", 12000, 13000},
		{"cuEventElapsedTime", 12080, 13000},
		{"cuStreamGetCaptureInfo", 12000, 13000},
		{"cuStreamGetCaptureInfo", 12030, 13000},
		{"cuMemPrefetchAsync", 12000, 13000},
		{"cuMemPrefetchAsync", 12020, 13000},
		{"cuMemAdvise", 12000, 13000},
		{"cuMemAdvise", 12020, 13000},
		{"cuDeviceGetUuid", 11000, 13000},
		{"cuDeviceGetUuid", 11040, 13000},
		{"cuIpcOpenMemHandle", 10000, 13000},
		{"cuIpcOpenMemHandle", 11000, 13000},
		{"cuStreamWaitValue32", 11000, 13000},
		{"cuStreamWaitValue32", 11070, 13000},
		{"cuGetProcAddress", 11030, 13000},
		{"cuGetProcAddress", 12000, 13000},
		{"cuDevicePrimaryCtxRelease", 10000, 13000},
		{"cuDevicePrimaryCtxRelease", 11000, 13000},
		{"cuMemHostRegister", 6000, 13000},
		{"cuMemHostRegister", 6050, 13000},
	};

	NEED(cuInit(0));
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		SAY(ask_name("same_%s_%d_%d", pairs[i].name, pairs[i].from, pairs[i].to), "%s",
		    same(pairs[i].name, pairs[i].from, pairs[i].name, pairs[i].to));
	}
	SAY("same_alloc_and_alloc_v2", "%s", same("cuMemAlloc", 13000, "cuMemAlloc_v2", 13000));
}

GROUP(runtime_entry)
{
	void *function = UNTOUCHED(void *), *driver = NULL;
	enum cudaDriverEntryPointQueryResult status = (enum cudaDriverEntryPointQueryResult)UNTOUCHED_INT;
	static const struct {
		const char *question, *symbol;
		unsigned int version;
		unsigned long long flags;
	} tried[] = {
		{"entry_init", "cuInit", 13000, 0},
		{"entry_alloc", "cuMemAlloc", 13000, 0},
		{"entry_alloc_version_2000", "cuMemAlloc", 2000, 0},
		{"entry_alloc_version_20000", "cuMemAlloc", 20000, 0},
		{"entry_version_0", "cuMemAlloc", 0, 0},
		{"entry_pools_version_11010", "cuMemPoolCreate", 11010, 0},
		{"entry_absent", "cuNoSuchFunction", 13000, 0},
		{"entry_empty", "", 13000, 0},
		{"entry_runtime_name", "cudaMalloc", 13000, 0},
		{"entry_flags_legacy", "cuMemcpyAsync", 13000, 1},
		{"entry_flags_per_thread", "cuMemcpyAsync", 13000, 2},
		{"entry_flags_both", "cuMemcpyAsync", 13000, 3},
		{"entry_flags_4", "cuMemcpyAsync", 13000, 4},
		{"entry_null_symbol", NULL, 13000, 0},
	};

	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		function = UNTOUCHED(void *);
		status = (enum cudaDriverEntryPointQueryResult)UNTOUCHED_INT;
		ASK_VALUE(tried[i].question,
			  cudaGetDriverEntryPointByVersion(tried[i].symbol, &function, tried[i].version, tried[i].flags,
							   &status),
			  "%s %d", OUT(function), (int)status);
		ASK(ask_name("%s_last_error", tried[i].question), cudaGetLastError());
	}
	/* The older form, for the version of the runtime: deprecated, and still used. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		if (tried[i].version != 13000)
			continue;
		function = UNTOUCHED(void *);
		status = (enum cudaDriverEntryPointQueryResult)UNTOUCHED_INT;
		ASK_VALUE(ask_name("unversioned_%s", tried[i].question),
			  cudaGetDriverEntryPoint(tried[i].symbol, &function, tried[i].flags, &status), "%s %d",
			  OUT(function), (int)status);
		ASK(ask_name("unversioned_%s_last_error", tried[i].question), cudaGetLastError());
	}
	ASK("unversioned_null_status", cudaGetDriverEntryPoint("cuInit", &function, 0, NULL));
	ASK("unversioned_null_function", cudaGetDriverEntryPoint("cuInit", NULL, 0, &status));
#pragma GCC diagnostic pop
	ASK("entry_null_status", cudaGetDriverEntryPointByVersion("cuInit", &function, 13000, 0, NULL));
	ASK("entry_null_function", cudaGetDriverEntryPointByVersion("cuInit", NULL, 13000, 0, &status));
	NEED(cuInit(0));
	NEED(cuGetProcAddress("cuMemAlloc", &driver, 13000, 0, NULL));
	ASK_VALUE("entry_is_the_drivers", cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, 0, NULL),
		  "%s", ask_yes(function == driver));
}

/* Each function of the interface by its base name: found or not. */
GROUP(every_function)
{
	static const char *const names[] = {
#define X(name) #name,
#include "functions.h"
#undef X
	};

	NEED(cuInit(0));
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		find(ask_name("proc_of_%s", names[i]), names[i], 13000, 0);
}
