/* SPDX-License-Identifier: MIT */
/*
 * The runtime directory, and the sockets that are made in it: who can connect, what is refused, and what is swept.
 */
#include "../ask.h"
#include "../sockets.h"
#include "harness.h"
#include "named_socket.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOBODY = 64321 };

/* What the library keeps for good: see cn_wire_accept(). */
SETUP
{
	int listen_fd, path_fd;

	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(close(path_fd));
}

/* ---- The runtime directory ---- */

static const char *in_directory(const char *name)
{
	static char path[512];

	snprintf(path, sizeof path, "%s/%s", test_directory(), name);
	return path;
}

static void choose(const char *name)
{
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", in_directory(name), 1));
}

static void expect_no_directory(const char *part)
{
	int fd = -77;

	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_directory_runtime(&fd));
	ASSERT_CONTAINS(part, cn_last_error());
	ASSERT_EQ(-77, fd);
}

static void expect_directory(const char *path)
{
	struct stat status;
	int fd, other = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);

	ASSERT_OK(cn_directory_runtime(&fd));
	if (other < 0)
		ASSERT_SYS(other = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW));
	ASSERT(is_same_file(fd, other));
	ASSERT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	ASSERT_SYS(fstat(fd, &status));
	ASSERT_EQ(0700, status.st_mode & 07777);
	ASSERT_SYS(close(fd));
	ASSERT_SYS(close(other));
}

TEST(the_runtime_directory_is_made_for_its_user_alone)
{
	umask(022);
	choose("new");
	expect_directory(in_directory("new"));
	expect_directory(in_directory("new")); /* now it is there */
	choose("new///");
	expect_directory(in_directory("new"));
}

TEST(a_runtime_directory_that_is_not_private_is_refused)
{
	choose("open");
	ASSERT_SYS(mkdir(in_directory("open"), 0700));
	for (unsigned bit = 0; bit < 6; bit++) {
		ASSERT_SYS(chmod(in_directory("open"), 0700 | 1u << bit));
		expect_no_directory("other users may enter the runtime directory");
	}
	ASSERT_SYS(chmod(in_directory("open"), 0700));
	expect_directory(in_directory("open"));
}

TEST(a_link_or_a_file_in_place_of_the_runtime_directory_is_refused)
{
	ASSERT_SYS(mkdir(in_directory("target"), 0700));
	ASSERT_SYS(symlink("target", in_directory("link")));
	choose("link");
	expect_no_directory("it is a link, or no directory");
	choose("link/");
	expect_no_directory("it is a link, or no directory");
	ASSERT_SYS(symlink("nowhere", in_directory("dangling")));
	choose("dangling");
	expect_no_directory("it is a link, or no directory");
	ASSERT_SYS(close(creat(in_directory("file"), 0600)));
	choose("file");
	expect_no_directory("it is a link, or no directory");
	choose("no-parent/here");
	expect_no_directory("cannot be made");
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", "relative", 1));
	expect_no_directory("absolute path");
}

TEST(another_users_runtime_directory_is_refused)
{
	if (geteuid())
		SKIP("only root can give a directory to another user");
	choose("theirs");
	ASSERT_SYS(mkdir(in_directory("theirs"), 0700));
	ASSERT_SYS(chown(in_directory("theirs"), NOBODY, NOBODY));
	expect_no_directory("belongs to user 64321, not to user 0");
}

/* As an ordinary user, whom permissions concern. */
ROLE(user)
{
	int listen_fd, path_fd;

	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", argv[0], 1));
	if (!geteuid())
		ASSERT_SYS(setuid(NOBODY));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_wire_listen_unnamed(&listen_fd, &path_fd));
	ASSERT_CONTAINS(argv[1], cn_last_error());
}

TEST(a_runtime_directory_that_cannot_be_written_says_so)
{
	const char *sentence = "no file can be made in the runtime directory: Permission denied";

	ASSERT_SYS(chmod(test_directory(), 0711));
	ASSERT_SYS(mkdir(in_directory("read-only"), 0500));
	if (!geteuid())
		ASSERT_SYS(chown(in_directory("read-only"), NOBODY, NOBODY));
	peer_wait(peer_start("user", in_directory("read-only"), sentence));
}

