/* SPDX-License-Identifier: MIT */
/*
 * cenote.h: what CUDA leaves to its users.
 *
 * The CUDA API itself is in cuda.h and cuda_runtime_api.h, ours or NVIDIA's. This header works with either: it takes
 * ours, beside this file, unless NVIDIA's was included first.
 *
 *   Errors       cenote_last_error()
 *   Descriptors  cenote_send_descriptor(), cenote_recv_descriptor(): pass exported memory to another process
 *   Sharing      cenote_send_pool(), cenote_recv_pool(), cenote_send_block(), cenote_recv_block(): pass a pool, or a
 *                block with the event that says when it is ready, to another process
 *   Pools        cenote_pool_stats(): a memory pool's statistics; cenote_pool_importers(), cenote_pool_watch(),
 *                cenote_pool_limit(), cenote_pool_evict(): which processes have imported it, and what they may hold
 *   Kept memory  cenote_kept_create(), cenote_kept_open() and related calls: memory that outlives its maker, by name
 *   Machines     cenote_imex_look(): which nodes of a domain are up, and how much is open between them;
 *                cenote_imex_survey(): which memory is held for which node;
 *                cenote_imex_daemon(): which process serves them
 *   Surveys      cenote_survey(), cenote_survey_picture(): which processes share what, and which hold it;
 *                cenote_survey_memory(): which processes have how much memory of a device
 *   Housekeeping cenote_sweep(): names that ended processes left behind; cenote_device_kind(),
 *                cenote_driver_library(): which device and which driver this process has
 *   Checking     cenote_label(), cenote_order_sent(), cenote_order_received(): what a program tells `cenote check`
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
#define CENOTE_VERSION_MINOR 3
#define CENOTE_VERSION_PATCH 0

/*
 * Why the last call failed, as a sentence.
 *
 * Every call of Cenote that fails in this thread sets one beside CUDA's code; a call that succeeds leaves it unchanged,
 * like errno. Returns "" before the first failure, never NULL. The text belongs to the thread and is valid until its
 * next failure. With CENOTE_LOG=debug in the environment, each sentence is also printed to standard error, with the
 * process, the call and the code: cenote[1234] cuMemAlloc: INVALID_VALUE: an allocation of 0 bytes
 */
CENOTE_API const char *cenote_last_error(void);

/*
 * Send a descriptor, such as cuMemExportToShareableHandle() makes, to another process over a Unix socket.
 *
 * The socket may be of any type (stream, sequenced packets or datagrams) and must be connected. The receiver calls
 * cenote_recv_descriptor(): the descriptor travels with an eight-byte message of ours, by which the receiver recognizes
 * it. Other messages may be sent before and after. The receiver gets a descriptor of its own; the caller's stays open,
 * and may be closed at once. Waits while the socket is full, and resumes after a signal; raises no
 * SIGPIPE. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or descriptor is not open
 *   CUDA_ERROR_NOT_READY         the socket is full, and is non-blocking (O_NONBLOCK) or timed out (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, or the socket failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_descriptor(int sock, int descriptor);

/*
 * Receive a descriptor that cenote_send_descriptor() sent.
 *
 * The caller must close *ret_descriptor. It is closed on exec, and is never 0, 1 or 2. Waits until a message comes, and
 * resumes after a signal. Needs no cuInit(). Thread-safe, except that two threads that receive from one stream socket
 * at the same time may each get a part of a message: let one thread at a time receive there.
 *
 * The sender is not trusted: descriptors that come with any other message, or more than one, are closed. This call does
 * not check what the descriptor leads to; cuMemImportFromShareableHandle() does.
 *
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or ret_descriptor is NULL
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message, or came without a descriptor or with several
 *   CUDA_ERROR_NOT_READY         nothing came, and the socket is non-blocking (O_NONBLOCK) or timed out (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone (a datagram socket cannot tell), the process may not open any
 *                                more descriptors, or the socket failed: cenote_last_error() says how
 *
 * After INVALID_HANDLE or OPERATING_SYSTEM the message that came is lost. A stream socket may then be in the middle of
 * a message: close it.
 */
CENOTE_API CUresult cenote_recv_descriptor(int sock, int *ret_descriptor);

/* Limits of sharing a pool; the calls below say what happens when one is reached. */
#define CENOTE_POOL_IMPORTERS_MAX       1024          /* importers, each with any number of imports */
#define CENOTE_POOL_EXPORTED_BLOCKS_MAX 4194303       /* blocks that are exported at the same time */
#define CENOTE_POOL_RANGE_BYTES_MAX     1099511627776 /* range of a pool that can be imported */

/*
 * Send a pool to another process over a Unix socket.
 *
 * The same as cuMemPoolExportToShareableHandle(), cenote_send_descriptor() and close(): the receiver calls
 * cenote_recv_pool(), or cenote_recv_descriptor() and cuMemPoolImportFromShareableHandle(). The pool may be sent to any
 * number of processes, now or later; a process that has received it may import it as long as the pool lives. Waits for
 * no stream, but waits for a full socket like cenote_send_descriptor(). Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live pool, is imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; sock is not a Unix socket
 *   CUDA_ERROR_NOT_PERMITTED     the pool was created for CU_MEM_HANDLE_TYPE_FABRIC too, and the process has no channel
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_NOT_READY         the socket is full, and is non-blocking (O_NONBLOCK) or timed out (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, the process may not open any more descriptors, or the socket
 *                                failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_pool(int sock, CUmemoryPool pool);

/*
 * Receive a pool that cenote_send_pool() sent, and import it.
 *
 * Destroy *ret_pool with cuMemPoolDestroy() when the blocks imported from it have been freed, once for each time that
 * the pool was imported: the same pool has the same handle. Waits until a message comes. The exporter's process must be
 * alive. It is not asked for anything before the first block is imported, unless its descriptor does not say where the
 * pool is: then it is asked at once, and has a few seconds to answer. Thread-safe, within the limits of
 * cenote_recv_descriptor().
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     sock is not a Unix socket, or ret_pool is NULL
 *   CUDA_ERROR_UNKNOWN           the descriptor that came leads to no pool, or to one that is gone with its exporter
 *   CUDA_ERROR_NOT_SUPPORTED     it leads to memory of cuMemCreate()
 *   CUDA_ERROR_INVALID_DEVICE    the pool is on a device that this process may not see (CUDA_VISIBLE_DEVICES)
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message, or came without a descriptor or with several
 *   CUDA_ERROR_NOT_READY         nothing came, and the socket is non-blocking (O_NONBLOCK) or timed out (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side or the pool's exporter is gone or does not answer, the process may not
 *                                open any more descriptors, or the socket failed: cenote_last_error() says how
 *   CUDA_ERROR_OUT_OF_MEMORY     no memory or no addresses for what is imported
 *
 * After an error other than INVALID_VALUE and NOT_READY the message that came is lost, and a stream socket may be in
 * the middle of a message.
 */
