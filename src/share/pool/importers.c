/* SPDX-License-Identifier: MIT */
/*
 * The importers of a pool: how they come, what they may ask, and when they are gone. All on the service thread.
 *
 * The end of a channel is not the end of a hold: the process may live on, or die slowly. An importer whose channel has
 * ended is *leaving*: it stays on the list, with its ledger, until no process has that ledger mapped any more or its
 * process is gone. Until then its words are read again and again, at growing intervals, since no message will come.
 *
 * What an importer can do to us: be one of CN_IMPORTERS_MAX, send messages one by one, hold blocks. An importer that
 * does not introduce itself in time, sends an unknown message, or does not read its replies is shut out. When too many
 * have connected and sent nothing, the one that has been silent longest is shut out.
 */
#include "base/container.h"
#include "share/peer/peer.h"
#include "share/pool/export_internal.h"
#include "share/port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LOOK_FIRST_MS = 1,
	LOOK_LAST_MS = 100,
	LOOK_REST = 8, /* a scan for deferred blocks is followed by a rest so many times as long */
};

/*
 * Of the descriptors that the program may have, silent connections may take one in SILENT_SHARE. Importers, which take
 * three each, may be one for JOINED_SHARE of them. The rest is for the program, and for processes that come and ask.
 */
enum { SILENT_SHARE = 8, JOINED_SHARE = 4 };

enum { LEDGER_PAGE_BYTES = 4096 };

/* Importers often join several pools one after the other: how long we look for the next one before we sleep. */
enum { NEXT_JOIN_NS = 300000 };

static _Atomic uint64_t last_id;

/*
 * A ledger for the next importer, made before it comes, while no process waits: that takes as long as the rest of the
 * answer. One for all pools; NULL: there is none now.
 */
struct lent {
	struct cn_segment ledger;
	int fd; /* to be sent */
};
static _Atomic(struct lent *) spare;

/* Over all pools, so that many pools are no way around these limits. */
static struct {
	struct cn_importer *oldest, *newest; /* of those that have sent nothing */
	unsigned silent_count, joined_count;
} crowd;

static unsigned long descriptor_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ? 1024 : limit.rlim_cur;
}

static void enter_crowd(struct cn_importer *importer)
{
	importer->silent_before = crowd.newest;
	importer->silent_after = NULL;
	*(crowd.newest ? &crowd.newest->silent_after : &crowd.oldest) = importer;
	crowd.newest = importer;
	crowd.silent_count++;
	importer->silent = true;
}

static void leave_crowd(struct cn_importer *importer)
{
	if (importer->joined)
		crowd.joined_count--;
	if (!importer->silent)
		return;
	*(importer->silent_before ? &importer->silent_before->silent_after : &crowd.oldest) = importer->silent_after;
	*(importer->silent_after ? &importer->silent_after->silent_before : &crowd.newest) = importer->silent_before;
	crowd.silent_count--;
	importer->silent = false;
}

/* Notify the watchers of the pool. Only this thread closes the descriptor. */
static void tell_watchers(struct cn_export *export)
{
	const uint64_t one = 1;

	cn_lock(&export->lock);
	int fd = export->event_fd;
	cn_unlock(&export->lock);
	/* A nonblocking eventfd; if it is full, it is readable already. */
	if (fd >= 0 && write(fd, &one, sizeof one) < 0)
		return;
}

/* ---- Scanning for deferred blocks ---- */

/*
 * An importer may send *released* at any time and any number of times. The cost is bounded: one walk answers all
 * importers that asked before it begins; it runs in slices, which are followed by rests; and an importer that has asked
 * is not read again before the walk has begun. (To limit the number of messages instead would hit an honest program
 * that tries a stale name again and again: each refused import sends *released* too.)
 */
static uint64_t next_look_ns(const struct cn_export *export)
{
	uint64_t now_ns = cn_clock_ns();

	return export->scan_rest_ns > now_ns + CN_EXPORT_SCAN_BURST_NS ? export->scan_rest_ns - CN_EXPORT_SCAN_BURST_NS
								       : now_ns;
}

