/* SPDX-License-Identifier: MIT */
/*
 * What the files behind a port share with each other.
 *
 * port.c has the handles, the port of this process and its clients, which are other processes; port_object.c has what
 * they can open; remote.c has the processes at whose ports we are a client. shared_memory.c has the memory that others
 * open from us, opened_memory.c what we open from them, and event/ the events of both sides. fabric.c has a port of its
 * own, for fabric handles. Two processes that open from each other have two connections, one for each direction.
 */
#ifndef CN_SHARE_PORT_PORT_INTERNAL_H
#define CN_SHARE_PORT_PORT_INTERNAL_H

#include "base/check.h"
#include "device/host/host_signal.h"
#include "share/peer/peer.h"
#include "share/port/port.h"
#include "share/wire/wire.h"

#include <stdatomic.h>

enum {
	CN_HANDLE_MAGIC = 0x656c74ce,
	CN_HANDLE_VERSION = 2,
	CN_PORT_NAME_BYTES = CN_SOCKET_NAME_CHARS / 2,
	CN_HANDLE_SECRET_BYTES = 16,
	CN_PORT_OPENINGS_MAX = 65536, /* for each client */
};

enum cn_handle_kind { CN_HANDLE_EVENT = 1, CN_HANDLE_MEMORY, CN_HANDLE_FABRIC_MEMORY, CN_HANDLE_FABRIC_POOL };
enum { CN_HANDLE_KINDS = CN_HANDLE_FABRIC_POOL + 1 };

static inline bool cn_handle_is_fabric(enum cn_handle_kind kind)
{
	return kind == CN_HANDLE_FABRIC_MEMORY || kind == CN_HANDLE_FABRIC_POOL;
}

/* What opening a handle returns, wherever it fails: these bytes are no handle; the handle's process is gone. */
static inline CUresult cn_handle_refused(enum cn_handle_kind kind)
{
	if (cn_handle_is_fabric(kind))
		return CUDA_ERROR_NOT_SUPPORTED;
	return kind == CN_HANDLE_EVENT ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_INVALID_VALUE;
}

static inline CUresult cn_handle_gone(enum cn_handle_kind kind)
{
	if (cn_handle_is_fabric(kind))
		return CUDA_ERROR_NOT_SUPPORTED;
	return kind == CN_HANDLE_EVENT ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_INVALID_HANDLE;
}

/* The bytes of a handle. */
struct cn_handle {
	uint32_t magic;
	uint16_t version, kind;
	unsigned char port[CN_PORT_NAME_BYTES];
	unsigned char secret[CN_HANDLE_SECRET_BYTES];
	uint64_t number; /* of the object */
	uint32_t node;   /* of a fabric handle: the exporter's machine in its domain, from 1; 0: in no domain */
	int32_t channel; /* the number of the exporter's IMEX channel; 0 where none is needed */
	uint64_t check;  /* over all fields above: see base/check.h */
};
_Static_assert(sizeof(struct cn_handle) == CN_HANDLE_BYTES, "the same in every process");

/* ---- port.c ---- */

/* Make this process's port, if there is none yet. */
CUresult cn_port_open(void);
bool cn_port_is_own(const unsigned char name[CN_PORT_NAME_BYTES]);
/* The name of its socket. */
void cn_port_name(const unsigned char port[CN_PORT_NAME_BYTES], char ret_name[CN_SOCKET_NAME_CHARS + 1]);
/* The port is open. Fills in all fields but the object's. */
void cn_handle_write(const struct cn_handle *object, unsigned char ret_bytes[CN_HANDLE_BYTES]);
/* cn_handle_refused(): it is no handle, or of another kind, or a bit of it has changed. */
CUresult cn_handle_read(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_handle_kind kind,
			struct cn_handle *ret_handle);

/* The socket of a port. It listens under a name of its own, as long as the process lives. */
struct cn_port_socket {
	CN_SLOW_LOCK(PORT_SOCKET) opening;
	_Atomic bool open; /* once true, what follows is fixed */
	unsigned char name[CN_PORT_NAME_BYTES];
	struct cn_socket named;
	struct cn_watch listener, lock, directory;
	pid_t pid;
};

/*
 * Make the port, if there is none yet. make() calls cn_port_socket_make(), and has a thread listen. A fork waits for
 * it: a child that had the lock would keep our name alive, and one that had the listening socket would get our calls.
 * `at_exit` calls cn_port_socket_forget().
 */
