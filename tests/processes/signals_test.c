/* SPDX-License-Identifier: MIT */
/*
 * Signals: a handler of the program may run in the middle of any call, and no call ends differently because of it.
 *
 * One thread sends another a signal, sees its handler run, and sends the next, for as long as a test lasts; so every
 * system call that can be interrupted is. With SA_RESTART the system goes on by itself with some of them, without it
 * with none.
 */
#include "tour.h"

#include "cenote/cuda_runtime_api.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

/* ThreadSanitizer keeps a signal back until its thread comes out of a system call, and with SA_RESTART it does not. */
#if defined(__SANITIZE_THREAD__)
#define KEEPS_SIGNALS_BACK true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KEEPS_SIGNALS_BACK true
#endif
#endif
#ifndef KEEPS_SIGNALS_BACK
#define KEEPS_SIGNALS_BACK false
#endif

static _Atomic unsigned long handled;
static int handler_pipe[2] = {-1, -1};

/* As handlers are: some work, a system call, and errno as it was. */
static void handle(int number)
{
	int error = errno;

	(void)number;
	atomic_fetch_add(&handled, 1);
	if (write(handler_pipe[1], "", 0) < 0)
		errno = EINTR;
	errno = error;
}

static void catch_signals(int flags)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = flags};

	ASSERT_SYS(sigaction(SIGUSR1, &action, NULL));
	ASSERT_SYS(sigaction(SIGALRM, &action, NULL));
}

SETUP
{
	catch_signals(0);
	share_start();
}

/* ---- Rain -------------------------------------------------------------------------------------------------------- */

struct rain {
	pthread_t target, thread;
	_Atomic bool stop;
	unsigned long count;
};

static void *fall(void *data)
{
	struct rain *rain = data;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL); /* the timer's are for the other */
	while (!rain->stop) {
		unsigned long before = handled;
		ASSERT_EQ(0, pthread_kill(rain->target, SIGUSR1));
		while (!rain->stop && handled == before)
			sched_yield();
		rain->count++;
	}
	return NULL;
}

/* On this thread, from now on. */
static void rain_begin(struct rain *rain)
{
	*rain = (struct rain){.target = pthread_self()};
	ASSERT_EQ(0, pthread_create(&rain->thread, NULL, fall, rain));
}

static void rain_end(struct rain *rain)
{
	rain->stop = true;
	ASSERT_EQ(0, pthread_join(rain->thread, NULL));
}

static void tour_in_the_rain(int flags)
{
	const struct itimerval often = {{.tv_usec = 300}, {.tv_usec = 300}}, never = {{0}, {0}};
	enum { TOURS = 16 / HARNESS_SLOWDOWN };
	struct tour tour;
	struct rain rain;

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);
	leaks_start_here();
	catch_signals(flags);
	rain_begin(&rain);
	ASSERT_SYS(setitimer(ITIMER_REAL, &often, NULL));
	for (unsigned i = 0; i < TOURS; i++) {
		tour_must(&tour);
		ASSERT_SYS(kill(peer_pid(tour.partner), SIGUSR1)); /* it gets its share */
	}
	ASSERT_SYS(setitimer(ITIMER_REAL, &never, NULL));
	rain_end(&rain);
	printf("%d tours, %lu signals\n", TOURS, (unsigned long)handled);
	ASSERT_GT(handled, TOURS);
	tour_end(&tour);
}

/* Goal: every way to share works as ever while signals come all the time, and nothing waits to be called again. */
TEST(sharing_in_the_rain, .timeout_ms = 60000)
{
	tour_in_the_rain(0);
}

TEST(sharing_in_the_rain_with_restart, .timeout_ms = 60000)
{
	tour_in_the_rain(SA_RESTART);
}

/* ---- Calls that wait --------------------------------------------------------------------------------------------- */

enum { INTERRUPTIONS = 40 };

struct place {
	struct tour *tour;
	struct share_gate gate;
	CUstream stream;
	CUevent event, shared;
	CUdeviceptr block;
	CUmemoryPool pool, gift;
	int ends[2];
	_Atomic uint32_t *word;
};

static struct place place;

/* A call that waits, and what ends the wait. */
struct waiting {
	const char *name;
	void (*prepare)(void);
	CUresult (*call)(void);
	void (*release)(void);
	void (*clean)(void);
	bool drivers; /* on a GPU, whose driver asks no other process, and does not wait */
};

