/* SPDX-License-Identifier: MIT */
/*
 * Memory of another machine: one program exports it, a second one on another node reads and writes it.
 *
 *	on node 1:  two_hosts              prints 128 digits, and waits
 *	on node 2:  two_hosts DIGITS       takes them
 *
 * Both nodes run cenote-imexd and have an IMEX channel: docs/machines.md. Between machines there are no pages to share,
 * so the importer uses its pointer in copies, fills and values, and gives it to no kernel.
 */
#include <cenote.h> /* cenote_last_error(); brings cuda.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) ((call) ? (fprintf(stderr, "%s: %s\n", #call, cenote_last_error()), exit(1)) : (void)0)

enum { BYTES = 2 << 20, WORD = BYTES - 4, TEXT = 64 };

static CUdeviceptr map(CUmemGenericAllocationHandle memory)
{
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, BYTES, 0, 0, 0));
	CHECK(cuMemMap(address, BYTES, 0, memory, 0));
	CHECK(cuMemSetAccess(address, BYTES, &access, 1));
	return address;
}

static CUmemGenericAllocationHandle export_memory(CUmemFabricHandle *ret_name)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle memory;

	CHECK(cuMemCreate(&memory, BYTES, &properties, 0));
	CHECK(cuMemExportToShareableHandle(ret_name, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	return memory;
}

static CUmemGenericAllocationHandle import_memory(const char *digits)
{
	CUmemGenericAllocationHandle memory;
	CUmemFabricHandle name;

	for (size_t i = 0; i < sizeof name.data; i++) {
		char pair[3] = {digits[2 * i], digits[2 * i] ? digits[2 * i + 1] : '\0', '\0'}, *end;
		name.data[i] = (unsigned char)strtoul(pair, &end, 16);
		if (end != pair + 2) {
			fprintf(stderr, "these are not the digits of a handle\n");
			exit(1);
		}
	}
	CHECK(cuMemImportFromShareableHandle(&memory, &name, CU_MEM_HANDLE_TYPE_FABRIC));
	return memory;
}

int main(int argument_count, char **arguments)
{
	CUmemGenericAllocationHandle memory;
	CUmemFabricHandle name;
	char text[TEXT] = "greetings from the exporter";
	CUcontext context;
	CUstream stream;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (argument_count == 1) {
		memory = export_memory(&name);
		CUdeviceptr address = map(memory);
		CHECK(cuMemcpyHtoD(address, text, sizeof text));
		for (size_t i = 0; i < sizeof name.data; i++)
			printf("%02x", name.data[i]);
		printf("\n");
		fflush(stdout);
		CHECK(cuStreamWaitValue32(stream, address + WORD, 1,
					  CU_STREAM_WAIT_VALUE_EQ)); /* the importer's word */
		CHECK(cuMemcpyDtoHAsync(text, address, sizeof text, stream));
		CHECK(cuStreamSynchronize(stream));
		printf("the exporter reads: %s\n", text);
		CHECK(cuMemUnmap(address, BYTES));
	} else {
		memory = import_memory(arguments[1]);
		CUdeviceptr address = map(memory);
		CHECK(cuMemcpyDtoH(text, address, sizeof text));
		printf("the importer reads: %s\n", text);
		strcpy(text, "thanks from the importer");
		CHECK(cuMemcpyHtoDAsync(address, text, sizeof text, stream));
		CHECK(cuStreamWriteValue32(stream, address + WORD, 1, 0)); /* when the bytes are there */
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuMemUnmap(address, BYTES));
	}
	CHECK(cuMemRelease(memory));
	return 0;
}
