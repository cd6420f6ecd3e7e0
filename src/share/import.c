/* SPDX-License-Identifier: MIT */
/*
 * Imports: the channel to the exporter, and how an import comes and goes. See import.h for the idea.
 *
 * The channel is the service thread's: it reads what comes, tells the exporter that something was let go of, and takes
 * the import apart when it has ended. A thread that needs a reply waits for the service thread to bring it.
 */
#include "share/import_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_NS        10000000ull
#define RANGE_BYTES_MAX ((uint64_t)1 << 40)

enum { VIEW_ALIGNMENT_BYTES = 32 * 1024 * 1024 };

_Atomic bool cn_imports_exist;

static struct {
	struct cn_lock lock; /* never held together with an import's */
	struct cn_map by_address;
	struct cn_import *first, *spare, *ended;
	pthread_once_t once;
} imports = {.once = PTHREAD_ONCE_INIT};

struct cn_import *cn_import_at(const void *address)
{
	if (!atomic_load_explicit(&cn_imports_exist, memory_order_acquire))
		return NULL;
	cn_lock(&imports.lock);
	struct cn_map_node *node = cn_map_find(&imports.by_address, (uintptr_t)address);
	cn_unlock(&imports.lock);
	return node ? (struct cn_import *)((char *)node - offsetof(struct cn_import, node)) : NULL;
}

/* ---- The channel ---- */

/* On the service thread: tell the exporter to look at our ledger again. */
static void send_released(struct cn_import *import)
{
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_RELEASED}};
	int error = import->channel.fd >= 0 ? cn_wire_send(import->channel.fd, &parcel) : 0;

	if (error && error != EPIPE) /* no room for it just now: the exporter would wait for it for ever */
		import->channel.due_ns = cn_service_now_ns() + RETRY_NS;
}

static void say_released(struct cn_job *job)
{
	struct cn_import *import = (struct cn_import *)((char *)job - offsetof(struct cn_import, release_job));

	/* Before the send: what is let go of from here on needs another one. */
	atomic_store(&import->release_posted, false);
	send_released(import);
}

/* Whether the job is posted is left as it is: one that stands in the service's list must not be posted again. */
static void channel_due(struct cn_watch *watch)
{
	send_released((struct cn_import *)watch);
}

void cn_import_tell_locked(struct cn_import *import)
{
	if (!atomic_exchange(&import->release_posted, true))
		cn_service_post(&import->release_job);
}

/* Bring the answer to whoever asks; false: nobody does. */
static bool bring_answer(struct cn_import *import, const struct cn_parcel *parcel)
{
	cn_lock(&import->lock);
	bool wanted = parcel->message.request == import->request && !atomic_load(&import->answered);
	if (wanted) {
		import->answer = *parcel;
		atomic_store(&import->answered, 1);
	}
	cn_unlock(&import->lock);
	if (wanted)
		cn_futex_wake(&import->answered, 1);
	return wanted;
}

/* Whoever waits for an answer gets none; why, the state says from now on. */
static void fail_request(struct cn_import *import, enum cn_import_state state)
{
	cn_lock(&import->lock);
	if (import->state == CN_IMPORT_ALIVE)
		import->state = state;
	bool waiting = !atomic_load(&import->answered);
	if (waiting) {
		import->answer = (struct cn_parcel){.message = {.result = CUDA_ERROR_OPERATING_SYSTEM }};
		atomic_store(&import->answered, 1);
	}
	cn_unlock(&import->lock);
	if (waiting)
		cn_futex_wake(&import->answered, 1);
}

/* No more will come. */
static void lose_channel(struct cn_import *import, enum cn_import_state state)
{
	fail_request(import, state);
	cn_service_unwatch(&import->channel);
	import->channel.fd = -1;
}

static void channel_ready(struct cn_watch *watch)
{
	struct cn_import *import = (struct cn_import *)watch;
	struct cn_parcel parcel;
	int error = cn_wire_receive(watch->fd, &parcel);

	if (error == EAGAIN)
		return;
	if (error == EMFILE) { /* only answers have descriptors: this one is lost, and the exporter is still there */
		fail_request(import, CN_IMPORT_ALIVE);
		return;
	}
	if (error) {
		lose_channel(import, CN_IMPORT_ORPHANED);
		return;
	}
	if (parcel.message.kind == CN_MESSAGE_EVICTED) {
		cn_wire_close(&parcel);
		lose_channel(import, CN_IMPORT_EVICTED);
	} else if (!bring_answer(import, &parcel)) {
		cn_wire_close(&parcel);
	}
}

