/* SPDX-License-Identifier: MIT */
/*
 * Marks: see pool_location.h. The high half of the seconds says that it is a mark, the low half how many parts the
 * range has. The nanoseconds say where the pool is. They are never 0, which is what a file system leaves that does not
 * keep them.
 */
#include "share/pool/pool_location.h"
#include "share/wire/wire.h"

#include <fcntl.h>
#include <stdio.h>

enum {
	SECONDS = 0x0ce0 + CN_WIRE_VERSION, /* days in 1976 */
	PARTS_BITS = 16,
	ID_BITS = 24,
	TYPE_MAX = 31,
};

void cn_location_write(int path_fd, const struct cn_export_facts *facts)
{
	uint64_t parts = facts->range_bytes / CN_PART_BYTES;
	char path[32];

	if (!parts || parts > CN_PART_COUNT_MAX || facts->range_bytes % CN_PART_BYTES)
		return;
	if (facts->location_type <= 0 || facts->location_type > TYPE_MAX || facts->location_id < 0 ||
	    facts->location_id >> ID_BITS)
		return;
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = SECONDS << PARTS_BITS | (time_t)parts,
		 .tv_nsec = (long)facts->location_type << ID_BITS | facts->location_id},
	};
	snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
	utimensat(AT_FDCWD, path, times, 0);
}

bool cn_location_read(const struct statx *status, struct cn_export_facts *ret_facts)
{
	int64_t seconds = status->stx_mtime.tv_sec;
	long said = status->stx_mtime.tv_nsec;
	uint64_t parts = (uint64_t)seconds & ((1 << PARTS_BITS) - 1);

	if (!S_ISSOCK(status->stx_mode) || seconds >> PARTS_BITS != SECONDS || !(said >> ID_BITS) || !parts ||
	    parts > CN_PART_COUNT_MAX)
		return false;
	*ret_facts = (struct cn_export_facts){
		.location_type = (int)(said >> ID_BITS),
		.location_id = (int)(said & ((1 << ID_BITS) - 1)),
		.range_bytes = parts * CN_PART_BYTES,
	};
	return true;
}
