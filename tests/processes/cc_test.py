#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of cenote cc: CUDA C++ from its source to running, without NVIDIA's software.

    cc_test.py BUILD_DIRECTORY DRIVER

DRIVER is the library that stands for NVIDIA's driver (tests/driver). CENOTE_TEST_CLANGS names the compilers to try,
with spaces between; without it that is the one that the command finds. Where there is none, only the command line is
tried, with a compiler that is a script.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from command_test import by_name, contains, environment, run, run_tests
from tap import Skip

# A compiler that says what it was asked, and makes what it was asked for.
FAKE_CLANG = r"""#!/bin/sh
case $* in
--version) echo "Fake clang version $VERSION.0.1 (for tests)"; exit 0 ;;
esac
if [ -n "$STARTED" ]; then
	exec 9>"$STARTED" # a pipe: its reader knows that this runs, and when it ends
	echo $$ >&9
	trap 'exit 1' TERM INT HUP # what it has written stays, under another name than -o says, too
fi
while [ $# -gt 0 ]; do
	[ "$1" != -o ] || out=$2
	shift
done
printf '//\n.version 7.5\n.target sm_75\n%s\n' "$EXTRA" >"$out"
[ -z "$STARTED" ] || : >"$out-77.tmp"
[ -z "$STARTED" ] || while :; do sleep 1; done
"""

PROGRAM = r"""
#include <cstdio>
#include <vector>
#include "factor.h"
__constant__ int offset = 7;
__device__ int total;
template <class T> __global__ void scale(const T *from, T *to, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		to[i] = from[i] * FACTOR + offset;
	if (i < count)
		atomicAdd(&total, 1);
	if (i == 0)
		printf("the first of %d\n", count);
}
int host_part(int value);
int main()
{
	const int count = 1000;
	std::vector<int> numbers(count);
	int *from, *to, answer = 0;
	for (int i = 0; i < count; i++)
		numbers[i] = i;
	cudaMalloc(&from, count * sizeof(int));
	cudaMalloc(&to, count * sizeof(int));
	cudaMemcpy(from, numbers.data(), count * sizeof(int), cudaMemcpyHostToDevice);
	scale<<<dim3(4), 256>>>(from, to, count);
	cudaMemcpy(numbers.data(), to, count * sizeof(int), cudaMemcpyDeviceToHost);
	cudaMemcpyFromSymbol(&answer, total, sizeof answer);
	printf("%d %d %d %d %s\n", numbers[0], numbers[999], answer, host_part(answer),
	       cudaGetErrorString(cudaGetLastError()));
	cudaFree(from);
	cudaFree(to);
	return 0;
}
"""
EXPECTED = "the first of 1000\n7 3004 1000 1001 no error\n"
HOST_PART = "#include <cuda_runtime.h>\nint host_part(int value) { return value + 1; }\n"

FAULT = r"""
__global__ void store_at(int *where)
{
	where[threadIdx.x] = 1; // line 4
}
int main()
{
	store_at<<<1, 32>>>((int *)16);
	return cudaDeviceSynchronize() != cudaErrorIllegalAddress;
}
"""

# A shared variable whose address nobody takes: clang 14 would read it before the barrier.
BARRIER = r"""
__global__ void spread(const int *from, int *to)
{
	__shared__ int one;
	if (threadIdx.x == 0)
		one = from[blockIdx.x];
	__syncthreads();
	to[blockIdx.x * blockDim.x + threadIdx.x] += one;
}
int main()
{
	int *from, *to, errors = 0;
	if (cudaMallocManaged(&from, 4 * sizeof *from) || cudaMallocManaged(&to, 4 * 64 * sizeof *to))
		return 1;
	for (int i = 0; i < 4 * 64; i++)
		from[i / 64] = 7 + i / 64, to[i] = i;
	spread<<<4, 64>>>(from, to);
	if (cudaDeviceSynchronize())
		return 1;
	for (int i = 0; i < 4 * 64; i++)
		errors += to[i] != i + 7 + i / 64;
	return errors != 0;
}
"""

BREAKPOINT = r"""
__global__ void stops(int *numbers)
{
	numbers[threadIdx.x] = threadIdx.x;
	if (threadIdx.x == 5)
		__brkpt(); // line 6
}
int main()
{
	int *numbers;
	cudaMallocManaged(&numbers, 32 * sizeof *numbers);
	stops<<<1, 32>>>(numbers);
	return cudaDeviceSynchronize() || numbers[5] != 5;
}
"""

