#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Print Cenote's version, which include/cenote/cenote.h defines.
header=$(dirname "$0")/../include/cenote/cenote.h
sed -n 's/^#define CENOTE_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$header" | paste -s -d . -
