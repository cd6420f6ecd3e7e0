/* SPDX-License-Identifier: MIT */
/*
 * The service thread: watches, times, jobs, and what a forked child has of them.
 */
#include "base/lock.h"
#include "harness.h"
#include "share/peer/service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, MANY = 500 };

/* What happened on the service thread comes through here, a byte each. */
static int told[2];

static void tell(char byte)
{
	ASSERT_EQ(1, write(told[1], &byte, 1));
}

static void expect(char byte)
{
	char got = 0;

	ASSERT_EQ(1, read(told[0], &got, 1));
	ASSERT_EQ(byte, got);
}

SETUP
{
	ASSERT_OK(cn_service_start());
	ASSERT_SYS(pipe2(told, O_CLOEXEC));
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* ---- Jobs ---- */

struct letter {
	struct cn_job job; /* first */
	char byte;
	int again;
};

static pthread_t job_thread;

static void send_letter(struct cn_job *job)
{
	struct letter *letter = (struct letter *)job;

	job_thread = pthread_self();
	if (letter->again-- > 0)
		cn_service_post(job);
	tell(letter->byte);
}

TEST(jobs_run_in_their_order_on_a_thread_of_their_own)
{
	struct letter letters[26];

	for (int i = 0; i < 26; i++) {
		letters[i] = (struct letter){{.run = send_letter}, (char)('a' + i), 0};
		cn_service_post(&letters[i].job);
	}
	for (int i = 0; i < 26; i++)
		expect((char)('a' + i));
	ASSERT(!pthread_equal(job_thread, pthread_self()));
}

TEST(a_job_may_post_itself_again)
{
	struct letter letter = {{.run = send_letter}, 'x', 3};

	cn_service_post(&letter.job);
	for (int i = 0; i < 4; i++)
		expect('x');
}

/* ---- Watches ---- */

struct reader {
	struct cn_watch watch; /* first */
	struct cn_job end;
	struct reader *other;
};

static void end_now(struct cn_job *job)
{
	struct reader *reader = (struct reader *)((char *)job - offsetof(struct reader, end));

	cn_service_unwatch(&reader->watch);
	tell('e');
}

static void end_reader(struct reader *reader)
{
	reader->end.run = end_now;
	cn_service_post(&reader->end);
	expect('e');
}

static void read_one(struct cn_watch *watch)
{
	char byte;
	ssize_t got = read(watch->fd, &byte, 1);

	if (got == 0)
		cn_service_unwatch(watch);
	tell(got == 1 ? byte : '0');
}

TEST(what_can_be_read_is_told_and_so_is_the_end)
{
	int ends[2];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	struct reader reader = {.watch = {.fd = ends[0], .ready = read_one}};
	ASSERT_OK(cn_service_watch(&reader.watch));
	ASSERT_EQ(2, write(ends[1], "ab", 2));
	expect('a');
	expect('b');
	ASSERT_EQ(1, write(ends[1], "c", 1));
	expect('c');
	ASSERT_SYS(close(ends[1]));
	expect('0');
	ASSERT(!is_open(ends[0]));
	ASSERT_EQ(-1, reader.watch.fd);
}

TEST(a_watch_that_has_ended_says_nothing_and_its_descriptor_is_closed)
{
	int ends[2];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	int copy = dup(ends[0]); /* keeps the pipe readable, and the system's note of it alive */
	ASSERT_SYS(copy);
	struct reader reader = {.watch = {.fd = ends[0], .ready = read_one}};
	ASSERT_OK(cn_service_watch(&reader.watch));
	end_reader(&reader);
	ASSERT(!is_open(ends[0]));
	ASSERT_EQ(1, write(ends[1], "x", 1));
	struct letter letter = {{.run = send_letter}, 'j', 0};
	cn_service_post(&letter.job);
	expect('j');
	ASSERT_SYS(close(copy));
	ASSERT_SYS(close(ends[1]));
}

TEST(what_comes_to_a_paused_watch_is_told_when_it_is_resumed)
{
	struct letter letter = {{.run = send_letter}, 'j', 0};
	int ends[2];
	char byte;

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	struct reader reader = {.watch = {.fd = ends[0], .ready = read_one}};
	ASSERT_OK(cn_service_watch(&reader.watch));
	for (int i = 0; i < 3; i++) {
		cn_service_pause(&reader.watch);
		ASSERT_EQ(2, write(ends[1], "mo", 2));
		cn_service_post(&letter.job); /* the thread goes round, and sees nothing else */
		expect('j');
		ASSERT_EQ(1, read(ends[0], &byte, 1)); /* mine */
		ASSERT_EQ('m', byte);
		cn_service_resume(&reader.watch);
		expect('o');
	}
	cn_service_pause(&reader.watch);
	cn_service_resume(&reader.watch);
	cn_service_post(&letter.job); /* what I have read was before it closes that */
	expect('j');
	ASSERT_SYS(close(ends[1]));
	expect('0');
}

TEST(what_a_diverted_watch_led_to_is_closed_at_once)
{
	int ends[2], other = open("/", O_PATH | O_CLOEXEC);

	ASSERT_SYS(other);
	signal(SIGPIPE, SIG_IGN);
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	struct reader reader = {.watch = {.fd = ends[0], .ready = read_one}};
	ASSERT_OK(cn_service_watch(&reader.watch));
	cn_service_divert(&reader.watch, other);
	ASSERT_EQ(-1, write(ends[1], "x", 1));
	ASSERT_EQ(EPIPE, errno);
	ASSERT_EQ(FD_CLOEXEC, fcntl(ends[0], F_GETFD)); /* the number is the watch's still */
	end_reader(&reader);
	ASSERT(!is_open(ends[0]));
	ASSERT_SYS(close(ends[1]));
	ASSERT_SYS(close(other));
}

TEST(what_the_system_cannot_watch_stays_the_callers)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	struct cn_watch watch = {.fd = fd, .ready = read_one};

	ASSERT_SYS(fd);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_service_watch(&watch));
	ASSERT(!watch.watched);
	ASSERT_SYS(close(fd));
}

