/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that lead to nothing which the driver has exported, for the chapters that import from them.
 */
#ifndef CONFORMANCE_DESCRIPTORS_H
#define CONFORMANCE_DESCRIPTORS_H

#include "ask.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool is_open(int descriptor)
{
	return fcntl(descriptor, F_GETFD) >= 0;
}

static struct {
	int null, memory, pipe[2];
} wrong;

/* Asks of each; what is in `wrong` can be looked at afterwards. */
static inline void ask_wrong_descriptors(void (*ask)(const char *name, int descriptor))
{
	int sockets[2] = {-1, -1};

	if (pipe(wrong.pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return;
	wrong.null = open("/dev/null", O_RDWR);
	wrong.memory = memfd_create("memory", 0);
	int zero = open("/dev/zero", O_RDWR), directory = open("/", O_RDONLY), path = open("/", O_PATH);
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING), file = open("/proc/self/exe", O_RDONLY);
	int closed = dup(wrong.null);
	dup2(wrong.null, 0);
	close(closed);
	if (ftruncate(wrong.memory, 4 << 20) || ftruncate(sealed, 4 << 20) ||
	    fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return;
	ask("negative", -1);
	ask("negative_2", -2);
	ask("closed", closed);
	ask("never_opened", 100000);
	ask("0", 0);
	ask("pipe_reader", wrong.pipe[0]);
	ask("pipe_writer", wrong.pipe[1]);
	ask("socket", sockets[0]);
	ask("dev_null", wrong.null);
	ask("dev_zero", zero);
	ask("directory", directory);
	ask("path", path);
	ask("file", file);
	ask("memory_file", wrong.memory);
	ask("sealed_memory_file", sealed);
}

#endif
