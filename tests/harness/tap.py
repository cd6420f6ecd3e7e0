# SPDX-License-Identifier: MIT
"""
What tests in Python have in common: they are functions, and their results are printed as TAP.

A test that ends has passed. An assertion that fails, and any other exception, is shown and fails it; Skip says why it
cannot be run here. What a test returns is printed behind its name. With CENOTE_TEST_SKIP all are skipped, for the
reason that it has.
"""

import os
import pty
import signal
import traceback


class Skip(Exception):
    """Why a test cannot be run here."""


def open_terminal():
    """Both ends of a pseudo-terminal."""
    try:
        return pty.openpty()
    except OSError as error:
        raise Skip(f"this machine has no pseudo-terminals: {error}") from None


def show(error):
    """An exception as TAP comments, so that no line of it is taken for a result."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    print(f"# {place.filename}:{place.lineno}: {place.line}")
    for line in f"{type(error).__name__}: {error}".splitlines():
        print(f"# {line}")


def run_tests(tests):
    """Runs tests, each a name and a function; True when all have passed."""
    good = True
    # A shell lets what it starts in the background ignore these, and programs started from here would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    print(f"1..{len(tests)}", flush=True)
    for number, (name, test) in enumerate(tests, 1):
        try:
            if os.environ.get("CENOTE_TEST_SKIP"):
                raise Skip(os.environ["CENOTE_TEST_SKIP"])
            said = test()
            print(f"ok {number} - {name}" + (f": {said}" if said else ""), flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except Exception as error:  # pylint: disable=broad-exception-caught
            good = False
            show(error)
            print(f"not ok {number} - {name}", flush=True)
    return good


def by_name(*functions):
    """Functions as tests that are called as the functions are."""
    return [(function.__name__, function) for function in functions]
