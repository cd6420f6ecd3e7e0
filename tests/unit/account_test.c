/* SPDX-License-Identifier: MIT */
/*
 * Accounts: what processes have taken, counted across them.
 *
 * An account that is opened twice in a process has two open files with locks of their own, as in two processes. To
 * close the one is what the kernel does when its process ends.
 */
#include "base/account.h"
#include "cenote/cenote.h"
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CAPACITY = 1000, FILE_NAME = 4711, HEADER_BYTES = 64, HEADERS_BYTES = 131072, REGION_BYTES = 65536 };

static struct cn_account *open_account(void)
{
	struct cn_account *account;

	ASSERT_OK(cn_account_open(CAPACITY, &account));
	return account;
}

static struct cn_account *join_account(void)
{
	struct cn_account *account = open_account();

	ASSERT(cn_account_join(account, 0));
	return account;
}

static void take(struct cn_account *account, uint64_t bytes)
{
	ASSERT(cn_account_bid(account, 0, bytes));
	ASSERT(cn_account_settle(account, 0, bytes));
}

static struct cn_account_sum sum_of(struct cn_account *account)
{
	struct cn_account_sum sum;

	ASSERT(cn_account_sum(account, 0, true, &sum));
	return sum;
}

static uint64_t used(struct cn_account *account)
{
	struct cn_account_sum sum = sum_of(account);

	return sum.made + sum.orphaned;
}

static const char *account_path(void)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/account-%d", getenv("CENOTE_RUNTIME_DIR"), CAPACITY);
	return path;
}

/* The file as another program sees it. */
static int open_file(void)
{
	int fd = open(account_path(), O_RDWR | O_CLOEXEC);

	ASSERT_SYS(fd);
	return fd;
}

/* ---- What counts ---- */

/* Goal: what one process takes and gives back, the others see, and nothing of a process that is gone. */
TEST(all_see_what_one_takes)
{
	struct cn_account *first = join_account(), *second = join_account(), *third = open_account();

	take(first, 300);
	take(second, 50);
	ASSERT_EQ(350, used(first));
	ASSERT_EQ(350, used(second));
	ASSERT_EQ(350, used(third));
	ASSERT(cn_account_bid(second, 0, 7));
	ASSERT_EQ(7, sum_of(third).bid);
	ASSERT_EQ(350, used(third));
	ASSERT(cn_account_retract(second, 0, 7));
	ASSERT_EQ(0, sum_of(third).bid);
	ASSERT(cn_account_give(first, 0, 100));
	ASSERT_EQ(250, used(third));
	cn_account_close(first);
	ASSERT_EQ(50, used(third));
	cn_account_close(second);
	ASSERT_EQ(0, used(third));
	cn_account_close(third);
}

/* Goal: each device has a count of its own. */
TEST(devices_are_apart)
{
	struct cn_account *account = join_account();
	struct cn_account_sum sum;

	ASSERT(cn_account_join(account, CN_ACCOUNT_DEVICES - 1));
	take(account, 10);
	ASSERT(cn_account_bid(account, CN_ACCOUNT_DEVICES - 1, 3));
	ASSERT(cn_account_sum(account, CN_ACCOUNT_DEVICES - 1, true, &sum));
	ASSERT_EQ(0, sum.made);
	ASSERT_EQ(3, sum.bid);
	ASSERT_EQ(10, used(account));
	cn_account_close(account);
}

static void add_user(int pid, uint64_t bytes, void *data)
{
	uint64_t *seen = data;

	ASSERT_EQ(getpid(), pid);
	seen[0]++;
	seen[1] += bytes;
}

static void add_user_of(int pid, unsigned device, uint64_t bytes, void *data)
{
	uint64_t *seen = data;

	ASSERT_EQ(getpid(), pid);
	ASSERT_LT(device, 2);
	seen[device] += 1000 + bytes;
}

