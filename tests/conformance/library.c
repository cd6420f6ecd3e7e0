/* SPDX-License-Identifier: MIT */
/*
 * Chapter "library": libraries and their kernels, and what else is asked of PTX, or of a cubin made of it.
 *
 * CONFORMANCE_MODULE names the file.
 */
#include "ask.h"

CHAPTER(library);

static CUlibrary library;
static CUkernel nothing, counter, bounded;
static CUmodule module;

static const char *module_path(void)
{
	const char *path = getenv("CONFORMANCE_MODULE");

	return path ? path : "kernels.ptx";
}

/* The bytes of the file, and a zero. */
static char *read_image(void)
{
	FILE *file = fopen(module_path(), "re");
	char *image = calloc(1, 1 << 20);

	if (!file || !image || !fread(image, 1, (1 << 20) - 1, file))
		abort();
	fclose(file);
	return image;
}

static void load(void)
{
	NEED(cuInit(0));
	NEED(cuLibraryLoadFromFile(&library, module_path(), NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&nothing, library, "nothing"));
	NEED(cuLibraryGetKernel(&counter, library, "count_in_variable"));
	NEED(cuLibraryGetKernel(&bounded, library, "bounded"));
}

GROUP(loading)
{
	CUlibrary loaded = UNTOUCHED(CUlibrary);
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED, wrong = (CUlibraryOption)99;
	CUjit_option wrong_jit = (CUjit_option)99;
	void *value = NULL;
	char *image = read_image();

	ASK_VALUE("load_before_init", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0), "%s",
		  OUT(loaded));
	NEED(cuInit(0));
	ASK_VALUE("load_without_context", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0), "%s",
		  OUT(loaded));
	ASK("unload_without_context", cuLibraryUnload(loaded));
	ask_context();
	loaded = UNTOUCHED(CUlibrary);
	ASK_VALUE("load", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0), "%s", OUT(loaded));
	library = loaded, loaded = UNTOUCHED(CUlibrary);
	ASK("load_null_output", cuLibraryLoadData(NULL, image, NULL, NULL, 0, NULL, NULL, 0));
	ASK_VALUE("load_null", cuLibraryLoadData(&loaded, NULL, NULL, NULL, 0, NULL, NULL, 0), "%s", OUT(loaded));
	ASK_VALUE("load_words", cuLibraryLoadData(&loaded, "no library", NULL, NULL, 0, NULL, NULL, 0), "%s",
		  OUT(loaded));
	ASK_VALUE("load_empty", cuLibraryLoadData(&loaded, "", NULL, NULL, 0, NULL, NULL, 0), "%s", OUT(loaded));
	ASK("load_preserved", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, &preserved, NULL, 1));
	ASK("load_option_99", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, &wrong, &value, 1));
	ASK("load_option_null", cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 1));
	ASK("load_jit_99", cuLibraryLoadData(&loaded, image, &wrong_jit, &value, 1, NULL, NULL, 0));
	ASK("load_jit_null", cuLibraryLoadData(&loaded, image, NULL, NULL, 1, NULL, NULL, 0));
	loaded = UNTOUCHED(CUlibrary);
	ASK_VALUE("file", cuLibraryLoadFromFile(&loaded, module_path(), NULL, NULL, 0, NULL, NULL, 0), "%s",
		  OUT(loaded));
	ASK("file_unload", cuLibraryUnload(loaded));
	loaded = UNTOUCHED(CUlibrary);
	ASK_VALUE("file_absent", cuLibraryLoadFromFile(&loaded, "/nowhere/at/all", NULL, NULL, 0, NULL, NULL, 0), "%s",
		  OUT(loaded));
	ASK("file_empty_name", cuLibraryLoadFromFile(&loaded, "", NULL, NULL, 0, NULL, NULL, 0));
	ASK("file_directory", cuLibraryLoadFromFile(&loaded, "/", NULL, NULL, 0, NULL, NULL, 0));
	ASK("file_empty", cuLibraryLoadFromFile(&loaded, "/dev/null", NULL, NULL, 0, NULL, NULL, 0));
	ASK("file_null_name", cuLibraryLoadFromFile(&loaded, NULL, NULL, NULL, 0, NULL, NULL, 0));
	ASK("file_null_output", cuLibraryLoadFromFile(NULL, module_path(), NULL, NULL, 0, NULL, NULL, 0));
	ASK("unload", cuLibraryUnload(library));
}

