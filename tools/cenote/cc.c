/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: from sources to objects and programs (cc.h).
 */
#include "cc.h"
#include "command.h"

#include <cenote/cenote.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARCHITECTURE_OF_PTX_78 = 89 };

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* What a source becomes where no name is given: in the current folder, as with gcc. */
static const char *default_output(const char *source, const char *ending)
{
	const char *base = strrchr(source, '/'), *dot;

	base = base ? base + 1 : source;
	dot = strrchr(base, '.');
	return words_format("%.*s.%s", dot && dot > base ? (int)(dot - base) : (int)strlen(base), base, ending);
}

static const char *output_of(const struct cc_request *request, const char *source, const char *ending)
{
	return request->output ? request->output : default_output(source, ending);
}

/* ---- Words of a step --------------------------------------------------------------------------------------------- */

/* "-std=…" for a language: an option that is meant for the other one is left out. */
static void add_standard(const struct cc_request *request, struct words *command, enum cc_language language)
{
	bool is_cxx = request->standard && strstr(request->standard, "++") != NULL;

	if (request->standard && is_cxx == (language != CC_C))
		words_add(command, words_format("-std=%s", request->standard));
	else if (language == CC_CUDA)
		words_add(command, "-std=gnu++17"); /* nvcc's; some versions of clang have an older one */
}

/* What all steps that compile begin with. */
static void begin(const struct cc_request *request, const struct cc_clang *clang, struct words *command,
		  enum cc_language language)
{
	static const char *const cuda[] = {
		/* Ours are the headers and there is no device library: nothing of a toolkit's, even where one is. */
		"-nocudainc", "-nocudalib", "--cuda-path=/nonexistent",
		/* Else clang would emit the launches of CUDA 8. */
		"-Xclang", "-target-sdk-version=11.5",
		/* As nvcc has them. */
		"-D__CUDACC__", "-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", "-D__CUDACC_VER_BUILD__=0"};

	words_add(command, clang->path);
	words_add(command, "-Qunused-arguments");
	for (size_t i = 0; language == CC_CUDA && i < sizeof cuda / sizeof cuda[0]; i++)
		words_add(command, cuda[i]);
	if (language == CC_CUDA)
		words_add(command, words_format("--cuda-gpu-arch=sm_%u", request->architecture));
	add_standard(request, command, language);
	words_add_all(command, &request->both);
	words_add(command, "-isystem");
	words_add(command, clang->headers);
	if (language == CC_CUDA) {
		words_add(command, "-include");
		words_add(command, "cuda_runtime.h");
	}
}

static void end(struct words *command, enum cc_language language, const char *source, const char *output)
{
	static const char *const names[] = {[CC_CUDA] = "cuda", [CC_CXX] = "c++", [CC_C] = "c"};

	words_add(command, "-x");
	words_add(command, names[language]);
	words_add(command, source);
	if (output) {
		words_add(command, "-o");
		words_add(command, output);
	}
}

/* ---- The device's part ------------------------------------------------------------------------------------------- */

static int make_ptx(const struct cc_request *request, const struct cc_clang *clang, const char *source, const char *ptx)
{
	struct words command = {0};

	begin(request, clang, &command, CC_CUDA);
	words_add(&command, "--cuda-device-only");
	words_add(&command, "-S");
	words_add(&command, "-Xclang");
	words_add(&command, "-target-feature");
	words_add(&command, "-Xclang");
	words_add(&command, request->architecture < ARCHITECTURE_OF_PTX_78 ? "+ptx75" : "+ptx78");
	if (request->has_device_debug)
		words_add(&command, "-O0");
	else if (!request->has_optimization)
		words_add(&command, "-O3");
	if (request->has_lines)
		words_add(&command, "-gline-directives-only");
	/* The host's part does not get it: it registers its file by itself (src/runtime/runtime_linked.h). */
	if (request->is_separate)
		words_add(&command, "-fgpu-rdc");
	words_add_all(&command, &request->device);
	end(&command, CC_CUDA, source, ptx);
	int status = cc_step(request, &command);
	free(command.at);
	return status;
}

static int make_fatbin(const struct cc_request *request, const struct cc_clang *clang, const char *source,
		       const char *fatbin)
{
	const char *ptx = cc_temporary(source, "ptx");
	int status = ptx ? make_ptx(request, clang, source, ptx) : EXIT_FAILURE;

	if (status)
		return status;
	if (request->is_dry || request->is_verbose)
		fprintf(stderr, "# a fat binary around %s: %s\n", ptx, fatbin);
	return request->is_dry || cc_write_fatbin(request, source, ptx, fatbin) ? 0 : EXIT_FAILURE;
}

