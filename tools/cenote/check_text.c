/* SPDX-License-Identifier: MIT */
/*
 * cenote check: findings in words, and as JSON.
 */
#include "check.h"

#include "command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* "4711 (producer)". What a process calls itself is printed as far as it is text. */
void check_name_process(const struct check *check, int process, char name[CHECK_NAME_BYTES])
{
	const struct check_process *of = check->processes[process];
	char command[24];
	size_t length = 0;

	for (const char *at = of->command; *at && *at != ' ' && length + 1 < sizeof command; at++)
		command[length++] = (char)(*at > ' ' && *at < 127 ? *at : '?');
	command[length] = 0;
	snprintf(name, CHECK_NAME_BYTES, "%s %d", length ? command : "process", of->pid);
}

void check_name_stream(const struct check *check, const struct check_site *site, char name[CHECK_NAME_BYTES])
{
	const struct check_stream *stream =
		site->stream >= 0 && site->stream < check->stream_count ? check->streams[site->stream] : NULL;

	if (!stream)
		snprintf(name, CHECK_NAME_BYTES, "its own thread");
	else if (stream->number)
		snprintf(name, CHECK_NAME_BYTES, "stream %d", stream->number);
	else if (stream->thread)
		snprintf(name, CHECK_NAME_BYTES, "the default stream of thread %u", stream->thread);
	else if (stream->is_legacy)
		snprintf(name, CHECK_NAME_BYTES, "the default stream");
	else
		snprintf(name, CHECK_NAME_BYTES, "stream 0x%" PRIx64, stream->handle);
}

static void name_bytes(uint64_t bytes, char name[CHECK_NAME_BYTES])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < sizeof units / sizeof units[0]) {
		bytes /= 1024;
		unit++;
	}
	snprintf(name, CHECK_NAME_BYTES, "%" PRIu64 " %s", bytes, bytes == 1 && !unit ? "byte" : units[unit]);
}

static void name_block(const struct check *check, const struct check_block *block, char name[2 * CHECK_NAME_BYTES])
{
	char bytes[CHECK_NAME_BYTES], place[CHECK_NAME_BYTES], process[CHECK_NAME_BYTES];

	if (!block) {
		snprintf(name, 2 * CHECK_NAME_BYTES, "memory");
		return;
	}
	if (*block->label) {
		snprintf(name, 2 * CHECK_NAME_BYTES, "'%s'", block->label);
		return;
	}
	name_bytes(block->bytes, bytes);
	check_place(check, &block->allocated, place);
	check_name_process(check, block->process, process);
	if (*place)
		snprintf(name, 2 * CHECK_NAME_BYTES, "the block of %.30s that %.40s allocated (%.60s)", bytes, process,
			 place);
	else
		snprintf(name, 2 * CHECK_NAME_BYTES, "a block of %s of %.60s", bytes, process);
}

/* What was done: "fills 1 MiB of". */
static void name_act(const struct check *check, const struct check_site *site, int mode, char name[CHECK_NAME_BYTES])
{
	char bytes[CHECK_NAME_BYTES];
	const char *kernel = check_table_get(&check->processes[site->process]->functions, site->object, 0);

	name_bytes(site->bytes, bytes);
	if (check_call_is(site->call, CN_ACT_launch) && mode <= CHECK_EITHER) {
		static const char *const verbs[] = {"reads in", "writes in", "runs"};
		static const char *const prepositions[] = {"from", "to", "on"};
		snprintf(name, CHECK_NAME_BYTES, "%s kernel %.40s %s", verbs[mode], kernel ? kernel : "(unnamed)",
			 prepositions[mode]);
		return;
	}
	switch (mode) {
	case CHECK_READ: snprintf(name, CHECK_NAME_BYTES, "reads %.30s of", bytes); break;
	case CHECK_WRITE:
		snprintf(name, CHECK_NAME_BYTES, "%s %.30s of",
			 check_call_is(site->call, CN_ACT_fill) || check_call_is(site->call, CN_ACT_fill_now)
				 ? "fills"
				 : "writes",
			 bytes);
		break;
	case CHECK_ALLOCATE: snprintf(name, CHECK_NAME_BYTES, "allocates"); break;
	case CHECK_FREE: snprintf(name, CHECK_NAME_BYTES, "frees"); break;
	case CHECK_RELEASE:
		snprintf(name, CHECK_NAME_BYTES,
			 check_call_is(site->call, CN_ACT_unmap) ? "unmaps" : "lets its import go of");
		break;
	default: snprintf(name, CHECK_NAME_BYTES, "uses"); break;
	}
}

