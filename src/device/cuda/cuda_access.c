/* SPDX-License-Identifier: MIT */
/*
 * Access rights to mapped memory. The driver takes a list of all devices whose rights change, and a call costs more
 * than what it does: so one call for as much memory as possible.
 */
#include "device/cuda/cuda_internal.h"

/* Rights for `users`, none for those of `before` that are not in `users`. */
static size_t describe(CUmemLocation location, struct cn_users before, struct cn_users users,
		       CUmemAccessDesc descriptions[CN_DEVICE_MAX + 1])
{
	size_t count = 0;

	for (int i = 0; i < cn_cuda_device_count; i++) {
		bool allowed = users.devices >> i & 1;
		if (allowed || before.devices >> i & 1)
			descriptions[count++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
				.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
			};
	}
	if (users.host || before.host)
		descriptions[count++] = (CUmemAccessDesc){
			.location = location,
			.flags = users.host ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
		};
	return count;
}

CUresult cn_cuda_allow(struct cn_cuda_span span, CUmemLocation location, struct cn_users before, struct cn_users users)
{
	CUmemAccessDesc descriptions[CN_DEVICE_MAX + 1];
	size_t count = describe(location, before, users, descriptions);
	CUresult result = count ? cn_cuda.cuMemSetAccess(span.start, span.bytes, descriptions, count) : CUDA_SUCCESS;

	if (!result)
		return CUDA_SUCCESS;
	count = describe(location, users, before, descriptions); /* as it was, if it was changed in part */
	if (count)
		cn_cuda.cuMemSetAccess(span.start, span.bytes, descriptions, count);
	return cn_error(result, "the driver refuses rights to a pool's memory: %s",
			cn_result_text(result) ? cn_result_text(result) : "it does not say why");
}
