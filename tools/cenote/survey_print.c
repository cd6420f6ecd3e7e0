/* SPDX-License-Identifier: MIT */
/*
 * Who shares what, as a table for people and as JSON for programs.
 *
 * A row is a pool of a process, or below it one who has imported it. Of a pool, SHARED is what is exported; of an
 * importer, what it holds. DEFERRED is what its owner has freed and cannot have back yet: of an importer, because of
 * it.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

/* ---- The table ---- */

static void print_head(FILE *to)
{
	fprintf(to, "%s%-9s %-8s %-15s %-8s %6s %8s %12s %12s %6s %6s%s\n", style(STYLE_DIM), "PID", "USER", "PROGRAM",
		"POOL", "USED", "RESERVED", "SHARED", "DEFERRED", "SINCE", "WAITED", style(STYLE_END));
}

/* A PID, or what is known instead. */
static void print_who(FILE *to, const char *indent, int pid, unsigned int uid, const char *program)
{
	char user[USER_CHARS], number[16] = "?";

	if (pid)
		snprintf(number, sizeof number, "%d", pid);
	fprintf(to, "%s%-*s %-8.8s %-15.15s", indent, 9 - (int)strlen(indent), number, user_text(uid, user),
		*program ? program : "?");
}

static void print_pool_row(FILE *to, const struct sharer *sharer, const cenote_shared_pool *pool)
{
	char id[AMOUNT_CHARS], used[AMOUNT_CHARS], reserved[AMOUNT_CHARS], exported[AMOUNT_CHARS];
	char deferred[AMOUNT_CHARS], age[AMOUNT_CHARS];

	fputs(style(STYLE_EXPORTER), to);
	print_who(to, "", sharer->process.pid, sharer->process.uid, sharer->program);
	fprintf(to, "%s %s%-8s%s %6s %8s %5llu %6s %s%5llu %6s%s %6s\n", style(STYLE_END), style(STYLE_BOLD),
		pool_text(pool->id, id), style(STYLE_END), amount_text(pool->used_bytes, used),
		amount_text(pool->reserved_bytes, reserved), pool->exported_block_count,
		amount_text(pool->exported_bytes, exported), pool->deferred_block_count ? style(STYLE_CAUTION) : "",
		pool->deferred_block_count, amount_text(pool->deferred_bytes, deferred),
		pool->deferred_block_count ? style(STYLE_END) : "", age_text(pool->age_ns, age));
}

static void print_holder_row(FILE *to, const struct holder *holder)
{
	const cenote_importer *importer = &holder->importer;
	char held[AMOUNT_CHARS], deferred[AMOUNT_CHARS], age[AMOUNT_CHARS];
	bool waits = importer->deferred_block_count != 0;

	fputs(style(STYLE_IMPORTER), to);
	print_who(to, "  ", importer->pid, importer->uid, holder->program);
	fprintf(to, "%s %-8s %6s %8s %5llu %6s %s%5llu %6s%s %6s", style(STYLE_END),
		importer->leaving ? "leaving" : "holds", "", "", importer->held_block_count,
		amount_text(importer->held_bytes, held), waits ? style(STYLE_CAUTION) : "",
		importer->deferred_block_count, amount_text(importer->deferred_bytes, deferred),
		waits ? style(STYLE_END) : "", age_text(age_of(importer->joined_ns), age));
	if (waits)
		fprintf(to, " %s%s%*s%s", style(STYLE_CAUTION), holder->at_least ? ">" : "", holder->at_least ? 5 : 6,
			age_text(age_of(importer->waiting_since_ns), age), style(STYLE_END));
	fputc('\n', to);
}

static void print_sharer(FILE *to, const struct sharer *sharer)
{
	for (size_t i = 0; i < sharer->pool_count; i++) {
		print_pool_row(to, sharer, &sharer->pools[i].pool);
		for (size_t j = 0; j < sharer->pools[i].holder_count; j++)
			print_holder_row(to, &sharer->pools[i].holders[j]);
	}
	if (sharer->pool_count)
		return;
	fputs(style(STYLE_EXPORTER), to);
	print_who(to, "", sharer->process.pid, sharer->process.uid, sharer->program);
	fprintf(to, "%s %s", style(STYLE_END), style(STYLE_DIM));
	if (!sharer->process.answers)
		fprintf(to, "does not answer: stopped, busy, or of another version");
	else if (sharer->process.opener_count)
		fprintf(to, "no pool; %llu %s opened events or memory of it", sharer->process.opener_count,
			sharer->process.opener_count == 1 ? "process has" : "processes have");
	else
		fprintf(to, "no pool");
	fprintf(to, "%s\n", style(STYLE_END));
}

