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
	.physical_create = cn_host_physical_create,
	.physical_free = cn_host_physical_free,
	.physical_export = cn_host_physical_export,
	.physical_import = cn_host_physical_import,
	.physical_facts = cn_host_physical_facts,
	.has_node = cn_host_has_node,
	.range_reserve = cn_host_range_reserve,
	.range_free = cn_host_range_free,
	.range_map = cn_host_range_map,
	.range_unmap = cn_host_range_unmap,
	.range_protect = cn_host_range_protect,
	.arena_create = cn_host_arena_create,
	.arena_free = cn_host_arena_free,
	.arena_commit = cn_host_arena_commit,
	.arena_decommit = cn_host_arena_decommit,
	.queue_open = cn_host_queue_open,
	.queue_close = cn_host_queue_close,
	.queue_drained = cn_host_queue_drained,
	.submit = cn_host_submit,
	.point_now = cn_host_point_now,
	.point_wait = cn_host_point_wait,
	.queue_follows = cn_host_queue_follows,
	.time_ns = cn_host_time_ns,
};