CUresult cn_port_socket_open(struct cn_port_socket *port_socket, CUresult (*make)(void), void (*at_exit)(void));
/* Make a name, and a socket at which no thread listens yet; until one does, it can be closed. */
CUresult cn_port_socket_make(struct cn_port_socket *port_socket, bool fabric);
void cn_port_socket_close(struct cn_port_socket *port_socket);
/* Remove the name. */
void cn_port_socket_forget(const struct cn_port_socket *port_socket);

static inline bool cn_port_socket_is_open(const struct cn_port_socket *port_socket)
{
	return atomic_load_explicit(&port_socket->open, memory_order_acquire);
}

struct cn_port_opening;

/* What a client has open of one kind; or this process from all others. */
struct cn_port_opening_sum {
	unsigned count;
	uint64_t bytes;
	uint64_t since_ns; /* since when it has had something open without a break */
};

/* A process that has called at our port. Only for the service thread; at the fabric port for its thread (fabric.c). */
struct cn_port_client {
	struct cn_watch channel; /* fd -1: it has ended */
	struct cn_watch process; /* its death; watched once it has memory open, or is sent away with something open */
	struct cn_port_client *next, *previous;
	uint32_t recorder; /* 0 until it has asked for an event */
	struct cn_port_opening *openings;
	unsigned opening_count;
	struct cn_port_opening_sum open[CN_HANDLE_KINDS];
	uint64_t id; /* these three for reports, at our port: the id is never reused; the PID as we see it, or 0 */
	int pid;
	unsigned uid;
	bool only_reports; /* it is root, and not of our user */
	bool awaits_refresh;
	uint64_t refresh_request; /* the number of that question */
};

/* On the service thread, for report.c: the client with the next id that has something of a kind open; NULL: no more. */
const struct cn_port_client *cn_port_opener_after(enum cn_handle_kind kind, uint64_t id);
unsigned cn_port_opener_count(enum cn_handle_kind kind);
/* The same: processes that have something of either kind open; a descriptor (pidfd) of one, to be closed; -1: none. */
unsigned cn_port_openers_count(void);
int cn_port_opener_process(uint64_t id);
/* The same: what was told by cn_port_changed() is written now. What changes from here on is to be told again. */
void cn_port_changes_seen(void);
/* The same: the file has been written; answer the clients that wait for it. `sequence` 0: it could not be written. */
void cn_port_refreshed(uint64_t sequence);
/* On the service thread: the numbers under which live clients record our events, in order. */
const uint32_t *cn_port_recorders(size_t *ret_count);

/* ---- port_object.c ---- */

struct cn_port_object;

/* What is behind an object. All are called on the clients' thread. */
struct cn_port_object_ops {
	/* Fill in a reply: its words, and one descriptor. */
	CUresult (*serve)(struct cn_port_object *object, struct cn_parcel *ret_reply);
	bool keeps_descriptor; /* false: close it once it is sent */
	/* For events: a recorder has died; those of cn_port_recorders() are left. Called locked: take no other lock. */
	void (*bury)(struct cn_port_object *object);
	/* It was withdrawn, and its last opening has ended. */
	void (*free)(struct cn_port_object *object);
};

/* An object that others can open from us; embedded in its owner's record. */
struct cn_port_object {
	struct cn_port_object *next;
	const struct cn_port_object_ops *ops;
	enum cn_handle_kind kind;
	uint32_t node; /* of a fabric handle: this machine's number when it was published */
	uint64_t number;
	unsigned char secret[CN_HANDLE_SECRET_BYTES];
	uint64_t bytes; /* for reports: of memory, else 0. Set before the object is published */
	uint64_t opening_count;
	bool withdrawn;
	uint64_t withdrawn_ns; /* when, if it was open */
};

/* Of all objects of a kind: those that can be opened, and those that were withdrawn and are still open. */
struct cn_port_object_sums {
	uint64_t count, bytes;
	uint64_t deferred_count, deferred_bytes;
	uint64_t first_ns; /* when the first of them was published; 0: none was */
};
void cn_port_object_sum(enum cn_handle_kind kind, struct cn_port_object_sums *ret_sums);
/*
 * A recorder has died: remove what is pending in any of our events and belongs to no live recorder. Also in events that
 * the dead process had freed, since it may have kept the memory.
 */
void cn_port_object_bury(void);

/* Publish it, with a number and a secret. */
CUresult cn_port_object_publish(struct cn_port_object *object, enum cn_handle_kind kind,
				const struct cn_port_object_ops *ops);
