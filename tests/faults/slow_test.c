/* SPDX-License-Identifier: MIT */
/*
 * Slowness: a call from the exporter's service thread to the system takes as long as the test likes, as with a peer's
 * descriptor, a crowded machine or a full disk.
 *
 * Meanwhile the program, and an importer that has the pool's memory already, go on: they allocate, export, import, read
 * and free. Each call of the list is held at each place in turn. Two things still wait for the service thread, and are
 * not tried: a fork (`gate` in base/fork.c), and the free of an exported block while the service thread asks whether an
 * importer that holds a deferred block is alive (cn_importer_is_gone() under the export's lock).
 */
#include "stage.h"

#include <poll.h>

static const char *const calls[] = {
	"accept4", "close",  "epoll_ctl", "fcntl64", "fstat64", "fstatfs64", "getsockopt", "madvise",
	"mmap64",  "munmap", "open64",    "poll",    "recvmsg", "sendmsg",   "write",
};

static void do_line(struct stage *stage, enum who who, enum action action, unsigned index, unsigned slot)
{
	stage_line(stage, &(struct line){who, action, .index = index, .slot = slot}, true);
}

/* A pool with a block that the importer has; the bystander can have it, or has it and the exporter has freed it. */
static void set_scene(struct stage *stage, bool deferred)
{
	for (unsigned i = 0; i < ACTORS; i++)
		do_line(stage, (enum who)i, ACTION_STREAM, 0, 0);
	stage_line(stage, &(struct line){EXPORTER, ACTION_POOL_CREATE, .value = 1 /* by descriptor */}, true);
	do_line(stage, EXPORTER, ACTION_POOL_EXPORT, 0, 0);
	do_line(stage, EXPORTER, ACTION_BLOCK_ALLOCATE, 0, 0);
	do_line(stage, EXPORTER, ACTION_BLOCK_NAME, 0, 0);
	do_line(stage, IMPORTER, ACTION_POOL_IMPORT, 0, 0);
	do_line(stage, IMPORTER, ACTION_BLOCK_TAKE, 0, 0);
	do_line(stage, BYSTANDER, ACTION_POOL_IMPORT, 0, 0);
	if (deferred) {
		do_line(stage, BYSTANDER, ACTION_BLOCK_TAKE, 0, 0);
		do_line(stage, EXPORTER, ACTION_BLOCK_FREE, 0, 0);
		do_line(stage, EXPORTER, ACTION_SYNC, 0, 0);
	}
}

/* Have the bystander do something. True: the exporter's service thread is held, and the answer is still to come. */
static bool is_held_by(struct stage *stage, const struct line *line)
{
	const struct player *exporter = &stage->players[EXPORTER];
	struct pollfd wanted[] = {{.fd = exporter->alarm, .events = POLLIN},
				  {.fd = stage->players[line->who].sock, .events = POLLIN}};
	char byte;

	stage_send(stage, line);
	ASSERT_LE(1, poll(wanted, 2, -1));
	if (!wanted[0].revents) {
		stage_finish(stage, line, true);
		return false;
	}
	ASSERT_EQ(1, read(exporter->alarm, &byte, 1));
	return true;
}

/* What keeps the exporter's service thread busy: a process comes, goes, and asks which processes are there. */
static const struct line busy_lines[] = {
	{BYSTANDER, ACTION_BLOCK_TAKE},   {BYSTANDER, ACTION_BLOCK_FREE}, {BYSTANDER, ACTION_SYNC},
	{BYSTANDER, ACTION_POOL_DESTROY}, {BYSTANDER, ACTION_SURVEY},     {BYSTANDER, ACTION_SURVEY},
};
enum { BUSY_LINES = sizeof busy_lines / sizeof busy_lines[0] };

