#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Shows what was built: each line is printed before it is run, and can be typed. First programs that share memory in
# the other ways, then the pool, as a picture.
#
#     demo.sh BUILD_DIRECTORY
set -eu

show()
{
	printf '\n$ %s\n' "$*"
	"$@"
}

show "$1/examples/shareable_allocation"
show "$1/examples/legacy_ipc"

# Fabric handles need a channel, which only root can make for a GPU.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
show export CENOTE_IMEX_DIR="$folder/channels"
show "$1/bin/cenote" imex create 0
show env CENOTE_DEVICE=host "$1/examples/fabric"
unset CENOTE_IMEX_DIR

show "$1/bin/cenote" demo

cat <<END

What to try next:
  $1/bin/cenote info               what can be shared here, and what is missing for the rest
  $1/bin/cenote demo --svg FILE    the picture as a drawing
  $1/bin/cenote run PROGRAM        a program that was built for NVIDIA's libraries
  $1/bin/cenote help               the rest
  $1/examples/                     whole programs; share_a_pool and share_allocations do what the picture shows
END
