/* SPDX-License-Identifier: MIT */
/*
 * cenoted ends at every instant that can be told from outside, while it answers a request.
 *
 * What survives a daemon is its state file and the descriptors that its manager has. A daemon is single-stepped through
 * one request; after each instruction that changed either, both are copied. From each copy another daemon is started.
 * The program that lost its answer asks again: it must be granted, and what is kept then must be what the first daemon
 * has when it was not disturbed. When all is released and retired, nothing may be left.
 */
#include "harness.h"

#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "share/kept/kept.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	RECORDS = 3,        /* of each table that a request of these tests can use */
	COPIES_MAX = 200,   /* instants of a request */
	STORED_MAX = 8,     /* descriptors with the manager */
	STEPS_MAX = 400000, /* instructions of a request */
	WAIT_MS = 20000,
	GIVEN_FD = 600, /* where a daemon of this test finds what its manager had */
};

/* What a manager has. */
struct manager {
	int sock;
	char path[600];
	unsigned count;
	struct stored {
		char name[CN_DAEMON_NAME_BYTES];
		int fd;
	} stored[STORED_MAX];
};

/* The records of a state file that are in use; all others are zero. */
struct records {
	uint32_t magic, bytes;
	uint64_t epoch, last_generation;
	struct cn_keeper_object objects[RECORDS];
	struct cn_keeper_process processes[RECORDS];
	struct cn_keeper_hold holds[RECORDS];
};

/* An instant. */
struct copy {
	struct records records;
	unsigned count;
	struct stored stored[STORED_MAX];
};

/* ---- Daemons ---- */

/* A daemon of this test: its socket and its manager's are named; the descriptors that the manager had come first. */
ROLE(daemon)
{
	static struct cn_keeper keeper = {
		.limits = {.bytes = 1 << 30, .objects = 8, .descriptors = 8, .holds = 8, .connections = 8},
	};
	const char *names[STORED_MAX + 1];
	struct cn_daemon_given given = {
		.first_fd = GIVEN_FD,
		.count = (unsigned)strtoul(argv[2], NULL, 10),
		.name = names,
	};
	int lock_fd;

	for (unsigned i = 0; i < given.count; i++) {
		names[i] = argv[3 + i];
		int fd = peer_receive_descriptor(parent);
		ASSERT_SYS(dup2(fd, GIVEN_FD + (int)i));
		close(fd);
	}
	setenv("NOTIFY_SOCKET", argv[1], 1);
	ASSERT(!cn_daemon_listen(argv[0], &keeper.listen_fd, &lock_fd));
	ASSERT_SYS(keeper.epoll_fd = epoll_create1(EPOLL_CLOEXEC));
	ASSERT(cn_keeper_start(&keeper, &given) && cn_keeper_begin(&keeper));
	peer_send(parent, "ready");
	for (;;) /* until it is killed; a tracer that stops it interrupts the wait */
		cn_keeper_turn(&keeper, WAIT_MS);
}

