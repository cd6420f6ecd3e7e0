/* SPDX-License-Identifier: MIT */
/*
 * Marks: see pool_location.h. The seconds say that it is a mark, the nanoseconds are its content: never 0, which is
 * what a file system leaves that does not keep them.
 */
#include "share/pool/pool_location.h"
#include "share/wire/wire.h"

#include <fcntl.h>
#include <stdio.h>

enum {
	SECONDS = 0x0ce07e00 + CN_WIRE_VERSION, /* a day in 1976 */
	ID_BITS = 24,
	TYPE_MAX = 31,
};

void cn_location_write(int path_fd, const struct cn_export_facts *facts)
{
	char path[32];

	if (facts->location_type <= 0 || facts->location_type > TYPE_MAX || facts->location_id < 0 ||
	    facts->location_id >> ID_BITS)
		return;
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = SECONDS, .tv_nsec = (long)facts->location_type << ID_BITS | facts->location_id},
	};
	snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
	utimensat(AT_FDCWD, path, times, 0);
}

bool cn_location_read(const struct statx *status, struct cn_export_facts *ret_facts)
{
	long said = status->stx_mtime.tv_nsec;

	if (!S_ISSOCK(status->stx_mode) || status->stx_mtime.tv_sec != SECONDS || !(said >> ID_BITS))
		return false;
	*ret_facts = (struct cn_export_facts){
		.location_type = (int)(said >> ID_BITS),
		.location_id = (int)(said & ((1 << ID_BITS) - 1)),
	};
	return true;
}
