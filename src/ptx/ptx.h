/* SPDX-License-Identifier: MIT */
/*
 * PTX on the processor: load modules, look at their kernels, run blocks.
 *
 * PTX is a published instruction set. This module reads its text (or a fat binary that holds it), turns each function
 * into instructions of its own (ptx_ir.h), and interprets them a block at a time: one instruction over all threads of
 * the block. It is a library of its own, libcenote-ptx.so, that the host device opens when a program brings PTX. It
 * calls base/ and the C library alone, and is called through one table, cn_ptx_calls.
 *
 * Loading costs what is used: load() finds kernels, functions and variables, and passes over the functions' bodies. A
 * body becomes instructions when a kernel that can reach it is prepared, which the first launch does if nobody did it
 * before. So an instruction that we do not run is an error of the kernels that need it and of no other: load()
 * succeeds, and prepare() or block_create() fail with the sentence and the line. (A driver that compiles the whole text
 * would refuse the module.) What is wrong outside of bodies, or a body that does not end, is an error of load().
 *
 * Order of calls: load(), place(), blocks. place() writes the variables' first values into memory of the caller's, as
 * often as the caller wants instances of the module; a launch says which one it uses. A launch is the caller's: it
 * makes a block (block_create) for each block that is resident, starts it at some coordinates (block_begin), and calls
 * block_run() until the block is done. A block may be begun again at other coordinates after that. Blocks are
 * independent: each may be run by another thread, one at a time. A block that waits for another block, process or for
 * the host returns CN_PTX_AGAIN when its budget is used up, so a caller that takes turns over all resident blocks
 * starves none.
 *
 * Addresses. Global, constant, local, parameter and generic addresses are host addresses; a shared address is an offset
 * into the block's shared memory. A module may touch all memory of the process: it is trusted as much as the program
 * that brings it. The text of a module is not trusted: every length and index in it is checked, and no text makes
 * load() or prepare() crash, hang or use much more memory than the text is long.
 *
 * Arithmetic is exact for integers and for IEEE operations in all rounding modes; approximations (.approx) are at least
 * as exact as PTX promises. All processors and all builds of the arithmetic give the same bits.
 *
 * Errors: a call that fails fills in struct cn_ptx_error, if it is given one, and changes nothing else.
 */
#ifndef CN_PTX_PTX_H
#define CN_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cn_ptx_module;
struct cn_ptx_block;

enum {
	CN_PTX_CALLS_VERSION = 7,
	CN_PTX_SENTENCE_BYTES = 384,
	CN_PTX_THREADS_MAX = 1024,           /* of a block */
	CN_PTX_SHARED_BYTES_MAX = 227 << 10, /* of a block, static and dynamic */
	CN_PTX_PARAMETER_BYTES_MAX = 32764,  /* of a kernel */
	CN_PTX_BUDGET = 1 << 16,             /* a good budget for block_run() */
};

enum cn_ptx_error_code {
	CN_PTX_OK,
	CN_PTX_INVALID,      /* the text breaks PTX's rules */
	CN_PTX_UNSUPPORTED,  /* PTX that this module does not run; the sentence names the instruction */
	CN_PTX_NO_PTX,       /* a fat binary that has machine code alone */
	CN_PTX_NO_MEMORY,    /* or beyond a limit of this module */
	CN_PTX_BAD_ARGUMENT, /* of the call: a launch that does not fit its kernel */
};

struct cn_ptx_error {
	enum cn_ptx_error_code code;
	unsigned line; /* of the PTX text, from 1; 0: none */
	char sentence[CN_PTX_SENTENCE_BYTES];
};

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

struct cn_ptx_parameter {
	unsigned offset_bytes, bytes, alignment;
};

struct cn_ptx_kernel {
	const char *name;
	unsigned parameter_count;
	const struct cn_ptx_parameter *parameters;
	unsigned parameter_bytes; /* of all of them, as a launch passes them */
	unsigned max_threads;     /* of a block: .maxntid or .reqntid; 0: not said */
	unsigned required[3];     /* .reqntid; 0: not said */
	unsigned index;           /* for struct cn_ptx_launch and prepare() */
	/* These come from the code: 0 until the kernel is prepared, and not to be read while it may be. */
	unsigned shared_bytes;   /* static */
	unsigned local_bytes;    /* a thread, without those of functions that call each other in a circle */
	unsigned register_count; /* an estimate: 32-bit registers that are live at once, at most 255 */
};

struct cn_ptx_variable {
	const char *name;
	bool constant;
	bool managed;                          /* .attribute(.managed) */
	size_t offset_bytes, bytes, alignment; /* its address is the memory it is used in, and the offset */
};

struct cn_ptx_contents {
	unsigned version; /* of the ISA: 65 is 6.5 */
	unsigned target;  /* 75 is sm_75 */
	unsigned kernel_count, variable_count;
	const struct cn_ptx_kernel *kernels; /* in the order of the text */
	const struct cn_ptx_variable *variables;
	size_t data_bytes; /* what place() wants, aligned to data_alignment */
	size_t data_alignment;
};

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/* How a kernel uses memory. */
enum cn_ptx_touch {
	CN_PTX_READS,
	CN_PTX_WRITES,
	CN_PTX_COMMUNICATES, /* atomics, volatile, acquire and release: others may be meant to see it */
};

