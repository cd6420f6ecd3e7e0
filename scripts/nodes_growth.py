#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Measures how cenote-imexd grows: with nodes that do nothing, and with imports from another node. Needs root (nodes.sh).

    nodes_growth.py BUILD [--nodes N...] [--imports N] [--kind memory|memories|blocks...] [--spread]

For each number of nodes: what a daemon takes, and what it does in a second in which no program asks for anything. For
each kind (bench/nodes_growth.c): how long an import takes, and what the daemons of importer and exporter, and both
programs, have by then. --spread: from one exporter to importers on all other nodes at once.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "nodes.sh"
TICKS = os.sysconf("SC_CLK_TCK")
IDLE_S = 10
COPIES = 10000


class Nodes:
    """Nodes, as long as the object is entered."""

    def __init__(self, build, count):
        self.build, self.count = build, count
        self.folder = Path(tempfile.mkdtemp(prefix="cenote-growth-"))
        self.environment = {**os.environ, "NODES_DIRECTORY": str(self.folder / "nodes"), "CENOTE_DEVICE": "host",
                            "CENOTE_HOST_MEMORY": "64G", "NODES_DAEMON": str(build / "src" / "cenote-imexd")}

    def __enter__(self):
        with open(self.folder / "said", "w+", encoding="utf-8") as said:  # a pipe would be kept open by what it starts
            started = subprocess.run([SCRIPT, "start", str(self.count)], env=self.environment, stdout=said, stderr=said,
                                     check=False)
        why = (self.folder / "said").read_text(encoding="utf-8") if started.returncode else None
        deadline = time.monotonic() + 60
        while not why and any(self.log(node).count(" is up") < self.count - 1 for node in range(1, self.count + 1)):
            if time.monotonic() > deadline:
                why = "the nodes do not find each other"
            time.sleep(0.05)
        if why:
            self.__exit__()
            sys.exit(why)
        return self

    def __exit__(self, *_):
        subprocess.run([SCRIPT, "stop"], env=self.environment, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, node):
        """What its daemon has said."""
        return (self.folder / "nodes" / f"node{node}.log").read_text(encoding="utf-8")

    def inside(self, node):
        """The PIDs of the programs of a node, as we know them, with their names."""
        holder = int((self.folder / "nodes" / f"node{node}.pid").read_text(encoding="ascii"))
        space = os.readlink(f"/proc/{holder}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/ns/pid") == space:
                    yield int(entry), Path(f"/proc/{entry}/comm").read_text(encoding="ascii").strip()
            except OSError:
                pass  # it has ended

    def daemon(self, node):
        """The PID of its daemon."""
        return next(pid for pid, name in self.inside(node) if name == "cenote-imexd")

    def run(self, node, *arguments):
        """Start bench/nodes_growth.c on a node."""
        program = self.build / "bench" / "bench-nodes_growth"
        return subprocess.Popen([SCRIPT, "run", str(node), program, *map(str, arguments)], env=self.environment,
                                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def traffic(self, node):
        """Bytes and packets that its link has carried, both ways."""
        pid = self.daemon(node)
        fields = next(line for line in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
                      if "eth0" in line).split(":")[1].split()
        return int(fields[0]) + int(fields[8]), int(fields[1]) + int(fields[9])


def cpu_s(pid):
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_ns(pid):
    """The same, finer, of its threads that live."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in threads)


def size_of(pid):
    """Its own memory in KiB, mappings and descriptors."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        return int(status["RssAnon"].split()[0]), sum(1 for _ in maps), len(os.listdir(f"/proc/{pid}/fd"))


def describe(name, pid):
    """What a process takes."""
    anonymous, mappings, descriptors = size_of(pid)
    return f"{name}: {anonymous} KiB, {mappings} mappings, {descriptors} descriptors, {cpu_s(pid):.2f} s CPU"


def idle(build, count):
    """What daemons take that do nothing."""
    with Nodes(build, count) as nodes:
        time.sleep(2)
        daemons = [nodes.daemon(node) for node in range(1, count + 1)]
        begun = max(cpu_ns(pid) for pid in daemons) / 1e6
        before = [cpu_ns(pid) for pid in daemons], nodes.traffic(1)
        time.sleep(IDLE_S)
        after = [cpu_ns(pid) for pid in daemons], nodes.traffic(1)
        work = [(one - other) / IDLE_S / 1000 for one, other in zip(after[0], before[0])]
        carried, packets = ((one - other) / IDLE_S for one, other in zip(after[1], before[1]))
        exporter = nodes.run(1, "export", "memory", 1)
        copier = nodes.run(2, "copy", COPIES)
        copier.stdin.write(take_names(exporter))
        copier.stdin.flush()
        copied = int(copier.stdout.readline().split()[1]) / 1000
        anonymous, _, descriptors = size_of(daemons[0])
        print(f"{count} nodes: {sum(work) / count:.0f} us of CPU time a second each, node 1 {carried:.0f} bytes and "
              f"{packets:.0f} packets a second, {anonymous} KiB, {descriptors} descriptors; "
              f"until all were connected {begun:.0f} ms at most; "
              f"64 bytes from node 1 to node 2 take {copied:.0f} us", flush=True)
        for program in (copier, exporter):
            program.kill()
            program.wait()


def take_names(exporter):
    """The lines that it prints."""
    lines = []
    for line in exporter.stdout:
        lines.append(line)
        if line == "end\n":
            return "".join(lines)
    sys.exit("the exporter has failed")


def imports(build, kind, total, importer_count):
    """Imports from node 1, on so many other nodes."""
    with Nodes(build, importer_count + 1) as nodes:
        exporter = nodes.run(1, "export", kind, total if kind != "memory" else 1)
        names = take_names(exporter)
        importers = [nodes.run(2 + i, "import", total // importer_count) for i in range(importer_count)]
        for importer in importers:
            importer.stdin.write(names)
            importer.stdin.flush()
        exporter_pid = next(pid for pid, name in nodes.inside(1) if name == "bench-nodes_gro")
        open_ = list(importers)
        while open_:
            lines = [importer.stdout.readline() for importer in open_]
            for importer, line in zip(list(open_), lines):
                if not line or line.startswith("refused"):
                    print(line.strip(), flush=True)
                    open_.remove(importer)
            if not open_:
                break
            count, median, slowest = zip(*(map(int, line.split()) for line in lines if line[:1].isdigit()))
            importer_pid = next(pid for pid, name in nodes.inside(2) if name == "bench-nodes_gro")
            sizes = {"exporter's daemon": nodes.daemon(1), "importer's daemon": nodes.daemon(2),
                     "exporter": exporter_pid, "importer": importer_pid}
            print(f"{kind}, {importer_count} importers, {count[0]} each: "
                  f"median {sorted(median)[len(median) // 2] / 1000:.0f} us, slowest {max(slowest) / 1000:.0f} us",
                  *(describe(name, pid) for name, pid in sizes.items()), sep="; ", flush=True)
            for importer in open_:
                importer.stdin.write("\n")
                importer.stdin.flush()
            if count[0] == total // importer_count:
                break
        for program in (*importers, exporter):
            program.kill()
            program.wait()


def main():
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--nodes", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--imports", type=int, default=10000)
    parser.add_argument("--kind", nargs="*", default=["memory", "blocks"])
    parser.add_argument("--spread", action="store_true")
    options = parser.parse_args()
    for count in options.nodes:
        idle(options.build.resolve(), count)
    for kind in options.kind:
        imports(options.build.resolve(), kind, options.imports, max(options.nodes or [16]) - 1 if options.spread else 1)


main()
