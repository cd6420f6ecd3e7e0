/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls for kept memory that only look: listing, watching and retiring objects. They need no cuInit().
 */
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/guard.h"
#include "driver/common/opening.h"
#include "share/wire/wire.h"

#include "cenote/cenote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void cn_opening_tell(const struct cn_kept_message *message, cenote_kept_object *ret_object)
{
	unsigned long long bytes = 0;

	for (unsigned i = 0; i < message->part_count; i++)
		bytes += message->part_bytes[i];
	*ret_object = (cenote_kept_object){
		.name = message->name,
		.generation = message->generation,
		.bytes = bytes,
		.created_ns = message->created_ns,
		.committed_ns = message->committed_ns,
		.state = message->state,
		.flags = message->flags,
		.mode = message->mode,
		.user = message->user,
		.group = message->group,
		.part_count = message->part_count,
		.holder_count = message->holder_count,
		.on_gpu = message->device == CN_KEPT_ON_GPU,
	};
}

/* ---- Lists ---- */

struct listing {
	int sock;
	unsigned flags;
	void (*found)(const cenote_kept_object *object, const cenote_kept_holder *holder, void *data);
	void *data;
};

static int ask(const struct listing *listing, struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply)
{
	return cn_kept_ask_over(listing->sock, cn_clock_ns() + CN_KEPT_TIMEOUT_MS * CN_MILLISECOND_NS, request,
				ret_reply);
}

/* All holders of the object that the cursor has just passed. 0, or errno. */
static int tell_holders(const struct listing *listing, const struct cn_kept_message *of,
			const cenote_kept_object *object)
{
	struct cn_kept_parcel reply,
		request = {
			.message = {.kind = CN_KEPT_HOLDERS, .cursor = of->cursor, .generation = of->generation},
		};

	do {
		int error = ask(listing, &request, &reply);
		if (error)
			return error;
		cn_kept_discard(&reply);
		if (reply.message.refusal)
			return 0; /* it is gone */
		for (unsigned i = 0; i < reply.message.holder_count && i < CN_KEPT_HOLDERS_PER_MESSAGE; i++) {
			const struct cn_kept_holder *holder = &reply.message.holders[i];
			cenote_kept_holder told = {
				.pid = (int)holder->pid,
				.user = holder->user,
				.writes = holder->writes != 0,
			};
			listing->found(object, &told, listing->data);
		}
		request.message.numbers[0] = reply.message.numbers[0];
	} while (request.message.numbers[0]);
	return 0;
}

static CUresult tell_all(const struct listing *listing, const char *prefix)
{
	struct cn_kept_parcel reply, request = {.message = {.kind = CN_KEPT_LIST}};
	cenote_kept_object object;

	snprintf(request.message.name, sizeof request.message.name, "%s", prefix);
	for (;;) {
		int error = ask(listing, &request, &reply);
		if (error)
			return cn_kept_failed(error);
		cn_kept_discard(&reply);
		if (reply.message.refusal == CN_KEPT_END || reply.message.cursor <= request.message.cursor)
			return CUDA_SUCCESS;
		CUresult result = cn_kept_refused(&request.message, &reply.message);
		if (result)
			return result;
		cn_opening_tell(&reply.message, &object);
		listing->found(&object, NULL, listing->data);
		if (listing->flags & CENOTE_KEPT_HOLDERS && object.holder_count)
			error = tell_holders(listing, &reply.message, &object);
		if (error)
			return cn_kept_failed(error);
		request.message.cursor = reply.message.cursor;
	}
}

static CUresult check_prefix(const char *prefix)
{
	if (!prefix)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "prefix is NULL");
	if (!cn_guard_check_string(prefix, "prefix"))
		return CUDA_ERROR_INVALID_VALUE;
	return cn_kept_is_prefix(prefix) ? CUDA_SUCCESS
					 : cn_error(CUDA_ERROR_INVALID_VALUE,
						    "\"%.40s\" cannot be the beginning of an object's name", prefix);
}

CENOTE_API CUresult cenote_kept_list(const char *prefix, unsigned int flags,
				     void (*found)(const cenote_kept_object *object, const cenote_kept_holder *holder,
						   void *data),
				     void *data)
{
	struct listing listing = {.flags = flags, .found = found, .data = data};
	CUresult result = check_prefix(prefix);

	if (!result && flags & ~(unsigned)CENOTE_KEPT_HOLDERS)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_kept_list() flags 0x%x are unknown", flags);
	if (!result && !found)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "found is NULL");
	if (!result)
		result = cn_kept_connect(&listing.sock);
	if (result)
		return result;
	result = tell_all(&listing, prefix);
	close(listing.sock);
	return result;
}

CENOTE_API CUresult cenote_kept_retire(const char *name, unsigned long long generation)
{
	struct cn_kept_parcel reply, request = {.message = {.kind = CN_KEPT_RETIRE, .generation = generation}};
	CUresult result = check_prefix(name);

	if (!result && !cn_kept_is_name(name))
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "\"%.40s\" is not the name of an object", name);
	if (result)
		return result;
	snprintf(request.message.name, sizeof request.message.name, "%s", name);
	result = cn_kept_ask(&request, &reply);
	if (!result)
		cn_kept_discard(&reply);
	return result;
}

/* ---- Watches ---- */

CENOTE_API CUresult cenote_kept_watch(const char *prefix, int *ret_descriptor)
{
	struct cn_kept_parcel reply, request = {.message = {.kind = CN_KEPT_WATCH}};
	int sock;
	CUresult result = check_prefix(prefix);

	if (!result && !ret_descriptor)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "ret_descriptor is NULL");
	if (!result && !cn_guard_check_write(ret_descriptor, sizeof *ret_descriptor, "ret_descriptor"))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cn_kept_connect(&sock);
	if (result)
		return result;
	snprintf(request.message.name, sizeof request.message.name, "%s", prefix);
	int error = cn_kept_ask_over(sock, cn_clock_ns() + CN_KEPT_TIMEOUT_MS * CN_MILLISECOND_NS, &request, &reply);
	result = error ? cn_kept_failed(error) : cn_kept_refused(&request.message, &reply.message);
	if (!error)
		cn_kept_discard(&reply);
	if (result)
		close(sock);
	else
		*ret_descriptor = sock;
	return result;
}

CENOTE_API CUresult cenote_kept_next(int descriptor, cenote_kept_event *ret_event)
{
	struct cn_kept_parcel parcel;

	if (!ret_event)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "ret_event is NULL");
	if (!cn_guard_check_write(ret_event, sizeof *ret_event, "ret_event"))
		return CUDA_ERROR_INVALID_VALUE;
	if (!cn_descriptor_is_socket(descriptor))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not that of a watch", descriptor);
	int error = cn_kept_receive(descriptor, &parcel);
	if (error == EAGAIN)
		return cn_error(CUDA_ERROR_NOT_READY, "nothing has happened to the objects that are watched");
	if (!error)
		cn_kept_discard(&parcel);
	if (!error && parcel.message.kind != CN_KEPT_EVENT)
		error = EPROTO;
	if (error)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the watch has ended: %s", cn_wire_explain(error));
	*ret_event = (cenote_kept_event){.generation = parcel.message.generation, .state = parcel.message.state};
	memcpy(ret_event->name, parcel.message.name, sizeof ret_event->name);
	return CUDA_SUCCESS;
}
