/* SPDX-License-Identifier: MIT */
/*
 * cenote metrics: what cenote ps shows, as numbers for a monitoring system.
 *
 * The text is that of Prometheus, version 0.0.4, or OpenMetrics 1.0. A metric is a row of the table below: its samples
 * are those of all things of its level, and their labels say which thing it is. docs/metrics.md has the same rows.
 */
#include "kept.h"
#include "survey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One thing that has numbers. */
struct thing {
	const struct survey *survey;
	const struct sharer *sharer;
	const struct sharer_pool *pool;
	const struct sharer_handles *handles;
	const struct holder *holder;
	const cenote_import *import;
	const struct private_memory *memory;
	const struct device_memory *device;
	const struct device_user *user;
	const struct kept_object *kept;
};

enum level { SURVEY, PROCESS, POOL, HANDLES, HOLDER, IMPORT, PRIVATE, DEVICE, USER, KEPT };

struct metric {
	const char *name; /* without "cenote_" */
	const char *unit; /* what the name ends with; seconds are nanoseconds here; "": a count */
	enum level level;
	unsigned long long (*value)(const struct thing *thing);
	const char *help;
};

struct page {
	FILE *to;
	const struct kept_list *kept;
	bool openmetrics;
};

/* ---- Numbers ---- */

#define VALUE(name, expression)                                   \
	static unsigned long long name(const struct thing *thing) \
	{                                                         \
		return (unsigned long long)(expression);          \
	}

VALUE(survey_complete, !*thing->survey->error)
VALUE(survey_others, thing->survey->other_users)
VALUE(process_answers, thing->sharer->process.answers)
VALUE(process_written, thing->sharer->process.written_ns ? age_of(thing->sharer->process.written_ns) : 0)
VALUE(process_pools, thing->sharer->pool_count)
VALUE(pool_used, thing->pool->pool.used_bytes)
VALUE(pool_reserved, thing->pool->pool.reserved_bytes)
VALUE(pool_exported, thing->pool->pool.exported_bytes)
VALUE(pool_exported_blocks, thing->pool->pool.exported_block_count)
VALUE(pool_deferred, thing->pool->pool.deferred_bytes)
VALUE(pool_deferred_blocks, thing->pool->pool.deferred_block_count)
VALUE(pool_importers, thing->pool->pool.importer_count)
VALUE(pool_limit, thing->pool->pool.limit_bytes)
VALUE(pool_age, thing->pool->pool.age_ns)
VALUE(handles_shared, thing->handles->handles.shared_count)
VALUE(handles_shared_bytes, thing->handles->handles.shared_bytes)
VALUE(handles_deferred, thing->handles->handles.deferred_count)
VALUE(handles_deferred_bytes, thing->handles->handles.deferred_bytes)
VALUE(handles_openers, thing->handles->handles.opener_count)
VALUE(handles_age, thing->handles->handles.age_ns)
VALUE(holder_held, thing->holder->importer.held_bytes)
VALUE(holder_held_blocks, thing->holder->importer.held_block_count)
VALUE(holder_deferred, thing->holder->importer.deferred_bytes)
VALUE(holder_deferred_blocks, thing->holder->importer.deferred_block_count)
VALUE(holder_waiting, thing->holder->importer.waiting_since_ns ? age_of(thing->holder->importer.waiting_since_ns) : 0)
VALUE(holder_age, age_of(thing->holder->importer.joined_ns))
VALUE(import_held, thing->import->held_bytes)
VALUE(import_held_blocks, thing->import->held_count)
VALUE(import_orphaned, thing->import->orphaned)
VALUE(import_age, thing->import->age_ns)
VALUE(private_bytes, thing->memory->bytes)
VALUE(device_total, thing->device->device.total_bytes)
VALUE(device_used, thing->device->device.used_bytes)
VALUE(device_orphaned, thing->device->device.orphaned_bytes)
VALUE(device_processes, thing->device->device.process_count)
VALUE(device_process, thing->user->bytes)
VALUE(kept_bytes, thing->kept->object.bytes)
VALUE(kept_parts, thing->kept->object.part_count)
VALUE(kept_openings, thing->kept->object.holder_count)
VALUE(kept_seconds, kept_age(&thing->kept->object))

