/* SPDX-License-Identifier: MIT */
/*
 * Kept memory: objects by name that outlive their makers, which users may open them, and when they are gone.
 */
#include "../kept.h"

#include <grp.h>
#include <sched.h>
#include <sys/stat.h>

enum { BYTES = 3 * KEPT_MIB + 64, READERS = 3, SWAPS = 5 };

static struct kept_daemon daemon_of_test;

SETUP
{
	CUdeviceptr block;

	kept_context();
	ASSERT_OK(cuMemAllocAsync(&block, 1, NULL)); /* the device's pool stays as long as the process */
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

/* ---- A maker and its readers ------------------------------------------------------------------------------------- */

static const char layout[] = "two tensors, one after the other";

static void make_two_parts(const char *name, cenote_kept *ret_kept)
{
	cenote_kept_part parts[] = {{.bytes = BYTES, .label = "weights"}, {.bytes = 4096, .label = "bias"}};
	cenote_kept_options options = {.blob = layout, .blob_bytes = sizeof layout};

	ASSERT_OK(cenote_kept_create(name, parts, 2, &options, ret_kept));
	kept_fill(parts[0].address, BYTES, 1);
	kept_fill(parts[1].address, 4096, 2);
}

/* Creates an object, and waits to be killed: before the commit or after it. */
ROLE(maker)
{
	cenote_kept kept;

	make_two_parts(argv[0], &kept);
	if (!strcmp(argv[1], "commits"))
		ASSERT_OK(cenote_kept_commit(kept));
	peer_send(parent, "made");
	peer_expect(parent, "never");
}

/* Goal: what was committed is there with every byte, label and size when its maker has been killed. */
TEST(memory_outlives_its_maker)
{
	cenote_kept_part parts[2];
	cenote_kept kept;
	unsigned count;

	kept_start(&daemon_of_test);
	struct peer *maker = peer_start("maker", "models/a", "commits");
	peer_expect(maker, "made");
	peer_kill(maker);

	ASSERT_OK(cenote_kept_open("models/a", 0, 0, &kept));
	ASSERT_OK(cenote_kept_parts(kept, parts, 2, &count));
	ASSERT_EQ(2, count);
	ASSERT_EQ(BYTES, parts[0].bytes);
	ASSERT_EQ(4096, parts[1].bytes);
	ASSERT_STREQ("weights", parts[0].label);
	ASSERT_STREQ("bias", parts[1].label);
	ASSERT(kept_has(parts[0].address, BYTES, 1));
	ASSERT(kept_has(parts[1].address, 4096, 2));
	cenote_kept_object object = kept_look(kept);
	ASSERT_EQ(sizeof layout, object.blob_bytes);
	ASSERT_MEMEQ(layout, object.blob, sizeof layout);
	ASSERT_STREQ("models/a", object.name);
	ASSERT_EQ(CENOTE_KEPT_COMMITTED, object.state);
	ASSERT_EQ(object.generation, object.newest_generation);
	ASSERT_EQ(1, object.holder_count);
	ASSERT_OK(cenote_kept_release(kept));
	kept_stop(&daemon_of_test);
}

/* Goal: what was not committed is gone with its writer, and its name can be written again. */
TEST(uncommitted_memory_ends_with_its_writer)
{
	cenote_kept kept;
	int watch;

	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_watch("", &watch));
	struct peer *maker = peer_start("maker", "models/a", "stops");
	peer_expect(maker, "made");
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_kept_open("models/a", 0, 0, &kept));
	cenote_kept_part part = {.bytes = 1};
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cenote_kept_create("models/a", &part, 1, NULL, &kept));
	char writer[32];
	snprintf(writer, sizeof writer, "process %d is writing", (int)peer_pid(maker));
	ASSERT_CONTAINS(writer, cenote_last_error());
	ASSERT_EQ(1, kept_count(""));
	peer_kill(maker);
	kept_await(watch, "models/a", CENOTE_KEPT_GONE);
	ASSERT_EQ(0, kept_count(""));
	ASSERT_OK(cenote_kept_release(kept_make("models/a", 1 << 20, 7, 0)));
	ASSERT_EQ(1, kept_count("models/"));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* Goal: a call that would write memory that was opened for reading is an error, and the memory stays as it was. */
