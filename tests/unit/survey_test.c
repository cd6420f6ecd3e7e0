/* SPDX-License-Identifier: MIT */
/*
 * Surveys: what is believed of what a process answers and writes about itself. Wrong answers and wrong files are
 * written by hand.
 */
#include "named_socket.h"
#include "share_fake.h"

#include "base/check.h"
#include "pool/pool.h"
#include "share/port/port_internal.h"
#include "share/report/status.h"
#include "share/report/survey.h"

SETUP
{
	share_start();
}

/* ---- Answering by hand ---- */

enum lie {
	SILENT,       /* closes at once */
	OTHER_KIND,   /* of message */
	OTHER_NUMBER, /* of the question */
	DESCRIPTORS,  /* come along */
	STRANGE_RESULT,
	HONEST,
	STRANGE_HOLDERS, /* descriptors of holders that are of no process */
	STRANGE_CELLS,
};

struct liar {
	struct cn_socket named;
	enum lie lie;
	unsigned holders; /* how many were asked for */
	pthread_t thread;
};

static void fill(struct liar *liar, const struct cn_message *request, struct cn_parcel *reply)
{
	uint64_t what = request->words[CN_REPORT_WHAT];

	if (what == CN_REPORT_HOLDER) {
		reply->descriptors[0] = reply->descriptors[1] = STDERR_FILENO;
		reply->descriptor_count = 1 + (liar->lie != STRANGE_HOLDERS);
		liar->holders++;
	}
	if (what == CN_REPORT_CELLS)
		memset(reply->message.bytes, liar->lie == STRANGE_CELLS ? '\a' : CN_POOL_CELL_FREE,
		       sizeof reply->message.bytes);
}

static void converse(struct liar *liar, int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel request;

	while (liar->lie != SILENT && poll(&wanted, 1, -1) == 1 && !cn_wire_receive(sock, &request)) {
		struct cn_parcel reply = {
			.message = {.kind = CN_MESSAGE_REPORT + (liar->lie == OTHER_KIND),
				    .request = request.message.request + (liar->lie == OTHER_NUMBER),
				    .result = liar->lie == STRANGE_RESULT ? CUDA_ERROR_UNKNOWN : 0},
			.descriptors = {STDERR_FILENO, STDERR_FILENO},
			.descriptor_count = liar->lie == DESCRIPTORS ? 2 : 0,
		};
		fill(liar, &request.message, &reply);
		if (cn_wire_send(sock, &reply))
			break;
	}
	close(sock);
}

/* Conversations until the socket is shut down. */
static void *lie(void *data)
{
	struct liar *liar = data;
	struct pollfd wanted = {.fd = liar->named.listen_fd, .events = POLLIN};

	for (int sock; poll(&wanted, 1, -1) == 1 && (sock = cn_wire_accept(liar->named.listen_fd)) >= 0;)
		converse(liar, sock);
	return NULL;
}

static void liar_start(struct liar *liar, enum lie kind)
{
	*liar = (struct liar){.lie = kind};
	ASSERT_OK(cn_wire_listen_named(false, &liar->named));
	ASSERT_EQ(0, pthread_create(&liar->thread, NULL, lie, liar));
}

static void liar_end(struct liar *liar)
{
	ASSERT_SYS(shutdown(liar->named.listen_fd, SHUT_RDWR));
	ASSERT_EQ(0, pthread_join(liar->thread, NULL));
	end_named(&liar->named);
}

/* A status file that is written by hand: one pool with an importer, and more. */
struct writing {
	struct cn_status_head head;
	struct cn_status_record records[16];
};

static void add_record(struct writing *writing, uint32_t kind, uint64_t first_word)
{
	struct cn_status_record *record = &writing->records[writing->head.record_count++];

	*record = (struct cn_status_record){.sequence = writing->head.sequence, .kind = kind};
	memcpy(record->body, &first_word, sizeof first_word);
	record->check = cn_check(record, offsetof(struct cn_status_record, check));
}

static struct writing begin_writing(uint64_t sequence)
{
	return (struct writing){.head = {.magic = CN_STATUS_MAGIC,
					 .version = CN_STATUS_VERSION,
					 .sequence = sequence,
					 .written_ns = cn_clock_ns(),
					 .time_namespace = cn_status_namespace("time"),
					 .program = "liar"}};
}

static void write_head(const struct liar *liar, const struct writing *writing)
{
	struct cn_status_head head = writing->head;

	head.check = cn_check(&head, offsetof(struct cn_status_head, check));
	ASSERT_EQ((ssize_t)sizeof head,
		  pwrite(liar->named.lock_fd, &head, sizeof head, (off_t)((head.sequence & 1) * sizeof head)));
}

