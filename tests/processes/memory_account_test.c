/* SPDX-License-Identifier: MIT */
/*
 * One account for one device: what processes take of it together.
 *
 * A taker is a peer that takes and gives back what the test tells it, and says what it sees of the device. So a test
 * reads as one story of several processes.
 */
#include "../share.h"
#include "../vmm.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { MIB = 1 << 20, DEVICE_MIB = 64, PIECES_MAX = 64 };

enum order { TAKE, GIVE, LOOK, END };

struct command {
	enum order order;
	unsigned piece, mib;
};

struct answer {
	CUresult result;
	size_t free_bytes, total_bytes;
	char sentence[200];
};

static void start(const char *memory)
{
	CUcontext context;

	if (memory)
		setenv("CENOTE_HOST_MEMORY", memory, 1);
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
}

static unsigned free_mib(void)
{
	size_t free_bytes, total_bytes;

	ASSERT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
	ASSERT_EQ(0, free_bytes % MIB);
	ASSERT_LE(free_bytes, total_bytes);
	return (unsigned)(free_bytes / MIB);
}

static CUdeviceptr take(unsigned mib)
{
	CUdeviceptr address;

	ASSERT_OK(cuMemAlloc(&address, (size_t)mib * MIB));
	return address;
}

/* Its argument is CENOTE_HOST_MEMORY. */
ROLE(taker)
{
	CUdeviceptr pieces[PIECES_MAX];
	struct command command;

	leaks_watch(0); /* it may end with what it has */
	start(argc ? argv[0] : NULL);
	for (;;) {
		struct answer answer = {0};
		peer_receive_bytes(parent, &command, sizeof command);
		if (command.order == END)
			return;
		if (command.order == TAKE)
			answer.result = cuMemAlloc(&pieces[command.piece], (size_t)command.mib * MIB);
		if (command.order == GIVE)
			answer.result = cuMemFree(pieces[command.piece]);
		if (answer.result)
			snprintf(answer.sentence, sizeof answer.sentence, "%s", cenote_last_error());
		ASSERT_OK(cuMemGetInfo(&answer.free_bytes, &answer.total_bytes));
		peer_send_bytes(parent, &answer, sizeof answer);
	}
}

static struct answer tell(struct peer *taker, enum order order, unsigned piece, unsigned mib)
{
	struct command command = {.order = order, .piece = piece, .mib = mib};
	struct answer answer;

	peer_send_bytes(taker, &command, sizeof command);
	peer_receive_bytes(taker, &answer, sizeof answer);
	return answer;
}

static unsigned free_seen_by(struct peer *taker)
{
	return (unsigned)(tell(taker, LOOK, 0, 0).free_bytes / MIB);
}

static void end(struct peer *taker)
{
	struct command command = {.order = END};

	peer_send_bytes(taker, &command, sizeof command);
	peer_wait(taker);
}

/* ---- Two processes ---- */

/* Goal: two processes together get no more than the device has, and the error says how much the other has. */
TEST(two_processes_share_a_device)
{
	start("64M");
	struct peer *taker = peer_start("taker", "64M");

	ASSERT_OK(tell(taker, TAKE, 0, 40).result);
	CUdeviceptr address;
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 40 * MIB));
	ASSERT_CONTAINS("41943040 of them from other processes", cenote_last_error());
	address = take(24);
	struct answer answer = tell(taker, TAKE, 1, 2);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, answer.result);
	ASSERT_CONTAINS("25165824 of them from other processes", answer.sentence);
	ASSERT_OK(tell(taker, GIVE, 0, 0).result);
	CUdeviceptr more = take(40);
	ASSERT_EQ(0, free_mib());
	ASSERT_OK(cuMemFree(more));
	ASSERT_OK(cuMemFree(address));
	ASSERT_EQ(DEVICE_MIB, free_seen_by(taker));
	end(taker);
}