/* Goal: a process is listed once for a device, with all that it has there; one that has no slot is not. */
TEST(users_are_listed_by_their_locks)
{
	struct cn_account *first = join_account(), *second = join_account(), *looker = open_account();
	uint64_t seen[2] = {0};

	take(first, 100);
	take(second, 20);
	ASSERT(cn_account_join(second, 1));
	ASSERT(cn_account_users(looker, 0, add_user, seen));
	ASSERT_EQ(1, seen[0]);
	ASSERT_EQ(120, seen[1]);
	ASSERT(cn_account_users(looker, 1, add_user, seen));
	ASSERT_EQ(2, seen[0]);
	ASSERT_EQ(120, seen[1]);
	ASSERT(cn_account_users(looker, 2, add_user, seen));
	uint64_t all[2] = {0};
	ASSERT(cn_account_users_of_all(looker, add_user_of, all));
	ASSERT_EQ(1120, all[0]);
	ASSERT_EQ(1000, all[1]);
	cn_account_close(first);
	cn_account_close(second);
	ASSERT(cn_account_users(looker, 0, add_user, seen));
	ASSERT_EQ(2, seen[0]);
	cn_account_close(looker);
}

/* Goal: a file that is held counts once, as large as it was at last, until the last holder is gone. */
TEST(memory_counts_until_its_last_holder_is_gone)
{
	struct cn_account *maker = join_account(), *holders[2] = {open_account(), open_account()},
			  *other = open_account();
	unsigned device = 99;

	take(maker, 100);
	unsigned made = cn_account_enter_made(maker, 0, FILE_NAME, 60);
	ASSERT_NE(0, made);
	for (int i = 0; i < 2; i++) {
		ASSERT_NE(0, cn_account_enter_held(holders[i], FILE_NAME, &device));
		ASSERT_EQ(0, device);
	}
	unsigned twice = cn_account_enter_held(holders[0], FILE_NAME, &device);
	ASSERT_EQ(100, used(other));
	ASSERT(cn_account_change(maker, 0, made, 40));
	ASSERT(cn_account_give(maker, 0, 20));
	ASSERT_EQ(80, used(other));
	cn_account_close(maker);
	ASSERT_EQ(40, used(other));
	ASSERT(cn_account_leave(holders[0], 0, twice));
	ASSERT_EQ(40, used(other));
	cn_account_close(holders[0]);
	ASSERT_EQ(40, used(other));
	cn_account_close(holders[1]);
	ASSERT_EQ(0, used(other));
	cn_account_close(other);
}

/* Goal: what its maker gives up and another process holds counts on. */
TEST(a_maker_may_give_up_what_others_hold)
{
	struct cn_account *maker = join_account(), *holder = open_account();
	unsigned device;

	take(maker, 100);
	unsigned made = cn_account_enter_made(maker, 0, FILE_NAME, 100);
	unsigned held = cn_account_enter_held(holder, FILE_NAME, &device);
	ASSERT(cn_account_give_up(maker, 0, made));
	ASSERT_EQ(0, sum_of(maker).made);
	ASSERT_EQ(100, sum_of(maker).orphaned);
	ASSERT(cn_account_leave(holder, 0, held));
	ASSERT_EQ(0, used(maker));
	cn_account_close(holder);
	cn_account_close(maker);
}

/* Goal: what was given up, and comes to a process only then, is known: of the last files. */
TEST(what_was_given_up_is_found)
{
	struct cn_account *maker = join_account(), *holder = open_account();
	unsigned device;

	for (unsigned i = 1; i <= 3 * CN_ACCOUNT_LEFT; i++) {
		take(maker, i);
		ASSERT(cn_account_give_up(maker, 0, cn_account_enter_made(maker, 0, i, i)));
		ASSERT_EQ(0, used(holder));
	}
	ASSERT_EQ(0, cn_account_enter_held(holder, 2 * CN_ACCOUNT_LEFT, &device));
	unsigned held = cn_account_enter_held(holder, 2 * CN_ACCOUNT_LEFT + 1, &device);
	ASSERT_NE(0, held);
	ASSERT_EQ(2 * CN_ACCOUNT_LEFT + 1, used(holder));
	ASSERT(cn_account_leave(holder, 0, held));
	ASSERT_EQ(0, used(holder));
	cn_account_close(maker);
	cn_account_close(holder);
}