/* Goal: without CENOTE_RUNTIME_DIR, the session's folder, else one in /tmp; and nothing planted is used. */
TEST(the_default_directories_are_tried_in_their_order)
{
	char session[64], in_session[80], temporary[64];

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/run", "tmpfs", 0, NULL) || mount("none", "/tmp", "tmpfs", 0, NULL))
		SKIP("no mount namespace of one's own: %s", strerror(errno));
	ASSERT_SYS(unsetenv("CENOTE_RUNTIME_DIR"));
	snprintf(session, sizeof session, "/run/user/%u", (unsigned)geteuid());
	snprintf(in_session, sizeof in_session, "%s/cenote", session);
	snprintf(temporary, sizeof temporary, "/tmp/cenote-%u", (unsigned)geteuid());

	expect_directory(temporary);
	ASSERT_SYS(mkdir("/run/user", 0755));
	ASSERT_SYS(mkdir(session, 0700));
	expect_directory(in_session);
	ASSERT_SYS(chmod(session, 0777));
	expect_directory(temporary);
	ASSERT_SYS(chmod(session, 0700));
	ASSERT_SYS(rmdir(in_session));
	ASSERT_SYS(mkdir("/run/target", 0700));
	ASSERT_SYS(symlink("/run/target", in_session));
	expect_directory(temporary);
	ASSERT_SYS(rmdir(temporary));
	ASSERT_SYS(symlink("/run/target", temporary));
	expect_no_directory("it is a link, or no directory");
}

/* ---- Sockets ---- */

static unsigned files_in_runtime_directory(void)
{
	return test_file_count(getenv("CENOTE_RUNTIME_DIR"));
}

ROLE(connector)
{
	int path_fd = peer_receive_descriptor(parent), sock = -1;
	struct cn_parcel question = {.message = {.kind = 3, .words = {17}}}, reply;

	for (int i = 0; i < 3; i++) {
		ASSERT_OK(connect_path(path_fd, &sock));
		ASSERT_EQ(FD_CLOEXEC, fcntl(sock, F_GETFD));
		ASSERT_OK(ask_peer(sock, &question, &reply));
		ASSERT_EQ(18, reply.message.words[0]);
		ASSERT_SYS(close(sock));
	}
	ASSERT_SYS(close(path_fd));
}

static void wait_readable(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	ASSERT_EQ(1, poll(&ready, 1, -1));
}

static void serve(int listen_fd, int count)
{
	for (int i = 0; i < count; i++) {
		struct cn_parcel parcel;

		wait_readable(listen_fd);
		int sock = cn_wire_accept(listen_fd);
		ASSERT_SYS(sock);
		ASSERT_EQ(FD_CLOEXEC, fcntl(sock, F_GETFD));
		wait_readable(sock);
		ASSERT_EQ(0, cn_wire_receive(sock, &parcel));
		parcel.message.words[0]++;
		ASSERT_EQ(0, cn_wire_send(sock, &parcel));
		ASSERT_SYS(close(sock));
	}
	ASSERT_EQ(-1, cn_wire_accept(listen_fd));
}

static void expect_connection(void)
{
	int listen_fd, path_fd;

	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	ASSERT_EQ(FD_CLOEXEC, fcntl(listen_fd, F_GETFD));
	ASSERT_EQ(FD_CLOEXEC, fcntl(path_fd, F_GETFD));
	ASSERT_EQ(0, files_in_runtime_directory());
	struct peer *peer = peer_start("connector");
	peer_send_descriptor(peer, path_fd);
	serve(listen_fd, 3);
	peer_wait(peer);
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(close(path_fd));
}

TEST(any_holder_of_the_descriptor_can_connect)
{
	expect_connection();
}

TEST(a_long_path_is_no_hindrance)
{
	char name[201] = "";

	memset(name, 'x', sizeof name - 1);
	choose(name);
	expect_connection();
}

/* Goal: another user, who may not even enter the directory, connects. */
ROLE(other_user)
{
	int path_fd = peer_receive_descriptor(parent), sock = -1;

	ASSERT_SYS(setuid(NOBODY));
	ASSERT_OK(connect_path(path_fd, &sock));
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(path_fd));
}

TEST(another_user_can_connect)
{
	int listen_fd, path_fd;

	if (geteuid())
		SKIP("only root can become another user");
	umask(077);
	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	struct peer *peer = peer_start("other_user");
	peer_send_descriptor(peer, path_fd);
	peer_wait(peer);
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(close(path_fd));
}

static void expect_no_connection(int path_fd, const char *part)
{
	int sock = -77;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, connect_path(path_fd, &sock));
	ASSERT_CONTAINS(part, cn_last_error());
	ASSERT_EQ(-77, sock);
}

