/* SPDX-License-Identifier: MIT */
/*
 * What node.c and node_lane.c share: the session with cenote-imexd, its lanes, and the files that it is lent.
 */
#ifndef CN_SHARE_NODE_NODE_INTERNAL_H
#define CN_SHARE_NODE_NODE_INTERNAL_H

#include "base/lock.h"
#include "share/node/node.h"
#include "share/peer/service.h"
#include "share/wire/wire.h"

struct cn_node_memory {
	uint64_t life, number;
	uint64_t node_life; /* of the connection between the daemons */
	uint32_t node;
	uint64_t counted_bytes;         /* if it is counted, */
	struct cn_node_opened_sum *sum; /* and where; else NULL */
	struct cn_node_memory *next;    /* of those that are still to be closed */
};

/* What is open of a node, of memory that is counted. */
struct cn_node_opened_sum {
	struct cn_node_opened opened;
	struct cn_node_opened_sum *next; /* a higher number */
};

struct cn_node_lane {
	struct cn_host_remote_lane base; /* first */
	struct cn_watch channel;
	uint64_t life;
	bool waits;                          /* for a value */
	uint32_t node[CN_HOST_REMOTE_SLOTS]; /* for sentences */
	int outcome[CN_HOST_REMOTE_SLOTS];   /* enum cn_node_outcome, or -1: not yet */
	uint32_t touched;                    /* slots whose request names a file, and is not answered */
	uint32_t lent;                       /* places of cn_node_client.lent that are used */
	struct cn_node_lane *next;
};

/* A file that the daemon is lent, or being lent. */
struct cn_node_lent {
	uint64_t file;    /* 0: the place is free */
	unsigned uses;    /* of lanes */
	bool is_known;    /* the daemon has it */
	bool is_unwanted; /* its memory is gone: give it back after the last use */
	uint64_t used;    /* when, as a count */
};

struct cn_node_client {
	CN_SLOW_LOCK(NODE_ASKING) asking; /* guards what follows, but for changes, which take both locks */
	CN_LOCK(NODE) lock;
	struct cn_watch session; /* fd -1: none */
	bool has_session;
	uint64_t life, request;
	uint32_t number, count;
	unsigned char key[CN_NODE_SESSION_BYTES];

	/* Under `lock` alone. */
	struct cn_node_lane *lanes;         /* that no thread uses */
	unsigned lane_count, waiting_count; /* all; those that wait for values */
	struct cn_node_memory *unclosed;
	struct cn_node_opened_sum *sums; /* of nodes of which something is open */
	struct cn_node_lent lent[CN_NODE_LENT_MAX];
	uint64_t lend_count;
	bool is_served, tells_later; /* the service thread runs; it tells the daemon what it had no room for */
	_Atomic uint32_t returned;   /* counts lanes that were given back */
};

extern struct cn_node_client cn_node_client;

/* ---- node.c ---- */

/* Milliseconds until then, at least 1; 0: it is over. */
int cn_node_left_ms(uint64_t deadline_ns);
/* Wait for a message until a deadline: 0, or errno. */
int cn_node_receive(int sock, uint64_t deadline_ns, struct cn_message *ret_message);
CUresult cn_node_no_daemon(int error);
CUresult cn_node_lost(uint32_t node);
/* A connection to the daemon that no forked child has: 0, or errno. */
int cn_node_reach(struct cn_watch *channel);
/* Say hello over a new connection: 0 and the answer, or errno. */
int cn_node_greet(int sock, const unsigned char *key, int memory_fd, struct cn_message *ret_answer);
/* With the lock `asking`. */
bool cn_node_session_lives(void);
/* Close memory of another node. */
void cn_node_close(void *object);
/* Lend a file for a lane: see cn_host_remote_ops. */
unsigned cn_node_lend(struct cn_host_remote_lane *base, const struct cn_host_remote_file *file);
/* A lane uses its files no more. */
void cn_node_release_locked(const struct cn_node_lane *lane);

#endif
