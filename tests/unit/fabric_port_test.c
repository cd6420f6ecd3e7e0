/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles from inside: which handles and callers a port refuses, and which exporters an importer does not
 * trust. Both are written by hand where they are hostile. Callers that are only in the way are in
 * fabric_strangers_test.c; what programs see is in processes/fabric_test.c.
 */
#include "../ask.h"
#include "fabric_port.h"
#include "named_socket.h"
#include "share/event/shared_event.h"
#include "share/port/imex.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 64128, KIND = 2 };

ROLE(bystander)
{
}

/* ---- Handles ---- */

/* Shares 41, and ends when it is told. */
ROLE(exporter)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 41, handle);

	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "end");
	cn_fabric_free(fabric);
}

TEST(a_handle_fetches_what_it_names)
{
	struct peer *peer = peer_start("exporter");
	unsigned char theirs[CN_HANDLE_BYTES], ours[CN_HANDLE_BYTES], pool[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 42, ours), *other = share(CN_FABRIC_POOL, 43, pool);
	int fd;

	peer_receive_bytes(peer, theirs, sizeof theirs);
	for (int i = 0; i < 3; i++) {
		expect_thing(41, theirs);
		expect_thing(42, ours);
		ASSERT_OK(cn_fabric_fetch(pool, CN_FABRIC_POOL, &fd));
		expect_number(43, fd);
	}
	expect_refusal(pool, CUDA_ERROR_NOT_SUPPORTED, "another kind of object");
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cn_fabric_fetch(ours, CN_FABRIC_POOL, &fd));
	cn_fabric_free(fabric);
	cn_fabric_free(other);
	cn_fabric_free(NULL);
	peer_end(peer);
}

/* Goal: every bit counts. */
TEST(a_handle_with_a_wrong_bit_is_refused)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 1, handle);

	for (unsigned bit = 0; bit < 8 * CN_HANDLE_BYTES; bit++) {
		handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
		expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, bit < 32 ? "not made by Cenote" : "damaged");
		handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	expect_thing(1, handle);
	cn_fabric_free(fabric);
	for (int byte = 0; byte < 256; byte++) {
		memset(handle, byte, sizeof handle);
		expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "not made by Cenote");
	}
}

TEST(forged_handles_are_refused)
{
	unsigned char handle[CN_HANDLE_BYTES], bytes[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 1, handle);
	struct cn_handle good = parts_of(handle), bad = good;

	bad.version++;
	forge(bad, bytes);
	expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "another version");
	for (uint16_t kind = 0; kind < 8; kind++) {
		bad = good;
		bad.kind = kind;
		forge(bad, bytes);
		if (kind != good.kind)
			expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "another kind of object");
	}
	for (unsigned i = 0; i < sizeof bad.secret; i++) {
		bad = good;
		bad.secret[i] ^= 0x10;
		forge(bad, bytes);
		expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "or never did");
	}
	bad = good;
	bad.node++;
	forge(bad, bytes);
	expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "or never did");
	bad = good;
	bad.number += 256;
	forge(bad, bytes);
	expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "or never did");
	for (unsigned i = 0; i < sizeof bad.port; i++) { /* another user's, then none of ours */
		bad = good;
		bad.port[i]++;
		forge(bad, bytes);
		expect_refusal(bytes, CUDA_ERROR_NOT_SUPPORTED, "the exporter is gone");
	}
	bad = good;
	bad.channel++;
	forge(bad, bytes);
	expect_refusal(bytes, CUDA_ERROR_NOT_PERMITTED, "channel is 1");
	expect_thing(1, handle); /* and the true one is as it was */
	cn_fabric_free(fabric);
}

/* Goal: a handle holds nothing; what was fetched stays. */
TEST(a_handle_ends_with_what_it_names)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 5, handle);
	int fd = -1;

	ASSERT_OK(cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd));
	cn_fabric_free(fabric);
	expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "no longer exists");
	expect_number(5, fd);
	for (int killed = 0; killed < 2; killed++) {
		struct peer *peer = peer_start("exporter");
		peer_receive_bytes(peer, handle, sizeof handle);
		ASSERT_OK(cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd));
		if (killed)
			peer_kill(peer);
		else
			peer_end(peer);
		expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "the exporter is gone");
		expect_number(41, fd);
	}
	peer_wait(peer_start("bystander")); /* clears the name of the killed process */
}

