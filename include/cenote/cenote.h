/* SPDX-License-Identifier: MIT */
/*
 * cenote.h: what CUDA leaves to its users.
 *
 * The CUDA API itself is in cuda.h and cuda_runtime_api.h, ours or NVIDIA's: this header works with either (include
 * NVIDIA's first to use it; otherwise ours, beside this file, is taken).
 *
 *   Errors       cenote_last_error()
 *   Descriptors  cenote_send_descriptor(), cenote_recv_descriptor(): exported memory on its way to another process
 *   Sharing      cenote_send_pool(), cenote_send_block() and their other ends: a pool, and a block with the event that
 *                says when it is ready, on their way to another process
 *   Pools        cenote_pool_stats(): how a memory pool is doing; cenote_pool_importers(), cenote_pool_watch(),
 *                cenote_pool_limit(), cenote_pool_evict(): who has imported it, and what they may
 *   Surveys      cenote_survey(), cenote_survey_picture(): which processes share what, and who holds it
 *   Housekeeping cenote_sweep(): names that processes left behind; cenote_device_kind(), cenote_driver_library(): what
 *                is under this process
 *   Kernels      CENOTE_KERNEL, cenote_thread: kernels of the host device, written in C
 */
#ifndef CENOTE_H
#define CENOTE_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#define CENOTE_ALIGNOF alignof
#else
#define CENOTE_ALIGNOF _Alignof
#endif

#define CENOTE_API __attribute__((visibility("default")))

#define CENOTE_VERSION_MAJOR 0
#define CENOTE_VERSION_MINOR 2
#define CENOTE_VERSION_PATCH 0

/*
 * Why the last call failed, as a sentence.
 *
 * Every call of Cenote that fails in this thread leaves one beside CUDA's code; a call that succeeds leaves it alone,
 * as errno. Returns "" before the first failure, never NULL. The text is the thread's own and valid until its next
 * failure. With CENOTE_LOG=debug in the environment, each sentence is also printed to standard error, with the process,
 * the call and the code: cenote[1234] cuMemAlloc: INVALID_VALUE: an allocation of 0 bytes
 */
CENOTE_API const char *cenote_last_error(void);

/*
 * Send a descriptor, such as cuMemExportToShareableHandle() makes, to another process over a Unix socket.
 *
 * The socket may be of any type, stream, sequenced packets or datagrams, and must be connected. The receiver calls
 * cenote_recv_descriptor(): the descriptor travels with a message of ours, eight bytes, by which the receiver knows it.
 * Other messages may be sent before and after. The receiver gets a descriptor of its own; the one given here stays open
 * and the caller's, and may be closed at once. Waits while the socket is full, and goes on after a signal; raises no
 * SIGPIPE. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or descriptor is not open
 *   CUDA_ERROR_NOT_READY         the socket is full and does not wait (O_NONBLOCK), or not longer (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, or the socket failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_descriptor(int sock, int descriptor);

/*
 * Receive a descriptor that cenote_send_descriptor() sent.
 *
 * *ret_descriptor is the caller's to close. It is closed on exec, and is never 0, 1 or 2. Waits until a message comes,
 * and goes on after a signal. Needs no cuInit(). Thread-safe; of two threads that receive from one stream at the same
 * time each may get a part of a message, so one at a time there.
 *
 * The sender is not trusted: descriptors that come with any other message, or more than one, are closed. What they lead
 * to is not looked at; cuMemImportFromShareableHandle() does that.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or ret_descriptor is NULL
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message, or came without a descriptor or with several
 *   CUDA_ERROR_NOT_READY         nothing came and the socket does not wait (O_NONBLOCK), or not longer (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone (a datagram socket does not tell), the process may not open any
 *                                more descriptors, or the socket failed: cenote_last_error() says how
 *
 * After INVALID_HANDLE or OPERATING_SYSTEM what had come is gone. A stream may then stand in the middle of a message:
 * close it.
 */
CENOTE_API CUresult cenote_recv_descriptor(int sock, int *ret_descriptor);