/* Goal: a file that no process of the account has made is no concern of it. */
TEST(strange_files_are_not_counted)
{
	struct cn_account *account = open_account();
	unsigned device;

	ASSERT_EQ(0, cn_account_enter_held(account, FILE_NAME, &device));
	ASSERT_EQ(0, used(account));
	cn_account_close(account);
}

/* Goal: there is room for so many shared files of a process, and for the next where one was. */
TEST(entries_have_a_bound)
{
	struct cn_account *account = join_account();

	for (unsigned i = 1; i <= CN_ACCOUNT_ENTRIES; i++)
		ASSERT_EQ(i, cn_account_enter_made(account, 0, i, 1));
	ASSERT_EQ(0, cn_account_enter_made(account, 0, FILE_NAME, 1));
	ASSERT(cn_account_leave(account, 0, 17));
	ASSERT_EQ(17, cn_account_enter_made(account, 0, FILE_NAME, 1));
	cn_account_close(account);
}

/* ---- Slots ---- */

static unsigned slot_count(void)
{
	struct stat status;

	ASSERT_SYS(stat(account_path(), &status));
	return (unsigned)((status.st_size - HEADERS_BYTES) / REGION_BYTES);
}

/* Goal: the slots of dead processes are used again, but not while a live one holds what the dead has made. */
TEST(slots_are_used_again)
{
	struct cn_account *watcher = open_account(), *holder = open_account(), *next;
	unsigned device;

	for (int i = 0; i < 100; i++) {
		struct cn_account *account = join_account();
		take(account, 5);
		cn_account_enter_made(account, 0, FILE_NAME, 5);
		cn_account_close(account);
		ASSERT_EQ(0, used(watcher));
	}
	ASSERT_EQ(1, slot_count());
	struct cn_account *maker = join_account();
	take(maker, 70);
	cn_account_enter_made(maker, 0, FILE_NAME, 70);
	unsigned held = cn_account_enter_held(holder, FILE_NAME, &device);
	cn_account_close(maker);
	ASSERT_EQ(2, slot_count());
	next = join_account();
	ASSERT_EQ(3, slot_count());
	ASSERT_EQ(70, used(watcher));
	cn_account_close(next);
	ASSERT(cn_account_leave(holder, 0, held));
	cn_account_close(holder);
	for (int i = 0; i < 3; i++) {
		next = join_account();
		take(next, 1);
		cn_account_close(next);
	}
	ASSERT_EQ(3, slot_count());
	cn_account_close(watcher);
}

/* Goal: so are they beside many that live, of which a process does not ask for all; so the file stops growing. */
TEST(slots_are_used_again_beside_many)
{
	enum { LIVE = CN_ACCOUNT_DEVICES, DEAD = 500 };
	struct cn_account *live = open_account();

	for (unsigned device = 0; device < LIVE; device++) {
		ASSERT(cn_account_join(live, device));
		ASSERT(cn_account_count(live, device, 1));
	}
	for (int i = 0; i < DEAD; i++) {
		struct cn_account *account = join_account();
		take(account, 5);
		cn_account_close(account);
		ASSERT_EQ(1, used(live));
	}
	ASSERT(slot_count() < LIVE + DEAD / 4);
	cn_account_close(live);
}

/* Goal: a process that is about to hold a file does not take its dead maker's slot for itself. */
TEST(the_makers_slot_is_left_to_those_who_need_it)
{
	enum { TIMES = 50 };
	struct cn_account *watcher = open_account();
	unsigned device;

	for (uint64_t file = FILE_NAME; file < FILE_NAME + TIMES; file++) {
		struct cn_account *maker = join_account(), *holders[2] = {open_account(), open_account()};
		take(maker, 5);
		ASSERT_NE(0, cn_account_enter_made(maker, 0, file, 5));
		cn_account_close(maker);
		for (int i = 0; i < 2; i++) {
			ASSERT_NE(0, cn_account_enter_held(holders[i], file, &device));
			ASSERT_EQ(5, used(watcher));
		}
		cn_account_close(holders[0]);
		cn_account_close(holders[1]);
		ASSERT_EQ(0, used(watcher));
	}
	cn_account_close(watcher);
}

