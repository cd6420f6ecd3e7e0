/* SPDX-License-Identifier: MIT */
/*
 * Kernels without an order: what they do with memory is known from their code, or from what they declare.
 */
#include "programs.h"

#include <cenote/cuda_runtime_api.h>

#include <string.h>

/* ---- C ---- */

static void increment(const cenote_thread *at, void **arguments)
{
	unsigned char *bytes = *(unsigned char **)arguments[0];

	bytes[at->blockIdx.x * at->blockDim.x + at->threadIdx.x]++;
}
CENOTE_KERNEL(increment, unsigned char *);

static void declared(const cenote_thread *at, void **arguments)
{
	unsigned int i = at->blockIdx.x * at->blockDim.x + at->threadIdx.x;
	unsigned char *to = *(unsigned char **)arguments[0];

	to[i] = (*(const unsigned char **)arguments[1])[i];
}
CENOTE_KERNEL(declared, unsigned char *, const unsigned char *);
CENOTE_KERNEL_USES(declared, CENOTE_WRITES, CENOTE_READS);

static void launch_c(const void *kernel, CUdeviceptr to, CUdeviceptr from)
{
	const dim3 one = {1, 1, 1}, threads = {64, 1, 1};
	void *arguments[] = {&to, &from};

	must(cudaLaunchKernel(kernel, one, threads, arguments, 0, me.stream) == cudaSuccess, "launch");
}

static CUdeviceptr own_memory(void)
{
	CUdeviceptr memory;

	MUST(cuMemAlloc(&memory, BYTES));
	return memory;
}

/* A kernel that may write, and a fill that it does not wait for. */
static void kernel_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	be_told_of(it.event, !me.bad);
	launch_c((const void *)increment, it.block, 0);
	let_go(it.block);
}

/* The owner reads, and the other may read, too, but not write. Without the declaration neither would be told of. */
static void declared_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	fill(it.block, me.stream);
	finish(me.stream);
	send_block(0, it.block);
	read_back(it.block, me.stream);
	record_and_free(&it);
}

static void declared_second(void)
{
	struct shared it = begin_opener(AN_EVENT);
	CUdeviceptr own = own_memory();

	be_told(0);
	launch_c((const void *)declared, own, it.block);
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, it.event, 0));
	launch_c((const void *)declared, it.block, own);
	finish(me.stream);
	MUST(cuMemFree(own));
	let_go(it.block);
}

/* ---- PTX ---- */

#define PTX_TEXT(name, parameters, body) \
	".version 7.0\n"                 \
	".target sm_70\n"                \
	".address_size 64\n"             \
	".visible .entry " name "(" parameters ")\n{\n" body "	ret;\n}\n"

/* Writes a byte a thread. */
static const char writer[] = PTX_TEXT("writer", ".param .u64 bytes",
				      "	.reg .u64 %rd<4>;\n"
				      "	.reg .u32 %r<2>;\n"
				      "	ld.param.u64 %rd1, [bytes];\n"
				      "	cvta.to.global.u64 %rd2, %rd1;\n"
				      "	mov.u32 %r1, %tid.x;\n"
				      "	cvt.u64.u32 %rd3, %r1;\n"
				      "	add.u64 %rd2, %rd2, %rd3;\n"
				      "	st.global.u8 [%rd2], %r1;\n");

/* Waits until a word is not 0, as kernels of two processes do that hand something over while they run. */
static const char waiter[] = PTX_TEXT("waiter", ".param .u64 word, .param .u64 bytes, .param .u64 to",
				      "	.reg .pred %p;\n"
				      "	.reg .u64 %rd<4>;\n"
				      "	.reg .u32 %r<3>;\n"
				      "	ld.param.u64 %rd1, [word];\n"
				      "	ld.param.u64 %rd2, [bytes];\n"
				      "	ld.param.u64 %rd3, [to];\n"
				      "again:\n"
				      "	ld.acquire.sys.u32 %r1, [%rd1];\n"
				      "	setp.eq.u32 %p, %r1, 0;\n"
				      "	@%p bra again;\n"
				      "	ld.u32 %r2, [%rd2];\n"
				      "	st.u32 [%rd3], %r2;\n");

