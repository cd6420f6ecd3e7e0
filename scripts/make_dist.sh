#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The sources of the last commit as one archive, and beside it what is in it, as an SPDX document.
#
#     make_dist.sh FOLDER
#
# The same commit gives the same bytes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$root"
version=$(scripts/version.sh)
archive=$folder/cenote-$version.tar.gz
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
	echo "make dist: changes that are not committed are left out" >&2
fi
git archive --format=tar --prefix="cenote-$version/" HEAD | gzip -9n >"$archive.new"
mv "$archive.new" "$archive"
scripts/sbom.py "$archive" "$version" "$(git log -1 --format=%ct)" >"$folder/cenote-$version.spdx.json"
echo "$archive"
