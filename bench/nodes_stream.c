/* SPDX-License-Identifier: MIT */
/*
 * What one would use between two machines without Cenote: messages over one TCP connection, plain or through the
 * cipher of cenote-imexd (its own imexd_tls.c, so the same suites and records). scripts/nodes_bench.py runs it.
 *
 *	nodes_stream serve plain|tls ADDRESS PORT                 says *ready*; answers callers, one after the other
 *	nodes_stream send plain|tls ADDRESS PORT BYTES COUNT      sends messages, each when the last one is acknowledged
 *
 * The sender prints the median and the 99th of 100, in nanoseconds, and all of the time.
 */
#include "imexd/imexd_tls.h"

#include "nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

enum { COUNT_MAX = 1 << 20, MESSAGE_BYTES_MAX = 64 << 20, PLAIN_BYTES = 1 << 17 };

struct stream {
	int fd;
	void *session; /* NULL: plain */
};

static uint64_t took_ns[COUNT_MAX];
static char *message;

static void fail(const char *what)
{
	printf("failed: %s\n", what);
	exit(1);
}

/* imexd_tls.c asks for it. */
const char *cn_imexd_read_key(const char *path, unsigned char ret_key[CN_IMEXD_KEY_BYTES_MAX], size_t *ret_bytes)
{
	(void)path;
	*ret_bytes = CN_IMEXD_KEY_BYTES_MIN;
	memset(ret_key, 1, *ret_bytes);
	return NULL;
}

static void await(const struct stream *stream, short events)
{
	struct pollfd polled = {.fd = stream->fd, .events = events};

	if (poll(&polled, 1, -1) != 1)
		fail("poll");
}

static void start_tls(struct stream *stream, int connects)
{
	int error;

	stream->session = cn_imexd_tls_open(stream->fd, connects);
	if (!stream->session)
		fail("no session");
	while ((error = cn_imexd_tls_shake(stream->session)) == EAGAIN)
		await(stream, cn_imexd_tls_shake_sends(stream->session) ? POLLOUT : POLLIN);
	if (error)
		fail("no handshake");
}

static void send_all(const struct stream *stream, const char *bytes, size_t count)
{
	while (count) {
		size_t most = stream->session ? CN_IMEXD_RECORD_BYTES : PLAIN_BYTES, part = count < most ? count : most;
		ssize_t sent = stream->session ? cn_imexd_tls_send(stream->session, bytes, part)
					       : send(stream->fd, bytes, part, MSG_NOSIGNAL);
		if (sent == -EAGAIN || (sent == -1 && errno == EAGAIN)) {
			await(stream, POLLOUT);
			continue;
		}
		if (sent <= 0)
			fail("the other end is gone");
		bytes += sent;
		count -= (size_t)sent;
	}
}

/* 0: the other end has hung up. */
static int receive_all(const struct stream *stream, char *bytes, size_t count)
{
	while (count) {
		size_t most = stream->session ? CN_IMEXD_RECORD_BYTES : PLAIN_BYTES, part = count < most ? count : most;
		ssize_t got = stream->session ? cn_imexd_tls_receive(stream->session, bytes, part)
					      : recv(stream->fd, bytes, part, 0);
		if (got == -EAGAIN || (got == -1 && errno == EAGAIN)) {
			await(stream, POLLIN);
			continue;
		}
		if (got <= 0)
			return 0;
		bytes += got;
		count -= (size_t)got;
	}
	return 1;
}

static void serve(const struct sockaddr_in *address, int tls)
{
	static const int on = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t bytes;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (const struct sockaddr *)address, sizeof *address) || listen(listener, 8))
		fail("the address");
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct stream stream = {.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
		if (stream.fd < 0)
			fail("accept");
		setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (tls)
			start_tls(&stream, 0);
		if (receive_all(&stream, (char *)&bytes, sizeof bytes) && bytes <= MESSAGE_BYTES_MAX)
			while (receive_all(&stream, message, bytes))
				send_all(&stream, "ack", 4);
		if (stream.session)
			cn_imexd_tls_close(stream.session);
		close(stream.fd);
	}
}

static void send_messages(const struct sockaddr_in *address, int tls, uint64_t bytes, int count)
{
	static const int on = 1;
	struct stream stream = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	char answer[4];

	if (connect(stream.fd, (const struct sockaddr *)address, sizeof *address) ||
	    fcntl(stream.fd, F_SETFL, O_RDWR | O_NONBLOCK))
		fail("connect");
	setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (tls)
		start_tls(&stream, 1);
	send_all(&stream, (const char *)&bytes, sizeof bytes);
	uint64_t begin_ns = 0;

	for (int i = -WARM_UP; i < count; i++) {
		uint64_t since_ns = now_ns();
		if (i == 0)
			begin_ns = since_ns;
		send_all(&stream, message, bytes);
		if (!receive_all(&stream, answer, sizeof answer))
			fail("no answer");
		if (i >= 0)
			took_ns[i] = now_ns() - since_ns;
	}
	uint64_t all_ns = now_ns() - begin_ns;
	qsort(took_ns, (size_t)count, sizeof *took_ns, compare_ns);
	printf("took %llu %llu %llu\n", (unsigned long long)took_ns[count / 2],
	       (unsigned long long)took_ns[(size_t)count * 99 / 100], (unsigned long long)all_ns);
	if (stream.session)
		cn_imexd_tls_close(stream.session);
	close(stream.fd);
}

int main(int argument_count, char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	if (argument_count < 5 || inet_pton(AF_INET, arguments[3], &address.sin_addr) != 1)
		return 2;
	address.sin_port = htons((uint16_t)atoi(arguments[4]));
	int tls = !strcmp(arguments[2], "tls");
	message = calloc(1, MESSAGE_BYTES_MAX);
	if (!message || (tls && cn_imexd_tls_begin(&(struct cn_imexd_settings){.node = 0})))
		fail("no memory, or GnuTLS");
	memset(message, 1, MESSAGE_BYTES_MAX);
	if (!strcmp(arguments[1], "serve"))
		serve(&address, tls);
	if (argument_count != 7)
		return 2;
	uint64_t bytes = strtoull(arguments[5], NULL, 10);
	int count = atoi(arguments[6]);
	if (bytes < 1 || bytes > MESSAGE_BYTES_MAX || count < 1 || count > COUNT_MAX)
		return 2;
	send_messages(&address, tls, bytes, count);
	return 0;
}
