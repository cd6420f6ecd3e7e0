/* SPDX-License-Identifier: MIT */
/*
 * What nodes_link_test.py runs on a node: copies 1 MiB from another node's memory again and again, prints a line for
 * each, and says how it failed. Its argument is the handle, as examples/two_hosts.c prints it.
 */
#include "cenote/cenote.h"

#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 2 << 20, COPY = 1 << 20 };

static void check(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, cenote_last_error());
	exit(1);
}

int main(int argument_count, char **arguments)
{
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	static unsigned char bytes[COPY];
	CUmemGenericAllocationHandle memory;
	CUmemFabricHandle name;
	CUdeviceptr address;
	CUcontext context;
	CUresult result;

	for (size_t i = 0; argument_count == 2 && i < sizeof name.data; i++)
		if (sscanf(arguments[1] + 2 * i, "%2hhx", &name.data[i]) != 1)
			return 2;
	check(cuInit(0), "cuInit");
	check(cuDevicePrimaryCtxRetain(&context, 0), "a context");
	check(cuCtxSetCurrent(context), "a context");
	check(cuMemImportFromShareableHandle(&memory, &name, CU_MEM_HANDLE_TYPE_FABRIC), "import");
	check(cuMemAddressReserve(&address, BYTES, 0, 0, 0), "addresses");
	check(cuMemMap(address, BYTES, 0, memory, 0), "map");
	check(cuMemSetAccess(address, BYTES, &access, 1), "access");
	while (!(result = cuMemcpyDtoH(bytes, address, COPY))) {
		puts("copied");
		fflush(stdout);
	}
	const char *text = "";
	cuGetErrorName(result, &text);
	printf("failed: %s\n", text);
	return 0;
}
