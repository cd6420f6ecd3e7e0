#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The benchmark: runs what measures, keeps the results, writes them down, compares two runs.

    bench.py run --build DIR [--quick] [--only PROGRAM]... [--json FILE]
                                        measure; the results go to FILE (DIR/bench/results.json)
    bench.py report FILE [--into PAGE]  write what was measured into PAGE (docs/performance.md), plots beside it
    bench.py compare OLD NEW [--threshold 1.25]
                                        exit status 1: something of ours has become slower

Every program that Meson knows as a benchmark is run, one after the other; bench/harness.h says what they print and the
form of their results.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_report

ROOT = Path(__file__).resolve().parent.parent
FORMAT = "cenote-bench-1"
PROGRAM_SECONDS_MAX = 300
INSTRUCTIONS_THRESHOLD = 1.02  # these do not depend on what else the machine does
KEYS = ("suite", "group", "row", "contestant")


def fail(text, status=2):
    """Say it and end."""
    print(f"bench.py: {text}", file=sys.stderr)
    sys.exit(status)


# ---- Measuring ----


def first_match(path, pattern):
    """What a file of the system says, or nothing."""
    try:
        found = re.search(pattern, Path(path).read_text(errors="replace"), re.M)
    except OSError:
        return None
    return found[1].strip() if found else None


def machine():
    """What the results are of. Nothing in it names the machine."""
    flags = first_match("/proc/cpuinfo", r"^flags\s*:(.*)$") or ""
    return {
        "processor": first_match("/proc/cpuinfo", r"^(?:model name|Model|cpu model)\s*:(.*)$") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": 1024 * int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0),
        "kernel": re.match(r"[\d.]*", platform.release())[0],
        "hypervisor": "hypervisor" in flags.split(),
    }


def read_lines(path):
    """The results of one program."""
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            fail(f"line {number} of a program's results is no JSON: {error}", 1)
    return rows