static const struct metric metrics[] = {
	{"survey_complete", "", SURVEY, survey_complete, "1: all runtime directories could be read"},
	{"survey_other_users", "", SURVEY, survey_others, "Users with a runtime directory that was not looked into"},
	{"process_answers", "", PROCESS, process_answers,
	 "1: the process answers; 0: its numbers are those it wrote last"},
	{"process_written_age_seconds", "seconds", PROCESS, process_written,
	 "Time since the process wrote its numbers"},
	{"process_pools", "", PROCESS, process_pools, "Pools that the process has exported"},
	{"pool_used_bytes", "bytes", POOL, pool_used, "Bytes in blocks that are live, or still held"},
	{"pool_reserved_bytes", "bytes", POOL, pool_reserved, "Bytes that the pool has from the system"},
	{"pool_exported_bytes", "bytes", POOL, pool_exported, "Bytes in exported blocks"},
	{"pool_exported_blocks", "", POOL, pool_exported_blocks, "Exported blocks"},
	{"pool_deferred_bytes", "bytes", POOL, pool_deferred, "Bytes that were freed and are held by importers"},
	{"pool_deferred_blocks", "", POOL, pool_deferred_blocks, "Blocks that were freed and are held by importers"},
	{"pool_importers", "", POOL, pool_importers, "Processes that have imported the pool"},
	{"pool_limit_bytes", "bytes", POOL, pool_limit, "Bytes that an importer may hold; 0: any number"},
	{"pool_age_seconds", "seconds", POOL, pool_age, "Time since the pool was first exported"},
	{"handles_shared", "", HANDLES, handles_shared, "Allocations or events that have a handle and are live"},
	{"handles_shared_bytes", "bytes", HANDLES, handles_shared_bytes, "Bytes of these allocations"},
	{"handles_deferred", "", HANDLES, handles_deferred,
	 "Allocations or events that were freed and are open elsewhere"},
	{"handles_deferred_bytes", "bytes", HANDLES, handles_deferred_bytes, "Bytes of these allocations"},
	{"handles_openers", "", HANDLES, handles_openers, "Processes that have some open"},
	{"handles_age_seconds", "seconds", HANDLES, handles_age, "Time since the first handle was made"},
	{"holder_held_bytes", "bytes", HOLDER, holder_held, "Bytes that the holder has imported or opened"},
	{"holder_held_blocks", "", HOLDER, holder_held_blocks, "Blocks, allocations or events that it has"},
	{"holder_deferred_bytes", "bytes", HOLDER, holder_deferred, "Bytes of it that their owner has freed"},
	{"holder_deferred_blocks", "", HOLDER, holder_deferred_blocks, "How many of it their owner has freed"},
	{"holder_waiting_seconds", "seconds", HOLDER, holder_waiting, "Time since the oldest of these was freed"},
	{"holder_age_seconds", "seconds", HOLDER, holder_age, "Time since it has had something of it"},
	{"import_held_bytes", "bytes", IMPORT, import_held, "Bytes that a process has from another, by its own word"},
	{"import_held_blocks", "", IMPORT, import_held_blocks, "Blocks, allocations or events that it has"},
	{"import_orphaned", "", IMPORT, import_orphaned, "1: nothing more can be imported of it: its exporter is gone"},
	{"import_age_seconds", "seconds", IMPORT, import_age, "Time since it has had something of it"},
	{"private_bytes", "bytes", PRIVATE, private_bytes, "Memory that no other process has; on a GPU that of pools"},
	{"device_total_bytes", "bytes", DEVICE, device_total, "Memory that a host device has"},
	{"device_used_bytes", "bytes", DEVICE, device_used, "Memory of it that processes have, each byte once"},
	{"device_orphaned_bytes", "bytes", DEVICE, device_orphaned,
	 "Bytes of these whose maker is gone, or has given them up"},
	{"device_processes", "", DEVICE, device_processes, "Processes that have made some of it"},
	{"device_process_bytes", "bytes", USER, device_process, "Memory of it that a process has made"},
	{"kept_bytes", "bytes", KEPT, kept_bytes, "Bytes of an object that cenoted keeps"},
	{"kept_parts", "", KEPT, kept_parts, "Parts of the object"},
	{"kept_openings", "", KEPT, kept_openings, "How often processes have it open"},
	{"kept_age_seconds", "seconds", KEPT, kept_seconds, "Time since it was committed, or else created"},
};

/* ---- Samples ---- */

static void print_label(FILE *to, const char *name, const char *value, bool first)
{
	fprintf(to, "%s%s=\"", first ? "" : ",", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', to);
		fputc((unsigned char)*value < ' ' ? '?' : *value, to); /* a path may have any character */
	}
	fputc('"', to);
}

/* The labels of a process, each with something before its name. */
static void print_process(FILE *to, const char *before, int pid, unsigned int uid, const struct identity *identity)
{
	char name[32], text[CONTAINER_TEXT_CHARS], user[USER_CHARS];
	const struct {
		const char *name, *value;
	} labels[] = {
		{"user", user_text(uid, user)},
		{"program", identity->program},
		{"container", container_text(&identity->container, text)},
	};

	fprintf(to, ",%spid=\"%d\"", before, pid);
	for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
		snprintf(name, sizeof name, "%s%s", before, labels[i].name);
		print_label(to, name, labels[i].value, false);
	}
}

