/* SPDX-License-Identifier: MIT */
/*
 * Where a call comes from, for `cenote check`.
 *
 * A stack is walked once and kept as a number. Of the last few of each thread is also known where on the stack the
 * return addresses stand: while the words there are the same, so is the stack, and comparing them takes some
 * nanoseconds in place of microseconds. (A word of a frame that has returned may still be there. All words of ten
 * frames are not, unless the very same calls were made.)
 *
 * A frame is written as a file and an offset in it, which mean the same in every process, after it has ended, too.
 */
#include "trace.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	STACKS_MAX = 1 << 14, /* of a process; calls from others have none */
	STACK_ROWS = 2 * STACKS_MAX,
	MODULES_MAX = 512,
	WALKED_MAX = CN_TRACE_FRAMES + 6, /* with our own frames */
	RECENT = 16,                      /* stacks that a thread knows */
};

bool cn_trace_checks;

static struct {
	pthread_mutex_t lock;
	unsigned int generation; /* counts forks */
	uint32_t stack_count;
	struct stack {
		uint64_t digest;
		uint32_t number;
	} stacks[STACK_ROWS];
	int module_count;
	const struct link_map *modules[MODULES_MAX];
	uintptr_t own_begin, own_end; /* this library */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The stack of a call at this place of this thread's, and where its return addresses stand. */
struct recent {
	const void *place;
	unsigned int generation;
	uint32_t number;
	int count;
	void *frames[WALKED_MAX];
	void *const *words[WALKED_MAX];
};

/* Outside of the thread's static block, which has room for little. Freed when the thread ends. */
struct thread {
	uintptr_t stack_end; /* 1: it cannot be known */
	int next;
	struct recent list[RECENT];
};

static _Thread_local struct thread *here;
static pthread_key_t thread_key;

static int find_own(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_phdr[i].p_type != PT_LOAD || (uintptr_t)find_own < begin || (uintptr_t)find_own >= end)
			continue;
		known.own_begin = begin;
		known.own_end = end;
		return 1;
	}
	return 0;
}

static void end_thread(void *thread)
{
	here = NULL;
	free(thread);
}

__attribute__((constructor)) static void prepare(void)
{
	const char *wanted = getenv(CN_TRACE_CHECK_VARIABLE);

	cn_trace_checks = wanted && strcmp(wanted, "1") == 0;
	if (!cn_trace_checks)
		return;
	dl_iterate_phdr(find_own, NULL);
	pthread_key_create(&thread_key, end_thread);
}

void cn_trace_forget_stacks(void)
{
	pthread_mutex_init(&known.lock, NULL);
	memset(known.stacks, 0, known.stack_count ? sizeof known.stacks : 0);
	known.stack_count = 0;
	known.module_count = 0;
	known.generation++;
}

/* ---- A new stack ------------------------------------------------------------------------------------------------- */

/* With the lock held. MODULES_MAX: there is no more room. */
static uint64_t find_module(const struct link_map *module, const char *path)
{
	for (int i = 0; i < known.module_count; i++)
		if (known.modules[i] == module)
			return (uint64_t)i;
	if (known.module_count == MODULES_MAX)
		return MODULES_MAX;
	known.modules[known.module_count] = module;
	/* The program itself is called as it was started, which may be by any name. */
	char program[PATH_MAX] = "";
	if (!*module->l_name && readlink("/proc/self/exe", program, sizeof program - 1) > 0)
		path = program;
	cn_trace_text(CN_TRACE_MODULE, (uint64_t)known.module_count, path);
	return (uint64_t)known.module_count++;
}

static uint64_t frame_of(const void *address)
{
	struct link_map *module = NULL;
	Dl_info info;

	if (!dladdr1(address, &info, (void **)&module, RTLD_DL_LINKMAP) || !module)
		return 0;
	uint64_t number = find_module(module, info.dli_fname ? info.dli_fname : "");
	uint64_t offset = (uint64_t)(uintptr_t)address - (uint64_t)module->l_addr;
	if (number == MODULES_MAX || offset >> CN_TRACE_NUMBER_SHIFT)
		return 0;
	return number << CN_TRACE_NUMBER_SHIFT | offset;
}

