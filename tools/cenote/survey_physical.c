/* SPDX-License-Identifier: MIT */
/*
 * What no process reports, and the memory files in /proc tell (sightings.h): physical memory that several processes
 * have, memory that only one process has, and importers whose exporter cannot say which process they are.
 *
 * What cuMemCreate() made is shared by a descriptor, or by a fabric handle that fetches one, and the exporter does not
 * learn of it. /proc does not say which process made the memory, or when the others got it; nor does it show
 * descriptors in transit, and processes that are not visible here. There may be very many allocations: those that the
 * same processes have in the same way are reported together.
 *
 * Programs of other machines have memory through cenote-imexd, which says for which nodes it holds a file. Only its
 * word is taken about files that /proc shows, and it adds nodes to them, nothing else.
 */
#include "sightings.h"
#include "survey.h"

#include <stdlib.h>
#include <string.h>

/* A file that cenote-imexd holds for a node. */
struct held {
	unsigned long long inode;
	struct physical_node node;
};
struct helds {
	struct held *list; /* one for each file and node; in the order of files, then of nodes */
	size_t count;
	bool failed; /* no memory, or too many */
};
enum { HELDS_MAX = 1 << 20 };

/* A file, and the sightings of it: one for each process, in the order of their PIDs. */
struct file {
	const struct sighting *sightings;
	size_t count;
	unsigned long long bytes;
	const struct held *helds; /* of this file */
	size_t held_count;
};

static int compare(unsigned long long one, unsigned long long other)
{
	return one < other ? -1 : one > other;
}

/* ---- What is held for other machines ---- */

static void keep_held(const cenote_imex_held *held, void *data)
{
	struct helds *helds = data;
	struct held *list = NULL;

	if (!helds->failed && helds->count < HELDS_MAX) /* once failed, the list stays as it is */
		list = one_more(helds->list, helds->count, sizeof *list);
	if (!list) {
		helds->failed = true;
		return;
	}
	helds->list = list;
	list[helds->count++] = (struct held){held->inode, {.node = held->node, .import_count = 1}};
}

static int compare_helds(const void *left, const void *right)
{
	const struct held *one = left, *other = right;
	int order = compare(one->inode, other->inode);

	return order ? order : compare(one->node.node, other->node.node);
}

static void merge_helds(struct helds *helds)
{
	size_t kept = 0;

	if (helds->count)
		qsort(helds->list, helds->count, sizeof *helds->list, compare_helds);
	for (size_t i = 0; i < helds->count; i++)
		if (kept && compare_helds(&helds->list[kept - 1], &helds->list[i]) == 0)
			helds->list[kept - 1].node.import_count++;
		else
			helds->list[kept++] = helds->list[i];
	helds->count = kept;
}

/* Ask the daemon, if one runs here and there is memory that it may hold. False: it has not told all. */
static bool take_helds(const struct sightings *all, struct helds *ret_helds)
{
	bool wanted = false;
	int pid;

	for (size_t i = 0; i < all->count && !wanted; i++)
		wanted = all->list[i].kind == FILE_PHYSICAL;
	if (!wanted || cenote_imex_daemon(&pid))
		return true;
	bool told = !cenote_imex_survey(0, keep_held, ret_helds);
	merge_helds(ret_helds);
	return told && !ret_helds->failed;
}

static void find_helds(const struct helds *helds, struct file *file)
{
	struct held wanted = {.inode = file->sightings[0].inode};
	size_t first = 0, end = helds->count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;
		if (helds->list[middle].inode < wanted.inode)
			first = middle + 1;
		else
			end = middle;
	}
	for (end = first; end < helds->count && helds->list[end].inode == wanted.inode;)
		end++;
	file->helds = end > first ? &helds->list[first] : NULL;
	file->held_count = end - first;
}

/* ---- Physical memory that several processes have ---- */

static int compare_files(const void *left, const void *right)
{
	const struct file *one = left, *other = right;
	int order = compare(one->count, other->count);

	for (size_t i = 0; !order && i < one->count; i++) {
		order = compare((unsigned)one->sightings[i].pid, (unsigned)other->sightings[i].pid);
		if (!order)
			order = compare(one->sightings[i].mapped, other->sightings[i].mapped);
	}
	if (!order)
		order = compare(one->held_count, other->held_count);
	for (size_t i = 0; !order && i < one->held_count; i++)
		order = compare(one->helds[i].node.node, other->helds[i].node.node);
	return order;
}

static bool add_physical(struct survey *survey, const struct file *file)
{
	struct physical *physicals = one_more(survey->physicals, survey->physical_count, sizeof *physicals);
	struct physical_holder *holders = physicals ? calloc(file->count, sizeof *holders) : NULL;
	struct physical_node *nodes = holders ? calloc(file->held_count + 1, sizeof *nodes) : NULL;

	if (physicals)
		survey->physicals = physicals;
	if (!nodes) {
		free(holders);
		return false;
	}
	for (size_t i = 0; i < file->held_count; i++)
		nodes[i].node = file->helds[i].node.node;
	for (size_t i = 0; i < file->count; i++) {
		const struct sighting *seen = &file->sightings[i];
		holders[i] =
			(struct physical_holder){.pid = seen->pid, .uid = seen->process_uid, .mapped = seen->mapped};
		find_identity(seen->pid, &holders[i].identity);
	}
	physicals[survey->physical_count++] = (struct physical){.uid = file->sightings[0].file_uid,
								.holders = holders,
								.holder_count = file->count,
								.nodes = nodes,
								.node_count = file->held_count};
	return true;
}

/* Report files that the same processes and nodes have together. */
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
		for (size_t j = 0; j < physical->node_count; j++)
			physical->nodes[j].import_count += files[i].helds[j].node.import_count;
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
static bool sort_out(struct survey *survey, const struct sightings *all, const struct helds *helds, struct file **files,
		     size_t *count)
{
	for (size_t i = 0, next; i < all->count; i = next) {
		const struct sighting *first = &all->list[i];
		struct file file = {.sightings = first};
		for (next = i; next < all->count && sightings_are_of_one_file(first, &all->list[next]); next++)
			if (all->list[next].bytes > file.bytes)
				file.bytes = all->list[next].bytes;
		file.count = next - i;
		bool kept = true;
		if (first->kind == FILE_PHYSICAL)
			find_helds(helds, &file);
		if (first->kind == FILE_PHYSICAL && (file.count > 1 || file.held_count))
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
	struct helds helds = {.list = NULL};
	struct file *files = NULL;
	size_t count = 0;

	if (!sightings_take(&all))
		return;
	find_importers(survey, &all);
	survey->nodes_known = take_helds(&all, &helds);
	survey->physical_known = sort_out(survey, &all, &helds, &files, &count) && add_physicals(survey, files, count);
	free(files);
	free(helds.list);
	sightings_free(&all);
}
