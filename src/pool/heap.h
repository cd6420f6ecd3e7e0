/* SPDX-License-Identifier: MIT */
/*
 * The heap of a pool: which units of its range are blocks, which are free, and which have no memory behind them.
 *
 * Everything is counted in units of 512 bytes and recorded out of line. A record knows its neighbours, so free blocks
 * are joined again when they touch. Free blocks stand in bins, a free list for each size class, and a bitmap finds the
 * next bin that has one. Sizes that are asked for are rounded up to one of 16 steps between two powers of two, so a
 * block that is freed fits the next request of its class. A span is a piece of the range that is cut and joined apart
 * from the rest (span.h). The heap knows nothing of streams, and is not locked: the pool locks it.
 */
#ifndef CN_POOL_HEAP_H
#define CN_POOL_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CN_HEAP_UNIT_BYTES = 512,
	CN_SIZE_CLASS_COUNT = 464, /* of 2^32 units */
	CN_SIZE_CLASS_WORDS = (CN_SIZE_CLASS_COUNT + 63) / 64,
	CN_HEAP_RECORD_COUNT_MAX = 1 << 26,
	CN_HEAP_RECORDS_AHEAD = 1024, /* there should be memory for this many more */
	CN_HEAP_CHUNK_UNITS =
		65536, /* memory comes and goes in chunks of this many units, 32 MiB, as the driver's does */
	CN_HEAP_CHUNK_BYTES = CN_HEAP_CHUNK_UNITS * CN_HEAP_UNIT_BYTES,
	CN_HEAP_COVER_UNITS = 4096, /* no more records than this are looked at to find a block */
};

enum cn_block_state {
	CN_BLOCK_SPARE,    /* the record describes nothing */
	CN_BLOCK_LIVE,     /* the program's */
	CN_BLOCK_CACHED,   /* freed by a queue, and only that queue may reuse it */
	CN_BLOCK_FREE,     /* any queue may have it: in a bin */
	CN_BLOCK_HOLE,     /* no memory behind it: in a bin of holes */
	CN_BLOCK_MOVING,   /* between two of these, owned by one thread */
	CN_BLOCK_SHARED,   /* the program's, and other processes may have it too: see shared_block.c */
	CN_BLOCK_DEFERRED, /* freed by the program, while other processes have it */
	CN_BLOCK_KEPT,     /* free memory of a span, which any queue may have: see span.h */
	CN_BLOCK_PENDING,  /* the same where only the span's queue may have it yet */
	CN_BLOCK_SPAN,     /* the record of a span, whose blocks have records of their own */
};

/* One cache line each: two threads that work on two blocks do not disturb each other. */
struct cn_block {
	_Alignas(64) _Atomic uint32_t state;
	_Atomic uint32_t start, units; /* atomic for cn_heap_find(), which may look at a record that is changing */
	uint32_t before, after;        /* neighbours, as indices of records; 0: none */
	uint32_t next, previous;       /* in a list; the first one's `previous` means nothing */
	_Atomic uint32_t tag;          /* of a shared block: belongs to the layer above */
	uint64_t number;               /* of the free, in the order of the cache's queue */
	_Atomic uint64_t bytes;        /* as asked for */
	_Atomic uint64_t id;
	uint32_t span; /* the record of the span that the block lies in; 0: none */
};

/* Records that describe nothing, linked by `next`. */
struct cn_spares {
	uint32_t first, count;
};

struct cn_bins {
	uint32_t heads[CN_SIZE_CLASS_COUNT];
	uint64_t bitmap[CN_SIZE_CLASS_WORDS];
	_Atomic uint64_t units; /* of all its blocks; atomic for readers without the lock */
};

