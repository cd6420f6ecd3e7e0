/* SPDX-License-Identifier: MIT */
/*
 * What a pool's descriptor says by itself.
 *
 * An import needs two facts: where the pool is (type and id). With a third, how large its range of addresses is, an
 * importer makes its own range while it waits for the exporter's first answer. The exporter leaves them in the
 * modification time of the socket that the descriptor leads to. A file's owner may set it, and a process that has the
 * descriptor reads it with statx(). So a pool can be imported without asking its exporter. Not all file systems keep
 * such a time whole, and it need not be trusted: an importer that finds no mark asks the exporter, and compares when it
 * joins later.
 */
#ifndef CN_SHARE_POOL_POOL_LOCATION_H
#define CN_SHARE_POOL_POOL_LOCATION_H

#include "share/pool/export.h"

#include <sys/stat.h>

/* Leave the mark where an O_PATH descriptor leads to. What does not fit, or is not allowed, is left out. */
void cn_location_write(int path_fd, const struct cn_export_facts *facts);
/* Read it: location_type, location_id and range_bytes; the other facts are 0. False: there is none. */
bool cn_location_read(const struct statx *status, struct cn_export_facts *ret_facts);

#endif
