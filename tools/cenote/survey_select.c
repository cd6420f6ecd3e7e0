/* SPDX-License-Identifier: MIT */
/*
 * Parts of a survey: which processes are wanted, in which order, and whether a number is too large.
 *
 * A pool or what was given out by handles is kept if its owner is wanted, with all its holders; or if a holder is, with
 * those. Numbers of a condition are of what is kept.
 */
#include "survey.h"

#include <ctype.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which processes are wanted ---- */

bool selection_wants(const struct selection *selection, int pid, unsigned int uid, const struct identity *identity)
{
	return (!selection->pid || selection->pid == pid) && (!selection->has_user || selection->uid == uid) &&
	       (!selection->container || container_is(&identity->container, selection->container));
}

static bool wants_sharer(const struct selection *selection, const struct sharer *sharer)
{
	return selection_wants(selection, sharer->process.pid, sharer->process.uid, &sharer->identity);
}

/* Keep the wanted holders of something; all of them, if its owner is wanted. */
static void select_holders(const struct selection *selection, bool owner, struct holder *holders, size_t *count)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		const cenote_importer *importer = &holders[i].importer;
		if ((owner || selection_wants(selection, importer->pid, importer->uid, &holders[i].identity)) &&
		    (!selection->deferred || importer->deferred_block_count))
			holders[kept++] = holders[i];
	}
	*count = kept;
}

/* Whether something is kept for its owner or for a holder; frees its holders if not. */
static bool keeps(const struct selection *selection, bool owner, struct holder *holders, size_t *holder_count,
		  uint64_t deferred_count)
{
	select_holders(selection, owner, holders, holder_count);
	if ((owner || *holder_count) && (!selection->deferred || deferred_count))
		return true;
	free(holders);
	return false;
}

static void select_of(const struct selection *selection, struct sharer *sharer)
{
	bool owner = wants_sharer(selection, sharer);
	size_t kept = 0;

	for (size_t i = 0; i < sharer->pool_count; i++) {
		struct sharer_pool *pool = &sharer->pools[i];
		if (keeps(selection, owner, pool->holders, &pool->holder_count, pool->pool.deferred_block_count))
			sharer->pools[kept++] = *pool;
	}
	sharer->pool_count = kept;
	kept = 0;
	for (size_t i = 0; i < sharer->by_handle_count; i++) {
		struct sharer_handles *handles = &sharer->by_handle[i];
		if (keeps(selection, owner, handles->holders, &handles->holder_count, handles->handles.deferred_count))
			sharer->by_handle[kept++] = *handles;
	}
	sharer->by_handle_count = kept;
}

static void select_sharers(const struct selection *selection, struct survey *survey)
{
	size_t kept = 0;

	for (size_t i = 0; i < survey->sharer_count; i++) {
		struct sharer *sharer = &survey->sharers[i];
		select_of(selection, sharer);
		if (sharer->pool_count || sharer->by_handle_count ||
		    (!selection->deferred && wants_sharer(selection, sharer))) {
			survey->sharers[kept++] = *sharer;
			continue;
		}
		sharer_free(sharer);
	}
	survey->sharer_count = kept;
	kept = 0;
	for (size_t i = 0; i < survey->importer_count; i++) {
		struct sharer *importer = &survey->importers[i];
		if (!selection->deferred && wants_sharer(selection, importer))
			survey->importers[kept++] = *importer;
		else
			sharer_free(importer);
	}
	survey->importer_count = kept;
}

static void select_found(const struct selection *selection, struct survey *survey)
{
	size_t kept = 0;

	for (size_t i = 0; i < survey->physical_count; i++) {
		struct physical *physical = &survey->physicals[i];
		bool wanted = false;
		for (size_t j = 0; j < physical->holder_count && !selection->deferred; j++)
			wanted |= selection_wants(selection, physical->holders[j].pid, physical->holders[j].uid,
						  &physical->holders[j].identity);
		if (wanted) {
			survey->physicals[kept++] = *physical;
		} else {
			free(physical->holders);
			free(physical->nodes);
		}
	}
	survey->physical_count = kept;
	kept = 0;
	for (size_t i = 0; i < survey->private_count; i++) {
		const struct private_memory *memory = &survey->privates[i];
		if (!selection->deferred && selection_wants(selection, memory->pid, memory->uid, &memory->identity))
			survey->privates[kept++] = *memory;
	}
	survey->private_count = kept;
}