TEST(readers_cannot_write)
{
	unsigned char byte = 1;
	cenote_kept kept;

	if (test_has_gpu())
		SKIP("a GPU may have no mappings that can only be read");
	kept_start(&daemon_of_test);
	cenote_kept made = kept_make("a", BYTES, 3, 0);
	ASSERT_OK(cenote_kept_open("a", 0, 0, &kept));
	for (int i = 0; i < 2; i++) { /* its writer is a reader, too, by now */
		CUdeviceptr address = kept_address(i ? made : kept);
		ASSERT(cuMemsetD8(address, 1, 1));
		ASSERT(cuMemcpyHtoD(address, &byte, 1));
		ASSERT(kept_has(address, BYTES, 3));
	}
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cenote_kept_open("a", 0, CENOTE_KEPT_WRITE, &kept));
	ASSERT_CONTAINS("immutable", cenote_last_error());
	ASSERT_OK(cenote_kept_release(kept));
	ASSERT_OK(cenote_kept_release(made));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cenote_kept_release(made));
	kept_stop(&daemon_of_test);
}

/* ---- Generations ------------------------------------------------------------------------------------------------- */

/* Opens what it is told to, checks it until it is told to release it, and so on. */
ROLE(reader)
{
	uint64_t seed;

	for (;;) {
		cenote_kept kept;
		peer_receive_bytes(parent, &seed, sizeof seed);
		if (!seed)
			return;
		ASSERT_OK(cenote_kept_open("model", 0, 0, &kept));
		ASSERT(kept_has(kept_address(kept), BYTES, seed));
		peer_send(parent, "opened");
		peer_expect(parent, "check");
		ASSERT(kept_has(kept_address(kept), BYTES, seed));
		ASSERT_EQ(CENOTE_KEPT_RETIRED, kept_look(kept).state);
		ASSERT_LT(kept_look(kept).generation, kept_look(kept).newest_generation);
		ASSERT_OK(cenote_kept_release(kept));
		peer_send(parent, "released");
	}
}

/* Goal: a model is swapped under three readers: each has its own generation to the last byte, and the old one goes. */
TEST(a_model_is_swapped_under_its_readers)
{
	struct peer *readers[READERS];
	uint64_t seed = 1, none = 0;
	int watch;

	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_watch("model", &watch));
	ASSERT_OK(cenote_kept_release(kept_make("model", BYTES, seed, 0)));
	for (int i = 0; i < READERS; i++)
		readers[i] = peer_start("reader");
	for (; seed <= SWAPS; seed++) {
		for (int i = 0; i < READERS; i++)
			peer_send_bytes(readers[i], &seed, sizeof seed);
		for (int i = 0; i < READERS; i++)
			peer_expect(readers[i], "opened");
		ASSERT_OK(cenote_kept_release(kept_make("model", BYTES, seed + 1, 0)));
		ASSERT_EQ(2, kept_count("model"));
		for (int i = 0; i < READERS; i++)
			peer_send(readers[i], "check");
		for (int i = 0; i < READERS; i++)
			peer_expect(readers[i], "released");
		kept_await(watch, "model", CENOTE_KEPT_GONE);
		ASSERT_EQ(1, kept_count("model"));
	}
	for (int i = 0; i < READERS; i++) {
		peer_send_bytes(readers[i], &none, sizeof none);
		peer_wait(readers[i]);
	}
	close(watch);
	kept_stop(&daemon_of_test);
}

/* Goal: a retired object cannot be opened, stays for the processes that have it, and is gone with the last of them. */
TEST(retired_memory_is_gone_with_its_last_holder)
{
	cenote_kept first, second;
	int watch;

	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_watch("a/b", &watch));
	cenote_kept made = kept_make("a/b", BYTES, 1, 0);
	ASSERT_OK(cenote_kept_open("a/b", kept_look(made).generation, 0, &first));
	ASSERT_OK(cenote_kept_retire("a/b", 0));
	kept_await(watch, "a/b", CENOTE_KEPT_RETIRED);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_kept_open("a/b", 0, 0, &second));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_kept_retire("a/b", 0));
	ASSERT_OK(cenote_kept_release(made));
	ASSERT_EQ(1, kept_count(""));
	ASSERT(kept_has(kept_address(first), BYTES, 1));
	ASSERT_OK(cenote_kept_release(first));
	kept_await(watch, "a/b", CENOTE_KEPT_GONE);
	ASSERT_EQ(0, kept_count(""));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* Goal: changeable memory has one writer at a time, and its readers see what it writes. */
