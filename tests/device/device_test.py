#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the headers for device code: a program of this folder, compiled by cenote cc, on the host device.

    device_test.py BUILD_DIRECTORY SOURCE [EVALUATOR [ARGUMENT...]]

The program prints TAP. With an EVALUATOR the source has kernels alone: that program loads their PTX. The clang is the
one that cenote cc finds; CENOTE_TEST_CLANGS names others, with spaces between, each of which must do.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def outcome(build, clang, source, evaluator, folder):
    """The TAP of one compiler's program, and its exit status; or why it is skipped."""
    environment = {**os.environ, **({"CENOTE_CLANG": clang} if clang else {})}
    made = Path(folder) / "made"
    compiled = subprocess.run([Path(build) / "bin/cenote", "cc", *(["--ptx"] if evaluator else []), "-O3", source, "-o",
                               made], check=False, capture_output=True, encoding="utf-8", env=environment)
    said = compiled.stdout + compiled.stderr
    if compiled.returncode and ("no clang" in said or "nvptx" in said.lower()):
        return f"1..0 # SKIP {said.strip().splitlines()[0]}\n", 0
    if compiled.returncode or compiled.stderr:
        return f"Bail out! {source} does not compile without a word\n{said}", 1
    ran = subprocess.run([*evaluator[:1], made, *evaluator[1:]], check=False, capture_output=True, encoding="utf-8")
    return ran.stdout + ran.stderr, ran.returncode


def main(build, source, *evaluator):
    """The exit status of the last that failed, or 0."""
    status = 0
    for clang in os.environ.get("CENOTE_TEST_CLANGS", "").split() or [None]:
        with tempfile.TemporaryDirectory() as folder:
            text, ended = outcome(build, clang, source, evaluator, folder)
        print(text, end="")
        status = ended or status
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
