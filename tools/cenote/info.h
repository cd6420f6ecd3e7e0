/* SPDX-License-Identifier: MIT */
/*
 * cenote info: what is found out, before it is printed.
 */
#ifndef CENOTE_TOOLS_INFO_H
#define CENOTE_TOOLS_INFO_H

#include <cenote/cenote.h>

#include <stdbool.h>
#include <stddef.h>

enum {
	CAPABILITY_COUNT = 6,
	VARIABLE_COUNT = 14,
	WAY_COUNT = 5,
	DIRECTORIES_MAX = 4,
	PATH_BYTES = 4200,
	SENTENCE_BYTES = 600,
	PCI_ID_BYTES = 16,
	UUID_BYTES = 48,
};

struct capability {
	const char *name;
	CUdevice_attribute attribute;
};
extern const struct capability info_capabilities[CAPABILITY_COUNT];

struct variable {
	const char *name, *meaning;
};
extern const struct variable info_variables[VARIABLE_COUNT];

/* A way to share memory: what it is called, for people and for programs. */
struct way {
	const char *name, *key;
};
extern const struct way info_ways[WAY_COUNT];

/* What became of an attempt to share in one way. */
struct trial {
	CUresult result;
	char why[SENTENCE_BYTES]; /* why it did not work, and what would help; "" if it did */
};

struct device {
	char name[256], pci_id[PCI_ID_BYTES], uuid[UUID_BYTES];
	size_t total_bytes;
	int processor_count, major, minor;
	int has[CAPABILITY_COUNT];
	unsigned pool_handle_types, memory_handle_types; /* CUmemAllocationHandleType */
	struct trial trials[WAY_COUNT];
};

/* A directory in which processes find each other. */
struct meeting_place {
	char path[PATH_BYTES];
	int live_count, dead_count;
};

struct facts {
	int cuda_version;
	char library[PATH_BYTES], kernel[256];
	const char *driver;              /* path; NULL: none */
	char driver_why[SENTENCE_BYTES]; /* why there is none, or why it is not used */
	char error[SENTENCE_BYTES];      /* why there are no devices; "" */
	struct device *devices;
	int device_count;
	struct meeting_place places[DIRECTORIES_MAX];
	int place_count;
	char places_error[SENTENCE_BYTES];
	long long descriptor_limit, mapping_limit; /* of a process; -1: none is known */
};

/* Try all ways to share memory of a device, and undo it (info_share.c). */
void info_try(CUdevice device, struct trial ret_trials[WAY_COUNT]);

/* info_print.c */
void info_print_text(const struct facts *facts);
void info_print_json(const struct facts *facts);

#endif
