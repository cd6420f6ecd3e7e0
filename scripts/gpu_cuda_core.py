#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
NVIDIA's own tests of cuda.core, over the driver alone and under `cenote run`.

    gpu_cuda_core.py FOLDER [--cenote COMMAND] [--runs N]

FOLDER is a checkout of the public repository NVIDIA/cuda-python, or its cuda_core/tests. The tests of memory, of
pools between processes, of events and of streams run once over the driver and N times (3) under Cenote. It fails when a
test fails under Cenote that does not fail over the driver.

Needs a GPU, cuda.core and pytest.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

TESTS = ["memory_ipc", "test_memory.py", "test_event.py", "test_stream.py"]
TIMEOUT_S = 280


def run_tests(folder, in_front):
    """Runs the tests. Returns the names of those that failed, pytest's last line, and all that was printed."""
    command = in_front + [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfE", "--tb=short", *TESTS]
    try:
        ran = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
        status, text = ran.returncode, ran.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        status, text = "a time-out", output if isinstance(output, str) else output.decode(errors="replace")
    # The name may hold spaces in its brackets; a reason follows " - ".
    failed = {re.sub(r" - .*", "", name) for name in re.findall(r"^(?:FAILED|ERROR) (\S.*)$", text, re.M)}
    if status not in (0, 1):
        failed.add(f"pytest itself: {status}")
    lines = text.strip().splitlines()
    return failed, lines[-1] if lines else "it printed nothing", text


def main():
    """The command line."""
    built = Path(__file__).resolve().parent.parent / "build" / "bin" / "cenote"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cenote", default=str(built))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    inside = options.folder / "cuda_core" / "tests"
    folder = inside if inside.is_dir() else options.folder
    if not (folder / "memory_ipc").is_dir():
        sys.exit(f"{folder}: no tests of cuda.core here")
    expected, summary, text = run_tests(folder, [])
    print(f"over the driver: {summary}", flush=True)
    if any(name.startswith("pytest itself") for name in expected):
        sys.exit("\n".join(text.splitlines()[-30:]))
    print("".join(f"  {name}\n" for name in sorted(expected)), end="", flush=True)
    good = True
    for number in range(1, options.runs + 1):
        failed, summary, text = run_tests(folder, [options.cenote, "run"])
        new = sorted(failed - expected)
        good = good and not new
        print(f"under Cenote, run {number}: {summary}; {len(new)} failures that the driver does not have", flush=True)
        for name in new:
            print(f"FAILED: {name}")
        if new:
            print(text[-8000:], flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
