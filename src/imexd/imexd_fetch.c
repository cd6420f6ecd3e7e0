/* SPDX-License-Identifier: MIT */
/*
 * What exporters here have, fetched for other nodes.
 *
 * To its exporter the daemon is an importer as any other. Memory it asks for at the exporter's fabric port, with the
 * channel, and gets a descriptor. A pool it imports, once for each importer on another node: so the exporter sees them
 * apart, each with what it holds, and one of them can be evicted. A block is held in the ledger by a bit, as for a
 * program here.
 *
 * To ask an exporter may take seconds, so it is done by threads: FETCHES_MAX in all and FETCHES_OF_EXPORTER_MAX for one
 * exporter, so that one that hangs does not hold up what others have. What they have found comes back over a pipe.
 * After CN_IMEXD_FETCH_MS the other node has its answer, whatever the thread does. Most blocks need no thread: once a
 * pool's memory is mapped, a bit and a look at the control segment are enough, and the loop does that at once.
 *
 * The system bounds how many mappings a process has (vm.max_map_count). What is refused for that is refused with some
 * left: a thread, a lane or the C library's memory may need one.
 */
#include "imexd/imexd.h"

#include "base/descriptor.h"
#include "base/segment.h"
#include "base/thread.h"
#include "device/device.h"
#include "share/pool/import.h"
#include "share/port/fabric.h"
#include "share/wire/closing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	FETCHES_MAX = 16,
	FETCHES_OF_EXPORTER_MAX = 2,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
	MAPPINGS_USUAL = 65530,
	MAPPINGS_KEPT = 4096, /* for all else; a pool with many chunks has more mappings than are counted here */
};

struct fetch {
	struct fetch *next;
	struct cn_imexd_node *node;
	uint64_t life, request, deadline_ns;
	bool is_answered;
	struct cn_imexd_served *pool;               /* of a block, with a reference; NULL: a handle is opened */
	unsigned char bytes[CN_HANDLE_BYTES];       /* the handle, or the exported pointer */
	unsigned char exporter[CN_PORT_NAME_BYTES]; /* its port */
	/* Found by the thread. */
	enum cn_node_outcome outcome;
	struct cn_imexd_served *served;
};

static struct {
	int write_fd;                       /* of the pipe; the loop has the other end */
	struct fetch *first, *last;         /* those that wait, the oldest first */
	struct fetch *running[FETCHES_MAX]; /* in a thread; the first running_count of them */
	unsigned running_count;
} fetches;

/* ---- In a thread ---- */

static enum cn_node_outcome outcome_of(CUresult result)
{
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return CN_NODE_FORBIDDEN;
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CN_NODE_FULL : CN_NODE_GONE;
}

static enum cn_node_outcome outcome_of_block(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE ? CN_NODE_FREED : outcome_of(result);
}

static enum cn_node_outcome map(int fd, struct cn_imexd_served *served)
{
	size_t bytes = 0;
	int seals = 0;
	void *address = MAP_FAILED;

	errno = 0;
	if (cn_file_identify(fd, &bytes, &seals, &served->file) && (seals & SEALS) == SEALS && bytes)
		address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (address == MAP_FAILED)
		return errno == ENOMEM ? CN_NODE_FULL : CN_NODE_GONE;
	served->address = address;
	served->bytes = bytes;
	return CN_NODE_DONE;
}

static enum cn_node_outcome join(int fd, uint32_t node, struct cn_imexd_served *served)
{
	struct cn_export_facts facts;
	CUresult result = cn_import_create_for(fd, served, node, &served->import, &facts, &served->id);

	if (result)
		return outcome_of(result);
	served->bytes = facts.range_bytes;
	served->location = (uint32_t)facts.location_type << CN_NODE_LOCATION_ID_BITS | (uint32_t)facts.location_id;
	return CN_NODE_DONE;
}

static enum cn_node_outcome open_handle(const struct fetch *fetch, struct cn_imexd_served *served)
{
	bool is_pool = ((const struct cn_handle *)fetch->bytes)->kind == CN_HANDLE_FABRIC_POOL;
	uid_t user = cn_fabric_user(fetch->exporter);
	enum cn_node_outcome outcome;
	int fd;

