/* SPDX-License-Identifier: MIT */
/*
 * Kernels that the program has loaded, by name: where their PTX is, and what it says; for `cenote check`.
 *
 * A module is text, or a fat binary that has some, as nvcc and `cenote cc` make them; of machine code nothing is known.
 * The text is kept, and a kernel is read when it is first launched: a library has thousands, and a program launches a
 * few. Kernels in C are named when their program declares them (cenote.h).
 *
 * A name may come more than once: a template's kernel is in each file that uses it. If the codes differ, so that one
 * writes where another reads, nothing is said of the name.
 */
#include "trace.h"

#include "base/fatbin.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KERNELS_MAX = 1 << 16,
	ROWS = 4096,
	LIST_MAX = 4096, /* fat binaries of one image */
	TARGET = 1000,   /* any architecture */
	FILE_BYTES_MAX = 64 << 20,
};

/* Of all texts that are kept. */
static const size_t bytes_max = 256 << 20;

struct kernel {
	struct kernel *next; /* of its row */
	uint64_t name;
	const char *text; /* behind .entry; NULL: it is known */
	struct cn_trace_kernel does;
};

struct text {
	struct text *next;
	char bytes[]; /* and a zero byte */
};

static struct {
	pthread_mutex_t lock;
	int count;
	struct text *texts;
	size_t bytes;
	struct kernel *rows[ROWS];
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static struct kernel *add_kernel(uint64_t name, const char *text)
{
	struct kernel *kernel = kernels.count < KERNELS_MAX ? calloc(1, sizeof *kernel) : NULL;

	if (!kernel)
		return NULL;
	*kernel = (struct kernel){.next = kernels.rows[name % ROWS], .name = name, .text = text};
	kernels.rows[name % ROWS] = kernel;
	kernels.count++;
	return kernel;
}

/* ---- Images ------------------------------------------------------------------------------------------------------ */

/* With the lock held. True: there are some. */
static bool add_kernels(const char *text)
{
	static const char entry[] = ".entry";
	bool has_some = false;

	while ((text = strstr(text, entry))) {
		text += strlen(entry);
		text += strspn(text, " \t\r\n");
		size_t length = strcspn(text, "({; \t\r\n");
		has_some |= add_kernel(cn_trace_digest_text(text, length), text) != NULL;
	}
	return has_some;
}

/* What is kept of a text: its kernels' places in a copy of it. */
static void add_text(const char *from, size_t bytes)
{
	struct text *text = NULL;

	pthread_mutex_lock(&kernels.lock);
	if (bytes <= bytes_max - kernels.bytes)
		text = malloc(sizeof *text + bytes + 1);
	if (text) {
		memcpy(text->bytes, from, bytes);
		text->bytes[bytes] = 0;
	}
	if (text && add_kernels(text->bytes)) {
		text->next = kernels.texts;
		kernels.texts = text;
		kernels.bytes += bytes;
		text = NULL;
	}
	pthread_mutex_unlock(&kernels.lock);
	free(text);
}

static void add_fat_binary(const void *image, size_t bytes)
{
	char sentence[CN_FATBIN_SENTENCE_BYTES];
	struct cn_fatbin_text text;

	if (cn_fatbin_read(image, bytes, TARGET, sentence, &text))
		return;
	add_text(text.text, strnlen(text.text, text.bytes));
	free(text.owned);
}

static void add_wrapper(const struct cn_fatbin_wrapper *wrapper)
{
	if (wrapper->version == 1 && wrapper->data)
		add_fat_binary(wrapper->data, SIZE_MAX / 2);
	for (int i = 0; wrapper->version == 2 && wrapper->list && i < LIST_MAX && wrapper->list[i]; i++)
		add_fat_binary(wrapper->list[i], SIZE_MAX / 2);
}

static bool is_text(const char *image)
{
	return *image == '/' || *image == '.' || isspace((unsigned char)*image);
}

static void add_image(const void *image)
{
	uint32_t magic;

	if (is_text(image)) {
		add_text(image, strlen(image));
		return;
	}
	memcpy(&magic, image, sizeof magic);
	if (magic == CN_FATBIN_MAGIC) {
		add_fat_binary(image, SIZE_MAX / 2);
	} else if (magic == CN_FATBIN_WRAPPER_MAGIC) {
		struct cn_fatbin_wrapper wrapper;
		memcpy(&wrapper, image, sizeof wrapper);
		add_wrapper(&wrapper);
	}
}

void cn_trace_image(const void *image)
{
	if (cn_trace_checks && image)
		add_image(image);
}

/*
 * Programs that nvcc has compiled tell their runtime of their kernels, some before this library has begun. NVIDIA's
 * runtime may load them by ways of its own.
 */
void **__cudaRegisterFatBinary(void *binary);
CN_SHOWN void **__cudaRegisterFatBinary(void *binary)
{
	void **(*next)(void *) = (void **(*)(void *))cn_trace_find("__cudaRegisterFatBinary");
	const char *checks = getenv(CN_TRACE_CHECK_VARIABLE);

	if (checks && strcmp(checks, "1") == 0 && binary)
		add_image(binary);
	return next ? next(binary) : NULL;
}

void cn_trace_file(const char *path)
{
	FILE *file = cn_trace_checks && path ? fopen(path, "re") : NULL;
	char *bytes = file ? malloc(FILE_BYTES_MAX + 1) : NULL;

	if (bytes) {
		size_t count = fread(bytes, 1, FILE_BYTES_MAX, file);
		bytes[count] = 0;
		if (count && is_text(bytes))
			add_text(bytes, strlen(bytes));
		else
			add_fat_binary(bytes, count);
	}
	free(bytes);
	if (file)
		fclose(file);
}

/* ---- What they do ------------------------------------------------------------------------------------------------ */

/* A kernel in C says what it does. */
CN_SHOWN void cenote_kernel_declare(const cenote_kernel *kernel, const unsigned char *uses, unsigned int count)
{
	void (*next)(const cenote_kernel *, const unsigned char *, unsigned int) = (void (*)(
		const cenote_kernel *, const unsigned char *, unsigned int))cn_trace_find("cenote_kernel_declare");

	if (kernel->version == CENOTE_KERNEL_VERSION && kernel->name && uses) {
		pthread_mutex_lock(&kernels.lock);
		struct kernel *added = add_kernel(cn_trace_digest_text(kernel->name, strlen(kernel->name)), NULL);
		for (unsigned int i = 0; added && i < kernel->parameter_count && i < CN_TRACE_PARAMETERS_MAX; i++) {
			added->does.uses[i] = i < count && uses[i] <= CENOTE_NO_USE ? uses[i] : CENOTE_MAY_USE;
			added->does.parameter_count++;
		}
		pthread_mutex_unlock(&kernels.lock);
	}
	if (next)
		next(kernel, uses, count);
}

int cn_trace_kernel_does(const char *name, int parameter)
{
	uint64_t digest = cn_trace_digest_text(name, strlen(name));
	int does = -1;

	pthread_mutex_lock(&kernels.lock);
	for (struct kernel *kernel = kernels.rows[digest % ROWS]; kernel; kernel = kernel->next) {
		if (kernel->name != digest)
			continue;
		if (kernel->text)
			cn_trace_read_kernel(kernel->text, &kernel->does);
		kernel->text = NULL;
		int now = parameter < kernel->does.parameter_count ? kernel->does.uses[parameter] : CN_TRACE_MAY_USE;
		if (does >= 0 && does != now)
			now = CN_TRACE_MAY_USE | ((does | now) & CN_TRACE_ORDERS_ITSELF);
		does = now;
	}
	pthread_mutex_unlock(&kernels.lock);
	return does < 0 ? CN_TRACE_MAY_USE : does;
}

void cn_trace_forget_kernels(void)
{
	/* A child has what its parent had read; the lock may have been somebody's. */
	pthread_mutex_init(&kernels.lock, NULL);
}
