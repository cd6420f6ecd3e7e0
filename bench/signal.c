/* SPDX-License-Identifier: MIT */
/*
 * What an event between processes stands on: records and waits that have nothing to wait for, and round trips.
 *
 * A round trip: this process's queue ends a record, the other's queue waits for it and ends one of its own, for which
 * this one's waits. A wait is for a record that was made before, so the whole chain is submitted first, turn by turn,
 * and then runs by itself; the queue's own timestamps say how long that took.
 */
#include "device/host/host.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { OWNER = 1, CHAIN = 500, CHAINS = 31 };

static struct cn_queue queue, starter;
static _Atomic uint32_t gate;

/* The two processes. Signals: to the other side, back, and the one that starts a chain. */
static struct cn_signal *there, *back, *first;
static int to_other[2], from_other[2];

/* ---- One process ------------------------------------------------------------------------------------------------ */

static void lock_and_unlock(void *mutex, unsigned long count)
{
	while (count--) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
}

static void record(void *signal, unsigned long count)
{
	while (count--)
		BENCH_MUST(cn_host_signal_record(signal, &queue, OWNER));
}

static void wait_for(void *signal, unsigned long count)
{
	while (count--)
		BENCH_MUST(cn_host_signal_wait(signal, &queue, OWNER));
}

static void query(void *signal, unsigned long count)
{
	while (count--)
		BENCH_MUST(cn_host_signal_query(signal));
}

static struct cn_signal *import(struct cn_signal *signal)
{
	struct cn_signal *imported;
	int fd;

	BENCH_MUST(cn_host_signal_export(signal, &fd));
	BENCH_MUST(cn_host_signal_import(fd, 1, &imported));
	close(fd);
	return imported;
}

static void bench_calls(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct cn_signal *imported = import(there);

	bench_title("Events between processes, idle stream", "to a mutex");
	struct bench_result reference = bench_row("pthread mutex, lock and unlock", NULL, 0, lock_and_unlock, &mutex);
	bench_row("record", &reference, 50, record, there);
	bench_row("wait, satisfied", &reference, 50, wait_for, there);
	bench_row("wait, satisfied, another process's record", &reference, 50, wait_for, imported);
	bench_row("query", &reference, 0, query, there);
	cn_host_signal_free(imported);
}

/* ---- The other process ------------------------------------------------------------------------------------------ */

static void say(int fd, char word)
{
	BENCH_MUST(write(fd, &word, 1) != 1);
}

static char hear(int fd)
{
	char word;

	BENCH_MUST(read(fd, &word, 1) != 1);
	return word;
}

static void synchronise(void)
{
	cn_host_point_wait((struct cn_point){&queue, atomic_load(&queue.submitted)});
}

static void submit(struct cn_queue *to, const struct cn_operation *operation)
{
	BENCH_MUST(cn_host_submit(to, OWNER, operation, NULL));
}

static void close_starter(void)
{
	struct cn_operation wait = {.kind = CN_WAIT_VALUE, .wait_value = {.address = &gate, .value = 1, .bytes = 4}};

	atomic_store(&gate, 0);
	submit(&starter, &wait);
	BENCH_MUST(cn_host_signal_record(first, &starter, OWNER));
}

static void *open_gate(void *unused)
{
	(void)unused;
	usleep(2000); /* both sides should be waiting by then; a measurement, not a test */
	atomic_store(&gate, 1);
	return NULL;
}

static void open_starter(void)
{
	pthread_t thread;

	BENCH_MUST(pthread_create(&thread, NULL, open_gate, NULL));
	BENCH_MUST(pthread_detach(thread));
}

/* p: a byte back. 1: the first record. w: a wait and a record. g, G: go, with or without a thread that waits. */
static void serve(int in, int out)
{
	struct cn_signal *own_there = import(there), *own_back = import(back);

	cn_host_queue_open(&queue, NULL, OWNER);
	cn_host_queue_open(&starter, NULL, OWNER);
	first = import(first);
	for (;;) {
		char word = 0;
		if (read(in, &word, 1) != 1)
			_exit(0);
		if (word == '1')
			close_starter();
		if (word == 'w') {
			BENCH_MUST(cn_host_signal_wait(own_there, &queue, OWNER));
			BENCH_MUST(cn_host_signal_record(own_back, &queue, OWNER));
		}
		if (word == 'g' || word == 'G')
			open_starter();
		if (word == 'g')
			synchronise();
		while (word == 'G' && !cn_queue_idle(&queue))
			usleep(1000);
		say(out, word);
	}
}