/* What sharing a pool is limited to; see the calls below for what happens then. */
#define CENOTE_POOL_IMPORTERS_MAX       1024          /* importers, each with any number of imports */
#define CENOTE_POOL_EXPORTED_BLOCKS_MAX 4194303       /* blocks that are exported at the same time */
#define CENOTE_POOL_RANGE_BYTES_MAX     1099511627776 /* range of a pool that can be imported */

/*
 * Send a pool to another process over a Unix socket.
 *
 * The same as cuMemPoolExportToShareableHandle(), cenote_send_descriptor() and close(): the receiver calls
 * cenote_recv_pool(), or cenote_recv_descriptor() and cuMemPoolImportFromShareableHandle(). Any number of processes may
 * be sent the pool, now or later; whoever has received it may import it as long as the pool lives. Waits for no stream,
 * but like cenote_send_descriptor() for a socket that is full. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live one, is imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; sock is not a Unix socket
 *   CUDA_ERROR_NOT_PERMITTED     the pool was created for CU_MEM_HANDLE_TYPE_FABRIC too, and the process has no channel
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_NOT_READY         the socket is full and does not wait (O_NONBLOCK), or not longer (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, the process may not open any more descriptors, or the socket
 *                                failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_pool(int sock, CUmemoryPool pool);

/*
 * Receive a pool that cenote_send_pool() sent, and import it.
 *
 * *ret_pool is destroyed with cuMemPoolDestroy() when the blocks imported from it have been freed, and once for each
 * time that the pool was imported: the same pool has the same handle. Waits until a message comes. The exporter's
 * process must live, and is asked for nothing before the first block is imported, unless its descriptor does not say
 * where the pool is: then it is asked at once, and has a few seconds to answer. Thread-safe, within the limits of
 * cenote_recv_descriptor().
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or ret_pool is NULL
 *   CUDA_ERROR_UNKNOWN           the descriptor that came leads to no pool, or to one that is gone with its exporter
 *   CUDA_ERROR_NOT_SUPPORTED     it leads to memory of cuMemCreate()
 *   CUDA_ERROR_INVALID_DEVICE    the pool is of a device that this process may not see (CUDA_VISIBLE_DEVICES)
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message, or came without a descriptor or with several
 *   CUDA_ERROR_NOT_READY         nothing came and the socket does not wait (O_NONBLOCK), or not longer (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side or the pool's exporter is gone or does not answer, the process may not
 *                                open any more descriptors, or the socket failed: cenote_last_error() says how
 *   CUDA_ERROR_OUT_OF_MEMORY     no memory or no addresses for what is imported
 *
 * After an error other than INVALID_VALUE and NOT_READY what had come is gone, and a stream may stand in the middle of
 * a message.
 */
CENOTE_API CUresult cenote_recv_pool(int sock, CUmemoryPool *ret_pool);

