/* SPDX-License-Identifier: MIT */
/*
 * A pool between processes that have nothing in common but a socket: other namespaces, another user.
 *
 * These need the rights to make namespaces and to become another user; without them they are skipped.
 */
#include "../share.h"

#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { BLOCK = SHARE_MIB, POOL = SHARE_CHUNK, CHANNEL_FD = 3, FIRST_USER = 64123, SECOND_USER = 64124 };

/* In the environment: only try whether the device can be used there. */
#define TRY "CENOTE_TEST_TRY"

/* The first process of its own PID namespace: with a /proc of its own, and nothing of the outside's directories. */
static void leave_directories(void)
{
	ASSERT_SYS(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* a test that kills the one outside means this one */
	ASSERT_SYS(unshare(CLONE_NEWNS));             /* the one outside keeps its /proc */
	ASSERT_SYS(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_SYS(mount("proc", "/proc", "proc", 0, NULL));
	ASSERT_SYS(mount("none", "/tmp", "tmpfs", 0, NULL));
	if (access("/run", F_OK) == 0)
		ASSERT_SYS(mount("none", "/run", "tmpfs", 0, NULL));
	if (access("/dev/shm", F_OK) == 0)
		ASSERT_SYS(mount("none", "/dev/shm", "tmpfs", 0, NULL));
	/* What an exporter needs is here, and no process outside sees it. */
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", "/tmp/apart", 1));
}

SETUP
{
	int version;

	if (getpid() == 1) {                             /* first: a driver looks into /proc by its own number */
		ASSERT_OK(cuDriverGetVersion(&version)); /* opens it, wherever its file is */
		leave_directories();
	}
	if (getenv(TRY))
		_exit(cuInit(0) != CUDA_SUCCESS);
	share_start();
}

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

/* Execute the program in another role that has the channel, and wait for its end: how it ended. */
static int run_role(const char *role)
{
	char *arguments[] = {(char *)"peer", (char *)"--role", (char *)(uintptr_t)role, NULL};
	posix_spawn_file_actions_t actions;
	pid_t child;
	int status;

	ASSERT_EQ(0, posix_spawn_file_actions_init(&actions));
	ASSERT_EQ(0, posix_spawn_file_actions_adddup2(&actions, CHANNEL_FD, CHANNEL_FD)); /* not closed on exec */
	ASSERT_EQ(0, posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	ASSERT_SYS(waitpid(child, &status, 0));
	return status;
}

/* An agent that SETUP has put apart. */
ROLE(first_process)
{
	ASSERT_EQ(1, getpid());
	role_agent(parent, 0, NULL);
}

/* In namespaces of its own, all that there are but the user's. */
ROLE(apart)
{
	ASSERT_SYS(unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS));
	ASSERT_EQ(0, run_role("first_process"));
	/* Without its children's namespace it can start nothing more: LeakSanitizer would try. Its name stays. */
	_exit(0);
}

/* As another user, who may look at nothing of ours. */
ROLE(other_user)
{
	unsigned user = (unsigned)atoi(argv[0]);

	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", argv[1], 1));
	ASSERT_SYS(setresgid(user, user, user));
	ASSERT_SYS(setresuid(user, user, user));
	/* A process that changes its user may not look into its own /proc any more, unless it says so. */
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1));
	role_agent(parent, 0, NULL);
}

/* ---- Between them ------------------------------------------------------------------------------------------------ */

/* Two agents, of which the first exports to the second: all that sharing is, and the end of either. */
static void share_between(struct peer *exporter, struct peer *importer)
{
	agent_must(exporter, (struct agent_order){.call = AGENT_CREATE, .bytes = POOL}, -1);
	agent_must(exporter, (struct agent_order){.call = AGENT_EXPORT}, -1);
	int descriptor = peer_receive_descriptor(exporter);
	agent_import(importer, 0, descriptor);
	close(descriptor);

	for (unsigned i = 0; i < 10; i++) {
		agent_take(importer, 0, agent_allocate(exporter, 0, BLOCK, 0x30 + i));
		ASSERT_EQ(0x30 + i, agent_byte(importer, 0, BLOCK - 1));
		agent_fill(importer, 0, 0x50 + i, 1);
		ASSERT_EQ(0x50 + i, agent_byte(exporter, 0, 0));
		agent_free(exporter, 0);
		agent_synchronize(exporter);
		ASSERT_EQ(0x30 + i, agent_byte(importer, 0, 1)); /* deferred */
		ASSERT_EQ(BLOCK, agent_must(exporter, (struct agent_order){.call = AGENT_USED}, -1).value);
		agent_free(importer, 0);
		while (agent_must(exporter, (struct agent_order){.call = AGENT_USED}, -1).value)
			sched_yield();
	}
}

static void end_both(struct peer *exporter, struct peer *importer)
{
	agent_destroy(importer, 0);
	agent_end(importer);
	agent_destroy(exporter, 0);
	agent_end(exporter);
}

