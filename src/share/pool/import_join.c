/* SPDX-License-Identifier: MIT */
/*
 * How an import joins its exporter.
 *
 * If a pool's descriptor says where the pool is (pool_location.h), and its socket exists, it is imported without
 * asking the exporter: all that costs time comes with the first pointer. Then the importing thread connects,
 * introduces the process, and names the block it wants, so that one answer brings the control segment, a ledger to
 * write, and the memory of the block. While the exporter makes its answer, the importer makes its range of addresses
 * and its tables: the descriptor says how large they are, and the answer must say the same. A connection that was lost
 * or refused leaves the import as it was, and the next pointer tries again. If no process listens there any more, the
 * import has ended.
 */
#include "share/pool/import_internal.h"

#include "share/peer/peer.h"
#include "share/port/port.h"

#include <errno.h>

/* What an import is made of before the exporter has answered, or after. */
struct joining {
	struct cn_import *import;
	const struct cn_export_data *wanted; /* NULL: nothing yet */
	void *base;                          /* of the view; NULL: not made yet */
	CUresult result;
};

void cn_import_give_memory(struct cn_import *import)
{
	if (import->view)
		cn_device_ops->view_free(import->view);
	cn_segment_close(&import->control);
	cn_segment_close(&import->ledger); /* last: with it the exporter may get the memory back */
	cn_import_free_tables(&import->tables);
	import->view = NULL;
}

/* A range of addresses of so many bytes, and the tables for it. The caller undoes what fails. `asking` is held. */
static CUresult make_range(struct joining *joining, uint64_t bytes)
{
	struct cn_import *import = joining->import;
	void *base;

	import->bytes = bytes;
	CUresult result = cn_import_make_tables(bytes, &import->tables);
	if (!result)
		result = cn_device_ops->view_create(bytes, CN_PART_BYTES, &import->view, &base);
	if (!result && import->allowed)
		result = cn_device_ops->view_allow(import->view, import->users);
	if (!result)
		joining->base = base;
	return result;
}

/* The exporter is at work. */
static void make_range_early(void *object)
{
	struct joining *joining = object;

	joining->result = make_range(joining, joining->import->facts.range_bytes);
	if (!joining->result)
		cn_import_touch_tables(&joining->import->tables, joining->wanted->slot);
}

static CUresult connect_exporter(struct cn_import *import)
{
	CUresult result = cn_peer_open(&cn_import_peer_ops, import, &import->peer);

	if (result)
		return result;
	/* What was looked at when the pool was imported has not changed: the descriptor is our own. */
	result = import->located ? cn_wire_reach_checked_path(import->peer->channel.fd, import->path_fd)
				 : cn_wire_reach_path(import->peer->channel.fd, import->path_fd);
	if (result == CUDA_ERROR_INVALID_VALUE) { /* no process listens there, and none ever will */
		cn_lock(&import->lock);
		import->state = CN_IMPORT_ORPHANED;
		cn_unlock(&import->lock);
	}
	return result;
}

static CUresult explain_join(int error)
{
	if (error == EPIPE)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the pool was just destroyed; or its exporter ended, or has no room, no "
				"descriptor or no memory for another importer");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the pool could not be imported: %s", cn_wire_explain(error));
}

/* Introduce ourselves. On success a fork waits until the caller allows it. */
static CUresult introduce(struct joining *joining, struct cn_parcel *ret_welcome)
{
	struct cn_import *import = joining->import;
	struct cn_peer_question question = {.request.message.kind = CN_MESSAGE_JOIN};
	uint64_t *words = question.request.message.words;

	words[CN_JOIN_NODE] = import->for_node;
	if (joining->wanted) {
		words[CN_JOIN_SLOT] = joining->wanted->slot;
		words[CN_JOIN_GENERATION] = joining->wanted->generation;
		if (import->located) {
			question.meanwhile = make_range_early;
			question.object = joining;
		}
	}
	int error = cn_peer_ask(import->peer, &question, ret_welcome);
	return error ? explain_join(error) : CUDA_SUCCESS;
}