GROUP(unloading_wrong)
{
	load();
	ASK("unload_null", cuLibraryUnload(NULL));
	NEED(cuLibraryUnload(library));
	ASK("unload_twice", cuLibraryUnload(library));
	ASK("unload_garbage", cuLibraryUnload(GARBAGE(CUlibrary)));
	ASK("unload_small", cuLibraryUnload(SMALL(CUlibrary)));
	ASK("unload_zeros", cuLibraryUnload(ZEROS(CUlibrary)));
}

GROUP(kernels)
{
	CUkernel kernel = UNTOUCHED(CUkernel), kernels[4] = {NULL};
	CUlibrary found = UNTOUCHED(CUlibrary);
	const char *name = NULL;
	unsigned int count = UNTOUCHED_INT;

	load();
	ASK_VALUE("kernel", cuLibraryGetKernel(&kernel, library, "nothing"), "%s", ask_yes(kernel == nothing));
	kernel = UNTOUCHED(CUkernel);
	ASK_VALUE("kernel_absent", cuLibraryGetKernel(&kernel, library, "absent"), "%s", OUT(kernel));
	ASK_VALUE("kernel_empty_name", cuLibraryGetKernel(&kernel, library, ""), "%s", OUT(kernel));
	ASK_VALUE("kernel_of_variable", cuLibraryGetKernel(&kernel, library, "conformance_word"), "%s", OUT(kernel));
	ASK("kernel_null_name", cuLibraryGetKernel(&kernel, library, NULL));
	ASK("kernel_null_output", cuLibraryGetKernel(NULL, library, "nothing"));
	ASK("kernel_null_library", cuLibraryGetKernel(&kernel, NULL, "nothing"));
	ASK_VALUE("count", cuLibraryGetKernelCount(&count, library), "%u", count);
	ASK("count_null", cuLibraryGetKernelCount(NULL, library));
	ASK("count_null_library", cuLibraryGetKernelCount(&count, NULL));
	ASK_VALUE("enumerate", cuLibraryEnumerateKernels(kernels, 2, library), "%s %s %s", OUT(kernels[0]),
		  OUT(kernels[1]), OUT(kernels[2]));
	ASK("enumerate_0", cuLibraryEnumerateKernels(kernels, 0, library));
	ASK("enumerate_null", cuLibraryEnumerateKernels(NULL, 2, library));
	ASK("enumerate_null_library", cuLibraryEnumerateKernels(kernels, 2, NULL));
	ASK_VALUE("name", cuKernelGetName(&name, nothing), "%s", name ? name : "NULL");
	ASK("name_null", cuKernelGetName(NULL, nothing));
	ASK("name_null_kernel", cuKernelGetName(&name, NULL));
	ASK_VALUE("library_of", cuKernelGetLibrary(&found, nothing), "%s", ask_yes(found == library));
	ASK("library_of_null", cuKernelGetLibrary(&found, NULL));
	ASK("library_of_null_output", cuKernelGetLibrary(NULL, nothing));
}

