#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Debian packages of the last commit, for the system on which this runs.
#
#     make_deb.sh FOLDER
#
# The packaging (packaging/debian) is the folder debian/ of the archive that `make dist` makes; the changelog, which
# must have the version, is written here. The same commit on the same system gives the same bytes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
archive=$("$root/scripts/make_dist.sh" "$1")
folder=$(dirname "$archive")
cd "$root"
version=$(scripts/version.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$archive" "$work/cenote_$version.orig.tar.gz"
tar -xzf "$work/cenote_$version.orig.tar.gz" -C "$work"
cp -R "$work/cenote-$version/packaging/debian" "$work/cenote-$version/debian"
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
date=$(LC_ALL=C git log -1 --format=%cd --date=rfc)
cat >"$work/cenote-$version/debian/changelog" <<END
cenote ($version-1) unstable; urgency=medium

  * Release $version. CHANGELOG.md says what is new.

 -- $maintainer  $date
END
cd "$work/cenote-$version"
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -STimestamp) DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" \
	dpkg-buildpackage -us -uc ${DEB_FLAGS:--F} >"$folder/deb.log" 2>&1 || {
	tail -30 "$folder/deb.log" >&2
	exit 1
}
cd "$work"
rm -f "$folder"/*.deb "$folder"/cenote_*
cp ./*.deb ./*.dsc ./*.changes ./*.buildinfo ./*.tar.* "$folder"
if command -v lintian >/dev/null 2>&1; then
	# It closes no wish for a package in Debian's list of bugs: it is not sent there.
	lintian --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning \
		"$folder"/cenote_"$version"-1_*.changes
fi
ls "$folder"/*.deb
