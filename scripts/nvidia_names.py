#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Prints scripts/nvidia_names.txt: the names that NVIDIA's two libraries export, read from the dynamic symbol tables.

    nvidia_names.py LIBCUDA LIBCUDART > scripts/nvidia_names.txt

LIBCUDA is a driver's libcuda.so.1 or the toolkit's stub of it (lib64/stubs/libcuda.so), LIBCUDART the toolkit's
libcudart.so.13.
"""

import subprocess
import sys


def exported(library):
    """The functions that a shared library exports, sorted, without their versions."""
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in table.splitlines())
    return sorted({row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi"})


def main():
    """Prints both libraries' names."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print("# What NVIDIA's libcuda.so.1 (driver) and libcudart.so.13 (runtime) of CUDA 13.0 export.")
    print("# Made by scripts/nvidia_names.py LIBCUDA LIBCUDART.")
    for owner, library in zip(("driver", "runtime"), sys.argv[1:]):
        for name in exported(library):
            print(owner, name)


if __name__ == "__main__":
    main()
