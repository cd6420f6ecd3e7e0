/* SPDX-License-Identifier: MIT */
/*
 * Errors: the sentence of each thread, and CUDA's table of codes.
 */
#include "base/error.h"

#include "base/call.h"
#include "base/environment.h"
#include "base/lock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The sentence is behind a pointer, and allocated at a thread's first failure: a library that a program opens late
 * finds little room for thread-local data.
 */
static _Thread_local char *sentence __attribute__((tls_model("initial-exec"))); /* NULL: none yet */
static _Thread_local signed char hush_count;

static const char no_sentence[CN_SENTENCE_BYTES];
static const char no_memory[CN_SENTENCE_BYTES] = "no memory for the sentence of this error";

static struct {
	CN_LOCK(SENTENCE_KEY) lock;
	_Atomic bool made;
	pthread_key_t key; /* frees a thread's sentence at its end */
} sentences;

static void free_sentence(void *text)
{
	sentence = NULL;
	free(text);
}

static bool make_key(void)
{
	if (!atomic_load_explicit(&sentences.made, memory_order_acquire)) {
		cn_lock(&sentences.lock);
		if (!sentences.made && !pthread_key_create(&sentences.key, free_sentence))
			atomic_store_explicit(&sentences.made, true, memory_order_release);
		cn_unlock(&sentences.lock);
	}
	return sentences.made;
}

/* Where this thread's sentence goes; NULL: there is no memory for one. */
static char *own_sentence(void)
{
	if (sentence && sentence != no_memory)
		return sentence;
	char *text = make_key() ? calloc(1, CN_SENTENCE_BYTES) : NULL;
	if (text && pthread_setspecific(sentences.key, text)) {
		free(text);
		text = NULL;
	}
	return text;
}

static bool log_wanted(void)
{
	const char *level = cn_environment(CN_ENVIRONMENT_LOG);

	return level && strcmp(level, "debug") == 0;
}

/* cenote[1234] cuMemAlloc: INVALID_VALUE: an allocation of 0 bytes */
static void print_error(CUresult code, const char *text)
{
	static const char prefix[] = "CUDA_ERROR_";
	const char *name = cn_result_name(code), *call = cn_call_name();
	char number[32];

	if (!name) { /* a code that only the runtime has */
		snprintf(number, sizeof number, "error %d", (int)code);
		name = number;
	}
	if (strncmp(name, prefix, strlen(prefix)) == 0)
		name += strlen(prefix);
	fprintf(stderr, "cenote[%d]%s%s: %s: %s\n", (int)getpid(), call ? " " : "", call ? call : "", name, text);
}

void cn_log_check(void)
{
	const char *level = cn_environment(CN_ENVIRONMENT_LOG);

	if (level && !log_wanted())
		fprintf(stderr, "cenote[%d]: CENOTE_LOG is '%s', and nothing is logged; it takes debug\n",
			(int)getpid(), level);
}

void cn_error_keep(CUresult code, const char *format, ...)
{
	char spare[CN_SENTENCE_BYTES], *own = own_sentence(), *text = own ? own : spare;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, CN_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	sentence = own ? own : (char *)(uintptr_t)no_memory;
	if (!hush_count && log_wanted())
		print_error(code, text);
}

const char *cn_last_error(void)
{
	return sentence ? sentence : no_sentence;
}

void cn_error_forget(const char kept[CN_SENTENCE_BYTES])
{
	if (sentence && sentence != no_memory)
		memcpy(sentence, kept, CN_SENTENCE_BYTES);
}

void cn_error_hush(bool hushed)
{
	hush_count = (signed char)(hush_count + (hushed ? 1 : -1));
}

void cn_error_repeat(CUresult code)
{
	if (!hush_count && log_wanted())
		print_error(code, cn_last_error());
}

void cn_log(const char *format, ...)
{
	char text[2 * CN_SENTENCE_BYTES];
	va_list arguments;

	if (!log_wanted())
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "cenote[%d]: %s\n", (int)getpid(), text);
}
