/* SPDX-License-Identifier: MIT */
/*
 * Reused records: taking and giving back.
 */
#include "base/records.h"

#include <stdlib.h>
#include <string.h>

static void *record_of(const struct cn_records *records, struct cn_record *link)
{
	return link ? (char *)link - records->link_at : NULL;
}

static void *take(struct cn_records *records, struct cn_record **link)
{
	struct cn_record *taken = *link;

	if (taken)
		*link = taken->next_spare;
	cn_unlock(&records->lock);
	if (taken)
		return record_of(records, taken);
	void *record = aligned_alloc(records->alignment, records->bytes);
	if (record)
		memset(record, 0, records->bytes);
	return record;
}

void *cn_records_take(struct cn_records *records)
{
	cn_lock(&records->lock);
	return take(records, &records->spare);
}

void *cn_records_take_best(struct cn_records *records, uint64_t (*cost)(const void *record, uint64_t wanted),
			   uint64_t wanted)
{
	struct cn_record *none = NULL, **best = &none, **link;
	uint64_t least = UINT64_MAX;

	cn_lock(&records->lock);
	for (link = &records->spare; *link; link = &(*link)->next_spare) {
		uint64_t found = cost(record_of(records, *link), wanted);
		if (found < least) {
			least = found;
			best = link;
		}
	}
	return take(records, best);
}

void cn_records_give(struct cn_records *records, void *record)
{
	struct cn_record *link = (struct cn_record *)((char *)record + records->link_at);

	cn_lock(&records->lock);
	link->next_spare = records->spare;
	records->spare = link;
	cn_unlock(&records->lock);
}
