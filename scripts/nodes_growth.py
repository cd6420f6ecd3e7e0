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
import sys
import time
from pathlib import Path

from nodes_domain import Nodes, NoNodes, cpu_ns, cpu_s, size_of

IDLE_S = 10
COPIES = 10000
PROGRAM = "bench/bench-nodes_growth"


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
        exporter = nodes.run(1, PROGRAM, "export", "memory", 1)
        copier = nodes.run(2, PROGRAM, "copy", COPIES)
        copier.tell(take_names(exporter))
        copied = int(copier.next().split()[1]) / 1000
        anonymous, _, descriptors = size_of(daemons[0])
        print(f"{count} nodes: {sum(work) / count:.0f} us of CPU time a second each, node 1 {carried:.0f} bytes and "
              f"{packets:.0f} packets a second, {anonymous} KiB, {descriptors} descriptors; "
              f"until all were connected {begun:.0f} ms at most; "
              f"64 bytes from node 1 to node 2 take {copied:.0f} us", flush=True)
        for program in (copier, exporter):
            program.end()


def take_names(exporter):
    """The lines that it prints."""
    lines = []
    while not lines or lines[-1] != "end":
        line = exporter.next()
        if line is None:
            sys.exit("the exporter has failed")
        lines.append(line)
    return "\n".join(lines)


def imports(build, kind, total, importer_count):
    """Imports from node 1, on so many other nodes."""
    with Nodes(build, importer_count + 1) as nodes:
        exporter = nodes.run(1, PROGRAM, "export", kind, total if kind != "memory" else 1)
        names = take_names(exporter)
        importers = [nodes.run(2 + i, PROGRAM, "import", total // importer_count) for i in range(importer_count)]
        for importer in importers:
            importer.tell(names)
        open_ = list(importers)
        while open_:
            lines = [importer.next() for importer in open_]
            for importer, line in zip(list(open_), lines):
                if not line or line.startswith("refused"):
                    print(line or "an importer has ended", flush=True)
                    open_.remove(importer)
            if not open_:
                break
            count, median, slowest = zip(*(map(int, line.split()) for line in lines if line[:1].isdigit()))
            sizes = {"exporter's daemon": nodes.daemon(1), "importer's daemon": nodes.daemon(2),
                     "exporter": exporter.pid(), "importer": importers[0].pid()}
            print(f"{kind}, {importer_count} importers, {count[0]} each: "
                  f"median {sorted(median)[len(median) // 2] / 1000:.0f} us, slowest {max(slowest) / 1000:.0f} us",
                  *(describe(name, pid) for name, pid in sizes.items()), sep="; ", flush=True)
            for importer in open_:
                importer.tell("")
            if count[0] == total // importer_count:
                break
        for program in (*importers, exporter):
            program.end()


def main():
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--nodes", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--imports", type=int, default=10000)
    parser.add_argument("--kind", nargs="*", default=["memory", "blocks"])
    parser.add_argument("--spread", action="store_true")
    options = parser.parse_args()
    importers = max(options.nodes or [16]) - 1 if options.spread else 1
    try:
        for count in options.nodes:
            idle(options.build, count)
        for kind in options.kind:
            imports(options.build, kind, options.imports, importers)
    except NoNodes as why:
        sys.exit(str(why))


main()