/*
 * Send a block of a shared pool to a process that has imported the pool, with the event that says when it is ready.
 *
 * `block` is what was allocated here, from a pool that has been sent or exported before. `ready` is an event of this
 * process, made with CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING and recorded behind the allocation and whatever
 * fills it; NULL when there is nothing to wait for. What is recorded when the receiver's stream waits for it counts, so
 * record before sending. The event stays the caller's, and must live until the receiver has got it.
 *
 * The receiver calls cenote_recv_block(). The message is 144 bytes, with no descriptor: cuMemPoolExportPointer()'s data
 * and cuIpcGetEventHandle()'s handle. A block may be sent any number of times, to any number of processes. The block
 * stays the caller's to free, in its time; freed before the receivers have freed theirs, it comes back to the pool when
 * the last of them has. Waits for no stream, but like cenote_send_descriptor() for a socket that is full. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     no block of a pool that has been exported begins at block; sock is not a Unix socket
 *   CUDA_ERROR_INVALID_HANDLE    ready is not a live event, was made without CU_EVENT_INTERPROCESS, or was opened from
 *                                a handle
 *   CUDA_ERROR_INVALID_CONTEXT   there is a ready event, and no context is current
 *   CUDA_ERROR_OUT_OF_MEMORY     four million blocks of the pool are exported already, or there is no memory for it
 *   CUDA_ERROR_NOT_READY         the socket is full and does not wait (O_NONBLOCK), or not longer (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, or the socket failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_block(int sock, CUdeviceptr block, CUevent ready);

/*
 * Receive a block that cenote_send_block() sent, and import it.
 *
 * imported_pool is the pool from which the block was allocated, as cenote_recv_pool() or
 * cuMemPoolImportFromShareableHandle() gave it. *ret_block is the first byte of the block here; it is freed with
 * cuMemFreeAsync() or cuMemFree(), once for each time it was received. *ret_ready is an event of the current context
 * to be destroyed with cuEventDestroy(), or NULL if none was sent: let a stream wait for it (cuStreamWaitEvent) before
 * that stream uses the block. Waits until a message comes, and for no stream. Thread-safe, within the limits of
 * cenote_recv_descriptor().
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_CONTEXT   no context is current; or the event that came is this process's own
 *   CUDA_ERROR_INVALID_VALUE     imported_pool is not a live pool that was imported, ret_block or ret_ready is NULL,
 *                                sock is not a Unix socket; or the block that came is of another pool, has been freed
 *                                by its exporter, or its exporter is gone or has shut this process out
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message
 *   CUDA_ERROR_MAP_FAILED        the event that came does not live any more, its process is gone, or it is none
 *   CUDA_ERROR_OUT_OF_MEMORY     the exporter's limit (cenote_pool_limit) would be passed, or there is no memory
 *   CUDA_ERROR_NOT_READY         nothing came and the socket does not wait (O_NONBLOCK), or not longer (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone or does not answer, or the socket failed: cenote_last_error()
 *                                says how
 *
 * If what came was at fault and not the arguments, it is gone, and nothing is held. A stream may then stand in the
 * middle of a message.
 */
CENOTE_API CUresult cenote_recv_block(int sock, CUmemoryPool imported_pool, CUdeviceptr *ret_block, CUevent *ret_ready);

/*
 * How a pool is doing.
 *
 * Sizes are in bytes. `used` is what was asked for; `reserved` what the pool has from the system. The reuse counts
 * say which rule found the memory of each allocation so far, in the order in which the rules are tried; each
 * allocation counts once.
 */
typedef struct cenote_pool_statistics {
	unsigned long long used_bytes, used_high_bytes;         /* now, and the most since the mark was reset */
	unsigned long long reserved_bytes, reserved_high_bytes; /* the same */
	unsigned long long largest_free_bytes;                  /* of the free blocks */
	unsigned long long free_block_count;                    /* with those whose free has not happened yet */
	unsigned long long live_block_count;
	unsigned long long metadata_bytes;          /* that Cenote keeps about the pool, outside its memory */
	unsigned long long reused_own;              /* freed in the same stream */
	unsigned long long reused_settled;          /* free, and known to be */
	unsigned long long reused_followed;         /* freed in a stream that this one waits for anyway */
	unsigned long long reused_opportunistic;    /* freed in another stream, and that happened to be done */
	unsigned long long reused_waiting;          /* waits inserted: the stream waits for another stream's free */
	unsigned long long grown;                   /* new memory from the system */
	unsigned long long free_blocks_by_size[40]; /* [i]: free blocks of 2^i to 2^(i+1) - 1 bytes */
	unsigned long long exported_block_count;    /* blocks that were exported and have not come back to the pool */
	unsigned long long importer_count;          /* those who hold nothing and those who are leaving included */
	unsigned long long deferred_block_count;    /* blocks that were freed here and that an importer still holds */
	unsigned long long deferred_bytes;
} cenote_pool_statistics;

/*
 * Read a pool's statistics: cenote_pool_stats(pool, &statistics, sizeof statistics).
 *
 * The structure may grow at its end in later versions: room_bytes says how much of it the caller knows, and only that
 * is written. Looks at every block of the pool, so not for an inner loop; other threads may allocate and free
 * meanwhile. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, or is imported; ret_statistics is NULL, or room_bytes is more
 *                               than this library knows
 */
CENOTE_API CUresult cenote_pool_stats(CUmemoryPool pool, cenote_pool_statistics *ret_statistics, size_t room_bytes);

