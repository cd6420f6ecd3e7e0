/* SPDX-License-Identifier: MIT */
/*
 * The service thread: one epoll, one eventfd to wake it, one list of watches.
 *
 * It takes one event at a time. The function that it calls for an event may end any other watch and free the record
 * that holds it; a second event from the same epoll_wait() could belong to that watch. The next time is found by
 * walking the list, which has one entry for each peer: some hundreds at most.
 *
 * `lock` guards the list and the jobs, and is held for a few instructions. Only a fork holds it longer, so that the
 * child finds the list whole. The fork returns in the parent when the child has closed what is in it (base/fork.c).
 */
#include "share/peer/service.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NOT_STARTED = 0, RUNNING = 1, FORKED = 2 };
enum { WATCHED = EPOLLIN | EPOLLRDHUP };
#define TRY_AGAIN_NS 100000000ull

static struct {
	CN_SLOW_LOCK(SERVICE_START) starting;
	_Atomic int state;
	int epoll_fd, wake_fd; /* fixed once the thread runs */

	CN_LOCK(SERVICE) lock;
	struct cn_watch *watches;
	unsigned watch_count;
	struct cn_job *first_job, *last_job;
	uint64_t expect_ns; /* the thread's own: until when it does not sleep */
} service = {
	.epoll_fd = -1,
	.wake_fd = -1,
};

static _Thread_local bool serving; /* this is the service thread */

static void wake(void)
{
	uint64_t one = 1;
	ssize_t written;

	do
		written = write(service.wake_fd, &one, sizeof one);
	while (written < 0 && errno == EINTR);
}

/* ---- Watches ---- */

static void insert_locked(struct cn_watch *watch)
{
	watch->watched = true;
	watch->previous = NULL;
	watch->next = service.watches;
	if (watch->next)
		watch->next->previous = watch;
	service.watches = watch;
	service.watch_count++;
}

static void remove_locked(struct cn_watch *watch)
{
	*(watch->previous ? &watch->previous->next : &service.watches) = watch->next;
	if (watch->next)
		watch->next->previous = watch->previous;
	watch->watched = false;
	service.watch_count--;
}

void cn_service_keep(struct cn_watch *watch)
{
	cn_lock(&service.lock);
	insert_locked(watch);
	cn_unlock(&service.lock);
}

int cn_service_release(struct cn_watch *watch)
{
	int fd = watch->fd;

	cn_lock(&service.lock);
	remove_locked(watch);
	cn_unlock(&service.lock);
	watch->fd = -1;
	return fd;
}

CUresult cn_service_watch(struct cn_watch *watch)
{
	struct epoll_event wanted = {.events = WATCHED, .data.ptr = watch};
	/* Once epoll knows the watch, the service thread may have called its function and freed it. */
	bool timed = watch->due_ns != 0;

	cn_lock(&service.lock);
	bool kept = watch->watched;
	if (!kept)
		insert_locked(watch);
	cn_unlock(&service.lock);
	if (watch->fd >= 0 && epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, watch->fd, &wanted)) {
		int error = errno;
		cn_lock(&service.lock);
		if (!kept)
			remove_locked(watch);
		cn_unlock(&service.lock);
		return cn_error(error == EPERM ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OPERATING_SYSTEM,
				"the service thread cannot watch a descriptor: %s", strerror(error));
	}
	if (timed && !serving) /* the service thread computes the next time by itself */
		wake();
	return CUDA_SUCCESS;
}

void cn_service_unwatch(struct cn_watch *watch)
{
	bool hold = !serving; /* between the list and close() a child would not close it */

	if (hold)
		cn_fork_hold();
	cn_lock(&service.lock);
	remove_locked(watch);
	cn_unlock(&service.lock);
	if (watch->fd >= 0) {
		/*
		 * close() is not enough: a copy of the descriptor in another process keeps the file open, and so
		 * watched.
		 */
		epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, watch->fd, &(struct epoll_event){0});
		cn_wire_hang_up(watch->fd);
		watch->fd = -1;
	}
	if (hold)
		cn_fork_allow();
}

void cn_service_pause(struct cn_watch *watch)
{
	/* EPOLLHUP is reported whatever is asked for; EPOLLONESHOT: at most once. */
	epoll_ctl(service.epoll_fd, EPOLL_CTL_MOD, watch->fd,
		  &(struct epoll_event){.events = EPOLLONESHOT, .data.ptr = watch});
}

void cn_service_resume(struct cn_watch *watch)
{
	epoll_ctl(service.epoll_fd, EPOLL_CTL_MOD, watch->fd,
		  &(struct epoll_event){.events = WATCHED, .data.ptr = watch});
}

void cn_service_mute(struct cn_watch *watch)
{
	epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, watch->fd, &(struct epoll_event){0});
	watch->due_ns = 0;
}

void cn_service_divert(struct cn_watch *watch, int other_fd)
{
	/* First, as in cn_service_unwatch(): afterwards this number is another file. */
	epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, watch->fd, &(struct epoll_event){0});
	cn_wire_turn_away(watch->fd);
	dup3(other_fd, watch->fd, O_CLOEXEC);
}

void cn_service_post(struct cn_job *job)
{
	cn_lock(&service.lock);
	bool first = !service.first_job;
	job->next = NULL;
	if (first)
		service.first_job = job;
	else
		service.last_job->next = job;
	service.last_job = job;
	cn_unlock(&service.lock);
	if (first)
		wake();
}

void cn_service_expect(uint64_t ns)
{
	service.expect_ns = cn_clock_ns() + ns;
}

/* ---- The thread ---- */

