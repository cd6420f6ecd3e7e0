/* SPDX-License-Identifier: MIT */
/*
 * What strangers send, and strangers who listen: see fuzz.h.
 */
#include "fuzz.h"

#include "base/segment.h"
#include "share/pool/control.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

/* ---- Descriptors ---- */

enum { OFFERS_MAX = 16, RIGHTS_MAX = 6 };

static int offers[OFFERS_MAX];
static unsigned offer_count;

void fuzz_offer(int descriptor)
{
	FUZZ_CHECK(offer_count < OFFERS_MAX);
	offers[offer_count++] = descriptor;
}

int fuzz_memory_file(const char *name, size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0) /* a name or flags that the system does not take */
		fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FUZZ_CHECK(fd >= 0);
	if (!ftruncate(fd, (off_t)bytes)) /* else it has none: huge pages come as a whole */
		fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

/* The same file, opened otherwise: -1 if it cannot be. */
static int open_again(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

static int any_memory_file(struct fuzz_input *input)
{
	static const size_t sizes[] = {
		CN_PART_BYTES, sizeof(struct cn_control), sizeof(struct cn_ledger), 2 << 20, 4096, 0, 8 << 10,
		12 << 10};
	static const int seals[] = {F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
				    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0};
	static const int ways[] = {O_RDONLY, O_WRONLY, O_PATH, O_RDWR};
	unsigned which = fuzz_byte(input), how = fuzz_byte(input), seal = fuzz_byte(input);
	size_t bytes = sizes[which % 8] + (which & 8 ? (int)fuzz_byte(input) * 4096 - 8 * 4096 : 0);
	char contents[64];

	if (bytes > sizeof(struct cn_control) + (1 << 20))
		bytes = 0; /* below nothing */
	int fd = fuzz_memory_file("fuzz", bytes, which & 16 ? 4u /* MFD_HUGETLB */ : 0, 0);
	if (which & 32) {
		fuzz_bytes(input, contents, sizeof contents);
		if (pwrite(fd, contents, bytes < sizeof contents ? bytes : sizeof contents, 0) < 0)
			return fd; /* of huge pages, of which there are none */
	}
	fcntl(fd, F_ADD_SEALS, seal & 32 ? (int)(seal & 31) : seals[seal % 4]);
	if (how & 4) {
		int again = open_again(fd, ways[how & 3]);
		if (again >= 0) {
			close(fd);
			fd = again;
		}
	}
	return fd;
}

/* A socket in a file that is gone: it has no listener any more. */
static int dead_socket(struct fuzz_input *input)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0x0ce20001}};
	static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM};
	unsigned how = fuzz_byte(input);
	int sock = socket(AF_UNIX, types[how % 3] | SOCK_CLOEXEC, 0);

	FUZZ_CHECK(sock >= 0);
	int directory = open(fuzz_directory(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/dead", directory);
	FUZZ_CHECK(!bind(sock, (const struct sockaddr *)&address, sizeof address));
	int fd = open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	times[1].tv_sec += how & 16 ? (time_t)fuzz_number(input) % 1000 : 0;
	times[1].tv_nsec = (long)(fuzz_number(input) % 1000000000);
	utimensat(AT_FDCWD, address.sun_path, times, 0);
	unlink(address.sun_path);
	close(directory);
	close(sock);
	return fd;
}

static int one_of(int which)
{
	int ends[2];

	if (which == 0)
		FUZZ_CHECK(!pipe2(ends, O_CLOEXEC));
	else
		FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	close(ends[1]);
	return ends[0];
}

int fuzz_descriptor(struct fuzz_input *input)
{
	int fd = -1;

	switch (fuzz_below(input, 16)) {
	case 0:
	case 1:
	case 2: return any_memory_file(input);
	case 3: fd = one_of(0); break;
	case 4: fd = one_of(1); break;
	case 5: fd = open("/dev/null", O_RDWR | O_CLOEXEC); break;
	case 6: fd = open("/", O_PATH | O_CLOEXEC); break;
	case 7: fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC); break;
	case 8: fd = eventfd(0, EFD_CLOEXEC); break;
	case 9: fd = epoll_create1(EPOLL_CLOEXEC); break;
	case 10: fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); break;
	case 11: fd = dead_socket(input); break;
	case 12: fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); break;
	default:
		if (offer_count)
			fd = fcntl(offers[fuzz_below(input, offer_count)], F_DUPFD_CLOEXEC, 3);
		else
			fd = eventfd(0, EFD_CLOEXEC);
	}
	FUZZ_CHECK(fd >= 0);
	return fd;
}

