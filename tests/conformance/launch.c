/* SPDX-License-Identifier: MIT */
/*
 * Chapter "launch": modules, functions and launches.
 *
 * CONFORMANCE_MODULE names the module: kernels.ptx where there is a GPU, else the shared object made of kernels.c.
 */
#include "ask.h"

CHAPTER(launch);

static CUmodule module;
static CUfunction nothing, count_threads, write_dimensions, write_indices;
static CUdeviceptr memory;
static CUstream stream;

static const char *module_path(void)
{
	const char *path = getenv("CONFORMANCE_MODULE");

	return path ? path : "kernels.ptx";
}

static void setup(void)
{
	ask_context();
	NEED(cuModuleLoad(&module, module_path()));
	NEED(cuModuleGetFunction(&nothing, module, "nothing"));
	NEED(cuModuleGetFunction(&count_threads, module, "count_threads"));
	NEED(cuModuleGetFunction(&write_dimensions, module, "write_dimensions"));
	NEED(cuModuleGetFunction(&write_indices, module, "write_indices"));
	NEED(cuMemAlloc(&memory, 1 << 20));
	NEED(cuMemsetD8(memory, 0, 1 << 20));
	NEED(cuStreamCreate(&stream, 0));
}

GROUP(modules)
{
	CUmodule loaded = UNTOUCHED(CUmodule);
	CUfunction function = UNTOUCHED(CUfunction);
	CUdeviceptr word = UNTOUCHED(CUdeviceptr);
	size_t bytes = UNTOUCHED_INT;

	ask_context();
	ASK_VALUE("load", cuModuleLoad(&loaded, module_path()), "%s", OUT(loaded));
	module = loaded;
	loaded = UNTOUCHED(CUmodule);
	ASK_VALUE("load_absent", cuModuleLoad(&loaded, "/nowhere/at/all.so"), "%s", OUT(loaded));
	ASK_VALUE("load_empty_name", cuModuleLoad(&loaded, ""), "%s", OUT(loaded));
	ASK_VALUE("load_directory", cuModuleLoad(&loaded, "/"), "%s", OUT(loaded));
	ASK_VALUE("load_no_module", cuModuleLoad(&loaded, "/proc/self/environ"), "%s", OUT(loaded));
	ASK_VALUE("load_empty_file", cuModuleLoad(&loaded, "/dev/null"), "%s", OUT(loaded));
	ASK("load_null_name", cuModuleLoad(&loaded, NULL));
	ASK("load_null_output", cuModuleLoad(NULL, module_path()));
	ASK_VALUE("load_data_null", cuModuleLoadData(&loaded, NULL), "%s", OUT(loaded));
	ASK_VALUE("load_data_words", cuModuleLoadData(&loaded, "these words are no module"), "%s", OUT(loaded));
	ASK_VALUE("load_data_empty", cuModuleLoadData(&loaded, ""), "%s", OUT(loaded));
	ASK("load_data_null_output", cuModuleLoadData(NULL, "x"));
	ASK("load_data_ex_null", cuModuleLoadDataEx(&loaded, NULL, 0, NULL, NULL));
	ASK("load_data_ex_words", cuModuleLoadDataEx(&loaded, "these words are no module", 0, NULL, NULL));
	ASK_VALUE("function", cuModuleGetFunction(&function, module, "nothing"), "%s", OUT(function));
	function = UNTOUCHED(CUfunction);
	ASK_VALUE("function_absent", cuModuleGetFunction(&function, module, "absent"), "%s", OUT(function));
	ASK_VALUE("function_empty_name", cuModuleGetFunction(&function, module, ""), "%s", OUT(function));
	ASK_VALUE("function_of_variable", cuModuleGetFunction(&function, module, "conformance_word"), "%s",
		  OUT(function));
	ASK("function_null_name", cuModuleGetFunction(&function, module, NULL));
	ASK("function_null_output", cuModuleGetFunction(NULL, module, "nothing"));
	ASK("function_null_module", cuModuleGetFunction(&function, NULL, "nothing"));
	ASK_VALUE("global", cuModuleGetGlobal(&word, &bytes, module, "conformance_word"), "%s %zu", OUT(word), bytes);
	SAY("global_contents", "%s", ask_device_bytes(word, 16));
	ASK("global_write", cuMemsetD8(word, 5, 4));
	SAY("global_written", "%s", ask_device_bytes(word, 8));
	ASK("global_range", cuMemGetAddressRange(&word, &bytes, word));
	ASK("global_free", cuMemFree(word));
	word = UNTOUCHED(CUdeviceptr), bytes = UNTOUCHED_INT;
	ASK_VALUE("global_absent", cuModuleGetGlobal(&word, &bytes, module, "absent"), "%s %zu", OUT(word), bytes);
	ASK_VALUE("global_of_function", cuModuleGetGlobal(&word, &bytes, module, "nothing"), "%s %zu", OUT(word),
		  bytes);
	ASK("global_null_address", cuModuleGetGlobal(NULL, &bytes, module, "conformance_word"));
	ASK("global_null_bytes", cuModuleGetGlobal(&word, NULL, module, "conformance_word"));
	ASK("global_null_both", cuModuleGetGlobal(NULL, NULL, module, "conformance_word"));
	ASK("global_null_name", cuModuleGetGlobal(&word, &bytes, module, NULL));
	ASK("global_null_module", cuModuleGetGlobal(&word, &bytes, NULL, "conformance_word"));
	ASK("unload_null", cuModuleUnload(NULL));
	ASK("unload", cuModuleUnload(module));
}

