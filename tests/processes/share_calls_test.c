/* SPDX-License-Identifier: MIT */
/*
 * Pools and blocks sent and received with cenote.h's calls: they arrive, over every kind of socket, and each error that
 * the texts promise comes and leaves nothing. Errors that need no second process are provoked in one, over both ends of
 * a pair.
 */
#include "share_calls.h"

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* A word of a sentence about events: on a GPU they are the driver's, which has no sentences. */
static const char *of_events(const char *word)
{
	return test_on_gpu() ? "" : word;
}

/* ---- It works ---------------------------------------------------------------------------------------------------- */

/* Goal: over every kind of socket a pool and a block arrive, among other messages, and the block is the same memory. */
TEST(a_pool_and_a_block_arrive_over_every_kind_of_socket)
{
	begin();
	for (int i = 0; i < TYPE_COUNT; i++) {
		struct receiver receiver = receiver_start(types[i]);
		CUmemoryPool pool = make_pool();
		CUdeviceptr block = allocate(pool, MIB, 0x5a);

		ASSERT_OK(cenote_send_pool(receiver.sock, pool));
		ASSERT_OK(cenote_send_block(receiver.sock, block, NULL));
		ASSERT_OK(cenote_send_block(receiver.sock, block, NULL));
		must(&receiver, RECEIVE_POOL, 0);
		ASSERT_EQ(0, must(&receiver, RECEIVE_BLOCK, 0));
		ASSERT_EQ(0, must(&receiver, RECEIVE_BLOCK, 1));
		ASSERT_EQ(0x5a, must(&receiver, READ, 0));
		ASSERT_OK(cuMemsetD8(block, 0x21, MIB));
		ASSERT_OK(cuStreamSynchronize(NULL));
		ASSERT_EQ(0x21, must(&receiver, READ, 1));
		must(&receiver, FREE, 0);
		must(&receiver, FREE, 1);
		must(&receiver, DESTROY_POOL, 0);
		receiver_end(&receiver);
		free_now(block);
		destroy_pool(pool);
	}
}

/* Goal: a block's event holds up the receiver's stream until the sender's stream has come to it. */
TEST(a_block_arrives_with_its_event)
{
	CUstream stream;
	CUdeviceptr block;
	unsigned *word;

	begin_with_port();
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemAllocHost((void **)&word, sizeof *word));
	*word = 0;
	CUmemoryPool pool = make_pool();
	struct receiver receiver = receiver_of(pool);
	CUevent ready = make_event(IPC_EVENT);

	ASSERT_OK(cuMemAllocFromPoolAsync(&block, MIB, pool, stream));
	ASSERT_OK(cuStreamWaitValue32(stream, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OK(cuMemsetD8Async(block, 0x37, MIB, stream));
	ASSERT_OK(cuEventRecord(ready, stream));
	ASSERT_OK(cenote_send_block(receiver.sock, block, ready));
	ASSERT_EQ(1, must(&receiver, RECEIVE_BLOCK, 0)); /* it has come, and the stream here has not moved */
	must(&receiver, WAIT_EVENT, 0);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	struct order read = {READ, 0};
	peer_send_bytes(receiver.peer, &read, sizeof read);
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	struct answer answer;
	peer_receive_bytes(receiver.peer, &answer, sizeof answer);
	ASSERT_EQ(CUDA_SUCCESS, answer.result);
	ASSERT_EQ(0x37, answer.value);
	must(&receiver, FREE, 0);
	must(&receiver, DESTROY_POOL, 0);
	receiver_end(&receiver);

	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuEventDestroy(ready));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuMemFreeHost(word));
	destroy_pool(pool);
}

/* Goal: each half of sending a pool can be done by hand on either side. */
TEST(a_pool_is_a_descriptor_on_the_way)
{
	int ends[2], descriptor;
	CUmemoryPool imported;

	begin();
	make_pair(SOCK_STREAM, ends);
	CUmemoryPool pool = make_pool();
	ASSERT_OK(cenote_send_pool(ends[0], pool));
	ASSERT_OK(cenote_recv_descriptor(ends[1], &descriptor));
	ASSERT_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
						     (CUmemAllocationHandleType)POSIX, 0));
	destroy_pool(imported);
	ASSERT_OK(cenote_send_descriptor(ends[0], descriptor));
	close(descriptor);
	ASSERT_OK(cenote_recv_pool(ends[1], &imported));
	destroy_pool(imported);
	destroy_pool(pool);
	close_pair(ends);
}

