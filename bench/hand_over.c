/* SPDX-License-Identifier: MIT */
/*
 * A buffer handed over: from written by one process to readable by another. By events, with a buffer that is known
 * already or is named each time; compared with shared memory by hand, and with the same bytes copied: through a Unix
 * socket, by process_vm_readv(), by UCX. All bytes are checked, outside of the time.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "ucx.h"

enum {
	PIECE_BYTES = 1 << 20,
	SCRATCH_BYTES = 32 << 20,
	CACHE_LINE_BYTES = 64,
	SPINS_MAX = 100000, /* then yield, in case the importer has no CPU */
	REPETITIONS = 15,
};

static const struct buffer_size {
	const char *name;
	size_t bytes;
} sizes[] = {{"4 KiB", 4 << 10}, {"64 KiB", 64 << 10}, {"1 MiB", 1 << 20}, {"16 MiB", 16 << 20}, {"64 MiB", 64 << 20}};

enum {
	BUFFER = 'b', /* other buffers, known from now on */
	FORGET = 'f', /* they are about to be freed */
	EVENT = 'e',  /* its writing is recorded; the importer waits already */
	NAME = 'n',   /* recorded, and the buffer named over a socket */
	HAND = 'h',   /* in shared memory, and a word says so */
	SOCKET = 's', /* all its bytes over the socket */
	READV = 'r',  /* a word says so, and the importer copies them from our memory */
	UCX = 'u',    /* in a message */
	QUIT = 'q',
};

/* What the exporter sends first: a way to hand over, the buffer's size, the byte it is full of, and where it is. */
struct order {
	char way;
	unsigned char value;
	size_t bytes;
	uint32_t number; /* of the word */
	const void *address;
};

/* The same buffer in all its forms, as each process has them. */
struct buffer {
	CUdeviceptr known, named; /* of the pool */
	char *hand;               /* shared by hand */
	char *own;                /* the process's own, to copy from or to */
	size_t bytes;
};

static CUevent event;
static CUmemPoolPtrExportData block_name;

/* After a large buffer the caches hold nothing of what comes next: do the same after a small one, to compare both. */
static void empty_caches(void)
{
	static volatile char scratch[SCRATCH_BYTES];

	for (size_t at = 0; at < SCRATCH_BYTES; at += CACHE_LINE_BYTES)
		scratch[at]++;
}

/* ---- The importer ---- */

static void check_bytes(const char *bytes, size_t count, unsigned char value)
{
	BENCH_MUST(!bytes || (unsigned char)bytes[0] != value || memcmp(bytes, bytes + 1, count - 1));
}

static void check_buffer(const struct buffer *buffer, const struct order *order)
{
	static char piece[PIECE_BYTES];
	CUdeviceptr from = order->way == NAME ? buffer->named : buffer->known;

	if (order->way != EVENT && order->way != NAME) {
		check_bytes(order->way == HAND ? buffer->hand : buffer->own, order->bytes, order->value);
		return;
	}
	for (size_t at = 0; at < order->bytes; at += PIECE_BYTES) {
		size_t now = order->bytes - at < PIECE_BYTES ? order->bytes - at : PIECE_BYTES;
		BENCH_MUST(cuMemcpyDtoH(piece, from + at, now));
		check_bytes(piece, now, order->value);
	}
}

static void forget_buffer(struct buffer *buffer)
{
	if (!buffer->bytes)
		return;
	BENCH_MUST(cuMemFree(buffer->known));
	BENCH_MUST(munmap(buffer->hand, buffer->bytes));
	free(buffer->own);
	*buffer = (struct buffer){0};
}