/* ---- The host's part --------------------------------------------------------------------------------------------- */

/* Where -MD writes to and what it calls the object, if that is a temporary file. */
static void add_dependencies(const struct cc_request *request, struct words *command, const char *source)
{
	words_add_all(command, &request->dependencies);
	if (!request->writes_dependencies || request->goal != CC_LINK)
		return;
	if (!request->has_dependency_file) {
		words_add(command, "-MF");
		words_add(command, default_output(source, "d"));
	}
	if (!request->has_dependency_target) {
		words_add(command, "-MT");
		words_add(command, default_output(source, "o"));
	}
}

/* An object, assembly, preprocessed text or dependencies; NULL: to standard output. */
static int compile(const struct cc_request *request, const struct cc_clang *clang, const struct cc_input *input,
		   const char *output)
{
	static const char *const goals[] = {
		[CC_LINK] = "-c", [CC_OBJECT] = "-c", [CC_ASSEMBLY] = "-S", [CC_PREPROCESS] = "-E"};
	bool has_code = request->goal == CC_LINK || request->goal == CC_OBJECT || request->goal == CC_ASSEMBLY;
	struct words command = {0};
	int status = 0;

	begin(request, clang, &command, input->language);
	if (input->language == CC_CUDA)
		words_add(&command, "--cuda-host-only");
	if (input->language == CC_CUDA && has_code) {
		const char *fatbin = cc_temporary(input->word, "fatbin");
		status = fatbin ? make_fatbin(request, clang, input->word, fatbin) : EXIT_FAILURE;
		words_add(&command, "-Xclang");
		words_add(&command, "-fcuda-include-gpubinary");
		words_add(&command, "-Xclang");
		words_add(&command, fatbin);
	}
	if (request->goal != CC_DEPENDENCIES)
		words_add(&command, goals[request->goal]);
	words_add_all(&command, &request->host);
	add_dependencies(request, &command, input->word);
	end(&command, input->language, input->word, output);
	if (!status)
		status = cc_step(request, &command);
	free(command.at);
	return status;
}

/* One source, to what the goal says. */
static int translate(const struct cc_request *request, const struct cc_clang *clang, const struct cc_input *input)
{
	switch (request->goal) {
	case CC_PTX: return make_ptx(request, clang, input->word, output_of(request, input->word, "ptx"));
	case CC_FATBIN: return make_fatbin(request, clang, input->word, output_of(request, input->word, "fatbin"));
	case CC_ASSEMBLY: return compile(request, clang, input, output_of(request, input->word, "s"));
	case CC_PREPROCESS:
	case CC_DEPENDENCIES: return compile(request, clang, input, request->output);
	case CC_OBJECT:
	case CC_LINK: break;
	}
	return compile(request, clang, input, output_of(request, input->word, "o"));
}

/* ---- The link ---------------------------------------------------------------------------------------------------- */

