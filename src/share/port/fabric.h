/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles: memory and pools by 64 bytes, also between users, for those who hold the same IMEX channel.
 *
 * A fabric handle is as other handles (port_internal.h), with the number of its exporter's channel. Its port is another
 * one than that of events and legacy memory: it stands where every user can call, so it believes nobody for being
 * there, nor for the handle's secret alone. Who calls and who is called hold the same channel, and both make sure of it
 * before they hand out anything:
 *   1. The port's name begins with its user's number, and its process has marked the channel (imex.h) at an offset that
 *      follows from the name. The client connects, sees that it is that user who listens, and looks for the mark. Who
 *      does not hold the channel can neither make a mark nor borrow one: another's belongs to another user.
 *   2. Then the client passes its own channel, opened, with the handle's secret, and what the handle names comes back:
 *      a descriptor of the memory, or one that leads to the pool's export.
 *
 * One question a connection; nothing stays of it. A handle holds nothing either: when the memory or the pool is gone,
 * or its process, the handle is of nothing. What was imported stays. Fabric handles reach one machine.
 */
#ifndef CN_SHARE_PORT_FABRIC_H
#define CN_SHARE_PORT_FABRIC_H

#include "share/port/port.h"

enum cn_fabric_kind { CN_FABRIC_MEMORY, CN_FABRIC_POOL };

/* Something that has a fabric handle. */
struct cn_fabric;

/* Has this process a channel? CUDA_ERROR_NOT_PERMITTED: it has none; the sentence says why and how to get one. */
CUresult cn_fabric_permitted(void);
/*
 * Give what a descriptor leads to a handle; `fd` stays the caller's. Freed by cn_fabric_free(): nobody imports it
 * from then on. CUDA_ERROR_NOT_PERMITTED: as cn_fabric_permitted(); CUDA_ERROR_OPERATING_SYSTEM: no port can be made.
 */
CUresult cn_fabric_create(enum cn_fabric_kind kind, int fd, struct cn_fabric **ret_fabric);
const unsigned char *cn_fabric_handle(const struct cn_fabric *fabric);
void cn_fabric_free(struct cn_fabric *fabric); /* NULL is nothing */

/*
 * A descriptor of what a handle names, closed on exec, the caller's to close. It is a stranger's.
 *
 *   CUDA_ERROR_NOT_SUPPORTED     these bytes are no such handle; or what it names is gone, or its process
 *   CUDA_ERROR_NOT_PERMITTED     this process does not hold the exporter's channel
 *   CUDA_ERROR_OPERATING_SYSTEM  the exporter does not answer
 */
CUresult cn_fabric_fetch(const unsigned char handle[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int *ret_fd);

#endif
