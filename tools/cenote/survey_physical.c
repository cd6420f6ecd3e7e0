/* SPDX-License-Identifier: MIT */
/*
 * What no process reports, and the memory files in /proc tell (sightings.h): physical memory that several processes
 * have, memory that only one process has, and importers whose exporter cannot say which process they are.
 *
 * What cuMemCreate() made is shared by a descriptor, or by a fabric handle that fetches one, and the exporter does not
 * learn of it. /proc does not say which process made the memory, or when the others got it; nor does it show
 * descriptors in transit, and processes that are not visible here. There may be very many allocations: those that the
 * same processes have in the same way are reported together.
 */
#include "sightings.h"
#include "survey.h"

#include <stdlib.h>
#include <string.h>

/* A file, and the sightings of it: one for each process, in the order of their PIDs. */
struct file {
	const struct sighting *sightings;
	size_t count;
	unsigned long long bytes;
};

/* ---- Physical memory that several processes have ---- */

static int compare(unsigned long long one, unsigned long long other)
{
	return one < other ? -1 : one > other;
}

static int compare_files(const void *left, const void *right)
{
	const struct file *one = left, *other = right;
	int order = compare(one->count, other->count);

	for (size_t i = 0; !order && i < one->count; i++) {
		order = compare((unsigned)one->sightings[i].pid, (unsigned)other->sightings[i].pid);
		if (!order)
			order = compare(one->sightings[i].mapped, other->sightings[i].mapped);
	}
	return order;
}

static bool add_physical(struct survey *survey, const struct file *file)
{
	struct physical *physicals = one_more(survey->physicals, survey->physical_count, sizeof *physicals);
	struct physical_holder *holders = physicals ? calloc(file->count, sizeof *holders) : NULL;

	if (physicals)
		survey->physicals = physicals;
	if (!holders)
		return false;
	for (size_t i = 0; i < file->count; i++) {
		const struct sighting *seen = &file->sightings[i];
		holders[i] =
			(struct physical_holder){.pid = seen->pid, .uid = seen->process_uid, .mapped = seen->mapped};
		find_identity(seen->pid, &holders[i].identity);
	}
	physicals[survey->physical_count++] =
		(struct physical){.uid = file->sightings[0].file_uid, .holders = holders, .holder_count = file->count};
	return true;
}

/* Report files that the same processes have together. */
static bool add_physicals(struct survey *survey, struct file *files, size_t count)
{
	if (count)
		qsort(files, count, sizeof *files, compare_files);
	for (size_t i = 0; i < count; i++) {
		if ((!i || compare_files(&files[i - 1], &files[i]) != 0) && !add_physical(survey, &files[i]))
			return false;
		struct physical *physical = &survey->physicals[survey->physical_count - 1];
		physical->count++;
		physical->bytes += files[i].bytes;
	}
	return true;
}

/* ---- Memory that one process has alone ---- */

static bool add_private(struct survey *survey, const struct sighting *seen)
{
	struct private_memory *memory = survey_private(survey, seen->pid, seen->process_uid, false);

	if (memory) {
		memory->count++;
		memory->bytes += seen->used_bytes;
	}
	return memory;
}

/* ---- Importers ---- */

/* The process that writes a ledger is the importer; its exporter reads it. */
static void find_importer(const struct sightings *all, struct holder *holder)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct sighting *seen = &all->list[i];
		if (seen->kind == FILE_LEDGER && seen->inode == holder->ledger_inode && seen->writable) {
			holder->importer.pid = seen->pid;
			find_identity(seen->pid, &holder->identity);
			return;
		}
	}
}

static void find_importers(const struct survey *survey, const struct sightings *all)
{
	for (size_t i = 0; i < survey->sharer_count; i++)
		for (size_t j = 0; j < survey->sharers[i].pool_count; j++) {
			const struct sharer_pool *pool = &survey->sharers[i].pools[j];
			for (size_t k = 0; k < pool->holder_count; k++)
				if (!pool->holders[k].importer.pid && pool->holders[k].ledger_inode)
					find_importer(all, &pool->holders[k]);
		}
}

/* ---- All of it ---- */

static bool add_file(struct file **files, size_t *count, const struct file *file)
{
	struct file *more = one_more(*files, *count, sizeof *more);

	if (!more)
		return false;
	*files = more;
	more[(*count)++] = *file;
	return true;
}

/* Files that several processes have, and what one has alone. False: no memory. */
static bool sort_out(struct survey *survey, const struct sightings *all, struct file **files, size_t *count)
{
	for (size_t i = 0, next; i < all->count; i = next) {
		const struct sighting *first = &all->list[i];
		struct file file = {.sightings = first};
		for (next = i; next < all->count && sightings_are_of_one_file(first, &all->list[next]); next++)
			if (all->list[next].bytes > file.bytes)
				file.bytes = all->list[next].bytes;
		file.count = next - i;
		bool kept = true;
		if (first->kind == FILE_PHYSICAL && file.count > 1)
			kept = add_file(files, count, &file);
		else if (first->kind != FILE_LEDGER && file.count == 1)
			kept = add_private(survey, first);
		if (!kept)
			return false;
	}
	return true;
}

void survey_find_physical(struct survey *survey)
{
	struct sightings all;
	struct file *files = NULL;
	size_t count = 0;

	if (!sightings_take(&all))
		return;
	find_importers(survey, &all);
	survey->physical_known = sort_out(survey, &all, &files, &count) && add_physicals(survey, files, count);
	free(files);
	sightings_free(&all);
}
