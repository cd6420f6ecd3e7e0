/* SPDX-License-Identifier: MIT */
/*
 * An opening: a kept object that this process has open, with its memory at addresses of this process.
 *
 * The memory is imported and mapped by CUDA's own calls, as a program would do it, so all of this is the same on both
 * devices. What differs is where memory comes from: the host device's is made by the daemon, which can so keep others
 * from writing it; a GPU's is made here, and its descriptor handed over.
 */
#ifndef CN_DRIVER_COMMON_OPENING_H
#define CN_DRIVER_COMMON_OPENING_H

#include "driver/common/driver.h"
#include "share/kept/kept_ask.h"

#include "cenote/cenote.h"

struct cn_opening {
	struct cn_object object; /* first */
	CN_SLOW_LOCK(OPENING) lock;
	struct cn_kept_message facts; /* as the daemon said them */
	CUdevice device;
	bool writes;
	CUdeviceptr addresses[CN_KEPT_PARTS_MAX]; /* 0: none are reserved */
	bool is_mapped[CN_KEPT_PARTS_MAX];
	bool is_sealed[CN_KEPT_PARTS_MAX];
	int fds[CN_KEPT_PARTS_MAX];              /* of a writer on the host device, to seal; else -1 */
	struct cn_kept_description *description; /* a copy that nobody changes; NULL: there is none */
};

/* Which device of this process the memory is on. */
CUresult cn_opening_find_device(struct cn_opening *opening);
/* On a GPU: make the memory, map it for writing, and put its descriptors into the request. */
CUresult cn_opening_make(struct cn_opening *opening, struct cn_kept_parcel *request);
/* Map all parts by descriptors, at their addresses if they have some. On failure none is mapped. */
CUresult cn_opening_map(struct cn_opening *opening, const int *fds, bool writable);
/* Take the memory away from the addresses. */
void cn_opening_unmap(struct cn_opening *opening);
/* On a GPU, where mappings stay: only for reading from now on. */
void cn_opening_protect(struct cn_opening *opening);
/* The same, and give up addresses, descriptors and the description. */
void cn_opening_close(struct cn_opening *opening);
/* No process can write the memory from now on. CUDA_ERROR_ILLEGAL_STATE: it is mapped somewhere. */
CUresult cn_opening_seal(struct cn_opening *opening);
/* Copy a description out of the file that came with a reply. */
CUresult cn_opening_read_description(struct cn_opening *opening, int fd);

/* What a message of the daemon's says of an object, in the words of cenote.h. It points into the message. */
void cn_opening_tell(const struct cn_kept_message *message, cenote_kept_object *ret_object);

#endif