/* The importer dies while it holds a block, and the exporter learns of it. */
static void importer_dies(struct peer *exporter, struct peer *importer)
{
	agent_take(importer, 0, agent_allocate(exporter, 0, BLOCK, 0x30));
	agent_free(exporter, 0);
	agent_synchronize(exporter);
	ASSERT_EQ(BLOCK, agent_must(exporter, (struct agent_order){.call = AGENT_USED}, -1).value);
	peer_kill(importer);
	while (agent_must(exporter, (struct agent_order){.call = AGENT_USED}, -1).value)
		sched_yield();
	agent_destroy(exporter, 0);
	agent_end(exporter);
}

static void need_root(void)
{
	if (geteuid() != 0)
		SKIP("only root may make namespaces and become another user");
	pid_t child = fork();
	int status;
	ASSERT_SYS(child);
	if (child == 0)
		_exit(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) ||
		      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		      setresuid(FIRST_USER, FIRST_USER, FIRST_USER));
	ASSERT_SYS(waitpid(child, &status, 0));
	if (status)
		SKIP("this root may not make namespaces, or not become another user");
}

/* On a GPU: does its driver start in other namespaces? */
static void need_namespaces(void)
{
	int status;

	need_root();
	if (!test_on_gpu())
		return;
	pid_t child = fork();
	ASSERT_SYS(child);
	if (child == 0) {
		if (setenv(TRY, "1", 1) || dup2(STDIN_FILENO, CHANNEL_FD) < 0 || /* nothing is said over it */
		    unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS))
			_exit(1);
		_exit(run_role("first_process") != 0);
	}
	ASSERT_SYS(waitpid(child, &status, 0));
	if (status)
		SKIP("the GPU's driver does not start in PID and IPC namespaces of its own");
}

/* Goal: an importer in other network, PID, mount, IPC and UTS namespaces than its exporter. */
TEST(importer_in_other_namespaces)
{
	need_namespaces();
	leaks_forgive_names(1); /* of who goes apart and ends */
	struct peer *exporter = peer_start("agent"), *importer = peer_start("apart");
	share_between(exporter, importer);
	end_both(exporter, importer);
}

/* Goal: the other way round. */
TEST(exporter_in_other_namespaces)
{
	need_namespaces();
	leaks_forgive_names(1); /* of who goes apart and ends */
	struct peer *exporter = peer_start("apart"), *importer = peer_start("agent");
	share_between(exporter, importer);
	end_both(exporter, importer);
}

/* Goal: each in namespaces of its own. */
TEST(both_in_namespaces_of_their_own)
{
	need_namespaces();
	leaks_forgive_names(2); /* of processes in namespaces of their own that end */
	struct peer *exporter = peer_start("apart"), *importer = peer_start("apart");
	share_between(exporter, importer);
	end_both(exporter, importer);
}

/* Goal: an importer in a PID namespace that its exporter does not see dies, and its blocks come back. */
TEST(importer_in_other_namespaces_dies)
{
	int status;

	need_namespaces();
	leaks_forgive_names(1);                       /* of who goes apart and ends */
	ASSERT_SYS(prctl(PR_SET_CHILD_SUBREAPER, 1)); /* what is killed inside becomes our child */
	struct peer *exporter = peer_start("apart"), *importer = peer_start("apart");
	share_between(exporter, importer);
	importer_dies(exporter, importer);
	while (waitpid(-1, &status, 0) > 0) /* unless its parent was faster */
		ASSERT_NE(0, status);
	ASSERT_EQ(ECHILD, errno);
}

/* A directory for a user's sockets. */
static void make_directory(unsigned user, char *ret_path, size_t room)
{
	snprintf(ret_path, room, "/tmp/cenote-test-%u-XXXXXX", user);
	ASSERT(mkdtemp(ret_path));
	ASSERT_SYS(chown(ret_path, user, user));
}

static struct peer *start_user(unsigned user, const char *directory)
{
	char number[16];

	snprintf(number, sizeof number, "%u", user);
	return peer_start("other_user", number, directory);
}

/*
 * Goal: two users share a pool by its descriptor, in either direction and with root, and one's death frees the
 * other's.
 */
TEST(between_two_users)
{
	char first[64], second[64];

	need_root();
	make_directory(FIRST_USER, first, sizeof first);
	make_directory(SECOND_USER, second, sizeof second);
	for (unsigned i = 0; i < 4; i++) {
		struct peer *exporter = i == 2 ? peer_start("agent") : start_user(FIRST_USER, first);
		struct peer *importer = i == 3 ? peer_start("agent") : start_user(SECOND_USER, second);
		share_between(exporter, importer);
		if (i == 1)
			importer_dies(exporter, importer);
		else
			end_both(exporter, importer);
	}
	ASSERT_SYS(rmdir(first)); /* no name is left in them */
	ASSERT_SYS(rmdir(second));
}
