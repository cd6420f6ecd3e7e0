/* SPDX-License-Identifier: MIT */
/*
 * Which process has which memory of a device: the accounts (base/account.h) in all runtime directories; see survey.h.
 *
 * A slot does not say which process has it; the kernel does, where this process may look into that one. What the
 * others have is told as one sum. All processes are looked at once for each account, however many devices its user says
 * that it has.
 */
#include "base/account.h"
#include "base/clock.h"
#include "share/report/survey.h"
#include "share/wire/look.h"

#include <unistd.h>

enum { ALL_ACCOUNTS_MS = 2000 }; /* another user may have made some that take long to read: no further one then */

struct user {
	int pid;
	unsigned device;
	uint64_t bytes;
};

struct memory_survey {
	cn_survey_tell_memory *tell;
	void *data;
	struct user users[CN_ACCOUNT_SLOTS]; /* of an account */
	unsigned user_count;
	uint64_t end_ns;
	struct cn_look look;
	struct cn_survey_device device; /* that is told of */
	uint64_t known_bytes;           /* of it, by processes that were told of */
};

static void keep_user(int pid, unsigned device, uint64_t bytes, void *data)
{
	struct memory_survey *survey = data;

	if (bytes && survey->user_count < CN_ACCOUNT_SLOTS) /* several processes may have one slot's descriptor */
		survey->users[survey->user_count++] = (struct user){pid, device, bytes};
}

static void tell_user(struct memory_survey *survey, const struct user *user)
{
	if (user->bytes > survey->device.used_bytes - survey->known_bytes) /* an account that lies */
		return;
	survey->known_bytes += user->bytes;
	survey->tell(&survey->device, user->pid, user->bytes, survey->data);
}

static void tell_device(struct memory_survey *survey, struct cn_account *account, unsigned number)
{
	struct cn_account_sum sum;

	if (!cn_account_sum(account, number, true, &sum))
		return;
	survey->known_bytes = 0;
	survey->device.number = number;
	survey->device.process_count = cn_account_user_count(account, number);
	survey->device.orphaned_bytes = sum.orphaned;
	survey->device.used_bytes = cn_account_used(&sum);
	if (!survey->device.used_bytes)
		return;
	survey->tell(&survey->device, 0, 0, survey->data);
	for (unsigned i = 0; i < survey->user_count; i++)
		if (survey->users[i].device == number)
			tell_user(survey, &survey->users[i]);
	if (survey->known_bytes < sum.made)
		survey->tell(&survey->device, 0, sum.made - survey->known_bytes, survey->data);
}

static void look_at_account(const char *file, int fd, void *data)
{
	struct memory_survey *survey = data;
	struct cn_account *account;

	if (cn_clock_ns() >= survey->end_ns) {
		close(fd);
		return;
	}
	if (!cn_account_look_into(fd, &account))
		return;
	survey->device.total_bytes = cn_account_capacity(file);
	survey->device.on_gpu = survey->device.total_bytes == CN_ACCOUNT_OF_GPUS;
	survey->user_count = 0;
	cn_account_users_of_all(account, keep_user, survey);
	for (unsigned number = 0; number < CN_ACCOUNT_DEVICES; number++)
		tell_device(survey, account, number);
	cn_account_close(account);
}

static CUresult look_into(const char *path, void *data)
{
	struct memory_survey *survey = data;
	const char *why = cn_look_open(path, &survey->look);

	if (why)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the memory that processes in %s have is not known: %s",
				path, why);
	if (survey->look.fd < 0)
		return CUDA_SUCCESS;
	survey->device.directory = path;
	survey->device.uid = survey->look.owner;
	cn_look_accounts(&survey->look, look_at_account, survey);
	cn_look_close(&survey->look);
	return CUDA_SUCCESS;
}

CUresult cn_survey_memory(cn_survey_tell_memory *tell, void *data)
{
	uint64_t end_ns = cn_clock_ns() + ALL_ACCOUNTS_MS * CN_MILLISECOND_NS;
	struct memory_survey survey = {.tell = tell, .data = data, .end_ns = end_ns};

	return cn_survey_directories(look_into, &survey);
}
