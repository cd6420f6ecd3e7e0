/* SPDX-License-Identifier: MIT */
/*
 * Kills: an exporter, an importer or a bystander is killed or stopped at each step of what it does with others, and at
 * random instants.
 *
 * The others go on in a bounded time: what needs a dead or stopped process fails with a sentence, everything else
 * succeeds, and each process can read what it has. A wait for an event lasts as long as its recorder is stopped. What
 * the dead process had is given back, the next process takes its place, and no process has more than before.
 */
#include "stage.h"

#include <signal.h>

/* In an ordinary run each victim of each scenario has so many turns, in each of these ways. */
enum { RANDOM_TURNS = 1, WARM_TURNS = 2, COLD_TURNS = 3, TURNS = RANDOM_TURNS + WARM_TURNS + COLD_TURNS };

static const enum fault_mode modes[] = {FAULT_KILL_BEFORE, FAULT_STOP_AFTER, FAULT_KILL_AFTER, FAULT_STOP_BEFORE};
enum { MODES = sizeof modes / sizeof modes[0] };

/* If the exporter does not answer, the others must not wait for long. */
static void hurry_others(struct stage *stage, bool stops)
{
	for (unsigned i = 0; i < stage->player_count; i++)
		if (stops && stage->victim == EXPORTER && i != EXPORTER)
			atomic_store(&stage->players[i].board->hurry, HURRY);
}

/* A process that has shared before; or, cold, a new one, from its first call on. */
static void play_armed(struct stage *stage, enum who victim, enum fault_mode mode, unsigned at, bool cold)
{
	struct fault_board *board = stage->players[victim].board;

	if (cold)
		stage_end(stage, victim);
	fault_arm(board, mode, at, 0);
	if (cold) {
		stage_start(stage, victim);
		stage_line(stage, &(struct line){victim, ACTION_START}, false);
	}
	stage_play(stage, false);
	stage_recover(stage);
}

static void play_to_step(struct stage *stage, enum who victim, enum fault_mode mode, unsigned at, bool cold)
{
	stage->victim = victim;
	hurry_others(stage, mode == FAULT_STOP_BEFORE || mode == FAULT_STOP_AFTER);
	play_armed(stage, victim, mode, at, cold);
	stage_check(stage);
}

static void play_to_instant(struct stage *stage, enum who victim, struct test_random *random)
{
	enum { LATEST_NS = 300000 };

	stage->victim = victim;
	stage->shot_line = (unsigned)test_random_below(random, stage->scenario->line_count);
	stage->shot_ns = test_random_below(random, LATEST_NS);
	stage->shot_signal = test_random_below(random, 2) ? SIGKILL : SIGSTOP;
	hurry_others(stage, stage->shot_signal == SIGSTOP);
	stage_play(stage, false);
	stage_recover(stage);
	stage_check(stage);
}

/* How many steps a process makes in an undisturbed play. */
static unsigned count_steps(struct stage *stage, enum who who, bool cold)
{
	play_armed(stage, who, FAULT_COUNT, 0, cold);
	return atomic_load(&stage->players[who].board->step);
}

/* A turn of each victim after the other: the seed chooses an order of steps that reaches all of them. */
static void play_turn(struct stage *stage, enum who victim, unsigned long turn, const unsigned steps[2],
		      struct test_random *random)
{
	unsigned long way = turn % TURNS;
	bool cold = way >= RANDOM_TURNS + WARM_TURNS;
	uint64_t number =
		test_seed() % 1000003 + turn * 7919; /* a prime: most numbers have no common divisor with it */

	if (way < RANDOM_TURNS)
		play_to_instant(stage, victim, random);
	else
		play_to_step(stage, victim, modes[(turn / TURNS + way) % MODES], 1 + (unsigned)(number % steps[cold]),
			     cold);
}

static void play_all(const char *name)
{
	struct test_random random = test_random_start(1);
	const struct scenario *scenario = stage_scenario(name);
	unsigned player_count = scenario->letters ? 2 : 3, steps[ACTORS][2];
	struct stage stage;
	unsigned long round;

	stage_open(&stage, player_count);
	stage_warm_up(&stage, scenario);
	for (unsigned i = 0; i < 2 * player_count; i++)
		steps[i / 2][i % 2] = count_steps(&stage, (enum who)(i / 2), i % 2);
	for (round = 0; soak_goes_on(round, player_count * TURNS); round++) {
		unsigned victim = (unsigned)(round % player_count);
		play_turn(&stage, (enum who)victim, round / player_count, steps[victim], &random);
	}
	printf("%lu rounds\n", round);
	for (unsigned i = 0; i < player_count; i++)
		printf("%u steps, %u from the first call on\n", steps[i][0], steps[i][1]);
	stage_close(&stage);
}

#define KILLS(name, text)                              \
	TEST(name, .timeout_ms = 120000, .soak = true) \
	{                                              \
		play_all(text);                        \
	}

KILLS(pool, "pool")
KILLS(event, "event")
KILLS(memory, "memory")
KILLS(legacy, "legacy")
KILLS(fabric_memory, "fabric memory")
KILLS(fabric_pool, "fabric pool")
KILLS(letters, "letters")
KILLS(inquiry, "inquiry")
