/* SPDX-License-Identifier: MIT */
/*
 * cenote run: a program that was linked against NVIDIA's libraries, with Cenote's in front of them.
 *
 * Without a GPU, by LD_LIBRARY_PATH: whatever libcuda.so.1, libcudart.so.13 or libnvidia-ml.so.1 the program looks
 * for, it finds ours; and by LD_AUDIT: if it has NVIDIA's runtime inside, that is led to ours (tools/redirect). On a
 * GPU, by LD_PRELOAD of our libcuda.so.1 alone: the runtime is NVIDIA's own, perhaps linked into the program, and when
 * it asks for the driver's library by its name, the dynamic linker answers with the one that is already loaded. First
 * it checks whether the program defeats this (look.c).
 */
#include "run.h"

#include "command.h"
#include "look.h"

#include <cenote/cenote.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder of the drop-in libraries, beside the library that this command uses: where it was built, and installed. */
static const char *const places[] = {"dropin", "cenote"};

int run_find_libraries(const char *command, char folder[PATH_MAX])
{
	char self[PATH_MAX], library[PATH_MAX + 64];
	Dl_info info;

	if (!dladdr(dlsym(RTLD_DEFAULT, "cenote_last_error"), &info) || !realpath(info.dli_fname, self)) {
		fprintf(stderr, "cenote %s: cannot tell where Cenote's library is\n", command);
		return 0;
	}
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(library, sizeof library, "%s/%s/libcuda.so.1", self, places[i]);
		if (access(library, R_OK) == 0 &&
		    (size_t)snprintf(folder, PATH_MAX, "%s/%s", self, places[i]) < PATH_MAX)
			return 1;
	}
	fprintf(stderr, "cenote %s: no libcuda.so.1 in %s/%s or %s/%s\n", command, self, places[0], self, places[1]);
	return 0;
}

/* Put a word at the front of a list; -1: an error was printed. */
static int put_in_front(const char *command, const char *variable, const char *word)
{
	const char *old = getenv(variable);
	char *value;

	if (asprintf(&value, "%s%s%s", word, old && *old ? ":" : "", old ? old : "") < 0)
		value = NULL;
	int failed = value ? setenv(variable, value, 1) : -1;
	if (failed)
		fprintf(stderr, "cenote %s: %s\n", command, strerror(errno));
	free(value);
	return failed;
}

/* --name VALUE or --name=VALUE: the value, NULL if this is another option, "" if it lacks one. */
static const char *option_value(const char *name, int argument_count, char **arguments, int *index)
{
	size_t length = strlen(name);
	const char *argument = arguments[*index];

	if (strncmp(argument, name, length))
		return NULL;
	if (argument[length] == '=')
		return argument + length + 1;
	if (argument[length])
		return NULL;
	if (*index + 1 >= argument_count)
		return "";
	return arguments[++*index];
}

static int is_kind(const char *value)
{
	return strcmp(value, "host") == 0 || strcmp(value, "cuda") == 0 || strcmp(value, "auto") == 0;
}

enum { DEVICES_MAX = 64 }; /* of the host device, as the library has it */

static int is_count(const char *value)
{
	size_t zeros = strspn(value, "0"), digits = strspn(value, "0123456789");

	return digits > zeros && digits - zeros <= 2 && !value[digits] && atoi(value + zeros) <= DEVICES_MAX;
}

/* As the library reads it: with a K, M, G or T, of either case, and then "i", "B" or both. */
static int is_size(const char *value)
{
	size_t zeros = strspn(value, "0"), digits = strspn(value, "0123456789");
	const char *unit = value + digits;

	if (digits == zeros)
		return 0;
	if (*unit && strchr("KMGTkmgt", *unit)) {
		unit++;
		unit += *unit == 'i';
		unit += *unit == 'B';
	}
	return !*unit;
}

/* The options that stand for variables of the environment. */
static const struct {
	const char *option, *variable;
	int host; /* for host devices only */
	int (*is_valid)(const char *value);
	const char *takes;
} options[] = {
	{"--device", "CENOTE_DEVICE", 0, is_kind, "host, cuda or auto"},
	{"--devices", "CENOTE_HOST_DEVICES", 1, is_count, "a number from 1 to 64"},
	{"--memory", "CENOTE_HOST_MEMORY", 1, is_size, "a number of bytes, optionally with K, M, G or T"},
};

/* Read the option at *index, if it is one of these: 1; 0: it is another; negative: it is wrong. */
static int read_option(const char *command, int argument_count, char **arguments, int *index)
{
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		const char *value = option_value(options[i].option, argument_count, arguments, index);
		if (!value)
			continue;
		if (!options[i].is_valid(value))
			return -usage_error(command, "%s takes %s", options[i].option, options[i].takes);
		setenv(options[i].variable, value, 1);
		if (options[i].host)
			setenv("CENOTE_DEVICE", "host", 0);
		return 1;
	}
	return 0;
}

