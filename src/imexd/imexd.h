/* SPDX-License-Identifier: MIT */
/*
 * cenote-imexd: memory of this machine for programs of other machines, and theirs for the programs here.
 *
 * One daemon a node. All nodes of a domain have the same list of addresses and the same key. Each pair of nodes has one
 * connection, made by the one with the lower number, over which both ask. Programs call at a Unix socket (share/node).
 *
 *	program ── lanes ──► imexd ══ TLS ══► imexd ── maps ──► memory of the exporter
 *
 * One thread serves all of it and never waits: sockets do not block, and what a program or a node asks for has bounds.
 * To fetch an exporter's memory may take seconds, so threads of their own do that (imexd_fetch.c).
 *
 * A node has REQUESTS_MAX operations under way at another node, and WATCHES_MAX waits for values; further ones wait at
 * home. So a daemon can always read: it has room for the answer to each request that another node may send, and neither
 * of two daemons that answer each other at full speed has to stop reading. A node that exceeds its bounds is cut off.
 *
 * A frame is FRAME_BYTES, little-endian, and the bytes that it announces. A node that is silent for SILENCE_MS is gone:
 * what was asked of it has failed, and what it had open here is closed. docs/machines.md has it all.
 */
#ifndef CN_IMEXD_IMEXD_H
#define CN_IMEXD_IMEXD_H

#include "base/clock.h"
#include "share/node/node.h"
#include "share/port/port_internal.h"
#include "share/wire/wire.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	CN_IMEXD_NODES_MAX = 1024,
	CN_IMEXD_PORT = 50100,
	CN_IMEXD_KEY_BYTES_MIN = 16,
	CN_IMEXD_KEY_BYTES_MAX = 64,
	CN_IMEXD_MAGIC = 0x656d6963,
	CN_IMEXD_VERSION = 4,
	CN_IMEXD_REQUESTS_MAX = 64,
	CN_IMEXD_WATCHES_MAX = 256,
	CN_IMEXD_MEMORY_MAX = 65536, /* open at one node */
	CN_IMEXD_CONNECTIONS_MAX = 512,
	CN_IMEXD_STRANGERS_MAX = 64, /* connections that have not shown the key yet */
	CN_IMEXD_STRANGERS_OF_NODE_MAX = 4,
	CN_IMEXD_RECORD_BYTES = 16384,
	CN_IMEXD_SILENCE_MS = 4000,
	CN_IMEXD_PING_MS = 1000,
	CN_IMEXD_SHAKE_MS = 4000,   /* to connect, and to show the key */
	CN_IMEXD_AGAIN_MS = 500,    /* between two tries to connect */
	CN_IMEXD_FORGET_MS = 12000, /* after which the log says again why a connection fails: longer than a try takes */
	CN_IMEXD_TEND_MS = 250,     /* between two looks at the times of all connections */
	CN_IMEXD_FETCH_MS = 12000,  /* for an exporter here to hand over memory; less than CN_NODE_ANSWER_MS */
};

struct cn_imexd_address;
struct cn_imexd_channel;
struct cn_imexd_link;
struct cn_imexd_served;

/* ---- Between daemons ---- */

enum cn_imexd_kind {
	CN_IMEXD_HELLO = 1, /* flags: the version; memory: the sender's number; value: the check of the list of nodes */
	CN_IMEXD_PING,
	CN_IMEXD_OPEN,  /* with a handle, of memory or a pool */
	CN_IMEXD_BLOCK, /* with the 64 bytes of an exported pointer; memory: the pool */
	CN_IMEXD_CLOSE, /* not answered */
	CN_IMEXD_PUT,   /* with `bytes` bytes */
	CN_IMEXD_GET,   /* count: bytes */
	CN_IMEXD_FILL,  /* count: bytes; flags: bytes of an element */
	CN_IMEXD_WRITE, /* flags: bytes of the word */
	CN_IMEXD_WAIT,  /* flags: bytes of the word; CU_STREAM_WAIT_VALUE_… from bit 8 on */
	/*
	 * The answer to any. Of a GET with bytes. Of an OPEN or BLOCK: memory, and its bytes in `count`; of a block its
	 * `offset`; of a pool its id in `value`, and where it is in `flags` (CN_NODE_OPEN_LOCATION).
	 */
	CN_IMEXD_DONE,
	CN_IMEXD_KIND_COUNT,
};

