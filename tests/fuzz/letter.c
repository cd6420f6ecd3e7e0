/* SPDX-License-Identifier: MIT */
/*
 * Letters over a program's own socket: cenote_recv_descriptor(), cenote_recv_pool() and cenote_recv_block().
 *
 * Sockets of all types; pieces of true letters, changed, cut and put together, with any descriptors beside them; the
 * other side closes at any point.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECES_MAX = 8, LETTERS = 3, LETTER_BYTES_MAX = 144, RIGHTS_MAX = 4 };

static CUmemoryPool pool, imported;
static struct {
	unsigned char bytes[LETTER_BYTES_MAX];
	size_t size;
} letters[LETTERS];

/* What a call writes, without what goes beside it. */
static void keep_letter(int which, const int ends[2])
{
	ssize_t size = recv(ends[1], letters[which].bytes, sizeof letters[which].bytes, 0);

	FUZZ_CHECK(size > 0);
	letters[which].size = (size_t)size;
}

void fuzz_prepare(void)
{
	CUdeviceptr block, taken;
	CUmemPoolPtrExportData name;
	CUevent ready;
	int ends[2];

	fuzz_start();
	pool = fuzz_pool(32 << 20);
	fuzz_use_pool(pool);
	int descriptor = fuzz_pool_descriptor(pool);
	fuzz_offer(descriptor);
	FUZZ_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	FUZZ_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, NULL));
	FUZZ_OK(cuMemPoolExportPointer(&name, block));
	FUZZ_OK(cuMemPoolImportPointer(&taken, imported, &name)); /* the first brings what the import keeps */
	FUZZ_OK(cuMemFreeAsync(taken, NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	FUZZ_OK(cuEventCreate(&ready, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	FUZZ_OK(cenote_send_pool(ends[0], pool));
	keep_letter(0, ends);
	FUZZ_OK(cenote_send_block(ends[0], block, NULL));
	keep_letter(1, ends);
	FUZZ_OK(cenote_send_block(ends[0], block, ready));
	keep_letter(2, ends);
	close(ends[0]);
	close(ends[1]);
}

static void send_piece(int sock, struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), which = how % 4 % LETTERS, right_count = how / 64 % RIGHTS_MAX;
	unsigned char bytes[256];
	size_t size = letters[which].size, at;
	struct iovec part = {bytes, 0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union {
		char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
		struct cmsghdr align;
	} rights;
	int descriptors[RIGHTS_MAX];

	memset(bytes, 0, sizeof bytes);
	memcpy(bytes, letters[which].bytes, size);
	if (how & 8)
		at = fuzz_byte(input), bytes[at % size] ^= (unsigned char)fuzz_byte(input);
	if (how & 16)
		fuzz_bytes(input, bytes, size = fuzz_byte(input));
	if (how & 32) { /* a piece of it */
		at = fuzz_byte(input) % (size + 1);
		size = size - at < 1 ? 0 : fuzz_byte(input) % (size - at + 1);
		memmove(bytes, bytes + at, size);
	}
	part.iov_len = size;
	for (unsigned i = 0; i < right_count; i++)
		descriptors[i] = fuzz_descriptor(input);
	if (right_count) {
		memset(&rights, 0, sizeof rights);
		message.msg_control = rights.bytes;
		message.msg_controllen = CMSG_SPACE(right_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(right_count * sizeof(int));
		memcpy(CMSG_DATA(header), descriptors, right_count * sizeof(int));
	}
	sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < right_count; i++)
		close(descriptors[i]);
}

static void receive_pool(int sock)
{
	CUmemoryPool again;

	if (!FUZZ_TRY(cenote_recv_pool(sock, &again)))
		FUZZ_OK(cuMemPoolDestroy(again));
}

static void receive_block(int sock)
{
	CUdeviceptr block;
	CUevent ready;

	if (FUZZ_TRY(cenote_recv_block(sock, imported, &block, &ready)))
		return;
	fuzz_touch(block);
	FUZZ_OK(cuMemFreeAsync(block, NULL));
	if (ready)
		FUZZ_OK(cuEventDestroy(ready));
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
	struct fuzz_input input = {bytes, size};
	unsigned how = fuzz_byte(&input), pieces = fuzz_below(&input, PIECES_MAX), wanted = fuzz_byte(&input);
	int ends[2], descriptor;

	FUZZ_CHECK(!socketpair(AF_UNIX, types[how % 3] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	while (pieces--)
		send_piece(ends[0], &input);
	if (how & 4)
		shutdown(ends[0], SHUT_RDWR);
	close(ends[0]);
	for (int i = 0; i < PIECES_MAX; i++, wanted /= 3) {
		if (wanted % 3 == 0 && !FUZZ_TRY(cenote_recv_descriptor(ends[1], &descriptor)))
			close(descriptor);
		else if (wanted % 3 == 1)
			receive_pool(ends[1]);
		else if (wanted % 3 == 2)
			receive_block(ends[1]);
	}
	close(ends[1]);
	FUZZ_OK(cuStreamSynchronize(NULL));
}
