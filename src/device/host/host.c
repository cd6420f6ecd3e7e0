/* SPDX-License-Identifier: MIT */
/*
 * The host device: the machine's own memory and cores behind the device contract.
 */
#include "device/host/host.h"

const struct cn_device_ops cn_host_device_ops = {
	.name = "host",
	.init = cn_host_init,
	.attribute = cn_host_attribute,
	.peers = cn_host_peers,
	.memory_allocate = cn_host_memory_allocate,
	.memory_free = cn_host_memory_free,
	.host_allocate = cn_host_host_allocate,
	.host_free = cn_host_host_free,
	.queue_open = cn_host_queue_open,
	.queue_close = cn_host_queue_close,
	.queue_drained = cn_host_queue_drained,
	.submit = cn_host_submit,
	.point_now = cn_host_point_now,
	.point_wait = cn_host_point_wait,
	.time_ns = cn_host_time_ns,
};
