/* SPDX-License-Identifier: MIT */
/*
 * cenote check: calls that allocate, free, read and write memory (check_calls.c has the others).
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* ---- Uses of memory ---------------------------------------------------------------------------------------------- */

static void add_use(struct check_operation *operation, struct check_mapping *mapping, struct check_shape shape,
		    int mode)
{
	if (operation->use_count == CHECK_USES_MAX)
		return;
	operation->uses = check_grow(operation->uses, operation->use_count, sizeof *operation->uses);
	operation->uses[operation->use_count++] = (struct check_use){.mapping = mapping, .shape = shape, .mode = mode};
	mapping->references++;
}

static struct check_shape whole(const struct check_block *block)
{
	return (struct check_shape){.row_bytes = block->bytes ? block->bytes : 1, .rows = 1, .slices = 1};
}

/* What a call does with the bytes at an address, as far as they are known. True: some are. */
static bool use_range(const struct check_call *call, struct check_operation *operation, uint64_t address,
		      uint64_t bytes, int mode)
{
	bool known = false;

	while (bytes) {
		struct check_mapping *mapping = check_map_find(call->check, call->process, address);
		if (!mapping)
			return known;
		uint64_t inside = address - mapping->address, left = mapping->bytes - inside;
		uint64_t now = bytes < left ? bytes : left;
		const struct check_shape shape = {
			.begin = mapping->offset + inside, .row_bytes = now, .rows = 1, .slices = 1};
		add_use(operation, mapping, shape, mode);
		known = true;
		address += now;
		bytes -= now;
	}
	return known;
}

enum { TO, TO_PITCH, TO_SLICE, FROM, FROM_PITCH, FROM_SLICE, ROW_BYTES, ROWS, SLICES, SHAPE_WORDS };

/* Rows: one side of a copy in two or three dimensions. What cannot lie in a block is not understood. */
static bool use_shape(const struct check_call *call, struct check_operation *operation, const uint64_t side[3],
		      int mode)
{
	enum { LIMIT_BITS = 47 };
	struct check_mapping *mapping = side[0] ? check_map_find(call->check, call->process, side[0]) : NULL;
	const uint64_t *words = call->words;
	struct check_shape shape = {
		.row_bytes = words[ROW_BYTES],
		.rows = words[ROWS],
		.slices = words[SLICES],
		.pitch = side[1],
		.slice = side[2],
	};

	if (!mapping || !shape.row_bytes || !shape.rows || !shape.slices)
		return false;
	if ((shape.row_bytes | shape.rows | shape.slices | shape.pitch | shape.slice) >> LIMIT_BITS)
		return false;
	shape.begin = mapping->offset + side[0] - mapping->address;
	if (shape.pitch == shape.row_bytes && shape.slices == 1) {
		shape.row_bytes *= shape.rows < 1 << 16 ? shape.rows : 1;
		shape.rows = shape.rows < 1 << 16 ? 1 : shape.rows;
	}
	if (shape.slices > 1 << 16 || shape.rows > 1ull << 32 || shape.slice >> 40 || shape.pitch >> 31)
		return false;
	add_use(operation, mapping, shape, mode);
	return true;
}

/* ---- Copies and fills -------------------------------------------------------------------------------------------- */

/* Is it memory of the program's own, which CUDA does not know? Copies to there are done when the call returns. */
static bool is_waited_for(const struct check_call *call, bool to_is_known)
{
	switch ((int)call->act) {
	case CN_ACT_copy: return !to_is_known;
	case CN_ACT_copy_now: return true;
	case CN_ACT_fill_now: return !call->check->options.is_strict;
	default: return false;
	}
}

