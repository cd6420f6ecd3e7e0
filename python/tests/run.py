#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs a file of tests with pytest, and says in TAP what came of each.

    run.py FILE [pytest's arguments]
"""

import importlib.util
import sys


class Tap:
    """A plugin of pytest's."""

    def __init__(self):
        self.count = 0

    def pytest_collectreport(self, report):
        """A file whose tests are all skipped, because something is not installed."""
        if report.outcome == "skipped":
            self.count += 1
            print(f"\nok {self.count} - {report.nodeid} # SKIP {report.longrepr[2]}")

    def pytest_runtest_logreport(self, report):
        """One line for each test: its call, or the part before or after it that did not go well."""
        if report.when != "call" and report.passed:
            return
        self.count += 1
        name = report.nodeid.split("::", 1)[-1]
        if report.failed:
            print(f"\n{report.longreprtext}\nnot ok {self.count} - {name} ({report.when})")
        elif report.skipped:
            print(f"\nok {self.count} - {name} # SKIP {report.longrepr[2]}")
        else:
            print(f"\nok {self.count} - {name}")


def main():
    """Exit status 1 if a test failed, or if there was none, not even one that was skipped."""
    missing = [name for name in ("pytest", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"ok 1 - python # SKIP not installed: {' '.join(missing)}\n1..1")
        return 0
    import pytest
    tap = Tap()
    status = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-W", "error", *sys.argv[1:]], plugins=[tap])
    print(f"\n1..{tap.count}")
    skipped = status == pytest.ExitCode.NO_TESTS_COLLECTED and tap.count
    return 1 if status and not skipped else 0


if __name__ == "__main__":  # a process that multiprocessing starts imports this file, too
    sys.exit(main())
