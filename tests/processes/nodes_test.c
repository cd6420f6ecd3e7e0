/* SPDX-License-Identifier: MIT */
/*
 * Memory between machines: an exporter on one node, an importer on another, and everything that can go wrong between.
 *
 * The nodes are on this machine (nodes.h): each has a daemon, and the daemons talk over the loopback network as they
 * would over any other. nodes_link_test.py has the same in network namespaces, with links that are cut.
 */
#include "../nodes.h"
#include "../vmm.h"
#include "cenote/cuda_runtime_api.h"

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

enum { MEMORY = 4 * VMM_GRAIN, WORDS = MEMORY / 8, SMALL = 30000, SMALL_COPIES = 2000, GROWTH_KIB_MAX = 16384 };
enum { WORDS_BYTES = 100 };

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	return vmm_map(handle, bytes, VMM_WRITE);
}

static void unmap(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle)
{
	vmm_unmap(address, bytes);
	ASSERT_OK(cuMemRelease(handle));
}

/* The channel, the connection to the daemon and its lanes stay open for as long as the process lives. */
static void start(void)
{
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
}

static uint64_t pattern(uint64_t seed, size_t i)
{
	return (seed + i) * 0x9e3779b97f4a7c15;
}

static uint64_t *make_words(size_t count, uint64_t seed)
{
	uint64_t *words = malloc(count * sizeof *words);

	ASSERT(words);
	for (size_t i = 0; i < count; i++)
		words[i] = pattern(seed, i);
	return words;
}

static void check_words(const uint64_t *words, size_t count, uint64_t seed)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] != pattern(seed, i))
			FAIL("word %zu of %zu is 0x%llx", i, count, (unsigned long long)words[i]);
}

/* Exports memory that begins with a pattern, and says what it finds there when asked. */
ROLE(exporter)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, FABRIC);
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;

	start();
	ASSERT_OK(cuMemCreate(&handle, MEMORY, &properties, 0));
	CUdeviceptr address = map(handle, MEMORY);
	uint64_t *words = make_words(WORDS, 1);
	ASSERT_OK(cuMemcpyHtoD(address, words, MEMORY));
	ASSERT_OK(cuMemExportToShareableHandle(&name, handle, FABRIC, 0));
	peer_send_bytes(parent, &name, sizeof name);
	for (;;) {
		uint64_t seed;
		peer_receive_bytes(parent, &seed, sizeof seed); /* of the pattern that it should find; 0: end */
		if (!seed)
			break;
		ASSERT_OK(cuMemcpyDtoH(words, address, MEMORY));
		check_words(words, WORDS, seed);
		peer_send(parent, "as expected");
	}
	free(words);
	unmap(address, MEMORY, handle);
}

static void expect_there(struct peer *exporter, uint64_t seed)
{
	peer_send_bytes(exporter, &seed, sizeof seed);
	peer_expect(exporter, "as expected");
}

static void end_exporter(struct peer *exporter)
{
	uint64_t none = 0;

	peer_send_bytes(exporter, &none, sizeof none);
	peer_wait(exporter);
}

static struct peer *start_exporter(unsigned node, CUmemFabricHandle *ret_name)
{
	nodes_enter(node);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, ret_name, sizeof *ret_name);
	return exporter;
}

static struct peer *start_importer(unsigned node, const char *role, const CUmemFabricHandle *name)
{
	nodes_enter(node);
	struct peer *importer = peer_start(role);
	peer_send_bytes(importer, name, sizeof *name);
	return importer;
}

/* Two nodes, an exporter on one, and an importer that plays its role to the end. */
static void import_once(unsigned exporter_node, unsigned importer_node, const char *role)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(exporter_node, &name);
	peer_wait(start_importer(importer_node, role, &name));
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