CUresult cn_import_explain_locked(const struct cn_import *import)
{
	if (import->state == CN_IMPORT_EVICTED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool's exporter has shut this process out");
	return cn_error(CUDA_ERROR_INVALID_VALUE,
			"the pool's exporter is gone, or has destroyed the pool: what was imported can still be read "
			"and freed, but nothing more imported");
}

/* Ask the exporter for the part around an offset. `asking` is held; the import is not locked. */
static CUresult ask_part(struct cn_import *import, uint64_t offset, struct cn_parcel *ret_answer)
{
	struct cn_parcel request = {.message = {.kind = CN_MESSAGE_PART, .words = {offset}}};
	uint64_t deadline = cn_service_now_ns() + (uint64_t)CN_WIRE_TIMEOUT_MS * 1000000;
	uint64_t now;

	/*
	 * A descriptor of our own, which no forked child gets: the service thread may close the channel's while we
	 * send.
	 */
	cn_service_hold_fork();
	cn_lock(&import->lock);
	request.message.request = ++import->request;
	bool alive = import->state == CN_IMPORT_ALIVE;
	int sock = alive ? fcntl(import->channel.fd, F_DUPFD_CLOEXEC, 3) : -1, error = sock < 0 ? errno : 0;
	atomic_store(&import->answered, sock < 0);
	CUresult result = alive ? CUDA_SUCCESS : cn_import_explain_locked(import);
	cn_unlock(&import->lock);
	if (sock >= 0) {
		error = cn_wire_send(sock, &request);
		close(sock);
	}
	cn_service_allow_fork();
	if (!result && error) {
		cn_lock(&import->lock);
		atomic_store(&import->answered, 1);            /* nobody asks */
		result = error == EPIPE || error == ECONNRESET /* the service thread is about to see it, too */
				 ? cn_import_explain_locked(import)
				 : cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the pool's exporter could not be asked: %s",
					    strerror(error));
		cn_unlock(&import->lock);
	}
	if (result)
		return result;
	while (!atomic_load(&import->answered) && (now = cn_service_now_ns()) < deadline)
		cn_futex_wait(&import->answered, 0, (int64_t)(deadline - now));

	cn_lock(&import->lock);
	if (!atomic_load(&import->answered)) {
		import->request++; /* whatever comes now is late */
		result = cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the pool's exporter has not answered for %d ms",
				  CN_WIRE_TIMEOUT_MS);
	} else if (import->answer.message.result) {
		result = import->state != CN_IMPORT_ALIVE
				 ? cn_import_explain_locked(import)
				 : cn_error(CUDA_ERROR_INVALID_VALUE,
					    "the pool's exporter refused to hand over its memory: %d",
					    (int)import->answer.message.result);
	}
	bool came = atomic_load(&import->answered);
	*ret_answer = import->answer;
	atomic_store(&import->answered, 1); /* nobody asks */
	cn_unlock(&import->lock);
	if (result && came)
		cn_wire_close(ret_answer);
	return result;
}

CUresult cn_import_map(struct cn_import *import, uint64_t offset)
{
	struct cn_parcel answer;

	pthread_mutex_lock(&import->asking);
	CUresult result = CUDA_SUCCESS;
	if (offset < import->mapped_from || offset >= import->mapped_to) {
		result = ask_part(import, offset, &answer);
		if (!result) {
			struct cn_arena_part part = {
				.offset = answer.message.words[0],
				.bytes = answer.message.words[1],
				.fd = answer.descriptor_count == 1 ? answer.descriptors[0] : -1,
			};
			result = cn_device_ops->view_map(import->view, &part);
			if (!result) {
				cn_lock(&import->lock);
				import->mapped_from = part.offset;
				import->mapped_to = part.offset + part.bytes;
				cn_unlock(&import->lock);
			}
			cn_wire_close(&answer);
		}
	}
	pthread_mutex_unlock(&import->asking);
	return result;
}

/* ---- Life ---- */

void cn_import_end_locked(struct cn_import *import)
{
	if (!import->closed || import->held_count || import->busy_count || import->ending)
		return;
	import->ending = true;
	cn_service_post(&import->end_job);
}

static void before_fork(void)
{
	cn_lock(&imports.lock);
}

static void after_fork_in_parent(void)
{
	cn_unlock(&imports.lock);
}

