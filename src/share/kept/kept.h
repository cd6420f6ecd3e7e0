/* SPDX-License-Identifier: MIT */
/*
 * Kept memory: what a program and cenoted, the daemon that keeps memory by name, say to each other.
 *
 * A message has one size, over SOCK_SEQPACKET; it comes whole or not at all. A program connects for each call, asks,
 * reads the answer and closes. What it holds does not end with the connection but with its process, which the daemon
 * watches by a pidfd: work on a device may go on after a socket is closed. So the daemon can end and start again
 * between any two calls, and a call that lost its answer is made again: the number that the program drew for the
 * opening tells the daemon that it is the same one.
 *
 * Neither side trusts the other's bytes. Names and counts are checked on both sides (cn_kept_receive()); what goes
 * beside a message is checked by the side that uses it. The daemon refuses with a number, and the program's library has
 * the sentence.
 */
#ifndef CN_SHARE_KEPT_KEPT_H
#define CN_SHARE_KEPT_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CN_KEPT_MAGIC = 0x6b65ce74,
	CN_KEPT_VERSION = 1,
	CN_KEPT_PARTS_MAX = 64,
	CN_KEPT_NAME_BYTES = 256, /* with the 0 at its end */
	CN_KEPT_LABEL_BYTES = 64, /* the same */
	CN_KEPT_BLOB_BYTES_MAX = 1 << 20,
	CN_KEPT_HOLDERS_PER_MESSAGE = 32,
	CN_KEPT_DESCRIPTORS_MAX = CN_KEPT_PARTS_MAX + 1, /* the parts, and the description after them */
	CN_KEPT_GRAIN_BYTES = 2 << 20,                   /* memory of a part is a multiple of this */
	CN_KEPT_TIMEOUT_MS = 5000,                       /* for a call, and for a connection that is silent */
};

enum cn_kept_kind {
	CN_KEPT_CREATE = 1, /* a new generation; on a GPU with its memory. The reply has memory to write, on the host */
	CN_KEPT_COMMIT,     /* the writer is done. The reply has memory to read, on the host */
	CN_KEPT_OPEN,       /* the reply has the memory and the description */
	CN_KEPT_RELEASE,    /* an opening is given up; one that writes for the first time is abandoned */
	CN_KEPT_RETIRE,     /* no new openings */
	CN_KEPT_LOOK,       /* is what is held still the newest, still known? */
	CN_KEPT_LIST,       /* the next object from a cursor */
	CN_KEPT_HOLDERS,    /* which processes hold the object at a cursor */
	CN_KEPT_WATCH,      /* from now on an EVENT for each change of names that begin so */
	CN_KEPT_EVENT,      /* from the daemon, unasked */
	CN_KEPT_ROOM,       /* a GPU's memory is used up: this user's caches there are to give way */
	CN_KEPT_KIND_COUNT,
};

enum cn_kept_state {
	CN_KEPT_NONE, /* as an event: the last holder has released it, and it is gone */
	CN_KEPT_WRITING,
	CN_KEPT_COMMITTED,
	CN_KEPT_RETIRED,
};

/* Flags of an object, as its creator chose; and of an opening. */
enum { CN_KEPT_CHANGEABLE = 1, CN_KEPT_CACHE = 2, CN_KEPT_OBJECT_FLAGS = 3, CN_KEPT_TO_WRITE = 0x100 };

/* Whose memory it is: files that the daemon makes, or a driver's. */
enum cn_kept_device { CN_KEPT_ON_HOST = 1, CN_KEPT_ON_GPU = 2 };

