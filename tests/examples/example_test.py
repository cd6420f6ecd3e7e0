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


def main(program, line, arguments, channels):
    """Runs the example, with the channels of a folder; True when it did what it should."""
    command = [sys.executable] * program.endswith(".py") + [program] + arguments
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
    print("1..1")
    if problems:
        for text in problems + done.stdout.splitlines() + done.stderr.splitlines():
            print(f"# {text}")
    print(f"{'not ok' if problems else 'ok'} 1 - {Path(program).name}")
    return not problems


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOOD = main(str(Path(sys.argv[1]).resolve()), sys.argv[2], sys.argv[3:], folder)
    sys.exit(0 if GOOD else 1)
