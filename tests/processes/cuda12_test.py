#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Programs of CUDA 12: the drop-in libcudart.so.12, alone, beside a program of CUDA 13, and beside a library of CUDA 13 in
one process. Prints TAP.

    cuda12_test.py BUILD_DIRECTORY C_COMPILER...

The programs are compiled without a toolkit: their sources declare what they call, as CUDA 12's and CUDA 13's headers do,
and they are linked with stand-ins of NVIDIA's libraries, from which they get the names and the symbol versions.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import by_name, run_tests  # pylint: disable=wrong-import-position

COMMON = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { char bytes[64]; } handle_t;
struct location { int type, id; };
int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocManaged(void **, size_t, unsigned);
int cudaMemcpy(void *, const void *, size_t, int), cudaIpcGetMemHandle(handle_t *, void *);
int cudaIpcOpenMemHandle(void **, handle_t, unsigned), cudaIpcCloseMemHandle(void *);
int cudaRuntimeGetVersion(int *), cudaGetLastError(void);
#define CHECK(call) do { int error_ = (call); \\
	if (error_) { printf("%s: %d\\n", #call, error_); exit(1); } } while (0)
#define EXPECT(what) do { if (!(what)) { printf("not so: %s\\n", #what); exit(1); } } while (0)
"""
# Where CUDA 12 has members of cudaDeviceProp, and how long it is.
OF_12 = COMMON + """
int cudaGetDeviceProperties_v2(void *, int), cudaPointerGetAttributes(void *, const void *), cudaThreadSynchronize(void);
int cudaMemAdvise(const void *, size_t, int, int), cudaMemAdvise_v2(const void *, size_t, int, struct location);
int cudaMemPrefetchAsync(const void *, size_t, int, void *);
int cudaMemPrefetchAsync_v2(const void *, size_t, struct location, unsigned, void *);
int cudaStreamGetCaptureInfo_v2(void *, int *, unsigned long long *, void **, void **, size_t *);
int cudaGetDeviceProperties(void *, int), cudaSetDoubleForHost(double *), cudaGraphCreate(void **, unsigned);
int cudaDeviceGetAttribute(int *, int, int);
enum { TOTAL = 288, CLOCK = 348, MAJOR = 360, PROCESSORS = 388, MODE = 404, MANAGED = 652, OPTIN = 696, POOLS = 744,
       EVENTS = 768, BYTES = 1032, GUARD = 64 };
static int int_at(const char *at) { int value; memcpy(&value, at, sizeof value); return value; }
static int attribute(int number) { int value; CHECK(cudaDeviceGetAttribute(&value, number, 0)); return value; }
static int is_kept(const char *at) { for (int i = 0; i < GUARD; i++) if (at[i] != 0x5a) return 0; return 1; }
"""
ALONE = OF_12 + """
int main(void)
{
	char properties[BYTES + GUARD], pointer[24 + GUARD];
	void *memory, *managed;
	int version, status = 7;
	double number = 1;

	CHECK(cudaRuntimeGetVersion(&version));
	EXPECT(version / 1000 == 12);
	memset(properties, 0x5a, sizeof properties);
	CHECK(cudaGetDeviceProperties_v2(properties, 0));
	EXPECT(is_kept(properties + BYTES));
	EXPECT(strcmp(properties, "Cenote host device") == 0);
	EXPECT(*(size_t *)(properties + TOTAL) == 256 << 20);
	EXPECT(int_at(properties + CLOCK) == attribute(13));
	EXPECT(int_at(properties + MAJOR) == attribute(75) && int_at(properties + MAJOR) == 9);
	EXPECT(int_at(properties + PROCESSORS) == attribute(16));
	EXPECT(int_at(properties + MODE) == attribute(20));
	EXPECT(int_at(properties + MANAGED) == attribute(83));
	EXPECT(*(size_t *)(properties + OPTIN) == (size_t)attribute(97));
	EXPECT(int_at(properties + POOLS) == 1 && int_at(properties + EVENTS) == 1);
	EXPECT(cudaGetDeviceProperties_v2(properties, 77) == 101);
	EXPECT(cudaGetDeviceProperties_v2(NULL, 0) == 1);

	CHECK(cudaMalloc(&memory, 1 << 20));
	memset(pointer, 0x5a, sizeof pointer);
	CHECK(cudaPointerGetAttributes(pointer, memory));
	EXPECT(is_kept(pointer + 24) && int_at(pointer) == 2 && *(void **)(pointer + 8) == memory);
	CHECK(cudaFree(memory));

	CHECK(cudaMallocManaged(&managed, 1 << 20, 1));
	CHECK(cudaMemAdvise(managed, 1 << 20, 1, 0));
	CHECK(cudaMemAdvise_v2(managed, 1 << 20, 3, (struct location){1, 0}));
	CHECK(cudaMemAdvise(managed, 1 << 20, 3, -1));
	EXPECT(cudaMemAdvise(managed, 1 << 20, 3, 77) != 0);
	CHECK(cudaMemPrefetchAsync(managed, 1 << 20, 0, NULL));
	CHECK(cudaMemPrefetchAsync(managed, 1 << 20, -1, NULL));
	CHECK(cudaMemPrefetchAsync_v2(managed, 1 << 20, (struct location){1, 0}, 0, NULL));
	CHECK(cudaThreadSynchronize());
	CHECK(cudaFree(managed));
	CHECK(cudaStreamGetCaptureInfo_v2((void *)2, &status, NULL, NULL, NULL, NULL));
	EXPECT(status == 0);
	CHECK(cudaSetDoubleForHost(&number));
	(void)cudaGetLastError();
	EXPECT(cudaGetDeviceProperties(properties, 0) == 801 && cudaGetLastError() == 801);
	EXPECT(cudaGraphCreate(&memory, 0) == 801);
	puts("well");
	return 0;
}
"""
# Writes a handle, waits for a line, and says what is in the memory then.
EXPORTER = """
int main(void)
{
	handle_t handle;
	void *memory;
	int value = VALUE;

	CHECK(cudaMalloc(&memory, 4096));
	CHECK(cudaMemcpy(memory, &value, sizeof value, 1));
	CHECK(cudaIpcGetMemHandle(&handle, memory));
	for (int i = 0; i < 64; i++)
		printf("%02x", (unsigned char)handle.bytes[i]);
	puts("");
	fflush(stdout);
	EXPECT(getchar() == 10);
	CHECK(cudaMemcpy(&value, memory, sizeof value, 2));
	printf("%d\\n", value);
	CHECK(cudaFree(memory));
	return 0;
}
"""
# Reads the value, and writes its own.
IMPORTER = """
int main(int argc, char **argv)
{
	handle_t handle;
	void *memory;
	int value = 0, own = VALUE, version;

	(void)argc;
	for (int i = 0; i < 64; i++) {
		unsigned byte;
		EXPECT(sscanf(argv[1] + 2 * i, "%2x", &byte) == 1);
		handle.bytes[i] = (char)byte;
	}
	CHECK(cudaRuntimeGetVersion(&version));
	CHECK(cudaIpcOpenMemHandle(&memory, handle, 1));
	CHECK(cudaMemcpy(&value, memory, sizeof value, 2));
	CHECK(cudaMemcpy(memory, &own, sizeof own, 1));
	CHECK(cudaIpcCloseMemHandle(memory));
	printf("%d %d\\n", version / 1000, value);
	return 0;
}
"""
LIBRARY = OF_12 + """
void *twelve(int *ret_version)
{
	void *memory;
	int value = 12;

	CHECK(cudaRuntimeGetVersion(ret_version));
	CHECK(cudaMalloc(&memory, 4096));
	CHECK(cudaMemcpy(memory, &value, sizeof value, 1));
	return memory;
}
"""
TOGETHER = COMMON + """
void *twelve(int *ret_version);
int cudaPointerGetAttributes(void *, const void *);
int main(void)
{
	struct { int type, device; void *pointers[2]; long reserved[8]; } attributes;
	int versions[2], value;
	void *memory = twelve(&versions[0]);

	CHECK(cudaRuntimeGetVersion(&versions[1]));
	CHECK(cudaPointerGetAttributes(&attributes, memory));
	EXPECT(attributes.type == 2 && attributes.reserved[7] == 0);
	CHECK(cudaMemcpy(&value, memory, sizeof value, 2));
	CHECK(cudaFree(memory));
	printf("%d %d %d\\n", versions[0] / 1000, versions[1] / 1000, value);
	return 0;
}
"""


class Cuda12:
    """The command, a compiler, and a folder for what it makes."""

    def __init__(self, build, compiler, folder):
        self.cenote, self.compiler, self.folder = Path(build, "bin", "cenote"), compiler, Path(folder)

    def compile(self, name, source, major, *others):
        """A program, or a library if its name says so, linked with a stand-in of CUDA's runtime."""
        soname = f"libcudart.so.{major}"
        names = sorted(set(re.findall(r"\b(cuda\w+)\(", source)))
        stand_in = self.folder / f"{name}-{soname}"
        stand_in.mkdir()
        (stand_in / "a.c").write_text("".join(f"void {function}(void) {{}}\n" for function in names))
        (stand_in / "a.map").write_text(f"{soname} {{ global: {'; '.join(names)}; local: *; }};\n")
        self.run(*self.compiler, "-shared", "-fPIC", f"-Wl,-soname,{soname}", f"-Wl,--version-script={stand_in / 'a.map'}",
                 stand_in / "a.c", "-o", stand_in / soname)
        (self.folder / f"{name}.c").write_text(source)
        self.run(*self.compiler, "-Wall", "-O1", *(["-shared", "-fPIC"] if name.endswith(".so") else []),
                 self.folder / f"{name}.c", *others, stand_in / soname, "-o", self.folder / name)
        return self.folder / name

    @staticmethod
    def environment():
        """A host device of 256 MiB."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith(("CENOTE_", "CUDA_", "LD_"))}
        return {**passed, "CENOTE_DEVICE": "host", "CENOTE_HOST_MEMORY": "256M"}

    def run(self, *words):
        """What a command prints; a failure ends the test."""
        done = subprocess.run([str(word) for word in words], env=self.environment(), text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done
        return done.stdout

    def serves_old_forms(self):
        """Structures have CUDA 12's sizes, and names mean what they meant there."""
        program = self.compile("alone", ALONE, 12)
        assert self.run(self.cenote, "run", program) == "well\n"

    def shares_with_cuda_13(self):
        """A program of CUDA 12 and one of CUDA 13 share memory, in both directions."""
        for exporter, importer in ((12, 13), (13, 12)):
            value = f"#define VALUE {exporter}00\n"
            from_here = self.compile(f"exporter{exporter}", value + COMMON + EXPORTER, exporter)
            to_there = self.compile(f"importer{importer}", f"#define VALUE {importer}00\n" + COMMON + IMPORTER, importer)
            with subprocess.Popen([self.cenote, "run", from_here], env=self.environment(), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                handle = process.stdout.readline().strip()
                seen = self.run(self.cenote, "run", to_there, handle)
                rest, _ = process.communicate("\n")
            assert seen == f"{importer} {exporter}00\n", seen
            assert (process.returncode, rest) == (0, f"{importer}00\n"), rest

    def lives_beside_cuda_13(self):
        """A library of CUDA 12 in a program of CUDA 13: each has its own forms, and the memory is one."""
        library = self.compile("libtwelve.so", LIBRARY, 12)
        program = self.compile("together", TOGETHER, 13, library, f"-Wl,-rpath,{self.folder}",
                               f"-Wl,-rpath-link,{self.folder / 'libtwelve.so-libcudart.so.12'}")
        assert self.run(self.cenote, "run", program) == "12 13 12\n"


def main(build, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        tests = Cuda12(build, compiler, folder)
        return run_tests(by_name(tests.serves_old_forms, tests.shares_with_cuda_13, tests.lives_beside_cuda_13))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