/*
 * Draw a pool's memory as text: lines of 64 characters, each character an equal part of the range that was used so far.
 *
 *     #  most of it is in blocks that live       o  … in blocks that were freed, and wait for their stream's next use
 *     .  … free for anybody                      _  … without memory: given back to the system
 *
 * Writes as many whole lines as fit into room_bytes with the zero at the end, at most 64 of them. As costly as
 * cenote_pool_stats(). Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, or is imported; ret_text is NULL, or there is no room for a
 *                               line: 66 bytes
 */
CENOTE_API CUresult cenote_pool_picture(CUmemoryPool pool, char *ret_text, size_t room_bytes);

/*
 * One who has imported a pool.
 *
 * What it holds is its own word, which only it can write: a peer that lies delays the return of blocks and no more.
 */
typedef struct cenote_importer {
	unsigned long long id; /* for cenote_pool_evict(); never used twice in a process */
	int pid;               /* as this process sees it; 0: it cannot, the importer is in another PID namespace */
	unsigned int uid;
	int leaving; /* 1: its connection has ended, by its death, its cuMemPoolDestroy() or cenote_pool_evict(), and
			it is not known yet to have let go of what it held */
	int unused;
	unsigned long long held_block_count, held_bytes;         /* imported and not freed, each block once */
	unsigned long long deferred_block_count, deferred_bytes; /* of those, freed here already: they wait for it */
	unsigned long long joined_ns;        /* when it imported the pool: CLOCK_MONOTONIC, in nanoseconds */
	unsigned long long waiting_since_ns; /* when the oldest of the deferred ones was freed; 0: there are none */
} cenote_importer;

/*
 * Who has imported a pool, and what they hold: cenote_pool_importers(pool, list, sizeof *list, room, &count).
 *
 * Fills in at most `room` of ret_importers, the youngest first, and sets *ret_count to how many there are, which may be
 * more; with room 0 they are only counted, and ret_importers may be NULL. A process is there from the first pointer
 * that it imports on; one that has imported the pool twice is there once. The structure may grow at its end in later
 * versions: importer_bytes says how much of it the caller knows, and the entries are that far apart.
 *
 * Looks at every deferred block for each importer, so not for an inner loop; others come, go, import and free
 * meanwhile. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, or is itself imported; ret_count is NULL; with room for any,
 *                               ret_importers is NULL, or importer_bytes is 0 or more than this library knows
 *   CUDA_ERROR_OUT_OF_MEMORY    no host memory for the list
 */
CENOTE_API CUresult cenote_pool_importers(CUmemoryPool pool, cenote_importer *ret_importers, size_t importer_bytes,
					  size_t room, size_t *ret_count);

/*
 * A descriptor that becomes readable when somebody imports the pool or leaves it: for poll(), select() and epoll.
 *
 * An eventfd: reading its 8 bytes tells how many have come or gone since it was last read, and makes it unreadable
 * again; a read when nothing has happened fails with EAGAIN and does not wait. Who it was says cenote_pool_importers().
 * A process that is killed counts twice if it is noticed in two steps: when its connection ends, and when it is gone.
 *
 * All descriptors of one pool share one count: one reader should read it. *ret_descriptor is the caller's to close, is
 * closed on exec, and may outlive the pool, after which it tells no more. Watching makes the pool a shared one, as if
 * it had been exported. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live one, is itself imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; ret_descriptor is NULL
 *   CUDA_ERROR_NOT_PERMITTED     as with cenote_send_pool()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_OPERATING_SYSTEM  no descriptor could be made: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_pool_watch(CUmemoryPool pool, int *ret_descriptor);

/*
 * Shut an importer out: one that has hung, or is not wanted any more.
 *
 * Returns at once. From soon after on the importer's calls fail that would import a pointer, and the importer is shown
 * as leaving. What it has imported it can still read and write until it frees it: its memory cannot be taken away, and
 * is not given to anybody else. Its blocks come back to the pool when it has freed them or its process is gone.
 * Shutting out one that is leaving already changes nothing. A process that has the pool's descriptor may import it
 * again. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live one, or is itself imported
 *   CUDA_ERROR_NOT_FOUND        it has no importer of this id, or not any more
 */