CENOTE_API CUresult cenote_recv_pool(int sock, CUmemoryPool *ret_pool);

/*
 * Send a block of a shared pool to a process that has imported the pool, with the event that says when it is ready.
 *
 * `block` was allocated in this process, from a pool that has been sent or exported before. `ready` is an event of this
 * process, created with CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING and recorded after the allocation and the work
 * that fills the block; NULL when there is nothing to wait for. The receiver's stream waits for the record that is the
 * latest when it waits, so record before sending. The caller keeps the event; it must live until the receiver has it.
 *
 * The receiver calls cenote_recv_block(). The message is 144 bytes, with no descriptor: cuMemPoolExportPointer()'s data
 * and cuIpcGetEventHandle()'s handle. A block may be sent any number of times, to any number of processes. The caller
 * still frees the block; if it does so before the receivers have freed theirs, the block returns to the pool when the
 * last of them has. Waits for no stream, but waits for a full socket like cenote_send_descriptor(). Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     no block of a pool that has been exported begins at `block`; sock is not a Unix socket
 *   CUDA_ERROR_INVALID_HANDLE    ready is not a live event, was created without CU_EVENT_INTERPROCESS, or was opened
 *                                from a handle
 *   CUDA_ERROR_INVALID_CONTEXT   ready is not NULL, and no context is current
 *   CUDA_ERROR_OUT_OF_MEMORY     four million blocks of the pool are exported already, or there is no memory for it
 *   CUDA_ERROR_NOT_READY         the socket is full, and is non-blocking (O_NONBLOCK) or timed out (SO_SNDTIMEO)
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone, or the socket failed: cenote_last_error() says how
 *
 * After an error nothing has been sent.
 */
CENOTE_API CUresult cenote_send_block(int sock, CUdeviceptr block, CUevent ready);

/*
 * Receive a block that cenote_send_block() sent, and import it.
 *
 * imported_pool is the pool from which the block was allocated, as cenote_recv_pool() or
 * cuMemPoolImportFromShareableHandle() returned it. *ret_block is the first byte of the block in this process; free it
 * with cuMemFreeAsync() or cuMemFree(), once for each time it was received. *ret_ready is an event of the current
 * context, to be destroyed with cuEventDestroy(), or NULL if none was sent: let a stream wait for it
 * (cuStreamWaitEvent) before that stream uses the block. Waits until a message comes, and for no stream. Thread-safe,
 * within the limits of cenote_recv_descriptor().
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_CONTEXT   no context is current; or the event that came is this process's own
 *   CUDA_ERROR_INVALID_VALUE     imported_pool is not a live imported pool, ret_block or ret_ready is NULL, sock is not
 *                                a Unix socket; or the block that came is of another pool, has been freed by its
 *                                exporter, or its exporter is gone or has shut this process out
 *   CUDA_ERROR_INVALID_HANDLE    what came is another message
 *   CUDA_ERROR_MAP_FAILED        the event that came is not live, its process is gone, or it is no event
 *   CUDA_ERROR_OUT_OF_MEMORY     the exporter's limit (cenote_pool_limit) would be exceeded, or there is no memory
 *   CUDA_ERROR_NOT_READY         nothing came, and the socket is non-blocking (O_NONBLOCK) or timed out (SO_RCVTIMEO):
 *                                nothing is lost, call again
 *   CUDA_ERROR_OPERATING_SYSTEM  the other side is gone or does not answer, or the socket failed: cenote_last_error()
 *                                says how
 *
 * If the message and not an argument was at fault, the message is lost, and nothing is held. A stream socket may then
 * be in the middle of a message.
 */
CENOTE_API CUresult cenote_recv_block(int sock, CUmemoryPool imported_pool, CUdeviceptr *ret_block, CUevent *ret_ready);

/*
 * Statistics of a pool.
 *
 * Sizes are in bytes. `used` is what the program asked for; `reserved` is what the pool has from the system. The reuse
 * counts say which rule found the memory of each allocation so far, in the order in which the rules are tried; each
 * allocation counts once.
 */
typedef struct cenote_pool_statistics {
	unsigned long long used_bytes, used_high_bytes;         /* now, and the most since the mark was reset */
	unsigned long long reserved_bytes, reserved_high_bytes; /* the same */
	unsigned long long largest_free_bytes;                  /* the largest free block */
	unsigned long long free_block_count;                    /* includes those whose free has not happened yet */
	unsigned long long live_block_count;
	unsigned long long metadata_bytes;          /* Cenote's own data about the pool, outside the pool's memory */
	unsigned long long reused_own;              /* freed in the same stream */
	unsigned long long reused_settled;          /* its free is known to have happened */
	unsigned long long reused_followed;         /* freed in a stream that this one waits for anyway */
	unsigned long long reused_opportunistic;    /* freed in another stream, whose free happened to be done */
	unsigned long long reused_waiting;          /* waits inserted: the stream waits for another stream's free */
	unsigned long long grown;                   /* new memory from the system */
	unsigned long long free_blocks_by_size[40]; /* [i]: free blocks of 2^i to 2^(i+1) - 1 bytes */
	unsigned long long exported_block_count;    /* blocks that were exported and have not returned to the pool */
	unsigned long long importer_count;          /* includes those that hold nothing or are leaving */
	unsigned long long deferred_block_count;    /* blocks that were freed here and that an importer still holds */
	unsigned long long deferred_bytes;
} cenote_pool_statistics;

/*
 * Read a pool's statistics: cenote_pool_stats(pool, &statistics, sizeof statistics).
 *
 * The structure may grow at its end in later versions: room_bytes says how much of it the caller knows, and only that
 * much is written. The call looks at every block of the pool, so do not call it in an inner loop; other threads may
 * allocate and free meanwhile. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live pool, or is imported; ret_statistics is NULL, or room_bytes is more
 *                               than this library knows
 */
