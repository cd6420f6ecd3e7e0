/* SPDX-License-Identifier: MIT */
/*
 * Which process is at the other end of a socket.
 */
#ifndef CN_SHARE_WIRE_IDENTITY_H
#define CN_SHARE_WIRE_IDENTITY_H

#include <stdbool.h>
#include <sys/socket.h>

/* The process at the other end of a socket, as it was when it connected or listened. */
bool cn_wire_identify(int sock, struct ucred *ret_who);
/*
 * The same as a descriptor that is readable when the process is gone: 0, and *ret_fd is -1 where the system has no such
 * descriptors or does not show that process. Otherwise errno: it is gone (ESRCH), or descriptors or memory are short.
 */
int cn_wire_process(int sock, int *ret_fd);

#endif
