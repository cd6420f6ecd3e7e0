/* SPDX-License-Identifier: MIT */
/*
 * What the targets node_frames and node_stream are made of: cenote-imexd's parts, programs that call it
 * (node_program.c) and memory that is watched (node_memory.c); for node_frames also a transport whose other end is the
 * script (node_channel.c).
 *
 * The exporter is this process, with the library's own fabric port; so are all other nodes and the programs.
 */
#ifndef CENOTE_TESTS_FUZZ_NODE_H
#define CENOTE_TESTS_FUZZ_NODE_H

#include "fuzz.h"

#include "imexd/imexd.h"

enum {
	NODE_CHANNELS_MAX = 10,
	NODE_FRAMES_MAX = 6,      /* of a channel, whose bytes come at the same time */
	NODE_QUESTIONS_MAX = 700, /* of a channel, each way: more than the daemon allows */
};

/* ---- node_program.c: the daemon, and programs that call it ---- */

/* The last line of the daemon's log. */
extern char node_log[256];
/* How many descriptors of the daemon's are always ready. */
extern int node_ready_count;

/* Write the list of nodes into a file: its path. */
const char *node_list(const char *nodes);
/* Once, after fuzz_start(): the exporter and the daemon begin. */
void node_prepare(const struct cn_imexd_settings *settings);
/* Rounds of the loop until nothing more happens by itself. */
void node_turn(void);
/* The same, and exporters that were asked have answered. */
void node_await_fetches(void);
/* Time passes, for the daemon. */
void node_skip(uint64_t milliseconds);

/* A number for a request. None comes again, also if a script changes it a little. */
uint64_t node_request(void);

/* A program with two lanes, which has lent a file. */
void node_program_start(void);
/* It asks for memory of node 3 (0), a pool (1), or a block of the pool that it has (2). */
void node_program_open(struct fuzz_input *input, unsigned which);
/* It has been given so many of them. */
void node_program_opened(unsigned count);
/* Any program does something, by the script. */
void node_program_act(struct fuzz_input *input);
/* All nodes have ended; so do all programs. Then the daemon holds nothing. */
void node_end(void);

/* ---- node_channel.c ---- */

struct node_frame;

/* What another node asked, and the exporter's object that it named; -1: none. */
struct node_question {
	struct cn_imexd_frame frame;
	int object;
};

struct cn_imexd_channel {
	struct cn_imexd_source source; /* for its burial alone */
	struct cn_imexd_link *link;
	uint32_t node; /* whose address it has */
	bool is_open;
	struct node_frame *frames[NODE_FRAMES_MAX]; /* that have begun */
	struct cn_imexd_send *sends;                /* that are under way, the newest first */
	struct node_question questions[NODE_QUESTIONS_MAX];
	unsigned question_count;
	struct cn_imexd_frame asked[NODE_QUESTIONS_MAX]; /* by the daemon; the newest replace the oldest */
	unsigned asked_count;
};

/* Those there are, in any order; NULL: none. */
extern struct cn_imexd_channel *node_channels[NODE_CHANNELS_MAX];
/* What the transport does: a frame has been sent at once; nothing can be connected to. */
extern bool node_sends_at_once, node_refuses;

/* A stranger calls from an address; does nothing where it is not admitted. */
void node_call(const struct cn_imexd_address *from, uint32_t node);
void node_open(struct cn_imexd_channel *channel);
/*
 * A frame comes, with `payload`, or with a pattern where that is NULL. Its bytes come with node_deliver(): returns its
 * index for that; -1: it has none, or the connection has ended.
 */
int node_begin(struct cn_imexd_channel *channel, const struct cn_imexd_frame *frame, const unsigned char *payload);
/* So many of the bytes of a frame that has begun come; with the last one it is finished. */
void node_deliver(struct cn_imexd_channel *channel, unsigned index, size_t bytes);
/* Of the sends that are under way, one has been sent. */
void node_complete(struct cn_imexd_channel *channel, unsigned index);
void node_fail(struct cn_imexd_channel *channel);

/* ---- node_memory.c: what the exporter has ---- */

enum {
	NODE_MEMORY,
	NODE_UNSEALED, /* memory that could shrink: it is not served */
	NODE_POOL,
	NODE_BLOCKS,
	NODE_BLOCK_COUNT = 2,
	NODE_OBJECTS = NODE_BLOCKS + NODE_BLOCK_COUNT,
	NODE_FREED, /* a block that was freed in this input; one that holds it may open it again */
};

void node_memory_prepare(void);
/* The 64 bytes by which an object is opened. */
const unsigned char *node_name(int object);
/* Which object these 64 bytes name; -1: none. */
int node_named(const unsigned char name[CN_NODE_HANDLE_BYTES]);
/* Is it an object that can be opened, and has so many bytes? */
bool node_is(int object, uint64_t bytes);
/* The daemon has opened an object for a channel, under a number. */
void node_opened(const struct cn_imexd_channel *channel, uint64_t number, int object);
/* A frame comes: what it names of memory that its channel has open may be written from now on. */
void node_may_write(const struct cn_imexd_channel *channel, const struct cn_imexd_frame *frame);
/* A number that a channel has open: the index-th of a pool, or of memory. 0: none. */
uint64_t node_number(const struct cn_imexd_channel *channel, unsigned index, bool is_pool);
void node_forget(const struct cn_imexd_channel *channel);
/* The exporter frees a block, and allocates and exports another in its place. */
void node_free_block(int object);
/* The exporter shuts out an importer, if there is one. */
void node_evict(void);
/* All connections have ended. What could be named may have been written. */
void node_memory_allow(void);
/* All connections have ended: nothing is held, and nothing was written but what frames have named. */
void node_memory_check(void);

/* ---- node_memory.c: what programs have ---- */

enum { NODE_LANE_FILES = 2, NODE_FILES = 4 }; /* the first are lanes' memory, the others are lent */

int node_file(unsigned file);
size_t node_file_bytes(unsigned file);
/* A program has sent a request over a lane with this memory. What it names may be written until it is over. */
void node_requested(int lane, unsigned lane_file, const struct cn_message *request);
/* It has been answered. */
void node_answered(int lane, uint64_t request);
/* The connection has ended: so have all. -1: those of all lanes. */
void node_lane_ended(int lane);
/* All programs have ended: their memory is as it was. */
void node_files_check(void);

#endif