/* ---- Messages ---- */

enum { MESSAGE_BYTES_MAX = 300 };

/* What is sent. */
struct sending {
	union {
		struct cn_message message;
		unsigned char bytes[MESSAGE_BYTES_MAX];
	};
	size_t size;
	int descriptors[RIGHTS_MAX];
	bool own[RIGHTS_MAX]; /* made for it, and closed */
	unsigned descriptor_count;
};

static void put_descriptor(struct sending *sending, struct fuzz_input *input, unsigned at)
{
	if (at >= RIGHTS_MAX)
		return;
	if (at < sending->descriptor_count && sending->own[at])
		close(sending->descriptors[at]);
	if (at >= sending->descriptor_count)
		at = sending->descriptor_count++;
	sending->descriptors[at] = fuzz_descriptor(input);
	sending->own[at] = true;
}

static void drop_descriptors(struct sending *sending)
{
	for (unsigned i = 0; i < sending->descriptor_count; i++)
		if (sending->own[i])
			close(sending->descriptors[i]);
	sending->descriptor_count = 0;
}

static void edit(struct sending *sending, struct fuzz_input *input)
{
	struct cn_message *message = &sending->message;
	unsigned at;

	switch (fuzz_below(input, 14)) {
	case 0:
	case 1:
	case 2: at = fuzz_below(input, 9), message->words[at] = fuzz_number(input); break;
	case 3: at = fuzz_below(input, 9), message->words[at] += fuzz_byte(input) - UINT64_C(128); break;
	case 4: message->kind = fuzz_below(input, 16); break;
	case 5: message->result = (int32_t)fuzz_number(input); break;
	case 6: message->request += fuzz_byte(input) - UINT64_C(128); break;
	case 7: at = fuzz_byte(input), sending->bytes[at % sizeof *message] ^= (unsigned char)(1 << at % 8); break;
	case 8: put_descriptor(sending, input, 0); break;
	case 9: put_descriptor(sending, input, fuzz_below(input, RIGHTS_MAX)); break;
	case 10: drop_descriptors(sending); break;
	case 11: sending->size = fuzz_number(input) % MESSAGE_BYTES_MAX; break;
	case 12: fuzz_bytes(input, message->bytes, sizeof message->bytes); break;
	default: message->words[fuzz_below(input, 9)] ^= UINT64_C(1) << (fuzz_byte(input) & 63); break;
	}
}

