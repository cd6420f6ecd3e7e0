#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Measures copies and waits for values between two nodes, beside what one would use instead. Needs root (nodes.sh).

    nodes_bench.py BUILD [--transport tls|ucx] [--rounds N] [--quick]

One run has all of it on the same link, in turns: copies both ways, with operands in Cenote's memory (lent) and in heap
memory; a message and its acknowledgement over plain TCP, through the daemon's cipher alone (bench/nodes_stream.c) and,
for ucx, by ucx_perftest; waits for values; and the hop between a program and its daemon. Each figure is the median of
the rounds. Prints tables for docs/machines.md. The exporting program must not have run at all: else it fails.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from nodes_domain import Nodes, NoNodes, cpu_ns

PROGRAM, STREAM = "bench/bench-nodes", "bench/bench-nodes_stream"
SERVER = "10.77.0.1"
PORTS = {"plain": 50301, "tls": 50302}
COPIES = {64: 2000, 4096: 2000, 2 << 20: 60, 64 << 20: 12}  # bytes: how many a round
WAITS = {100: 400, 1000: 200, 10000: 60, 100000: 12}  # microseconds pending: how many a round
WARM_UP = 2  # as bench/nodes.h says; ucx_perftest takes no more than a tenth of the copies
HOPS = 2000
HOLDERS, HELD_EACH = 8, 27  # so many waits of a program are under way at a time
EXPORTER_NS_MAX = 1_000_000


class Figures:
    """What was measured, by name, over the rounds: median, 99th of 100 and rate."""

    def __init__(self):
        self.rows = {}

    def add(self, name, median_us, slow_us, gigabytes_s=None):
        """One round's."""
        self.rows.setdefault(name, []).append((median_us, slow_us, gigabytes_s))

    def add_answer(self, name, words, size, count):
        """The same from what a program of ours printed."""
        median_ns, slow_ns, all_ns = map(int, words)
        self.add(name, median_ns / 1000, slow_ns / 1000, size * count / all_ns)

    def get(self, name, which):
        """The median of the rounds; None: not measured."""
        values = [row[which] for row in self.rows.get(name, ()) if row[which] is not None]
        return statistics.median(values) if values else None