# Two files that need each other's device code; both have a function and a variable of their own, called the same.
PART_ONE = r"""
#include <cstdio>
extern __device__ int counter;
__device__ int helper(int number);
static __device__ int own = 100;
static __device__ __attribute__((noinline)) int add(int number) { return number + own; }
__global__ void first(int *number) { *number = add(helper(*number)) + counter; }
int second_part(int *number);
extern "C" int ENTRY()
{
	int *number, result;
	if (cudaMallocManaged(&number, sizeof *number))
		return 1;
	*number = 10;
	first<<<1, 1>>>(number);
	cudaError_t error = cudaGetLastError();
	if (error || cudaDeviceSynchronize())
		return 1;
	result = *number;
	return std::printf("%d %d\n", result, second_part(number)) < 0 || cudaFree(number);
}
"""
PART_TWO = r"""
__device__ int counter = 5;
static __device__ int own = 1000;
static __device__ __attribute__((noinline)) int add(int number) { return number + own; }
__device__ int helper(int number) { return 2 * number; }
__global__ void second(int *number) { *number = add(++counter); }
int second_part(int *number)
{
	second<<<1, 1>>>(number);
	return cudaDeviceSynchronize() ? -1 : *number;
}
"""

MODULE_PROGRAM = r"""
#include <cuda.h>
#include <cstdio>
int main(int, char **arguments)
{
	CUcontext context;
	CUmodule module;
	CUfunction function;
	CUdeviceptr block;
	int number = 5;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&block, 4) ||
	    cuMemcpyHtoD(block, &number, 4) || cuModuleLoad(&module, arguments[1]) ||
	    cuModuleGetFunction(&function, module, "twice"))
		return 1;
	void *parameters[] = {&block};
	if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0) || cuMemcpyDtoH(&number, block, 4))
		return 2;
	return std::printf("%d\n", number) < 0;
}
"""