/* The line at which it was held; NULL: the call is not made so late. */
static const struct line *hold(struct stage *stage, unsigned call, unsigned at, bool deferred)
{
	struct fault_board *board = stage->players[EXPORTER].board;
	unsigned i = deferred;

	fault_arm(board, FAULT_HOLD, at, 0);
	atomic_store(&board->only, call);
	while (i < BUSY_LINES && !is_held_by(stage, &busy_lines[i]))
		i++;
	return i < BUSY_LINES ? &busy_lines[i] : NULL;
}

/* The program, and an importer that has the memory, do not notice. */
static void go_on(struct stage *stage)
{
	do_line(stage, EXPORTER, ACTION_BLOCK_ALLOCATE, 1, 0);
	do_line(stage, EXPORTER, ACTION_BLOCK_NAME, 1, 1);
	do_line(stage, IMPORTER, ACTION_BLOCK_TAKE, 1, 1);
	do_line(stage, IMPORTER, ACTION_BLOCK_READ, 1, 1);
	do_line(stage, IMPORTER, ACTION_BLOCK_FREE, 1, 1);
	do_line(stage, IMPORTER, ACTION_SYNC, 0, 0);
	do_line(stage, EXPORTER, ACTION_BLOCK_FREE, 1, 0);
	do_line(stage, EXPORTER, ACTION_SYNC, 0, 0);
}

/* The step at which the call was held; 0: at none from this one on. */
static unsigned try_call(struct stage *stage, const char *name, unsigned at, bool deferred)
{
	struct player *exporter = &stage->players[EXPORTER];

	set_scene(stage, deferred);
	const struct line *line = hold(stage, fault_call(name), at, deferred);
	unsigned hit = atomic_load(&exporter->board->hit);
	if (line)
		go_on(stage);
	fault_release(exporter->board);
	if (line)
		stage_finish(stage, line, false);
	stage_recover(stage);
	char byte;
	struct pollfd late = {.fd = exporter->alarm, .events = POLLIN};
	if (poll(&late, 1, 0) == 1) /* it was held after all, too late for hold() to see */
		ASSERT_EQ(1, read(exporter->alarm, &byte, 1));
	return line ? hit : 0;
}

/*
 * By this call the system is asked whether an importer that holds a deferred block is alive, under the export's lock.
 * It does not wait: its time limit is 0.
 */
static bool is_under_lock(const char *name)
{
	return !strcmp(name, "poll");
}

/* Goal: only a caller that needs an answer from the service thread waits for it. */
TEST(the_program_goes_on_while_the_service_thread_stands_still, .timeout_ms = 240000)
{
	unsigned held_count = 0, called_count = 0;
	struct stage stage;

	stage_open(&stage, 3);
	stage_warm_up(&stage, stage_scenario("pool"));
	for (unsigned i = 0; i < 2 * sizeof calls / sizeof calls[0]; i++) {
		const char *name = calls[i / 2];
		unsigned at = 1, here = 0;
		ASSERT_NE(0, fault_call(name));
		if (i % 2 && is_under_lock(name))
			continue;
		for (unsigned hit; (hit = try_call(&stage, name, at, i % 2)); at = hit + 1)
			here++;
		printf("%s: held %u times\n", name, here);
		held_count += here;
		called_count += here != 0;
	}
	ASSERT_GE(called_count, 8);
	ASSERT_GE(held_count, 20);
	stage_check(&stage);
	stage_close(&stage);
}

/* Goal: a process ends even if its service thread does not return from a call. */
TEST(a_process_ends_while_its_service_thread_stands_still)
{
	struct stage stage;

	stage_open(&stage, 3);
	stage_warm_up(&stage, stage_scenario("pool"));
	set_scene(&stage, false);
	const struct line *line = hold(&stage, fault_call("close"), 1, false);
	ASSERT(line);
	go_on(&stage);
	stage_end(&stage, EXPORTER);
	stage_finish(&stage, line, false);
	fault_release(stage.players[EXPORTER].board);
	stage_start(&stage, EXPORTER);
	stage_order(&stage, EXPORTER, ACTION_START, true);
	stage_recover(&stage);
	stage_check(&stage);
	stage_close(&stage);
}
