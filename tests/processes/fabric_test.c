/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles: memory, pools and blocks for processes that can read one channel, whichever user they belong to, and
 * for no others; what is left of processes that die; and that nothing else is left.
 */
#include "fabric.h"

#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

SETUP
{
	unsetenv("CENOTE_HOST_WITHOUT");
}

/* ---- A process that has a channel's name and not the channel ----------------------------------------------------- */

static bool names_alone;

/*
 * The library's own calls come here first. An agent that cheats has its channels opened by O_PATH, which needs no right
 * to read them, and its library does not see that: whatever it looks for in the file seems to be there. What is left is
 * what the exporter's library says to it.
 */
static int open_as_wanted(int directory, const char *path, int flags, mode_t mode)
{
	const char *name = strrchr(path, '/');

	if (names_alone && strncmp(name ? name + 1 : path, "channel", 7) == 0)
		flags = O_PATH | O_CLOEXEC;
	return (int)syscall(SYS_openat, directory, path, flags, mode);
}

static int control_as_wanted(int descriptor, int command, void *argument)
{
	if (names_alone && command == F_OFD_GETLK) {
		struct flock *lock = argument;
		lock->l_type = F_RDLCK;
		return 0;
	}
	return (int)syscall(SYS_fcntl, descriptor, command, argument);
}

/* The C library has two names for each. */
#define INTERPOSE(symbol, last, type, call, ...)                    \
	int interposed_##symbol(__VA_ARGS__, ...) __asm__(#symbol); \
	int interposed_##symbol(__VA_ARGS__, ...)                   \
	{                                                           \
		va_list rest;                                       \
		va_start(rest, last);                               \
		type more = va_arg(rest, type);                     \
		va_end(rest);                                       \
		return call;                                        \
	}
#define INTERPOSE_OPEN(symbol) \
	INTERPOSE(symbol, flags, mode_t, open_as_wanted(AT_FDCWD, path, flags, more), const char *path, int flags)
#define INTERPOSE_OPENAT(symbol)                                                                      \
	INTERPOSE(symbol, flags, mode_t, open_as_wanted(directory, path, flags, more), int directory, \
		  const char *path, int flags)
#define INTERPOSE_CONTROL(symbol) \
	INTERPOSE(symbol, command, void *, control_as_wanted(descriptor, command, more), int descriptor, int command)
INTERPOSE_OPEN(open)
INTERPOSE_OPEN(open64)
INTERPOSE_OPENAT(openat)
INTERPOSE_OPENAT(openat64)
INTERPOSE_CONTROL(fcntl)
INTERPOSE_CONTROL(fcntl64)

/* ---- Agents ------------------------------------------------------------------------------------------------------ */

/* What the library keeps for good once something was shared by fabric handles. */
static void share_once(void)
{
	CUmemFabricHandle handle;
	uint64_t memory = 0, pool = 0;

	if (create_memory(FABRIC, &memory))
		return;
	ASSERT_OK(cuMemExportToShareableHandle(&handle, memory, FABRIC, 0));
	ASSERT_OK(cuMemRelease(memory));
	ASSERT_OK(create_pool(FABRIC, &pool));
	ASSERT_OK(cuMemPoolExportToShareableHandle(&handle, (CUmemoryPool)(uintptr_t)pool, FABRIC, 0));
	ASSERT_OK(cuMemPoolDestroy((CUmemoryPool)(uintptr_t)pool));
	while (test_mapping_count("/memfd:cenote-pool")) /* the service thread takes it apart */
		sched_yield();
}

/* argv: the user, and "names" if it has but the names of the channels. */
ROLE(agent)
{
	struct order order;

	become((unsigned)atoi(argv[0]));
	names_alone = argc > 1 && strcmp(argv[1], "names") == 0;
	use_device();
	if (names_alone)
		leaks_watch(LEAK_MAPPINGS); /* it opens what it takes for a channel when it needs one */
	else
		share_once();
	leaks_start_here();
	do {
		peer_receive_bytes(parent, &order, sizeof order);
		obey(parent, &order);
	} while (order.call != END);
}

static void need_two_users(void)
{
	if (geteuid())
		SKIP("only root can become two other users");
	set_stage();
}

/* ---- One user ---------------------------------------------------------------------------------------------------- */

