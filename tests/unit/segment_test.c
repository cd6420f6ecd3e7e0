/* SPDX-License-Identifier: MIT */
/*
 * Segments: which process may write, which may read, and when a borrower has let go of one.
 */
#include "../sockets.h"
#include "base/segment.h"
#include "cenote/cenote.h"
#include "harness.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

static struct cn_segment make(void)
{
	struct cn_segment segment;

	ASSERT_OK(cn_segment_make("test-segment", BYTES, &segment));
	return segment;
}

/* A reader of a segment, with a descriptor of its own. */
static struct cn_segment reader_of(const struct cn_segment *segment)
{
	struct cn_segment reader;
	int fd = fcntl(segment->fd, F_DUPFD_CLOEXEC, 0);

	ASSERT_SYS(fd);
	ASSERT_OK(cn_segment_map(fd, BYTES, "the test's segment", &reader));
	ASSERT_EQ(fd, reader.fd);
	return reader;
}

/* Goal: it begins with zeros, and a reader sees what the writer writes. */
TEST(a_reader_sees_what_is_written)
{
	struct cn_segment segment = make(), reader = reader_of(&segment);
	volatile unsigned char *written = segment.address, *read = reader.address;

	ASSERT_EQ(BYTES, segment.bytes);
	ASSERT_EQ(BYTES, reader.bytes);
	for (unsigned i = 0; i < BYTES; i += 4096)
		ASSERT_EQ(0, read[i]);
	written[0] = 1;
	written[BYTES - 1] = 2;
	ASSERT_EQ(1, read[0]);
	ASSERT_EQ(2, read[BYTES - 1]);
	cn_segment_close(&reader);
	ASSERT_EQ(1, written[0]);
	cn_segment_close(&segment);
	cn_segment_close(&segment); /* nothing is left to close */
}

/* Goal: only its maker can write or resize it; no descriptor gives another process the right. */
TEST(nobody_else_writes)
{
	struct cn_segment segment = make(), reader = reader_of(&segment);

	ASSERT_EQ(FD_CLOEXEC, fcntl(segment.fd, F_GETFD));
	ASSERT_GT(segment.fd, STDERR_FILENO);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, reader.fd, 0));
	ASSERT_EQ(-1, mprotect(reader.address, BYTES, PROT_READ | PROT_WRITE));
	ASSERT_EQ(-1, pwrite(reader.fd, "x", 1, 0));
	ASSERT_EQ(-1, ftruncate(reader.fd, 0));
	ASSERT_EQ(-1, ftruncate(reader.fd, 2 * BYTES));
	((volatile unsigned char *)segment.address)[0] = 1; /* and its maker still does */
	cn_segment_close(&reader);
	cn_segment_close(&segment);
}

/* A segment that was lent, and its borrower. */
static struct cn_segment lend(struct cn_segment *ret_borrowed)
{
	struct cn_segment segment;
	int fd;

	ASSERT_OK(cn_segment_lend("test-segment", BYTES, &segment, &fd));
	ASSERT_OK(cn_segment_borrow(fd, BYTES, "the test's segment", ret_borrowed));
	ASSERT_EQ(-1, fcntl(fd, F_GETFD)); /* closed: the mapping is all that is left */
	return segment;
}

/* Goal: its maker reads what the borrower writes, and is told when the borrower has let go, not before. */
TEST(returned_when_the_borrower_has_let_go)
{
	struct cn_segment borrowed, segment = lend(&borrowed);

	((volatile unsigned char *)borrowed.address)[5] = 5;
	ASSERT_EQ(5, ((volatile unsigned char *)segment.address)[5]);
	ASSERT(!cn_segment_is_returned(&segment));
	ASSERT(!cn_segment_is_returned(&segment));
	cn_segment_close(&borrowed);
	ASSERT(cn_segment_is_returned(&segment));
	ASSERT(cn_segment_is_returned(&segment));
	cn_segment_close(&segment);
}

/* Goal: a descriptor that nobody has mapped yet, or that is still on its way, counts as well. */
TEST(a_descriptor_on_its_way_is_not_returned)
{
	struct cn_segment segment;
	int fd, ends[2];

	ASSERT_OK(cn_segment_lend("test-segment", BYTES, &segment, &fd));
	ASSERT(!cn_segment_is_returned(&segment));
	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_EQ(0, cn_wire_send(ends[0], &(struct cn_parcel){.descriptors = {fd}, .descriptor_count = 1}));
	close(fd);
	ASSERT(!cn_segment_is_returned(&segment));
	close_pair(ends);
	ASSERT(cn_segment_is_returned(&segment));
	cn_segment_close(&segment);
}

