/* SPDX-License-Identifier: MIT */
/*
 * Memory that we open from others by a handle.
 *
 * Small allocations share a chunk of their device's memory, and so does what is opened of them: a chunk is mapped once,
 * for as long as something in it is open, and what lies in it is as far apart as at home. Nothing is heard of the
 * lender afterwards: what is open stays as it is when it frees the memory, or dies.
 *
 * Whoever opens asks himself, on a connection that nobody else reads, which is faster than over the service thread.
 * That thread only hears of the lender's death, and then nobody is given the dead connection any more.
 *
 * CUDA's rule: of the memory of one device of another process, one context on each of our devices may have some open.
 * Such a context is a tenant here; its memory is mapped for it alone.
 */
#include "base/container.h"
#include "share/peer/peer.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 256 };

/* A process from which we open memory. */
struct lender {
	struct cn_watch death; /* fd -1: cannot be watched */
	struct cn_job job;     /* let_go() */
	struct lender *next;
	unsigned char port[CN_PORT_NAME_BYTES];
	struct cn_watch channel;     /* kept, never watched: any thread may close it */
	CN_SLOW_LOCK(LENDER) asking; /* held by who waits for a reply */
	uint64_t request_last;
	bool listed;
	unsigned users; /* the list, who asks, and what is open */
};

struct tenant {
	struct tenant *next;
	unsigned char port[CN_PORT_NAME_BYTES];
	int their_device;
	const struct cn_device *our_device;
	uint64_t owner; /* the context */
	unsigned users; /* chunks */
};

struct chunk {
	struct chunk *next;
	struct tenant *tenant;
	uint64_t number;
	struct cn_view *view;
	char *base;
	size_t bytes;
	unsigned users; /* what is open in it */
};

struct cn_borrowed_memory {
	struct lender *lender;
	struct chunk *chunk;
	uint64_t number;
	struct cn_borrowed_facts facts;
};

static struct {
	CN_LOCK(BORROWED) lock; /* of all that is in here, and of what counts users */
	struct lender *lenders;
	struct tenant *tenants;
	struct chunk *chunks[BUCKETS];
} borrowed;

/* ---- Lenders ---- */

static void tell_closed(struct lender *lender, uint64_t number)
{
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_MEMORY_CLOSED, .words = {number}}};

	/* One that does not hear it is gone, or hears of it when we end. The service thread does not wait for it. */
	if (cn_service_is_this_thread())
		cn_wire_send(lender->channel.fd, &parcel);
	else
		cn_peer_tell(lender->channel.fd, &parcel);
}

static void drop_lender(struct lender *lender)
{
	cn_lock(&borrowed.lock);
	bool last = --lender->users == 0;
	cn_unlock(&borrowed.lock);
	if (!last)
		return;
	tell_closed(lender, CN_CLOSED_ALL); /* also what an answer that we did not wait for may have opened */
	cn_service_unwatch(&lender->channel);
	free(lender);
}

/* On the service thread: the list's share of the users goes. */
static void let_go(struct cn_job *job)
{
	struct lender *lender = cn_container_of(job, struct lender, job);

	if (lender->death.watched)
		cn_service_unwatch(&lender->death);
	drop_lender(lender);
}

/* Nobody is given this connection from now on. True: let_go() is the caller's to see to. */
static bool unlist(struct lender *lender)
{
	cn_lock(&borrowed.lock);
	bool listed = lender->listed;
	if (listed) {
		struct lender **link = &borrowed.lenders;
		while (*link != lender)
			link = &(*link)->next;
		*link = lender->next;
		lender->listed = false;
	}
	cn_unlock(&borrowed.lock);
	return listed;
}

static void lender_died(struct cn_watch *death)
{
	struct lender *lender = cn_container_of(death, struct lender, death);

	if (unlist(lender))
		let_go(&lender->job);
}

/* The connection is of no use; who asks on it says so. */
static void give_up(struct lender *lender)
{
	if (unlist(lender))
		cn_service_post(&lender->job);
}

static struct lender *take_listed_locked(const unsigned char port[CN_PORT_NAME_BYTES])
{
	struct lender *lender = borrowed.lenders;

	while (lender && memcmp(lender->port, port, sizeof lender->port) != 0)
		lender = lender->next;
	if (lender)
		lender->users++;
	return lender;
}

