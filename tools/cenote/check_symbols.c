/* SPDX-License-Identifier: MIT */
/*
 * cenote check: frames as functions and lines of source.
 *
 * addr2line of binutils reads the debugging information; where it is missing, a frame is its file and an offset in it.
 * What was asked once is kept.
 */
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct check_table known; /* digest of the path and offset: struct check_frame */

void check_symbols_free(void)
{
	check_table_clear(&known, free);
}

/* The last part of a path. */
static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A name that fits, with its end rather than its beginning. */
static void put_name(char to[CHECK_NAME_BYTES], const char *name)
{
	size_t length = strlen(name);

	if (length >= CHECK_NAME_BYTES) {
		name += length - CHECK_NAME_BYTES + 1;
		length = CHECK_NAME_BYTES - 1;
	}
	memcpy(to, name, length + 1);
}

/* What addr2line prints of an address: the function's name and file:line, a line each. */
static bool ask(const char *path, uint64_t offset, char *answer, size_t bytes)
{
	char address[32];
	int ends[2];
	size_t length = 0;

	snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
	if (pipe2(ends, O_CLOEXEC))
		return false;
	pid_t child = fork();
	if (child == 0) {
		int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(nothing, STDIN_FILENO);
		dup2(nothing, STDERR_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		unsetenv("LD_PRELOAD");
		unsetenv("LD_AUDIT");
		execlp("addr2line", "addr2line", "-f", "-C", "-e", path, address, (char *)NULL);
		_exit(EXIT_FAILURE);
	}
	close(ends[1]);
	for (ssize_t got;
	     child > 0 && length + 1 < bytes && (got = read(ends[0], answer + length, bytes - 1 - length)) > 0;)
		length += (size_t)got;
	answer[length] = 0;
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return length > 0;
}

static void look_up(const char *path, uint64_t offset, struct check_frame *frame)
{
	char answer[2048], place[CHECK_NAME_BYTES + 24];

	snprintf(place, sizeof place, "%.64s+0x%llx", base_of(path), (unsigned long long)offset);
	put_name(frame->place, place);
	/* A return address is behind the call. */
	if (!ask(path, offset ? offset - 1 : 0, answer, sizeof answer))
		return;
	char *line = strchr(answer, '\n');
	if (!line)
		return;
	*line++ = 0;
	line[strcspn(line, " \n")] = 0;
	if (strcmp(answer, "??") != 0)
		put_name(frame->function, answer);
	const char *number = strrchr(line, ':');
	if (*line != '?' && number && number[1] != '?' && number[1] != '0')
		put_name(frame->place, base_of(line));
}

static bool is_ours(const char *path)
{
	const char *name = base_of(path);

	return strncmp(name, "libcenote", strlen("libcenote")) == 0 || strncmp(name, "libcuda", strlen("libcuda")) == 0;
}

int check_frames(const struct check *check, const struct check_site *site, struct check_frame frames[CN_TRACE_FRAMES])
{
	const struct check_process *process = check->processes[site->process];
	const struct check_stack *stack = check_table_get(&process->stacks, site->stack, 0);

	for (int i = 0; stack && i < stack->count; i++) {
		uint64_t offset = stack->frames[i] & ((1ull << CN_TRACE_NUMBER_SHIFT) - 1), digest = 1;
		const char *path = check_table_get(&process->modules, stack->frames[i] >> CN_TRACE_NUMBER_SHIFT, 0);
		path = path ? path : "?";
		for (const char *at = path; *at; at++)
			digest = (digest ^ (unsigned char)*at) * 0x100000001b3u;
		struct check_frame *frame = check_table_get(&known, digest, offset);
		if (!frame) {
			frame = check_allocate(sizeof *frame);
			frame->is_ours = is_ours(path);
			look_up(path, offset, frame);
			check_table_put(&known, digest, offset, frame);
		}
		frames[i] = *frame;
	}
	return stack ? stack->count : 0;
}

void check_place(const struct check *check, const struct check_site *site, char name[CHECK_NAME_BYTES])
{
	struct check_frame frames[CN_TRACE_FRAMES];
	int count = site->call == CN_CALL_COUNT ? 0 : check_frames(check, site, frames);

	*name = 0;
	for (int i = 0; i < count; i++) {
		if (frames[i].is_ours)
			continue;
		memcpy(name, frames[i].place, CHECK_NAME_BYTES);
		return;
	}
}
