/* SPDX-License-Identifier: MIT */
/*
 * What the system refuses: no descriptors, no addresses, no memory, no threads, no /proc, no place for names, or one
 * that is not ours. Every way to share either works or says why, in words that name the cause, and works again when the
 * cause has gone.
 *
 * Each test makes the tour of tour.h under one condition. What needs rights that the test may not have is skipped.
 */
#include "tour.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { OTHER_USER = 64129, FILLERS_MAX = 256 };

/* In the environment of a role: it begins with the device by itself. */
#define LATER "CENOTE_TEST_LATER"

static void begin_device(void)
{
	CUcontext context;

	unsetenv(LATER); /* not for processes that are started from here */
	signal(SIGPIPE, SIG_IGN);
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
}

SETUP
{
	if (!getenv(LATER))
		begin_device();
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

/* What is said of one cause: any of these. */
struct reasons {
	const char *words[8];
};

static bool says(const char *sentence, const struct reasons *reasons)
{
	for (unsigned i = 0; i < 8 && reasons->words[i]; i++)
		if (strstr(sentence, reasons->words[i]))
			return true;
	return false;
}

/* Each step has worked, or was refused with a reason. Returns how many were refused. */
static unsigned check_reasons(const struct tour *tour, const struct reasons *reasons, const char *under)
{
	unsigned refused = 0;

	for (unsigned step = 0; step < TOUR_STEPS; step++) {
		if (tour->results[step] <= 0)
			continue;
		refused++;
		printf("%s: %s: %d, %s\n", under, tour_names[step], tour->results[step], tour->sentences[step]);
		if (!tour->sentences[step][0])
			FAIL("%s: %s: %d without a sentence", under, tour_names[step], tour->results[step]);
		/* A partner sees only that it gets no answer. */
		if (!tour_is_partners(step) && !says(tour->sentences[step], reasons))
			FAIL("%s: %s: %d: \"%s\" is no reason", under, tour_names[step], tour->results[step],
			     tour->sentences[step]);
	}
	return refused;
}

/* ---- Descriptors ------------------------------------------------------------------------------------------------- */

static const struct reasons no_descriptors = {
	{"Too many open files", "descriptor", "ulimit -n", "did not deliver the descriptor"}};

static unsigned count_descriptors(void)
{
	DIR *entries = opendir("/proc/self/fd");
	unsigned count = 0;

	ASSERT(entries);
	while (readdir(entries))
		count++;
	closedir(entries);
	return count;
}

/* From now on `level` descriptors can be opened, and no more. */
struct shortage {
	struct rlimit before;
	int fillers[FILLERS_MAX];
	unsigned filler_count;
};

static void shortage_begin(struct shortage *shortage, unsigned level)
{
	struct rlimit limit;

	shortage->filler_count = 0;
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &shortage->before));
	/* Fill the holes: the limit is one of numbers. */
	int last = -1, filler;
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			last = fd;
	while ((filler = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) < last) {
		ASSERT(filler >= 0 && shortage->filler_count < FILLERS_MAX);
		shortage->fillers[shortage->filler_count++] = filler;
	}
	close(filler);
	limit = shortage->before;
	limit.rlim_cur = (rlim_t)last + 1 + level;
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
}

static void shortage_end(struct shortage *shortage)
{
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &shortage->before));
	while (shortage->filler_count)
		close(shortage->fillers[--shortage->filler_count]);
}

/* A tour with few descriptors, then one with enough. Returns how many steps were refused. */
static unsigned tour_with(struct tour *tour, unsigned level)
{
	struct shortage shortage;
	char under[32];

	snprintf(under, sizeof under, "%u descriptors", level);
	shortage_begin(&shortage, level);
	tour_make(tour);
	shortage_end(&shortage);
	unsigned refused = check_reasons(tour, &no_descriptors, under);
	tour_must(tour);
	return refused;
}

/* The first thing that this process shares, it shares with few descriptors. */
ROLE(first_tour)
{
	struct tour tour;

	leaks_watch(0);
	tour_begin(&tour);
	tour_with(&tour, (unsigned)atoi(argv[0]));
	tour_end(&tour);
}

