/* SPDX-License-Identifier: MIT */
/*
 * The test harness: a program is a list of tests, a test is a process.
 *
 *	#include "harness.h"
 *
 *	TEST(a_name_that_says_what_holds)
 *	{
 *		ASSERT_EQ(4, 2 + 2);
 *	}
 *
 * Tests register themselves; the harness brings main(). Each test runs in a child of a process that has one thread and
 * has never called the library, has a time limit (its whole process group is killed), and must leave no descriptor,
 * shared mapping, process or file in the runtime directory that was not there when it began. Output is TAP; what a
 * test printed is shown when it fails.
 *
 * Other processes of a test ("peers") are this program executed again in a role, never a bare fork, since neither
 * ThreadSanitizer nor the library follows a fork of a process with threads:
 *
 *	ROLE(echo)
 *	{
 *		peer_expect(parent, "ping");
 *		peer_send(parent, "pong");
 *	}
 *
 *	TEST(a_peer_answers)
 *	{
 *		struct peer *peer = peer_start("echo");
 *
 *		peer_send(peer, "ping");
 *		peer_expect(peer, "pong");
 *		peer_wait(peer);
 *	}
 *
 * Command line: [--list] [--verbose] [--debug NAME] [NAME...]. --debug runs one test in this very process, without a
 * time limit, for a debugger.
 *
 * Environment: CENOTE_TEST_SEED (the seed a failure printed), CENOTE_TEST_DEVICE (CENOTE_DEVICE for the tests, "host"
 * unless given), CENOTE_TEST_LIBCUDA (CENOTE_LIBCUDA for the tests), CENOTE_TEST_UNCOUNTED (1: descriptors, mappings
 * and threads are not counted, for a GPU's driver has its own), CENOTE_SOAK_SECONDS (run the tests marked .soak, for
 * that long each, and no others). Every other CENOTE_ variable and CUDA_VISIBLE_DEVICES are removed before a test
 * starts: a test sets what it needs.
 */
#ifndef CENOTE_TESTS_HARNESS_H
#define CENOTE_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/*
 * Under a sanitizer everything is slower, so each program gets this many times its limit. Tests divide by it, to do
 * less of what is only repetition.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HARNESS_SLOWDOWN 4
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HARNESS_SLOWDOWN 4
#endif
#endif
#ifndef HARNESS_SLOWDOWN
#define HARNESS_SLOWDOWN 1
#endif

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

struct harness_test {
	const char *name;
	void (*body)(void);
	const char *file;
	int line;
	unsigned timeout_ms; /* 0: 30 seconds */
	bool soak;           /* also runs in soak mode, for CENOTE_SOAK_SECONDS */
	bool hidden;         /* runs only when named: a specimen for the harness's own tests */
	struct harness_test *next;
};

void harness_add_test(struct harness_test *test);