struct cn_imexd_frame {
	uint32_t magic;
	uint16_t kind;
	uint16_t outcome; /* of an answer: enum cn_node_outcome */
	uint32_t bytes;   /* that follow */
	uint32_t flags;
	uint64_t request;
	uint64_t memory;
	uint64_t offset;
	uint64_t count;
	uint64_t value;
};
_Static_assert(sizeof(struct cn_imexd_frame) == 56, "the same on every machine");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian, as all machines with a GPU are");

/* A frame to send. What it points to stays until `sent` was called, which may free it, and may close the channel. */
struct cn_imexd_send {
	struct cn_imexd_send *next;
	struct cn_imexd_channel *channel; /* the transport's; so is `next` */
	struct cn_imexd_frame frame;
	const char *payload;
	void (*sent)(struct cn_imexd_send *send, bool lost); /* `lost`: the connection has ended before */
};

/* A frame that has come, until its bytes have. A transport may have several of a connection at a time. */
struct cn_imexd_receive {
	struct cn_imexd_frame frame;
	char *into;                     /* where its bytes go; NULL: nowhere */
	struct cn_imexd_served *served; /* in which that is: it stays as long; or NULL */
	char small[CN_NODE_HANDLE_BYTES];
};

/* ---- Transports ---- */

struct cn_imexd_settings {
	const char *socket_path, *nodes_path, *key_path;
	uint32_t node; /* 0: found by this machine's addresses */
	bool supervise;
};

/*
 * How frames and their bytes go to other nodes. The rest of the daemon does not know which transport runs: each program
 * has one (imexd_stream.c, imexd_ucx.c).
 *
 * A transport has a *channel* for each connection, and tells of it by the functions of imexd_link.c: from what epoll
 * reports, or from flush(). A channel's functions are not called again after close(). Frames without bytes, and those
 * with few, arrive in the order in which they were sent; one with many may be passed by later ones.
 */
struct cn_imexd_transport {
	const char *name, *program;
	bool has_key; /* it reads --key; else all of the network is trusted */
	/* Listen at this node's address. NULL, or why it cannot be used. */
	const char *(*begin)(const struct cn_imexd_settings *settings);
	/* The loop has begun: watch what is listened at. */
	bool (*start)(void);
	/* Begin to connect, from the address by which the others know this node: they refuse another. NULL: not now. */
	struct cn_imexd_channel *(*connect)(struct cn_imexd_link *link, const struct cn_imexd_address *to);
	/* Send a frame; its bytes are read from where they lie. `sent` may be called at once. */
	void (*send)(struct cn_imexd_channel *channel, struct cn_imexd_send *send);
	/* A round of the loop has ended: send what was gathered. True: the next one begins without sleeping. */
	bool (*flush)(void);
	/*
	 * End it. When this returns, nothing that came over it is written any more, neither by this process nor by a
	 * device; what was not sent is `lost`, and what has not come whole was dropped (cn_imexd_link_drop).
	 */
	void (*close)(struct cn_imexd_channel *channel);
};

extern const struct cn_imexd_transport cn_imexd_transport;

/* ---- Records ---- */

struct cn_imexd_lane;
struct cn_imexd_job;
struct cn_imexd_watch;
struct cn_import;

/* What epoll reports. First in its record. */
struct cn_imexd_source {
	void (*ready)(struct cn_imexd_source *source, uint32_t events);
	void (*free)(struct cn_imexd_source *source);
	struct cn_imexd_source *next_dead;
};

struct cn_imexd_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t bytes;
};

