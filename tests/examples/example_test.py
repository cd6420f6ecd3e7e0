#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of an example: it ends well, complains of nothing, and prints the line that says so. It is run from another
folder, since an example finds what it needs beside itself, and with an IMEX channel, since some need one.

    example_test.py PROGRAM LINE [ARGUMENT...]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import run_tests  # pylint: disable=wrong-import-position


def check(program, line, arguments, channels):
    """Runs the example, with the channels of a folder."""
    command = [*[sys.executable] * program.endswith(".py"), program, *arguments]
    environment = {**os.environ, "CENOTE_IMEX_DIR": channels}
    Path(channels, "channel0").touch()
    done = subprocess.run(command, cwd="/", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    problems = []
    if done.returncode:
        problems.append(f"exit status {done.returncode}")
    if line not in done.stdout.splitlines():
        problems.append(f"the line {line!r} was not printed")
    if done.stderr:
        problems.append("something was printed to standard error")
    if problems:
        raise AssertionError("\n".join(problems + [done.stdout, done.stderr]))


def main(program, line, *arguments):
    """Runs the test; True when the example did what it should."""
    with tempfile.TemporaryDirectory() as folder:
        return run_tests([(Path(program).name, lambda: check(str(Path(program).resolve()), line, arguments, folder))])


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