static CUresult connect_lender(const unsigned char port[CN_PORT_NAME_BYTES], struct lender **ret_lender)
{
	struct lender *lender = calloc(1, sizeof *lender);

	if (!lender)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for another process's record");
	CUresult result = cn_port_connect(port, CN_HANDLE_MEMORY, &lender->channel);
	if (result) {
		free(lender);
		return result;
	}
	memcpy(lender->port, port, sizeof lender->port);
	lender->death.ready = lender_died;
	lender->job.run = let_go;
	*ret_lender = lender;
	return CUDA_SUCCESS;
}

/*
 * Enter a new lender, which this thread alone may ask so far: whoever finds it before its death is watched has to wait.
 * Another thread may have been quicker; then theirs is taken.
 */
static struct lender *enter_lender(struct lender *fresh)
{
	cn_slow_lock(&fresh->asking);
	cn_lock(&borrowed.lock);
	struct lender *lender = take_listed_locked(fresh->port);
	if (!lender) {
		fresh->users = 2; /* the list, and we */
		fresh->listed = true;
		fresh->next = borrowed.lenders;
		borrowed.lenders = fresh;
	}
	cn_unlock(&borrowed.lock);
	if (!lender) {
		cn_fork_hold();
		if (!cn_peer_process(fresh->channel.fd, &fresh->death.fd) && fresh->death.fd >= 0 &&
		    cn_service_watch(&fresh->death))
			close(fresh->death.fd);
		cn_fork_allow();
		return fresh;
	}
	cn_slow_unlock(&fresh->asking);
	fresh->users = 1;
	drop_lender(fresh);
	cn_slow_lock(&lender->asking);
	return lender;
}

/* The lender of a handle, to be asked by this thread alone. */
static CUresult find_lender(const unsigned char port[CN_PORT_NAME_BYTES], struct lender **ret_lender)
{
	cn_lock(&borrowed.lock);
	struct lender *lender = take_listed_locked(port), *fresh;
	cn_unlock(&borrowed.lock);
	if (lender) {
		cn_slow_lock(&lender->asking);
	} else {
		CUresult result = connect_lender(port, &fresh);
		if (result)
			return result;
		lender = enter_lender(fresh);
	}
	*ret_lender = lender;
	return CUDA_SUCCESS;
}

/* ---- Questions ---- */

static bool is_answer(const struct cn_parcel *reply)
{
	const struct cn_message *message = &reply->message;
	const uint64_t *words = message->words;

	if (message->kind != CN_MESSAGE_MEMORY)
		return false;
	if (message->result)
		return !reply->descriptor_count;
	return reply->descriptor_count == 1 && words[CN_LOAN_BYTES] &&
	       words[CN_LOAN_OFFSET] < words[CN_LOAN_CHUNK_BYTES] &&
	       words[CN_LOAN_BYTES] <= words[CN_LOAN_CHUNK_BYTES] - words[CN_LOAN_OFFSET] &&
	       words[CN_LOAN_DEVICE] <= INT32_MAX;
}

static CUresult explain_result(int32_t result)
{
	if (result == CUDA_ERROR_INVALID_HANDLE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the handle's process has freed the memory");
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the handle's process says that it never gave out this handle");
	return cn_error(CUDA_ERROR_MAP_FAILED, "the handle's process cannot share the memory (it says %d)",
			(int)result);
}

static CUresult explain_error(int error)
{
	if (error == EPIPE)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the handle's process has ended, or has too many callers");
	if (error == EMFILE)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the program cannot open more descriptors (ulimit -n)");
	if (error == ETIMEDOUT)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process does not answer");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process cannot be asked: %s",
			cn_wire_explain(error));
}

/*
 * Ask once. 0, and a fork waits until the caller allows it; or errno. EPIPE may be a connection that was lost, and no
 * sign of its process's death.
 */
static int ask_once(struct lender *lender, const struct cn_handle *handle, struct cn_parcel *ret_reply)
{
	struct cn_parcel request = {
		.message = {.kind = CN_MESSAGE_MEMORY,
			    .request = ++lender->request_last,
			    .words = {handle->number, handle->generation}},
	};

	memcpy(request.message.bytes, handle->secret, sizeof handle->secret);
	int error = cn_peer_ask(lender->channel.fd, &request, NULL, NULL, ret_reply);
	if (!error && !is_answer(ret_reply)) {
		cn_wire_close(ret_reply);
		cn_fork_allow();
		error = EPROTO;
	}
	return error;
}

/*
 * On success the lender has one user more, and a fork has to wait until the reply's descriptor is closed: the child
 * would have it. The caller says when.
 */