/* Goal: one memory, one block, by 64 bytes each, whichever process writes; the handles are the same each time. */
TEST(two_processes_share)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER), *importer = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC), there = take(importer, &home), again;

	ASSERT_EQ(0x11, byte_at(importer, there.at + GRAIN - 1));
	ASSERT_EQ(0x22, byte_at(importer, there.block));
	see_one_memory(exporter, &home, importer, &there, 0x30);
	CUmemFabricHandle memory = must(exporter, (struct order){.call = EXPORT_MEMORY, .object = home.memory}).handle;
	CUmemFabricHandle pool = must(exporter, (struct order){.call = EXPORT_POOL, .object = home.pool}).handle;
	ASSERT_MEMEQ(&home.memory_handle, &memory, sizeof memory);
	ASSERT_MEMEQ(&home.pool_handle, &pool, sizeof pool);
	ASSERT_NE(0, memcmp(&memory, &pool, sizeof pool));

	again = take(importer, &home); /* the pool and the block are the same once more */
	ASSERT_EQ(there.pool, again.pool);
	ASSERT_EQ(there.block, again.block);
	see_one_memory(exporter, &home, importer, &again, 0x40);
	ASSERT_EQ(byte_at(importer, there.at), byte_at(importer, again.at));
	let_go_but_pool(importer, &again);
	see_one_memory(exporter, &home, importer, &there, 0x50);
	let_go(importer, &there);
	must(importer, (struct order){.call = DESTROY, .object = again.pool}); /* once for each import */
	agent_end(importer);
	let_go(exporter, &home);
	agent_end(exporter);
}

/* Goal: the exporter imports its own as another would. */
TEST(one_process_shares_with_itself)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *agent = agent_of(SAME_USER);
	struct things home = share(agent, FABRIC), there = take(agent, &home);

	ASSERT_NE(home.at, there.at);
	see_one_memory(agent, &home, agent, &there, 0x30);
	let_go(agent, &there);
	see_one_memory(agent, &home, agent, &home, 0x30);
	let_go(agent, &home);
	agent_end(agent);
}

/* Goal: a pool with both kinds of handles is one pool, by whichever it came. */
TEST(a_pool_by_descriptor_and_by_fabric)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER), *by_fabric = agent_of(SAME_USER), *by_both = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC | POSIX), there = take(by_fabric, &home),
		      other = take(by_both, &home);

	must(exporter, (struct order){.call = EXPORT_POSIX, .object = home.pool});
	int descriptor = peer_receive_descriptor(exporter);
	struct order order = {.call = IMPORT_POSIX};
	struct answer answer;
	peer_send_bytes(by_both, &order, sizeof order);
	peer_send_descriptor(by_both, descriptor);
	peer_receive_bytes(by_both, &answer, sizeof answer);
	close(descriptor);
	ASSERT_OK(answer.result);
	CUdeviceptr block = must(by_both, (struct order){.call = TAKE, .object = answer.object, .name = home.name}).at;

	see_one_memory(by_fabric, &there, by_both, &other, 0x30);
	fill(by_fabric, there.block, 0x77, BLOCK);
	ASSERT_EQ(0x77, byte_at(by_both, block + BLOCK - 1));
	ASSERT_EQ(0x77, byte_at(exporter, home.block));
	must(by_both, (struct order){.call = FREE, .at = block});
	ASSERT_EQ(0x77, byte_at(by_both, other.block));
	let_go(by_both, &other);
	must(by_both, (struct order){.call = DESTROY, .object = answer.object});
	let_go(by_fabric, &there);
	let_go(exporter, &home);
	agent_end(by_both);
	agent_end(by_fabric);
	agent_end(exporter);
}