CENOTE_API CUresult cenote_pool_stats(CUmemoryPool pool, cenote_pool_statistics *ret_statistics, size_t room_bytes);

/*
 * Draw a pool's memory as text: lines of 64 characters, each character an equal part of the range that was used so far.
 *
 *     #  mostly in live blocks                   o  … in blocks that were freed, and wait for their stream's next use
 *     .  … free for any stream                   _  … without memory: given back to the system
 *
 * Writes as many whole lines as fit into room_bytes with the terminating zero, at most 64. As costly as
 * cenote_pool_stats(). Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live pool, or is imported; ret_text is NULL, or there is no room for a
 *                               line: 66 bytes
 */
CENOTE_API CUresult cenote_pool_picture(CUmemoryPool pool, char *ret_text, size_t room_bytes);

/*
 * An importer of a pool.
 *
 * What it holds is what it says it holds, and only it can write that: a peer that lies delays the return of blocks, and
 * can do no more.
 */
typedef struct cenote_importer {
	unsigned long long id; /* for cenote_pool_evict(); never used twice in a process */
	int pid;               /* as this process sees it; 0: not visible, the importer is in another PID namespace */
	unsigned int uid;
	int leaving; /* 1: its connection has ended, by its death, its cuMemPoolDestroy() or cenote_pool_evict(), and it
			is not yet known to have released what it held */
	int node; /* the machine for which it holds, by its number in the domain: then it is cenote-imexd, once for each
		     process there that has imported the pool. 0: it holds for itself */
	unsigned long long held_block_count, held_bytes;         /* imported and not freed, each block once */
	unsigned long long deferred_block_count, deferred_bytes; /* of those, freed by the exporter: they wait for it */
	unsigned long long joined_ns;        /* when it imported the pool: CLOCK_MONOTONIC, in nanoseconds */
	unsigned long long waiting_since_ns; /* when the oldest deferred block was freed; 0: none is deferred */
} cenote_importer;

/*
 * List the importers of a pool, and what they hold: cenote_pool_importers(pool, list, sizeof *list, room, &count).
 *
 * Fills in at most `room` entries of ret_importers, the youngest first, and sets *ret_count to the number of importers,
 * which may be larger; with room 0 it only counts them, and ret_importers may be NULL. A process is listed from the
 * first pointer that it imports; one that has imported the pool twice is listed once. The structure may grow at its end
 * in later versions: importer_bytes says how much of it the caller knows, and is the distance between two entries.
 *
 * The call looks at every deferred block for each importer, so do not call it in an inner loop; importers may come, go,
 * import and free meanwhile. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live pool, or is itself imported; ret_count is NULL; with room for any,
 *                               ret_importers is NULL, or importer_bytes is 0 or more than this library knows
 *   CUDA_ERROR_OUT_OF_MEMORY    no host memory for the list
 */
CENOTE_API CUresult cenote_pool_importers(CUmemoryPool pool, cenote_importer *ret_importers, size_t importer_bytes,
					  size_t room, size_t *ret_count);

/*
 * A descriptor that becomes readable when a process imports the pool or leaves it: for poll(), select() and epoll.
 *
 * It is an eventfd: reading its 8 bytes tells how many importers have come or gone since it was last read, and makes it
 * unreadable again; a read when nothing has happened fails with EAGAIN and does not wait. cenote_pool_importers() says
 * which importers there are. A process that is killed counts twice if its end is noticed in two steps: when its
 * connection ends, and when the process is gone.
 *
 * All descriptors of one pool share one count: only one reader should read it. The caller must close *ret_descriptor.
 * It is closed on exec, and may outlive the pool, after which it reports nothing more. Watching makes the pool a shared
 * one, as if it had been exported. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live pool, is itself imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; ret_descriptor is NULL
 *   CUDA_ERROR_NOT_PERMITTED     as with cenote_send_pool()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_OPERATING_SYSTEM  no descriptor could be made: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_pool_watch(CUmemoryPool pool, int *ret_descriptor);

/*
 * Shut out an importer that has hung, or is not wanted any more.
 *
 * Returns at once. Soon afterwards, the importer's calls that would import a pointer fail, and the importer is shown as
 * leaving. It can still read and write what it has imported until it frees it: that memory cannot be taken away, and is
 * not given to any other stream or process. Its blocks return to the pool when it has freed them or its process is
 * gone. Shutting out an importer that is already leaving changes nothing. A process that has the pool's descriptor may
 * import the pool again. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE    pool is not a live pool, or is itself imported
 *   CUDA_ERROR_NOT_FOUND        the pool has no importer with this id now
 */
CENOTE_API CUresult cenote_pool_evict(CUmemoryPool pool, unsigned long long importer);

/*
 * Limit how much of a pool each importer may hold at a time: bytes_per_importer, or 0 for no limit, which is the
 * default.
 *
 * An import that would exceed the limit fails with CUDA_ERROR_OUT_OF_MEMORY. The sizes of the blocks count: a block
 * that is imported twice counts once, and a block that was freed counts until its stream has come to the free. What is
 * held already stays held. The importer's own library enforces the limit: it keeps honest programs within bounds; use
 * cenote_pool_evict() against the others. Takes effect for imports from now on. Thread-safe.
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     pool is not a live pool, is itself imported, or was not created with
 *                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
 *   CUDA_ERROR_NOT_PERMITTED     as with cenote_send_pool()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory, or no addresses
 *   CUDA_ERROR_OPERATING_SYSTEM  the pool could not be made a shared one: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_pool_limit(CUmemoryPool pool, size_t bytes_per_importer);

/*
 * The name by which other processes find a process, when all they have is a handle of 64 bytes, or when they ask what
 * is shared (cenote_survey): a socket in a directory, and beside it a file that is locked as long as the process lives.
 * A process has one from the time it first exports a pool or gives out such a handle, or imports or opens something.
 */
typedef struct cenote_name {
	const char *directory; /* its path; valid during the call, as is `name` */
	const char *name;      /* 32 hexadecimal digits; NULL: this is about the directory itself */
	int live;              /* 1: its process lives */
	int removed;           /* 1: its process has ended, and the name has been removed */
} cenote_name;

#define CENOTE_SWEEP_LOOK 1u /* remove nothing */