static int link_program(const struct cc_request *request, const struct cc_clang *clang, const struct words *inputs)
{
	struct words command = {0};

	words_add(&command, clang->path);
	words_add(&command, "--driver-mode=g++");
	words_add(&command, "-Qunused-arguments");
	words_add_all(&command, &request->link);
	words_add(&command, "-o");
	words_add(&command, request->output ? request->output : "a.out");
	words_add_all(&command, inputs);
	if (!request->is_without_runtime) {
		words_add(&command, words_format("%s/libcudart.so.13", clang->dropins));
		words_add(&command, words_format("%s/libcenote.so.1", clang->libraries));
		words_add(&command, "-Wl,--as-needed");
		words_add(&command, words_format("%s/libcenote-driver.so.1", clang->libraries));
		words_add(&command, "-Wl,--no-as-needed");
		words_add(&command, words_format("-Wl,-rpath,%s", clang->dropins));
		words_add(&command, words_format("-Wl,-rpath,%s", clang->libraries));
	}
	int status = cc_step(request, &command);
	free(command.at);
	return status;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

/* Each source to an object, and all of them to a program. */
static int build_program(const struct cc_request *request, const struct cc_clang *clang)
{
	struct words inputs = {0};
	int status = 0;

	for (size_t i = 0; i < request->input_count && !status; i++) {
		const struct cc_input *input = &request->inputs[i];
		const char *word = input->word;
		if (input->language != CC_NOT_COMPILED) {
			word = cc_temporary(input->word, "o");
			status = word ? compile(request, clang, input, word) : EXIT_FAILURE;
		}
		words_add(&inputs, word);
	}
	if (!status)
		status = link_program(request, clang, &inputs);
	free(inputs.at);
	return status;
}

/* Each source to a file of its own. */
static int translate_all(const struct cc_request *request, const struct cc_clang *clang)
{
	int status = 0;

	for (size_t i = 0; i < request->input_count && !status; i++)
		if (request->inputs[i].language != CC_NOT_COMPILED)
			status = translate(request, clang, &request->inputs[i]);
	return status;
}

/* Is there something to do, and one place for it? 0, or EXIT_USAGE after a sentence. */
static int check(const struct cc_request *request)
{
	bool for_device = request->goal == CC_PTX || request->goal == CC_FATBIN;
	size_t source_count = 0;

	for (size_t i = 0; i < request->input_count; i++) {
		const struct cc_input *input = &request->inputs[i];
		source_count += input->language != CC_NOT_COMPILED;
		if (for_device && input->language != CC_CUDA)
			return usage_error("cc", "'%s' is not a CUDA file: --ptx and --fatbin take those (-x cu)",
					   input->word);
	}
	if (request->goal != CC_LINK && !source_count)
		return usage_error("cc", "no file to compile: '%s' is none by its name (-x cu says that it is)",
				   request->inputs[0].word);
	if (request->goal != CC_LINK && request->output && source_count > 1)
		return usage_error("cc", "-o takes one file, and there are %zu to compile", source_count);
	return 0;
}

static int run(int argument_count, char **arguments)
{
	struct cc_request request = {.goal = CC_LINK};
	struct cc_clang clang;
	int status = cc_read_options(&request, argument_count, arguments);

	if (!status && !request.wants_version)
		status = check(&request);
	if (status)
		return status;
	if (!cc_find_clang(&clang))
		return EXIT_FAILURE;
	if (request.wants_version) {
		printf("cenote cc %d.%d.%d, with %s\n", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR,
		       CENOTE_VERSION_PATCH, clang.name);
		return EXIT_SUCCESS;
	}
	request.architecture = cc_choose_architecture(&clang, request.architecture);
	if (!request.architecture)
		return EXIT_FAILURE;
	status = request.goal == CC_LINK ? build_program(&request, &clang) : translate_all(&request, &clang);
	cc_clean_up();
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_cc = {
	.name = "cc",
	.summary = "compile CUDA C++ with clang, without NVIDIA's software",
	.help = "Usage: cenote cc [OPTION...] FILE...\n"
		"\n"
		"Compiles CUDA C++ (.cu) with clang and Cenote's headers, and links it with Cenote's libraries. The\n"
		"program runs by itself, on the host device or on a GPU. C and C++ files are compiled, objects and\n"
		"libraries are linked, as gcc does. Needs clang 14 or newer (package clang), and no CUDA toolkit.\n"
		"The options are those of gcc and nvcc; cenote-cc(1) has all of them.\n"
		"\n"
		"Options:\n"
		"  -o FILE, -c, -S, -E         where to, and how far\n"
		"  --ptx, --fatbin             stop at the kernels' PTX, or at the fat binary around it\n"
		"  -O LEVEL, -g, -lineinfo, -G kernels have -O3 if nothing is said; -g names lines in errors\n"
		"  -I, -isystem, -D, -U, -include, -std, -W, -f, -m, -M, -x cu\n"
		"  -L, -l, -Wl, -shared, -pthread\n"
		"  -arch=sm_NN, -gencode ARCH  the lowest that is named serves for all; sm_75 if none is\n"
		"  -rdc=true, -dc              device code of several files that use each other's\n"
		"  -Xcompiler LIST, -Xlinker LIST\n"
		"  -use_fast_math, -ftz=FLAG, -fmad=FLAG\n"
		"  --dry-run, -v               print the commands; do not run them, or run them\n"
		"  --version                   print the version, and which clang is used\n"
		"\n"
		"Environment:\n"
		"  CENOTE_CLANG=PROGRAM        the clang to use; else clang, clang-22 down to clang-14\n"
		"\n"
		"Exit status: 0; 1 if something does not compile; 2 for wrong usage.\n"
		"\n"
		"Example: cenote cc -O2 app.cu -o app && ./app\n",
	.run = run,
};
