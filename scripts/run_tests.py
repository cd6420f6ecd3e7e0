#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs all tests and checks, two at a time, and says at the end what failed, what was skipped and what was slow.

A variant is a build directory with its own options (plain, AddressSanitizer with UBSan, ThreadSanitizer); its tests
are the ones that Meson knows there. The checks look at the sources: format and static analysis. A test program prints
TAP, and each of its results counts; a program that does not is one result, its exit status.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import CHECKS

ROOT = Path(__file__).resolve().parent.parent
JOBS = max(2, os.cpu_count() or 2)
PROGRAM_SECONDS_MAX = 300
SOAK_TESTS_MAX = 8  # of one program, each as long as the soak
TAIL_LINES = 60
SHOWN_FAILURES_MAX = 30
SHOWN_SLOW_MAX = 8
SLOW_SECONDS = 5

# The build directory below the plain one, and what is not as usual there. GCC's warnings are about the plain build:
# with sanitizers its analysis sees paths that are not in the program.
VARIANTS = {
    "plain": ("", ["-Dwerror=" + (os.environ.get("WERROR") or "true")]),
    "asan": ("asan", ["-Db_sanitize=address,undefined", "-Db_lundef=false"]),
    "tsan": ("tsan", ["-Db_sanitize=thread", "-Db_lundef=false"]),
    "coverage": ("coverage", ["-Db_coverage=true", "-Doptimization=0"]),
}
USUAL = ("plain", "checks", "asan", "tsan")

# status: "passed", "failed" or "skipped"; text: the reason, or the output of a failure
Result = namedtuple("Result", "name status text")


def run(command, seconds=None, **settings):
    """Run a command in a process group of its own. Returns its exit status and all that it printed."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, text=True, errors="replace", **settings)
    try:
        text, _ = process.communicate(timeout=seconds)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        # First gently: our harness then kills the groups of its own that it started.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        text, _ = process.communicate()
        return 124, text + f"\nstopped after {seconds} seconds\n"


def parse_tap(program, text, status):
    """The results in a program's output."""
    results, since_last, plan = [], [], None
    for line in text.splitlines():
        since_last.append(line)
        point = re.match(r"(not )?ok\b\s*\d*\s*-?\s*(.*?)(?:\s+#\s*skip\S*\s*(.*))?$", line, re.I)
        if point:
            failed, name, reason = point[1], f"{program}: {point[2]}", point[3]
            if failed:
                results.append(Result(name, "failed", "\n".join(since_last)))
            elif reason is not None:
                results.append(Result(name, "skipped", reason))
            else:
                results.append(Result(name, "passed", ""))
            since_last = []
        elif re.match(r"1\.\.\d+", line):
            plan = int(re.match(r"1\.\.(\d+)", line)[1])
    if plan is None or plan != len(results):
        results.append(Result(program, "failed", f"{text}\nplanned {plan}, got {len(results)} results"))
    elif status and not any(r.status == "failed" for r in results):
        results.append(Result(program, "failed", f"{text}\nexit status {status}"))
    return results


def test_environment():
    """Ours without what would change the library's answers."""
    kept = ("CENOTE_TEST_", "CENOTE_SOAK_")
    return {name: value for name, value in os.environ.items()
            if name != "CUDA_VISIBLE_DEVICES" and (not name.startswith("CENOTE_") or name.startswith(kept))}


def run_program(test, label, prefix, directory):
    """Run one test as Meson would. Exit status 77 of a program without TAP means skipped."""
    environment = {**test_environment(), **test["env"]}
    seconds = PROGRAM_SECONDS_MAX + SOAK_TESTS_MAX * int(environment.get("CENOTE_SOAK_SECONDS", 0))
    status, text = run(prefix + test["cmd"], seconds, env=environment, cwd=test["workdir"] or directory)
    name = f"{label} {test['name']}"
    if test["protocol"] == "tap":
        return parse_tap(name, text, status)
    if status == 77:
        return [Result(name, "skipped", text.strip().splitlines()[-1] if text.strip() else "no reason given")]
    return [Result(name, "failed" if status else "passed", text + f"\nexit status {status}" if status else "")]


class Report:
    """Prints a line when something is done, and everything that matters again at the end."""

    def __init__(self):
        self.results = []
        self.durations = []  # seconds and name, of builds, programs and checks
        self.started = time.monotonic()

    def add(self, title, results, seconds, durations=None):
        """`durations`: of the programs that the results are from; None: it was one thing."""
        self.results += results
        self.durations += [(seconds, title)] if durations is None else durations
        counts = {status: sum(r.status == status for r in results) for status in ("passed", "failed", "skipped")}
        words = [f"{count} {status}" for status, count in counts.items() if count] or ["done"]
        print(f"{title:<24} {', '.join(words):<40} {seconds:6.1f} s", flush=True)

    def show_slow(self):
        """What took longest: where to begin if the tests are to be faster."""
        slow = sorted((d for d in self.durations if d[0] >= SLOW_SECONDS), reverse=True)[:SHOWN_SLOW_MAX]
        if slow:
            print("\nSlowest:")
        for seconds, name in slow:
            print(f"{seconds:6.1f} s  {name}")

    def finish(self):
        """The exit status."""
        failed = [r for r in self.results if r.status == "failed"]
        for result in failed[:SHOWN_FAILURES_MAX]:
            print(f"\n---- {result.name}")
            lines = result.text.splitlines()
            if len(lines) > TAIL_LINES:
                print(f"[{len(lines) - TAIL_LINES} lines left out]")
            print("\n".join(lines[-TAIL_LINES:]))
        reasons = {}
        for result in self.results:
            if result.status == "skipped":
                reasons.setdefault(result.text, []).append(result.name)
        if reasons:
            print("\nSkipped:")
        for reason, names in reasons.items():
            for name in names:
                print(f"  {name}: {reason}")
        if failed:
            print("\nFailed:")
        for result in failed:
            print(f"  {result.name}")
        self.show_slow()
        counts = [sum(r.status == status for r in self.results) for status in ("passed", "failed", "skipped")]
        print(f"\n{time.monotonic() - self.started:.0f} seconds")
        print("%d passed, %d failed, %d skipped" % tuple(counts))
        return 1 if failed or not counts[0] else 0