void cn_port_object_write(const struct cn_port_object *object, unsigned char ret_bytes[CN_HANDLE_BYTES]);
/* It cannot be opened any more. True: no process has it open; it is forgotten, and the caller frees it. */
bool cn_port_object_withdraw(struct cn_port_object *object);

/* An opening of an object by a client. All on the clients' thread: see struct cn_port_client. */
struct cn_port_opening {
	struct cn_port_opening *next;
	struct cn_port_object *object;
};

/*
 * Open what a message asks for, and fill in the reply. CUDA_ERROR_INVALID_HANDLE: it does not exist, or no longer;
 * CUDA_ERROR_NOT_PERMITTED: no holder of a handle would ask this.
 */
CUresult cn_port_opening_begin(struct cn_port_client *client, enum cn_handle_kind kind,
			       const struct cn_message *request, struct cn_parcel *ret_reply,
			       struct cn_port_opening **ret_opening);
struct cn_port_opening *cn_port_opening_find(const struct cn_port_client *client, enum cn_handle_kind kind,
					     uint64_t number);
/*
 * What a client has open of a kind although it was withdrawn, and since when the oldest of it. At most `looks_max`
 * openings are checked, the newest; false: there are more.
 */
bool cn_port_opening_deferred(const struct cn_port_client *client, enum cn_handle_kind kind, unsigned looks_max,
			      struct cn_port_opening_sum *ret_deferred);
/* End and free it. The object is freed too if it was withdrawn and this was its last opening. */
void cn_port_opening_end(struct cn_port_client *client, struct cn_port_opening *opening);

/* ---- remote.c ---- */

/* Something was opened by a handle of another process, and so this process gets a port; or closed. From any thread. */
void cn_port_opened(enum cn_handle_kind kind, uint64_t bytes);
void cn_port_closed(enum cn_handle_kind kind, uint64_t bytes);
void cn_port_opened_sum(enum cn_handle_kind kind, struct cn_port_opening_sum *ret_sum);

struct cn_remote;

/* What to do about events that we have open from a process. On the service thread. */
struct cn_remote_event_ops {
	/* The process says that an opener of its events has died. */
	void (*disown)(struct cn_remote *remote);
	/* The process itself has died. */
	void (*orphan)(struct cn_remote *remote);
};

/* A process at whose port we called: the owner of a peer. */
struct cn_remote {
	struct cn_peer *peer;
	struct cn_remote *next;
	unsigned char port[CN_PORT_NAME_BYTES];
	struct cn_job death_job;
	_Atomic bool death_posted;
	_Atomic(const struct cn_remote_event_ops *) event_ops; /* set once we have had events of it open */
	struct cn_shared_event *events;                        /* its events that we have open */
};

/* How objects of a kind are opened at a remote port. */
struct cn_remote_kind {
	enum cn_handle_kind handle;
	enum cn_message_kind open, close;
	bool (*is_answer)(const struct cn_message *reply); /* checks a reply that says success */
	CUresult failed; /* what opening it returns when the process cannot share it */
	CUresult (*refuse_freed)(void);
	const char *name; /* for sentences */
};

/*
 * Ask a handle's process for what it names, and wait. On success the reply has one descriptor, the claim is the
 * caller's, and a fork waits until the caller allows it.
 */
CUresult cn_remote_ask(const struct cn_handle *handle, const struct cn_remote_kind *kind,
		       struct cn_peer_claim **ret_claim, struct cn_parcel *ret_reply);

/* ---- shared_memory.c ---- */

/* The words of a reply about shared memory. */
enum cn_shared_memory_word {
	CN_SHARED_MEMORY_CHUNK,
	CN_SHARED_MEMORY_CHUNK_BYTES,
	CN_SHARED_MEMORY_OFFSET,
	CN_SHARED_MEMORY_BYTES,
	CN_SHARED_MEMORY_DEVICE
};
/* CN_MESSAGE_MEMORY_CLOSED: everything that was opened over this connection. */
enum { CN_SHARED_MEMORY_ALL = 0 };

/* ---- fabric.c ---- */

/* Make this process's fabric port, if there is none yet. CUDA_ERROR_NOT_PERMITTED: it has no channel. */
CUresult cn_fabric_port_open(void);
/* The port is open: its name, and the number of its channel. */
const unsigned char *cn_fabric_port_name(void);
int32_t cn_fabric_port_channel(void);

#endif