/* The bytes of the module's file, and a zero. */
static char *read_module(void)
{
	FILE *file = fopen(module_path(), "re");
	char *image = calloc(1, 1 << 20);

	if (!file || !image || !fread(image, 1, (1 << 20) - 1, file))
		abort();
	fclose(file);
	return image;
}

/* Whether a log ends within its room, and by how much its size differs from the length of its text. */
static const char *describe_log(const char *log, size_t room, size_t size)
{
	static char texts[2][64];
	static int next;
	char *text = texts[next++ % 2];

	if (!memchr(log, 0, room))
		return "endless";
	snprintf(text, sizeof texts[0], "ended size %+d", (int)size - (int)strlen(log));
	return text;
}

static void ask_options(const char *kind, const char *image, size_t room)
{
	char information[256], error[256];
	CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {information, (void *)room, error, (void *)room};
	CUmodule loaded = UNTOUCHED(CUmodule);

	memset(information, 'x', sizeof information);
	memset(error, 'x', sizeof error);
	ASK_VALUE(ask_name("%s", kind), cuModuleLoadDataEx(&loaded, image, 4, options, values), "%s", OUT(loaded));
	SAY(ask_name("%s_information", kind), "%s", describe_log(information, room, (size_t)values[1]));
	SAY(ask_name("%s_error", kind), "%s", describe_log(error, room, (size_t)values[3]));
}

GROUP(options)
{
	CUjit_option wrong[] = {(CUjit_option)99, (CUjit_option)-1}, wall_time = CU_JIT_WALL_TIME;
	CUmodule loaded = UNTOUCHED(CUmodule);
	void *value = NULL;

	ask_context();
	ask_guard();
	ask_options("options_module", read_module(), 256);
	ask_options("options_words", "these words are no module", 256);
	ask_options("options_words_short", "these words are no module", 4);
	ASK("options_99", cuModuleLoadDataEx(&loaded, "these words are no module", 1, &wrong[0], &value));
	ASK("options_negative", cuModuleLoadDataEx(&loaded, "these words are no module", 1, &wrong[1], &value));
	ASK("options_99_module", cuModuleLoadDataEx(&loaded, read_module(), 1, &wrong[0], &value));
	ASK("options_wall_time", cuModuleLoadDataEx(&loaded, read_module(), 1, &wall_time, &value));
	ASK("options_null", cuModuleLoadDataEx(&loaded, "these words are no module", 1, NULL, &value));
	ASK("options_null_values", cuModuleLoadDataEx(&loaded, "these words are no module", 1, &wall_time, NULL));
}

GROUP(modules_wrong)
{
	CUfunction function = UNTOUCHED(CUfunction);
	CUmodule second = NULL;

	setup();
	ASK_VALUE("load_twice", cuModuleLoad(&second, module_path()), "%s", ask_yes(second != module));
	ASK_VALUE("load_twice_function", cuModuleGetFunction(&function, second, "nothing"), "%s",
		  ask_yes(function != nothing));
	ASK_VALUE("function_twice", cuModuleGetFunction(&function, module, "nothing"), "%s",
		  ask_yes(function == nothing));
	NEED(cuModuleUnload(second));
	ASK("function_of_unloaded", cuModuleGetFunction(&function, second, "nothing"));
	ASK("function_of_zeros", cuModuleGetFunction(&function, ZEROS(CUmodule), "nothing"));
	ASK("function_of_small", cuModuleGetFunction(&function, SMALL(CUmodule), "nothing"));
	ASK("function_of_garbage", cuModuleGetFunction(&function, GARBAGE(CUmodule), "nothing"));
	ASK("unload_zeros", cuModuleUnload(ZEROS(CUmodule)));
	ASK("unload_small", cuModuleUnload(SMALL(CUmodule)));
	ASK("unload_garbage", cuModuleUnload(GARBAGE(CUmodule)));
	ASK("unload_twice", cuModuleUnload(second));
}

static CUresult launch(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
		       unsigned int by, unsigned int bz)
{
	void *params[] = {&memory};

	return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, 0, stream, params, NULL);
}