static void want_scan(struct cn_export *export)
{
	export->scan_wanted = true;
	if (!export->scan_due.due_ns)
		export->scan_due.due_ns = next_look_ns(export);
}

static void want_look_of(struct cn_importer *importer)
{
	struct cn_export *export = importer->export;

	want_scan(export);
	if (export->scan_active || export->scan_due.due_ns > cn_clock_ns()) {
		importer->paused = true;
		cn_service_pause(&importer->channel);
	}
}

static void begin_scan(struct cn_export *export)
{
	export->scan_wanted = false;
	export->scan_active = true;
	cn_export_scan_begin(export, &export->service_scan);
	/* Only this thread changes the list. */
	for (struct cn_importer *importer = export->importers; importer; importer = importer->next)
		if (importer->paused) {
			importer->paused = false;
			cn_service_resume(&importer->channel);
		}
}

static void scan_due(struct cn_watch *watch)
{
	struct cn_export *export = cn_container_of(watch, struct cn_export, scan_due);
	uint64_t start_ns = cn_clock_ns();

	if (!export->scan_active)
		begin_scan(export);
	export->scan_active = cn_export_scan_on(export, &export->service_scan);
	uint64_t end_ns = cn_clock_ns();
	export->scan_rest_ns =
		(export->scan_rest_ns > end_ns ? export->scan_rest_ns : end_ns) + LOOK_REST * (end_ns - start_ns);
	watch->due_ns = export->scan_active || export->scan_wanted ? next_look_ns(export) : 0;
}

/* ---- Leaving ---- */

static void unlist(struct cn_importer *importer)
{
	struct cn_export *export = importer->export;

	cn_lock(&export->lock);
	for (struct cn_importer **link = &export->importers; *link; link = &(*link)->next)
		if (*link == importer) {
			*link = importer->next;
			break;
		}
	export->importer_count--;
	cn_unlock(&export->lock);
	if (importer->joined)
		tell_watchers(export);
}

/* An importer that had memory of the pool is gone. */
static void want_reclaim(struct cn_export *export)
{
	export->reclaim_offset = 0; /* again: it takes no time where there is nothing */
	export->reclaim_due.due_ns = cn_clock_ns();
}

static void reclaim_due(struct cn_watch *watch)
{
	struct cn_export *export = cn_container_of(watch, struct cn_export, reclaim_due);

	export->reclaim_offset = cn_pool_reclaim(export->pool, export->reclaim_offset);
	if (export->reclaim_offset) /* others have their turn in between */
		watch->due_ns = cn_clock_ns();
}

/* The importer is gone for good: it holds nothing any more. */
static void forget(struct cn_importer *importer)
{
	struct cn_export *export = importer->export;

	unlist(importer);
	cn_service_unwatch(&importer->channel);
	cn_segment_close(&importer->ledger);
	if (importer->pidfd >= 0)
		close(importer->pidfd);
	if (importer->lent)
		want_reclaim(export);
	leave_crowd(importer);
	free(importer);
	want_scan(export);
	cn_port_changed();
}

/*
 * A returned ledger says that no process has the pool mapped any more. Where work can outlive the mapping, that does
 * not yet end what was held. But an importer that held nothing, such as one that has ended its import, is gone all the
 * same. (Its own word is good enough: a lie only loses its own holds.) And where the system shows no process, the
 * ledger alone decides.
 */
bool cn_importer_is_gone(const struct cn_importer *importer)
{
	struct pollfd process = {.fd = importer->pidfd, .events = POLLIN};

	if (!importer->ledger.bytes || (importer->pidfd >= 0 && poll(&process, 1, 0) == 1))
		return true;
	bool needs_process = !cn_device_ops->use_ends_with_mapping && importer->pidfd >= 0;
	return cn_segment_is_returned(&importer->ledger) &&
	       (!needs_process ||
		!atomic_load_explicit(&cn_importer_ledger(importer)->held_count, memory_order_relaxed));
}

