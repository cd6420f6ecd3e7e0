/* SPDX-License-Identifier: MIT */
/*
 * The tables of an import: by slot, by part, by unit, and the set of starts. One range of zero pages holds them all,
 * and only pages that are used take memory.
 *
 * The first pointer of an import waits for each page that it is the first to use: the system has to find and to clear
 * it. So what it needs is in few pages: the beginnings of the tables, where most first blocks are.
 */
#include "share/pool/import_internal.h"

#include <errno.h>
#include <sys/mman.h>

CUresult cn_import_make_tables(uint64_t bytes, struct cn_import_tables *ret_tables)
{
	struct cn_import_tables tables = {0};
	uint64_t units = bytes / CN_IMPORT_UNIT_BYTES;
	size_t held_bytes = CN_EXPORT_SLOTS * sizeof *tables.held;
	size_t slot_bytes = (units * sizeof *tables.slot_at + 7) / 8 * 8;
	size_t part_bytes = bytes / CN_PART_BYTES * sizeof *tables.mapped;

	tables.memory_bytes = held_bytes + part_bytes + slot_bytes + cn_bits_bytes(units);
	char *memory = mmap(NULL, tables.memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for what is imported: %s", strerror(errno));
	tables.memory = memory;
	tables.held = (struct cn_held *)memory;
	memory += held_bytes;
	tables.mapped = (struct cn_mapped *)memory;
	memory += part_bytes;
	tables.slot_at = (uint32_t *)memory;
	cn_bits_open(&tables.starts, memory + slot_bytes, units);
	*ret_tables = tables;
	return CUDA_SUCCESS;
}

void cn_import_free_tables(struct cn_import_tables *tables)
{
	if (tables->memory)
		munmap(tables->memory, tables->memory_bytes);
	*tables = (struct cn_import_tables){0};
}

/* Where the first block is, the exporter has yet to say; most first blocks are at the beginning. */
void cn_import_touch_tables(const struct cn_import_tables *tables, uint64_t slot)
{
	*(volatile uint32_t *)&tables->held[slot].import_count = 0;
	*(volatile uint64_t *)&tables->mapped->serial = 0;
	*(volatile uint32_t *)tables->slot_at = 0;
	for (unsigned level = 0; level < tables->starts.level_count; level++)
		*(volatile uint64_t *)tables->starts.levels[level] = 0;
}