GROUP(dimensions)
{
	static const unsigned int tried[][6] = {
		{1, 1, 1, 1, 1, 1},           {2, 3, 4, 5, 6, 7},        {0, 1, 1, 1, 1, 1},     {1, 0, 1, 1, 1, 1},
		{1, 1, 0, 1, 1, 1},           {1, 1, 1, 0, 1, 1},        {1, 1, 1, 1, 0, 1},     {1, 1, 1, 1, 1, 0},
		{0, 0, 0, 0, 0, 0},           {1, 1, 1, 1024, 1, 1},     {1, 1, 1, 1025, 1, 1},  {1, 1, 1, 1, 1024, 1},
		{1, 1, 1, 1, 1025, 1},        {1, 1, 1, 1, 1, 64},       {1, 1, 1, 1, 1, 65},    {1, 1, 1, 32, 32, 1},
		{1, 1, 1, 32, 33, 1},         {1, 1, 1, 1024, 1024, 64}, {1, 1, 1, ~0u, 1, 1},   {1, 65535, 1, 1, 1, 1},
		{1, 65536, 1, 1, 1, 1},       {1, 1, 65535, 1, 1, 1},    {1, 1, 65536, 1, 1, 1}, {65536, 1, 1, 1, 1, 1},
		{0x80000000u, 1, 1, 1, 1, 1}, {~0u, 1, 1, 1, 1, 1},
	};

	setup();
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		const unsigned int *d = tried[i];
		ASK(ask_name("grid_%u_%u_%u_block_%u_%u_%u", d[0], d[1], d[2], d[3], d[4], d[5]),
		    launch(nothing, d[0], d[1], d[2], d[3], d[4], d[5]));
	}
	ASK("dimensions_synchronize", cuStreamSynchronize(stream));
	ASK("dimensions_written", launch(write_dimensions, 2, 3, 4, 5, 6, 7));
	NEED(cuStreamSynchronize(stream));
	SAY("dimensions_read", "%s", ask_device_bytes(memory, 24));
	NEED(cuMemsetD8(memory, 0, 64));
	ASK("count_launch", launch(count_threads, 3, 2, 2, 8, 4, 2));
	NEED(cuStreamSynchronize(stream));
	SAY("count_read", "%s", ask_device_bytes(memory, 4));
}

GROUP(parameters)
{
	uint32_t count = 4, factor = 3;
	void *params[] = {&memory, &count, &factor};
	struct {
		CUdeviceptr out;
		uint32_t count, factor;
	} packed;
	size_t packed_bytes = sizeof packed, short_bytes = 4;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
			 CU_LAUNCH_PARAM_END};
	void *extra_short[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &short_bytes,
			       CU_LAUNCH_PARAM_END};
	void *extra_end[] = {CU_LAUNCH_PARAM_END};
	void *extra_bad[] = {(void *)9, &packed, CU_LAUNCH_PARAM_END};

	setup();
	ask_guard();
	packed.out = memory + 64;
	packed.count = 4;
	packed.factor = 5;
	ASK("params", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, params, NULL));
	factor = 9;
	NEED(cuStreamSynchronize(stream));
	SAY("params_read", "%s", ask_device_bytes(memory, 20));
	ASK("extra", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, NULL, extra));
	NEED(cuStreamSynchronize(stream));
	SAY("extra_read", "%s", ask_device_bytes(memory + 64, 20));
	ASK("params_and_extra", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, params, extra));
	ASK("no_params", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, NULL, NULL));
	ASK("extra_short", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, NULL, extra_short));
	ASK("extra_end", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, NULL, extra_end));
	ASK("extra_bad", cuLaunchKernel(write_indices, 2, 1, 1, 4, 1, 1, 0, stream, NULL, extra_bad));
	ASK("parameterless_no_params", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("parameterless_params", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASK("parameterless_both", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, params, extra));
	ASK("parameters_synchronize", cuCtxSynchronize());
}

GROUP(shared_memory)
{
	static const unsigned int tried[] = {0, 1, 1024, 48 << 10, (48 << 10) + 1, 1 << 20, ~0u};

	setup();
	ask_guard();
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		ASK(ask_name("shared_%u", tried[i]),
		    cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, tried[i], stream, NULL, NULL));
	}
	ASK("shared_synchronize", cuCtxSynchronize());
}

