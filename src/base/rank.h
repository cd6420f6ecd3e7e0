/* SPDX-License-Identifier: MIT */
/*
 * The order of locks: all of them, the first to be taken first.
 *
 * A thread takes a lock only if its rank is higher than that of every lock it has. So no two threads can each wait for
 * what the other has. A lock that is only tried (cn_slow_try_lock) may have any rank.
 *
 * Slow locks come first, then those that are held across calls of the real driver, then those that are held for a
 * moment: a thread that has one of these cannot take a slower one. lock.h says what the kinds are.
 *
 * `two` says whether a thread may have two of a rank: NEVER; BY_ADDRESS, the one at the lower address first; SHARED, it
 * may have the same one again. docs/concurrency.md has the table, with the threads that take them.
 */
#ifndef CN_BASE_RANK_H
#define CN_BASE_RANK_H

#include "base/private.h"

/* clang-format off */
/*	     name             kind         two      guards */
#define CN_RANKS(RANK) \
	RANK(INIT,            slow_lock,   NEVER,   "the start of the library: cuInit()") \
	RANK(OPENING,         slow_lock,   NEVER,   "a kept object that this process has open: one call at a time") \
	RANK(PRIMARY,         slow_lock,   NEVER,   "a device's primary context, while it is made or taken down") \
	RANK(VMM,             slow_lock,   NEVER,   "reserved address ranges, and what is mapped there") \
	RANK(MEMPOOL_SHARE,   slow_lock,   NEVER,   "the export of a pool, while it is made") \
	RANK(MEMPOOLS,        slow_lock,   NEVER,   "which pools a location has, and which devices may use them") \
	RANK(EVENT_PUBLISH,   slow_lock,   NEVER,   "an event, while it gets its handle") \
	RANK(PORT_SOCKET,     slow_lock,   NEVER,   "a port, while it begins to listen") \
	RANK(NODE_ASKING,     slow_lock,   NEVER,   "the session with cenote-imexd: one question at a time") \
	RANK(IMPORT_ASKING,   slow_lock,   NEVER,   "an import's channel and view: one request or change at a time") \
	RANK(PEER_TURN,       slow_lock,   NEVER,   "another process that is asked: one question at a time") \
	RANK(POOL_GROWING,    slow_lock,   NEVER,   "memory of the device that a pool gets: one thread at a time") \
	RANK(POOL_GIVING,     slow_lock,   NEVER,   "memory of a pool that goes back to the device") \
	RANK(FORK_START,      slow_lock,   NEVER,   "the first hook of fork()") \
	RANK(FORK_GATE,       slow_lock,   SHARED,  "no lock but a gate: forks wait while a descriptor is in no list") \
	RANK(CUDA_VIEW,       slow_lock,   NEVER,   "an importer's mappings of a pool's chunks") \
	RANK(CUDA_ARENA,      slow_lock,   NEVER,   "a pool's chunks, while the driver makes or maps some") \
	RANK(CUDA_KEPT,       slow_lock,   NEVER,   "descriptors of chunks that stay open") \
	RANK(SERVICE_START,   slow_lock,   NEVER,   "the service thread's start") \
	RANK(IMEX,            slow_lock,   NEVER,   "IMEX channels that are open") \
	RANK(GPU_CALLS,       slow_lock,   NEVER,   "the table of the driver's functions, while it is made") \
	RANK(CUDA_LIBRARY,    slow_lock,   NEVER,   "the driver's library, while it is opened") \
	RANK(GPU_LATE_STREAMS, slow_lock,   NEVER,   "streams of our own, in which other streams' memory is freed") \
	RANK(HOST_ARENA,      slow_lock,   NEVER,   "which chunks of a pool's file have memory") \
	RANK(CODE,            slow_lock,   NEVER,   "the managed variables of a library, while they are made") \
	RANK(HOST_PTX,        slow_lock,   NEVER,   "the library that runs PTX, while it is opened") \
	RANK(HOST_PRINT,      slow_lock,   NEVER,   "what kernels have printed") \
	RANK(HOST_TURN,       slow_lock,   NEVER,   "this process's turn to take of a device what others want, too") \
	RANK(DEVICE_ACCOUNT,  slow_lock,   NEVER,   "what this process has of its devices, and the account of all") \
	\
	RANK(POOLS,               driver_lock, NEVER,      "all pools, and records of ended ones") \
	RANK(GRACE,               driver_lock, NEVER,      "grace periods: those under way") \
	RANK(CUDA_ASKING,         driver_lock, NEVER,      "a context, while the driver is asked about all of it") \
	RANK(CUDA_STREAM,         driver_lock, BY_ADDRESS, "a stream's handle and its marks") \
	\
	RANK(RUNTIME,         lock,        NEVER,   "the runtime's devices and their primary contexts") \
	RANK(BINARIES,        lock,        NEVER,   "what the program has registered: binaries, kernels, variables") \
	RANK(CONTEXT,         lock,        NEVER,   "a context's life and settings") \
	RANK(LIBRARY,         lock,        NEVER,   "a library's kernels, and its modules") \
	RANK(MODULES,         lock,        NEVER,   "which modules are loaded") \
	RANK(MODULE,          lock,        NEVER,   "a module's functions; a launch holds it until it is submitted") \
	RANK(KERNELS,         lock,        NEVER,   "kernels that the program has registered") \
	RANK(STREAMS,         lock,        NEVER,   "streams of contexts, while one is made or all are looked for") \
	RANK(STREAMS_CLOSING, lock,        NEVER,   "streams that are destroyed and not done") \
	RANK(STAMP,           lock,        NEVER,   "an event's latest record") \
	RANK(MEMORY,          lock,        NEVER,   "which allocation is at an address") \
	RANK(HOST_MEMORY,     lock,        NEVER,   "chunks of the host device's memory") \
	RANK(HOST_MAPPED,     lock,        NEVER,   "memory files that are mapped, and where") \
	RANK(GPU_EVENTS,      quick_lock,  NEVER,   "events of a GPU: what their latest record covers") \
	RANK(GPU_CAPTURES,    lock,        NEVER,   "captures under way") \
	RANK(CUDA_ARENA_WATCH, lock,        NEVER,   "functions to call when a chunk is released") \
	RANK(EXPORT,          lock,        NEVER,   "a shared pool's slots and importers") \
	RANK(EXPORTS,         lock,        NEVER,   "all shared pools") \
	RANK(IMPORT,          lock,        NEVER,   "what an importer holds, and how many are busy with it") \
	RANK(IMPORTS,         lock,        NEVER,   "all imported pools, by address") \
	RANK(SHARED_EVENTS,   lock,        NEVER,   "events of other processes that are open, and their last users") \
	RANK(PORT_OBJECTS,    lock,        NEVER,   "what legacy and fabric handles stand for") \
	RANK(OPENED_MEMORY,   lock,        NEVER,   "legacy memory of other processes that is open") \
	RANK(REMOTES,         lock,        NEVER,   "processes at whose ports we called") \
	RANK(CACHE,           owned_lock,  NEVER,   "a stream's free blocks and spans in one pool") \
	RANK(POOL,            lock,        NEVER,   "a pool's heap, list of caches and counts") \
	RANK(QUEUE_CACHES,    lock,        NEVER,   "which caches in pools each queue has") \
	RANK(WALK,            lock,        NEVER,   "one walk through the waits of queues at a time") \
	RANK(QUEUE_GROUP,     lock,        NEVER,   "the blocking streams of a context") \
	RANK(QUEUE,           quick_lock,  NEVER,   "a queue's operations") \
	RANK(CUDA_FOLLOWED,   quick_lock,  NEVER,   "what a stream is ordered after") \
	RANK(CUDA_STREAM_NOTES, quick_lock,  NEVER,   "a stream's notes") \
	RANK(CUDA_NOTES,      lock,        NEVER,   "streams with notes, for the thread that looks at them") \
	RANK(CUDA_TABLE,      lock,        NEVER,   "streams and contexts by handle, and spare records") \
	RANK(CUDA_CONTEXT_EVENTS, lock,        NEVER,      "events of a context, for marks to come") \
	RANK(HOST_SIGNAL,     lock,        NEVER,   "our own latest record in a signal between processes") \
	RANK(HOST_POLLER,     lock,        NEVER,   "queues that wait for a word of memory or a signal") \
	RANK(HOST_REMOTE,     lock,        NEVER,   "how many use the record of another machine's memory") \
	RANK(NODE,            lock,        NEVER,   "connections to cenote-imexd that no thread uses") \
	RANK(HOST_EXECUTORS,  quick_lock,  NEVER,   "queues that can go on, and the threads that run them") \
	RANK(HOST_TEAM,       lock,        NEVER,   "launches whose blocks the cores take") \
	RANK(HOST_GRID,       lock,        NEVER,   "the resident blocks of a launch of PTX") \
	RANK(PEER,            lock,        NEVER,   "what another process keeps for us") \
	RANK(SERVICE,         lock,        NEVER,   "the service thread's watches and jobs") \
	RANK(RECORDS,         lock,        NEVER,   "records that wait to be used again") \
	RANK(TABLE,           lock,        NEVER,   "free slots of a handle table") \
	RANK(FORK_HOOKS,      lock,        NEVER,   "the list of what is done around fork()") \
	RANK(SENTENCE_KEY,    lock,        NEVER,   "the key that frees the sentences of threads") \
	RANK(GUARD,           lock,        NEVER,   "handlers of SIGSEGV that the program has installed")
