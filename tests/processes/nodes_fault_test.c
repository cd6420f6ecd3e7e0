/* SPDX-License-Identifier: MIT */
/*
 * Memory between machines when a node dies, falls silent or is a stranger: see nodes_test.c for what works.
 */
#include "../nodes.h"
#include "../vmm.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

enum { MEMORY = VMM_GRAIN, BYTE = 0x3c, OF_NODE_MAX = 4, CLOSES = 600 };

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

/* The channel, the connection to the daemon and its lanes stay open for as long as the process lives. */
static void start(void)
{
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
}

ROLE(exporter)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, FABRIC);
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;

	start();
	ASSERT_OK(cuMemCreate(&handle, MEMORY, &properties, 0));
	CUdeviceptr address = vmm_map(handle, MEMORY, VMM_WRITE);
	vmm_fill(address, BYTE, MEMORY);
	ASSERT_OK(cuMemExportToShareableHandle(&name, handle, FABRIC, 0));
	peer_send_bytes(parent, &name, sizeof name);
	peer_expect(parent, "end");
	ASSERT_EQ(BYTE, vmm_byte(address + MEMORY - 1));
	vmm_unmap(address, MEMORY);
	ASSERT_OK(cuMemRelease(handle));
}

static struct peer *start_exporter(unsigned node, CUmemFabricHandle *ret_name)
{
	nodes_enter(node);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, ret_name, sizeof *ret_name);
	return exporter;
}

static CUmemGenericAllocationHandle import(const CUmemFabricHandle *name)
{
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle copy = *name;

	ASSERT_OK(cuMemImportFromShareableHandle(&handle, &copy, FABRIC));
	return handle;
}

/* Copies until it fails; a second stream waits for a value that never comes. Then it imports again. */
ROLE(survivor)
{
	CUmemFabricHandle name;
	CUstream waits, copies;
	unsigned char byte = 0;
	CUresult result = CUDA_SUCCESS;

	peer_receive_bytes(parent, &name, sizeof name);
	start();
	CUmemGenericAllocationHandle handle = import(&name);
	CUdeviceptr far = vmm_map(handle, MEMORY, VMM_WRITE);
	ASSERT_OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamWaitValue32(waits, far, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (unsigned round = 0; !result; round++) {
		result = cuMemcpyDtoH(&byte, far + round % MEMORY, 1);
		if (!result)
			ASSERT_EQ(BYTE, byte);
		if (round == 3)
			peer_send(parent, "copying");
	}
	ASSERT_EQ(CUDA_ERROR_EXTERNAL_DEVICE, result);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuStreamSynchronize(waits));
	ASSERT_OK(cuMemsetD8Async(far, 1, MEMORY, copies)); /* fails in its stream */
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuStreamSynchronize(copies));
	peer_send(parent, "failed");
	peer_expect(parent, "it is back");
	/* What was imported before stays lost; the same handle leads to the memory again. */
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuMemcpyDtoH(&byte, far, 1));
	CUmemGenericAllocationHandle anew = import(&name);
	CUdeviceptr again = vmm_map(anew, MEMORY, VMM_WRITE);
	ASSERT_EQ(BYTE, vmm_byte(again + MEMORY - 1));
	vmm_unmap(again, MEMORY);
	ASSERT_OK(cuMemRelease(anew));
	vmm_unmap(far, MEMORY);
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_OK(cuStreamDestroy(copies));
	ASSERT_OK(cuStreamDestroy(waits));
}

static struct peer *start_survivor(unsigned node, const CUmemFabricHandle *name)
{
	nodes_enter(node);
	struct peer *importer = peer_start("survivor");
	peer_send_bytes(importer, name, sizeof *name);
	peer_expect(importer, "copying");
	return importer;
}

/* ---- Nodes that die ---------------------------------------------------------------------------------------------- */

