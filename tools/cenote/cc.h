/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: CUDA C++ by clang, with Cenote's headers and libraries.
 *
 * clang compiles a CUDA file twice: its kernels to PTX, and the rest to an object that registers the kernels before
 * main(). Between the two we put the PTX into a fat binary (cc_fatbin.c), which the object contains. So there are three
 * steps for a file, and one that links:
 *
 *     clang … --cuda-device-only -S app.cu -o T/app.ptx
 *     (T/app.fatbin)
 *     clang … --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang T/app.fatbin -c app.cu -o app.o
 *     clang++ app.o libcudart.so.13 …
 *
 * The command line is gcc's and nvcc's (cc_options.c). It becomes lists of words for each step, which are clang's.
 * What clang is there, and what it knows, is in cc_clang.c; how steps run and what is cleaned up, in cc_steps.c.
 */
#ifndef CENOTE_TOOLS_CC_H
#define CENOTE_TOOLS_CC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- Lists of words ---------------------------------------------------------------------------------------------- */

/* Words of a command line; NULL follows the last. The words are not copied. */
struct words {
	const char **at;
	size_t count, room;
};

void words_add(struct words *words, const char *word);
void words_add_all(struct words *words, const struct words *more);
/* A word that is made for this: it stays until the command ends. */
const char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* realloc(), or the end of the command. */
void *words_memory(void *old, size_t bytes);

/* ---- What the command line asks for (cc_options.c) --------------------------------------------------------------- */

enum cc_goal {
	CC_LINK,
	CC_OBJECT,       /* -c */
	CC_ASSEMBLY,     /* -S: of the host's part */
	CC_PTX,          /* --ptx */
	CC_FATBIN,       /* --fatbin */
	CC_PREPROCESS,   /* -E */
	CC_DEPENDENCIES, /* -M, -MM */
};

enum cc_language { CC_CUDA, CC_CXX, CC_C, CC_NOT_COMPILED };

/* A word of the link, in its place: a source stands for its object. */
struct cc_input {
	const char *word;
	enum cc_language language;
};

struct cc_request {
	enum cc_goal goal;
	const char *output;               /* NULL: not said */
	const char *language;             /* of -x, for the files that follow; NULL: by their names */
	unsigned architecture;            /* 75: sm_75 */
	bool is_verbose, is_dry;          /* -v, --dry-run */
	bool wants_version;               /* --version: nothing is compiled */
	bool has_optimization;            /* -O: without it the device's part has -O3, as with nvcc */
	bool has_device_debug, has_lines; /* -G; -g or -lineinfo */
	bool is_separate;                 /* -rdc=true: the program's device code is linked when it runs */
	bool writes_dependencies;         /* -MD, -MMD */
	bool has_dependency_file, has_dependency_target;
	bool is_without_runtime;   /* -cudart none */
	const char *standard;      /* -std; NULL: not said */
	struct words both;         /* for all that is compiled */
	struct words device, host; /* for one pass; what is not CUDA has the host's */
	struct words dependencies; /* -MD, -MF …: for the host's pass */
	struct words link;         /* before the inputs */
	struct cc_input *inputs;
	size_t input_count, input_room;
};

/* 0, or EXIT_USAGE after a sentence. */
int cc_read_options(struct cc_request *request, int argument_count, char **arguments);

/* ---- The compiler (cc_clang.c) ----------------------------------------------------------------------------------- */

struct cc_clang {
	const char *path;
	unsigned version;                                               /* 14 */
	char name[128];                                                 /* what it says of itself */
	char headers[PATH_MAX], libraries[PATH_MAX], dropins[PATH_MAX]; /* Cenote's folders */
};

/* Find clang and Cenote's folders. False after a sentence. */
bool cc_find_clang(struct cc_clang *ret_clang);
/* The architecture of this clang that serves for one that was asked for; 0 after a sentence. */
unsigned cc_choose_architecture(const struct cc_clang *clang, unsigned wanted);

/* ---- Steps (cc_steps.c) ------------------------------------------------------------------------------------------ */

/* Run a program to its end, or print it, as --dry-run and -v say: its exit status; 128 and the signal if we got one. */
int cc_step(const struct cc_request *request, const struct words *command);
/* What a program says on standard output, up to `bytes` with the zero; false: it cannot be run, or fails. */
bool cc_ask(const struct words *command, char *ret_text, size_t bytes);
/* The name of a file that is removed at the end; NULL after a sentence. */
const char *cc_temporary(const char *source, const char *ending);
/* Remove these files; if a signal has come, end by it. */
void cc_clean_up(void);

/* ---- Fat binaries (cc_fatbin.c) ---------------------------------------------------------------------------------- */

/* Put PTX into a fat binary. `source` is for sentences. False after one. */
bool cc_write_fatbin(const struct cc_request *request, const char *source, const char *ptx, const char *fatbin);

#endif