/* Goal: a process that has shared before meets every shortage of descriptors, and nothing is lost. */
TEST(few_descriptors, .timeout_ms = 60000)
{
	enum { LEVELS = 48 };
	struct tour tour;
	unsigned refused, level = 0;

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);
	tour_must(&tour);
	leaks_start_here(); /* what stays with a process that shares */
	unsigned before = count_descriptors();
	do {
		refused = tour_with(&tour, level);
		ASSERT(level || refused); /* with none, something is refused */
		ASSERT_LE(++level, LEVELS);
	} while (refused);
	while (count_descriptors() > before) /* the service thread may be closing the last ones */
		sched_yield();
	printf("with %u descriptors nothing was refused\n", level - 1);
	tour_end(&tour);
}

/* Goal: the same of a process that shares for the first time. */
TEST(few_descriptors_at_the_start, .timeout_ms = 180000)
{
	enum { LEVELS = 40 };
	char text[16];

	tour_prepare();
	for (unsigned level = 0; level < LEVELS; level += HARNESS_SLOWDOWN == 1 ? 2 : 13) {
		snprintf(text, sizeof text, "%u", level);
		peer_wait(peer_start("first_tour", text));
	}
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

static const struct reasons no_addresses = {{"address space", "memory", "Cannot allocate", "addresses", "mapped",
					     "thread could not be started", "no room"}};

/* How many bytes of addresses the process uses. */
static size_t used_addresses(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	ASSERT(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)getpagesize();
}

/*
 * Goal: a process whose addresses are used up meets every shortage of them, and nothing is lost. Nothing of the test's
 * own is allocated meanwhile.
 */
TEST(few_addresses, .timeout_ms = 60000)
{
	static struct tour tour;
	struct rlimit before, limit;
	unsigned refused, levels = 0;
	char under[64];

	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer needs more addresses than can be spared");
	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);
	leaks_start_here();
	ASSERT_SYS(getrlimit(RLIMIT_AS, &before));
	size_t more = 4096;
	do {
		snprintf(under, sizeof under, "%zu more bytes of addresses", more);
		limit = before;
		limit.rlim_cur = used_addresses() + more;
		ASSERT_SYS(setrlimit(RLIMIT_AS, &limit));
		tour_make(&tour);
		ASSERT_SYS(setrlimit(RLIMIT_AS, &before));
		refused = check_reasons(&tour, &no_addresses, under);
		tour_must(&tour);
		ASSERT(levels++ || refused);
		more += more / 2;
		ASSERT_LT(more, (size_t)1 << 44);
	} while (refused);
	printf("%u levels; with %zu more bytes nothing was refused\n", levels, more / 3 * 2);
	tour_end(&tour);
}

/* ---- The size of files ------------------------------------------------------------------------------------------- */

static const struct reasons small_files = {{"ulimit -f"}};

/* Goal: a process whose files may not be large is told so, and is not ended by SIGXFSZ. */
TEST(small_files_alone, .timeout_ms = 60000)
{
	static struct tour tour;
	struct rlimit before, limit;
	unsigned refused, levels = 0;
	rlim_t bytes = 0;
	char under[64];

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);
	leaks_start_here();
	ASSERT_SYS(getrlimit(RLIMIT_FSIZE, &before));
	do {
		snprintf(under, sizeof under, "files of %llu bytes", (unsigned long long)bytes);
		limit = before;
		limit.rlim_cur = bytes;
		ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &limit));
		tour_make(&tour);
		ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &before));
		refused = check_reasons(&tour, &small_files, under);
		tour_must(&tour);
		ASSERT(levels++ || refused);
		bytes = bytes ? bytes * 4 : 4096;
		ASSERT_LT(bytes, (rlim_t)1 << 50);
	} while (refused);
	printf("%u levels; with files of %llu bytes nothing was refused\n", levels, (unsigned long long)bytes / 4);
	tour_end(&tour);
}

/* The same before anything was shared: what is made once a process cannot be made. */
ROLE(first_small_files)
{
	struct rlimit limit;
	struct tour tour;

	leaks_watch(0);
	tour_begin(&tour);
	ASSERT_SYS(getrlimit(RLIMIT_FSIZE, &limit));
	struct rlimit small = {.rlim_cur = (rlim_t)atoll(argv[0]), .rlim_max = limit.rlim_max};
	ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &small));
	tour_make(&tour);
	ASSERT_SYS(setrlimit(RLIMIT_FSIZE, &limit));
	check_reasons(&tour, &small_files, "small files at the start");
	tour_must(&tour);
	tour_end(&tour);
}

