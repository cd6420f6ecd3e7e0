/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles: memory and pools by 64 bytes, also between users, for processes that hold the same IMEX channel.
 *
 * A fabric handle is like other handles (port_internal.h), with the number of its exporter's channel. Its port is not
 * the one for events and legacy memory: every user can call there, so it trusts no caller for being there, nor for the
 * handle's secret alone. Both sides must hold the same channel, and each verifies that before it hands out anything:
 *   1. The port's name begins with its user's number, and its process has marked the channel (imex.h) at an offset that
 *      follows from the name. The client connects, checks that the listener is that user, and looks for the mark. A
 *      process that does not hold the channel can neither make a mark nor borrow one: that belongs to another user.
 *   2. Then the client passes its own channel, opened, with the handle's secret, and gets what the handle names: a
 *      descriptor of the memory, or one that leads to the pool's export.
 *
 * A connection is for one question; nothing of it stays. A handle keeps nothing alive either: when the memory, the pool
 * or its process is gone, the handle names nothing. What was imported stays. This is how they work within one machine;
 * between machines, the exporter's daemon is the client, and the importer asks its own daemon (node.h).
 */
#ifndef CN_SHARE_PORT_FABRIC_H
#define CN_SHARE_PORT_FABRIC_H

#include "share/port/port.h"

enum cn_fabric_kind { CN_FABRIC_MEMORY, CN_FABRIC_POOL };

struct cn_node_memory;
struct cn_node_facts; /* node.h */

/* Something that has a fabric handle. */
struct cn_fabric;

/* Does this process hold a channel? CUDA_ERROR_NOT_PERMITTED: no; the sentence says why and how to get one. */
CUresult cn_fabric_permitted(void);
/*
 * Give what a descriptor leads to a handle; the caller keeps `fd`. Freed by cn_fabric_free(): after that it cannot be
 * imported. CUDA_ERROR_NOT_PERMITTED: as cn_fabric_permitted(); CUDA_ERROR_OPERATING_SYSTEM: no port can be made.
 */
CUresult cn_fabric_create(enum cn_fabric_kind kind, int fd, struct cn_fabric **ret_fabric);
const unsigned char *cn_fabric_handle(const struct cn_fabric *fabric);
void cn_fabric_free(struct cn_fabric *fabric); /* NULL does nothing */

/* Do these bytes look like a handle of this kind of Cenote's? Whether it is whole and names something is not asked. */
bool cn_fabric_is_ours(const unsigned char handle[CN_HANDLE_BYTES], enum cn_fabric_kind kind);
/* The user whose port has this name. What answers there is verified to be this user's, before anything is fetched. */
uid_t cn_fabric_user(const unsigned char *port_name);
/*
 * Fetch a descriptor of what a handle of this machine names, closed on exec; the caller closes it. It is not trusted.
 *
 *   CUDA_ERROR_NOT_SUPPORTED     these bytes are no such handle; or what it names, or its process, is gone
 *   CUDA_ERROR_NOT_PERMITTED     this process does not hold the exporter's channel
 *   CUDA_ERROR_OPERATING_SYSTEM  the exporter does not answer
 */
CUresult cn_fabric_fetch(const unsigned char handle[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int *ret_fd);
/*
 * For a program: the same if the handle is of this machine, as cenote-imexd says; without the daemon no other can be
 * reached. Else *ret_fd is -1: cn_fabric_open_elsewhere() opens what the handle names through the daemon. That one
 * returns as cn_node_open() does, and what cn_imex_find() does.
 */
CUresult cn_fabric_find(const unsigned char handle[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int *ret_fd);
CUresult cn_fabric_open_elsewhere(const unsigned char handle[CN_HANDLE_BYTES], enum cn_fabric_kind kind,
				  struct cn_node_memory **ret_memory, struct cn_node_facts *ret_facts);

#endif