TEST(what_leads_to_no_socket_of_ours_is_refused)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int ends[2], fd;

	make_pair(SOCK_SEQPACKET, ends);
	expect_no_connection(ends[0], "does not lead to an exporter");
	close_pair(ends);
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	expect_no_connection(ends[0], "does not lead to an exporter");
	close_pair(ends);
	expect_no_connection(-1, "is not open");
	expect_no_connection(ends[0], "is not open");
	ASSERT_SYS(fd = memfd_create("file", MFD_CLOEXEC));
	expect_no_connection(fd, "does not lead to an exporter");
	ASSERT_SYS(close(fd));
	ASSERT_SYS(fd = open("/dev/null", O_PATH | O_CLOEXEC));
	expect_no_connection(fd, "does not lead to an exporter");
	ASSERT_SYS(close(fd));

	for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
		int sock = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
		ASSERT_SYS(sock);
		snprintf(address.sun_path, sizeof address.sun_path, "%.100s", in_directory("socket"));
		ASSERT_SYS(bind(sock, (struct sockaddr *)&address, sizeof address));
		if (type == SOCK_STREAM)
			ASSERT_SYS(listen(sock, 1));
		ASSERT_SYS(fd = open(address.sun_path, O_PATH | O_CLOEXEC));
		expect_no_connection(fd, "that is not Cenote's");
		ASSERT_SYS(close(sock));
		expect_no_connection(fd, "the exporter is gone");
		ASSERT_SYS(close(fd));
		ASSERT_SYS(unlink(address.sun_path));
	}
}

ROLE(exporter)
{
	int listen_fd, path_fd;

	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	peer_send_descriptor(parent, path_fd);
	peer_expect(parent, "never");
}

TEST(an_exporter_that_was_killed_is_gone)
{
	struct peer *peer = peer_start("exporter");
	int path_fd = peer_receive_descriptor(peer), sock = -1;

	ASSERT_OK(connect_path(path_fd, &sock));
	peer_kill(peer);
	struct pollfd hang_up = {.fd = sock, .events = POLLIN};
	ASSERT_EQ(1, poll(&hang_up, 1, -1));
	ASSERT(hang_up.revents & POLLHUP);
	expect_no_connection(path_fd, "the exporter is gone");
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(path_fd));
}

TEST(an_exporter_that_takes_no_connection_is_not_waited_for_for_ever)
{
	int listen_fd, path_fd, socks[1024], count = 0;

	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	while (count < 1024 && !connect_path(path_fd, &socks[count]))
		count++;
	ASSERT_LT(count, 1024);
	ASSERT_CONTAINS("refused the connection", cn_last_error());
	while (count)
		ASSERT_SYS(close(socks[--count]));
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(close(path_fd));
}

TEST(a_connection_for_which_there_is_no_descriptor_is_closed)
{
	struct rlimit limit, tight;
	int listen_fd, path_fd, sock[2] = {-1, -1}, fillers[64], count = 0;
	char byte;

	ASSERT_OK(cn_wire_listen_unnamed(&listen_fd, &path_fd));
	ASSERT_OK(connect_path(path_fd, &sock[0]));
	ASSERT_OK(connect_path(path_fd, &sock[1]));
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	tight = limit;
	tight.rlim_cur = 48;
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &tight));
	while (count < 64 && (fillers[count] = dup(listen_fd)) >= 0)
		count++;
	ASSERT_EQ(-1, cn_wire_accept(listen_fd));
	ASSERT_EQ(-1, cn_wire_accept(listen_fd)); /* one at a time: others are not to wait for a stranger's many */
	struct pollfd empty = {.fd = listen_fd, .events = POLLIN};
	ASSERT_EQ(0, poll(&empty, 1, 0));
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	while (count)
		ASSERT_SYS(close(fillers[--count]));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, read(sock[i], &byte, 1));
		ASSERT_SYS(close(sock[i]));
	}
	ASSERT_OK(connect_path(path_fd, &sock[0]));
	ASSERT_SYS(sock[1] = cn_wire_accept(listen_fd));
	close_pair(sock);
	ASSERT_SYS(close(listen_fd));
	ASSERT_SYS(close(path_fd));
}

TEST(without_proc_there_is_a_sentence)
{
	int listen_fd, path_fd;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		SKIP("no mount namespace of one's own: %s", strerror(errno));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_wire_listen_unnamed(&listen_fd, &path_fd));
	ASSERT_CONTAINS("/proc is not mounted here", cn_last_error());
	ASSERT_SYS(umount("/proc"));
	expect_connection();
}