TEST(small_files_at_the_start, .timeout_ms = 60000)
{
	static const char *const sizes[] = {"0", "4096", "1048576", "1073741824"};

	tour_prepare();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		peer_wait(peer_start("first_small_files", sizes[i]));
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

enum { GROUP_BYTES = 256 << 20, PIECE_BYTES = 8 << 20, PIECES = GROUP_BYTES / PIECE_BYTES };

static void write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	ASSERT_SYS(file);
	ASSERT_EQ((ssize_t)strlen(text), write(file, text, strlen(text)));
	close(file);
}

/* Allocates and fills until there is no more, in a cgroup that would kill it if it used all that the machine has. */
ROLE(in_a_group)
{
	CUdeviceptr pieces[PIECES];
	struct tour tour;
	size_t bytes, free_bytes, count = 0;
	char number[16];

	leaks_watch(0);
	snprintf(number, sizeof number, "%d", (int)getpid());
	write_text(argv[0], number);
	begin_device();
	ASSERT_OK(cuDeviceTotalMem(&bytes, 0));
	ASSERT_EQ((size_t)GROUP_BYTES / 4 * 3, bytes);
	tour_begin(&tour);
	CUmemoryPool pool = share_pool(0);
	close(share_export(pool));
	ASSERT_OK(cuMemGetInfo(&free_bytes, &bytes)); /* the tour's other process has some */
	CUresult result;
	while (count < PIECES && !(result = cuMemAllocFromPoolAsync(&pieces[count], PIECE_BYTES, pool, NULL))) {
		share_fill(pieces[count], TOUR_BYTE, PIECE_BYTES);
		share_name(pieces[count++]);
	}
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, result);
	ASSERT_NE(0, strlen(cenote_last_error()));
	ASSERT_EQ(free_bytes / PIECE_BYTES / 4 * 4, count); /* whole chunks */
	while (count)
		ASSERT_OK(cuMemFree(pieces[--count]));
	ASSERT_OK(cuMemPoolDestroy(pool));
	tour_must(&tour);
	tour_end(&tour);
}

/* A cgroup below this process's own; its path without the last part. False: there is no way. */
static bool make_group(char *path, size_t room, const char **ret_limit)
{
	char line[512], name[64], limit[1024];
	FILE *file = fopen("/proc/self/cgroup", "re");
	bool made = false;

	snprintf(name, sizeof name, "cenote-test-%d", (int)getpid());
	while (file && !made && fgets(line, sizeof line, file)) {
		char *older = strstr(line, ":memory:"), *group = older ? older + 8 : line + 3;
		if (!older && strncmp(line, "0::", 3) != 0)
			continue;
		group[strcspn(group, "\n")] = '\0';
		*ret_limit = older ? "memory.limit_in_bytes" : "memory.max";
		snprintf(path, room, "/sys/fs/cgroup%s%s/%s", older ? "/memory" : "", group, name);
		snprintf(limit, sizeof limit, "%s/%s", path, *ret_limit);
		made = !mkdir(path, 0700);
		if (made && access(limit, W_OK)) { /* one that does not count memory */
			rmdir(path);
			made = false;
		}
	}
	if (file)
		fclose(file);
	return made;
}

/* Goal: a process in a small cgroup is told that there is no more memory before the system kills it for taking more. */
TEST(little_memory_in_a_cgroup)
{
	char path[600], file[700], bytes[32];
	const char *limit;

	if (HARNESS_SLOWDOWN > 1)
		SKIP("a sanitizer needs more memory than the cgroup has");
	tour_prepare();
	if (!make_group(path, sizeof path, &limit))
		SKIP("no cgroup that counts memory can be made here: %s", strerror(errno));
	snprintf(file, sizeof file, "%s/%s", path, limit);
	snprintf(bytes, sizeof bytes, "%d", GROUP_BYTES);
	write_text(file, bytes);
	snprintf(file, sizeof file, "%s/cgroup.procs", path);
	setenv(LATER, "1", 1);
	struct peer *peer = peer_start("in_a_group", file);
	int status = peer_wait_status(peer);
	while (rmdir(path) && errno == EBUSY) /* until the system has buried its processes */
		sched_yield();
	ASSERT_EQ(0, status);
}

/* The device's memory is a destroyed pool's, whose last free has not happened yet. */
struct late_opener {
	struct share_gate gate;
	_Atomic bool begun;
};

