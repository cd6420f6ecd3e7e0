#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of the cenote command and of the drop-in libcuda.so.1 on a GPU, as a stranger meets them.

    gpu_command_test.py BUILD_DIRECTORY DRIVER C_COMPILER...

DRIVER is the library that stands for NVIDIA's driver (tests/driver). Programs are made here as NVIDIA's are: linked with
libcuda.so.1, or with a runtime inside that opens it and asks for every function by name.
"""

import json
import sys
import tempfile
from pathlib import Path

from command_test import HEADERS, Command, by_name, contains, run, run_tests
from sharers import sharing

# As the runtime does it that nvcc links into programs: the names before cuInit, then everything through pointers.
RUNTIME_INSIDE = r"""
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static __typeof__(&cuGetProcAddress) ask;
static void *function(const char *name, int version)
{
	CUdriverProcAddressQueryResult status;
	void *found = NULL;
	if (ask(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) || !found)
		printf("no %s: status %d\n", name, (int)status);
	return found;
}
static const char *home(void *function)
{
	Dl_info info = {0};
	const char *name = dladdr(function, &info) ? strrchr(info.dli_fname, '/') : NULL;
	return name ? name + 1 : "nowhere";
}
#define FIND(name, version) __typeof__(&name) p_##name = (__typeof__(&name))function(#name, version)
int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return puts(dlerror());
	ask = (__typeof__(ask))dlsym(library, "cuGetProcAddress_v2");
	FIND(cuInit, 2000);
	FIND(cuDeviceGetCount, 2000);
	FIND(cuDevicePrimaryCtxRetain, 7000);
	FIND(cuCtxSetCurrent, 4000);
	FIND(cuMemAllocAsync, 11020);
	FIND(cuMemFreeAsync, 11020);
	FIND(cuMemsetD8Async, 3020);
	FIND(cuMemcpyDtoH, 3020);
	FIND(cuStreamSynchronize, 2000);
	FIND(cuMemPoolGetAttribute, 11020);
	FIND(cuDeviceGetDefaultMemPool, 11020);
	CUcontext context;
	CUdeviceptr block;
	CUmemoryPool pool;
	cuuint64_t used = 0;
	unsigned char byte = 0;
	int count = 0;
	int results = p_cuInit(0) | p_cuDeviceGetCount(&count) | p_cuDevicePrimaryCtxRetain(&context, 0) |
		      p_cuCtxSetCurrent(context) | p_cuMemAllocAsync(&block, 4096, NULL) |
		      p_cuMemsetD8Async(block, 0x5a, 4096, NULL) | p_cuStreamSynchronize(NULL) |
		      p_cuMemcpyDtoH(&byte, block, 1) | p_cuDeviceGetDefaultMemPool(&pool, 0) |
		      p_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) |
		      p_cuMemFreeAsync(block, NULL) | p_cuStreamSynchronize(NULL);
	printf("results %d, devices %d, byte %x, used %d\n", results, count, byte, (int)used);
	printf("%s, %s\n", home((void *)ask), home((void *)p_cuMemAllocAsync));
	return results != 0;
}
"""

# A call of many arguments that Cenote does not know, twice: the first finds the driver's function, the second has it.
FORWARDED = r"""
#include <cuda.h>
#include <stdio.h>
CUresult cuLaunchCooperativeKernelMultiDevice(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
				   CUstream, void **);
