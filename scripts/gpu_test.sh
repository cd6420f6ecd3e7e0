#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The tests that need a GPU, and what shows Cenote on one.
#
#     scripts/gpu_test.sh [PART…]        all parts, or these:
#
#   answers      ask the driver alone the conformance questions again: are its answers still the golden ones?
#   suites       the test programs on the cuda device, with what is left out and why
#   conformance  the conformance chapters, linked with libcenote.so, on the cuda device
#   dropin       the same built with NVIDIA's headers, over NVIDIA's libraries with Cenote's libcuda.so.1 in front
#   examples     the examples with real kernels: linked with Cenote, over NVIDIA alone, and under `cenote run`
#   sanitizer    compute-sanitizer over the examples
#   cases        graphs, contexts that end under load and green contexts with pools: over the driver, and over Cenote
#   early-free   a block freed while an importer reads it: over the driver, and over Cenote
#   late-work    a kernel that uses a block which another stream has freed: over the driver, and over Cenote
#   bench        pools: the driver's beside Cenote's
#   torch        PyTorch under Cenote, where it is installed: training (GPT-2 too), each library's results, allocators
#   frameworks   JAX, CuPy and Triton under Cenote, where they are installed: results as without it, bit by bit; and
#                what programs of theirs and PyTorch's take and hold, beside the driver's pools and their own allocators
#   python       the package cenote: frameworks that share a block, killed consumers, times beside PyTorch's and CuPy's
#   kept         memory that outlives its maker: 8 GiB, a swapped model, wrong descriptors, a PyTorch model's weights
#   cuda-core    NVIDIA's tests of cuda.core in CUDA_CORE_TESTS, a checkout of NVIDIA/cuda-python; without it, skipped
#
# Needs a GPU with its driver, a CUDA toolkit (CUDA_PATH, or nvcc's), gcc, Meson and ninja; it installs nothing. BUILD
# is the build directory (build). CHAPTERS="pool pool_use" and PROGRAMS="share_pool_test" are for a part of a part. With
# OUT set, the log and the tables are written there too.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
scripts=$root/scripts
cenote=$build/bin/cenote
read -ra chapters <<<"${CHAPTERS:-}"
read -ra programs <<<"${PROGRAMS:-}"
all_parts=(answers suites conformance dropin examples sanitizer cases early-free late-work bench torch
	frameworks python kept cuda-core)