static void manager_open(struct manager *manager, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	manager->count = 0;
	snprintf(manager->path, sizeof manager->path, "%s", test_path(name));
	ASSERT_LT(strlen(manager->path), sizeof address.sun_path);
	memcpy(address.sun_path, manager->path, strlen(manager->path));
	unlink(manager->path);
	ASSERT_SYS(manager->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	ASSERT_SYS(bind(manager->sock, (const struct sockaddr *)&address, sizeof address));
}

static void manager_close(struct manager *manager)
{
	for (unsigned i = 0; i < manager->count; i++)
		close(manager->stored[i].fd);
	close(manager->sock);
	unlink(manager->path);
}

/* Hear what the daemon has said. False: nothing. */
static bool manager_hear(struct manager *manager)
{
	char text[256];
	union cn_rights rights;
	struct iovec part = {text, sizeof text - 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
	int fd = -1;

	ssize_t got = recvmsg(manager->sock, &message, MSG_CMSG_CLOEXEC);
	if (got < 0)
		return false;
	text[got] = 0;
	cn_rights_take(&message, CN_WIRE_NOBODY, &fd, 1);
	const char *name = strstr(text, "FDNAME=");
	ASSERT(name);
	name += 7;
	if (fd >= 0) {
		ASSERT_LT(manager->count, STORED_MAX);
		struct stored *stored = &manager->stored[manager->count++];
		snprintf(stored->name, sizeof stored->name, "%s", name);
		stored->fd = fd;
		return true;
	}
	ASSERT(strstr(text, "FDSTOREREMOVE=1"));
	for (unsigned i = 0; i < manager->count; i++)
		if (!strcmp(manager->stored[i].name, name)) {
			close(manager->stored[i].fd);
			manager->stored[i--] = manager->stored[--manager->count];
		}
	return true;
}

static void manager_hear_all(struct manager *manager)
{
	while (manager_hear(manager))
		;
}

/* ---- Requests ---- */

static const char *socket_path; /* of the daemon that is asked */

static int send_request(struct cn_kept_parcel *request)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ASSERT_SYS(sock);
	ASSERT_LT(strlen(socket_path), sizeof address.sun_path);
	memcpy(address.sun_path, socket_path, strlen(socket_path));
	ASSERT_SYS(connect(sock, (const struct sockaddr *)&address, sizeof address));
	ASSERT_EQ(0, cn_kept_send(sock, request));
	return sock;
}

static unsigned receive_reply(int sock, struct cn_kept_message *ret_reply)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};
	struct cn_kept_parcel reply;

	ASSERT_EQ(1, poll(&polled, 1, WAIT_MS));
	ASSERT_EQ(0, cn_kept_receive(sock, &reply));
	for (unsigned i = 0; i < reply.descriptor_count; i++)
		close(reply.descriptors[i]);
	close(sock);
	if (ret_reply)
		*ret_reply = reply.message;
	return reply.message.refusal;
}

/* Objects are changeable, so that they need not be sealed; all have one name. */
static struct cn_kept_parcel request_of(enum cn_kept_kind kind, uint64_t hold, bool writes)
{
	struct cn_kept_parcel request = {.message = {.kind = kind, .hold = hold, .name = "a"}};

	if (kind == CN_KEPT_CREATE) {
		request.message.device = CN_KEPT_ON_HOST;
		request.message.flags = CN_KEPT_CHANGEABLE;
		request.message.mode = 0600;
		request.message.part_count = 1;
		request.message.part_bytes[0] = 1;
	}
	if (kind == CN_KEPT_OPEN && writes)
		request.message.flags = CN_KEPT_TO_WRITE;
	return request;
}

static unsigned ask(enum cn_kept_kind kind, uint64_t hold, bool writes)
{
	struct cn_kept_parcel request = request_of(kind, hold, writes);

	return receive_reply(send_request(&request), NULL);
}

/* What is kept, in a line: the state of each object and how often it is open, older generations first. */
static void list(char ret_text[64])
{
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_LIST}};
	struct cn_kept_message reply;
	uint64_t generations[RECORDS] = {0};
	unsigned count = 0;
	char texts[RECORDS][16];

	while (receive_reply(send_request(&request), &reply) == CN_KEPT_GRANTED) {
		unsigned at = count++;
		ASSERT_LT(at, RECORDS);
		for (; at && generations[at - 1] > reply.generation; at--) {
			generations[at] = generations[at - 1];
			memcpy(texts[at], texts[at - 1], sizeof texts[at]);
		}
		generations[at] = reply.generation;
		snprintf(texts[at], sizeof texts[at], " %u:%u", reply.state, reply.holder_count);
		request.message.cursor = reply.cursor;
	}
	ret_text[0] = 0;
	for (unsigned i = 0; i < count; i++)
		strcat(ret_text, texts[i]); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy): they fit */
}

/* ---- Instants ---- */

static const struct cn_keeper_state *state; /* of the daemon that is stepped */

static void read_records(struct records *ret_records)
{
	ret_records->magic = state->magic;
	ret_records->bytes = state->bytes;
	ret_records->epoch = state->epoch;
	ret_records->last_generation = state->last_generation;
	memcpy(ret_records->objects, state->objects, sizeof ret_records->objects);
	memcpy(ret_records->processes, state->processes, sizeof ret_records->processes);
	memcpy(ret_records->holds, state->holds, sizeof ret_records->holds);
}