static void *open_when_begun(void *data)
{
	struct late_opener *opener = data;

	while (!opener->begun)
		sched_yield();
	share_gate_open(&opener->gate);
	return NULL;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

ROLE(in_need)
{
	enum { PATIENCE_MS = 90, ROUNDS = 20 }; /* somewhat less than an allocation waits */
	struct late_opener opener = {.gate = share_gate_make()};
	CUstream first, second;
	unsigned waited = 0;

	leaks_watch(0);
	ASSERT_SYS(setenv("CENOTE_HOST_MEMORY", argv[0], 1));
	begin_device();
	first = share_stream();
	second = share_stream();
	for (unsigned round = 0; round < ROUNDS; round++) {
		CUmemoryPool old = share_pool(SHARE_CHUNK), pool = share_pool(SHARE_CHUNK);
		CUdeviceptr block = share_allocate(old, SHARE_CHUNK, first);
		pthread_t thread;
		opener.begun = false;
		share_gate_close(opener.gate.reader, first);
		ASSERT_OK(cuMemFreeAsync(block, first));
		ASSERT_OK(cuMemPoolDestroy(old));
		ASSERT_EQ(0, pthread_create(&thread, NULL, open_when_begun, &opener));
		uint64_t start_ms = now_ms();
		opener.begun = true;
		CUresult result = cuMemAllocFromPoolAsync(&block, SHARE_CHUNK, pool, second);
		/* A process that was kept from opening the gate for so long is not our fault. */
		if (result && now_ms() - start_ms < PATIENCE_MS)
			ASSERT_OK(result);
		waited += !result;
		ASSERT_EQ(0, pthread_join(thread, NULL));
		if (!result)
			ASSERT_OK(cuMemFreeAsync(block, second));
		ASSERT_OK(cuMemPoolDestroy(pool));
		ASSERT_OK(cuCtxSynchronize());
	}
	ASSERT_GT(waited, 0);
	share_gate_free(&opener.gate);
}

/* Goal: an allocation does not fail for want of memory that a destroyed pool is about to give back. */
TEST(memory_that_a_pool_is_about_to_give_back, .timeout_ms = 60000)
{
	setenv(LATER, "1", 1);
	peer_wait(peer_start("in_need", "32M"));
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* Which calls need a place where processes find each other, and what they say without one. */
static void check_place(const struct tour *tour, const char *words)
{
	static const unsigned refused = TOUR_BIT(TOUR_EXPORT) | TOUR_BIT(TOUR_EXPORT_LEGACY) |
					TOUR_BIT(TOUR_EXPORT_EVENT) | TOUR_BIT(TOUR_SEND_POOL);
	static const unsigned needs_it =
		TOUR_BIT(TOUR_IMPORT_LEGACY) | TOUR_BIT(TOUR_IMPORT_EVENT) | TOUR_BIT(TOUR_SURVEY);

	for (unsigned step = 0; step < TOUR_STEPS; step++) {
		int result = tour->results[step];
		if (result > 0)
			printf("%s: %d, %s\n", tour_names[step], result, tour->sentences[step]);
		if (refused & TOUR_BIT(step) && tour_is_ours(step))
			ASSERT_EQ(CUDA_ERROR_OPERATING_SYSTEM, result);
		if (result > 0 && !((refused | needs_it) & TOUR_BIT(step) && tour_is_ours(step)))
			FAIL("%s failed: %d, %s", tour_names[step], result, tour->sentences[step]);
		/* A step that needs the partner does not find it from there, or asks no process. */
		bool elsewhere =
			needs_it & TOUR_BIT(step) && (strstr(tour->sentences[step], "another runtime directory") ||
						      strstr(tour->sentences[step], "is asked"));
		if (result > 0 && !elsewhere)
			ASSERT_CONTAINS(words, tour->sentences[step]);
	}
}

/* A tour of a process that has shared nothing yet, whose runtime directory is `directory`; then one with a good one. */
ROLE(in_a_place)
{
	char good[512];
	struct tour tour;

	leaks_watch(0);
	tour_begin(&tour);
	snprintf(good, sizeof good, "%s", getenv("CENOTE_RUNTIME_DIR"));
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", argv[0], 1));
	tour_make(&tour);
	check_place(&tour, argv[1]);
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", good, 1));
	tour_must(&tour);
	tour_end(&tour);
}

static const char *in_directory(const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", test_directory(), name);
	return path;
}

/* Goal: a link in the place of the runtime directory is not followed. */
TEST(a_link_in_the_place_of_the_directory)
{
	tour_prepare();
	ASSERT_SYS(mkdir(in_directory("target"), 0700));
	ASSERT_SYS(symlink("target", in_directory("link")));
	peer_wait(peer_start("in_a_place", in_directory("link"), "it is a link, or no directory"));
	ASSERT_SYS(rmdir(in_directory("target"))); /* nothing was made in it */
}

/* Goal: a directory into which others can put things is not used. */
TEST(a_directory_that_others_can_enter)
{
	static const mode_t modes[] = {0770, 0720, 0702, 0777, 01777};

	tour_prepare();
	ASSERT_SYS(mkdir(in_directory("open"), 0700));
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i += HARNESS_SLOWDOWN) {
		ASSERT_SYS(chmod(in_directory("open"), modes[i]));
		peer_wait(
			peer_start("in_a_place", in_directory("open"), "other users may enter the runtime directory"));
	}
	ASSERT_SYS(rmdir(in_directory("open")));
}

/* Goal: neither is one that another user has made for us. */
TEST(a_directory_of_another_user)
{
	tour_prepare();
	if (geteuid())
		SKIP("only root can give a directory to another user");
	ASSERT_SYS(mkdir(in_directory("theirs"), 0700));
	ASSERT_SYS(chown(in_directory("theirs"), OTHER_USER, OTHER_USER));
	peer_wait(peer_start("in_a_place", in_directory("theirs"), "belongs to user 64129, not to user 0"));
	ASSERT_SYS(rmdir(in_directory("theirs")));
}

/* ---- In mounts of one's own -------------------------------------------------------------------------------------- */

static bool make_mounts(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* Can a process have mounts of its own here? */
static bool can_mount(void)
{
	int status;
	pid_t child = fork();

	ASSERT_SYS(child);
	if (child == 0)
		_exit(!make_mounts() || mount("none", "/tmp", "tmpfs", 0, NULL));
	ASSERT_SYS(waitpid(child, &status, 0));
	return status == 0;
}

static void need_mounts(void)
{
	tour_prepare();
	if (!can_mount())
		SKIP("this user may not have mounts of its own");
}

/* The runtime directory is on a file system of its own, mounted with such options. */
ROLE(on_a_file_system)
{
	char good[512];
	struct tour tour;
	bool read_only = strcmp(argv[0], "ro") == 0;

	leaks_watch(0);
	tour_begin(&tour);
	ASSERT(make_mounts());
	snprintf(good, sizeof good, "%s", getenv("CENOTE_RUNTIME_DIR"));
	ASSERT_SYS(mkdir(in_directory("apart"), 0700));
	ASSERT_SYS(mount("none", in_directory("apart"), "tmpfs", read_only ? MS_RDONLY : 0,
			 read_only ? "mode=0700" : argv[0]));
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", in_directory("apart"), 1));
	tour_make(&tour);
	check_place(&tour, argv[1]);
	/* It stays mounted: the service thread may just try to make a name there. It goes with this process. */
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", good, 1));
	tour_must(&tour);
	tour_end(&tour);
}

/* Goal: a runtime directory on a file system that is read only, which root's rights do not help against. */
TEST(a_read_only_directory)
{
	need_mounts();
	peer_wait(peer_start("on_a_file_system", "ro", "Read-only file system"));
}

/* Goal: one on a file system that is full: not one more name fits. */
TEST(a_full_file_system)
{
	need_mounts();
	peer_wait(peer_start("on_a_file_system", "mode=0700,nr_inodes=1", "No space left on device"));
}

/* Goal: without /proc, which descriptors are reached by, memory is shared and everything else says what is missing. */
ROLE(without_proc)
{
	static const unsigned works = TOUR_BIT(TOUR_STREAM) | TOUR_BIT(TOUR_POOL) | TOUR_BIT(TOUR_ALLOCATE) |
				      TOUR_BIT(TOUR_MEMORY) | TOUR_BIT(TOUR_EXPORT_MEMORY) | TOUR_BIT(TOUR_MAP) |
				      TOUR_BIT(TOUR_PARTNER_MEMORY) | TOUR_BIT(TOUR_LEGACY) | TOUR_BIT(TOUR_EVENT) |
				      TOUR_BIT(TOUR_FABRIC) | TOUR_BIT(TOUR_SURVEY) /* which reaches no process */;
	struct tour tour;

	leaks_watch(0);
	tour_begin(&tour);
	ASSERT(make_mounts());
	ASSERT_SYS(mount("none", "/proc", "tmpfs", 0, NULL));
	tour_make(&tour);
	ASSERT_SYS(umount("/proc"));
	for (unsigned step = 0; step < TOUR_STEPS; step++) {
		if (tour.results[step] > 0)
			printf("%s: %d, %s\n", tour_names[step], tour.results[step], tour.sentences[step]);
		if (works & TOUR_BIT(step))
			ASSERT_EQ(0, tour.results[step]);
		else
			ASSERT_NE(0, tour.results[step]);
		if (tour.results[step] > 0)
			ASSERT_CONTAINS("/proc", tour.sentences[step]);
	}
	tour_must(&tour);
	tour_end(&tour);
}

TEST(no_proc)
{
	if (test_has_gpu())
		SKIP("NVIDIA's driver needs /proc itself");
	need_mounts();
	peer_wait(peer_start("without_proc"));
}

/* Goal: nothing of /dev is needed, neither shared memory's place nor any other. */
ROLE(without_dev)
{
	struct tour tour;

	leaks_watch(0);
	ASSERT(make_mounts());
	ASSERT_SYS(mount("none", "/dev", "tmpfs", 0, NULL));
	ASSERT(access("/dev/shm", F_OK));
	begin_device();
	tour_begin(&tour);
	tour_must(&tour);
	tour_end(&tour);
}

TEST(no_dev)
{
	if (test_has_gpu())
		SKIP("the GPU is in /dev");
	need_mounts();
	setenv(LATER, "1", 1);
	peer_wait(peer_start("without_dev"));
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

/* Goal: an exporter that stands still is given up, in words that say so; when it goes on, so does the import. */
TEST(an_exporter_that_stands_still, .timeout_ms = 60000)
{
	struct tour tour;
	CUdeviceptr block;

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour); /* the ports and their connections stay */
	leaks_start_here();
	CUmemoryPool pool = share_import(tour.gift_pool);
	peer_stop(tour.partner);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cuMemPoolImportPointer(&block, pool, &tour.gifts.block));
	ASSERT_CONTAINS("does not answer", cenote_last_error());
	peer_continue(tour.partner);
	ASSERT_OK(cuMemPoolImportPointer(&block, pool, &tour.gifts.block));
	ASSERT_EQ(TOUR_BYTE, share_byte(block));
	ASSERT_OK(cuMemFree(block));
	ASSERT_OK(cuMemPoolDestroy(pool));
	tour_end(&tour);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void CUDA_CB count_call(void *data)
{
	++*(_Atomic unsigned *)data;
}

/* A user who may start no thread, and then may again. */
ROLE(alone)
{
	static _Atomic unsigned calls;
	struct rlimit before, none;
	int descriptor;

	leaks_watch(0);
	ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", in_directory("alone"), 1));
	ASSERT_SYS(setresgid(OTHER_USER, OTHER_USER, OTHER_USER));
	ASSERT_SYS(setresuid(OTHER_USER, OTHER_USER, OTHER_USER));
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1)); /* else it may not look into its own /proc */
	begin_device();
	CUstream stream = share_stream();
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	ASSERT_SYS(getrlimit(RLIMIT_NPROC, &before));
	none = before;
	none.rlim_cur = 0;
	ASSERT_SYS(setrlimit(RLIMIT_NPROC, &none));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cuMemPoolExportToShareableHandle(&descriptor, pool, SHARE_POSIX, 0));
	ASSERT_CONTAINS("the service thread could not be started", cenote_last_error());
	CUdeviceptr block = share_allocate(pool, TOUR_BLOCK, stream); /* what needs no thread works */
	ASSERT_OK(cuMemsetD8Async(block, TOUR_BYTE, TOUR_BLOCK, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(TOUR_BYTE, share_byte(block + TOUR_BLOCK - 1));
	if (!test_has_gpu()) { /* whose driver calls it from a thread of its own */
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuStreamSynchronize(stream)); /* a thread that waits for it may run it itself */
		ASSERT_EQ(1u, calls);
	}
	ASSERT_SYS(setrlimit(RLIMIT_NPROC, &before));
	unsigned before_it = calls;
	ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(before_it + 1, calls);
	close(share_export(pool));
	share_name(block);
	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a process that may start no thread is told so when one is needed, and loses nothing. */
TEST(no_threads)
{
	if (geteuid())
		SKIP("only root can become a user without other processes");
	ASSERT_SYS(chmod(test_directory(), 0711));
	ASSERT_SYS(mkdir(in_directory("alone"), 0700));
	ASSERT_SYS(chown(in_directory("alone"), OTHER_USER, OTHER_USER));
	setenv(LATER, "1", 1);
	peer_wait(peer_start("alone"));
}
