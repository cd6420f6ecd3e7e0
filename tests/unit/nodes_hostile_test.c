/* SPDX-License-Identifier: MIT */
/*
 * Programs that break cenote-imexd's protocol, or try to: each is hung up on or refused, and others are served.
 */
#include "../nodes.h"
#include "../vmm.h"
#include "hostile.h"

#include "share/node/node.h"
#include "share/wire/rights.h"
#include "share/wire/wire.h"

#include <sys/mman.h>
#include <sys/prctl.h>

enum { STRANGER = 64125 }; /* a user that has nothing to do with the others */

/* Connect as a program of node 1. */
static int reach(void)
{
	int sock;

	ASSERT_OK(cn_wire_open(&sock));
	ASSERT_EQ(0, cn_wire_reach_daemon(sock, nodes_path(1, "run/imex"), "imex"));
	return sock;
}

/* The next message of the daemon; 0, or errno. */
static int receive(int sock, struct cn_message *ret_message)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};
	int error;

	while ((error = cn_wire_receive_message(sock, ret_message)) == EAGAIN)
		if (poll(&polled, 1, NODES_WAIT_MS) != 1)
			FAIL("the daemon does not answer");
	return error;
}

static void send_message(int sock, struct cn_message message, int descriptor)
{
	struct cn_parcel parcel = {
		.message = message, .descriptors = {descriptor}, .descriptor_count = descriptor >= 0};

	ASSERT_EQ(0, cn_wire_send(sock, &parcel));
}

static void expect_hung_up(int sock)
{
	struct cn_message message;

	ASSERT_EQ(EPIPE, receive(sock, &message));
	close(sock);
}

static int greet(unsigned char ret_key[CN_NODE_SESSION_BYTES])
{
	struct cn_message answer;
	int sock = reach();

	send_message(sock, (struct cn_message){.kind = CN_MESSAGE_NODE_HELLO, .request = 7}, -1);
	ASSERT_EQ(0, receive(sock, &answer));
	ASSERT_EQ(CN_MESSAGE_NODE_HELLO, answer.kind);
	ASSERT_EQ(7, answer.request);
	ASSERT_EQ(1, answer.words[CN_NODE_HELLO_NODE]);
	ASSERT_EQ(2, answer.words[CN_NODE_HELLO_COUNT]);
	memcpy(ret_key, answer.bytes, CN_NODE_SESSION_BYTES);
	return sock;
}

static int make_memory(size_t bytes, unsigned seals)
{
	int fd = memfd_create("lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, (off_t)bytes));
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, (int)seals));
	return fd;
}

static int offer_lane(const unsigned char key[CN_NODE_SESSION_BYTES], size_t bytes, unsigned seals)
{
	struct cn_message hello = {.kind = CN_MESSAGE_NODE_HELLO, .request = 1};
	int sock = reach(), memory = make_memory(bytes, seals);

	memcpy(hello.bytes, key, CN_NODE_SESSION_BYTES);
	send_message(sock, hello, memory);
	close(memory);
	return sock;
}

static int open_lane(const unsigned char key[CN_NODE_SESSION_BYTES])
{
	struct cn_message answer;
	int sock = offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);

	ASSERT_EQ(0, receive(sock, &answer));
	return sock;
}

TEST(what_is_no_greeting_is_hung_up_on)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];

	nodes_pair(nodes); /* the first is attacked */
	for (uint32_t kind = 1; kind <= CN_MESSAGE_NODE_REQUEST + 2; kind++) {
		int sock = reach();
		if (kind == CN_MESSAGE_NODE_HELLO)
			send_message(sock, (struct cn_message){.kind = kind, .bytes = {1}}, 0); /* stdin is no memory */
		else
			send_message(sock, (struct cn_message){.kind = kind, .words = {1, 2, 3}}, -1);
		expect_hung_up(sock);
	}
	close(greet(key));
	nodes_pair_end(nodes);
}

TEST(a_lane_needs_its_session_and_memory_that_stays)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES], other[CN_NODE_SESSION_BYTES];

	nodes_pair(nodes); /* the first is attacked */
	int session = greet(key);
	memcpy(other, key, sizeof other);
	other[0] ^= 1;
	expect_hung_up(offer_lane(other, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW));
	expect_hung_up(offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_GROW));
	expect_hung_up(offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK));
	expect_hung_up(offer_lane(key, CN_NODE_LANE_BYTES - 4096, F_SEAL_SHRINK | F_SEAL_GROW));
	int lanes[CN_NODE_CONNECTIONS - 1];
	for (int i = 0; i < CN_NODE_CONNECTIONS - 1; i++)
		lanes[i] = open_lane(key);
	expect_hung_up(offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW)); /* one too many */
	close(session);
	for (int i = 0; i < CN_NODE_CONNECTIONS - 1; i++)
		expect_hung_up(lanes[i]); /* with their session */
	expect_hung_up(offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW));
	nodes_pair_end(nodes);
}

