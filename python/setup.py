# SPDX-License-Identifier: MIT
"""
Makes a wheel that carries the libraries.

Meson builds them and the extension, as it does everywhere else, and installs them into a folder of its own; what lies
there goes into the package. The extension finds the libraries beside itself. It uses Python's limited API, so the wheel
is for Python 3.11 and all later versions.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "wheel"
OPTIONS = ["-Dbuildtype=release", "-Dtests=false", "-Dpython=enabled", "-Dprefix=/usr", "-Dlibdir=lib"]
PARTS = ("lib/libcenote*.so.1", "lib/**/_cenote.abi3.so")


class BuildWithLibraries(build_py):
    """The package's own files, and what Meson has built."""

    def run(self):
        super().run()
        package = Path(self.build_lib) / "cenote"
        if not (BUILD / "build.ninja").exists():
            subprocess.run(["meson", "setup", *OPTIONS, BUILD, ROOT], check=True)
        subprocess.run(["ninja", "-C", BUILD, "product"], check=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["meson", "install", "-C", BUILD, "--quiet", "--no-rebuild", "--strip", "--destdir", folder],
                           check=True)
            for pattern in PARTS:
                found = [file for file in (Path(folder) / "usr").glob(pattern) if not file.is_symlink()]
                if not found:
                    raise FileNotFoundError(f"Meson has installed no {pattern}")
                for file in found:
                    shutil.copy(file, package / file.name)


class WithLibraries(Distribution):
    """Not for every machine, although setuptools compiles nothing."""

    def has_ext_modules(self):
        return True


setup(
    version=subprocess.check_output([ROOT / "scripts" / "version.sh"], text=True).strip(),
    distclass=WithLibraries,
    cmdclass={"build_py": BuildWithLibraries},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
