/* SPDX-License-Identifier: MIT */
/*
 * cenoted: keeps memory by name after the process that made it.
 *
 * All that it knows is in one memory file, the state, which it maps and which the manager keeps beside the descriptors
 * (daemon.h). So nothing has to be written down when the daemon ends, however it ends: the next one maps the same file.
 * A record is filled in first, and then one store of its state makes it count; whatever the daemon had begun and not
 * finished is undone when the state is read again (cn_keeper_restore()). Each descriptor has a slot, whose number is
 * its name with the manager.
 *
 * One thread does everything and waits for nothing but its epoll. It maps no memory that a program can change; it
 * closes what came from a program where closing cannot wait (closing.h); every table has a bound, and each user a
 * share of it.
 *
 *	keeper_state.c     the state file, slots, and reading both again
 *	keeper_object.c    objects by name, the processes that hold them, users and their limits
 *	keeper_calls.c     what programs ask
 *	keeper_serve.c     connections
 *	keeper_main.c      options
 */
#ifndef CN_KEEPER_KEEPER_H
#define CN_KEEPER_KEEPER_H

#include "share/kept/kept.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
	CN_KEEPER_OBJECTS_MAX = 16384,
	CN_KEEPER_SLOTS_MAX = 32000, /* so that all their names fit in one variable of the environment */
	CN_KEEPER_PROCESSES_MAX = 4096,
	CN_KEEPER_HOLDS_MAX = 65536,
	CN_KEEPER_USERS_MAX = 1024,
	CN_KEEPER_CONNECTIONS_MAX = 1024,
	CN_KEEPER_NONE = 0xffffffff,
};

/* ---- The state file ---- */

struct cn_keeper_object {
	_Atomic uint32_t state; /* enum cn_kept_state; CN_KEPT_NONE: free */
	uint32_t flags, mode, part_count;
	uint32_t user, group, device, location;
	uint64_t generation;
	uint64_t created_ns, committed_ns;
	unsigned char uuid[16];
	char name[CN_KEPT_NAME_BYTES];
	uint64_t part_bytes[CN_KEPT_PARTS_MAX];
	uint16_t slots[CN_KEPT_DESCRIPTORS_MAX]; /* of the parts; after them of the description, if there is one */
	uint16_t has_description;
};

struct cn_keeper_process {
	_Atomic uint32_t pid; /* 0: free */
	uint32_t user;
	uint64_t start; /* cn_daemon_process_start() */
};

struct cn_keeper_hold {
	_Atomic uint32_t state; /* 1: it counts */
	uint32_t process, object;
	_Atomic uint32_t writes;
	uint64_t number; /* drawn by the program */
};

enum { CN_KEEPER_STATE_MAGIC = 0x5353ce01 };
struct cn_keeper_state {
	uint32_t magic, bytes; /* another size is another version's */
	uint64_t epoch;
	uint64_t last_generation;
	struct cn_keeper_object objects[CN_KEEPER_OBJECTS_MAX];
	struct cn_keeper_process processes[CN_KEEPER_PROCESSES_MAX];
	struct cn_keeper_hold holds[CN_KEEPER_HOLDS_MAX];
};

/* ---- What is known beside it, and made anew from it ---- */

struct cn_keeper_limits { /* of a user */
	uint64_t bytes;
	uint32_t objects, descriptors, holds, connections;
};

struct cn_keeper_user {
	uint32_t user, used; /* 0: free */
	uint64_t bytes;
	uint32_t objects, descriptors, holds, connections;
};

struct cn_keeper_connection {
	int fd;
	uint32_t user, group;
	pid_t pid;
	struct cn_keeper_user *counted;
	uint64_t deadline_ns;
	bool watches;
	char prefix[CN_KEPT_NAME_BYTES];
	struct cn_keeper_connection *next, *before;
};

/* Free records of a table, and how many were ever used. */
struct cn_keeper_free {
	uint32_t *numbers, count, used, room;
};

struct cn_keeper {
	struct cn_keeper_state *state;
	struct cn_keeper_limits limits;
	int listen_fd, epoll_fd, signal_fd;
	bool is_ending;
	int *slot_fds; /* -1: free */
	struct cn_keeper_free free_slots, free_objects, free_processes, free_holds;
	uint32_t *name_heads, *name_next;   /* objects by a hash of their names */
	uint32_t *holder_counts;            /* of objects */
	uint32_t *writers;                  /* holds that write an object, or NONE */
	int *pidfds;                        /* of processes */
	uint32_t *first_holds, *next_holds; /* of processes; of holds */
	struct cn_keeper_user *users;
	struct cn_keeper_connection *connections; /* newest first */
	unsigned connection_count;
};

/* ---- keeper_state.c ---- */