static void move_bytes(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	struct check_stream *stream = check_stream_of(call->check, call->process, record);
	struct check_operation *operation = check_operation_new(call, CHECK_ACCESSES);
	bool copies = call->act == CN_ACT_copy || call->act == CN_ACT_copy_now, to_is_known, from_is_known = false;

	operation->site.stream = stream->index;
	if (call->word_count >= SHAPE_WORDS) {
		operation->site.bytes = record->bytes;
		if (copies)
			from_is_known = use_shape(call, operation, call->words + FROM, CHECK_READ);
		to_is_known = use_shape(call, operation, call->words + TO, CHECK_WRITE);
	} else {
		if (copies)
			from_is_known = use_range(call, operation, record->source, record->bytes, CHECK_READ);
		to_is_known = use_range(call, operation, record->address, record->bytes, CHECK_WRITE);
	}
	check_submit(stream, call->agent, operation);
	if (!is_waited_for(call, to_is_known))
		return;
	if (call->act == CN_ACT_copy_now && to_is_known && from_is_known && call->check->options.is_strict)
		return;
	check_force(stream, stream->submitted);
	check_learn(call->check, call->agent, &stream->clock);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static struct check_use *find_use(struct check_operation *operation, const struct check_block *block)
{
	for (int i = 0; i < operation->use_count; i++)
		if (operation->uses[i].mapping->block == block)
			return &operation->uses[i];
	return NULL;
}

/* An argument that is an address of a block: the kernel uses it somewhere, in the way that its code says. */
static void launch(struct check_call *call)
{
	static const int modes[] = {
		[CN_TRACE_MAY_USE] = CHECK_EITHER, [CN_TRACE_READS] = CHECK_READ, [CN_TRACE_WRITES] = CHECK_WRITE};
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, CHECK_ACCESSES);

	operation->site.stream = stream->index;
	for (size_t i = 0; i < call->word_count; i++) {
		uint64_t address = call->words[i] & ((1ull << CN_TRACE_USE_SHIFT) - 1);
		uint64_t bits = call->words[i] >> CN_TRACE_USE_SHIFT, use = bits & (CN_TRACE_ORDERS_ITSELF - 1);
		bool is_loose = bits & CN_TRACE_ORDERS_ITSELF;
		struct check_mapping *mapping = check_map_find(call->check, call->process, address);
		if (!mapping || use == CN_TRACE_DOES_NOTHING || operation->use_count == CHECK_USES_MAX)
			continue;
		struct check_use *before = find_use(operation, mapping->block);
		if (before) {
			before->mode =
				before->mode == modes[use] || before->mode == CHECK_WRITE ? before->mode : modes[use];
			continue;
		}
		add_use(operation, mapping, whole(mapping->block), modes[use]);
		operation->uses[operation->use_count - 1].by_kernel = true;
		operation->uses[operation->use_count - 1].is_loose = is_loose;
	}
	if (call->record->flags & CN_TRACE_WATCHED)
		operation->host = check_host_of(call->check, call->process, call->number);
	check_submit(stream, call->agent, operation);
}

/* Where a range lies: in a block of the arguments, or in one whose address the kernel has found in memory. */
static struct check_mapping *find_touched(const struct check_operation *operation, uint64_t address)
{
	const struct check_stream *stream = operation->stream;

	for (int i = 0; i < operation->use_count; i++) {
		struct check_mapping *mapping = operation->uses[i].mapping;
		if (address - mapping->address < mapping->bytes)
			return mapping;
	}
	struct check_mapping *mapping = check_map_find(stream->check, stream->process, address);
	/* Another one may be there by now. */
	return mapping && mapping->made.time_ns < operation->site.time_ns ? mapping : NULL;
}

/* Ranges of one length at one distance are rows of one shape. True: it is one of them. */
static bool add_row(struct check_use *before, const struct check_use *now)
{
	struct check_shape *shape = &before->shape;
	uint64_t last = shape->begin + (shape->rows - 1) * shape->pitch;

	if (before->mapping != now->mapping || before->mode != now->mode || shape->row_bytes != now->shape.row_bytes ||
	    now->shape.begin <= last || (shape->rows > 1 && now->shape.begin - last != shape->pitch))
		return false;
	shape->pitch = now->shape.begin - last;
	shape->rows++;
	return true;
}