/* Goal: a letter may come in pieces over a stream, cut anywhere. */
TEST(a_stream_may_bring_a_block_in_pieces)
{
	char letter[LETTER_BYTES];
	int ends[2];
	CUmemoryPool imported;
	CUdeviceptr taken;
	CUevent ready;

	begin();
	make_pair(SOCK_STREAM, ends);
	CUmemoryPool pool = make_pool();
	CUdeviceptr block = allocate(pool, MIB, 0x11);
	ASSERT_OK(cenote_send_pool(ends[0], pool));
	ASSERT_OK(cenote_recv_pool(ends[1], &imported));
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	ASSERT_EQ(LETTER_BYTES, recv(ends[1], letter, sizeof letter, MSG_WAITALL));
	for (size_t cut = 1; cut < LETTER_BYTES; cut++) {
		/* Two messages in a stream do not join in one receive if a descriptor would have to; these may. */
		ASSERT_EQ((ssize_t)cut, send(ends[0], letter, cut, 0));
		ASSERT_EQ((ssize_t)(LETTER_BYTES - cut), send(ends[0], letter + cut, LETTER_BYTES - cut, 0));
		ASSERT_OK(cenote_recv_block(ends[1], imported, &taken, &ready));
		ASSERT_EQ(NULL, ready);
		ASSERT_EQ(0x11, first_byte(taken));
		free_now(taken);
	}
	for (size_t i = 0; i < LETTER_BYTES; i++) /* a byte at a time, from another process in effect: the queue */
		ASSERT_EQ(1, send(ends[0], letter + i, 1, 0));
	ASSERT_OK(cenote_recv_block(ends[1], imported, &taken, &ready));
	free_now(taken);
	free_now(block);
	destroy_pool(imported);
	destroy_pool(pool);
	close_pair(ends);
}

/* ---- Errors of sending ------------------------------------------------------------------------------------------- */

/* Goal: nothing can be had before cuInit(). */
TEST(nothing_works_before_cuInit)
{
	CUmemoryPool pool = (CUmemoryPool)0x77;
	CUdeviceptr block;
	CUevent ready;
	cenote_importer importer;
	size_t count;
	int ends[2], descriptor;

	make_pair(SOCK_STREAM, ends);
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_send_pool(ends[0], pool));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_recv_pool(ends[0], &pool));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_send_block(ends[0], 0x77, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_recv_block(ends[0], pool, &block, &ready));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_pool_watch(pool, &descriptor));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_pool_evict(pool, 1));
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cenote_pool_limit(pool, 1));
	close_pair(ends);
}

/* A pool of this process's own, imported again. */
static CUmemoryPool import_own(CUmemoryPool pool)
{
	CUmemoryPool imported;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_OK(cenote_send_pool(ends[0], pool));
	ASSERT_OK(cenote_recv_pool(ends[1], &imported));
	close_pair(ends);
	return imported;
}

