/* SPDX-License-Identifier: MIT */
/*
 * Requests at this process's port and at its fabric port, from any process that reaches them.
 *
 * Several callers at a time ask for events, memory and reports, give back what they have or have not, and hang up, by
 * the script. Memory that a caller has opened is held as long as its process lives, whatever becomes of its connection:
 * so callers are processes of their own, which end with the input. They are forked by one that was forked before there
 * was a library here, and do nothing but connect.
 */
#include "../ask.h"
#include "fuzz.h"

#include "share/port/fabric.h"
#include "share/port/port_internal.h"
#include "share/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CALLERS = 4,
	CHILDREN_MAX = 64,
	STEPS_MAX = 24,
	REQUEST_STEP = 1000 /* more than a script changes it by */,
	ORDER_BYTES = CN_SOCKET_NAME_CHARS + 1
};

/* ---- Processes that only connect ---- */

static int mother = -1; /* the socket to it */
static pid_t mother_pid;

static void send_descriptor(int sock, int fd)
{
	struct cn_parcel parcel = {.descriptors = {fd}, .descriptor_count = fd >= 0};

	cn_wire_send(sock, &parcel);
}

/* From within the directory: a socket's path is short. */
static _Noreturn void be_child(int sock, const char name[ORDER_BYTES])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int caller = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memcpy(address.sun_path, name, ORDER_BYTES);
	const char *directory = getenv("CENOTE_RUNTIME_DIR");
	bool connected = caller >= 0 && directory && !chdir(directory) &&
			 !connect(caller, (const struct sockaddr *)&address, sizeof address);
	send_descriptor(sock, connected ? caller : -1);
	close(caller);
	for (;;)
		pause();
}

static _Noreturn void be_mother(int sock)
{
	pid_t children[CHILDREN_MAX];
	char name[ORDER_BYTES];
	int count = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		ssize_t got = recv(sock, name, sizeof name, 0);
		if (got <= 0)
			break;
		if (*name && count < CHILDREN_MAX) {
			pid_t child = fork();
			if (!child)
				be_child(sock, name);
			if (child > 0)
				children[count++] = child;
			else
				send_descriptor(sock, -1);
			continue;
		}
		for (int i = 0; i < count; i++) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
		count = 0;
		send_descriptor(sock, -1);
	}
	for (int i = 0; i < count; i++)
		kill(children[i], SIGKILL);
	_exit(0);
}

static void end_mother(void)
{
	close(mother);
	waitpid(mother_pid, NULL, 0);
}

static void start_mother(void)
{
	int ends[2];

	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	mother_pid = fork();
	FUZZ_CHECK(mother_pid >= 0);
	if (!mother_pid) {
		close(ends[0]);
		be_mother(ends[1]);
	}
	close(ends[1]);
	mother = ends[0];
	FUZZ_CHECK(!atexit(end_mother));
}

/* What it answers; -1: nothing beside it. */
static int ask_mother(const char name[ORDER_BYTES])
{
	struct cn_parcel reply;
	struct pollfd wanted = {.fd = mother, .events = POLLIN};

	FUZZ_CHECK(send(mother, name, ORDER_BYTES, MSG_NOSIGNAL) == ORDER_BYTES);
	while (poll(&wanted, 1, -1) != 1) /* the fuzzer's own signals come at any time */
		FUZZ_CHECK(errno == EINTR);
	int error = cn_wire_receive(mother, &reply);
	if (error)
		fuzz_fail(__FILE__, __LINE__, "the processes that connect do not answer: %s", strerror(error));
	return reply.descriptor_count ? reply.descriptors[0] : -1;
}

/* ---- What is there ---- */

static struct cn_handle event_handle, memory_handle, fabric_handles[2];
static char port_name[CN_SOCKET_NAME_CHARS + 1], fabric_name[CN_SOCKET_NAME_CHARS + 1];
static int channel_fd;
static CUmemoryPool pool;
static struct {
	int sock;
	bool fabric;
} callers[CALLERS];

