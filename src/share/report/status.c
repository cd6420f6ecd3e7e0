/* SPDX-License-Identifier: MIT */
/*
 * Writing the status file; see status.h.
 *
 * All of it runs on the service thread, the only one that ends exports and changes their importers: what is found in
 * these lists stays until it is written. The file is written when a viewer asks, but not before a rest of ASKED_REST
 * times as long as the last writing took: viewers that ask meanwhile have one writing together, so however many ask and
 * however often, the program has the exports' locks for most of the time. It is written soon after a change that a
 * reader would want to see, but not more often than each CHANGED_NS; and else after a time that doubles while nothing
 * changes.
 * So what a stopped process last wrote is at most IDLE_NS old, a process that shares without a change is woken only
 * that often, and nothing is done where blocks are allocated, exported, imported or freed.
 */
#include "share/report/status.h"

#include "base/check.h"
#include "base/environment.h"
#include "share/node/node.h"
#include "share/pool/export_internal.h"
#include "share/pool/import.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANGED_NS (100 * CN_MILLISECOND_NS)
#define IDLE_NS    (16000 * CN_MILLISECOND_NS)
#define REST_NS    (1000 * CN_MILLISECOND_NS) /* at most: a viewer waits for two seconds */

enum {
	DEFERRED_LOOKS_MAX = 1024,      /* for a holder, */
	DEFERRED_LOOKS_ALL_MAX = 65536, /* and for all of them */
	IMPORTS_MAX = 1024,             /* that are listed */
	ASKED_REST = 8,
	SHARE_OF_TIME = 64, /* otherwise writing takes at most one part in so many of the thread's time */
};

static struct {
	int fd;
	dev_t file_system; /* of the file, and its inode: see is_ours() */
	ino_t inode;
	struct cn_watch timer; /* for the service thread, as all that follows */
	bool begun;            /* before this is set, another thread may still fill in the rest */
	uint64_t sequence;     /* of the last writing */
	uint64_t digest;       /* of what was written then */
	uint64_t written_ns, took_ns, interval_ns;
	uint64_t pid_namespace, time_namespace;
	char label[CN_REPORT_TEXT_BYTES];
	struct cn_status_record page[CN_STATUS_PAGE_RECORDS];
	struct cn_import_facts imports[IMPORTS_MAX];
} status = {.fd = -1};

/* A writing under way. */
struct writing {
	struct cn_status_head head;
	uint64_t digest;
	unsigned looks_left;
	bool failed;
};

uint64_t cn_status_namespace(const char *name)
{
	char path[32];
	struct stat facts;

	snprintf(path, sizeof path, "/proc/self/ns/%s", name);
	return stat(path, &facts) ? 0 : facts.st_ino;
}

/* ---- The file ---- */

/* A program may close descriptors that it did not open: then the number may be that of a file of its own. */
static bool is_ours(void)
{
	struct stat facts;

	return status.fd >= 0 && !fstat(status.fd, &facts) && facts.st_dev == status.file_system &&
	       facts.st_ino == status.inode;
}

