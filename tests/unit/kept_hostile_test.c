/* SPDX-License-Identifier: MIT */
/*
 * Programs that break the rules of cenoted: silence, floods, halves of messages, descriptors that are not memory, other
 * programs' numbers. The daemon refuses or hangs up, keeps nothing of it, and answers the others.
 */
#include "../kept.h"

#include "share/kept/kept.h"
#include "share/wire/closing.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { SILENT = 100, BYTES = 64 * 1024, FLOOD_MAX = 100000, STRANGER = 65500, OBJECTS_MAX = 16 };

static struct kept_daemon daemon_of_test;

SETUP
{
	signal(SIGPIPE, SIG_IGN);
	kept_context();
}

/* ---- The protocol by hand ---------------------------------------------------------------------------------------- */

static int raw_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s/kept", test_directory());
	ASSERT_SYS(sock);
	ASSERT_SYS(connect(sock, (const struct sockaddr *)&address, sizeof address));
	return sock;
}

static struct cn_kept_parcel raw_request(enum cn_kept_kind kind, uint64_t hold, const char *name)
{
	struct cn_kept_parcel parcel = {.message = {.kind = kind, .hold = hold}};

	strncpy(parcel.message.name, name, sizeof parcel.message.name - 1);
	if (kind == CN_KEPT_CREATE) {
		parcel.message.device = CN_KEPT_ON_HOST;
		parcel.message.mode = 0600;
		parcel.message.part_count = 1;
		parcel.message.part_bytes[0] = BYTES;
	}
	return parcel;
}

static int raw_receive(int sock, struct cn_kept_parcel *ret_reply)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};

	ASSERT_EQ(1, poll(&polled, 1, KEPT_WAIT_MS));
	return cn_kept_receive(sock, ret_reply);
}

/* Ask by hand; the descriptors of the reply are the caller's, those of the request are closed. */
static unsigned raw_ask(struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply)
{
	int sock = raw_connect();

	ASSERT_EQ(0, cn_kept_send(sock, request));
	for (unsigned i = 0; i < request->descriptor_count; i++)
		close(request->descriptors[i]);
	ASSERT_EQ(0, raw_receive(sock, ret_reply));
	close(sock);
	return ret_reply->message.refusal;
}

/* The same for what must be refused, with nothing beside the reply. */
static void assert_refused(unsigned refusal, struct cn_kept_parcel request)
{
	struct cn_kept_parcel reply;

	ASSERT_EQ(refusal, raw_ask(&request, &reply));
	ASSERT_EQ(0, reply.descriptor_count);
}

static unsigned daemon_descriptors(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)kept_child(&daemon_of_test));
	return test_file_count(path);
}

/* ---- Silence and floods ------------------------------------------------------------------------------------------ */

/* Goal: programs that connect and say nothing, or half of something, hold nobody up, and are hung up on in time. */
TEST(silent_programs_hold_nobody_up)
{
	int socks[SILENT];

	kept_start(&daemon_of_test);
	unsigned before = daemon_descriptors();
	for (int i = 0; i < SILENT; i++) {
		socks[i] = raw_connect();
		if (i % 3 == 1) /* an empty message, and half a one, are the end at once */
			ASSERT_SYS(send(socks[i], "half", (size_t)(i % 2 * 4), MSG_NOSIGNAL));
	}
	ASSERT_OK(cenote_kept_release(kept_make("a", BYTES, 1, 0))); /* each call has a deadline */
	for (int i = 0; i < SILENT; i++) {
		struct pollfd polled = {.fd = socks[i], .events = POLLIN};
		char byte;
		ASSERT_EQ(1, poll(&polled, 1, KEPT_WAIT_MS));
		ASSERT(recv(socks[i], &byte, 1, MSG_DONTWAIT) <= 0);
		close(socks[i]);
	}
	ASSERT_OK(cenote_kept_retire("a", 0));
	while (daemon_descriptors() > before)
		sched_yield();
	kept_stop(&daemon_of_test);
}