TEST(requests_that_make_no_sense_are_refused)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];
	struct test_random generator = test_random_start(1);
	struct cn_message answer, request = {.kind = CN_MESSAGE_NODE_REQUEST};

	nodes_pair(nodes); /* the first is attacked */
	int session = greet(key), lane = open_lane(key);
	for (int round = 0; round < 300; round++) {
		request.request = (uint64_t)round;
		for (int i = 0; i < 9; i++)
			request.words[i] = test_random_next(&generator) >> test_random_below(&generator, 64);
		request.words[CN_NODE_REQUEST_SLOT] %= CN_HOST_REMOTE_SLOTS;
		send_message(lane, request, -1);
		ASSERT_EQ(0, receive(lane, &answer));
		ASSERT_EQ(round, answer.request);
		ASSERT_EQ(CN_NODE_MALFORMED, answer.result);
	}
	/* Not the sort of message that a lane takes, a slot that is none, a descriptor. */
	send_message(lane, (struct cn_message){.kind = CN_MESSAGE_NODE_OPEN}, -1);
	expect_hung_up(lane);
	lane = open_lane(key);
	request.words[CN_NODE_REQUEST_SLOT] = CN_HOST_REMOTE_SLOTS;
	send_message(lane, request, -1);
	expect_hung_up(lane);
	lane = open_lane(key);
	request.words[CN_NODE_REQUEST_SLOT] = 0;
	send_message(lane, request, lane);
	expect_hung_up(lane);
	/* The session lives, and refuses handles that are none. */
	for (int round = 0; round < 100; round++) {
		struct cn_message open = {.kind = CN_MESSAGE_NODE_OPEN, .request = 9};
		for (int i = 0; i < 8; i++)
			open.words[i] = test_random_next(&generator);
		send_message(session, open, round % 2 ? STDIN_FILENO : -1);
		ASSERT_EQ(0, receive(session, &answer));
		ASSERT_EQ(CN_NODE_MALFORMED, answer.result);
	}
	close(session);
	nodes_pair_end(nodes);
}

/* Goal: whatever cursor a program makes up, it is answered, and the next one is larger or the end. */
TEST(cursors_that_a_program_makes_up_lead_to_an_end)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];
	struct test_random generator = test_random_start(1);
	struct cn_node_held_answer held;
	struct cn_message answer, ask = {.kind = CN_MESSAGE_NODE_HELD, .request = 4};

	nodes_pair(nodes); /* the first is attacked */
	int session = greet(key);
	for (int round = 0; round < 300; round++) {
		ask.words[0] = test_random_next(&generator) >> test_random_below(&generator, 64);
		send_message(session, ask, -1);
		ASSERT_EQ(0, receive(session, &answer));
		ASSERT_EQ(CN_MESSAGE_NODE_HELD, answer.kind);
		ASSERT_EQ(4, answer.request);
		memcpy(&held, (const char *)&answer + offsetof(struct cn_message, words), sizeof held);
		ASSERT(!held.cursor || held.cursor > ask.words[0]);
		ASSERT_EQ(0, held.held[0].node);
	}
	close(session);
	nodes_pair_end(nodes);
}

/* Offer a file to lend: the daemon's outcome. */
static int offer_file(int session, uint64_t place, size_t bytes, int fd)
{
	struct cn_message answer, lend = {.kind = CN_MESSAGE_NODE_LEND,
					  .request = 3,
					  .words = {[CN_NODE_LEND_PLACE] = place, [CN_NODE_LEND_BYTES] = bytes}};

	send_message(session, lend, fd);
	ASSERT_EQ(0, receive(session, &answer));
	ASSERT_EQ(CN_MESSAGE_NODE_LEND, answer.kind);
	ASSERT_EQ(3, answer.request);
	return answer.result;
}

static int offer_memory(int session, uint64_t place, size_t bytes, unsigned seals)
{
	int fd = make_memory(bytes, seals), outcome = offer_file(session, place, bytes, fd);

	close(fd);
	return outcome;
}