struct cn_heap {
	/* These do not change, and are read without a lock. */
	struct cn_block *records; /* addresses for all there can be, and memory for `record_limit` of them */
	_Atomic uint32_t *starts; /* for each unit: the record of the block that begins there, or 0 */
	_Atomic uint32_t *covers; /* for each stretch: a record that may cover its first unit; a hint, to be checked */
	uint32_t room_units;      /* of the largest range there is room for: see cn_heap_room() */
	uint32_t record_count_max;
	_Atomic uint32_t unit_count; /* of the range: changes when it is opened for another one */
	/* These do: apart from the others, so that a thread which only looks up a block is not disturbed. */
	_Alignas(64) _Atomic uint32_t record_count;
	_Atomic uint32_t record_limit;
	struct cn_spares spares;
	_Atomic uint32_t top; /* from here on nothing was ever used */
	uint32_t last;        /* the record that ends at `top` */
	struct cn_bins free, holes;
};

static inline struct cn_block *cn_block_at(const struct cn_heap *heap, uint32_t index)
{
	return &heap->records[index];
}

/* The class whose blocks have at most this many units. */
static inline unsigned cn_size_class_below(uint32_t units)
{
	if (units < 16)
		return units;
	unsigned shift = (31u ^ (unsigned)__builtin_clz(units)) - 4; /* so that 16 to 31 is left */
	return 16 * shift + (units >> shift);
}

static inline uint32_t cn_size_class_units(unsigned class)
{
	return class < 16 ? class : (16 + class % 16) << (class / 16 - 1);
}

/* The smallest class whose blocks have at least this many units, one or more. */
static inline unsigned cn_size_class_above(uint32_t units)
{
	return cn_size_class_below(units - 1) + 1;
}

/* The first bin from `class` on that has a block; CN_SIZE_CLASS_COUNT: none. */
static inline unsigned cn_bins_next(const struct cn_bins *bins, unsigned class)
{
	for (unsigned word = class / 64; word < CN_SIZE_CLASS_WORDS; word++) {
		uint64_t bits = bins->bitmap[word];
		if (word == class / 64)
			bits &= ~0ull << class % 64;
		if (bits)
			return 64 * word + (unsigned)__builtin_ctzll(bits);
	}
	return CN_SIZE_CLASS_COUNT;
}

/* The free lists of a cache are bins, too. A thread that changes them has them locked. */
static inline void cn_bins_count(struct cn_bins *bins, uint64_t change)
{
	uint64_t units = atomic_load_explicit(&bins->units, memory_order_relaxed);

	atomic_store_explicit(&bins->units, units + change, memory_order_relaxed);
}

/* Returns the class. */
static inline unsigned cn_bins_push(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	uint32_t units = atomic_load_explicit(&block->units, memory_order_relaxed);
	unsigned class = cn_size_class_below(units);
	uint32_t next = bins->heads[class];

	block->next = next;
	if (next)
		cn_block_at(heap, next)->previous = index;
	else
		bins->bitmap[class / 64] |= 1ull << class % 64;
	bins->heads[class] = index;
	cn_bins_count(bins, units);
	return class;
}

void cn_bins_remove(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index);
/* A block of at least this many units; 0: there is none. */
uint32_t cn_bins_fit(const struct cn_heap *heap, const struct cn_bins *bins, uint32_t units);

enum { CN_HEAP_ROOMS = 33 };
/* Tables have room for 2 to the power of n units; this is the least n for so many. */
static inline unsigned cn_heap_room(uint32_t unit_count)
{
	return unit_count > 1 ? 32 - (unsigned)__builtin_clz(unit_count - 1) : 0;
}

/* A heap of zero bytes, or one that was emptied and has the room. False: no memory; it is unchanged. */
bool cn_heap_open(struct cn_heap *heap, uint32_t unit_count);
/*
 * As it was after cn_heap_open(), and without memory. But what readers without a lock look at stays mapped: a thread
 * that looks up an address in a pool which is ending then finds nothing, and does not fault.
 */
void cn_heap_empty(struct cn_heap *heap);
void cn_heap_close(struct cn_heap *heap);