/*
 * Remove the names of processes that ended without removing them, because they were killed.
 *
 * Such names do no harm, and every process that makes a name sweeps as well; call this to sweep now, or to see which
 * processes there are. It looks where this user's names may be: in the runtime directory (CENOTE_RUNTIME_DIR; if that
 * is not set, in both candidates, /run/user/UID/cenote and /tmp/cenote-UID) and in the user's folder of the fabric
 * directory (CENOTE_FABRIC_DIR, else /tmp/cenote-fabric). `found`, if it is not NULL, is called for each directory that
 * exists, with `name` NULL, and then for each name in it; and for each account of host devices' memory there that no
 * process has open, `account-BYTES`. It may call anything but CUDA and Cenote.
 *
 * A live process's name is never removed: the kernel keeps the lock for the process, in whatever container it is.
 * With CENOTE_SWEEP_LOOK in flags, no name is. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     flags has bits that are unknown
 *   CUDA_ERROR_OPERATING_SYSTEM  a variable does not name a directory, or one belongs to another user, is a link, or
 *                                cannot be read: cenote_last_error() says which; the others have been looked through
 */
CENOTE_API CUresult cenote_sweep(unsigned int flags, void (*found)(const cenote_name *name, void *data), void *data);

/*
 * A process that shares something: one that has exported a pool, or given out a handle of 64 bytes; or one that has
 * something from another process: that has imported a pointer of a pool, or opened a handle of 64 bytes.
 *
 * What it is and has is what it says, made printable; `pid`, `uid`, `directory` and `name` do not depend on its word.
 */
typedef struct cenote_process {
	int pid;       /* as this process sees it; 0: not visible, the process is in another PID namespace */
	int pid_there; /* as the process sees itself */
	unsigned int uid;
	int answers;                     /* 0: it does not answer: stopped, hung, or of another version. What is
					    reported of it is what it wrote last */
	const char *program;             /* what it runs, at most 31 characters of ASCII; "": unknown */
	const char *directory;           /* the path of the directory of its socket, … */
	const char *name;                /* … and its name there, as in cenote_sweep() */
	unsigned long long pool_count;   /* pools that it has exported and not destroyed */
	unsigned long long opener_count; /* processes that have opened its events or memory by handles of 64 bytes */
	int on_gpu; /* 1: its device is a GPU. The driver shares its events and all its memory but the pools, so which
		       processes have those open is not known */
	int truncated;     /* 1: it shares more than is reported */
	const char *label; /* CENOTE_LABEL in its environment, at most 31 characters of ASCII; "": none */
	unsigned long long
		written_ns; /* when it wrote what is reported, on this process's clock (CLOCK_MONOTONIC); 0: it
					  has written nothing that can be read */
} cenote_process;

/* A pool that a process has exported. */
typedef struct cenote_shared_pool {
	unsigned long long id;         /* random, and the same as long as the pool lives; not 0 */
	int location_type;             /* where its memory is: CUmemLocationType, … */
	int location_id;               /* … and the machine's number of the device, or the number of the NUMA node */
	unsigned long long used_bytes; /* as in cenote_pool_statistics; so are the following */
	unsigned long long reserved_bytes;
	unsigned long long exported_block_count, exported_bytes;
	unsigned long long deferred_block_count, deferred_bytes;
	unsigned long long importer_count;
	unsigned long long limit_bytes; /* of cenote_pool_limit(); 0: none */
	unsigned long long age_ns;      /* since it was first exported, in nanoseconds */
} cenote_shared_pool;

/*
 * What a process has given out by handles of 64 bytes, all of one kind together: memory of cuMemAlloc() by
 * cuIpcGetMemHandle(), or events by cuIpcGetEventHandle(). Events have no bytes to count. PHYSICAL is memory of
 * cuMemCreate() by fabric handles, and of a cenote_import alone: nobody counts what was given out.
 */
#define CENOTE_HANDLES_EVENTS   1
#define CENOTE_HANDLES_MEMORY   2
#define CENOTE_HANDLES_PHYSICAL 3

typedef struct cenote_shared_handles {
	int kind; /* CENOTE_HANDLES_… */
	int unused;
	unsigned long long shared_count, shared_bytes;     /* what has a handle and is live */
	unsigned long long deferred_count, deferred_bytes; /* what was freed or destroyed, and is still open */
	unsigned long long opener_count;                   /* processes that have some of either open */
	unsigned long long age_ns;                         /* since the first handle was given out, in nanoseconds */
} cenote_shared_handles;

/*
 * What a process has from another, by its own word: a pool that it has imported, or all that it has opened by handles
 * of a kind; or all memory of cuMemCreate() that it has from one other machine. The process from which it has that
 * reports the same as `importer`, if it is still there and on this machine.
 */
typedef struct cenote_import {
	int kind;     /* 0: a pool; else CENOTE_HANDLES_… */
	int orphaned; /* 1: a pool of which nothing more can be imported: its exporter is gone, or has destroyed it or
				    evicted the process */
	unsigned long long pool; /* the pool's id; 0: it is not about a pool */
	unsigned long long held_count, held_bytes;
	unsigned long long age_ns; /* since it joined, or has had something open without a break */
	unsigned int node;         /* the machine that has it, by its number in the domain; 0: this one */
	int unused;
} cenote_import;

/* Something that a survey has found. All that it points to is valid only during the call. */
typedef struct cenote_shared {
	const cenote_process *process;   /* alone: the process itself, before what it shares */
	const cenote_shared_pool *pool;  /* a pool of the process; NULL: this is not about a pool */
	const cenote_importer *importer; /* a process that has imported the pool, or opened something by a handle; NULL:
					    the pool or the handles themselves, before the processes that have them */
	int at_least; /* 1: the importer may delay more blocks, and for longer, than its numbers say */
	const cenote_shared_handles *handles; /* what it gave out by handles; NULL: this is not about handles */
	int pid_there; /* the importer's PID as it sees itself, where that is known and this process is in another PID
			  namespace; else 0 */
	int unused;
	unsigned long long ledger_inode; /* of the memory file "cenote-ledger" that an importer of a pool has mapped, as
					    /proc/PID/maps shows it; 0: unknown. It finds an importer whose PID is 0 */
	const cenote_import *import;     /* what the process has from another; NULL: this is not about that */
} cenote_shared;

