/* SPDX-License-Identifier: MIT */
/*
 * The port: how another process finds this one when all it has is a handle of 64 bytes, or not even that (report.h).
 *
 * A handle names its exporter's port, a socket in a directory that only its user can enter, and carries a random secret
 * and the number of an object. The opener connects, both sides look who the other is, and the object's descriptor comes
 * back. The connection then stays: its end tells either side that the other is gone. One connection for all that a
 * process has open from another, whatever number of handles.
 *
 * Never a PID or an address as an identity: a port's name is random, and so is the secret.
 */
#ifndef CN_SHARE_PORT_PORT_H
#define CN_SHARE_PORT_PORT_H

#include "device/device.h"

enum { CN_HANDLE_BYTES = 64 };

/*
 * This process shares something: have a port, so that others of its user can ask what (report.h). The first time it is
 * made; if that cannot be done, nothing is said, and the next call tries again.
 */
void cn_port_try_open(void);

/* ---- Memory: ours, that others open (shared_memory.c) ---- */

struct cn_shared_memory;

/*
 * Make memory of memory_allocate() known under a handle. The record is freed by cn_shared_memory_free(), which gives
 * the memory back to the device as well: now, or when nobody has it open any more. cn_shared_memory_discard() frees the
 * record of memory that has no handle yet and stays.
 */
CUresult cn_shared_memory_create(struct cn_device *device, void *address, size_t bytes,
				 struct cn_shared_memory **ret_memory);
const unsigned char *cn_shared_memory_handle(const struct cn_shared_memory *memory);
void cn_shared_memory_discard(struct cn_shared_memory *memory); /* NULL is nothing */
void cn_shared_memory_free(struct cn_shared_memory *memory);

/* ---- Memory: others', that we open (opened_memory.c) ---- */

struct cn_opened_memory;

struct cn_opened_memory_facts {
	void *address;
	size_t bytes;
	int device; /* the machine's number of it */
};

/*
 * Open memory by its handle, for a context (`owner`) on a device. What has been opened stays as it is until it is
 * closed, whatever becomes of the other process.
 *
 *   CUDA_ERROR_INVALID_VALUE    these bytes are no handle of memory, or the memory was freed
 *   CUDA_ERROR_INVALID_CONTEXT  it is this process's own
 *   CUDA_ERROR_INVALID_HANDLE   the process is gone; or another context of the device has memory of it open
 *   CUDA_ERROR_MAP_FAILED       the memory cannot be mapped
 */
CUresult cn_opened_memory_open(const unsigned char handle[CN_HANDLE_BYTES], const struct cn_device *device,
			       uint64_t owner, struct cn_opened_memory **ret_memory);
const struct cn_opened_memory_facts *cn_opened_memory_facts(const struct cn_opened_memory *memory);
void cn_opened_memory_close(struct cn_opened_memory *memory);

#endif
