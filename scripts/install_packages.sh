#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes sure that what a make target needs is there, and installs what is not (Debian, Ubuntu).
#
#     install_packages.sh build     a compiler and Meson
#     install_packages.sh test      and what `make test` uses beyond these
#     install_packages.sh python    what `make install PYTHON=1` builds with beyond a compiler and Meson
#     install_packages.sh deb       what `make deb` uses
#     install_packages.sh fuzz      what `make fuzz` uses beyond what builds
#     install_packages.sh bench     and what `make bench` compares with: without it, it compares with less
#
# Nothing is done when nothing is missing. As root apt-get is called directly, else through sudo; where neither works
# the line to type is printed. With NO_INSTALL=1 nothing is installed: for `build` that is an error, for `test` the
# checks whose tools are missing are skipped. What `bench` cannot have is never an error.
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
	have clang || want clang clang-14 # for `cenote cc`
	have cppcheck || want cppcheck
	have pkg-config || want pkg-config
	have cmake || want cmake
	have spin || want spin
	have mandoc || want mandoc
	have zsh || want zsh
	pkg-config --exists gnutls 2>/dev/null || want libgnutls28-dev # for cenote-imexd
	pkg-config --exists ucx 2>/dev/null || want libucx-dev         # for cenote-imexd-ucx
	have ip || want iproute2                                       # for nodes on one machine
	have ccache || want ccache # Meson uses it by itself
	have python3-dbg || want python3-dbg # it counts references
	check_python
	modules="numpy pytest"
	case ${CI:-0} in
	0 | false) ;;
	*) modules="$modules torch" ;; # 800 MB: elsewhere its tests are skipped if it is missing
	esac
	for module in $modules; do
		/usr/bin/python3 -c "import $module" 2>/dev/null || want python3-$module
	done
}

# What the Python package is built with; Meson's own Python is the system's.
check_python()
{
	/usr/bin/python3 -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || want python3-dev
}

# The tools of Debian's own packages, and one that looks at the result.
check_deb()
{
	check_python
	have dh || want debhelper
	[ -e /usr/share/perl5/Debian/Debhelper/Sequence/python3.pm ] || want dh-python
	for package in libgnutls28-dev libpython3-dev; do
		dpkg -s $package >/dev/null 2>&1 || want $package
	done
	have pkg-config || want pkg-config
	have lintian || want lintian
}

# UCX is found when the programs are built, the allocators when they run.
check_bench()
{
	for library in mimalloc:libmimalloc2.0 jemalloc:libjemalloc2; do
		/sbin/ldconfig -p 2>/dev/null | grep -q "lib${library%%:*}\.so\.2" || want "${library##*:}"
	done
	have pkg-config || want pkg-config
	[ -e /usr/include/ucp/api/ucp.h ] || want libucx-dev
	have valgrind || want valgrind
}

# clang, and the libraries that -fsanitize=fuzzer,address links with.
check_fuzz()
{
	printf 'int LLVMFuzzerTestOneInput(const void *bytes, unsigned long size) { return bytes && !size && 0; }\n' |
		clang -x c - -o /dev/null -fsanitize=fuzzer,address,undefined 2>/dev/null && return
	have clang || want clang clang-14
	want libclang-rt-14-dev libclang-rt-dev
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
case $level in
test) check_test ;;
python) check_python ;;
deb) check_deb ;;
fuzz) check_fuzz ;;
bench)
	# What it takes to build must be there; of the rest, what can be had.
	[ -n "$missing" ] || trap 'status=$?; [ $status = 0 ] || echo "Measuring without these."; exit 0' EXIT
	check_bench
	;;
esac
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
