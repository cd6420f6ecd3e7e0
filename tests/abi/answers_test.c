/* SPDX-License-Identifier: MIT */
/*
 * Every exported function is called with zeros and NULLs, each in a process of its own.
 *
 * Goal: what src/api.list calls done is done (it does not answer CUDA_ERROR_NOT_SUPPORTED), the rest says that it is
 * not implemented yet, with its name, and nothing crashes or hangs. What it logs has the process and the name of the
 * function that was called, not of one that it calls itself.
 */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cenote.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"

enum { TIME_LIMIT_S = 30 };

/* Done, and this is their answer: a LUID is a thing of Windows. */
static const char *const not_supported_here[] = {"cuDeviceGetLuid"};

static int may_be_unsupported(const struct answer *answer)
{
	for (size_t i = 0; i < sizeof not_supported_here / sizeof not_supported_here[0]; i++) {
		if (strcmp(answer->name, not_supported_here[i]) == 0)
			return 1;
	}
	return 0;
}

/* What is wrong with a done function's answer; NULL if nothing. */
static const char *judge_done(const struct answer *answer, int code)
{
	if (strstr(cenote_last_error(), "not implemented yet"))
		return "is called done and says that it is not implemented";
	if (code == CUDA_ERROR_NOT_SUPPORTED && !may_be_unsupported(answer))
		return "is called done and answers that it is not supported";
	return NULL;
}

static const char *judge_waiting(const struct answer *answer, int code)
{
	char sentence[160];

	snprintf(sentence, sizeof sentence, "%s is not implemented yet", answer->name);
	if (code != CUDA_ERROR_NOT_SUPPORTED)
		return "does not answer that it is not supported";
	if (strcmp(cenote_last_error(), sentence) != 0)
		return "does not say that it is not implemented yet";
	if (answer->is_runtime && cudaPeekAtLastError() != cudaErrorNotSupported)
		return "does not leave the runtime's last error";
	return NULL;
}

/* In the child: a device with a current context, so that no function can hide behind "not initialised". */
static const char *prepare(void)
{
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return "could not be asked: there is no device with a context";
	return NULL;
}

/* What was logged names the call, line by line; a failure is logged. */
static const char *judge_log(const struct answer *answer, int code, int file)
{
	static char text[4096];
	char beginning[160];
	ssize_t bytes = pread(file, text, sizeof text - 1, 0);

	snprintf(beginning, sizeof beginning, "cenote[%d] %s: ", (int)getpid(), answer->name);
	if (bytes < 0)
		return "left a log that cannot be read";
	if (bytes == 0)
		return code && *cenote_last_error() ? "failed and logged nothing" : NULL;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (strncmp(line, beginning, strlen(beginning)) != 0) {
			printf("# %s\n", line);
			return "is not named so in the log";
		}
	}
	return NULL;
}

static int ask(const struct answer *answer)
{
	int log = memfd_create("log", MFD_CLOEXEC);

	alarm(TIME_LIMIT_S);
	const char *complaint = log < 0 ? "could not be asked: there is no file for the log" : prepare();
	if (!complaint && (setenv("CENOTE_LOG", "debug", 1) || dup2(log, STDERR_FILENO) < 0))
		complaint = "could not be asked: its log cannot be read";
	if (!complaint) {
		int code = answer->call();
		complaint = answer->is_done ? judge_done(answer, code) : judge_waiting(answer, code);
		if (!complaint)
			complaint = judge_log(answer, code, log);
	}
	if (complaint) {
		printf("# %s %s; its sentence is \"%s\"\n", answer->symbol, complaint, cenote_last_error());
		fflush(stdout);
	}
	return complaint != NULL;
}

static int check(int number, const struct answer *answer)
{
	int status = 0;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(ask(answer));
	if (child < 0 || waitpid(child, &status, 0) != child) {
		printf("Bail out! no process for %s\n", answer->symbol);
		return 1;
	}
	if (WIFSIGNALED(status))
		printf("# %s ended its process: %s\n", answer->symbol, strsignal(WTERMSIG(status)));
	printf("%sok %d - %s %s\n", status ? "not " : "", number, answer->symbol,
	       answer->is_done ? "is done" : "waits");
	return status != 0;
}

int main(void)
{
	int failed = 0;

	printf("1..%d\n", answer_count);
	for (int i = 0; i < answer_count; i++)
		failed |= check(i + 1, &answers[i]);
	return failed;
}