/* Goal: pools and physical memory are taken of the same. */
TEST(all_kinds_of_memory_count)
{
	start("128M");
	struct peer *taker = peer_start("taker", "128M");

	ASSERT_OK(tell(taker, TAKE, 0, 64).result);
	CUmemoryPool pool = share_pool(0);
	CUdeviceptr block = share_allocate(pool, 1, NULL), refused;
	ASSERT_EQ(128 - 64 - 32, free_mib());
	CUmemGenericAllocationHandle handle = vmm_create(32 * MIB);
	ASSERT_EQ(0, free_seen_by(taker));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&refused, 32 * MIB, pool, NULL));
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_EQ(64, free_mib());
	end(taker);
	ASSERT_EQ(128, free_mib());
}

/* Goal: what a process takes, each other process sees; what it frees, or has when it ends or is killed, is free. */
TEST(memory_information_is_the_same_for_all)
{
	start("64M");
	struct peer *takers[2] = {peer_start("taker", "64M"), peer_start("taker", "64M")};

	CUdeviceptr address = take(8);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(DEVICE_MIB - 8, free_seen_by(takers[i]));
	ASSERT_OK(tell(takers[0], TAKE, 0, 16).result);
	ASSERT_EQ(DEVICE_MIB - 24, free_mib());
	ASSERT_EQ(DEVICE_MIB - 24, free_seen_by(takers[1]));
	ASSERT_OK(tell(takers[0], GIVE, 0, 0).result);
	ASSERT_EQ(DEVICE_MIB - 8, free_mib());
	ASSERT_OK(tell(takers[0], TAKE, 0, 16).result);
	ASSERT_OK(tell(takers[1], TAKE, 0, 16).result);
	ASSERT_EQ(DEVICE_MIB - 40, free_mib());
	end(takers[0]); /* without a free */
	ASSERT_EQ(DEVICE_MIB - 24, free_mib());
	peer_kill(takers[1]);
	ASSERT_EQ(DEVICE_MIB - 8, free_mib());
	ASSERT_OK(cuMemFree(address));
	ASSERT_EQ(DEVICE_MIB, free_mib());
}

/* A byte to a process that was forked, or from it. */
static void pass(int pipe_end, bool writes)
{
	char byte = 0;

	ASSERT_EQ(1, writes ? write(pipe_end, &byte, 1) : read(pipe_end, &byte, 1));
}

enum { GIB = 1 << 30 };

/* Take two GiB of each device; or look whether another process has. */
static void use_both(CUdeviceptr pieces[2], bool takes)
{
	size_t free_bytes, total_bytes;
	CUcontext context;

	ASSERT_OK(cuInit(0));
	for (int device = 0; device < 2; device++) {
		ASSERT_OK(cuDevicePrimaryCtxRetain(&context, device));
		ASSERT_OK(cuCtxSetCurrent(context));
		if (takes)
			ASSERT_OK(cuMemAlloc(&pieces[device], 2u * GIB));
		ASSERT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
		ASSERT_EQ(2u * GIB, total_bytes - free_bytes);
	}
}

/*
 * Goal: processes that were forked before either of them called us see each other's memory, in each device: what the
 * parent has taken, and what the child has taken, until it has freed it, or has ended. HIP's suite asks the same, with
 * hipMemGetInfo().
 */
