/* SPDX-License-Identifier: MIT */
/*
 * Chapter "runtime_code": libraries, kernels and variables of the runtime. What a compiler registers is asked in
 * tests/processes/registered_test.c: these programs are made by a C compiler.
 */
#include "ask.h"

CHAPTER(runtime_code);

static const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			   ".visible .global .align 4 .u32 word[4] = {1, 2, 3, 4};\n"
			   ".visible .global .attribute(.managed) .align 4 .u32 shared_word = 5;\n"
			   ".visible .entry nothing() { ret; }\n"
			   ".visible .entry count() { .reg .u32 %r<2>; atom.global.add.u32 %r1, [word], 1; ret; }\n";

static char no_variable[8];

static void no_kernel(void)
{
}

GROUP(symbols)
{
	void *address = UNTOUCHED(void *);
	char bytes[8] = {0};
	size_t size = UNTOUCHED_INT;

	NEED(cudaFree(NULL));
	ASK_VALUE("address", cudaGetSymbolAddress(&address, no_variable), "%s", OUT(address));
	ASK("address_null_output", cudaGetSymbolAddress(NULL, no_variable));
	ASK_VALUE("address_null", cudaGetSymbolAddress(&address, NULL), "%s", OUT(address));
	ASK("address_last_error", cudaGetLastError());
	ASK_VALUE("size", cudaGetSymbolSize(&size, no_variable), "%zu", size);
	ASK("size_null_output", cudaGetSymbolSize(NULL, no_variable));
	ASK("size_null", cudaGetSymbolSize(&size, NULL));
	ASK("to", cudaMemcpyToSymbol(no_variable, bytes, 4, 0, cudaMemcpyHostToDevice));
	ASK("to_null", cudaMemcpyToSymbol(NULL, bytes, 4, 0, cudaMemcpyHostToDevice));
	ASK("to_nothing", cudaMemcpyToSymbol(no_variable, bytes, 0, 0, cudaMemcpyHostToDevice));
	ASK("to_direction", cudaMemcpyToSymbol(no_variable, bytes, 4, 0, cudaMemcpyDeviceToHost));
	ASK("to_async", cudaMemcpyToSymbolAsync(no_variable, bytes, 4, 0, cudaMemcpyHostToDevice, NULL));
	ASK("from", cudaMemcpyFromSymbol(bytes, no_variable, 4, 0, cudaMemcpyDeviceToHost));
	ASK("from_direction", cudaMemcpyFromSymbol(bytes, no_variable, 4, 0, cudaMemcpyHostToDevice));
	ASK("from_async", cudaMemcpyFromSymbolAsync(bytes, no_variable, 4, 0, cudaMemcpyDeviceToHost, NULL));
}

GROUP(handles)
{
	cudaKernel_t kernel = UNTOUCHED(cudaKernel_t);
	cudaFunction_t function = UNTOUCHED(cudaFunction_t);
	dim3 one = {1, 1, 1};

	NEED(cudaFree(NULL));
	ASK_VALUE("kernel_null", cudaGetKernel(&kernel, NULL), "%s", OUT(kernel));
	ASK("kernel_null_output", cudaGetKernel(NULL, (const void *)no_kernel));
	ASK_VALUE("kernel_no_kernel", cudaGetKernel(&kernel, (const void *)no_kernel), "%s", OUT(kernel));
	ASK_VALUE("function_null", cudaGetFuncBySymbol(&function, NULL), "%s", OUT(function));
	ASK("function_null_output", cudaGetFuncBySymbol(NULL, (const void *)no_kernel));
	ASK_VALUE("function_no_kernel", cudaGetFuncBySymbol(&function, (const void *)no_kernel), "%s", OUT(function));
	ASK("cooperative_null", cudaLaunchCooperativeKernel(NULL, one, one, NULL, 0, NULL));
	ASK("cooperative_no_kernel", cudaLaunchCooperativeKernel((const void *)no_kernel, one, one, NULL, 0, NULL));
	ASK("kernel_attribute_null",
	    cudaKernelSetAttributeForDevice(NULL, cudaFuncAttributeMaxDynamicSharedMemorySize, 0, 0));
}

