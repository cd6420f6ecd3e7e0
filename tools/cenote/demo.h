/* SPDX-License-Identifier: MIT */
/*
 * cenote demo: two processes share a pool, and what they did is drawn.
 *
 * The command starts an exporter and an importer (demo_exporter.c, demo_importer.c), which report each thing that they
 * have done: a moment, with its time. The command kills the importer when the exporter asks for that. When both have
 * ended, it draws all moments, in the order of their times (demo_text.c, demo_svg.c). Nothing is drawn that was not
 * reported, and nothing is reported that was not done; a process that finds something unexpected says so and ends, and
 * then nothing is drawn.
 */
#ifndef CENOTE_TOOLS_DEMO_H
#define CENOTE_TOOLS_DEMO_H

#include <stdbool.h>
#include <stdint.h>

enum { MOMENTS_MAX = 64, TEXT_BYTES = 160 };

enum who { EXPORTER, IMPORTER, WHO_COUNT };

enum chapter { CHAPTER_POOL, CHAPTER_ORDER, CHAPTER_EARLY, CHAPTER_KILLED, CHAPTER_COUNT };

/* Something on its way from one process to the other: a message, or an event that a stream waits for. */
enum arrow {
	ARROW_NONE,
	ARROW_POOL,
	ARROW_A,
	ARROW_A_USED,
	ARROW_READY,
	ARROW_FINISHED,
	ARROW_B,
	ARROW_B_HELD,
	ARROW_B_READ,
	ARROW_B_FREED,
	ARROW_C,
	ARROW_C_HELD,
	ARROW_COUNT,
};

static inline bool arrow_is_event(enum arrow arrow)
{
	return arrow == ARROW_READY || arrow == ARROW_FINISHED;
}

enum tone { TONE_PLAIN, TONE_CAUTION, TONE_GOOD, TONE_KILLED };

/* Does the process have a block, as far as it knows? DEFERRED: freed, and the pool does not have it back yet. */
enum hold { HOLD_AS_BEFORE, HOLD_NONE, HOLD_BLOCK, HOLD_DEFERRED };

/* What travels to the command: less than a pipe writes in one piece. */
struct moment {
	int64_t time_ns; /* CLOCK_MONOTONIC */
	enum who who;
	enum chapter chapter;
	enum tone tone;
	enum hold hold; /* from now on */
	bool in_stream; /* done by its stream, in its turn, and not by the program */
	bool kill;      /* for the command alone: kill the importer now */
	enum arrow sends, receives;
	char text[TEXT_BYTES];
};

struct demo {
	char device[TEXT_BYTES];
	int pid[WHO_COUNT];
	struct moment moments[MOMENTS_MAX]; /* in the order of their times, which begin at 0 */
	int moment_count;
};

extern const char *const demo_chapters[CHAPTER_COUNT];
extern const char *const demo_names[WHO_COUNT];

/* ---- The two processes. These end their process. `record` takes moments, `sock` leads to the other process. ---- */

_Noreturn void demo_exporter(int record, int sock);
_Noreturn void demo_importer(int record, int sock);

/* What the exporter fills its blocks with, and the importer finds there. */
enum { VALUE_A = 42, VALUE_B = 7, VALUE_C = 3, VALUE_OTHERS = 99 };

/* ---- Reporting (demo_act.c) ---- */

/* The process's own: set once, at its start. */
extern struct actor {
	enum who who;
	enum chapter chapter;
	int record, sock;
} actor;

int64_t demo_now_ns(void);
/* Report a moment, now: `what` without time, who, chapter and text. */
void demo_tell(struct moment what, const char *format, ...) __attribute__((format(printf, 2, 3)));
double demo_ms_since(int64_t time_ns);

/* Something is not as expected: say so and end the process. */
_Noreturn void demo_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A call of Cenote's has failed: the same, with its sentence. */
void demo_check(int result, const char *call);
#define CHECK(call) demo_check((int)(call), #call)

/* Send bytes to the other process, and receive some; and wait until some have come, to measure what follows. */
void demo_send(const void *bytes, unsigned count);
void demo_receive(void *bytes, unsigned count);
void demo_await(void);

/* ---- Drawing ---- */

void demo_print_text(const struct demo *demo, bool utf8);
void demo_print_json(const struct demo *demo);
/* To a file, or to standard output ("-"). False: an error was printed. */
bool demo_write_svg(const struct demo *demo, const char *path);

/* The index of the moment where an arrow begins or ends; -1: there is none. */
int demo_arrow_start(const struct demo *demo, enum arrow arrow);
int demo_arrow_end(const struct demo *demo, enum arrow arrow);

/*
 * Where a line of a text ends that is `columns` wide: how many bytes belong to it; the next line begins after them and
 * the spaces. All texts are ASCII.
 */
int demo_wrap(const char *text, int columns);

#endif
