/* SPDX-License-Identifier: MIT */
/*
 * The stage: scenarios in which an exporter and an importer, and in some tests a bystander, share in each way.
 *
 * A scenario is a list of lines, each an action of one of them. In a strict play each line must succeed. In a free play
 * something is made to go wrong: a line may fail, but with a code and a sentence, and must not take for ever. An actor
 * leaves out a line for which it has nothing, since an earlier one failed. After a free play stage_recover() continues
 * stopped actors, replaces killed ones, and has all of them give back what is left.
 */
#ifndef CENOTE_TESTS_STAGE_H
#define CENOTE_TESTS_STAGE_H

#include "actor.h"
#include "harness.h"

enum who { EXPORTER, IMPORTER, BYSTANDER, ACTORS };

enum { STAGE_SLOTS = 3, HURRY = 50 };

struct line {
	enum who who;
	enum action action;
	unsigned index; /* of the block */
	unsigned slot;  /* of the bytes or the descriptor that it makes or takes */
	uint64_t value;
};

struct scenario {
	const char *name;
	bool letters; /* the exporter and the importer have a socket between them */
	bool host;    /* for the host device alone: elsewhere it is the driver's */
	const struct line *lines;
	unsigned line_count;
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

/* By its name; skips the test where it cannot be played. */
const struct scenario *stage_scenario(const char *name);

struct player {
	struct peer *peer;
	struct fault_board *board;
	int board_fd, sock, process_fd, alarm;
	bool dead, stopped, owes_answer;
	bool was_stopped;   /* by the seam, since it was last armed */
	enum action action; /* the last order */
	int64_t allocations;
};

struct stage {
	const struct scenario *scenario;
	struct fault_sites *sites;
	int sites_fd;
	struct player players[ACTORS];
	unsigned player_count;
	enum who victim; /* the actor that may be killed or stopped; ACTORS: none */
	unsigned char bytes[STAGE_SLOTS][ACTOR_BYTES];
	bool have_bytes[STAGE_SLOTS];
	int descriptors[STAGE_SLOTS];
	bool spoiled;               /* what is to be read has not been written */
	unsigned long failed_count; /* lines that failed in free plays, with a sentence, */
	unsigned long failed_here;  /* … and in this one */
	/* Kill or stop the victim by hand, so long after this line was ordered; signal 0: do not. */
	unsigned shot_line;
	uint64_t shot_ns;
	int shot_signal;
	bool shot;
	enum who last_victim; /* the last such victim, for a failure's text */
	int last_signal;
};

/* Start two actors or three; CUDA is not started in them yet. */
void stage_open(struct stage *stage, unsigned player_count);
/* Start CUDA and play the scenario a few times; what each actor has then is what it may have. */
void stage_warm_up(struct stage *stage, const struct scenario *scenario);
/* End all actors. Prints what was hit, with --verbose. */
void stage_close(struct stage *stage);

void stage_start(struct stage *stage, enum who who); /* an actor in place of one that has ended */
void stage_end(struct stage *stage, enum who who);   /* in the regular way */

void stage_play(struct stage *stage, bool strict);
void stage_recover(struct stage *stage);
/* Play strictly once more; then no actor may have more than allowed, and only live processes have names. */
void stage_check(struct stage *stage);

/* One order, whose answer must come; in a free play its failure is an answer too. */
CUresult stage_order(struct stage *stage, enum who who, enum action action, bool strict);
/* A line that is in no scenario: its order, and its answer. CUDA_ERROR_UNKNOWN: the actor has died. */
void stage_send(struct stage *stage, const struct line *line);
CUresult stage_finish(struct stage *stage, const struct line *line, bool strict);
CUresult stage_line(struct stage *stage, const struct line *line, bool strict);
/* Send the victim a signal, now; stage_recover() deals with the effect if `shot_signal` says the same. */
void stage_shoot(struct stage *stage, int signal_number);
/* Allocations that the library has not freed, in all actors together. */
int64_t stage_allocations(const struct stage *stage);

#endif
