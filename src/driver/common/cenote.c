/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls, beside CUDA's. They need no cuInit().
 */
#include "cenote/cenote.h"

#include "device/device.h"
#include "share/pool/control.h"
#include "share/pool/export.h"
#include "share/wire/letter.h"
#include "share/wire/sweep.h"

_Static_assert(CENOTE_POOL_IMPORTERS_MAX == CN_IMPORTERS_MAX, "as the header says");
_Static_assert(CENOTE_POOL_EXPORTED_BLOCKS_MAX == CN_EXPORT_SLOTS - 1, "as the header says; slot 0 is none");
_Static_assert(CENOTE_POOL_RANGE_BYTES_MAX == (unsigned long long)CN_PART_BYTES * CN_PART_COUNT_MAX, "the same");

CENOTE_API const char *cenote_last_error(void)
{
	return cn_last_error();
}

CENOTE_API CUresult cenote_send_descriptor(int sock, int descriptor)
{
	return cn_letter_send_descriptor(sock, descriptor);
}

CENOTE_API CUresult cenote_recv_descriptor(int sock, int *ret_descriptor)
{
	return cn_letter_receive_descriptor(sock, ret_descriptor);
}

/* ---- Housekeeping ---- */

struct sweeping {
	void (*found)(const cenote_name *name, void *data);
	void *data;
};

static void tell_found(const char *directory, const char *name, bool live, bool removed, void *data)
{
	const struct sweeping *sweeping = data;
	cenote_name found = {.directory = directory, .name = name, .live = live, .removed = removed};

	if (sweeping->found)
		sweeping->found(&found, sweeping->data);
}

CENOTE_API CUresult cenote_sweep(unsigned int flags, void (*found)(const cenote_name *name, void *data), void *data)
{
	struct sweeping sweeping = {.found = found, .data = data};

	if (flags & ~CENOTE_SWEEP_LOOK)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_sweep() flags 0x%x are unknown", flags);
	return cn_sweep(flags & CENOTE_SWEEP_LOOK, tell_found, &sweeping);
}

CENOTE_API const char *cenote_device_kind(void)
{
	return cn_device_ops ? cn_device_ops->name : "";
}

/* ---- For `cenote check`, whose recorder stands in front of these and sees the arguments ---- */

CENOTE_API CUresult cenote_label(CUdeviceptr pointer, const char *label)
{
	(void)pointer;
	(void)label;
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_order_sent(unsigned long long key)
{
	(void)key;
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_order_received(unsigned long long key)
{
	(void)key;
	return CUDA_SUCCESS;
}