	if (cn_wire_is_stuck(user)) /* it may send what cannot be closed, each time that it is asked */
		return CN_NODE_FULL;
	CUresult result = cn_fabric_fetch(fetch->bytes, is_pool ? CN_FABRIC_POOL : CN_FABRIC_MEMORY, &fd);

	if (result)
		return outcome_of(result);
	memcpy(served->exporter, fetch->exporter, sizeof served->exporter);
	served->user = user;
	outcome = is_pool ? join(fd, fetch->node->number, served) : map(fd, served);
	cn_wire_discard_from(fd, user);
	return outcome;
}

static void take_extent(struct cn_imexd_served *served, const struct cn_import_extent *extent)
{
	served->address = extent->address;
	served->bytes = extent->bytes;
	served->offset = extent->offset;
}

static enum cn_node_outcome open_block(const struct fetch *fetch, struct cn_imexd_served *served)
{
	struct cn_import_extent extent;
	struct cn_export_data data;

	memcpy(&data, fetch->bytes, sizeof data);
	CUresult result = cn_import_hold(fetch->pool->import, &data, &extent);
	if (result)
		return outcome_of_block(result);
	take_extent(served, &extent);
	return CN_NODE_DONE;
}

static void *run_fetch(void *data)
{
	struct fetch *fetch = data;
	struct cn_imexd_served *served = calloc(1, sizeof *served);

	fetch->outcome = CN_NODE_FULL;
	if (served)
		fetch->outcome = fetch->pool ? open_block(fetch, served) : open_handle(fetch, served);
	if (fetch->outcome) {
		free(served);
		served = NULL;
	}
	fetch->served = served;
	while (write(fetches.write_fd, &fetch, sizeof fetch) < 0 && errno == EINTR)
		;
	return NULL;
}

/* ---- In the loop ---- */

static bool may_start(const struct fetch *fetch)
{
	unsigned of_exporter = 0;

	for (unsigned i = 0; i < fetches.running_count; i++)
		of_exporter += !memcmp(fetches.running[i]->exporter, fetch->exporter, sizeof fetch->exporter);
	return of_exporter < FETCHES_OF_EXPORTER_MAX;
}

/* `at` is the link to it; `previous` the one before it. */
static void leave_waiting(struct fetch **at, struct fetch *previous)
{
	struct fetch *fetch = *at;

	*at = fetch->next;
	if (fetches.last == fetch)
		fetches.last = previous;
}

static void free_fetch(struct fetch *fetch)
{
	cn_imexd.fetch_count--;
	cn_imexd_drop(fetch->pool);
	free(fetch);
}

static void leave_running(const struct fetch *fetch)
{
	unsigned i = 0;

	while (fetches.running[i] != fetch)
		i++;
	fetches.running[i] = fetches.running[--fetches.running_count];
}

/* Answer, unless the node is gone, or has its answer. What was found is the node's then, or dropped. */
static void answer(struct fetch *fetch, enum cn_node_outcome outcome, struct cn_imexd_served *served)
{
	struct cn_imexd_node *node = fetch->node;

	if (fetch->is_answered || node->life != fetch->life || !node->is_up)
		cn_imexd_drop(served);
	else if (!cn_imexd_serve_opened(node, fetch->request, outcome, served))
		cn_imexd_link_cut(node, "no memory");
	fetch->is_answered = true;
}

static void start_fetches(void)
{
	struct fetch **at = &fetches.first, *previous = NULL;

	while (*at && fetches.running_count < FETCHES_MAX) {
		struct fetch *fetch = *at;
		if (fetch->node->life != fetch->life || !fetch->node->is_up) { /* it asks no more */
			leave_waiting(at, previous);
			free_fetch(fetch);
			continue;
		}
		if (!may_start(fetch)) {
			previous = fetch;
			at = &fetch->next;
			continue;
		}
		if (cn_thread_start(run_fetch, fetch)) {
			leave_waiting(at, previous);
			fetches.running[fetches.running_count++] = fetch;
		} else if (fetches.running_count) {
			return; /* again when one has ended */
		} else {
			leave_waiting(at, previous);
			answer(fetch, CN_NODE_FULL, NULL);
			free_fetch(fetch);
		}
	}
}