/* A pool, or what was given out by handles of a kind. */
static void print_what(FILE *to, int kind, unsigned long long pool)
{
	if (kind)
		fprintf(to, ",what=\"%s\"", kind == CENOTE_HANDLES_MEMORY ? "memory" : "events");
	else
		fprintf(to, ",what=\"pool\",pool=\"%016llx\"", pool);
}

/* Which thing it is. The first label is one that no other thing of its level has in a survey. */
static void print_labels(FILE *to, const struct thing *thing)
{
	if (thing->device) {
		fprintf(to, "device=\"%d\",total=\"%llu\"", thing->device->device.number,
			thing->device->device.total_bytes);
		print_label(to, "directory", thing->device->directory, false);
		if (thing->user)
			print_process(to, "", thing->user->pid, thing->user->uid, &thing->user->identity);
		return;
	}
	if (thing->memory) {
		fprintf(to, "device=\"%s\"", thing->memory->on_gpu ? "gpu" : "host");
		print_process(to, "", thing->memory->pid, thing->memory->uid, &thing->memory->identity);
		return;
	}
	if (thing->kept) {
		char user[USER_CHARS];
		print_label(to, "name", thing->kept->name, true);
		fprintf(to, ",generation=\"%llu\"", thing->kept->object.generation);
		print_label(to, "state", kept_state_text(thing->kept->object.state), false);
		print_label(to, "user", user_text(thing->kept->object.user, user), false);
		return;
	}
	print_label(to, "port", thing->sharer->name, true);
	print_process(to, "", thing->sharer->process.pid, thing->sharer->process.uid, &thing->sharer->identity);
	print_label(to, "label", thing->sharer->label, false);
	if (thing->pool)
		print_what(to, 0, thing->pool->pool.id);
	if (thing->handles)
		print_what(to, thing->handles->handles.kind, 0);
	if (thing->import) {
		fprintf(to, ",what=\"%s\"", import_text(thing->import));
		if (!thing->import->kind)
			fprintf(to, ",pool=\"%016llx\"", thing->import->pool);
		if (thing->import->node)
			fprintf(to, ",node=\"%u\"", thing->import->node);
	}
	if (thing->holder) {
		fprintf(to, ",holder=\"%llu\"", thing->holder->importer.id);
		print_process(to, "holder_", thing->holder->importer.pid, thing->holder->importer.uid,
			      &thing->holder->identity);
		if (thing->holder->importer.node)
			fprintf(to, ",holder_node=\"%d\"", thing->holder->importer.node);
	}
}

static void print_sample(const struct page *page, const struct metric *metric, const struct thing *thing)
{
	unsigned long long value = metric->value(thing);

	fprintf(page->to, "cenote_%s", metric->name);
	if (metric->level != SURVEY) {
		fputc('{', page->to);
		print_labels(page->to, thing);
		fputc('}', page->to);
	}
	if (strcmp(metric->unit, "seconds") == 0)
		fprintf(page->to, " %llu.%09llu\n", value / 1000000000, value % 1000000000);
	else
		fprintf(page->to, " %llu\n", value);
}

static void print_holders(const struct page *page, const struct metric *metric, struct thing thing,
			  const struct holder *holders, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		thing.holder = &holders[i];
		print_sample(page, metric, &thing);
	}
}

static void print_of_process(const struct page *page, const struct metric *metric, struct thing thing)
{
	const struct sharer *sharer = thing.sharer;

	if (metric->level == PROCESS)
		print_sample(page, metric, &thing);
	for (size_t i = 0; i < sharer->pool_count; i++) {
		thing.pool = &sharer->pools[i];
		if (metric->level == POOL)
			print_sample(page, metric, &thing);
		if (metric->level == HOLDER)
			print_holders(page, metric, thing, thing.pool->holders, thing.pool->holder_count);
	}
	thing.pool = NULL;
	for (size_t i = 0; i < sharer->by_handle_count; i++) {
		thing.handles = &sharer->by_handle[i];
		if (metric->level == HANDLES)
			print_sample(page, metric, &thing);
		if (metric->level == HOLDER)
			print_holders(page, metric, thing, thing.handles->holders, thing.handles->holder_count);
	}
	thing.handles = NULL;
	for (size_t i = 0; i < sharer->import_count && metric->level == IMPORT; i++) {
		thing.import = &sharer->imports[i];
		print_sample(page, metric, &thing);
	}
}

static void print_of_device(const struct page *page, const struct metric *metric, struct thing thing)
{
	if (metric->level == DEVICE)
		print_sample(page, metric, &thing);
	for (size_t i = 0; i < thing.device->user_count && metric->level == USER; i++) {
		thing.user = &thing.device->users[i];
		print_sample(page, metric, &thing);
	}
}