static CUmemGenericAllocationHandle import(struct peer *parent)
{
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;

	peer_receive_bytes(parent, &name, sizeof name);
	start();
	ASSERT_OK(cuMemImportFromShareableHandle(&handle, &name, FABRIC));
	return handle;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

ROLE(copier)
{
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY), near;
	CUstream stream;
	uint64_t *words = calloc(WORDS, sizeof *words);

	ASSERT(words);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemAlloc(&near, MEMORY));
	/* From there: to the program's memory, and to the device's. */
	ASSERT_OK(cuMemcpyDtoH(words, far, MEMORY));
	check_words(words, WORDS, 1);
	ASSERT_OK(cuMemcpyDtoDAsync(near, far, MEMORY, stream));
	memset(words, 0, MEMORY);
	ASSERT_OK(cuMemcpyDtoHAsync(words, near, MEMORY, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	check_words(words, WORDS, 1);
	/* To there, in stream order: the second overwrites the first. */
	free(words);
	words = make_words(WORDS, 2);
	ASSERT_OK(cuMemcpyHtoDAsync(near, words, MEMORY, stream));
	ASSERT_OK(cuMemsetD8Async(far, 0x5a, MEMORY, stream));
	ASSERT_OK(cuMemcpyDtoDAsync(far, near, MEMORY, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	peer_send(parent, "written");
	peer_expect(parent, "go on");
	/* Pieces that begin and end anywhere. */
	for (size_t i = 0; i < 200; i++) {
		size_t from = i * 40961 % (MEMORY - 70000), bytes = 1 + i * 331 % 69999;
		unsigned char *part = malloc(bytes);
		ASSERT(part);
		ASSERT_OK(cuMemcpyDtoH(part, far + from, bytes));
		ASSERT_MEMEQ((const char *)words + from, part, bytes);
		memset(part, (int)i, bytes);
		ASSERT_OK(cuMemcpyHtoD(far + from, part, bytes));
		memset(part, 0, bytes);
		ASSERT_OK(cuMemcpyDtoH(part, far + from, bytes));
		for (size_t at = 0; at < bytes; at++)
			ASSERT_EQ((unsigned char)i, part[at]);
		ASSERT_OK(cuMemcpyHtoD(far + from, (const char *)words + from, bytes));
		free(part);
	}
	/* Past the end there is nothing. */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(words, far + 8, MEMORY));
	ASSERT_OK(cuMemFree(near));
	ASSERT_OK(cuStreamDestroy(stream));
	free(words);
	unmap(far, MEMORY, handle);
}

TEST(memory_of_another_node_is_read_and_written)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importer = start_importer(2, "copier", &name);
	peer_expect(importer, "written");
	expect_there(exporter, 2);
	peer_send(importer, "go on");
	peer_wait(importer);
	expect_there(exporter, 2);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* Copies less than a rendezvous takes, from there and to there. */
ROLE(copier_of_small)
{
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY);
	char bytes[SMALL];

	for (int i = 0; i < SMALL_COPIES; i++) {
		ASSERT_OK(cuMemcpyDtoH(bytes, far, SMALL));
		ASSERT_OK(cuMemcpyHtoD(far, bytes, SMALL));
	}
	unmap(far, MEMORY, handle);
}

/* Memory of a process that no other has. */
static unsigned long private_kib(pid_t process)
{
	char path[64], line[256];
	unsigned long kib = 0;

	snprintf(path, sizeof path, "/proc/%d/status", process);
	FILE *file = fopen(path, "re");
	ASSERT(file);
	while (fgets(line, sizeof line, file) && sscanf(line, "RssAnon: %lu", &kib) != 1)
		;
	fclose(file);
	ASSERT(kib);
	return kib;
}

/* Goal: neither daemon keeps what it has passed on. */
TEST(copies_leave_no_memory_in_the_daemons, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;
	unsigned long before[2];

	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer keeps memory that was freed");
	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	for (int i = 0; i < 2; i++)
		before[i] = private_kib(nodes[i].daemon);
	peer_wait(start_importer(2, "copier_of_small", &name));
	for (int i = 0; i < 2; i++)
		ASSERT(private_kib(nodes[i].daemon) < before[i] + GROWTH_KIB_MAX);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* The handle of this node's memory leads to the memory itself, as it does without a daemon. */
ROLE(neighbour)
{
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr address = map(handle, MEMORY);

	check_words((const uint64_t *)(uintptr_t)address, WORDS, 1); /* it has pages */
	unmap(address, MEMORY, handle);
}

TEST(an_importer_on_the_same_node_maps_the_memory)
{
	import_once(2, 2, "neighbour");
}

/* ---- Fills, values, rows ----------------------------------------------------------------------------------------- */

ROLE(filler)
{
	enum { PITCH = 1000, WIDTH = 700, ROWS = 900 };
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY);
	unsigned char *bytes = malloc(MEMORY), *rows = malloc((size_t)WIDTH * ROWS);
	CUstream stream;

	ASSERT(bytes && rows);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemsetD32Async(far, 0x01020304, MEMORY / 4, stream));
	ASSERT_OK(cuMemsetD16Async(far + 2, 0x0506, 1, stream));
	ASSERT_OK(cuMemsetD2D8Async(far + 4096, PITCH, 7, WIDTH, ROWS, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemcpyDtoH(bytes, far, MEMORY));
	for (size_t i = 0; i < MEMORY; i++) {
		size_t row = (i - 4096) / PITCH, column = (i - 4096) % PITCH;
		unsigned expected = i == 2 ? 6 : i == 3 ? 5 : 4 - i % 4;
		if (i >= 4096 && row < ROWS && column < WIDTH)
			expected = 7;
		if (bytes[i] != expected)
			FAIL("byte %zu is %u and not %u", i, bytes[i], expected);
	}
	/* Rows, from there and back. */
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			     .srcDevice = far + 4096,
			     .srcPitch = PITCH,
			     .dstMemoryType = CU_MEMORYTYPE_HOST,
			     .dstHost = rows,
			     .dstPitch = WIDTH,
			     .WidthInBytes = WIDTH,
			     .Height = ROWS};
	ASSERT_OK(cuMemcpy2D(&box));
	for (size_t i = 0; i < (size_t)WIDTH * ROWS; i++)
		ASSERT_EQ(7, rows[i]);
	free(bytes);
	free(rows);
	ASSERT_OK(cuStreamDestroy(stream));
	unmap(far, MEMORY, handle);
}