/* Ends both, and frees the other: nobody may look at that one any more. */
static void end_both(struct cn_watch *watch)
{
	struct reader *reader = (struct reader *)watch;

	cn_service_unwatch(&reader->other->watch);
	free(reader->other);
	cn_service_unwatch(&reader->watch);
	free(reader);
	tell('b');
}

static int go[2];

static void pause_service(struct cn_job *job)
{
	char byte;

	(void)job;
	tell('p');
	ASSERT_EQ(1, read(go[0], &byte, 1));
}

/* Goal: two are ready at the same time, and the function of one ends the other. */
TEST(a_ready_watch_may_be_ended_by_another_one)
{
	ASSERT_SYS(pipe2(go, O_CLOEXEC));
	for (int i = 0; i < 100; i++) {
		struct reader *pair[2] = {calloc(1, sizeof **pair), calloc(1, sizeof **pair)};
		struct cn_job pause = {.run = pause_service};
		struct letter last = {{.run = send_letter}, 'l', 0};
		int ends[2][2];

		ASSERT(pair[0] && pair[1]);
		for (int k = 0; k < 2; k++) {
			ASSERT_SYS(pipe2(ends[k], O_CLOEXEC));
			pair[k]->watch = (struct cn_watch){.fd = ends[k][0], .ready = end_both};
			pair[k]->other = pair[!k];
			ASSERT_OK(cn_service_watch(&pair[k]->watch));
		}
		cn_service_post(&pause);
		expect('p');
		for (int k = 0; k < 2; k++)
			ASSERT_EQ(1, write(ends[k][1], "x", 1));
		ASSERT_EQ(1, write(go[1], "x", 1));
		expect('b');
		cn_service_post(&last.job);
		expect('l');
		for (int k = 0; k < 2; k++) {
			ASSERT(!is_open(ends[k][0]));
			ASSERT_SYS(close(ends[k][1]));
		}
	}
	ASSERT_SYS(close(go[0]));
	ASSERT_SYS(close(go[1]));
}

/* ---- Times ---- */

struct alarm {
	struct cn_watch watch; /* first */
	int left;
};

static void ring(struct cn_watch *watch)
{
	struct alarm *alarm = (struct alarm *)watch;

	ASSERT_EQ(0, watch->due_ns);
	if (--alarm->left > 0)
		watch->due_ns = cn_clock_ns() + 1000;
	else
		cn_service_unwatch(watch);
	tell('t');
}

TEST(a_time_comes_once_until_it_is_set_again)
{
	struct alarm alarm = {.watch = {.fd = -1, .due = ring, .due_ns = cn_clock_ns() + 1000000}, .left = 3};

	ASSERT_OK(cn_service_watch(&alarm.watch));
	for (int i = 0; i < 3; i++)
		expect('t');
}

TEST(a_time_that_is_over_comes_at_once_and_does_not_keep_jobs_waiting)
{
	struct alarm alarm = {.watch = {.fd = -1, .due = ring, .due_ns = 1}, .left = 100};
	struct letter letter = {{.run = send_letter}, 't', 0};

	ASSERT_OK(cn_service_watch(&alarm.watch));
	cn_service_post(&letter.job);
	for (int i = 0; i < 101; i++)
		expect('t');
}

