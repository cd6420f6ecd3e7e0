#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of programs that a CUDA compiler made, kernels and all, on the host device.

    compiled_test.py BUILD_DIRECTORY C_COMPILER...

The compiler is clang, which needs nothing of NVIDIA's: it makes PTX of the kernels, and of the rest an object that
registers them before main(). A fat binary around the PTX is made here. The object is linked with the drop-in
libcudart.so.13, and with a runtime inside (static_runtime_test.py), as nvcc does by default.
"""

import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
# pylint: disable=wrong-import-position
from static_runtime_test import run, runtime_source
from tap import Skip, by_name, run_tests

FLAGS = ("-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "-Xclang", "-target-sdk-version=11.5",
         "--cuda-gpu-arch=sm_75", "-O1")

# What a toolkit's headers say, as far as it is needed.
HEAD = r"""
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
typedef unsigned long size_t;
struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
extern "C" {
typedef struct CUstream_st *cudaStream_t;
int __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = 0);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int cudaDeviceSynchronize(void);
int cudaGetLastError(void);
int cudaSetDevice(int);
int printf(const char *, ...);
}
static __device__ unsigned thread() { return __nvvm_read_ptx_sreg_tid_x(); }
static __device__ unsigned block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
"""

PROGRAM = HEAD + r"""
__constant__ int factor = 2;
__device__ int total;
template <class T> __global__ void sum(const T *numbers, T *sums)
{
	__shared__ T room[64];
	room[thread()] = numbers[block() * 64 + thread()] * factor;
	__syncthreads();
	for (unsigned half = 32; half; half /= 2) {
		if (thread() < half)
			room[thread()] += room[thread() + half];
		__syncthreads();
	}
	if (!thread()) {
		sums[block()] = room[0];
		__nvvm_atom_add_gen_i(&total, (int)room[0]);
	}
}
template <class T> int run(int device)
{
	T numbers[256], sums[4] = {}, *there, *result;
	int errors = cudaSetDevice(device), answer = 0, three = 3;
	for (int i = 0; i < 256; i++)
		numbers[i] = (T)i;
	errors |= cudaMalloc((void **)&there, sizeof numbers) | cudaMalloc((void **)&result, sizeof sums);
	errors |= cudaMemcpy(there, numbers, sizeof numbers, 1);
	sum<T><<<4, 64>>>(there, result);
	errors |= cudaGetLastError() | cudaMemcpy(sums, result, sizeof sums, 2);
	errors |= cudaMemcpyFromSymbol(&answer, &total, sizeof answer, 0, 2);
	printf("device %d: %d %d, total %d, errors %d\n", device, (int)sums[0], (int)sums[3], answer, errors);
	errors |= cudaMemcpyToSymbol(&factor, &three, sizeof three, 0, 1);
	sum<T><<<1, 64>>>(there, result);
	errors |= cudaMemcpy(sums, result, sizeof sums, 2) | cudaFree(there) | cudaFree(result);
	printf("with 3: %d, errors %d\n", (int)sums[0], errors);
	return errors;
}
extern "C" int MAIN() { return run<int>(0) | run<float>(1); }
"""
# The sum of 0 to 63 is 2016, of 192 to 255 14304, of 0 to 255 32640.
EXPECTED = ("device 0: 4032 28608, total 65280, errors 0\nwith 3: 6048, errors 0\n"
            "device 1: 4032 28608, total 65280, errors 0\nwith 3: 6048, errors 0\n")


def fat_binary(text, kind=1):
    """A fat binary with one entry: PTX (1), or machine code (2)."""
    contents = text + b"\0" * (8 - len(text) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(contents), 0, 0, 0, 0, 75, 0, 0, 0, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(contents)) + entry + contents


class Compiled:
    """The command, a compiler, and a folder with what was compiled."""

    def __init__(self, build, compiler, folder):
        self.cenote, self.dropins = Path(build) / "bin/cenote", Path(build) / "lib/dropin"
        self.compiler, self.folder = compiler, Path(folder)

    def compile(self, name, *arguments, kind=1):
        """An object of the program, with its kernels inside."""
        clang = shutil.which("clang")
        if not clang:
            raise Skip("there is no clang")
        source, ptx, made = (self.folder / f"{name}.{ending}" for ending in ("cu", "ptx", "o"))
        source.write_text(PROGRAM)
        try:
            run(clang, *FLAGS, *arguments, "--cuda-device-only", "-S", source, "-o", ptx)
        except AssertionError as error:
            if "nvptx" not in str(error).lower():
                raise
            raise Skip("clang does not compile for NVPTX here") from None
        fat = self.folder / f"{name}.fatbin"
        fat.write_bytes(fat_binary(ptx.read_bytes() if kind == 1 else b"\x7fELF", kind))
        run(clang, *FLAGS, *arguments, "--cuda-host-only", "-fPIC", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", fat,
            "-c", source, "-o", made)
        return made

    def link(self, name, *arguments):
        """A program, or a library."""
        run(*self.compiler, *arguments, "-ldl", "-o", self.folder / name)
        return self.folder / name

    def shared_runtime(self):
        """Our libcudart.so.13, with the library that has most of it."""
        return (self.dropins / "libcudart.so.13", self.dropins.parent / "libcenote.so.1",
                f"-Wl,-rpath-link,{self.dropins.parent}", f"-Wl,-rpath,{self.dropins.parent}")

    def expect(self, *command):
        """It runs, and says what it should."""
        said, complaint = run(self.cenote, "run", "--devices", "2", *command)
        assert said == EXPECTED and not complaint, (said, complaint)

    def runs_with_the_shared_runtime(self):
        """A program that was linked with libcudart.so.13."""
        self.expect(self.link("shared", self.compile("shared", "-DMAIN=main"), *self.shared_runtime()))

    def runs_with_the_runtime_inside(self):
        """A program with the runtime inside, and one that opens a library which has it."""
        if platform.machine() != "x86_64":
            raise Skip("the static runtime is served on x86-64 alone")
        runtime = self.folder / "runtime.o"
        runtime.with_suffix(".s").write_text(runtime_source(13000))
        run(*self.compiler, "-c", runtime.with_suffix(".s"), "-o", runtime)
        self.expect(self.link("inside", self.compile("inside", "-DMAIN=main"), runtime))
        library = self.link("libinside.so", "-shared", self.compile("library", "-DMAIN=subject"), runtime)
        (self.folder / "opens.c").write_text(
            "#include <dlfcn.h>\nint main(int count, char **words) { void *library = dlopen(words[count - 1], RTLD_NOW);\n"
            'return !library || ((int (*)(void))dlsym(library, "subject"))() || dlclose(library); }\n')
        self.expect(self.link("opens", self.folder / "opens.c"), library)

    def says_that_there_is_no_ptx(self):
        """A program with machine code alone: its launch says which flag adds PTX."""
        program = self.link("machine", self.compile("machine", "-DMAIN=main", kind=2), *self.shared_runtime())
        done = subprocess.run([self.cenote, "run", "--devices", "2", program], check=False, capture_output=True,
                              encoding="utf-8", env={**os.environ, "CENOTE_LOG": "debug"})
        assert done.returncode and "NO_BINARY_FOR_GPU: a fat binary with machine code and no PTX: compile with nvcc -gencode" \
            in done.stderr, done.stderr


def main(build, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Compiled(build, compiler, folder)
        return run_tests(by_name(programs.runs_with_the_shared_runtime, programs.runs_with_the_runtime_inside,
                                 programs.says_that_there_is_no_ptx))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