TEST(a_killed_node_fails_what_waits_for_it, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importer = start_survivor(2, &name);
	nodes_end(&nodes[0], SIGKILL);
	peer_expect(importer, "failed");
	nodes_await(&nodes[1], "node 1 is gone");
	nodes_start(1, &nodes[0]);
	nodes_await(&nodes[0], "node 2 is up");
	nodes_await(&nodes[1], "node 1 is up");
	peer_send(importer, "it is back");
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* A daemon that is stopped is what a cut cable looks like to the other. */
TEST(a_silent_node_fails_what_waits_for_it, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(2, &name), *importer = start_survivor(1, &name);
	ASSERT_SYS(kill(nodes[1].daemon, SIGSTOP));
	peer_expect(importer, "failed");
	nodes_await(&nodes[0], "node 2 is gone");
	ASSERT_SYS(kill(nodes[1].daemon, SIGCONT));
	nodes_await(&nodes[0], "node 2 is up");
	peer_send(importer, "it is back");
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* The importer's own daemon. */
TEST(a_killed_daemon_fails_what_its_programs_asked, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importer = start_survivor(2, &name);
	nodes_end(&nodes[1], SIGKILL);
	peer_expect(importer, "failed");
	nodes_start(2, &nodes[1]);
	nodes_await(&nodes[1], "node 1 is up");
	peer_send(importer, "it is back");
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

static void expect_refused(CUmemFabricHandle *name, const char *words)
{
	CUmemGenericAllocationHandle handle;

	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemImportFromShareableHandle(&handle, name, FABRIC));
	ASSERT_CONTAINS(words, cenote_last_error());
}

static void import_and_read(const CUmemFabricHandle *name)
{
	CUmemGenericAllocationHandle handle = import(name);
	CUdeviceptr far = vmm_map(handle, MEMORY, VMM_WRITE);

	ASSERT_EQ(BYTE, vmm_byte(far + MEMORY - 1));
	vmm_unmap(far, MEMORY);
	ASSERT_OK(cuMemRelease(handle));
}

/* Has memory of an exporter that dies with its node, and then uses that of another one there, whose daemon dies. */
ROLE(heir)
{
	CUmemFabricHandle old, fresh;
	unsigned char byte;

	peer_receive_bytes(parent, &old, sizeof old);
	start();
	CUmemGenericAllocationHandle handle = import(&old);
	CUdeviceptr far = vmm_map(handle, MEMORY, VMM_WRITE);
	ASSERT_EQ(BYTE, vmm_byte(far));
	peer_send(parent, "imported");
	peer_expect(parent, "it is gone");
	expect_refused(&old, "node 1, which is not connected");
	peer_send(parent, "refused");
	peer_receive_bytes(parent, &fresh, sizeof fresh);
	expect_refused(&old, "the exporter on node 1 is gone");
	import_and_read(&fresh);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuMemcpyDtoH(&byte, far, 1));
	vmm_unmap(far, MEMORY);
	ASSERT_OK(cuMemRelease(handle));
	peer_send(parent, "read");
	peer_expect(parent, "its daemon is another");
	import_and_read(&fresh);
	expect_refused(&old, "the exporter on node 1 is gone");
}

/* Node 1 is started again, and both see each other. */
static void start_again(struct nodes_one nodes[2])
{
	nodes_start(1, &nodes[0]);
	nodes_await(&nodes[0], "node 2 is up");
	nodes_await(&nodes[1], "node 1 is up");
}

/* Goal: a handle is good while its exporter lives, whatever its daemon does; a later exporter does not answer to it. */
TEST(a_handle_ends_with_its_exporter_and_not_with_a_daemon, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle old, fresh;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &old);
	nodes_enter(2);
	struct peer *importer = peer_start("heir");
	peer_send_bytes(importer, &old, sizeof old);
	peer_expect(importer, "imported");
	nodes_end(&nodes[0], SIGKILL);
	peer_kill(exporter);
	nodes_await(&nodes[1], "node 1 is gone");
	peer_send(importer, "it is gone");
	peer_expect(importer, "refused");
	start_again(nodes);
	exporter = start_exporter(1, &fresh);
	peer_send_bytes(importer, &fresh, sizeof fresh);
	peer_expect(importer, "read");
	nodes_end(&nodes[0], SIGKILL);
	nodes_await(&nodes[1], "node 1 is gone");
	start_again(nodes);
	peer_send(importer, "its daemon is another");
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* Asks its daemon until it says so much of another node; the test's time limit is the end of it. */
ROLE(watcher)
{
	unsigned number = (unsigned)atoi(argv[0]);
	cenote_imex_node node;

	leaks_watch(LEAK_DEFAULT & ~(unsigned)LEAK_DESCRIPTORS);
	do
		ASSERT_OK(cenote_imex_look(number, &node));
	while (node.import_count + node.served_count != (unsigned)atoi(argv[1]));
	ASSERT_EQ(number, node.number);
	ASSERT_EQ(2, node.node_count);
	ASSERT(node.is_up && !node.is_self);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_imex_look(3, &node));
}