/* Goal: where all slots are taken there is an answer, and a slot again when one is free. */
TEST(slots_have_a_bound)
{
	enum { ACCOUNTS = CN_ACCOUNT_SLOTS / CN_ACCOUNT_DEVICES };
	struct cn_account *accounts[ACCOUNTS], *last = open_account();

	for (int i = 0; i < ACCOUNTS; i++) {
		accounts[i] = open_account();
		for (unsigned device = 0; device < CN_ACCOUNT_DEVICES; device++)
			ASSERT(cn_account_join(accounts[i], device));
		take(accounts[i], 1);
	}
	ASSERT(!cn_account_join(last, 0));
	ASSERT_EQ(ACCOUNTS, used(last));
	cn_account_close(accounts[3]);
	ASSERT(cn_account_join(last, 0));
	ASSERT_EQ(ACCOUNTS - 1, used(last));
	for (int i = 0; i < ACCOUNTS; i++)
		if (i != 3)
			cn_account_close(accounts[i]);
	cn_account_close(last);
}

/* ---- The file ---- */

static int make_file_of_the_dead(void)
{
	int fd = open(account_path(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, HEADERS_BYTES + 3 * REGION_BYTES));
	return fd;
}

/* Goal: what processes have left that were all killed is gone with the next one, and not while one of them lives. */
TEST(a_file_of_the_dead_is_removed)
{
	int fd = make_file_of_the_dead();

	ASSERT_SYS(flock(fd, LOCK_SH));
	struct cn_account *first = join_account();
	ASSERT(slot_count() >= 3);
	cn_account_close(first);
	close(fd);
	first = join_account();
	struct cn_account *second = join_account();
	ASSERT_EQ(2, slot_count());
	cn_account_close(first);
	cn_account_close(second);
}

/* Goal: a file of the dead that cannot be removed is used. */
TEST(a_file_that_cannot_be_removed_is_used)
{
	close(make_file_of_the_dead());
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(account_path(), account_path(), NULL, MS_BIND, NULL))
		SKIP("needs root, and a mount namespace of its own");
	struct cn_account *account = join_account();
	take(account, 5);
	ASSERT_EQ(5, used(account));
	cn_account_close(account);
	ASSERT_SYS(umount(account_path()));
	ASSERT_SYS(unlink(account_path()));
}

static void *unlock_later(void *data)
{
	int fd = *(int *)data;

	for (int i = 0; i < 50000; i++) /* longer than the quick tries take */
		sched_yield();
	close(fd);
	return NULL;
}