GROUP(kernels_wrong)
{
	CUkernel kernel = UNTOUCHED(CUkernel);
	unsigned int count = UNTOUCHED_INT;
	const char *name = NULL;

	load();
	ask_context();
	ASK("kernel_of_garbage", cuLibraryGetKernel(&kernel, GARBAGE(CUlibrary), "nothing"));
	ASK("count_of_garbage", cuLibraryGetKernelCount(&count, GARBAGE(CUlibrary)));
	ASK("name_of_garbage", cuKernelGetName(&name, GARBAGE(CUkernel)));
	ASK("launch_garbage_kernel",
	    cuLaunchKernel((CUfunction)GARBAGE(CUkernel), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	NEED(cuLibraryUnload(library));
	ASK("kernel_of_unloaded", cuLibraryGetKernel(&kernel, library, "nothing"));
	ASK("name_of_unloaded", cuKernelGetName(&name, nothing));
	ASK("launch_unloaded", cuLaunchKernel((CUfunction)nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

GROUP(contexts)
{
	CUcontext contexts[2];
	CUfunction functions[2] = {UNTOUCHED(CUfunction), UNTOUCHED(CUfunction)};
	CUdeviceptr words[2] = {0};
	CUmodule modules[2] = {NULL}, again = NULL;
	size_t bytes = UNTOUCHED_INT;

	load();
	ASK_VALUE("function_without_context", cuKernelGetFunction(&functions[0], nothing), "%s", OUT(functions[0]));
	ASK_VALUE("module_without_context", cuLibraryGetModule(&again, library), "%s", OUT(again));
	ASK("global_without_context", cuLibraryGetGlobal(&words[0], &bytes, library, "conformance_word"));
	ASK("launch_without_context", cuLaunchKernel((CUfunction)nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	for (int i = 0; i < 2; i++) {
		contexts[i] = ask_context();
		ASK(ask_name("launch_kernel_%d", i),
		    cuLaunchKernel((CUfunction)counter, 3, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		ASK_VALUE(ask_name("global_%d", i), cuLibraryGetGlobal(&words[i], &bytes, library, "conformance_word"),
			  "%s %zu", OUT(words[i]), bytes);
		SAY(ask_name("global_contents_%d", i), "%s", ask_device_bytes(words[i], 8));
		ASK_VALUE(ask_name("function_%d", i), cuKernelGetFunction(&functions[i], nothing), "%s",
			  OUT(functions[i]));
		ASK_VALUE(ask_name("module_%d", i), cuLibraryGetModule(&modules[i], library), "%s", OUT(modules[i]));
		ASK_VALUE(ask_name("module_again_%d", i), cuLibraryGetModule(&again, library), "%s",
			  ask_yes(again == modules[i]));
	}
	SAY("functions_differ", "%s", ask_yes(functions[0] != functions[1]));
	SAY("modules_differ", "%s", ask_yes(modules[0] != modules[1]));
	SAY("globals_differ", "%s", ask_yes(words[0] != words[1]));
	ASK("launch_other_contexts_function", cuLaunchKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASK("unload_its_module", cuModuleUnload(modules[1]));
	ASK("launch_after_unload_of_module",
	    cuLaunchKernel((CUfunction)nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	NEED(cuCtxDestroy(contexts[1]));
	NEED(cuCtxSetCurrent(contexts[0]));
	ASK("launch_after_destroy", cuLaunchKernel((CUfunction)counter, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASK("synchronize", cuCtxSynchronize());
}

GROUP(variables)
{
	CUdeviceptr word = UNTOUCHED(CUdeviceptr);
	size_t bytes = UNTOUCHED_INT;
	int managed = UNTOUCHED_INT;

	load();
	ASK_VALUE("managed_without_context", cuLibraryGetManaged(&word, &bytes, library, "conformance_managed"),
		  "%s %zu", OUT(word), bytes);
	ask_context();
	ASK_VALUE("managed", cuLibraryGetManaged(&word, &bytes, library, "conformance_managed"), "%s %zu", OUT(word),
		  bytes);
	SAY("managed_contents", "%s", ask_device_bytes(word, 4));
	ASK_VALUE("managed_attribute", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, word), "%d",
		  managed);
	ASK("managed_free", cuMemFree(word));
	word = UNTOUCHED(CUdeviceptr), bytes = UNTOUCHED_INT;
	ASK_VALUE("managed_as_global", cuLibraryGetGlobal(&word, &bytes, library, "conformance_managed"), "%s %zu",
		  OUT(word), bytes);
	word = UNTOUCHED(CUdeviceptr), bytes = UNTOUCHED_INT;
	ASK_VALUE("managed_of_global", cuLibraryGetManaged(&word, &bytes, library, "conformance_word"), "%s %zu",
		  OUT(word), bytes);
	ASK_VALUE("managed_absent", cuLibraryGetManaged(&word, &bytes, library, "absent"), "%s %zu", OUT(word), bytes);
	ASK("managed_null_name", cuLibraryGetManaged(&word, &bytes, library, NULL));
	ASK("managed_null_outputs", cuLibraryGetManaged(NULL, NULL, library, "conformance_managed"));
	ASK_VALUE("global_constant", cuLibraryGetGlobal(&word, &bytes, library, "conformance_constant"), "%s %zu",
		  OUT(word), bytes);
	SAY("global_constant_contents", "%s", ask_device_bytes(word, 8));
	word = UNTOUCHED(CUdeviceptr), bytes = UNTOUCHED_INT;
	ASK_VALUE("global_absent", cuLibraryGetGlobal(&word, &bytes, library, "absent"), "%s %zu", OUT(word), bytes);
	ASK_VALUE("global_of_kernel", cuLibraryGetGlobal(&word, &bytes, library, "nothing"), "%s %zu", OUT(word),
		  bytes);
	ASK("global_null_address", cuLibraryGetGlobal(NULL, &bytes, library, "conformance_word"));
	ASK("global_null_bytes", cuLibraryGetGlobal(&word, NULL, library, "conformance_word"));
	ASK("global_null_both", cuLibraryGetGlobal(NULL, NULL, library, "conformance_word"));
	ASK("global_null_name", cuLibraryGetGlobal(&word, &bytes, library, NULL));
	ASK("global_null_library", cuLibraryGetGlobal(&word, &bytes, NULL, "conformance_word"));
}

GROUP(kernel_attributes)
{
	CUkernel with_memory = NULL;
	int value = UNTOUCHED_INT;

	load();
	NEED(cuLibraryGetKernel(&with_memory, library, "with_memory"));
	ASK_VALUE("attribute_without_context",
		  cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded, 0), "%d", value);
	ASK_VALUE("attribute_shared", cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, with_memory, 0),
		  "%d", value);
	ASK_VALUE("attribute_max_dynamic",
		  cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, with_memory, 0), "%d",
		  value);
	ASK("attribute_99", cuKernelGetAttribute(&value, (CUfunction_attribute)99, nothing, 0));
	ASK("attribute_negative", cuKernelGetAttribute(&value, (CUfunction_attribute)-1, nothing, 0));
	ASK("attribute_null", cuKernelGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing, 0));
	ASK("attribute_null_kernel", cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL, 0));
	ASK("attribute_device_99", cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing, 99));
	ASK("attribute_device_negative", cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing, -1));
	ASK("set", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10, nothing, 0));
	ASK_VALUE("set_read", cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nothing, 0),
		  "%d", value);
	ASK("set_too_much", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20, nothing, 0));
	ASK("set_too_much_with_static",
	    cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10, with_memory, 0));
	ASK("set_negative", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1, nothing, 0));
	ASK("set_read_only", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 8, nothing, 0));
	ASK("set_99", cuKernelSetAttribute((CUfunction_attribute)99, 8, nothing, 0));
	ASK("set_null_kernel", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8, NULL, 0));
	ASK("set_device_99", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8, nothing, 99));
	ask_context();
	ASK_VALUE("set_seen_by_function",
		  cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (CUfunction)nothing),
		  "%d", value);
	ASK("launch_with_more", cuLaunchKernel((CUfunction)nothing, 1, 1, 1, 1, 1, 1, 100 << 10, NULL, NULL, NULL));
	ASK("synchronize_more", cuCtxSynchronize());
}

