/* SPDX-License-Identifier: MIT */
/*
 * What a pool's descriptor says by itself.
 *
 * The exporter leaves the two facts that an import cannot do without, where the pool is, in the time of last change of
 * the socket that the descriptor leads to: a file's owner may set it, and whoever has the descriptor reads it with
 * statx(). So a pool can be imported without a word to its exporter. Not all file systems keep such a time whole, and
 * nobody has to believe it: who finds no mark asks the exporter, and who joins it later compares.
 */
#ifndef CN_SHARE_POOL_POOL_LOCATION_H
#define CN_SHARE_POOL_POOL_LOCATION_H

#include "share/pool/export.h"

#include <sys/stat.h>

/* Leave the mark where an O_PATH descriptor leads to. What does not fit, or is not allowed, is left out. */
void cn_location_write(int path_fd, const struct cn_export_facts *facts);
/* Read it: location_type and location_id; the other facts are 0. False: there is none. */
bool cn_location_read(const struct statx *status, struct cn_export_facts *ret_facts);

#endif
