#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP): the documents' programs, built with NVIDIA's headers, do what they do with ours.

    toolkit_test.py BUILD_DIRECTORY HARNESS_LIBRARY C_COMPILER... -- C++_COMPILER...

Each program is linked with Cenote's library and run, then linked with NVIDIA's runtime library and run over the drop-in
ones. Needs a CUDA toolkit, found by CUDA_PATH or by nvcc on the path.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, run_tests  # pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CODE = {"document_1": ["document_1"], "document_2": ["document_1", "document_2"]}
# As in meson.build.
AS_PRINTED = ["-Wno-enum-conversion", "-Wno-int-to-pointer-cast"]
SECONDS_MAX = 120


def run(*command):
    """What a command prints; it must end well."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def toolkit():
    """The folder of a CUDA toolkit."""
    nvcc = shutil.which("nvcc")
    home = os.environ.get("CUDA_PATH") or (nvcc and Path(nvcc).resolve().parent.parent)
    if not home or not Path(home, "include", "cuda_runtime.h").exists():
        raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
    return Path(home)


class Documents:
    """How the programs are built and run."""

    def __init__(self, build, harness, compilers, folder):
        self.build, self.harness, self.compilers, self.folder = Path(build), harness, compilers, Path(folder)

    def compile(self, source, ending):
        """An object of a source, with NVIDIA's headers; of ours, cenote.h alone."""
        compiler = self.compilers[ending]
        if not compiler:
            raise Skip("no C++ compiler here")
        thing = self.folder / f"{source}{ending}.o"
        run(*compiler, "-c", "-g", "-Wall", "-Wextra", "-Werror", *AS_PRINTED, "-D_GNU_SOURCE=1", "-isystem",
            toolkit() / "include", f"-I{ROOT / 'include'}", f"-I{HERE.parent / 'harness'}", HERE / f"{source}{ending}",
            "-o", thing)
        return thing

    def link(self, document, ending, *libraries):
        """A document's program in the language of this ending."""
        things = [self.compile(source, ending) for source in CODE[document]] + [self.compile(f"{document}_test", ".c")]
        program = self.folder / f"{document}{ending}_test"
        run(*self.compilers[ending], *things, "-Wl,--whole-archive", self.harness, "-Wl,--no-whole-archive", *libraries,
            "-pthread", "-o", program)
        return program

    def check(self, *command):
        """A program's tests have passed."""
        text = run(*command)
        if "\nok 1 " not in text or "not ok " in text:
            raise AssertionError(text)

    def with_cenote(self, document, ending):
        """Linked with libcenote.so."""
        folder = self.build / "lib"
        self.check(self.link(document, ending, f"-L{folder}", "-lcenote", f"-Wl,-rpath,{folder}"))

    def over_drop_ins(self, document, ending):
        """Linked with NVIDIA's libcudart.so."""
        libraries = [toolkit() / folder / "libcudart.so" for folder in ("lib64", "lib", "targets/x86_64-linux/lib")]
        library = next((library for library in libraries if library.exists()), None)
        if not library:
            raise Skip("the CUDA toolkit here has no libcudart.so")
        self.check(self.build / "bin" / "cenote", "run", self.link(document, ending, library))


def main(build, harness, *compilers):
    """Runs all; True when none failed."""
    border = compilers.index("--")
    by_ending = {".c": compilers[:border], ".cc": compilers[border + 1:]}
    with tempfile.TemporaryDirectory(prefix="cenote-documents-") as folder:
        documents = Documents(build, harness, by_ending, folder)
        return run_tests([(f"{document}{ending} {way.__name__}", functools.partial(way, document, ending))
                          for way in (documents.with_cenote, documents.over_drop_ins)
                          for document in CODE for ending in by_ending])


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