def has_option(directory, option):
    """Whether a configured build directory has an option as wanted ("-Dname=value")."""
    name, value = option[2:].split("=")
    _, text = run(["meson", "introspect", "--buildoptions", directory])
    current = next(o["value"] for o in json.loads(text) if o["name"] == name)
    return str(current).lower() == value.lower()


def build(report, variant, directory, options):
    """Configure and compile. Returns whether that went well."""
    started = time.monotonic()
    if not (directory / "build.ninja").exists():
        status, text = run(["meson", "setup", *options, directory, ROOT])
    else:
        wrong = [option for option in options if not has_option(directory, option)]
        status, text = run(["meson", "configure", directory, *wrong]) if wrong else (0, "")
    if status == 0:
        status, text = run(["ninja", "-C", directory])
    # One mistake in a header is a thousand lines; the errors alone come last, where they are seen.
    errors = [line for line in text.splitlines() if re.search(r"error:|undefined reference|multiple definition", line)]
    results = [Result(f"{variant} build", "failed", "\n".join([text] + errors[:20]))] if status else []
    report.add(f"{variant} build", results, time.monotonic() - started)
    return status == 0


def introspect(directory, kind):
    """What Meson knows of tests or benchmarks."""
    status, text = run(["meson", "introspect", f"--{kind}", directory])
    if status:
        sys.exit(text)
    return json.loads(text)


def program_prefix(variant, tests):
    """
    What to put before a command. ThreadSanitizer of GCC 12 cannot live with the wide address randomisation of newer
    kernels; setarch -R turns that off for a program, where it is allowed to. None: there is no way.
    """
    if variant != "tsan":
        return []
    probe = next((t["cmd"] for t in tests if t["protocol"] == "tap"), None)
    for prefix in ([], ["setarch", os.uname().machine, "-R"]):
        if probe is None or run(prefix + probe[:1] + ["--list"])[0] == 0:
            return prefix
    return None


def has_soak_mode(test):
    """Whether a test can go on for longer: a program of ours lists what can. The models always can."""
    if test["suite"][0].endswith(":model"):
        return True
    return test["protocol"] == "tap" and "(soak)" in run(test["cmd"][:1] + ["--list"])[1]


def suite_of(test):
    """The suite that a test is in."""
    return test["suite"][0].split(":")[-1]


def run_variant(report, variant, options):
    """Build a variant and run its tests, a suite at a time."""
    below, settings = VARIANTS[variant]
    directory = Path(options.build).resolve() / below
    if not build(report, variant, directory, settings):
        return
    tests = introspect(directory, "tests")
    if options.soak:
        tests = [test for test in tests if has_soak_mode(test)]
        os.environ["CENOTE_SOAK_SECONDS"] = str(options.soak)
    prefix = program_prefix(variant, tests)
    if prefix is None:
        reason = "ThreadSanitizer does not start here: the kernel's address randomisation is too wide for it"
        report.add(variant, [Result(variant, "skipped", reason)], 0)
        return
    suites = {}
    for test in sorted(tests, key=lambda t: -t["priority"]):
        suites.setdefault(suite_of(test), []).append(test)

    def timed(test):
        started = time.monotonic()
        results = run_program(test, variant, prefix, directory)
        return results, started, time.monotonic()

    # One after the other, but the next begins while the last programs of the one before are still running.
    with ThreadPoolExecutor(1 if options.soak else JOBS) as pool:
        order = [suite for suite in dict.fromkeys(map(suite_of, tests)) if not options.suite or suite in options.suite]
        running = [(suite, [pool.submit(timed, test) for test in suites[suite]]) for suite in order]
        for suite, futures in running:
            done = [future.result() for future in futures]
            durations = [(end - start, f"{variant} {t['name']}") for t, (_, start, end) in zip(suites[suite], done)]
            report.add(f"{variant} {suite}", [result for results, _, _ in done for result in results],
                       max(end for _, _, end in done) - min(start for _, start, _ in done), durations)


def run_checks(report, options):
    """The checks of the sources; each gives a status and a text."""
    for name, check in CHECKS.items():
        if options.suite and name not in options.suite:
            continue
        started = time.monotonic()
        status, text = check(ROOT, Path(options.build).resolve(), JOBS)
        report.add(name, [Result(name, status, text)], time.monotonic() - started)


def main():
    """The command line is the Makefile's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", action="append", choices=[*VARIANTS, "checks"])
    parser.add_argument("--suite", action="append")
    parser.add_argument("--soak", type=int)
    options = parser.parse_args()
    report = Report()
    for part in options.only or USUAL:
        if part == "checks":
            run_checks(report, options)
        else:
            run_variant(report, part, options)
    return report.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
