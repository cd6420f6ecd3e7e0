#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Says how many lines of each source the tests reached, from the counters that a coverage build leaves.

    coverage.py BUILD_DIRECTORY [--lines]      --lines also names the lines that were not reached
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools")


def collect(build):
    """For each source below FOLDERS, how often each line ran; the same line in several programs is added up."""
    counts = {}
    for counters in build.rglob("*.gcda"):
        done = subprocess.run(["gcov", "--json-format", "--stdout", counters], cwd=build, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True)
        for report in done.stdout.splitlines():
            for file in json.loads(report)["files"]:
                path = (build / file["file"]).resolve()
                if not any(ROOT / folder in path.parents for folder in FOLDERS):
                    continue
                lines = counts.setdefault(path.relative_to(ROOT), {})
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, 0) + line["count"]
    return counts


def main():
    """A line a file, and a total."""
    build = Path(sys.argv[1]).resolve()
    counts = collect(build)
    if not counts:
        sys.exit("no counters there: this is not a coverage build, or no test has run in it")
    total_reached = total = 0
    for path, lines in sorted(counts.items()):
        missed = sorted(number for number, count in lines.items() if count == 0)
        reached = len(lines) - len(missed)
        total_reached += reached
        total += len(lines)
        print(f"{100 * reached / len(lines):6.1f} %  {reached:5} of {len(lines):5}  {path}")
        if missed and "--lines" in sys.argv:
            print("          not reached:", *missed)
    print(f"{100 * total_reached / total:6.1f} %  {total_reached:5} of {total:5}  all")


if __name__ == "__main__":
    main()