/*
 * Ask all processes that share something what they share, and which processes hold it.
 *
 * Asks this user's processes that can be found in the runtime directory (see cenote_sweep()), in whatever container;
 * root asks those of all users, or of the user to whom CENOTE_RUNTIME_DIR belongs. A process has its name there from
 * the time it first exports a pool or gives out a handle of 64 bytes, or imports a pointer or opens such a handle.
 * `found` is called for each process, then for each of its pools, each followed by its importers, which may be any
 * user's, then for each kind of handles that it has given out, followed by the processes that have some of it open, and
 * then for what the process has from others. `found` may call anything but CUDA and Cenote, and should not take
 * seconds: the process that is asked does not wait so long.
 *
 * In `importer`, `pid` is as this process sees it, or 0; the times are on this process's clock. For a process that has
 * opened events or memory, `held_block_count` counts each as often as it is open; `joined_ns` is the time since when it
 * has had something open without a break; `leaving` is 1 when its connection has ended and the process is alive. It is
 * no importer for cenote_pool_evict().
 *
 * Memory of cuMemCreate() is not reported, whether it was shared by descriptor or by fabric handle: an importer has
 * only a descriptor, and no connection to the exporter, which does not know of it. (On the host device such memory is
 * a memory file, which `cenote ps` looks for in /proc.) Pools that were imported by fabric handle are reported.
 *
 * The processes answer by themselves, whatever their programs do, and are not held up. All are asked at the same time.
 * Their answers are not of one moment: what comes and goes meanwhile may be reported or not. A process that does not
 * answer is reported with what it wrote last, at most 16 seconds before it was stopped; `written_ns` says when. One
 * that the system shows as stopped is not waited for; others of a user delay the survey by two seconds, however many
 * they are. Of another user, for root, up to 1024 processes are reported, with 65,536 pools, handles and holders
 * together.
 * This process's own pools are reported like all others. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     flags is not 0, or found is NULL
 *   CUDA_ERROR_OPERATING_SYSTEM  the runtime directory is not an absolute path, belongs to another user, is a link, or
 *                                cannot be read: cenote_last_error() says which; if there are two, the other has been
 *                                searched
 */
CENOTE_API CUresult cenote_survey(unsigned int flags, void (*found)(const cenote_shared *found, void *data),
				  void *data);

/* A device, as the processes share it that have the runtime directory and CENOTE_HOST_MEMORY in common. */
typedef struct cenote_memory_device {
	const char *directory; /* the path of the runtime directory; valid during the call */
	unsigned int uid;      /* the user that it belongs to */
	int on_gpu;            /* 1: all GPUs together, and only memory of pools that no other process has; of the rest
				  the driver knows which process has it */
	int number;            /* as the machine counts devices; 0 on a GPU */
	unsigned int process_count;
	unsigned long long total_bytes; /* what the device has; 0 on a GPU */
	unsigned long long used_bytes;  /* by all processes */
	unsigned long long
		orphaned_bytes; /* of it: made by processes that are gone or have given it up, held by others */
} cenote_memory_device;

/* What one process has of it. */
typedef struct cenote_memory_process {
	int pid; /* as this process sees it; 0: not visible */
	int unused;
	unsigned long long used_bytes; /* that it has made, and not given back */
} cenote_memory_process;

/*
 * Tell which processes have how much memory of a device, shared or not.
 *
 * `found` is called for each device of which a process has something, with `process` NULL, and then for each of these
 * processes. It may call anything but CUDA and Cenote. Looked at are this user's runtime directories (see
 * cenote_sweep()); for root those of all users. The numbers of a host device are those of one instant, if the
 * processes leave it one: the same that cuMemGetInfo() counts. They are read from files, and no process is asked.
 * Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     flags is not 0, or found is NULL
 *   CUDA_ERROR_OPERATING_SYSTEM  as with cenote_survey()
 */
CENOTE_API CUresult cenote_survey_memory(unsigned int flags,
					 void (*found)(const cenote_memory_device *device,
						       const cenote_memory_process *process, void *data),
					 void *data);

/* What a cell of a picture shows. If it has several kinds: the first of DEFERRED, EXPORTED, LIVE, FREED, FREE. */
#define CENOTE_CELL_LIVE           '#' /* in live blocks */
#define CENOTE_CELL_EXPORTED       '=' /* … and are exported */
#define CENOTE_CELL_DEFERRED       '!' /* in exported blocks that were freed, and that an importer still holds */
#define CENOTE_CELL_FREED          'o' /* in blocks that were freed, and wait for their stream's next use */
#define CENOTE_CELL_FREE           '.' /* free for any stream */
#define CENOTE_CELL_WITHOUT_MEMORY '_' /* given back to the system */
#define CENOTE_CELL_UNKNOWN        '?' /* the owner would have taken too long to say */

#define CENOTE_CELLS_MAX       65536
#define CENOTE_HELD_BY_SEVERAL (~0ull)

typedef struct cenote_cell {
	unsigned long long importer; /* the holder of the largest held block of this kind in the cell: the id of an
					importer, CENOTE_HELD_BY_SEVERAL, or 0: no process holds any, or they are not
					exported */
	int kind;                    /* CENOTE_CELL_… */
	int unused;
} cenote_cell;

/*
 * Draw the memory of a pool of any process that cenote_survey() reports: as cell_count equal parts of the range that
 * was used so far, which is *ret_bytes long. ret_bytes may be NULL.
 *
 * `pool` is its id. The owner looks at no more than 256 blocks of a cell: if there are more, these stand for the rest.
 * Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_cells is NULL, or cell_count is 0 or more than CENOTE_CELLS_MAX
 *   CUDA_ERROR_NOT_FOUND         no process that can be asked has such a pool now, or the one that has it does not
 *                                answer
 *   CUDA_ERROR_OPERATING_SYSTEM  as with cenote_survey()
 *   CUDA_ERROR_OUT_OF_MEMORY     no host memory
 */
CENOTE_API CUresult cenote_survey_picture(unsigned long long pool, cenote_cell *ret_cells, size_t cell_count,
					  unsigned long long *ret_bytes);

