/* SPDX-License-Identifier: MIT */
/*
 * Imports: the exchange with the exporter, and the life of an import. See import.h for the idea.
 *
 * Once an import has joined, the service thread tells the exporter that something was released, and takes the import
 * apart when it has ended. Until then an import is a descriptor and what that says.
 */
#include "base/container.h"
#include "share/pool/import_internal.h"

#include "base/descriptor.h"
#include "device/grace.h"
#include "share/peer/peer.h"
#include "share/pool/pool_location.h"
#include "share/port/port.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#define LATER_NS_MIN 1000000ull
#define LATER_NS_MAX 100000000ull
enum { DESCRIBED_MAX = 1024 };
#define GIVE_WAY_NS 50000000ull /* how long an end gives way to imports that wait for memory */

_Atomic bool cn_imports_exist;
_Atomic unsigned cn_imports_waiting;

static struct {
	CN_LOCK(IMPORTS) lock; /* never held together with an import's */
	struct cn_map by_address;
	struct cn_import *first, *ended;
} imports;

static struct cn_records records = CN_RECORDS(struct cn_import, record);

struct cn_import *cn_import_at(const void *address)
{
	if (!atomic_load_explicit(&cn_imports_exist, memory_order_acquire))
		return NULL;
	cn_lock(&imports.lock);
	struct cn_map_node *node = cn_map_find(&imports.by_address, (uintptr_t)address);
	cn_unlock(&imports.lock);
	return cn_container_or_null(node, struct cn_import, node);
}

/* ---- The exporter ---- */

/* On the service thread: tell the exporter to read our ledger again; without this it would wait for ever. */
static void send_released(struct cn_peer *peer)
{
	cn_peer_send(peer, &(struct cn_message){.kind = CN_MESSAGE_RELEASED});
}

static void say_released(struct cn_job *job)
{
	struct cn_import *import = cn_container_of(job, struct cn_import, release_job);

	/* Before the send: what is released from here on needs another message. */
	atomic_store(&import->release_posted, false);
	send_released(import->peer);
}

void cn_import_tell_locked(struct cn_import *import)
{
	if (!atomic_exchange(&import->release_posted, true))
		cn_service_post(&import->release_job);
}

/* Parts have lost their memory. First tell the exporter that we look, then look: see tell_parts() in importers.c. */
static void look_at_parts(struct cn_import *import, uint64_t number)
{
	atomic_store(&cn_import_ledger(import)->parts_seen, number);
	cn_lock(&import->lock);
	cn_import_want_drop_locked(import);
	cn_unlock(&import->lock);
}

/* A message that the exporter sends unasked. */
static int hear(struct cn_peer *peer, const struct cn_message *message)
{
	struct cn_import *import = peer->owner;

	if (!peer->is_watched) /* before we have joined, only a welcome may come */
		return EPROTO;
	if (message->kind == CN_MESSAGE_PARTS)
		look_at_parts(import, message->words[0]);
	if (message->kind != CN_MESSAGE_EVICTED)
		return 0; /* also for an answer that comes too late */
	cn_lock(&import->lock);
	if (import->state == CN_IMPORT_ALIVE)
		import->state = CN_IMPORT_EVICTED;
	cn_unlock(&import->lock);
	return EPIPE;
}

/* No more messages will come. */
static void lost(struct cn_peer *peer)
{
	struct cn_import *import = peer->owner;

	cn_lock(&import->lock);
	if (import->state == CN_IMPORT_ALIVE)
		import->state = CN_IMPORT_ORPHANED;
	cn_import_want_drop_locked(import); /* what we do not hold can never be held again */
	cn_unlock(&import->lock);
}

const struct cn_peer_ops cn_import_peer_ops = {.hear = hear, .lost = lost, .again = send_released};

