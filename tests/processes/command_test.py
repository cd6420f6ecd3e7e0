#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the cenote command and of the drop-in libraries, as a stranger meets them.

    command_test.py BUILD_DIRECTORY C_COMPILER...

Programs "linked against NVIDIA's libraries" are made here: with stub libraries that have NVIDIA's names, sonames and
symbol versions, and nothing inside. Where a CUDA toolkit is installed, found by CUDA_PATH or by nvcc on the path, an
example is built with its headers and its own stub library as well.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include" / "cenote"
EXAMPLE = "shareable_allocation"


class Skip(Exception):
    """Why a test cannot be run here."""


def run(*command, status=0, **variables):
    """What a command prints on both channels; it must end with this status."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CENOTE_") and name not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")}
    done = subprocess.run([str(word) for word in command], env={**environment, **variables}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}, not {status}\n"
                             + done.stdout + done.stderr)
    return done.stdout, done.stderr


def contains(text, *parts):
    """All parts stand in a text."""
    for part in parts:
        if part not in text:
            raise AssertionError(f"{part!r} is not in {text!r}")


DRIVER_PROGRAM = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
CUresult cuArrayCreate_v2(void *array, const void *description);
int main(void)
{
	CUcontext context;
	CUdeviceptr memory;
	unsigned char byte = 0;
	int count = 0;
	void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int results = cuInit(0) | cuDeviceGetCount(&count) | cuCtxCreate(&context, NULL, 0, 0) |
		      cuMemAlloc(&memory, 4096) | cuMemsetD8(memory, 0xa5, 4096) | cuMemcpyDtoH(&byte, memory, 1);
	printf("results %d, devices %d, byte %x, array %d\n", results, count, byte, cuArrayCreate_v2(NULL, NULL));
	printf("found %d, mark %d\n", dlsym(self, "cuMemAlloc_v2") != NULL, dlsym(self, "cenote_dropin_mark") != NULL);
	return 0;
}
"""

RUNTIME_PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, void *);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
cudaError_t cudaMallocArray(void *, const void *, size_t, size_t, unsigned);
static void kernel(void)
{
}
int main(void)
{
	void *memory = NULL, *args[] = {&memory};
	unsigned char byte = 0;
	dim3 grid = {1, 1, 1}, block = {3, 1, 1};
	size_t shared = 7;
	cudaStream_t stream = cudaStreamLegacy;
	void **binary = __cudaRegisterFatBinary(&grid);
	__cudaRegisterFunction(binary, (char *)kernel, "kernel", "kernel", -1, 0, 0, 0, 0, 0);
	int results = cudaMalloc(&memory, 64) | cudaMemset(memory, 0x5a, 64) |
		      cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost);
	printf("results %d, byte %x\n", results, byte);
	results = __cudaPushCallConfiguration(grid, block, 5, NULL);
	results |= __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
	printf("results %d, block %u, shared %zu, stream %d\n", results, block.x, shared, stream != NULL);
	printf("empty %d\n", __cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess);
	printf("launch refused %d\n", cudaLaunchKernel((void *)kernel, grid, block, args, 0, NULL) != cudaSuccess);
	cudaGetLastError();
	results = cudaMallocArray(NULL, NULL, 0, 0, 0);
	printf("array %d, last error %d\n", results, cudaGetLastError());
	return 0;
}
"""


OPENING_PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
typedef int function(void *, void *, void *, void *);
static function *find(void *library, const char *name)
{
	return (function *)dlsym(library, name);
}
int main(void)
{
	void *context;
	int results = 0;
	for (int i = 0; i < 2; i++) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!library)
			return puts(dlerror());
		results |= find(library, "cuInit")(0, 0, 0, 0);
		results |= find(library, "cuCtxCreate_v4")(&context, 0, 0, 0);
		results |= find(library, "cuLaunchHostFunc")(0, puts, "called", 0);
		results |= find(library, "cuCtxSynchronize")(0, 0, 0, 0);
		dlclose(library);
	}
	printf("results %d, stays %d\n", results, dlopen("libcenote.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
	return 0;
}
"""


