/* SPDX-License-Identifier: MIT */
/*
 * Records that are reused and never freed.
 *
 * A thread may find a record just before another thread ends what it stands for. So memory of a record keeps its type
 * for good, and comes as its last user left it (all zero the first time): its lock stays valid, and a late thread sees
 * under that lock, by a number that never repeats or by what the record says of itself, that it is in other use.
 *
 * Not for these, which need more, or cannot afford a call: slots of handle tables come back oldest first (table.h);
 * blocks of a heap and slots of an export are indices; a GPU's streams come back when their state changes, under the
 * same lock; operations of a queue and notes of a stream are under their queue's lock already.
 */
#ifndef CN_BASE_RECORDS_H
#define CN_BASE_RECORDS_H

#include "base/lock.h"

#include <stddef.h>

/* Embedded in a record; may share its memory with what the record uses only while it is taken. */
struct cn_record {
	struct cn_record *next_spare;
};

struct cn_records {
	size_t bytes, alignment, link_at;
	CN_LOCK(RECORDS) lock;
	struct cn_record *spare; /* newest first */
};

#define CN_RECORDS(type, member)                                                                      \
	{                                                                                             \
		.bytes = sizeof(type), .alignment = _Alignof(type), .link_at = offsetof(type, member) \
	}

/* A spare record, or a new one. NULL: no memory. */
void *cn_records_take(struct cn_records *records);
/* A spare record. NULL: there is none. */
void *cn_records_take_spare(struct cn_records *records);
void cn_records_give(struct cn_records *records, void *record);

#endif