/* Goal: a program that floods the daemon and reads no answers is hung up on, and others are answered meanwhile. */
TEST(a_flood_holds_nobody_up)
{
	struct cn_kept_parcel request = raw_request(CN_KEPT_LIST, 0, "");
	int flood, watch, error = 0;

	kept_start(&daemon_of_test);
	flood = raw_connect();
	watch = raw_connect(); /* one that watches, and never reads */
	struct cn_kept_parcel watching = raw_request(CN_KEPT_WATCH, 0, "");
	ASSERT_EQ(0, cn_kept_send(watch, &watching));
	for (unsigned i = 0; i < FLOOD_MAX && error != EPIPE; i++) {
		error = cn_kept_send(flood, &request);
		if (i % 200 == 0)
			ASSERT_OK(cenote_kept_release(kept_make("a", BYTES, i, 0)));
	}
	ASSERT_EQ(EPIPE, error);
	ASSERT_EQ(1, kept_count(""));
	close(flood);
	close(watch);
	kept_stop(&daemon_of_test);
}

/* ---- Wrong messages ---------------------------------------------------------------------------------------------- */

/* Goal: what is not a message ends the connection, and what asks for something impossible is refused. */
TEST(wrong_messages_are_refused)
{
	struct cn_kept_parcel request, reply;

	kept_start(&daemon_of_test);
	for (int wrong = 0; wrong < 6; wrong++) {
		int sock = raw_connect();
		request = raw_request(CN_KEPT_CREATE, 1, "a");
		request.message.magic = CN_KEPT_MAGIC + (wrong == 0);
		request.message.version = CN_KEPT_VERSION + (wrong == 1);
		request.message.kind = wrong == 2 ? 0 : wrong == 3 ? CN_KEPT_KIND_COUNT : CN_KEPT_CREATE;
		request.message.part_count = wrong == 4 ? CN_KEPT_PARTS_MAX + 1 : 1;
		request.message.descriptor_count = wrong == 5; /* and none is there */
		ASSERT_SYS(send(sock, &request.message, sizeof request.message, MSG_NOSIGNAL));
		ASSERT_EQ(EPIPE, raw_receive(sock, &reply));
		close(sock);
	}
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_EVENT, 1, ""));
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_CREATE, 0, "a"));
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_CREATE, 1, "a//b"));
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_OPEN, 1, "/"));
	assert_refused(CN_KEPT_UNKNOWN, raw_request(CN_KEPT_OPEN, 1, "a"));
	assert_refused(CN_KEPT_UNKNOWN, raw_request(CN_KEPT_HOLDERS, 1, ""));
	assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_COMMIT, 1, ""));
	assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_LOOK, 1, ""));
	for (int wrong = 0; wrong < 4; wrong++) {
		request = raw_request(CN_KEPT_CREATE, 1, "a");
		request.message.mode = wrong == 0 ? 0700 : 0600;
		request.message.flags = wrong == 1 ? 4 : 0;
		request.message.device = wrong == 2 ? 3 : CN_KEPT_ON_HOST;
		request.message.has_description = wrong == 3;
		assert_refused(CN_KEPT_MALFORMED, request);
	}
	ASSERT_EQ(0, kept_count(""));
	kept_stop(&daemon_of_test);
}

