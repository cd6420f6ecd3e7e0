/* SPDX-License-Identifier: MIT */
/*
 * Memory at a port: callers that ask wrongly, hang up or open without end, and lenders that answer what no lender does.
 * All of them are written by hand.
 */
#include "../ask.h"
#include "device/host/host_memory.h"
#include "harness.h"
#include "named_socket.h"
#include "share/event/shared_event.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 4 << 20, OWNER = 7 };

static struct cn_device devices[CN_DEVICE_MAX];

SETUP
{
	int count;

	ASSERT_OK(cn_device_open(devices, &count));
	ASSERT_OK(cn_port_open());
}

static size_t used_bytes(void)
{
	return cn_host_used_bytes(&devices[0]);
}

static struct cn_shared_memory *create(void)
{
	struct cn_shared_memory *memory;
	void *address;

	ASSERT_OK(cn_host_memory_allocate(&devices[0], LARGE, &address));
	ASSERT_OK(cn_shared_memory_create(&devices[0], address, LARGE, &memory));
	return memory;
}

static struct cn_handle parts_of(const struct cn_shared_memory *memory)
{
	struct cn_handle handle;

	memcpy(&handle, cn_shared_memory_handle(memory), sizeof handle);
	return handle;
}

/* ---- Callers ----------------------------------------------------------------------------------------------------- */

static int call_port(const struct cn_handle *handle)
{
	char name[CN_SOCKET_NAME_CHARS + 1];
	int sock = -1;

	cn_port_name(handle->port, name);
	ASSERT_OK(connect_name(name, &sock));
	return sock;
}

static struct cn_parcel request_for(const struct cn_handle *handle)
{
	struct cn_parcel request = {
		.message = {.kind = CN_MESSAGE_MEMORY, .request = 5, .words = {handle->number, handle->node}}};

	memcpy(request.message.bytes, handle->secret, sizeof handle->secret);
	return request;
}

static void ask(int sock, const struct cn_handle *handle, CUresult expected)
{
	struct cn_parcel request = request_for(handle), reply;

	ASSERT_EQ(0, try_ask(sock, &request, &reply));
	ASSERT_EQ((int)expected, reply.message.result);
	ASSERT_EQ(expected ? 0 : 1, reply.descriptor_count);
	cn_wire_close(&reply);
}

static void say_closed(int sock, uint64_t number)
{
	struct cn_parcel closed = {.message = {.kind = CN_MESSAGE_MEMORY_CLOSED, .words = {number}}};

	ASSERT_EQ(0, tell_peer(sock, &closed));
}

static void expect_closed(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel parcel;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(EPIPE, cn_wire_receive(sock, &parcel));
	ASSERT_SYS(close(sock));
}

static void await_quiet(unsigned descriptors)
{
	while (used_bytes() || test_descriptor_count() != descriptors)
		sched_yield();
}

/* Goal: a caller that does not know the secret, or takes memory for an event, is told nothing and sent away. */
TEST(a_wrong_caller_is_sent_away)
{
	unsigned descriptors = test_descriptor_count();
	struct cn_shared_memory *memory = create();
	struct cn_handle handle = parts_of(memory), wrong = handle;

	for (int i = 0; i < CN_HANDLE_SECRET_BYTES; i++) {
		wrong.secret[i] ^= 1;
		int sock = call_port(&handle);
		ask(sock, &wrong, CUDA_ERROR_NOT_PERMITTED);
		expect_closed(sock);
		wrong = handle;
	}
	wrong.node++;
	int sock = call_port(&handle);
	ask(sock, &wrong, CUDA_ERROR_NOT_PERMITTED);
	expect_closed(sock);

	struct cn_parcel as_event = request_for(&handle), reply;
	as_event.message.kind = CN_MESSAGE_EVENT;
	sock = call_port(&handle);
	ASSERT_EQ(0, try_ask(sock, &as_event, &reply));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, reply.message.result);
	expect_closed(sock);
	wrong = handle;
	wrong.number += 1000; /* what is not there may have been there: no reason to hang up */
	sock = call_port(&handle);
	ask(sock, &wrong, CUDA_ERROR_INVALID_HANDLE);
	ask(sock, &handle, CUDA_SUCCESS);
	say_closed(sock, handle.number);
	ASSERT_SYS(close(sock));
	cn_shared_memory_free(memory);
	await_quiet(descriptors);
}