struct cn_ptx_launch {
	struct cn_ptx_module *module;
	void *memory;    /* of the variables, as place() left it; NULL: the module has none */
	void *managed;   /* the same, of those that are managed */
	unsigned kernel; /* struct cn_ptx_kernel's index */
	unsigned grid[3], block[3];
	unsigned dynamic_shared_bytes;
	const void *parameters;   /* parameter_bytes, packed; read during block_create() */
	unsigned environment[32]; /* %envreg0 to %envreg31 */
	unsigned device_blocks;   /* blocks that run at once, for %nsmid; 0: one */
	/* What the kernel prints: called on the thread that runs the block, with whole outputs of one printf(). */
	void (*print)(void *data, const char *text, size_t bytes);
	/* The same of an assertion that fails; NULL: print(). */
	void (*complain)(void *data, const char *text, size_t bytes);
	/*
	 * What the kernel is about to use of memory that is not its block's own, in runs of bytes: called on the
	 * thread that runs the block. NULL: it costs nothing.
	 */
	void (*touch)(void *data, uint64_t address, size_t bytes, enum cn_ptx_touch how);
	void *data;
	/* Call body(data); false: it used memory that is not mapped. NULL: such memory ends the process. */
	bool (*guard)(void (*body)(void *data), void *data);
};

enum cn_ptx_state {
	CN_PTX_DONE,
	CN_PTX_AGAIN,           /* the budget is used up: run it again */
	CN_PTX_TRAP,            /* trap; */
	CN_PTX_ASSERT,          /* assert() failed; it has been printed */
	CN_PTX_ILLEGAL_ADDRESS, /* memory that is not mapped, or beyond the block's shared memory */
	CN_PTX_MISALIGNED_ADDRESS,
	CN_PTX_STACK_OVERFLOW, /* calls nest too deep */
	CN_PTX_ILLEGAL_CALL,   /* of a function pointer that leads nowhere, or a function without a body */
	CN_PTX_DEADLOCK,       /* every thread waits for a barrier that no other can reach */
	CN_PTX_BARRIER,        /* a barrier's number or count that no block has */
};

/* Why a block ended, when it was neither done nor to be run again. */
struct cn_ptx_fault {
	enum cn_ptx_state state;
	const char *kernel; /* lives as long as the module */
	unsigned line;      /* of the PTX text */
	const char *source; /* file of the source that .loc names; NULL: none */
	unsigned source_line;
	unsigned block[3], thread[3];
	uint64_t address;
};

/* ---- The table --------------------------------------------------------------------------------------------------- */

struct cn_ptx_calls {
	unsigned version; /* CN_PTX_CALLS_VERSION */

	/*
	 * Read PTX text, a cubin's fat binary (0xBA55ED50) or the wrapper that a compiler puts around it (0x466243B1).
	 * Text may end with a zero byte before `bytes`. `bytes` is SIZE_MAX where the caller of CUDA names no length:
	 * the text ends with a zero byte, a fat binary by its own header. The bytes are not needed afterwards. Of
	 * several PTX entries the one for the highest architecture not above `target` (90 is sm_90) is taken.
	 */
	enum cn_ptx_error_code (*load)(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *ret_error,
				       struct cn_ptx_module **ret_module);
	/* No block of the module may be left. NULL is allowed. */
	void (*unload)(struct cn_ptx_module *module);
	const struct cn_ptx_contents *(*contents)(const struct cn_ptx_module *module);
	/*
	 * Write the variables' first values into data_bytes at `into`. Where one is the address of another, that is a
	 * place in `memory`, or in `managed` if it is a managed variable's. A managed variable is used in `managed`
	 * alone, and the others in `memory` alone; so instances may share what is managed.
	 */
	void (*place)(const struct cn_ptx_module *module, void *into, void *memory, void *managed);

	/* Memory for a block of a launch; the structure is not needed afterwards. Prepares the kernel. */
	enum cn_ptx_error_code (*block_create)(const struct cn_ptx_launch *launch, struct cn_ptx_error *ret_error,
					       struct cn_ptx_block **ret_block);
	void (*block_destroy)(struct cn_ptx_block *block);
	/* Set a block to the start of the kernel. Shared memory is as the block before left it, as on a GPU. */
	void (*block_begin)(struct cn_ptx_block *block, const unsigned coordinates[3]);
	/*
	 * Run a block for about `budget` instructions (one over all of its threads counts once). *ret_fault is written
	 * when the state is neither CN_PTX_DONE nor CN_PTX_AGAIN; the block can then only be destroyed or begun again.
	 */
	enum cn_ptx_state (*block_run)(struct cn_ptx_block *block, uint64_t budget, struct cn_ptx_fault *ret_fault);

	/* Choose the build of the arithmetic: "plain", "avx2", "avx512"; NULL: the best. False: not here. */
	bool (*choose)(const char *name);

	/*
	 * Have a kernel's code made, and that of the functions that it can call, if that has not been done. Its entry
	 * in the contents is complete then. Any number of threads may call this and block_create() at once.
	 *
	 *   CN_PTX_UNSUPPORTED, CN_PTX_INVALID   the sentence names the instruction; the module stays as it was
	 */
	enum cn_ptx_error_code (*prepare)(struct cn_ptx_module *module, unsigned kernel,
					  struct cn_ptx_error *ret_error);
};

/* The one name that libcenote-ptx.so shows. */
__attribute__((visibility("default"))) extern const struct cn_ptx_calls cn_ptx_calls;

#endif