CENOTE_API CUresult cenote_pool_evict(CUmemoryPool pool, unsigned long long importer);

/*
 * Limit how much of a pool each of its importers may hold at a time: bytes_per_importer, or 0 for no limit, as it is in
 * the beginning.
 *
 * An import that would pass the limit fails with CUDA_ERROR_OUT_OF_MEMORY; the sizes of the blocks count, a block that
 * is imported twice once, and one that was freed until its stream has come to it. What is held already stays held. The
 * limit is kept by the importer's own library: it keeps honest programs in their bounds, against the others there is
 * cenote_pool_evict(). Takes effect for imports from now on. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live one, is itself imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
 *   CUDA_ERROR_NOT_PERMITTED     as with cenote_send_pool()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_OPERATING_SYSTEM  the pool could not be made a shared one: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_pool_limit(CUmemoryPool pool, size_t bytes_per_importer);

/*
 * A name by which a process can be found, when all that another one has is a handle of 64 bytes, or when it wants to
 * know what is shared (cenote_survey): a socket in a directory, and beside it a file that is locked as long as the
 * process lives. A process has one from the time it first exports a pool or gives out such a handle.
 */
typedef struct cenote_name {
	const char *directory; /* its path; valid during the call, as is `name` */
	const char *name;      /* 32 hexadecimal digits; NULL: this is about the directory itself */
	int live;              /* 1: its process lives */
	int removed;           /* 1: its process does not, and the name has been taken away */
} cenote_name;

#define CENOTE_SWEEP_LOOK 1u /* take nothing away */

/*
 * Take away the names of processes that have ended without doing so: killed ones.
 *
 * They do no harm, and whoever makes a name sweeps as well; this is for those who want to see it done, or to see who is
 * there. It looks where names of this user may stand: in the runtime directory (CENOTE_RUNTIME_DIR; where that is not
 * set, in both that may be it, /run/user/UID/cenote and /tmp/cenote-UID) and in the user's folder of the fabric
 * directory (CENOTE_FABRIC_DIR, else /tmp/cenote-fabric). `found`, if it is not NULL, is called for each directory that
 * is there, with `name` NULL, and then for each name in it. It may call anything but CUDA and Cenote.
 *
 * A name of a live process is never taken away: the kernel keeps the lock for the process, in whatever container it is.
 * With CENOTE_SWEEP_LOOK in flags, nothing is. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     flags has bits that are not known
 *   CUDA_ERROR_OPERATING_SYSTEM  a variable does not name a directory, or one belongs to another user, is a link, or
 *                                cannot be read: cenote_last_error() says which; the others have been looked through
 */
CENOTE_API CUresult cenote_sweep(unsigned int flags, void (*found)(const cenote_name *name, void *data), void *data);

/*
 * A process that shares something: one that has exported a pool, or given out a handle of 64 bytes.
 *
 * What it is and has is its own word, made printable; `pid`, `uid`, `directory` and `name` are not.
 */
typedef struct cenote_process {
	int pid;       /* as this process sees it; 0: it cannot, the process is in another PID namespace */
	int pid_there; /* as the process sees itself */
	unsigned int uid;
	int answers;           /* 0: it is there, but does not say what it has: stopped, busy, or of another version */
	const char *program;   /* what it runs, at most 31 characters of ASCII; "": it does not say */
	const char *directory; /* the path of the directory where it can be called, … */
	const char *name;      /* … and the name it has there, as with cenote_sweep() */
	unsigned long long pool_count;   /* pools that it has exported and not destroyed */
	unsigned long long opener_count; /* processes that have opened events or memory of it by handles of 64 bytes */
	int on_gpu; /* 1: its device is a GPU, whose driver shares its events and all its memory but the pools: who has
		       those open is not known */
	int unused;
} cenote_process;