/* Goal: each opening is closed once; closing what is not open is nothing. */
TEST(only_what_is_open_is_closed)
{
	unsigned descriptors = test_descriptor_count();
	struct cn_shared_memory *memory = create(), *other = create();
	struct cn_handle handle = parts_of(memory), of_other = parts_of(other);
	int sock = call_port(&handle), second = call_port(&handle);

	ask(sock, &handle, CUDA_SUCCESS);
	ask(sock, &handle, CUDA_SUCCESS);
	ask(second, &of_other, CUDA_SUCCESS);
	say_closed(second, handle.number); /* not open over this connection */
	say_closed(sock, handle.number);
	say_closed(sock, 12345);
	ask(sock, &of_other, CUDA_SUCCESS); /* what was said before has been heard */
	ask(second, &of_other, CUDA_SUCCESS);
	cn_shared_memory_free(memory);
	ask(sock, &handle, CUDA_ERROR_INVALID_HANDLE);
	ASSERT_EQ(2 * LARGE, used_bytes());
	say_closed(sock, handle.number);
	while (used_bytes() != LARGE)
		sched_yield();
	say_closed(sock, CN_SHARED_MEMORY_ALL);
	cn_shared_memory_free(other);
	ask(sock, &of_other, CUDA_ERROR_INVALID_HANDLE);
	ASSERT_EQ(LARGE, used_bytes());
	say_closed(second, CN_SHARED_MEMORY_ALL);
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(second));
	await_quiet(descriptors);
}

ROLE(bystander)
{
}

/* Opens, hangs up, and lives on. */
ROLE(hangs_up)
{
	struct cn_handle handle;

	peer_receive_bytes(parent, &handle, sizeof handle);
	int sock = call_port(&handle);
	ask(sock, &handle, CUDA_SUCCESS);
	ASSERT_SYS(close(sock));
	peer_send(parent, "hung up");
	peer_expect(parent, "end");
}

/* Goal: the end of a connection is not the end of a process, which may have the memory mapped; only that is. */
TEST(one_who_hangs_up_keeps_what_he_has)
{
	unsigned descriptors = test_descriptor_count();
	struct cn_shared_memory *memory = create();
	struct cn_handle handle = parts_of(memory);
	struct peer *peer = peer_start("hangs_up");
	unsigned with_peer = test_descriptor_count();

	peer_send_bytes(peer, &handle, sizeof handle);
	peer_expect(peer, "hung up");
	while (test_descriptor_count() != with_peer + 1) /* its process is still watched, the connection is closed */
		sched_yield();
	cn_shared_memory_free(memory);
	ASSERT_EQ(LARGE, used_bytes());
	peer_kill(peer);
	await_quiet(descriptors);
	peer_wait(peer_start("bystander")); /* clears away the name of the one that was killed */
}

/* Goal: a caller opens only so much. */
TEST(openings_have_a_bound, .timeout_ms = 120000)
{
	unsigned descriptors = test_descriptor_count();
	struct cn_shared_memory *memory = create();
	struct cn_handle handle = parts_of(memory);
	int sock = call_port(&handle);

	if (HARNESS_SLOWDOWN > 1)
		SKIP("too many for a sanitizer");
	for (int i = 0; i < CN_PORT_OPENINGS_MAX; i++)
		ask(sock, &handle, CUDA_SUCCESS);
	ask(sock, &handle, CUDA_ERROR_OUT_OF_MEMORY);
	int other = call_port(&handle);    /* only now: a caller that is silent for long is sent away */
	ask(other, &handle, CUDA_SUCCESS); /* and takes nothing from others */
	say_closed(sock, handle.number);
	ask(sock, &handle, CUDA_SUCCESS);
	say_closed(sock, CN_SHARED_MEMORY_ALL);
	say_closed(other, CN_SHARED_MEMORY_ALL);
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(other));
	cn_shared_memory_free(memory);
	await_quiet(descriptors);
}

/* ---- Lenders ----------------------------------------------------------------------------------------------------- */

/* How a lender answers. */
struct manner {
	const char *name;
	uint64_t words[5];
	bool sealed, none, pipe, two, other_request, other_kind;
	CUresult result;  /* of the reply */
	CUresult outcome; /* of the opening */
	const char *sentence;
};

