/* SPDX-License-Identifier: MIT */
/*
 * Asking which processes share what, and keeping the answers; see survey.h.
 */
#include "survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void *one_more(void *array, size_t count, size_t bytes)
{
	return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * bytes);
}

/* The first bytes of a file of /proc. */
static void read_text(int pid, const char *name, char *ret_text, size_t room)
{
	char path[64];

	*ret_text = '\0';
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	ret_text[fread(ret_text, 1, room - 1, file)] = '\0';
	fclose(file);
}

/* The PID in the innermost namespace, and the user that the process acts as. */
static void read_status(int pid, struct identity *identity)
{
	char text[4096];

	read_text(pid, "status", text, sizeof text);
	const char *uids = strstr(text, "\nUid:\t"), *pids = strstr(text, "\nNSpid:\t");
	identity->uid_known = uids && sscanf(uids, " Uid: %*u %u", &identity->uid) == 1;
	if (!pids)
		return;
	char *end = (char *)pids + strlen("\nNSpid:\t");
	do
		identity->pid_there = (int)strtol(end, &end, 10);
	while (*end == '\t');
}

void find_identity(int pid, struct identity *ret_identity)
{
	struct identity identity = {.pid_there = 0};

	if (pid > 0) {
		read_text(pid, "comm", identity.program, sizeof identity.program);
		identity.program[strcspn(identity.program, "\n")] = '\0';
		for (char *at = identity.program; *at; at++)
			if (*at < ' ' || *at > '~')
				*at = '?';
		read_status(pid, &identity);
		identity.container = container_of(pid);
	}
	*ret_identity = identity;
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
	find_identity(process->pid, &sharer->identity);
	if (*process->program)
		snprintf(sharer->identity.program, sizeof sharer->identity.program, "%s", process->program);
	snprintf(sharer->name, sizeof sharer->name, "%s", process->name);
	snprintf(sharer->label, sizeof sharer->label, "%s", process->label);
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
		.importer = *found->importer, .at_least = found->at_least, .ledger_inode = found->ledger_inode};
	find_identity(holder->importer.pid, &holder->identity);
	if (found->pid_there)
		holder->identity.pid_there = found->pid_there;
	if (holder->identity.uid_known) /* else it is as the exporter sees it, which may be in a user namespace */
		holder->importer.uid = holder->identity.uid;
	return true;
}

static bool is_same_import(const cenote_import *one, const cenote_import *other)
{
	return one->kind == other->kind && one->pool == other->pool && one->node == other->node;
}

/* A pool may have been imported several times. */
static bool add_import(struct sharer *sharer, const cenote_import *import)
{
	size_t i = 0;

	while (i < sharer->import_count && !is_same_import(&sharer->imports[i], import))
		i++;
	if (i < sharer->import_count) {
		cenote_import *same = &sharer->imports[i];
		same->held_count += import->held_count;
		same->held_bytes += import->held_bytes;
		same->orphaned &= import->orphaned;
		same->age_ns = import->age_ns > same->age_ns ? import->age_ns : same->age_ns;
		return true;
	}
	cenote_import *imports = one_more(sharer->imports, sharer->import_count, sizeof *imports);
	if (!imports)
		return false;
	sharer->imports = imports;
	imports[sharer->import_count++] = *import;
	return true;
}

/* What a process has; the process itself has been kept. */
static bool keep_of(struct sharer *sharer, const cenote_shared *found)
{
	if (found->import)
		return add_import(sharer, found->import);
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
	if (!found->pool && !found->handles && !found->import)
		kept = add_sharer(survey, found->process);
	else
		kept = keep_of(&survey->sharers[survey->sharer_count - 1], found);
	survey->no_memory = !kept;
}

/* ---- Other users ---- */

/* Another user's number, at the end of a name; 0: it is none. */
static unsigned int other_user(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);
	char *end;

	if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9')
		return 0;
	unsigned long user = strtoul(name + length, &end, 10);
	return *end || user == geteuid() ? 0 : (unsigned int)user;
}

