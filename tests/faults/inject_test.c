/* SPDX-License-Identifier: MIT */
/*
 * Failure injection: in each way of sharing, every call from Cenote to the system is made to fail, one after another.
 *
 * Each public call then succeeds or fails with a code and a sentence; nothing is lost; and the same play in the same
 * processes, with nothing failing, works.
 */
#include "stage.h"

enum { AGAIN = 4 };

/* With a sanitizer each site fails once, not each step. */
static const bool each_step = HARNESS_SLOWDOWN == 1;

/* Returns which step failed; 0: none. */
static unsigned play_armed(struct stage *stage, enum who who, enum fault_mode mode, unsigned at, unsigned choice)
{
	struct fault_board *board = stage->players[who].board;

	for (unsigned i = 0; i < stage->player_count; i++) /* an unanswered request times out soon */
		atomic_store(&stage->players[i].board->hurry, HURRY);
	fault_arm(board, mode, at, choice);
	stage_play(stage, false);
	stage_recover(stage);
	return atomic_load(&board->hit);
}

/*
 * What a play and a check leave when nothing fails: nothing, except on the cuda device. It remembers the handles of a
 * stream and an event that each process has destroyed in each of the two, until the driver gives them out again. The
 * tests' driver never does.
 */
static int64_t usual_growth(const struct stage *stage)
{
	return test_on_gpu() ? 2 * 2 * (int64_t)stage->player_count : 0;
}

/* Play again: what the library keeps in store it keeps once, and what it leaks it leaks each time. */
static void play_again(struct stage *stage, enum who who, unsigned at, unsigned choice, int64_t usual)
{
	int64_t before = 0;

	for (unsigned i = 0; i < AGAIN; i++) {
		before = stage_allocations(stage);
		play_armed(stage, who, FAULT_FAIL, at, choice);
		stage_check(stage);
		if (stage_allocations(stage) - before <= usual)
			return;
	}
	FAIL("memory is lost each time that step %u fails: %jd pieces, where %jd are usual", at,
	     (intmax_t)(stage_allocations(stage) - before), (intmax_t)usual);
}

/*
 * One step after another fails, from the first on, until none is left; then the sites that others hid. Then two fail in
 * one play: what is called only after a failure fails as well.
 */
static void walk(struct stage *stage, enum who who, unsigned round)
{
	int64_t usual = usual_growth(stage);
	unsigned hit = 0;

	do {
		int64_t before = stage_allocations(stage);
		unsigned at = hit + 1;
		hit = play_armed(stage, who, FAULT_FAIL, at, round);
		stage_check(stage);
		if (hit && stage_allocations(stage) - before > usual)
			play_again(stage, who, at, round, usual);
		round++;
	} while (hit && each_step);
	do {
		hit = play_armed(stage, who, FAULT_FAIL_NEW, 1, round++);
		stage_check(stage);
	} while (hit);
	do {
		hit = play_armed(stage, who, FAULT_FAIL_THEN_NEW, hit + 1, round++);
		stage_check(stage);
	} while (hit && each_step);
}

static void walk_both(const char *name)
{
	const struct scenario *scenario = stage_scenario(name);
	struct stage stage;

	stage_open(&stage, 2);
	stage_warm_up(&stage, scenario);
	for (unsigned long i = 0; soak_goes_on(i, 1); i++) { /* each time with other errors */
		walk(&stage, EXPORTER, (unsigned)i);
		walk(&stage, IMPORTER, (unsigned)i);
	}
	stage_close(&stage);
}

#define WALK(name, text)                               \
	TEST(name, .timeout_ms = 120000, .soak = true) \
	{                                              \
		walk_both(text);                       \
	}

/* Goal: sharing again, in processes that have shared before, survives the failure of any step. */
WALK(pool, "pool")
WALK(event, "event")
WALK(memory, "memory")
WALK(legacy, "legacy")
WALK(fabric_memory, "fabric memory")
WALK(fabric_pool, "fabric pool")
WALK(letters, "letters")
WALK(inquiry, "inquiry")

/* From the first call on: what is made once in a process fails too, and is made when it is next needed. */
static void walk_cold(struct stage *stage, enum who who)
{
	struct fault_board *board = stage->players[who].board;
	unsigned rounds = 0, hit;

	do {
		stage_end(stage, who);
		fault_arm(board, FAULT_FAIL_NEW, 1, rounds++); /* the next process begins with it */
		stage_start(stage, who);
		if (stage_order(stage, who, ACTION_START, false))
			stage_order(stage, who, ACTION_START, true);
		stage_play(stage, false);
		stage_recover(stage);
		hit = atomic_load(&board->hit);
		stage_check(stage);
	} while (hit);
}

/* Goal: a process survives the failure of any step from its first call on; each site once. */
TEST(first_use, .timeout_ms = 120000)
{
	struct stage stage;

	stage_open(&stage, 2);
	for (unsigned i = 0; i < scenario_count; i++) {
		if (scenarios[i].host && test_on_gpu())
			continue;
		stage_warm_up(&stage, &scenarios[i]);
		walk_cold(&stage, EXPORTER);
		walk_cold(&stage, IMPORTER);
	}
	stage_close(&stage);
}