/*
 * Kept memory: memory that outlives the process that made it, by name.
 *
 * A daemon, cenoted, keeps it. A program creates an object of one or more parts, fills them, and commits it; from then
 * on any number of programs open it by its name, now or after its maker is gone. A commit of a name that exists makes
 * a new generation: those that have the older one open keep it until they release it, and openers get the newer one.
 *
 *     cenote_kept_part part = {.bytes = bytes, .label = "weights"};
 *     cenote_kept kept;
 *     cenote_kept_create("models/llama/rank0", &part, 1, NULL, &kept);
 *     cuMemcpyHtoD(part.address, weights, bytes);
 *     cenote_kept_commit(kept);
 *
 * An object is *writing* until it is committed; it is gone if its writer ends before. *Committed* objects can be
 * opened, and stay until they are retired. A *retired* object cannot be opened any more, and is gone with the last
 * process that has it open. What a process has open ends with the process, however it ends.
 *
 * Committed memory is immutable, unless its creator chose CENOTE_KEPT_CHANGEABLE: then one process at a time may open
 * it for writing, and readers see each write. On the host device immutable memory is sealed: no process can write it
 * any more, with whatever means. On a GPU reading alone is a matter of each process's own mapping: a program that is
 * written to ignore it can write.
 *
 * Names are paths of letters, digits and ._+@:=- between single slashes. Which users may open an object, its mode bits
 * say, as those of a file do; replacing and retiring it is its owner's. The calls look for the daemon at
 * CENOTE_KEPT_SOCKET, else at `kept` in the runtime directory, else at /run/cenote/kept, and wait 5 seconds for it
 * at most. docs/kept.md says more. All calls are thread-safe. These errors can come from each of them:
 *
 *   CUDA_ERROR_NOT_INITIALIZED   cuInit() has not been called
 *   CUDA_ERROR_INVALID_VALUE     a pointer is NULL or cannot be used, or a name is not a name
 *   CUDA_ERROR_INVALID_HANDLE    the cenote_kept is not a live one, or the daemon does not know it any more: it was
 *                                stopped, and what it kept is gone when the last process that has it open ends
 *   CUDA_ERROR_OPERATING_SYSTEM  no daemon was found, or it does not answer: cenote_last_error() says which
 *   CUDA_ERROR_NOT_PERMITTED     the object is another user's, and its mode bits do not allow it
 *   CUDA_ERROR_OUT_OF_MEMORY     a limit of the daemon's for this user was reached, or there is no memory
 */
typedef struct cenote_kept_st *cenote_kept;

#define CENOTE_KEPT_PARTS_MAX      64
#define CENOTE_KEPT_LABEL_BYTES    64  /* with the 0 at its end */
#define CENOTE_KEPT_NAME_BYTES     256 /* the same */
#define CENOTE_KEPT_BLOB_BYTES_MAX 1048576

/* Flags of an object. */
#define CENOTE_KEPT_CHANGEABLE 0x1 /* one process at a time may open it for writing when it is committed */
#define CENOTE_KEPT_CACHE      0x2 /* retired, the oldest first, when its owner needs the room for a new one */
/* Flags of cenote_kept_open(). */
#define CENOTE_KEPT_WRITE      0x100
/* Flags of cenote_kept_list(). */
#define CENOTE_KEPT_HOLDERS    0x200

/* States of an object. */
#define CENOTE_KEPT_GONE      0
#define CENOTE_KEPT_WRITING   1
#define CENOTE_KEPT_COMMITTED 2
#define CENOTE_KEPT_RETIRED   3

/* A part of an object: memory at one address, aligned to 2 MiB. */
typedef struct cenote_kept_part {
	CUdeviceptr address; /* in this process */
	size_t bytes;
	char label[CENOTE_KEPT_LABEL_BYTES]; /* for readers, which may tell parts apart by it; may be "" */
} cenote_kept_part;

/* What a creator may choose. All zero is the default. */
typedef struct cenote_kept_options {
	unsigned int flags; /* CENOTE_KEPT_CHANGEABLE, CENOTE_KEPT_CACHE */
	unsigned int mode;  /* who may read (0444) and write (0222) it, as of a file; 0: 0600 */
	const void *blob; /* bytes for readers: how tensors lie in the parts, say; at most CENOTE_KEPT_BLOB_BYTES_MAX */
	size_t blob_bytes;
	CUdevice device; /* whose memory it is */
	int unused;      /* 0 */
} cenote_kept_options;

/* What is known of an object. What it points to is valid during the call, or until the object is released. */
typedef struct cenote_kept_object {
	const char *name;
	unsigned long long generation;               /* of all names of a daemon: a newer one is larger */
	unsigned long long newest_generation;        /* of its name that can be opened now; 0: none, or not asked for */
	unsigned long long bytes;                    /* of all parts */
	unsigned long long created_ns, committed_ns; /* CLOCK_REALTIME; committed_ns is 0 before */
	unsigned int state, flags, mode;             /* CENOTE_KEPT_… */
	unsigned int user, group;
	unsigned int part_count, holder_count; /* processes' openings */
	int on_gpu;
	const void *blob; /* not in a list */
	size_t blob_bytes;
} cenote_kept_object;

/* A process that has an object open. */
typedef struct cenote_kept_holder {
	int pid; /* as the daemon sees it */
	unsigned int user;
	int writes;
	int unused;
} cenote_kept_holder;

/* Something that happened to an object. */
typedef struct cenote_kept_event {
	char name[CENOTE_KEPT_NAME_BYTES];
	unsigned long long generation;
	unsigned int state; /* it was committed (or changed and committed again), retired, or is gone */
	unsigned int unused;
} cenote_kept_event;

/*
 * Make an object of part_count parts, for this process to write.
 *
 * `bytes` and `label` of each part are read; `address` is written on success: memory of the device, all zero, which
 * this process may read and write until cenote_kept_commit(). No other process sees it before. One process at a time
 * may write a name. `options` may be NULL.
 *
 *   CUDA_ERROR_INVALID_VALUE   part_count is 0 or more than CENOTE_KEPT_PARTS_MAX, a part has 0 bytes, a label does not
 *                              end, the blob is too large, flags or mode are unknown
 *   CUDA_ERROR_INVALID_DEVICE  there is no such device
 *   CUDA_ERROR_INVALID_CONTEXT on a GPU: no context is current
 *   CUDA_ERROR_NOT_READY       another process, or another thread, is writing an object of this name
 *   CUDA_ERROR_NOT_PERMITTED   the name is another user's
 */
CENOTE_API CUresult cenote_kept_create(const char *name, cenote_kept_part *parts, unsigned int part_count,
				       const cenote_kept_options *options, cenote_kept *ret_kept);

/*
 * Keep a copy of a block: create an object of one part, copy the block there in the stream's order, wait for it,
 * commit and release it.
 *
 * `block` begins any allocation, of a pool or not; all of it is copied. The block itself is not kept and stays the
 * caller's: another process could not have it without all of its pool. `options` and ret_generation may be NULL.
 *
 *   CUDA_ERROR_INVALID_VALUE  no allocation begins at `block`
 *   and as cenote_kept_create() and cenote_kept_commit()
 */