TEST(changeable_memory_has_one_writer)
{
	cenote_kept reader, writer, other;
	int watch;

	if (test_has_gpu())
		SKIP("a GPU may have no mappings that can only be read");
	kept_start(&daemon_of_test);
	cenote_kept made = kept_make("cache", BYTES, 1, CENOTE_KEPT_CHANGEABLE);
	ASSERT_OK(cenote_kept_watch("cache", &watch));
	ASSERT_OK(cenote_kept_open("cache", 0, 0, &reader));
	ASSERT_OK(cenote_kept_open("cache", 0, CENOTE_KEPT_WRITE, &writer));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cenote_kept_open("cache", 0, CENOTE_KEPT_WRITE, &other));
	ASSERT_CONTAINS("is writing", cenote_last_error());
	kept_fill(kept_address(writer), BYTES, 2);
	ASSERT(kept_has(kept_address(reader), BYTES, 2));
	ASSERT(kept_has(kept_address(made), BYTES, 2));
	ASSERT(cuMemsetD8(kept_address(reader), 0, 1));
	ASSERT_OK(cenote_kept_commit(writer));
	kept_await(watch, "cache", CENOTE_KEPT_COMMITTED);
	ASSERT(cuMemsetD8(kept_address(writer), 0, 1));
	ASSERT_OK(cenote_kept_open("cache", 0, CENOTE_KEPT_WRITE, &other));
	ASSERT_OK(cenote_kept_release(other));
	ASSERT_OK(cenote_kept_release(writer));
	ASSERT_OK(cenote_kept_release(reader));
	ASSERT_OK(cenote_kept_release(made));
	ASSERT_EQ(1, kept_count(""));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* ---- Sealing ----------------------------------------------------------------------------------------------------- */

/* Goal: memory that is mapped a second time is not committed, and the writer is told why and can go on. */
TEST(memory_that_is_mapped_twice_is_not_committed)
{
	const size_t bytes = 2 * KEPT_MIB;
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	cenote_kept_part part = {.bytes = bytes};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr second;
	cenote_kept kept;

	if (test_on_gpu())
		SKIP("a GPU's memory is not sealed");
	kept_start(&daemon_of_test);
	ASSERT_OK(cenote_kept_create("a", &part, 1, NULL, &kept));
	ASSERT_OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)part.address));
	ASSERT_OK(cuMemAddressReserve(&second, bytes, 0, 0, 0));
	ASSERT_OK(cuMemMap(second, bytes, 0, handle, 0));
	ASSERT_OK(cuMemSetAccess(second, bytes, &access, 1));
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_STATE, cenote_kept_commit(kept));
	ASSERT_CONTAINS("mapped a second time", cenote_last_error());
	kept_fill(part.address, bytes, 9); /* it goes on */
	ASSERT_OK(cuMemUnmap(second, bytes));
	ASSERT_OK(cuMemAddressFree(second, bytes));
	ASSERT_OK(cenote_kept_commit(kept));
	ASSERT(kept_has(part.address, bytes, 9));
	ASSERT_OK(cenote_kept_release(kept));
	kept_stop(&daemon_of_test);
}

/* Goal: a block of a pool is copied; what is kept does not change with the block. */
TEST(a_block_is_kept_as_a_copy)
{
	unsigned long long generation = 0;
	CUdeviceptr block;
	cenote_kept kept;

	kept_start(&daemon_of_test);
	ASSERT_OK(cuMemAllocAsync(&block, BYTES, NULL));
	kept_fill(block, BYTES, 5);
	ASSERT_OK(cenote_kept_put("block", block, NULL, NULL, &generation));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_put("block", block + 64, NULL, NULL, NULL));
	ASSERT_OK(cuMemsetD8(block, 0, BYTES));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cenote_kept_open("block", generation, 0, &kept));
	ASSERT(kept_has(kept_address(kept), BYTES, 5));
	ASSERT_OK(cenote_kept_release(kept));
	kept_stop(&daemon_of_test);
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