/* ---- Numbers of a process, and of all ---- */

struct numbers {
	unsigned long long processes, pools, used, reserved, shared, deferred, waited_ns, silent;
};

static void add_holders(struct numbers *numbers, const struct holder *holders, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned long long since_ns = holders[i].importer.waiting_since_ns;
		if (since_ns && age_of(since_ns) > numbers->waited_ns)
			numbers->waited_ns = age_of(since_ns);
	}
}

static void add_sharer(struct numbers *numbers, const struct sharer *sharer)
{
	numbers->processes++;
	numbers->silent += !sharer->process.answers;
	numbers->pools += sharer->pool_count;
	for (size_t i = 0; i < sharer->pool_count; i++) {
		const cenote_shared_pool *pool = &sharer->pools[i].pool;
		numbers->used += pool->used_bytes;
		numbers->reserved += pool->reserved_bytes;
		numbers->shared += pool->exported_bytes;
		numbers->deferred += pool->deferred_bytes;
		add_holders(numbers, sharer->pools[i].holders, sharer->pools[i].holder_count);
	}
	for (size_t i = 0; i < sharer->by_handle_count; i++) {
		const cenote_shared_handles *handles = &sharer->by_handle[i].handles;
		numbers->shared += handles->shared_bytes;
		numbers->deferred += handles->deferred_bytes;
		add_holders(numbers, sharer->by_handle[i].holders, sharer->by_handle[i].holder_count);
	}
}

static const struct {
	const char *name;
	size_t offset;
	enum unit { COUNT, BYTES, TIME } unit;
} names[] = {
	{"deferred", offsetof(struct numbers, deferred), BYTES},
	{"waited", offsetof(struct numbers, waited_ns), TIME},
	{"shared", offsetof(struct numbers, shared), BYTES},
	{"used", offsetof(struct numbers, used), BYTES},
	{"reserved", offsetof(struct numbers, reserved), BYTES},
	{"pools", offsetof(struct numbers, pools), COUNT},
	{"silent", offsetof(struct numbers, silent), COUNT},
	{"processes", offsetof(struct numbers, processes), COUNT},
};
enum { NAMES = sizeof names / sizeof names[0] };

static unsigned long long number_of(const struct numbers *numbers, int what)
{
	return *(const unsigned long long *)((const char *)numbers + names[what].offset);
}

/* -1: no number is called so. */
static int find_name(const char *name, size_t length)
{
	for (int i = 0; i < NAMES; i++)
		if (strlen(names[i].name) == length && !strncmp(names[i].name, name, length))
			return i;
	return -1;
}

/* ---- Order ---- */

static int sort_by;

static int compare_numbers(const void *left, const void *right)
{
	struct numbers one = {0}, other = {0};

	add_sharer(&one, left);
	add_sharer(&other, right);
	unsigned long long first = number_of(&one, sort_by), second = number_of(&other, sort_by);
	if (first != second)
		return first > second ? -1 : 1;
	return ((const struct sharer *)left)->process.pid - ((const struct sharer *)right)->process.pid;
}

void selection_apply(const struct selection *selection, struct survey *survey)
{
	select_sharers(selection, survey);
	select_found(selection, survey);
	sort_by = selection->sort ? find_name(selection->sort, strlen(selection->sort)) : -1;
	if (sort_by >= 0 && survey->sharer_count)
		qsort(survey->sharers, survey->sharer_count, sizeof *survey->sharers, compare_numbers);
}

/* ---- Conditions ---- */

static const char *const relations[] = {">=", "<=", "==", "!=", ">", "<"};
enum { RELATIONS = sizeof relations / sizeof relations[0] };

static bool compare(unsigned long long number, int relation, unsigned long long limit)
{
	switch (relation) {
	case 0: return number >= limit;
	case 1: return number <= limit;
	case 2: return number == limit;
	case 3: return number != limit;
	case 4: return number > limit;
	default: return number < limit;
	}
}

