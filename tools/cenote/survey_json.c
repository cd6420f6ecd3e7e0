/* SPDX-License-Identifier: MIT */
/*
 * Which processes share what, as JSON for programs.
 */
#include "kept.h"

#include <string.h>

/* What the system says of a process; all of it is known only of processes that can be seen. */
static void print_identity_json(const struct identity *identity)
{
	const struct container *container = &identity->container;
	char text[CONTAINER_TEXT_CHARS];

	fputs("\"program\": ", stdout);
	print_json_string(identity->program);
	fputs(", \"container\": ", stdout);
	if (!*container->kind) {
		fputs("null", stdout);
		return;
	}
	fputs("{\"text\": ", stdout);
	print_json_string(container_text(container, text));
	fputs(", \"kind\": ", stdout);
	print_json_string(container->kind);
	fputs(", \"name\": ", stdout);
	print_json_string(container->name);
	fputs(", \"pod\": ", stdout);
	if (*container->pod)
		print_json_string(container->pod);
	else
		fputs("null", stdout);
	putchar('}');
}

/* A machine of the domain; null: this one. */
static void print_node_json(unsigned node)
{
	if (node)
		printf(", \"node\": %u", node);
	else
		fputs(", \"node\": null", stdout);
}

static void print_holder_json(const struct holder *holder)
{
	const cenote_importer *importer = &holder->importer;

	printf("{\"id\": %llu, \"pid\": %d, \"pid_there\": %d, \"uid\": %u, ", importer->id, importer->pid,
	       holder->identity.pid_there, importer->uid);
	print_identity_json(&holder->identity);
	print_node_json((unsigned)importer->node);
	printf(", \"leaving\": %s, \"held_blocks\": %llu, \"held_bytes\": %llu, \"deferred_blocks\": %llu, "
	       "\"deferred_bytes\": %llu, \"deferred_at_least\": %s, \"age_ns\": %llu, \"waiting_ns\": %llu}",
	       importer->leaving ? "true" : "false", importer->held_block_count, importer->held_bytes,
	       importer->deferred_block_count, importer->deferred_bytes, holder->at_least ? "true" : "false",
	       age_of(importer->joined_ns), importer->waiting_since_ns ? age_of(importer->waiting_since_ns) : 0);
}

/* The list of the holders. */
static void print_holders_json(const char *name, const struct holder *holders, size_t count)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < count; i++) {
		printf("%s\n          ", i ? "," : "");
		print_holder_json(&holders[i]);
	}
	fputs("]}", stdout);
}

static void print_pool_json(const struct sharer_pool *shared)
{
	const cenote_shared_pool *pool = &shared->pool;
	char place[32];

	place_text(pool, place, sizeof place);
	printf("\n        {\"id\": \"%016llx\", \"place\": \"%s\", \"used_bytes\": %llu, \"reserved_bytes\": %llu, "
	       "\"exported_blocks\": %llu, \"exported_bytes\": %llu, \"deferred_blocks\": %llu, "
	       "\"deferred_bytes\": %llu, \"limit_bytes\": %llu, \"age_ns\": %llu, ",
	       pool->id, place, pool->used_bytes, pool->reserved_bytes, pool->exported_block_count,
	       pool->exported_bytes, pool->deferred_block_count, pool->deferred_bytes, pool->limit_bytes, pool->age_ns);
	print_holders_json("importers", shared->holders, shared->holder_count);
}

/* What was given out by handles of a kind; null: nothing. */
static void print_handles_json(const struct sharer *sharer, int kind, const char *name)
{
	const struct sharer_handles *shared = NULL;

	for (size_t i = 0; i < sharer->by_handle_count; i++)
		if (sharer->by_handle[i].handles.kind == kind)
			shared = &sharer->by_handle[i];
	if (!shared) {
		printf(",\n      \"%s\": null", name);
		return;
	}
	const cenote_shared_handles *handles = &shared->handles;
	printf(",\n      \"%s\": {\"shared\": %llu, \"shared_bytes\": %llu, \"deferred\": %llu, "
	       "\"deferred_bytes\": %llu, \"age_ns\": %llu, ",
	       name, handles->shared_count, handles->shared_bytes, handles->deferred_count, handles->deferred_bytes,
	       handles->age_ns);
	print_holders_json("openers", shared->holders, shared->holder_count);
}

static void print_physical_json(const struct survey *survey, const struct physical *physical)
{
	printf("\n    {\"uid\": %u, \"allocations\": %zu, \"bytes\": %llu, \"processes\": [", physical->uid,
	       physical->count, physical->bytes);
	for (size_t i = 0; i < physical->holder_count; i++) {
		const struct physical_holder *holder = &physical->holders[i];
		printf("%s\n      {\"pid\": %d, \"uid\": %u, ", i ? "," : "", holder->pid, holder->uid);
		print_identity_json(&holder->identity);
		printf(", \"mapped\": %s}", holder->mapped ? "true" : "false");
	}
	fputs("], \"nodes\": ", stdout);
	if (!survey->nodes_known) {
		fputs("null}", stdout);
		return;
	}
	putchar('[');
	for (size_t i = 0; i < physical->node_count; i++)
		printf("%s{\"node\": %u, \"imports\": %zu}", i ? ", " : "", physical->nodes[i].node,
		       physical->nodes[i].import_count);
	fputs("]}", stdout);
}

