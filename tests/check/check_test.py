#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of `cenote check`: it finds the mistake of each program that has one, and nothing in their twins.

    check_test.py BUILD_DIRECTORY PROGRAMS [--twins COUNT]

PROGRAMS is check_programs (programs.h), built. With --twins each program without a mistake runs COUNT times with other
delays, and nothing else is tested.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import by_name, run_tests  # pylint: disable=wrong-import-position

LIMIT_S = 60
# Kinds of programs that need an option.
OPTIONS = ("strict", "exact")


class Page(HTMLParser):
    """What a page has: its tags, and whether they are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


class Test:
    """The command, the programs, and a folder."""

    def __init__(self, build, programs, folder):
        self.cenote, self.programs, self.folder = Path(build) / "bin" / "cenote", programs, Path(folder)
        (self.folder / "records").mkdir()
        listed = subprocess.run([programs], capture_output=True, text=True, check=True).stdout.split()
        self.kinds = dict(zip(listed[::2], listed[1::2]))

    def environment(self):
        """The environment without what has a say in Cenote."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith("CENOTE_")
                  and name not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD")}
        return {**passed, "TMPDIR": str(self.folder / "records"), "CENOTE_RUNTIME_DIR": str(self.folder / "runtime"),
                "CENOTE_DEVICE": "host"}

    def run(self, *words):
        """What the command does: its status and what it prints. Nothing is left of its records."""
        done = subprocess.run([self.cenote, "check", *map(str, words)], capture_output=True, text=True, check=False,
                              env=self.environment(), timeout=LIMIT_S)
        assert not list((self.folder / "records").iterdir()), words
        return done

    def check(self, name, variant, *options):
        """The findings in a program."""
        hangs = self.kinds[name] == "cycle" and variant == "bad"
        done = self.run("--json", "--timeout", 1 if hangs else LIMIT_S / 2, *options, self.programs, name, variant)
        findings = json.loads(done.stdout[done.stdout.index("{"):])["findings"]
        assert done.returncode == (1 if findings else 0), (done.returncode, done.stderr)
        return findings

    # ---- Each program

    def bad(self, name):
        """The mistake is found, and told with the places."""
        findings = self.check(name, "bad")
        found = [finding["kind"] for finding in findings]
        assert self.kinds[name] in found, found
        for finding in findings:
            places = [frame["place"] for site in ("first", "second") for frame in finding.get(site, {}).get("stack", ())]
            # The programs of this build have debugging information, if there is somebody to read it.
            assert not places or any(".c:" in place or "+0x" in place for place in places), finding
            assert finding["sentence"].endswith(".") or finding["kind"] == "cycle", finding

    def good(self, name):
        """Nothing is found, with and without delays."""
        for options in ((), ("--delay=1",)):
            findings = self.check(name, "good", *options)
            assert not findings, (options, findings)

    def twins(self, name, count):
        """The same, many times."""
        for seed in range(count):
            findings = self.check(name, "good", f"--delay={seed}")
            assert not findings, (seed, findings)

    def tests(self):
        """One for each program."""
        named = [name for name in self.kinds if self.kinds[name] not in OPTIONS]
        return ([(f"{name}_is_found", lambda name=name: self.bad(name)) for name in named]
                + [(f"{name}_without_it", lambda name=name: self.good(name)) for name in named])

    # ---- The command

    def there_are_enough(self):
        """Thirty programs at least, and three for each kind of finding."""
        assert len(self.kinds) >= 30, len(self.kinds)
        sorts = {"1": {"race"}, "2": {"use-before-allocation", "use-after-free", "use-after-exporters-free"},
                 "3": {"free-without-order"}, "4": {"event-gone", "event-recorded-again", "event-not-recorded"},
                 "5": {"free-before-close", "freed-twice", "import-not-closed", "leak", "holder-died"},
                 "6": {"cycle"}, "7": {"use-after-fork", "closed-in-use", "event-destroyed"}}
        for sort, kinds in sorts.items():
            assert sum(kind in kinds for kind in self.kinds.values()) >= 3, sort

    def a_message_is_an_order_unless_strict(self):
        """By default a call that returned before another began comes before it; --strict wants to be told."""
        assert not self.check("own_channel", "bad")
        assert not self.check("own_channel", "good", "--strict")
        kinds = {finding["kind"] for finding in self.check("own_channel", "bad", "--strict")}
        assert kinds & {"race", "use-before-allocation"}, kinds

    def exact_compares_the_bytes_that_kernels_use(self):
        """Two kernels on parts of a block are a finding if the parts meet; without the option it is not known."""
        assert not self.check("kernels_on_parts", "bad")
        assert [finding["kind"] for finding in self.check("kernels_on_parts", "bad", "--exact")] == ["race"]
        assert not self.check("kernels_on_parts", "good", "--exact", "--delay=1")
        # By what it may do the first would be a mistake of the second kind.
        assert self.check("kernels_on_parts", "good", "--strict")
        for name in ("kernel_in_ptx", "kernel_in_fat_binary", "kernel_without_a_flag"):
            assert [finding["kind"] for finding in self.check(name, "bad", "--exact")] == ["race"], name
            assert not self.check(name, "good", "--exact"), name

    def a_report_says_where_and_how_to_mend_it(self):
        """In plain words, on standard error."""
        done = self.run(self.programs, "fill_and_read", "bad")
        assert done.returncode == 1 and not done.stdout, done
        for part in ("1: race", "reads 64 KiB of the block of 64 KiB", "nothing orders them",
                     "Record an event after the fill", "cuMemsetD8Async", "cuMemcpyDtoHAsync", "1 finding in 2 processes"):
            assert part in done.stderr, (part, done.stderr)

    def a_page_draws_them(self):
        """All tags are closed, and nothing is loaded."""
        page = self.folder / "check.html"
        self.run("--html", page, self.programs, "ring", "bad")
        text = page.read_text(encoding="utf-8")
        parsed = Page(text)
        assert not parsed.open and "svg" in parsed.seen and "no order" in text, parsed.open
        assert "http" not in text and "src=" not in text

    def findings_can_be_suppressed(self):
        """By kind and place."""
        patterns = self.folder / "patterns"
        for line, status in (("race fill", 0), ("race", 0), ("* read_*", 0), ("leak", 1), ("race nowhere", 1)):
            patterns.write_text(f"# known\n{line}\n", encoding="utf-8")
            done = self.run("--suppress", patterns, self.programs, "fill_and_read", "bad")
            assert done.returncode == status, (line, done.stderr)
            assert status or "1 suppressed" in done.stderr, done.stderr

    def ctrl_c_says_who_waits(self):
        """As a timeout does."""
        command = [self.cenote, "check", self.programs, "cycle_of_values", "bad"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.environment(), start_new_session=True) as process:
            for _ in range(2):  # both have submitted what they wait for
                assert process.stdout.readline() == "submitted\n"
            process.send_signal(signal.SIGINT)
            text = process.communicate(timeout=LIMIT_S)[1]
        assert process.returncode == 1 and "These wait for each other" in text, text
        assert text.count("stream 1 of") == 2 and "'flags'" in text, text

    def usage_and_statuses(self):
        """2 for wrong usage, 127 for no program; a program's own status."""
        for words, status in ((("--timeout", "x", "true"), 2), (("--delay=x", "true"), 2), ((), 2), (("--html",), 2),
                              (("--suppress", "/nonexistent", "true"), 1), (("/nonexistent",), 127),
                              (("sh", "-c", "exit 7"), 7), (("true",), 0)):
            assert self.run(*words).returncode == status, words

    def delays_can_be_repeated(self):
        """Without a number one is chosen, and printed."""
        done = self.run("--delay", self.programs, "ring", "good")
        assert done.returncode == 0 and "cenote check: --delay=" in done.stderr, done.stderr


def main(build, programs, *rest):
    """Runs the tests."""
    with tempfile.TemporaryDirectory(prefix="cenote-check-") as folder:
        test = Test(build, programs, folder)
        if rest[:1] == ("--twins",):
            named = [name for name in test.kinds if test.kinds[name] not in OPTIONS]
            return run_tests([(name, lambda name=name: test.twins(name, int(rest[1]))) for name in named])
        return run_tests(test.tests() + by_name(
            test.there_are_enough, test.a_message_is_an_order_unless_strict,
            test.exact_compares_the_bytes_that_kernels_use, test.a_report_says_where_and_how_to_mend_it,
            test.a_page_draws_them, test.findings_can_be_suppressed, test.ctrl_c_says_who_waits,
            test.usage_and_statuses, test.delays_can_be_repeated))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