static void expect_open(unsigned on_node, const char *number, const char *count)
{
	nodes_enter(on_node);
	peer_wait(peer_start("watcher", number, count));
}

/* Closes more at once than its connection to the daemon has room for, and then calls nothing. */
ROLE(leaver)
{
	static CUmemGenericAllocationHandle handles[CLOSES];
	CUmemFabricHandle name;

	peer_receive_bytes(parent, &name, sizeof name);
	start();
	for (int i = 0; i < CLOSES; i++)
		handles[i] = import(&name);
	peer_send(parent, "open");
	peer_expect(parent, "stopped");
	for (int i = 0; i < CLOSES; i++)
		ASSERT_OK(cuMemRelease(handles[i]));
	peer_send(parent, "closed");
	peer_expect(parent, "end");
}

/* Goal: what a program has released is closed on the other node, though its daemon did not read for a while. */
TEST(a_daemon_that_is_slow_to_read_closes_all, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	nodes_enter(2);
	struct peer *importer = peer_start("leaver");
	peer_send_bytes(importer, &name, sizeof name);
	peer_expect(importer, "open");
	ASSERT_SYS(kill(nodes[1].daemon, SIGSTOP));
	peer_send(importer, "stopped");
	peer_expect(importer, "closed");
	ASSERT_SYS(kill(nodes[1].daemon, SIGCONT));
	expect_open(2, "1", "0");
	expect_open(1, "2", "0");
	peer_end(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

TEST(a_killed_program_leaves_nothing, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importers[3];
	for (int i = 0; i < 3; i++)
		importers[i] = start_survivor(2, &name);
	expect_open(1, "2", "3"); /* served */
	expect_open(2, "1", "3"); /* imported */
	peer_kill(exporter);      /* the importers have the memory, and go on */
	peer_kill(importers[0]);
	expect_open(1, "2", "2");
	peer_kill(importers[1]);
	peer_kill(importers[2]);
	expect_open(1, "2", "0");
	expect_open(2, "1", "0");
	nodes_pair_end(nodes);
}

/* ---- Strangers --------------------------------------------------------------------------------------------------- */

/* Call at a node's port, from an address. */
static int call(unsigned node, const char *from)
{
	struct sockaddr_in own = {.sin_family = AF_INET},
			   there = {.sin_family = AF_INET, .sin_port = htons(NODES_PORT)};
	char address[32];
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_SYS(sock);
	nodes_address(node, address);
	ASSERT_EQ(1, inet_pton(AF_INET, from, &own.sin_addr));
	ASSERT_EQ(1, inet_pton(AF_INET, address, &there.sin_addr));
	ASSERT_SYS(bind(sock, (const struct sockaddr *)&own, sizeof own));
	ASSERT_SYS(connect(sock, (const struct sockaddr *)&there, sizeof there));
	return sock;
}

/* In place of a node: it takes calls, and says nothing. */
static int listen_as(unsigned node)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(NODES_PORT)};
	char address[32];
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_SYS(sock);
	nodes_address(node, address);
	char *port = strchr(address, ':');
	if (port) {
		*port = 0;
		own.sin_port = htons((uint16_t)atoi(port + 1));
	}
	ASSERT_EQ(1, inet_pton(AF_INET, address, &own.sin_addr));
	ASSERT_SYS(bind(sock, (const struct sockaddr *)&own, sizeof own));
	ASSERT_SYS(listen(sock, 4));
	return sock;
}

/* It is hung up on; what it was told before does not matter. */
static void expect_closed(int sock)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};
	char bytes[1024];
	ssize_t got;

	do {
		if (poll(&polled, 1, NODES_WAIT_MS) != 1)
			FAIL("a stranger was not hung up on");
		got = recv(sock, bytes, sizeof bytes, 0);
	} while (got > 0);
	close(sock);
}

/* Copies all the while. */
ROLE(worker)
{
	CUmemFabricHandle name;

	peer_receive_bytes(parent, &name, sizeof name);
	start();
	CUmemGenericAllocationHandle handle = import(&name);
	CUdeviceptr far = vmm_map(handle, MEMORY, VMM_WRITE);
	for (;;) {
		char word[8];
		peer_receive_bytes(parent, word, sizeof word);
		if (!strcmp(word, "end"))
			break;
		for (size_t at = 0; at < MEMORY; at += MEMORY / 64)
			ASSERT_EQ(BYTE, vmm_byte(far + at));
		peer_send(parent, "works");
	}
	vmm_unmap(far, MEMORY);
	ASSERT_OK(cuMemRelease(handle));
}

