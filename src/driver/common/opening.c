/* SPDX-License-Identifier: MIT */
/*
 * The memory of a kept object that this process has open: see opening.h.
 *
 * This code calls CUDA's functions as a program does: on a GPU they are the driver's.
 */
#include "driver/common/opening.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM_MS_MAX = 2000, PAUSE_MS = 5 }; /* for memory of caches that were retired */

_Static_assert(CN_KEPT_GRAIN_BYTES % CN_GRANULARITY_BYTES == 0, "a part is whole granules");

/* ---- Devices ---- */

static bool is_on_gpu(const struct cn_opening *opening)
{
	return opening->facts.device == CN_KEPT_ON_GPU;
}

CUresult cn_opening_find_device(struct cn_opening *opening)
{
	bool here_on_gpu = cn_device_ops != &cn_host_device_ops;
	CUuuid uuid;

	if (is_on_gpu(opening) != here_on_gpu)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the object %s is memory of a %s, and this process uses a %s",
				opening->facts.name, here_on_gpu ? "host device" : "GPU",
				here_on_gpu ? "GPU" : "host device");
	for (int i = 0; i < cn_devices_count; i++) {
		bool found = here_on_gpu ? !cuDeviceGetUuid(&uuid, i) &&
						   !memcmp(uuid.bytes, opening->facts.uuid, sizeof uuid.bytes)
					 : cn_devices[i].physical == (int)opening->facts.location;
		if (found) {
			opening->device = i;
			return CUDA_SUCCESS;
		}
	}
	return cn_error(CUDA_ERROR_INVALID_DEVICE, "the object %s is on a device that this process does not see",
			opening->facts.name);
}

/* ---- Mapping ---- */

/* A GPU's driver has no sentences: say what it would not do. */
static CUresult explain(const struct cn_opening *opening, unsigned part, const char *what, CUresult result)
{
	if (!result || !is_on_gpu(opening))
		return result;
	return cn_error(result, "the GPU's driver does not %s part %u of the object %s", what, part,
			opening->facts.name);
}

static size_t mapped_bytes(const struct cn_opening *opening, unsigned part)
{
	return (size_t)cn_kept_round(opening->facts.part_bytes[part]);
}

static CUresult allow(const struct cn_opening *opening, unsigned part, bool writable)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = opening->device},
		.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ,
	};
	CUresult result = cuMemSetAccess(opening->addresses[part], mapped_bytes(opening, part), &access, 1);

	if (!result || writable || !is_on_gpu(opening))
		return result;
	/* A GPU that has no read-only mappings. */
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return cuMemSetAccess(opening->addresses[part], mapped_bytes(opening, part), &access, 1);
}

/* Map memory at a part's addresses, which are reserved if it has none. The handle stays the caller's. */
static CUresult map_handle(struct cn_opening *opening, unsigned part, CUmemGenericAllocationHandle handle,
			   bool writable)
{
	size_t bytes = mapped_bytes(opening, part);
	CUresult result = CUDA_SUCCESS;

	if (!opening->addresses[part])
		result = cuMemAddressReserve(&opening->addresses[part], bytes, 0, 0, 0);
	if (!result)
		result = cuMemMap(opening->addresses[part], bytes, 0, handle, 0);
	if (result)
		return result;
	opening->is_mapped[part] = true;
	return allow(opening, part, writable);
}

