/* SPDX-License-Identifier: MIT */
/*
 * What a process says that is asked what it shares: a stranger's word, which `cenote ps`, `top` and `map` show.
 *
 * A fake process in the runtime directory answers by the script, with any numbers and texts. What is printed is text,
 * and JSON is JSON; nothing that a terminal would obey comes through. This process itself is asked as well.
 */
#include "call_command.h"

#include "share/port/port_internal.h"
#include "share/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POOLS = 2, IMPORTERS = 2 };

static struct fuzz_server process;
static struct cn_socket named;

/* ---- The fake process ---- */

static void say_process(struct cn_message *reply)
{
	struct cn_report_process body = {.pid = (uint64_t)getpid(),
					 .pid_namespace = cn_report_pid_namespace(),
					 .pool_count = POOLS,
					 .opener_count = 1};

	strcpy(body.program, "fuzz");
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static void say_pool(uint64_t after, struct cn_message *reply)
{
	struct cn_report_pool body = {
		.id = after + 1,
		.used_bytes = 1 << 20,
		.reserved_bytes = 32 << 20,
		.exported_count = 2,
		.exported_bytes = 1 << 19,
		.importer_count = IMPORTERS,
		.age_ns = 5000000000,
		.location_type = CU_MEM_LOCATION_TYPE_DEVICE,
	};

	reply->result = after < POOLS ? 0 : CUDA_ERROR_NOT_FOUND;
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static void say_importer(uint64_t after, struct cn_message *reply)
{
	struct cn_report_importer body = {
		.id = after + 1,
		.pid = (uint32_t)getpid(),
		.held_count = 3,
		.held_bytes = 1 << 19,
		.deferred_count = 1,
		.deferred_bytes = 4096,
		.age_ns = 7000000000,
		.waiting_ns = 100,
	};

	reply->result = after < IMPORTERS ? 0 : CUDA_ERROR_NOT_FOUND;
	memcpy(cn_report_body(reply), &body, sizeof body);
}

static void say_handles(uint64_t kind, struct cn_message *reply)
{
	struct cn_report_handles body = {
		.kind = kind,
		.shared_count = 3,
		.shared_bytes = kind == CN_HANDLE_MEMORY ? 3 << 20 : 0,
		.deferred_count = 1,
		.opener_count = IMPORTERS,
		.age_ns = 9000000000,
	};

	memcpy(cn_report_body(reply), &body, sizeof body);
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
	case CN_REPORT_PROCESS: say_process(&reply.message); break;
	case CN_REPORT_POOL: say_pool(words[CN_REPORT_POOL_ID], &reply.message); break;
	case CN_REPORT_HANDLES: say_handles(words[CN_REPORT_KIND], &reply.message); break;
	case CN_REPORT_OPENER:
	case CN_REPORT_IMPORTER: say_importer(words[CN_REPORT_IMPORTER_ID], &reply.message); break;
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

	switch (how % 6) {
	case 0: status = run("ps", NULL, NULL, &printed); break;
	case 1: status = run("ps", "--json", NULL, &printed); break;
	case 2: status = run("top", "--once", NULL, &printed); break;
	case 3: status = run("map", how & 8 ? "0" : "00000000", NULL, &printed); break;
	case 4: status = run("map", how & 8 ? "0" : "0000000000000001", "--json", &printed); break;
	default: status = run("map", "--svg", "picture", &printed); break;
	}
	fuzz_check_printable(printed);
	if (!status && *printed == '{')
		fuzz_check_json(printed);
	if (how % 6 < 3)
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

	fuzz_server_begin(&process, input);
	ask(how);
	ask(how / 6);
	fuzz_server_end(&process);
}
