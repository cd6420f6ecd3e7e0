/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: the options of gcc and of nvcc, as words for clang.
 *
 * A row of the table names an option, how its value is written, and what takes it. The first row that fits counts, so
 * a general one ("-f…") stands behind the particular ones. nvcc writes its long options with one dash or two, and a
 * value behind "=" or in a word of its own: a row "--arch" is for all four.
 */
#include "cc.h"
#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form {
	ALONE,
	VALUE,  /* "--name VALUE", "--name=VALUE" */
	JOINED, /* "-nVALUE", "-n VALUE" */
	PREFIX, /* "-name…": the whole word is the value */
};

struct option {
	const char *names; /* with spaces between */
	enum form form;
	/* 0, or EXIT_USAGE after a sentence. */
	int (*take)(struct cc_request *request, const struct option *option, const char *value);
	const char *text; /* for take() */
};

/* ---- Words for clang --------------------------------------------------------------------------------------------- */

/* `text` if there is one, and the value if there is one: in one word if text ends with "=" or is a letter. */
static void add(struct words *words, const struct option *option, const char *value)
{
	size_t bytes = option->text ? strlen(option->text) : 0;

	if (!bytes || !value) {
		words_add(words, bytes ? option->text : value);
		return;
	}
	if (bytes == 2 || option->text[bytes - 1] == '=') {
		words_add(words, words_format("%s%s", option->text, value));
		return;
	}
	words_add(words, option->text);
	words_add(words, value);
}

static int to_both(struct cc_request *request, const struct option *option, const char *value)
{
	add(&request->both, option, value);
	return 0;
}

static int to_host(struct cc_request *request, const struct option *option, const char *value)
{
	add(&request->host, option, value);
	return 0;
}

static int to_link(struct cc_request *request, const struct option *option, const char *value)
{
	add(&request->link, option, value);
	return 0;
}

static int to_host_and_link(struct cc_request *request, const struct option *option, const char *value)
{
	add(&request->host, option, value);
	add(&request->link, option, value);
	return 0;
}

/* A list with commas between: -Xcompiler, for the host's compiler and its linker. */
static int take_compiler_list(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	for (size_t bytes; *value; value += bytes + (value[bytes] == ',')) {
		bytes = strcspn(value, ",");
		/* What the linker is to be told has commas of its own. */
		if (strncmp(value, "-Wl,", 4) == 0)
			bytes = strlen(value);
		const char *word = words_format("%.*s", (int)bytes, value);
		words_add(&request->host, word);
		words_add(&request->link, word);
	}
	return 0;
}

static int take_linker_list(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	words_add(&request->link, words_format("-Wl,%s", value));
	return 0;
}

/* ---- What is made ------------------------------------------------------------------------------------------------ */

static int take_goal(struct cc_request *request, const struct option *option, const char *value)
{
	static const struct {
		const char *name;
		enum cc_goal goal;
	} rows[] = {{"object", CC_OBJECT}, {"assembly", CC_ASSEMBLY},     {"ptx", CC_PTX},
		    {"fatbin", CC_FATBIN}, {"preprocess", CC_PREPROCESS}, {"dependencies", CC_DEPENDENCIES}};

	if (value)
		words_add(&request->both, value); /* -M or -MM */
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strcmp(option->text, rows[i].name) == 0)
			request->goal = rows[i].goal;
	return 0;
}

static int take_output(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	request->output = value;
	return 0;
}

static int take_flag(struct cc_request *request, const struct option *option, const char *value)
{
	(void)value;
	switch (*option->text) {
	case 'v': request->is_verbose = true; break;
	case 'n': request->is_dry = true; break;
	case 'V': request->wants_version = true; break;
	case 'G': request->has_device_debug = true; break;
	case 'r':
		request->is_separate = true;
		request->goal = CC_OBJECT;
		break;
	default: break;
	}
	request->has_lines |= strchr("Gl", *option->text) != NULL;
	return 0;
}

/* -g…: the host's part has all of it, the device's the lines. */
static int take_debug(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	request->has_lines = strcmp(value, "-g0") != 0;
	words_add(&request->host, value);
	words_add(&request->link, value);
	return 0;
}