/* Milliseconds until the next time of a watch, rounded up; -1: there is none. */
static int wait_ms(void)
{
	uint64_t next_ns = UINT64_MAX;

	cn_lock(&service.lock);
	for (const struct cn_watch *watch = service.watches; watch; watch = watch->next)
		if (watch->due_ns && watch->due_ns < next_ns)
			next_ns = watch->due_ns;
	cn_unlock(&service.lock);
	uint64_t now_ns = cn_clock_ns();
	if (cn_wire_has_unclosed() && next_ns > now_ns + TRY_AGAIN_NS)
		next_ns = now_ns + TRY_AGAIN_NS;
	if (next_ns == UINT64_MAX)
		return -1;
	if (next_ns <= now_ns)
		return 0;
	uint64_t ms = (next_ns - now_ns - 1) / 1000000 + 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static struct cn_watch *take_due(uint64_t now_ns)
{
	cn_lock(&service.lock);
	struct cn_watch *watch = service.watches;
	while (watch && (!watch->due_ns || watch->due_ns > now_ns))
		watch = watch->next;
	if (watch)
		watch->due_ns = 0;
	cn_unlock(&service.lock);
	return watch;
}

static void run_due(void)
{
	uint64_t now_ns = cn_clock_ns();
	struct cn_watch *watch;

	cn_lock(&service.lock);
	unsigned left = service.watch_count;
	cn_unlock(&service.lock);
	/* A watch that sets a time already past is called again in the next round. */
	for (; left && (watch = take_due(now_ns)); left--)
		watch->due(watch);
}

static void run_jobs(void)
{
	cn_lock(&service.lock);
	struct cn_job *job = service.first_job;
	service.first_job = service.last_job = NULL;
	cn_unlock(&service.lock);
	while (job) {
		struct cn_job *next = job->next;
		job->run(job);
		job = next;
	}
}

/* Wait for an event, or a time; as epoll_wait(). */
static int await_event(struct epoll_event *ret_event)
{
	while (cn_clock_ns() < service.expect_ns) {
		bool due = wait_ms() == 0;
		int count = epoll_wait(service.epoll_fd, ret_event, 1, 0);
		if (count || due)
			return count;
		sched_yield();
	}
	return epoll_wait(service.epoll_fd, ret_event, 1, wait_ms());
}

static void *serve(void *unused)
{
	(void)unused;
	serving = true;
	for (;;) {
		struct epoll_event event;
		int count = await_event(&event);
		uint64_t posted;

		cn_fork_hold();
		if (count == 1 && event.data.ptr) {
			struct cn_watch *watch = event.data.ptr;
			watch->ready(watch);
		} else if (count == 1 && read(service.wake_fd, &posted, sizeof posted) < 0) {
			/* Nothing to read: the next round checks again. */
		}
		run_due();
		run_jobs();
		if (cn_wire_has_unclosed())
			cn_wire_close_again();
		cn_fork_allow();
	}
	return NULL;
}

/* ---- Fork ---- */

static void stop_starting(void)
{
	cn_slow_lock(&service.starting);
}

static void allow_starting(void)
{
	cn_slow_unlock(&service.starting);
}

static void stop_changes(void)
{
	cn_lock(&service.lock);
	if (service.watches)
		cn_fork_wait_for_child();
}

static void allow_changes(void)
{
	cn_unlock(&service.lock);
}

static void close_all_in_child(void)
{
	for (struct cn_watch *watch = service.watches; watch; watch = watch->next)
		if (watch->fd >= 0)
			close(watch->fd);
	if (service.epoll_fd >= 0)
		close(service.epoll_fd);
	if (service.wake_fd >= 0)
		close(service.wake_fd);
	service.epoll_fd = service.wake_fd = -1; /* a child of the child must not close what then has these numbers */
	service.watches = NULL;
	if (atomic_load(&service.state) == RUNNING)
		atomic_store(&service.state, FORKED);
	cn_unlock(&service.lock);
}

static struct cn_fork_hook hooks[] = {
	{.order = CN_FORK_SERVICE_START, .before = stop_starting, .parent = allow_starting, .child = allow_starting},
	{.order = CN_FORK_SERVICE, .before = stop_changes, .parent = allow_changes, .child = close_all_in_child},
};

/* ---- The start ---- */

static CUresult start_locked(void)
{
	struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = NULL};

	service.epoll_fd = cn_descriptor_raise(epoll_create1(EPOLL_CLOEXEC));
	service.wake_fd = cn_descriptor_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (service.epoll_fd < 0 || service.wake_fd < 0 ||
	    epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, service.wake_fd, &wanted)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the service thread has nothing to wait on: %s", strerror(errno));
		goto err_close;
	}
	if (!cn_thread_start(serve, NULL)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the service thread could not be started");
		goto err_close;
	}
	atomic_store(&service.state, RUNNING);
	return CUDA_SUCCESS;

err_close:
	if (service.epoll_fd >= 0)
		close(service.epoll_fd);
	if (service.wake_fd >= 0)
		close(service.wake_fd);
	service.epoll_fd = service.wake_fd = -1;
	return CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cn_service_start(void)
{
	CUresult result = CUDA_SUCCESS;

	if (atomic_load_explicit(&service.state, memory_order_acquire) == RUNNING)
		return CUDA_SUCCESS;
	/* Not with `starting` held: a fork takes that lock while it holds the list of hooks. */
	if (!cn_fork_watch(&hooks[0]) || !cn_fork_watch(&hooks[1]))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory to watch for fork()");
	cn_slow_lock(&service.starting);
	int state = atomic_load(&service.state);
	if (state == FORKED)
		result = cn_error(CUDA_ERROR_NOT_INITIALIZED,
				  "this process was forked from one that shares with others: exec in the child");
	else if (state == NOT_STARTED)
		result = start_locked();
	cn_slow_unlock(&service.starting);
	return result;
}
