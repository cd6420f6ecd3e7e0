#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Installs what was built into a temporary tree, and uses it from there as a stranger would: through pkg-config, through
CMake, and by the command. Prints TAP.

    install_test.py BUILD_DIRECTORY C_COMPILER...
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPECTED = "through the device and back\n"


class Skip(Exception):
    """Why a test cannot be run here."""


def run(*command, **variables):
    """What a command prints; a failure of its own ends the test."""
    done = subprocess.run([str(word) for word in command], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def need(tool):
    """Skip where a tool is missing."""
    if not shutil.which(tool):
        raise Skip(f"{tool} is not installed")


def expect(actual, expected):
    """Compare, and show both."""
    if actual != expected:
        raise AssertionError(f"got {actual!r}, not {expected!r}")


class Tree:
    """A temporary tree with Cenote in it."""

    def __init__(self, directory, build, compiler):
        self.directory, self.build, self.compiler = Path(directory), build, compiler
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", self.directory / "tree")
        package = next((self.directory / "tree").rglob("cenote.pc"))
        self.libraries = package.parent.parent
        self.prefix = next((self.directory / "tree").rglob("include")).parent

    def all_is_in_place(self):
        """The headers, the library under both names, the drop-in libraries where no loader looks, the manual."""
        for name in ("cuda.h", "cuda_runtime_api.h", "cuda_runtime.h", "cenote.h"):
            assert (self.prefix / "include/cenote" / name).exists(), name
        for name in ("libcenote.so", "libcenote.so.1", "cenote/libcuda.so.1", "cenote/libcudart.so.13"):
            assert (self.libraries / name).exists(), name
        expect(sorted(f.name for f in (self.prefix / "include").iterdir()), ["cenote"])
        for name in ("man/man1/cenote.1", "man/man1/cenote-demo.1", "bash-completion/completions/cenote",
                     "zsh/site-functions/_cenote"):
            assert (self.prefix / "share" / name).exists(), name

    def command_runs(self):
        """The command finds its library by itself."""
        assert run(self.prefix / "bin/cenote", "info")

    def pkg_config_works(self):
        """A program is built with what pkg-config says."""
        need("pkg-config")
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        program = self.directory / "program"
        run(*self.compiler, "-include", "cenote.h", HERE / "program.c", *words.split(), "-o", program)
        expect(run(program, LD_LIBRARY_PATH=str(self.libraries)), EXPECTED)

    def readme_works(self):
        """The program in the README, built as the README says, prints what the README says."""
        need("pkg-config")
        text = (HERE.parent.parent / "README.md").read_text()
        source, program = self.directory / "readme.c", self.directory / "readme"
        source.write_text(re.search(r"```c\n(.*?)```", text, re.S)[1])
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        run(*self.compiler, "-Wall", "-Wextra", "-Werror", source, *words.split(), "-o", program)
        lines = run(program, LD_LIBRARY_PATH=str(self.libraries)).splitlines()
        expect(lines[0], re.search(r"host\[3\]\);\s*/\* (.*) \*/", text)[1])
        assert len(lines) == 2 and lines[1].startswith("cudaErrorInvalidValue: no allocation is at 0x"), lines

    def guide_works(self):
        """Each whole program in docs/sharing.md, built as it stands there, prints what the block behind it says."""
        need("pkg-config")
        text = (HERE.parent.parent / "docs/sharing.md").read_text()
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        programs = re.findall(r"```c\n(#include.*?)```.*?```text\n(.*?)```", text, re.S)
        assert programs, "there is no program"
        channels = {"CENOTE_IMEX_DIR": str(self.directory / "channels")}
        run(self.prefix / "bin/cenote", "imex", "create", "0", **channels)
        for code, printed in programs:
            source, program = self.directory / "guide.c", self.directory / "guide"
            source.write_text(code)
            run(*self.compiler, "-Wall", "-Wextra", "-Werror", source, *words.split(), "-o", program)
            expect(run(program, LD_LIBRARY_PATH=str(self.libraries), **channels), printed)

    def cmake_works(self):
        """A program is built by a CMake project."""
        need("cmake")
        run("cmake", "-S", HERE, "-B", self.directory / "cmake", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-Dcenote_DIR={self.libraries / 'cmake/cenote'}", CC=" ".join(self.compiler))
        run("cmake", "--build", self.directory / "cmake")
        expect(run(self.directory / "cmake/program"), EXPECTED)

    def dropin_works(self):
        """A program that was linked against NVIDIA's libraries runs when the command puts ours in front."""
        program = self.directory / "dropin-program"
        stand_ins = [self.stand_in("libcudart.so.13", r"\b(cuda[A-Z]\w+)\(", "libcudart.so.13"),
                     self.stand_in("libcuda.so.1", r"\b(cu[A-Z]\w+)\(", "")]
        run(*self.compiler, HERE / "program.c", f"-I{self.prefix / 'include/cenote'}", *stand_ins, "-o", program)
        expect(run(self.prefix / "bin/cenote", "run", program), EXPECTED)

    def stand_in(self, name, pattern, version):
        """To link with in place of NVIDIA's library: the functions that program.c calls, and their symbol version."""
        names = sorted(set(re.findall(pattern, (HERE / "program.c").read_text())))
        source, script = self.directory / f"{name}.c", self.directory / f"{name}.map"
        source.write_text("".join(f"void {function}(void) {{}}\n" for function in names))
        script.write_text(f"{version} {{ global: {'; '.join(names)}; local: *; }};\n".lstrip())
        run(*self.compiler, "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{name}",
            f"-Wl,--version-script={script}", source, "-o", self.directory / name)
        return self.directory / name


def main():
    """Each method above is a test."""
    tests = ["all_is_in_place", "command_runs", "pkg_config_works", "readme_works", "guide_works", "cmake_works",
             "dropin_works"]
    failed = False
    print(f"1..{len(tests)}")
    with tempfile.TemporaryDirectory(prefix="cenote-install-") as directory:
        tree = Tree(directory, sys.argv[1], sys.argv[2:])
        for number, name in enumerate(tests, 1):
            try:
                getattr(tree, name)()
                print(f"ok {number} - {name}")
            except Skip as reason:
                print(f"ok {number} - {name} # SKIP {reason}")
            except AssertionError as problem:
                print("# " + str(problem).replace("\n", "\n# "))
                print(f"not ok {number} - {name}")
                failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