/* Goal: what is no pool of this process's that can be shared is neither sent, watched, limited nor asked. */
TEST(pools_that_cannot_be_shared_are_refused)
{
	size_t count = 77;
	int ends[2], descriptor = -77;

	begin();
	make_pair(SOCK_SEQPACKET, ends);
	CUmemoryPool pool = make_pool(), imported = import_own(pool), private_pool = make_pool_of(0, 0);
	CUmemoryPool dead = make_pool(), wrong[] = {NULL, (CUmemoryPool)0x77, dead, imported};

	destroy_pool(dead);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		const char *part = wrong[i] == imported ? "" : "pool";
		EXPECT(CUDA_ERROR_INVALID_VALUE, part, cenote_send_pool(ends[0], wrong[i]));
		EXPECT(CUDA_ERROR_INVALID_VALUE, part, cenote_pool_importers(wrong[i], NULL, 0, 0, &count));
		EXPECT(CUDA_ERROR_INVALID_VALUE, part, cenote_pool_watch(wrong[i], &descriptor));
		EXPECT(CUDA_ERROR_INVALID_VALUE, part, cenote_pool_evict(wrong[i], 1));
		EXPECT(CUDA_ERROR_INVALID_VALUE, part, cenote_pool_limit(wrong[i], 1));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, "handleTypes", cenote_send_pool(ends[0], private_pool));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "handleTypes", cenote_pool_watch(private_pool, &descriptor));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "handleTypes", cenote_pool_limit(private_pool, 1));
	ASSERT_EQ(0, importer_count(private_pool));
	EXPECT(CUDA_ERROR_NOT_FOUND, "never shared", cenote_pool_evict(private_pool, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "NULL", cenote_pool_watch(pool, NULL));
	if (!test_on_gpu() || access("/dev/nvidia-caps-imex-channels/channel0", R_OK)) {
		CUmemoryPool fabric_pool = make_pool_of(0, POSIX | CU_MEM_HANDLE_TYPE_FABRIC);
		EXPECT(CUDA_ERROR_NOT_PERMITTED, "IMEX", cenote_send_pool(ends[0], fabric_pool));
		EXPECT(CUDA_ERROR_NOT_PERMITTED, "IMEX", cenote_pool_watch(fabric_pool, &descriptor));
		EXPECT(CUDA_ERROR_NOT_PERMITTED, "IMEX", cenote_pool_limit(fabric_pool, 1));
		destroy_pool(fabric_pool);
	}
	ASSERT_EQ(77, count);
	ASSERT_EQ(-77, descriptor);
	destroy_pool(imported);
	destroy_pool(private_pool);
	destroy_pool(pool);
	close_pair(ends);
}

/* The socket of a pair whose other end is closed; what is no Unix socket; one that is full and does not wait. */
struct bad_sockets {
	int lonely, pipe_ends[2], full[2];
};

static struct bad_sockets bad_sockets_make(void)
{
	struct bad_sockets bad;
	char bytes[64] = "";
	int ends[2];

	make_pair(SOCK_STREAM, ends);
	close(ends[1]);
	bad.lonely = ends[0];
	ASSERT_SYS(pipe2(bad.pipe_ends, O_CLOEXEC));
	make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, bad.full);
	while (send(bad.full[0], bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes)
		continue;
	ASSERT_EQ(EAGAIN, errno);
	return bad;
}

static void bad_sockets_free(const struct bad_sockets *bad)
{
	close(bad->lonely);
	close_pair(bad->pipe_ends);
	close_pair(bad->full);
}

/* Goal: a socket that fails is said, raises no signal, and nothing stays open. */
TEST(sockets_that_fail_are_said)
{
	CUmemoryPool imported = (CUmemoryPool)0x77;
	CUdeviceptr taken = 77;
	CUevent ready = (CUevent)0x77;
	int ends[2];

	begin();
	make_pair(SOCK_STREAM | SOCK_NONBLOCK, ends);
	struct bad_sockets bad = bad_sockets_make();
	CUmemoryPool pool = make_pool(), own = import_own(pool);
	CUdeviceptr block = allocate(pool, MIB, 1);

	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, "closed the connection", cenote_send_pool(bad.lonely, pool));
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, "closed the connection", cenote_send_block(bad.lonely, block, NULL));
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, "closed the connection", cenote_recv_pool(bad.lonely, &imported));
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, "closed the connection",
	       cenote_recv_block(bad.lonely, own, &taken, &ready));
	int wrong[] = {-1, bad.pipe_ends[0]};
	for (int i = 0; i < 2; i++) {
		EXPECT(CUDA_ERROR_INVALID_VALUE, "not a socket", cenote_send_pool(wrong[i], pool));
		EXPECT(CUDA_ERROR_INVALID_VALUE, "not a socket", cenote_send_block(wrong[i], block, NULL));
		EXPECT(CUDA_ERROR_INVALID_VALUE, "not a socket", cenote_recv_pool(wrong[i], &imported));
		EXPECT(CUDA_ERROR_INVALID_VALUE, "not a socket", cenote_recv_block(wrong[i], own, &taken, &ready));
	}
	EXPECT(CUDA_ERROR_NOT_READY, "full", cenote_send_pool(bad.full[0], pool));
	EXPECT(CUDA_ERROR_NOT_READY, "full", cenote_send_block(bad.full[0], block, NULL));
	EXPECT(CUDA_ERROR_NOT_READY, "no message has arrived", cenote_recv_pool(ends[1], &imported));
	EXPECT(CUDA_ERROR_NOT_READY, "no message has arrived", cenote_recv_block(ends[1], own, &taken, &ready));
	ASSERT_EQ(0x77, (uintptr_t)imported);
	ASSERT_EQ(77, taken);
	ASSERT_EQ(0x77, (uintptr_t)ready);
	free_now(block);
	destroy_pool(own);
	destroy_pool(pool);
	bad_sockets_free(&bad);
	close_pair(ends);
}