static void keep_copy(struct copy *copy, const struct records *records, const struct manager *manager)
{
	copy->records = *records;
	copy->count = manager->count;
	for (unsigned i = 0; i < manager->count; i++) {
		copy->stored[i] = manager->stored[i];
		ASSERT_SYS(copy->stored[i].fd = fcntl(manager->stored[i].fd, F_DUPFD_CLOEXEC, 0));
	}
}

/* Let the daemon answer, one instruction after the other. Returns how many instants there were. */
static unsigned step(struct peer *daemon, struct manager *manager, int sock, struct copy copies[COPIES_MAX])
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};
	static struct records before, now;
	pid_t pid = peer_pid(daemon);
	unsigned count = 0;
	int status;

	read_records(&before);
	keep_copy(&copies[count++], &before, manager);
	ASSERT_EQ(pid, waitpid(pid, &status, __WALL));
	for (unsigned i = 0; i < STEPS_MAX && poll(&polled, 1, 0) != 1; i++) {
		ASSERT(WIFSTOPPED(status));
		ASSERT_SYS(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
		ASSERT_EQ(pid, waitpid(pid, &status, __WALL));
		bool heard = manager_hear(manager);
		read_records(&now);
		/* Gaps between fields are zero in the file. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
		if (!heard && !memcmp(&before, &now, sizeof now))
			continue;
		ASSERT_LT(count, COPIES_MAX);
		before = now;
		keep_copy(&copies[count++], &now, manager);
	}
	ASSERT_SYS(ptrace(PTRACE_DETACH, pid, NULL, NULL));
	return count;
}

/* The state file as a manager would hand it over. */
static int make_state(const struct records *records)
{
	int fd = memfd_create("state", MFD_CLOEXEC);
	struct cn_keeper_state *made;

	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, sizeof *made));
	made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(made != MAP_FAILED);
	made->magic = records->magic;
	made->bytes = records->bytes;
	made->epoch = records->epoch;
	made->last_generation = records->last_generation;
	memcpy(made->objects, records->objects, sizeof records->objects);
	memcpy(made->processes, records->processes, sizeof records->processes);
	memcpy(made->holds, records->holds, sizeof records->holds);
	munmap(made, sizeof *made);
	return fd;
}

/* A daemon as at this instant. The manager has what it had. */
static struct peer *start_again(const struct copy *copy, const char *path, struct manager *manager)
{
	char count[16], names[STORED_MAX][CN_DAEMON_NAME_BYTES] = {{0}};

	snprintf(count, sizeof count, "%u", copy->count);
	for (unsigned i = 0; i < copy->count; i++)
		snprintf(names[i], sizeof names[i], "%s", copy->stored[i].name);
	struct peer *daemon = peer_start("daemon", path, manager->path, count, names[0], names[1], names[2], names[3],
					 names[4], names[5], names[6], names[7]);
	for (unsigned i = 0; i < copy->count; i++) {
		bool is_state = !strcmp(copy->stored[i].name, "state");
		int fd = is_state ? make_state(&copy->records) : copy->stored[i].fd;
		peer_send_descriptor(daemon, fd);
		manager->stored[manager->count] = copy->stored[i];
		manager->stored[manager->count++].fd = fd;
		if (is_state)
			close(copy->stored[i].fd);
	}
	peer_expect(daemon, "ready");
	return daemon;
}

/* ---- The test ---- */

struct question {
	enum cn_kept_kind kind;
	uint64_t hold;
	bool writes;
};

/* Ask again at this instant; what is kept must come out as `expected`, and nothing may be left at the end. */
static void check_instant(const struct copy *copy, const struct question *question, const char *expected,
			  unsigned number)
{
	struct manager manager;
	char text[64];

	socket_path = test_path("again");
	manager_open(&manager, "again-manager");
	struct peer *daemon = start_again(copy, socket_path, &manager);
	unsigned refusal = ask(question->kind, question->hold, question->writes);
	bool granted = !refusal || (question->kind == CN_KEPT_RETIRE && refusal == CN_KEPT_UNKNOWN);
	list(text);
	if (!granted || strcmp(text, expected) != 0)
		FAIL("instant %u of kind %u: refusal %u, then%s instead of%s", number, question->kind, refusal, text,
		     expected);
	for (uint64_t hold = 1; hold <= RECORDS; hold++)
		ASSERT_EQ(CN_KEPT_GRANTED, ask(CN_KEPT_RELEASE, hold, false));
	ask(CN_KEPT_RETIRE, 0, false);
	list(text);
	ASSERT_STREQ("", text);
	manager_hear_all(&manager);
	ASSERT_EQ(1, manager.count);
	ASSERT_STREQ("state", manager.stored[0].name);
	peer_kill(daemon);
	manager_close(&manager);
	unlink(socket_path);
	unlink(test_path("again.lock"));
}