/* The same as a noun: "fill". */
static const char *noun_of(const struct check_site *site, int mode)
{
	if (check_call_is(site->call, CN_ACT_launch))
		return "kernel";
	switch (mode) {
	case CHECK_READ: return "read";
	case CHECK_WRITE:
		return check_call_is(site->call, CN_ACT_fill) || check_call_is(site->call, CN_ACT_fill_now) ? "fill"
													    : "write";
	case CHECK_ALLOCATE: return "allocation";
	case CHECK_FREE: return "free";
	case CHECK_RELEASE: return "close";
	default: return "kernel";
	}
}

/* ---- Sentences --------------------------------------------------------------------------------------------------- */

/* All that sentences speak of, by name. */
struct names {
	char first[CHECK_NAME_BYTES], second[CHECK_NAME_BYTES];               /* processes */
	char first_stream[CHECK_NAME_BYTES], second_stream[CHECK_NAME_BYTES]; /* "stream 3" */
	char first_act[CHECK_NAME_BYTES], second_act[CHECK_NAME_BYTES];
	char first_place[CHECK_NAME_BYTES], second_place[CHECK_NAME_BYTES], third_place[CHECK_NAME_BYTES];
	char block[2 * CHECK_NAME_BYTES];
	const char *first_noun, *second_noun;
	const char *who; /* did the first thing, as the sentence about the second names it */
};

/* " (file.c:3)", or "" */
static void put_place(const struct check *check, const struct check_site *site, char name[CHECK_NAME_BYTES])
{
	char place[CHECK_NAME_BYTES] = "";

	if (site && site->call != CN_CALL_COUNT)
		check_place(check, site, place);
	if (*place)
		snprintf(name, CHECK_NAME_BYTES, " (%.90s)", place);
	else
		*name = 0;
}

static void find_names(const struct check *check, const struct check_finding *finding, struct names *names)
{
	check_name_process(check, finding->first.process, names->first);
	check_name_process(check, finding->second.process, names->second);
	check_name_stream(check, &finding->first, names->first_stream);
	check_name_stream(check, &finding->second, names->second_stream);
	name_act(check, &finding->first, finding->first_mode, names->first_act);
	name_act(check, &finding->second, finding->second_mode, names->second_act);
	put_place(check, &finding->first, names->first_place);
	put_place(check, &finding->second, names->second_place);
	put_place(check, finding->third, names->third_place);
	name_block(check, finding->block, names->block);
	names->first_noun = noun_of(&finding->first, finding->first_mode);
	names->second_noun = noun_of(&finding->second, finding->second_mode);
	names->who = finding->first.process == finding->second.process ? "it" : names->first;
	/* "fills 1 MiB of", where what is filled is said before it */
	char *end = strchr(names->first_act, ' ');
	if (end && (finding->first_mode == CHECK_READ || finding->first_mode == CHECK_WRITE))
		*end = 0;
}

static void say_order(const struct names *n, enum check_kind kind, char *text, size_t bytes)
{
	const char *why = "nothing orders them";
	char more[3 * CHECK_NAME_BYTES] = "";

	if (kind == CHECK_KIND_EVENT_AGAIN)
		snprintf(
			more, sizeof more,
			" It waited for an event that had been recorded again%s by then: the wait was for that record.",
			n->third_place);
	if (kind == CHECK_KIND_EVENT_EARLY)
		snprintf(more, sizeof more,
			 " It waited for an event%s that had not been recorded by then: such a wait does nothing.",
			 n->third_place);
	snprintf(text, bytes, "%s %s %s in %s, which %s %s in %s; %s.%s", n->second, n->second_act, n->block,
		 n->second_stream, n->who, n->first_act, n->first_stream, why, more);
}