/* Goal: a process that may open no more descriptors is told so. */
TEST(no_room_for_a_descriptor_is_said)
{
	struct rlimit before, none;
	CUmemoryPool imported;
	int ends[2], descriptor = -77;

	begin();
	make_pair(SOCK_SEQPACKET, ends);
	CUmemoryPool pool = make_pool(), new_pool = make_pool();
	ASSERT_OK(cenote_send_pool(ends[0], pool));
	int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(lowest);
	close(lowest);
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){(rlim_t)lowest, before.rlim_max};
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &none));
	/* What other threads have closed since is taken, too. */
	int taken[64], taken_count = 0;
	while (taken_count < 64 && (taken[taken_count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		taken_count++;
	CUresult send_result = cenote_send_pool(ends[0], pool);
	CUresult receive_result = cenote_recv_pool(ends[1], &imported);
	CUresult watch_result = cenote_pool_watch(pool, &descriptor);
	CUresult limit_result = cenote_pool_limit(new_pool, 1);
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &before));
	while (taken_count)
		close(taken[--taken_count]);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, send_result);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, receive_result);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, watch_result);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, limit_result);
	ASSERT_EQ(-77, descriptor);
	destroy_pool(import_own(pool)); /* and all is well again */
	ASSERT_OK(cenote_pool_limit(new_pool, 1));
	destroy_pool(new_pool);
	destroy_pool(pool);
	close_pair(ends);
}

/* Goal: what is no block of a pool that can be shared, and no event that can, is not sent. */
TEST(what_cannot_be_shared_is_not_sent)
{
	CUcontext context;
	int ends[2];
	char byte;

	begin();
	make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, ends);
	CUmemoryPool pool = make_pool(), private_pool = make_pool_of(0, 0), imported = import_own(pool);
	CUdeviceptr block = allocate(pool, MIB, 1), private_block = allocate(private_pool, MIB, 1), plain;
	CUevent ordinary = make_event(CU_EVENT_DISABLE_TIMING), dead = make_event(IPC_EVENT);

	ASSERT_OK(cuMemAlloc(&plain, MIB));
	ASSERT_OK(cuEventDestroy(dead));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "", cenote_send_block(ends[0], 0, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "", cenote_send_block(ends[0], (uintptr_t)&byte, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "", cenote_send_block(ends[0], plain, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "not been exported", cenote_send_block(ends[0], private_block, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "begins", cenote_send_block(ends[0], block + 256, NULL));
	if (!test_has_gpu()) { /* whose driver does not look whether it is an event */
		EXPECT(CUDA_ERROR_INVALID_HANDLE, "", cenote_send_block(ends[0], block, dead));
		EXPECT(CUDA_ERROR_INVALID_HANDLE, "", cenote_send_block(ends[0], block, (CUevent)0x77));
	}
	EXPECT(CUDA_ERROR_INVALID_HANDLE, of_events("INTERPROCESS"), cenote_send_block(ends[0], block, ordinary));
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, "", cenote_send_block(ends[0], block, ordinary));
	ASSERT_OK(cuCtxSetCurrent(context));
	free_now(block);
	EXPECT(CUDA_ERROR_INVALID_VALUE, "", cenote_send_block(ends[0], block, NULL));
	ASSERT_EQ(-1, recv(ends[1], &byte, 1, 0)); /* nothing has been sent */
	ASSERT_OK(cuEventDestroy(ordinary));
	free_now(plain);
	free_now(private_block);
	destroy_pool(imported);
	destroy_pool(private_pool);
	destroy_pool(pool);
	close_pair(ends);
}

/* ---- Errors of receiving ----------------------------------------------------------------------------------------- */

/* Goal: descriptors that lead to no pool, or to one that is gone, are refused and closed. */
TEST(what_is_no_pool_is_not_received)
{
	CUmemoryPool imported = (CUmemoryPool)0x77;
	int ends[2], descriptor, null_device = open("/dev/null", O_RDWR | O_CLOEXEC);

	begin();
	make_pair(SOCK_SEQPACKET, ends);
	CUmemoryPool pool = make_pool();
	EXPECT(CUDA_ERROR_INVALID_VALUE, "NULL", cenote_recv_pool(ends[1], NULL));
	ASSERT_OK(cenote_send_descriptor(ends[0], null_device));
	unsigned open_now = test_descriptor_count();
	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, cenote_recv_pool(ends[1], &imported));
	await_open_count(open_now);
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)POSIX,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemGenericAllocationHandle memory;
	ASSERT_OK(cuMemCreate(&memory, 2 * MIB, &properties, 0));
	ASSERT_OK(cuMemExportToShareableHandle(&descriptor, memory, (CUmemAllocationHandleType)POSIX, 0));
	ASSERT_OK(cenote_send_descriptor(ends[0], descriptor));
	close(descriptor);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cenote_recv_pool(ends[1], &imported));
	ASSERT_OK(cuMemRelease(memory));
	ASSERT_EQ(5, send(ends[0], "other", 5, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, "the message received is not", cenote_recv_pool(ends[1], &imported));
	ASSERT_OK(cenote_send_pool(ends[0], pool));
	destroy_pool(pool);
	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, cenote_recv_pool(ends[1], &imported));
	ASSERT_EQ(0x77, (uintptr_t)imported);
	close(null_device);
	close_pair(ends);
}