#define GOOD .words = {1, LARGE, 0, LARGE, 0}
static const struct manner manners[] = {
	{"unsealed", GOOD, .outcome = CUDA_ERROR_MAP_FAILED, .sentence = "other than memory of a device"},
	{"a pipe", GOOD, .pipe = true, .outcome = CUDA_ERROR_MAP_FAILED, .sentence = "other than memory of a device"},
	{"too short", .words = {1, 2 * LARGE, 0, LARGE, 0}, .sealed = true, .outcome = CUDA_ERROR_MAP_FAILED,
	 .sentence = "other than memory of a device"},
	{"odd", .words = {1, LARGE - 1, 0, LARGE / 2, 0}, .sealed = true, .outcome = CUDA_ERROR_MAP_FAILED,
	 .sentence = "other than memory of a device"},
	{"enormous", .words = {1, UINT64_MAX / 2 + 1, 0, LARGE, 0}, .sealed = true, .outcome = CUDA_ERROR_MAP_FAILED,
	 .sentence = ""},
	{"outside", .words = {1, LARGE, LARGE, 1, 0}, .sealed = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"over the end", .words = {1, LARGE, 512, LARGE, 0}, .sealed = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"wraps", .words = {1, LARGE, 512, UINT64_MAX - 100, 0}, .sealed = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"nothing", .words = {1, LARGE, 0, 0, 0}, .sealed = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"a strange device", .words = {1, LARGE, 0, LARGE, UINT64_MAX}, .sealed = true,
	 .outcome = CUDA_ERROR_OPERATING_SYSTEM, .sentence = "cannot be asked"},
	{"no descriptor", GOOD, .none = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM, .sentence = "cannot be asked"},
	{"two descriptors", GOOD, .sealed = true, .two = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"another request", GOOD, .sealed = true, .other_request = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"another kind", GOOD, .sealed = true, .other_kind = true, .outcome = CUDA_ERROR_OPERATING_SYSTEM,
	 .sentence = "cannot be asked"},
	{"a refusal with a descriptor", GOOD, .sealed = true, .result = CUDA_ERROR_INVALID_HANDLE,
	 .outcome = CUDA_ERROR_OPERATING_SYSTEM, .sentence = "cannot be asked"},
	{"a strange refusal", .none = true, .result = CUDA_ERROR_UNKNOWN, .outcome = CUDA_ERROR_MAP_FAILED,
	 .sentence = "cannot share the memory"},
	{"as it should be", GOOD, .sealed = true, .outcome = CUDA_SUCCESS, .sentence = ""},
};
enum { MANNERS = sizeof manners / sizeof *manners };

static int make_file(const struct manner *manner)
{
	int ends[2];

	if (manner->pipe) {
		ASSERT_SYS(pipe2(ends, O_CLOEXEC));
		close(ends[1]);
		return ends[0];
	}
	int fd = memfd_create("lender", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, LARGE));
	if (manner->sealed)
		ASSERT_SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	return fd;
}

