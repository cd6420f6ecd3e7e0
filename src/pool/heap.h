/* SPDX-License-Identifier: MIT */
/*
 * The heap of a pool: which units of its range are blocks, which are free, and which have no memory behind them.
 *
 * Everything is counted in units of 512 bytes and recorded out of line. A record knows its neighbours, so free blocks
 * are joined again when they touch; free blocks stand in bins by size, and a bit map finds the next bin that has one.
 * Sizes that are asked for are rounded up to one of 16 steps between two powers of two, so a block that is freed fits
 * the next request of its class. The heap knows nothing of streams, and is not locked: the pool locks it.
 */
#ifndef CN_POOL_HEAP_H
#define CN_POOL_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CN_UNIT_BYTES = 512,
	CN_CLASS_COUNT = 464, /* of 2^32 units */
	CN_CLASS_WORDS = (CN_CLASS_COUNT + 63) / 64,
	CN_RECORDS_PER_SEGMENT = 1 << 14,
	CN_SEGMENT_COUNT = 1 << 12,
	CN_CHUNK_UNITS = 65536,  /* memory comes and goes in chunks of this many units, 32 MiB, as the driver's does */
	CN_STRETCH_UNITS = 4096, /* no more records than this are looked at to find a block */
};

enum cn_block_state {
	CN_BLOCK_SPARE,  /* the record describes nothing */
	CN_BLOCK_LIVE,   /* the program's */
	CN_BLOCK_CACHED, /* freed by a queue, and its to reuse */
	CN_BLOCK_FREE,   /* anybody's: in a bin */
	CN_BLOCK_HOLE,   /* no memory behind it: in a bin of holes */
	CN_BLOCK_MOVING, /* between two of these, in the hands of one thread */
};

struct cn_cache;

/* A line of the processor's cache each: two threads at work on two blocks do not disturb each other. */
struct cn_block {
	_Alignas(64) _Atomic uint32_t state;
	_Atomic uint32_t start, units; /* atomic for cn_heap_find(), which may look at a record that is changing */
	uint32_t before, after;        /* neighbours, as indices of records; 0: none */
	uint32_t next, previous;       /* in a list */
	uint64_t number;               /* of the free, in the order of the cache's queue */
	_Atomic uint64_t bytes;        /* as asked for */
	_Atomic uint64_t id;
	struct cn_cache *cache; /* in whose list it stands */
};

struct cn_bins {
	uint32_t heads[CN_CLASS_COUNT];
	uint64_t filled[CN_CLASS_WORDS];
	_Atomic uint64_t units; /* of all its blocks; atomic for those who only look */
};

struct cn_heap {
	struct cn_block *_Atomic segments[CN_SEGMENT_COUNT];
	uint32_t record_count, spare;
	_Atomic uint32_t *starts; /* for each unit: the record of the block that begins there, or 0 */
	_Atomic uint32_t *covers; /* for each stretch: a record that may cover its first unit; a hint, to be checked */
	uint32_t unit_count;      /* of the range */
	_Atomic uint32_t top;     /* from here on nothing was ever used */
	uint32_t last;            /* the record that ends at `top` */
	struct cn_bins free, holes;
};

static inline struct cn_block *cn_block_at(const struct cn_heap *heap, uint32_t index)
{
	return atomic_load_explicit(&heap->segments[index / CN_RECORDS_PER_SEGMENT], memory_order_relaxed) +
	       index % CN_RECORDS_PER_SEGMENT;
}

/* The class whose blocks have at most this many units. */
static inline unsigned cn_class_below(uint32_t units)
{
	if (units < 16)
		return units;
	unsigned exponent = 31u - (unsigned)__builtin_clz(units);
	return 16 * (exponent - 3) + (units >> (exponent - 4) & 15);
}

static inline uint32_t cn_class_units(unsigned class)
{
	return class < 16 ? class : (16 + class % 16) << (class / 16 - 1);
}

/* The smallest class whose blocks have at least this many units. */
static inline unsigned cn_class_above(uint32_t units)
{
	unsigned class = cn_class_below(units);

	return class + (cn_class_units(class) < units);
}

/* The first bin from `class` on that has a block; CN_CLASS_COUNT: none. */
static inline unsigned cn_bins_next(const struct cn_bins *bins, unsigned class)
{
	for (unsigned word = class / 64; word < CN_CLASS_WORDS; word++) {
		uint64_t bits = bins->filled[word];
		if (word == class / 64)
			bits &= ~0ull << class % 64;
		if (bits)
			return 64 * word + (unsigned)__builtin_ctzll(bits);
	}
	return CN_CLASS_COUNT;
}

/* Bins are also what a cache keeps its blocks in. */
void cn_bins_push(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index);
void cn_bins_remove(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index);

bool cn_heap_open(struct cn_heap *heap, uint32_t unit_count);
void cn_heap_close(struct cn_heap *heap);

/* A block of exactly this many units out of the free ones, MOVING; 0: there is none, or no record for it. */
uint32_t cn_heap_take(struct cn_heap *heap, uint32_t units);

/* Give a MOVING block back as free. */
void cn_heap_give(struct cn_heap *heap, uint32_t index);

/* Cut a MOVING block: the rest becomes a MOVING block too. 0: no record for it, and nothing happened. */
uint32_t cn_heap_cut(struct cn_heap *heap, uint32_t index, uint32_t units);

/*
 * A stretch that needs memory, whole chunks, MOVING: a hole of at least this many units, or so much of the range
 * beyond what was used so far that it has them together with the free block below. Give it back with cn_heap_give()
 * once it has memory, or with cn_heap_give_hole(). 0: the range is full.
 */
uint32_t cn_heap_take_hole(struct cn_heap *heap, uint32_t wanted);
void cn_heap_give_hole(struct cn_heap *heap, uint32_t index);

/* Whole chunks out of a free block, at most `units_max`, MOVING: to lose their memory. 0: no free block has one. */
uint32_t cn_heap_take_chunks(struct cn_heap *heap, uint32_t units_max);

/* The record of the block that holds a unit; 0: none. */
uint32_t cn_heap_find(const struct cn_heap *heap, uint32_t unit);

#endif
