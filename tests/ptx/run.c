/* SPDX-License-Identifier: MIT */
/*
 * Launches for the tests of PTX (see run.h).
 */
#include "run.h"

#include "base/guard.h"
#include "harness.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS_MAX = 256, TEXT_MAX = 1 << 20 };

static char printed[TEXT_MAX];
static size_t printed_bytes;

static void print(void *data, const char *text, size_t bytes)
{
	(void)data;
	if (bytes > sizeof printed - 1 - printed_bytes)
		bytes = sizeof printed - 1 - printed_bytes;
	memcpy(printed + printed_bytes, text, bytes);
	printed_bytes += bytes;
	printed[printed_bytes] = 0;
}

const char *run_printed(void)
{
	static char copy[TEXT_MAX];

	memcpy(copy, printed, printed_bytes + 1);
	printed_bytes = 0;
	printed[0] = 0;
	return copy;
}

static const char *body_text(const char *body)
{
	static char text[TEXT_MAX];

	snprintf(text, sizeof text,
		 ".version 8.0\n.target sm_90\n.address_size 64\n"
		 ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n"
		 "{ .reg .pred %%p<9>; .reg .b16 %%h<40>; .reg .b32 %%r<40>; .reg .f32 %%f<40>; .reg .b64 %%d<40>; "
		 ".reg .f64 %%fd<40>;\n"
		 "%s\n}\n",
		 body);
	return text;
}

struct run_module run_load(const char *text)
{
	struct run_module module;
	struct cn_ptx_error error;
	const struct cn_ptx_contents *contents;

	if (cn_ptx_calls.load(text, strlen(text), 90, &error, &module.module)) {
		printf("line %u: %s\n", error.line, error.sentence);
		ASSERT(!"the text must load");
	}
	contents = cn_ptx_calls.contents(module.module);
	for (unsigned i = 0; i < contents->kernel_count; i++)
		if (cn_ptx_calls.prepare(module.module, contents->kernels[i].index, &error)) {
			printf("line %u: %s\n", error.line, error.sentence);
			ASSERT(!"its kernels can be prepared");
		}
	module.data = aligned_alloc(4096, (contents->data_bytes + 4096) & ~(size_t)4095);
	ASSERT(module.data);
	cn_ptx_calls.place(module.module, module.data, module.data, module.data);
	return module;
}

struct run_module run_load_body(const char *body)
{
	return run_load(body_text(body));
}

void run_unload(struct run_module *module)
{
	cn_ptx_calls.unload(module->module);
	free(module->data);
}

const char *run_refusal(const char *text, unsigned *ret_line)
{
	static struct cn_ptx_error error;
	struct cn_ptx_module *module;
	enum cn_ptx_error_code code = cn_ptx_calls.load(text, strlen(text), 90, &error, &module);

	if (!code) {
		const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module);

		for (unsigned i = 0; !code && i < contents->kernel_count; i++)
			code = cn_ptx_calls.prepare(module, contents->kernels[i].index, &error);
		cn_ptx_calls.unload(module);
	}
	if (!code)
		return "";
	if (ret_line)
		*ret_line = error.line;
	return error.sentence;
}

const char *run_refusal_of_body(const char *body, unsigned *ret_line)
{
	return run_refusal(body_text(body), ret_line);
}

unsigned run_kernel_index(const struct run_module *module, const char *name)
{
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module->module);

	for (unsigned i = 0; i < contents->kernel_count; i++)
		if (!name || !strcmp(contents->kernels[i].name, name))
			return contents->kernels[i].index;
	ASSERT(!"there is such a kernel");
	return 0;
}

void *run_variable(const struct run_module *module, const char *name)
{
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module->module);

	for (unsigned i = 0; i < contents->variable_count; i++)
		if (!strcmp(contents->variables[i].name, name))
			return (char *)module->data + contents->variables[i].offset_bytes;
	ASSERT(!"there is such a variable");
	return NULL;
}

static enum cn_ptx_state take_turns(struct cn_ptx_block **blocks, unsigned count, uint64_t budget,
				    struct cn_ptx_fault *ret_fault)
{
	unsigned left = count;

	while (left) {
		left = 0;
		for (unsigned i = 0; i < count; i++) {
			enum cn_ptx_state state = cn_ptx_calls.block_run(blocks[i], budget, ret_fault);

			if (state != CN_PTX_DONE && state != CN_PTX_AGAIN)
				return state;
			left += state == CN_PTX_AGAIN;
		}
	}
	return CN_PTX_DONE;
}

