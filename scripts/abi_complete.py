#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the table of the binary interface itself: is it current, does it hold, does it lack anything?

    abi_complete.py ROOT

ROOT is the source tree. Some points need the headers of a CUDA 13.0 toolkit, found by CUDA_PATH or by nvcc on the path;
without one they are skipped. The compilers are $CC and $CXX, or cc and c++.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import abi_table
import c_headers
import generate_api
import generate_typedefs

CUDA_VERSION = 13000
TYPEDEFS = "cudaTypedefs.h"


class Skip(Exception):
    """A point cannot be tested here; the text says why."""


class Checks:
    """The test points. Each returns its complaints, as lines."""

    def __init__(self, root):
        self.root = root
        self.headers = root / "include" / "cenote"
        self.sources = root / "tests" / "abi"
        self.cc = abi_table.compiler()
        self.cxx = shlex.split(os.environ.get("CXX", "c++"))
        self.functions = generate_api.read_list(root / "src" / "api.list")
        self.parsed = {}

    def toolkit(self):
        """The directory of NVIDIA's headers."""
        nvcc = shutil.which("nvcc")
        home = os.environ.get("CUDA_PATH") or (nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
        if not home or not Path(home, "include", "cuda.h").exists():
            raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
        include = Path(home, "include")
        version = re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text(errors="replace"))
        if not version or int(version[1]) != CUDA_VERSION:
            raise Skip(f"the toolkit here is {version[1] if version else 'unknown'}, the table is of {CUDA_VERSION}")
        return include

    def declarations(self, directory):
        """What the headers of a directory declare."""
        if directory not in self.parsed:
            self.parsed[directory] = c_headers.read_headers(self.cc, directory, abi_table.HEADERS)[0]
        return self.parsed[directory]

    def table_is_current(self):
        """the table is what our headers say now"""
        return self.compare_table("table.inc", abi_table.HEADERS)

    def nvml_table_is_current(self):
        """the table of NVML is what our header says now"""
        return self.compare_table("nvml_table.inc", abi_table.NVML_HEADERS)

    def compare_table(self, name, headers):
        """Complaints about a table, compared with the headers."""
        committed = (self.sources / name).read_text().splitlines()
        fresh = abi_table.make_table(self.headers, headers).splitlines()
        stale = [f"only in the table: {line}" for line in sorted(set(committed) - set(fresh))]
        stale += [f"only in the headers: {line}" for line in sorted(set(fresh) - set(committed))]
        if not stale and committed != fresh:
            stale = ["the order of the rows has changed"]
        return stale + (["make abi-table writes it anew"] if stale else [])

    def typedefs_are_current(self):
        """cudaTypedefs.h is what api.list and cuda.h say now"""
        # clang-format has broken the lines.
        texts = ((self.headers / TYPEDEFS).read_text(), generate_typedefs.make_header(self.root))
        committed, fresh = ("".join(text.split()) for text in texts)
        return [] if committed == fresh else ["make abi-table writes it anew"]

    def typedefs_are_nvidias(self):
        """every type of cudaTypedefs.h is NVIDIA's of that name"""
        include = self.toolkit()
        text = re.sub(r"\s+", " ", generate_api.header_text(self.headers / TYPEDEFS))
        types = re.findall(r"typedef [^;]*;", text)
        lines = [f"#include <{include / 'cudaTypedefs.h'}>"]
        lines += [re.sub(r"\bPFN_", "OUR_", line) for line in types]
        names = sorted(set(re.findall(r"\bPFN_\w+", " ".join(types))))
        lines += [f'_Static_assert(__builtin_types_compatible_p({name}, {name.replace("PFN_", "OUR_")}), "{name}");'
                  for name in names]
        done = subprocess.run([*self.cc, "-x", "c", "-std=gnu11", "-w", "-fsyntax-only", "-isystem", str(include), "-"],
                              input="\n".join(lines), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.stdout.splitlines()[:60] if done.returncode else []

    def functions_are_in_table(self):
        """every function of api.list is in the table, with its symbols, and no other"""
        text = (self.sources / "table.inc").read_text()
        rows = {m[0]: m[1:] for m in re.findall(r'^CN_SYMBOL\((\w+), "(\w+)", "(\w+)"\)$', text, re.M)}
        wrong = [f"{name} is in the table and not in api.list"
                 for name in sorted(set(rows) - {f.name for f in self.functions})]
        for function in generate_api.meant_by_headers(self.functions):
            symbol, thread = rows.get(function.name, (None, None))
            # cuGetProcAddress becomes a function inside the header: it has no second symbol.
            expected = {function.symbol + "_ptsz"} if function.name == "cuGetProcAddress" else set()
            expected.add(function.thread if function.thread != "-" else function.symbol)
            if symbol != function.symbol or thread not in expected:
                wrong.append(f"{function.name}: api.list has {function.symbol} {function.thread}, "
                             f"the headers have {symbol} {thread}")
        return wrong

    def symbols_are_nvidias(self):
        """every symbol of api.list is one that NVIDIA's libraries export"""
        names = self.root / "scripts" / "nvidia_names.txt"
        return [f"{library} exports no {symbol}" for library in generate_api.LIBRARIES for symbol in
                sorted(set(generate_api.all_symbols(self.functions, library))
                       - set(generate_api.read_names(names, library)))]

    def run_table_test(self, *options):
        """Compiles abi_test.c against NVIDIA's headers and runs it."""
        return self.compile_table_test(self.toolkit(), *options)

    def nvml_table_holds_for_nvidia(self):
        """NVIDIA's nvml.h says what the table of NVML says"""
        include = self.toolkit()
        if not (include / "nvml.h").exists():
            raise Skip("the toolkit here has no nvml.h")
        return self.compile_table_test(include, "-DCENOTE_ABI_NVML")

    def compile_table_test(self, include, *options):
        """The same for a folder of headers."""
        with tempfile.TemporaryDirectory() as scratch:
            program = os.path.join(scratch, "abi_test")
            command = [*self.cc, "-std=gnu11", "-w", "-isystem", str(include), *options,
                       str(self.sources / "abi_test.c"), "-o", program]
            for step in (command, [program]):
                done = subprocess.run(step, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                if done.returncode != 0:
                    return done.stdout.splitlines()[:60]
        return []

    def table_holds_for_nvidia(self):
        """NVIDIA's headers say what the table says"""
        return self.run_table_test()

    def table_holds_for_nvidia_per_thread(self):
        """NVIDIA's headers say what the table says, with the thread's own default stream"""
        return self.run_table_test(abi_table.PER_THREAD)

    def enums_are_complete(self):
        """our enums have every enumerant of NVIDIA's"""
        theirs = {name: enum for enum in self.declarations(self.toolkit()).enums for name in enum.enumerants}
        wrong = []
        for enum in self.declarations(self.headers).enums:
            other = theirs.get(enum.enumerants[0])
            if other is None:
                wrong.append(f"{enum.name}: NVIDIA's headers do not have {enum.enumerants[0]}")
                continue
            wrong += [f"{enum.name} lacks {name}" for name in other.enumerants if name not in enum.enumerants]
            wrong += [f"{enum.name} should not have {name}" for name in enum.enumerants if name not in other.enumerants]
        return wrong

    def records_are_complete(self):
        """our structs and unions have the members of NVIDIA's"""
        theirs = {record.name: record for record in self.declarations(self.toolkit()).records if record.name}
        wrong = []
        for record in self.declarations(self.headers).records:
            if not record.name:
                continue
            if record.name not in theirs:
                wrong.append(f"{record.name}: NVIDIA's headers do not have it")
                continue
            ours, other = list(member_paths(record.members)), list(member_paths(theirs[record.name].members))
            wrong += [f"{record.name} lacks {path}" for path in other if path not in ours]
            wrong += [f"{record.name} should not have {path}" for path in ours if path not in other]
        return wrong

    def overloads_are_nvidias(self):
        """include_cpp.cc asks for nothing that NVIDIA's C++ headers do not have"""
        include = self.toolkit()
        complaints = []
        for options in ([], [abi_table.PER_THREAD]):
            command = [*self.cxx, "-std=c++14", "-w", "-fsyntax-only", "-isystem", str(include), *options,
                       str(self.sources / "include_cpp.cc")]
            done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            complaints += done.stdout.splitlines()[:30] if done.returncode else []
        return complaints


def member_paths(members, path=""):
    """The members of a record and of those inside it, as a programmer writes them."""
    for member in members:
        where = path + member.name if member.name else ""
        if where:
            yield where
        if member.record and not member.is_array:
            yield from member_paths(member.record.members, where + "." if where else path)


def main(root):
    """Runs all points; True when none failed."""
    checks = Checks(root)
    points = [checks.table_is_current, checks.nvml_table_is_current, checks.nvml_table_holds_for_nvidia,
              checks.typedefs_are_current, checks.typedefs_are_nvidias,
              checks.functions_are_in_table, checks.symbols_are_nvidias,
              checks.table_holds_for_nvidia, checks.table_holds_for_nvidia_per_thread, checks.enums_are_complete,
              checks.records_are_complete, checks.overloads_are_nvidias]
    good = True
    print(f"1..{len(points)}")
    for number, point in enumerate(points, 1):
        try:
            complaints = point()
        except Skip as reason:
            print(f"ok {number} - {point.__doc__} # SKIP {reason}")
            continue
        for line in complaints:
            print(f"# {line}")
        print(f"{'not ok' if complaints else 'ok'} {number} - {point.__doc__}", flush=True)
        good = good and not complaints
    return good


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if main(Path(sys.argv[1])) else 1)
