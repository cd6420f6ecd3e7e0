/* SPDX-License-Identifier: MIT */
/*
 * What kernels print.
 *
 * As on a GPU it is kept, in the order in which it was printed, until the program waits for kernels, launches one,
 * loads a module, is called back by a stream, or ends. Only then is it written: to standard output, and failed
 * assertions to standard error. A thread that runs kernels does not write for them: another thread may hold the
 * program's FILE, or a pipe may be full, until that very kernel ends. Before it calls the program back it writes, but
 * does not wait for the FILE.
 *
 * A writer locks the FILE, then takes what is kept, then writes. So two writers keep the order, and a thread that holds
 * the FILE already does not wait for itself. What the FILE has buffered goes first. The rest bypasses it, since a FILE
 * drops what does not fit into a non-blocking pipe.
 *
 * There is a bound: beyond it the oldest is lost, as on a GPU.
 */
#include "device/host/host_internal.h"
#include "device/host/host_ptx.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PIECE_BYTES = 64 << 10,
	PIECES_MAX = 1024, /* 64 MiB; a GPU keeps some megabytes (CU_LIMIT_PRINTF_FIFO_SIZE) */
	END_MS_MAX = 1000, /* how long the end of the process waits for the reader of a pipe that does not block */
};

struct piece {
	struct piece *next;
	size_t bytes;
	char text[PIECE_BYTES];
};

struct printed {
	struct piece *first, *last;
	unsigned count;
};

static struct {
	CN_SLOW_LOCK(HOST_PRINT) lock;
	_Atomic bool filled;
	_Atomic pid_t owner; /* a forked child has a copy of what is kept, and must not write it again */
	struct printed output, complaints;
} kept;

/* ---- Keeping ----------------------------------------------------------------------------------------------------- */

static void drop_oldest_locked(struct printed *printed)
{
	while (printed->count >= PIECES_MAX && printed->first != printed->last) {
		struct piece *oldest = printed->first;
		printed->first = oldest->next;
		printed->count--;
		free(oldest);
	}
}

/* A piece with room for so many bytes, or an empty one. NULL: no memory, and what is printed now is lost. */
static struct piece *find_piece_locked(struct printed *printed, size_t bytes)
{
	struct piece *last = printed->last, *piece;

	if (last && bytes <= PIECE_BYTES - last->bytes)
		return last;
	piece = malloc(sizeof *piece);
	if (!piece)
		return NULL;
	piece->next = NULL;
	piece->bytes = 0;
	kept.owner = getpid();
	if (last)
		last->next = piece;
	else
		printed->first = piece;
	printed->last = piece;
	printed->count++;
	return piece;
}

static void keep(struct printed *printed, const char *text, size_t bytes)
{
	cn_slow_lock(&kept.lock);
	drop_oldest_locked(printed);
	while (bytes) {
		struct piece *piece = find_piece_locked(printed, bytes);
		if (!piece)
			break;
		size_t part = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
		memcpy(piece->text + piece->bytes, text, part);
		piece->bytes += part;
		text += part;
		bytes -= part;
	}
	atomic_store(&kept.filled, true);
	cn_slow_unlock(&kept.lock);
}

void cn_host_print(void *unused, const char *text, size_t bytes)
{
	(void)unused;
	keep(&kept.output, text, bytes);
}

void cn_host_complain(void *unused, const char *text, size_t bytes)
{
	(void)unused;
	keep(&kept.complaints, text, bytes);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static struct piece *take(struct printed *printed)
{
	cn_slow_lock(&kept.lock);
	struct piece *first = printed->first;
	*printed = (struct printed){NULL};
	if (!kept.output.first && !kept.complaints.first)
		atomic_store(&kept.filled, false);
	cn_slow_unlock(&kept.lock);
	return first;
}

/* False: its reader does not read. */
static bool wait_for_room(int fd, bool ending)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, ending ? END_MS_MAX : -1) != 0;
}

/* What cannot be written is lost, as that of any printf(). */
static void write_all(int fd, const char *text, size_t bytes, bool ending)
{
	while (bytes) {
		ssize_t written = write(fd, text, bytes);

		if (written < 0 && errno != EINTR && (errno != EAGAIN || !wait_for_room(fd, ending)))
			return;
		text += written > 0 ? written : 0;
		bytes -= written > 0 ? (size_t)written : 0;
	}
}

/* `file`: locked by this thread; or NULL, for the descriptor alone. */
static void write_pieces(struct piece *piece, FILE *file, int fd, bool ending)
{
	if (file && fd >= 0) {
		wait_for_room(fd, ending); /* a pipe that has room takes as much as a FILE holds for one */
		fflush_unlocked(file);
	}
	while (piece) {
		struct piece *next = piece->next;
		if (fd >= 0)
			write_all(fd, piece->text, piece->bytes, ending);
		else if (file) /* one that the program has made of something else */
			fwrite_unlocked(piece->text, 1, piece->bytes, file);
		free(piece);
		piece = next;
	}
	if (file && fd < 0)
		fflush_unlocked(file);
}

enum occasion {
	WAITING, /* a call of the program's: waits for the FILE */
	CALLING, /* before a callback: the FILE's holder may wait for the callback; what is kept stays */
	ENDING,  /* the process ends: a thread that has the FILE may never give it back; what is kept goes past it */
};

static void write_out(struct printed *printed, FILE *file, int usual_fd, enum occasion occasion)
{
	bool has_file = occasion == WAITING || ftrylockfile(file) == 0;

	if (occasion == WAITING)
		flockfile(file);
	struct piece *taken = has_file || occasion == ENDING ? take(printed) : NULL;
	if (taken)
		write_pieces(taken, has_file ? file : NULL, has_file ? fileno_unlocked(file) : usual_fd,
			     occasion == ENDING);
	if (has_file)
		funlockfile(file);
}

static __attribute__((noinline)) void write_kept(enum occasion occasion)
{
	int before, saved = errno;

	if (kept.owner != getpid())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	write_out(&kept.output, stdout, STDOUT_FILENO, occasion);
	write_out(&kept.complaints, stderr, STDERR_FILENO, occasion);
	pthread_setcancelstate(before, NULL);
	errno = saved;
}

static void flush(enum occasion occasion)
{
	if (__builtin_expect(atomic_load_explicit(&kept.filled, memory_order_acquire), 0))
		write_kept(occasion);
}

void cn_host_print_flush(void)
{
	flush(WAITING);
}

void cn_host_print_flush_for_callback(void)
{
	flush(CALLING);
}

/* What a kernel has printed that the program never waited for. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	flush(ENDING);
}