GROUP(parameters)
{
	CUkernel kernel = NULL;
	CUfunction function = NULL;
	size_t offset = UNTOUCHED_INT, bytes = UNTOUCHED_INT;

	load();
	ask_context();
	NEED(cuLibraryGetKernel(&kernel, library, "many_parameters"));
	NEED(cuKernelGetFunction(&function, kernel));
	for (size_t i = 0; i < 6; i++) {
		offset = bytes = UNTOUCHED_INT;
		ASK_VALUE(ask_name("parameter_%zu", i), cuKernelGetParamInfo(kernel, i, &offset, &bytes), "%zu %zu",
			  offset, bytes);
		offset = bytes = UNTOUCHED_INT;
		ASK_VALUE(ask_name("function_parameter_%zu", i), cuFuncGetParamInfo(function, i, &offset, &bytes),
			  "%zu %zu", offset, bytes);
	}
	ASK("parameter_null_offset", cuKernelGetParamInfo(kernel, 0, NULL, &bytes));
	ASK("parameter_null_bytes", cuKernelGetParamInfo(kernel, 0, &offset, NULL));
	ASK("parameter_null_kernel", cuKernelGetParamInfo(NULL, 0, &offset, &bytes));
	ASK("function_parameter_null_offset", cuFuncGetParamInfo(function, 0, NULL, &bytes));
	ASK("function_parameter_null_bytes", cuFuncGetParamInfo(function, 0, &offset, NULL));
	ASK("function_parameter_null", cuFuncGetParamInfo(NULL, 0, &offset, &bytes));
	ASK_VALUE("function_parameter_of_kernel", cuFuncGetParamInfo((CUfunction)kernel, 1, &offset, &bytes), "%zu %zu",
		  offset, bytes);
}

