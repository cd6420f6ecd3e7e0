/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes: one size, one header, at most three descriptors beside them.
 *
 * They travel over SOCK_SEQPACKET sockets, so a message comes whole or not at all. What comes is not trusted: length,
 * magic and version are checked here, and descriptors beyond those that the message may have are closed. The reader
 * must check the fields. A request has a number, and its reply has the same one.
 */
#ifndef CN_SHARE_WIRE_WIRE_H
#define CN_SHARE_WIRE_WIRE_H

#include "base/directory.h"
#include "base/error.h"
#include "share/wire/closing.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	CN_WIRE_MAGIC = 0x746e65ce,
	CN_WIRE_VERSION = 2,
	CN_WIRE_DESCRIPTORS_MAX = 3,
	CN_WIRE_TIMEOUT_MS = 5000, /* how long a request waits for its reply, and a new peer may be silent */
};

enum cn_message_kind {
	/* on a pool's channel */
	CN_MESSAGE_JOIN = 1, /* importer: which export it wants first, if any */
	CN_MESSAGE_WELCOME,  /* exporter: control segment, the importer's ledger, and the part of that export, if any */
	CN_MESSAGE_PART,     /* importer asks for the part around an offset; the reply has it */
	CN_MESSAGE_RELEASED, /* importer: it has released an export that the exporter has ended */
	CN_MESSAGE_EVICTED,  /* exporter: the importer is shut out */
	CN_MESSAGE_PARTS,    /* exporter: some parts have lost their memory: see the control segment */
	/* at a port */
	CN_MESSAGE_EVENT,         /* opener asks for an event; the reply has it */
	CN_MESSAGE_EVENT_FREED,   /* opener: it is done with one */
	CN_MESSAGE_MEMORY,        /* opener asks for memory; the reply has the chunk it lies in */
	CN_MESSAGE_MEMORY_CLOSED, /* opener: it is done with one, or with all that it has over this connection */
	/* at a fabric port */
	CN_MESSAGE_FABRIC, /* importer asks, with its IMEX channel; the reply has memory, or leads to a pool */
	/* at a port */
	CN_MESSAGE_REPORT, /* a process asks what is shared here: see report.h */
	CN_MESSAGE_DEATH,  /* the port, to openers of events: one of them has died */
	/* to cenote-imexd, and its answers: see node.h */
	CN_MESSAGE_NODE_HELLO,   /* a session, or, with memory, a lane of one */
	CN_MESSAGE_NODE_OPEN,    /* memory by its handle, with the channel */
	CN_MESSAGE_NODE_CLOSE,   /* not answered */
	CN_MESSAGE_NODE_REQUEST, /* an operation on memory */
	CN_MESSAGE_NODE_STATUS,  /* about a node */
	CN_MESSAGE_NODE_BLOCK,   /* a pool's block, by what its exporter has written */
	CN_MESSAGE_NODE_LEND,    /* a memory file of the program's, to read and write operands in */
	CN_MESSAGE_NODE_RETURN,  /* it is wanted back; not answered */
	CN_MESSAGE_NODE_HELD,    /* which memory files the daemon holds for other nodes */
};

/* The words of a JOIN, and of a WELCOME. */
enum cn_join_word {
	CN_JOIN_SLOT,
	CN_JOIN_GENERATION,
	CN_JOIN_NODE /* the machine for which the importer holds, by its number in the domain; 0: this one */
};
enum cn_welcome_word {
	CN_WELCOME_BYTES,
	CN_WELCOME_LOCATION_TYPE,
	CN_WELCOME_LOCATION_ID,
	CN_WELCOME_HANDLE_TYPES,
	CN_WELCOME_MEMORY_TYPE,
	CN_WELCOME_PART, /* three words, as in the reply to PART, if there is a third descriptor */
};
/* The descriptors of a WELCOME. */
enum cn_welcome_descriptor { CN_WELCOME_CONTROL, CN_WELCOME_LEDGER, CN_WELCOME_MEMORY };

struct cn_message {
	uint32_t magic, kind;
	uint32_t version;
	int32_t result; /* of a reply: CUresult */
	uint64_t request;
	uint64_t words[9]; /* their meaning depends on the kind */
	unsigned char bytes[32];
};
_Static_assert(sizeof(struct cn_message) == 128, "the same in every process");

