/* SPDX-License-Identifier: MIT */
/*
 * Signals: events between processes.
 *
 * The processes share a ring of cells in a memory file that each of them writes. A record has a number, its cell is the
 * number modulo CELLS, and that cell's one word has the record's whole state: which round of the ring, whose record,
 * pending, done or dead. A cell is taken with one compare-and-swap, so a process that is killed at any instruction
 * leaves either nothing or a pending record with its name on it, which cn_host_signal_bury() ends. `latest` is the
 * number that a wait is for. A number whose cell has gone on to another round is done: only a cell that is not pending
 * is taken again. Cells of dead records are taken last, so that a late waiter still learns of the death.
 *
 * A record whose queue has nothing to do is done at once; it needs no number while the latest is done too. Each pending
 * record has a cell of its own until it is done, however many one queue has: if a later one took over an earlier one's
 * cell, a waiter for the earlier would wait for the later, which may in turn wait for that waiter.
 *
 * A stream that fails before its record is reached has not done what the record stands for. So the record is dead, as
 * if the process were: waiters in other processes fail, and do not read what was never written.
 *
 * To sleep: add yourself to the count, read the wake word, look again, sleep on the word. To wake: mark the cell, read
 * the count, change the word, wake. All sequentially consistent, so one side always sees the other. There are two such
 * words: one for threads that wait here, one for pollers (host_poller.c), which would otherwise wake at each turn of a
 * thread. A sleeper that was killed leaves the count too high, which costs a system call per record and nothing else.
 * No sleeper relies on a wake-up: a sleep has a bound, after which the sleeper looks again.
 *
 * Where the streams of two processes take turns, each with a wait and right behind it a record, the record is marked as
 * soon as the wait is over, and only then are both taken off the queue, several turns at once: the other process waits
 * for all that this one does between the two.
 *
 * The other processes are not trusted. Each of them can write all of the ring, at any time, and it stays as it is when
 * they die. What a lie can do, by field:
 *
 *   magic, version, cells_count   are read once, when the ring is opened: a process that opens it later is refused
 *   latest     which record later waits are for: the liar's own record could do the same. The next recorder corrects a
 *              number that does not match the cells (take_from_cells())
 *   cpu        whether spinning pays: it costs time, and not much
 *   wake       a sleeper wakes for nothing, or its sleep does not begin
 *   sleepers   a waker makes a needless system call, or none: then the sleeper looks again at the end of its sleep
 *   cells      a record looks done, pending or dead to waiters in other processes. To its own process it is what `own`
 *              says, which no other process can write: we neither wait for records in our name that we have not made,
 *              nor lose ours. Pending cells of a recorder that has died, is unknown or has not recorded them are ended
 *              when a process dies: cn_host_signal_bury(), cn_host_signal_disown()
 *
 * So a lie can make others wait too short, or too long for what only the liar could have recorded, as long as it lives.
 * It cannot hang a process that waits for its own records, nor keep any process from recording.
 */
#include "device/host/host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	CELLS = CN_SIGNAL_CELLS, /* that many records can be pending, of all processes together */
	VERSION = 1,
	RING_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
	LATEST_TRIES_MAX = 64,
	SPIN_FIRST_NS = 20000,
	SPIN_LEAST_NS = 500,
	SPIN_MOST_NS = 40000,
	SPINS_FIRST = 32,   /* before the clock is read: about as long as the fastest answer takes */
	SPINS_PER_LOOK = 8, /* at the clock, from then on */
	TURNS_MAX = 32,     /* that are taken before the queue is told */
	/* Before a sleeper looks again by itself: longer than the system's tick, or each sleep sets the CPU's timer. */
	SLEEP_NS = 32000000,
};

#define MAGIC UINT64_C(0x6c616e6769736e63) /* "cnsignal" */

enum state { DONE, PENDING, DEAD }; /* DONE is 0: a new ring's cells are done, of round 0, which has no numbers */

/* The word of a cell: round (30 bits), recorder (32), state (2). */
enum { RECORDER_SHIFT = 2, ROUND_SHIFT = 34 };
#define ROUND_MASK ((UINT64_C(1) << 30) - 1)

