#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Ask NVIDIA's driver the conformance questions and write its answers as golden files.
#
#     scripts/gpu_golden.sh [CHAPTER…]
#
# Needs a GPU with its driver, gcc and a CUDA toolkit (CUDA_PATH, or the one nvcc belongs to). The files go to
# tests/conformance/golden, or to $OUT where that is set. Every chapter is asked twice; an answer that changed is
# written as `varies`. GOLDEN_ONCE=1 asks once. GOLDEN_UNDER="build/bin/cenote run" asks Cenote in front of the driver.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source_dir=$root/tests/conformance
out_dir=${OUT:-$source_dir/golden}
all_chapters=(device attributes context stream event memory pointer copy launch library runtime runtime_code fork entry
	state perthread vmm vmm_use vmm_state vmm_share pool pool_use pool_state pool_share pool_share_use
	pool_share_state ipc_event ipc_event_use ipc_memory ipc_memory_use fabric
	edge edge_batch edge_calls edge_copy older)
chapters=("${@:-${all_chapters[@]}}")

# shellcheck source=scripts/gpu_common.sh
. "$root/scripts/gpu_common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out_dir"
python3 "$root/scripts/generate_calls.py" functions "$root" "$work/functions.h"
export CONFORMANCE_MODULE=$source_dir/kernels.ptx
export CONFORMANCE_TIMEOUT=${CONFORMANCE_TIMEOUT:-8}
if ! ldconfig -p | grep -q libnvidia-ptxjitcompiler.so.1; then
	assemble "$CONFORMANCE_MODULE" "$work/kernels.cubin"
	export CONFORMANCE_MODULE=$work/kernels.cubin
fi

ask() { # PROGRAM CHAPTER: the answers, under the lines that say whose they are
	echo "# driver ${driver:-unknown}, CUDA $cuda, ${gpu:-unknown}, $(date -u +%Y-%m-%d)"
	echo "# written by scripts/gpu_golden.sh; not to be edited"
	# shellcheck disable=SC2086 # a command of several words, or none
	timeout 300 ${GOLDEN_UNDER:-} "$1" 2>>"$work/$2.log" || echo "$2: ended with $?" >&2
}

build() { # CHAPTER
	local sources=("$source_dir/$1.c" "$source_dir/ask.c")
	grep -q '"calls.h"' "$source_dir/$1.c" && sources+=("$source_dir/calls.c")
	gcc -std=gnu11 -O1 -g -Wall -Wextra -Wno-deprecated-declarations -I"$work" -I"$toolkit/include" \
		"${sources[@]}" -o "$work/$1" "$libcuda" "$libcudart" -lpthread -ldl -Wl,--allow-shlib-undefined
}

failed=0
for chapter in "${chapters[@]}"; do
	build "$chapter" &
done
wait
for chapter in "${chapters[@]}"; do
	[ -x "$work/$chapter" ] || { failed=1; continue; }
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