/* A port that answers each request in the next manner. */
ROLE(lender)
{
	struct cn_socket port;
	struct cn_parcel request;
	int sock = -1;

	ASSERT_OK(cn_wire_listen_named(false, &port));
	peer_send_bytes(parent, port.name, sizeof port.name);
	for (int i = 0; i < MANNERS;) {
		struct pollfd wanted[] = {{.fd = port.listen_fd, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
		ASSERT_LT(0, poll(wanted, 2, -1));
		if (wanted[0].revents) {
			if (sock >= 0)
				close(sock);
			sock = cn_wire_accept(port.listen_fd);
			continue;
		}
		int error = cn_wire_receive(sock, &request);
		if (error) {
			close(sock);
			sock = -1;
			continue;
		}
		if (request.message.kind != CN_MESSAGE_MEMORY)
			continue;
		const struct manner *manner = &manners[i++];
		int fd = make_file(manner);
		struct cn_parcel reply = {
			.message = {.kind = manner->other_kind ? CN_MESSAGE_EVENT : CN_MESSAGE_MEMORY,
				    .request = request.message.request + manner->other_request,
				    .result = (int32_t)manner->result},
			.descriptors = {fd, fd},
			.descriptor_count = manner->none  ? 0
					    : manner->two ? 2
							  : 1,
		};
		memcpy(reply.message.words, manner->words, sizeof manner->words);
		ASSERT_EQ(0, cn_wire_send(sock, &reply));
		close(fd);
	}
	peer_expect(parent, "end");
	close(sock);
	end_named(&port);
}

/* Answer as a lender should. */
static void lend(int sock, const struct cn_message *request)
{
	const struct manner *good = &manners[MANNERS - 1];
	struct cn_parcel reply = {.message = {.kind = CN_MESSAGE_MEMORY, .request = request->request},
				  .descriptors = {make_file(good)},
				  .descriptor_count = 1};

	memcpy(reply.message.words, good->words, sizeof good->words);
	ASSERT_EQ(0, cn_wire_send(sock, &reply));
	close(reply.descriptors[0]);
}

static struct cn_message next_message(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_message message;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive_message(sock, &message));
	return message;
}

/* The first connection that asks: of threads that connect at the same time, all but one hang up again. */
static int accept_asker(int listen_fd, struct cn_message *ret_message)
{
	for (;;) {
		struct pollfd wanted = {.fd = listen_fd, .events = POLLIN};
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		wanted.fd = cn_wire_accept(listen_fd);
		ASSERT_SYS(wanted.fd);
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		if (!cn_wire_receive_message(wanted.fd, ret_message))
			return wanted.fd;
		close(wanted.fd);
	}
}

/* A lender that answers one question when it is told to, and reads on when it is told to. */
ROLE(slow_lender)
{
	struct cn_socket port;

	ASSERT_OK(cn_wire_listen_named(false, &port));
	peer_send_bytes(parent, port.name, sizeof port.name);
	struct cn_message message;
	int sock = accept_asker(port.listen_fd, &message);
	peer_expect(parent, "answer");
	lend(sock, &message);
	peer_expect(parent, "read");
	while (message.kind != CN_MESSAGE_MEMORY_CLOSED)
		message = next_message(sock);
	ASSERT_EQ(1, message.words[0]);
	peer_send(parent, "closed");
	peer_expect(parent, "end");
	close(sock);
	end_named(&port);
}

static void forge(struct cn_handle handle, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	handle.check = cn_check(&handle, offsetof(struct cn_handle, check));
	memcpy(ret_bytes, &handle, sizeof handle);
}

/* A handle of a peer's port. */
static void receive_handle(struct peer *peer, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct cn_handle handle = {
		.magic = CN_HANDLE_MAGIC, .version = CN_HANDLE_VERSION, .kind = CN_HANDLE_MEMORY, .number = 1};

	peer_receive_bytes(peer, name, sizeof name);
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[] = {name[2 * i], name[2 * i + 1], '\0'};
		handle.port[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
	forge(handle, ret_bytes);
}

/* Goal: whatever a lender answers, the opener has memory or an error, and never anything else of it. */
TEST(lenders_that_answer_wrongly)
{
	unsigned descriptors = test_descriptor_count();
	unsigned char bytes[CN_HANDLE_BYTES];
	struct cn_opened_memory *memory;
	struct peer *peer = peer_start("lender");

	receive_handle(peer, bytes);
	for (int i = 0; i < MANNERS; i++) {
		CUresult result = cn_opened_memory_open(bytes, &devices[0], OWNER, &memory);
		fprintf(stderr, "%s: %d\n", manners[i].name, (int)result);
		ASSERT_EQ(manners[i].outcome, result);
		if (result)
			ASSERT_CONTAINS(manners[i].sentence, cn_last_error());
	}
	const struct cn_opened_memory_facts *facts = cn_opened_memory_facts(memory);
	ASSERT_EQ(LARGE, facts->bytes);
	memset(facts->address, 1, facts->bytes);
	cn_opened_memory_close(memory);
	peer_end(peer);
	while (test_descriptor_count() != descriptors)
		sched_yield();
}

/* Goal: a process that closes memory does not wait, and the lender hears of it when it reads again. */
TEST(a_lender_that_does_not_read_is_not_waited_for)
{
	struct peer *peer = peer_start("slow_lender");
	struct cn_message filler = {.magic = CN_WIRE_MAGIC, .version = CN_WIRE_VERSION, .kind = CN_MESSAGE_MEMORY};
	unsigned char bytes[CN_HANDLE_BYTES];
	struct cn_opened_memory *memory;

	receive_handle(peer, bytes);
	peer_send(peer, "answer");
	ASSERT_OK(cn_opened_memory_open(bytes, &devices[0], OWNER, &memory));
	int sock = connection_to(peer_pid(peer));
	/* Not by the C library: to ThreadSanitizer the socket is another thread's. */
	while (syscall(SYS_sendto, sock, &filler, sizeof filler, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) > 0)
		continue;
	uint64_t start_ns = cn_clock_ns();
	cn_opened_memory_close(memory);
	ASSERT_LT(cn_clock_ns() - start_ns, CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS / 2);
	peer_send(peer, "read");
	peer_expect(peer, "closed");
	peer_end(peer);
}

static void *open_in_vain(void *bytes)
{
	struct cn_opened_memory *memory;

	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_opened_memory_open(bytes, &devices[0], OWNER, &memory));
	ASSERT_CONTAINS("does not answer", cn_last_error());
	return NULL;
}

/* Goal: many threads that ask one silent lender wait as long as one does, and what it opens too late is given back. */
TEST(a_silent_lender_is_waited_for_once, .timeout_ms = 60000)
{
	struct peer *peer = peer_start("slow_lender");
	unsigned char bytes[CN_HANDLE_BYTES];
	pthread_t threads[4];

	receive_handle(peer, bytes);
	uint64_t start_ns = cn_clock_ns();
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, open_in_vain, bytes));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_LT(cn_clock_ns() - start_ns, CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS * 3 / 2);
	peer_send(peer, "answer");
	peer_send(peer, "read");
	peer_expect(peer, "closed");
	peer_end(peer);
}