TEST(forked_first_they_see_each_other)
{
	int to_child[2], to_parent[2], status;
	CUdeviceptr pieces[2] = {0};

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	setenv("CENOTE_HOST_MEMORY", "8G", 1);
	ASSERT_SYS(pipe2(to_child, O_CLOEXEC));
	ASSERT_SYS(pipe2(to_parent, O_CLOEXEC));
	pid_t child = fork();
	ASSERT_SYS(child);
	if (!child) {
		pass(to_child[0], false);
		use_both(NULL, false); /* the parent's */
		pass(to_parent[1], true);
		pass(to_child[0], false); /* it has freed */
		use_both(pieces, true);
		pass(to_parent[1], true);
		pass(to_child[0], false); /* it has looked */
		ASSERT_OK(cuMemFree(pieces[1]));
		pass(to_parent[1], true);
		pass(to_child[0], false);
		_exit(0);
	}
	use_both(pieces, true);
	pass(to_child[1], true);
	pass(to_parent[0], false);
	for (int device = 0; device < 2; device++)
		ASSERT_OK(cuMemFree(pieces[device]));
	pass(to_child[1], true);
	pass(to_parent[0], false);
	use_both(NULL, false); /* the child's; device 1 is current now */
	pass(to_child[1], true);
	pass(to_parent[0], false);
	ASSERT_EQ(8 * 1024, free_mib());
	pass(to_child[1], true);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CUcontext context;
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_EQ(8 * 1024, free_mib()); /* it ended without a free */
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

/* Two devices. */
ROLE(taker_of_two)
{
	CUcontext context;

	leaks_watch(0);
	setenv("CENOTE_HOST_DEVICES", "2", 1);
	start("64M");
	take(4);
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 1));
	ASSERT_OK(cuCtxSetCurrent(context));
	take(6);
	peer_send(parent, "taken");
	peer_expect(parent, "end");
}

/* Goal: each device has an account, also where a process sees them in another order. */
TEST(devices_have_accounts_of_their_own)
{
	CUcontext context;

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
	start("64M");
	unsetenv("CUDA_VISIBLE_DEVICES");
	struct peer *taker = peer_start("taker_of_two");
	peer_expect(taker, "taken");
	ASSERT_EQ(DEVICE_MIB - 6, free_mib());
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 1));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_EQ(DEVICE_MIB - 4, free_mib());
	peer_end(taker);
	ASSERT_EQ(DEVICE_MIB, free_mib());
}

/* Goal: another size or another directory is another device. */
TEST(other_sizes_and_directories_are_other_devices)
{
	start("64M");
	struct peer *larger = peer_start("taker", "128M");

	setenv("CENOTE_RUNTIME_DIR", test_path("elsewhere"), 1);
	struct peer *elsewhere = peer_start("taker", "64M");
	ASSERT_OK(tell(larger, TAKE, 0, 64).result);
	ASSERT_OK(tell(elsewhere, TAKE, 0, 64).result);
	ASSERT_EQ(DEVICE_MIB, free_mib());
	CUdeviceptr address = take(64);
	ASSERT_EQ(64, free_seen_by(larger));
	end(larger);
	end(elsewhere);
	ASSERT_EQ(0, test_file_count(test_path("elsewhere")));
	ASSERT_SYS(rmdir(test_path("elsewhere")));
	ASSERT_OK(cuMemFree(address));
}

/* Goal: where there is no directory, a process counts alone. */
TEST(without_a_directory_a_process_counts_alone)
{
	struct peer *taker = peer_start("taker", "64M");

	ASSERT_OK(tell(taker, TAKE, 0, 32).result);
	setenv("CENOTE_RUNTIME_DIR", "/proc/no/directory", 1);
	start("64M");
	ASSERT_STREQ("", cenote_last_error());
	ASSERT_EQ(DEVICE_MIB, free_mib());
	CUdeviceptr address = take(64), more;
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, MIB));
	ASSERT_CONTAINS("has 67108864 of 67108864 bytes in use: no room", cenote_last_error());
	ASSERT_OK(cuMemFree(address));
	ASSERT_EQ(DEVICE_MIB, free_mib());
	ASSERT_EQ(DEVICE_MIB - 32, free_seen_by(taker));
	end(taker);
}

struct apart {
	int error;
	pid_t pid;
};

/*
 * A process whose child is process 1 of another PID namespace: a taker, which answers the test in its place. It says
 * why there is none, or 0 and the taker's PID.
 */