/* Goal: nothing that could end or hold up the daemon is mapped by it. */
TEST(only_memory_that_stays_can_be_lent)
{
	const size_t huge = (size_t)1 << 41, bytes = 1 << 20;
	const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW;
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];
	int pipes[2];

	nodes_pair(nodes); /* the first is attacked */
	int session = greet(key), fd = make_memory(bytes, seals);
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, bytes, -1));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, bytes + 4096, fd));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, bytes - 4096, fd));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, CN_NODE_LENT_MAX, bytes, fd));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_memory(session, 0, bytes, 0));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_memory(session, 0, bytes, F_SEAL_GROW));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_memory(session, 0, bytes, F_SEAL_SHRINK));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_memory(session, 0, 0, seals));
	ASSERT_EQ(CN_NODE_FULL, offer_memory(session, 0, bytes, seals | F_SEAL_WRITE)); /* it cannot be mapped */
	ASSERT_SYS(pipe2(pipes, O_CLOEXEC));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, bytes, pipes[0]));
	int file = open(nodes_path(0, "key"), O_RDWR | O_CLOEXEC);
	ASSERT_SYS(file);
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, 65, file));
	ASSERT_EQ(CN_NODE_DONE, offer_file(session, 0, bytes, fd));
	ASSERT_EQ(CN_NODE_MALFORMED, offer_file(session, 0, bytes, fd)); /* the place is taken */
	for (uint64_t place = 0; place < 2 * CN_NODE_LENT_MAX; place++)  /* also where nothing is */
		send_message(session, (struct cn_message){.kind = CN_MESSAGE_NODE_RETURN, .words = {place}}, -1);
	ASSERT_EQ(CN_NODE_DONE, offer_file(session, 0, bytes, fd));
	/* Addresses have an end: a session has its share. (With ThreadSanitizer a process has not even that.) */
#if !defined(__SANITIZE_THREAD__)
	ASSERT_EQ(CN_NODE_DONE, offer_memory(session, 1, huge, seals));
#endif
	ASSERT_EQ(CN_NODE_FULL, offer_memory(session, 2, huge, seals));
	close(file);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	close(session);
	close(greet(key));
	nodes_pair_end(nodes);
}

/* Goal: a program that never says what it wants is sent away, and one that floods delays no other for ever. */
ROLE(exporter)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_HANDLE_TYPE_FABRIC);
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;

	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
	ASSERT_OK(cuMemCreate(&handle, VMM_GRAIN, &properties, 0));
	ASSERT_OK(cuMemExportToShareableHandle(&name, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	peer_send_bytes(parent, &name, sizeof name);
	peer_expect(parent, "end");
	ASSERT_OK(cuMemRelease(handle));
}

/* Imports, and copies when it is told. */
ROLE(importer)
{
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;
	CUstream stream;
	char bytes[64];

	peer_receive_bytes(parent, &name, sizeof name);
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
	ASSERT_OK(cuMemImportFromShareableHandle(&handle, &name, CU_MEM_HANDLE_TYPE_FABRIC));
	CUdeviceptr far = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	peer_send(parent, "imported");
	peer_expect(parent, "copy");
	peer_send(parent, "copies");
	ASSERT_OK(cuMemcpyDtoHAsync(bytes, far, sizeof bytes, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	vmm_unmap(far, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
}

/* Is there room for one more connection? It is closed again, or *ret_sock has it. */
static bool has_room(int *ret_sock)
{
	struct cn_message answer;

	*ret_sock = reach();
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_NODE_HELLO, .request = 7}};
	if (!cn_wire_send(*ret_sock, &parcel) && !receive(*ret_sock, &answer))
		return true;
	close(*ret_sock);
	return false;
}

/* A user's connections are all in use: a program that wants one more waits until there is one. */
TEST(a_program_waits_for_room_at_its_daemon, .timeout_ms = 60000)
{
	enum { CONNECTIONS_MAX = 600, TRIES = 50 };
	static int socks[CONNECTIONS_MAX];
	struct nodes_one nodes[2];
	CUmemFabricHandle name;
	int count = 0, sock;

	nodes_pair(nodes);
	nodes_enter(2);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, &name, sizeof name);
	nodes_enter(1);
	struct peer *importer = peer_start("importer");
	peer_send_bytes(importer, &name, sizeof name);
	peer_expect(importer, "imported"); /* it has its session, and no lane yet */
	while (count < CONNECTIONS_MAX && has_room(&socks[count]))
		count++;
	ASSERT(count > 100 && count < CONNECTIONS_MAX);
	peer_send(importer, "copy");
	peer_expect(importer, "copies");
	for (int i = 0; i < TRIES; i++)
		ASSERT(!has_room(&sock)); /* meanwhile it tries, too */
	while (count)
		close(socks[--count]);
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* ---- Descriptors that do not close ------------------------------------------------------------------------------- */

/* Let other users reach the daemon of a node. */
static void open_to_all(unsigned node)
{
	if (geteuid())
		SKIP("only root can become another user");
	ASSERT_SYS(chmod(test_directory(), 0711));
	ASSERT_SYS(chmod(nodes_path(node, ""), 0711));
	ASSERT_SYS(chmod(nodes_path(node, "run"), 0711));
}

static void become(unsigned user)
{
	ASSERT_SYS(setresuid(user, user, user));
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1)); /* what it opens in /proc/self is its own again */
}

