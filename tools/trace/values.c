/* SPDX-License-Identifier: MIT */
/*
 * What is kept of arguments: handles as numbers that are the same in every process, and functions' names.
 */
#include "trace.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Handles ----------------------------------------------------------------------------------------------------- */

enum { HANDLE_BYTES = 64 };

/* Of whole words. Never 0, which stands for "not known". */
static uint64_t digest(const uint64_t *words, size_t count)
{
	uint64_t number = 0;

	for (size_t i = 0; i < count; i++) {
		number = (number ^ words[i]) * 0x9e3779b97f4a7c15u;
		number ^= number >> 32;
	}
	return number ? number : 1;
}

uint64_t cn_trace_blob(const void *bytes)
{
	uint64_t words[HANDLE_BYTES / sizeof(uint64_t)];

	if (!bytes)
		return 0;
	memcpy(words, bytes, sizeof words);
	return digest(words, sizeof words / sizeof words[0]);
}

/*
 * A descriptor leads to the same object in every process that got it. A device file says nothing, though: a driver may
 * have all its memory behind the same one.
 */
uint64_t cn_trace_descriptor(int descriptor)
{
	struct stat status;

	if (fstat(descriptor, &status) || S_ISCHR(status.st_mode))
		return 0;
	uint64_t numbers[] = {status.st_dev, status.st_ino};
	return digest(numbers, sizeof numbers / sizeof numbers[0]);
}

uint64_t cn_trace_made(const void *handle, int type)
{
	int descriptor;

	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_trace_blob(handle);
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return 0;
	memcpy(&descriptor, handle, sizeof descriptor);
	return cn_trace_descriptor(descriptor);
}

uint64_t cn_trace_given(const void *handle, int type)
{
	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_trace_blob(handle);
	return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? cn_trace_descriptor((int)(intptr_t)handle) : 0;
}

/* What /proc/self/maps says of an address. */
static bool find_file(uint64_t address, uint64_t numbers[2], uint64_t *ret_offset)
{
	FILE *maps = cn_trace_checks ? fopen("/proc/self/maps", "re") : NULL;
	char line[512], shared;
	bool found = false;

	while (maps && !found && fgets(line, sizeof line, maps)) {
		unsigned long begin, end, offset, inode;
		unsigned int major, minor;
		if (sscanf(line, "%lx-%lx %*3c%c %lx %x:%x %lu", &begin, &end, &shared, &offset, &major, &minor,
			   &inode) != 7 ||
		    address < begin || address >= end)
			continue;
		found = shared == 's' && inode;
		numbers[0] = (uint64_t)major << 32 | minor;
		numbers[1] = inode;
		*ret_offset = offset + (address - begin);
		break;
	}
	if (maps)
		fclose(maps);
	return found;
}

uint64_t cn_trace_file_of(const void *address)
{
	uint64_t numbers[2], offset;

	return find_file(CN_NUMBER(address), numbers, &offset) ? digest(numbers, 2) : 0;
}

void cn_trace_file_at(const struct cn_trace_call *call, const void *address)
{
	uint64_t numbers[2], offset;

	if (find_file(CN_NUMBER(address), numbers, &offset))
		cn_trace_words(call, &offset, 1);
}

uint64_t cn_trace_pool_of_number(uint64_t address)
{
	static _Atomic(void *) found;
	__typeof__(cuPointerGetAttribute) *get = (__typeof__(get))atomic_load(&found);
	CUmemoryPool pool = NULL;

	if (!get) {
		get = (__typeof__(get))cn_trace_find("cuPointerGetAttribute");
		atomic_store(&found, (void *)get);
	}
	/* A block of no bytes is NULL, and of no pool. */
	if (!get || !address || get(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr)address))
		return 0;
	return CN_NUMBER(pool);
}

/* ---- Names of functions ------------------------------------------------------------------------------------------ */

enum { NAMES_MAX = 4096, NAME_BYTES = 64 };

static struct {
	pthread_mutex_t lock;
	int count;
	struct name {
		uint64_t function;
		bool noted;
		char text[NAME_BYTES];
	} list[NAMES_MAX];
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct name *find_name(uint64_t function)
{
	for (int i = 0; i < names.count; i++)
		if (names.list[i].function == function)
			return &names.list[i];
	return NULL;
}

void cn_trace_name_number(uint64_t function, const char *text)
{
	pthread_mutex_lock(&names.lock);
	struct name *name = find_name(function);
	if (!name && names.count < NAMES_MAX)
		name = &names.list[names.count++];
	if (name && (name->function != function || strncmp(name->text, text, NAME_BYTES - 1) != 0)) {
		*name = (struct name){.function = function};
		strncpy(name->text, text, NAME_BYTES - 1);
	}
	pthread_mutex_unlock(&names.lock);
}

void cn_trace_note_name(uint64_t function)
{
	char text[NAME_BYTES] = "";

	pthread_mutex_lock(&names.lock);
	struct name *name = find_name(function);
	if (name && !name->noted) {
		memcpy(text, name->text, sizeof text);
		name->noted = true;
	}
	pthread_mutex_unlock(&names.lock);
	if (*text)
		cn_trace_text(CN_TRACE_FUNCTION_NAME, function, text);
}

void cn_trace_forget_notes(void)
{
	pthread_mutex_init(&names.lock, NULL);
	for (int i = 0; i < names.count; i++)
		names.list[i].noted = false;
}

/* A kernel of the host device registers itself, perhaps where there is no Cenote. */
CN_SHOWN void cenote_kernel_register(const cenote_kernel *kernel)
{
	void (*next)(const cenote_kernel *) = (void (*)(const cenote_kernel *))cn_trace_find("cenote_kernel_register");

	if (kernel->version == CENOTE_KERNEL_VERSION && kernel->name)
		cn_trace_name_number(CN_NUMBER(kernel->function), kernel->name);
	if (next)
		next(kernel);
}
