/* SPDX-License-Identifier: MIT */
/*
 * The seam (see seam.h): for each call of seam.inc a function that is called in its place, by ld's --wrap.
 *
 * A call of one of these names would be wrapped here, too: __real_NAME is the function itself.
 */
#include "seam.h"

#include "base/error.h"
#include "device/cuda/cuda_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum seam_call {
	SEAM_NOTHING,
#define SEAM_CALL(type, name, ...) SEAM_##name,
#define SEAM_OWN(name, ...)        SEAM_##name,
#define SEAM_NONE(name, reason)
#include "seam.inc"
#undef SEAM_CALL
#undef SEAM_OWN
#define CN_CUDA_CALL(name) SEAM_##name,
	CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL
		SEAM_CALLS
};

static const char *const call_names[SEAM_CALLS] = {"nothing",
#define SEAM_CALL(type, name, ...) #name,
#define SEAM_OWN(name, ...)        #name,
#include "seam.inc"
#undef SEAM_CALL
#undef SEAM_OWN
#define CN_CUDA_CALL(name) #name,
						   CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL
};

/* Where the library begins in memory: the linker says so. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static _Atomic(struct fault_board *) the_board;
static struct fault_sites *the_sites;
static int the_alarm = -1;
static _Thread_local bool is_program; /* this thread is not the library's */

long __real_syscall(long number, ...);

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

enum { PLACE_BITS = 40 };

static struct fault_site *find_site(enum seam_call call, const void *caller)
{
	uint64_t place = (uint64_t)((const char *)caller - __ehdr_start);
	uint64_t key = (uint64_t)call << PLACE_BITS | place, slot = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	for (unsigned i = 0; i < FAULT_SITES_MAX; i++, slot++) {
		struct fault_site *site = &the_sites->all[slot % FAULT_SITES_MAX];
		uint64_t found = 0;
		if (atomic_compare_exchange_strong(&site->key, &found, key) || found == key)
			return site;
	}
	return NULL; /* full: such a test fails for other reasons */
}

/* In this very process, and without any call that is a step. */
static void raise_here(struct fault_board *board, struct fault_site *site, enum fault_mode mode)
{
	bool stop = mode == FAULT_STOP_BEFORE || mode == FAULT_STOP_AFTER;
	uint32_t none = FAULT_SIGNAL_NONE;

	if (!atomic_compare_exchange_strong(&board->signal, &none, FAULT_SIGNAL_RAISED))
		return; /* the step has taken long */
	atomic_fetch_add(&site->hit[mode], 1);
	if (stop)
		__real_syscall(SYS_write, the_alarm, "", 1);
	__real_syscall(SYS_kill, __real_syscall(SYS_getpid), stop ? SIGSTOP : SIGKILL);
}

/* As if the call took long. */
static void hold_here(struct fault_board *board, struct fault_site *site)
{
	int saved = errno;

	atomic_fetch_add(&site->hit[FAULT_HOLD], 1);
	__real_syscall(SYS_write, the_alarm, "", 1);
	while (!atomic_load(&board->gate))
		__real_syscall(SYS_futex, &board->gate, FUTEX_WAIT, 0, NULL, NULL, 0);
	errno = saved;
}

struct step {
	struct fault_board *board; /* NULL: nothing happens after it */
	struct fault_site *site;
	enum fault_mode mode;
};

/* Is it this step? At most one thread gets true. */
static bool is_due(struct fault_board *board, enum fault_mode mode, const struct fault_site *site, enum seam_call call,
		   bool can_fail)
{
	uint32_t number = atomic_fetch_add(&board->step, 1) + 1, at = atomic_load(&board->at), none = 0;
	uint32_t only = atomic_load(&board->only);
	bool is_new = !atomic_load(&site->hit[FAULT_FAIL]), here;

	if (only && only != call)
		return false;
	switch (mode) {
	case FAULT_NONE:
	case FAULT_COUNT: return false;
	case FAULT_FAIL: here = can_fail && number >= at; break;
	case FAULT_FAIL_NEW: here = can_fail && is_new; break;
	case FAULT_FAIL_THEN_NEW:
		if (atomic_load(&board->hit))
			return can_fail && is_new && atomic_compare_exchange_strong(&board->second, &none, number);
		here = can_fail && number >= at;
		break;
	case FAULT_HOLD: here = !is_program && number >= at; break;
	default: here = number == at; break;
	}
	return here && atomic_compare_exchange_strong(&board->hit, &none, number);
}