static int memory_file(size_t bytes, int seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_SYS(ftruncate(fd, (off_t)bytes));
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

/* A descriptor that is no memory of a GPU of BYTES, and no description. */
static int wrong_descriptor(int which)
{
	int ends[2];

	switch (which) {
	case 0:
		ASSERT_SYS(pipe2(ends, O_CLOEXEC));
		close(ends[1]);
		return ends[0];
	case 1: return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 2: return open("/", O_PATH | O_CLOEXEC);
	case 3: return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 4: return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 5: return memory_file(CN_KEPT_GRAIN_BYTES, F_SEAL_GROW);
	case 6: return memory_file(CN_KEPT_GRAIN_BYTES - 4096, F_SEAL_GROW | F_SEAL_SHRINK);
	default: return memory_file(CN_KEPT_DESCRIPTION_BYTES_MAX + 1, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE);
	}
}

/* Goal: a descriptor that is not what it must be is refused, and the daemon keeps nothing of it. */
TEST(wrong_descriptors_are_refused)
{
	struct cn_kept_parcel request, reply;

	kept_start(&daemon_of_test);
	unsigned before = daemon_descriptors();
	for (int i = 0; i < 8; i++) {
		request = raw_request(CN_KEPT_CREATE, 1, "a"); /* as memory of a GPU */
		request.message.device = CN_KEPT_ON_GPU;
		request.descriptors[request.descriptor_count++] = wrong_descriptor(i);
		assert_refused(CN_KEPT_NOT_MEMORY, request);
		request = raw_request(CN_KEPT_CREATE, 1, "a"); /* as a description */
		request.message.has_description = 1;
		request.descriptors[request.descriptor_count++] = wrong_descriptor(i);
		assert_refused(CN_KEPT_MALFORMED, request);
		request = raw_request(CN_KEPT_LIST, 0, ""); /* where none belongs */
		request.descriptors[request.descriptor_count++] = wrong_descriptor(i);
		ASSERT_EQ(CN_KEPT_END, raw_ask(&request, &reply));
	}
	request = raw_request(CN_KEPT_CREATE, 1, "a"); /* too many */
	for (int i = 0; i < CN_KEPT_DESCRIPTORS_MAX; i++)
		request.descriptors[request.descriptor_count++] = wrong_descriptor(1);
	assert_refused(CN_KEPT_MALFORMED, request);
	while (daemon_descriptors() > before)
		sched_yield();
	ASSERT_EQ(0, kept_count(""));
	kept_stop(&daemon_of_test);
}

/* ---- What a GPU's memory needs ---------------------------------------------------------------------------------- */

/* A cache on the GPU with this number, committed; it is held if its opening is not released. */
static void raw_cache(const char *name, uint64_t hold, unsigned char gpu, bool held)
{
	struct cn_kept_parcel reply, request = raw_request(CN_KEPT_CREATE, hold, name);
	int memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_SYS(memory);
	ASSERT_SYS(ftruncate(memory, CN_KEPT_GRAIN_BYTES));
	ASSERT_SYS(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	request.message.device = CN_KEPT_ON_GPU;
	request.message.flags = CN_KEPT_CACHE;
	request.message.uuid[0] = gpu;
	request.descriptors[request.descriptor_count++] = memory;
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	cn_kept_discard(&reply);
	for (int i = 0; i < 2 - held; i++) {
		request = raw_request(i ? CN_KEPT_RELEASE : CN_KEPT_COMMIT, hold, name);
		ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
		cn_kept_discard(&reply);
	}
}

static uint64_t raw_room(unsigned char gpu, uint64_t bytes)
{
	struct cn_kept_parcel reply, request = raw_request(CN_KEPT_ROOM, 0, "");

	request.message.uuid[0] = gpu;
	request.message.numbers[0] = bytes;
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	return reply.message.numbers[0];
}

/* Goal: when a GPU's memory is used up, caches on that GPU give way, the oldest first, and holders are told. */
TEST(caches_of_one_gpu_give_way)
{
	const uint64_t grain = CN_KEPT_GRAIN_BYTES;
	int watch;

	kept_start(&daemon_of_test);
	raw_cache("old", 1, 1, false);
	raw_cache("other", 2, 2, false);
	raw_cache("held", 3, 1, true);
	raw_cache("young", 4, 1, false);
	ASSERT_OK(cenote_kept_watch("", &watch));
	ASSERT_EQ(0, raw_room(1, 0));
	ASSERT_EQ(4, kept_count(""));
	ASSERT_EQ(grain, raw_room(1, 1));
	kept_await(watch, "old", CENOTE_KEPT_GONE);
	ASSERT_EQ(3, kept_count(""));
	ASSERT_EQ(grain, raw_room(1, 2 * grain));
	kept_await(watch, "young", CENOTE_KEPT_GONE);
	kept_await(watch, "held", CENOTE_KEPT_RETIRED);
	ASSERT_EQ(0, raw_room(1, UINT64_MAX));
	ASSERT_EQ(0, raw_room(3, UINT64_MAX));
	ASSERT_EQ(1, kept_count("other"));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* ---- What others may not do -------------------------------------------------------------------------------------- */

/* Goal: a reader's descriptor of immutable memory cannot be made to write, with whatever means. */
TEST(sealed_memory_cannot_be_written)
{
	struct cn_kept_parcel request = raw_request(CN_KEPT_OPEN, 5, "a"), reply;
	char path[64];

	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_release(kept_make("a", BYTES, 1, 0)));
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	ASSERT_EQ(1, reply.descriptor_count);
	snprintf(path, sizeof path, "/proc/self/fd/%d", reply.descriptors[0]);
	int again = open(path, O_RDWR | O_CLOEXEC); /* the same user may, and gains nothing */
	for (int i = 0; i < 2; i++) {
		int fd = i ? again : reply.descriptors[0];
		if (fd < 0)
			continue;
		ASSERT_EQ(-1, pwrite(fd, "x", 1, 0));
		ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
		ASSERT_EQ(-1, ftruncate(fd, 0));
		ASSERT_EQ(-1, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	}
	if (again >= 0)
		close(again);
	cn_kept_discard(&reply);
	request = raw_request(CN_KEPT_RELEASE, 5, "");
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	kept_stop(&daemon_of_test);
}

/* Goal: asking again with another wish does not make a reader a writer. */
TEST(a_repeated_question_gains_no_rights)
{
	struct cn_kept_parcel request, reply;

	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_release(kept_make("a", BYTES, 1, CENOTE_KEPT_CHANGEABLE)));
	ASSERT_OK(cenote_kept_release(kept_make("b", BYTES, 1, 0)));
	for (int i = 0; i < 2; i++) {
		request = raw_request(CN_KEPT_OPEN, 5, "a");
		request.message.flags = i ? CN_KEPT_TO_WRITE : 0;
		ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
		ASSERT_EQ(O_RDONLY, fcntl(reply.descriptors[0], F_GETFL) & O_ACCMODE);
		cn_kept_discard(&reply);
	}
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_OPEN, 5, "b"));
	assert_refused(CN_KEPT_MALFORMED, raw_request(CN_KEPT_CREATE, 5, "a"));
	request = raw_request(CN_KEPT_RELEASE, 5, "");
	for (int i = 0; i < 2; i++) /* of what is released there is nothing to release */
		ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	kept_stop(&daemon_of_test);
}