static void close_gate(void)
{
	share_gate_close(place.gate.reader, place.stream);
	ASSERT_OK(cuEventRecord(place.event, place.stream));
	ASSERT_OK(cuEventRecord(place.shared, place.stream));
}

static void open_gate(void)
{
	share_gate_open(&place.gate);
	ASSERT_OK(cuStreamSynchronize(place.stream));
}

static void do_nothing(void)
{
}

static CUresult wait_for_stream(void)
{
	return cuStreamSynchronize(place.stream);
}

static CUresult wait_for_event(void)
{
	return cuEventSynchronize(place.event);
}

static CUresult wait_for_shared_event(void)
{
	return cuEventSynchronize(place.shared);
}

static CUresult wait_for_context(void)
{
	return cuCtxSynchronize();
}

static CUresult wait_for_device(void)
{
	return (CUresult)cudaDeviceSynchronize();
}

/* Another stream, which waits for the event as another process would. */
static CUresult wait_by_stream(void)
{
	CUstream stream = share_stream();
	CUresult result = cuStreamWaitEvent(stream, place.shared, 0);

	result = tour_first_error(result, cuStreamSynchronize(stream));
	return tour_first_error(result, cuStreamDestroy(stream));
}

static CUresult wait_for_copy(void)
{
	unsigned char byte;
	CUresult result = cuMemcpyDtoHAsync(&byte, place.block, 1, place.stream);

	return tour_first_error(result, cuStreamSynchronize(place.stream));
}

static void make_word(void)
{
	void *word;

	ASSERT_OK(cuMemHostAlloc(&word, sizeof(uint32_t), 0)); /* which a GPU reads, too */
	place.word = word;
	atomic_store(place.word, 0);
}

static CUresult wait_for_word(void)
{
	CUresult result = cuStreamWaitValue32(place.stream, (CUdeviceptr)(uintptr_t)place.word, 1, 0);

	return tour_first_error(result, cuStreamSynchronize(place.stream));
}

static void write_word(void)
{
	atomic_store(place.word, 1);
}

static void free_word(void)
{
	ASSERT_OK(cuMemFreeHost((void *)(uintptr_t)place.word));
}

static CUresult receive_pool(void)
{
	CUmemoryPool pool;
	CUresult result = cenote_recv_pool(place.ends[1], &pool);

	return result ? result : cuMemPoolDestroy(pool);
}

static void send_pool(void)
{
	ASSERT_OK(cenote_send_pool(place.ends[0], place.pool));
}

static CUresult receive_descriptor(void)
{
	int descriptor;
	CUresult result = cenote_recv_descriptor(place.ends[1], &descriptor);

	return result ? result : (CUresult)close(descriptor);
}

/* Until no more goes in. */
static void fill_socket(void)
{
	char filler[8] = "filler";

	while (send(place.ends[0], filler, sizeof filler, MSG_DONTWAIT) > 0)
		continue;
	ASSERT_EQ(EAGAIN, errno);
}

static void drain_socket(void)
{
	char byte[8];

	while (recv(place.ends[1], byte, sizeof byte, MSG_DONTWAIT) > 0)
		continue;
}

static CUresult send_to_full(void)
{
	return cenote_send_pool(place.ends[0], place.pool);
}

/* The partner stands still, and so do its answers; each of these needs one. */
static void stop_partner(void)
{
	place.gift = share_import(place.tour->gift_pool);
	peer_stop(place.tour->partner);
}

static void wake_partner(void)
{
	peer_continue(place.tour->partner);
}

static void forget_partner(void)
{
	ASSERT_OK(cuMemPoolDestroy(place.gift));
}

static CUresult take_gift(void)
{
	CUdeviceptr block;
	CUresult result = cuMemPoolImportPointer(&block, place.gift, &place.tour->gifts.block);

	return result ? result : cuMemFree(block);
}

static CUresult open_legacy(void)
{
	return tour_use_legacy(place.tour->gifts.legacy);
}

static CUresult open_event(void)
{
	return tour_use_event(place.tour->gifts.event, place.stream);
}

static CUresult import_fabric(void)
{
	return tour_import_fabric(place.tour);
}

