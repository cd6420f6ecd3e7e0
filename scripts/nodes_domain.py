# SPDX-License-Identifier: MIT
"""
A domain of nodes.sh, for scripts and tests in Python: its nodes, their programs and logs, and what processes take.

Nothing is waited for by the clock: programs and logs are read line by line, each by a thread, with a time limit.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "nodes.sh"
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_S = 60


class NoNodes(Exception):
    """Why there are no nodes here."""


class Lines:
    """The lines of a stream as they come, kept."""

    def __init__(self, stream, name):
        self.name, self.lines, self.taken, self.ended = name, [], 0, False
        self.changed = threading.Condition()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        try:
            for line in stream:
                with self.changed:
                    self.lines.append(line.rstrip("\n"))
                    self.changed.notify_all()
        except ValueError:
            pass  # it was closed
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def mark(self):
        """Where the next line will be."""
        with self.changed:
            return len(self.lines)

    def find(self, text, since=0, limit_s=LIMIT_S, beside=None):
        """Wait for a line from `since` on that has this in it; returns the line. `beside` must not end before."""
        deadline = time.monotonic() + limit_s
        with self.changed:
            while True:
                for line in self.lines[since:]:
                    if text in line:
                        return line
                since = len(self.lines)
                left_s = deadline - time.monotonic()
                if self.ended or left_s <= 0:
                    why = "has ended without" if self.ended else f"has not said within {limit_s} s"
                    raise AssertionError(f"{self.name} {why}: {text}; last: {self.lines[-3:]}")
                if beside and beside.ended:
                    raise AssertionError(f"{beside.name} has ended; last: {beside.lines[-3:]}")
                self.changed.wait(min(left_s, 1) if beside else left_s)

    def next(self, limit_s=LIMIT_S):
        """Wait for the next line that was not taken; None: there will be none."""
        deadline = time.monotonic() + limit_s
        with self.changed:
            while self.taken == len(self.lines):
                if self.ended:
                    return None
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise AssertionError(f"{self.name} has said nothing for {limit_s} s; last: {self.lines[-3:]}")
                self.changed.wait(left_s)
            self.taken += 1
            return self.lines[self.taken - 1]

    def expect(self, begin, limit_s=LIMIT_S):
        """The next line, which begins so; returns its other words."""
        line = self.next(limit_s)
        assert line is not None and line.startswith(begin), f"{self.name} said {line!r} and not {begin!r}"
        return line[len(begin):].split()


class Program(Lines):
    """A program of a node. It ends when its input does, if it is one of ours."""

    def __init__(self, command, environment, name, folder=None):
        self.process = subprocess.Popen(list(map(str, command)), env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        super().__init__(self.process.stdout, name)

    def tell(self, *words):
        """Write a line to it."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def pid(self):
        """The PID of the program itself, which the process that entered the namespaces has started."""
        outer = self.process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii").split()[0])

    def end(self, limit_s=LIMIT_S):
        """Close its input and wait; returns its exit status."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it was killed
        return self.process.wait(limit_s)


class Nodes:
    """Nodes that see each other, as long as the object is entered."""

    def __init__(self, build, count, transport="tls"):
        self.build, self.count = build.resolve(), count
        self.folder = Path(tempfile.mkdtemp(prefix="cenote-nodes-"))
        self.environment = {"CENOTE_HOST_MEMORY": "64G", "NODES_DAEMON": str(self.build / "src" / "cenote-imexd"),
                            **os.environ, "NODES_DIRECTORY": str(self.folder / "nodes"), "CENOTE_DEVICE": "host",
                            "NODES_TRANSPORT": transport}
        self.logs, self.tails = {}, []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended as asked"))  # and not without __exit__()
        try:
            status, said = self.shell("start", self.count)
            if status:
                raise NoNodes(said)
            for node in range(1, self.count + 1):
                tail = subprocess.Popen(["tail", "-n", "+1", "-f", self.folder / "nodes" / f"node{node}.log"],
                                        stdout=subprocess.PIPE, text=True)
                self.tails.append(tail)
                self.logs[node] = Lines(tail.stdout, f"the daemon of node {node}")
            for node in self.logs:
                self.await_up(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, kind=None, *_):
        self.shell("stop")
        for tail in self.tails:
            tail.kill()
            tail.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind:
            self.show_logs()

    def shell(self, *arguments):
        """Run nodes.sh and wait for it; returns its status and what it said."""
        # Not a pipe, which what it starts would keep open.
        with open(self.folder / "said", "w+", encoding="utf-8") as said:
            done = subprocess.run([SCRIPT, *map(str, arguments)], env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=said, stderr=said, timeout=LIMIT_S, check=False)
            said.seek(0)
            return done.returncode, said.read().strip()

    def act(self, *arguments):
        """The same for what must succeed without a word."""
        done = self.shell(*arguments)
        assert done == (0, ""), f"nodes.sh {arguments}: {done}"

    def show_logs(self):
        """What the daemons have said, as comments of TAP."""
        for log in self.logs.values():
            for line in log.lines[-50:]:
                print(f"# {log.name}: {line}")

    def marks(self):
        """Where the logs are now."""
        return {node: log.mark() for node, log in self.logs.items()}

    def await_up(self, node, since=0, others=None):
        """Wait until the node's daemon says that the others are connected."""
        for other in others or self.logs:
            if other != node:
                self.logs[node].find(f"node {other} is up", since)

    def run(self, node, program, *arguments):
        """Start a program of the build, or of this system, on a node."""
        own = f"./{program}" if (self.build / program).exists() else program  # as a user in that folder would
        return Program([SCRIPT, "run", node, own, *arguments], self.environment, f"{Path(program).name} on node {node}",
                       self.build)

    def wire(self, node, *options):
        """Lead the link of a node through nodes_wire.py."""
        wire = Program([SCRIPT, "wire", node, *options], self.environment, f"the wire of node {node}")
        wire.expect("ready")
        return wire

    def inside(self, node):
        """The PIDs of the programs of a node, as we know them, with their names."""
        holder = (self.folder / "nodes" / f"node{node}.pid").read_text(encoding="ascii").split()[0]
        space = os.readlink(f"/proc/{holder}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/ns/pid") == space:
                    yield int(entry), Path(os.readlink(f"/proc/{entry}/exe")).name
            except OSError:
                pass  # it has ended

    def daemon(self, node):
        """The PID of its daemon. With NODES_SUPERVISE its parent is the same program."""
        found = [pid for pid, name in self.inside(node) if name.startswith("cenote-imexd")]
        assert found, f"the daemon of node {node} has ended"
        return max(found)

    def traffic(self, node):
        """Bytes and packets that its link has carried, both ways."""
        pid = self.daemon(node)
        fields = next(line for line in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
                      if "eth0" in line).split(":")[1].split()
        return int(fields[0]) + int(fields[8]), int(fields[1]) + int(fields[9])

    def ports(self, node):
        """The addresses and TCP ports at which its daemon listens; IPv4 alone, which nodes have."""
        pid = self.daemon(node)
        sockets, ports = set(), set()
        for entry in os.listdir(f"/proc/{pid}/fd"):
            try:
                sockets.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
            except OSError:
                pass  # it was closed
        for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                ports.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
        return sorted(ports)


def cpu_s(pid):
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_ns(pid):
    """The same, finer: the clock that clock_getcpuclockid() would name."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def size_of(pid):
    """Its own memory in KiB, mappings and descriptors."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        return int(status["RssAnon"].split()[0]), sum(1 for _ in maps), len(os.listdir(f"/proc/{pid}/fd"))