/* Goal: bytes that were changed on the way, or are of something else, lead nowhere. */
TEST(wrong_handles)
{
	CUmemFabricHandle wrong;

	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER), *importer = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	for (size_t bit = 0; bit < 8 * sizeof wrong; bit += 3) {
		struct things turned = home;
		turned.memory_handle.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
		turned.pool_handle.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
		refuse(importer, &turned, CUDA_ERROR_NOT_SUPPORTED, "handle");
	}
	for (int byte = 0; byte < 0x100; byte += 0xff) {
		struct things none = home;
		memset(&none.memory_handle, byte, sizeof wrong);
		none.pool_handle = none.memory_handle;
		refuse(importer, &none, CUDA_ERROR_NOT_SUPPORTED, "handle");
	}
	struct things swapped = home;
	swapped.memory_handle = home.pool_handle;
	swapped.pool_handle = home.memory_handle;
	refuse(importer, &swapped, CUDA_ERROR_NOT_SUPPORTED, "handle");
	struct things there = take(importer, &home);
	must_not(importer, (struct order){.call = EXPORT_MEMORY, .object = there.memory}, CUDA_ERROR_INVALID_VALUE, "");
	must_not(importer, (struct order){.call = EXPORT_POOL, .object = there.pool}, CUDA_ERROR_INVALID_VALUE, "");
	let_go(importer, &there);
	let_go(exporter, &home);
	agent_end(importer);
	agent_end(exporter);
}

/* ---- Without a channel ------------------------------------------------------------------------------------------- */

/* Goal: what needs a channel is refused without one, in words that help; a channel that comes helps, and stays. */
TEST(a_channel_is_missing_and_comes)
{
	set_stage();
	struct peer *agent = agent_of(SAME_USER);
	const CUresult no = CUDA_ERROR_NOT_PERMITTED;
	struct order create = {.call = CREATE_MEMORY, .types = FABRIC};
	uint64_t pool = must(agent, (struct order){.call = CREATE_POOL, .types = FABRIC}).object;
	struct order export = {.call = EXPORT_POOL, .object = pool};

	must_not(agent, create, no, "cenote imex create");
	must_not(agent, export, no, "cenote imex create");
	must_not(agent, (struct order){.call = ALLOCATE, .object = pool}, CUDA_ERROR_INVALID_VALUE, "export");
	make_channel("imex/channel07", SAME_USER, 0444);
	make_channel("imex/channelx", SAME_USER, 0444);
	must_not(agent, create, no, "cenote imex create");
	make_channel("imex/channel7", SAME_USER, 0444);
	uint64_t memory = must(agent, create).object;
	must(agent, export);
	ASSERT_SYS(unlink(test_path("imex/channel7")));
	must(agent, (struct order){.call = EXPORT_MEMORY, .object = memory}); /* it has it open */
	peer_kill(agent);
}

/* Goal: an importer without a channel is told so, and that it is not the handle's fault. */
TEST(an_importer_without_a_channel)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	make_directory("empty", SAME_USER, 0755);
	struct peer *exporter = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	static const char *const directories[] = {"empty", "not-there"};

	for (int i = 0; i < 2; i++) {
		ASSERT_SYS(setenv("CENOTE_IMEX_DIR", test_path(directories[i]), 1));
		struct peer *importer = agent_of(SAME_USER);
		refuse(importer, &home, CUDA_ERROR_NOT_PERMITTED, test_path(directories[i]));
		agent_end(importer);
	}
	ASSERT_SYS(unsetenv("CENOTE_IMEX_DIR"));
	struct peer *importer = agent_of(SAME_USER);
	refuse(importer, &home, CUDA_ERROR_NOT_PERMITTED, "CENOTE_IMEX_DIR");
	agent_end(importer);
	let_go(exporter, &home);
	agent_end(exporter);
}

/* Goal: a file of the channel's name is not the channel: number and name are no secret. */
TEST(a_channel_of_the_same_name)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	make_directory("mine", SAME_USER, 0755);
	make_channel("mine/channel0", SAME_USER, 0444);
	make_channel("mine/channel1", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER);
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", test_path("mine"), 1));
	struct peer *importer = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC), mine = share(importer, FABRIC);

	refuse(importer, &home, CUDA_ERROR_NOT_PERMITTED, "channel");
	refuse(exporter, &mine, CUDA_ERROR_NOT_PERMITTED, "channel");
	let_go(exporter, &home);
	let_go(importer, &mine);
	agent_end(importer);
	agent_end(exporter);
}