static void await_end(int sock)
{
	struct pollfd polled = {.fd = sock};

	if (poll(&polled, 1, NODES_WAIT_MS) != 1)
		FAIL("the daemon does not hang up");
	ASSERT(polled.revents & POLLHUP);
	close(sock);
}

/* A session and a lane; 0: the daemon takes no descriptors now. */
static int offer_to_new_session(int *ret_lane)
{
	unsigned char key[CN_NODE_SESSION_BYTES];
	struct cn_message answer;
	int session = greet(key), lane = offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);

	if (!receive(lane, &answer)) {
		*ret_lane = lane;
		return session;
	}
	close(lane);
	close(session);
	return 0;
}

static unsigned count_descriptors(pid_t process)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
	return test_file_count(path);
}

/* Sends the daemon sockets that linger, over one connection each, and reports when all were hung up on. */
ROLE(intruder)
{
	enum { SENT = CN_WIRE_CLOSINGS_MAX + 16 };
	static int fds[SENT], ends[SENT], socks[SENT];
	unsigned char key[CN_NODE_SESSION_BYTES];

	become(STRANGER);
	for (int i = 0; i < SENT; i++)
		fds[i] = lingering_pair(&ends[i]);
	peer_send(parent, "ready");
	peer_expect(parent, "send"); /* the daemon is stopped: if it closed one first, we would have the last of it */
	for (int i = 0; i < SENT; i++) {
		struct iovec part = {(void *)(uintptr_t) "x", 1};
		struct msghdr garbage = {.msg_iov = &part, .msg_iovlen = 1};
		union cn_rights rights;
		cn_rights_put(&garbage, &rights, &fds[i], 1);
		socks[i] = reach();
		ASSERT_EQ(1, sendmsg(socks[i], &garbage, 0));
		close(fds[i]); /* it is on its way, and nowhere else */
	}
	peer_send(parent, "sent");
	for (int i = 0; i < SENT; i++)
		await_end(socks[i]);
	/* Its programs are served, and hung up on if they send more. */
	int session = greet(key);
	await_end(offer_lane(key, CN_NODE_LANE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW));
	peer_send(parent, "stuck");
	peer_expect(parent, "let go");
	for (int i = 0; i < SENT; i++)
		close(ends[i]);
	close(session);
	while (!(session = offer_to_new_session(&socks[0])))
		;
	peer_send(parent, "served");
	peer_expect(parent, "end");
	close(socks[0]);
	close(session);
}

/* A program of node 2 imports what one of node 1 exports, and copies. */
static void check_import(void)
{
	CUmemFabricHandle name;

	nodes_enter(1);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, &name, sizeof name);
	nodes_enter(2);
	struct peer *importer = peer_start("importer");
	peer_send_bytes(importer, &name, sizeof name);
	peer_expect(importer, "imported");
	peer_send(importer, "copy");
	peer_expect(importer, "copies");
	peer_wait(importer);
	peer_end(exporter);
}