TEST(fills_and_rows_of_another_node)
{
	import_once(2, 1, "filler"); /* the other way round: node 1 has connected */
}

enum { TURNS = 200 / HARNESS_SLOWDOWN, MAIL_BYTES = 4096 };

/*
 * Takes turns with the exporter: each message is bytes and then a word. The words are one after the other at the end of
 * the memory: the importer's, then the exporter's.
 */
ROLE(turn_taker)
{
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY), words = far + MEMORY - 16;
	unsigned char mail[MAIL_BYTES];
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		memset(mail, (int)turn, sizeof mail);
		ASSERT_OK(cuMemcpyHtoDAsync(far, mail, sizeof mail, stream));
		ASSERT_OK(cuStreamWriteValue32(stream, words, turn, 0));
		ASSERT_OK(cuStreamWaitValue64(stream, words + 8, turn, CU_STREAM_WAIT_VALUE_GEQ));
		memset(mail, 0, sizeof mail);
		ASSERT_OK(cuMemcpyDtoHAsync(mail, far + MAIL_BYTES, sizeof mail, stream));
		ASSERT_OK(cuStreamSynchronize(stream));
		for (size_t i = 0; i < sizeof mail; i++)
			ASSERT_EQ((unsigned char)(turn + 1), mail[i]);
	}
	ASSERT_OK(cuStreamDestroy(stream));
	unmap(far, MEMORY, handle);
}

ROLE(turn_giver)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, FABRIC);
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;
	unsigned char mail[MAIL_BYTES];
	CUstream stream;

	start();
	ASSERT_OK(cuMemCreate(&handle, MEMORY, &properties, 0));
	CUdeviceptr near = map(handle, MEMORY), words = near + MEMORY - 16;
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemExportToShareableHandle(&name, handle, FABRIC, 0));
	peer_send_bytes(parent, &name, sizeof name);
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		ASSERT_OK(cuStreamWaitValue32(stream, words, turn, CU_STREAM_WAIT_VALUE_GEQ));
		ASSERT_OK(cuMemcpyDtoHAsync(mail, near, sizeof mail, stream));
		ASSERT_OK(cuStreamSynchronize(stream));
		for (size_t i = 0; i < sizeof mail; i++)
			ASSERT_EQ((unsigned char)turn, mail[i]);
		ASSERT_OK(cuMemsetD8Async(near + MAIL_BYTES, (unsigned char)(turn + 1), MAIL_BYTES, stream));
		ASSERT_OK(cuStreamWriteValue64(stream, words + 8, turn, 0));
		ASSERT_OK(cuStreamSynchronize(stream));
	}
	peer_expect(parent, "end");
	ASSERT_OK(cuStreamDestroy(stream));
	unmap(near, MEMORY, handle);
}

