#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Builds the fuzz targets with clang and libFuzzer, and runs each for a time, one after the other.

The kept inputs (tests/fuzz/corpus/TARGET) are where each begins. What is found on the way stays below the build
directory: new inputs in TARGET/corpus, what ended the program in TARGET/found. An input that found a mistake is to be
kept: copied into tests/fuzz/corpus/TARGET, where `make test` replays it. --minimise chooses the kept inputs of a target
anew from these and those that were found, so that few reach much; those that have a name of their own stay.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests/fuzz/corpus"
OPTIONS = ["-Dc_args=-fsanitize=fuzzer-no-link", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
INPUT_BYTES_MAX = 256
INPUT_SECONDS_MAX = 60
GRACE_SECONDS = 120  # to end a run that does not end by itself
KEPT_INPUTS_MAX = 48
TAIL_LINES = 60


def has_fuzzer(compiler):
    """Whether a compiler can link with libFuzzer."""
    program = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *b, size_t s)\n" \
              "{ (void)b, (void)s; return 0; }\n"
    try:
        return subprocess.run([compiler, "-x", "c", "-", "-o", "/dev/null", "-fsanitize=fuzzer,address,undefined"],
                              input=program, text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def build(directory, compiler, targets):
    """Configure and compile; what goes wrong is shown, and is the end."""
    if not (directory / "build.ninja").exists():
        subprocess.run(["meson", "setup", *OPTIONS, directory, ROOT], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "CC": compiler})
    subprocess.run(["ninja", "-C", directory, *(f"tests/fuzz/fuzz-{target}" for target in targets)], check=True,
                   stdout=subprocess.DEVNULL)


def environment(runtime):
    """The library's directories are the target's own, and nothing else in the environment has a say."""
    ours = {name: value for name, value in os.environ.items()
            if not name.startswith("CENOTE_") and name != "CUDA_VISIBLE_DEVICES"}
    return {**ours, "CENOTE_RUNTIME_DIR": runtime, "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "ASAN_OPTIONS": "strict_string_checks=1:allocator_may_return_null=1"}


def run_program(directory, target, arguments, seconds):
    """Run a target in a directory of its own. Returns its exit status and what it printed."""
    with tempfile.TemporaryDirectory(prefix="cenote-fuzz-") as place:  # short: it holds sockets
        runtime = Path(place) / "runtime"
        runtime.mkdir(mode=0o700)
        program = directory / "tests/fuzz" / f"fuzz-{target}"
        # What is printed goes to a file: a process that was left behind would keep a pipe open.
        log = directory / "fuzz" / target / "log"
        with log.open("w", encoding="utf-8", errors="replace") as to:
            process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=to, stderr=to,
                                       env=environment(str(runtime)), cwd=place, start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = 124
        return status, log.read_text(encoding="utf-8", errors="replace")


def number(pattern, text):
    """The last number that follows a pattern; 0: there is none."""
    found = re.findall(pattern + r"\s*(\d+)", text)
    return int(found[-1]) if found else 0


def fuzz(directory, target, seconds):
    """Run a target for a time, and print a line. Returns whether nothing was found."""
    place = directory / "fuzz" / target
    for name in ("corpus", "found"):
        (place / name).mkdir(parents=True, exist_ok=True)
    before = set((place / "found").iterdir())
    started = time.monotonic()
    status, text = run_program(directory, target, [
        f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS_MAX}", f"-max_len={INPUT_BYTES_MAX}", "-len_control=0",
        "-detect_leaks=0", "-print_funcs=0", "-print_final_stats=1", f"-artifact_prefix={place}/found/",
        place / "corpus", KEPT / target], seconds + GRACE_SECONDS)
    lasted = time.monotonic() - started
    count = number(r"stat::number_of_executed_units:", text)
    found = sorted(set((place / "found").iterdir()) - before)
    print(f"{target:<20} {count:>9} inputs {count / max(lasted, 1):>7.0f}/s {number(r'cov:', text):>6} edges "
          f"{lasted:>6.0f} s  {'found something' if status or found else 'nothing found'}", flush=True)
    if not status and not found:
        return True
    print("\n".join(text.splitlines()[-TAIL_LINES:]))
    for path in found:
        print(f"The input: {path}")
    return False


def minimise(directory, target):
    """Keep the inputs of a target that reach everything that is reached, the small ones first."""
    place = directory / "fuzz" / target
    with tempfile.TemporaryDirectory(prefix="cenote-fuzz-") as fresh:
        named = [path for path in (KEPT / target).iterdir() if not re.fullmatch(r"[0-9a-f]{40}", path.name)]
        status, text = run_program(directory, target, ["-merge=1", "-use_counters=0", "-detect_leaks=0",
                                                       "-print_funcs=0", fresh, KEPT / target, place / "corpus"], 600)
        if status:
            sys.exit(text)
        # Each reaches something that no shorter one does; the long ones most of what the short ones do as well.
        chosen = sorted(Path(fresh).iterdir(), key=lambda path: -path.stat().st_size)
        print(f"{target:<20} {len(chosen)} inputs reach all that is reached", flush=True)
        for path in (KEPT / target).iterdir():
            if path not in named:
                path.unlink()
        for path in chosen[:KEPT_INPUTS_MAX - len(named)]:
            shutil.copy(path, KEPT / target / path.name)
        print(f"{target:<20} {len(list((KEPT / target).iterdir()))} inputs are kept", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=Path, help="the build directory (build)")
    parser.add_argument("--seconds", default=60, type=int, help="how long each target runs (60)")
    parser.add_argument("--minimise", action="store_true", help="minimise the kept inputs instead")
    parser.add_argument("targets", nargs="*", help="which targets: all, unless some are named")
    options = parser.parse_args()

    known = sorted(path.name for path in KEPT.iterdir() if path.is_dir())
    unknown = [target for target in options.targets if target not in known]
    if unknown:
        sys.exit(f"There is no fuzz target {unknown[0]}; there are {', '.join(known)}.")
    compiler = next((name for name in ("clang", "clang-14") if has_fuzzer(name)), None)
    if not compiler:
        sys.exit("make fuzz needs clang with libFuzzer (in Debian: clang and libclang-rt-14-dev), and there is none "
                 "here.")
    targets = options.targets or known
    directory = options.build.resolve() / "fuzz"
    build(directory, compiler, targets)
    if options.minimise:
        for target in targets:
            minimise(directory, target)
        return
    results = [fuzz(directory, target, options.seconds) for target in targets]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