static unsigned int count_users(const char *folder, const char *prefix)
{
	DIR *entries = opendir(folder);
	unsigned int count = 0;

	for (const struct dirent *entry; entries && (entry = readdir(entries));) {
		unsigned int user = other_user(entry->d_name, prefix);
		struct stat status;
		count += user && !fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
			 S_ISDIR(status.st_mode) && status.st_uid == user;
	}
	if (entries)
		closedir(entries);
	return count;
}

/* Those whose processes are not asked: root asks all, and a directory that was named is the only one. */
static unsigned int count_other_users(void)
{
	const char *named = getenv("CENOTE_RUNTIME_DIR");

	if (geteuid() == 0 || (named && *named))
		return 0;
	return count_users("/run/user", "") + count_users("/tmp", "cenote-");
}

/* ---- All processes ---- */

static int compare_sharers(const void *left, const void *right)
{
	const struct sharer *one = left, *other = right;

	if (one->process.pid != other->process.pid)
		return one->process.pid < other->process.pid ? -1 : 1;
	return strcmp(one->name, other->name);
}

static int compare_holders(const void *left, const void *right)
{
	const struct holder *one = left, *other = right;

	return one->importer.id < other->importer.id ? -1 : one->importer.id > other->importer.id;
}

static void sort_holders(struct holder *holders, size_t count)
{
	if (count)
		qsort(holders, count, sizeof *holders, compare_holders);
}

/* Processes in the order of their PIDs, and the holders of something in the order in which they came. */
static void sort(struct survey *survey)
{
	if (survey->sharer_count)
		qsort(survey->sharers, survey->sharer_count, sizeof *survey->sharers, compare_sharers);
	for (size_t i = 0; i < survey->sharer_count; i++) {
		const struct sharer *sharer = &survey->sharers[i];
		for (size_t j = 0; j < sharer->pool_count; j++)
			sort_holders(sharer->pools[j].holders, sharer->pools[j].holder_count);
		for (size_t j = 0; j < sharer->by_handle_count; j++)
			sort_holders(sharer->by_handle[j].holders, sharer->by_handle[j].holder_count);
	}
}

/* Put those that only have something from others apart. */
static void part_importers(struct survey *survey)
{
	size_t kept = 0;

	for (size_t i = 0; i < survey->sharer_count; i++) {
		struct sharer *sharer = &survey->sharers[i];
		bool shares = sharer->pool_count || sharer->by_handle_count || !sharer->import_count;
		struct sharer *importers =
			shares ? NULL : one_more(survey->importers, survey->importer_count, sizeof *importers);
		if (importers) {
			survey->importers = importers;
			importers[survey->importer_count++] = *sharer;
		} else { /* or there is no memory */
			survey->sharers[kept++] = *sharer;
		}
	}
	survey->sharer_count = kept;
}

bool survey_take(const char *command, struct survey *ret_survey)
{
	struct survey survey = {0};

	survey.result = cenote_survey(0, keep, &survey);
	survey.other_users = count_other_users();
	if (survey.result || survey.no_memory)
		snprintf(survey.error, sizeof survey.error, "%s",
			 survey.result ? cenote_last_error() : "no memory for all that is shared");
	if (*survey.error && command)
		fprintf(stderr, "cenote %s: %s\n", command, survey.error);
	sort(&survey);
	part_importers(&survey);
	*ret_survey = survey;
	return !*survey.error;
}

bool survey_take_all(const char *command, struct survey *ret_survey)
{
	bool complete = survey_take(command, ret_survey);

	survey_find_physical(ret_survey);
	survey_find_memory(ret_survey);
	return complete;
}