/* Why the daemon refuses. kept_ask.c has the sentences; numbers[] of the reply has what they mention. */
enum cn_kept_refusal {
	CN_KEPT_GRANTED,
	CN_KEPT_MALFORMED,     /* a field, or what came beside the message, is not as it must be */
	CN_KEPT_UNKNOWN,       /* no object has this name, or it is not committed */
	CN_KEPT_FORBIDDEN,     /* the mode bits or the owner do not allow it */
	CN_KEPT_BEING_WRITTEN, /* numbers[0]: by this process */
	CN_KEPT_NOT_HELD,      /* the process has no such opening: it was released, or the daemon lost what it knew */
	CN_KEPT_NOT_SEALED,    /* an immutable object whose memory can still be written */
	CN_KEPT_IMMUTABLE,     /* to be opened for writing, and is not changeable */
	CN_KEPT_TOO_MANY_OBJECTS,     /* numbers[0]: a user may have so many */
	CN_KEPT_TOO_MANY_DESCRIPTORS, /* the same */
	CN_KEPT_TOO_MANY_BYTES,       /* the same; numbers[1]: has */
	CN_KEPT_TOO_MANY_HOLDS,
	CN_KEPT_FULL,       /* the daemon's own table, descriptors or memory are used up */
	CN_KEPT_UNSEEN,     /* the daemon does not see the process: another PID namespace */
	CN_KEPT_NOT_MEMORY, /* a descriptor leads to no memory of a GPU */
	CN_KEPT_END,        /* of a list */
	CN_KEPT_REFUSAL_COUNT,
};

struct cn_kept_holder {
	uint32_t pid, user, writes, unused;
};

struct cn_kept_message {
	uint32_t magic, version, kind;
	uint32_t refusal; /* of a reply */
	uint64_t hold;    /* what names an opening: drawn at random by the program, and not 0 */
	uint64_t epoch;   /* of a reply: another number after the daemon has lost what it knew */
	uint64_t generation;
	uint64_t cursor;
	uint64_t created_ns, committed_ns; /* CLOCK_REALTIME */
	uint64_t numbers[2];
	uint32_t flags, state, mode, part_count;
	uint32_t user, group, device, location;
	uint32_t holder_count;
	uint32_t descriptor_count; /* beside this message */
	uint32_t has_description;
	uint32_t unused;
	unsigned char uuid[16]; /* of a GPU */
	char name[CN_KEPT_NAME_BYTES];
	union {
		uint64_t part_bytes[CN_KEPT_PARTS_MAX];
		struct cn_kept_holder holders[CN_KEPT_HOLDERS_PER_MESSAGE];
	};
};
_Static_assert(sizeof(struct cn_kept_message) == 912, "the same in every process");

/* A message with its descriptors. */
struct cn_kept_parcel {
	struct cn_kept_message message;
	int descriptors[CN_KEPT_DESCRIPTORS_MAX];
	unsigned descriptor_count;
};

/*
 * The description: what a reader needs to make sense of the parts, and the daemon does not look at. A memory file that
 * the writer has sealed whole: this head, a label for each part, the blob.
 */
enum { CN_KEPT_DESCRIPTION_MAGIC = 0x64706b63 };
struct cn_kept_description {
	uint32_t magic, part_count;
	uint64_t blob_bytes;
	char labels[CN_KEPT_PARTS_MAX][CN_KEPT_LABEL_BYTES];
	unsigned char blob[];
};
enum { CN_KEPT_DESCRIPTION_BYTES_MAX = sizeof(struct cn_kept_description) + CN_KEPT_BLOB_BYTES_MAX };

/* So much memory does a part of so many bytes have. */
static inline uint64_t cn_kept_round(uint64_t bytes)
{
	return (bytes + CN_KEPT_GRAIN_BYTES - 1) / CN_KEPT_GRAIN_BYTES * CN_KEPT_GRAIN_BYTES;
}

/* Is it a name: parts of letters, digits and ._+@:=- between single slashes, none of them . or ..? */
bool cn_kept_is_name(const char *name);
/* The beginning of one, to list or to watch; "" is all. */
bool cn_kept_is_prefix(const char *text);
/* A memory file of ordinary pages that nobody can change any more, of at most so many bytes? */
bool cn_kept_is_sealed(int fd, size_t bytes_max, size_t *ret_bytes);

/* Send without waiting: 0, or errno. Fills in magic, version and the count of descriptors. */
int cn_kept_send(int sock, struct cn_kept_parcel *parcel);
/* Receive without waiting: 0, or errno, as cn_wire_receive(). The caller owns the descriptors. */
int cn_kept_receive(int sock, struct cn_kept_parcel *ret_parcel);
/* Close what came with a message, without waiting. */
void cn_kept_discard(struct cn_kept_parcel *parcel);

#endif