GROUP(modules)
{
	CUfunction functions[4] = {NULL}, function = NULL;
	CUmodule loaded = UNTOUCHED(CUmodule), found = UNTOUCHED(CUmodule);
	CUmoduleLoadingMode mode = (CUmoduleLoadingMode)UNTOUCHED_INT;
	CUfunctionLoadingState state = (CUfunctionLoadingState)UNTOUCHED_INT;
	unsigned int count = UNTOUCHED_INT;
	char *image = read_image();

	ASK("mode_before_init", cuModuleGetLoadingMode(&mode));
	NEED(cuInit(0));
	ASK_VALUE("mode", cuModuleGetLoadingMode(&mode), "%d", (int)mode);
	ASK("mode_null", cuModuleGetLoadingMode(NULL));
	ask_context();
	ASK_VALUE("fat_binary", cuModuleLoadFatBinary(&loaded, image), "%s", OUT(loaded));
	ASK("fat_binary_null", cuModuleLoadFatBinary(&loaded, NULL));
	ASK("fat_binary_null_output", cuModuleLoadFatBinary(NULL, image));
	ASK("fat_binary_words", cuModuleLoadFatBinary(&loaded, "these words are no module"));
	NEED(cuModuleLoad(&module, module_path()));
	NEED(cuModuleGetFunction(&function, module, "nothing"));
	ASK_VALUE("function_count", cuModuleGetFunctionCount(&count, module), "%u", count);
	ASK("function_count_null", cuModuleGetFunctionCount(NULL, module));
	ASK("function_count_null_module", cuModuleGetFunctionCount(&count, NULL));
	ASK_VALUE("functions", cuModuleEnumerateFunctions(functions, 2, module), "%s %s %s", OUT(functions[0]),
		  OUT(functions[1]), OUT(functions[2]));
	ASK("functions_0", cuModuleEnumerateFunctions(functions, 0, module));
	ASK("functions_null", cuModuleEnumerateFunctions(NULL, 2, module));
	ASK("functions_null_module", cuModuleEnumerateFunctions(functions, 2, NULL));
	ASK_VALUE("module_of", cuFuncGetModule(&found, function), "%s", ask_yes(found == module));
	ASK("module_of_null", cuFuncGetModule(&found, NULL));
	ASK("module_of_null_output", cuFuncGetModule(NULL, function));
	ASK("load_function", cuFuncLoad(function));
	ASK("load_function_null", cuFuncLoad(NULL));
	ASK_VALUE("is_loaded", cuFuncIsLoaded(&state, function), "%d", (int)state);
	ASK("is_loaded_null", cuFuncIsLoaded(&state, NULL));
	ASK("is_loaded_null_output", cuFuncIsLoaded(NULL, function));
}