/* Goal: a device without fabric handles says so and makes none. */
TEST(a_device_without_fabric)
{
	int value = 1;

	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	ASSERT_SYS(setenv("CENOTE_HOST_WITHOUT", "fabric", 1));
	use_device();
	leaks_start_here();
	ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
	ASSERT_EQ(0, value);
	ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	ASSERT_EQ(POSIX, value);
	uint64_t object;
	ASSERT_NE(CUDA_SUCCESS, create_memory(FABRIC, &object));
	ASSERT_NE(CUDA_SUCCESS, create_pool(FABRIC, &object));
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	ASSERT_NE(CUDA_SUCCESS, cuMemImportFromShareableHandle(&memory, &home.memory_handle, FABRIC));
	ASSERT_NE(CUDA_SUCCESS, cuMemPoolImportFromShareableHandle(&pool, &home.pool_handle, FABRIC, 0));
	let_go(exporter, &home);
	agent_end(exporter);
}

/* ---- Two users --------------------------------------------------------------------------------------------------- */

/* Goal: users who can read one channel share all of it, also by what their group may do. */
TEST(users_with_a_channel_share)
{
	need_two_users();
	make_channel("imex/channel0", FIRST_USER, 0440);
	ASSERT_SYS(chown(test_path("imex/channel0"), FIRST_USER, SECOND_USER));
	make_channel("imex/channel1", SECOND_USER, 0400);
	struct peer *first = agent_of(FIRST_USER), *second = agent_of(SECOND_USER), *third = agent_of(SECOND_USER);
	struct things home = share(first, FABRIC), there = take(second, &home), also = take(third, &home);

	see_one_memory(first, &home, second, &there, 0x30);
	see_one_memory(third, &also, second, &there, 0x40);
	/* And the other way round: the second's first channel is the common one. */
	struct things back = share(second, FABRIC), here = take(first, &back);
	see_one_memory(first, &here, second, &back, 0x50);
	let_go(first, &here);
	let_go(second, &back);
	let_go(third, &also);
	let_go(second, &there);
	let_go(first, &home);
	agent_end(third);
	agent_end(second);
	agent_end(first);
}

/* All that a process can try that has the bytes. */
static void try_all(struct peer *agent, const struct things *shared, const char *words)
{
	refuse(agent, shared, CUDA_ERROR_NOT_PERMITTED, words);
	const CUmemFabricHandle handles[] = {shared->memory_handle, shared->pool_handle};
	for (int i = 0; i < 2; i++) {
		ASSERT_NE(CUDA_SUCCESS, tell(agent, (struct order){.call = OPEN_LEGACY, .handle = handles[i]}).result);
		ASSERT_NE(CUDA_SUCCESS, tell(agent, (struct order){.call = OPEN_EVENT, .handle = handles[i]}).result);
	}
	uint64_t pool = must(agent, (struct order){.call = CREATE_POOL, .types = POSIX}).object;
	ASSERT_NE(CUDA_SUCCESS, tell(agent, (struct order){.call = TAKE, .object = pool, .name = shared->name}).result);
	must(agent, (struct order){.call = DESTROY, .object = pool});
}

/* Goal: users with a channel each are kept apart, wherever one looks and whatever one calls a channel. */
TEST(users_with_a_channel_each_are_kept_apart)
{
	need_two_users();
	make_channel("imex/channel0", FIRST_USER, 0400);
	make_channel("imex/channel1", SECOND_USER, 0400);
	make_directory("mine", SECOND_USER, 0700);
	struct peer *first = agent_of(FIRST_USER), *second = agent_of(SECOND_USER);
	struct things home = share(first, FABRIC), other = share(second, FABRIC);

	try_all(second, &home, "channel is 0");
	try_all(first, &other, "channel is 1");
	let_go(second, &other);
	agent_end(second);

	/* Its own file under the channel's name; a symbolic and a hard link to the channel; the other's directory. */
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", test_path("mine"), 1));
	for (int kind = 0; kind < 3; kind++) {
		if (kind == 0)
			make_channel("mine/channel0", SECOND_USER, 0444);
		else if (kind == 1)
			ASSERT_SYS(symlink(test_path("imex/channel0"), test_path("mine/channel0")));
		else
			ASSERT_SYS(link(test_path("imex/channel0"), test_path("mine/channel0")));
		second = agent_of(SECOND_USER);
		try_all(second, &home, "channel");
		agent_end(second);
		ASSERT_SYS(unlink(test_path("mine/channel0")));
	}
	see_one_memory(first, &home, first, &home, 0x30);
	let_go(first, &home);
	agent_end(first);
}