static uint64_t digest_of(void *const *frames, int count)
{
	uint64_t number = (uint64_t)count;

	for (int i = 0; i < count; i++) {
		number = (number ^ CN_NUMBER(frames[i])) * 0x9e3779b97f4a7c15u;
		number ^= number >> 29;
	}
	return number ? number : 1;
}

/* The number of a stack; what it is made of is written once. */
static uint32_t number_of(void *const *frames, int count)
{
	uint64_t digest = digest_of(frames, count), words[CN_TRACE_FRAMES];
	uint32_t number = 0;

	pthread_mutex_lock(&known.lock);
	struct stack *row = &known.stacks[digest % STACK_ROWS];
	while (row->number && row->digest != digest)
		row = row + 1 < known.stacks + STACK_ROWS ? row + 1 : known.stacks;
	if (row->number) {
		number = row->number;
	} else if (known.stack_count < STACKS_MAX) {
		for (int i = 0; i < count; i++)
			words[i] = frame_of(frames[i]);
		number = ++known.stack_count;
		*row = (struct stack){digest, number};
		cn_trace_put_words(CN_TRACE_STACK, number, words, (size_t)count);
	}
	pthread_mutex_unlock(&known.lock);
	return number;
}

/* ---- A stack that was seen before -------------------------------------------------------------------------------- */

static uintptr_t find_stack_end(void)
{
	pthread_attr_t attributes;
	void *begin = NULL;
	size_t bytes = 0;

	if (pthread_getattr_np(pthread_self(), &attributes))
		return 1;
	pthread_attr_getstack(&attributes, &begin, &bytes);
	pthread_attr_destroy(&attributes);
	return (uintptr_t)begin + bytes;
}

/* Where the return addresses stand. False: not all were found. */
static bool find_words(struct recent *recent, const void *place)
{
	uintptr_t at = (uintptr_t)place & ~(uintptr_t)7;

	for (int i = 0; i < recent->count; i++) {
		for (;; at += sizeof(void *)) {
			if (at + sizeof(void *) > here->stack_end)
				return false;
			if (*(void *const *)at == recent->frames[i])
				break;
		}
		recent->words[i] = (void *const *)at;
		at += sizeof(void *);
	}
	return true;
}

static bool is_same(const struct recent *recent)
{
	for (int i = 0; i < recent->count; i++)
		if (*recent->words[i] != recent->frames[i])
			return false;
	return true;
}

static uint32_t walk(const void *place, struct recent *recent)
{
	void *frames[WALKED_MAX];
	int count = backtrace(frames, WALKED_MAX), first = 0;

	while (first < count && (uintptr_t)frames[first] >= known.own_begin && (uintptr_t)frames[first] < known.own_end)
		first++;
	count = count - first < CN_TRACE_FRAMES ? count - first : CN_TRACE_FRAMES;
	if (count <= 0)
		return 0;
	*recent = (struct recent){.generation = known.generation, .count = count};
	memcpy(recent->frames, frames + first, (size_t)count * sizeof *frames);
	recent->number = number_of(recent->frames, count);
	/* The outermost frames may have been entered otherwise than by a call: they are the same for all. */
	while (recent->count > 1 && !find_words(recent, place))
		recent->count--;
	recent->place = recent->count > 1 || find_words(recent, place) ? place : NULL;
	return recent->number;
}

static bool meet_thread(void)
{
	here = calloc(1, sizeof *here);
	if (!here)
		return false;
	here->stack_end = find_stack_end();
	pthread_setspecific(thread_key, here);
	return true;
}

uint32_t cn_trace_stack(void)
{
	const void *place = __builtin_frame_address(0);

	if (!here && !meet_thread())
		return 0;
	for (int i = 0; i < RECENT; i++) {
		const struct recent *recent = &here->list[i];
		if (recent->place == place && recent->generation == known.generation && is_same(recent))
			return recent->number;
	}
	struct recent *recent = &here->list[here->next];
	here->next = (here->next + 1) % RECENT;
	return walk(place, recent);
}