/* The error that the step must fail with; 0: make the call. */
static int begin(struct step *step, enum seam_call call, bool can_fail, const int *errors, unsigned error_count,
		 const void *caller)
{
	struct fault_board *board = atomic_load(&the_board);
	enum fault_mode mode = board ? (enum fault_mode)atomic_load(&board->mode) : FAULT_NONE;
	struct fault_site *site = mode == FAULT_NONE ? NULL : find_site(call, caller);

	step->board = NULL;
	if (!site)
		return 0;
	can_fail = can_fail && errors[0];
	atomic_fetch_add(&site->hit[FAULT_COUNT], 1);
	if (can_fail)
		atomic_store(&site->can_fail, 1);
	if (!is_due(board, mode, site, call, can_fail))
		return 0;
	atomic_store(&board->hit_site, (uint32_t)(site - the_sites->all));
	if (mode == FAULT_FAIL || mode == FAULT_FAIL_NEW || mode == FAULT_FAIL_THEN_NEW) {
		int error = errors[atomic_load(&board->choice) % error_count];
		atomic_fetch_add(&site->hit[FAULT_FAIL], 1);
		atomic_store(&board->hit_error, (uint32_t)error);
		return error;
	}
	if (mode == FAULT_HOLD)
		hold_here(board, site);
	else if (mode == FAULT_KILL_BEFORE || mode == FAULT_STOP_BEFORE)
		raise_here(board, site, mode);
	else
		*step = (struct step){board, site, mode};
	return 0;
}