CENOTE_API CUresult cenote_kept_put(const char *name, CUdeviceptr block, CUstream stream,
				    const cenote_kept_options *options, unsigned long long *ret_generation);

/*
 * The writer is done: from now on other processes can open the object, and the older generation of its name is retired.
 *
 * Waits for all work of the current context first. The parts stay at their addresses, and can only be read from now on.
 * For that the memory of the host device is taken away from the addresses for a moment, sealed, and mapped again: no
 * thread may use it meanwhile. An object that was opened for writing is committed in the same way; the call ends this
 * process's turn to write. Committing what is committed already does nothing.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 *   CUDA_ERROR_ILLEGAL_STATE    the memory is mapped a second time, by this process or by a child that it forked, so it
 *                               cannot be sealed, and the object is still being written. If it has several parts,
 *                               they may not be mapped any more: commit again or release it
 */
CENOTE_API CUresult cenote_kept_commit(cenote_kept kept);

/*
 * Open a committed object by its name. All parts are mapped at once; cenote_kept_parts() says where.
 *
 * All that its writer's streams wrote before the commit is there. `generation` 0 is the newest. With CENOTE_KEPT_WRITE
 * it is opened for writing, which needs the mode bit and CENOTE_KEPT_CHANGEABLE, and one process can have at a time;
 * else it can only be read, and a call that would write it fails.
 *
 *   CUDA_ERROR_NOT_FOUND      no object of this name, and generation, is committed
 *   CUDA_ERROR_NOT_READY      another process has it open for writing
 *   CUDA_ERROR_NOT_SUPPORTED  for writing, and the object is immutable; or it is memory of another kind of device than
 *                             this process uses
 *   CUDA_ERROR_INVALID_DEVICE it is memory of a device that this process does not see
 */
CENOTE_API CUresult cenote_kept_open(const char *name, unsigned long long generation, unsigned int flags,
				     cenote_kept *ret_kept);

/*
 * Where the parts are, in the order of their creation: at most `room` are written, *ret_count is how many there are.
 * ret_parts may be NULL if room is 0.
 */
CENOTE_API CUresult cenote_kept_parts(cenote_kept kept, cenote_kept_part *ret_parts, unsigned int room,
				      unsigned int *ret_count);

/*
 * What is known of an object that this process has open: cenote_kept_look(kept, &object, sizeof object). The daemon is
 * asked, so the state and newest_generation are those of now.
 *
 * The structure may grow at its end in later versions: room_bytes says how much of it the caller knows. `name` and
 * `blob` are valid until the object is released. Labels and blob are as the creator wrote them: check them if you do
 * not trust it.
 */
CENOTE_API CUresult cenote_kept_look(cenote_kept kept, cenote_kept_object *ret_object, size_t room_bytes);

/*
 * Release an object: its addresses are no longer memory, and this process no longer holds it. What was not committed
 * is gone.
 *
 * Waits for all work of the current context, if there is one: work on the memory must be done. After
 * CUDA_ERROR_OPERATING_SYSTEM the addresses are released, and the daemon counts this process as a holder until it ends.
 */
CENOTE_API CUresult cenote_kept_release(cenote_kept kept);

/*
 * Retire an object: it cannot be opened any more, and is gone with the last process that has it open. `generation` 0 is
 * the newest. The caller must be its owner, or root.
 *
 *   CUDA_ERROR_NOT_FOUND  no object of this name, and generation, is committed. (If the daemon was started again during
 *                         the call, that is no error: this call may have retired it.)
 */
CENOTE_API CUresult cenote_kept_retire(const char *name, unsigned long long generation);

/*
 * List the objects whose names begin with `prefix` ("": all) and that this user may read.
 *
 * `found` is called for each, with NULL for the holder; with CENOTE_KEPT_HOLDERS in flags then once for each process
 * that has it open. What comes and goes meanwhile may be listed or not. `found` may call anything but these calls, and
 * should not take seconds. Needs no cuInit().
 */
CENOTE_API CUresult cenote_kept_list(const char *prefix, unsigned int flags,
				     void (*found)(const cenote_kept_object *object, const cenote_kept_holder *holder,
						   void *data),
				     void *data);

/*
 * Watch the objects whose names begin with `prefix` ("": all) and that this user may read: poll() says that
 * *ret_descriptor can be read when something has happened to one of them. Read it with cenote_kept_next(); close() ends
 * the watch.
 * Needs no cuInit().
 */
CENOTE_API CUresult cenote_kept_watch(const char *prefix, int *ret_descriptor);

/*
 * The next event of a watch, if there is one. Does not wait. Needs no cuInit().
 *
 *   CUDA_ERROR_NOT_READY         nothing has happened since
 *   CUDA_ERROR_OPERATING_SYSTEM  the daemon has ended, or events came faster than they were read: some are lost. List,
 *                                and watch again
 */
CENOTE_API CUresult cenote_kept_next(int descriptor, cenote_kept_event *ret_event);

/*
 * A node of the domain that cenote-imexd leads to (docs/machines.md). What counts is memory that was imported from
 * another node: each import once.
 */
typedef struct cenote_imex_node {
	unsigned int number;     /* its place in the list of nodes, from 1 */
	unsigned int node_count; /* how many nodes the domain has */
	int is_self;
	int is_up;                       /* connected to this one; 1 for this one itself */
	unsigned long long import_count; /* that programs of this node have open there */
	unsigned long long served_count; /* that its programs have open here */
} cenote_imex_node;

/*
 * Look at a node, by its number; 0 is this one. Asks the daemon, for 20 seconds at most. Needs no cuInit().
 * Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     no node has this number; ret_node is NULL or cannot be written
 *   CUDA_ERROR_OPERATING_SYSTEM  no daemon was found, or it does not answer: cenote_last_error() says which
 */
CENOTE_API CUresult cenote_imex_look(unsigned int number, cenote_imex_node *ret_node);

/*
 * A memory file of cuMemCreate() on this machine that cenote-imexd holds for another node: a program there has imported
 * its fabric handle. Holders of pools are in cenote_survey(): the exporter knows them.
 */
typedef struct cenote_imex_held {
	unsigned int node; /* for which it is held, by its number in the domain */
	int unused;
	unsigned long long inode; /* of the memory file, as /proc/PID/maps and fstat() show it */
	unsigned long long bytes; /* of the file */
} cenote_imex_held;

