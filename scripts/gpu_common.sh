# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
#
# What the scripts for a GPU need, found out once; to be sourced. Ends the script when something is missing.
#
#   toolkit     the CUDA toolkit: CUDA_PATH, or the one nvcc belongs to
#   libcuda     the driver's libcuda.so.1; LIBCUDA_DIR is looked in first
#   libcudart   the toolkit's libcudart.so; its folder is put into LD_LIBRARY_PATH
#   gpu, driver, capability, cuda   names and versions; the first two may be empty

toolkit=${CUDA_PATH:-}
if [ -z "$toolkit" ] && command -v nvcc >/dev/null; then
	toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
fi
if [ ! -e "$toolkit/include/cuda.h" ]; then
	echo "no CUDA toolkit: set CUDA_PATH" >&2
	exit 1
fi

find_library() { # NAME DIRECTORY…: the first directory that has it, else what the loader knows
	local name=$1 found
	shift
	for directory in "$@"; do
		[ -e "$directory/$name" ] && echo "$directory/$name" && return
	done
	found=$(ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }')
	[ -n "$found" ] && echo "$found"
}
libcuda=$(find_library libcuda.so.1 ${LIBCUDA_DIR:+"$LIBCUDA_DIR"} /usr/lib/x86_64-linux-gnu /usr/lib64) ||
	{ echo "no libcuda.so.1: is the driver installed?" >&2; exit 1; }
libcudart=$(find_library libcudart.so "$toolkit/lib64" "$toolkit"/targets/*/lib "$toolkit/lib") ||
	{ echo "no libcudart.so in $toolkit" >&2; exit 1; }
LD_LIBRARY_PATH=$(dirname "$libcudart")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

ask_smi() { # PROPERTY of the first GPU
	nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true
}
driver=$(ask_smi driver_version)
gpu=$(ask_smi name)
capability=$(ask_smi compute_cap | tr -d .)
cuda=$(awk '$2 == "CUDA_VERSION" { printf "%d.%d", $3 / 1000, $3 % 1000 / 10 }' "$toolkit/include/cuda.h")

assemble() { # KERNELS.ptx OUTPUT: what any driver can load; a driver without its compiler loads binaries alone
	if ! "$toolkit/bin/ptxas" -arch="sm_${capability:-90}" "$1" -o "$2" 2>/dev/null; then
		cp "$1" "$2"
	fi
}
