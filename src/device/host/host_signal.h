/* SPDX-License-Identifier: MIT */
/*
 * Signals: what events between processes are built on. On a GPU the driver has its own, so these are no part of the
 * device contract; driver/host and share/event call them.
 *
 * A signal is recorded and waited for in any number of processes; a record is a number, done when its queue reaches it.
 * A wait is for the latest record at the time of the call, and no later record releases it. `recorder` identifies this
 * process among those that share the signal: 0 in the one that created it. A signal lives until it is freed here and
 * nothing of ours is pending on it.
 */
#ifndef CN_DEVICE_HOST_HOST_SIGNAL_H
#define CN_DEVICE_HOST_HOST_SIGNAL_H

#include "device/device.h"

#define CN_RECORDER_ALL_OTHERS UINT32_MAX

struct cn_signal;
struct cn_host_queue;

CUresult cn_host_signal_create(struct cn_signal **ret_signal);
CUresult cn_host_signal_export(struct cn_signal *signal, int *ret_fd);
/* What is not a signal is refused with CUDA_ERROR_INVALID_VALUE; `fd` stays the caller's. */
CUresult cn_host_signal_import(int fd, uint32_t recorder, struct cn_signal **ret_signal);
void cn_host_signal_free(struct cn_signal *signal);

CUresult cn_host_signal_record(struct cn_signal *signal, struct cn_host_queue *queue, uint64_t owner);
/* These, and a queue that waits: CUDA_ERROR_EXTERNAL_DEVICE if the recorder died before the record was done. */
CUresult cn_host_signal_wait(struct cn_signal *signal, struct cn_host_queue *queue, uint64_t owner);
CUresult cn_host_signal_query(struct cn_signal *signal); /* CUDA_ERROR_NOT_READY: the latest record is pending */
CUresult cn_host_signal_sync(struct cn_signal *signal);  /* sleeps for it */
/*
 * This recorder has died; its pending records never will be done. CN_RECORDER_ALL_OTHERS: from now on this process
 * would not hear of a death; to it, all that other recorders have not done is dead, now and later.
 */
void cn_host_signal_bury(struct cn_signal *signal, uint32_t recorder);
/*
 * Records that are pending in this process's name but that it has not made are another process's lie: they never will
 * be done. `others`, unless NULL: nor will those of recorders that are not in this list, which is sorted.
 */
void cn_host_signal_disown(struct cn_signal *signal, const uint32_t *others, size_t other_count);
/* Is a record or a wait of this process not over yet? */
bool cn_host_signal_busy(struct cn_signal *signal);

#endif