/* ---- Callers ---- */

static void expect_answer(const unsigned char handle[CN_HANDLE_BYTES], const struct cn_parcel *request, CUresult code)
{
	int sock = call_port(handle);
	struct cn_parcel reply;

	ASSERT_OK(ask_peer(sock, request, &reply));
	ASSERT_EQ(CN_MESSAGE_FABRIC, reply.message.kind);
	ASSERT_EQ(code, (CUresult)reply.message.result);
	ASSERT_EQ(code ? 0 : 1, reply.descriptor_count);
	cn_wire_close(&reply);
	expect_closed(sock); /* one question each */
}

/* Goal: what is not the channel, opened for reading, is no proof, with all of the handle's bytes known. */
TEST(a_caller_without_the_channel_gets_nothing)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 6, handle);
	struct {
		const char *name;
		int flags;
		CUresult code;
	} cases[] = {
		{"imex/channel0", O_RDONLY, CUDA_SUCCESS},
		{"imex/channel0", O_RDWR, CUDA_SUCCESS},
		{"imex/channel0", O_PATH, CUDA_ERROR_NOT_PERMITTED},
		{"imex/channel0", O_WRONLY, CUDA_ERROR_NOT_PERMITTED},
		{"imex", O_RDONLY, CUDA_ERROR_NOT_PERMITTED},
		{"imex/channel1", O_RDWR | O_CREAT, CUDA_ERROR_NOT_PERMITTED},
		{"imex/fifo", O_RDWR, CUDA_ERROR_NOT_PERMITTED},
	};

	ASSERT_SYS(mkfifo(test_path("imex/fifo"), 0666));
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		int channel = open(test_path(cases[i].name), cases[i].flags | O_CLOEXEC, 0666);
		struct cn_parcel request = request_for(handle, channel);
		ASSERT_SYS(channel);
		expect_answer(handle, &request, cases[i].code);
		ASSERT_SYS(close(channel));
	}
	cn_fabric_free(fabric);
}

TEST(a_caller_who_talks_nonsense_is_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 7, handle);
	int channel = open(test_path("imex/channel0"), O_RDONLY | O_CLOEXEC), sock = call_port(handle);
	struct cn_parcel request = request_for(handle, channel);

	ASSERT_EQ(7, send(sock, "garbage", 7, 0));
	expect_closed(sock);
	for (uint32_t kind = 0; kind < 20; kind++) {
		request.message.kind = kind;
		sock = call_port(handle);
		ASSERT_EQ(0, cn_wire_send(sock, &request));
		if (kind == CN_MESSAGE_FABRIC)
			ASSERT_SYS(close(sock)); /* nor is a caller waited for that does not read */
		else
			expect_closed(sock);
	}
	request.message.kind = CN_MESSAGE_FABRIC;
	for (unsigned count = 0; count <= 2; count += 2) {
		request.descriptors[1] = channel;
		request.descriptor_count = count;
		sock = call_port(handle);
		ASSERT_EQ(0, cn_wire_send(sock, &request));
		expect_closed(sock);
	}
	request.descriptor_count = 1;
	for (uint64_t kind = 0; kind < 8; kind++) { /* a kind that there is not is no other kind either */
		request.message.words[KIND] = kind;
		expect_answer(handle, &request,
			      kind == CN_HANDLE_FABRIC_MEMORY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
	}
	ASSERT_SYS(close(channel));
	cn_fabric_free(fabric);
}

/* Goal: a holder of the channel does not get by it what the user's own port has, nor the other way round. */
TEST(each_port_has_its_own_things)
{
	unsigned char of_event[CN_HANDLE_BYTES], handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 8, handle);
	int channel = open(test_path("imex/channel0"), O_RDONLY | O_CLOEXEC), sock;
	struct cn_shared_event *event;
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct cn_parcel reply;

	ASSERT_OK(cn_shared_event_create(&event));
	ASSERT_OK(cn_shared_event_handle(event, of_event));
	leaks_start_here(); /* its port stays */
	struct cn_parcel request = request_for(of_event, channel);
	for (uint64_t kind = 0; kind < 8; kind++) {
		request.message.words[KIND] = kind;
		expect_answer(handle, &request, CUDA_ERROR_INVALID_HANDLE);
	}
	request = request_for(handle, channel);
	request.descriptor_count = 0;
	name_of(of_event, name);
	for (int i = 0; i < 2; i++) {
		request.message.kind = i ? CN_MESSAGE_MEMORY : CN_MESSAGE_EVENT;
		ASSERT_OK(connect_name(name, &sock));
		ASSERT_OK(ask_peer(sock, &request, &reply));
		ASSERT_NE(0, reply.message.result);
		ASSERT_EQ(0, reply.descriptor_count);
		expect_closed(sock);
	}
	ASSERT_SYS(close(channel));
	cn_shared_event_drop(event);
	cn_fabric_free(fabric);
}