struct private_memory *survey_private(struct survey *survey, int pid, unsigned int uid, bool on_gpu)
{
	for (size_t i = 0; i < survey->private_count; i++)
		if (survey->privates[i].pid == pid && survey->privates[i].on_gpu == on_gpu)
			return &survey->privates[i];
	struct private_memory *privates = one_more(survey->privates, survey->private_count, sizeof *privates);
	if (!privates)
		return NULL;
	survey->privates = privates;
	struct private_memory *memory = &privates[survey->private_count++];
	*memory = (struct private_memory){.pid = pid, .on_gpu = on_gpu};
	find_identity(pid, &memory->identity);
	memory->uid = memory->identity.uid_known ? memory->identity.uid : uid;
	return memory;
}

static void visit_holders(const struct holder *holders, size_t count,
			  void (*visit)(const struct identity *identity, void *data), void *data)
{
	for (size_t i = 0; i < count; i++)
		visit(&holders[i].identity, data);
}

void survey_visit(const struct survey *survey, void (*visit)(const struct identity *identity, void *data), void *data)
{
	for (size_t i = 0; i < survey->sharer_count; i++) {
		const struct sharer *sharer = &survey->sharers[i];
		visit(&sharer->identity, data);
		for (size_t j = 0; j < sharer->pool_count; j++)
			visit_holders(sharer->pools[j].holders, sharer->pools[j].holder_count, visit, data);
		for (size_t j = 0; j < sharer->by_handle_count; j++)
			visit_holders(sharer->by_handle[j].holders, sharer->by_handle[j].holder_count, visit, data);
	}
	for (size_t i = 0; i < survey->importer_count; i++)
		visit(&survey->importers[i].identity, data);
	for (size_t i = 0; i < survey->physical_count; i++)
		for (size_t j = 0; j < survey->physicals[i].holder_count; j++)
			visit(&survey->physicals[i].holders[j].identity, data);
	for (size_t i = 0; i < survey->private_count; i++)
		visit(&survey->privates[i].identity, data);
}

static bool has_pid(const struct holder *holders, size_t count, int pid)
{
	size_t i = 0;

	while (i < count && holders[i].importer.pid != pid)
		i++;
	return i < count;
}

bool survey_has_holder(const struct survey *survey, int pid)
{
	bool found = false;

	for (size_t i = 0; i < survey->sharer_count && pid && !found; i++) {
		const struct sharer *sharer = &survey->sharers[i];
		for (size_t j = 0; j < sharer->pool_count; j++)
			found |= has_pid(sharer->pools[j].holders, sharer->pools[j].holder_count, pid);
		for (size_t j = 0; j < sharer->by_handle_count; j++)
			found |= has_pid(sharer->by_handle[j].holders, sharer->by_handle[j].holder_count, pid);
	}
	return found;
}

void sharer_free(struct sharer *sharer)
{
	for (size_t i = 0; i < sharer->pool_count; i++)
		free(sharer->pools[i].holders);
	for (size_t i = 0; i < sharer->by_handle_count; i++)
		free(sharer->by_handle[i].holders);
	free(sharer->pools);
	free(sharer->imports);
	free(sharer->directory);
}

void survey_free(struct survey *survey)
{
	for (size_t i = 0; i < survey->physical_count; i++) {
		free(survey->physicals[i].holders);
		free(survey->physicals[i].nodes);
	}
	free(survey->physicals);
	free(survey->privates);
	for (size_t i = 0; i < survey->device_count; i++) {
		free(survey->devices[i].directory);
		free(survey->devices[i].users);
	}
	free(survey->devices);
	for (size_t i = 0; i < survey->sharer_count; i++)
		sharer_free(&survey->sharers[i]);
	for (size_t i = 0; i < survey->importer_count; i++)
		sharer_free(&survey->importers[i]);
	free(survey->sharers);
	free(survey->importers);
	*survey = (struct survey){0};
}

/* ---- Words ---- */

const char *import_text(const cenote_import *import)
{
	switch (import->kind) {
	case 0: return "pool";
	case CENOTE_HANDLES_EVENTS: return "events";
	case CENOTE_HANDLES_PHYSICAL: return "physical";
	default: return "memory";
	}
}

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
