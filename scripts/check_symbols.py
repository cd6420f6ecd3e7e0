#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of what a built library shows to programs.

    check_symbols.py cenote-driver LIBRARY API_LIST LIST...  libcenote-driver.so: exactly what the lists say
    check_symbols.py cenote LIBRARY API_LIST NAME...         libcenote.so: the runtime's functions and these names
    check_symbols.py driver LIBRARY API_LIST NAMES           the drop-in libcuda.so.1: every name of NVIDIA's
    check_symbols.py runtime LIBRARY API_LIST NAMES          the drop-in libcudart.so.13: every name of NVIDIA's, with
                                                             its symbol version
    check_symbols.py runtime12 LIBRARY API_LIST NAMES        the same of the drop-in libcudart.so.12
    check_symbols.py nvml LIBRARY API_LIST NAMES             libnvidia-ml.so.1: every name of NVIDIA's

A drop-in may have its symbols from a library that it needs itself; it is loaded and asked, as a program would. It must
show no other names of its own but cenote_… What is loaded with libcuda.so.1 has no name of the runtime's at all: on a
GPU it stands in front of programs whose runtime is NVIDIA's.
"""

import ctypes
import subprocess
import sys

import generate_api

VERSION = {"driver": None, "runtime": b"libcudart.so.13", "runtime12": b"libcudart.so.12", "nvml": None}


def exported(library):
    """The names in a library's dynamic symbol table, without its version nodes."""
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in table.splitlines())
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def found_and_unfound(library, names, version):
    """The names that the dynamic linker finds when it starts from a library, and those that it does not."""
    ctypes.CDLL(library)
    process = ctypes.CDLL(None)
    process.dlopen.restype = ctypes.c_void_p
    process.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    process.dlsym.restype = process.dlvsym.restype = ctypes.c_void_p
    process.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    process.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    handle = process.dlopen(library.encode(), 2)
    found = {name for name in names if (process.dlvsym(handle, name.encode(), version) if version
                                        else process.dlsym(handle, name.encode()))}
    return found, sorted(set(names) - found)


def point(number, title, complaints):
    """Prints a test point; True when it passed."""
    for line in complaints:
        print(f"# {line}")
    print(f"{'not ok' if complaints else 'ok'} {number} - {title}")
    return not complaints


def main(kind, library, api_list, *others):
    """Checks one library; True when all is well."""
    functions = generate_api.read_list(api_list)
    shown = exported(library)
    print("1..2")
    if kind.startswith("cenote"):
        own, layer = list(others), "runtime"
        if kind == "cenote-driver":
            own, layer = [name for file in others for name in generate_api.read_plain(file)], "driver"
        expected = set(generate_api.all_symbols(functions, layer) + own)
        absent = sorted(expected - shown)
        extra = sorted(shown - expected)
    else:
        expected = set(generate_api.read_names(others[0], kind)) | set(generate_api.all_symbols(functions, kind))
        if kind == "runtime12":
            expected = set(generate_api.read_names12(others[0]))
        _, absent = found_and_unfound(library, sorted(expected), VERSION[kind])
        extra = sorted(name for name in shown - expected if not name.startswith("cenote_"))
        if kind == "driver":
            runtime = generate_api.read_names(others[0], "runtime") + generate_api.all_symbols(functions, "runtime")
            extra += sorted(found_and_unfound(library, runtime, None)[0])
    good = point(1, f"{len(expected)} symbols are there", [f"{name} is absent" for name in absent])
    return point(2, "no other symbol is visible", [f"{name} should not be visible" for name in extra]) and good


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("cenote", "cenote-driver", *VERSION):
        sys.exit(__doc__)
    sys.exit(0 if main(*sys.argv[1:]) else 1)
