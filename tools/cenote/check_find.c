/* SPDX-License-Identifier: MIT */
/*
 * cenote check: findings, each told once.
 *
 * Two findings are the same if they are of a kind and come from the same places of the program, in whichever of its
 * processes. Of two uses without an order it is looked whether a wait was tried that could not help.
 */
#include "check.h"

const char *const check_kind_names[CHECK_KINDS] = {
	[CHECK_KIND_RACE] = "race",
	[CHECK_KIND_BEFORE_ALLOCATED] = "use-before-allocation",
	[CHECK_KIND_AFTER_FREE] = "use-after-free",
	[CHECK_KIND_AFTER_EXPORTER] = "use-after-exporters-free",
	[CHECK_KIND_FREE_UNORDERED] = "free-without-order",
	[CHECK_KIND_EVENT_GONE] = "event-gone",
	[CHECK_KIND_EVENT_AGAIN] = "event-recorded-again",
	[CHECK_KIND_EVENT_EARLY] = "event-not-recorded",
	[CHECK_KIND_FREE_BEFORE_CLOSE] = "free-before-close",
	[CHECK_KIND_FREED_TWICE] = "freed-twice",
	[CHECK_KIND_NOT_CLOSED] = "import-not-closed",
	[CHECK_KIND_LEAKED] = "leak",
	[CHECK_KIND_HOLDER_DIED] = "holder-died",
	[CHECK_KIND_CYCLE] = "cycle",
	[CHECK_KIND_HANG] = "hang",
	[CHECK_KIND_AFTER_FORK] = "use-after-fork",
	[CHECK_KIND_CLOSED_IN_USE] = "closed-in-use",
	[CHECK_KIND_EVENT_DESTROYED] = "event-destroyed",
};

/* A number for a place of the program, the same in all processes. */
static uint64_t place_of(const struct check *check, const struct check_site *site)
{
	if (site->call == CN_CALL_COUNT)
		return 1;
	const struct check_stack *stack = check_table_get(&check->processes[site->process]->stacks, site->stack, 0);
	return (stack ? stack->digest : 0) * 31 + site->call + 2;
}

/* ---- Waits that could not help ----------------------------------------------------------------------------------- */

/* Was there a record of the event that the wait should have taken? Then a later one stood in its place. */
static const struct check_record *meant(const struct check_wait *wait, struct check_epoch epoch)
{
	bool later = true;

	for (int i = 0; i < wait->event->record_count; i++) {
		const struct check_record *record = wait->event->records[i];
		if (record == wait->record)
			later = false;
		else if (!later && record->is_done && check_clock_has(&record->clock, epoch))
			return record;
	}
	return NULL;
}

/* Has a process that uses the memory first anything to do with the event? */
static bool concerns(const struct check_event *event, int process)
{
	if (event->process == process)
		return true;
	for (int i = 0; i < event->record_count; i++)
		if (event->records[i]->site.process == process)
			return true;
	return false;
}

static void explain(const struct check *check, struct check_finding *finding, struct check_epoch epoch)
{
	const struct check_stream *stream = finding->second.stream >= 0 ? check->streams[finding->second.stream] : NULL;

	for (int i = 0; stream && stream->waits && i < stream->wait_count && i < CHECK_WAITS_KEPT; i++) {
		const struct check_wait *wait = &stream->waits[(stream->wait_count - 1 - i) % CHECK_WAITS_KEPT];
		if (wait->record && meant(wait, epoch)) {
			finding->kind = CHECK_KIND_EVENT_AGAIN;
			finding->third = &wait->record->site;
			finding->event = wait->event;
			return;
		}
		if (!wait->record && wait->event->is_shared && concerns(wait->event, finding->first.process)) {
			finding->kind = CHECK_KIND_EVENT_EARLY;
			finding->third = &wait->site;
			finding->event = wait->event;
			return;
		}
	}
}

/* ---- Told once --------------------------------------------------------------------------------------------------- */

void check_found(struct check *check, const struct check_finding *finding)
{
	struct check_finding told = *finding;

	if (told.kind == CHECK_KIND_RACE || told.kind == CHECK_KIND_BEFORE_ALLOCATED)
		explain(check, &told, told.epoch);
	uint64_t first = place_of(check, &told.first), second = place_of(check, &told.second);
	/* The same pair may come in either order. */
	uint64_t places = (first < second ? first : second) * 0x9e3779b97f4a7c15u ^ (first < second ? second : first);
	if (check_table_get(&check->said, told.kind, places))
		return;
	check_table_put(&check->said, told.kind, places, check);
	check->finding_count++;
	check->options.found(check, &told, check->options.data);
}