/* clang-format on */

enum cn_rank {
	CN_RANK_NONE,
#define CN_RANK_NAME(name, kind, two, guards) CN_RANK_##name,
	CN_RANKS(CN_RANK_NAME)
#undef CN_RANK_NAME
		CN_RANK_COUNT,
};

#ifdef CN_LOCK_RANKS

/* Where a lock is taken, and what it is called there. */
struct cn_rank_site {
	enum cn_rank rank;
	const char *name, *file;
	int line;
};
#define CN_RANK_SITE(site, rank, name) \
	static const struct cn_rank_site site = {(enum cn_rank)(rank), name, __FILE__, __LINE__}

/* The lock is about to be taken, was taken without a wait, or is about to be unlocked. */
CN_PRIVATE void cn_rank_take(const void *lock, const struct cn_rank_site *site);
void cn_rank_took(const void *lock, const struct cn_rank_site *site);
CN_PRIVATE void cn_rank_drop(const void *lock, const struct cn_rank_site *site);
void cn_rank_wait(const struct cn_rank_site *site);

#define cn_rank_enter(object, name)                             \
	do {                                                    \
		CN_RANK_SITE(cn_site, CN_RANK_##name, #object); \
		cn_rank_take(object, &cn_site);                 \
	} while (0)
#define cn_rank_leave(object, name)                             \
	do {                                                    \
		CN_RANK_SITE(cn_site, CN_RANK_##name, #object); \
		cn_rank_drop(object, &cn_site);                 \
	} while (0)
#define cn_might_wait()                                        \
	do {                                                   \
		CN_RANK_SITE(cn_site, CN_RANK_NONE, "a wait"); \
		cn_rank_wait(&cn_site);                        \
	} while (0)

#else

/* For objects that are not our locks but have a rank. */
#define cn_rank_enter(object, name) ((void)0)
#define cn_rank_leave(object, name) ((void)0)
/* What follows may take long: only slow locks may be held. */
#define cn_might_wait()             ((void)0)

#endif

#endif
