/* SPDX-License-Identifier: MIT */
/*
 * What a process says of what it shares, in its status file and at its port: a stranger's word, which `cenote ps`,
 * `top` and `map` show.
 *
 * A fake process in the runtime directory has a file that the script has changed, with any numbers and texts, and
 * answers by the script. What is printed is text, and JSON is JSON; nothing that a terminal would obey comes through.
 * This process itself is asked as well.
 */
#include "call_command.h"

#include "base/check.h"
#include "base/clock.h"
#include "share/port/port_internal.h"
#include "share/report/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POOLS = 2, IMPORTERS = 2, RECORDS = POOLS * (1 + IMPORTERS) + 4 };

static struct fuzz_server process;
static struct cn_socket named;

/* ---- The fake process ---- */

struct writing {
	struct cn_status_head head;
	struct cn_status_record records[RECORDS];
};

static void add(struct writing *writing, enum cn_status_kind kind, const void *body)
{
	struct cn_status_record *record = &writing->records[writing->head.record_count++];

	*record = (struct cn_status_record){.sequence = writing->head.sequence, .kind = kind};
	memcpy(record->body, body, sizeof record->body);
}

static void add_pool(struct writing *writing, uint64_t id)
{
	struct cn_report_pool body = {
		.id = id,
		.used_bytes = 1 << 20,
		.reserved_bytes = 32 << 20,
		.exported_count = 2,
		.exported_bytes = 1 << 19,
		.importer_count = IMPORTERS,
		.since_ns = 1,
		.location_type = CU_MEM_LOCATION_TYPE_DEVICE,
	};

	add(writing, CN_STATUS_POOL, &body);
}

static void add_importer(struct writing *writing, enum cn_status_kind kind, uint64_t id)
{
	struct cn_report_importer body = {
		.id = id,
		.pid = id == 1 ? (uint32_t)getpid() : 0, /* the other is asked for */
		.held_count = 3,
		.held_bytes = 1 << 19,
		.deferred_count = 1,
		.deferred_bytes = 4096,
		.since_ns = 1,
		.waiting_since_ns = 1,
	};

	add(writing, kind, &body);
}

static void add_handles(struct writing *writing, uint64_t kind)
{
	struct cn_report_handles body = {
		.kind = kind,
		.shared_count = 3,
		.shared_bytes = kind == CN_HANDLE_MEMORY ? 3 << 20 : 0,
		.deferred_count = 1,
		.opener_count = IMPORTERS,
		.since_ns = 1,
	};

	add(writing, CN_STATUS_HANDLES, &body);
}

static struct writing write_well(void)
{
	struct writing writing = {.head = {.magic = CN_STATUS_MAGIC,
					   .version = CN_STATUS_VERSION,
					   .sequence = 1,
					   .written_ns = cn_clock_ns(),
					   .time_namespace = cn_status_namespace("time"),
					   .pid = (uint64_t)getpid(),
					   .pid_namespace = cn_status_namespace("pid"),
					   .pool_count = POOLS,
					   .opener_count = 1,
					   .program = "fuzz",
					   .label = "label"}};

	for (uint64_t id = 1; id <= POOLS; id++) {
		add_pool(&writing, id);
		for (uint64_t importer = 1; importer <= IMPORTERS; importer++)
			add_importer(&writing, CN_STATUS_IMPORTER, importer);
	}
	add_handles(&writing, CN_HANDLE_MEMORY);
	add_importer(&writing, CN_STATUS_OPENER, 1);
	add_handles(&writing, CN_HANDLE_EVENT);
	add_importer(&writing, CN_STATUS_OPENER, 2);
	return writing;
}