static const struct waiting waitings[] = {
	{"cuStreamSynchronize", close_gate, wait_for_stream, open_gate, do_nothing},
	{"cuEventSynchronize", close_gate, wait_for_event, open_gate, do_nothing},
	{"cuEventSynchronize of a shared event", close_gate, wait_for_shared_event, open_gate, do_nothing},
	{"cuCtxSynchronize", close_gate, wait_for_context, open_gate, do_nothing},
	{"cudaDeviceSynchronize", close_gate, wait_for_device, open_gate, do_nothing},
	{"cuStreamWaitEvent", close_gate, wait_by_stream, open_gate, do_nothing},
	{"cuMemcpyDtoHAsync", close_gate, wait_for_copy, open_gate, do_nothing},
	{"cuStreamWaitValue32", make_word, wait_for_word, write_word, free_word},
	{"cenote_recv_pool", do_nothing, receive_pool, send_pool, do_nothing},
	{"cenote_recv_descriptor", do_nothing, receive_descriptor, send_pool, do_nothing},
	{"cenote_send_pool", fill_socket, send_to_full, drain_socket, drain_socket},
	{"cuMemPoolImportPointer", stop_partner, take_gift, wake_partner, forget_partner},
	{"cuIpcOpenMemHandle", stop_partner, open_legacy, wake_partner, forget_partner, true},
	{"cuIpcOpenEventHandle", stop_partner, open_event, wake_partner, forget_partner, true},
	{"cuMemImportFromShareableHandle of the fabric", stop_partner, import_fabric, wake_partner, forget_partner,
	 true},
};

static CUcontext context;
static _Atomic bool begun;

static void *call(void *data)
{
	const struct waiting *waiting = data;

	ASSERT_OK(cuCtxSetCurrent(context));
	begun = true;
	CUresult result = waiting->call();
	if (result)
		FAIL("%s answered %d: %s", waiting->name, (int)result, cenote_last_error());
	return NULL;
}

/* The call is interrupted many times, then comes what it waits for, and it succeeds. */
static void interrupt(const struct waiting *waiting)
{
	pthread_t thread;

	waiting->prepare();
	begun = false;
	ASSERT_EQ(0, pthread_create(&thread, NULL, call, (void *)(uintptr_t)waiting));
	while (!begun)
		sched_yield();
	for (unsigned i = 0; i < INTERRUPTIONS; i++) {
		unsigned long before = handled;
		for (unsigned looks = 0; handled == before; looks++) {
			/* Kept back just before a system call, it is handled behind that: then it takes another. */
			if (looks && !(KEEPS_SIGNALS_BACK && looks % 1000 == 0))
				sched_yield();
			else if (pthread_kill(thread, SIGUSR1)) /* it has ended, which is wrong, and seen below */
				FAIL("%s did not wait", waiting->name);
		}
	}
	waiting->release();
	ASSERT_EQ(0, pthread_join(thread, NULL));
	waiting->clean();
}

static void interrupt_all(int flags)
{
	struct tour tour;

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);
	place = (struct place){.tour = &tour, .gate = share_gate_make(), .stream = share_stream()};
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuEventCreate(&place.event, CU_EVENT_DEFAULT));
	ASSERT_OK(cuEventCreate(&place.shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	place.pool = share_pool(SHARE_CHUNK);
	place.block = share_allocate(place.pool, TOUR_BLOCK, place.stream);
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, place.ends));
	catch_signals(flags);
	for (unsigned i = 0; i < sizeof waitings / sizeof *waitings; i++)
		if (!(waitings[i].drivers && test_has_gpu()))
			interrupt(&waitings[i]);
	close(place.ends[0]);
	close(place.ends[1]);
	ASSERT_OK(cuMemFreeAsync(place.block, place.stream));
	ASSERT_OK(cuMemPoolDestroy(place.pool));
	ASSERT_OK(cuEventDestroy(place.event));
	ASSERT_OK(cuEventDestroy(place.shared));
	ASSERT_OK(cuStreamDestroy(place.stream));
	share_gate_free(&place.gate);
	tour_end(&tour);
	leaks_start_here(); /* ports keep their connections for the life of a process */
}

/* Goal: a call that waits goes on waiting, however often it is interrupted, and ends as it would have. */
TEST(waiting_calls_go_on, .timeout_ms = 60000)
{
	interrupt_all(0);
}

