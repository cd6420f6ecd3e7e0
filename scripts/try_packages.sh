#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Install the packages of `make deb` into bare systems, and use them there as a user would.
#
#     try_packages.sh FOLDER [SUITE...]
#
# FOLDER has the packages. SUITE is bookworm, trixie (Debian 12 and 13), noble (Ubuntu 24.04), or another one that
# debootstrap knows; without one, these three. Needs root, debootstrap and the archives. A system is a folder, entered
# with namespaces of its own, and is removed at the end. CENOTE_BARE_SYSTEMS is a folder for the bare systems as
# archives: they are made once, and then taken from there.
set -eu

packages=$(cd "$1" && pwd)
shift
tests=$(cd "$(dirname "$0")/../packaging/debian/tests" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
systems=${CENOTE_BARE_SYSTEMS:-$work}
needed=$(sed -n 's/^Depends: @, //p' "$tests/control" | sed 's/ | [^,]*//g; s/,//g')

# Ubuntu's suites have all one script, which debootstrap knows by the name of an old one.
make_system()
{
	case $1 in
	noble)
		keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
		if [ -e $keys ]; then
			set -- "$1" --keyring=$keys
		else
			echo "no ubuntu-keyring here: the signature of Ubuntu's archive is not checked" >&2
			set -- "$1" --no-check-gpg
		fi
		debootstrap --variant=minbase --components=main,universe "$2" "$1" "$work/system" \
			http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
		;;
	*) debootstrap --variant=minbase "$1" "$work/system" http://deb.debian.org/debian ;;
	esac >"$work/debootstrap.log" 2>&1 || {
		tail -5 "$work/debootstrap.log" >&2
		return 1
	}
	tar -C "$work/system" -cf "$systems/$1.tar.new" .
	mv "$systems/$1.tar.new" "$systems/$1.tar"
	rm -rf "$work/system"
}

try_suite()
{
	tree=$work/tree
	[ -e "$systems/$1.tar" ] || make_system "$1"
	mkdir "$tree"
	tar -C "$tree" -xf "$systems/$1.tar"
	mkdir "$tree/packages"
	cp "$packages"/*.deb "$tests/installed" "$tree/packages"
	rm -f "$tree"/packages/*-dbgsym_*
	cat >"$tree/packages/try" <<END
set -eu
mount -t proc proc /proc
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/packages/log 2>&1 || { cat /packages/log; exit 1; }
apt-get install -y -q --no-install-recommends /packages/*.deb >/packages/log 2>&1 || { cat /packages/log; exit 1; }
ours=\$(for file in /packages/*.deb; do dpkg-deb -f \$file Package; done)
echo "installed: \$(dpkg-query -W -f '\${Package} ' \$ours)"
apt-get install -y -q --no-install-recommends $needed >/packages/log 2>&1 || { cat /packages/log; exit 1; }
runuser -u nobody -- env HOME=/tmp sh /packages/installed
apt-get purge -y -q \$ours >/packages/log 2>&1
! find / -xdev -name '*cenote*' -not -path '/packages/*' -not -path '/var/*' -not -path '/tmp/*' | grep .
END
	unshare --mount --pid --fork chroot "$tree" sh /packages/try
	rm -rf "$tree"
	echo "$1: well"
}

[ $# -gt 0 ] || set -- bookworm trixie noble
for suite in "$@"; do
	try_suite "$suite"
done