TEST(a_caller_who_says_nothing_is_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 9, handle);
	int silent = call_port(handle);

	expect_thing(9, handle);
	expect_closed(silent); /* takes CN_WIRE_TIMEOUT_MS */
	expect_thing(9, handle);
	cn_fabric_free(fabric);
}

/* ---- Ports ---- */

/* Where a port of a name would mark the channel. */
static uint64_t place_of(const struct cn_handle *handle)
{
	uint32_t words[2];

	memcpy(words, handle->port, sizeof words);
	return (uint64_t)ntohl(words[0]) << 30 | ntohl(words[1]) >> 2;
}

/* A port that is not the library's: it listens, and what it says is the test's. */
struct false_port {
	struct cn_socket socket;
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_handle parts;
};

static struct false_port listen_falsely(const unsigned char model[CN_HANDLE_BYTES])
{
	struct false_port port = {.parts = parts_of(model)};

	ASSERT_OK(cn_wire_listen_named(true, &port.socket));
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[3] = {port.socket.name[2 * i], port.socket.name[2 * i + 1], '\0'};
		port.parts.port[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
	forge(port.parts, port.handle);
	return port;
}

static void end_false(struct false_port *port)
{
	end_named(&port->socket);
}

/* A process has called, and gone without a word. */
static void expect_silent_caller(int listen_fd)
{
	int sock = cn_wire_accept(listen_fd);
	struct cn_parcel parcel;

	ASSERT_SYS(sock);
	ASSERT_EQ(EPIPE, cn_wire_receive(sock, &parcel));
	ASSERT_SYS(close(sock));
	ASSERT_EQ(-1, cn_wire_accept(listen_fd));
}

/* Goal: a process gets the channel from us only if it holds it already. */
TEST(a_port_without_a_mark_is_told_nothing)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 11, handle);
	struct false_port port = listen_falsely(handle);

	expect_refusal(port.handle, CUDA_ERROR_NOT_PERMITTED, "another file than this process's");
	expect_silent_caller(port.socket.listen_fd);
	end_false(&port);
	cn_fabric_free(fabric);
}

/* Listens as another user under a name that it is given. */
ROLE(squatter)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	ASSERT_SYS(setuid(NOBODY));
	int listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ASSERT_SYS(listen_fd);
	ASSERT_LT(snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[0]), (int)sizeof address.sun_path);
	ASSERT_SYS(bind(listen_fd, (const struct sockaddr *)&address, sizeof address));
	ASSERT_SYS(listen(listen_fd, 5));
	peer_send(parent, "listening");
	peer_expect(parent, "called");
	expect_silent_caller(listen_fd);
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(unlink(argv[0]));
}

/* Goal: the directory's owner can take another port's place, and hears nothing there though the mark is real. */
TEST(another_user_in_the_place_of_a_port_is_told_nothing)
{
	unsigned char handle[CN_HANDLE_BYTES];
	char name[CN_SOCKET_NAME_CHARS + 1], path[700];

	if (geteuid())
		SKIP("only root can become another user");
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 12, handle);
	name_of(handle, name);
	ASSERT_SYS(rename(test_path("fabric/0"), test_path("fabric/moved")));
	ASSERT_SYS(mkdir(test_path("fabric/0"), 0700));
	ASSERT_SYS(chown(test_path("fabric/0"), NOBODY, NOBODY));
	snprintf(path, sizeof path, "%s/0/%s", test_path("fabric"), name);
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("elsewhere"), 1)); /* where the peer has its own port */
	struct peer *peer = peer_start("squatter", path);
	peer_expect(peer, "listening");
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("fabric"), 1));
	expect_refusal(handle, CUDA_ERROR_NOT_PERMITTED, "another user than the fabric handle says");
	peer_send(peer, "called");
	peer_wait(peer);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_directory_fabric(&(int){0}));
	ASSERT_CONTAINS("belongs to user 64128", cn_last_error());
	ASSERT_SYS(rmdir(test_path("fabric/0")));
	ASSERT_SYS(rename(test_path("fabric/moved"), test_path("fabric/0")));
	expect_thing(12, handle);
	cn_fabric_free(fabric);
}

