#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Copies what was built to lib/, lib/dropin/ and bin/ of the build directory (see meson.build), and links include/.
#
#     stage.sh STAMP FILE...
set -eu

stamp=$1
shift
here=$(dirname "$stamp")
mkdir -p "$here/lib/dropin" "$here/bin" "$here/include"
# The headers, for `cenote cc`.
ln -sfn "$(cd "$(dirname "$0")/../include/cenote" && pwd)" "$here/include/cenote"

# Replaced, not written over: a process that runs the old one keeps it.
put()
{
	cp "$1" "$2.new"
	mv -f "$2.new" "$2"
}

for file in "$@"; do
	name=$(basename "$file")
	case $name in
	libcenote.so | libcenote.so.* | libcenote-ptx.so.*)
		put "$file" "$here/lib/$name"
		;;
	libcenote-driver.so.*)
		put "$file" "$here/lib/$name"
		ln -sf "$name" "$here/lib/libcenote-driver.so"
		;;
	lib*.so.* | libcenote-redirect.so | libcenote-trace.so)
		put "$file" "$here/lib/dropin/$name"
		;;
	*)
		put "$file" "$here/bin/$name"
		;;
	esac
done
touch "$stamp"