def run_program(benchmark, quick):
    """Run one. Returns its exit status and its results; it prints for itself."""
    environment = {"CENOTE_DEVICE": "host", **os.environ, **benchmark["env"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results"
        path.touch()
        command = [*benchmark["cmd"], "--json", str(path), *(["--quick"] if quick else [])]
        try:
            status = subprocess.run(command, env=environment, check=False, timeout=PROGRAM_SECONDS_MAX).returncode
        except subprocess.TimeoutExpired:
            print(f"{benchmark['name']}: stopped after {PROGRAM_SECONDS_MAX} seconds", flush=True)
            status = 124
        return status, read_lines(path)


def check_keys(rows):
    """Each result has its own name."""
    seen = set()
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        if key in seen:
            fail(f"two results have the name {' / '.join(key)}", 1)
        seen.add(key)


def project_version():
    """As the build says it."""
    return subprocess.run([ROOT / "scripts/version.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def known(build, what):
    """What Meson knows of a build directory: as `meson introspect` says, but at once."""
    return json.loads((build / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))


def notice_ucx(build):
    """Meson looks for UCX when it configures: if it was installed since, it must look again."""
    found = any(dependency["name"] == "ucx" for dependency in known(build, "dependencies"))
    if not found and Path("/usr/include/ucp/api/ucp.h").exists():
        subprocess.run(["meson", "setup", "--reconfigure", str(build)], stdout=subprocess.DEVNULL, check=True)


def run(options):
    """All of them, or those that are named."""
    build = Path(options.build).resolve()
    notice_ucx(build)
    done = subprocess.run(["ninja", "-C", str(build), "benchmarks"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        fail(done.stdout, 1)
    started, date, rows, failed = time.monotonic(), datetime.datetime.now(datetime.timezone.utc), [], []
    for benchmark in known(build, "benchmarks"):
        if options.only and benchmark["name"] not in options.only:
            continue
        print(f"\n==== {benchmark['name']}", flush=True)
        began = time.monotonic()
        status, results = run_program(benchmark, options.quick)
        print(f"({time.monotonic() - began:.1f} seconds)", flush=True)
        rows += results
        if status:
            failed.append(f"{benchmark['name']} (exit status {status})")
    check_keys(rows)
    results = {"format": FORMAT, "date": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "quick": options.quick,
               "version": project_version(), "machine": machine(),
               "seconds": round(time.monotonic() - started), "rows": rows}
    path = Path(options.json) if options.json else build / "bench" / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n" + bench_report.goals_text(results))
    print(f"\n{results['seconds']} seconds; results in {path}")
    if failed:
        print("Failed: " + ", ".join(failed))
    return 1 if failed or not rows else 0


# ---- Comparing ----


def load(path):
    """The results of a run."""
    try:
        results = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        fail(f"{path} is not of the form {FORMAT}")
    return results


def ours(results):
    """Cenote's own results by their names; those of others are not for us to watch."""
    return {tuple(row[name] for name in KEYS): row for row in results["rows"]
            if "absent" not in row and row["contestant"].startswith("cenote")}


def measures(old, new):
    """
    What to compare of two results: (old, new, whether it is a ratio), each a (low, middle, high). The ratio to the
    same baseline of the same run says more than a time, which another machine or a busy one changes.
    """
    by_ratio = old["ratio"] and new["ratio"] and old["baseline"] == new["baseline"]

    def three(row):
        factor = row["ratio"] / row["median"] if by_ratio else 1
        return tuple(row[name] * factor for name in ("q1", "median", "q3"))
    return three(old), three(new), bool(by_ratio)


def compare_rows(old, new, threshold):
    """"slower", "quicker" or None, and by how much. What lies within the spread of both is no change."""
    before, after, by_ratio = measures(old, new)
    change = after[1] / before[1] if before[1] > 0 else 1.0
    if new["unit"] == "instructions":
        threshold = min(threshold, INSTRUCTIONS_THRESHOLD)
    if change > threshold and after[0] > before[2]:
        return "slower", change, by_ratio
    if change < 1 / threshold and after[2] < before[0]:
        return "quicker", change, by_ratio
    return None, change, by_ratio


def compare(options):
    """Print what has changed. Exit status 1: something is slower."""
    old, new = load(options.old), load(options.new)
    if old["quick"] != new["quick"] or old["machine"] != new["machine"]:
        print("These are not runs of the same kind on the same machine: take the times with caution.")
    old, new = ours(old), ours(new)
    slower = 0
    for key in sorted(old.keys() & new.keys()):
        verdict, change, by_ratio = compare_rows(old[key], new[key], options.threshold)
        if not verdict:
            continue
        slower += verdict == "slower"
        what = f"to {new[key]['baseline']}" if by_ratio else new[key]["unit"]
        values = [row["ratio"] if by_ratio else row["median"] for row in (old[key], new[key])]
        print(f"{verdict:<8} x {change:<6.3g} {' / '.join(key)}: {values[0]:.4g} -> {values[1]:.4g} ({what})")
    for text, keys in (("gone", old.keys() - new.keys()), ("new", new.keys() - old.keys())):
        for key in sorted(keys):
            print(f"{text:<8} {'':8} {' / '.join(key)}")
    count = len(old.keys() & new.keys())
    print(f"{count} compared, {slower} slower by more than x {options.threshold:g}")
    if not count:
        fail("the two runs have nothing in common")
    return 1 if slower else 0


def report(options):
    """Write the page and its plots."""
    bench_report.write_page(load(options.results), Path(options.into))
    return 0


def main(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--build", default="build")
    one.add_argument("--quick", action="store_true")
    one.add_argument("--only", action="append")
    one.add_argument("--json")
    one.set_defaults(call=run)
    one = commands.add_parser("report")
    one.add_argument("results")
    one.add_argument("--into", default=str(ROOT / "docs" / "performance.md"))
    one.set_defaults(call=report)
    one = commands.add_parser("compare")
    one.add_argument("old")
    one.add_argument("new")
    one.add_argument("--threshold", type=float, default=1.25)
    one.set_defaults(call=compare)
    options = parser.parse_args(arguments)
    return options.call(options)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