ROLE(taker_apart)
{
	static const char *const arguments[] = {"peer", "--role", "taker", "64M", NULL};
	struct apart apart = {.error = unshare(CLONE_NEWPID) ? errno : 0};
	posix_spawn_file_actions_t actions;

	ASSERT_EQ(0, posix_spawn_file_actions_init(&actions));
	ASSERT_EQ(0, posix_spawn_file_actions_adddup2(&actions, PEER_CHANNEL_FD, PEER_CHANNEL_FD));
	if (!apart.error)
		ASSERT_EQ(0,
			  posix_spawn(&apart.pid, "/proc/self/exe", &actions, NULL, (char *const *)arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	peer_send_bytes(parent, &apart, sizeof apart);
	if (!apart.error)
		ASSERT_EQ(apart.pid, waitpid(apart.pid, NULL, 0));
	_exit(0); /* a sanitizer would look for leaks from a child, and there can be none in that namespace any more */
}

/* Goal: it does not matter whether processes can see each other's PIDs. */
TEST(pid_namespaces_do_not_matter)
{
	struct apart apart;

	start("64M");
	struct peer *taker = peer_start("taker_apart", "64M");
	peer_receive_bytes(taker, &apart, sizeof apart);
	if (apart.error) {
		peer_wait(taker);
		SKIP("no PID namespace can be made here: %s", strerror(apart.error));
	}
	ASSERT_OK(tell(taker, TAKE, 0, 40).result);
	CUdeviceptr address = take(8);
	ASSERT_EQ(DEVICE_MIB - 48, free_mib());
	ASSERT_EQ(DEVICE_MIB - 48, free_seen_by(taker));
	ASSERT_SYS(kill(apart.pid, SIGKILL));
	peer_wait(taker);
	ASSERT_EQ(DEVICE_MIB - 8, free_mib());
	ASSERT_OK(cuMemFree(address));
}

/* ---- Ends ---- */

/* Forks a child that lives on, whichever way, and says its number. */
ROLE(parent_of_one)
{
	start("64M");
	take(16);
	pid_t child = fork();
	ASSERT_SYS(child);
	if (!child && !strcmp(argv[0], "exec"))
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	while (!child)
		pause();
	peer_send_bytes(parent, &child, sizeof child);
	peer_expect(parent, "never");
}

static void outlive(const char *how)
{
	pid_t child;

	ASSERT_SYS(prctl(PR_SET_CHILD_SUBREAPER, 1));
	start("64M");
	struct peer *peer = peer_start("parent_of_one", how);
	peer_receive_bytes(peer, &child, sizeof child);
	ASSERT_EQ(DEVICE_MIB - 16, free_mib());
	peer_kill(peer);
	while (free_mib() != DEVICE_MIB) /* a child that has not run yet has the descriptor for a moment */
		sched_yield();
	ASSERT_SYS(kill(child, 0));
	ASSERT_SYS(kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

/* Goal: a child does not keep its parent's memory counted. */
TEST(a_forked_child_counts_nothing)
{
	outlive("fork");
}

/* Goal: neither does what the child executes. */
TEST(an_executed_program_counts_nothing)
{
	outlive("exec");
}

static _Atomic bool enough;

static void *take_and_give(void *context)
{
	ASSERT_OK(cuCtxSetCurrent(context));
	while (!atomic_load(&enough))
		ASSERT_OK(cuMemFree(take(2)));
	return NULL;
}

/* Goal: a child that was forked while another thread took memory ends as programs do. */
TEST(a_forked_child_can_exit, .timeout_ms = 60000)
{
	pthread_t thread;
	CUcontext context;
	int status;

	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer finds in the child what threads have that are not there");
	start("64M");
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_and_give, context));
	for (int i = 0; i < 200 / HARNESS_SLOWDOWN; i++) {
		pid_t child = fork();
		ASSERT_SYS(child);
		if (!child)
			exit(7);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	atomic_store(&enough, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(DEVICE_MIB, free_mib());
}

/* Exports as the test asks: a pool's block, physical memory, or an allocation by its handle. */
ROLE(exporter)
{
	leaks_watch(0);
	start("128M");
	if (!strcmp(argv[0], "pool")) {
		CUmemoryPool pool = share_pool(0);
		int descriptor = share_export(pool);
		CUdeviceptr block = share_allocate(pool, MIB, NULL);
		CUmemPoolPtrExportData name = share_name(block);
		peer_send_descriptor(parent, descriptor);
		peer_send_bytes(parent, &name, sizeof name);
		peer_expect(parent, "grow");
		share_allocate(pool, 40 * MIB, NULL); /* two more chunks, after the importer has the first */
		peer_send(parent, "grown");
	} else if (!strcmp(argv[0], "physical")) {
		peer_send_descriptor(parent, vmm_export(vmm_create(48 * MIB)));
	} else {
		CUipcMemHandle handle;
		ASSERT_OK(cuIpcGetMemHandle(&handle, take(20)));
		peer_send_bytes(parent, &handle, sizeof handle);
	}
	peer_expect(parent, "end");
}

/* Holds what its parent hands it until the end. */
ROLE(importer)
{
	leaks_watch(0);
	start("128M");
	if (!strcmp(argv[0], "pool")) {
		CUmemPoolPtrExportData name;
		CUmemoryPool pool = share_import(peer_receive_descriptor(parent));
		peer_receive_bytes(parent, &name, sizeof name);
		share_take(pool, name);
	} else if (!strcmp(argv[0], "physical")) {
		vmm_import(peer_receive_descriptor(parent));
	} else {
		CUipcMemHandle handle;
		CUdeviceptr address;
		peer_receive_bytes(parent, &handle, sizeof handle);
		ASSERT_OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	}
	peer_send(parent, "held");
	peer_expect(parent, "end");
}

static struct peer *start_importer(const char *kind, const void *bytes, size_t size, int descriptor)
{
	struct peer *importer = peer_start("importer", kind);

	if (descriptor >= 0)
		peer_send_descriptor(importer, descriptor);
	if (size)
		peer_send_bytes(importer, bytes, size);
	peer_expect(importer, "held");
	return importer;
}

/* The exporter is killed; memory counts as long as one of two importers is there, one of which is killed as well. */
static void orphan(struct peer *exporter, struct peer *importers[2], unsigned mib)
{
	ASSERT_EQ(128 - mib, free_mib());
	peer_kill(exporter);
	ASSERT_EQ(128 - mib, free_mib());
	/* The dead one's place in the account is not given to the next process. */
	struct peer *taker = peer_start("taker", "128M");
	ASSERT_OK(tell(taker, TAKE, 0, 2).result);
	ASSERT_EQ(128 - mib - 2, free_mib());
	end(taker);
	ASSERT_EQ(128 - mib, free_mib());
	peer_end(importers[0]);
	ASSERT_EQ(128 - mib, free_mib());
	peer_kill(importers[1]);
	ASSERT_EQ(128, free_mib());
}

/* Goal: a pool whose exporter was killed counts while an importer has it, as large as it was at last. */
TEST(an_orphaned_pool_counts)
{
	CUmemPoolPtrExportData name;
	struct peer *importers[2];

	start("128M");
	struct peer *exporter = peer_start("exporter", "pool");
	int descriptor = peer_receive_descriptor(exporter);
	peer_receive_bytes(exporter, &name, sizeof name);
	for (int i = 0; i < 2; i++)
		importers[i] = start_importer("pool", &name, sizeof name, descriptor);
	close(descriptor);
	ASSERT_EQ(128 - 32, free_mib());
	peer_send(exporter, "grow");
	peer_expect(exporter, "grown");
	orphan(exporter, importers, 128 - free_mib());
}

/* Goal: the same for physical memory. */
TEST(orphaned_physical_memory_counts)
{
	struct peer *importers[2];

	start("128M");
	struct peer *exporter = peer_start("exporter", "physical");
	int descriptor = peer_receive_descriptor(exporter);
	for (int i = 0; i < 2; i++)
		importers[i] = start_importer("physical", NULL, 0, descriptor);
	close(descriptor);
	orphan(exporter, importers, 48);
}

/* Goal: the same for memory that was opened by a handle. */
TEST(orphaned_legacy_memory_counts)
{
	CUipcMemHandle handle;
	struct peer *importers[2];

	start("128M");
	struct peer *exporter = peer_start("exporter", "legacy");
	peer_receive_bytes(exporter, &handle, sizeof handle);
	for (int i = 0; i < 2; i++)
		importers[i] = start_importer("legacy", &handle, sizeof handle, -1);
	orphan(exporter, importers, 20);
}

/* ---- Many ---- */

/* What all processes of a test see: how much they have, and when to begin. */
struct board {
	_Atomic unsigned taken_mib; /* counted after a take and before a free: never more than there is */
	_Atomic unsigned round, arrived, got;
};

static struct board *map_board(int descriptor)
{
	struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	ASSERT_NE(MAP_FAILED, (void *)board);
	return board;
}

static struct board *make_board(int *ret_descriptor)
{
	*ret_descriptor = memfd_create("board", MFD_CLOEXEC);
	ASSERT_SYS(*ret_descriptor);
	ASSERT_SYS(ftruncate(*ret_descriptor, sizeof(struct board)));
	return map_board(*ret_descriptor);
}

enum { RUNNERS = 16, VICTIMS = 3, RUNNER_PIECES = 4 };

/* Takes and frees until it is asked, then says what it has. A victim, which will be killed, is not on the board. */
ROLE(runner)
{
	struct test_random random = test_random_start(strtoul(argv[0], NULL, 10));
	bool victim = !strcmp(argv[1], "victim");
	CUdeviceptr pieces[RUNNER_PIECES] = {0};
	unsigned mib[RUNNER_PIECES], mine = 0;

	int descriptor = peer_receive_descriptor(parent);
	struct board *board = map_board(descriptor);
	close(descriptor);
	start("64M");
	for (unsigned round = 0;; round++) {
		while (atomic_load(&board->round) == round) {
			unsigned piece = (unsigned)test_random_below(&random, RUNNER_PIECES);
			unsigned wanted = 2 * (1 + (unsigned)test_random_below(&random, 8));
			if (pieces[piece]) {
				atomic_fetch_sub(&board->taken_mib, victim ? 0 : mib[piece]);
				mine -= mib[piece];
				ASSERT_OK(cuMemFree(pieces[piece]));
				pieces[piece] = 0;
			} else if (!cuMemAlloc(&pieces[piece], (size_t)wanted * MIB)) {
				unsigned counted = victim ? 0 : wanted;
				ASSERT_LE(atomic_fetch_add(&board->taken_mib, counted) + counted, DEVICE_MIB);
				mib[piece] = wanted;
				mine += wanted;
			} else {
				pieces[piece] = 0;
			}
			ASSERT_LE(free_mib(), DEVICE_MIB - mine);
		}
		peer_send_bytes(parent, &mine, sizeof mine);
		peer_expect(parent, "go");
	}
}

static struct peer *start_runner(unsigned number, bool victim, int descriptor)
{
	char text[16];

	snprintf(text, sizeof text, "%u", number);
	struct peer *runner = peer_start("runner", text, victim ? "victim" : "");
	peer_send_descriptor(runner, descriptor);
	return runner;
}

/* Goal: sixteen processes that take, free and are killed never have more than there is, and nothing is left of them. */
TEST(the_sum_is_right_while_processes_come_and_go, .timeout_ms = 120000, .soak = true)
{
	struct test_random random = test_random_start(99);
	int descriptor;
	struct board *board = make_board(&descriptor);

	start("64M");
	for (unsigned long round = 0; soak_goes_on(round, 12 / HARNESS_SLOWDOWN); round++) {
		struct peer *runners[RUNNERS];
		unsigned sum = 0;
		atomic_store(&board->round, 0);
		atomic_store(&board->taken_mib, 0);
		for (unsigned i = 0; i < RUNNERS; i++)
			runners[i] = start_runner((unsigned)round * RUNNERS + i, i < VICTIMS, descriptor);
		for (uint64_t i = 200 + test_random_below(&random, 200); i > 0; i--)
			free_mib();
		for (unsigned i = 0; i < VICTIMS; i++) { /* in the middle of whatever they do */
			peer_kill(runners[i]);
			free_mib();
		}
		atomic_store(&board->round, 1);
		for (unsigned i = VICTIMS; i < RUNNERS; i++) {
			unsigned mine;
			peer_receive_bytes(runners[i], &mine, sizeof mine);
			sum += mine;
		}
		ASSERT_EQ(DEVICE_MIB - sum, free_mib()); /* all stand still */
		for (unsigned i = VICTIMS; i < RUNNERS; i++)
			peer_kill(runners[i]);
		ASSERT_EQ(DEVICE_MIB, free_mib());
	}
	munmap(board, sizeof *board);
	close(descriptor);
}

enum { RIVALS = 6, RACES = 200 / HARNESS_SLOWDOWN };

/* Takes 40 of 64 MiB in each round at the same time as the others, and gives it back when all have tried. */
ROLE(rival)
{
	leaks_watch(0);
	int descriptor = peer_receive_descriptor(parent);
	struct board *board = map_board(descriptor);
	close(descriptor);
	start("64M");
	for (unsigned round = 1; round <= RACES; round++) {
		CUdeviceptr address = 0;
		atomic_fetch_add(&board->arrived, 1);
		while (atomic_load(&board->round) < 2 * round - 1)
			sched_yield();
		if (!cuMemAlloc(&address, 40 * MIB))
			atomic_fetch_add(&board->got, 1);
		atomic_fetch_add(&board->arrived, 1);
		while (atomic_load(&board->round) < 2 * round)
			sched_yield();
		if (address)
			ASSERT_OK(cuMemFree(address));
	}
}

static void await_arrivals(struct board *board)
{
	while (atomic_load(&board->arrived) < RIVALS)
		sched_yield();
	atomic_store(&board->arrived, 0);
}

/* Goal: of several that want at the same time what one can have, exactly one gets it. */
TEST(one_of_many_rivals_wins, .timeout_ms = 120000)
{
	int descriptor;
	struct board *board = make_board(&descriptor);
	struct peer *rivals[RIVALS];

	for (unsigned i = 0; i < RIVALS; i++) {
		rivals[i] = peer_start("rival");
		peer_send_descriptor(rivals[i], descriptor);
	}
	for (unsigned round = 1; round <= RACES; round++) {
		await_arrivals(board);
		atomic_store(&board->got, 0);
		atomic_store(&board->round, 2 * round - 1);
		await_arrivals(board);
		ASSERT_EQ(1, atomic_load(&board->got));
		atomic_store(&board->round, 2 * round);
	}
	for (unsigned i = 0; i < RIVALS; i++)
		peer_wait(rivals[i]);
	munmap(board, sizeof *board);
	close(descriptor);
}

/* Goal: processes that are stopped, wherever they are, keep no other from taking what is free. */
TEST(stopped_processes_delay_nobody, .timeout_ms = 60000)
{
	enum { ROUNDS = 40 / HARNESS_SLOWDOWN };
	int descriptor;
	struct board *board = make_board(&descriptor);

	start("64M");
	struct peer *runner = start_runner(1, true, descriptor);
	for (int round = 0; round < ROUNDS; round++) {
		while (free_mib() == DEVICE_MIB)
			sched_yield();
		peer_stop(runner);
		unsigned available = free_mib();
		if (available >= 20) { /* it may stand in the middle of a claim of 16 */
			CUdeviceptr address = take(available - 18);
			ASSERT_OK(cuMemFree(address));
		}
		peer_continue(runner);
	}
	peer_kill(runner);
	ASSERT_EQ(DEVICE_MIB, free_mib());
	munmap(board, sizeof *board);
	close(descriptor);
}
