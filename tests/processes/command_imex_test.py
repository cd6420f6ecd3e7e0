#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of `cenote imex start`, `status` and `stop`: cenote-imexd in the background.

    command_imex_test.py BUILD_DIRECTORY
"""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from command_test import contains, environment, run
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

STRANGER = 65534  # a user that is not root


class Node:
    """The files of a node with two in its list: itself, at an address of its own, and one that is never there."""

    def __init__(self, folder, build):
        self.folder, self.cenote = Path(folder), build / "bin" / "cenote"
        pid = os.getpid()
        address = f"127.{1 + (pid >> 14) % 250}.{pid >> 6 & 255}"
        (self.folder / "nodes").write_text(f"{address}.{(pid & 63) * 4 + 1}\n{address}.{(pid & 63) * 4 + 2}\n")
        self.write_key("5a" * 32)
        self.here = {"CENOTE_RUNTIME_DIR": str(self.folder / "run")}
        self.options = ["--nodes", self.folder / "nodes", "--key", self.folder / "key", "--node", "1"]

    def write_key(self, digits):
        """A key that only its owner may read."""
        (self.folder / "key").write_text(digits)
        (self.folder / "key").chmod(0o600)

    def run(self, *words, **expected):
        """cenote imex, as a program of this node."""
        return run(self.cenote, "imex", *words, **expected, **self.here)

    def start(self, *options):
        """Start the daemon: the PID of its parent."""
        text, complaint = self.run("start", *self.options, *options)
        assert not complaint, complaint
        return int(re.fullmatch(r"node 1 of 2, process (\d+)\n", text)[1])

    def left(self):
        """What is left in the runtime directory."""
        return sorted(path.name for path in (self.folder / "run").glob("imex*"))


def child_of(pid):
    """The daemon whose parent this is."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])


def await_end(pid):
    """Wait until a process has ended."""
    try:
        with open(os.pidfd_open(pid), "rb") as process:
            assert select.select([process], [], [], 60)[0], f"process {pid} has not ended"
    except ProcessLookupError:
        pass