static void print_physicals_json(const struct survey *survey)
{
	fputs(",\n  \"physical\": ", stdout);
	if (!survey->physical_known) {
		fputs("null", stdout);
		return;
	}
	putchar('[');
	for (size_t i = 0; i < survey->physical_count; i++) {
		if (i)
			putchar(',');
		print_physical_json(survey, &survey->physicals[i]);
	}
	putchar(']');
}

static void print_privates_json(const struct survey *survey)
{
	fputs(",\n  \"private\": ", stdout);
	if (!survey->physical_known) {
		fputs("null", stdout);
		return;
	}
	putchar('[');
	for (size_t i = 0; i < survey->private_count; i++) {
		const struct private_memory *memory = &survey->privates[i];
		printf("%s\n    {\"pid\": %d, \"pid_there\": %d, \"uid\": %u, ", i ? "," : "", memory->pid,
		       memory->identity.pid_there, memory->uid);
		print_identity_json(&memory->identity);
		printf(", \"device\": \"%s\", \"files\": %zu, \"bytes\": %llu}", memory->on_gpu ? "gpu" : "host",
		       memory->count, memory->bytes);
	}
	putchar(']');
}

/* What it has from others. */
static void print_imports_json(const struct sharer *sharer)
{
	fputs(",\n      \"imports\": [", stdout);
	for (size_t i = 0; i < sharer->import_count; i++) {
		const cenote_import *import = &sharer->imports[i];
		printf("%s\n        {\"what\": \"%s\", \"pool\": ", i ? "," : "", import_text(import));
		if (import->kind)
			fputs("null", stdout);
		else
			printf("\"%016llx\"", import->pool);
		print_node_json(import->node);
		printf(", \"orphaned\": %s, \"held\": %llu, \"held_bytes\": %llu, \"age_ns\": %llu}",
		       import->orphaned ? "true" : "false", import->held_count, import->held_bytes, import->age_ns);
	}
	putchar(']');
}

/* Which process it is, and whether it answers. */
static void print_process_json(const struct sharer *sharer)
{
	printf("\n    {\"pid\": %d, \"pid_there\": %d, \"uid\": %u, ", sharer->process.pid, sharer->process.pid_there,
	       sharer->process.uid);
	print_identity_json(&sharer->identity);
	fputs(", \"label\": ", stdout);
	print_json_string(sharer->label);
	fputs(", \"directory\": ", stdout);
	print_json_string(sharer->directory);
	printf(", \"name\": \"%s\", \"answers\": %s, \"written_age_ns\": ", sharer->name,
	       sharer->process.answers ? "true" : "false");
	if (sharer->process.written_ns)
		printf("%llu", age_of(sharer->process.written_ns));
	else
		fputs("null", stdout);
}

static void print_sharer_json(const struct sharer *sharer)
{
	print_process_json(sharer);
	printf(", \"truncated\": %s, \"on_gpu\": %s, \"openers\": %llu,\n      \"pools\": [",
	       sharer->process.truncated ? "true" : "false", sharer->process.on_gpu ? "true" : "false",
	       sharer->process.opener_count);
	for (size_t i = 0; i < sharer->pool_count; i++) {
		if (i)
			putchar(',');
		print_pool_json(&sharer->pools[i]);
	}
	putchar(']');
	print_handles_json(sharer, CENOTE_HANDLES_MEMORY, "memory");
	print_handles_json(sharer, CENOTE_HANDLES_EVENTS, "events");
	print_imports_json(sharer);
	putchar('}');
}

/* A process that shares nothing, and has something from others. */
static void print_importer_json(const struct sharer *importer)
{
	print_process_json(importer);
	print_imports_json(importer);
	putchar('}');
}

void survey_print_json(const struct survey *survey, const struct kept_list *kept)
{
	fputs("{\n  \"processes\": [", stdout);
	for (size_t i = 0; i < survey->sharer_count; i++) {
		if (i)
			putchar(',');
		print_sharer_json(&survey->sharers[i]);
	}
	fputs("],\n  \"importers\": [", stdout);
	for (size_t i = 0; i < survey->importer_count; i++) {
		if (i)
			putchar(',');
		print_importer_json(&survey->importers[i]);
	}
	putchar(']');
	print_physicals_json(survey);
	print_privates_json(survey);
	fputs(",\n  \"kept\": ", stdout);
	kept_print_json_objects(kept);
	printf(",\n  \"other_users\": %u", survey->other_users);
	fputs(",\n  \"error\": ", stdout);
	if (*survey->error)
		print_json_string(survey->error);
	else
		fputs("null", stdout);
	puts("\n}");
}