static void expect_long(struct cn_job *job)
{
	(void)job;
	cn_service_expect(UINT64_MAX / 2);
	tell('l');
}

static void expect_nothing(struct cn_job *job)
{
	(void)job;
	cn_service_expect(0);
	tell('n');
}

/* Goal: while the thread expects something, times come all the same, and jobs run. */
TEST(what_is_expected_keeps_neither_times_nor_jobs_waiting)
{
	struct cn_job begin = {.run = expect_long}, end = {.run = expect_nothing};
	struct alarm alarm = {.watch = {.fd = -1, .due = ring}, .left = 3};

	cn_service_post(&begin);
	expect('l');
	alarm.watch.due_ns = cn_clock_ns() + 1000;
	ASSERT_OK(cn_service_watch(&alarm.watch));
	for (int i = 0; i < 3; i++)
		expect('t');
	cn_service_post(&end);
	expect('n');
}

/* ---- Many ---- */

static void end_and_free(struct cn_watch *watch)
{
	cn_service_unwatch(watch);
	free(watch);
	tell('f');
}

static void *watch_many(void *unused)
{
	for (int i = 0; i < MANY / HARNESS_SLOWDOWN; i++) {
		struct cn_watch *watch = calloc(1, sizeof *watch);
		int ends[2];

		ASSERT(watch);
		cn_fork_hold();
		ASSERT_SYS(pipe2(ends, O_CLOEXEC));
		*watch = (struct cn_watch){.fd = ends[0], .ready = end_and_free};
		if (i % 2)
			cn_service_keep(watch);
		cn_fork_allow();
		if (i % 3 == 0)
			ASSERT_EQ(1, write(ends[1], "x", 1));
		ASSERT_OK(cn_service_watch(watch));
		ASSERT_SYS(close(ends[1]));
		expect('f'); /* this one's or another thread's: as many as there are watches */
	}
	return unused;
}

TEST(threads_watch_at_the_same_time)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, watch_many, NULL));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
}

/* ---- Fork ---- */

/* In a forked child: no more than this, since only one thread is left of its parent. */
static int status_of(pid_t child)
{
	int status = -1;

	ASSERT_SYS(child);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	return status;
}

TEST(a_forked_child_has_none_of_the_descriptors_and_no_service)
{
	int watched[2], kept[2];

	ASSERT_SYS(pipe2(watched, O_CLOEXEC));
	ASSERT_SYS(pipe2(kept, O_CLOEXEC));
	struct reader reader = {.watch = {.fd = watched[0], .ready = read_one}};
	struct cn_watch keep = {.fd = kept[0]};
	ASSERT_OK(cn_service_watch(&reader.watch));
	cn_service_keep(&keep);

	pid_t child = fork();
	if (!child) {
		bool good = !is_open(watched[0]) && !is_open(kept[0]) && is_open(watched[1]) &&
			    cn_service_start() == CUDA_ERROR_NOT_INITIALIZED;
		_exit(good ? 0 : 1);
	}
	ASSERT_EQ(0, status_of(child));

	/* And the parent goes on. */
	ASSERT(is_open(kept[0]));
	ASSERT_EQ(1, write(watched[1], "a", 1));
	expect('a');
	end_reader(&reader);
	cn_service_unwatch(&keep); /* never watched: from any thread */
	ASSERT(!is_open(kept[0]));
	ASSERT_SYS(close(watched[1]));
	ASSERT_SYS(close(kept[1]));
}

static _Atomic bool enough;

static void *make_and_close(void *unused)
{
	while (!atomic_load(&enough)) {
		struct cn_watch ends[2] = {{.fd = -1}, {.fd = -1}};
		int fds[2];

		cn_fork_hold();
		ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
		for (int i = 0; i < 2; i++) {
			ends[i].fd = fds[i];
			cn_service_keep(&ends[i]);
		}
		cn_fork_allow();
		cn_service_unwatch(&ends[0]);
		cn_service_unwatch(&ends[1]);
	}
	return unused;
}