/* More waits than a program has lanes, each ended by a write that needs one. */
ROLE(waiter_of_many)
{
	enum { STREAMS = 40 };
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY);
	CUstream waiting[STREAMS], writing;

	ASSERT_OK(cuMemsetD8(far, 0, VMM_GRAIN));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < STREAMS; i++) {
		ASSERT_OK(cuStreamCreate(&waiting[i], CU_STREAM_NON_BLOCKING));
		ASSERT_OK(cuStreamWaitValue32(waiting[i], far + 4 * i, 1, CU_STREAM_WAIT_VALUE_EQ));
	}
	for (unsigned i = STREAMS; i-- > 0;)
		ASSERT_OK(cuStreamWriteValue32(writing, far + 4 * i, 1, 0));
	ASSERT_OK(cuStreamSynchronize(writing));
	for (unsigned i = 0; i < STREAMS; i++) {
		ASSERT_OK(cuStreamSynchronize(waiting[i]));
		ASSERT_OK(cuStreamDestroy(waiting[i]));
	}
	ASSERT_OK(cuStreamDestroy(writing));
	unmap(far, MEMORY, handle);
}

/* Goal: what ends a wait has a lane, however many waits there are. */
TEST(many_waits_leave_a_lane_for_the_write_that_ends_them)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	peer_wait(start_importer(2, "waiter_of_many", &name));
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

TEST(two_nodes_take_turns_by_values)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	nodes_enter(1);
	struct peer *giver = peer_start("turn_giver");
	peer_receive_bytes(giver, &name, sizeof name);
	peer_wait(start_importer(2, "turn_taker", &name));
	peer_end(giver);
	nodes_pair_end(nodes);
}

/* ---- Who holds it ------------------------------------------------------------------------------------------------ */

/* Imports memory twice, and releases it one by one as it is told. With an argument it shares something itself. */
ROLE(holder)
{
	CUmemGenericAllocationHandle handles[2];
	CUmemFabricHandle name;
	CUipcMemHandle shared;
	CUdeviceptr memory;

	peer_receive_bytes(parent, &name, sizeof name);
	start();
	if (argc) {
		ASSERT_OK(cuMemAlloc(&memory, SMALL));
		ASSERT_OK(cuIpcGetMemHandle(&shared, memory));
	}
	ASSERT_OK(cuMemImportFromShareableHandle(&handles[0], &name, FABRIC));
	ASSERT_OK(cuMemImportFromShareableHandle(&handles[1], &name, FABRIC));
	peer_send(parent, "holding");
	for (int i = 0; i < 2; i++) {
		peer_expect(parent, "let go");
		ASSERT_OK(cuMemRelease(handles[i]));
	}
	peer_expect(parent, "end");
}

static void keep_held(const cenote_imex_held *held, void *data)
{
	cenote_imex_held *sum = data;

	sum->node = held->node;
	sum->bytes += held->bytes;
	ASSERT(held->inode);
}

/* What the daemon of the node says, by the call. */
ROLE(asker)
{
	cenote_imex_held sum = {0};

	leaks_watch(LEAK_DEFAULT & ~(unsigned)LEAK_DESCRIPTORS);
	ASSERT_OK(cenote_imex_survey(0, keep_held, &sum));
	ASSERT_EQ(atoi(argv[0]), sum.node);
	ASSERT_EQ(sum.node ? 2 * MEMORY : 0, sum.bytes);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_imex_survey(1, keep_held, &sum));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_imex_survey(0, NULL, NULL));
}

static void ask_node(unsigned node, const char *holder)
{
	nodes_enter(node);
	peer_wait(peer_start("asker", holder));
}

/* A program of this node has so much of node 1. */
static void expect_holder(unsigned node, const char *held)
{
	char text[256];

	snprintf(text, sizeof text, "{\"what\": \"physical\", \"pool\": null, \"node\": 1, \"orphaned\": false, %s",
		 held);
	nodes_enter(node);
	nodes_await_shown("--json", true, text);
	nodes_await_shown("", true, "node 1");
}