/* TEST(name) { body }, or with settings: TEST(name, .timeout_ms = 60000, .soak = true) { body }. */
#define TEST(test_name, ...)                                                                                    \
	static void test_##test_name(void);                                                                     \
	static struct harness_test test_entry_##test_name = {                                                   \
		.name = #test_name, .body = test_##test_name, .file = __FILE__, .line = __LINE__, __VA_ARGS__}; \
	__attribute__((constructor)) static void test_add_##test_name(void)                                     \
	{                                                                                                       \
		harness_add_test(&test_entry_##test_name);                                                      \
	}                                                                                                       \
	static void test_##test_name(void)

/*
 * SETUP { body }, at most once a program: runs in each test's and each role's process before things are counted. What
 * the library keeps for the life of a process is created here, so that it is no leak.
 */
#define SETUP void harness_setup(void)
void harness_setup(void);

/* End the test as skipped. The reason is shown in the summary; a role cannot skip. */
#define SKIP(...) harness_skip(__VA_ARGS__)
_Noreturn void harness_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Is the device under test a GPU (CENOTE_DEVICE=cuda)? There the driver does all but the pools: it has no sentences,
 * and what it does not check cannot be tested.
 */
bool test_on_gpu(void);

/* Is it a real GPU? Where the tests' own driver stands for a GPU's (CENOTE_TEST_LIBCUDA), more can be promised. */
bool test_has_gpu(void);

/* A directory of this test's own, removed after it. The runtime directory is a folder in it. */
const char *test_directory(void);

/* The path of a name in it. The last four of a process are kept. */
const char *test_path(const char *name);

/*
 * For loops of tests marked .soak: true `rounds` times in an ordinary run, and until the time is up in soak mode.
 * `round` counts from 0.
 */
bool soak_goes_on(unsigned long round, unsigned long rounds);

/* ---- What a test must not leave --------------------------------------------------------------------------------- */

enum {
	LEAK_DESCRIPTORS = 1 << 0, /* open descriptors */
	LEAK_MAPPINGS = 1 << 1,    /* shared mappings, and any mapping of a memory file */
	LEAK_THREADS = 1 << 2,
	LEAK_FILES = 1 << 3, /* in the runtime directory, when all processes of the test are gone */
	LEAK_PROCESSES = 1 << 4,
	/* Threads are up to the library and may stay, unless a test says otherwise. */
	LEAK_DEFAULT = LEAK_DESCRIPTORS | LEAK_MAPPINGS | LEAK_FILES | LEAK_PROCESSES,
};

/* Choose what is watched in this process (LEAK_FILES and LEAK_PROCESSES: for the whole test, so not in a role). */
void leaks_watch(unsigned what);

/* Forget the count taken before the test and count again: what exists now may stay. */
void leaks_start_here(void);

/*
 * A process that ends without its exit handlers leaves its name in the runtime directory, until the next process makes
 * a name there. The names of peers which the test itself killed are forgiven; this adds `count` others. Not in a role.
 */
void leaks_forgive_names(unsigned count);

/* How many files a directory has. */
unsigned test_file_count(const char *path);

/* How many descriptors this process has open, and how many mappings with this in their names ("": all). */
unsigned test_descriptor_count(void);
unsigned test_mapping_count(const char *part);

/* ---- Assertions ------------------------------------------------------------------------------------------------- */

/* All may be used in any thread of a test or role; the first that fails ends the process. */

_Noreturn void harness_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define FAIL(...) harness_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT(condition)                                \
	do {                                             \
		if (!(condition))                        \
			FAIL("%s is false", #condition); \
	} while (0)

/* Compare two numbers or two pointers of any type; on failure both values are printed. The expected one comes first. */
#define ASSERT_EQ(expected, actual) HARNESS_COMPARE(expected, ==, actual)
#define ASSERT_NE(unwanted, actual) HARNESS_COMPARE(unwanted, !=, actual)
#define ASSERT_LT(left, right)      HARNESS_COMPARE(left, <, right)
#define ASSERT_LE(left, right)      HARNESS_COMPARE(left, <=, right)
#define ASSERT_GT(left, right)      HARNESS_COMPARE(left, >, right)
#define ASSERT_GE(left, right)      HARNESS_COMPARE(left, >=, right)

#define ASSERT_STREQ(expected, actual) harness_streq(__FILE__, __LINE__, #actual, expected, actual)
void harness_streq(const char *file, int line, const char *text, const char *expected, const char *actual);

/* The string `part` occurs in the string `whole`. */
#define ASSERT_CONTAINS(part, whole) harness_contains(__FILE__, __LINE__, #whole, part, whole)
void harness_contains(const char *file, int line, const char *text, const char *part, const char *whole);

#define ASSERT_MEMEQ(expected, actual, bytes) harness_memeq(__FILE__, __LINE__, #actual, expected, actual, bytes)
void harness_memeq(const char *file, int line, const char *text, const void *expected, const void *actual,
		   size_t bytes);

/* A driver or runtime call succeeds (or returns exactly `code`); a wrong result is printed with its name and reason. */
#define ASSERT_OK(call)          harness_result(__FILE__, __LINE__, #call, 0, (unsigned)(call))
#define ASSERT_ERROR(code, call) harness_result(__FILE__, __LINE__, #call, (unsigned)(code), (unsigned)(call))
void harness_result(const char *file, int line, const char *text, unsigned expected, unsigned actual);

/* A call that returns -1 and sets errno on failure succeeds. */
#define ASSERT_SYS(call)                       \
	do {                                   \
		if ((call) == -1)              \
			FAIL("%s: %m", #call); \
	} while (0)

enum harness_kind { HARNESS_SIGNED, HARNESS_UNSIGNED, HARNESS_FLOAT, HARNESS_DOUBLE, HARNESS_POINTER };

/* clang-format off */
#define HARNESS_KIND(value)                                                                                            \
	_Generic((value),                                                                                              \
		char: HARNESS_SIGNED, signed char: HARNESS_SIGNED, short: HARNESS_SIGNED, int: HARNESS_SIGNED,         \
		long: HARNESS_SIGNED, long long: HARNESS_SIGNED,                                                       \
		_Bool: HARNESS_UNSIGNED, unsigned char: HARNESS_UNSIGNED, unsigned short: HARNESS_UNSIGNED,            \
		unsigned: HARNESS_UNSIGNED, unsigned long: HARNESS_UNSIGNED, unsigned long long: HARNESS_UNSIGNED,     \
		float: HARNESS_FLOAT, double: HARNESS_DOUBLE, default: HARNESS_POINTER)
/* clang-format on */

/* Signed and unsigned meet here on purpose: ASSERT_EQ(3, count) must not need a cast. */
#define HARNESS_COMPARE(left, operation, right)                                                                    \
	do {                                                                                                       \
		_Pragma("GCC diagnostic push");                                                                    \
		_Pragma("GCC diagnostic ignored \"-Wsign-compare\"");                                              \
		_Pragma("GCC diagnostic ignored \"-Wshadow\"");                                                    \
		_Pragma("GCC diagnostic ignored \"-Wfloat-equal\"");                                               \
		__auto_type harness_left = (left);                                                                 \
		__auto_type harness_right = (right);                                                               \
		if (!(harness_left operation harness_right))                                                       \
			harness_compare_failed(__FILE__, __LINE__, #left " " #operation " " #right,                \
					       HARNESS_KIND(harness_left), &harness_left, sizeof harness_left,     \
					       HARNESS_KIND(harness_right), &harness_right, sizeof harness_right); \
		_Pragma("GCC diagnostic pop");                                                                     \
	} while (0)

_Noreturn void harness_compare_failed(const char *file, int line, const char *text, enum harness_kind left_kind,
				      const void *left, size_t left_bytes, enum harness_kind right_kind,
				      const void *right, size_t right_bytes);

/* ---- Peers ------------------------------------------------------------------------------------------------------ */

struct peer;

struct harness_role {
	const char *name;
	void (*body)(struct peer *parent, int argc, char **argv);
	struct harness_role *next;
};

void harness_add_role(struct harness_role *role);

/* ROLE(name) { body }: `parent` is the test's end, argv the strings given to peer_start after the name. */
#define ROLE(role_name)                                                                                             \
	static void role_##role_name(struct peer *parent, int argc, char **argv);                                   \
	static struct harness_role role_entry_##role_name = {.name = #role_name, .body = role_##role_name};         \
	__attribute__((constructor)) static void role_add_##role_name(void)                                         \
	{                                                                                                           \
		harness_add_role(&role_entry_##role_name);                                                          \
	}                                                                                                           \
	static void role_##role_name(struct peer *parent __attribute__((unused)), int argc __attribute__((unused)), \
				     char **argv __attribute__((unused)))

/* Execute this program in a role: peer_start("role", "argument", ...). */
#define peer_start(...) harness_peer_start(__VA_ARGS__, (const char *)NULL)
struct peer *harness_peer_start(const char *role, ...) __attribute__((sentinel));
/* The descriptor on which a role finds its end of the channel. */
enum { PEER_CHANNEL_FD = 3 };

/*
 * Messages keep their boundaries and order. What is received must be what is expected, otherwise the process fails; it
 * also fails when the other side is gone. A message has at most PEER_MESSAGE_BYTES_MAX bytes.
 */
#define PEER_MESSAGE_BYTES_MAX 65536
void peer_send(struct peer *peer, const char *word);
void peer_expect(struct peer *peer, const char *word);
void peer_send_bytes(struct peer *peer, const void *bytes, size_t size_bytes);
void peer_receive_bytes(struct peer *peer, void *ret_bytes, size_t size_bytes);
void peer_send_descriptor(struct peer *peer, int descriptor);
int peer_receive_descriptor(struct peer *peer);

pid_t peer_pid(const struct peer *peer);

/* All its threads are stopped when this returns, until it is continued. */
void peer_stop(struct peer *peer);
void peer_continue(struct peer *peer);

/* Each peer that was started ends in one of these, which also free it. peer_wait wants exit status 0. */
void peer_wait(struct peer *peer);
void peer_end(struct peer *peer);        /* peer_send "end", peer_wait */
int peer_wait_status(struct peer *peer); /* as waitpid gives it */
void peer_kill(struct peer *peer);       /* SIGKILL; it must not have failed before */

/* ---- Randomness ------------------------------------------------------------------------------------------------- */

/* Reproducible numbers: all follow from the seed, which a failure prints. `stream` tells threads and roles apart. */
struct test_random {
	uint64_t state;
};

uint64_t test_seed(void);
struct test_random test_random_start(uint64_t stream);
uint64_t test_random_next(struct test_random *generator);
uint64_t test_random_below(struct test_random *generator, uint64_t bound);

#endif