static CUresult ask(const struct cn_handle *handle, struct lender **ret_lender, struct cn_parcel *ret_reply)
{
	for (bool again = false;; again = true) {
		struct lender *lender;
		CUresult result = find_lender(handle->port, &lender);
		if (result)
			return result;
		int error = ask_once(lender, handle, ret_reply);
		if (!error && !ret_reply->message.result) {
			cn_slow_unlock(&lender->asking);
			*ret_lender = lender;
			return CUDA_SUCCESS;
		}
		if (error)
			give_up(lender);
		else
			cn_fork_allow();
		cn_slow_unlock(&lender->asking);
		drop_lender(lender);
		if (!error)
			return explain_result(ret_reply->message.result);
		if (error != EPIPE || again)
			return explain_error(error);
	}
}

/* ---- Chunks ---- */

/* What is to be opened, and for whom. */
struct wish {
	const unsigned char *port;
	uint64_t owner;
	const struct cn_device *our_device;
	const struct cn_parcel *reply;
};

static uint64_t loan(const struct wish *wish, enum cn_loan_word word)
{
	return wish->reply->message.words[word];
}

static struct tenant *find_tenant_locked(const struct wish *wish)
{
	struct tenant *tenant = borrowed.tenants;

	while (tenant &&
	       (tenant->our_device != wish->our_device || tenant->their_device != (int)loan(wish, CN_LOAN_DEVICE) ||
		memcmp(tenant->port, wish->port, sizeof tenant->port) != 0))
		tenant = tenant->next;
	return tenant;
}

/*
 * The chunk, with a user more; NULL: it is not mapped. CUDA_ERROR_INVALID_HANDLE: another context is the tenant.
 * CUDA_ERROR_MAP_FAILED: it is of another size than was said before, and what is said of the memory in it not true of
 * what is mapped.
 */