/* Goal: a process that removes the file and has to wait for a CPU is waited for. */
TEST(one_that_is_slow_to_remove_is_waited_for)
{
	int fd = open(account_path(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	pthread_t thread;

	ASSERT_SYS(fd);
	ASSERT_SYS(flock(fd, LOCK_EX));
	ASSERT_EQ(0, pthread_create(&thread, NULL, unlock_later, &fd));
	struct cn_account *account = join_account();
	ASSERT_EQ(0, pthread_join(thread, NULL));
	cn_account_close(account);
}

/* Goal: the last that has it open removes the file; nobody else does. */
TEST(the_last_removes_the_file)
{
	struct cn_account *first = open_account(), *second = open_account();
	const char *path = account_path();

	setenv("CENOTE_RUNTIME_DIR", "changed since", 1);
	cn_account_close(first);
	ASSERT_SYS(access(path, F_OK));
	cn_account_close(second);
	ASSERT_EQ(-1, access(path, F_OK));
}

enum { MEETING_THREADS = 4 };
static pthread_barrier_t meeting;

static void *open_and_remove(void *unused)
{
	for (int i = 0; i < 300 / HARNESS_SLOWDOWN; i++) {
		struct cn_account *account = join_account();
		take(account, 1);
		pthread_barrier_wait(&meeting);
		ASSERT_EQ(MEETING_THREADS, used(account));
		pthread_barrier_wait(&meeting);
		cn_account_close(account); /* while others open it anew */
	}
	return unused;
}

/* Goal: while some remove the file and others open it, all that have it open have the same. */
TEST(opening_and_removing_meet)
{
	pthread_t threads[MEETING_THREADS];

	ASSERT_EQ(0, pthread_barrier_init(&meeting, NULL, MEETING_THREADS));
	for (int i = 0; i < MEETING_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, open_and_remove, NULL));
	for (int i = 0; i < MEETING_THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(-1, access(account_path(), F_OK));
}

/* Goal: there is a sentence where no account can be had. */
TEST(no_directory_no_account)
{
	struct cn_account *account;

	setenv("CENOTE_RUNTIME_DIR", "nowhere", 1);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_account_open(CAPACITY, &account));
	ASSERT_CONTAINS("absolute", cenote_last_error());
	setenv("CENOTE_RUNTIME_DIR", test_path("folder"), 1);
	ASSERT_SYS(mkdir(test_path("folder"), 0700));
	ASSERT_SYS(mkfifo(account_path(), 0600));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_account_open(CAPACITY, &account));
	ASSERT_CONTAINS("no account", cenote_last_error());
	ASSERT_SYS(unlink(account_path()));
	ASSERT_SYS(symlink("/dev/null", account_path()));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_account_open(CAPACITY, &account));
	ASSERT_SYS(unlink(account_path()));
}

/* Goal: when the program has closed the descriptor and opened another file, it is neither written to nor closed. */
TEST(a_foreign_descriptor_is_left_alone)
{
	struct cn_account *account = join_account();
	struct cn_account_sum sum;
	struct stat status;
	int foreign = open(test_path("foreign"), O_RDWR | O_CREAT | O_CLOEXEC, 0600), replaced = 0;

	ASSERT_SYS(foreign);
	for (int fd = 3; fd < 64; fd++) {
		char link[64], target[4096] = "";
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof target - 1) > 0 && !strcmp(target, account_path())) {
			ASSERT_SYS(dup3(foreign, fd, O_CLOEXEC));
			replaced = fd;
		}
	}
	ASSERT_NE(0, replaced);
	ASSERT(cn_account_bid(account, 0, 1)); /* where it is mapped */
	ASSERT(!cn_account_sum(account, 0, true, &sum));
	ASSERT(!cn_account_begin_turn(account));
	ASSERT(!cn_account_join(account, 1));
	cn_account_drop(account); /* as in a forked child */
	cn_account_close(account);
	ASSERT_SYS(fstat(foreign, &status));
	ASSERT_EQ(0, status.st_size);
	ASSERT_SYS(close(replaced));
	ASSERT_SYS(close(foreign));
	ASSERT_SYS(unlink(test_path("foreign")));
	cn_account_close(open_account());
}

/* Goal: a limit of file sizes is an answer and no signal. */
TEST(a_limit_of_file_sizes_does_not_kill)
{
	struct cn_account *account = open_account(), *joined = join_account();
	struct rlimit limit = {.rlim_cur = 32, .rlim_max = RLIM_INFINITY};

	ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &limit));
	ASSERT(!cn_account_join(account, 0));
	take(joined, 1); /* what is there already may be written */
	ASSERT_EQ(1, used(account));
	cn_account_close(joined);
	cn_account_close(account);
}

/* ---- Liars ---- */