/* Has a number of its own choice open. */
ROLE(holder)
{
	struct cn_kept_parcel request = raw_request(CN_KEPT_CREATE, 7, "mine"), reply;

	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	cn_kept_discard(&reply);
	peer_send(parent, "holds");
	peer_expect(parent, "look");
	request = raw_request(CN_KEPT_LOOK, 7, "");
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	request = raw_request(CN_KEPT_RELEASE, 7, "");
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
}

/* Goal: a process cannot touch what another one has open, even if it knows the number. */
TEST(openings_belong_to_their_process)
{
	struct cn_kept_parcel request, reply;

	kept_start(&daemon_of_test);
	struct peer *holder = peer_start("holder");
	peer_expect(holder, "holds");
	assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_COMMIT, 7, ""));
	assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_LOOK, 7, ""));
	request = raw_request(CN_KEPT_RELEASE, 7, "");
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply)); /* which releases nothing */
	peer_send(holder, "look");
	peer_wait(holder);
	kept_stop(&daemon_of_test);
}

/* Another user, which tries all it can, then fills what it may have and stays. */
ROLE(attacker)
{
	struct cn_kept_parcel request, reply;
	uint64_t generation = strtoull(argv[0], NULL, 10);
	unsigned granted = 0;
	int watch;

	ASSERT_SYS(setgroups(0, NULL));
	ASSERT_SYS(setresgid(STRANGER, STRANGER, STRANGER));
	ASSERT_SYS(setresuid(STRANGER, STRANGER, STRANGER));
	ASSERT_OK(cenote_kept_watch("", &watch));
	for (uint64_t hold = 1; hold < 8; hold++) { /* the owner's numbers */
		assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_COMMIT, hold, ""));
		assert_refused(CN_KEPT_NOT_HELD, raw_request(CN_KEPT_LOOK, hold, ""));
		request = raw_request(CN_KEPT_RELEASE, hold, "");
		ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply)); /* which releases nothing */
	}
	for (uint64_t cursor = 0; cursor < 8; cursor++) {
		request = raw_request(CN_KEPT_HOLDERS, 0, "");
		request.message.cursor = cursor;
		request.message.generation = generation;
		assert_refused(CN_KEPT_UNKNOWN, request);
	}
	assert_refused(CN_KEPT_END, raw_request(CN_KEPT_LIST, 0, ""));
	assert_refused(CN_KEPT_FORBIDDEN, raw_request(CN_KEPT_OPEN, 1, "secret"));
	assert_refused(CN_KEPT_FORBIDDEN, raw_request(CN_KEPT_CREATE, 1, "secret"));
	assert_refused(CN_KEPT_BEING_WRITTEN, raw_request(CN_KEPT_CREATE, 1, "writing"));
	assert_refused(CN_KEPT_UNKNOWN, raw_request(CN_KEPT_RETIRE, 0, "secret"));
	assert_refused(CN_KEPT_UNKNOWN, raw_request(CN_KEPT_RETIRE, 0, "writing"));
	ASSERT_EQ(0, raw_room(1, UINT64_MAX));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cenote_kept_next(watch, &(cenote_kept_event){.state = 0}));
	close(watch);
	for (unsigned i = 1;; i++) { /* as many objects as it may have */
		char name[32];
		snprintf(name, sizeof name, "attack/%u", i);
		request = raw_request(CN_KEPT_CREATE, i + 100, name);
		if (raw_ask(&request, &reply))
			break;
		cn_kept_discard(&reply);
		granted++;
	}
	ASSERT_EQ(CN_KEPT_TOO_MANY_OBJECTS, reply.message.refusal);
	ASSERT_EQ(OBJECTS_MAX, granted);
	for (int i = 0; i < SILENT; i++)
		raw_connect(); /* and as many connections, which stay */
	peer_send(parent, "attacked");
	peer_expect(parent, "end");
}

