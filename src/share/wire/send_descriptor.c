/* SPDX-License-Identifier: MIT */
/*
 * A descriptor over a Unix socket: a letter (letter.h) without a body.
 */
#include "share/wire/send_descriptor.h"

#include "base/guard.h"
#include "share/wire/letter.h"

static const struct cn_letter_kind kind = {
	.magic = {0xce, 'n', 'o', 't', 'e', 'f', 'd', '1'},
	.with_descriptor = true,
	.sender = "cenote_send_descriptor() or cenote_send_pool()",
};

CUresult cn_descriptor_send(int sock, int descriptor)
{
	return cn_letter_send(sock, &kind, NULL, descriptor);
}

CUresult cn_descriptor_receive(int sock, int *ret_descriptor)
{
	if (!ret_descriptor)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "ret_descriptor is NULL");
	if (!cn_guard_check_write(ret_descriptor, sizeof *ret_descriptor, "ret_descriptor"))
		return CUDA_ERROR_INVALID_VALUE;
	return cn_letter_receive(sock, &kind, NULL, ret_descriptor);
}
