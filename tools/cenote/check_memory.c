/* SPDX-License-Identifier: MIT */
/*
 * cenote check: blocks, and which streams have used them.
 *
 * A block is memory that was allocated once. Processes have it at addresses of their own: the one that allocated it,
 * and those that have imported it. What was done to it is kept: which bytes, how, by which stream at which point. A new
 * use is compared with them: the two must not touch the same bytes, or both only read them, or be ordered.
 *
 * An allocation and a free are uses of the whole block. What a kernel does with a block is not known from its
 * arguments: it may read or write, so it is compared with what is known to write. And it may do so anywhere: programs
 * let several streams work on parts of one block. So it is compared with uses of the whole block alone, unless what is
 * not certain is wanted, too. A kernel that may order itself with others while they run is compared with allocations
 * and frees.
 *
 * What is kept is bounded. A use that is ordered before a later write of all its bytes is not needed any more: what is
 * ordered after the write is ordered after both. Nor is a use by a stream that has used the same bytes in the same way
 * since.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { ACCESSES_MAX = 512, ROWS_MAX = 1 << 16 };

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */

static uint64_t end_of(const struct check_shape *shape)
{
	return shape->begin + (shape->slices - 1) * shape->slice + (shape->rows - 1) * shape->pitch + shape->row_bytes;
}

static bool is_plain(const struct check_shape *shape)
{
	return shape->rows == 1 && shape->slices == 1;
}

/* Does one row meet any of a shape's? */
static bool row_meets(uint64_t begin, uint64_t end, const struct check_shape *shape)
{
	for (uint64_t slice = 0; slice < shape->slices; slice++) {
		uint64_t base = shape->begin + slice * shape->slice;
		if (end <= base || begin >= base + (shape->rows - 1) * shape->pitch + shape->row_bytes)
			continue;
		if (shape->rows == 1 || !shape->pitch)
			return true;
		/* The first row that ends behind where the other begins. */
		uint64_t row =
			begin < base + shape->row_bytes ? 0 : (begin - base - shape->row_bytes) / shape->pitch + 1;
		if (row < shape->rows && base + row * shape->pitch < end)
			return true;
	}
	return false;
}

bool check_shapes_meet(const struct check_shape *left, const struct check_shape *right)
{
	if (left->begin >= end_of(right) || right->begin >= end_of(left))
		return false;
	if (is_plain(left))
		return row_meets(left->begin, left->begin + left->row_bytes, right);
	/* More rows than can be looked at: not certain, and so not told. */
	if (left->rows > ROWS_MAX || left->slices > ROWS_MAX || left->rows * left->slices > ROWS_MAX ||
	    right->slices > ROWS_MAX)
		return false;
	for (uint64_t slice = 0; slice < left->slices; slice++) {
		for (uint64_t row = 0; row < left->rows; row++) {
			uint64_t begin = left->begin + slice * left->slice + row * left->pitch;
			if (row_meets(begin, begin + left->row_bytes, right))
				return true;
		}
	}
	return false;
}

/* Does one have all bytes of the other? Only where that is easy to see. */
static bool covers(const struct check_shape *outer, const struct check_shape *inner)
{
	if (is_plain(outer))
		return outer->begin <= inner->begin && end_of(inner) <= end_of(outer);
	return memcmp(outer, inner, sizeof *outer) == 0;
}

/* ---- Blocks and where they are ----------------------------------------------------------------------------------- */

struct check_block *check_block_add(struct check *check, const struct check_site *site, uint64_t bytes)
{
	struct check_block *block = check_allocate(sizeof *block);

	*block = (struct check_block){.references = 1, .check = check, .process = site->process, .bytes = bytes};
	block->allocated = *site;
	return block;
}

static void free_value(void *value)
{
	struct check_value *of = value;

	check_clock_free(&of->clock);
	check_table_clear(&of->taken, NULL);
	free(of);
}