/* Goal: whatever the file has in it, a sum comes out, and one's own bytes are in it. */
TEST(garbage_is_survived)
{
	struct cn_account *account = join_account(), *victim = join_account();
	struct test_random random = test_random_start(1);
	int fd = open_file();
	struct stat status;

	take(account, 11);
	take(victim, 22);
	cn_account_enter_made(victim, 0, FILE_NAME, 22);
	ASSERT_SYS(fstat(fd, &status));
	for (int round = 0; round < 300 / HARNESS_SLOWDOWN; round++) {
		unsigned char bytes[512];
		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = (unsigned char)test_random_next(&random);
		off_t at = (off_t)test_random_below(&random, (uint64_t)(round % 2 ? 4096 : status.st_size));
		ASSERT_SYS(pwrite(fd, bytes, test_random_below(&random, sizeof bytes) + 1, at));
		ASSERT_GE(used(account), 11);
		struct cn_account *next = open_account();
		unsigned device;
		cn_account_enter_held(next, FILE_NAME, &device);
		cn_account_join(next, 1);
		cn_account_close(next);
	}
	ASSERT_SYS(close(fd));
	cn_account_close(victim);
	cn_account_close(account);
}

/* Goal: a file that shrinks hurts nobody. */
TEST(a_truncated_file_is_survived)
{
	struct cn_account *account = join_account();
	int fd = open_file();

	take(account, 11);
	cn_account_enter_made(account, 0, FILE_NAME, 11);
	for (off_t bytes = HEADERS_BYTES + REGION_BYTES; bytes >= 0; bytes -= 4096 - 8) {
		ASSERT_SYS(ftruncate(fd, bytes));
		ASSERT_EQ(11, used(account));
	}
	ASSERT_SYS(ftruncate(fd, (off_t)1 << 42));
	ASSERT_EQ(11, used(account));
	ASSERT_SYS(close(fd));
	cn_account_close(account);
}

/* Goal: numbers that are too large to be added are the largest number. */
TEST(sums_do_not_overflow)
{
	struct cn_account *liars[2] = {join_account(), join_account()}, *account = open_account();

	for (int i = 0; i < 2; i++) {
		ASSERT(cn_account_bid(liars[i], 0, UINT64_MAX));
		ASSERT(cn_account_settle(liars[i], 0, UINT64_MAX));
	}
	ASSERT_EQ(UINT64_MAX, sum_of(account).made);
	cn_account_close(liars[0]);
	cn_account_close(liars[1]);
	cn_account_close(account);
}

enum { WORDS = HEADER_BYTES / 8, MADE = 3 };

/* Change a number in a half of slot 1, but not its check; or back again. */
static void damage(int fd, int half)
{
	off_t at = 2 * HEADER_BYTES + half * HEADER_BYTES;
	uint64_t header[WORDS];

	ASSERT_EQ(HEADER_BYTES, pread(fd, header, HEADER_BYTES, at));
	header[MADE] ^= 1;
	ASSERT_EQ(HEADER_BYTES, pwrite(fd, header, HEADER_BYTES, at));
}

/* Goal: a slot that is never whole is left out after a while. */
TEST(a_damaged_slot_delays_nobody)
{
	struct cn_account *account = join_account(), *writer = join_account();
	int fd = open_file();

	take(writer, 33);
	ASSERT_EQ(33, used(account));
	damage(fd, 0);
	damage(fd, 1);
	ASSERT_EQ(0, used(account));
	damage(fd, 0);
	damage(fd, 1);
	ASSERT_EQ(33, used(account));
	ASSERT_SYS(close(fd));
	cn_account_close(writer);
	cn_account_close(account);
}

/* Goal: of a process that was stopped or killed while it wrote its slot, what it wrote before counts. */
TEST(half_a_header_does_not_count)
{
	struct cn_account *account = join_account(), *writer = join_account();
	int fd = open_file(), newest = 0;

	take(writer, 33);
	take(writer, 4);
	damage(fd, newest);
	if (used(account) == 37) { /* that was the older one */
		damage(fd, newest);
		newest = 1;
		damage(fd, newest);
	}
	ASSERT_EQ(33, used(account));
	ASSERT_EQ(4, sum_of(account).bid);
	ASSERT(cn_account_give(writer, 0, 7)); /* the next change goes to the other half, */
	ASSERT_EQ(30, used(account));
	ASSERT(cn_account_give(writer, 0, 7)); /* and the one after it mends this one */
	ASSERT_EQ(23, used(account));
	ASSERT_SYS(close(fd));
	cn_account_close(writer);
	cn_account_close(account);
}