/* "512M", "1.5G", "90s", "2h", "3". */
static bool read_limit(const char *text, enum unit unit, unsigned long long *ret_limit)
{
	static const struct {
		enum unit unit;
		char letter;
		double factor;
	} letters[] = {
		{BYTES, 'K', 1024.0},          {BYTES, 'M', 1048576.0}, {BYTES, 'G', 1073741824.0},
		{BYTES, 'T', 1099511627776.0}, {TIME, 's', 1e9},        {TIME, 'm', 60e9},
		{TIME, 'h', 3600e9},           {TIME, 'd', 86400e9},
	};
	double factor = unit == TIME ? 1e9 : 1;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	double number = strtod(text, &end);
	for (size_t i = 0; *end && i < sizeof letters / sizeof letters[0]; i++)
		if (letters[i].unit == unit && letters[i].letter == *end && !end[1]) {
			factor = letters[i].factor;
			end++;
			break;
		}
	if (*end || !(number * factor < 1e19))
		return false;
	*ret_limit = (unsigned long long)(number * factor);
	return true;
}

static bool read_condition(const char *text, struct condition *ret_condition)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz");
	struct condition condition = {.what = find_name(text, length)};

	text += length;
	while (condition.relation < RELATIONS &&
	       strncmp(text, relations[condition.relation], strlen(relations[condition.relation])) != 0)
		condition.relation++;
	if (condition.what < 0 || condition.relation == RELATIONS)
		return false;
	text += strlen(relations[condition.relation]);
	if (!read_limit(text, names[condition.what].unit, &condition.limit))
		return false;
	*ret_condition = condition;
	return true;
}

static const char *number_text(unsigned long long number, enum unit unit, char ret_text[AMOUNT_CHARS])
{
	if (unit == BYTES)
		return amount_text(number, ret_text);
	if (unit == TIME)
		return age_text(number, ret_text);
	snprintf(ret_text, AMOUNT_CHARS, "%llu", number);
	return ret_text;
}

bool selection_holds(const struct selection *selection, const char *command, const struct survey *survey)
{
	const struct condition *condition = &selection->condition;
	char number[AMOUNT_CHARS], limit[AMOUNT_CHARS];
	struct numbers numbers = {0};

	if (!selection->has_condition)
		return false;
	for (size_t i = 0; i < survey->sharer_count; i++)
		add_sharer(&numbers, &survey->sharers[i]);
	for (size_t i = 0; i < survey->importer_count; i++)
		numbers.silent += !survey->importers[i].process.answers;
	unsigned long long found = number_of(&numbers, condition->what);
	if (!compare(found, condition->relation, condition->limit))
		return false;
	enum unit unit = names[condition->what].unit;
	fprintf(stderr, "cenote %s: %s is %s: %s %s\n", command, names[condition->what].name,
		number_text(found, unit, number), relations[condition->relation],
		number_text(condition->limit, unit, limit));
	return true;
}

/* ---- Options ---- */

static bool read_pid(const char *text, int *ret_pid)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || pid <= 0 || pid > INT_MAX)
		return false;
	*ret_pid = (int)pid;
	return true;
}

static bool read_user(const char *text, struct selection *selection)
{
	const struct passwd *user = getpwnam(text);
	char *end;
	unsigned long uid = strtoul(text, &end, 10);

	if (!user && (!isdigit((unsigned char)*text) || *end || uid >= UINT_MAX))
		return false;
	selection->has_user = true;
	selection->uid = user ? user->pw_uid : (unsigned int)uid;
	return true;
}

static bool read_value(struct selection *selection, const char *option, const char *value)
{
	if (!strcmp(option, "--pid"))
		return read_pid(value, &selection->pid);
	if (!strcmp(option, "--user"))
		return read_user(value, selection);
	if (!strcmp(option, "--container")) {
		selection->container = value;
		return *value;
	}
	if (!strcmp(option, "--sort")) {
		selection->sort = value;
		return !strcmp(value, "pid") || find_name(value, strlen(value)) >= 0;
	}
	selection->has_condition = true;
	return read_condition(value, &selection->condition);
}

int selection_read(struct selection *selection, const char *command, int argument_count, char **arguments, int *index)
{
	static const char *const with_value[] = {"--pid", "--user", "--container", "--sort", "--fail-if"};
	const char *option = arguments[*index];
	size_t i = 0;

	if (!strcmp(option, "--deferred")) {
		selection->deferred = true;
		return 1;
	}
	while (i < sizeof with_value / sizeof with_value[0] && strcmp(option, with_value[i]) != 0)
		i++;
	if (i == sizeof with_value / sizeof with_value[0])
		return 0;
	if (++*index == argument_count) {
		usage_error(command, "%s needs a value", option);
		return -1;
	}
	if (read_value(selection, option, arguments[*index]))
		return 1;
	usage_error(command, "invalid value '%s' of %s", arguments[*index], option);
	return -1;
}
