#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Soaks cenote-imexd: hands data over between nodes while nodes are killed, links are cut and strangers call. Needs root.

    nodes_soak.py BUILD [--transport tls|ucx] [--hand-overs N] [--kills N] [--cuts N] [--strangers SECONDS] [--seed N]

Programs (tests/processes/nodes_soak_subject.c) are in pairs: an exporter on one node and an importer on another hand
data over in turns, each way, in blocks of a pool and in memory of cuMemCreate(), and check every byte. What must hold:

- hand-overs: every byte is right, and every block comes back to its pool.
- kills: a node dies at a random moment, its daemon with all its programs; sometimes its link goes with it, as if it had
  lost power. Whatever the others had asked of it ends within LOST_S_MAX, done or CUDA_ERROR_EXTERNAL_DEVICE; blocks
  that it held come back; pairs of other nodes go on; the node comes back and works; and the surviving daemons have
  after all rounds the descriptors, mappings and memory that they had at first.
- cuts: the same for a link. A cut that is short harms nobody.
- strangers: wrong keys, addresses that are not listed, bytes that make no sense at every port of a daemon, and handles
  with one bit changed get nothing, and pairs go on. Over UCX the daemons live and pairs go on as well, but UCX keeps
  descriptors of such calls, until it has none for a node that starts; so the daemons are started again. Then a call
  comes that ends a daemon where UCX has a certain mistake: the daemon's parent starts it again, and pairs work.