/* A pool that a process has exported. */
typedef struct cenote_shared_pool {
	unsigned long long id; /* random, and the same as long as the pool lives; not 0 */
	int location_type;     /* where its memory is: CUmemLocationType, … */
	int location_id;       /* … and the number of the device, as the machine counts, or of the NUMA node */
	unsigned long long used_bytes; /* as in cenote_pool_statistics, as are the following */
	unsigned long long reserved_bytes;
	unsigned long long exported_block_count, exported_bytes;
	unsigned long long deferred_block_count, deferred_bytes;
	unsigned long long importer_count;
	unsigned long long limit_bytes; /* of cenote_pool_limit(); 0: none */
	unsigned long long age_ns;      /* since it was first exported, in nanoseconds */
} cenote_shared_pool;

/*
 * What a process has given out by handles of 64 bytes, all of one kind together: memory of cuMemAlloc() by
 * cuIpcGetMemHandle(), or events by cuIpcGetEventHandle(), of which there are no bytes to tell.
 */
#define CENOTE_HANDLES_EVENTS 1
#define CENOTE_HANDLES_MEMORY 2

typedef struct cenote_shared_handles {
	int kind; /* CENOTE_HANDLES_… */
	int unused;
	unsigned long long shared_count, shared_bytes;     /* what has a handle and lives */
	unsigned long long deferred_count, deferred_bytes; /* what was freed or destroyed, and somebody has open */
	unsigned long long opener_count;                   /* processes that have some of both open */
	unsigned long long age_ns;                         /* since the first handle was given out, in nanoseconds */
} cenote_shared_handles;

/* Something that a survey has found. All that it points to is valid during the call. */
typedef struct cenote_shared {
	const cenote_process *process;  /* with nothing else: this is about the process itself, before what it shares */
	const cenote_shared_pool *pool; /* a pool of it; NULL: this is not about one */
	const cenote_importer *importer; /* who has imported the pool, or has opened something by a handle; NULL: this
					    is about the pool or the handles themselves, before those who have them */
	int at_least; /* 1: the importer may delay more blocks, and for longer, than its numbers say */
	const cenote_shared_handles *handles; /* what it gave out by handles; NULL: this is not about that */
} cenote_shared;

/*
 * Ask all processes that share something what they share, and who holds it.
 *
 * Those of this user are asked that can be found in the runtime directory (see cenote_sweep()), in whatever container:
 * a process has its place there from the time it first exports a pool or gives out a handle of 64 bytes. `found` is
 * called for each process, then for each of its pools, each followed by its importers, which may be any user's, then
 * for what it has given out by handles, of each kind, followed by those who have some of it open. It may call anything
 * but CUDA and Cenote, and should not take seconds: the process that is asked does not wait so long.
 *
 * In `importer`, `pid` is as this process sees it, or 0; the times are on this process's clock. Of one who has opened
 * events or memory, `held_block_count` counts what is open, as often as it is; `joined_ns` is since when it has had
 * something open without a break; `leaving` is 1 when its connection has ended and its process lives. It is not one for
 * cenote_pool_evict().
 *
 * Memory of cuMemCreate() is not told of, whether it was shared by descriptor or by fabric handle: what an importer has
 * is a descriptor, and no connection to the exporter, who does not know of it. (On the host device these are memory
 * files, which `cenote ps` looks for in /proc.) Pools that were imported by fabric handle are told like others.
 *
 * The processes answer by themselves, whatever their programs do, and are not held up. What they say is not of one
 * moment: what comes and goes meanwhile is told or not told. One that is stopped delays the survey by two seconds. This
 * process's own pools are told like all others. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     flags is not 0, or found is NULL
 *   CUDA_ERROR_OPERATING_SYSTEM  the runtime directory is not an absolute path, belongs to another user, is a link, or
 *                                cannot be read: cenote_last_error() says which; where there are two, the other has
 *                                been looked through
 */
CENOTE_API CUresult cenote_survey(unsigned int flags, void (*found)(const cenote_shared *found, void *data),
				  void *data);

