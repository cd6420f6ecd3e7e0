#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Prints scripts/nvidia_names.txt: the names that NVIDIA's libraries export, read from the dynamic symbol tables.

    nvidia_names.py LIBCUDA LIBCUDART LIBNVML NVML_H LIBCUDART12 > scripts/nvidia_names.txt

LIBCUDA is a driver's libcuda.so.1 or the toolkit's stub of it (lib64/stubs/libcuda.so), LIBCUDART the toolkit's
libcudart.so.13, LIBNVML a driver's libnvidia-ml.so.1, of whatever version, NVML_H the header nvml.h of CUDA 13: its
names are those of a younger library. LIBCUDART12 is the libcudart.so.12 of CUDA 12.4.
"""

import re
import subprocess
import sys
from pathlib import Path

# What the last versions of CUDA 12 brought and CUDA 13 has unchanged.
AFTER_12_4 = """
cudaGetDriverEntryPointByVersion cudaGetDriverEntryPointByVersion_ptsz cudaKernelSetAttributeForDevice
cudaLibraryEnumerateKernels cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount cudaLibraryGetManaged
cudaLibraryGetUnifiedFunction cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryUnload cudaStreamGetDevice
cudaStreamGetDevice_ptsz
""".split()


def exported(library):
    """The functions that a shared library exports, sorted, without their versions."""
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in table.splitlines())
    return sorted({row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi"})


def declared(header):
    """The functions that a header of NVML declares, sorted."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", Path(header).read_text(errors="replace"), flags=re.S)
    return sorted(set(re.findall(r"\b(nvml[A-Z]\w+) *\(", text)))


def main():
    """Prints the libraries' names."""
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    print("# What NVIDIA's libcuda.so.1 (driver) and libcudart.so.13 (runtime) of CUDA 13.0 export, libnvidia-ml.so.1"
          " (nvml), and\n# libcudart.so.12 (runtime12: of CUDA 12.4; later12). Made by scripts/nvidia_names.py LIBCUDA"
          " LIBCUDART LIBNVML NVML_H\n# LIBCUDART12.")
    libraries = {"driver": exported(sys.argv[1]), "runtime": exported(sys.argv[2]),
                 "nvml": sorted({*exported(sys.argv[3]), *declared(sys.argv[4])}),
                 "runtime12": exported(sys.argv[5]), "later12": AFTER_12_4}
    for owner, names in libraries.items():
        for name in names:
            print(owner, name)


if __name__ == "__main__":
    main()
