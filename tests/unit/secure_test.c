/* SPDX-License-Identifier: MIT */
/*
 * Programs that run with more rights than who starts them: nobody else's environment tells them anything.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLER = 64129, OWNER = 64130 };

static char place[64]; /* a folder of OWNER's that CALLER may enter */

/* A copy of the subject, which stands beside this program, as OWNER's. A descriptor: paths may be closed to others. */
static int copy_subject(mode_t mode)
{
	char from[4096], to[128], bytes[65536];
	ssize_t length = readlink("/proc/self/exe", from, sizeof from - 64), got;

	ASSERT_SYS(length);
	from[length] = 0;
	snprintf(strrchr(from, '/') + 1, 64, "secure_subject");
	snprintf(to, sizeof to, "%s/subject", place);
	int source = open(from, O_RDONLY | O_CLOEXEC);
	int copy = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	ASSERT_SYS(source);
	ASSERT_SYS(copy);
	while ((got = read(source, bytes, sizeof bytes)) > 0)
		ASSERT_EQ(got, write(copy, bytes, (size_t)got));
	ASSERT_EQ(0, got);
	ASSERT_SYS(fchown(copy, OWNER, OWNER));
	ASSERT_SYS(fchmod(copy, mode));
	close(source);
	close(copy);
	int program = open(to, O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(program);
	ASSERT_SYS(unlink(to));
	return program;
}

/* What the subject says, run by a user, with variables that name `directory` and three devices. */
static void run_subject(int program, uid_t user, char *directory, char ret_text[256])
{
	char runtime[128], name[] = "secure_subject", device[] = "CENOTE_DEVICE=host",
			   three[] = "CENOTE_HOST_DEVICES=3";
	int ends[2], status;

	snprintf(runtime, sizeof runtime, "CENOTE_RUNTIME_DIR=%s", directory);
	char *arguments[] = {name, directory, NULL};
	char *environment[] = {device, three, runtime, NULL};
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	pid_t child = fork();
	ASSERT_SYS(child);
	if (!child) {
		if (dup2(ends[1], STDOUT_FILENO) < 0 || setgid(user) || setuid(user))
			_exit(3);
		fexecve(program, arguments, environment);
		_exit(4);
	}
	close(ends[1]);
	ssize_t got = read(ends[0], ret_text, 255);
	ASSERT_SYS(got);
	ret_text[got] = 0;
	close(ends[0]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
}

/* Goal: a set-user-ID program reads no variable of who starts it; the same program without the bit does. */
TEST(a_program_with_more_rights_does_not_listen)
{
	char directory[128], text[256], own[64];

	if (geteuid())
		SKIP("only root can make a program that is another user's");
	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer wants an environment of its own");
	snprintf(place, sizeof place, "/tmp/cenote-secure-XXXXXX");
	ASSERT(mkdtemp(place));
	ASSERT_SYS(chmod(place, 0711));
	snprintf(directory, sizeof directory, "%s/names", place);
	ASSERT_SYS(mkdir(directory, 0700));
	ASSERT_SYS(chown(directory, OWNER, OWNER));

	int program = copy_subject(0755);
	run_subject(program, OWNER, directory, text);
	ASSERT_CONTAINS("secure 0 devices 3 names ", text);
	ASSERT(!strstr(text, "names 0"));
	close(program);
	program = copy_subject(04755);
	run_subject(program, CALLER, directory, text);
	close(program);
	ASSERT_SYS(rmdir(directory)); /* it is empty again */
	ASSERT_SYS(rmdir(place));
	snprintf(own, sizeof own, "/tmp/cenote-%d", OWNER); /* where the names have stood instead */
	rmdir(own);
	if (strstr(text, "secure 0"))
		SKIP("the system does not honour set-user-ID programs in /tmp");
	ASSERT_STREQ("secure 1 devices 1 names 0\n", text);
}