/* Goal: a process that can name a channel and not read it does not have it, even if it opens it by O_PATH. */
TEST(a_name_is_no_proof)
{
	static const mode_t modes[] = {0000, 0111, 0222, 0333};

	need_two_users();
	make_channel("imex/channel0", FIRST_USER, 0400);
	struct peer *first = agent_of(FIRST_USER);
	struct things home = share(first, FABRIC);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		ASSERT_SYS(chmod(test_path("imex/channel0"), 0400 | modes[i]));
		struct peer *second = agent_of(SECOND_USER), *cheat = peer_start("agent", "64126", "names");
		try_all(second, &home, "Permission denied");
		try_all(cheat, &home, "is not this process's channel");
		agent_end(second);
		agent_end(cheat);
	}
	ASSERT_SYS(chmod(test_path("imex/channel0"), 0444));
	struct peer *second = agent_of(SECOND_USER), *cheat = peer_start("agent", "64126", "names");
	struct things there = take(second, &home);
	see_one_memory(first, &home, second, &there, 0x30);
	try_all(cheat, &home, "is not this process's channel"); /* it could have read it, and did not show that */
	let_go(second, &there);
	let_go(first, &home);
	agent_end(cheat);
	agent_end(second);
	agent_end(first);
}

/* Connects to a socket and says something; nothing that comes back carries a descriptor. argv: folder, name */
ROLE(stranger)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char bytes[256] = "let me in", control[256];
	struct iovec part = {bytes, sizeof bytes};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int folder, sock;

	become(SECOND_USER);
	ASSERT_SYS(folder = open(argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC));
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.64s", folder, argv[1]);
	ASSERT_SYS(sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	ASSERT_SYS(connect(sock, (const struct sockaddr *)&address, sizeof address));
	ASSERT_EQ(sizeof bytes, send(sock, bytes, sizeof bytes, MSG_NOSIGNAL));
	ssize_t got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	ASSERT(got <= 0 || message.msg_controllen == 0);
	close(sock);
	close(folder);
}

/* Goal: a process that connects to the port itself gets nothing out of it, and disturbs no other. */
TEST(a_stranger_at_the_port)
{
	need_two_users();
	make_channel("imex/channel0", FIRST_USER, 0400);
	struct peer *first = agent_of(FIRST_USER), *friend = agent_of(FIRST_USER);
	struct things home = share(first, FABRIC);
	unsigned found = 0;
	DIR *names = opendir(test_path("fabric/64125"));
	ASSERT(names);
	for (struct dirent *entry; (entry = readdir(names));) {
		struct stat status;
		ASSERT_SYS(fstatat(dirfd(names), entry->d_name, &status, AT_SYMLINK_NOFOLLOW));
		if (!S_ISSOCK(status.st_mode))
			continue;
		peer_wait(peer_start("stranger", test_path("fabric/64125"), entry->d_name));
		found++;
	}
	closedir(names);
	ASSERT_NE(0, found);
	struct things there = take(friend, &home);
	see_one_memory(first, &home, friend, &there, 0x30);
	let_go(friend, &there);
	let_go(first, &home);
	agent_end(friend);
	agent_end(first);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

/* Until it has no more than these. They were counted when something older may still have been on its way out. */
static void await_descriptors(struct peer *agent, uint64_t count)
{
	while (number_of(agent, DESCRIPTORS, 0) > count)
		sched_yield();
}

/* The next who shares clears away the names of the dead, and its own at its end. */
static void expect_no_names(unsigned before)
{
	agent_end(agent_of(SAME_USER));
	ASSERT_EQ(before, count_names());
}

/* Goal: the exporter is killed; importers keep what they have; nothing can be imported any more, and no name stays. */
TEST(the_exporter_is_killed)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	unsigned names = count_names();
	struct peer *exporter = agent_of(SAME_USER), *one = agent_of(SAME_USER), *other = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC), there = take(one, &home);

	peer_kill(exporter);
	ASSERT_EQ(0x11, byte_at(one, there.at + GRAIN - 1));
	ASSERT_EQ(0x22, byte_at(one, there.block + BLOCK - 1));
	fill(one, there.at, 0x33, GRAIN);
	fill(one, there.block, 0x44, BLOCK);
	ASSERT_EQ(0x33, byte_at(one, there.at));
	ASSERT_EQ(0x44, byte_at(one, there.block));
	must_not(one, (struct order){.call = IMPORT_MEMORY, .handle = home.memory_handle}, CUDA_ERROR_NOT_SUPPORTED,
		 "exporter");
	refuse(other, &home, CUDA_ERROR_NOT_SUPPORTED, "exporter");
	let_go(one, &there);
	agent_end(one);
	agent_end(other);
	expect_no_names(names);
}