struct cn_signal_ring {
	uint64_t magic;
	uint32_t version, cells_count;
	_Alignas(64) _Atomic uint64_t latest; /* 0: there is none */
	_Atomic int32_t cpu;                  /* where a record was made or done last */
	_Alignas(64) _Atomic uint32_t wake[2], sleepers[2];
	_Alignas(64) _Atomic uint64_t cells[CELLS];
};

/* The two kinds of sleepers. */
enum { THREADS, POLLERS };

/* Waits that stand in queues: as long as there are none, nothing waits for another process. */
static _Atomic unsigned wait_count;

/* ---- Cells ------------------------------------------------------------------------------------------------------ */

static uint64_t round_of(uint64_t number)
{
	return number / CELLS & ROUND_MASK;
}

static uint64_t make_word(uint64_t number, uint32_t recorder, enum state state)
{
	return round_of(number) << ROUND_SHIFT | (uint64_t)recorder << RECORDER_SHIFT | state;
}

static enum state word_state(uint64_t word)
{
	return (word & 3) == PENDING ? PENDING : (word & 3) == DEAD ? DEAD : DONE;
}

static _Atomic uint64_t *cell_of(const struct cn_signal *signal, uint64_t number)
{
	return &signal->ring->cells[number % CELLS];
}

/* Is it a record of ours, and pending? No other process's word counts. */
static bool is_own_pending(const struct cn_signal *signal, uint64_t number)
{
	return atomic_load_explicit(&signal->own[number % CELLS], memory_order_acquire) ==
	       make_word(number, signal->recorder, PENDING);
}

/* The state of a record whose cell says that it is pending or dead. */
static enum state state_in_doubt(const struct cn_signal *signal, uint64_t number, uint64_t word)
{
	uint64_t own = atomic_load_explicit(&signal->own[number % CELLS], memory_order_acquire);

	if (is_own_pending(signal, number))
		return PENDING;
	if ((uint32_t)(word >> RECORDER_SHIFT) == signal->recorder) /* so it says, and we know better */
		return own >> ROUND_SHIFT == round_of(number) ? word_state(own) : DONE;
	return word_state(word) == PENDING && atomic_load(&signal->alone) ? DEAD : word_state(word);
}

/* What the word of its cell says of a record. That one of our own is done may be a lie: see known_state(). */
static inline enum state state_in(const struct cn_signal *signal, uint64_t number, uint64_t word)
{
	if (word >> ROUND_SHIFT != round_of(number) || word_state(word) == DONE)
		return DONE;
	return state_in_doubt(signal, number, word);
}

static enum state state_of(const struct cn_signal *signal, uint64_t number)
{
	return state_in(signal, number, atomic_load(cell_of(signal, number)));
}

/* What the ring shows of a record to everybody. */
static enum state shown_state(const struct cn_signal *signal, uint64_t number)
{
	uint64_t word = atomic_load(cell_of(signal, number));

	return word >> ROUND_SHIFT == round_of(number) ? word_state(word) : DONE;
}

/* The state of a record, our own or not. */
static enum state known_state(const struct cn_signal *signal, uint64_t number)
{
	return is_own_pending(signal, number) ? PENDING : state_of(signal, number);
}

/* Is the cell with this word free for a number? Not if the number was used, or is behind: `latest` was an old one. */
static bool is_free(uint64_t word, uint64_t number, bool dead_too)
{
	uint64_t ahead = (round_of(number) - (word >> ROUND_SHIFT)) & ROUND_MASK;

	return word_state(word) != PENDING && (dead_too || word_state(word) != DEAD) && number >= CELLS && ahead &&
	       ahead <= ROUND_MASK / 2;
}

/*
 * Take a cell that had this word. A pending record is noted as ours before others can see it; where one of ours is
 * pending already, whatever the ring says, there is no room.
 */
static bool take_cell(struct cn_signal *signal, uint64_t number, uint64_t word, enum state state)
{
	_Atomic uint64_t *own = &signal->own[number % CELLS];
	uint64_t before = atomic_load_explicit(own, memory_order_relaxed);
	uint64_t ours = make_word(number, signal->recorder, state);

	if (word_state(before) == PENDING)
		return false;
	if (state == PENDING && !atomic_compare_exchange_strong(own, &before, ours))
		return false; /* another thread was faster */
	if (atomic_compare_exchange_strong(cell_of(signal, number), &word, ours))
		return true;
	if (state == PENDING)
		atomic_store(own, before);
	return false;
}