/* Does not. */
static const char reader[] = PTX_TEXT("reader", ".param .u64 word, .param .u64 bytes, .param .u64 to",
				      "	.reg .u64 %rd<4>;\n"
				      "	.reg .u32 %r<2>;\n"
				      "	ld.param.u64 %rd2, [bytes];\n"
				      "	ld.param.u64 %rd3, [to];\n"
				      "	ld.u32 %r1, [%rd2];\n"
				      "	st.u32 [%rd3], %r1;\n");

static CUfunction load(const void *image, const char *name)
{
	CUfunction function;
	CUmodule module;

	MUST(cuModuleLoadData(&module, image));
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

static void launch(CUfunction function, unsigned int threads, void **arguments)
{
	MUST(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, me.stream, arguments, NULL));
}

/* A writer, and a copy that does not wait for it. */
static void write_first(CUfunction function, struct shared it)
{
	void *arguments[] = {&it.block};

	send_block(0, it.block);
	launch(function, 64, arguments);
	record_and_free(&it);
}

static void ptx_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	write_first(load(writer, "writer"), it);
}

/* The same, in a fat binary as compilers make them: PTX that is not compressed. */
static void fat_binary_first(void)
{
	struct {
		struct {
			unsigned int magic;
			unsigned short version, header_bytes;
			unsigned long long bytes;
		} header;
		struct {
			unsigned short kind, version;
			unsigned int header_bytes;
			unsigned long long bytes;
			unsigned int compressed_bytes, options_at;
			unsigned short minor, major;
			unsigned int architecture, name_at, name_bytes;
			unsigned long long flags, reserved, uncompressed_bytes;
			unsigned int words_at, words_bytes, words[2]; /* options: none */
		} entry;
		char text[(sizeof writer + 7) / 8 * 8];
	} image = {{0xBA55ED50, 1, sizeof image.header, sizeof image.entry + sizeof image.text},
		   {1, 0x101, sizeof image.entry, sizeof image.text, 0, 64, 0, 7, 70, 0, 0, 0x11, 0, 0, 72, 0, {0}},
		   {0}};
	CUlibrary library;
	CUkernel kernel;
	struct shared it = begin_owner(AN_EVENT);

	memcpy(image.text, writer, sizeof writer);
	MUST(cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
	MUST(cuLibraryGetKernel(&kernel, library, "writer"));
	write_first((CUfunction)kernel, it); /* as NVIDIA's runtime does */
}

/* A kernel that waits for a word before it reads what the other fills; the bad one reads without it. */
static void flag_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	send_block(0, it.block);
	CUdeviceptr word = send_words(0);
	fill(it.block, me.stream);
	MUST(cuMemsetD32Async(word, 1, 1, me.stream));
	record_and_free(&it);
}

static void flag_second(void)
{
	struct shared it = begin_opener(AN_EVENT);
	CUdeviceptr word = receive_words(), own = own_memory();
	CUfunction function = me.bad ? load(reader, "reader") : load(waiter, "waiter");
	void *arguments[] = {&word, &it.block, &own};

	be_told(0);
	launch(function, 1, arguments);
	finish(me.stream);
	MUST(cuMemFree(own));
	let_go(it.block);
}

/* ---- Two kernels on one block, each on a part of it: --exact sees whether the parts meet ---- */

static void part_second(void)
{
	struct shared it = begin_opener(AN_EVENT);
	CUdeviceptr part = it.block + (me.bad ? 32 : BYTES / 2); /* the first one's has 64 bytes */
	void *arguments[] = {&part};

	be_told(0);
	launch(load(writer, "writer"), 64, arguments);
	let_go(it.block);
}

const struct program kernel_programs[] = {
	{"kernel", "race", {filling_owner, kernel_second}},
	{"kernel_declared", "race", {declared_first, declared_second}},
	{"kernel_in_ptx", "race", {ptx_first, hasty_reader}},
	{"kernel_in_fat_binary", "race", {fat_binary_first, hasty_reader}},
	{"kernels_on_parts", "exact", {ptx_first, part_second}},
	{"kernel_without_a_flag", "race", {flag_first, flag_second}},
	{NULL, NULL, {NULL}},
};