static void print_metric(const struct page *page, const struct metric *metric, const struct survey *survey)
{
	struct thing thing = {.survey = survey};

	fprintf(page->to, "# HELP cenote_%s %s.\n# TYPE cenote_%s gauge\n", metric->name, metric->help, metric->name);
	if (page->openmetrics && *metric->unit)
		fprintf(page->to, "# UNIT cenote_%s %s\n", metric->name, metric->unit);
	if (metric->level == SURVEY)
		print_sample(page, metric, &thing);
	for (size_t i = 0; i < survey->sharer_count; i++) {
		thing.sharer = &survey->sharers[i];
		print_of_process(page, metric, thing);
	}
	for (size_t i = 0; i < survey->importer_count; i++) {
		thing.sharer = &survey->importers[i];
		print_of_process(page, metric, thing);
	}
	thing.sharer = NULL;
	for (size_t i = 0; i < survey->private_count && metric->level == PRIVATE; i++) {
		thing.memory = &survey->privates[i];
		print_sample(page, metric, &thing);
	}
	thing.memory = NULL;
	for (size_t i = 0; i < survey->device_count; i++) {
		thing.device = &survey->devices[i];
		print_of_device(page, metric, thing);
	}
	thing.device = NULL;
	for (size_t i = 0; i < page->kept->count && metric->level == KEPT; i++) {
		thing.kept = &page->kept->objects[i];
		print_sample(page, metric, &thing);
	}
}

static void print_page(const struct page *page, const struct survey *survey)
{
	for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
		print_metric(page, &metrics[i], survey);
	if (page->openmetrics)
		fputs("# EOF\n", page->to);
}

/* ---- The command ---- */

static int complain(const char *path)
{
	fprintf(stderr, "cenote metrics: %s: %s\n", path, strerror(errno));
	return EXIT_FAILURE;
}

/* Write a file that readers see whole or not at all: another one, which then gets its name. */
static int write_file(const char *path, struct page *page, const struct survey *survey)
{
	char *other = NULL;

	if (asprintf(&other, "%s.XXXXXX", path) < 0)
		return complain(path);
	int fd = mkostemp(other, O_CLOEXEC), status = EXIT_SUCCESS;
	page->to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!page->to) {
		status = complain(other);
		if (fd >= 0)
			close(fd);
		free(other);
		return status;
	}
	print_page(page, survey);
	bool failed = ferror(page->to) || fchmod(fd, 0644);
	if (fclose(page->to) || failed || rename(other, path)) {
		status = complain(path);
		unlink(other);
	}
	free(other);
	return status;
}

static int run_metrics(int argument_count, char **arguments)
{
	struct kept_list kept;
	struct page page = {.to = stdout, .kept = &kept};
	const char *path = NULL;
	struct survey survey;
	int status = EXIT_SUCCESS;

	for (int i = 1; i < argument_count; i++) {
		bool output = !strcmp(arguments[i], "-o") || !strcmp(arguments[i], "--output");
		if (!strcmp(arguments[i], "--openmetrics"))
			page.openmetrics = true;
		else if (output && i + 1 == argument_count)
			return usage_error("metrics", "%s needs a file", arguments[i]);
		else if (output)
			path = arguments[++i];
		else
			return refuse_word("metrics", arguments[i]);
	}
	bool complete = survey_take_all("metrics", &survey);
	kept_take("", &kept); /* where there is no daemon, nothing is kept */
	if (path && strcmp(path, "-") != 0)
		status = write_file(path, &page, &survey);
	else
		print_page(&page, &survey);
	kept_free(&kept);
	survey_free(&survey);
	return complete ? status : EXIT_FAILURE;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary = "print what is shared as metrics, for Prometheus",
	.help = "Usage: cenote metrics [--openmetrics] [-o FILE]\n"
		"\n"
		"Prints what cenote ps shows as numbers with labels, in Prometheus' text format, version 0.0.4.\n"
		"docs/metrics.md lists the metrics. A file for the textfile collector of node_exporter is replaced at\n"
		"once, so that a reader sees the old one or the new one:\n"
		"\n"
		"  cenote metrics -o /var/lib/prometheus/node-exporter/cenote.prom\n"
		"\n"
		"Options:\n"
		"  -o, --output FILE  write a file; -: standard output\n"
		"  --openmetrics      print OpenMetrics 1.0\n"
		"\n"
		"Exit status: 1 if a runtime directory cannot be read, or the file cannot be written. What could be\n"
		"read is printed; cenote_survey_complete is then 0.\n",
	.run = run_metrics,
};
