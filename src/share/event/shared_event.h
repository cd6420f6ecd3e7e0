/* SPDX-License-Identifier: MIT */
/*
 * Events between processes, opened by handles of 64 bytes.
 */
#ifndef CN_SHARE_EVENT_SHARED_EVENT_H
#define CN_SHARE_EVENT_SHARED_EVENT_H

#include "share/port/port.h"

struct cn_shared_event;

/*
 * Create an event that can be shared. Events are reference-counted, because one thread may destroy an event while
 * another is about to record it. The last drop frees it here; other processes keep what they have.
 */
CUresult cn_shared_event_create(struct cn_shared_event **ret_event);
struct cn_shared_event *cn_shared_event_take(struct cn_shared_event *event);
void cn_shared_event_drop(struct cn_shared_event *event); /* NULL does nothing */
/* Fill in a handle by which other processes of this user can open the event while it exists here. */
CUresult cn_shared_event_handle(struct cn_shared_event *event, unsigned char ret_handle[CN_HANDLE_BYTES]);
/*
 * Open an event by its handle. CUDA_ERROR_MAP_FAILED: the bytes are no event handle, or the event or its process is
 * gone; CUDA_ERROR_INVALID_CONTEXT: the event is this process's own. The sentence says which.
 */
CUresult cn_shared_event_open(const unsigned char handle[CN_HANDLE_BYTES], struct cn_shared_event **ret_event);
/* Was it created by another process? */
bool cn_shared_event_is_opened(const struct cn_shared_event *event);
/* The signal that is recorded and waited for: see signals in device.h. */
struct cn_signal *cn_shared_event_signal(const struct cn_shared_event *event);

#endif
