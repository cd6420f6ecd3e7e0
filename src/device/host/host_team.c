/* SPDX-License-Identifier: MIT */
/*
 * The team: a thread for each further core, which helps with launches.
 *
 * A launch is run by the executor that drives its stream, which can do all of it alone; so no stream waits for the
 * team. Helpers take the launches in turn, the oldest first: one that has helped with a launch moves it to the end of
 * the list, so that a kernel which waits for somebody does not keep the helpers to itself.
 */
#include "base/thread.h"
#include "device/host/host_internal.h"

#include <sched.h>

static struct {
	CN_LOCK(HOST_TEAM) lock;
	struct cn_host_job *jobs;
	_Atomic uint32_t arrivals;
	_Atomic unsigned job_count;
	bool started;
	unsigned helper_count;
} team;

static void append_locked(struct cn_host_job *job)
{
	struct cn_host_job **link = &team.jobs;

	while (*link)
		link = &(*link)->next;
	job->next = NULL;
	*link = job;
}

static void remove_locked(struct cn_host_job *job)
{
	struct cn_host_job **link = &team.jobs;

	while (*link != job)
		link = &(*link)->next;
	*link = job->next;
}

/* A launch that has work for one more thread; NULL: none. Team locked. */
static struct cn_host_job *take_locked(void)
{
	struct cn_host_job *job = team.jobs;

	while (job && !job->has_work(job))
		job = job->next;
	if (!job)
		return NULL;
	job->helper_count++;
	remove_locked(job);
	append_locked(job);
	return job;
}

static void *help(void *unused)
{
	(void)unused;
	for (;;) {
		uint32_t arrivals = atomic_load(&team.arrivals);

		cn_lock(&team.lock);
		struct cn_host_job *job = take_locked();
		cn_unlock(&team.lock);
		if (!job) {
			cn_futex_wait(&team.arrivals, arrivals, -1);
			continue;
		}

		job->help(job);
		cn_lock(&team.lock);
		bool last = --job->helper_count == 0;
		if (last)
			atomic_store(&job->finished, 1);
		cn_unlock(&team.lock);
		if (last)
			cn_futex_wake(&job->finished, 1); /* the address alone: the job may be gone */
	}
	return NULL;
}

static unsigned helpers_wanted(void)
{
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);

	return count > 1 ? (unsigned)count - 1 : 0;
}

bool cn_host_team_is_wanted(void)
{
	return atomic_load_explicit(&team.job_count, memory_order_relaxed) > 1;
}

void cn_host_team_join(struct cn_host_job *job)
{
	bool start;

	atomic_fetch_add(&team.job_count, 1);
	cn_lock(&team.lock);
	append_locked(job);
	start = !team.started;
	if (start) {
		team.started = true;
		team.helper_count = helpers_wanted();
	}
	unsigned helper_count = team.helper_count;
	cn_unlock(&team.lock);

	atomic_fetch_add(&team.arrivals, 1);
	cn_futex_wake(&team.arrivals, (int)helper_count);
	for (unsigned i = 0; start && i < helper_count; i++)
		cn_thread_start(help, NULL); /* fewer helpers are slower, not wrong */
}

void cn_host_team_part(struct cn_host_job *job)
{
	cn_lock(&team.lock);
	remove_locked(job);
	bool helped = job->helper_count > 0;
	if (helped)
		atomic_store(&job->finished, 0);
	cn_unlock(&team.lock);
	while (helped && !atomic_load(&job->finished))
		cn_futex_wait(&job->finished, 0, -1);
	/* The last helper sets `finished` under the lock: wait until it has released it. */
	cn_lock(&team.lock);
	cn_unlock(&team.lock);
	atomic_fetch_sub(&team.job_count, 1);
}
