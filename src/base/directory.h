/* SPDX-License-Identifier: MIT */
/*
 * Directories in which processes find each other: a user's own, and one for all users.
 */
#ifndef CN_BASE_DIRECTORY_H
#define CN_BASE_DIRECTORY_H

#include "base/error.h"

/*
 * Open (O_PATH) the directory of this user's processes: CENOTE_RUNTIME_DIR, else /run/user/UID/cenote, else
 * /tmp/cenote-UID. Made if missing, with mode 0700; never through a link, never one that another user owns.
 */
CUresult cn_directory_runtime(int *ret_fd);
/*
 * Open this user's folder in the directory for all users, to make names in it: CENOTE_FABRIC_DIR, else
 * /tmp/cenote-fabric. Both are made if missing, with modes 1777 and 0711; never through a link.
 */
CUresult cn_directory_fabric(int *ret_fd);
/*
 * Where names of this user may be, whether these directories exist or not. First this user's folder in the fabric
 * directory; then the runtime directory, or both candidates if none is named.
 */
enum { CN_DIRECTORIES_MAX = 3, CN_DIRECTORY_CHARS_MAX = 4096 + 16 };
CUresult cn_directory_paths(char ret_paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX], unsigned *ret_count);
/*
 * Open one of them to look through it; nothing is made or repaired. Returns NULL, with *ret_fd -1 if there is no
 * directory; or why it was not opened: it belongs to another user, or is a link.
 */
const char *cn_directory_open(const char *path, int *ret_fd);
/*
 * Open another user's folder (O_PATH), to call there. CUDA_ERROR_NOT_FOUND: there is none. Its owner is not
 * checked.
 */
CUresult cn_directory_fabric_of(unsigned user, int *ret_fd);

#endif