/* What a cell of a picture has something of: of several kinds DEFERRED, then EXPORTED, LIVE, FREED, FREE. */
#define CENOTE_CELL_LIVE           '#' /* in blocks that live */
#define CENOTE_CELL_EXPORTED       '=' /* … and are exported */
#define CENOTE_CELL_DEFERRED       '!' /* in exported blocks that were freed, and that an importer still holds */
#define CENOTE_CELL_FREED          'o' /* in blocks that were freed, and wait for their stream's next use */
#define CENOTE_CELL_FREE           '.' /* free for anybody */
#define CENOTE_CELL_WITHOUT_MEMORY '_' /* given back to the system */
#define CENOTE_CELL_UNKNOWN        '?' /* it would have taken its owner too long to say */

#define CENOTE_CELLS_MAX       65536
#define CENOTE_HELD_BY_SEVERAL (~0ull)

typedef struct cenote_cell {
	unsigned long long importer; /* who holds blocks of this kind in the cell, the largest of those that are held:
					the id of an importer, CENOTE_HELD_BY_SEVERAL, or 0: nobody holds any, or they
					are not exported */
	int kind;                    /* CENOTE_CELL_… */
	int unused;
} cenote_cell;

/*
 * Draw the memory of a pool of any process that cenote_survey() tells of: as cell_count equal parts of the range that
 * was used so far, which is *ret_bytes long. ret_bytes may be NULL.
 *
 * `pool` is its id. The owner looks at no more than 256 blocks of a cell: where there are more, these stand for them.
 * Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_cells is NULL, or cell_count is 0 or more than CENOTE_CELLS_MAX
 *   CUDA_ERROR_NOT_FOUND         no process that can be asked has such a pool, or not any more
 *   CUDA_ERROR_OPERATING_SYSTEM  as with cenote_survey()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory
 */
CENOTE_API CUresult cenote_survey_picture(unsigned long long pool, cenote_cell *ret_cells, size_t cell_count,
					  unsigned long long *ret_bytes);

/* Which kind of device this process uses: "host" or "cuda"; "" before cuInit() has chosen. Thread-safe. */
CENOTE_API const char *cenote_device_kind(void);

/*
 * Where NVIDIA's driver is on this machine: the absolute path of its libcuda.so.1, whether this process uses it or not.
 *
 * If cuInit() has not opened it, it is looked for and opened now, and not started: CENOTE_LIBCUDA if that is set, else
 * the folders of LD_LIBRARY_PATH, the dynamic linker's cache, the usual folders. *ret_path is valid for good. Needs no
 * cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_path is NULL
 *   CUDA_ERROR_NO_DEVICE      there is none, or it cannot be used: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_driver_library(const char **ret_path);

/*
 * Kernels.
 *
 * On the host device a kernel is a C function that is called once for each thread of the launch:
 *
 *     static void scale(const cenote_thread *at, void **args)
 *     {
 *             float *x = *(float **)args[0];
 *             float by = *(float *)args[1];
 *             size_t i = (size_t)at->blockIdx.x * at->blockDim.x + at->threadIdx.x;
 *             x[i] *= by;
 *     }
 *     CENOTE_KERNEL(scale, float *, float);
 *
 * args[i] points to the launch's own copy of the i-th parameter. CENOTE_KERNEL makes the function known, together
 * with the types of its parameters (up to 16), so that a launch can copy them and so that launching anything else is
 * an error and not a jump. A kernel is launched by its address, cudaLaunchKernel((void *)scale, …), or by its name,
 * from a shared object that cuModuleLoad() opens.
 *
 * Blocks run in any order, on all cores; the threads of a block run one after the other on one core, so a kernel cannot
 * wait for another thread of its block. at->shared is the block's dynamic shared memory, not zeroed, NULL when the
 * launch asked for none.
 */
typedef struct cenote_dim {
	unsigned int x, y, z;
} cenote_dim;

typedef struct cenote_thread {
	cenote_dim gridDim, blockDim, blockIdx, threadIdx;
	void *shared;
} cenote_thread;

typedef void (*cenote_kernel_function)(const cenote_thread *at, void **args);

/* What CENOTE_KERNEL leaves in a program; not for use by hand. */
typedef struct cenote_kernel {
	unsigned int version; /* CENOTE_KERNEL_VERSION */
	unsigned int parameter_count;
	const char *name;
	cenote_kernel_function function;
	const unsigned int *parameter_bytes;
	const unsigned int *parameter_alignment;
} cenote_kernel;