TEST(waiting_calls_go_on_with_restart, .timeout_ms = 60000)
{
	if (KEEPS_SIGNALS_BACK)
		SKIP("ThreadSanitizer calls no handler in a system call that is restarted");
	interrupt_all(SA_RESTART);
}

/* ---- Patience ---------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Goal: an allocation that waits for memory to come free waits no shorter for being interrupted. Nothing comes free
 * here, so that it ends with an error: not before its time.
 */
TEST(an_allocation_is_as_patient)
{
	enum { PATIENCE_MS = 90 }; /* somewhat less than it is */
	struct share_gate gate = share_gate_make();
	CUstream first = share_stream(), second = share_stream();
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(pool, SHARE_CHUNK, first), more;
	int no = 0;
	struct rain rain;

	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
	share_gate_close(gate.reader, first);
	ASSERT_OK(cuMemFreeAsync(block, first));
	rain_begin(&rain);
	uint64_t start_ns = now_ns();
	CUresult result = cuMemAllocFromPoolAsync(&more, SHARE_CHUNK, pool, second);
	uint64_t took_ns = now_ns() - start_ns;
	rain_end(&rain);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, result);
	printf("%ju us, %lu signals\n", (uintmax_t)took_ns / 1000, rain.count);
	ASSERT_GE(took_ns, PATIENCE_MS * UINT64_C(1000000));
	share_gate_open(&gate);
	ASSERT_OK(cuStreamSynchronize(first));
	ASSERT_OK(cuMemAllocFromPoolAsync(&more, SHARE_CHUNK, pool, second));
	ASSERT_OK(cuMemFreeAsync(more, second));
	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_OK(cuStreamDestroy(second));
	ASSERT_OK(cuMemPoolDestroy(pool));
	share_gate_free(&gate);
}

/* ---- The library's threads --------------------------------------------------------------------------------------- */

static void CUDA_CB pass(void *data)
{
	(void)data;
}

/*
 * Signals that a program can block, and that the process does not cause itself. (Sanitizers, as of GCC 13, leave SIGSYS
 * open: in
 * ThreadSanitizer's own thread, and in any while one is started.)
 */
static bool is_ordinary(int number)
{
	if (number == SIGSYS && HARNESS_SLOWDOWN > 1)
		return false;
	return number != SIGKILL && number != SIGSTOP && number != SIGSEGV && number != SIGBUS &&
	       (number < 32 || number >= SIGRTMIN);
}

/*
 * Goal: a signal to the process is for the program's threads: the library's, of whichever kind, take none. While the
 * program blocks all of them, each stays pending.
 */
TEST(threads_of_the_library_take_no_signals)
{
	struct share_gate gate = share_gate_make();
	struct tour tour;
	sigset_t all, pending;
	CUstream stream = share_stream();

	if (test_has_gpu())
		SKIP("threads of NVIDIA's driver take signals");
	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour);                      /* brings up the service thread and the porter */
	share_gate_close(gate.reader, stream); /* an executor sits there */
	make_word();
	ASSERT_OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)place.word, 1, 0)); /* the poller, later */
	sigfillset(&all);
	ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &all, NULL));
	for (int number = 1; number <= SIGRTMAX; number++)
		if (is_ordinary(number))
			ASSERT_SYS(kill(getpid(), number));
	share_gate_open(&gate);
	write_word();
	ASSERT_OK(cuLaunchHostFunc(stream, pass, NULL));
	ASSERT_OK(cuStreamSynchronize(stream)); /* all have run meanwhile */
	ASSERT_SYS(sigpending(&pending));
	for (int number = 1; number <= SIGRTMAX; number++)
		/* A signal to go on takes those to stop away, and the other way round. */
		if (is_ordinary(number) && number != SIGCONT && number != SIGTSTP && number != SIGTTIN &&
		    number != SIGTTOU && !sigismember(&pending, number))
			FAIL("somebody took signal %d", number);
	for (int number = 1; number <= SIGRTMAX; number++) {
		signal(number, SIG_IGN);
	}
	ASSERT_EQ(0, pthread_sigmask(SIG_UNBLOCK, &all, NULL));
	free_word();
	ASSERT_OK(cuStreamDestroy(stream));
	share_gate_free(&gate);
	signal(SIGCHLD, SIG_DFL); /* a parent that ignores it has no child to wait for */
	tour_end(&tour);
	leaks_start_here();
}