/* ---- Many at once ------------------------------------------------------------------------------------------------ */

enum { ASKERS = 4, DEATHS = 10 };

/* A process with an event and memory, and their handles. */
static struct handles {
	unsigned char memory[CN_HANDLE_BYTES], event[CN_HANDLE_BYTES];
} shared_handles;

ROLE(owner)
{
	struct handles handles;
	struct cn_shared_event *event;
	struct cn_shared_memory *memory = create();

	ASSERT_OK(cn_shared_event_create(&event));
	ASSERT_OK(cn_shared_event_handle(event, handles.event));
	memcpy(handles.memory, cn_shared_memory_handle(memory), sizeof handles.memory);
	peer_send_bytes(parent, &handles, sizeof handles);
	peer_expect(parent, "end");
}

/* Open and close what the process has, until it is gone. */
static void *open_until_gone(void *unused)
{
	struct cn_shared_event *event;
	struct cn_opened_memory *memory;
	CUresult result;

	(void)unused;
	do {
		result = cn_opened_memory_open(shared_handles.memory, &devices[0], OWNER, &memory);
		if (!result) {
			result = cn_shared_event_open(shared_handles.event, &event);
			cn_opened_memory_close(memory);
			if (!result)
				cn_shared_event_drop(event);
			else
				ASSERT_EQ(cn_handle_gone(CN_HANDLE_EVENT), result);
		} else {
			ASSERT_EQ(cn_handle_gone(CN_HANDLE_MEMORY), result);
		}
	} while (!result);
	return NULL;
}

/* Goal: threads share one connection for events and memory, with forks between, and all hear of its process's end. */
TEST(many_threads_ask_a_process_that_is_killed, .timeout_ms = 120000)
{
	unsigned descriptors = test_descriptor_count();
	pthread_t threads[ASKERS];

	for (int i = 0; i < DEATHS; i++) {
		struct peer *peer = peer_start("owner");
		peer_receive_bytes(peer, &shared_handles, sizeof shared_handles);
		for (int k = 0; k < ASKERS; k++)
			ASSERT_EQ(0, pthread_create(&threads[k], NULL, open_until_gone, NULL));
		for (int k = 0; k < 3; k++) {
			pid_t child = fork();
			ASSERT_SYS(child);
			if (!child)
				_exit(0);
			ASSERT_EQ(child, waitpid(child, NULL, 0));
		}
		peer_kill(peer);
		for (int k = 0; k < ASKERS; k++)
			ASSERT_EQ(0, pthread_join(threads[k], NULL));
	}
	peer_wait(peer_start("bystander")); /* its port sweeps the names of the killed */
	while (test_descriptor_count() != descriptors)
		sched_yield();
}