/* Goal: kept memory is the daemon's: it takes nothing of what processes have of the host device, open or not. */
TEST(kept_memory_is_not_in_the_account)
{
	size_t before, open, after, total;

	if (strcmp(cenote_device_kind(), "host") != 0)
		SKIP("a GPU's driver counts it");
	kept_start(&daemon_of_test);
	ASSERT_OK(cuMemGetInfo(&before, &total));
	cenote_kept kept = kept_make("a", 8 * KEPT_MIB, 1, 0);
	ASSERT_OK(cuMemGetInfo(&open, &total));
	ASSERT_OK(cenote_kept_release(kept));
	ASSERT_OK(cuMemGetInfo(&after, &total));
	ASSERT_EQ(before, open);
	ASSERT_EQ(before, after);
	kept_stop(&daemon_of_test);
}

/* Goal: a user cannot have more than its limits, and is told which one it was. */
TEST(limits_are_refused_with_a_sentence)
{
	cenote_kept_part part = {.bytes = 7 * KEPT_MIB}, two[2] = {{.bytes = 1}, {.bytes = 1}};
	cenote_kept kept;

	kept_start(&daemon_of_test, "--objects-max", "2", "--descriptors-max", "3", "--bytes-max", "8M");
	ASSERT_OK(cenote_kept_release(kept_make("a", 1 << 20, 1, 0)));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cenote_kept_create("b", &part, 1, NULL, &kept));
	ASSERT_CONTAINS("--bytes-max", cenote_last_error());
	ASSERT_OK(cenote_kept_create("b", two, 2, NULL, &kept));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cenote_kept_create("c", two, 2, NULL, &kept));
	ASSERT_CONTAINS("--objects-max", cenote_last_error());
	ASSERT_OK(cenote_kept_retire("a", 0));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cenote_kept_create("c", two, 2, NULL, &kept));
	ASSERT_CONTAINS("--descriptors-max", cenote_last_error());
	ASSERT_OK(cenote_kept_release(kept));
	ASSERT_EQ(0, kept_count(""));
	kept_stop(&daemon_of_test);
}

/* Goal: memory that a GPU does not have is refused with a sentence, and no cache goes for it in vain. */
TEST(more_than_a_gpu_has_is_refused)
{
	cenote_kept_part part;
	cenote_kept kept;
	size_t available;

	if (!strcmp(cenote_device_kind(), "host"))
		SKIP("on the host device the daemon's limits refuse it");
	kept_start(&daemon_of_test, "--bytes-max", "1024T");
	ASSERT_OK(cenote_kept_release(kept_make("cache", 1 << 20, 1, CENOTE_KEPT_CACHE)));
	ASSERT_OK(cuMemGetInfo(&available, &part.bytes));
	part.bytes *= 2;
	part.label[0] = 0;
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cenote_kept_create("a", &part, 1, NULL, &kept));
	ASSERT_CONTAINS("no cache of this user's", cenote_last_error());
	ASSERT_EQ(1, kept_count(""));
	kept_stop(&daemon_of_test);
}

/* Goal: caches give way to a new object, the oldest first; one that is held is retired, and its holder told. */
TEST(caches_give_way)
{
	cenote_kept_part part = {.bytes = 2 * KEPT_MIB};
	cenote_kept kept;
	int watch;

	kept_start(&daemon_of_test, "--bytes-max", "6M");
	ASSERT_OK(cenote_kept_watch("", &watch));
	ASSERT_OK(cenote_kept_release(kept_make("old", 1 << 20, 1, CENOTE_KEPT_CACHE)));
	ASSERT_OK(cenote_kept_release(kept_make("young", 1 << 20, 2, CENOTE_KEPT_CACHE)));
	cenote_kept held = kept_make("held", 1 << 20, 3, CENOTE_KEPT_CACHE);
	ASSERT_OK(cenote_kept_release(kept_make("a", 1 << 20, 4, 0)));
	kept_await(watch, "old", CENOTE_KEPT_GONE);
	ASSERT_OK(cenote_kept_release(kept_make("b", 1 << 20, 4, 0)));
	kept_await(watch, "young", CENOTE_KEPT_GONE);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cenote_kept_create("c", &part, 1, NULL, &kept));
	kept_await(watch, "held", CENOTE_KEPT_RETIRED);
	ASSERT(kept_has(kept_address(held), 1 << 20, 3));
	ASSERT_OK(cenote_kept_release(held));
	ASSERT_OK(cenote_kept_create("c", &part, 1, NULL, &kept));
	ASSERT_OK(cenote_kept_release(kept));
	ASSERT_EQ(2, kept_count(""));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* ---- Mistakes ---------------------------------------------------------------------------------------------------- */

