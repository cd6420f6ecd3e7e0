/* SPDX-License-Identifier: MIT */
/*
 * Questions with names, and the answers a CUDA gives to them.
 *
 * A chapter is a program over CUDA's public API alone. Built with NVIDIA's headers it asks the real driver, and what it
 * prints is the golden file; built with ours it asks Cenote, and compare.py looks for differences. One line a question:
 *
 *     context.pop_empty = CUDA_ERROR_INVALID_CONTEXT
 *
 * Questions live in groups. Each group runs in a process of its own that was forked before CUDA was touched, so a crash
 * or a hang is an answer too: the group is then run again without that question, and the answer is `crash SIGSEGV` or
 * `hang`. A question's call is therefore written inside the macro, never before it.
 *
 * Answers carry no addresses, no times and nothing that only one device would say.
 */
#ifndef CONFORMANCE_ASK_H
#define CONFORMANCE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

/* Once in each chapter's file. */
#define CHAPTER(name) const char ask_chapter[] = #name

/* A group of questions: a function body follows. ALONE is one that runs while no other group of the chapter does. */
#define GROUP(group) ADD_GROUP(group, false)
#define ALONE(group) ADD_GROUP(group, true)
#define ADD_GROUP(group, alone)                                    \
	static void group_##group(void);                           \
	__attribute__((constructor)) static void add_##group(void) \
	{                                                          \
		ask_add(#group, group_##group, __LINE__, alone);   \
	}                                                          \
	static void group_##group(void)

/* The name of what a call of either API returned; the call is evaluated once. */
#define CODE(call) _Generic((call), CUresult : ask_driver_code, cudaError_t : ask_runtime_code)(call)

/* The answer is the call's code. */
#define ASK(question, call)                        \
	do {                                       \
		if (ask_begin(question))           \
			ask_end("%s", CODE(call)); \
	} while (0)

/* The answer is the call's code and then what its outputs hold, also after a failure. */
#define ASK_VALUE(question, call, ...)                         \
	do {                                                   \
		if (ask_begin(question)) {                     \
			const char *code_of_call = CODE(call); \
			ask_end2(code_of_call, __VA_ARGS__);   \
		}                                              \
	} while (0)

/* The answer is text; calls may stand among the arguments. */
#define SAY(question, ...)                    \
	do {                                  \
		if (ask_begin(question))      \
			ask_end(__VA_ARGS__); \
	} while (0)

/* A step that questions of this group stand on: when it fails, the group ends and says so. */
#define NEED(call)                           \
	do {                                 \
		ask_need(CODE(call), #call); \
	} while (0)

/* Handles that no call ever returned. */
#define GARBAGE(type) ((type)(uintptr_t)0x5a5a5a5a5a5a5a50ull)
#define SMALL(type)   ((type)(uintptr_t)0x1234)
#define ZEROS(type)   ((type)(uintptr_t)ask_zeros)

/* What outputs hold before a call, to see whether it wrote to them. */
#define UNTOUCHED_INT   77
#define UNTOUCHED(type) ((type)(uintptr_t)0x7777000077770000ull)

extern const char ask_chapter[];
extern char ask_zeros[8192];

void ask_add(const char *name, void (*run)(void), int line, bool alone);
bool ask_begin(const char *question);
void ask_end(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ask_end2(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ask_need(const char *code, const char *call);
const char *ask_driver_code(CUresult code);
const char *ask_runtime_code(cudaError_t code);

/* A question's name made of parts; valid until sixteen more have been made. */
const char *ask_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "NULL", "untouched" or "set": what an output says without its address. */
const char *ask_out(uintptr_t value);
#define OUT(value) ask_out((uintptr_t)(value))

/* "yes" or "no". */
const char *ask_yes(bool truth);

/* Bytes as short text: `00 00 a5*14` is two zeros and fourteen a5. */
const char *ask_bytes(const void *bytes, size_t count);
/* The same for memory a copy must fetch; "unreadable CODE" when it cannot. */
const char *ask_device_bytes(CUdeviceptr at, size_t count);

/* cuInit and a new context, current. */
CUcontext ask_context(void);

/*
 * From here on, see after each question whether the context still works; when it does not, the group runs again without
 * the question, whose answer is then `CODE then STICKY-CODE`. Not for groups that close a gate.
 */
void ask_guard(void);

/* Run `body` in a forked child of this group, and end as it ended. */
void ask_forked(void (*body)(void *), const void *data);
/* Run `body` on a new thread and wait for it. */
void ask_threaded(void *(*body)(void *), void *data);

/* Destroy a context by another thread, so that it stays current here. */
void ask_destroyed(CUcontext context);

/* Call a function inside a stream, as a callback or as a host function, and return when it is over. */
void ask_in_stream(CUstreamCallback callback, CUhostFn function);

/*
 * A second process of this group, connected by a Unix socket. Start it before the group touches CUDA; it is forked,
 * runs `body` and ends. It may ask questions itself while this one waits in peer_hear() or peer_wait().
 */
struct peer {
	pid_t pid; /* 0 on the peer's own side */
	int socket;
};
struct peer peer_start(void (*body)(struct peer *parent));
/* Send a word and, unless it is -1, a descriptor, which stays open here. */
void peer_tell(struct peer *peer, int word, int descriptor);
/* The next word, and its descriptor or -1; the group ends with the other side when that is gone. */
int peer_hear(struct peer *peer, int *ret_descriptor);
/* Hang up, wait for the peer and end as it ended, unless it ended well. */
void peer_wait(struct peer *peer);
/* End the peer in the middle of what it does. */
void peer_kill(struct peer *peer);

/* A gate that blocks a stream until the host opens it. */
struct gate {
	uint32_t *word;
	CUdeviceptr at;
	uint32_t closed;
};
struct gate gate_make(void);
void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);

#endif