static void name_of(const struct cn_handle *handle, char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", handle->port[i]);
}

static void share_things(void)
{
	CUipcMemHandle memory_bytes;
	CUipcEventHandle event_bytes;
	struct cn_fabric *fabric;
	CUdeviceptr memory, block;
	CUmemPoolPtrExportData name;
	CUevent event;

	FUZZ_OK(cuMemAlloc(&memory, 4096));
	FUZZ_OK(cuIpcGetMemHandle(&memory_bytes, memory));
	memcpy(&memory_handle, &memory_bytes, sizeof memory_handle);
	FUZZ_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	FUZZ_OK(cuIpcGetEventHandle(&event_bytes, event));
	memcpy(&event_handle, &event_bytes, sizeof event_handle);
	for (int i = 0; i < 2; i++) {
		int fd = fuzz_memory_file("fuzz", 4096, 0, 0);
		FUZZ_OK(cn_fabric_create(i ? CN_FABRIC_POOL : CN_FABRIC_MEMORY, fd, &fabric));
		memcpy(&fabric_handles[i], cn_fabric_handle(fabric), sizeof fabric_handles[i]);
		close(fd);
	}
	pool = fuzz_pool(32 << 20);
	close(fuzz_pool_descriptor(pool));
	FUZZ_OK(cuMemAllocFromPoolAsync(&block, 1 << 20, pool, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&name, block));
}

void fuzz_prepare(void)
{
	char path[600];

	start_mother();
	fuzz_start();
	share_things();
	name_of(&memory_handle, port_name);
	name_of(&fabric_handles[0], fabric_name);
	snprintf(path, sizeof path, "%s/imex/channel0", fuzz_directory());
	channel_fd = open(path, O_RDONLY | O_CLOEXEC);
	FUZZ_CHECK(channel_fd >= 0);
	fuzz_offer(channel_fd);
	for (int i = 0; i < CALLERS; i++)
		callers[i].sock = -1;
}

/* ---- The script ---- */

static void hang_up(unsigned at)
{
	if (callers[at].sock >= 0)
		close(callers[at].sock);
	callers[at].sock = -1;
}

static void call(unsigned at, bool fabric)
{
	hang_up(at);
	callers[at].fabric = fabric;
	if (fabric)
		FUZZ_OK(connect_fabric(fabric_name, (unsigned)geteuid(), &callers[at].sock));
	else
		callers[at].sock = ask_mother(port_name);
}

static void ask_for(const struct cn_handle *handle, struct cn_message *message)
{
	message->words[0] = handle->number;
	message->words[1] = handle->node;
	message->words[2] = handle->kind;
	memcpy(message->bytes, handle->secret, sizeof handle->secret);
}

static bool has_secret(const struct cn_message *sent, const struct cn_handle *handle)
{
	return sent->words[0] == handle->number && sent->words[1] == handle->node &&
	       !memcmp(sent->bytes, handle->secret, sizeof handle->secret);
}

/* May a process that asks so be given something? */
static bool is_entitled(const struct cn_message *sent)
{
	switch (sent->kind) {
	case CN_MESSAGE_MEMORY: return has_secret(sent, &memory_handle);
	case CN_MESSAGE_EVENT: return has_secret(sent, &event_handle);
	default:
		for (int i = 0; i < 2; i++)
			if (has_secret(sent, &fabric_handles[i]) && sent->words[2] == fabric_handles[i].kind)
				return true;
		return false;
	}
}

/* Hear the answer: there is one, or the end. Without the secret, nothing is given. */
static void hear(unsigned at, const struct cn_message *sent)
{
	struct pollfd wanted = {.fd = callers[at].sock, .events = POLLIN};
	struct cn_parcel reply;

	do {
		while (poll(&wanted, 1, -1) != 1)
			FUZZ_CHECK(errno == EINTR);
		if (cn_wire_receive(callers[at].sock, &reply))
			return;
		if (reply.message.request == sent->request)
			FUZZ_CHECK(!reply.descriptor_count || is_entitled(sent));
		cn_wire_close(&reply);
	} while (reply.message.request != sent->request); /* to a question before */
}