/* All questions but the last are answered; the last one is stepped through. */
static void run(const struct question *questions, unsigned count)
{
	static struct copy copies[COPIES_MAX];
	const char *path = test_path("kept");
	struct manager manager;
	char expected[64];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer's instructions are too many to step through, and change nothing that survives");
#endif
	socket_path = path;
	manager_open(&manager, "manager");
	struct peer *daemon = peer_start("daemon", path, manager.path, "0");
	peer_expect(daemon, "ready");
	manager_hear_all(&manager);
	ASSERT_EQ(1, manager.count);
	state = mmap(NULL, sizeof *state, PROT_READ, MAP_SHARED, manager.stored[0].fd, 0);
	ASSERT(state != MAP_FAILED);
	for (unsigned i = 0; i + 1 < count; i++)
		ASSERT_EQ(CN_KEPT_GRANTED, ask(questions[i].kind, questions[i].hold, questions[i].writes));
	manager_hear_all(&manager);
	const struct question *last = &questions[count - 1];
	struct cn_kept_parcel request = request_of(last->kind, last->hold, last->writes);
	if (ptrace(PTRACE_SEIZE, peer_pid(daemon), NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, peer_pid(daemon), NULL, NULL))
		SKIP("this process may not trace another: %s", strerror(errno));
	int sock = send_request(&request);
	unsigned instants = step(daemon, &manager, sock, copies);
	ASSERT_EQ(CN_KEPT_GRANTED, receive_reply(sock, NULL));
	list(expected);
	for (unsigned i = 0; i < instants; i++)
		check_instant(&copies[i], last, expected, i);
	peer_kill(daemon);
	munmap((void *)(uintptr_t)state, sizeof *state);
	manager_close(&manager);
	unlink(path);
	unlink(test_path("kept.lock"));
	printf("# %u instants\n", instants);
}
#define RUN(...)                                                        \
	do {                                                            \
		const struct question questions[] = {__VA_ARGS__};      \
		run(questions, sizeof questions / sizeof questions[0]); \
	} while (0)

/* Goal: an object that a killed daemon was making is made once. */
TEST(create)
{
	RUN({CN_KEPT_CREATE, 1, false});
}

/* Goal: a commit that a killed daemon was at is not lost. */
TEST(commit)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false});
}

/* Goal: the same of a new generation: the older one is retired once. */
TEST(commit_a_new_generation)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false}, {CN_KEPT_CREATE, 2, false},
	    {CN_KEPT_COMMIT, 2, false});
}

/* Goal: the same of an object that was changed in place. */
TEST(commit_a_change)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false}, {CN_KEPT_OPEN, 2, true},
	    {CN_KEPT_COMMIT, 2, false});
}

/* Goal: an opening that a killed daemon was making counts once. */
TEST(open_an_object)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false}, {CN_KEPT_RELEASE, 1, false},
	    {CN_KEPT_OPEN, 2, false});
}

/* Goal: what was not committed is given up whole. */
TEST(release_what_is_written)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_RELEASE, 1, false});
}

/* Goal: a retired object is gone with its last opening. */
TEST(release_what_is_retired)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false}, {CN_KEPT_RETIRE, 0, false},
	    {CN_KEPT_RELEASE, 1, false});
}

/* Goal: an object that nobody has open is gone when it is retired. */
TEST(retire)
{
	RUN({CN_KEPT_CREATE, 1, false}, {CN_KEPT_COMMIT, 1, false}, {CN_KEPT_RELEASE, 1, false},
	    {CN_KEPT_RETIRE, 0, false});
}
