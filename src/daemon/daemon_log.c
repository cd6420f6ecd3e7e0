/* SPDX-License-Identifier: MIT */
/*
 * What a daemon says on standard error. Alone in its file: a program can have its daemon's lines elsewhere.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

void cn_daemon_log(const char *format, ...)
{
	static unsigned long dropped_count;
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[LINE_BYTES];
	va_list arguments;

	int start = snprintf(line, sizeof line, "%s[%d]: ", program_invocation_short_name, (int)getpid());
	va_start(arguments, format);
	int length = vsnprintf(line + start, sizeof line - (size_t)start - 1, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	length += start;
	length = length < LINE_BYTES - 2 ? length : LINE_BYTES - 2;
	line[length] = '\n';
	/* A pipe that can be written has room for PIPE_BUF bytes, which is more than a line. */
	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT) || write(STDERR_FILENO, line, (size_t)length + 1) < 0)
		dropped_count++;
}