static pid_t start_other(void)
{
	BENCH_MUST(pipe(to_other));
	BENCH_MUST(pipe(from_other));
	fflush(stdout);
	pid_t pid = fork();
	BENCH_MUST(pid < 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to_other[1]);
		close(from_other[0]);
		serve(to_other[0], from_other[1]);
	}
	close(to_other[0]);
	close(from_other[1]);
	return pid;
}

/* ---- Round trips ------------------------------------------------------------------------------------------------ */

static void ask(char word)
{
	say(to_other[1], word);
	BENCH_MUST(hear(from_other[0]) != word);
}

static void pipe_round_trip(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		ask('p');
}

/* The time of one chain, divided by its length. */
static double run_chain(bool threads_wait)
{
	struct cn_stamp begin = {.serial = 1}, end = {.serial = 1};
	struct cn_operation note_begin = {.kind = CN_TIMESTAMP, .timestamp = {&begin, 1}};
	struct cn_operation note_end = {.kind = CN_TIMESTAMP, .timestamp = {&end, 1}};

	ask('1');
	BENCH_MUST(cn_host_signal_wait(first, &queue, OWNER));
	submit(&queue, &note_begin);
	for (int i = 0; i < CHAIN; i++) {
		BENCH_MUST(cn_host_signal_record(there, &queue, OWNER));
		ask('w');
		BENCH_MUST(cn_host_signal_wait(back, &queue, OWNER));
	}
	submit(&queue, &note_end);
	say(to_other[1], threads_wait ? 'g' : 'G');
	if (threads_wait)
		synchronise();
	hear(from_other[0]);
	synchronise();
	return (double)(end.time_ns - begin.time_ns) / CHAIN;
}

static void chain_row(const char *name, const struct bench_result *reference, bool threads_wait, double goal)
{
	double each[CHAINS];

	for (int i = 0; i < CHAINS; i++)
		each[i] = run_chain(threads_wait);
	qsort(each, CHAINS, sizeof *each, bench_compare);
	double ratio = each[CHAINS / 2] / reference->median_ns;
	printf("%-48s %10.1f %10.1f   x %.3g", name, each[CHAINS / 2], each[0], ratio);
	if (goal > 0)
		printf("   goal x %.1f: %s", goal, ratio <= goal ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
}

static void pin(pid_t pid, size_t cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	BENCH_MUST(sched_setaffinity(pid, sizeof one, &one));
}

/* On the first `cpus` that this process may use: one for both, or one each. */
static void bench_round_trips(const char *title, const size_t cpus[2], double goal)
{
	cpu_set_t before;

	BENCH_MUST(sched_getaffinity(0, sizeof before, &before));
	cn_host_queue_open(&queue, NULL, OWNER);
	/* Before any thread of either process is there, so that all of them inherit it. */
	pin(0, cpus[1]);
	pid_t other = start_other();
	pin(0, cpus[0]);
	bench_title(title, "to a pipe");
	struct bench_result reference = bench_row("a byte through two pipes and back", NULL, 0, pipe_round_trip, NULL);
	chain_row("records and waits, a thread waits on each side", &reference, true, goal);
	chain_row("records and waits, nobody waits", &reference, false, 0);
	close(to_other[1]);
	close(from_other[0]);
	waitpid(other, NULL, 0);
	sched_setaffinity(0, sizeof before, &before);
}

/* In a process of its own: the threads that the library starts stay on the CPU where they were started. */
static void in_child(void (*body)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	int status;

	BENCH_MUST(pid < 0);
	if (!pid) {
		BENCH_MUST(cn_host_signal_create(&there));
		BENCH_MUST(cn_host_signal_create(&back));
		BENCH_MUST(cn_host_signal_create(&first));
		body();
		fflush(stdout);
		_exit(0);
	}
	BENCH_MUST(waitpid(pid, &status, 0) != pid || status);
}

static size_t cpus[2];

static void two_cores(void)
{
	bench_round_trips("Round trips of two processes, each on its core", cpus, 0.1);
}

static void one_core(void)
{
	size_t same[2] = {cpus[0], cpus[0]};

	bench_round_trips("Round trips of two processes on one core", same, 1.2);
}

static void calls(void)
{
	cn_host_queue_open(&queue, NULL, OWNER);
	bench_pin();
	bench_calls();
}

int main(void)
{
	cpu_set_t allowed;
	int found = 0;

	BENCH_MUST(sched_getaffinity(0, sizeof allowed, &allowed));
	for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	in_child(calls);
	if (found == 2)
		in_child(two_cores);
	in_child(one_core);
	return 0;
}