/* Goal: both nodes show which holds memory of the other, until it is released. */
TEST(the_command_shows_which_nodes_hold_memory, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importer = start_importer(2, "holder", &name);
	peer_expect(importer, "holding");
	ask_node(1, "2");
	ask_node(2, "0");
	nodes_enter(1);
	nodes_await_shown("--json", true, "\"nodes\": [{\"node\": 2, \"imports\": 2}]");
	nodes_await_shown("", true, "  -       -        -               node 2                       1   8.0M");
	expect_holder(2, "\"held\": 2, \"held_bytes\": 16777216");
	peer_send(importer, "let go");
	nodes_enter(1);
	nodes_await_shown("--json", true, "\"nodes\": [{\"node\": 2, \"imports\": 1}]");
	expect_holder(2, "\"held\": 1, \"held_bytes\": 8388608");
	peer_send(importer, "let go");
	nodes_await_shown("--json", false, "\"what\": \"physical\"");
	nodes_enter(1);
	nodes_await_shown("--json", false, "{\"node\": 2,");
	peer_send(importer, "end");
	peer_wait(importer);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* Goal: a process that shares something is shown with what it has of another node, too. */
TEST(the_command_shows_memory_of_another_node_in_a_sharer, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	nodes_enter(2);
	struct peer *importer = peer_start("holder", "shares");
	peer_send_bytes(importer, &name, sizeof name);
	peer_expect(importer, "holding");
	expect_holder(2, "\"held\": 2, \"held_bytes\": 16777216");
	peer_kill(importer);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* Goal: memory that the exporter has left behind is shown with its node as long as the daemon holds it. */
TEST(the_command_shows_nodes_that_hold_memory_without_its_exporter, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name), *importer = start_importer(2, "holder", &name);
	peer_expect(importer, "holding");
	end_exporter(exporter);
	nodes_enter(1);
	nodes_await_shown("--json", true, "\"nodes\": [{\"node\": 2, \"imports\": 2}]");
	peer_kill(importer);
	nodes_await_shown("--json", false, "{\"node\": 2,");
	nodes_pair_end(nodes);
}

/* ---- What is refused --------------------------------------------------------------------------------------------- */

static void take_pointer(const cenote_thread *at, void **args)
{
	(void)at;
	(void)args;
}
CENOTE_KERNEL(take_pointer, CUdeviceptr);

ROLE(launcher)
{
	CUmemGenericAllocationHandle handle = import(parent);
	CUdeviceptr far = map(handle, MEMORY), inside = far + 4096, near;
	void *arguments[] = {&inside};
	const dim3 one = {1, 1, 1};

	ASSERT_ERROR(cudaErrorNotSupported,
		     cudaLaunchKernel((const void *)(uintptr_t)take_pointer, one, one, arguments, 0, NULL));
	ASSERT_CONTAINS("is memory of another machine", cenote_last_error());
	ASSERT_OK(cuMemAlloc(&near, 4096));
	arguments[0] = &near;
	ASSERT_OK(cudaLaunchKernel((const void *)(uintptr_t)take_pointer, one, one, arguments, 0, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemFree(near));
	unmap(far, MEMORY, handle);
}

TEST(a_kernel_cannot_have_memory_of_another_node)
{
	import_once(1, 2, "launcher");
}

ROLE(refused)
{
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;
	char words[WORDS_BYTES];
	CUresult expected;

	peer_receive_bytes(parent, &name, sizeof name);
	peer_receive_bytes(parent, &expected, sizeof expected);
	peer_receive_bytes(parent, words, sizeof words);
	start();
	ASSERT_ERROR(expected, cuMemImportFromShareableHandle(&handle, &name, FABRIC));
	printf("%s\n", cenote_last_error());
	ASSERT_CONTAINS(words, cenote_last_error());
}

/* Tell an importer that has the handle what it will see. */
static void finish_refused(struct peer *importer, CUresult expected, const char *words)
{
	char sent[WORDS_BYTES] = "";

	snprintf(sent, sizeof sent, "%s", words);
	peer_send_bytes(importer, &expected, sizeof expected);
	peer_send_bytes(importer, sent, sizeof sent);
	peer_wait(importer);
}

static void expect_refused(unsigned node, const CUmemFabricHandle *name, const char *words)
{
	finish_refused(start_importer(node, "refused", name), CUDA_ERROR_NOT_SUPPORTED, words);
}

TEST(a_changed_handle_opens_nothing)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name, changed;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	for (size_t at = 0; at < sizeof name; at += 9) {
		changed = name;
		changed.data[at] ^= 0x10;
		expect_refused(2, &changed, "");
	}
	end_exporter(exporter);
	expect_refused(2, &name, "the exporter on node 1 is gone");
	nodes_pair_end(nodes);
}

/* Goal: a refusal names the daemon that is missing, on either side, and no exporter that lives as gone alone. */
TEST(a_refusal_says_that_a_daemon_is_missing)
{
	struct nodes_one node;
	CUmemFabricHandle name;

	nodes_prepare(2);
	nodes_start(1, &node);
	nodes_await(&node, "node 1 of 2");
	struct peer *exporter = start_exporter(1, &name);
	expect_refused(2, &name, "or on another machine: the fabric handle is of node 1, and cenote-imexd");
	expect_refused(2, &name, "cannot be asked: it does not run here");
	end_exporter(exporter);
	expect_refused(1, &name, "the exporter is gone, or uses another fabric directory");
	exporter = start_exporter(2, &name); /* its machine has no daemon */
	expect_refused(1, &name, "exported without cenote-imexd, so only the exporter's machine can import it");
	peer_wait(start_importer(2, "neighbour", &name));
	end_exporter(exporter);
	expect_refused(2, &name, "the exporter is gone, or uses another fabric directory");
	nodes_end(&node, SIGTERM);
}

TEST(without_the_channel_nothing_is_opened)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &name);
	ASSERT_SYS(mkdir(nodes_path(0, "other"), 0700));
	nodes_write(nodes_path(0, "other/channel0"), ""); /* the same number, another file */
	nodes_enter(2);
	setenv("CENOTE_IMEX_DIR", nodes_path(0, "other"), 1);
	struct peer *importer = peer_start("refused");
	peer_send_bytes(importer, &name, sizeof name);
	finish_refused(importer, CUDA_ERROR_NOT_PERMITTED, "IMEX channel");
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