#define CENOTE_KERNEL_VERSION 0x43454B01u

/*
 * Called by CENOTE_KERNEL when a program or a shared object is loaded and unloaded. Weak: a shared object with kernels
 * need not be linked with Cenote.
 */
CENOTE_API void cenote_kernel_register(const cenote_kernel *kernel) __attribute__((weak));
CENOTE_API void cenote_kernel_unregister(const cenote_kernel *kernel) __attribute__((weak));

#define CENOTE_KERNEL(name_, ...)                                                                                 \
	static const unsigned int cenote_bytes_of_##name_[] = {CENOTE_MAP_(sizeof, ##__VA_ARGS__) 0};             \
	static const unsigned int cenote_alignment_of_##name_[] = {CENOTE_MAP_(CENOTE_ALIGNOF, ##__VA_ARGS__) 0}; \
	extern CENOTE_API const cenote_kernel cenote_kernel_##name_;                                              \
	const cenote_kernel cenote_kernel_##name_ = {                                                             \
		CENOTE_KERNEL_VERSION,                                                                            \
		(unsigned int)(sizeof cenote_bytes_of_##name_ / sizeof(unsigned int)) - 1,                        \
		#name_,                                                                                           \
		name_,                                                                                            \
		cenote_bytes_of_##name_,                                                                          \
		cenote_alignment_of_##name_,                                                                      \
	};                                                                                                        \
	__attribute__((constructor)) static void cenote_register_##name_(void)                                    \
	{                                                                                                         \
		if (cenote_kernel_register)                                                                       \
			cenote_kernel_register(&cenote_kernel_##name_);                                           \
	}                                                                                                         \
	__attribute__((destructor)) static void cenote_unregister_##name_(void)                                   \
	{                                                                                                         \
		if (cenote_kernel_unregister)                                                                     \
			cenote_kernel_unregister(&cenote_kernel_##name_);                                         \
	}                                                                                                         \
	struct cenote_semicolon_after_##name_

/* f(a), f(b), … for up to 16 types; each followed by a comma. */
#define CENOTE_MAP_(f, ...)                                                                                           \
	CENOTE_PICK_(, ##__VA_ARGS__, CENOTE_M16_, CENOTE_M15_, CENOTE_M14_, CENOTE_M13_, CENOTE_M12_, CENOTE_M11_,   \
		     CENOTE_M10_, CENOTE_M9_, CENOTE_M8_, CENOTE_M7_, CENOTE_M6_, CENOTE_M5_, CENOTE_M4_, CENOTE_M3_, \
		     CENOTE_M2_, CENOTE_M1_, CENOTE_M0_)                                                              \
	(f, ##__VA_ARGS__)
#define CENOTE_PICK_(z, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, picked, ...) picked
#define CENOTE_M0_(f)
#define CENOTE_M1_(f, t)       (unsigned int)f(t),
#define CENOTE_M2_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M1_(f, __VA_ARGS__)
#define CENOTE_M3_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M2_(f, __VA_ARGS__)
#define CENOTE_M4_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M3_(f, __VA_ARGS__)
#define CENOTE_M5_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M4_(f, __VA_ARGS__)
#define CENOTE_M6_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M5_(f, __VA_ARGS__)
#define CENOTE_M7_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M6_(f, __VA_ARGS__)
#define CENOTE_M8_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M7_(f, __VA_ARGS__)
#define CENOTE_M9_(f, t, ...)  CENOTE_M1_(f, t) CENOTE_M8_(f, __VA_ARGS__)
#define CENOTE_M10_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M9_(f, __VA_ARGS__)
#define CENOTE_M11_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M10_(f, __VA_ARGS__)
#define CENOTE_M12_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M11_(f, __VA_ARGS__)
#define CENOTE_M13_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M12_(f, __VA_ARGS__)
#define CENOTE_M14_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M13_(f, __VA_ARGS__)
#define CENOTE_M15_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M14_(f, __VA_ARGS__)
#define CENOTE_M16_(f, t, ...) CENOTE_M1_(f, t) CENOTE_M15_(f, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