/* Write a file in which the script has changed some words. Checks are mostly right. */
static void write_status(struct fuzz_input *input)
{
	struct writing writing = write_well();
	unsigned changes = fuzz_below(input, 8), late = fuzz_below(input, 16) ? 0 : 1;

	for (unsigned i = 0; i < changes; i++) {
		uint64_t number = fuzz_number(input);
		unsigned record = fuzz_below(input, RECORDS + 1), word = fuzz_byte(input);
		char *at = record == RECORDS
				   ? (char *)&writing.head + word % (sizeof writing.head / 8) * 8
				   : (char *)&writing.records[record] + word % (sizeof writing.records[0] / 8) * 8;
		memcpy(at, &number, sizeof number);
	}
	for (unsigned i = 0; i < RECORDS; i++)
		writing.records[i].check =
			cn_check(&writing.records[i], offsetof(struct cn_status_record, check)) + (late && i == 3);
	writing.head.check = cn_check(&writing.head, offsetof(struct cn_status_head, check));
	FUZZ_CHECK(!ftruncate(named.lock_fd, 0));
	off_t half = writing.head.sequence & 1;
	FUZZ_CHECK(pwrite(named.lock_fd, &writing.head, sizeof writing.head, half * (off_t)sizeof writing.head) > 0);
	FUZZ_CHECK(pwrite(named.lock_fd, writing.records, sizeof writing.records,
			  (off_t)cn_status_page_offset(writing.head.sequence, 0)) > 0);
}

static void say_cells(const struct cn_message *request, struct cn_message *reply)
{
	struct cn_report_cells body = {.picture_bytes = 32 << 20, .holders = {1, 2, 3, CN_REPORT_SEVERAL}};

	memcpy(body.kinds, "#=!o._=!", sizeof body.kinds);
	if (request->words[CN_REPORT_POOL_ID] > POOLS)
		reply->result = CUDA_ERROR_NOT_FOUND;
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static bool answer(struct fuzz_server *server, int sock, const struct cn_parcel *request)
{
	struct cn_parcel reply = {.message = {.kind = CN_MESSAGE_REPORT, .request = request->message.request}};
	const uint64_t *words = request->message.words;

	switch (words[CN_REPORT_WHAT]) {
	case CN_REPORT_REFRESH: reply.message.words[0] = 1; break;
	case CN_REPORT_HOLDER: reply.message.result = CUDA_ERROR_NOT_FOUND; break;
	default: say_cells(&request->message, &reply.message); break;
	}
	return fuzz_send(&server->input, sock, &reply);
}

/* ---- Those who ask ---- */

static void take_away_name(void)
{
	cn_wire_forget_name(&named);
}

static int run(const char *command, const char *option, const char *value, char **ret_printed)
{
	char *arguments[] = {(char *)"cenote", (char *)command, (char *)option, (char *)value, NULL};
	int count = 2 + (option != NULL) + (value != NULL);

	return fuzz_command(count, arguments, ret_printed);
}

static void ask(unsigned how)
{
	char *printed = NULL;
	int status = 0;

	switch (how % 8) {
	case 0: status = run("ps", NULL, NULL, &printed); break;
	case 1: status = run("ps", "--json", NULL, &printed); break;
	case 2: status = run("top", "--once", NULL, &printed); break;
	case 3: status = run("map", how & 8 ? "0" : "00000000", NULL, &printed); break;
	case 4: status = run("map", how & 8 ? "0" : "0000000000000001", "--json", &printed); break;
	case 5: status = run("map", "--svg", "picture", &printed); break;
	case 6: status = run("metrics", NULL, NULL, &printed); break;
	default: status = run("ps", "--sort", "deferred", &printed); break;
	}
	fuzz_check_printable(printed);
	if (!status && *printed == '{')
		fuzz_check_json(printed);
	if (how % 8 < 3 || how % 8 > 5)
		FUZZ_CHECK(!status); /* whatever one process says */
	free(printed);
}

void fuzz_prepare(void)
{
	setenv("NO_COLOR", "1", 1);
	setenv("LC_ALL", "C", 1);
	fuzz_start();
	CUmemoryPool pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	FUZZ_OK(cn_wire_listen_named(false, &named));
	FUZZ_CHECK(!atexit(take_away_name));
	process.answer = answer;
	process.listener = named.listen_fd;
	fuzz_server_start(&process);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};
	unsigned how = fuzz_byte(&input);

	write_status(&input);
	fuzz_server_begin(&process, input);
	ask(how);
	ask(how / 8);
	fuzz_server_end(&process);
}
