#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of `cenote kept`, of what `cenote metrics` says of kept memory, and of cenoted's own command line.

    command_kept_test.py BUILD_DIRECTORY
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from command_test import contains, run
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import by_name, run_tests  # pylint: disable=wrong-import-position


class Part(ctypes.Structure):
    """cenote_kept_part"""
    _fields_ = [("address", ctypes.c_ulonglong), ("bytes", ctypes.c_size_t), ("label", ctypes.c_char * 64)]


class Kept:
    """A daemon, and this process as the program that uses it."""

    def __init__(self, build):
        self.cenote, self.cenoted = str(build / "bin" / "cenote"), str(build / "src" / "cenoted")
        self.daemons = []
        self.library = build / "lib" / "libcenote-driver.so.1"

    def start(self, folder):
        """Start cenoted; returns when it is ready."""
        path = str(Path(folder) / "kept")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(Path(folder) / "ready"))
            # pylint: disable-next=consider-using-with
            daemon = subprocess.Popen([self.cenoted, "--supervise", "--socket", path], stderr=subprocess.PIPE, text=True,
                                      env={**os.environ, "NOTIFY_SOCKET": str(Path(folder) / "ready")})
            assert ready.recv(64) == b"READY=1"
        self.daemons.append(daemon)
        return daemon, {"CENOTE_KEPT_SOCKET": path, "CENOTE_RUNTIME_DIR": str(Path(folder) / "runtime")}

    def make(self, name, count):
        """Commit an object of so many parts in this process, which has it open."""
        cuda = ctypes.CDLL(str(self.library))
        context, kept = ctypes.c_void_p(), ctypes.c_void_p()
        assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        assert not cuda.cuCtxSetCurrent(context)
        parts = (Part * count)(*(Part(0, 1 << 20, b"part") for _ in range(count)))
        assert not cuda.cenote_kept_create(name.encode(), parts, count, None, ctypes.byref(kept))
        assert not cuda.cenote_kept_commit(kept)
        return lambda: cuda.cenote_kept_release(kept)

    def objects_are_listed_and_retired(self):
        """kept: objects and their holders are listed, for people, programs and Prometheus, and can be retired."""
        with tempfile.TemporaryDirectory() as folder:
            daemon, here = self.start(folder)
            contains(run(self.cenote, "kept", **here)[0], "nothing is kept\n")
            os.environ.update(CENOTE_DEVICE="host", **here)
            release = self.make("models/a", 2)
            self.make("models/b", 1)()
            text, _ = run(self.cenote, "kept", **here)
            rows = [line.split() for line in text.splitlines()]
            assert rows[0][:6] == ["NAME", "GEN", "STATE", "SIZE", "PARTS", "OPEN"], text
            assert rows[1][:6] == ["models/a", "1", "committed", "2.0M", "2", "1"], text
            assert rows[2][0] == str(os.getpid()), text
            assert rows[3][:6] == ["models/b", "2", "committed", "1.0M", "1", "0"], text
            contains(text, "2 objects, 3.0M\n")
            assert "models/a" not in run(self.cenote, "kept", "models/b", **here)[0]
            self.check_ps(here)
            metrics, _ = run(self.cenote, "metrics", **here)
            contains(metrics, 'cenote_kept_bytes{name="models/a",generation="1",state="committed",user="', '"} 2097152\n',
                     'cenote_kept_openings{name="models/b",generation="2"')
            run(self.cenote, "kept", "--retire", "models/a", **here)
            data = json.loads(run(self.cenote, "kept", "--json", **here)[0])
            assert [found["state"] for found in data["objects"]] == ["retired", "committed"], data
            assert [holder["pid"] for holder in data["objects"][0]["holders"]] == [os.getpid()], data
            assert not release()
            run(self.cenote, "kept", "--retire", "models/b", **here)
            assert json.loads(run(self.cenote, "kept", "--json", **here)[0]) == {"objects": [], "error": None}
            contains(run(self.cenote, "kept", "--retire", "models/b", status=1, **here)[1], "no object models/b")
            daemon.send_signal(signal.SIGTERM)
            log = daemon.communicate()[1]
            assert not daemon.returncode
            contains(log, "committed models/a generation 1: 4194304 bytes", "gone models/b generation 2", "ends as asked")
            contains(run(self.cenote, "kept", status=1, **here)[1], "no cenoted listens at")
            assert not [name for name in os.listdir(folder) if name.startswith("kept")]

    def check_ps(self, here):
        """ps has the same objects as rows and as JSON, and shows their memory once; --pid selects what it has open."""
        text, _ = run(self.cenote, "ps", **here)
        contains(text, "kept by cenoted:\nNAME", "2 objects, 3.0M\n")
        assert [line.split()[0] for line in text.splitlines() if line.startswith("models/")] == ["models/a", "models/b"]
        assert not [line for line in text.splitlines() if "physical" in line and str(os.getpid()) in line], text
        assert "cenoted " not in text, text
        data = json.loads(run(self.cenote, "ps", "--json", **here)[0])
        assert [each["name"] for each in data["kept"]] == ["models/a", "models/b"], data
        assert data["kept"][0].keys() == json.loads(run(self.cenote, "kept", "--json", **here)[0])["objects"][0].keys()
        assert [each["pid"] for each in data["kept"][0]["holders"]] == [os.getpid()], data
        for words, names in ((["--pid", str(os.getpid())], ["models/a"]), (["--pid", "1"], []), (["--deferred"], []),
                             (["--user", str(os.getuid())], ["models/a", "models/b"]), (["--user", "54321"], [])):
            data = json.loads(run(self.cenote, "ps", "--json", *words, **here)[0])
            assert [each["name"] for each in data["kept"]] == names, (words, data)

    def two_daemons_do_not_share_a_socket(self):
        """cenoted: a second daemon at the same path is refused, and a killed one's socket is replaced."""
        with tempfile.TemporaryDirectory() as folder:
            daemon, here = self.start(folder)
            second = subprocess.run([self.cenoted, "--socket", here["CENOTE_KEPT_SOCKET"]], capture_output=True,
                                    text=True, check=False, timeout=20)
            assert second.returncode == 1
            contains(second.stderr, "another daemon listens there")
            contains(run(self.cenote, "kept", **here)[0], "nothing is kept\n")
            daemon.kill()
            daemon.communicate()
            os.unlink(Path(folder) / "ready")
            daemon, here = self.start(folder)
            contains(run(self.cenote, "kept", **here)[0], "nothing is kept\n")
            daemon.terminate()
            daemon.communicate()
            assert not daemon.returncode

    def options_are_checked(self):
        """cenoted: wrong options are refused with status 2, and --help names all."""
        for words in (["--socket"], ["--socket", "here"], ["--bytes-max", "0"], ["--bytes-max", "1X"], ["--frob"],
                      ["--objects-max", "99999999"], ["--descriptors-max", "-1"], ["word"], ["--bytes-max", "99999999T"]):
            refused = subprocess.run([self.cenoted, *words], capture_output=True, text=True, check=False, timeout=20)
            assert refused.returncode == 2 and "cenoted" in refused.stderr, (words, refused)
        text = subprocess.run([self.cenoted, "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
        contains(text, "--socket", "--supervise", "--bytes-max", "--objects-max", "--descriptors-max")
        assert subprocess.run([self.cenoted, "--version"], capture_output=True, check=True, timeout=20).stdout


def main(build):
    """Run the tests; returns whether all passed."""
    kept = Kept(Path(build))
    try:
        return run_tests(by_name(kept.objects_are_listed_and_retired, kept.two_daemons_do_not_share_a_socket,
                                 kept.options_are_checked))
    finally:
        for daemon in kept.daemons: # of a test that failed
            if daemon.poll() is None:
                daemon.kill()


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