/* A holder of the channel that is hostile all the same: marked, and with answers of its own, one a call. */
ROLE(liar)
{
	unsigned char model[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 13, model);
	struct false_port port = listen_falsely(model);
	const unsigned counts[] = {0, 1, 1, 0, 0, 2, 0, 0};
	const struct cn_imex *channel;
	int mark;

	ASSERT_OK(cn_imex_own(&channel));
	ASSERT_OK(cn_imex_mark(channel, place_of(&port.parts), &mark));
	peer_send_bytes(parent, port.handle, sizeof port.handle);
	for (int answer = 0; answer < 8; answer++) {
		struct pollfd wanted = {.fd = port.socket.listen_fd, .events = POLLIN};
		struct cn_parcel request, reply;
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		int sock = cn_wire_accept(port.socket.listen_fd);
		wanted.fd = sock;
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		ASSERT_EQ(0, cn_wire_receive(sock, &request));
		ASSERT_EQ(1, request.descriptor_count);
		ASSERT(cn_imex_is_proof(channel, request.descriptors[0]));
		reply = (struct cn_parcel){
			.message = {.kind = answer == 1 ? CN_MESSAGE_MEMORY : CN_MESSAGE_FABRIC,
				    .request = request.message.request + (answer == 2),
				    .result = answer == 3   ? CUDA_ERROR_NOT_PERMITTED
					      : answer == 4 ? 4711
							    : 0},
			.descriptors = {STDERR_FILENO, STDERR_FILENO},
			.descriptor_count = counts[answer],
		};
		if (answer < 6)
			ASSERT_EQ(0, cn_wire_send(sock, &reply));
		cn_wire_close(&request);
		ASSERT_SYS(close(sock)); /* 6 and 7: without an answer, the second time to the same caller */
	}
	ASSERT_SYS(close(mark));
	end_false(&port);
	cn_fabric_free(fabric);
	peer_expect(parent, "end");
}

TEST(answers_of_a_liar_are_errors_and_leave_nothing)
{
	struct peer *peer = peer_start("liar");
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM,
		       "not a message of this version of Cenote"); /* no descriptor */
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM,
		       "not a message of this version of Cenote"); /* another kind */
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM,
		       "not a message of this version of Cenote"); /* to another question */
	expect_refusal(handle, CUDA_ERROR_NOT_PERMITTED, "is not this process's channel");
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM, "4711");
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM,
		       "not a message of this version of Cenote"); /* two descriptors */
	expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "has ended");
	peer_end(peer);
}

/* Goal: what comes back is a stranger's: neither memory nor a pool because its sender says so. */
TEST(what_is_neither_memory_nor_a_pool_is_not_imported)
{
	unsigned char memory[CN_HANDLE_BYTES], pool[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 14, memory), *other = share(CN_FABRIC_POOL, 15, pool);
	CUmemGenericAllocationHandle allocation = 77;
	CUmemoryPool imported = NULL;

	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED,
		     cuMemImportFromShareableHandle(&allocation, memory, CU_MEM_HANDLE_TYPE_FABRIC));
	ASSERT_CONTAINS("something other than memory", cn_last_error());
	ASSERT_EQ(77, allocation);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED,
		     cuMemPoolImportFromShareableHandle(&imported, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	ASSERT_EQ(NULL, imported);
	cn_fabric_free(fabric);
	cn_fabric_free(other);
}

TEST(an_exporter_that_hangs_is_not_waited_for_for_ever, .timeout_ms = 60000)
{
	struct peer *peer = peer_start("exporter");
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	peer_stop(peer);
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM, "does not answer");
	peer_continue(peer);
	expect_thing(41, handle);
	peer_end(peer);
}

/* ---- Names ---- */

static unsigned count_names(void)
{
	char path[700];

	snprintf(path, sizeof path, "%s/%u", test_path("fabric"), (unsigned)geteuid());
	return test_file_count(path);
}