static int take_optimization(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	request->has_optimization = true;
	words_add(&request->both, words_format("-O%s", value));
	return 0;
}

static int take_standard(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	request->standard = value;
	return 0;
}

static int take_dependencies(struct cc_request *request, const struct option *option, const char *value)
{
	const char *name = option->text;

	request->writes_dependencies |= strcmp(name, "-MD") == 0 || strcmp(name, "-MMD") == 0;
	request->has_dependency_file |= strcmp(name, "-MF") == 0;
	request->has_dependency_target |= strcmp(name, "-MT") == 0 || strcmp(name, "-MQ") == 0;
	words_add(&request->dependencies, name);
	if (value)
		words_add(&request->dependencies, value);
	return 0;
}

/* ---- For nvcc ---------------------------------------------------------------------------------------------------- */

/* sm_75, compute_75, 75, sm_90a; arch=compute_75,code=… The lowest of several serves for all. */
static int take_architecture(struct cc_request *request, const struct option *option, const char *value)
{
	const char *digits = value + strcspn(value, "0123456789,");
	unsigned number = (unsigned)atoi(digits);

	(void)option;
	if (strcmp(value, "native") == 0 || strncmp(value, "all", 3) == 0)
		return 0;
	if (number < 10 || number > 999)
		return usage_error("cc", "'%s' is not an architecture; it takes sm_75, compute_80 and the like", value);
	if (!request->architecture || number < request->architecture)
		request->architecture = number;
	return 0;
}

static int take_language(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	if (strcmp(value, "none") == 0)
		request->language = NULL;
	else if (strcmp(value, "cu") == 0 || strcmp(value, "cuda") == 0 || strcmp(value, "c") == 0 ||
		 strcmp(value, "c++") == 0)
		request->language = value;
	else
		return usage_error("cc", "-x takes cu, c, c++ or none, not '%s'", value);
	return 0;
}

static int take_runtime(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	request->is_without_runtime = strcmp(value, "none") == 0;
	if (strcmp(value, "none") != 0 && strcmp(value, "shared") != 0 && strcmp(value, "static") != 0)
		return usage_error("cc", "-cudart takes shared, static or none, not '%s'", value);
	return 0;
}

static int take_machine(struct cc_request *request, const struct option *option, const char *value)
{
	(void)request, (void)option;
	return strcmp(value, "64") == 0 ? 0 : usage_error("cc", "programs have 64 bits: -m %s is not possible", value);
}

static int take_separate(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return usage_error("cc", "-rdc takes true or false, not '%s'", value);
	request->is_separate = strcmp(value, "true") == 0;
	return 0;
}

static int take_stream(struct cc_request *request, const struct option *option, const char *value)
{
	(void)request, (void)option;
	if (strcmp(value, "legacy") == 0 || strcmp(value, "null") == 0)
		return 0;
	return usage_error("cc", "--default-stream %s is not supported: launch into cudaStreamPerThread", value);
}

/* true: the first word of text; false: the second. "-": none. */
static int take_choice(struct cc_request *request, const struct option *option, const char *value)
{
	const char *second = strchr(option->text, ' ') + 1, *word;

	if (strcmp(value, "true") == 0)
		word = words_format("%.*s", (int)(second - option->text - 1), option->text);
	else if (strcmp(value, "false") == 0)
		word = second;
	else
		return usage_error("cc", "%s takes true or false, not '%s'", option->names, value);
	if (strcmp(word, "-") != 0)
		words_add(&request->device, word);
	return 0;
}

/* As clang's own headers understand it: fast forms of float functions, no denormals. */
static int take_fast_math(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option, (void)value;
	words_add(&request->device, "-fcuda-flush-denormals-to-zero");
	words_add(&request->device, "-fcuda-approx-transcendentals");
	words_add(&request->both, "-D__USE_FAST_MATH__=1");
	return 0;
}

/* --Werror KIND: any kind of warning. */
static int take_warnings(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option, (void)value;
	words_add(&request->both, "-Werror");
	return 0;
}

static int ignore(struct cc_request *request, const struct option *option, const char *value)
{
	(void)request, (void)option, (void)value;
	return 0;
}

