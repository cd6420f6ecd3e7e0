/* SPDX-License-Identifier: MIT */
/*
 * The port: how another process finds this one when all it has is a handle of 64 bytes, or not even that (report.h).
 *
 * A handle names its exporter's port, a socket in a directory that only its user can enter, and carries a random secret
 * and the number of an object. The opener connects, each side checks the other's identity, and the object's descriptor
 * comes back. The connection then stays: its end tells either side that the other is gone. A process has one connection
 * for all that it has open from another, however many handles.
 *
 * A PID or an address is never an identity: a port's name is random, and so is the secret.
 */
#ifndef CN_SHARE_PORT_PORT_H
#define CN_SHARE_PORT_PORT_H

#include "device/device.h"

enum { CN_HANDLE_BYTES = 64 };

/*
 * This process shares something: make a port if there is none, so that other processes of its user can ask what is
 * shared (report.h). If that fails, no error is reported, and the next call tries again.
 */
void cn_port_try_open(void);
/* The same, soon, on the service thread, which runs: for an import of a pool, which is faster than this. */
void cn_port_open_soon(void);
/*
 * What is shared, or which process holds it, has changed: the status file (report.h) is written soon. From any thread,
 * under any lock that allows cn_service_post(); does not wait.
 */
void cn_port_changed(void);

/* ---- Our memory, opened by others (shared_memory.c) ---- */

struct cn_shared_memory;

/*
 * Make memory of memory_allocate() known under a handle. cn_shared_memory_free() frees the record, and gives the memory
 * back to the device as well: now, or when no process has it open any more. cn_shared_memory_discard() frees a record
 * whose handle was not given out, and leaves the memory alone.
 */
CUresult cn_shared_memory_create(struct cn_device *device, void *address, size_t bytes,
				 struct cn_shared_memory **ret_memory);
const unsigned char *cn_shared_memory_handle(const struct cn_shared_memory *memory);
void cn_shared_memory_discard(struct cn_shared_memory *memory); /* NULL does nothing */
void cn_shared_memory_free(struct cn_shared_memory *memory);

/* ---- Memory of others, opened by us (opened_memory.c) ---- */

struct cn_opened_memory;

struct cn_opened_memory_facts {
	void *address;
	size_t bytes;
	int device; /* by the machine's numbering */
};

/*
 * Open memory by its handle, for a context (`owner`) on a device. It stays as it is until it is closed, whatever
 * becomes of the other process.
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
