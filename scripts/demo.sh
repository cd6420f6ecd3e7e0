#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Shows what was built: each line is printed before it is run, and can be typed.
#
#     demo.sh BUILD_DIRECTORY
set -eu

show()
{
	printf '\n$ %s\n' "$*"
	"$@"
}

show "$1/bin/cenote" info
for example in share_a_pool share_allocations legacy_ipc hello shareable_allocation; do
	show "$1/examples/$example"
done