void check_make_exact(struct check_operation *operation)
{
	enum { EXACT_MAX = 256 };
	static const int modes[] = {
		[CN_TRACE_MAY_USE] = CHECK_EITHER, [CN_TRACE_READS] = CHECK_READ, [CN_TRACE_WRITES] = CHECK_WRITE};
	const struct check_host *kernel = operation->host;
	struct check_use *uses = check_allocate(EXACT_MAX * sizeof *uses);
	bool is_loose = operation->use_count && operation->uses[0].is_loose;
	int count = 0;

	for (size_t i = 0; i + 2 <= kernel->range_words; i += 2) {
		uint64_t address = kernel->ranges[i] & ((1ull << CN_TRACE_USE_SHIFT) - 1),
			 bytes = kernel->ranges[i + 1];
		uint64_t how = kernel->ranges[i] >> CN_TRACE_USE_SHIFT;
		for (struct check_mapping *mapping; bytes && how <= CN_TRACE_WRITES;) {
			mapping = find_touched(operation, address);
			if (!mapping)
				break;
			uint64_t inside = address - mapping->address, left = mapping->bytes - inside;
			uint64_t now = bytes < left ? bytes : left;
			const struct check_use use = {
				.mapping = mapping,
				.mode = modes[how],
				.shape = {.begin = mapping->offset + inside, .row_bytes = now, .rows = 1, .slices = 1},
				.is_loose = is_loose || how == CN_TRACE_MAY_USE,
			};
			address += now;
			bytes -= now;
			if (count && add_row(&uses[count - 1], &use))
				continue;
			if (count == EXACT_MAX) { /* too many to compare: as if it had not been watched */
				free(uses);
				return;
			}
			uses[count++] = use;
		}
	}
	for (int i = 0; i < count; i++)
		uses[i].mapping->references++;
	for (int i = 0; i < operation->use_count; i++)
		check_mapping_release(operation->uses[i].mapping);
	free(operation->uses);
	operation->uses = uses;
	operation->use_count = count;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static void submit_value(struct check_call *call, bool waits, bool is_wide, uint64_t address, uint64_t operand,
			 uint64_t flags)
{
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, waits ? CHECK_WAITS_VALUE : CHECK_WRITES_VALUE);
	struct check_mapping *mapping = check_map_find(call->check, call->process, address);

	operation->site.stream = stream->index;
	operation->operand = operand;
	operation->flags = (unsigned int)flags;
	operation->is_wide = is_wide;
	if (mapping) {
		struct check_block *block = mapping->block;
		uint64_t offset = mapping->offset + address - mapping->address;
		struct check_value *value = check_table_get(&block->values, offset, 0);
		if (!value) {
			value = check_allocate(sizeof *value);
			value->block = block;
			value->offset = offset;
			check_table_put(&block->values, offset, 0, value);
		}
		operation->value = value;
		const struct check_shape shape = {
			.begin = offset, .row_bytes = is_wide ? 8 : 4, .rows = 1, .slices = 1};
		add_use(operation, mapping, shape, waits ? CHECK_READ : CHECK_WRITE);
	}
	check_submit(stream, call->agent, operation);
}

static void submit_batch(struct check_call *call)
{
	enum { KIND, ADDRESS, VALUE, FLAGS, WORDS };
	/* CUstreamBatchMemOpType */
	enum { WAIT_32 = 1, WRITE_32 = 2, WAIT_64 = 4, WRITE_64 = 5 };

	for (size_t i = 0; i + WORDS <= call->word_count; i += WORDS) {
		const uint64_t *word = call->words + i;
		bool waits = word[KIND] == WAIT_32 || word[KIND] == WAIT_64;
		if (waits || word[KIND] == WRITE_32 || word[KIND] == WRITE_64)
			submit_value(call, waits, word[KIND] >= WAIT_64, word[ADDRESS], word[VALUE], word[FLAGS]);
	}
}

/* ---- Allocations ------------------------------------------------------------------------------------------------- */

static struct check_mapping *add_block(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	struct check_block *block = check_block_add(call->check, &call->site, record->bytes);
	struct check_mapping *mapping =
		check_map_add(call->check, call->process, block, record->address, record->bytes, 0);

	mapping->made = call->site;
	check_block_release(block); /* the mapping has it */
	return mapping;
}

static void allocate(struct check_call *call)
{
	struct check_stream *stream;
	struct check_operation *operation;

	if (!call->record->address)
		return;
	stream = check_stream_of(call->check, call->process, call->record);
	call->site.stream = stream->index;
	struct check_mapping *mapping = add_block(call);
	operation = check_operation_new(call, CHECK_ACCESSES);
	add_use(operation, mapping, whole(mapping->block), CHECK_ALLOCATE);
	check_submit(stream, call->agent, operation);
}

static void allocate_now(struct check_call *call)
{
	if (call->record->address)
		add_block(call);
}

/* Memory of the host. A file that several processes have mapped and registered is one block. */
static void allocate_host(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	uint64_t offset = call->word_count ? call->words[0] : 0;

	if (!record->address)
		return;
	if (!record->handle || offset >> 46) {
		add_block(call)->block->is_host = true;
		return;
	}
	struct check_export *export = check_export_add(call);
	if (!export->block) {
		export->block = check_block_add(call->check, &call->site, 1ull << 47);
		export->block->is_host = true;
	}
	check_map_add(call->check, call->process, export->block, record->address, record->bytes, offset)->made =
		call->site;
}

/* The device may have memory of the host at another address. */
static void find_host(struct check_call *call)
{
	uint64_t address = call->record->address, source = call->record->source;
	struct check_mapping *mapping = check_map_find(call->check, call->process, source);

	if (!mapping || !mapping->block->is_host || !address || address == source ||
	    check_map_find(call->check, call->process, address))
		return;
	uint64_t inside = source - mapping->address;
	check_map_add(call->check, call->process, mapping->block, address, mapping->bytes - inside,
		      mapping->offset + inside)
		->made = call->site;
}

