#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP): every function that Cenote's libraries call is in the seam's list.

    symbols_test.py SEAM_LIST LIBRARY...

A call that is not in the list could fail, and no test would ever see it: add it to seam.inc, with the errors that it
can have, or with the reason why it has none.
"""

import re
import subprocess
import sys
from pathlib import Path


def names_of(libraries, which):
    """The names in the libraries' dynamic symbol tables that are defined, or not."""
    table = subprocess.run(["nm", "-D", which, *libraries], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in table.splitlines() if line and not line.endswith(":")}


def called(libraries):
    """The names that the libraries want of others, as they are in the list."""
    names = names_of(libraries, "--undefined-only") - names_of(libraries, "--defined-only")
    # The C library has names for each standard that a scan or strtol follows, and for calls whose bounds are checked:
    # one of them for all kinds of longjmp.
    names = {re.sub("^__isoc[0-9]+_", "", name) for name in names}
    names = {re.sub("^__longjmp_chk$", "siglongjmp", name) for name in names}
    return {re.sub("^__(.+)_chk$", r"\1", name) for name in names}


def listed(text):
    """The names in the list, and those that are there twice."""
    names = re.findall(r"^SEAM_CALL\([^,]+, (\w+),", text, re.M) + re.findall(r"^SEAM_(?:OWN|NONE)\((\w+),", text, re.M)
    return set(names), {name for name in names if names.count(name) > 1}


def main(list_file, *libraries):
    """Two points; True when both are well."""
    names, twice = listed(Path(list_file).read_text(encoding="utf-8"))
    missing = called(libraries) - names
    print("1..2")
    for name in sorted(missing):
        print(f"# {name} is called, and not in the list")
    print("not ok" if missing else "ok", "1 - every_function_that_is_called_is_listed")
    for name in sorted(twice):
        print(f"# {name} is there twice")
    print("not ok" if twice or not names else "ok", "2 - each_of_them_once")
    return not missing and not twice and names


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
