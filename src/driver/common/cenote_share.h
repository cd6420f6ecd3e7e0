/* SPDX-License-Identifier: MIT */
/*
 * The part of cenote_pool_stats() about sharing.
 */
#ifndef CN_DRIVER_COMMON_CENOTE_SHARE_H
#define CN_DRIVER_COMMON_CENOTE_SHARE_H

#include "driver/common/mempool.h"

#include "cenote/cenote.h"

/* Fill in what concerns sharing; all 0 for a pool that was never shared. */
void cn_mempool_count_shared(struct cn_mempool *pool, cenote_pool_statistics *statistics);

#endif
