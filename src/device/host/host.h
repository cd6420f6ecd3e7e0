/* SPDX-License-Identifier: MIT */
/*
 * What the files of the host device know of each other. Nobody outside this folder includes it.
 */
#ifndef CN_DEVICE_HOST_H
#define CN_DEVICE_HOST_H

#include "device/device.h"

/* Somebody who wants to know when a queue has come to a number. Called once, without any lock. */
struct cn_waiter {
	struct cn_waiter *next;
	uint64_t number;
	void (*reached)(struct cn_waiter *waiter);
};

/* queue.c: one operation that a queue has accepted and not yet finished. */
struct cn_queue_item {
	struct cn_waiter
		waiter; /* first: while the item waits for a point of another queue, it stands in that one's list */
	struct cn_queue *queue;
	struct cn_queue_item *next;
	struct cn_operation operation;
	void *payload; /* a kernel's arguments; freed with the operation */
};

void cn_host_queue_open(struct cn_queue *queue, struct cn_queue_group *group, uint64_t owner);
void cn_host_queue_close(struct cn_queue *queue);
bool cn_host_queue_drained(struct cn_queue *queue);
CUresult cn_host_submit(struct cn_queue *queue, uint64_t owner, const struct cn_operation *operation,
			struct cn_point *ret_point);
CUresult cn_host_point_now(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point);
void cn_host_point_wait(struct cn_point point);
bool cn_host_queue_follows(struct cn_queue *queue, struct cn_point point);
uint64_t cn_host_time_ns(void);

/* Go on with a queue: called by an executor that has taken it from the run list. */
void cn_host_queue_drive(struct cn_queue *queue);
/* What a blocked queue waited for has come: put it on the run list. */
void cn_host_queue_resume(struct cn_queue *queue);

/* executor.c: run cn_host_queue_drive(queue) soon, in a thread that may block. */
void cn_host_executor_push(struct cn_queue *queue);
/* A detached thread with all signals blocked. */
bool cn_host_thread_start(void *(*body)(void *), void *argument);

/* poller.c: resume the item's queue, whose first item it is, when the value it waits for compares well. */
bool cn_host_value_reached(const struct cn_operation *operation); /* true also when the word is not there */
uint64_t cn_host_read_value(const struct cn_operation *operation);
void cn_host_poll(struct cn_queue_item *item);

/* copy.c, kernel.c: do it, now, in this thread. */
CUresult cn_host_copy(const struct cn_operation *operation);
void cn_host_fill(const struct cn_operation *operation);
CUresult cn_host_launch_prepare(const struct cn_operation *operation, void **ret_payload);
CUresult cn_host_launch(const struct cn_launch *launch, void **arguments);

/* memory.c */
CUresult cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address);
void cn_host_memory_free(struct cn_device *device, void *address);
CUresult cn_host_host_allocate(size_t bytes, void **ret_address);
void cn_host_host_free(void *address, size_t bytes);

/* Take bytes of a device. CUDA_ERROR_OUT_OF_MEMORY: it does not have them. */
CUresult cn_host_count_bytes(struct cn_device *device, size_t bytes);
/* A memory file, sealed against shrinking and growing; -1 when the program has no descriptor left for one. */
CUresult cn_host_make_file(const char *name, size_t bytes, int *ret_fd);

/* physical.c */
CUresult cn_host_physical_create(struct cn_device *device, const struct cn_physical_facts *facts,
				 struct cn_physical **ret_physical);
void cn_host_physical_free(struct cn_physical *physical);
CUresult cn_host_physical_export(const struct cn_physical *physical, int *ret_fd);
CUresult cn_host_physical_import(int fd, struct cn_physical **ret_physical);
const struct cn_physical_facts *cn_host_physical_facts(const struct cn_physical *physical);
bool cn_host_has_node(int node);
CUresult cn_host_range_reserve(size_t bytes, size_t alignment, void **ret_address);
void cn_host_range_free(void *address, size_t bytes);
CUresult cn_host_range_map(void *address, const struct cn_physical *physical);
CUresult cn_host_range_unmap(void *address, size_t bytes);
CUresult cn_host_range_protect(void *address, size_t bytes, bool readable, bool writable);

/* arena.c */
CUresult cn_host_arena_create(struct cn_device *device, int node, size_t bytes, size_t alignment,
			      struct cn_arena **ret_arena, void **ret_base);
void cn_host_arena_free(struct cn_arena *arena);
CUresult cn_host_arena_commit(struct cn_arena *arena, size_t offset, size_t bytes);
void cn_host_arena_decommit(struct cn_arena *arena, size_t offset, size_t bytes);
/* Ask the system for memory of a node, if the machine has more than one; the file remembers it. */
void cn_host_place(int node, void *address, size_t bytes);

/* fault.c: call body(data); false when it touched memory that is not there, or may not be touched so. */
bool cn_host_guarded(void (*body)(void *data), void *data);

/* config.c: what the environment says of the devices. */
CUresult cn_host_init(struct cn_device devices[CN_DEVICE_MAX], int *ret_count);
bool cn_host_without(const char *capability);

/* attributes.c */
CUresult cn_host_attribute(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value);
bool cn_host_peers(const struct cn_device *device, const struct cn_device *peer);

#endif
