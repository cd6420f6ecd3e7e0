/* SPDX-License-Identifier: MIT */
/*
 * Operands of programs' requests, and the memory files in which they may lie: see node.h.
 *
 * A file that a program lends is mapped once and kept in its session's table. Each job that touches it has a reference,
 * so it stays mapped while a piece is under way, whatever the program does. Only a memory file that can neither shrink
 * nor grow is accepted: reading or writing a mapping of it gives no SIGBUS, and no file system of a stranger's is
 * asked.
 */
#include "imexd/imexd.h"

#include "base/segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* Of all programs, and of one. Addresses are what they take; without them, operands go through the lanes. */
#define BYTES_MAX            ((uint64_t)1 << 46)
#define BYTES_OF_SESSION_MAX ((uint64_t)1 << 42)

struct cn_imexd_lent {
	char *address;
	uint64_t bytes;
	unsigned references;
};

/* ---- Checks ---- */

bool cn_imexd_is_operation(const uint64_t *words, uint64_t memory_bytes)
{
	uint64_t bytes = words[CN_NODE_REQUEST_BYTES], offset = words[CN_NODE_REQUEST_OFFSET],
		 flags = words[CN_NODE_REQUEST_FLAGS];
	bool is_lent = words[CN_NODE_REQUEST_LENT];

	if (!bytes || offset > memory_bytes || bytes > memory_bytes - offset)
		return false;
	switch (words[CN_NODE_REQUEST_OPERATION]) {
	case CN_HOST_REMOTE_PUT:
	case CN_HOST_REMOTE_GET: return bytes <= (is_lent ? CN_HOST_REMOTE_PIECE_BYTES : CN_HOST_REMOTE_SLOT_BYTES);
	case CN_HOST_REMOTE_FILL:
		return !is_lent && bytes <= CN_HOST_REMOTE_FILL_BYTES && (flags == 1 || flags == 2 || flags == 4) &&
		       !(bytes % flags);
	case CN_HOST_REMOTE_WRITE:
	case CN_HOST_REMOTE_WAIT: return !is_lent && (bytes == 4 || bytes == 8) && !(offset % bytes) && flags <= 3;
	default: return false;
	}
}

/* ---- Files ---- */

void cn_imexd_lent_drop(struct cn_imexd_lent *lent)
{
	if (!lent || --lent->references)
		return;
	cn_imexd.lent_bytes -= lent->bytes;
	cn_imexd_unmap(lent->address, lent->bytes);
	free(lent);
}

void cn_imexd_lent_return(struct cn_imexd_lent_table *table, uint64_t place)
{
	if (place >= CN_NODE_LENT_MAX || !table->places[place])
		return;
	table->bytes -= table->places[place]->bytes;
	cn_imexd_lent_drop(table->places[place]);
	table->places[place] = NULL;
}

void cn_imexd_lent_end(struct cn_imexd_lent_table *table)
{
	for (uint64_t place = 0; place < CN_NODE_LENT_MAX; place++)
		cn_imexd_lent_return(table, place);
}

static enum cn_node_outcome map(const struct cn_imexd_lent_table *table, int fd, uint64_t bytes,
				struct cn_imexd_lent **ret_lent)
{
	size_t found_bytes;
	int seals;

	if (!cn_file_look(fd, &found_bytes, &seals) || (seals & SEALS) != SEALS || found_bytes != bytes || !bytes)
		return CN_NODE_MALFORMED;
	if (bytes > BYTES_MAX - cn_imexd.lent_bytes || bytes > BYTES_OF_SESSION_MAX - table->bytes)
		return CN_NODE_FULL;
	struct cn_imexd_lent *lent = calloc(1, sizeof *lent);
	void *address =
		lent ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
	if (address == MAP_FAILED) {
		free(lent);
		return CN_NODE_FULL;
	}
	*lent = (struct cn_imexd_lent){.address = address, .bytes = bytes, .references = 1};
	*ret_lent = lent;
	return CN_NODE_DONE;
}

enum cn_node_outcome cn_imexd_lend(struct cn_imexd_lent_table *table, const struct cn_parcel *parcel)
{
	uint64_t place = parcel->message.words[CN_NODE_LEND_PLACE];
	struct cn_imexd_lent *lent;

	if (place >= CN_NODE_LENT_MAX || table->places[place] || parcel->descriptor_count != 1)
		return CN_NODE_MALFORMED;
	enum cn_node_outcome outcome =
		map(table, parcel->descriptors[0], parcel->message.words[CN_NODE_LEND_BYTES], &lent);
	if (outcome)
		return outcome;
	table->places[place] = lent;
	table->bytes += lent->bytes;
	cn_imexd.lent_bytes += lent->bytes;
	return CN_NODE_DONE;
}

char *cn_imexd_lent_find(const struct cn_imexd_lent_table *table, const uint64_t *words,
			 struct cn_imexd_lent **ret_lent)
{
	uint64_t place = words[CN_NODE_REQUEST_LENT] - 1, offset = words[CN_NODE_REQUEST_LENT_OFFSET];
	struct cn_imexd_lent *lent = place < CN_NODE_LENT_MAX ? table->places[place] : NULL;

	if (!lent || offset > lent->bytes || words[CN_NODE_REQUEST_BYTES] > lent->bytes - offset)
		return NULL;
	lent->references++;
	*ret_lent = lent;
	return lent->address + offset;
}
