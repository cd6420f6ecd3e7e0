/* SPDX-License-Identifier: MIT */
/*
 * Environment variables: read by threads of the program alone.
 */
#include "base/environment.h"
#include "base/thread.h"
#include "harness.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { CHANGES = 2000 };

static sem_t asked, answered;
static const char *seen;
static _Atomic bool over;

/* A thread of the library's own, which looks when it is asked. */
static void *look(void *data)
{
	(void)data;
	while (!sem_wait(&asked)) {
		seen = cn_environment(CN_ENVIRONMENT_LABEL);
		sem_post(&answered);
	}
	return NULL;
}

static const char *seen_by_own_thread(void)
{
	ASSERT_SYS(sem_post(&asked));
	ASSERT_SYS(sem_wait(&answered));
	return seen;
}

/* Goal: a thread of the library's own gets what a thread of the program read last, and nothing that came later. */
TEST(own_threads_go_by_what_the_program_read)
{
	ASSERT_SYS(sem_init(&asked, 0, 0));
	ASSERT_SYS(sem_init(&answered, 0, 0));
	ASSERT_SYS(setenv("CENOTE_LABEL", "first", 1));
	ASSERT(cn_thread_start(look, NULL)); /* reads them */
	ASSERT_SYS(setenv("CENOTE_LABEL", "second", 1));
	ASSERT_STREQ("first", seen_by_own_thread());
	ASSERT_STREQ("second", cn_environment(CN_ENVIRONMENT_LABEL));
	ASSERT_STREQ("second", seen_by_own_thread());
	ASSERT_SYS(setenv("CENOTE_LABEL", "first", 1));
	ASSERT_STREQ("second", seen_by_own_thread());
	cn_environment_read();
	ASSERT_STREQ("first", seen_by_own_thread());
	ASSERT_SYS(setenv("CENOTE_LABEL", "", 1));
	ASSERT(!cn_environment(CN_ENVIRONMENT_LABEL));
	ASSERT(!seen_by_own_thread());
	ASSERT_SYS(setenv("CENOTE_LABEL", "third", 1));
	ASSERT_STREQ("third", cn_environment(CN_ENVIRONMENT_LABEL));
	ASSERT_SYS(unsetenv("CENOTE_LABEL"));
	ASSERT_STREQ("third", seen_by_own_thread());
	ASSERT(!cn_environment(CN_ENVIRONMENT_LABEL));
	ASSERT(!seen_by_own_thread());
}

static void *look_on(void *data)
{
	(void)data;
	while (!atomic_load(&over)) {
		const char *text = cn_environment(CN_ENVIRONMENT_RUNTIME_DIR);
		ASSERT(!text || *text == '/');
	}
	sem_post(&answered);
	return NULL;
}

/* Goal: it reads no memory that the program frees meanwhile. (AddressSanitizer and ThreadSanitizer see it.) */
TEST(own_threads_read_no_memory_of_the_environment)
{
	char path[64], other[64];

	ASSERT_SYS(sem_init(&answered, 0, 0));
	ASSERT(cn_thread_start(look_on, NULL));
	for (unsigned i = 0; i < CHANGES; i++) {
		snprintf(path, sizeof path, "/%u", i % 8);
		snprintf(other, sizeof other, "OTHER_%u", i);
		ASSERT_SYS(setenv(other, path, 1)); /* the table grows, and moves */
		ASSERT_SYS(setenv("CENOTE_RUNTIME_DIR", path, 1));
		ASSERT_STREQ(path, cn_environment(CN_ENVIRONMENT_RUNTIME_DIR));
	}
	atomic_store(&over, true);
	ASSERT_SYS(sem_wait(&answered));
}