/* Goal: wrong arguments and a missing daemon are errors with a sentence. */
TEST(mistakes_are_errors)
{
	static const char *const names[] = {"", "/a", "a/", "a//b", ".", "a/..", "a b", "a\n", "ä"};
	cenote_kept_part part = {.bytes = 1}, endless = {.bytes = 1};
	cenote_kept_options options = {.flags = 0x80};
	cenote_kept kept;
	int watch;

	setenv("CENOTE_KEPT_SOCKET", test_path("nobody"), 1);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_kept_open("a", 0, 0, &kept));
	ASSERT_CONTAINS("no cenoted listens at", cenote_last_error());
	kept_start(&daemon_of_test);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_open(names[i], 0, 0, &kept));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_open("a", 0, 1, &kept));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_kept_open("a", 0, 0, &kept));
	ASSERT_CONTAINS("no object a is committed", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_create("a", &part, 0, NULL, &kept));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_create("a", &part, 1, &options, &kept));
	options = (cenote_kept_options){.mode = 01000};
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_create("a", &part, 1, &options, &kept));
	options = (cenote_kept_options){.blob = "x", .blob_bytes = CENOTE_KEPT_BLOB_BYTES_MAX + 1};
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_create("a", &part, 1, &options, &kept));
	options = (cenote_kept_options){.device = 99};
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cenote_kept_create("a", &part, 1, &options, &kept));
	memset(endless.label, 'x', sizeof endless.label);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_create("a", &endless, 1, NULL, &kept));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cenote_kept_commit((cenote_kept)(uintptr_t)8));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_kept_watch("a b", &watch));
	ASSERT_OK(cenote_kept_watch("a", &watch));
	cenote_kept_event event;
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cenote_kept_next(watch, &event));
	kept_stop(&daemon_of_test);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_kept_next(watch, &event));
	close(watch);
}

/* Goal: a daemon that was stopped has lost what it kept; holders of it are told, and keep the memory. */
TEST(a_stopped_daemon_leaves_stale_holders)
{
	cenote_kept_object object;

	kept_start(&daemon_of_test);
	cenote_kept kept = kept_make("a", BYTES, 1, 0);
	kept_stop(&daemon_of_test);
	kept_start(&daemon_of_test);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cenote_kept_look(kept, &object, sizeof object));
	ASSERT_CONTAINS("stale", cenote_last_error());
	ASSERT(kept_has(kept_address(kept), BYTES, 1));
	ASSERT_OK(cenote_kept_release(kept));
	kept_stop(&daemon_of_test);
}

/* ---- Users ------------------------------------------------------------------------------------------------------- */

enum { GROUP = 65502, CONNECTIONS_MAX = 128 };

/* Become another user, and do what the test says: open a name for reading or writing, retire it, make it. */
ROLE(another_user)
{
	gid_t group = GROUP;
	char word[64], name[64];
	cenote_kept kept;

	ASSERT_SYS(setgroups(!strcmp(argv[1], "member"), &group));
	ASSERT_SYS(setresgid(65534, 65534, 65534));
	uid_t user = (uid_t)strtoul(argv[0], NULL, 10);
	ASSERT_SYS(setresuid(user, user, user));
	for (;;) {
		CUresult result;
		peer_receive_bytes(parent, word, sizeof word);
		peer_receive_bytes(parent, name, sizeof name);
		if (!strcmp(word, "end"))
			return;
		kept = NULL;
		if (!strcmp(word, "retire")) {
			result = cenote_kept_retire(name, 0);
		} else if (!strcmp(word, "make")) {
			cenote_kept_part part = {.bytes = 1};
			cenote_kept_options options = {.mode = 0644};
			result = cenote_kept_create(name, &part, 1, &options, &kept);
			result = result ? result : cenote_kept_commit(kept);
		} else if (!strcmp(word, "count")) {
			result = (CUresult)kept_count("");
		} else {
			result = cenote_kept_open(name, 0, strcmp(word, "write") ? 0 : CENOTE_KEPT_WRITE, &kept);
		}
		if (kept && !result)
			result = cenote_kept_release(kept);
		peer_send_bytes(parent, &result, sizeof result);
	}
}

