/* SPDX-License-Identifier: MIT */
/*
 * What kernels print.
 *
 * As on a GPU it is kept, in the order in which it was printed, until the program waits for its kernels, and is then
 * written to standard output; failed assertions to standard error. What does not fit is written at once: nothing is
 * lost.
 */
#include "device/host/host_internal.h"
#include "device/host/host_ptx.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 1 << 20 }; /* CU_LIMIT_PRINTF_FIFO_SIZE of a new context */

struct printed {
	char *text;
	size_t bytes;
};

static struct {
	CN_SLOW_LOCK(HOST_PRINT) lock;
	_Atomic bool filled;
	struct printed output, complaints;
} kept;

/* The lock is held across the writing, so that two threads that wait keep the order. No thread ends with it. */
static int lock_kept(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	cn_slow_lock(&kept.lock);
	return before;
}

static void unlock_kept(int before)
{
	cn_slow_unlock(&kept.lock);
	pthread_setcancelstate(before, NULL);
}

static void write_out(struct printed *printed, FILE *file)
{
	if (printed->bytes) {
		fwrite(printed->text, 1, printed->bytes, file);
		fflush(file);
	}
	printed->bytes = 0;
}

static void keep(struct printed *printed, FILE *file, const char *text, size_t bytes)
{
	int before = lock_kept();

	if (!printed->text)
		printed->text = malloc(ROOM_BYTES);
	if (!printed->text || bytes > ROOM_BYTES - printed->bytes)
		write_out(printed, file);
	if (!printed->text || bytes > ROOM_BYTES) {
		fwrite(text, 1, bytes, file);
		fflush(file);
	} else {
		memcpy(printed->text + printed->bytes, text, bytes);
		printed->bytes += bytes;
		atomic_store(&kept.filled, true);
	}
	unlock_kept(before);
}

void cn_host_print(void *unused, const char *text, size_t bytes)
{
	(void)unused;
	keep(&kept.output, stdout, text, bytes);
}

void cn_host_complain(void *unused, const char *text, size_t bytes)
{
	(void)unused;
	keep(&kept.complaints, stderr, text, bytes);
}

void cn_host_print_flush(void)
{
	if (!atomic_load_explicit(&kept.filled, memory_order_acquire))
		return;
	int before = lock_kept();
	write_out(&kept.output, stdout);
	write_out(&kept.complaints, stderr);
	atomic_store(&kept.filled, false);
	unlock_kept(before);
}