static void know_buffer(const struct peer *peer, size_t bytes, struct buffer *buffer)
{
	int descriptor;

	get(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(cuMemPoolImportPointer(&buffer->known, pair_pool, &block_name));
	BENCH_MUST(cenote_recv_descriptor(peer->sock, &descriptor));
	buffer->hand = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	buffer->own = malloc(bytes);
	BENCH_MUST(buffer->hand == MAP_FAILED || !buffer->own);
	close(descriptor);
	memset(buffer->own, 1, bytes);
	buffer->bytes = bytes;
	say(peer, BUFFER);
}

static void read_from(pid_t pid, const struct order *order, char *to)
{
	for (size_t at = 0; at < order->bytes;) {
		struct iovec here = {to + at, order->bytes - at};
		struct iovec there = {(char *)(uintptr_t)order->address + at, order->bytes - at};
		ssize_t count = process_vm_readv(pid, &here, 1, &there, 1, 0);
		BENCH_MUST(count <= 0);
		at += (size_t)count;
	}
}

/* Returns the time at which it may be read. */
static uint64_t take_buffer(const struct peer *peer, const struct order *order, struct buffer *buffer)
{
	/* The exporter goes on when we are about to wait: for an event, it knows that when the wait is submitted. */
	if (order->way != EVENT)
		atomic_store(&peer->page->waiting, 1);
	switch (order->way) {
	case SOCKET: get(peer->bytes_fd, buffer->own, order->bytes); break;
	case UCX: ucx_receive(buffer->own, order->bytes); break;
	case HAND: pair_await(&peer->page->words[0], order->number, !peer->together); break;
	case READV:
		pair_await(&peer->page->words[0], order->number, !peer->together);
		read_from(peer->pid, order, buffer->own);
		break;
	case NAME:
		get(peer->bytes_fd, &block_name, sizeof block_name);
		BENCH_MUST(cuMemPoolImportPointer(&buffer->named, pair_pool, &block_name));
		BENCH_MUST(cuStreamWaitEvent(pair_stream, event, 0));
		BENCH_MUST(cuStreamSynchronize(pair_stream));
		break;
	case EVENT:
		BENCH_MUST(cuStreamWaitEvent(pair_stream, event, 0));
		atomic_store(&peer->page->waiting, 1);
		BENCH_MUST(cuStreamSynchronize(pair_stream));
		break;
	}
	return bench_now_ns();
}

/* The system decides whether one process may read another's memory. */
static void try_to_read(const struct peer *peer)
{
	struct order order;
	uint32_t found = 0;

	get(peer->in, &order, sizeof order);
	struct iovec here = {&found, sizeof found}, there = {(void *)(uintptr_t)order.address, sizeof found};
	bool allowed = process_vm_readv(peer->pid, &here, 1, &there, 1, 0) == sizeof found;
	say(peer, allowed ? 'y' : 'n');
}

static void take_buffers(const struct peer *peer)
{
	struct buffer buffer = {0};
	struct order order;
	CUipcEventHandle handle;

	BENCH_MUST(cenote_recv_pool(peer->sock, &pair_pool));
	get(peer->bytes_fd, &handle, sizeof handle);
	BENCH_MUST(cuIpcOpenEventHandle(&event, handle));
	try_to_read(peer);
	if (!ucx_absent(peer))
		ucx_open(peer);
	for (get(peer->in, &order, sizeof order); order.way != QUIT; get(peer->in, &order, sizeof order)) {
		if (order.way == BUFFER) {
			know_buffer(peer, order.bytes, &buffer);
			continue;
		}
		if (order.way == FORGET) {
			forget_buffer(&buffer);
			say(peer, FORGET);
			continue;
		}
		BENCH_MUST(order.bytes != buffer.bytes);
		uint64_t ready_ns = take_buffer(peer, &order, &buffer);
		put(peer->out, &ready_ns, sizeof ready_ns);
		check_buffer(&buffer, &order);
		if (order.way == NAME)
			BENCH_MUST(cuMemFree(buffer.named));
		empty_caches();
		say(peer, order.way);
	}
	forget_buffer(&buffer);
	if (!ucx_absent(peer))
		ucx_close(peer);
	BENCH_MUST(cuEventDestroy(event));
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

/* ---- The exporter ---- */

struct giving {
	const struct peer *peer;
	struct buffer *buffer;
	char way;
	uint64_t written_ns;
};

static uint32_t number;

static void await_importer(const struct peer *peer)
{
	for (unsigned spins = 0; !atomic_exchange(&peer->page->waiting, 0); spins++)
		if (peer->together || spins > SPINS_MAX)
			sched_yield();
}

/* The last step before the record: the importer waits, and the buffer has been written. */
static void CUDA_CB note_written(void *data)
{
	struct giving *giving = data;

	await_importer(giving->peer);
	giving->written_ns = bench_now_ns();
}

static void write_buffer(const struct giving *giving, const struct order *order)
{
	if (order->way == EVENT || order->way == NAME) {
		BENCH_MUST(cuMemsetD8Async(giving->buffer->known, order->value, order->bytes, pair_stream));
		BENCH_MUST(cuStreamSynchronize(pair_stream));
	} else {
		memset(order->way == HAND ? giving->buffer->hand : giving->buffer->own, order->value, order->bytes);
	}
	empty_caches();
}

static void give_now(struct giving *giving, const struct order *order)
{
	const struct peer *peer = giving->peer;

	giving->written_ns = bench_now_ns();
	switch (order->way) {
	case NAME:
		BENCH_MUST(cuEventRecord(event, pair_stream));
		BENCH_MUST(cuMemPoolExportPointer(&block_name, giving->buffer->known));
		put(peer->bytes_fd, &block_name, sizeof block_name);
		break;
	case SOCKET: put(peer->bytes_fd, giving->buffer->own, order->bytes); break;
	case UCX: ucx_send(giving->buffer->own, order->bytes); break;
	case HAND:
	case READV: pair_post(&peer->page->words[0], order->number); break;
	}
}

/* Nanoseconds from written to readable. */
static double give_buffer(void *data)
{
	struct giving *giving = data;
	const struct peer *peer = giving->peer;
	const struct buffer *buffer = giving->buffer;
	uint32_t next = ++number;
	struct order order = {giving->way, (unsigned char)next, buffer->bytes, next, buffer->own};
	uint64_t ready_ns;

	write_buffer(giving, &order);
	if (order.way == EVENT) {
		BENCH_MUST(cuLaunchHostFunc(pair_stream, note_written, giving));
		BENCH_MUST(cuEventRecord(event, pair_stream));
		put(peer->out, &order, sizeof order);
	} else {
		put(peer->out, &order, sizeof order);
		await_importer(peer);
		give_now(giving, &order);
	}
	get(peer->in, &ready_ns, sizeof ready_ns);
	BENCH_MUST(hear(peer) != order.way);
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	return (double)(ready_ns - giving->written_ns);
}

static void make_buffer(const struct peer *peer, size_t bytes, struct buffer *ret_buffer)
{
	struct order order = {.way = BUFFER, .bytes = bytes};
	int descriptor = memfd_create("by-hand", MFD_CLOEXEC);

	BENCH_MUST(descriptor < 0 || ftruncate(descriptor, (off_t)bytes));
	*ret_buffer = (struct buffer){.bytes = bytes, .own = malloc(bytes)};
	ret_buffer->hand = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	BENCH_MUST(!ret_buffer->own || ret_buffer->hand == MAP_FAILED);
	BENCH_MUST(cuMemAllocFromPoolAsync(&ret_buffer->known, bytes, pair_pool, pair_stream));
	BENCH_MUST(cuMemPoolExportPointer(&block_name, ret_buffer->known));
	put(peer->out, &order, sizeof order);
	put(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(cenote_send_descriptor(peer->sock, descriptor));
	BENCH_MUST(hear(peer) != BUFFER);
	close(descriptor);
}

static const char *const group = "A buffer handed over to another process";

static void give_size(const struct peer *peer, const struct buffer_size *size, bool readable)
{
	static const char *const baseline = "copy through a Unix socket";
	const char *absent = ucx_absent(peer);
	struct buffer buffer;

	make_buffer(peer, size->bytes, &buffer);
	struct giving ways[] = {{peer, &buffer, EVENT, 0},  {peer, &buffer, NAME, 0},  {peer, &buffer, HAND, 0},
				{peer, &buffer, SOCKET, 0}, {peer, &buffer, READV, 0}, {peer, &buffer, UCX, 0}};
	struct bench_contestant contestants[] = {
		{.name = "cenote, an event", .once = give_buffer, .data = &ways[0]},
		{.name = "cenote, an event and a name", .once = give_buffer, .data = &ways[1]},
		{.name = "by hand: shared memory and futex", .once = give_buffer, .data = &ways[2]},
		{.name = baseline, .once = give_buffer, .data = &ways[3]},
		{.name = readable ? "copy by process_vm_readv" : NULL, .once = give_buffer, .data = &ways[4]},
		{.name = absent ? NULL : "copy by UCX", .once = give_buffer, .data = &ways[5]}};
	if (absent)
		bench_absent(group, size->name, "copy by UCX", absent);
	if (!readable)
		bench_absent(group, size->name, "copy by process_vm_readv", "not allowed here");
	bench_contest(&(struct bench_contest){.group = group,
					      .name = size->name,
					      .baseline = baseline,
					      .repetitions = REPETITIONS,
					      .x = (double)size->bytes,
					      .x_name = "bytes"},
		      contestants, sizeof contestants / sizeof *contestants);
	put(peer->out, &(struct order){.way = FORGET}, sizeof(struct order));
	BENCH_MUST(hear(peer) != FORGET);
	BENCH_MUST(cuMemFreeAsync(buffer.known, pair_stream));
	BENCH_MUST(munmap(buffer.hand, buffer.bytes));
	free(buffer.own);
}

static void give_buffers(const struct peer *peer)
{
	struct order first = {.address = &number}, quit = {.way = QUIT};
	CUipcEventHandle handle;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* some systems need this before others may read our memory */
	pair_create_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pair_pool));
	BENCH_MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	BENCH_MUST(cuIpcGetEventHandle(&handle, event));
	put(peer->bytes_fd, &handle, sizeof handle);
	put(peer->out, &first, sizeof first);
	bool readable = hear(peer) == 'y';
	if (!ucx_absent(peer))
		ucx_open(peer);
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (bench_wanted(group, sizes[i].name))
			give_size(peer, &sizes[i], readable);
	put(peer->out, &quit, sizeof quit);
	if (!ucx_absent(peer))
		ucx_close(peer);
	BENCH_MUST(cuEventDestroy(event));
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

int main(int argument_count, char **arguments)
{
	ucx_settle(arguments);
	bench_start("hand_over", argument_count, arguments);
	pair_run(give_buffers, take_buffers, 0, 1);
	return bench_finish();
}