/* Check what the exporter says of its pool: is it a pool, and the one that the descriptor means? */
static CUresult check_welcome(const struct cn_import *import, const struct cn_parcel *welcome, bool wanted)
{
	const struct cn_message *message = &welcome->message;
	uint64_t bytes = message->words[CN_WELCOME_BYTES];

	if (message->kind != CN_MESSAGE_WELCOME || welcome->descriptor_count < 2 ||
	    welcome->descriptor_count > 2u + wanted || !bytes || bytes % CN_PART_BYTES ||
	    bytes / CN_PART_BYTES > CN_PART_COUNT_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor leads to something other than a pool");
	if (import->located && (message->words[CN_WELCOME_LOCATION_TYPE] != (uint64_t)import->facts.location_type ||
				message->words[CN_WELCOME_LOCATION_ID] != (uint64_t)import->facts.location_id ||
				bytes != import->facts.range_bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor does not lead to the pool that it names");
	return CUDA_SUCCESS;
}

/* The exporter has accepted us: become an importer. The caller undoes what fails. */
static CUresult settle(struct joining *joining, struct cn_parcel *welcome)
{
	struct cn_import *import = joining->import;
	const struct cn_message *message = &welcome->message;
	CUresult result = cn_segment_map(welcome->descriptors[CN_WELCOME_CONTROL], sizeof(struct cn_control),
					 "the pool's control segment", &import->control);

	if (result)
		return result;
	welcome->descriptors[CN_WELCOME_CONTROL] = -1; /* it is the segment's now */
	result = cn_segment_borrow(welcome->descriptors[CN_WELCOME_LEDGER], sizeof(struct cn_ledger),
				   "the ledger that the pool's exporter sent", &import->ledger);
	if (result)
		return result;
	welcome->descriptors[CN_WELCOME_LEDGER] = -1; /* closed */
	import->facts = (struct cn_export_facts){
		.range_bytes = message->words[CN_WELCOME_BYTES],
		.location_type = (int)message->words[CN_WELCOME_LOCATION_TYPE],
		.location_id = (int)message->words[CN_WELCOME_LOCATION_ID],
		.handle_types = (unsigned)message->words[CN_WELCOME_HANDLE_TYPES],
		.memory_type = (int)message->words[CN_WELCOME_MEMORY_TYPE],
	};
	if (!joining->base)
		result = make_range(joining, import->facts.range_bytes);
	if (!result)
		result = cn_peer_watch(import->peer);
	if (result)
		return result;
	cn_lock(&import->lock);
	memcpy(import->name, message->bytes, sizeof import->name);
	import->base = joining->base;
	import->joined_ns = cn_clock_ns();
	cn_unlock(&import->lock);
	cn_import_enter(import);
	return CUDA_SUCCESS;
}

static void give_up(struct cn_import *import)
{
	cn_fork_hold(); /* a child closes what it finds here */
	cn_peer_drop(import->peer);
	import->peer = NULL;
	cn_import_give_memory(import);
	cn_fork_allow();
}

/* `asking` is held. */
static CUresult join(struct cn_import *import, const struct cn_export_data *wanted)
{
	struct joining joining = {.import = import, .wanted = wanted};
	struct cn_parcel welcome;
	CUresult result = cn_service_start(); /* in a forked child it does not run, and never will */

	if (!result)
		result = connect_exporter(import);
	if (!result)
		result = introduce(&joining, &welcome);
	if (result)
		goto err_give_up;
	result = check_welcome(import, &welcome, wanted);
	if (!result)
		result = joining.result;
	if (!result)
		result = settle(&joining, &welcome);
	/* Whatever is wrong with the part: the thread that needs it will ask for it, and see. */
	if (!result && welcome.descriptor_count > CN_WELCOME_MEMORY)
		cn_import_take_first(import, &welcome);
	cn_wire_close(&welcome);
	cn_fork_allow();
	if (result)
		goto err_give_up;
	return CUDA_SUCCESS;

err_give_up:
	give_up(import);
	return result;
}

CUresult cn_import_join(struct cn_import *import, const struct cn_export_data *wanted)
{
	atomic_fetch_add(&cn_imports_waiting, 1);
	cn_slow_lock(&import->asking);
	bool joined = import->base; /* another thread may have been faster */
	CUresult result = joined ? CUDA_SUCCESS : join(import, wanted);
	cn_slow_unlock(&import->asking);
	atomic_fetch_sub(&cn_imports_waiting, 1);
	if (!joined && !result) {
		cn_port_open_soon(); /* so that this process is seen also while it is stopped, or its exporter gone */
		cn_port_changed();
	}
	return result;
}