static CUresult ask_user(struct peer *user, const char *word, const char *name)
{
	char words[2][64] = {"", ""};
	CUresult result;

	snprintf(words[0], sizeof words[0], "%s", word);
	snprintf(words[1], sizeof words[1], "%s", name);
	peer_send_bytes(user, words[0], sizeof words[0]);
	peer_send_bytes(user, words[1], sizeof words[1]);
	if (strcmp(word, "end") == 0)
		return CUDA_SUCCESS;
	peer_receive_bytes(user, &result, sizeof result);
	return result;
}

static void make_with_mode(const char *name, unsigned mode)
{
	cenote_kept_options options = {.mode = mode, .flags = CENOTE_KEPT_CHANGEABLE};
	cenote_kept_part part = {.bytes = 1};
	cenote_kept kept;

	ASSERT_OK(cenote_kept_create(name, &part, 1, &options, &kept));
	ASSERT_OK(cenote_kept_commit(kept));
	ASSERT_OK(cenote_kept_release(kept));
}

/* Goal: mode bits say which users may open an object; its owner alone replaces and retires it; others do not see it. */
TEST(mode_bits_keep_others_out)
{
	if (geteuid() != 0)
		SKIP("only root can be several users");
	if (test_on_gpu())
		SKIP("users are the same on every device");
	ASSERT_SYS(chmod(test_directory(), 0711));
	kept_start(&daemon_of_test);
	ASSERT_SYS(setegid(GROUP));
	make_with_mode("nobodys", 0600);
	make_with_mode("groups", 0640);
	make_with_mode("groups_to_write", 0660);
	make_with_mode("all", 0644);
	ASSERT_SYS(setegid(0));
	struct peer *other = peer_start("another_user", "65500", "stranger");
	struct peer *member = peer_start("another_user", "65501", "member");

	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(other, "read", "nobodys"));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(other, "read", "groups"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(other, "read", "all"));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(other, "write", "all"));
	ASSERT_EQ(1, ask_user(other, "count", ""));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(member, "read", "nobodys"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(member, "read", "groups"));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(member, "write", "groups"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(member, "write", "groups_to_write"));
	ASSERT_EQ(3, ask_user(member, "count", ""));
	ASSERT_EQ(CUDA_ERROR_NOT_FOUND, ask_user(other, "retire", "nobodys"));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(member, "retire", "groups_to_write"));
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, ask_user(member, "make", "all"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(other, "make", "others"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(member, "read", "others"));
	ASSERT_EQ(CUDA_SUCCESS, ask_user(other, "retire", "others"));
	ASSERT_EQ(4, kept_count(""));
	ask_user(other, "end", "");
	ask_user(member, "end", "");
	peer_wait(other);
	peer_wait(member);
	kept_stop(&daemon_of_test);
}

/* Goal: one user's connections, however many, leave the others theirs. */
TEST(connections_are_counted_by_user)
{
	int watches[CONNECTIONS_MAX];

	if (geteuid() != 0)
		SKIP("only root can be several users");
	ASSERT_SYS(chmod(test_directory(), 0711));
	kept_start(&daemon_of_test);
	make_with_mode("all", 0644);
	struct peer *other = peer_start("another_user", "65500", "stranger");
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		ASSERT_OK(cenote_kept_watch("", &watches[i]));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_kept_list("", 0, kept_count_found, &(unsigned){0}));
	ASSERT_CONTAINS("too many connections", cenote_last_error());
	ASSERT_EQ(CUDA_SUCCESS, ask_user(other, "read", "all"));
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		close(watches[i]);
	while (cenote_kept_list("", 0, kept_count_found, &(unsigned){0}))
		sched_yield();
	ask_user(other, "end", "");
	peer_wait(other);
	kept_stop(&daemon_of_test);
}