CUresult cuArrayCreate_v2(void *array, const void *description);
int main(int count, char **words)
{
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr memory;
	void *arguments[] = {&memory};
	int before = cuLaunchCooperativeKernelMultiDevice(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, arguments), numbers[2] = {0, 0};
	int results = cuInit(0) | cuCtxCreate(&context, NULL, 0, 0) | cuModuleLoad(&module, words[count - 1]) |
		      cuModuleGetFunction(&kernel, module, "read_counter") | cuMemAlloc(&memory, 4);
	for (int i = 0; i < 2; i++)
		results |= cuMemsetD8(memory, 0, 4) |
			   cuLaunchCooperativeKernelMultiDevice(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments) |
			   cuMemcpyDtoH(&numbers[i], memory, 4);
	printf("before %d, results %d, numbers %d %d, array %d\n", before, results, numbers[0], numbers[1],
	       cuArrayCreate_v2(NULL, NULL));
	return 0;
}
"""


def private_on_gpu(test, player):
    """The memory of GPUs that only this process has. (The driver of these tests has memory files, too.)"""
    return [memory for memory in test.ask_private(player) if memory["device"] == "gpu"]


class OnGpu:
    """The command with a driver beside it, and a folder for programs."""

    def __init__(self, build, driver, compiler, folder):
        self.command = Command(build, compiler, folder)
        self.cenote, self.build, self.driver = self.command.cenote, Path(build), driver
        self.on_gpu = {"CENOTE_LIBCUDA": driver}
        # Python opens both libraries late, and they want thread-local storage that is usually there at the start.
        self.variables = {**self.on_gpu, "CENOTE_DEVICE": "cuda",
                          "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}

    def environment_of(self, *options, **variables):
        """LD_PRELOAD, LD_LIBRARY_PATH and CENOTE_DEVICE of a program."""
        shown = "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH; echo $CENOTE_DEVICE"
        return run(self.cenote, "run", *options, "sh", "-c", shown, **variables)[0].split("\n")[:3]

    def puts_itself_in_front(self):
        """On a GPU our libcuda.so.1 is loaded before the program, whatever asks for it, and no libcudart of ours."""
        ours = str(self.build / "lib" / "dropin")
        assert self.environment_of(**self.on_gpu) == [f"{ours}/libcuda.so.1", "", "cuda"]
        preload, folders, device = self.environment_of("--device", "cuda", **self.on_gpu, LD_PRELOAD="", LD_LIBRARY_PATH="/x")
        assert (preload, folders, device) == (f"{ours}/libcuda.so.1", "/x", "cuda")
        for options in (["--device=host"], ["--devices", "2"], ["--memory", "64M"]):
            assert self.environment_of(*options, **self.on_gpu)[:2] == ["", ours], options
        assert self.environment_of(CENOTE_LIBCUDA="/nowhere/libcuda.so.1")[:2] == ["", ours]
        assert self.environment_of(CENOTE_DEVICE="host", **self.on_gpu)[:2] == ["", ours]
        assert self.environment_of(**self.on_gpu, CENOTE_HOST_DEVICES="0")[:2] == ["", ours]

    def says_what_it_does_not_understand(self):
        """A device that does not exist; a GPU that is not there."""
        contains(run(self.cenote, "run", "--device", "tpu", "true", status=2)[1], "--device takes host, cuda or auto")
        contains(run(self.cenote, "run", "true", status=1, CENOTE_DEVICE="tpu")[1], "'tpu'", "host, cuda or auto")
        contains(run(self.cenote, "info", status=1, CENOTE_DEVICE="cuda", CENOTE_LIBCUDA="/nowhere/libcuda.so.1")[1],
                 "CENOTE_DEVICE=cuda", "/nowhere/libcuda.so.1")
        dropin = str(self.build / "lib" / "dropin" / "libcuda.so.1")
        contains(run(self.cenote, "info", status=1, CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=dropin)[1],
                 "is Cenote itself, not NVIDIA's driver")

    def describes_devices(self):
        """info: the devices are the driver's."""
        text, _ = run(self.cenote, "info", "--json", **self.on_gpu, CENOTE_DEVICE="cuda", CENOTE_HOST_DEVICES="2",
                      CENOTE_HOST_MEMORY="64M")
        assert [device["memory_bytes"] for device in json.loads(text)["devices"]] == [64 << 20] * 2, text

    def serves_a_runtime_inside(self):
        """A program with the runtime inside gets our pools and the driver's everything else."""
        source, program = self.command.folder / "inside.c", self.command.folder / "inside"
        source.write_text(RUNTIME_INSIDE)
        run(*self.command.compiler, f"-I{HEADERS}", source, "-ldl", "-o", program)
        for pools in ("cenote", "driver"):
            text, complaint = run(self.cenote, "run", program, **self.on_gpu, CENOTE_POOLS=pools, CENOTE_HOST_DEVICES="2")
            assert text == "results 0, devices 2, byte 5a, used 4096\nlibcenote-driver.so.1, libcenote-driver.so.1\n", text
            assert not complaint, complaint

    def hands_on_what_it_does_not_know(self):
        """A function of the driver's that Cenote has not: with all its arguments. One that the driver has not: a sentence."""
        program = self.command.compile_program(
            "forwarded", FORWARDED, "libcuda.so.1",
            ["cuInit", "cuCtxCreate_v4", "cuModuleLoad", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemsetD8_v2",
             "cuMemcpyDtoH_v2", "cuLaunchCooperativeKernelMultiDevice", "cuArrayCreate_v2"])
        module = self.build / "tests" / "launch_module.so"
        text, complaint = run(self.cenote, "run", program, module, **self.on_gpu, CENOTE_LOG="debug")
        assert text == "before 3, results 0, numbers 6 6, array 801\n", text
        contains(complaint, "cuArrayCreate_v2")
        text, complaint = run(self.cenote, "run", "--device", "host", program, module, CENOTE_LOG="debug")
        assert text == "before 801, results 801, numbers 0 0, array 801\n", text
        contains(complaint, "Cenote has no cuLaunchCooperativeKernelMultiDevice")

    def shows_what_is_not_shared(self):
        """ps: a pool's memory is its process's alone until it is sent; a process that shares nothing is shown, too."""
        with sharing(self.build) as test:
            test.variables = self.variables
            left, right = test.pair()
            player, other = test.start(left), test.start(right)
            player.tell("create")
            player.tell("allocate", 40 << 20)
            assert test.ask() == []
            assert [memory["bytes"] for memory in private_on_gpu(test, player)] == [64 << 20]
            player.tell("send_pool", left.fileno())
            other.tell("receive_pool", right.fileno())
            player.tell("send_block", left.fileno(), 0)
            other.tell("receive_block", right.fileno())
            assert [memory["bytes"] for memory in private_on_gpu(test, player)] in ([], [32 << 20])  # not sent
            assert private_on_gpu(test, other) == []
            player.kill()
            assert private_on_gpu(test, player) == [] and (test.runtime / "account-gpu").exists()
            other.end()
            assert not (test.runtime / "account-gpu").exists()

    def runs_two_processes(self):
        """A whole program: one process shares a pool with another, both on the GPU."""
        text, complaint = run(self.build / "examples" / "share_a_pool", **self.on_gpu, CENOTE_DEVICE="cuda")
        contains(text, "\ndone: ")
        assert not complaint, complaint

    def says_what_is_the_drivers(self):
        """ps: pools are told of; that the rest is the driver's, and not known, is said once."""
        with sharing(self.build) as test:
            test.variables = self.variables
            players = [test.start() for _ in range(2)]
            for player in players:
                player.tell("create")
                player.tell("watch")
            told = {process["pid"]: process for process in test.ask()}
            assert all(process["on_gpu"] and len(process["pools"]) == 1 for process in told.values()), told
            assert set(told) == {player.pid for player in players}, told
            text = " ".join(test.table("ps")[0].split())
            assert text.count("Not known: which processes have them open.") == 1, text
            contains(text, "events, legacy memory and memory of cuMemCreate are the driver's")
            assert all(private_on_gpu(test, player) == [] for player in players)
            players[0].tell("allocate")
            [memory] = private_on_gpu(test, players[0])  # a chunk that no other process has
            assert (memory["bytes"], memory["pid_there"]) == (32 << 20, players[0].pid), memory
            contains(test.run("ps", "--pid", players[0].pid)[0], " private  ")
            contains(test.run("metrics")[0], f'cenote_private_bytes{{device="gpu",pid="{players[0].pid}",')


def main(build, driver, *compiler):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        on_gpu = OnGpu(build, driver, compiler, folder)
        return run_tests(by_name(
            on_gpu.puts_itself_in_front, on_gpu.says_what_it_does_not_understand, on_gpu.describes_devices,
            on_gpu.serves_a_runtime_inside, on_gpu.hands_on_what_it_does_not_know, on_gpu.runs_two_processes,
            on_gpu.says_what_is_the_drivers, on_gpu.shows_what_is_not_shared))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