tests/processes/nodes_soak_test.py has short forms of these.
"""

import argparse
import random
import resource
import sys
import time
from pathlib import Path

from nodes_domain import Nodes, NoNodes, size_of

SUBJECT = "tests/nodes_soak_subject"
STRANGER = Path(__file__).resolve().parent / "nodes_stranger.py"
LISTED, UNLISTED, LOOPBACK, PORT = "10.77.0.3", "10.77.0.200", "127.0.0.1", 50100
LOST_S_MAX = 8  # a node is gone after 4 s of silence; the rest is for a machine that is busy
DELAY_S_MAX = 0.5
SHORT_CUT_S_MAX = 0.3
ABORT_S_MAX = 3
TURNS_AFTER = 8
# KiB, mappings, descriptors, between the first quarter of the rounds and the last. At first all take more heap.
GROWTH_MAX = {"daemon": (160, 4, 2), "program": (1024, 6, 2)}
GROWTH_FIRST_MAX, FIRST_ROUNDS = {"daemon": (512, 4, 2), "program": (2048, 6, 2)}, 20


class Pair:
    """An exporter on one node and an importer on another."""

    def __init__(self, nodes, exporter_node, importer_node, seed):
        self.nodes, self.exporter_node, self.importer_node, self.seed = nodes, exporter_node, importer_node, seed
        self.exporter = self.importer = self.names = None
        self.marks = 0, 0

    def __str__(self):
        return f"{self.exporter_node} to {self.importer_node}"

    def crosses(self, node):
        """Does it need this node?"""
        return node in (self.exporter_node, self.importer_node)

    def start(self):
        """Start what does not run."""
        self.seed += 1
        if not self.exporter:
            self.exporter = self.nodes.run(self.exporter_node, SUBJECT, "export", self.seed)
            self.names = self.exporter.next()
        if not self.importer:
            self.importer = self.nodes.run(self.importer_node, SUBJECT, "import", self.seed + 1000)

    def mark(self):
        """What is said from now on counts."""
        self.marks = self.exporter.mark(), self.importer.mark()

    def serve(self, count=0):
        """Begin to hand over."""
        self.mark()
        self.exporter.tell("serve", count)
        self.exporter.find("serving", self.marks[0])
        self.importer.tell("take", self.names)

    def await_progress(self):
        """Both have gone on since the mark."""
        self.exporter.find("at ", self.marks[0], beside=self.importer)
        self.importer.find("at ", self.marks[1], beside=self.exporter)

    def await_end(self, limit_s):
        """It was in order; returns the number of turns."""
        turns = {int(program.find("ended ", mark, limit_s, beside=other).split()[1]) for program, other, mark in
                 zip((self.exporter, self.importer), (self.importer, self.exporter), self.marks)}
        assert len(turns) == 1, f"{self}: {turns} turns"
        return turns.pop()

    def stop(self):
        """End in order."""
        self.exporter.tell("stop")
        return self.await_end(60)

    def await_lost(self, since_s):
        """The importer has seen that the other node is gone; returns after how many seconds."""
        self.importer.find("lost", self.marks[1], LOST_S_MAX + since_s - time.monotonic())
        return time.monotonic() - since_s

    def abandon(self, node, mark):
        """Tell the exporter, as soon as its daemon says that the node is gone; its blocks come back."""
        self.nodes.logs[self.exporter_node].find(f"node {node} is gone", mark, LOST_S_MAX)
        self.exporter.tell("abandon")
        self.exporter.find("abandoned", self.marks[0], LOST_S_MAX)

    def bury(self, node):
        """What was on this node was killed."""
        if self.exporter_node == node:
            self.exporter.end()
            self.exporter = None
        if self.importer_node == node:
            self.importer.end()
            self.importer = None

    def end(self):
        """Both end with their input, well."""
        for program in (self.importer, self.exporter):
            status = program.end()
            assert status == 0, f"{program.name} ended with {status}: {program.lines[-3:]}"


class Sizes:
    """What processes take, round by round."""

    def __init__(self):
        self.rounds = {}

    def add(self, name, pid):
        """One more round."""
        self.rounds.setdefault(name, []).append(size_of(pid))

    def quarters(self):
        """For each name the most of the first quarter of its rounds, and the least of the last."""
        for name, rounds in self.rounds.items():
            quarter = max(1, len(rounds) // 4)
            yield name, list(map(max, zip(*rounds[:quarter]))), list(map(min, zip(*rounds[-quarter:])))

    def tell(self):
        """What was seen."""
        return "; ".join(f"{name} {first[0]} to {last[0]} KiB, {first[1]} to {last[1]} mappings, "
                         f"{first[2]} to {last[2]} descriptors" for name, first, last in self.quarters())

    def check(self):
        """Nothing has grown; returns what was seen."""
        for name, first, last in self.quarters():
            count = len(self.rounds[name])
            limits = GROWTH_MAX if count >= FIRST_ROUNDS else GROWTH_FIRST_MAX
            for one, other, most in zip(first, last, limits[name.split()[0]]):
                assert other <= one + most, f"{self.tell()} in {count} rounds"
        return self.tell()


def rounds_of(count, seconds):
    """Numbers of rounds: so many, or as many as there is time for."""
    begin_s, done = time.monotonic(), 0
    while done < count or (seconds and time.monotonic() - begin_s < seconds):
        yield done
        done += 1


def start_pairs(nodes, places, seed):
    """Pairs of programs that do nothing yet."""
    pairs = [Pair(nodes, exporter, importer, seed + 10000 * i) for i, (exporter, importer) in enumerate(places)]
    for pair in pairs:
        pair.start()
    return pairs


# ---- Hand-overs ----


def soak_hand_overs(nodes, count, seed=1, seconds=0):
    """As many as wanted, by all pairs together; from node 1 to each other one, and back."""
    places = [(1, node) for node in range(2, nodes.count + 1)] + [(node, 1) for node in range(2, nodes.count + 1)]
    pairs = start_pairs(nodes, places, seed)
    each, turns, begin_s = -(-count // (2 * len(pairs))), 0, time.monotonic()
    for _ in rounds_of(1, seconds):
        for pair in pairs:
            pair.serve(each)
        turns += sum(pair.await_end(60 + each / 5) for pair in pairs)
    for pair in pairs:
        pair.end()
    took_s = time.monotonic() - begin_s
    return f"{2 * turns} hand-overs by {len(pairs)} pairs in {took_s:.0f} s, {2 * turns / took_s:.0f} a second"


# ---- Nodes that die ----

VICTIM = 2  # of three: node 1 connects to it, and it connects to node 3
PLACES = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3)]


def await_all_up(nodes, node, marks):
    """The node and all others are connected again."""
    nodes.await_up(node, marks[node])
    for other in nodes.logs:
        if other != node:
            nodes.await_up(other, marks[other], [node])


def begin_round(pairs, generator):
    """All go on; then a random time passes."""
    for pair in pairs:
        pair.await_progress()
    time.sleep(generator.uniform(0, DELAY_S_MAX))
    for pair in pairs:
        pair.mark()


def see_it_gone(pairs, node, marks, since_s, dead):
    """Importers see that the node is gone, and exporters have their blocks back; returns the longest time."""
    longest_s = 0
    for pair in pairs:
        if pair.crosses(node) and not (dead and pair.importer_node == node):
            longest_s = max(longest_s, pair.await_lost(since_s))
    for pair in pairs:
        if pair.crosses(node) and not (dead and pair.exporter_node == node):
            other = pair.importer_node if pair.exporter_node == node else node
            pair.abandon(other, marks[pair.exporter_node])
    return longest_s


def go_on(pairs, node):
    """The node is back: its pairs begin again, and all others have never stopped."""
    for pair in pairs:
        if pair.crosses(node):
            pair.start()
            pair.serve()
    for pair in pairs:
        pair.await_progress()


def finish(pairs):
    """End all in order."""
    for pair in pairs:
        pair.stop()
    for pair in pairs:
        pair.end()


def soak_kills(nodes, count, seed=1, seconds=0):
    """Kill node 2 of three again and again."""
    generator, sizes, longest_s, done = random.Random(seed), Sizes(), 0, 0
    pairs = start_pairs(nodes, PLACES, seed)
    for pair in pairs:
        pair.serve()
    for done in rounds_of(count, seconds):
        begin_round(pairs, generator)
        marks, power = nodes.marks(), generator.randrange(8) == 0
        if power:
            nodes.act("cut", VICTIM)
        since_s = time.monotonic()
        nodes.act("kill", VICTIM)
        longest_s = max(longest_s, see_it_gone(pairs, VICTIM, marks, since_s, dead=True))
        for pair in pairs:
            pair.bury(VICTIM)
        if power:
            nodes.act("mend", VICTIM)
        nodes.act("boot", VICTIM)
        await_all_up(nodes, VICTIM, marks)
        go_on(pairs, VICTIM)
        for node in (1, 3):
            sizes.add(f"daemon {node}", nodes.daemon(node))
        sizes.add("program that exports", pairs[0].exporter.pid())
        sizes.add("program that imports", pairs[2].importer.pid())
    finish(pairs)
    return f"{done + 1} kills, all noticed within {longest_s:.1f} s; {sizes.check()}"


# ---- Links that are cut ----


def soak_cuts(nodes, count, seed=1, seconds=0):
    """Cut the link of node 2 of three again and again, every other time for so short that nobody may notice."""
    generator, sizes, longest_s, done = random.Random(seed), Sizes(), 0, 0
    pairs = start_pairs(nodes, PLACES, seed)
    for pair in pairs:
        pair.serve()
    for done in rounds_of(count, seconds):
        begin_round(pairs, generator)
        marks, since_s = nodes.marks(), time.monotonic()
        nodes.act("cut", VICTIM)
        if done % 2:
            time.sleep(generator.uniform(0, SHORT_CUT_S_MAX))
            nodes.act("mend", VICTIM)
            for pair in pairs:
                pair.mark()
                pair.await_progress()
        else:
            longest_s = max(longest_s, see_it_gone(pairs, VICTIM, marks, since_s, dead=False))
            nodes.act("mend", VICTIM)
            await_all_up(nodes, VICTIM, marks)
            go_on(pairs, VICTIM)
        for node in nodes.logs:
            sizes.add(f"daemon {node}", nodes.daemon(node))
        sizes.add("program that exports", pairs[0].exporter.pid())
        sizes.add("program that imports", pairs[0].importer.pid())
    finish(pairs)
    return f"{done + 1} cuts, noticed within {longest_s:.1f} s or harmless; {sizes.check()}"


# ---- Strangers ----


def try_wrong_key(nodes):
    """A listed node that has another key does not come up."""
    path = nodes.folder / "nodes" / "key"
    key, marks = path.read_text(encoding="ascii"), nodes.marks()
    path.write_text(key[::-1], encoding="ascii")
    nodes.act("boot", 3)
    for node in (1, 2):
        nodes.logs[node].find("node 3 failed: not the same key", marks[node])
    nodes.act("kill", 3)
    path.write_text(key, encoding="ascii")
    for node in (1, 2):
        assert not any("node 3 is up" in line for line in nodes.logs[node].lines[marks[node]:])


def attack(nodes, seconds, seed):
    """At every port of both daemons; returns the number of calls from each address."""
    calls, places = {}, []
    for victim in (1, 2):
        listens = nodes.ports(victim)
        for node, source in ((victim, LOOPBACK), (3, LISTED), (3, UNLISTED)):
            address = LOOPBACK if source == LOOPBACK else f"10.77.0.{victim}"
            ports = [port for at, port in listens if at == address]
            assert ports or source == LOOPBACK, f"node {victim} listens at {listens}"
            if ports:
                places.append((node, source, address, ports))
    for number, (node, source, address, ports) in enumerate(places):
        stranger = nodes.run(node, "python3", STRANGER, address, source, seconds / len(places), seed + number, *ports)
        count, said = map(int, stranger.expect("calls ", seconds + 60))
        assert stranger.end() == 0
        assert source != UNLISTED or said == 0, f"{said} bytes were said to an address that is not listed"
        calls[source] = calls.get(source, 0) + count
    return calls


def besiege(nodes, seconds, seed):
    """Attack twice: after the first time the daemons have all the memory that they need for it."""
    sizes, daemons, calls = Sizes(), [nodes.daemon(node) for node in (1, 2)], {}
    assert nodes.run(3, "ip", "address", "add", UNLISTED + "/24", "dev", "eth0").end() == 0
    for share in (0.3, 0.7):
        for source, count in attack(nodes, share * seconds, seed).items():
            calls[source] = calls.get(source, 0) + count
        for node, daemon in zip((1, 2), daemons):
            assert nodes.daemon(node) == daemon, f"the daemon of node {node} was started again"
            sizes.add(f"daemon {node}", daemon)
    did = ", ".join(f"{count} calls from {source}" for source, count in calls.items())
    return f"{did}; {sizes.check() if nodes.environment['NODES_TRANSPORT'] == 'tls' else sizes.tell()}"


def start_daemons_again(nodes):
    """All of them, each with a parent that starts it again when it ends."""
    nodes.environment["NODES_SUPERVISE"] = "1"
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for node in nodes.logs:
        nodes.act("kill", node)
    marks = nodes.marks()
    for node in nodes.logs:
        nodes.act("boot", node)
    for node in nodes.logs:
        nodes.await_up(node, marks[node])


def end_by_a_call(nodes, victim):
    """From an address that is not listed: UCX 1.13 aborts for it, and the daemon with it. Returns what was seen."""
    marks, daemon, seen = nodes.marks(), nodes.daemon(victim), "ended and was started again"
    there, own = (f"10.77.0.{victim}", PORT), (UNLISTED, 0)
    call = f"import socket; socket.create_connection({there}, 9, {own}).sendall(bytes(64))"
    assert nodes.run(3, "python3", "-c", call).end() == 0
    try:
        nodes.logs[victim].find("is started again", marks[victim], ABORT_S_MAX)
    except AssertionError:
        assert nodes.daemon(victim) == daemon
        seen = "lived"
    else:
        await_all_up(nodes, victim, marks)
    pairs = start_pairs(nodes, PLACES, 1)
    for pair in pairs:
        pair.serve(TURNS_AFTER)
    for pair in pairs:
        pair.await_end(60)
        pair.end()
    return f"at 64 zeros the daemon {seen}"


def soak_strangers(nodes, seconds, seed=1):
    """While pairs of nodes 1 and 2 go on, node 3 is what a stranger has."""
    marks, is_ucx = nodes.marks(), nodes.environment["NODES_TRANSPORT"] == "ucx"
    nodes.act("kill", 3)
    for node in (1, 2):
        nodes.logs[node].find("node 3 is gone", marks[node])
    pairs = start_pairs(nodes, [(1, 2), (2, 1)], seed)
    for pair in pairs:
        pair.serve()
        pair.await_progress()
    flipper = nodes.run(2, SUBJECT, "import", seed)
    flipper.tell("flip", pairs[0].names)
    refused = flipper.find("refused", limit_s=300)
    assert refused == "refused 1024", flipper.lines
    assert flipper.end() == 0
    if not is_ucx:  # which has no key
        try_wrong_key(nodes)
    did = besiege(nodes, seconds, seed)
    for pair in pairs:
        pair.mark()
        pair.await_progress()
    if is_ucx:
        finish(pairs)
        start_daemons_again(nodes)
        did += "; " + end_by_a_call(nodes, 1)
    else:
        marks = nodes.marks()
        nodes.act("boot", 3)
        await_all_up(nodes, 3, marks)
        finish(pairs)
    return f"1,024 changed handles were refused; {did}"


# ---- All of it ----


def main():
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--transport", choices=("tls", "ucx"), default="tls")
    parser.add_argument("--hand-overs", type=int, default=100000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--strangers", type=int, default=60, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    parts = ((soak_hand_overs, 4, options.hand_overs), (soak_kills, 3, options.kills), (soak_cuts, 3, options.cuts),
             (soak_strangers, 3, options.strangers))
    for function, node_count, amount in parts:
        if not amount:
            continue
        begin_s = time.monotonic()
        try:
            with Nodes(options.build, node_count, options.transport) as nodes:
                said = function(nodes, amount, options.seed)
        except NoNodes as why:
            sys.exit(str(why))
        print(f"{options.transport}: {said}; {time.monotonic() - begin_s:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