static void print_sum(FILE *to, const struct survey *survey)
{
	unsigned long long pools = 0, reserved = 0, deferred = 0;
	char reserved_text[AMOUNT_CHARS], deferred_text[AMOUNT_CHARS];

	for (size_t i = 0; i < survey->sharer_count; i++) {
		for (size_t j = 0; j < survey->sharers[i].pool_count; j++) {
			pools++;
			reserved += survey->sharers[i].pools[j].pool.reserved_bytes;
			deferred += survey->sharers[i].pools[j].pool.deferred_bytes;
		}
	}
	if (!survey->sharer_count) {
		fputs("no process of this user shares anything\n", to);
		return;
	}
	fprintf(to, "%zu %s, %llu shared %s, %s reserved", survey->sharer_count,
		survey->sharer_count == 1 ? "process" : "processes", pools, pools == 1 ? "pool" : "pools",
		amount_text(reserved, reserved_text));
	if (deferred)
		fprintf(to, ", %s freed and held by importers", amount_text(deferred, deferred_text));
	fputc('\n', to);
}

void survey_print_table(FILE *to, const struct survey *survey)
{
	if (survey->sharer_count)
		print_head(to);
	for (size_t i = 0; i < survey->sharer_count; i++)
		print_sharer(to, &survey->sharers[i]);
	if (!*survey->error)
		print_sum(to, survey);
}

/* ---- JSON ---- */

static void print_holder_json(const struct holder *holder)
{
	const cenote_importer *importer = &holder->importer;

	printf("{\"id\": %llu, \"pid\": %d, \"uid\": %u, \"program\": ", importer->id, importer->pid, importer->uid);
	print_json_string(holder->program);
	printf(", \"leaving\": %s, \"held_blocks\": %llu, \"held_bytes\": %llu, \"deferred_blocks\": %llu, "
	       "\"deferred_bytes\": %llu, \"deferred_at_least\": %s, \"age_ns\": %llu, \"waiting_ns\": %llu}",
	       importer->leaving ? "true" : "false", importer->held_block_count, importer->held_bytes,
	       importer->deferred_block_count, importer->deferred_bytes, holder->at_least ? "true" : "false",
	       age_of(importer->joined_ns), importer->waiting_since_ns ? age_of(importer->waiting_since_ns) : 0);
}

static void print_pool_json(const struct sharer_pool *shared)
{
	const cenote_shared_pool *pool = &shared->pool;
	char place[32];

	place_text(pool, place, sizeof place);
	printf("\n        {\"id\": \"%016llx\", \"place\": \"%s\", \"used_bytes\": %llu, \"reserved_bytes\": %llu, "
	       "\"exported_blocks\": %llu, \"exported_bytes\": %llu, \"deferred_blocks\": %llu, "
	       "\"deferred_bytes\": %llu, \"limit_bytes\": %llu, \"age_ns\": %llu, \"importers\": [",
	       pool->id, place, pool->used_bytes, pool->reserved_bytes, pool->exported_block_count,
	       pool->exported_bytes, pool->deferred_block_count, pool->deferred_bytes, pool->limit_bytes, pool->age_ns);
	for (size_t i = 0; i < shared->holder_count; i++) {
		printf("%s\n          ", i ? "," : "");
		print_holder_json(&shared->holders[i]);
	}
	fputs("]}", stdout);
}

void survey_print_json(const struct survey *survey)
{
	fputs("{\n  \"processes\": [", stdout);
	for (size_t i = 0; i < survey->sharer_count; i++) {
		const struct sharer *sharer = &survey->sharers[i];
		printf("%s\n    {\"pid\": %d, \"pid_there\": %d, \"uid\": %u, \"program\": ", i ? "," : "",
		       sharer->process.pid, sharer->process.pid_there, sharer->process.uid);
		print_json_string(sharer->program);
		fputs(", \"directory\": ", stdout);
		print_json_string(sharer->directory);
		printf(", \"name\": \"%s\", \"answers\": %s, \"openers\": %llu,\n      \"pools\": [", sharer->name,
		       sharer->process.answers ? "true" : "false", sharer->process.opener_count);
		for (size_t j = 0; j < sharer->pool_count; j++) {
			if (j)
				putchar(',');
			print_pool_json(&sharer->pools[j]);
		}
		fputs("]}", stdout);
	}
	fputs("],\n  \"error\": ", stdout);
	if (*survey->error)
		print_json_string(survey->error);
	else
		fputs("null", stdout);
	puts("\n}");
}