/* A message with its descriptors. */
struct cn_parcel {
	struct cn_message message;
	int descriptors[CN_WIRE_DESCRIPTORS_MAX];
	unsigned descriptor_count;
	uid_t sender; /* of one that was received with descriptors: the user (closing.h) */
};

/* Send without waiting: 0, or errno (EAGAIN: the peer does not read; EPIPE: it is gone). Fills in magic and version. */
int cn_wire_send(int sock, const struct cn_parcel *parcel);
/*
 * Receive without waiting: 0, or errno (EAGAIN: nothing there; EPIPE: the peer has closed; EPROTO: not ours; EMFILE: no
 * room for its descriptors, which are lost; EBUSY: cn_wire_is_stuck_at()). The caller owns the descriptors, which are
 * closed on exec.
 */
int cn_wire_receive(int sock, struct cn_parcel *ret_parcel);
/*
 * The same for a message that must have no descriptors. EPROTO: it has some, which are not accepted, or it is not ours.
 * Then the connection must be ended: cn_wire_hang_up().
 */
int cn_wire_receive_message(int sock, struct cn_message *ret_message);
void cn_wire_close(struct cn_parcel *parcel); /* its descriptors: cn_wire_discard() */
/* What an errno of these calls, or of cn_peer_ask() (peer.h), means. */
const char *cn_wire_explain(int error);

/* ---- Sockets ---- */

/*
 * Make a listening socket without a name: *ret_path_fd leads to it (O_PATH), and a process that has this descriptor can
 * connect. Both are closed on exec; the listening one does not block.
 */
CUresult cn_wire_listen_unnamed(int *ret_listen_fd, int *ret_path_fd);
/* A socket that is not connected yet; CUDA_ERROR_OPERATING_SYSTEM. */
CUresult cn_wire_open(int *ret_sock);
/* Connect to the socket that an O_PATH descriptor leads to. CUDA_ERROR_INVALID_VALUE: it leads to no socket of ours. */
CUresult cn_wire_reach_path(int sock, int path_fd);
/* The same without waiting, where no sentence is needed: 0, or errno. The caller knows that it leads to a socket. */
int cn_wire_reach_now(int sock, int path_fd);
/* The same for a descriptor that was checked before: it is an O_PATH descriptor of a socket in a local file system. */
CUresult cn_wire_reach_checked_path(int sock, int path_fd);
/* Does it lead to a socket of ours? The question wakes no process. False: unknown; connect to find out. */
bool cn_wire_is_there(int path_fd);
/* The next connection of a listening socket; -1: there is none. */
int cn_wire_accept(int listen_fd);

/*
 * A listening socket that has a name, as long as the process lives, in the runtime or the fabric directory: 32
 * hexadecimal digits, in the latter the first eight are the user's number. A file beside it is locked for that time; a
 * process that can take that lock knows that the owner is gone, and sweeps the name.
 */
enum { CN_SOCKET_NAME_CHARS = 32 };
struct cn_socket {
	char name[CN_SOCKET_NAME_CHARS + 1];
	int directory_fd, lock_fd, listen_fd;
};
CUresult cn_wire_listen_named(bool fabric, struct cn_socket *ret_socket);
/* Remove the names; nothing is closed. */
void cn_wire_forget_name(const struct cn_socket *socket);
/* Remove the names in a directory whose processes have ended, and report each name: 0, or errno. */
struct cn_sweep {
	unsigned looks_max;                                                   /* it ends after so many names */
	bool only_look;                                                       /* nothing is removed */
	void (*found)(const char *name, bool live, bool removed, void *data); /* may be NULL */
	void *data;
};
int cn_sweep_directory(int directory_fd, const struct cn_sweep *how);
/* Connect to a socket by its name. CUDA_ERROR_INVALID_VALUE: there is none, or its process is gone. */
CUresult cn_wire_reach_name(int sock, const char *name);
/* The same in a user's folder for fabric handles. CUDA_ERROR_NOT_FOUND: this machine has no such name. */
CUresult cn_wire_reach_fabric(int sock, const char *name, unsigned user);
/*
 * Connect to a daemon: at a path, if that is not NULL; else by its name in the runtime directory, else in the
 * system's. 0, or errno (ENOENT, ECONNREFUSED: none is there). The wait for a full queue has an end.
 */
int cn_wire_reach_daemon(int sock, const char *path, const char *name);

#endif