/* Export a pool of a device that the test does not have. */
ROLE(exporter_of_device_1)
{
	int sock = peer_receive_descriptor(parent);

	begin();
	CUmemoryPool pool = make_pool_of(1, POSIX);
	ASSERT_OK(cenote_send_pool(sock, pool));
	close(sock);
	peer_expect(parent, "end");
	destroy_pool(pool);
}

/* Goal: a pool of a device that this process may not see is refused. */
TEST(a_pool_of_an_unseen_device_is_refused)
{
	CUmemoryPool imported;
	int ends[2];

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	struct peer *peer = peer_start("exporter_of_device_1");
	ASSERT_SYS(unsetenv("CENOTE_HOST_DEVICES"));
	begin();
	make_pair(SOCK_SEQPACKET, ends);
	peer_send_descriptor(peer, ends[1]);
	close(ends[1]);
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cenote_recv_pool(ends[0], &imported));
	ASSERT_CONTAINS("CUDA_VISIBLE_DEVICES", cenote_last_error());
	peer_send(peer, "end");
	peer_wait(peer);
	close(ends[0]);
}

/* Send a letter of a block that was tampered with; returns how receiving it ends. */
static CUresult receive_changed(const int ends[2], CUmemoryPool imported, const char letter[LETTER_BYTES], size_t at,
				size_t bytes)
{
	char changed[LETTER_BYTES + 1];
	CUdeviceptr taken = 77;
	CUevent ready = (CUevent)0x77;

	memcpy(changed, letter, LETTER_BYTES);
	changed[LETTER_BYTES] = 0;
	changed[at] ^= 0x40;
	ASSERT_EQ((ssize_t)bytes, send(ends[0], changed, bytes, 0));
	unsigned open_before = test_descriptor_count();
	CUresult result = cenote_recv_block(ends[1], imported, &taken, &ready);
	await_open_count(open_before);
	if (result) {
		ASSERT_EQ(77, taken);
		ASSERT_EQ(0x77, (uintptr_t)ready);
	}
	return result;
}

