/* SPDX-License-Identifier: MIT */
/*
 * A descriptor over a Unix socket, one message each.
 */
#ifndef CN_SHARE_WIRE_SEND_DESCRIPTOR_H
#define CN_SHARE_WIRE_SEND_DESCRIPTOR_H

#include "base/error.h"

/* As cenote_send_descriptor() and cenote_recv_descriptor() in cenote.h say. */
CUresult cn_descriptor_send(int sock, int descriptor);
CUresult cn_descriptor_receive(int sock, int *ret_descriptor);

#endif
