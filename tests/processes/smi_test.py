#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
NVML as clients find it: opened by its name in a program that `cenote run` has started, and through `cenote smi`.
Prints TAP.

    smi_test.py BUILD_DIRECTORY
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import by_name, run_tests  # pylint: disable=wrong-import-position

MIB = 1 << 20
NOT_SUPPORTED = 3


def environment(folder, **variables):
    """Two devices of 256 MiB that no other test uses."""
    passed = {name: value for name, value in os.environ.items() if not name.startswith(("CENOTE_", "CUDA_", "LD_"))}
    return {**passed, "CENOTE_RUNTIME_DIR": folder, "CENOTE_HOST_DEVICES": "2", "CENOTE_HOST_MEMORY": "256M",
            "CENOTE_DEVICE": "host", **variables}


def user():
    """In a process of its own: a program that has 64 MiB of device 1 until its standard input ends."""
    cuda, address, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 * MIB)) == 0
    print("ready", flush=True)
    sys.stdin.read()


def client():
    """The same: a client of NVML that says what it sees, as JSON."""
    nvml, count, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint(), ctypes.c_void_p()
    memory = (ctypes.c_ulonglong * 3)()
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    unsupported = nvml.nvmlDeviceGetFanSpeed(device, ctypes.byref(count)) == NOT_SUPPORTED
    print(json.dumps({"count": count.value, "used": memory[2], "unsupported": unsupported}))


class Smi:
    """The command, and a program that uses a device."""

    def __init__(self, build, folder):
        self.cenote, self.folder = Path(build, "bin", "cenote"), folder

    def run(self, *words, status=0, **variables):
        """What a command prints."""
        done = subprocess.run([self.cenote, *words], env=environment(self.folder, **variables), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert done.returncode == status, (words, done)
        return done.stdout if not status else done.stderr

    def start_user(self):
        """The program, once it has its memory."""
        # pylint: disable=consider-using-with
        process = subprocess.Popen([self.cenote, "run", sys.executable, __file__, "user"], text=True,
                                   env=environment(self.folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        return process

    def shows_what_processes_have(self):
        """A process has its row while it lives, and its memory counts for its device."""
        process = self.start_user()
        try:
            text = self.run("smi")
            devices = json.loads(self.run("smi", "--json"))["devices"]
        finally:
            process.communicate()
        assert [device["used_bytes"] for device in devices] == [0, 64 * MIB], devices
        assert devices[0]["processes"] == [] and len(devices[1]["processes"]) == 1, devices
        row = devices[1]["processes"][0]
        assert (row["pid"], row["used_bytes"]) == (process.pid, 64 * MIB) and "python" in row["name"], row
        lines = text.splitlines()
        assert {len(line) for line in lines} == {0, 91}, text
        assert "64MiB / 256MiB" in text and "CUDA Version: 13.0" in text and "00000000:02:00.0" in text, text
        assert any(str(process.pid) in line and "64MiB" in line for line in lines), text
        assert "No running processes found" in self.run("smi")

    def serves_a_client(self):
        """A program that opens libnvidia-ml.so.1 by its name gets Cenote's; so do its children."""
        process = self.start_user()
        try:
            seen = json.loads(self.run("run", "sh", "-c", f"'{sys.executable}' '{__file__}' client"))
        finally:
            process.communicate()
        assert seen == {"count": 2, "used": 64 * MIB, "unsupported": True}, seen

    def says_what_is_wrong(self):
        """No device, a wrong number of them, a directory that is none, a word that it does not know."""
        assert "No devices were found" in self.run("smi", CENOTE_HOST_DEVICES="0")
        assert "CENOTE_HOST_DEVICES is 'x'" in self.run("smi", status=1, CENOTE_HOST_DEVICES="x")
        assert "N/A" in self.run("smi", CENOTE_RUNTIME_DIR="/dev/null")
        assert "unknown option '--xml'" in self.run("smi", "--xml", status=2)


def main(build):
    """Runs all tests; True when all passed."""
    with tempfile.TemporaryDirectory() as folder:
        smi = Smi(build, folder)
        return run_tests(by_name(smi.shows_what_processes_have, smi.serves_a_client, smi.says_what_is_wrong))


if __name__ == "__main__":
    if sys.argv[1] in ("user", "client"):
        {"user": user, "client": client}[sys.argv[1]]()
        sys.exit(0)
    sys.exit(0 if main(sys.argv[1]) else 1)