void check_block_release(struct check_block *block)
{
	if (!block || --block->references)
		return;
	check_table_clear(&block->values, free_value);
	free(block->accesses);
	free(block);
}

void check_mapping_release(struct check_mapping *mapping)
{
	if (!mapping || --mapping->references)
		return;
	for (struct check_mapping **at = &mapping->block->mappings; *at; at = &(*at)->next) {
		if (*at == mapping) {
			*at = mapping->next;
			break;
		}
	}
	check_block_release(mapping->block);
	free(mapping);
}

/* The first mapping that ends behind an address. */
static int find_place(const struct check_map *map, uint64_t address)
{
	int low = 0, high = map->count;

	while (low < high) {
		int middle = low + (high - low) / 2;
		const struct check_mapping *mapping = map->list[middle];
		if (mapping->address + mapping->bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct check_mapping *check_map_find(const struct check *check, int process, uint64_t address)
{
	const struct check_map *map = &check->processes[process]->map;
	int place = find_place(map, address);

	return place < map->count && map->list[place]->address <= address ? map->list[place] : NULL;
}

static void unlist(struct check_map *map, int first, int end)
{
	if (first == end)
		return;
	for (int i = first; i < end; i++) {
		map->list[i]->is_gone = true;
		map->list[i]->is_listed = false;
		check_mapping_release(map->list[i]);
	}
	memmove(map->list + first, map->list + end, (size_t)(map->count - end) * sizeof(struct check_mapping *));
	map->count -= end - first;
}

struct check_mapping *check_map_add(struct check *check, int process, struct check_block *block, uint64_t address,
				    uint64_t bytes, uint64_t offset)
{
	struct check_map *map = &check->processes[process]->map;
	struct check_mapping *mapping = check_allocate(sizeof *mapping);

	bytes = bytes ? bytes : 1;
	bytes = bytes > UINT64_MAX - address ? UINT64_MAX - address : bytes;
	int first = find_place(map, address), end = first;
	/* What was there before is gone. */
	while (end < map->count && map->list[end]->address < address + bytes)
		end++;
	unlist(map, first, end);
	if (map->count == map->room) {
		int room = map->room ? 2 * map->room : 16;
		struct check_mapping **larger = check_allocate((size_t)room * sizeof(struct check_mapping *));
		if (map->count)
			memcpy(larger, map->list, (size_t)map->count * sizeof(struct check_mapping *));
		free(map->list);
		map->list = larger;
		map->room = room;
	}
	memmove(map->list + first + 1, map->list + first,
		(size_t)(map->count - first) * sizeof(struct check_mapping *));
	map->list[first] = mapping;
	map->count++;
	*mapping = (struct check_mapping){.references = 1,
					  .next = block->mappings,
					  .block = block,
					  .process = process,
					  .address = address,
					  .bytes = bytes,
					  .offset = offset,
					  .is_listed = true,
					  .released = {.call = CN_CALL_COUNT}};
	block->mappings = mapping;
	block->references++;
	return mapping;
}

void check_map_remove(struct check *check, int process, uint64_t address, uint64_t bytes)
{
	struct check_map *map = &check->processes[process]->map;
	int first = find_place(map, address), end = first;

	while (end < map->count && map->list[end]->address - address < bytes)
		end++;
	unlist(map, first, end);
}

void check_map_clear(struct check *check, int process)
{
	struct check_map *map = &check->processes[process]->map;

	unlist(map, 0, map->count);
	free(map->list);
	*map = (struct check_map){0};
}

/* ---- Uses -------------------------------------------------------------------------------------------------------- */

/* Do the two have a byte in common? Somewhere in a block is a byte of the whole block, but perhaps of no part of it. */
static bool meet(const struct check_access *before, const struct check_use *use)
{
	const struct check_block *block = use->mapping->block;
	const struct check_shape whole = {.row_bytes = block->bytes, .rows = 1, .slices = 1};

	/* Unless the memory is not there: what a kernel waits for while it runs is not seen. */
	if (!block->check->options.is_strict && (before->is_loose || use->is_loose) && before->mode < CHECK_ALLOCATE &&
	    use->mode < CHECK_ALLOCATE)
		return false;
	if (!block->check->options.is_strict &&
	    ((before->by_kernel && !covers(&use->shape, &whole)) ||
	     (use->by_kernel && !covers(&before->shape, &whole)) || (before->by_kernel && use->by_kernel)))
		return false;
	return check_shapes_meet(&before->shape, &use->shape);
}

/* Is it a mistake if two uses of the same bytes are not ordered? */
static bool conflicts(const struct check_access *before, int mode)
{
	static const bool table[][CHECK_RELEASE + 1] = {
		[CHECK_READ] = {[CHECK_WRITE] = true, [CHECK_FREE] = true},
		[CHECK_WRITE] = {[CHECK_READ] = true, [CHECK_WRITE] = true, [CHECK_EITHER] = true, [CHECK_FREE] = true},
		[CHECK_EITHER] = {[CHECK_WRITE] = true, [CHECK_FREE] = true},
		[CHECK_ALLOCATE] =
			{[CHECK_READ] = true, [CHECK_WRITE] = true, [CHECK_EITHER] = true, [CHECK_FREE] = true},
		[CHECK_FREE] = {false},
		[CHECK_RELEASE] = {[CHECK_FREE] = true},
	};

	return table[before->mode][mode];
}

static void tell(const struct check_access *before, const struct check_site *site, int mode,
		 const struct check_block *block)
{
	struct check_finding finding = {
		.kind = CHECK_KIND_RACE,
		.first = before->site,
		.second = *site,
		.first_mode = before->mode,
		.second_mode = mode,
		.epoch = before->epoch,
		.block = block,
		.count = 1,
	};

	if (before->mode == CHECK_ALLOCATE)
		finding.kind = CHECK_KIND_BEFORE_ALLOCATED;
	else if (mode == CHECK_RELEASE && !check_call_is(site->call, CN_ACT_free))
		finding.kind = CHECK_KIND_CLOSED_IN_USE;
	else if (mode == CHECK_FREE || mode == CHECK_RELEASE)
		finding.kind = CHECK_KIND_FREE_UNORDERED;
	check_found(block->check, &finding);
}

/* Something is done to memory that was freed, whether that is ordered or not. */
static bool is_after_free(const struct check_block *block, const struct check_site *site, const struct check_use *use)
{
	const struct check_mapping *mapping = use->mapping;
	struct check_finding finding = {.second = *site, .second_mode = use->mode, .block = block, .count = 1};

	if (use->mode == CHECK_ALLOCATE || use->mode == CHECK_FREE || use->mode == CHECK_RELEASE)
		return false;
	if (mapping->is_import && mapping->released.call != CN_CALL_COUNT) {
		finding.kind = CHECK_KIND_AFTER_FREE;
		finding.first = mapping->released;
		finding.first_mode = CHECK_RELEASE;
		check_found(block->check, &finding);
		return true;
	}
	for (int i = block->is_freed ? block->access_count - 1 : -1; i >= 0; i--) {
		if (block->accesses[i].mode != CHECK_FREE)
			continue;
		finding.kind = mapping->is_import ? CHECK_KIND_AFTER_EXPORTER : CHECK_KIND_AFTER_FREE;
		finding.first = block->accesses[i].site;
		finding.first_mode = CHECK_FREE;
		check_found(block->check, &finding);
		return true;
	}
	return false;
}

/* The owner frees a block that others have still imported. */
static void tell_before_close(const struct check_block *block, const struct check_site *site)
{
	for (const struct check_mapping *at = block->mappings; at; at = at->next) {
		if (!at->is_import || at->is_gone || at->released.call != CN_CALL_COUNT)
			continue;
		const struct check_finding finding = {
			.kind = CHECK_KIND_FREE_BEFORE_CLOSE,
			.first = at->made,
			.second = *site,
			.second_mode = CHECK_FREE,
			.block = block,
			.count = 1,
		};
		check_found(block->check, &finding);
		return;
	}
}

/* Compare with what was done before. A pair of places is told once, and one mistake of a use is enough. */
static bool compare(const struct check_clock *clock, const struct check_site *site, const struct check_use *use)
{
	const struct check_block *block = use->mapping->block;
	const struct check_access *lesser = NULL;
	bool told = false;

	for (int i = 0; i < block->access_count; i++) {
		const struct check_access *before = &block->accesses[i];
		if (use->mode == CHECK_RELEASE) {
			/* A process that lets an import go must be done with it; other processes are not concerned. */
			if (before->site.process != site->process || before->mode >= CHECK_ALLOCATE ||
			    before->by_import != use->mapping->is_import)
				continue;
		} else if (!conflicts(before, use->mode)) {
			continue;
		}
		if (before->epoch.lane == CHECK_NONE || check_clock_has(clock, before->epoch) || !meet(before, use))
			continue;
		if (before->mode == CHECK_ALLOCATE || before->mode == CHECK_RELEASE) {
			lesser = before;
			continue;
		}
		tell(before, site, use->mode, block);
		told = true;
	}
	/* A wait for the writer covers the allocation before it, and a wait for a reader covers its close. */
	if (lesser && !told)
		tell(lesser, site, use->mode, block);
	return told || lesser;
}

static bool is_needless(const struct check_access *before, const struct check_clock *clock,
			const struct check_access *now)
{
	if (before->mode == CHECK_FREE || !covers(&now->shape, &before->shape) || before->by_kernel != now->by_kernel ||
	    before->is_loose != now->is_loose)
		return false;
	if (before->epoch.lane == now->epoch.lane && before->mode == now->mode &&
	    before->site.process == now->site.process)
		return true;
	/* A use by an importer is needed until it lets go: that must come after it. */
	return now->mode == CHECK_WRITE && before->mode != CHECK_ALLOCATE && before->mode != CHECK_RELEASE &&
	       (before->epoch.lane == CHECK_NONE || check_clock_has(clock, before->epoch)) &&
	       (!before->by_import || before->site.process == now->site.process);
}

static void keep(struct check_block *block, const struct check_clock *clock, const struct check_access *now)
{
	int kept = 0;

	for (int i = 0; i < block->access_count; i++)
		if (!is_needless(&block->accesses[i], clock, now))
			block->accesses[kept++] = block->accesses[i];
	if (kept == ACCESSES_MAX) {
		/* The oldest that is no allocation: mistakes with it are not found any more. */
		memmove(block->accesses + 1, block->accesses + 2, (ACCESSES_MAX - 2) * sizeof *block->accesses);
		kept--;
	}
	if (kept == block->access_room) {
		int room = block->access_room ? 2 * block->access_room : 4;
		struct check_access *larger = check_allocate((size_t)room * sizeof *larger);
		if (kept)
			memcpy(larger, block->accesses, (size_t)kept * sizeof *larger);
		free(block->accesses);
		block->accesses = larger;
		block->access_room = room;
	}
	block->accesses[kept] = *now;
	block->access_count = kept + 1;
}

void check_use(const struct check_clock *clock, struct check_epoch epoch, const struct check_site *site,
	       const struct check_use *use)
{
	struct check_block *block = use->mapping->block;
	struct check_access now = {
		.site = *site,
		.shape = use->shape,
		.mode = use->mode,
		.epoch = epoch,
		.by_import = use->mapping->is_import,
		.by_kernel = use->by_kernel,
		.is_loose = use->is_loose,
	};

	if (is_after_free(block, site, use))
		return;
	bool told = compare(clock, site, use);
	if (use->mode == CHECK_FREE) {
		block->is_freed = true;
		if (!told)
			tell_before_close(block, site);
	}
	if (use->mode == CHECK_RELEASE && !use->mapping->imports)
		use->mapping->released = *site;
	keep(block, clock, &now);
}
