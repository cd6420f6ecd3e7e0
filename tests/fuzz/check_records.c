/* SPDX-License-Identifier: MIT */
/*
 * Records: what `cenote check` reads of the files that processes write, and what it makes of it.
 *
 * The script writes the files of three processes: any states, calls, handles and words, most of them from few numbers,
 * so that calls are about the same things. What is said of it is text, and all memory is given back.
 */
#include "fuzz.h"

#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 3, RECORDS = 48, FILE_BYTES = CN_TRACE_HEADER_BYTES + (1 << 20) };

static char folder[16];
static struct {
	struct cn_trace_header header;
	char rest[CN_TRACE_HEADER_BYTES - sizeof(struct cn_trace_header)];
	struct cn_trace_record records[RECORDS];
} file;

void fuzz_prepare(void)
{
	fuzz_start();
}

static void found(const struct check *check, const struct check_finding *finding, void *unused)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	(void)unused;
	FUZZ_CHECK(to != NULL);
	check_write_text(check, finding, 1, to);
	check_write_json(check, finding, to);
	check_page_adds(check, finding, 1, to);
	fclose(to);
	for (size_t i = 0; i < bytes; i++)
		FUZZ_CHECK((text[i] >= ' ' && text[i] < 127) || text[i] == '\n');
	free(text);
}

/* One of few numbers, or any. */
static uint64_t some(struct fuzz_input *input, uint64_t first, uint64_t step)
{
	unsigned byte = fuzz_byte(input);

	return byte < 8 ? first + byte * step : byte < 240 ? first + byte % 3 * step : fuzz_number(input);
}

static void draw_record(struct fuzz_input *input, struct cn_trace_record *record, uint64_t now_ns)
{
	unsigned state = fuzz_byte(input);

	*record = (struct cn_trace_record){
		.call = (uint16_t)fuzz_below(input, CN_CALL_COUNT),
		.result = fuzz_below(input, 8) ? 0 : (int32_t)fuzz_byte(input),
		.flags = (uint16_t)(fuzz_below(input, 4) % 2 + CN_TRACE_WATCHED * (fuzz_below(input, 4) == 3)),
		.thread = 1 + fuzz_below(input, 2),
		.begin_ns = now_ns,
		.end_ns = now_ns + fuzz_below(input, 4),
		.stream = some(input, 0, 0x1000),
		.event = some(input, 0x3000, 8),
		.address = some(input, 0x10000, 0x1000),
		.source = some(input, 0x10000, 0x1000),
		.bytes = some(input, 0x1000, 1),
		.object = some(input, 1, 1),
		.handle = some(input, 1, 1),
		.context = 1,
	};
	if (state % 4 == 3) {
		record->of = fuzz_below(input, RECORDS);
		for (int i = 0; i < CN_TRACE_WORDS_MAX; i++)
			record->words[i] = some(input, 0, 0x1000);
		record->result = (int32_t)fuzz_below(input, 16);
	}
	/* Of stacks nothing is looked up here: that would start programs. */
	static const enum cn_trace_state states[] = {
		CN_TRACE_ENDED,      CN_TRACE_ENDED, CN_TRACE_BEGUN,      CN_TRACE_WORDS,       CN_TRACE_ENDED,
		CN_TRACE_HOST_BEGUN, CN_TRACE_ENDED, CN_TRACE_WORDS,      CN_TRACE_HOST_ENDED,  CN_TRACE_ENDED,
		CN_TRACE_UNUSED,     CN_TRACE_LABEL, CN_TRACE_ERROR_TEXT, CN_TRACE_ENDED,       CN_TRACE_ENDED,
		CN_TRACE_MODULE,     CN_TRACE_ENDED, CN_TRACE_ENDED,      CN_TRACE_ENDED,       CN_TRACE_RANGES,
		CN_TRACE_ENDED,      CN_TRACE_ENDED, CN_TRACE_ENDED,      CN_TRACE_KERNEL_ENDED};
	atomic_store(&record->state, states[state % (sizeof states / sizeof states[0])]);
}

static void write_file(struct fuzz_input *input, int process)
{
	char path[64];

	memset(&file, 0, sizeof file);
	memcpy(file.header.magic, CN_TRACE_MAGIC, sizeof file.header.magic);
	file.header.pid = 100 + process;
	file.header.forked = fuzz_below(input, 8) == 1;
	atomic_store(&file.header.end, fuzz_below(input, 3));
	atomic_store(&file.header.ended_ns, 1000);
	memcpy(file.header.command, "program", sizeof "program");
	unsigned count = fuzz_below(input, RECORDS);
	atomic_store(&file.header.next, fuzz_below(input, 16) == 15 ? fuzz_number(input) % 100000 : count);
	for (unsigned i = 0; i < count; i++)
		draw_record(input, &file.records[i], 10 + i * 3 + (unsigned)process);
	snprintf(path, sizeof path, "%s/%d.0", folder, 100 + process);
	int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(descriptor >= 0 && pwrite(descriptor, &file, sizeof file, 0) == (ssize_t)sizeof file &&
		   ftruncate(descriptor, FILE_BYTES) == 0);
	close(descriptor);
}

static bool is_dead(pid_t pid)
{
	return pid == 100;
}

static bool all_are_dead(pid_t pid)
{
	(void)pid;
	return true;
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	const struct check_options options = {.is_strict = fuzz_below(&input, 2), .found = found};
	struct check *check = check_new(&options);
	char path[64];

	memcpy(folder, "check-XXXXXX", sizeof "check-XXXXXX");
	FUZZ_CHECK(mkdtemp(folder) != NULL);
	for (int i = 0; i < PROCESSES; i++)
		write_file(&input, i);
	check_read(check, folder, 60, is_dead);
	if (fuzz_below(&input, 2))
		check_hangs(check, true);
	check_read(check, folder, UINT64_MAX, all_are_dead);
	check_free(check);
	check_read_free();
	check_symbols_free();
	for (int i = 0; i < PROCESSES; i++) {
		snprintf(path, sizeof path, "%s/%d.0", folder, 100 + i);
		unlink(path);
	}
	rmdir(folder);
}