static uint64_t first_after(uint64_t latest)
{
	return latest < CELLS ? CELLS : latest + 1;
}

/*
 * No cell is free by the numbers that follow the latest: all are pending, or a process has written a latest number, or
 * rounds, that cannot have been recorded. Then the cells count: each has room for the round after its own. The latest
 * number is corrected first, so that the new one is later. A process that has lost the maker of the event, and with it
 * the news of deaths, waits for no other process's record, and takes the place of any.
 */
static bool take_from_cells(struct cn_signal *signal, enum state state, uint64_t *ret_number)
{
	bool alone = atomic_load(&signal->alone);

	for (unsigned i = 0; i < CELLS; i++) {
		uint64_t latest = atomic_load(&signal->ring->latest), first = first_after(latest);
		uint64_t word = atomic_load(&signal->ring->cells[i]);
		uint64_t number = first + (i - first) % CELLS, round = ((word >> ROUND_SHIFT) + 1) & ROUND_MASK;
		bool ours = (uint32_t)(word >> RECORDER_SHIFT) == signal->recorder;
		if (word_state(word) == PENDING && !alone && !ours)
			continue;
		if (!is_free(word - word_state(word), number, true)) {
			number = (round ? round : 1) * CELLS + i;
			bool lie = latest >= number || number - latest > ROUND_MASK / 2 * CELLS;
			if (lie && !atomic_compare_exchange_strong(&signal->ring->latest, &latest, number - 1))
				continue;
		}
		if (take_cell(signal, number, word, state)) {
			*ret_number = number;
			return true;
		}
	}
	return false;
}

/* Take the next number whose cell is free. */
static CUresult take_number(struct cn_signal *signal, enum state state, uint64_t *ret_number)
{
	for (int dead_too = 0; dead_too < 2; dead_too++) {
		uint64_t first = first_after(atomic_load(&signal->ring->latest));
		for (uint64_t number = first; number != first + CELLS; number++) {
			uint64_t word = atomic_load(cell_of(signal, number));
			if (is_free(word, number, dead_too) && take_cell(signal, number, word, state)) {
				*ret_number = number;
				return CUDA_SUCCESS;
			}
		}
	}
	if (take_from_cells(signal, state, ret_number))
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
			"%d records of the event are pending, in all processes together: that is the limit", CELLS);
}

static void set_latest(struct cn_signal_ring *ring, uint64_t number)
{
	uint64_t latest = atomic_load(&ring->latest);

	/* Bounded: another process may write what it likes, as often as it likes. */
	for (int i = 0; i < LATEST_TRIES_MAX && latest < number; i++)
		if (atomic_compare_exchange_strong(&ring->latest, &latest, number))
			return;
}