GROUP(bounds)
{
	CUkernel required = NULL;
	int value = UNTOUCHED_INT, threads = UNTOUCHED_INT;

	load();
	NEED(cuLibraryGetKernel(&required, library, "required"));
	ask_context();
	ask_guard();
	ASK("bounded_64", cuLaunchKernel((CUfunction)bounded, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
	ASK("bounded_65", cuLaunchKernel((CUfunction)bounded, 1, 1, 1, 65, 1, 1, 0, NULL, NULL, NULL));
	ASK("bounded_1024", cuLaunchKernel((CUfunction)bounded, 1, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL));
	ASK("required_32", cuLaunchKernel((CUfunction)required, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	ASK("required_1", cuLaunchKernel((CUfunction)required, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ASK("required_16", cuLaunchKernel((CUfunction)required, 1, 1, 1, 16, 1, 1, 0, NULL, NULL, NULL));
	ASK("required_64", cuLaunchKernel((CUfunction)required, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
	ASK_VALUE("bounded_occupancy_64",
		  cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, (CUfunction)bounded, 64, 0), "%d", value);
	ASK_VALUE("bounded_occupancy_128",
		  cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, (CUfunction)bounded, 128, 0), "%d", value);
	ASK_VALUE("bounded_potential",
		  cuOccupancyMaxPotentialBlockSize(&value, &threads, (CUfunction)bounded, NULL, 0, 0), "%d", threads);
	ASK("bounds_synchronize", cuCtxSynchronize());
}

GROUP(cooperative)
{
	CUlaunchAttribute attribute;
	CUlaunchConfig config;

	load();
	ask_context();
	ask_guard();
	ASK("cooperative", cuLaunchCooperativeKernel((CUfunction)nothing, 2, 1, 1, 32, 1, 1, 0, NULL, NULL));
	ASK("cooperative_too_large",
	    cuLaunchCooperativeKernel((CUfunction)nothing, 1 << 20, 1, 1, 1024, 1, 1, 0, NULL, NULL));
	ASK("cooperative_null", cuLaunchCooperativeKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
	ASK("cooperative_grid_0", cuLaunchCooperativeKernel((CUfunction)nothing, 0, 1, 1, 32, 1, 1, 0, NULL, NULL));
	memset(&config, 0, sizeof config);
	memset(&attribute, 0, sizeof attribute);
	config.gridDimX = 1 << 20, config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = 1024, config.blockDimY = config.blockDimZ = 1;
	config.attrs = &attribute, config.numAttrs = 1;
	attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attribute.value.cooperative = 1;
	ASK("cooperative_attribute_too_large", cuLaunchKernelEx(&config, (CUfunction)nothing, NULL, NULL));
	config.gridDimX = 2;
	ASK("cooperative_attribute", cuLaunchKernelEx(&config, (CUfunction)nothing, NULL, NULL));
	ASK("cooperative_synchronize", cuCtxSynchronize());
}

/* What a kernel that fails leaves behind: each in a process of its own. */
static void ask_fault(const char *kind, const char *kernel, void *argument)
{
	CUkernel failing = NULL;
	CUstream before = NULL, after = NULL;
	CUdeviceptr memory = 0;
	void *params[] = {argument};

	NEED(cuLibraryGetKernel(&failing, library, kernel));
	NEED(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
	ASK(ask_name("%s_launch", kind),
	    cuLaunchKernel((CUfunction)failing, 1, 1, 1, 1, 1, 1, 0, NULL, argument ? params : NULL, NULL));
	ASK(ask_name("%s_synchronize", kind), cuCtxSynchronize());
	ASK(ask_name("%s_synchronize_again", kind), cuCtxSynchronize());
	ASK(ask_name("%s_other_stream", kind), cuStreamSynchronize(before));
	ASK(ask_name("%s_allocate", kind), cuMemAlloc(&memory, 64));
	ASK(ask_name("%s_new_stream", kind), cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
	ASK(ask_name("%s_launch_again", kind),
	    cuLaunchKernel((CUfunction)nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

ALONE(fault_address)
{
	CUdeviceptr wrong = 16;

	load();
	ask_context();
	ask_fault("address", "store_at", &wrong);
}

ALONE(fault_misaligned)
{
	CUdeviceptr memory = 0;

	load();
	ask_context();
	NEED(cuMemAlloc(&memory, 64));
	memory += 2;
	ask_fault("misaligned", "store_at", &memory);
}

ALONE(fault_shared)
{
	unsigned int wrong = 1 << 24;

	load();
	ask_context();
	ask_fault("shared", "store_shared_at", &wrong);
}

ALONE(fault_trap)
{
	load();
	ask_context();
	ask_fault("trap", "trap_it", NULL);
}