/* Goal: what the exporter released is not imported any more, even by its importers; they keep what they have. */
TEST(the_exporter_lets_go_first)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER), *importer = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC), there = take(importer, &home);

	let_go(exporter, &home);
	must_not(importer, (struct order){.call = IMPORT_MEMORY, .handle = home.memory_handle},
		 CUDA_ERROR_NOT_SUPPORTED, "");
	ASSERT_EQ(0x11, byte_at(importer, there.at));
	ASSERT_EQ(0x22, byte_at(importer, there.block));
	fill(importer, there.at, 0x33, GRAIN);
	ASSERT_EQ(0x33, byte_at(importer, there.at + GRAIN - 1));
	struct things more = share(exporter, FABRIC); /* and does not disturb */
	ASSERT_NE(0, memcmp(&home.memory_handle, &more.memory_handle, sizeof home.memory_handle));
	ASSERT_EQ(0x33, byte_at(importer, there.at));
	ASSERT_EQ(0x22, byte_at(importer, there.block));
	let_go(importer, &there);
	let_go(exporter, &more);
	agent_end(importer);
	agent_end(exporter);
}

/* Goal: an importer is killed and the exporter has everything back: blocks, memory, descriptors. */
TEST(an_importer_is_killed)
{
	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	unsigned names = count_names();
	uint64_t used = number_of(exporter, MEMORY_USED, 0), descriptors = number_of(exporter, DESCRIPTORS, 0);

	for (int i = 0; i < 10; i++) {
		struct peer *importer = agent_of(SAME_USER);
		take(importer, &home);
		must(exporter, (struct order){.call = FREE, .at = home.block}); /* the importer still has it */
		ASSERT_NE(0, number_of(exporter, POOL_USED, home.pool));
		peer_kill(importer);
		while (number_of(exporter, POOL_USED, home.pool))
			sched_yield();
		struct answer block = must(exporter, (struct order){.call = ALLOCATE, .object = home.pool});
		home.block = block.at;
		home.name = block.name;
		fill(exporter, home.block, 0x22, BLOCK);
	}
	await_descriptors(exporter, descriptors);
	ASSERT_EQ(used, number_of(exporter, MEMORY_USED, 0));
	agent_end(agent_of(SAME_USER)); /* clears the names of processes that died */
	ASSERT_EQ(names, count_names());
	let_go(exporter, &home);
	agent_end(exporter);
}

