/* SPDX-License-Identifier: MIT */
/*
 * Events between processes, opened by handles of 64 bytes.
 */
#ifndef CN_SHARE_EVENT_SHARED_EVENT_H
#define CN_SHARE_EVENT_SHARED_EVENT_H

#include "share/port/port.h"

struct cn_shared_event;

/*
 * A new event that can be shared. It is counted, because one thread may destroy an event while another is about to
 * record it. With the last reference it is freed here; the other processes go on.
 */
CUresult cn_shared_event_create(struct cn_shared_event **ret_event);
struct cn_shared_event *cn_shared_event_take(struct cn_shared_event *event);
void cn_shared_event_drop(struct cn_shared_event *event); /* NULL is nothing */
/* Fill in a handle by which other processes of this user can open the event while it lives here. */
CUresult cn_shared_event_handle(struct cn_shared_event *event, unsigned char ret_handle[CN_HANDLE_BYTES]);
/*
 * Open an event by its handle. CUDA_ERROR_INVALID_VALUE and the like with a sentence: a handle of nothing, or of an
 * event or a process that is gone.
 */
CUresult cn_shared_event_open(const unsigned char handle[CN_HANDLE_BYTES], struct cn_shared_event **ret_event);
/* Was it created by another process? */
bool cn_shared_event_is_opened(const struct cn_shared_event *event);
/* What is recorded and waited for: see signals in device.h. */
struct cn_signal *cn_shared_event_signal(const struct cn_shared_event *event);

#endif
