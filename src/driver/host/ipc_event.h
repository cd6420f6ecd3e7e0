/* SPDX-License-Identifier: MIT */
/*
 * Events between processes, as event.c knows them.
 *
 * An event with CU_EVENT_INTERPROCESS has one of these instead of a point: it is recorded and waited for through a
 * signal that other processes may share. It is counted, because one thread may destroy the event while another is about
 * to record it.
 */
#ifndef CN_DRIVER_HOST_IPC_EVENT_H
#define CN_DRIVER_HOST_IPC_EVENT_H

#include "driver/host/objects.h"

struct cn_ipc_event;

CUresult cn_ipc_event_make(struct cn_ipc_event **ret_ipc);
/* One more who uses it; the event is locked. */
struct cn_ipc_event *cn_ipc_event_take(struct cn_ipc_event *ipc);
void cn_ipc_event_drop(struct cn_ipc_event *ipc); /* NULL is nothing */

/* These drop it as well. No lock is held. */
CUresult cn_ipc_event_record(struct cn_ipc_event *ipc, const struct cn_place *place);
CUresult cn_ipc_event_wait(struct cn_ipc_event *ipc, const struct cn_place *place);
CUresult cn_ipc_event_query(struct cn_ipc_event *ipc);
CUresult cn_ipc_event_synchronize(struct cn_ipc_event *ipc);

/* event.c: the living event of a handle, locked; and a new one over `ipc`, which is its own from then on. */
CUresult cn_event_lock(CUevent handle, struct cn_event **ret_event);
CUresult cn_event_make(const struct cn_home *home, unsigned int flags, struct cn_ipc_event *ipc, CUevent *ret_event);

#endif