int run_read_options(const char *command, run_option *other, int argument_count, char **arguments, int *ret_program)
{
	int i;

	for (i = 1; i < argument_count && arguments[i][0] == '-'; i++) {
		if (strcmp(arguments[i], "--") == 0) {
			i++;
			break;
		}
		int read = other ? other(argument_count, arguments, &i) : 0;
		if (!read)
			read = read_option(command, argument_count, arguments, &i);
		if (read < 0)
			return -read;
		if (!read)
			return refuse_word(command, arguments[i]);
	}
	if (i >= argument_count)
		return usage_error(command, "missing program");
	*ret_program = i;
	return 0;
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

/* Can this machine have a GPU? If none of these files exists, its driver need not be started to know. */
static int gpu_is_possible(void)
{
	const char *library = getenv("CENOTE_LIBCUDA");

	return (library && *library) || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

/* Does cuInit() find a GPU? In a process of its own: what a driver starts would not survive the program's exec. */
static int gpu_is_there(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		setenv("CENOTE_DEVICE", "cuda", 1);
		_exit(cuInit(0) == CUDA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run_wants_gpu(const char *command)
{
	const char *wanted = getenv("CENOTE_DEVICE");

	if (!wanted || !*wanted || strcmp(wanted, "auto") == 0)
		return gpu_is_possible() && gpu_is_there();
	if (is_kind(wanted))
		return strcmp(wanted, "cuda") == 0;
	fprintf(stderr, "cenote %s: CENOTE_DEVICE is '%s'; it takes host, cuda or auto\n", command, wanted);
	return -1;
}

/* ---- Run --------------------------------------------------------------------------------------------------------- */

/* Put a library in front of a list of libraries. To the dynamic linker `ends` end a name, and cannot be quoted. */
static int put_library(const char *command, const char *variable, const char *ends, const char *folder,
		       const char *name)
{
	char library[PATH_MAX + 32];

	if (strpbrk(folder, ends)) {
		fprintf(stderr, "cenote %s: %s cannot name a library in '%s'\n", command, variable, folder);
		return -1;
	}
	snprintf(library, sizeof library, "%s/%s", folder, name);
	return put_in_front(command, variable, library);
}

int run_preload(const char *command, const char *folder, const char *name)
{
	return put_library(command, "LD_PRELOAD", " :", folder, name);
}

int run_prepare(const char *command, const char *program, char folder[PATH_MAX])
{
	int gpu = run_wants_gpu(command);

	if (gpu < 0 || !run_find_libraries(command, folder))
		return EXIT_FAILURE;
	if (!look_at_program(command, program, folder, gpu))
		return EXIT_NOT_EXECUTABLE;
	int failed;
	if (!gpu) {
		failed = put_in_front(command, "LD_LIBRARY_PATH", folder) ||
			 put_library(command, "LD_AUDIT", ":", folder, "libcenote-redirect.so");
	} else {
		/* The program must find no less than was found here. */
		failed = setenv("CENOTE_DEVICE", "cuda", 1) || run_preload(command, folder, "libcuda.so.1");
	}
	return failed ? EXIT_FAILURE : 0;
}

static const char delay_variable[] = "CENOTE_TRACE_DELAY"; /* as record.h of tools/trace has it */

int run_take_delay(const char *command, const char *option)
{
	static const char name[] = "--delay";
	const char *seed = option + strlen(name);
	char chosen[24];

	if (strncmp(option, name, strlen(name)) != 0 || (*seed && *seed != '='))
		return 0;
	if (*seed && (!seed[1] || strspn(seed + 1, "0123456789") != strlen(seed + 1) || strlen(seed) > 18))
		return -usage_error(command, "--delay takes a number");
	if (*seed) {
		snprintf(chosen, sizeof chosen, "%s", seed + 1);
	} else {
		snprintf(chosen, sizeof chosen, "%d", (int)getpid());
		fprintf(stderr, "cenote %s: --delay=%s\n", command, chosen);
	}
	setenv(delay_variable, chosen, 1);
	return 1;
}

/* A run_option: that of this command alone. */
static int read_delay(int argument_count, char **arguments, int *index)
{
	(void)argument_count;
	return run_take_delay("run", arguments[*index]);
}

static int run(int argument_count, char **arguments)
{
	char folder[PATH_MAX];
	int program = 0;
	int status = run_read_options("run", read_delay, argument_count, arguments, &program);

	if (status)
		return status;
	status = run_prepare("run", arguments[program], folder);
	if (!status && getenv(delay_variable))
		status = run_preload("run", folder, "libcenote-trace.so") ? EXIT_FAILURE : 0;
	if (status)
		return status;
	execvp(arguments[program], arguments + program);
	fprintf(stderr, "cenote run: %s: %s\n", arguments[program], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

const struct command command_run = {
	.name = "run",
	.summary = "run a program with Cenote in place of NVIDIA's libraries",
	.help = "Usage: cenote run [OPTION...] PROGRAM [ARGUMENT...]\n"
		"\n"
		"Runs a program that was built for NVIDIA's libraries with Cenote in front of them, and its children\n"
		"too. On a GPU the program keeps NVIDIA's driver and runtime, and gets Cenote's pools (LD_PRELOAD).\n"
		"Without a GPU, Cenote is its libcuda.so.1, libcudart.so.13 or .12, and libnvidia-ml.so.1\n"
		"(LD_LIBRARY_PATH), also if nvcc has linked the runtime into it (LD_AUDIT). If that cannot\n"
		"work for this program, a line on standard error says why and what to do.\n"
		"\n"
		"Options:\n"
		"  --device KIND   host, cuda, or auto: a GPU if there is one (CENOTE_DEVICE)\n"
		"  --devices N     show the program 1 to 64 host devices (CENOTE_HOST_DEVICES); implies --device host\n"
		"  --memory SIZE   memory of each: bytes, or with K, M, G, T (CENOTE_HOST_MEMORY); implies "
		"--device host\n"
		"  --delay[=SEED]  let streams pause at random before their work, the same with the same number\n"
		"  --              end of options\n"
		"\n"
		"Environment:\n"
		"  CENOTE_LIBCUDA=FILE   NVIDIA's libcuda.so.1, if it is in an unusual place\n"
		"  CENOTE_POOLS=driver   use the driver's memory pools instead of Cenote's, for comparison\n"
		"\n"
		"Exit status: the program's; 126 if it cannot be executed, 127 if it is not found.\n"
		"\n"
		"Example: cenote run --devices 2 ./simpleIPC\n",
	.run = run,
};