parts=("$@")
[ $# -gt 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
	[[ " ${all_parts[*]} " == *" $part "* ]] ||
		{ echo "no such part: $part; there are ${all_parts[*]}" >&2; exit 2; }
done

if [ -n "${OUT:-}" ] && [ -z "${GPU_TEST_LOGGED:-}" ]; then
	GPU_TEST_LOGGED=1 "$0" "$@" 2>&1 | tee -a "$OUT/gpu_test.log"
	exit "${PIPESTATUS[0]}"
fi

# shellcheck source=scripts/gpu_common.sh
. "$scripts/gpu_common.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=${OUT:-$work}
unset OUT # it tells gpu_golden.sh where to write

build_all()
{
	if [ ! -e "$build/build.ninja" ]; then
		meson setup "$build" "$root" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
	fi
	ninja -C "$build" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
}

# One chapter after the other: contexts that are made at the same time take many times as long.
ask_chapters() # FOLDER PART-OF-GPU-SUITES ENVIRONMENT…
{
	local folder=$1 part=$2
	shift 2
	mkdir -p "$folder"
	env OUT="$folder" GOLDEN_ONCE=1 "$@" "$scripts/gpu_golden.sh" "${chapters[@]}" || true
	tar -C "$work" -czf "$results/${folder##*/}_answers.tgz" "${folder##*/}"
	"$scripts/gpu_suites.py" "$part" "$folder" --build "$build"
}

part_answers()
{
	ask_chapters "$work/driver" unchanged GOLDEN_UNDER=
}

part_suites()
{
	"$scripts/gpu_suites.py" suites --build "$build" --only "${programs[@]}"
}

part_conformance()
{
	assemble "$root/tests/conformance/kernels.ptx" "$work/kernels"
	"$scripts/gpu_suites.py" conformance --build "$build" --module "$work/kernels" --only "${chapters[@]}"
}

part_dropin()
{
	ask_chapters "$work/dropin" answers GOLDEN_UNDER="$cenote run"
}

# Each example as Meson linked it and built with NVIDIA's own headers and libraries, with kernels beside it.
make_examples()
{
	local name
	[ ! -e "$work/examples" ] || return 0
	mkdir -p "$work/examples/cenote" "$work/examples/nvidia"
	for source in "$root"/examples/*.c; do
		name=$(basename "$source" .c)
		[ -x "$build/examples/$name" ] || continue
		cp "$build/examples/$name" "$work/examples/cenote/"
		[ "$name" = hello ] || gcc -O1 -g -I"$toolkit/include" "$source" -o "$work/examples/nvidia/$name" \
			"$libcudart" "$libcuda" -lpthread -ldl -Wl,--allow-shlib-undefined
	done
	for kernels in "$root"/examples/*.ptx; do # cuModuleLoad looks at what is in the file, not at its name
		assemble "$kernels" "$work/examples/cenote/$(basename "$kernels")"
		cp "$work/examples/cenote/$(basename "$kernels")" "$work/examples/nvidia/"
	done
}

part_examples()
{
	make_examples
	"$scripts/gpu_suites.py" examples "$work/examples" --build "$build"
}

part_sanitizer()
{
	command -v compute-sanitizer >/dev/null || { echo "skipped: compute-sanitizer is not installed"; return 0; }
	make_examples
	"$scripts/gpu_suites.py" sanitizer "$work/examples" --build "$build" --tool "${TOOL:-memcheck}"
}

part_cases()
{
	timeout 120 "$build/bench/bench-gpu_cases" &&
		timeout 120 "$cenote" run "$build/bench/bench-gpu_cases"
}

part_early-free()
{
	local status=0
	assemble "$root/bench/gpu_early_free.ptx" "$work/early_free"
	echo "-- over the driver alone"
	timeout 120 "$build/bench/bench-gpu_early_free" "$work/early_free" || status=$?
	[ $status = 3 ] || echo "the driver did not hand the block out this time: status $status"
	echo
	echo "-- under cenote run"
	timeout 120 "$cenote" run "$build/bench/bench-gpu_early_free" "$work/early_free"
}

part_late-work()
{
	assemble "$root/bench/gpu_early_free.ptx" "$work/early_free"
	echo "-- over the driver alone"
	timeout 120 "$build/bench/bench-gpu_late_work" "$work/early_free" || echo "status $?"
	echo
	echo "-- under cenote run"
	timeout 120 "$cenote" run "$build/bench/bench-gpu_late_work" "$work/early_free"
}

part_bench()
{
	local status=0 program
	timeout 300 "$build/bench/bench-gpu_pool" --cenote "$cenote" --rounds "${ROUNDS:-31}" \
		--json "$results/gpu_pool.json" || status=1
	for program in gpu_import gpu_threads; do
		echo
		echo "-- $program: over the driver alone, under cenote run, on the host device"
		timeout 60 "$build/bench/bench-$program" || status=1
		timeout 60 "$cenote" run "$build/bench/bench-$program" || status=1
		CENOTE_DEVICE=host timeout 60 "$cenote" run "$build/bench/bench-$program" || status=1
	done
	return $status
}

part_torch()
{
	if ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
		echo "skipped: no PyTorch with CUDA here"
		return 0
	fi
	local status=0
	timeout 300 python3 "$scripts/gpu_torch.py" --cenote "$cenote" --json "$results/gpu_torch.json" || status=1
	timeout 300 python3 "$scripts/gpu_frameworks.py" --cenote "$cenote" --json "$results/gpu_torch_results.json" \
		torch || status=1
	return $status
}

part_frameworks()
{
	local status=0
	timeout 200 python3 "$scripts/gpu_frameworks.py" --cenote "$cenote" --json "$results/gpu_frameworks.json" \
		jax cupy triton || status=1
	timeout 420 python3 "$scripts/gpu_programs.py" --cenote "$cenote" --phases "$build/bench/bench-phases" \
		--json "$results/gpu_programs.json" || status=1
	return $status
}

part_python()
{
	[ -e "$build/python/staged" ] || { echo "skipped: no headers of Python's, so no package was built"; return 0; }
	local status=0 package=$build/python
	PYTHONPATH=$package timeout 400 python3 "$scripts/gpu_python.py" --json "$results/gpu_python.json" || status=1
	PYTHONPATH=$package timeout 100 python3 "$root/examples/python/weights.py" || status=1
	return $status
}

part_kept()
{
	[ -e "$build/python/staged" ] || { echo "skipped: no headers of Python's, so no package was built"; return 0; }
	PYTHONPATH=$build/python timeout 300 python3 "$scripts/gpu_kept.py" "$build" --json "$results/gpu_kept.json"
}

part_cuda-core()
{
	[ -n "${CUDA_CORE_TESTS:-}" ] || { echo "skipped: CUDA_CORE_TESTS names no checkout of cuda-python"; return 0; }
	"$scripts/gpu_cuda_core.py" "$CUDA_CORE_TESTS" --cenote "$cenote" --runs "${CUDA_CORE_RUNS:-3}"
}

echo "GPU ${gpu:-unknown}, driver ${driver:-unknown}, CUDA $cuda, $(date -u +%Y-%m-%d)"
started=$SECONDS
build_all
echo "built in $((SECONDS - started)) s"
failed=()
for part in "${parts[@]}"; do
	echo
	echo "==== $part"
	started=$SECONDS
	# In a condition `set -e` is off inside, so that a part goes on to its end and says itself how it went.
	"part_$part" || failed+=("$part")
	echo "==== $part: $((SECONDS - started)) s"
done
echo
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all well: ${parts[*]}"