/* ---- Names ---- */

ROLE(listener)
{
	struct cn_socket named;

	ASSERT_OK(cn_wire_listen_named(false, &named));
	peer_send_bytes(parent, named.name, sizeof named.name);
	peer_expect(parent, "end");
	end_named(&named);
}

static void expect_name(const char *name, bool there)
{
	int sock = -77;

	if (there) {
		ASSERT_OK(connect_name(name, &sock));
		ASSERT_SYS(close(sock));
		return;
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, connect_name(name, &sock));
	ASSERT_CONTAINS("the exporter is gone", cn_last_error());
	ASSERT_EQ(-77, sock);
}

/* Make another name, and with it sweep. */
static void sweep(void)
{
	struct peer *peer = peer_start("listener");
	char name[CN_SOCKET_NAME_CHARS + 1];

	peer_receive_bytes(peer, name, sizeof name);
	peer_end(peer);
}

TEST(a_name_is_swept_when_its_process_was_killed_and_not_before)
{
	struct peer *live = peer_start("listener"), *dead = peer_start("listener");
	char live_name[CN_SOCKET_NAME_CHARS + 1], dead_name[CN_SOCKET_NAME_CHARS + 1];

	peer_receive_bytes(live, live_name, sizeof live_name);
	peer_receive_bytes(dead, dead_name, sizeof dead_name);
	ASSERT_EQ(CN_SOCKET_NAME_CHARS, strlen(live_name));
	ASSERT_EQ(4, files_in_runtime_directory());
	sweep();
	ASSERT_EQ(4, files_in_runtime_directory());
	expect_name(live_name, true);
	expect_name(dead_name, true);

	peer_kill(dead);
	ASSERT_EQ(4, files_in_runtime_directory());
	expect_name(dead_name, false);
	sweep();
	ASSERT_EQ(2, files_in_runtime_directory());
	expect_name(dead_name, false);
	expect_name(live_name, true);

	peer_end(live);
	ASSERT_EQ(0, files_in_runtime_directory());
	expect_name(live_name, false);
}

/* Goal: what a process that was killed on the way leaves is swept, and what is nobody's is left alone. */
TEST(half_made_names_are_swept_and_strange_files_are_not)
{
	static const char *const dead[] = {
		"0123456789abcdef0123456789abcdef.lock",  "0123456789abcdef0123456789abcdee.lock",
		"0123456789abcdef0123456789abcdee.tmp/s", "0123456789abcdef0123456789abcded.lock",
		"0123456789abcdef0123456789abcded",
	};
	static const char *const strange[] = {
		"0123456789ABCDEF0123456789abcdef.lock",
		"0123456789abcdef0123456789abcde.lock",
		"0123456789abcdef0123456789abcdef.locks",
		"0123456789abcdef0123456789abcde0",
		"notes",
	};
	const char *path = getenv("CENOTE_RUNTIME_DIR");
	int directory = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	ASSERT_SYS(directory);
	ASSERT_SYS(mkdirat(directory, "0123456789abcdef0123456789abcdee.tmp", 0700));
	ASSERT_SYS(mkdirat(directory, "0123456789abcdef0123456789abcded.tmp", 0700));
	for (size_t i = 0; i < 5; i++) {
		ASSERT_SYS(close(openat(directory, dead[i], O_CREAT | O_WRONLY, 0600)));
		ASSERT_SYS(close(openat(directory, strange[i], O_CREAT | O_WRONLY, 0600)));
	}
	sweep();
	for (size_t i = 0; i < 5; i++) {
		ASSERT_EQ(-1, faccessat(directory, dead[i], F_OK, 0));
		ASSERT_SYS(unlinkat(directory, strange[i], 0));
	}
	ASSERT_SYS(close(directory));
	ASSERT_EQ(0, files_in_runtime_directory());
}

/* Goal: makers and sweepers at the same time never take each other's names. */
ROLE(maker)
{
	for (int i = 0; i < 200 / HARNESS_SLOWDOWN; i++) {
		struct cn_socket named;

		ASSERT_OK(cn_wire_listen_named(false, &named));
		expect_name(named.name, true);
		end_named(&named);
	}
}

TEST(many_make_names_and_sweep_at_the_same_time)
{
	struct peer *peers[4];

	for (int i = 0; i < 4; i++)
		peers[i] = peer_start("maker");
	for (int i = 0; i < 4; i++)
		peer_wait(peers[i]);
	ASSERT_EQ(0, files_in_runtime_directory());
}
