/* SPDX-License-Identifier: MIT */
/*
 * The host device: the machine's own memory and cores behind the device contract.
 */
#include "device/host/host_internal.h"

/* A machine has memory and cores. */
static CUresult probe(void)
{
	return CUDA_SUCCESS;
}

const struct cn_device_ops cn_host_device_ops = {
	.name = "host",
	.use_ends_with_mapping = true,
	.parts_take_long = false,
	.probe = probe,
	.init = cn_host_init,
	.attribute = cn_host_attribute,
	.peers = cn_host_peers,
	.descriptor_is_memory = cn_host_descriptor_is_memory,
	.arena_create = cn_host_arena_create,
	.arena_free = cn_host_arena_free,
	.arena_allow = cn_host_arena_allow,
	.arena_commit = cn_host_arena_commit,
	.arena_decommit = cn_host_arena_decommit,
	.arena_reclaim = cn_host_arena_reclaim,
	.arena_part = cn_host_arena_part,
	.arena_serial = cn_host_arena_serial,
	.arena_watch = cn_host_arena_watch,
	.view_create = cn_host_view_create,
	.view_map = cn_host_view_map,
	.view_unmap = cn_host_view_unmap,
	.view_allow = cn_host_view_allow,
	.view_free = cn_host_view_free,
	.point_now = cn_host_point_now,
	.queue_wait = cn_host_queue_wait,
	.queue_note = cn_host_queue_note,
	.queue_follows = cn_host_queue_follows,
	.queue_rely = cn_host_queue_rely,
	.queue_follow = cn_host_queue_follow,
	.queue_look = cn_host_queue_look,
	.grace_begin = cn_host_grace_begin,
	.grace_is_over = cn_host_grace_is_over,
	.point_waits_outside = cn_host_point_waits_outside,
};