static void write_records(const struct liar *liar, const struct writing *writing)
{
	size_t bytes = writing->head.record_count * sizeof writing->records[0];

	ASSERT_EQ((ssize_t)bytes, pwrite(liar->named.lock_fd, writing->records, bytes,
					 (off_t)cn_status_page_offset(writing->head.sequence, 0)));
}

static struct writing write_pool(const struct liar *liar, uint64_t sequence)
{
	struct writing writing = begin_writing(sequence);

	add_record(&writing, CN_STATUS_POOL, 77);
	add_record(&writing, CN_STATUS_IMPORTER, 5);
	write_records(liar, &writing);
	write_head(liar, &writing);
	return writing;
}

struct heard {
	const char *name; /* the liar's */
	unsigned processes, pools, importers, handles, openers, imports;
	bool answers, has_written;
	uint64_t pool_id;
	int holder_pid;
	char program[CN_REPORT_TEXT_BYTES];
};

static void hear(const struct cn_survey_found *found, void *data)
{
	struct heard *heard = data;

	if (strcmp(found->process->name, heard->name) != 0)
		return;
	heard->processes += !found->pool && !found->handles && !found->import;
	heard->imports += found->import && !found->importer;
	heard->pools += found->pool && !found->importer;
	heard->handles += found->handles && !found->importer;
	heard->importers += found->importer && !found->handles;
	heard->openers += found->importer && found->handles;
	heard->answers = found->process->answers;
	heard->has_written = found->process->written_ns;
	if (found->pool)
		heard->pool_id = found->pool->id;
	heard->holder_pid += found->holder_pid;
	snprintf(heard->program, sizeof heard->program, "%s", found->process->program);
}

static struct heard survey_one(const struct liar *liar)
{
	struct heard heard = {.name = liar->named.name};

	ASSERT_OK(cn_survey(hear, &heard));
	ASSERT_EQ(1, heard.processes);
	return heard;
}

/* Goal: a process with an answer that makes no sense is reported as one that does not answer, by its file. */
TEST(nonsense_is_no_answer)
{
	struct liar liar;

	for (enum lie kind = SILENT; kind <= STRANGE_RESULT; kind++) {
		liar_start(&liar, kind);
		struct heard heard = survey_one(&liar);
		ASSERT(!heard.answers && !heard.has_written && !*heard.program);
		ASSERT_EQ(0, heard.pools);
		write_pool(&liar, 1);
		heard = survey_one(&liar);
		ASSERT(!heard.answers && heard.has_written);
		ASSERT_STREQ("liar", heard.program);
		ASSERT_EQ(1, heard.pools);
		ASSERT_EQ(1, heard.importers);
		liar_end(&liar);
	}
}

/* Goal: a holder is identified by its process descriptor alone; any other descriptor identifies nobody. */
TEST(descriptors_that_are_no_holders)
{
	struct liar liar;

	for (enum lie kind = HONEST; kind <= STRANGE_HOLDERS; kind++) {
		liar_start(&liar, kind);
		write_pool(&liar, 1);
		struct heard heard = survey_one(&liar);
		ASSERT(heard.answers);
		ASSERT_EQ(1, heard.importers);
		ASSERT_EQ(0, heard.holder_pid);
		ASSERT_EQ(1, liar.holders);
		liar_end(&liar);
	}
}

/* Goal: a reader takes a writing whole or not at all. */
TEST(files_that_are_no_status)
{
	enum { WRONG = 9 };
	struct liar liar;
	struct heard heard;

	for (int i = 0; i < WRONG; i++) {
		liar_start(&liar, SILENT);
		struct writing writing = write_pool(&liar, 1);
		ASSERT(survey_one(&liar).has_written);
		switch (i) {
		case 0: ASSERT_SYS(ftruncate(liar.named.lock_fd, 0)); break;
		case 1: ASSERT_SYS(ftruncate(liar.named.lock_fd, CN_STATUS_PAGE_BYTES)); break; /* no records */
		case 2: ASSERT_SYS(ftruncate(liar.named.lock_fd, sizeof writing.head + 17)); break;
		case 3: writing.head.record_count = CN_STATUS_RECORDS_MAX + 1; break;
		case 4: writing.head.record_count = UINT32_MAX; break;
		case 5: writing.head.version++; break;
		case 6: writing.head.magic++; break;
		case 7: writing.head.record_count = 3; break; /* the third was never written */
		case 8:                                       /* of another writing */
			writing.records[1].sequence = 3;
			writing.records[1].check =
				cn_check(&writing.records[1], offsetof(struct cn_status_record, check));
			write_records(&liar, &writing);
			break;
		}
		if (i > 2)
			write_head(&liar, &writing);
		heard = survey_one(&liar);
		ASSERT(!heard.has_written);
		ASSERT_EQ(0, heard.pools);
		liar_end(&liar);
	}
	liar_start(&liar, SILENT);
	struct writing writing = write_pool(&liar, 1);
	writing.head.check = 1;
	ASSERT_EQ((ssize_t)sizeof writing.head,
		  pwrite(liar.named.lock_fd, &writing.head, sizeof writing.head, sizeof writing.head));
	ASSERT(!survey_one(&liar).has_written);
	liar_end(&liar);
}

