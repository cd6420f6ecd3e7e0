#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP): a library takes little of what the C library has for variables of threads.

    thread_storage_test.py BYTES LIBRARY...

Variables that are as fast as ours must have their place when a thread starts, and a library that a program opens later
finds room for 1,664 bytes in glibc, for all such libraries together.
"""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COPIES = 2


def thread_bytes(library):
    """The size of a library's segment of thread-local storage."""
    headers = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True, text=True).stdout
    segment = re.search(r"^ +TLS +(?:0x[0-9a-f]+ +){4}(0x[0-9a-f]+)", headers, re.M)
    return int(segment[1], 16) if segment else 0


def open_late(library):
    """What goes wrong when a process that runs opens some copies of a library."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(COPIES):
            copy = Path(folder) / f"copy{number}.so"
            shutil.copy(library, copy)
            try:
                ctypes.CDLL(str(copy))
            except OSError as error:
                return str(error)
    return ""


def main(most_bytes, *libraries):
    """Asks of all of the libraries together, and of the first by itself; True when all is well."""
    found = sum(thread_bytes(library) for library in libraries)
    trouble = open_late(libraries[0])
    print("1..2")
    if found > int(most_bytes):
        print(f"# {found} bytes of thread-local storage, and {most_bytes} are allowed")
    print(f"{'not ok' if found > int(most_bytes) else 'ok'} 1 - the_libraries_take_little_of_each_thread")
    if trouble:
        print(f"# {trouble}")
    print(f"{'not ok' if trouble else 'ok'} 2 - a_program_opens_two_of_them_late")
    return found <= int(most_bytes) and not trouble


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
