/* SPDX-License-Identifier: MIT */
/*
 * Guards: the fault handler, and what is checked with it (see guard.h).
 *
 * A fault is one of three: of an instruction in the table; in a thread that is inside cn_guard_run(), which has noted
 * where to continue; or not ours, and then passed on.
 *
 * It is passed to the handler that we found last. That one may have found ours when it was installed, and call it: then
 * the fault goes to the handler that we found before. How far a fault has come is written at the end of its siginfo_t,
 * where the system leaves zeros. (It cannot be kept elsewhere: a handler may leave by a jump, and not tell us.)
 */
#include "base/guard.h"

#include "base/lock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

/* No page is smaller. */
enum { PAGE_BYTES = 4096 };

static _Thread_local sigjmp_buf *volatile guard __attribute__((tls_model("initial-exec")));

/* Handlers of the program, in the order in which we found them. Of more the last one stays in front of us. */
enum { FOUND_MAX = 8 };

static struct found {
	struct sigaction actions[FOUND_MAX];
	_Atomic unsigned count;
} found_segv, found_bus;

/* At the end of a siginfo_t: its fault has been passed on. */
struct passed {
	uintptr_t mark;
	unsigned left; /* handlers that have not got it */
};

static CN_LOCK(GUARD) arming;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool installed; /* so that a guard calls nothing to find that out */

/* ---- The handler ------------------------------------------------------------------------------------------------- */

#if CN_GUARD_INSTRUCTIONS

/* By the linker: the table of all objects. */
extern const struct cn_guard_row __start_cn_guard_rows[] __attribute__((visibility("hidden")));
extern const struct cn_guard_row __stop_cn_guard_rows[] __attribute__((visibility("hidden")));

static uintptr_t resolve(const int32_t *place)
{
	return (uintptr_t)place + (uintptr_t)(intptr_t)*place;
}

/* Did an instruction of the table fault? Then the thread continues where its row says. */
static bool go_on(ucontext_t *machine)
{
#ifdef __x86_64__
	uintptr_t at = (uintptr_t)machine->uc_mcontext.gregs[REG_RIP];
#else
	uintptr_t at = (uintptr_t)machine->uc_mcontext.pc;
#endif
	uintptr_t bytes = (uintptr_t)__stop_cn_guard_rows - (uintptr_t)__start_cn_guard_rows;
	const struct cn_guard_row *row = __start_cn_guard_rows, *end = row + bytes / sizeof *row;

	while (row < end && (at < resolve(&row->start) || at >= resolve(&row->end)))
		row++;
	if (row == end)
		return false;
#ifdef __x86_64__
	machine->uc_mcontext.gregs[REG_RIP] = (greg_t)resolve(&row->go_on);
#else
	machine->uc_mcontext.pc = resolve(&row->go_on);
#endif
	return true;
}

#else

static bool go_on(ucontext_t *machine)
{
	(void)machine;
	return false;
}

#endif

static void pass_on(int signal, siginfo_t *info, void *machine)
{
	static const struct sigaction usual = {.sa_handler = SIG_DFL};
	struct found *found = signal == SIGBUS ? &found_bus : &found_segv;
	char *end = (char *)info + sizeof *info - sizeof(struct passed);
	uintptr_t mark = (uintptr_t)end ^ (uintptr_t)found;
	struct passed passed;
	bool sent = info->si_code <= 0;

	memcpy(&passed, end, sizeof passed);
	unsigned left = passed.mark == mark ? passed.left : atomic_load(&found->count);
	const struct sigaction *before = left ? &found->actions[left - 1] : &usual;
	passed = (struct passed){mark, left ? left - 1 : 0};
	memcpy(end, &passed, sizeof passed);
	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(signal, info, machine);
	} else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
		before->sa_handler(signal);
	} else if (before->sa_handler == SIG_DFL || !sent) {
		sigaction(signal, before, NULL); /* the instruction faults again, and we no longer handle it */
		if (sent)
			raise(signal);
	}
}

static void on_fault(int signal, siginfo_t *info, void *machine)
{
	bool sent = info->si_code <= 0; /* by kill() or the like: no instruction has faulted */

	if (!sent && go_on(machine))
		return;
	if (guard && !sent) {
		/* As it was: a handler that passed the signal on to us may have blocked more than we asked for. */
		pthread_sigmask(SIG_SETMASK, &((ucontext_t *)machine)->uc_sigmask, NULL);
		siglongjmp(*guard, 1);
	}
	pass_on(signal, info, machine);
}

static bool is_ours(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_fault;
}

/* Put our handler in front. Locked, but for the first time. */
static void put_in_front(int signal, struct found *found)
{
	/* SA_NODEFER: we leave the handler by a jump, after which the signal must not stay blocked. */
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK}, before;
	unsigned count = atomic_load(&found->count);

	if (count == FOUND_MAX)
		return;
	sigemptyset(&action.sa_mask);
	sigaction(signal, &action, &before);
	if (is_ours(&before))
		return;
	/* The handler that was there before the last time is in front again: there is nothing new to remember. */
	if (count && found->actions[count - 1].sa_flags == before.sa_flags &&
	    found->actions[count - 1].sa_sigaction == before.sa_sigaction)
		return;
	found->actions[count] = before;
	atomic_store(&found->count, count + 1);
}

static void install(void)
{
	put_in_front(SIGSEGV, &found_segv);
	put_in_front(SIGBUS, &found_bus);
	atomic_store_explicit(&installed, true, memory_order_release);
}

void cn_guard_arm(void)
{
	struct sigaction now;

	cn_guard_install();
	sigaction(SIGSEGV, NULL, &now);
	if (is_ours(&now))
		return;
	cn_lock(&arming);
	install();
	cn_unlock(&arming);
}