/* A forked child holds nothing. Its channels are closed by the service; its ledgers it never had mapped. */
static void after_fork_in_child(void)
{
	for (struct cn_import *import = imports.first; import; import = import->next) {
		close(import->control.fd);
		close(import->ledger.fd);
	}
	imports.first = NULL;
	cn_unlock(&imports.lock);
}

static struct cn_fork_hook hook = {.before = before_fork, .parent = after_fork_in_parent, .child = after_fork_in_child};

static void watch_forks(void)
{
	cn_service_at_fork(&hook);
}

static void unlist(struct cn_import *import)
{
	cn_lock(&imports.lock);
	cn_map_remove(&imports.by_address, &import->node);
	for (struct cn_import **link = &imports.first; *link; link = &(*link)->next)
		if (*link == import) {
			*link = import->next;
			break;
		}
	cn_unlock(&imports.lock);
}

static void give_memory(struct cn_import *import)
{
	if (import->view)
		cn_device_ops->view_free(import->view);
	cn_segment_close(&import->control);
	cn_segment_close(&import->ledger); /* last: with it the exporter may have the memory back */
	if (import->memory)
		munmap(import->memory, import->memory_bytes);
	import->view = NULL;
	import->memory = NULL;
}

/* On the service thread: the import is closed and holds nothing. */
static void end_import(struct cn_job *job)
{
	struct cn_import *import = (struct cn_import *)((char *)job - offsetof(struct cn_import, end_job));

	unlist(import);
	cn_lock(&import->lock);
	import->base = NULL;
	cn_unlock(&import->lock);
	give_memory(import);
	if (import->channel.fd >= 0)
		cn_service_unwatch(&import->channel);
	import->channel.fd = -1;
	cn_lock(&imports.lock);
	import->next = imports.ended;
	imports.ended = import;
	cn_unlock(&imports.lock);
}

void *cn_import_take_ended(void)
{
	cn_lock(&imports.lock);
	struct cn_import *import = imports.ended;
	void *owner = import ? import->owner : NULL;
	if (import) {
		imports.ended = import->next;
		import->next = imports.spare;
		imports.spare = import;
	}
	cn_unlock(&imports.lock);
	return owner;
}

void cn_import_close(struct cn_import *import)
{
	cn_lock(&import->lock);
	import->closed = true;
	cn_import_end_locked(import);
	cn_unlock(&import->lock);
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
	cn_lock(&import->lock);
	/* The name is the exporter's word, and known to whoever has seen a pointer; the socket is the pool itself. */
	bool same = memcmp(import->name, other->name, sizeof import->name) == 0 &&
		    import->socket_device == other->socket_device && import->socket_inode == other->socket_inode &&
		    import->state == CN_IMPORT_ALIVE;
	cn_unlock(&import->lock);
	return same;
}

static struct cn_import *new_record(void)
{
	cn_lock(&imports.lock);
	struct cn_import *import = imports.spare;
	if (import)
		imports.spare = import->next;
	cn_unlock(&imports.lock);
	if (!import) {
		import = calloc(1, sizeof *import);
		if (import)
			pthread_mutex_init(&import->asking, NULL);
		return import;
	}
	import->held_count = import->held_bytes = import->live_count = 0;
	import->mapped_from = import->mapped_to = 0;
	import->busy_count = 0;
	import->state = CN_IMPORT_ALIVE;
	import->closed = import->ending = false;
	return import;
}

static void spare_record(struct cn_import *import)
{
	cn_lock(&imports.lock);
	import->next = imports.spare;
	imports.spare = import;
	cn_unlock(&imports.lock);
}

