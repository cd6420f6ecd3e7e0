/* SPDX-License-Identifier: MIT */
/*
 * Reading a status file, which may be anybody's and say anything; see status.h.
 */
#include "share/report/status.h"

#include "base/check.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES_MAX = 8 };

/* Replace whatever could control a terminal. */
static void make_printable(char text[CN_REPORT_TEXT_BYTES])
{
	size_t length = strnlen(text, CN_REPORT_TEXT_BYTES - 1);

	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	memset(text + length, 0, CN_REPORT_TEXT_BYTES - length);
}

static bool is_head(const struct cn_status_head *head, unsigned half)
{
	return head->magic == CN_STATUS_MAGIC && head->version == CN_STATUS_VERSION &&
	       head->record_count <= CN_STATUS_RECORDS_MAX && (head->sequence & 1) == half &&
	       head->check == cn_check(head, offsetof(struct cn_status_head, check));
}

/* The head of the newest writing. */
static bool read_head(int fd, struct cn_status_head *ret_head)
{
	struct cn_status_head heads[2] = {0};

	if (pread(fd, heads, sizeof heads, 0) < (ssize_t)sizeof heads[0])
		return false;
	bool first = is_head(&heads[0], 0), second = is_head(&heads[1], 1);
	if (!first && !second)
		return false;
	*ret_head = heads[second && (!first || heads[1].sequence > heads[0].sequence)];
	return true;
}

static bool read_records(int fd, const struct cn_status_head *head, struct cn_status_record *records)
{
	for (uint32_t first = 0; first < head->record_count; first += CN_STATUS_PAGE_RECORDS) {
		uint32_t left = head->record_count - first;
		size_t bytes = (left < CN_STATUS_PAGE_RECORDS ? left : CN_STATUS_PAGE_RECORDS) * sizeof *records;
		uint64_t offset = cn_status_page_offset(head->sequence, first / CN_STATUS_PAGE_RECORDS);
		if (pread(fd, records + first, bytes, (off_t)offset) != (ssize_t)bytes)
			return false;
	}
	for (uint32_t i = 0; i < head->record_count; i++)
		if (records[i].sequence != head->sequence ||
		    records[i].check != cn_check(&records[i], offsetof(struct cn_status_record, check)))
			return false;
	return true;
}

bool cn_status_read(int fd, struct cn_status *ret_status)
{
	struct cn_status status;

	/* A try fails when the process has written twice meanwhile, which it does not do all the time. */
	for (int i = 0; i < TRIES_MAX; i++) {
		if (!read_head(fd, &status.head))
			return false;
		status.records =
			calloc(status.head.record_count ? status.head.record_count : 1, sizeof *status.records);
		if (!status.records)
			return false;
		if (read_records(fd, &status.head, status.records)) {
			make_printable(status.head.program);
			make_printable(status.head.label);
			*ret_status = status;
			return true;
		}
		free(status.records);
	}
	return false;
}

void cn_status_free(struct cn_status *status)
{
	free(status->records);
	*status = (struct cn_status){.records = NULL};
}

int64_t cn_status_clock_offset_ns(const struct cn_status_head *head)
{
	struct timespec now;

	if (head->time_namespace == cn_status_namespace("time"))
		return 0;
	uint64_t now_ns = cn_clock_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t real_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return (int64_t)((now_ns - real_ns) - (head->written_ns - head->written_real_ns));
}