CUresult cn_import_explain_locked(const struct cn_import *import)
{
	if (import->state == CN_IMPORT_EVICTED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool's exporter has evicted this process");
	return cn_error(CUDA_ERROR_INVALID_VALUE,
			"the exporter is gone, or has destroyed the pool: imported blocks can "
			"still be used and freed, but nothing more can be imported");
}

/* ---- Life ---- */

void cn_import_end_locked(struct cn_import *import)
{
	if (!import->closed || import->held_count || import->busy_count || import->ending)
		return;
	import->ending = true;
	cn_service_post(&import->end_job);
}

void cn_import_unbusy_locked(struct cn_import *import)
{
	if (!--import->busy_count && import->drop_wanted)
		cn_import_want_drop_locked(import);
	cn_import_end_locked(import);
}

static void before_fork(void)
{
	cn_lock(&imports.lock);
}

static void after_fork_in_parent(void)
{
	cn_unlock(&imports.lock);
}

/* A forked child holds nothing. The service closes its channels; its ledgers are never mapped in it. */
static void after_fork_in_child(void)
{
	for (struct cn_import *import = imports.first; import; import = import->next) {
		if (import->path_fd >= 0)
			close(import->path_fd);
		if (import->control.fd >= 0)
			close(import->control.fd);
	}
	imports.first = NULL;
	cn_unlock(&imports.lock);
}

static struct cn_fork_hook hook = {
	.order = CN_FORK_IMPORTS,
	.before = before_fork,
	.parent = after_fork_in_parent,
	.child = after_fork_in_child,
};

static void unlist(struct cn_import *import)
{
	cn_lock(&imports.lock);
	if (import->base) /* else it was never inserted */
		cn_map_remove(&imports.by_address, &import->node);
	*(import->previous ? &import->previous->next : &imports.first) = import->next;
	if (import->next)
		import->next->previous = import->previous;
	cn_unlock(&imports.lock);
}

/* The import is closed and holds nothing. No fork at the same time. */
static void take_apart(struct cn_import *import)
{
	unlist(import);
	cn_lock(&import->lock);
	import->base = NULL;
	cn_unlock(&import->lock);
	cn_import_give_memory(import);
	if (import->peer)
		cn_peer_end(import->peer);
	import->peer = NULL;
	if (import->path_fd >= 0)
		close(import->path_fd);
	cn_import_leave_elsewhere(import);
	cn_port_changed();
	cn_lock(&imports.lock);
	import->next = imports.ended;
	imports.ended = import;
	cn_unlock(&imports.lock);
}

void cn_import_retry_later(struct cn_import *import)
{
	import->later_ns = import->later_ns ? 2 * import->later_ns : LATER_NS_MIN;
	import->later_ns = import->later_ns < LATER_NS_MAX ? import->later_ns : LATER_NS_MAX;
	import->later.due_ns = cn_clock_ns() + import->later_ns;
	if (!import->later.watched)
		cn_service_watch(&import->later); /* only a time: this does not fail */
}

/*
 * On the service thread. Nothing is held any more; but a program may use in one stream what it freed in another, and
 * its memory must not be unmapped during that. An end also gives way to threads that wait for an exporter's memory: on
 * a GPU they would wait while the driver unmaps, and a program that changes from one pool to another does both at once.
 */
static void end_import(struct cn_job *job)
{
	struct cn_import *import = cn_container_of(job, struct cn_import, end_job);

	if (!import->end_ticket)
		import->end_ticket = cn_grace_ticket();
	bool gives_way = atomic_load(&cn_imports_waiting) && import->later_ns < GIVE_WAY_NS;
	if (import->view && (gives_way || import->end_ticket > cn_grace_passed())) {
		cn_import_retry_later(import);
		return;
	}
	if (import->later.watched)
		cn_service_unwatch(&import->later);
	take_apart(import);
}

static void later_due(struct cn_watch *watch)
{
	struct cn_import *import = cn_container_of(watch, struct cn_import, later);

	cn_lock(&import->lock);
	bool ending = import->ending;
	if (!ending)
		cn_import_want_drop_locked(import);
	cn_unlock(&import->lock);
	if (ending && import->end_ticket) /* else its job is still to come */
		end_import(&import->end_job);
}

void *cn_import_take_ended(void)
{
	cn_lock(&imports.lock);
	struct cn_import *import = imports.ended;
	void *owner = import ? import->owner : NULL;
	if (import)
		imports.ended = import->next;
	cn_unlock(&imports.lock);
	if (import)
		cn_records_give(&records, import);
	return owner;
}

void cn_import_close(struct cn_import *import)
{
	cn_lock(&import->lock);
	import->closed = true;
	/* The service thread does not know an import that never joined. */
	bool unknown = !import->base && !import->busy_count && !import->ending;
	if (unknown)
		import->ending = true;
	else
		cn_import_end_locked(import);
	cn_unlock(&import->lock);
	if (!unknown)
		return;
	cn_fork_hold();
	take_apart(import);
	cn_fork_allow();
}

/* False: it has not joined, or has ended. */
static bool describe(struct cn_import *import, struct cn_import_facts *ret_facts)
{
	cn_lock(&import->lock);
	bool joined = import->base;
	struct cn_import_facts facts = {
		.orphaned = import->state == CN_IMPORT_EVICTED || import->state == CN_IMPORT_ORPHANED,
		.held_count = import->held_count,
		.held_bytes = import->held_bytes,
		.joined_ns = import->joined_ns,
		.node = joined && import->elsewhere ? cn_node_of(import->elsewhere) : 0,
	};
	memcpy(&facts.pool_id, import->name, sizeof facts.pool_id);
	cn_unlock(&import->lock);
	facts.pool_id += !facts.pool_id; /* as the exporter does */
	*ret_facts = facts;
	return joined;
}

/* On the service thread, which alone takes apart what has joined: so the list stays, but for those that have not. */
unsigned cn_imports_describe(struct cn_import_facts ret_facts[], unsigned most, unsigned *ret_all)
{
	struct cn_import *listed[DESCRIBED_MAX];
	unsigned count = 0, all = 0, found = 0;

	cn_lock(&imports.lock);
	for (struct cn_import *import = imports.first; import; import = import->next, all++)
		if (count < most && count < DESCRIBED_MAX)
			listed[count++] = import;
	cn_unlock(&imports.lock);
	for (unsigned i = 0; i < count; i++)
		found += describe(listed[i], &ret_facts[found]);
	*ret_all = all - count + found;
	return found;
}

CUresult cn_import_allow(struct cn_import *import, struct cn_users users)
{
	cn_lock(&import->lock);
	import->busy_count++;
	cn_unlock(&import->lock);
	cn_slow_lock(&import->asking);
	CUresult result = import->view ? cn_device_ops->view_allow(import->view, users) : CUDA_SUCCESS;
	if (!result) {
		import->users = users;
		import->allowed = true;
	}
	cn_slow_unlock(&import->asking);
	cn_lock(&import->lock);
	cn_import_unbusy_locked(import);
	cn_unlock(&import->lock);
	return result;
}

bool cn_import_is_used(struct cn_import *import)
{
	cn_lock(&import->lock);
	bool used = import->live_count != 0;
	cn_unlock(&import->lock);
	return used;
}

bool cn_import_is_same(struct cn_import *import, const struct cn_import *other)
{
	if (other->elsewhere)
		return import->elsewhere && !memcmp(import->handle, other->handle, sizeof import->handle) &&
		       cn_node_is_same_life(import->elsewhere, other->elsewhere);
	cn_lock(&import->lock);
	/* The socket is the pool itself. Both hold a descriptor of it, so no other file can have its inode. */
	bool same = import->socket_device == other->socket_device && import->socket_inode == other->socket_inode &&
		    import->state == CN_IMPORT_ALIVE;
	cn_unlock(&import->lock);
	return same;
}

static void prepare_record(struct cn_import *import)
{
	import->path_fd = import->control.fd = import->ledger.fd = -1;
	import->release_job.run = say_released;
	import->drop_job.run = cn_import_drop_parts;
	import->end_job.run = end_import;
	import->later = (struct cn_watch){.fd = -1, .due = later_due};
	import->later_ns = import->end_ticket = 0;
	atomic_store(&import->release_posted, false);
	import->allowed = false;
	import->reached = cn_import_reached;
	import->elsewhere = NULL;
	import->remotes = NULL;
	cn_lock(&import->lock);
	import->held_count = import->held_bytes = import->live_count = 0;
	import->busy_count = 1; /* it is being made */
	import->drop_wanted = import->drop_posted = false;
	import->state = CN_IMPORT_ALIVE;
	import->closed = true; /* for a thread that comes too late, and takes it for what it was */
	import->ending = false;
	cn_unlock(&import->lock);
}

struct cn_import *cn_import_new_record(void)
{
	cn_fork_watch(&hook);
	struct cn_import *import = cn_records_take(&records);

	if (import)
		prepare_record(import);
	return import;
}

void cn_import_give_record(struct cn_import *import)
{
	cn_records_give(&records, import);
}

void cn_import_list(struct cn_import *import)
{
	cn_lock(&imports.lock);
	import->next = imports.first;
	import->previous = NULL;
	if (import->next)
		import->next->previous = import;
	imports.first = import;
	cn_unlock(&imports.lock);
}

void cn_import_begin(struct cn_import *import)
{
	cn_lock(&import->lock);
	import->closed = false;
	cn_import_unbusy_locked(import);
	cn_unlock(&import->lock);
}

void cn_import_enter(struct cn_import *import)
{
	cn_lock(&imports.lock);
	cn_map_insert(&imports.by_address, &import->node, (uintptr_t)import->base, import->bytes);
	cn_unlock(&imports.lock);
	atomic_store(&cn_imports_exist, true);
}

/*
 * Keep a descriptor of our own that leads to the exporter and that no forked child has. The import is listed then. Only
 * an O_PATH descriptor is copied: closing a copy of anything else may take as long as a peer likes.
 */
static CUresult keep_path(struct cn_import *import, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	CUresult result = CUDA_SUCCESS;

	if (flags < 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not open", fd);
	if (!(flags & O_PATH))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d does not lead to an exporter", fd);
	cn_fork_hold();
	import->path_fd = fcntl(fd, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
	if (import->path_fd < 0) {
		result = cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made for an imported pool: %s",
				  strerror(errno));
	} else {
		cn_import_list(import);
	}
	cn_fork_allow();
	return result;
}

/* Give up an import that no other thread knows and that has not joined. */
static void discard(struct cn_import *import)
{
	cn_fork_hold();
	unlist(import);
	close(import->path_fd);
	cn_fork_allow();
	cn_records_give(&records, import);
}

static CUresult create(int fd, void *owner, uint32_t for_node, struct cn_import **ret_import,
		       struct cn_export_facts *ret_facts)
{
	struct statx status = {0};
	CUresult result = cn_service_start();

	if (result)
		return result;
	struct cn_import *import = cn_import_new_record();
	if (!import)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an imported pool's record");
	import->owner = owner;
	import->for_node = for_node;
	result = keep_path(import, fd);
	if (result) {
		cn_records_give(&records, import);
		return result;
	}
	import->located = cn_descriptor_look(import->path_fd, &status) && cn_location_read(&status, &import->facts) &&
			  !cn_descriptor_is_served(&status) && cn_wire_is_there(import->path_fd);
	import->socket_device = makedev(status.stx_dev_major, status.stx_dev_minor);
	import->socket_inode = status.stx_ino;
	/* If not, the exporter must say where its pool is, or the system why it cannot be reached. */
	if (!import->located || for_node)
		result = cn_import_join(import, NULL);
	if (result) {
		discard(import);
		return result;
	}
	cn_import_begin(import);
	*ret_import = import;
	*ret_facts = import->facts;
	return CUDA_SUCCESS;
}

CUresult cn_import_create(int fd, void *owner, struct cn_import **ret_import, struct cn_export_facts *ret_facts)
{
	return create(fd, owner, 0, ret_import, ret_facts);
}

CUresult cn_import_create_for(int fd, void *owner, uint32_t node, struct cn_import **ret_import,
			      struct cn_export_facts *ret_facts, uint64_t *ret_pool_id)
{
	struct cn_import_facts facts;
	CUresult result = create(fd, owner, node, ret_import, ret_facts);

	if (result)
		return result;
	describe(*ret_import, &facts);
	*ret_pool_id = facts.pool_id;
	return CUDA_SUCCESS;
}