/*
 * Are records running out? Then get memory for more. This asks the system, so it needs no lock: any thread may do it at
 * any time.
 */
static inline bool cn_heap_is_low(const struct cn_heap *heap)
{
	uint32_t limit = atomic_load_explicit(&heap->record_limit, memory_order_relaxed);
	uint32_t count = atomic_load_explicit(&heap->record_count, memory_order_relaxed);

	return limit < heap->record_count_max && limit < count + CN_HEAP_RECORDS_AHEAD;
}

bool cn_heap_add_records(struct cn_heap *heap);

/*
 * A block of exactly this many units out of the free ones, MOVING: preferably a low one, so that high memory comes free
 * and joins. 0: there is none, or no record for it.
 */
uint32_t cn_heap_take(struct cn_heap *heap, uint32_t units);

/* Move up to `count` records; for new ones the heap's `spares` need not have any. Returns how many. */
uint32_t cn_heap_move_spares(struct cn_heap *heap, struct cn_spares *from, struct cn_spares *to, uint32_t count);

/* ---- For the heap and for spans, which have free lists and spares of their own ---- */

struct cn_heap_part {
	struct cn_bins *bins;
	struct cn_spares *spares;
	enum cn_block_state state; /* of what is in the bins */
};

/* In this order: see holds() in heap.c. */
static inline void cn_block_set_range(struct cn_block *block, uint32_t start, uint32_t units)
{
	atomic_store_explicit(&block->start, start, memory_order_release);
	atomic_store_explicit(&block->units, units, memory_order_release);
}

/* The record describes nothing from now on. */
void cn_block_forget(struct cn_heap *heap, struct cn_spares *spares, uint32_t index);
/* Take a block off its bin, and cut it to size; the rest goes back. 0: no record for the rest; nothing changed. */
uint32_t cn_heap_part_take(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t index, uint32_t units);
/* The lowest of some blocks of a list that are large enough: what is used should be together. */
uint32_t cn_heap_lowest(const struct cn_heap *heap, uint32_t index, uint32_t units);
/* Cut a block: the rest has the same state. 0: no record for it, and nothing changed. */
uint32_t cn_heap_part_cut(struct cn_heap *heap, struct cn_spares *spares, uint32_t index, uint32_t units);
/* Let cn_heap_find() find the block from every stretch that begins inside it. */
void cn_heap_set_covers(struct cn_heap *heap, uint32_t index);
/* Put a MOVING block into the bins, joined with its neighbours there. Returns the record of the whole. */
uint32_t cn_heap_part_give(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t index);

/* Give a MOVING block back as free. */
void cn_heap_give(struct cn_heap *heap, uint32_t index);

/* Cut a MOVING block: the rest becomes a MOVING block too. 0: no record for it, and nothing changed. */
uint32_t cn_heap_cut(struct cn_heap *heap, uint32_t index, uint32_t units);

/*
 * A stretch that needs memory, whole chunks, MOVING: a hole of at least this many units, or so much of the range
 * beyond what was used so far that it has them together with the free block below. Give it back with cn_heap_give()
 * once it has memory, or with cn_heap_give_hole(). 0: the range is full.
 */
uint32_t cn_heap_take_hole(struct cn_heap *heap, uint32_t wanted);
void cn_heap_give_hole(struct cn_heap *heap, uint32_t index);

/* Whole chunks out of a free block, at most `units_max`, MOVING: to be decommitted. 0: no free block has one. */
uint32_t cn_heap_take_chunks(struct cn_heap *heap, uint32_t units_max);

/* The record of the block that begins where another ends, or, if that is changing, behind it; 0: none. */
uint32_t cn_heap_next(const struct cn_heap *heap, uint32_t index);
/* The record of the block that holds a unit; 0: none. */
uint32_t cn_heap_find(const struct cn_heap *heap, uint32_t unit);

#endif