/* What another node has open here: memory, a pool, or a block of one. Only the loop's thread touches the records. */
struct cn_imexd_served {
	char *address; /* of a pool NULL */
	uint64_t bytes;
	uint64_t file; /* the inode of the memory file; of a pool and a block 0 */
	uint64_t number;
	unsigned references;          /* while it is open, of each answer and wait, and of a pool's blocks */
	struct cn_import *import;     /* a pool: the daemon is an importer of it, for one importer of the other node */
	struct cn_imexd_served *pool; /* of a block */
	/* For the answer to the OPEN: see CN_IMEXD_DONE. */
	uint64_t offset, id;
	uint32_t location;
	unsigned char exporter[CN_PORT_NAME_BYTES]; /* its port */
	uid_t user;                                 /* the exporter's; of a block 0 */
};

/* Records by number: imexd_table.c. All zero is an empty one. */
struct cn_imexd_table {
	struct cn_imexd_slot *slots;
	uint32_t room, used, count;
	uint32_t first_free; /* plus 1 */
};

/* Jobs in the order in which they came. */
struct cn_imexd_jobs {
	struct cn_imexd_job *first, *last;
};

/* Why connections fail that are tried again and again, as the log has said. All zero: it has not. */
struct cn_imexd_failure {
	const char *why;
	uint64_t last_ns;
};

struct cn_imexd_node {
	struct cn_imexd_address address;
	uint32_t number;
	struct cn_imexd_link *link; /* connected, or being connected; NULL: none */
	bool is_up;
	uint64_t life;                       /* counts connections: what was opened in another one is lost */
	uint64_t next_ns;                    /* when to connect again */
	uint64_t tried_ns;                   /* since when it is tried to connect; 0: it is not, or was up since then */
	struct cn_imexd_failure failures[2]; /* of connections from its address, and to it */
	unsigned stranger_count;
	struct { /* what programs here ask of it */
		unsigned count, max;
		struct cn_imexd_jobs waiting;
	} requests, watches;
	struct cn_imexd_job *asked[CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX]; /* by the frame's `request` */
	uint64_t asked_bits[(CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX) / 64]; /* which of them there are */
	uint64_t import_count;
	/* What its programs have open here. */
	struct cn_imexd_table served;
	unsigned serving_count;          /* requests of its whose answers were not sent */
	struct cn_imexd_watch *watching; /* waits for values */
};

struct cn_imexd {
	int epoll_fd, signal_fd, event_fd;
	uint32_t self, node_count;
	struct cn_imexd_node *nodes; /* by number, from 1 */
	uint64_t list_check;
	unsigned stranger_count, lane_count;
	unsigned watch_count;                /* waits for values at this node */
	unsigned mapping_count, mapping_max; /* of exporters' memory */
	unsigned fetch_count;                /* for which an exporter is asked, or will be */
	uint64_t lent_bytes;                 /* of all programs' files */
	struct cn_imexd_source *dead;
	bool is_ending;
};

extern struct cn_imexd cn_imexd;

/* ---- imexd_config.c ---- */

/* Read the list of nodes, and find which this is. NULL, or a sentence. */
const char *cn_imexd_read_nodes(const struct cn_imexd_settings *settings);
/* Read the domain's key: hexadecimal digits. NULL, or a sentence. */
const char *cn_imexd_read_key(const char *path, unsigned char ret_key[CN_IMEXD_KEY_BYTES_MAX], size_t *ret_bytes);
bool cn_imexd_is_address(const struct cn_imexd_address *one, const struct cn_imexd_address *other);
/* An interface of this machine has the address, and does not run. */
bool cn_imexd_is_device_down(const struct cn_imexd_address *address);
/* Let the system choose the port. */
void cn_imexd_address_any_port(struct cn_imexd_address *address);

/* ---- imexd_table.c ---- */