static void say_life(const struct names *n, const struct check_finding *finding, char *text, size_t bytes)
{
	switch ((int)finding->kind) {
	case CHECK_KIND_BEFORE_ALLOCATED:
		snprintf(text, bytes, "%s %s %s in %s; nothing orders that after its allocation by %s in %s.",
			 n->second, n->second_act, n->block, n->second_stream, n->who, n->first_stream);
		break;
	case CHECK_KIND_AFTER_FREE:
		snprintf(text, bytes, "%s %s %s in %s, which it had freed before%s.", n->second, n->second_act,
			 n->block, n->second_stream, n->first_place);
		break;
	case CHECK_KIND_AFTER_EXPORTER:
		snprintf(text, bytes,
			 "%s %s %s in %s, which its owner %s had freed before%s. Cenote defers the free; on NVIDIA's "
			 "driver the memory may be another's.",
			 n->second, n->second_act, n->block, n->second_stream, n->first, n->first_place);
		break;
	case CHECK_KIND_FREE_UNORDERED:
		snprintf(text, bytes, "%s %s %s in %s, which %s %s in %s; nothing orders the %s after that.", n->second,
			 n->second_act, n->block, n->second_stream, n->who, n->first_act, n->first_stream,
			 n->second_noun);
		break;
	case CHECK_KIND_CLOSED_IN_USE:
		snprintf(text, bytes, "%s %s %s, which it %s in %s; nothing orders the %s after that.", n->second,
			 n->second_act, n->block, n->first_act, n->first_stream, n->second_noun);
		break;
	case CHECK_KIND_FREE_BEFORE_CLOSE:
		snprintf(text, bytes,
			 "%s frees %s, which %s has imported%s and not let go. Cenote defers the free; with NVIDIA's "
			 "driver what happens is undefined.",
			 n->second, n->block, n->first, n->first_place);
		break;
	case CHECK_KIND_FREED_TWICE:
		snprintf(text, bytes, "%s frees %s more often than it had it.", n->second, n->block);
		break;
	case CHECK_KIND_NOT_CLOSED:
		snprintf(text, bytes, "%s has ended with %s imported%s and not let go.", n->first, n->block,
			 n->first_place);
		break;
	case CHECK_KIND_LEAKED:
		snprintf(text, bytes, "%s has ended with %s shared and not %s.", n->first,
			 finding->block ? n->block : "a pool", finding->block ? "freed" : "destroyed");
		break;
	default:
		snprintf(text, bytes, "%s was killed while it had %s imported%s.", n->first, n->block, n->first_place);
		break;
	}
}

void check_sentence(const struct check *check, const struct check_finding *finding, char *text, size_t bytes)
{
	struct names n;

	if (finding->text) {
		snprintf(text, bytes, "%s", finding->text);
		return;
	}
	find_names(check, finding, &n);
	switch ((int)finding->kind) {
	case CHECK_KIND_RACE:
	case CHECK_KIND_EVENT_AGAIN:
	case CHECK_KIND_EVENT_EARLY: say_order(&n, finding->kind, text, bytes); break;
	case CHECK_KIND_EVENT_GONE:
		snprintf(text, bytes, "%s opens an event%s that %s had destroyed before%s.", n.second, n.second_place,
			 n.first, n.first_place);
		break;
	case CHECK_KIND_EVENT_DESTROYED:
		snprintf(text, bytes, "%s uses an event%s whose creator %s had destroyed it before%s.", n.second,
			 n.second_place, n.first, n.first_place);
		break;
	case CHECK_KIND_AFTER_FORK:
		snprintf(text, bytes, "%s calls CUDA%s after its parent, which had called CUDA, forked it.", n.second,
			 n.second_place);
		break;
	default: say_life(&n, finding, text, bytes); break;
	}
}

void check_remedy(const struct check *check, const struct check_finding *finding, char *text, size_t bytes)
{
	struct names n;

	*text = 0;
	if (finding->text)
		return;
	find_names(check, finding, &n);
	switch ((int)finding->kind) {
	case CHECK_KIND_RACE:
	case CHECK_KIND_BEFORE_ALLOCATED:
		snprintf(text, bytes, "Record an event after the %s%s, and let %s wait for it before the %s%s.",
			 n.first_noun, n.first_place, n.second_stream, n.second_noun, n.second_place);
		break;
	case CHECK_KIND_EVENT_AGAIN:
		snprintf(text, bytes, "Use another event for each hand-over, or wait before it is recorded again%s.",
			 n.third_place);
		break;
	case CHECK_KIND_EVENT_EARLY:
		snprintf(text, bytes, "Record the event after the %s%s, and tell the other process to wait after that.",
			 n.first_noun, n.first_place);
		break;
	case CHECK_KIND_AFTER_FREE:
	case CHECK_KIND_AFTER_EXPORTER:
		snprintf(text, bytes, "Free it%s after the %s%s is done.", n.first_place, n.second_noun,
			 n.second_place);
		break;
	case CHECK_KIND_FREE_UNORDERED:
	case CHECK_KIND_CLOSED_IN_USE:
		snprintf(text, bytes, "Record an event after the %s%s, and wait for it before the %s%s.", n.first_noun,
			 n.first_place, n.second_noun, n.second_place);
		break;
	case CHECK_KIND_EVENT_GONE:
	case CHECK_KIND_EVENT_DESTROYED:
		snprintf(text, bytes, "Destroy the event%s when the other process has said that it is done with it.",
			 n.first_place);
		break;
	case CHECK_KIND_FREE_BEFORE_CLOSE:
		snprintf(text, bytes, "Free it%s when %s has freed or closed its import.", n.second_place, n.first);
		break;
	case CHECK_KIND_FREED_TWICE: snprintf(text, bytes, "Free it once for each import%s.", n.second_place); break;
	case CHECK_KIND_NOT_CLOSED:
		snprintf(text, bytes, "Free or close it once for each import before the process ends.");
		break;
	case CHECK_KIND_LEAKED:
		snprintf(text, bytes, "%s it before the process ends.", finding->block ? "Free" : "Destroy");
		break;
	case CHECK_KIND_HOLDER_DIED:
		snprintf(text, bytes, "What counts its holders, must hear of its death; the block itself comes back.");
		break;
	case CHECK_KIND_AFTER_FORK: snprintf(text, bytes, "Fork before the first call, or execute a program."); break;
	default: break;
	}
}