class Imex:
    """The command."""

    def __init__(self, build):
        self.build = Path(build)

    def starts_and_stops(self):
        """start: the daemon serves when the command ends; a second one is refused; stop leaves nothing."""
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            contains(node.run("stop", status=1)[1], "cenote imex: ", "it does not run here")
            pid = node.start()
            contains(node.run("start", *node.options, status=1)[1], f"runs here already: process {pid}\n")
            data = json.loads(node.run("status", "--json")[0])
            assert data["node"] == 1 and [one["self"] for one in data["nodes"]] == [True, False], data
            daemon = child_of(pid)
            assert os.getsid(pid) == os.getsid(daemon) == pid != os.getsid(0), "it would end with its terminal"
            assert node.run("stop") == (f"stopped process {pid}\n", "")
            await_end(daemon)
            assert not node.left(), node.left()
            contains(node.run("stop", status=1)[1], "it does not run here")
            node.here["CENOTE_IMEX_SOCKET"] = str(node.folder / "elsewhere")  # start and stop mean the same place
            node.start()
            assert (node.folder / "elsewhere").is_socket()
            node.run("stop")

    def starts_again_what_was_killed(self):
        """start: a daemon that is killed is started again; with --log, it says so there."""
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            pid = node.start("--log", node.folder / "log")
            daemon = child_of(pid)
            os.kill(daemon, signal.SIGKILL)
            await_end(daemon)
            node.run("status")  # waits for the answer of the next one
            assert child_of(pid) != daemon
            node.run("stop")
            contains((node.folder / "log").read_text(), "the daemon has ended (signal 9)", "ends as asked")

    def says_why_it_does_not_start(self):
        """start: what the daemon says of its key is printed, and nothing is left of it."""
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            for options in ([], ["--log", node.folder / "log"]):
                node.write_key("no digits")
                complaint = node.run("start", *node.options, *options, status=1)[1]
                contains(complaint, "the key must be 32 to 128 hexadecimal digits", "has not begun to serve")
                assert not node.left(), node.left()
            contains(node.run("start", "--nodes", "x", status=2)[1], "--nodes FILE and --key FILE")
            contains(node.run("start", *node.options, "--transport", "x", status=2)[1], "unknown transport 'x'")
            contains(node.run("start", *node.options, "--transport", "ucx", status=2)[1], "ucx has no key")
            complaint = node.run("start", "--transport", "ucx", status=2)[1]
            contains(complaint, "start takes --nodes FILE\n")
            complaint = node.run("status", "--transport", "ucx", status=2)[1]
            contains(complaint, "unknown option '--transport'\n")
            contains(node.run("start", *node.options, "--log", node.folder / "no" / "log", status=1)[1], "No such file")
            node.cenote = shutil.copy(node.cenote, node.folder)  # without the daemon beside it
            node.here |= {"PATH": "/nowhere", "LD_LIBRARY_PATH": str(self.build / "lib")}
            contains(node.run("start", *node.options, status=1)[1], "cenote-imexd cannot be executed: No such file")

    def starts_the_other_transport(self):
        """start --transport ucx: another program, without a key; stop ends it, too."""
        if not (self.build / "src" / "cenote-imexd-ucx").exists():
            raise Skip("cenote-imexd-ucx was not built: UCX has no headers here (libucx-dev)")
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            port = 20000 + os.getpid() * 4 % 12000
            (node.folder / "nodes").write_text(f"127.0.0.1:{port}\n127.0.0.1:{port + 1}\n")
            complaint = node.run("start", "--nodes", node.folder / "none", "--transport", "ucx", status=1)[1]
            contains(complaint, "none cannot be read", "cenote-imexd-ucx has not begun to serve")
            node.options = ["--nodes", node.folder / "nodes", "--transport", "ucx", "--node", "1"]
            pid = node.start("--log", node.folder / "log")
            contains((node.folder / "log").read_text(), "node 1 of 2, transport ucx")
            assert node.run("stop")[0] == f"stopped process {pid}\n"
            assert not node.left(), node.left()

    def stops_what_hangs(self):
        """stop: a daemon that does not answer is found, and killed by its parent."""
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            pid = node.start()
            daemon = child_of(pid)
            os.kill(daemon, signal.SIGSTOP)
            assert node.run("stop")[0] == f"stopped process {pid}\n"
            await_end(daemon)
            assert not node.left(), node.left()

    def ends_no_other_process(self):
        """stop: what listens but is no cenote-imexd is not ended, nor another user's daemon."""
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder, self.build)
            path = str(node.folder / "other")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
                other.bind(path)
                other.listen()
                node.here["CENOTE_IMEX_SOCKET"] = path
                contains(node.run("stop", status=1)[1], f"process {os.getpid()} is a service of a manager")
            if os.geteuid():
                raise Skip("another user's daemon was not tried: that needs root")
            if not all(path.stat().st_mode & 1 for path in Path(node.cenote).resolve().parents):
                raise Skip("another user's daemon was not tried: no other user may enter this folder")
            os.chmod(folder, 0o755)
            node.here["CENOTE_IMEX_SOCKET"] = str(node.folder / "ours")
            pid = node.start()
            stop = subprocess.run([node.cenote, "imex", "stop"], env=environment(node.here), user=STRANGER,
                                  capture_output=True, text=True, check=False)
            assert stop.returncode == 1, stop
            contains(stop.stderr, f"process {pid} cannot be asked to end: Operation not permitted")
            node.run("stop")


def main(build):
    """Runs all tests; True when all passed."""
    if not (Path(build) / "src" / "cenote-imexd").exists():
        print("1..0 # SKIP cenote-imexd was not built: GnuTLS has no headers here (libgnutls28-dev)")
        return True
    imex = Imex(build)
    return run_tests(by_name(imex.starts_and_stops, imex.starts_again_what_was_killed, imex.says_why_it_does_not_start,
                             imex.starts_the_other_transport, imex.stops_what_hangs, imex.ends_no_other_process))


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