CUresult cn_opening_map(struct cn_opening *opening, const int *fds, bool writable)
{
	for (unsigned i = 0; i < opening->facts.part_count; i++) {
		CUmemGenericAllocationHandle handle;
		CUresult result = cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fds[i],
								 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		result = explain(opening, i, "take for memory", result);
		if (!result) {
			result = explain(opening, i, "map", map_handle(opening, i, handle, writable));
			cuMemRelease(handle); /* the mapping keeps it */
		}
		if (result) {
			cn_opening_unmap(opening);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

void cn_opening_unmap(struct cn_opening *opening)
{
	for (unsigned i = 0; i < opening->facts.part_count; i++) {
		if (opening->is_mapped[i])
			cuMemUnmap(opening->addresses[i], mapped_bytes(opening, i));
		opening->is_mapped[i] = false;
	}
}

void cn_opening_protect(struct cn_opening *opening)
{
	for (unsigned i = 0; i < opening->facts.part_count; i++)
		allow(opening, i, false);
}

void cn_opening_close(struct cn_opening *opening)
{
	cn_opening_unmap(opening);
	for (unsigned i = 0; i < opening->facts.part_count; i++) {
		if (opening->addresses[i])
			cuMemAddressFree(opening->addresses[i], mapped_bytes(opening, i));
		opening->addresses[i] = 0;
		if (opening->fds[i] >= 0)
			close(opening->fds[i]);
		opening->fds[i] = -1;
	}
	free(opening->description);
	opening->description = NULL;
}

/* ---- Making and sealing ---- */

/* Have the daemon retire this user's caches on the GPU. Returns how many bytes come free, soon; 0: none. */
static uint64_t ask_for_room(const struct cn_opening *opening, size_t bytes)
{
	struct cn_kept_parcel reply, request = {.message = {.kind = CN_KEPT_ROOM, .numbers = {bytes}}};

	memcpy(request.message.uuid, opening->facts.uuid, sizeof request.message.uuid);
	cn_error_hush(true);
	CUresult result = cn_kept_ask(&request, &reply);
	cn_error_hush(false);
	if (result)
		return 0;
	cn_kept_discard(&reply);
	return reply.message.numbers[0];
}

/*
 * cuMemCreate(). If the GPU's memory is used up, the user's caches give way. What was retired is free when the daemon,
 * and the manager that keeps its descriptors, have closed it: a moment later.
 */
static CUresult create_memory(const struct cn_opening *opening, size_t bytes, const CUmemAllocationProp *properties,
			      CUmemGenericAllocationHandle *ret_handle)
{
	CUresult result = cuMemCreate(ret_handle, bytes, properties, 0);

	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	size_t total = 0;
	cuDeviceTotalMem(&total, opening->device);
	bool comes = bytes <= total && ask_for_room(opening, bytes);
	uint64_t deadline_ns = cn_clock_ns() + ROOM_MS_MAX * CN_MILLISECOND_NS;
	while (comes && result == CUDA_ERROR_OUT_OF_MEMORY && cn_clock_ns() < deadline_ns) {
		poll(NULL, 0, PAUSE_MS);
		result = cuMemCreate(ret_handle, bytes, properties, 0);
	}
	return result == CUDA_ERROR_OUT_OF_MEMORY
		       ? cn_error(result,
				  "the GPU has no %zu bytes left for the object %s, and no cache of this user's "
				  "that can give way",
				  bytes, opening->facts.name)
		       : result;
}

/* One part: its memory, mapped, and the descriptor by which the daemon keeps it. */
static CUresult make_part(struct cn_opening *opening, unsigned part, struct cn_kept_parcel *request)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = opening->device},
	};
	CUmemGenericAllocationHandle handle;
	int fd = -1;
	CUresult result = create_memory(opening, mapped_bytes(opening, part), &properties, &handle);

	if (result)
		return result;
	result = map_handle(opening, part, handle, true);
	if (!result)
		result = cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (fd < 0)
		result = explain(opening, part, "map and export", result);
	cuMemRelease(handle);
	if (fd >= 0)
		request->descriptors[request->descriptor_count++] = fd;
	return result ? result : cuMemsetD8(opening->addresses[part], 0, mapped_bytes(opening, part));
}

CUresult cn_opening_make(struct cn_opening *opening, struct cn_kept_parcel *request)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < opening->facts.part_count && !result; i++)
		result = make_part(opening, i, request);
	CUresult filled = cuCtxSynchronize(); /* in any case: what is being filled must not be unmapped */
	return result ? result : filled;
}

/* It may take long where pages are pinned, which is why the writer does it and not the daemon. */
CUresult cn_opening_seal(struct cn_opening *opening)
{
	cn_might_wait();
	for (unsigned i = 0; i < opening->facts.part_count; i++) {
		if (!opening->is_sealed[i] && fcntl(opening->fds[i], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL))
			return errno == EBUSY
				       ? cn_error(CUDA_ERROR_ILLEGAL_STATE,
						  "the object %s cannot be sealed: its memory is mapped a second time, "
						  "by this process or by a child that it forked",
						  opening->facts.name)
				       : cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the object %s cannot be sealed: %s",
						  opening->facts.name, strerror(errno));
		opening->is_sealed[i] = true;
	}
	return CUDA_SUCCESS;
}

/* ---- The description ---- */

/* The writer is not trusted: the file cannot change, its sizes must agree, and labels end. */
CUresult cn_opening_read_description(struct cn_opening *opening, int fd)
{
	struct cn_kept_description *description = NULL;
	size_t bytes = 0;
	bool read_all = cn_kept_is_sealed(fd, CN_KEPT_DESCRIPTION_BYTES_MAX, &bytes) && bytes >= sizeof *description &&
			(description = malloc(bytes)) && pread(fd, description, bytes, 0) == (ssize_t)bytes;

	if (!read_all || description->magic != CN_KEPT_DESCRIPTION_MAGIC ||
	    description->part_count != opening->facts.part_count ||
	    description->blob_bytes != bytes - sizeof *description) {
		free(description);
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the description of the object %s is damaged",
				opening->facts.name);
	}
	for (unsigned i = 0; i < CN_KEPT_PARTS_MAX; i++)
		description->labels[i][CN_KEPT_LABEL_BYTES - 1] = 0;
	opening->description = description;
	return CUDA_SUCCESS;
}
