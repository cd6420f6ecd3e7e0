/* SPDX-License-Identifier: MIT */
/*
 * Objects: what others can open from us by a handle; and openings, one for each time that a client did.
 *
 * An object has a number, never used twice, and a secret. A program that is done with it withdraws it. From then on it
 * cannot be opened, and its record stays until its last opening has ended or its openers are gone. The last step, be it
 * the withdrawal or the end of the last opening, frees what is behind the object.
 *
 * A client owns its openings and the list of them. Only the service thread uses a client, or the fabric port's thread.
 */
#include "share/node/node.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { BUCKETS = 256 };

static struct {
	CN_LOCK(PORT_OBJECTS) lock; /* guards the table, and what objects count */
	struct cn_port_object *buckets[BUCKETS];
	uint64_t number_last;
	struct cn_port_object_sums sums[CN_HANDLE_KINDS];
} objects;

static struct cn_port_object **find_locked(uint64_t number)
{
	struct cn_port_object **link = &objects.buckets[number % BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

/* Remove the record if it is not needed any more. */
static bool forget_locked(struct cn_port_object *object)
{
	if (!object->withdrawn || object->opening_count)
		return false;
	*find_locked(object->number) = object->next;
	if (object->withdrawn_ns) {
		objects.sums[object->kind].deferred_count--;
		objects.sums[object->kind].deferred_bytes -= object->bytes;
	}
	return true;
}

CUresult cn_port_object_publish(struct cn_port_object *object, enum cn_handle_kind kind,
				const struct cn_port_object_ops *ops)
{
	CUresult result = cn_handle_is_fabric(kind) ? cn_fabric_port_open() : cn_port_open();

	if (result)
		return result;
	if (getrandom(object->secret, sizeof object->secret, 0) != sizeof object->secret)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the system has no random numbers: %s", strerror(errno));
	object->kind = kind;
	object->node = cn_handle_is_fabric(kind) ? cn_node_number() : 0;
	object->ops = ops;
	uint64_t now_ns = cn_clock_ns();
	cn_lock(&objects.lock);
	object->number = ++objects.number_last;
	struct cn_port_object **bucket = &objects.buckets[object->number % BUCKETS];
	object->next = *bucket;
	*bucket = object;
	struct cn_port_object_sums *sums = &objects.sums[kind];
	sums->count++;
	sums->bytes += object->bytes;
	if (!sums->first_ns)
		sums->first_ns = now_ns;
	cn_unlock(&objects.lock);
	cn_port_changed();
	return CUDA_SUCCESS;
}

void cn_port_object_write(const struct cn_port_object *object, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	struct cn_handle handle = {
		.kind = (uint16_t)object->kind,
		.number = object->number,
		.node = object->node,
		.channel = cn_handle_is_fabric(object->kind) ? cn_fabric_port_channel() : 0,
	};

	memcpy(handle.secret, object->secret, sizeof handle.secret);
	cn_handle_write(&handle, ret_bytes);
}

bool cn_port_object_withdraw(struct cn_port_object *object)
{
	uint64_t now_ns = cn_clock_ns();

	cn_lock(&objects.lock);
	struct cn_port_object_sums *sums = &objects.sums[object->kind];
	object->withdrawn = true;
	sums->count--;
	sums->bytes -= object->bytes;
	if (object->opening_count) {
		object->withdrawn_ns = now_ns;
		sums->deferred_count++;
		sums->deferred_bytes += object->bytes;
	}
	bool last = forget_locked(object);
	cn_unlock(&objects.lock);
	return last;
}

void cn_port_object_bury(void)
{
	for (unsigned i = 0; i < BUCKETS; i++) { /* not under the lock all the time: there may be many */
		cn_lock(&objects.lock);
		for (struct cn_port_object *object = objects.buckets[i]; object; object = object->next)
			if (object->ops->bury)
				object->ops->bury(object);
		cn_unlock(&objects.lock);
	}
}

void cn_port_object_sum(enum cn_handle_kind kind, struct cn_port_object_sums *ret_sums)
{
	cn_lock(&objects.lock);
	*ret_sums = objects.sums[kind];
	cn_unlock(&objects.lock);
}

/* An object that never was gets the answer of one that is gone: a client that guesses numbers learns nothing. */
static CUresult take_locked(enum cn_handle_kind kind, const struct cn_message *request,
			    struct cn_port_object **ret_object)
{
	struct cn_port_object *object = *find_locked(request->words[0]);

	if (!object || object->withdrawn)
		return CUDA_ERROR_INVALID_HANDLE;
	if (object->kind != kind || request->words[1] != object->node ||
	    memcmp(object->secret, request->bytes, sizeof object->secret) != 0)
		return CUDA_ERROR_NOT_PERMITTED;
	object->opening_count++;
	*ret_object = object;
	return CUDA_SUCCESS;
}

static void enter(struct cn_port_client *client, struct cn_port_opening *opening)
{
	struct cn_port_opening_sum *open = &client->open[opening->object->kind];

	opening->next = client->openings;
	client->openings = opening;
	client->opening_count++;
	if (!open->count++)
		open->since_ns = cn_clock_ns();
	open->bytes += opening->object->bytes;
}

CUresult cn_port_opening_begin(struct cn_port_client *client, enum cn_handle_kind kind,
			       const struct cn_message *request, struct cn_parcel *ret_reply,
			       struct cn_port_opening **ret_opening)
{
	struct cn_port_opening *opening =
		client->opening_count < CN_PORT_OPENINGS_MAX ? calloc(1, sizeof *opening) : NULL;

	if (!opening)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cn_lock(&objects.lock);
	CUresult result = take_locked(kind, request, &opening->object);
	cn_unlock(&objects.lock);
	if (result) {
		free(opening);
		return result;
	}
	enter(client, opening);
	result = opening->object->ops->serve(opening->object, ret_reply);
	if (result) {
		cn_port_opening_end(client, opening);
		return result;
	}
	ret_reply->descriptor_count = 1;
	*ret_opening = opening;
	cn_port_changed();
	return CUDA_SUCCESS;
}

struct cn_port_opening *cn_port_opening_find(const struct cn_port_client *client, enum cn_handle_kind kind,
					     uint64_t number)
{
	struct cn_port_opening *opening = client->openings;

	while (opening && (opening->object->number != number || opening->object->kind != kind))
		opening = opening->next;
	return opening;
}

bool cn_port_opening_deferred(const struct cn_port_client *client, enum cn_handle_kind kind, unsigned looks_max,
			      struct cn_port_opening_sum *ret_deferred)
{
	const struct cn_port_opening *opening = client->openings;
	struct cn_port_opening_sum deferred = {0};

	cn_lock(&objects.lock);
	for (unsigned looks = 0; opening && looks < looks_max; looks++, opening = opening->next) {
		const struct cn_port_object *object = opening->object;
		if (object->kind != kind || !object->withdrawn)
			continue;
		deferred.count++;
		deferred.bytes += object->bytes;
		if (!deferred.since_ns || object->withdrawn_ns < deferred.since_ns)
			deferred.since_ns = object->withdrawn_ns;
	}
	cn_unlock(&objects.lock);
	*ret_deferred = deferred;
	return !opening;
}

void cn_port_opening_end(struct cn_port_client *client, struct cn_port_opening *opening)
{
	struct cn_port_object *object = opening->object;
	struct cn_port_opening_sum *open = &client->open[object->kind];
	struct cn_port_opening **link = &client->openings;

	while (*link != opening)
		link = &(*link)->next;
	*link = opening->next;
	client->opening_count--;
	open->count--;
	open->bytes -= object->bytes;
	free(opening);
	cn_lock(&objects.lock);
	object->opening_count--;
	bool last = forget_locked(object);
	cn_unlock(&objects.lock);
	cn_port_changed();
	if (last)
		object->ops->free(object);
}
