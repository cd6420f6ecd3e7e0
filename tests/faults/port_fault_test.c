/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a process that has another's events open, when that process cannot answer it.
 *
 * The creator of an event tells the others of a recorder's death. So it must learn of every death, also that of a
 * process to which it has no connection any more.
 */
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* The indices of sendmsg's errors in seam.inc. */
enum { NO_MEMORY = 0, NO_ROOM = 1 };

static void do_line(struct stage *stage, enum who who, enum action action, unsigned index, unsigned slot)
{
	stage_line(stage, &(struct line){who, action, .index = index, .slot = slot}, true);
}

/* Two events of the exporter; the others have opened the first. */
static void make_events(struct stage *stage)
{
	for (unsigned i = 0; i < ACTORS; i++)
		do_line(stage, (enum who)i, ACTION_STREAM, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		do_line(stage, EXPORTER, ACTION_EVENT_CREATE, i, 0);
		do_line(stage, EXPORTER, ACTION_EVENT_HANDLE, i, i);
	}
	do_line(stage, IMPORTER, ACTION_EVENT_OPEN, 0, 0);
	do_line(stage, BYSTANDER, ACTION_EVENT_OPEN, 0, 0);
}

/* The importer's record waits until the gate is opened: *ret_gate is closed. */
static void record_behind_gate(struct stage *stage, int *ret_gate)
{
	int ends[2];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	stage->descriptors[2] = ends[0];
	do_line(stage, IMPORTER, ACTION_GATE, 0, 2);
	do_line(stage, IMPORTER, ACTION_EVENT_RECORD, 0, 0);
	*ret_gate = ends[1];
}

/* In both directions: neither takes the other for dead. */
static void use_first_event(struct stage *stage)
{
	int gate;

	record_behind_gate(stage, &gate);
	do_line(stage, EXPORTER, ACTION_EVENT_ENQUEUE, 0, 0);
	do_line(stage, BYSTANDER, ACTION_EVENT_ENQUEUE, 0, 0);
	close(gate);
	do_line(stage, EXPORTER, ACTION_SYNC, 0, 0);
	do_line(stage, BYSTANDER, ACTION_SYNC, 0, 0);
	do_line(stage, EXPORTER, ACTION_EVENT_RECORD, 0, 0);
	do_line(stage, IMPORTER, ACTION_EVENT_WAIT, 0, 0);
}

static void set_stage(struct stage *stage)
{
	stage_open(stage, 3);
	stage_warm_up(stage, stage_scenario("event"));
	/* Once without a failure: a thread that waits for others is started when it is first needed, and stays. */
	make_events(stage);
	use_first_event(stage);
	stage_recover(stage);
	for (unsigned i = 0; i < ACTORS; i++)
		stage_order(stage, (enum who)i, ACTION_REMEMBER, true);
	make_events(stage);
}

/* The importer asks for the second event, and the exporter cannot send the answer. */
static CUresult ask_in_vain(struct stage *stage, unsigned error)
{
	struct fault_board *board = stage->players[EXPORTER].board;

	fault_arm(board, FAULT_FAIL, 1, error);
	atomic_store(&board->only, fault_call("sendmsg"));
	CUresult result = stage_line(stage, &(struct line){IMPORTER, ACTION_EVENT_OPEN, .index = 1, .slot = 1}, false);
	fault_disarm(board);
	ASSERT_NE(0, atomic_load(&board->hit));
	return result;
}

static void leave_stage(struct stage *stage)
{
	stage_recover(stage);
	stage_check(stage);
	stage_close(stage);
}

/* Goal: a process that was sent away lives on; when it dies with a record pending, those that wait for it are told. */
TEST(one_who_was_sent_away_is_heard_of_when_it_dies)
{
	struct line sync_line = {BYSTANDER, ACTION_SYNC};
	struct stage stage;
	int gate;

	set_stage(&stage);
	ask_in_vain(&stage, NO_ROOM);
	record_behind_gate(&stage, &gate);
	do_line(&stage, BYSTANDER, ACTION_EVENT_ENQUEUE, 0, 0);
	stage.victim = IMPORTER;
	stage.shot_signal = SIGKILL;
	stage_shoot(&stage, SIGKILL);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, stage_line(&stage, &sync_line, false));
	close(gate);
	leave_stage(&stage);
}

/* Goal: … and while it lives, its records are waited for, not taken for lost. */
TEST(one_who_was_sent_away_is_waited_for)
{
	struct stage stage;
	int gate;

	set_stage(&stage);
	record_behind_gate(&stage, &gate);
	ask_in_vain(&stage, NO_ROOM);
	do_line(&stage, BYSTANDER, ACTION_EVENT_ENQUEUE, 0, 0);
	close(gate);
	do_line(&stage, BYSTANDER, ACTION_SYNC, 0, 0);
	stage_recover(&stage);
	stage_end(&stage, IMPORTER); /* until then the exporter keeps what it had open */
	stage_start(&stage, IMPORTER);
	stage_order(&stage, IMPORTER, ACTION_START, true);
	leave_stage(&stage);
}

/* Goal: an answer for which the creator had no memory is an error for the asker, and ends nothing else. */
TEST(an_answer_that_could_not_be_sent_is_an_error)
{
	struct stage stage;

	set_stage(&stage);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, ask_in_vain(&stage, NO_MEMORY));
	use_first_event(&stage);
	do_line(&stage, IMPORTER, ACTION_EVENT_OPEN, 1, 1);
	leave_stage(&stage);
}

/* Goal: a process that cannot open another descriptor does not get the event, and keeps what it has. */
TEST(an_answer_whose_descriptor_is_lost_is_an_error)
{
	struct line limit = {IMPORTER, ACTION_LIMIT, .value = 1}, open = {IMPORTER, ACTION_EVENT_OPEN, 1, .slot = 1};
	struct stage stage;

	set_stage(&stage);
	stage_line(&stage, &limit, true);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, stage_line(&stage, &open, false));
	limit.value = 0;
	stage_line(&stage, &limit, true);
	use_first_event(&stage);
	stage_line(&stage, &open, true);
	leave_stage(&stage);
}