static void say(unsigned at, unsigned what, struct fuzz_input *input)
{
	struct cn_message sent;
	static uint64_t request_last;
	struct cn_parcel parcel = {.message = {.request = request_last += REQUEST_STEP}};
	struct cn_message *message = &parcel.message;

	switch (what % 8) {
	case 0: message->kind = CN_MESSAGE_MEMORY, ask_for(&memory_handle, message); break;
	case 1: message->kind = CN_MESSAGE_EVENT, ask_for(&event_handle, message); break;
	case 2: message->kind = CN_MESSAGE_MEMORY_CLOSED, ask_for(&memory_handle, message); break;
	case 3: message->kind = CN_MESSAGE_EVENT_FREED, ask_for(&event_handle, message); break;
	case 4: message->kind = CN_MESSAGE_MEMORY_CLOSED; break;
	case 5:
		message->kind = CN_MESSAGE_FABRIC;
		ask_for(&fabric_handles[what / 8 % 2], message);
		parcel.descriptors[0] = channel_fd;
		parcel.descriptor_count = 1;
		break;
	default:
		message->kind = CN_MESSAGE_REPORT;
		message->words[CN_REPORT_WHAT] = 1 + what / 8 % 4;
		message->words[CN_REPORT_IMPORTER_ID] = what / 32 % 4;
		message->words[CN_REPORT_CELL_COUNT] = 64;
	}
	if (callers[at].sock < 0)
		call(at, what % 8 == 5);
	if (callers[at].sock < 0)
		return;
	bool asked = message->kind == CN_MESSAGE_MEMORY || message->kind == CN_MESSAGE_EVENT ||
		     message->kind == CN_MESSAGE_FABRIC;
	if (fuzz_send_known(input, callers[at].sock, &parcel, &sent) && asked && what & 128)
		hear(at, &sent);
}

static void step(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), at = how % CALLERS;

	switch (how / 4 % 8) {
	case 0: hang_up(at); break;
	case 1: call(at, how & 128); break;
	case 2: fuzz_barrier(); break;
	case 3:
		if (callers[at].sock >= 0)
			fuzz_drain(callers[at].sock);
		break;
	default: say(at, fuzz_byte(input), input); break;
	}
}

/* ---- After it ---- */

/* A well-behaved caller gets what it asks for. */
static void ask_honestly(void)
{
	struct cn_parcel request = {.message = {.kind = CN_MESSAGE_MEMORY}}, reply;
	struct cn_parcel closed = {.message = {.kind = CN_MESSAGE_MEMORY_CLOSED}};
	int sock = -1, fd;

	FUZZ_OK(connect_name(port_name, &sock));
	ask_for(&memory_handle, &request.message);
	FUZZ_OK(ask_peer(sock, &request, &reply));
	FUZZ_CHECK(!reply.message.result && reply.descriptor_count == 1);
	cn_wire_close(&reply);
	FUZZ_CHECK(!tell_peer(sock, &closed));
	request.message.kind = CN_MESSAGE_EVENT;
	ask_for(&event_handle, &request.message);
	FUZZ_OK(ask_peer(sock, &request, &reply));
	FUZZ_CHECK(!reply.message.result && reply.descriptor_count == 1);
	cn_wire_close(&reply);
	close(sock);
	FUZZ_OK(cn_fabric_fetch((const unsigned char *)&fabric_handles[0], CN_FABRIC_MEMORY, &fd));
	close(fd);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	static const char end[ORDER_BYTES];
	struct fuzz_input input = {bytes, size};

	for (int i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	for (unsigned i = 0; i < CALLERS; i++)
		hang_up(i);
	ask_mother(end);
	ask_honestly();
}