static int note(struct cc_request *request, const struct option *option, const char *value)
{
	(void)request, (void)value;
	fprintf(stderr, "cenote cc: note: %.*s is ignored: %s\n", (int)strcspn(option->names, " "), option->names,
		option->text);
	return 0;
}

static int refuse(struct cc_request *request, const struct option *option, const char *value)
{
	(void)request, (void)value;
	return usage_error("cc", "%.*s is not supported: %s", (int)strcspn(option->names, " "), option->names,
			   option->text);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

static enum cc_language language_of(const struct cc_request *request, const char *path)
{
	static const struct {
		const char *endings;
		enum cc_language language;
	} rows[] = {{" cu cuda ", CC_CUDA}, {" cc cpp cxx c++ C CPP ii ", CC_CXX}, {" c i ", CC_C}};
	const char *name = request->language, *ending = strrchr(path, '.');
	char between[16];

	if (!name)
		name = ending ? ending + 1 : "";
	snprintf(between, sizeof between, " %.12s ", name);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strstr(rows[i].endings, between))
			return rows[i].language;
	return CC_NOT_COMPILED;
}

static void add_input(struct cc_request *request, const char *word, enum cc_language language)
{
	if (request->input_count == request->input_room) {
		request->input_room += 32;
		request->inputs = words_memory(request->inputs, request->input_room * sizeof *request->inputs);
	}
	request->inputs[request->input_count++] = (struct cc_input){word, language};
}

static int take_library(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	/* These are Cenote's, which the link brings by itself. */
	if (strcmp(value, "cudart") != 0 && strcmp(value, "cudart_static") != 0 && strcmp(value, "cuda") != 0)
		add_input(request, words_format("-l%s", value), CC_NOT_COMPILED);
	return 0;
}

static int take_linker_words(struct cc_request *request, const struct option *option, const char *value)
{
	(void)option;
	add_input(request, value, CC_NOT_COMPILED); /* in its place: -Wl,--start-group and the like */
	return 0;
}

