#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes sure that what a make target needs is there, and installs what is not (Debian, Ubuntu).
#
#     install_packages.sh build     a compiler and Meson
#     install_packages.sh test      and what `make test` uses beyond these
#
# Nothing is done when nothing is missing. As root apt-get is called directly, else through sudo; where neither works
# the line to type is printed. With NO_INSTALL=1 nothing is installed: for `build` that is an error, for `test` the
# checks whose tools are missing are skipped.
set -eu

level=${1:-build}
missing=

have()
{
	command -v "$1" >/dev/null 2>&1
}

# want PACKAGE... : one of these packages (the first that the system knows) is missing.
want()
{
	missing="$missing $(echo "$@" | tr ' ' '|')"
}

can_compile()
{
	printf '#include <stdio.h>\nint main(void) { return 0; }\n' | ${1:-cc} -x "$2" - -o /dev/null 2>/dev/null
}

check_build()
{
	if ! can_compile "${CC:-cc}" c; then
		have "${CC:-cc}" || want gcc
		[ -e /usr/include/stdio.h ] || want libc6-dev
	fi
	have meson || want meson
	have ninja || want ninja-build
}

# Which version of the clang tools decides is said in run_tests.py; another one leads to a skip there.
check_test()
{
	can_compile "${CXX:-c++}" c++ || want g++
	for tool in clang-format clang-tidy; do
		have $tool-14 || $tool --version 2>/dev/null | grep -q 'version 14\.' || want $tool-14 $tool
	done
	have cppcheck || want cppcheck
	have pkg-config || want pkg-config
	have cmake || want cmake
	have spin || want spin
}

# The first package of each alternative "a|b" that apt can install. One that is installed already needs nothing.
choose()
{
	for alternatives in $missing; do
		for package in $(echo "$alternatives" | tr '|' ' '); do
			if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then
				dpkg -s "$package" >/dev/null 2>&1 || echo "$package"
				continue 2
			fi
		done
		echo "$alternatives" | cut -d '|' -f 1
	done
}

apt()
{
	# shellcheck disable=SC2086 # $become is a word or nothing
	$become env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@"
}

check_build
[ "$level" = build ] || check_test
[ -n "$missing" ] || exit 0

names=$(for alternatives in $missing; do echo "$alternatives" | cut -d '|' -f 1; done | tr '\n' ' ')
if [ "${NO_INSTALL:-0}" = 1 ]; then
	echo "Not installed, since NO_INSTALL=1: $names"
	check=$missing
	missing=
	check_build
	[ -z "$missing" ] || { echo "Without$missing nothing can be built." >&2; exit 1; }
	missing=$check
	exit 0
fi
if ! have apt-get; then
	echo "Missing, and there is no apt-get here to install it (names as in Debian): $names" >&2
	exit 1
fi

packages=$(choose)
[ -n "$packages" ] || exit 0 # another version of a tool is all that this system has

become=
if [ "$(id -u)" != 0 ]; then
	if have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		become=sudo
	else
		echo "Some packages are missing. Please type, and then start again:" >&2
		# shellcheck disable=SC2086 # one line
		echo "    sudo apt-get install" $packages >&2
		exit 1
	fi
fi

ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || apt update
packages=$(choose)
[ -n "$packages" ] || exit 0
# shellcheck disable=SC2086 # one line
echo "Installing:" $packages
# The lists may be older than what the mirrors still have.
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends $packages || { apt update && apt install --no-install-recommends $packages; }
