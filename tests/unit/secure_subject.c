/* SPDX-License-Identifier: MIT */
/*
 * What secure_test runs with more rights and without: says which environment variables the library has read.
 *
 *	secure_subject DIRECTORY
 *
 * prints whether it has more rights than who started it, how many devices there are (CENOTE_HOST_DEVICES), and how many
 * names stand in DIRECTORY (CENOTE_RUNTIME_DIR) while an event is shared.
 */
#include "cenote/cuda.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/auxv.h>

static int count_names(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	int count = 0;

	if (!directory)
		return -1;
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

int main(int argc, char **argv)
{
	CUipcEventHandle handle;
	CUcontext context;
	CUevent event;
	int count = 0;

	if (argc != 2 || cuInit(0) || cuDeviceGetCount(&count) || cuCtxCreate(&context, NULL, 0, 0) ||
	    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
	    cuIpcGetEventHandle(&handle, event))
		return 1;
	printf("secure %lu devices %d names %d\n", getauxval(AT_SECURE), count, count_names(argv[1]));
	return 0;
}