/* The arrays: by slot, by unit, and the set of starts. */
static CUresult make_memory(struct cn_import *import)
{
	uint64_t units = import->bytes / CN_IMPORT_UNIT_BYTES;
	size_t held_bytes = CN_EXPORT_SLOTS * sizeof *import->held;
	size_t slot_bytes = (units * sizeof *import->slot_at + 7) / 8 * 8;

	import->memory_bytes = held_bytes + slot_bytes + cn_bits_bytes(units);
	char *memory = mmap(NULL, import->memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for what is imported: %s", strerror(errno));
	import->memory = memory;
	import->held = (struct cn_held *)memory;
	import->slot_at = (uint32_t *)(memory + held_bytes);
	cn_bits_open(&import->starts, memory + held_bytes + slot_bytes, units);
	return CUDA_SUCCESS;
}

/* Introduce ourselves and learn what the pool is. */
static CUresult join(struct cn_import *import, struct cn_pool_facts *ret_facts)
{
	struct cn_parcel request = {
		.message = {.kind = CN_MESSAGE_JOIN, .request = 1},
		.descriptors = {import->ledger.fd},
		.descriptor_count = 1,
	};
	struct cn_parcel welcome;
	struct pollfd channel = {.fd = import->channel.fd};
	CUresult result = cn_wire_ask(import->channel.fd, &request, "the pool could not be imported", &welcome);

	if (result && poll(&channel, 1, 0) == 1 && channel.revents & POLLHUP)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the pool has just been destroyed, or its exporter has ended, or has importers enough");
	if (result)
		return result;
	const struct cn_message *message = &welcome.message;
	if (message->kind != CN_MESSAGE_WELCOME || welcome.descriptor_count != 1 || !message->words[0] ||
	    message->words[0] % CN_GRANULARITY_BYTES || message->words[0] > RANGE_BYTES_MAX) {
		cn_wire_close(&welcome);
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor leads to something else than a pool");
	}
	result = cn_segment_map(welcome.descriptors[0], sizeof(struct cn_control), "the pool's control segment",
				&import->control);
	if (result) {
		cn_wire_close(&welcome);
		return result;
	}
	import->bytes = message->words[0];
	import->request = 1;
	memcpy(import->name, message->bytes, sizeof import->name);
	*ret_facts = (struct cn_pool_facts){
		.location_type = (int)message->words[1],
		.location_id = (int)message->words[2],
		.handle_types = (unsigned)message->words[3],
		.memory_type = (int)message->words[4],
	};
	return CUDA_SUCCESS;
}

static CUresult enlist(struct cn_import *import)
{
	import->channel.ready = channel_ready;
	import->channel.due = channel_due;
	import->release_job.run = say_released;
	import->end_job.run = end_import;
	atomic_store(&import->release_posted, false);
	atomic_store(&import->answered, 1);
	cn_lock(&imports.lock);
	cn_map_insert(&imports.by_address, &import->node, (uintptr_t)import->base, import->bytes);
	import->next = imports.first;
	imports.first = import;
	cn_unlock(&imports.lock);
	CUresult result = cn_service_watch(&import->channel);
	if (result)
		unlist(import);
	return result;
}

/* A channel and a ledger that no forked child has, not even one that is forked this very moment. */
static CUresult connect_held(struct cn_import *import, int fd)
{
	struct stat status = {0};

	if (!fstat(fd, &status)) { /* if not, the connection fails and says why */
		import->socket_device = status.st_dev;
		import->socket_inode = status.st_ino;
	}
	cn_service_hold_fork();
	CUresult result = cn_segment_make("cenote-ledger", sizeof(struct cn_ledger), &import->ledger);
	if (!result) {
		result = cn_wire_connect_path(fd, &import->channel.fd);
		if (result)
			cn_segment_close(&import->ledger);
		else
			cn_service_keep(&import->channel);
	}
	cn_service_allow_fork();
	return result;
}

CUresult cn_import_create(int fd, void *owner, struct cn_import **ret_import, struct cn_pool_facts *ret_facts)
{
	struct cn_pool_facts facts;
	void *base;
	CUresult result = cn_service_start();

	if (result)
		return result;
	pthread_once(&imports.once, watch_forks);
	struct cn_import *import = new_record();
	if (!import)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an imported pool's record");
	import->owner = owner;
	import->channel.due_ns = 0;
	result = connect_held(import, fd);
	if (result)
		goto err_spare;
	result = join(import, &facts);
	if (!result)
		result = make_memory(import);
	if (!result)
		result = cn_device_ops->view_create(import->bytes, VIEW_ALIGNMENT_BYTES, &import->view, &base);
	if (result)
		goto err_give;
	cn_lock(&import->lock);
	import->base = base;
	cn_unlock(&import->lock);
	result = enlist(import);
	if (result)
		goto err_nobody;
	atomic_store(&cn_imports_exist, true);
	*ret_import = import;
	*ret_facts = facts;
	return CUDA_SUCCESS;

err_nobody:
	cn_lock(&import->lock);
	import->base = NULL;
	cn_unlock(&import->lock);
err_give:
	give_memory(import);
	cn_service_unwatch(&import->channel);
err_spare:
	spare_record(import);
	return result;
}