TEST(a_node_with_another_key_does_not_come_up)
{
	struct nodes_one nodes[2];
	CUmemFabricHandle name;

	if (nodes_are_ucx())
		SKIP("over UCX there is no key");
	nodes_prepare(2);
	nodes_write(nodes_path(0, "other"), "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
	nodes_start(1, &nodes[0]);
	nodes_start_with(2, nodes_path(0, "nodes.cfg"), nodes_path(0, "other"), &nodes[1]);
	nodes_await(&nodes[0], "not the same key");
	struct peer *exporter = start_exporter(1, &name);
	expect_refused(2, &name, "node 1, which is not connected");
	end_exporter(exporter);
	/* With the right one it does; and after that the log has the same reason again. */
	nodes_end(&nodes[1], SIGTERM);
	nodes_start(2, &nodes[1]);
	nodes_await(&nodes[0], "node 2 is up");
	nodes_end(&nodes[1], SIGTERM);
	nodes_await(&nodes[0], "node 2 is gone");
	nodes_start_with(2, nodes_path(0, "nodes.cfg"), nodes_path(0, "other"), &nodes[1]);
	nodes_await(&nodes[0], "not the same key");
	nodes_pair_end(nodes);
}

TEST(a_node_with_another_list_does_not_come_up)
{
	struct nodes_one nodes[2];
	char list[128], first[32], second[32], third[32];

	nodes_prepare(2);
	nodes_address(1, first);
	nodes_address(2, second);
	nodes_address(3, third);
	snprintf(list, sizeof list, "%s\n%s\n%s\n", first, second, third);
	nodes_write(nodes_path(0, "other.cfg"), list);
	nodes_start(1, &nodes[0]);
	nodes_start_with(2, nodes_path(0, "other.cfg"), nodes_path(0, "key"), &nodes[1]);
	nodes_await(&nodes[1], "another list");
	nodes_pair_end(nodes);
}