static void note_cpu(struct cn_signal_ring *ring)
{
	int32_t cpu = sched_getcpu();

	if (atomic_load_explicit(&ring->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&ring->cpu, cpu, memory_order_relaxed);
}

/* Does the thread that made or did a record last run on another CPU than ours, so that it pays to look for the next? */
static bool is_apart(struct cn_signal_ring *ring)
{
	return atomic_load_explicit(&ring->cpu, memory_order_relaxed) != sched_getcpu();
}

/* ---- Sleeping and waking ---------------------------------------------------------------------------------------- */

/* Not private, unlike those of base/lock.h: the other side is in another process. */
static void sleep_on(_Atomic uint32_t *word, uint32_t expected)
{
	struct timespec timeout = {.tv_nsec = SLEEP_NS};
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
	errno = saved;
}

static void wake_all(_Atomic uint32_t *word)
{
	int saved = errno;

	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

/* Our own record ends. If another process has ended it, it stays so. */
static void mark(struct cn_signal *signal, uint64_t number, enum state state)
{
	struct cn_signal_ring *ring = signal->ring;
	uint64_t pending = make_word(number, signal->recorder, PENDING), ended = pending - PENDING + state;

	atomic_store_explicit(&signal->own[number % CELLS], ended, memory_order_release);
	atomic_compare_exchange_strong(cell_of(signal, number), &pending, ended);
	for (int kind = THREADS; kind <= POLLERS; kind++)
		if (atomic_load(&ring->sleepers[kind]))
			wake_all(&ring->wake[kind]);
}

void cn_host_signal_bury(struct cn_signal *signal, uint32_t recorder)
{
	struct cn_signal_ring *ring = signal->ring;

	if (recorder == CN_RECORDER_ALL_OTHERS) /* dead to us; they may live, and are not touched */
		atomic_store(&signal->alone, true);
	for (unsigned i = 0; i < CELLS; i++) {
		uint64_t word = atomic_load(&ring->cells[i]);
		if (word_state(word) == PENDING && (uint32_t)(word >> RECORDER_SHIFT) == recorder)
			atomic_compare_exchange_strong(&ring->cells[i], &word, word - PENDING + DEAD);
	}
	/* Whatever the counts say: the dead process may have overwritten them. */
	wake_all(&ring->wake[THREADS]);
	wake_all(&ring->wake[POLLERS]);
}

/* Is a number in a sorted list? */
static bool is_among(uint32_t number, const uint32_t *numbers, size_t count)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (numbers[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && numbers[low] == number;
}

void cn_host_signal_disown(struct cn_signal *signal, const uint32_t *others, size_t other_count)
{
	struct cn_signal_ring *ring = signal->ring;
	bool found = false;

	for (unsigned i = 0; i < CELLS; i++) {
		uint64_t word = atomic_load(&ring->cells[i]);
		uint32_t recorder = (uint32_t)(word >> RECORDER_SHIFT);
		if (word_state(word) != PENDING)
			continue;
		if (recorder == signal->recorder ? atomic_load(&signal->own[i]) == word
						 : !others || is_among(recorder, others, other_count))
			continue;
		found |= atomic_compare_exchange_strong(&ring->cells[i], &word, word - PENDING + DEAD);
	}
	if (found) {
		wake_all(&ring->wake[THREADS]);
		wake_all(&ring->wake[POLLERS]);
	}
}

bool cn_host_signal_pending(const struct cn_signal *signal, uint64_t number)
{
	return known_state(signal, number) == PENDING;
}

/*
 * The state of a record, after some more looks if it is pending at first. The looks only compare the word with what it
 * was: when it changes, the waiter pays for one mispredicted branch, and not for several.
 */
static inline enum state look(const struct cn_signal *signal, uint64_t number, int count)
{
	_Atomic uint64_t *cell = cell_of(signal, number);
	uint64_t first = atomic_load(cell), word = first;

	if (state_in(signal, number, first) != PENDING)
		return state_in(signal, number, first);
	for (int i = 0; i < count && word == first; i++) {
		cn_cpu_relax();
		word = atomic_load(cell);
	}
	return word == first - PENDING + DONE ? DONE : state_in(signal, number, word);
}

/*
 * Look at the record for a while, as fast as possible, if the thread that is to do it runs on another core. How long
 * depends on this signal's history: a look is worth as much as the sleep it saves. True: the record has ended;
 * otherwise returns when the wait began, nearly.
 */
static bool spin(struct cn_signal *signal, uint64_t number, uint64_t *ret_start_ns)
{
	uint64_t spin_ns = atomic_load_explicit(&signal->spin_ns, memory_order_relaxed);
	bool apart = is_apart(signal->ring);

	if (apart && look(signal, number, SPINS_FIRST) != PENDING)
		return true;
	uint64_t start_ns = cn_clock_ns();
	while (apart) {
		if (look(signal, number, SPINS_PER_LOOK) != PENDING)
			return true;
		apart = cn_clock_ns() - start_ns < spin_ns;
	}
	*ret_start_ns = start_ns;
	return false;
}

/* After a wait: did it pay to look, or would it have, for as long as is allowed at most? */
static void learn(struct cn_signal *signal, bool worth)
{
	uint32_t spin_ns = atomic_load_explicit(&signal->spin_ns, memory_order_relaxed);

	if (worth)
		spin_ns = spin_ns < SPIN_MOST_NS / 2 ? spin_ns * 2 : SPIN_MOST_NS;
	else
		spin_ns = spin_ns > SPIN_LEAST_NS * 2 ? spin_ns / 2 : SPIN_LEAST_NS;
	atomic_store_explicit(&signal->spin_ns, spin_ns, memory_order_relaxed);
}

/* Sleep until a record is done, or never can be. */
static void await_record(struct cn_signal *signal, uint64_t number)
{
	struct cn_signal_ring *ring = signal->ring;

	if (!cn_host_signal_pending(signal, number))
		return;
	uint64_t start_ns;
	if (spin(signal, number, &start_ns)) {
		learn(signal, true); /* without the clock: what waits goes on at once */
		return;
	}
	while (cn_host_signal_pending(signal, number)) {
		atomic_fetch_add(&ring->sleepers[THREADS], 1);
		uint32_t wake = atomic_load(&ring->wake[THREADS]);
		if (cn_host_signal_pending(signal, number))
			sleep_on(&ring->wake[THREADS], wake);
		atomic_fetch_sub(&ring->sleepers[THREADS], 1);
	}
	learn(signal, cn_clock_ns() - start_ns <= SPIN_MOST_NS);
}

/* ---- The life of a signal --------------------------------------------------------------------------------------- */

static CUresult make_signal(int fd, uint32_t recorder, struct cn_signal **ret_signal)
{
	struct cn_signal *signal = calloc(1, sizeof *signal);

	if (!signal)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an event between processes");
	struct cn_signal_ring *ring =
		mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (ring == MAP_FAILED) {
		CUresult result =
			cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				 "the memory of an event between processes could not be mapped: %s", strerror(errno));
		free(signal);
		return result;
	}
	madvise(ring, sizeof *ring, MADV_DONTFORK);
	signal->ring = ring;
	signal->poll_wake = &ring->wake[POLLERS];
	signal->poll_sleepers = &ring->sleepers[POLLERS];
	signal->fd = -1;
	signal->recorder = recorder;
	atomic_store_explicit(&signal->references, 1, memory_order_relaxed);
	atomic_store_explicit(&signal->spin_ns, SPIN_FIRST_NS, memory_order_relaxed);
	*ret_signal = signal;
	return CUDA_SUCCESS;
}

static void retain(struct cn_signal *signal)
{
	atomic_fetch_add_explicit(&signal->references, 1, memory_order_relaxed);
}

static void release(struct cn_signal *signal, unsigned count)
{
	if (atomic_fetch_sub_explicit(&signal->references, count, memory_order_acq_rel) != count)
		return;
	cn_host_watch_forget(signal);
	munmap(signal->ring, sizeof *signal->ring);
	if (signal->fd >= 0)
		close(signal->fd);
	free(signal);
}

void cn_host_signal_free(struct cn_signal *signal)
{
	release(signal, 1);
}

bool cn_host_signal_busy(struct cn_signal *signal)
{
	return atomic_load(&signal->references) > 1;
}

CUresult cn_host_signal_create(struct cn_signal **ret_signal)
{
	struct cn_signal *signal;
	int fd;
	CUresult result = cn_host_make_file("cenote-signal", sizeof *signal->ring, &fd);

	if (result)
		return result;
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the program has no descriptor left for an event between "
							     "processes: raise its limit (ulimit -n)");
	result = make_signal(fd, 0, &signal);
	if (result) {
		close(fd);
		return result;
	}
	signal->fd = fd;
	signal->ring->magic = MAGIC;
	signal->ring->version = VERSION;
	signal->ring->cells_count = CELLS;
	*ret_signal = signal;
	return CUDA_SUCCESS;
}

CUresult cn_host_signal_export(struct cn_signal *signal, int *ret_fd)
{
	if (signal->fd < 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the event belongs to another process, and only that can share it");
	int fd = fcntl(signal->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made: %s", strerror(errno));
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

CUresult cn_host_signal_import(int fd, uint32_t recorder, struct cn_signal **ret_signal)
{
	struct cn_signal *signal;
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	/* The seals keep the memory there; not even its owner can remove them. */
	if (seals < 0 || (seals & RING_SEALS) != RING_SEALS || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    status.st_size != (off_t)sizeof *signal->ring)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not an event of Cenote's", fd);
	CUresult result = make_signal(fd, recorder, &signal);
	if (result)
		return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_ERROR_INVALID_VALUE;
	if (signal->ring->magic != MAGIC || signal->ring->version != VERSION || signal->ring->cells_count != CELLS) {
		cn_host_signal_free(signal);
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not an event of this version of Cenote",
				fd);
	}
	*ret_signal = signal;
	return CUDA_SUCCESS;
}

/* ---- Records and waits ------------------------------------------------------------------------------------------ */

/* What we know of our own latest record: where it is in which queue. */
static void keep_own(struct cn_signal *signal, uint64_t number, struct cn_point point)
{
	cn_lock(&signal->lock);
	signal->own_number = number;
	signal->own_point = point;
	cn_unlock(&signal->lock);
}

static bool find_own(struct cn_signal *signal, uint64_t number, struct cn_point *ret_point)
{
	cn_lock(&signal->lock);
	bool own = signal->own_number == number;
	if (own)
		*ret_point = signal->own_point;
	cn_unlock(&signal->lock);
	return own;
}

/* The queue has come to the point: there is nothing to wait for. */
static CUresult record_done(struct cn_signal *signal, struct cn_point point)
{
	uint64_t number = atomic_load(&signal->ring->latest);

	if (!number || shown_state(signal, number) != DONE) {
		CUresult result = take_number(signal, DONE, &number);
		if (result)
			return result;
		set_latest(signal->ring, number);
	}
	keep_own(signal, number, point);
	return CUDA_SUCCESS;
}

CUresult cn_host_signal_record(struct cn_signal *signal, struct cn_host_queue *queue, uint64_t owner)
{
	struct cn_operation operation = {.kind = CN_OPERATION_MARK_SIGNAL, .wait_signal = {.signal = signal}};
	struct cn_point point;
	CUresult result = cn_host_point_now(&queue->base, owner, &point);

	if (result)
		return result;
	if (cn_point_reached(point) && !atomic_load_explicit(&queue->failure, memory_order_relaxed))
		return record_done(signal, point);

	result = take_number(signal, PENDING, &operation.wait_signal.record);
	if (result)
		return result;
	note_cpu(signal->ring);
	retain(signal);
	result = cn_host_queue_submit(queue, owner, &operation, &point);
	if (result) {
		mark(signal, operation.wait_signal.record, DONE); /* no other thread has seen the number yet */
		cn_host_signal_free(signal);
		return result;
	}
	keep_own(signal, operation.wait_signal.record, point);
	set_latest(signal->ring, operation.wait_signal.record);
	return CUDA_SUCCESS;
}

/* A record of our own: its point tells our queues all they need to know, without the ring. */
static CUresult wait_for_own(struct cn_host_queue *queue, uint64_t owner, struct cn_point point, bool is_legacy)
{
	if (cn_point_reached(point) && !is_legacy) {
		cn_host_queue_follow(&queue->base, owner, point);
		return CUDA_SUCCESS;
	}
	return cn_host_queue_submit(queue, owner,
				    &(struct cn_operation){.kind = CN_OPERATION_WAIT_POINT, .wait_point = point}, NULL);
}

CUresult cn_host_signal_wait(struct cn_signal *signal, struct cn_host_queue *queue, uint64_t owner)
{
	struct cn_host_group *group = queue->group;
	/* In the legacy queue even a wait for what has happened stands between its group's work before and after. */
	bool is_legacy = group && group->legacy == queue;
	uint64_t number = atomic_load(&signal->ring->latest);
	struct cn_point point;

	if (!number)
		return CUDA_SUCCESS;
	enum state state = state_of(signal, number);
	bool others = state == DEAD || (state == PENDING && !is_own_pending(signal, number));
	if (!others && find_own(signal, number, &point))
		return wait_for_own(queue, owner, point, is_legacy);
	if (state == DONE)
		return is_legacy ? cn_host_point_now(&queue->base, owner, NULL) : CUDA_SUCCESS;

	struct cn_operation operation = {.kind = CN_OPERATION_WAIT_SIGNAL, .wait_signal = {signal, number}};
	retain(signal);
	atomic_fetch_add(&wait_count, 1);
	CUresult result = cn_host_queue_submit(queue, owner, &operation, NULL);
	if (result) {
		atomic_fetch_sub(&wait_count, 1);
		cn_host_signal_free(signal);
	}
	return result;
}

static CUresult result_of(const struct cn_signal *signal, uint64_t number)
{
	if (known_state(signal, number) != DEAD)
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
			"the process that recorded the event died, or its stream failed, before the event completed");
}

void cn_host_signal_let_go(enum cn_operation_kind kind, struct cn_signal *signal, unsigned count)
{
	if (kind == CN_OPERATION_WAIT_SIGNAL)
		atomic_fetch_sub(&wait_count, count);
	release(signal, count);
}

CUresult cn_host_signal_run(const struct cn_operation *operation, CUresult failure)
{
	struct cn_signal *signal = operation->wait_signal.signal;
	CUresult result = CUDA_SUCCESS;

	if (operation->kind == CN_OPERATION_MARK_SIGNAL) {
		mark(signal, operation->wait_signal.record, failure ? DEAD : DONE);
		note_cpu(signal->ring); /* last: nothing waits for it */
	} else if (!failure) {
		result = result_of(signal, operation->wait_signal.record);
	}
	cn_host_signal_let_go(operation->kind, signal, 1);
	return result;
}

/* Is it a wait with a record right behind it? The item after the last one may be on its way. */
static bool is_turn(const struct cn_host_item *item, const struct cn_host_item *last)
{
	return item != last && item->operation.kind == CN_OPERATION_WAIT_SIGNAL &&
	       item->next->operation.kind == CN_OPERATION_MARK_SIGNAL;
}

static bool is_same_turn(const struct cn_host_item *item, const struct cn_host_item *other)
{
	return item->operation.wait_signal.signal == other->operation.wait_signal.signal &&
	       item->next->operation.wait_signal.signal == other->next->operation.wait_signal.signal;
}

unsigned cn_host_signal_take_turns(const struct cn_host_item *first, const struct cn_host_item *last, uint64_t numbers,
				   struct cn_host_item **ret_end)
{
	struct cn_signal *signal = first->operation.wait_signal.signal, *to = NULL;
	const struct cn_host_item *item = first;
	unsigned count = 0;

	if (is_turn(first, last))
		to = first->next->operation.wait_signal.signal;
	await_record(signal, item->operation.wait_signal.record);
	enum state state = to ? state_of(signal, item->operation.wait_signal.record) : PENDING;
	while (state == DONE) {
		struct cn_host_item *then = item->next;
		mark(to, then->operation.wait_signal.record, DONE);
		*ret_end = then;
		if (++count == TURNS_MAX || 2 * (uint64_t)count >= numbers || then == last)
			break;
		item = then->next;
		if (!is_turn(item, last) || !is_same_turn(item, first))
			break;
		/* Not for long: another process may wait for what has been done, and its peer for the answer. */
		state = look(signal, item->operation.wait_signal.record, is_apart(signal->ring) ? SPINS_FIRST : 0);
	}
	if (count)
		note_cpu(to->ring);
	return count;
}

CUresult cn_host_signal_query(struct cn_signal *signal)
{
	uint64_t number = atomic_load(&signal->ring->latest);

	if (cn_host_signal_pending(signal, number))
		return CUDA_ERROR_NOT_READY;
	return result_of(signal, number);
}

CUresult cn_host_signal_sync(struct cn_signal *signal)
{
	uint64_t number = atomic_load(&signal->ring->latest);
	struct cn_point point;

	retain(signal); /* it may be freed while this sleeps */
	if (cn_host_signal_pending(signal, number) && find_own(signal, number, &point))
		cn_host_point_wait(point); /* may have to drive the queue */
	await_record(signal, number);
	CUresult result = result_of(signal, number);
	cn_host_signal_free(signal);
	return result;
}

bool cn_host_signal_waits(void)
{
	return atomic_load_explicit(&wait_count, memory_order_relaxed) != 0;
}
