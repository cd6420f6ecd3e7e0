/* SPDX-License-Identifier: MIT */
/*
 * Origins: what others can open from us by a handle, and openings, one for each time that somebody did.
 *
 * An origin has a number, never used twice, and a secret. The program that has done with the object withdraws it: from
 * then on nobody opens it, and the record stays until those who have it open have let go or are gone. Whoever makes the
 * last step, withdrawing it or ending its last opening, is told so, and frees what is behind it.
 *
 * Openings are their caller's, and so is the list of them; a caller is the service thread's alone, or the porter's, if
 * it came to the fabric port.
 */
#include "share/port/port_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { BUCKETS = 256 };

static struct {
	CN_LOCK(ORIGINS) lock; /* of the table, and of what origins count */
	struct cn_origin *buckets[BUCKETS];
	uint64_t number_last;
	struct cn_origin_sums sums[CN_HANDLE_KINDS];
} origins;

static struct cn_origin **find_locked(uint64_t number)
{
	struct cn_origin **link = &origins.buckets[number % BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

/* Take the record away if nobody needs it any more. */
static bool forget_locked(struct cn_origin *origin)
{
	if (!origin->withdrawn || origin->opening_count)
		return false;
	*find_locked(origin->number) = origin->next;
	if (origin->withdrawn_ns) {
		origins.sums[origin->kind].deferred_count--;
		origins.sums[origin->kind].deferred_bytes -= origin->bytes;
	}
	return true;
}

CUresult cn_origin_publish(struct cn_origin *origin, enum cn_handle_kind kind, const struct cn_origin_ops *ops)
{
	CUresult result = cn_handle_is_fabric(kind) ? cn_fabric_port_open() : cn_port_open();

	if (result)
		return result;
	if (getrandom(origin->secret, sizeof origin->secret, 0) != sizeof origin->secret)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the system has no random numbers: %s", strerror(errno));
	origin->kind = kind;
	origin->ops = ops;
	uint64_t now_ns = cn_clock_ns();
	cn_lock(&origins.lock);
	origin->number = ++origins.number_last;
	struct cn_origin **bucket = &origins.buckets[origin->number % BUCKETS];
	origin->next = *bucket;
	*bucket = origin;
	struct cn_origin_sums *sums = &origins.sums[kind];
	sums->count++;
	sums->bytes += origin->bytes;
	if (!sums->first_ns)
		sums->first_ns = now_ns;
	cn_unlock(&origins.lock);
	return CUDA_SUCCESS;
}

void cn_origin_write(const struct cn_origin *origin, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	struct cn_handle handle = {
		.kind = (uint16_t)origin->kind,
		.number = origin->number,
		.generation = CN_ORIGIN_GENERATION,
		.channel = cn_handle_is_fabric(origin->kind) ? cn_fabric_port_channel() : 0,
	};

	memcpy(handle.secret, origin->secret, sizeof handle.secret);
	cn_handle_write(&handle, ret_bytes);
}

bool cn_origin_withdraw(struct cn_origin *origin)
{
	uint64_t now_ns = cn_clock_ns();

	cn_lock(&origins.lock);
	struct cn_origin_sums *sums = &origins.sums[origin->kind];
	origin->withdrawn = true;
	sums->count--;
	sums->bytes -= origin->bytes;
	if (origin->opening_count) {
		origin->withdrawn_ns = now_ns;
		sums->deferred_count++;
		sums->deferred_bytes += origin->bytes;
	}
	bool last = forget_locked(origin);
	cn_unlock(&origins.lock);
	return last;
}

void cn_origin_each(enum cn_handle_kind kind, void (*function)(struct cn_origin *origin))
{
	for (unsigned i = 0; i < BUCKETS; i++) { /* not under the lock all the time: there may be many */
		cn_lock(&origins.lock);
		for (struct cn_origin *origin = origins.buckets[i]; origin; origin = origin->next)
			if (origin->kind == kind)
				function(origin);
		cn_unlock(&origins.lock);
	}
}

void cn_origin_sum(enum cn_handle_kind kind, struct cn_origin_sums *ret_sums)
{
	cn_lock(&origins.lock);
	*ret_sums = origins.sums[kind];
	cn_unlock(&origins.lock);
}

/* Of what never was we say the same as of what is there no more: who makes up numbers learns nothing. */
static CUresult take_locked(enum cn_handle_kind kind, const struct cn_message *request, struct cn_origin **ret_origin)
{
	struct cn_origin *origin = *find_locked(request->words[0]);

	if (!origin || origin->withdrawn)
		return CUDA_ERROR_INVALID_HANDLE;
	if (origin->kind != kind || request->words[1] != CN_ORIGIN_GENERATION ||
	    memcmp(origin->secret, request->bytes, sizeof origin->secret) != 0)
		return CUDA_ERROR_NOT_PERMITTED;
	origin->opening_count++;
	*ret_origin = origin;
	return CUDA_SUCCESS;
}

static void enter(struct cn_caller *caller, struct cn_opening *opening)
{
	struct cn_open_things *open = &caller->open[opening->origin->kind];

	opening->next = caller->openings;
	caller->openings = opening;
	caller->opening_count++;
	if (!open->count++)
		open->since_ns = cn_clock_ns();
	open->bytes += opening->origin->bytes;
}

CUresult cn_opening_begin(struct cn_caller *caller, enum cn_handle_kind kind, const struct cn_message *request,
			  struct cn_parcel *ret_reply, struct cn_opening **ret_opening)
{
	struct cn_opening *opening = caller->opening_count < CN_OPENINGS_MAX ? calloc(1, sizeof *opening) : NULL;

	if (!opening)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cn_lock(&origins.lock);
	CUresult result = take_locked(kind, request, &opening->origin);
	cn_unlock(&origins.lock);
	if (result) {
		free(opening);
		return result;
	}
	enter(caller, opening);
	result = opening->origin->ops->serve(opening->origin, ret_reply);
	if (result) {
		cn_opening_end(caller, opening);
		return result;
	}
	ret_reply->descriptor_count = 1;
	*ret_opening = opening;
	return CUDA_SUCCESS;
}

struct cn_opening *cn_opening_find(const struct cn_caller *caller, enum cn_handle_kind kind, uint64_t number)
{
	struct cn_opening *opening = caller->openings;

	while (opening && (opening->origin->number != number || opening->origin->kind != kind))
		opening = opening->next;
	return opening;
}

bool cn_opening_deferred(const struct cn_caller *caller, enum cn_handle_kind kind, unsigned looks_max,
			 struct cn_open_things *ret_deferred)
{
	const struct cn_opening *opening = caller->openings;
	struct cn_open_things deferred = {0};

	cn_lock(&origins.lock);
	for (unsigned looks = 0; opening && looks < looks_max; looks++, opening = opening->next) {
		const struct cn_origin *origin = opening->origin;
		if (origin->kind != kind || !origin->withdrawn)
			continue;
		deferred.count++;
		deferred.bytes += origin->bytes;
		if (!deferred.since_ns || origin->withdrawn_ns < deferred.since_ns)
			deferred.since_ns = origin->withdrawn_ns;
	}
	cn_unlock(&origins.lock);
	*ret_deferred = deferred;
	return !opening;
}

void cn_opening_end(struct cn_caller *caller, struct cn_opening *opening)
{
	struct cn_origin *origin = opening->origin;
	struct cn_open_things *open = &caller->open[origin->kind];
	struct cn_opening **link = &caller->openings;

	while (*link != opening)
		link = &(*link)->next;
	*link = opening->next;
	caller->opening_count--;
	open->count--;
	open->bytes -= origin->bytes;
	free(opening);
	cn_lock(&origins.lock);
	origin->opening_count--;
	bool last = forget_locked(origin);
	cn_unlock(&origins.lock);
	if (last)
		origin->ops->free(origin);
}