/* Goal: whatever bit of a block's letter is wrong, nothing is imported; nor from one too short or too long. */
TEST(forged_blocks_are_refused)
{
	char letter[LETTER_BYTES];
	int ends[2];

	begin();
	make_pair(SOCK_SEQPACKET, ends);
	CUmemoryPool pool = make_pool(), imported = import_own(pool);
	CUdeviceptr block = allocate(pool, MIB, 1);
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	ASSERT_EQ(LETTER_BYTES, recv(ends[1], letter, sizeof letter, 0));
	for (size_t i = 0; i < LETTER_BYTES; i++) {
		bool data = i >= MAGIC_BYTES + 8 && i < MAGIC_BYTES + 8 + sizeof(CUmemPoolPtrExportData);
		ASSERT_EQ(data ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE,
			  receive_changed(ends, imported, letter, i, LETTER_BYTES));
	}
	for (size_t bytes = 1; bytes < LETTER_BYTES; bytes++)
		ASSERT_EQ(CUDA_ERROR_INVALID_HANDLE, receive_changed(ends, imported, letter, LETTER_BYTES - 1, bytes));
	ASSERT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  receive_changed(ends, imported, letter, LETTER_BYTES - 1, LETTER_BYTES + 1));
	ASSERT_OK(cenote_send_descriptor(ends[0], ends[0])); /* another letter of ours */
	ASSERT_EQ(CUDA_ERROR_INVALID_HANDLE, receive_changed(ends, imported, letter, 0, LETTER_BYTES));
	ASSERT_EQ(0, importer_count(pool)); /* nothing that came was worth a word to the exporter */
	free_now(block);
	destroy_pool(imported);
	destroy_pool(pool);
	close_pair(ends);
}

/* A whole letter of a block with a descriptor beside it. */
static void send_with_descriptor(int sock, const char letter[LETTER_BYTES], int descriptor)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec part = {(void *)(uintptr_t)letter, LETTER_BYTES};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	ASSERT_EQ(LETTER_BYTES, sendmsg(sock, &message, 0));
}

/* Goal: the reasons for which a good letter cannot be used are told apart, and nothing is held afterwards. */
TEST(blocks_that_cannot_be_imported_are_refused)
{
	char letter[LETTER_BYTES];
	CUdeviceptr taken = 77;
	CUevent ready = (CUevent)0x77;
	CUcontext context;
	int ends[2];

	begin();
	make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, ends);
	CUmemoryPool pool = make_pool(), other_pool = make_pool(), imported = import_own(pool);
	CUdeviceptr block = allocate(pool, MIB, 1), other_block = allocate(other_pool, MIB, 1);

	destroy_pool(import_own(other_pool)); /* it has been exported */
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	ASSERT_OK(cenote_recv_block(ends[1], imported, &taken, &ready)); /* what an importer keeps open is open now */
	free_now(taken);
	while (test_on_gpu() && the_importer(pool).held_block_count) /* there it takes a moment */
		sched_yield();
	ASSERT_EQ(0, the_importer(pool).held_block_count);
	taken = 77;
	ready = (CUevent)0x77;
	/* What can be said before a letter is lost: the one that is waiting stays. */
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "ret_block", cenote_recv_block(ends[1], imported, NULL, &ready));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "ret_ready", cenote_recv_block(ends[1], imported, &taken, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "belongs to this process", cenote_recv_block(ends[1], pool, &taken, &ready));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "the pool is NULL", cenote_recv_block(ends[1], NULL, &taken, &ready));
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, "", cenote_recv_block(ends[1], imported, &taken, &ready));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_EQ(LETTER_BYTES, recv(ends[1], letter, sizeof letter, 0));

	send_with_descriptor(ends[0], letter, ends[0]);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, "unexpected descriptor",
	       cenote_recv_block(ends[1], imported, &taken, &ready));
	ASSERT_OK(cenote_send_block(ends[0], other_block, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "another pool", cenote_recv_block(ends[1], imported, &taken, &ready));
	ASSERT_OK(cenote_pool_limit(pool, MIB - 1));
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, "limits an importer to", cenote_recv_block(ends[1], imported, &taken, &ready));
	ASSERT_OK(cenote_pool_limit(pool, 0));
	ASSERT_OK(cenote_send_block(ends[0], block, NULL));
	free_now(block);
	await_used(pool, 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, "freed", cenote_recv_block(ends[1], imported, &taken, &ready));
	ASSERT_EQ(77, taken);
	ASSERT_EQ(0x77, (uintptr_t)ready);
	free_now(other_block);
	destroy_pool(imported);
	destroy_pool(other_pool);
	destroy_pool(pool);
	close_pair(ends);
}