GROUP(libraries)
{
	cudaKernel_t kernel = UNTOUCHED(cudaKernel_t), kernels[3] = {UNTOUCHED(cudaKernel_t)};
	cudaLibrary_t library = UNTOUCHED(cudaLibrary_t);
	unsigned int count = UNTOUCHED_INT;

	ASK_VALUE("load_null", cudaLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), "%s", OUT(library));
	ASK("load_null_output", cudaLibraryLoadData(NULL, text, NULL, NULL, 0, NULL, NULL, 0));
	ASK("load_file_null", cudaLibraryLoadFromFile(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
	ASK("load_file_absent", cudaLibraryLoadFromFile(&library, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
	ASK_VALUE("load", cudaLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0), "%s", OUT(library));
	ASK_VALUE("count", cudaLibraryGetKernelCount(&count, library), "%u", count);
	ASK("count_null_output", cudaLibraryGetKernelCount(NULL, library));
	ASK("count_null", cudaLibraryGetKernelCount(&count, NULL));
	ASK("enumerate", cudaLibraryEnumerateKernels(kernels, 3, library));
	ASK("enumerate_0", cudaLibraryEnumerateKernels(kernels, 0, library));
	ASK("enumerate_null_output", cudaLibraryEnumerateKernels(NULL, 3, library));
	ASK_VALUE("kernel", cudaLibraryGetKernel(&kernel, library, "nothing"), "%s", OUT(kernel));
	ASK("kernel_absent", cudaLibraryGetKernel(&kernel, library, "absent"));
	ASK("kernel_null_name", cudaLibraryGetKernel(&kernel, library, NULL));
	ASK("library_kernel_null_output", cudaLibraryGetKernel(NULL, library, "nothing"));
	ASK("kernel_null_library", cudaLibraryGetKernel(&kernel, NULL, "nothing"));
	ASK("attribute", cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
	ASK("attribute_device_99",
	    cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 99));
	ASK("attribute_99", cudaKernelSetAttributeForDevice(kernel, (enum cudaFuncAttribute)99, 0, 0));
	ASK("unload_null", cudaLibraryUnload(NULL));
	ASK("unload", cudaLibraryUnload(library));
	ASK("last_error", cudaGetLastError());
}

GROUP(library_variables)
{
	cudaLibrary_t library = NULL;
	cudaKernel_t kernel = NULL;
	void *address = UNTOUCHED(void *);
	size_t bytes = UNTOUCHED_INT;
	unsigned int word = 0;
	dim3 one = {1, 1, 1};

	NEED(cudaLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cudaLibraryGetKernel(&kernel, library, "count"));
	ASK("launch", cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
	ASK_VALUE("global", cudaLibraryGetGlobal(&address, &bytes, library, "word"), "%s, %zu bytes", OUT(address),
		  bytes);
	ASK_VALUE("global_read", cudaMemcpy(&word, address, sizeof word, cudaMemcpyDeviceToHost), "%u", word);
	ASK("global_without_bytes", cudaLibraryGetGlobal(&address, NULL, library, "word"));
	ASK("global_without_address", cudaLibraryGetGlobal(NULL, &bytes, library, "word"));
	ASK("global_absent", cudaLibraryGetGlobal(&address, &bytes, library, "absent"));
	ASK("global_null_name", cudaLibraryGetGlobal(&address, &bytes, library, NULL));
	ASK("global_null_library", cudaLibraryGetGlobal(&address, &bytes, NULL, "word"));
	ASK_VALUE("managed", cudaLibraryGetManaged(&address, &bytes, library, "shared_word"), "%s, %zu bytes",
		  OUT(address), bytes);
	ASK("managed_plain", cudaLibraryGetManaged(&address, &bytes, library, "word"));
	ASK("managed_absent", cudaLibraryGetManaged(&address, &bytes, library, "absent"));
	NEED(cudaDeviceSynchronize());
	NEED(cudaLibraryUnload(library));
}