/* Make the state, or take it and the descriptors from what the manager kept. False, and a line in the log. */
struct cn_daemon_given;
bool cn_keeper_start(struct cn_keeper *keeper, const struct cn_daemon_given *given);

uint32_t cn_keeper_take_number(struct cn_keeper_free *numbers); /* CN_KEEPER_NONE: all are in use */
void cn_keeper_give_number(struct cn_keeper_free *numbers, uint32_t number);

/* Keep a descriptor in a slot, and with the manager. False: it stays the caller's. */
bool cn_keeper_slot_fill(struct cn_keeper *keeper, int fd, uint16_t *ret_slot);
void cn_keeper_slot_empty(struct cn_keeper *keeper, uint16_t slot);

/* ---- keeper_object.c ---- */

uint64_t cn_keeper_bytes(const struct cn_keeper_object *object);
static inline uint32_t cn_keeper_descriptors(const struct cn_keeper_object *object)
{
	return object->part_count + (object->has_description ? 1 : 0);
}
static inline uint32_t cn_keeper_state_of(const struct cn_keeper_object *object)
{
	return atomic_load_explicit(&object->state, memory_order_relaxed);
}

/* The counts of a user; NULL: there are too many users. */
struct cn_keeper_user *cn_keeper_user(struct cn_keeper *keeper, uint32_t user);

/* The newest object of a name in this state; CN_KEEPER_NONE: there is none. `generation` 0: any. */
uint32_t cn_keeper_find(struct cn_keeper *keeper, const char *name, uint64_t generation, uint32_t state);
/* A record is filled in: let it count, in this state. */
void cn_keeper_object_add(struct cn_keeper *keeper, uint32_t number, uint32_t state);
/* No new openings; gone when no process holds it. */
void cn_keeper_object_retire(struct cn_keeper *keeper, uint32_t number);
/* The memory of a commit has been checked: readers may have it, and older generations are retired. */
void cn_keeper_object_commit(struct cn_keeper *keeper, uint32_t number);
/* Forget it, and close its descriptors. */
void cn_keeper_object_drop(struct cn_keeper *keeper, uint32_t number);

/* The process at the other end of a connection; it is watched from now on. A refusal: it is not seen. */
enum cn_kept_refusal cn_keeper_process_find(struct cn_keeper *keeper, const struct cn_keeper_connection *connection,
					    uint32_t *ret_process);
/* Its openings end. */
void cn_keeper_process_end(struct cn_keeper *keeper, uint32_t process);
/* The same, if it is gone. */
void cn_keeper_process_look(struct cn_keeper *keeper, uint32_t process);
/* Watch it from now on; false: it is gone. */
bool cn_keeper_process_watch(struct cn_keeper *keeper, uint32_t process, int pidfd);

/* The opening that a process knows by this number; CN_KEEPER_NONE. */
uint32_t cn_keeper_hold_find(struct cn_keeper *keeper, uint32_t process, uint64_t number);
enum cn_kept_refusal cn_keeper_hold_add(struct cn_keeper *keeper, uint32_t process, uint32_t object, uint64_t number,
					bool writes);
/* Count what is in the record already. */
void cn_keeper_hold_enter(struct cn_keeper *keeper, uint32_t hold);
void cn_keeper_hold_end(struct cn_keeper *keeper, uint32_t hold);

/* ---- keeper_calls.c ---- */

/* Answer a request. What came with it and was not kept is closed by the caller. */
void cn_keeper_answer(struct cn_keeper *keeper, struct cn_keeper_connection *connection, struct cn_kept_parcel *request,
		      struct cn_kept_parcel *reply);
/* May the program at the other end know of an object? */
bool cn_keeper_may_see(const struct cn_keeper_connection *connection, const struct cn_keeper_object *object);
/* Fill in a message about an object. */
void cn_keeper_describe(struct cn_keeper *keeper, uint32_t number, struct cn_kept_message *message);

/* ---- keeper_serve.c ---- */

/* What epoll reports: which table, and which record. */
enum cn_keeper_source { CN_KEEPER_LISTENS, CN_KEEPER_SIGNALS, CN_KEEPER_PROCESS, CN_KEEPER_CONNECTION };
static inline uint64_t cn_keeper_key(enum cn_keeper_source source, uint64_t number)
{
	return (uint64_t)source << 48 | number; /* a pointer has 47 bits */
}

/* Tell the watchers of a name that its object has come to a state. */
void cn_keeper_tell(struct cn_keeper *keeper, uint32_t object, uint32_t state);
/* Block the signals that end it, and let epoll report them and callers. */
bool cn_keeper_begin(struct cn_keeper *keeper);
/* Do what epoll reports, for which it waits so long: how much that was, or -1. */
int cn_keeper_turn(struct cn_keeper *keeper, int timeout_ms);
/* Serve until a signal asks to end. False: it could not begin. */
bool cn_keeper_serve(struct cn_keeper *keeper);

#endif
