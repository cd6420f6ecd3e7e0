/* SPDX-License-Identifier: MIT */
/*
 * Connections to cenoted: see keeper.h.
 *
 * One message of each connection a round, so a flood of one delays the others by one message each. Nothing is sent that
 * does not fit in the socket: a program that does not read its answers is hung up on, which costs it nothing that it
 * holds. A connection that has asked nothing for some seconds is ended; one that watches may be silent, and counts
 * against its user.
 */
#include "base/clock.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "share/wire/closing.h"
#include "share/wire/identity.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, ACCEPTS_MAX = 16, LOOK_MS_MAX = 1000 };

/* ---- Connections ---- */

static void end(struct cn_keeper *keeper, struct cn_keeper_connection *connection)
{
	if (connection->next)
		connection->next->before = connection->before;
	if (connection->before)
		connection->before->next = connection->next;
	else
		keeper->connections = connection->next;
	keeper->connection_count--;
	connection->counted->connections--;
	epoll_ctl(keeper->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
	cn_wire_hang_up(connection->fd);
	free(connection);
}

static bool admit(struct cn_keeper *keeper, int fd)
{
	struct cn_keeper_connection *connection = calloc(1, sizeof *connection);
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u64 = cn_keeper_key(CN_KEEPER_CONNECTION, (uintptr_t)connection),
	};
	struct ucred who;

	if (!connection || !cn_wire_identify(fd, &who))
		goto err_free;
	struct cn_keeper_user *user = cn_keeper_user(keeper, who.uid);
	if (!user || user->connections >= keeper->limits.connections ||
	    keeper->connection_count >= CN_KEEPER_CONNECTIONS_MAX ||
	    epoll_ctl(keeper->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		goto err_free;
	*connection = (struct cn_keeper_connection){
		.fd = fd,
		.user = who.uid,
		.group = who.gid,
		.pid = who.pid,
		.counted = user,
		.deadline_ns = cn_clock_ns() + CN_KEPT_TIMEOUT_MS * CN_MILLISECOND_NS,
		.next = keeper->connections,
	};
	if (connection->next)
		connection->next->before = connection;
	keeper->connections = connection;
	keeper->connection_count++;
	user->connections++;
	return true;

err_free:
	free(connection);
	return false;
}

static void accept_some(struct cn_keeper *keeper)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = cn_wire_accept(keeper->listen_fd);
		if (fd < 0)
			return;
		if (!admit(keeper, fd))
			cn_wire_hang_up(fd);
	}
}

static void serve_one(struct cn_keeper *keeper, struct cn_keeper_connection *connection)
{
	static struct cn_kept_parcel request, reply;
	int error = cn_kept_receive(connection->fd, &request);

	if (error == EAGAIN)
		return;
	if (error) {
		end(keeper, connection);
		return;
	}
	connection->deadline_ns = cn_clock_ns() + CN_KEPT_TIMEOUT_MS * CN_MILLISECOND_NS;
	cn_keeper_answer(keeper, connection, &request, &reply);
	cn_kept_discard(&request);
	error = cn_kept_send(connection->fd, &reply);
	cn_kept_discard(&reply);
	if (error)
		end(keeper, connection);
}

void cn_keeper_tell(struct cn_keeper *keeper, uint32_t object, uint32_t state)
{
	struct cn_keeper_connection *connection = keeper->connections, *next;
	static struct cn_kept_parcel event;

	for (; connection; connection = next) {
		next = connection->next;
		if (!connection->watches || !cn_keeper_may_see(connection, &keeper->state->objects[object]) ||
		    strncmp(keeper->state->objects[object].name, connection->prefix, strlen(connection->prefix)) != 0)
			continue;
		memset(&event, 0, sizeof event);
		cn_keeper_describe(keeper, object, &event.message);
		event.message.kind = CN_KEPT_EVENT;
		event.message.epoch = keeper->state->epoch;
		event.message.state = state;
		/* One that does not read is ended where it is safe to: when its turn in the loop comes. */
		if (cn_kept_send(connection->fd, &event))
			shutdown(connection->fd, SHUT_RDWR);
	}
}

/* ---- The loop ---- */

static void end_silent(struct cn_keeper *keeper)
{
	static uint64_t next_ns;
	uint64_t now_ns = cn_clock_ns();
	struct cn_keeper_connection *connection = keeper->connections, *next;

	if (now_ns < next_ns)
		return;
	next_ns = now_ns + LOOK_MS_MAX / 2 * CN_MILLISECOND_NS;
	for (; connection; connection = next) {
		next = connection->next;
		if (!connection->watches && connection->deadline_ns < now_ns)
			end(keeper, connection);
	}
	if (cn_wire_has_unclosed())
		cn_wire_close_again();
}

static void handle(struct cn_keeper *keeper, uint64_t key)
{
	const uint64_t number = key & (((uint64_t)1 << 48) - 1);
	struct signalfd_siginfo info;

	switch ((enum cn_keeper_source)(key >> 48)) {
	case CN_KEEPER_LISTENS: accept_some(keeper); break;
	case CN_KEEPER_SIGNALS:
		while (read(keeper->signal_fd, &info, sizeof info) == sizeof info)
			keeper->is_ending = true;
		break;
	/* The number may be another process's by now. */
	case CN_KEEPER_PROCESS: cn_keeper_process_look(keeper, (uint32_t)number); break;
	case CN_KEEPER_CONNECTION: serve_one(keeper, (struct cn_keeper_connection *)(uintptr_t)number); break;
	}
}

static bool add(const struct cn_keeper *keeper, int fd, enum cn_keeper_source source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = cn_keeper_key(source, 0)};

	return !epoll_ctl(keeper->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

bool cn_keeper_begin(struct cn_keeper *keeper)
{
	keeper->signal_fd = cn_daemon_signals();
	if (keeper->signal_fd >= 0 && add(keeper, keeper->signal_fd, CN_KEEPER_SIGNALS) &&
	    add(keeper, keeper->listen_fd, CN_KEEPER_LISTENS))
		return true;
	cn_daemon_log("cannot begin: %s", strerror(errno));
	return false;
}

int cn_keeper_turn(struct cn_keeper *keeper, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(keeper->epoll_fd, events, EVENTS_MAX, timeout_ms);

	for (int i = 0; i < count; i++)
		handle(keeper, events[i].data.u64);
	end_silent(keeper);
	return count;
}

bool cn_keeper_serve(struct cn_keeper *keeper)
{
	if (!cn_keeper_begin(keeper))
		return false;
	cn_daemon_notify("READY=1");
	while (!keeper->is_ending) {
		bool idle = !keeper->connection_count && !cn_wire_has_unclosed();
		cn_keeper_turn(keeper, idle ? -1 : LOOK_MS_MAX);
	}
	return true;
}
