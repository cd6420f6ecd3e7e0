#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of whose functions a program calls under `cenote run` on a GPU.

    bindings_test.py BUILD_DIRECTORY DRIVER C_COMPILER...

There the runtime is NVIDIA's own, always: it was told of the program's kernels, and Cenote's was not. So every cuda* of
a program, of a library that it was linked with and of one that it opens must lead to the libcudart.so.13 that the program
brings, and every cu* to Cenote. The dynamic linker is asked (LD_DEBUG=bindings), and the functions are called.

DRIVER is the library that stands for NVIDIA's driver (tests/driver). The runtime is one that is made here, with NVIDIA's
name and symbol versions; where a CUDA toolkit is installed, NVIDIA's own as well.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from command_test import HEADERS, Command, Skip, by_name, run, run_tests

# What stands for NVIDIA's runtime. Its answers are nobody else's. It finds the driver as NVIDIA's does.
RUNTIME = r"""
#include <dlfcn.h>
int cudaMalloc(void **memory, unsigned long bytes) { return memory && bytes ? 7001 : 7000; }
int cudaLaunchKernel(void) { return 7002; }
int cudaRuntimeGetVersion(int *version) { *version = 7003; return 0; }
void **__cudaRegisterFatBinary(void *binary) { return binary; }
int cudaFree(void *memory)
{
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuInit");
	return memory || !init ? 7005 : init(0);
}
"""

# A part of a program: it calls the runtime and the driver. WHO makes its name.
PART = r"""
#include <stdio.h>
#define JOIN(a, b) a##b
#define NAME(who) JOIN(part_, who)
int cudaMalloc(void **, unsigned long);
int cudaLaunchKernel(const void *);
int cudaRuntimeGetVersion(int *);
int cudaFree(void *);
void **__cudaRegisterFatBinary(void *);
int cuInit(unsigned);
int cuDeviceGetCount(int *);
int NAME(WHO)(int call);
int NAME(WHO)(int call)
{
	int count = 0, version = 0, result = cudaRuntimeGetVersion(&version);
	void *memory = NULL;
	if (!call)
		return result | (version == 0) | (__cudaRegisterFatBinary == NULL) | (cudaLaunchKernel == NULL) |
		       (cudaMalloc == NULL) | (cudaFree == NULL) | (cuInit == NULL) | (cuDeviceGetCount == NULL);
	printf("%d %d %d ", version, cudaMalloc(&memory, 1), cudaLaunchKernel(NULL));
	printf("%d ", __cudaRegisterFatBinary(&count) == (void **)&count);
	printf("%d ", cudaFree(NULL));
	printf("%d ", cuInit(0));
	result = cuDeviceGetCount(&count);
	printf("%d\n", result | (count == 0));
	return 0;
}
"""

MAIN = r"""
#include <dlfcn.h>
#include <stdio.h>
int part_linked(int call);
#ifdef WHO
int part_program(int call);
#else
#define part_program(call) 0
#define part_linked(call) 0
#endif
int main(int count, char **words)
{
	int call = count > 2, results = part_program(call) | part_linked(call);
	void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
	int (*part)(int) = library ? (int (*)(int))dlsym(library, "part_opened") : NULL;
	if (!part)
		return puts(dlerror());
	printf("results %d\n", results | part(call));
	return 0;
}
"""

# A library with a runtime inside, as nvcc links it in, here with names that others can see.
STATIC = r"""
int cudaMalloc(void **memory, unsigned long bytes) { return memory && bytes ? 8001 : 8000; }
int part_opened(int call);
int part_opened(int call) { void *memory; return cudaMalloc(&memory, (unsigned long)call + 1) != 8001; }
"""

# Linked with Cenote itself, under a preloaded libcuda.so.1 of Cenote's.
ONE_STATE = r"""
#include <cenote.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <cuda_runtime_api.h>
int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const char *(*said)(void) = (const char *(*)(void))dlsym(driver, "cenote_last_error");
	int (*count_devices)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount"), count = 0;
	int before = count_devices(&count), runtime = cudaGetDeviceCount(&count), after = count_devices(&count);
	cudaFree((void *)1);
	printf("before %d, runtime %d, after %d, devices %d, kind %s, ", before, runtime, after, count, cenote_device_kind());
	printf("same sentence %d\n", said() == cenote_last_error() && *said());
	return 0;
}
"""

OLD_PROGRAM = r"""
#include <cenote.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void)
{
	void *memory = NULL;
	int count = 0, results = cuInit(0) | cuDeviceGetCount(&count) | cudaMalloc(&memory, 64) | cudaFree(memory);
	printf("results %d, devices %d, kind %s\n", results, count, cenote_device_kind());
	return 0;
}
"""


