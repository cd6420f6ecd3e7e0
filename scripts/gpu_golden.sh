#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Ask NVIDIA's driver the conformance questions and write its answers as golden files.
#
#     scripts/gpu_golden.sh [CHAPTER…]
#
# Needs a GPU with its driver, gcc and a CUDA toolkit (CUDA_PATH, or the one nvcc belongs to). The files go to
# tests/conformance/golden, or to $OUT where that is set. Every chapter is asked twice; an answer that changed is
# written as `varies`. GOLDEN_ONCE=1 asks once.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source_dir=$root/tests/conformance
out_dir=${OUT:-$source_dir/golden}
all_chapters=(device attributes context stream event memory pointer copy launch runtime fork entry state perthread
	vmm vmm_use vmm_state vmm_share pool pool_use pool_state pool_share pool_share_use
	pool_share_state ipc_event ipc_event_use ipc_memory ipc_memory_use fabric)
chapters=("${@:-${all_chapters[@]}}")

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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out_dir"
export CONFORMANCE_MODULE=$source_dir/kernels.ptx
export CONFORMANCE_TIMEOUT=${CONFORMANCE_TIMEOUT:-8}
export LD_LIBRARY_PATH=$(dirname "$libcudart")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
if ! ldconfig -p | grep -q libnvidia-ptxjitcompiler.so.1; then # a driver without its compiler loads binaries alone
	capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d . || true)
	if "$toolkit/bin/ptxas" -arch="sm_${capability:-90}" "$CONFORMANCE_MODULE" -o "$work/kernels.cubin"; then
		export CONFORMANCE_MODULE=$work/kernels.cubin
	fi
fi
cuda=$(awk '$2 == "CUDA_VERSION" { printf "%d.%d", $3 / 1000, $3 % 1000 / 10 }' "$toolkit/include/cuda.h")

ask() { # PROGRAM CHAPTER: the answers, under the lines that say whose they are
	echo "# driver ${driver:-unknown}, CUDA $cuda, ${gpu:-unknown}, $(date -u +%Y-%m-%d)"
	echo "# written by scripts/gpu_golden.sh; not to be edited"
	timeout 300 "$1" 2>>"$work/$2.log" || echo "$2: ended with $?" >&2
}

failed=0
for chapter in "${chapters[@]}"; do
	sources=("$source_dir/$chapter.c" "$source_dir/ask.c")
	grep -q '"calls.h"' "$source_dir/$chapter.c" && sources+=("$source_dir/calls.c")
	gcc -std=gnu11 -O1 -g -Wall -Wextra -Wno-deprecated-declarations -I"$toolkit/include" "${sources[@]}" \
		-o "$work/$chapter" "$libcuda" "$libcudart" -lpthread -Wl,--allow-shlib-undefined ||
		{ failed=1; continue; }
	started=$SECONDS
	ask "$work/$chapter" "$chapter" >"$work/$chapter.1"
	if [ -n "${GOLDEN_ONCE:-}" ]; then
		cp "$work/$chapter.1" "$out_dir/$chapter.txt"
	else
		ask "$work/$chapter" "$chapter" >"$work/$chapter.2"
		python3 "$source_dir/compare.py" --merge "$work/$chapter.1" "$work/$chapter.2" >"$out_dir/$chapter.txt"
	fi
	echo "$chapter: $(grep -c ' = ' "$out_dir/$chapter.txt") answers," \
		"$(grep -cE ' = (crash|hang)' "$out_dir/$chapter.txt") crashes and hangs," \
		"$(grep -c 'setup_of_\|group_' "$out_dir/$chapter.txt") groups broken, $((SECONDS - started)) s"
	sort "$work/$chapter.log" | uniq -c | sort -rn | head -n 20 >&2
done
exit $failed