static void end(const struct step *step)
{
	int error = errno;

	if (step->board)
		raise_here(step->board, step->site, step->mode);
	errno = error;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define BEGIN(name, when, ...)                     \
	static const int errors[] = {__VA_ARGS__}; \
	struct step step;                          \
	int error = begin(&step, SEAM_##name, when, errors, COUNT(errors), __builtin_return_address(0))

static bool leads_to_socket(int fd);

#define SEAM_CALL(type, name, parameters, arguments, when, failed, ...) \
	type __real_##name parameters;                                  \
	type __wrap_##name parameters;                                  \
	type __wrap_##name parameters                                   \
	{                                                               \
		BEGIN(name, when, __VA_ARGS__);                         \
		if (error)                                              \
			return failed;                                  \
		type result = __real_##name arguments;                  \
		end(&step);                                             \
		return result;                                          \
	}
#define SEAM_OWN(name, ...)
#include "seam.inc"

static bool leads_to_socket(int fd)
{
	struct stat status;

	return !__real_fstat64(fd, &status) && S_ISSOCK(status.st_mode);
}

/* ---- Memory, counted --------------------------------------------------------------------------------------------- */

static void count(int change)
{
	struct fault_board *board = atomic_load(&the_board);

	if (board)
		atomic_fetch_add(&board->allocations, change);
}

#define ALLOCATE(name, parameters, arguments, is_new)   \
	void *__real_##name parameters;                 \
	void *__wrap_##name parameters;                 \
	void *__wrap_##name parameters                  \
	{                                               \
		BEGIN(name, true, ENOMEM);              \
		if (error)                              \
			return SEAM_NULL;               \
		bool new = is_new;                      \
		void *result = __real_##name arguments; \
		if (result && new)                      \
			count(1);                       \
		end(&step);                             \
		return result;                          \
	}

ALLOCATE(malloc, (size_t a), (a), true)
ALLOCATE(calloc, (size_t a, size_t b), (a, b), true)
ALLOCATE(realloc, (void *a, size_t b), (a, b), !a)
ALLOCATE(aligned_alloc, (size_t a, size_t b), (a, b), true)

char *__real_strdup(const char *a);
char *__wrap_strdup(const char *a);
char *__wrap_strdup(const char *a)
{
	BEGIN(strdup, true, ENOMEM);
	if (error)
		return SEAM_NULL;
	char *result = __real_strdup(a);
	if (result)
		count(1);
	end(&step);
	return result;
}

void __real_free(void *a);
void __wrap_free(void *a);
void __wrap_free(void *a)
{
	BEGIN(free, false, 0);
	(void)error;
	if (a)
		count(-1);
	__real_free(a);
	end(&step);
}

/* ---- Time, which can go faster ----------------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t a, struct timespec *b);

static uint64_t to_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static unsigned hurry(void)
{
	struct fault_board *board = atomic_load(&the_board);
	unsigned factor = board ? atomic_load(&board->hurry) : 1;

	return factor ? factor : 1;
}

/* The clock does not jump when its pace changes: from then on it continues at `shown`. */
static struct {
	atomic_flag lock;
	unsigned factor;
	uint64_t real_ns, shown_ns;
} pace = {.lock = ATOMIC_FLAG_INIT, .factor = 1};

static uint64_t show(uint64_t real_ns)
{
	unsigned factor = hurry();

	while (atomic_flag_test_and_set(&pace.lock))
		sched_yield();
	uint64_t since_ns = real_ns > pace.real_ns ? real_ns - pace.real_ns : 0;
	uint64_t shown_ns = pace.shown_ns + since_ns * pace.factor;
	if (factor != pace.factor) {
		pace.factor = factor;
		pace.real_ns = real_ns;
		pace.shown_ns = shown_ns;
	}
	atomic_flag_clear(&pace.lock);
	return shown_ns;
}

/* The system's time at which the clock will show this one. */
static uint64_t unshow(uint64_t shown_ns)
{
	while (atomic_flag_test_and_set(&pace.lock))
		sched_yield();
	uint64_t left_ns = shown_ns > pace.shown_ns ? shown_ns - pace.shown_ns : 0;
	uint64_t real_ns = pace.real_ns + left_ns / pace.factor;
	atomic_flag_clear(&pace.lock);
	return real_ns;
}

int __wrap_clock_gettime(clockid_t a, struct timespec *b);
int __wrap_clock_gettime(clockid_t a, struct timespec *b)
{
	int result = __real_clock_gettime(a, b);

	if (!result && a == CLOCK_MONOTONIC)
		*b = to_timespec(show(to_ns(b)));
	return result;
}

int __real_nanosleep(const struct timespec *a, struct timespec *b);
int __wrap_nanosleep(const struct timespec *a, struct timespec *b);
int __wrap_nanosleep(const struct timespec *a, struct timespec *b)
{
	BEGIN(nanosleep, true, EINTR);
	if (error)
		return SEAM_MINUS_ONE;
	struct timespec shorter = to_timespec(to_ns(a) / hurry());
	int result = __real_nanosleep(&shorter, b);
	end(&step);
	return result;
}

int __real_clock_nanosleep(clockid_t a, int b, const struct timespec *c, struct timespec *d);
int __wrap_clock_nanosleep(clockid_t a, int b, const struct timespec *c, struct timespec *d);
int __wrap_clock_nanosleep(clockid_t a, int b, const struct timespec *c, struct timespec *d)
{
	BEGIN(clock_nanosleep, true, EINTR);
	if (error)
		return SEAM_NUMBER;
	bool until = b == TIMER_ABSTIME && a == CLOCK_MONOTONIC;
	struct timespec time = to_timespec(until ? unshow(to_ns(c)) : to_ns(c) / hurry());
	int result = __real_clock_nanosleep(a, b, b == TIMER_ABSTIME && !until ? c : &time, d);
	end(&step);
	return result;
}

static int hurried_ms(int ms)
{
	return ms <= 0 ? ms : (int)((unsigned)ms / hurry()) + 1;
}

int __real_poll(struct pollfd *a, nfds_t b, int c);
int __wrap_poll(struct pollfd *a, nfds_t b, int c);
int __wrap_poll(struct pollfd *a, nfds_t b, int c)
{
	BEGIN(poll, true, EINTR, ENOMEM);
	if (error)
		return SEAM_MINUS_ONE;
	int result = __real_poll(a, b, hurried_ms(c));
	end(&step);
	return result;
}

int __real_epoll_wait(int a, struct epoll_event *b, int c, int d);
int __wrap_epoll_wait(int a, struct epoll_event *b, int c, int d);
int __wrap_epoll_wait(int a, struct epoll_event *b, int c, int d)
{
	BEGIN(epoll_wait, true, EINTR);
	if (error)
		return SEAM_MINUS_ONE;
	int result = __real_epoll_wait(a, b, c, hurried_ms(d));
	end(&step);
	return result;
}

/* ---- Arguments that vary ----------------------------------------------------------------------------------------- */

/* A call with fewer arguments passes on what happens to be there, and the system ignores it. */
static bool is_futex_wait(long number, const long arguments[6])
{
	long operation = arguments[1] & ~(long)FUTEX_PRIVATE_FLAG;

	return number == SYS_futex_waitv || (number == SYS_futex && operation == FUTEX_WAIT);
}

/* The time of a wait: relative for a futex, absolute for several. */
static struct timespec hurried_wait(long number, const struct timespec *time)
{
	return to_timespec(number == SYS_futex ? to_ns(time) / hurry() : unshow(to_ns(time)));
}

static int begin_syscall(struct step *step, long number, bool waits, const void *caller)
{
	static const int wait_errors[] = {EINTR}, other_errors[] = {ENOSYS, ENOMEM, EPERM};
	bool fails = waits || (number != SYS_futex && number != SYS_close);

	return begin(step, SEAM_syscall, fails, waits ? wait_errors : other_errors,
		     waits ? COUNT(wait_errors) : COUNT(other_errors), caller);
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	struct timespec time;
	struct step step;
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	bool waits = is_futex_wait(number, arguments);
	int error = begin_syscall(&step, number, waits, __builtin_return_address(0));
	if (error)
		return SEAM_MINUS_ONE;
	if (waits && arguments[3]) {
		time = hurried_wait(number, (const struct timespec *)arguments[3]);
		arguments[3] = (long)&time;
	}
	long result = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
				     arguments[5]);
	end(&step);
	return result;
}

static mode_t mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

int __real_open64(const char *a, int b, ...);
int __wrap_open64(const char *a, int b, ...);
int __wrap_open64(const char *a, int b, ...)
{
	va_list list;

	va_start(list, b);
	mode_t mode = mode_of(b, list);
	va_end(list);
	BEGIN(open64, true, EMFILE, ENFILE, ENOMEM, ENOENT, EACCES);
	if (error)
		return SEAM_MINUS_ONE;
	int result = __real_open64(a, b, mode);
	end(&step);
	return result;
}

int __real_openat64(int a, const char *b, int c, ...);
int __wrap_openat64(int a, const char *b, int c, ...);
int __wrap_openat64(int a, const char *b, int c, ...)
{
	va_list list;

	va_start(list, c);
	mode_t mode = mode_of(c, list);
	va_end(list);
	BEGIN(openat64, true, EMFILE, ENFILE, ENOMEM, ENOENT, EACCES);
	if (error)
		return SEAM_MINUS_ONE;
	int result = __real_openat64(a, b, c, mode);
	end(&step);
	return result;
}

int __real_fcntl64(int a, int b, ...);
int __wrap_fcntl64(int a, int b, ...);
int __wrap_fcntl64(int a, int b, ...)
{
	va_list list;

	va_start(list, b);
	long argument = va_arg(list, long);
	va_end(list);
	static const int copy_errors[] = {EMFILE}, seal_errors[] = {EBUSY}, lock_errors[] = {ENOLCK};
	struct step step;
	int error = begin(&step, SEAM_fcntl64, b == F_DUPFD_CLOEXEC || b == F_ADD_SEALS || b == F_OFD_SETLK,
			  b == F_ADD_SEALS   ? seal_errors
			  : b == F_OFD_SETLK ? lock_errors
					     : copy_errors,
			  1, __builtin_return_address(0));
	if (error)
		return SEAM_MINUS_ONE;
	int result = __real_fcntl64(a, b, argument);
	end(&step);
	return result;
}

/* ---- Libraries, and the driver's --------------------------------------------------------------------------------- */

void *__real_dlopen(const char *a, int b);
void *__wrap_dlopen(const char *a, int b);
void *__wrap_dlopen(const char *a, int b)
{
	BEGIN(dlopen, true, ENOENT);
	void *result =
		__real_dlopen(error ? "/dev/null/no library" : a, b); /* so that dlerror() has something to say */
	end(&step);
	return result;
}

/*
 * The calls to the driver have at most six arguments, all numbers or pointers: whatever the types, these pass them on.
 * A call that gives something back to the driver fails only for a wrong argument.
 */
typedef CUresult (*any_call)(long a, long b, long c, long d, long e, long f);

static struct cn_cuda_calls driver;

static int begin_driver(struct step *step, enum seam_call call, const char *name, const void *caller)
{
	static const int errors[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_OPERATING_SYSTEM};
	bool gives_back = strstr(name, "Release") || strstr(name, "Unmap") || strstr(name, "AddressFree") ||
			  strstr(name, "Destroy") || strstr(name, "Pop");

	return begin(step, call, !gives_back, errors, COUNT(errors), caller);
}

#define CN_CUDA_CALL(name)                                                                        \
	static CUresult driver_##name(long a, long b, long c, long d, long e, long f)             \
	{                                                                                         \
		struct step step;                                                                 \
		int error = begin_driver(&step, SEAM_##name, #name, __builtin_return_address(0)); \
		if (error)                                                                        \
			return (CUresult)error;                                                   \
		CUresult result = ((any_call)(void (*)(void))driver.name)(a, b, c, d, e, f);      \
		end(&step);                                                                       \
		return result;                                                                    \
	}
CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL

CUresult __real_cn_cuda_open(void);
CUresult __wrap_cn_cuda_open(void);
CUresult __wrap_cn_cuda_open(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	CUresult result = __real_cn_cuda_open();

	pthread_mutex_lock(&once);
	if (!result && !driver.cuInit) {
		driver = cn_cuda;
#define CN_CUDA_CALL(name) cn_cuda.name = (__typeof__(cn_cuda.name))(void (*)(void))driver_##name;
		CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL
	}
	pthread_mutex_unlock(&once);
	return result;
}

/* ---- For the test ------------------------------------------------------------------------------------------------ */

static void *map_shared(int fd, size_t bytes)
{
	void *address = __real_mmap64(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		abort();
	return address;
}

EXPORT struct fault_board *fault_attach(int board_fd, int sites_fd, int alarm_fd)
{
	struct fault_board *board = map_shared(board_fd, sizeof *board);

	is_program = true;
	the_alarm = alarm_fd;
	the_sites = map_shared(sites_fd, sizeof *the_sites);
	atomic_store(&the_board, board);
	return board;
}

EXPORT void fault_forget_sentence(void)
{
	static const char none[CN_SENTENCE_BYTES];

	cn_error_forget(none);
}

EXPORT unsigned fault_call(const char *name)
{
	unsigned call = SEAM_CALLS - 1;

	while (call && strcmp(call_names[call], name) != 0)
		call--;
	return call;
}

EXPORT void fault_describe(const struct fault_site *site, char ret_text[FAULT_NAME_CHARS])
{
	uint64_t key = atomic_load(&site->key), call = key >> PLACE_BITS;

	snprintf(ret_text, FAULT_NAME_CHARS, "%s+%#jx", call < SEAM_CALLS ? call_names[call] : "?",
		 (uintmax_t)(key & ((UINT64_C(1) << PLACE_BITS) - 1)));
}