void cn_guard_install(void)
{
	if (__builtin_expect(!atomic_load_explicit(&installed, memory_order_acquire), 0))
		pthread_once(&once, install);
}

bool cn_guard_works(int signal)
{
	struct sigaction now;
	sigset_t blocked;

	cn_guard_install();
	return !sigaction(signal, NULL, &now) && is_ours(&now) && !pthread_sigmask(SIG_BLOCK, NULL, &blocked) &&
	       !sigismember(&blocked, signal);
}

bool cn_guard_run(void (*body)(void *data), void *data)
{
	sigjmp_buf here, *const outer = guard; /* a kernel may call us */

	cn_guard_install();
	if (sigsetjmp(here, 0)) {
		guard = outer;
		return false;
	}
	guard = &here;
	body(data);
	guard = outer;
	return true;
}

/* ---- Copying and touching ---------------------------------------------------------------------------------------- */

#if CN_GUARD_INSTRUCTIONS

static bool copy(void *to, const void *from, size_t bytes)
{
#ifdef __x86_64__
	__asm__ goto("movq %0, %%rdi\n\t"
		     "movq %1, %%rsi\n\t"
		     "movq %2, %%rcx\n"
		     "1:\trep movsb" CN_GUARD_ROW
		     :
		     : "r"(to), "r"(from), "r"(bytes)
		     : "memory", "rdi", "rsi", "rcx"
		     : not_there);
#else
	__asm__ goto("mov x9, xzr\n"
		     "1:\tb 5f\n"
		     "3:\tldr x10, [%1, x9]\n\t"
		     "str x10, [%0, x9]\n\t"
		     "add x9, x9, #8\n"
		     "5:\tsub x11, %2, x9\n\t"
		     "cmp x11, #8\n\t"
		     "b.hs 3b\n\t"
		     "b 6f\n"
		     "4:\tldrb w10, [%1, x9]\n\t"
		     "strb w10, [%0, x9]\n\t"
		     "add x9, x9, #1\n"
		     "6:\tcmp x9, %2\n\t"
		     "b.lo 4b" CN_GUARD_ROW
		     :
		     : "r"(to), "r"(from), "r"(bytes)
		     : "memory", "x9", "x10", "x11", "cc"
		     : not_there);
#endif
	return true;
not_there:
	return false;
}

static bool touch(const void *at)
{
#ifdef __x86_64__
	__asm__ goto("1:\tmovb (%0), %%al" CN_GUARD_ROW : : "r"(at) : "rax" : not_there);
#else
	__asm__ goto("1:\tldrb w9, [%0]" CN_GUARD_ROW : : "r"(at) : "x9" : not_there);
#endif
	return true;
not_there:
	return false;
}

static bool touch_to_write(void *at)
{
#ifdef __x86_64__
	__asm__ goto("1:\tmovb (%0), %%al\n\t"
		     "movb %%al, (%0)" CN_GUARD_ROW
		     :
		     : "r"(at)
		     : "rax", "memory"
		     : not_there);
#else
	__asm__ goto("1:\tldrb w9, [%0]\n\t"
		     "strb w9, [%0]" CN_GUARD_ROW
		     :
		     : "r"(at)
		     : "x9", "memory"
		     : not_there);
#endif
	return true;
not_there:
	return false;
}

#else

struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

static void copy_guarded(void *data)
{
	const struct copy *copy = data;

	memcpy(copy->to, copy->from, copy->bytes);
}

static bool copy(void *to, const void *from, size_t bytes)
{
	struct copy all = {to, from, bytes};

	return cn_guard_run(copy_guarded, &all);
}

static bool touch(const void *at)
{
	char byte;

	return copy(&byte, at, 1);
}

static bool touch_to_write(void *at)
{
	char byte;

	return copy(&byte, at, 1) && copy(at, &byte, 1);
}

#endif

bool cn_guard_copy(void *to, const void *from, size_t bytes)
{
	cn_guard_install();
	return copy(to, from, bytes);
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

/* The first byte, and one of each further page up to the last byte. */
static inline bool check(uintptr_t first, size_t bytes, bool writes)
{
	uintptr_t at = first, last = first + bytes - 1;

	cn_guard_install();
	if (last < first)
		return false;
	while (writes ? touch_to_write((void *)at) : touch((const void *)at)) {
		if (at / PAGE_BYTES == last / PAGE_BYTES)
			return true;
		at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
	}
	return false;
}

static __attribute__((noinline, cold)) bool refuse(const void *at, const char *name, const char *what)
{
	(void)cn_error(CUDA_ERROR_INVALID_VALUE, "%s: the memory at %p cannot be %s", name, at, what);
	return false;
}

bool cn_guard_check_read(const void *at, size_t bytes, const char *name)
{
	return !at || !bytes || check((uintptr_t)at, bytes, false) || refuse(at, name, "read");
}

bool cn_guard_check_write(void *at, size_t bytes, const char *name)
{
	return !at || !bytes || check((uintptr_t)at, bytes, true) || refuse(at, name, "written");
}

bool cn_guard_check_array(const void *at, size_t count, size_t item_bytes, const char *name)
{
	if (at && count > SIZE_MAX / item_bytes)
		return refuse(at, name, "read: it is larger than all memory");
	return cn_guard_check_read(at, count * item_bytes, name);
}

bool cn_guard_check_string(const char *at, const char *name)
{
	uintptr_t checked = UINTPTR_MAX; /* the page that is known to be mapped */

	if (!at)
		return true;
	cn_guard_install();
	for (const char *next = at;; next++) {
		if ((uintptr_t)next / PAGE_BYTES != checked && !touch(next))
			return refuse(at, name, "read: the string has no end");
		checked = (uintptr_t)next / PAGE_BYTES;
		if (!*next)
			return true;
	}
}
