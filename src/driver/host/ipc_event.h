/* SPDX-License-Identifier: MIT */
/*
 * Events between processes, as event.c knows them.
 *
 * An event with CU_EVENT_INTERPROCESS has a shared event instead of a point: it is recorded and waited for through a
 * signal that other processes may share.
 */
#ifndef CN_DRIVER_HOST_IPC_EVENT_H
#define CN_DRIVER_HOST_IPC_EVENT_H

#include "driver/host/objects.h"
#include "share/event/shared_event.h"

/* These drop the event as well. Called without a lock. */
CUresult cn_ipc_event_record(struct cn_shared_event *shared, const struct cn_place *place);
CUresult cn_ipc_event_wait(struct cn_shared_event *shared, const struct cn_place *place);
CUresult cn_ipc_event_query(struct cn_shared_event *shared);
CUresult cn_ipc_event_synchronize(struct cn_shared_event *shared);

/* event.c: the live event of a handle, locked; and a new event, which takes over `shared`. */
CUresult cn_event_lock(CUevent handle, struct cn_event **ret_event);
CUresult cn_event_make(const struct cn_home *home, unsigned int flags, struct cn_shared_event *shared,
		       CUevent *ret_event);

#endif