/* A free, or the end of an import; false: the import is still counted. */
static bool end_mapping(const struct check_call *call, struct check_mapping *mapping)
{
	if (!mapping || mapping->address != call->record->address)
		return false;
	return !mapping->is_import || (mapping->imports > 0 && --mapping->imports == 0);
}

static void free_in_stream(struct check_call *call)
{
	struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	if (!end_mapping(call, mapping))
		return;
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, CHECK_ACCESSES);
	operation->site.stream = stream->index;
	add_use(operation, mapping, whole(mapping->block), mapping->is_import ? CHECK_RELEASE : CHECK_FREE);
	check_submit(stream, call->agent, operation);
}

/* By the calling thread. */
static void free_now(struct check_call *call, struct check_mapping *mapping, int mode)
{
	const struct check_use use = {.mapping = mapping, .shape = whole(mapping->block), .mode = mode};

	check_use(&call->agent->clock, (struct check_epoch){CHECK_NONE, 0}, &call->site, &use);
}

/* It waits for all work of the process, as far as anyone knows. */
static void free_waiting(struct check_call *call)
{
	struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	check_learn_all(call->check, call->agent, call->process);
	if (end_mapping(call, mapping))
		free_now(call, mapping, mapping->is_import ? CHECK_RELEASE : CHECK_FREE);
}

static void close_legacy(struct check_call *call)
{
	struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	if (end_mapping(call, mapping))
		free_now(call, mapping, CHECK_RELEASE);
}

/* ---- Virtual memory ---------------------------------------------------------------------------------------------- */

static void create_memory(struct check_call *call)
{
	struct check_table *table = &call->check->memory_table;
	uint64_t process = (uint64_t)call->process, object = call->record->object;

	check_block_release(check_table_remove(table, process, object));
	if (call->act != CN_ACT_memory_create)
		return;
	struct check_block *block = check_block_add(call->check, &call->site, call->record->bytes);
	block->is_physical = true;
	check_table_put(table, process, object, block);
}

static void map_memory(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	struct check_block *block =
		check_table_get(&call->check->memory_table, (uint64_t)call->process, record->object);
	uint64_t offset = call->word_count ? call->words[0] : 0;

	if (block && !(offset >> 47) && !(record->bytes >> 47))
		check_map_add(call->check, call->process, block, record->address, record->bytes, offset)->made =
			call->site;
}

static void unmap_memory(struct check_call *call)
{
	uint64_t address = call->record->address, bytes = call->record->bytes;
	const struct check_map *map = &call->check->processes[call->process]->map;

	for (int i = 0; i < map->count; i++)
		if (map->list[i]->address - address < bytes && map->list[i]->block->is_physical)
			free_now(call, map->list[i], CHECK_RELEASE);
	check_map_remove(call->check, call->process, address, bytes);
}

static void label(struct check_call *call)
{
	const struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	if (mapping && call->label)
		snprintf(mapping->block->label, sizeof mapping->block->label, "%s", call->label);
}

void check_call_memory(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	bool is_value = call->act == CN_ACT_wait_value || call->act == CN_ACT_write_value;

	switch ((int)call->act) {
	case CN_ACT_copy:
	case CN_ACT_copy_now:
	case CN_ACT_fill:
	case CN_ACT_fill_now: move_bytes(call); break;
	case CN_ACT_launch: launch(call); break;
	case CN_ACT_wait_value:
	case CN_ACT_write_value:
		if (is_value && call->word_count >= 2)
			submit_value(call, call->act == CN_ACT_wait_value, record->bytes == 8, record->address,
				     call->words[0], call->words[1]);
		break;
	case CN_ACT_batch: submit_batch(call); break;
	case CN_ACT_allocate: allocate(call); break;
	case CN_ACT_allocate_now: allocate_now(call); break;
	case CN_ACT_host_memory: allocate_host(call); break;
	case CN_ACT_host_pointer: find_host(call); break;
	case CN_ACT_free: free_in_stream(call); break;
	case CN_ACT_free_now: free_waiting(call); break;
	case CN_ACT_host_memory_end: check_map_remove(call->check, call->process, record->address, 1); break;
	case CN_ACT_close_legacy: close_legacy(call); break;
	case CN_ACT_memory_create:
	case CN_ACT_memory_release: create_memory(call); break;
	case CN_ACT_map: map_memory(call); break;
	case CN_ACT_unmap: unmap_memory(call); break;
	case CN_ACT_label: label(call); break;
	default: break;
	}
}