/* Bytes beyond the program's limit for files are not written: to try would end the program with SIGXFSZ. */
static bool write_at(const void *bytes, size_t count, uint64_t offset)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && offset + count > limit.rlim_cur)
		return false;
	return pwrite(status.fd, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* Write the last page that was begun, up to its last record. */
static void flush(struct writing *writing)
{
	uint32_t count = writing->head.record_count, used = (count - 1) % CN_STATUS_PAGE_RECORDS + 1;

	if (count && !write_at(status.page, used * sizeof status.page[0],
			       cn_status_page_offset(writing->head.sequence, (count - 1) / CN_STATUS_PAGE_RECORDS)))
		writing->failed = true;
}

static void put(struct writing *writing, enum cn_status_kind kind, const void *body)
{
	uint32_t place = writing->head.record_count % CN_STATUS_PAGE_RECORDS;
	struct cn_status_record record = {.sequence = writing->head.sequence, .kind = kind};

	if (writing->head.record_count == CN_STATUS_RECORDS_MAX) {
		writing->head.flags |= CN_REPORT_TRUNCATED;
		return;
	}
	if (!place)
		flush(writing);
	memcpy(record.body, body, sizeof record.body);
	writing->digest ^= cn_check(record.body, sizeof record.body) + writing->digest * 31;
	record.check = cn_check(&record, offsetof(struct cn_status_record, check));
	status.page[place] = record;
	writing->head.record_count++;
}

/* ---- Records ---- */

static unsigned take_looks(const struct writing *writing)
{
	return writing->looks_left < DEFERRED_LOOKS_MAX ? writing->looks_left : DEFERRED_LOOKS_MAX;
}

/* At most so many were looked at as are deferred. */
static void spend_looks(struct writing *writing, uint64_t deferred_count)
{
	unsigned looks = take_looks(writing);

	writing->looks_left -= deferred_count < looks ? (unsigned)deferred_count : looks;
}

static void put_importer(struct writing *writing, struct cn_export *export, const struct cn_importer *importer,
			 uint64_t deferred_count)
{
	struct cn_importer_facts facts;
	struct stat ledger;

	bool all = cn_export_describe(export, importer, take_looks(writing), &facts);
	spend_looks(writing, deferred_count);
	struct cn_report_importer body = {
		.id = facts.id,
		.pid = (uint32_t)facts.pid,
		.uid = facts.uid,
		.flags = (facts.leaving ? CN_REPORT_LEAVING : 0) | (all ? 0 : CN_REPORT_AT_LEAST),
		.held_count = facts.held_count,
		.held_bytes = facts.held_bytes,
		.deferred_count = facts.deferred_count,
		.deferred_bytes = facts.deferred_bytes,
		.since_ns = facts.joined_ns,
		.waiting_since_ns = facts.waiting_since_ns,
		.node = facts.node,
		.ledger_inode = importer->ledger.bytes && !fstat(importer->ledger.fd, &ledger) ? ledger.st_ino : 0,
	};
	put(writing, CN_STATUS_IMPORTER, &body);
}

static void put_pool(struct writing *writing, struct cn_export *export)
{
	struct cn_report_pool body = {
		.id = export->id,
		.location_type = export->facts.location_type,
		.location_id = export->facts.location_id,
		.since_ns = export->created_ns,
		.limit_bytes = atomic_load(&cn_export_control(export)->limit_bytes),
	};

	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next)
		body.importer_count += importer->joined;
	cn_export_scan_ended(export);
	cn_pool_peek_usage(export->pool, &body.used_bytes, &body.reserved_bytes);
	cn_lock(&export->lock);
	body.exported_count = export->slot_count;
	body.exported_bytes = export->slot_bytes;
	body.deferred_count = export->deferred_count;
	body.deferred_bytes = export->deferred_bytes;
	cn_unlock(&export->lock);
	put(writing, CN_STATUS_POOL, &body);
	for (const struct cn_importer *importer = export->importers; importer; importer = importer->next)
		if (importer->joined)
			put_importer(writing, export, importer, body.deferred_count);
}

static void put_opener(struct writing *writing, const struct cn_port_client *client, enum cn_handle_kind kind,
		       uint64_t deferred_count)
{
	struct cn_port_opening_sum deferred;
	bool all = cn_port_opening_deferred(client, kind, take_looks(writing), &deferred);

	spend_looks(writing, deferred_count ? client->opening_count : 0);
	struct cn_report_importer body = {
		.id = client->id,
		.pid = (uint32_t)client->pid,
		.uid = client->uid,
		.flags = (client->channel.watched ? 0 : CN_REPORT_LEAVING) | (all ? 0 : CN_REPORT_AT_LEAST),
		.held_count = client->open[kind].count,
		.held_bytes = client->open[kind].bytes,
		.deferred_count = deferred.count,
		.deferred_bytes = deferred.bytes,
		.since_ns = client->open[kind].since_ns,
		.waiting_since_ns = deferred.count ? deferred.since_ns : 0,
	};
	put(writing, CN_STATUS_OPENER, &body);
}

static void put_handles(struct writing *writing, enum cn_handle_kind kind)
{
	struct cn_port_object_sums sums;

	cn_port_object_sum(kind, &sums);
	if (!sums.count && !sums.deferred_count)
		return;
	struct cn_report_handles body = {
		.kind = kind,
		.shared_count = sums.count,
		.shared_bytes = sums.bytes,
		.deferred_count = sums.deferred_count,
		.deferred_bytes = sums.deferred_bytes,
		.opener_count = cn_port_opener_count(kind),
		.since_ns = sums.first_ns,
	};
	put(writing, CN_STATUS_HANDLES, &body);
	for (const struct cn_port_client *client = NULL;
	     (client = cn_port_opener_after(kind, client ? client->id : 0));)
		put_opener(writing, client, kind, body.deferred_count);
}

/* ---- What it has from others ---- */

static void put_imports(struct writing *writing)
{
	unsigned all, count = cn_imports_describe(status.imports, IMPORTS_MAX, &all);

	if (all > count)
		writing->head.flags |= CN_REPORT_TRUNCATED;
	for (unsigned i = 0; i < count; i++) {
		const struct cn_import_facts *facts = &status.imports[i];
		struct cn_report_import body = {
			.pool = facts->pool_id,
			.flags = facts->orphaned ? CN_REPORT_ORPHANED : 0,
			.held_count = facts->held_count,
			.held_bytes = facts->held_bytes,
			.since_ns = facts->joined_ns,
			.node = facts->node,
		};
		put(writing, CN_STATUS_IMPORT, &body);
	}
}

static void put_opened(struct writing *writing, enum cn_handle_kind kind)
{
	struct cn_port_opening_sum opened;

	cn_port_opened_sum(kind, &opened);
	struct cn_report_import body = {
		.kind = kind, .held_count = opened.count, .held_bytes = opened.bytes, .since_ns = opened.since_ns};
	if (opened.count)
		put(writing, CN_STATUS_IMPORT, &body);
}