/*
 * Ask the daemon which memory of cuMemCreate() it holds for which nodes. The daemon tells a user of its own memory,
 * and root of all. `found` is called once for each import. flags must be 0. Takes 20 seconds at most, unless
 * `found` takes longer. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     found is NULL, or flags are unknown
 *   CUDA_ERROR_OPERATING_SYSTEM  no daemon was found, or it does not answer, or not in time: what was found before
 *                                counts
 */
CENOTE_API CUresult cenote_imex_survey(unsigned int flags, void (*found)(const cenote_imex_held *held, void *data),
				       void *data);

/*
 * Which process listens for programs that look for cenote-imexd: the daemon, its parent (--supervise), or a manager.
 *
 * *ret_pid is 0 if the process is not visible from this PID namespace. The process is not asked, so one that hangs is
 * found as well. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_pid is NULL or cannot be written
 *   CUDA_ERROR_OPERATING_SYSTEM  no process listens there
 */
CENOTE_API CUresult cenote_imex_daemon(int *ret_pid);

/* Which kind of device this process uses: "host" or "cuda"; "" before cuInit() has chosen. Thread-safe. */
CENOTE_API const char *cenote_device_kind(void);

/*
 * Where NVIDIA's driver is on this machine: the absolute path of its libcuda.so.1, whether this process uses it or not.
 *
 * If cuInit() has not opened it, this call looks for it and opens it, but does not initialize it: CENOTE_LIBCUDA if
 * that is set, else the folders of LD_LIBRARY_PATH, the dynamic linker's cache, the usual folders. *ret_path stays
 * valid. Needs no cuInit(). Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_path is NULL
 *   CUDA_ERROR_NO_DEVICE      there is none, or it cannot be used: cenote_last_error() says why
 */
CENOTE_API CUresult cenote_driver_library(const char **ret_path);

/*
 * Call the block at `pointer` by a name in the reports of `cenote check`: at most 63 bytes, which are copied.
 *
 * Without `cenote check` this call and the next two do nothing, in a few nanoseconds; they need no cuInit() and always
 * return CUDA_SUCCESS. Thread-safe.
 */
CENOTE_API CUresult cenote_label(CUdeviceptr pointer, const char *label);

/*
 * Tell `cenote check --strict`, which assumes no order that it does not see, of one that comes about otherwise than by
 * CUDA, as by a pipe or a mutex.
 *
 * What a thread has waited for before cenote_order_sent(key) is done before anything that another one submits after
 * cenote_order_received(key). Call the first before the message is sent, and the second after it has come. A key is any
 * number; processes must use the same for one channel.
 */
CENOTE_API CUresult cenote_order_sent(unsigned long long key);
CENOTE_API CUresult cenote_order_received(unsigned long long key);

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
 * args[i] points to the launch's own copy of the i-th parameter. CENOTE_KERNEL registers the function with the types of
 * its parameters (up to 16). A launch needs them to copy the arguments; and launching anything else is an error and not
 * a jump. A kernel is launched by its address, cudaLaunchKernel((void *)scale, …), or by its name, from a shared object
 * that cuModuleLoad() opens.
 *
 * Blocks run in any order, on all cores. The threads of a block run one after the other on one core, so a kernel cannot
 * wait for another thread of its block. at->shared is the block's dynamic shared memory: not zeroed, and NULL when the
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

/*
 * What a kernel does with the memory that its parameters lead to, for `cenote check`; no-ops otherwise.
 *
 *     CENOTE_KERNEL(scale, float *, const float *, float);
 *     CENOTE_KERNEL_USES(scale, CENOTE_WRITES, CENOTE_READS, CENOTE_NO_USE);
 *
 * One for each parameter, in their order. Nothing can be concluded from a parameter that is not declared, or from a
 * kernel without a declaration: it may read or write, and `cenote check` compares it with known writes, allocations and
 * frees alone. CENOTE_WRITES is also for what is read and written.
 */
typedef enum cenote_use { CENOTE_MAY_USE = 0, CENOTE_READS = 1, CENOTE_WRITES = 2, CENOTE_NO_USE = 3 } cenote_use;

/* Called by CENOTE_KERNEL_USES when a program or a shared object is loaded. */
CENOTE_API void cenote_kernel_declare(const cenote_kernel *kernel, const unsigned char *uses, unsigned int count)
	__attribute__((weak));

#define CENOTE_KERNEL_USES(name_, ...)                                                                    \
	__attribute__((constructor)) static void cenote_declare_##name_(void)                             \
	{                                                                                                 \
		static const unsigned char uses[] = {__VA_ARGS__};                                        \
		if (cenote_kernel_declare)                                                                \
			cenote_kernel_declare(&cenote_kernel_##name_, uses, (unsigned int)(sizeof uses)); \
	}                                                                                                 \
	struct cenote_semicolon_after_uses_of_##name_

/*
 * What kernels in PTX read and write on the host device, while they run: for tools such as `cenote check --exact`.
 *
 * launched() is called by the thread that launches a kernel, within its call. What it returns stands for the launch; 0:
 * this one is not of interest. begins() is called before the kernel runs, and what it returns is passed on; NULL: the
 * same. touched() is told of runs of bytes before they are used, by any number of threads at once: CENOTE_READS,
 * CENOTE_WRITES, or CENOTE_MAY_USE for atomics and for volatile, acquiring and releasing accesses. ends() is called
 * when the kernel has ended, also by a failure, and before anything that waits for it goes on. None of them may call
 * CUDA, or wait for a thread that does.
 *
 * The watcher must stay where it is. NULL: none from now on; kernels that are watched still are. Watching slows kernels
 * down. On a GPU no kernel is watched. Thread-safe.
 *
 *   CUDA_ERROR_INVALID_VALUE   the watcher is of another version
 */
typedef struct cenote_kernel_watcher {
	unsigned int version; /* CENOTE_KERNEL_WATCHER_VERSION */
	unsigned long long (*launched)(void);
	void *(*begins)(unsigned long long launch);
	void (*touched)(void *data, unsigned long long address, size_t bytes, cenote_use use);
	void (*ends)(void *data);
} cenote_kernel_watcher;

#define CENOTE_KERNEL_WATCHER_VERSION 0x43455701u

CENOTE_API CUresult cenote_kernel_watch(const cenote_kernel_watcher *watcher);

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