TEST(the_name_goes_with_the_process_and_a_killed_ones_with_the_next)
{
	struct peer *live = peer_start("exporter"), *dead = peer_start("exporter");
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(dead, handle, sizeof handle);
	peer_receive_bytes(live, handle, sizeof handle);
	ASSERT_EQ(6, count_names()); /* a socket and a lock each, and ours */
	peer_kill(dead);
	ASSERT_EQ(6, count_names());
	peer_wait(peer_start("bystander"));
	ASSERT_EQ(4, count_names());
	expect_thing(41, handle); /* the live one's */
	peer_end(live);
	ASSERT_EQ(2, count_names());
}

/* Forks a child that lives on. */
ROLE(forker)
{
	unsigned char handle[CN_HANDLE_BYTES];
	int ends[2];
	char byte;

	share(CN_FABRIC_MEMORY, 16, handle);
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	pid_t child = fork();
	if (!child) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0); /* until the test closes the other end */
	}
	ASSERT_SYS(child);
	int process = (int)syscall(SYS_pidfd_open, child, 0);
	ASSERT_SYS(process);
	peer_send_bytes(parent, handle, sizeof handle);
	peer_send_descriptor(parent, ends[1]);
	peer_send_descriptor(parent, process);
	peer_expect(parent, "never");
}

/* Goal: a child neither listens for its parent nor keeps its mark and its name. */
TEST(a_forked_child_keeps_nothing_of_the_port)
{
	struct peer *peer = peer_start("forker");
	unsigned char handle[CN_HANDLE_BYTES];
	const struct cn_imex *channel;

	ASSERT_OK(cn_imex_own(&channel));
	peer_receive_bytes(peer, handle, sizeof handle);
	int end = peer_receive_descriptor(peer), process = peer_receive_descriptor(peer);
	struct pollfd ended = {.fd = process, .events = POLLIN};
	struct cn_handle parts = parts_of(handle);
	expect_thing(16, handle);
	ASSERT(cn_imex_is_marked(channel, place_of(&parts)));
	peer_kill(peer);
	expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "the exporter is gone");
	ASSERT(!cn_imex_is_marked(channel, place_of(&parts)));
	peer_wait(peer_start("bystander"));
	ASSERT_EQ(2, count_names());
	ASSERT_EQ(0, poll(&ended, 1, 0)); /* it has lived all the time */
	ASSERT_SYS(close(end));
	ASSERT_EQ(1, poll(&ended, 1, -1));
	ASSERT_SYS(close(process));
}

/* ---- The directory ---- */

static mode_t mode_of(const char *path)
{
	struct stat status;

	ASSERT_SYS(lstat(path, &status));
	return status.st_mode & 07777;
}

static void expect_bad_directory(const char *words)
{
	int fd = -7;

	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_directory_fabric(&fd));
	ASSERT_EQ(-7, fd);
	ASSERT_CONTAINS(words, cn_last_error());
}

/* Goal: made as it has to be, whatever the umask; never through a link; never one where others can take names away. */
TEST(the_directory_is_made_for_all_and_links_are_not_followed)
{
	char folder[700];
	int fd;

	snprintf(folder, sizeof folder, "%s/%u", test_path("new"), (unsigned)geteuid());
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("new/"), 1));
	umask(077);
	ASSERT_OK(cn_directory_fabric(&fd));
	ASSERT_SYS(close(fd));
	ASSERT_EQ(01777, mode_of(test_path("new")));
	ASSERT_EQ(0711, mode_of(folder));
	ASSERT_SYS(chmod(folder, 0700)); /* as a process leaves it that was killed */
	ASSERT_SYS(chmod(test_path("new"), 0755));
	ASSERT_OK(cn_directory_fabric(&fd));
	ASSERT_SYS(close(fd));
	ASSERT_EQ(0711, mode_of(folder));
	ASSERT_EQ(0755, mode_of(test_path("new"))); /* the user chose the folder, and so this, too */

	ASSERT_SYS(chmod(test_path("new"), 0777));
	expect_bad_directory("must be 1777");
	ASSERT_SYS(chmod(test_path("new"), 01777));
	ASSERT_SYS(rmdir(folder));
	ASSERT_SYS(symlink("/tmp", folder));
	expect_bad_directory("it is a link");
	ASSERT_SYS(unlink(folder));
	ASSERT_SYS(symlink(test_path("new"), test_path("link")));
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("link/"), 1));
	expect_bad_directory("it is a link");
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", "relative", 1));
	expect_bad_directory("absolute path");
}
