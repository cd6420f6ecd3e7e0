#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What action.yml does: build and install Cenote, and tell the steps that follow where it is.
#
# In: CENOTE_ACTION_PREFIX, _DEVICES, _MEMORY (the inputs); RUNNER_TEMP, GITHUB_ENV, GITHUB_PATH, GITHUB_OUTPUT (the
# runner's folder and files).
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
prefix=${CENOTE_ACTION_PREFIX:-$RUNNER_TEMP/cenote}

# As `make install`, but with the prefix from the start, and without the tests: one build and no more.
build=${RUNNER_TEMP:-/tmp}/cenote-build
"$root/scripts/install_packages.sh" build
meson setup "$build" "$root" -Dprefix="$prefix" -Dlibdir=lib -Dtests=false -Dpython=disabled
ninja -C "$build" product
meson install -C "$build" --quiet --no-rebuild
echo "$prefix/bin" >>"$GITHUB_PATH"
{
	echo "CENOTE_DEVICE=host"
	echo "CENOTE_HOST_DEVICES=$CENOTE_ACTION_DEVICES"
	[ -z "$CENOTE_ACTION_MEMORY" ] || echo "CENOTE_HOST_MEMORY=$CENOTE_ACTION_MEMORY"
	echo "CMAKE_PREFIX_PATH=$prefix${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
	echo "PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
	echo "CUDA_HOME=$prefix/lib/cenote-cuda"
	echo "CUDA_PATH=$prefix/lib/cenote-cuda"
} >>"$GITHUB_ENV"
echo "toolkit=$prefix/lib/cenote-cuda" >>"$GITHUB_OUTPUT"
CENOTE_DEVICE=host "$prefix/bin/cenote" --version
