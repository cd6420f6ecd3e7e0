/* SPDX-License-Identifier: MIT */
/*
 * What both processes of the demo need: to report what they did, to talk to each other, to fail.
 */
#include "demo.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct actor actor;

int64_t demo_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double demo_ms_since(int64_t time_ns)
{
	return (double)(demo_now_ns() - time_ns) / 1e6;
}

void demo_tell(struct moment what, const char *format, ...)
{
	va_list arguments;

	what.time_ns = demo_now_ns();
	what.who = actor.who;
	what.chapter = actor.chapter;
	va_start(arguments, format);
	vsnprintf(what.text, sizeof what.text, format, arguments);
	va_end(arguments);
	/* One piece: the other process writes, too, and so do streams of this one. */
	if (write(actor.record, &what, sizeof what) != sizeof what)
		_exit(EXIT_FAILURE); /* the command has ended */
}

void demo_fail(const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "cenote demo: the %s: %s\n", demo_names[actor.who], text);
	exit(EXIT_FAILURE);
}

void demo_check(int result, const char *call)
{
	const char *name = "an unknown error";

	if (!result)
		return;
	cuGetErrorName((CUresult)result, &name);
	demo_fail("%.*s: %s: %s", (int)strcspn(call, "("), call, name, cenote_last_error());
}

void demo_send(const void *bytes, unsigned count)
{
	if (send(actor.sock, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
		demo_fail("the other process cannot be told: %s", strerror(errno));
}

void demo_receive(void *bytes, unsigned count)
{
	ssize_t came;

	do
		came = recv(actor.sock, bytes, count, 0);
	while (came < 0 && errno == EINTR);
	if (came != (ssize_t)count)
		exit(EXIT_FAILURE); /* the other process has ended, and said why */
}

void demo_await(void)
{
	struct pollfd poll_for = {.fd = actor.sock, .events = POLLIN};

	char byte;

	while (poll(&poll_for, 1, -1) < 0 && errno == EINTR)
		;
	if (recv(actor.sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		exit(EXIT_FAILURE); /* the same */
}