enum cn_ptx_state run_launch(struct run_module *module, const struct run_launch *launch, struct cn_ptx_fault *ret_fault)
{
	struct cn_ptx_launch made = {.module = module->module,
				     .memory = module->data,
				     .managed = module->data,
				     .kernel = run_kernel_index(module, launch->kernel),
				     .dynamic_shared_bytes = launch->dynamic_shared_bytes,
				     .parameters = launch->parameters,
				     .device_blocks = 4,
				     .print = print,
				     .guard = cn_guard_run};
	struct cn_ptx_block *blocks[BLOCKS_MAX];
	struct cn_ptx_error error;
	enum cn_ptx_state state = CN_PTX_DONE;
	unsigned count, total = 1;

	for (unsigned i = 0; i < 3; i++) {
		made.grid[i] = launch->grid[i] ? launch->grid[i] : 1;
		made.block[i] = launch->block[i] ? launch->block[i] : 1;
		total *= made.grid[i];
	}
	count = total < BLOCKS_MAX ? total : BLOCKS_MAX;
	for (unsigned i = 0; i < count; i++)
		if (cn_ptx_calls.block_create(&made, &error, &blocks[i])) {
			printf("%s\n", error.sentence);
			ASSERT(!"a block can be made");
		}
	for (unsigned first = 0; first < total && state == CN_PTX_DONE; first += count) {
		unsigned now = total - first < count ? total - first : count;

		for (unsigned i = 0; i < now; i++) {
			unsigned at = first + i;
			unsigned coordinates[3] = {at % made.grid[0], at / made.grid[0] % made.grid[1],
						   at / made.grid[0] / made.grid[1]};

			cn_ptx_calls.block_begin(blocks[i], coordinates);
		}
		state = take_turns(blocks, now, launch->budget ? launch->budget : CN_PTX_BUDGET, ret_fault);
	}
	for (unsigned i = 0; i < count; i++)
		cn_ptx_calls.block_destroy(blocks[i]);
	return state;
}

void run_simply(struct run_module *module, unsigned grid, unsigned block, uint64_t p0, uint64_t p1, uint64_t p2,
		uint64_t p3)
{
	uint64_t parameters[4] = {p0, p1, p2, p3};
	struct cn_ptx_fault fault;
	enum cn_ptx_state state = run_launch(
		module, &(struct run_launch){.grid = {grid}, .block = {block}, .parameters = parameters}, &fault);

	if (state != CN_PTX_DONE)
		printf("state %d at line %u, thread %u, address 0x%llx\n", state, fault.line, fault.thread[0],
		       (unsigned long long)fault.address);
	ASSERT_EQ(CN_PTX_DONE, state);
}

/* ---- Compiling --------------------------------------------------------------------------------------------------- */

static int execute(const char *const arguments[], bool is_quiet)
{
	pid_t child = fork();
	int status;

	ASSERT(child >= 0);
	if (!child) {
		if (is_quiet)
			dup2(open("/dev/null", O_RDWR), STDERR_FILENO);
		execvp(arguments[0], (char *const *)(uintptr_t)arguments);
		_exit(127);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int compile(const char *source, const char *out, bool is_quiet)
{
	static const char prefix[] =
		"#define __global__ __attribute__((global))\n#define __device__ __attribute__((device))\n"
		"#define __shared__ __attribute__((shared))\n#define __constant__ __attribute__((constant))\n"
		"#define TX __nvvm_read_ptx_sreg_tid_x()\n#define BX __nvvm_read_ptx_sreg_ctaid_x()\n"
		"#define NX __nvvm_read_ptx_sreg_ntid_x()\n#define GX __nvvm_read_ptx_sreg_nctaid_x()\n"
		"#define SYNC __syncthreads()\n";
	const char *in = test_path("kernel.cu");
	const char *arguments[] = {"clang",
				   "-x",
				   "cuda",
				   "-nocudainc",
				   "-nocudalib",
				   "--cuda-path=/nonexistent",
				   "-Xclang",
				   "-target-sdk-version=11.5",
				   "--cuda-gpu-arch=sm_75",
				   "--cuda-device-only",
				   "-O2",
				   "-S",
				   "-o",
				   out,
				   in,
				   NULL};
	FILE *file = fopen(in, "w");

	ASSERT(file);
	fprintf(file, "%s%s", prefix, source);
	fclose(file);
	return execute(arguments, is_quiet);
}

const char *run_compile(const char *source)
{
	static char text[TEXT_MAX];
	const char *out = test_path("kernel.ptx");
	size_t length;
	FILE *file;
	int status = compile("__global__ void probe() {}\n", out, true);

	if (status == 127)
		SKIP("there is no clang");
	if (status)
		SKIP("clang does not compile for NVPTX here");
	ASSERT_EQ(0, compile(source, out, false));
	file = fopen(out, "r");
	ASSERT(file);
	length = fread(text, 1, sizeof text - 1, file);
	text[length] = 0;
	fclose(file);
	return text;
}