static int take_input(struct cc_request *request, const char *path)
{
	const char *ending = strrchr(path, '.');

	if (ending && !request->language && (strcmp(ending, ".ptx") == 0 || strcmp(ending, ".cubin") == 0))
		return usage_error(
			"cc", "%s: load it with cuModuleLoad(); only sources, objects and libraries are linked", path);
	add_input(request, path, language_of(request, path));
	return 0;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

#define NO_MACHINE_CODE  "there is no machine code here; use --ptx or --fatbin"
#define NO_DEVICE_LINKER "device code is linked when the program runs"
#define DEPENDENCIES     take_dependencies

static const struct option options[] = {
	{"--output-file", VALUE, take_output, NULL},
	{"-c --compile", ALONE, take_goal, "object"},
	{"-S", ALONE, take_goal, "assembly"},
	{"-E --preprocess", ALONE, take_goal, "preprocess"},
	{"--ptx", ALONE, take_goal, "ptx"},
	{"--fatbin", ALONE, take_goal, "fatbin"},
	{"-v --verbose", ALONE, take_flag, "v"},
	{"-### --dry-run --dryrun", ALONE, take_flag, "n"},
	{"-V --version", ALONE, take_flag, "V"},
	{"-G --device-debug", ALONE, take_flag, "G"},
	{"--lineinfo --generate-line-info", ALONE, take_flag, "lineinfo"},
	{"--x", VALUE, take_language, NULL},

	/* What is compiled, and how */
	{"--include-path", VALUE, to_both, "-I"},
	{"--isystem --system-include", VALUE, to_both, "-isystem"},
	{"-iquote", VALUE, to_both, "-iquote"},
	{"-idirafter", VALUE, to_both, "-idirafter"},
	{"-include --pre-include", VALUE, to_both, "-include"},
	{"--define-macro", VALUE, to_both, "-D"},
	{"--undefine-macro", VALUE, to_both, "-U"},
	{"--std", VALUE, take_standard, NULL},
	{"--optimize", VALUE, take_optimization, NULL},
	{"-M -MM", ALONE, take_goal, "dependencies"},
	{"-MD", ALONE, DEPENDENCIES, "-MD"},
	{"-MMD", ALONE, DEPENDENCIES, "-MMD"},
	{"-MP", ALONE, DEPENDENCIES, "-MP"},
	{"--dependency-output", VALUE, DEPENDENCIES, "-MF"},
	{"--dependency-target-name", VALUE, DEPENDENCIES, "-MT"},
	{"-MF", JOINED, DEPENDENCIES, "-MF"},
	{"-MT", JOINED, DEPENDENCIES, "-MT"},
	{"-MQ", JOINED, DEPENDENCIES, "-MQ"},
	{"-Werror", ALONE, to_both, "-Werror"},
	{"-Werror=", PREFIX, to_both, NULL},
	{"--Werror", VALUE, take_warnings, NULL},
	{"-w --disable-warnings", ALONE, to_both, "-w"},
	{"-ansi", ALONE, to_both, "-ansi"},
	{"-pedantic", PREFIX, to_both, NULL},
	{"-pthread", ALONE, to_host_and_link, "-pthread"},
	{"-pipe", ALONE, ignore, NULL},
	{"-pg", ALONE, to_host_and_link, "-pg"},

	/* nvcc's */
	{"--arch --gpu-architecture --gencode --generate-code", VALUE, take_architecture, NULL},
	{"--code --gpu-code", VALUE, ignore, NULL},
	{"--Xcompiler --compiler-options", VALUE, take_compiler_list, NULL},
	{"--Xlinker --linker-options", VALUE, take_linker_list, NULL},
	{"--Xptxas --ptxas-options --Xnvlink --nvlink-options --Xcudafe --Xfatbin --fatbin-options", VALUE, ignore,
	 NULL},
	{"--cudart", VALUE, take_runtime, NULL},
	{"-m --machine", VALUE, take_machine, NULL},
	{"-m64", ALONE, ignore, NULL},
	{"--rdc --relocatable-device-code", VALUE, take_separate, NULL},
	{"--default-stream", VALUE, take_stream, NULL},
	{"--fmad", VALUE, take_choice, "-ffp-contract=fast -ffp-contract=off"},
	{"--ftz", VALUE, take_choice, "-fcuda-flush-denormals-to-zero -fno-cuda-flush-denormals-to-zero"},
	{"--prec-div --prec-sqrt", VALUE, ignore, NULL}, /* more exact than asked for */
	{"--use_fast_math", ALONE, take_fast_math, ""},
	{"--threads --split-compile --maxrregcount --diag-suppress --diag-warn --diag-error --compress-mode", VALUE,
	 ignore, NULL},
	{"--t", VALUE, ignore, NULL},
	{"--expt-relaxed-constexpr --expt-extended-lambda --extended-lambda --restrict --extra-device-vectorization "
	 "--source-in-ptx --no-compress --allow-unsupported-compiler --forward-unknown-to-host-compiler "
	 "--forward-unknown-opts --forward-unknown-to-host-linker --display-error-number --no-display-error-number "
	 "--resource-usage --Wno-deprecated-gpu-targets --time --no-align-double --objdir-as-tempdir",
	 ALONE, ignore, NULL},
	{"--ccbin --compiler-bindir", VALUE, note, "clang compiles the host's part, too (CENOTE_CLANG chooses it)"},
	{"--keep --save-temps", ALONE, refuse, "--dry-run shows the steps, --ptx the PTX"},
	{"--cubin", ALONE, refuse, NO_MACHINE_CODE},
	{"--dc --device-c", ALONE, take_flag, "rdc"},
	{"--dlink --device-link --dlto", ALONE, refuse, NO_DEVICE_LINKER},
	{"--lib", ALONE, refuse, "compile with -c, and use ar"},
	{"--run", ALONE, refuse, "run the program by itself"},
	{"--optix-ir --lto", ALONE, refuse, NO_MACHINE_CODE},

	/* The link */
	{"--library-path", VALUE, to_link, "-L"},
	{"--library", VALUE, take_library, NULL},
	{"--shared", ALONE, to_link, "-shared"},
	{"-static", ALONE, refuse, "Cenote has no static library"},
	{"-Wl,", PREFIX, take_linker_words, NULL},
	{"-rdynamic -s -pie -no-pie -static-libgcc -static-libstdc++ -nostdlib -nodefaultlibs -nostartfiles", ALONE,
	 to_link, NULL},
	{"-fuse-ld=", PREFIX, to_link, NULL},

	/* gcc's others */
	{"-Wa,", PREFIX, to_host, NULL},
	{"-W", PREFIX, to_both, NULL},
	{"-g", PREFIX, take_debug, NULL},
	{"-fsanitize -fno-sanitize -fprofile -fcoverage -flto -fopenmp", PREFIX, to_host_and_link, NULL},
	{"-fPIC -fpic -fPIE -fpie -fno-PIC -fno-pic -fno-PIE -fno-pie -fstack -fno-stack -fcf-protection -fno-plt "
	 "-fno-omit-frame-pointer -fomit-frame-pointer -fvisibility -ffunction-sections -fdata-sections "
	 "-fno-semantic-interposition",
	 PREFIX, to_host, NULL},
	{"-f", PREFIX, to_both, NULL},
	{"-m", PREFIX, to_host, NULL},
	{"-Xclang -mllvm", VALUE, refuse, "it would reach both passes; -Xcompiler reaches the host's"},
	{"-B", PREFIX, to_link, NULL},

	/* One letter, and all that begins with it */
	{"-o", JOINED, take_output, NULL},
	{"-x", JOINED, take_language, NULL},
	{"-I", JOINED, to_both, "-I"},
	{"-D", JOINED, to_both, "-D"},
	{"-U", JOINED, to_both, "-U"},
	{"-O", JOINED, take_optimization, NULL},
	{"-L", JOINED, to_link, "-L"},
	{"-l", JOINED, take_library, NULL},
};

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Does a name of the table fit a word, and how long is it? A name with two dashes fits with one as well. */
static bool fits(const char *name, size_t bytes, const char *word, enum form form, size_t *ret_bytes)
{
	bool is_long = bytes > 2 && name[1] == '-';

	if (is_long && word[0] == '-' && word[1] != '-') {
		name++;
		bytes--;
	}
	*ret_bytes = bytes;
	if (strncmp(word, name, bytes) != 0)
		return false;
	if (form == ALONE)
		return !word[bytes];
	return form != VALUE || !word[bytes] || word[bytes] == '=';
}

static const struct option *find_option(const char *word, size_t *ret_bytes)
{
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		for (const char *name = options[i].names; *name; name += strspn(name, " ")) {
			size_t bytes = strcspn(name, " ");
			if (fits(name, bytes, word, options[i].form, ret_bytes))
				return &options[i];
			name += bytes;
		}
	return NULL;
}

/* A level in a word of its own, as nvcc has it; gcc's -O has none. */
static bool is_level(const char *word)
{
	return word && isdigit((unsigned char)word[0]) && !word[1];
}

/* The option at *index, and its value, which may be the next word. */
static int read_option(struct cc_request *request, int argument_count, char **arguments, int *index)
{
	const char *word = arguments[*index], *value = NULL;
	size_t bytes;
	const struct option *option = find_option(word, &bytes);

	if (!option)
		return refuse_word("cc", word);
	if (option->form == ALONE)
		return option->take(request, option,
				    option->text && strcmp(option->text, "dependencies") ? NULL : word);
	if (option->form == PREFIX)
		return option->take(request, option, word);
	if (word[bytes])
		value = word + bytes + (option->form == VALUE);
	else if (option->take == take_optimization && !is_level(arguments[*index + 1]))
		value = "1";
	else if (*index + 1 < argument_count)
		value = arguments[++*index];
	else
		return usage_error("cc", "%s takes a value", word);
	return option->take(request, option, value);
}

int cc_read_options(struct cc_request *request, int argument_count, char **arguments)
{
	int failed = 0;

	for (int i = 1; i < argument_count && !failed; i++) {
		if (arguments[i][0] == '-' && arguments[i][1])
			failed = read_option(request, argument_count, arguments, &i);
		else if (arguments[i][0] == '@')
			failed = usage_error("cc", "'%s': response files are not read", arguments[i]);
		else
			failed = take_input(request, arguments[i]);
	}
	if (failed || request->wants_version)
		return failed;
	if (!request->input_count)
		return usage_error("cc", "no file to compile");
	if (!request->architecture)
		request->architecture = 75; /* as nvcc 13 */
	return 0;
}
