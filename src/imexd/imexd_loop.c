/* SPDX-License-Identifier: MIT */
/*
 * The loop: one thread, which sleeps until a descriptor is ready or something is due.
 *
 * A record whose descriptor is closed may still stand in what epoll has just reported. So it is freed after that.
 */
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, SLEEP_MS_MAX = 500 };

struct cn_imexd cn_imexd;

/* ---- Sources ---- */

bool cn_imexd_watch(int fd, struct cn_imexd_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return !epoll_ctl(cn_imexd.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void cn_imexd_rewatch(int fd, struct cn_imexd_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	epoll_ctl(cn_imexd.epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void cn_imexd_unwatch(int fd)
{
	epoll_ctl(cn_imexd.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void cn_imexd_bury(struct cn_imexd_source *source)
{
	source->ready = NULL;
	source->next_dead = cn_imexd.dead;
	cn_imexd.dead = source;
}

static void free_dead(void)
{
	while (cn_imexd.dead) {
		struct cn_imexd_source *source = cn_imexd.dead;
		cn_imexd.dead = source->next_dead;
		source->free(source);
	}
}

/* ---- What is always there ---- */

static int listen_fd_kept;

static void program_comes(struct cn_imexd_source *source, uint32_t events)
{
	(void)source;
	(void)events;
	cn_imexd_program_accept(listen_fd_kept);
}

static void memory_comes(struct cn_imexd_source *source, uint32_t events)
{
	(void)source;
	(void)events;
	cn_imexd_fetched();
}

static void signal_comes(struct cn_imexd_source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)source;
	(void)events;
	while (read(cn_imexd.signal_fd, &info, sizeof info) == sizeof info)
		cn_imexd.is_ending = true;
}

static struct cn_imexd_source programs = {.ready = program_comes}, memory = {.ready = memory_comes},
			      signals = {.ready = signal_comes};

bool cn_imexd_begin(int listen_fd)
{
	listen_fd_kept = listen_fd;
	cn_imexd.signal_fd = cn_daemon_signals();
	cn_imexd.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return cn_imexd.signal_fd >= 0 && cn_imexd.epoll_fd >= 0 && cn_imexd_fetch_begin() &&
	       cn_imexd_watch(cn_imexd.signal_fd, &signals, EPOLLIN) &&
	       cn_imexd_watch(cn_imexd.event_fd, &memory, EPOLLIN) &&
	       cn_imexd_watch(listen_fd_kept, &programs, EPOLLIN) && cn_imexd_transport.start();
}

static int sleep_until(uint64_t due_ns, struct epoll_event *events)
{
	uint64_t now_ns = cn_clock_ns(), most_ns = SLEEP_MS_MAX * CN_MILLISECOND_NS;
	uint64_t sleep_ns = due_ns <= now_ns ? 0 : due_ns - now_ns;

	sleep_ns = sleep_ns < most_ns ? sleep_ns : most_ns;
	struct timespec timeout = {.tv_nsec = (long)sleep_ns};
	int count = epoll_pwait2(cn_imexd.epoll_fd, events, EVENTS_MAX, &timeout, NULL);
	if (count < 0 && errno == ENOSYS) /* before Linux 5.11 */
		count = epoll_wait(cn_imexd.epoll_fd, events, EVENTS_MAX, (int)(sleep_ns / CN_MILLISECOND_NS) + 1);
	return count;
}

int cn_imexd_turn(void)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t now_ns = cn_clock_ns(), look_ns = cn_imexd_serve_look(now_ns);
	uint64_t tend_ns = cn_imexd_link_tend(now_ns), due_ns = look_ns < tend_ns ? look_ns : tend_ns;
	int count = sleep_until(cn_imexd_transport.flush() ? 0 : due_ns, events);

	for (int i = 0; i < count; i++) {
		struct cn_imexd_source *source = events[i].data.ptr;
		if (source->ready)
			source->ready(source, events[i].events);
	}
	cn_imexd_program_tend(cn_clock_ns());
	cn_imexd_fetch_tend(cn_clock_ns());
	free_dead();
	return count;
}

bool cn_imexd_run(int listen_fd)
{
	if (!cn_imexd_begin(listen_fd)) {
		cn_daemon_log("cannot begin: %s", strerror(errno));
		return false;
	}
	cn_daemon_log("node %u of %u, transport %s", cn_imexd.self, cn_imexd.node_count, cn_imexd_transport.name);
	cn_daemon_notify("READY=1");
	while (!cn_imexd.is_ending)
		cn_imexd_turn();
	for (uint32_t i = 1; i <= cn_imexd.node_count; i++)
		cn_imexd_link_cut(&cn_imexd.nodes[i], NULL);
	free_dead();
	return true;
}
