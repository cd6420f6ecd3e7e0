/* SPDX-License-Identifier: MIT */
/*
 * Which processes have how much memory of a device, as cenote_survey_memory() tells it.
 *
 * Processes that are not visible here have no number by which they could be told apart: they are one user together.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

static bool add_device(struct survey *survey, const cenote_memory_device *device)
{
	struct device_memory *devices = one_more(survey->devices, survey->device_count, sizeof *devices);
	char *directory = devices ? strdup(device->directory) : NULL;

	if (devices)
		survey->devices = devices;
	if (!directory)
		return false;
	devices[survey->device_count++] = (struct device_memory){.device = *device, .directory = directory};
	return true;
}

static bool add_user(struct device_memory *memory, const cenote_memory_process *process)
{
	size_t i = 0;

	while (i < memory->user_count && memory->users[i].pid != process->pid)
		i++;
	if (i == memory->user_count) {
		struct device_user *users = one_more(memory->users, i, sizeof *users);
		if (!users)
			return false;
		memory->users = users;
		struct device_user *user = &users[memory->user_count++];
		*user = (struct device_user){.pid = process->pid};
		find_identity(process->pid, &user->identity);
		user->uid = user->identity.uid_known ? user->identity.uid : memory->device.uid;
	}
	memory->users[i].bytes += process->used_bytes;
	return true;
}

/* On a GPU it is memory that no other process has. */
static bool add_private(struct survey *survey, const cenote_memory_device *device, const cenote_memory_process *process)
{
	struct private_memory *memory = survey_private(survey, process->pid, device->uid, true);

	if (memory)
		memory->bytes += process->used_bytes;
	return memory;
}

static void keep(const cenote_memory_device *device, const cenote_memory_process *process, void *data)
{
	struct survey *survey = data;
	bool kept = true;

	if (survey->no_memory)
		return;
	if (device->on_gpu)
		kept = !process || add_private(survey, device, process);
	else if (process)
		kept = add_user(&survey->devices[survey->device_count - 1], process);
	else
		kept = add_device(survey, device);
	survey->no_memory = !kept;
}

/* A directory that cannot be read has been complained of by the survey before this. */
void survey_find_memory(struct survey *survey)
{
	cenote_survey_memory(0, keep, survey);
}