/* ---- Reports ----------------------------------------------------------------------------------------------------- */

enum { SENTENCE_BYTES = 8192 };

static void write_stack(const struct check *check, const struct check_site *site, const char *what, FILE *to)
{
	struct check_frame frames[CN_TRACE_FRAMES];
	char process[CHECK_NAME_BYTES];

	if (site->call == CN_CALL_COUNT)
		return;
	check_name_process(check, site->process, process);
	fprintf(to, "    %s: %s, thread %u, %s\n", what, process, site->thread, check_call_name(site->call));
	int count = check_frames(check, site, frames);
	for (int i = 0; i < count; i++)
		fprintf(to, "      #%d %s%s%s%s\n", i, frames[i].function, *frames[i].function ? " (" : "",
			frames[i].place, *frames[i].function ? ")" : "");
}

static bool has_stacks(const struct check_finding *finding)
{
	return finding->kind != CHECK_KIND_CYCLE && finding->kind != CHECK_KIND_HANG;
}

void check_write_text(const struct check *check, const struct check_finding *finding, uint64_t number, FILE *to)
{
	char sentence[SENTENCE_BYTES], remedy[SENTENCE_BYTES];

	check_sentence(check, finding, sentence, sizeof sentence);
	check_remedy(check, finding, remedy, sizeof remedy);
	fprintf(to, "cenote check: %" PRIu64 ": %s\n  %s\n", number, check_kind_names[finding->kind], sentence);
	if (*remedy)
		fprintf(to, "  %s\n", remedy);
	if (has_stacks(finding)) {
		write_stack(check, &finding->first, "first", to);
		write_stack(check, &finding->second, "then", to);
		if (finding->third)
			write_stack(check, finding->third, "and", to);
		if (finding->block && *finding->block->label)
			write_stack(check, &finding->block->allocated, "the block", to);
	}
	fflush(to);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* A text as a JSON string. Whatever is not ASCII is written as it is, unless it is no UTF-8's. */
static void put_string(const char *text, FILE *to)
{
	putc('"', to);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (*at == '"' || *at == '\\')
			fprintf(to, "\\%c", *at);
		else if (*at < ' ' || *at > 126)
			fprintf(to, "\\u%04x", *at);
		else
			putc(*at, to);
	}
	putc('"', to);
}

static void put_member(const char *name, const char *text, FILE *to)
{
	fprintf(to, ",\"%s\":", name);
	put_string(text, to);
}

static void put_site(const struct check *check, const char *name, const struct check_site *site, FILE *to)
{
	struct check_frame frames[CN_TRACE_FRAMES];
	char text[CHECK_NAME_BYTES];

	if (site->call == CN_CALL_COUNT)
		return;
	fprintf(to, ",\"%s\":{\"pid\":%d,\"thread\":%u", name, check->processes[site->process]->pid, site->thread);
	put_member("command", check->processes[site->process]->command, to);
	put_member("call", check_call_name(site->call), to);
	if (site->stream >= 0) {
		check_name_stream(check, site, text);
		put_member("stream", text, to);
	}
	fputs(",\"stack\":[", to);
	int count = check_frames(check, site, frames);
	for (int i = 0; i < count; i++) {
		fputs(i ? ",{\"function\":" : "{\"function\":", to);
		put_string(frames[i].function, to);
		put_member("place", frames[i].place, to);
		putc('}', to);
	}
	fputs("]}", to);
}

void check_write_json(const struct check *check, const struct check_finding *finding, FILE *to)
{
	char text[SENTENCE_BYTES];

	fputs("{\"kind\":", to);
	put_string(check_kind_names[finding->kind], to);
	check_sentence(check, finding, text, sizeof text);
	put_member("sentence", text, to);
	check_remedy(check, finding, text, sizeof text);
	put_member("remedy", text, to);
	if (finding->block) {
		put_member("block", finding->block->label, to);
		fprintf(to, ",\"block_bytes\":%" PRIu64, finding->block->bytes);
	}
	if (has_stacks(finding)) {
		put_site(check, "first", &finding->first, to);
		put_site(check, "second", &finding->second, to);
		if (finding->third)
			put_site(check, "third", finding->third, to);
	}
	putc('}', to);
}