static void send_it(int sock, struct sending *sending)
{
	struct iovec part = {sending->bytes, sending->size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union {
		char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
		struct cmsghdr align;
	} rights;

	if (sending->descriptor_count) {
		memset(&rights, 0, sizeof rights);
		message.msg_control = rights.bytes;
		message.msg_controllen = CMSG_SPACE(sending->descriptor_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sending->descriptor_count * sizeof(int));
		memcpy(CMSG_DATA(header), sending->descriptors, sending->descriptor_count * sizeof(int));
	}
	sendmsg(sock, &message,
		MSG_DONTWAIT | MSG_NOSIGNAL); /* a peer that has hung up, or does not read, gets nothing */
	drop_descriptors(sending);
}

bool fuzz_send_known(struct fuzz_input *input, int sock, const struct cn_parcel *parcel, struct cn_message *ret_sent)
{
	struct sending sending = {.message = parcel->message, .size = sizeof parcel->message};
	unsigned edits = fuzz_byte(input) & 7;

	sending.message.magic = CN_WIRE_MAGIC;
	sending.message.version = CN_WIRE_VERSION;
	sending.descriptor_count = parcel->descriptor_count;
	memcpy(sending.descriptors, parcel->descriptors, parcel->descriptor_count * sizeof(int));
	while (edits--)
		edit(&sending, input);
	bool same = sending.size == sizeof parcel->message && sending.message.magic == CN_WIRE_MAGIC &&
		    sending.message.version == CN_WIRE_VERSION && sending.message.kind == parcel->message.kind &&
		    sending.message.request == parcel->message.request;
	*ret_sent = sending.message;
	send_it(sock, &sending);
	return same;
}

bool fuzz_send(struct fuzz_input *input, int sock, const struct cn_parcel *parcel)
{
	struct cn_message sent;

	return fuzz_send_known(input, sock, parcel, &sent);
}

void fuzz_drain(int sock)
{
	struct cn_parcel parcel;
	int error;

	while ((error = cn_wire_receive(sock, &parcel)) == 0 || error == EPROTO)
		if (!error)
			cn_wire_close(&parcel);
}

/* ---- Listening ---- */

/* What the server's thread is told to do. */
struct fuzz_orders {
	pthread_mutex_t mutex;
	pthread_cond_t done;
	void (*function)(struct fuzz_server *server, int sock, void *data);
	void *data;
	const struct fuzz_input *input; /* NULL: as before */
	bool pending;
};

static void hang_up(int *sock)
{
	close(*sock);
	*sock = -1;
}

/* False: nobody is there. */
static bool take_connection(struct fuzz_server *server)
{
	int sock = cn_wire_accept(server->listener);

	if (sock < 0)
		return false;
	for (int i = 0; i < FUZZ_CONNECTIONS_MAX; i++)
		if (server->socks[i] < 0) {
			server->socks[i] = sock;
			return true;
		}
	close(sock);
	return true;
}

static void hear(struct fuzz_server *server, int *sock)
{
	struct cn_parcel request;
	int error = cn_wire_receive(*sock, &request);

	if (error == EAGAIN)
		return;
	bool stays = !error && server->answer(server, *sock, &request);
	if (!error)
		cn_wire_close(&request);
	if (!stays)
		hang_up(sock);
}

static void obey(struct fuzz_server *server)
{
	struct fuzz_orders *orders = server->orders;
	uint64_t count;

	pthread_mutex_lock(&orders->mutex);
	if (read(server->order_fd, &count, sizeof count) == sizeof count && orders->pending) {
		while (take_connection(server)) /* who came before the order is meant, too */
			continue;
		if (orders->input)
			server->input = *orders->input;
		for (int i = 0; i < FUZZ_CONNECTIONS_MAX; i++) {
			if (server->socks[i] < 0)
				continue;
			if (orders->function)
				orders->function(server, server->socks[i], orders->data);
			else
				hang_up(&server->socks[i]);
		}
		orders->pending = false;
		pthread_cond_signal(&orders->done);
	}
	pthread_mutex_unlock(&orders->mutex);
}

static void *serve(void *data)
{
	struct fuzz_server *server = data;

	for (;;) {
		struct pollfd wanted[2 + FUZZ_CONNECTIONS_MAX] = {{.fd = server->order_fd, .events = POLLIN},
								  {.fd = server->listener, .events = POLLIN}};
		for (int i = 0; i < FUZZ_CONNECTIONS_MAX; i++)
			wanted[2 + i] = (struct pollfd){.fd = server->socks[i], .events = POLLIN};
		poll(wanted, 2 + FUZZ_CONNECTIONS_MAX, -1);
		for (int i = 0; i < FUZZ_CONNECTIONS_MAX; i++)
			if (wanted[2 + i].revents)
				hear(server, &server->socks[i]);
		if (wanted[1].revents)
			take_connection(server);
		if (wanted[0].revents)
			obey(server);
	}
	return NULL;
}

void fuzz_server_start(struct fuzz_server *server)
{
	pthread_t thread;

	server->orders = calloc(1, sizeof *server->orders);
	FUZZ_CHECK(server->orders);
	pthread_mutex_init(&server->orders->mutex, NULL);
	pthread_cond_init(&server->orders->done, NULL);
	server->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	FUZZ_CHECK(server->order_fd >= 0);
	for (int i = 0; i < FUZZ_CONNECTIONS_MAX; i++)
		server->socks[i] = -1;
	FUZZ_CHECK(!pthread_create(&thread, NULL, serve, server));
	pthread_detach(thread);
}

static void order(struct fuzz_server *server, void (*function)(struct fuzz_server *server, int sock, void *data),
		  void *data, const struct fuzz_input *input)
{
	struct fuzz_orders *orders = server->orders;
	const uint64_t one = 1;

	pthread_mutex_lock(&orders->mutex);
	orders->function = function;
	orders->data = data;
	orders->pending = true;
	orders->input = input;
	FUZZ_CHECK(write(server->order_fd, &one, sizeof one) == sizeof one);
	while (orders->pending)
		pthread_cond_wait(&orders->done, &orders->mutex);
	pthread_mutex_unlock(&orders->mutex);
}

void fuzz_server_begin(struct fuzz_server *server, struct fuzz_input input)
{
	order(server, NULL, NULL, &input);
}

void fuzz_server_end(struct fuzz_server *server)
{
	fuzz_server_begin(server, (struct fuzz_input){0});
}

void fuzz_server_do(struct fuzz_server *server, void (*function)(struct fuzz_server *server, int sock, void *data),
		    void *data)
{
	order(server, function, data, NULL);
}
