/* SPDX-License-Identifier: MIT */
/*
 * Which processes have which memory files of Cenote's open or mapped, as /proc shows it.
 */
#ifndef CENOTE_TOOLS_SIGHTINGS_H
#define CENOTE_TOOLS_SIGHTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* By their names; docs/protocol.md has them all. */
enum file_kind {
	FILE_PHYSICAL, /* of cuMemCreate() */
	FILE_HEAP,     /* of cuMemAlloc() */
	FILE_POOL,
	FILE_LEDGER, /* an importer's */
	FILE_KINDS
};

/* A process has a file. */
struct sighting {
	enum file_kind kind;
	dev_t device;
	ino_t inode;
	int pid;
	unsigned int process_uid, file_uid;
	bool mapped, writable; /* writable: it has a mapping that it may write */
	unsigned long long bytes;
	unsigned long long used_bytes; /* of the system's memory, where a descriptor tells; else as `bytes` */
};

struct sightings {
	struct sighting *list; /* one for each file and process; in the order of files, then of PIDs */
	size_t count;
};

/* Search all processes that this one may look into. False: /proc cannot be read, or there is no memory for all. */
bool sightings_take(struct sightings *ret_sightings);
void sightings_free(struct sightings *sightings);
bool sightings_are_of_one_file(const struct sighting *one, const struct sighting *other);

#endif