class Compiler:
    """The command, and a folder for programs."""

    def __init__(self, build, driver, folder):
        self.cenote, self.driver, self.folder = Path(build) / "bin/cenote", driver, Path(folder)
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def cc(self, *words, status=0, **variables):
        """What cenote cc prints on both channels. It leaves no temporary file."""
        said = run(self.cenote, "cc", *words, status=status, TMPDIR=str(self.temporary), **variables)
        assert not list(self.temporary.iterdir()), list(self.temporary.iterdir())
        return said

    def write(self, name, text):
        """A file; its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def fake(self, name="fake-clang"):
        """Variables with which a script is the compiler."""
        script = self.write(name, FAKE_CLANG)
        script.chmod(0o755)
        return {"CENOTE_CLANG": str(script), "VERSION": "14"}

    def clangs(self):
        """Variables for each compiler to try."""
        names = os.environ.get("CENOTE_TEST_CLANGS", "").split()
        if names:
            return [{"CENOTE_CLANG": name} for name in names]
        if not any(shutil.which(name) for name in ["clang", *(f"clang-{version}" for version in range(14, 23))]):
            raise Skip("there is no clang")
        source = self.write("probe.cu", "__global__ void nothing() {}\n")
        try:
            self.cc("--ptx", source, "-o", self.folder / "probe.ptx")
        except AssertionError as error:
            if "nvptx" in str(error).lower() and "target" in str(error).lower():
                raise Skip("clang does not compile for NVPTX here") from None
            raise
        return [{}]

    # ---- The command line -------------------------------------------------------------------------------------------

    def options_become_those_of_clang(self):
        """gcc's and nvcc's words, for the passes that they concern."""
        _, said = self.cc("--dry-run", "app.cu", "main.cc", "more.o", "-lm", "-lcudart", "-lcuda", "-Wl,-z,now", "-L",
                          "there", "-Xcompiler", "-Wextra,-fPIC", "-gencode", "arch=compute_80,code=sm_80",
                          "--gpu-architecture=sm_86", "-g", "-O", "2", "-DNAME=1", "-I", "include", "--std", "c++14",
                          "-march=native", "-o", "app", "-use_fast_math", "-MD", **self.fake())
        device, note, host, other, link = said.splitlines()
        contains(device, "--cuda-device-only -S", "--cuda-gpu-arch=sm_80", "-O2", "-DNAME=1", "-Iinclude", "-std=c++14",
                 "-gline-directives-only", "-fcuda-approx-transcendentals", "-x cuda app.cu")
        contains(note, "# a fat binary")
        contains(host, "--cuda-host-only", "-Wextra -fPIC -g", "-march=native", "-fcuda-include-gpubinary",
                 "-std=c++14", "-O2", "-MD -MF app.d -MT app.o")
        contains(other, "-x c++ main.cc", "-std=c++14", "-MD -MF main.d -MT main.o")
        contains(link, "--driver-mode=g++", "-Lthere", "-o app", "app.cu.o", "main.cc.o more.o -lm -Wl,-z,now",
                 "libcudart.so.13", "libcenote.so.1", "-Wl,-rpath,")
        for word in ("-march", "-Wextra", "-fPIC", "-MD", " -g "):
            assert word not in device, (word, device)
        assert "cuda" not in other.replace("cuda_runtime.h", ""), other
        assert "-lcudart" not in link and "-lcuda" not in link, link

    def defaults_are_those_of_nvcc(self):
        """sm_75, -O3 for kernels, C++17; a file is named after its source, and lies in the current folder."""
        _, said = self.cc("--dry-run", "-c", "folder/app.cu", **self.fake())
        device, _, host = said.splitlines()
        contains(device, "--cuda-gpu-arch=sm_75", "-O3", "-std=gnu++17")
        contains(host, "-o app.o")
        assert "-O3" not in host, host
        contains(self.cc("--dry-run", "-G", "-c", "app.cu", **self.fake())[1].splitlines()[0], "-O0")
        contains(self.cc("--dry-run", "-ptx", "app.cu", **self.fake())[1], "-o app.ptx")
        contains(self.cc("--dry-run", "--fatbin", "app.cu", **self.fake())[1], ": app.fatbin")
        contains(self.cc("--dry-run", "-x", "cu", "app.cpp", "-c", **self.fake())[1], "-x cuda app.cpp")

    def refuses_with_a_sentence(self):
        """What is not supported, wrong or unknown is named."""
        for words, part in (([], "no file"), (["-c"], "no file"), (["--frobnicate", "a.cu"], "'--frobnicate'"),
                            (["--dryrum", "a.cu"], "did you mean '--dry-run'?"),
                            (["-rdc=perhaps", "a.cu"], "'perhaps'"),
                            (["-dlink", "a.o"], "when the program runs"), (["-cubin", "a.cu"], "machine code"),
                            (["-arch=abc", "a.cu"], "'abc'"), (["a.cu", "-o"], "-o takes a value"),
                            (["-c", "a.cu", "b.cu", "-o", "x"], "there are 2"), (["@file"], "response files"),
                            (["--ptx", "a.cc"], "'a.cc' is not a CUDA file"), (["-c", "a.o"], "no file to compile"),
                            (["-x", "java", "a.cu"], "'java'"), (["-m", "32", "a.cu"], "64 bits"),
                            (["a.ptx"], "cuModuleLoad"),
                            (["--default-stream", "per-thread", "a.cu"], "cudaStreamPerThread"),
                            (["-cudart", "magic", "a.cu"], "'magic'"), (["-fmad=perhaps", "a.cu"], "'perhaps'")):
            _, said = self.cc(*words, status=2, **self.fake())
            contains(said, "cenote cc: ", part, "cenote help cc")

    def finds_a_compiler(self):
        """CENOTE_CLANG; else clang, and then those with a number; none, or an old one, is a sentence."""
        fake = self.fake()
        contains(self.cc("--version", **fake)[0], "cenote cc ", "Fake clang version 14.0.1")
        contains(self.cc("--version", status=1, **{**fake, "VERSION": "13"})[1], "is clang 13", "clang 14 or newer")
        contains(self.cc("--version", status=1, CENOTE_CLANG="/bin/true")[1], "'/bin/true', which is not a clang")
        contains(self.cc("--version", status=1, CENOTE_CLANG="/nowhere")[1], "'/nowhere'")
        empty = self.folder / "path"
        empty.mkdir()
        contains(self.cc("--version", status=1, PATH=str(empty))[1], "there is no clang", "apt-get install clang")
        shutil.copy(fake["CENOTE_CLANG"], empty / "clang-17")
        contains(self.cc("--version", PATH=f"{empty}", VERSION="17")[0], "version 17.0.1")
        (empty / "clang").write_text(FAKE_CLANG.replace("$VERSION", "11"))
        (empty / "clang").chmod(0o755)
        contains(self.cc("--version", PATH=f"{empty}", VERSION="17")[0], "version 17.0.1")

    def architectures_are_those_that_clang_knows(self):
        """One that is too new becomes the next lower, with a note; one that is too old is refused."""
        for wanted, version, chosen in (("sm_90a", "14", 86), ("compute_90", "16", 90), ("sm_121", "14", 86),
                                        ("native", "14", 75), ("all-major", "14", 75), ("sm_88", "19", 87),
                                        ("sm_120", "20", 120)):
            _, said = self.cc("--dry-run", "--ptx", f"-arch={wanted}", "a.cu", **{**self.fake(), "VERSION": version})
            contains(said, f"--cuda-gpu-arch=sm_{chosen} ")
            number = re.sub(r"\D", "", wanted)
            assert ("note: clang" in said) == (number not in ("", str(chosen))), said
        contains(self.cc("--ptx", "-arch=sm_35", "a.cu", status=1, **self.fake())[1], "sm_35 is too old")

    def leaves_nothing_after_a_signal(self):
        """The compiler is told, its folder goes, and the command ends by the same signal."""
        source, tells = self.write("slow.cu", ""), self.folder / "tells"
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.mkfifo(tells)
            variables = {**self.fake(), "TMPDIR": str(self.temporary), "STARTED": str(tells)}
            command = [self.cenote, "cc", source, "-o", self.folder / "slow"]
            # The process that runs the tests may ignore these signals, and the command would leave them so.
            with subprocess.Popen(command, env=environment(variables),
                                  preexec_fn=lambda number=number: signal.signal(number, signal.SIG_DFL)) as process:
                with open(tells, encoding="ascii") as started:
                    assert int(started.readline())
                    process.send_signal(number)
                    assert not started.read(), "the compiler was not told"
                assert process.wait() == -number, process.returncode
            tells.unlink()
            assert not list(self.temporary.iterdir()) and not (self.folder / "slow").exists()

    def device_code_is_complete(self):
        """A function or variable of another file is named; those that every device has are not."""
        source, made = self.write("part.cu", ""), self.folder / "part.fatbin"
        for extra, name in ((".extern .func  (.param .b32 func_retval0) _Z6helperi\n(", "function '_Z6helperi'"),
                            (".extern .global .align 4 .u32 counter;", "variable 'counter'"),
                            (".extern .const .align 4 .b8 table[64];", "variable 'table'")):
            contains(self.cc("--fatbin", source, "-o", made, status=1, EXTRA=extra, **self.fake())[1], "part.cu", name)
        for extra in (".extern .func  (.param .b32 func_retval0) vprintf\n(", ".extern .shared .align 4 .b8 room[];"):
            self.cc("--fatbin", source, "-o", made, EXTRA=extra, **self.fake())

    def fat_binaries_are_laid_out_as_nvidias(self):
        """Each field is what NVIDIA's own tool writes, words for its compiler included: the driver needs them."""
        source, made = self.write("part.cu", ""), self.folder / "part.fatbin"
        self.cc("--fatbin", source, "-o", made, "-arch=sm_80", EXTRA="", **self.fake())
        image, text = made.read_bytes(), b"//\n.version 7.5\n.target sm_75\n\n"
        padded = text + b"\0" * (8 - len(text) % 8)
        wanted = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 80 + len(padded))
        wanted += struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 80, len(padded), 0, 64, 5, 7, 80, 0, 0, 0x11, 0, 0)
        wanted += struct.pack("<QQ", 72, 0) + padded
        assert image == wanted, image
        if not shutil.which("fatbinary"):
            return "not compared: there is no toolkit"
        ptx, theirs = self.write("part.ptx", text.decode()), self.folder / "theirs.fatbin"
        run("fatbinary", f"--create={theirs}", "--compress=false", "-64", f"--image3=kind=ptx,sm=80,file={ptx}")
        theirs = theirs.read_bytes()
        assert theirs[:8] + theirs[16:24] + theirs[32:96] == image[:8] + image[16:24] + image[32:96], theirs
        return "compared with NVIDIA's"

    # ---- Programs ---------------------------------------------------------------------------------------------------

    def a_program_runs(self):
        """Two files and an object, with each compiler, and in each standard of C++."""
        clangs = self.clangs()
        app, part = self.write("app.cu", PROGRAM), self.write("part.cc", HOST_PART)
        self.write("factor.h", "#define FACTOR 3\n")
        program = self.folder / "app"
        for clang in clangs:
            self.cc("-c", "-fPIC", part, "-o", self.folder / "part.o", **clang)
            for words in ([], ["-std=c++11", "-O0"], ["-std=c++20", "-O2", "-g", "-MD", "-MF", self.folder / "app.d"]):
                _, said = self.cc(*words, "-Wall", "-Werror", app, self.folder / "part.o", "-o", program, **clang)
                assert not said, said
                said, complaint = run(program, CENOTE_DEVICE="host")
                assert (said, complaint) == (EXPECTED, ""), (said, complaint)
        contains((self.folder / "app.d").read_text(), "app.cu", "factor.h", "app.o:")
        return ", ".join(clang.get("CENOTE_CLANG", "the one that is found") for clang in clangs)

    def it_runs_on_a_gpu_too(self):
        """The same program over a driver: the fat binary is handed to it."""
        if not (self.folder / "app").exists():
            self.a_program_runs()
        said, complaint = run(self.folder / "app", CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=self.driver)
        assert (said, complaint) == (EXPECTED, ""), (said, complaint)

    def a_library_runs(self):
        """-shared: a library with kernels, and a program that gcc has linked with it."""
        for clang in self.clangs():
            source = self.write("library.cu", PROGRAM.replace("int main()", "extern \"C\" int entry()"))
            main = self.write("entry.c", "int entry(void);\nint main(void) { return entry(); }\n")
            self.write("factor.h", "#define FACTOR 3\n")
            self.cc("-shared", "-Xcompiler", "-fPIC", source, self.write("part.cc", HOST_PART), "-o",
                    self.folder / "libentry.so", **clang)
            self.cc(main, "-L", self.folder, "-lentry", f"-Wl,-rpath,{self.folder}", "-o", self.folder / "entry",
                    **clang)
            said, complaint = run(self.folder / "entry", CENOTE_DEVICE="host")
            assert (said, complaint) == (EXPECTED, ""), (said, complaint)

    def files_compiled_apart_are_linked(self):
        """-rdc=true, -dc: within a program and within a library, on the host device and over a driver."""
        one, two = self.write("one.cu", PART_ONE), self.write("two.cu", PART_TWO)
        program, both = self.folder / "apart", self.write("both.cc", 'extern "C" int entry(), other();\n'
                                                          "int main() { return entry() || other(); }\n")
        for clang in self.clangs():
            self.cc("-rdc=true", "-DENTRY=main", one, two, "-o", program, **clang)
            for device in ({"CENOTE_DEVICE": "host"}, {"CENOTE_DEVICE": "cuda", "CENOTE_LIBCUDA": str(self.driver)}):
                said, complaint = run(program, **device)
                assert (said, complaint) == ("125 1006\n", ""), (said, complaint)
            # A program and a library have device code of the same names, and each its own.
            for name, words in (("other", ["-fPIC"]), ("entry", [])):
                self.cc("-dc", f"-DENTRY={name}", *words, one, "-o", self.folder / f"{name}.o", **clang)
            self.cc("-dc", "-fPIC", two, "-o", self.folder / "two.o", **clang)
            self.cc("-shared", "-Wl,-Bsymbolic", self.folder / "other.o", self.folder / "two.o", "-o",
                    self.folder / "libother.so", **clang)
            self.cc(both, self.folder / "entry.o", self.folder / "two.o", self.folder / "libother.so",
                    f"-Wl,-rpath,{self.folder}", "-o", program, **clang)
            assert run(program, CENOTE_DEVICE="host")[0] == 2 * "125 1006\n"
            self.cc("-rdc=true", "-DENTRY=main", one, self.write("none.cc", "int second_part(int *) { return 0; }\n"),
                    "-o", program, **clang)
            _, said = run(program, status=1, CENOTE_DEVICE="host", CENOTE_LOG="debug")
            contains(said, "'counter' is of another module")

    def modules_are_loaded(self):
        """--ptx and --fatbin make what cuModuleLoad() takes."""
        for clang in self.clangs():
            kernel = self.write("twice.cu", 'extern "C" __global__ void twice(int *number) { *number *= 2; }\n')
            self.cc(self.write("module.cpp", MODULE_PROGRAM), "-o", self.folder / "module", **clang)
            for kind in ("ptx", "fatbin"):
                self.cc(f"--{kind}", kernel, "-o", self.folder / f"twice.{kind}", **clang)
                said, _ = run(self.folder / "module", self.folder / f"twice.{kind}", CENOTE_DEVICE="host")
                assert said == "10\n", said

    def a_fault_names_its_line(self):
        """With -g or -lineinfo, and not without."""
        source = self.write("fault.cu", FAULT)
        for clang in self.clangs():
            for words, named in ((["-g"], True), (["-lineinfo"], True), ([], False)):
                self.cc(*words, source, "-o", self.folder / "fault", **clang)
                _, said = run(self.folder / "fault", CENOTE_DEVICE="host", CENOTE_LOG="debug")
                contains(said, "ILLEGAL_ADDRESS", "store_at", "block (0, 0, 0)")
                assert said.count("INVALID_VALUE") == 0, said
                assert ("fault.cu:4)" in said) == named, said

    def barriers_keep_their_order(self):
        """What one thread has written before __syncthreads() the others read after it, however well it is optimized."""
        source, program = self.write("barrier.cu", BARRIER), self.folder / "barrier"
        for clang in self.clangs():
            for level in ("-O0", "-O1", "-O3"):
                self.cc(level, source, "-o", program, **clang)
                run(program, CENOTE_DEVICE="host")

    def gdb_stops_in_a_kernel(self):
        """At __brkpt(), and knows the line and the thread; without gdb the program goes on."""
        source, program = self.write("stops.cu", BREAKPOINT), self.folder / "stops"
        for clang in self.clangs():
            self.cc("-g", source, "-o", program, **clang)
            run(program, CENOTE_DEVICE="host")
            if not shutil.which("gdb"):
                raise Skip("gdb is not installed")
            said, complaint = run("gdb", "-nx", "-q", "-batch", "-ex", "set breakpoint pending on", "-ex",
                                  "break cn_ptx_breakpoint", "-ex", "run", "-ex", "print *at", "-ex", "continue",
                                  program, CENOTE_DEVICE="host", DEBUGINFOD_URLS="")
            if "ptrace" in complaint:
                raise Skip(f"gdb may not look at programs here: {complaint}")
            contains(said, "stops.cu", "source_line = 6,", "thread = {5, 0, 0}", "exited normally")
            assert said.count("hit Breakpoint") == 1, said

    def errors_are_clangs(self):
        """What does not compile, or cannot be had, is said with its line, and leaves no output."""
        made = self.folder / "wrong.o"
        for clang in self.clangs():
            source = self.write("wrong.cu", "__global__ void wrong() { undeclared(); }\n")
            contains(self.cc("-c", source, "-o", made, status=1, **clang)[1], "wrong.cu:1:", "error:")
            assert not made.exists()
            source = self.write("managed.cu", "\n__managed__ int shared_by_all;\n")
            contains(self.cc("-c", source, "-o", made, status=1, **clang)[1], "managed.cu:2:", "cudaMallocManaged")
            source = self.write("other.cu", "extern __device__ int helper(int);\n"
                                "__global__ void kernel(int *number) { *number = helper(*number); }\n")
            contains(self.cc("-c", source, "-o", made, status=1, **clang)[1], "_Z6helperi", "not defined in this file")
            assert not made.exists()

    def preprocesses(self):
        """-E and -M write to standard output, or where -o says."""
        for clang in self.clangs():
            source = self.write("text.cu", '#include "factor.h"\nint factor = FACTOR;\n')
            self.write("factor.h", "#define FACTOR 3\n")
            contains(self.cc("-E", source, **clang)[0], "int factor = 3;")
            contains(self.cc("-MM", source, **clang)[0], "text.o:", "factor.h")
            self.cc("-E", source, "-o", self.folder / "text.i", **clang)
            contains((self.folder / "text.i").read_text(), "int factor = 3;")


def main():
    """Run the tests."""
    with tempfile.TemporaryDirectory(prefix="cenote-cc-test.") as folder:
        compiler = Compiler(sys.argv[1], Path(sys.argv[2]).resolve(), folder)
        tests = by_name(compiler.options_become_those_of_clang, compiler.defaults_are_those_of_nvcc,
                        compiler.refuses_with_a_sentence, compiler.finds_a_compiler,
                        compiler.architectures_are_those_that_clang_knows, compiler.leaves_nothing_after_a_signal,
                        compiler.device_code_is_complete, compiler.fat_binaries_are_laid_out_as_nvidias,
                        compiler.a_program_runs, compiler.it_runs_on_a_gpu_too,
                        compiler.a_library_runs,
                        compiler.files_compiled_apart_are_linked, compiler.modules_are_loaded,
                        compiler.a_fault_names_its_line,
                        compiler.barriers_keep_their_order, compiler.gdb_stops_in_a_kernel,
                        compiler.errors_are_clangs, compiler.preprocesses)
        return 0 if run_tests(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
