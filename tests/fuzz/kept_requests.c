/* SPDX-License-Identifier: MIT */
/*
 * Requests at cenoted, from any program that gets there.
 *
 * The daemon's parts run here, without a manager, and several callers ask by the script: requests of every kind with
 * any fields and any descriptors, repeated, cut, or sent twice. After each input all callers have ended: then nothing
 * may be held, and when what was committed is retired, nothing may be left.
 */
#include "fuzz.h"

#include "daemon/daemon.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CALLERS = 3, STEPS_MAX = 24, TURNS_MAX = 64, HOLDS = 4, OBJECTS_MAX = 6, DESCRIPTORS_MAX = 16 };

static struct cn_keeper keeper;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

void fuzz_prepare(void)
{
	struct cn_daemon_given none = {.count = 0};
	char path[600];
	int lock_fd;

	fuzz_start();
	unsetenv("NOTIFY_SOCKET");
	/* To minimise the inputs takes two processes. */
	snprintf(path, sizeof path, "%s/kept-%d", fuzz_directory(), (int)getpid());
	FUZZ_CHECK(strlen(path) < sizeof address.sun_path);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	keeper.limits = (struct cn_keeper_limits){
		.bytes = (uint64_t)64 << 20,
		.objects = OBJECTS_MAX,
		.descriptors = DESCRIPTORS_MAX,
		.holds = HOLDS,
		.connections = CALLERS,
	};
	FUZZ_CHECK(!cn_daemon_listen(path, &keeper.listen_fd, &lock_fd));
	keeper.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	FUZZ_CHECK(keeper.epoll_fd >= 0 && cn_keeper_start(&keeper, &none) && cn_keeper_begin(&keeper));
}

/* Until nothing more happens by itself. */
static void turn(void)
{
	for (int i = 0; i < TURNS_MAX && cn_keeper_turn(&keeper, 0) > 0; i++)
		;
}

static int call(void)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	FUZZ_CHECK(sock >= 0);
	if (connect(sock, (const struct sockaddr *)&address, sizeof address)) {
		close(sock);
		return -1;
	}
	return sock;
}

/* What the daemon says is a message, fits the rights that were asked for, and is not kept here. */
static void read_replies(int sock, bool *ret_ended)
{
	static struct cn_kept_parcel reply;
	int error;

	while (!(error = cn_kept_receive(sock, &reply))) {
		FUZZ_CHECK(reply.message.epoch == keeper.state->epoch);
		FUZZ_CHECK(!reply.message.refusal || !reply.descriptor_count);
		cn_kept_discard(&reply);
	}
	FUZZ_CHECK(error == EAGAIN || error == EPIPE);
	*ret_ended = error == EPIPE;
}

static void fill_request(struct fuzz_input *input, struct cn_kept_parcel *ret_request)
{
	static const char *const names[] = {"a", "a/b", "b", "", "/", "a/../b"};
	static struct cn_kept_message *message;

	memset(ret_request, 0, sizeof *ret_request);
	message = &ret_request->message;
	message->kind = 1 + fuzz_below(input, CN_KEPT_KIND_COUNT);
	message->hold = 1 + fuzz_below(input, HOLDS);
	snprintf(message->name, sizeof message->name, "%s", names[fuzz_below(input, sizeof names / sizeof *names)]);
	message->part_count = 1 + fuzz_below(input, 3);
	for (unsigned i = 0; i < message->part_count; i++)
		message->part_bytes[i] = 1 + (uint64_t)fuzz_byte(input) * 4096;
	message->device = CN_KEPT_ON_HOST + fuzz_below(input, 2);
	message->mode = 0600;
	unsigned change = fuzz_byte(input);
	if (change & 1)
		message->flags = (uint32_t)fuzz_number(input);
	if (change & 2)
		message->mode = (uint32_t)fuzz_number(input);
	if (change & 4)
		message->cursor = fuzz_number(input);
	if (change & 8)
		message->generation = fuzz_number(input);
	if (change & 16)
		message->numbers[0] = fuzz_number(input);
	if (change & 32)
		message->part_bytes[0] = fuzz_number(input);
	if (change & 64)
		message->has_description = fuzz_below(input, 3);
	if (change & 128)
		fuzz_bytes(input, message->name, 8);
	for (unsigned i = fuzz_below(input, 4); i; i--)
		ret_request->descriptors[ret_request->descriptor_count++] = fuzz_descriptor(input);
}

static void send_request(struct fuzz_input *input, int sock)
{
	static struct cn_kept_parcel request;

	fill_request(input, &request);
	unsigned how = fuzz_below(input, 8);
	if (how == 1) { /* any bytes, of any length */
		fuzz_bytes(input, (unsigned char *)&request.message + fuzz_byte(input), 4);
		send(sock, &request.message, fuzz_byte(input) * 4, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else {
		for (unsigned i = 0; i < 1 + (how == 2); i++) /* once, or twice */
			cn_kept_send(sock, &request);
	}
	for (unsigned i = 0; i < request.descriptor_count; i++)
		close(request.descriptors[i]);
}

/* All callers have ended: their process is gone. */
static void end_process(void)
{
	for (uint32_t i = 0; i < keeper.free_processes.used; i++)
		if (atomic_load(&keeper.state->processes[i].pid))
			cn_keeper_process_end(&keeper, i);
	for (uint32_t i = 0; i < keeper.free_objects.used; i++) {
		uint32_t state = cn_keeper_state_of(&keeper.state->objects[i]);
		FUZZ_CHECK(state == CN_KEPT_NONE || state == CN_KEPT_COMMITTED);
		FUZZ_CHECK(state == CN_KEPT_NONE || !keeper.holder_counts[i]);
		if (state)
			cn_keeper_object_retire(&keeper, i);
	}
	FUZZ_CHECK(keeper.free_objects.count == keeper.free_objects.used);
	FUZZ_CHECK(keeper.free_holds.count == keeper.free_holds.used);
	FUZZ_CHECK(keeper.free_slots.count == keeper.free_slots.used);
	FUZZ_CHECK(keeper.free_processes.count == keeper.free_processes.used);
	const struct cn_keeper_user *user = &keeper.users[0];
	FUZZ_CHECK(!user->objects && !user->bytes && !user->descriptors && !user->holds && !user->connections);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	int socks[CALLERS] = {-1, -1, -1};

	for (int step = 0; step < STEPS_MAX && input.left; step++) {
		int *sock = &socks[fuzz_below(&input, CALLERS)];
		bool ended = fuzz_below(&input, 16) == 1;
		if (*sock < 0)
			*sock = call();
		if (*sock < 0)
			continue;
		if (!ended) {
			send_request(&input, *sock);
			turn();
			read_replies(*sock, &ended);
		}
		if (ended) {
			close(*sock);
			*sock = -1;
			turn();
		}
	}
	for (int i = 0; i < CALLERS; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	turn();
	FUZZ_CHECK(!keeper.connection_count);
	end_process();
}