/* Enter a record; its number, or 0: there is no memory, or the table has `max` records. */
uint64_t cn_imexd_table_enter(struct cn_imexd_table *table, void *record, uint32_t max);
/* The record that has this number; NULL: none has it. */
void *cn_imexd_table_find(const struct cn_imexd_table *table, uint64_t number);
/* A record that is in the table leaves it. */
void cn_imexd_table_leave(struct cn_imexd_table *table, uint64_t number);
/* The record at a place, from 0 to `used`; NULL: it is free. */
void *cn_imexd_table_at(const struct cn_imexd_table *table, uint32_t place);
/* Take records out until NULL comes, and the table is empty. Nothing is entered in between. */
void *cn_imexd_table_take(struct cn_imexd_table *table);

/* ---- imexd_loop.c ---- */

/* Watch a descriptor; `events` of epoll. */
bool cn_imexd_watch(int fd, struct cn_imexd_source *source, uint32_t events);
void cn_imexd_rewatch(int fd, struct cn_imexd_source *source, uint32_t events);
/* Before a descriptor is closed: epoll would go on with a file that is open elsewhere, or is closed later. */
void cn_imexd_unwatch(int fd);
/* Free a record when what epoll has reported is done with. Its descriptor is closed before. */
void cn_imexd_bury(struct cn_imexd_source *source);
/* Watch what is always there. False: errno says why it cannot. */
bool cn_imexd_begin(int listen_fd);
/* A round: sleep until something is ready or due, and serve that. Returns how many descriptors were ready. */
int cn_imexd_turn(void);
/* Begin, and serve until a signal asks to end. False: it could not begin. */
bool cn_imexd_run(int listen_fd);

/* ---- imexd_link.c: connections between nodes ---- */

/* Connect where there is none, and end what has been silent too long. Returns when to look again. */
uint64_t cn_imexd_link_tend(uint64_t now_ns);
/* Send a frame to a node that is up. */
void cn_imexd_link_send(struct cn_imexd_node *node, struct cn_imexd_send *send);
/* Send a frame that has no bytes and is not told of its end. False: no memory. */
bool cn_imexd_link_tell(struct cn_imexd_node *node, const struct cn_imexd_frame *frame);
/* A node breaks the protocol, or is gone. */
void cn_imexd_link_cut(struct cn_imexd_node *node, const char *why);

/*
 * For transports. A caller from this address: which node may it be? NULL: hang up; it is not listed, or there are too
 * many like it.
 */
struct cn_imexd_node *cn_imexd_link_admit(const struct cn_imexd_address *from);
/* It was admitted, and has a channel. NULL: no memory. */
struct cn_imexd_link *cn_imexd_link_called(struct cn_imexd_node *node, struct cn_imexd_channel *channel);
/* Something listens at the other end. If it then shows nothing, the log says so. */
void cn_imexd_link_reached(struct cn_imexd_link *link);
/* The other side has shown what the transport asks for: frames can go. */
void cn_imexd_link_open(struct cn_imexd_link *link);
/* The other side lives. */
void cn_imexd_link_heard(struct cn_imexd_link *link);
/*
 * A frame has come, which says where its bytes go; then its bytes have, too. False: the link has ended, and its channel
 * was closed; the frame is not dropped by that.
 */
bool cn_imexd_link_begin(struct cn_imexd_link *link, struct cn_imexd_receive *receive);
bool cn_imexd_link_finish(struct cn_imexd_link *link, struct cn_imexd_receive *receive);
/* The bytes of a frame that began do not come. */
void cn_imexd_link_drop(struct cn_imexd_receive *receive);
/* The connection has failed: its channel is closed. `why` stays, and NULL is nothing for the log. */
void cn_imexd_link_fail(struct cn_imexd_link *link, const char *why);
/* Another than a node of this domain: say so in the log, once. `why` stays. */
void cn_imexd_link_refuse(struct cn_imexd_link *link, const char *why);

/* ---- imexd_fetch.c: what exporters here have ---- */