/* Goal: nothing that a borrower does to the file makes its maker wait, fault, or believe in the borrower's end. */
TEST(a_borrower_that_seals_leases_and_pins)
{
	struct cn_segment segment;
	int fd, pipes[2];

	ASSERT_OK(cn_segment_lend("test-segment", BYTES, &segment, &fd));
	ASSERT_EQ(-1, ftruncate(fd, 0));
	ASSERT_EQ(-1, ftruncate(fd, 2 * BYTES));
	void *address = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, address);
	memset(address, 1, BYTES);
	ASSERT_SYS(pipe2(pipes, O_CLOEXEC));
	struct iovec page = {address, 4096};
	ASSERT_EQ(4096, vmsplice(pipes[1], &page, 1, 0));
	ASSERT_SYS(fcntl(fd, F_SETLEASE, F_RDLCK) && errno != EAGAIN ? -1 : 0);
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
	ASSERT_SYS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES));
	ASSERT(!cn_segment_is_returned(&segment));
	ASSERT_EQ(0, ((volatile unsigned char *)segment.address)[4096]);
	ASSERT_SYS(munmap(address, BYTES));
	close(fd);
	ASSERT(cn_segment_is_returned(&segment)); /* though a page of it is pinned */
	close_pair(pipes);
	cn_segment_close(&segment);
}

/* Goal: a forked child has the segment's memory neither to read nor to write, and does not keep it from its maker. */
TEST(a_forked_child_does_not_have_it)
{
	struct cn_segment borrowed, segment = lend(&borrowed);
	int ends[2], status;
	char byte = 0;

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	pid_t child = fork();
	ASSERT_SYS(child);
	if (child == 0) {
		unsigned char there;
		bool gone =
			mincore(segment.address, 4096, &there) == -1 && mincore(borrowed.address, 4096, &there) == -1;
		close(ends[1]);
		while (read(ends[0], &byte, 1) > 0)
			continue;
		_exit(!gone);
	}
	close(ends[0]);
	cn_segment_close(&borrowed);
	ASSERT(cn_segment_is_returned(&segment));
	close(ends[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	cn_segment_close(&segment);
}

static int file(size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create("test-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return fd;
	ASSERT_SYS(ftruncate(fd, (off_t)bytes));
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void expect_refusal(int fd, size_t bytes, const char *part)
{
	struct cn_segment segment;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_segment_map(fd, bytes, "the test's segment", &segment));
	ASSERT_CONTAINS("the test's segment", cenote_last_error());
	ASSERT_CONTAINS(part, cenote_last_error());
	if (fd >= 0)
		ASSERT_SYS(close(fd)); /* it has stayed ours */
}

/* Goal: what is not a segment of the size wanted is refused, with a sentence. */
TEST(other_files_are_refused)
{
	int ends[2], huge = file(2 << 20, MFD_HUGETLB, SEALS);

	expect_refusal(-1, BYTES, "not shared memory");
	expect_refusal(open("/dev/zero", O_RDWR | O_CLOEXEC), BYTES, "not shared memory");
	expect_refusal(open("/", O_PATH | O_CLOEXEC), BYTES, "not shared memory");
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	expect_refusal(ends[0], BYTES, "not shared memory");
	expect_refusal(ends[1], BYTES, "not shared memory");
	expect_refusal(file(BYTES - 1, 0, SEALS), BYTES, "bytes");
	expect_refusal(file(BYTES + 4096, 0, SEALS), BYTES, "bytes");
	expect_refusal(file(0, 0, SEALS), BYTES, "bytes");
	for (int left_out = F_SEAL_SHRINK; left_out <= F_SEAL_FUTURE_WRITE; left_out <<= 1)
		if (SEALS & left_out)
			expect_refusal(file(BYTES, 0, SEALS & ~left_out), BYTES, "not sealed");
	if (huge >= 0) /* pages that need not be there when they are touched */
		expect_refusal(huge, 2 << 20, "not shared memory");
}