static void expect_works(struct peer *worker)
{
	peer_send_bytes(worker, "go\0\0\0\0\0", 8);
	peer_expect(worker, "works");
}

TEST(strangers_at_the_port_get_nothing, .timeout_ms = 60000)
{
	static const unsigned char half_hello[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
	struct test_random generator = test_random_start(1);
	int silent[OF_NODE_MAX], flood[OF_NODE_MAX];
	uint64_t noise[512];
	struct nodes_one nodes[2];
	CUmemFabricHandle name;
	char third[32];

	if (nodes_are_ucx())
		SKIP("UCX does not keep strangers out: docs/machines.md");
	nodes_prepare(3); /* the third never starts: the strangers have its address */
	nodes_address(3, third);
	nodes_start(1, &nodes[0]);
	nodes_start(2, &nodes[1]);
	nodes_await(&nodes[0], "node 2 is up");
	nodes_await(&nodes[1], "node 1 is up");
	struct peer *exporter = start_exporter(1, &name);
	nodes_enter(2);
	struct peer *worker = peer_start("worker");
	peer_send_bytes(worker, &name, sizeof name);
	expect_works(worker);

	expect_closed(call(1, "127.0.0.1")); /* not in the list */
	for (int i = 0; i < OF_NODE_MAX; i++)
		silent[i] = call(1, third);
	expect_closed(call(1, third)); /* one address has no more */
	expect_works(worker);
	ASSERT_EQ(sizeof half_hello, send(silent[0], half_hello, sizeof half_hello, MSG_NOSIGNAL));
	expect_works(worker);
	for (int i = 0; i < OF_NODE_MAX; i++)
		expect_closed(silent[i]); /* their time is over */
	for (int i = 0; i < OF_NODE_MAX; i++)
		flood[i] = call(1, third);
	for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
		noise[i] = test_random_next(&generator);
	for (int i = 0; i < 64 * OF_NODE_MAX; i++)
		if (send(flood[i % OF_NODE_MAX], noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			ASSERT(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	expect_works(worker);
	for (int i = 0; i < OF_NODE_MAX; i++)
		expect_closed(flood[i]);
	expect_works(worker);

	peer_send_bytes(worker, "end\0\0\0\0", 8);
	peer_wait(worker);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* Take the next call. */
static int take_call(int listener)
{
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	ASSERT_SYS(sock);
	return sock;
}

/* The node is called, and hangs up. */
static void hang_up_on(int listener, int times)
{
	for (int i = 0; i < times; i++)
		close(take_call(listener));
}

/* Read the log to its end: so many of its lines were counted. */
static void end_and_count(struct nodes_one *node, unsigned expected)
{
	nodes_end(node, SIGTERM);
	ASSERT_EQ(expected, node->count);
}

/* Goal: the log names a node that takes calls and shows nothing: it may run another transport. Then another reason. */
TEST(something_silent_in_a_nodes_place_is_named, .timeout_ms = 60000)
{
	struct nodes_one node;

	nodes_prepare(2);
	int listener = listen_as(2);
	nodes_start(1, &node);
	nodes_count(&node, "a connection to node 2 failed: ");
	int silent = take_call(listener);
	nodes_await(&node, nodes_are_ucx() ? "no answer" : "what listens there is silent");
	close(silent);
	hang_up_on(listener, 2);
	if (!nodes_are_ucx()) /* UCX does not know that this is another reason */
		nodes_await(&node, "not the same key or transport");
	end_and_count(&node, nodes_are_ucx() ? 1 : 2);
	close(listener);
}

/* Goal: a reason is in the log once, however often it is found. */
TEST(the_log_says_once_why_a_node_does_not_come_up, .timeout_ms = 60000)
{
	struct nodes_one node;

	nodes_prepare(2);
	int listener = listen_as(2);
	nodes_start(1, &node);
	nodes_count(&node, "a connection to node 2 failed: ");
	hang_up_on(listener, nodes_are_ucx() ? 8 : 4); /* over UCX it is said after 4 seconds */
	nodes_await(&node, "a connection to node 2 failed: ");
	hang_up_on(listener, 1);
	end_and_count(&node, 1);
	close(listener);
}
