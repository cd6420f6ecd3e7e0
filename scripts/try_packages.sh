#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Install the packages of `make deb` into a bare system, and use them there as a user would.
#
#     try_packages.sh FOLDER SUITE [MIRROR]
#
# FOLDER has the packages, SUITE is one that debootstrap knows, such as bookworm or trixie. Needs root, debootstrap and
# the mirror. The system is a folder of its own, entered with namespaces of its own, and is removed at the end.
set -eu

packages=$(cd "$1" && pwd)
suite=$2
mirror=${3:-http://deb.debian.org/debian}
tests=$(cd "$(dirname "$0")/../packaging/debian/tests" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

debootstrap --variant=minbase "$suite" "$tree" "$mirror" >/dev/null
mkdir "$tree/packages"
cp "$packages"/*.deb "$tree/packages"
rm -f "$tree"/packages/*-dbgsym_*
cp "$tests/installed" "$tree/packages"
needed=$(sed -n 's/^Depends: @, //p' "$tests/control" | sed 's/ | [^,]*//g; s/,//g')
cat >"$tree/packages/try" <<END
set -eu
mount -t proc proc /proc
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends /packages/*.deb >/packages/log 2>&1 || { cat /packages/log; exit 1; }
ours='cenote cenoted cenote-imexd cenote-dropin libcenote1 libcenote-dev python3-cenote'
echo "installed: \$(dpkg-query -W -f '\${Package} ' \$ours)"
apt-get install -y -q --no-install-recommends $needed >/packages/log 2>&1 || { cat /packages/log; exit 1; }
runuser -u nobody -- env HOME=/tmp sh /packages/installed
apt-get purge -y -q \$ours >/packages/log 2>&1
! find / -xdev -name '*cenote*' -not -path '/packages/*' -not -path '/var/*' -not -path '/tmp/*' | grep .
END
unshare --mount --pid --fork chroot "$tree" sh /packages/try