class Bench:
    """One run."""

    def __init__(self, nodes, options):
        self.nodes, self.options, self.figures = nodes, options, Figures()
        self.share = 10 if options.quick else 1
        self.pipes = [nodes.folder / name for name in ("asked", "told")]
        for pipe in self.pipes:
            os.mkfifo(pipe)
        self.exporter = nodes.run(1, PROGRAM, "export")
        self.name = self.exporter.next()
        self.user = self.start_user(2)
        self.writer = nodes.run(1, PROGRAM, "write", self.name, *self.pipes)
        self.writer.expect("ready")
        self.servers = []
        for kind, port in PORTS.items():
            if (nodes.build / STREAM).exists():
                server = nodes.run(1, STREAM, "serve", kind, SERVER, port)
                server.expect("ready")
                self.servers.append(server)

    def start_user(self, node):
        """A program that imports the memory."""
        user = self.nodes.run(node, PROGRAM, "use", self.name, *self.pipes)
        user.expect("ready")
        return user

    def count(self, full):
        """How often, in this run."""
        return max(2, full // self.share)

    def copies(self):
        """One round, and what it is compared with."""
        for size, full in COPIES.items():
            count = self.count(full)
            for way in ("from", "to"):
                for operand in ("lent", "heap"):
                    self.user.tell("copy", way, operand, size, count)
                    self.figures.add_answer((way, operand, size), self.user.expect("took "), size, count)
            for kind in PORTS if self.servers else ():
                sender = self.nodes.run(2, STREAM, "send", kind, SERVER, PORTS[kind], size, count)
                self.figures.add_answer((kind, size), sender.expect("took "), size, count)
                sender.end()
            if self.options.transport == "ucx":
                self.ucx(size, count)

    def ucx(self, size, count):
        """ucx_perftest. Its latency is of one way, so it is doubled; its bandwidth is of several messages at once."""
        if not shutil.which("ucx_perftest"):
            return
        for rank in (50, 99) if size < 1 << 16 else (50,):
            test = ["-t", "ucp_am_lat" if size < 1 << 16 else "ucp_am_bw", "-s", size, "-n", count, "-w", WARM_UP,
                    "-E", "sleep", "-R", rank]
            server = self.nodes.run(1, "stdbuf", "-oL", "ucx_perftest", *test)
            server.find("Waiting for connection")
            client = self.nodes.run(2, "ucx_perftest", SERVER, "-f", "-v", *test)
            client.find("iterations")
            client.next()
            fields = [float(field) for field in client.next().split(",")]
            client.end()
            server.end()
            if size >= 1 << 16:
                self.figures.add(("ucx", size), None, None, fields[4] * (1 << 20) / 1e9)
            elif rank == 50:
                self.figures.add(("ucx", size), 2 * fields[1], None)
            else:
                self.figures.add(("ucx", size), None, 2 * fields[1])

    def hops(self):
        """One round."""
        count = self.count(HOPS)
        self.user.tell("hop", count)
        self.figures.add_answer("hop", self.user.expect("took "), 0, count)

    def waits(self, watches):
        """One round."""
        for pending_us, full in WAITS.items():
            count = self.count(full)
            self.user.tell("wait", pending_us, count)
            self.figures.add_answer(("wait", pending_us, watches), self.user.expect("took "), 0, count)

    def all_copies(self):
        """All rounds of what needs one importer."""
        for _ in range(self.options.rounds):
            self.copies()
            self.hops()
            self.waits(1)

    def all_waits(self):
        """All rounds of waits beside others."""
        for _ in range(self.options.rounds):
            self.waits(1 + HOLDERS * HELD_EACH)

    def watch(self, work):
        """Do something; returns the CPU time of the exporting program meanwhile, in ns."""
        begin_ns = cpu_ns(self.exporter.pid())
        work()
        return cpu_ns(self.exporter.pid()) - begin_ns

    def run(self):
        """All of it. Returns the CPU time of the exporting program, in ns, but for imports: those it must answer."""
        exporter_ns = self.watch(self.all_copies)
        holders = [self.start_user(2) for _ in range(HOLDERS)]
        for holder in holders:
            holder.tell("hold", HELD_EACH)
            holder.expect("held")
        exporter_ns += self.watch(self.all_waits)
        for holder in holders:
            holder.end()
        return exporter_ns


def name_of(size):
    """Bytes in words."""
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def show_copies(figures, other, other_name):
    """The table of copies; `other` is what the last column compares with."""
    print(f"| | Cenote | {other_name} | Cenote beside it | plain TCP |\n|---|---|---|---|---|")
    for size in COPIES:
        is_small = size < 1 << 16

        def text(name):
            if is_small:
                median, slow = figures.get(name, 0), figures.get(name, 1)
                return "–" if median is None else f"{median:.0f} µs, {slow:.0f} µs"
            rate = figures.get(name, 2)
            return "–" if rate is None else f"{rate:.2f} GB/s"

        for way in ("from", "to"):
            for operand in ("lent", "heap"):
                which = 0 if is_small else 2
                ours, theirs = figures.get((way, operand, size), which), figures.get((other, size), which)
                ratio = f"{ours / theirs:.2f} times" if ours and theirs else "–"
                place = {"lent": "Cenote's memory", "heap": "heap memory"}[operand]
                direction = {"from": "from another node to", "to": "to another node from"}[way]
                measured = ": median, 99 of 100" if is_small else ""
                print(f"| {name_of(size)} {direction} {place}{measured} | {text((way, operand, size))} | "
                      f"{text((other, size))} | {ratio} | {text(('plain', size))} |")


def show_waits(figures):
    """The table of waits, and the hop."""
    many = 1 + HOLDERS * HELD_EACH
    print(f"\n| a value that was waited for | 1 wait: median, 99 of 100 | {many} waits at once |\n|---|---|---|")
    for pending_us in WAITS:
        one, all_ = (f"{figures.get(('wait', pending_us, watches), 0):.0f} µs, "
                     f"{figures.get(('wait', pending_us, watches), 1):.0f} µs" for watches in (1, many))
        print(f"| for {pending_us / 1000:g} ms | {one} | {all_} |")
    print(f"\nThe hop between a program and its daemon, and back: median {figures.get('hop', 0):.1f} µs, "
          f"99 of 100 {figures.get('hop', 1):.1f} µs.")


def main():
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--transport", choices=("tls", "ucx"), default="tls")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of each round: to see that it works")
    options = parser.parse_args()
    try:
        with Nodes(options.build, 2, options.transport) as nodes:
            nodes.environment.setdefault("UCX_TLS", "tcp")
            bench = Bench(nodes, options)
            begin_s = time.monotonic()
            exporter_ns = bench.run()
            seconds = time.monotonic() - begin_s
    except NoNodes as why:
        sys.exit(str(why))
    others = {"tls": "its cipher alone", "ucx": "ucx_perftest"}
    show_copies(bench.figures, options.transport, others[options.transport])
    show_waits(bench.figures)
    print(f"\nCPU time of the exporting program in these {seconds:.0f} s: {exporter_ns / 1e6:.2f} ms.")
    if exporter_ns > EXPORTER_NS_MAX:
        sys.exit("The exporting program was involved.")


if __name__ == "__main__":
    main()
