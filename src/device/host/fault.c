/* SPDX-License-Identifier: MIT */
/*
 * Faults: a device operation that touches memory which is not there, or may not be touched so, fails its stream instead
 * of ending the program, as on a GPU.
 *
 * A kernel is the program's own code, and memory may be unmapped between the moment an operation is accepted and the
 * one in which it runs. So operations run inside a guard: the thread notes where to go on, and the handler of SIGSEGV
 * and SIGBUS goes there if the fault happened in a guarded thread. Any other fault is handed to whoever had the
 * signal before us; if that was nobody, the program ends as it would have. The handlers are installed with the first
 * guarded operation.
 */
#include "device/host/host.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static _Thread_local sigjmp_buf *volatile guard __attribute__((tls_model("initial-exec")));
static struct sigaction before_segv, before_bus;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_fault(int signal, siginfo_t *info, void *machine)
{
	struct sigaction *before = signal == SIGBUS ? &before_bus : &before_segv;
	bool sent = info->si_code <= 0; /* by kill() or the like: no instruction has faulted */

	if (guard && !sent) {
		/* As it was: whoever passed the signal on to us may have blocked more than we asked for. */
		pthread_sigmask(SIG_SETMASK, &((ucontext_t *)machine)->uc_sigmask, NULL);
		siglongjmp(*guard, 1);
	}
	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(signal, info, machine);
	} else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
		before->sa_handler(signal);
	} else if (before->sa_handler == SIG_DFL || !sent) {
		sigaction(signal, before, NULL); /* the instruction faults again, and is not ours any more */
		if (sent)
			raise(signal);
	}
}

static void install(void)
{
	/* SA_NODEFER: we leave the handler by a jump, after which the signal must not stay blocked. */
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, &before_segv);
	sigaction(SIGBUS, &action, &before_bus);
}

bool cn_host_guarded(void (*body)(void *data), void *data)
{
	sigjmp_buf here, *const outer = guard; /* a kernel may call us */

	pthread_once(&once, install);
	if (sigsetjmp(here, 0)) {
		guard = outer;
		return false;
	}
	guard = &here;
	body(data);
	guard = outer;
	return true;
}