/* Goal: descriptors that are made and closed while the program forks are never in the child. */
TEST(a_forked_child_has_no_descriptor_that_is_just_being_made)
{
	enum { FORKS = 300 / HARNESS_SLOWDOWN, FDS = 64 };
	pthread_t thread;
	bool was_open[FDS];

	for (int fd = 0; fd < FDS; fd++)
		was_open[fd] = is_open(fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, make_and_close, NULL));
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		if (!child) {
			int more = 0;
			for (int fd = 0; fd < FDS; fd++)
				more += is_open(fd) && !was_open[fd];
			_exit(more);
		}
		ASSERT_EQ(0, status_of(child));
	}
	atomic_store(&enough, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static struct cn_lock hook_lock;
static int hook_calls;

static void hook_before(void)
{
	cn_lock_take(&hook_lock);
}

static void hook_parent(void)
{
	hook_calls++;
	cn_lock_drop(&hook_lock);
}

static void hook_child(void)
{
	hook_calls += 100;
	cn_lock_drop(&hook_lock);
}

/* Takes, on the service thread, the lock that is also taken before a fork. */
static void take_lock(struct cn_job *job)
{
	cn_lock_take(&hook_lock);
	bool last = atomic_load(&enough);
	cn_lock_drop(&hook_lock);
	if (last)
		tell('l');
	else
		cn_service_post(job);
}

/* Goal: a lock that the service thread takes can be taken before a fork, and nobody waits for ever. */
TEST(hooks_are_called_while_the_service_stands_still)
{
	static struct cn_fork_hook hook = {
		.order = CN_FORK_EXPORTS, .before = hook_before, .parent = hook_parent, .child = hook_child};
	struct cn_job job = {.run = take_lock};

	ASSERT(cn_fork_watch(&hook));
	cn_service_post(&job);
	for (int i = 1; i <= 100 / HARNESS_SLOWDOWN; i++) {
		pid_t child = fork();
		if (!child)
			_exit(hook_calls == 99 + i ? 0 : 1);
		ASSERT_EQ(0, status_of(child));
		ASSERT_EQ(i, hook_calls);
	}
	atomic_store(&enough, true);
	expect('l');
}

/* Goal: when fork() returns, the child has closed its copies: it is never the last to close a stranger's connection. */
TEST(a_forked_child_has_closed_all_when_fork_returns)
{
	for (int i = 0; i < 200; i++) {
		int ends[2], pipe_ends[2];
		char byte;

		ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
		ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
		struct cn_watch keep = {.fd = ends[1]};
		cn_service_keep(&keep);
		pid_t child = fork();
		if (!child) {
			close(pipe_ends[1]);
			_exit(read(pipe_ends[0], &byte, 1) == 0 ? 0 : 1);
		}
		ASSERT_SYS(close(cn_service_release(&keep)));
		struct pollfd hang_up = {.fd = ends[0]};
		ASSERT_EQ(1, poll(&hang_up, 1, 0));
		ASSERT_SYS(close(pipe_ends[0]));
		ASSERT_SYS(close(pipe_ends[1]));
		ASSERT_SYS(close(ends[0]));
		ASSERT_EQ(0, status_of(child));
	}
}

/* Watches one end of a connection, forks, and tells who the child is; the child stays until its pipe is closed. */
ROLE(forker)
{
	int sock = peer_receive_descriptor(parent), pipe_end = peer_receive_descriptor(parent);
	struct reader reader = {.watch = {.fd = sock, .ready = read_one}};
	char byte;

	ASSERT_OK(cn_service_watch(&reader.watch));
	pid_t child = fork();
	if (!child)
		_exit(read(pipe_end, &byte, 1) == 0 ? 0 : 1);
	ASSERT_SYS(child);
	peer_send_bytes(parent, &child, sizeof child);
	peer_expect(parent, "never");
}

/* Goal: the connections of a process end with it, whatever its children do. */
TEST(a_forked_child_does_not_keep_its_parents_connections)
{
	struct peer *peer = peer_start("forker");
	int ends[2], pipe_ends[2];
	pid_t child;

	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
	peer_send_descriptor(peer, ends[1]);
	peer_send_descriptor(peer, pipe_ends[0]);
	ASSERT_SYS(close(ends[1]));
	ASSERT_SYS(close(pipe_ends[0]));
	peer_receive_bytes(peer, &child, sizeof child);
	int process = (int)syscall(SYS_pidfd_open, child, 0);
	ASSERT_SYS(process);

	peer_kill(peer);
	struct pollfd hang_up = {.fd = ends[0], .events = POLLIN};
	ASSERT_EQ(1, poll(&hang_up, 1, -1));
	ASSERT(hang_up.revents & POLLHUP);
	struct pollfd ended = {.fd = process, .events = POLLIN};
	ASSERT_EQ(0, poll(&ended, 1, 0)); /* the child still lives */
	ASSERT_SYS(close(pipe_ends[1]));
	ASSERT_EQ(1, poll(&ended, 1, -1));
	ASSERT_SYS(close(process));
	ASSERT_SYS(close(ends[0]));
}
