/* SPDX-License-Identifier: MIT */
/*
 * Items: the records of operations that a queue has accepted (host_queue.c).
 *
 * The small arguments of a kernel lie in a buffer that belongs to the item and stays with it, so that a queue which has
 * spare items launches kernels without an allocation.
 */
#include "device/host/host_internal.h"

#include <stdlib.h>

enum { ROOM_ALIGNMENT_BYTES = 64 }; /* no parameter needs more */

struct cn_host_item *cn_host_item_make(void)
{
	struct cn_host_item *item = calloc(1, sizeof *item);

	if (!item)
		cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to queue an operation");
	return item;
}

struct cn_host_item *cn_host_item_complete(struct cn_host_item *item, bool room)
{
	if (!item)
		item = cn_host_item_make();
	if (!item || !room || item->room)
		return item;
	item->room = aligned_alloc(ROOM_ALIGNMENT_BYTES, CN_HOST_ITEM_ROOM_BYTES);
	if (item->room)
		return item;
	free(item);
	cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the arguments of a kernel");
	return NULL;
}

void cn_host_item_set(struct cn_host_item *item, const struct cn_operation *operation, void *payload)
{
	item->operation = *operation;
	item->payload = payload;
	item->runs = false;
	if (operation->kind == CN_OPERATION_LAUNCH && !payload) {
		item->payload = item->room;
		cn_host_launch_copy(operation, item->room);
	}
}

void cn_host_items_free(struct cn_host_item *item)
{
	while (item) {
		struct cn_host_item *next = item->next;
		free(item->room);
		free(item);
		item = next;
	}
}