bool cn_imexd_fetch_begin(void);
/* Fetch what an OPEN or BLOCK names, and answer. False: no memory. */
bool cn_imexd_fetch(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, const char *bytes);
/* Threads have ended. */
void cn_imexd_fetched(void);
/* Answer for those that take too long. */
void cn_imexd_fetch_tend(uint64_t now_ns);

/* ---- imexd_serve.c: what other nodes ask ---- */

void cn_imexd_drop(struct cn_imexd_served *served); /* NULL does nothing */
/* How many mappings it counts for. */
unsigned cn_imexd_mappings(const struct cn_imexd_served *served);
/* What a number names, if it is open. */
struct cn_imexd_served *cn_imexd_serve_find(struct cn_imexd_node *node, uint64_t number);
/* The answer to an OPEN or BLOCK: what is served is the node's from now on. False: no memory. */
bool cn_imexd_serve_opened(struct cn_imexd_node *node, uint64_t request, enum cn_node_outcome outcome,
			   struct cn_imexd_served *served);
/* A request has come. Says where its bytes go. False: the node breaks the protocol. */
bool cn_imexd_serve_frame(struct cn_imexd_node *node, struct cn_imexd_receive *receive);
/* Its bytes have come. False: no memory. */
bool cn_imexd_serve_bytes(struct cn_imexd_node *node, const struct cn_imexd_receive *receive);
/* The connection has ended: close all that the node has open. */
void cn_imexd_serve_lost(struct cn_imexd_node *node);
/* Answer the HELD of a user's program over its socket: 0, or errno. */
int cn_imexd_serve_tell(int sock, uid_t user, const struct cn_message *question);
/* Look at the words that are waited for. Returns when to look again; UINT64_MAX: nothing is waited for. */
uint64_t cn_imexd_serve_look(uint64_t now_ns);

/* ---- imexd_operand.c: operands of programs' requests, and the memory files that they have lent ---- */

struct cn_imexd_lent;
struct cn_imexd_lent_table {
	struct cn_imexd_lent *places[CN_NODE_LENT_MAX];
	uint64_t bytes;
};
/* Is a request an operation on memory of so many bytes? */
bool cn_imexd_is_operation(const uint64_t *words, uint64_t memory_bytes);
/* A LEND has come: map its file. */
enum cn_node_outcome cn_imexd_lend(struct cn_imexd_lent_table *table, const struct cn_parcel *parcel);
/* The file at a place is wanted back; nothing, if there is none. */
void cn_imexd_lent_return(struct cn_imexd_lent_table *table, uint64_t place);
void cn_imexd_lent_end(struct cn_imexd_lent_table *table);
/* The bytes that a request names in a file, which stays until it is dropped. NULL: it names none. */
char *cn_imexd_lent_find(const struct cn_imexd_lent_table *table, const uint64_t *words,
			 struct cn_imexd_lent **ret_lent);
void cn_imexd_lent_drop(struct cn_imexd_lent *lent); /* NULL does nothing */

/* ---- imexd_release.c: what the loop does not wait for ---- */

/* Unmap a file: a large one later, on a thread of its own. */
void cn_imexd_unmap(char *address, uint64_t bytes);
/* End a program's connection, now or when its user's descriptors can be closed. */
void cn_imexd_close(int fd, uid_t user);
/* From time to time: close those that could not be closed. */
void cn_imexd_close_parked(void);

/* ---- imexd_program.c: what programs here ask ---- */

void cn_imexd_program_accept(int listen_fd);
/* Look for programs that never said what they want. */
void cn_imexd_program_tend(uint64_t now_ns);
/* An answer has come. For a GET: where its bytes go. False: it answers nothing. */
bool cn_imexd_program_answer(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, char **ret_into);
bool cn_imexd_program_answered(struct cn_imexd_node *node, const struct cn_imexd_frame *frame);
/* The connection to a node has ended: what was asked of it has failed. */
void cn_imexd_program_lost(struct cn_imexd_node *node);

#endif