/* Goal: a user whose descriptors do not close delays no other user's programs, and no import of another node. */
TEST(descriptors_that_do_not_close_hold_up_nobody_else, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];
	int status;

	nodes_pair(nodes); /* the first is attacked */
	open_to_all(1);
	check_import(); /* the daemon keeps a few descriptors from then on */
	unsigned before = count_descriptors(nodes[0].daemon);
	struct peer *intruder = peer_start("intruder");
	peer_expect(intruder, "ready");
	ASSERT_SYS(kill(nodes[0].daemon, SIGSTOP));
	ASSERT_EQ(nodes[0].daemon, waitpid(nodes[0].daemon, &status, WUNTRACED));
	peer_send(intruder, "send");
	peer_expect(intruder, "sent");
	ASSERT_SYS(kill(nodes[0].daemon, SIGCONT));
	peer_expect(intruder, "stuck");
	int session = greet(key), lane = open_lane(key);
	check_import();
	close(lane);
	close(session);
	/* And all is closed in the end. */
	peer_send(intruder, "let go");
	peer_expect(intruder, "served");
	peer_end(intruder);
	while (count_descriptors(nodes[0].daemon) > before)
		sched_yield();
	nodes_pair_end(nodes);
}

/* ---- What others hold -------------------------------------------------------------------------------------------- */

/* How many imports the daemon tells of. */
static unsigned count_held(int session)
{
	struct cn_message answer, ask = {.kind = CN_MESSAGE_NODE_HELD};
	struct cn_node_held_answer held;
	unsigned count = 0;

	do {
		send_message(session, ask, -1);
		ASSERT_EQ(0, receive(session, &answer));
		memcpy(&held, (const char *)&answer + offsetof(struct cn_message, words), sizeof held);
		for (unsigned i = 0; i < CN_NODE_HELD_EACH; i++)
			count += held.held[i].node != 0;
		ask.words[0] = held.cursor;
	} while (held.cursor);
	return count;
}

/* Asks as a user; argv: its number, and what it is told. */
ROLE(asker)
{
	unsigned char key[CN_NODE_SESSION_BYTES];

	become((unsigned)atoi(argv[0]));
	int session = greet(key);
	ASSERT_EQ(atoi(argv[1]), count_held(session));
	close(session);
}

/* As `exporter`, of another user. */
ROLE(exporter_of_stranger)
{
	become(STRANGER);
	role_exporter(parent, argc, argv);
}

static struct peer *start_importer(struct peer *exporter)
{
	CUmemFabricHandle name;

	peer_receive_bytes(exporter, &name, sizeof name);
	nodes_enter(2);
	struct peer *importer = peer_start("importer");
	peer_send_bytes(importer, &name, sizeof name);
	peer_expect(importer, "imported");
	nodes_enter(1);
	return importer;
}

/* Goal: the daemon tells a user which of its memory other nodes hold, and not which of another user's. */
TEST(held_memory_is_told_to_its_user_and_root)
{
	struct peer *exporters[2], *importers[2];
	struct nodes_one nodes[2];

	nodes_pair(nodes);
	open_to_all(1);
	ASSERT_SYS(chmod(nodes_path(0, "channels"), 0755));
	ASSERT_SYS(chmod(nodes_path(0, "channels/channel0"), 0644));
	ASSERT_SYS(mkdir(nodes_path(1, "theirs"), 0700));
	ASSERT_SYS(chown(nodes_path(1, "theirs"), STRANGER, STRANGER));
	nodes_enter(1);
	exporters[0] = peer_start("exporter");
	importers[0] = start_importer(exporters[0]);
	peer_wait(peer_start("asker", "64125", "0"));
	peer_wait(peer_start("asker", "0", "1"));
	setenv("CENOTE_RUNTIME_DIR", nodes_path(1, "theirs"), 1);
	exporters[1] = peer_start("exporter_of_stranger");
	importers[1] = start_importer(exporters[1]);
	peer_wait(peer_start("asker", "64125", "1"));
	peer_wait(peer_start("asker", "64126", "0"));
	peer_wait(peer_start("asker", "0", "2"));
	for (int i = 0; i < 2; i++) {
		peer_send(importers[i], "copy");
		peer_expect(importers[i], "copies");
		peer_wait(importers[i]);
		peer_end(exporters[i]);
	}
	nodes_pair_end(nodes);
}

TEST(silent_and_loud_programs_keep_nobody_out, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	unsigned char key[CN_NODE_SESSION_BYTES];

	nodes_pair(nodes); /* the first is attacked */
	int silent = reach(), session = greet(key), loud = open_lane(key);
	const struct cn_message request = {.kind = CN_MESSAGE_NODE_REQUEST};
	struct cn_parcel parcel = {.message = request};
	for (int sent = 0; sent < 2000; sent++) {
		int error = cn_wire_send(loud, &parcel); /* never reads an answer */
		if (error == EPIPE)
			break;
	}
	close(greet(key));
	expect_hung_up(silent);
	close(loud);
	close(session);
	nodes_pair_end(nodes);
}
