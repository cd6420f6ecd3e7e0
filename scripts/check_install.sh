#!/bin/sh
# SPDX-License-Identifier: MIT
#
# May this user install there? One sentence if not, before anything is built or written.
#
#     check_install.sh LIBDIR PREFIX
set -eu

libdir=$1
prefix=$2

for folder in bin include share "$libdir"; do
	place=$prefix/$folder
	while [ ! -e "$place" ]; do
		place=$(dirname "$place")
	done
	if [ ! -w "$place" ]; then
		echo "make install: this user may not write to $place:" \
			"use sudo, or install elsewhere with PREFIX=\$HOME/.local" >&2
		exit 1
	fi
done
