/* SPDX-License-Identifier: MIT */
/*
 * What kernels print.
 *
 * As on a GPU it is kept, in the order in which it was printed, until the program waits for its kernels, and is then
 * written to standard output. What does not fit is written at once: nothing is lost.
 */
#include "device/host/host_internal.h"
#include "device/host/host_ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 1 << 20 }; /* CU_LIMIT_PRINTF_FIFO_SIZE of a new context */

static struct {
	CN_SLOW_LOCK(HOST_PRINT) lock;
	_Atomic bool filled;
	char *text;
	size_t bytes;
} printed;

/* Locked: so that two threads that wait keep the order. */
static void write_locked(void)
{
	if (printed.bytes) {
		fwrite(printed.text, 1, printed.bytes, stdout);
		fflush(stdout);
	}
	printed.bytes = 0;
	atomic_store(&printed.filled, false);
}

void cn_host_print(void *unused, const char *text, size_t bytes)
{
	(void)unused;
	cn_slow_lock(&printed.lock);
	if (!printed.text)
		printed.text = malloc(ROOM_BYTES);
	if (!printed.text || bytes > ROOM_BYTES - printed.bytes)
		write_locked();
	if (!printed.text || bytes > ROOM_BYTES) {
		fwrite(text, 1, bytes, stdout);
		fflush(stdout);
	} else {
		memcpy(printed.text + printed.bytes, text, bytes);
		printed.bytes += bytes;
		atomic_store(&printed.filled, true);
	}
	cn_slow_unlock(&printed.lock);
}

void cn_host_print_flush(void)
{
	if (!atomic_load_explicit(&printed.filled, memory_order_acquire))
		return;
	cn_slow_lock(&printed.lock);
	write_locked();
	cn_slow_unlock(&printed.lock);
}