/* Goal: a process that is stopped or killed while it writes leaves what it wrote before. */
TEST(a_writing_that_was_not_finished)
{
	struct liar liar;

	liar_start(&liar, SILENT);
	write_pool(&liar, 7);
	struct writing next = begin_writing(8);
	add_record(&next, CN_STATUS_POOL, 78);
	write_records(&liar, &next);
	ASSERT_EQ(77, survey_one(&liar).pool_id);
	write_head(&liar, &next);
	struct heard heard = survey_one(&liar);
	ASSERT_EQ(78, heard.pool_id);
	ASSERT_EQ(0, heard.importers);
	next = begin_writing(9); /* in the half of the first one */
	add_record(&next, CN_STATUS_POOL, 79);
	write_records(&liar, &next);
	ASSERT_EQ(78, survey_one(&liar).pool_id);
	liar_end(&liar);
}

/* Goal: holders of nothing, kinds that are unknown and numbers that cannot be are left out. */
TEST(records_in_no_order)
{
	struct liar liar;

	liar_start(&liar, SILENT);
	struct writing writing = begin_writing(1);
	add_record(&writing, CN_STATUS_IMPORTER, 1);
	add_record(&writing, CN_STATUS_OPENER, 1);
	add_record(&writing, CN_STATUS_POOL, 0);
	add_record(&writing, CN_STATUS_HANDLES, CN_HANDLE_FABRIC_MEMORY);
	add_record(&writing, CN_STATUS_OPENER, 1);
	add_record(&writing, CN_STATUS_IMPORT + 1, 1);
	add_record(&writing, CN_STATUS_IMPORT, CN_HANDLE_FABRIC_MEMORY);
	add_record(&writing, CN_STATUS_OPENER, 1);
	add_record(&writing, CN_STATUS_IMPORT, CN_HANDLE_MEMORY);
	add_record(&writing, CN_STATUS_OPENER, 1);
	add_record(&writing, CN_STATUS_HANDLES, CN_HANDLE_EVENT);
	add_record(&writing, CN_STATUS_IMPORTER, 1);
	write_records(&liar, &writing);
	write_head(&liar, &writing);
	struct heard heard = survey_one(&liar);
	ASSERT(heard.has_written);
	ASSERT_EQ(0, heard.pools + heard.importers + heard.openers);
	ASSERT_EQ(1, heard.handles);
	ASSERT_EQ(1, heard.imports);
	liar_end(&liar);
}

/* Goal: handles of a kind are told once, with their openers: a viewer may have room for one of each. */
TEST(handles_that_come_again)
{
	struct liar liar;

	liar_start(&liar, SILENT);
	struct writing writing = begin_writing(1);
	for (int i = 0; i < 2; i++) {
		add_record(&writing, CN_STATUS_HANDLES, CN_HANDLE_EVENT);
		add_record(&writing, CN_STATUS_OPENER, 1);
		add_record(&writing, CN_STATUS_HANDLES, CN_HANDLE_MEMORY);
		add_record(&writing, CN_STATUS_OPENER, 2);
	}
	write_records(&liar, &writing);
	write_head(&liar, &writing);
	struct heard heard = survey_one(&liar);
	ASSERT_EQ(2, heard.handles);
	ASSERT_EQ(2, heard.openers);
	liar_end(&liar);
}

/* Goal: nothing that a terminal would obey, and nothing without an end. */
TEST(texts_are_made_printable)
{
	struct liar liar;

	liar_start(&liar, SILENT);
	struct writing writing = begin_writing(1);
	memset(writing.head.program, '\033', sizeof writing.head.program);
	write_head(&liar, &writing);
	ASSERT_STREQ("???????????????????????????????", survey_one(&liar).program);
	liar_end(&liar);
}

/* Goal: cells that are of no kind make no picture, and leave what was there. */
TEST(strange_cells_are_no_picture)
{
	struct cn_survey_cell cells[16] = {{.kind = 'x'}};
	uint64_t bytes = 3;
	struct liar liar;

	liar_start(&liar, STRANGE_CELLS);
	write_pool(&liar, 1);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cn_survey_picture(77, cells, 16, &bytes));
	liar_end(&liar);
	ASSERT_EQ(3, bytes);
	ASSERT_EQ('x', cells[0].kind);
	liar_start(&liar, HONEST);
	write_pool(&liar, 1);
	ASSERT_OK(cn_survey_picture(77, cells, 16, &bytes));
	liar_end(&liar);
	ASSERT_EQ(0, bytes);
	ASSERT_EQ(CN_POOL_CELL_FREE, cells[15].kind);
}