GROUP(functions_wrong)
{
	setup();
	ask_guard();
	ASK("launch_null", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("launch_null_zero_dims", cuLaunchKernel(NULL, 0, 0, 0, 0, 0, 0, 0, stream, NULL, NULL));
	ASK("launch_zeros", cuLaunchKernel(ZEROS(CUfunction), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("launch_small", cuLaunchKernel(SMALL(CUfunction), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("launch_garbage", cuLaunchKernel(GARBAGE(CUfunction), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("launch_null_stream", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASK("launch_legacy", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, NULL, NULL));
	ASK("launch_per_thread", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL));
	ASK("launch_garbage_stream", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, GARBAGE(CUstream), NULL, NULL));
	NEED(cuModuleUnload(module));
	ASK("launch_unloaded", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

GROUP(launch_ex)
{
	CUlaunchConfig config;
	CUlaunchAttribute attribute;

	setup();
	memset(&config, 0, sizeof config);
	memset(&attribute, 0, sizeof attribute);
	config.gridDimX = config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = config.blockDimY = config.blockDimZ = 1;
	config.hStream = stream;
	ASK("ex", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	ASK("ex_null_config", cuLaunchKernelEx(NULL, nothing, NULL, NULL));
	ASK("ex_null_function", cuLaunchKernelEx(&config, NULL, NULL, NULL));
	config.numAttrs = 1;
	ASK("ex_null_attributes", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.attrs = &attribute;
	attribute.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
	ASK("ex_attribute_ignore", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	attribute.value.priority = -1;
	ASK("ex_attribute_priority", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attribute.value.cooperative = 1;
	ASK("ex_attribute_cooperative", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	attribute.id = (CUlaunchAttributeID)99;
	ASK("ex_attribute_99", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.numAttrs = 0;
	config.gridDimX = 0;
	ASK("ex_grid_0", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.gridDimX = 1;
	config.blockDimX = 0;
	ASK("ex_block_0", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.blockDimX = 1025;
	ASK("ex_block_1025", cuLaunchKernelEx(&config, nothing, NULL, NULL));
	ASK("ex_synchronize", cuCtxSynchronize());
}

GROUP(attributes)
{
	int value = UNTOUCHED_INT;

	setup();
	for (int attribute = 0; attribute <= (int)CU_FUNC_ATTRIBUTE_MAX; attribute++) {
		value = UNTOUCHED_INT;
		ASK(ask_name("attribute_%d", attribute),
		    cuFuncGetAttribute(&value, (CUfunction_attribute)attribute, nothing));
	}
	ASK_VALUE("attribute_max_threads", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nothing),
		  "%d", value);
	ASK_VALUE("attribute_shared", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, nothing), "%d",
		  value);
	ASK_VALUE("attribute_max_dynamic",
		  cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nothing), "%d", value);
	value = UNTOUCHED_INT;
	ASK_VALUE("attribute_99", cuFuncGetAttribute(&value, (CUfunction_attribute)99, nothing), "%d", value);
	ASK_VALUE("attribute_negative", cuFuncGetAttribute(&value, (CUfunction_attribute)-1, nothing), "%d", value);
	ASK("attribute_null_output", cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing));
	ASK_VALUE("attribute_null_function", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL), "%d", value);
	ASK("attribute_set_max_dynamic",
	    cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
	ASK_VALUE("attribute_max_dynamic_read",
		  cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nothing), "%d", value);
	ASK("launch_max_dynamic", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 64 << 10, stream, NULL, NULL));
	ASK("attribute_set_max_dynamic_negative",
	    cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
	ASK("attribute_set_max_dynamic_huge",
	    cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30));
	ASK("attribute_set_carveout",
	    cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
	ASK("attribute_set_carveout_101",
	    cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
	ASK("attribute_set_registers", cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
	ASK("attribute_set_99", cuFuncSetAttribute(nothing, (CUfunction_attribute)99, 8));
	ASK("attribute_set_null", cuFuncSetAttribute(NULL, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8));
	ASK("attribute_garbage_function", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, GARBAGE(CUfunction)));
}

GROUP(order)
{
	void *params[] = {&memory};
	CUdeviceptr second;
	struct gate gate;

	setup();
	gate = gate_make();
	gate_close(&gate, stream);
	ASK("gated_launch", cuLaunchKernel(count_threads, 4, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	ASK("gated_query", cuStreamQuery(stream));
	second = memory + 4;
	ASK("gated_copy_behind", cuMemcpyDtoDAsync(second, memory, 4, stream));
	gate_open(&gate);
	ASK("gated_synchronize", cuStreamSynchronize(stream));
	SAY("gated_read", "%s", ask_device_bytes(memory, 8));
}

GROUP(other_context)
{
	CUfunction function = NULL;
	CUstream mine = NULL;

	setup();
	ask_context();
	NEED(cuStreamCreate(&mine, 0));
	ASK("foreign_get_function", cuModuleGetFunction(&function, module, "nothing"));
	ASK("foreign_function_its_stream", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ASK("foreign_function_my_stream", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, mine, NULL, NULL));
	ASK("foreign_function_null_stream", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASK("foreign_unload", cuModuleUnload(module));
}