class Bindings:
    """Programs and libraries in a folder, and the dynamic linker's word on them."""

    def __init__(self, build, driver, compiler, folder):
        self.command = Command(build, compiler, folder)
        self.build, self.driver, self.compiler, self.folder = Path(build), driver, compiler, Path(folder)
        self.libcuda = self.command.make_stub("libcuda.so.1", ["cuInit", "cuDeviceGetCount"])
        self.libcuda = self.libcuda.rename(self.folder / "libcuda-stub.so")

    def make_library(self, name, source, *arguments):
        """A shared library of a source."""
        (self.folder / f"{name}.c").write_text(source)
        run(*self.compiler, "-shared", "-fPIC", "-fno-builtin", self.folder / f"{name}.c", *arguments, "-o",
            self.folder / name)
        return self.folder / name

    def make_runtime(self):
        """What stands for NVIDIA's libcudart.so.13, in a folder of its own."""
        script = self.folder / "runtime.map"
        script.write_text("libcudart.so.13 { global: cuda*; __cuda*; local: *; };\n")
        library = self.make_library("libcudart.so.13", RUNTIME, "-ldl", "-Wl,-soname,libcudart.so.13",
                                    f"-Wl,--version-script={script}")
        (self.folder / "runtime").mkdir(exist_ok=True)
        return library.rename(self.folder / "runtime" / "libcudart.so.13")

    def make_program(self, name, libcudart, calls_cuda=True):
        """A program in three parts: itself, a library that it is linked with, and one that it opens."""
        flags = ["-Wl,--no-as-needed", libcudart, self.libcuda, f"-Wl,-rpath,{libcudart.parent}",
                 "-Wl,--allow-shlib-undefined"]
        linked = self.make_library(f"{name}-linked.so", PART, "-DWHO=linked", *flags)
        self.make_library(f"{name}-opened.so", PART, "-DWHO=opened", *flags)
        (self.folder / f"{name}.c").write_text(MAIN + (PART if calls_cuda else ""))
        parts = ["-DWHO=program", linked, *flags, f"-Wl,-rpath,{self.folder}"] if calls_cuda else []
        run(*self.compiler, self.folder / f"{name}.c", *parts, "-ldl", "-o", self.folder / name)
        return [self.folder / name, self.folder / f"{name}-opened.so"]

    def run_on_gpu(self, *words, command="run", **variables):
        """What a program prints under `cenote run` on a GPU."""
        text, complaint = run(self.command.cenote, command, *words, CENOTE_LIBCUDA=self.driver, CENOTE_DEVICE="cuda",
                              **variables)
        assert not complaint or command == "trace", complaint
        return text

    def bindings(self, *program):
        """Who binds which name of CUDA's to what: (from, to, name), of file names."""
        prefix = self.folder / "bindings"
        text = self.run_on_gpu("env", "LD_DEBUG=bindings", "LD_BIND_NOW=1", f"LD_DEBUG_OUTPUT={prefix}", *program)
        assert text == "results 0\n", text
        found = set()
        for file in self.folder.glob("bindings.*"):
            lines = file.read_text(errors="replace")
            file.unlink()
            for source, target, name in re.findall(r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `(\w+)'", lines):
                if re.match(r"(__)?cu", name):
                    found.add((Path(source).name, str(Path(target).resolve()), name))
        return found

    def check_bindings(self, program, libcudart, parts):
        """All cuda* lead to the program's own runtime, all cu* to Cenote, for each of its parts."""
        seen = set()
        for source, target, name in self.bindings(*program):
            if re.match(r"(__)?cuda", name):
                assert target == str(libcudart.resolve()), f"{source}: {name} is {target}'s"
            elif source != libcudart.name and not source.startswith("libc"):
                assert Path(target).name in ("libcuda.so.1", "libcenote-driver.so.1"), f"{source}: {name} is {target}'s"
                assert str(self.build.resolve()) in target, target
            seen.add((source, name))
        for part in parts:
            for name in ("cudaMalloc", "cudaLaunchKernel", "__cudaRegisterFatBinary", "cuInit", "cuDeviceGetCount"):
                assert (part, name) in seen, f"nothing is said of {part}'s {name}: {sorted(seen)}"

    def the_runtime_is_the_programs_own(self):
        """A program, a library that it is linked with, and one that it opens."""
        libcudart = self.make_runtime()
        program = self.make_program("whole", libcudart)
        self.check_bindings(program, libcudart, ["whole", "whole-linked.so", "whole-opened.so"])
        text = self.run_on_gpu(*program, "call")
        assert text == "7003 7001 7002 1 0 0 0\n" * 3 + "results 0\n", text

    def the_runtime_is_that_of_an_opened_library(self):
        """The program itself has no CUDA, as Python: a library that it opens brings the runtime."""
        libcudart = self.make_runtime()
        program = self.make_program("python", libcudart, calls_cuda=False)
        self.check_bindings(program, libcudart, ["python-opened.so"])
        text = self.run_on_gpu(*program, "call")
        assert text == "7003 7001 7002 1 0 0 0\nresults 0\n", text

    def the_runtime_is_nvidias(self):
        """The same with NVIDIA's own runtime."""
        nvcc = shutil.which("nvcc")
        home = os.environ.get("CUDA_PATH") or (nvcc and Path(nvcc).resolve().parent.parent)
        if not home:
            raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
        folders = ("lib64", "lib", "targets/x86_64-linux/lib")
        libcudart = next((Path(home, folder, "libcudart.so.13") for folder in folders
                          if Path(home, folder, "libcudart.so.13").exists()), None)
        if not libcudart:
            raise Skip("the CUDA toolkit here has no libcudart.so.13")
        program = self.make_program("nvidia", libcudart)
        self.check_bindings(program, libcudart, ["nvidia", "nvidia-linked.so", "nvidia-opened.so"])

    def a_runtime_inside_stays_inside(self):
        """A library with a runtime of its own calls that, although its names can be seen."""
        self.make_library("static.so", STATIC)
        (self.folder / "static.c").write_text(MAIN)
        run(*self.compiler, self.folder / "static.c", "-ldl", "-o", self.folder / "static")
        found = self.bindings(self.folder / "static", self.folder / "static.so")
        ours = {(source, target) for source, target, name in found if name == "cudaMalloc"}
        assert ours == {("static.so", str((self.folder / "static.so").resolve()))}, ours

    def a_traced_runtime_is_the_programs_own(self):
        """cenote trace stands in front of the runtime, and hands each call to the one that the program brings."""
        libcudart = self.make_runtime()
        for name, calls_cuda, count in (("traced", True, 3), ("traced-python", False, 1)):
            program = self.make_program(name, libcudart, calls_cuda)
            text = self.run_on_gpu("-o", self.folder / "trace.json", *program, "call", command="trace")
            assert text.startswith("7003 7001 7002 1 0 0 0\n" * count + "results 0\n"), text

    def there_is_one_state(self):
        """A program that is linked with Cenote, and runs under it, has one Cenote."""
        (self.folder / "state.c").write_text(ONE_STATE)
        libraries = self.build / "lib"
        run(*self.compiler, f"-I{HEADERS}", self.folder / "state.c", f"-L{libraries}", "-lcenote", "-ldl",
            f"-Wl,-rpath,{libraries}", "-o", self.folder / "state")
        for variables in ({}, {"CENOTE_DEVICE": "cuda", "CENOTE_LIBCUDA": self.driver}):
            kind = "cuda" if variables else "host"
            text, _ = run(self.command.cenote, "run", "--device", kind, "env", "LD_PRELOAD="
                          + str(self.build / "lib" / "dropin" / "libcuda.so.1"), self.folder / "state",
                          CENOTE_HOST_DEVICES="2", **variables)
            assert text == ("before 3, runtime 0, after 0, devices 2, "
                            f"kind {kind}, same sentence 1\n"), text

    def old_programs_run(self):
        """A program that was linked when libcenote.so.1 had all functions."""
        names = {"CENOTE_1": ["cuInit", "cuDeviceGetCount", "cenote_device_kind"],
                 "libcudart.so.13": ["cudaMalloc", "cudaFree"]}
        script = self.folder / "old.map"
        script.write_text("".join(f"{node} {{ global: {'; '.join(group)}; }};\n" for node, group in names.items()))
        old = self.make_library("old.so", "".join(f"void {name}(void) {{}}\n" for group in names.values()
                                                  for name in group),
                                "-Wl,-soname,libcenote.so.1", f"-Wl,--version-script={script}")
        (self.folder / "old.c").write_text(OLD_PROGRAM)
        run(*self.compiler, f"-I{HEADERS}", self.folder / "old.c", old, "-o", self.folder / "old")
        text, _ = run(self.folder / "old", LD_LIBRARY_PATH=str(self.build / "lib"), CENOTE_DEVICE="host")
        assert text == "results 0, devices 1, kind host\n", text


def main(build, driver, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        bindings = Bindings(build, driver, compiler, folder)
        return run_tests(by_name(
            bindings.the_runtime_is_the_programs_own, bindings.the_runtime_is_that_of_an_opened_library,
            bindings.the_runtime_is_nvidias, bindings.a_runtime_inside_stays_inside,
            bindings.a_traced_runtime_is_the_programs_own, bindings.there_is_one_state, bindings.old_programs_run))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