static void look_if_gone(struct cn_watch *watch)
{
	struct cn_importer *importer = cn_container_of(watch, struct cn_importer, channel);

	if (cn_importer_is_gone(importer)) {
		forget(importer);
		return;
	}
	want_scan(importer->export);
	importer->ask_again_ns =
		importer->ask_again_ns ? 2 * importer->ask_again_ns : LOOK_FIRST_MS * CN_MILLISECOND_NS;
	if (importer->ask_again_ns > LOOK_LAST_MS * CN_MILLISECOND_NS)
		importer->ask_again_ns = LOOK_LAST_MS * CN_MILLISECOND_NS;
	watch->due_ns = cn_clock_ns() + importer->ask_again_ns;
}

/* The channel has ended, or we end it. */
static void leave(struct cn_importer *importer)
{
	struct cn_export *export = importer->export;

	if (cn_importer_is_gone(importer)) {
		forget(importer);
		return;
	}
	cn_service_unwatch(&importer->channel);
	cn_lock(&export->lock);
	importer->leaving = true;
	cn_unlock(&export->lock);
	importer->paused = false;
	tell_watchers(export);
	importer->channel.fd = -1; /* from now on there is only a time */
	importer->channel.due = look_if_gone;
	importer->channel.due_ns = cn_clock_ns() + LOOK_FIRST_MS * CN_MILLISECOND_NS;
	if (cn_service_watch(&importer->channel))
		forget(importer);
}

/* ---- Messages ---- */

static int reply(struct cn_importer *importer, struct cn_parcel *parcel)
{
	return cn_wire_send(importer->channel.fd, parcel);
}

/*
 * No process may join whose end we would not see where the system can show it: if it has passed its ledger on, a hold
 * would outlive the process. False: it is gone already, or descriptors are short.
 */
static bool find_process(struct cn_importer *importer)
{
	struct ucred peer;
	socklen_t bytes = sizeof peer;

	if (!getsockopt(importer->channel.fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes)) {
		importer->pid = peer.pid;
		importer->uid = peer.uid;
	}
	return !cn_wire_process(importer->channel.fd, &importer->pidfd);
}

/* An importer that joins for a block gets the part that the block begins in at once, and need not ask again. */
static bool find_first_part(struct cn_export *export, const uint64_t *wanted, struct cn_arena_part *ret_part)
{
	uint64_t offset;

	return wanted[CN_JOIN_SLOT] &&
	       cn_export_find_block(export, wanted[CN_JOIN_SLOT], wanted[CN_JOIN_GENERATION], &offset) &&
	       !cn_pool_part(export->pool, offset, ret_part);
}

static int welcome(struct cn_importer *importer, const struct cn_message *request, int ledger_fd)
{
	const struct cn_export *export = importer->export;
	struct cn_arena_part part = {.fd = -1};
	bool with_part = find_first_part(importer->export, request->words, &part);
	struct cn_parcel parcel = {
		.message = {.kind = CN_MESSAGE_WELCOME,
			    .request = request->request,
			    .words = {export->facts.range_bytes, (uint64_t) export->facts.location_type,
				      (uint64_t) export->facts.location_id, export->facts.handle_types,
				      (uint64_t) export->facts.memory_type, part.offset, part.bytes, part.serial}},
		.descriptors = {[CN_WELCOME_CONTROL] = export->control.fd,
				[CN_WELCOME_LEDGER] = ledger_fd,
				[CN_WELCOME_MEMORY] = part.fd},
		.descriptor_count = with_part ? 3 : 2,
	};
	memcpy(parcel.message.bytes, export->name, sizeof export->name);
	int error = reply(importer, &parcel);
	importer->lent |= with_part;
	if (with_part)
		close(part.fd);
	return error;
}

static CUresult make_ledger(struct lent *ret_lent)
{
	return cn_segment_lend("cenote-ledger", sizeof(struct cn_ledger), &ret_lent->ledger, &ret_lent->fd);
}