class Command:
    """The command, and a folder for programs."""

    def __init__(self, build, compiler, folder):
        self.cenote, self.examples = Path(build) / "bin" / "cenote", Path(build) / "examples"
        self.compiler, self.folder = compiler, Path(folder)

    def make_stub(self, soname, functions, version=None):
        """A library with this soname and these functions, with this version."""
        stub = self.folder / "stub.c"
        stub.write_text("".join(f"void {function}(void) {{}}\n" for function in functions))
        arguments = []
        if version:
            (self.folder / "stub.map").write_text(f"{version} {{ global: *; }};\n")
            arguments = [f"-Wl,--version-script={self.folder / 'stub.map'}"]
        run(*self.compiler, "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{soname}", *arguments, stub, "-o",
            self.folder / "stub.so")
        return self.folder / "stub.so"

    def compile_program(self, name, source, soname, functions, version=None):
        """A program that needs a library of this soname and finds these functions in it, with this version."""
        stub = self.make_stub(soname, functions, version)
        (self.folder / f"{name}.c").write_text(source)
        program = self.folder / name
        run(*self.compiler, f"-I{HEADERS}", self.folder / f"{name}.c", stub, "-ldl", "-o", program)
        return program

    def run_example(self, headers, library):
        """Build the example with these headers and this libcuda, and run it over ours, with its module beside it."""
        source = HERE.parent.parent / "examples" / f"{EXAMPLE}.c"
        run(*self.compiler, "-Wall", "-Wextra", "-Werror", "-isystem", headers, source, library, "-ldl", "-o",
            self.folder / EXAMPLE)
        for ending in ("so", "ptx"):
            shutil.copy(self.examples / f"{EXAMPLE}_kernels.{ending}", self.folder)
        text, complaint = run(self.cenote, "run", self.folder / EXAMPLE)
        contains(text, f"loaded {EXAMPLE}_kernels.so\n", "\ndone: two processes, one memory\n")
        assert not complaint, complaint

    def says_what_it_is(self):
        """--help, --version, help of each command; without a command, help is a complaint."""
        text, _ = run(self.cenote, "--help")
        contains(text, "Usage: cenote", "run", "info")
        assert "\033" not in text
        contains(run(self.cenote, "--version")[0], "cenote ", "CUDA 13.0")
        for name in ("run", "info"):
            help_text = run(self.cenote, "help", name)[0]
            contains(help_text, f"Usage: cenote {name}")
            assert run(self.cenote, name, "--help")[0] == help_text
        contains(run(self.cenote, status=2)[1], "Usage: cenote")

    def refuses_what_it_does_not_understand(self):
        """Status 2, a sentence on standard error, and nothing on standard output."""
        for words, part in ((["fly"], "no command 'fly'"), (["help", "fly"], "no command 'fly'"),
                            (["info", "--xml"], "--xml"), (["run"], "which program"),
                            (["run", "--speed", "9", "true"], "--speed"), (["run", "--devices"], "takes a number"),
                            (["run", "--devices", "many", "true"], "takes a number")):
            output, complaint = run(self.cenote, *words, status=2)
            contains(complaint, part, "cenote help")
            assert not output, output

    def describes_devices(self):
        """info, for people and for programs, with what the environment says."""
        text, _ = run(self.cenote, "info", CENOTE_HOST_DEVICES="2", CENOTE_HOST_MEMORY="64M")
        contains(text, "Devices       2", "67108864 bytes", "CENOTE_HOST_MEMORY", "64M")
        data = json.loads(run(self.cenote, "info", "--json", CENOTE_HOST_DEVICES="3", CENOTE_HOST_MEMORY="64M",
                              CENOTE_HOST_WITHOUT="managed")[0])
        assert len(data["devices"]) == 3 and len({device["uuid"] for device in data["devices"]}) == 3
        assert data["devices"][2]["memory_bytes"] == 64 << 20
        assert data["devices"][0]["has"]["managed"] is False and data["devices"][0]["has"]["unified-addressing"] is True
        assert data["environment"]["CENOTE_HOST_WITHOUT"] == "managed" and data["cuda"] == "13.0"

    def says_why_there_is_no_device(self):
        """An environment that leaves no device, or is not understood, is status 1 and a sentence."""
        contains(run(self.cenote, "info", status=1, CUDA_VISIBLE_DEVICES="")[1], "CUDA_VISIBLE_DEVICES")
        contains(run(self.cenote, "info", status=1, CENOTE_HOST_MEMORY="lots")[1], "'lots'")

    def runs_programs(self):
        """run: status and output are the program's; devices and memory reach it; what cannot run is 126 or 127."""
        run(self.cenote, "run", "sh", "-c", "exit 7", status=7)
        assert run(self.cenote, "run", "--", "echo", "--devices")[0] == "--devices\n"
        text, _ = run(self.cenote, "run", "--devices", "2", "--memory=32M", self.cenote, "info", "--json")
        assert [device["memory_bytes"] for device in json.loads(text)["devices"]] == [32 << 20] * 2
        text, _ = run(self.cenote, "run", "sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/elsewhere")
        assert text.rstrip().endswith("/lib/dropin:/elsewhere"), text
        contains(run(self.cenote, "run", self.folder / "absent", status=127)[1], "absent")
        (self.folder / "plain").write_text("not a program")
        contains(run(self.cenote, "run", self.folder / "plain", status=126)[1], "plain")

    def serves_programs_of_the_driver(self):
        """A program linked with NVIDIA's libcuda.so.1 runs over Cenote's."""
        program = self.compile_program(
            "driver", DRIVER_PROGRAM, "libcuda.so.1",
            ["cuInit", "cuDeviceGetCount", "cuCtxCreate_v4", "cuMemAlloc_v2", "cuMemsetD8_v2", "cuMemcpyDtoH_v2",
             "cuArrayCreate_v2"])
        text, complaint = run(self.cenote, "run", "--devices", "2", program, CENOTE_LOG="debug")
        assert text == "results 0, devices 2, byte a5, array 801\nfound 1, mark 1\n", text
        contains(complaint, "cenote: CUDA_ERROR_NOT_SUPPORTED: ", "cuArrayCreate_v2")
        assert run(self.cenote, "run", program)[1] == "", "an error was printed without CENOTE_LOG"

    def serves_an_example(self):
        """Two processes that share memory: a whole program, linked with NVIDIA's libcuda.so.1."""
        source, thing = HERE.parent.parent / "examples" / f"{EXAMPLE}.c", self.folder / "example.o"
        run(*self.compiler, f"-I{HEADERS}", "-c", source, "-o", thing)
        missing = [line.split()[-1] for line in run("nm", "-u", thing)[0].splitlines()]
        self.run_example(HEADERS, self.make_stub("libcuda.so.1", [name for name in missing if name.startswith("cu")]))

    def serves_an_example_of_the_toolkit(self):
        """The same program, built with NVIDIA's own headers and stub library."""
        nvcc = shutil.which("nvcc")
        home = os.environ.get("CUDA_PATH") or (nvcc and Path(nvcc).resolve().parent.parent)
        if not home or not Path(home, "include", "cuda.h").exists():
            raise Skip("no CUDA toolkit here (neither CUDA_PATH nor nvcc leads to one)")
        library = Path(home, "lib64", "stubs", "libcuda.so")
        if not library.exists():
            raise Skip("the CUDA toolkit here has no stub of libcuda")
        self.run_example(Path(home, "include"), library)

    def survives_being_closed(self):
        """A program may open the library when it needs it, and close it: what threads of ours still run is not gone."""
        source, program = self.folder / "opening.c", self.folder / "opening"
        source.write_text(OPENING_PROGRAM)
        run(*self.compiler, source, "-ldl", "-o", program)
        expected = "called\ncalled\nresults 0, stays 1\n"
        text, _ = run(self.cenote, "run", program)
        assert text == expected, text

    def serves_programs_of_the_runtime(self):
        """The same for libcudart.so.13, whose symbols have a version; what nvcc adds to a program is there."""
        program = self.compile_program(
            "runtime", RUNTIME_PROGRAM, "libcudart.so.13",
            ["cudaMalloc", "cudaMemset", "cudaMemcpy", "cudaLaunchKernel", "cudaGetLastError", "cudaMallocArray",
             "__cudaRegisterFatBinary", "__cudaRegisterFunction", "__cudaPushCallConfiguration",
             "__cudaPopCallConfiguration"], version="libcudart.so.13")
        text, complaint = run(self.cenote, "run", program, CENOTE_LOG="debug")
        assert text == ("results 0, byte 5a\nresults 0, block 3, shared 5, stream 0\nempty 1\nlaunch refused 1\n"
                        "array 801, last error 801\n"), text
        contains(complaint, "cudaMallocArray", "CENOTE_KERNEL")


def main(build, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        command = Command(build, compiler, folder)
        tests = [command.says_what_it_is, command.refuses_what_it_does_not_understand, command.describes_devices,
                 command.says_why_there_is_no_device, command.runs_programs, command.serves_programs_of_the_driver,
                 command.serves_programs_of_the_runtime, command.serves_an_example,
                 command.serves_an_example_of_the_toolkit, command.survives_being_closed]
        good = True
        print(f"1..{len(tests)}")
        for number, test in enumerate(tests, 1):
            try:
                test()
                print(f"ok {number} - {test.__name__}")
            except Skip as reason:
                print(f"ok {number} - {test.__name__} # SKIP {reason}")
            except AssertionError as error:
                good = False
                for line in str(error).splitlines() or [f"an assertion of {test.__name__} does not hold"]:
                    print(f"# {line}")
                print(f"not ok {number} - {test.__name__}")
    return good


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