/* Imports when told to, reads and writes its own byte of each, and lets go, or dies. argv: number, "dies" */
ROLE(one_of_many)
{
	struct things home;
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	CUdeviceptr block;
	unsigned number = (unsigned)atoi(argv[0]);

	become(SAME_USER);
	use_device();
	share_once();
	leaks_start_here();
	peer_receive_bytes(parent, &home, sizeof home);
	ASSERT_OK(cuMemImportFromShareableHandle(&memory, &home.memory_handle, FABRIC));
	ASSERT_OK(cuMemPoolImportFromShareableHandle(&pool, &home.pool_handle, FABRIC, 0));
	ASSERT_OK(cuMemPoolImportPointer(&block, pool, &home.name));
	CUdeviceptr at = map_memory(memory);
	ASSERT_OK(cuMemsetD8(at + number, (unsigned char)number, 1));
	ASSERT_OK(cuMemsetD8(block + number, (unsigned char)number, 1));
	ASSERT_OK(cuCtxSynchronize());
	peer_send(parent, "ready");
	if (strcmp(argv[1], "dies") == 0)
		ASSERT_SYS(raise(SIGKILL));
	peer_expect(parent, "end");
	ASSERT_OK(cuMemUnmap(at, GRAIN));
	ASSERT_OK(cuMemAddressFree(at, GRAIN));
	ASSERT_OK(cuMemRelease(memory));
	ASSERT_OK(cuMemFree(block));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

static struct peer *start_one_of_many(int number, const struct things *home, const char *end)
{
	char text[16];

	snprintf(text, sizeof text, "%d", number);
	struct peer *peer = peer_start("one_of_many", text, end);
	peer_send_bytes(peer, home, sizeof *home);
	return peer;
}

/* Goal: one handle serves many processes at the same time. */
TEST(many_import_the_same, .timeout_ms = 60000)
{
	enum { COUNT = 64 / HARNESS_SLOWDOWN };
	struct peer *peers[COUNT];

	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	uint64_t descriptors = number_of(exporter, DESCRIPTORS, 0);
	for (int i = 0; i < COUNT; i++)
		peers[i] = start_one_of_many(i, &home, "lives");
	for (int i = 0; i < COUNT; i++)
		peer_expect(peers[i], "ready");
	for (int i = 0; i < COUNT; i++) {
		ASSERT_EQ(i, byte_at(exporter, home.at + (unsigned)i));
		ASSERT_EQ(i, byte_at(exporter, home.block + (unsigned)i));
	}
	for (int i = 0; i < COUNT; i++)
		peer_send(peers[i], "end");
	for (int i = 0; i < COUNT; i++)
		peer_wait(peers[i]);
	await_descriptors(exporter, descriptors);
	let_go(exporter, &home);
	agent_end(exporter);
}

/* Goal: processes that import, use, share something themselves and die leave no descriptor, no block and no name. */
TEST(many_deaths, .timeout_ms = 120000)
{
	enum { DEATHS = 400 / (HARNESS_SLOWDOWN * HARNESS_SLOWDOWN), AT_ONCE = 4 };
	struct peer *peers[AT_ONCE];

	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER);
	struct things home = share(exporter, FABRIC);
	uint64_t descriptors = number_of(exporter, DESCRIPTORS, 0), used = number_of(exporter, MEMORY_USED, 0);
	unsigned names = count_names();

	for (int i = 0; i < DEATHS; i += AT_ONCE) {
		for (int k = 0; k < AT_ONCE; k++)
			peers[k] = start_one_of_many(k, &home, "dies");
		for (int k = 0; k < AT_ONCE; k++)
			peer_expect(peers[k], "ready");
		for (int k = 0; k < AT_ONCE; k++)
			ASSERT_EQ(SIGKILL, peer_wait_status(peers[k]) & 0x7f);
	}
	await_descriptors(exporter, descriptors);
	ASSERT_EQ(used, number_of(exporter, MEMORY_USED, 0));
	agent_end(agent_of(SAME_USER));
	ASSERT_EQ(names, count_names());
	must(exporter, (struct order){.call = FREE, .at = home.block}); /* no process holds it: back at once */
	ASSERT_EQ(0, number_of(exporter, POOL_USED, home.pool));
	home.block = must(exporter, (struct order){.call = ALLOCATE, .object = home.pool}).at;
	let_go(exporter, &home);
	agent_end(exporter);
}

/* Goal: importing and letting go, over and over, costs neither side a descriptor, a mapping or a name. */
TEST(over_and_over)
{
	enum { ROUNDS = 200 / HARNESS_SLOWDOWN };

	set_stage();
	make_channel("imex/channel0", SAME_USER, 0444);
	struct peer *exporter = agent_of(SAME_USER), *importer = agent_of(SAME_USER);
	uint64_t at_importer = number_of(importer, DESCRIPTORS, 0);
	struct things home = share(exporter, FABRIC), there;
	uint64_t at_exporter = number_of(exporter, DESCRIPTORS, 0);
	unsigned names = count_names();

	for (int i = 0; i < ROUNDS; i++) {
		there = take(importer, &home);
		ASSERT_EQ(0x11, byte_at(importer, there.at));
		ASSERT_EQ(0x22, byte_at(importer, there.block));
		let_go(importer, &there);
		if (i % 8 == 0) {
			let_go(exporter, &home);
			home = share(exporter, FABRIC);
		}
	}
	await_descriptors(importer, at_importer);
	await_descriptors(exporter, at_exporter);
	ASSERT_EQ(names, count_names());
	let_go(exporter, &home);
	agent_end(importer);
	agent_end(exporter);
}