static CUresult take_ledger(struct lent *ret_lent)
{
	struct lent *found = atomic_exchange(&spare, NULL);

	if (!found)
		return make_ledger(ret_lent);
	*ret_lent = *found;
	free(found);
	return CUDA_SUCCESS;
}

static void discard_ledger(struct lent *lent)
{
	if (!lent)
		return;
	cn_segment_close(&lent->ledger);
	close(lent->fd);
	free(lent);
}

/* The importer's first pointer writes the counts and, most likely, one of the first words. If it fails, that waits. */
static void have_first_page(const struct lent *lent)
{
	if (fallocate(lent->fd, 0, 0, LEDGER_PAGE_BYTES))
		return;
}

void cn_importers_prepare(void)
{
	struct lent *none = NULL, *made = atomic_load(&spare) ? NULL : malloc(sizeof *made);

	if (made && make_ledger(made)) { /* the next importer will hear why */
		free(made);
		made = NULL;
	}
	if (made)
		have_first_page(made);
	if (made && !atomic_compare_exchange_strong(&spare, &none, made))
		discard_ledger(made);
}

void cn_importers_rest(void)
{
	discard_ledger(atomic_exchange(&spare, NULL));
}

void cn_importers_close_in_child(void)
{
	struct lent *found = atomic_exchange(&spare, NULL); /* its mapping is not inherited */

	if (!found)
		return;
	close(found->ledger.fd);
	close(found->fd);
}

/*
 * We make the ledger and the importer writes it: so nothing of the importer's is opened, mapped or closed here.
 * False: it cannot stay.
 */
static bool join(struct cn_importer *importer, const struct cn_message *request)
{
	struct cn_export *export = importer->export;
	struct lent lent;

	if (importer->joined || crowd.joined_count >= descriptor_limit() / JOINED_SHARE || !find_process(importer) ||
	    take_ledger(&lent))
		return false;
	leave_crowd(importer);
	crowd.joined_count++;
	cn_lock(&export->lock);
	importer->ledger = lent.ledger;
	importer->joined = true;
	importer->id = atomic_fetch_add(&last_id, 1) + 1;
	importer->joined_ns = cn_clock_ns();
	importer->node = (uint32_t)request->words[CN_JOIN_NODE];
	cn_unlock(&export->lock);
	importer->channel.due_ns = 0;
	int error = welcome(importer, request, lent.fd);
	close(lent.fd);        /* from now on it is the importer's, and returned when the importer has released it */
	tell_watchers(export); /* after the welcome, which is more urgent */
	cn_port_changed();
	cn_importers_prepare();
	cn_service_expect(NEXT_JOIN_NS);
	return error == 0;
}

static bool send_part(struct cn_importer *importer, const struct cn_message *request)
{
	struct cn_arena_part part = {.fd = -1};
	CUresult result = request->words[0] < importer->export->facts.range_bytes
				  ? cn_pool_part(importer->export->pool, request->words[0], &part)
				  : CUDA_ERROR_INVALID_VALUE;
	struct cn_parcel answer = {
		.message = {.kind = CN_MESSAGE_PART,
			    .request = request->request,
			    .result = (int32_t)result,
			    .words = {part.offset, part.bytes, part.serial}},
		.descriptors = {part.fd},
		.descriptor_count = !result,
	};
	int error = reply(importer, &answer);
	importer->lent |= !result;
	if (!result)
		close(part.fd);
	return error == 0;
}

/* False: it cannot stay. */
static bool serve(struct cn_importer *importer, const struct cn_message *request)
{
	if (request->kind == CN_MESSAGE_JOIN)
		return join(importer, request);
	if (!importer->joined)
		return false;
	if (request->kind == CN_MESSAGE_PART)
		return send_part(importer, request);
	if (request->kind == CN_MESSAGE_RELEASED) {
		want_look_of(importer);
		return true;
	}
	return false;
}

static void channel_ready(struct cn_watch *watch)
{
	struct cn_importer *importer = cn_container_of(watch, struct cn_importer, channel);
	struct cn_message request;
	int error = cn_wire_receive_message(watch->fd, &request);

	if (error == EAGAIN)
		return;
	if (error || !serve(importer, &request))
		leave(importer);
}