/* Receive a block whose event is gone. A GPU's driver opens it all the same; then it is a block as any other. */
static void receive_without_event(const struct receiver *receiver)
{
	if (!test_has_gpu()) {
		must_fail(receiver, RECEIVE_BLOCK, 0, CUDA_ERROR_MAP_FAILED, of_events("no longer exists"));
		return;
	}
	if (tell(receiver, RECEIVE_BLOCK, 0).result == CUDA_SUCCESS)
		must(receiver, FREE, 0);
}

/* Goal: a letter whose event is gone, is none, or is the receiver's own imports neither event nor block. */
TEST(blocks_whose_event_is_gone_are_refused)
{
	char letter[LETTER_BYTES];
	CUdeviceptr taken = 77;
	CUevent ready = (CUevent)0x77;
	int ends[2];

	begin_with_port();
	make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, ends);
	CUmemoryPool pool = make_pool();
	struct receiver receiver = receiver_of(pool);
	CUdeviceptr block = allocate(pool, MIB, 1);
	CUevent event = make_event(IPC_EVENT);

	ASSERT_OK(cenote_send_block(receiver.sock, block, event));
	ASSERT_OK(cenote_send_block(ends[0], block, event));
	CUmemoryPool imported = import_own(pool);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, of_events("belongs to this process"),
	       cenote_recv_block(ends[1], imported, &taken, &ready));
	destroy_pool(imported);
	ASSERT_OK(cenote_send_block(ends[0], block, event));
	ASSERT_OK(cuEventDestroy(event));
	receive_without_event(&receiver);
	ASSERT_EQ(LETTER_BYTES, recv(ends[1], letter, sizeof letter, 0));
	memset(letter + LETTER_BYTES - sizeof(CUipcEventHandle), 0x3c, sizeof(CUipcEventHandle));
	ASSERT_EQ(LETTER_BYTES, send(receiver.sock, letter, sizeof letter, 0));
	must_fail(&receiver, RECEIVE_BLOCK, 0, CUDA_ERROR_MAP_FAILED, of_events("not made by Cenote"));
	ASSERT_EQ(0, statistics_of(pool).deferred_block_count);
	ASSERT_EQ(77, taken);
	ASSERT_EQ(0x77, (uintptr_t)ready);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	await_used(pool, 0); /* no process holds it */
	must(&receiver, DESTROY_POOL, 0);
	receiver_end(&receiver);
	destroy_pool(pool);
	close_pair(ends);
}

/* Send a pool, and a block with an event, and wait to be killed. */
ROLE(sender)
{
	int sock = peer_receive_descriptor(parent);

	begin_with_port();
	CUmemoryPool pool = make_pool();
	ASSERT_OK(cenote_send_pool(sock, pool));
	peer_expect(parent, "block");
	ASSERT_OK(cenote_send_block(sock, allocate(pool, MIB, 1), make_event(IPC_EVENT)));
	ASSERT_OK(cenote_send_block(sock, allocate(pool, MIB, 1), NULL));
	peer_send(parent, "sent");
	peer_expect(parent, "nothing more");
}

/* Goal: what is on the way when its sender is killed is refused with the reason. */
TEST(a_sender_that_is_gone_is_said)
{
	struct peer *peer = peer_start("sender");
	CUmemoryPool imported;
	CUdeviceptr taken = 77;
	CUevent ready = (CUevent)0x77;
	int ends[2];

	begin();
	make_pair(SOCK_STREAM, ends);
	peer_send_descriptor(peer, ends[1]);
	close(ends[1]);
	ASSERT_OK(cenote_recv_pool(ends[0], &imported));
	peer_send(peer, "block");
	peer_expect(peer, "sent");
	peer_kill(peer);
	CUresult result = cenote_recv_block(ends[0], imported, &taken, &ready);
	ASSERT_NE(CUDA_SUCCESS, result);
	if (!test_has_gpu()) /* whose driver opens a dead process's event: the block it is that cannot be had */
		ASSERT_EQ(CUDA_ERROR_MAP_FAILED, result);
	result = cenote_recv_block(ends[0], imported, &taken, &ready);
	ASSERT(result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_OPERATING_SYSTEM);
	ASSERT_CONTAINS("exporter", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_recv_block(ends[0], imported, &taken, &ready));
	ASSERT_CONTAINS("closed the connection", cenote_last_error());
	ASSERT_EQ(77, taken);
	ASSERT_EQ(0x77, (uintptr_t)ready);
	destroy_pool(imported);
	close(ends[0]);
}