/* Goal: another user gets at nothing that is not its own, learns nothing of it, and holds nobody up. */
TEST(another_user_gets_nothing)
{
	char text[32];

	if (geteuid() != 0)
		SKIP("only root can be several users");
	ASSERT_SYS(chmod(test_directory(), 0711));
	kept_start(&daemon_of_test, "--objects-max", "16");
	cenote_kept secret = kept_make("secret", BYTES, 9, 0);
	cenote_kept_part part = {.bytes = BYTES};
	cenote_kept writing;
	ASSERT_OK(cenote_kept_create("writing", &part, 1, NULL, &writing));
	raw_cache("cache", 3, 1, false);
	snprintf(text, sizeof text, "%llu", kept_look(secret).generation);
	struct peer *attacker = peer_start("attacker", text);
	peer_expect(attacker, "attacked");

	ASSERT_OK(cenote_kept_commit(writing));
	ASSERT(kept_has(kept_address(secret), BYTES, 9));
	ASSERT_EQ(CENOTE_KEPT_COMMITTED, kept_look(secret).state);
	ASSERT_EQ(1, kept_look(secret).holder_count);
	ASSERT_EQ(1, kept_count("cache"));
	ASSERT_OK(cenote_kept_release(kept_make("more", BYTES, 1, 0)));
	peer_kill(attacker);
	while (kept_count("attack/")) /* which were not committed */
		sched_yield();
	ASSERT_OK(cenote_kept_release(secret));
	ASSERT_OK(cenote_kept_release(writing));
	kept_stop(&daemon_of_test);
}

/* Goal: a writer that leaves its memory writable, sealed too early, or under a lease holds nobody up. */
TEST(writers_of_bad_faith_commit_nothing)
{
	struct cn_kept_parcel request = raw_request(CN_KEPT_CREATE, 5, "a"), reply;

	kept_start(&daemon_of_test);
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	assert_refused(CN_KEPT_NOT_SEALED, raw_request(CN_KEPT_COMMIT, 5, ""));
	signal(SIGIO, SIG_IGN);
	fcntl(reply.descriptors[0], F_SETLEASE, F_WRLCK);                  /* refused or not */
	ASSERT_SYS(fcntl(reply.descriptors[0], F_ADD_SEALS, F_SEAL_SEAL)); /* can never be sealed against writing */
	assert_refused(CN_KEPT_NOT_SEALED, raw_request(CN_KEPT_COMMIT, 5, ""));
	request = raw_request(CN_KEPT_CREATE, 5, "a"); /* the daemon opens the memory once more: not under a lease */
	struct cn_kept_parcel second;
	raw_ask(&request, &second);
	cn_kept_discard(&second);
	cn_kept_discard(&reply);
	request = raw_request(CN_KEPT_RELEASE, 5, "");
	ASSERT_EQ(CN_KEPT_GRANTED, raw_ask(&request, &reply));
	ASSERT_EQ(0, kept_count(""));
	kept_stop(&daemon_of_test);
}
