/* SPDX-License-Identifier: MIT */
/*
 * Reused records: taking and giving back.
 */
#include "base/records.h"

#include <stdlib.h>
#include <string.h>

void *cn_records_take_spare(struct cn_records *records)
{
	cn_lock(&records->lock);
	struct cn_record *taken = records->spare;
	if (taken)
		records->spare = taken->next_spare;
	cn_unlock(&records->lock);
	return taken ? (char *)taken - records->link_at : NULL;
}

void *cn_records_take(struct cn_records *records)
{
	void *record = cn_records_take_spare(records);

	if (record)
		return record;
	record = aligned_alloc(records->alignment, records->bytes);
	if (record)
		memset(record, 0, records->bytes);
	return record;
}

void cn_records_give(struct cn_records *records, void *record)
{
	struct cn_record *link = (struct cn_record *)((char *)record + records->link_at);

	cn_lock(&records->lock);
	link->next_spare = records->spare;
	records->spare = link;
	cn_unlock(&records->lock);
}
