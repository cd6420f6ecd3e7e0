#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Instructions of the hot paths, counted by valgrind's callgrind: they are the same on a busy machine as on one at rest,
so a change that costs something shows anywhere.

    instructions.py PROGRAM KEY test              TAP: nothing has become longer, and no path calls the system or malloc
    instructions.py PROGRAM KEY bench [--quick] [--json FILE] [--only TEXT]
                                                  print them beside those on record, as a benchmark does
    instructions.py PROGRAM KEY record            these are the ones to be kept: bench/instructions.json

PROGRAM is bench/instructions.c, built. KEY says what it was built for and by what: counts of another compiler are
others, and only those of the same one are compared.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / "bench" / "instructions.json"
LIMIT_S = 60
CALLS = 1000  # of each, in the program
GROWTH_MAX = 0.5  # instructions of a call above which the test fails: none of them is in a library that could differ
ABSENT = "valgrind is not installed (Debian's valgrind)"
# What the program counts, in this order, and how a person says it.
PATHS = {
    "allocate": "allocate a block",
    "free": "free a block",
    "pair": "allocate and free a block",
    "runtime_pair": "allocate and free a block, with the runtime's calls",
    "export_pointer": "export a pointer",
    "import_pointer": "import a pointer",
    "free_imported": "free an imported pointer",
    "free_exported": "free an exported block that no importer holds",
    "event_record": "record an event",
    "event_wait": "wait for an event that has happened",
}
# free() is not among them: of NULL it is nothing, and what is freed had to be allocated.
ALLOCATORS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "reallocarray"}


def parse(text):
    """What one dump of callgrind says: the function that it is of, instructions, system calls, functions called."""
    trigger = re.search(r"^desc: Trigger: --dump-after=count_(\w+)$", text, re.M)
    if not trigger:
        return None
    events = re.search(r"^events: (.*)$", text, re.M)[1].split()
    numbers = re.search(r"^summary: (.*)$", text, re.M)[1].split()  # zeros at the end are left out
    values = dict(zip(events, map(int, numbers)))
    names = set(re.findall(r"^c?fn=(\S+)", text, re.M))
    return trigger[1], values["Ir"], values.get("sysCount", 0), names


def read_dumps(folder):
    """The last dump of each function: by then everything was done before."""
    found = {}
    dumps = []
    for path in Path(folder).iterdir():
        number = re.fullmatch(r"dump\.\d+\.(\d+)-01", path.name)  # of the first thread, which makes the calls
        if number:
            dumps.append((int(number[1]), path))
    for _, path in sorted(dumps):
        parsed = parse(path.read_text(encoding="utf-8", errors="replace"))
        if parsed:
            found[parsed[0]] = parsed[1:]
    return found


def count(program):
    """By path: instructions of a call, system calls of all, functions."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/dump.%p",
                   "--separate-threads=yes", "--collect-systime=yes", "--compress-strings=no"]
        command += ["--dump-after=forget_before", *(f"--dump-after=count_{name}" for name in PATHS)]
        environment = {**os.environ, "CENOTE_DEVICE": "host", "CENOTE_HOST_MEMORY": "1G"}
        done = subprocess.run([*command, str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=LIMIT_S, env=environment)
        if done.returncode:
            raise RuntimeError(f"exit status {done.returncode}: {done.stdout}")
        found = read_dumps(folder)
    missing = PATHS.keys() - found.keys()
    if missing:
        raise RuntimeError(f"callgrind has not seen {', '.join(sorted(missing))}: {done.stdout}")
    return {name: (found[name][0] / CALLS, *found[name][1:]) for name in PATHS}


def count_alone(program, kept):
    """The same, of the calls during which no other thread had a lock: what a path does itself, it does every time."""
    found = count(program)
    for _ in range(2):
        if any(calls or not judge(value, kept.get(name))[0] for name, (value, calls, _) in found.items()):
            again = count(program)
            found = {name: min(found[name], again[name], key=lambda one: (one[1], one[0])) for name in PATHS}
    return found


def recorded(key):
    """What is on record for this compiler; nothing, if nothing is."""
    return json.loads(RECORD.read_text(encoding="utf-8")).get(key, {})


def record(options):
    """Keep them."""
    everything = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    everything[options.key] = {name: round(found[0], 1) for name, found in count(options.program).items()}
    RECORD.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    return 0


def bench(options):
    """Print, and write the lines of a benchmark (bench/harness.h)."""
    rows, group = [], "Instructions of a call"
    key = {"suite": "instructions", "group": group}
    if not shutil.which("valgrind"):
        print(f"\n{group}\nwithout cenote: {ABSENT}")
        rows.append({**key, "row": "all", "contestant": "cenote", "absent": ABSENT})
    else:
        kept = recorded(options.key)
        print(f"\n{group}: {options.key}" + ("" if kept else ", of which there is no record"))
        for name, (value, calls, _) in count(options.program).items():
            beside = f"   recorded {kept[name]:6.1f}   x {value / kept[name]:.3f}" if name in kept else ""
            print(f"  {PATHS[name]:<44} {value:10.1f} instructions{beside}{'   SYSTEM CALLS' if calls else ''}")
            rows.append({**key, "row": PATHS[name], "contestant": "cenote", "unit": "instructions", "median": value,
                         "q1": value, "q3": value, "minimum": value, "repetitions": 1, "baseline": None, "ratio": None,
                         "goal": None, "x": None, "x_name": None})
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return 0


def judge(value, kept):
    """Whether a count is one to be content with, and a word about it."""
    if kept is None:
        return True, "nothing is on record for this compiler"
    return value <= kept + GROWTH_MAX, f"{kept:.1f} on record"


def test(options):
    """TAP, two tests for each path."""
    if not shutil.which("valgrind"):
        print(f"1..0 # SKIP {ABSENT}")
        return 0
    kept, failures = recorded(options.key), 0
    found = count_alone(options.program, kept)
    print(f"1..{2 * len(PATHS)}")
    for i, (name, (value, calls, functions)) in enumerate(found.items()):
        good, beside = judge(value, kept.get(name))
        skip = "" if name in kept else f" # SKIP no record for {options.key}"
        print(f"{'ok' if good else 'not ok'} {2 * i + 1} - {name}: {value:.1f} instructions, {beside}{skip}")
        if not good:
            print(f"# If that is the price of something, keep it: scripts/instructions.py {options.program} "
                  f"'{options.key}' record")
        allocators = sorted(functions & ALLOCATORS)
        clean = not calls and not allocators
        print(f"{'ok' if clean else 'not ok'} {2 * i + 2} - {name}: no call of the system, none of malloc")
        if not clean:
            print(f"# in {CALLS} calls {calls} of the system; of allocators: {', '.join(allocators) or 'none'}")
        failures += (not good) + (not clean)
    return 1 if failures else 0


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("key")
    commands = parser.add_subparsers(required=True)
    for call in (test, bench, record):
        command = commands.add_parser(call.__name__)
        command.set_defaults(call=call)
        if call is bench:
            command.add_argument("--quick", action="store_true")
            command.add_argument("--json")
            command.add_argument("--only")
    options = parser.parse_args()
    return options.call(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"Bail out! {error}" if "test" in sys.argv else error)
        sys.exit(1)