static void ignore(int signal)
{
	(void)signal;
}

/* An account whose file is empty, in a thread whose program has done something with SIGBUS. */
static void write_without_a_file(bool blocks, bool handles)
{
	struct cn_account *account = join_account();
	struct sigaction own = {.sa_handler = ignore}, before;
	sigset_t bus;
	int fd = open_file();

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	take(account, 11);
	cn_account_prepare(account); /* which installs the guard */
	take(account, 11);
	cn_account_finish(account);
	if (blocks)
		ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &bus, NULL));
	if (handles)
		ASSERT_SYS(sigaction(SIGBUS, &own, &before));
	ASSERT_SYS(ftruncate(fd, 0));
	cn_account_prepare(account);
	ASSERT(!cn_account_bid(account, 0, 1));
	ASSERT(!cn_account_give(account, 0, 1));
	cn_account_enter_made(account, 0, FILE_NAME, 1);
	cn_account_finish(account);
	ASSERT(!cn_account_give(account, 0, 1));
	if (handles)
		ASSERT_SYS(sigaction(SIGBUS, &before, NULL));
	ASSERT_EQ(0, pthread_sigmask(SIG_UNBLOCK, &bus, NULL));
	ASSERT_SYS(close(fd));
	cn_account_close(account);
}

/* Goal: a process that shortens the file does not end those that write it, whatever they do with SIGBUS. */
TEST(a_shortened_file_hurts_no_writer)
{
	write_without_a_file(false, false);
	write_without_a_file(true, false);
	write_without_a_file(false, true);
	write_without_a_file(true, true);
}

/* ---- Turns and bids ---- */

/* Goal: one has the turn at a time, and it ends with its process. */
TEST(turns_are_taken_one_after_the_other)
{
	struct cn_account *first = join_account(), *second = join_account();

	ASSERT(cn_account_begin_turn(first));
	ASSERT(!cn_account_begin_turn(second));
	cn_account_end_turn(first);
	ASSERT(cn_account_begin_turn(second));
	ASSERT(!cn_account_begin_turn(first));
	cn_account_close(second);
	ASSERT(cn_account_begin_turn(first));
	cn_account_close(first);
}

/* Goal: bids that were there before are waited for; later ones, and those of the dead, are not. */
TEST(earlier_bids_are_noted)
{
	struct cn_account *self = join_account(), *early[3], *late = join_account();

	for (int i = 0; i < 3; i++) {
		early[i] = join_account();
		ASSERT(cn_account_bid(early[i], 0, 10));
	}
	ASSERT(cn_account_bid(self, 0, 1));
	cn_account_note_bids(self, 0);
	ASSERT(cn_account_bid(late, 0, 500));
	ASSERT_EQ(30, cn_account_noted_bids(self, 0));
	ASSERT(cn_account_settle(early[0], 0, 10));
	ASSERT_EQ(20, cn_account_noted_bids(self, 0));
	ASSERT(cn_account_bid(early[0], 0, 100)); /* a new one */
	ASSERT(cn_account_retract(early[1], 0, 10));
	ASSERT_EQ(10, cn_account_noted_bids(self, 0));
	cn_account_close(early[2]);
	ASSERT_EQ(0, cn_account_noted_bids(self, 0));
	cn_account_close(early[0]);
	cn_account_close(early[1]);
	cn_account_close(late);
	cn_account_close(self);
}

/* ---- Sweeping ---- */

/* Goal: only names of accounts are such. */
TEST(names_are_known)
{
	ASSERT(cn_account_is_name("account-67108864"));
	ASSERT(!cn_account_is_name("account-"));
	ASSERT(!cn_account_is_name("account-67108864.lock"));
	ASSERT(!cn_account_is_name("account-6x"));
	ASSERT(!cn_account_is_name("accounts"));
	ASSERT(!cn_account_is_name("account-11111111111111111111111111111111111111111"));
}