void cn_imexd_fetched(void)
{
	struct fetch *fetch;

	while (read(cn_imexd.event_fd, &fetch, sizeof fetch) == sizeof fetch) {
		leave_running(fetch);
		if (fetch->served) {
			fetch->served->references = 1;
			fetch->served->pool = fetch->pool; /* with the reference */
			fetch->pool = NULL;
			cn_imexd.mapping_count += cn_imexd_mappings(fetch->served);
		}
		answer(fetch, fetch->outcome, fetch->served);
		free_fetch(fetch);
	}
	start_fetches();
	while (cn_import_take_ended()) /* records of pools that were closed */
		;
}

void cn_imexd_fetch_tend(uint64_t now_ns)
{
	for (unsigned i = 0; i < fetches.running_count; i++)
		if (now_ns >= fetches.running[i]->deadline_ns)
			answer(fetches.running[i], CN_NODE_GONE, NULL);
	for (struct fetch *fetch; (fetch = fetches.first) && now_ns >= fetch->deadline_ns;) {
		leave_waiting(&fetches.first, NULL);
		answer(fetch, CN_NODE_GONE, NULL);
		free_fetch(fetch);
	}
}

static unsigned read_mapping_max(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned count = MAPPINGS_USUAL;

	if (file && fscanf(file, "%u", &count) != 1)
		count = MAPPINGS_USUAL;
	if (file)
		fclose(file);
	return count > 2 * MAPPINGS_KEPT ? count - MAPPINGS_KEPT : count / 2;
}

bool cn_imexd_fetch_begin(void)
{
	int ends[2];

	cn_imexd.mapping_max = read_mapping_max();
	cn_device_ops = &cn_host_device_ops; /* whose memory is served */
	if (pipe2(ends, O_CLOEXEC))
		return false;
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return false;
	cn_imexd.event_fd = ends[0];
	fetches.write_fd = ends[1];
	return true;
}

/* Hold a block without a thread. False: the exporter must be asked, or there is no memory. */
static bool fetch_now(struct cn_imexd_node *node, uint64_t request, struct cn_imexd_served *pool, const char *bytes,
		      bool *ret_good)
{
	struct cn_imexd_served *served = calloc(1, sizeof *served);
	struct cn_import_extent extent;
	struct cn_export_data data;
	CUresult result;

	memcpy(&data, bytes, sizeof data);
	if (!served || !cn_import_hold_now(pool->import, &data, &result, &extent)) {
		free(served);
		return false;
	}
	if (result) {
		free(served);
		*ret_good = cn_imexd_serve_opened(node, request, outcome_of_block(result), NULL);
		return true;
	}
	served->references = 1;
	served->pool = pool;
	pool->references++;
	take_extent(served, &extent);
	*ret_good = cn_imexd_serve_opened(node, request, CN_NODE_DONE, served);
	return true;
}

bool cn_imexd_fetch(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, const char *bytes)
{
	struct cn_imexd_served *pool = NULL;
	bool good;

	if (frame->kind == CN_IMEXD_BLOCK) {
		pool = cn_imexd_serve_find(node, frame->memory);
		if (!pool || !pool->import)
			return cn_imexd_serve_opened(node, frame->request, CN_NODE_MALFORMED, NULL);
		if (fetch_now(node, frame->request, pool, bytes, &good))
			return good;
	} else if (cn_imexd.mapping_count + cn_imexd.fetch_count >= cn_imexd.mapping_max) {
		return cn_imexd_serve_opened(node, frame->request, CN_NODE_FULL, NULL);
	}
	struct fetch *fetch = calloc(1, sizeof *fetch);
	if (!fetch)
		return false;
	*fetch = (struct fetch){.node = node,
				.life = node->life,
				.request = frame->request,
				.deadline_ns = cn_clock_ns() + CN_IMEXD_FETCH_MS * CN_MILLISECOND_NS,
				.pool = pool};
	memcpy(fetch->bytes, bytes, sizeof fetch->bytes);
	memcpy(fetch->exporter, pool ? pool->exporter : ((const struct cn_handle *)fetch->bytes)->port,
	       sizeof fetch->exporter);
	if (pool)
		pool->references++;
	*(fetches.last ? &fetches.last->next : &fetches.first) = fetch;
	fetches.last = fetch;
	cn_imexd.fetch_count++;
	start_fetches();
	return true;
}
