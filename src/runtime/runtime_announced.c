/* SPDX-License-Identifier: MIT */
/*
 * Kernels that programs compiled by nvcc have announced (runtime/runtime_announced.h).
 *
 * Only a launch that has already failed looks for one. So a binary is a list that grows, and a search goes through all
 * of them.
 */
#include "runtime/runtime_announced.h"
#include "runtime/runtime.h"

#include "base/lock.h"

#include <stdlib.h>

struct announced {
	const void *function;
	const char *name;
};

struct binary {
	struct binary *next;
	struct announced *kernels;
	size_t count, room;
};

static struct {
	CN_LOCK(BINARIES) lock;
	struct binary *newest; /* whose kernels are being announced */
} binaries;

void *cenote_binary_announce(void)
{
	struct binary *binary = calloc(1, sizeof *binary);

	if (!binary)
		return NULL;
	cn_lock(&binaries.lock);
	binary->next = binaries.newest;
	binaries.newest = binary;
	cn_unlock(&binaries.lock);
	return binary;
}

/* The link to a binary in the list; for NULL, or if it is not in the list, the list's end. Locked. */
static struct binary **find_binary(const void *binary)
{
	struct binary **link = &binaries.newest;

	while (*link && *link != binary)
		link = &(*link)->next;
	return link;
}

/* A kernel that cannot be remembered is unknown to the launch, which then says less. */
void cenote_kernel_announce(void *opaque, const void *function, const char *name)
{
	enum { ROOM_FIRST = 8 };

	cn_lock(&binaries.lock);
	struct binary *binary = *find_binary(opaque);
	if (binary && binary->count == binary->room) {
		size_t room = binary->room ? 2 * binary->room : ROOM_FIRST;
		struct announced *kernels = realloc(binary->kernels, room * sizeof *kernels);
		if (kernels) {
			binary->kernels = kernels;
			binary->room = room;
		}
	}
	if (binary && binary->count < binary->room)
		binary->kernels[binary->count++] = (struct announced){function, name};
	cn_unlock(&binaries.lock);
}

void cenote_binary_forget(void *opaque)
{
	cn_lock(&binaries.lock);
	struct binary **link = find_binary(opaque);
	struct binary *binary = *link;
	if (binary)
		*link = binary->next;
	cn_unlock(&binaries.lock);
	if (binary)
		free(binary->kernels);
	free(binary);
}

bool cn_runtime_refuse_announced(const void *function)
{
	bool found = false;

	cn_lock(&binaries.lock);
	for (const struct binary *binary = binaries.newest; binary && !found; binary = binary->next)
		for (size_t i = 0; i < binary->count && !found; i++) {
			found = binary->kernels[i].function == function;
			if (found) /* while it is locked: the name is the binary's */
				(void)CN_RUNTIME_REFUSE(
					cudaErrorNoKernelImageForDevice,
					"kernel %.128s was compiled for GPUs; the host device runs C functions "
					"that CENOTE_KERNEL declares",
					binary->kernels[i].name);
		}
	cn_unlock(&binaries.lock);
	return found;
}