static void channel_due(struct cn_watch *watch)
{
	leave(cn_container_of(watch, struct cn_importer, channel)); /* it was silent for too long */
}

static void admit(struct cn_export *export, int sock)
{
	struct cn_importer *importer = calloc(1, sizeof *importer);

	if (!importer) {
		cn_wire_hang_up(sock);
		return;
	}
	if (crowd.silent_count >= descriptor_limit() / SILENT_SHARE && crowd.oldest)
		leave(crowd.oldest);
	importer->export = export;
	importer->pidfd = -1;
	importer->channel.fd = sock;
	importer->channel.ready = channel_ready;
	importer->channel.due = channel_due;
	importer->channel.due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	cn_lock(&export->lock);
	bool full = export->importer_count >= CN_IMPORTERS_MAX;
	if (!full) {
		importer->next = export->importers;
		export->importers = importer;
		export->importer_count++;
	}
	cn_unlock(&export->lock);
	if (full || cn_service_watch(&importer->channel)) {
		if (!full)
			unlist(importer);
		cn_wire_hang_up(sock);
		free(importer);
		return;
	}
	enter_crowd(importer);
	channel_ready(&importer->channel); /* most have introduced themselves by now */
}

void cn_importers_accept(struct cn_watch *listener)
{
	struct cn_export *export = cn_container_of(listener, struct cn_export, listener);
	int sock = cn_wire_accept(listener->fd);

	if (sock >= 0)
		admit(export, sock);
}

/* ---- Shutting out ---- */

/* The list changes with each importer that leaves: begin again until none is left. */
static struct cn_importer *next_evicted(struct cn_export *export)
{
	struct cn_importer *importer;

	cn_lock(&export->lock);
	for (importer = export->importers; importer; importer = importer->next)
		if (atomic_load(&importer->evicted) && !importer->leaving)
			break;
	cn_unlock(&export->lock);
	return importer;
}

void cn_importers_evict(struct cn_job *job)
{
	struct cn_export *export = cn_container_of(job, struct cn_export, evict_job);
	struct cn_importer *importer;

	atomic_store(&export->evict_posted, false);
	while ((importer = next_evicted(export))) {
		struct cn_parcel goodbye = {.message = {.kind = CN_MESSAGE_EVICTED}};
		reply(importer, &goodbye);
		leave(importer);
	}
}

/* ---- Parts that have lost their memory ---- */

/*
 * One message at a time: an importer that has not handled the last one yet will see, when it does, what has happened
 * since. It first says that it looks, and then looks. We have changed the words before, and now check whether it has
 * said so. So trims do not fill the channel of a process that is stopped.
 */
static bool tell_parts(struct cn_importer *importer)
{
	if (atomic_load(&cn_importer_ledger(importer)->parts_seen) != importer->parts_told)
		return true;
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_PARTS, .words = {++importer->parts_told}}};
	return reply(importer, &parcel) == 0;
}

void cn_importers_tell_parts(struct cn_export *export)
{
	/* Only this thread changes the list. */
	for (struct cn_importer *importer = export->importers, *next; importer; importer = next) {
		next = importer->next;
		if (importer->joined && !importer->leaving && !tell_parts(importer))
			leave(importer);
	}
}

/* ---- Beginning and end ---- */

void cn_importers_open(struct cn_export *export)
{
	export->scan_due = (struct cn_watch){.fd = -1, .due = scan_due};
	export->reclaim_due = (struct cn_watch){.fd = -1, .due = reclaim_due};
	cn_service_keep(&export->scan_due);
	cn_service_keep(&export->reclaim_due);
}

void cn_importers_drop(struct cn_export *export)
{
	/* Only this thread changes the list. */
	for (struct cn_importer *importer = export->importers, *next; importer; importer = next) {
		next = importer->next;
		forget(importer);
	}
	cn_service_unwatch(&export->scan_due);
	cn_service_unwatch(&export->reclaim_due);
}