static CUresult take_chunk_locked(const struct wish *wish, struct chunk **ret_chunk)
{
	const struct tenant *tenant = find_tenant_locked(wish);
	uint64_t number = loan(wish, CN_LOAN_CHUNK);
	struct chunk *chunk = tenant ? borrowed.chunks[number % BUCKETS] : NULL;

	if (tenant && tenant->owner != wish->owner)
		return CUDA_ERROR_INVALID_HANDLE;
	while (chunk && (chunk->tenant != tenant || chunk->number != number))
		chunk = chunk->next;
	if (chunk && chunk->bytes != loan(wish, CN_LOAN_CHUNK_BYTES))
		return CUDA_ERROR_MAP_FAILED;
	if (chunk)
		chunk->users++;
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

static void enter_chunk_locked(const struct wish *wish, struct chunk *chunk, struct tenant *fresh)
{
	struct tenant *tenant = find_tenant_locked(wish);

	if (!tenant) {
		tenant = fresh;
		tenant->next = borrowed.tenants;
		borrowed.tenants = tenant;
	}
	tenant->users++;
	chunk->tenant = tenant;
	chunk->users = 1;
	chunk->next = borrowed.chunks[chunk->number % BUCKETS];
	borrowed.chunks[chunk->number % BUCKETS] = chunk;
}

/* Map a chunk; nobody else knows it yet. */
static CUresult map_chunk(const struct wish *wish, struct chunk *ret_chunk)
{
	struct cn_arena_part part = {
		.offset = 0,
		.bytes = loan(wish, CN_LOAN_CHUNK_BYTES),
		.fd = wish->reply->descriptors[0],
	};
	struct chunk chunk = {.number = loan(wish, CN_LOAN_CHUNK), .bytes = part.bytes};
	void *base;

	if (part.bytes % CN_GRANULARITY_BYTES)
		return cn_error(CUDA_ERROR_MAP_FAILED,
				"the handle's process sent something other than memory of a device");
	if (cn_device_ops->view_create(part.bytes, CN_GRANULARITY_BYTES, &chunk.view, &base))
		return cn_error(CUDA_ERROR_MAP_FAILED, "not enough address space to map %zu bytes", part.bytes);
	CUresult result = cn_device_ops->view_map(chunk.view, &part);
	if (result) {
		cn_device_ops->view_free(chunk.view);
		return cn_error(CUDA_ERROR_MAP_FAILED, "%s",
				result == CUDA_ERROR_INVALID_VALUE
					? "the handle's process sent something other than memory of a device"
					: "the memory could not be mapped: the system has no room for it");
	}
	chunk.base = base;
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

/* Why there is no chunk to take. */
static CUresult explain_taking(CUresult result)
{
	if (result == CUDA_ERROR_MAP_FAILED)
		return cn_error(CUDA_ERROR_MAP_FAILED,
				"the handle's process says of memory that is open already that it is of another size");
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "another context of this device has memory of the handle's process "
						   "open, and only one may");
}

/* The chunk of the wish, mapped now if it is not yet. */
static CUresult open_chunk(const struct wish *wish, struct chunk **ret_chunk)
{
	struct chunk *chunk = NULL, *fresh;
	struct tenant *tenant;

	cn_lock(&borrowed.lock);
	CUresult result = take_chunk_locked(wish, &chunk);
	cn_unlock(&borrowed.lock);
	if (result)
		return explain_taking(result);
	*ret_chunk = chunk;
	if (chunk)
		return CUDA_SUCCESS;
	fresh = calloc(1, sizeof *fresh);
	tenant = calloc(1, sizeof *tenant);
	if (!fresh || !tenant)
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of opened memory");
	else
		result = map_chunk(wish, fresh);
	if (result)
		goto err_free;
	memcpy(tenant->port, wish->port, sizeof tenant->port);
	tenant->their_device = (int)loan(wish, CN_LOAN_DEVICE);
	tenant->our_device = wish->our_device;
	tenant->owner = wish->owner;
	cn_lock(&borrowed.lock);
	result = take_chunk_locked(wish, &chunk); /* another thread may have been quicker */
	bool entered = !result && !chunk;
	if (entered)
		enter_chunk_locked(wish, fresh, tenant);
	bool used = entered && fresh->tenant == tenant;
	cn_unlock(&borrowed.lock);
	if (!used)
		free(tenant);
	*ret_chunk = entered ? fresh : chunk;
	if (!entered) {
		cn_device_ops->view_free(fresh->view);
		free(fresh);
	}
	return result ? explain_taking(result) : CUDA_SUCCESS;

err_free:
	free(tenant);
	free(fresh);
	return result;
}

static void close_chunk(struct chunk *chunk)
{
	struct tenant *tenant = NULL;

	cn_lock(&borrowed.lock);
	bool last = --chunk->users == 0;
	if (last) {
		struct chunk **link = &borrowed.chunks[chunk->number % BUCKETS];
		while (*link != chunk)
			link = &(*link)->next;
		*link = chunk->next;
		if (--chunk->tenant->users == 0) {
			struct tenant **tenant_link = &borrowed.tenants;
			while (*tenant_link != chunk->tenant)
				tenant_link = &(*tenant_link)->next;
			tenant = chunk->tenant;
			*tenant_link = tenant->next;
		}
	}
	cn_unlock(&borrowed.lock);
	if (!last)
		return;
	cn_device_ops->view_free(chunk->view);
	free(tenant);
	free(chunk);
}

/* ---- What the driver calls ---- */

static CUresult borrow(const struct cn_handle *handle, uint64_t owner, const struct cn_device *device,
		       struct cn_borrowed_memory *ret_memory)
{
	struct cn_borrowed_memory memory = {.number = handle->number};
	struct cn_parcel reply;
	struct wish wish = {.port = handle->port, .owner = owner, .our_device = device, .reply = &reply};

	CUresult result = ask(handle, &memory.lender, &reply);
	if (result)
		return result;
	result = open_chunk(&wish, &memory.chunk);
	cn_wire_close(&reply);
	cn_fork_allow();
	if (result) {
		tell_closed(memory.lender, memory.number);
		drop_lender(memory.lender);
		return result;
	}
	memory.facts = (struct cn_borrowed_facts){
		.address = memory.chunk->base + loan(&wish, CN_LOAN_OFFSET),
		.bytes = loan(&wish, CN_LOAN_BYTES),
		.device = (int)loan(&wish, CN_LOAN_DEVICE),
	};
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult cn_borrowed_open(const unsigned char bytes[CN_HANDLE_BYTES], const struct cn_device *device, uint64_t owner,
			  struct cn_borrowed_memory **ret_memory)
{
	struct cn_handle handle;
	CUresult result = cn_handle_read(bytes, CN_HANDLE_MEMORY, &handle);

	if (!result)
		result = cn_service_start();
	if (result)
		return result;
	if (cn_port_is_own(handle.port))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT,
				"the handle's memory belongs to this process: use its address");
	struct cn_borrowed_memory *memory = calloc(1, sizeof *memory);
	if (!memory)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of opened memory");
	result = borrow(&handle, owner, device, memory);
	if (result) {
		free(memory);
		return result;
	}
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

const struct cn_borrowed_facts *cn_borrowed_facts(const struct cn_borrowed_memory *memory)
{
	return &memory->facts;
}

void cn_borrowed_close(struct cn_borrowed_memory *memory)
{
	close_chunk(memory->chunk);
	tell_closed(memory->lender, memory->number);
	drop_lender(memory->lender);
	free(memory);
}
