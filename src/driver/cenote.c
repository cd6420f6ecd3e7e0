/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls, beside CUDA's. They need no cuInit().
 */
#include "cenote/cenote.h"

#include "base/error.h"
#include "share/descriptor.h"

CENOTE_API const char *cenote_last_error(void)
{
	return cn_last_error();
}

CENOTE_API CUresult cenote_send_descriptor(int sock, int descriptor)
{
	return cn_descriptor_send(sock, descriptor);
}

CENOTE_API CUresult cenote_recv_descriptor(int sock, int *ret_descriptor)
{
	return cn_descriptor_receive(sock, ret_descriptor);
}