/* Memory of other machines, each machine's apart. */
static void put_elsewhere(struct writing *writing)
{
	struct cn_node_opened opened = {.node = 0};

	while (cn_node_opened_after(opened.node, &opened)) {
		struct cn_report_import body = {
			.kind = CN_HANDLE_FABRIC_MEMORY,
			.held_count = opened.count,
			.held_bytes = opened.bytes,
			.since_ns = opened.since_ns,
			.node = opened.node,
		};
		put(writing, CN_STATUS_IMPORT, &body);
	}
}

/* ---- A writing ---- */

static void fill_head(struct cn_status_head *head)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	head->magic = CN_STATUS_MAGIC;
	head->version = CN_STATUS_VERSION;
	head->written_ns = cn_clock_ns();
	head->written_real_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	head->time_namespace = status.time_namespace;
	head->pid = (uint64_t)getpid();
	head->pid_namespace = status.pid_namespace;
	head->pool_count = cn_exports_count();
	head->opener_count = cn_port_openers_count();
	if (cn_device_ops && strcmp(cn_device_ops->name, "cuda") == 0)
		head->flags |= CN_REPORT_ON_GPU;
	strncpy(head->program, program_invocation_short_name, sizeof head->program - 1);
	memcpy(head->label, status.label, sizeof head->label);
	head->check = cn_check(head, offsetof(struct cn_status_head, check));
}

/* When the file is written next, if no viewer asks and nothing changes that we are told of. */
static void plan(uint64_t began_ns, bool changed)
{
	status.written_ns = cn_clock_ns();
	status.took_ns = status.written_ns - began_ns;
	status.interval_ns = changed ? CHANGED_NS : 2 * status.interval_ns;
	if (status.interval_ns > IDLE_NS)
		status.interval_ns = IDLE_NS;
	if (status.interval_ns < SHARE_OF_TIME * status.took_ns)
		status.interval_ns = SHARE_OF_TIME * status.took_ns;
	status.timer.due_ns = status.written_ns + status.interval_ns;
}

uint64_t cn_status_write(void)
{
	struct writing writing = {.head.sequence = status.sequence + 1, .looks_left = DEFERRED_LOOKS_ALL_MAX};
	uint64_t began_ns = cn_clock_ns();

	if (!status.begun)
		return 0;
	if (!is_ours()) {
		status.fd = -1;
		return 0;
	}
	cn_port_changes_seen();
	for (struct cn_export *export = cn_export_after(0); export; export = cn_export_after(export->id))
		put_pool(&writing, export);
	put_handles(&writing, CN_HANDLE_MEMORY);
	put_handles(&writing, CN_HANDLE_EVENT);
	put_imports(&writing);
	put_opened(&writing, CN_HANDLE_MEMORY);
	put_opened(&writing, CN_HANDLE_EVENT);
	put_elsewhere(&writing);
	flush(&writing);
	fill_head(&writing.head);
	bool written = !writing.failed &&
		       write_at(&writing.head, sizeof writing.head, (writing.head.sequence & 1) * sizeof writing.head);
	plan(began_ns, writing.digest != status.digest);
	status.digest = writing.digest;
	if (!written)
		return 0;
	return ++status.sequence;
}

static void timer_due(struct cn_watch *timer)
{
	(void)timer;
	status.begun = true;
	cn_port_refreshed(cn_status_write());
}

bool cn_report_may_refresh(void)
{
	uint64_t rest_ns = ASKED_REST * status.took_ns;
	uint64_t due_ns = status.written_ns + (rest_ns < REST_NS ? rest_ns : REST_NS);

	if (!status.begun || cn_clock_ns() >= due_ns)
		return true;
	if (!status.timer.due_ns || due_ns < status.timer.due_ns)
		status.timer.due_ns = due_ns;
	return false;
}

void cn_report_changed(void)
{
	uint64_t due_ns = status.written_ns + CHANGED_NS, rest_ns = SHARE_OF_TIME * status.took_ns;

	if (!status.begun) /* the first time is set */
		return;
	if (rest_ns > CHANGED_NS)
		due_ns = status.written_ns + rest_ns;
	if (!status.timer.due_ns || due_ns < status.timer.due_ns)
		status.timer.due_ns = due_ns;
}

void cn_report_begin(int lock_fd)
{
	const char *label = cn_environment(CN_ENVIRONMENT_LABEL);
	struct stat facts;

	if (label)
		strncpy(status.label, label, sizeof status.label - 1);
	status.pid_namespace = cn_status_namespace("pid");
	status.time_namespace = cn_status_namespace("time");
	status.fd = fstat(lock_fd, &facts) ? -1 : lock_fd;
	status.file_system = facts.st_dev;
	status.inode = facts.st_ino;
	status.timer = (struct cn_watch){.fd = -1, .due = timer_due, .due_ns = cn_clock_ns()};
	cn_service_watch(&status.timer); /* without a descriptor it does not fail */
}
