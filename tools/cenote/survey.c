/* SPDX-License-Identifier: MIT */
/*
 * Asking which processes share what, and keeping the answers; see survey.h.
 */
#include "survey.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *one_more(void *array, size_t count, size_t bytes)
{
	return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * bytes);
}

void find_program(int pid, char ret_program[PROGRAM_CHARS])
{
	char path[64];

	*ret_program = '\0';
	if (pid <= 0)
		return;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(ret_program, PROGRAM_CHARS, file))
		*ret_program = '\0';
	fclose(file);
	ret_program[strcspn(ret_program, "\n")] = '\0';
	for (char *at = ret_program; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

static bool add_sharer(struct survey *survey, const cenote_process *process)
{
	struct sharer *sharers = one_more(survey->sharers, survey->sharer_count, sizeof *sharers);

	if (!sharers)
		return false;
	survey->sharers = sharers;
	struct sharer *sharer = &sharers[survey->sharer_count];
	*sharer = (struct sharer){.process = *process, .directory = strdup(process->directory)};
	if (!sharer->directory)
		return false;
	snprintf(sharer->program, sizeof sharer->program, "%s", process->program);
	snprintf(sharer->name, sizeof sharer->name, "%s", process->name);
	snprintf(sharer->label, sizeof sharer->label, "%s", process->label);
	if (!*sharer->program)
		find_program(process->pid, sharer->program);
	survey->sharer_count++;
	return true;
}

static bool add_pool(struct sharer *sharer, const cenote_shared_pool *pool)
{
	struct sharer_pool *pools = one_more(sharer->pools, sharer->pool_count, sizeof *pools);

	if (!pools)
		return false;
	sharer->pools = pools;
	pools[sharer->pool_count++] = (struct sharer_pool){.pool = *pool};
	return true;
}

static bool add_handles(struct sharer *sharer, const cenote_shared_handles *handles)
{
	if (sharer->by_handle_count == HANDLE_KINDS)
		return false;
	sharer->by_handle[sharer->by_handle_count++] = (struct sharer_handles){.handles = *handles};
	return true;
}

static bool add_holder(struct holder **list, size_t *count, const cenote_shared *found)
{
	struct holder *holders = one_more(*list, *count, sizeof *holders);

	if (!holders)
		return false;
	*list = holders;
	struct holder *holder = &holders[(*count)++];
	*holder = (struct holder){
		.importer = *found->importer, .at_least = found->at_least, .pid_there = found->pid_there};
	find_program(holder->importer.pid, holder->program);
	return true;
}

/* What a process has; the process itself has been kept. */
static bool keep_of(struct sharer *sharer, const cenote_shared *found)
{
	if (!found->importer)
		return found->pool ? add_pool(sharer, found->pool) : add_handles(sharer, found->handles);
	if (found->pool) {
		struct sharer_pool *pool = &sharer->pools[sharer->pool_count - 1];
		return add_holder(&pool->holders, &pool->holder_count, found);
	}
	struct sharer_handles *handles = &sharer->by_handle[sharer->by_handle_count - 1];
	return add_holder(&handles->holders, &handles->holder_count, found);
}

static void keep(const cenote_shared *found, void *data)
{
	struct survey *survey = data;
	bool kept;

	if (survey->no_memory)
		return;
	if (!found->pool && !found->handles)
		kept = add_sharer(survey, found->process);
	else
		kept = keep_of(&survey->sharers[survey->sharer_count - 1], found);
	survey->no_memory = !kept;
}

static int compare_sharers(const void *left, const void *right)
{
	const struct sharer *one = left, *other = right;

	if (one->process.pid != other->process.pid)
		return one->process.pid < other->process.pid ? -1 : 1;
	return strcmp(one->name, other->name);
}

bool survey_take(const char *command, struct survey *ret_survey)
{
	struct survey survey = {0};

	survey.result = cenote_survey(0, keep, &survey);
	if (survey.result || survey.no_memory)
		snprintf(survey.error, sizeof survey.error, "%s",
			 survey.result ? cenote_last_error() : "no memory for all that is shared");
	if (*survey.error && command)
		fprintf(stderr, "cenote %s: %s\n", command, survey.error);
	if (survey.sharer_count)
		qsort(survey.sharers, survey.sharer_count, sizeof *survey.sharers, compare_sharers);
	*ret_survey = survey;
	return !*survey.error;
}

bool survey_take_all(const char *command, struct survey *ret_survey)
{
	bool complete = survey_take(command, ret_survey);

	survey_find_physical(ret_survey);
	return complete;
}

void survey_free(struct survey *survey)
{
	for (size_t i = 0; i < survey->physical_count; i++)
		free(survey->physicals[i].holders);
	free(survey->physicals);
	for (size_t i = 0; i < survey->sharer_count; i++) {
		for (size_t j = 0; j < survey->sharers[i].pool_count; j++)
			free(survey->sharers[i].pools[j].holders);
		for (size_t j = 0; j < survey->sharers[i].by_handle_count; j++)
			free(survey->sharers[i].by_handle[j].holders);
		free(survey->sharers[i].pools);
		free(survey->sharers[i].directory);
	}
	free(survey->sharers);
	*survey = (struct survey){0};
}

/* ---- Words ---- */

const char *amount_text(unsigned long long bytes, char ret_text[AMOUNT_CHARS])
{
	static const char units[] = "BKMGTPE";
	double amount = (double)bytes;
	int unit = 0;

	while (amount >= 1023.5 && units[unit + 1]) {
		amount /= 1024;
		unit++;
	}
	if (!bytes)
		snprintf(ret_text, AMOUNT_CHARS, "0");
	else
		snprintf(ret_text, AMOUNT_CHARS, "%.*f%c", unit && amount < 9.95 ? 1 : 0, amount, units[unit]);
	return ret_text;
}

const char *age_text(unsigned long long age_ns, char ret_text[AMOUNT_CHARS])
{
	unsigned long long seconds = age_ns / 1000000000;

	if (seconds < 120)
		snprintf(ret_text, AMOUNT_CHARS, "%llus", seconds);
	else if (seconds < 120 * 60)
		snprintf(ret_text, AMOUNT_CHARS, "%llum", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(ret_text, AMOUNT_CHARS, "%lluh", seconds / 3600);
	else
		snprintf(ret_text, AMOUNT_CHARS, "%llud", seconds / 86400);
	return ret_text;
}

unsigned long long age_of(unsigned long long time_ns)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	unsigned long long now_ns = (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
	return time_ns < now_ns ? now_ns - time_ns : 0;
}

const char *pool_text(unsigned long long id, char ret_text[AMOUNT_CHARS])
{
	snprintf(ret_text, AMOUNT_CHARS, "%08llx", id >> 32);
	return ret_text;
}

const char *user_text(unsigned int uid, char ret_text[USER_CHARS])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(ret_text, USER_CHARS, "%s", user->pw_name);
	else
		snprintf(ret_text, USER_CHARS, "%u", uid);
	return ret_text;
}

void place_text(const cenote_shared_pool *pool, char *ret_text, size_t room)
{
	const char *kind = "place";

	if (pool->location_type == CU_MEM_LOCATION_TYPE_DEVICE)
		kind = "device";
	else if (pool->location_type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		kind = "NUMA node";
	snprintf(ret_text, room, "%s %d", kind, pool->location_id);
}
