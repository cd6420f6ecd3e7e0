/* SPDX-License-Identifier: MIT */
/*
 * The memory of an import: which of the exporter's parts are mapped, and how they come and go. See control.h for why
 * what is mapped is what a block lies in.
 *
 * The table of mapped parts is changed under two locks: `asking`, under which the view is changed, and the import's. So
 * a thread that holds either may read it. How often a part is held changes under the import's lock alone.
 *
 * A part is unmapped when the exporter says that its memory has gone, or when nothing more can be imported, and only if
 * nothing in it is held. It is first taken out of the table. The service thread does that, and must not wait for
 * `asking`: the holder may be waiting for the exporter. So it looks only while no thread is busy; otherwise the last
 * busy thread has it called again.
 */
#include "base/container.h"
#include "share/pool/import_internal.h"

#include "device/grace.h"
#include "share/peer/peer.h"

#include <errno.h>
#include <unistd.h>

#define GRACE_NS_MAX  1000000000ull
#define GRACE_LOOK_NS 1000000

/* ---- What is mapped ---- */

static uint64_t shown_serial(const struct cn_import *import, uint32_t index)
{
	return atomic_load(&cn_import_control(import)->serials[index]);
}

/* `asking` is held. */
static bool is_mapped(const struct cn_import *import, uint32_t index)
{
	uint32_t at = import->tables.mapped[index].at;

	return at && import->tables.mapped[at - 1].serial == shown_serial(import, index);
}

/* Forget and unmap the part that begins at an index. False: something in it is held. `asking` is held. */
static bool unmap(struct cn_import *import, uint32_t begin)
{
	uint32_t end = import->tables.mapped[begin].end;

	cn_lock(&import->lock);
	bool held = import->tables.mapped[begin].hold_count != 0;
	for (uint32_t index = begin; index < end && !held; index++)
		import->tables.mapped[index].at = 0;
	cn_unlock(&import->lock);
	if (!held)
		cn_device_ops->view_unmap(import->view, (size_t)begin * CN_PART_BYTES,
					  (size_t)(end - begin) * CN_PART_BYTES);
	return !held;
}

/*
 * May the part be unmapped? Work of the program may be pending in another stream than the one in which it freed the
 * part's blocks. Nothing in it is held. `asking` is held.
 */
static bool has_passed(struct cn_mapped *part)
{
	if (!part->ticket)
		part->ticket = cn_grace_ticket();
	return part->ticket <= cn_grace_passed();
}

/*
 * Before other memory is mapped in place of a part, wait until that part may be unmapped; but not for long: a stream of
 * the program may wait for the exporter, or run for ever, and not use the part at all. `asking` is held.
 */
static void await_grace(struct cn_import *import, uint32_t index)
{
	uint64_t deadline_ns = cn_clock_ns() + GRACE_NS_MAX;
	static _Atomic uint32_t never;

	if (!import->tables.mapped[index].at)
		return;
	while (!has_passed(&import->tables.mapped[import->tables.mapped[index].at - 1]) && cn_clock_ns() < deadline_ns)
		cn_futex_wait(&never, 0, GRACE_LOOK_NS);
}

/* ---- Asking for parts ---- */

static CUresult explain(struct cn_import *import, int error)
{
	if (error != EPIPE && error != ECONNRESET)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the pool's exporter could not be asked for memory: %s",
				cn_wire_explain(error));
	cn_lock(&import->lock); /* the service thread is about to see the end of the channel, too */
	CUresult result = cn_import_explain_locked(import);
	cn_unlock(&import->lock);
	return result;
}

/* Could these three words and this descriptor be a part around an index? */
static bool read_part(const struct cn_import *import, uint32_t index, const uint64_t *words, int fd,
		      struct cn_arena_part *ret_part)
{
	uint64_t offset = words[0], bytes = words[1], wanted = (uint64_t)index * CN_PART_BYTES;

	if (!words[2] || offset % CN_PART_BYTES || bytes % CN_PART_BYTES || bytes > import->bytes ||
	    offset > import->bytes - bytes || wanted < offset || wanted - offset >= bytes)
		return false;
	*ret_part = (struct cn_arena_part){.offset = offset, .bytes = bytes, .serial = words[2], .fd = fd};
	return true;
}

/* On success the descriptor is closed: the device knows the memory. `asking` is held. */
static CUresult map(struct cn_import *import, const struct cn_arena_part *part, int *descriptor)
{
	uint32_t begin = (uint32_t)(part->offset / CN_PART_BYTES);
	uint32_t end = begin + (uint32_t)(part->bytes / CN_PART_BYTES);

	/* The old part has lost its memory, so nothing of it is held. */
	for (uint32_t index = begin; index < end; index++)
		if (import->tables.mapped[index].at && !unmap(import, import->tables.mapped[index].at - 1))
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"the pool's exporter replaced memory that this process still holds");
	CUresult result = cn_device_ops->view_map(import->view, part);
	if (result)
		return result;
	cn_lock(&import->lock);
	import->tables.mapped[begin] = (struct cn_mapped){.serial = part->serial, .end = end};
	for (uint32_t index = begin; index < end; index++)
		import->tables.mapped[index].at = begin + 1;
	if (import->tables.mapped_count < end)
		import->tables.mapped_count = end;
	cn_unlock(&import->lock);
	close(*descriptor);
	*descriptor = -1;
	return CUDA_SUCCESS;
}

/* The exporter has answered. `asking` is held. */
static CUresult take_part(struct cn_import *import, uint32_t index, struct cn_parcel *answer)
{
	const struct cn_message *message = &answer->message;
	struct cn_arena_part part;

	if (message->result == CUDA_ERROR_OPERATING_SYSTEM)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the pool's exporter has no descriptor left to hand over its memory (ulimit -n there)");
	if (message->result)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool's exporter refused to hand over its memory: %d",
				(int)message->result);
	if (message->kind != CN_MESSAGE_PART || answer->descriptor_count != 1 ||
	    !read_part(import, index, message->words, answer->descriptors[0], &part))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool's exporter sent other memory than was asked for");
	if (part.serial != shown_serial(import, index)) /* the block has changed: the caller will see */
		return CUDA_SUCCESS;
	return map(import, &part, &answer->descriptors[0]);
}

void cn_import_take_first(struct cn_import *import, struct cn_parcel *welcome)
{
	int *descriptor = &welcome->descriptors[CN_WELCOME_MEMORY];
	const uint64_t *words = &welcome->message.words[CN_WELCOME_PART];
	uint32_t index = (uint32_t)(words[0] / CN_PART_BYTES);
	struct cn_arena_part part;

	if (words[0] < import->bytes && read_part(import, index, words, *descriptor, &part) &&
	    part.serial == shown_serial(import, index))
		map(import, &part, descriptor);
}

/* Ask the exporter for the part around an offset. `asking` is held; the import is not locked. */
static CUresult ask_part(struct cn_import *import, uint64_t offset)
{
	struct cn_peer_question question = {.request.message = {.kind = CN_MESSAGE_PART, .words = {offset}}};
	struct cn_parcel answer;
	int error = cn_peer_ask(import->peer, &question, &answer);

	if (error)
		return explain(import, error);
	CUresult result = take_part(import, (uint32_t)(offset / CN_PART_BYTES), &answer);
	cn_wire_close(&answer);
	cn_fork_allow();
	return result;
}

CUresult cn_import_map(struct cn_import *import, uint64_t offset)
{
	CUresult result = CUDA_SUCCESS;

	atomic_fetch_add(&cn_imports_waiting, 1);
	cn_slow_lock(&import->asking);
	if (!is_mapped(import, (uint32_t)(offset / CN_PART_BYTES))) { /* else another thread has asked meanwhile */
		await_grace(import, (uint32_t)(offset / CN_PART_BYTES));
		result = ask_part(import, offset);
	}
	cn_slow_unlock(&import->asking);
	atomic_fetch_sub(&cn_imports_waiting, 1);
	return result;
}

/* ---- Releasing parts ---- */

void cn_import_want_drop_locked(struct cn_import *import)
{
	import->drop_wanted = true;
	if (import->busy_count || import->drop_posted || import->ending)
		return;
	import->drop_posted = true;
	cn_service_post(&import->drop_job);
}

/* Does the exporter show nothing in it any more, or can nothing of it be imported? `asking` is held. */
static bool is_useless(const struct cn_import *import, uint32_t begin)
{
	bool shown = false;

	if (import->state != CN_IMPORT_ALIVE) /* changed by this thread, or with `asking` */
		return true;
	for (uint32_t index = begin; index < import->tables.mapped[begin].end && !shown; index++)
		shown = import->tables.mapped[begin].serial == shown_serial(import, index);
	return !shown;
}

/* Unmap a part that is not needed. True: it waits for a grace period, and must be checked again. `asking` is held. */
static bool drop(struct cn_import *import, uint32_t begin)
{
	struct cn_mapped *part = &import->tables.mapped[begin];

	cn_lock(&import->lock);
	bool needed = part->hold_count || !is_useless(import, begin);
	cn_unlock(&import->lock);
	if (needed) {
		part->ticket = 0;
		return false;
	}
	if (!has_passed(part))
		return true;
	unmap(import, begin);
	return false;
}

void cn_import_drop_parts(struct cn_job *job)
{
	struct cn_import *import = cn_container_of(job, struct cn_import, drop_job);

	cn_lock(&import->lock);
	import->drop_posted = false;
	/* No thread is busy, so `asking` is free; a thread that wants it now waits a moment for us. */
	bool free = !import->busy_count && cn_slow_try_lock(&import->asking);
	if (free)
		import->drop_wanted = false;
	cn_unlock(&import->lock);
	if (!free)
		return;
	bool waits = false;
	for (uint32_t index = 0, next; index < import->tables.mapped_count; index = next) {
		uint32_t at = import->tables.mapped[index].at;
		next = at ? import->tables.mapped[at - 1].end : index + 1;
		if (at)
			waits |= drop(import, at - 1);
	}
	cn_slow_unlock(&import->asking);
	if (waits)
		cn_import_retry_later(import);
	else
		import->later_ns = 0;
}
